//! The receiving part of one stream (RFC 9000 section 3.2): final size, stream-level flow control, reset, stop.

use crate::error::TransportError;
use crate::varint;

use super::buffer::{Assembler, BlockPool};
use super::flow::Window;

/// Where the receiving part is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum RecvState {
    /// Data arrives, or has all arrived and waits to be read.
    Open,
    /// The peer reset the stream with this code, and the application was not notified yet.
    Reset(u64),
    /// The application does not want more and sent STOP_SENDING with this code; the final size is unknown.
    Stopped(u64),
}

/// The receiving part of a stream. Removed once its final size is known and the application is done with it.
#[derive(Debug)]
pub(super) struct Recv {
    pub(super) data: Assembler,
    pub(super) window: Window,
    pub(super) state: RecvState,
    /// The end of the stream, once a FIN or a reset stated it.
    pub(super) final_size: Option<u64>,
    /// The highest offset received: what counts against the connection's limit.
    highest: u64,
    /// Whether the application wants to be notified when something can be read.
    pub(super) notify: bool,
    /// Whether it wants to be notified only of a reset by the peer: once it has, or no longer can.
    pub(super) awaits_reset: bool,
    /// Whether the application knows of the stream.
    pub(super) accepted: bool,
    /// Whether a MAX_STREAM_DATA, or a STOP_SENDING, waits to be written.
    pub(super) credit_queued: bool,
    pub(super) stop_queued: bool,
    /// The limit in the last MAX_STREAM_DATA written.
    pub(super) told: u64,
}

/// What a frame changed.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Arrival {
    /// By how many bytes the highest offset rose: what counts against the connection's limit.
    pub(super) grown: u64,
    /// Bytes that nobody will read any more: to be credited to the connection at once.
    pub(super) consumed: u64,
    /// The application should be notified.
    pub(super) readable: bool,
    /// The receiving part is done and can be forgotten.
    pub(super) done: bool,
}

impl Recv {
    pub(super) fn new(window: Window, accepted: bool) -> Recv {
        Recv {
            data: Assembler::default(),
            told: window.granted(),
            window,
            state: RecvState::Open,
            final_size: None,
            highest: 0,
            notify: true,
            awaits_reset: false,
            accepted,
            credit_queued: false,
            stop_queued: false,
        }
    }

    /// Whether a read would return something other than "blocked".
    pub(super) fn is_ready(&self) -> bool {
        match self.state {
            RecvState::Open => self.data.is_readable() || self.at_end(),
            RecvState::Reset(_) => true,
            RecvState::Stopped(_) => false,
        }
    }

    /// Whether everything up to the end was read.
    pub(super) fn at_end(&self) -> bool {
        self.final_size == Some(self.data.taken())
    }

    /// Whether everything up to the end has arrived: a reset takes nothing away any more (RFC 9000 section 3.2, Data
    /// Recvd).
    pub(super) fn is_complete(&self) -> bool {
        self.final_size == Some(self.data.received())
    }

    /// The highest offset received: how much of its credit the peer has used up.
    pub(super) fn highest(&self) -> u64 {
        self.highest
    }

    /// Whether the peer may need more credit: not once the end is known.
    pub(super) fn wants_credit(&self) -> bool {
        self.state == RecvState::Open && self.final_size.is_none()
    }

    /// The rules that STREAM and RESET_STREAM share. Returns by how much the highest offset rises.
    fn check(&self, end: u64, is_final: bool, connection_room: u64) -> Result<u64, TransportError> {
        if let Some(size) = self.final_size {
            if end > size {
                return Err(TransportError::final_size("data beyond the final size"));
            }
            if is_final && end != size {
                return Err(TransportError::final_size("the final size changed"));
            }
        }
        if is_final && end < self.highest {
            return Err(TransportError::final_size("the final size is below data already received"));
        }
        if end > self.window.granted() {
            return Err(TransportError::flow_control("data beyond the limit of the stream"));
        }
        let grown = end.saturating_sub(self.highest);
        if grown > connection_room {
            return Err(TransportError::flow_control("data beyond the limit of the connection"));
        }
        Ok(grown)
    }

    /// A STREAM frame. `connection_room`: how far the sum of all highest offsets may still rise.
    pub(super) fn on_data(
        &mut self,
        pool: &mut BlockPool,
        offset: u64,
        data: &[u8],
        fin: bool,
        connection_room: u64,
    ) -> Result<Arrival, TransportError> {
        let end = offset.saturating_add(data.len() as u64);
        if end > varint::MAX {
            return Err(TransportError::frame_encoding("a stream cannot be longer than 2^62 - 1 bytes"));
        }
        let grown = self.check(end, fin, connection_room)?;
        self.highest += grown;
        if fin {
            self.final_size = Some(end);
        }
        let mut arrival = Arrival { grown, ..Arrival::default() };
        match self.state {
            RecvState::Open => {
                self.data.insert(pool, offset, data);
                arrival.readable = self.should_notify();
            }
            RecvState::Reset(_) => {}
            RecvState::Stopped(_) => {
                arrival.consumed = grown;
                arrival.done = fin;
            }
        }
        Ok(arrival)
    }

    /// A RESET_STREAM frame.
    pub(super) fn on_reset(
        &mut self,
        pool: &mut BlockPool,
        code: u64,
        final_size: u64,
        connection_room: u64,
    ) -> Result<Arrival, TransportError> {
        let grown = self.check(final_size, true, connection_room)?;
        self.highest += grown;
        let mut arrival = Arrival { grown, ..Arrival::default() };
        let complete = self.is_complete();
        self.final_size = Some(final_size);
        match self.state {
            RecvState::Open if complete => {}
            RecvState::Open => {
                self.state = RecvState::Reset(code);
                arrival.consumed = final_size - self.data.taken();
                self.data.discard(pool);
                arrival.readable = self.should_notify();
            }
            RecvState::Reset(_) => {}
            RecvState::Stopped(_) => {
                arrival.consumed = grown;
                arrival.done = true;
            }
        }
        Ok(arrival)
    }

    /// The application does not want more. In the result, `done` means that nobody is left to notify.
    pub(super) fn stop(&mut self, pool: &mut BlockPool, code: u64) -> Arrival {
        let mut arrival = Arrival::default();
        if self.state == RecvState::Open {
            arrival.consumed = self.highest - self.data.taken();
            self.data.discard(pool);
            self.state = RecvState::Stopped(code);
        }
        arrival.done = self.final_size.is_some();
        arrival
    }

    /// Whether to notify the application now that it can read; counts as notified.
    pub(super) fn should_notify(&mut self) -> bool {
        let is_decided = matches!(self.state, RecvState::Reset(_)) || self.is_complete();
        let now = self.accepted && (self.notify && self.is_ready() || self.awaits_reset && is_decided);
        if now {
            (self.notify, self.awaits_reset) = (false, false);
        }
        now
    }
}
