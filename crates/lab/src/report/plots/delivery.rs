//! Delivery over time: a panel for each place, the median run and the band of 5 to 95 % of the runs for each choice,
//! and the floor.

use super::source::Source;
use crate::choices::Grid;
use crate::file_name::file_name;
use crate::metric::Unit;
use crate::record::{DELIVERY_SHARES, Delivery};
use crate::report::csv;
use crate::report::limited::{Limited, first_of};
use crate::report::picture::{BOUND, Curve, Lines, MOST_PANELS, Picture, Point, Reading, left_out, legend};
use crate::stats::quantile;
use crate::summary::Runs;

/// The most choices of a panel.
const MOST_CURVES: usize = 6;

/// The most flows.
const MOST_FLOWS: usize = 3;

/// The pictures, one for each flow with a curve.
pub(super) fn pictures(source: &Source<'_>) -> Limited<Picture> {
    let Some(runs) = source.runs else { return Limited::new([], 0) };
    let flows = source.scenario.points.first().map_or(&[][..], |point| &point.world.flows);
    let flows = flows.iter().map(|flow| flow.name.as_str());
    let has_curve = |flow: &&str| runs.values().any(|run| run.has_delivery(flow));
    let Limited { shown, more } = Limited::new(flows.filter(has_curve), MOST_FLOWS);
    Limited { shown: shown.into_iter().filter_map(|flow| picture(runs, source.grid, flow)).collect(), more }
}

fn picture(runs: &Runs, grid: &Grid, flow: &str) -> Option<Picture> {
    let mut csv = csv::row(["place", "choice", "time_s", "time_s_p5", "time_s_p95", "bytes"]);
    let mut panels = Vec::new();
    let choices = grid.choices.len().min(MOST_CURVES);
    let mut count = 0;
    for (place, at) in grid.places.iter().enumerate() {
        if panels.len() == MOST_PANELS {
            let mut points = (0..choices).filter_map(|choice| grid.point(place, choice));
            count += usize::from(points.any(|point| runs.of_point(point).any(|(_, run)| run.has_delivery(flow))));
            continue;
        }
        let mut curves: Vec<Curve> = Vec::new();
        for choice in 0..choices {
            let Some(point) = grid.point(place, choice) else { continue };
            let deliveries = deliveries(runs, point, flow);
            let Some(curve) = over_runs(&deliveries) else { continue };
            if curves.is_empty() {
                curves.extend(floor(&deliveries));
            }
            let name = &grid.choices[choice].name;
            for (time, bytes, band) in &curve {
                let (low, high) = band.unwrap_or((*time, *time));
                let cells = [*time, low, high, *bytes].map(csv::number);
                csv += &csv::row([at.name.as_str(), name].into_iter().chain(cells.iter().map(String::as_str)));
            }
            curves.push(Curve {
                color: grid.choices[choice].color,
                points: curve,
                titles: Vec::new(),
                is_marked: false,
                is_dashed: false,
            });
        }
        // The floor last, so that it is not hidden.
        let has_floor = curves.first().is_some_and(|curve| curve.is_dashed);
        curves.rotate_left(usize::from(has_floor));
        if !curves.is_empty() {
            panels.push((at.name.clone(), curves));
        }
    }
    count += panels.len();
    let mut legend = legend(grid);
    legend.truncate(choices);
    if panels.iter().any(|(_, curves)| curves.iter().any(|curve| curve.is_dashed)) {
        legend.push(("floor (dashed)".to_owned(), BOUND));
    }
    let lines = Lines {
        name: format!("delivery of {flow}"),
        across: ("time since the first datagram".to_owned(), Reading::Unit(Unit::Seconds)),
        up: ("delivered".to_owned(), Reading::Unit(Unit::Bytes)),
        panels,
        legend,
        from_zero: true,
        is_across: true,
    };
    let more = first_of(choices, grid.choices.len(), "choice");
    Some(Picture {
        name: file_name(&["delivery", flow]),
        title: format!("Delivery of {flow} over time"),
        caption: format!(
            "Line: the median over runs of the time by which so much had arrived; band: 5 to 95 % of the runs; dashed: \
             the best that the path allows.{more}{}{}",
            lines.beneath(),
            left_out(count)
        ),
        svg: lines.svg()?,
        csv,
    })
}

fn deliveries(runs: &Runs, point: usize, flow: &str) -> Vec<Delivery> {
    runs.of_point(point).filter_map(|(_, run)| run.delivery(flow)).collect()
}

/// The median and the band over runs, as time, bytes and the ends of the band in time; of flows without an end the band
/// is left out and the median is that of the bytes.
fn over_runs(deliveries: &[Delivery]) -> Option<Vec<Point>> {
    let mut points = vec![(0.0, 0.0, Some((0.0, 0.0)))];
    match deliveries.first()? {
        Delivery::Shares { whole, .. } => {
            for share in 0..DELIVERY_SHARES {
                // What never arrived came later than anything else.
                let mut times: Vec<f64> = deliveries
                    .iter()
                    .filter_map(|delivery| match delivery {
                        Delivery::Shares { times, .. } => Some(times.get(share).copied().unwrap_or(f64::INFINITY)),
                        Delivery::Steps { .. } => None,
                    })
                    .collect();
                times.sort_unstable_by(f64::total_cmp);
                let [low, median, high] = [0.05, 0.5, 0.95].map(|at| quantile(&times, at));
                if !median.is_finite() {
                    break;
                }
                let bytes = *whole as f64 * (share + 1) as f64 / DELIVERY_SHARES as f64;
                points.push((median, bytes, Some((low, if high.is_finite() { high } else { f64::NAN }))));
            }
        }
        Delivery::Steps { lasted, bytes } => {
            for step in 0..bytes.len() {
                let mut all: Vec<f64> = deliveries
                    .iter()
                    .filter_map(|delivery| match delivery {
                        Delivery::Steps { bytes, .. } => bytes.get(step).map(|bytes| *bytes as f64),
                        Delivery::Shares { .. } => None,
                    })
                    .collect();
                all.sort_unstable_by(f64::total_cmp);
                points.push((lasted * (step + 1) as f64 / bytes.len() as f64, quantile(&all, 0.5), None));
            }
            points[0].2 = None;
        }
    }
    (points.len() > 1).then_some(points)
}

/// The floor, if it is known.
fn floor(deliveries: &[Delivery]) -> Option<Curve> {
    let (whole, floor) = deliveries.iter().find_map(|delivery| match delivery {
        Delivery::Shares { whole, floor, .. } if !floor.is_empty() => Some((*whole as f64, floor)),
        _ => None,
    })?;
    let steps = (floor.len() - 1).max(1) as f64;
    let points = floor.iter().enumerate().map(|(at, time)| (*time, whole * at as f64 / steps, None)).collect();
    Some(Curve { color: BOUND, points, titles: Vec::new(), is_marked: false, is_dashed: true })
}
