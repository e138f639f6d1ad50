//! Box plots and distribution curves as SVG: plain text that is the same on every machine, so that reports can be compared
//! with `diff`. Colours come from the page's style sheet.

use core::fmt::Write;

use crate::metric::{Unit, format};
use crate::stats::{Interval, quantile};

/// One distribution to draw.
#[derive(Clone, Debug)]
pub struct Group {
    /// What it is.
    pub label: String,
    /// Values in any order; those that are not finite are counted and not drawn.
    pub values: Vec<f64>,
    /// The interval of the median.
    pub interval: Option<Interval>,
}

const WIDTH: f64 = 860.0;
const RIGHT: f64 = 24.0;
const ROW: f64 = 34.0;
const AXIS: f64 = 34.0;

/// How many colours the style sheet has for groups.
pub const COLOURS: usize = 8;

struct Prepared {
    label: String,
    sorted: Vec<f64>,
    endless: usize,
    interval: Option<Interval>,
}

fn prepare(groups: &[Group]) -> Vec<Prepared> {
    groups
        .iter()
        .map(|group| {
            let mut sorted: Vec<f64> = group.values.iter().copied().filter(|value| value.is_finite()).collect();
            sorted.sort_unstable_by(f64::total_cmp);
            Prepared {
                label: group.label.clone(),
                endless: group.values.len() - sorted.len(),
                sorted,
                interval: group.interval,
            }
        })
        .collect()
}

/// Maps values to positions, with round ticks.
struct Scale {
    low: f64,
    high: f64,
    left: f64,
    right: f64,
    ticks: Vec<f64>,
}

impl Scale {
    fn new(values: impl Iterator<Item = f64>, left: f64, right: f64) -> Option<Scale> {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values {
            low = low.min(value);
            high = high.max(value);
        }
        if low > high {
            return None;
        }
        // From zero, unless that would press everything into the right half of the picture.
        if low > 0.0 && low < high * 0.5 {
            low = 0.0;
        }
        if high - low <= high.abs() * 1e-9 {
            let around = if high == 0.0 { 1.0 } else { high.abs() * 0.1 };
            (low, high) = (low - around, high + around);
        }
        let step = round_step((high - low) / 6.0);
        let first = (low / step).floor();
        let last = (high / step).ceil();
        let count = (last - first) as usize;
        let ticks: Vec<f64> = (0..=count).map(|at| (first + at as f64) * step).collect();
        Some(Scale { low: first * step, high: last * step, left, right, ticks })
    }

    fn at(&self, value: f64) -> f64 {
        self.left + (value - self.low) / (self.high - self.low) * (self.right - self.left)
    }
}

/// The smallest of 1, 2, 5 times a power of ten that is not below `raw`.
fn round_step(raw: f64) -> f64 {
    let mut power = 1.0;
    while power > raw {
        power /= 10.0;
    }
    while power * 10.0 <= raw {
        power *= 10.0;
    }
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|step| *step >= raw).unwrap_or(raw)
}

/// Text that can stand in XML.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

fn shorten(label: &str, most: usize) -> String {
    if label.chars().count() <= most {
        return label.to_owned();
    }
    let head: String = label.chars().take(most - 1).collect();
    format!("{head}…")
}

fn open(out: &mut String, height: f64, name: &str) {
    let _ = writeln!(
        out,
        "<svg class=\"plot\" viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{}\" xmlns=\"http://www.w3.org/2000/svg\">",
        escape(name)
    );
}

fn axis(out: &mut String, scale: &Scale, top: f64, bottom: f64, unit: Unit) {
    for tick in &scale.ticks {
        let x = scale.at(*tick);
        let _ = writeln!(out, "<line class=\"grid\" x1=\"{x:.1}\" y1=\"{top:.1}\" x2=\"{x:.1}\" y2=\"{bottom:.1}\"/>");
        let _ = writeln!(
            out,
            "<text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 18.0,
            escape(&format(*tick, unit))
        );
    }
}

/// Boxes from quartile to quartile, whiskers to the last value within 1.5 interquartile ranges (Tukey 1977), every value a
/// dot, the median's interval a thick line. None if there is nothing to draw.
pub fn box_plot(name: &str, unit: Unit, groups: &[Group]) -> Option<String> {
    let groups = prepare(groups);
    let longest = groups.iter().map(|group| group.label.chars().count()).max()?.min(44);
    let left = (longest as f64 * 7.4 + 18.0).max(60.0);
    let scale = Scale::new(groups.iter().flat_map(|group| group.sorted.iter().copied()), left, WIDTH - RIGHT)?;
    let bottom = 8.0 + ROW * groups.len() as f64;
    let mut out = String::new();
    open(&mut out, bottom + AXIS, name);
    axis(&mut out, &scale, 4.0, bottom, unit);
    for (index, group) in groups.iter().enumerate() {
        let middle = 8.0 + ROW * (index as f64 + 0.5);
        let colour = index % COLOURS;
        let _ = writeln!(
            out,
            "<text class=\"label\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            left - 10.0,
            middle + 4.0,
            escape(&shorten(&group.label, 44))
        );
        draw_box(&mut out, group, &scale, middle, colour, unit);
        if group.endless > 0 {
            let _ = writeln!(
                out,
                "<text class=\"bad\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{} of {} did not end</text>",
                WIDTH - RIGHT,
                middle - 9.0,
                group.endless,
                group.endless + group.sorted.len()
            );
        }
    }
    out.push_str("</svg>\n");
    Some(out)
}

fn draw_box(out: &mut String, group: &Prepared, scale: &Scale, middle: f64, colour: usize, unit: Unit) {
    let sorted = &group.sorted;
    let (Some(first), Some(last)) = (sorted.first(), sorted.last()) else { return };
    let [low, median, high] = [0.25, 0.5, 0.75].map(|share| quantile(sorted, share));
    let reach = 1.5 * (high - low);
    let whisker_low = sorted.iter().copied().find(|value| *value >= low - reach).unwrap_or(*first);
    let whisker_high = sorted.iter().rev().copied().find(|value| *value <= high + reach).unwrap_or(*last);
    let half = ROW * 0.27;
    let [x0, x1, x2, x3, x4] = [whisker_low, low, median, high, whisker_high].map(|value| scale.at(value));
    let print = |value| format(value, unit);
    let _ = writeln!(
        out,
        "<g class=\"c{colour}\"><title>{}: median {}, quartiles {} and {}, from {} to {}, {} values</title>",
        escape(&group.label),
        print(median),
        print(low),
        print(high),
        print(*first),
        print(*last),
        sorted.len()
    );
    let _ = writeln!(
        out,
        "<path class=\"whisker\" d=\"M{x0:.1} {middle:.1}H{x1:.1}M{x3:.1} {middle:.1}H{x4:.1}M{x0:.1} {:.1}V{:.1}M{x4:.1} {:.1}V{:.1}\"/>",
        middle - half * 0.6,
        middle + half * 0.6,
        middle - half * 0.6,
        middle + half * 0.6
    );
    let _ = writeln!(
        out,
        "<rect class=\"box\" x=\"{x1:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"2\"/>",
        middle - half,
        (x3 - x1).max(1.0),
        half * 2.0
    );
    // Dots share the row in a fixed zigzag, so that equal values can be told apart. A picture needs no more than 400.
    let every = sorted.len().div_ceil(400);
    for (index, value) in sorted.iter().step_by(every).enumerate() {
        let y = middle + (index % 5) as f64 * 2.6 - 5.2;
        let _ = writeln!(out, "<circle class=\"dot\" cx=\"{:.1}\" cy=\"{y:.1}\" r=\"1.7\"/>", scale.at(*value));
    }
    if let Some(interval) = group.interval.filter(|interval| interval.low.is_finite() && interval.high.is_finite()) {
        let _ = writeln!(
            out,
            "<line class=\"interval\" x1=\"{:.1}\" y1=\"{middle:.1}\" x2=\"{:.1}\" y2=\"{middle:.1}\"/>",
            scale.at(interval.low).max(scale.left),
            scale.at(interval.high).min(scale.right)
        );
    }
    let _ = writeln!(
        out,
        "<line class=\"median\" x1=\"{x2:.1}\" y1=\"{:.1}\" x2=\"{x2:.1}\" y2=\"{:.1}\"/>\n</g>",
        middle - half,
        middle + half
    );
}

/// The share of values at or below each value. Runs that do not end keep a curve from reaching the top. None if there is
/// nothing to draw.
pub fn cdf(name: &str, unit: Unit, groups: &[Group]) -> Option<String> {
    const HEIGHT: f64 = 260.0;
    let (left, top) = (52.0, 8.0);
    let groups = prepare(groups);
    let scale = Scale::new(groups.iter().flat_map(|group| group.sorted.iter().copied()), left, WIDTH - RIGHT)?;
    let y = |share: f64| top + (1.0 - share) * (HEIGHT - top);
    let legend = 20.0 * groups.len().div_ceil(2) as f64;
    let mut out = String::new();
    open(&mut out, HEIGHT + AXIS + legend, name);
    axis(&mut out, &scale, top, HEIGHT, unit);
    for quarter in 0..=4 {
        let share = f64::from(quarter) / 4.0;
        let _ = writeln!(
            out,
            "<line class=\"grid\" x1=\"{left:.1}\" y1=\"{0:.1}\" x2=\"{1:.1}\" y2=\"{0:.1}\"/><text class=\"tick\" x=\"{2:.1}\" y=\"{3:.1}\" text-anchor=\"end\">{4} %</text>",
            y(share),
            WIDTH - RIGHT,
            left - 8.0,
            y(share) + 4.0,
            quarter * 25
        );
    }
    for (index, group) in groups.iter().enumerate() {
        let total = (group.sorted.len() + group.endless) as f64;
        let mut path = String::new();
        let every = group.sorted.len().div_ceil(1_000).max(1);
        for (at, value) in group.sorted.iter().enumerate() {
            if at % every != 0 && at + 1 != group.sorted.len() {
                continue;
            }
            let x = scale.at(*value);
            if path.is_empty() {
                let _ = write!(path, "M{x:.1} {:.1}", y(0.0));
            } else {
                let _ = write!(path, "H{x:.1}");
            }
            let _ = write!(path, "V{:.1}", y((at + 1) as f64 / total));
        }
        if !path.is_empty() {
            let _ = write!(path, "H{:.1}", scale.right);
        }
        let colour = index % COLOURS;
        let _ = writeln!(
            out,
            "<path class=\"curve c{colour}\" d=\"{path}\"><title>{}</title></path>",
            escape(&group.label)
        );
        let (column, row) = (index % 2, index / 2);
        let (x, line) = (left + column as f64 * 390.0, HEIGHT + AXIS + 20.0 * row as f64 + 6.0);
        let _ = writeln!(
            out,
            "<line class=\"curve c{colour}\" x1=\"{x:.1}\" y1=\"{line:.1}\" x2=\"{:.1}\" y2=\"{line:.1}\"/><text class=\"label\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            x + 22.0,
            x + 30.0,
            line + 4.0,
            escape(&shorten(&group.label, 48))
        );
    }
    out.push_str("</svg>\n");
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(label: &str, values: &[f64]) -> Group {
        Group { label: label.to_owned(), values: values.to_vec(), interval: None }
    }

    #[test]
    fn steps_are_round() {
        for (raw, step) in [(0.7, 1.0), (1.0, 1.0), (1.1, 2.0), (3.0, 5.0), (6.0, 10.0), (0.03, 0.05), (1200.0, 2000.0)]
        {
            assert!((round_step(raw) - step).abs() < step * 1e-9, "{raw}: {}", round_step(raw));
        }
    }

    #[test]
    fn pictures_are_text_that_stays_the_same() {
        let groups = [group("a < b", &[1.0, 2.0, 3.0]), group("c", &[2.0, f64::INFINITY])];
        let one = box_plot("completion", Unit::Seconds, &groups).unwrap();
        assert_eq!(Some(&one), box_plot("completion", Unit::Seconds, &groups).as_ref());
        assert!(one.contains("a &lt; b") && one.contains("1 of 2 did not end") && one.contains("median 2 s"), "{one}");
        assert!(!one.contains("NaN") && !one.contains("inf"), "{one}");
        let curve = cdf("completion", Unit::Seconds, &groups).unwrap();
        assert!(curve.matches("class=\"curve c1\"").count() == 2 && !curve.contains("NaN"), "{curve}");
    }

    #[test]
    fn nothing_and_all_alike_can_be_drawn() {
        assert_eq!(box_plot("x", Unit::Count, &[]), None);
        assert_eq!(cdf("x", Unit::Count, &[group("a", &[f64::INFINITY])]), None);
        for value in [0.0, 5.0, -3.0, 1e12] {
            let plot = box_plot("x", Unit::Count, &[group("a", &[value, value])]).unwrap();
            assert!(!plot.contains("NaN") && !plot.contains("inf"), "{plot}");
        }
    }
}
