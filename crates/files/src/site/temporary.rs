//! The file an upload is written to before it gets its name.
//!
//! On Linux it has no name at all where the file system can do that (`O_TMPFILE`): if the server is killed, the kernel
//! frees it. Elsewhere it has a hidden name beside the target and is locked while it is in use, so that the next server
//! can tell an abandoned one ([`sweep`]). Such names are neither served nor listed nor accepted.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::random_name;

/// What temporary names begin with; [`DIGITS`] hexadecimal digits follow.
const PREFIX: &[u8] = b".thalweg-upload-";

/// Digits of a temporary name.
const DIGITS: usize = 24;

/// Age from which a temporary file counts as abandoned where files cannot be locked: longer than any upload lasts.
const ABANDONED: Duration = Duration::from_secs(24 * 3600);

/// Most directory entries that [`sweep`] looks at: about a second's work.
const MAX_ENTRIES: usize = 1_000_000;

/// How often a name is tried that another process has just taken for abandoned.
const TRIES: usize = 8;

/// Whether this is the name of a temporary file.
pub(super) fn is_temporary(name: &[u8]) -> bool {
    name.strip_prefix(PREFIX).is_some_and(|rest| rest.len() == DIGITS && rest.iter().all(u8::is_ascii_hexdigit))
}

/// A directory that stays the same one, whatever happens to its path meanwhile.
#[derive(Debug)]
struct Directory {
    /// The path that leads to it.
    path: PathBuf,
    /// Keeps `path` valid on Linux, where it is a name of this handle.
    _handle: Option<File>,
}

impl Directory {
    fn open(path: &Path) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        {
            let handle = File::open(path)?;
            let own = PathBuf::from(own_path(&handle));
            if fs::metadata(&own).is_ok_and(|metadata| metadata.is_dir()) {
                return Ok(Self { path: own, _handle: Some(handle) });
            }
        }
        Ok(Self { path: path.to_owned(), _handle: None })
    }
}

/// A file without its final name. Dropped, it is gone.
#[derive(Debug)]
pub(super) struct Temporary {
    file: File,
    directory: Directory,
    /// Its name, if it has one.
    path: Option<PathBuf>,
}

impl Temporary {
    /// An empty file that can be placed in `directory`.
    ///
    /// # Errors
    /// Errors of the file system.
    pub(super) fn create(directory: &Path) -> io::Result<Self> {
        let directory = Directory::open(directory)?;
        #[cfg(target_os = "linux")]
        if let Some(file) = unnamed(&directory.path) {
            return Ok(Self { file, directory, path: None });
        }
        Self::named_in(directory)
    }

    #[cfg(test)]
    fn named(directory: &Path) -> io::Result<Self> {
        Self::named_in(Directory::open(directory)?)
    }

    fn named_in(directory: Directory) -> io::Result<Self> {
        for _ in 0..TRIES {
            let path = new_name(&directory.path)?;
            // create_new neither follows nor replaces what is there.
            let file = File::options().write(true).create_new(true).open(&path)?;
            let locked = lock(&file);
            // A sweep may have come between creating and locking.
            if locked != Lock::Taken && is_linked(&file.metadata()?) {
                return Ok(Self { file, directory, path: Some(path) });
            }
            let _ = fs::remove_file(path);
        }
        Err(io::Error::other("temporary files are removed as fast as they are made"))
    }

    /// The open file.
    pub(super) fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Where it is: its own path, or that of its directory.
    pub(super) fn path(&self) -> &Path {
        self.path.as_deref().unwrap_or(&self.directory.path)
    }

    /// Gives the file its name in its directory; `replace` states whether a file of that name may be replaced.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] when the name is taken and may not be replaced, or an error of the file system.
    pub(super) fn place(mut self, name: &OsStr, replace: bool) -> io::Result<()> {
        let target = &self.directory.path.join(name);
        #[cfg(target_os = "linux")]
        if self.path.is_none() {
            match link(&self.file, target) {
                Err(error) if replace && error.kind() == io::ErrorKind::AlreadyExists => {}
                result => return result,
            }
            // No call replaces a name by an unnamed file, so it needs one for a moment.
            lock(&self.file);
            let path = new_name(&self.directory.path)?;
            link(&self.file, &path)?;
            self.path = Some(path);
        }
        let Some(path) = &self.path else {
            return Ok(());
        };
        if replace {
            fs::rename(path, target)?;
            self.path = None;
            Ok(())
        } else {
            // A link fails if the name is taken; the temporary name goes when self is dropped.
            fs::hard_link(path, target)
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // Nothing to be done about a failure; the name is hidden, and the next sweep finds it.
            let _ = fs::remove_file(path);
        }
    }
}

fn new_name(directory: &Path) -> io::Result<PathBuf> {
    let name = format!("{}{}", String::from_utf8_lossy(PREFIX), random_name()?);
    Ok(directory.join(name))
}

/// A file without a name in `directory`; `None` where that cannot be had, or the file could not be named later.
#[cfg(target_os = "linux")]
fn unnamed(directory: &Path) -> Option<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let file = File::options().write(true).custom_flags(libc::O_TMPFILE).open(directory).ok()?;
    fs::symlink_metadata(own_path(&file)).is_ok().then_some(file)
}

/// The path under which this process can name its open file (open(2), `O_TMPFILE`).
#[cfg(target_os = "linux")]
fn own_path(file: &File) -> String {
    use std::os::fd::AsRawFd as _;
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

#[cfg(target_os = "linux")]
fn link(file: &File, path: &Path) -> io::Result<()> {
    use rustix::fs::{AtFlags, CWD, linkat};
    Ok(linkat(CWD, own_path(file), CWD, path, AtFlags::SYMLINK_FOLLOW)?)
}

#[derive(Debug, PartialEq, Eq)]
enum Lock {
    /// It is ours until the file is closed, also by the death of the process.
    Ours,
    /// Somebody else has it.
    Taken,
    /// Files cannot be locked here.
    Unknown,
}

fn lock(file: &File) -> Lock {
    #[cfg(unix)]
    {
        use rustix::fs::{FlockOperation, flock};
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Lock::Ours,
            Err(rustix::io::Errno::WOULDBLOCK) => Lock::Taken,
            Err(_) => Lock::Unknown,
        }
    }
    #[cfg(not(unix))]
    {
        let _ = file;
        Lock::Unknown
    }
}

#[cfg(unix)]
fn is_linked(metadata: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    metadata.nlink() > 0
}

#[cfg(not(unix))]
fn is_linked(_: &Metadata) -> bool {
    true
}

/// Removes the temporary files below `root` that no living server uses, and returns their number. Blocks on the file
/// system.
pub(super) fn sweep(root: &Path) -> usize {
    let mut removed = 0;
    let mut seen = 0;
    let mut directories = vec![root.to_path_buf()];
    while let Some(directory) = directories.pop() {
        let Ok(entries) = fs::read_dir(&directory) else { continue };
        for entry in entries.flatten() {
            seen += 1;
            if seen > MAX_ENTRIES {
                return removed;
            }
            // Links are not followed: uploads into a linked directory end up where it leads, which is below the root
            // too.
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => directories.push(entry.path()),
                Ok(kind) if kind.is_file() && is_temporary(entry.file_name().as_encoded_bytes()) => {
                    removed += usize::from(remove_abandoned(&entry.path()));
                }
                _ => {}
            }
        }
    }
    removed
}

fn remove_abandoned(path: &Path) -> bool {
    let Ok(file) = super::path::open_without_links(path) else {
        return false;
    };
    let abandoned = match lock(&file) {
        Lock::Ours => true,
        Lock::Taken => false,
        Lock::Unknown => {
            let modified = file.metadata().and_then(|metadata| metadata.modified());
            modified.is_ok_and(|time| SystemTime::now().duration_since(time).is_ok_and(|age| age > ABANDONED))
        }
    };
    // The lock is held until the name is gone.
    abandoned && fs::remove_file(path).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    const MAKERS: [fn(&Path) -> io::Result<Temporary>; 2] = [Temporary::create, Temporary::named];

    #[test]
    fn a_file_appears_under_its_name_and_replaces_only_when_it_may() {
        for make in MAKERS {
            let dir = tempfile::tempdir().unwrap();
            let (name, target) = (OsStr::new("a"), dir.path().join("a"));
            for (replace, text) in [(false, "one"), (true, "two"), (true, "three")] {
                let mut temporary = make(dir.path()).unwrap();
                temporary.file().write_all(text.as_bytes()).unwrap();
                temporary.place(name, replace).unwrap();
                assert_eq!(fs::read_to_string(&target).unwrap(), text);
            }
            let late = make(dir.path()).unwrap().place(name, false).unwrap_err();
            assert_eq!(late.kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(fs::read_to_string(&target).unwrap(), "three");
            drop(make(dir.path()).unwrap());
            assert_eq!(names(dir.path()), ["a"]);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_stays_in_the_directory_it_was_begun_in() {
        for make in MAKERS {
            let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            let (asked, moved) = (dir.path().join("d"), dir.path().join("x"));
            fs::create_dir(&asked).unwrap();
            for replace in [false, true] {
                let temporary = make(&asked).unwrap();
                fs::rename(&asked, &moved).unwrap();
                std::os::unix::fs::symlink(outside.path(), &asked).unwrap();
                temporary.place(OsStr::new("f"), replace).unwrap();
                assert_eq!((names(&moved), names(outside.path())), (vec!["f".to_owned()], Vec::new()));
                fs::remove_file(&asked).unwrap();
                fs::rename(&moved, &asked).unwrap();
                fs::remove_file(asked.join("f")).unwrap();
            }
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn where_the_system_can_an_unfinished_file_has_no_name() {
        let dir = tempfile::tempdir().unwrap();
        if unnamed(dir.path()).is_some() {
            let _temporary = Temporary::create(dir.path()).unwrap();
            assert!(names(dir.path()).is_empty());
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_sweep_removes_what_nobody_holds_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let below = dir.path().join("d/.e");
        fs::create_dir_all(&below).unwrap();
        let digits = "0123456789abcdef01234567";
        for path in [dir.path(), &below] {
            fs::write(path.join(format!(".thalweg-upload-{digits}")), "left by a killed server").unwrap();
            fs::write(path.join(".thalweg-upload-notes"), "a person's").unwrap();
            fs::write(path.join(format!("thalweg-upload-{digits}")), "a person's").unwrap();
        }
        fs::create_dir(dir.path().join(".thalweg-upload-000000000000000000000000")).unwrap();
        let used = Temporary::named(&below).unwrap();
        assert_eq!(sweep(dir.path()), 2);
        let used_name = used.path().file_name().unwrap().to_str().unwrap().to_owned();
        let mut left = vec![".thalweg-upload-notes".to_owned(), used_name, format!("thalweg-upload-{digits}")];
        left.sort();
        assert_eq!(names(&below), left);
        used.place(OsStr::new("done"), true).unwrap();
        assert_eq!(sweep(dir.path()), 0);
        assert!(names(&below).contains(&"done".to_owned()));
    }
}
