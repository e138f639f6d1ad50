//! Slow start and what takes its place.
//!
//! A start proposes a window on each ACK, may shape how packets leave, and says when to stop; the frame
//! ([`window`](super::window)) applies it. After persistent congestion the window opens again, up to the threshold;
//! only the first time is there anything to find out.

mod careful_resume;
mod delay_min;
mod hystart;
mod hystart_plus_plus;
#[cfg(test)]
mod one_burst;
mod peak;
mod rapid;
mod search;
mod standard;
mod suss;

use core::fmt::Debug;

use thalweg_units::{Duration, Instant, Rate};

use super::AckEvent;
use super::window::View;
use crate::trace::{StartExit, State};

use crate::choice::algorithms;
pub use careful_resume::ResumePolicy;
pub(crate) use careful_resume::wrap;
use delay_min::DelayMin;
use hystart::HyStart;
use hystart_plus_plus::HyStartPlusPlus;
#[cfg(test)]
pub(crate) use one_burst::BURST;
#[cfg(test)]
use one_burst::OneBurst;
pub(crate) use peak::LONG;
use peak::Peak;
use rapid::RapidStart;
use search::Search;
use standard::Standard;
use suss::Suss;

algorithms! {
    #[doc = "How the congestion window opens at first, and what ends the start."]
    StartPolicy: Start, "start" {
        Standard "standard",
            "slow start until loss or a congestion mark (RFC 9002 section 7.3.1)",
            "for comparison; where delay varies for reasons other than queues",
            |_| Box::new(Standard);
        HyStartPlusPlus "hystart++",
            "slow start that slows down and then ends when the round-trip time rises (RFC 9406)",
            "wherever a queue is longer than a few milliseconds: fewer losses at the end of the start",
            |birth| Box::new(HyStartPlusPlus::new(birth));
        HyStart "hystart",
            "slow start that ends at once when a train of ACKs lasts as long as the path, or the round-trip time rises (Linux's tcp_cubic)",
            "to compare with Linux; where delay hardly varies: fewest losses at the end of the start",
            |birth| Box::new(HyStart::new(birth));
        DelayMin "delay-min",
            "slow start that ends when the smallest of seven round-trip samples stays a quarter above what it was (picoquic)",
            "to compare with picoquic; where delay varies by less than a quarter of the round trip",
            |_| Box::new(DelayMin::new());
        Search "search",
            "slow start that ends when what is acknowledged falls behind what was sent a round trip before (draft-chung-ccwg-search-09)",
            "where delay varies for reasons other than queues, and queues hold three times the path or more",
            |_| Box::new(Search::new());
        RapidStart "rapid-start",
            "slow start that triples until the round-trip time rises, and comes to what was delivered of the flight that met loss (draft-kazuho-ccwg-rapid-start-02)",
            "paths of any length, short transfers above all",
            |birth| Box::new(RapidStart::new(birth));
        Suss "suss",
            "hystart that quadruples while the time over which ACKs arrive says that it would go on doubling (SUSS, SIGCOMM 2024)",
            "to compare with SUSS; transfers of a few round trips on paths without jitter",
            |birth| Box::new(Suss::new(birth));
        PeakBandwidth "peak-bandwidth",
            "a jump to what the path carries at the rate that trains of packets have measured; ends there once a round trip has confirmed it (picoquic's rule, changed)",
            "long paths: fills the link after two round trips",
            |birth| Box::new(Peak::new(birth, peak::FILL));
        PeakBandwidthThreeQuarters "peak-bandwidth/three-quarters",
            "as peak-bandwidth, with a jump to three quarters of that",
            "to measure what caution costs",
            |birth| Box::new(Peak::new(birth, peak::Settings { share: (3, 4), ..peak::FILL }));
        PeakBandwidthHalf "peak-bandwidth/half",
            "as peak-bandwidth, with a jump to half of that",
            "long paths whose queues are short",
            |birth| Box::new(Peak::new(birth, peak::Settings { share: (1, 2), ..peak::FILL }));
        PeakBandwidthUnscaled "peak-bandwidth/unscaled",
            "as peak-bandwidth, with the same initial window for every round-trip time",
            "where no first flight may exceed ten packets",
            |birth| Box::new(Peak::new(birth, peak::Settings { scales_initial_window: false, ..peak::FILL }));
        PeakBandwidthSpread "peak-bandwidth/spread",
            "as peak-bandwidth, without a wait for credit for a train",
            "to measure what trains are good for",
            |birth| Box::new(Peak::new(birth, peak::Settings { waits_for_trains: false, ..peak::FILL }));
        PeakBandwidthPublished "peak-bandwidth/published",
            "a jump to half of what the path carries at the highest rate between two ACKs, and slow start until the delay rises (picoquic)",
            "to compare with picoquic",
            |birth| Box::new(Peak::new(birth, peak::PUBLISHED));
        PeakBandwidthLate "peak-bandwidth/published-late",
            "as peak-bandwidth/published, without what the handshake and the first flight tell (picoquic before that was added)",
            "to compare with picoquic",
            |birth| {
                let late = peak::Settings { scales_initial_window: false, knows_handshake: false, ..peak::PUBLISHED };
                Box::new(Peak::new(birth, late))
            };
        #[cfg(test)]
        OneBurst "test-one-burst",
            "one burst, a pause, and a jump to what the burst measured",
            "in tests of the seat of a start",
            |birth| Box::new(OneBurst::new(birth));
    } default PeakBandwidth
}

impl StartPolicy {
    /// Whether it works with the times at which packets arrived.
    pub(super) fn uses_arrivals(self) -> bool {
        self.name().split('/').next() == Some(StartPolicy::PeakBandwidth.name())
    }
}

/// What a start proposes; it holds until the next proposal.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Proposal {
    /// The window to have now, in bytes. The frame keeps it at the minimum or above, and below the threshold.
    pub(crate) window: u64,
    /// How fast packets leave; `None`: two windows per round trip.
    pub(crate) rate: Option<Rate>,
    /// Bytes of credit that may be saved up for one burst (see [`Allowance::burst`](super::Allowance::burst)).
    pub(crate) burst: u64,
    /// Bytes of credit to wait for (see [`Allowance::hold_until_credit`](super::Allowance::hold_until_credit)).
    pub(crate) hold_until_credit: u64,
    /// The start is over, for this reason: growth takes over from `window`, the new threshold.
    pub(crate) exit: Option<StartExit>,
    /// With an exit: the window from which growth is to take it that congestion has reduced it to `window`; `None`:
    /// there was no congestion.
    pub(crate) held: Option<u64>,
}

impl Proposal {
    /// A window, and nothing else.
    pub(crate) fn window(window: u64) -> Proposal {
        Proposal { window, rate: None, burst: 0, hold_until_credit: 0, exit: None, held: None }
    }
}

/// A packet that has left.
#[derive(Copy, Clone, Debug)]
#[allow(dead_code, reason = "for starts that shape bursts; some of the built ones only count")]
pub(crate) struct Departure {
    /// When.
    pub(crate) now: Instant,
    /// Bytes of it.
    pub(crate) bytes: u64,
    /// Bytes in flight, itself included.
    pub(crate) bytes_in_flight: u64,
    /// The congestion window in bytes.
    pub(crate) window: u64,
    /// The window has no room for what leaves next: a datagram, or the train that the start waits for.
    pub(crate) is_full: bool,
}

/// How a start answers congestion by itself.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Congested {
    /// The window to have at once, in bytes.
    pub(crate) window: u64,
    /// The threshold, in bytes, if the start is over with that, no more than the window; `None`: it goes on, and
    /// proposes an exit later.
    pub(crate) threshold: Option<u64>,
}

/// A way to open the window. Asked only while the window is below the threshold and no reduction is under way.
pub(crate) trait Start: Debug + Send {
    /// An ACK arrived; called for every one of them, also when nothing may grow.
    fn on_ack(&mut self, view: View, event: &AckEvent<'_>) -> Proposal;

    /// A packet left. A proposal replaces the one in force.
    fn on_sent(&mut self, sent: Departure) -> Option<Proposal> {
        let _ = sent;
        None
    }

    /// The first packet after `idle` without anything in flight leaves. A proposal holds from the next one on.
    fn on_restart(&mut self, now: Instant, idle: Duration, window: u64) -> Option<Proposal> {
        let _ = (now, idle, window);
        None
    }

    /// Congestion (`event.congestion`). An answer of its own takes the place of the growth's reduction, which is what
    /// `None` leaves it to.
    fn on_congestion(&mut self, view: View, event: &AckEvent<'_>) -> Option<Congested> {
        let _ = (view, event);
        None
    }

    /// Whether a mark may end it without a reduction: not while the window is a guess that nothing has confirmed.
    fn may_end_where_it_stands(&self) -> bool {
        true
    }

    /// Slow start ended, whatever ended it.
    fn on_exit(&mut self) {}

    /// What it is doing.
    fn state(&self) -> State {
        State::SlowStart
    }

    /// A copy, to return to if the reduction that ended it is taken back.
    fn snapshot(&self) -> Box<dyn Start>;
}
