//! Compatible version negotiation: a server may answer in another version without a round trip (RFC 9368 section 2.3).

use thalweg_recovery::SpaceId;
use thalweg_units::Instant;

use super::{
    Connection,
    spaces::{CryptoStream, MAX_UNPROVEN},
};
use crate::{
    Side,
    crypto::{
        Keys,
        hello::{self, Hello},
    },
    frame::{Frame, FrameIter},
    observe::{ObserverEvent, PacketKind},
    packet::Partial,
    transport_parameters::TransportParameters,
    version::Version,
};

/// The payload of the Initial packet at the start of `datagram`, if it opens. The datagram stays as it is.
pub(crate) fn open_copy(keys: &Keys, partial: &Partial, datagram: &[u8]) -> Option<Vec<u8>> {
    let mut copy = datagram.get(..partial.len)?.to_vec();
    let open = partial.unprotect(&mut copy, &*keys.remote.header, None).ok()?;
    let (header, payload) = copy.split_at_mut(open.payload.start);
    let len = keys.remote.packet.open(0, open.number, header, payload).ok()?;
    Some(payload[..len].to_vec())
}

/// The version a server continues with, given the payload of the client's first Initial. A ClientHello that needs more
/// than one packet is answered in the version it came in.
pub(crate) fn choose_version(first: Version, preferred: &[Version], payload: &[u8]) -> Version {
    if preferred.is_empty() {
        return first;
    }
    let mut crypto = CryptoStream::default();
    for frame in FrameIter::new(payload).filter_map(Result::ok) {
        if let Frame::Crypto { offset, data } = frame {
            let _ = crypto.receive(offset, data, MAX_UNPROVEN);
        }
    }
    let Hello::Parameters(encoded) = hello::transport_parameters(crypto.readable()) else { return first };
    match TransportParameters::decode(encoded, Side::Client).map(|params| params.version_information) {
        Ok(Some(info)) => info.select(first, preferred),
        _ => first,
    }
}

impl Connection {
    /// Server: whether a packet is of the version the client began with, before it learnt of our choice.
    pub(super) fn is_of_first_flight(&self, version: Version, kind: PacketKind) -> bool {
        self.side == Side::Server && version == self.handshake.original_version && kind == PacketKind::Initial
    }

    /// Client: the server's first Initial is in another version that our first flight can be converted to. If it is
    /// authentic, we follow.
    pub(super) fn follow_version(
        &mut self,
        now: Instant,
        version: Version,
        kind: PacketKind,
        partial: &Partial,
        packet: &[u8],
    ) -> bool {
        let original = self.version;
        if self.handshake.heard || kind != PacketKind::Initial || !original.is_compatible_with(version) {
            return false;
        }
        let dcid = *self.cids.remote.active();
        let Some(keys) = self.handshake.initial_keys(version, &dcid) else { return false };
        if open_copy(&keys, partial, packet).is_none() || !self.session.switch_version(version) {
            return false;
        }
        self.keys.install_initial(keys);
        self.version = version;
        // What we sent in the first version is known to the server; what is lost of it goes out in the new one.
        debug_assert!(self.keys.has(SpaceId::Initial));
        let (chosen, original) = (version.0, original.0);
        self.reports.observe(now, &ObserverEvent::VersionNegotiated { chosen, original });
        true
    }
}
