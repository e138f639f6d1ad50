//! First in, first out, with a limit: tail drop, head drop, or none.

use core::fmt::Debug;

use serde::Serialize;
use thalweg_units::{Instant, Rate};

use super::backlog::{Backlog, Room};
use super::{Dropped, Kind, Queue, QueueLimit, Queued, Setup};
use crate::{DropCause, Packet};

/// First in, first out; a packet that finds the queue full is dropped.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TailDrop;

impl Kind for TailDrop {
    const NAME: &'static str = "tail-drop";
    const EXAMPLE: &'static str = "\"tail-drop\"";
    const DOC: &'static str = "a packet that finds the queue full is dropped; default queue \"1 BDP\"";

    fn limit(&self, _: Option<Rate>) -> QueueLimit {
        QueueLimit::Bdp(1000)
    }

    fn build<P: Debug + Send + 'static>(&self, setup: Setup) -> Box<dyn Queue<P>> {
        Box::new(Fifo::with(&setup, false))
    }
}

/// First in, first out; a packet that finds the queue full displaces the oldest packet.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HeadDrop;

impl Kind for HeadDrop {
    const NAME: &'static str = "head-drop";
    const EXAMPLE: &'static str = "\"head-drop\"";
    const DOC: &'static str = "a packet that finds the queue full displaces the oldest packet; default queue \"1 BDP\"";

    fn limit(&self, _: Option<Rate>) -> QueueLimit {
        QueueLimit::Bdp(1000)
    }

    fn build<P: Debug + Send + 'static>(&self, setup: Setup) -> Box<dyn Queue<P>> {
        Box::new(Fifo::with(&setup, true))
    }
}

/// A queue that serves in order of arrival. A packet is accepted when what then waits, itself included, is within the
/// limit, or when it finds the link idle.
#[derive(Debug)]
pub struct Fifo<P> {
    backlog: Backlog<P>,
    room: Room,
    head_drop: bool,
}

impl<P> Fifo<P> {
    /// An empty queue. A limit in time needs [`Queue::set_rate`]; a limit in BDP is not known here and counts as none.
    pub fn new(limit: QueueLimit, head_drop: bool) -> Self {
        Fifo { backlog: Backlog::new(), room: Room::new(limit, None), head_drop }
    }

    fn with(setup: &Setup, head_drop: bool) -> Self {
        Fifo { backlog: Backlog::new(), room: Room::new(setup.limit, Some(setup.rate)), head_drop }
    }

    fn fits(&self, size: u32) -> bool {
        self.room.fits(self.backlog.bytes(), self.backlog.len(), size)
    }
}

impl<P: Debug + Send> Queue<P> for Fifo<P> {
    fn enqueue(&mut self, now: Instant, packet: Packet<P>, dropped: &mut Vec<Dropped<P>>) {
        while self.head_drop && !self.fits(packet.size) {
            let Some(oldest) = self.backlog.pop() else { break };
            dropped.push(Dropped { packet: oldest.packet, at: now, cause: DropCause::QueueFull });
        }
        if !self.fits(packet.size) {
            dropped.push(Dropped { packet, at: now, cause: DropCause::QueueFull });
            return;
        }
        self.backlog.push(now, packet);
    }

    fn enqueue_idle(&mut self, now: Instant, packet: Packet<P>, _: &mut Vec<Dropped<P>>) {
        self.backlog.push(now, packet);
    }

    fn dequeue(&mut self, _: Instant, _: &mut Vec<Dropped<P>>) -> Option<Queued<P>> {
        self.backlog.pop()
    }

    fn set_rate(&mut self, rate: Rate) {
        self.room.set_rate(rate);
    }

    fn len_bytes(&self) -> u64 {
        self.backlog.bytes()
    }

    fn len_packets(&self) -> usize {
        self.backlog.len()
    }
}

#[cfg(test)]
mod tests {
    use thalweg_units::{Duration, Ecn};

    use super::*;

    fn packet(payload: u64, size: u32) -> Packet<u64> {
        Packet { payload, size, flow: 0, connection: 0, ecn: Ecn::NotEct, sent: Instant::ZERO, tail: false }
    }

    /// Offers packets of these sizes; returns which wait and which were dropped.
    fn offer(mut queue: Fifo<u64>, sizes: &[u32]) -> (Vec<u64>, Vec<u64>) {
        let mut dropped = Vec::new();
        for (payload, size) in (0..).zip(sizes) {
            queue.enqueue(Instant::ZERO, packet(payload, *size), &mut dropped);
        }
        let expected: u64 = queue.backlog.iter().map(|queued| u64::from(queued.packet.size)).sum();
        assert_eq!(queue.len_bytes(), expected);
        let mut waiting = Vec::new();
        while let Some(queued) = queue.dequeue(Instant::ZERO, &mut dropped) {
            waiting.push(queued.packet.payload);
        }
        assert_eq!((queue.len_bytes(), queue.len_packets()), (0, 0));
        (waiting, dropped.iter().map(|dropped| dropped.packet.payload).collect())
    }

    #[test]
    fn tail_drop_refuses_what_does_not_fit_and_takes_a_smaller_one() {
        let queue = Fifo::new(QueueLimit::Bytes(3000), false);
        assert_eq!(offer(queue, &[1500, 1000, 1000, 500]), (vec![0, 1, 3], vec![2]));
    }

    #[test]
    fn head_drop_makes_room_from_the_front() {
        let queue = Fifo::new(QueueLimit::Bytes(3000), true);
        assert_eq!(offer(queue, &[1500, 1000, 1000, 500]), (vec![1, 2, 3], vec![0]));
        // What can never fit is dropped itself, after everything else.
        let queue = Fifo::new(QueueLimit::Bytes(1000), true);
        assert_eq!(offer(queue, &[500, 1500]), (vec![], vec![0, 1]));
    }

    #[test]
    fn a_limit_in_packets_counts_packets() {
        let queue = Fifo::new(QueueLimit::Packets(2), false);
        assert_eq!(offer(queue, &[9000, 40, 40]), (vec![0, 1], vec![2]));
        let queue = Fifo::new(QueueLimit::Packets(0), true);
        assert_eq!(offer(queue, &[40]), (vec![], vec![0]));
    }

    #[test]
    fn a_limit_in_time_follows_the_rate() {
        let mut queue = Fifo::new(QueueLimit::Time(Duration::from_millis(10)), false);
        queue.set_rate(Rate::from_bps(8_000_000)); // 10,000 bytes in ten milliseconds
        let mut dropped = Vec::new();
        queue.enqueue(Instant::ZERO, packet(0, 10_000), &mut dropped);
        queue.enqueue(Instant::ZERO, packet(1, 1), &mut dropped);
        assert_eq!(dropped.len(), 1);
        queue.set_rate(Rate::from_bps(16_000_000));
        queue.enqueue(Instant::ZERO, packet(2, 10_000), &mut dropped);
        assert_eq!((dropped.len(), queue.len_packets()), (1, 2));
    }

    #[test]
    fn a_limit_in_time_is_two_packets_at_least() {
        let mut queue = Fifo::new(QueueLimit::Time(Duration::from_millis(1)), false);
        queue.set_rate(Rate::from_bps(8_000_000)); // 1,000 bytes per millisecond
        assert_eq!(offer(queue, &[1500, 1500, 1]), (vec![0, 1], vec![2]));
    }

    #[test]
    fn an_infinite_queue_takes_everything() {
        let (waiting, dropped) = offer(Fifo::new(QueueLimit::Infinite, false), &[1500; 10_000]);
        assert_eq!((waiting.len(), dropped.len()), (10_000, 0));
    }
}
