//! What the first request and the first answer of a connection wait for.

use std::future::{Future, poll_fn};
use std::pin::pin;

use thalweg::Connection;

/// Awaits `writing`. What is written leaves when it is done or has to wait, where it was held back from the end of the
/// handshake on ([`hold`](thalweg::Connecting::hold)).
pub(crate) async fn released<F: Future>(connection: &Connection, writing: F) -> F::Output {
    let mut writing = pin!(writing);
    poll_fn(|cx| {
        let polled = writing.as_mut().poll(cx);
        connection.release();
        polled
    })
    .await
}
