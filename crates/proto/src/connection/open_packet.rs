//! A packet being written.

use thalweg_recovery::{Ecn, SpaceId};

use super::{paths::PathKey, sent::SentFrames};
use crate::{observe::PacketKind, packet::HeaderMark};

/// See the [module](self).
pub(super) struct OpenPacket {
    pub(super) space: SpaceId,
    /// The path it goes by.
    pub(super) path: PathKey,
    /// The mark of its datagram.
    pub(super) ecn: Ecn,
    pub(super) kind: PacketKind,
    pub(super) mark: HeaderMark,
    pub(super) frames: SentFrames,
    pub(super) ack_eliciting: bool,
    /// It is one of the packets owed to a probe timeout.
    pub(super) probe: bool,
    /// It asks whether the path carries datagrams of its size.
    pub(super) mtu_probe: bool,
}
