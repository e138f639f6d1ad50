//! Controllers that work from a model of the path rather than from a window alone.
//!
//! A model owns its start, its window, its rate and its response to congestion. It implements
//! [`Controller`](super::Controller) directly and takes what it needs of every [`AckEvent`](super::AckEvent):
//! delivery-rate samples, rounds, losses packet by packet, marks, receive times. A reduction that the path calls for
//! ([`AckEvent::congestion`](super::AckEvent::congestion)) is a proposal to it.

mod bbr;
#[cfg(feature = "study")]
mod c4;
#[cfg(test)]
mod rate_pacer;
mod stats;

use super::Controller;
use crate::choice::{Switch, parameters, words};
use crate::congestion::table::algorithms;
use bbr::{Bbr, Settings};
#[cfg(test)]
use rate_pacer::RatePacer;
pub use stats::ModelStats;

parameters! {
    #[doc = "The parameters of `controller=bbr`."]
    BbrParameters {
        start "start": BbrStart = BbrStart::Doubling, "",
            "how long paths are opened; trains measure their rate, as those of start=peak-bandwidth do";
        threshold "threshold": Switch = Switch::Off, "",
            "whether a round trip that loses no more than 2 % leaves the bandwidth as it is, as a probe does";
    }
}

words! {
    #[doc = "How `controller=bbr` opens long paths."]
    BbrStart {
        Doubling "doubling", "By doubling the rate.";
        Trains "trains", "By trains of packets that measure the rate.";
    }
}

algorithms! {
    #[doc = "Which model of the path decides on window, rate and response."]
    ModelPolicy: Controller, "controller" {
        Bbr(BbrParameters) "bbr",
            "sends at the bandwidth that it has measured, and keeps as much in flight as the path holds (BBRv3, draft-ietf-ccwg-bbr, which leaves ECN out: here one CE mark ends Startup)",
            "paths that lose packets by chance, and deep queues that ought to stay short",
            |context, parameters| Box::new(Bbr::new(context, parameters.into()));
        #[cfg(test)]
        RatePacer "test-rate-pacer",
            "the delivery rate, whatever is lost",
            "in tests of the seat of a model",
            |context| Box::new(RatePacer::new(context));
    }
    study {
        C4 "c4",
            "sends at a rate that it raises by weak and strong probes, and lets as much be in flight as the longest round trip without a queue holds (draft-huitema-ccwg-c4-spec)",
            "to compare with C4; real-time media on paths with jitter",
            |context| Box::new(c4::C4::new(context));
    } reserved {
        "prague", "a scalable response to L4S marks";
    }
}

impl From<BbrParameters> for Settings {
    fn from(parameters: BbrParameters) -> Settings {
        let BbrParameters { start, threshold } = parameters;
        Settings { opens_by_trains: start == BbrStart::Trains, puts_up_with_loss: threshold.is_on() }
    }
}

impl ModelPolicy {
    /// Whether it works with the times at which packets arrived.
    pub(super) fn uses_arrivals(self) -> bool {
        matches!(self, ModelPolicy::Bbr(BbrParameters { start: BbrStart::Trains, .. }))
    }
}
