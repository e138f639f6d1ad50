// The recordings of the page: numbers are kept as differences (crates/lab/src/report/thin.rs).
const sums = (differences, step) => {
  const values = new Float64Array(differences.length);
  let sum = 0;
  for (let at = 0; at < differences.length; at++) values[at] = (sum += differences[at]) * step;
  return values;
};
const points = (raw) => ({
  total: raw.total, t: sums(raw.t, 1e-6), n: sums(raw.n, 1), b: raw.b ? sums(raw.b, 1) : null, count: raw.count || null,
});
const KIND_NAMES = { sent: "sent", acked: "acknowledged", lost: "declared lost", spurious: "lost, but arrived" };

const readRecordings = (text) => JSON.parse(text).map((raw, number) => {
  const run = { number, name: raw.name, place: raw.place, choice: raw.choice, color: raw.color, seed: raw.seed, set: raw.set || "" };
  run.lines = raw.series.filter((line) => line.t.length).map((line) => {
    let at = 0;
    const states = (line.states || []).map(([after, kind]) => [(at += after) * 1e-6, line.kinds[kind]]);
    return { run, subject: line.subject, name: line.name, unit: line.unit, t: sums(line.t, 1e-6), v: sums(line.v, line.step), states };
  });
  run.packets = raw.packets.filter((plot) => plot.sent.t.length).map((plot) => {
    const packets = { run, subject: plot.subject };
    for (const kind in KIND_NAMES) packets[kind] = points(plot[kind]);
    return packets;
  });
  const last = (times) => times[times.length - 1] || 0;
  run.end = Math.max(0, ...run.lines.map((line) => last(line.t)), ...run.packets.map((packets) => last(packets.sent.t)));
  return run;
});

// How many of the ascending values are at most `value`.
const countUpTo = (values, value) => {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low;
};
// The value that holds at a time; none before the first.
const valueAt = (line, time) => {
  const count = countUpTo(line.t, time);
  return count ? line.v[count - 1] : null;
};
const stateAt = (line, time) => {
  let found = "";
  for (const [from, state] of line.states) {
    if (from > time) break;
    found = state;
  }
  return found;
};
// The bytes sent up to a packet, from those of the packets around it that were kept.
const bytesOf = (packets) => {
  const { n, b } = packets.sent;
  if (!b) return null;
  // What TCP sends again has its old number; the first of each counts.
  const numbers = [], bytes = [];
  for (let at = 0; at < n.length; at++)
    if (!numbers.length || n[at] > numbers[numbers.length - 1]) { numbers.push(n[at]); bytes.push(b[at]); }
  return (number) => {
    const at = countUpTo(numbers, number) - 1;
    if (at < 0) return bytes[0] || 0;
    if (numbers[at] === number || at + 1 >= numbers.length) return bytes[at];
    const share = (number - numbers[at]) / (numbers[at + 1] - numbers[at]);
    return bytes[at] + share * (bytes[at + 1] - bytes[at]);
  };
};
