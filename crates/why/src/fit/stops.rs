//! Reads interruptions off silences: outages, suspensions, and which losses belong to them.

use thalweg_units::Duration;

use crate::gather::{Came, Early, Facts, Lost, Silence};
use crate::world::{HEADERS, Span};

pub(super) fn millis(milliseconds: f64) -> Duration {
    Duration::from_secs_f64((milliseconds / 1000.0).clamp(0.0, 1e7))
}

/// Whether a packet was lost because it was larger than the path's MTU.
pub(super) fn in_drop(facts: &Facts, lost: &Lost) -> bool {
    facts.drop.is_some_and(|drop| {
        (drop.at..=drop.until).contains(&lost.sent) && lost.size > drop.size.saturating_add(HEADERS as u32)
    })
}

/// Whether a silence is that of a sender whose large packets are dropped.
fn is_of_drop(facts: &Facts, silence: &Silence) -> bool {
    facts.drop.is_some_and(|drop| silence.from >= drop.at && silence.from <= drop.until + silence.round_trip)
}

pub(super) fn in_silence(facts: &Facts, lost: &Lost, packet: f64) -> bool {
    if in_drop(facts, lost) {
        return true;
    }
    if facts.silences.early.iter().any(|early| is_long_early(facts, early, packet) && is_in(early, lost)) {
        return true;
    }
    facts
        .silences
        .list
        .iter()
        .filter(|silence| is_outage(silence))
        .any(|silence| (silence.from - silence.round_trip..=silence.to).contains(&lost.sent))
}

/// Whether a gap before the first measured round trip is longer than a round trip explains.
fn is_long_early(facts: &Facts, early: &Early, packet: f64) -> bool {
    let shortest = facts.flight.least.unwrap_or(0.0);
    let due = early.last.max(early.asked.first().copied().unwrap_or(early.last) + shortest);
    early.next - due > (shortest / 2.0).max(50.0) + 4.0 * packet
}

fn is_in(early: &Early, lost: &Lost) -> bool {
    early.asked.first().is_some_and(|first| (first - 1.0..early.next).contains(&lost.sent))
}

/// In an outage, what is sent is lost: what left while it lasted, or the newest of what was on its way.
fn is_outage(silence: &Silence) -> bool {
    let is_tail_lost = silence.is_tail_lost && silence.lost > silence.acked / 4;
    silence.lost >= 2 && (silence.last_lost.is_some() || is_tail_lost) && !has_survivors(silence)
}

/// What was sent long before anything came, and was not lost: nothing comes through an outage.
fn has_survivors(silence: &Silence) -> bool {
    silence.survivor.is_some_and(|sent| silence.to - sent > 2.0 * silence.round_trip)
}

/// In a suspension, what is sent comes later. A queue may have lost some of it before. Where the newest are lost, the
/// sender waited.
fn is_suspension(silence: &Silence) -> bool {
    let is_little = silence.first_acked.is_some() || silence.lost <= 1 + silence.acked / 10;
    !is_outage(silence) && (!silence.is_tail_lost || has_survivors(silence)) && is_little && silence.held >= 1
}

/// How late packets come that others have overtaken, milliseconds; 0 where few are.
fn usually_late(facts: &Facts) -> f64 {
    let mut late: Vec<f64> = facts.flight.losses.late.iter().map(|late| late.by).collect();
    late.sort_by(f64::total_cmp);
    let is_reordered = late.len() as f64 > 0.002 * facts.flight.packets as f64;
    late.get(late.len() * 19 / 20).copied().filter(|_| is_reordered).unwrap_or(0.0)
}

/// Where an interruption is taken to have begun, of the times at which it may have, from 0 to 1; and where else.
pub(super) const MIDDLE: f64 = 0.5;
pub(super) const EARLY: f64 = 0.1;
pub(super) const LATE: f64 = 0.9;

/// Interruptions, from the client's first packet on.
#[derive(Default)]
pub(super) struct Stops {
    pub(super) outages: Vec<Span>,
    pub(super) suspensions: Vec<Span>,
    /// What may be one or the other or neither.
    pub(super) unclear: Vec<Span>,
    /// What the drop of the MTU may explain.
    pub(super) in_drop: Vec<Span>,
}

/// Reads interruptions that began `at` a part of the times at which they may have. In milliseconds are `zero`, which is
/// the client's first packet, the time of a packet on the bottleneck, and `half` of the path's round trip.
pub(super) fn interruptions(facts: &Facts, (zero, packet, half): (f64, f64, f64), at: f64) -> Stops {
    let mut stops = Stops::default();
    // Beyond what packets that came late explain.
    let late = usually_late(facts);
    let is_long = |silence: &&Silence| silence.excess > (silence.round_trip / 3.0).max(30.0) + 4.0 * packet + late;
    let span = |from: f64, to: f64| -> Span {
        let from = (from - zero).max(0.0);
        (millis(from), millis((to - zero).max(from + 1.0)))
    };
    // What was due by then never came.
    let held = |silence: &Silence| {
        let due = (silence.to - silence.excess).max(silence.from);
        let (low, high, end) = bounds(&silence.came, (silence.from, due, silence.to), half);
        span(low + at * (high - low), end)
    };
    let shortest = facts.flight.least.unwrap_or(0.0);
    for early in facts.silences.early.iter().filter(|early| is_long_early(facts, early, packet)) {
        let (first, next) = (early.asked.first().copied().unwrap_or(early.last), early.next);
        let mut lost: Vec<f64> =
            facts.flight.losses.lost.values().filter(|lost| is_in(early, lost)).map(|lost| lost.sent).collect();
        lost.sort_by(f64::total_cmp);
        if let (Some(first_lost), Some(last_lost)) = (lost.first().copied(), lost.last().copied()) {
            // It began between the last that came through and the first that was lost, and before the answer to the
            // former was on its way: that never came.
            let through = early.asked.iter().copied().take_while(|sent| *sent < first_lost).last();
            let begin =
                through.map_or(first - 1.0, |through| through + at * (first_lost.min(through + half) - through));
            // It ended between the last that was lost and the next that was not, or what came at last.
            let next_sent = early.asked.iter().copied().find(|sent| *sent > last_lost).unwrap_or(next);
            let end = (last_lost + next_sent.min(next - half).max(last_lost)) / 2.0;
            stops.outages.push(span(begin, end.max(begin)));
        } else {
            // It began between the last arrival and the answer that was due.
            let due = early.last.max(first + shortest);
            let (low, high, end) = bounds(&early.came, (early.last, due, next), half);
            stops.suspensions.push(span(low + at * (high - low) - half.min(1.0), end));
        }
    }
    for silence in facts.silences.list.iter().filter(is_long) {
        if is_of_drop(facts, silence) && !is_suspension(silence) {
            stops.in_drop.push(held(silence));
            continue;
        }
        if is_outage(silence) {
            let last = silence.last_lost.unwrap_or(silence.from);
            let first = silence.first_acked.unwrap_or(silence.to - 2.0 * half).max(last);
            stops.outages.push(span(begin_of_outage(silence, (shortest, half), at), (last + first) / 2.0));
        } else if is_suspension(silence) {
            stops.suspensions.push(held(silence));
        } else {
            stops.unclear.push(held(silence));
        }
    }
    // What asked for more data was lost: it was sent again, and came after so long as if it had been held.
    let usual = facts.waits.usual_pause().unwrap_or(0.0);
    let is_long = |length: f64| length > LONG * usual + shortest.max(30.0);
    for pause in facts.waits.pauses.iter().filter(|pause| pause.is_cut && is_long(pause.length())) {
        let cut = span(pause.from + pause.round_trip, pause.to);
        // Where something was on its way as well, it is known already.
        let is_known = |known: &Span| known.0 < cut.1 && cut.0 < known.1;
        if ![&stops.outages, &stops.suspensions, &stops.unclear].into_iter().flatten().any(is_known) {
            stops.suspensions.push(cut);
        }
    }
    stops.suspensions.sort();
    stops
}

/// A pause in which packets of the peer were lost is an interruption if it is so much longer than others; a ratio.
const LONG: f64 = 2.0;

/// When an outage began, `at` a part of the times at which it may have; milliseconds, as are the `shortest` round trip
/// and `half` of the path's.
///
/// What came last was on its way back by then, and the acknowledgment that was due never was. The first packet that was
/// lost found the outage when it came out of the queue, and the last before it that came through did not.
fn begin_of_outage(silence: &Silence, (shortest, half): (f64, f64), at: f64) -> f64 {
    let waited = silence.first_lost.map_or(0.0, |(_, round_trip)| (round_trip - shortest).max(0.0));
    let due = (silence.to - silence.excess).max(silence.from) - half;
    let lost = silence.first_lost.map_or(due, |(sent, _)| sent + waited);
    let through = silence.last_held.map_or(f64::MIN, |(_, sent)| (sent + waited).min(lost));
    let low = (silence.from - half).max(through);
    let high = due.min(lost).max(low);
    (low + at * (high - low)).min(lost)
}

/// A packet that arrived later than half a round trip after it was sent, by this share of half a round trip, was held
/// on the forward path.
const HELD: f64 = 0.25;

/// Between which times a suspension began, and when it ended, by what came at its end; milliseconds, as is `half` of
/// the path's round trip. `from` is the last arrival before it, `due` when the next was, and `to` when that came.
///
/// Where acknowledgments were held on their way back, they come when it ends, and those of what was held on its way
/// there half a round trip later. Where the data were held, all come together, half a round trip after its end.
fn bounds(came: &[Came], (from, due, to): (f64, f64, f64), half: f64) -> (f64, f64, f64) {
    let (first, later) = came.split_at(came.partition_point(|came| came.at <= to + half / 2.0));
    let oldest = first.iter().map(|came| came.oldest).fold(f64::INFINITY, f64::min);
    let newest = first.iter().map(|came| came.newest).fold(f64::NEG_INFINITY, f64::max);
    let is_held = |came: &&Came| came.oldest > newest && came.at - came.oldest > (2.0 + HELD) * half;
    let there = later.iter().take_while(|came| came.at < to + 2.0 * half).find(is_held);
    if let Some(there) = there.filter(|_| newest.is_finite()) {
        let low = from.max(newest + half).min(due);
        return (low, due.min(there.oldest + half).max(low), to);
    }
    // No acknowledgment was on its way when this one left.
    if newest > oldest + half && newest + half > due {
        let high = due.min(oldest + half).max(from);
        return (from, high, (to - half).max(high));
    }
    (from, due, to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_begins_between_the_last_packet_that_came_through_and_the_first_that_was_lost() {
        let silence = Silence { from: 1000.0, to: 3000.0, excess: 1900.0, round_trip: 100.0, ..Silence::default() };
        let begin = |silence: &Silence| [EARLY, MIDDLE, LATE].map(|at| begin_of_outage(silence, (100.0, 50.0), at));
        assert_eq!(begin(&silence), [960.0, 1000.0, 1040.0], "only the acknowledgments are known");
        // One had to wait 20 ms in a queue.
        let known = Silence { first_lost: Some((985.0, 120.0)), last_held: Some((7, 975.0)), ..silence.clone() };
        assert_eq!(begin(&known), [996.0, 1000.0, 1004.0]);
        let early = Silence { first_lost: Some((900.0, 100.0)), ..silence.clone() };
        assert_eq!(begin(&early), [900.0; 3], "the first that was lost is in it");
        let late = Silence { first_lost: Some((1100.0, 100.0)), last_held: Some((7, 1080.0)), ..silence.clone() };
        assert_eq!(begin(&late), [1080.0; 3], "the last that came through is not, though an acknowledgment was due");
    }

    #[test]
    fn what_comes_at_the_end_of_a_suspension_tells_when_it_began() {
        let came = |at: f64, oldest: f64, newest: f64| Came { at, oldest, newest };
        let of = |list: &[Came]| bounds(list, (1000.0, 1100.0, 3000.0), 50.0);
        assert_eq!(of(&[]), (1000.0, 1100.0, 3000.0));
        // Acknowledgments of the first waited for the end; a probe waited on its way there.
        let back = [came(3000.0, 1000.0, 1010.0), came(3050.5, 1300.0, 1300.0)];
        assert_eq!(of(&back), (1060.0, 1100.0, 3000.0));
        let both = [came(3000.0, 1000.0, 1010.0), came(3050.5, 1025.0, 1300.0)];
        assert_eq!(of(&both), (1060.0, 1075.0, 3000.0), "what left later had not arrived by then");
        assert_eq!(of(&[came(3000.0, 1000.0, 1010.0), came(3050.5, 2950.5, 2960.0)]), (1000.0, 1100.0, 3000.0));
        // All came together: the data had waited on their way there.
        assert_eq!(of(&[came(3000.0, 1000.0, 1300.0)]), (1000.0, 1050.0, 2950.0));
    }

    #[test]
    fn what_was_sent_long_after_the_last_arrival_and_came_through_tells_a_suspension() {
        let silence = Silence {
            from: 1000.0,
            to: 3000.0,
            round_trip: 100.0,
            lost: 25,
            acked: 99,
            held: 90,
            ..Silence::default()
        };
        let lost = Silence { is_tail_lost: true, lost: 30, first_acked: Some(1003.0), ..silence.clone() };
        assert!(is_outage(&lost) && !is_suspension(&lost));
        let held = Silence { survivor: Some(1105.0), ..lost.clone() };
        assert!(!is_outage(&held) && is_suspension(&held));
        assert!(is_outage(&Silence { survivor: Some(2900.0), ..lost.clone() }), "it came after the outage");
    }
}
