//! The stamp of a file, by which a change during its transfer is noticed.

use std::fs::{File, Metadata};
use std::io;
use std::time::SystemTime;

/// Size and time of last change of a file at one moment.
///
/// A file that is replaced by renaming another one over it does not count as changed: the old one is still there to be
/// read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    size: u64,
    /// `None` where the file system does not know.
    modified: Option<SystemTime>,
}

impl Stamp {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self { size: metadata.len(), modified: metadata.modified().ok() }
    }

    /// Size in bytes.
    pub(crate) fn size(self) -> u64 {
        self.size
    }

    /// Compares with the metadata of the open file now. Blocks on the file system.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] when the file has changed, or an error of the file system.
    pub(crate) fn check(self, file: &File) -> io::Result<()> {
        if Self::of(&file.metadata()?) == self {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, "the file changed while it was being sent"))
    }
}
