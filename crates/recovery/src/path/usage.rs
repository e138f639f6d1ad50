//! Utilization of the window by the transport, and how far that lets it grow.
//!
//! | `growth-limit=` | decided | opens |
//! |---|---|---|
//! | `unused` | when a packet is sent, and kept until it is acknowledged | by packets of flights that filled the window (RFC 9002 section 7.8) |
//! | `flight` | when a packet is acknowledged | by every packet, up to a limit that follows the largest flight (draft-ietf-ccwg-ratelimited-increase-10) |
//! | `backlog` | when a packet is acknowledged | by every packet, while something is left to send (quinn, noq) |
//!
//! Read to the letter, RFC 9002 would ask when the acknowledgment arrives; by then the window has room in any case.

use crate::policies::GrowthLimitPolicy;

/// Whether the transport makes use of the window of one path.
#[derive(Copy, Clone, Debug)]
pub(super) struct Usage {
    policy: GrowthLimitPolicy,
    /// The most bytes in flight since the start or the last reduction, the initial window at least until that (maxFS).
    largest_flight: u64,
    /// The newest packet in flight when the window was full: up to it everything was sent in full use of the window.
    filled: u64,
    /// The newest packet sent when the application had nothing more to send and the window had room.
    unfilled: u64,
    /// The application leaves the window unused.
    pub(super) is_limited: bool,
}

/// What the limit of a flight depends on when an acknowledgment arrives.
#[derive(Copy, Clone, Debug)]
pub(super) struct Opening {
    /// Bytes in flight before it.
    pub(super) prior_in_flight: u64,
    /// The window.
    pub(super) window: u64,
    /// Below the slow start threshold.
    pub(super) in_slow_start: bool,
    /// Bytes of a full datagram.
    pub(super) datagram: u64,
}

impl Usage {
    /// A new path's, with an initial window of so many bytes.
    pub(super) fn new(policy: GrowthLimitPolicy, initial_window: u64) -> Usage {
        Usage { policy, largest_flight: initial_window, filled: 0, unfilled: 0, is_limited: false }
    }

    /// Goes on by another rule.
    pub(super) fn set_policy(&mut self, policy: GrowthLimitPolicy) {
        self.policy = policy;
    }

    /// So many bytes are in flight, now that a packet has left.
    pub(super) fn on_flight(&mut self, bytes_in_flight: u64) {
        self.largest_flight = self.largest_flight.max(bytes_in_flight);
    }

    /// The window was reduced: what was in flight before says nothing any more.
    pub(super) fn on_reduction(&mut self, bytes_in_flight: u64) {
        self.largest_flight = bytes_in_flight;
    }

    /// How many of `acked` bytes open the window.
    pub(super) fn opens(&self, acked: u64, opening: Opening) -> u64 {
        let Opening { prior_in_flight, window, in_slow_start, datagram } = opening;
        if self.policy != GrowthLimitPolicy::Flight || prior_in_flight >= window {
            return acked;
        }
        if in_slow_start {
            return acked.min(self.largest_flight.saturating_mul(2).saturating_sub(window));
        }
        // Avoidance grows in its own units: whether it may is all that can be said.
        if window < self.largest_flight.saturating_add(datagram) { acked } else { 0 }
    }

    /// The packet at this place left, and the window was full afterwards.
    pub(super) fn on_full(&mut self, order: u64) {
        self.filled = order;
    }

    /// The transport has nothing to send although the window has room, after the packet at this place.
    pub(super) fn on_unused(&mut self, order: u64) {
        self.unfilled = order;
    }

    /// Whether a packet belongs to a flight that filled the window, or was cut short by nothing that the application
    /// did. What the window looks like when the acknowledgment arrives does not matter: it would make growth depend on
    /// how many packets one acknowledgment names. In `backlog`, as quinn and noq have it, nothing else does.
    pub(super) fn was_full(&self, order: u64) -> bool {
        match self.policy {
            GrowthLimitPolicy::Unused => order <= self.filled || order > self.unfilled,
            GrowthLimitPolicy::Flight => true,
            #[cfg(feature = "study")]
            GrowthLimitPolicy::Backlog => !self.is_limited,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of so many datagrams of 1000 bytes, each acknowledged one by one: window and largest flight after each.
    fn rounds(sizes: &[u64], in_slow_start: bool) -> Vec<(u64, u64)> {
        const DATAGRAM: u64 = 1_000;
        let mut usage = Usage::new(GrowthLimitPolicy::Flight, 10 * DATAGRAM);
        let mut window = 10 * DATAGRAM;
        let round = |size: &u64| {
            (1..=*size).for_each(|sent| usage.on_flight(sent * DATAGRAM));
            for left in (1..=*size).rev() {
                let prior_in_flight = left * DATAGRAM;
                let opening = Opening { prior_in_flight, window, in_slow_start, datagram: DATAGRAM };
                let opened = usage.opens(DATAGRAM, opening);
                window += if in_slow_start { opened } else { opened * DATAGRAM / window };
            }
            (window, usage.largest_flight)
        };
        sizes.iter().map(round).collect()
    }

    /// The appendix of the draft: the unconstrained sender would be at 14, 22, 26 and 46 datagrams.
    #[test]
    fn ratelimited_increase_appendix_byte_vector() {
        let expected = [(14_000, 10_000), (20_000, 10_000), (20_000, 10_000), (40_000, 20_000)];
        assert_eq!(rounds(&[4, 8, 4, 20], true), expected);
    }

    /// Its first example: a full flight doubles the window, a smaller one opens it no further.
    #[test]
    fn ratelimited_increase_a_small_flight_after_a_full_one_opens_nothing() {
        assert_eq!(rounds(&[10, 4], true), [(20_000, 10_000), (20_000, 10_000)]);
    }

    #[test]
    fn ratelimited_increase_avoidance_stays_within_a_datagram_of_the_largest_flight() {
        let windows = rounds(&[8; 100], false);
        let (last, largest) = windows[99];
        assert!((10_000..12_000).contains(&last), "{last}");
        assert_eq!(largest, 10_000);
    }

    #[test]
    fn a_reduction_forgets_the_largest_flight() {
        let mut usage = Usage::new(GrowthLimitPolicy::Flight, 10_000);
        usage.on_flight(80_000);
        usage.on_reduction(6_000);
        let opening = Opening { prior_in_flight: 5_000, window: 11_000, in_slow_start: true, datagram: 1_000 };
        assert_eq!(usage.opens(2_000, opening), 1_000);
        usage.on_flight(7_000);
        assert_eq!(usage.opens(2_000, opening), 2_000);
    }

    #[cfg(feature = "study")]
    #[test]
    fn what_leaves_last_before_a_pause_opens_nothing() {
        let mut usage = Usage::new(GrowthLimitPolicy::Backlog, 10_000);
        usage.on_unused(5);
        assert!(usage.was_full(4) && usage.was_full(6));
        usage.is_limited = true;
        assert!(!usage.was_full(4) && !usage.was_full(6));
        let opening = Opening { prior_in_flight: 2_000, window: 10_000, in_slow_start: true, datagram: 1_000 };
        assert_eq!(usage.opens(1_000, opening), 1_000);
    }
}
