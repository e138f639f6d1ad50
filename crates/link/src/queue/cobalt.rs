//! COBALT, the queue management of CAKE (Palmei et al. 2019): CoDel that forgets gradually, with BLUE for senders that
//! do not listen.
//!
//! Above the target a packet is dropped or marked whenever one is due, at CoDel's distances, but never more than one
//! for each time that is due. Below it the count of drops falls at the same distances instead of being reset, so that
//! the answer to a load that comes back is there at once. BLUE drops a share of packets, whatever their ECN field,
//! that grows while the queue overflows or is far too long, and falls while it is empty.
//!
//! **Slow links.** A packet that waits for one other has waited for longer than 5 ms on any link below 2.4 Mbps. CAKE
//! (Linux, `sch_cake.c`) therefore signals only what has waited for more than four times the time that the link needs
//! for an `mtu`, raises the target to 1.5 times that time, and the interval by as much as the target, to twice the
//! target at least. All of it follows the rate of the link. At 9.6 Mbps and above nothing changes.
//!
//! **Constants.** `target`, 5 ms, and `interval`, 100 ms, as in CoDel. `mtu`, 1,500 bytes. `blue_up`, 1/256, and
//! `blue_down`, 1/4096: by how much BLUE's share changes, at most once per target (CAKE). `blue_threshold`, 400 ms: the
//! sojourn time above which it grows too (ns-3; zero turns that off, as in CAKE), raised in proportion to the interval.
//! The inverse square roots are CAKE's: 32 bits, one step of Newton's method, and exact ones for counts below 16.

use core::fmt::Debug;
use core::ops::RangeInclusive;

use serde::Serialize;
use thalweg_units::{Duration, DurationExt, Instant, Rate, math};

use super::backlog::{Backlog, Room};
use super::fixed::{ONE, happens, to_share};
use super::{Dropped, Kind, Needs, Queue, QueueLimit, Queued, Setup, set};
use crate::read::Table;
use crate::{Dice, DropCause, Packet};

/// COBALT, the queue management of CAKE.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cobalt {
    /// The sojourn time that is acceptable.
    pub target: Duration,
    /// For how long it has to be exceeded.
    pub interval: Duration,
    /// Bytes of a large packet: packets may always wait for four times its time on the link.
    pub mtu: u64,
    /// The sojourn time above which BLUE's share grows; zero if it does not matter.
    pub blue_threshold: Duration,
    /// Whether packets that can be are marked instead of dropped, except by BLUE.
    pub ecn: bool,
}

impl Default for Cobalt {
    fn default() -> Self {
        Cobalt {
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            mtu: 1500,
            blue_threshold: Duration::from_millis(400),
            ecn: true,
        }
    }
}

impl Cobalt {
    const THRESHOLDS: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(60);
}

impl Kind for Cobalt {
    const NAME: &'static str = "cobalt";
    const EXAMPLE: &'static str = "{ name = \"cobalt\", target = \"5 ms\", interval = \"100 ms\", mtu = \"1500 B\", \
        blue_threshold = \"400 ms\", ecn = true }";
    const DOC: &'static str = r#"COBALT, the queue management of CAKE: CoDel with target (default "5 ms") and
        interval (default "100 ms"), which forgets gradually, and BLUE, which drops more at random while the queue
        overflows or packets wait for longer than blue_threshold (default "400 ms", "0 s" turns it off, to "60 s"),
        and less while it is empty; packets may always wait for four times as long as the link needs for mtu
        (default "1500 B"), and target and interval are raised with it on links below 3.6 Mbps, as in CAKE; ecn =
        false (default true) drops packets that could be marked; default queue: four intervals at the link's rate,
        within 4 MiB and 10240 frames (CAKE)"#;

    fn read(table: &dyn Table) -> Option<Self> {
        let mut cobalt = Cobalt::default();
        super::codel::read_spans(table, &mut cobalt.target, &mut cobalt.interval);
        set(table, "mtu", &mut cobalt.mtu, |field| field.bytes_in(0..=1 << 20));
        set(table, "blue_threshold", &mut cobalt.blue_threshold, |field| field.duration_in(Self::THRESHOLDS));
        set(table, "ecn", &mut cobalt.ecn, |field| field.boolean());
        Some(cobalt)
    }

    /// Four intervals' worth and 4 MiB at least, but no more than 10,240 frames (`sch_cake.c`).
    fn limit(&self, rate: Option<Rate>) -> QueueLimit {
        let worth = rate.map_or(0, |rate| rate.bytes_in(self.interval.saturating_mul(4)));
        QueueLimit::Bytes(worth.clamp(4 << 20, 10_240 * 1514))
    }

    fn needs(&self, rate: Rate) -> Option<Needs> {
        Some(Needs::of_spans(rate, self.target, self.interval))
    }

    fn build<P: Debug + Send + 'static>(&self, setup: Setup) -> Box<dyn Queue<P>> {
        Box::new(Managed {
            backlog: Backlog::new(),
            room: Room::new(setup.limit, Some(setup.rate)),
            state: State::new(self, setup.start, setup.rate),
            dice: setup.dice,
        })
    }
}

/// By how much BLUE's share grows, and falls.
const BLUE_UP: u64 = ONE / 256;
const BLUE_DOWN: u64 = ONE / 4096;

/// Inverse square roots in 32 bits, for counts below 16.
const ROOTS: [u32; 16] = roots();

const fn roots() -> [u32; 16] {
    let mut roots = [u32::MAX; 16];
    let (mut count, mut root) = (1, u32::MAX);
    while count < 16 {
        let mut step = 0;
        while step < 4 {
            root = newton_step(root, count);
            step += 1;
        }
        roots[count as usize] = root;
        count += 1;
    }
    roots
}

/// One step of Newton's method towards 1 / √count.
const fn newton_step(root: u32, count: u32) -> u32 {
    let square = (root as u64 * root as u64) >> 32;
    let step = (3u64 << 32).wrapping_sub((count as u64).wrapping_mul(square)) >> 2;
    (step.wrapping_mul(root as u64) >> 31) as u32
}

/// The state of a queue. Times are nanoseconds.
#[derive(Clone, Debug)]
struct State {
    cobalt: Cobalt,
    /// Those of the rate of the moment, which may be above those configured.
    target: u64,
    interval: u64,
    /// How long packets may always wait.
    spared: u64,
    blue_threshold: u64,
    ecn: bool,
    count: u32,
    inverse_root: u32,
    drop_next: u64,
    dropping: bool,
    blue: u64,
    /// When BLUE's share changed last.
    blue_at: u64,
}

impl State {
    fn new(cobalt: &Cobalt, start: Instant, rate: Rate) -> Self {
        let mut state = State {
            cobalt: cobalt.clone(),
            target: 0,
            interval: 0,
            spared: 0,
            blue_threshold: 0,
            ecn: cobalt.ecn,
            count: 0,
            inverse_root: u32::MAX,
            drop_next: start.as_nanos(),
            dropping: false,
            blue: 0,
            blue_at: start.as_nanos(),
        };
        state.set_rate(rate);
        state
    }

    /// The link now serves at this rate: the slower, the longer packets may wait.
    fn set_rate(&mut self, rate: Rate) {
        let [target, interval] = [self.cobalt.target, self.cobalt.interval].map(|span| span.nanos());
        // A rate of zero is a pause: what was right before is right after it.
        if rate > Rate::ZERO {
            let packet = rate.time_for(self.cobalt.mtu).nanos();
            self.target = (packet.saturating_mul(3) / 2).max(target);
            self.interval = interval.saturating_add(self.target - target).max(self.target.saturating_mul(2));
            self.spared = packet.saturating_mul(4);
            // Or at 100 kbps what may wait would count as far too long.
            let blue = self.cobalt.blue_threshold.nanos();
            self.blue_threshold = math::mul_div(blue, self.interval, interval.max(1));
        } else if self.interval == 0 {
            (self.target, self.interval, self.blue_threshold) = (target, interval, self.cobalt.blue_threshold.nanos());
        }
    }

    fn count(&mut self, count: u32) {
        self.count = count;
        self.inverse_root = match ROOTS.get(count as usize) {
            Some(root) => *root,
            None => newton_step(self.inverse_root, count),
        };
    }

    /// The time of the next drop after one at this time.
    fn after(&self, at: u64) -> u64 {
        let wait = (u128::from(self.interval) * u128::from(self.inverse_root)) >> 32;
        at.saturating_add(wait as u64)
    }

    fn grow_blue(&mut self, now: u64) {
        if now.saturating_sub(self.blue_at) > self.target {
            self.blue = (self.blue + BLUE_UP).min(ONE);
            self.blue_at = now;
        }
    }

    /// A packet found no room.
    fn overflow(&mut self, now: u64) {
        self.grow_blue(now);
        self.dropping = true;
        self.drop_next = now;
        if self.count == 0 {
            self.count(1);
        }
    }

    /// The queue was to be served and had nothing.
    fn empty(&mut self, now: u64) {
        if self.blue > 0 && now.saturating_sub(self.blue_at) > self.target {
            self.blue = self.blue.saturating_sub(BLUE_DOWN);
            self.blue_at = now;
        }
        self.dropping = false;
        if self.count > 0 && now >= self.drop_next {
            self.count(self.count - 1);
            self.drop_next = self.after(self.drop_next);
        }
    }

    /// Whether a packet that leaves the queue is delivered, marked or not.
    fn passes<P>(&mut self, now: u64, queued: &mut Queued<P>, dice: &mut Dice) -> bool {
        let sojourn = now.saturating_sub(queued.at.as_nanos());
        let is_due = self.count > 0 && now >= self.drop_next;
        if sojourn > self.target && sojourn > self.spared {
            if !self.dropping {
                self.dropping = true;
                self.drop_next = self.after(now);
            }
            if self.count == 0 {
                self.count(1);
            }
        } else {
            self.dropping = false;
        }
        let mut passes = true;
        if is_due && self.dropping {
            passes = self.ecn && queued.packet.try_mark();
            self.count(self.count.saturating_add(1));
            self.drop_next = self.after(self.drop_next);
        } else {
            let mut is_due = is_due;
            while is_due {
                self.count(self.count - 1);
                self.drop_next = self.after(self.drop_next);
                is_due = self.count > 0 && now >= self.drop_next;
            }
        }
        if self.blue_threshold > 0 && sojourn > self.blue_threshold {
            self.grow_blue(now);
        }
        // Whatever the ECN field says: this is for those who do not listen.
        if self.blue > 0 && happens(dice, self.blue) {
            passes = false;
        }
        if self.count == 0 {
            self.drop_next = now.saturating_add(self.interval);
        } else if now > self.drop_next && passes {
            self.drop_next = now;
        }
        passes
    }
}

/// A queue under COBALT.
#[derive(Debug)]
struct Managed<P> {
    backlog: Backlog<P>,
    room: Room,
    state: State,
    dice: Dice,
}

impl<P: Debug + Send> Queue<P> for Managed<P> {
    fn enqueue(&mut self, now: Instant, packet: Packet<P>, dropped: &mut Vec<Dropped<P>>) {
        if self.room.fits(self.backlog.bytes(), self.backlog.len(), packet.size) {
            self.backlog.push(now, packet);
        } else {
            self.state.overflow(now.as_nanos());
            dropped.push(Dropped { packet, at: now, cause: DropCause::QueueFull });
        }
    }

    fn enqueue_idle(&mut self, now: Instant, packet: Packet<P>, _: &mut Vec<Dropped<P>>) {
        // The link asked before it fell idle, and there was nothing.
        self.state.empty(now.as_nanos());
        self.backlog.push(now, packet);
    }

    fn dequeue(&mut self, now: Instant, dropped: &mut Vec<Dropped<P>>) -> Option<Queued<P>> {
        while let Some(mut queued) = self.backlog.pop() {
            if self.state.passes(now.as_nanos(), &mut queued, &mut self.dice) {
                return Some(queued);
            }
            dropped.push(Dropped { packet: queued.packet, at: now, cause: DropCause::Aqm });
        }
        self.state.empty(now.as_nanos());
        None
    }

    fn set_rate(&mut self, rate: Rate) {
        self.room.set_rate(rate);
        self.state.set_rate(rate);
    }

    fn signals(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("dropping", f64::from(u8::from(self.state.dropping)));
        tell("count", f64::from(self.state.count));
        tell("probability", to_share(self.state.blue));
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
    use crate::queue::testing::Bench;

    #[test]
    fn inverse_roots_are_those_of_cake() {
        const CAKE: [u32; 16] = [
            0xffff_ffff,
            0xffff_ffff,
            0xb4ea_d8a0,
            0x93cd_39e7,
            0x7fff_ffff,
            0x727c_9717,
            0x6882_f5bf,
            0x60c2_479b,
            0x5a82_799a,
            0x5555_5555,
            0x50f4_4d8a,
            0x4d2f_d8f4,
            0x49e6_9d17,
            0x4700_6a81,
            0x446b_3b96,
            0x4219_528c,
        ];
        assert_eq!(ROOTS, CAKE);
    }

    /// Packets every half of what the link takes, for so many milliseconds; then those that could be are served.
    fn overload(bench: &mut Bench, from: u64, ms: u64, ecn: Ecn) -> Vec<(u64, Packet<u64>)> {
        let mut served = Vec::new();
        for n in 0..2 * ms {
            bench.push(1000 * from + 500 * n, 1500, ecn);
            served.extend(bench.serve(1000 * from + 500 * (n + 1)));
        }
        served
    }

    #[test]
    fn one_packet_at_a_time_is_signaled_at_the_distances_of_codel() {
        let mut bench = Bench::new(&Cobalt::default(), "12 Mbps", "unlimited");
        let served = overload(&mut bench, 0, 700, Ecn::Ect0);
        let marks: Vec<u64> =
            served.iter().filter(|(_, packet)| packet.ecn == Ecn::Ce).map(|(at, _)| at / 1000).collect();
        // Above the target after some 10 ms, the first an interval later, then 70.7, 57.7, 50, … ms.
        let distances: Vec<u64> = marks.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!((105..120).contains(&marks[0]), "{marks:?}");
        for (distance, expected) in distances.iter().zip([71, 58, 50, 45, 41, 38, 35]) {
            assert!(distance.abs_diff(expected) <= 1, "{distances:?}");
        }
        assert_eq!(bench.dropped(), [0u64; 0]);
    }

    #[test]
    fn packets_may_always_wait_for_four_others() {
        let state = |rate: &str| State::new(&Cobalt::default(), Instant::ZERO, rate.parse().unwrap());
        let times = |state: State| [state.target, state.interval, state.spared].map(|nanos| nanos / 1000);
        // 12,000 bits take 120, 24, 6, 1.25 and 0.12 ms.
        assert_eq!(times(state("100 kbps")), [180_000, 360_000, 480_000]);
        assert_eq!(times(state("500 kbps")), [36_000, 131_000, 96_000]);
        assert_eq!(times(state("2 Mbps")), [9_000, 104_000, 24_000]);
        assert_eq!(times(state("9.6 Mbps")), [5_000, 100_000, 5_000]);
        assert_eq!(times(state("100 Mbps")), [5_000, 100_000, 480]);
        let mut slower = state("100 Mbps");
        slower.set_rate("500 kbps".parse().unwrap());
        slower.set_rate(Rate::ZERO);
        assert_eq!(times(slower), [36_000, 131_000, 96_000]);
        // At 500 kbps a packet takes 24 ms. Three that wait are no queue, however long they do, and seven are.
        for (waiting, is_signaled) in [(3, false), (7, true)] {
            let mut bench = Bench::new(&Cobalt::default(), "500 kbps", "unlimited");
            for n in 0..500u64 {
                for _ in 0..if n == 0 { waiting } else { 1 } {
                    bench.push(24_000 * n, 1500, Ecn::Ect0);
                }
                bench.serve(24_000 * (n + 1));
            }
            assert_eq!(bench.signal("count").unwrap() > 0.0, is_signaled, "{waiting} packets");
        }
    }

    #[test]
    fn the_count_falls_gradually_when_the_load_ends() {
        let mut bench = Bench::new(&Cobalt::default(), "12 Mbps", "unlimited");
        overload(&mut bench, 0, 900, Ecn::Ect0);
        bench.serve_all();
        let count = bench.signal("count").unwrap();
        assert!(count > 5.0, "{count}");
        // A packet every 10 ms, without a queue.
        let from = bench.now_micros() / 1000 + 10;
        let mut counts = Vec::new();
        for n in 0..200 {
            bench.push(1000 * (from + 10 * n), 1500, Ecn::Ect0);
            bench.serve(1000 * (from + 10 * (n + 1)));
            counts.push(bench.signal("count").unwrap());
        }
        assert!(counts.windows(2).all(|pair| pair[1] <= pair[0]), "{counts:?}");
        // From 70 on, the sum of 100 ms / √count is 1.6 s.
        assert!(counts[0] > 60.0 && counts[30] > 30.0 && counts[199] == 0.0, "{counts:?}");
    }

    #[test]
    fn who_does_not_listen_is_dropped_more_and_more() {
        // Twice what the link takes, marked or not, into a short queue.
        let mut bench = Bench::new(&Cobalt::default(), "12 Mbps", "100 packets");
        overload(&mut bench, 0, 3_000, Ecn::Ect0);
        let share = bench.signal("probability").unwrap();
        let early = bench.drops.iter().filter(|drop| drop.cause == DropCause::Aqm).count();
        assert!(share > 0.2 && early > 100, "{share} {early}");
        // What is empty for long forgets.
        bench.serve_all();
        let from = bench.now_micros() / 1000;
        for n in 1..5_000 {
            bench.push(1000 * (from + 10 * n), 1500, Ecn::Ect0);
            bench.serve(1000 * (from + 10 * n) + 1);
            bench.serve(1000 * (from + 10 * n) + 9_000);
        }
        assert!(bench.signal("probability").unwrap() < share / 2.0);
    }
}
