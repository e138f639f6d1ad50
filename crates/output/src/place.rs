//! The place that the name of an output leads to, links followed.

use std::fmt;
use std::fs::{self, File, FileType};
use std::io;
use std::path::{Path, PathBuf};

/// Most symbolic links that are followed from one name: as many as Linux follows (path_resolution(7)).
const MOST_LINKS: usize = 40;

/// What the name of an output leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A regular file, or nothing yet: the path at which the links end. To be replaced by a rename.
    File(PathBuf),
    /// Something that is written where it is.
    InPlace(InPlace),
}

/// A pipe, a device, a socket or an open descriptor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InPlace {
    path: PathBuf,
    kind: OutputKind,
    /// Whether it is a descriptor of this process, which need not be opened by its path.
    own: bool,
}

/// Kinds of outputs that are written in place. [`fmt::Display`] names them: "a pipe".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutputKind {
    /// A pipe, with or without a name.
    Pipe,
    /// A character device, such as `/dev/null` or a terminal, or a block device, such as a disk.
    Device,
    /// A Unix socket that a server listens on.
    Socket,
    /// A descriptor that is open in a process, such as `/dev/stdout`, `/dev/fd/3` or `>(command)`: its number.
    Descriptor(u32),
}

impl fmt::Display for OutputKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OutputKind::Pipe => f.write_str("a pipe"),
            OutputKind::Device => f.write_str("a device"),
            OutputKind::Socket => f.write_str("a socket"),
            OutputKind::Descriptor(number) => write!(f, "open descriptor {number}"),
        }
    }
}

impl Place {
    /// Finds out what `path` leads to. Neither opens nor creates anything.
    ///
    /// # Errors
    /// [`io::ErrorKind::IsADirectory`] for a directory and for a path that ends in `/`; what the file system says when
    /// it cannot be looked at. That the directory of a new file does not exist shows when the file is created.
    pub fn of(path: &Path) -> io::Result<Place> {
        if path.as_os_str().as_encoded_bytes().last().is_some_and(|last| std::path::is_separator(char::from(*last))) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let kind = match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(metadata) => kind(metadata.file_type()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let mut at = path.to_owned();
        for _ in 0..=MOST_LINKS {
            if let Some((number, own)) = descriptor(&at) {
                return Ok(Place::InPlace(InPlace { path: at, kind: OutputKind::Descriptor(number), own }));
            }
            match fs::read_link(&at) {
                Ok(next) => at = at.parent().unwrap_or(Path::new("")).join(next),
                // It is no link, or nothing is there.
                Err(_) => {
                    return Ok(match kind {
                        Some(kind) => Place::InPlace(InPlace { path: at, kind, own: false }),
                        None => Place::File(at),
                    });
                }
            }
        }
        Err(io::Error::other("too many symbolic links one behind the other"))
    }

    /// The path at which the links end.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Place::File(path) | Place::InPlace(InPlace { path, .. }) => path,
        }
    }
}

impl InPlace {
    /// The open descriptor with this number, as `/dev/fd/NUMBER` would name it. 1 is standard output.
    #[must_use]
    pub fn descriptor(number: u32) -> InPlace {
        InPlace { path: format!("/dev/fd/{number}").into(), kind: OutputKind::Descriptor(number), own: true }
    }

    /// What it is.
    #[must_use]
    pub fn kind(&self) -> OutputKind {
        self.kind
    }

    /// Opens it for writing; what is there is not cut off, and the end of a regular file is where writing begins. Waits
    /// for a reader of a pipe that has a name.
    ///
    /// # Errors
    /// What the system says; for a descriptor above 2 that is a socket, how to write to it instead.
    pub fn open(&self) -> io::Result<File> {
        match self.kind {
            // The same open file, so that its position is shared with whoever else writes to it.
            #[cfg(unix)]
            OutputKind::Descriptor(number @ 0..=2) if self.own => {
                use std::os::fd::AsFd as _;
                let descriptor = match number {
                    0 => io::stdin().as_fd().try_clone_to_owned(),
                    1 => io::stdout().as_fd().try_clone_to_owned(),
                    _ => io::stderr().as_fd().try_clone_to_owned(),
                };
                descriptor.map(File::from)
            }
            #[cfg(unix)]
            OutputKind::Socket => {
                let stream = std::os::unix::net::UnixStream::connect(&self.path)?;
                Ok(File::from(std::os::fd::OwnedFd::from(stream)))
            }
            OutputKind::Descriptor(_) => {
                File::options().append(true).open(&self.path).map_err(|error| match error.kind() {
                    io::ErrorKind::NotFound => io::Error::new(error.kind(), "no such descriptor is open"),
                    _ if leads_to_socket(&self.path) => {
                        let text =
                            "a socket cannot be opened by its number; give it as standard output, and name /dev/stdout";
                        io::Error::new(error.kind(), text)
                    }
                    _ => error,
                })
            }
            _ => File::options().write(true).open(&self.path),
        }
    }
}

#[cfg(unix)]
fn kind(file: FileType) -> Option<OutputKind> {
    use std::os::unix::fs::FileTypeExt as _;
    match file {
        file if file.is_fifo() => Some(OutputKind::Pipe),
        file if file.is_socket() => Some(OutputKind::Socket),
        file if file.is_file() => None,
        // Whatever else there is: it is not to be replaced.
        _ => Some(OutputKind::Device),
    }
}

#[cfg(not(unix))]
fn kind(file: FileType) -> Option<OutputKind> {
    (!file.is_file()).then_some(OutputKind::Device)
}

#[cfg(unix)]
fn leads_to_socket(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket())
}

#[cfg(not(unix))]
fn leads_to_socket(_: &Path) -> bool {
    false
}

/// The number of the open descriptor that this very path names, if it names one, and whether it is one of this process:
/// on Linux, `/dev/fd` is a link to `/proc/self/fd`, whose entries lead to open files rather than to names.
fn descriptor(path: &Path) -> Option<(u32, bool)> {
    let number: u32 = path.file_name()?.to_str()?.parse().ok()?;
    let directory = fs::canonicalize(path.parent()?).ok()?;
    let text = directory.to_str()?;
    let own = text == "/dev/fd" || fs::canonicalize("/proc/self/fd").is_ok_and(|own| own == directory);
    (own || text.starts_with("/proc/") && text.ends_with("/fd")).then_some((number, own))
}
