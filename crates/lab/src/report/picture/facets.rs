//! Small multiples: panels of one kind, side by side, with one legend and one scale of their own each.

use super::ink::{Ink, WIDTH};
use super::labels::distinct;

/// Where a panel is drawn: left, right, top and bottom of its plot area.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Panel {
    /// Left edge.
    pub left: f64,
    /// Right edge.
    pub right: f64,
    /// Top edge.
    pub top: f64,
    /// Bottom edge.
    pub bottom: f64,
}

/// The most panels of a picture.
pub const MOST: usize = 18;

/// Draws panels with `draw`, which gets the number of a panel and its place; room is left for `margin` units of ticks
/// on its left. What stands above all panels `head` draws, and says how high that is. Gives the SVG.
pub(super) fn draw(
    name: &str,
    titles: &[String],
    margin: f64,
    head: impl FnOnce(&mut Ink) -> f64,
    mut draw: impl FnMut(&mut Ink, usize, Panel),
) -> String {
    let count = titles.len().min(MOST);
    let columns = match count {
        0 | 1 => 1,
        2 | 4 => 2,
        _ => 3,
    };
    let width = WIDTH / columns as f64;
    let height = match columns {
        1 => 300.0,
        2 => 210.0,
        _ => 160.0,
    };
    let is_titled = titles.iter().any(|title| !title.is_empty());
    let mut ink = Ink::new();
    let top = head(&mut ink) + 4.0;
    let head = if is_titled { 24.0 } else { 8.0 };
    let labels = distinct(titles, (width / 7.4) as usize);
    for (at, label) in labels.iter().take(count).enumerate() {
        let (column, row) = (at % columns, at / columns);
        let y = top + row as f64 * (height + head + 46.0);
        let left = column as f64 * width + margin;
        let panel = Panel { left, right: (column + 1) as f64 * width - 26.0, top: y + head, bottom: y + head + height };
        if is_titled {
            ink.heading((left, y + 16.0), width - margin - 12.0, label);
        }
        draw(&mut ink, at, panel);
    }
    let rows = count.div_ceil(columns);
    ink.finish(top + rows as f64 * (height + head + 46.0), name)
}

/// The note on panels that are left out.
pub fn left_out(panels: usize) -> String {
    match panels.checked_sub(MOST).filter(|more| *more > 0) {
        None => String::new(),
        Some(more) => format!(
            " The first {MOST} of {panels} are shown; thalweg lab export writes the numbers of the other {more}."
        ),
    }
}
