//! Exchanges the parts of a window in use. Window, threshold and everything in flight stay as they are.

use thalweg_units::Instant;

use super::{Window, build_growth, build_start};
use crate::config::Policies;
use crate::reduction;

impl Window {
    /// Goes on with the parts that `policies` names; those that stay the same keep what they know.
    ///
    /// A new growth begins where the window stands, as after a slow start without a loss. A new start begins afresh,
    /// unless slow start is over. A new reduction takes over with the next congestion: one that is under way is
    /// completed by the rule that began it.
    pub(super) fn switch(&mut self, now: Instant, policies: &Policies) {
        let old = core::mem::replace(&mut self.policies, *policies);
        if policies.controller != old.controller {
            self.growth = build_growth(policies);
            self.growth.on_application_limited(now, self.application_limited);
        }
        // How much one ACK may open the window by depends on pacing.
        if policies.start != old.start || policies.pacing != old.pacing {
            self.start = build_start(policies);
            if self.start_exit.is_some() {
                self.start.on_exit();
            }
        }
        if policies.reduction != old.reduction {
            self.next_reduction = Some(reduction::build(policies.reduction, self.profile));
        }
        // A reduction that is taken back must not bring the old parts back.
        for snapshot in &mut self.snapshots {
            if policies.controller != old.controller {
                snapshot.growth = self.growth.snapshot();
            }
            if policies.start != old.start || policies.pacing != old.pacing {
                snapshot.start = build_start(policies);
                if snapshot.start_exit.is_some() {
                    snapshot.start.on_exit();
                }
            }
        }
    }
}
