//! How a direction of a link is described.

use thalweg_units::{Duration, Ecn, Rate};

use crate::{Discipline, LossModel, Policer, Probability, QueueLimit, RateModel, Schedule, Spread, Windows};

/// One direction of a link. Times in it count from the start of the link.
///
/// A packet takes this way: MTU, policer, queue, suspension *before*, serialisation, ECN treatment, outage, loss, corruption,
/// duplication, delay, jitter, reordering, suspension *after*. What is lost on the line has used its time on it.
#[derive(Clone, Debug, PartialEq)]
pub struct DirectionConfig {
    /// How fast the queue is served.
    pub rate: RateModel,
    /// Propagation.
    pub delay: DelayModel,
    /// How much may wait; the packet being serialized and one that finds the link idle need no place.
    pub queue: QueueLimit,
    /// Which queue.
    pub discipline: Discipline,
    /// Random extra delay.
    pub jitter: Option<Jitter>,
    /// What loses packets; each model decides about every packet.
    pub loss: Vec<LossModel>,
    /// Which packets are held up while others pass.
    pub reorder: Vec<Reorder>,
    /// These packets, counted as they leave the queue from 0, take this much longer; those behind them wait rather than overtake.
    pub shifts: Vec<(u64, Duration)>,
    /// Packets that arrive twice.
    pub duplicate: Probability,
    /// Packets that arrive damaged.
    pub corrupt: Probability,
    /// When what leaves the queue is lost.
    pub outages: Vec<Windows>,
    /// When the queue is not served: what waits is held *before* serialisation and leaves at the rate of the link afterwards.
    pub suspend_before: Vec<Windows>,
    /// When nothing is handed over at the far end: what arrives is held *after* propagation and released all at once.
    pub suspend_after: Vec<Windows>,
    /// A token bucket before the queue.
    pub policer: Option<Policer>,
    /// Largest packet, bytes on the wire; larger ones are dropped without a word.
    pub mtu: Option<Schedule<u32>>,
    /// What happens to the ECN field.
    pub ecn: Option<Schedule<EcnTreatment>>,
    /// The sum of the fixed delays of both directions, for limits in BDP.
    pub round_trip: Duration,
}

impl Default for DirectionConfig {
    /// 100 Mbps, no delay, an infinite queue, nothing wrong.
    fn default() -> Self {
        DirectionConfig {
            rate: RateModel::Constant(Rate::from_bps(100_000_000)),
            delay: DelayModel::Constant(Duration::ZERO),
            queue: QueueLimit::Infinite,
            discipline: Discipline::TailDrop,
            jitter: None,
            loss: Vec::new(),
            reorder: Vec::new(),
            shifts: Vec::new(),
            duplicate: Probability::NEVER,
            corrupt: Probability::NEVER,
            outages: Vec::new(),
            suspend_before: Vec::new(),
            suspend_after: Vec::new(),
            policer: None,
            mtu: None,
            ecn: None,
            round_trip: Duration::ZERO,
        }
    }
}

impl DirectionConfig {
    /// The limit of the queue, one in BDP as the bytes it comes to.
    pub fn queue_limit(&self) -> QueueLimit {
        self.queue.resolve(self.rate.nominal(), self.round_trip)
    }

    /// Says what cannot work.
    ///
    /// # Errors
    /// When the rate is zero for ever, a limit in BDP has no round trip or leaves no room, or windows never end.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.rate.check()?;
        match self.queue {
            QueueLimit::Bdp(_) if self.round_trip == Duration::ZERO => return Err(ConfigError::BdpWithoutDelay),
            QueueLimit::Bdp(0) | QueueLimit::Bytes(0) | QueueLimit::Packets(0) => {
                return Err(ConfigError::QueueLimit(self.queue.to_string()));
            }
            QueueLimit::Time(span) if span == Duration::ZERO => {
                return Err(ConfigError::QueueLimit(self.queue.to_string()));
            }
            _ => {}
        }
        for windows in self.outages.iter().chain(&self.suspend_before).chain(&self.suspend_after) {
            windows.check()?;
        }
        self.loss.iter().try_for_each(LossModel::check)?;
        if self.policer.is_some_and(|policer| policer.rate == Rate::ZERO || policer.burst == 0) {
            return Err(ConfigError::Policer);
        }
        Ok(())
    }
}

/// Propagation delay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DelayModel {
    /// Always the same.
    Constant(Duration),
    /// Changes at given times. A packet never overtakes another because the delay has become shorter.
    Schedule(Schedule<Duration>),
}

impl DelayModel {
    /// The delay at the start, which counts as the fixed delay in a BDP.
    pub fn nominal(&self) -> Duration {
        match self {
            DelayModel::Constant(delay) => *delay,
            DelayModel::Schedule(schedule) => schedule.at(Duration::ZERO).0,
        }
    }

    /// The shortest it ever gets.
    pub fn shortest(&self) -> Duration {
        match self {
            DelayModel::Constant(delay) => *delay,
            DelayModel::Schedule(schedule) => schedule.values().min().unwrap_or_default(),
        }
    }
}

impl From<Duration> for DelayModel {
    fn from(delay: Duration) -> Self {
        DelayModel::Constant(delay)
    }
}

/// Random delay on top of the propagation.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Jitter {
    /// How much.
    pub spread: Spread,
    /// Whether packets may overtake each other. If not, a late packet holds up all behind it.
    pub reorder: bool,
}

/// Packets that are held up while others pass.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Reorder {
    /// Which share of the packets.
    pub share: Probability,
    /// For how long.
    pub by: Duration,
}

/// What the path does to the ECN field of the packets that cross it.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum EcnTreatment {
    /// Nothing.
    #[default]
    Keep,
    /// Sets it to Not-ECT.
    Bleach,
    /// Makes ECT(0) of ECT(1).
    Ect1ToEct0,
    /// Marks every ECN-capable packet CE.
    MarkAll,
}

impl EcnTreatment {
    /// What becomes of a codepoint.
    pub const fn apply(self, ecn: Ecn) -> Ecn {
        match (self, ecn) {
            (EcnTreatment::Bleach, _) => Ecn::NotEct,
            (EcnTreatment::Ect1ToEct0, Ecn::Ect1) => Ecn::Ect0,
            (EcnTreatment::MarkAll, Ecn::Ect0 | Ecn::Ect1) => Ecn::Ce,
            (EcnTreatment::Keep | EcnTreatment::Ect1ToEct0 | EcnTreatment::MarkAll, ecn) => ecn,
        }
    }
}

/// Why a link cannot be built as described. Messages say what would be accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Nothing would ever leave.
    #[error(
        "the rate is zero for ever: give one above zero, such as \"10 Mbps\"; for a pause, use an outage or a suspension"
    )]
    ZeroRate,
    /// Steps are missing or out of order.
    #[error("a schedule needs a step at time zero, later steps in increasing order, and a period beyond the last")]
    Schedule,
    /// Not a share.
    #[error(
        "\"{0}\" is not a probability: write a share between 0 and 1 such as \"0.001\", or per cent such as \"0.1 %\""
    )]
    Probability(String),
    /// Not a limit.
    #[error(
        "\"{0}\" is not a queue limit: write \"1 BDP\" (up to three decimals), \"600 ms\", \"100 packets\", \"64 KiB\" or \"infinite\", above zero"
    )]
    QueueLimit(String),
    /// A BDP of nothing.
    #[error(
        "a queue limit in BDP needs a delay in one of the two directions; give the limit in bytes or packets instead"
    )]
    BdpWithoutDelay,
    /// Not a discipline.
    #[error("\"{0}\" is not a queue discipline: write \"tail-drop\" or \"head-drop\"")]
    Discipline(String),
    /// They would never end, or follow each other without end.
    #[error("windows must have a length above zero and shorter than the time from one to the next")]
    Windows,
    /// Zero in a place where it means never.
    #[error("periodic loss needs \"every\" above zero")]
    PeriodicLoss,
    /// Lets nothing pass.
    #[error("a policer needs a rate and a burst above zero")]
    Policer,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_work_is_refused() {
        let ok = DirectionConfig::default;
        let ms = Duration::from_millis;
        assert_eq!(ok().check(), Ok(()));
        let zero = DirectionConfig { rate: RateModel::Constant(Rate::ZERO), ..ok() };
        assert_eq!(zero.check(), Err(ConfigError::ZeroRate));
        let bdp = DirectionConfig { queue: QueueLimit::Bdp(1000), ..ok() };
        assert_eq!(bdp.check(), Err(ConfigError::BdpWithoutDelay));
        assert_eq!(DirectionConfig { round_trip: ms(10), ..bdp }.check(), Ok(()));
        for queue in [QueueLimit::Bytes(0), QueueLimit::Packets(0), QueueLimit::Time(ms(0))] {
            assert!(DirectionConfig { queue, ..ok() }.check().is_err());
        }
        let windows = Windows::Periodic { first: ms(0), every: ms(10), length: ms(10) };
        let held = DirectionConfig { suspend_before: vec![windows], ..ok() };
        assert_eq!(held.check(), Err(ConfigError::Windows));
        let policer = Some(Policer { rate: Rate::ZERO, burst: 1 });
        assert_eq!(DirectionConfig { policer, ..ok() }.check(), Err(ConfigError::Policer));
        let loss = vec![LossModel::Periodic { every: 0, first: 0, burst: 1 }];
        assert_eq!(DirectionConfig { loss, ..ok() }.check(), Err(ConfigError::PeriodicLoss));
    }

    #[test]
    fn ecn_treatments() {
        use Ecn::{Ce, Ect0, Ect1, NotEct};
        for (treatment, expected) in [
            (EcnTreatment::Keep, [NotEct, Ect0, Ect1, Ce]),
            (EcnTreatment::Bleach, [NotEct, NotEct, NotEct, NotEct]),
            (EcnTreatment::Ect1ToEct0, [NotEct, Ect0, Ect0, Ce]),
            (EcnTreatment::MarkAll, [NotEct, Ce, Ce, Ce]),
        ] {
            assert_eq!([NotEct, Ect0, Ect1, Ce].map(|ecn| treatment.apply(ecn)), expected);
        }
    }
}
