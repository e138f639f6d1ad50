//! QUIC loss recovery, round-trip estimation, congestion control and pacing, as pure state machines (RFC 9002 and what
//! builds on it).
//!
//! [`Recovery`] is told what was sent, what was acknowledged and what time it is. It answers what is lost, when to wake
//! up, and how much may leave. It knows neither sockets nor clocks nor frames; the transport gets back whatever it
//! attached to a packet (`T`).
//!
//! An acknowledgment goes one way through the crate:
//!
//! ```text
//! ACK ──► newly acknowledged (space) ──► RTT sample (path) ──► ECN counts ──► loss detection (space, per path)
//!     ──► undo of reductions proven wrong ──► one AckEvent per path ──► controller ──► pacer ──► trace ──► timer
//! ```
//!
//! | what | where |
//! |---|---|
//! | packets of a space, acknowledgments, loss | `space`, `sent`, `loss`, `undo` |
//! | a path: round trip, window, pacing, delivery, ECN | [`Path`], `paths`, `rtt`, `delivery`, [`pacing`], `ecn` |
//! | congestion control | [`congestion`]: which algorithm, its interface, windows, starts, reductions, models |
//! | silence | `probe` |
//! | which rule is in force, and changing it | [`Policies`], `switch` |
//! | TCP: what differs, and its way in | [`Profile`], [`SegmentPath`] |
//! | seeing it work | [`trace`], [`qlog`] |
//!
//! ```
//! use thalweg_recovery::{AckFrame, Budget, Config, Ecn, NewPath, Outcome, Recovery, Sent, SpaceId};
//! use thalweg_units::{Duration, Instant};
//!
//! let mut now = Instant::ZERO;
//! let mut recovery: Recovery<&str> = Recovery::new(Config::default(), true);
//! let path = recovery.add_path(now, NewPath::new(1_200));
//! assert_eq!(recovery.budget(now, path), Budget::Now(12_000));
//!
//! recovery.on_sent(
//!     SpaceId::Initial,
//!     Sent {
//!         number: 0,
//!         time: now,
//!         size: 1_200,
//!         ack_eliciting: true,
//!         in_flight: true,
//!         mtu_probe: false,
//!         ecn: Ecn::NotEct,
//!         path,
//!         data: "client hello",
//!     },
//!     false,
//! );
//! assert_eq!(recovery.timer(), Some(now + Duration::from_millis(999)));
//!
//! now += Duration::from_millis(50);
//! let mut outcome = Outcome::default();
//! recovery.on_ack(now, SpaceId::Initial, AckFrame::new(now, [0..=0].into_iter()), &mut outcome)?;
//! assert_eq!(outcome.acked[0].data, "client hello");
//! assert_eq!(recovery.path(path).map(|path| path.rtt().smoothed), Some(Duration::from_millis(50)));
//! # Ok::<(), thalweg_recovery::AckOfUnsent>(())
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod ack_rate;
mod choice;
mod config;
pub mod congestion;
mod delivery;
mod ecn;
mod loss;
pub mod pacing;
mod path;
mod paths;
mod policies;
mod probe;
mod profile;
pub mod qlog;
mod rtt;
mod segment;
mod sent;
mod space;
mod spaces;
mod switch;
#[cfg(test)]
mod testing;
mod timer;
mod total;
pub mod trace;
mod types;
mod undo;

use core::ops::RangeInclusive;

use smallvec::SmallVec;
use thalweg_units::{Duration, Instant};

pub use choice::{Choice, Field, Number, Parameter, ParameterValue, ParameterValues, PolicyError, Share, Switch};
pub use config::Config;
#[cfg(feature = "study")]
pub use congestion::PublishedParameters;
pub use congestion::{
    AckEvent, Allowance, Arrival, BbrParameters, BbrStart, Change, Congestion, CongestionEvent, Controller,
    ControllerFactory, ControllerPolicies, Decrease, EndStartParameters, GrowthPolicy, InitialWindowScale, LaterMarks,
    LossSample, MarkPolicy, Marks, ModelPolicy, ModelStats, OpeningGrowth, PathContext, PathView,
    PeakBandwidthParameters, RecoveryPeriod, ReductionPolicy, SavedPath, SentSpan, Sibling, StartPolicy, WindowParts,
};
pub use delivery::{RateSample, Round};
pub use path::{Path, PathStats, RepairStats};
pub use policies::{
    AckAllowancePolicy, AckRatePolicy, CappedParameters, ExitRttPolicy, GrowthLimitPolicy, HandshakeParameters,
    HandshakePolicy, PacingPolicy, PacingRttPolicy, PerRoundBase, PerRoundParameters, PhasedParameters, Policies,
    ProbePolicy, ReorderingPolicy, RestartPolicy, ResumePolicy, RttPolicy, TailPolicy, TwiceFrom, TwiceParameters,
    UndoPolicy,
};
pub use profile::{EpisodeEnd, Flight, InitialWindow, Profile, SafeAck, TimeoutMeaning};
pub use rtt::{GRANULARITY, INITIAL_RTT, Rtt, RttPolicies, Sample};
pub use segment::{Judgement, SegmentOutcome, SegmentPath, SegmentRecord};
pub use switch::SwitchError;
pub use types::{
    AckFrame, AckOfUnsent, Acked, Budget, DataSpace, Ecn, EcnCounts, LossTrigger, Lost, NewPath, Outcome, PathId,
    ReceiveTime, Sent, SpaceId, Timeout, WayBack,
};

use paths::Paths;
use space::{Consequences, NewlyAcked, Space};
use spaces::Spaces;
use timer::Timer;
use total::TotalLimit;
use trace::{Event, TimerKind, Trace};

/// How many ack-eliciting packets bring an acknowledgment at once where nothing else was asked for (RFC 9000 section
/// 13.2.2).
const PACKETS_PER_ACK: u64 = 2;

/// Loss recovery and congestion control of one connection: packet number spaces over one or more paths, and one timer.
///
/// A connection that uses one path at a time has three spaces, and a time for loss in any of them hides the probe timer
/// (RFC 9002 appendix A.8). Where several paths are in use, each has a [space](SpaceId::Data), a probe timer and a
/// backoff of its own; the one timer is the first of those.
///
/// Time must not run backwards from one call to the next; if it does, nothing breaks, but spans come out as zero.
#[derive(Debug)]
pub struct Recovery<T> {
    config: Config,
    spaces: Spaces<T>,
    paths: Paths,
    /// The peer has shown that it regards our address as validated; a server's peer always does (RFC 9002 section
    /// 6.2.2.1).
    peer_validated: bool,
    handshake_confirmed: bool,
    has_handshake_keys: bool,
    amplification_limited: bool,
    max_ack_delay: Duration,
    /// Probe policies other than that of the RFC never wait longer than a share of it.
    idle_timeout: Option<Duration>,
    /// The idle timeout is what the endpoints agreed on, rather than our own.
    is_idle_timeout_agreed: bool,
    /// Since when a client has had nothing in flight that a server with an unvalidated client could answer.
    deadlocked_since: Option<Instant>,
    /// How many ack-eliciting packets bring an acknowledgment at once.
    packets_per_ack: u64,
    timer: Option<Timer>,
    /// The rate limit, where several paths share it.
    total: TotalLimit,
    /// The latest time seen.
    now: Instant,
    trace: Trace,
}

impl<T: Clone> Recovery<T> {
    /// Recovery for a connection that has no path yet.
    pub fn new(config: Config, side_is_client: bool) -> Self {
        Recovery {
            spaces: Spaces::new(),
            paths: Paths::new(),
            peer_validated: !side_is_client,
            handshake_confirmed: false,
            has_handshake_keys: false,
            amplification_limited: false,
            max_ack_delay: config.max_ack_delay,
            idle_timeout: config.idle_timeout.filter(|timeout| !timeout.is_zero()),
            is_idle_timeout_agreed: false,
            deadlocked_since: None,
            packets_per_ack: PACKETS_PER_ACK,
            timer: None,
            total: TotalLimit::default(),
            now: Instant::ZERO,
            trace: Trace::new(config.trace),
            config,
        }
    }

    /// Adds a path; the first becomes the active one.
    pub fn add_path(&mut self, now: Instant, new: NewPath) -> PathId {
        self.see(now);
        let id = self.paths.add(&self.config, now, new);
        if let Some(path) = self.paths.get_mut(id) {
            path.note_change(now);
        }
        self.total.set(now, &self.config, self.paths.iter());
        id
    }

    /// Gives a path up. What is outstanding on it stays outstanding: it can still be acknowledged, and its loss is
    /// still noticed.
    pub fn remove_path(&mut self, path: PathId) {
        if let Some(path) = self.paths.get_mut(path) {
            path.is_retired = true;
            self.total.set(self.now, &self.config, self.paths.iter());
            self.purge();
            // Its packets may have been what the timer was for.
            self.set_timer(self.now);
        }
    }

    /// Makes a path the one whose round-trip time the probe timer uses.
    pub fn set_active_path(&mut self, path: PathId) {
        self.set_space_path(DataSpace::FIRST, path);
    }

    /// Makes a path the one that the packets of a space take from now on: the probe timer of the space uses its
    /// round-trip time, and counts its expiries.
    pub fn set_space_path(&mut self, space: DataSpace, path: PathId) {
        if path != self.paths.of_space(SpaceId::Data(space))
            && let Some(path) = self.paths.get_mut(path)
        {
            // What it was silent for before says nothing about what is sent on it from now on.
            path.on_heard();
        }
        self.paths.set_of_space(space, path);
        self.set_timer(self.now);
    }

    /// The path whose round-trip time the probe timer uses.
    pub fn active_path(&self) -> PathId {
        self.paths.active()
    }

    /// A path; `None` if it was never added, or was given up and has nothing outstanding.
    pub fn path(&self, path: PathId) -> Option<&Path> {
        self.paths.get(path)
    }

    /// The same, to change it.
    pub fn path_mut(&mut self, path: PathId) -> Option<&mut Path> {
        self.paths.get_mut(path)
    }

    /// The handshake is confirmed (RFC 9001 section 4.1.2): probes in the space of application data are allowed, and
    /// the peer has committed itself to its maximum ACK delay.
    pub fn set_handshake_confirmed(&mut self, now: Instant) {
        self.see(now);
        self.handshake_confirmed = true;
        self.peer_validated = true;
        self.set_timer(now);
    }

    /// Handshake keys are available: a client's probe against a deadlock goes into the Handshake space from now on.
    pub fn set_has_handshake_keys(&mut self) {
        self.has_handshake_keys = true;
        self.set_timer(self.now);
    }

    /// The server has shown that it regards the client's address as validated. An acknowledgment in the Handshake space
    /// and [`set_handshake_confirmed`](Self::set_handshake_confirmed) imply it.
    pub fn set_peer_validated(&mut self) {
        self.peer_validated = true;
        self.set_timer(self.now);
    }

    /// The server has reached, or has left, the limit of three times what it received (RFC 9000 section 8.1).
    ///
    /// While limited there is no probe timer, as no probe could be sent; once no longer limited, a deadline that has
    /// passed meanwhile is due at once (RFC 9002 section 6.2.2.1).
    pub fn set_amplification_limited(&mut self, now: Instant, limited: bool) {
        self.see(now);
        if limited != self.amplification_limited {
            self.amplification_limited = limited;
            self.set_timer(now);
        }
    }

    /// The same for a path other than the one on which the connection began: while it is limited, the space whose
    /// packets take it has no probe timer.
    pub fn set_path_amplification_limited(&mut self, now: Instant, path: PathId, limited: bool) {
        self.see(now);
        if let Some(path) = self.paths.get_mut(path)
            && path.is_amplification_limited() != limited
        {
            path.set_amplification_limited(limited);
            self.set_timer(now);
        }
    }

    /// The peer's max_ack_delay transport parameter.
    pub fn set_max_ack_delay(&mut self, delay: Duration) {
        self.set_ack_rate(delay, PACKETS_PER_ACK);
    }

    /// How the peer acknowledges application data from now on: it holds an acknowledgment back for `delay` at most, and
    /// sends one at once for `packets` ack-eliciting packets. Where it was asked for this (ACK_FREQUENCY), the larger
    /// of what is in force and what is in flight counts (draft-ietf-quic-ack-frequency section 8).
    ///
    /// Probe timeout and persistent congestion go by it.
    pub fn set_ack_rate(&mut self, delay: Duration, packets: u64) {
        self.max_ack_delay = delay;
        self.packets_per_ack = packets.max(PACKETS_PER_ACK);
        self.set_timer(self.now);
    }

    /// The idle timeout that the endpoints agreed on, for probe policies that depend on it. Until then
    /// [`Config::idle_timeout`] holds.
    pub fn set_idle_timeout(&mut self, timeout: Option<Duration>) {
        self.is_idle_timeout_agreed = true;
        self.idle_timeout = timeout.filter(|timeout| !timeout.is_zero());
        self.set_timer(self.now);
    }

    /// The idle timeout that was set; zero, which stands for none, reads as `None`.
    pub fn idle_timeout(&self) -> Option<Duration> {
        self.idle_timeout
    }

    /// A packet has been sent. `app_has_more` states whether more would be sent at once if the window and the pacer
    /// allowed.
    ///
    /// What is sent on a path that is not known can be acknowledged, but is never declared lost.
    ///
    /// Numbers increase strictly within a space; what is left out counts as skipped, and an acknowledgment for it is an
    /// error.
    #[inline]
    pub fn on_sent(&mut self, space: SpaceId, packet: Sent<T>, app_has_more: bool) {
        let now = packet.time;
        self.see(now);
        let (path, is_ack_eliciting) = (packet.path, packet.ack_eliciting);
        let in_flight = packet.in_flight || is_ack_eliciting;
        if in_flight {
            self.total.on_sent(now, packet.size);
        }
        let packets_per_ack = self.packets_per_ack;
        // What the deadline of a probe depends on that sending can change.
        let deadline = |space: &Space<T>| (space.last_eliciting(), space.eliciting().min(packets_per_ack));
        let space = self.spaces.entry(space);
        let before = deadline(space);
        space.on_sent(packet, &mut self.paths);
        let is_moved = deadline(space) != before;
        if in_flight && let Some(path) = self.paths.get_mut(path) {
            path.set_application_limited(now, !app_has_more, &mut self.trace);
        }
        // A time for loss stays the first, whatever is sent.
        if is_moved && (self.spaces.has_further() || !self.timer.is_some_and(|timer| timer.kind == TimerKind::LossTime))
        {
            self.set_timer(now);
        }
    }

    /// An ACK frame is processed.
    ///
    /// # Errors
    /// When it names a packet that was never sent; the connection has to be closed then, and what `out` holds does not
    /// matter.
    pub fn on_ack(
        &mut self,
        now: Instant,
        space: SpaceId,
        frame: AckFrame<'_, impl Iterator<Item = RangeInclusive<u64>>>,
        out: &mut Outcome<T>,
    ) -> Result<(), AckOfUnsent> {
        self.see(now);
        let AckFrame { ranges, arrived, delay: ack_delay, ecn, arrivals, way_back } = frame;
        let mut consequences = Consequences { now, paths: &mut self.paths, out, trace: &mut self.trace };
        let Some(acked) = self.spaces.get_mut(space) else {
            let mut ranges = ranges;
            let unsent = |range: RangeInclusive<u64>| Err(AckOfUnsent { space, number: *range.end() });
            return ranges.next().map_or(Ok(()), unsent);
        };
        let newly = acked.take_acked(ranges, arrivals, &mut consequences)?;
        let Some(newly) = newly else {
            return Ok(());
        };
        if newly.gives_rtt_sample {
            let latest = arrived.min(now).saturating_since(newly.largest.sent);
            out.rtt_sample = Some(latest);
            out.rtt_path = Some(newly.largest.path);
            if way_back == WayBack::OwnAtLast
                && let Some(path) = self.paths.get_mut(newly.largest.path)
            {
                path.restart_min_rtt();
            }
            if let Some(latest) = way_back.own(latest) {
                self.take_rtt_sample(now, latest, space, newly.largest.path, ack_delay);
            }
            if way_back == WayBack::Own
                && let Some(path) = self.paths.get_mut(newly.largest.path)
            {
                path.on_held_back(ack_delay);
            }
        }
        if space.is_data() && self.handshake_confirmed && newly.gives_rtt_sample && newly.eliciting > 1 {
            self.spaces.entry(space).on_hold(ack_delay);
        }
        self.deadlocked_since = None;
        self.take_ecn_counts(space, newly, ecn);
        self.tell_other_spaces(space);
        self.detect_lost(now, space, out);
        if space == SpaceId::Handshake {
            // Only a server that has validated the client's address can have processed a Handshake packet (RFC 9002
            // appendix A.6).
            self.peer_validated = true;
        }
        if self.peer_validated {
            let heard = self.paths.iter_mut().filter(|path| path.newest_acked().is_some());
            heard.for_each(Path::on_heard);
        }
        self.finish(now, out);
        Ok(())
    }

    fn take_rtt_sample(&mut self, now: Instant, latest: Duration, space: SpaceId, path: PathId, ack_delay: Duration) {
        let ack_delay = match space {
            // Acknowledged at once, whatever the field says (RFC 9002 section 5.3).
            SpaceId::Initial => Duration::ZERO,
            _ if self.handshake_confirmed => ack_delay.min(self.max_ack_delay),
            _ => ack_delay,
        };
        if let Some(path) = self.paths.get_mut(path) {
            path.on_rtt_sample(Sample { ack_delay, ..Sample::prompt(now, latest) });
        }
    }

    fn take_ecn_counts(&mut self, space: SpaceId, newly: NewlyAcked, counts: Option<EcnCounts>) {
        // An ACK that does not raise the largest number may have been overtaken; its counts mean nothing (RFC 9000
        // section 13.4.2.1).
        if newly.is_advance {
            let report = self.spaces.get_mut(space).map(|space| space.judge_ecn(counts, newly.marked));
            if let Some((path, report)) = self.paths.get_mut(newly.largest.path).zip(report) {
                path.on_ecn_report(self.now, report, newly.largest.order, newly.marked);
            }
        }
    }

    /// A run of losses cannot span a delivery, in whatever space it was (RFC 9002 section 7.6.2).
    fn tell_other_spaces(&mut self, space: SpaceId) {
        for path in self.paths.iter_mut() {
            if let Some(sent) = path.newest_acked() {
                for other in self.spaces.iter_mut().filter(|other| other.id() != space) {
                    other.on_delivered_elsewhere(path.id(), sent);
                }
            }
        }
    }

    fn detect_lost(&mut self, now: Instant, space: SpaceId, out: &mut Outcome<T>) {
        let mut consequences = Consequences { now, paths: &mut self.paths, out, trace: &mut self.trace };
        if let Some(space) = self.spaces.get_mut(space) {
            space.detect_lost(self.max_ack_delay, &mut consequences);
        }
    }

    /// Lets every path draw its conclusions.
    fn finish(&mut self, now: Instant, out: &mut Outcome<T>) {
        let carrying = self.paths.carrying();
        for path in self.paths.iter_mut() {
            let siblings = carrying.iter().filter(|(id, _)| *id != path.id()).map(|(_, sibling)| *sibling);
            let siblings: SmallVec<[Sibling; 4]> = siblings.collect();
            out.persistent_congestion |= path.finish(now, &siblings, &mut self.trace);
        }
        self.purge();
        self.set_timer(now);
    }

    fn purge(&mut self) {
        if self.paths.purge() {
            self.spaces.purge(&self.paths);
        }
    }

    /// When [`on_timeout`](Self::on_timeout) is to be called; `None` if there is nothing to wait for. May lie in the
    /// past.
    pub fn timer(&self) -> Option<Instant> {
        self.timer.map(|timer| timer.at)
    }

    /// The timer is due. Does nothing when it is not.
    pub fn on_timeout(&mut self, now: Instant, out: &mut Outcome<T>) -> Timeout {
        self.see(now);
        let Some(timer) = self.timer.filter(|timer| timer.at <= now) else {
            return Timeout::None;
        };
        match timer.kind {
            TimerKind::LossTime => {
                self.detect_lost(now, timer.space, out);
                self.finish(now, out);
                Timeout::Lost
            }
            TimerKind::Probe => {
                let active = self.paths.of_space(timer.space);
                let has_eliciting = self.spaces.get(timer.space).is_some_and(Space::has_eliciting);
                let (policy, agreed) = (self.config.policies.probe, self.is_idle_timeout_agreed);
                let path = self.paths.get_mut(active);
                let (count, datagrams) = path.map_or((1, 1), |path| {
                    let count = path.pto_count().saturating_add(1);
                    let datagrams = match has_eliciting {
                        true => probe::datagrams(policy, count, agreed, path.is_lossy()),
                        false => 1,
                    };
                    path.on_pto(now, datagrams);
                    (count, datagrams)
                });
                let expired = Event::PtoExpired { space: timer.space, count };
                self.trace.push(now, active, expired);
                self.set_timer(now);
                Timeout::Probe { space: timer.space, datagrams }
            }
        }
    }

    /// Probe timeouts in a row on the active path, which is that of the first space of application data. Its Initial,
    /// Handshake and application data share the count (RFC 9002 appendix A.8).
    pub fn pto_count(&self) -> u32 {
        self.paths.active_path().map_or(0, Path::pto_count)
    }

    /// The probe timeout of the path that a space's packets take, without backoff; in a space of application data it
    /// includes the peer's maximum ACK delay.
    ///
    /// What else is counted in probe timeouts (RFC 9000 section 10) goes by this one, whatever the policy allows the
    /// timer to leave out.
    pub fn pto(&self, space: SpaceId) -> Duration {
        let allowance = if space.is_data() { self.max_ack_delay } else { Duration::ZERO };
        self.timeout_after(self.paths.get(self.paths.of_space(space)), allowance, 0)
    }

    /// The largest probe timeout among the spaces of application data (draft-ietf-quic-multipath-21 sections 2.5 and
    /// 2.6).
    pub fn largest_pto(&self) -> Duration {
        if !self.spaces.has_further() {
            return self.pto(SpaceId::DATA);
        }
        let further = self.spaces.iter().map(Space::id).filter(|space| space.is_data() && *space != SpaceId::DATA);
        further.map(|space| self.pto(space)).fold(self.pto(SpaceId::DATA), Duration::max)
    }

    /// The keys of a space are gone: its packets are forgotten and no longer in flight (RFC 9002 section 6.4).
    pub fn discard(&mut self, now: Instant, space: SpaceId) {
        self.see(now);
        if let Some(space) = self.spaces.get_mut(space) {
            space.discard(now, &mut self.paths);
        }
        self.spaces.forget(space);
        self.paths.forget_space(space);
        self.after_giving_up(now);
    }

    /// Takes every outstanding packet of a space back, into `out.lost` as [`LossTrigger::Withdrawn`]: after a Retry,
    /// when 0-RTT is rejected, or when the version changes. Nothing is concluded about the path.
    pub fn withdraw(&mut self, now: Instant, space: SpaceId, out: &mut Outcome<T>) {
        self.see(now);
        if let Some(space) = self.spaces.get_mut(space) {
            space.withdraw(now, &mut self.paths, out);
        }
        self.after_giving_up(now);
    }

    fn after_giving_up(&mut self, now: Instant) {
        for path in self.paths.iter_mut() {
            path.on_heard();
            path.note_change(now);
        }
        self.purge();
        self.set_timer(now);
    }

    /// How much may leave on a path now: nothing on one that is not known. Probes and packets that only acknowledge do
    /// not have to ask.
    pub fn budget(&mut self, now: Instant, path: PathId) -> Budget {
        self.see(now);
        let Some(path) = self.paths.get_mut(path) else { return Budget::WindowFull };
        let allowed = path.budget(now);
        self.total.budget(now, path.datagram_size(), allowed)
    }

    /// The transport had nothing more to send on a path although [`budget`](Self::budget) said [`Budget::Now`]. The
    /// window does not grow until it has again (RFC 9002 section 7.8).
    pub fn on_app_limited(&mut self, path: PathId) {
        if let Some(path) = self.paths.get_mut(path) {
            path.set_application_limited(self.now, true, &mut self.trace);
        }
    }

    /// For how many packets there is room that are neither acknowledged nor declared lost. What a burst has needed is
    /// given back.
    pub fn capacity(&self, space: SpaceId) -> usize {
        self.spaces.get(space).map_or(0, Space::capacity)
    }

    /// The lowest packet number that is neither acknowledged nor declared lost.
    pub fn oldest_unacked(&self, space: SpaceId) -> Option<u64> {
        self.spaces.get(space)?.outstanding().next().map(|(number, _)| number)
    }

    /// The largest packet number that the peer has acknowledged.
    pub fn largest_acked(&self, space: SpaceId) -> Option<u64> {
        self.spaces.get(space)?.largest_acked()
    }

    /// Whether ack-eliciting packets of a space are outstanding.
    pub fn in_flight(&self, space: SpaceId) -> bool {
        self.spaces.get(space).is_some_and(Space::has_eliciting)
    }

    /// Bytes in flight on a path; zero on one that is not known.
    pub fn bytes_in_flight(&self, path: PathId) -> u64 {
        self.paths.get(path).map_or(0, Path::bytes_in_flight)
    }

    /// Number and data of the packets that are neither acknowledged nor declared lost, oldest first: what a probe may
    /// repeat.
    pub fn outstanding_data(&self, space: SpaceId) -> impl Iterator<Item = (u64, &T)> {
        self.outstanding_data_from(space, 0)
    }

    /// The same from packet `number` on.
    pub fn outstanding_data_from(&self, space: SpaceId, number: u64) -> impl Iterator<Item = (u64, &T)> {
        let space = self.spaces.get(space).into_iter();
        space.flat_map(move |space| space.outstanding_from(number)).map(|(number, record)| (number, &record.data))
    }

    /// The same with the time at which each was sent.
    pub fn outstanding_sent(&self, space: SpaceId) -> impl Iterator<Item = (u64, Instant, &T)> {
        let outstanding = self.spaces.get(space).into_iter().flat_map(|space| space.outstanding_from(0));
        outstanding.map(|(number, record)| (number, record.sent.time, &record.data))
    }

    /// The path that the packets of a space take now.
    pub fn space_path(&self, space: DataSpace) -> Option<&Path> {
        self.paths.get(self.paths.of_space(SpaceId::Data(space)))
    }

    /// Hands out the events recorded since the last call, oldest first. None unless [`Config::trace`] is set.
    pub fn drain_trace(&mut self, f: impl FnMut(Instant, PathId, &Event)) {
        if self.trace.is_on() {
            for path in self.paths.iter_mut() {
                path.tell_untold(&mut self.trace);
            }
            self.trace.drain(f);
        }
    }

    fn see(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }
}
