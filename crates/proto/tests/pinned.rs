//! Streams and datagrams that are pinned to one of several paths, and copies on more than one.
#![allow(clippy::unwrap_used)]

use crate::harness;

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use harness::{Link, Pump, Setup, World};
use thalweg_proto::{
    ConnectionHandle, MultipathConfig, PinError, SchedulerPolicy, Side, TransportConfig,
    datagrams::SendDatagramError,
    observe::{FrameInfo, ObserverEvent, PacketKind},
    streams::Dir,
};
use thalweg_recovery::DataSpace;

const SECOND: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 1, 1));
const LIMIT: Duration = Duration::from_secs(60);
const FIRST_PATH: DataSpace = DataSpace(0);
const SECOND_PATH: DataSpace = DataSpace(1);

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// 10 Mbps, so many milliseconds each way, and a queue of 50 ms.
fn link(delay: u64) -> Link {
    Link { rate: 1_250_000, queue: 62_500, ..Link::new(ms(delay)) }
}

fn dead() -> Link {
    Link { meddle: Box::new(|_, _| Vec::new()), ..link(10) }
}

fn setup(scheduler: SchedulerPolicy) -> Setup {
    let config = || {
        let multipath = Some(MultipathConfig { scheduler: scheduler.clone(), ..MultipathConfig::default() });
        TransportConfig { multipath, ..TransportConfig::default() }
    };
    Setup { client: config(), server: config(), link: link(10), ..Setup::default() }
}

/// Two paths, of which the second has this link, open at both ends.
fn opened(setup: Setup, second: Link) -> (World, ConnectionHandle) {
    let mut world = World::new(setup);
    world.second = Some((SECOND, second));
    let handle = world.handshake();
    world.run_for(ms(60));
    let now = world.now;
    assert_eq!(world.client_conn(handle).open_path(now, Some(SECOND), None), Ok(SECOND_PATH));
    world.pump();
    let both_open = |world: &mut World| world.server_conn().paths().filter(|path| path.is_open).count() == 2;
    assert!(world.run_until(ms(2_000), both_open), "no second path");
    world.run_for(ms(200));
    (world, handle)
}

/// Bytes that the client has sent on each path.
fn sent(world: &mut World, handle: ConnectionHandle) -> [u64; 2] {
    let mut sent = world.client_conn(handle).paths().map(|path| path.stats.bytes_sent);
    [sent.next().unwrap_or_default(), sent.next().unwrap_or_default()]
}

/// Uploads on a stream pinned to a path. Returns what it took, and what left on each path.
fn upload(world: &mut World, handle: ConnectionHandle, path: DataSpace, bytes: u64) -> (Duration, [u64; 2]) {
    let (before, started) = (sent(world, handle), world.now);
    let stream = world.client_conn(handle).streams().open(Dir::Bi).unwrap();
    world.client_conn(handle).pin_stream(stream, Some(path)).unwrap();
    let mut pump = Pump::new(stream, false, bytes);
    assert!(world.run_until(LIMIT, |world| pump.poke(world, handle)));
    let after = sent(world, handle);
    (world.now.saturating_since(started), [after[0] - before[0], after[1] - before[1]])
}

#[test]
fn a_pinned_stream_leaves_on_its_path() {
    for scheduler in SchedulerPolicy::NAMED {
        let (mut world, handle) = opened(setup(scheduler.clone()), link(40));
        for (path, other) in [(FIRST_PATH, 1), (SECOND_PATH, 0)] {
            let (_, sent) = upload(&mut world, handle, path, 300_000);
            assert!(sent[1 - other] > 300_000, "{scheduler}: {sent:?}");
            // Neither the end of a transfer nor a redundant scheduler copies what is pinned.
            assert!(sent[other] < 20_000, "{scheduler}: {sent:?}");
        }
    }
}

#[test]
fn streams_pinned_to_different_paths_do_not_hold_each_other_up() {
    let (mut world, handle) = opened(setup(SchedulerPolicy::LowestRtt), Link { rate: 50_000, ..link(40) });
    let mut pumps = [(FIRST_PATH, 2_000_000), (SECOND_PATH, 200_000)].map(|(path, bytes)| {
        let stream = world.client_conn(handle).streams().open(Dir::Bi).unwrap();
        world.client_conn(handle).pin_stream(stream, Some(path)).unwrap();
        Pump::new(stream, false, bytes)
    });
    let started = world.now;
    let [fast, slow] = &mut pumps;
    assert!(world.run_until(LIMIT, |world| {
        slow.poke(world, handle);
        fast.poke(world, handle)
    }));
    let took = world.now.saturating_since(started);
    assert!(took < ms(2_000), "2 MB at 10 Mbps, whatever the other path does: {took:?}");
    assert!(world.run_until(LIMIT, |world| slow.poke(world, handle)));
}

#[test]
fn a_pinned_stream_leaves_on_another_path_when_its_own_is_silent_or_gone() {
    let (mut world, handle) = opened(setup(SchedulerPolicy::LowestRtt), link(10));
    let stream = world.client_conn(handle).streams().open(Dir::Bi).unwrap();
    world.client_conn(handle).pin_stream(stream, Some(SECOND_PATH)).unwrap();
    let mut pump = Pump::new(stream, false, 1_000_000);
    let half = world.now + ms(300);
    world.run_until(ms(300), |world| pump.poke(world, handle) || world.now >= half);
    world.second = Some((SECOND, dead()));
    let cut = world.now;
    assert!(world.run_until(LIMIT, |world| pump.poke(world, handle)));
    assert!(world.now.saturating_since(cut) < ms(1_500));
    // Gone for good.
    let now = world.now;
    let code = thalweg_proto::TransportErrorCode::APPLICATION_ABANDON_PATH;
    let stream = world.client_conn(handle).streams().open(Dir::Bi).unwrap();
    world.client_conn(handle).pin_stream(stream, Some(SECOND_PATH)).unwrap();
    world.client_conn(handle).close_path(now, SECOND_PATH, code).unwrap();
    let mut pump = Pump::new(stream, false, 100_000);
    assert!(world.run_until(LIMIT, |world| pump.poke(world, handle)));
}

#[test]
fn a_stream_can_be_pinned_anew_and_released_while_it_is_sent() {
    let (mut world, handle) = opened(setup(SchedulerPolicy::LowestRtt), link(10));
    let stream = world.client_conn(handle).streams().open(Dir::Bi).unwrap();
    let mut pump = Pump::new(stream, false, 2_000_000);
    for pin in [Some(FIRST_PATH), Some(SECOND_PATH), None, Some(SECOND_PATH), Some(FIRST_PATH), None] {
        world.client_conn(handle).pin_stream(stream, pin).unwrap();
        world.client_conn(handle).streams().set_priority(stream, 3).unwrap();
        let until = world.now + ms(100);
        world.run_until(ms(100), |world| pump.poke(world, handle) || world.now >= until);
    }
    assert!(world.run_until(LIMIT, |world| pump.poke(world, handle)));
    world.run_for(ms(500));
    assert_eq!(world.client_conn(handle).pin_stream(stream, None), Err(PinError::ClosedStream));
}

#[test]
fn nothing_is_pinned_to_a_path_that_is_not_there() {
    let (mut world, handle) = opened(setup(SchedulerPolicy::LowestRtt), link(10));
    let client = world.client_conn(handle);
    let stream = client.streams().open(Dir::Bi).unwrap();
    assert_eq!(client.pin_stream(stream, Some(DataSpace(7))), Err(PinError::NoSuchPath));
    assert_eq!(client.send_datagram_on(DataSpace(7), Bytes::new()), Err(PinError::NoSuchPath));
    let large = client.send_datagram_on(SECOND_PATH, Bytes::from(vec![0; 2_000]));
    assert!(matches!(large, Err(PinError::Datagram(SendDatagramError::TooLarge { .. }))), "{large:?}");
}

/// On which path the client has sent each packet with a DATAGRAM.
type Log = Arc<Mutex<Vec<DataSpace>>>;

fn logged(mut setup: Setup) -> (Setup, Log) {
    let log = Log::default();
    let shared = log.clone();
    setup.observer = Some(harness::watch(move |side, _, event| {
        if let ObserverEvent::PacketSent(packet) = event
            && side == Side::Client
            && packet.kind == PacketKind::OneRtt
            && packet.frames.iter().any(|frame| matches!(frame, FrameInfo::Datagram { .. }))
        {
            shared.lock().unwrap().push(packet.space);
        }
    }));
    (setup, log)
}

fn arrived(world: &mut World) -> usize {
    std::iter::from_fn(|| world.server_conn().datagrams().recv()).count()
}

#[test]
fn a_pinned_datagram_leaves_on_its_path_or_on_another_if_that_is_gone() {
    let (setup, log) = logged(setup(SchedulerPolicy::LowestRtt));
    let (mut world, handle) = opened(setup, link(40));
    for path in [FIRST_PATH, SECOND_PATH, SECOND_PATH, FIRST_PATH] {
        world.client_conn(handle).send_datagram_on(path, Bytes::from_static(&[7; 100])).unwrap();
        world.pump();
        world.run_for(ms(100));
    }
    assert_eq!(*log.lock().unwrap(), [FIRST_PATH, SECOND_PATH, SECOND_PATH, FIRST_PATH]);
    assert_eq!(arrived(&mut world), 4);
    let now = world.now;
    world.client_conn(handle).send_datagram_on(SECOND_PATH, Bytes::from_static(&[7; 100])).unwrap();
    let code = thalweg_proto::TransportErrorCode::APPLICATION_ABANDON_PATH;
    world.client_conn(handle).close_path(now, SECOND_PATH, code).unwrap();
    world.pump();
    world.run_for(ms(100));
    assert_eq!(log.lock().unwrap().last(), Some(&FIRST_PATH));
    assert_eq!(arrived(&mut world), 1);
}

#[test]
fn a_redundant_scheduler_sends_every_datagram_on_every_path() {
    let (setup, log) = logged(setup(SchedulerPolicy::Redundant));
    let (mut world, handle) = opened(setup, link(40));
    for _ in 0..20 {
        let max = world.client_conn(handle).max_datagram_payload().unwrap();
        world.client_conn(handle).datagrams().send(Bytes::from_static(&[7; 100]), max + 3).unwrap();
        world.pump();
        world.run_for(ms(20));
    }
    world.run_for(ms(200));
    let on = |path| log.lock().unwrap().iter().filter(|on| **on == path).count();
    assert_eq!((on(FIRST_PATH), on(SECOND_PATH)), (20, 20));
    assert_eq!(arrived(&mut world), 40, "the application gets both copies");
    // A path that is cut takes nothing with it, and holds nothing up.
    world.second = Some((SECOND, dead()));
    for _ in 0..50 {
        let max = world.client_conn(handle).max_datagram_payload().unwrap();
        world.client_conn(handle).datagrams().send(Bytes::from_static(&[7; 100]), max + 3).unwrap();
        world.pump();
        world.run_for(ms(20));
    }
    world.run_for(ms(200));
    assert_eq!(arrived(&mut world), 50);
}

#[test]
fn a_redundant_scheduler_sends_streams_on_every_path_and_a_cut_costs_no_silence() {
    let (mut world, handle) = opened(setup(SchedulerPolicy::Redundant), link(10));
    let before = sent(&mut world, handle);
    assert!(world.transfer(handle, false, 1_000_000, LIMIT).is_some());
    let after = sent(&mut world, handle);
    for path in 0..2 {
        assert!(after[path] - before[path] > 800_000, "{before:?} {after:?}");
    }
    let stream = world.client_conn(handle).streams().open(Dir::Bi).unwrap();
    let mut pump = Pump::new(stream, false, 1_000_000);
    let (started, mut is_cut, mut last, mut gap, mut seen) = (world.now, false, world.now, Duration::ZERO, 0);
    assert!(world.run_until(LIMIT, |world| {
        if !is_cut && world.now >= started + ms(300) {
            (is_cut, world.second) = (true, Some((SECOND, dead())));
        }
        let done = pump.poke(world, handle);
        if pump.read() > seen {
            gap = gap.max(world.now.saturating_since(last));
            (seen, last) = (pump.read(), world.now);
        }
        done
    }));
    assert!(gap < ms(80), "{gap:?}");
}

#[test]
fn what_a_slow_path_was_given_leaves_again_on_a_fast_one_at_the_end() {
    let alone = {
        let (mut world, handle) = opened(setup(SchedulerPolicy::Backup), link(10));
        world.transfer(handle, false, 256_000, LIMIT).unwrap()
    };
    // 10 packets take more than half a second there.
    let slow = || Link { rate: 20_000, queue: 62_500, ..Link::new(ms(100)) };
    let (mut world, handle) = opened(setup(SchedulerPolicy::LowestRtt), slow());
    let before = sent(&mut world, handle);
    let took = world.transfer(handle, false, 256_000, LIMIT).unwrap();
    assert!(sent(&mut world, handle)[1] > before[1] + 10_000, "the slow path was given something");
    assert!(took < alone + ms(30), "{took:?} {alone:?}");
}
