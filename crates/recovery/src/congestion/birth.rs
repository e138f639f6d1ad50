//! What a controller is told when its path begins.

use core::net::SocketAddr;

use thalweg_units::{Duration, Instant, Rate};

use super::ResumePolicy;
use crate::policies::MarkPolicy;
use crate::profile::Profile;

/// Everything that a controller is told when its path begins.
#[derive(Copy, Clone, Debug)]
#[non_exhaustive]
pub struct Birth {
    /// When the path begins.
    pub now: Instant,
    /// Bytes of a full datagram.
    pub datagram_size: u16,
    /// What the transport's acknowledgments can tell.
    pub profile: Profile,
    /// Whether packets are paced at the rate that the controller allows ([`PacingPolicy`](crate::PacingPolicy)).
    pub is_paced: bool,
    /// Seed of every random choice of the controller. Differs from path to path of a connection.
    pub seed: u64,
    /// The peer's address; `None` where the transport has not said.
    pub remote: Option<SocketAddr>,
    /// What an earlier connection learned about the path; `None` if nothing is known.
    pub memory: Option<PathMemory>,
    /// What may be made of that. Windows see to it; a model, or a controller of the program's own, has to do so itself.
    pub resume: ResumePolicy,
    /// How the path responds to congestion marks. In proportion to their share only where the controller marks packets
    /// ECT(1) ([`Controller::ecn_codepoint`](crate::Controller::ecn_codepoint)).
    pub mark: MarkPolicy,
}

impl Birth {
    /// A QUIC path with pacing, about which nothing else is known.
    pub fn new(now: Instant, datagram_size: u16) -> Birth {
        Birth {
            now,
            datagram_size,
            profile: Profile::QUIC,
            is_paced: true,
            seed: 0,
            remote: None,
            memory: None,
            resume: ResumePolicy::Off,
            mark: MarkPolicy::Reduce,
        }
    }
}

/// What is worth remembering about a path after a connection: the saved parameters of Careful Resume (RFC 9959 section
/// 3), and a rate.
///
/// Plain data: where it is kept, for how long and under which name is decided by whoever keeps it. The window is a
/// statement about the path at one time, so the one that uses it has to tread carefully.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct PathMemory {
    /// The largest number of bytes that were acknowledged within a round trip (saved_cwnd).
    pub window: u64,
    /// The minimum round-trip time (saved_rtt).
    pub min_rtt: Duration,
    /// How fast the path delivered last; `None` if that was never measured.
    pub rate: Option<Rate>,
    /// How long ago this was learned.
    pub age: Duration,
}
