//! The lifecycle of a connection between its first and its last datagram: closing, draining, closed (RFC 9000 section
//! 10.2).

use bytes::Bytes;
use thalweg_units::Instant;

use super::idle::IdleTimers;
use crate::error::{ConnectionError, TransportErrorCode};

/// The content of our CONNECTION_CLOSE frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CloseFrame {
    /// Type 0x1c.
    Transport { code: TransportErrorCode, frame: u64, reason: Bytes },
    /// Type 0x1d, only in 1-RTT packets.
    Application { code: u64, reason: Bytes },
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Lifecycle {
    pub(super) phase: Phase,
    pub(super) idle: IdleTimers,
    /// Close with this once every stream is delivered.
    pub(super) close_when_done: Option<CloseFrame>,
    /// Why the connection ended.
    pub(super) error: Option<ConnectionError>,
}

/// What may still be sent.
#[derive(Debug)]
pub(super) enum Phase {
    /// Handshaking or in use.
    Open,
    /// We closed: answer what still comes with the same frame, ever more rarely, until `until`.
    Closing { until: Instant, frame: CloseFrame, send: bool, received: u32, reply_at: u32 },
    /// The peer closed or reset: say nothing more.
    Draining { until: Instant },
    /// Nothing is left.
    Closed,
}

impl Lifecycle {
    pub(super) fn new(idle: IdleTimers) -> Lifecycle {
        Lifecycle { phase: Phase::Open, idle, close_when_done: None, error: None }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open)
    }

    /// A datagram arrived while closing; every doubling of their number earns one more CONNECTION_CLOSE
    /// (RFC 9000 section 10.2.1 asks for a limit on the rate).
    pub(super) fn on_datagram_while_closing(&mut self) {
        if let Phase::Closing { send, received, reply_at, .. } = &mut self.phase {
            *received += 1;
            if *received >= *reply_at {
                *reply_at = reply_at.saturating_mul(2);
                *send = true;
            }
        }
    }

    pub(super) fn timer(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Closing { until, .. } | Phase::Draining { until } => Some(*until),
            Phase::Open | Phase::Closed => None,
        }
    }
}
