//! The rules of senders that do not log them: those that their stacks ship.

use thalweg_recovery::{Policies, ReorderingPolicy};

use crate::gather::{Facts, Stack};

/// What RFC 9002 and RFC 9438 say, for a stack of which nothing is known.
const OF_RFC: &str = "probe=rfc, ack-allowance=always, ack-rate=off, mark=reduce";

/// The recovery policies of the stack that wrote the log, as near as ours come to them.
pub(super) fn assumed(facts: &Facts) -> String {
    let controller = if facts.window.is_halved() { "new-reno" } else { "cubic" };
    let mut late: Vec<f64> = facts.flight.losses.late.iter().map(|late| late.by).collect();
    late.sort_by(f64::total_cmp);
    let usual = late.get(late.len() / 2).copied().zip(facts.round_trips().quantile(0.5));
    let is_late = usual.is_some_and(|(late, round_trip)| is_too_late(late, round_trip));
    of(facts.stack(), controller, facts.window.is_restored(), is_late)
}

/// The most that quiche waits for packets that come late, of the round trip.
const TOLERATED: f64 = 0.25;

/// Whether packets that are late by so much are declared lost however often that was seen to be wrong.
fn is_too_late(late: f64, round_trip: f64) -> bool {
    late > TOLERATED * round_trip
}

/// By whether its window shows that reductions are undone, and packets are later than is tolerated.
fn of(stack: Stack, controller: &str, is_restored: bool, is_late: bool) -> String {
    let reordering = if is_late { "time-only" } else { "adaptive" };
    let undo = if is_restored { "episode" } else { "off" };
    let quiche = format!("start=hystart++, reordering={reordering}, undo={undo}, pacing=off");
    let rest = match stack {
        // Both pace by the smoothed round trip, whatever it is after a silence.
        Stack::Quinn => "start=standard, reordering=fixed, undo=off, pacing-rtt=smoothed",
        // CUBIC undoes a reduction when its packets come after all.
        Stack::Noq if controller == "cubic" => "start=standard, reordering=fixed, undo=episode, pacing-rtt=smoothed",
        Stack::Noq => "start=standard, reordering=fixed, undo=off, pacing-rtt=smoothed",
        // Without pacing; its packet threshold grows with the reordering that it sees. Its CUBIC undoes reductions by
        // few losses, but never goes back to slow start, which may have been left for a packet that came late.
        Stack::Quiche => &quiche,
        Stack::Ours | Stack::Other => "start=standard, reordering=fixed, undo=off",
    };
    format!("controller={controller}, {rest}, {OF_RFC}")
}

/// Rules that a sender may have instead of those that were assumed.
pub(crate) fn variants(policies: &Policies) -> Vec<Policies> {
    const CHOICES: [&str; 6] =
        ["undo=off", "undo=episode", "start=standard", "start=hystart++", "pacing=off", "pacing=on"];
    // Other thresholds than those of RFC 9002 are only near to what a stack has.
    const REORDERING: [&str; 3] = ["reordering=fixed", "reordering=time-only", "reordering=adaptive"];
    let is_near = policies.reordering != ReorderingPolicy::Fixed;
    let reordering = REORDERING.into_iter().filter(|_| is_near);
    let others = CHOICES.into_iter().chain(reordering).filter_map(|choice| policies.clone().with(choice).ok());
    others.filter(|other| other != policies).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reduction_that_is_not_seen_to_be_undone_is_not() {
        let of = |is_restored| of(Stack::Quiche, "cubic", is_restored, false);
        assert!(of(true).contains("undo=episode") && of(false).contains("undo=off"));
    }

    #[test]
    fn packets_that_come_later_than_is_ever_tolerated_are_lost_each_time() {
        assert!(is_too_late(30.0, 100.0) && !is_too_late(20.0, 100.0));
        let of = |is_late| of(Stack::Quiche, "cubic", false, is_late);
        assert!(of(false).contains("reordering=adaptive") && of(true).contains("reordering=time-only"));
    }

    #[test]
    fn the_variants_are_other_rules() {
        for stack in [Stack::Quinn, Stack::Noq, Stack::Quiche, Stack::Other] {
            for controller in ["cubic", "new-reno"] {
                let policies: Policies = of(stack, controller, true, false).parse().unwrap();
                let variants = variants(&policies);
                assert_eq!(variants.len(), if stack == Stack::Quiche { 5 } else { 3 }, "{stack:?}");
                assert!(!variants.contains(&policies));
            }
        }
    }
}
