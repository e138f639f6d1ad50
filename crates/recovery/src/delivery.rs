//! How fast a path delivers: delivery-rate samples and packet-timed round trips.
//!
//! Per acknowledged packet (draft-cheng-iccrg-delivery-rate-estimation, as BBR uses it):
//!
//! ```text
//! rate = (delivered now - delivered when sent) / max(send interval, ack interval)
//! ```
//!
//! where both intervals span the flight that the packet belonged to. The larger one wins because ACKs that arrive bunched, and packets that
//! left bunched, both make delivery look faster than it was. A round trip ends when a packet sent after its beginning is acknowledged.

use thalweg_units::{Duration, Instant, Rate};

/// Which packet-timed round trip a path is in.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Default)]
pub struct Round {
    /// Round trips completed.
    pub count: u64,
    /// Whether the acknowledgment at hand began this one.
    pub started: bool,
}

/// One delivery-rate sample.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct RateSample {
    /// The delivery rate.
    pub rate: Rate,
    /// Bytes delivered over `interval`.
    pub delivered: u64,
    /// The span that they were delivered in.
    pub interval: Duration,
    /// The application left the window unused meanwhile: the path may be faster than this.
    pub application_limited: bool,
    /// Bytes in flight just after the sampled packet was sent.
    pub sent_in_flight: u64,
    /// Bytes declared lost since it was sent.
    pub lost: u64,
}

/// What a packet remembers of the moment it was sent.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Snapshot {
    delivered: u64,
    delivered_at: Instant,
    first_sent: Instant,
    in_flight: u64,
    lost: u64,
    application_limited: bool,
}
