//! What a log without frames does not tell, although something shows: then there is no answer rather than a guess.

use thalweg_units::Rate;

use crate::Cause;
use crate::fit::Reading;
use crate::gather::Facts;
use crate::world::{HEADERS, Host};

/// In so much of the time something else than the window may hold the sender back before it matters; a share.
const MOST: f64 = 0.1;

/// A sender that did not fill its window while data were on their way waited for credit or for the application.
pub(super) fn limits(facts: &Facts, reading: Option<&Reading>) -> Result<(), &'static str> {
    let Some((first, last)) = facts.waits.span.filter(|_| !facts.has_frames()) else { return Ok(()) };
    if facts.unused() <= MOST * (last - first) {
        return Ok(());
    }
    // A host that is late holds it back as well.
    if reading.is_some_and(|reading| reading.world.sender.host != Host::default()) {
        return Ok(());
    }
    // What shows how fast the path is: where its rate never showed, what was sent says nothing of it.
    let shown = reading.filter(|reading| reading.unknown_rate.is_none_or(|(low, high)| high < low.mul_ratio(3, 2)));
    let bytes = facts.flight.delivered() + HEADERS * facts.flight.packets;
    let end = facts.flight.last_payload.unwrap_or(last);
    if shown.is_some_and(|reading| is_full(bytes, end - first, reading.world.path.rate)) {
        return Ok(());
    }
    Err(
        "it has no frames: it does not tell a receive window from an application that waits, and the sender did not fill \
         its congestion window; log limits in the application",
    )
}

/// Whether so many bytes in so many milliseconds leave less of the path's rate unused than matters: then nothing that
/// held the sender back can have cost more.
fn is_full(bytes: u64, time: f64, rate: Rate) -> bool {
    bytes as f64 >= (1.0 - MOST) * rate.bps() as f64 / 8000.0 * time
}

/// A packet that was declared lost may have come late: only acknowledgments say so.
pub(super) fn losses(facts: &Facts, primary: Option<Cause>) -> Result<(), &'static str> {
    let is_of_loss = matches!(primary, Some(Cause::ChanceLoss | Cause::Reordering));
    if !is_of_loss || facts.has_frames() {
        return Ok(());
    }
    let Some(came) = facts.other_end.as_ref().and_then(|end| end.came) else {
        return Err(
            "it has no frames: it does not tell packets that were lost from packets that came late, and that cost \
             most; give the receiver's log as well, if it has frames",
        );
    };
    if were_lost(facts.flight.losses.lost.len() as u64, facts.course.packets[0], came) {
        return Ok(());
    }
    Err(
        "it has no frames, and by the receiver's log most packets that it declared lost came late: reordering cost most, \
         and it does not tell how much",
    )
}

/// Whether most of those that were declared lost never came, of so many that were sent.
fn were_lost(declared: u64, sent: u64, came: u64) -> bool {
    2 * sent.saturating_sub(came) >= declared
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_receiver_counts_tells_what_was_lost_from_what_came_late() {
        assert!(were_lost(20, 1000, 981) && !were_lost(20, 1000, 998));
        assert!(!were_lost(20, 1000, 1003), "some came twice");
    }

    #[test]
    fn a_path_that_was_full_was_held_back_by_nothing_else() {
        let rate = Rate::from_bps(8_000_000);
        assert!(is_full(950_000, 1000.0, rate) && !is_full(850_000, 1000.0, rate));
    }
}
