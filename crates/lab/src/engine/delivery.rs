//! The delivery curve of a flow, as small as a picture of it allows.

use thalweg_sim::{Floor, FlowResult, Traffic};
use thalweg_units::{Duration, DurationExt};

use crate::record::{DELIVERY_SHARES, Delivery};

/// How the bytes of a flow arrived; `end` is the end of the run. None where the whole is not known: of traffic that is
/// neither one transfer nor complete.
pub(super) fn curve(flow: &FlowResult, traffic: &Traffic, end: Duration) -> Option<Delivery> {
    if traffic.is_endless() {
        return Some(steps(flow, end.saturating_sub(flow.start)));
    }
    let whole = match traffic.bulk().and_then(|bulk| bulk.bytes) {
        Some(bytes) => bytes,
        None => flow.completion.and_then(|_| flow.shares.last()).map(|(_, bytes)| *bytes)?,
    };
    let times = (1..=DELIVERY_SHARES as u128).map_while(|share| {
        let wanted = (u128::from(whole) * share).div_ceil(DELIVERY_SHARES as u128) as u64;
        let at = flow.shares.partition_point(|(_, bytes)| *bytes < wanted);
        Some(micros(flow.shares.get(at)?.0.saturating_sub(flow.start)))
    });
    Some(Delivery::Shares { whole, times: times.collect(), floor: flow.floor.as_ref().map(best).unwrap_or_default() })
}

fn steps(flow: &FlowResult, lasted: Duration) -> Delivery {
    let bytes = (1..=DELIVERY_SHARES as u128).map(|step| {
        let after = u128::from(lasted.nanos()) * step / DELIVERY_SHARES as u128;
        let until = flow.start + Duration::from_nanos(after as u64);
        let arrived = flow.delivered.partition_point(|(at, _)| *at <= until);
        arrived.checked_sub(1).map_or(0, |last| flow.delivered[last].1)
    });
    Delivery::Steps { lasted: micros(lasted), bytes: bytes.collect() }
}

/// The floor's curve: its ends if it is straight, so that runs at constant rates need not keep the line's points.
fn best(floor: &Floor) -> Vec<f64> {
    let [first, .., last] = floor.shares;
    let straight = |share: usize| first + (last - first) * share as u32 / Floor::SHARES as u32;
    let is_line = (0..).zip(&floor.shares).all(|(share, at)| at.abs_diff(straight(share)) <= last / STRAIGHT);
    if is_line { [first, last].map(micros).to_vec() } else { floor.shares.map(micros).to_vec() }
}

/// A point may lie beside the line drawn instead by one part of so many of the whole: less than a pixel, more than
/// the byte by which a share is rounded.
const STRAIGHT: u32 = 5_000;

/// Seconds, rounded up to a microsecond.
fn micros(time: Duration) -> f64 {
    time.nanos().div_ceil(1_000) as f64 / 1e6
}
