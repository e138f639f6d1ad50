//! The rate of a path over the times between ACKs, as published (picoquic, 2020).
//!
//! From an ACK on, until one that comes more than a millisecond later: bytes delivered over the longer of the time
//! between the two and the time in which they were sent. The highest such quotient is the peak. It is exact where ACKs
//! come as packets arrive, and too high where delay varies: a packet that is late makes those behind it look fast.

use thalweg_units::{Duration, Instant, Rate};

use crate::congestion::AckEvent;

/// ACKs closer together than this say more about the clock than about the path.
const SHORTEST: Duration = Duration::from_millis(1);

/// See the [module](self).
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Interval {
    /// When the ACK came, when its newest packet left, and what had been delivered.
    reference: Option<(Instant, Instant, u64)>,
    peak: Option<Rate>,
}

impl Interval {
    pub(super) fn peak(&self) -> Option<Rate> {
        self.peak
    }

    pub(super) fn on_ack(&mut self, event: &AckEvent<'_>) {
        let Some(sent) = event.newest_sent() else { return };
        let delay = event.rtt.latest.saturating_sub(event.rtt.adjusted);
        let came = event.now - delay;
        let here = (came, sent, event.delivered);
        let Some((from, sent_from, delivered)) = self.reference else {
            self.reference = Some(here);
            return;
        };
        let span = came.saturating_since(from);
        if span <= SHORTEST || sent < sent_from {
            return;
        }
        if !event.application_limited {
            let bytes = event.delivered.saturating_sub(delivered);
            let rate = Rate::from_bytes_over(bytes, span.max(sent.saturating_since(sent_from)));
            self.peak = self.peak.max(Some(rate));
        }
        self.reference = Some(here);
    }
}
