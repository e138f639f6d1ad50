//! Careful Resume (RFC 9959): a start that begins where an earlier connection has been.
//!
//! It wraps another start. Without a saved path, or once it is done, every question goes to that one.
//!
//! ```text
//! Reconnaissance  the wrapped start, until the path is confirmed: no loss, no mark, a round-trip time like that saved
//! Confirmed       the same, until the window limits the sender
//! Unvalidated     window = jump, spread over a round trip; until it is used up, a round trip has passed, or the first
//!                 packet of the jump is acknowledged
//! Validating      window = what is in flight, then growth as usual; until the last packet of the jump is acknowledged
//! Filled          the window has reached what the path held before: a quarter of the growth. A queue ends the start,
//!                 unless deliveries are slower than before, so that others have made it; half of the window again
//!                 without a queue means that there is more to have
//! Safe Retreat    (congestion in either) half of what the path has proven to hold; no growth until the jump is
//!                 settled, then slow start up to half of what it has proven by then
//! Normal          the wrapped start
//! ```
//!
//! `PipeSize` is what the path has proven to hold: what was in flight at the jump, or what has been delivered since if
//! that is more. A count that adds every acknowledgment to what was in flight would count the packets that were on
//! their way at the jump twice; the example of RFC 9959 appendix B counts them once.
//!
//! RFC 9959 leaves the growth after the jump to slow start, which goes on to twice what the path holds before it can
//! see a queue. What was saved says where to look for one.
//!
//! The bolder rules take the round-trip time of the handshake for the reconnaissance, so that the jump comes with the
//! first flight. They never send faster than the earlier connection did: over a shorter round trip the window shrinks
//! with it.

use thalweg_units::math::mul_div;
use thalweg_units::{Duration, DurationExt, Instant};

use super::{Congested, Departure, Proposal, Start};
use crate::congestion::view::View;
use crate::congestion::{AckEvent, PathContext, SavedPath};
use crate::pacing;
use crate::policies::{HandshakeParameters, ResumePolicy};
use crate::trace::{StartExit, State};

/// What was saved longer ago than this is not used. RFC 9959 section 4.1 asks for a limit and leaves it open; an hour
/// is what TLS tickets of servers that change often live.
pub(crate) const LIFETIME: Duration = Duration::from_secs(3_600);
/// The round-trip time is another path's if it is this fraction of the saved one, or less (RFC 9959 section 4.2).
const SHORTER: u32 = 2;
/// The same, if it is more than this many times the saved one: what was learned says nothing about such a path.
const LONGER: u32 = 10;
/// The same for the rules that have nothing but the handshake to go by.
const LONGER_THAN_HANDSHAKE: u32 = 2;

/// The largest jump in bytes, whatever was saved (max_jump): 8 Gbps over a second.
const MAX_JUMP: u64 = 1 << 30;

/// The window grows by this fraction where the path should be full (as in HyStart++, RFC 9406 section 4.2): a round
/// trip of it, and another until its queue is seen, fit into the queue of a short buffer.
const FILLED_GROWTH_DIVISOR: u64 = 4;
/// A path that delivers less than this fraction of what it did before is shared, or has changed.
const FULL_SHARE: (u64, u64) = (3, 4);
/// A round-trip time that has become longer by this fraction since is a queue.
const QUEUE_DIVISOR: u32 = 16;
/// But no less than that much longer (RFC 9406 MIN_RTT_THRESH): smaller rises are jitter.
const LEAST_QUEUE: Duration = Duration::from_millis(4);
/// Samples of which the shortest is compared with, and that have to agree on it (RFC 9406 N_RTT_SAMPLE).
const QUEUE_SAMPLES: u32 = 8;

/// What differs between the rules.
#[derive(Copy, Clone, Debug)]
struct Rules {
    /// The first round-trip time confirms the path.
    by_handshake: bool,
    /// The jump goes to this share of the saved window.
    share: (u64, u64),
}

impl ResumePolicy {
    fn rules(self) -> Option<Rules> {
        match self {
            ResumePolicy::Off => None,
            ResumePolicy::Careful => Some(Rules { by_handshake: false, share: (1, 2) }),
            ResumePolicy::Handshake(HandshakeParameters { share }) => {
                Some(Rules { by_handshake: true, share: share.ratio() })
            }
        }
    }
}

/// Wraps `start` by what the path's policy makes of what was saved of it. Without a policy, or without a saved path
/// that may be used, the start is returned as it is.
pub(crate) fn wrap(start: Box<dyn Start>, context: &PathContext) -> Box<dyn Start> {
    let usable = context.saved.filter(|saved| saved.age <= LIFETIME && !saved.min_rtt.is_zero());
    match (context.resume.rules(), usable) {
        (Some(rules), Some(saved)) => Box::new(CarefulResume::new(start, rules, saved, context)),
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
    /// The jump is settled; the wrapped start goes on, up to what the path held before.
    Validated,
    Filled(Filled),
    Retreat {
        jump: Jump,
    },
    /// After a retreat: slow start up to this window.
    Reopening {
        target: u64,
    },
    Normal,
}

/// The window has reached what the path held before.
#[derive(Copy, Clone, Debug, Default)]
struct Filled {
    /// The jump, if its last packet is still to be acknowledged: until then congestion means a retreat.
    jump: Option<Jump>,
    /// The shortest of the first samples, how many those were, and how many in a row were long since.
    before: Duration,
    first: u32,
    long: u32,
    /// Acknowledged bytes that have not made up a byte of growth yet.
    remainder: u64,
}

impl Filled {
    /// Others may have a queue there, so that what counts is the rise since.
    fn on_sample(&mut self, rtt: Duration) {
        if self.first < QUEUE_SAMPLES {
            self.before = if self.first == 0 { rtt } else { self.before.min(rtt) };
            self.first += 1;
            return;
        }
        let queue = (self.before / QUEUE_DIVISOR).max(LEAST_QUEUE);
        self.long = if rtt > self.before.saturating_add(queue) { self.long + 1 } else { 0 };
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct CarefulResume {
    inner: Box<dyn Start>,
    rules: Rules,
    saved: SavedPath,
    initial_window: u64,
    phase: Phase,
    /// Bytes sent, and of these delivered.
    sent: u64,
    delivered: u64,
    /// The smoothed round-trip time.
    rtt: Duration,
}

impl CarefulResume {
    fn new(inner: Box<dyn Start>, rules: Rules, saved: SavedPath, context: &PathContext) -> CarefulResume {
        CarefulResume {
            inner,
            rules,
            saved,
            initial_window: context.profile.initial_window.bytes(context.datagram_size),
            phase: Phase::Reconnaissance { first_flight: None },
            sent: 0,
            delivered: 0,
            rtt: Duration::ZERO,
        }
    }

    /// Whether this is the round-trip time of the path that was saved.
    fn is_saved_path(&self, rtt: Duration) -> bool {
        let before = self.saved.min_rtt;
        let longer = if self.rules.by_handshake { LONGER_THAN_HANDSHAKE } else { LONGER };
        rtt > before / SHORTER && rtt <= before.saturating_mul(longer)
    }

    /// What the path held before, over the round-trip time that it has now if that is shorter, without what was in a
    /// queue.
    fn capacity(&self) -> u64 {
        let (window, longest) = (self.saved.window, self.saved.min_rtt);
        let rtt = self.rtt.min(longest);
        match self.saved.rate {
            Some(rate) => window.min(rate.bytes_in(rtt)),
            None => mul_div(window, rtt.nanos(), longest.nanos().max(1)),
        }
    }

    /// The window to jump to.
    fn target(&self) -> u64 {
        let (share, of) = self.rules.share;
        let held = if self.rules.by_handshake { self.capacity() } else { self.saved.window };
        mul_div(held, share, of).min(MAX_JUMP)
    }

    /// Whether the path delivers close to what it did before. If not, the queue is made by others.
    fn is_as_fast_as_before(&self, event: &AckEvent<'_>) -> bool {
        let (Some(before), Some(sample)) = (self.saved.rate, event.delivery) else { return true };
        sample.rate >= before.mul_ratio(FULL_SHARE.0, FULL_SHARE.1)
    }

    /// The growth of this acknowledgment leads to the capacity, or past it.
    fn reach_capacity(&mut self, jump: Option<Jump>, view: View, event: &AckEvent<'_>) -> Proposal {
        let window = view.window.max(self.capacity());
        let filled = Filled { jump, ..Filled::default() };
        self.fill(filled, View { window, ..view }, &AckEvent { growth: 0, ..*event })
    }

    /// The growth of an acknowledgment where the path should be full: takes the place of what the wrapped start
    /// proposes.
    fn fill(&mut self, mut filled: Filled, view: View, event: &AckEvent<'_>) -> Proposal {
        let is_settled = |jump: &Jump| event.newest_sent().is_some_and(|sent| sent >= jump.last);
        filled.jump = filled.jump.filter(|jump| !is_settled(jump));
        if event.has_rtt_sample {
            filled.on_sample(event.rtt.exit);
        }
        filled.remainder += event.growth;
        let window = view.window.saturating_add(filled.remainder / FILLED_GROWTH_DIVISOR);
        filled.remainder %= FILLED_GROWTH_DIVISOR;
        let capacity = self.capacity();
        let has_queue = filled.long >= QUEUE_SAMPLES;
        let has_more = filled.long == 0 && window > capacity.saturating_add(capacity / 2);
        let is_over = has_queue && self.is_as_fast_as_before(event);
        if has_queue && !is_over {
            // What others do to the round trip is the new base.
            (filled.first, filled.long) = (0, 0);
        }
        self.phase = if has_more { Phase::Normal } else { Phase::Filled(filled) };
        let exit = is_over.then_some(StartExit::Delay);
        let rate = Some(pacing::window_rate(window, self.rtt, pacing::AVOIDANCE_GAIN));
        Proposal { rate, exit, ..Proposal::window(window) }
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
        if event.lost > 0 || event.marks.ce > 0 || (event.has_rtt_sample && !self.is_saved_path(event.rtt.min)) {
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
                if event.newest_sent().is_none_or(|sent| sent <= jump.begun) && event.now < ends {
                    let rate = pacing::window_rate(view.window, self.rtt, (1, 1));
                    return Proposal { rate: Some(rate), ..Proposal::window(view.window) };
                }
                let window = self.end_jump(jump, event.prior_in_flight);
                let grown = if matches!(self.phase, Phase::Validating { .. }) { event.growth } else { 0 };
                Proposal::window(window + grown)
            }
            Phase::Validating { jump } => {
                if inner.exit.is_none() && inner.window >= self.capacity() {
                    return self.reach_capacity(Some(jump), view, event);
                }
                if event.newest_sent().is_some_and(|sent| sent >= jump.last) {
                    self.phase = Phase::Validated;
                }
                inner
            }
            Phase::Validated if inner.exit.is_none() && inner.window >= self.capacity() => {
                self.reach_capacity(None, view, event)
            }
            Phase::Validated => inner,
            Phase::Filled(filled) => self.fill(filled, view, event),
            Phase::Retreat { jump } if event.newest_sent().is_none_or(|sent| sent < jump.last) => {
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
        match &mut self.phase {
            Phase::Normal | Phase::Validated => inner,
            Phase::Reconnaissance { first_flight } => {
                if sent.is_full {
                    first_flight.get_or_insert(self.sent);
                }
                inner
            }
            Phase::Confirmed if sent.is_full => self.jump(sent.now, sent.window, sent.bytes_in_flight).or(inner),
            Phase::Confirmed => inner,
            Phase::Unvalidated { jump, ends } => {
                jump.last = sent.now;
                let (jump, is_over) = (*jump, sent.now >= *ends);
                (sent.is_full || is_over).then(|| Proposal::window(self.end_jump(jump, sent.bytes_in_flight)))
            }
            Phase::Validating { .. } | Phase::Filled(_) | Phase::Retreat { .. } | Phase::Reopening { .. } => None,
        }
    }

    fn on_restart(&mut self, now: Instant, idle: Duration, window: u64) -> Option<Proposal> {
        let inner = self.inner.on_restart(now, idle, window);
        match self.phase {
            Phase::Normal | Phase::Validated | Phase::Reconnaissance { .. } | Phase::Confirmed => inner,
            _ => None,
        }
    }

    fn on_congestion(&mut self, view: View, event: &AckEvent<'_>) -> Option<Congested> {
        self.delivered = event.delivered;
        match self.phase {
            Phase::Unvalidated { jump, .. }
            | Phase::Validating { jump }
            | Phase::Filled(Filled { jump: Some(jump), .. }) => {
                self.phase = Phase::Retreat { jump };
                let window = (self.pipe_size(jump) / 2).max(self.initial_window);
                Some(Congested { window, threshold: None })
            }
            Phase::Retreat { .. } | Phase::Reopening { .. } => None,
            Phase::Reconnaissance { .. } | Phase::Confirmed | Phase::Validated | Phase::Filled(_) | Phase::Normal => {
                self.phase = Phase::Normal;
                self.inner.on_congestion(view, event)
            }
        }
    }

    /// RFC 9959 section 3.5: congestion during the jump means a retreat.
    fn may_end_where_it_stands(&self) -> bool {
        let is_settled = match self.phase {
            Phase::Unvalidated { .. } | Phase::Validating { .. } | Phase::Retreat { .. } | Phase::Reopening { .. } => {
                false
            }
            Phase::Filled(filled) => filled.jump.is_none(),
            Phase::Reconnaissance { .. } | Phase::Confirmed | Phase::Validated | Phase::Normal => true,
        };
        is_settled && self.inner.may_end_where_it_stands()
    }

    fn outlives_accidents(&self) -> bool {
        self.inner.outlives_accidents()
    }

    fn on_accident(&mut self) {
        self.inner.on_accident();
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
