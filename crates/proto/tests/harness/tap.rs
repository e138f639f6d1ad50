//! A peer that says what no honest one would: replaces the frames of packets just before they are sealed, so that they
//! arrive authentic.

use std::{
    collections::VecDeque,
    fmt,
    ops::Range,
    sync::{Arc, Mutex},
};

use rustls::pki_types::CertificateDer;
use thalweg_proto::{
    ClientConfig, ServerConfig, Side, TransportError,
    crypto::{
        ClientCrypto, CryptoError, DecryptError, DirectionKeys, ExportError, HeaderKey, KeyChange, Keys, Level,
        PacketKey, PacketKeys, ServerCrypto, Session, StartError, TAG_LEN,
    },
    frame::{self, Frame, FrameIter, Timestamp},
    version::Version,
};
use thalweg_recovery::EcnCounts;

/// A packet to be falsified: the next one of `level` with room for `frames` gets them instead of its own, and `bits`
/// are set in its first byte.
#[derive(Clone, Debug)]
struct Lie {
    level: Level,
    frames: Vec<u8>,
    bits: u8,
}

/// What an ACK says, to be falsified.
#[derive(Clone, Debug)]
pub struct Said {
    /// From the largest down, disjoint and not adjacent.
    pub ranges: Vec<Range<u64>>,
    pub raw_delay: u64,
    pub ecn: Option<EcnCounts>,
    /// Newest first; `None` in an ACK without any.
    pub times: Option<Vec<Timestamp>>,
}

/// Falsifies every acknowledgment of application data.
struct Falsify(Box<dyn FnMut(&mut Said) + Send>);

impl fmt::Debug for Falsify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Falsify")
    }
}

#[derive(Default, Debug)]
struct State {
    acks: Option<Falsify>,
    /// Requests for acknowledgments are ignored.
    is_deaf: bool,
    lies: VecDeque<Lie>,
    told: u64,
    /// Bits for the header that is protected next.
    bits: u8,
    /// Appended to our transport parameters.
    parameters: Vec<u8>,
    /// Instead of the AEAD's own: how many packets may be sealed with a key, how many may fail to open.
    limits: Option<(u64, u64)>,
    /// Every PATH_RESPONSE is followed by a PATH_CHALLENGE in the same packet.
    challenge_after_response: bool,
}

/// What one side's packets are replaced by; clones share it.
#[derive(Clone, Default, Debug)]
pub struct Tap(Arc<Mutex<State>>);

impl Tap {
    /// The next packet of `level` that is large enough carries exactly these frames, and padding.
    pub fn lie(&self, level: Level, frames: &[Frame<'_>]) {
        let mut bytes = Vec::new();
        frames.iter().for_each(|frame| frame.encode(&mut bytes));
        self.lie_raw(level, bytes, 0);
    }

    /// The same with any bytes, and with bits set in the first byte of the header.
    pub fn lie_raw(&self, level: Level, frames: Vec<u8>, bits: u8) {
        self.0.lock().unwrap().lies.push_back(Lie { level, frames, bits });
    }

    /// How many packets were falsified.
    pub fn told(&self) -> u64 {
        self.0.lock().unwrap().told
    }

    /// Appends to the transport parameters of sessions started from now on.
    pub fn add_parameters(&self, encoded: &[u8]) {
        self.0.lock().unwrap().parameters.extend_from_slice(encoded);
    }

    /// Pretends that the AEAD bears no more than so many packets sealed with a key, and so many that fail to open.
    pub fn limit(&self, confidentiality: u64, integrity: u64) {
        self.0.lock().unwrap().limits = Some((confidentiality, integrity));
    }

    /// From now on every packet with a PATH_RESPONSE carries that, a PATH_CHALLENGE behind it, and padding.
    pub fn challenge_after_response(&self) {
        self.0.lock().unwrap().challenge_after_response = true;
    }

    /// Falsifies every ACK of application data from now on. One that no longer fits into its packet is left out.
    pub fn falsify_acks(&self, by: impl FnMut(&mut Said) + Send + 'static) {
        self.0.lock().unwrap().acks = Some(Falsify(Box::new(by)));
    }

    /// ACK_FREQUENCY is ignored from now on, although its packet is acknowledged.
    pub fn ignore_ack_requests(&self) {
        self.0.lock().unwrap().is_deaf = true;
    }

    pub fn client(&self, config: &mut ClientConfig) {
        config.crypto = Arc::new(TapClient { inner: config.crypto.clone(), tap: self.clone() });
    }

    pub fn server(&self, config: &mut ServerConfig) {
        config.crypto = Arc::new(TapServer { inner: config.crypto.clone(), tap: self.clone() });
    }

    fn params(&self, params: &[u8]) -> Vec<u8> {
        [params, &self.0.lock().unwrap().parameters].concat()
    }

    fn keys(&self, level: Level, keys: Keys) -> Keys {
        Keys { local: self.direction(level, keys.local), remote: self.opening(keys.remote) }
    }

    /// Keys that only open: nothing is falsified, but limits hold.
    fn opening(&self, keys: DirectionKeys) -> DirectionKeys {
        DirectionKeys { packet: self.packet(Level::EarlyData, keys.packet), ..keys }
    }

    fn direction(&self, level: Level, keys: DirectionKeys) -> DirectionKeys {
        DirectionKeys {
            header: Box::new(TapHeader { inner: keys.header, tap: self.clone() }),
            packet: self.packet(level, keys.packet),
        }
    }

    fn packet(&self, level: Level, inner: Box<dyn PacketKey>) -> Box<dyn PacketKey> {
        Box::new(TapPacket { inner, level, tap: self.clone() })
    }
}

struct TapClient {
    inner: Arc<dyn ClientCrypto>,
    tap: Tap,
}

impl ClientCrypto for TapClient {
    fn start(&self, version: Version, server_name: &str, params: &[u8]) -> Result<Box<dyn Session>, StartError> {
        let inner = self.inner.start(version, server_name, &self.tap.params(params))?;
        Ok(Box::new(TapSession { inner, tap: self.tap.clone() }))
    }

    fn initial_keys(&self, version: Version, dcid: &[u8], side: Side) -> Keys {
        self.tap.keys(Level::Initial, self.inner.initial_keys(version, dcid, side))
    }
}

struct TapServer {
    inner: Arc<dyn ServerCrypto>,
    tap: Tap,
}

impl ServerCrypto for TapServer {
    fn start(&self, version: Version, params: &[u8]) -> Result<Box<dyn Session>, StartError> {
        let inner = self.inner.start(version, &self.tap.params(params))?;
        Ok(Box::new(TapSession { inner, tap: self.tap.clone() }))
    }

    fn initial_keys(&self, version: Version, dcid: &[u8], side: Side) -> Keys {
        self.tap.keys(Level::Initial, self.inner.initial_keys(version, dcid, side))
    }
}

struct TapSession {
    inner: Box<dyn Session>,
    tap: Tap,
}

impl Session for TapSession {
    fn read_handshake(&mut self, data: &[u8]) -> Result<(), TransportError> {
        self.inner.read_handshake(data)
    }

    fn switch_version(&mut self, version: Version) -> bool {
        self.inner.switch_version(version)
    }

    fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<KeyChange> {
        Some(match self.inner.write_handshake(out)? {
            KeyChange::Handshake(keys) => KeyChange::Handshake(self.tap.keys(Level::Handshake, keys)),
            KeyChange::OneRtt(keys) => KeyChange::OneRtt(self.tap.keys(Level::OneRtt, keys)),
        })
    }

    fn early_keys(&mut self) -> Option<DirectionKeys> {
        self.inner.early_keys().map(|keys| self.tap.direction(Level::EarlyData, keys))
    }

    fn early_data_accepted(&self) -> Option<bool> {
        self.inner.early_data_accepted()
    }

    fn transport_parameters(&self) -> Option<&[u8]> {
        self.inner.transport_parameters()
    }

    fn is_handshaking(&self) -> bool {
        self.inner.is_handshaking()
    }

    fn resumed(&self) -> bool {
        self.inner.resumed()
    }

    fn next_one_rtt(&mut self) -> Option<PacketKeys> {
        let keys = self.inner.next_one_rtt()?;
        let remote = self.tap.packet(Level::EarlyData, keys.remote);
        Some(PacketKeys { local: self.tap.packet(Level::OneRtt, keys.local), remote })
    }

    fn alpn(&self) -> Option<&[u8]> {
        self.inner.alpn()
    }

    fn server_name(&self) -> Option<&str> {
        self.inner.server_name()
    }

    fn peer_certificates(&self) -> Option<Vec<CertificateDer<'static>>> {
        self.inner.peer_certificates()
    }

    fn export(&self, out: &mut [u8], label: &[u8], context: &[u8]) -> Result<(), ExportError> {
        self.inner.export(out, label, context)
    }

    fn cipher_suite(&self) -> Option<&'static str> {
        self.inner.cipher_suite()
    }
}

struct TapPacket {
    inner: Box<dyn PacketKey>,
    level: Level,
    tap: Tap,
}

/// Puts padding in place of ACK_FREQUENCY.
fn silence_requests(payload: &mut [u8]) {
    let requests = FrameIter::new(payload).filter_map(|frame| match frame {
        Ok(Frame::AckFrequency(request)) => Some(Frame::AckFrequency(request)),
        _ => None,
    });
    let mut encoded = Vec::new();
    for request in requests {
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        encoded.push(bytes);
    }
    for bytes in encoded {
        if let Some(at) = payload.windows(bytes.len()).position(|window| window == bytes) {
            payload[at..at + bytes.len()].fill(0);
        }
    }
}

/// The payload with its ACKs falsified; `None` if there are none.
fn falsified(payload: &[u8], by: &mut Falsify) -> Option<Vec<u8>> {
    let mut found = false;
    let mut others = Vec::new();
    let mut acks = Vec::new();
    for frame in FrameIter::new(payload) {
        match frame.ok()? {
            Frame::Ack(ack) => {
                let times = ack.times.map(|_| ack.timestamps().collect());
                let ranges = ack.ranges().map(|range| *range.start()..range.end() + 1).collect();
                acks.push(Said { ranges, raw_delay: ack.raw_delay, ecn: ack.ecn, times });
                found = true;
            }
            Frame::Padding(_) => {}
            other => other.encode(&mut others),
        }
    }
    let mut out = Vec::new();
    for mut said in acks {
        by.0(&mut said);
        let room = payload.len().checked_sub(others.len() + out.len())?;
        let ranges = said.ranges.iter().cloned();
        match said.times {
            None => frame::encode_ack(&mut out, room, said.raw_delay, ranges, said.ecn),
            Some(times) => {
                let times = times.iter().copied();
                frame::encode_ack_with_times(&mut out, room, said.raw_delay, ranges, said.ecn, times, usize::MAX)
            }
        };
    }
    out.extend(others);
    found.then_some(out)
}

impl PacketKey for TapPacket {
    fn seal(&self, path: u32, number: u64, header: &[u8], payload: &mut [u8]) -> Result<(), CryptoError> {
        let mut state = self.tap.0.lock().unwrap();
        let room = payload.len() - TAG_LEN;
        let fits = |lie: &Lie| lie.level == self.level && lie.frames.len() <= room;
        if state.challenge_after_response && room >= 18 {
            let answer = FrameIter::new(&payload[..room]).find_map(|frame| match frame {
                Ok(Frame::PathResponse(data)) => Some(data),
                _ => None,
            });
            if let Some(data) = answer {
                let mut frames = Vec::new();
                Frame::PathResponse(data).encode(&mut frames);
                Frame::PathChallenge([7; 8]).encode(&mut frames);
                payload[..room].fill(0);
                payload[..frames.len()].copy_from_slice(&frames);
                state.told += 1;
            }
        }
        if self.level == Level::OneRtt
            && let Some(by) = &mut state.acks
            && let Some(frames) = falsified(&payload[..room], by).filter(|frames| frames.len() <= room)
        {
            payload[..room].fill(0);
            payload[..frames.len()].copy_from_slice(&frames);
            state.told += 1;
        }
        if !state.lies.front().is_some_and(fits) {
            drop(state);
            return self.inner.seal(path, number, header, payload);
        }
        let lie = state.lies.pop_front().unwrap();
        payload[..room].fill(0);
        payload[..lie.frames.len()].copy_from_slice(&lie.frames);
        let mut header = header.to_vec();
        header[0] |= lie.bits;
        state.bits = lie.bits;
        state.told += 1;
        self.inner.seal(path, number, &header, payload)
    }

    fn open(&self, path: u32, number: u64, header: &[u8], payload: &mut [u8]) -> Result<usize, DecryptError> {
        let len = self.inner.open(path, number, header, payload)?;
        if self.tap.0.lock().unwrap().is_deaf {
            silence_requests(&mut payload[..len]);
        }
        Ok(len)
    }

    fn confidentiality_limit(&self) -> u64 {
        self.tap.0.lock().unwrap().limits.map_or(self.inner.confidentiality_limit(), |limits| limits.0)
    }

    fn integrity_limit(&self) -> u64 {
        self.tap.0.lock().unwrap().limits.map_or(self.inner.integrity_limit(), |limits| limits.1)
    }
}

struct TapHeader {
    inner: Box<dyn HeaderKey>,
    tap: Tap,
}

impl HeaderKey for TapHeader {
    fn sample_len(&self) -> usize {
        self.inner.sample_len()
    }

    fn protect(&self, sample: &[u8], first: &mut u8, number: &mut [u8]) {
        *first |= std::mem::take(&mut self.tap.0.lock().unwrap().bits);
        self.inner.protect(sample, first, number);
    }

    fn unprotect(&self, sample: &[u8], first: &mut u8, number: &mut [u8]) {
        self.inner.unprotect(sample, first, number);
    }
}
