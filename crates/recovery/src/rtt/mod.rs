//! The round-trip time of a path: what has been measured, and what has been made of it.
//!
//! Three consumers want different things of the same samples, and each has a policy of its own so that their effects
//! can be told apart:
//!
//! | consumer | policy | wants |
//! |---|---|---|
//! | probe timer ([`Rtt::probe_base`]) and time threshold ([`Rtt::loss_delay`]) | `rtt=` | the longest that an answer may take |
//! | pacing ([`Rtt::paced`]) | `pacing-rtt=` | what a window's worth of packets is spread over |
//! | end of slow start ([`Rtt::exit`]) | `exit-rtt=` | the first sign of a queue, and no jitter |
//!
//! | `rtt=` | updated | probe base, before the peer's ACK delay | file |
//! |---|---|---|---|
//! | `classic` | at every sample | `smoothed + max(4 variation, 1 ms)` | `classic.rs` |
//! | `per-round` | once per round trip | the same, at least the largest sample of the round | `per_round.rs` |
//! | `per-round(variations=n)` | once per round trip | `smoothed + max(n variation, 1 ms)`, at least the largest sample of the round | `per_round.rs` |
//! | `per-round(base=largest, variations=n)` | once per round trip | `largest sample ever + max(n variation, 1 ms)` | `per_round.rs` |
//! | `windowed` | once per round trip | `largest sample of recent rounds + max(variation, 1 ms)` | `windowed.rs` |
//!
//! [`Rtt`] takes every sample, keeps only the estimators that some consumer uses, and holds the numbers.

mod classic;
mod per_round;
#[cfg(test)]
mod tests;
mod windowed;

use thalweg_units::{Duration, Instant};

use crate::policies::{ExitRttPolicy, PacingRttPolicy, PerRoundBase, PerRoundParameters, RttPolicy};

use classic::Classic;
use per_round::PerRound;
use windowed::{Maxima, Recent};

/// What to assume before the first sample (kInitialRtt, RFC 9002 section 6.2.2).
///
/// Longer wastes time when the very first packet is lost; shorter sends spurious probes on satellite paths.
pub const INITIAL_RTT: Duration = Duration::from_millis(333);

/// The timer granularity to assume of both ends (kGranularity, RFC 9002 section 6.1.2).
pub const GRANULARITY: Duration = Duration::from_millis(1);

/// Which estimate each consumer goes by.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct RttPolicies {
    /// The probe timer and the time threshold of losses.
    pub probe: RttPolicy,
    /// Pacing.
    pub pacing: PacingRttPolicy,
    /// The end of slow start.
    pub exit: ExitRttPolicy,
}

/// The round-trip time of one path.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rtt {
    /// The newest sample, as measured.
    pub latest: Duration,
    /// The newest sample less the delay that the peer reports for its ACK (never taken below `min`).
    pub adjusted: Duration,
    /// The delay that the peer reports for the ACK of the newest sample, whether it was taken off or not.
    pub ack_delay: Duration,
    /// The smoothed estimate; before the first sample, what was assumed.
    pub smoothed: Duration,
    /// The mean deviation from it; before the first sample, half of what was assumed.
    pub variation: Duration,
    /// The smallest sample as measured, never reduced by a reported delay (RFC 9002 section 5.2).
    pub min: Duration,
    /// What pacing spreads a window over.
    pub paced: Duration,
    /// What a start compares to find that a queue builds up.
    pub exit: Duration,
    /// Whether there has been a sample.
    pub has_sample: bool,
    /// When the first sample was taken; persistent congestion asks for it (RFC 9002 section 7.6.2).
    pub first_sample: Option<Instant>,
    /// The next sample becomes the minimum.
    restarts_min: bool,
    policies: RttPolicies,
    classic: Option<Classic>,
    per_round: Option<PerRound>,
    maxima: Option<Maxima>,
    /// What [`Rtt::probe_base`] answers: asked for every packet sent, and changed by samples only.
    base: Duration,
    recent: Option<Recent>,
}

/// One valid measurement (RFC 9002 section 5.1).
#[derive(Copy, Clone, Debug)]
pub struct Sample {
    /// When the ACK arrived.
    pub now: Instant,
    /// Time from sending the largest newly acknowledged packet to `now`.
    pub latest: Duration,
    /// The delay that the peer reports, after the caps of RFC 9002 section 5.3.
    pub ack_delay: Duration,
    /// How much longer ago the oldest newly acknowledged packet was sent, where the smoothed estimate counts from it as
    /// in Linux's TCP (`tcp_clean_rtx_queue`). The newest sample and the minimum do not.
    pub held: Duration,
}

impl Sample {
    /// Of a peer that delays nothing.
    pub fn prompt(now: Instant, latest: Duration) -> Sample {
        Sample { now, latest, ack_delay: Duration::ZERO, held: Duration::ZERO }
    }
}

impl Rtt {
    /// An estimate that rests on nothing but an assumption, with the default policies for pacing and start.
    pub fn new(policy: RttPolicy, initial: Duration) -> Rtt {
        let (pacing, exit) = (PacingRttPolicy::default(), ExitRttPolicy::default());
        Rtt::of(RttPolicies { probe: policy, pacing, exit }, initial)
    }

    /// The same, with the policies given.
    pub fn of(policies: impl Into<RttPolicies>, initial: Duration) -> Rtt {
        let mut rtt = Rtt::assumed(policies.into(), initial);
        rtt.base = rtt.persistence_base();
        rtt
    }

    fn assumed(policies: RttPolicies, initial: Duration) -> Rtt {
        let RttPolicies { probe, pacing, exit } = policies;
        let uses_classic =
            probe == RttPolicy::Classic || pacing == PacingRttPolicy::Classic || exit == ExitRttPolicy::Classic;
        let uses_rounds =
            probe != RttPolicy::Classic || pacing == PacingRttPolicy::PerRound || exit == ExitRttPolicy::PerRound;
        let uses_recent = pacing == PacingRttPolicy::Short || exit == ExitRttPolicy::Short;
        Rtt {
            latest: initial,
            adjusted: initial,
            ack_delay: Duration::ZERO,
            smoothed: initial,
            variation: initial / 2,
            min: initial,
            paced: initial,
            exit: initial,
            has_sample: false,
            first_sample: None,
            restarts_min: false,
            policies,
            classic: uses_classic.then(Classic::default),
            per_round: uses_rounds.then(PerRound::default),
            maxima: (probe == RttPolicy::Windowed).then(Maxima::default),
            base: initial,
            recent: uses_recent.then(Recent::default),
        }
    }

    /// Takes a sample in.
    pub fn on_sample(&mut self, sample: Sample) {
        self.take_in(sample);
        let adjusted = self.adjusted.saturating_add(sample.held);
        if let Some(classic) = &mut self.classic {
            classic.on_sample(adjusted);
        }
        if let Some(per_round) = &mut self.per_round {
            if let Some(maxima) = &mut self.maxima {
                maxima.on_sample(adjusted);
            }
            let is_round_over = per_round.on_sample(sample.now, sample.latest, adjusted);
            if let Some(maxima) = self.maxima.as_mut().filter(|_| is_round_over) {
                maxima.end_round();
            }
        }
        if let Some(recent) = &mut self.recent {
            recent.on_sample(sample.now, adjusted);
        }
        self.tell_consumers();
        self.base = self.compute_base();
    }

    /// The part that every policy shares (RFC 9002 sections 5.1 to 5.3).
    fn take_in(&mut self, sample: Sample) {
        self.latest = sample.latest;
        self.ack_delay = sample.ack_delay;
        if !self.has_sample {
            self.has_sample = true;
            self.first_sample = Some(sample.now);
            self.min = sample.latest;
            self.adjusted = sample.latest;
            return;
        }
        let keeps_min = !core::mem::take(&mut self.restarts_min);
        self.min = if keeps_min { self.min.min(sample.latest) } else { sample.latest };
        // MUST NOT take the sample below the minimum: a peer that overstates its delay cannot make the path look faster
        // than it ever was.
        let has_room = sample.latest >= self.min.saturating_add(sample.ack_delay);
        self.adjusted = if has_room { sample.latest - sample.ack_delay } else { sample.latest };
    }

    fn tell_consumers(&mut self) {
        let classic = self.classic.map(|classic| (classic.smoothed, classic.variation));
        let per_round = self.per_round.map(|per_round| (per_round.smoothed, per_round.variation));
        let recent = self.recent.map(|recent| recent.min());
        let main = if self.policies.probe == RttPolicy::Classic { classic } else { per_round };
        if let Some((smoothed, variation)) = main {
            (self.smoothed, self.variation) = (smoothed, variation);
        }
        let smoothed =
            |estimate: Option<(Duration, Duration)>| estimate.map_or(self.smoothed, |(smoothed, _)| smoothed);
        self.paced = match self.policies.pacing {
            PacingRttPolicy::Bounded => self.smoothed.min(self.adjusted.saturating_mul(2)),
            PacingRttPolicy::Smoothed => self.smoothed,
            PacingRttPolicy::Classic => smoothed(classic),
            PacingRttPolicy::PerRound => smoothed(per_round),
            PacingRttPolicy::Short => recent.unwrap_or(self.adjusted),
        };
        self.exit = match self.policies.exit {
            ExitRttPolicy::Sample => self.adjusted,
            ExitRttPolicy::Classic => smoothed(classic),
            ExitRttPolicy::PerRound => smoothed(per_round),
            ExitRttPolicy::Short => recent.unwrap_or(self.adjusted),
        };
    }

    /// Forgets the minimum in favour of the newest sample (RFC 9002 section 5.2: SHOULD after persistent congestion).
    pub fn restart_min(&mut self) {
        if self.has_sample {
            self.min = self.latest;
        }
    }

    /// The same where there is no sample yet that is newer than the persistent congestion: the next one becomes the
    /// minimum.
    pub(crate) fn restart_min_with_next_sample(&mut self) {
        self.restarts_min = self.has_sample;
    }

    /// How many round trips a windowed maximum is to remember: the length of a cycle of the controller.
    pub(crate) fn set_memory(&mut self, rounds: u32) {
        if let Some(maxima) = &mut self.maxima {
            maxima.set_memory(rounds);
            self.base = self.compute_base();
        }
    }

    /// Slow start is over: what it did to the round-trip time says nothing about what follows.
    pub(crate) fn on_start_exit(&mut self) {
        if let Some(maxima) = &mut self.maxima {
            maxima.clear();
            self.base = self.compute_base();
        }
    }

    /// The probe timeout without ACK delay and backoff, as the policy has it (RFC 9002 section 6.2.1 for `classic`).
    ///
    /// Policies that update once per round trip answer with at least the largest sample since: an estimate that is a
    /// round trip old must not make the timer expire while the round-trip time rises.
    pub fn probe_base(&self) -> Duration {
        self.base
    }

    fn compute_base(&self) -> Duration {
        if !self.has_sample {
            // Nothing to be clever about.
            return self.persistence_base();
        }
        let over = |variations: u32| self.variation.saturating_mul(variations).max(GRANULARITY);
        let risen = self.per_round.map_or(Duration::ZERO, |per_round| per_round.largest_of_round());
        match self.policies.probe {
            RttPolicy::Classic => self.smoothed.saturating_add(over(4)),
            RttPolicy::PerRound(PerRoundParameters { base, variations }) => {
                let variations = over(u32::from(variations.get()));
                match base {
                    PerRoundBase::Smoothed => self.smoothed.saturating_add(variations).max(risen),
                    PerRoundBase::Largest => {
                        let largest = self.per_round.map_or(Duration::ZERO, |per_round| per_round.largest());
                        self.smoothed.max(largest).saturating_add(variations)
                    }
                }
            }
            RttPolicy::Windowed => match self.maxima.and_then(|maxima| maxima.largest()) {
                Some(largest) => largest.saturating_add(over(1)),
                None => self.smoothed.saturating_add(over(4)).max(risen),
            },
        }
    }

    /// `smoothed + max(4 variation, granularity)`, whatever the probe timer's policy: what persistent congestion is
    /// measured in (RFC 9002 section 7.6.1).
    pub fn persistence_base(&self) -> Duration {
        self.smoothed.saturating_add(self.variation.saturating_mul(4).max(GRANULARITY))
    }

    /// How long after it was sent a packet counts as lost once a later one is acknowledged: 9/8 of the larger of the
    /// smoothed and the newest round-trip time (RFC 9002 section 6.1.2).
    pub fn loss_delay(&self) -> Duration {
        let base = self.smoothed.max(self.latest);
        base.saturating_add(base / 8).max(GRANULARITY)
    }
}

/// `(old * weight + new) / parts`, where `new` weighs one part.
fn weighted(old: Duration, weight: u32, new: Duration, parts: u32) -> Duration {
    old.saturating_mul(weight).saturating_add(new) / parts
}
