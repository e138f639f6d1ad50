//! Assets inside of pages: parts of their templates, style sheets and scripts.

/// Macros of templates.
pub(super) const PARTS: &str = include_str!("../../assets/parts.html");
pub(super) const CSS: &str = concat!(include_str!("../../assets/report.css"), include_str!("../../assets/plots.css"));
/// Saves plots, draws plots over time, and picks what they show: one script, a file for each subject.
pub(super) const JS: &str = concat!(
    "(() => {\n\"use strict\";\n",
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
pub(super) const UPLOT_JS: &str = include_str!("../../assets/uplot/uPlot.iife.min.js");
pub(super) const UPLOT_CSS: &str = include_str!("../../assets/uplot/uPlot.min.css");
