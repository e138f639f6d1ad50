//! The times at which a stream's datagrams are due.

use thalweg_units::{Duration, Instant};

/// The first time after `now` that is a whole number of intervals after `slot`: what a pause has kept from being sent
/// is not sent in a burst after it.
pub(crate) fn next_slot(slot: Instant, now: Instant, interval: Duration) -> Instant {
    let interval = interval.max(Duration::from_micros(1));
    let late = now.saturating_since(slot);
    let missed = late.as_nanos() / interval.as_nanos();
    slot + interval * u32::try_from(missed + 1).unwrap_or(u32::MAX)
}
