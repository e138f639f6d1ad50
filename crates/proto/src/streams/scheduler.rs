//! The scheduler of streams: strict priority, and within a priority turns of a few packets.
//!
//! Within a priority there are two rings, as in FQ-CoDel (RFC 8290 section 4.2): a stream that was idle and gets
//! something to send goes to `fresh` and is served within one turn of whoever is sending, with a larger first
//! quantum; after that it takes its turns in `old`. Turns of the two alternate, so neither can starve the other.
//! A short answer thus leaves within a few packets, however much a long transfer has queued. A stream that runs dry
//! during a turn it got as fresh stays in `old` for one round, so that it cannot skip the queue by pausing.
//!
//! Streams that could go on but for the connection's flow control are parked, and cost nothing until credit arrives.

use std::collections::VecDeque;

use super::StreamId;

/// Bytes a stream may send in one turn, 4 KiB: about three packets. Smaller shares more evenly; larger puts more
/// packets of the same stream next to each other, so that one lost packet delays fewer streams.
const QUANTUM: i64 = 4 * 1024;

/// Bytes a stream may send in its first turn after it was idle: 16 KiB.
const FRESH_QUANTUM: i64 = 16 * 1024;

/// Levels without streams that are kept, so that their memory is used again.
const MAX_EMPTY_LEVELS: usize = 4;

/// Where a stream stands in the scheduler; kept in the stream, changed by the scheduler only.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Slot {
    /// In one of the rings, or sending.
    running: bool,
    /// In the parking list. It may be in a ring as well: it parked, and then had something that needs no credit.
    parked: bool,
}

/// Whose turn it is.
#[derive(Copy, Clone, Debug)]
struct Turn {
    id: StreamId,
    fresh: bool,
    left: i64,
}

#[derive(Debug)]
struct Level {
    priority: i32,
    turn: Option<Turn>,
    fresh: VecDeque<StreamId>,
    old: VecDeque<StreamId>,
    parked: VecDeque<StreamId>,
    /// The last turn was a fresh stream's: if an old one waits, it is next.
    old_is_due: bool,
}

impl Level {
    fn is_empty(&self) -> bool {
        self.turn.is_none() && self.fresh.is_empty() && self.old.is_empty() && self.parked.is_empty()
    }
}

/// A stream that was picked.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Pick {
    pub(super) id: StreamId,
    /// Its level, for the calls that follow. Valid until the next `activate` or `set_priority`.
    level: usize,
    /// It comes from the parking list: `resume` must be asked whether it is to be served.
    parked: bool,
}

/// The scheduler of a connection.
#[derive(Debug, Default)]
pub(super) struct Scheduler {
    /// Highest priority first.
    levels: Vec<Level>,
}

impl Scheduler {
    /// The stream to serve next. With `credit` false, parked streams stay where they are.
    ///
    /// The caller serves it and then calls exactly one of [`Scheduler::charge`], [`Scheduler::idle`],
    /// [`Scheduler::park`] or, if the stream is gone, [`Scheduler::forget`].
    pub(super) fn next(&mut self, credit: bool) -> Option<Pick> {
        for (index, level) in self.levels.iter_mut().enumerate() {
            if let Some(turn) = level.turn {
                return Some(Pick { id: turn.id, level: index, parked: false });
            }
            let old_waits = !level.old.is_empty() || (credit && !level.parked.is_empty());
            if !(level.old_is_due && old_waits)
                && let Some(id) = level.fresh.pop_front()
            {
                level.old_is_due = true;
                level.turn = Some(Turn { id, fresh: true, left: FRESH_QUANTUM });
                return Some(Pick { id, level: index, parked: false });
            }
            // Those that waited for credit have waited longest.
            let resumed = if credit { level.parked.pop_front() } else { None };
            let parked = resumed.is_some();
            if let Some(id) = resumed.or_else(|| level.old.pop_front()) {
                level.old_is_due = false;
                level.turn = Some(Turn { id, fresh: false, left: QUANTUM });
                return Some(Pick { id, level: index, parked });
            }
        }
        None
    }

    /// Whether a picked stream is to be served. A parked one that is in a ring already is not: it keeps its place
    /// there.
    pub(super) fn resume(&mut self, pick: Pick, slot: &mut Slot) -> bool {
        if !pick.parked {
            return true;
        }
        slot.parked = false;
        if slot.running {
            self.forget(pick);
            return false;
        }
        slot.running = true;
        true
    }

    /// The picked stream sent `bytes`; it goes on if its quantum lasts.
    pub(super) fn charge(&mut self, pick: Pick, bytes: usize) {
        let level = &mut self.levels[pick.level];
        if let Some(turn) = &mut level.turn {
            turn.left -= bytes as i64;
            if turn.left <= 0 {
                level.turn = None;
                level.old.push_back(pick.id);
            }
        }
    }

    /// The picked stream has nothing to send.
    pub(super) fn idle(&mut self, pick: Pick, slot: &mut Slot) {
        let level = &mut self.levels[pick.level];
        if level.turn.take().is_some_and(|turn| turn.fresh) {
            level.old.push_back(pick.id);
        } else {
            slot.running = false;
            self.tidy();
        }
    }

    /// The picked stream can only go on when the connection's limit rises.
    pub(super) fn park(&mut self, pick: Pick, slot: &mut Slot) {
        let level = &mut self.levels[pick.level];
        level.turn = None;
        slot.running = false;
        if !slot.parked {
            slot.parked = true;
            level.parked.push_back(pick.id);
        }
    }

    /// The picked stream does not exist any more, or is elsewhere.
    pub(super) fn forget(&mut self, pick: Pick) {
        self.levels[pick.level].turn = None;
        self.tidy();
    }

    /// A stream has something to send; `needs_credit` if only with credit of the connection.
    #[inline]
    pub(super) fn activate(&mut self, id: StreamId, priority: i32, slot: &mut Slot, needs_credit: bool) {
        if slot.running || (slot.parked && needs_credit) {
            return;
        }
        slot.running = true;
        self.level(priority).fresh.push_back(id);
    }

    /// Moves a stream to another priority. Takes time in proportion to the streams waiting at the old one.
    pub(super) fn set_priority(&mut self, id: StreamId, old: i32, new: i32, slot: &mut Slot) {
        let was = self.take_out(id, old, slot);
        if was.running {
            slot.running = true;
            self.level(new).fresh.push_back(id);
        } else if was.parked {
            slot.parked = true;
            self.level(new).parked.push_back(id);
        }
        self.tidy();
    }

    /// Takes a stream out that another scheduler is to have. Takes time as [`Scheduler::set_priority`] does.
    pub(super) fn remove(&mut self, id: StreamId, priority: i32, slot: &mut Slot) {
        self.take_out(id, priority, slot);
        self.tidy();
    }

    /// Returns where the stream was.
    fn take_out(&mut self, id: StreamId, priority: i32, slot: &mut Slot) -> Slot {
        let from = self.level(priority);
        let was = std::mem::take(slot);
        if was.parked {
            from.parked.retain(|other| *other != id);
        }
        if was.running {
            if from.turn.is_some_and(|turn| turn.id == id) {
                from.turn = None;
            } else {
                from.fresh.retain(|other| *other != id);
                from.old.retain(|other| *other != id);
            }
        }
        was
    }

    fn level(&mut self, priority: i32) -> &mut Level {
        let index = self.levels.partition_point(|l| l.priority > priority);
        if self.levels.get(index).is_none_or(|l| l.priority != priority) {
            self.levels.insert(
                index,
                Level {
                    priority,
                    turn: None,
                    fresh: VecDeque::new(),
                    old: VecDeque::new(),
                    parked: VecDeque::new(),
                    old_is_due: false,
                },
            );
        }
        &mut self.levels[index]
    }

    /// Drops empty levels when there are many, so that picking stays quick.
    fn tidy(&mut self) {
        if self.levels.len() > MAX_EMPTY_LEVELS
            && self.levels.iter().filter(|l| l.is_empty()).count() > MAX_EMPTY_LEVELS
        {
            self.levels.retain(|l| !l.is_empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Side;
    use crate::streams::Dir;

    fn id(n: u64) -> StreamId {
        StreamId::new(Side::Client, Dir::Uni, n)
    }

    /// Serves `packets` of 1,000 bytes; `queued[n]` is what stream n has. Returns who sent each.
    fn serve(s: &mut Scheduler, slots: &mut [Slot], queued: &mut [usize], packets: usize) -> Vec<u64> {
        let mut order = Vec::new();
        while order.len() < packets {
            let Some(pick) = s.next(true) else { break };
            let n = pick.id.index() as usize;
            if !s.resume(pick, &mut slots[n]) {
                continue;
            }
            if queued[n] == 0 {
                s.idle(pick, &mut slots[n]);
                continue;
            }
            let bytes = queued[n].min(1000);
            queued[n] -= bytes;
            s.charge(pick, bytes);
            order.push(n as u64);
        }
        order
    }

    #[test]
    fn equal_streams_share_in_turns() {
        let mut s = Scheduler::default();
        let mut slots = [Slot::default(); 3];
        let mut queued = [1_000_000; 3];
        for (n, slot) in slots.iter_mut().enumerate() {
            s.activate(id(n as u64), 0, slot, true);
        }
        let order = serve(&mut s, &mut slots, &mut queued, 3000);
        for n in 0..3 {
            let share = order.iter().filter(|m| **m == n).count();
            assert!((980..1020).contains(&share), "{share}");
        }
    }

    #[test]
    fn a_late_short_stream_is_served_within_a_turn_of_the_long_one() {
        let mut s = Scheduler::default();
        let mut slots = [Slot::default(); 2];
        let mut queued = [1_000_000, 0];
        s.activate(id(0), 0, &mut slots[0], true);
        serve(&mut s, &mut slots, &mut queued, 101);
        queued[1] = 10_000;
        s.activate(id(1), 0, &mut slots[1], true);
        let order = serve(&mut s, &mut slots, &mut queued, 16);
        assert_eq!(order.iter().filter(|n| **n == 1).count(), 10, "{order:?}");
    }

    #[test]
    fn pausing_does_not_let_a_stream_skip_the_queue() {
        let mut s = Scheduler::default();
        let mut slots = [Slot::default(); 2];
        let mut queued = [1_000_000, 0];
        s.activate(id(0), 0, &mut slots[0], true);
        let mut mine = 0;
        for _ in 0..1000 {
            queued[1] += 1000;
            s.activate(id(1), 0, &mut slots[1], true);
            mine += serve(&mut s, &mut slots, &mut queued, 1).iter().filter(|n| **n == 1).count();
        }
        assert!((150..=850).contains(&mine), "{mine}");
    }

    #[test]
    fn higher_priority_goes_first_always() {
        let mut s = Scheduler::default();
        let mut slots = [Slot::default(); 3];
        let mut queued = [5000, 5000, 5000];
        s.activate(id(0), -1, &mut slots[0], true);
        s.activate(id(1), 7, &mut slots[1], true);
        s.activate(id(2), 0, &mut slots[2], true);
        let order = serve(&mut s, &mut slots, &mut queued, 100);
        assert_eq!(order, [1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn a_changed_priority_counts_at_once() {
        let mut s = Scheduler::default();
        let mut slots = [Slot::default(); 2];
        let mut queued = [50_000, 50_000];
        s.activate(id(0), 0, &mut slots[0], true);
        s.activate(id(1), 0, &mut slots[1], true);
        serve(&mut s, &mut slots, &mut queued, 1);
        s.set_priority(id(1), 0, 5, &mut slots[1]);
        assert_eq!(serve(&mut s, &mut slots, &mut queued, 20), [1; 20]);
        s.set_priority(id(1), 5, -5, &mut slots[1]);
        assert_eq!(serve(&mut s, &mut slots, &mut queued, 20), [0; 20]);
    }

    #[test]
    fn parked_streams_wait_for_credit_and_lose_nothing() {
        let mut s = Scheduler::default();
        let mut slot = Slot::default();
        s.activate(id(0), 0, &mut slot, true);
        let pick = s.next(false).unwrap();
        s.park(pick, &mut slot);
        assert_eq!(s.next(false), None);
        // More fresh data changes nothing; lost data does.
        s.activate(id(0), 0, &mut slot, true);
        assert_eq!(s.next(false), None);
        s.activate(id(0), 0, &mut slot, false);
        let pick = s.next(false).unwrap();
        assert!(s.resume(pick, &mut slot));
        s.park(pick, &mut slot);
        // It is in the parking list once.
        let pick = s.next(true).unwrap();
        assert!(s.resume(pick, &mut slot));
        s.idle(pick, &mut slot);
        assert_eq!(s.next(true), None);
        assert_eq!(slot, Slot::default());
    }

    #[test]
    fn many_priorities_leave_no_trace() {
        let mut s = Scheduler::default();
        for n in 0..10_000 {
            let mut slot = Slot::default();
            s.activate(id(n), n as i32, &mut slot, true);
            let pick = s.next(true).unwrap();
            s.idle(pick, &mut slot);
            let pick = s.next(true).unwrap();
            s.idle(pick, &mut slot);
            assert_eq!(slot, Slot::default());
        }
        assert!(s.levels.len() <= MAX_EMPTY_LEVELS + 2);
    }
}
