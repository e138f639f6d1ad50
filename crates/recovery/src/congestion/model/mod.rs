//! Controllers that work from a model of the path rather than from a window alone.
//!
//! A model owns its start, its window, its rate and its response to congestion. It implements
//! [`Controller`](super::Controller) directly and takes what it needs of every [`AckEvent`](super::AckEvent): delivery-rate
//! samples, rounds, losses packet by packet, marks, receive times. A reduction that the path calls for
//! ([`AckEvent::congestion`](super::AckEvent::congestion)) is a proposal to it.

#[cfg(test)]
mod rate_pacer;

use super::Controller;
use crate::choice::algorithms;
#[cfg(test)]
use rate_pacer::RatePacer;

algorithms! {
    #[doc = "Which model of the path decides on window, rate and response."]
    ModelPolicy: Controller, "controller" {
        #[cfg(test)]
        RatePacer "test-rate-pacer",
            "the delivery rate, whatever is lost",
            "in tests of the seat of a model",
            |birth| Box::new(RatePacer::new(birth));
    } reserved {
        "bbr", "a model of bandwidth and round-trip time (draft-ietf-ccwg-bbr)";
        "prague", "a scalable response to L4S marks";
    }
}
