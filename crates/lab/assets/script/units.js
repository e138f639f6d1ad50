// Numbers with their units, and names of quantities.
const brief = (value, digits = 4) => String(+value.toPrecision(digits));
const SCALES = {
  B: [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]],
  bps: [[1e9, "Gbps"], [1e6, "Mbps"], [1e3, "kbps"], [1, "bps"]],
  s: [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]],
  "": [[1, ""]],
};
// The scale in which the largest value of an axis is easy to read: [factor, name].
const scaleOf = (unit, largest) => {
  const scales = SCALES[unit] || [[1, unit]];
  return scales.find(([factor]) => largest >= factor) || scales[scales.length - 1];
};
const withUnit = (value, unit) => {
  if (value === 0) return "0 " + (unit === "bps" ? "bps" : unit);
  const [factor, name] = scaleOf(unit, Math.abs(value));
  return (brief(value / factor) + " " + name).trim();
};
const seconds = (value) => (value == null ? "" : value.toFixed(4) + " s");
const QUANTITIES = {
  window: "congestion window", in_flight: "bytes in flight", rtt: "latest RTT", srtt: "smoothed RTT", min_rtt: "smallest RTT",
  queue: "queue", sojourn: "wait in the queue", delivered: "delivered", rate: "rate of delivery", pacing: "pacing rate",
  early_dropped: "dropped early", marked: "marked", probability: "probability",
  candidate_ms: "candidate for the round trip", load_ms: "load", forecast_ms: "forecast", error: "error of the candidate",
};
const quantity = (name) => QUANTITIES[name] || name.replaceAll("_", " ");
const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
// A piece of a file name.
const slug = (text) => text.toLowerCase().replace(/[^a-z0-9.+]+/g, "-").replace(/^-|-$/g, "").slice(0, 80) || "plot";
// A cell of CSV (RFC 4180).
const cell = (value) => (/[",\r\n]/.test(value) ? '"' + String(value).replaceAll('"', '""') + '"' : String(value ?? ""));
const csvText = (rows) => rows.map((row) => row.map(cell).join(",") + "\n").join("");
