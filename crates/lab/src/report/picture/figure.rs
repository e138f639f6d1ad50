//! A picture with all that stands around it in a page.

use core::fmt::Write;

use serde::Serialize;

use super::ink::{Legend, escape};
use crate::choices::Grid;

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

/// The choices of a grid as a legend.
pub fn legend(grid: &Grid) -> Legend {
    grid.choices.iter().map(|choice| (choice.name.clone(), choice.color)).collect()
}
