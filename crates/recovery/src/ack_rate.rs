//! How often to ask the peer for acknowledgments (ACK_FREQUENCY, draft-ietf-quic-ack-frequency).
//!
//! At two packets per ACK, 250 Mbps of data need 5.3 Mbps of ACKs the other way, more than many an uplink has. Four ACKs per window keep
//! loss detection and growth as quick as they need to be. What we send ourselves is the transport's business.

use thalweg_units::Duration;

use crate::loss::PACKET_THRESHOLD;
use crate::path::Path;

/// ACKs to ask for per window: fewer make the window move in visible steps and the pacer wait for it.
const PER_WINDOW: u64 = 4;

/// The most packets per ACK. More saves little and makes every lost ACK cost more.
const MAX_PACKETS: u64 = 10;

/// What to put into an ACK_FREQUENCY frame.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct AckRequest {
    /// Ack-Eliciting Threshold: how many ack-eliciting packets may stay unacknowledged. 1 asks for every second one.
    pub ack_eliciting_threshold: u64,
    /// Requested Max Ack Delay: a quarter of the smoothed round-trip time, 1 to 25 ms.
    pub max_ack_delay: Duration,
    /// Reordering Threshold: what our own loss detection uses, so that the ACK comes when it can be acted on.
    pub reordering_threshold: u64,
}

/// What suits `path` as it is now. To be sent again when it has changed noticeably.
pub fn request(path: &Path) -> AckRequest {
    let datagrams = path.window() / u64::from(path.datagram_size().max(1));
    let packets = (datagrams / PER_WINDOW).clamp(2, MAX_PACKETS);
    let delay =
        (path.rtt().smoothed / 4).clamp(Duration::from_millis(1), Duration::from_millis(25));
    AckRequest {
        ack_eliciting_threshold: packets - 1,
        max_ack_delay: delay,
        reordering_threshold: PACKET_THRESHOLD,
    }
}
