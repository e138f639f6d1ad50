//! Controllers that work from a model of the path rather than from a window alone: the place for BBR and Prague.
//!
//! A model owns its start, its window, its rate and its response to congestion. It implements
//! [`Controller`](crate::Controller) directly, takes the delivery-rate samples and rounds of every
//! [`AckEvent`](crate::AckEvent), and has no use for a start or a reduction of its own; the policy parser refuses both beside it.
