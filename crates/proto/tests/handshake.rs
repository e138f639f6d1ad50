//! Handshakes, over good links and bad ones: padding, amplification, deadlock, Retry, versions, resumption, 0-RTT.
#![allow(clippy::unwrap_used)]

use crate::harness;

use std::{
    cell::RefCell,
    collections::VecDeque,
    rc::Rc,
    sync::{Arc, Mutex},
    time::Duration,
};

use harness::{
    DATE, Fate, Link, Packet, Pump, Setup, World,
    tap::Tap,
    wire::{self, Spy},
};
use rand_core::Rng;
use rustls::pki_types::UnixTime;
use thalweg_proto::{
    Connection, ConnectionError, ConnectionHandle, Event, RetryPolicy, ServerConfig, TokenStore, TransportConfig,
    TransportErrorCode,
    crypto::{
        Level,
        config::TlsOptions,
        deterministic::{DeterministicServer, test_certificate, test_key},
        initial,
        rustls::{RustlsClient, RustlsServer},
    },
    frame::Frame,
    packet::{self, Header, Invariants},
    streams::{Dir, StreamsConfig},
    token::TokenKey,
    version::Version,
};

const ZERO: Duration = Duration::ZERO;
const SECOND: Duration = Duration::from_secs(1);

fn passes(packet: Packet) -> Fate {
    vec![(ZERO, packet)]
}

/// A link of 20 ms that does what `meddle` says.
fn link(meddle: impl FnMut(Packet, &mut rand_chacha::ChaCha8Rng) -> Fate + 'static) -> Link {
    Link { meddle: Box::new(meddle), ..Link::new(Duration::from_millis(20)) }
}

fn both_confirmed(world: &World, handle: ConnectionHandle) -> bool {
    world.client.connections.get(&handle).is_some_and(Connection::is_confirmed)
        && world.server.connections.values().any(Connection::is_confirmed)
}

/// What the server has sent to an address it has not validated is at most three times what came from there.
fn assert_not_amplified(world: &World) {
    if world.server.connections.values().all(|connection| !connection.is_address_validated()) {
        let (sent, received) = (world.server.sent_bytes, world.server.received_bytes);
        assert!(sent <= 3 * received, "sent {sent} bytes to an unvalidated address, received {received}");
    }
}

/// A server whose certificate chain takes about `certificates` times 300 bytes, and a client that takes any.
fn large_certificates(certificates: usize) -> Setup {
    Setup {
        tweak_client: Box::new(|config| {
            let tls = TlsOptions::new(&[b"test"]).client_insecure().unwrap();
            config.crypto = Arc::new(RustlsClient::new(Arc::new(tls)));
        }),
        tweak_server: Box::new(move |config| {
            let chain = vec![test_certificate(); certificates];
            let tls = TlsOptions::new(&[b"test"]).server(chain, test_key()).unwrap();
            config.crypto = Arc::new(RustlsServer::new(Arc::new(tls)));
        }),
        ..Setup::default()
    }
}

// RFC 9000 section 14.1.

#[test]
fn every_ack_eliciting_initial_datagram_has_at_least_1200_bytes_probes_included() {
    for percent in [0, 20, 40] {
        for seed in 0..20 {
            let mut spy = Spy::default();
            let counts = Rc::new(RefCell::new([0; 2]));
            let seen = counts.clone();
            let link = link(move |packet, rng| {
                for part in spy.look(&packet).iter().filter(|part| part.is_initial()) {
                    let small = packet.bytes.len() < 1200;
                    assert!(!small || !packet.is_from_client(), "client Initial in {} bytes", packet.bytes.len());
                    assert!(!small || !part.is_ack_eliciting(), "server Initial in {} bytes", packet.bytes.len());
                    seen.borrow_mut()[usize::from(packet.is_from_client())] += 1;
                }
                if rng.next_u32() % 100 < percent { vec![] } else { passes(packet) }
            });
            let mut world = World::new(Setup { seed, link, ..Setup::default() });
            let handle = world.connect();
            world.run_until(60 * SECOND, |world| both_confirmed(world, handle) || world.client_error().is_some());
            assert!(counts.borrow()[1] >= 1);
        }
    }
}

#[test]
fn probes_of_a_client_that_hears_nothing_are_full_initial_datagrams() {
    let mut spy = Spy::default();
    let probes = Rc::new(RefCell::new(0));
    let count = probes.clone();
    let link = link(move |packet, _| {
        let parts = spy.look(&packet);
        assert!(packet.is_from_client() && packet.bytes.len() >= 1200 && parts[0].is_initial());
        assert!(parts[0].is_ack_eliciting());
        *count.borrow_mut() += 1;
        vec![]
    });
    let mut world = World::new(Setup { link, ..Setup::default() });
    world.connect();
    world.run_for(40 * SECOND);
    assert!(*probes.borrow() >= 5, "only {} datagrams in 40 s", probes.borrow());
    assert_eq!(world.client_error(), Some(ConnectionError::TimedOut));
    assert_eq!(world.client.endpoint.connections(), 0);
}

// RFC 9001 section 4.9.1.

/// The datagrams of a client, as the kinds of packets in them and their size, while `meddle` acts on the server's.
fn datagrams_of_client(mut meddle: impl FnMut(Packet) -> Fate + 'static) -> Vec<(Vec<Header>, usize)> {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let log = seen.clone();
    let link = link(move |packet, _| {
        if !packet.is_from_client() {
            return meddle(packet);
        }
        let headers = wire::parse(&packet.bytes).into_iter().map(|part| part.header).collect();
        log.borrow_mut().push((headers, packet.bytes.len()));
        passes(packet)
    });
    let mut world = World::new(Setup { link, ..Setup::default() });
    let handle = world.connect();
    assert!(world.run_until(10 * SECOND, |world| both_confirmed(world, handle)));
    let seen = seen.borrow();
    seen.clone()
}

fn has_initial(headers: &[Header]) -> bool {
    headers.iter().any(|header| matches!(header, Header::Initial { .. }))
}

#[test]
fn a_client_with_handshake_packets_to_send_sends_no_initial_packet_and_pads_nothing() {
    let datagrams = datagrams_of_client(passes);
    let (first, second) = (&datagrams[0], &datagrams[1]);
    assert!(has_initial(&first.0) && first.1 >= 1200);
    assert!(matches!(second.0[0], Header::Handshake { .. }), "{:?}", second.0);
    assert!(datagrams[1..].iter().all(|(headers, _)| !has_initial(headers)));
    assert!(second.1 < 600, "{} bytes", second.1);
}

#[test]
fn a_client_that_got_nothing_but_an_initial_packet_acknowledges_it() {
    let mut is_first = true;
    let datagrams = datagrams_of_client(move |mut packet| {
        if std::mem::take(&mut is_first) {
            let initial = wire::parse(&packet.bytes)[0].len;
            packet.bytes.truncate(initial);
        }
        passes(packet)
    });
    let (second, size) = &datagrams[1];
    assert!(has_initial(second) && *size >= 1200, "{second:?}");
}

// RFC 9000 section 8.1.

#[test]
fn a_server_sends_at_most_three_times_what_it_received_when_the_client_vanishes() {
    for certificates in [1, 4, 16, 40] {
        let link =
            link(|packet, _| if packet.is_from_client() && packet.ordinal > 0 { vec![] } else { passes(packet) });
        let mut world = World::new(Setup { link, ..large_certificates(certificates) });
        world.connect();
        world.run_until(120 * SECOND, |world| {
            assert_not_amplified(world);
            false
        });
        assert!(world.server.sent_bytes > 1200, "the server answered");
        assert_eq!(world.server.endpoint.connections(), 0, "the server forgot the client");
        assert_eq!(world.client.endpoint.connections(), 0);
    }
}

#[test]
fn a_large_certificate_flight_stays_within_three_times_and_arrives() {
    for certificates in [8, 16, 40] {
        let mut world = World::new(large_certificates(certificates));
        let handle = world.connect();
        let done = world.run_until(30 * SECOND, |world| {
            assert_not_amplified(world);
            both_confirmed(world, handle)
        });
        assert!(done, "{certificates}: {:?} {:?}", world.client_error(), world.server_error());
        assert!(world.now.as_nanos() < 2_000_000_000, "{certificates} certificates took until {:?}", world.now);
    }
}

#[test]
fn amplification_stays_within_three_times_under_loss_and_the_handshake_ends() {
    for seed in 0..20 {
        let link = link(|packet, rng| if rng.next_u32() % 100 < 40 { vec![] } else { passes(packet) });
        let mut world = World::new(Setup { seed, link, ..large_certificates(16) });
        let handle = world.connect();
        let over = world.run_until(120 * SECOND, |world| {
            assert_not_amplified(world);
            both_confirmed(world, handle) || world.client.connections.is_empty() && world.server.connections.is_empty()
        });
        assert!(over, "seed {seed}: {:?} {:?}", world.client.events, world.server.events);
    }
}

/// RFC 9002 section 6.2.2.1: the server may send no more, and all the client sent was acknowledged; the client has to
/// speak.
#[test]
fn the_client_breaks_the_deadlock_of_a_server_at_its_amplification_limit() {
    // Every client datagram but the first two and the server's fourth to eighth are lost for a while.
    for lost_from_client in 1..6 {
        let link = link(move |packet, _| {
            let lost = packet.is_from_client() && (1..=lost_from_client).contains(&packet.ordinal);
            if lost { vec![] } else { passes(packet) }
        });
        let mut world = World::new(Setup { link, ..large_certificates(16) });
        let handle = world.connect();
        let done = world.run_until(28 * SECOND, |world| {
            assert_not_amplified(world);
            both_confirmed(world, handle)
        });
        assert!(done, "{lost_from_client} lost: {:?} {:?}", world.client.events, world.server.events);
    }
}

#[test]
fn under_thirty_percent_loss_a_handshake_completes_or_times_out_but_never_hangs() {
    let mut completed = 0;
    for seed in 0..50 {
        let link = Link::lossy(Duration::from_millis(20), 30);
        let mut world = World::new(Setup { seed, link, ..Setup::default() });
        let handle = world.connect();
        let over = world.run_until(100 * SECOND, |world| {
            both_confirmed(world, handle) || world.client.connections.is_empty() && world.server.connections.is_empty()
        });
        assert!(over, "seed {seed} hangs: {:?} {:?}", world.client.events, world.server.events);
        if both_confirmed(&world, handle) {
            completed += 1;
        } else {
            assert_eq!(world.client_error(), Some(ConnectionError::TimedOut), "seed {seed}");
        }
    }
    assert!(completed >= 48, "only {completed} of 50 completed");
}

// Retry: RFC 9000 sections 8.1.2 and 17.2.5.

fn always_retry(config: &mut ServerConfig) {
    config.retry = RetryPolicy::Always;
}

#[test]
fn a_client_follows_a_retry_and_the_server_takes_its_token() {
    let mut world = World::new(Setup { tweak_server: Box::new(always_retry), ..Setup::default() });
    let handle = world.handshake();
    assert_eq!(world.client_conn(handle).stats().handshake_time, Some(Duration::from_millis(80)));
    assert!(world.transfer(handle, true, 100_000, 10 * SECOND).is_some());
}

#[test]
fn retry_works_under_loss() {
    for seed in 0..20 {
        let link = Link::lossy(Duration::from_millis(20), 20);
        let mut world = World::new(Setup { seed, link, tweak_server: Box::new(always_retry), ..Setup::default() });
        let handle = world.connect();
        let over = world.run_until(100 * SECOND, |world| both_confirmed(world, handle));
        assert!(over, "seed {seed}: {:?} {:?}", world.client.events, world.server.events);
    }
}

#[test]
fn an_expired_retry_token_is_refused_with_invalid_token() {
    let setup = Setup {
        tweak_server: Box::new(|config| {
            always_retry(config);
            let key = TokenKey::new(&[7; 32]).with_lifetimes(SECOND, SECOND);
            config.token_key = Arc::new(key);
        }),
        link: link(|packet, _| {
            let slow = !packet.is_from_client() && packet.ordinal == 0;
            vec![(if slow { 5 * SECOND } else { ZERO }, packet)]
        }),
        ..Setup::default()
    };
    // Whatever the client repeats meanwhile is answered with other tokens; only the first, slow answer counts here.
    let mut world = World::new(setup);
    let slow = world.link.meddle;
    let mut slow = slow;
    world.link.meddle = Box::new(move |packet, rng| {
        let repeated =
            !packet.is_from_client() && packet.ordinal > 0 && wire::parse(&packet.bytes)[0].header.is_a_retry();
        if repeated { vec![] } else { slow(packet, rng) }
    });
    world.connect();
    world.run_for(20 * SECOND);
    match world.client_error() {
        Some(ConnectionError::PeerTransport { code, .. }) => assert_eq!(code, TransportErrorCode::INVALID_TOKEN),
        other => panic!("{other:?}"),
    }
    assert_eq!(world.server.endpoint.connections(), 0);
}

trait IsRetry {
    fn is_a_retry(&self) -> bool;
}

impl IsRetry for Header {
    fn is_a_retry(&self) -> bool {
        matches!(self, Header::Retry { .. })
    }
}

/// Rewrites the token of a Retry packet and seals it anew, as anybody who saw the client's Initial can.
fn forge_retry(packet: &mut Packet, original: &[u8]) {
    let partial = wire::parse(&packet.bytes).remove(0);
    let Header::Retry { token, .. } = partial.header else { panic!("no Retry") };
    packet.bytes[token.start + 20] ^= 1;
    let body = packet.bytes.len() - packet::RETRY_TAG_LEN;
    let tag = initial::retry_tag(Version::V1, original, &packet.bytes[..body]);
    packet.bytes[body..].copy_from_slice(&tag);
}

#[test]
fn a_tampered_retry_token_opens_no_connection() {
    let mut original = Vec::new();
    let link = link(move |mut packet, _| {
        if original.is_empty() {
            original = wire::parse(&packet.bytes)[0].header.dcid().as_slice().to_vec();
        }
        if !packet.is_from_client() && packet.ordinal == 0 {
            forge_retry(&mut packet, &original);
        }
        passes(packet)
    });
    let mut world = World::new(Setup { link, tweak_server: Box::new(always_retry), ..Setup::default() });
    world.connect();
    world.run_for(60 * SECOND);
    assert!(world.client_error().is_some(), "the client gave up");
    assert_eq!(world.server.events, []);
    assert_eq!((world.client.endpoint.connections(), world.server.endpoint.connections()), (0, 0));
}

#[test]
fn a_retry_with_a_wrong_integrity_tag_is_ignored() {
    let link = link(|packet, _| {
        let mut fate = passes(packet.clone());
        if !packet.is_from_client() && packet.ordinal == 0 {
            let mut forged = packet;
            *forged.bytes.last_mut().unwrap() ^= 1;
            fate.insert(0, (ZERO, forged));
        }
        fate
    });
    let mut world = World::new(Setup { link, tweak_server: Box::new(always_retry), ..Setup::default() });
    world.handshake();
}

#[test]
fn a_second_retry_is_ignored() {
    let mut original = Vec::new();
    let first = Rc::new(RefCell::new(None));
    let link = link(move |packet, _| {
        if original.is_empty() {
            original = wire::parse(&packet.bytes)[0].header.dcid().as_slice().to_vec();
        }
        let mut fate = passes(packet.clone());
        if !packet.is_from_client() {
            if packet.ordinal == 0 {
                *first.borrow_mut() = Some(packet);
            } else if let Some(mut second) = first.borrow_mut().take() {
                // Well formed, with a valid tag, and with another token.
                forge_retry(&mut second, &original);
                fate.insert(0, (ZERO, second));
            }
        }
        fate
    });
    let mut world = World::new(Setup { link, tweak_server: Box::new(always_retry), ..Setup::default() });
    let handle = world.handshake();
    assert!(world.transfer(handle, true, 10_000, 10 * SECOND).is_some());
}

#[test]
fn a_retry_after_the_servers_first_packet_is_ignored() {
    let link = link(|packet, _| {
        let mut fate = passes(packet.clone());
        if !packet.is_from_client() && packet.ordinal == 0 {
            let part = wire::parse(&packet.bytes).remove(0);
            let mut retry = Vec::new();
            let scid = thalweg_proto::cid::ConnectionId::new(&[9; 8]).unwrap();
            packet::write_retry(&mut retry, Version::V1, part.header.dcid(), &scid, &[1; 40], |body| {
                initial::retry_tag(Version::V1, &[0; 8], body)
            });
            fate.push((Duration::from_micros(1), Packet { bytes: retry, ..packet }));
        }
        fate
    });
    World::new(Setup { link, ..Setup::default() }).handshake();
}

/// A token in a server's Initial must be empty; a client discards what is not so.
#[test]
fn rfc9000_17_2_2_a_servers_initial_with_a_token_is_discarded() {
    for (token, arrives) in [(&[][..], true), (&[7; 5][..], false)] {
        let mut spy = Spy::default();
        let forged = Rc::new(RefCell::new(0));
        let count = forged.clone();
        let link = link(move |packet, _| {
            let parts = spy.look(&packet);
            if packet.is_from_client() || !parts[0].is_initial() {
                return passes(packet);
            }
            *count.borrow_mut() += 1;
            let bytes = spy.with_token(&packet, token).expect("an authentic Initial");
            passes(Packet { bytes, ..packet })
        });
        let mut world = World::new(Setup { link, ..Setup::default() });
        let handle = world.connect();
        world.run_for(100 * Duration::from_millis(1));
        assert!(*forged.borrow() >= 1);
        let acknowledged = world.client_conn(handle).stats().path.packets_acked;
        assert_eq!(acknowledged > 0, arrives, "token of {} bytes", token.len());
        assert_eq!(world.client_conn(handle).stats().packets_dropped > 0, !arrives);
        assert_eq!(world.client_error(), None);
    }
}

// NEW_TOKEN: RFC 9000 section 8.1.3.

#[derive(Debug, Default)]
struct Tokens(Mutex<VecDeque<Vec<u8>>>);

impl TokenStore for Tokens {
    fn insert(&self, server_name: &str, token: Vec<u8>) {
        assert_eq!(server_name, "localhost");
        self.0.lock().unwrap().push_back(token);
    }

    fn take(&self, _: &str) -> Option<Vec<u8>> {
        self.0.lock().unwrap().pop_front()
    }
}

/// Closes the client's connection and waits until both ends have forgotten it.
fn hang_up(world: &mut World, handle: ConnectionHandle) {
    let now = world.now;
    world.client_conn(handle).close(now, 0, bytes::Bytes::new());
    world.pump();
    world.run_for(5 * SECOND);
    assert_eq!((world.client.endpoint.connections(), world.server.endpoint.connections()), (0, 0));
    world.client.events.clear();
    world.server.events.clear();
}

#[test]
fn a_token_of_new_token_saves_the_next_connection_the_retry_once() {
    let tokens = Arc::new(Tokens::default());
    let store = tokens.clone();
    let mut world = World::new(Setup {
        tweak_server: Box::new(always_retry),
        tweak_client: Box::new(move |config| config.tokens = Some(store)),
        ..Setup::default()
    });
    let handle = world.handshake();
    world.run_for(SECOND);
    let token = tokens.0.lock().unwrap().front().cloned().expect("a token");
    hang_up(&mut world, handle);

    let handle = world.handshake();
    assert_eq!(world.client_conn(handle).stats().handshake_time, Some(Duration::from_millis(40)));
    world.run_for(SECOND);
    hang_up(&mut world, handle);

    // The same token once more: the server has seen it, and asks for a Retry.
    tokens.0.lock().unwrap().clear();
    tokens.0.lock().unwrap().push_back(token);
    let handle = world.handshake();
    assert_eq!(world.client_conn(handle).stats().handshake_time, Some(Duration::from_millis(80)));
}

#[test]
fn a_token_of_another_server_is_treated_as_none() {
    let tokens = Arc::new(Tokens::default());
    tokens.0.lock().unwrap().push_back(vec![0x4e; 70]);
    let mut world =
        World::new(Setup { tweak_client: Box::new(move |config| config.tokens = Some(tokens)), ..Setup::default() });
    world.handshake();
}

// Versions: RFC 9000 section 6, RFC 8999, RFC 9369.

fn version_negotiation(packet: &Packet, versions: &[Version], rng: &mut rand_chacha::ChaCha8Rng) -> Packet {
    let invariants = Invariants::parse(&packet.bytes).unwrap();
    let mut bytes = Vec::new();
    packet::write_version_negotiation(&mut bytes, &invariants, versions, rng);
    Packet { from: packet.to, to: packet.from, bytes, ..packet.clone() }
}

#[test]
fn an_unknown_version_is_answered_with_version_negotiation_if_the_datagram_is_large_enough() {
    for (len, answered) in [(1200, true), (1199, false), (100, false)] {
        let answers = Rc::new(RefCell::new(Vec::new()));
        let seen = answers.clone();
        let link = link(move |mut packet, _| {
            if packet.is_from_client() && packet.ordinal == 0 {
                wire::set_version(&mut packet.bytes, Version(0x1a2a_3a4a));
                packet.bytes.truncate(len);
                return passes(packet);
            }
            if !packet.is_from_client() {
                seen.borrow_mut().push(packet);
            }
            vec![]
        });
        let mut world = World::new(Setup { link, ..Setup::default() });
        world.connect();
        world.run_for(10 * SECOND);
        assert_eq!(answers.borrow().len(), usize::from(answered), "{len} bytes");
        for packet in answers.borrow().iter() {
            let part = wire::parse(&packet.bytes).remove(0);
            let Header::VersionNegotiation { versions, .. } = part.header else { panic!("{part:?}") };
            let versions: Vec<_> = packet::versions(&packet.bytes[versions]).collect();
            assert!(versions.contains(&Version::V1) && versions.contains(&Version::V2), "{versions:?}");
        }
        assert_eq!(world.server.endpoint.connections(), 0);
    }
}

#[test]
fn a_version_negotiation_without_our_version_ends_the_attempt_with_version_mismatch() {
    let link = link(|packet, rng| {
        if packet.is_from_client() {
            vec![(ZERO, version_negotiation(&packet, &[Version(0x1a2a_3a4a), Version(77)], rng))]
        } else {
            vec![]
        }
    });
    let mut world = World::new(Setup { link, ..Setup::default() });
    world.connect();
    world.run_for(SECOND);
    assert_eq!(world.client_error(), Some(ConnectionError::VersionMismatch));
    assert_eq!(world.client.endpoint.connections(), 0);
}

#[test]
fn a_version_negotiation_that_lists_our_version_is_ignored() {
    let link = link(|packet, rng| {
        let mut fate = passes(packet.clone());
        if packet.is_from_client() && packet.ordinal == 0 {
            fate.insert(0, (ZERO, version_negotiation(&packet, &[Version(77), Version::V1], rng)));
        }
        fate
    });
    World::new(Setup { link, ..Setup::default() }).handshake();
}

#[test]
fn a_version_negotiation_after_the_servers_first_packet_is_ignored() {
    let mut first = None;
    let link = link(move |packet, rng| {
        let mut fate = passes(packet.clone());
        if packet.is_from_client() {
            first.get_or_insert(packet);
        } else if let Some(client) = &first {
            let mut forged = version_negotiation(client, &[Version(77)], rng);
            forged.ordinal = packet.ordinal;
            fate.push((Duration::from_micros(1), forged));
        }
        fate
    });
    let mut world = World::new(Setup { link, ..Setup::default() });
    let handle = world.handshake();
    assert!(world.transfer(handle, true, 10_000, 10 * SECOND).is_some());
}

#[test]
fn a_version_negotiation_with_foreign_connection_ids_is_ignored() {
    let link = link(|packet, rng| {
        let mut fate = passes(packet.clone());
        if packet.is_from_client() && packet.ordinal == 0 {
            let mut forged = version_negotiation(&packet, &[Version(77)], rng);
            let last_of_scid = 5 + 1 + 8 + 1 + 7;
            forged.bytes[last_of_scid] ^= 1;
            fate.insert(0, (ZERO, forged));
        }
        fate
    });
    World::new(Setup { link, ..Setup::default() }).handshake();
}

#[test]
fn version_2_works_from_the_first_packet_on_with_retry_and_data() {
    for retry in [RetryPolicy::Never, RetryPolicy::Always] {
        let link = link(|packet, _| {
            for part in wire::parse(&packet.bytes) {
                assert_eq!(part.header.version().unwrap_or(Version::V2), Version::V2);
            }
            passes(packet)
        });
        let mut world = World::new(Setup {
            link,
            tweak_client: Box::new(|config| config.version = Version::V2),
            tweak_server: Box::new(move |config| config.retry = retry),
            ..Setup::default()
        });
        let handle = world.handshake();
        assert_eq!(world.client_conn(handle).version(), Version::V2);
        assert!(world.transfer(handle, true, 100_000, 10 * SECOND).is_some());
    }
}

// Resumption and 0-RTT: RFC 9001 section 4.6.

/// A client that has been here before.
pub fn returning(setup: Setup) -> World {
    let mut world = World::new(setup);
    let handle = world.handshake();
    world.run_for(SECOND);
    hang_up(&mut world, handle);
    world
}

/// Connects and hands over `len` bytes before the first datagram leaves.
pub fn connect_early(world: &mut World, len: u64) -> (ConnectionHandle, Pump) {
    let remote = harness::SERVER;
    let (handle, mut connection) =
        world.client.endpoint.connect(world.now, world.client_config.clone(), remote, "localhost").unwrap();
    assert!(connection.is_early(), "0-RTT keys from the ticket");
    let stream = connection.streams().open(Dir::Bi).expect("a stream within the remembered limits");
    world.client.connections.insert(handle, connection);
    let mut pump = Pump::new(stream, false, len);
    pump.poke(world, handle);
    world.pump();
    (handle, pump)
}

#[test]
fn the_second_connection_resumes_the_first() {
    let mut world = returning(Setup::default());
    let handle = world.handshake();
    assert!(world.client_conn(handle).stats().resumed);
    assert!(world.server_conn().stats().resumed);
}

#[test]
fn accepted_early_data_arrive_with_the_first_flight() {
    let mut world = returning(Setup::default());
    let started = world.now;
    let (handle, mut pump) = connect_early(&mut world, 4000);
    let done = world.run_until(10 * SECOND, |world| pump.poke(world, handle));
    assert!(done);
    assert_eq!(world.now.saturating_since(started), Duration::from_millis(20), "half a round trip");
    world.run_for(SECOND);
    assert_eq!(world.client_conn(handle).early_data_accepted(), Some(true));
    assert!(world.client.events.iter().any(|(_, event)| *event == Event::EarlyData { accepted: true }));
    assert!(world.transfer(handle, true, 100_000, 10 * SECOND).is_some());
}

#[test]
fn early_data_survive_loss_and_reordering() {
    for seed in 0..20 {
        let mut world = returning(Setup { seed, ..Setup::default() });
        world.link.meddle = Box::new(|packet, rng| match rng.next_u32() % 10 {
            0 | 1 => vec![],
            2 | 3 => vec![(Duration::from_millis(30), packet)],
            _ => passes(packet),
        });
        let (handle, mut pump) = connect_early(&mut world, 100_000);
        let done = world.run_until(100 * SECOND, |world| pump.poke(world, handle));
        assert!(done, "seed {seed}: {:?} {:?}", world.client_error(), world.server_error());
    }
}

#[test]
fn early_data_survive_a_retry() {
    let mut world = returning(Setup { tweak_server: Box::new(always_retry), ..Setup::default() });
    let (handle, mut pump) = connect_early(&mut world, 50_000);
    let done = world.run_until(10 * SECOND, |world| pump.poke(world, handle));
    assert!(done, "{:?} {:?}", world.client_error(), world.server_error());
}

#[test]
fn rejected_early_data_are_sent_again_intact() {
    for seed in 0..10 {
        for loss in [0, 15] {
            let mut world = returning(Setup { seed, ..Setup::default() });
            // Another server, with other ticket keys.
            let date = UnixTime::since_unix_epoch(Duration::from_secs(DATE));
            let crypto = Arc::new(DeterministicServer::new([99; 32], &[b"test"], date).unwrap());
            let config = ServerConfig::new(crypto, Arc::new(TokenKey::new(&[9; 32])));
            world.server.endpoint.set_server_config(Some(Arc::new(config)));
            world.link = Link::lossy(Duration::from_millis(20), loss);
            let (handle, mut pump) = connect_early(&mut world, 60_000);
            let done = world.run_until(60 * SECOND, |world| pump.poke(world, handle));
            assert!(done, "seed {seed} {loss} %: {:?} {:?}", world.client_error(), world.server_error());
            assert_eq!(world.client_conn(handle).early_data_accepted(), Some(false));
            assert!(!world.client_conn(handle).stats().resumed);
        }
    }
}

#[test]
fn early_data_may_not_hold_what_only_later_packets_may() {
    let forbidden = [
        vec![0x02, 0, 0, 0, 0],             // ACK
        vec![0x06, 0, 1, 0],                // CRYPTO
        vec![0x07, 1, 1],                   // NEW_TOKEN
        vec![0x1b, 0, 0, 0, 0, 0, 0, 0, 0], // PATH_RESPONSE
        vec![0x19, 0],                      // RETIRE_CONNECTION_ID
        vec![0x1e],                         // HANDSHAKE_DONE
    ];
    for payload in forbidden {
        let tap = Tap::default();
        let of_client = tap.clone();
        let setup = Setup { tweak_client: Box::new(move |config| of_client.client(config)), ..Setup::default() };
        let mut world = returning(setup);
        tap.lie_raw(Level::EarlyData, payload.clone(), 0);
        connect_early(&mut world, 3000);
        world.run_for(SECOND);
        assert_eq!(tap.told(), 1);
        match world.client_error() {
            Some(ConnectionError::PeerTransport { code, .. }) => {
                assert_eq!(code, TransportErrorCode::PROTOCOL_VIOLATION, "{payload:?}");
            }
            other => panic!("{payload:?}: {other:?}"),
        }
    }
}

/// RFC 9000 section 7.4.1: a server that gives less than the client remembers must not take 0-RTT data.
#[test]
fn early_data_to_a_server_whose_limits_have_shrunk_do_not_break_the_connection() {
    let mut world = returning(Setup::default());
    let mut config = (*world.server_config).clone();
    config.transport = Arc::new(TransportConfig {
        streams: StreamsConfig { stream_receive_window: 5_000, receive_window: 5_000, ..StreamsConfig::default() },
        ..TransportConfig::default()
    });
    world.server.endpoint.set_server_config(Some(Arc::new(config)));
    let (handle, mut pump) = connect_early(&mut world, 60_000);
    let done = world.run_until(60 * SECOND, |world| pump.poke(world, handle));
    assert!(done, "{:?} {:?}", world.client_error(), world.server_error());
}

// When TLS says no, or not yet.

/// A world whose ends use these TLS configurations.
fn with_tls(client: rustls::ClientConfig, server: rustls::ServerConfig) -> Setup {
    Setup {
        tweak_client: Box::new(|config| config.crypto = Arc::new(RustlsClient::new(Arc::new(client)))),
        tweak_server: Box::new(|config| config.crypto = Arc::new(RustlsServer::new(Arc::new(server)))),
        ..Setup::default()
    }
}

#[test]
fn without_a_common_application_protocol_both_ends_learn_it() {
    let client = TlsOptions::new(&[b"one"]).client_insecure().unwrap();
    let server = TlsOptions::new(&[b"other"]).server(vec![test_certificate()], test_key()).unwrap();
    let mut world = World::new(with_tls(client, server));
    world.connect();
    world.run_for(20 * SECOND);
    let expected = TransportErrorCode::crypto(120);
    assert!(matches!(world.server_error(), Some(ConnectionError::Transport(error)) if error.code == expected));
    assert!(matches!(world.client_error(), Some(ConnectionError::PeerTransport { code, .. }) if code == expected));
    assert_eq!((world.client.endpoint.connections(), world.server.endpoint.connections()), (0, 0));
}

#[test]
fn a_certificate_nobody_vouches_for_is_refused_and_both_ends_learn_it() {
    let client = TlsOptions::new(&[b"test"]).client(rustls::RootCertStore::empty()).unwrap();
    let server = TlsOptions::new(&[b"test"]).server(vec![test_certificate()], test_key()).unwrap();
    let mut world = World::new(with_tls(client, server));
    world.connect();
    world.run_for(20 * SECOND);
    let Some(ConnectionError::Transport(error)) = world.client_error() else { panic!("{:?}", world.client_error()) };
    assert!(error.code.tls_alert().is_some(), "{error}");
    let told = world.server_error();
    assert!(matches!(told, Some(ConnectionError::PeerTransport { code, .. }) if code == error.code), "{told:?}");
    assert_eq!((world.client.endpoint.connections(), world.server.endpoint.connections()), (0, 0));
}

#[test]
fn a_server_that_wants_another_key_exchange_gets_it_under_loss_too() {
    use rustls::crypto::ring::kx_group::{SECP256R1, X25519};
    let provider = |groups: Vec<&'static dyn rustls::crypto::SupportedKxGroup>| {
        Arc::new(rustls::crypto::CryptoProvider { kx_groups: groups, ..rustls::crypto::ring::default_provider() })
    };
    for seed in 0..15 {
        for retry in [RetryPolicy::Never, RetryPolicy::Always] {
            let client =
                TlsOptions::new(&[b"test"]).provider(provider(vec![X25519, SECP256R1])).client_insecure().unwrap();
            let server = TlsOptions::new(&[b"test"])
                .provider(provider(vec![SECP256R1]))
                .server(vec![test_certificate()], test_key())
                .unwrap();
            let mut setup = with_tls(client, server);
            let tweak = setup.tweak_server;
            setup.tweak_server = Box::new(move |config| {
                tweak(config);
                config.retry = retry;
            });
            let loss = if seed == 0 { 0 } else { 15 };
            let mut world = World::new(Setup { seed, link: Link::lossy(Duration::from_millis(20), loss), ..setup });
            let handle = world.connect();
            let done = world.run_until(60 * SECOND, |world| {
                assert_not_amplified(world);
                both_confirmed(world, handle)
            });
            assert!(done, "seed {seed}: {:?} {:?}", world.client_error(), world.server_error());
            if seed == 0 {
                let took = world.client_conn(handle).stats().handshake_time;
                let trips = if retry == RetryPolicy::Never { 2 } else { 3 };
                assert_eq!(took, Some(Duration::from_millis(40 * trips)));
            }
        }
    }
}

// A large ClientHello, and data in the server's first flight.

/// A client whose first message takes several datagrams.
fn large_hello() -> Setup {
    Setup {
        tweak_client: Box::new(|config| {
            let names: Vec<Vec<u8>> = (0..60u8).map(|n| vec![b'a' + n % 26; 60]).chain([b"test".to_vec()]).collect();
            let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
            let tls = TlsOptions::new(&names).client_insecure().unwrap();
            config.crypto = Arc::new(RustlsClient::new(Arc::new(tls)));
        }),
        tweak_server: Box::new(move |config| {
            let tls = TlsOptions::new(&[b"test"]).server(vec![test_certificate()], test_key()).unwrap();
            config.crypto = Arc::new(RustlsServer::new(Arc::new(tls)));
        }),
        ..Setup::default()
    }
}

#[test]
fn a_first_message_of_several_datagrams_may_arrive_in_any_order_and_with_losses() {
    for late in 0..5 {
        for lost in 0..5 {
            for retry in [RetryPolicy::Never, RetryPolicy::Always] {
                let link = link(move |packet, _| {
                    assert!(!packet.is_from_client() || packet.ordinal > 3 || packet.bytes.len() >= 1200);
                    match packet.ordinal {
                        n if packet.is_from_client() && n == lost => vec![],
                        n if packet.is_from_client() && n == late => vec![(Duration::from_millis(7), packet)],
                        _ => passes(packet),
                    }
                });
                let mut setup = large_hello();
                let tweak = setup.tweak_server;
                setup.tweak_server = Box::new(move |config| {
                    tweak(config);
                    config.retry = retry;
                });
                let mut world = World::new(Setup { link, ..setup });
                let handle = world.connect();
                let done = world.run_until(30 * SECOND, |world| {
                    assert_not_amplified(world);
                    both_confirmed(world, handle)
                });
                assert!(done, "{late} late, {lost} lost: {:?} {:?}", world.client_error(), world.server_error());
                assert_eq!(world.server.endpoint.connections(), 1);
            }
        }
    }
}

#[test]
fn a_server_may_send_data_with_its_first_flight_within_three_times() {
    let mut world = World::new(Setup::default());
    let handle = world.connect();
    let mut written = false;
    let started = world.now;
    let mut first_byte = None;
    let done = world.run_until(10 * SECOND, |world| {
        assert_not_amplified(world);
        if !written && world.has_server_conn() {
            let server = world.server_conn();
            if let Some(stream) = server.streams().open(Dir::Uni) {
                server.streams().write(stream, &[9; 50_000]).unwrap();
                server.streams().finish(stream).unwrap();
                written = true;
                world.pump();
                assert_not_amplified(world);
            }
        }
        let now = world.now;
        let client = world.client_conn(handle);
        let Some(stream) = client.streams().accept(Dir::Uni).or(first_byte.map(|(stream, _)| stream)) else {
            return false;
        };
        first_byte.get_or_insert((stream, now));
        loop {
            match client.streams().read(stream, 1 << 20) {
                Ok(Some(_)) => {}
                Ok(None) => return true,
                Err(_) => break,
            }
        }
        world.pump();
        false
    });
    assert!(done);
    assert_eq!(first_byte.unwrap().1.saturating_since(started), Duration::from_millis(40), "with the first flight");
}

// Limits and oddities.

#[test]
fn crypto_data_too_far_ahead_are_refused_with_crypto_buffer_exceeded() {
    let tap = Tap::default();
    let of_client = tap.clone();
    let mut world =
        World::new(Setup { tweak_client: Box::new(move |config| of_client.client(config)), ..Setup::default() });
    tap.lie(Level::Initial, &[Frame::Crypto { offset: 1 << 20, data: &[0; 10] }]);
    world.connect();
    world.run_for(SECOND);
    assert_eq!(tap.told(), 1);
    match world.client_error() {
        Some(ConnectionError::PeerTransport { code, .. }) => {
            assert_eq!(code, TransportErrorCode::CRYPTO_BUFFER_EXCEEDED);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn unknown_transport_parameters_are_ignored() {
    let (client, server) = (Tap::default(), Tap::default());
    // Identifiers 31 * 7 + 27 (reserved for this) and 0x7abc, with two bytes each.
    for tap in [&client, &server] {
        tap.add_parameters(&[0x40, 244, 2, 1, 2, 0x40 | 0x3a, 0xbc, 2, 1, 2]);
    }
    let mut world = World::new(Setup {
        tweak_client: Box::new(move |config| client.client(config)),
        tweak_server: Box::new(move |config| server.server(config)),
        ..Setup::default()
    });
    world.handshake();
}

#[test]
fn a_duplicate_transport_parameter_is_refused() {
    let tap = Tap::default();
    tap.add_parameters(&[0x04, 1, 9]); // initial_max_data a second time
    let mut world = World::new(Setup { tweak_client: Box::new(move |config| tap.client(config)), ..Setup::default() });
    world.connect();
    world.run_for(SECOND);
    match world.client_error() {
        Some(ConnectionError::PeerTransport { code, .. }) => {
            assert_eq!(code, TransportErrorCode::TRANSPORT_PARAMETER_ERROR);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn connections_beyond_the_limits_are_refused_and_the_others_live() {
    for of_handshakes in [false, true] {
        let mut world =
            World::new(Setup {
                tweak_server: Box::new(move |config| {
                    if of_handshakes { config.max_handshakes = 2 } else { config.max_connections = 2 }
                }),
                ..Setup::default()
            });
        let handles = [world.connect(), world.connect(), world.connect()];
        world.run_for(SECOND);
        for handle in &handles[..2] {
            assert!(world.client_conn(*handle).is_confirmed());
        }
        match world.client_error() {
            Some(ConnectionError::PeerTransport { code, .. }) => {
                assert_eq!(code, TransportErrorCode::CONNECTION_REFUSED);
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(world.server.endpoint.connections(), 2);
        assert_eq!(world.server.endpoint.handshakes(), 0);
    }
}

#[test]
fn a_handshake_between_ends_with_large_first_datagrams_keeps_its_padding() {
    let config = TransportConfig { initial_mtu: 1400, ..TransportConfig::default() };
    let link = link(|packet, _| {
        if wire::parse(&packet.bytes).iter().any(|part| matches!(part.header, Header::Initial { .. })) {
            assert!(packet.bytes.len() >= 1200);
        }
        passes(packet)
    });
    let mut world = World::new(Setup { link, client: config.clone(), server: config, ..Setup::default() });
    world.handshake();
}
