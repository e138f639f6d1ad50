// What is drawn in a plot, as paths that a canvas and an SVG both take: { d, stroke, width, dash, alpha, cap }.
// A view has x(t) and y(v), which give pixels, the box { left, top, width, height }, and the span of time { from, to }.
const pixel = (value) => Math.round(value * 10) / 10;

// A line whose values hold until the next, between two times.
const steps = (line, view, from, to) => {
  const first = Math.max(0, countUpTo(line.t, from) - 1);
  const last = Math.min(line.t.length, countUpTo(line.t, to));
  if (first >= last) return "";
  const low = view.top - 60, high = view.top + view.height + 60;
  const y = (value) => pixel(Math.min(high, Math.max(low, view.y(value))));
  const start = Math.max(from, line.t[first]);
  let d = "M" + pixel(view.x(start)) + " " + y(line.v[first]);
  let before = line.v[first];
  for (let at = first + 1; at < last; at++) {
    if (line.v[at] === before) continue;
    d += "H" + pixel(view.x(line.t[at])) + "V" + y(line.v[at]);
    before = line.v[at];
  }
  // The last value holds for as long as the line is known.
  return d + "H" + pixel(view.x(Math.min(to, line.t[line.t.length - 1])));
};

// When each state of a line holds within the view: [from, to, state].
const spans = (line, view) => line.states.map(([from, state], at) => {
  const next = at + 1 < line.states.length ? line.states[at + 1][0] : Infinity;
  return [Math.max(from, view.from), Math.min(next, view.to), state];
}).filter(([from, to]) => from < to);

const lineShapes = (line, view, style) => [{ d: steps(line, view, view.from, view.to), ...style }];

// A line in the color of its state.
const stateShapes = (line, view, style) => {
  const paths = new Map();
  for (const [from, to, state] of spans(line, view)) paths.set(state, (paths.get(state) || "") + steps(line, view, from, to));
  return [...paths].map(([state, d]) => ({ ...style, d, stroke: stateColor(state) }));
};

// A thin strip per line at the bottom of the plot, in the colors of its states; a short bar before it has the line's
// color.
const STRIP = 5;
const stripShapes = (line, view, row, rows, stroke) => {
  const y = view.top + view.height - (rows - row) * STRIP + STRIP / 2;
  const paths = new Map();
  for (const [from, to, state] of spans(line, view))
    paths.set(state, (paths.get(state) || "") + "M" + pixel(view.x(from)) + " " + y + "H" + pixel(Math.min(view.x(to), view.x(line.t[line.t.length - 1]))));
  const strips = [...paths].map(([state, d]) => ({ d, stroke: stateColor(state), width: STRIP - 2 }));
  return [...strips, { d: "M" + (view.left - 8) + " " + y + "h6", stroke, width: STRIP - 2, outside: true }];
};

// Packets of a kind. Losses are ticks and rings beside and around the points, so that they cover nothing.
const packetShapes = (kind, points, heights, view, style) => {
  const first = countUpTo(points.t, view.from), last = countUpTo(points.t, view.to);
  let d = "";
  const seen = new Set();
  for (let at = Math.max(0, first - 1); at < last; at++) {
    const x = pixel(view.x(points.t[at])), y = pixel(view.y(heights[at]));
    if (y < view.top - 20 || y > view.top + view.height + 20) continue;
    if (kind === "lost") d += "M" + x + " " + (y - 4) + "v-7";
    else if (kind === "spurious") d += "M" + (x - 4) + " " + y + "a4 4 0 1 0 8 0a4 4 0 1 0 -8 0";
    else {
      // What falls on the same half pixel is one dot.
      const spot = Math.round(x * 2) * 65536 + Math.round(y * 2);
      if (seen.has(spot)) continue;
      seen.add(spot);
      d += "M" + x + " " + y + "h0";
    }
  }
  const isDot = kind === "sent" || kind === "acked";
  return { d, ...style, width: isDot ? 2.6 : 1.2, cap: isDot ? "round" : "butt" };
};

// The range of values that shows the bulk: a spike does not flatten the rest. Over time, 99.5 % of the values and a
// quarter more, if the largest is more than three times that.
const bulk = (lines, from, to) => {
  const weighted = [];
  let largest = -Infinity, smallest = Infinity, total = 0;
  for (const line of lines) {
    const first = Math.max(0, countUpTo(line.t, from) - 1), last = countUpTo(line.t, to);
    for (let at = first; at < last; at++) {
      const value = line.v[at];
      largest = Math.max(largest, value);
      smallest = Math.min(smallest, value);
      const until = at + 1 < line.t.length ? line.t[at + 1] : line.t[at];
      const weight = Math.max(0, Math.min(to, until) - Math.max(from, line.t[at]));
      weighted.push([value, weight]);
      total += weight;
    }
  }
  if (largest === -Infinity) return { smallest: 0, largest: 1, most: 1 };
  weighted.sort((a, b) => a[0] - b[0]);
  let most = largest, sum = 0;
  for (const [value, weight] of weighted) {
    sum += weight;
    if (sum >= 0.995 * total) { most = value; break; }
  }
  const limit = most * 1.25;
  return { smallest, largest, most: total > 0 && limit > 0 && largest > 3 * limit ? limit : largest };
};

// The value of a peak stands to the right of its arrow, and to the left of it where the plot ends.
const PEAK_WIDTH = 65, ARROW_WIDTH = 5;
const isAtEnd = (x, view) => x > view.left + view.width - PEAK_WIDTH;
const peakSpan = (x, view) => isAtEnd(x, view) ? [x - PEAK_WIDTH, x + ARROW_WIDTH] : [x - ARROW_WIDTH, x + PEAK_WIDTH];

// What a range leaves out at the top: the largest value of each stretch, of which those are kept that have room.
const cuts = (lines, from, to, limit, view) => {
  const found = [];
  for (const line of lines) {
    let peak = null;
    const first = Math.max(0, countUpTo(line.t, from) - 1), last = countUpTo(line.t, to);
    for (let at = first; at <= last && at < line.t.length; at++) {
      if (line.v[at] > limit && at < last) {
        if (!peak || line.v[at] > peak.v) peak = { t: Math.max(from, line.t[at]), v: line.v[at], line };
      } else if (peak) { found.push(peak); peak = null; }
    }
    if (peak) found.push(peak);
  }
  found.sort((a, b) => b.v - a.v);
  const kept = [];
  for (const peak of found) {
    const x = view.x(peak.t), [left, right] = peakSpan(x, view);
    if (kept.length < 8 && kept.every(({ span }) => right < span[0] || span[1] < left)) kept.push({ ...peak, x, span: [left, right] });
  }
  return { kept, total: found.length };
};
