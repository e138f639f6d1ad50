//! Tokens: the one our Initial packets carry, and those that a server hands out (RFC 9000 section 8.1).

use std::net::IpAddr;

use rand_core::Rng;
use thalweg_recovery::Path;
use thalweg_units::Instant;

use super::saved_path_tokens::SavedPathTokens;

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Tokens {
    /// The token for our Initial packets, from Retry or NEW_TOKEN.
    pub initial: Vec<u8>,
    /// Server: the NEW_TOKEN frame to send, kept for repetition, and whether it is to be sent now.
    pub new: Option<Vec<u8>>,
    pub is_pending: bool,
    /// Server: what tokens hold of the path.
    pub saved_path_tokens: Option<SavedPathTokens>,
}

impl Tokens {
    /// Server: whether another token may hold more about the path than the latest.
    pub fn may_tell(&self) -> bool {
        !self.is_pending && self.saved_path_tokens.as_ref().is_some_and(SavedPathTokens::may_tell)
    }

    /// Server: hands out another token to the client at `ip` if it would hold more about `path` than the latest.
    pub fn tell_path(&mut self, now: Instant, ip: IpAddr, path: Option<&Path>, rng: &mut impl Rng) {
        let Some(saved) = path.and_then(Path::saved) else { return };
        if let Some(token) = self.saved_path_tokens.as_mut().and_then(|tokens| tokens.tell(now, ip, &saved, rng)) {
            self.new = Some(token);
            self.is_pending = true;
        }
    }
}
