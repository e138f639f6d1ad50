//! One path: round-trip time, congestion control, pacing, delivery rate and ECN; nothing about packet numbers.
//!
//! While an ACK is processed, each path notes what concerns it in a [`Tally`]; [`Path::finish`] turns that into one
//! [`AckEvent`](crate::AckEvent) for the controller. Whether a loss begins a recovery period (RFC 9002 section 7.3.2), and which bytes may
//! open the window (section 7.8), is decided here, once for all controllers.

use core::cmp::Ordering;

use thalweg_units::{Duration, Instant, Rate};

use crate::config::{Config, PacingPolicy, ReorderingPolicy, UndoPolicy};
use crate::controller::{AckEvent, Congestion, Controller};
use crate::delivery::{Delivery, Round, Snapshot};
use crate::ecn::{Report, Validation};
use crate::loss::{Adaptation, PACKET_THRESHOLD, Thresholds};
use crate::pacing::{Credit, Pacer};
use crate::profile::{EpisodeEnd, Flight, Profile, SafeAck, TimeoutMeaning};
use crate::rtt::{Rtt, Sample};
use crate::sent::Record;
use crate::trace::{CongestionCause, EcnState, Event, Metrics, StartExit, State, Trace};
use crate::types::{Budget, Ecn, PathId, Sent};
use crate::undo::{Episodes, LostPacket, NO_EPISODE, Period};
use crate::window::Window;

mod sequence;
mod stats;
mod switch;

use sequence::Sequence;
pub use stats::{PathStats, RepairStats};

/// How many of the losses that one ACK or timeout shows count for whether a path is crowded. A crowded path loses a few
/// packets of every small flight; an outage loses a whole flight at once, and says nothing about what follows.
const MAX_FATES: u32 = 4;

/// What the ACK or timeout being processed means for one path.
#[derive(Copy, Clone, Debug, Default)]
struct Tally {
    touched: bool,
    prior_in_flight: u64,
    acked: u64,
    /// Of these, in flight until now, sent after the current recovery period began, and in full use of the window.
    growth: u64,
    lost: u64,
    has_rtt_sample: bool,
    congestion: Option<Congestion>,
    persistent_congestion: bool,
    /// It shows that repairs get through (SafeACK).
    is_fresh: bool,
    /// When the newest of the acknowledged packets was sent.
    newest_acked: Option<Instant>,
    /// How many of the losses count as fates.
    fates: u32,
}

/// What the trace has been told last.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Told {
    state: State,
    start_exit: Option<StartExit>,
    ecn: EcnState,
}

/// One path: its round-trip time, congestion control, pacing and ECN.
#[derive(Debug)]
pub struct Path {
    id: PathId,
    profile: Profile,
    sequence: Sequence,
    rtt: Rtt,
    controller: Box<dyn Controller>,
    pacer: Pacer,
    is_paced: bool,
    /// The most that may leave, whatever the controller allows.
    max_rate: Option<Rate>,
    /// That is less than the controller's rate: the window is more than can be made use of.
    is_capped: bool,
    delivery: Delivery,
    ecn: Validation,
    reordering_policy: ReorderingPolicy,
    /// What has been learnt about reordering.
    reordering: Adaptation,
    /// `None` when nothing is ever taken back.
    episodes: Option<Episodes>,
    datagram_size: u16,
    bytes_in_flight: u64,
    /// What became of the last 32 packets in flight, the newest in the lowest bit: 1 for a packet that was declared
    /// lost.
    fates: u32,
    /// Packets neither acknowledged nor declared lost, whether they count in flight or not.
    outstanding: u64,
    /// The number of the latest reduction.
    episode: u32,
    /// The current or last recovery period.
    period: Period,
    /// No packet sent since the period began has been acknowledged yet.
    in_recovery: bool,
    /// The newest packet in flight when the window was full: up to it everything was sent in full use of the window.
    filled: u64,
    /// The newest packet sent when the application had nothing more to send and the window had room.
    unfilled: u64,
    /// One packet may leave above the window, to repair the loss that began the recovery period (RFC 9002 section 7.3.2).
    repair_packet: bool,
    /// A loss is being repaired, and how that ends has not been counted yet.
    is_repairing: bool,
    application_limited: bool,
    /// The controller has left its start.
    is_started: bool,
    /// The transport has given the path up; it stays until its packets are settled.
    pub(crate) is_retired: bool,
    tally: Tally,
    stats: PathStats,
    repairs: RepairStats,
    told: Told,
    /// Something has changed outside of any event that the trace would have shown.
    untold_change: Option<Instant>,
}

impl Path {
    pub(crate) fn new(config: &Config, id: PathId, now: Instant, datagram_size: u16, initial_rtt: Duration) -> Path {
        let controller: Box<dyn Controller> = match &config.controller {
            Some(factory) => factory.build(now, datagram_size),
            None => Box::new(Window::new(&config.policies, config.profile, datagram_size)),
        };
        let ecn = Validation::new(config.ecn);
        let told = Told { state: controller.state(), start_exit: controller.start_exit(), ecn: ecn.state() };
        let stats = PathStats { max_window: controller.window(), ..PathStats::default() };
        let mut path = Path {
            id,
            profile: config.profile,
            sequence: Sequence::default(),
            rtt: Rtt::of(&config.policies, initial_rtt),
            controller,
            pacer: Pacer::new(now, config.profile.initial_window.bytes(datagram_size)),
            is_paced: config.policies.pacing == PacingPolicy::On,
            max_rate: config.max_rate,
            is_capped: false,
            delivery: Delivery::new(now),
            ecn,
            reordering_policy: config.policies.reordering,
            reordering: Adaptation::default(),
            episodes: (config.policies.undo == UndoPolicy::Episode).then(Episodes::default),
            datagram_size,
            bytes_in_flight: 0,
            fates: 0,
            outstanding: 0,
            episode: NO_EPISODE,
            period: Period::default(),
            in_recovery: false,
            filled: 0,
            unfilled: 0,
            repair_packet: false,
            is_repairing: false,
            application_limited: false,
            is_started: false,
            is_retired: false,
            tally: Tally::default(),
            stats,
            repairs: RepairStats::default(),
            told,
            untold_change: None,
        };
        path.repace(now);
        path
    }

    /// The name of the path.
    pub fn id(&self) -> PathId {
        self.id
    }

    /// What the transport's acknowledgments can tell.
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// The round-trip estimate.
    pub fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// The congestion window in bytes.
    pub fn window(&self) -> u64 {
        self.controller.window()
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

    /// Tells the path the datagram size that is now in use. The initial window (if nothing has changed it yet), the minimum window, growth and
    /// pacing are in units of it (RFC 9002 section 7.2).
    pub fn set_datagram_size(&mut self, now: Instant, size: u16) {
        if size != self.datagram_size {
            self.datagram_size = size;
            self.controller.on_datagram_size(size);
            self.stats.max_window = self.stats.max_window.max(self.window());
            self.repace(now);
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

    /// How many later packets have to be acknowledged for a packet in a full window to be lost; `None` if only time counts.
    pub fn packet_threshold(&self) -> Option<u64> {
        self.thresholds(self.window() / u64::from(self.datagram_size.max(1))).packets
    }

    /// The counters.
    pub fn stats(&self) -> PathStats {
        self.stats
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
        if self.in_recovery {
            State::Recovery
        } else if self.application_limited {
            State::ApplicationLimited
        } else {
            self.controller.state()
        }
    }

    /// The same as a label: "slow_start", "recovery", …
    pub fn state_label(&self) -> &'static str {
        self.state().label()
    }

    /// Whether the transport leaves the window unused.
    pub fn is_application_limited(&self) -> bool {
        self.application_limited
    }

    /// Whether so many of the latest packets were lost that silence is likely to be congestion rather than an outage: a
    /// third of the last 32.
    ///
    /// More flows than a bottleneck has room for lose two of three. Random loss of 15 % loses a third of 32 once in 300
    /// times, a quarter once in ten.
    pub fn is_crowded(&self) -> bool {
        3 * self.fates.count_ones() >= u32::BITS
    }

    /// Nothing sent on it is open any more.
    pub(crate) fn is_settled(&self) -> bool {
        self.outstanding == 0
    }

    pub(crate) fn on_pto(&mut self, datagrams: u8) {
        self.ecn.on_silence();
        self.stats.ptos += 1;
        self.stats.probes += u64::from(datagrams);
    }

    /// What makes a packet of this path lost when its packets from the oldest open one to the next to be sent are `span`.
    pub(crate) fn thresholds(&self, span: u64) -> Thresholds {
        let mut thresholds = Thresholds::of(self.reordering_policy, &self.rtt, &self.reordering, span);
        if !self.profile.has_time_threshold && thresholds.packets.is_some() {
            thresholds.time = Duration::MAX;
        }
        thresholds
    }

    /// How much may leave.
    pub(crate) fn budget(&mut self, now: Instant) -> Budget {
        let datagram = u64::from(self.datagram_size);
        let room = self.window().saturating_sub(self.bytes_in_flight);
        let room = match self.repair_packet {
            true => room.max(datagram),
            false if room < datagram => return Budget::WindowFull,
            false => room,
        };
        match self.pacer.credit(now, self.datagram_size, room) {
            Credit::Bytes(bytes) => Budget::Now(bytes.min(room)),
            Credit::NotBefore(next) => Budget::Paced(next),
        }
    }

    /// The window has no room for another datagram.
    fn is_full(&self, bytes_in_flight: u64) -> bool {
        bytes_in_flight.saturating_add(u64::from(self.datagram_size)) > self.window()
    }

    /// The transport has nothing to send, or has something again. Being held by the window or the pacer is not it (RFC
    /// 9002 section 7.8); being held by a rate that the application chose is: the window would grow without ever being
    /// used.
    pub(crate) fn set_application_limited(&mut self, now: Instant, limited: bool, trace: &mut Trace) {
        let limited = (limited || self.is_capped) && !self.is_full(self.bytes_in_flight);
        if limited {
            self.unfilled = self.stats.packets_sent;
            self.delivery.on_application_limited(self.bytes_in_flight);
        }
        if limited != self.application_limited {
            self.application_limited = limited;
            self.controller.on_application_limited(now, limited);
            trace.push(now, self.id, Event::AppLimited { limited });
            self.tell_state(now, trace);
        }
    }

    /// A packet leaves on this path. Returns what it has to remember: its place among the packets of the path, counted
    /// from 1, and what delivery looks like.
    pub(crate) fn on_sent<T>(&mut self, packet: &Sent<T>, in_flight: bool) -> (u64, Snapshot) {
        let size = u64::from(packet.size);
        self.stats.packets_sent += 1;
        self.stats.bytes_sent += size;
        self.outstanding += 1;
        self.ecn.on_sent(packet.time, packet.ecn, self.rtt.probe_base());
        let order = self.stats.packets_sent;
        if !in_flight {
            return (order, Snapshot::default());
        }
        self.bytes_in_flight += size;
        if self.is_full(self.bytes_in_flight) {
            self.filled = order;
        }
        self.stats.max_bytes_in_flight = self.stats.max_bytes_in_flight.max(self.bytes_in_flight);
        self.repair_packet = false;
        self.pacer.on_sent(packet.time, size);
        self.controller.on_sent(packet.time, size, self.bytes_in_flight);
        (order, self.delivery.on_sent(packet.time, self.bytes_in_flight, size))
    }

    /// A packet that was outstanding is so no longer, whatever became of it.
    pub(crate) fn on_settled<T>(&mut self, record: &Record<T>) {
        self.outstanding = self.outstanding.saturating_sub(1);
        if record.in_flight {
            self.bytes_in_flight = self.bytes_in_flight.saturating_sub(u64::from(record.size));
        }
    }

    fn touch(&mut self) {
        if !self.tally.touched {
            self.tally.touched = true;
            self.tally.prior_in_flight = self.bytes_in_flight;
            self.sequence.opens_window = false;
            self.sequence.prior_flight = self.sequence.next - self.sequence.una;
        }
    }

    /// An outstanding packet was acknowledged, `behind` places after the newest that earlier ACKs acknowledged.
    pub(crate) fn on_acked<T>(&mut self, now: Instant, record: &Record<T>, behind: u64) {
        self.touch();
        if behind >= PACKET_THRESHOLD {
            self.reordering.on_reordering();
        }
        self.on_settled(record);
        if record.in_flight {
            self.fates <<= 1;
        }
        let may_grow = match self.profile.episode_end {
            EpisodeEnd::FirstDelivery => {
                let is_since = record.order > self.period.closed;
                self.in_recovery &= !is_since;
                self.tally.is_fresh |= is_since && record.in_flight && self.profile.safe_ack == SafeAck::SentSince;
                is_since && record.in_flight
            }
            EpisodeEnd::RecoveryPoint => self.sequence.opens_window,
        };
        if may_grow && self.used_the_window(record.order) {
            self.tally.growth += u64::from(record.size);
        }
        self.on_delivered(now, record);
    }

    /// Whether a packet belongs to a flight that filled the window, or was cut short by nothing that the application
    /// did (RFC 9002 section 7.8). What the window looks like when the acknowledgment arrives does not matter: it would
    /// make growth depend on how many packets one acknowledgment names.
    fn used_the_window(&self, order: u64) -> bool {
        order <= self.filled || order > self.unfilled
    }

    /// A packet that had been declared lost was acknowledged: delivered, but it was not in flight and opens no window.
    pub(crate) fn on_late_ack<T>(&mut self, now: Instant, packet: &LostPacket<T>) {
        self.touch();
        self.on_delivered(now, &packet.record);
        self.reordering.on_spurious(now, packet.record.time, &self.rtt);
        // One loss less, whichever it was.
        self.fates &= self.fates.saturating_sub(1);
        self.stats.packets_spurious += 1;
        self.stats.bytes_spurious += u64::from(packet.record.size);
        if let Some(episodes) = &mut self.episodes {
            episodes.on_late_ack(packet.episode);
        }
    }

    fn on_delivered<T>(&mut self, now: Instant, record: &Record<T>) {
        let size = u64::from(record.size);
        self.stats.packets_acked += 1;
        self.stats.bytes_acked += size;
        self.tally.newest_acked = self.tally.newest_acked.max(Some(record.time));
        if record.in_flight {
            self.tally.acked += size;
            self.delivery.on_acked(now, record.delivery, record.time, size);
        }
    }

    /// An outstanding packet was declared lost. Returns the reduction that its loss belongs to, beginning one if it is due.
    pub(crate) fn on_lost<T>(&mut self, record: &Record<T>) -> u32 {
        self.touch();
        self.on_settled(record);
        if record.ect0 {
            self.ecn.on_lost();
        }
        if record.mtu_probe {
            // Not a sign of congestion (RFC 9000 section 14.4).
            self.stats.mtu_probes_lost += 1;
            return NO_EPISODE;
        }
        if !record.in_flight {
            return NO_EPISODE;
        }
        let size = u64::from(record.size);
        if self.tally.fates < MAX_FATES {
            self.tally.fates += 1;
            self.fates = self.fates << 1 | 1;
        }
        self.stats.packets_lost += 1;
        self.stats.bytes_lost += size;
        self.tally.lost += size;
        self.delivery.on_lost(size);
        if !self.is_in_recovery_period(record.order) {
            self.begin_recovery(CongestionCause::Loss);
        }
        if let Some(episodes) = &mut self.episodes {
            episodes.on_lost(self.episode);
        }
        self.episode
    }

    /// A lost packet will never be proven otherwise.
    pub(crate) fn on_lost_for_good(&mut self, episode: u32) {
        if let Some(episodes) = &mut self.episodes {
            episodes.justify(episode);
        }
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

    /// An ACK reported ECN counts; `order` is the place of the largest packet it acknowledges, `newly` how many marked
    /// ones it newly did.
    pub(crate) fn on_ecn_report(&mut self, report: Report, order: u64, newly: u64) {
        self.touch();
        let marked = self.ecn.on_report(report, newly);
        self.stats.ce_marks += marked;
        if marked > 0 {
            if self.is_in_recovery_period(order) {
                // The path confirms what the losses said.
                if let Some(episodes) = &mut self.episodes {
                    episodes.justify_all();
                }
            } else {
                self.begin_recovery(CongestionCause::Ecn);
            }
        }
    }

    /// Whether what happened to the packet at this place has been responded to already: it was sent before the latest
    /// reduction (RFC 9002 section 7.3.2). What was sent since then was sent into the reduced window; its loss says
    /// that the reduction did not suffice (RFC 5681 section 4.3).
    fn is_in_recovery_period(&self, order: u64) -> bool {
        order <= self.period.answered
    }

    fn begin_recovery(&mut self, cause: CongestionCause) {
        self.touch();
        self.episode += 1;
        if let Some(episodes) = &mut self.episodes {
            match cause {
                CongestionCause::Loss => episodes.begin(self.episode, self.period),
                CongestionCause::Ecn => episodes.justify_all(),
            }
        }
        self.period = Period::after(self.stats.packets_sent);
        self.begin_episode(self.episode);
        self.in_recovery = true;
        self.repair_packet = cause == CongestionCause::Loss;
        self.tally.congestion = Some(Congestion { cause, episode: self.episode });
        self.reordering.on_reduction();
        self.stats.congestion_events += 1;
        self.stats.ecn_events += u64::from(cause == CongestionCause::Ecn);
    }

    /// When the newest packet was sent that what is being processed acknowledged.
    pub(crate) fn newest_acked(&self) -> Option<Instant> {
        self.tally.newest_acked
    }

    /// Draws the conclusions from everything noted since the last time. Returns whether persistent congestion was established.
    pub(crate) fn finish(&mut self, now: Instant, pto_count: u32, trace: &mut Trace) -> bool {
        if !self.tally.touched {
            return false;
        }
        let tally = core::mem::take(&mut self.tally);
        let (round, delivery) = self.delivery.finish(self.rtt.min);
        self.take_back_spurious_reductions(now, trace);
        let application_limited = self.application_limited && !self.is_full(tally.prior_in_flight);
        let starts_recovery = tally.congestion.is_some();
        if tally.persistent_congestion {
            // RFC 9002 appendix B.8 forgets the period, so that all deliveries open the window again. But the window of
            // two answers whatever was sent before: a straggler among that would lower the threshold to the minimum.
            self.period = Period { answered: self.stats.packets_sent, closed: 0 };
            self.in_recovery = false;
            self.repair_packet = false;
            match self.profile.timeout {
                TimeoutMeaning::Probe => self.stats.persistent_congestions += 1,
                TimeoutMeaning::Loss => self.repairs.timeouts += 1,
            }
            // RFC 9002 section 5.2. Found by the loss timer, it comes without a sample.
            match tally.has_rtt_sample {
                true => self.rtt.restart_min(),
                false => self.rtt.restart_min_with_next_sample(),
            }
        }
        self.controller.on_ack(&AckEvent {
            now,
            rtt: &self.rtt,
            has_rtt_sample: tally.has_rtt_sample,
            acked: tally.acked,
            growth: if starts_recovery { 0 } else { tally.growth },
            lost: tally.lost,
            prior_in_flight: match self.profile.flight {
                Flight::Outstanding if starts_recovery => self.sequence.prior_flight,
                _ => tally.prior_in_flight,
            },
            bytes_in_flight: self.bytes_in_flight,
            round,
            delivery,
            application_limited,
            is_fresh: tally.is_fresh,
            in_recovery: self.in_recovery,
            congestion: tally.congestion,
            persistent_congestion: tally.persistent_congestion,
        });
        self.stats.max_window = self.stats.max_window.max(self.window());
        self.count_episodes(&tally);
        self.tell_estimators(round);
        self.repace(now);
        if trace.is_on() {
            self.tell(now, pto_count, &tally, trace);
        }
        tally.persistent_congestion
    }

    /// Counts how the repair of losses begins and ends.
    fn count_episodes(&mut self, tally: &Tally) {
        let datagram = u64::from(self.datagram_size.max(1));
        let threshold = self.ssthresh().unwrap_or(u64::MAX);
        if self.is_repairing && !self.in_recovery {
            self.is_repairing = false;
            if !tally.persistent_congestion {
                self.repairs.episodes_ended += 1;
                self.repairs.end_window_bytes += self.window();
                self.repairs.end_window_datagrams += self.window() / datagram;
                self.repairs.ended_in_slow_start += u64::from(self.window() < threshold);
            }
        }
        if tally.congestion.is_some_and(|congestion| congestion.cause == CongestionCause::Loss) && self.in_recovery {
            self.is_repairing = true;
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
        while let Some((episode, previous)) = self.episodes.as_mut().and_then(Episodes::take_spurious) {
            self.period = previous;
            self.in_recovery = self.take_back_episode(episode);
            self.repair_packet = false;
            self.is_repairing = self.in_recovery;
            if self.controller.undo(now, episode) {
                self.stats.undos += 1;
                trace.push(now, self.id, Event::Undo { episode, window: self.window() });
            }
        }
    }

    fn repace(&mut self, now: Instant) {
        let rate = self.controller.pacing_rate(&self.rtt).filter(|_| self.is_paced);
        let cap = self.max_rate.filter(|&most| rate.is_none_or(|rate| rate > most));
        self.is_capped = cap.is_some();
        let rate = cap.or(rate);
        let quantum = rate.map_or(u64::MAX, |rate| self.controller.send_quantum(rate, self.datagram_size));
        let initial = self.profile.initial_window.bytes(self.datagram_size);
        self.pacer.set(now, rate, quantum, initial, self.rtt.has_sample);
    }

    /// Shows the trace what has changed.
    fn tell(&mut self, now: Instant, pto_count: u32, tally: &Tally, trace: &mut Trace) {
        let window = self.window();
        if let Some(Congestion { cause, episode }) = tally.congestion {
            let ssthresh = self.ssthresh();
            trace.push(now, self.id, Event::CongestionEvent { cause, episode, window, ssthresh });
        }
        if tally.persistent_congestion {
            trace.push(now, self.id, Event::PersistentCongestion { window });
        }
        let start_exit = self.controller.start_exit();
        if let Some(reason) = start_exit.filter(|_| self.told.start_exit.is_none()) {
            trace.push(now, self.id, Event::StartExit { reason, window });
        }
        self.told.start_exit = start_exit;
        let ecn = self.ecn.state();
        if ecn != self.told.ecn {
            trace.push(now, self.id, Event::EcnState { old: self.told.ecn, new: ecn });
            self.told.ecn = ecn;
        }
        self.tell_state(now, trace);
        self.tell_metrics(now, pto_count, trace);
    }

    fn tell_state(&mut self, now: Instant, trace: &mut Trace) {
        let state = self.state();
        if state != self.told.state {
            trace.push(now, self.id, Event::CongestionState { old: self.told.state, new: state });
            self.told.state = state;
        }
    }

    fn tell_metrics(&mut self, now: Instant, pto_count: u32, trace: &mut Trace) {
        self.untold_change = None;
        let metrics = Metrics {
            window: self.window(),
            ssthresh: self.ssthresh(),
            bytes_in_flight: self.bytes_in_flight,
            state: self.state(),
            latest_rtt: self.rtt.latest,
            smoothed_rtt: self.rtt.smoothed,
            rtt_variation: self.rtt.variation,
            min_rtt: self.rtt.min,
            pacing_rate: self.pacing_rate(),
            pto_count,
        };
        trace.push(now, self.id, Event::Metrics(metrics));
    }

    /// Something has changed that no event will tell of.
    pub(crate) fn note_change(&mut self, now: Instant) {
        self.untold_change = Some(now);
    }

    /// Shows the trace a change that happened outside of any event.
    pub(crate) fn tell_untold(&mut self, pto_count: u32, trace: &mut Trace) {
        if let Some(now) = self.untold_change {
            self.tell_metrics(now, pto_count, trace);
        }
    }
}
