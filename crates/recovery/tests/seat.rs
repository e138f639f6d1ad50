//! The events that a controller from outside receives: losses packet by packet, marks, receive times, delivery,
//! restarts, a saved path.

use std::sync::{Arc, Mutex};

use thalweg_recovery::{
    AckEvent, AckFrame, Allowance, Arrival, Change, Config, Congestion, Controller, ControllerFactory, DataSpace,
    Decrease, Ecn, EcnCounts, LossSample, NewPath, Outcome, PathContext, PathId, PathView, Policies, RateSample,
    ReceiveTime, Recovery, SavedPath, Sent, SpaceId, Timeout,
};
use thalweg_units::{Duration, Instant, Rate};

const SIZE: u32 = 1_000;

/// The content of one event for the controller.
#[derive(Clone, Debug)]
struct Told {
    acked: u64,
    lost: u64,
    losses: Vec<LossSample>,
    arrivals: Vec<Arrival>,
    ce: u64,
    delivered: u64,
    sample: Option<RateSample>,
    newest_sent: Option<Instant>,
    ends_start: bool,
    congestion: Option<Decrease>,
}

/// Records its events; an endless window, ECT(1).
#[derive(Debug)]
struct Recorder(Arc<Mutex<Log>>);

#[derive(Debug, Default)]
struct Log {
    contexts: Vec<PathContext>,
    events: Vec<Told>,
    restarts: Vec<Duration>,
    asked: u32,
    /// A window of so many bytes over a round trip is allowed, instead of everything.
    spreads: Option<u64>,
    /// Slow start is under way.
    is_starting: bool,
}

impl Controller for Recorder {
    fn on_ack(&mut self, event: &AckEvent<'_>) -> Change {
        self.0.lock().unwrap().events.push(Told {
            acked: event.acked,
            lost: event.lost,
            losses: event.losses.to_vec(),
            arrivals: event.arrivals.to_vec(),
            ce: event.marks.ce,
            delivered: event.delivered,
            sample: event.delivery,
            newest_sent: event.newest_sent(),
            ends_start: event.marks.ends_start,
            congestion: event.congestion.map(|congestion| congestion.decrease),
        });
        Change::None
    }

    fn on_restart(&mut self, _now: Instant, idle: Duration) -> Change {
        self.0.lock().unwrap().restarts.push(idle);
        Change::None
    }

    fn on_datagram_size(&mut self, _size: u16) {}

    fn allowance(&self, path: &PathView<'_>) -> Allowance {
        let mut log = self.0.lock().unwrap();
        log.asked += 1;
        if let Some(window) = log.spreads {
            return Allowance::spread(window, path, SIZE as u16);
        }
        Allowance::new(1 << 40, None, SIZE as u16)
    }

    fn ecn_codepoint(&self) -> Ecn {
        Ecn::Ect1
    }

    fn can_end_start(&self) -> bool {
        self.0.lock().unwrap().is_starting
    }
}

#[derive(Debug, Default)]
struct Recorders(Arc<Mutex<Log>>);

impl ControllerFactory for Recorders {
    fn name(&self) -> &str {
        "recorder"
    }

    fn build(&self, context: &PathContext) -> Box<dyn Controller> {
        self.0.lock().unwrap().contexts.push(*context);
        Box::new(Recorder(self.0.clone()))
    }
}

struct Stage {
    recovery: Recovery<()>,
    path: PathId,
    now: Instant,
    next: u64,
    log: Arc<Mutex<Log>>,
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

impl Stage {
    fn new() -> Stage {
        Stage::on(NewPath::new(SIZE as u16))
    }

    fn on(path: NewPath) -> Stage {
        let factory = Recorders::default();
        let log = factory.0.clone();
        let mut policies: Policies = "reordering=fixed".parse().unwrap();
        policies.congestion = Congestion::Custom(Arc::new(factory));
        let mut recovery = Recovery::new(Config { policies, seed: 7, ..Config::default() }, false);
        let path = recovery.add_path(Instant::ZERO, path);
        recovery.set_handshake_confirmed(Instant::ZERO);
        Stage { recovery, path, now: Instant::ZERO, next: 0, log }
    }

    fn send(&mut self, count: u64) {
        for _ in 0..count {
            let packet = Sent {
                number: self.next,
                time: self.now,
                size: SIZE,
                ack_eliciting: true,
                in_flight: true,
                mtu_probe: false,
                ecn: self.recovery.path(self.path).unwrap().ecn_codepoint(),
                path: self.path,
                data: (),
            };
            self.recovery.on_sent(SpaceId::DATA, packet, true);
            self.next += 1;
        }
    }

    fn ack(&mut self, numbers: std::ops::RangeInclusive<u64>, ecn: Option<EcnCounts>, arrivals: &[ReceiveTime]) {
        let plain = AckFrame::new(self.now, [numbers].into_iter());
        let AckFrame { ranges, arrived, delay, way_back, .. } = plain;
        let frame = AckFrame { ecn, arrivals, ranges, arrived, delay, way_back };
        self.recovery.on_ack(self.now, SpaceId::DATA, frame, &mut Outcome::default()).unwrap();
    }

    fn told(&self) -> Told {
        self.log.lock().unwrap().events.last().unwrap().clone()
    }
}

fn ect1(ect1: u64, ce: u64) -> Option<EcnCounts> {
    Some(EcnCounts { ect0: 0, ect1, ce })
}

#[test]
fn every_lost_packet_comes_with_what_the_path_looked_like_when_it_was_sent() {
    let mut stage = Stage::new();
    stage.send(2);
    stage.now += ms(100);
    stage.ack(0..=1, ect1(2, 0), &[]);
    let sent = stage.now;
    stage.send(10);
    stage.now += ms(100);
    stage.ack(7..=11, ect1(7, 0), &[]);
    let told = stage.told();
    // Three places behind 11 and more: 2 to 6.
    assert_eq!((told.acked, told.lost, told.delivered), (5_000, 5_000, 7_000));
    assert_eq!(told.newest_sent, Some(sent));
    let in_flight: Vec<u64> = told.losses.iter().map(|loss| loss.in_flight).collect();
    assert_eq!(in_flight, [1_000, 2_000, 3_000, 4_000, 5_000], "the packet itself included");
    for loss in &told.losses {
        assert_eq!((loss.bytes, loss.sent, loss.delivered, loss.lost), (1_000, sent, 2_000, 0));
        assert!(!loss.application_limited);
    }
    stage.send(6);
    stage.now += ms(100);
    stage.ack(17..=17, ect1(8, 0), &[]);
    let told = stage.told();
    assert!(told.losses.iter().all(|loss| (loss.delivered, loss.lost) == (7_000, 5_000)), "{told:?}");
    assert_eq!(told.losses.len(), 3);
}

#[test]
fn a_loss_timer_brings_the_latest_rate_sample_with_the_losses_since() {
    let mut stage = Stage::new();
    stage.send(5);
    stage.now += ms(100);
    // Two behind the newest: not enough packets, so time decides.
    stage.ack(1..=2, ect1(2, 0), &[]);
    let sample = stage.told().sample.unwrap();
    assert!(sample.is_new && sample.lost == 0);
    stage.now = stage.recovery.timer().unwrap();
    assert_eq!(stage.recovery.on_timeout(stage.now, &mut Outcome::default()), Timeout::Lost);
    let told = stage.told();
    assert_eq!((told.acked, told.lost, told.newest_sent), (0, 1_000, None));
    let after = told.sample.unwrap();
    assert_eq!((after.is_new, after.lost, after.rate), (false, 1_000, sample.rate));
}

#[test]
fn rfc9331_a_controller_that_asks_for_ect1_gets_its_marks_counted() {
    let mut stage = Stage::new();
    assert_eq!(stage.recovery.path(stage.path).unwrap().ecn_codepoint(), Ecn::Ect1);
    stage.send(8);
    stage.now += ms(100);
    stage.ack(0..=7, ect1(5, 3), &[]);
    assert_eq!(stage.told().ce, 3);
    stage.send(2);
    stage.now += ms(100);
    stage.ack(8..=9, ect1(7, 3), &[]);
    assert_eq!(stage.told().ce, 0, "no mark counts twice");
    assert_eq!(stage.recovery.path(stage.path).unwrap().stats().ce_marks, 3);
}

#[test]
fn what_a_mark_calls_for_comes_with_the_ack_that_reports_it() {
    for (mark, is_starting, ends_start, congestion) in [
        ("reduce", true, false, Some(Decrease::AsLoss)),
        ("abe", true, false, Some(Decrease::Abe)),
        ("end-start", true, true, None),
        ("end-start", false, false, Some(Decrease::AsLoss)),
        ("end-start(later=ignore)", false, false, None),
        // 15/16 of the first share, and 1/16 of one in eight.
        ("scalable", true, false, Some(Decrease::Share((15 << 16) + (1 << 13)))),
    ] {
        let mut stage = Stage::new();
        let policies = stage.recovery.policies().clone().with(&format!("mark={mark}")).unwrap();
        stage.recovery.set_policies(stage.now, policies).unwrap();
        stage.log.lock().unwrap().is_starting = is_starting;
        stage.send(8);
        stage.now += ms(100);
        stage.ack(0..=7, ect1(7, 1), &[]);
        let told = stage.told();
        assert_eq!((told.ends_start, told.congestion), (ends_start, congestion), "{mark}");
        let events = stage.recovery.path(stage.path).unwrap().stats().congestion_events;
        assert_eq!((told.ce, events), (1, u64::from(congestion.is_some())), "{mark}");
        assert_eq!(stage.log.lock().unwrap().events.len(), 1, "{mark}");
    }
}

#[test]
fn receive_times_reach_the_controller_with_the_packets_they_belong_to() {
    let mut stage = Stage::new();
    stage.send(3);
    stage.now += ms(100);
    let times = [(2, 940), (0, 900)].map(|(number, at)| ReceiveTime { number, at: ms(at) });
    stage.ack(0..=2, ect1(3, 0), &times);
    let arrivals = stage.told().arrivals;
    let seen: Vec<(u64, Duration, bool)> =
        arrivals.iter().map(|arrival| (arrival.bytes, arrival.received, arrival.is_told)).collect();
    let told = [(1_000, ms(900), true), (1_000, ms(940), true)];
    assert_eq!(seen, [told[0], told[1], (1_000, ms(940), false)], "packet 1 had arrived by the time of the last");
    stage.send(1);
    stage.now += ms(100);
    stage.ack(3..=3, ect1(4, 0), &[]);
    assert!(stage.told().arrivals.is_empty());
}

#[test]
fn the_first_packet_after_silence_is_announced_and_no_other() {
    let mut stage = Stage::new();
    stage.send(3);
    stage.now += ms(100);
    stage.ack(0..=2, ect1(3, 0), &[]);
    stage.now += ms(250);
    stage.send(3);
    assert_eq!(stage.log.lock().unwrap().restarts, [ms(250)]);
}

#[test]
fn nobody_is_asked_for_an_allowance_that_has_not_changed() {
    let mut stage = Stage::new();
    let asked = |stage: &Stage| stage.log.lock().unwrap().asked;
    let before = asked(&stage);
    stage.send(1_000);
    stage.now += ms(100);
    stage.ack(999..=999, ect1(1, 0), &[]);
    let sampled = asked(&stage);
    assert_eq!(sampled, before + 1, "a sample of the round trip changes what depends on it");
    // The largest has been acknowledged before: no sample.
    stage.ack(990..=999, ect1(1, 0), &[]);
    assert_eq!(asked(&stage), sampled);
}

#[test]
fn the_rate_follows_the_round_trip_whatever_the_controller_answers() {
    let mut stage = Stage::new();
    stage.log.lock().unwrap().spreads = Some(100_000);
    stage.send(1);
    stage.now += ms(20);
    stage.ack(0..=0, ect1(1, 0), &[]);
    let rate = Rate::from_bytes_over(100_000, ms(20)).mul_ratio(5, 4);
    assert_eq!(stage.recovery.path(stage.path).unwrap().pacing_rate(), Some(rate));
}

#[test]
fn a_space_of_another_path_identifier_comes_with_the_first_packet_and_goes_with_its_keys() {
    let mut stage = Stage::new();
    let other = SpaceId::Data(DataSpace(3));
    let unsent = |stage: &mut Stage, number: u64| {
        let frame = AckFrame::new(stage.now, [number..=number].into_iter());
        stage.recovery.on_ack(stage.now, other, frame, &mut Outcome::default()).is_err()
    };
    assert!(unsent(&mut stage, 0), "nothing was sent there");
    let packet = |number, now, path| Sent {
        number,
        time: now,
        size: SIZE,
        ack_eliciting: true,
        in_flight: true,
        mtu_probe: false,
        ecn: Ecn::NotEct,
        path,
        data: (),
    };
    stage.recovery.on_sent(other, packet(0, stage.now, stage.path), true);
    stage.send(1);
    assert_eq!(stage.recovery.bytes_in_flight(stage.path), 2_000);
    assert!(stage.recovery.in_flight(other) && stage.recovery.in_flight(SpaceId::DATA));
    stage.now += ms(50);
    assert!(!unsent(&mut stage, 0));
    assert_eq!(stage.recovery.largest_acked(other), Some(0));
    assert_eq!(stage.recovery.largest_acked(SpaceId::DATA), None, "numbers of one space are not those of another");
    stage.recovery.discard(stage.now, other);
    assert!(unsent(&mut stage, 0));
}

#[test]
fn a_path_is_born_with_its_address_its_memory_and_a_seed_of_its_own() {
    let saved = SavedPath {
        window: 18_750_000,
        min_rtt: ms(600),
        rate: Some(Rate::from_bps(250_000_000)),
        age: Duration::from_secs(60),
    };
    let remote = "192.0.2.1:443".parse().unwrap();
    let mut stage = Stage::on(NewPath::new(SIZE as u16).to(remote).saved(Some(saved)));
    stage.recovery.add_path(stage.now, NewPath::new(1_200));
    let contexts = stage.log.lock().unwrap().contexts.clone();
    assert_eq!((contexts[0].remote, contexts[0].saved), (Some(remote), Some(saved)));
    assert_eq!((contexts[0].seed, contexts[0].datagram_size, contexts[0].is_paced), (7, 1_000, true));
    assert_eq!((contexts[1].remote, contexts[1].saved, contexts[1].datagram_size), (None, None, 1_200));
    assert_ne!(contexts[0].seed, contexts[1].seed);
}

#[test]
fn the_most_that_a_round_trip_delivered_is_saved_of_a_path() {
    let mut stage = Stage::new();
    let saved = |stage: &Stage| stage.recovery.path(stage.path).unwrap().saved();
    assert_eq!(saved(&stage), None, "nothing is known before the first sample");
    for round in 0..4 {
        let (first, count) = (stage.next, 10 << round.min(2));
        stage.send(count);
        stage.now += ms(100);
        stage.ack(first..=first + count - 1, ect1(10, 0), &[]);
    }
    let saved = saved(&stage).unwrap();
    assert_eq!((saved.window, saved.min_rtt, saved.age), (40_000, ms(100), Duration::ZERO));
    assert!(saved.rate.is_some());
}
