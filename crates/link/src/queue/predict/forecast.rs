//! The forecast of load: the choice of a candidate, and the moment at which it acts.

use super::candidate::{Candidate, Loads};
use super::history::History;
use super::log::{LOG_BITS, geometric};

/// How many round trips of the longest candidate the history reaches back: four for the newcomer test and one for
/// rounding, each as long again for a queue.
const REACH: u64 = 10;

/// A candidate that tracks rules out those whose round trip is less than two thirds of its own. \[R\] 1.5: the
/// neighbors of the right candidate may fire for it, those that fit into a burst may not.
const VETO: (u64, u64) = (3, 2);

/// For how many of its round trips one that has fired counts as tracking. \[R\] 4, as long as the marks and the rest:
/// what the transient leaves behind is no slow start of a shorter round trip.
const TRACKS_AFTER: u64 = 4;

/// The parameters, in nanoseconds and thousandths: see [`Predict`](super::Predict).
#[derive(Copy, Clone, Debug)]
pub(super) struct Rules {
    pub(super) slot: u64,
    pub(super) min_rtt: u64,
    pub(super) max_rtt: u64,
    pub(super) per_octave: u32,
    pub(super) theta: u32,
    pub(super) tolerance: u32,
    pub(super) memory: u32,
    pub(super) persist: u32,
    pub(super) mark_for: u32,
    pub(super) rest_for: u32,
    pub(super) spare: u64,
    pub(super) newcomer: bool,
    pub(super) surprise: u32,
}

impl Rules {
    /// The tolerance as a logarithm.
    pub(super) fn tolerance_log(&self) -> i32 {
        ((u64::from(self.tolerance) << LOG_BITS) / 1_000) as i32
    }

    /// The surprise as a logarithm.
    pub(super) fn surprise_log(&self) -> i32 {
        ((u64::from(self.surprise) << LOG_BITS) / 1_000) as i32
    }
}

/// The forecast of a slow start that flows are to be signaled.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Warning {
    /// For how many nanoseconds from now on to mark.
    pub(super) mark_for: u64,
    /// Flows that have been signaled in this slot or later need not be signaled again.
    pub(super) told_since: u64,
}

/// What the candidate with the smallest error sees.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(super) struct Best {
    /// Its round trip in nanoseconds.
    pub(super) rtt: u64,
    /// The load in nanoseconds.
    pub(super) load: u64,
    /// Its mean error in doublings.
    pub(super) error: f64,
}

/// The history, and all candidates.
#[derive(Debug)]
pub(super) struct Forecast {
    rules: Rules,
    history: History,
    /// In ascending order of the round trip.
    candidates: Vec<Candidate>,
    /// Those that would fire at the end of this slot: mean error, round trip, index. Keeps its memory.
    claims: Vec<(u64, u64, usize)>,
    /// Nothing is forecast before this slot.
    rests_until: u64,
    /// The candidate that fired last.
    #[cfg(test)]
    pub(super) fired: Option<u64>,
}

impl Forecast {
    pub(super) fn new(rules: Rules) -> Forecast {
        let slots = REACH * rules.max_rtt / rules.slot.max(1);
        let candidates: Vec<Candidate> = (0..)
            .map(|step| geometric(rules.min_rtt, step, rules.per_octave))
            .take_while(|rtt| *rtt <= rules.max_rtt)
            .map(|rtt| Candidate::new(rtt, &rules))
            .collect();
        Forecast {
            rules,
            history: History::new(rules.slot, slots as usize),
            claims: Vec::with_capacity(candidates.len()),
            candidates,
            rests_until: 0,
            #[cfg(test)]
            fired: None,
        }
    }

    /// As at the beginning.
    pub(super) fn clear(&mut self) {
        self.history.clear();
        self.candidates.iter_mut().for_each(Candidate::clear);
        self.rests_until = 0;
    }

    /// Bytes that it takes.
    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        self.history.size() + self.candidates.len() * size_of::<Candidate>() + size_of::<Forecast>()
    }

    #[cfg(test)]
    pub(super) fn history(&self) -> &History {
        &self.history
    }

    #[cfg(test)]
    pub(super) fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    /// The number of the newest slot.
    pub(super) fn slot(&self) -> u64 {
        self.history.newest()
    }

    /// A slot ends: `arrived` work has arrived in all, and `queue` of it has not left. If slow start is about to exceed
    /// the link: what to do.
    pub(super) fn end_slot(&mut self, arrived: u64, queue: u64) -> Option<Warning> {
        self.history.end_slot(arrived, queue);
        let slot = self.history.newest();
        if slot < self.rests_until || self.is_silent(arrived, queue) {
            return None;
        }
        let (rules, history) = (self.rules, &self.history);
        self.claims.clear();
        // The longest that tracks has the veto; the candidates ascend.
        let mut tracking = 0;
        for (index, candidate) in self.candidates.iter_mut().enumerate() {
            if candidate.end_slot(history, &rules) {
                self.claims.push((candidate.mean_error(), candidate.rtt, index));
            }
            if candidate.tracks(slot) {
                tracking = candidate.rtt;
            }
        }
        let is_vetoed = |rtt: u64| tracking.saturating_mul(VETO.1) >= rtt.saturating_mul(VETO.0);
        let (.., index) = *self.claims.iter().filter(|(_, rtt, _)| !is_vetoed(*rtt)).min()?;
        self.fire(index, slot, queue)
    }

    /// Nothing waits and nothing has arrived for two round trips of the longest candidate: there is nothing to see.
    fn is_silent(&self, arrived: u64, queue: u64) -> bool {
        let longest = self.candidates.last().map_or(0, Candidate::slots);
        let past = self.history.newest().checked_sub(2 * longest + 1);
        queue == 0 && past.and_then(|slot| self.history.arrived(slot)) == Some(arrived)
    }

    fn fire(&mut self, index: usize, slot: u64, queue: u64) -> Option<Warning> {
        self.candidates.iter_mut().for_each(Candidate::forget);
        let candidate = self.candidates.get_mut(index)?;
        candidate.track_until(slot, TRACKS_AFTER);
        #[cfg(test)]
        {
            self.fired = Some(candidate.rtt);
        }
        let stretched = candidate.rtt.saturating_add(queue);
        let span = |thousandths: u32| stretched.saturating_mul(u64::from(thousandths)) / 1_000;
        let (marks, rests) = (span(self.rules.mark_for), span(self.rules.rest_for));
        self.rests_until = slot.saturating_add(marks.saturating_add(rests).div_ceil(self.rules.slot.max(1)));
        let spares = if queue > self.rules.max_rtt { 0 } else { self.rules.spare };
        Some(Warning { mark_for: marks, told_since: slot.saturating_sub(spares / self.rules.slot.max(1)) })
    }

    /// The candidate with the smallest error, and what it sees.
    pub(super) fn best(&self) -> Option<Best> {
        let best = self.candidates.iter().min_by_key(|candidate| candidate.mean_error())?;
        let load = Loads::new(&self.history, best.slots())?.next()?;
        Some(Best { rtt: best.rtt, load, error: best.error() })
    }
}
