//! What loses packets.

use thalweg_units::Instant;

use crate::dice::FlowDice;
use crate::schedule::Cursor;
use crate::{ConfigError, Dice, Probability, Schedule, Streams};

/// Which packets are lost on the line. Packets are counted as they leave the queue, from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossModel {
    /// Each with this probability, whatever happened to the others.
    Random(Probability),
    /// In bursts: a good and a bad state, each with a loss of its own. Starts in the good state; before every packet the state may
    /// change (Gilbert 1960, Elliott 1963). In the long run the share of bad packets is
    /// `to_bad / (to_bad + to_good)`, and a bad stretch lasts `1 / to_good` packets.
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

impl LossModel {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        match self {
            LossModel::Periodic { every: 0, .. } => Err(ConfigError::PeriodicLoss),
            _ => Ok(()),
        }
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
    Periodic { every: u64, first: u64, burst: u64 },
    List { sorted: Vec<u64>, next: usize },
    Tail,
    Schedule(Cursor<Probability>),
}

impl Loss {
    pub(crate) fn new(model: &LossModel, start: Instant, streams: &Streams, name: &str) -> Self {
        let state = match model {
            LossModel::Random(probability) => State::Random(*probability),
            LossModel::GilbertElliott { to_bad, to_good, loss_good, loss_bad } => {
                State::GilbertElliott { change: [*to_bad, *to_good], loss: [*loss_good, *loss_bad], bad: false }
            }
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
        Loss { dice: FlowDice::new(streams, name), line: streams.dice(name), state }
    }

    /// Whether packet number `ordinal`, which leaves the queue at `now`, is lost; `flow` is whose it is, and `tail` says whether it is
    /// the last of a message. Called once per packet, in order.
    pub(crate) fn takes(&mut self, now: Instant, ordinal: u64, flow: u32, tail: bool) -> bool {
        match &mut self.state {
            State::Random(probability) => self.dice.of(flow).chance(*probability),
            State::GilbertElliott { change, loss, bad } => {
                *bad ^= self.line.chance(change[usize::from(*bad)]);
                self.line.chance(loss[usize::from(*bad)])
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
