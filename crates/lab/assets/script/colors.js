// Colors: those of choices come with the data, those of states are the same on every page. All are custom properties of
// the style sheet, so that they follow the color scheme.
let isPrinting = false;
// The properties of the light scheme, whatever the scheme of the screen is: paper is white.
const onPaper = (() => {
  let known = null;
  return (name) => {
    if (!known) {
      known = new Map();
      for (const sheet of document.styleSheets)
        for (const rule of sheet.cssRules)
          if (rule.selectorText === ":root")
            for (const property of rule.style) known.set(property, rule.style.getPropertyValue(property).trim());
    }
    return known.get(name) || "#000";
  };
})();
const color = (name) => {
  const property = "--" + name;
  return isPrinting ? onPaper(property) : getComputedStyle(document.documentElement).getPropertyValue(property).trim();
};
const COLORS = 8;
const choiceColor = (index) => color("k" + (((index % COLORS) + COLORS) % COLORS));
// States have colors of their own, in assets/states.json: that of a choice never means a state.
// A state that the table does not have takes a color that its name decides.
const stateColor = (name) => {
  if (STATES[name]) return color(STATES[name]);
  let sum = 0;
  for (const letter of name) sum = (sum * 31 + letter.charCodeAt(0)) % 9973;
  return color(["s5", "s6", "s7"][sum % 3]);
};
// Packets of the only sender of a plot.
const KINDS = { sent: "k0", acked: "k2", lost: "k1", spurious: "k7" };
// Lines of one color.
const DASHES = [[], [7, 4], [2, 3], [9, 3, 2, 3], [14, 5], [1, 6]];
