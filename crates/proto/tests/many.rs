//! Many connections at one endpoint: routing, admission, and what is left when all are gone.
#![allow(clippy::unwrap_used)]

use crate::harness;

use std::{cell::RefCell, collections::BTreeMap, net::SocketAddr, rc::Rc, time::Duration};

use bytes::Bytes;
use harness::{CLIENT, DATE, Link, Packet, Pump, SERVER, Setup, World};
use thalweg_proto::{
    ConnectError, Connection, ConnectionError, ConnectionHandle, DatagramMeta, Endpoint, EndpointConfig, RetryPolicy,
    Route, TransportErrorCode,
    packet::{self, Header},
    streams::Dir,
};
use thalweg_recovery::Ecn;

const ZERO: Duration = Duration::ZERO;
const SECOND: Duration = Duration::from_secs(1);

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn connection_ids_of_any_length_work_at_either_end() {
    for client in [0, 1, 4, 8, 20] {
        for server in [1, 4, 8, 20] {
            let retry = if client == server { RetryPolicy::Always } else { RetryPolicy::Never };
            let mut world = World::new(Setup {
                cid_len: [client, server],
                tweak_server: Box::new(move |config| config.retry = retry),
                ..Setup::default()
            });
            let handle = world.handshake();
            world.run_for(SECOND);
            assert!(world.transfer(handle, true, 100_000, 10 * SECOND).is_some(), "{client} and {server} bytes");
            // A migration, where there are IDs to spare.
            let address: SocketAddr = "10.0.4.4:44".parse().unwrap();
            world.client.address = address;
            let now = world.now;
            world.client_conn(handle).local_address_changed(now, Some(address.ip()));
            world.pump();
            assert!(world.transfer(handle, false, 100_000, 10 * SECOND).is_some(), "{client} and {server} bytes");
            assert_eq!((world.client_error(), world.server_error()), (None, None));
        }
    }
}

#[test]
fn an_endpoint_that_has_run_out_of_connection_ids_says_so() {
    let mut world = World::new(Setup { cid_len: [0, 8], ..Setup::default() });
    let handle = world.handshake();
    let (config, now) = (world.client_config.clone(), world.now);
    let second = world.client.endpoint.connect(now, config, SERVER, "localhost");
    assert_eq!(second.map(|_| ()), Err(ConnectError::TooManyConnections(1)));
    assert!(world.transfer(handle, true, 1000, SECOND).is_some());

    let mut world = World::new(Setup { cid_len: [1, 8], null: true, ..Setup::default() });
    let mut opened = 0;
    loop {
        let (config, now) = (world.client_config.clone(), world.now);
        match world.client.endpoint.connect(now, config, SERVER, "localhost") {
            Ok((handle, connection)) => {
                world.client.connections.insert(handle, connection);
                opened += 1;
            }
            Err(error) => break assert_eq!(error, ConnectError::TooManyConnections(opened)),
        }
    }
    assert!((200..=256).contains(&opened), "{opened}");
    world.pump();
    world.run_for(10 * SECOND);
    assert!(world.client.connections.values().all(Connection::is_confirmed));
}

#[test]
fn three_hundred_connections_live_side_by_side_and_leave_nothing() {
    for percent in [0, 5] {
        let mut world = World::new(Setup { null: true, link: Link::lossy(ms(20), percent), ..Setup::default() });
        let handles: Vec<ConnectionHandle> = (0..300)
            .map(|_| {
                let handle = world.connect();
                world.run_for(ms(1));
                handle
            })
            .collect();
        let all = world.run_until(100 * SECOND, |world| {
            let confirmed = |(_, connection): (_, &Connection)| connection.is_confirmed();
            world.client.connections.iter().all(confirmed) && world.server.connections.iter().all(confirmed)
        });
        assert!(all);
        assert_eq!((world.client.connections.len(), world.server.connections.len()), (300, 300));
        assert_eq!(world.server.endpoint.handshakes(), 0);
        // Each client sends its number; each number arrives once.
        for (number, handle) in handles.iter().enumerate() {
            let client = world.client_conn(*handle);
            let stream = client.streams().open(Dir::Uni).unwrap();
            client.streams().write(stream, &(number as u32).to_be_bytes()).unwrap();
            client.streams().finish(stream).unwrap();
        }
        world.pump();
        world.run_for(10 * SECOND);
        let mut seen = BTreeMap::new();
        for connection in world.server.connections.values_mut() {
            let stream = connection.streams().accept(Dir::Uni).expect("a stream");
            let data = connection.streams().read(stream, 100).unwrap().unwrap();
            *seen.entry(u32::from_be_bytes(data[..].try_into().unwrap())).or_insert(0) += 1;
        }
        assert!(seen.len() == 300 && seen.values().all(|count| *count == 1));
        let now = world.now;
        for (number, handle) in handles.iter().enumerate() {
            if number % 2 == 0 {
                world.client_conn(*handle).close(now, 1, Bytes::new());
            }
        }
        world.pump();
        world.run_for(100 * SECOND);
        assert_eq!((world.client.endpoint.connections(), world.server.endpoint.connections()), (0, 0));
    }
}

#[test]
fn a_busy_server_asks_for_retry_and_an_idle_one_does_not() {
    let retries = Rc::new(RefCell::new(0));
    let counted = retries.clone();
    let mut link = Link::new(ms(20));
    link.meddle = Box::new(move |packet: Packet, _| {
        let retry = |part: &thalweg_proto::packet::Partial| matches!(part.header, Header::Retry { .. });
        *counted.borrow_mut() += u32::from(harness::wire::parse(&packet.bytes).iter().any(retry));
        vec![(ZERO, packet)]
    });
    let tweak = |config: &mut thalweg_proto::ServerConfig| config.retry = RetryPolicy::WhenHandshakesExceed(3);
    let mut world = World::new(Setup { link, tweak_server: Box::new(tweak), ..Setup::default() });
    for _ in 0..10 {
        world.connect();
    }
    world.run_for(5 * SECOND);
    assert_eq!(world.server.connections.len(), 10);
    let so_far = *retries.borrow();
    assert!((5..=7).contains(&so_far), "{so_far} of 10");
    world.connect();
    world.run_for(5 * SECOND);
    assert_eq!(*retries.borrow(), so_far, "nobody else is in a handshake");
}

#[test]
fn a_refused_connection_is_told_so_and_costs_nothing() {
    let mut world = World::new(Setup::default());
    let handle = world.connect();
    // By hand: the first datagram, refused.
    let caught = Rc::new(RefCell::new(Vec::new()));
    let seen = caught.clone();
    world.link.meddle = Box::new(move |packet, _| {
        seen.borrow_mut().push(packet);
        vec![]
    });
    let other = world.connect();
    let first = caught.borrow_mut().remove(0);
    let meta = DatagramMeta { remote: CLIENT, local_ip: Some(SERVER.ip()), ecn: Ecn::NotEct };
    let mut reply = Vec::new();
    let (now, server) = (world.now, &mut world.server.endpoint);
    let before = server.connections();
    let Route::NewConnection(refused, _) = server.handle(now, DATE, &meta, &first.bytes, &mut reply) else {
        panic!("a new connection")
    };
    let Route::Reply(_) = server.refuse(&meta, &first.bytes, &mut reply) else { panic!("an answer") };
    server.abandon(refused);
    server.abandon(refused);
    assert_eq!(server.connections(), before);
    assert!(reply.len() < first.bytes.len());
    world.deliver(Packet { from: SERVER, to: CLIENT, ecn: Ecn::NotEct, bytes: reply, ordinal: 0 });
    world.pump();
    match world.client_error() {
        Some(ConnectionError::PeerTransport { code, .. }) => assert_eq!(code, TransportErrorCode::CONNECTION_REFUSED),
        other => panic!("{other:?}"),
    }
    assert_ne!(handle, other);
}

/// RFC 9000 section 10.3.3: two ends without state must not answer each other's resets for ever.
#[test]
fn endpoints_without_state_do_not_reset_each_other_for_ever() {
    let world = World::new(Setup::default());
    let server = |seed| Endpoint::new(EndpointConfig::new([seed; 32]), Some(world.server_config.clone()));
    let mut ends = [server(1), server(2)];
    let mut datagram = vec![0x40; 1200];
    let mut exchanged = 0;
    'ping_pong: loop {
        for end in &mut ends {
            let meta = DatagramMeta { remote: CLIENT, local_ip: None, ecn: Ecn::NotEct };
            let mut reply = Vec::new();
            match end.handle(world.now, DATE, &meta, &datagram, &mut reply) {
                Route::Reply(_) => {
                    assert!(reply.len() < datagram.len());
                    assert!(packet::possible_reset_token(&reply).is_some());
                    datagram = reply;
                    exchanged += 1;
                }
                Route::Drop => break 'ping_pong,
                other => panic!("{other:?}"),
            }
        }
    }
    assert!((1..=30).contains(&exchanged), "{exchanged}");
}

#[test]
fn a_clients_endpoint_answers_no_strangers() {
    let mut world = World::new(Setup::default());
    let handle = world.handshake();
    let meta = DatagramMeta { remote: SERVER, local_ip: Some(CLIENT.ip()), ecn: Ecn::NotEct };
    let mut reply = Vec::new();
    for first in [0x40, 0xc0, 0x80, 0xff, 0x00] {
        for version in [0u8, 1, 77] {
            let mut datagram = vec![7; 1300];
            datagram[..5].copy_from_slice(&[first, 0, 0, 0, version]);
            let route = world.client.endpoint.handle(world.now, DATE, &meta, &datagram, &mut reply);
            assert!(matches!(route, Route::Drop), "{route:?}");
        }
    }
    assert!(world.transfer(handle, true, 1000, SECOND).is_some());
}

#[test]
fn a_server_that_no_longer_accepts_keeps_its_connections() {
    let mut world = World::new(Setup::default());
    let handle = world.handshake();
    world.server.endpoint.set_server_config(None);
    let stream = world.client_conn(handle).streams().open(Dir::Bi).unwrap();
    let mut pump = Pump::new(stream, true, 100_000);
    assert!(world.run_until(10 * SECOND, |world| pump.poke(world, handle)));
    let late = world.connect();
    world.run_for(60 * SECOND);
    assert!(!world.client.connections.contains_key(&late));
    assert!(world.client.events.iter().any(|(of, event)| {
        *of == late && matches!(event, thalweg_proto::Event::ConnectionLost(ConnectionError::TimedOut))
    }));
}
