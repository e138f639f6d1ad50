//! Changes the rules of a path in use.

use thalweg_units::{Instant, Rate};

use super::Path;
use crate::congestion::PathContext;
use crate::policies::Policies;
use crate::rtt::Rtt;

impl Path {
    /// Goes on by other rules; the estimators are rebuilt only if they have seen nothing yet.
    pub(crate) fn set_policies(&mut self, now: Instant, policies: &Policies) {
        self.controller.on_policies(now, &policies.of_controller());
        if !self.rtt.has_sample {
            self.rtt = Rtt::of(policies, self.rtt.smoothed);
        }
        self.reordering.policy = policies.reordering;
        self.limit.pacing = policies.pacing;
        self.usage.set_policy(policies.growth_limit);
        self.flight.restart = policies.restart;
        let context = PathContext::new(now, self.datagram_size);
        self.marking.set_policy(policies.mark, self.controller.ecn_codepoint(), &context);
        self.episode.set_undo(policies.undo);
        self.after_switch(now);
    }

    /// Limits the rate at which packets leave; `None` leaves it to the controller.
    pub(crate) fn set_max_rate(&mut self, now: Instant, most: Option<Rate>) {
        self.limit.set_max_rate(most);
        self.after_switch(now);
        self.limit.start_over();
    }

    fn after_switch(&mut self, now: Instant) {
        self.ask(now);
        self.note_change(now);
    }
}
