//! What a scheduler chooses by.

use thalweg_recovery::Recovery;

use super::path::{Path, PathKey};
use crate::connection::sent::SentFrames;

/// The paths of a connection and what is known of them.
#[allow(dead_code)] // `single` has no choice
pub(super) struct Choice<'a> {
    /// All paths, the oldest first.
    pub(super) paths: &'a [Path],
    /// The one that peer and we have agreed to use.
    pub(super) active: PathKey,
    /// Window, pacer and round trip of each, by its [`Path::id`].
    pub(super) recovery: &'a Recovery<SentFrames>,
}
