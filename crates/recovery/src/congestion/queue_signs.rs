//! Signs that a flight met a queue.

use thalweg_units::Duration;

use super::AckEvent;

/// A queue shows if a sample exceeds the smallest round trip by this part of it …
const WAIT_DIVISOR: u32 = 4;
/// … and by this besides, which is jitter.
const JITTER: Duration = Duration::from_millis(2);

/// What samples and marks say of a queue.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct QueueSigns {
    /// The longest round trip; zero without a sample.
    longest: Duration,
    is_marked: bool,
}

impl QueueSigns {
    /// With the longest round trip of before.
    pub(crate) fn with_longest(longest: Duration) -> QueueSigns {
        QueueSigns { longest, is_marked: false }
    }

    /// Takes in what `event` reports.
    pub(crate) fn take_in(&mut self, event: &AckEvent<'_>) {
        if event.has_rtt_sample {
            self.longest = self.longest.max(event.rtt.adjusted);
        }
        self.is_marked |= event.marks.ce > 0;
    }

    /// Whether there was a sample.
    pub(crate) fn has_sample(&self) -> bool {
        !self.longest.is_zero()
    }

    /// Whether a mark or a long wait says that the path was full.
    pub(crate) fn show_queue(&self, min_rtt: Duration) -> bool {
        self.is_marked || self.longest > min_rtt.saturating_add(min_rtt / WAIT_DIVISOR).saturating_add(JITTER)
    }
}
