//! What `relay` and `emulate` have in common: which path, how it is judged, what is said about it.

pub mod path;
pub mod report;
