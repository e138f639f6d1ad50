//! Retry: a proof of the client's address before the server keeps state (RFC 9000 section 17.2.5).

use super::{Handshake, keys::KeyStore};
use crate::{cid::ConnectionId, packet};

impl Handshake {
    /// Client: a Retry packet arrived (RFC 9000 section 17.2.5.2). Returns whether it was taken; what was sent is then
    /// to be sent again, to `scid`.
    pub fn on_retry(&mut self, scid: ConnectionId, token: &[u8], packet: &[u8], keys: &mut KeyStore) -> bool {
        let Some(client) = self.client.as_ref() else {
            return false;
        };
        if self.heard || self.ids.retry_scid.is_some() || token.is_empty() {
            return false;
        }
        let original = self.ids.original_dcid;
        let tag = |body: &[u8]| client.crypto.retry_tag(self.version, original.as_slice(), body);
        if scid == original || !packet::verify_retry(packet, tag) {
            return false;
        }
        keys.install_initial(client.initial_keys(self.version, &scid));
        self.tokens.initial = token.to_vec();
        self.ids.retry_scid = Some(scid);
        true
    }
}
