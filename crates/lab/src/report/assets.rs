//! Assets inside of pages: parts of their templates, style sheets and scripts.

/// Macros of templates.
pub(super) const PARTS: &str = include_str!("../../assets/parts.html");
pub(super) const CSS: &str = concat!(include_str!("../../assets/report.css"), include_str!("../../assets/plots.css"));
/// The colors of states, by their names: properties of the style sheet, for scripts and for pictures.
pub(super) const STATES: &str = include_str!("../../assets/states.json");
/// Saves plots, draws plots over time, and picks what they show: one script, a file for each subject.
pub(super) const JS: &str = concat!(
    "(() => {\n\"use strict\";\nconst STATES = ",
    include_str!("../../assets/states.json"),
    ";\n",
    include_str!("../../assets/script/units.js"),
    include_str!("../../assets/script/colors.js"),
    include_str!("../../assets/script/save.js"),
    include_str!("../../assets/script/recordings.js"),
    include_str!("../../assets/script/marks.js"),
    include_str!("../../assets/script/plot.js"),
    include_str!("../../assets/script/picker.js"),
    include_str!("../../assets/script/time.js"),
    "})();\n"
);
/// The part of it that saves pictures, for pages without plots of a script.
pub(super) const SAVE_JS: &str = concat!(
    "(() => {\n\"use strict\";\nconst STATES = {};\n",
    include_str!("../../assets/script/units.js"),
    include_str!("../../assets/script/colors.js"),
    include_str!("../../assets/script/save.js"),
    "})();\n"
);
pub(super) const UPLOT_JS: &str = include_str!("../../assets/uplot/uPlot.iife.min.js");
pub(super) const UPLOT_CSS: &str = include_str!("../../assets/uplot/uPlot.min.css");
