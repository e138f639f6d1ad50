//! One file on its way: the request, redirects, what is on disk already, the body, the end.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_RANGE, ETAG, IF_NONE_MATCH, IF_RANGE, LOCATION, RANGE, USER_AGENT,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

use super::Inner;
use super::error::Error;
use super::head;
use super::part::{Names, Origin, PartWriter, is_strong};
use super::report::{Event, EventSinkRef, Meter, Notice, Report, rate_bps};
use super::session::{Body, SendBody, Session};
use super::url::Location;

/// Where a file goes.
#[non_exhaustive]
pub enum Target {
    /// To this path, by way of `PATH.part`.
    File(PathBuf),
    /// Into a writer, as it comes. Cannot be resumed.
    Writer(Box<dyn AsyncWrite + Send + Unpin>),
    /// Nowhere: only counted.
    Discard,
}

/// How much to ask for.
#[derive(Clone)]
enum Plan {
    Whole,
    /// Continue after this many bytes.
    Rest(u64, Origin),
    /// All of it seems to be here; ask whether it still is the file.
    Verify(u64, Origin),
}

/// A running job.
pub(super) struct Transfer<'a> {
    pub inner: &'a Inner,
    pub job: usize,
    pub sink: EventSinkRef,
    pub url: String,
}

/// A head of an answer that is worth looking at.
struct Answered {
    session: Arc<Session>,
    location: Location,
    head: Response<()>,
    /// Length the body should have, if promised.
    length: Option<u64>,
    /// Coding of the body, if it has one.
    coding: Option<String>,
    body: Body,
    asked: Instant,
    first_byte: std::time::Duration,
}

impl Transfer<'_> {
    pub(super) async fn get(&self, target: Target) -> Result<Report, Error> {
        let location = Location::parse(&self.url)?;
        match target {
            Target::File(path) => self.to_file(location, &path).await,
            Target::Writer(writer) => self.to_writer(location, Some(writer)).await,
            Target::Discard => self.to_writer(location, None).await,
        }
    }

    async fn to_writer(
        &self,
        location: Location,
        mut writer: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    ) -> Result<Report, Error> {
        let mut answered = self.ask(location, &Plan::Whole).await?;
        let status = answered.head.status().as_u16();
        if status != 200 {
            return Err(self.status(status));
        }
        let expected = answered.length;
        self.coding(answered.coding.as_deref());
        let mut output = Output::Writer(writer.as_mut());
        let bytes = self.body(&mut answered, &mut output, 0, expected).await?;
        if let Some(writer) = &mut writer {
            writer.flush().await.map_err(|error| output_error(error, None))?;
        }
        Ok(self.report(&answered, None, bytes, 0))
    }

    async fn to_file(&self, location: Location, path: &Path) -> Result<Report, Error> {
        let names = Names::new(path);
        let origin_url = location.uri.to_string();
        let mut plan = self.plan(&names, &origin_url);
        loop {
            let mut answered = self.ask(location.clone(), &plan).await?;
            let head = &answered.head;
            match (head.status().as_u16(), plan) {
                (200, before) => {
                    if !matches!(before, Plan::Whole) {
                        self.restarted("the file on the server has changed");
                    }
                    let (expected, coding) = (answered.length, answered.coding.clone());
                    self.coding(coding.as_deref());
                    let origin = Origin { url: origin_url, etag: etag(head.headers()), length: expected, coding };
                    let writer = PartWriter::create(&names, &origin)?;
                    let bytes = self.write(&mut answered, &names, writer, 0, expected).await?;
                    return Ok(self.report(&answered, Some(path), bytes, 0));
                }
                (206, Plan::Rest(have, origin)) => {
                    let total = match continues(head.headers(), have, &origin) {
                        // Half of one coding and half of another would be no file at all.
                        Some(total) if answered.coding == origin.coding => total,
                        _ => {
                            self.restarted("the server's answer does not continue the partial file");
                            plan = Plan::Whole;
                            continue;
                        }
                    };
                    if let (Some(length), Some(total)) = (answered.length, total)
                        && length != total - have
                    {
                        return Err(self.answer(format!(
                            "the server's Content-Length of {length} does not fit its Content-Range, which leaves {}",
                            total - have
                        )));
                    }
                    self.coding(answered.coding.as_deref());
                    let writer = PartWriter::resume(&names, have)?;
                    let bytes = self.write(&mut answered, &names, writer, have, total).await?;
                    return Ok(self.report(&answered, Some(path), bytes, have));
                }
                (304, Plan::Verify(have, origin)) => {
                    self.started(Some(have), have);
                    self.coding(origin.coding.as_deref());
                    answered.coding = origin.coding;
                    names.complete()?;
                    return Ok(self.report(&answered, Some(path), 0, have));
                }
                (416, Plan::Rest(..)) => {
                    self.restarted("the file on the server is shorter than the partial one");
                    plan = Plan::Whole;
                }
                (status @ (206 | 304 | 416), _) => {
                    return Err(self.answer(format!("the server answered {status} though that was not asked for")));
                }
                (status, _) => return Err(self.status(status)),
            }
        }
    }

    fn plan(&self, names: &Names, url: &str) -> Plan {
        if !self.inner.options.resume {
            return Plan::Whole;
        }
        match names.resumable() {
            Some((have, origin)) if origin.url == url => {
                if origin.length == Some(have) {
                    Plan::Verify(have, origin)
                } else {
                    Plan::Rest(have, origin)
                }
            }
            Some(_) => {
                self.restarted("the partial file is from another URL");
                Plan::Whole
            }
            None => {
                if names.part.exists() {
                    self.restarted("the partial file has no entity tag to resume by");
                }
                Plan::Whole
            }
        }
    }

    /// Asks for the file and follows redirects.
    async fn ask(&self, mut location: Location, plan: &Plan) -> Result<Answered, Error> {
        let limit = self.inner.options.max_redirects;
        for _ in 0..=limit {
            let answered = self.ask_once(location, plan).await?;
            let status = answered.head.status().as_u16();
            if !matches!(status, 301 | 302 | 303 | 307 | 308) {
                return Ok(answered);
            }
            let target = answered.head.headers().get(LOCATION);
            let Some(target) = target.and_then(|value| value.to_str().ok()) else {
                return Err(self.answer(format!("the server answered {status} without saying where to go")));
            };
            let next = answered.location.join(target).map_err(|_| self.answer(no_way_to(target)))?;
            self.sink.notice(Notice::Redirected { from: answered.location.uri.to_string(), to: next.uri.to_string() });
            location = next;
        }
        Err(Error::Redirects { url: self.url.clone(), limit })
    }

    async fn ask_once(&self, location: Location, plan: &Plan) -> Result<Answered, Error> {
        let first = Location::parse(&self.url)?;
        let mut request = self.request(Method::GET, &location, location.authority() == first.authority());
        let headers = request.headers_mut();
        let mut set = |name: HeaderName, value: &str| {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(name, value);
            }
        };
        match plan {
            Plan::Whole => {}
            Plan::Rest(have, origin) => {
                set(RANGE, &format!("bytes={have}-"));
                set(IF_RANGE, origin.etag.as_deref().unwrap_or_default());
            }
            Plan::Verify(_, origin) => {
                set(IF_NONE_MATCH, origin.etag.as_deref().unwrap_or_default());
            }
        }
        let session = self.session(&location).await?;
        let asked = Instant::now();
        let exchange = session.request(request);
        let (head, body) = self.patiently(exchange).await?.map_err(|why| self.exchange(&session, why))?;
        let length = self.content_length(head.headers())?;
        let coding = head::content_encoding(head.headers());
        Ok(Answered { session, location, head, length, coding, body, asked, first_byte: asked.elapsed() })
    }

    pub(super) async fn session(&self, location: &Location) -> Result<Arc<Session>, Error> {
        let session = tokio::select! {
            session = self.inner.session(location, &self.sink) => session?,
            () = self.inner.stopped() => return Err(self.stopped()),
        };
        self.sink.emit(&Event::Connected {
            job: self.job,
            protocol: session.protocol(),
            remote: session.remote,
            handshake: session.handshake,
        });
        Ok(session)
    }

    /// Headers common to all requests; the user's own (credentials among them) only for the authority he named.
    pub(super) fn request(&self, method: Method, location: &Location, own: bool) -> Request<SendBody> {
        let mut request = Request::new(SendBody::empty());
        *request.method_mut() = method;
        *request.uri_mut() = location.uri.clone();
        let headers = request.headers_mut();
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("thalweg/", env!("CARGO_PKG_VERSION"))));
        headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
        // Ranges and lengths are of the file itself, not of a compressed form.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if own {
            for name in self.inner.options.headers.keys() {
                headers.remove(name);
            }
            for (name, value) in &self.inner.options.headers {
                headers.append(name, value.clone());
            }
        }
        request
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
            }),
            () = self.inner.stopped() => Err(self.stopped()),
        }
    }

    async fn write(
        &self,
        answered: &mut Answered,
        names: &Names,
        mut writer: PartWriter,
        have: u64,
        expected: Option<u64>,
    ) -> Result<u64, Error> {
        let mut output = Output::Part(&mut writer);
        let result = self.body(answered, &mut output, have, expected).await;
        // What arrived before an error is worth keeping, and its own error matters only if there was no other.
        let flushed = writer.flush().await;
        match result.and_then(|bytes| flushed.map(|()| bytes)) {
            Ok(bytes) => {
                drop(writer);
                names.complete()?;
                Ok(bytes)
            }
            Err(error @ Error::TooLong { .. }) => {
                names.discard();
                Err(error)
            }
            Err(error) => Err(error.with_kept(names.kept())),
        }
    }

    /// Moves the body; returns how many bytes arrived in this answer.
    async fn body(
        &self,
        answered: &mut Answered,
        output: &mut Output<'_>,
        have: u64,
        expected: Option<u64>,
    ) -> Result<u64, Error> {
        self.started(expected, have);
        let mut meter = Meter::new(self.job, self.sink.clone(), expected, have);
        let mut got = have;
        while let Some(bytes) =
            self.patiently(answered.body.next()).await?.map_err(|why| self.exchange(&answered.session, why))?
        {
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
            output.push(bytes).await?;
        }
        meter.finish();
        match expected {
            Some(expected) if got < expected => {
                Err(Error::Incomplete { url: self.url.clone(), got, expected, kept: None })
            }
            _ => Ok(got - have),
        }
    }

    /// The length the answer promises; an error when it promises several.
    pub(super) fn content_length(&self, headers: &HeaderMap) -> Result<Option<u64>, Error> {
        head::content_length(headers).map_err(|why| self.answer(why))
    }

    /// The answer's body in a coding other than the file's own, and a notice of it.
    fn coding(&self, coding: Option<&str>) {
        if let Some(coding) = coding {
            self.sink.notice(Notice::Encoded { url: self.url.clone(), coding: coding.to_owned() });
        }
    }

    fn answer(&self, why: impl Into<String>) -> Error {
        Error::Answer { url: self.url.clone(), why: why.into() }
    }

    fn started(&self, total: Option<u64>, resumed_from: u64) {
        self.sink.emit(&Event::Started { job: self.job, total, resumed_from });
    }

    fn restarted(&self, why: &'static str) {
        self.sink.notice(Notice::Restarted { url: self.url.clone(), why });
    }

    pub(super) fn status(&self, status: u16) -> Error {
        Error::Status { url: self.url.clone(), status }
    }

    pub(super) fn exchange(&self, session: &Session, why: String) -> Error {
        Error::Exchange { url: self.url.clone(), protocol: session.protocol(), why, kept: None }
    }

    pub(super) fn stopped(&self) -> Error {
        Error::Stopped { url: self.url.clone(), kept: None }
    }

    fn report(&self, answered: &Answered, path: Option<&Path>, bytes: u64, resumed_from: u64) -> Report {
        let elapsed = answered.asked.elapsed();
        Report {
            url: self.url.clone(),
            final_url: answered.location.uri.to_string(),
            status: answered.head.status().as_u16(),
            protocol: answered.session.protocol(),
            remote: answered.session.remote,
            path: path.map(Path::to_owned),
            bytes,
            resumed_from,
            content_encoding: answered.coding.clone(),
            etag: answered.head.headers().get(ETAG).and_then(|value| value.to_str().ok()).map(str::to_owned),
            resolve: answered.session.resolve,
            handshake: answered.session.handshake,
            first_byte: answered.first_byte,
            elapsed,
            goodput_bps: rate_bps(bytes, elapsed),
            connection: answered.session.stats(),
        }
    }
}

/// What to say of a redirect that is not followed.
fn no_way_to(target: &str) -> String {
    if target.trim().get(..7).is_some_and(|start| start.eq_ignore_ascii_case("http://")) {
        format!("the server redirects to {target}, which is not encrypted; only https:// is followed")
    } else {
        format!("the server redirects to {target}, which cannot be used; only https://HOST[:PORT]/PATH is followed")
    }
}

/// Whether a 206 continues the partial file exactly; if so, the length of the whole (the inner `None`: not told).
fn continues(headers: &HeaderMap, have: u64, origin: &Origin) -> Option<Option<u64>> {
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
    let same_tag = etag(headers).is_none() || etag(headers) == origin.etag;
    (first == have && last >= first && to_the_end && same_length && same_tag).then_some(total.or(origin.length))
}

/// The entity tag, if it is strong.
fn etag(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(ETAG)?.to_str().ok()?.trim();
    is_strong(text).then(|| text.to_owned())
}

enum Output<'a> {
    Part(&'a mut PartWriter),
    Writer(Option<&'a mut Box<dyn AsyncWrite + Send + Unpin>>),
}

impl Output<'_> {
    async fn push(&mut self, bytes: Bytes) -> Result<(), Error> {
        match self {
            Output::Part(writer) => writer.push(bytes).await,
            Output::Writer(None) => Ok(()),
            Output::Writer(Some(writer)) => writer.write_all(&bytes).await.map_err(|error| output_error(error, None)),
        }
    }
}

fn output_error(source: std::io::Error, kept: Option<super::error::Kept>) -> Error {
    Error::Write { path: "the output".into(), source: Arc::new(source), kept }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_that_continues_exactly_is_appended() {
        let origin = Origin { url: String::new(), etag: Some("\"a\"".into()), length: Some(100), coding: None };
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
