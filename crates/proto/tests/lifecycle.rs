//! The life of connections: closing, silence, crashes, key updates, datagrams, packet sizes, marks, priorities.
#![allow(clippy::unwrap_used)]

use crate::harness;

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use harness::{CLIENT, Fate, Link, Packet, Pump, SERVER, Setup, World, pattern, tap::Tap, wire};
use rand_chacha::ChaCha8Rng;
use rand_core::Rng;
use thalweg_proto::{
    Connection, ConnectionError, ConnectionHandle, Event, PathEvent, Side, TransportConfig, TransportErrorCode,
    datagrams::{DatagramsConfig, SendDatagramError},
    observe::ObserverEvent,
    streams::{Dir, ReadError, StreamId, StreamsConfig},
};
use thalweg_recovery::{Ecn, trace};
use thalweg_units::Instant;

const ZERO: Duration = Duration::ZERO;
const SECOND: Duration = Duration::from_secs(1);

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn passes(packet: Packet) -> Fate {
    vec![(ZERO, packet)]
}

fn link(meddle: impl FnMut(Packet, &mut ChaCha8Rng) -> Fate + 'static) -> Link {
    Link { meddle: Box::new(meddle), ..Link::new(ms(20)) }
}

/// 10 Mbps, 20 ms each way, a queue of 60 kB.
fn broadband() -> Link {
    Link { rate: 1_250_000, queue: 60_000, ..Link::new(ms(20)) }
}

fn both(config: TransportConfig) -> Setup {
    Setup { client: config.clone(), server: config, ..Setup::default() }
}

fn all_forgotten(world: &World) -> bool {
    let connections = world.client.connections.len() + world.server.connections.len();
    connections + world.client.endpoint.connections() + world.server.endpoint.connections() == 0
}

/// Opens a stream and has the server send `len` bytes on it; returns the stream and what the server does on it.
fn request(world: &mut World, handle: ConnectionHandle, len: u64) -> Pump {
    let stream = world.client_conn(handle).streams().open(Dir::Bi).expect("a stream");
    let mut pump = Pump::new(stream, true, len);
    pump.poke(world, handle);
    world.pump();
    pump
}

// Closing: RFC 9000 section 10.2.

#[test]
fn code_and_reason_of_a_close_arrive_whoever_closes() {
    for by in [Side::Client, Side::Server] {
        let mut world = World::new(Setup::default());
        let handle = world.handshake();
        let now = world.now;
        let connection = if by == Side::Client { world.client_conn(handle) } else { world.server_conn() };
        connection.close(now, 77, Bytes::from_static(b"enough"));
        assert!(connection.is_closed());
        world.pump();
        world.run_for(SECOND);
        let (local, peer) = match by {
            Side::Client => (world.client_error(), world.server_error()),
            Side::Server => (world.server_error(), world.client_error()),
        };
        assert_eq!(local, Some(ConnectionError::LocallyClosed));
        let reason = Bytes::from_static(b"enough");
        assert_eq!(peer, Some(ConnectionError::PeerApplication { code: 77, reason }));
        assert!(all_forgotten(&world), "three PTO are less than a second here");
    }
}

#[test]
fn a_long_reason_is_cut_not_lost() {
    let mut world = World::new(Setup::default());
    let handle = world.handshake();
    let now = world.now;
    world.client_conn(handle).close(now, 1, Bytes::from(vec![b'x'; 5000]));
    world.pump();
    world.run_for(SECOND);
    match world.server_error() {
        Some(ConnectionError::PeerApplication { code: 1, reason }) => {
            assert!(reason.len() >= 100 && reason.iter().all(|byte| *byte == b'x'));
        }
        other => panic!("{other:?}"),
    }
}

/// RFC 9000 section 10.2.3: the application's code must not travel in packets that anybody can read.
#[test]
fn a_close_during_the_handshake_arrives_as_application_error() {
    for (by, steps) in [(Side::Client, 1), (Side::Server, 1), (Side::Server, 2)] {
        let mut world = World::new(Setup::default());
        let handle = world.connect();
        for _ in 0..steps {
            world.step();
        }
        let now = world.now;
        let connection = if by == Side::Client { world.client_conn(handle) } else { world.server_conn() };
        if !connection.is_handshaking() {
            continue;
        }
        connection.close(now, 99, Bytes::from_static(b"secret"));
        world.pump();
        world.run_for(10 * SECOND);
        let peer = if by == Side::Client { world.server_error() } else { world.client_error() };
        match peer {
            Some(ConnectionError::PeerTransport { code, reason, .. }) => {
                assert_eq!((code, &reason[..]), (TransportErrorCode::APPLICATION_ERROR, &b""[..]));
            }
            other => panic!("{by:?} after {steps} steps: {other:?}"),
        }
        assert!(all_forgotten(&world));
    }
}

#[test]
fn a_client_that_closes_before_it_hears_anything_is_forgotten_by_both() {
    let mut world = World::new(Setup::default());
    let handle = world.connect();
    let now = world.now;
    world.client_conn(handle).close(now, 0, Bytes::new());
    world.pump();
    world.run_for(60 * SECOND);
    assert!(all_forgotten(&world));
}

#[test]
fn a_draining_end_says_nothing_and_a_closing_one_ever_less() {
    let closes = Rc::new(Cell::new([0u32; 2]));
    let counted = closes.clone();
    let counting = Rc::new(Cell::new(false));
    let is_counting = counting.clone();
    let mut world = World::new(Setup {
        link: link(move |packet, _| {
            if is_counting.get() {
                let mut counts = counted.get();
                counts[usize::from(packet.is_from_client())] += 1;
                counted.set(counts);
                // The server's close never arrives, so the client goes on sending.
                return if packet.is_from_client() { passes(packet) } else { vec![] };
            }
            passes(packet)
        }),
        ..Setup::default()
    });
    let handle = world.handshake();
    world.run_for(SECOND);
    counting.set(true);
    let now = world.now;
    world.server_conn().close(now, 5, Bytes::new());
    world.pump();
    for _ in 0..100 {
        world.client_conn(handle).ping();
        world.pump();
        world.run_for(ms(1));
    }
    let [server, client] = closes.get();
    assert!(client >= 80, "{client}");
    assert!((2..=9).contains(&server), "{server} answers to {client} packets");

    // A draining client: it receives the close, and then sends nothing although it has data.
    let mut world = World::new(Setup::default());
    let handle = world.handshake();
    world.run_for(SECOND);
    let now = world.now;
    world.server_conn().close(now, 5, Bytes::new());
    world.pump();
    world.run_until(SECOND, |world| world.client_error().is_some());
    let sent = world.client.sent;
    if world.client.connections.contains_key(&handle) {
        world.client_conn(handle).ping();
        world.pump();
    }
    world.run_for(SECOND);
    assert_eq!(world.client.sent, sent);
    assert!(all_forgotten(&world));
}

#[test]
fn a_close_that_is_lost_is_repeated_when_the_peer_goes_on() {
    for seed in 0..20 {
        let mut world = World::new(Setup { seed, ..Setup::default() });
        let handle = world.handshake();
        let _pump = request(&mut world, handle, 1_000_000);
        world.run_for(ms(100));
        world.link = Link::lossy(ms(20), 50);
        let now = world.now;
        world.client_conn(handle).close(now, 4, Bytes::new());
        world.pump();
        world.run_for(60 * SECOND);
        match world.server_error() {
            Some(ConnectionError::PeerApplication { code: 4, .. } | ConnectionError::TimedOut) => {}
            other => panic!("seed {seed}: {other:?}"),
        }
        assert!(all_forgotten(&world));
    }
}

/// Recovery's notes, N2: streams that the application has finished but that are still being delivered must not be cut.
#[test]
fn close_when_done_never_cuts_streams_that_are_finishing() {
    for seed in 0..30 {
        let window =
            StreamsConfig { stream_receive_window: 32_000, max_stream_receive_window: 32_000, ..Default::default() };
        let config = TransportConfig { streams: window, keep_alive: Some(ms(500)), ..TransportConfig::default() };
        let link = Link::lossy(ms(20), if seed == 0 { 0 } else { 30 });
        let mut world = World::new(Setup { seed, link, ..both(config) });
        let handle = world.handshake();
        let stream = world.client_conn(handle).streams().open(Dir::Bi).unwrap();
        world.client_conn(handle).streams().write(stream, b"get").unwrap();
        world.pump();
        // The server hands everything over as fast as it is taken, finishes and wants to close: more than the client's
        // credit is still to be delivered then.
        let len = 120_000u64;
        let data: Vec<u8> = (0..len).map(pattern).collect();
        let mut written = None;
        let mut read = 0u64;
        let done = world.run_until(100 * SECOND, |world| {
            let now = world.now;
            if world.has_server_conn() && written != Some(data.len()) {
                let server = world.server_conn();
                if server.streams().accept(Dir::Bi).is_some() {
                    written = Some(0);
                }
                if let Some(written) = &mut written {
                    *written += server.streams().write(stream, &data[*written..]).unwrap_or(0);
                    if *written == data.len() {
                        server.streams().finish(stream).unwrap();
                        server.close_when_done(now, 3, Bytes::from_static(b"bye"));
                    }
                }
            }
            let Some(client) = world.client.connections.get_mut(&handle) else { return false };
            loop {
                match client.streams().read(stream, 1 << 16) {
                    Ok(Some(bytes)) => {
                        bytes.iter().for_each(|byte| {
                            assert_eq!(*byte, pattern(read));
                            read += 1;
                        });
                    }
                    Ok(None) => return true,
                    Err(_) => break,
                }
            }
            world.pump();
            false
        });
        assert!(done, "seed {seed}: {read} of {len}: {:?} {:?}", world.client_error(), world.server_error());
        assert_eq!(read, len);
        world.run_for(60 * SECOND);
        let reason = Bytes::from_static(b"bye");
        let closed = ConnectionError::PeerApplication { code: 3, reason };
        // Where every close was lost, the client learns it from a stateless reset.
        let ends = [closed, ConnectionError::Reset, ConnectionError::TimedOut].map(Some);
        assert!(ends.contains(&world.client_error()), "seed {seed}: {:?}", world.client_error());
        assert!(all_forgotten(&world));
    }
}

#[test]
fn close_when_done_with_nothing_to_do_closes_at_once() {
    let mut world = World::new(Setup::default());
    let handle = world.handshake();
    let now = world.now;
    world.client_conn(handle).close_when_done(now, 8, Bytes::new());
    world.pump();
    world.run_for(SECOND);
    assert_eq!(world.server_error(), Some(ConnectionError::PeerApplication { code: 8, reason: Bytes::new() }));
}

// Silence: RFC 9000 section 10.1.

#[test]
fn the_idle_timeout_is_the_smaller_of_both() {
    let idle = |timeout: Option<u64>| TransportConfig {
        max_idle_timeout: timeout.map(Duration::from_secs),
        ..TransportConfig::default()
    };
    for (client, server, expected) in
        [(Some(5), Some(20), 5), (Some(20), Some(5), 5), (None, Some(7), 7), (Some(7), None, 7), (Some(9), Some(9), 9)]
    {
        let mut world = World::new(Setup { client: idle(client), server: idle(server), ..Setup::default() });
        world.handshake();
        world.run_for(SECOND);
        let quiet_since = world.now;
        world.run_until(60 * SECOND, |world| world.client_error().is_some() && world.server_error().is_some());
        let took = world.now.saturating_since(quiet_since);
        let expected = Duration::from_secs(expected);
        assert!(took <= expected && took + 2 * SECOND > expected, "{took:?} instead of {expected:?}");
        assert_eq!(world.client_error(), Some(ConnectionError::TimedOut));
        assert_eq!(world.server_error(), Some(ConnectionError::TimedOut));
        assert!(all_forgotten(&world));
    }
}

#[test]
fn without_idle_timeouts_silence_lasts_for_ever() {
    let config = TransportConfig { max_idle_timeout: None, ..TransportConfig::default() };
    let mut world = World::new(both(config));
    let handle = world.handshake();
    world.run_for(100_000 * SECOND);
    assert!(world.transfer(handle, true, 1000, 10 * SECOND).is_some());
}

#[test]
fn rfc9000_18_2_an_idle_timeout_of_zero_means_none() {
    let idle = |seconds: Option<u64>| TransportConfig {
        max_idle_timeout: seconds.map(Duration::from_secs),
        ..TransportConfig::default()
    };
    for (client, server, expected) in [
        (Some(0), Some(0), None),
        (Some(0), None, None),
        (None, Some(0), None),
        (Some(0), Some(7), Some(7)),
        (Some(7), Some(0), Some(7)),
    ] {
        let mut world = World::new(Setup { client: idle(client), server: idle(server), ..Setup::default() });
        let handle = world.handshake();
        world.run_for(6 * SECOND);
        assert_eq!(world.client_error(), None, "{client:?} {server:?}");
        world.run_for(1000 * SECOND);
        assert_eq!(world.client_error().is_some(), expected.is_some(), "{client:?} {server:?}");
        assert_eq!(world.server_error().is_some(), expected.is_some(), "{client:?} {server:?}");
        if expected.is_none() {
            assert!(world.transfer(handle, true, 1000, 10 * SECOND).is_some());
        }
    }
}

#[test]
fn keep_alive_at_either_end_holds_the_connection() {
    for by in [Side::Client, Side::Server] {
        let with = TransportConfig { keep_alive: Some(8 * SECOND), ..TransportConfig::default() };
        let mut setup = Setup::default();
        match by {
            Side::Client => setup.client = with,
            Side::Server => setup.server = with,
        }
        let mut world = World::new(setup);
        let handle = world.handshake();
        let sent = world.client.sent + world.server.sent;
        world.run_for(600 * SECOND);
        assert_eq!((world.client_error(), world.server_error()), (None, None));
        let sent = world.client.sent + world.server.sent - sent;
        assert!(sent < 250, "{sent} datagrams in ten minutes");
        assert!(world.transfer(handle, true, 1000, 10 * SECOND).is_some());
    }
}

/// A link that can be cut.
fn cable(inner: Link) -> (Link, Rc<Cell<bool>>) {
    let cut = Rc::new(Cell::new(false));
    let is_cut = cut.clone();
    let mut inner_meddle = inner.meddle;
    let meddle = move |packet: Packet, rng: &mut ChaCha8Rng| {
        if is_cut.get() { vec![] } else { inner_meddle(packet, rng) }
    };
    (Link { meddle: Box::new(meddle), ..Link { meddle: Box::new(|_, _| vec![]), ..inner } }, cut)
}

#[test]
fn a_cut_longer_than_the_idle_timeout_ends_both_and_leaves_nothing() {
    for seed in 0..10u64 {
        for download in [true, false] {
            let (link, cut) = cable(broadband());
            let mut world = World::new(Setup { seed, link, ..Setup::default() });
            let handle = world.handshake();
            let stream = world.client_conn(handle).streams().open(Dir::Bi).unwrap();
            let mut pump = Pump::new(stream, download, 5_000_000);
            assert!(!world.run_until(ms(300 + 100 * seed), |world| pump.poke(world, handle)));
            cut.set(true);
            let at = world.now;
            world.run_until(200 * SECOND, |world| all_forgotten(world));
            assert_eq!(world.client_error(), Some(ConnectionError::TimedOut));
            assert_eq!(world.server_error(), Some(ConnectionError::TimedOut));
            assert!(all_forgotten(&world));
            let took = world.now.saturating_since(at);
            assert!(took >= 29 * SECOND && took < 35 * SECOND, "{took:?}");
        }
    }
}

#[test]
fn a_cut_shorter_than_the_idle_timeout_is_reported_and_survived() {
    for download in [true, false] {
        // Probes double their distance: after more than half of the idle timeout of 30 s the next may come too late.
        for length in [1, 5, 14] {
            let (link, cut) = cable(broadband());
            let mut world = World::new(Setup { link, ..Setup::default() });
            let handle = world.handshake();
            let stream = world.client_conn(handle).streams().open(Dir::Bi).unwrap();
            let mut pump = Pump::new(stream, download, 2_000_000);
            assert!(!world.run_until(ms(700), |world| pump.poke(world, handle)));
            cut.set(true);
            assert!(!world.run_until(Duration::from_secs(length), |world| pump.poke(world, handle)));
            cut.set(false);
            let done = world.run_until(60 * SECOND, |world| pump.poke(world, handle));
            assert!(done, "{length} s: {:?} {:?}", world.client_error(), world.server_error());
            let sender = if download { &world.server } else { &world.client };
            let paths: Vec<_> = sender.events.iter().filter_map(|(_, e)| path_event(e)).collect();
            let suspended = paths.iter().position(|e| matches!(e, PathEvent::Suspended { .. }));
            let resumed = paths.iter().position(|e| matches!(e, PathEvent::Resumed { .. }));
            assert!(suspended.is_some() && resumed > suspended, "{paths:?}");
        }
    }
}

fn path_event(event: &Event) -> Option<PathEvent> {
    if let Event::Path(event) = event { Some(*event) } else { None }
}

#[test]
fn a_client_or_server_that_vanishes_in_the_middle_leaves_nothing_at_the_other_end() {
    for gone in [Side::Client, Side::Server] {
        let mut world = World::new(Setup { link: broadband(), ..Setup::default() });
        let handle = world.handshake();
        let mut pump = request(&mut world, handle, 5_000_000);
        assert!(!world.run_until(ms(500), |world| pump.poke(world, handle)));
        // A new endpoint that knows nothing, and a client's has no server to answer for it.
        match gone {
            Side::Client => {
                world.client.connections.clear();
                world.client.address.set_port(1);
            }
            Side::Server => {
                world.server.connections.clear();
                world.server.endpoint.set_server_config(None);
            }
        }
        world.run_for(60 * SECOND);
        match gone {
            Side::Client => {
                assert_eq!(world.server_error(), Some(ConnectionError::TimedOut));
                assert_eq!(world.server.endpoint.connections(), 0);
            }
            Side::Server => {
                assert_eq!(world.client_error(), Some(ConnectionError::TimedOut));
                assert_eq!(world.client.endpoint.connections(), 0);
            }
        }
    }
}

// Stateless reset: RFC 9000 section 10.3.

#[test]
fn a_server_that_lost_its_state_resets_the_connection() {
    for upload in [true, false] {
        let mut world = World::new(Setup::default());
        let handle = world.handshake();
        world.run_for(SECOND);
        world.restart_server();
        if upload {
            let stream = world.client_conn(handle).streams().open(Dir::Bi).unwrap();
            world.client_conn(handle).streams().write(stream, &[7; 3000]).unwrap();
        } else {
            world.client_conn(handle).ping();
        }
        world.pump();
        let heard = world.run_until(SECOND, |world| world.client_error().is_some());
        assert!(heard);
        assert_eq!(world.client_error(), Some(ConnectionError::Reset));
        world.run_for(10 * SECOND);
        assert!(all_forgotten(&world));
    }
}

#[test]
fn a_reset_is_recognised_after_the_server_gave_other_connection_ids() {
    let mut world = World::new(Setup::default());
    let handle = world.handshake();
    world.run_for(SECOND);
    let address = "10.0.9.9:99".parse().unwrap();
    world.client.address = address;
    let now = world.now;
    world.client_conn(handle).local_address_changed(now, Some(address.ip()));
    world.pump();
    world.run_for(SECOND);
    world.restart_server();
    world.client_conn(handle).ping();
    world.pump();
    world.run_for(SECOND);
    assert_eq!(world.client_error(), Some(ConnectionError::Reset));
}

#[test]
fn a_forged_reset_is_ignored() {
    let mut world = World::new(Setup::default());
    let handle = world.handshake();
    world.run_for(SECOND);
    let mut rng = <ChaCha8Rng as rand_core::SeedableRng>::seed_from_u64(1);
    let id = Rc::new(RefCell::new(Vec::new()));
    let seen = id.clone();
    world.link.meddle = Box::new(move |packet, _| {
        if !packet.is_from_client() {
            *seen.borrow_mut() = packet.bytes[1..9].to_vec();
        }
        passes(packet)
    });
    assert!(world.transfer(handle, true, 1000, SECOND).is_some());
    for _ in 0..1000 {
        let mut bytes = vec![0; 21 + rng.next_u32() as usize % 30];
        rng.fill_bytes(&mut bytes);
        bytes[0] = bytes[0] & 0x3f | 0x40;
        bytes[1..9].copy_from_slice(&id.borrow());
        world.deliver(Packet { from: SERVER, to: CLIENT, ecn: Ecn::NotEct, bytes, ordinal: 0 });
        world.pump();
    }
    assert_eq!(world.client_error(), None);
    assert!(world.transfer(handle, true, 1000, SECOND).is_some());
}

// Key update: RFC 9001 section 6.

#[test]
fn keys_are_updated_again_and_again_by_either_end_in_the_middle_of_transfers() {
    for (loss, by) in [(0, 1), (0, 2), (0, 3), (5, 1), (5, 2), (5, 3)] {
        for null in [false, true] {
            let mut link = broadband();
            link.meddle = Box::new(move |packet, rng| match rng.next_u32() % 100 {
                n if n < loss => vec![],
                n if n < 3 * loss => vec![(ms(u64::from(rng.next_u32() % 30)), packet)],
                _ => passes(packet),
            });
            let mut world = World::new(Setup { null, link, ..Setup::default() });
            let handle = world.handshake();
            let mut updates = 0;
            for download in [true, false] {
                let stream = world.client_conn(handle).streams().open(Dir::Bi).unwrap();
                let mut pump = Pump::new(stream, download, 1_500_000);
                let mut ticks = 0u64;
                let done = world.run_until(60 * SECOND, |world| {
                    let now = world.now;
                    ticks += 1;
                    if ticks.is_multiple_of(40) && by & 1 > 0 {
                        updates += u64::from(world.client_conn(handle).force_key_update(now));
                    }
                    if ticks.is_multiple_of(56) && by & 2 > 0 {
                        updates += u64::from(world.server_conn().force_key_update(now));
                    }
                    pump.poke(world, handle)
                });
                assert!(done, "loss {loss}, by {by}: {:?} {:?}", world.client_error(), world.server_error());
            }
            world.run_for(2 * SECOND);
            assert!(updates >= 4, "only {updates} updates");
            let (client, server) = (world.client_conn(handle).stats(), world.server_conn().stats());
            assert_eq!(client.key_updates, server.key_updates, "loss {loss}, by {by}");
            assert!(client.key_updates >= updates / 2 && client.key_updates <= updates);
        }
    }
}

#[test]
fn a_key_update_is_not_started_before_the_last_one_is_acknowledged() {
    let mut world = World::new(Setup::default());
    let handle = world.connect();
    let now = world.now;
    assert!(!world.client_conn(handle).force_key_update(now), "before the handshake");
    world.run_for(SECOND);
    let now = world.now;
    assert!(world.client_conn(handle).force_key_update(now));
    assert!(!world.client_conn(handle).force_key_update(now), "not acknowledged yet");
    world.pump();
    world.run_for(5 * SECOND);
    let now = world.now;
    assert!(world.client_conn(handle).force_key_update(now));
}

/// RFC 9001 section 6.6: keys are used for so many packets and no more.
#[test]
fn keys_near_their_confidentiality_limit_are_updated_unasked() {
    let tap = Tap::default();
    tap.limit(1500, 1 << 30);
    let of_server = tap.clone();
    let mut world = World::new(Setup {
        tweak_server: Box::new(move |config| of_server.server(config)),
        link: broadband(),
        ..Setup::default()
    });
    let handle = world.handshake();
    assert!(world.transfer(handle, true, 8_000_000, 60 * SECOND).is_some(), "{:?}", world.server_error());
    let updates = world.server_conn().stats().key_updates;
    assert!((3..=5).contains(&updates), "{updates} updates for 5,600 packets");
}

#[test]
fn keys_that_cannot_be_updated_in_time_end_the_connection() {
    let tap = Tap::default();
    let of_server = tap.clone();
    let mut world =
        World::new(Setup { tweak_server: Box::new(move |config| of_server.server(config)), ..Setup::default() });
    let handle = world.handshake();
    world.run_for(SECOND);
    // So few that no acknowledgement comes in time to permit another update.
    tap.limit(10, 1 << 30);
    assert_eq!(world.transfer(handle, true, 3_000_000, 60 * SECOND), None);
    match world.client_error() {
        Some(ConnectionError::PeerTransport { code, .. }) => assert_eq!(code, TransportErrorCode::AEAD_LIMIT_REACHED),
        other => panic!("{other:?}"),
    }
    assert!(all_forgotten(&world));
}

#[test]
fn too_many_packets_that_fail_to_open_end_the_connection() {
    let tap = Tap::default();
    let of_server = tap.clone();
    let damaged = Rc::new(Cell::new(false));
    let is_damaged = damaged.clone();
    let link = link(move |mut packet, _| {
        if is_damaged.get() && packet.is_from_client() && packet.ordinal % 2 == 0 {
            *packet.bytes.last_mut().unwrap() ^= 1;
        }
        passes(packet)
    });
    let mut world =
        World::new(Setup { link, tweak_server: Box::new(move |config| of_server.server(config)), ..Setup::default() });
    let handle = world.handshake();
    world.run_for(SECOND);
    tap.limit(1 << 30, 20);
    damaged.set(true);
    assert_eq!(world.transfer(handle, false, 3_000_000, 60 * SECOND), None);
    match world.server_error() {
        Some(ConnectionError::Transport(error)) => assert_eq!(error.code, TransportErrorCode::AEAD_LIMIT_REACHED),
        other => panic!("{other:?}"),
    }
}

// Datagrams: RFC 9221.

#[test]
fn datagrams_arrive_once_or_never_and_are_not_repeated() {
    for percent in [0, 20] {
        let mut world = World::new(Setup { link: Link::lossy(ms(20), percent), ..Setup::default() });
        let handle = world.handshake();
        let max = world.client_conn(handle).max_datagram_payload().unwrap();
        assert!(max >= 1100, "{max}");
        let mut received = Vec::new();
        for n in 0..300u32 {
            let size = 4 + (n as usize * 37) % (max - 4);
            let mut data = n.to_be_bytes().to_vec();
            data.resize(size, n as u8);
            world.client_conn(handle).datagrams().send(data.into(), max + 3).unwrap();
            world.pump();
            world.run_for(ms(5));
            while let Some(data) = world.server_conn().datagrams().recv() {
                let n = u32::from_be_bytes(data[..4].try_into().unwrap());
                assert_eq!(data.len(), 4 + (n as usize * 37) % (max - 4));
                received.push(n);
            }
        }
        world.run_for(10 * SECOND);
        while let Some(data) = world.server_conn().datagrams().recv() {
            received.push(u32::from_be_bytes(data[..4].try_into().unwrap()));
        }
        assert!(received.windows(2).all(|pair| pair[0] < pair[1]), "each at most once, in order on this link");
        let expected = if percent == 0 { 300..=300 } else { 200..=270 };
        assert!(expected.contains(&received.len()), "{} arrived", received.len());
        assert!(world.server.events.iter().any(|(_, event)| *event == Event::DatagramReceived));
    }
}

#[test]
fn datagrams_the_peer_does_not_take_are_refused() {
    let server = TransportConfig {
        datagrams: DatagramsConfig { max_frame_size: 0, ..DatagramsConfig::default() },
        ..TransportConfig::default()
    };
    let mut world = World::new(Setup { server, ..Setup::default() });
    let handle = world.handshake();
    assert_eq!(world.client_conn(handle).max_datagram_payload(), None);
    let refused = world.client_conn(handle).datagrams().send(Bytes::from_static(b"x"), 1200);
    assert_eq!(refused, Err(SendDatagramError::Unsupported));
    let max = world.server_conn().max_datagram_payload().unwrap();
    let refused = world.server_conn().datagrams().send(vec![0; max + 1].into(), max + 3);
    assert!(matches!(refused, Err(SendDatagramError::TooLarge { .. })), "{refused:?}");
}

// Packet sizes: RFC 8899, RFC 9000 section 14.

/// Drops what is larger; the size can be changed later.
fn narrow(inner: Link, size: usize) -> (Link, Rc<Cell<usize>>) {
    let limit = Rc::new(Cell::new(size));
    let shared = limit.clone();
    let meddle = move |packet: Packet, _: &mut ChaCha8Rng| {
        if packet.bytes.len() > shared.get() { vec![] } else { passes(packet) }
    };
    (Link { meddle: Box::new(meddle), ..inner }, limit)
}

#[test]
fn discovery_finds_what_the_path_carries_without_blaming_congestion() {
    for carries in [1200usize, 1232, 1280, 1350, 1372, 1400, 1432, 1452, 1472, 1500] {
        let (link, _) = narrow(Link { rate: 5_000_000, queue: 1 << 20, ..Link::new(ms(20)) }, carries);
        let config = TransportConfig { max_mtu: 1472, ..TransportConfig::default() };
        let mut world = World::new(Setup { link, ..both(config) });
        let handle = world.handshake();
        assert!(world.transfer(handle, true, 4_000_000, 20 * SECOND).is_some());
        assert!(world.transfer(handle, false, 4_000_000, 20 * SECOND).is_some());
        let stats = [world.client_conn(handle).stats(), world.server_conn().stats()];
        for stats in stats {
            let found = usize::from(stats.mtu);
            assert!(found <= carries && found + found / 20 >= carries.min(1472), "{found} of {carries}");
            assert_eq!((stats.path.packets_lost, stats.path.congestion_events), (0, 0), "{carries}");
        }
    }
}

#[test]
fn who_only_receives_sends_no_probe_of_the_path_mtu() {
    let sent = Rc::new(RefCell::new([0; 2]));
    let largest = sent.clone();
    let inner = Link::new(ms(20));
    let meddle = move |packet: Packet, _: &mut rand_chacha::ChaCha8Rng| {
        let largest = &mut largest.borrow_mut()[usize::from(packet.is_from_client())];
        *largest = packet.bytes.len().max(*largest);
        passes(packet)
    };
    let mut world = World::new(Setup { link: Link { meddle: Box::new(meddle), ..inner }, ..Setup::default() });
    let handle = world.handshake();
    assert!(world.transfer(handle, true, 1_000_000, 20 * SECOND).is_some());
    world.run_for(5 * SECOND);
    assert_eq!(*sent.borrow(), [1452, 1200], "by the server and the client");
    // Larger datagrams are of use to who would send them.
    assert!(world.client_conn(handle).datagrams().send(Bytes::from_static(&[0; 1_300]), 1_150).is_err());
    world.pump();
    world.run_for(SECOND);
    assert_eq!(world.client_conn(handle).path_mtu(), 1452);
}

#[test]
fn discovery_advances_although_the_window_is_always_full() {
    // Recovery's notes, N10: a sender that is always network-limited still has to find the size.
    let (link, _) = narrow(Link { rate: 250_000, queue: 20_000, ..Link::new(ms(20)) }, 1452);
    let mut world = World::new(Setup { link, ..Setup::default() });
    let handle = world.handshake();
    assert!(world.transfer(handle, true, 1_000_000, 60 * SECOND).is_some());
    assert_eq!(world.server_conn().path_mtu(), 1452);
}

#[test]
fn a_path_that_shrinks_in_mid_transfer_is_noticed_and_survived() {
    for download in [true, false] {
        for (carries, after) in [(1200, 300), (1300, 500), (1280, 1000), (1400, 1300)] {
            let (link, limit) = narrow(broadband(), 1500);
            let mut world = World::new(Setup { link, ..Setup::default() });
            let handle = world.handshake();
            let stream = world.client_conn(handle).streams().open(Dir::Bi).unwrap();
            let mut pump = Pump::new(stream, download, 3_000_000);
            assert!(!world.run_until(ms(after), |world| pump.poke(world, handle)));
            let sender = if download { world.server_conn() } else { world.client_conn(handle) };
            assert_eq!(sender.path_mtu(), 1452);
            limit.set(carries);
            let at = world.now;
            let done = world.run_until(60 * SECOND, |world| pump.poke(world, handle));
            assert!(done, "{:?} {:?}", world.client_error(), world.server_error());
            let took = world.now.saturating_since(at);
            assert!(took < 12 * SECOND, "{took:?} for a path of {carries} bytes, download {download}");
            let sender = if download { world.server_conn() } else { world.client_conn(handle) };
            assert!(usize::from(sender.path_mtu()) <= carries, "{}", sender.path_mtu());
        }
    }
}

#[test]
fn random_loss_is_not_taken_for_a_shrunken_path() {
    for seed in 0..10 {
        let mut world = World::new(Setup { seed, link: Link::lossy(ms(20), 10), ..Setup::default() });
        let handle = world.handshake();
        assert!(world.transfer(handle, true, 1_000_000, 100 * SECOND).is_some());
        assert!(world.server_conn().path_mtu() >= 1400, "seed {seed}: {}", world.server_conn().path_mtu());
    }
}

// ECN: RFC 9000 section 13.4, RFC 9002 section 7.

#[test]
fn marks_are_counted_and_reported() {
    let mut world = World::new(Setup::default());
    let handle = world.handshake();
    assert!(world.transfer(handle, true, 300_000, 10 * SECOND).is_some());
    let [ect0, ect1, ce] = world.client_conn(handle).stats().ecn_received;
    assert!(ect0 > 200 && ect1 == 0 && ce == 0, "{ect0} {ect1} {ce}");
}

/// Marks everything from the server with CE between two times.
fn marking(from: Instant, until: Instant, clock: Rc<Cell<Instant>>) -> Link {
    let mut link = broadband();
    link.queue = u64::MAX;
    link.meddle = Box::new(move |mut packet, _| {
        let now = clock.get();
        if !packet.is_from_client() && packet.ecn == Ecn::Ect0 && now >= from && now < until {
            packet.ecn = Ecn::Ce;
        }
        passes(packet)
    });
    link
}

#[test]
fn a_round_trip_full_of_marks_reduces_the_window_once() {
    let clock = Rc::new(Cell::new(Instant::ZERO));
    let from = Instant::ZERO + ms(1_400);
    // Shorter than a round trip of at least 40 ms.
    let link = marking(from, from + ms(30), clock.clone());
    let mut world = World::new(Setup { link, ..Setup::default() });
    let handle = world.handshake();
    let mut pump = request(&mut world, handle, 1_000_000);
    let done = world.run_until(60 * SECOND, |world| {
        clock.set(world.now);
        pump.poke(world, handle)
    });
    assert!(done);
    let stats = world.server_conn().stats();
    let marked = world.client_conn(handle).stats().ecn_received[2];
    assert!(marked > 5, "{marked} packets marked");
    assert_eq!(stats.path.ce_marks, marked);
    assert_eq!((stats.path.ecn_events, stats.path.packets_lost), (1, 0));
    assert_eq!(stats.path.congestion_events, 1);
}

#[test]
fn lasting_marks_reduce_the_window_once_per_round_trip() {
    let clock = Rc::new(Cell::new(Instant::ZERO));
    let from = Instant::ZERO + ms(1_300);
    let link = marking(from, from + SECOND, clock.clone());
    let mut world = World::new(Setup { link, ..Setup::default() });
    let handle = world.handshake();
    let mut pump = request(&mut world, handle, 1_500_000);
    assert!(world.run_until(60 * SECOND, |world| {
        clock.set(world.now);
        pump.poke(world, handle)
    }));
    let stats = world.server_conn().stats();
    // A second holds at most 25 round trips of 40 ms.
    assert!((3..=25).contains(&stats.path.ecn_events), "{}", stats.path.ecn_events);
    assert_eq!(stats.path.packets_lost, 0);
}

#[test]
fn a_path_that_erases_or_mangles_marks_is_used_without_them() {
    for mangled in [Ecn::NotEct, Ecn::Ect1, Ecn::Ce] {
        let mut link = broadband();
        link.meddle = Box::new(move |mut packet, _| {
            if packet.ecn != Ecn::NotEct {
                packet.ecn = mangled;
            }
            passes(packet)
        });
        let mut world = World::new(Setup { link, ..Setup::default() });
        let handle = world.handshake();
        let took = world.transfer(handle, true, 1_000_000, 60 * SECOND).expect("the transfer");
        // A path that calls everything congested gets what it asks for.
        assert!(took < if mangled == Ecn::Ce { 60 * SECOND } else { 5 * SECOND }, "{mangled:?}: {took:?}");
        if mangled != Ecn::Ce {
            let late = Rc::new(Cell::new(0));
            let counted = late.clone();
            world.link.meddle = Box::new(move |packet, _| {
                counted.set(counted.get() + u32::from(!packet.is_from_client() && packet.ecn != Ecn::NotEct));
                passes(packet)
            });
            world.transfer(handle, true, 100_000, 60 * SECOND).unwrap();
            assert_eq!(late.get(), 0, "{mangled:?}: still marking");
        }
    }
}

// Streams side by side.

#[test]
fn a_small_stream_is_not_stuck_behind_a_large_one() {
    for (priority, at_most) in [(0, ms(400)), (1, ms(250))] {
        let mut world = World::new(Setup { link: broadband(), ..Setup::default() });
        let handle = world.handshake();
        let mut large = request(&mut world, handle, 5_000_000);
        assert!(!world.run_until(2 * SECOND, |world| large.poke(world, handle)));
        let stream = world.client_conn(handle).streams().open(Dir::Bi).unwrap();
        let mut small = Pump::new(stream, true, 10_000);
        let started = world.now;
        let mut raised = false;
        let done = world.run_until(60 * SECOND, |world| {
            assert!(!large.poke(world, handle), "the large one is still busy");
            if !raised && priority > 0 {
                raised = world.server_conn().streams().set_priority(stream, priority).is_ok();
            }
            small.poke(world, handle)
        });
        assert!(done);
        let took = world.now.saturating_since(started);
        assert!(took < at_most, "priority {priority}: {took:?}");
        assert!(world.run_until(60 * SECOND, |world| large.poke(world, handle)));
    }
}

#[test]
fn many_streams_share_a_connection_and_all_arrive() {
    for seed in 0..5 {
        let mut world = World::new(Setup { seed, link: Link::lossy(ms(20), 3), ..Setup::default() });
        let handle = world.handshake();
        let mut pumps: Vec<Pump> = (0..100u64)
            .map(|n| {
                let stream = world.client_conn(handle).streams().open(Dir::Bi).unwrap();
                Pump::new(stream, n % 2 == 0, n * 301)
            })
            .collect();
        let done = world.run_until(100 * SECOND, |world| {
            pumps.retain_mut(|pump| !pump.poke(world, handle));
            pumps.is_empty()
        });
        assert!(done, "seed {seed}: {} left, {:?} {:?}", pumps.len(), world.client_error(), world.server_error());
    }
}

#[test]
fn streams_beyond_the_limit_wait_and_come_one_after_the_other() {
    let config = TransportConfig {
        streams: StreamsConfig { max_concurrent_bidi: 3, max_concurrent_uni: 2, ..StreamsConfig::default() },
        ..TransportConfig::default()
    };
    let mut world = World::new(both(config));
    let handle = world.handshake();
    for n in 0..20 {
        assert!(world.transfer(handle, n % 2 == 0, 2_000, 10 * SECOND).is_some(), "stream {n}");
        world.run_for(SECOND);
    }
    let open: Vec<StreamId> = std::iter::from_fn(|| world.client_conn(handle).streams().open(Dir::Bi)).collect();
    assert_eq!(open.len(), 3);
}

#[test]
fn a_reset_stream_and_a_stopped_one_do_not_disturb_the_others() {
    let mut world = World::new(Setup { link: Link::lossy(ms(20), 5), ..Setup::default() });
    let handle = world.handshake();
    let [a, b] = [0, 1].map(|_| world.client_conn(handle).streams().open(Dir::Bi).unwrap());
    for stream in [a, b] {
        world.client_conn(handle).streams().write(stream, &[5; 50_000]).unwrap();
    }
    world.pump();
    world.run_for(ms(50));
    world.client_conn(handle).streams().reset(a, 11).unwrap();
    world.pump();
    world.run_until(10 * SECOND, |world| {
        let server = world.server_conn();
        while server.streams().accept(Dir::Bi).is_some() {}
        server.streams().received_reset(a).is_some()
    });
    let server = world.server_conn();
    let mut outcome = server.streams().read(a, 1 << 20);
    while let Ok(Some(_)) = outcome {
        outcome = server.streams().read(a, 1 << 20);
    }
    assert_eq!(outcome, Err(ReadError::Reset(11)));
    server.streams().stop(b, 12).unwrap();
    world.pump();
    world.run_for(5 * SECOND);
    assert_eq!(world.client_conn(handle).streams().unfinished_sends(), 0);
    assert!(world.transfer(handle, true, 100_000, 10 * SECOND).is_some());
}

// Acknowledgements.

/// Recovery's notes, N17: what only acknowledges is never held back by a full window.
#[test]
fn acknowledgements_leave_although_the_window_is_full() {
    let (link, cut) = cable(Link::new(ms(20)));
    let acks_lost = Rc::new(Cell::new(false));
    let lost = acks_lost.clone();
    let mut inner = link.meddle;
    let link = Link {
        meddle: Box::new(move |packet, rng| {
            // Everything towards the client vanishes, so that its window stays full; what it sends arrives.
            if lost.get() && !packet.is_from_client() && packet.bytes.len() < 60 { vec![] } else { inner(packet, rng) }
        }),
        ..Link::new(ms(20))
    };
    let _ = cut;
    let mut world = World::new(Setup { link, ..Setup::default() });
    let handle = world.handshake();
    world.run_for(SECOND);
    // The client uploads into a window that nobody empties: the server's small datagrams, its ACKs, are lost.
    acks_lost.set(true);
    let stream = world.client_conn(handle).streams().open(Dir::Bi).unwrap();
    world.client_conn(handle).streams().write(stream, &[1; 200_000]).unwrap();
    world.pump();
    world.run_for(ms(60));
    let stats = world.client_conn(handle).stats();
    assert!(stats.bytes_in_flight + 1500 > stats.window, "{stats:?}");
    // Data from the server in large datagrams, no more than its first window holds, still get their ACKs in time.
    let uni = world.server_conn().streams().open(Dir::Uni).unwrap();
    world.server_conn().streams().write(uni, &[2; 9_000]).unwrap();
    world.pump();
    world.run_for(ms(20 + 25 + 20 + 5));
    assert_eq!(world.server_conn().streams().bytes_unacked(), 0);
}

#[test]
fn an_upload_brings_about_one_acknowledgement_for_every_second_packet_or_fewer() {
    let mut world = World::new(Setup { link: broadband(), ..Setup::default() });
    let handle = world.handshake();
    let (client, server) = (world.client.sent, world.server.sent);
    assert!(world.transfer(handle, false, 3_000_000, 60 * SECOND).is_some());
    let (data, acks) = (world.client.sent - client, world.server.sent - server);
    assert!(acks * 3 < data, "{acks} acknowledgements for {data} packets");
}

#[test]
fn batches_of_any_size_carry_the_same_data() {
    for segments in [1, 2, 7, 64] {
        let mut world = World::new(Setup { link: broadband(), ..Setup::default() });
        world.server.max_segments = segments;
        world.client.max_segments = segments;
        let handle = world.handshake();
        for download in [true, false] {
            let took = world.transfer(handle, download, 1_000_000, 20 * SECOND).expect("the transfer");
            assert!(took < 2 * SECOND, "{segments} segments: {took:?}");
        }
    }
}

// What is seen from outside.

#[test]
fn every_loss_is_told_to_the_observer_and_counted() {
    let losses = Arc::new(Mutex::new(0));
    let counted = losses.clone();
    let observer = harness::watch(move |side, _, event| {
        let lost = matches!(event, ObserverEvent::Recovery { event: trace::Event::PacketLost { .. }, .. });
        *counted.lock().unwrap() += u64::from(lost && side == Side::Server);
    });
    let mut world = World::new(Setup { link: Link::lossy(ms(20), 5), observer: Some(observer), ..Setup::default() });
    let handle = world.handshake();
    assert!(world.transfer(handle, true, 500_000, 60 * SECOND).is_some());
    let path = world.server_conn().stats().path;
    assert!(path.packets_lost > 5);
    let losses = *losses.lock().unwrap();
    assert!(losses >= path.packets_lost && losses <= path.packets_lost + path.mtu_probes_lost + 20);
}

#[test]
fn after_the_handshake_only_short_headers_are_seen() {
    let confirmed = Rc::new(Cell::new(false));
    let is_confirmed = confirmed.clone();
    let mut world = World::new(Setup {
        link: link(move |packet, _| {
            if is_confirmed.get() {
                assert!(wire::parse(&packet.bytes).iter().all(|part| part.header.version().is_none()));
            }
            passes(packet)
        }),
        ..Setup::default()
    });
    let handle = world.handshake();
    confirmed.set(true);
    assert!(world.client_conn(handle).is_confirmed() && !world.client_conn(handle).is_handshaking());
    assert!(world.transfer(handle, true, 50_000, 10 * SECOND).is_some());
    assert!(world.server.connections.values().all(Connection::is_confirmed));
}
