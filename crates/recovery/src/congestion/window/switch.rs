//! Exchanges the parts of a window in use. Window, threshold and everything in flight stay as they are.

use thalweg_units::Instant;

use super::{Shape, Start, Window};
use crate::congestion::{ControllerPolicies, WindowParts};

impl Window {
    /// Goes on with the parts that `policies` names; those that stay the same keep what they know.
    ///
    /// A new growth begins where the window stands, as after a slow start without a loss. A new start begins afresh,
    /// unless slow start is over. A new reduction takes over with the next congestion: one that is under way is
    /// completed by the rule that began it.
    pub(super) fn switch(&mut self, now: Instant, policies: &ControllerPolicies) {
        let Some(parts) = policies.window else {
            return;
        };
        self.context.ecn_codepoint = policies.ecn_codepoint;
        let searches = self.is_scalable();
        self.searching &= searches;
        let old = core::mem::replace(&mut self.parts, parts);
        let WindowParts { growth, start, reduction } = parts;
        // The parts begin now, and what was saved of the path was for its beginning.
        (self.context.now, self.context.saved) = (now, None);
        let was_paced = core::mem::replace(&mut self.context.is_paced, policies.is_paced);
        if growth != old.growth {
            self.growth = growth.build(&self.context);
            self.growth.on_application_limited(now, self.application_limited);
        }
        // How much one ACK may open the window by depends on pacing.
        let restarts = start != old.start || was_paced != self.context.is_paced;
        if restarts {
            self.start = self.another_start(self.start_exit.is_some());
            self.shape = Shape::default();
        }
        if reduction != old.reduction {
            self.next_reduction = Some(reduction.build(&self.context));
        }
        if restarts {
            self.accidents = 0;
        }
        // A reduction that is taken back must not bring the old parts back.
        let mut snapshots = core::mem::take(&mut self.snapshots);
        let mut interruption = self.interruption.take();
        let interrupted = interruption.iter_mut().map(|interruption| &mut interruption.before);
        for snapshot in snapshots.iter_mut().chain(interrupted) {
            snapshot.searching &= searches;
            if growth != old.growth {
                snapshot.growth = self.growth.snapshot();
            }
            if restarts {
                snapshot.start = self.another_start(snapshot.start_exit.is_some());
                snapshot.shape = Shape::default();
            }
        }
        self.snapshots = snapshots;
        self.interruption = interruption.filter(|interruption| interruption.before.start.outlives_accidents());
    }

    /// A start as it is at the beginning, or after its end.
    fn another_start(&self, is_over: bool) -> Box<dyn Start> {
        let mut start = self.parts.start.build(&self.context);
        if is_over {
            start.on_exit();
        }
        start
    }
}
