//! Changes the rules of a path in use.

use thalweg_units::{Ecn, Instant, Rate};

use super::Path;
use crate::congestion::PathContext;
use crate::policies::{PacingPolicy, Policies, UndoPolicy};
use crate::rtt::Rtt;

impl Path {
    /// Goes on by other rules; the estimators are rebuilt only if they have seen nothing yet.
    pub(crate) fn set_policies(&mut self, now: Instant, policies: &Policies) {
        self.controller.on_policies(now, &policies.of_controller());
        if !self.rtt.has_sample {
            self.rtt = Rtt::of(policies, self.rtt.smoothed);
        }
        self.reordering_policy = policies.reordering;
        self.is_paced = policies.pacing == PacingPolicy::On;
        self.usage.set_policy(policies.growth_limit);
        self.restart = policies.restart;
        let mark = self.controller.ecn_codepoint();
        self.ecn.set_mark(if mark == Ecn::Ect1 { Ecn::Ect1 } else { Ecn::Ect0 });
        self.marks.set_policy(policies.mark, mark, &PathContext::new(now, self.datagram_size));
        self.episode.set_undo(policies.undo == UndoPolicy::Episode);
        self.after_switch(now);
    }

    /// Limits the rate at which packets leave; `None` leaves it to the controller.
    pub(crate) fn set_max_rate(&mut self, now: Instant, most: Option<Rate>) {
        self.max_rate = most;
        self.after_switch(now);
        self.pacer.start_over();
    }

    fn after_switch(&mut self, now: Instant) {
        self.ask(now);
        self.note_change(now);
    }
}
