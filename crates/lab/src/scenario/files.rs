//! Files that a scenario consists of: its own text and the traces it names, of bounded size, each read once.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use thalweg_link::trace::{self, Trace};

use crate::hash::Digest;

/// The most bytes of a scenario.
pub(crate) const MOST_SCENARIO: u64 = 16_000_000;
/// The most bytes of a trace.
const MOST_TRACE: u64 = 256_000_000;

/// What is wrong with a text that is too long.
pub(crate) fn too_long(length: u64, most: u64) -> String {
    let megabytes = |bytes: u64| bytes.div_ceil(1_000_000);
    format!("it is {} MB long; at most {} MB are accepted", megabytes(length), megabytes(most))
}

/// The text of a regular file of at most `most` bytes.
///
/// # Errors
/// Why it cannot be read.
pub(crate) fn text(path: &Path, most: u64) -> Result<String, String> {
    let unreadable = |error: std::io::Error| error.to_string();
    let about = std::fs::metadata(path).map_err(unreadable)?;
    if !about.is_file() {
        let kind = if about.is_dir() { "a directory" } else { "a device or a pipe" };
        return Err(format!("it is {kind}, not a regular file"));
    }
    if about.len() > most {
        return Err(too_long(about.len(), most));
    }
    let mut bytes = Vec::new();
    // It may grow meanwhile, and some files do not know their length.
    let file = std::fs::File::open(path).map_err(unreadable)?;
    file.take(most + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > most {
        return Err(too_long(bytes.len() as u64, most));
    }
    String::from_utf8(bytes).map_err(|error| {
        format!("it is not text in UTF-8: the byte at {} does not belong there", error.utf8_error().valid_up_to())
    })
}

/// The traces of a scenario, by the names it gives them. The points of a sweep share them.
pub(crate) struct Traces<'a> {
    directory: &'a Path,
    known: RefCell<BTreeMap<String, Result<Trace, String>>>,
}

impl<'a> Traces<'a> {
    /// Traces in files whose names count from `directory`.
    pub(crate) fn new(directory: &'a Path) -> Self {
        Traces { directory, known: RefCell::default() }
    }

    fn read(&self, name: &str) -> Result<Trace, String> {
        let file = self.directory.join(name);
        let text = text(&file, MOST_TRACE).map_err(|reason| {
            format!(
                "cannot read {}: {reason}; write the name of a file beside the scenario, or lte, leo",
                file.display()
            )
        })?;
        let digest = Digest::of(text.as_bytes()).as_str().to_owned();
        Trace::parse(name, &text, digest).map_err(|error| format!("{}: {error}", file.display()))
    }
}

impl trace::Traces for Traces<'_> {
    /// Built in, or a file.
    fn get(&self, name: &str) -> Result<Trace, String> {
        if let Some(trace) = Trace::synthetic(name) {
            return Ok(trace);
        }
        if let Some(known) = self.known.borrow().get(name) {
            return known.clone();
        }
        let read = self.read(name);
        self.known.borrow_mut().insert(name.to_owned(), read.clone());
        read
    }
}

#[cfg(test)]
mod tests {
    use thalweg_link::trace::Traces as _;

    use super::*;

    #[test]
    fn only_regular_files_of_bounded_size_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x");
        std::fs::write(&path, "12345").unwrap();
        assert_eq!(text(&path, 5), Ok("12345".to_owned()));
        assert_eq!(text(&path, 4), Err("it is 1 MB long; at most 1 MB are accepted".to_owned()));
        std::fs::write(&path, b"ab\xff").unwrap();
        assert!(text(&path, 5).unwrap_err().contains("the byte at 2"));
        assert_eq!(text(directory.path(), 5), Err("it is a directory, not a regular file".to_owned()));
        assert!(text(&directory.path().join("none"), 5).is_err());
        #[cfg(unix)]
        assert_eq!(text(Path::new("/dev/zero"), 5), Err("it is a device or a pipe, not a regular file".to_owned()));
    }

    #[test]
    fn a_trace_is_read_once() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("t"), "1\n2\n").unwrap();
        let traces = Traces::new(directory.path());
        let first = traces.get("t").unwrap();
        std::fs::remove_file(directory.path().join("t")).unwrap();
        assert_eq!(traces.get("t"), Ok(first));
        assert!(traces.get("u").is_err());
    }
}
