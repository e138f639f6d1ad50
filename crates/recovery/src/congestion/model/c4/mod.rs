//! C4: a rate and the longest round trip without a queue (draft-huitema-ccwg-c4-spec).
//!
//! ```text
//! Initial    doubles until the rate no longer grows for three eras, or until there is congestion
//! Resuming   sends at the rate that an earlier connection has reached, for two eras
//! Recovery   15/16 of the rate for an era; 7/8 and another era if there is congestion in it
//! Cruising   the rate, for two eras that the application does not limit
//! Probing    17/16 of it for an era; 33/32 if the last probe was marked
//! Pushing    5/4 of it after a probe that was answered, as long as the rate follows
//! ```
//!
//! An era ends when a packet that was sent in it is acknowledged. The nominal rate rises with what is delivered, and
//! falls by congestion alone. The nominal round trip is the longest of the eras that follow one at most as fast as the
//! rate: what it holds beyond the shortest is jitter and not a queue of one's own. [`sensitivity`] says what is taken
//! for congestion.
//!
//! The rules are those of version -00 of the draft. Where later versions have changed figures or added a phase, as the
//! summaries of version -04 and the author's implementation show, those are taken: Probing and Resuming, the start at 1
//! Mbps at least, two eras of Cruising, the second step of Recovery, the margin of the window, and delay counts only in
//! eras that follow one faster than the rate. It deviates from both where a QUIC sender has to:
//!
//! - Persistent congestion (RFC 9002 section 7.6) leaves the minimum window, and begins anew.
//! - Nothing is taken back when losses turn out to be reordering: the rate rises with the next probe.
//! - Initial never paces more slowly than a window per round trip: the first flight would take longer than that.
//! - What an earlier connection has learned is used if the policy `resume` is not off, and the round trip is at least
//!   half of what it was (RFC 9959 section 3.2).

use thalweg_units::math::mul_div;
use thalweg_units::{Duration, DurationExt, Ecn, Instant, Rate};

use super::ModelStats;
use crate::congestion::{AckEvent, Allowance, Change, Controller, PathContext, PathView, SavedPath};
use crate::policies::ResumePolicy;
use crate::profile::Profile;
use crate::rtt::Rtt;
use crate::trace::{StartExit, State};

mod sensitivity;
#[cfg(test)]
mod tests;

use sensitivity::{Average, ONE, delay_threshold, loss_threshold, mark_threshold};

/// The rate that a start paces at, at least: 2¹⁷ bytes per second.
const START_RATE: Rate = Rate::from_bps(1 << 20);
/// Eras without growth that end Initial.
const PLATEAU_ERAS: u32 = 3;
/// Packets that have to be known of before loss ends Initial: fewer say nothing of a rate.
const PACKETS_BEFORE_LOSS: u64 = 20;
/// Eras of Cruising, and after a probe that was marked.
const CRUISES: (u32, u32) = (2, 1);
/// Pushes in a row that lead back to Initial.
const PUSHES: u32 = 3;
/// Eras of Pushing that the rate has not followed.
const PUSHING_ERAS: u32 = 2;
/// Eras of Resuming: one to fill the path, one to measure.
const RESUMING_ERAS: u32 = 2;
/// What congestion takes off the rate, at most, in [`ONE`].
const BETA: u64 = ONE / 4;
/// More than this above the shortest round trip is no jitter of a path.
const MAX_JITTER: Duration = Duration::from_millis(250);
/// The shortest nominal round trip.
const LEAST_RTT: Duration = Duration::from_millis(1);
/// What the window adds for acknowledgments that are late: so long, or a quarter of the round trip.
const MARGIN: Duration = Duration::from_millis(15);
/// How much time's worth of credit a pause saves up: the quantum of the draft. What leaves without a pause leaves in
/// the trains of other controllers: a whole quantum would be marked by every queue that marks ECT(1) (RFC 9332).
const QUANTUM_TIME: Duration = Duration::from_millis(4);
const MAX_QUANTUM: u64 = 1 << 16;
/// Of a path with jitter, what Initial is repeated for: a nominal round trip from here on, and a rate below 1 MB/s.
const JITTER_RTT: Duration = Duration::from_millis(50);
const JITTER_RATE: Rate = Rate::from_bps(8_000_000);

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Phase {
    Initial,
    Resuming,
    Recovery,
    Cruising,
    Probing,
    Pushing,
}

/// What is taken for congestion.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Signal {
    Delay,
    Loss,
    Mark,
}

/// How the rate has followed a push.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Growth {
    None,
    Slow,
    Fast,
}

/// A round trip by packets.
#[derive(Copy, Clone, Debug)]
struct Era {
    /// Ends with a packet sent when so much had been delivered.
    begun: u64,
    shortest: Option<Duration>,
    longest: Duration,
    /// The gain of the era before: what is measured now was sent with it.
    previous_gain: u64,
}

/// What a push is judged by.
#[derive(Copy, Clone, Debug)]
struct Push {
    before: Rate,
    gain: u64,
    /// The application did not limit it.
    was_full: bool,
    had_congestion: bool,
    /// The congestion was marked.
    was_marked: bool,
}

/// How far Initial has come.
#[derive(Copy, Clone, Debug)]
struct Initial {
    /// The window of Initial.
    window: u64,
    /// Packets known of in this Initial.
    packets: u64,
    eras_without_growth: u32,
    /// It is not the first.
    has_restarted: bool,
    exit: Option<StartExit>,
}

/// The signs of congestion.
#[derive(Copy, Clone, Debug, Default)]
struct Signs {
    /// How much longer the latest round trip was than congestion allows.
    delay_excess: Duration,
    losses: Average,
    /// The place of the last loss that counted, and of the first packet that may.
    last_loss: u64,
    marks: Average,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct C4 {
    profile: Profile,
    datagram: u64,
    saved: Option<SavedPath>,
    phase: Phase,
    /// How much faster than the nominal rate packets leave, in [`ONE`].
    gain: u64,
    rate: Rate,
    /// The longest round trip without a queue; zero before the first sample.
    max_rtt: Duration,
    min_rtt: Option<Duration>,
    initial: Initial,
    /// The rate and the window of Resuming.
    seed: (Rate, u64),
    era: Era,
    push: Push,
    signs: Signs,
    eras_in_phase: u32,
    cruises_left: u32,
    pushes: u32,
    is_limited: bool,
    stats: ModelStats,
}

/// A factor of a rate.
fn scaled(rate: Rate, gain: u64) -> Rate {
    rate.mul_ratio(gain, ONE)
}

impl C4 {
    pub(crate) fn new(context: &PathContext) -> C4 {
        let saved = context.saved.filter(|_| context.resume != ResumePolicy::Off);
        C4 {
            profile: context.profile,
            datagram: u64::from(context.datagram_size),
            saved,
            phase: Phase::Initial,
            gain: 2 * ONE,
            rate: Rate::ZERO,
            max_rtt: Duration::ZERO,
            min_rtt: None,
            initial: Initial {
                window: context.profile.initial_window.bytes(context.datagram_size),
                packets: 0,
                eras_without_growth: 0,
                has_restarted: false,
                exit: None,
            },
            seed: (Rate::ZERO, 0),
            era: Era { begun: 0, shortest: None, longest: Duration::ZERO, previous_gain: 2 * ONE },
            push: Push { before: Rate::ZERO, gain: 2 * ONE, was_full: false, had_congestion: false, was_marked: false },
            signs: Signs::default(),
            eras_in_phase: 0,
            cruises_left: CRUISES.0,
            pushes: 0,
            is_limited: false,
            stats: ModelStats { startups: 1, ..ModelStats::default() },
        }
    }

    fn go_to(&mut self, phase: Phase, gain: u64, delivered: u64) {
        (self.phase, self.eras_in_phase) = (phase, 0);
        self.begin_era(delivered);
        self.gain = gain;
        let stats = &mut self.stats;
        *match phase {
            Phase::Initial => &mut stats.startups,
            Phase::Resuming => &mut stats.refills,
            Phase::Recovery => &mut stats.downs,
            Phase::Cruising => &mut stats.cruises,
            Phase::Probing | Phase::Pushing => &mut stats.ups,
        } += 1;
    }

    /// The gain of the era that ends is that of what the next one measures.
    fn begin_era(&mut self, delivered: u64) {
        self.era = Era { begun: delivered, shortest: None, longest: Duration::ZERO, previous_gain: self.gain };
    }

    /// A push begins now.
    fn begin_push(&mut self) {
        self.push =
            Push { before: self.rate, gain: self.gain, was_full: false, had_congestion: false, was_marked: false };
    }

    /// Whether the rate has followed: a quarter of the way if the push was strong, three quarters to be fast; any way
    /// without congestion if it was weak.
    fn growth(&self) -> Growth {
        let before = self.push.before;
        if self.push.gain <= ONE * 17 / 16 {
            let grew = self.rate > before && !self.push.had_congestion;
            return if grew { Growth::Fast } else { Growth::None };
        }
        let part = |quarters: u64| scaled(before, ONE + (self.push.gain - ONE) * quarters / 4);
        match self.rate {
            rate if rate <= before || rate < part(1) => Growth::None,
            rate if rate > part(3) => Growth::Fast,
            _ => Growth::Slow,
        }
    }

    fn on_rtt(&mut self, rtt: Duration) {
        self.era.longest = self.era.longest.max(rtt);
        self.era.shortest = Some(self.era.shortest.map_or(rtt, |shortest| shortest.min(rtt)));
        self.min_rtt = Some(self.min_rtt.map_or(rtt, |min| min.min(rtt)));
        if self.max_rtt.is_zero() {
            self.max_rtt = rtt.max(LEAST_RTT);
        }
        let longest = self.max_rtt + delay_threshold(self.rate, self.max_rtt);
        self.signs.delay_excess = rtt.saturating_sub(longest);
    }

    /// At the end of an era: what it tells of the path, if nothing it measures was sent faster than the rate.
    fn learn_round_trips(&mut self) {
        let Some(shortest) = self.era.shortest.filter(|_| self.era.previous_gain <= ONE) else { return };
        let decayed = |old: Duration, new: Duration| (7 * old + new) / 8;
        let min = self.min_rtt.unwrap_or(shortest);
        let min = if shortest < min { shortest } else { decayed(min, shortest) };
        self.min_rtt = Some(min);
        let longest = self.era.longest.min(min + MAX_JITTER);
        let longest = if longest > self.max_rtt { longest } else { decayed(self.max_rtt, longest) };
        self.max_rtt = longest.max(LEAST_RTT);
    }

    fn on_delivery(&mut self, event: &AckEvent<'_>) {
        let Some(sample) = event.delivery.filter(|sample| sample.is_new && event.acked > 0) else { return };
        self.push.was_full |= !sample.application_limited;
        // What was sent before congestion says nothing of the rate after it.
        let is_recovering = self.phase == Phase::Recovery && self.push.had_congestion;
        if sample.rate > self.rate && !is_recovering {
            self.rate = sample.rate;
        }
        if self.phase == Phase::Initial {
            self.initial.packets += event.acked / self.datagram.max(1);
            // More slowly while it may be close to the end.
            self.initial.window =
                self.initial.window.saturating_add(event.acked >> (3 * self.initial.eras_without_growth).min(63));
        }
        if self.phase == Phase::Resuming && event.prior_in_flight / 16 * 17 < self.seed.1 {
            // It measures nothing until the path is as full as it was.
            self.era.begun = event.delivered;
        }
        if event.delivered.saturating_sub(sample.delivered) >= self.era.begun {
            self.on_era_end(event);
        }
    }

    fn on_era_end(&mut self, event: &AckEvent<'_>) {
        self.eras_in_phase += 1;
        if self.phase == Phase::Initial {
            self.on_initial_era(event.delivered);
            return;
        }
        self.learn_round_trips();
        if self.has_high_jitter() {
            self.initial.has_restarted = true;
            self.enter_initial(event.delivered);
            return;
        }
        match self.phase {
            Phase::Initial => {}
            Phase::Resuming if self.eras_in_phase < RESUMING_ERAS => self.begin_era(event.delivered),
            Phase::Resuming | Phase::Probing => self.enter_recovery(event.delivered),
            Phase::Recovery => self.leave_recovery(event.delivered),
            Phase::Cruising => self.on_cruising_era(event.delivered),
            Phase::Pushing if self.growth() == Growth::Fast => {
                self.eras_in_phase = 0;
                self.begin_push();
                self.begin_era(event.delivered);
            }
            // What an era measures was sent before it.
            Phase::Pushing if self.eras_in_phase < PUSHING_ERAS => self.begin_era(event.delivered),
            Phase::Pushing => self.enter_recovery(event.delivered),
        }
    }

    fn on_initial_era(&mut self, delivered: u64) {
        if self.growth() != Growth::None {
            self.initial.eras_without_growth = 0;
        } else if self.push.was_full && self.rate > Rate::ZERO {
            self.initial.eras_without_growth += 1;
        }
        if self.initial.eras_without_growth >= PLATEAU_ERAS {
            self.leave_initial(StartExit::Plateau, delivered);
        } else {
            self.begin_era(delivered);
            self.begin_push();
        }
    }

    fn enter_initial(&mut self, delivered: u64) {
        self.initial.window = self.window();
        self.go_to(Phase::Initial, 2 * ONE, delivered);
        (self.initial.packets, self.initial.eras_without_growth, self.pushes) = (0, 0, 0);
        self.signs.marks = Average::default();
        self.initial.exit = None;
        self.begin_push();
    }

    fn leave_initial(&mut self, exit: StartExit, delivered: u64) {
        if self.rate == Rate::ZERO {
            return;
        }
        self.initial.exit = Some(exit);
        self.stats.startups_ended_by_loss += u64::from(exit == StartExit::Congestion);
        self.stats.start_bandwidth = self.rate;
        self.initial.eras_without_growth = 0;
        self.begin_push();
        self.enter_recovery(delivered);
    }

    fn enter_recovery(&mut self, delivered: u64) {
        self.go_to(Phase::Recovery, ONE * 15 / 16, delivered);
    }

    /// A push that was answered is followed by a stronger one, and three by the start.
    fn leave_recovery(&mut self, delivered: u64) {
        let (has_grown, was_marked) = (self.growth() != Growth::None, self.push.was_marked);
        if has_grown && !was_marked {
            self.pushes += 1;
        } else if self.push.was_full || was_marked {
            self.pushes = 0;
        }
        self.signs.delay_excess = Duration::ZERO;
        (self.signs.losses, self.signs.marks) = (Average::default(), Average::default());
        if self.pushes >= PUSHES {
            self.enter_initial(delivered);
        } else if self.pushes > 0 && has_grown {
            self.go_to(Phase::Pushing, ONE * 5 / 4, delivered);
            self.begin_push();
        } else {
            self.cruises_left = if was_marked { CRUISES.1 } else { CRUISES.0 };
            self.go_to(Phase::Cruising, ONE, delivered);
            self.begin_push();
            self.push.was_marked = was_marked;
        }
    }

    fn on_cruising_era(&mut self, delivered: u64) {
        self.cruises_left = self.cruises_left.saturating_sub(1);
        if self.cruises_left == 0 && !self.is_limited {
            let gain = if self.push.was_marked { ONE * 33 / 32 } else { ONE * 17 / 16 };
            self.go_to(Phase::Probing, gain, delivered);
            self.begin_push();
        } else {
            self.begin_era(delivered);
        }
    }

    /// Round trips vary so much that Initial cannot have known the path; once.
    fn has_high_jitter(&self) -> bool {
        let is_varied = self.min_rtt.is_some_and(|min| min < self.max_rtt * 2 / 5);
        !self.initial.has_restarted && is_varied && self.max_rtt > JITTER_RTT && self.rate < JITTER_RATE
    }

    fn on_losses(&mut self, event: &AckEvent<'_>) {
        // What a timer has found is no congestion: jitter lets it expire too.
        if event.newest_sent().is_none() {
            return;
        }
        for loss in event.losses {
            // Of what is found late, the average has gone on.
            if let Some(zeros) = loss.order.checked_sub(self.signs.last_loss + 1) {
                self.signs.losses.add_after(zeros);
                self.signs.last_loss = loss.order;
            }
        }
        if !event.losses.is_empty() && self.signs.losses.value() > loss_threshold(self.rate) {
            match self.phase {
                Phase::Initial if self.initial.packets > PACKETS_BEFORE_LOSS => {
                    self.leave_initial(StartExit::Congestion, event.delivered);
                }
                Phase::Initial => {}
                _ => self.on_congestion(Signal::Loss, event),
            }
        }
    }

    fn on_marks(&mut self, event: &AckEvent<'_>) {
        let packets = event.acked.div_ceil(self.datagram.max(1)).max(event.marks.ce);
        if packets == 0 {
            return;
        }
        let share = mul_div(event.marks.ce, ONE, packets);
        self.signs.marks.add(share);
        if share >= ONE / 2 {
            self.signs.marks.raise(share);
        }
        if event.marks.ce > 0 && self.signs.marks.value() > mark_threshold(self.rate) {
            match self.phase {
                Phase::Initial if self.initial.eras_without_growth > 1 => {
                    self.leave_initial(StartExit::Congestion, event.delivered);
                }
                Phase::Initial => {}
                _ => self.on_congestion(Signal::Mark, event),
            }
        }
    }

    /// A queue of one's own: what was sent no faster than the rate builds none.
    fn on_delay(&mut self, event: &AckEvent<'_>) {
        if self.signs.delay_excess.is_zero() {
            return;
        }
        match self.phase {
            Phase::Initial if self.initial.eras_without_growth > 1 => {
                self.leave_initial(StartExit::Delay, event.delivered)
            }
            Phase::Initial => {}
            _ if self.era.previous_gain > ONE => self.on_congestion(Signal::Delay, event),
            _ => {}
        }
    }

    fn on_congestion(&mut self, signal: Signal, event: &AckEvent<'_>) {
        self.push.had_congestion = true;
        self.push.was_marked |= signal == Signal::Mark;
        let beta = match signal {
            Signal::Loss => BETA,
            Signal::Delay => {
                let threshold = delay_threshold(self.rate, self.max_rtt).nanos().max(1);
                mul_div(self.signs.delay_excess.nanos(), ONE, threshold).min(BETA)
            }
            Signal::Mark => {
                let threshold = mark_threshold(self.rate);
                mul_div(self.signs.marks.value().saturating_sub(threshold), ONE, threshold).min(BETA)
            }
        };
        match self.phase {
            Phase::Recovery => {
                // The queue is still there: empty it, once.
                if self.gain > ONE * 7 / 8 {
                    self.gain = ONE * 7 / 8;
                    self.era.begun = event.delivered.saturating_add(event.bytes_in_flight);
                }
                return;
            }
            // The push was too much, and the rate was not raised by it.
            Phase::Probing | Phase::Pushing => {}
            _ => {
                self.rate = scaled(self.rate, ONE - beta);
                if signal == Signal::Loss {
                    let shorter = Duration::from_nanos(mul_div(self.max_rtt.nanos(), ONE - beta, ONE));
                    self.max_rtt = shorter.max(LEAST_RTT);
                }
            }
        }
        self.enter_recovery(event.delivered);
    }

    fn resume(&mut self, rtt: Duration, delivered: u64) {
        let Some(saved) = self.saved.take() else { return };
        if rtt < saved.min_rtt / 2 || self.phase != Phase::Initial {
            return;
        }
        self.seed = (Rate::from_bytes_over(saved.window, rtt.max(LEAST_RTT)), saved.window);
        self.go_to(Phase::Resuming, 2 * ONE, delivered);
        self.begin_push();
    }

    fn pacing_rate(&self) -> Rate {
        match self.phase {
            Phase::Initial => {
                let spread = Rate::from_bytes_over(self.initial.window, self.max_rtt.max(LEAST_RTT));
                scaled(self.rate, self.gain).max(spread).max(START_RATE)
            }
            Phase::Resuming => self.seed.0,
            _ => scaled(self.rate, self.gain),
        }
    }

    fn window(&self) -> u64 {
        let least = u64::from(self.profile.minimum_window) * self.datagram;
        let held = scaled(self.rate, self.gain).bytes_in(self.max_rtt);
        let window = match self.phase {
            Phase::Initial => self.initial.window.max(held),
            Phase::Resuming => self.seed.1.max(held),
            _ => {
                let margin = scaled(self.rate, self.gain).bytes_in(MARGIN.min(self.max_rtt / 4));
                // A push of less than a datagram is none.
                let more = if self.gain > ONE { self.datagram } else { 0 };
                held.max(self.rate.bytes_in(self.max_rtt) + more) + margin
            }
        };
        window.max(least)
    }

    fn note_model(&mut self) {
        self.stats.bandwidth = self.rate;
        if self.phase != Phase::Initial && self.rate > Rate::ZERO {
            let least = self.stats.least_bandwidth;
            self.stats.least_bandwidth = if least == Rate::ZERO { self.rate } else { least.min(self.rate) };
        }
    }
}

impl Controller for C4 {
    fn on_ack(&mut self, event: &AckEvent<'_>) -> Change {
        self.is_limited = event.application_limited;
        if event.has_rtt_sample {
            self.on_rtt(event.rtt.latest);
            self.resume(event.rtt.latest, event.delivered);
        }
        self.on_delivery(event);
        self.on_losses(event);
        self.on_marks(event);
        self.on_delay(event);
        if event.persistent_congestion {
            self.rate = Rate::ZERO;
            self.initial.window = u64::from(self.profile.minimum_window) * self.datagram;
            let window = self.initial.window;
            self.enter_initial(event.delivered);
            self.initial.window = window;
        }
        self.note_model();
        Change::Allowance
    }

    fn on_validation(&mut self, _now: Instant, window: u64) -> Change {
        let before = self.window();
        if window < before {
            self.rate = self.rate.mul_ratio(window, before.max(1));
            self.initial.window = self.initial.window.min(window);
        }
        Change::Allowance
    }

    fn on_application_limited(&mut self, _now: Instant, limited: bool) -> Change {
        self.is_limited = limited;
        Change::None
    }

    fn on_datagram_size(&mut self, size: u16) {
        if self.rate == Rate::ZERO && self.phase == Phase::Initial && self.stats.startups == 1 {
            self.initial.window = self.profile.initial_window.bytes(size);
        }
        self.datagram = u64::from(size);
    }

    fn allowance(&self, _path: &PathView<'_>) -> Allowance {
        let size = u16::try_from(self.datagram).unwrap_or(u16::MAX);
        // Before the first round trip there is no rate to pace at but that of a start.
        let rate = self.pacing_rate();
        let burst = rate.bytes_in(QUANTUM_TIME).min(MAX_QUANTUM).max(2 * self.datagram);
        Allowance { burst, ..Allowance::new(self.window(), Some(rate), size) }
    }

    /// It responds to marks in proportion to their share.
    fn ecn_codepoint(&self) -> Ecn {
        Ecn::Ect1
    }

    /// Two probes: Recovery, Cruising and Probing, twice.
    fn cycle(&self, _rtt: &Rtt) -> u32 {
        2 * (CRUISES.0 + 2)
    }

    fn state(&self) -> State {
        match self.phase {
            Phase::Initial => State::Startup,
            Phase::Resuming => State::ProbeBandwidthRefill,
            Phase::Recovery => State::ProbeBandwidthDown,
            Phase::Cruising => State::ProbeBandwidthCruise,
            Phase::Probing | Phase::Pushing => State::ProbeBandwidthUp,
        }
    }

    fn wants_dense_acks(&self) -> bool {
        !matches!(self.phase, Phase::Recovery | Phase::Cruising)
    }

    fn model(&self) -> Option<ModelStats> {
        Some(self.stats)
    }

    fn start_exit(&self) -> Option<StartExit> {
        self.initial.exit
    }
}
