//! The liveness check of a silent QUIC connection, by a second connection to the server.
//!
//! The transport notices a peer that says that it has lost its state, and a rebinding of our own address. What is left
//! is silence, which has two reasons: the network is out, or the server is gone or knows nothing of the connection any
//! more. A second connection tells them apart with little harm: while the network is out it does not come about either,
//! and the first one goes on when the network is back. That a server which answers the second has forgotten the first
//! is an assumption: behind a load balancer, the first may only have stalled. A download continues by range at little
//! cost, so it takes the risk; an upload does not.
//!
//! If the server gave a session that allows early data, the second connection can be used before its handshake. The
//! transfers that wait for the first one then ask it for what they lack with its first packets ([`super::ahead`]), so
//! that a server that lives costs them no round trip more.

use std::future::Future;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use tokio::sync::watch;

use super::quic::{Failure, Http3, Quic};
use super::report::EventSinkRef;
use super::session::{HttpConnection, Session};

/// Silence, with questions of the transport unanswered, from which on the connection is in doubt. Shorter would dial
/// again for every change of a wireless cell; longer is time lost after a server's restart.
const DOUBT: Duration = Duration::from_secs(2);

/// The same in round trips of the path, where that is more: five questions unanswered.
const DOUBT_ROUND_TRIPS: u32 = 10;

/// The same at most, whatever the path seems to be like.
const DOUBT_MOST: Duration = Duration::from_secs(10);

/// How often a connection in doubt is looked at, and the least time between two second connections.
const PAUSE: Duration = Duration::from_millis(250);

/// Longest time between two second connections; it doubles with each that shows nothing.
const LONGEST_PAUSE: Duration = Duration::from_secs(4);

/// What became of a connection that stopped answering.
#[derive(Default)]
pub(super) struct Life {
    verdict: OnceLock<String>,
    successor: Mutex<Option<Arc<Session>>>,
    /// A second connection that can be used before its handshake, while the first is in doubt.
    early: watch::Sender<Option<Arc<Session>>>,
}

impl Life {
    /// Why the connection was given up, if it was.
    pub(super) fn verdict(&self) -> Option<&str> {
        self.verdict.get().map(String::as_str)
    }

    /// The connection that takes the place of this one, if there is one; given once.
    pub(super) fn successor(&self) -> Option<Arc<Session>> {
        self.successor.lock().ok()?.take()
    }

    /// The second connection that is offered now.
    async fn offered(&self) -> Arc<Session> {
        let mut offers = self.early.subscribe();
        let offer = offers.wait_for(Option::is_some).await.ok().and_then(|offer| offer.clone());
        match offer {
            Some(session) => session,
            None => std::future::pending().await,
        }
    }
}

/// A second connection that can be used before its handshake is complete, once there is one and `http` is silent.
pub(super) async fn early_successor(http: &Http3) -> Arc<Session> {
    loop {
        let session = http.life.offered().await;
        // The offer is taken back only with the next look.
        if http.connection.silence() >= patience(http) {
            return session;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Looks after a session for as long as it lives.
pub(super) fn watch(session: &Arc<Session>, quic: &Quic, name: &str) {
    if !matches!(session.kind, HttpConnection::Http3(_)) {
        return;
    }
    let (session, quic, name) = (Arc::downgrade(session), quic.clone(), name.to_owned());
    tokio::spawn(async move {
        let mut pause = PAUSE;
        while let Some(wait) = next_look(&session) {
            tokio::time::sleep(wait.max(pause)).await;
            if in_doubt(&session) {
                // With a ticket once per silence: what an outage swallows is used up, and of tickets there are few.
                second_connection(&session, &quic, &name, pause == PAUSE).await;
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
        HttpConnection::Http3(http) if http.connection.close_reason().is_none() => Some(look(&session, http)),
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

/// Dials the same address again. If that shows that the server lives without this connection, or that there is no
/// server, this one is given up. Whatever else becomes of the second shows nothing of the first: this side may have no
/// socket left, and a server too busy for another connection may still serve the ones it has. With `ticket`, the second
/// resumes a session if there is one.
async fn second_connection(session: &Weak<Session>, quic: &Quic, name: &str, ticket: bool) {
    let Some(remote) = with(session, |session, _| session.remote) else { return };
    let heard = Default::default();
    let began = std::time::Instant::now();
    let dialer = if ticket { quic.clone() } else { quic.without_tickets() };
    let result =
        match while_in_doubt(session, dialer.connect(remote, name, &heard, ticket, &EventSinkRef::default())).await {
            None => return,
            Some(Ok(mut new)) => {
                if !new.is_early() {
                    new.handshake = began.elapsed();
                }
                let new = Arc::new(new);
                match stands(session, &new).await {
                    true => Ok(new),
                    false => return,
                }
            }
            Some(Err(failure)) => Err(failure),
        };
    // The same session as asked about: by now something may have arrived on it again. Those who waited for it may have
    // gone on with the other one already.
    let silence = with(session, |_, http| Some(http.connection.silence()).filter(|silence| *silence >= patience(http)));
    let Some(silence) = silence.flatten() else {
        if let Ok(new) = result {
            withdraw(session, &new).await;
        }
        return;
    };
    let silent = format!("the server was silent for {:.1} s", silence.as_secs_f64());
    let (verdict, successor) = match result {
        Ok(new) => {
            watch(&new, quic, name);
            (format!("{silent} on this connection, but answers a new one"), Some(new))
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

/// What comes of `future`; `None` if the connection is in doubt no longer.
async fn while_in_doubt<T>(session: &Weak<Session>, future: impl Future<Output = T>) -> Option<T> {
    let mut future = std::pin::pin!(future);
    loop {
        tokio::select! {
            result = &mut future => return Some(result),
            () = tokio::time::sleep(PAUSE) => if !in_doubt(session) { return None },
        }
    }
}

/// Whether the handshake of the second connection comes to an end while the first is in doubt. Until then the second is
/// offered to those who wait for the first.
async fn stands(session: &Weak<Session>, new: &Arc<Session>) -> bool {
    if !new.is_early() {
        return true;
    }
    with(session, |_, http| http.life.early.send_replace(Some(Arc::clone(new))));
    let stands = while_in_doubt(session, new.stands()).await.is_some() && !new.never_stood();
    if !stands {
        withdraw(session, new).await;
    }
    stands
}

/// Offers the second connection no longer, and closes it unless somebody has gone on with it.
async fn withdraw(session: &Weak<Session>, new: &Session) {
    with(session, |_, http| http.life.early.send_replace(None));
    if matches!(&new.kind, HttpConnection::Http3(http) if !http.is_awaited()) {
        new.close().await;
    }
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
