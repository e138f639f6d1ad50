//! The view of a path that a controller has when it sets its allowance, and its parts when they propose a window.

use thalweg_units::{Duration, Instant};

use crate::rtt::Rtt;

/// What a controller may look at when it is asked what it allows.
#[derive(Copy, Clone, Debug)]
#[non_exhaustive]
pub struct PathView<'a> {
    /// When it is asked.
    pub now: Instant,
    /// The round-trip estimate.
    pub rtt: &'a Rtt,
    /// Bytes in flight.
    pub bytes_in_flight: u64,
}

impl PathView<'_> {
    pub(crate) fn new(now: Instant, rtt: &Rtt, bytes_in_flight: u64) -> PathView<'_> {
        PathView { now, rtt, bytes_in_flight }
    }
}

/// What the parts of a window may look at.
#[derive(Copy, Clone, Debug)]
pub(crate) struct View {
    pub(crate) now: Instant,
    /// The congestion window in bytes.
    pub(crate) window: u64,
    /// Bytes of a full datagram: the "segment" of the formulas.
    pub(crate) datagram: u64,
    /// The smoothed round-trip time.
    pub(crate) smoothed_rtt: Duration,
    /// The newest sample, and the smallest.
    pub(crate) latest_rtt: Duration,
    pub(crate) min_rtt: Duration,
}

#[cfg(test)]
impl View {
    /// A path on which every sample is `rtt`.
    pub(crate) fn new(now: Instant, window: u64, datagram: u64, rtt: Duration) -> View {
        View { now, window, datagram, smoothed_rtt: rtt, latest_rtt: rtt, min_rtt: rtt }
    }
}
