//! Changes policies and the rate limit of a connection in use.

use thalweg_units::{Instant, Rate};

use crate::Recovery;
use crate::congestion::Congestion;
use crate::policies::Policies;

/// Why the policies of a connection were left as they are.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SwitchError {
    /// The estimator that the field names rests on every sample so far.
    #[error(
        "policy {field} cannot change from {from} to {to} once the round-trip time has been measured; choose it before connecting, or keep {field}={from}"
    )]
    Measured {
        /// The field.
        field: &'static str,
        /// The value in force.
        from: String,
        /// The value asked for.
        to: String,
    },
    /// A window, a model and a controller of the program's own do not take over from each other.
    #[error(
        "the controller cannot change from {from} to {to} while the connection is in use: only one window can take over from another, and no controller of the program's own from a second one; choose it before connecting, or keep {from}"
    )]
    Family {
        /// The controller in force.
        from: String,
        /// The controller asked for.
        to: String,
    },
}

impl<T: Clone> Recovery<T> {
    /// The policies in force.
    pub fn policies(&self) -> &Policies {
        &self.config.policies
    }

    /// Goes on by other policies, on every path and on those to come: all or none of them. Nothing in flight is
    /// touched, and nothing is declared lost before the next acknowledgment or timeout.
    ///
    /// | policy | takes effect |
    /// |---|---|
    /// | `controller` | at once, from one window to another; the window and the threshold stay, growth begins anew where the window stands |
    /// | `start` | at once while slow start lasts; afterwards there is nothing left to decide |
    /// | `reduction` | with the next congestion; a reduction under way is completed by the rule that began it |
    /// | `reordering` | with the next acknowledgment or loss timeout; what was learned about reordering stays |
    /// | `probe`, `ack-allowance` | at once: the timer is set anew |
    /// | `ack-rate` | with the next acknowledgment; with `off`, what the peer was asked for last stays in force |
    /// | `mark` | with the next congestion mark |
    /// | `undo` | at once; with `off`, reductions that could still have been taken back stand |
    /// | `pacing` | at once |
    /// | `growth-limit` | with the next acknowledgment |
    /// | `restart` | with the next packet after nothing was in flight |
    /// | `handshake` | at once, until the handshake is confirmed |
    /// | `tail` | with the next tail |
    /// | `rtt`, `pacing-rtt`, `exit-rtt` | only until the first round-trip sample of the connection |
    /// | `resume` | on paths that are yet to begin |
    ///
    /// A model, or a controller of the program's own, cannot be exchanged.
    ///
    /// # Errors
    /// When a field that differs from the one in force cannot change any more.
    pub fn set_policies(&mut self, now: Instant, policies: Policies) -> Result<(), SwitchError> {
        self.see(now);
        self.check_switch(&policies)?;
        for path in self.paths.iter_mut() {
            path.set_policies(now, &policies);
        }
        self.config.policies = policies;
        self.set_timer(now);
        Ok(())
    }

    /// Limits the rate at which packets leave, on all paths together, whatever the windows allow, pacing policy or not;
    /// `None` lifts the limit.
    ///
    /// Over any span no more leaves than the rate times the span and one burst: an initial window, or two milliseconds'
    /// worth of the rate if that is more, up to 128 kB (a timer may be late by a millisecond). A limit that is lowered
    /// holds from then on: what the old one would have let out at once does not leave. At a rate of zero
    /// [`budget`](Self::budget) allows no more than an initial window, once; acknowledgments and probes do not ask for
    /// it. While the limit binds, the window does not grow (RFC 9002 section 7.8).
    pub fn set_max_rate(&mut self, now: Instant, most: Option<Rate>) {
        self.see(now);
        self.config.max_rate = most;
        for path in self.paths.iter_mut() {
            path.set_max_rate(now, most);
        }
        self.total.set(now, &self.config, self.paths.iter());
    }

    /// The limit set by [`set_max_rate`](Self::set_max_rate) or the configuration.
    pub fn max_rate(&self) -> Option<Rate> {
        self.config.max_rate
    }

    fn check_switch(&self, new: &Policies) -> Result<(), SwitchError> {
        let old = &self.config.policies;
        if self.paths.iter().any(|path| path.rtt().has_sample) {
            let measured = [
                ("rtt", old.rtt.to_string(), new.rtt.to_string()),
                ("pacing-rtt", old.pacing_rtt.to_string(), new.pacing_rtt.to_string()),
                ("exit-rtt", old.exit_rtt.to_string(), new.exit_rtt.to_string()),
            ];
            if let Some((field, from, to)) = measured.into_iter().find(|(_, from, to)| from != to) {
                return Err(SwitchError::Measured { field, from, to });
            }
        }
        match (&old.congestion, &new.congestion) {
            (Congestion::Window { .. }, Congestion::Window { .. }) => {}
            (from, to) if from == to => {}
            (from, to) => return Err(SwitchError::Family { from: from.to_string(), to: to.to_string() }),
        }
        Ok(())
    }
}
