//! Connections that use several paths at once (draft-ietf-quic-multipath-21).
#![allow(clippy::unwrap_used)]

use crate::harness;

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex},
    time::Duration,
};

use harness::{Host, Link, Packet, Setup, World, tap::Tap};
use thalweg_proto::{
    ClosePathError, Connection, ConnectionError, ConnectionHandle, Event, MultipathConfig, OpenPathError, PathEvent,
    RttSamples, Side, TransportConfig, TransportErrorCode,
    cid::{ConnectionId, NewConnectionId, ResetToken},
    crypto::Level,
    frame::{Frame, PathFrame},
    observe::{FrameInfo, ObserverEvent, PacketKind},
};
use thalweg_recovery::DataSpace;

pub const SECOND: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 1, 1));
pub const LIMIT: Duration = Duration::from_secs(60);

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// 10 Mbps, so many milliseconds each way, and a queue of 50 ms.
fn link(delay: u64) -> Link {
    Link { rate: 1_250_000, queue: 62_500, ..Link::new(ms(delay)) }
}

/// Nothing comes through.
fn dead() -> Link {
    Link { meddle: Box::new(|_, _| Vec::new()), ..link(10) }
}

fn config() -> TransportConfig {
    TransportConfig { multipath: Some(MultipathConfig::default()), ..TransportConfig::default() }
}

pub fn setup() -> Setup {
    Setup { client: config(), server: config(), link: link(10), ..Setup::default() }
}

/// A client that can leave by two addresses, after the handshake and the exchange of connection IDs.
pub fn two(setup: Setup) -> (World, ConnectionHandle) {
    let mut world = World::new(setup);
    world.second = Some((SECOND, link(10)));
    let handle = world.handshake();
    world.run_for(ms(60));
    (world, handle)
}

/// The same with the second path open at both ends.
pub fn opened(setup: Setup) -> (World, ConnectionHandle) {
    let (mut world, handle) = two(setup);
    open(&mut world, handle);
    (world, handle)
}

fn open(world: &mut World, handle: ConnectionHandle) {
    let now = world.now;
    let id = world.client_conn(handle).open_path(now, Some(SECOND), None).unwrap();
    assert_eq!(id, DataSpace(1));
    world.pump();
    let is_open = |host: &Host| path_events(host).iter().any(|event| matches!(event, PathEvent::Opened { .. }));
    assert!(world.run_until(ms(200), |world| is_open(&world.client) && is_open(&world.server)), "no second path");
}

fn path_events(host: &Host) -> Vec<PathEvent> {
    let event = |event: &Event| match event {
        Event::Path(event) => Some(*event),
        _ => None,
    };
    host.events.iter().filter_map(|(_, it)| event(it)).collect()
}

/// Bytes that a connection has sent on each path.
fn sent(connection: &Connection) -> Vec<u64> {
    connection.paths().map(|path| path.stats.bytes_sent).collect()
}

/// Every packet with its frames: who sent it, on which path, when.
type Log = Arc<Mutex<Vec<(Side, u32, Vec<FrameInfo>)>>>;

fn logged(mut setup: Setup) -> (Setup, Log) {
    let log = Log::default();
    let shared = log.clone();
    setup.observer = Some(harness::watch(move |side, _, event| {
        if let ObserverEvent::PacketSent(packet) = event
            && packet.kind == PacketKind::OneRtt
        {
            shared.lock().unwrap().push((side, packet.path.0, packet.frames.to_vec()));
        }
    }));
    (setup, log)
}

// ---- negotiation ----------------------------------------------------------------------------------------------------

#[test]
fn draft_2_several_paths_are_used_only_if_both_ends_ask_for_them() {
    for (client, server) in [(false, false), (false, true), (true, false), (true, true)] {
        let of = |wanted: bool| if wanted { config() } else { TransportConfig::default() };
        let (setup, log) = logged(Setup { client: of(client), server: of(server), ..setup() });
        let (mut world, handle) = two(setup);
        let both = client && server;
        assert_eq!(world.client_conn(handle).is_multipath(), both);
        assert_eq!(world.server_conn().is_multipath(), both);
        let offered = |connection: &Connection| connection.peer_transport_parameters().initial_max_path_id;
        assert_eq!(offered(world.server_conn()), client.then_some(3));
        assert_eq!(offered(world.client_conn(handle)), both.then_some(3), "only to a client that has asked");
        assert!(world.transfer(handle, true, 200_000, LIMIT).is_some());
        let log = log.lock().unwrap();
        let acks = |named: bool| {
            let ack = |frame: &FrameInfo| matches!(frame, FrameInfo::Ack { path, .. } if path.is_some() == named);
            log.iter().filter(|(_, _, frames)| frames.iter().any(ack)).count()
        };
        assert_eq!(acks(true) > 0, both);
        assert_eq!(acks(false) > 0, !both, "1-RTT packets are acknowledged by PATH_ACK or by ACK");
        let now = world.now;
        if !both {
            let error = world.client_conn(handle).open_path(now, Some(SECOND), None).unwrap_err();
            assert_eq!(error, OpenPathError::NotNegotiated);
        }
    }
}

#[test]
fn draft_2_1_nothing_is_offered_with_connection_ids_of_no_length() {
    let mut world = World::new(Setup { cid_len: [0, 8], ..setup() });
    let handle = world.handshake();
    assert!(!world.client_conn(handle).is_multipath());
    assert!(world.transfer(handle, true, 10_000, LIMIT).is_some());
}

#[test]
fn draft_2_1_a_peer_with_connection_ids_of_no_length_that_offers_paths_is_a_protocol_violation() {
    let tap = Tap::default();
    tap.add_parameters(&[0x3e, 1, 3]);
    let mut setup = Setup { client: TransportConfig::default(), cid_len: [0, 8], ..setup() };
    setup.tweak_client = {
        let tap = tap.clone();
        Box::new(move |config| tap.client(config))
    };
    let mut world = World::new(setup);
    world.connect();
    world.run_until(LIMIT, |world| world.server_error().is_some());
    let Some(ConnectionError::Transport(error)) = world.server_error() else { panic!("{:?}", world.server_error()) };
    assert_eq!(error.code, TransportErrorCode::PROTOCOL_VIOLATION);
}

// ---- opening --------------------------------------------------------------------------------------------------------

#[test]
fn draft_3_1_a_client_opens_a_path_and_both_ends_validate_it() {
    let (setup, log) = logged(setup());
    let (mut world, handle) = two(setup);
    log.lock().unwrap().clear();
    open(&mut world, handle);
    let log = log.lock().unwrap();
    let has = |side: Side, wanted: fn(&FrameInfo) -> bool| {
        log.iter().any(|(by, path, frames)| *by == side && *path == 1 && frames.iter().any(wanted))
    };
    for side in [Side::Client, Side::Server] {
        assert!(has(side, |frame| matches!(frame, FrameInfo::PathChallenge)), "{side:?}");
        assert!(has(side, |frame| matches!(frame, FrameInfo::PathResponse)), "{side:?}");
    }
    drop(log);
    for connection in [world.client.connections.values().next(), world.server.connections.values().next()] {
        let paths: Vec<_> = connection.unwrap().paths().map(|path| (path.id.0, path.is_open)).collect();
        assert_eq!(paths, [(0, true), (1, true)]);
    }
}

#[test]
fn draft_3_only_a_client_opens_paths_and_only_after_the_handshake() {
    let mut world = World::new(setup());
    let handle = world.connect();
    let now = world.now;
    let early = world.client_conn(handle).open_path(now, Some(SECOND), None).unwrap_err();
    assert_eq!(early, OpenPathError::NotConfirmed);
    let (mut world, _) = two(setup());
    let now = world.now;
    assert_eq!(world.server_conn().open_path(now, None, None).unwrap_err(), OpenPathError::Server);
}

#[test]
fn a_client_is_told_when_the_limit_is_reached() {
    let few = || TransportConfig {
        multipath: Some(MultipathConfig { max_paths: 2, ..MultipathConfig::default() }),
        ..TransportConfig::default()
    };
    let (setup, log) = logged(Setup { client: few(), server: few(), ..setup() });
    let (mut world, handle) = opened(setup);
    let now = world.now;
    let error = world.client_conn(handle).open_path(now, Some(SECOND), None).unwrap_err();
    assert_eq!(error, OpenPathError::LimitReached);
    world.client_conn(handle).ping();
    world.run_for(ms(100));
    let blocked = |frame: &FrameInfo| matches!(frame, FrameInfo::PathsBlocked { max: 1 });
    assert!(log.lock().unwrap().iter().any(|(_, _, frames)| frames.iter().any(blocked)));
}

#[test]
fn a_second_path_that_never_answers_is_given_up_and_costs_nothing() {
    let alone = {
        let (mut world, handle) = two(setup());
        world.transfer(handle, true, 1_000_000, LIMIT).unwrap()
    };
    let (mut world, handle) = two(setup());
    world.second = Some((SECOND, dead()));
    let now = world.now;
    world.client_conn(handle).open_path(now, Some(SECOND), None).unwrap();
    let took = world.transfer(handle, true, 1_000_000, LIMIT).unwrap();
    assert!(took <= alone + ms(5), "{took:?} instead of {alone:?}");
    world.run_for(Duration::from_secs(10));
    let given_up = |event: &PathEvent| matches!(event, PathEvent::Abandoned { id: DataSpace(1), .. });
    assert!(path_events(&world.client).iter().any(given_up));
    assert_eq!(world.client_conn(handle).paths().count(), 1);
}

// ---- data -----------------------------------------------------------------------------------------------------------

#[test]
fn a_download_takes_both_paths() {
    let (mut world, handle) = opened(setup());
    let took = world.transfer(handle, true, 4_000_000, LIMIT).unwrap();
    // 4 MB at 20 Mbps take 1.6 s and headers; one path alone would take 3.2 s.
    assert!(took < ms(1_850), "{took:?}, {:?}", sent(world.server_conn()));
    let sent = sent(world.server_conn());
    assert!(sent.iter().all(|bytes| *bytes > 1_600_000), "{sent:?}");
}

#[test]
fn an_upload_takes_both_paths() {
    let (mut world, handle) = opened(setup());
    let took = world.transfer(handle, false, 4_000_000, LIMIT).unwrap();
    assert!(took < ms(1_850), "{took:?}, {:?}", sent(world.client_conn(handle)));
}

#[test]
fn every_scheduler_delivers_over_paths_that_differ() {
    for policy in thalweg_proto::SchedulerPolicy::NAMED {
        let multipath = Some(MultipathConfig { scheduler: policy.clone(), ..MultipathConfig::default() });
        let config = || TransportConfig { multipath: multipath.clone(), ..TransportConfig::default() };
        let (mut world, handle) = two(Setup { client: config(), server: config(), ..setup() });
        world.second = Some((SECOND, Link { rate: 250_000, ..link(60) }));
        open(&mut world, handle);
        let took = world.transfer(handle, true, 1_000_000, LIMIT);
        assert!(took.is_some_and(|took| took < ms(1_500)), "{policy}: {took:?} {:?}", sent(world.server_conn()));
        let took = world.transfer(handle, false, 1_000_000, LIMIT);
        assert!(took.is_some_and(|took| took < ms(1_500)), "{policy}, upload: {took:?}");
    }
}

#[test]
fn draft_5_5_a_round_trip_whose_acknowledgments_return_by_a_shorter_path_is_that_of_its_own() {
    let estimate = |samples| {
        let multipath = Some(MultipathConfig { samples, ..MultipathConfig::default() });
        let config = || TransportConfig { multipath: multipath.clone(), ..TransportConfig::default() };
        let mut world = World::new(Setup { client: config(), server: config(), link: link(200), ..setup() });
        world.second = Some((SECOND, link(10)));
        let handle = world.handshake();
        world.run_for(ms(1_000));
        open(&mut world, handle);
        world.transfer(handle, true, 3_000_000, LIMIT).unwrap();
        let paths: Vec<_> = world.server_conn().paths().map(|path| path.rtt).collect();
        assert!(paths[1] < ms(100), "{samples:?}: {paths:?}");
        paths[0]
    };
    // 200 ms there, and 10 back by the other path, beside a queue of 50 ms at most.
    assert!(estimate(RttSamples::Any) < ms(330), "{:?}", estimate(RttSamples::Any));
    for samples in [RttSamples::Same, RttSamples::Adjusted] {
        assert!((ms(400)..ms(500)).contains(&estimate(samples)), "{samples:?}: {:?}", estimate(samples));
    }
}

#[test]
fn datagrams_lost_on_both_paths_are_repaired() {
    for seed in 0..6 {
        let lossy = || Link { delay: ms(15), rate: 1_250_000, ..Link::lossy(ms(15), 5) };
        let (mut world, handle) = two(Setup { seed, link: lossy(), ..setup() });
        world.second = Some((SECOND, lossy()));
        let now = world.now;
        world.client_conn(handle).open_path(now, Some(SECOND), None).unwrap();
        for download in [true, false] {
            assert!(world.transfer(handle, download, 500_000, LIMIT).is_some(), "seed {seed}");
        }
    }
}

/// The longest time without new bytes in order, and how long all of them took.
fn with_cut(cut: usize, at: Duration) -> (Duration, Duration) {
    let (mut world, handle) = opened(setup());
    let started = world.now;
    let stream = world.client_conn(handle).streams().open(thalweg_proto::streams::Dir::Bi).unwrap();
    let mut pump = harness::Pump::new(stream, true, 2_000_000);
    let (mut last, mut gap, mut seen, mut is_cut) = (world.now, Duration::ZERO, 0, false);
    let done = world.run_until(LIMIT, |world| {
        if !is_cut && world.now >= started + at {
            is_cut = true;
            match cut {
                0 => world.link = dead(),
                _ => world.second = Some((SECOND, dead())),
            }
        }
        let done = pump.poke(world, handle);
        let read = pump.read();
        if read > seen {
            gap = gap.max(world.now.saturating_since(last));
            (seen, last) = (read, world.now);
        }
        done
    });
    assert!(done, "path {cut} cut at {at:?}: {:?} {:?}", world.client_error(), world.server_error());
    (gap, world.now.saturating_since(started))
}

#[test]
fn a_download_goes_on_when_either_path_is_cut() {
    for cut in [0, 1] {
        for at in [200, 300, 400, 500, 600] {
            let (gap, took) = with_cut(cut, ms(at));
            // Silence is noticed after a probe timeout; queues of 50 ms and a round trip of 20 ms are in it.
            assert!(gap <= ms(200), "path {cut} cut at {at} ms: gap {gap:?}");
            assert!(took <= ms(1_900), "path {cut} cut at {at} ms: {took:?}");
        }
    }
}

/// RFC 9000 section 10.3: a connection ID of any path has a token of its own.
#[test]
fn a_server_that_lost_its_state_resets_a_connection_by_any_of_its_paths() {
    for gone in [DataSpace::FIRST, DataSpace(1)] {
        let (mut world, handle) = opened(setup());
        let now = world.now;
        world.client_conn(handle).close_path(now, gone, TransportErrorCode::NO_ERROR).unwrap();
        world.pump();
        let is_gone = world.run_until(LIMIT, |world| world.client_conn(handle).paths().count() == 1);
        assert!(is_gone, "path {} is still there", gone.0);
        world.restart_server();
        world.client_conn(handle).ping();
        world.pump();
        world.run_for(ms(500));
        assert_eq!(world.client_error(), Some(ConnectionError::Reset), "without path {}", gone.0);
    }
}

/// Section 3.4.1: whoever forgets a path first answers late packets of it by a stateless reset.
#[test]
fn a_late_packet_of_an_abandoned_path_does_not_end_the_connection() {
    for gone in [DataSpace::FIRST, DataSpace(1)] {
        let (mut world, handle) = opened(setup());
        let late = Arc::new(Mutex::new(None));
        let kept = late.clone();
        let keep = move |packet: Packet, _: &mut _| {
            if packet.is_from_client() && packet.bytes.len() > 60 {
                *kept.lock().unwrap() = Some(packet.clone());
            }
            vec![(Duration::ZERO, packet)]
        };
        let tapped = Link { meddle: Box::new(keep), ..link(10) };
        match gone {
            DataSpace::FIRST => world.link = tapped,
            _ => world.second = Some((SECOND, tapped)),
        }
        assert!(world.transfer(handle, false, 200_000, LIMIT).is_some());
        let now = world.now;
        world.client_conn(handle).close_path(now, gone, TransportErrorCode::NO_ERROR).unwrap();
        world.pump();
        // The server has forgotten the path, the client has not.
        let forgotten = world.run_until(LIMIT, |world| world.server_conn().paths().count() == 1);
        assert!(forgotten, "path {} is still there", gone.0);
        let packet = late.lock().unwrap().take().unwrap();
        world.deliver(packet);
        world.run_for(ms(200));
        assert_eq!(world.client_error(), None, "path {}", gone.0);
        assert!(world.transfer(handle, true, 100_000, LIMIT).is_some());
    }
}

/// A download of 2 MB both of whose paths are out after 300 ms.
fn both_out(world: &mut World, handle: ConnectionHandle) -> harness::Pump {
    let stream = world.client_conn(handle).streams().open(thalweg_proto::streams::Dir::Bi).unwrap();
    let mut pump = harness::Pump::new(stream, true, 2_000_000);
    let until = world.now + ms(300);
    world.run_until(ms(300), |world| pump.poke(world, handle) || world.now >= until);
    world.link = dead();
    world.second = Some((SECOND, dead()));
    pump
}

#[test]
fn both_paths_may_be_silent_for_a_while() {
    let (mut world, handle) = opened(setup());
    let mut pump = both_out(&mut world, handle);
    world.run_for(Duration::from_secs(5));
    world.link = link(10);
    world.second = Some((SECOND, link(10)));
    let repaired = world.now;
    let read = pump.read();
    assert!(world.run_until(LIMIT, |world| {
        pump.poke(world, handle);
        pump.read() > read
    }));
    let silence = world.now.saturating_since(repaired);
    assert!(silence <= ms(1_000), "{silence:?}");
    assert!(world.run_until(LIMIT, |world| pump.poke(world, handle)));
}

/// No byte is only on a path that is silent: what was sent on both while neither answered leaves on the one that comes
/// back, without waiting for the next probe on the other.
#[test]
fn what_two_silent_paths_owe_leaves_on_the_one_that_comes_back() {
    for (back, outage) in [0, 1].into_iter().flat_map(|back| (10..40).map(move |n| (back, n * 100))) {
        let (mut world, handle) = opened(setup());
        let mut pump = both_out(&mut world, handle);
        world.run_for(ms(outage));
        match back {
            0 => world.link = link(10),
            _ => world.second = Some((SECOND, link(10))),
        }
        let on_it = |world: &mut World| world.server_conn().paths().nth(back).map_or(0, |path| path.stats.bytes_sent);
        let before = on_it(&mut world);
        // Probes are two packets each: by then one was answered.
        let answers = world.run_until(LIMIT, |world| {
            pump.poke(world, handle);
            on_it(world) > before + 8_000
        });
        assert!(answers, "path {back} after {outage} ms");
        let (from, read) = (world.now, pump.read());
        world.run_until(LIMIT, |world| pump.poke(world, handle) || pump.read() > read + 100_000);
        let gap = world.now.saturating_since(from);
        assert!(gap < ms(150), "path {back} after {outage} ms: the next 100 kB in order take {gap:?}");
    }
}

// ---- keys, moves, status, end ---------------------------------------------------------------------------------------

#[test]
fn draft_2_5_keys_are_updated_while_both_paths_carry_data() {
    for side in [Side::Client, Side::Server] {
        let (mut world, handle) = opened(setup());
        for round in 1..=4 {
            let now = world.now;
            let connection = if side.is_client() { world.client_conn(handle) } else { world.server_conn() };
            assert!(connection.force_key_update(now), "{side:?}, round {round}");
            assert!(world.transfer(handle, true, 500_000, LIMIT).is_some(), "{side:?}: {:?}", world.client_error());
            world.run_for(Duration::from_secs(3));
        }
        assert_eq!(world.client_conn(handle).stats().key_updates, 4);
        assert_eq!(world.server_conn().stats().key_updates, 4);
    }
}

#[test]
fn draft_2_5_a_path_that_was_idle_over_a_key_update_takes_the_next_one() {
    let (mut world, handle) = opened(setup());
    let backup = |world: &mut World, is_backup| {
        world.client_conn(handle).set_path_backup(DataSpace(1), is_backup);
        world.client_conn(handle).ping();
        world.run_for(ms(100));
    };
    backup(&mut world, true);
    for _ in 0..2 {
        let now = world.now;
        assert!(world.server_conn().force_key_update(now));
        assert!(world.transfer(handle, true, 100_000, LIMIT).is_some());
        world.run_for(Duration::from_secs(3));
    }
    backup(&mut world, false);
    let now = world.now;
    assert!(world.server_conn().force_key_update(now));
    assert!(world.transfer(handle, true, 1_000_000, LIMIT).is_some(), "{:?}", world.client_error());
    assert!(sent(world.server_conn())[1] > 200_000);
}

#[test]
fn draft_3_1_2_a_rebinding_moves_one_path_and_keeps_its_identifier() {
    let (mut world, handle) = opened(setup());
    // The NAT before the second address gives it another port.
    world.second = Some((
        SECOND,
        Link {
            meddle: Box::new(|packet: Packet, _| {
                let other = SocketAddr::new(SECOND, 2_000);
                let packet = match packet.is_from_client() {
                    true => Packet { from: other, ..packet },
                    false if packet.to == other => packet,
                    // The old mapping is gone.
                    false => return Vec::new(),
                };
                vec![(Duration::ZERO, packet)]
            }),
            ..link(10)
        },
    ));
    assert!(world.transfer(handle, false, 1_000_000, LIMIT).is_some());
    assert!(world.transfer(handle, true, 2_000_000, LIMIT).is_some());
    let paths: Vec<_> = world.server_conn().paths().collect();
    assert_eq!(paths.len(), 2);
    assert_eq!(paths[1].remote, SocketAddr::new(SECOND, 2_000));
    assert!(paths[1].stats.bytes_sent > 500_000, "{:?}", paths[1].stats);
}

#[test]
fn a_rebinding_of_a_path_is_noticed_by_who_only_receives() {
    let (mut world, handle) = opened(setup());
    let stream = world.client_conn(handle).streams().open(thalweg_proto::streams::Dir::Bi).unwrap();
    let mut pump = harness::Pump::new(stream, true, 6_000_000);
    world.run_until(ms(500), |world| pump.poke(world, handle));
    let other = SocketAddr::new(SECOND, 2_000);
    let meddle = move |packet: Packet, _: &mut _| match packet.is_from_client() {
        true => vec![(Duration::ZERO, Packet { from: other, ..packet })],
        false if packet.to == other => vec![(Duration::ZERO, packet)],
        // The old mapping is gone.
        false => Vec::new(),
    };
    // Its acknowledgments leave by the other path.
    world.link.delay = ms(2);
    world.second = Some((SECOND, Link { meddle: Box::new(meddle), ..link(10) }));
    let before = sent(world.server_conn())[1];
    assert!(world.run_until(LIMIT, |world| pump.poke(world, handle)));
    let paths: Vec<_> = world.server_conn().paths().collect();
    assert_eq!(paths[1].remote, other);
    assert!(paths[1].stats.bytes_sent - before > 1_000_000, "{:?}", paths[1].stats);
}

#[test]
fn a_path_that_is_idle_is_asked_less_and_less_often() {
    let (setup, log) = logged(setup());
    let (mut world, handle) = opened(setup);
    world.client_conn(handle).set_path_backup(DataSpace(1), true);
    assert!(world.transfer(handle, true, 100_000, LIMIT).is_some());
    log.lock().unwrap().clear();
    // 20 s at 10 Mbps, and then silence.
    assert!(world.transfer(handle, true, 25_000_000, LIMIT).is_some());
    world.run_for(Duration::from_secs(20));
    let log = log.lock().unwrap();
    for by in [Side::Client, Side::Server] {
        let asks = |frames: &[FrameInfo]| frames.iter().any(|frame| matches!(frame, FrameInfo::Ping));
        let asked = log.iter().filter(|(side, path, frames)| *side == by && *path == 1 && asks(frames)).count();
        assert!((2..20).contains(&asked), "{by:?}: {asked} questions");
    }
}

#[test]
fn draft_3_3_a_backup_carries_data_only_while_the_other_path_is_silent() {
    let (mut world, handle) = opened(setup());
    assert!(world.client_conn(handle).set_path_backup(DataSpace(1), true));
    world.client_conn(handle).ping();
    world.run_for(ms(100));
    let told = |event: &PathEvent| matches!(event, PathEvent::StatusOfPeer { id: DataSpace(1), is_backup: true });
    assert!(path_events(&world.server).iter().any(told));
    let before = sent(world.server_conn())[1];
    assert!(world.transfer(handle, true, 500_000, LIMIT).is_some());
    assert!(sent(world.server_conn())[1] - before < 5_000, "{:?}", sent(world.server_conn()));
    world.link = dead();
    assert!(world.transfer(handle, true, 500_000, LIMIT).is_some());
    assert!(sent(world.server_conn())[1] - before > 500_000);
}

#[test]
fn draft_3_4_either_end_gives_up_either_path_and_the_other_goes_on() {
    for (side, path) in [(Side::Client, 0), (Side::Client, 1), (Side::Server, 0), (Side::Server, 1)] {
        let (setup, log) = logged(setup());
        let (mut world, handle) = opened(setup);
        assert!(world.transfer(handle, true, 200_000, LIMIT).is_some());
        let now = world.now;
        let connection = if side.is_client() { world.client_conn(handle) } else { world.server_conn() };
        let code = TransportErrorCode::APPLICATION_ABANDON_PATH;
        connection.close_path(now, DataSpace(path), code).unwrap();
        assert_eq!(connection.close_path(now, DataSpace(path), code), Err(ClosePathError::Unknown));
        assert_eq!(connection.close_path(now, DataSpace(1 - path), code), Err(ClosePathError::LastPath));
        let took = world.transfer(handle, true, 1_000_000, LIMIT);
        assert!(took.is_some(), "{side:?} gives up {path}: {:?} {:?}", world.client_error(), world.server_error());
        world.run_for(Duration::from_secs(2));
        for connection in [world.client.connections.values().next(), world.server.connections.values().next()] {
            let paths: Vec<_> = connection.unwrap().paths().map(|path| path.id.0).collect();
            assert_eq!(paths, [1 - path], "{side:?}");
        }
        {
            let log = log.lock().unwrap();
            for side in [Side::Client, Side::Server] {
                let abandon = |frame: &FrameInfo| matches!(frame, FrameInfo::PathAbandon { path: of, code: 0x3e } if *of == u64::from(path));
                let abandons = log.iter().filter(|(by, _, frames)| *by == side && frames.iter().any(abandon));
                assert!((1..=4).contains(&abandons.count()), "each end sends PATH_ABANDON, and repeats it as probe");
            }
        }
        // Another path takes its place, with an identifier that nobody has used.
        let now = world.now;
        let next =
            world.client_conn(handle).open_path(now, Some(if path == 0 { harness::CLIENT.ip() } else { SECOND }), None);
        assert_eq!(next, Ok(DataSpace(2)));
        assert!(world.transfer(handle, true, 1_000_000, LIMIT).is_some());
        let ids: Vec<_> = world.server_conn().paths().map(|path| path.id.0).collect();
        assert_eq!(ids, [1 - path, 2]);
    }
}

// ---- a hostile peer -------------------------------------------------------------------------------------------------

/// A connection whose client sends `frames` in place of its own; returns the server's error, if there is one.
fn lie(frames: &[Frame<'_>]) -> Option<TransportErrorCode> {
    let tap = Tap::default();
    let mut setup = setup();
    setup.tweak_client = {
        let tap = tap.clone();
        Box::new(move |config| tap.client(config))
    };
    let (mut world, handle) = two(setup);
    tap.lie(Level::OneRtt, frames);
    // Something large enough to be replaced.
    let stream = world.client_conn(handle).streams().open(thalweg_proto::streams::Dir::Bi).unwrap();
    world.client_conn(handle).streams().write(stream, &[0; 1000]).unwrap();
    world.pump();
    world.run_for(ms(300));
    assert!(tap.told() > 0);
    match world.server_error() {
        None => None,
        Some(ConnectionError::Transport(error)) => Some(error.code),
        other => panic!("{other:?}"),
    }
}

fn new_id(byte: u8) -> NewConnectionId {
    NewConnectionId {
        sequence: 0,
        retire_prior_to: 0,
        cid: ConnectionId::new(&[byte; 8]).unwrap(),
        reset_token: ResetToken([byte; 16]),
    }
}

#[test]
fn draft_4_frames_about_paths_above_the_limit_are_protocol_violations() {
    let new = NewConnectionId { sequence: 7, ..new_id(9) };
    for frame in [
        PathFrame::Abandon { path: 4, error_code: 0 },
        PathFrame::Status { path: 4, sequence: 0, is_backup: true },
        PathFrame::NewConnectionId { path: 4, new },
        PathFrame::RetireConnectionId { path: 1 << 40, sequence: 0 },
        PathFrame::PathsBlocked(4),
        PathFrame::CidsBlocked { path: 4, next_sequence: 0 },
        PathFrame::CidsBlocked { path: 1, next_sequence: 99 },
        PathFrame::MaxPathId(1 << 32),
        PathFrame::MaxPathId(2),
        PathFrame::RetireConnectionId { path: 2, sequence: 55 },
    ] {
        assert_eq!(lie(&[Frame::Path(frame)]), Some(TransportErrorCode::PROTOCOL_VIOLATION), "{frame:?}");
    }
}

#[test]
fn draft_4_frames_that_an_honest_peer_may_send_do_no_harm() {
    for frame in [
        PathFrame::Abandon { path: 3, error_code: 0x3e75 },
        PathFrame::Status { path: 3, sequence: 0, is_backup: true },
        PathFrame::PathsBlocked(2),
        PathFrame::PathsBlocked(3),
        PathFrame::CidsBlocked { path: 1, next_sequence: 1 },
        PathFrame::MaxPathId(3),
        PathFrame::MaxPathId(9),
    ] {
        assert_eq!(lie(&[Frame::Path(frame)]), None, "{frame:?}");
    }
}

#[test]
fn draft_3_2_1_a_connection_id_for_two_paths_is_a_protocol_violation() {
    let frames = [2, 3].map(|path| {
        Frame::Path(PathFrame::NewConnectionId { path, new: NewConnectionId { sequence: 2, ..new_id(9) } })
    });
    assert_eq!(lie(&frames), Some(TransportErrorCode::PROTOCOL_VIOLATION));
}

#[test]
fn draft_3_4_giving_up_the_only_path_ends_the_connection() {
    let frame = PathFrame::Abandon { path: 0, error_code: 0 };
    assert_eq!(lie(&[Frame::Path(frame)]), Some(TransportErrorCode::NO_VIABLE_PATH));
}

#[test]
fn an_ack_of_packets_that_a_path_never_sent_is_a_protocol_violation() {
    let mut bytes = Vec::new();
    for path in [2u32, 4] {
        bytes.clear();
        thalweg_proto::frame::encode_path_ack(path, &mut bytes, 100, 0, std::iter::once(0..1), None).unwrap();
        let frames: Vec<_> = thalweg_proto::frame::FrameIter::new(&bytes).map(Result::unwrap).collect();
        assert_eq!(lie(&frames), Some(TransportErrorCode::PROTOCOL_VIOLATION), "path {path}");
    }
}

#[test]
fn draft_2_frames_about_paths_are_unknown_to_who_has_not_negotiated_them() {
    let tap = Tap::default();
    let mut setup = Setup { server: TransportConfig::default(), ..setup() };
    setup.tweak_client = {
        let tap = tap.clone();
        Box::new(move |config| tap.client(config))
    };
    let (mut world, handle) = two(setup);
    tap.lie(Level::OneRtt, &[Frame::Path(PathFrame::MaxPathId(3))]);
    let stream = world.client_conn(handle).streams().open(thalweg_proto::streams::Dir::Bi).unwrap();
    world.client_conn(handle).streams().write(stream, &[0; 1000]).unwrap();
    world.pump();
    world.run_for(ms(300));
    let Some(ConnectionError::Transport(error)) = world.server_error() else { panic!("{:?}", world.server_error()) };
    assert_eq!(error.code, TransportErrorCode::FRAME_ENCODING_ERROR);
}
