//! The properties of a path by which a scheduler chooses.

use thalweg_recovery::Recovery;

use crate::connection::{
    paths::path::{Path, PathKey},
    sent::SentFrames,
};

/// The paths of a connection and what is known of them.
#[allow(dead_code)] // `single` has no choice
pub(crate) struct Choice<'a> {
    /// All paths, the oldest first.
    pub paths: &'a [Path],
    /// The one that peer and we have agreed to use.
    pub active: PathKey,
    /// Window, pacer and round trip of each, by its [`Path::id`].
    pub recovery: &'a Recovery<Box<SentFrames>>,
}
