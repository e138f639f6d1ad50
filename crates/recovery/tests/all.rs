//! The integration tests of this crate, linked as one program: what they share is built once. Those behind the feature
//! compare what it brings with the rest.
#![allow(clippy::unwrap_used)]

mod common;
mod cubic_response;
mod estimators;
mod histories;
#[cfg(feature = "study")]
mod nginx;
mod policies;
#[cfg(feature = "study")]
mod reduction;
#[cfg(feature = "study")]
mod reordering;
mod rules;
mod seat;
mod several;
#[cfg(feature = "study")]
mod silence;
mod switch;
