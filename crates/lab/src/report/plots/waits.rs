//! Sojourn times of packets in a queue as a distribution: a panel for each place, a line for each choice.

use super::source::Source;
use crate::choices::{Grid, LOOKS};
use crate::file_name::file_name;
use crate::matrix;
use crate::metric::Unit;
use crate::record::WAIT_SHARES;
use crate::report::csv;
use crate::report::limited::{Limited, first_of};
use crate::report::picture::{Curve, Lines, MOST_PANELS, Picture, Point, Reading, left_out, legend};
use crate::stats::quantile;
use crate::summary::Runs;

/// What is shorter is drawn as this long: an axis that is logarithmic has no zero.
const LEAST: f64 = 1e-4;

/// A link is shown if its packets wait at least this share of the longest wait of any.
const BUSY: f64 = 0.05;

/// The most links.
const MOST_LINKS: usize = 3;

/// The pictures, one for each link whose queue fills, if the scenario asks how long packets wait.
pub(super) fn pictures(source: &Source<'_>) -> Limited<Picture> {
    let Some(runs) = source.runs else { return Limited::new([], 0) };
    let asked = matrix::asked(source.scenario);
    if !asked.iter().any(|(answer, _)| answer.metric.name.contains("sojourn")) {
        return Limited::new([], 0);
    }
    let mut longest: Vec<(&str, f64)> = Vec::new();
    for (link, run) in runs.values().flat_map(|run| run.links().map(move |link| (link, run))) {
        let wait = run.waits(link).last().copied().unwrap_or(0.0);
        match longest.iter_mut().find(|(name, _)| *name == link) {
            Some((_, most)) => *most = most.max(wait),
            None => longest.push((link, wait)),
        }
    }
    let most = longest.iter().map(|(_, wait)| *wait).fold(LEAST, f64::max);
    let busy = longest.into_iter().filter(|(_, wait)| *wait > BUSY * most);
    let Limited { shown, more } = Limited::new(busy, MOST_LINKS);
    Limited { shown: shown.into_iter().filter_map(|(link, _)| picture(runs, source.grid, link)).collect(), more }
}

fn picture(runs: &Runs, grid: &Grid, link: &str) -> Option<Picture> {
    let mut csv = csv::row(["place", "choice", "share", "wait_s", "wait_s_p5", "wait_s_p95"]);
    let mut panels = Vec::new();
    for (place, at) in grid.places.iter().enumerate() {
        let mut curves: Vec<Curve> = Vec::new();
        for (choice, by) in grid.choices.iter().enumerate().take(LOOKS) {
            let Some(point) = grid.point(place, choice) else { continue };
            let points = over_runs(&waits(runs, point, link));
            if points.is_empty() {
                continue;
            }
            // Of panels that are not drawn there are no numbers.
            for (wait, share, band) in points.iter().filter(|_| panels.len() < MOST_PANELS) {
                let (low, high) = band.unwrap_or((*wait, *wait));
                let cells = [*share, *wait, low, high].map(csv::number);
                csv += &csv::row([at.name.as_str(), &by.name].into_iter().chain(cells.iter().map(String::as_str)));
            }
            let drawn = points.into_iter().map(|(wait, share, _)| (wait.max(LEAST), share, None)).collect();
            curves.push(Curve {
                color: by.color,
                points: drawn,
                titles: Vec::new(),
                is_marked: false,
                is_dashed: false,
            });
        }
        if !curves.is_empty() {
            panels.push((at.name.clone(), curves));
        }
    }
    let count = panels.len();
    let mut legend = legend(grid);
    legend.truncate(LOOKS);
    let lines = Lines {
        name: format!("sojourn time at {link}"),
        across: ("sojourn time".to_owned(), Reading::Unit(Unit::Seconds)),
        up: ("share of packets".to_owned(), Reading::Unit(Unit::Share)),
        panels,
        legend,
        from_zero: true,
        is_across: false,
    };
    Some(Picture {
        name: file_name(&["sojourn", link, "distribution"]),
        title: format!("Sojourn time at {link}: distribution over packets"),
        caption: format!(
            "The share of packets that waited so long or less, median over runs; packets that were dropped are not in it. \
             A sojourn time below 0.1 ms is drawn there.{}{}{}",
            lines.beneath(),
            first_of(LOOKS, grid.choices.len(), "choice"),
            left_out(count)
        ),
        svg: lines.svg()?,
        csv,
    })
}

fn waits(runs: &Runs, point: usize, link: &str) -> Vec<Vec<f64>> {
    let waits = runs.of_point(point).map(|(_, run)| run.waits(link));
    waits.filter(|waits| waits.len() == WAIT_SHARES.len()).collect()
}

/// The median and the band of 5 to 95 % over runs of each quantile: seconds, share, band.
fn over_runs(runs: &[Vec<f64>]) -> Vec<Point> {
    let quantile_of = |at: usize| {
        let mut all: Vec<f64> = runs.iter().map(|waits| waits[at]).collect();
        all.sort_unstable_by(f64::total_cmp);
        [0.05, 0.5, 0.95].map(|share| quantile(&all, share))
    };
    let shares = WAIT_SHARES.iter().enumerate().filter(|_| !runs.is_empty());
    let points = shares.map(|(at, thousandths)| {
        let [low, median, high] = quantile_of(at);
        (median, f64::from(*thousandths) / 1e3, Some((low, high)))
    });
    points.collect()
}
