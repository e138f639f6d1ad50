//! The context of a path at its beginning, for a controller and its parts.

use core::net::SocketAddr;

use thalweg_units::{Ecn, Instant};

use super::saved_path::SavedPath;
use crate::policies::ResumePolicy;
use crate::profile::Profile;

/// The context of a path at its beginning.
#[derive(Copy, Clone, Debug)]
#[non_exhaustive]
pub struct PathContext {
    /// When the path begins.
    pub now: Instant,
    /// Bytes of a full datagram.
    pub datagram_size: u16,
    /// The information in the transport's acknowledgments.
    pub profile: Profile,
    /// Whether packets are paced at the rate that the controller allows ([`PacingPolicy`](crate::PacingPolicy)).
    pub is_paced: bool,
    /// Seed of every random choice of the controller. Differs from path to path of a connection.
    pub seed: u64,
    /// The peer's address; `None` where the transport has not said.
    pub remote: Option<SocketAddr>,
    /// What an earlier connection learned about the path; `None` if nothing is known.
    pub saved: Option<SavedPath>,
    /// What may be made of that. Windows see to it; a model, or a controller of the program's own, has to do so itself.
    pub resume: ResumePolicy,
    /// How the policy `mark` has packets marked: ECT(1) where it responds to marks as low latency, low loss and
    /// scalable throughput demand. Only a controller that then says the same gets that response
    /// ([`Controller::ecn_codepoint`](crate::Controller::ecn_codepoint)).
    pub ecn_codepoint: Ecn,
}

impl PathContext {
    /// A QUIC path with pacing, about which nothing else is known.
    pub fn new(now: Instant, datagram_size: u16) -> PathContext {
        PathContext {
            now,
            datagram_size,
            profile: Profile::QUIC,
            is_paced: true,
            seed: 0,
            remote: None,
            saved: None,
            resume: ResumePolicy::Off,
            ecn_codepoint: Ecn::Ect0,
        }
    }
}
