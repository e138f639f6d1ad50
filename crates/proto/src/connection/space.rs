//! What a connection keeps per packet-number space besides recovery: numbers, acknowledgements, CRYPTO, probes.

use std::ops::Range;

use thalweg_recovery::SpaceId;

use super::{crypto_stream::CryptoStream, numbers::PacketNumbers};
use crate::ack::{AckConfig, AckTracker};

/// One packet-number space (RFC 9000 section 12.3).
#[derive(Debug)]
pub(super) struct Space {
    pub(super) numbers: PacketNumbers,
    /// What we received and have to acknowledge.
    pub(super) acks: AckTracker,
    pub(super) crypto: CryptoStream,
    /// Ack-eliciting packets still owed to a probe timeout; they ignore the congestion window.
    pub(super) probes: u8,
    /// What the probes may repeat next: the outstanding packets with these numbers.
    pub(super) repeats: Range<u64>,
    /// A PING is wanted (keep-alive, or a probe without data).
    pub(super) ping: bool,
}

impl Space {
    pub(super) fn new(space: SpaceId, config: AckConfig) -> Self {
        Self {
            numbers: PacketNumbers::default(),
            acks: AckTracker::new(config, space != SpaceId::DATA),
            crypto: CryptoStream::default(),
            probes: 0,
            repeats: 0..0,
            ping: false,
        }
    }

    /// Owes `probes` ack-eliciting packets, which begin with what is oldest.
    pub(super) fn probe(&mut self, probes: u8) {
        self.probes = probes;
        // Where nothing was sent yet, the second probe repeats the first.
        self.repeats = 0..self.numbers.next().max(1);
    }
}
