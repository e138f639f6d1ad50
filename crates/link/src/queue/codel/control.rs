//! CoDel's decisions about the packets of a queue, apart from the queue: for CoDel and for whatever keeps one per flow.

use thalweg_units::{Duration, DurationExt, Ecn, Instant, math};

use super::{CoDel, Law};
use crate::DropCause;
use crate::queue::{Dropped, Queued};

/// Where packets come from.
pub(crate) trait Source<P> {
    /// The next packet.
    fn pop(&mut self) -> Option<Queued<P>>;

    /// The bytes that still wait; up to one `mtu` of them is no standing queue.
    fn backlog(&self) -> u64;
}

/// Where the count starts when dropping starts again soon after it ended.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Restart {
    /// At the drops of the last time, within 16 intervals of the next drop that was due (RFC 8289 section 5.5, Linux).
    Delta,
    /// At the last count less two, within 8 intervals (ns-2).
    LessTwo,
}

/// The parameters, in ticks of the law: nanoseconds, or the 1,024 ns of Linux.
#[derive(Clone, Debug)]
pub(crate) struct Control {
    law: Law,
    restart: Restart,
    target: u64,
    interval: u64,
    mtu: u64,
    ecn: bool,
    ce_threshold: Option<u64>,
    l4s: bool,
}

impl Control {
    pub(crate) fn new(codel: &CoDel, restart: Restart) -> Self {
        let ticks = |span: Duration| codel.law.ticks(span.nanos());
        Control {
            law: codel.law,
            restart,
            target: ticks(codel.target),
            interval: ticks(codel.interval),
            mtu: codel.mtu,
            ecn: codel.ecn,
            ce_threshold: codel.ce_threshold.map(ticks),
            l4s: codel.l4s,
        }
    }

    fn sojourn<P>(&self, now: Instant, queued: &Queued<P>) -> u64 {
        self.law.ticks(now.as_nanos()).saturating_sub(self.law.ticks(queued.at.as_nanos()))
    }
}

impl Law {
    const fn ticks(self, nanos: u64) -> u64 {
        match self {
            Law::Exact => nanos,
            Law::Linux => nanos >> 10,
        }
    }
}

/// The state of a queue.
#[derive(Clone, Debug)]
pub(crate) struct State {
    /// When the sojourn time will have been above the target for an interval.
    first_above: Option<u64>,
    /// When the next packet is to be dropped, while dropping.
    drop_next: u64,
    /// Drops since dropping began, as the law sees it.
    count: u32,
    /// The count at which dropping began last.
    last_count: u32,
    dropping: bool,
    /// 1 / √count in 16 bits, as Linux keeps it.
    inverse_root: u16,
}

impl State {
    pub(crate) const fn new() -> Self {
        State { first_above: None, drop_next: 0, count: 0, last_count: 0, dropping: false, inverse_root: u16::MAX }
    }

    pub(crate) const fn count(&self) -> u32 {
        self.count
    }

    pub(crate) const fn is_dropping(&self) -> bool {
        self.dropping
    }

    /// As many packets as these have been dropped elsewhere (Linux's FQ-CoDel, when the queue overflows).
    pub(crate) const fn add_drops(&mut self, drops: u32) {
        self.count = self.count.saturating_add(drops);
    }

    /// The queue has run empty and is forgotten.
    pub(crate) const fn stop_dropping(&mut self) {
        self.dropping = false;
    }

    /// Hands out the next packet that is not dropped; one that is marked is handed out. Those dropped go into
    /// `dropped`.
    pub(crate) fn dequeue<P>(
        &mut self,
        control: &Control,
        now: Instant,
        source: &mut impl Source<P>,
        dropped: &mut Vec<Dropped<P>>,
    ) -> Option<Queued<P>> {
        let mut next = self.manage(control, now, source, dropped);
        if let (Some(threshold), Some(queued)) = (control.ce_threshold, &mut next)
            && control.sojourn(now, queued) > threshold
            && (!control.l4s || is_l4s(queued))
        {
            queued.packet.try_mark();
        }
        next
    }

    /// RFC 8289 section 5.5.
    fn manage<P>(
        &mut self,
        control: &Control,
        now: Instant,
        source: &mut impl Source<P>,
        dropped: &mut Vec<Dropped<P>>,
    ) -> Option<Queued<P>> {
        let ticks = control.law.ticks(now.as_nanos());
        let mut next = source.pop();
        if control.l4s && next.as_ref().is_some_and(is_l4s) {
            return next;
        }
        let is_bad = self.is_bad(control, now, next.as_ref(), source.backlog());
        if self.dropping {
            if !is_bad {
                self.dropping = false;
                return next;
            }
            while self.dropping && ticks >= self.drop_next {
                let Some(queued) = next else { break };
                self.count = self.count.saturating_add(1);
                self.newton_step();
                match signal(control, now, queued, dropped) {
                    Some(marked) => {
                        self.drop_next = self.after(control, self.drop_next);
                        return Some(marked);
                    }
                    None => next = source.pop(),
                }
                if self.is_bad(control, now, next.as_ref(), source.backlog()) {
                    self.drop_next = self.after(control, self.drop_next);
                } else {
                    self.dropping = false;
                }
            }
        } else if is_bad && let Some(queued) = next {
            next = signal(control, now, queued, dropped);
            if next.is_none() {
                next = source.pop();
                self.is_bad(control, now, next.as_ref(), source.backlog());
            }
            self.dropping = true;
            self.begin(control, ticks);
        }
        if next.is_none() {
            self.dropping = false;
        }
        next
    }

    /// Dropping begins: with the count of the last time, if that was not long ago.
    fn begin(&mut self, control: &Control, ticks: u64) {
        let since = ticks.saturating_sub(self.drop_next);
        let (resumed, within) = match control.restart {
            Restart::Delta => (self.count.saturating_sub(self.last_count), 16),
            Restart::LessTwo => (self.count.saturating_sub(2), 8),
        };
        // A count of one begins anew in either case, but for a count of three in ns-2, where it makes no difference.
        if resumed > 1 && since < control.interval.saturating_mul(within) {
            self.count = resumed;
            self.newton_step();
        } else {
            self.count = 1;
            self.inverse_root = u16::MAX;
        }
        self.last_count = self.count;
        self.drop_next = self.after(control, ticks);
    }

    /// Whether the sojourn time has been above the target for an interval.
    fn is_bad<P>(&mut self, control: &Control, now: Instant, next: Option<&Queued<P>>, backlog: u64) -> bool {
        let is_above = next.is_some_and(|queued| control.sojourn(now, queued) >= control.target);
        if !is_above || backlog <= control.mtu {
            self.first_above = None;
            return false;
        }
        let now = control.law.ticks(now.as_nanos());
        match (self.first_above, control.law) {
            (None, _) => {
                self.first_above = Some(now.saturating_add(control.interval));
                false
            }
            (Some(at), Law::Exact) => now >= at,
            (Some(at), Law::Linux) => now > at,
        }
    }

    /// The time of the next drop after one at `ticks`: `interval / √count` later.
    fn after(&self, control: &Control, ticks: u64) -> u64 {
        let wait = match control.law {
            Law::Exact => {
                let square = u128::from(control.interval) * u128::from(control.interval);
                math::isqrt(square / u128::from(self.count.max(1)))
            }
            Law::Linux => control.interval.saturating_mul(u64::from(self.inverse_root) << 16) >> 32,
        };
        ticks.saturating_add(wait)
    }

    /// One step of Newton's method towards 1 / √count, in the integers of Linux. One step is not enough where the count
    /// changes much: at a count of two it gives 0.50, not 0.71.
    fn newton_step(&mut self) {
        let inverse = u64::from(self.inverse_root) << 16;
        let square = (inverse * inverse) >> 32;
        let step = (3u64 << 32).wrapping_sub(u64::from(self.count).wrapping_mul(square)) >> 2;
        self.inverse_root = (step.wrapping_mul(inverse) >> 31 >> 16) as u16;
    }
}

/// Marks a packet, which is handed out, or else drops it.
fn signal<P>(
    control: &Control,
    now: Instant,
    mut queued: Queued<P>,
    dropped: &mut Vec<Dropped<P>>,
) -> Option<Queued<P>> {
    if control.ecn && queued.packet.try_mark() {
        return Some(queued);
    }
    dropped.push(Dropped { packet: queued.packet, at: now, cause: DropCause::Aqm });
    None
}

/// Whether a packet is of a transport that expects marks from a shallow threshold (RFC 9331).
fn is_l4s<P>(queued: &Queued<P>) -> bool {
    matches!(queued.packet.ecn, Ecn::Ect1 | Ecn::Ce)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_millis(100);

    fn control(law: Law) -> Control {
        Control::new(&CoDel { law, ..CoDel::default() }, Restart::Delta)
    }

    #[test]
    fn waits_follow_the_inverse_root_of_the_count() {
        const EXACT: [u64; 12] =
            [100_000, 70_711, 57_735, 50_000, 44_721, 40_825, 37_796, 35_355, 33_333, 31_623, 30_151, 28_868];
        let (control, mut state) = (control(Law::Exact), State::new());
        for (count, micros) in (1..).zip(EXACT) {
            state.count = count;
            let wait = state.after(&control, 7) - 7;
            assert_eq!((wait + 500) / 1000, micros, "count {count}");
        }
    }

    #[test]
    fn linux_takes_one_step_of_newton_for_each_count() {
        const INVERSE: [u16; 12] =
            [0xffff, 0x8001, 0x9000, 0x7ce0, 0x7107, 0x6771, 0x600c, 0x59fd, 0x54f2, 0x50a7, 0x4cf3, 0x49b5];
        const TICKS: [u64; 12] =
            [97_654, 48_829, 54_931, 47_635, 43_116, 39_459, 36_638, 34_327, 32_403, 30_766, 29_353, 28_116];
        let (control, mut state) = (control(Law::Linux), State::new());
        assert_eq!((control.interval, control.target), (97_656, 4_882));
        state.begin(&control, 0);
        for (count, (inverse, ticks)) in (1..).zip(INVERSE.into_iter().zip(TICKS)) {
            if count > 1 {
                state.count = count;
                state.newton_step();
            }
            assert_eq!((state.inverse_root, state.after(&control, 0)), (inverse, ticks), "count {count}");
        }
    }

    /// A queue that never empties and in which every packet has waited for a second.
    struct Standing(Instant, Ecn);

    impl Source<()> for Standing {
        fn pop(&mut self) -> Option<Queued<()>> {
            let packet = crate::Packet {
                payload: (),
                size: 1500,
                flow: 0,
                connection: 0,
                ecn: self.1,
                sent: self.0,
                tail: false,
            };
            Some(Queued { packet, at: self.0 - Duration::from_secs(1) })
        }

        fn backlog(&self) -> u64 {
            100_000
        }
    }

    #[test]
    fn drops_and_marks_come_at_the_times_of_the_law() {
        const MICROS: [u64; 11] =
            [0, 100_000, 170_711, 228_446, 278_446, 323_167, 363_992, 401_788, 437_144, 470_477, 502_100];
        for ecn in [Ecn::NotEct, Ecn::Ect0] {
            let (control, mut state, mut dropped) = (control(Law::Exact), State::new(), Vec::new());
            let mut signals = Vec::new();
            // Asked every ten microseconds, from two seconds on.
            let start = Instant::from_nanos(2_000_000_000);
            for step in 0..61_000 {
                let now = start + Duration::from_micros(10 * step);
                let next = state.dequeue(&control, now, &mut Standing(now, ecn), &mut dropped);
                let marked = next.is_some_and(|queued| queued.packet.ecn == Ecn::Ce);
                assert!(!marked || ecn == Ecn::Ect0);
                if marked || dropped.drain(..).count() > 0 {
                    signals.push(10 * step - 100_000);
                }
            }
            assert_eq!(signals.len(), MICROS.len());
            assert!(
                signals.iter().zip(MICROS).all(|(at, due)| (due.saturating_sub(1)..due + 11).contains(at)),
                "{signals:?}"
            );
        }
    }

    #[test]
    fn the_count_resumes_where_dropping_ended_not_long_ago() {
        let control = control(Law::Exact);
        let interval = INTERVAL.nanos();
        for (since, count) in [(interval * 10, 4), (interval * 16 - 1, 4), (interval * 16, 1), (interval * 17, 1)] {
            let mut state = State { count: 5, last_count: 1, drop_next: 1_000, ..State::new() };
            state.begin(&control, 1_000 + since);
            assert_eq!((state.count, state.last_count), (count, count));
            assert_eq!(state.drop_next - 1_000 - since, if count == 4 { interval / 2 } else { interval });
        }
        // A next drop that is still to come counts as recent.
        let mut state = State { count: 5, last_count: 1, drop_next: u64::MAX, ..State::new() };
        state.begin(&control, 0);
        assert_eq!(state.count, 4);
        let less_two = Control { restart: Restart::LessTwo, ..control };
        for (since, count) in [(interval * 8 - 1, 5), (interval * 8, 1)] {
            let mut state = State { count: 7, drop_next: 0, ..State::new() };
            state.begin(&less_two, since);
            assert_eq!(state.count, count);
        }
    }

    #[test]
    fn a_count_without_bound_is_no_trouble() {
        for law in [Law::Exact, Law::Linux] {
            let (control, mut state) = (control(law), State { count: u32::MAX, ..State::new() });
            state.newton_step();
            assert!(state.after(&control, u64::MAX) == u64::MAX);
            assert!(state.after(&control, 0) <= control.interval);
        }
    }
}
