//! The interface of queue disciplines: to a link a [`Queue`], to descriptions a [`Kind`] with parameters that builds
//! one.

use core::fmt::Debug;

use serde::Serialize;
use thalweg_units::{Duration, Instant, Rate, exact_duration};

use super::limit::QueueLimit;
use crate::read::{Field, Table};
use crate::{Dice, DropCause, Packet};

/// A packet that waits, and since when.
#[derive(Clone, Debug)]
pub struct Queued<P> {
    /// The packet.
    pub packet: Packet<P>,
    /// When it came to the queue.
    pub at: Instant,
}

/// What a queue discarded.
#[derive(Clone, Debug)]
pub struct Dropped<P> {
    /// The packet.
    pub packet: Packet<P>,
    /// When.
    pub at: Instant,
    /// Why.
    pub cause: DropCause,
}

/// A queue discipline. The packet that is being serialized has left the queue and takes no place in it.
///
/// Nothing here reads a clock: the same object serves a simulation and a real-time emulator. Calls come with times
/// that do not go back. A queue that marks instead of dropping calls [`Packet::try_mark`]. One that is to be updated
/// at fixed times keeps a grid of times and catches up on every call.
pub trait Queue<P>: Debug + Send {
    /// Takes in `packet`, or discards it or others into `dropped`.
    fn enqueue(&mut self, now: Instant, packet: Packet<P>, dropped: &mut Vec<Dropped<P>>);

    /// Takes in `packet` while the link is idle and nothing waits: it is next to be serialized, so it needs no place
    /// and the limit does not apply to it. A queue that does not say otherwise treats it like any other.
    fn enqueue_idle(&mut self, now: Instant, packet: Packet<P>, dropped: &mut Vec<Dropped<P>>) {
        self.enqueue(now, packet, dropped);
    }

    /// Hands out the next packet to serialize. Packets discarded on the way go into `dropped`. A queue that holds
    /// packets back gives none although some wait, and returns in [`next_event`](Self::next_event) when to ask again.
    fn dequeue(&mut self, now: Instant, dropped: &mut Vec<Dropped<P>>) -> Option<Queued<P>>;

    /// When a queue whose packets are all held back has one to hand out, later than the last call; none if it never
    /// holds back. It is asked again earlier if a packet arrives before.
    fn next_event(&self) -> Option<Instant> {
        None
    }

    /// The link now serves at this rate (limits given in time depend on it).
    fn set_rate(&mut self, rate: Rate) {
        let _ = rate;
    }

    /// Reports its state in numbers by name, for records: a probability, a count, what it predicts. Units are in the
    /// names.
    fn signals(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        let _ = tell;
    }

    /// Bytes that wait.
    fn len_bytes(&self) -> u64;

    /// Packets that wait.
    fn len_packets(&self) -> usize;
}

/// What a queue is built with, beside the parameters of its discipline.
#[derive(Debug)]
pub struct Setup {
    /// How much may wait, never in BDP.
    pub limit: QueueLimit,
    /// The rate of the link at the start.
    pub rate: Rate,
    /// When the link starts: the origin of fixed times.
    pub start: Instant,
    /// Its chance, from a stream of its own.
    pub dice: Dice,
}

/// What a queue has to have room for, so that its discipline acts before its limit does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Bytes.
    pub bytes: u64,
    /// What they are, in words.
    pub what: String,
}

impl Needs {
    /// What the link sends in a target and a burst.
    pub(crate) fn of_spans(rate: Rate, target: Duration, burst: Duration) -> Needs {
        let what = match burst.is_zero() {
            true => format!("its target of {}", exact_duration(target)),
            false => format!("its target of {} and a burst of {}", exact_duration(target), exact_duration(burst)),
        };
        Needs { bytes: rate.bytes_in(target + burst), what }
    }
}

/// A queue discipline that descriptions can name: its parameters, and how to read and build it.
pub trait Kind: Clone + Debug + Default + PartialEq + Serialize {
    /// The name in `aqm = "NAME"`.
    const NAME: &'static str;
    /// A value of `aqm` with all parameters; a test reads it.
    const EXAMPLE: &'static str;
    /// What it does and its parameters with units and defaults, for `thalweg lab list --keys`.
    const DOC: &'static str;

    /// Reads the parameters in `aqm = { name = "NAME", … }`; none by default.
    fn read(table: &dyn Table) -> Option<Self> {
        let _ = table;
        Some(Self::default())
    }

    /// How much may wait where a description does not state it, on a link of this rate (none if it is not known yet):
    /// what the discipline's specification or its implementation in Linux begins with. [`DOC`](Self::DOC) says it.
    fn limit(&self, rate: Option<Rate>) -> QueueLimit;

    /// What its queue has to have room for on a link of this rate; none if it acts at its limit, or whatever it is.
    fn needs(&self, rate: Rate) -> Option<Needs> {
        let _ = rate;
        None
    }

    /// An empty queue.
    fn build<P: Debug + Send + 'static>(&self, setup: Setup) -> Box<dyn Queue<P>>;
}

/// The limit of CoDel and PIE in Linux, in packets; and what is taken where a discipline has none of its own.
pub(crate) const FEW: QueueLimit = QueueLimit::Packets(1_000);
/// The limit of FQ-CoDel (RFC 8290) and of Linux's FQ-PIE.
pub(crate) const MANY: QueueLimit = QueueLimit::Packets(10_240);

/// Reads a parameter if it is there; one that is wrong has been complained about and leaves the default.
pub(crate) fn set<T>(table: &dyn Table, key: &'static str, value: &mut T, read: impl FnOnce(&dyn Field) -> Option<T>) {
    if let Some(read) = table.get(key).and_then(|field| read(&*field)) {
        *value = read;
    }
}
