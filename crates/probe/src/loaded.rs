//! What was measured while a load filled the path, and what it showed.

use thalweg_link::Quantiles;
use thalweg_units::{Duration, Rate};

use crate::passage::Passage;
use crate::trace::Way;

/// A load needs this long to fill the path; what is measured before does not count, in nanoseconds.
const SETTLE: i64 = 2_000_000_000;

/// What was measured while a load filled one way. Empty without a load.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Loaded {
    /// Round trips of the measurement's datagrams.
    pub round_trips: Quantiles,
    /// One-way delays of the loaded way.
    pub delays: Quantiles,
    /// Datagrams of the loaded way, and how many of them were lost.
    pub sent: u64,
    /// Of these, lost ones.
    pub lost: u64,
    /// Lost ones that follow one that was not lost.
    pub begun: u64,
}

impl Loaded {
    /// Of everything between two times, the first [`SETTLE`] left out if it is long enough for that.
    pub(crate) fn of(passages: &[Passage], round_trips: &[(i64, i64)], (from, until): (i64, i64)) -> Loaded {
        let from = settled(from, until);
        let is_in = |at: i64| (from..until).contains(&at);
        let mut loaded = Loaded::default();
        for (_, trip) in round_trips.iter().filter(|(at, _)| is_in(*at)) {
            loaded.round_trips.record(span(*trip));
        }
        let mut before_lost = false;
        for passage in passages.iter().filter(|passage| is_in(passage.sent)) {
            loaded.sent += 1;
            let delay = passage.delay();
            match delay {
                Some(delay) => loaded.delays.record(span(delay)),
                None => {
                    loaded.lost += 1;
                    loaded.begun += u64::from(!before_lost);
                }
            }
            before_lost = delay.is_none();
        }
        loaded
    }

    /// Adds what another part of the measurement has of it.
    pub(crate) fn add(&mut self, part: &Loaded) {
        self.round_trips.merge(&part.round_trips);
        self.delays.merge(&part.delays);
        self.sent += part.sent;
        self.lost += part.lost;
        self.begun += part.begun;
    }
}

/// When a load that began and ended then has filled the path: after two seconds, or a third of a short one.
pub(crate) fn settled(from: i64, until: i64) -> i64 {
    from + SETTLE.min((until - from) / 3)
}

pub(crate) fn span(nanos: i64) -> Duration {
    Duration::from_nanos(nanos.max(0) as u64)
}

/// One way of a path under load.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LoadFindings {
    /// The way that was filled.
    pub way: Way,
    /// Since when, in nanoseconds since the measurement began.
    pub from: i64,
    /// The rate of the way, IP headers included: see [`rate`](crate::rate), and what the measurement takes itself,
    /// over the share that is not lost without load.
    pub rate: Rate,
    /// How long the queue got: the 98th percentile of the way's delay under load, less its median without.
    pub queue: Duration,
    /// Median round trip without load.
    pub idle: Duration,
    /// Median round trip under load.
    pub loaded: Duration,
    /// Its 95th percentile.
    pub loaded_p95: Duration,
    /// The share of the way's datagrams that were lost under load.
    pub loss: f64,
    /// The share of the load's own packets that were lost; none if its sender did not say. A token bucket has room for
    /// a datagram of the measurement where it has none for a packet of full size.
    pub packet_loss: Option<f64>,
    /// The most that came through of the load in a quarter of a second, on the wire.
    pub peak: Rate,
    /// The most bytes on the wire that came beyond the rate since the load began: what a token bucket had saved up.
    pub burst: u64,
    /// Round trips in a minute: see [`responsiveness`](crate::responsiveness).
    pub rpm: u64,
    /// The largest datagram that was found to pass, bytes of UDP payload; 0 if it is not known.
    pub largest: u16,
}
