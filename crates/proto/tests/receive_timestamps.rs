//! Timestamps of arrival between two ends (draft-ietf-quic-receive-ts-02).
#![allow(clippy::unwrap_used)]

use crate::harness;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use harness::{Link, Setup, World, alloc, tap::Tap, watch};
use rand_core::Rng;
use thalweg_proto::{
    ConnectionError, Side, TransportConfig, TransportErrorCode,
    crypto::Level,
    observe::{ObserverEvent, PacketKind},
    varint,
};
use thalweg_recovery::{
    AckEvent, Allowance, Arrival, Change, Congestion, Controller, ControllerFactory, PathContext, PathView, Policies,
};
use thalweg_units::Instant;

const SECOND: Duration = Duration::from_secs(1);

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A window of 200 datagrams, and all arrivals that are reported to its path.
#[derive(Clone, Debug, Default)]
struct Listener(Arc<Mutex<Vec<Vec<Arrival>>>>);

impl Controller for Listener {
    fn on_ack(&mut self, event: &AckEvent<'_>) -> Change {
        self.0.lock().unwrap().push(event.arrivals.iter().filter(|arrival| arrival.is_told).copied().collect());
        Change::None
    }

    fn on_datagram_size(&mut self, _size: u16) {}

    fn allowance(&self, path: &PathView<'_>) -> Allowance {
        Allowance::spread(200 * 1_200, path, 1_200)
    }
}

impl ControllerFactory for Listener {
    fn name(&self) -> &str {
        "listener"
    }

    fn build(&self, _birth: &PathContext) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}

/// A server that gets reports of when its packets arrived.
fn asking(listener: &Listener, most: u16) -> TransportConfig {
    let policies = Policies { congestion: Congestion::Custom(Arc::new(listener.clone())), ..Policies::default() };
    TransportConfig { policies, receive_timestamps: most, ..TransportConfig::default() }
}

/// When the server sent its 1-RTT packets, and when the client received them.
type Times = Arc<Mutex<(BTreeMap<u64, Instant>, BTreeMap<u64, Instant>)>>;

fn download(listener: &Listener, most: u16, link: Link, len: u64) -> (World, Times) {
    let times = Times::default();
    let seen = times.clone();
    let observer = watch(move |side, now, event| {
        let mut seen = seen.lock().unwrap();
        match event {
            ObserverEvent::PacketSent(packet) if (side, packet.kind) == (Side::Server, PacketKind::OneRtt) => {
                seen.0.insert(packet.number.unwrap(), now);
            }
            ObserverEvent::PacketReceived(packet) if (side, packet.kind) == (Side::Client, PacketKind::OneRtt) => {
                seen.1.insert(packet.number.unwrap(), now);
            }
            _ => {}
        }
    });
    let server = asking(listener, most);
    let mut world = World::new(Setup { server, link, observer: Some(observer), ..Setup::default() });
    let handle = world.handshake();
    assert!(world.transfer(handle, true, len, 100 * SECOND).is_some(), "{:?}", world.client_error());
    world.run_for(SECOND);
    (world, times)
}

/// What the client saw of the packets sent at a time, in the order of arrival.
fn received(times: &Times, sent: Instant) -> Vec<Instant> {
    let (outgoing, incoming) = &*times.lock().unwrap();
    let numbers = outgoing.iter().filter(|(_, at)| **at == sent).map(|(number, _)| number);
    numbers.filter_map(|number| incoming.get(number).copied()).collect()
}

#[test]
fn arrivals_reach_the_controller_with_the_differences_that_the_receiver_saw() {
    let listener = Listener::default();
    let link = Link { rate: 2_000_000, queue: 400_000, ..Link::new(ms(20)) };
    let (_, times) = download(&listener, 64, link, 400_000);
    let told: Vec<Arrival> = listener.0.lock().unwrap().concat();
    assert!(told.len() > 270, "{} packets with a timestamp", told.len());
    // In the order of sending, which is that of arrival here.
    assert!(told.windows(2).all(|pair| pair[0].sent <= pair[1].sent && pair[0].received <= pair[1].received));
    // The receiver's clock has an origin of its own, the same for all.
    let mut origins = Vec::new();
    for arrival in &told {
        let at = received(&times, arrival.sent);
        let near = |seen: &&Instant| {
            let origin = seen.saturating_since(Instant::ZERO).saturating_sub(arrival.received);
            origins.first().is_none_or(|first: &Duration| first.abs_diff(origin) <= Duration::from_micros(2))
        };
        let seen = at.iter().find(near).unwrap_or_else(|| panic!("{arrival:?} was received at {at:?}"));
        origins.push(seen.saturating_since(Instant::ZERO).saturating_sub(arrival.received));
    }
    // Behind each other they take half a microsecond per byte.
    let gaps = told.windows(2).filter(|pair| {
        let gap = pair[1].received - pair[0].received;
        gap.abs_diff(Duration::from_nanos(500 * pair[1].bytes)) <= Duration::from_micros(2)
    });
    let count = gaps.count();
    assert!(count > 200, "{count} of {} follow each other at the rate of the link", told.len());
}

#[test]
fn most_packets_have_a_timestamp_although_acknowledgments_are_lost_and_packets_reordered() {
    let listener = Listener::default();
    let link = Link {
        meddle: Box::new(|packet, rng| match rng.next_u32() % 20 {
            0 => vec![],
            1 => vec![(ms(7), packet)],
            _ => vec![(ms(0), packet)],
        }),
        ..Link::new(ms(20))
    };
    let (_, times) = download(&listener, 64, link, 1_000_000);
    let told: usize = listener.0.lock().unwrap().iter().map(Vec::len).sum();
    let received = times.lock().unwrap().1.len();
    assert!(told * 10 > received * 8, "{told} of {received}");
}

#[test]
fn no_acknowledgment_carries_more_timestamps_than_were_asked_for() {
    for most in [1, 3] {
        let listener = Listener::default();
        let (world, _) = download(&listener, most, Link::new(ms(20)), 300_000);
        assert_eq!((world.client_error(), world.server_error()), (None, None), "or the server would have refused it");
        let events = listener.0.lock().unwrap();
        assert!(events.iter().all(|arrivals| arrivals.len() <= usize::from(most)));
        assert!(events.iter().any(|arrivals| arrivals.len() == usize::from(most)));
    }
}

#[test]
fn without_the_parameter_there_are_no_timestamps() {
    let listener = Listener::default();
    download(&listener, 0, Link::new(ms(20)), 100_000);
    assert!(listener.0.lock().unwrap().iter().all(Vec::is_empty));
}

/// A server that asks for `most` timestamps receives this payload from its client.
fn lie(most: u16, payload: &[u64], level: Level) -> (World, Option<ConnectionError>, Listener) {
    let (tap, listener) = (Tap::default(), Listener::default());
    let by_client = tap.clone();
    let mut world = World::new(Setup {
        server: asking(&listener, most),
        tweak_client: Box::new(move |config| by_client.client(config)),
        ..Setup::default()
    });
    let mut bytes = Vec::new();
    payload.iter().for_each(|value| varint::encode(*value, &mut bytes));
    if level == Level::OneRtt {
        let handle = world.handshake();
        world.run_for(SECOND);
        tap.lie_raw(level, bytes, 0);
        let _ = world.transfer(handle, false, 20_000, 5 * SECOND);
    } else {
        tap.lie_raw(level, bytes, 0);
        world.connect();
        world.run_for(10 * SECOND);
    }
    assert_eq!(tap.told(), 1);
    let error = world.server_error();
    (world, error, listener)
}

const FRAME: u64 = 0x0317_8307;

#[test]
fn timestamps_that_break_a_rule_close_the_connection() {
    use TransportErrorCode as Code;
    for (what, most, payload, level, code) in [
        ("not asked for", 0, &[FRAME, 0, 0, 0, 0, 0] as &[u64], Level::OneRtt, Code::FRAME_ENCODING_ERROR),
        (
            "more than asked for",
            2,
            &[FRAME, 0, 0, 0, 0, 3, 0, 1, 9, 0, 1, 0, 0, 1, 0],
            Level::OneRtt,
            Code::FRAME_ENCODING_ERROR,
        ),
        (
            "before the clock began",
            9,
            &[FRAME, 0, 0, 0, 0, 2, 0, 1, 9, 0, 1, 10],
            Level::OneRtt,
            Code::FRAME_ENCODING_ERROR,
        ),
        ("below packet 0", 9, &[FRAME, 0, 0, 0, 0, 1, 0, 2, 9, 1], Level::OneRtt, Code::FRAME_ENCODING_ERROR),
        ("in an Initial packet", 9, &[FRAME, 0, 0, 0, 0, 0], Level::Initial, Code::PROTOCOL_VIOLATION),
        ("in a Handshake packet", 9, &[FRAME, 0, 0, 0, 0, 0], Level::Handshake, Code::PROTOCOL_VIOLATION),
    ] {
        match lie(most, payload, level).1 {
            Some(ConnectionError::Transport(error)) => assert_eq!(error.code, code, "{what}: {error}"),
            other => panic!("{what}: {other:?}"),
        }
    }
}

#[test]
fn timestamps_that_are_merely_untrue_do_no_harm() {
    const LATE: u64 = (1 << 62) - 1;
    for payload in [
        // At the end of all time, at its beginning, twice, and of a packet that is not acknowledged.
        &[FRAME, 0, 0, 0, 0, 1, 0, 1, LATE] as &[u64],
        &[FRAME, 0, 0, 0, 0, 1, 0, 1, 0],
        &[FRAME, 0, 0, 0, 0, 2, 0, 1, LATE, 0, 1, LATE],
        &[FRAME, 1, 0, 0, 0, 1, 1, 1, 5],
    ] {
        let (mut world, error, _) = lie(9, payload, Level::OneRtt);
        assert_eq!((error, world.client_error()), (None, None), "{payload:?}");
        world.run_for(20 * SECOND);
        assert_eq!((world.server_error(), world.client_error()), (None, None), "{payload:?}");
    }
}

#[test]
fn timestamps_take_bounded_memory() {
    let mut live = [0, 0];
    for (most, live) in [0, 128].into_iter().zip(&mut live) {
        let before = alloc::live();
        let listener = Listener::default();
        let (world, _times) = download(&Listener::default(), most, Link::new(ms(20)), 100_000);
        drop((listener, _times));
        *live = alloc::live() - before;
        drop(world);
    }
    assert!(live[1] < live[0] + 20_000, "{live:?} bytes");
}
