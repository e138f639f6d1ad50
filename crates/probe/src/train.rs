//! Trains: datagrams that leave at once, and by their distance on arrival show the rate of the bottleneck.
//!
//! The client sends a train a second; the server answers each with one of as many datagrams as came, so that it sends
//! no more than it received, and says how far apart those of the client came. What arrives of a train has left the
//! bottleneck one after the other, at its rate (Dovrolis, Ramanathan and Moore, "What do packet dispersion techniques
//! measure?", 2001). Traffic of others in between makes the distance longer; a link behind the bottleneck that releases
//! datagrams in bunches makes it shorter.
//!
//! A train also shows what happens to datagrams that are close together, as those of a transfer are and those of the
//! measurement's streams are not: which of them are overtaken, and how often one is lost right after another.

use std::collections::VecDeque;

use thalweg_units::{Duration, DurationExt, Instant, Rate};

use crate::trace::Way;
use crate::wire::{Cookie, DOWN_SIZE, TRAIN_SIZE, TrainDown, TrainUp, UP_SIZE};

/// Datagrams of a train at most, and at least. The first has the least, until it is known how long a train takes.
pub(crate) const TRAIN: u8 = 16;
const SHORTEST: u8 = 2;
/// From one train to the next, at least.
const EVERY: Duration = Duration::from_secs(1);
/// A train is so long that it takes this time, about: less than the interval of the streams, which are not to wait for
/// it.
const TAKES: Duration = Duration::from_millis(12);
/// What waits less than this for a train, in nanoseconds, counts all the same.
const SHORT: u64 = 2_000_000;
/// Answers are taken to this many trains: those of three round trips in space.
const KEPT: usize = 16;
/// At most so much of the time is spent on trains.
const SHARE: u32 = 20;
/// A server takes trains that are so far apart, or farther.
const LEAST: Duration = Duration::from_millis(900);
/// How long after its first datagram a train is waited for.
const PATIENCE: Duration = Duration::from_millis(300);
/// Trains of a client, at most: an hour of them.
const MOST: u32 = 3_600;
/// Headers of IPv4 and UDP.
const HEADERS: u64 = 28;
/// A rate is told from so many whole trains on.
const ENOUGH: usize = 5;

/// A train that was received, in whole or in part.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Train {
    /// Which way.
    pub way: Way,
    /// When it was sent or, of the way down, when its first datagram came, in nanoseconds of the client's clock.
    pub at: u64,
    /// Datagrams that were sent.
    pub sent: u8,
    /// Datagrams that came.
    pub come: u8,
    /// From the first to the last that came, as if all of them had been neighbors: what was overtaken and what was lost
    /// in between is left out. Zero if no two neighbors came.
    pub spread: Duration,
    /// Which came, the first in the lowest bit; 0 if the server does not say.
    pub which: u16,
    /// Datagrams that came after one that had left later.
    pub late: u8,
    /// How much later than that these came, in the mean.
    pub by: Duration,
}

/// The rate that trains of one way show, and what became of datagrams close together.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct TrainFindings {
    /// Which way.
    pub way: Way,
    /// Trains of which all datagrams came.
    pub whole: u64,
    /// Trains that were sent.
    pub sent: u64,
    /// The median of what they show, on the wire with headers of IPv4, bit/s.
    #[serde(serialize_with = "bps")]
    pub rate: Rate,
    /// A quarter of them shows less than this, bit/s.
    #[serde(serialize_with = "bps")]
    pub low: Rate,
    /// A quarter of them shows more than this, bit/s.
    #[serde(serialize_with = "bps")]
    pub high: Rate,
    /// Datagrams that came.
    pub come: u64,
    /// Of these, how many came after one that had left later.
    pub late: u64,
    /// How much later these came, in the mean, nanoseconds.
    pub by: u64,
    /// Datagrams of which one behind them in their train was sent, and which were lost.
    pub lost: u64,
    /// Of these, how many were followed by another that was lost.
    pub lost_again: u64,
    /// When each train that tells a rate was there, in nanoseconds since the measurement began, and what it shows,
    /// bit/s.
    #[serde(skip)]
    pub course: Vec<(i64, i64)>,
}

fn bps<S: serde::Serializer>(rate: &Rate, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(rate.bps())
}

/// The rate that trains show, each way: those that came whole or, where there are not five of them, all. The
/// measurement began at `started` by the client's clock, in nanoseconds.
pub fn train_rates(trains: &[Train], started: u64) -> Vec<TrainFindings> {
    let of = |way: Way| {
        let of_way = trains.iter().filter(|train| train.way == way);
        let told = of_way.clone().filter(|train| train.come > 1 && !train.spread.is_zero());
        let is_whole = |train: &&Train| train.come == train.sent;
        let whole = told.clone().filter(is_whole).count();
        // Where trains are too long for a queue to come whole, those in part have to do.
        let used = told.filter(|train| whole < ENOUGH || is_whole(train));
        let rate = |train: &Train| {
            let bits = u64::from(train.come - 1) * (TRAIN_SIZE as u64 + HEADERS) * 8;
            (u128::from(bits) * 1_000_000_000 / u128::from(train.spread.nanos().max(1))) as u64
        };
        let since = |at: u64| i64::try_from(i128::from(at) - i128::from(started)).unwrap_or(i64::MAX);
        let course: Vec<(i64, i64)> =
            used.map(|train| (since(train.at), i64::try_from(rate(train)).unwrap_or(i64::MAX))).collect();
        let mut rates: Vec<u64> = course.iter().map(|(_, rate)| *rate as u64).collect();
        rates.sort_unstable();
        let at = |quarter: usize| Rate::from_bps(rates[(rates.len() - 1) * quarter / 4]);
        let sum = |count: fn(&Train) -> u64| of_way.clone().map(count).sum::<u64>();
        let late = sum(|train| train.late.into());
        (rates.len() >= ENOUGH).then(|| TrainFindings {
            way,
            whole: whole as u64,
            sent: of_way.clone().count() as u64,
            rate: at(2),
            low: at(1),
            high: at(3),
            come: sum(|train| train.come.into()),
            late,
            by: sum(|train| u64::from(train.late).saturating_mul(train.by.nanos())) / late.max(1),
            lost: sum(|train| train.lost().0),
            lost_again: sum(|train| train.lost().1),
            course,
        })
    };
    Way::BOTH.into_iter().filter_map(of).collect()
}

impl Train {
    /// Lost datagrams that another follows, and how many of these were lost as well. Of a train of which nothing came,
    /// nothing is known.
    fn lost(&self) -> (u64, u64) {
        if self.which == 0 {
            return (0, 0);
        }
        let is_lost = |index: u8| self.which & (1 << index) == 0;
        let lost = (0..self.sent.min(TRAIN).saturating_sub(1)).filter(|index| is_lost(*index));
        lost.fold((0, 0), |(lost, again), index| (lost + 1, again + u64::from(is_lost(index + 1))))
    }
}

/// A train that is arriving.
#[derive(Copy, Clone, Debug)]
struct Passing {
    number: u32,
    sent: u8,
    /// When each came.
    at: [Option<Instant>; TRAIN as usize],
    come: u8,
}

/// What came of a train.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Arrived {
    come: u8,
    which: u16,
    spread: Duration,
    late: u8,
    by: Duration,
}

impl Passing {
    fn new(number: u32, sent: u8) -> Self {
        Passing { number, sent, at: [None; TRAIN as usize], come: 0 }
    }

    /// Takes a datagram of the train; whether it is the first of its place.
    fn arrive(&mut self, index: u8, at: Instant) -> bool {
        match self.at.get_mut(usize::from(index)) {
            Some(place @ None) => {
                (*place, self.come) = (Some(at), self.come + 1);
                true
            }
            _ => false,
        }
    }

    fn first(&self) -> Instant {
        self.at.iter().flatten().min().copied().unwrap_or_default()
    }

    fn arrived(&self) -> Arrived {
        let (mut which, mut late, mut by) = (0, 0u8, Duration::ZERO);
        let mut earliest_after: Option<Instant> = None;
        // Neighbors of which neither was overtaken, and how far apart they came, in all.
        let (mut pairs, mut apart) = (0u32, Duration::ZERO);
        let mut after: Option<(usize, Instant)> = None;
        for (index, at) in self.at.iter().enumerate().rev() {
            let Some(at) = *at else { continue };
            which |= 1 << index;
            match earliest_after.filter(|earliest| *earliest < at) {
                Some(earliest) => (late, by) = (late + 1, by + (at - earliest)),
                None => {
                    if let Some((_, next)) = after.filter(|(place, _)| *place == index + 1) {
                        (pairs, apart) = (pairs + 1, apart + (next - at));
                    }
                    (after, earliest_after) = (Some((index, at)), Some(at));
                }
            }
        }
        // As if all that came had been neighbors.
        let spread = apart * u32::from(self.come.saturating_sub(1)) / pairs.max(1);
        Arrived { come: self.come, which, spread, late, by: by / u32::from(late.max(1)) }
    }
}

/// The server's side of the trains of a session.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct ServerTrains {
    /// Number and begin of the last train.
    last: Option<(u32, Instant)>,
    passing: Option<Passing>,
    /// The train to send: what it answers, the position of the next datagram, and since when it is due.
    answer: Option<(Passing, u8, Instant)>,
}

impl ServerTrains {
    /// Takes a datagram; whether it is one to take.
    pub(crate) fn receive(&mut self, now: Instant, arrived: Instant, up: &TrainUp) -> bool {
        if up.count > TRAIN || up.index >= up.count {
            return false;
        }
        let is_next = |(number, begun): (u32, Instant)| up.train > number && now.saturating_since(begun) >= LEAST;
        match &mut self.passing {
            Some(passing) if passing.number == up.train => {
                if up.count != passing.sent || !passing.arrive(up.index, arrived) {
                    return false;
                }
            }
            _ if self.last.is_none_or(is_next) => {
                let mut passing = Passing::new(up.train, up.count);
                passing.arrive(up.index, arrived);
                (self.last, self.passing, self.answer) = (Some((up.train, now)), Some(passing), None);
            }
            _ => return false,
        }
        if let Some(passing) = self.passing.filter(|passing| passing.come == up.count) {
            (self.passing, self.answer) = (None, Some((passing, 0, now)));
        }
        true
    }

    /// When there is something to do.
    pub(crate) fn due(&self) -> Option<Instant> {
        match (self.answer, self.passing, self.last) {
            (Some((.., since)), ..) => Some(since),
            (None, Some(_), Some((_, begun))) => Some(begun + PATIENCE),
            _ => None,
        }
    }

    /// The next datagram of the answer, if one is due.
    pub(crate) fn next(&mut self, now: Instant) -> Option<TrainDown> {
        if self.answer.is_none() && self.due().is_some_and(|due| due <= now) {
            self.answer = self.passing.take().map(|passing| (passing, 0, now));
        }
        let (passing, index, since) = self.answer?;
        self.answer = (index + 1 < passing.come).then_some((passing, index + 1, since));
        let Arrived { come, which, spread, late, by } = passing.arrived();
        Some(TrainDown { train: passing.number, index, count: come, come, spread, which, late, by })
    }
}

/// The client's side of trains.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientTrains {
    /// When the next one leaves; `None` if none does.
    next: Option<Instant>,
    /// Number of the next, or of the one that is leaving, and the position of its next datagram.
    number: u32,
    index: u8,
    /// Datagrams of the last one, and from it to the next.
    count: u8,
    every: Duration,
    /// How far apart its datagrams come.
    gap: Duration,
    /// Time between datagrams of the streams.
    interval: Duration,
    /// Trains that left last: number, when, how many datagrams.
    left: VecDeque<(u32, u64, u8)>,
    begun: u64,
    passing: Option<Passing>,
    pub(crate) trains: Vec<Train>,
    /// Since this was last taken: see [`disturbs`](Self::disturbs).
    pub(crate) disturbed: Vec<(Way, u64, u64)>,
}

impl ClientTrains {
    /// Begins with the first train a second from now, beside streams of this interval.
    pub(crate) fn begin(&mut self, now: Instant, interval: Duration) {
        self.interval = interval;
        (self.next, self.count, self.every) = (Some(now + EVERY), SHORTEST, EVERY);
    }

    /// A train of so many datagrams took so long: the next ones are as long as this allows.
    fn pace(&mut self, count: u8, spread: Duration) {
        let Some(gap) = count.checked_sub(1).filter(|gaps| *gaps > 0).map(|gaps| spread / u32::from(gaps)) else {
            return;
        };
        // The slower way counts; what was an accident is forgotten.
        self.gap = gap.max(self.gap - self.gap / 4);
        let gap = self.gap;
        let fitting = TAKES.nanos() / gap.nanos().max(1);
        self.count = u8::try_from(fitting).unwrap_or(TRAIN).clamp(SHORTEST, TRAIN);
        self.every = EVERY.max(gap * u32::from(self.count) * SHARE);
    }

    /// When there is something to do.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.next.filter(|_| self.number < MOST)
    }

    /// The datagram to send now, if there is one. A train waits while the path `is_loaded`.
    pub(crate) fn next(&mut self, now: Instant, cookie: Cookie, is_loaded: bool) -> Option<TrainUp> {
        self.due().filter(|due| *due <= now)?;
        if self.index == 0 {
            if is_loaded {
                self.next = Some(now + self.every);
                return None;
            }
            self.begun = now.as_nanos();
        }
        let up = TrainUp { cookie, train: self.number, index: self.index, count: self.count };
        self.index += 1;
        if self.index >= self.count {
            self.left.push_back((self.number, self.begun, self.count));
            if self.left.len() > KEPT {
                self.left.pop_front();
            }
            self.index = 0;
            self.number += 1;
            self.next = Some(now + self.every);
        }
        Some(up)
    }

    /// Takes a datagram of the server's.
    pub(crate) fn receive(&mut self, arrived: Instant, down: &TrainDown) {
        let left = self.left.iter().find(|(number, ..)| *number == down.train);
        let Some((_, at, sent)) = left.copied() else { return };
        let is_over = self.passing.is_some_and(|passing| passing.number > down.train);
        if is_over || down.count > TRAIN || down.come > sent || down.index >= down.count {
            return;
        }
        if self.passing.is_none_or(|passing| passing.number != down.train) {
            self.end();
            self.passing = Some(Passing::new(down.train, down.count));
            let TrainDown { come, spread, which, late, by, .. } = *down;
            self.trains.push(Train { way: Way::Up, at, sent, come, spread, which, late, by });
            self.pace(come, spread);
            // What was sent until it had left the bottleneck waited behind it, and what was sent until that had left.
            let each = spread.nanos() / u64::from(come.max(2) - 1);
            let takes = self.drains(each.saturating_mul(u64::from(sent)), each, UP_SIZE);
            self.disturbs(Way::Up, at, at.saturating_add(takes));
        }
        if let Some(passing) = self.passing.as_mut() {
            passing.arrive(down.index, arrived);
        }
    }

    /// How long it takes until a train that kept the bottleneck busy for so long, and what the stream of datagrams of
    /// this size had sent meanwhile, have left it, where each datagram of the train takes `each`.
    fn drains(&self, takes: u64, each: u64, size: usize) -> u64 {
        let share = (size as u64 + HEADERS) as f64 / (TRAIN_SIZE as u64 + HEADERS) as f64;
        let own = each as f64 * share / self.interval.nanos().max(1) as f64;
        // And one datagram more.
        ((takes + each) as f64 / (1.0 - own.min(0.9))) as u64
    }

    /// Datagrams of a stream waited for a train: those sent up, or come down, between these times.
    fn disturbs(&mut self, way: Way, from: u64, until: u64) {
        if until.saturating_sub(from) > SHORT {
            self.disturbed.push((way, from, until));
        }
    }

    /// No more comes of the train that is arriving.
    pub(crate) fn end(&mut self) {
        if let Some(passing) = self.passing.take() {
            let (at, sent) = (passing.first().as_nanos(), passing.sent);
            let Arrived { come, which, spread, late, by } = passing.arrived();
            self.trains.push(Train { way: Way::Down, at, sent, come, spread, which, late, by });
            let last = passing.at.iter().flatten().max().map_or(at, |last| last.as_nanos());
            self.pace(come, spread);
            let each = spread.nanos() / u64::from(come.max(2) - 1);
            let takes = self.drains(last.saturating_sub(at) + each, each, DOWN_SIZE);
            self.disturbs(Way::Down, at, at.saturating_add(takes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn train(way: Way, come: u8, micros: u64) -> Train {
        Train {
            way,
            at: 0,
            sent: 16,
            come,
            spread: Duration::from_micros(micros),
            which: u16::MAX,
            late: 0,
            by: Duration::ZERO,
        }
    }

    #[test]
    fn the_rate_is_the_median_of_whole_trains() {
        // Fifteen datagrams of 1,228 bytes in 14.736 ms: 10 Mbps.
        let mut trains: Vec<Train> = (0..9).map(|n| train(Way::Up, 16, 14_736 + 1_000 * (n % 3))).collect();
        trains.push(train(Way::Up, 15, 1_000));
        trains.extend((0..4).map(|_| train(Way::Down, 16, 14_736)));
        let found = train_rates(&trains, 0);
        let [up] = &found[..] else { panic!("four are too few: {found:?}") };
        assert_eq!((up.way, up.whole, up.sent), (Way::Up, 9, 10));
        assert_eq!(up.high.bps(), 10_000_000);
        assert!(up.low < up.rate && up.rate < up.high);
        assert_eq!(train_rates(&[], 0), []);
        assert_eq!(train_rates(&vec![train(Way::Down, 16, 0); 9], 0), []);
    }

    #[test]
    fn what_was_overtaken_is_late_and_does_not_make_the_train_longer() {
        let mut passing = Passing::new(3, 16);
        let at = |micros: u64| Instant::ZERO + Duration::from_micros(micros);
        for index in 0..16u8 {
            // A millisecond apart; the fifth comes 3.5 ms late, and the last one twice.
            let late = if index == 4 { 3_500 } else { 0 };
            assert!(passing.arrive(index, at(1_000 * u64::from(index) + late)));
        }
        assert!(!passing.arrive(15, at(99_000)) && !passing.arrive(16, at(99_000)));
        let arrived = passing.arrived();
        assert_eq!((arrived.come, arrived.which, arrived.late), (16, u16::MAX, 1));
        assert_eq!((arrived.spread, arrived.by), (Duration::from_millis(15), Duration::from_micros(2_500)));
        // If the last one is late, the others show the rate.
        let mut passing = Passing::new(3, 4);
        for (index, micros) in [(0, 9_000), (1, 1_000), (2, 2_000), (3, 3_000)] {
            passing.arrive(index, at(micros));
        }
        assert_eq!((passing.arrived().late, passing.arrived().spread), (1, Duration::from_millis(3)));
    }

    #[test]
    fn losses_in_a_row_are_told_from_single_ones() {
        let lost = |which: u16, sent: u8| Train { sent, which, ..train(Way::Up, 3, 5) }.lost();
        assert_eq!(lost(0b1111, 4), (0, 0));
        assert_eq!(lost(0b1001, 4), (2, 1));
        assert_eq!(lost(0b0101, 4), (1, 0));
        assert_eq!(lost(0b0001, 4), (2, 2));
        assert_eq!(lost(0, 4), (0, 0));
    }

    #[test]
    fn a_slow_path_gets_short_trains_and_few() {
        let paced = |count, spread| {
            let mut trains = ClientTrains::default();
            trains.begin(Instant::ZERO, Duration::from_millis(20));
            assert_eq!(trains.count, 2);
            trains.pace(count, spread);
            (trains.count, trains.every)
        };
        assert_eq!(paced(2, Duration::from_micros(3)), (16, EVERY));
        assert_eq!(paced(16, Duration::from_millis(30)), (6, EVERY));
        // 64 kbps: a datagram takes 153 ms.
        assert_eq!(paced(2, Duration::from_millis(153)), (2, Duration::from_millis(6_120)));
        assert_eq!(paced(1, Duration::ZERO), (2, EVERY));
    }
}
