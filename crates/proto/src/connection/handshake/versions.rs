//! Compatible version negotiation: a server may answer in another version without a round trip (RFC 9368 section 2.3).

use thalweg_recovery::SpaceId;

use super::{Handshake, keys::KeyStore};
use crate::{
    Side,
    cid::ConnectionId,
    connection::spaces::{CryptoStream, MAX_UNPROVEN},
    crypto::{
        Keys,
        hello::{self, Hello},
    },
    frame::{Frame, FrameIter},
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

/// What a server has to know of a ClientHello before its TLS session begins.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientHello {
    /// The version the server continues with.
    pub version: Version,
    /// The client wants to use several paths at once.
    pub asks_for_paths: bool,
}

impl ClientHello {
    /// Read from the payload of the client's first Initial, which is of version `first`. A ClientHello that needs more
    /// than one packet is answered in the version it came in, and with one path at a time. `looks_for_paths`: the
    /// server would use several.
    pub fn read(first: Version, preferred: &[Version], looks_for_paths: bool, payload: &[u8]) -> ClientHello {
        let unknown = ClientHello { version: first, asks_for_paths: false };
        if preferred.is_empty() && !looks_for_paths {
            return unknown;
        }
        let mut crypto = CryptoStream::default();
        for frame in FrameIter::new(payload).filter_map(Result::ok) {
            if let Frame::Crypto { offset, data } = frame {
                let _ = crypto.receive(offset, data, MAX_UNPROVEN);
            }
        }
        let Hello::Parameters(encoded) = hello::transport_parameters(crypto.readable()) else { return unknown };
        let Ok(params) = TransportParameters::decode(encoded, Side::Client) else { return unknown };
        let version = match params.version_information {
            Some(info) if !preferred.is_empty() => info.select(first, preferred),
            _ => first,
        };
        ClientHello { version, asks_for_paths: params.initial_max_path_id.is_some() }
    }
}

impl Handshake {
    /// Client: the server's first Initial is in another version that our first flight can be converted to. If it is
    /// authentic, we follow. `dcid` is the destination that our Initial packets carry.
    pub fn follow_version(
        &mut self,
        version: Version,
        dcid: &ConnectionId,
        partial: &Partial,
        packet: &[u8],
        keys: &mut KeyStore,
    ) -> bool {
        if self.heard || !self.version.is_compatible_with(version) {
            return false;
        }
        let Some(client) = &self.client else { return false };
        let initial = client.initial_keys(version, dcid);
        if open_copy(&initial, partial, packet).is_none() || !self.session.switch_version(version) {
            return false;
        }
        // What we sent in the first version is known to the server; what is lost of it goes out in the new one.
        debug_assert!(keys.has(SpaceId::Initial));
        keys.install_initial(initial);
        self.version = version;
        true
    }
}
