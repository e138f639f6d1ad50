//! What was measured: the datagrams of both streams, with their times by both clocks.

use thalweg_units::{Duration, Ecn};

/// The two ways across a path.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// From the client to the server.
    Up,
    /// From the server to the client.
    Down,
}

impl Way {
    /// Both.
    pub const BOTH: [Way; 2] = [Way::Up, Way::Down];

    /// "up" or "down", as scenarios call them.
    pub const fn name(self) -> &'static str {
        match self {
            Way::Up => "up",
            Way::Down => "down",
        }
    }

    /// The other way.
    #[must_use]
    pub const fn back(self) -> Way {
        match self {
            Way::Up => Way::Down,
            Way::Down => Way::Up,
        }
    }
}

/// A datagram of a stream.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// When it was sent, in nanoseconds of the sender's clock. Unknown times of the server's stream, those of datagrams
    /// that did not arrive, are interpolated.
    pub sent: u64,
    /// When it arrived first, in nanoseconds of the receiver's clock.
    pub received: Option<u64>,
    /// How late it was sent, in microseconds.
    pub late: u32,
    /// How often it arrived.
    pub copies: u8,
    /// Its ECN field on arrival.
    pub ecn: Ecn,
    /// Whether it is known if it arrived.
    pub known: bool,
}

impl Datagram {
    /// One of which nothing is known but when it was sent.
    pub(crate) fn sent_at(sent: u64, late: Duration) -> Self {
        let late = u32::try_from(late.as_micros()).unwrap_or(u32::MAX);
        Datagram { sent, received: None, late, copies: 0, ecn: Ecn::NotEct, known: false }
    }

    pub(crate) fn arrive(&mut self, at: u64, ecn: Ecn) {
        if self.received.is_none() {
            (self.received, self.ecn) = (Some(at), ecn);
        }
        self.copies = self.copies.saturating_add(1);
        self.known = true;
    }
}

/// A time during which there was no session with the server.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Break {
    /// When the client noticed, in nanoseconds of its clock.
    pub from: u64,
    /// When there was a session again; `None` if that never happened.
    pub until: Option<u64>,
    /// Why.
    pub cause: BreakCause,
}

/// Why a session ended before its time.
#[derive(Copy, Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum BreakCause {
    /// The server said that it stops.
    Stopped,
    /// The server does not know the session: it was restarted, or the client's address has changed.
    Unknown,
    /// Nobody listens at the server's port any more.
    Unreachable,
    /// Nothing came from the server for a long time.
    Silent,
}

/// Both streams of a measurement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Time between the datagrams of a stream.
    pub interval: Duration,
    /// The client's stream, in the order of sending.
    pub up: Vec<Datagram>,
    /// The server's stream, in the order of sending.
    pub down: Vec<Datagram>,
    /// Times without a session.
    pub breaks: Vec<Break>,
    /// Datagrams for which there was no room: see [`MOST_DATAGRAMS`].
    pub omitted: u64,
}

/// Datagrams that a trace keeps of each stream, at most: 24 hours at 20 ms would take more memory than a measurement
/// should. The measurement ends when it has so many.
pub const MOST_DATAGRAMS: usize = 1 << 20;

impl Trace {
    /// The stream of one way.
    pub fn stream(&self, way: Way) -> &[Datagram] {
        match way {
            Way::Up => &self.up,
            Way::Down => &self.down,
        }
    }
}
