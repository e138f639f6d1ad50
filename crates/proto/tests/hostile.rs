//! Bad input: damaged, lost, repeated, late and invented datagrams, and authentic packets that break the rules.
#![allow(clippy::unwrap_used)]

use crate::harness;

use std::{
    cell::RefCell,
    net::{IpAddr, SocketAddr},
    rc::Rc,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use harness::{CLIENT, DATE, Fate, Link, Packet, SERVER, Setup, World, alloc, tap::Tap, watch};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use thalweg_proto::{
    Connection, ConnectionError, ConnectionHandle, DatagramMeta, Route, Side, TransportConfig, TransportErrorCode,
    cid::{ConnectionId, NewConnectionId, ResetToken},
    crypto::Level,
    frame::{self, AckFrequency, Frame},
    observe::{ObserverEvent, ObserverFactory, PacketKind},
    streams::{Dir, StreamId, StreamsConfig},
    varint,
};
use thalweg_recovery::Ecn;

const ZERO: Duration = Duration::ZERO;
const SECOND: Duration = Duration::from_secs(1);

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

// Every datagram of a connection's life, hurt in every way.

/// Handshake, a transfer each way, close; everything has to arrive and both ends have to forget the connection.
/// Returns how many datagrams the two ends sent.
fn live_and_die(what: &str, meddle: impl FnMut(Packet, &mut ChaCha8Rng) -> Fate + 'static) -> [u64; 2] {
    let link = Link { meddle: Box::new(meddle), ..Link::new(ms(10)) };
    let mut world = World::new(Setup { link, ..Setup::default() });
    let handle = world.connect();
    let confirmed = world.run_until(60 * SECOND, |world| {
        world.client.connections.get(&handle).is_some_and(Connection::is_confirmed)
            && world.server.connections.values().any(Connection::is_confirmed)
    });
    let failed = |world: &World| format!("{what}: {:?} {:?}", world.client_error(), world.server_error());
    assert!(confirmed, "{}", failed(&world));
    assert!(world.transfer(handle, true, 12_000, 60 * SECOND).is_some(), "{}", failed(&world));
    assert!(world.transfer(handle, false, 6_000, 60 * SECOND).is_some(), "{}", failed(&world));
    assert_eq!(world.server.endpoint.connections(), 1, "{what}: a second connection");
    let now = world.now;
    world.client_conn(handle).close(now, 5, Bytes::from_static(b"done"));
    world.pump();
    world.run_for(100 * SECOND);
    let left = (world.client.endpoint.connections(), world.server.endpoint.connections());
    assert_eq!(left, (0, 0), "{}", failed(&world));
    [world.server.sent, world.client.sent]
}

/// Applies `harm` to each datagram of a life in turn.
fn harm_each(name: &str, harm: impl Fn(Packet) -> Fate + Clone + 'static) {
    let counts = live_and_die("unharmed", |packet, _| vec![(ZERO, packet)]);
    for from_client in [true, false] {
        for ordinal in 0..counts[usize::from(from_client)] {
            let harm = harm.clone();
            let what = format!("{name}, datagram {ordinal} of the {}", if from_client { "client" } else { "server" });
            live_and_die(&what, move |packet, _| {
                if packet.is_from_client() == from_client && packet.ordinal == ordinal {
                    harm(packet)
                } else {
                    vec![(ZERO, packet)]
                }
            });
        }
    }
}

#[test]
fn any_datagram_may_be_lost() {
    harm_each("lost", |_| vec![]);
}

#[test]
fn any_datagram_may_arrive_twice_at_once_or_much_later() {
    for later in [0, 1, 25, 300, 5_000, 40_000] {
        harm_each(&format!("again after {later} ms"), move |packet| vec![(ZERO, packet.clone()), (ms(later), packet)]);
    }
}

#[test]
fn any_datagram_may_be_overtaken() {
    for later in [1, 11, 25, 60, 400, 3_000] {
        harm_each(&format!("{later} ms late"), move |packet| vec![(ms(later), packet)]);
    }
}

#[test]
fn any_datagram_may_be_truncated() {
    for keep in [0, 1, 5, 6, 9, 20, 30, 60, 150, 600] {
        harm_each(&format!("truncated to {keep}"), move |mut packet| {
            packet.bytes.truncate(keep);
            vec![(ZERO, packet)]
        });
    }
    for cut in [1, 15, 16, 17, 100] {
        harm_each(&format!("{cut} bytes cut off"), move |mut packet| {
            packet.bytes.truncate(packet.bytes.len().saturating_sub(cut));
            vec![(ZERO, packet)]
        });
    }
}

#[test]
fn any_datagram_may_be_corrupted() {
    for position in [0, 1, 2, 4, 5, 6, 10, 14, 15, 20, 23, 24, 25, 26, 27, 28, 40, 100, 200, 500, 1100] {
        for bit in [0, 3, 7] {
            harm_each(&format!("bit {bit} of byte {position} flipped"), move |mut packet| {
                let len = packet.bytes.len();
                packet.bytes[position % len] ^= 1 << bit;
                vec![(ZERO, packet)]
            });
        }
    }
}

#[test]
fn any_datagram_may_be_followed_by_a_corrupted_copy_or_by_noise() {
    harm_each("and a corrupted copy", |packet| {
        let mut copy = packet.clone();
        let last = copy.bytes.len() - 1;
        copy.bytes[last] ^= 0x40;
        vec![(ZERO, copy), (ZERO, packet)]
    });
    harm_each("with a tail of noise", |packet| {
        let mut copy = packet;
        copy.bytes.extend_from_slice(&[0xa5; 40]);
        vec![(ZERO, copy)]
    });
    harm_each("reflected to its sender", |packet| {
        let reflected = Packet { from: packet.to, to: packet.from, ..packet.clone() };
        vec![(ZERO, reflected), (ZERO, packet)]
    });
}

#[test]
fn everything_at_once_for_many_seeds() {
    for seed in 0..60 {
        let link = Link {
            meddle: Box::new(|mut packet, rng| {
                let len = packet.bytes.len();
                let chance = rng.next_u32() % 100;
                let at = rng.next_u32() as usize % len;
                match chance {
                    0..4 => vec![],
                    4..8 => vec![(ZERO, packet.clone()), (ms(30), packet)],
                    8..16 => vec![(ms(u64::from(rng.next_u32() % 80)), packet)],
                    16..20 => {
                        packet.bytes[at] ^= 1 << (chance % 8);
                        vec![(ZERO, packet)]
                    }
                    20..23 => {
                        packet.bytes.truncate(at);
                        vec![(ZERO, packet)]
                    }
                    _ => vec![(ZERO, packet)],
                }
            }),
            ..Link::new(ms(10))
        };
        let mut world = World::new(Setup { seed, link, ..Setup::default() });
        let handle = world.handshake();
        for download in [true, false] {
            let took = world.transfer(handle, download, 100_000, 100 * SECOND);
            assert!(took.is_some(), "seed {seed}: {:?} {:?}", world.client_error(), world.server_error());
        }
    }
}

// Noise.

fn noise(rng: &mut ChaCha8Rng, template: &[u8]) -> Vec<u8> {
    let len = rng.next_u32() as usize % 1500;
    let mut bytes = vec![0; len];
    rng.fill_bytes(&mut bytes);
    // Half of it begins like a real datagram, for a random stretch.
    if rng.next_u32().is_multiple_of(2) {
        let copied = (rng.next_u32() as usize % 64).min(len).min(template.len());
        bytes[..copied].copy_from_slice(&template[..copied]);
    }
    bytes
}

#[test]
fn noise_opens_no_connection_and_is_answered_with_less_than_it_took() {
    let mut world = World::new(Setup::default());
    let first = Rc::new(RefCell::new(Vec::new()));
    let seen = first.clone();
    world.link.meddle = Box::new(move |packet, _| {
        *seen.borrow_mut() = packet.bytes;
        vec![]
    });
    world.connect();
    let template = first.borrow().clone();
    let mut rng = ChaCha8Rng::from_seed([3; 32]);
    let mut reply = Vec::new();
    let mut replies = 0;
    for round in 0..30_000u64 {
        let bytes = noise(&mut rng, &template);
        let meta = DatagramMeta { remote: CLIENT, local_ip: Some(SERVER.ip()), ecn: Ecn::NotEct };
        // All within one second of virtual time.
        let now = world.now + Duration::from_micros(round * 30);
        match world.server.endpoint.handle(now, DATE, &meta, &bytes, &mut reply) {
            Route::Drop => {}
            Route::Reply(transmit) => {
                replies += 1;
                assert_eq!(transmit.size, reply.len());
                assert!(reply.len() < bytes.len(), "{} bytes for {}", reply.len(), bytes.len());
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(world.server.endpoint.connections(), 0);
    assert!(replies > 0);
    // Stateless resets are limited to 100 a second; Version Negotiation answers large datagrams only.
    assert!(replies < 6_000, "{replies} replies to 30,000 datagrams of noise");
}

#[test]
fn version_negotiation_is_limited_to_a_hundred_packets_a_second() {
    let mut world = World::new(Setup::default());
    let mut bytes = vec![0; 1200];
    // A version that nobody speaks (RFC 9000 section 15), and connection IDs of eight bytes.
    bytes[..5].copy_from_slice(&[0xc0, 0x1a, 0x2a, 0x3a, 0x4a]);
    (bytes[5], bytes[14]) = (8, 8);
    let mut reply = Vec::new();
    let mut replies = [0; 3];
    for (second, replies) in replies.iter_mut().enumerate() {
        for n in 0..10_000u64 {
            bytes[6..14].copy_from_slice(&n.to_be_bytes());
            let remote = SocketAddr::new(CLIENT.ip(), n as u16 | 1);
            let meta = DatagramMeta { remote, local_ip: Some(SERVER.ip()), ecn: Ecn::NotEct };
            let now = world.now + SECOND * second as u32 + Duration::from_micros(n * 99);
            match world.server.endpoint.handle(now, DATE, &meta, &bytes, &mut reply) {
                Route::Drop => {}
                Route::Reply(_) => *replies += 1,
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(replies, [100; 3]);
    // Clients that speak the version are not concerned.
    world.handshake();
}

#[test]
fn noise_does_not_disturb_an_established_connection() {
    let mut world = World::new(Setup::default());
    let handle = world.handshake();
    let templates = Rc::new(RefCell::new([Vec::new(), Vec::new()]));
    let seen = templates.clone();
    world.link.meddle = Box::new(move |packet, _| {
        seen.borrow_mut()[usize::from(packet.is_from_client())] = packet.bytes.clone();
        vec![(ZERO, packet)]
    });
    assert!(world.transfer(handle, true, 30_000, 10 * SECOND).is_some());
    world.run_for(SECOND);
    let before = alloc::live();
    let mut rng = ChaCha8Rng::from_seed([4; 32]);
    for _ in 0..5_000 {
        for to_client in [true, false] {
            let template = templates.borrow()[usize::from(!to_client)].clone();
            let (from, to) = if to_client { (SERVER, CLIENT) } else { (CLIENT, SERVER) };
            let bytes = noise(&mut rng, &template);
            world.deliver(Packet { from, to, ecn: Ecn::Ce, bytes, ordinal: 0 });
        }
        world.run_for(Duration::from_micros(20));
    }
    world.run_for(SECOND);
    assert!(alloc::live() - before < 20_000, "{} bytes stay after noise", alloc::live() - before);
    assert!(world.transfer(handle, true, 30_000, 10 * SECOND).is_some());
    assert_eq!((world.client.endpoint.connections(), world.server.endpoint.connections()), (1, 1));
    assert_eq!(world.server_conn().stats().ecn_received[2], 0, "marks of packets that do not open do not count");
}

// Authentic packets that break the rules.

/// Two ends whose packets can be falsified.
struct Liars {
    world: World,
    handle: ConnectionHandle,
    taps: [Tap; 2],
}

fn small_limits() -> TransportConfig {
    TransportConfig {
        streams: StreamsConfig {
            max_concurrent_bidi: 4,
            max_concurrent_uni: 4,
            stream_receive_window: 50_000,
            receive_window: 80_000,
            max_stream_receive_window: 50_000,
            max_receive_window: 80_000,
            ..StreamsConfig::default()
        },
        // Every extension, so that its frames are accepted.
        min_ack_delay: Some(ms(1)),
        receive_timestamps: 16,
        policies: "ack-rate=phased".parse().unwrap(),
        ..TransportConfig::default()
    }
}

impl Liars {
    fn new(config: TransportConfig) -> Liars {
        Liars::observed(config, None)
    }

    fn observed(config: TransportConfig, observer: Option<Arc<dyn ObserverFactory>>) -> Liars {
        let taps = [Tap::default(), Tap::default()];
        let [client, server] = taps.clone();
        let mut world = World::new(Setup {
            client: config.clone(),
            server: config,
            observer,
            tweak_client: Box::new(move |config| client.client(config)),
            tweak_server: Box::new(move |config| server.server(config)),
            ..Setup::default()
        });
        let handle = world.handshake();
        world.run_for(SECOND);
        Liars { world, handle, taps }
    }

    fn connection(&mut self, of: Side) -> &mut Connection {
        match of {
            Side::Client => self.world.client_conn(self.handle),
            Side::Server => self.world.server_conn(),
        }
    }

    /// One end sends a 1-RTT packet with this payload instead of a DATAGRAM frame of its own.
    fn say(&mut self, by: Side, payload: &[u8], bits: u8) {
        self.say_only(by, payload, bits);
        self.world.run_for(ms(100));
    }

    fn say_only(&mut self, by: Side, payload: &[u8], bits: u8) {
        assert!(payload.len() <= 1050);
        let tap = self.taps[by as usize].clone();
        let told = tap.told();
        tap.lie_raw(Level::OneRtt, payload.to_vec(), bits);
        self.connection(by).datagrams().send(Bytes::from_static(&[0; 1060]), 1400).unwrap();
        self.world.pump();
        let sent = self.world.run_until(SECOND, |_| tap.told() > told);
        assert!(sent, "the packet was sent");
    }

    fn error(&self, of: Side) -> Option<ConnectionError> {
        match of {
            Side::Client => self.world.client_error(),
            Side::Server => self.world.server_error(),
        }
    }
}

fn encoded(frames: &[Frame<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    frames.iter().for_each(|frame| frame.encode(&mut bytes));
    bytes
}

fn varints(values: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::new();
    values.iter().for_each(|value| varint::encode(*value, &mut bytes));
    bytes
}

fn ack(numbers: std::ops::Range<u64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame::encode_ack(&mut bytes, 100, 0, std::iter::once(numbers), None).unwrap();
    bytes
}

fn new_cid(sequence: u64, retire_prior_to: u64) -> NewConnectionId {
    let mut cid = [7; 8];
    cid[..8].copy_from_slice(&sequence.to_be_bytes());
    let mut token = [0; 16];
    token[..8].copy_from_slice(&sequence.to_be_bytes());
    NewConnectionId { sequence, retire_prior_to, cid: ConnectionId::new(&cid).unwrap(), reset_token: ResetToken(token) }
}

/// Both ends report that `by` broke a rule: the victim sends the code, the culprit receives it, both forget the
/// connection.
#[track_caller]
fn assert_refused(what: &str, liars: &mut Liars, by: Side, code: TransportErrorCode) {
    match liars.error(by.peer()) {
        Some(ConnectionError::Transport(error)) => assert_eq!(error.code, code, "{what}: {error}"),
        other => panic!("{what}: {other:?}"),
    }
    match liars.error(by) {
        Some(ConnectionError::PeerTransport { code: heard, .. }) => assert_eq!(heard, code, "{what}"),
        other => panic!("{what}: {other:?}"),
    }
    liars.world.run_for(30 * SECOND);
    let world = &liars.world;
    assert_eq!((world.client.endpoint.connections(), world.server.endpoint.connections()), (0, 0), "{what}");
}

fn stream(initiator: Side, dir: Dir, index: u64) -> StreamId {
    StreamId::new(initiator, dir, index)
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn every_broken_rule_closes_the_connection_with_its_code_at_both_ends() {
    use TransportErrorCode as Code;
    let data = |id, offset, fin, data| encoded(&[Frame::Stream { id, offset, fin, data }]);
    for by in [Side::Client, Side::Server] {
        let (us, them) = (by, by.peer());
        let our_uni = stream(us, Dir::Uni, 0);
        let mut cases: Vec<(&str, Vec<u8>, u8, Code)> = vec![
            ("ack of a packet never sent", ack(1000..1001), 0, Code::PROTOCOL_VIOLATION),
            ("ack of the next packet", ack(0..900), 0, Code::PROTOCOL_VIOLATION),
            ("ack below packet 0", varints(&[2, 3, 0, 0, 4]), 0, Code::FRAME_ENCODING_ERROR),
            ("ack with a gap below 0", varints(&[2, 3, 0, 1, 0, 7, 1]), 0, Code::FRAME_ENCODING_ERROR),
            ("reserved bits", vec![1], 0x08, Code::PROTOCOL_VIOLATION),
            ("both reserved bits", vec![1], 0x18, Code::PROTOCOL_VIOLATION),
            ("unknown frame", varints(&[0x21]), 0, Code::FRAME_ENCODING_ERROR),
            ("huge unknown frame", varints(&[varint::MAX]), 0, Code::FRAME_ENCODING_ERROR),
            ("frame type not in its shortest form", vec![0x40, 0x01], 0, Code::PROTOCOL_VIOLATION),
            ("stream beyond the limit", data(stream(us, Dir::Bi, 4), 0, false, b"x"), 0, Code::STREAM_LIMIT_ERROR),
            ("uni beyond the limit", data(stream(us, Dir::Uni, 1 << 58), 0, false, b"x"), 0, Code::STREAM_LIMIT_ERROR),
            (
                "a stream of theirs not opened",
                data(stream(them, Dir::Bi, 0), 0, false, b"x"),
                0,
                Code::STREAM_STATE_ERROR,
            ),
            ("their sending stream", data(stream(them, Dir::Uni, 0), 0, false, b"x"), 0, Code::STREAM_STATE_ERROR),
            ("beyond stream credit", data(stream(us, Dir::Bi, 0), 50_000, false, b"x"), 0, Code::FLOW_CONTROL_ERROR),
            (
                "far beyond credit",
                data(stream(us, Dir::Bi, 0), varint::MAX - 1, false, b"x"),
                0,
                Code::FLOW_CONTROL_ERROR,
            ),
            ("offset overflow", data(stream(us, Dir::Bi, 0), varint::MAX, false, b"x"), 0, Code::FRAME_ENCODING_ERROR),
            (
                "beyond connection credit",
                [data(stream(us, Dir::Bi, 0), 49_999, false, b"x"), data(stream(us, Dir::Bi, 1), 49_999, false, b"x")]
                    .concat(),
                0,
                Code::FLOW_CONTROL_ERROR,
            ),
            (
                "data past the end",
                [data(stream(us, Dir::Bi, 0), 0, true, b"abc"), data(stream(us, Dir::Bi, 0), 3, false, b"d")].concat(),
                0,
                Code::FINAL_SIZE_ERROR,
            ),
            (
                "another end",
                [data(stream(us, Dir::Bi, 0), 0, true, b"abc"), data(stream(us, Dir::Bi, 0), 0, true, b"ab")].concat(),
                0,
                Code::FINAL_SIZE_ERROR,
            ),
            (
                "reset with another size",
                [
                    data(stream(us, Dir::Bi, 0), 0, true, b"abc"),
                    encoded(&[Frame::ResetStream { id: stream(us, Dir::Bi, 0), error_code: 1, final_size: 9 }]),
                ]
                .concat(),
                0,
                Code::FINAL_SIZE_ERROR,
            ),
            (
                "reset beyond credit",
                encoded(&[Frame::ResetStream { id: stream(us, Dir::Bi, 0), error_code: 1, final_size: 1 << 40 }]),
                0,
                Code::FLOW_CONTROL_ERROR,
            ),
            (
                "reset of their sending stream",
                encoded(&[Frame::ResetStream { id: stream(them, Dir::Uni, 0), error_code: 1, final_size: 0 }]),
                0,
                Code::STREAM_STATE_ERROR,
            ),
            (
                "stop of what we send",
                encoded(&[Frame::StopSending { id: our_uni, error_code: 1 }]),
                0,
                Code::STREAM_STATE_ERROR,
            ),
            (
                "credit for what we send",
                encoded(&[Frame::MaxStreamData { id: our_uni, max: 9 }]),
                0,
                Code::STREAM_STATE_ERROR,
            ),
            (
                "credit for a stream of theirs not opened",
                encoded(&[Frame::MaxStreamData { id: stream(them, Dir::Bi, 2), max: 9 }]),
                0,
                Code::STREAM_STATE_ERROR,
            ),
            (
                "blocked on what they send",
                encoded(&[Frame::StreamDataBlocked { id: stream(them, Dir::Uni, 0), limit: 9 }]),
                0,
                Code::STREAM_STATE_ERROR,
            ),
            ("2^60 + 1 streams", varints(&[0x12, (1 << 60) + 1]), 0, Code::FRAME_ENCODING_ERROR),
            ("blocked at 2^60 + 1 streams", varints(&[0x16, (1 << 60) + 1]), 0, Code::FRAME_ENCODING_ERROR),
            (
                "more connection IDs than permitted",
                encoded(&(10..16).map(|n| Frame::NewConnectionId(new_cid(n, 0))).collect::<Vec<_>>()),
                0,
                Code::CONNECTION_ID_LIMIT_ERROR,
            ),
            (
                "another connection ID under a known number",
                encoded(&[Frame::NewConnectionId(new_cid(1, 0))]),
                0,
                Code::PROTOCOL_VIOLATION,
            ),
            (
                "retire_prior_to above the number",
                [vec![0x18, 5, 6, 8], vec![1; 24]].concat(),
                0,
                Code::FRAME_ENCODING_ERROR,
            ),
            ("empty connection ID", [vec![0x18, 10, 0, 0], vec![1; 24]].concat(), 0, Code::FRAME_ENCODING_ERROR),
            ("connection ID of 21 bytes", [vec![0x18, 10, 0, 21], vec![1; 60]].concat(), 0, Code::FRAME_ENCODING_ERROR),
            ("retiring an ID never issued", encoded(&[Frame::RetireConnectionId(77)]), 0, Code::PROTOCOL_VIOLATION),
            (
                "CRYPTO far ahead",
                encoded(&[Frame::Crypto { offset: 1 << 30, data: b"x" }]),
                0,
                Code::CRYPTO_BUFFER_EXCEEDED,
            ),
            ("a frame of an unknown type", varints(&[0x40af, 1, 2, 3000, 1]), 0, Code::FRAME_ENCODING_ERROR),
            ("truncated stream frame", [vec![1; 1040], vec![0x0f, 0, 0, 0x44]].concat(), 0, Code::FRAME_ENCODING_ERROR),
        ];
        if by == Side::Client {
            cases.push(("HANDSHAKE_DONE to a server", vec![0x1e], 0, Code::PROTOCOL_VIOLATION));
            // The server's own tickets stand at these offsets in the other direction.
            let nonsense = encoded(&[Frame::Crypto { offset: 0, data: &[99; 40] }]);
            cases.push(("TLS nonsense", nonsense, 0, Code::crypto(50)));
            cases.push(("NEW_TOKEN to a server", vec![0x07, 2, 1, 1], 0, Code::PROTOCOL_VIOLATION));
        } else {
            cases.push(("empty NEW_TOKEN", vec![0x07, 0], 0, Code::FRAME_ENCODING_ERROR));
        }
        for (what, payload, bits, code) in cases {
            let what = format!("{what}, by the {by:?}");
            let mut liars = Liars::new(small_limits());
            liars.say(by, &payload, bits);
            assert_refused(&what, &mut liars, by, code);
        }
    }
}

/// A peer that acknowledges what it has not received runs into a number that was never sent.
#[test]
fn rfc9000_21_4_an_acknowledgment_of_a_skipped_packet_number_closes_the_connection() {
    for victim in [Side::Client, Side::Server] {
        let numbers = Arc::new(Mutex::new(Vec::new()));
        let seen = numbers.clone();
        let observer = watch(move |side, _, event| {
            if let ObserverEvent::PacketSent(packet) = event
                && (side, packet.kind) == (victim, PacketKind::OneRtt)
            {
                seen.lock().unwrap().push(packet.number.unwrap());
            }
        });
        let mut liars = Liars::observed(TransportConfig::default(), Some(observer));
        let handle = liars.handle;
        assert!(liars.world.transfer(handle, victim == Side::Server, 400_000, 10 * SECOND).is_some());
        liars.world.run_for(SECOND);
        assert_eq!((liars.error(Side::Client), liars.error(Side::Server)), (None, None), "an honest peer is safe");
        let sent = numbers.lock().unwrap().clone();
        let largest = *sent.last().unwrap();
        let skipped = largest + 1 - sent.len() as u64;
        assert!((1..10).contains(&skipped), "{skipped} of {largest} numbers skipped by the {victim:?}");
        liars.say(victim.peer(), &ack(0..largest + 1), 0);
        assert_refused("ack of everything", &mut liars, victim.peer(), TransportErrorCode::PROTOCOL_VIOLATION);
    }
}

#[test]
fn harmless_oddities_are_tolerated() {
    let id = stream(Side::Client, Dir::Bi, 0);
    for by in [Side::Client, Side::Server] {
        let mut cases = vec![
            ("an answer to no challenge", encoded(&[Frame::PathResponse([1; 8])])),
            ("credit that shrinks", encoded(&[Frame::MaxData(1), Frame::MaxStreams { dir: Dir::Bi, max: 0 }])),
            (
                "blocked for no reason",
                encoded(&[Frame::DataBlocked(5), Frame::StreamsBlocked { dir: Dir::Uni, limit: 0 }]),
            ),
            ("many pings", vec![1; 1000]),
        ];
        if by == Side::Client {
            cases.push(("a stream in overlapping pieces", {
                encoded(&[
                    Frame::Stream { id, offset: 5, fin: true, data: b"fghij" },
                    Frame::Stream { id, offset: 0, fin: false, data: b"abcdefg" },
                    Frame::Stream { id, offset: 10, fin: true, data: b"" },
                ])
            }));
        } else {
            cases.push(("HANDSHAKE_DONE once more", vec![0x1e]));
        }
        for (what, payload) in cases {
            let mut liars = Liars::new(small_limits());
            liars.say(by, &payload, 0);
            assert_eq!((liars.error(Side::Client), liars.error(Side::Server)), (None, None), "{what}, by the {by:?}");
            // Whatever it was, new streams still work. The first may have been used by the lie.
            let handle = liars.handle;
            liars.world.client_conn(handle).streams().open(Dir::Bi).unwrap();
            assert!(liars.world.transfer(handle, true, 5_000, 10 * SECOND).is_some(), "{what}, by the {by:?}");
        }
    }
}

#[test]
fn frames_of_later_levels_are_refused_in_initial_and_handshake_packets() {
    let id = stream(Side::Client, Dir::Bi, 0);
    let forbidden = [
        encoded(&[Frame::Stream { id, offset: 0, fin: false, data: b"x" }]),
        encoded(&[Frame::HandshakeDone]),
        encoded(&[Frame::MaxData(1 << 20)]),
        encoded(&[Frame::PathChallenge([0; 8])]),
        encoded(&[Frame::Datagram(b"x")]),
        encoded(&[Frame::ApplicationClose { error_code: 0, reason: b"" }]),
        encoded(&[Frame::RetireConnectionId(0)]),
    ];
    for level in [Level::Initial, Level::Handshake] {
        for by in [Side::Client, Side::Server] {
            for payload in &forbidden {
                let tap = Tap::default();
                let of_one = tap.clone();
                let mut setup = Setup::default();
                match by {
                    Side::Client => setup.tweak_client = Box::new(move |config| of_one.client(config)),
                    Side::Server => setup.tweak_server = Box::new(move |config| of_one.server(config)),
                }
                let mut world = World::new(setup);
                tap.lie_raw(level, payload.clone(), 0);
                world.connect();
                world.run_for(10 * SECOND);
                assert_eq!(tap.told(), 1);
                let (victim, culprit) = match by {
                    Side::Client => (world.server_error(), world.client_error()),
                    Side::Server => (world.client_error(), world.server_error()),
                };
                let what = format!("{payload:?} in {level:?} by the {by:?}");
                match victim {
                    Some(ConnectionError::Transport(error)) => {
                        assert_eq!(error.code, TransportErrorCode::PROTOCOL_VIOLATION, "{what}: {error}");
                    }
                    other => panic!("{what}: {other:?}"),
                }
                match culprit {
                    Some(ConnectionError::PeerTransport { code, .. }) => {
                        assert_eq!(code, TransportErrorCode::PROTOCOL_VIOLATION, "{what}");
                    }
                    other => panic!("{what}: {other:?}"),
                }
                world.run_for(20 * SECOND);
                let left = (world.client.endpoint.connections(), world.server.endpoint.connections());
                assert_eq!(left, (0, 0), "{what}");
            }
        }
    }
}

#[test]
fn random_payloads_in_authentic_packets_end_in_an_error_or_in_nothing_but_never_in_a_panic() {
    for seed in 0..400u64 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut liars = Liars::new(small_limits());
        for round in 0..12 {
            let by = if rng.next_u32().is_multiple_of(2) { Side::Client } else { Side::Server };
            if liars.error(Side::Client).is_some() || liars.error(Side::Server).is_some() {
                break;
            }
            let mut payload = vec![0; rng.next_u32() as usize % 200];
            rng.fill_bytes(&mut payload);
            if round % 3 > 0 {
                // Small numbers look more like frames.
                payload.iter_mut().for_each(|byte| *byte %= 0x32);
            }
            if round % 3 == 2 {
                // Frames of extensions, with whatever comes behind them.
                let types = [0xaf, 0x0317_8307, 0x0317_8308];
                let ty = varints(&[types[rng.next_u32() as usize % types.len()]]);
                payload = [ty, payload].concat();
            }
            liars.say(by, &payload, 0);
        }
        liars.world.run_for(60 * SECOND);
        let world = &liars.world;
        assert_eq!((world.client.endpoint.connections(), world.server.endpoint.connections()), (0, 0), "seed {seed}");
    }
}

// Memory and effort.

#[test]
fn a_flood_of_requests_for_acknowledgments_leaves_nothing_behind_and_is_answered_once_per_packet() {
    let mut liars = Liars::new(small_limits());
    // Returns what 200 packets with such frames leave behind.
    let mut flood = |frames: &dyn Fn(u64) -> Vec<Frame<'static>>| {
        let (before, sent) = (alloc::live(), liars.world.server.sent);
        for round in 0..200 {
            liars.say(Side::Client, &encoded(&frames(round)), 0);
        }
        assert_eq!((liars.error(Side::Client), liars.error(Side::Server)), (None, None));
        let answers = liars.world.server.sent - sent;
        assert!(answers < 450, "{answers} datagrams for 200 packets");
        for host in [&mut liars.world.client, &mut liars.world.server] {
            // The test's own records.
            host.events = Vec::new();
        }
        alloc::live() - before
    };
    let request = |sequence: u64, n: u64| {
        let (threshold, reordering_threshold) = (n % 3, n % 5);
        Frame::AckFrequency(AckFrequency { sequence, threshold, max_ack_delay: 1_000 + n, reordering_threshold })
    };
    let floods = (0..4).map(|flood_number| {
        let sequence = |round: u64, n: u64| flood_number * 10_000 + round * 50 + n;
        flood(&|round| (0..50).flat_map(|n| [request(sequence(round, n), n), Frame::ImmediateAck]).collect())
    });
    // The lists of the test grow now and then, by doubling.
    let least = floods.min();
    assert!(least < Some(1_000), "{least:?} bytes stay");
}

#[test]
fn a_flood_of_path_challenges_is_answered_sparingly() {
    let mut liars = Liars::new(TransportConfig::default());
    let challenges: Vec<_> = (0..110u64).map(|n| Frame::PathChallenge(n.to_be_bytes())).collect();
    let payload = encoded(&challenges);
    let before = (alloc::live(), liars.world.server.sent_bytes, liars.world.server.received_bytes);
    for _ in 0..100 {
        liars.say_only(Side::Client, &payload, 0);
        liars.world.run_for(ms(5));
    }
    liars.world.run_for(SECOND);
    assert_eq!(liars.error(Side::Server), None);
    let sent = liars.world.server.sent_bytes - before.1;
    let received = liars.world.server.received_bytes - before.2;
    assert!(sent <= received * 3 / 2, "{sent} bytes for {received}");
    let grown = alloc::live() - before.0;
    assert!(grown < 400_000, "{grown} bytes held after 11,000 challenges");
}

#[test]
fn a_client_that_hops_through_thousands_of_addresses_costs_the_server_little() {
    let mut world = World::new(Setup::default());
    let handle = world.handshake();
    world.run_for(SECOND);
    for hop in 0..3_000u16 {
        let ip = IpAddr::from([10, 2, (hop >> 8) as u8, hop as u8]);
        world.client.address = SocketAddr::new(ip, 5000);
        if hop % 3 == 0 {
            let now = world.now;
            world.client_conn(handle).local_address_changed(now, Some(ip));
        }
        world.client_conn(handle).ping();
        world.pump();
        // Much less than a round trip: no answer ever finds it.
        world.run_for(ms(3));
    }
    let mut server = World::new(Setup::default()).server;
    std::mem::swap(&mut server, &mut world.server);
    let before = alloc::live();
    let connections = std::mem::take(&mut server.connections);
    drop(connections.into_values().collect::<Vec<_>>().pop());
    let held = before - alloc::live();
    assert!(held < 300_000, "the server holds {held} bytes for one client");
}

#[test]
fn a_client_that_has_hopped_too_fast_is_heard_again_when_it_rests() {
    let mut world = World::new(Setup::default());
    let handle = world.handshake();
    for port in 5_000..5_200 {
        world.client.address.set_port(port);
        world.client_conn(handle).ping();
        world.pump();
        world.run_for(ms(3));
    }
    assert!(world.transfer(handle, true, 100_000, 20 * SECOND).is_some());
    assert_eq!(world.server_conn().remote_address().port(), 5_199);
}

#[test]
fn a_flood_of_connection_ids_is_bounded_whether_acknowledged_or_not() {
    for hears_acks in [true, false] {
        let mut liars = Liars::new(TransportConfig::default());
        if !hears_acks {
            // The client receives nothing, so it never acknowledges a RETIRE_CONNECTION_ID.
            liars.world.link.meddle =
                Box::new(|packet, _| if packet.is_from_client() { vec![(ZERO, packet)] } else { vec![] });
        }
        let before = alloc::live();
        for round in 0..200 {
            if liars.error(Side::Server).is_some() || liars.error(Side::Client).is_some() {
                break;
            }
            let ids: Vec<_> =
                (0..20).map(|n| 10 + round * 20 + n).map(|n| Frame::NewConnectionId(new_cid(n, n))).collect();
            liars.say_only(Side::Client, &encoded(&ids), 0);
            liars.world.run_for(ms(2));
        }
        let grown = alloc::live() - before;
        assert!(grown < 400_000, "{grown} bytes held");
        if let Some(ConnectionError::Transport(error)) = liars.error(Side::Server) {
            assert_eq!(error.code, TransportErrorCode::CONNECTION_ID_LIMIT_ERROR);
        }
    }
}

#[test]
fn thousands_of_holes_hold_no_more_memory_than_the_window_they_lie_in() {
    let config = || TransportConfig {
        streams: StreamsConfig {
            stream_receive_window: 1 << 20,
            receive_window: 1 << 20,
            max_stream_receive_window: 1 << 20,
            max_receive_window: 1 << 20,
            ..StreamsConfig::default()
        },
        ..TransportConfig::default()
    };
    for stride in [2, 50, 3000] {
        let mut liars = Liars::new(config());
        let id = stream(Side::Client, Dir::Bi, 0);
        let before = alloc::live();
        let offsets: Vec<u64> = (0..20_000u64).map(|n| 1 + n * stride).filter(|offset| *offset < 1 << 20).collect();
        for chunk in offsets.chunks(100) {
            let frames: Vec<_> =
                chunk.iter().map(|&offset| Frame::Stream { id, offset, fin: false, data: b"x" }).collect();
            liars.say_only(Side::Client, &encoded(&frames), 0);
            liars.world.run_for(Duration::from_micros(500));
        }
        liars.world.run_for(SECOND);
        assert_eq!(liars.error(Side::Server), None);
        let grown = alloc::live() - before;
        assert!(grown < 3 << 20, "stride {stride}: {grown} bytes for a window of 1 MiB");
    }
}

#[test]
fn a_flood_of_streams_opened_and_reset_leaves_nothing_behind() {
    let mut liars = Liars::new(TransportConfig::default());
    let mut next = 0;
    let before = alloc::live();
    for _ in 0..60 {
        let frames: Vec<_> = (next..next + 100)
            .map(|index| Frame::ResetStream { id: stream(Side::Client, Dir::Uni, index), error_code: 3, final_size: 0 })
            .collect();
        next += 100;
        liars.say(Side::Client, &encoded(&frames), 0);
        // The application looks at each and lets it go.
        let server = liars.connection(Side::Server);
        while let Some(id) = server.streams().accept(Dir::Uni) {
            assert!(server.streams().read(id, 100).is_err());
        }
        liars.world.pump();
        liars.world.server.events.clear();
        liars.world.client.events.clear();
    }
    assert_eq!(liars.error(Side::Server), None);
    let grown = alloc::live() - before;
    assert!(grown < 100_000, "{grown} bytes held after {next} streams");
}

#[test]
fn a_flood_of_datagrams_nobody_reads_is_bounded() {
    let mut liars = Liars::new(TransportConfig::default());
    let before = alloc::live();
    let data = vec![7; 1000];
    for _ in 0..3_000 {
        liars.say_only(Side::Client, &encoded(&[Frame::Datagram(&data)]), 0);
        liars.world.run_for(ms(1));
        liars.world.server.events.clear();
    }
    let grown = alloc::live() - before;
    assert!(grown < 3 << 20, "{grown} bytes held for 3 MB of datagrams and a buffer of 1 MiB");
    assert_eq!(liars.error(Side::Server), None);
}
