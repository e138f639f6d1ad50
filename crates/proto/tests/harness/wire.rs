//! An observer on the link that derives the Initial keys, as anybody can (RFC 9001 section 5.2).

use thalweg_proto::{
    Side,
    cid::ConnectionId,
    crypto::{Keys, initial},
    frame::FrameIter,
    packet::{Header, LongType, Partial, write_long_header},
    version::Version,
};

use super::Packet;

/// The length of the connection IDs that both ends of the harness issue.
pub const CID_LEN: usize = 8;

/// A packet in a datagram. `payload`: the frames, of Initial packets only.
#[derive(Clone, Debug)]
pub struct Seen {
    pub header: Header,
    pub number: Option<u64>,
    pub payload: Option<Vec<u8>>,
}

impl Seen {
    pub fn is_initial(&self) -> bool {
        matches!(self.header, Header::Initial { .. })
    }

    pub fn is_retry(&self) -> bool {
        matches!(self.header, Header::Retry { .. })
    }

    pub fn is_short(&self) -> bool {
        matches!(self.header, Header::Short { .. })
    }

    pub fn is_version_negotiation(&self) -> bool {
        matches!(self.header, Header::VersionNegotiation { .. })
    }

    pub fn is_zero_rtt(&self) -> bool {
        matches!(self.header, Header::ZeroRtt { .. })
    }

    pub fn is_ack_eliciting(&self) -> bool {
        let payload = self.payload.as_deref().expect("an Initial packet that opened");
        FrameIter::new(payload).any(|frame| frame.unwrap().is_ack_eliciting())
    }
}

/// The packets of a datagram, unopened.
pub fn parse(datagram: &[u8]) -> Vec<Partial> {
    let mut rest = datagram;
    let mut packets = Vec::new();
    while !rest.is_empty() {
        let Ok((partial, len)) = Partial::parse(rest, CID_LEN) else { break };
        packets.push(partial);
        rest = &rest[len..];
    }
    packets
}

/// Remembers the first destination IDs of all connections it sees begin.
#[derive(Default)]
pub struct Spy {
    /// As the client and as the server have them.
    keys: Vec<(ConnectionId, Keys, Keys)>,
}

impl Spy {
    pub fn look(&mut self, packet: &Packet) -> Vec<Seen> {
        let mut seen = Vec::new();
        let mut rest = &packet.bytes[..];
        for partial in parse(&packet.bytes) {
            let (this, tail) = rest.split_at(partial.len);
            rest = tail;
            let (number, payload) = self.open(packet.is_from_client(), &partial, this).unzip();
            seen.push(Seen { header: partial.header, number, payload });
        }
        seen
    }

    /// The Initial packet that a server's datagram begins with, authentic, but with a token in its header.
    pub fn with_token(&mut self, packet: &Packet, token: &[u8]) -> Option<Vec<u8>> {
        let seen = self.look(packet).into_iter().next()?;
        let Header::Initial { version, dcid, scid, .. } = &seen.header else { return None };
        let (number, payload) = seen.number.zip(seen.payload)?;
        let partial = &parse(&packet.bytes)[0];
        let (_, _, server) = self.keys.iter().find(|(_, client, _)| {
            let mut bytes = packet.bytes[..partial.len].to_vec();
            let open = partial.unprotect(&mut bytes, &*client.remote.header, None).unwrap();
            let (header, payload) = bytes.split_at_mut(open.payload.start);
            client.remote.packet.open(0, open.number, header, payload).is_ok()
        })?;
        let mut forged = Vec::new();
        let mark = write_long_header(&mut forged, LongType::Initial, *version, dcid, scid, token, number, 2);
        forged.extend_from_slice(&payload);
        mark.seal(&mut forged, 0, &*server.local.packet, &*server.local.header).unwrap();
        Some(forged)
    }

    fn open(&mut self, from_client: bool, partial: &Partial, bytes: &[u8]) -> Option<(u64, Vec<u8>)> {
        let Header::Initial { version, dcid, .. } = &partial.header else { return None };
        if from_client && !self.keys.iter().any(|(known, ..)| known == dcid) {
            let keys = |side| initial::keys(*version, dcid.as_slice(), side);
            self.keys.push((*dcid, keys(Side::Client), keys(Side::Server)));
        }
        self.keys.iter().find_map(|(_, client, server)| {
            let keys = if from_client { &server.remote } else { &client.remote };
            let mut bytes = bytes.to_vec();
            let open = partial.unprotect(&mut bytes, &*keys.header, None).ok()?;
            let (header, payload) = bytes.split_at_mut(open.payload.start);
            let len = keys.packet.open(0, open.number, header, payload).ok()?;
            Some((open.number, payload[..len].to_vec()))
        })
    }
}

/// Puts another version into a long header.
pub fn set_version(datagram: &mut [u8], version: Version) {
    datagram[1..5].copy_from_slice(&version.0.to_be_bytes());
}
