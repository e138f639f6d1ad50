//! Retries of a transfer whose connection was lost: when, how often, and the state kept meanwhile.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::ahead::Ahead;
use super::error::Error;

/// Wait before the first further attempt. A server that restarts, or a network that changes, takes about this long;
/// each further attempt without progress doubles it.
const FIRST_WAIT: Duration = Duration::from_millis(250);

/// Longest wait between two attempts.
const LONGEST_WAIT: Duration = Duration::from_secs(8);

/// The attempts of one transfer. Progress, a longer part of the file than ever before, starts the count anew; so there
/// are at most as many attempts as the file has bytes, and in practice few.
#[derive(Debug)]
pub(super) struct Attempts {
    limit: u32,
    /// In a row, without progress.
    failed: u32,
    /// The most bytes of the file that were ever here.
    mark: u64,
    /// The failure after the last progress: what broke the transfer, while later ones only show that it did not mend.
    first: Option<Error>,
}

impl Attempts {
    /// At most `limit` further attempts without progress; `here` bytes were here before the first one.
    pub(super) fn new(limit: u32, here: u64) -> Self {
        Self { limit, failed: 0, mark: here, first: None }
    }

    /// After a failure that a new connection may mend, with `here` bytes of the file on hand: how long to wait before
    /// the next attempt, and which one it is.
    ///
    /// # Errors
    /// The error to report when there is none.
    pub(super) fn next(&mut self, error: Error, here: u64) -> Result<(Duration, u32), Error> {
        self.progress(here);
        if self.failed >= self.limit {
            return Err(self.give_up(error, here));
        }
        self.first.get_or_insert(error);
        self.failed += 1;
        let wait = FIRST_WAIT.saturating_mul(1 << (self.failed - 1).min(16)).min(LONGEST_WAIT);
        Ok((wait, self.failed))
    }

    /// The error to report when `last` is not worth another attempt, with `here` bytes on hand: what broke the
    /// transfer, if `last` only shows that it did not mend. Anything else (a full disk, a stop from outside) speaks for
    /// itself.
    pub(super) fn give_up(&mut self, last: Error, here: u64) -> Error {
        self.progress(here);
        let did_not_mend = matches!(
            last,
            Error::Connect { .. }
                | Error::Resolve { .. }
                | Error::Exchange { .. }
                | Error::Stalled { .. }
                | Error::Status { .. }
        );
        match self.first.take().filter(|_| did_not_mend) {
            None => last,
            Some(first) => first.after_attempts(self.failed, &last),
        }
    }

    /// Notes that `here` bytes are on hand; with more than ever before, earlier failures are mended.
    fn progress(&mut self, here: u64) {
        if here > self.mark {
            self.mark = here;
            self.failed = 0;
            self.first = None;
        }
    }

    pub(super) fn limit(&self) -> u32 {
        self.limit
    }
}

/// What all attempts of a transfer have in common, for its report.
#[derive(Debug, Default)]
pub(super) struct Run {
    /// When the first request was made.
    asked: OnceLock<Instant>,
    /// Bytes of body that travelled.
    travelled: AtomicU64,
    /// Bytes that were on disk before the first answer, unless it turned out to be another file.
    resumed_from: AtomicU64,
    started: AtomicBool,
    connected: AtomicBool,
    /// The partial file on disk is of this run.
    began: AtomicBool,
    /// The server has cancelled the answer under way, and nothing else.
    cancelled: AtomicBool,
    /// The file turned out to be another one than before.
    changed: AtomicBool,
    retries: AtomicU32,
    /// What the next attempt is going to ask for, if it was asked for already.
    pub(super) ahead: Ahead,
}

impl Run {
    pub(super) fn asked(&self) -> Instant {
        *self.asked.get_or_init(Instant::now)
    }

    /// An answer brings what follows the first `from` bytes.
    pub(super) fn started(&self, from: u64) {
        if !self.started.swap(true, Ordering::Relaxed) || from == 0 {
            self.resumed_from.store(from, Ordering::Relaxed);
        }
    }

    pub(super) fn resumed_from(&self) -> u64 {
        self.resumed_from.load(Ordering::Relaxed)
    }

    pub(super) fn add(&self, bytes: usize) {
        self.travelled.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn travelled(&self) -> u64 {
        self.travelled.load(Ordering::Relaxed)
    }

    pub(super) fn set_connected(&self) {
        self.connected.store(true, Ordering::Relaxed);
    }

    /// Whether there ever was a connection: only then is a server that cannot be reached one that may come back, and
    /// not a mistyped address.
    pub(super) fn was_connected(&self) -> bool {
        self.connected.load(Ordering::Relaxed)
    }

    pub(super) fn set_began(&self) {
        self.began.store(true, Ordering::Relaxed);
    }

    pub(super) fn began(&self) -> bool {
        self.began.load(Ordering::Relaxed)
    }

    /// Notes whether the server has cancelled the answer under way. It does so when the file changes while it is sent;
    /// the next answer tells.
    pub(super) fn set_cancelled(&self, cancelled: bool) {
        self.cancelled.store(cancelled, Ordering::Relaxed);
    }

    /// Notes that the file has changed since the answer before.
    pub(super) fn set_changed(&self) {
        self.changed.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_changed(&self) -> bool {
        self.changed.load(Ordering::Relaxed)
    }

    pub(super) fn add_retry(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn retries(&self) -> u32 {
        self.retries.load(Ordering::Relaxed)
    }

    /// Whether a further attempt may mend what went wrong.
    pub(super) fn may_mend(&self, error: &Error) -> bool {
        match error {
            Error::Exchange { lost, .. } => *lost || self.cancelled.load(Ordering::Relaxed),
            Error::Stalled { lost, .. } => *lost,
            Error::Connect { .. } | Error::Resolve { .. } => self.was_connected(),
            // What a proxy says while the server behind it restarts.
            Error::Status { status: 502..=504, .. } => self.retries() > 0,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(why: &str) -> Error {
        Error::Stalled { url: why.into(), silence: Duration::from_secs(1), kept: None, lost: true }
    }

    #[test]
    fn waits_double_and_attempts_end() {
        let mut attempts = Attempts::new(8, 100);
        let waits: Vec<u64> = (0..8).map(|_| attempts.next(lost("x"), 100).unwrap().0.as_millis() as u64).collect();
        assert_eq!(waits, [250, 500, 1000, 2000, 4000, 8000, 8000, 8000]);
        assert!(attempts.next(lost("x"), 100).is_err());
    }

    #[test]
    fn progress_starts_the_count_anew_and_bytes_seen_before_are_none() {
        let mut attempts = Attempts::new(2, 0);
        assert_eq!(attempts.next(lost("a"), 10).unwrap().1, 1);
        assert_eq!(attempts.next(lost("b"), 11).unwrap().1, 1);
        assert_eq!(attempts.next(lost("c"), 11).unwrap().1, 2);
        // Another version of the file, from its beginning.
        let error = attempts.next(lost("d"), 5).unwrap_err().to_string();
        assert!(error.starts_with("b: ") && error.contains("2 further attempts"), "{error}");
    }

    #[test]
    fn an_error_of_another_kind_speaks_for_itself() {
        let stopped = || Error::Stopped { url: "x".into(), kept: None };
        let full = || Error::Write {
            path: "f".into(),
            source: std::sync::Arc::new(std::io::ErrorKind::StorageFull.into()),
            kept: None,
        };
        for other in [stopped as fn() -> Error, full] {
            let mut attempts = Attempts::new(5, 0);
            attempts.next(lost("a"), 10).unwrap();
            assert_eq!(attempts.give_up(other(), 10).category(), other().category());
        }
        let mut attempts = Attempts::new(5, 0);
        attempts.next(lost("a"), 10).unwrap();
        let error = attempts.give_up(Error::Status { url: "x".into(), status: 404 }, 10).to_string();
        assert!(error.starts_with("a: ") && error.contains("404"), "{error}");
    }

    #[test]
    fn a_failure_after_which_bytes_arrived_is_forgotten() {
        let mut attempts = Attempts::new(5, 0);
        attempts.next(lost("a"), 10).unwrap();
        let error = attempts.give_up(lost("b"), 11).to_string();
        assert!(error.starts_with("b: ") && !error.contains("attempt"), "{error}");
    }

    #[test]
    fn without_attempts_the_error_is_what_it_was() {
        let error = Attempts::new(0, 0).next(lost("a"), 10).unwrap_err().to_string();
        assert!(!error.contains("attempt"), "{error}");
    }

    #[test]
    fn an_answer_that_the_server_cancelled_is_asked_for_again() {
        let run = Run::default();
        let error = |lost| Error::Exchange {
            url: String::new(),
            protocol: super::super::report::Protocol::Http3,
            why: String::new(),
            kept: None,
            lost,
        };
        assert!(run.may_mend(&error(true)) && !run.may_mend(&error(false)));
        run.set_cancelled(true);
        assert!(run.may_mend(&error(false)));
        run.set_cancelled(false);
        assert!(!run.may_mend(&error(false)));
    }

    #[test]
    fn a_server_that_never_answered_is_not_asked_again() {
        let run = Run::default();
        let unreachable = Error::Connect { authority: "h:1".into(), attempts: Vec::new() };
        assert!(!run.may_mend(&unreachable));
        run.set_connected();
        assert!(run.may_mend(&unreachable));
        assert!(!run.may_mend(&Error::Status { url: String::new(), status: 503 }));
        run.add_retry();
        assert!(run.may_mend(&Error::Status { url: String::new(), status: 503 }));
        assert!(!run.may_mend(&Error::Status { url: String::new(), status: 404 }));
    }
}
