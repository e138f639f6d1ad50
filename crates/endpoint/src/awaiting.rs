//! Waiting for the peer: while a handle lives, a silent peer is asked whether it is still there.

use std::time::Duration;

use crate::{cell::ConnectionRef, connection::Connection};

/// Says that the application waits for the peer, for as long as it lives. See [`Connection::await_peer`].
///
/// It is a handle of the connection like any other: the connection is not closed before it is dropped.
#[derive(Debug)]
#[must_use = "nothing is awaited once it is dropped"]
pub struct AwaitedPeer {
    connection: ConnectionRef,
}

impl Connection {
    /// Notifies the transport that the application waits for something of the peer, such as the answer to a request,
    /// until the result is dropped.
    ///
    /// An application that only waits sends nothing, and so does not notice that a NAT has given it another address or
    /// that the peer has been restarted; it would wait for the idle timeout. While anything is awaited, a silence of
    /// three probe timeouts (at least 100 ms, at most 3 s) is answered with a PING, and with more at intervals that
    /// double up to a second. [`silence`](Self::silence) returns how long nothing has arrived from the peer.
    ///
    /// This is for times of waiting. To hold an idle connection open, use [`set_keep_alive`](Self::set_keep_alive).
    pub fn await_peer(&self) -> AwaitedPeer {
        let connection = self.handle().clone();
        let mut state = connection.lock();
        state.awaited += 1;
        if state.awaited == 1 {
            let now = connection.now();
            state.machine.set_awaiting(now, true);
            connection.unlock_and_drive(state);
        } else {
            drop(state);
        }
        AwaitedPeer { connection }
    }

    /// How long no packet of the peer was received.
    pub fn silence(&self) -> Duration {
        let connection = self.handle();
        let now = connection.now();
        connection.lock().machine.silence(now)
    }
}

impl Drop for AwaitedPeer {
    fn drop(&mut self) {
        let mut state = self.connection.lock();
        state.awaited -= 1;
        if state.awaited == 0 {
            let now = self.connection.now();
            state.machine.set_awaiting(now, false);
        }
    }
}
