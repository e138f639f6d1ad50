//! Address validation tokens (RFC 9000 section 8.1), the filter against their replay, and stateless reset tokens
//! (section 10.3.2).
//!
//! A token is `kind, salt, sealed fields, tag`. Every token is sealed with a key of its own, derived from the
//! endpoint's secret and the token's random salt, so that any number of tokens can be issued under one secret.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use rand_core::Rng;
use ring::{aead, hkdf, hmac};
use thalweg_recovery::SavedPath;
use thalweg_units::Rate;

use crate::cid::{ConnectionId, ResetToken};
use crate::varint::Reader;

const RETRY: u8 = 0x52;
const NEW_TOKEN: u8 = 0x4e;
const SALT_LEN: usize = 16;
/// A token of the future is accepted if the clocks of two servers explain it: up to this many seconds ahead.
const CLOCK_SKEW: u64 = 60;

/// What a token is good for, read back.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Token {
    /// From a Retry packet: the client's address is proved, and its first Initial is known.
    Retry(RetryToken),
    /// From a NEW_TOKEN frame of an earlier connection.
    New(NewToken),
}

/// The content of a token in a Retry packet.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct RetryToken {
    /// The destination ID of the client's first Initial: original_destination_connection_id.
    pub original_destination: ConnectionId,
    /// The source ID of our Retry: retry_source_connection_id, and the destination ID of the client's next Initial.
    pub retry_source: ConnectionId,
    /// The client's address. Retry tokens hold for this address and port only.
    pub address: SocketAddr,
    /// When the token was made, in seconds since 1970.
    pub issued: u64,
}

/// The content of a token in a NEW_TOKEN frame.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct NewToken {
    /// The client's IP address; its port may change.
    pub ip: IpAddr,
    /// When the token was made, in seconds since 1970.
    pub issued: u64,
    /// The token's random salt: its name for the [`ReplayFilter`].
    pub salt: [u8; SALT_LEN],
    /// What the server saved of the path to the client when it made the token, as old as the token is (RFC
    /// 9959). Only the server that sealed it can have written it.
    pub saved: Option<SavedPath>,
}

/// Why a token does not validate the client's address.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// Not sealed by us: another server's, or tampered with. The Initial is treated as if it had no token (RFC 9000
    /// section 8.1.3).
    #[error("token is not ours or was tampered with")]
    Unknown,
    /// Too old.
    #[error("token has expired")]
    Expired {
        /// Whether it is a Retry's; then the connection is refused with INVALID_TOKEN (RFC 9000 section 8.1.2).
        retry: bool,
    },
    /// Issued to another address.
    #[error("token was issued to another address")]
    OtherAddress {
        /// Whether it is a Retry's; then the connection is refused with INVALID_TOKEN.
        retry: bool,
    },
}

impl TokenError {
    /// Whether the token was made for a Retry: the client will accept no second one, so it is to be closed with
    /// INVALID_TOKEN.
    pub fn is_retry(self) -> bool {
        matches!(self, TokenError::Expired { retry: true } | TokenError::OtherAddress { retry: true })
    }
}

/// Seals and opens tokens. All servers that share an address should share the secret.
#[derive(Clone)]
pub struct TokenKey {
    current: hkdf::Prk,
    /// Opens tokens of the time before the last rotation.
    previous: Option<hkdf::Prk>,
    retry_lifetime: u64,
    new_token_lifetime: u64,
}

impl TokenKey {
    /// How long a Retry token holds: a client answers a Retry at once, but its path may be slow and its packets be
    /// lost.
    pub const RETRY_LIFETIME: Duration = Duration::from_secs(30);
    /// How long a NEW_TOKEN token holds.
    pub const NEW_TOKEN_LIFETIME: Duration = Duration::from_secs(7 * 24 * 3600);

    /// Tokens under a secret of 32 random bytes.
    pub fn new(secret: &[u8; 32]) -> TokenKey {
        TokenKey {
            current: prk(secret),
            previous: None,
            retry_lifetime: TokenKey::RETRY_LIFETIME.as_secs(),
            new_token_lifetime: TokenKey::NEW_TOKEN_LIFETIME.as_secs(),
        }
    }

    /// Sets for how long tokens are accepted, in whole seconds.
    pub fn with_lifetimes(mut self, retry: Duration, new_token: Duration) -> TokenKey {
        self.retry_lifetime = retry.as_secs();
        self.new_token_lifetime = new_token.as_secs();
        self
    }

    /// Issues under a new secret from now on; tokens under the secret before it are still accepted.
    pub fn rotate(&mut self, secret: &[u8; 32]) {
        self.previous = Some(std::mem::replace(&mut self.current, prk(secret)));
    }

    /// For how long tokens of NEW_TOKEN frames are accepted, in seconds.
    pub fn new_token_lifetime(&self) -> u64 {
        self.new_token_lifetime
    }

    /// A token for a Retry packet.
    pub fn seal_retry(&self, rng: &mut (impl Rng + ?Sized), token: &RetryToken) -> Vec<u8> {
        let mut out = start(rng, RETRY);
        out.extend_from_slice(&token.issued.to_be_bytes());
        put_ip(&mut out, token.address.ip());
        out.extend_from_slice(&token.address.port().to_be_bytes());
        for cid in [&token.original_destination, &token.retry_source] {
            out.push(cid.len() as u8);
            out.extend_from_slice(cid);
        }
        self.seal(out)
    }

    /// A token for a NEW_TOKEN frame to a client at `ip`, made at `issued` seconds since 1970.
    pub fn seal_new(&self, rng: &mut (impl Rng + ?Sized), ip: IpAddr, issued: u64) -> Vec<u8> {
        self.seal(start_new(rng, ip, issued))
    }

    /// The same, with what is saved of the path to the client at that time. Whatever its [`age`](SavedPath::age) was,
    /// it is reckoned from `issued` on when the token comes back.
    pub fn seal_saved_path(
        &self,
        rng: &mut (impl Rng + ?Sized),
        ip: IpAddr,
        issued: u64,
        saved: &SavedPath,
    ) -> Vec<u8> {
        let mut out = start_new(rng, ip, issued);
        let rtt = u64::try_from(saved.min_rtt.as_nanos()).unwrap_or(u64::MAX);
        for field in [saved.window, rtt, saved.rate.map_or(0, Rate::bps)] {
            out.extend_from_slice(&field.to_be_bytes());
        }
        self.seal(out)
    }

    fn seal(&self, mut out: Vec<u8>) -> Vec<u8> {
        let (head, body) = out.split_at_mut(1 + SALT_LEN);
        let sealed = token_key(&self.current, head)
            .and_then(|key| key.seal_in_place_separate_tag(zero_nonce(), aead::Aad::from(&*head), body).ok());
        match sealed {
            Some(tag) => {
                out.extend_from_slice(tag.as_ref());
                out
            }
            // Neither HKDF nor AES-GCM fails at these lengths; an unusable token is safe all the same.
            None => Vec::new(),
        }
    }

    /// Opens a token that came from `remote` at `now` seconds since 1970.
    ///
    /// # Errors
    /// See [`TokenError`]. A [`NewToken`] is also to be shown to a [`ReplayFilter`].
    pub fn open(&self, token: &[u8], remote: SocketAddr, now: u64) -> Result<Token, TokenError> {
        let head = token.get(..1 + SALT_LEN).ok_or(TokenError::Unknown)?;
        let kind = head[0];
        if kind != RETRY && kind != NEW_TOKEN {
            return Err(TokenError::Unknown);
        }
        // Sealed fields are at most 8 + 1 + 16 + 2 + 2 * 21 bytes, or 8 + 1 + 16 + 3 * 8, and a tag of 16; longer
        // tokens are not ours.
        let mut buffer = [0; 96];
        let sealed = &token[1 + SALT_LEN..];
        let open = |prk: &hkdf::Prk, buffer: &mut [u8; 96]| {
            let buffer = buffer.get_mut(..sealed.len())?;
            buffer.copy_from_slice(sealed);
            let plain = token_key(prk, head)?.open_in_place(zero_nonce(), aead::Aad::from(head), buffer).ok()?;
            Some(plain.len())
        };
        let len = open(&self.current, &mut buffer)
            .or_else(|| open(self.previous.as_ref()?, &mut buffer))
            .ok_or(TokenError::Unknown)?;
        let mut reader = Reader::new(&buffer[..len]);
        let token = if kind == RETRY { read_retry(&mut reader) } else { read_new(&mut reader, head, now) };
        let token = token.filter(|_| reader.is_empty()).ok_or(TokenError::Unknown)?;

        let retry = kind == RETRY;
        let (issued, lifetime, same_address) = match &token {
            Token::Retry(t) => (t.issued, self.retry_lifetime, t.address == canonical(remote)),
            Token::New(t) => (t.issued, self.new_token_lifetime, t.ip == remote.ip().to_canonical()),
        };
        if now > issued.saturating_add(lifetime) || issued > now.saturating_add(CLOCK_SKEW) {
            return Err(TokenError::Expired { retry });
        }
        if !same_address {
            return Err(TokenError::OtherAddress { retry });
        }
        Ok(token)
    }
}

impl std::fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TokenKey(..)")
    }
}

fn prk(secret: &[u8; 32]) -> hkdf::Prk {
    hkdf::Salt::new(hkdf::HKDF_SHA256, b"thalweg address token").extract(secret)
}

/// The key of one token: its first byte and salt are the context.
fn token_key(prk: &hkdf::Prk, head: &[u8]) -> Option<aead::LessSafeKey> {
    let info = [head];
    let key = prk.expand(&info, &aead::AES_256_GCM).ok()?;
    Some(aead::LessSafeKey::new(aead::UnboundKey::from(key)))
}

/// Each key seals one token only.
fn zero_nonce() -> aead::Nonce {
    aead::Nonce::assume_unique_for_key([0; aead::NONCE_LEN])
}

fn start(rng: &mut (impl Rng + ?Sized), kind: u8) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    out.push(kind);
    out.resize(1 + SALT_LEN, 0);
    rng.fill_bytes(&mut out[1..]);
    out
}

fn start_new(rng: &mut (impl Rng + ?Sized), ip: IpAddr, issued: u64) -> Vec<u8> {
    let mut out = start(rng, NEW_TOKEN);
    out.extend_from_slice(&issued.to_be_bytes());
    put_ip(&mut out, ip);
    out
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

fn put_ip(out: &mut Vec<u8>, ip: IpAddr) {
    match ip.to_canonical() {
        IpAddr::V4(ip) => {
            out.push(4);
            out.extend_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            out.push(6);
            out.extend_from_slice(&ip.octets());
        }
    }
}

fn read_ip(reader: &mut Reader<'_>) -> Option<IpAddr> {
    match reader.u8()? {
        4 => Some(IpAddr::from(reader.array::<4>()?)),
        6 => Some(IpAddr::from(reader.array::<16>()?)),
        _ => None,
    }
}

fn read_retry(reader: &mut Reader<'_>) -> Option<Token> {
    Some(Token::Retry(RetryToken {
        issued: reader.u64()?,
        address: SocketAddr::new(read_ip(reader)?, reader.u16()?),
        original_destination: ConnectionId::new(reader.u8_bytes()?)?,
        retry_source: ConnectionId::new(reader.u8_bytes()?)?,
    }))
}

fn read_new(reader: &mut Reader<'_>, head: &[u8], now: u64) -> Option<Token> {
    let (issued, ip, salt) = (reader.u64()?, read_ip(reader)?, *head.last_chunk()?);
    let saved = match reader.is_empty() {
        true => None,
        false => {
            let (window, min_rtt) = (reader.u64()?, Duration::from_nanos(reader.u64()?));
            let rate = Some(reader.u64()?).filter(|rate| *rate > 0).map(Rate::from_bps);
            Some(SavedPath { window, min_rtt, rate, age: Duration::from_secs(now.saturating_sub(issued)) })
        }
    };
    Some(Token::New(NewToken { ip, issued, salt, saved }))
}

// ---- replay ---------------------------------------------------------------------------------------------------------

/// Remembers which tokens of NEW_TOKEN frames were used, so that each validates an address once (RFC 9000 section
/// 8.1.4).
pub(crate) trait ReplayFilter: Send {
    /// Whether `token`, valid at `now` (seconds since 1970), is used for the first time; from now on it is not.
    /// May say `false` to a fresh token now and then, never `true` to a used one.
    fn first_use(&mut self, token: &NewToken, now: u64) -> bool;
}

/// Two Bloom filters that take turns: bounded memory, rare false alarms, no replay.
///
/// Each turn lasts a token lifetime, or until the filter is full. Tokens that are not younger than all of a forgotten
/// turn are refused, so that forgetting early costs validation of old tokens but never lets one in twice.
#[derive(Clone, Debug)]
pub(crate) struct BloomReplayFilter {
    current: Vec<u64>,
    previous: Vec<u64>,
    inserted: usize,
    lifetime: u64,
    turn_began: Option<u64>,
    /// When the youngest token of the current and of the previous turn was issued.
    youngest: [Option<u64>; 2],
    /// Tokens issued at this second or before may have been used and forgotten.
    floor: Option<u64>,
}

impl BloomReplayFilter {
    /// Bits set per token. With one token per 16 bits the share of false alarms at the end of a turn is (1 -
    /// e^(-4/16))^4 = 0.24 %.
    const HASHES: u64 = 4;
    const BITS_PER_TOKEN: usize = 16;

    /// A filter of two times `bytes` (rounded to 8, at least 64) for tokens with a lifetime in seconds.
    pub fn new(bytes: usize, lifetime: u64) -> BloomReplayFilter {
        let words = (bytes / 8).max(8);
        BloomReplayFilter {
            current: vec![0; words],
            previous: vec![0; words],
            inserted: 0,
            lifetime,
            turn_began: None,
            youngest: [None; 2],
            floor: None,
        }
    }

    fn turn(&mut self, now: u64) {
        std::mem::swap(&mut self.current, &mut self.previous);
        self.current.fill(0);
        self.inserted = 0;
        let [current, forgotten] = self.youngest;
        self.floor = self.floor.max(forgotten);
        self.youngest = [None, current];
        self.turn_began = Some(now);
    }
}

impl ReplayFilter for BloomReplayFilter {
    fn first_use(&mut self, token: &NewToken, now: u64) -> bool {
        let began = *self.turn_began.get_or_insert(now);
        let full = self.inserted * Self::BITS_PER_TOKEN >= self.current.len() * 64;
        if full || now >= began.saturating_add(self.lifetime) {
            self.turn(now);
        }
        if self.floor.is_some_and(|floor| token.issued <= floor) {
            return false;
        }
        // The salt is random and authentic: its halves serve as two independent hashes, combined into more.
        let salt = u128::from_be_bytes(token.salt);
        let (a, b) = ((salt >> 64) as u64, salt as u64 | 1);
        let bits = self.current.len() as u64 * 64;
        let mut in_current = true;
        let mut in_previous = true;
        for i in 0..Self::HASHES {
            let bit = a.wrapping_add(b.wrapping_mul(i)) % bits;
            let (word, flag) = ((bit / 64) as usize, 1 << (bit % 64));
            in_previous &= self.previous[word] & flag != 0;
            in_current &= self.current[word] & flag != 0;
            self.current[word] |= flag;
        }
        self.youngest[0] = self.youngest[0].max(Some(token.issued));
        let fresh = !in_current && !in_previous;
        self.inserted += usize::from(fresh);
        fresh
    }
}

// ---- stateless reset ------------------------------------------------------------------------------------------------

/// Derives stateless reset tokens from connection IDs, so that an endpoint which lost its state can still send the
/// token it promised (RFC 9000 section 10.3.2).
#[derive(Clone)]
pub struct ResetKey(hmac::Key);

impl ResetKey {
    /// Tokens under a secret that outlives the process; servers that share connection IDs share it.
    pub fn new(secret: &[u8]) -> ResetKey {
        ResetKey(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    /// The token of a connection ID: the first 16 bytes of its HMAC-SHA256.
    pub fn token(&self, cid: &[u8]) -> ResetToken {
        let tag = hmac::sign(&self.0, cid);
        let mut token = [0; ResetToken::LEN];
        token.copy_from_slice(&tag.as_ref()[..ResetToken::LEN]);
        ResetToken(token)
    }
}

impl std::fmt::Debug for ResetKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ResetKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand_chacha::ChaCha8Rng;
    use rand_core::SeedableRng;

    const NOW: u64 = 1_800_000_000;

    fn key() -> TokenKey {
        TokenKey::new(&[7; 32])
    }

    fn rng(seed: u64) -> ChaCha8Rng {
        ChaCha8Rng::seed_from_u64(seed)
    }

    fn cid(bytes: &[u8]) -> ConnectionId {
        ConnectionId::new(bytes).unwrap()
    }

    fn retry(address: SocketAddr) -> RetryToken {
        RetryToken { original_destination: cid(&[1; 8]), retry_source: cid(&[2; 20]), address, issued: NOW }
    }

    fn address() -> impl Strategy<Value = SocketAddr> {
        let v4 = any::<([u8; 4], u16)>().prop_map(|(ip, port)| SocketAddr::new(IpAddr::from(ip), port));
        let v6 = any::<([u8; 16], u16)>().prop_map(|(ip, port)| SocketAddr::new(IpAddr::from(ip), port));
        prop_oneof![v4, v6].prop_map(canonical)
    }

    fn saved() -> impl Strategy<Value = SavedPath> {
        let rate = proptest::option::of((1..u64::MAX).prop_map(Rate::from_bps));
        (any::<u64>(), any::<u64>(), rate, any::<u64>()).prop_map(|(window, rtt, rate, age)| SavedPath {
            window,
            min_rtt: Duration::from_nanos(rtt),
            rate,
            age: Duration::from_nanos(age),
        })
    }

    proptest! {
        #[test]
        fn retry_tokens_survive_the_round_trip(
            address in address(), issued in 0..u64::MAX / 2, age in 0u64..=30, seed: u64,
            odcid in proptest::collection::vec(any::<u8>(), 0..=20), rscid in proptest::collection::vec(any::<u8>(), 0..=20),
        ) {
            let token = RetryToken { original_destination: cid(&odcid), retry_source: cid(&rscid), address, issued };
            let sealed = key().seal_retry(&mut rng(seed), &token);
            prop_assert_eq!(key().open(&sealed, address, issued + age), Ok(Token::Retry(token)));
        }

        #[test]
        fn new_tokens_survive_the_round_trip_from_any_port(address in address(), port: u16, issued in 0..u64::MAX / 2, seed: u64) {
            let sealed = key().seal_new(&mut rng(seed), address.ip(), issued);
            let from = SocketAddr::new(address.ip(), port);
            match key().open(&sealed, from, issued) {
                Ok(Token::New(token)) => prop_assert_eq!((token.ip, token.issued), (address.ip(), issued)),
                other => prop_assert!(false, "{other:?}"),
            }
        }

        #[test]
        fn what_is_saved_of_a_path_survives_the_round_trip_and_ages(
            address in address(), saved in saved(), issued in 0..u64::MAX / 2, age in 0u64..100_000, seed: u64,
        ) {
            let sealed = key().seal_saved_path(&mut rng(seed), address.ip(), issued, &saved);
            let expected = SavedPath { age: Duration::from_secs(age), ..saved };
            match key().open(&sealed, address, issued + age) {
                Ok(Token::New(token)) => prop_assert_eq!(token.saved, Some(expected)),
                other => prop_assert!(false, "{other:?}"),
            }
        }

        #[test]
        fn nothing_is_saved_of_a_path_after_a_forgery_from_elsewhere_or_too_late(
            address in address(), other in address(), saved in saved(), seed: u64, at: prop::sample::Index,
            bit in 0u32..8,
        ) {
            let sealed = key().seal_saved_path(&mut rng(seed), address.ip(), NOW, &saved);
            let late = NOW + key().new_token_lifetime() + 1;
            prop_assert_eq!(key().open(&sealed, address, late), Err(TokenError::Expired { retry: false }));
            if other.ip() != address.ip() {
                prop_assert_eq!(key().open(&sealed, other, NOW), Err(TokenError::OtherAddress { retry: false }));
            }
            prop_assert_eq!(TokenKey::new(&[8; 32]).open(&sealed, address, NOW), Err(TokenError::Unknown));
            let mut forged = sealed;
            let at = at.index(forged.len());
            forged[at] ^= 1 << bit;
            prop_assert_eq!(key().open(&forged, address, NOW), Err(TokenError::Unknown));
            // Neither does leaving it out: the length is sealed too.
            let plain = key().seal_new(&mut rng(seed), address.ip(), NOW);
            forged[at] ^= 1 << bit;
            forged.truncate(plain.len());
            prop_assert_eq!(key().open(&forged, address, NOW), Err(TokenError::Unknown));
        }

        #[test]
        fn a_token_with_any_bit_changed_is_unknown(address in address(), seed: u64, at: prop::sample::Index, bit in 0u32..8, new: bool) {
            let mut sealed = if new {
                key().seal_new(&mut rng(seed), address.ip(), NOW)
            } else {
                key().seal_retry(&mut rng(seed), &retry(address))
            };
            let at = at.index(sealed.len());
            sealed[at] ^= 1 << bit;
            prop_assert_eq!(key().open(&sealed, address, NOW), Err(TokenError::Unknown));
        }

        #[test]
        fn a_truncated_or_extended_token_is_unknown(address in address(), seed: u64, cut: prop::sample::Index, more in 1usize..80) {
            let mut sealed = key().seal_retry(&mut rng(seed), &retry(address));
            prop_assert_eq!(key().open(&sealed[..cut.index(sealed.len())], address, NOW), Err(TokenError::Unknown));
            sealed.resize(sealed.len() + more, 0);
            prop_assert_eq!(key().open(&sealed, address, NOW), Err(TokenError::Unknown));
        }

        #[test]
        fn tokens_from_another_address_are_refused(a in address(), b in address(), seed: u64) {
            let sealed = key().seal_retry(&mut rng(seed), &retry(a));
            if a != b {
                prop_assert_eq!(key().open(&sealed, b, NOW), Err(TokenError::OtherAddress { retry: true }));
            }
            let sealed = key().seal_new(&mut rng(seed), a.ip(), NOW);
            if a.ip() != b.ip() {
                prop_assert_eq!(key().open(&sealed, b, NOW), Err(TokenError::OtherAddress { retry: false }));
            }
        }

        #[test]
        fn old_tokens_expire(address in address(), late in 1u64..1_000_000_000, seed: u64) {
            let sealed = key().seal_retry(&mut rng(seed), &retry(address));
            prop_assert_eq!(key().open(&sealed, address, NOW + 30 + late), Err(TokenError::Expired { retry: true }));
            let sealed = key().seal_new(&mut rng(seed), address.ip(), NOW);
            let late = NOW + key().new_token_lifetime() + late;
            prop_assert_eq!(key().open(&sealed, address, late), Err(TokenError::Expired { retry: false }));
        }

        #[test]
        fn random_bytes_never_panic_and_never_validate(bytes in proptest::collection::vec(any::<u8>(), 0..200), address in address()) {
            prop_assert_eq!(key().open(&bytes, address, NOW), Err(TokenError::Unknown));
        }
    }

    fn here() -> SocketAddr {
        "192.0.2.1:4433".parse().unwrap()
    }

    #[test]
    fn a_retry_token_does_not_hold_for_another_port() {
        let sealed = key().seal_retry(&mut rng(1), &retry(here()));
        let moved = SocketAddr::new(here().ip(), 1);
        assert_eq!(key().open(&sealed, moved, NOW), Err(TokenError::OtherAddress { retry: true }));
        assert!(TokenError::OtherAddress { retry: true }.is_retry());
        assert!(!TokenError::Unknown.is_retry());
    }

    #[test]
    fn a_mapped_address_is_the_same_client() {
        let sealed = key().seal_retry(&mut rng(1), &retry(here()));
        let mapped: SocketAddr = "[::ffff:192.0.2.1]:4433".parse().unwrap();
        assert!(key().open(&sealed, mapped, NOW).is_ok());
    }

    #[test]
    fn tokens_of_the_future_are_refused_beyond_clock_skew() {
        let sealed = key().seal_new(&mut rng(1), here().ip(), NOW);
        assert!(key().open(&sealed, here(), NOW - CLOCK_SKEW).is_ok());
        assert_eq!(key().open(&sealed, here(), NOW - CLOCK_SKEW - 1), Err(TokenError::Expired { retry: false }));
    }

    #[test]
    fn a_retry_token_is_distinguishable_from_a_new_token() {
        // RFC 9000 section 8.1.1: the two kinds MUST be constructed so that the server can tell them apart.
        let mut sealed = key().seal_new(&mut rng(1), here().ip(), NOW);
        assert!(matches!(key().open(&sealed, here(), NOW), Ok(Token::New(_))));
        sealed[0] = RETRY;
        assert_eq!(key().open(&sealed, here(), NOW), Err(TokenError::Unknown));
    }

    #[test]
    fn rotation_accepts_one_previous_secret() {
        let mut key = key();
        let sealed = key.seal_new(&mut rng(1), here().ip(), NOW);
        key.rotate(&[8; 32]);
        assert!(key.open(&sealed, here(), NOW).is_ok());
        key.rotate(&[9; 32]);
        assert_eq!(key.open(&sealed, here(), NOW), Err(TokenError::Unknown));
    }

    #[test]
    fn equal_contents_make_unlinkable_tokens() {
        let mut rng = rng(1);
        let (a, b) = (key().seal_new(&mut rng, here().ip(), NOW), key().seal_new(&mut rng, here().ip(), NOW));
        let equal = a.iter().zip(&b).skip(1).filter(|(a, b)| a == b).count();
        assert!(equal < 8, "{equal} of {} bytes are equal", a.len());
    }

    fn token(n: u64, issued: u64) -> NewToken {
        let mut salt = [0; SALT_LEN];
        ChaCha8Rng::seed_from_u64(n).fill_bytes(&mut salt);
        NewToken { ip: here().ip(), issued, salt, saved: None }
    }

    #[test]
    fn a_replayed_token_is_caught_for_its_whole_lifetime() {
        let mut filter = BloomReplayFilter::new(1 << 16, 1000);
        for step in 0..20 {
            let used = NOW + step * 313;
            assert!(filter.first_use(&token(step, used), used));
            // At the end of its life, two turns may have passed.
            let mut later = filter.clone();
            for between in (used..used + 1000).step_by(97) {
                later.first_use(&token(1_000_000 + between, between), between);
            }
            assert!(!later.first_use(&token(step, used), used + 1000));
        }
    }

    #[test]
    fn a_full_replay_filter_forgets_validation_but_lets_nothing_in_twice() {
        let mut filter = BloomReplayFilter::new(64, 1_000_000);
        let mut fresh = 0;
        for n in 0..500 {
            let token = token(n, NOW + n);
            fresh += usize::from(filter.first_use(&token, NOW + n));
            for old in 0..=n {
                assert!(!filter.first_use(&self::token(old, NOW + old), NOW + n));
            }
        }
        assert!(fresh > 400, "{fresh} of 500 fresh tokens were accepted");
    }

    #[test]
    fn false_alarms_are_rare() {
        let mut filter = BloomReplayFilter::new(1 << 14, 1000);
        let accepted = (0..8192).filter(|n| filter.first_use(&token(*n, NOW), NOW)).count();
        assert!(accepted > 8150, "{accepted}");
    }

    #[test]
    fn reset_tokens_depend_on_key_and_connection_id_only() {
        let key = ResetKey::new(b"secret");
        assert_eq!(key.token(&[1, 2]), ResetKey::new(b"secret").token(&[1, 2]));
        assert_ne!(key.token(&[1, 2]), key.token(&[1, 3]));
        assert_ne!(key.token(&[1, 2]), ResetKey::new(b"other").token(&[1, 2]));
    }
}
