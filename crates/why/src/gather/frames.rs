//! What the frames of a packet say.

use super::number::integer;
use super::stack::Stack;
use crate::read::Data;

/// An acknowledgment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Ack {
    /// Ranges, both ends inclusive, the highest first.
    pub(super) ranges: Vec<(u64, u64)>,
    /// Whether it had more ranges than the log kept.
    pub(super) is_cut: bool,
    /// How long it was delayed, milliseconds.
    pub(super) delay: f64,
    /// Whether it may have been delayed, and the log does not say how long.
    pub(super) may_be_late: bool,
    /// Whether the log never says how long acknowledgments were delayed.
    pub(super) is_undated: bool,
}

impl Ack {
    /// Undoes what a stack writes otherwise than the drafts say: noq and quiche log the delay as it is on the wire,
    /// quiche a thousandth of it, and noq beside each range the number behind its last one.
    pub(super) fn mend(&mut self, stack: Stack, delay_exponent: u32) {
        if matches!(stack, Stack::Noq | Stack::Quiche) {
            self.delay *= f64::from(1_u32 << delay_exponent.min(20));
        }
        if stack == Stack::Noq {
            self.delay /= 1000.0;
            for (from, to) in &mut self.ranges {
                *to = to.saturating_sub(1).max(*from);
            }
        }
    }
}

/// A piece of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) id: u64,
    pub(super) offset: u64,
    pub(super) length: u64,
}

/// The frames of a packet that matter.
#[derive(Clone, Debug, Default)]
pub(super) struct Frames {
    pub(super) ack: Option<Ack>,
    pub(super) pieces: Vec<Piece>,
    pub(super) max_data: Option<u64>,
    /// The stream and its limit.
    pub(super) max_stream_data: Option<(u64, u64)>,
    pub(super) is_ack_eliciting: bool,
    /// Whether the sender says that it waits for credit.
    pub(super) is_blocked: bool,
}

impl Frames {
    pub(super) fn of(data: Data<'_>) -> Frames {
        let mut frames = Frames::default();
        let Some(list) = data.get("frames").filter(|list| list.is_list()) else {
            frames.is_ack_eliciting = true;
            return frames;
        };
        for frame in list.items() {
            let number = |key: &str| frame.get(key).and_then(integer);
            let kind = frame.get("frame_type").and_then(Data::as_str).unwrap_or("unknown");
            frames.is_ack_eliciting |= !matches!(kind, "ack" | "padding" | "connection_close");
            match kind {
                "ack" => frames.ack = Some(ack(frame)),
                "stream" => {
                    let raw = frame.get("raw").and_then(|raw| raw.get("payload_length").or_else(|| raw.get("length")));
                    let length = raw.and_then(integer).or_else(|| number("length")).unwrap_or(0);
                    if let (Some(id), Some(offset)) = (number("stream_id"), number("offset")) {
                        frames.pieces.push(Piece { id, offset, length });
                    }
                }
                "data_blocked" | "stream_data_blocked" => frames.is_blocked = true,
                "max_data" => frames.max_data = number("maximum"),
                "max_stream_data" => frames.max_stream_data = number("stream_id").zip(number("maximum")),
                _ => {}
            }
        }
        frames
    }
}

fn ack(frame: Data<'_>) -> Ack {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for range in frame.get("acked_ranges").into_iter().flat_map(Data::items) {
        let mut ends = range.items().filter_map(integer);
        let from = if range.is_list() { ends.next() } else { integer(range) };
        if let Some(from) = from {
            let to = ends.last().unwrap_or(from);
            ranges.push((from.min(to), from.max(to)));
        }
    }
    ranges.sort_unstable_by(|a, b| b.cmp(a));
    let count = frame.get("range_count").and_then(integer).unwrap_or(0);
    let is_cut = count > ranges.len() as u64;
    let delay = frame.get("ack_delay").and_then(Data::as_f64).unwrap_or(0.0);
    Ack { ranges, is_cut, delay, ..Ack::default() }
}

/// Bytes of streams, each counted once as far as its order allows.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    /// The end of each stream; forgotten streams begin anew.
    ends: std::collections::BTreeMap<u64, u64>,
    pub(super) bytes: u64,
}

/// Most streams that are told apart at a time.
const STREAMS: usize = 4096;

impl Progress {
    /// How many bytes are new.
    pub(super) fn add(&mut self, pieces: &[Piece]) -> u64 {
        let mut fresh = 0;
        for piece in pieces {
            let end = self.ends.entry(piece.id).or_default();
            let to = piece.offset.saturating_add(piece.length);
            if to > *end {
                // A gap before it will be filled by what counts then.
                fresh += (to - *end).min(piece.length);
                *end = to;
            }
        }
        while self.ends.len() > STREAMS {
            self.ends.pop_first();
        }
        self.bytes += fresh;
        fresh
    }
}

/// What arrived.
#[derive(Clone, Debug, Default)]
pub(crate) struct Received {
    progress: Progress,
    /// The first and the last of the streams' bytes, milliseconds.
    pub(crate) span: Option<(f64, f64)>,
}

impl Received {
    pub(super) fn add(&mut self, now: f64, frames: &Frames) {
        if self.progress.add(&frames.pieces) > 0 {
            self.span = Some((self.span.map_or(now, |(from, _)| from), now));
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.progress.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_in_milliseconds_whatever_the_stack_writes() {
        let delay = |stack: Stack, reported: f64| {
            let mut ack = Ack { ranges: vec![(3, 5)], delay: reported, ..Ack::default() };
            ack.mend(stack, 3);
            (ack.delay, ack.ranges)
        };
        assert_eq!(delay(Stack::Ours, 25.0), (25.0, vec![(3, 5)]));
        assert_eq!(delay(Stack::Quiche, 3.125), (25.0, vec![(3, 5)]));
        assert_eq!(delay(Stack::Noq, 3125.0), (25.0, vec![(3, 4)]));
    }
}
