//! The pacer: a token bucket, exact to the bit and the nanosecond.
//!
//! Credit accrues at the pacing rate and packets spend it. It is kept in units of 10⁻⁹ bit, so that `rate × time` is a
//! product of integers and nothing is ever rounded away: over any span, what leaves is the rate times the span, to
//! within one burst.
//!
//! Packets leave in *trains*: when credit runs out the sender waits until there is enough for a whole [`quantum`],
//! rather than waking for every packet. The bucket holds two quanta, or the initial window if that is more: one quantum
//! to send and one in store for a timer that fires late; the initial window is the burst that RFC 9002 section 7.7
//! accepts on any path, and is all that an unknown path gets.
//!
//! Of a sender whose packets leave evenly the bucket holds one quantum: what gathered while the window or the
//! application held it back does not leave together, because a queue may have room for a few packets only. What a timer
//! that fires late has withheld is another matter: it is owed, up to [`LATENESS`], or the rate would never be reached.

use thalweg_units::{Duration, DurationExt, Instant, Rate};

use crate::congestion::Allowance;

/// Pacing gain outside slow start: 5/4 of a window per round trip (the example of RFC 9002 section 7.7).
///
/// Above 1 so that the window, not the pacer, decides how much is in flight; not far above, so that packets stay spread
/// out.
pub const AVOIDANCE_GAIN: (u64, u64) = (5, 4);

/// Pacing gain in slow start: two windows per round trip.
///
/// The window doubles within the round trip. What leaves during one is the window at its end, twice the one at its
/// beginning; at a gain of 5/4 the pacer would hold slow start back to less than doubling, and it would be the pacer
/// that ends it.
pub const SLOW_START_GAIN: (u64, u64) = (2, 1);

/// How much time's worth of data leaves back to back, rates permitting.
///
/// Longer means fewer wake-ups and system calls (one GSO batch per quantum), shorter means less queue at the bottleneck
/// per train.
pub const QUANTUM_TIME: Duration = Duration::from_millis(1);

/// The same where a queue marks what waits for a millisecond: a quarter of that, so that a train by itself is not
/// marked (RFC 9331 section 4.3 asks scalable senders to limit bursts; Linux's Prague takes the same time).
pub const EVEN_TIME: Duration = Duration::from_micros(250);

/// From this rate on a [`steady_quantum`] is at least [`FAST_DATAGRAMS`]: smaller batches would cost more CPU time than
/// the short queue they spare is worth at such a rate.
const FAST_RATE: Rate = Rate::from_bps(400_000_000);

/// What one system call should hand over at least, on a fast path, in datagrams.
const FAST_DATAGRAMS: u64 = 16;

/// A window of so many datagrams is never spread out: a queue that holds fewer is none.
pub const FEW_DATAGRAMS: u64 = 4;

/// For how long a timer may be late without loss of rate where packets leave evenly: what an operating system that is
/// busy or has coarse timers makes of a millisecond.
pub const LATENESS: Duration = Duration::from_millis(4);

/// The most that leaves back to back: what one GSO call takes.
pub const MAX_QUANTUM: u64 = 64_000;

/// Credit units per byte.
const UNITS_PER_BYTE: i128 = 8_000_000_000;

/// The rate that sends `window` bytes per `rtt`, times `gain` (numerator, denominator).
pub fn window_rate(window: u64, rtt: Duration, gain: (u64, u64)) -> Rate {
    Rate::from_bytes_over(window, Duration::from_nanos(rtt.nanos().max(1))).mul_ratio(gain.0, gain.1)
}

/// How many bytes leave back to back at `rate`: a millisecond's worth, at least two datagrams, at most 64 kB.
///
/// Two, because receivers acknowledge every second packet, and a lone packet would wait for their ACK delay.
pub fn quantum(rate: Rate, datagram_size: u16) -> u64 {
    let least = 2 * u64::from(datagram_size);
    rate.bytes_in(QUANTUM_TIME).clamp(least, MAX_QUANTUM.max(least))
}

/// How many bytes leave back to back at `rate` once the start is over: [`EVEN_TIME`]'s worth, at least two datagrams
/// (from 400 Mbps on at least 16), at most 64 kB.
pub fn steady_quantum(rate: Rate, datagram_size: u16) -> u64 {
    let datagrams = if rate < FAST_RATE { 2 } else { FAST_DATAGRAMS };
    let pair = 2 * u64::from(datagram_size);
    let least = (datagrams * u64::from(datagram_size)).min(MAX_QUANTUM).max(pair);
    rate.bytes_in(EVEN_TIME).clamp(least, MAX_QUANTUM.max(least))
}

/// What the pacer answers.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Credit {
    /// So many bytes may leave now.
    Bytes(u64),
    /// Nothing before this.
    NotBefore(Instant),
}

/// The token bucket of a path.
#[derive(Clone, Debug)]
pub(crate) struct Pacer {
    /// `None`: not paced.
    rate: Option<Rate>,
    quantum: u64,
    /// The most credit that accrues, in bytes.
    capacity: u64,
    /// Credit at `updated`; negative after packets that did not ask (probes).
    credit: i128,
    /// What is left of the trains that credit was gathered for, in bytes.
    train: u64,
    /// Packets leave evenly: what gathers beyond `capacity` is only what a late timer withheld.
    is_even: bool,
    /// When the credit that was last waited for was there; `None` once the sender has been held back by anything else.
    due: Option<Instant>,
    updated: Instant,
}

impl Pacer {
    /// A full bucket for a path about which nothing is known.
    pub(crate) fn new(now: Instant, initial_window: u64) -> Pacer {
        Pacer {
            rate: None,
            quantum: initial_window,
            capacity: initial_window,
            credit: i128::from(initial_window) * UNITS_PER_BYTE,
            train: 0,
            is_even: false,
            due: None,
            updated: now,
        }
    }

    /// The rate in force; `None` when packets are not paced.
    pub(crate) fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// Goes by the rate, the quantum and the burst of an allowance from now on. Until the path is `known` (has an RTT
    /// sample), no burst exceeds the initial window.
    pub(crate) fn set(&mut self, now: Instant, allowance: &Allowance, initial_window: u64, known: bool) {
        self.accrue(now);
        if self.rate.is_none() {
            // What left unpaced is no debt.
            self.credit = self.credit.max(0);
        }
        let Allowance { rate, quantum, burst, hold_until_credit, is_even, .. } = *allowance;
        self.rate = rate;
        self.quantum = if known { quantum } else { quantum.min(initial_window) };
        let stored = self.quantum.saturating_mul(2).max(burst).max(hold_until_credit);
        self.capacity = match known {
            true if is_even => self.quantum.max(hold_until_credit),
            true => initial_window.max(stored),
            false => initial_window,
        };
        self.is_even = known && is_even;
        // What is left of a longer train of before, as after congestion.
        self.train = self.train.min(self.capacity);
    }

    /// The window or the application holds the sender back, not the pacer: nobody is owed for it. Without it an even
    /// sender would send at once what it was not allowed to send before.
    pub(crate) fn on_held(&mut self) {
        if self.is_even {
            self.due = None;
            self.train = self.train.min(self.capacity);
        }
    }

    /// Ends the train under way and forgets debts: the application has chosen another limit. What one limit let out at
    /// once is not sent under the next, nor is what had to leave in a pause paid for by a longer one.
    pub(crate) fn start_over(&mut self) {
        self.train = 0;
        self.due = None;
        self.credit = self.credit.max(0);
    }

    /// A packet that counts in flight leaves, whether there was credit for it or not.
    pub(crate) fn on_sent(&mut self, now: Instant, bytes: u64) {
        self.accrue(now);
        self.credit -= i128::from(bytes) * UNITS_PER_BYTE;
        self.train = self.train.saturating_sub(bytes);
    }

    /// Whether part of a train that there was credit for has still to leave.
    pub(crate) fn is_in_train(&self, datagram_size: u16) -> bool {
        self.train >= u64::from(datagram_size)
    }

    /// How much may leave at `now`, given that the window has room for `room` bytes, at least one datagram. Nothing
    /// before there is credit for `hold` bytes, if that is more than a quantum.
    pub(crate) fn credit(&mut self, now: Instant, datagram_size: u16, room: u64, hold: u64) -> Credit {
        let Some(rate) = self.rate else {
            return Credit::Bytes(u64::MAX);
        };
        self.accrue(now);
        let datagram = u64::from(datagram_size);
        if self.train >= datagram {
            return Credit::Bytes(self.train);
        }
        // Whole trains only. What is left over stays: else every acknowledgment that comes in between would send the
        // few packets there is credit for by then, each time with a system call of its own.
        let train = self.quantum.max(hold).min(room).max(datagram).min(self.capacity.max(datagram));
        // Where it fits, in 64 bits: the processor divides these by itself.
        let credit = match u64::try_from(self.credit) {
            Ok(credit) => credit / UNITS_PER_BYTE as u64,
            Err(_) => u64::try_from(self.credit / UNITS_PER_BYTE).unwrap_or(0),
        };
        if credit >= train {
            self.train = credit - credit % train;
            return Credit::Bytes(self.train);
        }
        let missing = (i128::from(train) * UNITS_PER_BYTE - self.credit).unsigned_abs();
        let wait = match u128::from(rate.bps()) {
            0 => u64::MAX,
            rate => u64::try_from(missing.div_ceil(rate)).unwrap_or(u64::MAX),
        };
        let due = self.updated + Duration::from_nanos(wait);
        self.due = Some(due);
        Credit::NotBefore(due)
    }

    /// What a timer that fires only `now` has withheld, in units of credit.
    fn owed(&self, now: Instant, rate: u64) -> i128 {
        let Some(due) = self.due.filter(|_| self.is_even) else { return 0 };
        i128::from(rate) * i128::from(now.saturating_since(due).min(LATENESS).nanos())
    }

    fn accrue(&mut self, now: Instant) {
        let elapsed = now.saturating_since(self.updated).nanos();
        self.updated = self.updated.max(now);
        let rate = self.rate.map_or(0, Rate::bps);
        // Both factors are below 2^64, so their product fits.
        let earned = i128::try_from(u128::from(rate) * u128::from(elapsed)).unwrap_or(i128::MAX);
        let full = i128::from(self.capacity) * UNITS_PER_BYTE + self.owed(now, rate);
        self.credit = self.credit.saturating_add(earned).min(full);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DATAGRAM: u16 = 1_200;
    const INITIAL: u64 = 12_000;

    fn paced(rate: Rate) -> Pacer {
        let mut pacer = Pacer::new(Instant::ZERO, INITIAL);
        pacer.set(Instant::ZERO, &Allowance::new(INITIAL, Some(rate), DATAGRAM), INITIAL, true);
        pacer
    }

    /// Sends whatever it may as soon as it may; returns the bytes that left before `end` and the largest train after
    /// the first.
    fn saturate(pacer: &mut Pacer, end: Instant, late: Duration) -> (u64, u64) {
        let (mut now, mut total, mut largest) = (Instant::ZERO, 0, 0);
        while now < end {
            let mut train = 0;
            let next = loop {
                match pacer.credit(now, DATAGRAM, u64::MAX, 0) {
                    Credit::Bytes(_) => {
                        pacer.on_sent(now, u64::from(DATAGRAM));
                        train += u64::from(DATAGRAM);
                    }
                    Credit::NotBefore(next) => break next,
                }
            };
            assert!(next > now, "the answer is always in the future");
            total += train;
            if now > Instant::ZERO {
                largest = largest.max(train);
            }
            now = next + late;
        }
        (total, largest)
    }

    #[test]
    fn rfc9002_7_7_the_rate_is_kept_exactly() {
        for bps in [64_000, 1_000_000, 14_700_000, 250_000_000, 10_000_000_000] {
            let rate = Rate::from_bps(bps);
            let (total, _) = saturate(&mut paced(rate), Instant::ZERO + Duration::from_secs(10), Duration::ZERO);
            let expected = rate.bytes_in(Duration::from_secs(10));
            let slack = INITIAL + 2 * quantum(rate, DATAGRAM);
            assert!(total.abs_diff(expected) <= slack, "{rate}: {total} instead of {expected}");
        }
    }

    #[test]
    fn a_timer_that_is_late_by_less_than_a_quantum_costs_nothing() {
        let rate = Rate::from_bps(250_000_000);
        let late = Duration::from_micros(900);
        let (total, _) = saturate(&mut paced(rate), Instant::ZERO + Duration::from_secs(10), late);
        assert!(total >= rate.bytes_in(Duration::from_secs(10)) - 2 * quantum(rate, DATAGRAM));
    }

    #[test]
    fn packets_leave_in_trains_of_a_quantum() {
        let rate = Rate::from_bps(250_000_000);
        let (_, largest) = saturate(&mut paced(rate), Instant::ZERO + Duration::from_secs(1), Duration::ZERO);
        assert!(largest <= 31_250, "{largest}");
        assert!(largest > 31_250 - 1_200);
    }

    #[test]
    fn asking_between_two_trains_sends_nothing() {
        let rate = Rate::from_bps(250_000_000);
        let mut pacer = paced(rate);
        let (mut trains, mut sent) = (0, 0);
        for micros in 0..100_000 {
            let now = Instant::ZERO + Duration::from_micros(micros);
            if let Credit::Bytes(bytes) = pacer.credit(now, DATAGRAM, u64::MAX, 0) {
                // A batch, as a transport with segmentation offload sends it.
                let bytes = bytes / 1_200 * 1_200;
                pacer.on_sent(now, bytes);
                trains += 1;
                sent += bytes;
            }
        }
        assert!((95..=105).contains(&trains), "{trains} trains in 100 ms");
        assert!(sent >= rate.bytes_in(Duration::from_millis(98)), "{sent}");
    }

    #[test]
    fn the_quantum_is_a_millisecond_within_limits() {
        assert_eq!(quantum(Rate::from_bps(1_000_000), DATAGRAM), 2_400);
        assert_eq!(quantum(Rate::from_bps(100_000_000), DATAGRAM), 12_500);
        assert_eq!(quantum(Rate::from_bps(10_000_000_000), DATAGRAM), 64_000);
        assert_eq!(quantum(Rate::ZERO, u16::MAX), 131_070);
    }

    #[test]
    fn rfc9002_7_7_an_unknown_path_gets_the_initial_window_at_once_and_never_more() {
        let rate = Rate::from_bps(10_000_000_000);
        let mut pacer = Pacer::new(Instant::ZERO, INITIAL);
        pacer.set(Instant::ZERO, &Allowance::new(INITIAL, Some(rate), DATAGRAM), INITIAL, false);
        let later = Instant::ZERO + Duration::from_secs(5);
        assert_eq!(pacer.credit(later, DATAGRAM, u64::MAX, 0), Credit::Bytes(INITIAL));
        pacer.on_sent(later, INITIAL);
        // 12000 bytes at 10 Gbps: the next train is an initial window too, not 64 kB.
        assert_eq!(pacer.credit(later, DATAGRAM, u64::MAX, 0), Credit::NotBefore(later + Duration::from_nanos(9_600)));
    }

    #[test]
    fn silence_is_not_saved_up_beyond_the_bucket() {
        let mut pacer = paced(Rate::from_bps(1_000_000));
        pacer.on_sent(Instant::ZERO, INITIAL);
        let later = Instant::ZERO + Duration::from_secs(3_600);
        assert_eq!(pacer.credit(later, DATAGRAM, u64::MAX, 0), Credit::Bytes(INITIAL));
    }

    #[test]
    fn packets_that_do_not_ask_are_paid_for_later() {
        let mut pacer = paced(Rate::from_bps(9_600_000));
        pacer.on_sent(Instant::ZERO, INITIAL + 2_400);
        // 2400 bytes of debt and a train of 2400 at 1200 bytes per millisecond.
        assert_eq!(
            pacer.credit(Instant::ZERO, DATAGRAM, u64::MAX, 0),
            Credit::NotBefore(Instant::ZERO + Duration::from_millis(4))
        );
        // With room for one datagram only, there is no point in waiting for two.
        assert_eq!(
            pacer.credit(Instant::ZERO, DATAGRAM, 1_200, 0),
            Credit::NotBefore(Instant::ZERO + Duration::from_millis(3))
        );
    }

    #[test]
    fn without_a_rate_everything_may_leave() {
        let mut pacer = Pacer::new(Instant::ZERO, INITIAL);
        pacer.on_sent(Instant::ZERO, 10 * INITIAL);
        assert_eq!(pacer.credit(Instant::ZERO, DATAGRAM, u64::MAX, 0), Credit::Bytes(u64::MAX));
    }

    #[test]
    fn a_hold_lasts_until_there_is_credit_for_the_whole_train() {
        let mut pacer = paced(Rate::from_bps(9_600_000));
        let shaped = Allowance { hold_until_credit: 24_000, ..Allowance::new(100_000, pacer.rate(), DATAGRAM) };
        pacer.set(Instant::ZERO, &shaped, INITIAL, true);
        pacer.on_sent(Instant::ZERO, INITIAL);
        // 1200 bytes per millisecond.
        let ready = Instant::ZERO + Duration::from_millis(20);
        assert_eq!(pacer.credit(Instant::ZERO, DATAGRAM, 100_000, 24_000), Credit::NotBefore(ready));
        assert_eq!(pacer.credit(ready, DATAGRAM, 100_000, 24_000), Credit::Bytes(24_000));
        pacer.on_sent(ready, 1_200);
        assert!(pacer.is_in_train(DATAGRAM));
        assert_eq!(pacer.credit(ready, DATAGRAM, 90_000, 24_000), Credit::Bytes(22_800), "the rest of the train");
    }

    #[test]
    fn a_burst_is_saved_up_in_a_pause() {
        let mut pacer = paced(Rate::from_bps(9_600_000));
        let shaped = Allowance { burst: 60_000, ..Allowance::new(100_000, pacer.rate(), DATAGRAM) };
        pacer.set(Instant::ZERO, &shaped, INITIAL, true);
        pacer.on_sent(Instant::ZERO, INITIAL);
        let later = Instant::ZERO + Duration::from_secs(10);
        assert_eq!(pacer.credit(later, DATAGRAM, 100_000, 0), Credit::Bytes(60_000));
    }

    #[test]
    fn what_is_left_of_a_train_does_not_leave_at_once_under_a_smaller_burst() {
        let mut pacer = paced(Rate::from_bps(9_600_000));
        let allowance = Allowance::new(1_000_000, pacer.rate(), DATAGRAM);
        let train = Allowance { burst: 600_000, hold_until_credit: 600_000, ..allowance };
        pacer.set(Instant::ZERO, &train, INITIAL, true);
        let later = Instant::ZERO + Duration::from_secs(10);
        assert_eq!(pacer.credit(later, DATAGRAM, 1_000_000, 600_000), Credit::Bytes(600_000));
        // The application had no more than this, and then the window fell.
        pacer.on_sent(later, 12_000);
        pacer.set(later, &allowance, INITIAL, true);
        let Credit::Bytes(bytes) = pacer.credit(later, DATAGRAM, 1_000_000, 0) else { panic!("nothing leaves") };
        assert!(bytes <= INITIAL, "{bytes}");
    }

    #[test]
    fn packets_that_leave_evenly_save_up_a_quantum_and_nothing_else() {
        let rate = Rate::from_bps(9_600_000);
        let mut pacer = Pacer::new(Instant::ZERO, INITIAL);
        // The first packets leave before anything is known of the path, as part of an initial window.
        let even = Allowance { burst: 60_000, ..Allowance::even(100_000, rate, DATAGRAM) };
        pacer.set(Instant::ZERO, &even, INITIAL, false);
        assert_eq!(pacer.credit(Instant::ZERO, DATAGRAM, u64::MAX, 0), Credit::Bytes(INITIAL));
        pacer.on_sent(Instant::ZERO, 1_200);
        // The rest of it does not follow at once when the path is known.
        pacer.set(Instant::ZERO, &even, INITIAL, true);
        assert_eq!(pacer.credit(Instant::ZERO, DATAGRAM, u64::MAX, 0), Credit::Bytes(1_200));
        // Nor does a pause save up more than a datagram, which is a millisecond's worth here.
        let later = Instant::ZERO + Duration::from_secs(10);
        assert_eq!(pacer.credit(later, DATAGRAM, u64::MAX, 0), Credit::Bytes(1_200));
        pacer.on_sent(later, 1_200);
        let next = later + Duration::from_millis(1);
        assert_eq!(pacer.credit(later, DATAGRAM, u64::MAX, 0), Credit::NotBefore(next));
    }

    #[test]
    fn a_train_of_packets_that_leave_evenly_lasts_a_quarter_of_a_millisecond() {
        for (bps, quantum) in [(9_600_000, 1_200), (1_000_000_000, 31_250), (100_000_000_000, 64_000)] {
            assert_eq!(Allowance::even(1, Rate::from_bps(bps), DATAGRAM).quantum, quantum);
        }
    }

    /// A path after its start.
    fn steady(rate: Rate) -> Pacer {
        let mut pacer = Pacer::new(Instant::ZERO, INITIAL);
        pacer.set(Instant::ZERO, &Allowance::steady(1 << 30, rate, DATAGRAM), INITIAL, true);
        pacer.on_sent(Instant::ZERO, INITIAL);
        pacer
    }

    #[test]
    fn a_late_timer_costs_an_even_sender_next_to_nothing() {
        for (bps, late) in [(100_000_000, 1_000), (100_000_000, 3_000), (1_000_000_000, 1_000), (5_000_000, 4_000)] {
            let rate = Rate::from_bps(bps);
            let span = Duration::from_secs(10);
            let late = Duration::from_micros(late);
            let (total, _) = saturate(&mut steady(rate), Instant::ZERO + span, late);
            let expected = rate.bytes_in(span);
            assert!(total >= expected * 97 / 100, "{rate}, {late:?} late: {total} of {expected}");
            assert!(total <= expected + 2 * INITIAL, "{rate}, {late:?} late: {total} of {expected}");
        }
    }

    #[test]
    fn a_timer_later_than_that_is_owed_four_milliseconds() {
        let rate = Rate::from_bps(96_000_000);
        let mut pacer = steady(rate);
        let Credit::NotBefore(due) = pacer.credit(Instant::ZERO, DATAGRAM, u64::MAX, 0) else { panic!("in debt") };
        // 12,000 bytes per millisecond: a train of 3,000, and 48,000 that are owed.
        let Credit::Bytes(bytes) = pacer.credit(due + Duration::from_secs(1), DATAGRAM, u64::MAX, 0) else { panic!() };
        assert_eq!(bytes, 51_000);
    }

    #[test]
    fn nothing_is_owed_to_an_even_sender_that_the_window_or_the_application_held_back() {
        let mut pacer = steady(Rate::from_bps(96_000_000));
        let Credit::NotBefore(due) = pacer.credit(Instant::ZERO, DATAGRAM, u64::MAX, 0) else { panic!("in debt") };
        pacer.on_held();
        let Credit::Bytes(bytes) = pacer.credit(due + Duration::from_secs(1), DATAGRAM, u64::MAX, 0) else { panic!() };
        assert_eq!(bytes, 3_000);
        // The same for a train that the window cuts off.
        let Credit::NotBefore(due) = pacer.credit(due, DATAGRAM, u64::MAX, 24_000) else { return };
        pacer.credit(due + Duration::from_millis(4), DATAGRAM, u64::MAX, 0);
        pacer.on_held();
        assert!(matches!(pacer.credit(due + Duration::from_millis(4), DATAGRAM, u64::MAX, 0), Credit::Bytes(..=3_000)));
    }

    #[test]
    fn a_steady_train_is_a_quarter_of_a_millisecond_within_limits() {
        for (bps, bytes) in [
            (1_000_000, 2_400),
            (96_000_000, 3_000),
            (399_000_000, 12_468),
            (400_000_000, 19_200),
            (1_000_000_000, 31_250),
            (10_000_000_000, 64_000),
        ] {
            assert_eq!(steady_quantum(Rate::from_bps(bps), DATAGRAM), bytes, "{bps}");
        }
        assert_eq!(steady_quantum(Rate::from_bps(1_000_000_000), 9_000), 64_000, "jumbo frames");
        assert_eq!(steady_quantum(Rate::ZERO, u16::MAX), 131_070);
    }

    proptest! {
        /// Whatever the timers do and whoever holds the sender back: in no span does more leave than the rate times the
        /// span, what may be owed, and a train.
        #[test]
        fn an_even_sender_never_exceeds_its_rate_by_more_than_is_owed(
            bps in 100_000u64..2_000_000_000,
            steps in prop::collection::vec((0u64..20_000_000, any::<bool>()), 1..200),
        ) {
            let rate = Rate::from_bps(bps);
            let mut pacer = steady(rate);
            let (mut now, mut sent) = (Instant::ZERO, 0);
            for (pause, is_held) in steps {
                now += Duration::from_nanos(pause);
                let mut at_once = 0;
                while let Credit::Bytes(_) = pacer.credit(now, DATAGRAM, u64::MAX, 0) {
                    pacer.on_sent(now, u64::from(DATAGRAM));
                    at_once += u64::from(DATAGRAM);
                }
                let train = steady_quantum(rate, DATAGRAM) + 2 * u64::from(DATAGRAM);
                prop_assert!(at_once <= rate.bytes_in(LATENESS) + train);
                sent += at_once;
                if is_held {
                    pacer.on_held();
                }
                prop_assert!(sent <= rate.bytes_in(now.saturating_since(Instant::ZERO)) + train);
            }
        }

        #[test]
        fn what_it_promises_it_keeps(bps in 1u64..1 << 50, debt in 0u64..10_000_000, room in 1_200u64..1_000_000) {
            let mut pacer = paced(Rate::from_bps(bps));
            pacer.on_sent(Instant::ZERO, INITIAL + debt);
            if let Credit::NotBefore(next) = pacer.credit(Instant::ZERO, DATAGRAM, room, 0) {
                prop_assert!(next > Instant::ZERO);
                if next < Instant::FAR_FUTURE {
                    prop_assert!(matches!(pacer.credit(next, DATAGRAM, room, 0), Credit::Bytes(bytes) if bytes >= 1_200));
                }
            }
        }

        #[test]
        fn no_value_overflows(bps: u64, bytes: u64, nanos: u64) {
            let mut pacer = paced(Rate::from_bps(bps));
            pacer.on_sent(Instant::from_nanos(nanos), bytes);
            pacer.credit(Instant::from_nanos(nanos / 2), DATAGRAM, bytes, 0);
            pacer.credit(Instant::FAR_FUTURE, DATAGRAM, bytes, 0);
        }
    }
}
