//! The description of a direction of a link: its keys in a scenario, their documentation, and what they come to.
//!
//! [`DIRECTION_KEYS`] lists every key with its documentation and how it is read. What it says is a field of
//! [`DirectionConfig`]; [`DirectionConfig::resolve`] draws what a seed decides, and a [`Direction`](crate::Direction)
//! runs the result.

use serde::Serialize;
use thalweg_units::{Duration, DurationExt, Ecn, Rate, math};

use crate::read::{Field, Table};
use crate::trace::{Trace, Traces};
use crate::{
    ConfigError, Context, Discipline, HeldWhere, Interruption, LossModel, Policer, Probability, QueueLimit, RateModel,
    Schedule, Spread, Streams, Windows,
};

/// One direction of a link. Times in it count from the start of the link.
///
/// A packet takes this way: MTU, policer, queue, suspension *before*, serialization, ECN treatment, outage, loss,
/// corruption, duplication, delay, jitter, reordering, suspension *after*. What is lost on the line has used its time
/// on it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DirectionConfig {
    /// How fast the queue is served.
    pub rate: RateModel,
    /// A trace to be put in place of the rate by [`resolve`](Self::resolve), some also of delay and loss.
    pub trace: Option<Trace>,
    /// Propagation.
    pub delay: DelayModel,
    /// How much may wait; the packet being serialized and one that finds the link idle need no place.
    pub queue: QueueLimit,
    /// Which queue.
    pub discipline: Discipline,
    /// Random extra delay.
    pub jitter: Option<Jitter>,
    /// The same, if it changes at given times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter_changes: Option<Schedule<Jitter>>,
    /// What loses packets; each model decides about every packet.
    pub loss: Vec<LossModel>,
    /// Which packets are held up while others pass.
    pub reorder: Vec<Reorder>,
    /// These packets, counted as they leave the queue from 0, take this much longer; those behind them wait rather than
    /// overtake.
    pub shifts: Vec<(u64, Duration)>,
    /// Packets that arrive twice.
    pub duplicate: Probability,
    /// Packets that arrive damaged.
    pub corrupt: Probability,
    /// When what leaves the queue is lost.
    pub outages: Vec<Windows>,
    /// When the queue is not served: what waits is held *before* serialization and leaves at the rate of the link
    /// afterwards.
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
            trace: None,
            delay: DelayModel::Constant(Duration::ZERO),
            queue: QueueLimit::Infinite,
            discipline: Discipline::default(),
            jitter: None,
            jitter_changes: None,
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

    /// The same with everything drawn that a seed decides ahead: traces, begins and lengths of outages and suspensions,
    /// each from a stream of its own, up to `horizon` after the start.
    ///
    /// # Errors
    /// When an interruption has too many windows.
    pub fn resolve(&self, streams: &Streams, horizon: Duration) -> Result<DirectionConfig, ConfigError> {
        let mut config = self.clone();
        for list in [&mut config.outages, &mut config.suspend_before, &mut config.suspend_after] {
            for windows in list {
                *windows = windows.resolve(streams, horizon)?;
            }
        }
        if let Some(trace) = config.trace.take() {
            trace.apply(&mut config, streams, horizon)?;
        }
        Ok(config)
    }

    /// Says what cannot work.
    ///
    /// # Errors
    /// When the rate is zero for ever, a limit in BDP has no round trip or leaves no room, windows never end, or
    /// something is yet to be drawn.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.trace.is_some() {
            return Err(ConfigError::Unresolved);
        }
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

/// A key of a direction in a scenario.
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// A value as it would be written.
    pub example: &'static str,
    /// Its meaning, with units, other forms and the default; white space between words means nothing.
    pub doc: &'static str,
    read: fn(&mut Draft, &dyn Field, &dyn Traces),
}

/// A direction being read: some keys change what others have said.
#[derive(Default)]
struct Draft {
    config: DirectionConfig,
    unlimited: bool,
    changes: Vec<Change>,
    repeat: Option<Duration>,
}

/// Every key of a direction, in the order in which they are listed.
pub const DIRECTION_KEYS: &[Key] = &[
    Key {
        name: "rate",
        example: r#""25 Mbps""#,
        doc: r#"bits per second on the wire, IP headers included, or "unlimited"; a direction needs rate or trace"#,
        read: |draft, field, _| {
            draft.unlimited = field.is("unlimited");
            if draft.unlimited {
                draft.config.rate = RateModel::Constant(Rate::MAX);
            } else if let Some(rate) = field.rate() {
                draft.config.rate = RateModel::Constant(rate);
            }
        },
    },
    Key {
        name: "trace",
        example: r#""lte""#,
        doc: r#"capacity over time instead of rate: "lte" or "leo" (drawn by seed), or a file beside the scenario,
              in mahimahi's format or a *.csv with lines of t_ms,rate_bps[,delay_ms[,loss]]"#,
        read: |draft, field, traces| draft.config.trace = Trace::read(field, traces),
    },
    Key {
        name: "delay",
        example: r#""50 ms""#,
        doc: "one-way propagation delay; required",
        read: |draft, field, _| draft.config.delay = field.duration().unwrap_or_default().into(),
    },
    Key {
        name: "queue",
        example: r#""1 BDP""#,
        doc: r#"capacity of the queue: "1 BDP" (rate × fixed delays of both directions), "600 ms", "125 kB", "60
              packets", "unlimited"; default: that of the queue discipline (aqm), which is "1 BDP" for tail-drop, or
              "unlimited" if the rate is unlimited"#,
        read: |draft, field, _| draft.config.queue = QueueLimit::read(field).unwrap_or(QueueLimit::Infinite),
    },
    Key {
        name: "aqm",
        example: r#""head-drop""#,
        doc: r#"queue discipline by name, or { name = "NAME", … } with its parameters; default "tail-drop""#,
        read: |draft, field, _| draft.config.discipline = Discipline::read(field).unwrap_or_default(),
    },
    Key {
        name: "jitter",
        example: r#"{ shape = "normal", mean = "5 ms", deviation = "1 ms", reorders = true }"#,
        doc: r#"random extra delay: a mean (uniform from zero to twice the mean), or a table; shapes are "uniform",
              "normal", "exponential", "lognormal", and "contention" for a crowded wireless channel (no
              deviation); the default deviation is half the mean; packets overtake each other only with
              reorders = true"#,
        read: |draft, field, _| draft.config.jitter = Jitter::read(field),
    },
    Key {
        name: "loss",
        example: r#"[{ random = "0.1 %" }, { burst = { mean_good = "10 s", mean_bad = "200 ms" } }]"#,
        doc: r#"one of these or a list of them: a share such as "0.1 %"; { random = SHARE }; { burst = { enter,
              leave, bad, good } } for bursts by packets: the shares of packets at which the bad state begins
              and ends, and the shares of packets lost in the bad state (default 1) and in the good state
              (default 0); { burst = { mean_good, mean_bad, bad, good } } for bursts by time; { every = 100 };
              { packets = [7, 8] }, counted from 1; "tail" for the last packet of every message when the packet
              is sent for the first time"#,
        read: |draft, field, _| draft.config.loss = field.list(LossModel::read),
    },
    Key {
        name: "reorder",
        example: r#"{ share = "1 %", by = "5 ms" }"#,
        doc: "packets that are delayed while others pass, one table or a list",
        read: |draft, field, _| draft.config.reorder = field.list(Reorder::read),
    },
    Key {
        name: "duplicate",
        example: "0.01",
        doc: "share of packets that arrive twice",
        read: |draft, field, _| draft.config.duplicate = field.probability().unwrap_or_default(),
    },
    Key {
        name: "corrupt",
        example: r#""1 %""#,
        doc: "share of packets that arrive with a flipped bit",
        read: |draft, field, _| draft.config.corrupt = field.probability().unwrap_or_default(),
    },
    Key {
        name: "outage",
        example: r#"{ at = "2 s", for = "1 s..24 s" }"#,
        doc: r#"interval in which everything that leaves the queue is lost, one table or a list: at and for, each
              fixed or drawn by seed from a range such as "1 s..24 s"; every and times repeat the interval;
              random = true makes a Poisson process with the mean distance every"#,
        read: |draft, field, _| draft.config.outages = outages(field),
    },
    Key {
        name: "suspend",
        example: r#"{ every = "2 s", for = "200 ms", held = "before" }"#,
        doc: r#"interval in which all packets are suspended, with the keys of outage; held = "before" stops them
              before serialization, and they leave at the link's rate afterwards; held = "after" (default)
              stops them after propagation, and they arrive all at once"#,
        read: |draft, field, _| {
            for (held, windows) in suspensions(field) {
                draft.config.hold(held, windows);
            }
        },
    },
    Key {
        name: "changes",
        example: r#"[{ at = "1 s", rate = "5 Mbps" }, { at = "2 s", delay = "80 ms", mtu = "1394 B" }]"#,
        doc: "new values of rate, delay, mtu or jitter from given times on, in the order of time",
        read: |draft, field, _| draft.changes = changes(field),
    },
    Key {
        name: "repeat",
        example: r#""10 s""#,
        doc: "time after which the changes start over",
        read: |draft, field, _| draft.repeat = field.span(),
    },
    Key {
        name: "policer",
        example: r#"{ rate = "10 Mbps", burst = "100 kB" }"#,
        doc: "token bucket before the queue that drops packets in excess of rate and burst",
        read: |draft, field, _| draft.config.policer = Policer::read(field),
    },
    Key {
        name: "mtu",
        example: r#""1394 B""#,
        doc: "largest IP packet; larger packets are dropped silently",
        read: |draft, field, _| draft.config.mtu = mtu(field).map(Schedule::constant),
    },
    Key {
        name: "ecn",
        example: r#""bleach""#,
        doc: r#"treatment of the ECN field: "keep" (default), "bleach", "mark-all", "ect1-to-ect0""#,
        read: |draft, field, _| draft.config.ecn = EcnTreatment::read(field),
    },
];

impl DirectionConfig {
    /// Reads a direction. What is wrong is complained about and left as it is by default.
    pub fn read(table: Box<dyn Table + '_>, context: &Context<'_>) -> DirectionConfig {
        for key in context.also {
            table.get(key);
        }
        let mut draft = Draft::default();
        for key in DIRECTION_KEYS {
            if let Some(field) = table.get(key.name) {
                (key.read)(&mut draft, &*field, context.traces);
            }
        }
        match (table.has("rate"), table.has("trace")) {
            (false, false) => {
                table.complain(&"needs rate, for example rate = \"25 Mbps\", or \"unlimited\", or trace = \"FILE\"");
            }
            (true, true) => table.complain(&"has both rate and trace; the trace is the rate, so leave one out"),
            _ => {}
        }
        table.need("delay", "\"50 ms\"");
        if !table.has("queue") {
            // The rate of a trace is not known before it is drawn.
            let rate = table.has("rate").then(|| draft.config.rate.nominal());
            draft.config.queue =
                if draft.unlimited { QueueLimit::Infinite } else { draft.config.discipline.limit(rate) };
        }
        if draft.unlimited && matches!(draft.config.queue, QueueLimit::Bdp(_) | QueueLimit::Time(_)) {
            table.complain(
                &"has an unlimited rate, so its queue cannot be measured in BDP or time; write \"unlimited\"",
            );
        }
        if draft.repeat.is_some_and(|repeat| draft.changes.iter().any(|change| change.at >= repeat)) {
            table.complain(&"has a change at or after repeat, which would never happen");
        } else if let Err(error) = draft.change() {
            table.complain(&error);
        }
        table.finish();
        draft.config
    }

    pub(crate) fn hold(&mut self, held: HeldWhere, windows: Windows) {
        match held {
            HeldWhere::Before => self.suspend_before.push(windows),
            HeldWhere::After => self.suspend_after.push(windows),
        }
    }
}

/// Outages by themselves: one or a list.
pub(crate) fn outages(field: &dyn Field) -> Vec<Windows> {
    let items = field.items();
    items.iter().enumerate().filter_map(|(number, item)| Interruption::outage(&**item, number)).collect()
}

/// Suspensions: one or a list.
pub(crate) fn suspensions(field: &dyn Field) -> Vec<(HeldWhere, Windows)> {
    let items = field.items();
    items.iter().enumerate().filter_map(|(number, item)| Interruption::suspension(&**item, number)).collect()
}

/// An IP packet must hold QUIC's smallest datagram (1200 bytes, RFC 9000 section 14) with its UDP and IP headers.
fn mtu(field: &dyn Field) -> Option<u32> {
    field.bytes_in(1_228..=65_535).and_then(|bytes| u32::try_from(bytes).ok())
}

/// A change of a direction at a moment.
struct Change {
    at: Duration,
    rate: Option<Rate>,
    delay: Option<Duration>,
    mtu: Option<u32>,
    jitter: Option<Jitter>,
}

fn changes(field: &dyn Field) -> Vec<Change> {
    let mut changes: Vec<Change> = Vec::new();
    for item in field.items() {
        let Some(table) = item.table("{ at = \"2 s\", rate = \"5 Mbps\" }") else { continue };
        let at = table.need("at", "\"2 s\"").and_then(|field| field.duration());
        let change = Change {
            at: at.unwrap_or_default(),
            rate: table.get("rate").and_then(|field| field.rate()),
            delay: table.get("delay").and_then(|field| field.duration()),
            mtu: table.get("mtu").and_then(|field| mtu(&*field)),
            jitter: table.get("jitter").and_then(|field| Jitter::read(&*field)),
        };
        if !["rate", "delay", "mtu", "jitter"].iter().any(|key| table.has(key)) {
            table.complain(&"changes nothing; write rate, delay, mtu or jitter");
        }
        table.finish();
        if changes.last().is_some_and(|last| last.at >= change.at) {
            item.complain(
                &"is not later than the change before it; write changes in the order of time, one per moment",
            );
            continue;
        }
        changes.push(change);
    }
    changes
}

impl Draft {
    /// Makes schedules of what changes.
    fn change(&mut self) -> Result<(), ConfigError> {
        let config = &self.config;
        let (rate, delay) = (config.rate.nominal(), config.delay.nominal());
        let mtu = config.mtu.as_ref().map_or(u32::MAX, |mtu| mtu.at(Duration::ZERO).0);
        let rate = self.schedule(rate, |change| change.rate)?;
        let delay = self.schedule(delay, |change| change.delay)?;
        let mtu = self.schedule(mtu, |change| change.mtu)?;
        let jitter = self.schedule(config.jitter.unwrap_or(Jitter::NONE), |change| change.jitter)?;
        let config = &mut self.config;
        config.rate = rate.map_or(config.rate.clone(), RateModel::Schedule);
        config.delay = delay.map_or(config.delay.clone(), DelayModel::Schedule);
        config.mtu = mtu.or(config.mtu.take());
        config.jitter_changes = jitter;
        Ok(())
    }

    /// The changes of one quantity as a schedule; none if it does not change.
    fn schedule<T: Copy>(
        &self,
        initial: T,
        pick: impl Fn(&Change) -> Option<T>,
    ) -> Result<Option<Schedule<T>>, ConfigError> {
        let changes: Vec<_> = self.changes.iter().filter_map(|change| Some((change.at, pick(change)?))).collect();
        let Some((first, _)) = changes.first() else { return Ok(None) };
        let initial = (!first.is_zero()).then_some((Duration::ZERO, initial));
        Schedule::new(initial.into_iter().chain(changes).collect(), self.repeat).map(Some)
    }
}

/// Propagation delay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
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
#[derive(Copy, Clone, Debug, PartialEq, Serialize)]
pub struct Jitter {
    /// How much.
    pub spread: Spread,
    /// Whether packets may overtake each other. If not, a late packet holds up all behind it.
    pub reorder: bool,
}

impl Jitter {
    /// No extra delay.
    const NONE: Jitter = Jitter { spread: Spread::Fixed(Duration::ZERO), reorder: false };

    fn read(field: &dyn Field) -> Option<Jitter> {
        let uniform = |mean: Duration, _| Spread::Uniform(Duration::ZERO, mean * 2);
        if !field.is_table() {
            return Some(Jitter { spread: uniform(field.duration()?, Duration::ZERO), reorder: false });
        }
        type Shape = fn(Duration, Duration) -> Spread;
        let table = field.table("a duration such as \"2 ms\", or a table")?;
        let shape = table.get("shape").map_or(Some(uniform as Shape), |field| {
            field.choice(&[
                ("uniform", uniform as Shape),
                ("normal", |mean, deviation| Spread::Normal { mean, deviation }),
                ("exponential", |mean, _| Spread::Exponential(mean)),
                ("lognormal", lognormal),
                ("contention", |mean, _| Spread::Contention(mean)),
            ])
        });
        let mean = table.need("mean", "\"2 ms\"").and_then(|field| field.duration());
        let deviation = table.get("deviation").map_or_else(|| mean.map(|mean| mean / 2), |field| field.duration());
        let reorder = table.get("reorders").map_or(Some(false), |field| field.boolean());
        table.finish();
        Some(Jitter { spread: shape?(mean?, deviation?), reorder: reorder? })
    }
}

/// A lognormal with mean m and deviation d: sigma² = ln(1 + (d/m)²), median = m / exp(sigma²/2).
fn lognormal(mean: Duration, deviation: Duration) -> Spread {
    let mean = mean.nanos().max(1) as f64;
    let ratio = deviation.nanos() as f64 / mean;
    let square = math::ln(1.0 + ratio * ratio);
    let median = mean / math::exp(square / 2.0);
    Spread::LogNormal { median: Duration::from_nanos(median as u64), sigma: math::sqrt(square) }
}

/// Packets that are held up while others pass.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reorder {
    /// Which share of the packets.
    pub share: Probability,
    /// For how long.
    pub by: Duration,
}

impl Reorder {
    fn read(field: &dyn Field) -> Option<Reorder> {
        let table = field.table("{ share = \"1 %\", by = \"5 ms\" }")?;
        let share = table.need("share", "\"1 %\"").and_then(|field| field.probability());
        let by = table.need("by", "\"5 ms\"").and_then(|field| field.span());
        table.finish();
        Some(Reorder { share: share?, by: by? })
    }
}

/// What the path does to the ECN field of the packets that cross it.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
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
    fn read(field: &dyn Field) -> Option<Schedule<EcnTreatment>> {
        let treatment = field.choice(&[
            ("keep", EcnTreatment::Keep),
            ("bleach", EcnTreatment::Bleach),
            ("mark-all", EcnTreatment::MarkAll),
            ("ect1-to-ect0", EcnTreatment::Ect1ToEct0),
        ])?;
        (treatment != EcnTreatment::Keep).then(|| Schedule::constant(treatment))
    }

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
