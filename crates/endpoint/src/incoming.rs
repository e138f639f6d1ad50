//! A connection that a client asks for and the application has not decided about.

use std::{
    future::{Future, IntoFuture},
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll},
};

use thalweg_proto::{cid::ConnectionId, udp::DatagramMeta};

use crate::{
    cell::{ConnectionRef, TurnAway, wake_all},
    config::ServerConfig,
    connection::{Connecting, Connection},
    error::ConnectionError,
    socket::canonical,
};

/// A connection that a client asks for.
///
/// Nothing has been answered yet. Decide with [`accept`](Self::accept), [`accept_with`](Self::accept_with),
/// [`retry`](Self::retry), [`refuse`](Self::refuse) or [`ignore`](Self::ignore); awaiting it accepts. Dropping it
/// refuses.
#[derive(Debug)]
#[must_use = "dropping an Incoming refuses the connection"]
pub struct Incoming {
    /// `None` once decided.
    connection: Option<ConnectionRef>,
    remote: SocketAddr,
    local_ip: Option<IpAddr>,
    validated: bool,
    original_cid: ConnectionId,
}

impl Incoming {
    pub(crate) fn new(connection: ConnectionRef, meta: &DatagramMeta) -> Self {
        let (validated, original_cid) = {
            let state = connection.lock();
            (state.machine.is_address_validated(), state.machine.original_destination_cid())
        };
        Self { connection: Some(connection), remote: meta.remote, local_ip: meta.local_ip, validated, original_cid }
    }

    /// Where the client sends from. Not proven unless [`remote_address_validated`](Self::remote_address_validated).
    pub fn remote_address(&self) -> SocketAddr {
        canonical(self.remote)
    }

    /// The local address the client sent to, where the system reports it.
    pub fn local_ip(&self) -> Option<IpAddr> {
        self.local_ip
    }

    /// Whether the client has proven, by a token of ours, that it receives at its address (RFC 9000 section 8.1).
    pub fn remote_address_validated(&self) -> bool {
        self.validated
    }

    /// The destination connection ID of the client's very first Initial (RFC 9000 section 7.2), before any Retry. The
    /// client has drawn it at random; it names the connection in qlog.
    pub fn orig_dst_cid(&self) -> ConnectionId {
        self.original_cid
    }

    /// Begins the handshake.
    pub fn accept(self) -> Connecting {
        self.begin()
    }

    /// Begins the handshake with a configuration for this client instead of the endpoint's.
    ///
    /// TLS, [`transport`](ServerConfig::transport) and [`migration`](ServerConfig::migration) are those of `config`.
    /// What was decided before the application was asked stays the endpoint's: limits, Retry, the version, the key of
    /// address tokens.
    ///
    /// ```
    /// # async fn example(server: thalweg::Endpoint, guests: std::sync::Arc<thalweg::ServerConfig>)
    /// # -> Result<(), Box<dyn std::error::Error>> {
    /// let incoming = server.next_incoming().await?;
    /// let connection = match incoming.remote_address().ip().is_loopback() {
    ///     true => incoming.await?,
    ///     false => incoming.accept_with(guests)?.await?,
    /// };
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ConnectionError::NotStarted`] if TLS cannot be used; the client is then refused.
    pub fn accept_with(self, config: impl Into<Arc<ServerConfig>>) -> Result<Connecting, ConnectionError> {
        if let Some(connection) = &self.connection {
            let mut state = connection.lock();
            // Otherwise the connection is over already, and the `Connecting` says why.
            if state.undecided.is_some() && state.error.is_none() {
                let shared = &connection.shared;
                let config = shared.server_config(&config.into(), shared.workers().len());
                state.machine.reconfigure(connection.now(), &config).map_err(ConnectionError::NotStarted)?;
            }
        }
        Ok(self.begin())
    }

    fn begin(mut self) -> Connecting {
        // Decided only here and in `decide`, both of which consume or are the drop.
        let connection = self.connection.take();
        if let Some(connection) = &connection {
            let mut wakes = Vec::new();
            let mut state = connection.lock();
            let now = connection.now();
            // Nothing is left if the endpoint was closed meanwhile; then this is refused already.
            if let Some(datagrams) = state.undecided.take() {
                connection.shared.accepted.fetch_add(1, Ordering::Relaxed);
                for (meta, mut datagram) in datagrams {
                    state.machine.handle_datagram(now, &meta, &mut datagram);
                }
            }
            state.collect_events(&connection.shared, &mut wakes);
            connection.unlock_and_drive(state);
            wake_all(&mut wakes);
        }
        Connecting::new(connection)
    }

    /// Asks the client to prove its address first (Retry, RFC 9000 section 8.1.2). It comes again, as another
    /// `Incoming` whose [`remote_address_validated`](Self::remote_address_validated) says so, a round trip later.
    ///
    /// [`ServerConfig::retry`](crate::ServerConfig::retry) does the same by rule, before the application is asked.
    ///
    /// ```
    /// # async fn example(server: thalweg::Endpoint) -> Result<(), Box<dyn std::error::Error>> {
    /// let incoming = server.next_incoming().await?;
    /// if incoming.remote_address_validated() || server.stats().handshakes < 1_000 {
    ///     let connection = incoming.await?;
    /// } else {
    ///     incoming.retry()?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// If the client has proven its address already: it would not listen. The error gives the `Incoming` back.
    pub fn retry(mut self) -> Result<(), RetryError> {
        if self.validated {
            return Err(RetryError(Box::new(self)));
        }
        self.decide(TurnAway::Retry);
        Ok(())
    }

    /// Turns the client away with CONNECTION_REFUSED.
    pub fn refuse(mut self) {
        self.decide(TurnAway::Refuse);
    }

    /// Does not answer at all: the client tries again until it gives up.
    pub fn ignore(mut self) {
        self.decide(TurnAway::Nothing);
    }

    fn decide(&mut self, answer: TurnAway) {
        let Some(connection) = self.connection.take() else { return };
        connection.turn_away(answer);
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        self.decide(TurnAway::Refuse);
    }
}

/// The client has proven its address already, so that [`Incoming::retry`] would be in vain.
#[derive(Debug, thiserror::Error)]
#[error("the client has proven its address already: accept, refuse or ignore it")]
pub struct RetryError(Box<Incoming>);

impl RetryError {
    /// What is still to be decided about.
    pub fn into_incoming(self) -> Incoming {
        *self.0
    }
}

impl IntoFuture for Incoming {
    type Output = Result<Connection, ConnectionError>;
    type IntoFuture = IncomingFuture;
    fn into_future(self) -> IncomingFuture {
        IncomingFuture(self.accept())
    }
}

/// Accepts an [`Incoming`] and waits for its handshake.
#[derive(Debug)]
pub struct IncomingFuture(Connecting);

impl Future for IncomingFuture {
    type Output = Result<Connection, ConnectionError>;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx)
    }
}
