//! Packets across several links: chains of hops, which may share links, run in the order of time.
//!
//! A [`Pipe`] owns links and knows the ways across them. A packet that reaches the end of one link of its way is given
//! to the next at that very time, however late its caller looks: what a simulator, a relay and an emulator in real time
//! have in common.

use core::fmt;
use std::collections::VecDeque;

use thalweg_units::{Duration, Instant};

use crate::{Agenda, ConfigError, Direction, DirectionConfig, DropCause, Packet, PathConfig, Payload, Sink, Streams};

/// A way across the links of a [`Pipe`].
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Way(u32);

/// What a packet carries on the links of a [`Pipe`]: its content, and where on its way it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carried<P> {
    /// The content.
    pub payload: P,
    way: Way,
    /// Links that it has been given to.
    hops: u32,
}

impl<P: Payload> Payload for Carried<P> {
    fn corrupt(&mut self, dice: u64) {
        self.payload.corrupt(dice);
    }
}

/// The receiver of the events of a [`Pipe`]'s links. Links have numbers in the order in which they were added; times
/// are those at which things happened.
pub trait Watcher<P> {
    /// `packet` has come to the end of its way.
    fn deliver(&mut self, at: Instant, packet: Packet<P>);

    /// `packet` has crossed this link; it goes on to the next one, or has come to the end of its way.
    fn crossed(&mut self, at: Instant, link: usize, packet: &Packet<Carried<P>>) {
        let _ = (at, link, packet);
    }

    /// This link has lost `packet`.
    fn dropped(&mut self, at: Instant, link: usize, packet: Packet<Carried<P>>, cause: DropCause) {
        let _ = (at, link, packet, cause);
    }

    /// The last bit of `packet` left the queue of this link; it had come to the queue at `queued`.
    fn departed(&mut self, at: Instant, link: usize, packet: &Packet<Carried<P>>, queued: Instant) {
        let _ = (at, link, packet, queued);
    }

    /// This link has done what it had to do for the moment: all its events have been reported.
    fn worked(&mut self, link: usize, direction: &Direction<Carried<P>>) {
        let _ = (link, direction);
    }
}

/// Collects what is delivered.
impl<P> Watcher<P> for Vec<(Instant, Packet<P>)> {
    fn deliver(&mut self, at: Instant, packet: Packet<P>) {
        self.push((at, packet));
    }
}

/// Links, and ways across them: one after the other, as a chain of hops has them. Several ways may share links, such as
/// a bottleneck behind different access links.
///
/// Give it packets with [`send`](Self::send), ask when it wants to be called with [`next_event`](Self::next_event), and
/// call [`advance`](Self::advance) then. Times must not go back. If it is called late, what happened meanwhile happens
/// at its own times, so that a packet is never late for its next link.
///
/// ```
/// use thalweg_link::{DirectionConfig, Packet, PathConfig, Pipe, RateModel, Streams};
/// use thalweg_units::{Duration, Ecn, Instant};
///
/// // Two hops of 10 ms; 1500 bytes take a millisecond on the first and two on the second.
/// let hop = |name: &str, rate: &str| -> Result<PathConfig, thalweg_units::ParseError> {
///     let direction = DirectionConfig {
///         rate: RateModel::Constant(rate.parse()?),
///         delay: Duration::from_millis(10).into(),
///         ..DirectionConfig::default()
///     };
///     Ok(PathConfig::new(name, direction.clone(), direction))
/// };
/// let hops = [hop("home", "12 Mbps")?, hop("access", "6 Mbps")?];
/// let (start, minute) = (Instant::ZERO, Duration::from_secs(60));
/// let mut pipe: Pipe<u64> = Pipe::chain(&hops, start, &Streams::new(1), minute)?;
/// let mut arrived = Vec::new();
/// for payload in 0..3 {
///     let packet =
///         Packet { payload, size: 1500, flow: 0, connection: 0, ecn: Ecn::NotEct, sent: start, tail: false };
///     pipe.send(start, Pipe::<u64>::UP, packet, &mut arrived);
/// }
/// pipe.advance(start + minute, &mut arrived);
/// let times: Vec<u64> = arrived.iter().map(|(at, _)| at.as_nanos() / 1_000_000).collect();
/// assert_eq!(times, [23, 25, 27]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Pipe<P> {
    links: Vec<Direction<Carried<P>>>,
    /// The links of each way.
    ways: Vec<Vec<usize>>,
    /// The next event of each link.
    agenda: Agenda,
    /// For how many links the agenda has room.
    scheduled: usize,
    /// What the link at work has delivered.
    crossed: VecDeque<(Instant, Packet<Carried<P>>)>,
}

impl<P> fmt::Debug for Pipe<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipe").field("links", &self.links.len()).field("ways", &self.ways).finish_non_exhaustive()
    }
}

impl<P> Default for Pipe<P> {
    fn default() -> Self {
        Pipe { links: Vec::new(), ways: Vec::new(), agenda: Agenda::default(), scheduled: 0, crossed: VecDeque::new() }
    }
}

impl<P> Pipe<P> {
    /// The way from client to server in a [`chain`](Self::chain).
    pub const UP: Way = Way(0);
    /// The way from server to client in a [`chain`](Self::chain).
    pub const DOWN: Way = Way(1);
}

impl<P: Payload + 'static> Pipe<P> {
    /// A pipe over these paths, one after the other from client to server, whose times count from `start`: its ways are
    /// [`UP`](Self::UP) and [`DOWN`](Self::DOWN). What a seed decides is drawn from `streams` by the names of the
    /// paths, ahead up to `horizon` after the start, so that their names have to differ. A BDP is that of the round
    /// trip over all of them where a direction has none yet.
    ///
    /// # Errors
    /// What [`PathConfig::resolve`] and [`Direction::new`] find.
    pub fn chain(
        paths: &[PathConfig],
        start: Instant,
        streams: &Streams,
        horizon: Duration,
    ) -> Result<Self, ConfigError> {
        let mut pipe = Pipe::default();
        let round_trip: Duration = paths.iter().map(PathConfig::round_trip).sum();
        let (mut up, mut down) = (Vec::new(), Vec::new());
        for path in paths {
            let mut path = path.clone();
            for config in [&mut path.up, &mut path.down] {
                if config.round_trip.is_zero() {
                    config.round_trip = round_trip;
                }
            }
            let streams = streams.scope("path").scope(&path.name);
            let drawn = path.resolve(&streams, horizon)?;
            up.push(pipe.add_link(&drawn.up, start, &streams.scope("up"))?);
            down.insert(0, pipe.add_link(&drawn.down, start, &streams.scope("down"))?);
        }
        pipe.add_way(up);
        pipe.add_way(down);
        Ok(pipe)
    }

    /// Adds a link, of which nothing is left to be drawn; returns its number.
    ///
    /// # Errors
    /// What [`Direction::new`] finds.
    pub fn add_link(
        &mut self,
        config: &DirectionConfig,
        start: Instant,
        streams: &Streams,
    ) -> Result<usize, ConfigError> {
        let added = self.links.len();
        self.links.push(Direction::new(config, start, streams)?);
        let mut unscheduled = added..added + 1;
        if added >= self.scheduled {
            // Twice as many each time: a world of ten thousand links is not gone through for each of them.
            self.scheduled = 2 * (added + 1);
            self.agenda = Agenda::new(self.scheduled);
            unscheduled.start = 0;
        }
        for link in unscheduled {
            if let Some(at) = self.links[link].next_event() {
                self.agenda.set(link, at);
            }
        }
        Ok(added)
    }

    /// Adds a way over links by number, in this order; numbers that are not there are left out.
    pub fn add_way(&mut self, mut links: Vec<usize>) -> Way {
        links.retain(|link| *link < self.links.len());
        self.ways.push(links);
        Way(self.ways.len() as u32 - 1)
    }

    /// The links of a way; none if this pipe has no way of that number. Ways of other pipes must not be used here.
    #[inline]
    pub fn way(&self, way: Way) -> &[usize] {
        self.ways.get(way.0 as usize).map_or(&[], Vec::as_slice)
    }

    /// The links in the order of their numbers.
    pub fn links(&self) -> &[Direction<Carried<P>>] {
        &self.links
    }

    /// Sends a packet on its way, after everything that happens before `now`. A packet on a way without links is
    /// delivered at once.
    pub fn send(&mut self, now: Instant, way: Way, packet: Packet<P>, watcher: &mut impl Watcher<P>) {
        while self.agenda.first().is_some_and(|(at, _)| at < now) {
            self.step(watcher);
        }
        self.pass(now, with_payload(packet, |payload| Carried { payload, way, hops: 0 }), watcher);
    }

    /// When something happens next, none if nothing does; never later than the next delivery.
    pub fn next_event(&self) -> Option<Instant> {
        self.agenda.first().map(|(at, _)| at)
    }

    /// Does everything that happens up to and including `now`.
    pub fn advance(&mut self, now: Instant, watcher: &mut impl Watcher<P>) {
        while self.agenda.first().is_some_and(|(at, _)| at <= now) {
            self.step(watcher);
        }
    }

    /// Does what one link has to do next, at the time of [`next_event`](Self::next_event); of several that have
    /// something to do then, the one with the lowest number.
    pub fn step(&mut self, watcher: &mut impl Watcher<P>) {
        let Some((at, link)) = self.agenda.first() else { return };
        self.links[link].advance(at, &mut Listener { link, crossed: &mut self.crossed, watcher });
        self.worked(link, watcher);
        while let Some((at, packet)) = self.crossed.pop_front() {
            self.pass(at, packet, watcher);
        }
    }

    /// Gives a packet to the link that comes next, or to the watcher at the end of its way.
    fn pass(&mut self, at: Instant, mut packet: Packet<Carried<P>>, watcher: &mut impl Watcher<P>) {
        let Carried { way, hops, .. } = packet.payload;
        let Some(link) = self.way(way).get(hops as usize).copied() else {
            return watcher.deliver(at, with_payload(packet, |carried| carried.payload));
        };
        packet.payload.hops += 1;
        self.links[link].send(at, packet, &mut Listener { link, crossed: &mut self.crossed, watcher });
        self.worked(link, watcher);
    }

    /// A link has been called: its next event may have changed.
    #[inline]
    fn worked(&mut self, link: usize, watcher: &mut impl Watcher<P>) {
        watcher.worked(link, &self.links[link]);
        let next = self.links[link].next_event().unwrap_or(Instant::FAR_FUTURE);
        if next != self.agenda.at(link) {
            self.agenda.set(link, next);
        }
    }
}

/// The same packet with another payload.
#[inline]
fn with_payload<P, Q>(packet: Packet<P>, change: impl FnOnce(P) -> Q) -> Packet<Q> {
    let Packet { payload, size, flow, connection, ecn, sent, tail } = packet;
    Packet { payload: change(payload), size, flow, connection, ecn, sent, tail }
}

/// Receives the events of one link.
struct Listener<'a, P, W> {
    link: usize,
    crossed: &'a mut VecDeque<(Instant, Packet<Carried<P>>)>,
    watcher: &'a mut W,
}

impl<P, W: Watcher<P>> Sink<Carried<P>> for Listener<'_, P, W> {
    fn deliver(&mut self, at: Instant, packet: Packet<Carried<P>>) {
        self.watcher.crossed(at, self.link, &packet);
        self.crossed.push_back((at, packet));
    }

    fn dropped(&mut self, at: Instant, packet: Packet<Carried<P>>, cause: DropCause) {
        self.watcher.dropped(at, self.link, packet, cause);
    }

    fn departed(&mut self, at: Instant, packet: &Packet<Carried<P>>, queued: Instant) {
        self.watcher.departed(at, self.link, packet, queued);
    }
}

#[cfg(test)]
mod tests {
    use thalweg_units::{Ecn, Rate};

    use super::*;
    use crate::{LossModel, QueueLimit, RateModel};

    const MS: Duration = Duration::from_millis(1);

    fn packet(payload: u64, flow: u32) -> Packet<u64> {
        let (ecn, sent) = (Ecn::NotEct, Instant::ZERO);
        Packet { payload, size: 1500, flow, connection: 0, ecn, sent, tail: false }
    }

    /// 1500 bytes take so many milliseconds on it, and ten to cross it.
    fn direction(millis: u64) -> DirectionConfig {
        let rate = RateModel::Constant(Rate::from_bps(12_000_000 / millis));
        DirectionConfig { rate, delay: (10 * MS).into(), ..DirectionConfig::default() }
    }

    fn times(arrived: &[(Instant, Packet<u64>)]) -> Vec<(u64, u64)> {
        arrived.iter().map(|(at, packet)| (packet.payload, at.as_nanos() / 1_000_000)).collect()
    }

    #[test]
    fn a_caller_who_looks_late_sees_what_one_sees_who_looks_in_time() {
        let hops = [1, 3, 2].map(|millis| PathConfig::new(&millis.to_string(), direction(millis), direction(millis)));
        let run = |step: Duration| {
            let mut pipe: Pipe<u64> = Pipe::chain(&hops, Instant::ZERO, &Streams::new(1), 1000 * MS).unwrap();
            let (mut arrived, mut now) = (Vec::new(), Instant::ZERO);
            for number in 0..8 {
                let at = Instant::ZERO + 7 * MS * (number / 2) as u32;
                while now + step <= at {
                    now += step;
                    pipe.advance(now, &mut arrived);
                }
                pipe.send(at, [Pipe::<u64>::UP, Pipe::<u64>::DOWN][number % 2], packet(number as u64, 0), &mut arrived);
            }
            pipe.advance(Instant::ZERO + 1000 * MS, &mut arrived);
            assert_eq!(pipe.next_event(), None);
            assert!(pipe.links().iter().all(Direction::is_empty));
            arrived.sort_by_key(|(at, packet)| (*at, packet.payload));
            times(&arrived)
        };
        let expected = [(0, 36), (1, 36), (2, 43), (3, 43), (4, 50), (5, 50), (6, 57), (7, 57)];
        for step in [MS / 3, MS, 20 * MS, 900 * MS] {
            assert_eq!(run(step), expected, "{step:?}");
        }
    }

    #[test]
    fn ways_share_a_link_and_its_queue() {
        let mut pipe: Pipe<u64> = Pipe::default();
        let streams = Streams::new(1);
        let mut add = |config: DirectionConfig| pipe.add_link(&config, Instant::ZERO, &streams).unwrap();
        let (one, other) = (add(direction(1)), add(direction(1)));
        let shared = add(DirectionConfig { queue: QueueLimit::Packets(1), ..direction(6) });
        let ways = [one, other].map(|access| pipe.add_way(vec![access, shared, 99]));
        assert_eq!((pipe.way(ways[1]), pipe.way(Way(7))), (&[other, shared][..], &[][..]));
        let mut arrived = Vec::new();
        for (number, way) in ways.into_iter().chain(ways).enumerate() {
            pipe.send(Instant::ZERO, way, packet(number as u64, 0), &mut arrived);
        }
        pipe.advance(Instant::ZERO + 1000 * MS, &mut arrived);
        // At 11 ms the first is being sent and the second waits, at 12 ms there is no room.
        assert_eq!(times(&arrived), [(0, 27), (1, 33)]);
        assert_eq!(pipe.links()[shared].stats().dropped_by(DropCause::QueueFull), 2);
    }

    /// Writes down the events that it receives.
    #[derive(Default)]
    struct Log(Vec<String>);

    impl Watcher<u64> for Log {
        fn deliver(&mut self, at: Instant, packet: Packet<u64>) {
            self.0.push(format!("{} delivered at {}", packet.payload, at.as_nanos() / 1_000_000));
        }

        fn crossed(&mut self, at: Instant, link: usize, packet: &Packet<Carried<u64>>) {
            self.0.push(format!("{} crossed {link} at {}", packet.payload.payload, at.as_nanos() / 1_000_000));
        }

        fn dropped(&mut self, _: Instant, link: usize, packet: Packet<Carried<u64>>, cause: DropCause) {
            self.0.push(format!("{} lost on {link}: {}", packet.payload.payload, cause.name()));
        }

        fn departed(&mut self, at: Instant, link: usize, packet: &Packet<Carried<u64>>, _: Instant) {
            self.0.push(format!("{} left {link} at {}", packet.payload.payload, at.as_nanos() / 1_000_000));
        }
    }

    #[test]
    fn a_watcher_hears_of_every_link() {
        let mut pipe: Pipe<u64> = Pipe::default();
        let loss = vec![LossModel::List(vec![1])];
        let links = [direction(1), DirectionConfig { loss, ..direction(1) }]
            .map(|config| pipe.add_link(&config, Instant::ZERO, &Streams::new(1)).unwrap());
        let way = pipe.add_way(links.to_vec());
        let mut log = Log::default();
        for number in [5, 6] {
            pipe.send(Instant::ZERO, way, packet(number, 0), &mut log);
        }
        pipe.advance(Instant::ZERO + 1000 * MS, &mut log);
        let expected = [
            "5 left 0 at 1",
            "6 left 0 at 2",
            "5 crossed 0 at 11",
            "6 crossed 0 at 12",
            "5 left 1 at 12",
            "6 left 1 at 13",
            "6 lost on 1: loss",
            "5 crossed 1 at 22",
            "5 delivered at 22",
        ];
        let mut heard = log.0;
        heard.sort();
        let mut expected = expected.map(str::to_owned);
        expected.sort();
        assert_eq!(heard, expected);
        // A way without links leads nowhere else.
        let mut arrived = Vec::new();
        let empty = pipe.add_way(Vec::new());
        pipe.send(Instant::ZERO + 2000 * MS, empty, packet(9, 0), &mut arrived);
        assert_eq!(times(&arrived), [(9, 2000)]);
    }
}
