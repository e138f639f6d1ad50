use super::*;
use crate::congestion::{Arrival, RecoveryPeriod, SentSpan};
use crate::testing::{Scene, ms};
use proptest::prelude::*;

const DATAGRAM: u64 = 1_200;
const RTT: Duration = Duration::from_millis(600);

/// 1,200 bytes every 40 µs.
const LINK: Rate = Rate::from_bps(240_000_000);

fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}

/// A link behind which packets may be late, and a start that sends over it.
struct Path {
    rate: Rate,
    rtt: Duration,
    /// When the link has sent what it was given.
    busy: Instant,
    /// When the last packet arrived: none overtakes another.
    arrived: Instant,
    scene: Scene,
    start: Peak,
    window: u64,
    delivered: u64,
    exit: Option<StartExit>,
}

impl Path {
    fn new(rate: Rate, settings: Settings) -> Path {
        let context = PathContext::new(Instant::ZERO, DATAGRAM as u16);
        let begin = Instant::ZERO + ms(10_000);
        let mut scene = Scene::new();
        scene.now = begin;
        Path {
            rate,
            rtt: RTT,
            busy: begin,
            arrived: begin,
            scene,
            start: Peak::new(&context, settings),
            window: 10 * DATAGRAM,
            delivered: 0,
            exit: None,
        }
    }

    /// A packet that leaves now, and is late by `late` besides what the link makes it wait: when it arrives.
    fn send(&mut self, late: Duration) -> Arrival {
        self.send_bytes(DATAGRAM, late)
    }

    fn send_bytes(&mut self, bytes: u64, late: Duration) -> Arrival {
        let sent = self.scene.now;
        self.busy = self.busy.max(sent) + self.rate.time_for(bytes);
        self.arrived = self.arrived.max(self.busy + self.rtt / 2 + late);
        Arrival {
            sent,
            order: sent.as_nanos(),
            begins_burst: true,
            bytes,
            received: self.arrived.saturating_since(Instant::ZERO),
            is_told: true,
        }
    }

    fn take(&mut self, arrivals: &[Arrival], round_started: bool) {
        let bytes = arrivals.iter().map(|arrival| arrival.bytes).sum();
        let view = View::new(self.scene.now, self.window, DATAGRAM, self.rtt);
        let delivered = self.delivered + bytes;
        self.delivered = delivered;
        let newest_sent = arrivals.last().map(|arrival| arrival.sent);
        let rtt = newest_sent.map(|sent| self.scene.now.saturating_since(sent)).filter(|rtt| *rtt >= self.rtt);
        let event = self.scene.ack(bytes, rtt, round_started);
        let oldest_sent = arrivals.iter().map(|arrival| arrival.sent).min();
        let sent = oldest_sent.zip(newest_sent).map(|(oldest, newest)| SentSpan { oldest, newest });
        let proposal = self.start.on_ack(view, &AckEvent { arrivals, sent, delivered, ..event });
        self.window = proposal.window;
        self.exit = self.exit.or(proposal.exit);
    }

    /// A train of so many packets, of which the ones that `late` names are late, each acknowledged when it arrives.
    fn train(&mut self, packets: u64, late: impl Fn(u64) -> Duration, round_started: bool) {
        let arrivals: Vec<Arrival> = (0..packets).map(|packet| self.send(late(packet))).collect();
        for (index, arrival) in arrivals.iter().enumerate() {
            self.scene.now = Instant::ZERO + arrival.received + self.rtt / 2;
            self.take(core::slice::from_ref(arrival), round_started && index == 0);
        }
    }

    fn peak(&self) -> Option<Rate> {
        self.start.peak()
    }

    /// The measured rate over that of the link, in percent.
    fn percent(&self) -> u64 {
        self.peak().unwrap_or(Rate::ZERO).bps() * 100 / self.rate.bps()
    }

    fn fills(&self) -> u64 {
        self.rate.bytes_in(self.rtt)
    }
}

fn punctual(_: u64) -> Duration {
    Duration::ZERO
}

#[test]
fn a_train_on_an_empty_path_gives_the_rate_of_the_link() {
    for rate in [Rate::from_bps(2_000_000), LINK, Rate::from_bps(5_000_000_000)] {
        let mut path = Path::new(rate, FILL);
        path.train(10, punctual, true);
        assert!((99..=101).contains(&path.percent()), "{rate}: {} %", path.percent());
        assert!(path.start.confirmed().is_none(), "one train has nothing to be compared with");
        path.train(20, punctual, true);
        assert!((99..=101).contains(&path.percent()), "{rate}: {} %", path.percent());
        assert_eq!(path.start.confirmed(), path.peak(), "twice as long, and the same rate");
    }
}

#[test]
fn a_longer_train_has_to_come_up_to_the_best_of_those_before_it_not_to_the_first() {
    let late = |packet| if packet == 0 { Duration::ZERO } else { us(60) };
    let mut path = Path::new(LINK, FILL);
    path.train(10, late, true);
    path.train(10, punctual, true);
    path.train(20, punctual, true);
    assert_eq!(path.start.confirmed(), path.peak(), "the second gave the rate already");
    let mut path = Path::new(LINK, FILL);
    path.train(10, late, true);
    path.train(20, late, true);
    assert!(path.start.confirmed().is_none(), "{} %, and a longer train gives more", path.percent());
    path.train(40, late, true);
    assert!(path.start.confirmed().is_some());
}

#[test]
fn a_small_packet_ahead_of_the_first_train_does_not_make_the_path_look_slower() {
    let mut path = Path::new(Rate::from_bps(20_000_000), FILL);
    let mut bound = bound::Bound::new(DATAGRAM, true);
    let small = path.send_bytes(100, Duration::ZERO);
    let arrivals: Vec<Arrival> = core::iter::once(small).chain((0..10).map(|_| path.send(Duration::ZERO))).collect();
    for (order, Arrival { sent, bytes, received, .. }) in (0..).zip(arrivals) {
        let received = i128::from(received.nanos());
        let point = bound::Point { first: sent, sent, order, bytes, before: 0, received, is_exact: true };
        bound.on_arrival(point, RTT);
    }
    let percent = bound.peak().unwrap().bps() * 100 / path.rate.bps();
    assert!((99..=100).contains(&percent), "{percent} %");
}

#[test]
fn packets_that_others_overtake_are_no_jitter() {
    let mut path = Path::new(LINK, FILL);
    for packets in [100, 200] {
        let mut arrivals: Vec<Arrival> = (0..packets).map(|_| path.send(Duration::ZERO)).collect();
        for (index, arrival) in arrivals.iter_mut().enumerate() {
            arrival.order = index as u64 + 1_000 * packets;
            // Also of the last ones, which nothing of the train can overtake any more.
            if index % 6 == 3 || index + 1 == packets as usize {
                arrival.received += ms(5);
            }
        }
        arrivals.sort_by_key(|arrival| arrival.received);
        for (index, arrival) in arrivals.iter().enumerate() {
            path.scene.now = Instant::ZERO + arrival.received + path.rtt / 2;
            path.take(core::slice::from_ref(arrival), index == 0);
        }
    }
    assert!(path.start.confirmed().is_some());
}

#[test]
fn a_rate_is_not_that_of_the_path_if_a_flight_was_delivered_an_eighth_faster() {
    let mut path = Path::new(LINK, FILL);
    path.train(10, punctual, true);
    path.train(20, punctual, true);
    let peak = path.start.confirmed().unwrap();
    // Where packets come evenly, ACKs that come together make a flight look faster than it was.
    path.start.delivered = Some(peak.mul_ratio(5, 4));
    assert!(path.start.confirmed().is_some());
    path.start.is_uneven = true;
    for (rate, is_confirmed) in [(peak, true), (peak.mul_ratio(9, 8), true), (peak.mul_ratio(5, 4), false)] {
        path.start.delivered = Some(rate);
        assert_eq!(path.start.confirmed().is_some(), is_confirmed, "{rate}");
    }
}

#[test]
fn fewer_packets_give_no_rate() {
    let mut path = Path::new(LINK, FILL);
    path.train(7, punctual, true);
    assert_eq!(path.peak(), None);
}

#[test]
fn packets_that_leave_as_fast_as_they_arrive_are_no_train() {
    let mut path = Path::new(LINK, FILL);
    let mut arrivals = Vec::new();
    for _ in 0..100 {
        arrivals.push(path.send(Duration::ZERO));
        path.scene.now += ms(1);
    }
    path.scene.now += RTT;
    path.take(&arrivals, true);
    assert_eq!(path.peak(), None, "each found the path empty");
}

#[test]
fn a_first_packet_that_is_late_does_not_make_the_path_look_fast() {
    let mut path = Path::new(LINK, FILL);
    // The least delay is known; then the first of a train is 3 ms late and all others arrive with it.
    path.train(1, punctual, true);
    path.train(10, |packet| if packet == 0 { ms(3) } else { Duration::ZERO }, true);
    assert!(path.percent() <= 100, "{} %", path.percent());
    let naive = {
        let mut path = Path::new(LINK, PUBLISHED);
        path.train(1, punctual, true);
        let late = |packet| if packet == 0 { ms(3) } else { Duration::ZERO };
        let arrivals: Vec<Arrival> = (0..60).map(|packet| path.send(late(packet))).collect();
        path.scene.now += RTT + ms(3);
        // An ACK for the late one, and a little later one for what came with it.
        path.take(&arrivals[..1], true);
        path.scene.now += us(1_001);
        path.take(&arrivals[1..], false);
        path.percent()
    };
    assert!(naive > 150, "the published quotient reads {naive} %");
}

#[test]
fn longer_trains_come_closer_under_jitter() {
    let late = |packet: u64| us(packet * 977 % 6_000);
    let mut path = Path::new(LINK, FILL);
    let mut last = 0;
    for packets in [10, 40, 160, 640, 2_560] {
        path.train(packets, late, true);
        assert!(path.percent() >= last && path.percent() <= 100, "{packets}: {} %", path.percent());
        last = path.percent();
    }
    assert!(last >= 90, "{last} %");
}

#[test]
fn the_window_goes_to_the_share_of_what_the_rate_fills() {
    for (settings, percent) in
        [(FILL, 100), (Settings { share: (3, 4), ..FILL }, 75), (Settings { share: (1, 2), ..FILL }, 50)]
    {
        let mut path = Path::new(LINK, settings);
        path.train(1, punctual, true);
        path.train(60, punctual, true);
        let share = path.window * 100 / path.fills();
        assert!((percent - 2..=percent + 2).contains(&share), "{share} % instead of {percent} %");
    }
}

#[test]
fn a_path_that_may_be_short_is_opened_by_its_acks_until_its_rate_is_confirmed() {
    let mut path = Path { rtt: ms(200), ..Path::new(LINK, FILL) };
    path.train(10, punctual, true);
    path.train(10, punctual, true);
    assert!(path.percent() >= 99);
    assert!(path.window <= 60 * DATAGRAM, "a window of {} after 20 packets", path.window);
    path.train(20, punctual, true);
    assert!(path.window >= path.fills() / 100 * 98, "confirmed, and {} of {}", path.window, path.fills());
}

#[test]
fn the_window_at_the_end_makes_up_for_acks_that_come_in_bunches() {
    for (bunches, slack) in [(50, 8), (8, 4), (4, 2)] {
        let mut path = Path::new(LINK, FILL);
        path.train(10, punctual, true);
        path.train(20, punctual, true);
        while path.exit.is_none() {
            let flight: Vec<Arrival> = (0..path.fills() / DATAGRAM).map(|_| path.send(Duration::ZERO)).collect();
            path.scene.now += RTT;
            for (index, bunch) in flight.chunks(flight.len() / bunches).enumerate() {
                path.take(bunch, index == 0);
            }
        }
        assert_eq!(path.exit, Some(StartExit::Bandwidth));
        let least = path.fills() + path.fills() / slack;
        assert!((least / 100 * 97..=least / 100 * 103).contains(&path.window), "{bunches}: {}", path.window);
    }
}

#[test]
fn the_initial_window_grows_with_the_round_trip() {
    let first = |rtt: Duration, settings| {
        let mut path = Path::new(LINK, settings);
        path.scene.ack(0, Some(rtt), true);
        let view = View::new(path.scene.now, path.window, DATAGRAM, rtt);
        let event = path.scene.ack(0, Some(rtt), false);
        path.start.on_ack(view, &event).window
    };
    assert_eq!(first(ms(20), FILL), 12_000);
    assert_eq!(first(ms(100), FILL), 12_000);
    assert_eq!(first(ms(300), FILL), 36_000);
    assert_eq!(first(ms(610), FILL), 73_200);
    assert_eq!(first(ms(10_000), FILL), 73_200, "no path of the first flight is longer than a geostationary one");
    assert_eq!(first(ms(600), Settings { scales_initial_window: false, ..FILL }), 12_000);
}

#[test]
fn it_ends_after_a_round_trip_in_which_a_confirmed_rate_did_not_rise() {
    let mut path = Path::new(LINK, FILL);
    path.train(1, punctual, true);
    path.train(10, punctual, true);
    path.train(40, punctual, true);
    assert_eq!(path.exit, None);
    let mut rounds = 0;
    while path.exit.is_none() {
        path.train(1_000, punctual, true);
        rounds += 1;
        assert!(rounds < 10 && path.window <= 2 * path.fills());
    }
    assert_eq!(path.exit, Some(StartExit::Bandwidth));
    assert!(rounds >= 2, "not before a whole round trip");
    assert!((path.fills()..=path.fills() * 5 / 4).contains(&path.window), "{}", path.window);
}

#[test]
fn a_rate_that_was_too_low_is_corrected_before_the_start_ends() {
    // Others use three quarters of the link at first.
    let mut path = Path::new(Rate::from_bps(LINK.bps() / 4), FILL);
    path.train(1, punctual, true);
    path.train(10, punctual, true);
    path.train(40, punctual, true);
    assert!(path.start.confirmed().is_some() && path.window < LINK.bytes_in(RTT) / 2);
    path.rate = LINK;
    for _ in 0..4 {
        path.train(400, punctual, true);
    }
    assert!(path.window >= path.fills() * 9 / 10, "{} of {}", path.window, path.fills());
}

/// The times of a train that fills the path, `lie` percent of what they are.
fn lied_to(lie: u64) -> Path {
    let mut path = Path::new(LINK, FILL);
    path.train(1, punctual, true);
    let arrivals: Vec<Arrival> = (0..100).map(|_| path.send(Duration::ZERO)).collect();
    let first = arrivals[0].received;
    for arrival in arrivals {
        path.scene.now = Instant::ZERO + arrival.received + RTT / 2;
        let received = first + (arrival.received - first) / 100 * u32::try_from(lie).unwrap();
        path.take(&[Arrival { received, ..arrival }], false);
    }
    path
}

#[test]
fn what_the_receiver_says_counts_up_to_what_its_acknowledgments_show() {
    let honest = lied_to(100).window;
    for lie in [95, 80, 50, 10, 1, 0] {
        let path = lied_to(lie);
        assert!(path.percent() <= 201, "{lie} %: {} %", path.percent());
        assert!(path.window * 100 <= honest * 201, "{lie} %: {} of {honest}", path.window);
    }
}

#[test]
fn a_few_packets_open_the_window_to_a_multiple_of_them_at_most() {
    let mut path = Path::new(Rate::from_bps(100_000_000_000), FILL);
    path.train(1, punctual, true);
    path.train(10, punctual, true);
    assert!(path.window <= 512 * 10 * DATAGRAM && path.window < path.fills() / 1_000, "{}", path.window);
}

#[test]
fn a_short_round_trip_opens_without_a_jump_and_as_rapid_start_at_most() {
    let mut path = Path::new(LINK, FILL);
    path.scene.ack(0, Some(ms(20)), true);
    let before = path.window;
    path.train(10, punctual, true);
    // The scene's samples are those of a long path, but its smallest is short.
    let opened = (path.window - before) / DATAGRAM;
    assert!((11..=20).contains(&opened), "by {opened} packets after 10");
}

/// The window after a round trip of packets that were each acknowledged after so long, on a path of 40 ms, over the one
/// before; a packet at a time, so that there is no train.
fn opened(path: &mut Path, sample: Duration) -> u64 {
    let before = path.window;
    path.scene.now += ms(80);
    for at in 0..before / DATAGRAM {
        let arrival = Arrival { sent: path.scene.now - sample, ..path.send(Duration::ZERO) };
        path.take(&[arrival], at == 0);
    }
    path.window * 100 / before
}

#[test]
fn the_window_triples_while_no_queue_shows() {
    let start_over = |rtt, settings| {
        let mut path = Path { rtt: ms(rtt), ..Path::new(LINK, settings) };
        path.scene.ack(0, Some(ms(rtt)), true);
        path
    };
    let start = |settings| start_over(40, settings);
    let mut path = start(FILL);
    assert_eq!([opened(&mut path, ms(40)), opened(&mut path, ms(43))], [300, 300]);
    // The floor is that of the last round trip: the first ACKs of this one still go by the one before.
    opened(&mut path, ms(45));
    assert_eq!(opened(&mut path, ms(45)), 200, "a tenth of the round trip is a queue");
    let mut path = start_over(300, Settings { scales_initial_window: false, ..FILL });
    assert_eq!(opened(&mut path, ms(300)), 200, "the first train tells what a long path carries");
    let mut path = start(Settings { triples: false, ..FILL });
    assert_eq!(opened(&mut path, ms(40)), 200);
    let mut path = start(FILL);
    path.start.on_accident();
    assert_eq!(opened(&mut path, ms(40)), 200, "losses were met");
}

/// Congestion that takes so many of a hundred packets, with the round trips that the ACK that shows it and the next one
/// measure: the window until it is known what became of all of them, and afterwards, in percent of before.
fn after_losses(lost: u64, samples: [Option<Duration>; 2]) -> (u64, u64) {
    let mut path = Path::new(LINK, FILL);
    path.train(1, punctual, true);
    path.train(10, punctual, true);
    path.train(20, punctual, true);
    let before = path.window;
    let view = View::new(path.scene.now, before, DATAGRAM, RTT);
    path.scene.ack(0, samples[0], false);
    let event = path.scene.congestion(crate::trace::CongestionCause::Loss);
    let event = AckEvent {
        lost: lost * DATAGRAM,
        acked: (100 - lost) * DATAGRAM,
        has_rtt_sample: samples[0].is_some(),
        ..event
    };
    let answer = path.start.on_congestion(view, &event).unwrap();
    assert_eq!((answer.window, answer.threshold), (before / 10 * 7, None));
    let view = View { window: answer.window, ..view };
    let event = path.scene.ack(0, samples[1], false);
    let proposal = path.start.on_ack(view, &event);
    assert_eq!(proposal.exit, None, "the flight has not been answered for");
    path.scene.now += RTT;
    let sent = Some(SentSpan { oldest: path.scene.now, newest: path.scene.now });
    let event = AckEvent { sent, ..path.scene.ack(0, None, false) };
    let end = path.start.on_ack(view, &event);
    assert_eq!(end.exit, Some(StartExit::Congestion));
    (proposal.window * 100 / before, end.window * 100 / before)
}

#[test]
fn after_congestion_the_window_is_what_was_delivered_and_seven_tenths_at_most() {
    for (lost, percent) in [(1, 70), (10, 70), (50, 50), (90, 10)] {
        let (after, _) = after_losses(lost, [Some(RTT); 2]);
        assert!((percent - 1..=percent).contains(&after), "{lost} % lost: {after} %");
    }
}

#[test]
fn a_start_whose_flight_lost_little_and_met_no_queue_ends_with_what_the_rate_fills() {
    for (lost, longest, percent) in [(1, 600, 100), (10, 600, 100), (11, 600, 70), (1, 752, 100), (1, 753, 70)] {
        for samples in [[RTT, ms(longest)], [ms(longest), RTT]] {
            let (_, after) = after_losses(lost, samples.map(Some));
            assert!((percent - 1..=percent).contains(&after), "{lost} % lost, {samples:?}: {after} %");
        }
    }
    let (_, after) = after_losses(1, [None; 2]);
    assert!((69..=70).contains(&after), "without a sample: {after} %");
}

/// A flight of a window that fills the path, of which so many of a hundred packets are lost: the start, the window of
/// that flight, and the window with which the repairs begin.
fn after_flight(path: &mut Path, lost: u64) -> (u64, u64) {
    path.train(1, punctual, true);
    path.train(10, punctual, true);
    path.train(20, punctual, true);
    let from = path.window;
    let view = View::new(path.scene.now, from, DATAGRAM, RTT);
    let event = path.scene.congestion(crate::trace::CongestionCause::Loss);
    let event = AckEvent { lost: from / 100 * lost, acked: from / 100 * (100 - lost), ..event };
    path.window = path.start.on_congestion(view, &event).unwrap().window;
    path.scene.now += RTT;
    path.repaired(0);
    (from, path.window)
}

impl Path {
    /// An acknowledgment of so many bytes that repair losses, or of the first packet after these.
    fn repaired(&mut self, acked: u64) {
        let view = View::new(self.scene.now, self.window, DATAGRAM, RTT);
        let sent = Some(SentSpan { oldest: self.scene.now, newest: self.scene.now });
        let period = RecoveryPeriod { in_recovery: true, is_fresh: acked > 0 };
        let event = AckEvent { acked, growth: 0, sent, period, ..self.scene.ack(acked, None, false) };
        let proposal = self.start.on_ack(view, &event);
        self.window = proposal.window;
        self.exit = self.exit.or(proposal.exit);
    }
}

#[test]
fn a_flight_of_which_a_tenth_was_delivered_leaves_a_tenth_of_the_window() {
    let mut path = Path::new(LINK, FILL);
    let (from, after) = after_flight(&mut path, 90);
    assert_eq!((after * 10).div_ceil(DATAGRAM), from.div_ceil(DATAGRAM));
    assert_eq!(path.exit, Some(StartExit::Congestion));
}

/// Another flow's train passed before all of it: the window would be four packets for five hundred repairs.
#[test]
fn a_flight_of_which_hardly_anything_was_delivered_is_repaired_within_a_few_round_trips() {
    for lost in [91, 99, 100] {
        let mut path = Path::new(LINK, FILL);
        let (from, after) = after_flight(&mut path, lost);
        let first = 60 * DATAGRAM;
        assert!(from > 4_000 * DATAGRAM && after >= first && after <= (from / 10).max(first), "{lost} %: {after}");
        assert_eq!(path.exit, None, "the path is searched anew");
        let (mut left, mut rounds) = (from / 100 * lost / DATAGRAM, 0);
        while left > 0 {
            let flight = left.min(path.window / DATAGRAM);
            (0..flight).for_each(|_| path.repaired(DATAGRAM));
            (left, rounds) = (left - flight, rounds + 1);
        }
        assert!(rounds <= 10, "{lost} %: {rounds} round trips");
        assert_eq!((path.window, path.exit), (from / 2, Some(StartExit::Congestion)), "{lost} %");
    }
}

/// A train overruns a queue of an eighth of what the path holds before a longer one has confirmed the rate.
#[test]
fn after_a_train_that_overran_a_queue_the_start_goes_on_without_trains() {
    let mut path = Path::new(LINK, FILL);
    path.train(1, punctual, true);
    path.train(10, punctual, true);
    let before = path.window;
    let view = View::new(path.scene.now, before, DATAGRAM, RTT);
    let event = path.scene.congestion(crate::trace::CongestionCause::Loss);
    let event = AckEvent { lost: before / 10 * 4, acked: before / 10 * 6, ..event };
    path.window = path.start.on_congestion(view, &event).unwrap().window;
    path.scene.now += RTT;
    path.repaired(0);
    assert!(
        (before / 10 * 6 - DATAGRAM..=before / 10 * 6).contains(&path.window),
        "what was delivered: {}",
        path.window
    );
    assert_eq!(path.exit, None);
    let after = path.window;
    let event = path.scene.ack(4 * DATAGRAM, Some(RTT), true);
    let view = View::new(event.now, after, DATAGRAM, RTT);
    assert_eq!(path.start.on_ack(view, &event), Proposal::window(after + 4 * DATAGRAM), "slow start");
    // It does so once.
    let event = path.scene.congestion(crate::trace::CongestionCause::Loss);
    assert_eq!(path.start.on_congestion(view, &event), None);
}

/// Nothing is known of a path of which not even a train has been measured: its first flight may be too much for it.
#[test]
fn losses_before_anything_is_measured_end_it_as_they_end_slow_start() {
    let mut path = Path::new(LINK, FILL);
    path.train(1, punctual, true);
    let view = View::new(path.scene.now, path.window, DATAGRAM, RTT);
    let event = path.scene.congestion(crate::trace::CongestionCause::Loss);
    let event = AckEvent { lost: 4 * DATAGRAM, ..event };
    assert_eq!(path.start.on_congestion(view, &event), None);
}

/// A repair that is lost says how much is too much.
#[test]
fn congestion_during_the_search_is_answered_as_after_the_start() {
    let mut path = Path::new(LINK, FILL);
    after_flight(&mut path, 99);
    let view = View::new(path.scene.now, path.window, DATAGRAM, RTT);
    let event = path.scene.congestion(crate::trace::CongestionCause::Loss);
    assert_eq!(path.start.on_congestion(view, &event), None);
    path.start.on_exit();
    assert!(path.start.is_over && path.start.search.is_none());
}

#[test]
fn later_slow_starts_are_standard() {
    let mut path = Path::new(LINK, FILL);
    path.train(1, punctual, true);
    path.start.on_exit();
    let before = path.window;
    path.train(10, punctual, true);
    assert_eq!(path.window, before + 10 * DATAGRAM);
}

proptest! {
    /// However late packets are, the bound exceeds the rate of the link by no more than the least delay that was seen
    /// exceeds the path's.
    #[test]
    fn the_bound_is_one(
        rate in 1_000_000u64..1_000_000_000,
        trains in proptest::collection::vec((2u64..80, proptest::collection::vec(0u64..20_000, 1..80)), 1..8),
    ) {
        let mut path = Path::new(Rate::from_bps(rate), FILL);
        path.train(1, punctual, true);
        for (packets, late) in trains {
            let late = |packet: u64| us(late[packet as usize % late.len()]);
            path.train(packets, late, true);
            // A nanosecond per packet is lost to rounding.
            prop_assert!(path.percent() <= 101, "{} %", path.percent());
            prop_assert!(path.window <= 2 * path.fills() + 200 * DATAGRAM);
        }
    }

    /// Any record of arrivals is taken: clocks that stand, run backwards or jump.
    #[test]
    fn nonsense_is_taken(
        arrivals in proptest::collection::vec((0u64..1_000_000, 0u64..u64::MAX / 2), 1..200),
    ) {
        let mut path = Path::new(LINK, FILL);
        for (sent, received) in arrivals {
            let sent = Instant::ZERO + us(sent);
            let arrival = Arrival { sent, order: sent.as_nanos(), begins_burst: true, bytes: DATAGRAM, received: Duration::from_nanos(received), is_told: true };
            path.take(&[arrival], false);
            path.scene.now += us(10);
        }
    }
}

#[test]
fn where_the_round_trip_varies_by_more_than_twice_the_smallest_the_rate_says_nothing_about_the_window() {
    for (samples, is_expected) in [
        ([100, 100, 100, 100], false),
        ([20, 120, 20, 120], true),
        ([100, 300, 100, 300], false),
        ([30, 120, 30, 120], false),
    ] {
        let peak = Peak::new(&PathContext::new(Instant::ZERO, DATAGRAM as u16), FILL);
        let mut scene = Scene::new();
        // Four round trips' worth: the first sample counts as half of itself.
        for latest in samples.into_iter().cycle().take(16) {
            scene.ack(DATAGRAM, Some(ms(latest)), false);
        }
        assert_eq!(peak.is_jittery(&scene.ack(DATAGRAM, None, false)), is_expected, "{samples:?}");
    }
}

/// Two pauses of a channel within trains, each of half a round trip: what was measured between them says nothing about
/// how much the path holds.
#[test]
fn pauses_within_trains_of_a_quarter_of_the_round_trip_say_that_the_path_has_jitter() {
    for (pause, is_expected) in [(RTT / 2, true), (RTT / 8, false)] {
        let mut path = Path::new(LINK, FILL);
        path.train(1, punctual, true);
        for _ in 0..2 {
            path.train(20, |packet| if packet < 10 { Duration::ZERO } else { pause }, true);
        }
        let event = path.scene.ack(0, None, false);
        for (variation, is_seen) in [(RTT / 8, false), (RTT / 2, true)] {
            let mut rtt = *event.rtt;
            rtt.variation = variation;
            let event = AckEvent { rtt: &rtt, ..event };
            assert_eq!(path.start.is_jittery(&event), is_expected && is_seen, "{pause:?} {variation:?}");
        }
    }
}

#[test]
fn a_delay_that_has_grown_ends_it_unless_the_round_trip_varies_by_more_than_twice_the_smallest() {
    for (early, late, expected) in [([20, 20], [60, 60], Some(StartExit::Delay)), ([20, 160], [60, 200], None)] {
        let context = PathContext::new(Instant::ZERO, DATAGRAM as u16);
        let (mut start, mut scene) = (Peak::new(&context, FILL), Scene::new());
        let (mut window, mut exit) = (10 * DATAGRAM, None);
        for round in 0..8 {
            let samples = if round < 2 { early } else { late };
            let before = window;
            for (index, latest) in samples.into_iter().cycle().take(16).enumerate() {
                scene.now += ms(5);
                let event = scene.ack(DATAGRAM, Some(ms(latest)), index == 0);
                let proposal = start.on_ack(View::new(event.now, window, DATAGRAM, ms(latest)), &event);
                window = proposal.window;
                exit = exit.or(proposal.exit);
            }
            if round > 3 && exit.is_none() {
                assert_eq!(window - before, 4 * DATAGRAM, "a quarter of slow start");
            }
        }
        assert_eq!(exit, expected, "{late:?}");
    }
}
