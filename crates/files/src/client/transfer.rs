//! One file on its way: what is on disk already, the body, the end.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_RANGE, ETAG, LAST_MODIFIED};
use thalweg_output::Place;
use tokio::io::AsyncWrite;

use super::Inner;
use super::ask::Answered;
use super::error::Error;
use super::head;
use super::part::{Names, Origin, PartWriter, strong_etag};
use super::report::{Event, EventSinkRef, Meter, Notice, Report, rate_bps};
use super::retry::{Attempts, Run};
use super::session::Session;
use super::stream::Output;
use super::url::Location;

/// Where a file goes.
#[non_exhaustive]
pub enum Target {
    /// To this path, links followed. A regular file, or what is not there yet, gets its name when it is complete, and
    /// is `PATH.part` until then. A pipe, a device, a socket or an open descriptor such as `/dev/stdout` is written
    /// where it is, as for [`Target::Writer`]. A directory is an error before the server is asked.
    File(PathBuf),
    /// Into a writer, as it comes. Continued after a lost connection, but not by a later run.
    Writer(Box<dyn AsyncWrite + Send + Unpin>),
    /// Nowhere: only counted.
    Discard,
}

/// How much to ask for.
#[derive(Clone)]
pub(super) enum Plan {
    Whole,
    /// Continue after this many bytes.
    Rest(u64, Origin),
    /// All of it seems to be here; ask whether it still is the file.
    Verify(u64, Origin),
}

impl Plan {
    /// For what follows the first `have` bytes of a file that can be recognized.
    pub(super) fn of(have: u64, origin: Origin) -> Self {
        if origin.length == Some(have) { Plan::Verify(have, origin) } else { Plan::Rest(have, origin) }
    }
}

pub(super) const CHANGED: &str = "the file on the server has changed";
pub(super) const NO_CONTINUATION: &str = "the server's answer does not continue the partial file";
pub(super) const SHORTER: &str = "the file on the server is shorter than the partial one";

/// A running job.
pub(super) struct Transfer<'a> {
    pub inner: &'a Inner,
    pub job: usize,
    pub sink: EventSinkRef,
    pub url: String,
    pub run: Run,
}

impl Transfer<'_> {
    pub(super) async fn get(&self, target: Target) -> Result<Report, Error> {
        let location = Location::parse(&self.url)?;
        match target {
            Target::File(path) => match self.place(&path)? {
                Place::File(target) => self.to_file(location, &path, &target).await,
                Place::InPlace(place) => self.in_place(location, &path, place).await,
            },
            Target::Writer(writer) => self.to_stream(location, Some(writer)).await,
            Target::Discard => self.to_stream(location, None).await,
        }
    }

    /// After a failed attempt, with `here` bytes on hand: waits until the next one is due.
    pub(super) async fn again(&self, attempts: &mut Attempts, error: Error, here: u64) -> Result<(), Error> {
        if !self.run.may_mend(&error) {
            return Err(attempts.give_up(error, here));
        }
        // That is answered by this attempt.
        self.run.set_cancelled(false);
        let why = error.cause();
        let (wait, attempt) = attempts.next(error, here)?;
        let wait = if self.run.ahead.is_there() { Duration::ZERO } else { wait };
        let limit = attempts.limit();
        self.run.add_retry();
        self.sink.notice(Notice::Retrying { url: self.url.clone(), why, here, wait, attempt, limit });
        tokio::select! {
            () = tokio::time::sleep(wait) => Ok(()),
            () = self.inner.stopped() => Err(self.stopped()),
        }
    }

    /// What the name of a target leads to.
    fn place(&self, path: &Path) -> Result<Place, Error> {
        Place::of(path).map_err(|source| Error::Write { path: path.to_owned(), source: Arc::new(source), kept: None })
    }

    async fn to_file(&self, location: Location, path: &Path, target: &Path) -> Result<Report, Error> {
        let names = Names::new(target);
        let here = || names.kept().map_or(0, |kept| kept.bytes);
        let resumed = if self.inner.options.resume { here() } else { 0 };
        let mut attempts = Attempts::new(self.inner.options.retries, resumed);
        loop {
            let error = match self.to_file_once(&location, path, &names).await {
                Ok(report) => return Ok(report),
                Err(error) => error,
            };
            let here = if self.run.began() { here() } else { resumed };
            let kept = |error: Error| if self.run.began() { error.with_kept(names.kept()) } else { error };
            self.again(&mut attempts, error, here).await.map_err(kept)?;
        }
    }

    async fn to_file_once(&self, location: &Location, path: &Path, names: &Names) -> Result<Report, Error> {
        let origin_url = location.uri.to_string();
        let mut plan = self.plan(names, &origin_url);
        loop {
            let mut answered = self.ask(location.clone(), &plan).await?;
            let head = &answered.head;
            match (head.status().as_u16(), plan) {
                (200, before) => {
                    if !matches!(before, Plan::Whole) {
                        self.restarted(CHANGED);
                    }
                    let origin = Origin::of(origin_url, head.headers(), answered.length);
                    let expected = answered.length;
                    self.coding(answered.coding.as_deref());
                    let writer = PartWriter::create(names, &origin)?;
                    self.write(&mut answered, names, writer, 0, expected).await?;
                    return Ok(self.report(&answered, Some(path)));
                }
                (206, Plan::Rest(have, origin)) => {
                    let Some(total) = self.rest(&mut answered, have, &origin)? else {
                        self.restarted(NO_CONTINUATION);
                        plan = Plan::Whole;
                        continue;
                    };
                    self.coding(answered.coding.as_deref());
                    let writer = PartWriter::resume(names, have)?;
                    self.write(&mut answered, names, writer, have, total).await?;
                    return Ok(self.report(&answered, Some(path)));
                }
                (304, Plan::Verify(have, origin)) => {
                    self.started(Some(have), have);
                    self.coding(origin.coding.as_deref());
                    answered.coding = origin.coding;
                    names.complete()?;
                    return Ok(self.report(&answered, Some(path)));
                }
                (416, Plan::Rest(..)) => {
                    self.restarted(SHORTER);
                    plan = Plan::Whole;
                }
                (status @ (206 | 304 | 416), _) => return Err(self.unasked(status)),
                (status, _) => return Err(self.status(status)),
            }
        }
    }

    fn plan(&self, names: &Names, url: &str) -> Plan {
        // What an earlier run has left is continued only if that is wanted; what this one has, always.
        if !self.inner.options.resume && !self.run.began() {
            return Plan::Whole;
        }
        match names.resumable() {
            Some((have, origin)) if origin.url == url => Plan::of(have, origin),
            Some(_) => {
                self.restarted("the partial file is from another URL");
                Plan::Whole
            }
            None => {
                // One without a byte has nothing to lose: the connection broke before the first.
                if names.kept().is_some_and(|kept| kept.bytes > 0) {
                    self.restarted("the partial file has no entity tag or date to resume by");
                }
                Plan::Whole
            }
        }
    }

    /// Waits for `future` no longer than the idle time, and not after a stop.
    pub(super) async fn patiently<T>(&self, future: impl Future<Output = T>) -> Result<T, Error> {
        let silence = self.inner.options.idle_timeout;
        tokio::select! {
            biased;
            result = tokio::time::timeout(silence, future) => result.map_err(|_| Error::Stalled {
                url: self.url.clone(),
                silence,
                kept: None,
                lost: false,
            }),
            () = self.inner.stopped() => Err(self.stopped()),
        }
    }

    /// The same for a future that needs an answer on `session`.
    pub(super) async fn patiently_on<T>(&self, session: &Session, future: impl Future<Output = T>) -> Result<T, Error> {
        self.patiently(future).await.map_err(|error| match error {
            Error::Stalled { url, silence, kept, .. } => {
                Error::Stalled { url, silence, kept, lost: !session.is_answering(silence) }
            }
            error => error,
        })
    }

    async fn write(
        &self,
        answered: &mut Answered,
        names: &Names,
        mut writer: PartWriter,
        have: u64,
        expected: Option<u64>,
    ) -> Result<(), Error> {
        self.run.set_began();
        let mut output = Output::Part(&mut writer);
        let result = self.body(answered, &mut output, have, expected).await;
        // What arrived before an error is worth keeping, and its own error matters only if there was no other.
        let flushed = writer.flush().await;
        match result.and(flushed) {
            Ok(()) => {
                drop(writer);
                names.complete()
            }
            Err(error @ Error::TooLong { .. }) => {
                names.discard();
                Err(error)
            }
            Err(error) => Err(error.with_kept(names.kept())),
        }
    }

    /// Moves the body, of which `have` bytes are here.
    pub(super) async fn body(
        &self,
        answered: &mut Answered,
        output: &mut Output<'_>,
        have: u64,
        expected: Option<u64>,
    ) -> Result<(), Error> {
        self.started(expected, have);
        let mut meter = Meter::new(self.job, self.sink.clone(), expected, have);
        let mut got = have;
        loop {
            let bytes = match self.next(answered, got, expected).await? {
                Ok(Some(bytes)) => bytes,
                Ok(None) => break,
                Err(broken) => {
                    self.run.set_cancelled(broken.cancelled);
                    let why = match broken.cancelled && self.run.has_changed() {
                        true => format!("{CHANGED} more than once; {}", broken.why),
                        false => broken.why,
                    };
                    return Err(self.exchange(&answered.session, why).await);
                }
            };
            self.run.add(bytes.len());
            got += bytes.len() as u64;
            if let Some(expected) = expected.filter(|expected| got > *expected) {
                return Err(Error::TooLong { url: self.url.clone(), expected });
            }
            if let Some(limiter) = &self.inner.limiter {
                tokio::select! {
                    () = limiter.take(bytes.len()) => {}
                    () = self.inner.stopped() => {
                        output.push(bytes).await?;
                        return Err(self.stopped());
                    }
                }
            }
            meter.add(bytes.len());
            if let Output::Part(writer) = output {
                writer.push(bytes).await?;
                continue;
            }
            // Whoever reads a pipe may take long, and a stop must not wait for it.
            tokio::select! {
                biased;
                pushed = output.push(bytes) => pushed?,
                () = self.inner.stopped() => return Err(self.stopped()),
            }
        }
        meter.finish();
        match expected {
            Some(expected) if got < expected => {
                Err(Error::Incomplete { url: self.url.clone(), got, expected, kept: None })
            }
            _ => Ok(()),
        }
    }

    /// The length the answer promises; an error when it promises several.
    pub(super) fn content_length(&self, headers: &HeaderMap) -> Result<Option<u64>, Error> {
        head::content_length(headers).map_err(|why| self.answer(why))
    }

    /// Whether a 206 continues what is here exactly; if so, the length of the whole (the inner `None`: not stated).
    pub(super) fn rest(
        &self,
        answered: &mut Answered,
        have: u64,
        origin: &Origin,
    ) -> Result<Option<Option<u64>>, Error> {
        let headers = answered.head.headers();
        // Half of one coding and half of another would be no file at all. An answer to If-Range need not name the
        // coding again (RFC 9110 section 15.3.7).
        let same_coding = !headers.contains_key(CONTENT_ENCODING) || answered.coding == origin.coding;
        let total = continues(headers, have, origin).filter(|_| same_coding);
        if total.is_some() {
            answered.coding.clone_from(&origin.coding);
        }
        match (answered.length, total) {
            (Some(length), Some(Some(total))) if length != total - have => Err(self.answer(format!(
                "the server's Content-Length of {length} does not fit its Content-Range, which leaves {}",
                total - have
            ))),
            _ => Ok(total),
        }
    }

    /// Reports a body in a coding other than the file's own.
    pub(super) fn coding(&self, coding: Option<&str>) {
        if let Some(coding) = coding {
            self.sink.notice(Notice::Encoded { url: self.url.clone(), coding: coding.to_owned() });
        }
    }

    pub(super) fn answer(&self, why: impl Into<String>) -> Error {
        Error::Answer { url: self.url.clone(), why: why.into() }
    }

    fn started(&self, total: Option<u64>, resumed_from: u64) {
        self.run.started(resumed_from);
        self.sink.emit(&Event::Started { job: self.job, total, resumed_from });
    }

    pub(super) fn restarted(&self, why: &'static str) {
        if why == CHANGED {
            self.run.set_changed();
        }
        self.sink.notice(Notice::Restarted { url: self.url.clone(), why });
    }

    pub(super) fn status(&self, status: u16) -> Error {
        Error::Status { url: self.url.clone(), status }
    }

    pub(super) fn unasked(&self, status: u16) -> Error {
        self.answer(format!("the server answered {status} though that was not asked for"))
    }

    pub(super) async fn exchange(&self, session: &Session, why: String) -> Error {
        let lost = session.is_lost().await;
        let why = session.verdict().unwrap_or(why);
        Error::Exchange { url: self.url.clone(), protocol: session.protocol(), why, kept: None, lost }
    }

    pub(super) fn stopped(&self) -> Error {
        Error::Stopped { url: self.url.clone(), kept: None }
    }

    pub(super) fn report(&self, answered: &Answered, path: Option<&Path>) -> Report {
        let elapsed = answered.asked.elapsed();
        let bytes = self.run.travelled();
        Report {
            url: self.url.clone(),
            final_url: answered.location.uri.to_string(),
            status: answered.head.status().as_u16(),
            protocol: answered.session.protocol(),
            remote: answered.session.remote,
            path: path.map(Path::to_owned),
            bytes,
            resumed_from: self.run.resumed_from(),
            content_encoding: answered.coding.clone(),
            resumed: answered.session.resumed(),
            early_data: answered.early.then(|| answered.session.early_data_accepted()),
            retries: self.run.retries(),
            etag: answered.head.headers().get(ETAG).and_then(|value| value.to_str().ok()).map(str::to_owned),
            resolve: answered.session.resolve,
            handshake: answered.session.handshake,
            first_byte: answered.first_byte,
            elapsed,
            goodput_bps: rate_bps(bytes, elapsed),
            connection: answered.session.report(),
        }
    }
}

/// Whether a 206 continues the partial file exactly; if so, the length of the whole (the inner `None`: not stated).
pub(super) fn continues(headers: &HeaderMap, have: u64, origin: &Origin) -> Option<Option<u64>> {
    let text = headers.get(CONTENT_RANGE)?.to_str().ok()?;
    let (range, total) = text.trim().strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last): (u64, u64) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    let total: Option<u64> = match total.trim() {
        "*" => None,
        digits => Some(digits.parse().ok()?),
    };
    let to_the_end = total.is_none_or(|total| last.checked_add(1) == Some(total));
    let same_length = origin.length.is_none() || total.is_none() || origin.length == total;
    // A 206 must repeat the tag (RFC 9110 section 15.3.7); if it does not, If-Range has done the checking.
    let tag = strong_etag(headers);
    let same_tag = tag.is_none() || tag == origin.etag;
    let date = headers.get(LAST_MODIFIED).and_then(|value| value.to_str().ok());
    let same_date = origin.etag.is_some() || date.is_none() || date == origin.modified.as_deref();
    (first == have && last >= first && to_the_end && same_length && same_tag && same_date)
        .then_some(total.or(origin.length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_that_continues_exactly_is_appended() {
        let origin = Origin { etag: Some("\"a\"".into()), length: Some(100), ..Origin::default() };
        let check = |range: &str, tag: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_RANGE, range.parse().unwrap());
            if let Some(tag) = tag {
                headers.insert(ETAG, tag.parse().unwrap());
            }
            continues(&headers, 40, &origin)
        };
        assert_eq!(check("bytes 40-99/100", Some("\"a\"")), Some(Some(100)));
        assert_eq!(check("bytes 40-99/100", None), Some(Some(100)));
        assert_eq!(check("bytes 40-99/*", None), Some(Some(100)));
        for range in [
            "bytes 39-99/100",
            "bytes 41-99/100",
            "bytes 40-98/100",
            "bytes 40-199/200",
            "bytes */100",
            "items 40-99/100",
            "bytes 40-18446744073709551615/0",
            "",
        ] {
            assert_eq!(check(range, None), None, "{range}");
        }
        assert_eq!(check("bytes 40-99/100", Some("\"b\"")), None);
        assert_eq!(continues(&HeaderMap::new(), 40, &origin), None);
    }
}
