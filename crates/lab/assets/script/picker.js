// Which runs are shown over each other, and what of them.
const MOST_AT_FIRST = 6;
// Curves of a plot that can be followed.
const MOST_CURVES = 8;

// How many curves a run adds to the plot that has most of them.
const curvesOf = (run) => {
  const counts = new Map();
  for (const line of run.lines) counts.set(line.name, (counts.get(line.name) || 0) + 1);
  return Math.max(1, ...counts.values());
};

// As many of the runs as leave every plot with curves that can be followed; one at least.
const few = (runs, most) => {
  let curves = 0;
  return runs.filter((run, at) => at < most && ((curves += curvesOf(run)) <= MOST_CURVES || at === 0));
};

// All choices of the first place, first seed, as many as can be followed; of a comparison the first of both sets in turn.
const firstRuns = (runs) => {
  const of = (set) => {
    const mine = runs.filter((run) => run.set === set);
    const seen = new Set();
    return mine.filter((run) => run.place === mine[0].place && !seen.has(run.choice) && seen.add(run.choice));
  };
  const lists = [...new Set(runs.map((run) => run.set))].map(of);
  const longest = Math.max(0, ...lists.map((list) => list.length));
  const inTurn = [...Array(longest).keys()].flatMap((at) => lists.map((list) => list[at]).filter(Boolean));
  const kept = few(inTurn, MOST_AT_FIRST);
  // Of a comparison both sides, however many curves these are.
  return lists.length > 1 && kept.length < 2 ? inTurn.slice(0, 2) : kept;
};

const swatchBox = (run) => {
  const box = document.createElement("i");
  box.className = "key c" + (run.color % COLORS) + (run.color < COLORS ? "" : " again");
  return box;
};

const checkbox = (words, isOn, onChange, before) => {
  const label = document.createElement("label");
  const input = document.createElement("input");
  input.type = "checkbox";
  input.checked = isOn;
  input.addEventListener("change", onChange);
  label.append(input, ...(before ? [before] : []), words);
  return [label, input];
};

// A line of checkboxes for each place. Gives the runs and quantities that are chosen to `onChange`.
const buildPicker = (holder, runs, optional, onChange) => {
  const chosen = new Set(firstRuns(runs));
  const wanted = new Set();
  const boxes = new Map();
  const tell = () => onChange(runs.filter((run) => chosen.has(run)), wanted);
  const set = (list) => {
    chosen.clear();
    for (const run of list) chosen.add(run);
    for (const [run, box] of boxes) box.checked = chosen.has(run);
    tell();
  };
  const seeds = new Set(runs.map((run) => run.seed));
  // Of a single choice colors tell lines apart, not runs: the legend of each plot has them.
  const choices = new Set(runs.map((run) => run.choice));
  if (runs.length > 1) {
    const field = document.createElement("fieldset");
    field.className = "picker";
    const legend = document.createElement("legend");
    legend.textContent = "Runs over each other";
    const grid = document.createElement("div");
    grid.className = "places";
    for (const place of new Set(runs.map((run) => run.place))) {
      const mine = runs.filter((run) => run.place === place);
      const row = document.createElement("div");
      row.className = "place";
      const only = document.createElement("button");
      only.type = "button";
      only.textContent = place || "all";
      only.title = "Show only these";
      only.setAttribute("aria-label", "Show only " + (place || "all runs"));
      only.addEventListener("click", () => set(few(mine, MOST_AT_FIRST)));
      row.append(only);
      for (const run of mine) {
        const words = [run.set, run.choice || (place ? "" : run.name), seeds.size > 1 ? "seed " + run.seed : ""].filter(Boolean).join(", ");
        const [label, input] = checkbox(words || "seed " + run.seed, chosen.has(run), () => {
          if (input.checked) chosen.add(run);
          else chosen.delete(run);
          if (!chosen.size) { chosen.add(run); input.checked = true; }
          tell();
        }, choices.size > 1 ? swatchBox(run) : null);
        boxes.set(run, input);
        row.append(label);
      }
      grid.append(row);
    }
    field.append(legend, grid);
    holder.append(field);
  }
  const more = document.createElement("p");
  more.className = "more";
  for (const [name, words] of optional) {
    const [label, input] = checkbox(words, false, () => {
      if (input.checked) wanted.add(name);
      else wanted.delete(name);
      tell();
    });
    more.append(label);
  }
  if (optional.length) holder.append(more);
  tell();
};
