//! Random numbers: named streams, and the distributions that links draw from.

use core::f64::consts::TAU;
use core::fmt;
use core::str::FromStr;

use rand_core::Rng;
use rand_pcg::Pcg64;
use serde::Serialize;
use thalweg_units::{Duration, DurationExt, math};

use crate::ConfigError;

/// Where streams of random numbers come from: a seed and a name.
///
/// Every consumer asks for a stream of its own by name, so that adding one (a flow, an impairment) leaves the numbers
/// of all others as they were.
#[derive(Clone, Debug)]
pub struct Streams {
    seed: u64,
    scope: String,
}

impl Streams {
    /// The streams of a run with this seed.
    pub fn new(seed: u64) -> Self {
        Streams { seed, scope: String::new() }
    }

    /// The streams of a part of the run: its names do not collide with those of other parts.
    pub fn scope(&self, name: &str) -> Streams {
        Streams { seed: self.seed, scope: format!("{}{name}/", self.scope) }
    }

    /// The stream called `name`.
    pub fn dice(&self, name: &str) -> Dice {
        let mut hash = FNV_OFFSET;
        for byte in self.seed.to_le_bytes().iter().chain(self.scope.as_bytes()).chain(name.as_bytes()) {
            hash = (hash ^ u128::from(*byte)).wrapping_mul(FNV_PRIME);
        }
        // The name chooses both the state and the sequence; PCG's own step spreads the bits of the hash.
        Dice { rng: Pcg64::new(hash, hash.rotate_left(64) ^ u128::from(self.seed)) }
    }

    /// 32 bytes from the stream called `name`, for what wants to be seeded itself.
    pub fn bytes(&self, name: &str) -> [u8; 32] {
        let mut bytes = [0; 32];
        self.dice(name).rng.fill_bytes(&mut bytes);
        bytes
    }
}

/// A stream for each flow that crosses a link, so that the packets of one do not shift the numbers of another.
#[derive(Clone, Debug)]
pub(crate) struct FlowDice {
    streams: Streams,
    /// By flow, as they appear.
    dice: Vec<Option<Dice>>,
}

/// Flows with higher numbers share a stream: a number is no reason to allocate without bound.
const MOST_FLOWS: usize = 1 << 16;

impl FlowDice {
    /// The streams called `name`.
    pub(crate) fn new(streams: &Streams, name: &str) -> Self {
        FlowDice { streams: streams.scope(name), dice: Vec::new() }
    }

    /// The stream of this flow.
    pub(crate) fn of(&mut self, flow: u32) -> &mut Dice {
        let index = (flow as usize).min(MOST_FLOWS);
        if self.dice.len() <= index {
            self.dice.resize(index + 1, None);
        }
        self.dice[index].get_or_insert_with(|| self.streams.dice(&index.to_string()))
    }
}

/// FNV-1a with 128 bits (draft-eastlake-fnv).
const FNV_OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const FNV_PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

/// A stream of random numbers (PCG XSL RR 128/64, the same on every machine).
#[derive(Clone, Debug)]
pub struct Dice {
    rng: Pcg64,
}

impl Dice {
    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.rng.next_u64()
    }

    /// Whether something of this probability happens. Draws a number even where the answer is certain, so that a change
    /// of a probability does not shift the numbers after it.
    pub fn chance(&mut self, probability: Probability) -> bool {
        let draw = self.bits();
        draw < probability.0 || probability.0 == u64::MAX
    }

    /// Uniform in [0, 1), in steps of 2⁻⁵³.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// A whole number below `bound` (0 when that is 0).
    pub fn below(&mut self, bound: u64) -> u64 {
        // Multiply-shift: the bias is below bound / 2^64.
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// Normal with mean 0 and deviation 1 (Box-Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = math::sqrt(-2.0 * math::ln(1.0 - self.unit()));
        radius * math::cos(TAU * self.unit())
    }

    /// Exponential with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -math::ln(1.0 - self.unit())
    }

    /// Poisson with this mean, by counting uniform draws until their product falls below `exp(-mean)` (Knuth). For
    /// small means: the number of draws is the result and one.
    fn poisson(&mut self, mean: f64) -> u32 {
        let floor = math::exp(-mean);
        let (mut count, mut product) = (0, self.unit());
        while product > floor {
            product *= self.unit();
            count += 1;
        }
        count
    }
}

/// A probability, to 2⁻⁵³. Written as a share ("0.001") or in per cent ("0.1 %").
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Default, Serialize)]
pub struct Probability(u64);

/// Keeps the bits that an `f64` holds, so that a share and its ratio are the same probability.
const COARSE: u64 = !0x7ff;

impl Probability {
    /// Never.
    pub const NEVER: Probability = Probability(0);
    /// Always.
    pub const ALWAYS: Probability = Probability(u64::MAX);

    /// From a share between 0 and 1.
    ///
    /// # Errors
    /// When it is not between 0 and 1.
    pub fn new(share: f64) -> Result<Self, ConfigError> {
        if !(0.0..=1.0).contains(&share) {
            return Err(ConfigError::Probability(share.to_string()));
        }
        // 2^64 as f64; the cast saturates at the top.
        let scaled = (share * 18_446_744_073_709_551_616.0) as u64;
        Ok(if scaled == u64::MAX { Probability::ALWAYS } else { Probability(scaled & COARSE) })
    }

    /// `num` in `den`; [`ALWAYS`](Self::ALWAYS) when that is one or more.
    pub const fn ratio(num: u64, den: u64) -> Self {
        if num >= den {
            return Probability::ALWAYS;
        }
        Probability((((num as u128) << 64) / den as u128) as u64 & COARSE)
    }

    /// As a share between 0 and 1.
    pub fn share(self) -> f64 {
        if self == Probability::ALWAYS { 1.0 } else { self.0 as f64 / 18_446_744_073_709_551_616.0 }
    }
}

impl FromStr for Probability {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let refuse = || ConfigError::Probability(text.to_owned());
        let (number, scale) = match text.trim().strip_suffix('%') {
            Some(number) => (number.trim_end(), 100.0),
            None => (text.trim(), 1.0),
        };
        let value: f64 = number.parse().map_err(|_| refuse())?;
        Probability::new(value / scale).map_err(|_| refuse())
    }
}

impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Fifteen decimals are what the 53 bits hold.
        let text = format!("{:.15}", self.share());
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// A random span of time, never negative.
#[derive(Copy, Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Spread {
    /// Always this long.
    Fixed(Duration),
    /// Uniform between the two, both included.
    Uniform(Duration, Duration),
    /// Normal around `mean`; what falls below zero is zero.
    Normal {
        /// Mean before the cut at zero.
        mean: Duration,
        /// Standard deviation.
        deviation: Duration,
    },
    /// Exponential with this mean.
    Exponential(Duration),
    /// `median × exp(sigma × N(0, 1))`.
    LogNormal {
        /// Half of the draws are below.
        median: Duration,
        /// Deviation of the logarithm.
        sigma: f64,
    },
    /// Pareto (Lomax, starting at zero): `scale × (u^(-1/shape) - 1)`; heavy tail.
    Pareto {
        /// Scale.
        scale: Duration,
        /// Tail exponent; the mean is `scale / (shape - 1)` above 1 and infinite below.
        shape: f64,
    },
    /// Waiting for a crowded wireless channel, as modeled by draft-huitema-ccwg-c4-test-04: a Poisson number of slots
    /// of 1 ms (mean 1), less a part of the last; and for a share of the packets a Poisson number of slots of 7.5 ms
    /// (mean 12) more, so that the whole lasts about as long as given here. The mean is 0.32 ms below it, and never
    /// less than 0.68 ms.
    Contention(Duration),
}

/// A slot of a channel that is free most of the time.
const SHORT_SLOT: f64 = 1e6;
/// A slot of a channel that others use.
const LONG_SLOT: f64 = 7.5e6;
/// How many of the long slots a packet waits for that meets them, on average.
const LONG_SLOTS: f64 = 12.0;

/// No draw is longer: half an hour is beyond what any path does, and keeps a heavy tail from stopping the world.
const LONGEST: f64 = 1.8e12;

impl Spread {
    /// Draws a span.
    pub fn draw(&self, dice: &mut Dice) -> Duration {
        let nanos = |span: Duration| span.nanos() as f64;
        let drawn = match *self {
            Spread::Fixed(span) => return span,
            Spread::Uniform(low, high) => {
                let width = (high.saturating_sub(low)).nanos().saturating_add(1);
                return low + Duration::from_nanos(dice.below(width));
            }
            Spread::Normal { mean, deviation } => nanos(mean) + nanos(deviation) * dice.normal(),
            Spread::Exponential(mean) => nanos(mean) * dice.exponential(),
            Spread::LogNormal { median, sigma } => nanos(median) * math::exp(sigma * dice.normal()),
            Spread::Pareto { scale, shape } => {
                nanos(scale) * (math::pow(1.0 - dice.unit(), -1.0 / shape.max(1e-6)) - 1.0)
            }
            Spread::Contention(mean) => {
                let (slots, part) = (dice.poisson(1.0), dice.unit());
                let short = if slots > 0 { f64::from(slots) - part } else { 0.0 };
                let share = (nanos(mean) - SHORT_SLOT) / (LONG_SLOT * LONG_SLOTS);
                let long = if dice.unit() < share { f64::from(dice.poisson(LONG_SLOTS)) } else { 0.0 };
                short * SHORT_SLOT + long * LONG_SLOT
            }
        };
        // Casts of floats saturate, and NaN becomes zero.
        Duration::from_nanos(drawn.clamp(0.0, LONGEST) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_stream_depends_on_seed_scope_and_name_and_on_nothing_else() {
        let first = |seed, scope: &str, name: &str| Streams::new(seed).scope(scope).dice(name).bits();
        assert_eq!(first(1, "up", "loss"), first(1, "up", "loss"));
        let all = [first(1, "up", "loss"), first(2, "up", "loss"), first(1, "down", "loss"), first(1, "up", "jitter")];
        for (i, a) in all.iter().enumerate() {
            assert!(all.iter().skip(i + 1).all(|b| a != b));
        }
        assert_ne!(Streams::new(1).bytes("a"), Streams::new(1).bytes("b"));
    }

    #[test]
    fn the_numbers_do_not_change_between_releases() {
        // Committed values: if these change, no recorded run can be repeated.
        let mut dice = Streams::new(7).scope("sat/down").dice("loss");
        assert_eq!([dice.bits(), dice.bits()], COMMITTED);
    }

    const COMMITTED: [u64; 2] = [12_826_416_480_776_475_690, 6_047_601_648_901_646_976];

    #[test]
    fn probabilities_are_read_and_kept() {
        assert_eq!("0.25".parse::<Probability>().unwrap(), Probability::ratio(1, 4));
        assert_eq!("25 %".parse::<Probability>().unwrap(), Probability::ratio(1, 4));
        assert_eq!("100%".parse::<Probability>().unwrap(), Probability::ALWAYS);
        assert_eq!("0.001".parse::<Probability>().unwrap(), Probability::ratio(1, 1000));
        for text in ["0", "1", "0.001", "0.25", "0.333"] {
            assert_eq!(text.parse::<Probability>().unwrap().to_string(), text);
        }
        assert_eq!("0".parse::<Probability>().unwrap(), Probability::NEVER);
        for bad in ["1.1", "-0.1", "101 %", "", "NaN", "often"] {
            let message = bad.parse::<Probability>().unwrap_err().to_string();
            assert!(message.contains("between 0 and 1"), "{message}");
        }
        let mut dice = Streams::new(1).dice("p");
        assert!((0..1000).all(|_| dice.chance(Probability::ALWAYS)));
        assert!((0..1000).all(|_| !dice.chance(Probability::NEVER)));
    }

    /// Mean and deviation of a spread over many draws, in milliseconds.
    fn moments(spread: Spread) -> (f64, f64) {
        let mut dice = Streams::new(3).dice("spread");
        let n = 200_000;
        let draws: Vec<f64> = (0..n).map(|_| spread.draw(&mut dice).nanos() as f64 / 1e6).collect();
        let mean = draws.iter().sum::<f64>() / f64::from(n);
        let variance = draws.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / f64::from(n);
        (mean, variance.sqrt())
    }

    #[test]
    fn spreads_have_the_moments_they_promise() {
        let near = |spread, mean: f64, deviation: f64| {
            let (m, d) = moments(spread);
            assert!((m - mean).abs() < 0.015 * mean.max(1.0), "{spread:?}: mean {m}, not {mean}");
            assert!((d - deviation).abs() < 0.03 * deviation.max(0.1), "{spread:?}: deviation {d}, not {deviation}");
        };
        near(Spread::Fixed(3 * MS), 3.0, 0.0);
        near(Spread::Uniform(2 * MS, 6 * MS), 4.0, 4.0 / 12f64.sqrt());
        near(Spread::Normal { mean: 50 * MS, deviation: 5 * MS }, 50.0, 5.0);
        near(Spread::Exponential(4 * MS), 4.0, 4.0);
        // mean = m e^(s²/2); variance = m² (e^(s²) - 1) e^(s²)
        near(Spread::LogNormal { median: 2 * MS, sigma: 0.5 }, 2.266, 1.208);
        // Lomax: mean = scale / (a - 1); variance = scale² a / ((a-1)² (a-2))
        near(Spread::Pareto { scale: 30 * MS, shape: 11.0 }, 3.0, 3.317);
        // Short slots: 1 - (1 - 1/e)/2 = 0.684 with variance 1 + (1 - 1/e)/3 - (1 - 1/e)²/4 - 1/e = 0.743, as the part
        // is independent of the number, unless that is zero. Long slots: of a share x, 90 ms with variance x (90² + 12
        // × 7.5²) - (90 x)².
        near(Spread::Contention(MS), 0.684, 0.862);
        let (x, long) = (6.0 / 90.0, 90.0 * 90.0 + 12.0 * 7.5 * 7.5);
        near(Spread::Contention(7 * MS), 6.684, f64::sqrt(0.743 + x * long - 36.0));
    }

    #[test]
    fn no_spread_is_negative_or_endless() {
        let mut dice = Streams::new(3).dice("spread");
        for spread in [
            Spread::Normal { mean: Duration::ZERO, deviation: 5 * MS },
            Spread::Pareto { scale: 1000 * MS, shape: 0.0 },
            Spread::LogNormal { median: MS, sigma: f64::NAN },
            Spread::Uniform(5 * MS, MS),
        ] {
            assert!((0..10_000).all(|_| spread.draw(&mut dice) <= Duration::from_secs(1800)), "{spread:?}");
        }
    }
}
