//! The backlog of a queue and its limit: the parts that disciplines share.

use std::collections::VecDeque;

use thalweg_units::{Instant, Rate};

use super::{QueueLimit, Queued};
use crate::Packet;

/// Packets that wait in order of arrival, and their bytes.
#[derive(Debug)]
pub(crate) struct Backlog<P> {
    packets: VecDeque<Queued<P>>,
    bytes: u64,
}

impl<P> Backlog<P> {
    pub(crate) fn new() -> Self {
        Backlog { packets: VecDeque::new(), bytes: 0 }
    }

    pub(crate) fn push(&mut self, now: Instant, packet: Packet<P>) {
        self.bytes += u64::from(packet.size);
        self.packets.push_back(Queued { packet, at: now });
    }

    pub(crate) fn pop(&mut self) -> Option<Queued<P>> {
        let queued = self.packets.pop_front()?;
        self.bytes -= u64::from(queued.packet.size);
        Some(queued)
    }

    /// The packet that has waited longest.
    pub(crate) fn head(&self) -> Option<&Queued<P>> {
        self.packets.front()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.packets.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Queued<P>> {
        self.packets.iter()
    }
}

/// A [`QueueLimit`] in bytes and packets.
#[derive(Debug)]
pub(crate) struct Room {
    limit: QueueLimit,
    bytes: u64,
    packets: usize,
}

impl Room {
    /// A limit in BDP is not known here and counts as none.
    pub(crate) fn new(limit: QueueLimit, rate: Option<Rate>) -> Self {
        let (bytes, packets) = match limit {
            QueueLimit::Bytes(bytes) => (bytes, usize::MAX),
            QueueLimit::Packets(packets) => (u64::MAX, usize::try_from(packets).unwrap_or(usize::MAX)),
            QueueLimit::Infinite | QueueLimit::Time(_) | QueueLimit::Bdp(_) => (u64::MAX, usize::MAX),
        };
        let mut room = Room { limit, bytes, packets };
        if let Some(rate) = rate {
            room.set_rate(rate);
        }
        room
    }

    /// A limit in time follows the rate.
    pub(crate) fn set_rate(&mut self, rate: Rate) {
        if let QueueLimit::Time(span) = self.limit {
            self.bytes = rate.bytes_in(span).max(QueueLimit::LEAST);
        }
    }

    /// Whether a packet of `size` has room where so many bytes and packets wait.
    pub(crate) fn fits(&self, bytes: u64, packets: usize, size: u32) -> bool {
        bytes.saturating_add(u64::from(size)) <= self.bytes && packets < self.packets
    }

    /// Whether so many bytes and packets are more than may wait.
    pub(crate) fn is_exceeded(&self, bytes: u64, packets: usize) -> bool {
        bytes > self.bytes || packets > self.packets
    }
}
