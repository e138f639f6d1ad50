//! The scheduler "lowest-rtt": the path with the lowest smoothed round-trip time whose window has room.
//!
//! Where one path is in full use, another whose window permits less than a sixteenth of its rate is left out at the end
//! of a transfer. A packet that leaves on it may be lost, which shows after nine eighths of its round trip (RFC 9002
//! section 6.1.2), or later. If everything that waits has left on the larger path by then, the transfer waits for that
//! one packet, and what the small path carries until then is next to nothing. The small path is used if it repairs even
//! a loss sooner than a packet arrives on the larger one, which takes half of a round trip and seldom less.
//!
//! What a path has not been used for yet does not show in its window. So a small path is not left out where the larger
//! one has room, as for single requests.

use thalweg_units::{Duration, Instant, Rate};

use super::interface::{Candidate, Order, PathScheduler, Waiting};

/// A path whose window permits less than one in so many of the bytes of another adds next to nothing.
const SMALL: u64 = 16;
/// A loss shows after so many round trips, in eighths …
const SHOWN: u32 = 9;
/// … and is repaired on the same path after so many.
const REPAIRED: u32 = 17;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct LowestRtt;

impl PathScheduler for LowestRtt {
    fn order(&mut self, _: Instant, waiting: Waiting, candidates: &[Candidate], order: &mut Order) {
        by_rtt(candidates, order);
        if waiting.is_all {
            leave_out_small(waiting.bytes, candidates, order);
        }
    }
}

/// The rate that the window permits.
fn rate(path: &Candidate) -> Rate {
    Rate::from_bytes_over(path.window, path.rtt)
}

fn leave_out_small(waiting: u64, candidates: &[Candidate], order: &mut Order) {
    let Some(largest) = candidates.iter().max_by_key(|path| rate(path)) else { return };
    // What does not fill the larger path may end sooner on the small one, and shows what that carries.
    if largest.bytes_in_flight < largest.window / 2 {
        return;
    }
    let at = rate(largest);
    let leaving = at.time_for(waiting);
    for path in candidates.iter().filter(|path| rate(path).bps().saturating_mul(SMALL) < at.bps()) {
        // What has just been sent on it stands in its queue before a sample shows that.
        let queued = path.delivery_rate.map_or(Duration::ZERO, |rate| rate.time_for(path.bytes_in_flight));
        let eighth = path.rtt.max(queued) / 8;
        if eighth.saturating_mul(SHOWN) > leaving && eighth.saturating_mul(REPAIRED) > largest.rtt / 2 {
            order.retain(|id| *id != path.id);
        }
    }
}

/// The paths by ascending round-trip time.
pub(super) fn by_rtt(candidates: &[Candidate], order: &mut Order) {
    order.extend(candidates.iter().map(|path| path.id));
    let rtt = |id| candidates.iter().find(|path| path.id == id).map(|path| (path.rtt, path.id));
    order.sort_by_key(|id| rtt(*id));
}

#[cfg(test)]
mod tests {
    use thalweg_recovery::DataSpace;

    use super::super::{SchedulerPolicy, testing::*};
    use super::*;

    #[test]
    fn the_shortest_round_trip_comes_first_whatever_the_windows() {
        let mut scheduler = SchedulerPolicy::LowestRtt.build();
        let paths = [candidate(0, 50, 5), candidate(1, 10, 0), candidate(2, 30, 1)];
        assert_eq!(ids(&mut scheduler, 0, &paths), [1, 2, 0]);
    }

    /// A path of 100 kB/s behind a queue, and one that carries this many times as much.
    fn unlike(times: u64) -> [Candidate; 2] {
        let small = Candidate { window: 20_000, bytes_in_flight: 0, ..candidate(0, 200, 5) };
        let window = 40_000 * times;
        let large = Candidate { window, bytes_in_flight: window, ..candidate(1, 400, 0) };
        [small, large]
    }

    #[test]
    fn a_small_path_is_left_out_once_a_loss_on_it_would_show_after_all_has_left_on_the_other() {
        let mut scheduler = SchedulerPolicy::LowestRtt.build();
        // 4 MB/s: what leaves within nine eighths of 200 ms.
        let paths = unlike(40);
        for (waiting, order) in [(0, &[1][..]), (899_999, &[1]), (900_001, &[0, 1]), (20_000_000, &[0, 1])] {
            assert_eq!(ids(&mut scheduler, waiting, &paths), order, "{waiting}");
        }
    }

    #[test]
    fn a_path_of_a_sixteenth_is_not_small_nor_is_one_alone() {
        let mut scheduler = SchedulerPolicy::LowestRtt.build();
        assert_eq!(ids(&mut scheduler, 0, &unlike(16)), [0, 1]);
        assert_eq!(ids(&mut scheduler, 0, &unlike(17)), [1]);
        assert_eq!(ids(&mut scheduler, 0, &unlike(17)[..1]), [0]);
    }

    #[test]
    fn a_small_path_is_used_as_long_as_the_application_may_write_more() {
        let mut order = Order::new();
        LowestRtt.order(Instant::ZERO, Waiting { bytes: 0, is_all: false }, &unlike(40), &mut order);
        assert_eq!(order.as_slice(), [DataSpace(0), DataSpace(1)]);
    }

    #[test]
    fn a_small_path_is_used_where_the_larger_one_has_room() {
        let mut scheduler = SchedulerPolicy::LowestRtt.build();
        let [small, large] = unlike(40);
        let order = |in_flight| ids(&mut scheduler, 0, &[small, Candidate { bytes_in_flight: in_flight, ..large }]);
        assert_eq!([0, large.window / 2 - 1, large.window / 2].map(order), [vec![0, 1], vec![0, 1], vec![1]]);
    }

    #[test]
    fn a_small_path_that_is_much_nearer_is_used_for_what_is_small() {
        let mut scheduler = SchedulerPolicy::LowestRtt.build();
        let [small, large] = unlike(40);
        let near = Candidate { rtt: Duration::from_millis(20), window: 2_000, ..small };
        assert_eq!(ids(&mut scheduler, 1_000, &[near, large]), [0, 1]);
    }

    #[test]
    fn what_was_just_sent_on_a_small_path_delays_what_follows() {
        let mut scheduler = SchedulerPolicy::LowestRtt.build();
        let [small, large] = unlike(40);
        // Half a second of it is on the way already.
        let small = Candidate { delivery_rate: Some(Rate::from_bps(800_000)), bytes_in_flight: 50_000, ..small };
        assert_eq!(ids(&mut scheduler, 2_000_000, &[small, large]), [1]);
        assert_eq!(ids(&mut scheduler, 2_300_000, &[small, large]), [0, 1]);
    }
}
