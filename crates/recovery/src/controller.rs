//! What a congestion controller is told and what it has to answer, whoever wrote it.
//!
//! A controller answers three things: the window, the pacing rate and the send quantum. It learns everything from one call per
//! acknowledgment (or loss timeout), with all that the ACK taught in one [`AckEvent`]. Which losses count, when a recovery period
//! begins and whether the application left the window unused is decided before it is called, the same for every controller.
//!
//! The window-based controllers of this crate are put together in `window/mod.rs`. A controller of your own needs a type, a factory and
//! one line of configuration:
//!
//! ```
//! use std::sync::Arc;
//! use thalweg_recovery::{AckEvent, Budget, Config, Controller, ControllerFactory, Recovery};
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
//!     fn on_ack(&mut self, _event: &AckEvent<'_>) {}
//!
//!     fn on_datagram_size(&mut self, size: u16) {
//!         self.datagram_size = size;
//!     }
//!
//!     fn window(&self) -> u64 {
//!         self.datagrams * u64::from(self.datagram_size)
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
//!     fn build(&self, _now: Instant, datagram_size: u16) -> Box<dyn Controller> {
//!         Box::new(FixedWindow { datagrams: self.0, datagram_size })
//!     }
//! }
//!
//! let config = Config { controller: Some(Arc::new(FixedWindows(20))), ..Config::default() };
//! let mut recovery: Recovery<()> = Recovery::new(config, true);
//! let path = recovery.add_path(Instant::ZERO, 1_200, None);
//! assert_eq!(recovery.path(path).window(), 24_000);
//! assert!(matches!(recovery.budget(Instant::ZERO, path), Budget::Now(_)));
//! ```

use core::fmt::Debug;

use thalweg_units::{Instant, Rate};

use crate::config::Policies;
use crate::delivery::{RateSample, Round};
use crate::pacing;
use crate::rtt::Rtt;
use crate::trace::{CongestionCause, StartExit, State};

/// A reduction of the window that is called for now; at most one per recovery period (RFC 9002 section 7.3.2).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Congestion {
    /// What called for it.
    pub cause: CongestionCause,
    /// Numbers the reductions of a path from 1; [`Controller::undo`] refers to it.
    pub episode: u32,
}

/// Everything that one acknowledgment, or one loss timeout, taught about one path.
#[derive(Copy, Clone, Debug)]
#[non_exhaustive]
pub struct AckEvent<'a> {
    /// When it arrived.
    pub now: Instant,
    /// The round-trip estimate, this ACK's sample included.
    pub rtt: &'a Rtt,
    /// Whether this ACK gave a sample: then `rtt.latest` and `rtt.adjusted` are new.
    pub has_rtt_sample: bool,
    /// Bytes newly acknowledged, those of packets once declared lost included: what was delivered.
    pub acked: u64,
    /// Of these, the bytes that may open the window: they were in flight, were not sent before the current recovery period began, and
    /// the application made use of the window.
    pub growth: u64,
    /// Bytes newly declared lost, except MTU probes.
    pub lost: u64,
    /// Bytes in flight before this ACK was processed.
    pub prior_in_flight: u64,
    /// Bytes in flight now.
    pub bytes_in_flight: u64,
    /// Which packet-timed round trip this is.
    pub round: Round,
    /// How fast the newest of the acknowledged packets was delivered.
    pub delivery: Option<RateSample>,
    /// The application left the window unused, so that nothing may be concluded from how much was delivered.
    pub application_limited: bool,
    /// Whether it acknowledged something in flight that was sent since the current or last recovery period began.
    pub is_fresh: bool,
    /// Whether the path is still in a recovery period: nothing sent since the congestion has been acknowledged (RFC 9002 section 7.3.2).
    pub in_recovery: bool,
    /// The window has to be reduced.
    pub congestion: Option<Congestion>,
    /// Persistent congestion: the window has to fall to its minimum.
    pub persistent_congestion: bool,
}

/// Round trips to remember for a controller that does not say: two gain cycles of eight, as BBR's were first.
const DEFAULT_CYCLE: u32 = 16;

/// A congestion controller.
pub trait Controller: Debug + Send {
    /// A packet of `bytes` left; `bytes_in_flight` counts it already.
    fn on_sent(&mut self, now: Instant, bytes: u64, bytes_in_flight: u64) {
        let _ = (now, bytes, bytes_in_flight);
    }

    /// An acknowledgment or a loss timeout, with everything that followed from it.
    fn on_ack(&mut self, event: &AckEvent<'_>);

    /// Takes the reduction of `episode` back, if it still can: all of its losses were reordering. Answers whether it did.
    ///
    /// Asked in reverse order of the reductions: never while a later one still stands.
    fn undo(&mut self, now: Instant, episode: u32) -> bool {
        let _ = (now, episode);
        false
    }

    /// The policies of the connection change ([`Recovery::set_policies`](crate::Recovery::set_policies)). Window and
    /// flight stay as they are.
    fn on_policies(&mut self, now: Instant, policies: &Policies) {
        let _ = (now, policies);
    }

    /// The application began (`limited`) or ceased to leave the window unused.
    fn on_application_limited(&mut self, now: Instant, limited: bool) {
        let _ = (now, limited);
    }

    /// Datagrams on this path are now `size` bytes.
    fn on_datagram_size(&mut self, size: u16);

    /// How many bytes may be in flight.
    fn window(&self) -> u64;

    /// The slow start threshold in bytes, for those who have one.
    fn ssthresh(&self) -> Option<u64> {
        None
    }

    /// How fast packets may leave; `None` as fast as the window allows.
    fn pacing_rate(&self, rtt: &Rtt) -> Option<Rate> {
        Some(pacing::window_rate(self.window(), rtt.paced, pacing::AVOIDANCE_GAIN))
    }

    /// How many bytes may leave back to back at `rate`.
    fn send_quantum(&self, rate: Rate, datagram_size: u16) -> u64 {
        pacing::quantum(rate, datagram_size)
    }

    /// How many round trips pass from one peak of its queue to the next but one: what an estimator has to remember to have seen a peak.
    fn cycle(&self, rtt: &Rtt) -> u32 {
        let _ = rtt;
        DEFAULT_CYCLE
    }

    /// What it is doing, for the trace.
    fn state(&self) -> State {
        State::CongestionAvoidance
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

    /// A controller for a path that begins at `now` with datagrams of `datagram_size` bytes.
    fn build(&self, now: Instant, datagram_size: u16) -> Box<dyn Controller>;
}
