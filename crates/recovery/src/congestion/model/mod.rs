//! Controllers that work from a model of the path rather than from a window alone.
//!
//! A model owns its start, its window, its rate and its response to congestion. It implements
//! [`Controller`](super::Controller) directly and takes what it needs of every [`AckEvent`](super::AckEvent): delivery-rate
//! samples, rounds, losses packet by packet, marks, receive times. A reduction that the path calls for
//! ([`AckEvent::congestion`](super::AckEvent::congestion)) is a proposal to it.

#[cfg(test)]
mod rate_pacer;

#[cfg(test)]
pub(crate) use rate_pacer::RatePacer;
