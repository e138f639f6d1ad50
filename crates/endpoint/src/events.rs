//! Events of a connection's path, as a stream.

use thalweg_proto::connection::Event;
pub use thalweg_proto::connection::PathEvent;
use tokio::sync::broadcast::{Receiver, error::RecvError};

use crate::socket::canonical;

/// The path's part of `event`, with addresses as people write them.
pub(crate) fn path_event(event: &Event) -> Option<PathEvent> {
    let Event::Path(event) = event else { return None };
    Some(match *event {
        PathEvent::Changed { remote } => PathEvent::Changed { remote: canonical(remote) },
        PathEvent::Validated { remote } => PathEvent::Validated { remote: canonical(remote) },
        PathEvent::Opened { id, remote } => PathEvent::Opened { id, remote: canonical(remote) },
        event => event,
    })
}

/// The path events of a connection, from the moment of subscribing.
///
/// See [`Connection::path_events`](crate::Connection::path_events).
#[derive(Debug)]
pub struct PathEvents {
    receiver: Receiver<PathEvent>,
}

impl PathEvents {
    pub(crate) fn new(receiver: Receiver<PathEvent>) -> Self {
        Self { receiver }
    }

    /// The next event; `None` once the connection is over.
    ///
    /// A reader that falls 64 events behind misses the oldest. Cancel-safe.
    pub async fn next(&mut self) -> Option<PathEvent> {
        loop {
            match self.receiver.recv().await {
                Ok(event) => return Some(event),
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return None,
            }
        }
    }
}
