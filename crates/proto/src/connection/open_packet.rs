//! A packet being written, and what it may hold.

use thalweg_recovery::{Ecn, SpaceId};

use super::{paths::PathKey, sent::SentFrames};
use crate::{observe::PacketKind, packet::HeaderMark};

/// A packet being written.
pub(super) struct OpenPacket {
    pub(super) space: SpaceId,
    /// The path it goes by.
    pub(super) path: PathKey,
    /// The mark of its datagram.
    pub(super) ecn: Ecn,
    pub(super) kind: PacketKind,
    pub(super) mark: HeaderMark,
    pub(super) frames: Box<SentFrames>,
    pub(super) ack_eliciting: bool,
    /// It is one of the packets owed to a probe timeout, or a copy.
    pub(super) probe: bool,
    /// It asks whether the path carries datagrams of its size.
    pub(super) mtu_probe: bool,
}

/// What a packet may hold.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(super) enum Content {
    /// Acknowledgements only: the window is full.
    Acks,
    /// Those and a PING: the path is silent, and what it owes leaves on others.
    Probe,
    /// Those, PING, and control frames: the window has room, but the application's rate limit holds back what is large.
    /// Without them a paused connection would die of idleness, and starve its peer of credit.
    Control,
    /// Anything there is.
    All,
}
