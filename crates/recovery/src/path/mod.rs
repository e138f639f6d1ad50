//! One path: round-trip time, congestion control, pacing, delivery rate and ECN; nothing about packet numbers.
//!
//! | part | subject |
//! |---|---|
//! | `send` | packets leave |
//! | `receive` | effects of ACKs and timers |
//! | `finish` | the conclusions: one event for the controller |
//! | `tally` | what the ACK being processed has shown so far |
//! | `flight` | what is on its way, and since when nothing was |
//! | `limit` | how much may leave: window, pacer, rate limit |
//! | `episode` | which reduction a loss belongs to, its recovery period, taking it back; what differs for TCP |
//! | `mark` | how packets are marked, and what congestion marks call for |
//! | `usage` | whether the transport makes use of the window |
//! | `recent_losses` | what became of the latest packets |
//! | `narrator` | what the trace has last |
//! | `ack_queue` | how long an acknowledgment takes on a thin return path |
//! | `receiver_clock` | whether the arrivals that the peer reports can be true |
//!
//! While an ACK is processed, each path notes what concerns it in its tally; [`Path::finish`] turns that into one
//! [`AckEvent`](crate::AckEvent) for the controller. Whether a loss begins a recovery period (RFC 9002 section 7.3.2),
//! and which bytes may open the window (section 7.8), is decided here, once for all controllers.

use thalweg_units::{Duration, Instant, Rate};

use crate::config::Config;
use crate::congestion::{self, Allowance, Controller, PathContext, PathView, SavedPath};
use crate::delivery::Delivery;
use crate::loss::Reordering;
use crate::profile::Profile;
use crate::rtt::Rtt;
use crate::trace::{EcnState, State};
use crate::types::{Ecn, NewPath, PathId};

mod ack_queue;
mod bytes;
mod episode;
mod finish;
mod flight;
mod limit;
mod mark;
mod narrator;
mod receive;
mod receiver_clock;
mod recent_losses;
mod send;
mod stats;
mod switch;
mod tally;
mod usage;

use episode::Episode;
use flight::InFlight;
use limit::SendLimit;
use mark::Marking;
use narrator::Narrator;
use receiver_clock::ReceiverClock;
use recent_losses::RecentLosses;
pub use stats::{PathStats, RepairStats};
use tally::Tally;
use usage::Usage;

/// A window of fewer initial windows than this is not worth saving (RFC 9959).
const WORTH_SAVING: u64 = 4;

/// One path: its round-trip time, congestion control, pacing and ECN.
#[derive(Debug)]
pub struct Path {
    id: PathId,
    datagram_size: u16,
    rtt: Rtt,
    controller: Box<dyn Controller>,
    limit: SendLimit,
    delivery: Delivery,
    marking: Marking,
    reordering: Reordering,
    episode: Episode,
    usage: Usage,
    recent_losses: RecentLosses,
    flight: InFlight,
    backoff: Backoff,
    /// The controller has left its start.
    is_started: bool,
    /// The transport has given the path up; it stays until its packets are settled.
    pub(crate) is_retired: bool,
    receiver_clock: ReceiverClock,
    tally: Tally,
    narrator: Narrator,
    stats: PathStats,
}

/// Timeouts in a row: since the last packet of the peer.
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
        let is_paced = config.policies.pacing.is_on();
        // Paths of a connection differ in their chance; the first has that of the connection.
        let seed = config.seed ^ u64::from(id.0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut context = PathContext::new(now, datagram_size);
        (context.profile, context.is_paced, context.seed) = (config.profile, is_paced, seed);
        (context.remote, context.saved, context.resume) = (new.remote, new.saved, config.policies.resume);
        context.ecn_codepoint = config.policies.mark.ecn_codepoint();
        let controller = congestion::build(&config.policies.congestion, &context);
        let rtt = Rtt::of(&config.policies, new.initial_rtt.unwrap_or(config.initial_rtt));
        let initial_window = config.profile.initial_window.bytes(datagram_size);
        let allowance = controller.allowance(&PathView::new(now, &rtt, 0));
        let marking = Marking::new(config, controller.ecn_codepoint(), &context);
        let mut path = Path {
            id,
            datagram_size,
            rtt,
            limit: SendLimit::new(now, allowance, initial_window, config.policies.pacing, config.max_rate),
            delivery: Delivery::new(now),
            reordering: Reordering::new(config.policies.reordering),
            episode: Episode::new(config.profile, config.policies.undo),
            usage: Usage::new(config.policies.growth_limit, initial_window),
            recent_losses: RecentLosses::default(),
            flight: InFlight::new(now, config.policies.restart),
            backoff: Backoff::default(),
            is_started: false,
            is_retired: false,
            receiver_clock: ReceiverClock::default(),
            tally: Tally::default(),
            narrator: Narrator::new(controller.state(), controller.start_exit(), marking.state()),
            stats: PathStats::default(),
            controller,
            marking,
        };
        path.ask(now);
        path
    }

    /// The name of the path.
    pub fn id(&self) -> PathId {
        self.id
    }

    /// The information in the transport's acknowledgments.
    pub fn profile(&self) -> Profile {
        self.episode.profile()
    }

    /// The round-trip estimate.
    pub fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// The window of a path about which nothing is known, in bytes.
    pub(crate) fn initial_window(&self) -> u64 {
        self.profile().initial_window.bytes(self.datagram_size)
    }

    /// The congestion window in bytes.
    pub fn window(&self) -> u64 {
        self.limit.window()
    }

    /// What the controller allows.
    pub fn allowance(&self) -> Allowance {
        self.limit.allowance
    }

    /// What is worth saving of the path for a later connection; `None` if it has carried less than four initial
    /// windows in every round trip (RFC 9959 section 4.1): slow start is quick enough without it.
    pub fn saved(&self) -> Option<SavedPath> {
        let window = self.delivery.most_in_round();
        let known = self.rtt.has_sample && window >= WORTH_SAVING * self.initial_window();
        let age = Duration::ZERO;
        known.then(|| SavedPath { window, min_rtt: self.rtt.min, rate: self.delivery.rate(), age })
    }

    /// The slow start threshold in bytes; `None` while unlimited.
    pub fn ssthresh(&self) -> Option<u64> {
        self.controller.ssthresh()
    }

    /// Bytes sent on this path that are neither acknowledged nor declared lost.
    pub fn bytes_in_flight(&self) -> u64 {
        self.flight.bytes
    }

    /// The size in bytes of a full datagram.
    pub fn datagram_size(&self) -> u16 {
        self.datagram_size
    }

    /// Sets the datagram size that is now in use. The initial window (if nothing has changed it yet), the
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
        self.marking.codepoint()
    }

    /// What came by this path carried no mark: nothing is marked before the first ACK, in case the path swallows marked
    /// packets.
    pub fn postpone_ecn(&mut self) {
        self.marking.postpone();
    }

    /// What was sent on this path has not arrived, as the peer has shown: until it is known whether marks were the
    /// cause, no more are set.
    pub fn suspend_ecn(&mut self) {
        self.marking.on_silence();
    }

    /// Whether the path carries ECN.
    pub fn ecn_state(&self) -> EcnState {
        self.marking.state()
    }

    /// The counters.
    pub fn stats(&self) -> PathStats {
        PathStats { model: self.controller.model(), ..self.stats }
    }

    /// How repairs of losses began and ended.
    pub fn repair_stats(&self) -> RepairStats {
        self.episode.repairs
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
        self.limit.pacing_rate()
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

    /// The time that the return path takes for an ACK, if they wait for each other there.
    pub(crate) fn ack_spacing(&self) -> Option<Duration> {
        self.receiver_clock.acks.spacing()
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
    pub fn is_lossy(&self) -> bool {
        self.recent_losses.is_lossy()
    }

    /// Whether nothing can be sent on it before more has come by it (RFC 9000 section 8.1).
    pub(crate) fn is_amplification_limited(&self) -> bool {
        self.limit.is_amplification_limited
    }

    /// That has changed.
    pub(crate) fn set_amplification_limited(&mut self, is_limited: bool) {
        self.limit.is_amplification_limited = is_limited;
    }

    /// Nothing sent on it is open any more.
    pub(crate) fn is_settled(&self) -> bool {
        self.flight.packets == 0
    }

    /// Timeouts in a row: since the last packet of the peer.
    pub fn pto_count(&self) -> u32 {
        self.backoff.count
    }

    /// When the probe timer last expired in the current row.
    pub(crate) fn last_pto(&self) -> Option<Instant> {
        self.backoff.last
    }

    /// Something arrived from the peer, or what was waited for has been given up.
    pub(crate) fn on_heard(&mut self) {
        self.backoff = Backoff::default();
    }
}
