//! The scheduler of a connection that uses one path at a time (RFC 9000 section 9).

use super::{choice::Choice, path::PathKey};

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Single;

impl Single {
    /// The path that the next datagrams go by: the active one.
    pub(super) fn next(&mut self, choice: &Choice<'_>) -> PathKey {
        choice.active
    }
}
