//! Trains: datagrams that leave at once, and by their distance on arrival show the rate of the bottleneck.
//!
//! The client sends a train a second; the server answers each with one of as many datagrams as came, so that it sends
//! no more than it received, and says how far apart those of the client came. What arrives of a train has left the
//! bottleneck one after the other, at its rate (Dovrolis, Ramanathan and Moore, "What do packet dispersion techniques
//! measure?", 2001). Traffic of others in between makes the distance longer; a link behind the bottleneck that releases
//! datagrams in bunches makes it shorter.

use thalweg_units::{Duration, DurationExt, Instant, Rate};

use crate::trace::Way;
use crate::wire::{Cookie, TRAIN_SIZE, TrainDown, TrainUp};

/// Datagrams of a train.
pub(crate) const TRAIN: u8 = 16;
/// From one train to the next.
const EVERY: Duration = Duration::from_secs(1);
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
    /// From the first to the last that came.
    pub spread: Duration,
}

/// The rate that trains of one way show.
#[derive(Copy, Clone, Debug, PartialEq, Eq, serde::Serialize)]
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
}

fn bps<S: serde::Serializer>(rate: &Rate, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(rate.bps())
}

/// The rate that trains show, each way; only of those that came whole, and where there are five of them.
pub fn train_rates(trains: &[Train]) -> Vec<TrainFindings> {
    let of = |way: Way| {
        let of_way = trains.iter().filter(|train| train.way == way);
        let whole =
            of_way.clone().filter(|train| train.come == train.sent && train.come > 1 && !train.spread.is_zero());
        let mut rates: Vec<u64> = whole
            .map(|train| {
                let bits = u64::from(train.come - 1) * (TRAIN_SIZE as u64 + HEADERS) * 8;
                (u128::from(bits) * 1_000_000_000 / u128::from(train.spread.nanos().max(1))) as u64
            })
            .collect();
        rates.sort_unstable();
        let at = |quarter: usize| Rate::from_bps(rates[(rates.len() - 1) * quarter / 4]);
        (rates.len() >= ENOUGH).then(|| TrainFindings {
            way,
            whole: rates.len() as u64,
            sent: of_way.count() as u64,
            rate: at(2),
            low: at(1),
            high: at(3),
        })
    };
    Way::BOTH.into_iter().filter_map(of).collect()
}

/// A train that is arriving.
#[derive(Copy, Clone, Debug)]
struct Passing {
    number: u32,
    sent: u8,
    first: Instant,
    last: Instant,
    come: u8,
}

impl Passing {
    fn new(number: u32, sent: u8, at: Instant) -> Self {
        Passing { number, sent, first: at, last: at, come: 0 }
    }

    fn arrive(&mut self, at: Instant) {
        (self.first, self.last) = (self.first.min(at), self.last.max(at));
        self.come = self.come.saturating_add(1);
    }

    fn spread(&self) -> Duration {
        self.last.saturating_since(self.first)
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
                if passing.come >= up.count {
                    return false;
                }
                passing.arrive(arrived);
            }
            _ if self.last.is_none_or(is_next) => {
                let mut passing = Passing::new(up.train, up.count, arrived);
                passing.arrive(arrived);
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
        Some(TrainDown {
            train: passing.number,
            index,
            count: passing.come,
            come: passing.come,
            spread: passing.spread(),
        })
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
    /// When the last one left.
    left: u64,
    passing: Option<Passing>,
    pub(crate) trains: Vec<Train>,
}

impl ClientTrains {
    /// Begins with the first train a second from now.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.next = Some(now + EVERY);
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
                self.next = Some(now + EVERY);
                return None;
            }
            self.left = now.as_nanos();
        }
        let up = TrainUp { cookie, train: self.number, index: self.index, count: TRAIN };
        self.index += 1;
        if self.index == TRAIN {
            self.index = 0;
            self.number += 1;
            self.next = Some(now + EVERY);
        }
        Some(up)
    }

    /// Takes a datagram of the server's.
    pub(crate) fn receive(&mut self, arrived: Instant, down: &TrainDown) {
        let is_sent = down.train.checked_add(1).is_some_and(|after| after == self.number);
        if !is_sent || down.count > TRAIN || down.come > TRAIN || down.index >= down.count {
            return;
        }
        if self.passing.is_none_or(|passing| passing.number != down.train) {
            self.end();
            self.passing = Some(Passing::new(down.train, down.count, arrived));
            let (at, sent) = (self.left, TRAIN);
            self.trains.push(Train { way: Way::Up, at, sent, come: down.come, spread: down.spread });
        }
        if let Some(passing) = self.passing.as_mut().filter(|passing| passing.come < passing.sent) {
            passing.arrive(arrived);
        }
    }

    /// No more comes of the train that is arriving.
    pub(crate) fn end(&mut self) {
        if let Some(passing) = self.passing.take() {
            let at = passing.first.as_nanos();
            let (sent, come, spread) = (passing.sent, passing.come, passing.spread());
            self.trains.push(Train { way: Way::Down, at, sent, come, spread });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn train(way: Way, come: u8, micros: u64) -> Train {
        Train { way, at: 0, sent: 16, come, spread: Duration::from_micros(micros) }
    }

    #[test]
    fn the_rate_is_the_median_of_whole_trains() {
        // Fifteen datagrams of 1,228 bytes in 14.736 ms: 10 Mbps.
        let mut trains: Vec<Train> = (0..9).map(|n| train(Way::Up, 16, 14_736 + 1_000 * (n % 3))).collect();
        trains.push(train(Way::Up, 15, 1_000));
        trains.extend((0..4).map(|_| train(Way::Down, 16, 14_736)));
        let found = train_rates(&trains);
        let [up] = found[..] else { panic!("four are too few: {found:?}") };
        assert_eq!((up.way, up.whole, up.sent), (Way::Up, 9, 10));
        assert_eq!(up.high.bps(), 10_000_000);
        assert!(up.low < up.rate && up.rate < up.high);
        assert_eq!(train_rates(&[]), []);
        assert_eq!(train_rates(&vec![train(Way::Down, 16, 0); 9]), []);
    }
}
