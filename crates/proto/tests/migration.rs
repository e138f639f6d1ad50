//! Connections whose addresses change: NAT rebinding, migration, and attackers who only pretend (RFC 9000 sections 8.2,
//! 9).
#![allow(clippy::unwrap_used)]

use crate::harness;

use std::{
    cell::RefCell,
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    rc::Rc,
    sync::{Arc, Mutex},
    time::Duration,
};

use harness::{CLIENT, Host, Link, Packet, Pump, SERVER, Setup, World, tap::Tap, wire};
use thalweg_proto::{
    ConnectionError, ConnectionHandle, Event, PathEvent, Side, TransportConfig,
    observe::{FrameInfo, ObserverEvent},
    packet::Header,
    streams::{Dir, StreamsConfig},
};
use thalweg_recovery::trace;

const ZERO: Duration = Duration::ZERO;
const SECOND: Duration = Duration::from_secs(1);

const ELSEWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 7, 7)), 7777);

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// 20 ms each way and 10 Mbps.
fn broadband() -> Link {
    Link { rate: 1_250_000, ..Link::new(ms(20)) }
}

/// Ends whose credit keeps the link's queue short, and a client that lets a new NAT mapping be known.
fn modest(link: Link) -> Setup {
    let config = TransportConfig {
        streams: StreamsConfig {
            stream_receive_window: 80_000,
            receive_window: 80_000,
            max_stream_receive_window: 80_000,
            max_receive_window: 80_000,
            ..StreamsConfig::default()
        },
        keep_alive: Some(ms(200)),
        ..TransportConfig::default()
    };
    Setup { client: config.clone(), server: config, link, ..Setup::default() }
}

/// Whatever recovery declares lost, at either end, by number of packets; and the sizes of packets with path frames.
#[derive(Default)]
struct Tally {
    lost: [u64; 2],
    spurious: [u64; 2],
    challenges: Vec<(Side, u32)>,
    responses: Vec<(Side, u32)>,
}

fn tally(setup: Setup) -> (World, Arc<Mutex<Tally>>) {
    let tally = Arc::new(Mutex::new(Tally::default()));
    let shared = tally.clone();
    let observer = harness::watch(move |side, _, event| {
        let mut tally = shared.lock().unwrap();
        match event {
            ObserverEvent::Recovery { event: trace::Event::PacketLost { .. }, .. } => tally.lost[side as usize] += 1,
            ObserverEvent::Recovery { event: trace::Event::SpuriousLoss { .. }, .. } => {
                tally.spurious[side as usize] += 1;
            }
            ObserverEvent::PacketSent(packet) => {
                if packet.frames.iter().any(|frame| matches!(frame, FrameInfo::PathChallenge)) {
                    tally.challenges.push((side, packet.size));
                }
                if packet.frames.iter().any(|frame| matches!(frame, FrameInfo::PathResponse)) {
                    tally.responses.push((side, packet.size));
                }
            }
            _ => {}
        }
    });
    (World::new(Setup { observer: Some(observer), ..setup }), tally)
}

fn path_events(host: &Host) -> Vec<PathEvent> {
    let mtu = |event: &PathEvent| matches!(event, PathEvent::Mtu { .. });
    let of = |event: &Event| if let Event::Path(event) = event { Some(*event) } else { None };
    host.events.iter().filter_map(|(_, event)| of(event)).filter(|event| !mtu(event)).collect()
}

/// Starts a transfer and runs until about `part` of its time has passed.
fn start(world: &mut World, handle: ConnectionHandle, download: bool, len: u64, part: Duration) -> Pump {
    let stream = world.client_conn(handle).streams().open(Dir::Bi).expect("a stream");
    let mut pump = Pump::new(stream, download, len);
    pump.poke(world, handle);
    world.pump();
    assert!(!world.run_until(part, |world| pump.poke(world, handle)), "over before the address changed");
    pump
}

#[track_caller]
fn finish(world: &mut World, handle: ConnectionHandle, mut pump: Pump, limit: Duration) {
    let done = world.run_until(limit, |world| pump.poke(world, handle));
    assert!(done, "{:?} {:?} {:?}", world.client_error(), world.server_error(), world.server.events);
}

/// The client's packets come from `address` from now on; what is on its way to the old address still arrives if
/// `keeps`.
fn move_client(world: &mut World, address: SocketAddr, keeps: bool) {
    let old = std::mem::replace(&mut world.client.address, address);
    world.client.former.clear();
    if keeps {
        world.client.former.push(old);
    }
}

#[test]
fn a_nat_rebinding_is_followed_validated_and_keeps_what_is_known_of_the_path() {
    for download in [true, false] {
        let (mut world, tally) = tally(modest(broadband()));
        let handle = world.handshake();
        let pump = start(&mut world, handle, download, 3_000_000, SECOND);
        let before = world.server_conn().stats();
        let rebound = SocketAddr::new(CLIENT.ip(), 2000);
        move_client(&mut world, rebound, true);
        world.run_for(ms(200));
        let after = world.server_conn().stats();
        assert_eq!(world.server_conn().remote_address(), rebound);
        assert!(world.server_conn().is_address_validated());
        assert!(after.window >= before.window, "{} then {}", before.window, after.window);
        assert!(after.min_rtt <= before.min_rtt && after.path.packets_sent >= before.path.packets_sent);
        assert_eq!(
            path_events(&world.server),
            [PathEvent::Changed { remote: rebound }, PathEvent::Validated { remote: rebound }]
        );
        finish(&mut world, handle, pump, 20 * SECOND);
        assert_eq!(tally.lock().unwrap().lost, [0, 0]);
    }
}

#[test]
fn a_nat_rebinding_that_drops_what_is_in_flight_is_survived() {
    for download in [true, false] {
        let mut world = World::new(modest(broadband()));
        let handle = world.handshake();
        let mut pump = start(&mut world, handle, download, 3_000_000, ms(500));
        for port in 2000..2006 {
            move_client(&mut world, SocketAddr::new(CLIENT.ip(), port), false);
            assert!(!world.run_until(ms(250), |world| pump.poke(world, handle)));
        }
        finish(&mut world, handle, pump, 20 * SECOND);
        assert_eq!(world.server_conn().remote_address().port(), 2005);
    }
}

#[test]
fn mtu_discovery_goes_on_after_a_rebinding_in_its_middle() {
    for after in [0, 10, 20, 30, 40, 50, 60, 80] {
        let mut world = World::new(modest(broadband()));
        let handle = world.handshake();
        let pump = start(&mut world, handle, true, 3_000_000, ms(after));
        move_client(&mut world, SocketAddr::new(CLIENT.ip(), 2000), false);
        finish(&mut world, handle, pump, 20 * SECOND);
        world.run_for(2 * SECOND);
        assert_eq!(world.server_conn().path_mtu(), 1452, "moved after {after} ms");
    }
}

#[test]
fn another_ip_address_starts_with_fresh_congestion_state_and_loses_nothing() {
    // The new path is slower by 60 ms: what was sent by the old one is overtaken for a while.
    for (download, detour) in [(true, 60), (false, 60), (true, 0), (false, 0)] {
        let mut link = broadband();
        link.meddle = Box::new(move |packet, _| {
            let on_new = packet.from.ip() == ELSEWHERE.ip() || packet.to.ip() == ELSEWHERE.ip();
            vec![(if on_new { ms(detour) } else { ZERO }, packet)]
        });
        let (mut world, tally) = tally(modest(link));
        let handle = world.handshake();
        let pump = start(&mut world, handle, download, 3_000_000, SECOND);
        let (sender, before) = match download {
            true => (Side::Server, world.server_conn().stats()),
            false => (Side::Client, world.client_conn(handle).stats()),
        };
        assert!(before.window > 30_000);
        move_client(&mut world, ELSEWHERE, true);
        let now = world.now;
        world.client_conn(handle).local_address_changed(now, Some(ELSEWHERE.ip()));
        world.pump();
        world.run_for(ms(50) + ms(detour));
        let after = match sender {
            Side::Server => world.server_conn().stats(),
            Side::Client => world.client_conn(handle).stats(),
        };
        assert!(after.window < before.window, "{} then {}", before.window, after.window);
        finish(&mut world, handle, pump, 20 * SECOND);
        assert_eq!(world.server_conn().remote_address(), ELSEWHERE);
        let events = path_events(&world.server);
        assert!(events.contains(&PathEvent::Validated { remote: ELSEWHERE }), "{events:?}");
        let tally = tally.lock().unwrap();
        assert_eq!(tally.lost, [0, 0], "download {download}, detour {detour} ms: false losses");
    }
}

#[test]
fn after_a_migration_both_ends_use_connection_ids_not_seen_before() {
    let ids = Rc::new(RefCell::new(BTreeMap::<(SocketAddr, bool), Vec<Vec<u8>>>::new()));
    let seen = ids.clone();
    let mut link = broadband();
    link.meddle = Box::new(move |packet: Packet, _| {
        for part in wire::parse(&packet.bytes) {
            if let Header::Short { dcid, .. } = part.header {
                let to_server = packet.is_from_client();
                let client = if to_server { packet.from } else { packet.to };
                let ids = &mut *seen.borrow_mut();
                let list = ids.entry((client, to_server)).or_default();
                if !list.contains(&dcid.as_slice().to_vec()) {
                    list.push(dcid.as_slice().to_vec());
                }
            }
        }
        vec![(ZERO, packet)]
    });
    let mut world = World::new(Setup { link, ..Setup::default() });
    let handle = world.handshake();
    let pump = start(&mut world, handle, true, 2_000_000, ms(500));
    move_client(&mut world, ELSEWHERE, false);
    let now = world.now;
    world.client_conn(handle).local_address_changed(now, Some(ELSEWHERE.ip()));
    world.pump();
    finish(&mut world, handle, pump, 20 * SECOND);
    let ids = ids.borrow();
    for to_server in [true, false] {
        let (old, new) = (&ids[&(CLIENT, to_server)], &ids[&(ELSEWHERE, to_server)]);
        assert!(!new.is_empty());
        // RFC 9000 section 9.5. The server may probe with the old one before it has decided to follow.
        assert!(new.iter().all(|id| !old.contains(id)), "to the server {to_server}: {old:?} and {new:?}");
    }
}

#[test]
fn path_challenges_and_responses_travel_in_full_datagrams() {
    let (mut world, tally) = tally(modest(broadband()));
    let handle = world.handshake();
    // An upload earns the server enough budget at once.
    let pump = start(&mut world, handle, false, 2_000_000, ms(500));
    move_client(&mut world, SocketAddr::new(CLIENT.ip(), 2000), true);
    finish(&mut world, handle, pump, 20 * SECOND);
    let tally = tally.lock().unwrap();
    assert!(tally.challenges.iter().any(|(side, _)| *side == Side::Server));
    assert!(tally.responses.iter().any(|(side, _)| *side == Side::Client));
    for (side, size) in tally.challenges.iter().chain(&tally.responses) {
        assert!(*size >= 1200, "{size} bytes from the {side:?}");
    }
}

/// RFC 9000 section 8.2.1: a challenge that could not be padded proves the address, and another proves the size.
#[test]
fn a_challenge_too_small_for_the_path_is_followed_by_a_full_one() {
    let (mut world, tally) = tally(Setup::default());
    let handle = world.handshake();
    world.run_for(3 * SECOND);
    move_client(&mut world, SocketAddr::new(CLIENT.ip(), 2000), false);
    // A small packet from the new address.
    world.client_conn(handle).ping();
    world.pump();
    world.run_for(3 * SECOND);
    let tally = tally.lock().unwrap();
    let sizes: Vec<_> = tally.challenges.iter().filter(|(side, _)| *side == Side::Server).collect();
    let small = sizes.iter().position(|(_, size)| *size < 1200).expect("the address had not earned 1200 bytes");
    assert!(sizes[small..].iter().any(|(_, size)| *size >= 1200), "{sizes:?}");
}

// Attackers.

/// Bytes that arrived from and were sent to each client address.
type Ledger = Rc<RefCell<BTreeMap<SocketAddr, (u64, u64)>>>;

/// Copies the client's datagrams for which `copied` says so: the copy claims to come from `ELSEWHERE` and arrives
/// first. Keeps a ledger. Checks on the way that `ELSEWHERE`, which never answers, gets at most three times what it
/// "sent".
fn attacked(mut copied: impl FnMut(&Packet) -> bool + 'static, original_lost: bool) -> (Link, Ledger) {
    let ledger = Ledger::default();
    let book = ledger.clone();
    let mut link = Link::new(ms(20));
    link.meddle = Box::new(move |packet, _| {
        let mut ledger = book.borrow_mut();
        if !packet.is_from_client() {
            let entry = ledger.entry(packet.to).or_default();
            entry.1 += packet.bytes.len() as u64;
            assert!(packet.to != ELSEWHERE || entry.1 <= 3 * entry.0, "{} bytes for {}", entry.1, entry.0);
            return vec![(ZERO, packet)];
        }
        let len = packet.bytes.len() as u64;
        ledger.entry(packet.from).or_default().0 += len;
        if !copied(&packet) {
            return vec![(ms(1), packet)];
        }
        ledger.entry(ELSEWHERE).or_default().0 += len;
        let copy = Packet { from: ELSEWHERE, ..packet.clone() };
        let mut fate = vec![(ZERO, copy)];
        if !original_lost {
            fate.push((ms(1), packet));
        }
        fate
    });
    (link, ledger)
}

#[test]
fn an_attacker_who_copies_a_few_packets_does_not_capture_the_connection() {
    for download in [true, false] {
        for first in [12, 20, 40] {
            let (link, ledger) = attacked(move |packet| (first..first + 3).contains(&packet.ordinal), false);
            let mut world = World::new(Setup { link, ..Setup::default() });
            let handle = world.handshake();
            let took = world.transfer(handle, download, 1_000_000, 20 * SECOND);
            assert!(took.is_some(), "{:?} {:?}", world.client_error(), world.server_error());
            assert!(took.unwrap() < 3 * SECOND, "download {download}: {took:?}");
            assert_eq!(world.server_conn().remote_address(), CLIENT);
            assert!(ledger.borrow().contains_key(&ELSEWHERE));
        }
    }
}

#[test]
fn an_attacker_who_copies_every_packet_for_a_while_does_not_capture_the_connection() {
    for download in [true, false] {
        let (link, _) = attacked(|packet| (20..60).contains(&packet.ordinal), false);
        let mut world = World::new(Setup { link, ..Setup::default() });
        let handle = world.handshake();
        let took = world.transfer(handle, download, 1_000_000, 60 * SECOND);
        assert!(took.is_some(), "{:?} {:?}", world.client_error(), world.server_error());
        world.run_for(5 * SECOND);
        world.transfer(handle, download, 10_000, 10 * SECOND).expect("a later transfer");
        assert_eq!(world.server_conn().remote_address(), CLIENT);
    }
}

#[test]
fn a_failed_validation_falls_back_to_the_last_address_that_was_validated() {
    // One packet is copied and its original lost; then the client is cut off, so that nothing else leads back to it.
    let cut = Rc::new(RefCell::new(false));
    let is_cut = cut.clone();
    let (mut link, _) = attacked(|packet| packet.ordinal == u64::MAX, true);
    let mut inner = std::mem::replace(&mut link.meddle, Box::new(|_, _| vec![]));
    link.meddle = Box::new(move |mut packet, rng| {
        if packet.is_from_client() && *is_cut.borrow() {
            return vec![];
        }
        if packet.is_from_client() && packet.ecn == thalweg_recovery::Ecn::Ce {
            packet.ordinal = u64::MAX;
        }
        inner(packet, rng)
    });
    let mut world = World::new(Setup { link, ..Setup::default() });
    let handle = world.handshake();
    world.run_for(SECOND);
    // The packet the attacker takes.
    let next = world.client.sent;
    let mut inner = std::mem::replace(&mut world.link.meddle, Box::new(|_, _| vec![]));
    world.link.meddle = Box::new(move |mut packet, rng| {
        if packet.is_from_client() && packet.ordinal == next {
            packet.ecn = thalweg_recovery::Ecn::Ce;
        }
        inner(packet, rng)
    });
    world.client_conn(handle).ping();
    world.pump();
    *cut.borrow_mut() = true;
    world.run_for(ms(100));
    assert_eq!(world.server_conn().remote_address(), ELSEWHERE, "the server follows at first");
    world.run_for(15 * SECOND);
    assert_eq!(world.server_conn().remote_address(), CLIENT, "{:?}", path_events(&world.server));
    *cut.borrow_mut() = false;
    assert!(world.transfer(handle, true, 100_000, 10 * SECOND).is_some());
    let events = path_events(&world.server);
    assert!(!events.contains(&PathEvent::Validated { remote: ELSEWHERE }), "{events:?}");
}

#[test]
fn a_server_that_forbids_migration_ignores_other_addresses() {
    let sent_elsewhere = Rc::new(RefCell::new(0));
    let count = sent_elsewhere.clone();
    let mut link = Link::new(ms(20));
    link.meddle = Box::new(move |packet, _| {
        *count.borrow_mut() += u32::from(!packet.is_from_client() && packet.to != CLIENT);
        vec![(ZERO, packet)]
    });
    let mut world =
        World::new(Setup { link, tweak_server: Box::new(|config| config.migration = false), ..Setup::default() });
    let handle = world.handshake();
    assert!(world.client_conn(handle).peer_transport_parameters().disable_active_migration);
    move_client(&mut world, ELSEWHERE, false);
    assert_eq!(world.transfer(handle, true, 1_000, 10 * SECOND), None);
    assert_eq!(*sent_elsewhere.borrow(), 0);
    // Back at the old address all is well again.
    move_client(&mut world, CLIENT, false);
    assert!(world.transfer(handle, true, 1_000, 10 * SECOND).is_some());
}

#[test]
fn an_address_change_before_the_handshake_is_confirmed_is_not_followed() {
    let (link, ledger) = attacked(|packet| (1..3).contains(&packet.ordinal), false);
    let mut world = World::new(Setup { link, ..Setup::default() });
    let handle = world.handshake();
    assert_eq!(world.server_conn().remote_address(), CLIENT);
    assert_eq!(ledger.borrow()[&ELSEWHERE].1, 0);
    assert!(world.transfer(handle, true, 10_000, 10 * SECOND).is_some());
}

#[test]
fn a_client_ignores_packets_from_addresses_other_than_the_servers() {
    let mut link = Link::new(ms(20));
    link.meddle = Box::new(|packet, _| {
        if packet.is_from_client() {
            return vec![(ZERO, packet)];
        }
        let copy = Packet { from: ELSEWHERE, ..packet.clone() };
        vec![(ZERO, copy), (ms(1), packet)]
    });
    let mut world = World::new(Setup { link, ..Setup::default() });
    let handle = world.handshake();
    assert!(world.transfer(handle, true, 100_000, 10 * SECOND).is_some());
    assert_eq!(world.client_conn(handle).remote_address(), SERVER);
}

#[test]
fn transfers_survive_addresses_that_change_again_and_again_under_loss() {
    for seed in 0..20u64 {
        let link = Link::lossy(ms(20), 5);
        let mut world = World::new(Setup { seed, link, ..Setup::default() });
        let handle = world.handshake();
        let download = seed % 2 == 0;
        let stream = world.client_conn(handle).streams().open(Dir::Bi).unwrap();
        let mut pump = Pump::new(stream, download, 600_000);
        let mut done = false;
        for step in 0..400u16 {
            done = world.run_until(ms(130 + seed * 7), |world| pump.poke(world, handle));
            if done {
                break;
            }
            let ip = IpAddr::V4(Ipv4Addr::new(10, 0, 3, (step % 7) as u8));
            match step % 3 {
                0 => {
                    let port = world.client.address.port() + 1;
                    let ip = world.client.address.ip();
                    move_client(&mut world, SocketAddr::new(ip, port), step % 2 == 0);
                }
                1 => {
                    move_client(&mut world, SocketAddr::new(ip, 4000 + step), step % 2 == 0);
                    let now = world.now;
                    world.client_conn(handle).local_address_changed(now, Some(ip));
                    world.pump();
                }
                // Moved without knowing it.
                _ => move_client(&mut world, SocketAddr::new(ip, 4000 + step), step % 4 == 0),
            }
        }
        assert!(done, "seed {seed}: {:?} {:?}", world.client_error(), world.server_error());
    }
}

#[test]
fn a_connection_that_cannot_validate_any_address_ends() {
    let config = TransportConfig { max_idle_timeout: None, ..TransportConfig::default() };
    let mut world = World::new(Setup { client: config.clone(), server: config, ..Setup::default() });
    let handle = world.handshake();
    world.run_for(SECOND);
    // The client is gone; one last packet of it came from an address where nobody listens.
    world.client.address = ELSEWHERE;
    world.client_conn(handle).ping();
    world.pump();
    world.link.meddle = Box::new(|_, _| vec![]);
    world.run_for(120 * SECOND);
    // Without an idle timeout the old, validated address is kept; the server does not flood it.
    assert_eq!(world.server_conn().remote_address(), CLIENT);
    assert_eq!(world.server_error(), None::<ConnectionError>);
    let sent = world.server.sent;
    world.run_for(120 * SECOND);
    assert!(world.server.sent - sent < 20, "{} datagrams in two minutes", world.server.sent - sent);
}

#[test]
fn an_answer_that_makes_paths_superfluous_may_be_followed_by_a_challenge_in_the_same_packet() {
    let tap = Tap::default();
    let client = tap.clone();
    let tweak_client = Box::new(move |config: &mut thalweg_proto::ClientConfig| client.client(config));
    let mut world = World::new(Setup { tweak_client, ..modest(broadband()) });
    let handle = world.handshake();
    tap.challenge_after_response();
    for port in 2000..2003 {
        move_client(&mut world, SocketAddr::new(CLIENT.ip(), port), true);
        assert!(world.transfer(handle, false, 100_000, 20 * SECOND).is_some(), "{:?}", world.server_error());
        assert!(world.server_conn().is_address_validated());
    }
    assert!(tap.told() > 0, "no packet carried both");
}
