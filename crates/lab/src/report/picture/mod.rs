//! Pictures as SVG: plain text that is the same on every machine, so that reports can be compared with `diff`. Colors
//! come from the page's style sheet.

mod dots;
mod facets;
mod heat;
mod ink;
mod labels;
mod lines;
mod scale;
mod spread;

pub use dots::{Dots, Mark, Row};
pub use facets::{MOST as MOST_PANELS, Panel, left_out};
pub use heat::Heat;
pub use ink::{BOUND, escape};
pub use lines::{Curve, Lines, Point};
pub use scale::Reading;
pub use spread::{Group, box_plot, cdf};

use core::fmt::Write;

use serde::Serialize;

/// Width of every picture, in units of its view box.
pub(super) const WIDTH: f64 = 880.0;

/// An entry of a legend: a name and its color.
pub type Legend = Vec<(String, usize)>;

/// A picture with all that stands around it in a page.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Picture {
    /// For file names: letters, digits and dashes.
    pub name: String,
    /// What it shows, as a headline.
    pub title: String,
    /// How to read it.
    pub caption: String,
    /// The picture.
    pub svg: String,
    /// The numbers in it.
    pub csv: String,
}

impl Picture {
    /// As an element of a page.
    pub fn html(&self) -> String {
        let mut out = String::new();
        let _ = write!(
            out,
            "<figure class=\"picture\" data-name=\"{}\"><figcaption><b>{}</b></figcaption>{}<p class=\"soft\">{}</p>\
             <script type=\"text/csv\">{}</script></figure>",
            escape(&self.name),
            escape(&self.title),
            self.svg,
            escape(&self.caption),
            // A script ends at the first "</", whatever it means.
            self.csv.replace("</", "< /")
        );
        out
    }
}

/// A number for a CSV file: seven significant digits are more than a picture shows.
pub fn csv_number(value: f64) -> String {
    let text = format!("{value:.6e}");
    text.parse::<f64>().map_or(text, |rounded| rounded.to_string())
}

/// A row of a CSV file (RFC 4180).
pub fn csv_row<'a>(cells: impl IntoIterator<Item = &'a str>) -> String {
    let cells: Vec<String> = cells.into_iter().map(super::csv::cell).collect();
    cells.join(",") + "\n"
}
