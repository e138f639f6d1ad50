//! FQ-PIE as in Linux: a queue for each flow, by a salted hash, served in turns by bytes, with a PIE of its own for
//! each.
//!
//! **Constants.** `queues`, 1,024, and `quantum`, 1,514 bytes, as in FQ-CoDel. The rest are PIE's, and the bytes that
//! it looks at are those of the flow's own queue. A packet that finds the whole queue full is dropped itself, whosever
//! it is. Linux has a limit of 10,240 packets; here it is `queue`. Flows whose PIE has settled are not updated until
//! they send again, which changes nothing and makes idle flows free.

use core::fmt::Debug;

use serde::Serialize;
use thalweg_units::{Instant, Rate};

use super::backlog::Room;
use super::fq_codel::{read_quantum, read_queues};
use super::lists::Lists;
use super::pie::{Admission, Control, Pie, State};
use super::rounds::Rounds;
use super::{Dropped, FlowHash, Grid, Kind, MANY, Needs, Queue, QueueLimit, Queued, Setup};
use crate::read::Table;
use crate::{Dice, DropCause, Packet};

/// FQ-PIE as in Linux.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FqPie {
    /// The PIE of each queue.
    pub pie: Pie,
    /// Into how many queues flows are hashed.
    pub queues: u32,
    /// Bytes that a flow may send in its turn.
    pub quantum: u32,
}

impl Default for FqPie {
    fn default() -> Self {
        FqPie { pie: Pie::default(), queues: 1024, quantum: 1514 }
    }
}

impl Kind for FqPie {
    const NAME: &'static str = "fq-pie";
    const EXAMPLE: &'static str = "{ name = \"fq-pie\", queues = 1024, quantum = \"1514 B\", target = \"15 ms\", \
        update = \"15 ms\", ecn = true }";
    const DOC: &'static str = r#"FQ-PIE as in Linux: flows are hashed into queues (default 1024, 1 to 65536),
        which send quantum (default "1514 B", 256 B to 1 MiB) in turn, each under PIE with the keys of pie;
        default queue "10240 packets" (Linux)"#;

    fn read(table: &dyn Table) -> Option<Self> {
        let mut fq = FqPie { pie: Pie::read_parameters(table), ..FqPie::default() };
        read_queues(table, &mut fq.queues);
        read_quantum(table, &mut fq.quantum);
        Some(fq)
    }

    fn limit(&self, _: Option<Rate>) -> QueueLimit {
        MANY
    }

    fn needs(&self, rate: Rate) -> Option<Needs> {
        Some(Needs::of_spans(rate, self.pie.target, self.pie.burst))
    }

    fn build<P: Debug + Send + 'static>(&self, mut setup: Setup) -> Box<dyn Queue<P>> {
        let queues = self.queues.max(1);
        let count = queues as usize;
        let control = Control::new(&self.pie);
        Box::new(Managed {
            lists: Lists::new(count),
            rounds: Rounds::new(count, self.quantum),
            states: vec![State::new(&control); count],
            restless: Vec::new(),
            is_restless: vec![false; count],
            control,
            grid: Grid::new(setup.start, self.pie.update),
            hash: FlowHash::new(&mut setup.dice),
            room: Room::new(setup.limit, Some(setup.rate)),
            queues,
            dice: setup.dice,
        })
    }
}

/// Queues under PIE that take turns.
#[derive(Debug)]
struct Managed<P> {
    lists: Lists<P>,
    rounds: Rounds,
    states: Vec<State>,
    /// Flows whose state changes with time.
    restless: Vec<usize>,
    is_restless: Vec<bool>,
    control: Control,
    grid: Grid,
    hash: FlowHash,
    room: Room,
    queues: u32,
    dice: Dice,
}

impl<P> Managed<P> {
    fn catch_up(&mut self, now: Instant) {
        while self.grid.tick(now).is_some() {
            let Managed { restless, states, lists, control, is_restless, .. } = self;
            restless.retain(|flow| {
                is_restless[*flow] = states[*flow].update(control, lists.bytes_of(*flow));
                is_restless[*flow]
            });
            if restless.is_empty() {
                self.grid.skip(now);
            }
        }
    }

    fn push(&mut self, now: Instant, packet: Packet<P>, flow: usize) {
        self.lists.push(flow, Queued { packet, at: now });
        self.rounds.activate(flow);
        self.wake(flow);
    }

    /// Something has come or gone.
    fn wake(&mut self, flow: usize) {
        if !self.is_restless[flow] {
            self.is_restless[flow] = true;
            self.restless.push(flow);
        }
    }

    fn flow(&self, packet: &Packet<P>) -> usize {
        self.hash.slot(packet.tuple(), self.queues)
    }
}

impl<P: Debug + Send> Queue<P> for Managed<P> {
    fn enqueue(&mut self, now: Instant, mut packet: Packet<P>, dropped: &mut Vec<Dropped<P>>) {
        self.catch_up(now);
        let flow = self.flow(&packet);
        let state = &mut self.states[flow];
        let cause = if !self.room.fits(self.lists.bytes(), self.lists.len(), packet.size) {
            state.overflow();
            DropCause::QueueFull
        } else {
            let admission = state.arrive(&self.control, &mut self.dice, packet.size, self.lists.bytes_of(flow));
            if admission == Admission::Accept || state.try_mark(&self.control, &mut packet) {
                return self.push(now, packet, flow);
            }
            DropCause::Aqm
        };
        dropped.push(Dropped { packet, at: now, cause });
    }

    fn enqueue_idle(&mut self, now: Instant, packet: Packet<P>, _: &mut Vec<Dropped<P>>) {
        self.catch_up(now);
        let flow = self.flow(&packet);
        // As in PIE: it would be accepted.
        let _ = self.states[flow].arrive(&self.control, &mut self.dice, packet.size, 0);
        self.push(now, packet, flow);
    }

    fn dequeue(&mut self, now: Instant, _: &mut Vec<Dropped<P>>) -> Option<Queued<P>> {
        self.catch_up(now);
        while let Some(flow) = self.rounds.next() {
            let Some(queued) = self.lists.pop_first(flow) else {
                self.rounds.empty(flow);
                continue;
            };
            let (sojourn, backlog) = (now.saturating_since(queued.at), self.lists.bytes_of(flow));
            self.states[flow].leave(&self.control, now, sojourn, queued.packet.size, backlog);
            self.rounds.charge(flow, queued.packet.size);
            self.wake(flow);
            return Some(queued);
        }
        None
    }

    fn set_rate(&mut self, rate: Rate) {
        self.room.set_rate(rate);
    }

    fn signals(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        let highest = self.states.iter().map(State::share).fold(0.0, f64::max);
        tell("flows", self.rounds.active() as f64);
        tell("probability", highest);
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

    #[test]
    fn the_flow_that_sends_too_much_loses_and_the_thin_one_does_not_wait() {
        let mut bench = Bench::new(&FqPie::default(), "12 Mbps", "unlimited");
        let mut longest = 0;
        for n in 0..4_000 {
            bench.push_of(500 * n, 1500, Ecn::NotEct, 1);
            if n % 40 == 0 {
                bench.push_of(500 * n, 150, Ecn::NotEct, 2);
            }
            for (at, packet) in bench.serve(500 * (n + 1)) {
                if packet.flow == 2 {
                    longest = longest.max(at - packet.sent.as_nanos() / 1000);
                }
            }
        }
        assert!(longest <= 2_000, "{longest} µs");
        assert!(bench.drops.len() > 100);
        assert!(bench.drops.iter().all(|drop| drop.packet.flow == 1 && drop.cause == DropCause::Aqm));
    }

    #[test]
    fn one_flow_alone_is_treated_as_by_pie() {
        let dropped = |kind: &dyn Fn() -> Bench| {
            let mut bench = kind();
            for n in 0..4_000 {
                bench.push(500 * n, 1500, Ecn::NotEct);
                bench.serve(500 * (n + 1));
            }
            (bench.drops.len(), bench.signal("probability"))
        };
        let (alone, probability) = dropped(&|| Bench::new(&Pie::default(), "12 Mbps", "unlimited"));
        let (in_turns, same) = dropped(&|| Bench::new(&FqPie::default(), "12 Mbps", "unlimited"));
        // The dice differ by the salt, so that the drops are as many but not the same.
        assert!(alone.abs_diff(in_turns) <= alone / 5, "{alone} {in_turns}");
        let (probability, same) = (probability.unwrap(), same.unwrap());
        assert!((probability - same).abs() <= probability / 5.0, "{probability} {same}");
    }

    #[test]
    fn flows_that_have_settled_cost_nothing() {
        let mut bench = Bench::new(&FqPie { queues: 65_536, ..FqPie::default() }, "12 Mbps", "unlimited");
        for flow in 0..60_000 {
            bench.push_of(0, 100, Ecn::NotEct, flow);
        }
        bench.serve_all();
        // An hour of updates every 15 ms would be 240,000 for each of the flows.
        bench.push_of(3_600_000_000, 100, Ecn::NotEct, 1);
        assert_eq!(bench.signal("probability"), Some(0.0));
    }
}
