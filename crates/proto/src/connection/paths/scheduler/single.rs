//! The scheduler of a connection that uses one path at a time (RFC 9000 section 9).

use super::{super::path::PathKey, choice::Choice};

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Single;

impl Single {
    /// The path that the next datagrams go by: the active one.
    pub fn next(&mut self, choice: &Choice<'_>) -> PathKey {
        choice.active
    }
}
