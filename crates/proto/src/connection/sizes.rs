//! Sizes of datagrams and packets.

/// The smallest datagram that may carry an ack-eliciting Initial packet (RFC 9000 section 14.1).
pub(super) const MIN_INITIAL: u16 = 1200;
/// Do not begin another packet in a datagram with less room than this: header, tag and a frame worth having.
pub(super) const MIN_PACKET: usize = 96;
