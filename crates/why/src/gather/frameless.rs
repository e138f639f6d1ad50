//! What the frames of a log without frames were, by what its metrics say: quinn logs packets, losses, round-trip times
//! and what is in flight.
//!
//! A metric after an arrival says how many packets and bytes have left the flight, and how long the newest of them
//! took. Of packets that left together the bytes say which have come; where all have the same size, they are taken to
//! have arrived in order, until one of them is declared lost. What is not in a metric has not changed: a round trip as
//! long as the one before is there only by what it does to the smoothed one. Small packets count only if they ask for
//! an answer: then the next metric has them in flight.

use std::collections::VecDeque;
use std::ops::RangeBounds;

use super::flight::LEAST_MTU;
use super::frames::{Ack, Frames, Piece};
use super::number::integer;
use super::stalls::{Last, Stalls};
use super::usage::Usage;
use crate::read::Data;

/// What has fewer bytes is an acknowledgment alone.
const SMALL: u64 = 60;
/// Bytes of a packet that are no data: headers of the packet and of the frame, and the tag.
const AROUND: u64 = 31;
/// Packets that are full differ by less than this, as numbers in their headers and frames take more or fewer bytes.
const FIELD: u64 = 6;
/// Packets that are watched at a time.
const WATCHED: usize = 1 << 16;
/// Losses right after a probe for the MTU that span more packet numbers than this are not told from a burst, and have
/// taken the probe with them; some between them may still come.
const MANY: u64 = 3;
/// Packets that were taken to have arrived, of which a loss may say otherwise.
const ACKED: usize = 1024;
/// Small packets since the last metric that are kept.
const KEPT: usize = 64;
/// Packets that left at once of which any may be the newest that arrived, and late ones that are looked at.
const CHOICES: usize = 64;

/// A packet in flight.
#[derive(Clone, Copy, Debug)]
struct Sent {
    number: u64,
    /// Milliseconds.
    time: f64,
    size: u64,
    is_probe: bool,
}

/// Bytes of data in packets on their way.
fn data_of(flight: &VecDeque<Sent>) -> u64 {
    let data = flight.iter().filter(|sent| !sent.is_probe && sent.size >= SMALL);
    data.map(|sent| sent.size.saturating_sub(AROUND)).sum()
}

/// A log without frames.
#[derive(Debug, Default)]
pub(super) struct Frameless {
    flight: VecDeque<Sent>,
    /// The latest that were taken to have arrived.
    acked: VecDeque<Sent>,
    /// The largest packet number that was acknowledged.
    largest: Option<u64>,
    /// The largest size that came through, bytes.
    through: u64,
    /// Packets of the handshake in flight, their bytes.
    early: VecDeque<u64>,
    /// Packets in flight and their bytes by the last metric; and with those sent and without those lost since.
    told: (Option<u64>, Option<u64>),
    in_flight: (u64, u64),
    /// Packets since the last metric that may be acknowledgments alone.
    small: VecDeque<Sent>,
    /// Something has arrived since the last metric.
    has_arrived: bool,
    /// Probes for the MTU that were given up.
    given_up: Vec<u64>,
    /// The first and the last packet that were declared lost since the last metric.
    lost: Option<(u64, u64)>,
    /// Bytes of data so far, and of those lost that are to be sent again.
    offset: u64,
    again: u64,
    pub(super) usage: Usage,
    pub(super) stalls: Stalls,
}

impl Frameless {
    /// A packet with application data was sent; whether no data were on their way then.
    pub(super) fn sent(&mut self, now: f64, number: u64, size: u64, has_no_data: bool) -> Frames {
        let mut frames = Frames::default();
        // A packet larger than any that came through looks for the path's MTU.
        let is_probe = size > self.through.max(LEAST_MTU);
        let sent = Sent { number, time: now, size, is_probe };
        if size < SMALL {
            self.small.push_back(sent);
            if self.small.len() > KEPT {
                self.small.pop_front();
            }
            return frames;
        }
        frames.is_ack_eliciting = true;
        self.count(size, true);
        if !is_probe {
            let length = size.saturating_sub(AROUND);
            let old = self.again.min(length);
            self.again -= old;
            let offset = self.offset - old.min(self.offset);
            self.offset = offset + length;
            let full = self.through.max(LEAST_MTU);
            let has_room = self.in_flight.1.saturating_add(full) <= self.usage.told.window;
            // A probe after a timeout is as small as any path carries, whatever there is to send.
            let is_short = old == 0 && size + FIELD < full && size.abs_diff(LEAST_MTU) >= FIELD;
            let last = Last { time: now, sent: self.offset, is_short: is_short && has_room };
            self.stalls.sent(last, || data_of(&self.flight));
            // Of an unknown stream: the first bytes may be settings, which go on a unidirectional one.
            frames.pieces.push(Piece { id: 3, offset, length });
            // What is sent again says nothing of what there was to send.
            if 2 * old < length {
                self.usage.sent(now, has_no_data);
            }
        }
        self.flight.push_back(sent);
        if self.flight.len() > WATCHED {
            self.flight.pop_front();
        }
        frames
    }

    /// A packet is in flight, or no longer.
    fn count(&mut self, size: u64, is_sent: bool) {
        let (packets, bytes) = self.in_flight;
        self.in_flight = if is_sent {
            (packets.saturating_add(1), bytes.saturating_add(size))
        } else {
            (packets.saturating_sub(1), bytes.saturating_sub(size))
        };
    }

    /// A packet outside of the application's data was sent, which counts as in flight as well.
    pub(super) fn sent_early(&mut self, size: u64) {
        self.count(size, true);
        self.early.push_back(size);
        if self.early.len() > WATCHED {
            self.early.pop_front();
        }
    }

    /// A packet was received.
    pub(super) fn arrived(&mut self) {
        self.has_arrived = true;
        self.stalls.arrived();
    }

    /// A packet of so many bytes, if they are told, was declared lost; returns which it is here.
    pub(super) fn lost(&mut self, number: u64, size: Option<u64>) -> u64 {
        if size == Some(0) {
            // An acknowledgment alone, which is not in flight.
            return number;
        }
        self.lost = Some(self.lost.map_or((number, number), |(first, last)| (first.min(number), last.max(number))));
        let at = self.flight.binary_search_by_key(&number, |sent| sent.number).ok().or_else(|| self.instead(number));
        let Some(sent) = at.and_then(|at| self.flight.remove(at)) else {
            self.count(size.unwrap_or(0), false);
            return number;
        };
        self.count(size.unwrap_or(sent.size), false);
        if !sent.is_probe && sent.size >= SMALL {
            self.again += sent.size.saturating_sub(AROUND);
        }
        if sent.number != number {
            // It has arrived: where it is lost as well, yet another has.
            self.came(sent);
        }
        sent.number
    }

    /// A packet is taken to have arrived.
    fn came(&mut self, sent: Sent) {
        self.acked.push_back(sent);
        if self.acked.len() > ACKED {
            self.acked.pop_front();
        }
    }

    /// Probes for the MTU that were given up since this was asked.
    pub(super) fn given_up(&mut self) -> Vec<u64> {
        core::mem::take(&mut self.given_up)
    }

    /// What has arrived instead of a packet that is taken to have arrived, but was lost: one of its size that left when
    /// it did, or else an older one.
    fn instead(&mut self, number: u64) -> Option<usize> {
        let largest = self.largest.unwrap_or(0);
        let at = self.acked.iter().rposition(|sent| sent.number == number);
        let taken = at.and_then(|at| self.acked.remove(at));
        let oldest = || self.flight.front().is_some_and(|sent| sent.number < largest).then_some(0);
        let Some(taken) = taken else { return oldest() };
        let from = self.flight.partition_point(|sent| sent.time < taken.time);
        let at_once = self.flight.range(from..).take_while(|sent| sent.time == taken.time).take(CHOICES);
        let same = at_once.zip(from..).find(|(sent, _)| sent.size == taken.size).map(|(_, at)| at);
        same.or_else(oldest)
    }

    /// Metrics; the acknowledgment that they show.
    pub(super) fn metrics(&mut self, now: f64, data: Data<'_>) -> Option<Ack> {
        let number = |key: &str| data.get(key).and_then(integer);
        self.usage.metrics(now, data);
        let has_arrived = core::mem::take(&mut self.has_arrived);
        self.give_up_among_losses();
        let (before, bytes_before) = self.in_flight;
        // What is not in it has not changed.
        let packets = number("packets_in_flight").or(self.told.0);
        let bytes = number("bytes_in_flight").or(self.told.1);
        self.told = (packets, bytes);
        let packets = packets.unwrap_or(before);
        let small = core::mem::take(&mut self.small);
        if packets > before && !has_arrived {
            self.asking(small, packets - before, bytes.map(|bytes| bytes.saturating_sub(bytes_before)));
        }
        self.in_flight = (packets, bytes.unwrap_or(bytes_before));
        let gone = before.saturating_sub(packets);
        let mut gone_bytes = bytes.map(|bytes| bytes_before.saturating_sub(bytes));
        let early = usize::try_from(gone).unwrap_or(usize::MAX).min(self.early.len());
        let early_bytes: u64 = self.early.drain(..early).sum();
        gone_bytes = gone_bytes.map(|bytes| bytes.saturating_sub(early_bytes));
        let count = usize::try_from(gone).unwrap_or(usize::MAX).saturating_sub(early).min(self.flight.len());
        let is_sample = ["latest_rtt", "smoothed_rtt", "rtt_variance"].iter().any(|key| data.get(key).is_some());
        let sample = self.usage.told.latest.filter(|_| is_sample).map(|latest| now - latest);
        let mut acked = match count {
            // Nothing is on its way, whatever was taken to be.
            _ if packets == 0 && count > 0 => {
                // Nothing new has come, and so no probe for the MTU.
                if sample.is_none() {
                    self.give_up(..);
                }
                (0..self.flight.len()).collect()
            }
            0 => Vec::new(),
            _ => self.arrived_of((count, gone_bytes), sample, now),
        };
        if acked.is_empty() {
            return None;
        }
        acked.sort_unstable_by(|a, b| b.cmp(a));
        let mut numbers = Vec::with_capacity(acked.len());
        for at in acked {
            if let Some(sent) = self.flight.remove(at) {
                self.through = self.through.max(sent.size);
                self.came(sent);
                numbers.push(sent.number);
            }
        }
        self.largest = self.largest.max(numbers.first().copied());
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for number in numbers {
            match ranges.last_mut() {
                Some((from, _)) if number.checked_add(1) == Some(*from) => *from = number,
                _ => ranges.push((number, number)),
            }
        }
        // A receiver answers every second packet at once, and a single one when it must.
        let may_be_late = matches!(ranges[..], [(from, to)] if from == to);
        Some(Ack { ranges, may_be_late, is_undated: true, ..Ack::default() })
    }

    /// More is in flight than large packets explain, and nothing has arrived: so many of the small ones ask for an
    /// answer as well, such as probes after a timeout.
    fn asking(&mut self, small: VecDeque<Sent>, count: u64, bytes: Option<u64>) {
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(small.len());
        let sum = |from: usize| small.iter().skip(from).take(count).map(|sent| sent.size).sum::<u64>();
        let last = small.len() - count;
        let from = bytes.and_then(|bytes| (0..=last).rev().find(|from| sum(*from) == bytes)).unwrap_or(last);
        for sent in small.into_iter().skip(from).take(count) {
            if let Err(at) = self.flight.binary_search_by_key(&sent.number, |sent| sent.number) {
                self.flight.insert(at, sent);
            }
        }
        let old = self.flight.len().saturating_sub(WATCHED);
        self.flight.drain(..old);
    }

    /// The loss of a probe for the MTU is not told. It has left the flight where packets before and after it were
    /// declared lost, or many right after it and none that is newer had come; as these are smaller, it has hardly come
    /// through. Between two losses by chance it may have, and the path is then taken for one with a smaller MTU.
    fn give_up_among_losses(&mut self) {
        let Some((first, last)) = self.lost.take() else { return };
        let before = first.checked_sub(1).filter(|before| last - first >= MANY && Some(*before) > self.largest);
        let (probes, bytes) = self.give_up(before.unwrap_or(first)..last);
        self.in_flight = (self.in_flight.0.saturating_sub(probes), self.in_flight.1.saturating_sub(bytes));
    }

    /// Probes for the MTU with these numbers have not come; how many there were, and their bytes.
    fn give_up(&mut self, numbers: impl RangeBounds<u64>) -> (u64, u64) {
        let (given_up, mut gone) = (&mut self.given_up, (0, 0));
        self.flight.retain(|sent| {
            let is_given_up = sent.is_probe && numbers.contains(&sent.number);
            if is_given_up {
                given_up.push(sent.number);
                gone = (gone.0 + 1, u64::saturating_add(gone.1, sent.size));
            }
            !is_given_up
        });
        gone
    }

    /// The places of so many packets, and bytes, that were acknowledged; `sample` is when the newest of them was sent,
    /// if it is newer than all before.
    fn arrived_of(&self, gone: (usize, Option<u64>), sample: Option<f64>, now: f64) -> Vec<usize> {
        let (count, bytes) = gone;
        let fresh = self.flight.partition_point(|sent| Some(sent.number) <= self.largest);
        // Without a new sample, what has come is older than the newest before; or a probe for the MTU is given up.
        let Some(sample) = sample else {
            return self.late(count.min(fresh), bytes, fresh);
        };
        // Times have seven digits.
        let tolerance = 0.02 + now * 3e-7;
        let far = |at: usize| self.flight.get(at).map_or(f64::MAX, |sent| (sent.time - sample).abs());
        // What left when the newest did, those first that make up for a run without gaps.
        let near = |at: &usize| far(*at) <= tolerance;
        let expected = (fresh + count - 1).min(self.flight.len());
        let later = (expected..self.flight.len()).find(near);
        let later = later.into_iter().flat_map(|first| (first..self.flight.len()).take_while(near)).take(CHOICES);
        let earlier = (fresh..expected).rev().find(near);
        let earlier = earlier.into_iter().flat_map(|last| (fresh..=last).rev().take_while(near)).take(CHOICES);
        let newest: Vec<usize> = later.chain(earlier).collect();
        let run = |newest: usize| {
            let from = (newest + 1).saturating_sub(count).max(fresh);
            let of_run = self.size(from..=newest);
            // What is not new has come late.
            let late = (count - (newest + 1 - from)).min(fresh);
            let mut places = self.late(late, bytes.map(|bytes| bytes.saturating_sub(of_run)), fresh);
            let all = places.iter().map(|at| self.size(*at..=*at)).sum::<u64>() + of_run;
            places.extend(from..=newest);
            (places, Some(all))
        };
        // Of those, the bytes that are gone tell which have come.
        let chosen = newest.iter().map(|newest| run(*newest)).find(|(_, all)| bytes.is_none() || *all == bytes);
        let nearest = || (fresh..self.flight.len()).min_by(|a, b| far(*a).total_cmp(&far(*b)));
        let chosen = chosen.map(|(places, _)| places);
        chosen.or_else(|| Some(run(newest.first().copied().or_else(nearest)?).0)).unwrap_or_default()
    }

    fn size(&self, places: core::ops::RangeInclusive<usize>) -> u64 {
        self.flight.range(places).map(|sent| sent.size).sum()
    }

    /// The places of so many packets before `fresh` that have come late: those next to each other whose bytes are gone,
    /// or else the oldest.
    fn late(&self, count: usize, bytes: Option<u64>, fresh: usize) -> Vec<usize> {
        if count == 0 {
            return Vec::new();
        }
        let from = bytes.and_then(|bytes| {
            let mut sum = self.size(0..=count - 1);
            let mut starts = 0..=(fresh - count).min(CHOICES);
            starts.find(|from| {
                if *from > 0 {
                    sum = sum + self.size(from + count - 1..=from + count - 1) - self.size(from - 1..=from - 1);
                }
                sum == bytes
            })
        });
        let from = from.unwrap_or(0);
        (from..from + count).collect()
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
            assert_eq!(log.sent(100.0, number, 1200, false).pieces.len(), 1);
        }
        log.sent(110.0, 4, 1200, false);
        assert_eq!(metrics(&mut log, 110.0, json!({"packets_in_flight": 5})), None);
        // Two have come, then the one that was sent later: what is between is missing.
        let ack = metrics(&mut log, 150.0, json!({"packets_in_flight": 3, "latest_rtt": 0.05})).unwrap();
        assert_eq!(ack.ranges, [(0, 1)]);
        let ack = metrics(&mut log, 160.0, json!({"packets_in_flight": 2, "latest_rtt": 0.06})).unwrap();
        assert_eq!(ack.ranges, [(2, 2)], "the next of those that left then");
        let ack = metrics(&mut log, 161.0, json!({"packets_in_flight": 1, "latest_rtt": 0.051})).unwrap();
        assert_eq!(ack.ranges, [(4, 4)]);
        // That of the others one is lost, and which one, is told later.
        assert_eq!(log.lost(2, None), 3);
        assert_eq!(metrics(&mut log, 165.0, json!({"packets_in_flight": 0})), None);
        // It is sent again.
        let again = log.sent(170.0, 5, 1200, false);
        assert_eq!((again.pieces[0].offset, log.offset), (4 * 1169, 5 * 1169));
    }

    #[test]
    fn bytes_tell_which_of_the_packets_that_left_together_have_come() {
        let mut log = Frameless::default();
        for (number, size) in [(0, 1200), (1, 1200), (2, 700), (3, 1200)] {
            log.sent(100.0, number, size, false);
        }
        metrics(&mut log, 100.0, json!({"packets_in_flight": 4, "bytes_in_flight": 4300}));
        log.arrived();
        let came = json!({"packets_in_flight": 3, "bytes_in_flight": 3600, "latest_rtt": 0.05});
        assert_eq!(metrics(&mut log, 150.0, came).unwrap().ranges, [(2, 2)]);
        // A late one and a new one, of which the count does not change as a probe has left: it is not told.
        log.sent(151.0, 4, 1400, false);
        log.arrived();
        let ack = metrics(&mut log, 152.0, json!({"bytes_in_flight": 3800, "latest_rtt": 0.052})).unwrap();
        assert_eq!(ack.ranges, [(3, 3)]);
        log.arrived();
        let ack = metrics(&mut log, 153.0, json!({"packets_in_flight": 2, "bytes_in_flight": 2600})).unwrap();
        assert_eq!(ack.ranges, [(0, 0)], "it had come late");
    }

    #[test]
    fn a_round_trip_as_long_as_the_one_before_is_a_sample() {
        let mut log = Frameless::default();
        (0..3).for_each(|number| drop(log.sent(100.0 + number as f64, number, 1200, false)));
        metrics(&mut log, 102.0, json!({"packets_in_flight": 3, "bytes_in_flight": 3600}));
        log.arrived();
        let came = json!({"packets_in_flight": 2, "bytes_in_flight": 2400, "latest_rtt": 0.05});
        assert_eq!(metrics(&mut log, 150.0, came).unwrap().ranges, [(0, 0)]);
        log.arrived();
        let came = json!({"packets_in_flight": 1, "bytes_in_flight": 1200, "smoothed_rtt": 0.052});
        assert_eq!(metrics(&mut log, 152.0, came).unwrap().ranges, [(2, 2)]);
    }

    #[test]
    fn what_was_taken_to_have_come_and_is_lost_stands_for_one_that_left_with_it() {
        let mut log = Frameless::default();
        (0..3).for_each(|number| drop(log.sent(100.0, number, 1200, false)));
        log.sent(101.0, 3, 1200, false);
        metrics(&mut log, 101.0, json!({"packets_in_flight": 4, "bytes_in_flight": 4800}));
        log.arrived();
        let came = json!({"packets_in_flight": 3, "bytes_in_flight": 3600, "latest_rtt": 0.05});
        assert_eq!(metrics(&mut log, 150.0, came).unwrap().ranges, [(0, 0)]);
        assert_eq!(log.lost(0, Some(1200)), 1, "so it was the next one that had come");
        assert_eq!(log.lost(9, Some(1200)), 9, "nothing is known of it");
        log.sent(102.0, 10, 1200, false);
        assert_eq!(log.lost(5, Some(0)), 5, "an acknowledgment alone is not in flight");
        let came = json!({"packets_in_flight": 1, "bytes_in_flight": 1200, "latest_rtt": 0.102});
        log.arrived();
        assert_eq!(metrics(&mut log, 203.0, came).unwrap().ranges, [(3, 3)]);
    }

    #[test]
    fn of_packets_that_left_together_as_many_are_lost_as_the_log_says() {
        let mut log = Frameless::default();
        (0..4).for_each(|number| drop(log.sent(100.0, number, 1200, false)));
        metrics(&mut log, 100.0, json!({"packets_in_flight": 4, "bytes_in_flight": 4800}));
        log.arrived();
        // It was the last that came.
        let came = json!({"packets_in_flight": 3, "bytes_in_flight": 3600, "latest_rtt": 0.05});
        assert_eq!(metrics(&mut log, 150.0, came).unwrap().ranges, [(0, 0)]);
        assert_eq!([0, 1].map(|number| log.lost(number, Some(1200))), [1, 2]);
        assert_eq!(log.lost(2, Some(1200)), 3);
        assert!(log.flight.is_empty() && log.in_flight == (0, 0));
        assert_eq!(log.lost(2, Some(1200)), 2, "it is lost once");
    }

    #[test]
    fn what_is_watched_is_bounded() {
        let mut log = Frameless::default();
        let most = WATCHED as u64;
        (0..most).for_each(|number| drop(log.sent(1.0, number, 1200, false)));
        log.sent(1.0, most, 40, false);
        metrics(&mut log, 1.0, json!({"packets_in_flight": most + 1}));
        assert_eq!((log.flight.len(), log.flight.back().unwrap().number), (WATCHED, most));
        // Losses that nothing explains do not pile up either.
        log.largest = Some(most);
        (1..most).for_each(|number| assert!(log.lost(2 * most + number, None) <= most));
        assert!(log.acked.len() <= ACKED);
    }

    #[test]
    fn the_largest_numbers_are_numbers() {
        let mut log = Frameless::default();
        for number in [u64::MAX - 1, u64::MAX, u64::MAX] {
            log.sent(1.0, number, 1200, false);
        }
        metrics(&mut log, 1.0, json!({"packets_in_flight": 3}));
        let ack = metrics(&mut log, 9.0, json!({"packets_in_flight": 0, "latest_rtt": 0.008})).unwrap();
        assert_eq!(ack.ranges.last(), Some(&(u64::MAX - 1, u64::MAX)));
    }

    #[test]
    fn a_probe_that_is_given_up_has_not_come_through() {
        let mut log = Frameless::default();
        log.sent(1.0, 0, 1400, false);
        log.sent(5.0, 1, 1200, false);
        assert_eq!(metrics(&mut log, 6.0, json!({"pto_count": 1})), None, "nothing is told of what is in flight");
        metrics(&mut log, 6.0, json!({"packets_in_flight": 2}));
        let ack = metrics(&mut log, 13.0, json!({"packets_in_flight": 1, "latest_rtt": 0.008})).unwrap();
        assert_eq!(ack.ranges, [(1, 1)]);
        assert_eq!(metrics(&mut log, 30.0, json!({"packets_in_flight": 0})), None);
        assert_eq!((log.given_up(), log.through), (vec![0], 1200));
        assert!(log.sent(14.0, 2, 1400, false).pieces.is_empty(), "a probe again");
    }

    #[test]
    fn a_probe_among_packets_that_are_lost_is_lost() {
        let mut log = Frameless::default();
        log.sent(1.0, 0, 1200, false);
        metrics(&mut log, 2.0, json!({"packets_in_flight": 1, "bytes_in_flight": 1200}));
        metrics(&mut log, 9.0, json!({"packets_in_flight": 0, "bytes_in_flight": 0, "latest_rtt": 0.008}));
        [1200, 1400, 1200, 1200].into_iter().zip(1..).for_each(|(size, at)| drop(log.sent(10.0, at, size, false)));
        metrics(&mut log, 10.0, json!({"packets_in_flight": 4, "bytes_in_flight": 5000}));
        log.arrived();
        assert_eq!([1, 3].map(|number| log.lost(number, Some(1200))), [1, 3]);
        let came = json!({"packets_in_flight": 0, "bytes_in_flight": 0, "latest_rtt": 0.01});
        assert_eq!(metrics(&mut log, 20.0, came).unwrap().ranges, [(4, 4)]);
        assert_eq!((log.given_up(), log.through), (vec![2], 1200));
        // So is one before many that are.
        let sizes = [1400, 1200, 1200, 1200, 1200, 1200];
        sizes.into_iter().zip(5..).for_each(|(size, at)| drop(log.sent(30.0, at, size, false)));
        metrics(&mut log, 30.0, json!({"packets_in_flight": 6, "bytes_in_flight": 7400}));
        log.arrived();
        assert!((6..10).all(|number| log.lost(number, Some(1200)) == number));
        let came = json!({"packets_in_flight": 0, "bytes_in_flight": 0, "latest_rtt": 0.011});
        assert_eq!(metrics(&mut log, 41.0, came).unwrap().ranges, [(10, 10)]);
        assert_eq!((log.given_up(), log.through), (vec![5], 1200));
    }

    #[test]
    fn bytes_tell_which_have_come_late() {
        let mut log = Frameless::default();
        [1200, 1100, 1000, 900, 800].into_iter().zip(0..).for_each(|(size, at)| drop(log.sent(1.0, at, size, false)));
        for (bytes, from) in [(Some(2300), 0), (Some(1900), 2), (Some(1700), 3), (Some(5), 0), (None, 0)] {
            assert_eq!(log.late(2, bytes, 5), [from, from + 1]);
        }
    }

    #[test]
    fn small_packets_that_ask_for_an_answer_are_in_flight() {
        let mut log = Frameless::default();
        log.sent(100.0, 0, 1200, false);
        log.sent(100.0, 1, 34, false);
        log.sent(100.0, 2, 30, false);
        metrics(&mut log, 100.0, json!({"packets_in_flight": 2, "bytes_in_flight": 1230}));
        log.arrived();
        let came = json!({"packets_in_flight": 0, "bytes_in_flight": 0, "latest_rtt": 0.05});
        assert_eq!(metrics(&mut log, 150.0, came).unwrap().ranges, [(2, 2), (0, 0)]);
    }

    #[test]
    fn a_larger_packet_is_a_probe_until_it_comes_through() {
        let mut log = Frameless::default();
        assert!(log.sent(1.0, 0, 1400, false).pieces.is_empty());
        metrics(&mut log, 2.0, json!({"packets_in_flight": 1}));
        metrics(&mut log, 9.0, json!({"packets_in_flight": 0, "latest_rtt": 0.008})).unwrap();
        assert_eq!(log.sent(10.0, 1, 1400, false).pieces.len(), 1);
        assert!(!log.sent(10.0, 2, 40, false).is_ack_eliciting);
    }

    #[test]
    fn what_is_sent_again_does_not_say_that_there_was_more_to_send() {
        let mut log = Frameless::default();
        let told = |log: &mut Frameless, now: f64, packets: u64, latest: f64| {
            log.arrived();
            let data = json!({"packets_in_flight": packets, "bytes_in_flight": packets * 1200,
                "congestion_window": 50_000, "smoothed_rtt": 0.02, "latest_rtt": latest, "min_rtt": 0.02});
            metrics(log, now, data);
        };
        for again in [true, false] {
            (0..10).for_each(|number| drop(log.sent(100.0, number, 1200, number == 0)));
            (0..4).for_each(|step| told(&mut log, 120.0 + 20.0 * step as f64, 9 - step, 0.02));
            if again {
                log.lost(9, Some(1200));
            }
            log.sent(190.0, 10, 1200, false);
            assert_eq!(log.usage.unused > 0.0, !again);
            log = Frameless::default();
        }
    }
}
