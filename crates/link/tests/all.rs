//! The integration tests of this crate, linked as one program: what they share is built once.

mod direction;
mod disciplines;
mod random;
