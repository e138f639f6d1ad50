//! Generators of connection IDs: random ones, and those from which a worker can be told.

use std::fmt;

use rand_core::Rng;

use super::{ConnectionId, MAX_CID_LEN};

/// Makes the connection IDs of an endpoint. All have the same length, so that short headers can be parsed.
pub trait CidGenerator: Send + fmt::Debug {
    /// A new ID drawn from `rng`, [`len`](Self::len) bytes long.
    fn generate(&mut self, rng: &mut dyn Rng) -> ConnectionId;

    /// The length of every ID in bytes, 0 to 20.
    fn len(&self) -> usize;

    /// Whether IDs have zero length.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Random connection IDs.
#[derive(Copy, Clone, Debug)]
pub struct RandomCid {
    /// Length in bytes; more than 20 counts as 20.
    pub len: usize,
}

impl CidGenerator for RandomCid {
    fn generate(&mut self, rng: &mut dyn Rng) -> ConnectionId {
        ConnectionId::random(rng, self.len())
    }

    fn len(&self) -> usize {
        self.len.min(MAX_CID_LEN)
    }
}

/// Connection IDs of 8 bytes from which an endpoint with several workers can tell the worker a datagram belongs to.
///
/// The first byte, masked with a keyed digest of the other seven random ones, is the worker modulo the number of
/// workers. The mask keeps an observer from reading off which IDs share a worker; it is no encryption, and nothing
/// depends on its secrecy.
#[derive(Copy, Clone)]
pub struct WorkerCid {
    worker: u8,
    workers: u8,
    key: u64,
}

impl WorkerCid {
    /// The length of these IDs in bytes.
    pub const LEN: usize = 8;

    /// IDs of `worker` (counted from 0) out of `workers`. `key` is the same for all workers of an endpoint.
    pub fn new(worker: u8, workers: u8, key: u64) -> WorkerCid {
        let workers = workers.max(1);
        WorkerCid { worker: worker % workers, workers, key }
    }

    /// The worker that issued an ID of an endpoint with this `key`. `None` if it is not 8 bytes long, so not one of
    /// ours. An ID that nobody issued names some worker.
    pub fn worker_of(cid: &[u8], workers: u8, key: u64) -> Option<u8> {
        let cid: &[u8; WorkerCid::LEN] = cid.try_into().ok()?;
        Some((cid[0] ^ mask(cid, key)) % workers.max(1))
    }
}

/// A digest of bytes 1 to 7 under `key`: two rounds of multiply and fold.
fn mask(cid: &[u8; WorkerCid::LEN], key: u64) -> u8 {
    let rest = u64::from_be_bytes(*cid) & (u64::MAX >> 8);
    let mut x = (rest ^ key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 32) ^ key.rotate_left(32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    (x >> 56) as u8
}

impl CidGenerator for WorkerCid {
    fn generate(&mut self, rng: &mut dyn Rng) -> ConnectionId {
        let mut bytes = rng.next_u64().to_be_bytes();
        // The random first byte picks one of the values that leave the worker as remainder.
        let rounds = 256 / u16::from(self.workers);
        let value = (u16::from(bytes[0]) % rounds) * u16::from(self.workers) + u16::from(self.worker);
        bytes[0] = value as u8 ^ mask(&bytes, self.key);
        ConnectionId { len: WorkerCid::LEN as u8, bytes: pad(bytes) }
    }

    fn len(&self) -> usize {
        WorkerCid::LEN
    }
}

fn pad(bytes: [u8; WorkerCid::LEN]) -> [u8; MAX_CID_LEN] {
    let mut padded = [0; MAX_CID_LEN];
    padded[..WorkerCid::LEN].copy_from_slice(&bytes);
    padded
}

impl fmt::Debug for WorkerCid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WorkerCid({} of {})", self.worker, self.workers)
    }
}
