// Draws the time plots of a report from the JSON inside the page. No network, no dependencies but uPlot.
"use strict";
(() => {
  const holder = document.getElementById("timeplots");
  const raw = document.getElementById("recordings");
  if (!holder || !raw) return;
  const recordings = JSON.parse(raw.textContent);
  const picker = document.getElementById("pick");
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue("--" + name).trim();
  const palette = Array.from({ length: 8 }, (_, at) => colour("k" + at));
  const number = (value) => +value.toPrecision(4);
  const scaled = (value, units, step) => {
    let at = 0;
    while (Math.abs(value) >= step && at + 1 < units.length) { value /= step; at++; }
    return number(value) + " " + units[at];
  };
  const print = {
    B: (v) => scaled(v, ["B", "kB", "MB", "GB"], 1000),
    bps: (v) => scaled(v, ["bps", "kbps", "Mbps", "Gbps"], 1000),
    s: (v) => (Math.abs(v) >= 1 || v === 0 ? number(v) + " s" : number(v * 1e3) + " ms"),
    "": (v) => String(number(v)),
  };
  const names = { window: "congestion window", in_flight: "bytes in flight", rtt: "latest RTT", srtt: "smoothed RTT",
    min_rtt: "smallest RTT", queue: "queue", sojourn: "wait in the queue", delivered: "delivered", rate: "rate of delivery", pacing: "pacing rate" };
  const title = (name) => names[name] || name.replaceAll("_", " ");
  // Which series share a plot.
  const groups = [
    ["Window and bytes in flight", ["window", "in_flight"], "B"],
    ["Round-trip time", ["rtt", "srtt", "min_rtt"], "s"],
    ["Queue", ["queue"], "B"],
    ["Wait in the queue", ["sojourn"], "s"],
    ["Delivered", ["delivered"], "B"],
    ["Rates", ["rate", "pacing"], "bps"],
  ];
  let plots = [];
  let moving = false;
  const follow = (source) => {
    if (moving) return;
    const { min, max } = source.scales.x;
    if (min == null) return;
    moving = true;
    for (const plot of plots) if (plot !== source) plot.setScale("x", { min, max });
    moving = false;
  };
  const axes = (unit) => [
    { stroke: colour("soft"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line") },
      values: (_, ticks) => ticks.map((v) => number(v) + " s") },
    { stroke: colour("soft"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line") }, size: 74,
      values: (_, ticks) => ticks.map((v) => (v == null ? "" : print[unit](v))) },
  ];
  const draw = (caption, unit, series, data, height, end) => {
    const box = document.createElement("div");
    box.className = "chart";
    holder.append(box);
    const options = {
      title: caption, width: holder.clientWidth, height, series, axes: axes(unit),
      scales: { x: { time: false, range: (_, min, max) => [min == null ? 0 : min, max == null ? end : max] } },
      cursor: { sync: { key: "thalweg" }, drag: { x: true, y: false } },
      hooks: { setScale: [(plot, key) => key === "x" && follow(plot)] },
      legend: { live: true },
    };
    plots.push(new uPlot(options, data, box));
  };
  // A line that changes colour with the state: one series per state, with gaps elsewhere.
  const split = (series) => {
    if (!series.states || series.states.length < 2) return null;
    const kinds = [...new Set(series.states.map((s) => s[1]))];
    return kinds.map((kind) => {
      const t = [], v = [];
      let at = 0;
      series.t.forEach((time, index) => {
        while (at + 1 < series.states.length && series.states[at + 1][0] <= time) at++;
        const here = series.states[at][1] === kind;
        // One point beyond the change joins the pieces.
        const next = index > 0 && t.length && t[t.length - 1] === series.t[index - 1] && v[v.length - 1] !== null;
        if (here || next) { t.push(time); v.push(series.v[index]); if (!here) { t.push(time + 1e-9); v.push(null); } }
      });
      return { kind, t, v };
    });
  };
  const join = (tables) => uPlot.join(tables.map((t) => [t.t, t.v]), tables.map(() => [0, 1]));
  const step = uPlot.paths.stepped({ align: 1 });
  const forward = (data) => data.map((column, at) => {
    if (at === 0) return column;
    // Series have different times; each value holds until the next, an explicit null ends a piece.
    let last = null;
    return column.map((value) => (last = value === undefined ? last : value));
  });
  const show = (recording) => {
    for (const plot of plots) plot.destroy();
    plots = [];
    holder.textContent = "";
    const ends = recording.series.map((s) => s.t[s.t.length - 1] || 0).concat(recording.packets.flatMap((p) => p.sent.length ? [p.sent[p.sent.length - 1][0]] : []));
    const end = Math.max(0.001, ...ends);
    const subjects = [...new Set(recording.series.map((s) => s.subject).concat(recording.packets.map((p) => p.subject)))];
    for (const subject of subjects) {
      const mine = recording.series.filter((s) => s.subject === subject && s.t.length);
      const shots = recording.packets.filter((p) => p.subject === subject);
      if (!mine.length && !shots.length) continue;
      const heading = document.createElement("h3");
      heading.textContent = subject;
      holder.append(heading);
      for (const [caption, wanted, unit] of groups) {
        const chosen = wanted.flatMap((name) => mine.filter((s) => s.name === name));
        if (!chosen.length) continue;
        const series = [{ label: "time", value: (_, v) => (v == null ? "–" : v.toFixed(4) + " s") }];
        const tables = [];
        let next = 0;
        const add = (label, table, width) => {
          tables.push(table);
          series.push({ label, stroke: palette[next++ % palette.length], width, paths: step, points: { show: false },
            value: (_, v) => (v == null ? "–" : print[unit](v)) });
        };
        for (const s of chosen) {
          // Of two sets over each other, colours tell the sets apart.
          const pieces = s.name === "window" && !s.set ? split(s) : null;
          if (pieces) for (const piece of pieces) add("window: " + piece.kind, piece, 2);
          else add((s.set ? s.set + ": " : "") + title(s.name), s, s.name === "window" ? 2 : 1.3);
        }
        draw(caption, unit, series, forward(join(tables)), caption.startsWith("Window") ? 300 : 200, end);
      }
      for (const packets of shots.filter((p) => p.sent.length)) {
        const kinds = [["sent", "k0", 3], ["acked", "k2", 3], ["lost", "k5", 7], ["spurious", "k3", 9]].filter(([kind]) => packets[kind].length);
        const series = [{ label: "time", value: (_, v) => (v == null ? "–" : v.toFixed(4) + " s") }];
        for (const [kind, stroke, size] of kinds)
          series.push({ label: kind === "lost" ? "declared lost" : kind === "spurious" ? "lost, but arrived" : kind, stroke: colour(stroke),
            paths: () => null, points: { show: true, size, width: kind === "sent" || kind === "acked" ? 0 : 1.6, fill: kind === "sent" || kind === "acked" ? colour(stroke) : "transparent" },
            value: (_, v) => (v == null ? "–" : "packet " + v) });
        const data = join(kinds.map(([kind]) => {
          // uPlot wants each time once; packets of one burst are a nanosecond apart.
          const t = [], v = [];
          for (const [time, packet] of packets[kind]) { t.push(t.length && time <= t[t.length - 1] ? t[t.length - 1] + 1e-9 : time); v.push(packet); }
          return { t, v };
        }));
        draw((packets.set ? packets.set + ": packet" : "Packet") + " numbers over time", "", series, data.map((c, at) => (at ? c.map((v) => (v === undefined ? null : v)) : c)), 340, end);
      }
    }
    window.thalwegPlots = plots;
  };
  picker.addEventListener("change", () => show(recordings[picker.value]));
  window.addEventListener("resize", () => { for (const plot of plots) plot.setSize({ width: holder.clientWidth, height: plot.height }); });
  if (recordings.length) show(recordings[0]);
})();
