//! The packet-number spaces of a connection: numbers, acknowledgments, CRYPTO, PINGs.

mod by_space;
mod crypto_stream;
mod numbers;
mod space;

use std::ops::{Index, IndexMut};

use thalweg_recovery::{DataSpace, Outcome, ReceiveTime, SpaceId};

pub(crate) use self::{
    by_space::BySpace,
    crypto_stream::{CryptoStream, MAX_BUFFERED, MAX_UNPROVEN},
    space::Space,
};
use super::sent::{SentFrames, SpareFrames};
use crate::ack::AckConfig;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Spaces {
    all: BySpace<Space>,
    /// What an ACK did; reused from ACK to ACK.
    pub outcome: Outcome<Box<SentFrames>>,
    /// Records for packets to come.
    pub spare: SpareFrames,
    /// The timestamps of an ACK, by descending packet number; reused from ACK to ACK.
    pub receive_times: Vec<ReceiveTime>,
}

impl Spaces {
    pub fn new(config: &AckConfig) -> Spaces {
        Spaces {
            all: BySpace::new(|space| Space::new(space, config.clone())),
            outcome: Outcome::default(),
            spare: SpareFrames::default(),
            receive_times: Vec::new(),
        }
    }

    /// All of them, in the order in which they come into use.
    pub fn iter(&self) -> impl Iterator<Item = &Space> {
        self.all.iter()
    }

    /// The space of this name; `None` if there is none.
    #[inline]
    pub fn get(&self, space: SpaceId) -> Option<&Space> {
        self.all.get(space)
    }

    /// Those of application data.
    pub fn data(&self) -> impl Iterator<Item = (DataSpace, &Space)> {
        self.all.data()
    }

    /// Those of application data.
    pub fn data_mut(&mut self) -> impl Iterator<Item = (DataSpace, &mut Space)> {
        self.all.data_mut()
    }

    /// Begins the space of a further path.
    pub fn open(&mut self, space: DataSpace, config: AckConfig) -> &mut Space {
        self.all.insert(space, Space::new(SpaceId::Data(space), config));
        &mut self.all[SpaceId::Data(space)]
    }

    /// Forgets the space of a further path.
    pub fn forget(&mut self, space: DataSpace) {
        self.all.remove(space);
    }

    /// The CRYPTO stream of a space: that of its encryption level, of which there is one for all paths.
    #[inline]
    pub fn crypto(&self, space: SpaceId) -> &CryptoStream {
        &self.all.level(space).crypto
    }

    /// The same, to change it.
    #[inline]
    pub fn crypto_mut(&mut self, space: SpaceId) -> &mut CryptoStream {
        &mut self.all.level_mut(space).crypto
    }

    /// Begins a space anew whose keys are gone (RFC 9001 section 4.9).
    pub fn discard(&mut self, space: SpaceId, config: AckConfig) {
        self.all[space] = Space::new(space, config);
    }

    /// Whether a packet of the peer's handshake is missing. Its packets begin with number 0 in every space (RFC 9000
    /// section 12.3): one that is missing was lost on its way, or is late.
    pub fn is_missing_handshake(&self) -> bool {
        [SpaceId::Initial, SpaceId::Handshake].iter().any(|space| self.all[*space].acks.is_missing_any())
    }
}

/// The space of that name, or the first of application data if there is none.
impl Index<SpaceId> for Spaces {
    type Output = Space;

    #[inline]
    fn index(&self, space: SpaceId) -> &Space {
        &self.all[space]
    }
}

impl IndexMut<SpaceId> for Spaces {
    #[inline]
    fn index_mut(&mut self, space: SpaceId) -> &mut Space {
        &mut self.all[space]
    }
}
