//! C4 on a stage: a path of which every property is said, era by era.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::congestion::{CongestionEvent, Decrease, LossSample, Marks, RecoveryPeriod, SentSpan};
use crate::delivery::{RateSample, Round};
use crate::policies::RttPolicy;
use crate::rtt::Sample as RttSample;
use crate::testing::{at, ms};
use crate::trace::CongestionCause;

const DATAGRAM: u64 = 1_000;
/// ACKs of a round trip.
const ACKS: u64 = 20;
const RTT: Duration = Duration::from_millis(100);
/// 10 MB/s: full sensitivity, and a delay threshold of 6.25 ms.
const LINK: Rate = Rate::from_bps(80_000_000);

/// What is peculiar about an acknowledgment.
#[derive(Clone, Debug)]
struct Ack {
    rate: Rate,
    rtt: Duration,
    limited: bool,
    in_flight: u64,
    /// Places of packets that were lost.
    lost: Vec<u64>,
    by_timer: bool,
    ce: u64,
    persistent: bool,
}

impl Default for Ack {
    fn default() -> Ack {
        let (lost, by_timer, persistent) = (Vec::new(), false, false);
        Ack { rate: LINK, rtt: RTT, limited: false, in_flight: 1_000_000, lost, by_timer, ce: 0, persistent }
    }
}

struct Stage {
    c4: C4,
    rtt: Rtt,
    now: Instant,
    delivered: u64,
    /// What had been delivered at each acknowledgment of the last round trip, oldest first.
    before: VecDeque<u64>,
}

impl Stage {
    fn new() -> Stage {
        Stage::of(PathContext::new(Instant::ZERO, DATAGRAM as u16))
    }

    fn of(context: PathContext) -> Stage {
        let rtt = Rtt::new(RttPolicy::Classic, ms(333));
        Stage { c4: C4::new(&context), rtt, now: at(0), delivered: 0, before: VecDeque::from([0]) }
    }

    fn ack(&mut self, ack: &Ack) {
        let step = ack.rtt / ACKS as u32;
        self.now += step;
        let bytes = ack.rate.bytes_in(step);
        self.delivered += bytes;
        let prior = if self.before.len() as u64 >= ACKS { self.before.pop_front().unwrap() } else { self.before[0] };
        self.before.push_back(self.delivered);
        self.rtt.on_sample(RttSample::prompt(self.now, ack.rtt));
        let losses: Vec<LossSample> = ack.lost.iter().map(|order| self.loss(*order)).collect();
        let delivery = RateSample {
            rate: ack.rate,
            delivered: self.delivered - prior,
            interval: ack.rtt,
            application_limited: ack.limited,
            sent_in_flight: ack.in_flight,
            lost: 0,
            is_new: !ack.by_timer,
        };
        let congestion = (ack.persistent || !losses.is_empty()).then_some(CongestionEvent {
            cause: CongestionCause::Loss,
            episode: 1,
            decrease: Decrease::AsLoss,
        });
        let event = AckEvent {
            now: self.now,
            rtt: &self.rtt,
            has_rtt_sample: !ack.by_timer,
            acked: if ack.by_timer { 0 } else { bytes },
            growth: bytes,
            sent: (!ack.by_timer).then_some(SentSpan { oldest: self.now - ack.rtt, newest: self.now - ack.rtt }),
            arrivals: &[],
            lost: losses.len() as u64 * DATAGRAM,
            losses: &losses,
            marks: Marks { ce: ack.ce, ends_start: false },
            delivered: self.delivered,
            prior_in_flight: ack.in_flight,
            bytes_in_flight: ack.in_flight,
            round: Round::default(),
            delivery: Some(delivery),
            application_limited: ack.limited,
            period: RecoveryPeriod { in_recovery: false, is_fresh: true },
            congestion,
            persistent_congestion: ack.persistent,
        };
        assert_eq!(self.c4.on_ack(&event), Change::Allowance);
    }

    fn loss(&self, order: u64) -> LossSample {
        LossSample {
            bytes: DATAGRAM,
            sent: self.now,
            order,
            delivered: self.delivered,
            lost: 0,
            in_flight: 0,
            application_limited: false,
        }
    }

    fn allowance(&self) -> Allowance {
        self.c4.allowance(&PathView::new(self.now, &self.rtt, 0))
    }

    /// Such acknowledgments until it does something else. Returns how many eras have ended meanwhile.
    fn until_other(&mut self, ack: &Ack) -> u32 {
        let phase = self.c4.phase;
        for acks in 1..50 * ACKS {
            self.ack(ack);
            if self.c4.phase != phase {
                return u32::try_from(acks.div_ceil(ACKS)).unwrap();
            }
        }
        panic!("goes on in {phase:?}");
    }

    fn to(&mut self, phase: Phase) {
        for _ in 0..100 {
            if self.c4.phase == phase {
                return;
            }
            self.until_other(&Ack::default());
        }
        panic!("never comes to {phase:?}");
    }

    fn at(phase: Phase) -> Stage {
        let mut stage = Stage::new();
        stage.to(phase);
        stage
    }
}

#[test]
fn a_start_has_the_initial_window_and_a_megabit() {
    let stage = Stage::new();
    let allowance = stage.allowance();
    assert_eq!(allowance.window, 10 * DATAGRAM);
    assert!(allowance.rate.unwrap() >= START_RATE);
    assert_eq!(stage.c4.ecn_codepoint(), Ecn::Ect1);
}

#[test]
fn initial_doubles_and_ends_after_three_eras_without_growth() {
    let mut stage = Stage::new();
    let mut rate = Rate::from_bps(1_000_000);
    for _ in 0..5 {
        (0..ACKS).for_each(|_| stage.ack(&Ack { rate, ..Ack::default() }));
        let allowance = stage.allowance();
        assert!(allowance.rate.unwrap() >= rate.mul_ratio(2, 1), "twice what is delivered");
        assert!(allowance.window >= rate.mul_ratio(2, 1).bytes_in(RTT));
        assert_eq!(stage.c4.phase, Phase::Initial);
        rate = rate.mul_ratio(2, 1);
    }
    let eras = stage.until_other(&Ack { rate: rate.mul_ratio(1, 2), ..Ack::default() });
    assert!((3..=4).contains(&eras), "{eras}");
    assert_eq!((stage.c4.phase, stage.c4.initial.exit), (Phase::Recovery, Some(StartExit::Plateau)));
    assert_eq!(stage.allowance().rate, Some(rate.mul_ratio(1, 2).mul_ratio(15, 16)));
}

#[test]
fn what_the_application_limits_ends_no_start() {
    let mut stage = Stage::new();
    (0..20 * ACKS).for_each(|_| stage.ack(&Ack { limited: true, ..Ack::default() }));
    assert_eq!(stage.c4.phase, Phase::Initial);
}

#[test]
fn an_era_of_recovery_two_of_cruising_and_one_of_probing() {
    let mut stage = Stage::at(Phase::Cruising);
    assert_eq!(stage.allowance().rate, Some(LINK));
    // What the longest round trip holds, and 15 ms for late acknowledgments.
    assert_eq!(stage.allowance().window, LINK.bytes_in(RTT) + LINK.bytes_in(ms(15)));
    assert_eq!(stage.until_other(&Ack::default()), 2);
    assert_eq!(stage.c4.phase, Phase::Probing);
    assert_eq!(stage.allowance().rate, Some(LINK.mul_ratio(17, 16)));
    assert_eq!(stage.until_other(&Ack::default()), 1);
    assert_eq!(stage.c4.phase, Phase::Recovery);
    assert_eq!(stage.allowance().rate, Some(LINK.mul_ratio(15, 16)));
    assert_eq!(stage.until_other(&Ack::default()), 1);
    assert_eq!(stage.c4.phase, Phase::Cruising);
}

#[test]
fn a_sender_that_the_application_limits_does_not_probe() {
    let mut stage = Stage::at(Phase::Cruising);
    let limited = Ack { limited: true, rate: LINK.mul_ratio(1, 2), ..Ack::default() };
    (0..20 * ACKS).for_each(|_| stage.ack(&limited));
    assert_eq!((stage.c4.phase, stage.c4.rate), (Phase::Cruising, LINK));
}

#[test]
fn a_probe_that_is_answered_is_followed_by_pushes_as_long_as_the_rate_follows() {
    let mut stage = Stage::at(Phase::Probing);
    let mut rate = LINK.mul_ratio(17, 16);
    stage.until_other(&Ack { rate, ..Ack::default() });
    assert_eq!(stage.c4.phase, Phase::Recovery);
    stage.until_other(&Ack { rate, ..Ack::default() });
    assert_eq!(stage.c4.phase, Phase::Pushing);
    for _ in 0..3 {
        assert_eq!(stage.allowance().rate, Some(rate.mul_ratio(5, 4)));
        (0..ACKS).for_each(|_| stage.ack(&Ack { rate, ..Ack::default() }));
        rate = rate.mul_ratio(5, 4);
        (0..ACKS).for_each(|_| stage.ack(&Ack { rate, ..Ack::default() }));
        assert_eq!((stage.c4.phase, stage.c4.rate), (Phase::Pushing, rate));
    }
    stage.until_other(&Ack { rate, ..Ack::default() });
    assert_eq!(stage.c4.phase, Phase::Recovery);
}

/// Every tenth packet of a flow at full sensitivity is more than 2 %.
#[test]
fn too_much_loss_takes_a_quarter_and_a_little_takes_nothing() {
    let mut stage = Stage::at(Phase::Cruising);
    stage.ack(&Ack { lost: vec![1_000], ..Ack::default() });
    assert_eq!(stage.c4.phase, Phase::Recovery, "6 % of the latest sixteen");
    assert_eq!(stage.c4.rate, LINK.mul_ratio(3, 4));
    assert_eq!(stage.c4.max_rtt, RTT * 3 / 4);
    // A slow flow puts up with half.
    let mut slow = Stage::new();
    let rate = Rate::from_bps(300_000);
    while slow.c4.phase != Phase::Cruising {
        slow.ack(&Ack { rate, ..Ack::default() });
    }
    slow.ack(&Ack { rate, lost: vec![1_000], ..Ack::default() });
    assert_eq!((slow.c4.phase, slow.c4.rate), (Phase::Cruising, rate));
}

#[test]
fn loss_that_a_timer_has_found_is_none() {
    let mut stage = Stage::at(Phase::Cruising);
    stage.ack(&Ack { lost: (1_000..1_050).collect(), by_timer: true, ..Ack::default() });
    assert_eq!((stage.c4.phase, stage.c4.rate), (Phase::Cruising, LINK));
}

#[test]
fn loss_in_a_probe_ends_it_and_leaves_the_rate() {
    let mut stage = Stage::at(Phase::Probing);
    stage.ack(&Ack { lost: vec![1_000], ..Ack::default() });
    assert_eq!((stage.c4.phase, stage.c4.rate), (Phase::Recovery, LINK));
    // Congestion in Recovery makes it slower once, not the rate.
    stage.ack(&Ack { lost: vec![1_010], rate: LINK.mul_ratio(2, 1), ..Ack::default() });
    assert_eq!((stage.c4.phase, stage.c4.rate), (Phase::Recovery, LINK), "nor does what was sent before raise it");
    assert_eq!(stage.allowance().rate, Some(LINK.mul_ratio(7, 8)));
}

#[test]
fn delay_counts_after_a_probe_and_in_proportion() {
    // 5 ms more than the nominal round trip are within its threshold of 6.25 ms, 7 ms are not.
    let mut stage = Stage::at(Phase::Probing);
    stage.ack(&Ack { rtt: ms(105), ..Ack::default() });
    assert_eq!(stage.c4.phase, Phase::Probing);
    stage.until_other(&Ack { rtt: ms(105), ..Ack::default() });
    assert_eq!(stage.c4.phase, Phase::Recovery);
    assert_eq!(stage.c4.max_rtt, ms(105), "what it measured was sent at the rate");
    stage.ack(&Ack { rtt: ms(113), ..Ack::default() });
    assert_eq!(stage.allowance().rate, Some(LINK.mul_ratio(7, 8)), "the queue of the probe");
    // After an era no faster than the rate it is jitter, and the nominal round trip follows it.
    let mut stage = Stage::at(Phase::Cruising);
    stage.until_other(&Ack { rtt: ms(108), ..Ack::default() });
    assert_eq!((stage.c4.phase, stage.c4.rate), (Phase::Probing, LINK));
    assert_eq!(stage.c4.max_rtt, ms(108));
}

#[test]
fn the_nominal_round_trip_forgets_by_an_eighth_and_believes_250_ms_of_jitter() {
    let mut stage = Stage::at(Phase::Cruising);
    stage.ack(&Ack { rtt: ms(900), ..Ack::default() });
    stage.until_other(&Ack::default());
    let longest = stage.c4.max_rtt;
    assert!(longest <= RTT + MAX_JITTER && longest > ms(300), "{longest:?}");
    stage.to(Phase::Cruising);
    stage.until_other(&Ack::default());
    assert!(stage.c4.max_rtt < longest && stage.c4.max_rtt >= RTT);
}

#[test]
fn marks_beyond_the_threshold_reduce_in_proportion_and_weaken_the_next_probe() {
    let mut stage = Stage::at(Phase::Cruising);
    // A twentieth of the packets: below 3/32.
    (0..ACKS / 2).for_each(|_| stage.ack(&Ack { ce: 2, ..Ack::default() }));
    assert_eq!((stage.c4.phase, stage.c4.rate), (Phase::Cruising, LINK));
    stage.ack(&Ack { ce: 50, ..Ack::default() });
    assert_eq!((stage.c4.phase, stage.c4.rate), (Phase::Recovery, LINK.mul_ratio(3, 4)), "all of them");
    let slower = Ack { rate: LINK.mul_ratio(3, 4), ..Ack::default() };
    while stage.c4.phase != Phase::Probing {
        stage.ack(&slower);
    }
    assert_eq!(stage.allowance().rate, Some(LINK.mul_ratio(3, 4).mul_ratio(33, 32)));
}

#[test]
fn a_path_that_is_known_is_resumed_at_its_rate_for_two_eras() {
    let saved = SavedPath { window: 1_000_000, min_rtt: RTT, rate: None, age: Duration::ZERO };
    let mut context = PathContext::new(Instant::ZERO, DATAGRAM as u16);
    (context.saved, context.resume) = (Some(saved), ResumePolicy::Careful);
    let mut stage = Stage::of(context);
    let first = Ack { rate: Rate::from_bps(800_000), in_flight: DATAGRAM, ..Ack::default() };
    stage.ack(&first);
    assert_eq!(stage.c4.phase, Phase::Resuming);
    assert_eq!((stage.allowance().window, stage.allowance().rate), (1_000_000, Some(LINK)));
    // The path is not full yet: nothing is measured.
    (0..3 * ACKS).for_each(|_| stage.ack(&first));
    assert_eq!(stage.c4.phase, Phase::Resuming);
    stage.until_other(&Ack::default());
    assert_eq!((stage.c4.phase, stage.c4.rate), (Phase::Recovery, LINK));
    // Another path, and a policy that says no.
    context.saved = Some(SavedPath { min_rtt: ms(300), ..saved });
    let mut other = Stage::of(context);
    other.ack(&first);
    assert_eq!(other.c4.phase, Phase::Initial);
    (context.saved, context.resume) = (Some(saved), ResumePolicy::Off);
    let mut off = Stage::of(context);
    off.ack(&first);
    assert_eq!(off.c4.phase, Phase::Initial);
}

#[test]
fn persistent_congestion_begins_anew_with_the_minimum() {
    let mut stage = Stage::at(Phase::Cruising);
    stage.ack(&Ack { persistent: true, ..Ack::default() });
    assert_eq!((stage.c4.phase, stage.allowance().window), (Phase::Initial, 2 * DATAGRAM));
}

fn acks() -> impl Strategy<Value = Ack> {
    let path = (1u64..20_000_000, 1u64..5_000, any::<bool>(), 0u64..50_000_000);
    let loss = (proptest::collection::vec(0u64..1_000_000, 0..5), any::<bool>(), 0u64..40, prop::bool::weighted(0.02));
    (path, loss).prop_map(|((kbps, rtt, limited, in_flight), (mut lost, by_timer, ce, persistent))| {
        lost.sort_unstable();
        Ack { rate: Rate::from_bps(1_000 * kbps), rtt: ms(rtt), limited, in_flight, lost, by_timer, ce, persistent }
    })
}

proptest! {
    #[test]
    fn whatever_happens_something_may_leave(acks in proptest::collection::vec(acks(), 1..300), size in 1_200u16..9_000) {
        let mut stage = Stage::new();
        for (number, ack) in acks.iter().enumerate() {
            stage.ack(ack);
            if number == 20 {
                stage.c4.on_datagram_size(size);
                let _ = stage.c4.on_validation(stage.now, 12_000);
            }
            let allowance = stage.allowance();
            prop_assert!(allowance.window >= 2 * stage.c4.datagram);
            prop_assert!(allowance.quantum >= 2 * stage.c4.datagram && allowance.quantum <= MAX_QUANTUM.max(18_000));
            prop_assert!(allowance.burst >= 2 * stage.c4.datagram && allowance.burst <= MAX_QUANTUM.max(18_000));
            prop_assert!(stage.c4.phase == Phase::Initial || stage.c4.rate > Rate::ZERO);
            prop_assert!(stage.c4.max_rtt >= LEAST_RTT || stage.c4.max_rtt.is_zero());
        }
    }
}
