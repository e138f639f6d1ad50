//! The memory that datagrams are received into.

use std::io::{self, IoSliceMut};

use quinn_udp::RecvMeta;
use thalweg_proto::udp::DatagramMeta;

use crate::socket::{Socket, ecn_of};

/// The largest thing one buffer receives: a full UDP datagram, or datagrams coalesced by the kernel (GRO) up to that
/// size.
const BUFFER: usize = 1 << 16;
/// Buffers per system call. More would save few calls (each already brings up to 64 KiB) and fall out of the cache.
const BUFFERS: usize = 8;

/// Reused from batch to batch; datagrams are decrypted where they lie.
#[derive(Debug, Default)]
pub(crate) struct ReceiveBuffers {
    memory: Box<[u8]>,
    meta: [RecvMeta; BUFFERS],
    filled: usize,
}

impl ReceiveBuffers {
    pub(crate) fn new() -> Self {
        Self { memory: vec![0; BUFFER * BUFFERS].into_boxed_slice(), meta: Default::default(), filled: 0 }
    }

    /// Receives a batch; returns how many buffers were filled.
    pub(crate) fn fill(&mut self, socket: &Socket) -> io::Result<usize> {
        self.filled = 0;
        let mut chunks = self.memory.chunks_exact_mut(BUFFER);
        let mut buffers: [IoSliceMut<'_>; BUFFERS] =
            std::array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()));
        self.filled = socket.receive(&mut buffers, &mut self.meta)?.min(BUFFERS);
        Ok(self.filled)
    }

    /// What was received: where from, the size of each datagram but the last, and the bytes.
    pub(crate) fn filled(&mut self) -> impl Iterator<Item = (DatagramMeta, usize, &mut [u8])> {
        self.memory.chunks_exact_mut(BUFFER).zip(&self.meta).take(self.filled).filter_map(|(memory, meta)| {
            let received = memory.get_mut(..meta.len).filter(|received| !received.is_empty())?;
            let about = DatagramMeta { remote: meta.addr, local_ip: meta.dst_ip, ecn: ecn_of(meta.ecn) };
            Some((about, meta.stride.clamp(1, BUFFER), received))
        })
    }
}
