//! Times of arrival, for the timestamps of the next ACK (draft-ietf-quic-receive-ts-02).

use std::collections::VecDeque;

use thalweg_units::Instant;

use crate::frame::Timestamp;

/// The most timestamps in one ACK, whatever the peer takes: more packets than any request lets one ACK cover, and in
/// most packets they fit.
const MOST: usize = 128;

/// The arrivals that no ACK has reported yet. Each is reported once: an ACK that is lost takes its timestamps along.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// How many go into one ACK; with 0 nothing is recorded.
    most: usize,
    /// By how many bits microseconds are shifted.
    exponent: u8,
    /// The start of our clock: just before the first arrival.
    basis: Option<Instant>,
    /// In the order of time.
    recent: VecDeque<Timestamp>,
}

impl Arrivals {
    /// The peer takes so many timestamps per ACK, in units of 2^`exponent` microseconds.
    pub(super) fn enable(&mut self, most: u64, exponent: u8) {
        self.most = usize::try_from(most).map_or(MOST, |most| most.min(MOST));
        self.exponent = exponent.min(20);
    }

    /// A packet arrived.
    pub(super) fn on_packet(&mut self, now: Instant, number: u64) {
        if self.most == 0 {
            return;
        }
        let basis = *self.basis.get_or_insert(now);
        let micros = u64::try_from(now.saturating_since(basis).as_micros()).unwrap_or(u64::MAX);
        // All are after the start of the clock, and the clock never runs backwards.
        let units = (micros >> self.exponent).saturating_add(1);
        let units = self.recent.back().map_or(units, |last| last.units.max(units));
        if self.recent.len() >= self.most {
            self.recent.pop_front();
        }
        self.recent.push_back(Timestamp { number, units });
    }

    /// Whether there is anything to report.
    pub(super) fn is_empty(&self) -> bool {
        self.recent.is_empty()
    }

    /// How many go into one ACK.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// What to report, newest first.
    pub(super) fn newest_first(&self) -> impl Iterator<Item = Timestamp> + Clone + '_ {
        self.recent.iter().rev().copied()
    }

    /// An ACK was written: what it had no room for is reported by none.
    pub(super) fn clear(&mut self) {
        self.recent.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn told(arrivals: &Arrivals) -> Vec<(u64, u64)> {
        arrivals.newest_first().map(|time| (time.number, time.units)).collect()
    }

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(1 << 40) + Duration::from_micros(micros)
    }

    #[test]
    fn the_newest_come_first_in_the_units_that_the_peer_wants() {
        for (exponent, expected) in [(0, [(2, 1_001), (3, 501), (1, 1)]), (3, [(2, 126), (3, 63), (1, 1)])] {
            let mut arrivals = Arrivals::default();
            arrivals.enable(9, exponent);
            for (number, micros) in [(1, 0), (3, 500), (2, 1_000)] {
                arrivals.on_packet(at(micros), number);
            }
            assert_eq!(told(&arrivals), expected);
            arrivals.clear();
            assert!(arrivals.is_empty());
        }
    }

    #[test]
    fn what_is_remembered_is_bounded_whatever_the_peer_takes() {
        for (most, kept) in [(0, 0), (5, 5), (u64::MAX, MOST)] {
            let mut arrivals = Arrivals::default();
            arrivals.enable(most, u8::MAX);
            (0..10_000).for_each(|number| arrivals.on_packet(at(number), number));
            assert_eq!(told(&arrivals).len(), kept);
            assert_eq!(told(&arrivals).first().map(|newest| newest.0), (kept > 0).then_some(9_999));
        }
    }

    #[test]
    fn a_packet_that_waited_for_its_keys_does_not_turn_the_clock_back() {
        let mut arrivals = Arrivals::default();
        arrivals.enable(9, 0);
        arrivals.on_packet(at(50), 1);
        arrivals.on_packet(at(10), 0);
        assert_eq!(told(&arrivals), [(0, 1), (1, 1)]);
    }
}
