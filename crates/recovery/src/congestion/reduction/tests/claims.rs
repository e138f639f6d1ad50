//! Claims of RFC 6937 on PRR beyond its traces: DeliveredData without SACK (section 2), and errors of the pipe
//! estimator (section 4).

use super::*;

/// A recovery in which one segment arrives per ACK, and in which the sender takes more for lost than is.
struct Estimate {
    reduction: Box<dyn Reduction>,
    window: u64,
    /// What is in flight, and what the sender thinks.
    in_flight: u64,
    pipe: u64,
    delivered: u64,
    sent: Vec<u64>,
}

impl Estimate {
    /// A flight of a hundred is to become fifty. The first ACK shows a segment to be lost, and leaves `pipe`.
    fn new(policy: &str, pipe: impl Fn(u64) -> u64) -> Estimate {
        let (reduction, sent) = (build(policy), Vec::new());
        Estimate { reduction, window: 100, in_flight: 98, pipe: 98, delivered: 1, sent }.step(pipe, true)
    }

    /// A segment arrives; `pipe` says what the sender thinks is in flight then.
    fn ack(mut self, pipe: impl Fn(u64) -> u64) -> Estimate {
        (self.in_flight, self.delivered) = (self.in_flight - 1, self.delivered + 1);
        self.step(pipe, false)
    }

    fn step(mut self, pipe: impl Fn(u64) -> u64, is_first: bool) -> Estimate {
        // With nothing in flight everything would have arrived.
        let pipe = pipe(self.in_flight).max(1);
        let lost = (self.pipe.saturating_sub(1)).saturating_sub(pipe).max(u64::from(is_first));
        let progress = Progress {
            delivered: SEGMENT,
            lost: lost * SEGMENT,
            prior_in_flight: 100 * SEGMENT,
            in_flight: pipe * SEGMENT,
            datagram: SEGMENT,
            is_fresh: !is_first,
            is_over: false,
            application_limited: false,
        };
        let step = match is_first {
            true => self.reduction.enter(self.window * SEGMENT, 50 * SEGMENT, progress),
            false => self.reduction.on_ack(self.window * SEGMENT, progress),
        };
        self.window = step.window / SEGMENT;
        // RFC 6675 sends the first repair whatever the window is.
        let leaves = self.window.saturating_sub(pipe).max(u64::from(is_first));
        (0..leaves).for_each(|_| self.reduction.on_sent(SEGMENT));
        self.in_flight += leaves;
        self.pipe = pipe + leaves;
        self.sent.push(leaves);
        self
    }

    /// After the first ACK and forty more with a right estimate, what leaves at the next one.
    fn in_the_middle(policy: &str, pipe: impl Fn(u64) -> u64) -> u64 {
        let begun = (0..40).fold(Estimate::new(policy, |right| right), |estimate, _| estimate.ack(|right| right));
        *begun.ack(pipe).sent.last().unwrap()
    }
}

/// "While pipe is underestimated, the algorithms are different by at most 1 segment per ACK": so it is at the start of
/// a recovery, where RFC 6675 releases the whole error.
#[test]
fn rfc6937_4_an_error_of_pipe_at_the_start_releases_a_burst_of_rfc6675_and_two_segments_of_prr() {
    for (policy, released) in [("immediate", 13), ("prr-ub", 13), ("prr-ssrb", 2), ("prr-crb", 1), ("prr", 1)] {
        assert_eq!(Estimate::new(policy, |_| 37).sent, [released], "{policy}");
    }
}

/// Later it is not so: what proportional reduction has held back counts as saved, and the bound lets it go at once.
/// After forty ACKs that is twenty segments. RFC 6675 releases the whole error still.
#[test]
fn rfc6937_4_an_error_of_pipe_in_the_middle_releases_what_was_held_back() {
    for (policy, released) in [("immediate", 42), ("prr-ub", 42), ("prr-ssrb", 22), ("prr-crb", 21), ("prr", 21)] {
        assert_eq!(Estimate::in_the_middle(policy, |_| 8), released, "{policy}");
        assert!(Estimate::in_the_middle(policy, |right| right) <= 1, "{policy} without an error");
    }
}

/// While pipe stays above the threshold, an error of it changes nothing at all.
#[test]
fn rfc6937_4_above_the_threshold_pipe_does_not_matter() {
    for policy in ["prr-ub", "prr-ssrb", "prr-crb", "prr"] {
        let row = |error: u64| {
            let begun = Estimate::new(policy, |right| right - error);
            (0..30).fold(begun, |estimate, _| estimate.ack(|right| right - error)).sent
        };
        assert_eq!(row(30), row(0), "{policy}");
    }
}

/// A TCP sender without SACK: each duplicate ACK stands for a segment, and an ACK that advances for what it covers less
/// those that duplicates have stood for (RFC 6937 section 2, in the form of Linux, which never goes below a segment).
#[derive(Debug, Default)]
struct WithoutSack {
    una: u64,
    duplicates: u64,
}

impl WithoutSack {
    /// DeliveredData of an ACK up to `una`, in segments.
    fn delivered(&mut self, una: u64) -> u64 {
        let advance = una - self.una;
        self.una = una;
        if advance == 0 {
            self.duplicates += 1;
            return 1;
        }
        let delivered = advance.saturating_sub(self.duplicates).max(1);
        self.duplicates = self.duplicates.saturating_sub(advance - 1);
        delivered
    }
}

/// A receiver and the segments that it has, and a sender that counts them without SACK.
struct Both {
    has: Vec<bool>,
    loses_acks: bool,
    without: WithoutSack,
}

impl Both {
    fn new(flight: usize) -> Both {
        Both { has: vec![false; flight], loses_acks: false, without: WithoutSack::default() }
    }

    /// Segment `number` arrives for the first time. Returns DeliveredData of its ACK, unless that is lost.
    fn arrive(&mut self, number: usize) -> Option<u64> {
        self.has[number] = true;
        let una = self.has.iter().position(|has| !has).unwrap_or(self.has.len());
        (!self.loses_acks).then(|| self.without.delivered(una as u64))
    }
}

proptest! {
    /// In whatever order a flight arrives, repairs included, every ACK reports as much as with SACK: a segment. The
    /// rows of the traces are the same without SACK.
    #[test]
    fn rfc6937_2_delivered_data_without_sack_are_exact_at_every_ack(
        order in Just((0..40_usize).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let mut both = Both::new(40);
        for number in order {
            prop_assert_eq!(both.arrive(number), Some(1));
        }
    }

    /// If ACKs are lost, single figures differ, and the sum is the forward progress all the same.
    #[test]
    fn rfc6937_2_delivered_data_without_sack_add_up_when_acks_are_lost(
        order in Just((0..40_usize).collect::<Vec<_>>()).prop_shuffle(),
        arrives in prop::collection::vec(any::<bool>(), 40),
    ) {
        let mut both = Both::new(40);
        let mut sum = 0;
        for (number, arrives) in order.into_iter().zip(arrives) {
            both.loses_acks = !arrives && both.has.iter().filter(|has| **has).count() < 39;
            sum += both.arrive(number).unwrap_or(0);
            prop_assert!(sum <= both.has.iter().filter(|has| **has).count() as u64);
        }
        prop_assert_eq!(sum, 40);
    }

    /// The strong packet conservation bound: whatever pipe is taken for, PRR-CRB never sends more than has arrived.
    #[test]
    fn rfc6937_4_prr_crb_sends_no_more_than_has_arrived_whatever_pipe_is_taken_for(
        errors in prop::collection::vec(0_u64..100, 1..90),
    ) {
        let mut estimate = Estimate::new("prr-crb", |right| right.saturating_sub(errors[0]));
        for error in errors {
            estimate = estimate.ack(|right| right.saturating_sub(error));
            prop_assert!(estimate.sent.iter().sum::<u64>() <= estimate.delivered, "{:?}", estimate.sent);
        }
    }
}
