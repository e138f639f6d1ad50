// The plots over time of the runs that are picked: one for each quantity, all runs and flows over each other.
const GROUPS = [
  { title: "Window and bytes in flight", names: ["window", "in_flight"], unit: "B", height: 290, axis: "bytes" },
  { title: "Round-trip time", names: ["rtt", "srtt", "min_rtt"], unit: "s", height: 210, axis: "RTT" },
  { title: "Queue", names: ["queue"], unit: "B", height: 190, axis: "queue" },
  { title: "Wait in the queue", names: ["sojourn"], unit: "s", height: 190, axis: "wait" },
  { title: "Drops and marks by the queue", names: ["early_dropped", "marked"], unit: "", height: 190, axis: "packets" },
  { title: "Probability of a drop or mark", names: ["probability"], unit: "", height: 190, axis: "probability" },
  { title: "Forecast of the load", names: ["forecast_ms", "load_ms", "candidate_ms"], unit: "ms", height: 230, axis: "work at the link" },
  { title: "Error of the candidate", names: ["error"], unit: "", height: 150, axis: "doublings" },
  { title: "Delivered", names: ["delivered"], unit: "B", height: 210, axis: "delivered" },
  { title: "Rates", names: ["rate", "pacing"], unit: "bps", height: 210, axis: "rate" },
];
// Of several runs each quantity has a plot of its own; these only if they are asked for.
const ON_REQUEST = ["srtt", "min_rtt", "pacing"];
const LINKS = ["queue", "sojourn", "early_dropped", "marked", "probability"];
// What a queue did to packets, by the name of its count: drawn on the queue and the wait of a single run.
const ACTIONS = { early_dropped: { mark: "tick", color: "s1" }, marked: { mark: "ring", color: "s5" } };
const FAINT = ["in_flight", "srtt", "pacing"];

// What tells the lines of a plot apart, in words: only what differs.
const labels = (lines, withQuantity) => {
  const differs = (get) => new Set(lines.map(get)).size > 1;
  const parts = [
    [(line) => line.run.set, differs((line) => line.run.set)],
    [(line) => line.run.place, differs((line) => line.run.place)],
    [(line) => line.run.choice, differs((line) => line.run.choice)],
    [(line) => "seed " + line.run.seed, differs((line) => line.run.seed)],
    [(line) => line.subject, differs((line) => line.subject)],
    [(line) => quantity(line.name || ""), withQuantity],
  ].filter(([, counts]) => counts).map(([get]) => get);
  return lines.map((line) => parts.map((get) => get(line)).filter(Boolean).join(", ") || line.subject);
};

// Colors tell choices apart, dashes the flows; of a single choice colors tell the flows apart.
const styles = (lines) => {
  const choices = new Set(lines.map((line) => line.run.choice));
  const rest = (line) => [line.run.set, line.run.place, line.run.seed, line.subject, line.name].join("\n");
  const keys = [...new Set(lines.map(rest))];
  // Data mostly come down, so what comes down has the plainest lines.
  const isUp = (key) => Number(key.includes(".up\n"));
  keys.sort((a, b) => isUp(a) - isUp(b));
  const ranks = [...choices];
  return lines.map((line) => {
    const at = keys.indexOf(rest(line));
    // The first choice lies on top; what is under it is wider, so that lines that agree can both be seen.
    const wider = 0.7 * Math.min(ranks.indexOf(line.run.choice), 3);
    // Colors that come a second time are dashed from the start.
    const again = line.run.color >= COLORS ? 1 : 0;
    if (choices.size > 1) return { index: line.run.color, dash: DASHES[(at + again) % DASHES.length], wider, faint: at };
    return { index: line.run.color + at, dash: at >= COLORS ? DASHES[1] : [], wider, faint: 0 };
  });
};

// Links whose queue is next to nothing, of several runs, only fill the legend: [the others, how many are left out].
const IDLE = 0.02;
const busy = (lines) => {
  const most = lines.map((line) => line.v.reduce((a, b) => Math.max(a, b), 0));
  const largest = Math.max(...most);
  const kept = lines.filter((_, at) => most[at] > IDLE * largest);
  return kept.length ? [kept, lines.length - kept.length] : [lines, 0];
};

const about = (line) => [line.run.set, line.run.place, line.run.choice, line.run.seed, line.subject];
const ABOUT = ["set", "place", "choice", "seed", "flow_or_link"];

// When a count of a link grew, and what the line of that link says then.
const actionsOn = (line, all) => Object.keys(ACTIONS).flatMap((name) => {
  const count = all.find((other) => other.run === line.run && other.subject === line.subject && other.name === name);
  const t = count ? [...count.t].filter((_, at) => count.v[at] > (at ? count.v[at - 1] : 0)) : [];
  return t.length ? [{ name, t, n: t.map((time) => valueAt(line, time) ?? 0) }] : [];
});

const lineModel = (title, name, unit, axis, height, all, end, isAlone, actions = []) => {
  const isOfOne = new Set(all.map((line) => line.name)).size === 1;
  const [lines, idle] = !isAlone && isOfOne && LINKS.includes(all[0].name) ? busy(all) : [all, 0];
  const looks = styles(all).filter((_, at) => lines.includes(all[at]));
  const words = labels(lines, new Set(lines.map((line) => line.name)).size > 1);
  const byState = (line) => isAlone && line.name === "window" && line.states.length > 1;
  const strips = isAlone ? [] : lines.filter((line) => line.name === "window" && line.states.length);
  const known = [...new Set(lines.filter((line) => byState(line) || strips.includes(line)).flatMap((line) => line.states.map((s) => s[1])))];
  // Beside a line in the colors of its states no other has one of these.
  const beside = 3;
  if (lines.some(byState)) looks.forEach((look, at) => { if (!byState(lines[at])) look.index = beside; });
  const style = (at) => ({
    stroke: choiceColor(looks[at].index), dash: looks[at].dash,
    width: (lines[at].name === "window" ? 1.8 : 1.2) + looks[at].wider, alpha: isAlone && FAINT.includes(lines[at].name) ? 0.8 : 1,
  });
  const visible = (hidden) => lines.filter((_, at) => !hidden.has(at));
  const legend = lines.map((line, at) => ({
    key: at, label: words[at], stroke: () => (byState(line) ? color("fg") : style(at).stroke),
    dash: looks[at].dash, alpha: style(at).alpha,
    value: (time) => {
      const value = valueAt(line, time);
      const state = strips.includes(line) || byState(line) ? stateAt(line, time) : "";
      return value == null ? "" : withUnit(value, unit) + (state ? ", " + state : "");
    },
  }));
  for (const state of known)
    legend.push({ label: state, stroke: () => stateColor(state), mark: strips.length ? "strip" : "line" });
  for (const { name: action, t } of actions)
    legend.push({ key: action, label: quantity(action) + " (" + t.length + "×)", mark: ACTIONS[action].mark, stroke: () => color(ACTIONS[action].color) });
  if (idle) legend.push({ label: idle + (idle > 1 ? " idle links" : " idle link") + " left out", mark: "none", stroke: () => color("soft") });
  return {
    title, name, unit, quantity: axis, height, end, legend,
    shapes: (view, hidden) => {
      const drawn = lines.flatMap((line, at) => {
        if (hidden.has(at)) return [];
        return byState(line) ? stateShapes(line, view, style(at)) : lineShapes(line, view, style(at));
      });
      // What is said first lies on top.
      drawn.reverse();
      for (const action of actions)
        if (!hidden.has(action.name)) {
          const kind = ACTIONS[action.name].mark === "tick" ? "lost" : "spurious";
          drawn.push(packetShapes(kind, action, action.n, view, { stroke: color(ACTIONS[action.name].color), alpha: 0.9 }));
        }
      const rows = strips.map((line, row) => stripShapes(line, view, row, strips.length, style(lines.indexOf(line)).stroke));
      return [...drawn, ...rows.flat()];
    },
    range: (from, to, isWhole) => {
      const { smallest, largest, most } = bulk(lines, from, to);
      const top = isWhole ? largest : most;
      const cut = most < largest;
      // Times that are all alike are not shown from zero on.
      const bottom = unit === "s" && smallest > 0.5 * top ? smallest - (top - smallest) * 0.08 - top * 0.01 : Math.min(0, smallest);
      const max = top > bottom ? top + (top - bottom) * (cut && !isWhole ? 0 : 0.06) : bottom + 1;
      const room = strips.length ? (strips.length * STRIP + 4) / (height - 70) : 0;
      return { min: bottom - ((max - bottom) * room) / (1 - room), max, least: bottom, cut: cut && !isWhole ? true : false };
    },
    cuts: (from, to, limit, view, hidden) => {
      const found = cuts(visible(hidden), from, to, limit, view);
      for (const peak of found.kept) {
        const at = lines.indexOf(peak.line);
        peak.stroke = () => (byState(peak.line) ? stateColor(stateAt(peak.line, peak.t)) : style(at).stroke);
      }
      return found;
    },
    csv: () => csvText([[...ABOUT, "quantity", "unit", "t_s", "value", "state"],
      ...all.flatMap((line) => [...line.t].map((t, at) => [...about(line), line.name, unit, +t.toFixed(6), +line.v[at].toPrecision(9), stateAt(line, t)]))]),
  };
};

const packetModel = (list, end, byBytes) => {
  const isAlone = list.length === 1;
  const looks = styles(list.map((packets) => ({ ...packets, name: "" })));
  const words = labels(list.map((packets) => ({ ...packets, name: "" })), false);
  // Dots have no dashes: of several flows in one color the further ones are fainter.
  const strength = (at) => [0.95, 0.5, 0.3][looks[at].faint % 3];
  const marks = { sent: "dot", acked: "dot", lost: "tick", spurious: "ring" };
  const kinds = Object.keys(KIND_NAMES).filter((kind) => list.some((packets) => packets[kind].t.length));
  const heights = list.map((packets) => {
    const bytes = byBytes ? bytesOf(packets) : null;
    const result = {};
    for (const kind of kinds) result[kind] = bytes ? packets[kind].n.map(bytes) : packets[kind].n;
    return result;
  });
  const count = (kind) => list.reduce((sum, packets) => sum + packets[kind].total, 0).toLocaleString("en");
  const last = (packets, kind, time) => {
    const at = countUpTo(packets[kind].t, time) - 1;
    return at < 0 ? "" : "packet " + packets[kind].n[at];
  };
  const legend = isAlone ? [] : list.map((packets, at) => ({
    key: "run " + at, label: words[at], mark: "dot", stroke: () => choiceColor(looks[at].index), alpha: strength(at),
    value: (time) => last(packets, "sent", time),
  }));
  for (const kind of kinds)
    legend.push({
      key: kind, label: KIND_NAMES[kind] + " (" + count(kind) + ")", mark: marks[kind], alpha: kind === "acked" && !isAlone ? 0.4 : 1,
      stroke: () => (isAlone ? color(KINDS[kind]) : color("soft")), value: isAlone ? (time) => last(list[0], kind, time) : null,
    });
  return {
    title: byBytes ? "Bytes sent over time, by packet" : "Packet numbers over time", name: "packets", unit: byBytes ? "B" : "", quantity: byBytes ? "bytes sent" : "packet number",
    height: 340, end, legend,
    // The first run lies on top, as with lines.
    shapes: (view, hidden) => list.map((packets, at) => {
      if (hidden.has("run " + at)) return [];
      return kinds.filter((kind) => !hidden.has(kind)).map((kind) => {
        const stroke = isAlone ? color(KINDS[kind]) : choiceColor(looks[at].index);
        return packetShapes(kind, packets[kind], heights[at][kind], view, { stroke, alpha: strength(at) * (kind === "acked" ? (isAlone ? 0.75 : 0.4) : 1) });
      });
    }).reverse().flat(),
    range: (from, to) => {
      let min = Infinity, max = -Infinity;
      list.forEach((packets, at) => {
        for (const kind of kinds) {
          const first = Math.max(0, countUpTo(packets[kind].t, from) - 1), until = countUpTo(packets[kind].t, to);
          for (let index = first; index < until; index++) {
            min = Math.min(min, heights[at][kind][index]);
            max = Math.max(max, heights[at][kind][index]);
          }
        }
      });
      if (min > max) [min, max] = [0, 1];
      const room = Math.max((max - min) * 0.05, 1);
      return { min: min - room, max: max + room, least: 0, cut: false };
    },
    cuts: () => ({ kept: [], total: 0 }),
    csv: () => csvText([[...ABOUT, "what", "t_s", "packet", "bytes_sent", "packets"],
      ...list.flatMap((packets) => {
        const bytes = bytesOf(packets);
        return kinds.flatMap((kind) => [...packets[kind].t].map((t, at) =>
          [...about(packets), kind, +t.toFixed(6), packets[kind].n[at], bytes ? Math.round(bytes(packets[kind].n[at])) : "", packets[kind].count ? packets[kind].count[at] : 1]));
      })]),
  };
};

const drawAll = (holder, runs, wanted, byBytes) => {
  for (const plot of plots.splice(0)) plot.destroy();
  const end = Math.max(0.001, ...runs.map((run) => run.end));
  const all = runs.flatMap((run) => run.lines);
  const packets = runs.flatMap((run) => run.packets);
  const flows = new Set(all.filter((line) => line.name === "delivered" || line.name === "window").map((line) => line.subject));
  const isAlone = runs.length === 1 && flows.size <= 1;
  const isOne = runs.length === 1;
  const draw = (title, lines, unit, axis, height) => {
    if (!lines.length) return;
    const hosts = isOne ? lines.filter((line) => line.name === "queue" || line.name === "sojourn") : [];
    const actions = hosts.flatMap((line) => actionsOn(line, all));
    new TimePlot(holder, lineModel(title, slug(title), unit, axis, height, lines, end, isAlone, actions));
  };
  const pick = (names) => names.flatMap((name) => all.filter((line) => line.name === name));
  const mentioned = new Set(GROUPS.flatMap((group) => group.names));
  const others = [...new Set(all.map((line) => line.name))].filter((name) => !mentioned.has(name));
  const groups = [...GROUPS, ...others.map((name) => ({ title: capital(quantity(name)), names: [name], height: 200, axis: quantity(name) }))];
  for (const group of groups) {
    // What a queue says of itself belongs together, however many flows there are.
    const isOfLinks = group.names.every((name) => LINKS.includes(name) || name.endsWith("_ms"));
    if (isAlone || group.names.length === 1 || (isOne && isOfLinks)) draw(group.title, pick(group.names), group.unit ?? (pick(group.names)[0] || {}).unit ?? "", group.axis, group.height);
    else
      for (const name of group.names)
        if (!ON_REQUEST.includes(name) || wanted.has(name)) draw(capital(quantity(name)), pick([name]), group.unit, quantity(name), group.height);
  }
  if (packets.length) {
    const plot = new TimePlot(holder, packetModel(packets, end, byBytes.on));
    if (packets.every((it) => it.sent.b)) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "bytes";
      button.textContent = "By bytes";
      button.setAttribute("aria-pressed", String(byBytes.on));
      button.addEventListener("click", () => {
        byBytes.on = !byBytes.on;
        byBytes.draw();
        plots[plots.length - 1].box.querySelector("button.bytes").focus();
      });
      plot.box.querySelector(".foot").prepend(button);
    }
  }
  window.thalwegPlots = plots;
};

const timeHolder = document.getElementById("timeplots");
const timeData = document.getElementById("recordings");
if (timeHolder && timeData) {
  const runs = readRecordings(timeData.textContent);
  const controls = document.createElement("div");
  const holder = document.createElement("div");
  timeHolder.append(controls, holder);
  let shown = [], wanted = new Set();
  const byBytes = { on: false, draw: () => {
    const before = plots.length ? { ...plots[0].uplot.scales.x } : null;
    drawAll(holder, shown, wanted, byBytes);
    if (before && plots.length && before.max <= plots[0].model.end && before.max - before.min < plots[0].model.end * 0.999) zoom(before.min, before.max);
  } };
  // A single flow shows everything anyway.
  const isMany = runs.length > 1 || new Set(runs.flatMap((run) => run.packets).map((packets) => packets.subject)).size > 1;
  const optional = !isMany ? [] : ON_REQUEST.filter((name) => runs.some((run) => run.lines.some((line) => line.name === name))).map((name) => [name, capital(quantity(name))]);
  if (runs.length)
    buildPicker(controls, runs, optional, (list, names) => { [shown, wanted] = [list, names]; byBytes.draw(); });
  const redraw = () => { for (const plot of plots) plot.redraw(); };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  let width = widthOf(holder);
  new ResizeObserver(() => {
    if (widthOf(holder) === width || isPrinting) return;
    width = widthOf(holder);
    for (const plot of plots) plot.resize(width);
  }).observe(holder);
  // Paper is white and narrower than a screen.
  const PAPER = 680;
  addEventListener("beforeprint", () => { isPrinting = true; redraw(); for (const plot of plots) plot.resize(Math.min(width, PAPER)); });
  addEventListener("afterprint", () => { isPrinting = false; redraw(); for (const plot of plots) plot.resize(width); });
}
document.documentElement.dataset.ready = performance.now().toFixed(0);
