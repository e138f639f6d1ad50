//! The null cipher: a real handshake, but packets carry a checksum where their tag would be, and are not encrypted.
//!
//! For large sweeps in the lab, where encryption would only cost time. Every size is that of real TLS, so that every
//! decision is. What encryption would refuse, this refuses: a corrupted byte, a packet of another level, direction, key
//! generation, path or connection. It protects from nobody.

use std::sync::Arc;

use super::{
    ClientCrypto, CryptoError, DecryptError, DirectionKeys, ExportError, HeaderKey, KeyChange, Keys, PacketKey,
    PacketKeys, ServerCrypto, Session, StartError, TAG_LEN,
};
use crate::Side;
use crate::error::TransportError;
use crate::version::Version;
use ::rustls::pki_types::CertificateDer;

/// Starts client sessions whose packets are not encrypted.
pub struct NullClient {
    inner: Arc<dyn ClientCrypto>,
}

impl NullClient {
    /// Handshakes with `inner`, and drops its packet protection.
    pub fn new(inner: Arc<dyn ClientCrypto>) -> Self {
        Self { inner }
    }
}

impl ClientCrypto for NullClient {
    fn start(&self, version: Version, server_name: &str, params: &[u8]) -> Result<Box<dyn Session>, StartError> {
        Ok(Box::new(NullSession(self.inner.start(version, server_name, params)?)))
    }

    fn initial_keys(&self, version: Version, dcid: &[u8], side: Side) -> Keys {
        keys(self.inner.initial_keys(version, dcid, side))
    }
}

/// Starts server sessions whose packets are not encrypted.
pub struct NullServer {
    inner: Arc<dyn ServerCrypto>,
}

impl NullServer {
    /// Handshakes with `inner`, and drops its packet protection.
    pub fn new(inner: Arc<dyn ServerCrypto>) -> Self {
        Self { inner }
    }
}

impl ServerCrypto for NullServer {
    fn start(&self, version: Version, params: &[u8]) -> Result<Box<dyn Session>, StartError> {
        Ok(Box::new(NullSession(self.inner.start(version, params)?)))
    }

    fn initial_keys(&self, version: Version, dcid: &[u8], side: Side) -> Keys {
        keys(self.inner.initial_keys(version, dcid, side))
    }
}

struct NullSession(Box<dyn Session>);

impl Session for NullSession {
    fn read_handshake(&mut self, data: &[u8]) -> Result<(), TransportError> {
        self.0.read_handshake(data)
    }

    fn switch_version(&mut self, version: Version) -> bool {
        self.0.switch_version(version)
    }

    fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<KeyChange> {
        Some(match self.0.write_handshake(out)? {
            KeyChange::Handshake(inner) => KeyChange::Handshake(keys(inner)),
            KeyChange::OneRtt(inner) => KeyChange::OneRtt(keys(inner)),
        })
    }

    fn early_keys(&mut self) -> Option<DirectionKeys> {
        self.0.early_keys().map(direction)
    }

    fn early_data_accepted(&self) -> Option<bool> {
        self.0.early_data_accepted()
    }

    fn transport_parameters(&self) -> Option<&[u8]> {
        self.0.transport_parameters()
    }

    fn is_handshaking(&self) -> bool {
        self.0.is_handshaking()
    }

    fn resumed(&self) -> bool {
        self.0.resumed()
    }

    fn next_one_rtt(&mut self) -> Option<PacketKeys> {
        let PacketKeys { local, remote } = self.0.next_one_rtt()?;
        Some(PacketKeys { local: packet_key(local), remote: packet_key(remote) })
    }

    fn alpn(&self) -> Option<&[u8]> {
        self.0.alpn()
    }

    fn server_name(&self) -> Option<&str> {
        self.0.server_name()
    }

    fn peer_certificates(&self) -> Option<Vec<CertificateDer<'static>>> {
        self.0.peer_certificates()
    }

    fn export(&self, out: &mut [u8], label: &[u8], context: &[u8]) -> Result<(), ExportError> {
        self.0.export(out, label, context)
    }

    fn cipher_suite(&self) -> Option<&'static str> {
        self.0.cipher_suite()
    }
}

fn keys(inner: Keys) -> Keys {
    Keys { local: direction(inner.local), remote: direction(inner.remote) }
}

fn direction(inner: DirectionKeys) -> DirectionKeys {
    DirectionKeys {
        header: Box::new(NullHeaderKey { sample_len: inner.header.sample_len() }),
        packet: packet_key(inner.packet),
    }
}

fn packet_key(inner: Box<dyn PacketKey>) -> Box<dyn PacketKey> {
    // The real key's tag of nothing is a fingerprint that differs wherever real keys differ, and that both ends know.
    let mut fingerprint = [0; TAG_LEN];
    let sealed = inner.seal(0, 0, b"thalweg null cipher", &mut fingerprint);
    debug_assert!(sealed.is_ok(), "a tag of 16 bytes can always be made");
    let (low, high) = fingerprint.split_at(8);
    Box::new(NullPacketKey {
        key: [little_endian(low), little_endian(high)],
        confidentiality_limit: inner.confidentiality_limit(),
        integrity_limit: inner.integrity_limit(),
    })
}

/// Leaves headers as they are.
struct NullHeaderKey {
    sample_len: usize,
}

impl HeaderKey for NullHeaderKey {
    fn sample_len(&self) -> usize {
        self.sample_len
    }

    fn protect(&self, _sample: &[u8], _first: &mut u8, _number: &mut [u8]) {}

    fn unprotect(&self, _sample: &[u8], _first: &mut u8, _number: &mut [u8]) {}
}

/// A keyed checksum in place of the AEAD tag.
struct NullPacketKey {
    key: [u64; 2],
    confidentiality_limit: u64,
    integrity_limit: u64,
}

impl NullPacketKey {
    fn checksum(&self, path: u32, number: u64, header: &[u8], payload: &[u8]) -> [u8; TAG_LEN] {
        let lengths = (header.len() as u64) << 32 | payload.len() as u64;
        let mut state =
            [mix(self.key[0] ^ number, MULTIPLIER), mix(self.key[1] ^ u64::from(path), MULTIPLIER ^ lengths)];
        absorb(&mut state, header);
        absorb(&mut state, payload);
        let mut tag = [0; TAG_LEN];
        tag[..8].copy_from_slice(&mix(state[0] ^ self.key[1], MULTIPLIER).to_le_bytes());
        tag[8..].copy_from_slice(&mix(state[1] ^ self.key[0], MULTIPLIER ^ state[0]).to_le_bytes());
        tag
    }
}

impl PacketKey for NullPacketKey {
    fn seal(&self, path: u32, number: u64, header: &[u8], payload_and_tag: &mut [u8]) -> Result<(), CryptoError> {
        let plain_len = payload_and_tag.len().checked_sub(TAG_LEN).ok_or(CryptoError)?;
        let (payload, tag) = payload_and_tag.split_at_mut(plain_len);
        tag.copy_from_slice(&self.checksum(path, number, header, payload));
        Ok(())
    }

    fn open(&self, path: u32, number: u64, header: &[u8], payload: &mut [u8]) -> Result<usize, DecryptError> {
        let plain_len = payload.len().checked_sub(TAG_LEN).ok_or(DecryptError)?;
        let (payload, tag) = payload.split_at(plain_len);
        if tag == self.checksum(path, number, header, payload) { Ok(plain_len) } else { Err(DecryptError) }
    }

    fn confidentiality_limit(&self) -> u64 {
        self.confidentiality_limit
    }

    fn integrity_limit(&self) -> u64 {
        self.integrity_limit
    }
}

/// An odd 64-bit number without pattern: the golden ratio's fraction.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// The two halves of the 128-bit product, folded: one multiplication spreads every bit over the whole word.
#[inline]
fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[inline]
fn little_endian(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// Folds `data` into the two lanes, 16 bytes at a time; a short rest counts as if followed by zeros (lengths are part
/// of the key). Long data go through several pairs of lanes at once, as a multiplication has to wait only for the one
/// before it in its lane.
#[inline]
fn absorb(state: &mut [u64; 2], data: &[u8]) {
    let mut blocks = data.chunks_exact(16 * PAIRS);
    if blocks.len() > 0 {
        let mut pairs: [[u64; 2]; PAIRS] = core::array::from_fn(|pair| [state[0] ^ pair as u64, state[1]]);
        for block in &mut blocks {
            for (pair, chunk) in pairs.iter_mut().zip(block.chunks_exact(16)) {
                step(pair, chunk);
            }
        }
        for [low, high] in pairs {
            fold(state, low, high);
        }
    }
    let mut chunks = blocks.remainder().chunks_exact(16);
    for chunk in &mut chunks {
        step(state, chunk);
    }
    let rest = chunks.remainder();
    if !rest.is_empty() {
        step(state, rest);
    }
}

/// Pairs of lanes through which long data go.
const PAIRS: usize = 4;

/// Folds at most 16 bytes into two lanes.
#[inline]
fn step(state: &mut [u64; 2], bytes: &[u8]) {
    let (low, high) = bytes.split_at(bytes.len().min(8));
    fold(state, little_endian(low), little_endian(high));
}

#[inline]
fn fold(state: &mut [u64; 2], low: u64, high: u64) {
    state[0] = mix(state[0] ^ low, MULTIPLIER) ^ state[0].rotate_left(23);
    state[1] = mix(state[1] ^ high, MULTIPLIER) ^ state[1].rotate_left(29) ^ low;
}

#[cfg(test)]
mod tests {
    use super::super::deterministic::{DeterministicClient, DeterministicServer};
    use super::super::testing::{Pair, date, fits, handshake};
    use super::*;

    fn real() -> (Arc<DeterministicClient>, Arc<DeterministicServer>) {
        let client = DeterministicClient::new([1; 32], &[b"h3"], date()).unwrap();
        let server = DeterministicServer::new([1; 32], &[b"h3"], date()).unwrap();
        (Arc::new(client), Arc::new(server))
    }

    fn null() -> (NullClient, NullServer) {
        let (client, server) = real();
        (NullClient::new(client), NullServer::new(server))
    }

    fn pair() -> Pair {
        let (client, server) = null();
        handshake(&client, &server, Version::V1)
    }

    #[test]
    fn every_size_and_limit_is_that_of_real_tls() {
        let (client, server) = real();
        let real = handshake(&*client, &*server, Version::V1);
        let null = pair();
        assert_eq!(real.transcript.len(), null.transcript.len());
        let (real, null) = (real.client.one_rtt.unwrap(), null.client.one_rtt.unwrap());
        assert_eq!(real.local.packet.tag_len(), null.local.packet.tag_len());
        assert_eq!(real.local.header.sample_len(), null.local.header.sample_len());
        assert_eq!(real.local.packet.confidentiality_limit(), null.local.packet.confidentiality_limit());
        assert_eq!(real.local.packet.integrity_limit(), null.local.packet.integrity_limit());
    }

    #[test]
    fn headers_and_payloads_stay_readable() {
        let pair = pair();
        let (client, server) = (pair.client.one_rtt.unwrap(), pair.server.one_rtt.unwrap());
        let mut packet = [7; 50];
        client.local.packet.seal(0, 5, b"header", &mut packet).unwrap();
        assert_eq!(packet[..34], [7; 34]);
        assert_eq!(server.remote.packet.open(0, 5, b"header", &mut packet), Ok(34));
        let (mut first, mut number) = (0x43, [1, 2, 3, 4]);
        client.local.header.protect(&packet[..16], &mut first, &mut number);
        server.remote.header.unprotect(&packet[..16], &mut first, &mut number);
        assert_eq!((first, number), (0x43, [1, 2, 3, 4]));
    }

    #[test]
    fn a_corrupted_byte_anywhere_is_refused() {
        let pair = pair();
        let (client, server) = (pair.client.one_rtt.unwrap(), pair.server.one_rtt.unwrap());
        for len in [TAG_LEN, TAG_LEN + 1, 31, 32, 33, 47, 48, 79, 80, 100, 230] {
            let header = [9; 13];
            let mut sent = vec![0; len];
            client.local.packet.seal(0, 77, &header, &mut sent).unwrap();
            assert!(server.remote.packet.open(0, 77, &header, &mut sent.clone()).is_ok());
            for bit in 0..8 {
                for at in 0..len {
                    let mut packet = sent.clone();
                    packet[at] ^= 1 << bit;
                    assert_eq!(server.remote.packet.open(0, 77, &header, &mut packet), Err(DecryptError));
                }
                for at in 0..header.len() {
                    let mut other = header;
                    other[at] ^= 1 << bit;
                    assert_eq!(server.remote.packet.open(0, 77, &other, &mut sent.clone()), Err(DecryptError));
                }
            }
            // Truncated, extended, renumbered, on another path.
            assert!(server.remote.packet.open(0, 77, &header, &mut sent[..len - 1].to_vec()).is_err());
            assert!(server.remote.packet.open(0, 77, &header, &mut [&sent[..], &[0]].concat()).is_err());
            assert!(server.remote.packet.open(0, 78, &header, &mut sent.clone()).is_err());
            assert!(server.remote.packet.open(1, 77, &header, &mut sent.clone()).is_err());
        }
    }

    #[test]
    fn another_level_direction_generation_or_connection_is_refused() {
        let (client, server) = null();
        let mut one = handshake(&client, &server, Version::V1);
        let two = handshake(&client, &server, Version::V1);
        assert!(two.client.session.resumed());
        let dcid = b"12345678";
        let update = one.client.session.next_one_rtt().unwrap();
        let after = one.server.session.next_one_rtt().unwrap();
        assert!(fits(&*update.local, &*after.remote) && fits(&*after.local, &*update.remote));

        let initial = (
            client.initial_keys(Version::V1, dcid, Side::Client),
            server.initial_keys(Version::V1, dcid, Side::Server),
        );
        let early = (two.client.early.unwrap(), two.server.early.unwrap());
        let shake = (one.client.handshake.unwrap(), one.server.handshake.unwrap());
        let first = (one.client.one_rtt.unwrap(), one.server.one_rtt.unwrap());
        let second = (two.client.one_rtt.unwrap(), two.server.one_rtt.unwrap());
        let sealing = [
            &initial.0.local.packet,
            &early.0.packet,
            &shake.0.local.packet,
            &first.0.local.packet,
            &update.local,
            &second.0.local.packet,
            &initial.1.local.packet,
            &shake.1.local.packet,
            &first.1.local.packet,
            &after.local,
            &second.1.local.packet,
        ];
        let opening = [
            &initial.1.remote.packet,
            &early.1.packet,
            &shake.1.remote.packet,
            &first.1.remote.packet,
            &after.remote,
            &second.1.remote.packet,
            &initial.0.remote.packet,
            &shake.0.remote.packet,
            &first.0.remote.packet,
            &update.remote,
            &second.0.remote.packet,
        ];
        for (i, sealing) in sealing.iter().enumerate() {
            for (j, opening) in opening.iter().enumerate() {
                assert_eq!(fits(&***sealing, &***opening), i == j, "sealed as {i}, opened as {j}");
            }
        }
    }

    #[test]
    fn packets_too_short_for_a_tag_are_refused() {
        let keys = pair().client.one_rtt.unwrap();
        for len in 0..TAG_LEN {
            assert_eq!(keys.local.packet.seal(0, 0, b"", &mut vec![0; len]), Err(CryptoError));
            assert_eq!(keys.remote.packet.open(0, 0, b"", &mut vec![0; len]), Err(DecryptError));
        }
    }
}
