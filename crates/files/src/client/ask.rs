//! One question for a file: on which connection, with which headers, and where redirects lead.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::{ACCEPT, ACCEPT_ENCODING, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, LOCATION, RANGE, USER_AGENT};
use http::{HeaderName, HeaderValue, Method, Request, Response};

use super::error::Error;
use super::head;
use super::report::{Event, Notice};
use super::session::{Body, SendBody, Session};
use super::transfer::{Plan, Transfer};
use super::url::Location;

/// A head of an answer that is worth looking at.
pub(super) struct Answered {
    pub session: Arc<Session>,
    pub location: Location,
    pub head: Response<()>,
    /// Length the body should have, if promised.
    pub length: Option<u64>,
    /// Coding of the body, if it has one.
    pub coding: Option<String>,
    pub body: Body,
    /// When the first request of the transfer was made.
    pub asked: Instant,
    /// From this request to the head of its answer.
    pub first_byte: Duration,
    /// Whether the request travelled as early data.
    pub early: bool,
}

/// The same request again; one that has no body.
fn copy(request: &Request<SendBody>) -> Request<SendBody> {
    let mut copy = Request::new(SendBody::empty());
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    copy
}

impl Transfer<'_> {
    /// Asks for the file and follows redirects.
    pub(super) async fn ask(&self, mut location: Location, plan: &Plan) -> Result<Answered, Error> {
        if let Some(answered) = self.run.ahead.take(plan) {
            return Ok(answered);
        }
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
        // Requests without a body can be made again, so they need not wait for the handshake (RFC 8470 section 4).
        let session = self.session_for(&location, true).await?;
        self.ask_on(session, location, plan, false).await
    }

    /// Asks on a connection. If it is lost before its handshake is complete, or the request came too early, then again
    /// after a handshake, unless only this connection is to be asked.
    pub(super) async fn ask_on(
        &self,
        mut session: Arc<Session>,
        location: Location,
        plan: &Plan,
        only: bool,
    ) -> Result<Answered, Error> {
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
                set(IF_RANGE, origin.validator());
            }
            Plan::Verify(_, origin) => match &origin.etag {
                Some(etag) => set(IF_NONE_MATCH, etag),
                None => set(IF_MODIFIED_SINCE, origin.validator()),
            },
        }
        let asked = self.run.asked();
        let mut sent = Instant::now();
        let mut early = session.is_early();
        loop {
            let exchange = session.request(copy(&request));
            let refused = match self.patiently_on(&session, exchange).await? {
                // Too Early (RFC 8470 section 5.2).
                Ok((head, mut body)) if early && head.status().as_u16() == 425 => {
                    body.discard().await;
                    None
                }
                Ok((head, mut body)) => {
                    let first_byte = sent.elapsed();
                    if !head.status().is_success() {
                        body.discard().await;
                    }
                    let length = self.content_length(head.headers())?;
                    let coding = head::content_encoding(head.headers());
                    return Ok(Answered { session, location, head, length, coding, body, asked, first_byte, early });
                }
                Err(why) => Some(why),
            };
            match refused {
                Some(why) if only || !early || !session.never_stood() => {
                    return Err(self.exchange(&session, why).await);
                }
                None if only => return Err(self.status(425)),
                _ => {}
            }
            early = false;
            session = self.session(&location).await?;
            sent = Instant::now();
        }
    }

    /// A connection whose handshake is complete.
    pub(super) async fn session(&self, location: &Location) -> Result<Arc<Session>, Error> {
        loop {
            let session = self.session_for(location, false).await?;
            session.stands().await;
            if !session.never_stood() {
                return Ok(session);
            }
        }
    }

    /// A connection; with `early`, perhaps one whose handshake is not complete.
    async fn session_for(&self, location: &Location, early: bool) -> Result<Arc<Session>, Error> {
        // Another attempt wants another connection, but shares it with the other transfers that need one.
        let since = (self.run.retries() > 0).then(Instant::now);
        let session = tokio::select! {
            session = self.inner.session(location, &self.sink, since, early) => session?,
            () = self.inner.stopped() => return Err(self.stopped()),
        };
        if !session.is_early() {
            self.run.set_connected();
        }
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
}

/// What to say of a redirect that is not followed.
fn no_way_to(target: &str) -> String {
    if target.trim().get(..7).is_some_and(|start| start.eq_ignore_ascii_case("http://")) {
        format!("the server redirects to {target}, which is not encrypted; only https:// is followed")
    } else {
        format!("the server redirects to {target}, which cannot be used; only https://HOST[:PORT]/PATH is followed")
    }
}
