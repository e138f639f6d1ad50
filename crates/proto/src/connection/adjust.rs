//! Settings that an application can change on a connection in use.

use thalweg_recovery::{Policies, SwitchError};
use thalweg_units::{Instant, Rate};

use super::Connection;

impl Connection {
    /// The recovery policies in force.
    pub fn policies(&self) -> Policies {
        self.recovery.policies().clone()
    }

    /// Goes on by other recovery policies, on all paths: all or none of them. Window, threshold and what is in flight
    /// are kept; [`Recovery::set_policies`] lists when each one takes effect. Follow with [`Self::poll_transmit`].
    ///
    /// # Errors
    /// When a policy that differs from the one in force cannot change any more: an estimator that has samples, or a
    /// controller of another family.
    ///
    /// [`Recovery::set_policies`]: thalweg_recovery::Recovery::set_policies
    pub fn set_policies(&mut self, now: Instant, policies: Policies) -> Result<(), SwitchError> {
        self.recovery.set_policies(now, policies)?;
        self.repeat.set_policies(self.recovery.policies());
        self.reports.drain_trace(&mut self.recovery);
        Ok(())
    }

    /// The rate limit in force.
    pub fn max_rate(&self) -> Option<Rate> {
        self.recovery.max_rate()
    }

    /// Limits the rate at which packets leave, on all paths together, whatever the windows allow; `None` lifts the
    /// limit. Over any span no more leaves than the rate times the span and one burst: an initial window, or two
    /// milliseconds' worth of the rate if that is more, up to 128 kB. Acknowledgments, probes, PINGs and the small
    /// frames of flow control and of the connection do not wait for the limit: at a rate of zero, once an initial
    /// window has left, nothing else does. Follow with [`Self::poll_transmit`].
    pub fn set_max_rate(&mut self, now: Instant, most: Option<Rate>) {
        self.recovery.set_max_rate(now, most);
        self.reports.drain_trace(&mut self.recovery);
    }
}
