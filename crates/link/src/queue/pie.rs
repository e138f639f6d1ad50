//! PIE (RFC 8033): drops or marks at random on arrival, with a probability that a proportional-integral controller
//! moves every so often by how far the queueing delay is from a target and by how fast it changes.
//!
//! **Constants** (RFC 8033 sections 4 and 5). `target`, 15 ms: where the delay is held. `update`, 15 ms: time between
//! two updates of the probability. `alpha`, 0.125 per second, is the weight of the distance to the target and `beta`,
//! 1.25 per second, that of the trend: larger ones react faster and oscillate. Both are divided by 2 to 2,048 while
//! the probability is below 10 % to 0.0001 %, or a small probability would jump. `burst`, 150 ms: after the queue was
//! calm, nothing is dropped for so long. `mark_below`, 10 %: above this packets are dropped even if they could be
//! marked, or who ignores marks would win. 2 % is the largest step once the probability is 10 %, another 2 % is added
//! while the delay is above 250 ms, and the probability loses 2 % of itself per update while the queue is empty. 0.85
//! and 8.5 are the sums of probabilities before and after which drops do not come and do come for certain, which
//! spaces them evenly.
//!
//! **The delay** is the sojourn time of the packet that left last, zero if it left the queue empty, as in Linux and
//! ns-3; or with `delay = "rate"` what waits divided by a measured departure rate (section 4.3): the EWMA of rates
//! over 16 KiB each, measured while that much waits.
//!
//! **Variants.** `"linux"`: the decay is 1/64, and left out while something waits. `"ns-3"`: the probability is zero
//! during a burst, a burst begins anew when the queue has been calm for 1.5 s after the last, nothing is added above
//! 250 ms, drops are not spaced, marks end below 10 %, and the first packets of a burst are counted by the first of
//! them. `"paper"`: the RFC's with the parameters of the papers of 2013 to 2016: target 20 ms, update 30 ms, burst 100
//! ms.

use core::fmt::Debug;
use core::ops::RangeInclusive;

use serde::Serialize;
use thalweg_units::{Duration, DurationExt, Instant, Rate, math};

use super::backlog::{Backlog, Room};
use super::fixed::{ONE, from_share, happens, ratio, to_share};
use super::{Dropped, FEW, Grid, Kind, Needs, Queue, QueueLimit, Queued, Setup, set};
use crate::read::Table;
use crate::{Dice, DropCause, Packet};

/// PIE (RFC 8033).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pie {
    /// Whose rules apply where sources differ.
    pub variant: PieVariant,
    /// The delay at which the queue is held.
    pub target: Duration,
    /// Time between two updates of the probability.
    pub update: Duration,
    /// Weight of the distance to the target, per second.
    pub alpha: f64,
    /// Weight of the change of the delay, per second.
    pub beta: f64,
    /// For how long nothing is dropped after the queue was calm.
    pub burst: Duration,
    /// How the delay is known.
    pub delay: DelayEstimate,
    /// Mean size of a packet: twice as much may wait always.
    pub mean_packet: u64,
    /// Whether large packets are dropped in proportion to their size.
    pub bytes: bool,
    /// Whether packets that can be are marked instead of dropped.
    pub ecn: bool,
    /// The probability above which they are dropped all the same.
    pub mark_below: f64,
}

/// Whose rules apply where sources differ.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PieVariant {
    /// RFC 8033.
    #[default]
    Rfc8033,
    /// Linux 6.
    Linux,
    /// ns-3.
    #[serde(rename = "ns-3")]
    Ns3,
    /// RFC 8033's rules with the parameters of the papers.
    Paper,
}

/// How PIE knows the delay.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DelayEstimate {
    /// The sojourn time of the packet that left last.
    #[default]
    Sojourn,
    /// What waits divided by the measured departure rate.
    Rate,
}

impl Default for Pie {
    fn default() -> Self {
        Pie {
            variant: PieVariant::Rfc8033,
            target: Duration::from_millis(15),
            update: Duration::from_millis(15),
            alpha: 0.125,
            beta: 1.25,
            burst: Duration::from_millis(150),
            delay: DelayEstimate::Sojourn,
            mean_packet: 1500,
            bytes: false,
            ecn: true,
            mark_below: 0.1,
        }
    }
}

impl Pie {
    /// What a variant begins with.
    pub fn variant(variant: PieVariant) -> Pie {
        let ms = Duration::from_millis;
        match variant {
            PieVariant::Rfc8033 | PieVariant::Linux => Pie { variant, ..Pie::default() },
            PieVariant::Ns3 => Pie { variant, mean_packet: 1000, ..Pie::default() },
            PieVariant::Paper => Pie { variant, target: ms(20), update: ms(30), burst: ms(100), ..Pie::default() },
        }
    }

    const VARIANTS: &[(&str, PieVariant)] = &[
        ("rfc8033", PieVariant::Rfc8033),
        ("linux", PieVariant::Linux),
        ("ns-3", PieVariant::Ns3),
        ("paper", PieVariant::Paper),
    ];
    const SPANS: RangeInclusive<Duration> = Duration::from_micros(1)..=Duration::from_secs(60);
    const BURSTS: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(60);
    /// An update every 100 µs would be 150 times as often as the RFC says.
    const UPDATES: RangeInclusive<Duration> = Duration::from_micros(100)..=Duration::from_secs(60);
    const GAINS: RangeInclusive<f64> = 0.0..=1000.0;

    pub(crate) fn read_parameters(table: &dyn Table) -> Pie {
        let mut variant = PieVariant::default();
        set(table, "variant", &mut variant, |field| field.choice(Self::VARIANTS));
        let mut pie = Pie::variant(variant);
        set(table, "target", &mut pie.target, |field| field.duration_in(Self::SPANS));
        set(table, "update", &mut pie.update, |field| field.duration_in(Self::UPDATES));
        set(table, "alpha", &mut pie.alpha, |field| field.number_in(Self::GAINS));
        set(table, "beta", &mut pie.beta, |field| field.number_in(Self::GAINS));
        set(table, "burst", &mut pie.burst, |field| field.duration_in(Self::BURSTS));
        set(table, "delay", &mut pie.delay, |field| {
            field.choice(&[("sojourn", DelayEstimate::Sojourn), ("rate", DelayEstimate::Rate)])
        });
        set(table, "mean_packet", &mut pie.mean_packet, |field| field.bytes_in(1..=65_535));
        set(table, "bytes", &mut pie.bytes, |field| field.boolean());
        set(table, "ecn", &mut pie.ecn, |field| field.boolean());
        set(table, "mark_below", &mut pie.mark_below, |field| field.share());
        pie
    }
}

impl Kind for Pie {
    const NAME: &'static str = "pie";
    const EXAMPLE: &'static str = "{ name = \"pie\", variant = \"rfc8033\", target = \"15 ms\", update = \"15 ms\", \
        alpha = 0.125, beta = 1.25, burst = \"150 ms\", delay = \"sojourn\", mean_packet = \"1500 B\", bytes = false, \
        ecn = true, mark_below = \"10 %\" }";
    const DOC: &'static str = r#"PIE (RFC 8033): drops or marks on arrival with a probability that is updated
        every update (default "15 ms", "100 us" to "60 s") by alpha (default 0.125 per second, to 1000) times the
        distance of the delay from target (default "15 ms", "1 us" to "60 s") plus beta (default 1.25 per second)
        times its change; nothing is dropped for burst (default "150 ms", to "60 s") after a calm, or while at most
        twice mean_packet (default "1500 B") waits; delay is the "sojourn" time of the packet that left last (default)
        or by the departure "rate"; bytes = true drops in proportion to size; ecn = false (default true) drops packets
        that could be marked, and so does a probability above mark_below (default "10 %"); variant is "rfc8033"
        (default), "linux", "ns-3" (mean_packet "1000 B") or "paper" (20 ms, 30 ms, 100 ms); default queue "1000
        packets" (Linux)"#;

    fn read(table: &dyn Table) -> Option<Self> {
        Some(Pie::read_parameters(table))
    }

    fn limit(&self, _: Option<Rate>) -> QueueLimit {
        FEW
    }

    fn needs(&self, rate: Rate) -> Option<Needs> {
        Some(Needs::of_spans(rate, self.target, self.burst))
    }

    fn build<P: Debug + Send + 'static>(&self, setup: Setup) -> Box<dyn Queue<P>> {
        let control = Control::new(self);
        Box::new(Managed {
            backlog: Backlog::new(),
            room: Room::new(setup.limit, Some(setup.rate)),
            grid: Grid::new(setup.start, self.update),
            state: State::new(&control),
            control,
            dice: setup.dice,
        })
    }
}

/// The parameters as they are computed with.
#[derive(Clone, Debug)]
pub(crate) struct Control {
    variant: PieVariant,
    target: i128,
    update: u64,
    /// Per second, in 2⁻³².
    alpha: i128,
    beta: i128,
    burst: u64,
    delay: DelayEstimate,
    mean_packet: u64,
    bytes: bool,
    ecn: bool,
    mark_below: u64,
}

/// The state of the controller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    probability: u64,
    /// Sum of the probabilities since the last drop.
    accumulated: u64,
    /// The sojourn time of the packet that left last, in nanoseconds.
    sojourn: u64,
    /// The delay at the last update.
    delay: u64,
    /// What is left of the burst that is let through.
    burst: u64,
    phase: Phase,
    rate: Departures,
}

/// What ns-3 knows of bursts.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    NoBurst,
    Protecting,
    /// Calm for so many updates.
    Calm(u64),
}

/// The measured departure rate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Departures {
    /// Bytes per second; none yet if zero.
    average: u64,
    /// Since when and how much, while measuring.
    cycle: Option<(Instant, u64)>,
}

/// What is measured at a time (RFC 8033 section 4.3).
const CYCLE: u64 = 16 << 10;
/// Above this delay the probability rises faster (RFC 8033 section 5.5 and appendix).
const HIGH_DELAY: u64 = 250_000_000;
const TWO_PERCENT: u64 = ratio(2, 100);
/// ns-3 allows another burst after this much calm.
const BURST_RESET: u64 = 1_500_000_000;

impl Control {
    pub(crate) fn new(pie: &Pie) -> Self {
        // A power of two: exact but for what is cut off.
        let gain = |gain: f64| (gain * 4_294_967_296.0) as i128;
        Control {
            variant: pie.variant,
            target: i128::from(pie.target.nanos()),
            update: pie.update.nanos(),
            alpha: gain(pie.alpha),
            beta: gain(pie.beta),
            burst: pie.burst.nanos(),
            delay: pie.delay,
            mean_packet: pie.mean_packet.max(1),
            bytes: pie.bytes,
            ecn: pie.ecn,
            mark_below: from_share(pie.mark_below),
        }
    }

    fn is_calm(&self, delay: u64) -> bool {
        2 * i128::from(delay) < self.target
    }
}

/// What becomes of a packet on arrival.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Accept,
    Signal,
}

impl State {
    /// An empty queue, which lets a burst through; in ns-3 that begins with its first packet.
    pub(crate) fn new(control: &Control) -> Self {
        let burst = if control.variant == PieVariant::Ns3 { 0 } else { control.burst };
        State { burst, ..State::default() }
    }

    /// An update, where so many bytes wait. Whether anything has changed; if not, nothing will until a packet comes or
    /// goes.
    pub(crate) fn update(&mut self, control: &Control, backlog: u64) -> bool {
        let before = (self.probability, self.burst, self.delay, self.phase);
        let delay = match control.delay {
            // Nothing leaves an empty queue, so that the last sojourn time would stay for ever.
            DelayEstimate::Sojourn if backlog == 0 => 0,
            DelayEstimate::Sojourn => self.sojourn,
            DelayEstimate::Rate => match self.rate.average {
                0 => 0,
                rate => math::mul_div(backlog, 1_000_000_000, rate),
            },
        };
        let is_linux = control.variant == PieVariant::Linux;
        let is_ns3 = control.variant == PieVariant::Ns3;
        let mut probability = i128::from(self.probability);
        if is_ns3 && self.burst > 0 {
            probability = 0;
        } else {
            probability += self.step(control, delay);
        }
        let is_idle = delay == 0 && self.delay == 0 && !(is_linux && backlog > 0);
        if is_idle {
            probability -= if is_linux { probability / 64 } else { probability / 50 };
        }
        self.probability = u64::try_from(probability.max(0)).unwrap_or(ONE).min(ONE);
        self.burst = self.burst.saturating_sub(control.update);
        let is_calm = self.probability == 0 && control.is_calm(delay) && control.is_calm(self.delay);
        if is_ns3 {
            self.count_calm(control, is_calm);
        } else if is_calm {
            self.burst = control.burst;
        }
        self.delay = delay;
        before != (self.probability, self.burst, self.delay, self.phase)
    }

    /// By how much the probability changes.
    fn step(&self, control: &Control, delay: u64) -> i128 {
        // Per second, times nanoseconds, in 2⁻³²: to 2⁻⁶⁰ and to one.
        let (delay, before) = (i128::from(delay), i128::from(self.delay));
        let change = control.alpha * (delay - control.target) + control.beta * (delay - before);
        // Steps of RFC 8033 section 4.2, in millionths.
        let divisor = match self.probability {
            p if p < ratio(1, 1_000_000) => 2048,
            p if p < ratio(10, 1_000_000) => 512,
            p if p < ratio(100, 1_000_000) => 128,
            p if p < ratio(1_000, 1_000_000) => 32,
            p if p < ratio(10_000, 1_000_000) => 8,
            p if p < ratio(100_000, 1_000_000) => 2,
            _ => 1,
        };
        let mut step = (change << 28) / (1_000_000_000 * divisor);
        if divisor == 1 {
            step = step.min(i128::from(TWO_PERCENT));
        }
        if control.variant != PieVariant::Ns3 && delay > i128::from(HIGH_DELAY) {
            step += i128::from(TWO_PERCENT);
        }
        step
    }

    /// ns-3 has a burst allowance again once the queue has been calm for 1.5 s after the last.
    fn count_calm(&mut self, control: &Control, is_calm: bool) {
        let is_over = is_calm && self.burst == 0;
        self.phase = match self.phase {
            Phase::Protecting if is_over => Phase::Calm(0),
            Phase::Calm(updates) if is_over && updates >= BURST_RESET / control.update.max(1) => Phase::NoBurst,
            Phase::Calm(updates) if is_over => Phase::Calm(updates + 1),
            Phase::Calm(_) => Phase::Calm(0),
            phase => phase,
        };
    }

    /// A packet arrives where so many bytes wait.
    pub(crate) fn arrive(&mut self, control: &Control, dice: &mut Dice, size: u32, backlog: u64) -> Admission {
        if self.burst > 0 {
            return Admission::Accept;
        }
        if control.variant == PieVariant::Ns3 && self.phase == Phase::NoBurst {
            self.phase = Phase::Protecting;
            self.burst = control.burst;
        }
        if control.is_calm(self.delay) && self.probability < ONE / 5 {
            return Admission::Accept;
        }
        if backlog <= 2 * control.mean_packet {
            return Admission::Accept;
        }
        let mut probability = self.probability;
        if control.bytes {
            probability = math::mul_div(probability, u64::from(size), control.mean_packet).min(ONE);
        }
        if control.variant != PieVariant::Ns3 {
            if self.probability == 0 {
                self.accumulated = 0;
            }
            self.accumulated = self.accumulated.saturating_add(probability);
            if self.accumulated < ONE / 100 * 85 {
                return Admission::Accept;
            }
            if self.accumulated >= ONE / 10 * 85 {
                self.accumulated = 0;
                return Admission::Signal;
            }
        }
        if !happens(dice, probability) {
            return Admission::Accept;
        }
        self.accumulated = 0;
        Admission::Signal
    }

    /// Marks a packet that it would drop, if that is allowed.
    pub(crate) fn try_mark<P>(&self, control: &Control, packet: &mut Packet<P>) -> bool {
        let may = match control.variant {
            PieVariant::Ns3 => self.probability < control.mark_below,
            _ => self.probability <= control.mark_below,
        };
        control.ecn && may && packet.try_mark()
    }

    /// The queue was full.
    pub(crate) fn overflow(&mut self) {
        self.accumulated = 0;
    }

    /// A packet leaves that has waited for so long, and so many bytes stay.
    pub(crate) fn leave(&mut self, control: &Control, now: Instant, sojourn: Duration, size: u32, backlog: u64) {
        self.sojourn = if backlog == 0 { 0 } else { sojourn.nanos() };
        if control.delay == DelayEstimate::Rate {
            self.rate.leave(control.variant, now, size, backlog);
        }
    }

    /// The probability, for records.
    pub(crate) fn share(&self) -> f64 {
        to_share(self.probability)
    }

    pub(crate) fn signals(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("probability", self.share());
        tell("delay_ms", self.delay as f64 / 1e6);
        tell("burst_ms", self.burst as f64 / 1e6);
    }
}

impl Departures {
    fn leave(&mut self, variant: PieVariant, now: Instant, size: u32, backlog: u64) {
        if self.cycle.is_none() && backlog >= CYCLE {
            self.cycle = Some((now, 0));
        }
        let Some((since, bytes)) = &mut self.cycle else { return };
        *bytes += u64::from(size);
        let span = now.saturating_since(*since).nanos();
        if *bytes < CYCLE || span == 0 {
            return;
        }
        let measured = math::mul_div(*bytes, 1_000_000_000, span);
        self.average = match (self.average, variant) {
            (0, _) => measured,
            // Linux weighs a measurement with 1/8, others with 1/2.
            (average, PieVariant::Linux) => average - average / 8 + measured / 8,
            (average, _) => average / 2 + measured / 2,
        };
        self.cycle = (backlog > CYCLE).then_some((now, 0));
    }
}

/// A queue under PIE.
#[derive(Debug)]
struct Managed<P> {
    backlog: Backlog<P>,
    room: Room,
    grid: Grid,
    control: Control,
    state: State,
    dice: Dice,
}

impl<P> Managed<P> {
    fn catch_up(&mut self, now: Instant) {
        while self.grid.tick(now).is_some() {
            if !self.state.update(&self.control, self.backlog.bytes()) {
                self.grid.skip(now);
            }
        }
    }
}

impl<P: Debug + Send> Queue<P> for Managed<P> {
    fn enqueue(&mut self, now: Instant, mut packet: Packet<P>, dropped: &mut Vec<Dropped<P>>) {
        self.catch_up(now);
        let backlog = self.backlog.bytes();
        if !self.room.fits(backlog, self.backlog.len(), packet.size) {
            self.state.overflow();
            dropped.push(Dropped { packet, at: now, cause: DropCause::QueueFull });
            return;
        }
        let admission = self.state.arrive(&self.control, &mut self.dice, packet.size, backlog);
        if admission == Admission::Signal && !self.state.try_mark(&self.control, &mut packet) {
            dropped.push(Dropped { packet, at: now, cause: DropCause::Aqm });
            return;
        }
        self.backlog.push(now, packet);
    }

    fn enqueue_idle(&mut self, now: Instant, packet: Packet<P>, _: &mut Vec<Dropped<P>>) {
        self.catch_up(now);
        // Nothing waits, so that it would be accepted; the rest is what ns-3 does for the first of a burst.
        let _ = self.state.arrive(&self.control, &mut self.dice, packet.size, 0);
        self.backlog.push(now, packet);
    }

    fn dequeue(&mut self, now: Instant, _: &mut Vec<Dropped<P>>) -> Option<Queued<P>> {
        self.catch_up(now);
        let queued = self.backlog.pop()?;
        let sojourn = now.saturating_since(queued.at);
        self.state.leave(&self.control, now, sojourn, queued.packet.size, self.backlog.bytes());
        Some(queued)
    }

    fn set_rate(&mut self, rate: Rate) {
        self.room.set_rate(rate);
    }

    fn signals(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        self.state.signals(tell);
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
