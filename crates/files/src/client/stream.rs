//! A file that goes into a writer, into what is written in place, or nowhere: continued where it broke off, unless the
//! file has changed.

use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use thalweg_output::InPlace;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

use super::error::Error;
use super::part::{Origin, PartWriter};
use super::report::{Notice, Report};
use super::retry::Attempts;
use super::transfer::{CHANGED, NO_CONTINUATION, Plan, SHORTER, Transfer};
use super::url::Location;

/// Where a transfer without a file of its own stands.
pub(super) struct Stream {
    /// `None`: the bytes are only counted.
    pub writer: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    /// Bytes of the file that went there.
    pub have: u64,
    origin: Origin,
}

impl Stream {
    /// How to go on; `None` when the rest cannot be asked for and the beginning cannot be taken back.
    fn plan(&mut self) -> Option<Plan> {
        if self.have > 0 && self.origin.is_recognizable() {
            return Some(Plan::of(self.have, self.origin.clone()));
        }
        (self.have == 0 || self.rewind()).then_some(Plan::Whole)
    }

    /// Forgets what is here, if nobody has it yet.
    fn rewind(&mut self) -> bool {
        if self.writer.is_none() {
            self.have = 0;
        }
        self.have == 0
    }

    /// Flushes the writer. A complete file is not reported before.
    async fn flush(&mut self) -> Result<(), Error> {
        match &mut self.writer {
            Some(writer) => writer.flush().await.map_err(output_error),
            None => Ok(()),
        }
    }
}

impl Transfer<'_> {
    /// Into what is written where it is: a pipe, a device, a socket or an open descriptor.
    pub(super) async fn in_place(&self, location: Location, path: &Path, place: InPlace) -> Result<Report, Error> {
        if self.inner.options.resume {
            self.sink.notice(Notice::InPlace { path: path.to_owned(), kind: place.kind().to_string() });
        }
        let write_error = |source| Error::Write { path: path.to_owned(), source, kept: None };
        // A pipe with a name waits for its reader.
        let opening = tokio::task::spawn_blocking(move || place.open());
        let opened = tokio::select! {
            opened = opening => opened.unwrap_or_else(|_| Err(io::Error::other("the opening task was cancelled"))),
            () = self.inner.stopped() => return Err(self.stopped()),
        };
        let file = opened.map_err(|error| write_error(Arc::new(error)))?;
        let writer = tokio::fs::File::from_std(file);
        let result = self.to_stream(location, Some(Box::new(writer))).await;
        let report = result.map_err(|error| match error {
            Error::Write { source, .. } => write_error(source),
            error => error,
        })?;
        Ok(Report { path: Some(path.to_owned()), ..report })
    }

    pub(super) async fn to_stream(
        &self,
        location: Location,
        writer: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    ) -> Result<Report, Error> {
        let mut stream = Stream { writer, have: 0, origin: Origin::default() };
        let mut attempts = Attempts::new(self.inner.options.retries, 0);
        let mut plan = Plan::Whole;
        loop {
            let error = match self.to_stream_once(&location, &mut stream, plan).await {
                Ok(report) => return Ok(report),
                Err(error) => error,
            };
            let here = stream.have;
            plan = match stream.plan() {
                Some(plan) => plan,
                None => return Err(attempts.give_up(error, here)),
            };
            self.again(&mut attempts, error, here).await?;
        }
    }

    async fn to_stream_once(&self, location: &Location, stream: &mut Stream, mut plan: Plan) -> Result<Report, Error> {
        loop {
            let mut answered = self.ask(location.clone(), &plan).await?;
            let head = &answered.head;
            let (have, expected) = match (head.status().as_u16(), plan) {
                (200, before) => {
                    if !matches!(before, Plan::Whole) {
                        self.rewind(stream, CHANGED)?;
                    }
                    stream.origin = Origin::of(String::new(), head.headers(), answered.length);
                    (0, answered.length)
                }
                (206, Plan::Rest(have, origin)) => match self.rest(&mut answered, have, &origin)? {
                    Some(total) => (have, total),
                    None => {
                        self.rewind(stream, NO_CONTINUATION)?;
                        plan = Plan::Whole;
                        continue;
                    }
                },
                (304, Plan::Verify(_, origin)) => {
                    answered.coding = origin.coding;
                    stream.flush().await?;
                    return Ok(self.report(&answered, None));
                }
                (416, Plan::Rest(..)) => {
                    self.rewind(stream, SHORTER)?;
                    plan = Plan::Whole;
                    continue;
                }
                (status @ (206 | 304 | 416), _) => return Err(self.unasked(status)),
                (status, _) => return Err(self.status(status)),
            };
            self.coding(answered.coding.as_deref());
            self.body(&mut answered, &mut Output::Stream(stream), have, expected).await?;
            stream.flush().await?;
            return Ok(self.report(&answered, None));
        }
    }

    /// Starts a stream over, unless part of it was written where it cannot be taken back.
    fn rewind(&self, stream: &mut Stream, why: &'static str) -> Result<(), Error> {
        if stream.rewind() {
            self.restarted(why);
            return Ok(());
        }
        let why = format!("{why}, and {} of it were written already", crate::site::human_size(stream.have));
        Err(Error::Answer { url: self.url.clone(), why })
    }
}

/// Where the bytes of an answer go.
pub(super) enum Output<'a> {
    Part(&'a mut PartWriter),
    Stream(&'a mut Stream),
}

impl Output<'_> {
    pub(super) async fn push(&mut self, bytes: Bytes) -> Result<(), Error> {
        match self {
            Output::Part(writer) => writer.push(bytes).await,
            Output::Stream(stream) => {
                // Before: nobody knows how much of a piece a broken writer has taken.
                stream.have += bytes.len() as u64;
                match &mut stream.writer {
                    Some(writer) => writer.write_all(&bytes).await.map_err(output_error),
                    None => Ok(()),
                }
            }
        }
    }
}

fn output_error(source: io::Error) -> Error {
    Error::Write { path: "the output".into(), source: Arc::new(source), kept: None }
}
