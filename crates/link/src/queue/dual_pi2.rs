//! DualPI2 (RFC 9332 appendix A): a queue for scalable transports (L4S) beside one for all others, coupled so that a
//! flow of either kind gets about the same rate, each with the delay that its kind needs.
//!
//! Packets marked ECT(1) or CE go to the L queue, all others to the C queue. A PI controller holds the older of the
//! two heads at a target with a base probability `p'`. The C queue drops or marks with `p'²`, since a classic flow's
//! rate goes with the root of the probability; the L queue marks with `k p'`, or with that of a ramp over its own
//! delay if this is larger. Whoever's turn it is sends: L first, but C gets a tenth of the link where both have
//! something.
//!
//! **Constants** (RFC 9332 appendix A.1). `target`, 15 ms, of the C queue. `update`, 15 ms: a third of the longest
//! round trip, or the target if that is shorter. `alpha`, 0.15 per second: 0.1 × update / (100 ms)²; `beta`, 3 per
//! second: 0.3 / 100 ms: stable up to round trips of 100 ms. `k`, 2: the coupling. `ramp_min`, 800 µs, and `ramp`, 400
//! µs: where L's own marking begins, and over which range it rises to one. `least`, 1 packet: nothing is marked by the
//! ramp if no more wait. `weight_c`, 10 %. Overload begins at `k p' ≥ 1`: then L drops like C, and C drops what could
//! be marked.
//!
//! **Linux** 6.17 (`law = "linux"`): random numbers instead of the RFC's sums of probabilities, and for C two of them;
//! a step at 1 ms instead of the ramp, without `least`; 16 ms, 41/256 and 819/256 per second instead of 15 ms, 0.15
//! and 3; nothing is signaled by the controller while less than two packets of 1,514 bytes wait.

use core::fmt::Debug;
use core::ops::RangeInclusive;

use serde::Serialize;
use thalweg_units::{Duration, DurationExt, Ecn, Instant, Rate};

use super::backlog::{Backlog, Room};
use super::fixed::{ONE, happens, ratio, times, to_share};
use super::{Dropped, Grid, Kind, Needs, Queue, QueueLimit, Queued, Setup, set};
use crate::read::Table;
use crate::{Dice, DropCause, Packet};

/// DualPI2 (RFC 9332).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DualPi2 {
    /// Whose rules apply where the two differ.
    pub law: DualLaw,
    /// The delay at which the C queue is held.
    pub target: Duration,
    /// Time between two updates of the probability.
    pub update: Duration,
    /// Weight of the distance to the target, per second.
    pub alpha: f64,
    /// Weight of the change of the delay, per second.
    pub beta: f64,
    /// The coupling factor.
    pub k: u64,
    /// The delay at which L's own marking begins.
    pub ramp_min: Duration,
    /// Over which range its probability rises to one; zero for a step.
    pub ramp: Duration,
    /// How many packets may wait in L without being marked by the ramp.
    pub least: usize,
    /// C's share of the link in per cent where both have something to send.
    pub weight_c: i64,
    /// Whether L drops when it is overloaded; if not, the probability is capped and the limit does it.
    pub drop_on_overload: bool,
}

/// Whose rules DualPI2 goes by.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DualLaw {
    /// RFC 9332 appendix A.
    #[default]
    Rfc9332,
    /// Linux 6.17.
    Linux,
}

impl Default for DualPi2 {
    fn default() -> Self {
        DualPi2 {
            law: DualLaw::Rfc9332,
            target: Duration::from_millis(15),
            update: Duration::from_millis(15),
            alpha: 0.15,
            beta: 3.0,
            k: 2,
            ramp_min: Duration::from_micros(800),
            ramp: Duration::from_micros(400),
            least: 1,
            weight_c: 10,
            drop_on_overload: true,
        }
    }
}

impl DualPi2 {
    /// What a law begins with.
    pub fn law(law: DualLaw) -> DualPi2 {
        match law {
            DualLaw::Rfc9332 => DualPi2::default(),
            DualLaw::Linux => DualPi2 {
                law,
                update: Duration::from_millis(16),
                alpha: 41.0 / 256.0,
                beta: 819.0 / 256.0,
                ramp_min: Duration::from_millis(1),
                ramp: Duration::ZERO,
                least: 0,
                ..DualPi2::default()
            },
        }
    }

    const SPANS: RangeInclusive<Duration> = Duration::from_micros(1)..=Duration::from_secs(60);
    const RAMPS: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(60);
    const UPDATES: RangeInclusive<Duration> = Duration::from_micros(100)..=Duration::from_secs(60);
    const GAINS: RangeInclusive<f64> = 0.0..=1000.0;
}

impl Kind for DualPi2 {
    const NAME: &'static str = "dualpi2";
    const EXAMPLE: &'static str = "{ name = \"dualpi2\", law = \"rfc9332\", target = \"15 ms\", update = \"15 ms\", \
        alpha = 0.15, beta = 3, k = 2, ramp_min = \"800 us\", ramp = \"400 us\", least = 1, weight_c = 10, \
        drop_on_overload = true }";
    const DOC: &'static str = r#"DualPI2 (RFC 9332): packets with ECT(1) or CE wait in a queue of their own,
        marked with k (default 2, 1 to 16) times the base probability or by a ramp that begins at ramp_min (default
        "800 us") and ends ramp (default "400 us", "0 s" is a step) later, if more than least packets (default 1)
        wait; all others are dropped or marked with its square; it is updated every update (default "15 ms", "100 us"
        to "60 s") with the gains alpha (default 0.15 per second) and beta (default 3 per second) for a target
        (default "15 ms"); weight_c (default 10, 1 to 99) is the share of the others in per cent; drop_on_overload
        (default true); law is "rfc9332" (default) or "linux"; default queue "250 ms" (RFC 9332), or "10000
        packets" with law = "linux""#;

    fn read(table: &dyn Table) -> Option<Self> {
        let mut law = DualLaw::default();
        set(table, "law", &mut law, |field| field.choice(&[("rfc9332", DualLaw::Rfc9332), ("linux", DualLaw::Linux)]));
        let mut dual = DualPi2::law(law);
        set(table, "target", &mut dual.target, |field| field.duration_in(Self::SPANS));
        set(table, "update", &mut dual.update, |field| field.duration_in(Self::UPDATES));
        set(table, "alpha", &mut dual.alpha, |field| field.number_in(Self::GAINS));
        set(table, "beta", &mut dual.beta, |field| field.number_in(Self::GAINS));
        set(table, "k", &mut dual.k, |field| field.count(1..=16));
        set(table, "ramp_min", &mut dual.ramp_min, |field| field.duration_in(Self::RAMPS));
        set(table, "ramp", &mut dual.ramp, |field| field.duration_in(Self::RAMPS));
        set(table, "least", &mut dual.least, |field| field.count(0..=1_000_000).map(|least| least as usize));
        set(table, "weight_c", &mut dual.weight_c, |field| field.count(1..=99).map(|weight| weight as i64));
        set(table, "drop_on_overload", &mut dual.drop_on_overload, |field| field.boolean());
        Some(dual)
    }

    fn limit(&self, _: Option<Rate>) -> QueueLimit {
        match self.law {
            DualLaw::Rfc9332 => QueueLimit::Time(Duration::from_millis(250)),
            DualLaw::Linux => QueueLimit::Packets(10_000),
        }
    }

    fn needs(&self, rate: Rate) -> Option<Needs> {
        Some(Needs::of_spans(rate, self.target, Duration::ZERO))
    }

    fn build<P: Debug + Send + 'static>(&self, setup: Setup) -> Box<dyn Queue<P>> {
        Box::new(Managed {
            low: Backlog::new(),
            classic: Backlog::new(),
            room: Room::new(setup.limit, Some(setup.rate)),
            grid: Grid::new(setup.start, self.update),
            controller: Controller::new(self),
            credit: self.first_credit(),
            sums: Sums::default(),
            dice: setup.dice,
            dual: self.clone(),
        })
    }
}

impl DualPi2 {
    /// L goes first.
    const fn first_credit(&self) -> i64 {
        FRAME as i64 * (2 * self.weight_c - 100)
    }
}

/// A full Ethernet frame.
const FRAME: u64 = 1514;

/// The PI controller of the base probability.
#[derive(Clone, Debug)]
struct Controller {
    /// Per second, in 2⁻³².
    alpha: i128,
    beta: i128,
    target: i128,
    /// The highest probability.
    cap: u64,
    probability: u64,
    /// The delay at the last update, in nanoseconds.
    delay: u64,
}

impl Controller {
    fn new(dual: &DualPi2) -> Self {
        // A power of two: exact but for what is cut off.
        let gain = |gain: f64| (gain * 4_294_967_296.0) as i128;
        Controller {
            alpha: gain(dual.alpha),
            beta: gain(dual.beta),
            target: i128::from(dual.target.nanos()),
            cap: if dual.drop_on_overload { ONE } else { ONE / dual.k.max(1) },
            probability: 0,
            delay: 0,
        }
    }

    fn update(&mut self, delay: u64) {
        let (now, before) = (i128::from(delay), i128::from(self.delay));
        let change = self.alpha * (now - self.target) + self.beta * (now - before);
        let probability = i128::from(self.probability) + (change << 28) / 1_000_000_000;
        self.probability = u64::try_from(probability.max(0)).unwrap_or(ONE).min(self.cap);
        self.delay = delay;
    }
}

/// Sums of probabilities: something happens whenever one passes a whole number (RFC 9332 appendix A).
#[derive(Clone, Debug, Default)]
struct Sums {
    low: u64,
    classic: u64,
}

fn recur(sum: &mut u64, probability: u64) -> bool {
    *sum += probability;
    let happens = *sum > ONE;
    if happens {
        *sum -= ONE;
    }
    happens
}

/// What becomes of a packet at dequeue.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Departure {
    Pass,
    Mark,
    Drop,
}

/// Two queues under DualPI2.
#[derive(Debug)]
struct Managed<P> {
    low: Backlog<P>,
    classic: Backlog<P>,
    room: Room,
    grid: Grid,
    controller: Controller,
    /// Whose turn it is: L's up to zero, C's above.
    credit: i64,
    sums: Sums,
    dice: Dice,
    dual: DualPi2,
}

impl<P> Managed<P> {
    fn bytes(&self) -> u64 {
        self.low.bytes() + self.classic.bytes()
    }

    fn catch_up(&mut self, now: Instant) {
        while let Some(at) = self.grid.tick(now) {
            let age = |backlog: &Backlog<P>| backlog.head().map_or(0, |head| at.saturating_since(head.at).nanos());
            let delay = age(&self.low).max(age(&self.classic));
            let before = (self.controller.probability, self.controller.delay);
            self.controller.update(delay);
            // An empty queue changes no more.
            if before == (self.controller.probability, self.controller.delay) {
                self.grid.skip(now);
            }
        }
    }

    fn push(&mut self, now: Instant, packet: Packet<P>) {
        match packet.ecn {
            Ecn::Ect1 | Ecn::Ce => self.low.push(now, packet),
            Ecn::NotEct | Ecn::Ect0 => self.classic.push(now, packet),
        }
    }

    /// The next packet by the weights, and whether it is of L.
    fn take(&mut self) -> Option<(Queued<P>, bool)> {
        let is_low = match (self.low.is_empty(), self.classic.is_empty()) {
            (true, true) => {
                self.credit = self.dual.first_credit();
                return None;
            }
            (false, false) => self.credit <= 0,
            (is_empty, _) => !is_empty,
        };
        let (queue, other, weight) = if is_low {
            (&mut self.low, &self.classic, self.dual.weight_c)
        } else {
            (&mut self.classic, &self.low, self.dual.weight_c - 100)
        };
        let queued = queue.pop()?;
        if !other.is_empty() {
            self.credit += weight * i64::from(queued.packet.size);
        }
        Some((queued, is_low))
    }

    /// L's own probability for a packet that has waited for so long.
    fn ramp(&self, sojourn: Duration) -> u64 {
        if self.low.len() < self.dual.least || sojourn <= self.dual.ramp_min {
            return 0;
        }
        ratio((sojourn - self.dual.ramp_min).nanos(), self.dual.ramp.nanos())
    }

    fn judge(&mut self, is_low: bool, sojourn: Duration) -> Departure {
        let base = self.controller.probability;
        let coupled = base.saturating_mul(self.dual.k);
        let squared = times(base, base);
        let is_overload = coupled >= ONE;
        match (self.dual.law, is_low) {
            (DualLaw::Rfc9332, true) if is_overload => {
                if self.dual.drop_on_overload && recur(&mut self.sums.low, squared) {
                    Departure::Drop
                } else if recur(&mut self.sums.low, coupled.min(ONE)) {
                    Departure::Mark
                } else {
                    Departure::Pass
                }
            }
            (DualLaw::Rfc9332, true) => {
                // The larger of the two, or L would not give way to C.
                let probability = self.ramp(sojourn).max(coupled);
                if recur(&mut self.sums.low, probability) { Departure::Mark } else { Departure::Pass }
            }
            (DualLaw::Rfc9332, false) => match recur(&mut self.sums.classic, squared) {
                // p'² at its most is 1/k²: there k p' is one.
                true if is_overload => Departure::Drop,
                true => Departure::Mark,
                false => Departure::Pass,
            },
            (DualLaw::Linux, _) => self.judge_linux(is_low, sojourn, base, coupled),
        }
    }

    fn judge_linux(&mut self, is_low: bool, sojourn: Duration, base: u64, coupled: u64) -> Departure {
        let is_step = is_low && self.ramp(sojourn) > 0;
        let by_step = if is_step { Departure::Mark } else { Departure::Pass };
        if self.bytes() < 2 * FRAME {
            return by_step;
        }
        let is_overload = coupled > ONE;
        let (dice, drops) = (&mut self.dice, self.dual.drop_on_overload);
        let mut squared = || happens(dice, base) && happens(dice, base);
        if !is_low {
            return match squared() {
                true if is_overload => Departure::Drop,
                true => Departure::Mark,
                false => Departure::Pass,
            };
        }
        if is_overload {
            return if drops && squared() { Departure::Drop } else { Departure::Mark };
        }
        if happens(&mut self.dice, coupled) { Departure::Mark } else { by_step }
    }
}

impl<P: Debug + Send> Queue<P> for Managed<P> {
    fn enqueue(&mut self, now: Instant, packet: Packet<P>, dropped: &mut Vec<Dropped<P>>) {
        self.catch_up(now);
        if self.room.fits(self.bytes(), self.len_packets(), packet.size) {
            self.push(now, packet);
        } else {
            dropped.push(Dropped { packet, at: now, cause: DropCause::QueueFull });
        }
    }

    fn enqueue_idle(&mut self, now: Instant, packet: Packet<P>, _: &mut Vec<Dropped<P>>) {
        self.catch_up(now);
        self.push(now, packet);
    }

    fn dequeue(&mut self, now: Instant, dropped: &mut Vec<Dropped<P>>) -> Option<Queued<P>> {
        self.catch_up(now);
        while let Some((mut queued, is_low)) = self.take() {
            let departure = self.judge(is_low, now.saturating_since(queued.at));
            let passes = match departure {
                Departure::Pass => true,
                Departure::Mark => queued.packet.try_mark(),
                Departure::Drop => false,
            };
            if passes {
                return Some(queued);
            }
            dropped.push(Dropped { packet: queued.packet, at: now, cause: DropCause::Aqm });
        }
        None
    }

    fn set_rate(&mut self, rate: Rate) {
        self.room.set_rate(rate);
    }

    fn signals(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("probability", to_share(self.controller.probability));
        tell("delay_ms", self.controller.delay as f64 / 1e6);
        tell("low_bytes", self.low.bytes() as f64);
    }

    fn len_bytes(&self) -> u64 {
        self.bytes()
    }

    fn len_packets(&self) -> usize {
        self.low.len() + self.classic.len()
    }
}

#[cfg(test)]
mod tests;
