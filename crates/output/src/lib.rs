//! Writes the files that users name: regular files whole or not at all, pipes and devices in place.
//!
//! A user may give the name of a file, of a symbolic link, of a pipe such as `>(gzip >x.gz)`, or of a device such as
//! `/dev/null`. [`Place::of`] follows links and says which it is. A regular file, or a name that nothing has yet, is
//! replaced by a rename of a complete file, and a link to it stays a link. Everything else is opened and written where
//! it is: a rename would take its place, which for a device hurts every program of the machine.
//!
//! ```no_run
//! thalweg_output::write("report.html".as_ref(), b"<!doctype html>")?;
//! # Ok::<(), std::io::Error>(())
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod place;

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

pub use place::{InPlace, OutputKind, Place};

/// How many names are tried for the file beside the target that gets its name at the end.
const TRIES: usize = 16;

/// Writes `content` to the file that a user named.
///
/// # Errors
/// See [`write_with`].
pub fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    write_with(path, |file| file.write_all(content))
}

/// Writes to the file that a user named what `content` writes into an open one.
///
/// A regular file appears under its name when all of it is on the disk, with the permissions of the file that it
/// replaces. After a failure, what was there before is still there.
///
/// # Errors
/// Those of [`Place::of`], of `content` and of the file system.
pub fn write_with(path: &Path, content: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    write_to(path, false, content)
}

/// As [fn@write]; a regular file may be read and written by its owner only.
///
/// # Errors
/// See [`write_with`].
pub fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    write_to(path, true, |file| file.write_all(content))
}

fn write_to(path: &Path, private: bool, content: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let target = match Place::of(path)? {
        Place::InPlace(place) => return content(&mut place.open()?),
        Place::File(target) => target,
    };
    let replaced = fs::metadata(&target).ok().map(|old| old.permissions());
    // What replaces a file that few may read is not to be read by others before it has that file's permissions.
    let (beside, mut file) = create_beside(&target, private || replaced.is_some())?;
    let written = content(&mut file)
        .and_then(|()| match replaced.filter(|_| !private) {
            Some(permissions) => file.set_permissions(permissions),
            None => Ok(()),
        })
        .and_then(|()| file.sync_data())
        .and_then(|()| fs::rename(&beside, &target));
    written.inspect_err(|_| {
        // What is left of it is of no use.
        let _ = fs::remove_file(&beside);
    })
}

/// A new file in the directory of `target`, under a name that nothing else has. The name does not depend on the
/// target's, which may be as long as the file system allows.
fn create_beside(target: &Path, private: bool) -> io::Result<(PathBuf, File)> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if private {
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    let _ = private;
    let mut tries = 1;
    loop {
        // The process number and the count keep programs and threads from writing into each other's files.
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let beside = target.with_file_name(format!(".thalweg-{}-{number}.part", std::process::id()));
        match options.open(&beside) {
            Ok(file) => return Ok((beside, file)),
            // Left by a program that was killed and had the same number.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < TRIES => tries += 1,
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests;
