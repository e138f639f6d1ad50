//! Packets that arrive before their keys keep their time of arrival (RFC 9000 section 13.2.5, RFC 9002 section 5.3).
#![allow(clippy::unwrap_used)]

use crate::harness;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use harness::{Link, Packet, Pump, Setup, World, watch, wire};
use thalweg_proto::{
    Side,
    observe::{FrameInfo, ObserverEvent, PacketKind},
    streams::Dir,
};

const ZERO: Duration = Duration::ZERO;
const SECOND: Duration = Duration::from_secs(1);
/// How much longer than other packets those take that bring the keys.
const WAIT: Duration = Duration::from_millis(100);

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The parts of a datagram with long headers, and those with short ones.
fn split(packet: &Packet) -> [Packet; 2] {
    let long = wire::parse(&packet.bytes)
        .iter()
        .take_while(|part| part.header.version().is_some())
        .map(|part| part.len)
        .sum::<usize>();
    let (long, short) = packet.bytes.split_at(long);
    [long, short].map(|bytes| Packet { bytes: bytes.to_vec(), ..packet.clone() })
}

/// A link of 20 ms each way on which long headers of one end, from the datagram `from` on, take [`WAIT`] longer.
fn slow_long_headers(of_client: bool, from: u64) -> Link {
    Link {
        meddle: Box::new(move |packet, _| {
            if packet.is_from_client() != of_client || packet.ordinal < from {
                return vec![(ZERO, packet)];
            }
            let [long, short] = split(&packet);
            [(WAIT, long), (ZERO, short)].into_iter().filter(|(_, part)| !part.bytes.is_empty()).collect()
        }),
        ..Link::new(ms(20))
    }
}

/// The server cannot read the client's data before it has the client's Finished.
#[test]
fn rfc9000_13_2_5_the_delay_of_an_ack_includes_the_wait_for_keys() {
    let delays = Arc::new(Mutex::new(Vec::new()));
    let seen = delays.clone();
    let observer = watch(move |side, _, event| {
        if let ObserverEvent::PacketSent(packet) = event
            && (side, packet.kind) == (Side::Server, PacketKind::OneRtt)
        {
            let ack = packet.frames.iter().find_map(|frame| match frame {
                FrameInfo::Ack { delay_us, .. } => Some(Duration::from_micros(*delay_us)),
                _ => None,
            });
            seen.lock().unwrap().extend(ack);
        }
    });
    let link = slow_long_headers(true, 1);
    let mut world = World::new(Setup { link, observer: Some(observer), ..Setup::default() });
    let handle = world.connect();
    // As soon as it can, the client writes.
    assert!(world.run_until(SECOND, |world| !world.client_conn(handle).is_handshaking()));
    let stream = world.client_conn(handle).streams().open(Dir::Bi).unwrap();
    let mut pump = Pump::new(stream, false, 2000);
    assert!(world.run_until(SECOND, |world| pump.poke(world, handle)));
    world.run_for(ms(1));
    let first = *delays.lock().unwrap().first().expect("an ACK of the data");
    assert!(first.abs_diff(WAIT) <= ms(1), "reported {first:?}, waited {WAIT:?}");
}

/// The client cannot read the acknowledgment of its 0-RTT data before it has the server's handshake.
#[test]
fn rfc9002_5_3_an_ack_that_waited_for_keys_is_sampled_at_its_arrival() {
    let mut world = World::new(Setup::default());
    let handle = world.handshake();
    world.run_for(SECOND);
    let now = world.now;
    world.client_conn(handle).close(now, 0, "".into());
    world.pump();
    world.run_for(SECOND);
    let sent = world.server.sent;
    world.link.meddle = slow_long_headers(false, sent).meddle;

    let (handle, mut connection) =
        world.client.endpoint.connect(world.now, world.client_config.clone(), harness::SERVER, "localhost").unwrap();
    assert!(connection.is_early(), "0-RTT keys from the ticket");
    let stream = connection.streams().open(Dir::Bi).unwrap();
    world.client.connections.insert(handle, connection);
    let mut pump = Pump::new(stream, false, 4000);
    pump.poke(&mut world, handle);
    world.pump();
    let started = world.now;
    assert!(world.run_until(SECOND, |world| !world.client_conn(handle).is_handshaking()));
    assert_eq!(world.now.saturating_since(started), ms(40) + WAIT);
    let shortest = world.client_conn(handle).stats().min_rtt;
    assert!(shortest >= ms(40) && shortest < ms(45), "the round trip takes 40 ms, the shortest sample is {shortest:?}");
}
