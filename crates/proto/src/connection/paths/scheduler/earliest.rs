//! The scheduler "earliest": a slower path is used only if what it carries arrives before a faster one would have
//! carried it (ECF: Lim et al., "ECF: An MPTCP Path Scheduler to Manage Heterogeneous Paths", CoNEXT 2017, section 4).
//!
//! With `k` bytes to send, the fastest path `f` whose window is full, and the next path `s` that has room: `f` needs
//! `n = 1 + k / window(f)` round trips for all of it. It is worth waiting for if `n · rtt(f)` is less than `(1 + β ·
//! waits) · (rtt(s) + δ)` and `s` would take at least `k / window(s)` round trips that together are no shorter than
//! `2 · rtt(f) + δ`, where δ is the larger deviation of both round trips, β = 1/4, and `waits` is 1 while it has
//! already been waited for.

use thalweg_units::{Duration, Instant};

use super::{
    interface::{Candidate, Order, PathScheduler, Waiting},
    lowest_rtt::by_rtt,
};

/// β of the paper as a fraction: once waiting, the balance has to tip by so much before the slower path is used.
const HYSTERESIS: (u32, u32) = (1, 4);

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Earliest {
    is_waiting: bool,
}

impl PathScheduler for Earliest {
    fn order(&mut self, _: Instant, waiting: Waiting, candidates: &[Candidate], order: &mut Order) {
        by_rtt(candidates, order);
        let find = |id| candidates.iter().find(|path| path.id == id);
        let Some(fast) = order.first().and_then(|id| find(*id)) else { return };
        if fast.can_send {
            self.is_waiting = false;
            return;
        }
        let Some(slow) = order.iter().filter_map(|id| find(*id)).find(|path| path.can_send) else { return };
        if self.is_worth_waiting(fast, slow, waiting.bytes) {
            self.is_waiting = true;
            order.truncate(1);
        } else {
            self.is_waiting = false;
        }
    }
}

impl Earliest {
    fn is_worth_waiting(&self, fast: &Candidate, slow: &Candidate, waiting: u64) -> bool {
        let deviation = fast.rtt_variation.max(slow.rtt_variation);
        let on_fast = fast.rtt + times(fast.rtt, waiting, fast.window);
        let (numerator, denominator) = HYSTERESIS;
        let margin = (slow.rtt + deviation) * if self.is_waiting { numerator } else { 0 } / denominator;
        if on_fast >= slow.rtt + deviation + margin {
            return false;
        }
        times(slow.rtt, waiting, slow.window).max(slow.rtt) >= fast.rtt * 2 + deviation
    }
}

/// `rtt · bytes / window`, saturating.
fn times(rtt: Duration, bytes: u64, window: u64) -> Duration {
    let nanos = rtt.as_nanos().saturating_mul(u128::from(bytes)) / u128::from(window.max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX >> 8).min(u64::MAX >> 8))
}

#[cfg(test)]
mod tests {
    use super::super::{SchedulerPolicy, testing::*};

    #[test]
    fn a_fast_path_with_room_goes_first() {
        let mut scheduler = SchedulerPolicy::Earliest.build();
        assert_eq!(ids(&mut scheduler, 6_000, &[candidate(0, 300, 5), candidate(1, 10, 5)]), [1, 0]);
    }

    #[test]
    fn a_tail_waits_for_the_fast_path_rather_than_taking_the_slow_one() {
        let mut scheduler = SchedulerPolicy::Earliest.build();
        // Half a window is left: 15 ms on the fast path once it has room, 300 ms on the slow one.
        let paths = [candidate(0, 300, 5), candidate(1, 10, 0)];
        assert_eq!(ids(&mut scheduler, 6_000, &paths), [1]);
    }

    #[test]
    fn what_the_fast_path_cannot_carry_in_time_takes_the_slow_one() {
        let mut scheduler = SchedulerPolicy::Earliest.build();
        // A hundred windows: a second on the fast path.
        let paths = [candidate(0, 300, 5), candidate(1, 10, 0)];
        assert_eq!(ids(&mut scheduler, 1_200_000, &paths), [1, 0]);
    }
}
