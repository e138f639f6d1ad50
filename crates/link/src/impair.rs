//! Loss models: which packets a link loses.

use serde::Serialize;
use thalweg_units::{Duration, DurationExt, Instant};

use crate::dice::FlowDice;
use crate::read::Field;
use crate::schedule::Cursor;
use crate::{ConfigError, Dice, Probability, Schedule, Streams};

/// Which packets are lost on the line. Packets are counted as they leave the queue, from 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum LossModel {
    /// Each with this probability, whatever happened to the others.
    Random(Probability),
    /// In bursts by packets: a good and a bad state, each with a loss of its own. Starts in the good state; before
    /// every packet the state may change (Gilbert 1960, Elliott 1963). In the long run the share of bad packets is
    /// `to_bad / (to_bad + to_good)`, and a bad stretch lasts `1 / to_good` packets: a sender that backs off meets the
    /// same burst for as long as it sends little.
    GilbertElliott {
        /// Probability of going from good to bad.
        to_bad: Probability,
        /// Probability of going from bad to good.
        to_good: Probability,
        /// Loss in the good state.
        loss_good: Probability,
        /// Loss in the bad state.
        loss_bad: Probability,
    },
    /// In bursts by time: the same two states, each held for an exponentially distributed time. Starts in the good
    /// state. In the long run `bad / (good + bad)` of the time is bad. Bursts come at the same times whatever is sent,
    /// so that all flows and all runs of a seed meet the same ones; a fast sender loses more packets to one than a slow
    /// sender.
    Bursts {
        /// Mean time in the good state, from 1 ms to 1 day.
        good: Duration,
        /// Mean time in the bad state, from 1 ms to 1 day.
        bad: Duration,
        /// Loss in the good state.
        loss_good: Probability,
        /// Loss in the bad state.
        loss_bad: Probability,
    },
    /// `burst` packets out of `every`, beginning with packet `first`.
    Periodic {
        /// From the first of a burst to the first of the next.
        every: u64,
        /// The first packet lost.
        first: u64,
        /// How many at a time.
        burst: u64,
    },
    /// Exactly these.
    List(Vec<u64>),
    /// The last packet of every message ([`Packet::tail`](crate::Packet::tail)); what repairs that passes.
    Tail,
    /// Independent, with a probability that changes at given times.
    Schedule(Schedule<Probability>),
}

/// Mean sojourn times of bursts by time: states are drawn one by one, so that shorter ones would cost without bound;
/// longer ones than a run would be no bursts.
const SOJOURN: core::ops::RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(86_400);

const EXPECTED: &str = "a share such as \"0.1 %\", or { random = \"0.1 %\" }, { burst = { enter = 0.001, leave = 0.2 } }, \
                        { burst = { mean_good = \"10 s\", mean_bad = \"200 ms\" } }, { every = 100 }, \
                        { packets = [7, 8] }, or \"tail\" for the last packet of every message";

impl LossModel {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        match self {
            LossModel::Periodic { every: 0, .. } => Err(ConfigError::PeriodicLoss),
            LossModel::Bursts { good, bad, .. } if !SOJOURN.contains(good) || !SOJOURN.contains(bad) => {
                Err(ConfigError::Bursts)
            }
            _ => Ok(()),
        }
    }

    /// Scenarios count packets from 1.
    pub(crate) fn read(field: &dyn Field) -> Option<LossModel> {
        if field.is("tail") {
            return Some(LossModel::Tail);
        }
        if !field.is_table() {
            return field.probability().map(LossModel::Random);
        }
        let table = field.table(EXPECTED)?;
        let mut found = Vec::new();
        if let Some(field) = table.get("random") {
            found.push(field.probability().map(LossModel::Random));
        }
        if let Some(field) = table.get("burst") {
            found.push(LossModel::read_burst(&*field));
        }
        if let Some(field) = table.get("every") {
            let every = field.count(2..=1_000_000_000);
            found.push(every.map(|every| LossModel::Periodic { every, first: every - 1, burst: 1 }));
        }
        if let Some(field) = table.get("packets") {
            let packets: Option<Vec<u64>> =
                field.items().iter().map(|item| Some(item.count(1..=1_000_000_000)? - 1)).collect();
            found.push(packets.map(|mut packets| {
                packets.sort_unstable();
                packets.dedup();
                LossModel::List(packets)
            }));
        }
        if found.len() != 1 {
            table.complain(&format_args!(
                "needs exactly one kind of loss: {EXPECTED}; for several kinds write a list of them"
            ));
        }
        table.finish();
        found.into_iter().next()?
    }

    /// Bursts by packets or by time.
    fn read_burst(field: &dyn Field) -> Option<LossModel> {
        let table = field.table("{ enter = 0.001, leave = 0.2 } or { mean_good = \"10 s\", mean_bad = \"200 ms\" }")?;
        for key in ["enter", "leave", "mean_good", "mean_bad"] {
            table.get(key);
        }
        let by_time = table.has("mean_good") || table.has("mean_bad");
        let by_packets = table.has("enter") || table.has("leave");
        if by_time && by_packets {
            table.complain(&"mixes bursts by packets (enter, leave) and by time (mean_good, mean_bad); write one pair");
        }
        let loss_bad = table.get("bad").map_or(Some(Probability::ALWAYS), |field| field.probability());
        let loss_good = table.get("good").map_or(Some(Probability::NEVER), |field| field.probability());
        let sojourn = |key, example| {
            let field = table.need(key, example)?;
            let mean = field.duration()?;
            if !SOJOURN.contains(&mean) {
                field.complain(&"is out of range; write a mean time from \"1 ms\" to \"86400 s\"");
            }
            Some(mean)
        };
        let change = |key, example| table.need(key, example).and_then(|field| field.probability());
        let times = by_time.then(|| (sojourn("mean_good", "\"10 s\""), sojourn("mean_bad", "\"200 ms\"")));
        let changes = (!by_time).then(|| (change("enter", "0.001"), change("leave", "0.2")));
        if matches!(changes, Some((_, Some(Probability::NEVER)))) {
            table.complain(&"leave = 0 means that the bad state never ends; write a share above 0");
        }
        table.finish();
        let (loss_good, loss_bad) = (loss_good?, loss_bad?);
        if let Some((good, bad)) = times {
            return Some(LossModel::Bursts { good: good?, bad: bad?, loss_good, loss_bad });
        }
        let (to_bad, to_good) = changes?;
        Some(LossModel::GilbertElliott { to_bad: to_bad?, to_good: to_good?, loss_good, loss_bad })
    }
}

/// A loss model at work.
#[derive(Debug)]
pub(crate) struct Loss {
    /// Of each flow; and of the line, whose state is one for all.
    dice: FlowDice,
    line: Dice,
    state: State,
}

#[derive(Debug)]
enum State {
    Random(Probability),
    GilbertElliott { change: [Probability; 2], loss: [Probability; 2], bad: bool },
    Bursts { mean: [Duration; 2], loss: [Probability; 2], bad: bool, until: Instant },
    Periodic { every: u64, first: u64, burst: u64 },
    List { sorted: Vec<u64>, next: usize },
    Tail,
    Schedule(Cursor<Probability>),
}

impl Loss {
    pub(crate) fn new(model: &LossModel, start: Instant, streams: &Streams, name: &str) -> Self {
        let mut line = streams.dice(name);
        let state = match model {
            LossModel::Random(probability) => State::Random(*probability),
            LossModel::GilbertElliott { to_bad, to_good, loss_good, loss_bad } => {
                State::GilbertElliott { change: [*to_bad, *to_good], loss: [*loss_good, *loss_bad], bad: false }
            }
            LossModel::Bursts { good, bad, loss_good, loss_bad } => State::Bursts {
                mean: [*good, *bad],
                loss: [*loss_good, *loss_bad],
                bad: false,
                until: start + sojourn(*good, &mut line),
            },
            LossModel::Periodic { every, first, burst } => {
                State::Periodic { every: (*every).max(1), first: *first, burst: *burst }
            }
            LossModel::List(list) => {
                let mut sorted = list.clone();
                sorted.sort_unstable();
                sorted.dedup();
                State::List { sorted, next: 0 }
            }
            LossModel::Tail => State::Tail,
            LossModel::Schedule(schedule) => State::Schedule(Cursor::new(schedule.clone(), start)),
        };
        Loss { dice: FlowDice::new(streams, name), line, state }
    }

    /// Whether packet number `ordinal`, which leaves the queue at `now`, is lost; `flow` is whose it is, and `tail`
    /// says whether it is the last of a message. Called once per packet, in order.
    pub(crate) fn takes(&mut self, now: Instant, ordinal: u64, flow: u32, tail: bool) -> bool {
        match &mut self.state {
            State::Random(probability) => self.dice.of(flow).chance(*probability),
            State::GilbertElliott { change, loss, bad } => {
                *bad ^= self.line.chance(change[usize::from(*bad)]);
                self.line.chance(loss[usize::from(*bad)])
            }
            State::Bursts { mean, loss, bad, until } => {
                while now >= *until {
                    *bad = !*bad;
                    *until += sojourn(mean[usize::from(*bad)], &mut self.line);
                }
                self.dice.of(flow).chance(loss[usize::from(*bad)])
            }
            State::Periodic { every, first, burst } => {
                ordinal.checked_sub(*first).is_some_and(|since| since % *every < *burst)
            }
            State::List { sorted, next } => {
                let hit = sorted.get(*next) == Some(&ordinal);
                *next += usize::from(hit);
                hit
            }
            State::Tail => tail,
            State::Schedule(cursor) => self.dice.of(flow).chance(cursor.at(now).0),
        }
    }
}

/// A time in a state.
fn sojourn(mean: Duration, dice: &mut Dice) -> Duration {
    // Casts of floats saturate.
    Duration::from_nanos((mean.nanos() as f64 * dice.exponential()) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(model: &LossModel, packets: u64) -> Vec<bool> {
        let mut loss = Loss::new(model, Instant::ZERO, &Streams::new(11), "loss");
        (0..packets).map(|ordinal| loss.takes(Instant::ZERO, ordinal, 0, false)).collect()
    }

    fn lost(model: &LossModel, packets: u64) -> Vec<u64> {
        (0..).zip(run(model, packets)).filter(|(_, lost)| *lost).map(|(ordinal, _)| ordinal).collect()
    }

    #[test]
    fn random_loss_has_its_share() {
        let n = 1_000_000;
        let count = lost(&LossModel::Random(Probability::ratio(1, 100)), n).len() as f64;
        // 99.99 % interval of a binomial: 3.9 standard deviations.
        assert!((count - 10_000.0).abs() < 3.9 * (n as f64 * 0.01 * 0.99).sqrt(), "{count}");
    }

    #[test]
    fn gilbert_elliott_statistics_lie_in_their_confidence_interval() {
        let (p, r) = (0.01, 0.2);
        let share = |x| Probability::new(x).unwrap();
        let model = LossModel::GilbertElliott {
            to_bad: share(p),
            to_good: share(r),
            loss_good: Probability::NEVER,
            loss_bad: Probability::ALWAYS,
        };
        let n = 2_000_000;
        let losses = run(&model, n);
        let bursts: Vec<usize> = losses.chunk_by(|a, b| a == b).filter(|chunk| chunk[0]).map(<[bool]>::len).collect();
        // Share of loss: p / (p + r). The variance of the mean of a two-state chain is that of independent draws times
        // (1 + λ) / (1 - λ) with λ = 1 - p - r.
        let expected = p / (p + r);
        let lambda = 1.0 - p - r;
        let deviation = (expected * (1.0 - expected) * (1.0 + lambda) / (1.0 - lambda) / n as f64).sqrt();
        let measured = bursts.iter().sum::<usize>() as f64 / n as f64;
        assert!((measured - expected).abs() < 3.9 * deviation, "loss {measured}, expected {expected} ± {deviation}");
        // Bursts are geometric with mean 1 / r.
        let mean = bursts.iter().sum::<usize>() as f64 / bursts.len() as f64;
        let deviation = ((1.0 - r) / (r * r) / bursts.len() as f64).sqrt();
        assert!((mean - 1.0 / r).abs() < 3.9 * deviation, "bursts of {mean}");
        // As many bursts as there are changes to bad.
        let expected = n as f64 * p * r / (p + r);
        assert!((bursts.len() as f64 - expected).abs() < 3.9 * expected.sqrt(), "{} bursts", bursts.len());
    }

    fn bursts() -> LossModel {
        LossModel::Bursts {
            good: Duration::from_millis(900),
            bad: Duration::from_millis(100),
            loss_good: Probability::NEVER,
            loss_bad: Probability::ALWAYS,
        }
    }

    /// Which of packets sent so often are lost.
    fn lost_at(every: Duration, packets: u64) -> Vec<bool> {
        let mut loss = Loss::new(&bursts(), Instant::ZERO, &Streams::new(11), "loss");
        (0..packets).map(|n| loss.takes(Instant::ZERO + every * n as u32, n, 0, false)).collect()
    }

    #[test]
    fn bursts_by_time_have_their_share_and_length_at_every_rate() {
        let seconds = 40_000u64;
        for per_second in [10, 100, 1000] {
            let lost = lost_at(Duration::from_secs(1) / per_second, seconds * u64::from(per_second));
            let share = lost.iter().filter(|lost| **lost).count() as f64 / lost.len() as f64;
            // A tenth. The variance of the share of time of a two-state process is 2 π (1 - π) τ / T, with τ = 90 ms
            // here; sampling adds less than as much again.
            let deviation = (2.0 * 2.0 * 0.1 * 0.9 * 0.09 / seconds as f64).sqrt();
            assert!((share - 0.1).abs() < 3.9 * deviation, "{share} ± {deviation} at {per_second}/s");
        }
        // At 1000 packets per second, bursts last 100 packets on average, those that fall between two packets left out.
        let lost = lost_at(Duration::from_millis(1), seconds * 1000);
        let lengths: Vec<usize> = lost.chunk_by(|a, b| a == b).filter(|chunk| chunk[0]).map(<[bool]>::len).collect();
        let mean = lengths.iter().sum::<usize>() as f64 / lengths.len() as f64;
        assert!((mean - 100.0).abs() < 3.9 * 100.0 / (lengths.len() as f64).sqrt() + 1.0, "{mean}");
    }

    #[test]
    fn a_slow_sender_does_not_meet_the_same_burst_again() {
        // Two packets a second, as of a sender in backoff: a burst of 100 ms is over before the next.
        let slow = lost_at(Duration::from_millis(500), 40_000);
        let pairs = slow.windows(2).filter(|pair| pair[0]).count();
        let both = slow.windows(2).filter(|pair| pair[0] && pair[1]).count();
        // Half a second later the state is forgotten but for e^(-500/90): lost again with probability 0.103.
        let again = both as f64 / pairs as f64;
        assert!((again - 0.103).abs() < 3.9 * (0.103 * 0.897 / pairs as f64).sqrt(), "{again} of {pairs}");
        // A burst of as many packets as that link carries in 100 ms at 1000 packets a second lasts 50 s for this
        // sender.
        let by_packets = LossModel::GilbertElliott {
            to_bad: Probability::ratio(1, 900),
            to_good: Probability::ratio(1, 100),
            loss_good: Probability::NEVER,
            loss_bad: Probability::ALWAYS,
        };
        let same = run(&by_packets, 40_000);
        let pairs = same.windows(2).filter(|pair| pair[0]).count();
        let both = same.windows(2).filter(|pair| pair[0] && pair[1]).count();
        assert!(both as f64 / pairs as f64 > 0.97, "{both} of {pairs}");
    }

    #[test]
    fn bursts_come_at_the_same_times_whatever_is_sent() {
        let (fast, slow) = (lost_at(Duration::from_millis(1), 100_000), lost_at(Duration::from_millis(20), 5_000));
        assert!(slow.iter().any(|lost| *lost));
        assert_eq!(fast.into_iter().step_by(20).collect::<Vec<_>>(), slow);
    }

    #[test]
    fn bursts_too_short_to_draw_are_refused() {
        let LossModel::Bursts { good, loss_good, loss_bad, .. } = bursts() else { panic!() };
        for bad in [Duration::ZERO, Duration::from_micros(999), Duration::from_secs(90_000)] {
            assert_eq!(LossModel::Bursts { good, bad, loss_good, loss_bad }.check(), Err(ConfigError::Bursts));
        }
        assert_eq!(bursts().check(), Ok(()));
    }

    #[test]
    fn periodic_and_listed_losses_are_exact() {
        let periodic = LossModel::Periodic { every: 10, first: 3, burst: 2 };
        assert_eq!(lost(&periodic, 30), [3, 4, 13, 14, 23, 24]);
        assert_eq!(lost(&LossModel::List(vec![7, 2, 7, 0]), 30), [0, 2, 7]);
    }

    #[test]
    fn the_last_packet_of_a_message_is_lost_and_no_other() {
        let mut loss = Loss::new(&LossModel::Tail, Instant::ZERO, &Streams::new(1), "loss");
        let lost: Vec<bool> = (0..6).map(|n| loss.takes(Instant::ZERO, n, 0, n % 3 == 2)).collect();
        assert_eq!(lost, [false, false, true, false, false, true]);
    }

    #[test]
    fn scheduled_loss_begins_and_ends() {
        let s = core::time::Duration::from_secs;
        let steps = vec![(s(0), Probability::NEVER), (s(5), Probability::ALWAYS), (s(7), Probability::NEVER)];
        let model = LossModel::Schedule(Schedule::new(steps, None).unwrap());
        let mut loss = Loss::new(&model, Instant::ZERO, &Streams::new(1), "loss");
        let lost: Vec<bool> = (0..10).map(|n| loss.takes(Instant::ZERO + s(n), n, 0, false)).collect();
        assert_eq!(lost, (0..10).map(|n| n == 5 || n == 6).collect::<Vec<_>>());
    }
}
