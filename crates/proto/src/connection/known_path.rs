//! What a connection leaves behind about its path for a later one (RFC 9959): a client in its store, a server in the
//! tokens that it hands out.

use std::sync::Arc;

use thalweg_recovery::{PathMemory, ResumePolicy};
use thalweg_units::{DurationExt, Instant};

use super::{Connection, handshake::ClientSide};
use crate::{config::ServerConfig, token::TokenKey};

/// What changes by less than one part of this is not worth another token.
const WORTH_TELLING: u64 = 4;
/// Tokens that a connection hands out at most: a window that doubles from four datagrams reaches 100 MB in 15 of them.
const MOST_TOKENS: u8 = 20;

/// Server: what the client's next token is to tell about the path.
pub(super) struct KnownPath {
    key: Arc<TokenKey>,
    /// Seconds since 1970, when the connection began.
    unix_time: u64,
    begun: Instant,
    /// What the latest token tells.
    told: Option<PathMemory>,
    left: u8,
}

impl KnownPath {
    /// Of a connection that begins now; `None` if tokens are not to tell anything, which costs packets some room.
    pub(super) fn new(config: &ServerConfig, unix_time: u64, begun: Instant) -> Option<KnownPath> {
        let is_used = config.new_tokens && config.transport.policies.resume != ResumePolicy::Off;
        let key = is_used.then(|| config.token_key.clone())?;
        Some(KnownPath { key, unix_time, begun, told: None, left: MOST_TOKENS })
    }

    /// Whether a token that tells this would be of more use than the latest one.
    fn is_news(&self, memory: &PathMemory) -> bool {
        let Some(told) = self.told else { return true };
        let has_grown = |now: u64, before: u64| now > before.saturating_add(before / WORTH_TELLING);
        let rate = |memory: &PathMemory| memory.rate.map_or(0, |rate| rate.bps());
        has_grown(memory.window, told.window)
            || has_grown(rate(memory), rate(&told))
            || has_grown(told.min_rtt.nanos(), memory.min_rtt.nanos())
    }
}

impl Connection {
    /// Client: keeps what was learned about the active path for a later connection to the same server, or puts back
    /// what was known of it before if nothing speaks against that.
    pub(super) fn remember_path(&self, now: Instant) {
        let Some(ClientSide { paths: Some(paths), server_name, taken, .. }) = &self.handshake.client else { return };
        let path = self.active_path();
        // Before the handshake is complete it is not known whose path it is.
        let learned = path.filter(|_| self.handshake.complete).and_then(thalweg_recovery::Path::memory);
        let is_refuted = path.is_some_and(|path| path.stats().congestion_events > 0);
        let since = now.saturating_since(self.handshake.started);
        let older = |memory: PathMemory| PathMemory { age: memory.age.saturating_add(since), ..memory };
        if let Some(memory) = learned.or_else(|| taken.filter(|_| !is_refuted).map(older)) {
            paths.insert(server_name, self.paths.active().remote, memory);
        }
    }

    /// Server: hands out another token if it would tell more about the path than the latest.
    pub(super) fn tell_path(&mut self, now: Instant) {
        let Some(known) = &self.handshake.known_path else { return };
        if known.left == 0 || !self.handshake.confirmed || self.handshake.new_token_pending {
            return;
        }
        let Some(memory) = self.active_path().and_then(thalweg_recovery::Path::memory) else { return };
        let ip = self.paths.active().remote.ip();
        let Some(known) = self.handshake.known_path.as_mut().filter(|known| known.is_news(&memory)) else { return };
        known.told = Some(memory);
        known.left -= 1;
        let unix_time = known.unix_time.saturating_add(now.saturating_since(known.begun).as_secs());
        let token = known.key.seal_known_path(&mut self.rng, ip, unix_time, &memory);
        self.handshake.new_token = Some(token);
        self.handshake.new_token_pending = true;
    }
}
