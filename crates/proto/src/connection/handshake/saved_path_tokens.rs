//! Saved parameters of the path in a server's tokens, for the client's next connection (RFC 9959).

use std::{net::IpAddr, sync::Arc};

use rand_core::Rng;
use thalweg_recovery::{ResumePolicy, SavedPath};
use thalweg_units::{DurationExt, Instant};

use crate::{config::ServerConfig, token::TokenKey};

/// What changes by less than one part of this is not worth another token.
const WORTH_TELLING: u64 = 4;
/// Tokens that a connection hands out at most: a window that doubles from four datagrams reaches 100 MB in 15 of them.
const MOST_TOKENS: u8 = 20;

/// Server: what the client's next token is to hold about the path.
pub(crate) struct SavedPathTokens {
    key: Arc<TokenKey>,
    /// Seconds since 1970, when the connection began.
    unix_time: u64,
    begun: Instant,
    /// The content of the latest token.
    told: Option<SavedPath>,
    left: u8,
}

impl SavedPathTokens {
    /// Of a connection that begins now; `None` if tokens are to hold nothing, since that costs packets some room.
    pub fn new(config: &ServerConfig, unix_time: u64, begun: Instant) -> Option<SavedPathTokens> {
        let is_used = config.new_tokens && config.transport.policies.resume != ResumePolicy::Off;
        let key = is_used.then(|| config.token_key.clone())?;
        Some(SavedPathTokens { key, unix_time, begun, told: None, left: MOST_TOKENS })
    }

    /// Whether a token with this would be of more use than the latest one.
    fn is_news(&self, saved: &SavedPath) -> bool {
        let Some(told) = self.told else { return true };
        let has_grown = |now: u64, before: u64| now > before.saturating_add(before / WORTH_TELLING);
        let rate = |saved: &SavedPath| saved.rate.map_or(0, |rate| rate.bps());
        has_grown(saved.window, told.window)
            || has_grown(rate(saved), rate(&told))
            || has_grown(told.min_rtt.nanos(), saved.min_rtt.nanos())
    }

    /// Whether tokens may go on.
    pub(super) fn may_tell(&self) -> bool {
        self.left > 0
    }

    /// Another token for the client at `ip`, if it would hold more than the latest.
    pub(super) fn tell(&mut self, now: Instant, ip: IpAddr, saved: &SavedPath, rng: &mut impl Rng) -> Option<Vec<u8>> {
        if !self.is_news(saved) {
            return None;
        }
        self.told = Some(*saved);
        self.left = self.left.saturating_sub(1);
        let unix_time = self.unix_time.saturating_add(now.saturating_since(self.begun).as_secs());
        Some(self.key.seal_saved_path(rng, ip, unix_time, saved))
    }
}
