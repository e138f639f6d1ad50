//! Whether the last round trip shows no queue: while it does, a window may more than double (Rapid Start,
//! draft-kazuho-ccwg-rapid-start-02).

use thalweg_units::Duration;

use crate::congestion::AckEvent;
use crate::congestion::floor::Floor;

/// How far above the smallest round-trip time there is no queue: less is missed …
const MOST_RISE: Duration = Duration::from_millis(4);
/// … and so is less than a tenth of it.
const RISE_DIVISOR: u32 = 10;
/// Windows per round trip while the window triples, so that the pacer is not what holds it back.
pub(super) const TRIPLING_GAIN: (u64, u64) = (3, 1);

/// The smallest round trip of all, and that of the last one.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Headroom {
    smallest: Option<Duration>,
    floor: Floor,
}

impl Headroom {
    /// An ACK, and the round trip by which the queue is judged.
    pub(super) fn on_ack(&mut self, event: &AckEvent<'_>, sample: Duration) {
        if event.has_rtt_sample {
            let smallest = self.smallest.map_or(sample, |smallest| smallest.min(sample));
            self.smallest = Some(smallest);
            self.floor.on_sample(event.now, smallest, sample);
        }
    }

    /// Whether the last round trip shows no queue. Nothing does before the first sample.
    pub(super) fn is_there(&self) -> bool {
        let (Some(smallest), Some(floor)) = (self.smallest, self.floor.smallest()) else { return false };
        floor <= smallest.saturating_add((smallest / RISE_DIVISOR).min(MOST_RISE))
    }
}
