//! SFQ-CoDel as in ns-2: a queue for each flow by a salted hash, one packet of each in turn, with a CoDel of its own
//! for each.
//!
//! The forerunner of FQ-CoDel, on which measurements with ns-2 are based. It differs in this: turns are counted in
//! packets, not in bytes; an overflow drops one packet, from the tail of the queue that has most packets; CoDel lets a
//! packet or two wait among **all** that waits; it begins again with the count of the last time less two, within eight
//! intervals; and it never marks.
//!
//! **Constants.** `queues`, 1,024 (`maxbins_` in ns-2). The rest are CoDel's.

use core::fmt::Debug;
use std::collections::VecDeque;

use serde::Serialize;
use thalweg_units::{Instant, Rate};

use super::backlog::Room;
use super::codel::{CoDel, Control, Restart, Source, State};
use super::fq_codel::read_queues;
use super::lists::Lists;
use super::{Dropped, FEW, FlowHash, Kind, Needs, Queue, QueueLimit, Queued, Setup};
use crate::read::Table;
use crate::{DropCause, Packet};

/// SFQ-CoDel as in ns-2.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SfqCodel {
    /// The CoDel of each queue; it never marks.
    pub codel: CoDel,
    /// Into how many queues flows are hashed.
    pub queues: u32,
}

impl Default for SfqCodel {
    fn default() -> Self {
        SfqCodel { codel: CoDel { ecn: false, ..CoDel::default() }, queues: 1024 }
    }
}

impl Kind for SfqCodel {
    const NAME: &'static str = "sfq-codel";
    const EXAMPLE: &'static str =
        "{ name = \"sfq-codel\", queues = 1024, target = \"5 ms\", interval = \"100 ms\", mtu = \"1500 B\" }";
    const DOC: &'static str = r#"SFQ-CoDel of ns-2: flows are hashed into queues (default 1024, 1 to 65536),
        which send a packet in turn, each under CoDel with target, interval, mtu and law as in codel; it drops only;
        an overflow drops the last packet of the queue with most packets; default queue "1000 packets""#;

    fn read(table: &dyn Table) -> Option<Self> {
        let mut sfq = SfqCodel::default();
        sfq.codel.read_common(table);
        read_queues(table, &mut sfq.queues);
        Some(sfq)
    }

    fn limit(&self, _: Option<Rate>) -> QueueLimit {
        FEW
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
    states: Vec<State>,
    /// Queues that have not sent since they had nothing to send; they go first.
    new: VecDeque<usize>,
    /// The others, in the order of their turns.
    old: VecDeque<usize>,
    is_active: Vec<bool>,
    control: Control,
    hash: FlowHash,
    room: Room,
    queues: u32,
    /// Where the search for the longest queue begins, so that equals lose in turn.
    search: usize,
}

/// The packets of a flow.
struct Flow<'a, P> {
    lists: &'a mut Lists<P>,
    flow: usize,
}

impl<P> Source<P> for Flow<'_, P> {
    fn pop(&mut self) -> Option<Queued<P>> {
        self.lists.pop_first(self.flow)
    }

    fn backlog(&self) -> u64 {
        if self.lists.len_of(self.flow) == 0 { 0 } else { self.lists.bytes() }
    }
}

impl<P> Managed<P> {
    fn new(sfq: &SfqCodel, setup: &mut Setup) -> Self {
        let queues = sfq.queues.max(1);
        let count = queues as usize;
        let codel = CoDel { ecn: false, ce_threshold: None, l4s: false, ..sfq.codel.clone() };
        Managed {
            lists: Lists::new(count),
            states: vec![State::new(); count],
            new: VecDeque::new(),
            old: VecDeque::new(),
            is_active: vec![false; count],
            control: Control::new(&codel, Restart::LessTwo),
            hash: FlowHash::new(&mut setup.dice),
            room: Room::new(setup.limit, Some(setup.rate)),
            queues,
            search: 0,
        }
    }

    fn push(&mut self, now: Instant, packet: Packet<P>) {
        let flow = self.hash.slot(packet.tuple(), self.queues);
        self.lists.push(flow, Queued { packet, at: now });
        if !self.is_active[flow] {
            self.is_active[flow] = true;
            self.new.push_back(flow);
        }
    }

    /// Drops the last packet of the longest queue.
    fn shed(&mut self, now: Instant, dropped: &mut Vec<Dropped<P>>) {
        let count = self.lists.count();
        let from = self.search;
        let order = (from..count).chain(0..from).rev();
        // The last of the equal ones in this order is the first from where the search begins.
        let Some(longest) = order.max_by_key(|flow| self.lists.len_of(*flow)) else { return };
        self.search = (longest + 1) % count;
        if let Some(queued) = self.lists.pop_last(longest) {
            dropped.push(Dropped { packet: queued.packet, at: now, cause: DropCause::QueueFull });
        }
    }
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
        while let Some(flow) = self.new.pop_front().or_else(|| self.old.pop_front()) {
            let mut source = Flow { lists: &mut self.lists, flow };
            let queued = self.states[flow].dequeue(&self.control, now, &mut source, dropped);
            if self.lists.len_of(flow) > 0 {
                self.old.push_back(flow);
            } else {
                self.is_active[flow] = false;
                self.states[flow].stop_dropping();
            }
            if queued.is_some() {
                return queued;
            }
        }
        None
    }

    fn set_rate(&mut self, rate: Rate) {
        self.room.set_rate(rate);
    }

    fn signals(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("flows", (self.new.len() + self.old.len()) as f64);
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
mod tests {
    use thalweg_units::Ecn;

    use super::*;
    use crate::queue::testing::Bench;

    fn flows(served: &[(u64, Packet<u64>)]) -> Vec<u32> {
        served.iter().map(|(_, packet)| packet.flow).collect()
    }

    #[test]
    fn flows_send_a_packet_in_turn_whatever_its_size() {
        let mut bench = Bench::new(&SfqCodel::default(), "12 Mbps", "unlimited");
        for (flow, size) in [(1, 1500), (1, 1500), (1, 1500), (2, 100), (2, 100), (3, 1500)] {
            bench.push_of(0, size, Ecn::NotEct, flow);
        }
        assert_eq!(flows(&bench.serve_all()), [1, 2, 3, 1, 2, 1]);
    }

    #[test]
    fn a_new_flow_goes_before_old_ones_and_after_new_ones() {
        let mut bench = Bench::new(&SfqCodel::default(), "12 Mbps", "unlimited");
        for flow in [1, 1, 2, 2] {
            bench.push_of(0, 1500, Ecn::NotEct, flow);
        }
        assert_eq!(flows(&bench.serve(1_000)), [1]);
        bench.push_of(1_000, 1500, Ecn::NotEct, 3);
        assert_eq!(flows(&bench.serve_all()), [2, 3, 1, 2]);
    }

    #[test]
    fn an_overflow_drops_the_tail_of_the_longest_queue() {
        let mut bench = Bench::new(&SfqCodel::default(), "12 Mbps", "6 packets");
        for flow in [1, 1, 1, 2, 2, 2] {
            bench.push_of(0, 1500, Ecn::NotEct, flow);
        }
        // Three each; the flow that sends more loses it at once, and of equals each in turn.
        bench.push_of(0, 1500, Ecn::NotEct, 1);
        assert_eq!(bench.dropped(), [6]);
        bench.push_of(0, 1500, Ecn::NotEct, 3);
        bench.push_of(0, 1500, Ecn::NotEct, 3);
        let mut lost = bench.drops[1..].iter().map(|drop| drop.packet.payload).collect::<Vec<_>>();
        lost.sort_unstable();
        assert_eq!(lost, [2, 5]);
    }

    #[test]
    fn it_drops_what_could_be_marked_and_spares_the_thin() {
        let mut bench = Bench::new(&SfqCodel::default(), "12 Mbps", "unlimited");
        for n in 0..1000 {
            bench.push_of(500 * n, 1500, Ecn::Ect0, 1);
            if n % 40 == 0 {
                bench.push_of(500 * n, 200, Ecn::Ect0, 2);
            }
            let served = bench.serve(500 * (n + 1));
            assert!(served.iter().all(|(_, packet)| packet.ecn == Ecn::Ect0));
        }
        assert!(!bench.drops.is_empty());
        assert!(bench.drops.iter().all(|drop| drop.packet.flow == 1 && drop.cause == DropCause::Aqm));
    }
}
