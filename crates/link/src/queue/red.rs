//! RED (Floyd and Jacobson 1993) with the options that are in use, and HRED: drops or marks on arrival at random, with
//! a probability that follows a moving average of the queue's length.
//!
//! **Constants.** `weight`, 0.002: the weight of a new sample, so that a burst of a round trip passes (1993 paper).
//! `min`, 5, and `max`, 15 packets: nothing is signaled below the first, and up to `max_p` of packets below the
//! second; the latter is three times the former at least (Floyd 1997). `max_p`, 0.02: one packet in fifty at `max`, as
//! in ns-2 and ns-3 (Floyd later recommended 0.1). `mean_packet`, 1,500 bytes: turns time that the link was idle into
//! packets that it could have sent, for which the average decays, and packets into bytes where lengths are in bytes
//! (ns-3: 500).
//!
//! **Options.** `gentle` (on): the probability rises on to one at twice `max` instead of jumping there. `wait` (on, as
//! in ns-2 and ns-3): after a signal none comes before `1/p` packets have passed, and one by `2/p` for certain; off:
//! one by `1/p`. `bytes`: lengths and thresholds in bytes, and large packets are signaled in proportion to their size.
//! `hard_drop` (on): where the probability is one, packets are dropped even if they could be marked. `adapt =
//! "floyd"`: every half second `max_p` times 0.9 if the average is in the lowest 40 % of the way from `min` to `max`,
//! and plus `min(0.01, max_p/4)` if it is in the highest 40 %, within 0.01 and 0.5 (Floyd, Gummadi, Shenker 2001).
//! `adapt = "feng"`: `max_p` is divided by three when the average falls below `min` and doubled when it rises above
//! `max` (Feng et al. 1999). `nonlinear`: `1.5 x²` in the place of the linear `x` between the thresholds (NLRED).
//! `target` chooses the thresholds and the weight by the rate, as ns-3 does: `min` is half of what the link sends in
//! that time, five packets at least, `max` is three times as much, and the weight is `1 - exp(-1/(packets per
//! second))`.
//!
//! **HRED**, Harsh RED, answers one flow's slow start within a round trip of the first packet that waits: an average
//! that follows the queue within twenty packets, a steep rise, and no cutter where the tail would otherwise be lost.
//! Its published parameters were not available; these are a reconstruction from that requirement: weight 1/20,
//! thresholds 5 and 60, `max_p` 0.5. It holds the delay at a few packets at every round trip and costs throughput on
//! long ones.

use core::fmt::Debug;
use core::ops::RangeInclusive;

use serde::Serialize;
use thalweg_units::{Duration, Instant, Rate, exact_duration, math};

use super::backlog::{Backlog, Room};
use super::fixed::{ONE, exp_minus, from_share, happens, power, ratio, times, to_share};
use super::{Dropped, FEW, Grid, Kind, Needs, Queue, QueueLimit, Queued, Setup, set};
use crate::read::Table;
use crate::{Dice, DropCause, Packet};

/// RED (Floyd and Jacobson 1993).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Red {
    /// Weight of a new sample in the average.
    pub weight: f64,
    /// The average length in packets up to which nothing is signaled.
    pub min: f64,
    /// The average length in packets at which `max_p` of packets are signaled.
    pub max: f64,
    /// The probability there.
    pub max_p: f64,
    /// Whether the probability rises on to one at twice the maximum instead of jumping there.
    pub gentle: bool,
    /// Whether signals keep a distance of 1/p packets.
    pub wait: bool,
    /// Whether lengths are in bytes and large packets are signaled more often.
    pub bytes: bool,
    /// Mean size of a packet.
    pub mean_packet: u64,
    /// How `max_p` adapts.
    pub adapt: Adaptation,
    /// Whether the probability rises with the square of the length.
    pub nonlinear: bool,
    /// Chooses the thresholds and the weight by the rate.
    pub target: Option<Duration>,
    /// Whether packets that can be are marked instead of dropped.
    pub ecn: bool,
    /// Whether they are dropped all the same where the probability is one.
    pub hard_drop: bool,
}

/// How RED's `max_p` adapts.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Adaptation {
    /// It does not.
    #[default]
    Off,
    /// Every half second, to keep the average in the middle.
    Floyd,
    /// When the average crosses a threshold.
    Feng,
}

impl Default for Red {
    fn default() -> Self {
        Red {
            weight: 0.002,
            min: 5.0,
            max: 15.0,
            max_p: 0.02,
            gentle: true,
            wait: true,
            bytes: false,
            mean_packet: 1500,
            adapt: Adaptation::Off,
            nonlinear: false,
            target: None,
            ecn: true,
            hard_drop: true,
        }
    }
}

/// RED made harsh: see the documentation of [`Red`]'s module.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Hred(pub Red);

impl Default for Hred {
    fn default() -> Self {
        Hred(Red { weight: 0.05, max: 60.0, max_p: 0.5, ..Red::default() })
    }
}

impl Red {
    const LENGTHS: RangeInclusive<f64> = 0.0..=1e6;
    const WEIGHTS: RangeInclusive<f64> = 1e-9..=1.0;
    const TARGETS: RangeInclusive<Duration> = Duration::from_micros(1)..=Duration::from_secs(60);

    fn read_over(mut self, table: &dyn Table) -> Red {
        set(table, "weight", &mut self.weight, |field| field.number_in(Self::WEIGHTS));
        set(table, "min", &mut self.min, |field| field.number_in(Self::LENGTHS));
        set(table, "max", &mut self.max, |field| field.number_in(Self::LENGTHS));
        if self.min >= self.max {
            let (min, max) = (self.min, self.max);
            table.complain(&format_args!(
                "has min = {min}, which is not below max = {max}; write a min below max, such as a third of it"
            ));
        }
        set(table, "max_p", &mut self.max_p, |field| field.share());
        set(table, "gentle", &mut self.gentle, |field| field.boolean());
        set(table, "wait", &mut self.wait, |field| field.boolean());
        set(table, "bytes", &mut self.bytes, |field| field.boolean());
        set(table, "mean_packet", &mut self.mean_packet, |field| field.bytes_in(1..=65_535));
        set(table, "adapt", &mut self.adapt, |field| {
            field.choice(&[("off", Adaptation::Off), ("floyd", Adaptation::Floyd), ("feng", Adaptation::Feng)])
        });
        set(table, "nonlinear", &mut self.nonlinear, |field| field.boolean());
        set(table, "target", &mut self.target, |field| field.duration_in(Self::TARGETS).map(Some));
        if let Some(target) = self.target
            && let Some(key) = ["min", "max", "weight"].into_iter().find(|key| table.has(key))
        {
            let target = exact_duration(target);
            table.complain(&format_args!(
                "has {key} beside target = \"{target}\", which chooses min, max and weight; leave one of the two out"
            ));
        }
        set(table, "ecn", &mut self.ecn, |field| field.boolean());
        set(table, "hard_drop", &mut self.hard_drop, |field| field.boolean());
        self
    }

    /// The average up to which the probability rises to one.
    fn thresholds(&self, rate: Rate) -> Needs {
        let mut state = State::new(self, Instant::ZERO);
        state.set_rate(rate);
        let unit = if self.bytes { 1 } else { self.mean_packet };
        let (times, what) = if self.gentle { (2, "twice its threshold") } else { (1, "its threshold") };
        let bytes = (state.max >> POINT).saturating_mul(unit).saturating_mul(times);
        Needs { bytes, what: format!("{what} max, {} packets", bytes / self.mean_packet.max(1)) }
    }

    fn queue<P: Debug + Send + 'static>(&self, setup: Setup) -> Box<dyn Queue<P>> {
        let mut state = State::new(self, setup.start);
        state.set_rate(setup.rate);
        Box::new(Managed {
            backlog: Backlog::new(),
            room: Room::new(setup.limit, Some(setup.rate)),
            grid: Grid::new(setup.start, Duration::from_millis(500)),
            state,
            dice: setup.dice,
        })
    }
}

impl Kind for Red {
    const NAME: &'static str = "red";
    const EXAMPLE: &'static str = "{ name = \"red\", weight = 0.002, min = 5, max = 15, max_p = 0.02, gentle = true, \
        wait = true, bytes = false, mean_packet = \"1500 B\", adapt = \"off\", nonlinear = false, ecn = true, \
        hard_drop = true }";
    const DOC: &'static str = r#"RED: drops or marks on arrival with a probability that rises from 0 to max_p
        (default 0.02) while a moving average of the queue rises from min to max packets (default 5 and 15, to
        1000000); weight (default 0.002, 1e-9 to 1) is that of a new sample; gentle (default true) rises on to 1 at
        twice max instead of jumping; wait (default true) keeps a distance of 1/p packets between signals; bytes
        (default false) counts bytes instead of packets; mean_packet (default "1500 B"); adapt (default "off") moves
        max_p, as "floyd" or "feng" did; nonlinear (default false) rises with the square; target, such as "5 ms",
        chooses min, max and weight by the rate; ecn = false (default true) drops packets that could be marked, and so
        does hard_drop (default true) where the probability is 1; default queue "1000 packets""#;

    fn read(table: &dyn Table) -> Option<Self> {
        Some(Red::default().read_over(table))
    }

    fn limit(&self, _: Option<Rate>) -> QueueLimit {
        FEW
    }

    fn needs(&self, rate: Rate) -> Option<Needs> {
        Some(self.thresholds(rate))
    }

    fn build<P: Debug + Send + 'static>(&self, setup: Setup) -> Box<dyn Queue<P>> {
        self.queue(setup)
    }
}

impl Kind for Hred {
    const NAME: &'static str = "hred";
    const EXAMPLE: &'static str = "{ name = \"hred\", weight = 0.05, min = 5, max = 60, max_p = 0.5 }";
    const DOC: &'static str = r#"Harsh RED, a reconstruction: RED with weight 0.05, min 5, max 60 and max_p 0.5,
        which answers a single slow start within a round trip; it has the keys of red; default queue "1000 packets""#;

    fn read(table: &dyn Table) -> Option<Self> {
        Some(Hred(Hred::default().0.read_over(table)))
    }

    fn limit(&self, _: Option<Rate>) -> QueueLimit {
        FEW
    }

    fn needs(&self, rate: Rate) -> Option<Needs> {
        Some(self.0.thresholds(rate))
    }

    fn build<P: Debug + Send + 'static>(&self, setup: Setup) -> Box<dyn Queue<P>> {
        self.0.queue(setup)
    }
}

/// Bits after the point of an average length.
const POINT: u32 = 32;

/// Where the probability is one, marks may have to be drops.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Admission {
    Accept,
    Signal,
    Forced,
}

/// The state of the average and of the probability.
#[derive(Clone, Debug)]
struct State {
    red: Red,
    weight: u64,
    /// Thresholds, in packets or bytes with [`POINT`].
    min: u64,
    max: u64,
    max_p: u64,
    average: u64,
    /// Packets since the last signal; none while the average is below the minimum.
    since: Option<u64>,
    /// Since when nothing waits.
    idle_since: Option<Instant>,
    rate: Rate,
    /// Where Feng's adaptation saw the average last.
    zone: Zone,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Zone {
    Below,
    Between,
    Above,
}

/// Bounds of an adapted `max_p` (Floyd, Gummadi, Shenker 2001).
const BOTTOM: u64 = ratio(1, 100);
const TOP: u64 = ONE / 2;
/// The least number of packets between which an average length makes sense, for thresholds by target.
const LEAST_MIN: u64 = 5;

impl State {
    fn new(red: &Red, start: Instant) -> Self {
        let unit = if red.bytes { red.mean_packet } else { 1 };
        // A power of two: exact but for what is cut off.
        let threshold = |packets: f64| ((packets * (1u64 << POINT) as f64) as u64).saturating_mul(unit);
        State {
            weight: from_share(red.weight).max(1),
            min: threshold(red.min),
            max: threshold(red.max),
            max_p: from_share(red.max_p),
            average: 0,
            since: None,
            idle_since: Some(start),
            rate: Rate::ZERO,
            zone: Zone::Between,
            red: red.clone(),
        }
    }

    fn set_rate(&mut self, rate: Rate) {
        self.rate = rate;
        let Some(target) = self.red.target else { return };
        let unit = if self.red.bytes { self.red.mean_packet } else { 1 };
        let packets = rate.bytes_in(target) / self.red.mean_packet.max(1) / 2;
        let min = packets.clamp(LEAST_MIN, 1 << 20).saturating_mul(unit);
        self.min = min << POINT;
        self.max = 3 * self.min;
        // 1 - exp(-1 / (packets per second)); at least the last bit.
        let per_second = rate.bytes_in(Duration::from_secs(1)) / self.red.mean_packet.max(1);
        self.weight = (ONE - exp_minus(1, per_second)).max(1);
    }

    /// A packet arrives where so much waits, in packets or bytes.
    fn sample(&mut self, now: Instant, length: u64) {
        if let Some(since) = self.idle_since.take() {
            // The packets that the link could have sent.
            let missed = self.rate.bytes_in(now.saturating_since(since)) / self.red.mean_packet.max(1);
            self.average = times(self.average, power(ONE - self.weight, missed));
        }
        let length = length.min(u64::from(u32::MAX)) << POINT;
        self.average = times(self.average, ONE - self.weight) + times(length, self.weight);
    }

    /// The probability by the average alone.
    fn by_average(&self) -> u64 {
        let part = |above: u64, of: u64| math::mul_div(above, ONE, of).min(ONE);
        if self.average < self.min {
            0
        } else if self.average < self.max {
            let linear = part(self.average - self.min, self.max - self.min);
            let shape = if self.red.nonlinear { times(linear, linear) / 2 * 3 } else { linear };
            times(self.max_p, shape.min(ONE))
        } else if self.red.gentle && self.average < 2 * self.max {
            self.max_p + times(ONE - self.max_p, part(self.average - self.max, self.max))
        } else {
            ONE
        }
    }

    /// The probability after `since` packets without a signal, so that signals are spaced evenly.
    fn spaced(&self, probability: u64, since: u64) -> u64 {
        let sum = u128::from(probability) * u128::from(since);
        let (one, wide) = (u128::from(ONE), u128::from(probability) << super::fixed::BITS);
        let due = if self.red.wait { 2 * one } else { one };
        if sum >= due {
            return ONE;
        }
        if self.red.wait && sum < one {
            return 0;
        }
        u64::try_from(wide / (due - sum)).map_or(ONE, |probability| probability.min(ONE))
    }

    /// What becomes of a packet of this size after [`sample`](Self::sample).
    fn judge(&mut self, dice: &mut Dice, size: u32) -> Admission {
        if self.red.adapt == Adaptation::Feng {
            self.cross();
        }
        let mut probability = self.by_average();
        if self.average < self.min {
            self.since = None;
            return Admission::Accept;
        }
        if probability == ONE {
            self.since = Some(0);
            return Admission::Forced;
        }
        let since = self.since.map_or(0, |since| since.saturating_add(1));
        if self.red.bytes {
            probability = math::mul_div(probability, u64::from(size), self.red.mean_packet.max(1)).min(ONE);
        }
        let probability = self.spaced(probability, since);
        let signals = probability > 0 && happens(dice, probability);
        self.since = Some(if signals { 0 } else { since });
        if signals { Admission::Signal } else { Admission::Accept }
    }

    fn cross(&mut self) {
        let zone = match self.average {
            average if average < self.min => Zone::Below,
            average if average > self.max => Zone::Above,
            _ => Zone::Between,
        };
        if zone != self.zone {
            self.zone = zone;
            self.max_p = match zone {
                Zone::Below => self.max_p / 3,
                Zone::Above => self.max_p.saturating_mul(2).min(ONE),
                Zone::Between => self.max_p,
            };
        }
    }

    /// Half a second has passed.
    fn adapt(&mut self) {
        let part = (self.max - self.min) / 10 * 4;
        if self.average < self.min + part && self.max_p > BOTTOM {
            self.max_p = self.max_p / 10 * 9;
        } else if self.average > self.max - part && self.max_p < TOP {
            self.max_p += (self.max_p / 4).min(ONE / 100);
        }
    }
}

/// A queue under RED.
#[derive(Debug)]
struct Managed<P> {
    backlog: Backlog<P>,
    room: Room,
    grid: Grid,
    state: State,
    dice: Dice,
}

impl<P> Managed<P> {
    fn judge(&mut self, now: Instant, size: u32) -> Admission {
        if self.state.red.adapt == Adaptation::Floyd {
            while self.grid.tick(now).is_some() {
                let before = self.state.max_p;
                self.state.adapt();
                if before == self.state.max_p {
                    self.grid.skip(now);
                }
            }
        }
        let length = if self.state.red.bytes { self.backlog.bytes() } else { self.backlog.len() as u64 };
        self.state.sample(now, length);
        self.state.judge(&mut self.dice, size)
    }

    /// Whether it passes after all.
    fn signal(&mut self, admission: Admission, packet: &mut Packet<P>) -> bool {
        let may_mark = self.state.red.ecn && (admission != Admission::Forced || !self.state.red.hard_drop);
        admission == Admission::Accept || may_mark && packet.try_mark()
    }
}

impl<P: Debug + Send> Queue<P> for Managed<P> {
    fn enqueue(&mut self, now: Instant, mut packet: Packet<P>, dropped: &mut Vec<Dropped<P>>) {
        let admission = self.judge(now, packet.size);
        let cause = if !self.room.fits(self.backlog.bytes(), self.backlog.len(), packet.size) {
            DropCause::QueueFull
        } else if !self.signal(admission, &mut packet) {
            DropCause::Aqm
        } else {
            return self.backlog.push(now, packet);
        };
        if self.backlog.is_empty() {
            self.state.idle_since = Some(now);
        }
        dropped.push(Dropped { packet, at: now, cause });
    }

    fn enqueue_idle(&mut self, now: Instant, mut packet: Packet<P>, dropped: &mut Vec<Dropped<P>>) {
        let admission = self.judge(now, packet.size);
        if self.signal(admission, &mut packet) {
            self.backlog.push(now, packet);
        } else {
            self.state.idle_since = Some(now);
            dropped.push(Dropped { packet, at: now, cause: DropCause::Aqm });
        }
    }

    fn dequeue(&mut self, now: Instant, _: &mut Vec<Dropped<P>>) -> Option<Queued<P>> {
        let queued = self.backlog.pop()?;
        if self.backlog.is_empty() {
            self.state.idle_since = Some(now);
        }
        Some(queued)
    }

    fn set_rate(&mut self, rate: Rate) {
        self.room.set_rate(rate);
        self.state.set_rate(rate);
    }

    fn signals(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("probability", to_share(self.state.by_average()));
        tell("max_p", to_share(self.state.max_p));
        tell("average", self.state.average as f64 / (1u64 << POINT) as f64);
    }

    fn len_bytes(&self) -> u64 {
        self.backlog.bytes()
    }

    fn len_packets(&self) -> usize {
        self.backlog.len()
    }
}

#[cfg(test)]
mod tests;
