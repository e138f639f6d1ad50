//! The missing rest of a download, requested on a second connection while the first is silent for an unknown reason.
//!
//! The request travels with the first packets of the second connection (0-RTT). Whichever connection brings something
//! first is gone on with: if it is the first, the answer of the second is not wanted; if it is the second, its answer
//! is kept for the next attempt, which would have asked for the same.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;

use super::ask::Answered;
use super::broken::Broken;
use super::error::Error;
use super::part::Origin;
use super::session::Session;
use super::transfer::{Plan, Transfer};
use super::url::Location;
use crate::body::ReadBody as _;

/// An answer that came before it was asked for, and how many bytes of the file were here then.
#[derive(Default)]
pub(super) struct Ahead(Mutex<Option<(u64, Answered)>>);

impl std::fmt::Debug for Ahead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ahead({})", self.is_there())
    }
}

impl Ahead {
    pub(super) fn is_there(&self) -> bool {
        self.0.lock().is_ok_and(|answer| answer.is_some())
    }

    fn keep(&self, have: u64, answered: Answered) {
        if let Ok(mut answer) = self.0.lock() {
            *answer = Some((have, answered));
        }
    }

    /// The answer, if it is one to this question.
    pub(super) fn take(&self, plan: &Plan) -> Option<Answered> {
        let (have, answered) = self.0.lock().ok()?.take()?;
        matches!(plan, Plan::Rest(wanted, _) if *wanted == have).then_some(answered)
    }
}

impl Transfer<'_> {
    /// The next bytes of the body, after the first `got` of `expected` ones. If the connection is silent, what is
    /// missing is also asked for elsewhere; an answer from there ends this body.
    ///
    /// # Errors
    /// The outer ones are those of [`patiently_on`](Self::patiently_on), and that the connection has a successor.
    pub(super) async fn next(
        &self,
        answered: &mut Answered,
        got: u64,
        expected: Option<u64>,
    ) -> Result<Result<Option<Bytes>, Broken>, Error> {
        let Answered { session, location, head, body, .. } = answered;
        let session: &Session = session;
        let asks = AtomicBool::new(false);
        let elsewhere = async {
            let other = session.early_successor().await;
            asks.store(true, Ordering::Relaxed);
            let origin = Origin::of(String::new(), head.headers(), expected);
            let found = self.ask_ahead(other, location, got, origin).await;
            asks.store(false, Ordering::Relaxed);
            found
        };
        let mut elsewhere = pin!(elsewhere);
        let next = tokio::select! {
            biased;
            next = self.patiently_on(session, body.next()) => next?,
            true = &mut elsewhere => return Err(self.superseded(session)),
        };
        // The connection is given up as soon as the other one stands, which is before the other one's answer.
        if next.is_err() && asks.load(Ordering::Relaxed) {
            match self.patiently(elsewhere).await {
                Ok(true) => return Err(self.superseded(session)),
                // The next attempt asks again.
                Ok(false) | Err(Error::Stalled { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(next)
    }

    /// Asks for what follows the first `got` bytes, if they can be recognized. Whether there is an answer that brings
    /// bytes of the file: any other is for those who ask in the ordinary way, which follows redirects and tries again.
    async fn ask_ahead(&self, session: Arc<Session>, location: &Location, got: u64, origin: Origin) -> bool {
        let plan = Plan::of(got, origin);
        if !matches!(&plan, Plan::Rest(have, origin) if *have > 0 && origin.is_recognizable()) {
            return false;
        }
        match self.ask_on(session, location.clone(), &plan, true).await {
            Ok(answered) if matches!(answered.head.status().as_u16(), 200 | 206) => {
                self.run.ahead.keep(got, answered);
                true
            }
            _ => false,
        }
    }

    fn superseded(&self, session: &Session) -> Error {
        let why = session.verdict().unwrap_or_else(|| "the server was silent, but answers a new connection".into());
        Error::Exchange { url: self.url.clone(), protocol: session.protocol(), why, kept: None, lost: true }
    }
}
