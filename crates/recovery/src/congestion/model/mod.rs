//! Controllers that work from a model of the path rather than from a window alone.
//!
//! A model owns its start, its window, its rate and its response to congestion. It implements
//! [`Controller`](super::Controller) directly and takes what it needs of every [`AckEvent`](super::AckEvent):
//! delivery-rate samples, rounds, losses packet by packet, marks, receive times. A reduction that the path calls for
//! ([`AckEvent::congestion`](super::AckEvent::congestion)) is a proposal to it.

mod bbr;
mod c4;
#[cfg(test)]
mod rate_pacer;
mod stats;

use super::Controller;
use crate::congestion::table::algorithms;
use bbr::{Bbr, Settings};
use c4::C4;
#[cfg(test)]
use rate_pacer::RatePacer;
pub use stats::ModelStats;

algorithms! {
    #[doc = "Which model of the path decides on window, rate and response."]
    ModelPolicy: Controller, "controller" {
        Bbr "bbr",
            "sends at the bandwidth that it has measured, and keeps as much in flight as the path holds (BBRv3, draft-ietf-ccwg-bbr)",
            "paths that lose packets by chance, and deep queues that ought to stay short",
            |context| Box::new(Bbr::new(context, Settings::default()));
        BbrPeakStart "bbr/peak-start",
            "as bbr, with a start by trains of packets that measure the rate of a long path, as that of start=peak-bandwidth",
            "long paths: fills the link after two round trips",
            |context| Box::new(Bbr::new(context, Settings { opens_by_trains: true, ..Settings::default() }));
        BbrThreshold "bbr/threshold",
            "as bbr, but a round trip that loses no more than 2 % leaves the bandwidth as it is, as a probe does",
            "paths that lose up to 2 % by chance, and that are not shared with flows that back off for less",
            |context| Box::new(Bbr::new(context, Settings { puts_up_with_loss: true, ..Settings::default() }));
        BbrPeakStartThreshold "bbr/peak-start-threshold",
            "bbr/peak-start and bbr/threshold together",
            "long paths that lose up to 2 % by chance",
            |context| Box::new(Bbr::new(context, Settings { opens_by_trains: true, puts_up_with_loss: true }));
        C4 "c4",
            "sends at a rate that it raises by weak and strong probes, and lets as much be in flight as the longest round trip without a queue holds (draft-huitema-ccwg-c4-spec)",
            "real-time media on paths with jitter; to compare with C4",
            |context| Box::new(C4::new(context));
        #[cfg(test)]
        RatePacer "test-rate-pacer",
            "the delivery rate, whatever is lost",
            "in tests of the seat of a model",
            |context| Box::new(RatePacer::new(context));
    } reserved {
        "prague", "a scalable response to L4S marks";
    }
}

impl ModelPolicy {
    /// Whether it works with the times at which packets arrived.
    pub(super) fn uses_arrivals(self) -> bool {
        matches!(self, ModelPolicy::BbrPeakStart | ModelPolicy::BbrPeakStartThreshold)
    }
}
