//! The sending part of one stream (RFC 9000 section 3.1): what may leave next, and as which frame.

use bytes::BufMut;
use thalweg_recovery::DataSpace;

use crate::varint;

use super::scheduler::Slot;
use super::send_buffer::{SendBuffer, SparePool};
use super::{SentChunk, StreamId};

/// STREAM frames: 0b00001OLF (RFC 9000 section 19.8).
const STREAM: u8 = 0x08;
const OFFSET_BIT: u8 = 0x04;
const LENGTH_BIT: u8 = 0x02;
const FIN_BIT: u8 = 0x01;

/// A piece shorter than this is not cut off just to fill a packet, bytes.
const MIN_PIECE: u64 = 16;

/// What keeps a stream from sending, if anything.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Ready {
    /// There is nothing to send.
    Idle,
    /// There is data, but the peer's limit for the stream is reached.
    StreamBlocked,
    /// There is data that counts against the peer's limit for the connection.
    Fresh,
    /// There is something to send that needs no credit: lost data, or the bare end of the stream.
    Free,
}

impl Ready {
    /// For arrays with one element per variant.
    pub(super) const fn index(self) -> usize {
        self as usize
    }
}

/// The sending part of a stream. Removed once everything, or the reset, is acknowledged.
#[derive(Debug)]
pub(super) struct Send {
    pub(super) buffer: SendBuffer,
    /// The peer's limit: the offset that must not be passed.
    pub(super) max_data: u64,
    pub(super) priority: i32,
    /// The path on which it is to be sent; `None`: on any.
    pub(super) pin: Option<DataSpace>,
    /// The application wrote all it will.
    pub(super) finished: bool,
    /// The end has to be sent, for the first time or again.
    fin_pending: bool,
    pub(super) fin_acked: bool,
    /// The code the stream was reset with.
    pub(super) reset: Option<u64>,
    /// The code of the peer's STOP_SENDING.
    pub(super) stopped: Option<u64>,
    /// The application has not taken [`StreamEvent::Stopped`](super::StreamEvent::Stopped) yet: until then the stream
    /// is remembered, so that a write reports the peer's code and not an unknown stream.
    pub(super) stop_untold: bool,
    /// The peer knows of the reset: nothing of the stream is left to be sent.
    pub(super) reset_acked: bool,
    /// Whether a RESET_STREAM, or a STREAM_DATA_BLOCKED, waits to be written.
    pub(super) reset_queued: bool,
    pub(super) blocked_queued: bool,
    /// The limit of the last report to the peer that we are blocked.
    pub(super) blocked_at: Option<u64>,
    /// A write found no room, and the application was not notified of room since.
    pub(super) write_blocked: bool,
    /// Whether the stream waits for room in the connection's send buffer.
    pub(super) waiting: bool,
    /// The peer allows a stream of this number: false only after a rejected 0-RTT with lower limits.
    pub(super) allowed: bool,
    /// Where the scheduler has it.
    pub(super) slot: Slot,
    /// How it was counted last.
    pub(super) counted: Counted,
}

/// What a stream adds to the counts of all streams.
#[derive(Copy, Clone, Debug)]
pub(super) struct Counted {
    pub(super) ready: Ready,
    /// Bytes.
    pub(super) unsent: u64,
    pub(super) is_unfinished: bool,
    pub(super) is_open: bool,
}

/// What `write_frame` did.
#[derive(Copy, Clone, Debug)]
pub(super) struct Written {
    pub(super) chunk: SentChunk,
    /// How many bytes were sent for the first time.
    pub(super) fresh: u64,
}

impl Send {
    pub(super) fn new(max_data: u64) -> Send {
        Send {
            buffer: SendBuffer::default(),
            max_data,
            priority: 0,
            pin: None,
            finished: false,
            fin_pending: false,
            fin_acked: false,
            reset: None,
            stopped: None,
            stop_untold: false,
            reset_acked: false,
            reset_queued: false,
            blocked_queued: false,
            blocked_at: None,
            write_blocked: false,
            waiting: false,
            allowed: true,
            slot: Slot::default(),
            counted: Counted { ready: Ready::Idle, unsent: 0, is_unfinished: false, is_open: false },
        }
    }

    /// Bytes that the peer would still take on this stream.
    #[inline]
    pub(super) fn credit(&self) -> u64 {
        self.max_data.saturating_sub(self.buffer.sent())
    }

    /// What could be sent now.
    pub(super) fn ready(&self) -> Ready {
        if self.reset.is_some() || !self.allowed {
            Ready::Idle
        } else if self.buffer.first_lost().is_some() {
            Ready::Free
        } else if self.buffer.unsent() > 0 {
            if self.buffer.sent() < self.max_data { Ready::Fresh } else { Ready::StreamBlocked }
        } else if self.fin_pending {
            Ready::Free
        } else {
            Ready::Idle
        }
    }

    /// Whether nothing but the peer's credit for the stream is missing, to send what is there or to take more.
    pub(super) fn is_short_of_credit(&self) -> bool {
        let more = self.allowed && self.write_blocked && !self.finished && self.reset.is_none() && self.credit() == 0;
        match self.ready() {
            Ready::StreamBlocked => true,
            Ready::Idle => more,
            Ready::Fresh | Ready::Free => false,
        }
    }

    /// Whether the application handed something over that is not fully acknowledged.
    pub(super) fn is_unfinished(&self) -> bool {
        self.reset.is_none() && (self.finished || self.buffer.held() > 0)
    }

    /// Whether there is data of it that is not fully acknowledged, and the application has not written its end.
    pub(super) fn is_open(&self) -> bool {
        self.is_unfinished() && !self.finished
    }

    /// Whether data and end are acknowledged.
    pub(super) fn is_complete(&self) -> bool {
        self.fin_acked && self.buffer.held() == 0
    }

    pub(super) fn finish(&mut self) {
        self.finished = true;
        self.fin_pending = true;
    }

    /// Abandons what was not acknowledged. Returns how many bytes are no longer held.
    pub(super) fn abandon(&mut self, pool: &mut SparePool, code: u64) -> u64 {
        self.reset = Some(code);
        self.fin_pending = false;
        self.buffer.clear(pool)
    }

    /// Forgets that anything was sent (0-RTT was rejected).
    pub(super) fn unsend(&mut self) {
        if self.reset.is_some() {
            // Final size 0: for the peer the stream never was.
            self.buffer = SendBuffer::default();
        }
        self.buffer.unsend();
        self.fin_pending = self.finished && self.reset.is_none();
        self.fin_acked = false;
        self.max_data = 0;
        self.blocked_at = None;
    }

    /// Appends one STREAM frame, lost data first. `credit`: how many fresh bytes the connection may send.
    /// `None` if there is nothing, or nothing worth the room up to `limit` (a length of `buf`).
    #[inline]
    pub(super) fn write_frame(
        &mut self,
        id: StreamId,
        buf: &mut Vec<u8>,
        limit: usize,
        credit: u64,
    ) -> Option<Written> {
        let lost = self.buffer.first_lost();
        let (offset, available) = match &lost {
            Some(range) => (range.start, range.end - range.start),
            None => {
                let sent = self.buffer.sent();
                let room = self.max_data.saturating_sub(sent).min(credit);
                (sent, self.buffer.unsent().min(room))
            }
        };
        let offset_len = if offset > 0 { varint::len(offset) } else { 0 };
        let header = 1 + varint::len(id.as_u64()) + offset_len;
        let room = limit.checked_sub(buf.len())?.checked_sub(header + 1)?;
        let len = fitting(room + 1).min(available);
        if len < available && len < MIN_PIECE {
            return None;
        }
        let fin = self.finished && offset + len == self.buffer.end();
        if len == 0 && !(fin && self.fin_pending) {
            return None;
        }
        let mut ty = STREAM | LENGTH_BIT;
        if offset > 0 {
            ty |= OFFSET_BIT;
        }
        if fin {
            ty |= FIN_BIT;
            self.fin_pending = false;
        }
        let mut fields = [0; 1 + 3 * varint::MAX_LEN];
        let mut rest = &mut fields[..];
        rest.put_u8(ty);
        varint::encode(id.as_u64(), &mut rest);
        if offset > 0 {
            varint::encode(offset, &mut rest);
        }
        varint::encode(len, &mut rest);
        let left = rest.len();
        buf.extend_from_slice(&fields[..fields.len() - left]);
        self.buffer.copy(offset..offset + len, buf);
        let fresh = if lost.is_some() {
            self.buffer.take_lost(len);
            0
        } else {
            self.buffer.take_fresh(len);
            len
        };
        let chunk = SentChunk { id, offset, len: len as u32, fin };
        Some(Written { chunk, fresh })
    }

    /// A STREAM frame arrived at the peer. Returns how many bytes are no longer held.
    #[inline]
    pub(super) fn on_acked(&mut self, pool: &mut SparePool, chunk: &SentChunk) -> u64 {
        if self.reset.is_some() {
            return 0;
        }
        if chunk.fin {
            self.fin_acked = true;
            self.fin_pending = false;
        }
        let range = chunk.offset..chunk.offset + u64::from(chunk.len);
        self.buffer.on_acked(pool, range)
    }

    /// A STREAM frame may not have arrived.
    pub(super) fn on_lost(&mut self, chunk: &SentChunk) {
        if self.reset.is_some() {
            return;
        }
        if chunk.fin && !self.fin_acked {
            self.fin_pending = true;
        }
        let range = chunk.offset..chunk.offset + u64::from(chunk.len);
        self.buffer.on_lost(range);
    }
}

/// The most bytes that fit `room` together with the length field before them.
fn fitting(room: usize) -> u64 {
    let room = room as u64;
    match room {
        0..=0x40 => room.saturating_sub(1),
        0x41..=0x4001 => (room - 2).max(0x3f),
        _ => (room - 4).max(0x3fff).min(u64::from(u32::MAX >> 2)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_use_the_room_to_the_byte() {
        for room in (1..600).chain(16_000..17_000) {
            let len = fitting(room);
            let used = |len: u64| varint::len(len) as u64 + len;
            assert!(used(len) <= room as u64, "{room}");
            assert!(used(len + 1) > room as u64, "{room}");
        }
    }
}
