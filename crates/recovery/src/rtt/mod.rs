//! The round-trip time of a path: what has been measured, and what has been made of it.
//!
//! [`Rtt`] holds the numbers; the rule that updates them is a policy (`rtt=…`) in a file of its own.

pub(crate) mod classic;

use thalweg_units::{Duration, Instant};

use crate::config::RttPolicy;

/// What to assume before the first sample (kInitialRtt, RFC 9002 section 6.2.2).
///
/// Longer wastes time when the very first packet is lost; shorter sends spurious probes on satellite paths.
pub const INITIAL_RTT: Duration = Duration::from_millis(333);

/// The timer granularity to assume of both ends (kGranularity, RFC 9002 section 6.1.2).
pub const GRANULARITY: Duration = Duration::from_millis(1);

/// The round-trip time of one path.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Rtt {
    /// The newest sample, as measured.
    pub latest: Duration,
    /// The newest sample less the delay that the peer reports for its ACK (never taken below `min`).
    pub adjusted: Duration,
    /// The smoothed estimate; before the first sample, what was assumed.
    pub smoothed: Duration,
    /// The mean deviation from it; before the first sample, half of what was assumed.
    pub variation: Duration,
    /// The smallest sample as measured, never reduced by a reported delay (RFC 9002 section 5.2).
    pub min: Duration,
    /// Whether there has been a sample.
    pub has_sample: bool,
    /// When the first sample was taken; persistent congestion asks for it (RFC 9002 section 7.6.2).
    pub first_sample: Option<Instant>,
    policy: RttPolicy,
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
}

impl Rtt {
    /// An estimate that rests on nothing but an assumption.
    pub fn new(policy: RttPolicy, initial: Duration) -> Rtt {
        Rtt {
            latest: initial,
            adjusted: initial,
            smoothed: initial,
            variation: initial / 2,
            min: initial,
            has_sample: false,
            first_sample: None,
            policy,
        }
    }

    /// Takes a sample in.
    pub fn on_sample(&mut self, sample: Sample) {
        match self.policy {
            RttPolicy::Classic => classic::on_sample(self, sample),
        }
    }

    /// Forgets the minimum in favour of the newest sample (RFC 9002 section 5.2: SHOULD after persistent congestion).
    pub fn restart_min(&mut self) {
        if self.has_sample {
            self.min = self.latest;
        }
    }

    /// The probe timeout without ACK delay and backoff: `smoothed + max(4 variation, granularity)` (RFC 9002 section 6.2.1).
    pub fn probe_base(&self) -> Duration {
        self.smoothed.saturating_add(self.variation.saturating_mul(4).max(GRANULARITY))
    }

    /// How long after it was sent a packet counts as lost once a later one is acknowledged: 9/8 of the larger of the smoothed and
    /// the newest round-trip time (RFC 9002 section 6.1.2).
    pub fn loss_delay(&self) -> Duration {
        let base = self.smoothed.max(self.latest);
        base.saturating_add(base / 8).max(GRANULARITY)
    }
}
