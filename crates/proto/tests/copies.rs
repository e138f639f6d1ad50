//! Second copies of what the first reply waits for: `handshake=twice` and `handshake=twice(from=loss)`.
#![allow(clippy::unwrap_used)]

use crate::harness;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, atomic::AtomicU64, atomic::Ordering},
    time::Duration,
};

use harness::{Link, Setup, World, watch};
use proptest::prelude::*;
use thalweg_proto::{
    Side, TransportConfig,
    observe::{FrameInfo, ObserverEvent, ObserverFactory, PacketKind},
    streams::Dir,
};
use thalweg_recovery::trace::Event as RecoveryEvent;

/// One way over a far path: beyond the first probe timeout of neither end.
const FAR: Duration = Duration::from_millis(100);
const REQUEST: usize = 300;
const REPLY: usize = 800;

fn config(handshake: &str, padding: u16) -> TransportConfig {
    let policies = format!("handshake={handshake}").parse().unwrap();
    TransportConfig { policies, handshake_padding: padding, ..TransportConfig::default() }
}

fn setup(handshake: &str, padding: u16, link: Link) -> Setup {
    Setup {
        client: config(handshake, padding),
        server: config(handshake, padding),
        null: true,
        link,
        ..Setup::default()
    }
}

/// A link that loses these datagrams of the client and of the server, counted from 0.
fn losing(client: Vec<u64>, server: Vec<u64>) -> Link {
    Link {
        meddle: Box::new(move |packet, _| {
            let lost = if packet.is_from_client() { &client } else { &server };
            if lost.contains(&packet.ordinal) { vec![] } else { vec![(Duration::ZERO, packet)] }
        }),
        ..Link::new(FAR)
    }
}

/// How often each byte of content has left, by end and kind.
type Sent = Arc<Mutex<BTreeMap<(bool, &'static str), Vec<u32>>>>;

/// Counts CRYPTO and STREAM frames sent, and expiries of probe timers.
fn counter() -> (Arc<dyn ObserverFactory>, Sent, Arc<AtomicU64>) {
    let (sent, expiries) = (Sent::default(), Arc::new(AtomicU64::new(0)));
    let (seen, expired) = (sent.clone(), expiries.clone());
    let observer = watch(move |by, _, event| match event {
        ObserverEvent::PacketSent(packet) => {
            let name = match packet.kind {
                PacketKind::Initial => "initial",
                PacketKind::Handshake => "handshake",
                _ => "data",
            };
            let mut seen = seen.lock().unwrap();
            for frame in packet.frames {
                let (kind, offset, len) = match frame {
                    FrameInfo::Crypto { offset, len } => (name, *offset as usize, *len as usize),
                    FrameInfo::Stream { offset, len, .. } => ("stream", *offset as usize, *len as usize),
                    _ => continue,
                };
                let times = seen.entry((by == Side::Client, kind)).or_default();
                times.resize(times.len().max(offset + len), 0);
                times[offset..offset + len].iter_mut().for_each(|times| *times += 1);
            }
        }
        ObserverEvent::Recovery { event: RecoveryEvent::PtoExpired { .. }, .. } => {
            expired.fetch_add(1, Ordering::Relaxed);
        }
        _ => {}
    });
    (observer, sent, expiries)
}

/// Time from the client's first datagram to the last byte of the reply, and datagrams of client and server until then.
fn first_reply(setup: Setup) -> (Duration, u64, u64) {
    first_reply_in(&mut World::new(setup))
}

/// The same on a connection that resumes an earlier one and asks in 0-RTT. Datagrams that are lost are counted from its
/// first.
fn early_reply(setup: Setup, client: Vec<u64>, server: Vec<u64>) -> (Duration, u64, u64) {
    let mut world = World::new(setup);
    world.handshake();
    world.run_for(Duration::from_secs(1));
    world.client.connections.clear();
    world.server.connections.clear();
    let (of_client, of_server) = (world.client.sent, world.server.sent);
    let later = |lost: Vec<u64>, before: u64| lost.into_iter().map(|ordinal| ordinal + before).collect();
    world.link = losing(later(client, of_client), later(server, of_server));
    let (took, client, server) = first_reply_in(&mut world);
    (took, client - of_client, server - of_server)
}

fn first_reply_in(world: &mut World) -> (Duration, u64, u64) {
    let started = world.now;
    let handle = world.connect();
    let (mut asked, mut answered, mut received) = (None, false, 0);
    let done = world.run_until(Duration::from_secs(30), |world| {
        let client = world.client_conn(handle);
        if asked.is_none() && (!client.is_handshaking() || client.is_early()) {
            let stream = client.streams().open(Dir::Bi).unwrap();
            client.streams().write(stream, &[1; REQUEST]).unwrap();
            client.streams().finish(stream).unwrap();
            asked = Some(stream);
            world.pump();
        }
        if !answered
            && world.has_server_conn()
            && let Some(stream) = world.server_conn().streams().accept(Dir::Bi)
        {
            world.server_conn().streams().write(stream, &[2; REPLY]).unwrap();
            world.server_conn().streams().finish(stream).unwrap();
            answered = true;
            world.pump();
        }
        if let Some(stream) = asked {
            while let Ok(Some(bytes)) = world.client_conn(handle).streams().read(stream, REPLY) {
                received += bytes.len();
            }
        }
        received == REPLY
    });
    assert!(done, "no reply: {:?} {:?}", world.client.events, world.server.events);
    (world.now.saturating_since(started), world.client.sent, world.server.sent)
}

#[test]
fn every_single_loss_of_the_first_flights_costs_no_time() {
    for padding in [0, 1200] {
        let (clean, of_client, of_server) = first_reply(setup("twice", padding, Link::new(FAR)));
        assert!(clean < 4 * FAR + Duration::from_millis(5), "{clean:?}");
        for lost in 0..of_client.max(of_server) {
            for (end, link) in [("client", losing(vec![lost], vec![])), ("server", losing(vec![], vec![lost]))] {
                let (took, ..) = first_reply(setup("twice", padding, link));
                let late = took.saturating_sub(clean);
                assert!(late <= Duration::from_millis(20), "datagram {lost} of the {end}, {padding} B: {late:?}");
            }
        }
    }
    // What this is worth: plain waits for a timer.
    let [clean, late] = [vec![], vec![0]].map(|lost| first_reply(setup("plain", 0, losing(lost, vec![]))).0);
    assert!(late >= clean + Duration::from_millis(500), "{late:?} instead of {clean:?}");
}

#[test]
fn every_single_loss_of_a_request_in_0_rtt_and_its_reply_costs_no_time() {
    let setup = || setup("twice", 0, Link::new(FAR));
    let (clean, of_client, of_server) = early_reply(setup(), vec![], vec![]);
    assert!(clean < 2 * FAR + Duration::from_millis(5), "{clean:?}");
    for lost in 0..of_client.max(of_server) {
        for (end, client, server) in [("client", vec![lost], vec![]), ("server", vec![], vec![lost])] {
            let late = early_reply(setup(), client, server).0.saturating_sub(clean);
            assert!(late <= Duration::from_millis(20), "datagram {lost} of the {end}: {late:?}");
        }
    }
}

#[test]
fn each_byte_of_a_handshake_flight_leaves_exactly_twice_without_a_timer() {
    for padding in [0, 1200] {
        let (observer, sent, expiries) = counter();
        first_reply(Setup { observer: Some(observer), ..setup("twice", padding, Link::new(FAR)) });
        assert_eq!(expiries.load(Ordering::Relaxed), 0);
        let sent = sent.lock().unwrap();
        for (what, times) in sent.iter() {
            assert!(times.iter().all(|times| *times == 2), "{what:?} of {padding} B: {times:?}");
        }
        // Hello, certificate, both Finished, ticket, request and reply.
        assert_eq!(sent.len(), 7, "{:?}", sent.keys());
        assert_eq!(sent[&(true, "initial")].len() > 1200, padding > 0, "a ClientHello of two datagrams");
    }
}

#[test]
fn without_a_loss_twice_on_loss_sends_what_plain_sends() {
    for padding in [0, 1200] {
        let plain = first_reply(setup("plain", padding, Link::new(FAR)));
        assert_eq!(first_reply(setup("twice(from=loss)", padding, Link::new(FAR))), plain);
    }
}

/// The client's hello is lost, which the server's answer to the probe shows: no further loss costs time.
#[test]
fn after_a_loss_twice_on_loss_makes_good_the_next() {
    let (base, _, of_server) = first_reply(setup("twice(from=loss)", 0, losing(vec![0], vec![])));
    let [mut late, mut late_with_plain] = [0, 0];
    for lost in 0..of_server {
        let is_late = |handshake| {
            let (took, ..) = first_reply(setup(handshake, 0, losing(vec![0], vec![lost])));
            u32::from(took > base + Duration::from_millis(20))
        };
        late += is_late("twice(from=loss)");
        late_with_plain += is_late("plain");
    }
    assert!(late < late_with_plain, "{late} of {of_server} losses cost time, {late_with_plain} with plain");
}

/// What a server sends to an address that nobody has proved is limited to three times what came from there (RFC 9000
/// section 8.1), copies included.
#[test]
fn rfc9000_8_1_copies_stay_within_the_amplification_limit() {
    for (padding, loss) in [(0, 0), (1200, 0), (1200, 30), (3500, 0), (3500, 30)] {
        for seed in 0..20 {
            let bytes = Arc::new(Mutex::new((0u64, 0u64)));
            let seen = bytes.clone();
            let link = Link {
                meddle: Box::new(move |packet, rng| {
                    use rand_core::Rng as _;
                    let mut seen = seen.lock().unwrap();
                    if !packet.is_from_client() {
                        seen.1 += packet.bytes.len() as u64;
                        assert!(seen.1 <= 3 * seen.0, "{} bytes for {}", seen.1, seen.0);
                        // Nothing comes back: the address stays unproved.
                        return vec![];
                    }
                    if rng.next_u32() % 100 < loss {
                        return vec![];
                    }
                    seen.0 += packet.bytes.len() as u64;
                    vec![(Duration::ZERO, packet)]
                }),
                ..Link::new(FAR)
            };
            let mut world = World::new(Setup { seed, ..setup("twice", padding, link) });
            world.connect();
            world.run_for(Duration::from_secs(10));
            assert!(bytes.lock().unwrap().1 > 0 || loss > 0);
        }
    }
}

/// A long reply is repaired while it goes on: copies of its first flight would be needless.
#[test]
fn long_flights_are_not_copied() {
    let sent = |handshake: &str| {
        let mut world = World::new(setup(handshake, 0, Link::new(FAR)));
        let handle = world.handshake();
        world.transfer(handle, false, 300_000, Duration::from_secs(30)).unwrap();
        world.server.sent
    };
    let (plain, twice) = (sent("plain"), sent("twice"));
    assert!(twice <= plain + 8, "{twice} datagrams instead of {plain}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever is lost, both ends end up with a reply.
    #[test]
    fn a_reply_comes_whatever_is_lost(
        handshake in prop::sample::select(vec!["plain", "twice(from=loss)", "twice"]),
        padding in prop::sample::select(vec![0u16, 1200, 3000, 8000]),
        client in prop::collection::vec(0u64..12, 0..6),
        server in prop::collection::vec(0u64..12, 0..6),
    ) {
        first_reply(setup(handshake, padding, losing(client, server)));
    }
}
