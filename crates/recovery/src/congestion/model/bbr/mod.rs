//! BBRv3: rate and window from a model of the path (draft-ietf-ccwg-bbr).
//!
//! ```text
//! Startup   doubles the rate until the delivery rate no longer grows, or until too much is lost
//! Drain     empties the queue that it has left
//! ProbeBW   Down     slower than the path delivers, until there is no queue and some headroom
//!           Cruise   as fast as it delivers, until it is time to probe
//!           Refill   the same for a round, with what was learned from loss in between forgotten
//!           Up       a quarter faster, until the delivery rate no longer grows or too much is lost
//! ProbeRTT  half of what the path holds, if no lower round-trip time was seen for five seconds
//! ```
//!
//! | part | subject |
//! |---|---|
//! | `phase` | the phases and their gains |
//! | `filter` | maxima, round trips, chance |
//! | `aggregation` | what acknowledgments deliver ahead of the bandwidth |
//! | `startup` | the end of the start: plateau, loss, Drain |
//! | `cycle` | the phases of ProbeBW, and when one follows another |
//! | `bounds` | what loss and marks say: the bounds for a short and a long term |
//! | `min_rtt` | the minimum round-trip time, and ProbeRTT |
//! | `opening` | a Startup that begins with trains, on long paths |
//! | `control` | window and rate from all that |
//! | `repair` | recovery, persistent congestion, and taking back what was no loss |
//!
//! It deviates from the draft where a QUIC sender has to, or where the draft leaves a choice:
//!
//! - A packet marked CE is congestion, as RFC 3168 has it: the round after a mark ends Startup, a mark ends a probe,
//!   and at another time it lowers the short-term bounds.
//! - "In flight reaches the long-term bound" is asked about what was in flight before the acknowledgment, in whole
//!   datagrams: a sender that the window limits is never seen there afterwards.
//! - Persistent congestion (RFC 9002 section 7.6) stands for a retransmission timeout: the window falls to the minimum
//!   of the transport and opens with what is acknowledged. The window of before returns only if nothing had been lost;
//!   in TCP it returns once everything is repaired, when it has grown that far by itself. A probe timeout changes
//!   nothing.
//! - The state to return to is saved when a recovery period begins, once for each, and not again when it is longer than
//!   a round.
//! - A probing cycle in which nothing was measured does not age the bandwidth. A probe that ProbeRTT interrupts does:
//!   where a round trip takes seconds, each is interrupted, and the rate of before would never be forgotten.
//! - In Drain the long-term bound holds too, as in the draft's table; its pseudocode leaves it out.
//! - The first packet whose acknowledgment can end ProbeRTT asks to be acknowledged at once, if the peer takes
//!   requests.
//! - The budget for trains does not count what the peer was asked to hold back of its acknowledgments: a controller is
//!   not told of that, and `aggregation` measures it.
//! - What an earlier connection has saved ([`PathContext::saved`]) is not used.

use thalweg_units::{Duration, Instant, Rate};

use super::ModelStats;
use crate::congestion::{AckEvent, Allowance, Change, Controller, PathContext, PathView};
use crate::profile::Profile;
use crate::rtt::Rtt;
use crate::trace::{StartExit, State};

mod aggregation;
mod bounds;
mod connection;
mod control;
mod cycle;
mod filter;
mod min_rtt;
mod opening;
mod path_model;
mod phase;
mod repair;
mod startup;
#[cfg(test)]
mod tests;

use aggregation::Acked;
use connection::Connection;
use cycle::Cycle;
use filter::{Chance, Rounds};
use min_rtt::ProbeRtt;
use opening::Opening;
use path_model::PathModel;
use phase::Phase;
use repair::Repair;
use startup::Startup;

/// LossThresh: the largest share of a flight whose loss is put up with while probing.
const LOSS_THRESHOLD: (u64, u64) = (2, 100);
/// Beta: what a round with loss leaves of the short-term bounds, and the least of the long-term one.
const BETA: (u64, u64) = (7, 10);
/// Headroom: the share of the long-term bound that is left to others while cruising.
const HEADROOM: (u64, u64) = (15, 100);
/// MinPipeCwnd: datagrams that keep the path busy although every other one is acknowledged.
const MIN_PIPE_DATAGRAMS: u64 = 4;
/// No bound.
const UNBOUNDED: u64 = u64::MAX;

/// What the variants differ in.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Settings {
    /// Long paths are opened by trains that measure their rate.
    pub(crate) opens_by_trains: bool,
    /// A round that loses no more than a probe may lose leaves the short-term bounds alone.
    pub(crate) puts_up_with_loss: bool,
}

/// What an acknowledgment says of the flight that its newest packet closed.
#[derive(Copy, Clone, Debug)]
struct Sample {
    rate: Rate,
    /// Bytes delivered since that packet was sent, and until then.
    delivered: u64,
    prior_delivered: u64,
    /// Bytes in flight just after it was sent.
    in_flight: u64,
    /// Bytes lost since.
    lost: u64,
    /// The application held it back, or that or ProbeRTT did.
    by_application: bool,
    application_limited: bool,
}

impl Sample {
    /// Whether so much of the flight was lost that there was too much of it.
    fn is_too_high(&self) -> bool {
        is_too_much_lost(self.lost, self.in_flight)
    }
}

fn is_too_much_lost(lost: u64, in_flight: u64) -> bool {
    let (share, of) = LOSS_THRESHOLD;
    u128::from(lost) * u128::from(of) > u128::from(in_flight) * u128::from(share)
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Bbr {
    settings: Settings,
    profile: Profile,
    datagram: u64,
    chance: Chance,
    phase: Phase,
    window: u64,
    pacing_rate: Rate,
    connection: Connection,
    rounds: Rounds,
    path: PathModel,
    startup: Startup,
    cycle: Cycle,
    probe_rtt: ProbeRtt,
    repair: Repair,
    stats: ModelStats,
}

impl Bbr {
    pub(crate) fn new(context: &PathContext, settings: Settings) -> Bbr {
        let mut bbr = Bbr {
            settings,
            profile: context.profile,
            datagram: u64::from(context.datagram_size),
            chance: Chance::new(context.seed),
            phase: Phase::Startup,
            window: context.profile.initial_window.bytes(context.datagram_size),
            pacing_rate: Rate::ZERO,
            connection: Connection::default(),
            rounds: Rounds::default(),
            path: PathModel::new(context.now),
            startup: Startup::new(settings.opens_by_trains.then(|| Opening::new(context))),
            cycle: Cycle::new(context.now),
            probe_rtt: ProbeRtt::default(),
            repair: Repair::default(),
            stats: ModelStats { startups: 1, ..ModelStats::default() },
        };
        bbr.init_pacing_rate();
        bbr
    }

    /// The window and its limits in the datagrams of the path.
    fn initial_window(&self) -> u64 {
        self.profile.initial_window.bytes(u16::try_from(self.datagram).unwrap_or(u16::MAX))
    }

    fn min_pipe(&self) -> u64 {
        MIN_PIPE_DATAGRAMS * self.datagram
    }

    /// What `event` says of the flight that it closes.
    fn sample(&self, event: &AckEvent<'_>) -> Option<Sample> {
        let sample = event.delivery.filter(|sample| sample.is_new && event.acked > 0)?;
        let prior_delivered = event.delivered.saturating_sub(sample.delivered);
        Some(Sample {
            rate: sample.rate,
            delivered: sample.delivered,
            prior_delivered,
            in_flight: sample.sent_in_flight,
            lost: sample.lost,
            by_application: sample.application_limited,
            application_limited: sample.application_limited || self.is_limited_by_probe(prior_delivered),
        })
    }

    /// Whether a packet that left when so many bytes had been delivered was held back by ProbeRTT.
    fn is_limited_by_probe(&self, delivered: u64) -> bool {
        self.connection.limited_by_probe.is_some_and(|(from, until)| (from..=until).contains(&delivered))
    }

    /// UpdateModelAndState: what the acknowledgment changes, in the order of the draft.
    fn update(&mut self, event: &AckEvent<'_>, sample: Option<Sample>) {
        self.update_latest_signals(sample);
        let loss_round = self.update_congestion_signals(sample);
        self.path.aggregation.on_ack(Acked {
            now: event.now,
            bytes: event.acked,
            bandwidth: self.path.bandwidth,
            window: self.window,
            round: self.rounds.count,
            is_full: self.startup.full_pipe.reached,
        });
        self.check_full_pipe(sample);
        self.check_startup_done(sample, loss_round);
        self.check_drain_done(event.now);
        self.update_cycle(event, sample);
        let expired = self.path.min_rtt.update(event.now, event.has_rtt_sample.then_some(event.rtt.latest));
        self.check_probe_rtt(event.now, expired);
        self.path.signals.advance(sample);
        self.path.bandwidth = self.path.max_bandwidth.value().min(self.path.short_term.bandwidth);
    }

    /// UpdateRound and UpdateMaxBw.
    fn update_max_bandwidth(&mut self, sample: Option<Sample>) {
        self.rounds.started = false;
        let Some(sample) = sample else { return };
        self.rounds.update(sample.prior_delivered, self.connection.delivered);
        if self.rounds.started {
            self.cycle.rounds_since_up += 1;
            self.connection.window_full = (false, self.connection.window_full.0);
        }
        self.path.max_bandwidth.update(sample.rate, sample.application_limited);
    }

    /// The window was full at some point in the last round trip (is_cwnd_limited).
    fn is_window_limited(&self) -> bool {
        self.connection.window_full.0 || self.connection.window_full.1
    }

    /// Notes what it has learned.
    fn note_model(&mut self) {
        if self.phase == Phase::Startup || self.path.bandwidth == Rate::ZERO {
            return;
        }
        let stats = &mut self.stats;
        let is_first = stats.least_bandwidth == Rate::ZERO;
        stats.least_bandwidth =
            if is_first { self.path.bandwidth } else { stats.least_bandwidth.min(self.path.bandwidth) };
        stats.most_extra = stats.most_extra.max(self.path.aggregation.extra());
    }

    fn begin_round(&mut self) {
        self.rounds.begin(self.connection.delivered);
    }
}

impl Controller for Bbr {
    fn on_sent(&mut self, now: Instant, bytes: u64, bytes_in_flight: u64) -> Change {
        self.connection.in_flight = bytes_in_flight;
        self.note_prompt_ack(now);
        self.connection.window_full.0 |= bytes_in_flight.saturating_add(self.datagram) > self.window;
        if self.open_between_acks(now, bytes, bytes_in_flight) { Change::Allowance } else { Change::None }
    }

    fn on_ack(&mut self, event: &AckEvent<'_>) -> Change {
        (self.connection.delivered, self.connection.in_flight) = (event.delivered, event.bytes_in_flight);
        self.connection.smoothed_rtt = event.rtt.smoothed;
        if event.has_rtt_sample && !self.connection.has_rtt {
            self.connection.has_rtt = true;
            self.init_pacing_rate();
        }
        self.enter_recovery(event);
        let sample = self.sample(event);
        self.on_losses(event);
        self.on_marks(event, sample);
        self.leave_recovery(event);
        if event.acked > 0 {
            self.update(event, sample);
        }
        self.set_pacing_rate();
        let before = self.window;
        self.set_window(event.acked);
        self.open(event, before);
        self.note_model();
        if event.persistent_congestion {
            self.collapse();
        }
        Change::Allowance
    }

    /// HandleRestartFromIdle. The window stays: that it is not sent at once is what the rate is for.
    fn on_restart(&mut self, now: Instant, _idle: Duration) -> Change {
        if !self.connection.application_limited {
            return Change::None;
        }
        self.connection.idle_restart = true;
        self.path.aggregation.restart(now);
        if self.phase.is_in_cycle() {
            self.set_pacing_rate_with((1, 1));
        } else if self.phase == Phase::ProbeRtt {
            self.check_probe_rtt_done(now);
        }
        Change::Allowance
    }

    fn on_validation(&mut self, _now: Instant, window: u64) -> Change {
        self.window = self.window.min(window).max(self.min_pipe());
        Change::Allowance
    }

    fn undo(&mut self, _now: Instant, episode: u32) -> bool {
        self.take_back(episode)
    }

    fn on_application_limited(&mut self, _now: Instant, limited: bool) -> Change {
        self.connection.application_limited = limited;
        Change::None
    }

    fn on_datagram_size(&mut self, size: u16) {
        let is_untouched = self.window == self.initial_window() && self.connection.delivered == 0;
        self.datagram = u64::from(size);
        self.window = if is_untouched { self.initial_window() } else { self.window.max(self.min_pipe()) };
        if !self.connection.has_rtt {
            self.init_pacing_rate();
        }
    }

    fn allowance(&self, _path: &PathView<'_>) -> Allowance {
        let size = u16::try_from(self.datagram).unwrap_or(u16::MAX);
        let opening = self.startup.opening.as_ref().filter(|_| self.phase == Phase::Startup);
        let Some(proposal) = opening.and_then(|opening| opening.proposal) else {
            return match self.phase {
                Phase::Startup => Allowance::new(self.window, Some(self.pacing_rate), size),
                _ => Allowance::steady(self.window, self.pacing_rate, size),
            };
        };
        Allowance {
            burst: proposal.burst,
            hold_until_credit: proposal.hold_until_credit,
            ..Allowance::new(self.window, Some(proposal.rate.unwrap_or(self.pacing_rate)), size)
        }
    }

    /// Two probes of the bandwidth.
    fn cycle(&self, rtt: &Rtt) -> u32 {
        self.cycle_rounds(rtt.smoothed)
    }

    fn state(&self) -> State {
        self.phase.state()
    }

    /// While it probes, and while it measures the round-trip time.
    fn wants_dense_acks(&self) -> bool {
        self.phase.is_probing() || self.phase == Phase::ProbeRtt
    }

    /// The packet whose acknowledgment can end ProbeRTT: held back, it would prolong the time at half of the flight.
    fn wants_prompt_ack(&self, now: Instant) -> bool {
        self.can_end_probe_rtt(now) && !self.probe_rtt.has_asked
    }

    fn model(&self) -> Option<ModelStats> {
        let bound = if self.path.inflight_long_term == UNBOUNDED { 0 } else { self.path.inflight_long_term };
        Some(ModelStats { bandwidth: self.path.max_bandwidth.value(), inflight_bound: bound, ..self.stats })
    }

    fn start_exit(&self) -> Option<StartExit> {
        self.startup.exit
    }
}
