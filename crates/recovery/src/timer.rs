//! The one timer of a connection: times for loss, probes (RFC 9002 appendix A.8).

use thalweg_units::{Duration, Instant};

use crate::Recovery;
use crate::path::Path;
use crate::policies::AckAllowancePolicy;
use crate::probe::{self, Silence};
use crate::rtt::Rtt;
use crate::space::Space;
use crate::trace::{Event, TimerKind};
use crate::types::SpaceId;

/// What the one timer waits for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Timer {
    pub(crate) at: Instant,
    pub(crate) kind: TimerKind,
    pub(crate) space: SpaceId,
}

impl<T: Clone> Recovery<T> {
    /// How long the probe timer waits on a path that has been silent for `count` expiries, when the peer may hold
    /// acknowledgments back for `allowance`.
    pub(crate) fn timeout_after(&self, path: Option<&Path>, allowance: Duration, count: u32) -> Duration {
        let assumed = || Rtt::of(&self.config.policies, self.config.initial_rtt).probe_base();
        let base = path.map_or_else(assumed, |path| path.rtt().probe_base());
        let base = base.saturating_add(allowance);
        if count == 0 {
            // No policy changes the first wait.
            return base;
        }
        let silence = Silence {
            base,
            idle_timeout: self.idle_timeout,
            crowd: path.is_some_and(Path::is_lossy).then_some(self.config.seed),
        };
        probe::timeout(self.config.policies.probe, silence, count)
    }

    /// For how long the peer may hold back the acknowledgment of what is in flight in a space.
    fn ack_allowance(&self, space: &Space<T>) -> Duration {
        match self.config.policies.ack_allowance {
            _ if !space.id().is_data() => Duration::ZERO,
            // With as many in flight one of them brings an acknowledgment at once, whatever the peer was asked for.
            AckAllowancePolicy::Lone if space.eliciting() >= self.packets_per_ack => {
                space.longest_hold().min(self.max_ack_delay)
            }
            _ => self.max_ack_delay,
        }
    }

    /// RFC 9002 appendix A.8.
    pub(crate) fn set_timer(&mut self, now: Instant) {
        let timer = self.next_timer(now);
        if timer != self.timer {
            self.timer = timer;
            if self.trace.is_on() {
                let event = match timer {
                    Some(Timer { at, kind, space }) => Event::TimerSet { kind, space, delay: at.saturating_since(now) },
                    None => Event::TimerCancelled,
                };
                let path = timer.map_or(self.paths.active(), |timer| self.paths.of_space(timer.space));
                self.trace.push(now, path, event);
            }
        }
    }

    fn next_timer(&mut self, now: Instant) -> Option<Timer> {
        if self.spaces.has_further() {
            return self.next_timer_of_several();
        }
        // A time for loss comes first: what is lost by then makes probing pointless.
        let loss = self.spaces.earliest(Space::loss_time);
        let loss = loss.map(|(at, space)| Timer { at, kind: TimerKind::LossTime, space });
        if loss.is_some() || self.amplification_limited {
            return loss;
        }
        // Without a path there is nothing to probe on.
        let path = self.paths.active_path();
        path?;
        let (count, expired) = path.map_or((0, None), |path| (path.pto_count(), path.last_pto()));
        let probe = self.spaces.earliest(|space| {
            // Not for application data before the handshake is confirmed: the peer may lack the keys to answer (RFC
            // 9002 section 6.2.1).
            let last = space.last_eliciting().filter(|_| self.handshake_confirmed || !space.id().is_data())?;
            // Counted from the latest expiry in the row even if no probe could be sent then.
            Some(last.max(expired.unwrap_or(last)) + self.timeout_after(path, self.ack_allowance(space), count))
        });
        let probe = probe.map(|(at, space)| Timer { at, kind: TimerKind::Probe, space });
        if probe.is_some() || self.peer_validated {
            self.deadlocked_since = None;
            return probe;
        }
        // A client with nothing in flight that the server may not be allowed to answer: without a probe both would wait
        // for ever (RFC 9002 section 6.2.2.1).
        let space = if self.has_handshake_keys { SpaceId::Handshake } else { SpaceId::Initial };
        let is_started = self.spaces.iter().any(Space::has_sent);
        if !is_started {
            return None;
        }
        // Counted from when it began, not from now: 0-RTT data that go on being sent would push the probe out without
        // end.
        let since = *self.deadlocked_since.get_or_insert(now);
        let wait = self.timeout_after(path, Duration::ZERO, count);
        Some(Timer { at: since.max(expired.unwrap_or(since)) + wait, kind: TimerKind::Probe, space })
    }
    /// The same where several paths have spaces of their own: by then the handshake is confirmed, and a time for loss
    /// hides no probe timer but that of its own space.
    fn next_timer_of_several(&self) -> Option<Timer> {
        let of_space = |space: &Space<T>| {
            let id = space.id();
            if let Some(at) = space.loss_time() {
                return Some(Timer { at, kind: TimerKind::LossTime, space: id });
            }
            let path = self.paths.get(self.paths.of_space(id))?;
            let is_first = id == SpaceId::DATA;
            if path.is_amplification_limited() || is_first && self.amplification_limited {
                return None;
            }
            let last = space.last_eliciting()?;
            let wait = self.timeout_after(Some(path), self.ack_allowance(space), path.pto_count());
            let at = last.max(path.last_pto().unwrap_or(last)) + wait;
            Some(Timer { at, kind: TimerKind::Probe, space: id })
        };
        self.spaces.iter().filter_map(of_space).min_by_key(|timer| (timer.at, timer.kind == TimerKind::Probe))
    }
}
