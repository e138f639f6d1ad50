//! The open files of a server's answers: few, however many answers are under way.

use std::fs::{File, Metadata};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::content::read_exact_at;
use crate::site::open_without_links;
use crate::stamp::Stamp;

/// Files that answers keep open between two blocks, all together. Beyond it a file is opened for each block: some
/// microseconds per block, and nothing to a system that allows 1024 handles per process.
pub(crate) const KEPT_OPEN: usize = 512;

/// How many files are kept open.
#[derive(Debug, Default)]
pub(crate) struct OpenFiles(AtomicUsize);

impl OpenFiles {
    /// Counts a file if it may stay open; otherwise it is closed.
    fn keep(self: &Arc<Self>, file: Arc<File>) -> Option<Kept> {
        let taken = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| (n < KEPT_OPEN).then_some(n + 1));
        taken.is_ok().then(|| Kept { file, all: Arc::clone(self) })
    }

    /// How many there are.
    #[cfg(test)]
    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
struct Kept {
    file: Arc<File>,
    all: Arc<OpenFiles>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.all.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What tells a file and its version from others.
#[derive(Debug, PartialEq, Eq)]
struct Identity {
    #[cfg(unix)]
    place: (u64, u64),
    stamp: Stamp,
}

impl Identity {
    fn of(metadata: &Metadata) -> Self {
        Self {
            #[cfg(unix)]
            place: {
                use std::os::unix::fs::MetadataExt;
                (metadata.dev(), metadata.ino())
            },
            stamp: Stamp::of(metadata),
        }
    }
}

/// The file that an answer reads from: open, or to be opened again for every read.
#[derive(Debug)]
pub(crate) enum Source {
    /// Open for as long as the answer lasts: there is no name to open it by.
    Nameless(Arc<File>, Option<Stamp>),
    /// Open, or closed because too many are.
    Named(Box<Named>),
}

/// See [`Source::Named`].
#[derive(Debug)]
pub(crate) struct Named {
    path: PathBuf,
    identity: Identity,
    kept: Option<Kept>,
    all: Arc<OpenFiles>,
}

impl Source {
    /// A file, by its canonical path if it has one, that is closed again if too many of `all` are open. Reading fails
    /// when it is no longer what it was at `stamp`.
    pub(crate) fn new(file: Arc<File>, path: Option<PathBuf>, stamp: Option<Stamp>, all: &Arc<OpenFiles>) -> Self {
        match (path, file.metadata()) {
            (Some(path), Ok(metadata)) => {
                let mut identity = Identity::of(&metadata);
                identity.stamp = stamp.unwrap_or(identity.stamp);
                Source::Named(Box::new(Named { path, identity, kept: all.keep(file), all: Arc::clone(all) }))
            }
            _ => Source::Nameless(file, stamp),
        }
    }

    /// Fills `buffer` from `offset` on.
    ///
    /// # Errors
    /// Errors of the file system; [`io::ErrorKind::UnexpectedEof`] when the file ends before;
    /// [`io::ErrorKind::InvalidData`] when it is no longer what it was, or had to be opened again and is another.
    pub(crate) fn read(&mut self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        match self {
            Source::Nameless(file, stamp) => read_unchanged(file, *stamp, buffer, offset),
            Source::Named(named) => named.read(buffer, offset),
        }
    }
}

/// Looks at the file after reading, so that no block is handed out that may have been changed before it was read.
fn read_unchanged(file: &File, stamp: Option<Stamp>, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    read_exact_at(file, buffer, offset)?;
    stamp.map_or(Ok(()), |stamp| stamp.check(file))
}

impl Named {
    fn read(&mut self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let stamp = Some(self.identity.stamp);
        if let Some(kept) = &self.kept {
            return read_unchanged(&kept.file, stamp, buffer, offset);
        }
        let file = open_without_links(&self.path)?;
        if Identity::of(&file.metadata()?) != self.identity {
            let message = "the file was changed or replaced while it was being sent";
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        read_unchanged(&file, stamp, buffer, offset)?;
        self.kept = self.all.keep(Arc::new(file));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_beyond_the_limit_are_opened_for_each_read_and_checked() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "0123456789").unwrap();
        let all = Arc::new(OpenFiles::default());
        let open = || Source::new(Arc::new(File::open(&path).unwrap()), Some(path.clone()), None, &all);
        let mut sources: Vec<Source> = (0..2 * KEPT_OPEN).map(|_| open()).collect();
        assert_eq!(all.count(), KEPT_OPEN);
        let mut buffer = [0; 4];
        for source in &mut sources {
            source.read(&mut buffer, 3).unwrap();
            assert_eq!(&buffer, b"3456");
        }
        assert_eq!(all.count(), KEPT_OPEN);
        // Replaced as by an update: what is open stays what it was, the rest must not mix two versions.
        std::fs::write(directory.path().join("new"), "abcdefghij").unwrap();
        std::fs::rename(directory.path().join("new"), &path).unwrap();
        let (mut old, mut refused) = (0, 0);
        for source in &mut sources {
            match source.read(&mut buffer, 3) {
                Ok(()) => {
                    assert_eq!(&buffer, b"3456");
                    old += 1;
                }
                Err(error) => {
                    assert!(error.to_string().contains("changed"), "{error}");
                    refused += 1;
                }
            }
        }
        assert_eq!((old, refused), (KEPT_OPEN, KEPT_OPEN));
        drop(sources);
        assert_eq!(all.count(), 0);
    }
}
