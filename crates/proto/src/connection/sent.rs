//! Records of sent packets, by which their content is forgotten when acknowledged and sent again when lost.

use std::ops::Range;

use smallvec::SmallVec;
use thalweg_recovery::SpaceId;

use super::paths::PathControl;
use crate::{ack::Reported, streams::SentStreams};

/// The frames of one sent packet that matter afterwards.
#[derive(Clone, Debug)]
pub(crate) struct SentFrames {
    /// The packet's space.
    pub(super) space: SpaceId,
    /// Stream data and stream control frames.
    pub(super) streams: SentStreams,
    /// CRYPTO ranges.
    pub(super) crypto: SmallVec<[Range<u64>; 1]>,
    /// What the ACK frame in this packet reports.
    pub(super) acked: Option<Reported>,
    /// Connection-level control frames.
    pub(super) control: SmallVec<[Control; 1]>,
    /// Everything in it was in another packet that may still arrive.
    pub(super) is_copy: bool,
}

impl SentFrames {
    pub(super) fn new(space: SpaceId) -> Self {
        Self {
            space,
            streams: SentStreams::default(),
            crypto: SmallVec::new(),
            acked: None,
            control: SmallVec::new(),
            is_copy: false,
        }
    }

    fn reset(&mut self, space: SpaceId) {
        self.space = space;
        self.streams.clear();
        self.crypto.clear();
        self.acked = None;
        self.control.clear();
        self.is_copy = false;
    }

    /// Whether it took memory of its own for frames that are unusually many.
    fn has_spilled(&self) -> bool {
        let streams = self.streams.chunks.spilled() || self.streams.control.spilled();
        streams || self.crypto.spilled() || self.control.spilled()
    }

    /// Whether anything would be sent again if the packet were lost; a PING or an ACK would not.
    pub(super) fn is_worth_repeating(&self) -> bool {
        !self.streams.is_empty() || !self.crypto.is_empty() || !self.control.is_empty()
    }
}

/// Records of frames that are in no packet: a packet on its way holds one, and moving it is to move a pointer.
#[derive(Debug, Default)]
#[expect(clippy::vec_box, reason = "the boxes are what is to be used again")]
pub(super) struct SpareFrames {
    list: Vec<Box<SentFrames>>,
    most: usize,
}

impl SpareFrames {
    /// Keeps `most` records at most.
    pub(super) fn limit(&mut self, most: usize) {
        if most < self.most {
            self.list.truncate(most);
            self.list.shrink_to(most);
        }
        self.most = most;
    }

    /// An empty record for a packet of `space`.
    pub(super) fn take(&mut self, space: SpaceId) -> Box<SentFrames> {
        match self.list.pop() {
            Some(mut frames) => {
                frames.reset(space);
                frames
            }
            None => Box::new(SentFrames::new(space)),
        }
    }

    /// A packet is settled, or was not sent. What took memory of its own is let go.
    pub(super) fn give_back(&mut self, frames: Box<SentFrames>) {
        if self.list.len() < self.most && !frames.has_spilled() {
            self.list.push(frames);
        }
    }
}

/// A control frame that belongs to the connection rather than to a stream. Each is rebuilt from current state when
/// it has to be sent again, so what is kept here is only its identity.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Control {
    /// HANDSHAKE_DONE.
    HandshakeDone,
    /// NEW_TOKEN.
    NewToken,
    /// NEW_CONNECTION_ID with this sequence number.
    NewConnectionId(u64),
    /// RETIRE_CONNECTION_ID with this sequence number.
    RetireConnectionId(u64),
    /// ACK_FREQUENCY with this sequence number.
    AckFrequency(u64),
    /// A frame about a path.
    Path(PathControl),
}
