//! Stores in memory that a client keeps from one connection to the next: address tokens and saved paths.

use std::collections::VecDeque;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use thalweg_proto::config::{SavedPathStore, TokenStore};
use thalweg_proto::recovery::SavedPath;

/// Servers of which a store keeps something.
const SERVERS: usize = 256;
/// Tokens kept per server.
const TOKENS_PER_SERVER: usize = 2;
/// For how long what was learned about a path is used: longer finds a path that has changed, shorter finds nothing. RFC
/// 9959 leaves it to the implementation and asks for a limit.
const LIFETIME: Duration = Duration::from_secs(3_600);

/// Values by server name, of the 256 servers that were met last for the first time.
struct ByServer<V> {
    values: FxHashMap<String, V>,
    /// Oldest first.
    order: VecDeque<String>,
}

impl<V> Default for ByServer<V> {
    fn default() -> Self {
        ByServer { values: FxHashMap::default(), order: VecDeque::new() }
    }
}

impl<V: Default> ByServer<V> {
    /// The value of a server; the oldest server makes room for a new one.
    fn entry(&mut self, server_name: &str) -> &mut V {
        if !self.values.contains_key(server_name) {
            if self.order.len() >= SERVERS
                && let Some(oldest) = self.order.pop_front()
            {
                self.values.remove(&oldest);
            }
            self.order.push_back(server_name.to_owned());
        }
        self.values.entry(server_name.to_owned()).or_default()
    }
}

/// Keeps address tokens (NEW_TOKEN, RFC 9000 section 8.1.3) in memory: the newest two of each of the last 256 servers.
#[derive(Default)]
pub struct MemoryTokenStore {
    inner: Mutex<ByServer<VecDeque<Vec<u8>>>>,
}

impl fmt::Debug for MemoryTokenStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryTokenStore").finish_non_exhaustive()
    }
}

impl TokenStore for MemoryTokenStore {
    fn insert(&self, server_name: &str, token: Vec<u8>) {
        let mut tokens = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = tokens.entry(server_name);
        kept.push_back(token);
        if kept.len() > TOKENS_PER_SERVER {
            kept.pop_front();
        }
    }

    fn take(&self, server_name: &str) -> Option<Vec<u8>> {
        let mut tokens = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        // The newest: it is good for the longest time.
        tokens.values.get_mut(server_name)?.pop_back()
    }
}

/// Keeps what connections save of paths (RFC 9959) in memory, of the last 256 servers, for an hour.
///
/// Whoever reads it learns which servers were visited and how fast the network was.
#[derive(Default)]
pub struct MemorySavedPathStore {
    inner: Mutex<ByServer<Option<(Instant, IpAddr, SavedPath)>>>,
}

impl MemorySavedPathStore {
    fn insert_at(&self, now: Instant, server_name: &str, ip: IpAddr, saved: SavedPath) {
        let mut paths = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        *paths.entry(server_name) = Some((now, ip, saved));
    }

    fn take_at(&self, now: Instant, server_name: &str, ip: IpAddr) -> Option<SavedPath> {
        let mut paths = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = paths.values.get_mut(server_name)?;
        let (learned, _, saved) = slot.take_if(|(_, known, _)| *known == ip)?;
        let age = saved.age.saturating_add(now.saturating_duration_since(learned));
        (age <= LIFETIME).then_some(SavedPath { age, ..saved })
    }
}

impl fmt::Debug for MemorySavedPathStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemorySavedPathStore").finish_non_exhaustive()
    }
}

impl SavedPathStore for MemorySavedPathStore {
    fn insert(&self, server_name: &str, remote: SocketAddr, saved: SavedPath) {
        self.insert_at(Instant::now(), server_name, remote.ip(), saved);
    }

    fn take(&self, server_name: &str, remote: SocketAddr) -> Option<SavedPath> {
        self.take_at(Instant::now(), server_name, remote.ip())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_used_once_and_memory_is_bounded() {
        let store = MemoryTokenStore::default();
        for number in 0..10u8 {
            store.insert("a", vec![number]);
        }
        assert_eq!(store.take("a"), Some(vec![9]));
        assert_eq!(store.take("a"), Some(vec![8]));
        assert_eq!(store.take("a"), None);
        for server in 0..1000 {
            store.insert(&server.to_string(), vec![0]);
        }
        let tokens = store.inner.lock().unwrap();
        assert_eq!(tokens.values.len(), SERVERS);
        assert_eq!(tokens.order.len(), SERVERS);
    }

    #[test]
    fn what_is_saved_of_a_path_ages_and_expires() {
        let store = MemorySavedPathStore::default();
        let begin = Instant::now();
        let saved =
            SavedPath { window: 1_000_000, min_rtt: Duration::from_millis(600), rate: None, age: Duration::ZERO };
        let (here, there): (IpAddr, IpAddr) = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
        let minute = Duration::from_secs(60);
        store.insert_at(begin, "a", here, saved);
        assert_eq!(store.take_at(begin + minute, "b", here), None);
        assert_eq!(store.take_at(begin + minute, "a", there), None, "another machine of that name");
        assert_eq!(store.take_at(begin + minute, "a", here), Some(SavedPath { age: minute, ..saved }));
        assert_eq!(store.take_at(begin + minute, "a", here), None, "a connection uses it");
        store.insert_at(begin, "a", here, saved);
        assert_eq!(store.take_at(begin + LIFETIME + minute, "a", here), None);
        assert_eq!(store.take_at(begin + minute, "a", here), None, "what has expired is gone");
        for server in 0..1000 {
            store.insert_at(begin, &server.to_string(), here, saved);
        }
        assert_eq!(store.inner.lock().unwrap().values.len(), SERVERS);
    }
}
