//! The state of the connection (`C.` in the draft), as the transport last reported it.

use thalweg_units::Duration;

/// The state of the connection as the transport reports it.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Connection {
    /// Bytes delivered, lost and in flight.
    pub(super) delivered: u64,
    pub(super) lost: u64,
    pub(super) in_flight: u64,
    /// The smoothed round-trip time.
    pub(super) smoothed_rtt: Duration,
    /// The pacing rate has been set by a round-trip time.
    pub(super) has_rtt: bool,
    /// The application leaves the window unused.
    pub(super) application_limited: bool,
    /// Nothing has been acknowledged since it began to send again.
    pub(super) idle_restart: bool,
    /// Samples of packets sent when the delivered bytes were within this range are limited by ProbeRTT.
    pub(super) limited_by_probe: Option<(u64, u64)>,
    /// The window was full at some point in this round, and in the one before.
    pub(super) window_full: (bool, bool),
}
