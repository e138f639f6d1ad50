//! One candidate for the round trip: whether the load doubles with it.

use super::forecast::Rules;
use super::history::History;
use super::log::{LOG_BITS, LOG_ONE, off_doubling};
use crate::queue::fixed::{ONE, exp_minus, times};

/// Fractional bits of a mean error beyond those of a logarithm: with fewer, slow means get stuck.
const ERROR_BITS: u32 = 16;

/// How long a candidate has to track below saturation to count in the veto, in thousandths of its round trip. \[R\]
/// 0.1.
const TRACKS: u64 = 100;

/// The newcomer test. \[R\] Load of a round trip before, in thousandths of it, from which on it is made: 0.7. Below,
/// what is constant is small enough for the pure test.
const BASE_LOAD: u64 = 700;
/// \[R\] Least growth, in thousandths of the round trip: 0.06. Less is noise of acknowledgment clocking.
const LEAST_GROWTH: u64 = 60;
/// \[R\] How far the newest growth may be from twice the one before, in log2: 0.5; and that one from its own: 1.
const NEWEST_OFF: i32 = LOG_ONE / 2;
const OLDER_OFF: i32 = LOG_ONE;
/// More than any of these.
const OFF_BY_FAR: i32 = 4 * LOG_ONE;
/// \[R\] How long it has to hold, in thousandths of the round trip: 0.25. A miss takes back two hits.
const NEWCOMER_PERSISTS: u64 = 250;

/// A predictor for one round trip.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    /// The round trip in nanoseconds, and in slots.
    pub(super) rtt: u64,
    slots: u64,
    /// Weight of a slot in the mean error.
    weight: u64,
    /// Mean distance of log2 of the growth from a doubling, with [`LOG_BITS`] and [`ERROR_BITS`].
    error: u64,
    /// Slots in which the load doubled below saturation.
    good: u64,
    /// The last slot in which it tracked; may lie ahead.
    tracked: Option<u64>,
    /// Slots in which it would have fired.
    eligible: u64,
    /// Slots in which a newcomer showed, less twice those in which it did not.
    newcomer: u64,
}

/// The load of the latest round trips, newest first: each in nanoseconds, and the slots between them.
#[derive(Clone, Debug)]
pub(super) struct Loads<'h> {
    history: &'h History,
    round_trip: u64,
    /// The slot where the next one ends, and what had arrived by then.
    at: u64,
    arrived: u64,
}

impl<'h> Loads<'h> {
    pub(super) fn new(history: &'h History, round_trip: u64) -> Option<Loads<'h>> {
        let at = history.newest();
        history.arrived(at).map(|arrived| Loads { history, round_trip, at, arrived })
    }
}

impl Iterator for Loads<'_> {
    type Item = u64;

    /// None once the history does not reach back so far.
    fn next(&mut self) -> Option<u64> {
        let before = self.history.one_round_trip_before(self.at, self.round_trip)?;
        let arrived = self.history.arrived(before)?;
        let load = self.arrived.saturating_sub(arrived);
        (self.at, self.arrived) = (before, arrived);
        Some(load)
    }
}

impl Candidate {
    pub(super) fn new(rtt: u64, rules: &Rules) -> Candidate {
        let slots = ((rtt + rules.slot / 2) / rules.slot).max(1);
        let weight = ONE - exp_minus(rules.slot.saturating_mul(1_000), rtt.saturating_mul(u64::from(rules.memory)));
        let mut candidate =
            Candidate { rtt, slots, weight, error: 0, good: 0, tracked: None, eligible: 0, newcomer: 0 };
        candidate.forget();
        candidate
    }

    /// As at the beginning.
    pub(super) fn clear(&mut self) {
        self.forget();
        (self.good, self.tracked, self.eligible, self.newcomer) = (0, None, 0, 0);
    }

    /// The mean error has to be earned anew.
    pub(super) fn forget(&mut self) {
        self.error = (LOG_ONE as u64) << ERROR_BITS;
    }

    /// The mean error as a number.
    pub(super) fn error(&self) -> f64 {
        self.error as f64 / (1_u64 << (LOG_BITS + ERROR_BITS)) as f64
    }

    pub(super) fn mean_error(&self) -> u64 {
        self.error
    }

    pub(super) fn slots(&self) -> u64 {
        self.slots
    }

    /// Counts as tracking until so many of its round trips from `slot` on.
    pub(super) fn track_until(&mut self, slot: u64, round_trips: u64) {
        self.tracked = Some(slot.saturating_add(self.slots.saturating_mul(round_trips)));
    }

    /// Whether it has tracked within the last round trip.
    pub(super) fn tracks(&self, slot: u64) -> bool {
        self.tracked.is_some_and(|tracked| slot.saturating_sub(tracked) <= self.slots)
    }

    fn lasts(&self, slots: u64, thousandths: u64, rules: &Rules) -> bool {
        slots.saturating_mul(rules.slot).saturating_mul(1_000) >= self.rtt.saturating_mul(thousandths)
    }

    fn is_load(&self, load: u64, thousandths: u64) -> bool {
        load.saturating_mul(1_000) >= self.rtt.saturating_mul(thousandths)
    }

    /// A slot ends. Returns whether it would fire.
    pub(super) fn end_slot(&mut self, history: &History, rules: &Rules) -> bool {
        let slot = history.newest();
        if slot <= self.slots {
            return false;
        }
        let Some(mut loads) = Loads::new(history, self.slots) else { return false };
        let Some((newest, before)) = loads.next().zip(loads.next()) else { return false };
        if newest == 0 && before == 0 {
            return false;
        }
        let off = off_doubling(newest, before, rules.surprise_log());
        self.learn(off);
        let newcomer = rules.newcomer && self.sees_newcomer(newest, before, loads.clone(), rules);
        let pure = self.doubles(slot, newest, before, off, loads, rules);
        newcomer || pure
    }

    fn learn(&mut self, off: i32) {
        let off = u64::from(off.unsigned_abs()) << ERROR_BITS;
        let step = times(off.abs_diff(self.error), self.weight);
        self.error = if off > self.error { self.error + step } else { self.error - step };
    }

    /// Two doublings in a row, that lead past saturation.
    fn doubles(&mut self, slot: u64, newest: u64, before: u64, off: i32, mut loads: Loads<'_>, rules: &Rules) -> bool {
        let tolerance = rules.tolerance_log();
        if off > tolerance {
            return false;
        }
        let Some(oldest) = loads.next().filter(|load| *load > 0) else { return false };
        if off_doubling(before, oldest, OFF_BY_FAR) > tolerance {
            return false;
        }
        if !self.is_load(newest.saturating_mul(2), u64::from(rules.theta)) {
            self.good += 1;
            if self.lasts(self.good, TRACKS, rules) {
                self.tracked = Some(slot);
            }
            self.eligible = 0;
            return false;
        }
        if self.error > (tolerance as u64) << ERROR_BITS {
            self.eligible = 0;
            return false;
        }
        self.eligible += 1;
        self.lasts(self.eligible, u64::from(rules.persist), rules)
    }

    /// A load that doubles on top of one that is constant.
    fn sees_newcomer(&mut self, newest: u64, before: u64, mut loads: Loads<'_>, rules: &Rules) -> bool {
        let is_hit = newest > before && self.is_load(before, BASE_LOAD) && {
            let older = loads.next().zip(loads.next());
            let is_within = loads.at > 0;
            older.is_some_and(|(third, fourth)| {
                let growth = newest - before;
                let (growth_before, oldest_growth) = (before.saturating_sub(third), third.saturating_sub(fourth));
                is_within
                    && growth_before > 0
                    && oldest_growth > 0
                    && self.is_load(growth, LEAST_GROWTH)
                    && off_doubling(growth, growth_before, OFF_BY_FAR) <= NEWEST_OFF
                    && off_doubling(growth_before, oldest_growth, OFF_BY_FAR) <= OLDER_OFF
                    && self.is_load(newest.saturating_add(growth.saturating_mul(2)), u64::from(rules.theta))
            })
        };
        self.newcomer = if is_hit { self.newcomer + 1 } else { self.newcomer.saturating_sub(2) };
        is_hit && self.lasts(self.newcomer, NEWCOMER_PERSISTS, rules)
    }
}
