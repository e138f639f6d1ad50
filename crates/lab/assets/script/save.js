// "Save as SVG, PNG, CSV": three buttons below every picture. What is saved stands alone: colors and fonts are in it.
const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
const escaped = (text) => String(text).replace(/[&<>"]/g, (sign) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[sign]);

const hand = (blob, name) => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
};

// An SVG as a PNG of twice its size, for screens and papers that show more than a pixel per point.
const asPng = (svg) => new Promise((done, failed) => {
  const image = new Image();
  image.onload = () => {
    const canvas = document.createElement("canvas");
    const scale = Math.min(2, 8000 / Math.max(image.width, image.height, 1));
    canvas.width = Math.ceil(image.width * scale);
    canvas.height = Math.ceil(image.height * scale);
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => (blob ? done(blob) : failed(new Error("the picture is too large for a PNG"))), "image/png");
  };
  image.onerror = () => failed(new Error("the picture cannot be drawn as a PNG"));
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(svg);
});

// The row of buttons. `source` has the name of the file, the title for who cannot see, and functions that give SVG
// and CSV.
const saveButtons = (source) => {
  const row = document.createElement("div");
  row.className = "save";
  const add = (kind, action) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = kind;
    button.setAttribute("aria-label", "Save “" + source.title + "” as " + kind);
    button.addEventListener("click", action);
    row.append(button);
  };
  const words = document.createElement("span");
  words.textContent = "Save as";
  row.append(words);
  const svg = () => source.svg();
  add("SVG", () => hand(new Blob([svg()], { type: "image/svg+xml" }), source.name + ".svg"));
  add("PNG", async () => hand(await asPng(svg()), source.name + ".png"));
  if (source.csv) add("CSV", () => hand(new Blob([source.csv()], { type: "text/csv" }), source.name + ".csv"));
  return row;
};

// What of an element's style a picture needs; the first are handed down from parent to child, the others start anew.
const INHERITED = {
  fill: "rgb(0, 0, 0)", "fill-opacity": "1", stroke: "none", "stroke-width": "1px", "stroke-opacity": "1",
  "stroke-dasharray": "none", "stroke-linecap": "butt", "stroke-linejoin": "miter", "font-family": "", "font-size": "",
  "font-weight": "400", "font-style": "normal", "text-anchor": "start", visibility: "visible", "paint-order": "normal",
};
const OWN = { opacity: "1", display: "inline", "dominant-baseline": "auto" };

const styled = (original, copy, above) => {
  const style = getComputedStyle(original);
  const here = {};
  let text = "";
  for (const name in INHERITED) {
    here[name] = style.getPropertyValue(name);
    if (here[name] !== above[name]) text += name + ":" + here[name] + ";";
  }
  for (const name in OWN) {
    const value = style.getPropertyValue(name);
    if (value !== OWN[name] && !(name === "display" && value !== "none")) text += name + ":" + value + ";";
  }
  copy.removeAttribute("class");
  copy.removeAttribute("style");
  copy.removeAttribute("tabindex");
  if (text) copy.setAttribute("style", text);
  for (let at = 0; at < original.children.length; at++) styled(original.children[at], copy.children[at], here);
};

// Words in lines of so many letters at most.
const wrapped = (text, width) => {
  const lines = [""];
  for (const word of text.trim().split(/\s+/)) {
    const last = lines[lines.length - 1];
    if (last && last.length + word.length >= width) lines.push(word);
    else lines[lines.length - 1] = last ? last + " " + word : word;
  }
  return lines;
};

// A figure's picture as a file of its own, with the figure's caption above it.
const figureSvg = (figure) => {
  const svg = figure.querySelector("svg");
  const copy = svg.cloneNode(true);
  styled(svg, copy, INHERITED);
  const box = svg.viewBox.baseVal;
  const size = box && box.width ? box : { x: 0, y: 0, width: svg.clientWidth, height: svg.clientHeight };
  const caption = figure.dataset.title || (figure.querySelector("figcaption") || {}).textContent || "";
  const lines = caption.trim() ? wrapped(caption, Math.max(20, Math.floor(size.width / 6.6))).slice(0, 5) : [];
  const head = lines.length ? lines.length * 17 + 10 : 0;
  const top = size.y - head;
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("viewBox", [size.x, top, size.width, size.height + head].join(" "));
  copy.setAttribute("width", size.width);
  copy.setAttribute("height", size.height + head);
  const texts = lines.map((line, at) =>
    `<text x="${size.x + 8}" y="${top + 18 + at * 17}" style="font:${at || figure.dataset.title ? 13 : 600 + " 13"}px ${FONT};fill:${color("fg")}">` +
    escaped(line) + "</text>").join("");
  const ground = `<rect x="${size.x}" y="${top}" width="${size.width}" height="${size.height + head}" style="fill:${color("bg")}"/>`;
  const holder = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  holder.innerHTML = ground + texts;
  copy.prepend(...holder.childNodes);
  return new XMLSerializer().serializeToString(copy);
};

for (const figure of document.querySelectorAll("figure.picture")) {
  if (!figure.querySelector("svg")) continue;
  const data = figure.querySelector('script[type="text/csv"]');
  const title = ((figure.querySelector("figcaption") || {}).textContent || figure.dataset.name || "picture").trim();
  figure.append(saveButtons({
    name: slug(figure.dataset.name || title),
    title: title.length > 90 ? title.slice(0, 90) + "…" : title,
    svg: () => figureSvg(figure),
    csv: data && (() => data.textContent.trim() + "\n"),
  }));
}
