//! A configuration for one client: a server's connection that begins anew before it has begun.

use std::sync::Arc;

use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng as _;
use thalweg_units::Instant;

use super::{Connection, handshake::Accept};
use crate::{
    config::{ConnectError, ServerConfig},
    token::TokenKey,
};

/// What a server's connection was made with, as far as another configuration does not change it.
pub(super) struct Beginning {
    accept: Accept,
    /// The endpoint opens the tokens of later connections with its own key.
    token_key: Arc<TokenKey>,
    new_tokens: bool,
}

impl Beginning {
    pub(super) fn new(config: &ServerConfig, accept: &Accept) -> Beginning {
        Beginning { accept: accept.clone(), token_key: config.token_key.clone(), new_tokens: config.new_tokens }
    }
}

impl Connection {
    /// Server: begins anew with another configuration, for this client only. Possible until the first datagram is handled.
    ///
    /// TLS, the transport settings and whether the client may change its address are those of `config`. What the endpoint
    /// has decided already stays: the version, Retry, limits, and the tokens for later connections.
    ///
    /// # Errors
    /// [`ConnectError::AlreadyBegun`] if a datagram was handled or the connection is over. If TLS cannot be used: the
    /// connection is then to be [abandoned](crate::endpoint::Endpoint::abandon).
    pub fn reconfigure(&mut self, now: Instant, config: &ServerConfig) -> Result<(), ConnectError> {
        let beginning = self.handshake.beginning.take().filter(|_| self.lifecycle.is_open());
        let Some(Beginning { accept, token_key, new_tokens }) = beginning.map(|it| *it) else {
            return Err(ConnectError::AlreadyBegun);
        };
        let config = ServerConfig { token_key, new_tokens, ..config.clone() };
        // It may write to a file that the next observer of this connection opens again.
        self.reports.drop_observer();
        let rng = ChaCha8Rng::from_rng(&mut self.rng);
        *self = Self::server(now, rng, &config, accept, self.cids.own)?;
        Ok(())
    }
}
