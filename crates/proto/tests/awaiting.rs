//! PINGs into a silence by an end that waits for the other, so that a rebinding or a lost peer is noticed.
#![allow(clippy::unwrap_used)]

use crate::harness;

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use harness::{CLIENT, Link, Pump, Setup, World, watch};
use thalweg_proto::{
    ConnectionError, ConnectionHandle, Side,
    observe::{FrameInfo, ObserverEvent},
    streams::Dir,
};
use thalweg_units::Instant;

const SECOND: Duration = Duration::from_secs(1);

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// When the client sent PINGs.
type Pings = Arc<Mutex<Vec<Instant>>>;

/// A request for an acknowledgment has to be answered as a PING has.
fn is_question(frame: &FrameInfo) -> bool {
    matches!(frame, FrameInfo::Ping | FrameInfo::ImmediateAck)
}

fn world(delay: Duration) -> (World, Pings) {
    let pings = Pings::default();
    let seen = pings.clone();
    let observer = watch(move |side, now, event| {
        if let ObserverEvent::PacketSent(packet) = event
            && side == Side::Client
            && packet.frames.iter().any(is_question)
        {
            seen.lock().unwrap().push(now);
        }
    });
    let link = Link { rate: 1_250_000, queue: 60_000, ..Link::new(delay) };
    (World::new(Setup { link, observer: Some(observer), ..Setup::default() }), pings)
}

fn begin(world: &mut World, handle: ConnectionHandle, len: u64) -> Pump {
    let stream = world.client_conn(handle).streams().open(Dir::Bi).unwrap();
    let mut pump = Pump::new(stream, true, len);
    pump.poke(world, handle);
    pump
}

fn await_peer(world: &mut World, handle: ConnectionHandle, awaiting: bool) {
    let now = world.now;
    world.client_conn(handle).set_awaiting(now, awaiting);
}

/// A receiver behind a NAT that forgets its mapping 20 times, as far as packets to the old address are concerned.
#[test]
fn a_download_survives_20_rebindings_with_gaps_in_proportion_to_the_path() {
    for (delay, longest) in [(ms(1), ms(500)), (ms(20), SECOND), (ms(100), 3 * SECOND)] {
        let (mut world, _) = world(delay);
        let handle = world.handshake();
        await_peer(&mut world, handle, true);
        let mut pump = begin(&mut world, handle, 20_000_000);
        for port in 1..=20 {
            let done = world.run_until(ms(700), |world| pump.poke(world, handle));
            assert!(!done, "over before rebinding {port}");
            world.client.address = SocketAddr::new(CLIENT.ip(), 2000 + port);
            let heard = world.run_until(longest, |world| {
                pump.poke(world, handle);
                let now = world.now;
                let follows = world.server_conn().remote_address() == world.client.address;
                follows && world.client_conn(handle).silence(now) < ms(1)
            });
            assert!(heard, "{delay:?}: silent for {longest:?} after rebinding {port}");
        }
        assert!(world.run_until(60 * SECOND, |world| pump.poke(world, handle)), "{delay:?}");
    }
}

#[test]
fn an_answer_that_takes_its_time_finds_a_client_that_was_rebound() {
    let (mut world, _) = world(ms(20));
    let handle = world.handshake();
    await_peer(&mut world, handle, true);
    world.run_for(SECOND);
    world.client.address = SocketAddr::new(CLIENT.ip(), 2000);
    world.run_for(SECOND);
    assert_eq!(world.server_conn().remote_address(), world.client.address);
}

/// Why waiting has to be reported: a client that sends nothing shows nobody its new address.
#[test]
fn a_client_that_does_not_say_that_it_waits_is_not_found() {
    let (mut world, _) = world(ms(20));
    world.handshake();
    world.run_for(SECOND);
    world.client.address = SocketAddr::new(CLIENT.ip(), 2000);
    world.run_for(20 * SECOND);
    assert_eq!(world.server_conn().remote_address(), CLIENT);
}

#[test]
fn nothing_is_sent_while_nothing_is_awaited() {
    let (mut world, pings) = world(ms(20));
    let handle = world.handshake();
    world.run_for(SECOND);
    let count = |pings: &Pings| pings.lock().unwrap().len();
    let (before, sent) = (count(&pings), world.client.sent);
    world.run_for(8 * SECOND);
    assert_eq!((count(&pings), world.client.sent), (before, sent));
    await_peer(&mut world, handle, true);
    world.run_for(8 * SECOND);
    let asked = count(&pings) - before;
    assert!((7..=12).contains(&asked), "{asked} PINGs in 8 s, though each was acknowledged");
    await_peer(&mut world, handle, false);
    world.run_for(ms(100));
    let (before, sent) = (count(&pings), world.client.sent);
    world.run_for(8 * SECOND);
    assert_eq!((count(&pings), world.client.sent), (before, sent));
}

#[test]
fn questions_into_an_outage_become_rarer_but_not_rarer_than_one_per_second() {
    let (mut world, pings) = world(ms(1));
    let handle = world.handshake();
    world.run_for(SECOND);
    await_peer(&mut world, handle, true);
    world.link.meddle = Box::new(|_, _| vec![]);
    let sent = world.client.sent;
    world.run_for(20 * SECOND);
    let pings = pings.lock().unwrap();
    let gaps: Vec<Duration> = pings.windows(2).map(|pair| pair[1].saturating_since(pair[0])).collect();
    assert!(pings.len() >= 20, "{pings:?}");
    assert!(gaps.iter().rev().take(15).all(|gap| *gap <= ms(1001)), "{gaps:?}");
    assert!(world.client.sent - sent <= 120, "{} datagrams in 20 s", world.client.sent - sent);
}

#[test]
fn a_server_that_lost_its_state_is_noticed_at_the_next_question() {
    for (delay, limit) in [(ms(1), ms(1100)), (ms(20), ms(1200)), (ms(300), 4 * SECOND)] {
        let (mut world, _) = world(delay);
        let handle = world.handshake();
        await_peer(&mut world, handle, true);
        world.run_for(3 * SECOND);
        assert_eq!(world.client_error(), None);
        world.restart_server();
        world.run_for(limit);
        assert_eq!(world.client_error(), Some(ConnectionError::Reset), "{delay:?}");
    }
}
