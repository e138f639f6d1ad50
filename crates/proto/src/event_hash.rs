//! Two hashes of the event log, by which "same seed, same run" can be tested.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use thalweg_recovery::DataSpace;
use thalweg_units::Instant;

use crate::frame::ty;
use crate::observe::{FrameInfo, ObservedConnection, Observer, ObserverEvent, ObserverFactory, PacketInfo};

/// Two numbers that two runs share only if every connection did the same things at the same times.
///
/// The *wire* hash covers what was sent and received: times, kinds of packets, numbers, sizes, ECN and frames. It stays
/// the same when the code that decides is rebuilt and decides alike. The *decisions* hash covers everything else that
/// is observed: states, parameters, keys, what recovery decided and its figures. Connection IDs, addresses, tokens,
/// keys and ciphertext stay out of both, so that real TLS and the null cipher agree. No name in the code goes in, so
/// renaming changes neither.
///
/// Clones share one state, and as a factory each connection gets the next ordinal, so the hashes cover how the
/// connections' events interleave: use them where one thread drives them all. Where several do, nothing is locked, and
/// events may be missing from the hashes and from their count.
#[derive(Clone, Debug)]
pub struct EventHash {
    shared: Arc<HashState>,
    ordinal: u64,
}

/// Written by one thread at a time, as the use of [`EventHash`] asks. A lock would only cost time: a tenth of a run of
/// the lab goes into these hashes.
#[derive(Debug)]
struct HashState {
    wire: Running,
    decisions: Running,
    connections: AtomicU64,
    events: AtomicU64,
}

impl HashState {
    fn count(counter: &AtomicU64) -> u64 {
        let count = counter.load(Ordering::Relaxed) + 1;
        counter.store(count, Ordering::Relaxed);
        count
    }
}

/// A hash under way.
#[derive(Debug)]
struct Running {
    low: AtomicU64,
    high: AtomicU64,
}

impl Running {
    fn new() -> Running {
        Running { low: AtomicU64::new(FNV_OFFSET as u64), high: AtomicU64::new((FNV_OFFSET >> 64) as u64) }
    }

    fn value(&self) -> u128 {
        u128::from(self.high.load(Ordering::Relaxed)) << 64 | u128::from(self.low.load(Ordering::Relaxed))
    }

    fn extend(&self, add: impl FnOnce(&mut Fnv)) {
        let mut hash = Fnv(self.value());
        add(&mut hash);
        self.low.store(hash.0 as u64, Ordering::Relaxed);
        self.high.store((hash.0 >> 64) as u64, Ordering::Relaxed);
    }
}

impl Default for EventHash {
    fn default() -> Self {
        EventHash {
            shared: Arc::new(HashState {
                wire: Running::new(),
                decisions: Running::new(),
                connections: AtomicU64::new(0),
                events: AtomicU64::new(0),
            }),
            ordinal: 0,
        }
    }
}

impl EventHash {
    /// An empty log.
    pub fn new() -> Self {
        Self::default()
    }

    /// The hash of what was sent and received so far.
    pub fn wire(&self) -> u128 {
        self.shared.wire.value()
    }

    /// The hash of everything else that was observed so far.
    pub fn decisions(&self) -> u128 {
        self.shared.decisions.value()
    }

    /// Adds a packet of a transport other than QUIC to the wire hash: whatever numbers describe it.
    pub fn packet(&self, now: Instant, numbers: &[u64]) {
        HashState::count(&self.shared.events);
        self.shared.wire.extend(|wire| {
            wire.words([now.as_nanos(), self.ordinal, numbers.len() as u64]);
            numbers.iter().for_each(|number| wire.word(*number));
        });
    }

    /// How many events went in.
    pub fn events(&self) -> u64 {
        self.shared.events.load(Ordering::Relaxed)
    }

    /// An observer that adds to this log under the next ordinal.
    pub fn observer(&self) -> EventHash {
        EventHash { shared: self.shared.clone(), ordinal: HashState::count(&self.shared.connections) }
    }
}

impl ObserverFactory for EventHash {
    fn build(&self, _: &ObservedConnection<'_>) -> Option<Box<dyn Observer>> {
        Some(Box::new(self.observer()))
    }
}

impl Observer for EventHash {
    fn on_event(&mut self, now: Instant, event: &ObserverEvent<'_>) {
        HashState::count(&self.shared.events);
        let origin = [now.as_nanos(), self.ordinal];
        let (tag, packet) = match event {
            ObserverEvent::PacketSent(packet) => (7, packet),
            ObserverEvent::PacketReceived(packet) => (8, packet),
            decision => {
                return self.shared.decisions.extend(|decisions| {
                    decisions.words(origin);
                    hash_decision(decisions, decision);
                });
            }
        };
        self.shared.wire.extend(|wire| {
            wire.words(origin);
            hash_packet(wire, tag, packet);
        });
    }
}

/// FNV-1a with 128 bits of state, fed 64-bit words instead of bytes (draft-eastlake-fnv; offset and prime from there).
#[derive(Debug)]
struct Fnv(u128);

const FNV_OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
/// Of the ranges of an ACK frame, the first few are hashed: their number is, too.
const HASHED_RANGES: usize = 3;
const FNV_PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

impl Fnv {
    fn word(&mut self, value: u64) {
        self.0 = (self.0 ^ u128::from(value)).wrapping_mul(FNV_PRIME);
    }

    fn words<const N: usize>(&mut self, values: [u64; N]) {
        values.into_iter().for_each(|value| self.word(value));
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        bytes.iter().for_each(|byte| self.word(u64::from(*byte)));
    }
}

fn hash_packet(hash: &mut Fnv, tag: u64, packet: &PacketInfo<'_>) {
    hash.words([
        tag,
        packet.kind as u64,
        packet.number.map_or(u64::MAX, |number| number),
        u64::from(packet.size),
        u64::from(packet.ecn.bits()),
        u64::from(packet.path.0),
        packet.frames.len() as u64,
    ]);
    if packet.space != DataSpace::FIRST {
        hash.words([ty::PATH_ACK, u64::from(packet.space.0)]);
    }
    packet.frames.iter().for_each(|frame| hash_frame(hash, frame));
}

fn hash_frame(hash: &mut Fnv, frame: &FrameInfo) {
    match *frame {
        FrameInfo::Padding { len } => hash.words([0x00, u64::from(len)]),
        FrameInfo::Ping => hash.word(0x01),
        FrameInfo::Ack { delay_us, range_count, ranges, ecn, timestamps, path } => {
            if let Some(path) = path {
                hash.words([ty::PATH_ACK, path]);
            }
            if timestamps > 0 {
                hash.words([ty::ACK_RECEIVE_TIMESTAMPS, u64::from(timestamps)]);
            }
            hash.words([0x02, delay_us, u64::from(range_count)]);
            ranges
                .iter()
                .take(HASHED_RANGES.min(range_count as usize))
                .for_each(|range| hash.words([range.0, range.1]));
            match ecn {
                Some(counts) => hash.words(counts),
                None => hash.word(u64::MAX),
            }
        }
        FrameInfo::ResetStream { id, code, final_size } => hash.words([0x04, id, code, final_size]),
        FrameInfo::StopSending { id, code } => hash.words([0x05, id, code]),
        FrameInfo::Crypto { offset, len } => hash.words([0x06, offset, u64::from(len)]),
        FrameInfo::NewToken { len } => hash.words([0x07, u64::from(len)]),
        FrameInfo::Stream { id, offset, len, fin } => hash.words([0x08 + u64::from(fin), id, offset, u64::from(len)]),
        FrameInfo::MaxData { max } => hash.words([0x10, max]),
        FrameInfo::MaxStreamData { id, max } => hash.words([0x11, id, max]),
        FrameInfo::MaxStreams { bidi, max } => hash.words([0x12 + u64::from(!bidi), max]),
        FrameInfo::DataBlocked { limit } => hash.words([0x14, limit]),
        FrameInfo::StreamDataBlocked { id, limit } => hash.words([0x15, id, limit]),
        FrameInfo::StreamsBlocked { bidi, limit } => hash.words([0x16 + u64::from(!bidi), limit]),
        FrameInfo::NewConnectionId { sequence, retire_prior_to } => hash.words([0x18, sequence, retire_prior_to]),
        FrameInfo::RetireConnectionId { sequence } => hash.words([0x19, sequence]),
        FrameInfo::PathChallenge => hash.word(0x1a),
        FrameInfo::PathResponse => hash.word(0x1b),
        FrameInfo::ConnectionClose { application, code } => hash.words([0x1c + u64::from(application), code]),
        FrameInfo::HandshakeDone => hash.word(0x1e),
        FrameInfo::Datagram { len } => hash.words([0x30, u64::from(len)]),
        FrameInfo::AckFrequency { sequence, threshold, max_ack_delay_us, reordering } => {
            hash.words([0xaf, sequence, threshold, max_ack_delay_us, reordering]);
        }
        FrameInfo::ImmediateAck => hash.word(0x1f),
        FrameInfo::PathAbandon { path, code } => hash.words([ty::PATH_ABANDON, path, code]),
        FrameInfo::PathStatus { path, sequence, backup } => {
            let ty = if backup { ty::PATH_STATUS_BACKUP } else { ty::PATH_STATUS_AVAILABLE };
            hash.words([ty, path, sequence]);
        }
        FrameInfo::PathNewConnectionId { path, sequence, retire_prior_to } => {
            hash.words([ty::PATH_NEW_CONNECTION_ID, path, sequence, retire_prior_to]);
        }
        FrameInfo::PathRetireConnectionId { path, sequence } => {
            hash.words([ty::PATH_RETIRE_CONNECTION_ID, path, sequence]);
        }
        FrameInfo::MaxPathId { max } => hash.words([ty::MAX_PATH_ID, max]),
        FrameInfo::PathsBlocked { max } => hash.words([ty::PATHS_BLOCKED, max]),
        FrameInfo::PathCidsBlocked { path, next_sequence } => hash.words([ty::PATH_CIDS_BLOCKED, path, next_sequence]),
    }
}

fn hash_decision(hash: &mut Fnv, event: &ObserverEvent<'_>) {
    match *event {
        // These are the wire's.
        ObserverEvent::PacketSent(_) | ObserverEvent::PacketReceived(_) => {}
        // Addresses and connection IDs stay out.
        ObserverEvent::ConnectionStarted { version, .. } => hash.words([1, u64::from(version)]),
        ObserverEvent::StateUpdated(state) => hash.words([2, state as u64]),
        ObserverEvent::ConnectionClosed { by, trigger, application, code, reason } => {
            hash.words([3, by as u64, trigger as u64, u64::from(application), code]);
            hash.bytes(reason.as_bytes());
        }
        ObserverEvent::VersionNegotiated { chosen, original } => {
            hash.words([4, u64::from(chosen), u64::from(original)]);
        }
        ObserverEvent::AlpnSet { alpn } => {
            hash.word(5);
            hash.bytes(alpn);
        }
        ObserverEvent::ParametersSet { owner, values, restored } => {
            hash.words([6, owner as u64, u64::from(restored)]);
            hash.words([
                values.max_idle_timeout_ms,
                values.max_udp_payload_size,
                values.initial_max_data,
                values.initial_max_stream_data_bidi_local,
                values.initial_max_stream_data_bidi_remote,
                values.initial_max_stream_data_uni,
                values.initial_max_streams_bidi,
                values.initial_max_streams_uni,
                values.ack_delay_exponent,
                values.max_ack_delay_ms,
                u64::from(values.disable_active_migration),
                values.active_connection_id_limit,
                values.max_datagram_frame_size.unwrap_or(u64::MAX),
                values.min_ack_delay_us.unwrap_or(u64::MAX),
            ]);
            // Connections without an extension keep the hash that they had before there was one.
            values.max_receive_timestamps_per_ack.into_iter().for_each(|most| hash.word(most));
            values.initial_max_path_id.into_iter().for_each(|max| hash.words([0x3e, max]));
        }
        ObserverEvent::PacketDropped { kind, number, size, reason } => hash.words([
            9,
            kind.map_or(u64::MAX, |kind| kind as u64),
            number.unwrap_or(u64::MAX),
            u64::from(size),
            reason as u64,
        ]),
        ObserverEvent::PacketBuffered { kind, size } => hash.words([10, kind as u64, u64::from(size)]),
        ObserverEvent::KeyUpdated { kind, owner, generation, trigger } => {
            hash.words([11, kind as u64, owner as u64, generation, trigger as u64]);
        }
        ObserverEvent::KeyDiscarded { kind } => hash.words([12, kind as u64]),
        ObserverEvent::MtuUpdated { path, old, new, done } => {
            hash.words([13, u64::from(path.0), u64::from(old), u64::from(new), u64::from(done)]);
        }
        ObserverEvent::PathUpdated { path, state, .. } => hash.words([14, u64::from(path.0), state as u64]),
        ObserverEvent::Recovery { path, event } => {
            hash.words([15, u64::from(path.0)]);
            event.numbers(|number| hash.word(number));
        }
        ObserverEvent::LimitedBy { path, limit } => hash.words([16, u64::from(path.0), limit as u64]),
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use thalweg_recovery::trace::Event;
    use thalweg_recovery::{Ecn, LossTrigger, PathId, SpaceId};

    use super::*;
    use crate::observe::{ConnectionState, PacketKind, Tee, kept_ranges};

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    fn sent(number: u64, frames: &[FrameInfo]) -> ObserverEvent<'_> {
        ObserverEvent::PacketSent(PacketInfo {
            kind: PacketKind::OneRtt,
            number: Some(number),
            size: 1200,
            ecn: Ecn::Ect0,
            path: PathId(0),
            space: thalweg_recovery::DataSpace::FIRST,
            frames,
        })
    }

    /// Both hashes, the wire's first.
    fn hash_of(events: &[(u64, ObserverEvent<'_>)]) -> (u128, u128) {
        let log = EventHash::new();
        let mut observer = log.observer();
        events.iter().for_each(|(ms, event)| observer.on_event(at(*ms), event));
        assert_eq!(log.events(), events.len() as u64);
        (log.wire(), log.decisions())
    }

    #[test]
    fn equal_logs_have_equal_hashes_and_each_difference_shows() {
        let stream = [FrameInfo::Stream { id: 0, offset: 0, len: 1000, fin: false }];
        let fin = [FrameInfo::Stream { id: 0, offset: 0, len: 1000, fin: true }];
        let base = hash_of(&[(1, sent(0, &stream)), (2, sent(1, &stream))]);
        assert_eq!(base, hash_of(&[(1, sent(0, &stream)), (2, sent(1, &stream))]));
        assert_ne!(base, hash_of(&[(1, sent(0, &stream)), (3, sent(1, &stream))]), "time");
        assert_ne!(base, hash_of(&[(1, sent(0, &stream)), (2, sent(2, &stream))]), "number");
        assert_ne!(base, hash_of(&[(1, sent(0, &stream)), (2, sent(1, &fin))]), "frame");
        assert_ne!(base, hash_of(&[(1, sent(0, &stream)), (2, sent(1, &[]))]), "frames");
    }

    #[test]
    fn the_hash_leaves_out_connection_ids_and_addresses() {
        let started = |cid: &'static [u8], port: u16| ObserverEvent::ConnectionStarted {
            local: None,
            remote: SocketAddr::from(([127, 0, 0, 1], port)),
            local_cid: cid,
            remote_cid: &[],
            version: 1,
        };
        assert_eq!(hash_of(&[(0, started(&[1, 2], 1))]), hash_of(&[(0, started(&[3, 4], 2))]));
    }

    #[test]
    fn the_hash_does_not_change_between_releases() {
        // A committed value: if this changes, so do all recorded wire hashes; say so in the changelog.
        let frames = [
            FrameInfo::Ack {
                delay_us: 25,
                range_count: 1,
                ranges: kept_ranges([(0, 3)]),
                ecn: None,
                timestamps: 0,
                path: None,
            },
            FrameInfo::Ping,
        ];
        assert_eq!(hash_of(&[(1, sent(7, &frames))]), (COMMITTED, FNV_OFFSET));
    }

    const COMMITTED: u128 = 138_223_877_603_665_956_200_638_549_506_535_021_062;

    #[test]
    fn the_wire_and_decisions_are_told_apart() {
        let lost = |number| Event::PacketLost {
            space: SpaceId::DATA,
            number,
            size: 1200,
            trigger: LossTrigger::PacketThreshold,
        };
        let run = |number, decided| {
            let event = lost(decided);
            hash_of(&[(1, sent(number, &[])), (2, ObserverEvent::Recovery { path: PathId(0), event: &event })])
        };
        let (wire, decisions) = run(1, 1);
        assert_eq!((wire, decisions), run(1, 1));
        let other = run(2, 1);
        assert!(other.0 != wire && other.1 == decisions, "another packet, the same decision");
        let other = run(1, 2);
        assert!(other.0 == wire && other.1 != decisions, "the same packet, another decision");
    }

    #[test]
    fn packets_of_another_transport_count_as_the_wire() {
        let hash = |numbers: &[u64]| {
            let log = EventHash::new();
            log.observer().packet(at(1), numbers);
            (log.wire(), log.decisions())
        };
        assert_eq!(hash(&[1, 2]), hash(&[1, 2]));
        assert_ne!(hash(&[1, 2]), hash(&[1, 3]));
        assert_ne!(hash(&[]), hash(&[0]));
        assert_eq!(hash(&[1]).1, FNV_OFFSET);
    }

    #[test]
    fn connections_are_told_apart_by_their_ordinal() {
        let log = |first: bool| {
            let log = EventHash::new();
            let mut observers = [log.observer(), log.observer()];
            observers[usize::from(first)].on_event(at(1), &ObserverEvent::StateUpdated(ConnectionState::Closed));
            log.decisions()
        };
        assert_ne!(log(false), log(true));
    }

    #[test]
    fn a_tee_tells_both() {
        let (a, b) = (EventHash::new(), EventHash::new());
        let mut tee = Tee(a.observer(), b.observer());
        tee.on_event(at(1), &sent(0, &[]));
        assert_eq!(a.wire(), b.wire());
        assert_eq!(a.events(), 1);
    }
}
