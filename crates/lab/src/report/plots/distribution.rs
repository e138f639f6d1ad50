//! Distributions of a metric over runs: boxes of few values, curves of many.

use super::metrics::entries;
use super::source::Source;
use crate::choices::Grid;
use crate::file_name::file_name;
use crate::matrix::{self, Matrix};
use crate::report::csv;
use crate::report::limited::{Limited, first_of};
use crate::report::picture::{Group, MOST_PANELS, Picture, box_plot, cdf, left_out, legend};
use crate::report::words::{capital, join};
use crate::scenario::Scenario;
use crate::stats::Statistic;
use crate::summary::{Runs, Sample};

/// The most distributions of a panel.
const MOST_GROUPS: usize = 8;

/// Of what was asked for, or else of the metric that answers the question.
pub(super) fn pictures(source: &Source<'_>) -> Limited<Picture> {
    let Some(runs) = source.runs else { return Limited::new([], 0) };
    let asked = matrix::asked(source.scenario).len();
    let matrices = source.matrices.iter().take(asked.max(1));
    let pictures = matrices.filter_map(|matrix| distribution(source.scenario, runs, source.grid, matrix));
    Limited { shown: pictures.collect(), more: 0 }
}

/// How the values of runs are distributed, a panel for each place. Few values are boxes, many are curves.
fn distribution(scenario: &Scenario, runs: &Runs, grid: &Grid, matrix: &Matrix) -> Option<Picture> {
    /// Up to so many values a box with its dots shows more than a curve.
    const FEW: usize = 20;
    /// Numbers beside a picture.
    const MOST_NUMBERS: usize = 4_000;
    /// Boxes of a picture.
    const MOST_BOXES: usize = 24;
    let what = matrix.name(scenario);
    let mut panels: Vec<(String, Vec<Group>)> =
        grid.places.iter().map(|place| (place.name.clone(), Vec::new())).collect();
    let mut most = 0;
    for (entry, (place, choice)) in entries(matrix) {
        let sample = Sample::new(scenario, runs, entry.point, &matrix.subject, matrix.metric);
        let values = sample.all();
        let groups = &mut panels[place].1;
        if values.is_empty() || groups.len() == MOST_GROUPS {
            continue;
        }
        most = most.max(values.len());
        let choice = &grid.choices[choice];
        // Of all values of all runs thrown together no interval can be told.
        let interval = entry.found.interval.filter(|_| !sample.is_repeated() && matrix.statistic == Statistic::MEDIAN);
        groups.push(Group { label: choice.name.clone(), color: choice.color, values, interval });
    }
    panels.retain(|(_, groups)| !groups.is_empty());
    // What differs by less than a thousandth is one number, which the table has.
    let finite = || panels.iter().flat_map(|(_, groups)| groups).flat_map(|group| &group.values);
    let (low, high) = finite().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(*v), high.max(*v)));
    if high - low <= 1e-3 * high.abs() || most < 3 {
        return None;
    }
    // Of the values themselves, whatever sums them up.
    let unit = matrix.metric.unit;
    let boxes: usize = panels.iter().map(|(_, groups)| groups.len()).sum();
    let is_boxes = most <= FEW && boxes <= MOST_BOXES;
    let drawn = if is_boxes { &panels[..] } else { &panels[..panels.len().min(MOST_PANELS)] };
    let groups: usize = drawn.iter().map(|(_, groups)| groups.len()).sum();
    let every = most.div_ceil((MOST_NUMBERS / groups.max(1)).clamp(20, 500)).max(1);
    let csv = numbers_of(matrix.metric.name, drawn, every);
    let thinned = match every {
        1 => String::new(),
        every => format!(" Saved as CSV: one of {every} values; thalweg lab export writes all."),
    };
    let choices = first_of(MOST_GROUPS, grid.choices.len(), "choice");
    let (caption, svg) = if is_boxes {
        let groups: Vec<Group> = panels
            .iter()
            .flat_map(|(place, groups)| groups.iter().map(move |group| (place, group)))
            .map(|(place, group)| Group { label: join(place, &group.label), ..group.clone() })
            .collect();
        let caption = "Box: quartiles; bar in it: median; thick line: its 95 % interval, where runs have one value each; \
             whiskers: 1.5 interquartile ranges; dots: values.";
        (format!("{caption}{choices}"), box_plot(&what, &what, unit, &groups)?)
    } else {
        let (svg, beneath) = cdf(&what, &what, unit, &panels, legend(grid))?;
        let left_out = left_out(panels.len());
        (format!("Share of values at or below.{beneath}{choices}{left_out}{thinned}"), svg)
    };
    let name = file_name(&[matrix.metric.name, &matrix.subject, "distribution"]);
    Some(Picture { name, title: format!("{}: distribution over runs", capital(&what)), caption, svg, csv })
}

/// One of so many values of everything that a picture shows.
fn numbers_of(metric: &str, panels: &[(String, Vec<Group>)], every: usize) -> String {
    let mut csv = csv::row(["place", "choice", "metric", "value"]);
    for (place, groups) in panels {
        for group in groups {
            for value in group.values.iter().step_by(every) {
                csv += &csv::row([place.as_str(), &group.label, metric, &csv::number(*value)]);
            }
        }
    }
    csv
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::results_of;
    use crate::testing::Toy;

    /// More boxes than a picture of panels holds are drawn below each other, and their numbers are saved.
    #[test]
    fn every_value_of_a_box_that_is_drawn_is_saved() {
        let rates: Vec<String> = (1..=20).map(|rate| format!("\"{rate} Mbps\"")).collect();
        let text = format!(
            "title = \"t\"\nquestion = \"q?\"\nseeds = 4\nrecord = \"none\"\n[path.p]\npreset = \"satellite\"\n[[flow]]\n\
             transfer = {{ download = \"1 MB\" }}\n[vary]\n\"path.p.down.rate\" = [{}]\n",
            rates.join(", ")
        );
        let directory = tempfile::tempdir().unwrap();
        let results = results_of(&text, directory.path(), &Toy::default());
        let grid = Grid::of(&results.scenario);
        let (matrices, _) = matrix::matrices(&results.scenario, &results.runs, &grid);
        let picture = distribution(&results.scenario, &results.runs, &grid, &matrices[0]).unwrap();
        assert!(picture.caption.starts_with("Box: quartiles"), "{}", picture.caption);
        assert_eq!(picture.csv.lines().count(), 1 + 20 * 4);
        // Curves leave values out, and say so.
        let text = text.replace("seeds = 4", "seeds = 30");
        let results = results_of(&text, &directory.path().join("more"), &Toy::default());
        let (matrices, _) = matrix::matrices(&results.scenario, &results.runs, &grid);
        let picture = distribution(&results.scenario, &results.runs, &grid, &matrices[0]).unwrap();
        assert!(picture.caption.contains("The first 18 of 20 are shown"), "{}", picture.caption);
        assert_eq!(picture.csv.lines().count(), 1 + 18 * 30, "{}", picture.caption);
    }
}
