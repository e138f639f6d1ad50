//! Whether the server still knows a QUIC connection: asked by a second connection when the first is silent.
//!
//! The transport notices a peer that says that it has lost its state, and a rebinding of our own address. What is left
//! is silence, which has two reasons: the network is out, or the server is gone or knows nothing of the connection any
//! more. A second connection tells them apart with little harm: while the network is out it does not come about either,
//! and the first one goes on when the network is back. That a server which answers the second has forgotten the first
//! is an assumption: behind a load balancer, the first may only have stalled. A download continues by range at little
//! cost, so it takes the risk; an upload does not.

use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use super::quic::{Failure, Http3, Quic};
use super::session::{Kind, Session};

/// Silence, with questions of the transport unanswered, from which on the connection is in doubt. Shorter would dial
/// again for every change of a wireless cell; longer is time lost after a server's restart.
const DOUBT: Duration = Duration::from_secs(2);

/// The same in round trips of the path, where that is more: five questions unanswered.
const DOUBT_ROUND_TRIPS: u32 = 10;

/// The same at most, whatever the path seems to be like.
const DOUBT_MOST: Duration = Duration::from_secs(10);

/// How often a connection in doubt is looked at, and the least time between two second connections.
const PAUSE: Duration = Duration::from_millis(250);

/// Longest time between two second connections; it doubles with each that tells nothing.
const LONGEST_PAUSE: Duration = Duration::from_secs(4);

/// What became of a connection that stopped answering.
#[derive(Default)]
pub(super) struct Life {
    verdict: OnceLock<String>,
    successor: Mutex<Option<Box<Session>>>,
}

impl Life {
    /// Why the connection was given up, if it was.
    pub(super) fn verdict(&self) -> Option<&str> {
        self.verdict.get().map(String::as_str)
    }

    /// The connection that takes the place of this one, if there is one; given once.
    pub(super) fn successor(&self) -> Option<Session> {
        Some(*self.successor.lock().ok()?.take()?)
    }
}

/// Looks after a session for as long as it lives.
pub(super) fn watch(session: &Arc<Session>, quic: &Quic, name: &str) {
    if !matches!(session.kind, Kind::Http3(_)) {
        return;
    }
    let (session, quic, name) = (Arc::downgrade(session), quic.clone(), name.to_owned());
    tokio::spawn(async move {
        let mut pause = PAUSE;
        while let Some(wait) = next_look(&session) {
            tokio::time::sleep(wait.max(pause)).await;
            if in_doubt(&session) {
                second_connection(&session, &quic, &name).await;
                pause = (2 * pause).min(LONGEST_PAUSE);
            } else {
                pause = PAUSE;
            }
        }
    });
}

fn with<T>(session: &Weak<Session>, look: impl FnOnce(&Session, &Http3) -> T) -> Option<T> {
    let session = session.upgrade()?;
    match &session.kind {
        Kind::Http3(http) if http.connection.close_reason().is_none() => Some(look(&session, http)),
        _ => None,
    }
}

/// Silence from which on this connection is in doubt.
fn patience(http: &Http3) -> Duration {
    (http.connection.rtt() * DOUBT_ROUND_TRIPS).clamp(DOUBT, DOUBT_MOST)
}

/// When to look again; `None` once the connection is over.
fn next_look(session: &Weak<Session>) -> Option<Duration> {
    with(session, |_, http| patience(http).saturating_sub(http.connection.silence()))
}

fn in_doubt(session: &Weak<Session>) -> bool {
    with(session, |_, http| {
        is_doubtful(http.is_awaited(), http.carries_upload(), http.connection.silence(), patience(http))
    })
    .unwrap_or(false)
}

/// Whether to ask for a connection that was silent for `silence`. Not while it carries an upload: nobody can tell
/// whether what was sent is stored, so it is not tried again, and giving it up would lose it for certain.
fn is_doubtful(awaited: bool, upload: bool, silence: Duration, patience: Duration) -> bool {
    awaited && !upload && silence >= patience
}

/// Dials the same address again. If that tells that the server lives without this connection, or that there is no
/// server, this one is given up. Whatever else becomes of the second tells nothing of the first: this side may have no
/// socket left, and a server too busy for another connection may still serve the ones it has.
async fn second_connection(session: &Weak<Session>, quic: &Quic, name: &str) {
    let Some(remote) = with(session, |session, _| session.remote) else { return };
    let heard = Default::default();
    let began = std::time::Instant::now();
    let mut dialing = std::pin::pin!(quic.connect(remote, name, &heard, false));
    let result = loop {
        tokio::select! {
            result = &mut dialing => break result,
            () = tokio::time::sleep(PAUSE) => if !in_doubt(session) { return },
        }
    };
    let seconds = |span: Duration| format!("{:.1} s", span.as_secs_f64());
    // The same session as asked about: by now it may have been heard again.
    if !in_doubt(session) {
        return;
    }
    let silence = with(session, |_, http| http.connection.silence()).unwrap_or_default();
    let silent = format!("the server was silent for {}", seconds(silence));
    let (verdict, successor) = match result {
        Ok(mut new) => {
            new.handshake = began.elapsed();
            (format!("{silent} on this connection, but answers a new one"), Some(Box::new(new)))
        }
        Err(Failure::Refused) => (format!("{silent}, and now its host refuses UDP on this port"), None),
        Err(Failure::Silent | Failure::Handshake(_)) => return,
    };
    with(session, |_, http| {
        let _ = http.life.verdict.set(verdict);
        if let Ok(mut slot) = http.life.successor.lock() {
            *slot = successor;
        }
        http.give_up();
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_silent_connection_that_owes_an_answer_and_carries_no_upload_is_in_doubt() {
        let (short, long) = (Duration::from_secs(1), Duration::from_secs(3));
        assert!(is_doubtful(true, false, long, DOUBT));
        assert!(!is_doubtful(true, false, short, DOUBT));
        assert!(!is_doubtful(false, false, long, DOUBT));
        assert!(!is_doubtful(true, true, long, DOUBT), "it carries an upload");
    }
}
