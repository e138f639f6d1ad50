//! The state with which a server's connection begins.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use thalweg_recovery::SavedPath;

use crate::{
    cid::{ConnectionId, ResetToken},
    config::ServerConfig,
    token::TokenKey,
    version::Version,
};

/// What the endpoint has worked out about a client's first datagram.
#[derive(Clone)]
pub(crate) struct Accept {
    /// The version the connection will use.
    pub version: Version,
    /// The version of the client's first flight.
    pub first_version: Version,
    /// The client wants to use several paths at once.
    pub asks_for_paths: bool,
    /// Destination of the packet at hand, from which Initial keys derive.
    pub dcid: ConnectionId,
    /// Destination of the client's very first Initial: differs from `dcid` after a Retry.
    pub original_dcid: ConnectionId,
    pub retry_scid: Option<ConnectionId>,
    pub peer_scid: ConnectionId,
    pub remote: SocketAddr,
    pub local_ip: Option<IpAddr>,
    /// A valid token proved the address.
    pub address_validated: bool,
    /// What a NEW_TOKEN frame is to carry, if one is to be sent.
    pub new_token: Option<Vec<u8>>,
    /// What an earlier connection saved of the path, by a valid token.
    pub saved: Option<SavedPath>,
    /// Seconds since 1970.
    pub unix_time: u64,
    pub reset_token: ResetToken,
}

/// What a server's connection was made with, as far as another configuration does not change it.
pub(crate) struct Beginning {
    pub accept: Accept,
    /// The endpoint opens the tokens of later connections with its own key.
    pub token_key: Arc<TokenKey>,
    pub new_tokens: bool,
}

impl Beginning {
    pub fn new(config: &ServerConfig, accept: &Accept) -> Beginning {
        Beginning { accept: accept.clone(), token_key: config.token_key.clone(), new_tokens: config.new_tokens }
    }
}
