//! The state of a packet-number space besides recovery: numbers, acknowledgments, CRYPTO, a PING that is owed.

use thalweg_recovery::SpaceId;

use super::{crypto_stream::CryptoStream, numbers::PacketNumbers};
use crate::ack::{AckConfig, AckTracker};

/// One packet-number space (RFC 9000 section 12.3).
#[derive(Debug)]
pub(crate) struct Space {
    pub numbers: PacketNumbers,
    /// What we received and have to acknowledge.
    pub acks: AckTracker,
    pub crypto: CryptoStream,
    /// A PING is wanted (keep-alive, or a probe without data).
    pub ping: bool,
    /// The largest number received.
    newest: Option<u64>,
}

impl Space {
    pub(super) fn new(space: SpaceId, config: AckConfig) -> Self {
        Self {
            numbers: PacketNumbers::default(),
            acks: AckTracker::new(config, !space.is_data()),
            crypto: CryptoStream::default(),
            ping: false,
            newest: None,
        }
    }

    /// A packet was received and processed. Returns whether its number is the largest so far.
    pub fn on_number(&mut self, number: u64) -> bool {
        let is_newest = self.newest.is_none_or(|newest| number > newest);
        if is_newest {
            self.newest = Some(number);
        }
        is_newest
    }
}
