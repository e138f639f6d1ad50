//! Numbers as logs write them.

use crate::read::Data;

/// A number, or its text.
pub(super) fn integer(value: Data<'_>) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}
