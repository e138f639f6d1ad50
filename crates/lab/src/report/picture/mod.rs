//! Pictures as SVG: plain text that is the same on every machine, so that reports can be compared with `diff`. Colors
//! come from the page's style sheet.

mod course;
mod dots;
mod facets;
mod figure;
mod heat;
mod ink;
mod labels;
mod lines;
mod scale;
mod spread;

pub use course::{Course, Look, Stage, Track, spans};
pub use dots::{Dots, Mark, Row};
pub use facets::{MOST as MOST_PANELS, Panel, left_out};
pub use figure::{Picture, legend};
pub use heat::Heat;
pub use ink::{BOUND, Legend};
pub use lines::{Curve, Lines, Point};
pub use scale::Reading;
pub use spread::{Group, box_plot, cdf};
