//! What a sender waits for, where its log does not say so: credit that is used up, or an application that has nothing.

use std::collections::BTreeMap;

use super::frames::{Frames, Piece};
use super::waits::Limit;

/// Streams whose limits are kept.
const STREAMS: usize = 4096;
/// A sender that is free to send does so sooner than this, milliseconds.
const AT_ONCE: f64 = 0.5;

/// What the log lets one infer.
#[derive(Debug, Default)]
pub(super) struct Inferred {
    /// Limits of the connection and, at first, of each stream; bytes.
    initial: Option<[u64; 2]>,
    connection: u64,
    streams: BTreeMap<u64, u64>,
    /// What was sent of each stream.
    ends: BTreeMap<u64, u64>,
    sent: u64,
    /// Since when everything is acknowledged and there is credit, milliseconds.
    idle: Option<f64>,
}

impl Inferred {
    /// What the receiver gives at first.
    pub(super) fn parameters(&mut self, initial: Option<[u64; 2]>) {
        if self.initial.is_none() {
            self.initial = initial;
            self.connection = self.connection.max(initial.map_or(0, |[connection, _]| connection));
        }
    }

    /// Something arrived. `is_empty` says whether no data are on their way.
    pub(super) fn arrived(&mut self, now: f64, frames: &Frames, is_empty: bool) {
        self.connection = self.connection.max(frames.max_data.unwrap_or(0));
        if let Some((id, most)) = frames.max_stream_data {
            let limit = self.streams.entry(id).or_default();
            *limit = most.max(*limit);
        }
        while self.streams.len() > STREAMS {
            self.streams.pop_first();
        }
        self.settle(now, is_empty);
    }

    /// What was on its way is acknowledged, or lost, or not.
    fn settle(&mut self, now: f64, is_empty: bool) {
        let is_idle = is_empty && self.sent > 0 && !self.is_used_up();
        self.idle = if is_idle { self.idle.or(Some(now)) } else { None };
    }

    /// Whether the application let the sender wait for the data that leave now; before they are counted. `had_room`
    /// says that the window had room for more all the time: then the sender would have sent them before.
    pub(super) fn has_paused(&self, now: f64, frames: &Frames, had_room: bool) -> bool {
        let is_new = frames.pieces.iter().any(|piece| piece.offset == 0 && !self.ends.contains_key(&piece.id));
        let is_more = |end: &u64, piece: &Piece| piece.offset >= *end;
        let is_fresh = frames.pieces.iter().any(|piece| self.ends.get(&piece.id).is_none_or(|end| is_more(end, piece)));
        self.idle.is_some_and(|since| is_new || now - since > AT_ONCE || (had_room && is_fresh && now > since))
    }

    /// Data left.
    pub(super) fn sent(&mut self, frames: &Frames) {
        for piece in &frames.pieces {
            let end = self.ends.entry(piece.id).or_default();
            let to = piece.offset.saturating_add(piece.length);
            self.sent += to.saturating_sub(*end);
            *end = to.max(*end);
        }
        if !frames.pieces.is_empty() {
            self.idle = None;
        }
        while self.ends.len() > STREAMS {
            self.ends.pop_first();
        }
    }

    /// Whether the credit of the connection, or of the stream that was sent last, is used up.
    fn is_used_up(&self) -> bool {
        let Some([_, stream]) = self.initial else { return false };
        let of_stream = self.ends.last_key_value().is_some_and(|(id, end)| {
            let limit = self.streams.get(id).copied().unwrap_or(0).max(stream);
            *end >= limit
        });
        of_stream || self.sent >= self.connection
    }

    /// What holds the sender back from now on.
    pub(super) fn limit(&self) -> Limit {
        if self.is_used_up() { Limit::Credit } else { Limit::Window }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(id: u64, offset: u64, length: u64) -> Frames {
        Frames { pieces: vec![Piece { id, offset, length }], ..Frames::default() }
    }

    #[test]
    fn credit_that_is_used_up_is_no_pause() {
        let mut inferred = Inferred::default();
        inferred.parameters(Some([1000, 5000]));
        inferred.sent(&data(0, 0, 1000));
        assert_eq!(inferred.limit(), Limit::Credit);
        inferred.arrived(10.0, &Frames::default(), true);
        assert!(!inferred.has_paused(20.0, &data(0, 1000, 10), false));
        inferred.arrived(20.0, &Frames { max_data: Some(2000), ..Frames::default() }, true);
        assert_eq!(inferred.limit(), Limit::Window);
        assert!(!inferred.has_paused(20.0, &data(0, 1000, 10), false));
    }

    #[test]
    fn an_application_pauses_when_everything_is_acknowledged() {
        let mut inferred = Inferred::default();
        inferred.parameters(Some([9000, 5000]));
        inferred.sent(&data(0, 0, 1000));
        inferred.arrived(10.0, &Frames::default(), false);
        assert!(!inferred.has_paused(10.0, &data(4, 0, 10), false));
        inferred.arrived(20.0, &Frames::default(), true);
        assert!(!inferred.has_paused(20.1, &data(0, 1000, 10), false), "it only waited for its window");
        assert!(inferred.has_paused(20.1, &data(0, 1000, 10), true), "its window had room");
        assert!(!inferred.has_paused(20.1, &data(0, 500, 10), true), "it had been sent before");
        assert!(inferred.has_paused(20.0, &data(4, 0, 10), false), "another stream");
        assert!(inferred.has_paused(30.0, &data(0, 1000, 10), false));
    }
}
