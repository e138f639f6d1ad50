//! BBR on a stage: a path of which every property is said, round by round.

use std::collections::VecDeque;

use thalweg_units::{Duration, Instant, Rate};

use super::*;
use crate::congestion::{CongestionEvent, Decrease, LossSample, Marks, RecoveryPeriod, SentSpan};
use crate::delivery::{RateSample, Round};
use crate::policies::RttPolicy;
use crate::rtt::Sample as RttSample;
use crate::testing::{at, ms};
use crate::trace::CongestionCause;

mod cycle;
mod invariants;
mod probe_rtt;
mod short_term;
mod start;
mod undo;
mod variants;
mod window;

const DATAGRAM: u64 = 1_000;
/// ACKs of a round trip.
const ACKS: u64 = 20;
const RTT: Duration = Duration::from_millis(100);
/// A delay-bandwidth product of 100 datagrams.
const LINK: Rate = Rate::from_bps(8_000_000);
const BDP: u64 = 100 * DATAGRAM;
/// A flight with a queue.
const QUEUED: u64 = 110 * DATAGRAM;

/// What is peculiar about an acknowledgment.
#[derive(Clone, Debug)]
struct Ack {
    rate: Rate,
    rtt: Duration,
    limited: bool,
    /// In flight after it; the window, if nothing is said.
    in_flight: Option<u64>,
    losses: Vec<LossSample>,
    lost_of_sample: u64,
    ce: u64,
    congestion: bool,
    persistent: bool,
}

impl Default for Ack {
    fn default() -> Ack {
        Ack {
            rate: LINK,
            rtt: RTT,
            limited: false,
            in_flight: None,
            losses: Vec::new(),
            lost_of_sample: 0,
            ce: 0,
            congestion: false,
            persistent: false,
        }
    }
}

struct Stage {
    bbr: Bbr,
    rtt: Rtt,
    now: Instant,
    delivered: u64,
    /// What had been delivered at each acknowledgment of the last round trip, oldest first.
    before: VecDeque<u64>,
    lost: u64,
    episode: u32,
    recovers_until: Option<u64>,
    phases: Vec<Phase>,
}

impl Stage {
    fn new() -> Stage {
        Stage::seeded(1)
    }

    fn seeded(seed: u64) -> Stage {
        let mut context = PathContext::new(Instant::ZERO, DATAGRAM as u16);
        context.seed = seed;
        Stage {
            bbr: Bbr::new(&context, Settings::default()),
            rtt: Rtt::new(RttPolicy::Classic, ms(333)),
            now: Instant::ZERO,
            delivered: 0,
            before: VecDeque::from([0]),
            lost: 0,
            episode: 0,
            recovers_until: None,
            phases: vec![Phase::Startup],
        }
    }

    /// One acknowledgment, a twentieth of a round trip after the last, of what the rate delivers in that time.
    fn ack(&mut self, ack: &Ack) {
        let step = ack.rtt / ACKS as u32;
        self.now += step;
        if ack.rtt == RTT {
            // As short as ever: nothing has to be probed for.
            self.bbr.path.min_rtt.on_probed(self.now);
        }
        let bytes = ack.rate.bytes_in(step);
        // The sender has used its window meanwhile, unless the application has not.
        if !ack.limited {
            let full = ack.in_flight.map_or(self.bbr.window, |left| left + bytes);
            let _ = self.bbr.on_sent(self.now, bytes, full);
        }
        self.delivered += bytes;
        let prior = if self.before.len() as u64 >= ACKS { self.before.pop_front().unwrap() } else { self.before[0] };
        self.before.push_back(self.delivered);
        self.rtt.on_sample(RttSample::prompt(self.now, ack.rtt));
        self.lost += ack.losses.iter().map(|loss| loss.bytes).sum::<u64>();
        let flight = ack.in_flight.unwrap_or(self.bbr.window.saturating_sub(bytes));
        let congestion = (ack.congestion || ack.persistent).then(|| {
            self.episode += 1;
            self.recovers_until = Some(self.delivered);
            let cause = if ack.ce > 0 { CongestionCause::Ecn } else { CongestionCause::Loss };
            CongestionEvent { cause, episode: self.episode, decrease: Decrease::AsLoss }
        });
        if congestion.is_none() && self.recovers_until.is_some_and(|until| prior >= until) {
            self.recovers_until = None;
        }
        let delivery = RateSample {
            rate: ack.rate,
            delivered: self.delivered - prior,
            interval: ack.rtt,
            application_limited: ack.limited,
            sent_in_flight: flight + bytes,
            lost: ack.lost_of_sample,
            is_new: true,
        };
        let event = AckEvent {
            now: self.now,
            rtt: &self.rtt,
            has_rtt_sample: true,
            acked: bytes,
            growth: bytes,
            sent: Some(SentSpan { oldest: self.now - ack.rtt, newest: self.now - ack.rtt }),
            arrivals: &[],
            lost: ack.losses.iter().map(|loss| loss.bytes).sum(),
            losses: &ack.losses,
            marks: Marks { ce: ack.ce, ends_start: false },
            delivered: self.delivered,
            prior_in_flight: flight + bytes,
            bytes_in_flight: flight,
            round: Round::default(),
            delivery: Some(delivery),
            application_limited: ack.limited,
            period: RecoveryPeriod { in_recovery: self.recovers_until.is_some(), is_fresh: true },
            congestion,
            persistent_congestion: ack.persistent,
        };
        assert_eq!(self.bbr.on_ack(&event), Change::Allowance);
        if self.phases.last() != Some(&self.bbr.phase) {
            self.phases.push(self.bbr.phase);
        }
    }

    /// Such acknowledgments for a round trip.
    fn round(&mut self, ack: &Ack) {
        (0..ACKS).for_each(|_| self.ack(ack));
    }

    /// Such acknowledgments until it does something else, or until so many round trips have passed. Returns how many
    /// have begun.
    fn until_other(&mut self, ack: &Ack, rounds: u64) -> u64 {
        let (phase, begun) = (self.bbr.phase, self.bbr.rounds.count);
        for _ in 0..rounds * ACKS {
            self.ack(ack);
            if self.bbr.phase != phase {
                break;
            }
        }
        self.bbr.rounds.count - begun
    }

    /// Runs until `phase`, with a flight that follows from the phase: what is asked for, and no more than the path
    /// holds while it is being emptied.
    fn to(&mut self, phase: Phase) {
        for _ in 0..400 * ACKS {
            if self.bbr.phase == phase {
                return;
            }
            let in_flight = match self.bbr.phase {
                Phase::Drain | Phase::Down | Phase::Cruise => Some(BDP * 9 / 10),
                Phase::ProbeRtt => Some(self.bbr.probe_rtt_window()),
                _ => None,
            };
            self.ack(&Ack { in_flight, ..Ack::default() });
        }
        panic!("never comes to {phase:?}: {:?}", self.phases);
    }

    fn at(phase: Phase) -> Stage {
        let mut stage = Stage::new();
        stage.to(phase);
        stage
    }

    /// Neighbors that are lost, sent into such a flight by the latest round.
    fn losses(&self, ranges: &[u64], in_flight: u64) -> Vec<LossSample> {
        let mut order = 1_000 * (1 + self.lost);
        let mut losses = Vec::new();
        for packets in ranges {
            order += 10;
            for _ in 0..*packets {
                order += 1;
                losses.push(LossSample {
                    bytes: DATAGRAM,
                    sent: self.now,
                    order,
                    delivered: self.before[0],
                    lost: self.lost,
                    in_flight,
                    application_limited: false,
                });
            }
        }
        losses
    }

    fn allowance(&self) -> Allowance {
        self.bbr.allowance(&PathView::new(self.now, &self.rtt, 0))
    }
}

#[test]
fn the_same_seed_gives_the_same_decisions() {
    let run = |seed| {
        let mut stage = Stage::seeded(seed);
        (0..20).for_each(|_| {
            stage.to(Phase::Up);
            stage.to(Phase::Cruise);
        });
        (stage.now, stage.allowance())
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3).0, run(4).0);
}
