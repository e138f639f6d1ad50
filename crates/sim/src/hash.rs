//! The hash over what the links do.

use thalweg_link::{Carried, DropCause, Packet};
use thalweg_units::{Ecn, Instant};

use crate::datagram::Datagram;

/// FNV-1a with 128 bits of state, fed 64-bit words (draft-eastlake-fnv), as the connections' event log uses it.
#[derive(Debug)]
pub(crate) struct Hash(u128);

const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

impl Hash {
    pub(crate) fn new() -> Self {
        Hash(OFFSET)
    }

    fn word(&mut self, value: u64) {
        self.0 = (self.0 ^ u128::from(value)).wrapping_mul(PRIME);
    }

    /// A packet arrived at the end of a link, or was dropped on it. Payloads stay out.
    pub(crate) fn packet(
        &mut self,
        at: Instant,
        link: usize,
        packet: &Packet<Carried<Box<Datagram>>>,
        dropped: Option<DropCause>,
    ) {
        let fate = dropped.map_or(0, |cause| cause.index() as u64 + 1);
        let ecn = match packet.ecn {
            Ecn::NotEct => 0,
            Ecn::Ect1 => 1,
            Ecn::Ect0 => 2,
            Ecn::Ce => 3,
        };
        self.word(at.as_nanos());
        self.word((link as u64) << 48 | fate << 40 | ecn << 32 | u64::from(packet.size));
        self.word(packet.sent.as_nanos() ^ u64::from(packet.flow) << 48);
    }

    /// The value, with what the connections sent and received if that is known.
    pub(crate) fn value(mut self, wire: Option<u128>) -> u128 {
        if let Some(wire) = wire {
            self.word(wire as u64);
            self.word((wire >> 64) as u64);
        }
        self.0
    }
}
