//! Whether a sender used its congestion window, by the metrics of a log without frames.

use super::flight::LEAST_MTU;
use super::number::integer;
use crate::read::Data;

/// A sender that could send more fills less than this share of its window in a round trip.
const FILLED: f64 = 0.9;
/// Where all packets take so much longer than the fastest and a millisecond more, they wait in a queue; a ratio.
const QUEUED: f64 = 1.25;
/// A sender whose smoothed round trip is this much longer than that of its packets is held by its pacer; a ratio.
const SLOWED: f64 = 1.5;

/// What a metric says of the window; bytes, and milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told {
    in_flight: u64,
    pub(super) window: u64,
    smoothed: f64,
    pub(super) latest: Option<f64>,
    least: Option<f64>,
}

/// A round trip under way.
#[derive(Clone, Copy, Debug)]
struct Round {
    /// When it began, milliseconds.
    begin: f64,
    /// The most of the window that was used, a share.
    most: f64,
    /// The least in flight, bytes.
    least: u64,
    /// The shortest round trip of a packet, milliseconds.
    shortest: f64,
}

impl Round {
    fn new(begin: f64) -> Round {
        Round { begin, most: 0.0, least: u64::MAX, shortest: f64::INFINITY }
    }
}

/// Whether the window was used: a sender that fills it waits for nothing else. Where a queue stood all the time, the
/// path was full whatever held the sender back.
#[derive(Debug, Default)]
pub(super) struct Usage {
    pub(super) told: Told,
    round: Option<Round>,
    /// Round trips without enough since data were sent.
    pending: f64,
    /// Nothing has been in flight since data were sent: the application paused.
    is_empty: bool,
    /// The most of the window that was used since no data were on their way, a share.
    most: f64,
    /// Milliseconds since the last pause of the application in which something else than the window held the sender
    /// back, while data were on their way.
    pub(super) unused: f64,
}

impl Usage {
    /// Data were sent; whether none were on their way.
    pub(super) fn sent(&mut self, now: f64, has_no_data: bool) {
        if has_no_data {
            self.most = 0.0;
        }
        self.round.get_or_insert(Round::new(now));
        self.unused += core::mem::take(&mut self.pending);
        if core::mem::take(&mut self.is_empty) {
            self.unused = 0.0;
        }
    }

    /// Whether the window had room for more all the time since no data were on their way.
    pub(super) fn had_room(&self) -> bool {
        self.most < FILLED
    }

    /// What a metric says.
    pub(super) fn metrics(&mut self, now: f64, data: Data<'_>) {
        let number = |key: &str| data.get(key).and_then(integer);
        let millis = |key: &str| data.get(key).and_then(Data::as_f64).map(|seconds| seconds * 1000.0);
        let last = self.told;
        self.told = Told {
            in_flight: number("bytes_in_flight").unwrap_or(last.in_flight),
            window: number("congestion_window").unwrap_or(last.window),
            smoothed: millis("smoothed_rtt").unwrap_or(last.smoothed),
            latest: millis("latest_rtt").or(last.latest),
            least: millis("min_rtt").or(last.least),
        };
        let Told { in_flight, window, smoothed, latest, least } = self.told;
        let Some(round) = &mut self.round else { return };
        let used = in_flight.saturating_add(LEAST_MTU) as f64 / window.max(1) as f64;
        self.most = self.most.max(used);
        self.is_empty |= in_flight == 0;
        round.least = round.least.min(in_flight);
        round.most = round.most.max(used);
        round.shortest = round.shortest.min(latest.unwrap_or(f64::INFINITY));
        let length = now - round.begin;
        if length >= smoothed {
            let is_told = round.shortest.is_finite();
            let is_queued = is_told && least.is_some_and(|least| round.shortest > QUEUED * least + 1.0);
            // The pacer spreads the window over the smoothed round trip, which a silence has made longer than it is.
            let is_slowed = is_told && smoothed > SLOWED * round.shortest;
            // A longer one was a silence.
            if round.most < FILLED && round.least > 0 && length < 2.0 * smoothed && !is_queued && !is_slowed {
                self.pending += length;
            }
            self.round = Some(Round::new(now));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::read::Tree;

    fn usage(latest: f64) -> Usage {
        usage_of(Some(latest), 0.02)
    }

    fn usage_of(latest: Option<f64>, smoothed: f64) -> Usage {
        let mut usage = Usage::default();
        let told = |usage: &mut Usage, now: f64, data: serde_json::Value| {
            usage.metrics(now, Tree::of(&data).unwrap().root());
        };
        usage.sent(0.0, true);
        for at in 1..=20 {
            let mut data = json!({"bytes_in_flight": 5000, "congestion_window": 20_000, "smoothed_rtt": smoothed});
            if let Some(latest) = latest {
                (data["latest_rtt"], data["min_rtt"]) = (json!(latest), json!(0.02));
            }
            told(&mut usage, f64::from(at) * 10.0, data);
        }
        assert_eq!(usage.unused, 0.0);
        usage.sent(201.0, false);
        usage
    }

    #[test]
    fn a_window_that_is_not_filled_is_seen_once_data_follow() {
        let unused = usage(0.021).unused;
        assert!((unused - 200.0).abs() < 1.0, "{unused}");
        assert_eq!(usage(0.1).unused, 0.0, "a queue stood");
        assert!(usage_of(Some(0.021), 0.03).unused > 0.0);
        assert_eq!(usage_of(Some(0.021), 0.04).unused, 0.0, "its pacer held it");
        assert!(usage_of(None, 0.02).unused > 0.0, "what is not told says neither");
    }

    #[test]
    fn a_window_with_room_is_one_that_was_never_filled_since_no_data_were_on_their_way() {
        let mut usage = usage(0.02);
        usage.sent(201.0, true);
        let metric = |usage: &mut Usage, bytes: u64| {
            usage.metrics(202.0, Tree::of(json!({ "bytes_in_flight": bytes })).unwrap().root());
            usage.had_room()
        };
        assert!(metric(&mut usage, 10_000) && metric(&mut usage, 0));
        assert!(!metric(&mut usage, 19_500) && !metric(&mut usage, 0), "it was filled");
        usage.sent(203.0, true);
        assert!(metric(&mut usage, 10_000));
    }
}
