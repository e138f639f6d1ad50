//! Credit for new paths: how many new addresses a peer may use.

use thalweg_units::Instant;

/// New addresses accepted in a row without one being validated. Each costs us packets that nobody may ever acknowledge,
/// so a peer that hops from address to address must not go on for ever. One more is granted per second.
const MAX_UNPROVEN: u8 = 32;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct PathCredit {
    left: u8,
    granted: Instant,
}

impl PathCredit {
    pub(super) fn new(now: Instant) -> Self {
        Self { left: MAX_UNPROVEN, granted: now }
    }

    /// Takes one, if any is left.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        let seconds = now.saturating_since(self.granted).as_secs();
        if seconds > 0 {
            self.granted = now;
            self.left = self.left.saturating_add(seconds.min(u64::from(MAX_UNPROVEN)) as u8).min(MAX_UNPROVEN);
        }
        let may = self.left > 0;
        self.left = self.left.saturating_sub(1);
        may
    }
}
