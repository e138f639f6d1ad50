//! Helpers that tests of several modules share: short spans, and ACK events made by hand.

use thalweg_units::{Duration, Instant};

use crate::congestion::{AckEvent, CongestionEvent, Decrease, Marks, RecoveryPeriod};
use crate::delivery::Round;
use crate::policies::RttPolicy;
use crate::rtt::{Rtt, Sample};
use crate::trace::CongestionCause;

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) fn at(at: u64) -> Instant {
    Instant::ZERO + ms(at)
}

/// A stage for a controller: a time, a round-trip estimate and events that refer to both.
pub(crate) struct Scene {
    pub(crate) now: Instant,
    pub(crate) rtt: Rtt,
    pub(crate) round: u64,
    pub(crate) episode: u32,
}

impl Scene {
    pub(crate) fn new() -> Scene {
        Scene { now: Instant::ZERO, rtt: Rtt::new(RttPolicy::Classic, ms(100)), round: 0, episode: 0 }
    }

    pub(crate) fn ack(&mut self, growth: u64, sample: Option<Duration>, round_started: bool) -> AckEvent<'_> {
        if let Some(latest) = sample {
            self.rtt.on_sample(Sample::prompt(self.now, latest));
        }
        self.round += u64::from(round_started);
        self.event(growth, sample.is_some(), round_started)
    }

    pub(crate) fn ack_with_delay(
        &mut self,
        growth: u64,
        latest: Duration,
        ack_delay: Duration,
        round_started: bool,
    ) -> AckEvent<'_> {
        self.rtt.on_sample(Sample { ack_delay, ..Sample::prompt(self.now, latest) });
        self.event(growth, true, round_started)
    }

    pub(crate) fn congestion(&mut self, cause: CongestionCause) -> AckEvent<'_> {
        self.episode += 1;
        // What the default answer to marks asks for.
        let decrease = if cause == CongestionCause::Ecn { Decrease::Abe } else { Decrease::AsLoss };
        let congestion = Some(CongestionEvent { cause, episode: self.episode, decrease });
        AckEvent { congestion, ..self.event(0, false, false) }
    }

    pub(crate) fn persistent_congestion(&mut self) -> AckEvent<'_> {
        AckEvent { persistent_congestion: true, ..self.congestion(CongestionCause::Loss) }
    }

    fn event(&self, growth: u64, has_rtt_sample: bool, started: bool) -> AckEvent<'_> {
        AckEvent {
            now: self.now,
            rtt: &self.rtt,
            has_rtt_sample,
            acked: growth,
            growth,
            sent: None,
            arrivals: &[],
            lost: 0,
            losses: &[],
            marks: Marks::default(),
            delivered: 0,
            prior_in_flight: 0,
            bytes_in_flight: 0,
            round: Round { count: self.round, started },
            delivery: None,
            application_limited: false,
            period: RecoveryPeriod { in_recovery: false, is_fresh: growth > 0 },
            congestion: None,
            persistent_congestion: false,
        }
    }
}
