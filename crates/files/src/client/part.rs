//! A file on its way in: `NAME.part` with what is here, `NAME.part.meta` with what it is a part of, and a rename at the
//! end.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http::header::{DATE, ETAG, LAST_MODIFIED};
use httpdate::parse_http_date;
use tokio::task::JoinHandle;

use super::error::{Error, Kept};
use super::head::content_encoding;

/// Bytes gathered before they are written: one trip to a blocking thread per MiB, while the next MiB arrives.
const BATCH: usize = 1 << 20;

/// First line of the sidecar file.
const HEADER: &str = "thalweg-part 1";

/// What a partial file is a part of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Origin {
    /// URL it was asked for at, before redirects.
    pub url: String,
    /// Strong entity tag, with its quotes.
    pub etag: Option<String>,
    /// Date of the last change as the server wrote it, if it may stand in for a tag.
    pub modified: Option<String>,
    /// Length of the whole file.
    pub length: Option<u64>,
    /// Coding of the bytes, if the server applied one (RFC 9110 section 8.4).
    pub coding: Option<String>,
}

impl Origin {
    /// What the head of an answer says about the file at `url`.
    pub(super) fn of(url: String, headers: &HeaderMap, length: Option<u64>) -> Self {
        Self {
            url,
            etag: strong_etag(headers),
            modified: strong_date(headers),
            length,
            coding: content_encoding(headers),
        }
    }

    /// Whether the file can be told from any other version of it.
    pub(super) fn is_recognizable(&self) -> bool {
        self.etag.as_deref().is_some_and(is_strong) || self.etag.is_none() && self.modified.is_some()
    }

    /// Its validator, for If-Range (RFC 9110 section 13.1.5).
    pub(super) fn validator(&self) -> &str {
        self.etag.as_deref().or(self.modified.as_deref()).unwrap_or_default()
    }

    fn to_text(&self) -> String {
        let mut text = format!("{HEADER}\nurl {}\n", self.url);
        if let Some(etag) = &self.etag {
            text += &format!("etag {etag}\n");
        }
        if let Some(modified) = &self.modified {
            text += &format!("modified {modified}\n");
        }
        if let Some(length) = self.length {
            text += &format!("length {length}\n");
        }
        if let Some(coding) = &self.coding {
            text += &format!("coding {coding}\n");
        }
        text
    }

    fn from_text(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        if lines.next()? != HEADER {
            return None;
        }
        let mut origin = Origin::default();
        for line in lines {
            match line.split_once(' ')? {
                ("url", url) => origin.url = url.into(),
                ("etag", etag) => origin.etag = Some(etag.into()),
                ("coding", coding) => origin.coding = Some(coding.into()),
                ("modified", date) => origin.modified = Some(date.into()),
                ("length", length) => origin.length = Some(length.parse().ok()?),
                _ => {} // from a later version
            }
        }
        Some(origin)
    }
}

/// The names that belong to one file.
#[derive(Debug, Clone)]
pub(super) struct Names {
    pub target: PathBuf,
    pub part: PathBuf,
    pub meta: PathBuf,
}

impl Names {
    pub(super) fn new(target: &Path) -> Self {
        let with = |suffix: &str| {
            let mut name = target.as_os_str().to_owned();
            name.push(suffix);
            PathBuf::from(name)
        };
        Self { target: target.to_owned(), part: with(".part"), meta: with(".part.meta") }
    }

    /// What is on disk to continue from: length and origin. Only if the origin can be recognized again.
    pub(super) fn resumable(&self) -> Option<(u64, Origin)> {
        let have = size(&self.part)?;
        let mut text = String::new();
        open_own(File::options().read(true), &self.meta).ok()?.read_to_string(&mut text).ok()?;
        let origin = Origin::from_text(&text)?;
        let strong = origin.is_recognizable();
        let fits = origin.length.is_none_or(|length| have <= length);
        (have > 0 && strong && fits).then_some((have, origin))
    }

    /// What an error message can say about the partial file.
    pub(super) fn kept(&self) -> Option<Kept> {
        let bytes = size(&self.part)?;
        Some(Kept { path: self.part.clone(), bytes, resumable: self.resumable().is_some() })
    }

    /// Puts a complete partial file in its place.
    pub(super) fn complete(&self) -> Result<(), Error> {
        // What has come to stand there meanwhile may be worth more than a file.
        let free = match fs::symlink_metadata(&self.target) {
            Ok(metadata) if !metadata.is_file() => Err(io::Error::other("it is no file any more")),
            _ => Ok(()),
        };
        let renamed = free.and_then(|()| fs::rename(&self.part, &self.target));
        renamed.map_err(|source| self.write_error(source, &self.target))?;
        let _ = fs::remove_file(&self.meta);
        Ok(())
    }

    /// Throws the partial file away.
    pub(super) fn discard(&self) {
        let _ = fs::remove_file(&self.part);
        let _ = fs::remove_file(&self.meta);
    }

    pub(super) fn write_error(&self, source: io::Error, path: &Path) -> Error {
        Error::Write { path: path.to_owned(), source: Arc::new(source), kept: self.kept() }
    }
}

/// Opens a partial file or its sidecar: neither what a link of that name leads to, nor what is no regular file.
fn open_own(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let other = || io::Error::other("it is no regular file; remove or rename it");
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(options, libc::O_NOFOLLOW | libc::O_NONBLOCK);
    #[cfg(not(unix))]
    if fs::symlink_metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return Err(other());
    }
    let file = options.open(path).map_err(|error| match error.raw_os_error() {
        // A link; a pipe that nobody reads, or a socket.
        #[cfg(unix)]
        Some(libc::ELOOP | libc::ENXIO) => other(),
        _ => error,
    })?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(other()) }
}

/// Bytes of a regular file; `None` if there is none of that name, or only a link to one.
fn size(path: &Path) -> Option<u64> {
    fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file).map(|metadata| metadata.len())
}

/// The entity tag, if it is strong.
pub(super) fn strong_etag(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(ETAG)?.to_str().ok()?.trim();
    is_strong(text).then(|| text.to_owned())
}

/// The date of the last change, if the file was old enough when it was sent that no later change can have the same
/// date. The minute makes up for a date that was written by another clock (RFC 9110 section 8.8.2.2).
fn strong_date(headers: &HeaderMap) -> Option<String> {
    let text = |name| headers.get(name)?.to_str().ok();
    let modified = text(LAST_MODIFIED)?;
    let (date, changed) = (parse_http_date(text(DATE)?).ok()?, parse_http_date(modified).ok()?);
    let age = date.duration_since(changed).ok()?;
    (age >= Duration::from_secs(60)).then(|| modified.to_owned())
}

/// Whether an entity tag is strong: only such a tag proves that bytes are the same (RFC 9110 section 8.8.1).
pub(super) fn is_strong(etag: &str) -> bool {
    etag.len() >= 2 && etag.starts_with('"') && etag.ends_with('"')
}

/// Writes the partial file in large pieces on a blocking thread. What was not written when it is dropped is lost, which
/// costs a resume at most two pieces.
#[derive(Debug)]
pub(super) struct PartWriter {
    names: Names,
    file: Arc<File>,
    batch: Vec<Bytes>,
    size: usize,
    writing: Option<JoinHandle<io::Result<()>>>,
}

impl PartWriter {
    /// Starts from nothing and notes where the bytes come from.
    pub(super) fn create(names: &Names, origin: &Origin) -> Result<Self, Error> {
        // The old sidecar goes first: it must never describe new bytes.
        match fs::remove_file(&names.meta) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(names.write_error(error, &names.meta));
            }
            _ => {}
        }
        let create = |path: &Path, text: &str| {
            let mut file = open_own(File::options().write(true).create(true), path)?;
            file.set_len(0)?;
            file.write_all(text.as_bytes())?;
            Ok(file)
        };
        let file = create(&names.part, "").map_err(|error| names.write_error(error, &names.part))?;
        create(&names.meta, &origin.to_text()).map_err(|error| names.write_error(error, &names.meta))?;
        Ok(Self::new(names, file))
    }

    /// Continues after the first `have` bytes.
    pub(super) fn resume(names: &Names, have: u64) -> Result<Self, Error> {
        let open = || {
            let mut file = open_own(File::options().write(true), &names.part)?;
            // Longer than the server was told? Then somebody else wrote to it.
            if file.metadata()?.len() != have {
                return Err(io::Error::other("the partial file changed meanwhile"));
            }
            io::Seek::seek(&mut file, io::SeekFrom::End(0))?;
            Ok(file)
        };
        let file = open().map_err(|error| names.write_error(error, &names.part))?;
        Ok(Self::new(names, file))
    }

    fn new(names: &Names, file: File) -> Self {
        Self { names: names.clone(), file: Arc::new(file), batch: Vec::new(), size: 0, writing: None }
    }

    pub(super) async fn push(&mut self, bytes: Bytes) -> Result<(), Error> {
        self.size += bytes.len();
        self.batch.push(bytes);
        if self.size >= BATCH {
            self.write_batch().await?;
        }
        Ok(())
    }

    async fn write_batch(&mut self) -> Result<(), Error> {
        self.wait().await?;
        let batch = std::mem::take(&mut self.batch);
        self.size = 0;
        let file = Arc::clone(&self.file);
        self.writing = Some(tokio::task::spawn_blocking(move || write_all(&file, &batch)));
        Ok(())
    }

    async fn wait(&mut self) -> Result<(), Error> {
        let Some(writing) = &mut self.writing else {
            return Ok(());
        };
        let result = writing.await.unwrap_or_else(|_| Err(io::Error::other("the writing task was cancelled")));
        self.writing = None;
        result.map_err(|error| self.names.write_error(error, &self.names.part))
    }

    /// Writes what is left; the partial file is then as long as what was pushed.
    pub(super) async fn flush(&mut self) -> Result<(), Error> {
        if !self.batch.is_empty() {
            self.write_batch().await?;
        }
        self.wait().await
    }
}

fn write_all(mut file: &File, batch: &[Bytes]) -> io::Result<()> {
    let mut slices: Vec<IoSlice<'_>> = batch.iter().map(|bytes| IoSlice::new(bytes)).collect();
    let mut slices = slices.as_mut_slice();
    IoSlice::advance_slices(&mut slices, 0); // drops empty ones
    while !slices.is_empty() {
        match file.write_vectored(slices) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut slices, written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin() -> Origin {
        Origin {
            url: "https://h/a b".into(),
            etag: Some("\"x y\"".into()),
            modified: None,
            length: Some(3_000_000),
            coding: Some("gzip".into()),
        }
    }

    #[tokio::test]
    async fn a_partial_file_is_continued_and_completed() {
        let dir = tempfile::tempdir().unwrap();
        let names = Names::new(&dir.path().join("f.bin"));
        let data: Vec<u8> = (0..3_000_000u32).map(|i| (i % 253) as u8).collect();
        let mut writer = PartWriter::create(&names, &origin()).unwrap();
        assert_eq!(names.resumable(), None, "nothing to continue from yet");
        for chunk in data[..2_500_000].chunks(16_000) {
            writer.push(Bytes::copy_from_slice(chunk)).await.unwrap();
        }
        writer.push(Bytes::new()).await.unwrap();
        writer.flush().await.unwrap();
        drop(writer);
        assert_eq!(names.resumable(), Some((2_500_000, origin())));
        assert!(names.kept().unwrap().resumable);
        let mut writer = PartWriter::resume(&names, 2_500_000).unwrap();
        writer.push(Bytes::copy_from_slice(&data[2_500_000..])).await.unwrap();
        writer.flush().await.unwrap();
        assert!(!names.target.exists());
        names.complete().unwrap();
        assert_eq!(fs::read(&names.target).unwrap(), data);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_date_stands_in_for_a_tag_only_if_no_later_change_can_have_it() {
        let origin = |tag: Option<&str>, modified: &str, date: &str| {
            let mut headers = HeaderMap::new();
            for (name, value) in [(ETAG, tag), (LAST_MODIFIED, Some(modified)), (DATE, Some(date))] {
                if let Some(value) = value.filter(|value| !value.is_empty()) {
                    headers.insert(name, value.parse().unwrap());
                }
            }
            Origin::of("https://h/".into(), &headers, Some(9))
        };
        let (then, minute_later) = ("Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:50:37 GMT");
        let by_date = origin(None, then, minute_later);
        assert!(by_date.is_recognizable());
        assert_eq!(by_date.validator(), then);
        assert_eq!(Origin::from_text(&by_date.to_text()), Some(by_date));
        assert_eq!(origin(Some("W/\"a\""), then, minute_later).validator(), then);
        assert_eq!(origin(Some("\"a\""), then, minute_later).validator(), "\"a\"");
        for (modified, date) in [
            (then, "Sun, 06 Nov 1994 08:50:36 GMT"),
            (then, then),
            (minute_later, then),
            (then, ""),
            ("", then),
            (then, "x"),
        ] {
            assert!(!origin(None, modified, date).is_recognizable(), "{modified:?} {date:?}");
        }
    }

    #[test]
    fn what_cannot_be_recognised_again_is_not_continued() {
        let dir = tempfile::tempdir().unwrap();
        let names = Names::new(&dir.path().join("f"));
        let with = |text: &str, size: usize| {
            fs::write(&names.part, vec![0; size]).unwrap();
            fs::write(&names.meta, text).unwrap();
            names.resumable().is_some()
        };
        assert!(with(&origin().to_text(), 5));
        assert!(!with(&origin().to_text(), 0));
        assert!(!with(&origin().to_text(), 3_000_001));
        assert!(!with("", 5));
        assert!(!with("garbage\nurl x\n", 5));
        assert!(!with("thalweg-part 1\nurl x\nlength 9\n", 5));
        assert!(!with("thalweg-part 1\nurl x\netag W/\"a\"\n", 5));
        assert!(!with("thalweg-part 1\nurl x\netag \"a\"\nlength y\n", 5));
        assert!(with("thalweg-part 1\nurl x\netag \"a\"\nfuture thing\n", 5));
        fs::remove_file(&names.meta).unwrap();
        assert!(names.resumable().is_none());
        assert!(!names.kept().unwrap().resumable);
    }

    #[test]
    fn errors_keep_the_part_and_say_where() {
        let dir = tempfile::tempdir().unwrap();
        let names = Names::new(&dir.path().join("none/f"));
        let error = PartWriter::create(&names, &origin()).unwrap_err();
        assert!(error.to_string().contains("create the directory first"), "{error}");
        let names = Names::new(&dir.path().join("f"));
        fs::write(&names.part, "12345").unwrap();
        fs::write(&names.meta, origin().to_text()).unwrap();
        let error = PartWriter::resume(&names, 4).unwrap_err();
        assert!(error.to_string().contains("changed meanwhile") && error.to_string().contains("--resume"), "{error}");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_full_disk_says_make_room() {
        let dir = tempfile::tempdir().unwrap();
        let node = dir.path().join("full");
        // As full(4).
        let made = std::process::Command::new("mknod").arg(&node).args(["c", "1", "7"]).output();
        let Some(file) = made.ok().and_then(|_| File::options().write(true).open(&node).ok()) else {
            println!("skipped: device nodes cannot be made here");
            return;
        };
        let error = write_all(&file, &[Bytes::from_static(b"x")]).unwrap_err();
        let names = Names::new(Path::new("f"));
        assert!(names.write_error(error, &names.part).to_string().contains("make room"));
    }

    #[test]
    #[cfg(unix)]
    fn what_is_no_regular_file_is_never_replaced() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().unwrap();
        let names = Names::new(&dir.path().join("f"));
        fs::write(dir.path().join("precious"), "untouched").unwrap();
        // A link in the place of the partial file is nobody's download.
        symlink("precious", &names.part).unwrap();
        fs::write(&names.meta, origin().to_text()).unwrap();
        assert_eq!((names.resumable(), names.kept()), (None, None));
        let error = PartWriter::create(&names, &origin()).unwrap_err().to_string();
        assert!(error.contains("no regular file"), "{error}");
        fs::remove_file(&names.part).unwrap();
        // Nor is one that comes after all checks; a pipe does not make anybody wait.
        let pipe = dir.path().join("pipe");
        let mut others = vec![dir.path().join("link")];
        symlink("precious", &others[0]).unwrap();
        if std::process::Command::new("mkfifo").arg(&pipe).status().is_ok_and(|made| made.success()) {
            others.push(pipe);
        }
        for path in others {
            for options in [File::options().write(true).create(true), File::options().read(true)] {
                let error = open_own(options, &path).unwrap_err().to_string();
                assert!(error.contains("no regular file"), "{error}");
            }
        }
        // A link that comes to the target's place while the download runs.
        drop(PartWriter::create(&names, &origin()).unwrap());
        symlink("precious", &names.target).unwrap();
        let error = names.complete().unwrap_err().to_string();
        assert!(error.contains("no file any more"), "{error}");
        assert_eq!(fs::read_to_string(dir.path().join("precious")).unwrap(), "untouched");
    }
}
