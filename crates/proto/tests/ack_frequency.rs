//! Requests for acknowledgments between two ends: ACK_FREQUENCY and IMMEDIATE_ACK (draft-ietf-quic-ack-frequency-12).
#![allow(clippy::unwrap_used)]

use crate::harness;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use harness::{Link, Setup, World, tap::Tap, watch};
use rand_core::Rng;
use thalweg_proto::{
    AckPolicy, ConnectionError, Side, TransportConfig, TransportErrorCode,
    crypto::Level,
    frame::{AckFrequency, Frame},
    observe::{FrameInfo, ObserverEvent, ObserverFactory, PacketKind},
};
use thalweg_units::Instant;

const SECOND: Duration = Duration::from_secs(1);

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// One end accepts requests, the other makes them.
fn config(policies: &str, min_ack_delay: Option<Duration>) -> TransportConfig {
    let policies = policies.parse().unwrap();
    TransportConfig { policies, min_ack_delay, skip_packet_numbers: false, ..TransportConfig::default() }
}

/// A frame that went over the wire: by whom, when, in which packet.
type Seen = (Side, Instant, u64, FrameInfo);

/// What went over the wire.
#[derive(Clone, Default)]
struct Wire(Arc<Mutex<Vec<Seen>>>);

impl Wire {
    fn observer(&self) -> Arc<dyn ObserverFactory> {
        let seen = self.0.clone();
        watch(move |side, now, event| {
            if let ObserverEvent::PacketSent(packet) = event
                && packet.kind == PacketKind::OneRtt
            {
                let frames = packet.frames.iter().map(|frame| (side, now, packet.number.unwrap(), *frame));
                seen.lock().unwrap().extend(frames);
            }
        })
    }

    fn by(&self, side: Side) -> Vec<(Instant, u64, FrameInfo)> {
        let seen = self.0.lock().unwrap();
        seen.iter().filter(|frame| frame.0 == side).map(|frame| (frame.1, frame.2, frame.3)).collect()
    }

    /// Numbers, packets per ACK and delays of the requests.
    fn requests(&self, side: Side) -> Vec<(u64, u64, u64)> {
        let request = |(_, _, frame)| match frame {
            FrameInfo::AckFrequency { sequence, threshold, max_ack_delay_us, .. } => {
                Some((sequence, threshold + 1, max_ack_delay_us))
            }
            _ => None,
        };
        self.by(side).into_iter().filter_map(request).collect()
    }

    fn acks(&self, side: Side) -> usize {
        self.by(side).iter().filter(|(_, _, frame)| matches!(frame, FrameInfo::Ack { .. })).count()
    }

    fn immediate(&self, side: Side) -> Vec<Instant> {
        let frames = self.by(side).into_iter();
        frames.filter(|frame| frame.2 == FrameInfo::ImmediateAck).map(|frame| frame.0).collect()
    }
}

/// 10 MB/s and 40 ms.
fn link() -> Link {
    Link { rate: 10_000_000, queue: 400_000, ..Link::new(ms(20)) }
}

/// A download of 4 MB. Returns the world afterwards, what went over the wire and how long it took.
fn download(server: TransportConfig, client: TransportConfig, link: Link) -> (World, Wire, Duration) {
    let wire = Wire::default();
    let mut world = World::new(Setup { server, client, link, observer: Some(wire.observer()), ..Setup::default() });
    let handle = world.handshake();
    let took = world.transfer(handle, true, 4_000_000, 100 * SECOND);
    let took = took.unwrap_or_else(|| panic!("{:?} {:?}", world.client_error(), world.server_error()));
    (world, wire, took)
}

#[test]
fn a_sender_that_asks_gets_fewer_acknowledgments_at_no_cost_in_time() {
    let plain = || TransportConfig { acks: AckPolicy::EverySecond, ..config("ack-rate=off", None) };
    let (_, dense, usual) = download(plain(), plain(), link());
    let (_, thin, asked) = download(config("ack-rate=phased", None), config("", Some(ms(1))), link());
    let (before, after) = (dense.acks(Side::Client), thin.acks(Side::Client));
    assert!(after * 3 < before, "{after} instead of {before} acknowledgments");
    assert!(asked < usual.mul_f64(1.03), "{asked:?} instead of {usual:?}");
    let requests = thin.requests(Side::Server);
    let numbers: Vec<u64> = requests.iter().map(|request| request.0).collect();
    assert_eq!(numbers, (0..requests.len() as u64).collect::<Vec<_>>(), "each request has the next number");
    assert!(requests.iter().all(|request| request.2 >= 1_000), "no delay below the peer's min_ack_delay: {requests:?}");
    assert!(requests.len() < 30, "{} requests in {asked:?}", requests.len());
    assert_eq!(thin.requests(Side::Client), [], "who sends no data asks for nothing");
}

#[test]
fn at_least_four_acknowledgments_arrive_in_each_round_trip_of_the_start() {
    let (_, wire, _) = download(config("ack-rate=phased", None), config("", Some(ms(1))), link());
    let acks = wire.by(Side::Client).into_iter().filter(|(_, _, frame)| matches!(frame, FrameInfo::Ack { .. }));
    let times: Vec<Instant> = acks.map(|(at, ..)| at).collect();
    // From the second round trip with data on, in which more than a handful of packets arrive.
    let first = times[0] + ms(80);
    for round in 0..5 {
        let (from, to) = (first + ms(40) * round, first + ms(40) * (round + 1));
        let count = times.iter().filter(|at| (from..to).contains(*at)).count();
        assert!(count >= 4, "{count} acknowledgments in round trip {round}");
    }
}

/// BBR looks for a shorter round trip every five seconds, and asks for the acknowledgment that ends the search.
#[test]
fn a_probe_for_the_round_trip_time_asks_once_for_a_prompt_acknowledgment() {
    let sent = |peer: Option<Duration>| {
        let wire = Wire::default();
        let (server, client) = (config("controller=bbr", None), config("", peer));
        let mut world =
            World::new(Setup { server, client, link: link(), observer: Some(wire.observer()), ..Setup::default() });
        let handle = world.handshake();
        // 13 s: two searches.
        assert!(world.transfer(handle, true, 130_000_000, 100 * SECOND).is_some());
        wire.immediate(Side::Server)
    };
    let asked = sent(Some(ms(1)));
    assert!((1..=3).contains(&asked.len()), "{asked:?}");
    assert!(asked.windows(2).all(|two| two[1] - two[0] > 4 * SECOND), "{asked:?}");
    assert_eq!(sent(None), [], "of a peer that takes no requests nothing is asked");
}

#[test]
fn nothing_is_asked_of_a_peer_that_has_not_said_that_it_takes_requests() {
    let (_, wire, _) = download(config("ack-rate=phased", Some(ms(1))), config("ack-rate=phased", None), link());
    assert_eq!(wire.requests(Side::Server), []);
    assert_eq!(wire.immediate(Side::Server), []);
}

#[test]
fn nothing_is_asked_without_a_policy() {
    let off = || config("ack-rate=off", Some(ms(1)));
    let (_, wire, _) = download(off(), off(), link());
    assert_eq!(wire.requests(Side::Server), []);
}

#[test]
fn requests_survive_loss() {
    for seed in 0..5 {
        let link = Link {
            meddle: Box::new(
                |packet, rng| if rng.next_u32().is_multiple_of(10) { vec![] } else { vec![(ms(0), packet)] },
            ),
            ..link()
        };
        let wire = Wire::default();
        let (server, client) = (config("ack-rate=phased(opening=4, later=4)", None), config("", Some(ms(1))));
        let observer = Some(wire.observer());
        let mut world = World::new(Setup { seed, server, client, link, observer, ..Setup::default() });
        let handle = world.handshake();
        assert!(world.transfer(handle, true, 1_000_000, 100 * SECOND).is_some(), "seed {seed}");
        let requests = wire.requests(Side::Server);
        assert!(requests.windows(2).all(|pair| pair[0].0 < pair[1].0), "numbers rise, repeated or not: {requests:?}");
        assert!(!requests.is_empty());
    }
}

#[test]
fn draft_5_probes_ask_to_be_acknowledged_at_once() {
    let wire = Wire::default();
    let (server, client) = (config("ack-rate=phased", None), config("", Some(ms(1))));
    let mut world =
        World::new(Setup { server, client, link: link(), observer: Some(wire.observer()), ..Setup::default() });
    let handle = world.handshake();
    assert!(world.transfer(handle, true, 100_000, 10 * SECOND).is_some());
    assert_eq!(wire.immediate(Side::Server), [], "nothing was silent");
    world.run_for(SECOND);
    // Everything the server sends is lost for a while.
    let until = world.now + ms(400);
    let lossy = Arc::new(Mutex::new(true));
    let is_lossy = lossy.clone();
    world.link.meddle =
        Box::new(
            move |packet, _| {
                if *is_lossy.lock().unwrap() && !packet.is_from_client() { vec![] } else { vec![(ms(0), packet)] }
            },
        );
    world.server_conn().ping();
    world.pump();
    let now = world.now;
    world.run_for(until.saturating_since(now));
    *lossy.lock().unwrap() = false;
    world.run_for(SECOND);
    let asked = wire.immediate(Side::Server);
    assert!(!asked.is_empty(), "a probe asks");
    let last = *asked.last().unwrap();
    let acks = wire.by(Side::Client);
    let arrival = last + ms(20)..last + ms(21);
    let answered = acks.iter().any(|(at, _, frame)| arrival.contains(at) && matches!(frame, FrameInfo::Ack { .. }));
    assert!(answered, "acknowledged on arrival, 20 ms after {last:?}");
}

/// A client that takes requests receives these frames from its server.
fn lie(frames: &[Frame<'_>], level: Level, min_ack_delay: Option<Duration>) -> (World, Option<ConnectionError>) {
    let tap = Tap::default();
    let by_server = tap.clone();
    let mut world = World::new(Setup {
        client: config("", min_ack_delay),
        tweak_server: Box::new(move |config| by_server.server(config)),
        ..Setup::default()
    });
    if level != Level::OneRtt {
        tap.lie(level, frames);
        world.connect();
        world.run_for(10 * SECOND);
    } else {
        let handle = world.handshake();
        world.run_for(SECOND);
        tap.lie(level, frames);
        // What the falsified packet should have carried may never arrive.
        let _ = world.transfer(handle, true, 20_000, 5 * SECOND);
    }
    assert_eq!(tap.told(), 1);
    let error = world.client_error();
    (world, error)
}

fn request(delay: u64, threshold: u64, reordering_threshold: u64) -> Frame<'static> {
    Frame::AckFrequency(AckFrequency { sequence: 0, threshold, max_ack_delay: delay, reordering_threshold })
}

#[track_caller]
fn refused(frame: Frame<'_>, level: Level, min_ack_delay: Option<Duration>, code: TransportErrorCode) {
    match lie(std::slice::from_ref(&frame), level, min_ack_delay).1 {
        Some(ConnectionError::Transport(error)) => assert_eq!(error.code, code, "{frame:?}: {error}"),
        other => panic!("{frame:?}: {other:?}"),
    }
}

#[test]
fn requests_that_break_a_rule_close_the_connection() {
    use TransportErrorCode as Code;
    let accepts = Some(ms(2));
    refused(request(1_999, 1, 1), Level::OneRtt, accepts, Code::PROTOCOL_VIOLATION);
    refused(request(0, 1, 1), Level::OneRtt, accepts, Code::PROTOCOL_VIOLATION);
    refused(request((1 << 14) * 1_000, 1, 1), Level::OneRtt, accepts, Code::PROTOCOL_VIOLATION);
    refused(request((1 << 62) - 1, 1, 1), Level::OneRtt, accepts, Code::PROTOCOL_VIOLATION);
    refused(request(25_000, 1, 1), Level::OneRtt, None, Code::FRAME_ENCODING_ERROR);
    refused(Frame::ImmediateAck, Level::OneRtt, None, Code::FRAME_ENCODING_ERROR);
    for frame in [request(25_000, 1, 1), Frame::ImmediateAck] {
        refused(frame.clone(), Level::Initial, accepts, Code::PROTOCOL_VIOLATION);
        refused(frame, Level::Handshake, accepts, Code::PROTOCOL_VIOLATION);
    }
}

#[test]
fn extreme_requests_are_obeyed_and_harm_only_who_makes_them() {
    const MOST: u64 = (1 << 62) - 1;
    for frame in [request(2_000, 0, 0), request(2_000, MOST, MOST), request((1 << 14) * 1_000 - 1, MOST, 0)] {
        let (mut world, error) = lie(std::slice::from_ref(&frame), Level::OneRtt, Some(ms(2)));
        assert_eq!((error, world.server_error()), (None, None), "{frame:?}");
        // The connection lives on: an answer takes no more than a round trip.
        let handle = *world.client.connections.keys().next().unwrap();
        world.client_conn(handle).ping();
        world.pump();
        world.run_for(SECOND);
        let now = world.now;
        assert!(world.client_conn(handle).silence(now) < ms(970), "{frame:?}");
        world.run_for(20 * SECOND);
        assert_eq!((world.client_error(), world.server_error()), (None, None), "{frame:?}");
    }
}
