//! Distributions over runs: box plots of few values, shares at or below a value of many.

use super::ink::{Anchor, Ink, Legend, WIDTH, text_width};
use super::labels::distinct;
use super::lines::{Curve, Lines};
use super::scale::{Reading, Scale};
use crate::choices::COLORS;
use crate::metric::{Unit, format};
use crate::stats::{Interval, quantile};

/// One distribution to draw.
#[derive(Clone, Debug)]
pub struct Group {
    /// What it is.
    pub label: String,
    /// Its color.
    pub color: usize,
    /// Values in any order; those that are not finite are counted and not drawn.
    pub values: Vec<f64>,
    /// The interval of the median.
    pub interval: Option<Interval>,
}

const RIGHT: f64 = 110.0;
const ROW: f64 = 30.0;

/// The finite values, ascending, and how many are not finite.
fn finite(group: &Group) -> (Vec<f64>, usize) {
    let mut sorted: Vec<f64> = group.values.iter().copied().filter(|value| value.is_finite()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let endless = group.values.len() - sorted.len();
    (sorted, endless)
}

/// Boxes from quartile to quartile, whiskers to the last value within 1.5 interquartile ranges (Tukey 1977), every
/// value a dot, the median's interval a thick line. None if there is nothing to draw.
pub fn box_plot(name: &str, axis: &str, unit: Unit, groups: &[Group]) -> Option<String> {
    let names: Vec<String> = groups.iter().map(|group| group.label.clone()).collect();
    let labels = distinct(&names, 40);
    let left = labels.iter().map(|label| text_width(label)).fold(40.0, f64::max).min(WIDTH * 0.5) + 18.0;
    let sorted: Vec<(Vec<f64>, usize)> = groups.iter().map(finite).collect();
    let all = sorted.iter().flat_map(|(values, _)| values.iter().copied());
    let scale = Scale::new(all, &[], (left, WIDTH - RIGHT), Reading::Unit(unit))?;
    let bottom = 8.0 + ROW * groups.len() as f64;
    let mut ink = Ink::new();
    scale.draw_below(&mut ink, (4.0, bottom), axis);
    for (at, ((group, (values, endless)), label)) in groups.iter().zip(&sorted).zip(&labels).enumerate() {
        let middle = 8.0 + ROW * (at as f64 + 0.5);
        ink.label((left - 10.0, middle + 4.0), left - 16.0, label);
        draw_box(&mut ink, group, values, &scale, middle, unit);
        if *endless > 0 {
            let text = format!("{endless} of {} never", group.values.len());
            ink.text("bad", (WIDTH - RIGHT + 10.0, middle + 4.0), Anchor::Start, &text);
        }
    }
    Some(ink.finish(bottom + 44.0, name))
}

fn draw_box(ink: &mut Ink, group: &Group, sorted: &[f64], scale: &Scale, middle: f64, unit: Unit) {
    let (Some(first), Some(last)) = (sorted.first(), sorted.last()) else { return };
    let [low, median, high] = [0.25, 0.5, 0.75].map(|share| quantile(sorted, share));
    let reach = 1.5 * (high - low);
    let whisker_low = sorted.iter().copied().find(|value| *value >= low - reach).unwrap_or(*first);
    let whisker_high = sorted.iter().rev().copied().find(|value| *value <= high + reach).unwrap_or(*last);
    let half = ROW * 0.27;
    let [x0, x1, x2, x3, x4] = [whisker_low, low, median, high, whisker_high].map(|value| scale.at(value));
    let color = group.color % COLORS;
    let end = half * 0.6;
    ink.path(
        &format!("whisker c{color}"),
        &format!(
            "M{x0:.1} {middle:.1}H{x1:.1}M{x3:.1} {middle:.1}H{x4:.1}M{x0:.1} {:.1}v{:.1}M{x4:.1} {:.1}v{:.1}",
            middle - end,
            2.0 * end,
            middle - end,
            2.0 * end
        ),
    );
    let print = |value| format(value, unit);
    let title = format!(
        "{}: median {}, quartiles {} and {}, from {} to {}, {} values",
        group.label,
        print(median),
        print(low),
        print(high),
        print(*first),
        print(*last),
        sorted.len()
    );
    ink.rect(&format!("box c{color}"), None, (x1, middle - half), ((x3 - x1).max(1.0), half * 2.0), &title);
    // Dots share the row in a fixed zigzag, so that equal values can be told apart. A picture needs no more than 200.
    let every = sorted.len().div_ceil(200).max(1);
    let dots: String = sorted
        .iter()
        .step_by(every)
        .enumerate()
        .map(|(at, value)| {
            format!("M{:.1} {:.1}a1.6 1.6 0 1 0 .01 0z", scale.at(*value), middle + (at % 5) as f64 * 2.6 - 6.8)
        })
        .collect();
    ink.path(&format!("dot c{color}"), &dots);
    if let Some(interval) = group.interval.filter(|interval| interval.low.is_finite() && interval.high.is_finite()) {
        ink.line(&format!("thick c{color}"), (scale.at(interval.low), middle), (scale.at(interval.high), middle));
    }
    ink.line(&format!("median c{color}"), (x2, middle - half), (x2, middle + half));
}

/// The share of values at or below each value, a panel for each place. Values that are endless keep a curve from
/// reaching the top. None if there is nothing to draw.
///
/// With it what to say about curves that coincide.
pub fn cdf(
    name: &str,
    axis: &str,
    unit: Unit,
    panels: &[(String, Vec<Group>)],
    legend: Legend,
) -> Option<(String, &'static str)> {
    /// Points of a curve: two for each unit of a panel's width.
    const MOST: usize = 250;
    let curve = |group: &Group| {
        let (sorted, _) = finite(group);
        let total = group.values.len() as f64;
        let every = sorted.len().div_ceil(MOST).max(1);
        let mut points = Vec::new();
        let mut before = 0.0;
        for (at, value) in sorted.iter().enumerate().filter(|(at, _)| at % every == 0 || at + 1 == sorted.len()) {
            let share = (at + 1) as f64 / total;
            points.extend([(*value, before, None), (*value, share, None)]);
            before = share;
        }
        Curve { color: group.color, points, titles: Vec::new(), is_marked: false, is_dashed: false }
    };
    let panels = panels.iter().map(|(title, groups)| (title.clone(), groups.iter().map(curve).collect())).collect();
    let lines = Lines {
        name: name.to_owned(),
        across: (axis.to_owned(), Reading::Unit(unit)),
        up: ("share of runs".to_owned(), Reading::Unit(Unit::Share)),
        panels,
        legend,
        from_zero: true,
        is_across: false,
    };
    Some((lines.svg()?, lines.beneath()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(label: &str, values: &[f64]) -> Group {
        Group { label: label.to_owned(), color: 1, values: values.to_vec(), interval: None }
    }

    #[test]
    fn pictures_are_text_that_stays_the_same() {
        let groups = [group("a < b", &[1.0, 2.0, 3.0]), group("c", &[2.0, f64::INFINITY])];
        let one = box_plot("completion", "completion", Unit::Seconds, &groups).unwrap();
        assert_eq!(Some(&one), box_plot("completion", "completion", Unit::Seconds, &groups).as_ref());
        assert!(one.contains("a &lt; b") && one.contains("1 of 2 never") && one.contains("median 2 s"), "{one}");
        assert!(!one.contains("NaN") && !one.contains("inf"), "{one}");
        let curve = cdf("completion", "completion", Unit::Seconds, &[(String::new(), groups.to_vec())], Vec::new());
        let (curve, _) = curve.unwrap();
        assert!(curve.matches("class=\"curve c1\"").count() == 2 && !curve.contains("NaN"), "{curve}");
    }

    #[test]
    fn nothing_and_all_alike_can_be_drawn() {
        assert_eq!(box_plot("x", "x", Unit::Count, &[]), None);
        let endless = vec![(String::new(), vec![group("a", &[f64::INFINITY])])];
        assert_eq!(cdf("x", "x", Unit::Count, &endless, Vec::new()), None);
        for value in [0.0, 5.0, -3.0, 1e12] {
            let plot = box_plot("x", "x", Unit::Count, &[group("a", &[value, value])]).unwrap();
            assert!(!plot.contains("NaN") && !plot.contains("inf"), "{plot}");
        }
    }
}
