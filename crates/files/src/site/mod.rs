//! The site: a directory of files behind a function from request to response, without any transport.
//!
//! [`Site::answer`] is the whole policy for GET, HEAD and OPTIONS, [`Site::begin_upload`] the one for PUT. Both do file
//! system calls and therefore belong on a thread that may block; HTTP/3, HTTP/2 and HTTP/1.1 share them.

pub mod conditional;
mod page;
pub mod path;
pub mod range;
mod temporary;
mod upload;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use bytes::{Bytes, BytesMut};
use http::header::{
    ACCEPT_RANGES, ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE, DATE,
    ETAG, LAST_MODIFIED, LOCATION, RANGE, SERVER, X_CONTENT_TYPE_OPTIONS,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use crate::content::{Content, Piece, read_exact_at};
use crate::stamp::Stamp;
use conditional::{Precondition, Validators, http_date, unix_seconds};
use path::{CleanPath, Opened, Refusal};
use range::Selection;

pub(crate) use page::human_size;
pub(crate) use path::open_without_links;
pub use upload::Upload;

/// Files up to this size are read while the answer is made: no second trip to a blocking thread for a small file.
const INLINE: u64 = 16 * 1024;

/// How often a small file is read that changes while it is read.
const READ_TRIES: usize = 3;

/// What a [`Site`] allows.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SiteOptions {
    /// Serve and list names that begin with a dot. Default: no; they answer 404, except below `/.well-known/`.
    pub hidden: bool,
    /// Answer a directory that has no `index.html` with a listing. Default: yes; otherwise 403.
    pub listing: bool,
    /// Accept PUT. Default: no (405).
    pub upload: Option<UploadOptions>,
    /// Value of `Cache-Control` on files. Default: `no-cache`, so that caches ask again with the entity tag.
    pub cache_control: Option<HeaderValue>,
}

impl Default for SiteOptions {
    fn default() -> Self {
        Self { hidden: false, listing: true, upload: None, cache_control: Some(HeaderValue::from_static("no-cache")) }
    }
}

/// How uploads are taken.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct UploadOptions {
    /// Largest file accepted, in bytes. Default 64 GiB.
    pub max_size: u64,
    /// Wait until the file is on the disk before answering. Default: no.
    pub fsync: bool,
    /// Replace files that exist. Default: yes; otherwise 409.
    pub overwrite: bool,
}

impl Default for UploadOptions {
    fn default() -> Self {
        Self { max_size: 64 << 30, fsync: false, overwrite: true }
    }
}

/// An answer to one request.
#[derive(Debug)]
pub struct Answer {
    /// Status code.
    pub status: StatusCode,
    /// Headers, `content-length` included where there is one.
    pub headers: HeaderMap,
    /// The body; empty for HEAD.
    pub content: Content,
}

impl Answer {
    fn new(status: StatusCode) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(SERVER, HeaderValue::from_static("thalweg"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        Self { status, headers, content: Content::empty() }
    }

    /// A page that explains `status`.
    #[must_use]
    pub fn error(status: StatusCode, detail: &str) -> Self {
        let mut answer = Self::new(status);
        answer.html(page::error(status, detail));
        answer
    }

    fn html(&mut self, page: String) {
        self.set(CONTENT_TYPE, "text/html; charset=utf-8");
        self.set(CONTENT_SECURITY_POLICY, "default-src 'none'; style-src 'unsafe-inline'");
        self.content = Content::bytes(page);
    }

    fn set(&mut self, name: HeaderName, value: &str) {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
    }

    /// Completes the headers.
    pub(crate) fn finish(mut self, method: &Method, now: SystemTime) -> Self {
        if !matches!(self.status.as_u16(), 204 | 304) {
            self.headers.insert(CONTENT_LENGTH, HeaderValue::from(self.content.len()));
        }
        if *method == Method::HEAD {
            self.content = Content::empty();
        }
        self.set(DATE, &http_date(unix_seconds(now)));
        self
    }
}

/// A directory that is served.
#[derive(Debug)]
pub struct Site {
    root: PathBuf,
    options: SiteOptions,
}

impl Site {
    /// Serves `root`.
    ///
    /// # Errors
    /// When `root` does not exist, may not be read, or is not a directory.
    pub fn new(root: impl AsRef<Path>, options: SiteOptions) -> io::Result<Self> {
        let root = fs::canonicalize(root)?;
        if !fs::metadata(&root)?.is_dir() {
            return Err(io::Error::new(
                io::ErrorKind::NotADirectory,
                "only a directory can be served; name the directory the file is in",
            ));
        }
        Ok(Self { root, options })
    }

    /// The directory served, symbolic links resolved.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The options given to [`Site::new`].
    #[must_use]
    pub fn options(&self) -> &SiteOptions {
        &self.options
    }

    /// Whether the request is one for [`Site::begin_upload`].
    #[must_use]
    pub fn is_upload(&self, request: &Parts) -> bool {
        request.method == Method::PUT && self.options.upload.is_some()
    }

    /// Answers a request that is not an upload. Blocks on the file system. `now` dates the answer.
    #[must_use]
    pub fn answer(&self, request: &Parts, now: SystemTime) -> Answer {
        let answer = match request.method {
            Method::GET | Method::HEAD => self.read_calmly(request, now).unwrap_or_else(refusal),
            Method::OPTIONS => {
                let mut answer = Answer::new(StatusCode::NO_CONTENT);
                answer.set(ALLOW, self.allow());
                answer
            }
            _ => {
                let mut answer = Answer::error(
                    StatusCode::METHOD_NOT_ALLOWED,
                    if request.method == Method::PUT {
                        "This server does not accept uploads."
                    } else {
                        "This server only knows how to send files."
                    },
                );
                answer.set(ALLOW, self.allow());
                answer
            }
        };
        answer.finish(&request.method, now)
    }

    fn allow(&self) -> &'static str {
        if self.options.upload.is_some() { "GET, HEAD, OPTIONS, PUT" } else { "GET, HEAD, OPTIONS" }
    }

    /// Reads again when a small file changed in between, which nobody has seen yet.
    fn read_calmly(&self, request: &Parts, now: SystemTime) -> Result<Answer, Refusal> {
        for _ in 1..READ_TRIES {
            match self.read(request, now) {
                Err(Refusal::Changing) => {}
                result => return result,
            }
        }
        self.read(request, now)
    }

    fn read(&self, request: &Parts, now: SystemTime) -> Result<Answer, Refusal> {
        let path = CleanPath::parse(request.uri.path(), self.options.hidden)?;
        let opened = path::open(&self.root, &path)?;
        if opened.metadata.is_dir() {
            return self.directory(request, &path, &opened, now);
        }
        if path.is_directory() {
            return Err(Refusal::NotFound); // "/file/" is not "/file"
        }
        let name = opened.path.clone();
        // The type follows the name asked for, not the one a symbolic link leads to.
        let kind = content_type(path.file_name().map_or(name.as_path(), Path::new));
        self.file(request, opened, kind, now)
    }

    fn directory(
        &self,
        request: &Parts,
        path: &CleanPath,
        opened: &Opened,
        now: SystemTime,
    ) -> Result<Answer, Refusal> {
        if !path.is_directory() {
            // Relative links in the page need the slash. The location begins with exactly one slash, so it stays on
            // this host.
            let mut location = path.encoded(true);
            if let Some(query) = request.uri.query() {
                location.push('?');
                location.push_str(query);
            }
            let mut answer = Answer::error(StatusCode::PERMANENT_REDIRECT, "");
            answer.set(LOCATION, &location);
            return Ok(answer);
        }
        match path::open(&self.root, &path.join("index.html")) {
            Ok(index) if index.metadata.is_file() => {
                return self.file(request, index, "text/html; charset=utf-8".into(), now);
            }
            Ok(_) | Err(Refusal::NotFound) => {}
            Err(refusal) => return Err(refusal),
        }
        if !self.options.listing {
            return Err(Refusal::Forbidden);
        }
        let page = page::listing(&self.root, &opened.directory_path(), &opened.path, path, self.options.hidden)?;
        let mut answer = Answer::new(StatusCode::OK);
        answer.html(page);
        answer.set(CACHE_CONTROL, "no-cache");
        Ok(answer)
    }

    fn file(&self, request: &Parts, opened: Opened, kind: String, now: SystemTime) -> Result<Answer, Refusal> {
        let file = opened.file.ok_or(Refusal::NotFound)?;
        let stamp = Stamp::of(&opened.metadata);
        let validators = Validators::of(&opened.metadata);

        let headers = &request.headers;
        let mut answer = match conditional::evaluate(headers, Some(&validators), true) {
            Precondition::NotModified => Answer::new(StatusCode::NOT_MODIFIED),
            Precondition::Failed => {
                return Ok(Answer::error(
                    StatusCode::PRECONDITION_FAILED,
                    "The file is not in the version the request asked for.",
                ));
            }
            Precondition::Proceed => {
                // Range means something for GET only (RFC 9110 section 14.2).
                let selection = match headers.get(RANGE) {
                    Some(range)
                        if request.method == Method::GET && conditional::if_range_holds(headers, &validators, now) =>
                    {
                        range::select(range.as_bytes(), stamp.size())
                    }
                    _ => Selection::Whole,
                };
                let mut answer = selected(Arc::new(file), stamp, selection, kind)?;
                answer.content = answer.content.reopened_at(opened.path);
                answer
            }
        };
        answer.set(ETAG, &validators.etag);
        answer.set(LAST_MODIFIED, &validators.last_modified(now));
        answer.headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        if let Some(value) = &self.options.cache_control {
            answer.headers.insert(CACHE_CONTROL, value.clone());
        }
        Ok(answer)
    }
}

fn selected(file: Arc<fs::File>, stamp: Stamp, selection: Selection, kind: String) -> Result<Answer, Refusal> {
    let length = stamp.size();
    let ranges = match selection {
        Selection::Unsatisfiable => {
            let mut answer = Answer::error(StatusCode::RANGE_NOT_SATISFIABLE, &format!("The file has {length} bytes."));
            answer.set(CONTENT_RANGE, &format!("bytes */{length}"));
            return Ok(answer);
        }
        Selection::Whole => {
            let mut answer = Answer::new(StatusCode::OK);
            answer.set(CONTENT_TYPE, &kind);
            answer.content = slice(file, stamp, 0, length)?;
            return Ok(answer);
        }
        Selection::Ranges(ranges) => ranges,
    };
    let mut answer = Answer::new(StatusCode::PARTIAL_CONTENT);
    if let [range] = ranges.as_slice() {
        answer.set(CONTENT_TYPE, &kind);
        answer.set(CONTENT_RANGE, &format!("bytes {}-{}/{length}", range.start, range.end - 1));
        answer.content = slice(file, stamp, range.start, range.end)?;
        return Ok(answer);
    }
    let boundary = random_name()?;
    let mut pieces = Vec::with_capacity(2 * ranges.len() + 1);
    for (index, range) in ranges.into_iter().enumerate() {
        let head = format!(
            "{}--{boundary}\r\ncontent-type: {kind}\r\ncontent-range: bytes {}-{}/{length}\r\n\r\n",
            if index == 0 { "" } else { "\r\n" },
            range.start,
            range.end - 1,
        );
        pieces.push(Piece::Bytes(Bytes::from(head)));
        pieces.push(Piece::File(range));
    }
    pieces.push(Piece::Bytes(Bytes::from(format!("\r\n--{boundary}--\r\n"))));
    answer.set(CONTENT_TYPE, &format!("multipart/byteranges; boundary={boundary}"));
    answer.content = Content::pieces(file, pieces).unchanged_since(stamp);
    Ok(answer)
}

fn slice(file: Arc<fs::File>, stamp: Stamp, start: u64, end: u64) -> Result<Content, Refusal> {
    let size = end - start;
    if size == 0 {
        return Ok(Content::empty());
    }
    if size <= INLINE {
        let mut bytes = BytesMut::zeroed(size as usize);
        let read = read_exact_at(&file, &mut bytes, start).and_then(|()| stamp.check(&file));
        read.map_err(|error| if stamp.check(&file).is_err() { Refusal::Changing } else { Refusal::Io(error) })?;
        return Ok(Content::bytes(bytes.freeze()));
    }
    Ok(Content::pieces(file, [Piece::File(start..end)]).unchanged_since(stamp))
}

fn refusal(refusal: Refusal) -> Answer {
    match refusal {
        Refusal::Malformed(detail) => Answer::error(StatusCode::BAD_REQUEST, detail),
        Refusal::NotFound => Answer::error(StatusCode::NOT_FOUND, "There is nothing at this address."),
        Refusal::Forbidden => Answer::error(StatusCode::FORBIDDEN, "This may not be read by everyone."),
        Refusal::Changing => {
            Answer::error(StatusCode::SERVICE_UNAVAILABLE, "The file is being changed at this moment; ask again.")
        }
        Refusal::Io(_) => Answer::error(StatusCode::INTERNAL_SERVER_ERROR, "The server could not read the file."),
    }
}

/// Media type by file name; text is taken to be UTF-8.
fn content_type(name: &Path) -> String {
    let Some(kind) = mime_guess::from_path(name).first() else {
        return "application/octet-stream".into();
    };
    let text = kind.type_() == "text"
        || matches!(
            kind.essence_str(),
            "application/javascript" | "application/json" | "application/xml" | "image/svg+xml"
        );
    if text && kind.get_param("charset").is_none() { format!("{kind}; charset=utf-8") } else { kind.to_string() }
}

/// 24 random hexadecimal digits.
fn random_name() -> io::Result<String> {
    use ring::rand::SecureRandom as _;
    use std::fmt::Write as _;
    let mut bytes = [0u8; 12];
    ring::rand::SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| io::Error::other("the system has no randomness to give"))?;
    let mut text = String::with_capacity(24);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
