//! The client's side of a handshake: the server's name, and the stores of what is known of it.

use std::{net::SocketAddr, sync::Arc};

use thalweg_recovery::{Path, SavedPath};
use thalweg_units::Instant;

use crate::{
    Side,
    cid::ConnectionId,
    config::{SavedPathStore, TokenStore},
    crypto::{ClientCrypto, Keys},
    error::TransportError,
    version::Version,
};

/// See the [module](self).
pub(crate) struct ClientSide {
    pub crypto: Arc<dyn ClientCrypto>,
    pub tokens: Option<Arc<dyn TokenStore>>,
    pub saved_paths: Option<Arc<dyn SavedPathStore>>,
    pub server_name: String,
    /// What was taken from `saved_paths`.
    pub taken: Option<SavedPath>,
}

impl ClientSide {
    /// The Initial keys for a version and the destination our Initial packets carry.
    pub fn initial_keys(&self, version: Version, dcid: &ConnectionId) -> Keys {
        self.crypto.initial_keys(version, dcid.as_slice(), Side::Client)
    }

    /// The server handed out a token for next time.
    ///
    /// # Errors
    /// If it is empty.
    pub fn on_new_token(&self, token: &[u8]) -> Result<(), TransportError> {
        if token.is_empty() {
            return Err(TransportError::frame_encoding("NEW_TOKEN with an empty token"));
        }
        if let Some(tokens) = &self.tokens {
            tokens.insert(&self.server_name, token.to_vec());
        }
        Ok(())
    }

    /// Saves what was learned about the path to `remote` for a later connection to the same server (RFC 9959), or puts
    /// back what was known of it before if nothing speaks against that. `is_known`: it is certain whose path it is.
    pub fn save_path(&self, now: Instant, started: Instant, is_known: bool, remote: SocketAddr, path: Option<&Path>) {
        let Some(saved_paths) = &self.saved_paths else { return };
        let learned = path.filter(|_| is_known).and_then(Path::saved);
        let is_refuted = path.is_some_and(|path| path.stats().congestion_events > 0);
        let since = now.saturating_since(started);
        let older = |saved: SavedPath| SavedPath { age: saved.age.saturating_add(since), ..saved };
        if let Some(saved) = learned.or_else(|| self.taken.filter(|_| !is_refuted).map(older)) {
            saved_paths.insert(&self.server_name, remote, saved);
        }
    }
}
