//! From a request target to an open file below the root, and to nothing else.
//!
//! Two gates stand one behind the other. [`CleanPath::parse`] takes the target apart and refuses whatever could mean
//! anything but a plain descent (`..`, encoded slashes, NUL, hidden names; where they mean something, backslashes and
//! drive letters). [`open`] then asks the kernel where the path really leads, refuses it when symbolic links lead out
//! of the root, opens it, and asks again about what was *opened*, so that a link swapped in between changes nothing.

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Component, Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

/// Bytes written as they are in a URL path segment (RFC 3986, `unreserved`); everything else is percent-encoded.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Longest request path looked at, in bytes after decoding. Linux's `PATH_MAX` is 4096.
const MAX_PATH: usize = 4096;

/// Why a path is not served.
#[derive(Debug)]
pub enum Refusal {
    /// The target is malformed; the text states how.
    Malformed(&'static str),
    /// There is nothing there, or nothing that may be disclosed.
    NotFound,
    /// It exists but is neither a readable file nor a directory.
    Forbidden,
    /// The file changes while it is read.
    Changing,
    /// The file system failed.
    Io(io::Error),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::InvalidFilename
            | io::ErrorKind::InvalidInput => Refusal::NotFound,
            io::ErrorKind::PermissionDenied => Refusal::Forbidden,
            // A loop of symbolic links (ELOOP has no stable kind) and a name that is too long lead nowhere.
            _ if is_dead_end(&error) => Refusal::NotFound,
            _ => Refusal::Io(error),
        }
    }
}

#[cfg(unix)]
fn is_dead_end(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ELOOP | libc::ENAMETOOLONG))
}

#[cfg(not(unix))]
fn is_dead_end(_: &io::Error) -> bool {
    false
}

/// A request path whose every segment is one ordinary file name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CleanPath {
    segments: Vec<OsString>,
    directory: bool,
}

impl CleanPath {
    /// Takes the path of a request target (without query) apart.
    ///
    /// Empty segments and single dots are skipped. Names that begin with a dot are [`Refusal::NotFound`] unless
    /// `hidden` is set or the first segment is `.well-known` (RFC 8615): dot files hold secrets more often than pages.
    ///
    /// # Errors
    /// [`Refusal::Malformed`] for a path that is not absolute, a broken percent sequence, NUL, an encoded `/`, `..`, or
    /// a backslash where that separates names as on Windows; [`Refusal::NotFound`] for hidden names and for names this
    /// platform cannot have.
    pub fn parse(path: &str, hidden: bool) -> Result<Self, Refusal> {
        let Some(rest) = path.strip_prefix('/') else {
            return Err(Refusal::Malformed("the path must begin with '/'"));
        };
        let mut segments = Vec::new();
        let mut length = 0;
        let mut directory = true;
        for raw in rest.split('/') {
            directory = false;
            let name = decode(raw)?;
            if name.is_empty() || name == b"." {
                directory = true;
                continue;
            }
            if name == b".." {
                return Err(Refusal::Malformed("the path must not contain '..'"));
            }
            length += name.len() + 1;
            if length > MAX_PATH {
                return Err(Refusal::NotFound);
            }
            let well_known = segments.is_empty() && name == b".well-known";
            // What is on its way in is not there yet, also where hidden names are.
            if (name.starts_with(b".") && !hidden && !well_known) || super::temporary::is_temporary(&name) {
                return Err(Refusal::NotFound);
            }
            segments.push(file_name(name)?);
        }
        Ok(Self { segments, directory })
    }

    /// Whether the target ended in `/` (the root does).
    #[must_use]
    pub fn is_directory(&self) -> bool {
        self.directory
    }

    /// Whether this is `/`.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.segments.is_empty()
    }

    /// The last segment, if there is one.
    #[must_use]
    pub fn file_name(&self) -> Option<&std::ffi::OsStr> {
        self.segments.last().map(OsString::as_os_str)
    }

    /// The same path with one more name at its end.
    #[must_use]
    pub fn join(&self, name: &str) -> Self {
        let mut segments = self.segments.clone();
        segments.push(name.into());
        Self { segments, directory: false }
    }

    /// The path of the directory this name stands in.
    #[must_use]
    pub fn parent(&self) -> Self {
        let mut segments = self.segments.clone();
        segments.pop();
        Self { segments, directory: true }
    }

    /// The path below `root`.
    #[must_use]
    pub fn below(&self, root: &Path) -> PathBuf {
        let mut path = root.to_path_buf();
        path.extend(&self.segments);
        path
    }

    /// The path for a URL, percent-encoded, with its trailing slash if `directory`.
    #[must_use]
    pub fn encoded(&self, directory: bool) -> String {
        let mut text = String::from("/");
        for (index, segment) in self.segments.iter().enumerate() {
            if index > 0 {
                text.push('/');
            }
            text.push_str(&encode_segment(segment.as_encoded_bytes()));
        }
        if directory && !self.segments.is_empty() {
            text.push('/');
        }
        text
    }

    /// The path for a person.
    #[must_use]
    pub fn display(&self) -> String {
        let mut text = String::from("/");
        for segment in &self.segments {
            text.push_str(&segment.to_string_lossy());
            text.push('/');
        }
        if !self.directory && text.len() > 1 {
            text.pop();
        }
        text
    }
}

/// Percent-encodes one file name for use in a URL.
#[must_use]
pub fn encode_segment(name: &[u8]) -> String {
    percent_encode(name, SEGMENT).to_string()
}

fn decode(raw: &str) -> Result<Vec<u8>, Refusal> {
    let mut name = Vec::with_capacity(raw.len());
    let mut bytes = raw.bytes();
    while let Some(byte) = bytes.next() {
        let byte = if byte == b'%' {
            let mut digit = || bytes.next().and_then(|b| char::from(b).to_digit(16));
            match (digit(), digit()) {
                (Some(high), Some(low)) => (high * 16 + low) as u8,
                _ => {
                    return Err(Refusal::Malformed("'%' in the path must be followed by two hexadecimal digits"));
                }
            }
        } else {
            byte
        };
        match byte {
            0 => return Err(Refusal::Malformed("the path must not contain NUL")),
            b'/' => {
                return Err(Refusal::Malformed("a name in the path must not contain an encoded '/'"));
            }
            // Elsewhere an ordinary letter of names.
            b'\\' if cfg!(not(unix)) => return Err(Refusal::Malformed("the path must not contain '\\'")),
            _ => name.push(byte),
        }
    }
    Ok(name)
}

#[cfg(unix)]
fn file_name(name: Vec<u8>) -> Result<OsString, Refusal> {
    use std::os::unix::ffi::OsStringExt;
    single(OsString::from_vec(name))
}

#[cfg(not(unix))]
fn file_name(name: Vec<u8>) -> Result<OsString, Refusal> {
    let name = String::from_utf8(name).map_err(|_| Refusal::NotFound)?;
    // Drive letters and alternate streams; names Windows would quietly shorten; device names.
    let stem = name.split('.').next().unwrap_or("").to_ascii_uppercase();
    let device = matches!(stem.as_str(), "CON" | "PRN" | "AUX" | "NUL")
        || ((stem.starts_with("COM") || stem.starts_with("LPT")) && stem.chars().count() == 4);
    if name.contains(':') || name.ends_with(['.', ' ']) || device {
        return Err(Refusal::NotFound);
    }
    single(name.into())
}

/// The last word belongs to the platform's own idea of a path: one segment must be one ordinary component.
fn single(name: OsString) -> Result<OsString, Refusal> {
    let mut components = Path::new(&name).components();
    match (components.next(), components.next()) {
        (Some(Component::Normal(only)), None) if only == name => Ok(name),
        _ => Err(Refusal::NotFound),
    }
}

/// Something below the root, open.
#[derive(Debug)]
pub struct Opened {
    /// The open file or directory (directories only where the platform can open them).
    pub file: Option<File>,
    /// The metadata of the open file.
    pub metadata: Metadata,
    /// Where it really is, symbolic links resolved.
    pub path: PathBuf,
}

impl Opened {
    /// A path through which this very directory can be read even if its name meanwhile means something else.
    #[must_use]
    pub fn directory_path(&self) -> PathBuf {
        #[cfg(target_os = "linux")]
        if let Some(file) = &self.file {
            use std::os::fd::AsRawFd;
            let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
            if path.exists() {
                return path;
            }
        }
        self.path.clone()
    }
}

/// Opens `path` below `root` for reading; `root` must be canonical.
///
/// Symbolic links are followed as long as they end inside the root.
///
/// # Errors
/// [`Refusal::NotFound`] when nothing is there or a link leads out of the root; [`Refusal::Forbidden`] when it is
/// neither a file nor a directory (devices, FIFOs, sockets) or may not be read.
pub fn open(root: &Path, path: &CleanPath) -> Result<Opened, Refusal> {
    let asked = path.below(root);
    let real = fs::canonicalize(&asked)?;
    if !real.starts_with(root) {
        return Err(Refusal::NotFound);
    }
    let before = fs::metadata(&real)?;
    if !before.is_file() && !before.is_dir() {
        return Err(Refusal::Forbidden);
    }
    if cfg!(not(unix)) && before.is_dir() {
        return Ok(Opened { file: None, metadata: before, path: real });
    }
    let file = open_without_links(&real)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() && !metadata.is_dir() {
        return Err(Refusal::Forbidden);
    }
    if !is_inside(root, &asked, &file, &metadata) {
        return Err(Refusal::NotFound);
    }
    Ok(Opened { file: Some(file), metadata, path: real })
}

/// Whether a symbolic link on the way to `path` leads out of `root`. What lies beyond it is not looked at.
pub(super) fn leads_out(root: &Path, path: &CleanPath) -> bool {
    let mut at = root.to_path_buf();
    for segment in &path.segments {
        at.push(segment);
        match fs::canonicalize(&at) {
            Ok(real) if real.starts_with(root) => {}
            Ok(_) => return true,
            Err(_) => return false,
        }
    }
    false
}

/// Whether the open `file` lies below `root`: asked of the open file itself where the system can tell, otherwise by
/// resolving the name a second time and comparing identities.
pub(super) fn is_inside(root: &Path, asked: &Path, file: &File, metadata: &Metadata) -> bool {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd;
        if let Ok(real) = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())) {
            return real.starts_with(root);
        }
    }
    let _ = file;
    let Ok(real) = fs::canonicalize(asked) else {
        return false;
    };
    real.starts_with(root) && fs::metadata(&real).is_ok_and(|again| same_file(&again, metadata))
}

#[cfg(unix)]
fn same_file(a: &Metadata, b: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

#[cfg(not(unix))]
fn same_file(_: &Metadata, _: &Metadata) -> bool {
    true
}

/// The path is canonical, so a link at its end was put there a moment ago; and opening a FIFO must not wait for a
/// writer.
pub(crate) fn open_without_links(path: &Path) -> io::Result<File> {
    let mut options = fs::OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    }
    options.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(path: &str) -> Result<CleanPath, Refusal> {
        CleanPath::parse(path, false)
    }

    fn malformed(path: &str) -> bool {
        matches!(parse(path), Err(Refusal::Malformed(_)))
    }

    #[test]
    fn ordinary_paths_are_taken_apart() {
        let path = parse("/a/b%20c.txt").unwrap();
        assert_eq!(path.below(Path::new("/r")), Path::new("/r/a/b c.txt"));
        assert_eq!(path.encoded(false), "/a/b%20c.txt");
        assert_eq!(path.display(), "/a/b c.txt");
        assert!(!path.is_directory());
        assert!(parse("/").unwrap().is_root());
        assert!(parse("/a/").unwrap().is_directory());
        assert!(parse("/a/.").unwrap().is_directory());
        assert_eq!(parse("//a///b").unwrap(), parse("/a/b").unwrap());
        assert_eq!(parse("/%C3%BC").unwrap().display(), "/ü");
    }

    #[test]
    fn climbing_is_refused_in_every_spelling() {
        for path in [
            "/..",
            "/../etc/passwd",
            "/a/../../b",
            "/%2e%2e/b",
            "/.%2E/b",
            "/%2e./b",
            "/a/%2e%2e%2fb",
            "/%00",
            "/a%00.txt",
            "/a%2Fb",
            "relative",
            "",
            "/%",
            "/%4",
            "/%zz",
            "*",
        ] {
            assert!(malformed(path), "{path:?} was accepted");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_backslash_is_a_letter_of_a_name() {
        for (path, name) in [("/a%5cb", "a\\b"), ("/a\\..\\b", "a\\..\\b"), ("/%5C%5Chost%5Cx", "\\\\host\\x")] {
            let clean = parse(path).unwrap();
            assert_eq!(clean.below(Path::new("/r")), Path::new("/r").join(name));
            assert_eq!(parse(&clean.encoded(false)).unwrap(), clean);
        }
        // Hidden like any name that begins with a dot.
        assert!(matches!(parse("/..%5cb"), Err(Refusal::NotFound)));
    }

    #[cfg(not(unix))]
    #[test]
    fn a_backslash_is_refused() {
        assert!(malformed("/..%5cb") && malformed("/a\\..\\b"));
    }

    #[test]
    fn hidden_names_are_not_there_but_well_known_is() {
        assert!(matches!(parse("/.git/config"), Err(Refusal::NotFound)));
        assert!(matches!(parse("/a/.env"), Err(Refusal::NotFound)));
        assert!(matches!(parse("/a/%2Eenv"), Err(Refusal::NotFound)));
        assert!(matches!(parse("/..."), Err(Refusal::NotFound)));
        assert!(matches!(parse("/a/.well-known"), Err(Refusal::NotFound)));
        assert!(parse("/.well-known/security.txt").is_ok());
        assert!(CleanPath::parse("/.git/config", true).is_ok());
        let upload = "/a/.thalweg-upload-0123456789abcdef01234567";
        assert!(matches!(CleanPath::parse(upload, true), Err(Refusal::NotFound)));
        assert!(CleanPath::parse("/a/.thalweg-upload-x", true).is_ok());
    }

    #[cfg(unix)]
    #[test]
    fn symbolic_links_may_point_inside_but_not_out() {
        use std::os::unix::fs::symlink;
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "s").unwrap();
        let inside = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(inside.path()).unwrap();
        fs::create_dir(root.join("d")).unwrap();
        fs::write(root.join("d/file"), "f").unwrap();
        symlink(outside.path().join("secret"), root.join("absolute")).unwrap();
        symlink("../../../../../../../../etc", root.join("relative")).unwrap();
        symlink(outside.path(), root.join("d/out")).unwrap();
        symlink("d/file", root.join("within")).unwrap();
        symlink(root.join("d"), root.join("within-absolute")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        let get = |path: &str| open(&root, &parse(path).unwrap());
        for path in ["/absolute", "/relative/passwd", "/d/out/secret", "/d/out", "/loop"] {
            assert!(matches!(get(path), Err(Refusal::NotFound)), "{path}");
        }
        assert!(get("/within").is_ok());
        assert!(get("/within-absolute/file").is_ok());
        assert!(matches!(get("/d/file/x"), Err(Refusal::NotFound)));
        assert!(matches!(get("/none"), Err(Refusal::NotFound)));
    }

    /// A sibling whose name begins with the root's name is not inside the root.
    #[cfg(unix)]
    #[test]
    fn a_prefix_of_a_name_is_not_a_parent() {
        use std::os::unix::fs::symlink;
        let outer = tempfile::tempdir().unwrap();
        let outer = fs::canonicalize(outer.path()).unwrap();
        fs::create_dir(outer.join("www")).unwrap();
        fs::create_dir(outer.join("www-private")).unwrap();
        fs::write(outer.join("www-private/x"), "x").unwrap();
        symlink("../www-private", outer.join("www/link")).unwrap();
        assert!(matches!(open(&outer.join("www"), &parse("/link/x").unwrap()), Err(Refusal::NotFound)));
    }

    #[cfg(unix)]
    #[test]
    fn a_fifo_is_refused_without_waiting_for_a_writer() {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        let made = std::process::Command::new("mkfifo").arg(root.join("pipe")).status();
        if made.is_ok_and(|status| status.success()) {
            assert!(matches!(open(&root, &parse("/pipe").unwrap()), Err(Refusal::Forbidden)));
            // The second gate: even when the check before opening saw a file, opening does not wait and fstat refuses.
            let file = open_without_links(&root.join("pipe")).unwrap();
            assert!(!file.metadata().unwrap().is_file());
        }
    }

    proptest! {
        /// Whatever the target, what comes out stays below the root and is a plain descent.
        #[test]
        fn a_clean_path_is_a_plain_descent(path in "(/|\\.|\\.\\.|%2e|%2E|%2f|%5c|%00|\\\\|a|b|:|~|%|ü){0,12}") {
            if let Ok(clean) = CleanPath::parse(&path, true) {
                let full = clean.below(Path::new("/root"));
                prop_assert!(full.starts_with("/root"));
                let rest = full.strip_prefix("/root").unwrap();
                prop_assert!(rest.components().all(|c| matches!(c, Component::Normal(_))));
                prop_assert_eq!(rest.components().count(), clean.segments.len());
                prop_assert!(!full.as_os_str().as_encoded_bytes().contains(&0));
                // What we print as a link comes back as the same path.
                let again = CleanPath::parse(&clean.encoded(clean.directory), true).unwrap();
                prop_assert_eq!(again, clean);
            }
        }

        #[test]
        fn no_target_panics(path in "\\PC*") {
            let _ = CleanPath::parse(&path, false);
            let _ = CleanPath::parse(&format!("/{path}"), false);
        }
    }
}
