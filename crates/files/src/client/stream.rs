//! A file that goes into a writer or nowhere: continued where it broke off, unless the file has changed.

use tokio::io::{AsyncWrite, AsyncWriteExt as _};

use super::error::Error;
use super::part::Origin;
use super::report::Report;
use super::retry::Attempts;
use super::transfer::{CHANGED, NO_CONTINUATION, Output, Plan, SHORTER, Transfer, output_error};
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

    /// Hands on what the writer may still hold. A complete file is not told before.
    async fn flush(&mut self) -> Result<(), Error> {
        match &mut self.writer {
            Some(writer) => writer.flush().await.map_err(|error| output_error(error, None)),
            None => Ok(()),
        }
    }
}

impl Transfer<'_> {
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
