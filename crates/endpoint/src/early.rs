//! Separation of early data (0-RTT) from data after the handshake.

use std::{future::poll_fn, task::Poll};

use crate::{connection::Connection, error::ConnectionError};

impl Connection {
    /// Whether the handshake is not complete yet.
    ///
    /// On a server, all that can be read while it is not has come in 0-RTT packets and may be a replay (RFC 9001
    /// section 9.2). What arrived early and is read later, when this is false, is not a replay: only the client itself
    /// can have completed the handshake. On a client, all that is written while it is not travels as 0-RTT.
    pub fn is_handshaking(&self) -> bool {
        !self.handle().lock().connected
    }

    /// Waits until the handshake is complete; at once if it is. Cancel-safe.
    ///
    /// # Errors
    ///
    /// The reason the connection was lost before.
    pub async fn handshake_complete(&self) -> Result<(), ConnectionError> {
        poll_fn(|cx| {
            let mut state = self.handle().lock();
            if state.connected {
                return Poll::Ready(Ok(()));
            }
            state.check()?;
            state.waiting.handshake.register(cx.waker());
            Poll::Pending
        })
        .await
    }

    /// Whether 0-RTT data were accepted; `None` if there were none, or while that is open.
    pub fn early_data_accepted(&self) -> Option<bool> {
        self.handle().lock().machine.early_data_accepted()
    }
}
