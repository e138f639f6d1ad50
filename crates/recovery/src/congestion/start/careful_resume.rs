//! Careful Resume (RFC 9959): a start that begins where an earlier connection has been.
//!
//! It wraps another start. Without a memory of the path, or once it is done, every question goes to that one.
//!
//! ```text
//! Reconnaissance  the wrapped start, until the path is confirmed: no loss, no mark, a round-trip time like the saved one
//! Confirmed       the same, until the window limits the sender
//! Unvalidated     window = jump, spread over a round trip; until it is used up, a round trip has passed, or the first
//!                 packet of the jump is acknowledged
//! Validating      window = what is in flight, then growth as usual; until the last packet of the jump is acknowledged
//! Safe Retreat    (congestion in either) half of what the path has proven to hold; no growth until the jump is settled,
//!                 then slow start up to half of what it has proven by then
//! Normal          the wrapped start
//! ```
//!
//! `PipeSize` is what the path has proven to hold: what was in flight at the jump, or what has been delivered since if
//! that is more. A count that adds every acknowledgment to what was in flight would count the packets that were on their
//! way at the jump twice; the example of RFC 9959 appendix B counts them once.
//!
//! The bolder rules take the round-trip time of the handshake for the reconnaissance, so that the jump comes with the
//! first flight. They never send faster than the earlier connection did: over a shorter round trip the window shrinks
//! with it.

use thalweg_units::{Duration, DurationExt, Instant};

use super::{Congested, Departure, Proposal, Start};
use crate::choice::choices;
use crate::congestion::window::View;
use crate::congestion::{AckEvent, Birth, PathMemory};
use crate::pacing;
use crate::trace::{StartExit, State};

choices! {
    #[doc = "How a connection over a known path uses what an earlier one has learned; the start is wrapped by it."]
    ResumePolicy, "resume" {
        Off "off",
            "not at all",
            "unless the same paths are used again and again";
        Careful "careful",
            "a jump to half of the saved window once a first flight has been acknowledged, and a retreat if that was too much (RFC 9959)",
            "long or fast paths that are used again: saves most round trips of a start";
        HandshakeHalf "handshake/half",
            "as careful, but the round-trip time of the handshake confirms the path, and the jump comes with the first flight",
            "as careful, where one more round trip matters";
        HandshakeFull "handshake/full",
            "as handshake/half, with a jump to all of what the earlier connection filled",
            "links that nobody else uses and whose rate does not change";
    } default Off
}

/// A memory older than this is not used. RFC 9959 section 4.1 asks for a limit and leaves it open; an hour is what
/// TLS tickets of servers that change often live.
pub(crate) const LIFETIME: Duration = Duration::from_secs(3_600);
/// The round-trip time is another path's if it is this fraction of the saved one, or less (RFC 9959 section 4.2).
const SHORTER: u32 = 2;
/// The same, if it is more than this many times the saved one: what was learned says nothing about such a path.
const LONGER: u32 = 10;
/// The same for the rules that have nothing but the handshake to go by.
const LONGER_THAN_HANDSHAKE: u32 = 2;

/// The largest jump in bytes, whatever was saved (max_jump): 8 Gbps over a second.
const MAX_JUMP: u64 = 1 << 30;

/// What differs between the rules.
#[derive(Copy, Clone, Debug)]
struct Rules {
    /// The first round-trip time confirms the path.
    by_handshake: bool,
    /// The jump goes to the saved window divided by this.
    divisor: u64,
}

impl ResumePolicy {
    fn rules(self) -> Option<Rules> {
        match self {
            ResumePolicy::Off => None,
            ResumePolicy::Careful => Some(Rules { by_handshake: false, divisor: 2 }),
            ResumePolicy::HandshakeHalf => Some(Rules { by_handshake: true, divisor: 2 }),
            ResumePolicy::HandshakeFull => Some(Rules { by_handshake: true, divisor: 1 }),
        }
    }
}

/// Wraps `start` by what the path's policy makes of its memory. Without a policy, or without a memory that may be used,
/// the start is returned as it is.
pub(crate) fn wrap(start: Box<dyn Start>, birth: &Birth) -> Box<dyn Start> {
    let usable = birth.memory.filter(|memory| memory.age <= LIFETIME && !memory.min_rtt.is_zero());
    match (birth.resume.rules(), usable) {
        (Some(rules), Some(memory)) => Box::new(CarefulResume::new(start, rules, memory, birth)),
        _ => start,
    }
}

/// What has been sent into the unknown.
#[derive(Copy, Clone, Debug)]
struct Jump {
    /// When the window opened.
    begun: Instant,
    /// Bytes in flight then.
    flight: u64,
    /// Bytes delivered by then.
    delivered: u64,
    /// When the last packet of it left.
    last: Instant,
}

#[derive(Copy, Clone, Debug)]
enum Phase {
    /// How many bytes the first flight that filled the window had, once it has.
    Reconnaissance {
        first_flight: Option<u64>,
    },
    Confirmed,
    Unvalidated {
        jump: Jump,
        ends: Instant,
    },
    Validating {
        jump: Jump,
    },
    Retreat {
        jump: Jump,
    },
    /// After a retreat: slow start up to this window.
    Reopening {
        target: u64,
    },
    Normal,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct CarefulResume {
    inner: Box<dyn Start>,
    rules: Rules,
    memory: PathMemory,
    initial_window: u64,
    datagram: u64,
    phase: Phase,
    /// Bytes sent, and of these delivered.
    sent: u64,
    delivered: u64,
    /// The smoothed round-trip time.
    rtt: Duration,
}

impl CarefulResume {
    fn new(inner: Box<dyn Start>, rules: Rules, memory: PathMemory, birth: &Birth) -> CarefulResume {
        CarefulResume {
            inner,
            rules,
            memory,
            initial_window: birth.profile.initial_window.bytes(birth.datagram_size),
            datagram: u64::from(birth.datagram_size),
            phase: Phase::Reconnaissance { first_flight: None },
            sent: 0,
            delivered: 0,
            rtt: Duration::ZERO,
        }
    }

    /// Whether this is the round-trip time of the path that is remembered.
    fn is_known_path(&self, rtt: Duration) -> bool {
        let saved = self.memory.min_rtt;
        let longer = if self.rules.by_handshake { LONGER_THAN_HANDSHAKE } else { LONGER };
        rtt > saved / SHORTER && rtt <= saved.saturating_mul(longer)
    }

    /// The window to jump to.
    fn target(&self) -> u64 {
        let saved = self.memory.window;
        let filled = match (self.rules.by_handshake, self.memory.rate) {
            (false, _) => saved,
            // What was in a queue is not part of the path, and a shorter path holds less at the same rate.
            (true, Some(rate)) => saved.min(rate.bytes_in(self.rtt.min(self.memory.min_rtt))),
            (true, None) => {
                let (rtt, longest) = (self.rtt.min(self.memory.min_rtt).nanos(), self.memory.min_rtt.nanos().max(1));
                u64::try_from(u128::from(saved) * u128::from(rtt) / u128::from(longest)).unwrap_or(saved)
            }
        };
        (filled / self.rules.divisor).min(MAX_JUMP)
    }

    /// The path is confirmed and the window limits the sender, with so much in flight.
    fn jump(&mut self, now: Instant, window: u64, flight: u64) -> Option<Proposal> {
        let target = self.target();
        if target <= window {
            self.phase = Phase::Normal;
            return None;
        }
        let jump = Jump { begun: now, flight, delivered: self.delivered, last: now };
        self.phase = Phase::Unvalidated { jump, ends: now + self.rtt };
        Some(Proposal { rate: Some(pacing::window_rate(target, self.rtt, (1, 1))), ..Proposal::window(target) })
    }

    /// What the path has proven to hold.
    fn pipe_size(&self, jump: Jump) -> u64 {
        jump.flight.max(self.delivered.saturating_sub(jump.delivered))
    }

    /// The jump is over, with so much in flight: returns the window for what is validated now.
    fn end_jump(&mut self, jump: Jump, flight: u64) -> u64 {
        let pipe_size = self.pipe_size(jump);
        if flight < self.initial_window || flight <= pipe_size {
            self.phase = Phase::Normal;
            return pipe_size.max(self.initial_window);
        }
        self.phase = Phase::Validating { jump };
        flight
    }

    /// The reconnaissance after an acknowledgment; `None`: it goes on.
    fn reconnoiter(&self, first_flight: Option<u64>, event: &AckEvent<'_>) -> Option<Phase> {
        if event.lost > 0 || event.ce > 0 || (event.has_rtt_sample && !self.is_known_path(event.rtt.min)) {
            return Some(Phase::Normal);
        }
        let is_confirmed = match self.rules.by_handshake {
            true => event.has_rtt_sample,
            // All of the first flight has arrived.
            false => first_flight.is_some_and(|bytes| self.delivered >= bytes),
        };
        is_confirmed.then_some(Phase::Confirmed)
    }

    fn reopen(&mut self, view: View, event: &AckEvent<'_>, target: u64) -> Proposal {
        let window = view.window.saturating_add(event.growth).min(target);
        let exit = (window >= target).then_some(StartExit::Congestion);
        Proposal { exit, ..Proposal::window(window) }
    }
}

impl Start for CarefulResume {
    fn on_ack(&mut self, view: View, event: &AckEvent<'_>) -> Proposal {
        self.datagram = view.datagram;
        self.delivered = event.delivered;
        self.rtt = view.smoothed_rtt;
        // It sees everything, so that it can take over at any time.
        let inner = self.inner.on_ack(view, event);
        if let Phase::Reconnaissance { first_flight } = self.phase
            && let Some(next) = self.reconnoiter(first_flight, event)
        {
            self.phase = next;
        }
        match self.phase {
            Phase::Normal | Phase::Reconnaissance { .. } => inner,
            Phase::Confirmed if inner.exit.is_some() || event.application_limited => inner,
            Phase::Confirmed => self.jump(event.now, inner.window, event.bytes_in_flight).unwrap_or(inner),
            Phase::Unvalidated { jump, ends } => {
                if event.newest_sent.is_none_or(|sent| sent <= jump.begun) && event.now < ends {
                    let rate = pacing::window_rate(view.window, self.rtt, (1, 1));
                    return Proposal { rate: Some(rate), ..Proposal::window(view.window) };
                }
                let window = self.end_jump(jump, event.prior_in_flight);
                let grown = if matches!(self.phase, Phase::Validating { .. }) { event.growth } else { 0 };
                Proposal::window(window + grown)
            }
            Phase::Validating { jump } => {
                if event.newest_sent.is_some_and(|sent| sent >= jump.last) {
                    self.phase = Phase::Normal;
                }
                inner
            }
            Phase::Retreat { jump } if event.newest_sent.is_none_or(|sent| sent < jump.last) => {
                Proposal::window(view.window)
            }
            Phase::Retreat { jump } => {
                let target = (self.pipe_size(jump) / 2).max(view.window);
                self.phase = Phase::Reopening { target };
                self.reopen(view, event, target)
            }
            Phase::Reopening { target } => self.reopen(view, event, target),
        }
    }

    fn on_sent(&mut self, sent: Departure) -> Option<Proposal> {
        self.sent += sent.bytes;
        let inner = self.inner.on_sent(sent);
        let is_full = sent.bytes_in_flight + self.datagram > sent.window;
        match &mut self.phase {
            Phase::Normal => inner,
            Phase::Reconnaissance { first_flight } => {
                if is_full {
                    first_flight.get_or_insert(self.sent);
                }
                inner
            }
            Phase::Confirmed if is_full => self.jump(sent.now, sent.window, sent.bytes_in_flight).or(inner),
            Phase::Confirmed => inner,
            Phase::Unvalidated { jump, ends } => {
                jump.last = sent.now;
                let (jump, is_over) = (*jump, sent.now >= *ends);
                (is_full || is_over).then(|| Proposal::window(self.end_jump(jump, sent.bytes_in_flight)))
            }
            Phase::Validating { .. } | Phase::Retreat { .. } | Phase::Reopening { .. } => None,
        }
    }

    fn on_restart(&mut self, now: Instant, idle: Duration, window: u64) -> Option<Proposal> {
        let inner = self.inner.on_restart(now, idle, window);
        match self.phase {
            Phase::Normal | Phase::Reconnaissance { .. } | Phase::Confirmed => inner,
            _ => None,
        }
    }

    fn on_congestion(&mut self, view: View, event: &AckEvent<'_>) -> Option<Congested> {
        self.delivered = event.delivered;
        match self.phase {
            Phase::Unvalidated { jump, .. } | Phase::Validating { jump } => {
                self.phase = Phase::Retreat { jump };
                let window = (self.pipe_size(jump) / 2).max(self.initial_window);
                Some(Congested { window, threshold: None })
            }
            Phase::Retreat { .. } | Phase::Reopening { .. } => None,
            Phase::Reconnaissance { .. } | Phase::Confirmed | Phase::Normal => {
                self.phase = Phase::Normal;
                self.inner.on_congestion(view, event)
            }
        }
    }

    fn on_exit(&mut self) {
        self.phase = Phase::Normal;
        self.inner.on_exit();
    }

    fn state(&self) -> State {
        self.inner.state()
    }

    fn snapshot(&self) -> Box<dyn Start> {
        Box::new(CarefulResume { inner: self.inner.snapshot(), ..*self })
    }
}

#[cfg(test)]
mod tests;
