//! FQ-CoDel (RFC 8290): a queue for each flow, by a salted hash, served in turns by bytes, with a CoDel of its own for
//! each.
//!
//! **Constants.** `queues`, 1,024: two of a hundred flows share one with a chance of 1 % (RFC 8290 section 5.2.4).
//! `quantum`, 1,514 bytes: what a flow may send in its turn, a full Ethernet frame (section 5.2.4); a smaller one
//! prefers small packets. `batch`, 64: at most so many packets are dropped at once when the queue overflows (section
//! 4.1), from the head of the flow that has most bytes, until it has half of them. Limit: 10,240 packets in RFC 8290
//! and Linux, where `queue` says nothing else. Target, interval and the rest are CoDel's; packets are
//! marked by default, as in Linux.
//!
//! **Where implementations differ.** CoDel lets a packet or two wait however long. The bytes that it tests are those
//! of the flow's own queue, as in RFC 8289 and ns-3. With `law = "linux"` they are those of all flows, and an overflow
//! adds its drops to the flow's count. A new flow that has run empty waits for the others only if there are any that
//! are not new, as in Linux.

use core::fmt::Debug;

use serde::Serialize;
use thalweg_units::{Instant, Rate};

use super::backlog::Room;
use super::codel::{CoDel, Control, Law, Restart, Source, State};
use super::lists::Lists;
use super::rounds::Rounds;
use super::{Dropped, FlowHash, Kind, MANY, Needs, Queue, QueueLimit, Queued, Setup, set};
use crate::read::Table;
use crate::{DropCause, Packet};

/// FQ-CoDel (RFC 8290).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FqCodel {
    /// The CoDel of each queue.
    pub codel: CoDel,
    /// Into how many queues flows are hashed.
    pub queues: u32,
    /// Bytes that a flow may send in its turn.
    pub quantum: u32,
    /// The most packets that are dropped at once when the queue overflows.
    pub batch: u32,
}

impl Default for FqCodel {
    fn default() -> Self {
        FqCodel { codel: CoDel::default(), queues: 1024, quantum: 1514, batch: 64 }
    }
}

/// Reads `queues`. Each takes a hundred bytes, and an overflow looks at all of them.
pub(crate) fn read_queues(table: &dyn Table, queues: &mut u32) {
    set(table, "queues", queues, |field| field.count(1..=65_536).map(|count| count as u32));
}

/// Reads `quantum`. A smaller one takes too many turns for a large packet.
pub(crate) fn read_quantum(table: &dyn Table, quantum: &mut u32) {
    set(table, "quantum", quantum, |field| field.bytes_in(256..=1 << 20).map(|bytes| bytes as u32));
}

/// Reads `batch`.
pub(crate) fn read_batch(table: &dyn Table, batch: &mut u32) {
    set(table, "batch", batch, |field| field.count(1..=65_536).map(|count| count as u32));
}

impl Kind for FqCodel {
    const NAME: &'static str = "fq-codel";
    const EXAMPLE: &'static str = "{ name = \"fq-codel\", queues = 1024, quantum = \"1514 B\", batch = 64, \
        target = \"5 ms\", interval = \"100 ms\", ecn = true }";
    const DOC: &'static str = r#"FQ-CoDel (RFC 8290): flows are hashed into queues (default 1024, 1 to 65536),
        which send quantum (default "1514 B", 256 B to 1 MiB) in turn, each under CoDel with the keys of codel; an
        overflow drops up to batch packets (default 64, 1 to 65536) from the head of the longest queue; default queue
        "10240 packets" (RFC 8290)"#;

    fn read(table: &dyn Table) -> Option<Self> {
        let mut fq = FqCodel::default();
        fq.codel.read_common(table);
        fq.codel.read_marks(table);
        read_queues(table, &mut fq.queues);
        read_quantum(table, &mut fq.quantum);
        read_batch(table, &mut fq.batch);
        Some(fq)
    }

    fn limit(&self, _: Option<Rate>) -> QueueLimit {
        MANY
    }

    fn needs(&self, rate: Rate) -> Option<Needs> {
        Some(Needs::of_spans(rate, self.codel.target, self.codel.interval))
    }

    fn build<P: Debug + Send + 'static>(&self, mut setup: Setup) -> Box<dyn Queue<P>> {
        Box::new(Managed::new(self, &mut setup))
    }
}

/// Queues under CoDel that take turns.
#[derive(Debug)]
struct Managed<P> {
    lists: Lists<P>,
    rounds: Rounds,
    states: Vec<State>,
    control: Control,
    /// Whether CoDel tests the bytes of all flows and is notified of overflows.
    is_linux: bool,
    hash: FlowHash,
    room: Room,
    queues: u32,
    batch: u32,
}

/// The packets of a flow.
struct Flow<'a, P> {
    lists: &'a mut Lists<P>,
    flow: usize,
    of_all: bool,
}

impl<P> Source<P> for Flow<'_, P> {
    fn pop(&mut self) -> Option<Queued<P>> {
        self.lists.pop_first(self.flow)
    }

    fn backlog(&self) -> u64 {
        if self.of_all { self.lists.bytes() } else { self.lists.bytes_of(self.flow) }
    }
}

impl<P> Managed<P> {
    fn new(fq: &FqCodel, setup: &mut Setup) -> Self {
        let queues = fq.queues.max(1);
        let count = queues as usize;
        Managed {
            lists: Lists::new(count),
            rounds: Rounds::new(count, fq.quantum),
            states: vec![State::new(); count],
            control: Control::new(&fq.codel, Restart::Delta),
            is_linux: fq.codel.law == Law::Linux,
            hash: FlowHash::new(&mut setup.dice),
            room: Room::new(setup.limit, Some(setup.rate)),
            queues,
            batch: fq.batch,
        }
    }

    fn push(&mut self, now: Instant, packet: Packet<P>) {
        let flow = self.hash.slot(packet.tuple(), self.queues);
        self.lists.push(flow, Queued { packet, at: now });
        self.rounds.activate(flow);
    }

    fn shed(&mut self, now: Instant, dropped: &mut Vec<Dropped<P>>) {
        if let Some((flow, drops)) = shed(&mut self.lists, self.batch, now, dropped)
            && self.is_linux
        {
            self.states[flow].add_drops(drops);
        }
    }
}

/// Drops from the head of the queue with most bytes until it has half of them, or as many packets as a batch: which
/// queue, and how many (RFC 8290 section 4.1).
pub(crate) fn shed<P>(
    lists: &mut Lists<P>,
    batch: u32,
    now: Instant,
    dropped: &mut Vec<Dropped<P>>,
) -> Option<(usize, u32)> {
    // The first of the longest, as Linux finds it.
    let longest = (0..lists.count()).rev().max_by_key(|flow| lists.bytes_of(*flow))?;
    let half = lists.bytes_of(longest) / 2;
    let (mut bytes, mut packets) = (0, 0);
    while packets < batch.max(1) && (packets == 0 || bytes < half) {
        let Some(queued) = lists.pop_first(longest) else { break };
        bytes += u64::from(queued.packet.size);
        packets += 1;
        dropped.push(Dropped { packet: queued.packet, at: now, cause: DropCause::QueueFull });
    }
    Some((longest, packets))
}

impl<P: Debug + Send> Queue<P> for Managed<P> {
    fn enqueue(&mut self, now: Instant, packet: Packet<P>, dropped: &mut Vec<Dropped<P>>) {
        self.push(now, packet);
        while self.room.is_exceeded(self.lists.bytes(), self.lists.len()) {
            self.shed(now, dropped);
        }
    }

    fn enqueue_idle(&mut self, now: Instant, packet: Packet<P>, _: &mut Vec<Dropped<P>>) {
        self.push(now, packet);
    }

    fn dequeue(&mut self, now: Instant, dropped: &mut Vec<Dropped<P>>) -> Option<Queued<P>> {
        while let Some(flow) = self.rounds.next() {
            let mut source = Flow { lists: &mut self.lists, flow, of_all: self.is_linux };
            match self.states[flow].dequeue(&self.control, now, &mut source, dropped) {
                Some(queued) => {
                    self.rounds.charge(flow, queued.packet.size);
                    return Some(queued);
                }
                None => self.rounds.empty(flow),
            }
        }
        None
    }

    fn set_rate(&mut self, rate: Rate) {
        self.room.set_rate(rate);
    }

    fn signals(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("flows", self.rounds.active() as f64);
        tell("dropping_flows", self.states.iter().filter(|state| state.is_dropping()).count() as f64);
    }

    fn len_bytes(&self) -> u64 {
        self.lists.bytes()
    }

    fn len_packets(&self) -> usize {
        self.lists.len()
    }
}

#[cfg(test)]
mod tests;
