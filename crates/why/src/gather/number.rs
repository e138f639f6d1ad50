//! Numbers as logs write them.

use serde_json::Value;

/// A number, or its text.
pub(super) fn integer(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}
