//! A metric over a number that varies: a line with its band of confidence for each choice, a panel for each place.

use super::Panel;
use super::facets;
use super::ink::{Ink, Legend, colored};
use super::scale::{Reading, Scale};
use crate::choices::COLORS;

/// Abscissa, ordinate and the interval of one of them.
pub type Point = (f64, f64, Option<(f64, f64)>);

/// A line with its band.
#[derive(Clone, Debug)]
pub struct Curve {
    /// Color and shape.
    pub color: usize,
    /// Ascending by abscissa.
    pub points: Vec<Point>,
    /// What a pointer shows at each point.
    pub titles: Vec<String>,
    /// Whether points are marked and joined by straight lines; else the line alone is drawn.
    pub is_marked: bool,
    /// Whether it is drawn dashed: a bound, not a result.
    pub is_dashed: bool,
}

/// The picture.
#[derive(Clone, Debug)]
pub struct Lines {
    /// What it shows, for those who cannot see it.
    pub name: String,
    /// Title and reading of the abscissa.
    pub across: (String, Reading),
    /// Title and reading of the ordinate.
    pub up: (String, Reading),
    /// Panels with their titles.
    pub panels: Vec<(String, Vec<Curve>)>,
    /// Which color is which choice.
    pub legend: Legend,
    /// Whether the ordinate of each panel begins at zero.
    pub from_zero: bool,
    /// Whether bands are about the abscissa: the time by which something was reached.
    pub is_across: bool,
}

impl Lines {
    /// As SVG; none if no value can be drawn.
    pub fn svg(&self) -> Option<String> {
        let titles: Vec<String> = self.panels.iter().map(|(title, _)| title.clone()).collect();
        let has_points =
            |curves: &[Curve]| curves.iter().any(|curve| curve.points.iter().any(|point| point.1.is_finite()));
        if !self.panels.iter().any(|(_, curves)| has_points(curves)) {
            return None;
        }
        let legend = |ink: &mut Ink| ink.legend(&self.legend, (4.0, 0.0));
        Some(facets::draw(&self.name, &titles, 96.0, legend, |ink, at, panel| {
            self.panel(ink, &self.panels[at].1, panel);
        }))
    }

    fn scales(&self, curves: &[Curve], panel: Panel) -> Option<(Scale, Scale)> {
        let points = || curves.iter().flat_map(|curve| &curve.points);
        let must: &[f64] = if self.from_zero { &[0.0] } else { &[] };
        let with_band = |value: f64, band: &Option<(f64, f64)>| {
            let (low, high) = band.unwrap_or((value, value));
            [value, low, high]
        };
        let ordinates = points().flat_map(|(_, y, band)| with_band(*y, if self.is_across { &None } else { band }));
        let abscissas = points().flat_map(|(x, _, band)| with_band(*x, if self.is_across { band } else { &None }));
        let from: &[f64] = if self.is_across { &[0.0] } else { &[] };
        let across = Scale::new(abscissas, from, (panel.left, panel.right), self.across.1);
        let up = Scale::new(ordinates, must, (panel.bottom, panel.top), self.up.1);
        Some((across?, up?))
    }

    fn panel(&self, ink: &mut Ink, curves: &[Curve], panel: Panel) {
        let Some((across, up)) = self.scales(curves, panel) else { return };
        up.draw_left(ink, (panel.left, panel.right));
        across.draw_below(ink, (panel.top, panel.bottom), &self.across.0);
        let middle = (panel.top + panel.bottom) / 2.0;
        let room = panel.bottom - panel.top + 24.0;
        ink.upward("axis", (panel.left - up.widest() - 16.0, middle), room, &self.up.0);
        for curve in curves {
            band(ink, curve, self.is_across, &across, &up);
        }
        // The first lies on top, and what is beneath it is wider; bounds lie on top of all.
        let depths = depths(curves, &across, &up);
        let results = || curves.iter().zip(&depths).filter(|(curve, _)| !curve.is_dashed).rev();
        for (curve, depth) in results().chain(curves.iter().zip(&depths).filter(|(curve, _)| curve.is_dashed)) {
            line(ink, curve, *depth, &across, &up);
        }
    }

    /// The note on lines that lie on each other, if there are any.
    pub fn beneath(&self) -> &'static str {
        /// About as large as panels are.
        const PANEL: Panel = Panel { left: 0.0, right: 400.0, top: 0.0, bottom: 210.0 };
        let is_covered = |curves: &[Curve]| {
            let scales = self.scales(curves, PANEL);
            scales.is_some_and(|(across, up)| depths(curves, &across, &up).iter().any(|depth| *depth > 0))
        };
        match self.panels.iter().take(facets::MOST).any(|(_, curves)| is_covered(curves)) {
            true => " Where lines coincide, those beneath are wider.",
            false => "",
        }
    }
}

/// How many lines lie on each line: those before it that have its points.
fn depths(curves: &[Curve], across: &Scale, up: &Scale) -> Vec<usize> {
    /// Points that are closer cannot be told apart, in units of the picture.
    const NEAR: f64 = 1.5;
    /// As many points, of a hundred, make two lines one.
    const MOST: usize = 60;
    let position = |curve: &Curve| -> Vec<(f64, f64)> {
        let finite = curve.points.iter().filter(|(x, y, _)| x.is_finite() && y.is_finite());
        finite.map(|(x, y, _)| (across.at(*x), up.at(*y))).collect()
    };
    let all: Vec<Vec<(f64, f64)>> = curves.iter().map(position).collect();
    let coincide = |one: &[(f64, f64)], other: &[(f64, f64)]| {
        let near = |((x1, y1), (x2, y2)): &(&(f64, f64), &(f64, f64))| (x1 - x2).abs() < NEAR && (y1 - y2).abs() < NEAR;
        let (least, most) = (one.len().min(other.len()), one.len().max(other.len()));
        least > 0 && one.iter().zip(other).filter(near).count() * 100 > most * MOST
    };
    let of =
        |at: usize| (0..at).filter(|before| !curves[*before].is_dashed && coincide(&all[*before], &all[at])).count();
    (0..curves.len()).map(|at| if curves[at].is_dashed { 0 } else { of(at) }).collect()
}

fn band(ink: &mut Ink, curve: &Curve, is_across: bool, across: &Scale, up: &Scale) {
    // The two ends of the band at each point, as positions.
    let ends = curve.points.iter().filter_map(|(x, y, band)| {
        let (low, high) = band.filter(|(low, high)| !low.is_nan() && !high.is_nan())?;
        Some(match is_across {
            true => [(across.at(low), up.at(*y)), (across.at(high.min(across.high)), up.at(*y))],
            false => [(across.at(*x), up.at(low.max(up.low))), (across.at(*x), up.at(high.min(up.high)))],
        })
    });
    let ends: Vec<[(f64, f64); 2]> = ends.collect();
    if ends.len() < 2 {
        return;
    }
    let there = ends.iter().map(|ends| ends[1]);
    let back = ends.iter().rev().map(|ends| ends[0]);
    let steps = there.chain(back).enumerate();
    let d: String = steps.map(|(at, (x, y))| format!("{}{x:.1} {y:.1}", if at == 0 { 'M' } else { 'L' })).collect();
    ink.path(&colored("area", curve.color % COLORS), &(d + "Z"));
}

fn line(ink: &mut Ink, curve: &Curve, depth: usize, across: &Scale, up: &Scale) {
    /// How much wider each line is than the one on it, and its marks.
    const WIDER: (f64, f64) = (2.2, 1.5);
    /// Beyond so many, lines that are all alike would cover the picture.
    const DEEPEST: usize = 4;
    let depth = depth.min(DEEPEST);
    let mut d = String::new();
    let mut is_open = true;
    for (x, y, _) in &curve.points {
        if !y.is_finite() {
            is_open = true;
            continue;
        }
        d += &format!("{}{:.1} {:.1}", if is_open { 'M' } else { 'L' }, across.at(*x), up.at(*y));
        is_open = false;
    }
    let dashed = if curve.is_dashed { " dashed" } else { "" };
    if !d.is_empty() {
        let width = (depth > 0).then_some(1.8 + WIDER.0 * depth as f64);
        ink.stroke(&colored(&format!("curve{dashed}"), curve.color), &d, width);
    }
    if curve.is_marked {
        for ((x, y, _), title) in curve.points.iter().zip(&curve.titles).filter(|((_, y, _), _)| y.is_finite()) {
            ink.mark(curve.color, (across.at(*x), up.at(*y)), 3.4 + WIDER.1 * depth as f64, title);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ink::BOUND;
    use super::*;
    use crate::metric::Unit;

    #[test]
    fn bands_and_gaps_are_drawn_without_what_is_not_finite() {
        let points =
            vec![(1.0, 2.0, Some((1.0, f64::INFINITY))), (2.0, f64::INFINITY, None), (100.0, 4.0, Some((3.0, 5.0)))];
        let curve = Curve {
            color: 1,
            titles: points.iter().map(|point| format!("{point:?}")).collect(),
            points,
            is_marked: true,
            is_dashed: false,
        };
        let lines = Lines {
            name: "completion".to_owned(),
            across: ("rate".to_owned(), Reading::Unit(Unit::BitsPerSecond)),
            up: ("completion".to_owned(), Reading::Unit(Unit::Seconds)),
            panels: vec![("wifi".to_owned(), vec![curve.clone()]), ("lte".to_owned(), vec![curve])],
            legend: vec![("rfc".to_owned(), 1)],
            from_zero: false,
            is_across: false,
        };
        let svg = lines.svg().unwrap();
        assert_eq!(svg.matches("class=\"area c1\"").count(), 2);
        assert_eq!(svg.matches("class=\"mark c1\"").count(), 2 * 2 + 1, "two points in each panel and the legend");
        let numbers: String = svg.split("<title>").map(|part| part.split("</title>").last().unwrap()).collect();
        assert!(!numbers.contains("NaN") && !numbers.contains("inf"), "{svg}");
        let empty = Lines { panels: vec![(String::new(), Vec::new())], ..lines };
        assert!(empty.svg().is_none());
    }

    #[test]
    fn a_line_beneath_an_equal_one_can_be_seen() {
        let curve = |color: usize, more: f64| Curve {
            color,
            points: (1..=5).map(|x| (f64::from(x), f64::from(x * x) + more, None)).collect(),
            titles: vec!["p".to_owned(); 5],
            is_marked: true,
            is_dashed: false,
        };
        let floor = Curve { is_dashed: true, ..curve(BOUND, 0.0) };
        let lines = |curves: &[Curve]| Lines {
            name: "completion".to_owned(),
            across: ("rate".to_owned(), Reading::Unit(Unit::BitsPerSecond)),
            up: ("completion".to_owned(), Reading::Unit(Unit::Seconds)),
            panels: vec![(String::new(), curves.to_vec())],
            legend: Vec::new(),
            from_zero: false,
            is_across: false,
        };
        let equal = lines(&[curve(0, 0.0), curve(1, 0.0), curve(2, 5.0), curve(3, 0.001), floor]);
        assert!(equal.beneath().contains("wider"));
        let svg = equal.svg().unwrap();
        let order: Vec<usize> = (0..4).map(|color| svg.find(&format!("curve c{color}\"")).unwrap()).collect();
        assert!(order.is_sorted_by(|one, other| one > other), "the first lies on top: {order:?}");
        assert!(svg.find("curve dashed bound").unwrap() > order[0], "a bound lies on top of all");
        let widths: Vec<&str> =
            svg.split("stroke-width:").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
        assert_eq!(widths, ["6.2", "4.0"], "two lines lie on the last, one on the second, none on the third");
        assert_eq!(lines(&[curve(0, 0.0), curve(1, 9.0)]).beneath(), "");
    }
}
