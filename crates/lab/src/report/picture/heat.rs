//! A heat map: a cell for each combination of two axes, colored by its value; a panel for each place or choice.

use super::Panel;
use super::facets;
use super::ink::{Anchor, Ink, WIDTH, text_width};
use super::labels::distinct;
use super::scale::{Reading, Scale};

/// The picture.
#[derive(Clone, Debug)]
pub struct Heat {
    /// What it shows, for those who cannot see it.
    pub name: String,
    /// Title and labels of the columns.
    pub across: (String, Vec<String>),
    /// Title and labels of the rows, from the bottom up.
    pub up: (String, Vec<String>),
    /// Panels with their titles; of each the values by row and column.
    pub panels: Vec<(String, Vec<Vec<Option<f64>>>)>,
    /// How values read.
    pub reading: Reading,
    /// Whether values are ratios, so that 1 is neither good nor bad.
    pub is_ratio: bool,
}

/// From low to high: a scale that is as monotone in gray as in color (after viridis).
const RISING: [(u8, u8, u8); 6] =
    [(68, 1, 84), (65, 68, 135), (42, 120, 142), (34, 168, 132), (122, 209, 81), (253, 231, 37)];

/// From below 1 to above it: blue, white, orange.
const ASUNDER: [(u8, u8, u8); 5] = [(5, 80, 150), (120, 175, 220), (245, 245, 245), (240, 165, 80), (165, 75, 0)];

fn color(stops: &[(u8, u8, u8)], share: f64) -> (u8, u8, u8) {
    let at = share.clamp(0.0, 1.0) * (stops.len() - 1) as f64;
    let first = (at.floor() as usize).min(stops.len() - 2);
    let part = at - first as f64;
    let mix = |one: u8, other: u8| (f64::from(one) + (f64::from(other) - f64::from(one)) * part).round() as u8;
    let ((r, g, b), (r2, g2, b2)) = (stops[first], stops[first + 1]);
    (mix(r, r2), mix(g, g2), mix(b, b2))
}

fn hex((r, g, b): (u8, u8, u8)) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// Whether black text reads better on it than white.
fn is_light((r, g, b): (u8, u8, u8)) -> bool {
    0.3 * f64::from(r) + 0.59 * f64::from(g) + 0.11 * f64::from(b) > 140.0
}

impl Heat {
    /// As SVG; none if no value can be drawn.
    pub fn svg(&self) -> Option<String> {
        let values = || self.panels.iter().flat_map(|(_, rows)| rows.iter().flatten().flatten().copied());
        let must: &[f64] = if self.is_ratio { &[1.0] } else { &[] };
        let bar = (WIDTH - 330.0, WIDTH - 40.0);
        let mut scale = Scale::new(values(), must, bar, self.reading)?;
        if self.is_ratio {
            // As far below 1 as above it, so that the middle color is 1.
            let finite = values().filter(|value| value.is_finite() && *value > 0.0);
            let far = finite.map(|value| value.max(1.0 / value)).fold(1.1, f64::max);
            let around = [1.0 / far, far];
            scale = Scale::new(around.into_iter(), &[], bar, self.reading)?;
            (scale.low, scale.high, scale.log) = (1.0 / far, far, true);
            scale.ticks = vec![1.0 / far, 1.0, far];
        }
        let stops: &[(u8, u8, u8)] = if self.is_ratio { &ASUNDER } else { &RISING };
        let share = |value: f64| (scale.at(value) - bar.0) / (bar.1 - bar.0);
        let titles: Vec<String> = self.panels.iter().map(|(title, _)| title.clone()).collect();
        // Beside several panels there is less room for labels.
        let rows = distinct(&self.up.1, if self.panels.len() > 1 { 16 } else { 44 });
        let margin = rows.iter().map(|row| text_width(row)).fold(30.0, f64::max).min(WIDTH * 0.4) + 34.0;
        let head = |ink: &mut Ink| self.bar(ink, &scale, stops, bar);
        Some(facets::draw(&self.name, &titles, margin, head, |ink, at, panel| {
            self.panel(ink, &self.panels[at].1, panel, &rows, &|value| color(stops, share(value)));
        }))
    }

    fn panel(
        &self,
        ink: &mut Ink,
        values: &[Vec<Option<f64>>],
        panel: Panel,
        rows: &[String],
        fill: &dyn Fn(f64) -> (u8, u8, u8),
    ) {
        let columns = &self.across.1;
        let (width, height) = (
            (panel.right - panel.left) / columns.len().max(1) as f64,
            (panel.bottom - panel.top) / rows.len().max(1) as f64,
        );
        for (row, line) in values.iter().enumerate() {
            for (column, value) in line.iter().enumerate() {
                let Some(value) = *value else { continue };
                let corner = (panel.left + width * column as f64, panel.bottom - height * (row + 1) as f64);
                let what = format!("{}, {}: {}", columns[column], self.up.1[row], self.reading.say(value));
                let paint = if value.is_finite() { fill(value) } else { (120, 120, 120) };
                ink.rect("cell", Some(&hex(paint)), corner, (width, height), &what);
                let text = self.reading.say(value);
                if text_width(&text) + 4.0 < width && height > 14.0 {
                    let class = if is_light(paint) { "dark" } else { "light" };
                    ink.text(class, (corner.0 + width / 2.0, corner.1 + height / 2.0 + 4.0), Anchor::Middle, &text);
                }
            }
        }
        let mut free = f64::NEG_INFINITY;
        for (column, label) in columns.iter().enumerate() {
            let (x, half) = (panel.left + width * (column as f64 + 0.5), text_width(label) / 2.0);
            if x - half > free && x + half < WIDTH {
                ink.text("tick", (x, panel.bottom + 16.0), Anchor::Middle, label);
                free = x + half + 6.0;
            }
        }
        let mut free = f64::INFINITY;
        for (row, label) in rows.iter().enumerate() {
            let y = panel.bottom - height * (row as f64 + 0.5);
            if y < free {
                ink.text("tick", (panel.left - 7.0, y + 4.0), Anchor::End, label);
                free = y - 13.0;
            }
        }
        let widest = rows.iter().map(|row| text_width(row)).fold(0.0, f64::max);
        let room = panel.bottom - panel.top + 24.0;
        ink.upward("axis", (panel.left - widest - 16.0, (panel.top + panel.bottom) / 2.0), room, &self.up.0);
        ink.text("axis", ((panel.left + panel.right) / 2.0, panel.bottom + 35.0), Anchor::Middle, &self.across.0);
    }

    /// Draws the bar of colors and their values, and returns its height.
    fn bar(&self, ink: &mut Ink, scale: &Scale, stops: &[(u8, u8, u8)], (left, right): (f64, f64)) -> f64 {
        const STEPS: usize = 60;
        let width = (right - left) / STEPS as f64;
        for step in 0..STEPS {
            let fill = hex(color(stops, step as f64 / (STEPS - 1) as f64));
            ink.rect("cell", Some(&fill), (left + width * step as f64, 6.0), (width + 0.3, 12.0), "");
        }
        let mut free = f64::NEG_INFINITY;
        let is_shown = |tick: &f64| *tick >= scale.low * 0.999 && *tick <= scale.high * 1.001;
        let ticks: Vec<f64> = scale.ticks.iter().copied().filter(is_shown).collect();
        for (tick, text) in ticks.iter().zip(self.reading.say_all(&ticks)) {
            let x = scale.at(*tick);
            let half = text_width(&text) / 2.0;
            if x - half > free && x + half < WIDTH {
                ink.text("tick", (x, 34.0), Anchor::Middle, &text);
                free = x + half + 8.0;
            }
        }
        ink.text("label", (left - 10.0, 17.0), Anchor::End, &self.name);
        42.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::Unit;

    #[test]
    fn a_map_has_a_cell_for_each_value() {
        let labels = |count: usize| (0..count).map(|at| at.to_string()).collect::<Vec<_>>();
        let values: Vec<Vec<Option<f64>>> = (0..45)
            .map(|row| (0..45).map(|column| (row != column).then_some(f64::from(row * column + 1))).collect())
            .collect();
        let heat = |is_ratio| Heat {
            name: "completion".to_owned(),
            across: ("rate".to_owned(), labels(45)),
            up: ("delay".to_owned(), labels(45)),
            panels: vec![("rfc".to_owned(), values.clone())],
            reading: Reading::Unit(Unit::Seconds),
            is_ratio,
        };
        for is_ratio in [false, true] {
            let svg = heat(is_ratio).svg().unwrap();
            assert_eq!(svg.matches("class=\"cell\"").count(), 45 * 44 + 60, "cells, and those of the bar");
            assert!(!svg.contains("NaN") && !svg.contains("inf") && svg.len() < 500_000, "{}", svg.len());
        }
    }

    #[test]
    fn colors_rise_in_gray_too() {
        let gray = |(r, g, b): (u8, u8, u8)| 0.3 * f64::from(r) + 0.59 * f64::from(g) + 0.11 * f64::from(b);
        let grays: Vec<f64> = (0..=20).map(|step| gray(color(&RISING, f64::from(step) / 20.0))).collect();
        assert!(grays.is_sorted(), "{grays:?}");
        assert_eq!(color(&ASUNDER, 0.5), (245, 245, 245));
    }
}
