//! A peer that makes a nuisance of itself with several paths: the error that the draft names, or nothing, and memory
//! within bounds (draft-ietf-quic-multipath-21).
#![allow(clippy::unwrap_used)]

use crate::{
    handshake::{connect_early, returning},
    harness,
    multipath::{LIMIT, SECOND, opened, setup, two},
};

use std::{
    cell::RefCell,
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    rc::Rc,
    time::Duration,
};

use bytes::Bytes;
use harness::{Link, Packet, Setup, World, alloc, tap::Tap};
use thalweg_proto::{
    ConnectionError, ConnectionHandle, TransportConfig, TransportErrorCode,
    cid::{ConnectionId, NewConnectionId, ResetToken},
    crypto::Level,
    frame::{Frame, PathFrame, encode_path_ack},
};
use thalweg_recovery::DataSpace;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A setup with a client whose packets can be replaced.
fn tapped() -> (Setup, Tap) {
    let tap = Tap::default();
    let of_client = tap.clone();
    (Setup { tweak_client: Box::new(move |config| of_client.client(config)), ..setup() }, tap)
}

/// The client sends a packet with these bytes in place of a DATAGRAM frame of its own.
fn say(world: &mut World, handle: ConnectionHandle, tap: &Tap, frames: &[u8]) {
    assert!(frames.len() <= 1050);
    let told = tap.told();
    tap.lie_raw(Level::OneRtt, frames.to_vec(), 0);
    world.client_conn(handle).datagrams().send(Bytes::from_static(&[0; 1060]), 1400).unwrap();
    world.pump();
    assert!(world.run_until(LIMIT, |_| tap.told() > told), "the packet was sent");
}

fn encoded(frames: &[PathFrame]) -> Vec<u8> {
    let mut bytes = Vec::new();
    frames.iter().for_each(|frame| Frame::Path(*frame).encode(&mut bytes));
    bytes
}

fn path_ack(path: u32, number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_path_ack(path, &mut bytes, 100, 0, std::iter::once(number..number + 1), None).unwrap();
    bytes
}

fn code(error: Option<ConnectionError>) -> TransportErrorCode {
    match error {
        Some(ConnectionError::Transport(error)) => error.code,
        other => panic!("{other:?}"),
    }
}

fn new_id(path: u64, sequence: u64) -> PathFrame {
    let byte = 64 + sequence as u8;
    let (cid, reset_token) = (ConnectionId::new(&[byte; 8]).unwrap(), ResetToken([byte; 16]));
    PathFrame::NewConnectionId { path, new: NewConnectionId { sequence, retire_prior_to: 0, cid, reset_token } }
}

/// One of each frame about a path but PATH_ACK.
fn one_of_each(path: u64) -> [PathFrame; 8] {
    [
        PathFrame::Abandon { path, error_code: 0 },
        PathFrame::Status { path, sequence: 9, is_backup: true },
        PathFrame::Status { path, sequence: 10, is_backup: false },
        new_id(path, 3),
        PathFrame::RetireConnectionId { path, sequence: 99 },
        PathFrame::CidsBlocked { path, next_sequence: 99 },
        PathFrame::PathsBlocked(path),
        PathFrame::MaxPathId(9),
    ]
}

#[test]
fn draft_4_frames_about_a_path_that_was_given_up_are_ignored() {
    // While it is remembered, and long after.
    for later in [100, 5_000] {
        let (setup, tap) = tapped();
        let (mut world, handle) = opened(setup);
        let now = world.now;
        let why = TransportErrorCode::APPLICATION_ABANDON_PATH;
        world.client_conn(handle).close_path(now, DataSpace(1), why).unwrap();
        world.run_for(ms(later));
        for frames in one_of_each(1).map(|frame| encoded(&[frame])).iter().chain([&path_ack(1, 0), &path_ack(1, 5_000)])
        {
            say(&mut world, handle, &tap, frames);
            world.run_for(ms(50));
            assert_eq!(world.server_error(), None, "{frames:?} after {later} ms");
        }
        assert!(world.transfer(handle, true, 100_000, LIMIT).is_some());
        let paths: Vec<_> = world.server_conn().paths().map(|path| path.id.0).collect();
        assert!(later < 1_000 || paths == [0], "it does not come back: {paths:?}");
    }
}

#[test]
fn draft_4_1_an_ack_that_names_one_space_and_holds_the_numbers_of_another_is_a_protocol_violation() {
    let (setup, tap) = tapped();
    let (mut world, handle) = opened(setup);
    // The second path is idle, so that only the first has sent so many packets.
    assert!(world.client_conn(handle).set_path_backup(DataSpace(1), true));
    assert!(world.transfer(handle, true, 1_000_000, LIMIT).is_some());
    let sent: Vec<_> = world.server_conn().paths().map(|path| path.stats.packets_sent).collect();
    assert!(sent[0] > 400 && sent[1] < 200, "{sent:?}");
    say(&mut world, handle, &tap, &path_ack(0, 300));
    world.run_for(ms(100));
    assert_eq!(world.server_error(), None, "it is one of the first path's numbers");
    say(&mut world, handle, &tap, &path_ack(1, 300));
    world.run_for(ms(100));
    assert_eq!(code(world.server_error()), TransportErrorCode::PROTOCOL_VIOLATION);
}

#[test]
fn draft_2_1_a_server_with_connection_ids_of_no_length_that_offers_paths_is_a_protocol_violation() {
    let tap = Tap::default();
    tap.add_parameters(&[0x3e, 1, 3]);
    let mut setup = Setup { server: TransportConfig::default(), cid_len: [8, 0], ..setup() };
    setup.tweak_server = Box::new(move |config| tap.server(config));
    let mut world = World::new(setup);
    world.connect();
    world.run_until(LIMIT, |world| world.client_error().is_some());
    assert_eq!(code(world.client_error()), TransportErrorCode::PROTOCOL_VIOLATION);
}

#[test]
fn draft_4_frames_about_paths_in_any_other_packet_than_1_rtt_are_protocol_violations() {
    let frames = one_of_each(0).map(|frame| encoded(&[frame]));
    for payload in frames.iter().chain([&path_ack(0, 0)]) {
        for level in [Level::Initial, Level::Handshake, Level::EarlyData] {
            let (setup, tap) = tapped();
            let mut world = match level {
                Level::EarlyData => returning(setup),
                _ => World::new(setup),
            };
            world.client.events.clear();
            world.server.events.clear();
            tap.lie_raw(level, payload.clone(), 0);
            match level {
                Level::EarlyData => drop(connect_early(&mut world, 3_000)),
                _ => drop(world.connect()),
            }
            world.run_for(Duration::from_secs(3));
            assert_eq!(tap.told(), 1);
            let error = world.server_error();
            assert_eq!(code(error), TransportErrorCode::PROTOCOL_VIOLATION, "{payload:?} in {level:?}");
        }
    }
}

/// Bytes that the server may hold more than before a flood: a few packets' worth of records, and what this world keeps.
const HELD: i64 = 400_000;

#[test]
fn ten_thousand_path_abandons_of_one_path_are_one() {
    let (setup, tap) = tapped();
    let (mut world, handle) = opened(setup);
    let abandons = encoded(&[PathFrame::Abandon { path: 1, error_code: 0x3e75 }; 100]);
    let (before, sent) = (alloc::live(), world.server.sent_bytes);
    for _ in 0..100 {
        say(&mut world, handle, &tap, &abandons);
        world.run_for(ms(5));
    }
    world.run_for(Duration::from_secs(3));
    assert_eq!(world.server_error(), None);
    let grown = alloc::live() - before;
    assert!(grown < HELD, "{grown} bytes held");
    let sent = world.server.sent_bytes - sent;
    assert!(sent < 20_000, "{sent} bytes of answers");
    assert!(world.transfer(handle, true, 100_000, LIMIT).is_some());
}

#[test]
fn ten_thousand_paths_that_are_given_up_before_they_are_used_leave_nothing_behind() {
    let (setup, tap) = tapped();
    let (mut world, handle) = two(setup);
    let mut held = Vec::new();
    let mut next = 1;
    while next <= 10_000 {
        // As many as are permitted at once; those that come after them take their places.
        let abandons = [0, 1, 2].map(|more| PathFrame::Abandon { path: next + more, error_code: 0 });
        say(&mut world, handle, &tap, &encoded(&abandons));
        next += 3;
        world.run_for(ms(70));
        assert_eq!(world.server_error(), None, "path {next}");
        held.push(alloc::live());
    }
    let grown = held[held.len() - 1] - held[held.len() / 4];
    assert!(grown < HELD, "{grown} bytes held");
    assert!(world.transfer(handle, true, 100_000, LIMIT).is_some());
}

#[test]
fn who_gives_up_paths_and_acknowledges_nothing_gets_no_more_of_them() {
    let (setup, tap) = tapped();
    let (mut world, handle) = two(setup);
    world.link.meddle =
        Box::new(|packet, _| if packet.is_from_client() { vec![(Duration::ZERO, packet)] } else { Vec::new() });
    let before = alloc::live();
    for path in 1..40 {
        say(&mut world, handle, &tap, &encoded(&[PathFrame::Abandon { path, error_code: 0 }]));
        world.run_for(ms(20));
        if world.server_error().is_some() {
            break;
        }
    }
    assert_eq!(code(world.server_error()), TransportErrorCode::PROTOCOL_VIOLATION, "an identifier above the limit");
    assert!(alloc::live() - before < HELD);
}

#[test]
fn questions_for_more_paths_and_ids_are_answered_once_or_never() {
    let (setup, tap) = tapped();
    let (mut world, handle) = opened(setup);
    let questions: Vec<_> = (0..60)
        .flat_map(|_| [PathFrame::PathsBlocked(3), PathFrame::CidsBlocked { path: 2, next_sequence: 1 }])
        .collect();
    let (before, sent) = (alloc::live(), world.server.sent_bytes);
    for _ in 0..100 {
        say(&mut world, handle, &tap, &encoded(&questions));
        world.run_for(ms(5));
    }
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.server_error(), None);
    assert!(alloc::live() - before < HELD);
    let sent = world.server.sent_bytes - sent;
    assert!(sent < 20_000, "{sent} bytes of answers");
}

#[test]
fn two_hundred_paths_one_after_the_other_hold_no_more_than_a_few() {
    let (setup, _) = tapped();
    let (mut world, handle) = two(setup);
    let mut held = Vec::new();
    for round in 1..=200 {
        let now = world.now;
        let id = world.client_conn(handle).open_path(now, Some(SECOND), None).unwrap();
        assert_eq!(id, DataSpace(round));
        world.pump();
        world.run_for(ms(100));
        assert!(world.server_conn().paths().any(|path| path.id == id && path.is_open), "path {round}");
        let now = world.now;
        let why = TransportErrorCode::APPLICATION_ABANDON_PATH;
        world.client_conn(handle).close_path(now, id, why).unwrap();
        world.pump();
        world.run_for(Duration::from_secs(1));
        assert_eq!(world.server_conn().paths().count(), 1);
        world.client.events.clear();
        world.server.events.clear();
        held.push(alloc::live());
    }
    let grown = held[199] - held[49];
    assert!(grown < 100_000, "{grown} bytes held");
}

/// Bytes that came from each address, and went to it.
type Traffic = Rc<RefCell<BTreeMap<SocketAddr, [u64; 2]>>>;

fn plain(delay: u64) -> Link {
    Link { rate: 1_250_000, queue: 62_500, ..Link::new(ms(delay)) }
}

/// A client that sends 1,200 packets of challenges by one path. Each arrives from another address first, which somebody
/// on the way has made up.
fn challenges(path: u32) -> (World, ConnectionHandle, Traffic) {
    let (setup, tap) = tapped();
    let (mut world, handle) = opened(setup);
    assert!(world.transfer(handle, true, 100_000, LIMIT).is_some());
    world.client_conn(handle).set_path_backup(DataSpace(1 - path), true);
    world.client_conn(handle).ping();
    world.run_for(ms(200));
    let traffic = Traffic::default();
    let seen = traffic.clone();
    let mut number = 0u16;
    let meddle = move |packet: Packet, _: &mut _| {
        let size = packet.bytes.len() as u64;
        if let Some(forged) = seen.borrow_mut().get_mut(&packet.to) {
            forged[1] += size;
        }
        if !packet.is_from_client() {
            return vec![(Duration::ZERO, packet)];
        }
        number += 1;
        let from = SocketAddr::new(IpAddr::from([172, 16, (number >> 8) as u8, number as u8]), 9);
        seen.borrow_mut().entry(from).or_default()[0] += size;
        vec![(Duration::ZERO, Packet { from, ..packet.clone() }), (ms(1), packet)]
    };
    let attack = Link { meddle: Box::new(meddle), ..plain(10) };
    match path {
        0 => world.link = attack,
        _ => world.second = Some((SECOND, attack)),
    }
    for packet in 0..1_200u64 {
        let mut frames = Vec::new();
        for challenge in 0..20 {
            Frame::PathChallenge((packet * 20 + challenge).to_be_bytes()).encode(&mut frames);
        }
        say(&mut world, handle, &tap, &frames);
        world.run_for(ms(5));
        assert_eq!(world.server_error(), None);
    }
    (world, handle, traffic)
}

#[test]
fn challenges_from_a_thousand_forged_addresses_are_answered_with_three_times_as_much_at_most() {
    for path in [0, 1] {
        let (mut world, handle, traffic) = challenges(path);
        let traffic = traffic.borrow();
        assert!(traffic.len() >= 1_000, "{} addresses", traffic.len());
        for (address, [received, sent]) in traffic.iter() {
            assert!(sent <= &(received * 3), "{sent} bytes to {address}, which sent {received}");
        }
        drop(traffic);
        // The honest client is heard again.
        world.link = plain(10);
        world.second = Some((SECOND, plain(10)));
        let took = world.transfer(handle, true, 200_000, LIMIT);
        assert!(took.is_some(), "path {path}: {:?} {:?}", world.client_error(), world.server_error());
    }
}

#[test]
fn a_thousand_forged_addresses_cost_the_server_little_memory() {
    for path in [0, 1] {
        let (mut world, _, _) = challenges(path);
        let before = alloc::live();
        world.server.connections.clear();
        let held = before - alloc::live();
        // Of 32 addresses that nobody has proven, and of the two paths.
        assert!(held < 600_000, "path {path}: the server holds {held} bytes");
    }
}
