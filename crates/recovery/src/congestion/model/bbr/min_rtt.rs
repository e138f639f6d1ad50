//! The minimum round-trip time, and ProbeRTT, which makes room for a lower one (section 5.3.4 of the draft).

use thalweg_units::{Duration, Instant};

use super::Bbr;
use super::phase::Phase;

/// MinRTTFilterLen.
const FILTER: Duration = Duration::from_secs(10);
/// ProbeRTTInterval: the longest time without a round trip as short as the shortest, or a probe for one.
const PROBE_INTERVAL: Duration = Duration::from_secs(5);
/// ProbeRTTDuration.
const PROBE_DURATION: Duration = Duration::from_millis(200);

/// The smallest round-trip times of the last five and of the last ten seconds.
#[derive(Copy, Clone, Debug)]
pub(super) struct MinRtt {
    /// The minimum; `None` before the first sample.
    pub(super) value: Option<Duration>,
    since: Instant,
    /// The minimum since the last probe, and when it was seen.
    recent: Option<Duration>,
    recent_since: Instant,
}

impl MinRtt {
    pub(super) fn new(now: Instant) -> MinRtt {
        MinRtt { value: None, since: now, recent: None, recent_since: now }
    }

    /// UpdateMinRTT. Returns whether the recent minimum had expired.
    pub(super) fn update(&mut self, now: Instant, sample: Option<Duration>) -> bool {
        let is_recent_expired = now > self.recent_since + PROBE_INTERVAL;
        if let Some(rtt) = sample
            && (is_recent_expired || self.recent.is_none_or(|recent| rtt < recent))
        {
            (self.recent, self.recent_since) = (Some(rtt), now);
        }
        let is_expired = now > self.since + FILTER;
        if let Some(recent) = self.recent
            && (is_expired || self.value.is_none_or(|value| recent < value))
        {
            (self.value, self.since) = (Some(recent), self.recent_since);
        }
        is_recent_expired
    }

    /// A probe has ended: the next one is due an interval later.
    pub(super) fn on_probed(&mut self, now: Instant) {
        self.recent_since = now;
    }
}

/// How far a probe has come.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct ProbeRtt {
    /// When it may end; `None` until the flight is small enough.
    done_at: Option<Instant>,
    /// A round has passed since.
    round_done: bool,
    /// A packet has asked for the acknowledgment that ends it.
    pub(super) has_asked: bool,
}

impl Bbr {
    /// CheckProbeRTT.
    pub(super) fn check_probe_rtt(&mut self, now: Instant, is_due: bool) {
        self.stats.rtt_probes_skipped +=
            u64::from(self.phase != Phase::ProbeRtt && is_due && self.connection.idle_restart);
        if self.phase != Phase::ProbeRtt && is_due && !self.connection.idle_restart {
            // With the window of before: in ProbeRTT only a larger one would be kept.
            self.save_window();
            self.go_to(Phase::ProbeRtt);
            self.probe_rtt = ProbeRtt::default();
            self.connection.limited_by_probe = None;
            self.cycle.on_probe_stopped();
            self.begin_round();
        }
        if self.phase == Phase::ProbeRtt {
            self.carry_on_probe_rtt(now);
        }
        self.connection.idle_restart = false;
    }

    /// HandleProbeRTT.
    fn carry_on_probe_rtt(&mut self, now: Instant) {
        // Low rates are of its own making.
        let from = self.connection.limited_by_probe.map_or(self.connection.delivered, |(from, _)| from);
        self.connection.limited_by_probe =
            Some((from, self.connection.delivered.saturating_add(self.connection.in_flight).max(1)));
        if self.probe_rtt.done_at.is_some() {
            self.probe_rtt.round_done |= self.rounds.started;
            if self.probe_rtt.round_done {
                self.check_probe_rtt_done(now);
            }
        } else if self.connection.in_flight <= self.probe_rtt_window() {
            self.probe_rtt = ProbeRtt { done_at: Some(now + PROBE_DURATION), ..ProbeRtt::default() };
            self.begin_round();
        }
    }

    /// Whether the acknowledgment of a packet sent now comes when ProbeRTT may end, and not before. Where a round trip
    /// takes longer than the probe, that is the first packet after the flight has become small, which ends the round.
    pub(super) fn can_end_probe_rtt(&self, now: Instant) -> bool {
        let arrives = now + self.path.min_rtt.value.unwrap_or_default();
        self.phase == Phase::ProbeRtt && self.probe_rtt.done_at.is_some_and(|done| arrives > done)
    }

    /// A packet has left.
    pub(super) fn note_prompt_ack(&mut self, now: Instant) {
        self.probe_rtt.has_asked |= self.can_end_probe_rtt(now);
    }

    /// CheckProbeRTTDone.
    pub(super) fn check_probe_rtt_done(&mut self, now: Instant) {
        if self.probe_rtt.done_at.is_some_and(|done| now > done) {
            self.path.min_rtt.on_probed(now);
            self.restore_window();
            self.exit_probe_rtt(now);
        }
    }

    /// ExitProbeRTT. The queue is gone already, so that nothing is left to do in Down.
    fn exit_probe_rtt(&mut self, now: Instant) {
        self.path.short_term.reset();
        if self.startup.full_pipe.reached {
            self.start_down(now);
            self.go_to(Phase::Cruise);
        } else {
            self.enter_startup();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, ms};

    #[test]
    fn the_minimum_is_taken_over_ten_seconds_and_is_due_after_five() {
        let mut min = MinRtt::new(at(0));
        assert!(!min.update(at(100), Some(ms(50))));
        assert_eq!(min.value, Some(ms(50)));
        assert!(!min.update(at(5_100), Some(ms(60))), "five seconds and no longer");
        assert!(min.update(at(5_101), Some(ms(70))), "due");
        assert_eq!(min.value, Some(ms(50)), "what the last probe has seen is remembered");
        assert!(!min.update(at(5_200), Some(ms(65))), "the new interval has begun with this sample");
        min.update(at(10_100), Some(ms(66)));
        assert_eq!(min.value, Some(ms(50)));
        min.update(at(10_101), Some(ms(66)));
        assert_eq!(min.value, Some(ms(65)), "the lowest of the last interval");
    }

    #[test]
    fn a_lower_sample_counts_at_once() {
        let mut min = MinRtt::new(at(0));
        min.update(at(1_000), Some(ms(50)));
        min.update(at(4_000), Some(ms(40)));
        assert_eq!(min.value, Some(ms(40)));
        assert!(!min.update(at(9_000), None), "and puts the next probe off");
        assert!(min.update(at(9_001), None));
    }
}
