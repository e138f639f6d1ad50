// A plot over time: uPlot has the canvas, axes, cursor and zoom; what is in it comes from a model:
// { title, name, unit, quantity, height, end, legend, shapes(view, isHidden), range(from, to, whole), cuts(…), csv() }.
const plots = [];
let zooming = false;

// All plots show the same span of time.
const zoom = (from, to) => {
  if (zooming) return;
  zooming = true;
  for (const plot of plots) plot.show(from, to);
  zooming = false;
};

// As wide as the page allows; what is folded away has no width until it is opened.
const LEAST_WIDTH = 300, FOLDED_WIDTH = 900;
const widthOf = (holder) => Math.max(LEAST_WIDTH, holder.clientWidth || FOLDED_WIDTH);

const PEAK_FONT = "11px " + FONT;

class TimePlot {
  constructor(holder, model) {
    this.model = model;
    this.whole = false;
    this.hidden = new Set();
    this.range = model.range(0, model.end, false);
    this.box = document.createElement("section");
    this.box.className = "chart";
    this.box.setAttribute("aria-label", model.title);
    const heading = document.createElement("h4");
    heading.textContent = model.title;
    this.area = document.createElement("div");
    this.area.className = "area";
    this.area.tabIndex = 0;
    this.area.setAttribute("role", "group");
    this.area.setAttribute("aria-label", model.title + ". Arrow keys move, plus and minus zoom, 0 shows everything.");
    this.area.addEventListener("keydown", (event) => this.onKey(event));
    const foot = document.createElement("div");
    foot.className = "foot";
    const below = document.createElement("div");
    below.className = "below";
    below.append(this.legend(), foot);
    foot.append(saveButtons({ name: model.name, title: model.title, svg: () => this.svg(), csv: model.csv }));
    this.box.append(heading, this.area, below);
    holder.append(this.box);
    if (this.range.cut) {
      this.button = document.createElement("button");
      this.button.type = "button";
      this.button.className = "whole";
      this.button.textContent = "Whole range";
      this.button.setAttribute("aria-pressed", "false");
      this.button.addEventListener("click", () => {
        this.whole = !this.whole;
        this.button.setAttribute("aria-pressed", String(this.whole));
        const { min, max } = this.uplot.scales.x;
        this.show(min, max);
      });
      foot.prepend(this.button);
    }
    this.uplot = new uPlot(this.options(widthOf(holder)), [[0, model.end], [null, null]], this.area);
    plots.push(this);
  }

  options(width) {
    const grid = { stroke: () => color("line"), width: 1 };
    const axis = { stroke: () => color("soft"), grid, ticks: { ...grid, size: 5 }, font: "12px " + FONT, labelFont: "12px " + FONT };
    // As many digits as tell ticks apart.
    const said = (values, factor, digits) => values.map((v) => (v == null ? "" : brief(v / factor, digits)));
    const apart = (values, factor) => {
      for (let digits = 6; digits < 14; digits++) {
        const texts = said(values, factor, digits);
        if (new Set(texts).size === new Set(values).size) return texts;
      }
      return said(values, factor, 14);
    };
    const ticks = (factor) => (_, values) => apart(values, factor).map((text, at) => (values[at] < this.range.least ? "" : text));
    return {
      width, height: this.model.height,
      legend: { show: false },
      series: [{}, {}],
      axes: [
        { ...axis, label: "time (s)", labelSize: 20, size: 32, values: ticks(1) },
        { ...axis, label: () => this.title(), labelSize: 20, size: 58,
          values: (u, values) => ticks(this.scale()[0])(u, values) },
      ],
      scales: {
        x: { time: false, range: (_, min, max) => [min == null ? 0 : min, max == null ? this.model.end : max] },
        y: { range: () => [this.range.min, this.range.max] },
      },
      cursor: { sync: { key: "thalweg" }, drag: { x: true, y: false }, points: { show: false } },
      hooks: {
        setScale: [(u, key) => key === "x" && u.scales.x.min != null && zoom(u.scales.x.min, u.scales.x.max)],
        setCursor: [(u) => this.tell(u.cursor.left >= 0 ? u.posToVal(u.cursor.left, "x") : null)],
        draw: [(u) => this.paint(u)],
      },
    };
  }

  scale() {
    return scaleOf(this.model.unit, Math.max(Math.abs(this.range.min), Math.abs(this.range.max)));
  }

  title() {
    const name = this.scale()[1];
    return name ? this.model.quantity + " (" + name + ")" : this.model.quantity;
  }

  show(from, to) {
    this.range = this.model.range(from, to, this.whole);
    this.uplot.batch(() => {
      const { x } = this.uplot.scales;
      if (x.min !== from || x.max !== to) this.uplot.setScale("x", { min: from, max: to });
      this.uplot.setScale("y", { min: this.range.min, max: this.range.max });
    });
  }

  // The plot's area in CSS pixels from the corner of the canvas.
  view(u) {
    const ratio = uPlot.pxRatio;
    const box = { left: u.bbox.left / ratio, top: u.bbox.top / ratio, width: u.bbox.width / ratio, height: u.bbox.height / ratio };
    const { x, y } = u.scales;
    return {
      ...box, from: x.min, to: x.max,
      x: (t) => box.left + ((t - x.min) / (x.max - x.min)) * box.width,
      y: (v) => box.top + box.height - ((v - y.min) / (y.max - y.min)) * box.height,
    };
  }

  peaks(view) {
    if (!this.range.cut) return [];
    const { kept } = this.model.cuts(view.from, view.to, this.range.max, view, this.hidden);
    return kept.map((peak) => {
      const text = withUnit(peak.v, this.model.unit);
      const [anchor, away] = isAtEnd(peak.x, view) ? ["end", -7] : ["start", 7];
      return { x: peak.x, y: view.top, stroke: peak.stroke(), text, anchor, textX: peak.x + away };
    });
  }

  paint(u) {
    const { ctx } = u;
    const view = this.view(u);
    ctx.save();
    ctx.scale(uPlot.pxRatio, uPlot.pxRatio);
    const draw = (shape) => {
      ctx.strokeStyle = shape.stroke;
      ctx.lineWidth = shape.width;
      ctx.globalAlpha = shape.alpha ?? 1;
      ctx.lineCap = shape.cap || "butt";
      ctx.lineJoin = "round";
      ctx.setLineDash(shape.dash || []);
      ctx.stroke(new Path2D(shape.d));
    };
    const shapes = this.model.shapes(view, this.hidden).filter((shape) => shape.d);
    ctx.save();
    ctx.beginPath();
    ctx.rect(view.left, view.top - 1, view.width, view.height + 2);
    ctx.clip();
    shapes.filter((shape) => !shape.outside).forEach(draw);
    ctx.restore();
    shapes.filter((shape) => shape.outside).forEach(draw);
    ctx.globalAlpha = 1;
    ctx.font = PEAK_FONT;
    ctx.textBaseline = "alphabetic";
    for (const peak of this.peaks(view)) {
      ctx.fillStyle = peak.stroke;
      ctx.fill(new Path2D(TimePlot.arrow(peak)));
      ctx.textAlign = peak.anchor;
      ctx.fillText(peak.text, peak.textX, peak.y + 11);
    }
    ctx.restore();
  }

  static arrow({ x, y }) {
    return "M" + pixel(x) + " " + y + "l4.5 8h-9z";
  }

  legend() {
    const list = document.createElement("div");
    list.className = "legend";
    this.values = [];
    this.time = document.createElement("span");
    this.time.className = "time";
    for (const entry of this.model.legend) {
      const item = document.createElement(entry.key == null ? "span" : "button");
      item.className = "entry";
      const value = document.createElement("span");
      value.className = "value";
      item.append(TimePlot.swatch(entry), entry.label, value);
      if (entry.key != null) {
        item.type = "button";
        item.setAttribute("aria-pressed", "true");
        item.title = "Show or hide";
        item.addEventListener("click", () => {
          const isHidden = !this.hidden.delete(entry.key);
          if (isHidden) this.hidden.add(entry.key);
          item.setAttribute("aria-pressed", String(!isHidden));
          this.uplot.redraw(false);
        });
      }
      this.values.push([entry, value]);
      list.append(item);
    }
    list.append(this.time);
    return list;
  }

  static swatch(entry) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("class", "swatch");
    svg.setAttribute("viewBox", "0 0 22 12");
    svg.setAttribute("aria-hidden", "true");
    svg.innerHTML = TimePlot.sample(entry, 1, 6);
    entry.svg = svg;
    return svg;
  }

  // A sample of a line or mark, 20 pixels wide, its middle at this height.
  static sample(entry, x, y) {
    const stroke = entry.stroke(), alpha = entry.alpha ?? 1;
    if (entry.mark === "none") return "";
    if (entry.mark === "dot") return `<circle cx="${x + 10}" cy="${y}" r="2.6" fill="${stroke}" fill-opacity="${alpha}"/>`;
    if (entry.mark === "ring") return `<circle cx="${x + 10}" cy="${y}" r="4" fill="none" stroke="${stroke}" stroke-width="1.2"/>`;
    if (entry.mark === "tick") return `<path d="M${x + 10} ${y - 4}v8" stroke="${stroke}" stroke-width="1.4"/>`;
    const dash = entry.dash && entry.dash.length ? ` stroke-dasharray="${entry.dash.join(" ")}"` : "";
    const width = entry.mark === "strip" ? STRIP : entry.width || 2;
    return `<path d="M${x} ${y}h20" stroke="${stroke}" stroke-opacity="${alpha}" stroke-width="${width}"${dash}/>`;
  }

  // What holds at the cursor.
  tell(time) {
    this.time.textContent = seconds(time);
    for (const [entry, value] of this.values)
      value.textContent = time == null || !entry.value ? "" : entry.value(time);
  }

  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { min, max } = this.uplot.scales.x;
    const { end } = this.model;
    const width = max - min, middle = (min + max) / 2;
    const move = (by) => { const from = Math.min(Math.max(0, min + by), Math.max(0, end - width)); return [from, from + width]; };
    const around = (share) => {
      const wide = Math.min(end, Math.max(width * share, end * 1e-5));
      const from = Math.min(Math.max(0, middle - wide / 2), end - wide);
      return [from, from + wide];
    };
    const spans = {
      ArrowLeft: () => move(-width / 5), ArrowRight: () => move(width / 5),
      ArrowUp: () => around(1 / 1.5), ArrowDown: () => around(1.5),
      "+": () => around(0.5), "=": () => around(0.5), "-": () => around(2), 0: () => [0, end], Home: () => [0, end],
    };
    if (!spans[event.key]) return;
    event.preventDefault();
    zoom(...spans[event.key]());
  }

  resize(width) {
    this.uplot.setSize({ width, height: this.model.height });
  }

  // Colors may have changed.
  redraw() {
    for (const [entry] of this.values) entry.svg.innerHTML = TimePlot.sample(entry, 1, 6);
    this.uplot.redraw(false, true);
  }

  destroy() {
    this.uplot.destroy();
    this.box.remove();
  }

  svg() {
    const u = this.uplot;
    const view = this.view(u);
    const head = 26;
    const entries = this.model.legend.filter((entry) => entry.key == null || !this.hidden.has(entry.key));
    // The legend in rows below.
    let x = view.left, row = 0;
    const places = entries.map((entry) => {
      const wide = 34 + entry.label.length * 6.6;
      if (x + wide > u.width && x > view.left) { x = view.left; row++; }
      const place = [x, row];
      x += wide;
      return place;
    });
    const height = head + u.height + (row + 1) * 18 + 8;
    const text = (x, y, words, more = "") => `<text x="${pixel(x)}" y="${pixel(y)}" ${more}>${escaped(words)}</text>`;
    const parts = [`<rect width="${u.width}" height="${height}" fill="${color("bg")}"/>`];
    parts.push(text(view.left, 18, this.model.title, `font-size="14" font-weight="600" fill="${color("fg")}"`));
    parts.push(`<g transform="translate(0 ${head})">`);
    u.axes.forEach((axis, at) => {
      (axis._splits || []).forEach((split, index) => {
        const label = axis._values[index];
        if (split == null || label === "" || label == null) return;
        const isX = at === 0;
        const place = isX ? view.x(split) : view.y(split);
        const from = isX ? [place, view.top] : [view.left, place];
        parts.push(`<path d="M${pixel(from[0])} ${pixel(from[1])}${isX ? "v" + view.height : "h" + view.width}" stroke="${color("line")}"/>`);
        parts.push(isX ? text(place, view.top + view.height + 18, label, 'text-anchor="middle"') : text(view.left - 8, place + 4, label, 'text-anchor="end"'));
      });
    });
    const bottom = view.top + view.height;
    parts.push(text(view.left + view.width / 2, bottom + 40, "time (s)", 'text-anchor="middle"'));
    parts.push(text(0, 0, this.title(), `text-anchor="middle" transform="translate(14 ${pixel(view.top + view.height / 2)}) rotate(-90)"`));
    const path = (shape) => `<path d="${shape.d}" fill="none" stroke="${shape.stroke}" stroke-width="${shape.width}" stroke-linejoin="round"` +
      (shape.alpha != null ? ` stroke-opacity="${shape.alpha}"` : "") + (shape.cap ? ` stroke-linecap="${shape.cap}"` : "") +
      (shape.dash && shape.dash.length ? ` stroke-dasharray="${shape.dash.join(" ")}"` : "") + "/>";
    const shapes = this.model.shapes(view, this.hidden).filter((shape) => shape.d);
    parts.push(`<clipPath id="area"><rect x="${view.left}" y="${view.top - 1}" width="${view.width}" height="${view.height + 2}"/></clipPath>`);
    parts.push(`<g clip-path="url(#area)">`, ...shapes.filter((shape) => !shape.outside).map(path), "</g>");
    parts.push(...shapes.filter((shape) => shape.outside).map(path));
    for (const peak of this.peaks(view)) {
      parts.push(`<path d="${TimePlot.arrow(peak)}" fill="${peak.stroke}"/>`);
      parts.push(text(peak.textX, peak.y + 11, peak.text, `text-anchor="${peak.anchor}" font-size="11" fill="${peak.stroke}"`));
    }
    entries.forEach((entry, at) => {
      const y = u.height + 10 + places[at][1] * 18;
      parts.push(TimePlot.sample(entry, places[at][0], y), text(places[at][0] + 26, y + 4, entry.label));
    });
    parts.push("</g>");
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${u.width}" height="${height}" viewBox="0 0 ${u.width} ${height}" ` +
      `font-family="${FONT}" font-size="12" fill="${color("soft")}">${parts.join("")}</svg>`;
  }
}
