//! The interface of congestion controllers.
//!
//! A controller answers with an [`Allowance`]: window, rate, and the shape of what leaves. It learns everything from
//! one call per acknowledgment (or loss timeout), with all that the ACK taught in one [`AckEvent`]; it may also be
//! notified of packets sent, of probe timeouts and of the end of silence. Which losses count, when a recovery period
//! begins and whether the application left the window unused is decided before it is called, the same for every
//! controller.
//!
//! A controller of your own needs a type, a factory and one line of configuration:
//!
//! ```
//! use std::sync::Arc;
//! use thalweg_recovery::{
//!     AckEvent, Allowance, Budget, Change, Config, Congestion, Controller, ControllerFactory, NewPath, PathContext,
//!     PathView, Policies, Recovery,
//! };
//! use thalweg_units::Instant;
//!
//! /// Keeps the same number of datagrams in flight, come what may. For private links only.
//! #[derive(Debug)]
//! struct FixedWindow {
//!     datagrams: u64,
//!     datagram_size: u16,
//! }
//!
//! impl Controller for FixedWindow {
//!     fn on_ack(&mut self, _event: &AckEvent<'_>) -> Change {
//!         // The window stays; that its rate follows the round trip is seen to.
//!         Change::None
//!     }
//!
//!     fn on_datagram_size(&mut self, size: u16) {
//!         self.datagram_size = size;
//!     }
//!
//!     fn allowance(&self, path: &PathView<'_>) -> Allowance {
//!         Allowance::spread(self.datagrams * u64::from(self.datagram_size), path, self.datagram_size)
//!     }
//! }
//!
//! #[derive(Debug)]
//! struct FixedWindows(u64);
//!
//! impl ControllerFactory for FixedWindows {
//!     fn name(&self) -> &str {
//!         "fixed-window"
//!     }
//!
//!     fn build(&self, context: &PathContext) -> Box<dyn Controller> {
//!         Box::new(FixedWindow { datagrams: self.0, datagram_size: context.datagram_size })
//!     }
//! }
//!
//! let congestion = Congestion::Custom(Arc::new(FixedWindows(20)));
//! let config = Config { policies: Policies { congestion, ..Policies::default() }, ..Config::default() };
//! let mut recovery: Recovery<()> = Recovery::new(config, true);
//! let path = recovery.add_path(Instant::ZERO, NewPath::new(1_200));
//! assert_eq!(recovery.path(path).map(|path| path.window()), Some(24_000));
//! assert!(matches!(recovery.budget(Instant::ZERO, path), Budget::Now(_)));
//! ```

use core::fmt::Debug;

use thalweg_units::{Duration, Ecn, Instant};

use super::{AckEvent, Allowance, Change, ControllerPolicies, ModelStats, PathContext, PathView, Sibling};
use crate::rtt::Rtt;
use crate::trace::{StartExit, State};

/// Round trips to remember for a controller that does not say: two gain cycles of eight, as BBR's were first.
const DEFAULT_CYCLE: u32 = 16;

/// A congestion controller.
///
/// Calls that answer [`Change::Allowance`], and those that answer nothing, are followed by a call of
/// [`allowance`](Self::allowance).
pub trait Controller: Debug + Send {
    /// A packet of `bytes` left; `bytes_in_flight` counts it already.
    fn on_sent(&mut self, now: Instant, bytes: u64, bytes_in_flight: u64) -> Change {
        let _ = (now, bytes, bytes_in_flight);
        Change::None
    }

    /// The other paths of the connection that answer and have something in flight: none where there is one path. Called
    /// before every [`on_ack`](Self::on_ack).
    fn on_siblings(&mut self, siblings: &[Sibling]) {
        let _ = siblings;
    }

    /// An acknowledgment or a loss timeout, with everything that followed from it.
    fn on_ack(&mut self, event: &AckEvent<'_>) -> Change;

    /// The probe timer has expired `count` times in a row; nothing is lost yet (RFC 9002 section 6.2). In TCP, a tail
    /// loss probe leaves after `count` retransmission timeouts.
    fn on_probe_timeout(&mut self, now: Instant, count: u32) -> Change {
        let _ = (now, count);
        Change::None
    }

    /// The first packet after `idle` without anything in flight leaves; not the first of the path. An allowance that
    /// changes holds from the next packet on: what the budget has granted already leaves.
    fn on_restart(&mut self, now: Instant, idle: Duration) -> Change {
        let _ = (now, idle);
        Change::None
    }

    /// The same, called before [`on_restart`](Self::on_restart) if the `restart` policy no longer trusts the window
    /// after this idleness: from now on it is to be at most `window` bytes, less than it is, but at least an initial
    /// window.
    fn on_validation(&mut self, now: Instant, window: u64) -> Change {
        let _ = (now, window);
        Change::None
    }

    /// Whether slow start is under way and can end where it stands, without a reduction, when a congestion mark asks
    /// for that ([`Marks::ends_start`](crate::Marks::ends_start)). Otherwise the mark is a congestion as any other,
    /// unless the policy `mark` ignores it.
    fn can_end_start(&self) -> bool {
        false
    }

    /// Takes the reduction of `episode` back, if it still can: all of its losses were reordering. Answers whether it
    /// did.
    ///
    /// Asked in reverse order of the reductions: never while a later one still stands.
    fn undo(&mut self, now: Instant, episode: u32) -> bool {
        let _ = (now, episode);
        false
    }

    /// The policies of the connection change ([`Recovery::set_policies`](crate::Recovery::set_policies)). Window and
    /// flight stay as they are.
    fn on_policies(&mut self, now: Instant, policies: &ControllerPolicies) {
        let _ = (now, policies);
    }

    /// The application began (`limited`) or ceased to leave the window unused.
    fn on_application_limited(&mut self, now: Instant, limited: bool) -> Change {
        let _ = (now, limited);
        Change::None
    }

    /// Datagrams on this path are now `size` bytes.
    fn on_datagram_size(&mut self, size: u16);

    /// What may leave.
    fn allowance(&self, path: &PathView<'_>) -> Allowance;

    /// How packets are to be marked, asked when the path begins: ECT(1) by those who respond to marks as low latency,
    /// low loss and scalable throughput demand (RFC 9331 section 4), otherwise ECT(0).
    fn ecn_codepoint(&self) -> Ecn {
        Ecn::Ect0
    }

    /// The slow start threshold in bytes, for those who have one.
    fn ssthresh(&self) -> Option<u64> {
        None
    }

    /// How many round trips pass from one peak of its queue to the next but one: what an estimator has to remember to
    /// have seen a peak.
    fn cycle(&self, rtt: &Rtt) -> u32 {
        let _ = rtt;
        DEFAULT_CYCLE
    }

    /// What it is doing, for the trace.
    fn state(&self) -> State {
        State::CongestionAvoidance
    }

    /// Whether it learns from acknowledgments what the path carries, so that they should come densely: while the window
    /// opens, by default; a model says so while it probes.
    fn wants_dense_acks(&self) -> bool {
        matches!(self.state(), State::SlowStart | State::ConservativeSlowStart)
    }

    /// Whether the acknowledgment of the next packet decides something, so that the peer should not hold it back
    /// (IMMEDIATE_ACK, draft-ietf-quic-ack-frequency section 5). Asked before a packet is built. To be said of single
    /// packets: [`on_sent`](Self::on_sent) follows.
    fn wants_prompt_ack(&self, now: Instant) -> bool {
        let _ = now;
        false
    }

    /// What it has done and learned, if it is a model of the path.
    fn model(&self) -> Option<ModelStats> {
        None
    }

    /// What ended its start, once it has.
    fn start_exit(&self) -> Option<StartExit> {
        None
    }
}

/// Makes the controller of each new path.
pub trait ControllerFactory: Debug + Send + Sync {
    /// A name for reports.
    fn name(&self) -> &str;

    /// The controller of a path that begins.
    fn build(&self, context: &PathContext) -> Box<dyn Controller>;
}
