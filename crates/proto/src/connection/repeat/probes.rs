//! Probes after a silence, and what may be repeated before it has lasted (RFC 9002 sections 6.2.3 and 6.2.4).

use std::time::Duration;

use thalweg_units::Instant;

use crate::Side;

/// How often a connection repeats handshake messages ahead of its probe timer. Once makes good a single loss; each
/// further time costs a server that does not know its client's address two datagrams.
const MAX_SPEED_UPS: u8 = 3;
/// How many datagrams a server repeats then: enough for a large ServerHello and the messages behind it.
const SPEED_UP_DATAGRAMS: u8 = 2;

/// Datagrams that are owed, and how often the handshake was sped up.
#[derive(Debug, Default)]
pub(super) struct Probing {
    /// Datagrams owed to the probe timeout; the packets of all spaces share them.
    pub(super) datagrams: u8,
    speed_ups: u8,
    /// The next speed-up comes no earlier.
    not_before: Option<Instant>,
}

impl Probing {
    /// A datagram that was owed was written. Returns whether it was the last.
    pub(super) fn on_datagram(&mut self) -> bool {
        self.datagrams = self.datagrams.saturating_sub(1);
        self.datagrams == 0
    }

    /// Whether the handshake may be sped up now.
    pub(super) fn may_speed_up(&self, now: Instant) -> bool {
        self.speed_ups < MAX_SPEED_UPS && self.not_before.is_none_or(|at| now >= at)
    }

    /// The handshake is sped up, which began at `started`. Returns how many datagrams that takes.
    pub(super) fn speed_up(&mut self, now: Instant, started: Instant, side: Side) -> u8 {
        self.speed_ups += 1;
        // The answer takes a round trip, which is no longer than the handshake took so far.
        let round_trip = now.saturating_since(started).max(Duration::from_millis(1));
        self.not_before = Some(now + round_trip);
        self.datagrams = if side.is_client() { 1 } else { SPEED_UP_DATAGRAMS };
        self.datagrams
    }

    /// So many datagrams are owed as second copies. The handshake is not sped up before `not_before`: what the peer
    /// asks for until then is on its way.
    pub(super) fn owe_copies(&mut self, datagrams: u8, not_before: Instant) {
        self.datagrams = datagrams;
        self.not_before = self.not_before.max(Some(not_before));
    }
}
