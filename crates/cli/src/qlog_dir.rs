//! One qlog file per connection in a directory.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use thalweg::proto::observe::{ObservedConnection, Observer, ObserverFactory};
use thalweg::proto::qlog::{self, QlogWriter};

/// Writes `<ODCID>_<client|server>.sqlog` into a directory for each connection.
///
/// A trace that cannot be written is reported on stderr once and never disturbs the connection.
#[derive(Debug)]
pub struct QlogDir {
    directory: PathBuf,
    told: AtomicBool,
}

impl QlogDir {
    /// Makes `directory` if it is not there.
    ///
    /// # Errors
    ///
    /// When it cannot be made, or is something else than a directory.
    pub fn new(directory: &Path) -> std::io::Result<Self> {
        if std::fs::metadata(directory).is_ok_and(|found| !found.is_dir()) {
            let why = "it is there and no directory; name one, or one to be made";
            return Err(std::io::Error::new(std::io::ErrorKind::NotADirectory, why));
        }
        std::fs::create_dir_all(directory)?;
        Ok(QlogDir { directory: directory.to_owned(), told: AtomicBool::new(false) })
    }
}

impl ObserverFactory for QlogDir {
    fn build(&self, connection: &ObservedConnection<'_>) -> Option<Box<dyn Observer>> {
        let path = self.directory.join(qlog::file_name(connection));
        let now = rfc3339(SystemTime::now());
        let writer = File::create(&path)
            .and_then(|file| QlogWriter::new(BufWriter::with_capacity(1 << 16, file), connection, Some(&now)));
        match writer {
            Ok(writer) => Some(Box::new(writer)),
            Err(error) => {
                if !self.told.swap(true, Ordering::Relaxed) {
                    eprintln!("thalweg: no trace: cannot write {}: {error}", path.display());
                }
                None
            }
        }
    }
}

/// UTC as RFC 3339 has it, with milliseconds.
fn rfc3339(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    // From days to the calendar: eras of 400 years that begin on 1 March (Hinnant, "chrono-compatible low-level date
    // algorithms"); no negative days here.
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:03}Z",
        second / 3600,
        second / 60 % 60,
        second % 60,
        since.subsec_millis()
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_file_is_no_place_for_traces() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        std::fs::write(&path, "x").unwrap();
        assert!(QlogDir::new(&path).unwrap_err().to_string().contains("no directory"));
        assert!(QlogDir::new(&directory.path().join("new/deep")).is_ok());
    }

    #[test]
    fn the_calendar_is_right_around_leap_days() {
        let at = |seconds: u64| rfc3339(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(at(951_782_399), "2000-02-28T23:59:59.000Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00.000Z");
        assert_eq!(at(951_868_800), "2000-03-01T00:00:00.000Z");
        assert_eq!(at(1_767_225_599), "2025-12-31T23:59:59.000Z");
        assert_eq!(at(1_767_225_600), "2026-01-01T00:00:00.000Z");
    }
}
