//! What a log without frames does not tell, although something shows: then there is no answer rather than a guess.

use crate::Cause;
use crate::gather::Facts;

/// In so much of the time something else than the window may hold the sender back before it matters; a share.
const MOST: f64 = 0.1;

/// A sender that did not fill its window while data were on their way waited for credit or for the application.
pub(super) fn limits(facts: &Facts) -> Result<(), &'static str> {
    let Some((first, last)) = facts.waits.span.filter(|_| !facts.has_frames()) else { return Ok(()) };
    if facts.unused() <= MOST * (last - first) {
        return Ok(());
    }
    Err(
        "it has no frames: it does not tell a receive window from an application that waits, and the sender did not fill \
         its congestion window; log both ends, or limits in the application",
    )
}

/// A packet that was declared lost may have come late: only acknowledgments say so.
pub(super) fn losses(facts: &Facts, primary: Option<Cause>) -> Result<(), &'static str> {
    let is_of_loss = matches!(primary, Some(Cause::ChanceLoss | Cause::Reordering));
    if !is_of_loss || facts.has_frames() {
        return Ok(());
    }
    Err(
        "it has no frames: it does not tell packets that were lost from packets that came late, and one of them cost most; \
         log the receiver",
    )
}
