//! Receivers that lie about what arrived, and when, to be sent to faster than an honest one.
#![allow(clippy::unwrap_used)]

use crate::harness;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use harness::{
    Link, Setup, World,
    tap::{Said, Tap},
    watch,
};
use thalweg_proto::{
    AckPolicy, ConnectionError, Side, TransportConfig, TransportErrorCode, observe::ObserverEvent,
    streams::StreamsConfig,
};
use thalweg_units::Instant;

/// Bytes per second: 50 Mbps.
const RATE: u64 = 50_000_000 / 8;
const ONE_WAY: Duration = Duration::from_millis(150);
const RTT: Duration = Duration::from_millis(300);
const BDP: u64 = RATE * 3 / 10;
const SIZE: u64 = 30_000_000;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// What a sender did.
#[derive(Clone, Debug)]
struct Sent {
    /// When it sent how many bytes.
    bytes: Vec<(Instant, u64)>,
    lost: u64,
    took: Option<Duration>,
    error: Option<ConnectionError>,
}

impl Sent {
    /// The most bytes that left within any `span`.
    fn most_in(&self, span: Duration) -> u64 {
        let (mut most, mut sum, mut first) = (0, 0, 0);
        for (at, bytes) in &self.bytes {
            sum += bytes;
            while at.saturating_since(self.bytes[first].0) >= span {
                sum -= self.bytes[first].1;
                first += 1;
            }
            most = most.max(sum);
        }
        most
    }
}

/// A download by a peer whose packets `hold` delays, by when they leave.
struct Peer {
    policies: &'static str,
    timestamps: u16,
    tap: Tap,
    acks: AckPolicy,
    /// Whether it can be asked for fewer ACKs (draft-ietf-quic-ack-frequency).
    can_be_asked: bool,
    /// When a datagram that leaves at a time is let go.
    hold: Box<dyn Fn(Duration) -> Duration>,
}

impl Peer {
    fn honest(policies: &'static str) -> Peer {
        Peer {
            policies,
            timestamps: 128,
            tap: Tap::default(),
            acks: AckPolicy::default(),
            can_be_asked: true,
            hold: Box::new(|at| at),
        }
    }

    fn download(self) -> Sent {
        let bytes: Arc<Mutex<Vec<(Instant, u64)>>> = Arc::default();
        let seen = bytes.clone();
        let hold = self.hold;
        let clock: Arc<Mutex<Instant>> = Arc::new(Mutex::new(Instant::ZERO));
        let now = clock.clone();
        let observer = watch(move |side, now, event| {
            *clock.lock().unwrap() = now;
            if let (Side::Server, ObserverEvent::PacketSent(packet)) = (side, event) {
                seen.lock().unwrap().push((now, u64::from(packet.size)));
            }
        });
        let link = Link {
            rate: RATE,
            queue: BDP,
            meddle: Box::new(move |packet, _| {
                let at = now.lock().unwrap().saturating_since(Instant::ZERO);
                let extra = if packet.is_from_client() { hold(at).saturating_sub(at) } else { Duration::ZERO };
                vec![(extra, packet)]
            }),
            ..Link::new(ONE_WAY)
        };
        let streams = StreamsConfig {
            stream_receive_window: 1 << 27,
            receive_window: 1 << 27,
            max_stream_receive_window: 1 << 27,
            max_receive_window: 1 << 27,
            send_window: 1 << 27,
            ..StreamsConfig::default()
        };
        let client = TransportConfig {
            min_ack_delay: self.can_be_asked.then(|| ms(1)),
            acks: self.acks,
            streams: streams.clone(),
            ..TransportConfig::default()
        };
        let server = TransportConfig {
            policies: self.policies.parse().unwrap(),
            receive_timestamps: self.timestamps,
            streams,
            ..TransportConfig::default()
        };
        let tap = self.tap;
        let mut world = World::new(Setup {
            null: true,
            link,
            client,
            server,
            observer: Some(observer),
            tweak_client: Box::new(move |config| tap.client(config)),
            ..Setup::default()
        });
        let handle = world.handshake();
        let stream = world.client_conn(handle).streams().open(thalweg_proto::streams::Dir::Bi).unwrap();
        let mut pump = harness::Pump::new(stream, true, SIZE);
        let begin = world.now;
        let mut lost = 0;
        let done = world.run_until(ms(60_000), |world| {
            if world.has_server_conn() {
                lost = world.server_conn().stats().path.packets_lost;
            }
            world.server_error().is_some() || pump.poke(world, handle)
        });
        let took = (done && world.server_error().is_none()).then(|| world.now.saturating_since(begin));
        let bytes = bytes.lock().unwrap().clone();
        Sent { bytes, lost, took, error: world.server_error() }
    }
}

const FILL: &str = "start=peak-bandwidth, ack-rate=phased";

/// Every time that is reported, in microseconds since the first, is replaced by what `times` makes of it.
fn falsify(tap: &Tap, mut times: impl FnMut(f64) -> f64 + Send + 'static) {
    let mut origin: Option<u64> = None;
    tap.falsify_acks(move |said: &mut Said| {
        if let Some(all) = &mut said.times {
            for time in all.iter_mut().rev() {
                let origin = *origin.get_or_insert(time.units);
                let at = time.units as f64 - origin as f64;
                time.units = origin + times(at) as u64;
            }
            for index in (1..all.len()).rev() {
                all[index - 1].units = all[index - 1].units.max(all[index].units);
            }
        }
    });
}

/// The most that leaves within two, three and four round trips.
fn rates(sent: &Sent) -> [u64; 3] {
    [2, 3, 4].map(|rtts| sent.most_in(RTT * rtts))
}

/// The same, the most that any honest receiver gets whose ACKs do not come late: with and without times, with any
/// policy for its ACKs, and whether it can be asked for fewer.
fn honest() -> [u64; 3] {
    let mut most = [0; 3];
    for (timestamps, can_be_asked) in [(0, true), (0, false), (128, true), (128, false)] {
        for acks in AckPolicy::ALL {
            let sent = Peer { timestamps, acks, can_be_asked, ..Peer::honest(FILL) }.download();
            assert!(sent.took.is_some());
            for (most, bytes) in most.iter_mut().zip(rates(&sent)) {
                *most = bytes.max(*most);
            }
        }
    }
    most
}

/// What an honest receiver gets whose ACKs come late by its own account: they are not measured by.
fn late() -> [u64; 3] {
    let downloads = [1, 20].map(|late| {
        let peer = Peer::honest(FILL);
        peer.tap.falsify_acks(move |said: &mut Said| said.raw_delay += late * 1000 / 8);
        rates(&Peer { hold: Box::new(move |at| at + ms(late)), ..peer }.download())
    });
    [0, 1, 2].map(|rtts| downloads.iter().map(|rates| rates[rtts]).max().unwrap())
}

fn assert_at_most(what: &str, sent: &Sent, honest: [u64; 3], percent: u64) {
    let lied = rates(sent);
    eprintln!("{what}: {lied:?} bytes in 2, 3 and 4 round trips, honest {honest:?}, {} lost", sent.lost);
    for (lied, honest) in lied.into_iter().zip(honest) {
        assert!(lied * 100 <= honest * percent, "{what}: {lied} bytes, an honest receiver gets {honest}");
    }
}

fn assert_no_faster(what: &str, sent: &Sent, honest: [u64; 3]) {
    assert_at_most(what, sent, honest, 105);
}

#[test]
fn times_that_are_not_true_do_not_make_a_sender_faster() {
    let (honest, late) = (honest(), late());
    type Lie = (&'static str, fn(f64) -> f64);
    const PERIOD: f64 = 300_000.0;
    let lies: [Lie; 11] = [
        ("1 % fast", |at| at * 0.99),
        ("5 % fast", |at| at * 0.95),
        ("10 % fast", |at| at * 0.9),
        ("20 % fast", |at| at * 0.8),
        ("30 % fast", |at| at * 0.7),
        ("twice as fast", |at| at * 0.5),
        ("all the same", |_| 0.0),
        ("steps of 100 ms, early", |at| (at / 100_000.0).floor() * 100_000.0),
        ("steps of 100 ms, late", |at| (at / 100_000.0).ceil() * 100_000.0),
        ("20 % fast within a round trip", |at| (at / PERIOD).floor() * PERIOD + (at % PERIOD) / 1.25),
        ("ten times as fast within a round trip", |at| {
            (at / PERIOD).floor() * PERIOD + PERIOD - (PERIOD - at % PERIOD) / 10.0
        }),
    ];
    for (what, lie) in lies {
        let peer = Peer::honest(FILL);
        let tap = peer.tap.clone();
        falsify(&tap, lie);
        let sent = peer.download();
        assert!(tap.told() > 10 && sent.error.is_none(), "{what}: {:?}", sent.error);
        assert_no_faster(what, &sent, late);
        // ACKs give the lie away once trains are longer than ACKs come late.
        assert_at_most(what, &sent, honest, 150);
    }
}

#[test]
fn a_receiver_that_ignores_requests_is_not_sent_to_faster() {
    let honest = honest();
    for acks in AckPolicy::ALL {
        for timestamps in [0, 128] {
            let peer = Peer { acks, timestamps, ..Peer::honest(FILL) };
            peer.tap.ignore_ack_requests();
            assert_no_faster(&format!("{acks:?}, {timestamps} times"), &peer.download(), honest);
        }
    }
}

/// Whoever acknowledges what has not arrived, be it lost or on its way, names a number that was left out.
#[test]
fn rfc9000_21_4_optimistic_acknowledgments_end_the_connection_before_they_pay() {
    let honest = Peer::honest(FILL).download().most_in(RTT);
    // Who only fills gaps is found out when the first number that was left out comes.
    for (ahead, most) in [(0, honest / 100 * 105), (1, BDP / 4), (5, BDP / 4), (20, BDP / 4)] {
        let peer = Peer::honest(FILL);
        peer.tap.falsify_acks(move |said: &mut Said| {
            let first = said.ranges.last().unwrap().start;
            said.ranges.truncate(1);
            said.ranges[0] = first..said.ranges[0].end + ahead;
        });
        let sent = peer.download();
        match &sent.error {
            Some(ConnectionError::Transport(error)) => assert_eq!(error.code, TransportErrorCode::PROTOCOL_VIOLATION),
            other => panic!("{ahead} ahead: {other:?}"),
        }
        assert!(sent.most_in(RTT) <= most, "{ahead} ahead: {} bytes", sent.most_in(RTT));
    }
}

/// Who holds back its first ACKs has the path look longer, and then faster. No sender can tell it from such a path. But
/// what it gets for that is bounded, and for a flight or two: the link takes the rest.
#[test]
fn acknowledgments_held_back_at_first_cost_less_than_slow_start_does() {
    let standard = Peer { timestamps: 0, ..Peer::honest("start=standard") }.download();
    for early in [1, 3, 10, 50] {
        // Until the acknowledgments of the first flight leave.
        let hold = Box::new(move |at: Duration| at.max(ms(1605).min(at + ms(early))));
        let sent = Peer { hold, ..Peer::honest(FILL) }.download();
        eprintln!("{early} ms: {:?}, standard {:?}", rates(&sent), rates(&standard));
        assert!(rates(&sent)[1] * 100 <= rates(&standard)[1] * 105, "{early} ms");
        assert!(sent.lost <= standard.lost, "{early} ms: {} lost, standard {}", sent.lost, standard.lost);
    }
}

/// A way back with time slots lets ACKs go together, so that a train looks as fast as ACKs can be sent. The receiver's
/// clock tells it anyway. Without that, slots are noticed once a train spans two.
#[test]
fn acknowledgments_that_leave_in_slots_cost_less_than_slow_start_does() {
    let standard = Peer { timestamps: 0, ..Peer::honest("start=standard") }.download();
    let honest = Peer::honest(FILL).download();
    for slot in [1, 2, 5, 10, 15, 20, 50, 100, 150] {
        let slots = move || Box::new(move |at: Duration| ms(slot) * at.as_nanos().div_ceil(ms(slot).as_nanos()) as u32);
        let told = Peer { hold: slots(), ..Peer::honest(FILL) }.download();
        eprintln!("{slot} ms, told: {:?}, honest {:?}, {} lost", rates(&told), rates(&honest), told.lost);
        assert_eq!(told.lost, 0, "{slot} ms");
        // The round trip is longer by up to a slot, and more fits into it.
        let longer = 105 + slot * 100 / 300;
        assert!(rates(&told)[1] * 100 <= rates(&honest)[1] * longer, "{slot} ms: {:?}", rates(&told));

        let heard = Peer { hold: slots(), timestamps: 0, ..Peer::honest(FILL) }.download();
        eprintln!("{slot} ms, heard: {:?}, standard {:?}, {} lost", rates(&heard), rates(&standard), heard.lost);
        assert!(rates(&heard)[1] * 100 <= rates(&standard)[1] * 105, "{slot} ms: {:?}", rates(&heard));
        assert!(heard.lost <= standard.lost, "{slot} ms: {} lost, standard {}", heard.lost, standard.lost);
    }
}

#[test]
fn delays_of_acknowledgments_that_are_not_true_do_not_make_a_sender_faster() {
    let (honest, late) = (honest(), late());
    // A receiver whose ACKs are always as late as can be is not measured by: slow start opens the path.
    let standard = rates(&Peer { timestamps: 0, ..Peer::honest("start=standard") }.download());
    type Lie = (&'static str, fn(u64) -> u64);
    let lies: [Lie; 5] = [
        ("none", |_| 0),
        ("half", |delay| delay / 2),
        ("twice as long", |delay| 2 * delay),
        ("a millisecond more", |delay| delay + 1000 / 8),
        ("as long as can be said", |_| (1 << 62) - 1),
    ];
    for timestamps in [0, 128] {
        for (what, lie) in lies {
            for hold in [0, 20] {
                let hold = Box::new(move |at: Duration| at + ms(hold));
                let peer = Peer { timestamps, hold, ..Peer::honest(FILL) };
                peer.tap.falsify_acks(move |said: &mut Said| said.raw_delay = lie(said.raw_delay));
                let known = [0, 1, 2].map(|rtts| honest[rtts].max(late[rtts]));
                let is_longest = what == "as long as can be said";
                let most = if is_longest { [0, 1, 2].map(|rtts| known[rtts].max(standard[rtts])) } else { known };
                assert_no_faster(&format!("{what}, {timestamps} times"), &peer.download(), most);
            }
        }
    }
}
