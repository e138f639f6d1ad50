//! Whatever happens to packets and ACKs, some things always hold.
//!
//! A random network delivers, reorders, drops and duplicates; a model beside [`Recovery`] keeps the truth.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use crate::common::{SIZE, Stage, at};
use proptest::prelude::*;
use thalweg_recovery::{
    AckFrame, Budget, Config, EcnCounts, NewPath, PathId, Policies, ProbePolicy, Recovery, SpaceId, Timeout,
};
use thalweg_units::{Duration, Instant};

const DATA: SpaceId = SpaceId::DATA;
/// Short, so that the caps of the probe policies come below the timeout itself now and again.
const IDLE: Duration = Duration::from_secs(1);

/// One thing that happens.
#[derive(Clone, Debug)]
enum Step {
    /// Send as many packets, window permitting.
    Send {
        count: u8,
        second_path: bool,
    },
    /// Send one packet that ignores the window.
    Odd {
        ack_eliciting: bool,
        mtu_probe: bool,
        size: u16,
    },
    /// Leave numbers out.
    Skip(u8),
    /// Time passes.
    Wait(u32),
    /// The packets in these positions of what is under way arrive, or vanish.
    Arrive(Vec<u8>),
    Vanish(Vec<u8>),
    /// An ACK with so many ranges arrives, delayed by so much.
    Ack {
        ranges: u8,
        delay: u16,
        marked: bool,
    },
    /// The timer expires.
    Expire,
    /// The transport has nothing to send.
    Idle,
    DatagramSize(u16),
    RemovePath,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let positions = || proptest::collection::vec(any::<u8>(), 1..12);
    let step = prop_oneof![
        5 => (1u8..20, any::<bool>()).prop_map(|(count, second_path)| Step::Send { count, second_path }),
        1 => (any::<bool>(), any::<bool>(), 30u16..1_500).prop_map(|(ack_eliciting, mtu_probe, size)| Step::Odd { ack_eliciting, mtu_probe, size }),
        1 => (1u8..4).prop_map(Step::Skip),
        4 => (0u32..80_000).prop_map(Step::Wait),
        5 => positions().prop_map(Step::Arrive),
        2 => positions().prop_map(Step::Vanish),
        5 => (1u8..6, 0u16..30_000, proptest::bool::weighted(0.1)).prop_map(|(ranges, delay, marked)| Step::Ack { ranges, delay, marked }),
        3 => Just(Step::Expire),
        1 => Just(Step::Idle),
        1 => (1_200u16..1_500).prop_map(Step::DatagramSize),
        1 => Just(Step::RemovePath),
    ];
    proptest::collection::vec(step, 1..120)
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Open,
    Acked,
    Lost,
    LateAcked,
}

/// The truth.
#[derive(Default)]
struct Model {
    packets: BTreeMap<u64, (Fate, u64 /* bytes in flight */, bool /* ack-eliciting */, PathId)>,
    under_way: Vec<u64>,
    received: BTreeSet<u64>,
    marks: u64,
}

impl Model {
    fn in_flight(&self, path: PathId) -> u64 {
        let open = self.packets.values().filter(|packet| packet.0 == Fate::Open && packet.3 == path);
        open.map(|packet| packet.1).sum()
    }

    fn has_eliciting(&self) -> bool {
        self.packets.values().any(|packet| packet.0 == Fate::Open && packet.2)
    }

    fn ranges(&self, limit: usize) -> Vec<RangeInclusive<u64>> {
        let mut ranges: Vec<RangeInclusive<u64>> = Vec::new();
        for number in self.received.iter().rev() {
            let count = ranges.len();
            match ranges.last_mut() {
                Some(range) if *range.start() == number + 1 => *range = *number..=*range.end(),
                _ if count == limit => break,
                _ => ranges.push(*number..=*number),
            }
        }
        ranges
    }

    /// Takes in what was reported, and refuses what cannot be.
    fn take(&mut self, stage: &Stage) {
        for packet in &stage.out.acked {
            let fate = &mut self.packets.get_mut(&packet.number).unwrap().0;
            *fate = match (*fate, packet.declared_lost) {
                (Fate::Open, false) => Fate::Acked,
                (Fate::Lost, true) => Fate::LateAcked,
                other => panic!("packet {} acknowledged when {other:?}", packet.number),
            };
            assert!(self.received.contains(&packet.number));
            assert_eq!(packet.data, packet.number);
        }
        for packet in &stage.out.lost {
            let fate = &mut self.packets.get_mut(&packet.number).unwrap().0;
            assert_eq!(*fate, Fate::Open, "packet {} declared lost", packet.number);
            *fate = Fate::Lost;
            assert_eq!(packet.data, packet.number);
        }
        let spurious = stage.out.acked.iter().filter(|packet| packet.declared_lost).count();
        assert_eq!(spurious, stage.out.spurious as usize);
    }
}

fn pick(under_way: &mut Vec<u64>, positions: &[u8]) -> Vec<u64> {
    let mut picked = Vec::new();
    for position in positions {
        if !under_way.is_empty() {
            picked.push(under_way.remove(usize::from(*position) % under_way.len()));
        }
    }
    picked
}

/// A probe has just been asked for: when nothing is sent or acknowledged, the next one comes no earlier than an answer
/// could have, and no later than the cap of the policy allows.
fn check_gap(stage: &Stage, policy: ProbePolicy) {
    let gap = stage.recovery.timer().unwrap().saturating_since(stage.now);
    // The timer may leave out the peer's ACK delay of 25 ms, or a part of it.
    let least = stage.recovery.path(stage.recovery.active_path()).unwrap().rtt().probe_base();
    let most = least + Duration::from_millis(25);
    let doublings = 1 << stage.recovery.pto_count().min(20);
    let cap = match policy {
        ProbePolicy::Rfc => most.saturating_mul(doublings),
        ProbePolicy::Capped(parameters) => IDLE / u32::from(parameters.divisor.get()),
        // On a crowded path up to a tenth and a quarter of it.
        ProbePolicy::Ladder => (IDLE / 8).max(2 * most),
        other => panic!("{other} has no cap here yet"),
    };
    assert!(gap >= least && gap <= cap.max(most), "{policy}: {gap:?} after {least:?}");
    if policy == ProbePolicy::Rfc {
        assert!(gap >= least.saturating_mul(doublings), "MUST double (RFC 9002 section 6.2.1)");
    }
}

fn run(policies: Policies, ecn: bool, steps: Vec<Step>) {
    let mut stage = Stage::new(Config { policies: policies.clone(), ecn, trace: true, ..Config::default() }, false);
    stage.recovery.set_handshake_confirmed(at(0));
    stage.recovery.set_idle_timeout(Some(IDLE));
    let first = stage.path;
    let mut second = stage.recovery.add_path(at(0), NewPath::new(SIZE as u16).assuming(Duration::from_millis(20)));
    let mut model = Model::default();
    for step in steps {
        match step {
            Step::Send { count, second_path } => {
                stage.path = if second_path { second } else { first };
                for _ in 0..count {
                    let Budget::Now(bytes) = stage.recovery.budget(stage.now, stage.path) else { break };
                    assert!(bytes >= u64::from(stage.path().datagram_size()));
                    let number = stage.next[2];
                    stage.send(1);
                    model.packets.insert(number, (Fate::Open, u64::from(SIZE), true, stage.path));
                    model.under_way.push(number);
                }
            }
            Step::Odd { ack_eliciting, mtu_probe, size } => {
                let number = stage.send_with(|packet| {
                    packet.size = u32::from(size);
                    packet.ack_eliciting = ack_eliciting;
                    packet.in_flight = ack_eliciting;
                    packet.mtu_probe = mtu_probe && ack_eliciting;
                });
                let in_flight = if ack_eliciting { u64::from(size) } else { 0 };
                model.packets.insert(number, (Fate::Open, in_flight, ack_eliciting, stage.path));
                model.under_way.push(number);
            }
            Step::Skip(count) => stage.skip(u64::from(count)),
            Step::Wait(micros) => stage.now += Duration::from_micros(u64::from(micros)),
            Step::Arrive(positions) => {
                let arrived = pick(&mut model.under_way, &positions);
                model.received.extend(arrived);
            }
            Step::Vanish(positions) => drop(pick(&mut model.under_way, &positions)),
            Step::Ack { ranges, delay, marked } => {
                let ranges = model.ranges(usize::from(ranges));
                if !ranges.is_empty() {
                    model.marks += u64::from(marked && model.marks < model.received.len() as u64);
                    let ect0 = model.received.len() as u64 - model.marks;
                    let counts = ecn.then_some(EcnCounts { ect0, ect1: 0, ce: model.marks });
                    let delay = Duration::from_micros(u64::from(delay));
                    stage.try_ack(DATA, &ranges, delay, counts).unwrap();
                    model.take(&stage);
                }
            }
            Step::Expire => {
                if stage.recovery.timer().is_some() {
                    let result = stage.expire();
                    model.take(&stage);
                    match result {
                        Timeout::None => panic!("the timer was due"),
                        Timeout::Lost => assert!(!stage.out.lost.is_empty()),
                        Timeout::Probe { space, datagrams } => {
                            // A ladder sends no third probe in pairs, and into a crowded path none at all.
                            let is_ladder = policies.probe == ProbePolicy::Ladder;
                            let is_crowded = stage.recovery.path(stage.recovery.active_path()).unwrap().is_lossy();
                            let is_one = is_ladder && (is_crowded || stage.recovery.pto_count() > 2);
                            assert_eq!((space, datagrams), (DATA, if is_one { 1 } else { 2 }));
                            assert!(stage.out.lost.is_empty());
                            check_gap(&stage, policies.probe);
                        }
                    }
                    // Two probes in a row cannot both be overdue, so the timer cannot spin.
                    let next = stage.recovery.timer();
                    let is_ahead = next.is_none_or(|next| next > stage.now);
                    assert!(is_ahead || result == Timeout::Lost, "the timer does not stay in the past");
                }
            }
            Step::Idle => stage.recovery.on_app_limited(stage.path),
            Step::DatagramSize(size) => {
                let path = stage.path;
                stage.recovery.path_mut(path).unwrap().set_datagram_size(stage.now, size);
            }
            Step::RemovePath => {
                stage.recovery.remove_path(second);
                second = stage.recovery.add_path(stage.now, NewPath::new(SIZE as u16));
                stage.path = first;
            }
        }
        for path in [first, second] {
            let Some(state) = stage.recovery.path(path) else {
                assert_eq!(model.in_flight(path), 0, "a path lives as long as packets of it are open");
                continue;
            };
            assert_eq!(state.bytes_in_flight(), model.in_flight(path));
            assert!(state.window() >= 2 * u64::from(state.datagram_size()));
            assert!(state.ssthresh().is_none_or(|threshold| threshold >= 2 * u64::from(state.datagram_size())));
            let stats = state.stats();
            assert!(stats.packets_acked + stats.packets_lost <= stats.packets_sent + stats.packets_spurious);
            assert!(stats.undos <= stats.congestion_events);
        }
        assert_eq!(stage.recovery.in_flight(DATA), model.has_eliciting());
        assert_eq!(stage.recovery.timer().is_some(), model.has_eliciting(), "whatever is in flight is waited for");
        let oldest = model.packets.iter().find(|(_, packet)| packet.0 == Fate::Open).map(|(number, _)| *number);
        assert_eq!(stage.recovery.oldest_unacked(DATA), oldest);
    }
    drain(&mut stage, &mut model);
}

/// Once the network delivers everything, every packet is accounted for and nothing is left to wait for.
fn drain(stage: &mut Stage, model: &mut Model) {
    stage.path = stage.recovery.active_path();
    for _ in 0..100 {
        model.received.append(&mut model.under_way.drain(..).collect());
        let number = stage.next[2];
        stage.send(1);
        model.packets.insert(number, (Fate::Open, u64::from(SIZE), true, stage.path));
        model.received.insert(number);
        stage.wait(10_000);
        let ranges = model.ranges(1_000);
        stage.try_ack(DATA, &ranges, Duration::ZERO, None).unwrap();
        model.take(stage);
        while stage.recovery.timer().is_some() {
            stage.expire();
            model.take(stage);
            if !model.has_eliciting() {
                break;
            }
        }
    }
    assert!(model.packets.values().all(|packet| packet.0 != Fate::Open), "no packet is forgotten");
    assert_eq!(stage.recovery.timer(), None);
    assert_eq!(stage.recovery.outstanding_data(DATA).count(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_packet_has_one_fate_and_the_books_balance(
        controller in prop::sample::select(vec!["cubic", "new-reno"]),
        start in prop::sample::select(vec!["hystart++", "standard"]),
        pacing in prop::sample::select(vec!["on", "off"]),
        undo in prop::sample::select(vec!["episode", "off"]),
        field in 0..Policies::catalogue().len(),
        choice: prop::sample::Index,
        ecn: bool,
        steps in steps(),
    ) {
        let policies = format!("controller={controller}, start={start}, pacing={pacing}, undo={undo}");
        let mut policies: Policies = policies.parse().unwrap();
        // And any choice of any one field.
        let field = Policies::catalogue()[field];
        let built: Vec<_> = field.choices.iter().filter(|choice| choice.built).collect();
        policies.set(field.name, choice.get(&built).name).unwrap();
        run(policies, ecn, steps);
    }

    /// A peer that acknowledges at random is answered with an error or with sense, never with a panic.
    #[test]
    fn no_ack_panics(acks in proptest::collection::vec((0u64..40, 0u64..10, 0u64..100, any::<u64>()), 1..60)) {
        let mut stage = Stage::new(Config::default(), false);
        stage.recovery.set_handshake_confirmed(at(0));
        for (start, length, wait, count) in acks {
            stage.send(2);
            if count % 3 == 0 {
                stage.skip(1);
            }
            stage.wait(wait);
            let counts = EcnCounts { ect0: count, ect1: count % 2, ce: count / 3 };
            let _ = stage.try_ack(DATA, &[start..=start + length], Duration::from_nanos(count), Some(counts));
            let _ = stage.recovery.on_timeout(stage.now, &mut stage.out);
            prop_assert!(stage.window() >= 2_400);
        }
    }
}

/// Ten thousand packets over a path that reorders within four places and loses one in fifty: the window stays open, and
/// nothing is stuck.
#[test]
fn a_long_transfer_over_a_bad_path_completes() {
    for policies in ["controller=cubic", "controller=new-reno, start=standard"] {
        let mut recovery: Recovery<u64> =
            Recovery::new(Config { policies: policies.parse().unwrap(), ecn: false, ..Config::default() }, false);
        let mut now = at(0);
        let path = recovery.add_path(now, NewPath::new(SIZE as u16));
        recovery.set_handshake_confirmed(now);
        let mut out = thalweg_recovery::Outcome::default();
        // ACKs by arrival time; that of a lost packet never arrives.
        let mut acks: BTreeSet<(Instant, u64)> = BTreeSet::new();
        let (mut next, mut fates, mut steps) = (0u64, 0u64, 0u64);
        while fates < 10_000 {
            steps += 1;
            assert!(steps < 1_000_000, "stuck with {fates} packets accounted for");
            let wake = match recovery.budget(now, path) {
                Budget::Now(_) if next < 10_000 => {
                    let packet = thalweg_recovery::Sent {
                        number: next,
                        time: now,
                        size: SIZE,
                        ack_eliciting: true,
                        in_flight: true,
                        mtu_probe: false,
                        ecn: thalweg_recovery::Ecn::NotEct,
                        path,
                        data: next,
                    };
                    recovery.on_sent(DATA, packet, true);
                    if next % 50 != 49 {
                        let displaced = Duration::from_micros(300 * (next * 7 % 4));
                        acks.insert((now + Duration::from_millis(50) + displaced, next));
                    }
                    next += 1;
                    continue;
                }
                Budget::Paced(at) if next < 10_000 => at,
                _ => Instant::FAR_FUTURE,
            };
            let (ack, number) = acks.first().copied().unwrap_or((Instant::FAR_FUTURE, 0));
            let timer = recovery.timer().unwrap_or(Instant::FAR_FUTURE);
            now = wake.min(ack).min(timer).max(now);
            out.clear();
            if ack <= now {
                acks.pop_first();
                let ranges = [number..=number].into_iter();
                recovery.on_ack(now, DATA, AckFrame::new(now, ranges), &mut out).unwrap();
            } else if timer <= now
                && recovery.on_timeout(now, &mut out) == (Timeout::Probe { space: DATA, datagrams: 2 })
            {
                // Nothing new to send: acknowledge the oldest, as if a probe had repeated it.
                let number = recovery.oldest_unacked(DATA).unwrap();
                acks.insert((now + Duration::from_millis(50), number));
            }
            fates += out.acked.iter().filter(|packet| !packet.declared_lost).count() as u64 + out.lost.len() as u64;
        }
        let stats = recovery.path(path).unwrap().stats();
        assert_eq!(recovery.bytes_in_flight(path), 0);
        assert!(stats.packets_lost >= 195, "{stats:?}");
        // A mean window of 1.2 / √p = 8.5 packets would take 59 s; recovery periods and reordering cost the rest.
        assert!(now < at(100_000), "{policies}: {now:?}");
    }
}
