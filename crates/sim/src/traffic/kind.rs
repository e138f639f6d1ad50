//! The interface of kinds of traffic.

use core::fmt::Debug;

use thalweg_link::Streams;
use thalweg_link::read::{Field, Table};
use thalweg_units::{Duration, DurationExt, Instant};

use crate::app::{App, Server};
use crate::frames::{Frames, TrackResult};
use crate::meter::Meter;

/// Traffic of one kind, with all its parameters: what runs on the connections of a flow, and what it is judged by.
pub trait TrafficKind: Debug + Send + Sync {
    /// The text that tells it from all other traffic. Results are stored under a digest of it, so it stays as it is.
    fn text(&self) -> String {
        format!("{self:?}")
    }

    /// Says what cannot be: "needs a count above zero".
    ///
    /// # Errors
    /// The first thing that is wrong, as the end of a sentence about the traffic.
    fn check(&self) -> Result<(), &'static str> {
        Ok(())
    }

    /// Whether it goes on until the run is stopped.
    fn is_endless(&self) -> bool {
        false
    }

    /// Whether the data that matters goes from the client to the server.
    fn sends_up(&self) -> bool {
        false
    }

    /// How many responses (of short flows: downloads) there are to be; zero if they have no end.
    fn responses(&self) -> u64 {
        0
    }

    /// About how many bytes it is in all, drawn sizes by their median; none if it is as many as the path carries.
    fn bytes(&self) -> Option<u64>;

    /// For how long it goes on, whether or not anything arrives; none if it takes as long as it takes.
    fn lasts(&self) -> Option<Duration> {
        None
    }

    /// The one transfer that it consists of, which has a floor and competes with others; none for other traffic.
    fn bulk(&self) -> Option<Bulk> {
        None
    }

    /// The datagrams that it sends, which are worth nothing when they are late.
    fn datagrams(&self) -> Option<Datagrams> {
        None
    }

    /// Names of the metrics that not all traffic has.
    fn metrics(&self) -> &'static [&'static str] {
        &[]
    }

    /// The metric that it is about. Where it is answered by responses, this is the time that one takes.
    fn main_metric(&self) -> &'static str;

    /// The client's end, with its chance from `streams`.
    fn clients(&self, streams: &Streams) -> Clients;

    /// The server's end, for one connection.
    fn server(&self) -> Box<dyn App> {
        Box::new(Server::default())
    }

    /// What became of its frames, from what both ends have counted.
    fn judge(&self, ends: &Ends<'_>) -> Judgement {
        let _ = ends;
        Judgement::default()
    }
}

/// How descriptions name a kind of traffic.
pub trait Described: TrafficKind + Sized + 'static {
    /// What it needs of a stack.
    const NEEDS: Needs;
    /// The keys of a flow that stand for it.
    const KEYS: &'static [TrafficKey<Self>];
}

/// A key of a flow that stands for traffic.
pub struct TrafficKey<K> {
    /// The key in `KEY = { … }`.
    pub name: &'static str,
    /// A value with the parameters that it needs; a test reads it.
    pub example: &'static str,
    /// Its parameters with units and defaults, for `thalweg lab list --keys`.
    pub doc: &'static str,
    /// Names of the metrics that it has and other traffic has not.
    pub metrics: &'static [&'static str],
    /// Reads it: for one flow, or for each of a group. What is wrong is complained about, and leaves nothing.
    pub read: fn(&dyn Table, &ReadContext<'_>) -> Option<Vec<K>>,
}

/// What reading traffic needs to know of its flow.
#[derive(Copy, Clone)]
pub struct ReadContext<'a> {
    /// How many flows are alike, if the flow is a group.
    pub count: Option<u64>,
    /// So many thousandths of the bandwidth-delay product of the way up (if so) or down, in bytes. Complains about the
    /// field if there is none.
    pub bdp: &'a dyn Fn(&dyn Field, bool, u64) -> Option<u64>,
}

/// The key that says which way the data that matters goes; whether that is up.
pub(crate) fn direction(table: &dyn Table) -> Option<bool> {
    table.get("direction").map_or(Some(false), |field| field.choice(&[("down", false), ("up", true)]))
}

/// What traffic needs of a stack.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Streams of bytes.
    Streams,
    /// Datagrams.
    Datagrams,
    /// Both, and streams with priorities that their receiver can cancel.
    RankedStreams,
}

/// One transfer as a whole.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Bulk {
    /// From the client to the server.
    pub up: bool,
    /// How many bytes; none without end.
    pub bytes: Option<u64>,
}

/// Datagrams at a constant rate.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Datagrams {
    /// From one to the next, or from one frame of several to the next.
    pub interval: Duration,
    /// Bytes of each, or of each frame.
    pub size: u64,
    /// What arrives later than this after it was sent is late.
    pub deadline: Option<Duration>,
}

impl Datagrams {
    /// Bytes of a sender's buffer for what is not late yet: what waits longer than the deadline, or than a second, is
    /// to make room for what is newer.
    pub fn buffer(&self) -> usize {
        const SECOND: Duration = Duration::from_secs(1);
        let longest = self.deadline.map_or(SECOND, |deadline| deadline.min(SECOND));
        let frames = longest.nanos() / self.interval.nanos().max(1) + 1;
        usize::try_from(frames * (self.size + 256)).unwrap_or(usize::MAX)
    }
}

/// Gives what a connection that is opened now is for, and when the next one is to be opened, if there is one to come.
pub type Clients = Box<dyn FnMut(Instant) -> (Box<dyn App>, Option<Instant>) + Send>;

/// A single connection.
pub(crate) fn one<A: App + 'static>(mut make: impl FnMut() -> A + Send + 'static) -> Clients {
    Box::new(move |_| (Box::new(make()), None))
}

/// When the client of a flow opens connections, and what for.
pub struct Launcher {
    clients: Clients,
    next: Option<Instant>,
}

impl Launcher {
    /// For the client of a flow that starts at `start`.
    pub fn new(traffic: &dyn TrafficKind, streams: &Streams, start: Instant) -> Self {
        Launcher { clients: traffic.clients(streams), next: Some(start) }
    }

    /// When the next connection is to be opened; `None` if there is none to come.
    pub fn next(&self) -> Option<Instant> {
        self.next
    }

    /// What the connection opened now is for.
    pub fn start(&mut self, now: Instant) -> Box<dyn App> {
        let (app, next) = (self.clients)(now);
        self.next = next;
        app
    }
}

/// Both ends of a flow, after it.
#[derive(Copy, Clone, Debug)]
pub struct Ends<'a> {
    /// What client and server have counted.
    pub meters: [&'a Meter; 2],
    /// When the client sent its first datagram.
    pub start: Instant,
    /// When the run ended.
    pub now: Instant,
    /// When it would have ended at the latest.
    pub limit: Instant,
    /// The measuring window, if there is one.
    pub window: Option<(Instant, Instant)>,
}

impl<'a> Ends<'a> {
    /// What the sender and the receiver of the data that matters have counted.
    pub(crate) fn sender_and_receiver(&self, sends_up: bool) -> [&'a Meter; 2] {
        let [client, server] = self.meters;
        if sends_up { [client, server] } else { [server, client] }
    }
}

/// What became of frames.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// All of them.
    pub frames: Frames,
    /// By track.
    pub tracks: Vec<TrackResult>,
    /// Why traffic that ran to its end does not count as complete, if so.
    pub cut_off: Option<String>,
}
