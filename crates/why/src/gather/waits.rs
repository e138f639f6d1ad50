//! What the sender waited for, and the credit that it had.

use std::collections::BTreeMap;

use super::frames::{Frames, Progress};
use super::number::integer;
use super::stalls::Shown;
use crate::bins::Bins;
use crate::read::Data;

/// Pauses that are kept.
const KEPT: usize = 1 << 14;
/// Shorter ones are none, milliseconds.
const SHORTEST: f64 = 0.5;
/// Both ends of HTTP/3 send their settings unasked, on unidirectional streams: no more than so many bytes. A server
/// that waits after them waits for the request.
const UNASKED: u64 = 200;
/// This bit of a stream's number says that it is unidirectional (RFC 9000 section 2.1).
const UNIDIRECTIONAL: u64 = 2;

/// What a sender waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Limit {
    Application,
    Window,
    Pacing,
    Credit,
    Amplification,
}

impl Limit {
    pub(crate) const ALL: [Limit; 5] =
        [Limit::Application, Limit::Window, Limit::Pacing, Limit::Credit, Limit::Amplification];

    /// As `thalweg qlog` has it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Limit::Application => "application",
            Limit::Window => "congestion control",
            Limit::Pacing => "pacing",
            Limit::Credit => "flow control",
            Limit::Amplification => "amplification limit",
        }
    }

    fn of(reason: &str) -> Option<Limit> {
        Some(match reason {
            "application" => Limit::Application,
            "congestion_control" => Limit::Window,
            "pacing" => Limit::Pacing,
            "connection_flow_control" | "stream_flow_control" => Limit::Credit,
            "amplification_protection" => Limit::Amplification,
            _ => return None,
        })
    }
}

/// A time in which the application had nothing to send. Times in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pause {
    pub(crate) from: f64,
    pub(crate) to: f64,
    /// The round-trip time then.
    pub(crate) round_trip: f64,
    /// Bytes that had been sent by then.
    pub(crate) bytes: u64,
    /// Whether packets of the peer were lost in it: what asked for more data may have been one of them.
    pub(crate) is_cut: bool,
}

/// So many packets in a row that did not come are more than a sender may skip to find out a receiver that lies.
const CUT: usize = 2;
/// Of those that did not come, what is kept of one gap, and of all.
const GAP: usize = 8;
const MISSING: usize = 64;

/// What the sender waited for.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    pub(super) progress: Progress,
    /// The first and the last packet with new data of streams, milliseconds.
    pub(crate) span: Option<(f64, f64)>,
    /// The last packet with data of streams, new or again.
    pub(crate) last_piece: f64,
    /// What holds now, and since when.
    now: Option<(Limit, f64)>,
    /// Since the last new data: to be counted when there are more.
    pending: Vec<(Limit, f64)>,
    times: BTreeMap<Limit, f64>,
    pub(crate) pauses: Vec<Pause>,
    /// Times in which credit was missing: begin and end, milliseconds.
    pub(crate) credit_spans: Vec<(f64, f64)>,
    pub(crate) credit: CreditSeen,
    pub(crate) has_limits: bool,
    /// The largest packet number of the peer, and those that have not come since the last new data, in their order.
    received: Option<u64>,
    missing: Vec<u64>,
    /// Whether data have been sent on a bidirectional stream.
    has_exchanged: bool,
}

impl Pause {
    /// For how long the application had nothing: what asks for data takes a round trip. Milliseconds.
    pub(crate) fn length(&self) -> f64 {
        (self.to - self.from - self.round_trip).max(0.0)
    }
}

impl Waits {
    /// How long the application paused in the middle, milliseconds: where packets of the peer were lost, it may not
    /// have.
    pub(crate) fn usual_pause(&self) -> Option<f64> {
        let lengths = |is_cut: bool| self.pauses.iter().filter(move |pause| is_cut || !pause.is_cut).map(Pause::length);
        let mut whole: Vec<f64> = lengths(false).collect();
        if whole.is_empty() {
            whole.extend(lengths(true));
        }
        whole.sort_by(f64::total_cmp);
        whole.get(whole.len().saturating_sub(1) / 2).copied()
    }

    /// What holds the sender back has changed.
    pub(super) fn limited(&mut self, now: f64, reason: Option<&str>) {
        self.has_limits = true;
        self.close(now);
        self.now = reason.and_then(Limit::of).map(|limit| (limit, now));
    }

    /// A packet with application data came from the peer.
    pub(super) fn received(&mut self, number: u64) {
        let last = self.received.unwrap_or(number);
        if number > last {
            self.missing.extend((last + 1..number).take(GAP));
            let old = self.missing.len().saturating_sub(MISSING);
            self.missing.drain(..old);
        } else {
            // It was only overtaken.
            self.missing.retain(|missing| *missing != number);
        }
        self.received = Some(last.max(number));
    }

    /// Whether packets of the peer were lost since the last new data.
    fn is_cut(&self) -> bool {
        let is_row = |row: &[u64]| matches!(row, [first, .., last] if last - first == row.len() as u64 - 1);
        self.missing.windows(CUT).any(is_row)
    }

    /// The application had nothing since the last data.
    pub(super) fn paused(&mut self) {
        if let Some((_, last)) = self.span {
            self.pending.clear();
            self.now = Some((Limit::Application, last));
        }
    }

    /// What holds the sender back by what can be inferred.
    pub(super) fn inferred(&mut self, now: f64, limit: Limit) {
        if !self.holds(limit) {
            self.close(now);
            self.now = Some((limit, now));
        }
    }

    /// Credit was missing in a time that had been counted for the window of congestion control; milliseconds.
    pub(super) fn stalled(&mut self, (from, to): (f64, f64)) {
        let length = (to - from).min(self.time(Limit::Window)).max(0.0);
        *self.times.entry(Limit::Window).or_default() -= length;
        *self.times.entry(Limit::Credit).or_default() += length;
        if self.credit_spans.len() < KEPT {
            self.credit_spans.push((from, to));
        }
    }

    fn close(&mut self, now: f64) {
        if let Some((limit, since)) = &mut self.now {
            let last = self.span.map_or(now, |(_, last)| last);
            let begin = since.max(last.min(now));
            self.pending.push((*limit, now - begin));
            if *limit == Limit::Credit && now > begin {
                let is_full = self.credit_spans.len() >= KEPT;
                match self.credit_spans.last_mut() {
                    Some(last) if begin - last.1 < 1.0 || is_full => last.1 = now,
                    _ => self.credit_spans.push((begin, now)),
                }
            }
            *since = now;
        }
    }

    /// A packet was sent; returns how much of its data was new.
    pub(super) fn sent(&mut self, now: f64, frames: &Frames, round_trip: Option<f64>) -> u64 {
        if !frames.pieces.is_empty() {
            self.last_piece = now;
        }
        let before = self.progress.bytes;
        let is_unasked = !self.has_exchanged && before <= UNASKED;
        self.has_exchanged |= frames.pieces.iter().any(|piece| piece.id & UNIDIRECTIONAL == 0);
        let fresh = self.progress.add(&frames.pieces);
        if fresh == 0 {
            return 0;
        }
        let last = self.span.map(|(_, last)| last);
        if let (Some((Limit::Application, since)), Some(last)) = (self.now, last) {
            let round_trip = round_trip.unwrap_or(0.0);
            // What held since the last data.
            let from = since.max(last);
            if now - from > SHORTEST && !is_unasked && self.pauses.len() < KEPT {
                let is_cut = self.is_cut();
                self.pauses.push(Pause { from: last, to: now, round_trip, bytes: before, is_cut });
            }
        }
        self.missing.clear();
        self.close(now);
        if last.is_some() {
            for (limit, time) in self.pending.drain(..) {
                *self.times.entry(limit).or_default() += time;
            }
        }
        self.pending.clear();
        self.span = Some((self.span.map_or(now, |(first, _)| first), now));
        fresh
    }

    /// Whether a limit holds now.
    pub(super) fn holds(&self, limit: Limit) -> bool {
        self.now.is_some_and(|(now, _)| now == limit)
    }

    /// For how long a limit held between the first and the last new data, milliseconds.
    pub(crate) fn time(&self, limit: Limit) -> f64 {
        self.times.get(&limit).copied().unwrap_or(0.0)
    }

    /// Bytes of streams.
    pub(crate) fn bytes(&self) -> u64 {
        self.progress.bytes
    }
}

/// Credit as far as it was seen, bytes.
#[derive(Debug)]
pub(crate) struct CreditSeen {
    /// At first: of the connection, and the least of what streams get.
    pub(crate) initial: Option<[u64; 2]>,
    /// The most beyond what was acknowledged.
    pub(crate) most: [u64; 2],
    /// By how many bits the receiver shifts the delays that it tells.
    pub(super) delay_exponent: u32,
    /// By how much credit grew each time, bytes.
    steps: [Bins; 2],
    /// The last limits, and whose they are.
    last: [Option<(u64, u64)>; 2],
}

impl Default for CreditSeen {
    fn default() -> Self {
        // RFC 9000 section 18.2 has the exponent that holds where none is told.
        CreditSeen { initial: None, most: [0; 2], delay_exponent: 3, steps: Default::default(), last: [None; 2] }
    }
}

impl CreditSeen {
    pub(super) fn parameters(&mut self, data: Data<'_>) {
        let is_remote = ["initiator", "owner"].iter().any(|key| data.get(key).and_then(Data::as_str) == Some("remote"));
        let number = |key: &str| data.get(key).and_then(integer);
        if !is_remote {
            return;
        }
        if let Some(exponent) = number("ack_delay_exponent") {
            self.delay_exponent = u32::try_from(exponent).unwrap_or(3);
        }
        let streams = ["initial_max_stream_data_bidi_local", "initial_max_stream_data_bidi_remote"];
        let stream = streams.iter().filter_map(|key| number(key)).min();
        if let (Some(connection), Some(stream)) = (number("initial_max_data"), stream) {
            self.initial = Some([connection, stream]);
            self.most = [self.most[0].max(connection), self.most[1].max(stream)];
        }
    }

    pub(super) fn frames(&mut self, frames: &Frames, acked: u64) {
        let told = [frames.max_data.map(|most| (0, most)), frames.max_stream_data];
        for (at, (id, most)) in told.into_iter().enumerate().filter_map(|(at, told)| Some((at, told?))) {
            self.most[at] = self.most[at].max(most.saturating_sub(acked));
            if let Some((_, before)) = self.last[at].replace((id, most)).filter(|(before, _)| *before == id) {
                self.steps[at].add(most.saturating_sub(before) as f64, 1.0);
            }
        }
    }

    /// What stalls show of it.
    pub(super) fn shown(&mut self, shown: &Shown) {
        (self.initial, self.most) = (Some([shown.window; 2]), [shown.window; 2]);
        if let Some(step) = shown.step {
            self.steps.iter_mut().for_each(|steps| steps.add(step as f64, 1.0));
        }
    }

    /// By how much credit mostly grew each time, bytes.
    pub(crate) fn step(&self, at: usize) -> Option<f64> {
        self.steps[at].quantile(0.5)
    }
}

#[cfg(test)]
mod tests {
    use super::super::frames::Piece;
    use super::*;

    #[test]
    fn a_pause_in_which_packets_of_the_peer_were_lost_is_not_a_usual_one() {
        let mut waits = Waits::default();
        let mut number = 0;
        for (at, missing) in [(0, 0), (1, 0), (2, 5), (7, 1), (8, 0)] {
            number += 1 + missing;
            waits.received(number);
            if at > 0 {
                waits.paused();
            }
            let piece = Piece { id: 0, offset: at * 100, length: 100 };
            waits.sent(100.0 * at as f64, &Frames { pieces: vec![piece], ..Frames::default() }, Some(20.0));
        }
        assert_eq!(waits.pauses.iter().map(|pause| pause.is_cut).collect::<Vec<_>>(), [false, true, false, false]);
        assert_eq!(waits.usual_pause(), Some(80.0));
    }

    #[test]
    fn a_server_that_has_sent_its_settings_waits_for_the_request() {
        let pauses = |first: u64, bytes: u64| {
            let mut waits = Waits::default();
            for (at, id, length) in [(0, first, bytes), (1, 0, 1000), (2, 0, 1000)] {
                waits.paused();
                let piece = Piece { id, offset: at * 1000, length };
                waits.sent(100.0 * at as f64, &Frames { pieces: vec![piece], ..Frames::default() }, Some(20.0));
            }
            waits.pauses.iter().map(|pause| pause.to).collect::<Vec<_>>()
        };
        assert_eq!(pauses(3, 10), [200.0]);
        assert_eq!(pauses(0, 10), [100.0, 200.0], "an answer that was asked for");
        assert_eq!(pauses(3, 1000), [100.0, 200.0], "more than settings");
    }

    #[test]
    fn packets_of_the_peer_that_are_overtaken_are_not_lost() {
        let mut waits = Waits::default();
        let mut is_cut = |numbers: &[u64]| {
            waits.missing.clear();
            numbers.iter().for_each(|number| waits.received(*number));
            waits.is_cut()
        };
        assert!(!is_cut(&[7, 10, 8, 9]));
        assert!(is_cut(&[13]), "two are missing");
        assert!(!is_cut(&[16, 15]), "one may be skipped");
        assert!(is_cut(&[1000]) && is_cut(&[u64::MAX, 1001]));
        (0..500).for_each(|number| waits.received(2 * number));
        assert!(waits.missing.len() <= MISSING);
    }
}
