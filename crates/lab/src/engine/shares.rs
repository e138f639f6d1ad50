//! Shares of links: goodput, use and fairness, over the time in which flows ran or the measuring window.

use thalweg_link::RateModel;
use thalweg_sim::{FlowPlan, FlowResult, FlowWindow, Plan, RunResult};
use thalweg_units::Duration;

/// A stretch of virtual time.
type Span = (Duration, Duration);

/// From a flow's first datagram to its last byte; to the end of the run if it did not complete.
fn life(flow: &FlowResult, end: Duration) -> Span {
    (flow.start, flow.completion.map_or(end, |completion| flow.start + completion))
}

/// Bits per second of the application; none where no value would be fair. A transfer that never completes has none
/// either: what came of it is worth nothing to who asked for the whole.
pub(super) fn goodput(
    flow: &FlowResult,
    flow_plan: &FlowPlan,
    plan: &Plan,
    result: &RunResult,
    window: Option<&FlowWindow>,
) -> Option<f64> {
    let (start, end) = life(flow, result.virtual_time);
    let rate = |bytes: u64, span: Duration| (!span.is_zero()).then(|| bytes as f64 * 8.0 / span.as_secs_f64());
    if let Some((from, to)) = plan.measure {
        // Who has failed would have had time until the window's end, even if nobody waited for it.
        let until = if flow.failed.is_some() { to } else { to.min(end) };
        return window.and_then(|window| rate(window.bytes, until.saturating_sub(from.max(start))));
    }
    let lasted = end.saturating_sub(start);
    match flow_plan.traffic.lasts() {
        // What takes the time that it takes, whether or not anything arrives.
        Some(span) => rate(flow.bytes, span.max(flow.completion.unwrap_or_default())),
        _ if flow.completion.is_some() || flow_plan.traffic.is_endless() => rate(flow.bytes, lasted),
        _ => None,
    }
}

/// Bytes that a direction carried over what its rate allows, from the first start to the last end of the flows that
/// take it, or in the measuring window; none without a rate, flows, or time.
pub(super) fn link_use(plan: &Plan, result: &RunResult, link: usize, rate: &RateModel) -> Option<f64> {
    if rate.nominal().bps() == u64::MAX {
        return None;
    }
    let ((from, to), bytes) = match plan.measure {
        Some(_) => {
            let window = result.window.as_ref()?;
            ((window.from, window.to), window.links.get(link)?.served_bytes)
        }
        None => {
            let flows = result.flows.iter().zip(&plan.flows).filter(|(_, plan)| plan.takes(link / 2));
            let lives = flows.map(|(flow, _)| life(flow, result.virtual_time));
            let all = lives.reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)))?;
            (all, result.links.get(link)?.stats.served_bytes)
        }
    };
    let room = rate.capacity(to).saturating_sub(rate.capacity(from));
    (room > 0).then(|| bytes as f64 / room as f64)
}

/// Jain's index over the goodputs of flows that compete. Of several groups that do, the lowest counts. None if nobody
/// competes, or for less than a round trip; zero if nobody got anything.
pub(super) fn fairness(plan: &Plan, result: &RunResult) -> Option<f64> {
    competitions(plan, result).map(|group| jain(&group.got)).reduce(f64::min)
}

fn jain(got: &[(usize, u64)]) -> f64 {
    let (sum, squares) = got.iter().fold((0.0, 0.0), |(sum, squares), (_, bytes)| {
        let one = *bytes as f64;
        (sum + one, squares + one * one)
    });
    if squares > 0.0 { sum * sum / (got.len() as f64 * squares) } else { 0.0 }
}

/// Flows that compete for fewer round trips are still opening their windows.
const SETTLED: u32 = 30;

/// What a flow got of what its competitors and itself got. Of several groups of competitors that it is in, each is the
/// least. None for a flow that competes with nobody, and where nobody got anything.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Shares {
    /// The share of all.
    pub(super) of_all: Option<f64>,
    /// The share over an equal one, among those who compete for [`SETTLED`] round trips.
    pub(super) over_fair: Option<f64>,
}

/// The shares of each flow, by number.
pub(super) fn of_competitors(plan: &Plan, result: &RunResult) -> Vec<Shares> {
    let mut shares = vec![Shares::default(); result.flows.len()];
    let least = |known: &mut Option<f64>, share: f64| *known = Some(known.map_or(share, |least| least.min(share)));
    for Group { got, is_settled } in competitions(plan, result) {
        let sum: u64 = got.iter().map(|(_, bytes)| bytes).sum();
        let count = got.len() as f64;
        for (index, bytes) in got {
            if let Some(shares) = shares.get_mut(index).filter(|_| sum > 0) {
                let one = bytes as f64 / sum as f64;
                least(&mut shares.of_all, one);
                if is_settled {
                    least(&mut shares.over_fair, one * count);
                }
            }
        }
    }
    shares
}

/// Flows that compete: transfers in the same direction of a path.
struct Group {
    /// The bytes that each received while all of them ran (within the measuring window, if there is one).
    got: Vec<(usize, u64)>,
    /// Whether that was for [`SETTLED`] round trips.
    is_settled: bool,
}

/// The groups of flows that compete. None who do for less than a round trip.
fn competitions(plan: &Plan, result: &RunResult) -> impl Iterator<Item = Group> {
    let directions = (0..plan.paths.len()).flat_map(|path| [(path, true), (path, false)]);
    directions.filter_map(|(path, up)| among(plan, result, path, up))
}

/// The group of one direction of a path: numbers of flows, and bytes.
fn among(plan: &Plan, result: &RunResult, path: usize, up: bool) -> Option<Group> {
    let end = result.virtual_time;
    let competes = |flow: &FlowResult, plan: &FlowPlan| {
        let bulk = plan.traffic.bulk().is_some_and(|bulk| bulk.up == up);
        bulk && plan.takes(path) && flow.start < end
    };
    let flows = result.flows.iter().zip(&plan.flows).enumerate();
    let group: Vec<(usize, (&FlowResult, &FlowPlan))> =
        flows.filter(|(_, (flow, plan))| competes(flow, plan)).collect();
    if group.len() < 2 {
        return None;
    }
    let (mut from, mut to) = plan.measure.unwrap_or((Duration::ZERO, end));
    for (_, (flow, _)) in &group {
        let (start, end) = life(flow, end);
        (from, to) = (from.max(start), to.min(end));
    }
    let round_trip = group.iter().map(|(_, (_, flow))| plan.round_trip(&flow.route)).max()?;
    let lasted = to.saturating_sub(from);
    if lasted <= round_trip {
        return None;
    }
    let got = |(index, (flow, _)): &(usize, (&FlowResult, &FlowPlan))| {
        (*index, delivered_by(flow, to) - delivered_by(flow, from))
    };
    let is_settled = lasted >= round_trip.saturating_mul(SETTLED);
    Some(Group { got: group.iter().map(got).collect(), is_settled })
}

/// Bytes that had arrived by a time, to within a step of the delivery curve.
fn delivered_by(flow: &FlowResult, time: Duration) -> u64 {
    let points = flow.delivered.partition_point(|(at, _)| *at <= time);
    points.checked_sub(1).and_then(|last| flow.delivered.get(last)).map_or(0, |(_, bytes)| *bytes)
}
