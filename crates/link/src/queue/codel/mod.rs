//! CoDel (RFC 8289): drops or marks at dequeue when packets have waited longer than a target for a whole interval, then
//! ever more often until they do not.
//!
//! **Constants.** `target`, 5 ms: the sojourn time that is acceptable as a standing queue, 5 % of the interval (RFC
//! 8289 section 4.4); a smaller one costs throughput, a larger one delay. `interval`, 100 ms: how long it takes to
//! tell a burst from a standing queue, a round trip of the longest paths that matter (section 4.3); too short a one
//! cuts slow start off. `mtu`, 1,500 bytes: so much may wait always, since a link that sends one packet at a time is
//! no standing queue. 16 intervals: how long ago dropping may have ended for its count to be resumed (section 5.5).
//!
//! **The law.** Drops follow each other after `interval / √count`. The square root here is exact. Linux makes do with
//! one step of Newton's method in 16 bits and a clock of 1,024 ns, and waits for more than an interval instead of for
//! one; `law = "linux"` gives its times to the tick. The two differ most at the second drop: 70.7 ms against 50 ms.

mod control;

use core::fmt::Debug;
use core::ops::RangeInclusive;

pub(crate) use control::{Control, Restart, Source, State};
use serde::Serialize;
use thalweg_units::{Duration, Instant, Rate, exact_duration};

use super::backlog::{Backlog, Room};
use super::{Dropped, FEW, Kind, Needs, Queue, QueueLimit, Queued, Setup, set};
use crate::read::Table;
use crate::{DropCause, Packet};

/// CoDel (RFC 8289).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CoDel {
    /// The sojourn time that is acceptable.
    pub target: Duration,
    /// For how long it has to be exceeded.
    pub interval: Duration,
    /// Bytes that may wait however long.
    pub mtu: u64,
    /// Whether packets that can be are marked instead of dropped.
    pub ecn: bool,
    /// Marks every packet that has waited longer, beside all else.
    pub ce_threshold: Option<Duration>,
    /// Applies nothing but the threshold to packets marked ECT(1) or CE, and the threshold to nothing else.
    pub l4s: bool,
    /// How the square root is taken.
    pub law: Law,
}

/// How CoDel takes the square root of its count.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Law {
    /// Exactly.
    #[default]
    Exact,
    /// As Linux does, to the tick.
    Linux,
}

impl Default for CoDel {
    fn default() -> Self {
        CoDel {
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            mtu: 1500,
            ecn: true,
            ce_threshold: None,
            l4s: false,
            law: Law::Exact,
        }
    }
}

/// What a target and an interval may be. Nothing on earth needs more.
const SPANS: RangeInclusive<Duration> = Duration::from_micros(1)..=Duration::from_secs(60);

/// Reads a target and an interval, which is the longer of the two.
pub(crate) fn read_spans(table: &dyn Table, target: &mut Duration, interval: &mut Duration) {
    set(table, "target", target, |field| field.duration_in(SPANS));
    set(table, "interval", interval, |field| field.duration_in(SPANS));
    if target >= interval {
        let [target, interval] = [*target, *interval].map(exact_duration);
        table.complain(&format_args!(
            "has a target of {target}, which is not below its interval of {interval}; write a target from 1 us to \
             less than the interval, such as a twentieth of it"
        ));
    }
}

impl CoDel {
    /// Reads what any queue with CoDel has.
    pub(crate) fn read_common(&mut self, table: &dyn Table) {
        read_spans(table, &mut self.target, &mut self.interval);
        set(table, "mtu", &mut self.mtu, |field| field.bytes_in(0..=1 << 20));
        set(table, "law", &mut self.law, |field| field.choice(&[("exact", Law::Exact), ("linux", Law::Linux)]));
    }

    /// Reads what has to do with marks.
    pub(crate) fn read_marks(&mut self, table: &dyn Table) {
        set(table, "ecn", &mut self.ecn, |field| field.boolean());
        set(table, "ce_threshold", &mut self.ce_threshold, |field| field.duration_in(SPANS).map(Some));
        set(table, "l4s", &mut self.l4s, |field| field.boolean());
        if self.l4s && self.ce_threshold.is_none() {
            table.complain(&"has l4s = true, which needs ce_threshold, for example ce_threshold = \"1 ms\"");
        }
    }
}

impl Kind for CoDel {
    const NAME: &'static str = "codel";
    const EXAMPLE: &'static str = "{ name = \"codel\", target = \"5 ms\", interval = \"100 ms\", mtu = \"1500 B\", \
        ecn = true, ce_threshold = \"1 ms\", l4s = false, law = \"exact\" }";
    const DOC: &'static str = r#"CoDel (RFC 8289): drops or marks at dequeue once packets have waited longer than
        target (default "5 ms", "1 us" to "60 s") for an interval (default "100 ms", above target, to "60 s"), unless
        at most mtu (default "1500 B") waits; ecn = false (default true) drops packets that could be marked;
        ce_threshold (default none) marks all that waited longer; l4s = true (default false) applies only the
        threshold to packets with ECT(1) or CE, and only to them; law = "linux" (default "exact") takes the square
        root and the time in the steps of Linux; default queue "1000 packets" (Linux)"#;

    fn read(table: &dyn Table) -> Option<Self> {
        let mut codel = CoDel::default();
        codel.read_common(table);
        codel.read_marks(table);
        Some(codel)
    }

    fn limit(&self, _: Option<Rate>) -> QueueLimit {
        FEW
    }

    fn needs(&self, rate: Rate) -> Option<Needs> {
        Some(Needs::of_spans(rate, self.target, self.interval))
    }

    fn build<P: Debug + Send + 'static>(&self, setup: Setup) -> Box<dyn Queue<P>> {
        Box::new(Managed {
            backlog: Backlog::new(),
            room: Room::new(setup.limit, Some(setup.rate)),
            control: Control::new(self, Restart::Delta),
            state: State::new(),
        })
    }
}

/// A queue under CoDel.
#[derive(Debug)]
struct Managed<P> {
    backlog: Backlog<P>,
    room: Room,
    control: Control,
    state: State,
}

impl<P> Source<P> for Backlog<P> {
    fn pop(&mut self) -> Option<Queued<P>> {
        Backlog::pop(self)
    }

    fn backlog(&self) -> u64 {
        self.bytes()
    }
}

impl<P: Debug + Send> Queue<P> for Managed<P> {
    fn enqueue(&mut self, now: Instant, packet: Packet<P>, dropped: &mut Vec<Dropped<P>>) {
        if self.room.fits(self.backlog.bytes(), self.backlog.len(), packet.size) {
            self.backlog.push(now, packet);
        } else {
            dropped.push(Dropped { packet, at: now, cause: DropCause::QueueFull });
        }
    }

    fn enqueue_idle(&mut self, now: Instant, packet: Packet<P>, _: &mut Vec<Dropped<P>>) {
        self.backlog.push(now, packet);
    }

    fn dequeue(&mut self, now: Instant, dropped: &mut Vec<Dropped<P>>) -> Option<Queued<P>> {
        self.state.dequeue(&self.control, now, &mut self.backlog, dropped)
    }

    fn set_rate(&mut self, rate: Rate) {
        self.room.set_rate(rate);
    }

    fn signals(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("dropping", f64::from(u8::from(self.state.is_dropping())));
        tell("count", f64::from(self.state.count()));
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
    use thalweg_units::Ecn;

    use super::*;
    use crate::queue::testing::{Bench, at_micros};

    /// Four hundred packets of 1,500 bytes at once, on a link that takes 1.2 ms for each: when which was marked, which
    /// were dropped, and how many were delivered.
    fn burst(codel: CoDel, ecn: Ecn) -> (Vec<(u64, u64)>, Vec<u64>, usize) {
        let mut bench = Bench::new(&codel, "10 Mbps", "unlimited");
        bench.burst(400, ecn);
        let served = bench.serve_all();
        let marked = served.iter().filter(|(_, packet)| packet.ecn == Ecn::Ce);
        (marked.map(|(at, packet)| (packet.payload, *at)).collect(), bench.dropped(), served.len())
    }

    #[test]
    fn a_burst_is_marked_by_the_law() {
        let (marked, dropped, delivered) = burst(CoDel::default(), Ecn::Ect0);
        const TENTHS: [(u64, u64); 7] =
            [(89, 1068), (173, 2076), (232, 2784), (280, 3360), (322, 3864), (359, 4308), (393, 4716)];
        assert_eq!(marked, TENTHS.map(|(index, tenths)| (index, tenths * 100)));
        assert_eq!((dropped.len(), delivered), (0, 400));
    }

    #[test]
    fn a_burst_is_dropped_by_the_law() {
        for (ecn, codel) in [(Ecn::NotEct, true), (Ecn::Ect0, false)] {
            let (marked, dropped, delivered) = burst(CoDel { ecn: codel, ..CoDel::default() }, ecn);
            assert_eq!((marked.len(), delivered), (0, 394));
            assert_eq!(dropped, [89, 174, 234, 283, 326, 364]);
        }
    }

    #[test]
    fn linux_drops_sooner_the_second_time_and_later_the_third() {
        let (_, exact, _) = burst(CoDel::default(), Ecn::NotEct);
        let (_, linux, _) = burst(CoDel { law: Law::Linux, ..CoDel::default() }, Ecn::NotEct);
        assert!(linux[0] == exact[0] && linux[2] < exact[2] && linux.len() > exact.len(), "{linux:?}");
    }

    #[test]
    fn a_packet_or_two_and_a_short_wait_are_no_standing_queue() {
        // A packet every 1.2 ms finds one in service and one waiting: never more than an MTU is left behind.
        let mut bench = Bench::new(&CoDel::default(), "10 Mbps", "unlimited");
        bench.push(0, 1500, Ecn::NotEct);
        for n in 0..1000 {
            bench.push(1200 * n, 1500, Ecn::NotEct);
            bench.serve(1200 * (n + 1));
        }
        assert_eq!(bench.dropped(), [0u64; 0]);
    }

    #[test]
    fn a_threshold_marks_what_waited_longer() {
        let codel = CoDel { ce_threshold: Some(Duration::from_millis(6)), ..CoDel::default() };
        let mut bench = Bench::new(&codel, "10 Mbps", "unlimited");
        bench.burst(10, Ecn::Ect0);
        let marks: Vec<bool> = bench.serve_all().iter().map(|(_, packet)| packet.ecn == Ecn::Ce).collect();
        // The packet of place n waits for n × 1.2 ms.
        assert_eq!(marks, (0..10).map(|n| n * 12 > 60).collect::<Vec<_>>());
        // With l4s it is the only thing that happens to ECT(1), and does not happen to ECT(0).
        let codel = CoDel { l4s: true, ..codel };
        assert_eq!(burst(codel.clone(), Ecn::Ect1).0.len(), 394);
        assert_eq!(burst(codel, Ecn::Ect0).0.len(), 7);
    }

    #[test]
    fn an_empty_queue_ends_dropping_and_the_count_is_resumed() {
        let mut bench = Bench::new(&CoDel::default(), "10 Mbps", "unlimited");
        bench.burst(400, Ecn::NotEct);
        bench.serve_all();
        let signal = |bench: &Bench, name| bench.signal(name).unwrap();
        assert_eq!((signal(&bench, "dropping"), signal(&bench, "count")), (0.0, 6.0));
        // Again right away: dropping begins with the five drops after the first.
        let from = bench.now_micros();
        for _ in 0..200 {
            bench.push(from, 1500, Ecn::NotEct);
        }
        bench.serve(from + 110_000);
        assert_eq!((signal(&bench, "dropping"), signal(&bench, "count")), (1.0, 5.0));
        assert_eq!(at_micros(1).as_nanos(), 1_000);
    }
}
