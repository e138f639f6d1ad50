//! Uploads: PUT writes to a temporary file that gets its name when, and only when, everything arrived.

use std::fs::{self, File, Metadata};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use http::header::{CONTENT_LENGTH, CONTENT_RANGE, ETAG};
use http::request::Parts;
use http::{Method, StatusCode};

use super::conditional::{self, Precondition, Validators};
use super::path::{self, CleanPath, Refusal};
use super::temporary::{self, Temporary};
use super::{Answer, Site, UploadOptions, refusal};

/// A file on its way in. Dropped before [`Upload::finish`], it leaves nothing behind.
#[derive(Debug)]
pub struct Upload {
    temporary: Option<Temporary>,
    target: PathBuf,
    existed: bool,
    /// Whether anything that is there in the end is in the way (`If-None-Match: *`).
    must_create: bool,
    expected: Option<u64>,
    received: u64,
    options: UploadOptions,
}

impl Site {
    /// Removes the temporary files that servers left below the root when they were killed, and returns their number.
    /// Those of running uploads stay, also of other servers. Blocks on the file system.
    pub fn remove_abandoned_uploads(&self) -> usize {
        temporary::sweep(self.root())
    }

    /// Begins an upload, or returns at once why not. Blocks on the file system.
    ///
    /// The target's directory must exist (409). A symbolic link is followed as it is for GET, and stays; one that leads
    /// out of the root, or nowhere, is refused (403). So are devices, pipes and sockets. `If-Match` and `If-None-Match`
    /// are honoured, so that `If-None-Match: *` creates and never replaces.
    ///
    /// # Errors
    /// The answer to give when the upload is refused; the request's body need not be read.
    pub fn begin_upload(&self, request: &Parts, now: SystemTime) -> Result<Upload, Box<Answer>> {
        self.try_begin(request).map_err(|answer| Box::new(answer.finish(&Method::PUT, now)))
    }

    // Both outcomes are answers of about the same size; a box would only add an allocation.
    #[allow(clippy::result_large_err)]
    fn try_begin(&self, request: &Parts) -> Result<Upload, Answer> {
        let Some(options) = self.options().upload.clone() else {
            return Err(Answer::error(StatusCode::METHOD_NOT_ALLOWED, "This server does not accept uploads."));
        };
        if request.headers.contains_key(CONTENT_RANGE) {
            return Err(Answer::error(
                StatusCode::BAD_REQUEST,
                "Only whole files can be uploaded; Content-Range is not accepted.",
            ));
        }
        let expected = match request.headers.get(CONTENT_LENGTH) {
            None => None,
            Some(value) => match value.to_str().ok().and_then(|text| text.parse::<u64>().ok()) {
                Some(length) => Some(length),
                None => {
                    return Err(Answer::error(StatusCode::BAD_REQUEST, "Content-Length must be a number."));
                }
            },
        };
        if expected.is_some_and(|length| length > options.max_size) {
            return Err(too_large(&options));
        }
        let path = CleanPath::parse(request.uri.path(), self.options().hidden).map_err(refusal)?;
        let (Some(name), false) = (path.file_name(), path.is_directory()) else {
            return Err(Answer::error(StatusCode::CONFLICT, "The address must name a file; it ends in '/'."));
        };
        let parent = match path::open(self.root(), &path.parent()) {
            Ok(parent) if parent.metadata.is_dir() => parent,
            Err(Refusal::NotFound) if path::leads_out(self.root(), &path.parent()) => return Err(outside()),
            Ok(_) | Err(Refusal::NotFound) => {
                return Err(Answer::error(StatusCode::CONFLICT, "The directory of the address does not exist."));
            }
            Err(other) => return Err(refusal(other)),
        };
        let (target, metadata) = place(self.root(), parent.path.join(name))?;
        let (existed, current) = (metadata.is_some(), metadata.as_ref().map(Validators::of));
        if conditional::evaluate(&request.headers, current.as_ref(), false) != Precondition::Proceed {
            return Err(other_version());
        }
        if existed && !options.overwrite {
            return Err(exists());
        }
        let directory = target.parent().unwrap_or(self.root());
        let mut temporary = Temporary::create(directory).map_err(|error| storage(&error))?;
        // The directory could have become a link since it was resolved: ask where the new file really is.
        let metadata = temporary.file().metadata().map_err(|error| storage(&error))?;
        let asked = temporary.path().to_path_buf();
        if !path::is_inside(self.root(), &asked, temporary.file(), &metadata) {
            return Err(refusal(Refusal::NotFound));
        }
        let must_create = conditional::must_create(&request.headers);
        Ok(Upload { temporary: Some(temporary), target, existed, must_create, expected, received: 0, options })
    }
}

impl Upload {
    /// Takes the next bytes of the body. Blocks on the file system.
    ///
    /// # Errors
    /// The answer to give (413 beyond the size limit, 400 beyond `Content-Length`, 507 when the disk is full); drop the
    /// upload.
    pub fn write(&mut self, data: &[u8]) -> Result<(), Box<Answer>> {
        self.received += data.len() as u64;
        let problem = if self.received > self.options.max_size {
            too_large(&self.options)
        } else if self.expected.is_some_and(|length| self.received > length) {
            Answer::error(StatusCode::BAD_REQUEST, "The body is longer than Content-Length.")
        } else {
            match self.temporary.as_mut().map(|temporary| temporary.file().write_all(data)) {
                Some(Ok(())) => return Ok(()),
                Some(Err(error)) => storage(&error),
                None => Answer::error(StatusCode::INTERNAL_SERVER_ERROR, ""),
            }
        };
        Err(Box::new(problem.finish(&Method::PUT, SystemTime::now())))
    }

    /// Bytes taken so far.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.received
    }

    /// The body ended regularly: puts the file in its place and answers 201 (new) or 204 (replaced). Blocks on the file
    /// system.
    #[must_use]
    pub fn finish(mut self, now: SystemTime) -> Answer {
        self.put_in_place().unwrap_or_else(|answer| answer).finish(&Method::PUT, now)
    }

    // Both outcomes are answers of about the same size; a box would only add an allocation.
    #[allow(clippy::result_large_err)]
    fn put_in_place(&mut self) -> Result<Answer, Answer> {
        if let Some(length) = self.expected
            && length != self.received
        {
            return Err(Answer::error(
                StatusCode::BAD_REQUEST,
                &format!("The body has {} bytes but Content-Length says {length}; nothing was stored.", self.received),
            ));
        }
        let Some(mut temporary) = self.temporary.take() else {
            return Err(Answer::error(StatusCode::INTERNAL_SERVER_ERROR, ""));
        };
        if self.options.fsync {
            temporary.file().sync_all().map_err(|error| storage(&error))?;
        }
        let metadata = temporary.file().metadata().map_err(|error| storage(&error))?;
        // Another program, or another upload, may have put something there since this one began.
        if let Ok(there) = fs::symlink_metadata(&self.target) {
            if self.must_create {
                return Err(other_version());
            }
            if there.is_symlink() {
                return Err(Answer::error(
                    StatusCode::CONFLICT,
                    "A link has come to this address during the upload; nothing was stored.",
                ));
            }
            check_replaceable(&there)?;
        }
        let replace = self.options.overwrite && !self.must_create;
        temporary.place(self.target.file_name().unwrap_or_default(), replace).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists if self.must_create => other_version(),
            io::ErrorKind::AlreadyExists if !replace => exists(),
            _ => storage(&error),
        })?;
        if self.options.fsync
            && cfg!(unix)
            && let Some(parent) = self.target.parent()
        {
            // The name, too, must survive a power cut.
            File::open(parent).and_then(|directory| directory.sync_all()).map_err(|error| storage(&error))?;
        }
        let mut answer = Answer::new(if self.existed { StatusCode::NO_CONTENT } else { StatusCode::CREATED });
        answer.set(ETAG, &Validators::of(&metadata).etag);
        Ok(answer)
    }
}

/// Where an upload to `asked`, whose directory is below `root`, is stored, and what is there now.
// Both outcomes are answers of about the same size; a box would only add an allocation.
#[allow(clippy::result_large_err)]
fn place(root: &Path, asked: PathBuf) -> Result<(PathBuf, Option<Metadata>), Answer> {
    let look = |path: &Path| fs::symlink_metadata(path).map_err(|error| refusal(error.into()));
    let (target, metadata) = match fs::symlink_metadata(&asked) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((asked, None)),
        Err(error) => return Err(refusal(error.into())),
        Ok(metadata) if metadata.is_symlink() => {
            let real = match fs::canonicalize(&asked) {
                Ok(real) if real.starts_with(root) => real,
                // What lies beyond a link that leads out is not disclosed, not even that it is nothing.
                Err(_) if ends_inside(root, &asked) => {
                    return Err(Answer::error(
                        StatusCode::FORBIDDEN,
                        "There is a link to nothing at this address; links are followed to files only.",
                    ));
                }
                _ => return Err(outside()),
            };
            let metadata = look(&real)?;
            (real, metadata)
        }
        Ok(metadata) => (asked, metadata),
    };
    check_replaceable(&metadata)?;
    Ok((target, Some(metadata)))
}

/// Whether the directory that the link `asked` names, with no other link behind it, is below `root`.
fn ends_inside(root: &Path, asked: &Path) -> bool {
    let target = fs::read_link(asked).ok().and_then(|target| Some(asked.parent()?.join(target)));
    let Some(target) = target.filter(|target| !target.is_symlink()) else { return false };
    target.parent().and_then(|parent| fs::canonicalize(parent).ok()).is_some_and(|parent| parent.starts_with(root))
}

/// That what is there is a regular file.
// Both outcomes are answers of about the same size; a box would only add an allocation.
#[allow(clippy::result_large_err)]
fn check_replaceable(there: &Metadata) -> Result<(), Answer> {
    if there.is_dir() {
        return Err(Answer::error(StatusCode::CONFLICT, "There is a directory at this address."));
    }
    if !there.is_file() {
        return Err(special());
    }
    Ok(())
}

fn exists() -> Answer {
    Answer::error(StatusCode::CONFLICT, "The file exists and this server does not replace files.")
}

fn other_version() -> Answer {
    Answer::error(
        StatusCode::PRECONDITION_FAILED,
        "The file on the server is not in the version the request asked for.",
    )
}

fn outside() -> Answer {
    Answer::error(StatusCode::FORBIDDEN, "The address goes through a link that leads out of the directory served.")
}

fn special() -> Answer {
    Answer::error(
        StatusCode::FORBIDDEN,
        "There is a device, a pipe or a socket at this address; only files are stored.",
    )
}

fn too_large(options: &UploadOptions) -> Answer {
    Answer::error(StatusCode::PAYLOAD_TOO_LARGE, &format!("Files may have at most {} bytes.", options.max_size))
}

fn storage(error: &io::Error) -> Answer {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            Answer::error(StatusCode::INSUFFICIENT_STORAGE, "The server's disk is full; nothing was stored.")
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            Answer::error(StatusCode::FORBIDDEN, "The server may not write in this directory.")
        }
        _ => Answer::error(StatusCode::INTERNAL_SERVER_ERROR, "The server could not store the file."),
    }
}
