//! Carries packets over the links of a path on whatever clock its caller has.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use thalweg_link::{
    Carried, ConfigError, Direction, DirectionStats, DropCause, Packet, PathConfig, Payload, Pipe, Schedule, Streams,
    Watcher, Way,
};
use thalweg_units::{Duration, Ecn, Instant};

use crate::lateness::Lateness;
use crate::series::Series;

/// The two ways across a path.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Toward {
    /// From the client to the server.
    Server,
    /// From the server to the client.
    Client,
}

impl Toward {
    /// Both, in the order of [`index`](Self::index).
    pub const BOTH: [Toward; 2] = [Toward::Server, Toward::Client];

    /// Position in [`BOTH`](Self::BOTH), for tables with one entry per way.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// "up" or "down", as scenarios call them.
    pub const fn name(self) -> &'static str {
        match self {
            Toward::Server => "up",
            Toward::Client => "down",
        }
    }

    /// The other way.
    #[must_use]
    pub const fn back(self) -> Toward {
        match self {
            Toward::Server => Toward::Client,
            Toward::Client => Toward::Server,
        }
    }
}

/// How much an engine holds at most. What comes in excess is refused and counted in [`Totals::refused`].
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Room {
    /// Packets of both directions.
    pub packets: u64,
    /// Bytes of both directions.
    pub bytes: u64,
}

impl Default for Room {
    /// 2¹⁸ packets and 256 MB: a second at 1 Gbps and a queue of the same length.
    fn default() -> Self {
        Room { packets: 1 << 18, bytes: 256_000_000 }
    }
}

/// What an engine is told of a packet that comes to the path.
#[derive(Copy, Clone, Debug)]
pub struct Arrival {
    /// Which way it goes.
    pub toward: Toward,
    /// When it came. A time before the engine's own is moved up to that, and counts as lateness.
    pub at: Instant,
    /// How long it may have waited before `at`. It counts as lateness.
    pub waited: Duration,
    /// Whose packet it is: a number for each flow, in the order in which flows appear. Flow `k` of the lab draws the
    /// same chances.
    pub flow: u32,
    /// The ECN field.
    pub ecn: Ecn,
    /// Bytes on the wire, IP header included.
    pub size: u32,
    /// The first of its bytes that may be damaged: headers that carry it to its receiver are spared.
    pub damage_from: usize,
}

/// A packet that is due at the far end.
#[derive(Debug)]
pub struct Departure<'a> {
    /// Which way it went.
    pub toward: Toward,
    /// When it should be handed over.
    pub due: Instant,
    /// Whose packet it is.
    pub flow: u32,
    /// The ECN field that it has now.
    pub ecn: Ecn,
    /// Its bytes, damaged if that was its fate.
    pub bytes: &'a mut [u8],
}

/// A packet that did not cross the path.
#[derive(Debug)]
pub struct Drop<'a> {
    /// Which way it went.
    pub toward: Toward,
    /// When it was dropped, on the clock of the links.
    pub at: Instant,
    /// Why.
    pub cause: DropCause,
    /// The number of the link that dropped it: hops in the order of the path, each with up and down.
    pub link: usize,
    /// The MTU of that link at that time, if the packet was too big.
    pub mtu: Option<u32>,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// Hands packets over, or refuses them.
pub trait Port {
    /// Hands a packet over to where it goes. Returns when that was done; `None` if it could not be taken.
    fn hand_over(&mut self, departure: Departure<'_>) -> Option<Instant>;

    /// Hears of a packet that was dropped.
    fn dropped(&mut self, dropped: Drop<'_>) {
        let _ = dropped;
    }
}

/// What an engine has done in one direction.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Totals {
    /// Packets that came to the path, refused ones included.
    pub arrived: u64,
    /// Their bytes on the wire.
    pub arrived_bytes: u64,
    /// Packets that were handed over.
    pub handed_over: u64,
    /// Their bytes on the wire.
    pub handed_over_bytes: u64,
    /// When the first was handed over, and the last.
    pub between: Option<(Instant, Instant)>,
    /// Most bytes on the wire that were handed over in a second, counted in whole seconds of the clock.
    pub best_second: u64,
    /// Packets for which there was no room: see [`Room`].
    pub refused: u64,
    /// Packets that their receiver could not take.
    pub stuck: u64,
    /// Packets that the path dropped, by [`DropCause::index`].
    pub dropped: [u64; DropCause::ALL.len()],
    /// Packets that arrived twice.
    pub duplicated: u64,
    /// Packets that were damaged.
    pub damaged: u64,
    /// Packets delivered after one that had been sent later on the last link.
    pub reordered: u64,
    /// Packets that left a queue marked CE, those that came so included.
    pub marked: u64,
    /// How late packets were handed over.
    pub lateness: Lateness,
}

impl Totals {
    /// `current` is the second of the clock that is being counted, and its bytes.
    fn hand_over(&mut self, at: Instant, size: u32, current: &mut (u64, u64)) {
        self.handed_over += 1;
        self.handed_over_bytes += u64::from(size);
        self.between = Some((self.between.map_or(at, |(first, _)| first), at));
        let second = at.as_nanos() / 1_000_000_000;
        if second != current.0 {
            *current = (second, 0);
        }
        current.1 += u64::from(size);
        self.best_second = self.best_second.max(current.1);
    }

    /// Packets that the path dropped for any reason.
    pub fn dropped_total(&self) -> u64 {
        self.dropped.iter().sum()
    }
}

/// The most important counts of one direction: see [`Totals`].
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Packets that were handed over.
    pub handed_over: u64,
    /// Their bytes on the wire.
    pub handed_over_bytes: u64,
    /// Packets for which there was no room.
    pub refused: u64,
    /// Packets that their receiver could not take.
    pub stuck: u64,
    /// Packets that the path dropped for any reason.
    pub dropped: u64,
    /// Packets delivered after one that had been sent later on the last link.
    pub reordered: u64,
}

/// What is on the way, both directions together. Duplicates are made inside of links, so that the content counts.
#[derive(Debug, Default)]
struct Held {
    packets: AtomicU64,
    bytes: AtomicU64,
}

/// The content of a packet on the way.
#[derive(Debug)]
struct Content {
    bytes: Vec<u8>,
    damage_from: usize,
    toward: Toward,
    waited: Duration,
    held: Arc<Held>,
}

impl Content {
    fn enter(&self) {
        self.held.packets.fetch_add(1, Ordering::Relaxed);
        self.held.bytes.fetch_add(self.bytes.len() as u64, Ordering::Relaxed);
    }

    fn leave(&self) {
        self.held.packets.fetch_sub(1, Ordering::Relaxed);
        self.held.bytes.fetch_sub(self.bytes.len() as u64, Ordering::Relaxed);
    }
}

impl Clone for Content {
    fn clone(&self) -> Self {
        let Content { bytes, damage_from, toward, waited, held } = self;
        let twin = Content {
            bytes: bytes.clone(),
            damage_from: *damage_from,
            toward: *toward,
            waited: *waited,
            held: held.clone(),
        };
        twin.enter();
        twin
    }
}

impl Payload for Box<Content> {
    /// One bit flips.
    fn corrupt(&mut self, dice: u64) {
        let from = self.damage_from.min(self.bytes.len());
        let bits = (self.bytes.len() - from) as u64 * 8;
        if let Some(bit) = dice.checked_rem(bits)
            && let Some(byte) = self.bytes.get_mut(from + (bit / 8) as usize)
        {
            *byte ^= 1 << (bit % 8);
        }
    }
}

/// Bytes of buffers that wait for their next packet.
const MOST_POOLED: usize = 64 << 20;

/// Buffers that are used again.
#[derive(Debug, Default)]
struct Pool {
    #[expect(clippy::vec_box, reason = "packets carry the boxes, so that little is copied from queue to queue")]
    free: Vec<Box<Content>>,
    bytes: usize,
}

impl Pool {
    fn put(&mut self, content: Box<Content>) {
        content.leave();
        if self.bytes + content.bytes.capacity() <= MOST_POOLED {
            self.bytes += content.bytes.capacity();
            self.free.push(content);
        }
    }

    fn take(&mut self, held: &Arc<Held>, arrival: &Arrival, bytes: &[u8]) -> Box<Content> {
        let &Arrival { damage_from, toward, waited, .. } = arrival;
        let content = match self.free.pop() {
            Some(mut content) => {
                self.bytes -= content.bytes.capacity();
                content.bytes.clear();
                content.bytes.extend_from_slice(bytes);
                (content.damage_from, content.toward, content.waited) = (damage_from, toward, waited);
                content
            }
            None => Box::new(Content { bytes: bytes.to_vec(), damage_from, toward, waited, held: held.clone() }),
        };
        content.enter();
        content
    }
}

/// Packets and their ends, as the links report them.
enum Event {
    Delivered(Packet<Box<Content>>),
    Dropped(Packet<Box<Content>>, usize, DropCause),
}

/// Collects what the links report.
struct Reports {
    events: VecDeque<(Instant, Event)>,
    start: Instant,
    series: [Series; 2],
}

impl Reports {
    fn new(start: Instant) -> Self {
        Reports { events: VecDeque::new(), start, series: Default::default() }
    }
}

impl Watcher<Box<Content>> for Reports {
    fn deliver(&mut self, at: Instant, packet: Packet<Box<Content>>) {
        self.events.push_back((at, Event::Delivered(packet)));
    }

    fn dropped(&mut self, at: Instant, link: usize, packet: Packet<Carried<Box<Content>>>, cause: DropCause) {
        let Packet { payload, size, flow, connection, ecn, sent, tail } = packet;
        self.series[payload.payload.toward.index()].drop(at.saturating_since(self.start));
        let packet = Packet { payload: payload.payload, size, flow, connection, ecn, sent, tail };
        self.events.push_back((at, Event::Dropped(packet, link, cause)));
    }

    fn departed(&mut self, at: Instant, _: usize, packet: &Packet<Carried<Box<Content>>>, queued: Instant) {
        let series = &mut self.series[packet.payload.payload.toward.index()];
        series.depart(at.saturating_since(self.start), queued, at);
    }
}

/// Carries packets over a path of one or more hops, in both directions, on the clock of its caller.
///
/// Tell it of every packet with [`arrive`](Self::arrive), call [`run`](Self::run) when the time of
/// [`next_due`](Self::next_due) has come, and it hands over what is due. The links are those of the lab: the same seed
/// and the same arrivals give the same departures to the nanosecond, however late the caller looks. What the caller's
/// lateness adds is counted. No memory is allocated per packet once the buffers have grown, and what it holds is
/// bounded.
///
/// ```
/// use thalweg_emulate::{Arrival, Departure, Engine, Port, Toward};
/// use thalweg_link::trace::Synthetic;
/// use thalweg_link::Paths;
/// use thalweg_units::{Duration, Ecn, Instant};
///
/// struct Print;
/// impl Port for Print {
///     fn hand_over(&mut self, departure: Departure<'_>) -> Option<Instant> {
///         println!("{:?} is due at {:?}", departure.bytes, departure.due);
///         Some(departure.due)
///     }
/// }
///
/// let paths = Paths::parse("p.toml", "[path.p]\npreset = \"satellite\"", &Synthetic)?;
/// let hops = paths.hops("p").ok_or("no such path")?;
/// let start = Instant::from_nanos(1_000_000_000);
/// let mut engine = Engine::new(&hops, 1, start)?;
/// let arrival = Arrival {
///     toward: Toward::Server,
///     at: start,
///     waited: Duration::ZERO,
///     flow: 0,
///     ecn: Ecn::NotEct,
///     size: 1500,
///     damage_from: 0,
/// };
/// engine.arrive(arrival, b"hello");
/// // 1500 bytes take 4 ms at 3 Mbps, and 300 ms to the satellite and back.
/// assert_eq!(engine.next_due(), Some(start + Duration::from_millis(304)));
/// engine.run(start + Duration::from_millis(305), &mut Print);
/// assert_eq!(engine.totals(Toward::Server).handed_over, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Engine {
    pipe: Pipe<Box<Content>>,
    pool: Pool,
    held: Arc<Held>,
    room: Room,
    reports: Reports,
    now: Instant,
    totals: [Totals; 2],
    /// The second of the clock that is being counted, and its bytes.
    seconds: [(u64, u64); 2],
    horizon: Duration,
    start: Instant,
    /// By link.
    mtus: Vec<Option<Schedule<u32>>>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("pipe", &self.pipe).field("now", &self.now).finish_non_exhaustive()
    }
}

/// How far ahead outages, suspensions and traces are drawn, the longest that the path allows first. They are the same
/// up to the shorter one.
const HORIZONS: [Duration; 3] = [Duration::from_secs(3600), Duration::from_secs(600), Duration::from_secs(60)];

impl Engine {
    /// An engine for a path of these hops, from client to server, whose time begins at `start`.
    ///
    /// # Errors
    /// When a hop cannot work as described.
    pub fn new(hops: &[PathConfig], seed: u64, start: Instant) -> Result<Engine, ConfigError> {
        let mut built = Err(ConfigError::Unresolved);
        let mut horizon = Duration::ZERO;
        for ahead in HORIZONS {
            horizon = ahead;
            built = Pipe::chain(hops, start, &Streams::new(seed), ahead);
            if !matches!(built, Err(ConfigError::TooManyWindows { .. })) {
                break;
            }
        }
        Ok(Engine {
            pipe: built?,
            pool: Pool::default(),
            held: Arc::default(),
            room: Room::default(),
            reports: Reports::new(start),
            now: start,
            totals: Default::default(),
            seconds: [(0, 0); 2],
            horizon,
            start,
            mtus: hops.iter().flat_map(|hop| [hop.up.mtu.clone(), hop.down.mtu.clone()]).collect(),
        })
    }

    /// Bounds what it holds.
    pub fn set_room(&mut self, room: Room) {
        self.room = room;
    }

    /// The largest packet that passes all links of one direction now; `None` if any does.
    pub fn mtu(&self, toward: Toward) -> Option<u32> {
        let links = self.pipe.way(way(toward)).iter().filter_map(|link| self.mtus.get(*link)?.as_ref());
        links.map(|mtus| mtus.at(self.now.saturating_since(self.start)).0).min()
    }

    /// How long after the start outages and suspensions that a seed draws are known; afterwards there are none.
    pub fn horizon(&self) -> Duration {
        self.horizon
    }

    /// A packet has come to the path. False if there was no room for it. Its bytes are copied.
    pub fn arrive(&mut self, arrival: Arrival, bytes: &[u8]) -> bool {
        let totals = &mut self.totals[arrival.toward.index()];
        totals.arrived += 1;
        totals.arrived_bytes += u64::from(arrival.size);
        let held = self.held.bytes.load(Ordering::Relaxed).saturating_add(bytes.len() as u64);
        if self.held.packets.load(Ordering::Relaxed) >= self.room.packets || held > self.room.bytes {
            totals.refused += 1;
            return false;
        }
        let at = arrival.at.max(self.now);
        let waited = arrival.waited + at.saturating_since(arrival.at);
        self.now = at;
        let payload = self.pool.take(&self.held, &Arrival { waited, ..arrival }, bytes);
        let Arrival { flow, ecn, size, .. } = arrival;
        let packet = Packet { payload, size, flow, connection: 0, ecn, sent: at, tail: false };
        self.pipe.send(at, way(arrival.toward), packet, &mut self.reports);
        true
    }

    /// When [`run`](Self::run) has something to do; never later than the next departure.
    pub fn next_due(&self) -> Option<Instant> {
        let reported = self.reports.events.front().map(|(at, _)| *at);
        reported.into_iter().chain(self.pipe.next_event()).min()
    }

    /// Hands over everything that is due up to and including `now`, in the order of the times at which it is due.
    pub fn run(&mut self, now: Instant, port: &mut impl Port) {
        self.now = self.now.max(now);
        self.pipe.advance(self.now, &mut self.reports);
        while let Some((at, event)) = self.reports.events.pop_front() {
            match event {
                Event::Delivered(packet) => {
                    let Packet { payload: mut content, size, flow, ecn, .. } = packet;
                    let toward = content.toward;
                    let totals = &mut self.totals[toward.index()];
                    let departure = Departure { toward, due: at, flow, ecn, bytes: &mut content.bytes };
                    match port.hand_over(departure) {
                        Some(done) => {
                            totals.hand_over(done, size, &mut self.seconds[toward.index()]);
                            let since = done.saturating_since(self.start);
                            self.reports.series[toward.index()].hand_over(since, size);
                            totals.lateness.record(done.saturating_since(at) + content.waited);
                        }
                        None => totals.stuck += 1,
                    }
                    self.pool.put(content);
                }
                Event::Dropped(packet, link, cause) => {
                    let content = packet.payload;
                    let mtus = self.mtus.get(link).filter(|_| cause == DropCause::TooBig);
                    let mtu = mtus.and_then(Option::as_ref).map(|mtus| mtus.at(at.saturating_since(self.start)).0);
                    port.dropped(Drop { toward: content.toward, at, cause, link, mtu, bytes: &content.bytes });
                    self.pool.put(content);
                }
            }
        }
    }

    /// The time up to which it has worked.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Packets on the way, both directions together.
    pub fn held(&self) -> u64 {
        self.held.packets.load(Ordering::Relaxed)
    }

    /// The most important counts of one direction, cheaply.
    pub fn counts(&self, toward: Toward) -> Counts {
        let totals = &self.totals[toward.index()];
        let mut counts = Counts {
            handed_over: totals.handed_over,
            handed_over_bytes: totals.handed_over_bytes,
            refused: totals.refused,
            stuck: totals.stuck,
            ..Counts::default()
        };
        for stats in self.links(toward) {
            counts.dropped += stats.dropped_total();
            counts.reordered = stats.reordered;
        }
        counts
    }

    /// What the links of one direction count, in the order in which packets cross them.
    fn links(&self, toward: Toward) -> impl Iterator<Item = &DirectionStats> {
        let links = self.pipe.way(way(toward)).iter().filter_map(|link| self.pipe.links().get(*link));
        links.map(Direction::stats)
    }

    /// What has crossed it so far in one direction, over time.
    pub fn series(&self, toward: Toward) -> &Series {
        &self.reports.series[toward.index()]
    }

    /// What it has done so far in one direction.
    pub fn totals(&self, toward: Toward) -> Totals {
        let mut totals = self.totals[toward.index()].clone();
        for stats in self.links(toward) {
            for (sum, dropped) in totals.dropped.iter_mut().zip(stats.dropped) {
                *sum += dropped;
            }
            totals.duplicated += stats.duplicated;
            totals.damaged += stats.corrupted;
            totals.marked += stats.marked;
            totals.reordered = stats.reordered;
        }
        totals
    }
}

const fn way(toward: Toward) -> Way {
    match toward {
        Toward::Server => Pipe::<Box<Content>>::UP,
        Toward::Client => Pipe::<Box<Content>>::DOWN,
    }
}
