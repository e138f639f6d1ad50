//! Probes after a silence, and handshakes that do not wait for one (RFC 9002 sections 6.2.3 and 6.2.4).
#![allow(clippy::unwrap_used)]

use crate::harness;

use std::{
    cell::RefCell,
    rc::Rc,
    sync::{Arc, Mutex},
    time::Duration,
};

use harness::{Fate, Link, Packet, Pump, Setup, World, watch};
use thalweg_proto::{
    Connection, ConnectionHandle, Side,
    crypto::{
        config::TlsOptions,
        deterministic::{test_certificate, test_key},
        null::{NullClient, NullServer},
        rustls::{RustlsClient, RustlsServer},
    },
    observe::{FrameInfo, ObserverEvent, ObserverFactory, PacketKind},
    streams::Dir,
};
use thalweg_recovery::Ecn;
use thalweg_units::Instant;

const ZERO: Duration = Duration::ZERO;
const SECOND: Duration = Duration::from_secs(1);

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn passes(packet: Packet) -> Fate {
    vec![(ZERO, packet)]
}

/// A link of 20 ms that does what `meddle` says.
fn link(meddle: impl FnMut(Packet, &mut rand_chacha::ChaCha8Rng) -> Fate + 'static) -> Link {
    Link { meddle: Box::new(meddle), ..Link::new(ms(20)) }
}

fn both_confirmed(world: &World, handle: ConnectionHandle) -> bool {
    world.client.connections.get(&handle).is_some_and(Connection::is_confirmed)
        && world.server.connections.values().any(Connection::is_confirmed)
}

/// A server whose certificate chain takes about `certificates` times 300 bytes, and a client that takes any.
fn large_certificates(certificates: usize) -> Setup {
    Setup {
        tweak_client: Box::new(|config| {
            let tls = TlsOptions::new(&[b"test"]).client_insecure().unwrap();
            config.crypto = Arc::new(NullClient::new(Arc::new(RustlsClient::new(Arc::new(tls)))));
        }),
        tweak_server: Box::new(move |config| {
            let chain = vec![test_certificate(); certificates];
            let tls = TlsOptions::new(&[b"test"]).server(chain, test_key()).unwrap();
            config.crypto = Arc::new(NullServer::new(Arc::new(RustlsServer::new(Arc::new(tls)))));
        }),
        ..Setup::default()
    }
}

/// How long handshakes take, sorted: until the client has completed them, and until both ends have confirmed them.
/// Those that fail count as forever.
fn handshakes(seeds: u64, setup: impl Fn(u64) -> Setup) -> [Vec<Duration>; 2] {
    let [mut completed, mut confirmed] = [Vec::new(), Vec::new()];
    for seed in 0..seeds {
        let mut world = World::new(Setup { seed, ..setup(seed) });
        let started = world.now;
        let handle = world.connect();
        let is_done = |world: &mut World| world.client.connections.get(&handle).is_some_and(|c| !c.is_handshaking());
        let done = world.run_until(100 * SECOND, is_done);
        completed.push(if done { world.now.saturating_since(started) } else { Duration::MAX });
        let done = world.run_until(100 * SECOND, |world| both_confirmed(world, handle));
        confirmed.push(if done { world.now.saturating_since(started) } else { Duration::MAX });
    }
    [completed, confirmed].map(|mut times| {
        times.sort();
        times
    })
}

/// The smallest of sorted values that `per_mille` of 1,000 do not exceed.
fn percentile(sorted: &[Duration], per_mille: usize) -> Duration {
    sorted[(sorted.len() * per_mille).div_ceil(1000).clamp(1, sorted.len()) - 1]
}

/// One sent packet: who, when, and its frames in brief.
#[derive(Clone, Debug)]
struct SentPacket {
    by: Side,
    at: Instant,
    kind: PacketKind,
    frames: Vec<FrameInfo>,
}

impl SentPacket {
    fn crypto_offsets(&self) -> Vec<u64> {
        let offsets = self.frames.iter().filter_map(|frame| match frame {
            FrameInfo::Crypto { offset, .. } => Some(*offset),
            _ => None,
        });
        offsets.collect()
    }

    fn stream_ranges(&self) -> Vec<std::ops::Range<u64>> {
        let ranges = self.frames.iter().filter_map(|frame| match frame {
            FrameInfo::Stream { offset, len, .. } => Some(*offset..*offset + u64::from(*len)),
            _ => None,
        });
        ranges.collect()
    }
}

type Log = Arc<Mutex<Vec<SentPacket>>>;

/// Records every packet sent.
fn recorder() -> (Arc<dyn ObserverFactory>, Log) {
    let log = Log::default();
    let seen = log.clone();
    let observer = watch(move |by, at, event| {
        if let ObserverEvent::PacketSent(packet) = event {
            let sent = SentPacket { by, at, kind: packet.kind, frames: packet.frames.to_vec() };
            seen.lock().unwrap().push(sent);
        }
    });
    (observer, log)
}

// What probes carry.

/// The server's first flight never arrives.
#[test]
fn rfc9002_6_2_4_both_probe_datagrams_of_a_handshake_carry_crypto_data_of_all_spaces() {
    let (observer, log) = recorder();
    // The server's first flight is lost as a whole: it has Initial and Handshake data outstanding.
    let link = link(|packet, _| if packet.is_from_client() { passes(packet) } else { vec![] });
    let mut world = World::new(Setup { observer: Some(observer), link, ..Setup::default() });
    world.connect();
    world.run_for(ms(900));
    let first = log.lock().unwrap().len();
    // The client stays silent, so that the server's own timer does it.
    world.link.meddle = Box::new(|_, _| vec![]);
    world.run_for(ms(600));
    let log = log.lock().unwrap();
    let probes: Vec<_> = log[first..].iter().filter(|packet| packet.by == Side::Server).collect();
    let of = |kind| probes.iter().filter(|packet| packet.kind == kind).collect::<Vec<_>>();
    let [initial, handshake] = [of(PacketKind::Initial), of(PacketKind::Handshake)];
    assert_eq!((initial.len(), handshake.len()), (2, 2), "{probes:?}");
    for packets in [&initial, &handshake] {
        let offsets: Vec<_> = packets.iter().map(|packet| packet.crypto_offsets()).collect();
        assert!(offsets.iter().all(|offsets| !offsets.is_empty()), "a probe without data: {probes:?}");
        assert_eq!(offsets[0][0], 0, "the oldest first");
    }
}

/// The tail of a transfer is lost: the probes repeat it from the oldest byte on, and both are full.
#[test]
fn rfc9002_6_2_4_probes_without_new_data_repeat_the_oldest_in_full_datagrams() {
    for small in [false, true] {
        let (observer, log) = recorder();
        let policies = "ack-rate=off".parse().unwrap();
        let client = thalweg_proto::TransportConfig { policies, ..Default::default() };
        let mut world = World::new(Setup { client, observer: Some(observer), ..Setup::default() });
        let handle = world.handshake();
        world.run_for(SECOND);
        world.link.meddle = Box::new(|_, _| vec![]);
        let client = world.client_conn(handle);
        let stream = client.streams().open(Dir::Bi).unwrap();
        let before = log.lock().unwrap().len();
        if small {
            // Twenty packets of 100 bytes.
            for _ in 0..20 {
                world.client_conn(handle).streams().write(stream, &[1; 100]).unwrap();
                world.pump();
            }
        } else {
            client.streams().write(stream, &[1; 5000]).unwrap();
            world.pump();
        }
        let first_flight = log.lock().unwrap().len();
        world.run_until(SECOND, |_| log.lock().unwrap().len() > first_flight);
        world.run_for(ZERO);
        let log = log.lock().unwrap();
        assert!(first_flight - before >= 4);
        let probes: Vec<_> = log[first_flight..].iter().filter(|packet| packet.at == log[first_flight].at).collect();
        assert_eq!(probes.len(), 2, "{probes:?}");
        let ranges: Vec<_> = probes.iter().map(|probe| probe.stream_ranges()).collect();
        assert_eq!(ranges[0][0].start, 0, "the oldest first: {ranges:?}");
        let lens: Vec<u64> =
            ranges.iter().map(|ranges| ranges.iter().map(|range| range.end - range.start).sum()).collect();
        if small {
            assert_eq!(lens.iter().sum::<u64>(), 2000, "bytes in the probes: {lens:?}");
        } else {
            assert!(lens.iter().all(|len| *len > 1000), "bytes in the probes: {lens:?}");
        }
        let ends: Vec<u64> = ranges.iter().map(|ranges| ranges.last().unwrap().end).collect();
        assert_eq!(ranges[1][0].start, ends[0], "the second goes on where the first ended: {ranges:?}");
    }
}

#[test]
fn rfc9002_6_2_4_the_second_probe_repeats_the_same_when_there_is_no_more() {
    let (observer, log) = recorder();
    let mut world = World::new(Setup { observer: Some(observer), ..Setup::default() });
    let handle = world.handshake();
    world.run_for(SECOND);
    world.link.meddle = Box::new(|_, _| vec![]);
    let client = world.client_conn(handle);
    let stream = client.streams().open(Dir::Bi).unwrap();
    client.streams().write(stream, b"the only bytes").unwrap();
    world.pump();
    let first_flight = log.lock().unwrap().len();
    world.run_for(SECOND);
    let log = log.lock().unwrap();
    let probes: Vec<_> = log[first_flight..].iter().filter(|packet| packet.at == log[first_flight].at).collect();
    let ranges: Vec<_> = probes.iter().map(|probe| probe.stream_ranges()).collect();
    assert_eq!(ranges.concat(), [0..14, 0..14]);
    assert_eq!(ranges.len(), 2);
}

#[test]
fn rfc9002_6_2_4_probes_carry_new_data_and_fill_up_with_the_oldest() {
    let (observer, log) = recorder();
    let mut world = World::new(Setup { observer: Some(observer), ..Setup::default() });
    let handle = world.handshake();
    world.run_for(SECOND);
    world.link.meddle = Box::new(|_, _| vec![]);
    let client = world.client_conn(handle);
    let stream = client.streams().open(Dir::Bi).unwrap();
    // More than the initial window.
    client.streams().write(stream, &[1; 100_000]).unwrap();
    world.pump();
    let first_flight = log.lock().unwrap().len();
    let sent = log.lock().unwrap().iter().flat_map(SentPacket::stream_ranges).map(|range| range.end).max().unwrap();
    assert!(sent < 50_000, "the window is full");
    world.run_for(SECOND);
    let log = log.lock().unwrap();
    let probes: Vec<_> = log[first_flight..].iter().filter(|packet| packet.at == log[first_flight].at).collect();
    assert_eq!(probes.len(), 2);
    assert_eq!(probes[0].stream_ranges()[0].start, sent, "new data");
    assert!(probes.iter().all(|probe| probe.stream_ranges().iter().map(|r| r.end - r.start).sum::<u64>() > 1000));
}

/// 500 handshakes with 30 % loss each way.
#[test]
fn handshakes_under_heavy_loss_are_quick() {
    let [times, _] = handshakes(500, |_| Setup { null: true, link: Link::lossy(ms(20), 30), ..Setup::default() });
    let slowest = times[450..].iter().sum::<Duration>() / 50;
    assert!(slowest <= ms(2900), "the slowest tenth takes {slowest:?} on average, the longest {:?}", times.last());
}

/// Run with `--ignored --nocapture`: how long handshakes take under heavy loss, and with a large certificate chain.
#[test]
#[ignore = "prints figures"]
fn measure_handshakes() {
    let print = |what: &str, times: &[Vec<Duration>; 2]| {
        for (until, times) in ["complete at the client", "confirmed at both ends"].iter().zip(times) {
            let figures = [500, 900, 950, 990, 999].map(|per_mille| percentile(times, per_mille).as_millis());
            println!("{what}, {until}: p50, p90, p95, p99, p99.9 = {figures:?} ms of {}", times.len());
        }
    };
    let times = handshakes(3000, |_| Setup { null: true, link: Link::lossy(ms(20), 30), ..Setup::default() });
    print("30 % loss each way, RTT 40 ms", &times);
    for one_way in [5, 20] {
        let times = handshakes(3000, |_| Setup { link: Link::lossy(ms(one_way), 3), ..large_certificates(8) });
        print(&format!("3 % loss each way, 8 certificates, RTT {} ms", 2 * one_way), &times);
    }
}

// Handshakes that do not wait for the timer.

/// The server's first datagram is lost; the client cannot read the others and asks at once.
#[test]
fn rfc9002_6_2_3_a_client_with_handshake_packets_it_cannot_read_repeats_its_hello() {
    let link = link(|packet, _| if !packet.is_from_client() && packet.ordinal == 0 { vec![] } else { passes(packet) });
    let mut world = World::new(Setup { link, ..large_certificates(8) });
    let started = world.now;
    let handle = world.connect();
    assert!(world.run_until(10 * SECOND, |world| both_confirmed(world, handle)));
    let took = world.now.saturating_since(started);
    // Two round trips and a half of 40 ms, eight certificates, and a train of packets that leaves evenly after the
    // loss.
    assert!(took <= ms(126), "took {took:?}");
}

/// The server answers a repeated hello at once, instead of when its timer says so.
#[test]
fn rfc9002_6_2_3_a_server_that_gets_a_hello_again_repeats_its_flight() {
    // All that the server sends in the first 500 ms is lost; the client probes after 600 ms, the server would later.
    let (observer, log) = recorder();
    let started = World::new(Setup::default()).now;
    let clock = Rc::new(RefCell::new(started));
    let seen = clock.clone();
    let link = link(move |packet, _| {
        let early = seen.borrow().saturating_since(started) < ms(500);
        if !packet.is_from_client() && early { vec![] } else { passes(packet) }
    });
    let client = thalweg_proto::TransportConfig { initial_rtt: ms(200), ..Default::default() };
    let mut world = World::new(Setup { client, observer: Some(observer), link, ..large_certificates(4) });
    let handle = world.connect();
    assert!(world.run_until(10 * SECOND, |world| {
        *clock.borrow_mut() = world.now;
        both_confirmed(world, handle)
    }));
    let took = world.now.saturating_since(started);
    // 600 ms for the client's probe, and from then on two round trips.
    assert!(took <= ms(700), "took {took:?}: {:?}", log.lock().unwrap().len());
}

/// A client that repeats its hello for ever gets few answers ahead of the timer.
#[test]
fn rfc9002_6_2_3_a_handshake_is_sped_up_a_few_times_at_most() {
    let (observer, log) = recorder();
    let mut world = World::new(Setup {
        observer: Some(observer),
        link: link(|packet, _| if packet.is_from_client() { passes(packet) } else { vec![] }),
        client: thalweg_proto::TransportConfig { initial_rtt: ms(10), ..Default::default() },
        ..large_certificates(8)
    });
    world.connect();
    world.run_for(ms(900));
    // The client's timer expires again and again; every probe is a hello.
    let log = log.lock().unwrap();
    let hellos = |by| log.iter().filter(move |packet| packet.by == by && packet.crypto_offsets().contains(&0));
    let of_client = hellos(Side::Client).count();
    let of_server = hellos(Side::Server).filter(|packet| packet.kind == PacketKind::Initial).count();
    assert!(of_client >= 8, "{of_client} hellos");
    assert!(of_server > 1 && of_server <= 1 + 2 * 3, "{of_client} hellos were answered {of_server} times");
}

#[test]
fn handshakes_with_a_large_chain_survive_single_losses_without_a_timeout() {
    let [times, _] = handshakes(1000, |_| Setup { link: Link::lossy(ms(20), 3), ..large_certificates(8) });
    let (p50, p95) = (percentile(&times, 500), percentile(&times, 950));
    assert!(p95 <= ms(220), "p50 {p50:?}, p95 {p95:?}");
}

// Paths that swallow packets marked ECT.

/// What the link swallows.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Swallows {
    FromClient,
    FromServer,
    Both,
}

#[test]
fn rfc9000_13_4_2_a_handshake_over_a_path_that_swallows_marked_packets_takes_a_second_and_a_half_at_most() {
    for swallows in [Swallows::FromClient, Swallows::FromServer, Swallows::Both] {
        for certificates in [1, 8] {
            let link = link(move |packet, _| {
                let is_concerned = match swallows {
                    Swallows::FromClient => packet.is_from_client(),
                    Swallows::FromServer => !packet.is_from_client(),
                    Swallows::Both => true,
                };
                if is_concerned && packet.ecn != Ecn::NotEct { vec![] } else { passes(packet) }
            });
            let mut world = World::new(Setup { link, ..large_certificates(certificates) });
            let started = world.now;
            let handle = world.connect();
            assert!(world.run_until(20 * SECOND, |world| both_confirmed(world, handle)), "{swallows:?}");
            let took = world.now.saturating_since(started);
            assert!(took <= ms(1500), "{swallows:?}, {certificates} certificates: {took:?}");
            // And then the connection is usable.
            let took = world.transfer(handle, true, 100_000, 20 * SECOND).unwrap();
            assert!(took <= SECOND, "{swallows:?}, {certificates} certificates: 100 kB in {took:?}");
        }
    }
}

/// A path that carries marks and loses the first packet goes on to be tested.
#[test]
fn a_single_loss_in_the_servers_flight_does_not_turn_marks_off() {
    for lost in 0..3 {
        let link = link(
            move |packet, _| {
                if !packet.is_from_client() && packet.ordinal == lost { vec![] } else { passes(packet) }
            },
        );
        let mut world = World::new(Setup { link, ..large_certificates(8) });
        let handle = world.handshake();
        let stream = world.client_conn(handle).streams().open(Dir::Bi).unwrap();
        let mut pump = Pump::new(stream, true, 100_000);
        assert!(world.run_until(20 * SECOND, |world| pump.poke(world, handle)));
        let marked = world.client_conn(handle).stats().ecn_received[0];
        assert!(marked > 50, "{marked} packets with marks, datagram {lost} lost");
    }
}
