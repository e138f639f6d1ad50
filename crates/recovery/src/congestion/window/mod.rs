//! The frame of window-based congestion control: the only place where the window and the slow start threshold are
//! written.
//!
//! ```text
//! in slow start    ──► Start      proposes how far to open, and when to stop
//! afterwards       ──► Growth     proposes the next window
//! on congestion    ──► Growth     proposes the reduced window (the new threshold)
//!                  ──► Reduction  proposes how to get there
//! ```
//!
//! A reduction can take its time: until it is complete it proposes the window at each ACK, and neither start nor growth
//! is asked.
//!
//! The parts see a [`View`] and return proposals; the frame applies the limits that hold for all of them (the minimum
//! window, no growth past the threshold within slow start) and keeps the snapshots from which a reduction can be taken
//! back. Bytes in flight are not part of a snapshot: they are facts, not decisions. A start that ends by itself with
//! less than was in flight has answered part of what its last round trip brings about; the frame takes only the rest.

#[cfg(feature = "study")]
mod abba;
mod counted;
#[cfg(feature = "study")]
mod cuback;
mod cubic;
mod growth;
mod interruption;
mod lia;
mod new_reno;
mod regain;
mod switch;

use smallvec::SmallVec;
use thalweg_units::{Duration, Ecn, Instant, Rate, math};

use super::marks::abe;
use super::reduction::{Progress, Reduction, Step};
use super::start::{Congested, Departure, Proposal, Start};
use super::view::View;
use super::{
    AckEvent, Allowance, Change, CongestionEvent, Controller, ControllerPolicies, Decrease, MARKED_ALL, PathContext,
    PathView, Sibling, WindowParts,
};
use crate::congestion::table::algorithms;
use crate::pacing;
use crate::profile::Flight;
use crate::rtt::Rtt;
use crate::trace::{CongestionCause, StartExit, State};
use crate::undo;

use counted::CountedCubic;
use cubic::Cubic;
pub(crate) use growth::{Growth, Signal};
use interruption::{Departures, EARLY_WINDOWS, Interruption, Longest, MOST_ACCIDENTS};
use lia::Lia;
use new_reno::NewReno;
use regain::Regain;

algorithms! {
    #[doc = "How the congestion window grows after the start, and how far congestion reduces it."]
    GrowthPolicy: Growth, "controller" {
        NewReno "new-reno",
            "grows by one datagram per round trip, halves on congestion (RFC 9002 section 7)",
            "for comparison; where flows share a link with flows that halve their windows",
            |_| Box::new(NewReno::default());
        Cubic "cubic",
            "grows by a cubic function of the time since the last reduction, falls to 0.7 on congestion (RFC 9438)",
            "long or fast paths, on which one datagram per round trip takes minutes to regain a window",
            |context| match context.profile.whole_windows {
                true => Box::new(CountedCubic::default()),
                false => Box::new(Cubic::default()),
            };
        Regain "regain",
            "as cubic, but regains within a few round trips what losses without a queue have taken, and fills a path that carries more than it did or takes longer (of this project)",
            "long or fast paths that lose packets by chance, or whose rate or delay changes",
            |_| Box::new(Regain::new(Box::new(Cubic::default())));
        Lia "lia",
            "as new-reno, and the paths of a connection together grow as fast as one flow on the best of them would (RFC 6356)",
            "several paths at once that may share a bottleneck: they take no more of it than one flow",
            |_| Box::new(Lia::default());
    } default Regain
    study {
        GentleReno "gentle-reno",
            "as new-reno, but congestion leaves 7/10 of the window, however long it lasts (quic-go)",
            "to compare with quic-go; after outages it goes on where it was",
            |_| Box::new(NewReno::gentle());
        ForgetfulCubic "forgetful-cubic",
            "as cubic, but where a reduction is taken back, W_est (RFC 9438 section 4.3) stays reduced (quiche)",
            "to compare with quiche, with undo=few; where packets are late it hardly grows beyond what it had",
            |_| Box::new(Cubic::forgetful());
        Cuback "cuback",
            "as cubic, driven by what is acknowledged instead of by the clock (draft-kazuho-ccwg-cuback)",
            "to compare with Cuback; where flows come and go: one that gains share climbs faster, one that loses it more slowly",
            |_| Box::new(cuback::Cuback::default());
        Abba "abba",
            "as cubic, but faster while the round-trip time is shorter than the window would have made it (draft-kazuho-ccwg-abba)",
            "to compare with ABBA; long paths whose rate rises suddenly, or that lose packets by chance",
            |_| Box::new(abba::Abba::new(Box::new(Cubic::default())));
    }
}

/// The smallest slow start threshold, in datagrams (kMinimumWindow, RFC 9002 section 7.2; RFC 5681 section 3.1). In
/// QUIC it is the smallest window too: one datagram would leave every packet waiting for the peer's ACK delay.
const MINIMUM_THRESHOLD: u64 = 2;

/// A scalable sender whose start was ended by a mark goes on until the next one with this part of slow start's growth
/// (CSS_GROWTH_DIVISOR, RFC 9406 section 4.3), which is what pacing at 5/4 of a window per round trip lets out. The
/// mark came when two windows per round trip first exceeded the link, so that half of the window may be half of the
/// path: by one datagram per round trip it takes hundreds of round trips to find out.
const SEARCH_DIVISOR: u64 = 4;

/// How a start wants packets to leave; what it leaves open is the frame's.
#[derive(Copy, Clone, Debug, Default)]
struct Shape {
    rate: Option<Rate>,
    burst: u64,
    hold_until_credit: u64,
}

/// Everything that a reduction changes.
#[derive(Debug)]
struct Snapshot {
    episode: u32,
    window: u64,
    ssthresh: Option<u64>,
    start_exit: Option<StartExit>,
    searching: bool,
    growth: Box<dyn Growth>,
    start: Box<dyn Start>,
    shape: Shape,
}

/// A congestion window made of a start, a growth and a reduction.
#[derive(Debug)]
pub(crate) struct Window {
    window: u64,
    /// `None`: unlimited.
    ssthresh: Option<u64>,
    datagram_size: u16,
    /// What the parts were built from.
    context: PathContext,
    parts: WindowParts,
    start: Box<dyn Start>,
    /// How the start wants packets to leave, while it lasts.
    shape: Shape,
    growth: Box<dyn Growth>,
    reduction: Box<dyn Reduction>,
    /// Takes the place of `reduction` once that is complete.
    next_reduction: Option<Box<dyn Reduction>>,
    /// The reduction is not complete: it decides on the window.
    reducing: bool,
    start_exit: Option<StartExit>,
    /// When a start ended by itself with less than what was in flight, and what that was.
    before_exit: Option<(Instant, u64)>,
    application_limited: bool,
    /// A mark has ended the first start of a scalable sender, and none has come since: see [`SEARCH_DIVISOR`].
    searching: bool,
    snapshots: SmallVec<[Snapshot; undo::DEPTH]>,
    /// Losses have interrupted the start, and it is not known yet whether that is its end.
    interruption: Option<Box<Interruption>>,
    /// How often the start has gone on after one. From then on it sends evenly.
    accidents: u8,
    longest: Longest,
}

impl Window {
    /// A new path's window, of these parts.
    pub(crate) fn new(parts: WindowParts, context: &PathContext) -> Window {
        let WindowParts { growth, start, reduction } = parts;
        Window {
            window: context.profile.initial_window.bytes(context.datagram_size),
            ssthresh: None,
            datagram_size: context.datagram_size,
            context: *context,
            parts,
            start: super::start::wrap(start.build(context), context),
            shape: Shape::default(),
            growth: growth.build(context),
            reduction: reduction.build(context),
            next_reduction: None,
            reducing: false,
            start_exit: None,
            before_exit: None,
            application_limited: false,
            searching: false,
            snapshots: SmallVec::new(),
            interruption: None,
            accidents: 0,
            longest: Longest::default(),
        }
    }

    fn view(&self, now: Instant, rtt: &Rtt) -> View {
        View {
            now,
            window: self.window,
            datagram: u64::from(self.datagram_size),
            smoothed_rtt: rtt.smoothed,
            latest_rtt: rtt.latest,
            min_rtt: rtt.min,
        }
    }

    /// Packets are ECT(1): queues that mark early do so for it.
    fn is_scalable(&self) -> bool {
        self.context.ecn_codepoint == Ecn::Ect1
    }

    fn minimum(&self) -> u64 {
        u64::from(self.context.profile.minimum_window) * u64::from(self.datagram_size)
    }

    fn minimum_threshold(&self) -> u64 {
        MINIMUM_THRESHOLD * u64::from(self.datagram_size)
    }

    fn in_slow_start(&self) -> bool {
        !self.reducing && self.ssthresh.is_none_or(|threshold| self.window < threshold)
    }

    /// The window, or where it will be once the reduction under way is complete.
    fn settled(&self) -> u64 {
        match self.ssthresh.filter(|_| self.reducing) {
            Some(target) => target.max(self.minimum()),
            None => self.window,
        }
    }

    fn grow(&mut self, event: &AckEvent<'_>) {
        let mut acked = event.growth;
        if self.in_slow_start() {
            acked = self.open(event);
        }
        if self.searching && !self.in_slow_start() {
            self.window += acked / SEARCH_DIVISOR;
        } else if acked > 0 && !self.in_slow_start() {
            let proposal = self.growth.grow(self.view(event.now, event.rtt), acked);
            self.window = self.window.max(proposal);
        }
    }

    /// Slow start. Returns the acknowledged bytes that are left over for the growth: those beyond the threshold, or all
    /// of an ACK that made the start end where it was.
    fn open(&mut self, event: &AckEvent<'_>) -> u64 {
        let before = self.window;
        let proposal = self.start.on_ack(self.view(event.now, event.rtt), event);
        self.take_up(proposal);
        if proposal.exit.is_some() {
            let in_flight = before.min(event.prior_in_flight);
            let is_reduced = proposal.exit != Some(StartExit::Congestion) && self.window < in_flight;
            self.before_exit = is_reduced.then_some((event.now, in_flight));
            let view = self.view(event.now, event.rtt);
            self.growth.on_start_exit(view);
            if let Some(held) = proposal.held {
                self.growth.reduce(View { window: held, ..view }, Signal::Loss);
            }
            if proposal.exit == Some(StartExit::Congestion) {
                self.growth.on_congested_start(self.window);
            }
            // A start that ends where it was leaves this ACK to avoidance.
            let is_unused = matches!(proposal.exit, Some(StartExit::AckTrain | StartExit::Delay));
            return if is_unused && self.window == before { event.growth } else { 0 };
        } else if !self.in_slow_start() {
            self.leave_start(StartExit::Threshold);
            return event.growth.saturating_sub(self.window.saturating_sub(before));
        }
        0
    }

    /// Applies what a start proposes, within the limits that hold for every start.
    fn take_up(&mut self, proposal: Proposal) {
        self.window = proposal.window.clamp(self.minimum(), self.ssthresh.unwrap_or(u64::MAX).max(self.minimum()));
        let Proposal { rate, burst, hold_until_credit, .. } = proposal;
        self.shape = match self.accidents {
            0 => Shape { rate, burst, hold_until_credit },
            _ => Shape::default(),
        };
        if let Some(reason) = proposal.exit {
            self.ssthresh = Some(self.window);
            self.leave_start(reason);
        }
    }

    /// The same between two ACKs: a start proposes its end with an ACK only, but may reach the threshold.
    fn take_up_between_acks(&mut self, proposal: Proposal) {
        self.take_up(Proposal { exit: None, ..proposal });
        if !self.in_slow_start() {
            self.leave_start(StartExit::Threshold);
        }
    }

    fn leave_start(&mut self, reason: StartExit) {
        self.start_exit.get_or_insert(reason);
        self.shape = Shape::default();
        self.start.on_exit();
    }

    /// A mark ends slow start, and asks for no reduction.
    fn end_start(&mut self, event: &AckEvent<'_>) {
        self.ssthresh = Some(self.window);
        self.leave_start(StartExit::Mark);
        self.growth.on_start_exit(self.view(event.now, event.rtt));
    }

    /// The window falls by half of the share of packets that arrive marked (RFC 8257 section 3.3). Whatever the growth,
    /// it goes on from there as after a start that ended by itself: what Reno adds in a round trip, at least. After the
    /// first mark of all it searches on in smaller steps ([`SEARCH_DIVISOR`]).
    ///
    /// A loss that is being repaired has reduced the window already by more.
    fn reduce_in_proportion(&mut self, event: &AckEvent<'_>, share: u32) {
        if self.reducing || event.period.in_recovery {
            return;
        }
        self.searching = self.ssthresh.is_none();
        let cut = math::mul_div(self.window, u64::from(share), 2 * u64::from(MARKED_ALL));
        self.window = self.window.saturating_sub(cut).max(self.minimum_threshold());
        self.ssthresh = Some(self.window);
        self.leave_start(StartExit::Congestion);
        self.growth.on_start_exit(self.view(event.now, event.rtt));
    }

    fn signal(&self, event: &AckEvent<'_>, congestion: CongestionEvent) -> Signal {
        match (congestion.cause, congestion.decrease) {
            (CongestionCause::Loss, _) => Signal::Loss,
            (CongestionCause::Ecn, Decrease::Abe) if abe::is_enough(event, self.in_slow_start()) => Signal::AbeMark,
            (CongestionCause::Ecn, _) => Signal::Mark,
        }
    }

    /// What was in flight with the packets that met congestion, if a start has ended since with less than that.
    ///
    /// The consequences of a start's last round trip become known after its end. They call for a reduction of what was
    /// in flight then, and the end of the start was part of it: what was sent before a reduction calls for no other
    /// (RFC 9002 section 7.3.2).
    fn flight_before_exit(&self, event: &AckEvent<'_>, cause: CongestionCause) -> Option<u64> {
        let (ended, in_flight) = self.before_exit?;
        let newest = match cause {
            CongestionCause::Loss => event.losses.last().map(|loss| loss.sent),
            CongestionCause::Ecn => event.newest_sent(),
        };
        (newest? <= ended && in_flight > self.window).then_some(in_flight)
    }

    fn reduce(&mut self, event: &AckEvent<'_>, congestion: CongestionEvent) {
        let is_starting = self.in_slow_start();
        self.interruption = None;
        let signal = self.signal(event, congestion);
        // What the next reduction reduces is what this one was to arrive at.
        self.window = self.settled();
        self.remember(congestion.episode);
        self.searching = false;
        let mut view = self.view(event.now, event.rtt);
        if is_starting && let Some(Congested { window, threshold }) = self.start.on_congestion(view, event) {
            self.growth.reduce(view, signal);
            self.retreat(event, window, threshold);
            return;
        }
        if is_starting && signal == Signal::Loss && self.may_go_on() {
            self.interruption = Some(Box::new(self.interrupt(event, congestion.episode)));
        }
        if self.context.profile.flight == Flight::Outstanding {
            view.window = event.prior_in_flight;
        }
        let mut target = self.growth.reduce(view, signal);
        if let Some(in_flight) = self.flight_before_exit(event, congestion.cause) {
            target = math::mul_div(target, in_flight, view.window.max(1)).min(self.window);
        }
        if self.context.profile.whole_windows {
            target -= target % u64::from(self.datagram_size);
        }
        let target = target.max(self.minimum_threshold());
        if is_starting {
            self.growth.on_congested_start(target);
        }
        self.leave_start(StartExit::Congestion);
        self.ssthresh = Some(target);
        if let Some(next) = self.next_reduction.take() {
            self.reduction = next;
        }
        // A growth may answer with more than there is: then there is nothing to bring down.
        let step = match target < self.window {
            true => self.reduction.enter(self.window, target, self.progress(event)),
            false => Step { window: target, done: true },
        };
        self.take(step);
    }

    /// A start answers congestion by itself: the window falls at once, and packets leave as they do after a start.
    fn retreat(&mut self, event: &AckEvent<'_>, window: u64, threshold: Option<u64>) {
        self.window = window.clamp(self.minimum(), self.window.max(self.minimum()));
        let rate = pacing::window_rate(self.window, event.rtt.paced, pacing::AVOIDANCE_GAIN);
        self.shape = Shape { rate: Some(rate), ..Shape::default() };
        if let Some(threshold) = threshold {
            self.window = self.window.max(self.minimum_threshold());
            self.ssthresh = Some(threshold.clamp(self.minimum_threshold(), self.window));
            self.growth.on_congested_start(self.window);
            self.leave_start(StartExit::Congestion);
        }
    }

    fn carry_on_reducing(&mut self, event: &AckEvent<'_>) {
        let step = self.reduction.on_ack(self.window, self.progress(event));
        self.take(step);
    }

    fn take(&mut self, step: Step) {
        self.window = step.window.max(self.minimum());
        self.reducing = !step.done;
    }

    fn progress(&self, event: &AckEvent<'_>) -> Progress {
        Progress {
            delivered: event.acked,
            lost: event.lost,
            prior_in_flight: event.prior_in_flight,
            in_flight: event.bytes_in_flight,
            datagram: u64::from(self.datagram_size),
            is_fresh: event.period.is_fresh,
            is_over: !event.period.in_recovery,
            application_limited: event.application_limited,
        }
    }

    fn remember(&mut self, episode: u32) {
        if self.snapshots.len() == undo::DEPTH {
            self.snapshots.remove(0);
        }
        let snapshot = self.snapshot(episode);
        self.snapshots.push(snapshot);
    }

    /// What a reduction of this episode is about to change.
    fn snapshot(&self, episode: u32) -> Snapshot {
        Snapshot {
            episode,
            window: self.window,
            ssthresh: self.ssthresh,
            start_exit: self.start_exit,
            searching: self.searching,
            growth: self.growth.snapshot(),
            start: self.start.snapshot(),
            shape: self.shape,
        }
    }

    /// Returns to what was before a reduction.
    fn restore(&mut self, now: Instant, snapshot: Snapshot) {
        // An older reduction that was under way when this one began has had its time.
        self.reducing = false;
        self.window = snapshot.window.max(self.minimum());
        self.ssthresh = snapshot.ssthresh;
        self.start_exit = snapshot.start_exit;
        self.searching = snapshot.searching;
        self.growth = snapshot.growth;
        self.start = snapshot.start;
        self.before_exit = None;
        self.shape = snapshot.shape;
        self.interruption = None;
        // The snapshot may be from another phase of the application.
        self.growth.on_application_limited(now, self.application_limited);
        self.growth.on_return(now);
    }

    /// Whether the start goes on after losses that are not those of a full path.
    fn may_go_on(&self) -> bool {
        self.ssthresh.is_none() && self.accidents < MOST_ACCIDENTS && self.start.outlives_accidents()
    }

    fn interrupt(&self, event: &AckEvent<'_>, episode: u32) -> Interruption {
        let rate = pacing::window_rate(self.window, event.rtt.paced, pacing::SLOW_START_GAIN);
        let burst = match self.accidents {
            0 => pacing::quantum(rate, self.datagram_size),
            _ => pacing::steady_quantum(rate, self.datagram_size),
        };
        let early = EARLY_WINDOWS * self.context.profile.initial_window.bytes(self.datagram_size);
        let is_early = self.accidents == 0 && self.window <= early;
        let departures = Departures { datagram: self.datagram_size.into(), burst, is_early };
        Interruption::new(self.snapshot(episode), self.longest, event, departures)
    }

    /// Goes on with an interrupted start once it is known that the path was not full.
    fn judge(&mut self, event: &AckEvent<'_>) {
        if self.in_slow_start() {
            self.longest.observe(event);
        }
        let Some(mut interruption) = self.interruption.take().filter(|_| !event.persistent_congestion) else { return };
        interruption.count(event);
        if !interruption.is_over(event) {
            self.interruption = Some(interruption);
        } else if interruption.is_accident(event) {
            let growth = interruption.growth();
            let before = interruption.before;
            // Its packets may be late only. There is nothing to take back any more.
            self.snapshots.retain(|snapshot| snapshot.episode < before.episode);
            self.accidents += 1;
            self.restore(event.now, before);
            self.window = self.window.saturating_add(growth);
            self.start.on_accident();
            self.shape = Shape::default();
        }
    }

    /// RFC 9002 section 7.6.2: the window falls to its minimum; the threshold stays where the congestion put it.
    fn collapse(&mut self) {
        self.window = self.minimum();
        (self.before_exit, self.interruption) = (None, None);
        (self.reducing, self.searching) = (false, false);
        self.growth.on_persistent_congestion();
        self.leave_start(StartExit::Congestion);
    }
}

impl Controller for Window {
    fn on_sent(&mut self, now: Instant, bytes: u64, bytes_in_flight: u64) -> Change {
        if self.reducing {
            self.reduction.on_sent(bytes);
        } else if self.in_slow_start() {
            let next = self.shape.hold_until_credit.max(u64::from(self.datagram_size));
            let is_full = bytes_in_flight.saturating_add(next) > self.window;
            let departure = Departure { now, bytes, bytes_in_flight, window: self.window, is_full };
            if let Some(proposal) = self.start.on_sent(departure) {
                self.take_up_between_acks(proposal);
                return Change::Allowance;
            }
        }
        Change::None
    }

    fn on_siblings(&mut self, siblings: &[Sibling]) {
        self.growth.on_siblings(siblings);
    }

    fn on_ack(&mut self, event: &AckEvent<'_>) -> Change {
        self.judge(event);
        if event.marks.ends_start && self.can_end_start() {
            self.end_start(event);
        }
        self.growth.observe(self.view(event.now, event.rtt), event, event.period.in_recovery || self.reducing);
        match event.congestion {
            Some(CongestionEvent { decrease: Decrease::Share(share), .. }) => self.reduce_in_proportion(event, share),
            Some(congestion) => self.reduce(event, congestion),
            None => {}
        }
        if event.persistent_congestion && self.growth.collapses() {
            self.collapse();
        } else if event.congestion.is_none_or(|congestion| matches!(congestion.decrease, Decrease::Share(_)))
            && self.reducing
        {
            self.carry_on_reducing(event);
            if !self.reducing && self.context.profile.reduces_once {
                self.grow(event);
            }
        } else if event.congestion.is_none() {
            self.grow(event);
        }
        Change::Allowance
    }

    fn can_end_start(&self) -> bool {
        self.in_slow_start() && self.start.may_end_where_it_stands()
    }

    fn on_restart(&mut self, now: Instant, idle: Duration) -> Change {
        if !self.in_slow_start() {
            return Change::None;
        }
        match self.start.on_restart(now, idle, self.window) {
            Some(proposal) => {
                self.take_up_between_acks(proposal);
                Change::Allowance
            }
            None => Change::None,
        }
    }

    /// Slow start leads back to three quarters of the window (RFC 2861 section 3).
    fn on_validation(&mut self, _now: Instant, window: u64) -> Change {
        let memory = self.settled() / 4 * 3;
        (self.reducing, self.interruption) = (false, None);
        self.ssthresh = Some(self.ssthresh.unwrap_or_default().max(memory).max(self.minimum_threshold()));
        self.window = self.window.min(window).max(self.minimum());
        Change::Allowance
    }

    fn undo(&mut self, now: Instant, episode: u32) -> bool {
        let Some(index) = self.snapshots.iter().position(|snapshot| snapshot.episode == episode) else {
            return false;
        };
        let snapshot = self.snapshots.drain(index..).next();
        // Only upwards (RFC 9438 section 4.9.1): what has grown past the old window since needs no help.
        match snapshot.filter(|snapshot| self.settled() < snapshot.window) {
            Some(snapshot) => {
                self.restore(now, snapshot);
                true
            }
            None => false,
        }
    }

    fn on_policies(&mut self, now: Instant, policies: &ControllerPolicies) {
        self.switch(now, policies);
    }

    fn on_application_limited(&mut self, now: Instant, limited: bool) -> Change {
        self.application_limited = limited;
        self.growth.on_application_limited(now, limited);
        Change::None
    }

    /// RFC 9002 section 7.2: the initial window follows the datagram size; later, only the minimum does.
    fn on_datagram_size(&mut self, size: u16) {
        let initial = self.context.profile.initial_window;
        let is_untouched = self.window == initial.bytes(self.datagram_size) && self.ssthresh.is_none();
        self.datagram_size = size;
        self.context.datagram_size = size;
        self.window = if is_untouched { initial.bytes(size) } else { self.window.max(self.minimum()) };
        self.ssthresh = self.ssthresh.map(|threshold| threshold.max(self.minimum_threshold()));
        self.growth.on_datagram_size();
    }

    fn ecn_codepoint(&self) -> Ecn {
        self.context.ecn_codepoint
    }

    fn ssthresh(&self) -> Option<u64> {
        self.ssthresh
    }

    fn allowance(&self, path: &PathView<'_>) -> Allowance {
        let gain = if self.in_slow_start() { pacing::SLOW_START_GAIN } else { pacing::AVOIDANCE_GAIN };
        // While it is being reduced the window follows what is in flight; paced by that, repairs would leave slower
        // than allowed.
        let rate = || pacing::window_rate(self.window.max(self.settled()), path.rtt.paced, gain);
        let Shape { rate: asked, burst, hold_until_credit } = self.shape;
        let rate = asked.unwrap_or_else(rate);
        let allowance = match self.is_scalable() {
            true => Allowance::even(self.window, rate, self.datagram_size),
            false if self.in_slow_start() && self.accidents == 0 => {
                Allowance::new(self.window, Some(rate), self.datagram_size)
            }
            false => Allowance::steady(self.window, rate, self.datagram_size),
        };
        Allowance { burst, hold_until_credit, ..allowance }
    }

    fn cycle(&self, rtt: &Rtt) -> u32 {
        // A cycle does not depend on when it is asked for.
        self.growth.cycle(self.view(Instant::ZERO, rtt))
    }

    fn state(&self) -> State {
        if self.in_slow_start() { self.start.state() } else { State::CongestionAvoidance }
    }

    fn start_exit(&self) -> Option<StartExit> {
        self.start_exit.filter(|_| self.interruption.is_none())
    }
}

#[cfg(test)]
mod tests;
