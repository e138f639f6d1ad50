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
    /// The numbers in it; empty where they are in a file of their own.
    pub csv: String,
}

impl Picture {
    /// As an element of a page.
    pub fn html(&self) -> String {
        let mut out = String::new();
        let _ = write!(
            out,
            "<figure class=\"picture\" data-name=\"{}\"><figcaption><b>{}</b></figcaption>{}<p class=\"soft\">{}</p>",
            escape(&self.name),
            escape(&self.title),
            self.svg,
            escape(&self.caption),
        );
        if !self.csv.is_empty() {
            // A script ends at the first "</", whatever it means.
            let _ = write!(out, "<script type=\"text/csv\">{}</script>", self.csv.replace("</", "< /"));
        }
        out.push_str("</figure>");
        out
    }
}

/// The choices of a grid as a legend.
pub fn legend(grid: &Grid) -> Legend {
    grid.choices.iter().map(|choice| (choice.name.clone(), choice.color)).collect()
}
