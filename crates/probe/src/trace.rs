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
    /// Whether it was sent with ECT(0).
    pub marked: bool,
    /// Whether it is known if it arrived.
    pub known: bool,
    /// Whether it waited for a train of the measurement itself: its times tell nothing of the path.
    pub disturbed: bool,
}

impl Datagram {
    /// One of which nothing is known but when it was sent.
    pub(crate) fn sent_at(sent: u64, late: Duration, ecn: Ecn) -> Self {
        let late = u32::try_from(late.as_micros()).unwrap_or(u32::MAX);
        Datagram {
            sent,
            received: None,
            late,
            copies: 0,
            ecn: Ecn::NotEct,
            marked: ecn != Ecn::NotEct,
            known: false,
            disturbed: false,
        }
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

/// Both streams of a measurement, or of a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Time between the datagrams of a stream.
    pub interval: Duration,
    /// When the client's stream began, in nanoseconds of the client's clock.
    pub started: u64,
    /// The client's stream, in the order of sending.
    pub up: Vec<Datagram>,
    /// The server's stream, in the order of sending.
    pub down: Vec<Datagram>,
    /// What belongs to this part, by the client's clock: what begins at the first of these or later, and before the
    /// second. Datagrams around that are there so that nothing is cut in two.
    pub own: (u64, u64),
    /// Position of the first datagram of `up`, and of `down`, in its stream.
    pub first: (usize, usize),
    /// When a load filled the way up, and the way down, by the client's clock: from and until. What happens then tells
    /// of the load, and is kept apart.
    pub loads: [Option<(u64, u64)>; 2],
}

impl Default for Trace {
    fn default() -> Self {
        let (up, down) = (Vec::new(), Vec::new());
        Trace { interval: Duration::ZERO, started: 0, up, down, own: (0, u64::MAX), first: (0, 0), loads: [None; 2] }
    }
}

/// How much of the streams is kept beyond the time that a part of a trace owns, in nanoseconds.
const MARGIN: u64 = 3_000_000_000;
/// After this time the fate of a datagram is settled, in nanoseconds.
const SETTLED: u64 = 12_000_000_000;
/// A part that is cut off is at least so long, in nanoseconds: long enough for a good estimate of the clock.
const PART: u64 = 600_000_000_000;

impl Trace {
    /// Notes that what was sent up, or came down, between these times of the client's clock waited for a train.
    pub(crate) fn disturb(&mut self, way: Way, from: u64, until: u64) {
        let stream = if way == Way::Up { &mut self.up } else { &mut self.down };
        // From the end: it was a round trip ago.
        for datagram in stream.iter_mut().rev() {
            match Trace::seen(way, datagram) {
                Some(seen) if seen < from.saturating_sub(MARGIN) => break,
                Some(seen) => datagram.disturbed |= (from..=until).contains(&seen),
                None => {}
            }
        }
    }

    /// The stream of one way.
    pub fn stream(&self, way: Way) -> &[Datagram] {
        match way {
            Way::Up => &self.up,
            Way::Down => &self.down,
        }
    }

    /// When a datagram was seen by the client, if it was.
    fn seen(way: Way, datagram: &Datagram) -> Option<u64> {
        match way {
            Way::Up => Some(datagram.sent),
            Way::Down => datagram.received,
        }
    }

    /// The place of the first datagram that the client saw at this time or later.
    fn place(&self, way: Way, at: u64) -> usize {
        let stream = self.stream(way);
        let later = |datagram: &Datagram| Trace::seen(way, datagram).is_some_and(|seen| seen >= at);
        stream.iter().position(later).unwrap_or(stream.len())
    }

    /// What the client has seen since this time of its clock, as far as the fate of datagrams is known.
    #[must_use]
    pub fn since(&self, at: u64) -> Trace {
        let [up, down] = Way::BOTH.map(|way| {
            let stream = self.stream(way);
            // From the end: a view is asked for often, and is short.
            let older = |datagram: &Datagram| Trace::seen(way, datagram).is_some_and(|seen| seen < at);
            let from = stream.iter().rposition(older).map_or(0, |place| place + 1);
            stream[from..].to_vec()
        });
        Trace { up, down, own: (at, u64::MAX), ..*self }
    }

    /// Cuts off what is settled at this time of the client's clock, once that is ten minutes long.
    pub(crate) fn cut(&mut self, now: u64) -> Option<Trace> {
        let is_long = |until: &u64| !self.up.is_empty() && *until >= self.own.0.max(self.started).saturating_add(PART);
        let until = now.checked_sub(SETTLED).filter(is_long)?;
        let copied = Way::BOTH.map(|way| self.place(way, until + MARGIN));
        let dropped = Way::BOTH.map(|way| self.place(way, until - MARGIN));
        let part = Trace {
            up: self.up[..copied[0]].to_vec(),
            down: self.down[..copied[1]].to_vec(),
            own: (self.own.0, until),
            ..*self
        };
        self.up.drain(..dropped[0]);
        self.down.drain(..dropped[1]);
        self.first = (self.first.0 + dropped[0], self.first.1 + dropped[1]);
        self.own.0 = until;
        Some(part)
    }
}
