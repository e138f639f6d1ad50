//! One path: round-trip time, congestion control, pacing, delivery rate and ECN; nothing about packet numbers.
//!
//! | part | subject |
//! |---|---|
//! | `tally` | what the ACK being processed has shown so far |
//! | `episode` | which reduction a loss belongs to, its recovery period, taking it back; what differs for TCP |
//! | `mark` | what congestion marks call for |
//! | `usage` | whether the transport makes use of the window |
//! | `crowding` | what became of the latest packets |
//! | `narrator` | what the trace has been told |
//! | `receiver_clock` | whether the arrivals that the peer reports can be true |
//!
//! While an ACK is processed, each path notes what concerns it in its tally; [`Path::finish`] turns that into one
//! [`AckEvent`](crate::AckEvent) for the controller. Whether a loss begins a recovery period (RFC 9002 section 7.3.2), and which bytes may
//! open the window (section 7.8), is decided here, once for all controllers.

use core::cmp::Ordering;

use thalweg_units::{Duration, DurationExt, Instant, Rate};

use crate::config::Config;
use crate::congestion::{
    self, AckEvent, Allowance, Arrival, Change, Controller, Decrease, PathContext, PathMemory, PathView, RecoveryPeriod,
};
use crate::delivery::{Delivery, Round};
use crate::ecn::Validation;
use crate::loss::{Adaptation, PACKET_THRESHOLD, Thresholds};
use crate::pacing::{Credit, Pacer};
use crate::policies::{PacingPolicy, ReorderingPolicy, RestartPolicy, UndoPolicy};
use crate::profile::{Profile, TimeoutMeaning};
use crate::rtt::{Rtt, Sample};
use crate::sent::Transmission;
use crate::trace::{CongestionCause, EcnState, Event, State, Trace};
use crate::types::{Budget, Ecn, NewPath, PathId};
use crate::undo::NO_EPISODE;

mod bytes;
mod crowding;
mod episode;
mod mark;
mod narrator;
mod receiver_clock;
mod stats;
mod switch;
mod tally;
mod usage;

use crowding::{Crowding, MAX_FATES};
use episode::Episode;
use mark::Marks;
use narrator::Narrator;
use receiver_clock::ReceiverClock;
pub use stats::{PathStats, RepairStats};
use tally::Tally;
use usage::{Opening, Usage};

/// A memory of fewer initial windows than this is not worth keeping (RFC 9959).
const WORTH_REMEMBERING: u64 = 4;

/// One path: its round-trip time, congestion control, pacing and ECN.
#[derive(Debug)]
pub struct Path {
    id: PathId,
    datagram_size: u16,
    rtt: Rtt,
    controller: Box<dyn Controller>,
    /// What the controller allowed when it was last asked.
    allowance: Allowance,
    /// The hold of the allowance in force: there is none without a pacer, and none below a rate limit.
    hold: u64,
    pacer: Pacer,
    is_paced: bool,
    /// The most that may leave, whatever the controller allows.
    max_rate: Option<Rate>,
    /// That is less than the controller's rate: the window is more than can be made use of.
    is_capped: bool,
    delivery: Delivery,
    ecn: Validation,
    marks: Marks,
    reordering_policy: ReorderingPolicy,
    /// What has been learnt about reordering.
    reordering: Adaptation,
    episode: Episode,
    usage: Usage,
    restart: RestartPolicy,
    crowding: Crowding,
    bytes_in_flight: u64,
    /// Packets neither acknowledged nor declared lost, whether they count in flight or not.
    outstanding: u64,
    backoff: Backoff,
    /// Since when nothing has been in flight.
    idle_since: Instant,
    /// The controller has left its start.
    is_started: bool,
    /// The transport has given the path up; it stays until its packets are settled.
    pub(crate) is_retired: bool,
    receiver_clock: ReceiverClock,
    tally: Tally,
    narrator: Narrator,
    stats: PathStats,
    repairs: RepairStats,
}

/// What an ACK or a timeout did to a path.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Conclusion {
    /// It gave a sample of the round trip.
    pub(crate) has_rtt_sample: bool,
    /// The reduction that it called for began, for this cause.
    pub(crate) congestion: Option<CongestionCause>,
    /// It established persistent congestion.
    pub(crate) persistent_congestion: bool,
}

/// Timeouts in a row: since the peer was last heard.
#[derive(Copy, Clone, Debug, Default)]
struct Backoff {
    count: u32,
    /// When the last of them was.
    last: Option<Instant>,
}

impl Backoff {
    fn on_timeout(&mut self, now: Instant) {
        *self = Backoff { count: self.count.saturating_add(1), last: Some(now) };
    }
}

impl Path {
    pub(crate) fn new(config: &Config, id: PathId, now: Instant, new: NewPath) -> Path {
        let datagram_size = new.datagram_size;
        let is_paced = config.policies.pacing == PacingPolicy::On;
        // Paths of a connection differ in their chance; the first has that of the connection.
        let seed = config.seed ^ u64::from(id.0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut context = PathContext::new(now, datagram_size);
        (context.profile, context.is_paced, context.seed) = (config.profile, is_paced, seed);
        (context.remote, context.memory, context.resume) = (new.remote, new.memory, config.policies.resume);
        context.ecn_codepoint = config.policies.mark.ecn_codepoint();
        let controller = congestion::build(&config.policies.congestion, &context);
        let rtt = Rtt::of(&config.policies, new.initial_rtt.unwrap_or(config.initial_rtt));
        let allowance = controller.allowance(&PathView::new(now, &rtt, 0));
        let mark = if controller.ecn_codepoint() == Ecn::Ect1 { Ecn::Ect1 } else { Ecn::Ect0 };
        let ecn = Validation::new(config.ecn, mark);
        let mut path = Path {
            id,
            datagram_size,
            rtt,
            allowance,
            hold: 0,
            pacer: Pacer::new(now, config.profile.initial_window.bytes(datagram_size)),
            is_paced,
            max_rate: config.max_rate,
            is_capped: false,
            delivery: Delivery::new(now),
            marks: Marks::new(config.policies.mark, mark, &context),
            reordering_policy: config.policies.reordering,
            reordering: Adaptation::default(),
            episode: Episode::new(config.profile, config.policies.undo == UndoPolicy::Episode),
            usage: Usage::new(config.policies.growth_limit, config.profile.initial_window.bytes(datagram_size)),
            restart: config.policies.restart,
            crowding: Crowding::default(),
            bytes_in_flight: 0,
            outstanding: 0,
            backoff: Backoff::default(),
            idle_since: now,
            is_started: false,
            is_retired: false,
            receiver_clock: ReceiverClock::default(),
            tally: Tally::default(),
            narrator: Narrator::new(controller.state(), controller.start_exit(), ecn.state()),
            stats: PathStats::default(),
            repairs: RepairStats::default(),
            controller,
            ecn,
        };
        path.ask(now);
        path
    }

    /// The name of the path.
    pub fn id(&self) -> PathId {
        self.id
    }

    /// What the transport's acknowledgments can tell.
    pub fn profile(&self) -> Profile {
        self.episode.profile()
    }

    /// The round-trip estimate.
    pub fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// The congestion window in bytes.
    pub fn window(&self) -> u64 {
        self.allowance.window
    }

    /// What the controller allows.
    pub fn allowance(&self) -> Allowance {
        self.allowance
    }

    /// What is worth remembering of the path after the connection; `None` if it has carried less than four initial
    /// windows in every round trip (RFC 9959 section 4.1): slow start is quick enough without it.
    pub fn memory(&self) -> Option<PathMemory> {
        let window = self.delivery.most_in_round();
        let initial = self.profile().initial_window.bytes(self.datagram_size);
        let known = self.rtt.has_sample && window >= WORTH_REMEMBERING * initial;
        let age = Duration::ZERO;
        known.then(|| PathMemory { window, min_rtt: self.rtt.min, rate: self.delivery.rate(), age })
    }

    /// The slow start threshold in bytes; `None` while unlimited.
    pub fn ssthresh(&self) -> Option<u64> {
        self.controller.ssthresh()
    }

    /// Bytes sent on this path that are neither acknowledged nor declared lost.
    pub fn bytes_in_flight(&self) -> u64 {
        self.bytes_in_flight
    }

    /// The size in bytes of a full datagram.
    pub fn datagram_size(&self) -> u16 {
        self.datagram_size
    }

    /// Tells the path the datagram size that is now in use. The initial window (if nothing has changed it yet), the
    /// minimum window, growth and pacing are in units of it (RFC 9002 section 7.2).
    pub fn set_datagram_size(&mut self, now: Instant, size: u16) {
        if size != self.datagram_size {
            self.datagram_size = size;
            self.controller.on_datagram_size(size);
            self.ask(now);
            self.note_change(now);
        }
    }

    /// How to mark the next packet.
    pub fn ecn_codepoint(&self) -> Ecn {
        self.ecn.codepoint()
    }

    /// What came by this path carried no mark: nothing is marked before the first ACK, in case the path swallows marked
    /// packets.
    pub fn postpone_ecn(&mut self) {
        self.ecn.postpone();
    }

    /// What was sent on this path has not arrived, as the peer has shown: until it is known whether marks were the
    /// cause, no more are set.
    pub fn suspend_ecn(&mut self) {
        self.ecn.on_silence();
    }

    /// Whether the path carries ECN.
    pub fn ecn_state(&self) -> EcnState {
        self.ecn.state()
    }

    /// The counters.
    pub fn stats(&self) -> PathStats {
        PathStats { model: self.controller.model(), ..self.stats }
    }

    /// How repairs of losses began and ended.
    pub fn repair_stats(&self) -> RepairStats {
        self.repairs
    }

    /// How fast the path has lately delivered, by its delivery-rate samples; `None` before the first.
    ///
    /// A sample is what was acknowledged in a span of a round trip or more, over that span: neither the window nor the
    /// estimated round-trip time has a part in it. Bytes count as in flight, without the headers of IP and UDP. A new
    /// sample weighs an eighth. One taken while the application left the window unused counts only if it is higher: it
    /// says what was asked of the path, not what the path can do. Without new samples the value stays.
    pub fn delivery_rate(&self) -> Option<Rate> {
        self.delivery.rate()
    }

    /// The rate at which packets may leave; `None` when they are not paced.
    pub fn pacing_rate(&self) -> Option<Rate> {
        self.pacer.rate()
    }

    /// What congestion control is doing.
    pub fn state(&self) -> State {
        let state = self.controller.state();
        if state.is_of_model() {
            state
        } else if self.episode.in_recovery {
            State::Recovery
        } else if self.usage.is_limited {
            State::ApplicationLimited
        } else {
            state
        }
    }

    /// The same as a label: "slow_start", "recovery", …
    pub fn state_label(&self) -> &'static str {
        self.state().label()
    }

    /// Whether the transport leaves the window unused.
    pub fn is_application_limited(&self) -> bool {
        self.usage.is_limited
    }

    /// Whether the controller wants acknowledgments densely ([`Controller::wants_dense_acks`]).
    pub fn wants_dense_acks(&self) -> bool {
        self.controller.wants_dense_acks()
    }

    /// Whether the controller wants the next packet to be acknowledged at once ([`Controller::wants_prompt_ack`]).
    pub fn wants_prompt_ack(&self, now: Instant) -> bool {
        self.controller.wants_prompt_ack(now)
    }

    /// Whether so many of the latest packets were lost that silence is likely to be congestion rather than an outage: a
    /// third of the last 32.
    ///
    /// More flows than a bottleneck has room for lose two of three. Random loss of 15 % loses a third of 32 once in 300
    /// times, a quarter once in ten.
    pub fn is_crowded(&self) -> bool {
        self.crowding.is_crowded()
    }

    /// Nothing sent on it is open any more.
    pub(crate) fn is_settled(&self) -> bool {
        self.outstanding == 0
    }

    /// Timeouts in a row: since the peer was last heard.
    pub fn pto_count(&self) -> u32 {
        self.backoff.count
    }

    /// When the probe timer last expired in the current row.
    pub(crate) fn last_pto(&self) -> Option<Instant> {
        self.backoff.last
    }

    /// The peer was heard, or what was waited for has been given up.
    pub(crate) fn on_heard(&mut self) {
        self.backoff = Backoff::default();
    }

    /// The probe timer expired once more, and so many datagrams probe.
    pub(crate) fn on_pto(&mut self, now: Instant, datagrams: u8) {
        self.backoff.on_timeout(now);
        self.on_probes(now, self.backoff.count, datagrams);
    }

    /// So many datagrams probe.
    pub(crate) fn on_probes(&mut self, now: Instant, count: u32, datagrams: u8) {
        self.ecn.on_silence();
        self.stats.ptos += 1;
        self.stats.probes += u64::from(datagrams);
        let change = self.controller.on_probe_timeout(now, count);
        self.ask_after(now, change);
    }

    /// What makes a packet of this path lost when its packets from the oldest open one to the next to be sent are
    /// `span`.
    pub(crate) fn thresholds(&self, span: u64) -> Thresholds {
        self.episode.limit(Thresholds::of(self.reordering_policy, &self.rtt, &self.reordering, span))
    }

    /// How much may leave.
    pub(crate) fn budget(&mut self, now: Instant) -> Budget {
        let datagram = u64::from(self.datagram_size);
        let room = self.window().saturating_sub(self.bytes_in_flight);
        let room = match self.episode.repair_packet {
            true => room.max(datagram),
            false if room < datagram => {
                self.pacer.on_held();
                return Budget::WindowFull;
            }
            false => room,
        };
        let hold = self.hold.min(self.window());
        if room < hold && !self.episode.repair_packet && !self.pacer.is_in_train(self.datagram_size) {
            self.pacer.on_held();
            return Budget::WindowFull;
        }
        match self.pacer.credit(now, self.datagram_size, room, hold) {
            Credit::Bytes(bytes) => Budget::Now(bytes.min(room)),
            Credit::NotBefore(next) => Budget::Paced(next),
        }
    }

    /// The window has no room for what leaves next: a datagram, or a train where the controller waits for one.
    fn is_full(&self, bytes_in_flight: u64) -> bool {
        let hold = if self.pacer.is_in_train(self.datagram_size) { 0 } else { self.hold.min(self.window()) };
        bytes_in_flight.saturating_add(hold.max(u64::from(self.datagram_size))) > self.window()
    }

    /// The transport has nothing to send, or has something again. Being held by the window or the pacer is not it (RFC
    /// 9002 section 7.8); being held by a rate that the application chose is: the window would grow without ever being
    /// used.
    pub(crate) fn set_application_limited(&mut self, now: Instant, limited: bool, trace: &mut Trace) {
        if limited {
            self.pacer.on_held();
        }
        let limited = (limited || self.is_capped) && !self.is_full(self.bytes_in_flight);
        if limited {
            self.usage.on_unused(self.stats.packets_sent);
            self.delivery.on_application_limited(self.bytes_in_flight);
        }
        if limited != self.usage.is_limited {
            self.usage.is_limited = limited;
            let change = self.controller.on_application_limited(now, limited);
            self.ask_after(now, change);
            trace.push(now, self.id, Event::AppLimited { limited });
            self.tell_state(now, trace);
        }
    }

    /// A packet leaves on this path: fills in its place among the packets of the path, counted from 1, and what
    /// delivery looks like.
    pub(crate) fn on_sent(&mut self, sent: &mut Transmission) {
        let size = u64::from(sent.size);
        let now = sent.time;
        self.stats.packets_sent += 1;
        self.stats.bytes_sent += size;
        self.outstanding += 1;
        if self.ecn.is_testing() {
            self.ecn.on_sent(now, sent.ecn, self.rtt.probe_base());
        }
        sent.order = self.stats.packets_sent;
        if !sent.in_flight {
            return;
        }
        if self.bytes_in_flight == 0 && now > self.idle_since && sent.order > 1 {
            self.validate_window(now);
            let change = self.controller.on_restart(now, now.saturating_since(self.idle_since));
            self.ask_after(now, change);
        }
        self.bytes_in_flight += size;
        self.usage.on_flight(self.bytes_in_flight);
        self.stats.max_bytes_in_flight = self.stats.max_bytes_in_flight.max(self.bytes_in_flight);
        self.episode.repair_packet = false;
        self.pacer.on_sent(now, size);
        if self.is_full(self.bytes_in_flight) {
            self.usage.on_full(sent.order);
        }
        sent.delivery = self.delivery.on_sent(now, self.bytes_in_flight, size);
        let change = self.controller.on_sent(now, size, self.bytes_in_flight);
        self.ask_after(now, change);
    }

    /// The window after nothing was in flight for a while. The probe timeout without backoff stands for TCP's
    /// retransmission timeout.
    fn validate_window(&mut self, now: Instant) {
        let timeout = self.rtt.probe_base().nanos().max(1);
        let timeouts = now.saturating_since(self.idle_since).nanos() / timeout;
        if timeouts == 0 || self.restart == RestartPolicy::Keep {
            return;
        }
        let initial = self.profile().initial_window.bytes(self.datagram_size);
        let halved = self.window() >> timeouts.min(63);
        let window = if self.restart == RestartPolicy::Initial { initial } else { halved.max(initial) };
        if window < self.window() {
            let change = self.controller.on_validation(now, window);
            self.ask_after(now, change);
        }
    }

    /// A packet that was outstanding is so no longer, whatever became of it.
    pub(crate) fn on_settled(&mut self, now: Instant, sent: &Transmission) {
        self.outstanding = self.outstanding.saturating_sub(1);
        if sent.in_flight {
            self.bytes_in_flight = self.bytes_in_flight.saturating_sub(u64::from(sent.size));
            self.idle_since = now;
        }
    }

    fn touch(&mut self) {
        if !self.tally.touched {
            self.tally.touched = true;
            self.tally.prior_in_flight = self.bytes_in_flight;
            self.episode.on_ack_begins();
        }
    }

    /// An outstanding packet was acknowledged, `behind` places after the newest that earlier ACKs acknowledged.
    pub(crate) fn on_acked(&mut self, now: Instant, sent: &Transmission, behind: u64) {
        self.touch();
        if behind >= PACKET_THRESHOLD {
            self.reordering.on_reordering();
        }
        self.on_settled(now, sent);
        if sent.in_flight {
            self.crowding.on_acked();
        }
        if self.episode.on_acked(sent, &mut self.tally) && self.usage.was_full(sent.order) {
            self.tally.growth += u64::from(sent.size);
        }
        self.on_delivered(now, sent);
    }

    /// The receiver says when packets arrived that the ACK being processed acknowledges; of this one, perhaps.
    pub(crate) fn on_arrival(&mut self, now: Instant, sent: &Transmission, received: Option<Duration>) {
        let is_believed = received.is_none_or(|received| self.receiver_clock.believes(now, sent.time, received));
        if sent.in_flight && is_believed {
            let (is_told, received) = (received.is_some(), received.unwrap_or(Duration::MAX));
            self.tally.arrivals.push(Arrival { sent: sent.time, bytes: u64::from(sent.size), received, is_told });
        }
    }

    /// A packet of `episode` that had been declared lost was acknowledged: delivered, but it was not in flight and
    /// opens no window.
    pub(crate) fn on_late_ack(&mut self, now: Instant, sent: &Transmission, episode: u32) {
        self.touch();
        self.on_delivered(now, sent);
        self.crowding.on_late_ack();
        self.note_spurious(now, sent, episode);
    }

    fn note_spurious(&mut self, now: Instant, sent: &Transmission, episode: u32) {
        self.reordering.on_spurious(now, sent.time, &self.rtt);
        self.stats.packets_spurious += 1;
        self.stats.bytes_spurious += u64::from(sent.size);
        self.episode.on_late_ack(episode);
    }

    fn on_delivered(&mut self, now: Instant, sent: &Transmission) {
        let size = u64::from(sent.size);
        self.stats.packets_acked += 1;
        self.stats.bytes_acked += size;
        self.tally.newest_acked = self.tally.newest_acked.max(Some(sent.time));
        self.tally.newest_order = self.tally.newest_order.max(sent.order);
        self.tally.oldest_acked = Some(self.tally.oldest_acked.map_or(sent.time, |oldest| oldest.min(sent.time)));
        if sent.in_flight {
            self.tally.acked += size;
            self.delivery.on_acked(now, sent.delivery, sent.time, size);
        }
    }

    /// An outstanding packet was declared lost. Returns the reduction that its loss belongs to, beginning one if it is
    /// due.
    pub(crate) fn on_lost(&mut self, now: Instant, sent: &Transmission) -> u32 {
        self.touch();
        self.on_settled(now, sent);
        if sent.ecn != Ecn::NotEct {
            self.ecn.on_lost();
        }
        if sent.mtu_probe {
            // Not a sign of congestion (RFC 9000 section 14.4).
            self.stats.mtu_probes_lost += 1;
            return NO_EPISODE;
        }
        if !sent.in_flight {
            return NO_EPISODE;
        }
        let size = u64::from(sent.size);
        if self.tally.fates < MAX_FATES {
            self.tally.fates += 1;
            self.crowding.on_lost();
        }
        self.stats.packets_lost += 1;
        self.stats.bytes_lost += size;
        self.tally.lost += size;
        self.tally.losses.push(sent.delivery.loss(sent, size));
        self.delivery.on_lost(size);
        if !self.episode.answers(sent.order) {
            self.begin_recovery(CongestionCause::Loss, Decrease::AsLoss);
        }
        self.episode.on_lost();
        self.episode.number()
    }

    /// A lost packet will never be proven otherwise.
    pub(crate) fn on_lost_for_good(&mut self, episode: u32) {
        self.episode.justify(episode);
    }

    /// Persistent congestion was established by what is being processed.
    pub(crate) fn on_persistent_congestion(&mut self) {
        self.touch();
        self.tally.persistent_congestion = true;
    }

    /// An ACK gave an RTT sample.
    pub(crate) fn on_rtt_sample(&mut self, sample: Sample) {
        self.touch();
        self.tally.has_rtt_sample = true;
        self.stats.rtt_samples += 1;
        self.rtt.on_sample(sample);
    }

    fn begin_recovery(&mut self, cause: CongestionCause, decrease: Decrease) {
        self.touch();
        self.usage.on_reduction(self.bytes_in_flight);
        self.tally.congestion = Some(self.episode.begin(cause, decrease, self.stats.packets_sent));
        self.reordering.on_reduction();
        self.stats.congestion_events += 1;
        self.stats.ecn_events += u64::from(cause == CongestionCause::Ecn);
    }

    /// When the newest packet was sent that what is being processed acknowledged.
    pub(crate) fn newest_acked(&self) -> Option<Instant> {
        self.tally.newest_acked
    }

    /// Draws the conclusions from everything noted since the last time.
    pub(crate) fn finish(&mut self, now: Instant, trace: &mut Trace) -> Conclusion {
        if !self.tally.touched {
            return Conclusion::default();
        }
        let (round, delivery) = self.delivery.finish(self.rtt.min);
        self.take_back_spurious_reductions(now, trace);
        let is_collapse = self.tally.persistent_congestion;
        if is_collapse {
            match self.episode.collapse(self.stats.packets_sent) {
                TimeoutMeaning::Probe => self.stats.persistent_congestions += 1,
                TimeoutMeaning::Loss => self.repairs.timeouts += 1,
            }
            // RFC 9002 section 5.2. Found by the loss timer, it comes without a sample.
            match self.tally.has_rtt_sample {
                true => self.rtt.restart_min(),
                false => self.rtt.restart_min_with_next_sample(),
            }
        }
        let opening = Opening {
            prior_in_flight: self.tally.prior_in_flight,
            window: self.window(),
            in_slow_start: !self.tally.marks.ends_start
                && self.ssthresh().is_none_or(|threshold| self.window() < threshold),
            datagram: u64::from(self.datagram_size),
        };
        self.tally.order_arrivals();
        let tally = &self.tally;
        let growth = self.usage.opens(tally.growth, opening);
        let starts_recovery = tally.congestion.is_some();
        let event = AckEvent {
            now,
            rtt: &self.rtt,
            has_rtt_sample: tally.has_rtt_sample,
            acked: tally.acked,
            growth: if starts_recovery { 0 } else { growth },
            sent: tally.sent(),
            arrivals: &tally.arrivals,
            lost: tally.lost,
            losses: &tally.losses,
            marks: tally.marks,
            delivered: self.delivery.delivered(),
            prior_in_flight: self.episode.prior_flight(tally.prior_in_flight, starts_recovery),
            bytes_in_flight: self.bytes_in_flight,
            round,
            delivery,
            application_limited: self.usage.is_limited && !self.is_full(tally.prior_in_flight),
            period: RecoveryPeriod { in_recovery: self.episode.in_recovery, is_fresh: tally.is_fresh },
            congestion: tally.congestion,
            persistent_congestion: is_collapse,
        };
        let change = self.controller.on_ack(&event);
        // A new estimate of the round trip is one that every rate may depend on.
        if change == Change::Allowance || self.tally.has_rtt_sample {
            self.ask(now);
        }
        self.count_episodes();
        self.tell_estimators(round);
        if trace.is_on() {
            self.tell(now, trace);
        }
        let conclusion = Conclusion {
            has_rtt_sample: self.tally.has_rtt_sample,
            congestion: self.tally.congestion.map(|congestion| congestion.cause),
            persistent_congestion: is_collapse,
        };
        self.tally.clear();
        conclusion
    }

    /// Counts how the repair of losses begins and ends.
    fn count_episodes(&mut self) {
        let datagram = u64::from(self.datagram_size.max(1));
        let threshold = self.ssthresh().unwrap_or(u64::MAX);
        if self.episode.is_repairing && !self.episode.in_recovery {
            self.episode.is_repairing = false;
            if !self.tally.persistent_congestion {
                self.repairs.episodes_ended += 1;
                self.repairs.end_window_bytes += self.window();
                self.repairs.end_window_datagrams += self.window() / datagram;
                self.repairs.ended_in_slow_start += u64::from(self.window() < threshold);
            }
        }
        let is_loss = self.tally.congestion.is_some_and(|congestion| congestion.cause == CongestionCause::Loss);
        if is_loss && self.episode.in_recovery {
            self.episode.is_repairing = true;
            match (self.bytes_in_flight / datagram).cmp(&(threshold / datagram)) {
                Ordering::Greater => self.repairs.entries_above += 1,
                Ordering::Equal => self.repairs.entries_at += 1,
                Ordering::Less => self.repairs.entries_below += 1,
            }
        }
    }

    /// What a windowed estimator has to know about the controller.
    fn tell_estimators(&mut self, round: Round) {
        let is_started = self.controller.start_exit().is_some();
        if is_started && !self.is_started {
            self.rtt.on_start_exit();
        }
        self.is_started = is_started;
        if round.started {
            self.rtt.set_memory(self.controller.cycle(&self.rtt));
        }
    }

    fn take_back_spurious_reductions(&mut self, now: Instant, trace: &mut Trace) {
        while let Some(episode) = self.episode.take_spurious() {
            if self.controller.undo(now, episode) {
                self.ask(now);
                self.stats.undos += 1;
                trace.push(now, self.id, Event::Undo { episode, window: self.window() });
            }
        }
    }

    /// Asks the controller what it allows, if that may have changed.
    fn ask_after(&mut self, now: Instant, change: Change) {
        match change {
            Change::None => {}
            Change::Allowance => self.ask(now),
        }
    }

    /// Asks the controller what it allows, and shows the pacer.
    fn ask(&mut self, now: Instant) {
        self.allowance = self.controller.allowance(&PathView::new(now, &self.rtt, self.bytes_in_flight));
        self.stats.max_window = self.stats.max_window.max(self.window());
        let allowed = match self.is_paced {
            true => self.allowance,
            false => Allowance { rate: None, quantum: u64::MAX, ..self.allowance },
        };
        let cap = self.max_rate.filter(|&most| allowed.rate.is_none_or(|rate| rate > most));
        self.is_capped = cap.is_some();
        let shaped = match cap {
            Some(cap) => {
                let capped = match allowed.is_even {
                    true => Allowance::steady(allowed.window, cap, self.datagram_size),
                    false => Allowance::new(allowed.window, Some(cap), self.datagram_size),
                };
                Allowance { quantum: capped.quantum.min(allowed.quantum), ..capped }
            }
            None => allowed,
        };
        self.hold = shaped.rate.map_or(0, |_| shaped.hold_until_credit);
        let initial = self.profile().initial_window.bytes(self.datagram_size);
        self.pacer.set(now, &shaped, initial, self.rtt.has_sample);
    }
}
