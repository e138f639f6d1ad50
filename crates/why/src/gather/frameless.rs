//! What the frames of a log without frames were, by what its metrics say: quinn logs packets, losses, round-trip times
//! and what is in flight.
//!
//! A metric after an arrival says how many packets have left the flight, and how long the newest of them took; packets
//! that left together are taken to have arrived in order. Which of them was lost is told later.

use std::collections::VecDeque;

use super::frames::{Ack, Frames, Piece};
use super::number::integer;
use crate::read::Data;

/// The size of packets that any path carries, with which a connection begins; bytes.
const LEAST_MTU: u64 = 1200;
/// What has fewer bytes is an acknowledgment alone.
const SMALL: u64 = 60;
/// Bytes of a packet that are no data: headers of the packet and of the frame, and the tag.
const AROUND: u64 = 31;
/// Packets that are watched at a time.
const WATCHED: usize = 1 << 16;
/// A sender that could send more fills less than this share of its window in a round trip.
const FILLED: f64 = 0.9;

/// A packet in flight.
#[derive(Clone, Copy, Debug)]
struct Sent {
    number: u64,
    /// Milliseconds.
    time: f64,
    size: u64,
    is_probe: bool,
}

/// A log without frames.
#[derive(Debug, Default)]
pub(super) struct Frameless {
    flight: VecDeque<Sent>,
    /// The largest packet number that was acknowledged.
    largest: Option<u64>,
    /// The largest size that came through, bytes.
    through: u64,
    /// Packets of the handshake in flight.
    early: u64,
    /// Packets in flight by the last metric, and those sent and lost since.
    in_flight: u64,
    sent: u64,
    lost: u64,
    /// Bytes of data so far, and of those lost that are to be sent again.
    offset: u64,
    again: u64,
    pub(super) usage: Usage,
}

impl Frameless {
    /// A packet with application data was sent.
    pub(super) fn sent(&mut self, now: f64, number: u64, size: u64) -> Frames {
        let mut frames = Frames::default();
        if size < SMALL {
            return frames;
        }
        frames.is_ack_eliciting = true;
        self.sent += 1;
        // A packet larger than any that came through looks for the path's MTU.
        let is_probe = size > self.through.max(LEAST_MTU);
        self.flight.push_back(Sent { number, time: now, size, is_probe });
        if self.flight.len() > WATCHED {
            self.flight.pop_front();
        }
        if !is_probe {
            let length = size.saturating_sub(AROUND);
            let old = self.again.min(length);
            self.again -= old;
            let offset = self.offset - old.min(self.offset);
            self.offset = offset + length;
            frames.pieces.push(Piece { id: 0, offset, length });
            self.usage.sent(now);
        }
        frames
    }

    /// A packet outside of the application's data was sent, which counts as in flight as well.
    pub(super) fn sent_early(&mut self) {
        (self.sent, self.early) = (self.sent + 1, self.early + 1);
    }

    /// A packet was declared lost; returns which it is here.
    pub(super) fn lost(&mut self, number: u64) -> u64 {
        self.lost += 1;
        let largest = self.largest.unwrap_or(0);
        // What is taken to have arrived stands for another one that has.
        let at = self.flight.iter().position(|sent| sent.number == number);
        let at = at.or_else(|| self.flight.iter().position(|sent| sent.number < largest));
        let Some(sent) = at.and_then(|at| self.flight.remove(at)) else { return number };
        if !sent.is_probe {
            self.again += sent.size.saturating_sub(AROUND);
        }
        sent.number
    }

    /// Metrics; the acknowledgment that they show.
    pub(super) fn metrics(&mut self, now: f64, data: Data<'_>) -> Option<Ack> {
        let number = |key: &str| data.get(key).and_then(integer);
        let seconds = |key: &str| data.get(key).and_then(Data::as_f64);
        self.usage.metrics(now, number("bytes_in_flight"), number("congestion_window"), seconds("smoothed_rtt"));
        let in_flight = number("packets_in_flight").unwrap_or(self.in_flight);
        let before = (self.in_flight + self.sent).saturating_sub(self.lost);
        (self.in_flight, self.sent, self.lost) = (in_flight, 0, 0);
        let gone = before.saturating_sub(in_flight);
        let early = gone.min(self.early);
        self.early -= early;
        let count = usize::try_from(gone - early).unwrap_or(usize::MAX).min(self.flight.len());
        let sample = seconds("latest_rtt").map(|seconds| now - seconds * 1000.0);
        let mut acked = if count == 0 { Vec::new() } else { self.acked(count, sample, now) };
        if acked.is_empty() {
            return None;
        }
        acked.sort_unstable_by(|a, b| b.cmp(a));
        let numbers: Vec<u64> = acked
            .iter()
            .filter_map(|at| self.flight.remove(*at))
            .map(|sent| {
                self.through = self.through.max(sent.size);
                sent.number
            })
            .collect();
        self.largest = self.largest.max(numbers.first().copied());
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for number in numbers {
            match ranges.last_mut() {
                Some((from, _)) if number + 1 == *from => *from = number,
                _ => ranges.push((number, number)),
            }
        }
        Some(Ack { ranges, ..Ack::default() })
    }

    /// The places of so many packets that were acknowledged; `sample` is when the newest of them was sent, if it is
    /// newer than all before.
    fn acked(&self, count: usize, sample: Option<f64>, now: f64) -> Vec<usize> {
        let fresh = self.flight.partition_point(|sent| Some(sent.number) <= self.largest);
        // Without a new sample, what has come is older than the newest before; or a probe for the MTU is given up.
        let Some(sample) = sample else { return (0..count.min(fresh)).collect() };
        // Times have seven digits.
        let tolerance = 0.02 + now * 3e-7;
        let far = |at: usize| self.flight.get(at).map_or(f64::MAX, |sent| (sent.time - sample).abs());
        let expected = fresh + count - 1;
        let newest = if far(expected) <= tolerance {
            expected
        } else {
            let later = (expected..self.flight.len()).find(|at| far(*at) <= tolerance);
            let earlier = || (fresh..expected.min(self.flight.len())).rev().find(|at| far(*at) <= tolerance);
            let nearest = || (fresh..self.flight.len()).min_by(|a, b| far(*a).total_cmp(&far(*b)));
            match later.or_else(earlier).or_else(nearest) {
                Some(at) => at,
                None => return (0..count.min(fresh)).collect(),
            }
        };
        let from = (newest + 1).saturating_sub(count).max(fresh);
        // What is not new has come late.
        let late = count - (newest + 1 - from);
        (0..late.min(fresh)).chain(from..=newest).collect()
    }
}

/// Whether the window was used: a sender that fills it waits for nothing else.
#[derive(Debug, Default)]
pub(super) struct Usage {
    in_flight: u64,
    window: u64,
    /// Milliseconds.
    round_trip: f64,
    /// When the round trip under way began, the most and the least of the window that was used in it.
    round: Option<(f64, f64, u64)>,
    /// Round trips without enough since data were sent.
    pending: f64,
    /// Nothing has been in flight since data were sent: the application paused.
    is_empty: bool,
    /// Milliseconds since the last pause of the application in which something else than the window held the sender
    /// back, while data were on their way.
    pub(super) unused: f64,
}

impl Usage {
    fn sent(&mut self, now: f64) {
        self.round.get_or_insert((now, 0.0, u64::MAX));
        self.unused += core::mem::take(&mut self.pending);
        if core::mem::take(&mut self.is_empty) {
            self.unused = 0.0;
        }
    }

    fn metrics(&mut self, now: f64, in_flight: Option<u64>, window: Option<u64>, round_trip: Option<f64>) {
        self.in_flight = in_flight.unwrap_or(self.in_flight);
        self.window = window.unwrap_or(self.window);
        self.round_trip = round_trip.map_or(self.round_trip, |seconds| seconds * 1000.0);
        let Some((begin, most, least)) = &mut self.round else { return };
        *least = (*least).min(self.in_flight);
        self.is_empty |= self.in_flight == 0;
        *most = most.max((self.in_flight + LEAST_MTU) as f64 / self.window.max(1) as f64);
        if now - *begin >= self.round_trip {
            // A longer one was a silence.
            if *most < FILLED && *least > 0 && now - *begin < 2.0 * self.round_trip {
                self.pending += now - *begin;
            }
            self.round = Some((now, 0.0, u64::MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::read::Tree;

    fn metrics(log: &mut Frameless, now: f64, data: serde_json::Value) -> Option<Ack> {
        log.metrics(now, Tree::of(&data).unwrap().root())
    }

    #[test]
    fn acknowledgments_come_out_of_metrics() {
        let mut log = Frameless::default();
        for number in 0..4 {
            assert_eq!(log.sent(100.0, number, 1200).pieces.len(), 1);
        }
        log.sent(110.0, 4, 1200);
        assert_eq!(metrics(&mut log, 110.0, json!({"packets_in_flight": 5})), None);
        // Two have come, then the one that was sent later: what is between is missing.
        let ack = metrics(&mut log, 150.0, json!({"packets_in_flight": 3, "latest_rtt": 0.05})).unwrap();
        assert_eq!(ack.ranges, [(0, 1)]);
        let ack = metrics(&mut log, 160.0, json!({"packets_in_flight": 2, "latest_rtt": 0.06})).unwrap();
        assert_eq!(ack.ranges, [(2, 2)], "the next of those that left then");
        let ack = metrics(&mut log, 161.0, json!({"packets_in_flight": 1, "latest_rtt": 0.051})).unwrap();
        assert_eq!(ack.ranges, [(4, 4)]);
        // That of the others one is lost, and which one, is told later.
        assert_eq!(log.lost(2), 3);
        assert_eq!(metrics(&mut log, 165.0, json!({"packets_in_flight": 0})), None);
        // It is sent again.
        let again = log.sent(170.0, 5, 1200);
        assert_eq!((again.pieces[0].offset, log.offset), (4 * 1169, 5 * 1169));
    }

    #[test]
    fn a_larger_packet_is_a_probe_until_it_comes_through() {
        let mut log = Frameless::default();
        assert!(log.sent(1.0, 0, 1400).pieces.is_empty());
        metrics(&mut log, 2.0, json!({"packets_in_flight": 1}));
        metrics(&mut log, 9.0, json!({"packets_in_flight": 0, "latest_rtt": 0.008})).unwrap();
        assert_eq!(log.sent(10.0, 1, 1400).pieces.len(), 1);
        assert!(!log.sent(10.0, 2, 40).is_ack_eliciting);
    }

    #[test]
    fn a_window_that_is_not_filled_is_seen_once_data_follow() {
        let mut usage = Usage::default();
        usage.sent(0.0);
        for at in 1..=20 {
            usage.metrics(f64::from(at) * 10.0, Some(5000), Some(20_000), Some(0.02));
        }
        assert_eq!(usage.unused, 0.0);
        usage.sent(201.0);
        assert!((usage.unused - 200.0).abs() < 1.0, "{}", usage.unused);
    }
}
