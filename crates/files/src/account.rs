//! The account of one connection of a server: memory held for its client, and bytes that the client reads.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use thalweg::Budget;

/// Why a server drops a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// The memory is needed, and this client holds most of it and takes least.
    Memory,
    /// The client has taken nothing for so long.
    Idle(Duration),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Memory => f.write_str("the server's memory is full, and this client held most and took least"),
            Why::Idle(time) => write!(f, "the client took nothing for {} s", time.as_secs()),
        }
    }
}

/// One connection's part of the memory of a server, beyond what QUIC counts by itself.
#[derive(Debug)]
pub(crate) struct Account {
    budget: Arc<Budget>,
    held: AtomicU64,
    taken: AtomicU64,
    requests: AtomicUsize,
    busy: AtomicUsize,
    why: OnceLock<Why>,
}

impl Account {
    pub(crate) fn new(budget: Arc<Budget>) -> Arc<Self> {
        let zero = || AtomicU64::new(0);
        Arc::new(Self { budget, held: zero(), taken: zero(), requests: 0.into(), busy: 0.into(), why: OnceLock::new() })
    }

    /// Counts bytes for as long as the result is kept.
    pub(crate) fn charge(self: &Arc<Self>, bytes: u64) -> Charge {
        self.held.fetch_add(bytes, Ordering::Relaxed);
        self.budget.add(bytes);
        Charge { account: Arc::clone(self), bytes }
    }

    /// Bytes counted now.
    pub(crate) fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// What all connections of the server have left, bytes.
    pub(crate) fn left(&self) -> u64 {
        self.budget.left()
    }

    /// The client took, or sent, so many bytes.
    pub(crate) fn take(&self, bytes: usize) {
        self.taken.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes that the client took or sent so far.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// The connection is to be dropped; the first reason stays.
    pub(crate) fn drop_for(&self, why: Why) {
        let _ = self.why.set(why);
    }

    /// Why the connection is dropped, if it is.
    pub(crate) fn why(&self) -> Option<Why> {
        self.why.get().copied()
    }

    /// A request is under way for as long as the result is kept, and takes so many bytes.
    pub(crate) fn request(self: &Arc<Self>, bytes: u64) -> Request {
        self.requests.fetch_add(1, Ordering::Relaxed);
        Request(self.charge(bytes))
    }

    /// This server, and not the client, is to act for as long as the result is kept.
    pub(crate) fn busy(self: &Arc<Self>) -> Busy {
        self.busy.fetch_add(1, Ordering::Relaxed);
        Busy(Arc::clone(self))
    }

    /// Whether the client is to act: it has asked for something, and nothing of it waits for this server.
    pub(crate) fn waits_for_client(&self) -> bool {
        self.requests.load(Ordering::Relaxed) > 0 && self.busy.load(Ordering::Relaxed) == 0
    }
}

/// See [`Account::charge`].
#[derive(Debug)]
pub(crate) struct Charge {
    account: Arc<Account>,
    bytes: u64,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.held.fetch_sub(self.bytes, Ordering::Relaxed);
        self.account.budget.sub(self.bytes);
    }
}

/// See [`Account::request`].
#[derive(Debug)]
pub(crate) struct Request(Charge);

impl Request {
    pub(crate) fn account(&self) -> &Arc<Account> {
        &self.0.account
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.0.account.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

/// See [`Account::busy`].
#[derive(Debug)]
pub(crate) struct Busy(Arc<Account>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_is_counted_no_longer() {
        let budget = Budget::new(100);
        let account = Account::new(Arc::clone(&budget));
        let request = account.request(30);
        let block = account.charge(20);
        assert_eq!((budget.used(), account.held(), account.left()), (50, 50, 50));
        assert!(account.waits_for_client());
        let busy = account.busy();
        assert!(!account.waits_for_client());
        drop((request, busy));
        assert!(!account.waits_for_client(), "nothing is asked for");
        drop(block);
        assert_eq!((budget.used(), account.held()), (0, 0));
    }
}
