//! Controllers that work from a model of the path rather than from a window alone.
//!
//! A model owns its start, its window, its rate and its response to congestion. It implements
//! [`Controller`](super::Controller) directly and takes what it needs of every [`AckEvent`](super::AckEvent): delivery-rate
//! samples, rounds, losses packet by packet, marks, receive times. A reduction that the path calls for
//! ([`AckEvent::congestion`](super::AckEvent::congestion)) is a proposal to it.

mod bbr;
#[cfg(test)]
mod rate_pacer;
mod stats;

use super::Controller;
use crate::choice::algorithms;
use bbr::Bbr;
#[cfg(test)]
use rate_pacer::RatePacer;
pub use stats::ModelStats;

algorithms! {
    #[doc = "Which model of the path decides on window, rate and response."]
    ModelPolicy: Controller, "controller" {
        Bbr "bbr",
            "sends at the bandwidth that it has measured, and keeps as much in flight as the path holds (BBRv3, draft-ietf-ccwg-bbr)",
            "paths that lose packets by chance, and deep queues that ought to stay short",
            |birth| Box::new(Bbr::new(birth));
        #[cfg(test)]
        RatePacer "test-rate-pacer",
            "the delivery rate, whatever is lost",
            "in tests of the seat of a model",
            |birth| Box::new(RatePacer::new(birth));
    } reserved {
        "prague", "a scalable response to L4S marks";
    }
}
