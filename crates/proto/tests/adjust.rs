//! Changes of a connection in use (policies, rate, limits), and reading out of order.
#![allow(clippy::unwrap_used)]

use crate::harness;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use harness::{DATE, Link, Setup, World, pattern};
use thalweg_proto::{
    ConnectionError, DatagramMeta, Endpoint, EndpointConfig, Route, TransportConfig,
    datagrams::DatagramsConfig,
    streams::{Dir, ReadError, StreamsConfig},
};
use thalweg_recovery::Ecn;
use thalweg_units::Rate;

const SECOND: Duration = Duration::from_secs(1);

/// A fast link of 20 ms that drops what does not fit.
fn fast() -> Link {
    Link { rate: 12_500_000, queue: 500_000, ..Link::new(Duration::from_millis(20)) }
}

#[test]
fn policies_change_in_the_middle_of_a_transfer_and_every_byte_arrives() {
    let mut world = World::new(Setup { link: fast(), ..Setup::default() });
    let handle = world.handshake();
    assert!(world.transfer(handle, true, 1_000_000, 10 * SECOND).is_some());
    let now = world.now;
    let server = world.server_conn();
    let before = server.stats().window;
    let mut policies = server.policies();
    policies.set("controller", "new-reno").unwrap();
    policies.set("reduction", "prr").unwrap();
    policies.set("probe", "rfc").unwrap();
    server.set_policies(now, policies.clone()).unwrap();
    assert_eq!((server.stats().window, server.policies()), (before, policies.clone()));
    policies.set("rtt", "windowed").unwrap();
    let error = server.set_policies(now, policies).unwrap_err();
    assert!(error.to_string().starts_with("policy rtt cannot change from classic to windowed"), "{error}");
    assert!(world.transfer(handle, true, 10_000_000, 10 * SECOND).is_some());
}

#[test]
fn a_rate_limit_holds_from_the_configuration_on_and_can_be_lifted() {
    let limited = TransportConfig { max_rate: Some("8 Mbps".parse().unwrap()), ..TransportConfig::default() };
    let mut world = World::new(Setup { link: fast(), server: limited, ..Setup::default() });
    let handle = world.handshake();
    // Two megabytes at one per second, headers and the first burst aside.
    let took = world.transfer(handle, true, 2_000_000, 10 * SECOND).unwrap();
    assert!(took > Duration::from_millis(1_950) && took < Duration::from_millis(2_200), "{took:?}");
    let now = world.now;
    assert_eq!(world.server_conn().max_rate(), Some(Rate::from_bps(8_000_000)));
    world.server_conn().set_max_rate(now, None);
    let took = world.transfer(handle, true, 2_000_000, 10 * SECOND).unwrap();
    assert!(took < SECOND, "{took:?}");
}

#[test]
fn at_a_rate_of_zero_nothing_but_acknowledgments_leaves_and_nothing_is_lost() {
    let mut world = World::new(Setup { link: fast(), ..Setup::default() });
    let handle = world.handshake();
    assert!(world.transfer(handle, true, 1_000_000, 10 * SECOND).is_some());
    let now = world.now;
    world.server_conn().set_max_rate(now, Some(Rate::ZERO));
    assert!(world.transfer(handle, true, 1_000_000, 5 * SECOND).is_none());
    // What the other end sends still arrives and is acknowledged.
    assert!(world.transfer(handle, false, 100_000, 5 * SECOND).is_some());
    let now = world.now;
    world.server_conn().set_max_rate(now, Some(Rate::from_bps(80_000_000)));
    assert!(world.transfer(handle, true, 1_000_000, 5 * SECOND).is_some());
}

#[test]
fn a_paused_connection_is_kept_alive() {
    let short = TransportConfig { max_idle_timeout: Some(3 * SECOND), ..TransportConfig::default() };
    let server = TransportConfig { keep_alive: Some(SECOND), ..short.clone() };
    let mut world = World::new(Setup { client: short, server, link: fast(), ..Setup::default() });
    let handle = world.handshake();
    let now = world.now;
    world.server_conn().set_max_rate(now, Some(Rate::ZERO));
    // More than the first window: nothing is left of what may leave at once.
    assert!(world.transfer(handle, true, 1_000_000, SECOND).is_none());
    world.run_for(20 * SECOND);
    assert_eq!(world.client_conn(handle).error(), None);
    assert_eq!(world.server_conn().error(), None);
    let now = world.now;
    world.server_conn().set_max_rate(now, None);
    assert!(world.transfer(handle, true, 1_000_000, 5 * SECOND).is_some());
}

#[test]
fn a_paused_connection_goes_on_giving_credit() {
    let narrow = StreamsConfig {
        receive_window: 100_000,
        max_receive_window: 100_000,
        stream_receive_window: 50_000,
        max_stream_receive_window: 50_000,
        max_concurrent_bidi: 2,
        ..StreamsConfig::default()
    };
    let server = TransportConfig { streams: narrow, ..TransportConfig::default() };
    let mut world = World::new(Setup { server, link: fast(), ..Setup::default() });
    let handle = world.handshake();
    let now = world.now;
    world.server_conn().set_max_rate(now, Some(Rate::ZERO));
    assert!(world.transfer(handle, true, 200_000, SECOND).is_none());
    let sent = world.server_conn().stats().udp_sent.bytes;
    assert!(world.transfer(handle, false, 5_000_000, 20 * SECOND).is_some());
    // Acknowledgments and credit, not the data that waits.
    let sent = world.server_conn().stats().udp_sent.bytes - sent;
    assert!(sent < 400_000, "{sent} bytes sent in a pause");
    let now = world.now;
    world.server_conn().set_max_rate(now, Some(Rate::from_bps(80_000_000)));
    world.run_for(SECOND);
    let total = world.server_conn().stats().udp_sent.bytes;
    assert!(total > sent + 150_000, "{total} bytes sent in all: the download goes on");
}

#[test]
fn more_streams_are_allowed_at_once_and_fewer_as_streams_close() {
    let one = StreamsConfig { max_concurrent_bidi: 1, max_concurrent_uni: 0, ..StreamsConfig::default() };
    let server = TransportConfig { streams: one, ..TransportConfig::default() };
    let mut world = World::new(Setup { server, ..Setup::default() });
    let handle = world.handshake();
    let open = |world: &mut World, dir| {
        std::iter::from_fn(|| world.client_conn(handle).streams().open(dir)).collect::<Vec<_>>()
    };
    assert_eq!((open(&mut world, Dir::Bi).len(), open(&mut world, Dir::Uni).len()), (1, 0));
    world.server_conn().streams().set_max_concurrent(Dir::Bi, 5);
    world.server_conn().streams().set_max_concurrent(Dir::Uni, 3);
    assert_eq!(world.server_conn().streams().max_concurrent(Dir::Uni), 3);
    world.pump();
    world.run_for(SECOND);
    let uni = open(&mut world, Dir::Uni);
    assert_eq!((open(&mut world, Dir::Bi).len(), uni.len()), (4, 3));
    world.server_conn().streams().set_max_concurrent(Dir::Uni, 1);
    for (closed, available) in [(2, 0), (3, 1)] {
        for id in &uni[closed - if closed == 2 { 2 } else { 1 }..closed] {
            world.client_conn(handle).streams().write(*id, b"x").unwrap();
            world.client_conn(handle).streams().finish(*id).unwrap();
        }
        world.pump();
        world.run_for(SECOND);
        while let Some(id) = world.server_conn().streams().accept(Dir::Uni) {
            while let Ok(Some(_)) = world.server_conn().streams().read(id, 100) {}
        }
        world.pump();
        world.run_for(SECOND);
        assert_eq!(open(&mut world, Dir::Uni).len(), available, "{closed} closed");
    }
}

#[test]
fn a_receive_window_can_be_widened_and_narrowed() {
    let narrow = StreamsConfig { receive_window: 10_000, max_receive_window: 10_000, ..StreamsConfig::default() };
    let server = TransportConfig { streams: narrow, ..TransportConfig::default() };
    let mut world = World::new(Setup { server, ..Setup::default() });
    let handle = world.handshake();
    let id = world.client_conn(handle).streams().open(Dir::Uni).unwrap();
    world.client_conn(handle).streams().write(id, &vec![7; 500_000]).unwrap();
    world.pump();
    world.run_for(SECOND);
    assert_eq!(world.server_conn().streams().bytes_unread(), 10_000);
    world.server_conn().streams().set_receive_window(300_000);
    assert_eq!(world.server_conn().streams().receive_window(), 300_000);
    world.pump();
    world.run_for(SECOND);
    assert_eq!(world.server_conn().streams().bytes_unread(), 300_000);
    world.server_conn().streams().set_receive_window(50_000);
    let id = world.server_conn().streams().accept(Dir::Uni).unwrap();
    let mut read = 0;
    while read < 295_000 {
        read += world.server_conn().streams().read(id, 5_000).unwrap().unwrap().len();
    }
    world.pump();
    world.run_for(SECOND);
    let held = world.server_conn().streams().bytes_unread();
    assert!(held > 5_000 && held <= 55_000, "{held}");
}

#[test]
fn a_wider_send_window_wakes_writers_that_wait() {
    let narrow = StreamsConfig { send_window: 100_000, send_backlog: 1 << 20, ..StreamsConfig::default() };
    let client = TransportConfig { streams: narrow, ..TransportConfig::default() };
    let mut world = World::new(Setup { client, ..Setup::default() });
    let handle = world.handshake();
    let streams = world.client_conn(handle).streams();
    let ids = [streams.open(Dir::Uni).unwrap(), streams.open(Dir::Uni).unwrap()];
    let data = vec![1; 1 << 20];
    let mut written = 0;
    for id in ids {
        written += streams.write(id, &data).unwrap();
        assert!(streams.write(id, &data).is_err());
    }
    assert!(written <= 100_000 + 65_536);
    while streams.poll_event().is_some() {}
    streams.set_send_window(1 << 20);
    assert_eq!(streams.send_window(), 1 << 20);
    let woken = std::iter::from_fn(|| streams.poll_event()).count();
    assert_eq!(woken, 2);
    assert!(streams.write(ids[0], &data).unwrap() > 500_000);
}

#[test]
fn a_stream_is_read_past_a_lost_packet_and_every_byte_comes_once() {
    let mut link = fast();
    link.meddle = Box::new(|packet, _| match packet.ordinal % 17 {
        3 => vec![],
        5 => vec![(Duration::from_millis(9), packet.clone()), (Duration::from_millis(30), packet)],
        _ => vec![(Duration::ZERO, packet)],
    });
    let mut world = World::new(Setup { link, ..Setup::default() });
    let handle = world.handshake();
    let id = world.client_conn(handle).streams().open(Dir::Uni).unwrap();
    let data: Vec<u8> = (0..500_000).map(pattern).collect();
    world.client_conn(handle).streams().write(id, &data).unwrap();
    world.client_conn(handle).streams().finish(id).unwrap();
    world.pump();
    let mut pieces = BTreeMap::new();
    let (mut ahead, mut next) = (0, 0);
    let done = world.run_until(10 * SECOND, |world| {
        let streams = world.server_conn().streams();
        streams.accept(Dir::Uni);
        loop {
            match streams.read_unordered(id, 4_000) {
                Ok(Some((offset, bytes))) => {
                    ahead += u32::from(offset > next);
                    next = next.max(offset + bytes.len() as u64);
                    assert!(pieces.insert(offset, bytes).is_none());
                    assert_eq!(streams.read(id, 1), Err(ReadError::Unordered));
                }
                Ok(None) => return true,
                // Nothing has arrived yet, at first not even the stream.
                Err(ReadError::Blocked) => break,
                Err(ReadError::ClosedStream) if pieces.is_empty() => break,
                Err(error) => panic!("{error}"),
            }
        }
        world.pump();
        false
    });
    assert!(done && ahead > 5, "{ahead} pieces came ahead of a hole");
    let mut whole = Vec::new();
    for (offset, bytes) in pieces {
        assert_eq!(offset, whole.len() as u64, "twice, or not at all");
        whole.extend_from_slice(&bytes);
    }
    assert!(whole == data);
    assert_eq!(world.server_conn().streams().bytes_unread(), 0);
}

#[test]
fn the_space_of_the_datagram_queue_is_what_can_be_queued() {
    let datagrams = DatagramsConfig { send_buffer: 3_000, ..DatagramsConfig::default() };
    let client = TransportConfig { datagrams, ..TransportConfig::default() };
    let mut world = World::new(Setup { client, ..Setup::default() });
    let handle = world.handshake();
    let datagrams = world.client_conn(handle).datagrams();
    while datagrams.send_buffer_space() >= 1_000 {
        datagrams.send(vec![0; 1_000].into(), 1_200).unwrap();
    }
    let space = datagrams.send_buffer_space();
    assert!(space > 0);
    assert!(datagrams.send(vec![0; space + 1].into(), 1_200).is_err());
    datagrams.send(vec![0; space].into(), 1_200).unwrap();
    assert_eq!(datagrams.send_buffer_space(), 0);
}

#[test]
fn a_server_asks_one_client_to_prove_its_address() {
    let mut world = World::new(Setup::default());
    let handle = world.connect();
    // The first Initial, as the server's application sees it before it has decided.
    let mut server = Endpoint::new(EndpointConfig::new([9; 32]), Some(world.server_config.clone()));
    let client = world.client.connections.get_mut(&handle).unwrap();
    let meta = DatagramMeta { remote: harness::CLIENT, local_ip: Some(harness::SERVER.ip()), ecn: Ecn::NotEct };
    let arrive = |world_now, client: &mut thalweg_proto::Connection, server: &mut Endpoint| {
        let mut datagram = Vec::new();
        client.poll_transmit(world_now, 1, &mut datagram).expect("an Initial");
        let mut reply = Vec::new();
        let Route::NewConnection(handle, connection) = server.handle(world_now, DATE, &meta, &datagram, &mut reply)
        else {
            panic!("no connection")
        };
        (handle, connection.is_address_validated(), datagram)
    };
    // The world has sent the first flight already; its repetition will do.
    let now = client.poll_timeout().unwrap();
    client.handle_timeout(now);
    let (asked, validated, datagram) = arrive(now, client, &mut server);
    assert!(!validated);
    let mut reply = Vec::new();
    let Route::Reply(transmit) = server.retry(DATE, &meta, &datagram, &mut reply) else { panic!("no Retry") };
    assert_eq!((transmit.remote, transmit.size), (harness::CLIENT, reply.len()));
    server.abandon(asked);
    assert_eq!((server.connections(), server.handshakes()), (0, 0));
    let from = DatagramMeta { remote: harness::SERVER, local_ip: None, ecn: Ecn::NotEct };
    client.handle_datagram(now, &from, &mut reply);
    let (_, validated, _) = arrive(now, client, &mut server);
    assert!(validated, "the client has come again with the token");
    assert_eq!(client.error(), None::<&ConnectionError>);
}

/// When the spin bit of the short headers from each end changes.
fn spin_edges(spin_bit: bool, seed: u64) -> [Vec<Duration>; 2] {
    /// The value last seen, and when it changed.
    type Edges = (Option<bool>, Vec<u64>);
    let edges: Arc<Mutex<[Edges; 2]>> = Arc::default();
    let seen = edges.clone();
    let mut link = fast();
    let count = Arc::new(Mutex::new(0u64));
    link.meddle = Box::new(move |packet, _| {
        let mut edges = seen.lock().unwrap();
        let mut count = count.lock().unwrap();
        *count += 1;
        if packet.bytes[0] & 0x80 == 0 {
            let spin = packet.bytes[0] & 0x20 != 0;
            let (last, at) = &mut edges[usize::from(packet.is_from_client())];
            if last.replace(spin) != Some(spin) {
                at.push(*count);
            }
        }
        vec![(Duration::ZERO, packet)]
    });
    let policies = "start=hystart++, ack-rate=off".parse().unwrap();
    let transport = TransportConfig { spin_bit, policies, ..TransportConfig::default() };
    let setup = Setup { seed, client: transport.clone(), server: transport, link, ..Setup::default() };
    let mut world = World::new(setup);
    let handle = world.handshake();
    world.transfer(handle, true, 5_000_000, 10 * SECOND).unwrap();
    let edges = edges.lock().unwrap();
    [0, 1].map(|from| edges[from].1.iter().map(|&n| Duration::from_nanos(n)).collect())
}

#[test]
fn rfc9000_17_4_the_spin_bit_changes_once_per_round_trip() {
    // 5 MB at 12.5 MB/s take 400 ms: with the queue's, eight round trips of 40 to 80 ms.
    for from in spin_edges(true, 1) {
        assert!((5..=14).contains(&from.len()), "{} edges", from.len());
    }
    for from in spin_edges(false, 1) {
        assert_eq!(from.len(), 1, "the first packet only: it stays zero");
    }
}
