//! How late the sender's own host is: whether it reads what has arrived in heaps, and sends later than its pacer says.

use thalweg_units::math;

use crate::bins::Bins;

/// Arrivals and departures of one host.
#[derive(Debug, Default)]
pub(crate) struct Late {
    /// The last instant at which something was read, and how many packets that were.
    read: Option<(f64, u64)>,
    /// Instants at which packets were read, and those of them with more than one with data.
    pub(crate) instants: u64,
    pub(crate) heaps: u64,
    /// Between such instants, milliseconds.
    pub(crate) between: Bins,
    /// The last instant at which the pacer let something leave, its bytes, and the pacer's rate then, bytes per
    /// millisecond.
    burst: Option<(f64, u64)>,
    rate: Option<f64>,
    /// Between instants at which the pacer let something leave, milliseconds.
    pub(crate) bursts: Bins,
    /// By how much that is more than the pacer's rate asks for.
    pub(crate) excess: Bins,
    /// Those of the times between such instants that are longer than the pacer asks for.
    overdue: Bins,
    /// The first of such instants, milliseconds, and whether something has left for an arrival since the one before.
    fired: Vec<(f64, bool)>,
    is_prompted: bool,
}

impl Late {
    /// A packet was read; whether it has application data, as one of each datagram may.
    pub(super) fn read(&mut self, now: f64, is_data: bool) {
        match &mut self.read {
            Some((at, count)) if *at == now => {
                *count += u64::from(is_data);
                if !is_data {
                    return;
                }
                self.heaps += u64::from(*count == 2);
            }
            last => {
                if let Some((at, _)) = last.replace((now, u64::from(is_data))) {
                    self.between.add(now - at, 1.0);
                }
                self.instants += 1;
            }
        }
    }

    pub(super) fn rate(&mut self, bits_per_second: f64) {
        self.rate = (bits_per_second > 0.0).then_some(bits_per_second / 8000.0);
    }

    /// A packet with data left; whether the pacer held it until now.
    pub(super) fn sent(&mut self, now: f64, size: u64, is_paced: bool) {
        match &mut self.burst {
            Some((at, bytes)) if *at == now => *bytes += size,
            last => {
                let is_prompted = self.read.is_some_and(|(at, _)| at == now);
                let timed = last.filter(|_| is_paced && !is_prompted);
                if timed.is_some() {
                    let is_anew = core::mem::take(&mut self.is_prompted);
                    if self.fired.len() < FIRED {
                        self.fired.push((now, is_anew));
                    }
                }
                if let (Some((at, bytes)), Some(rate)) = (timed, self.rate) {
                    let due = bytes as f64 / rate;
                    self.bursts.add(now - at, 1.0);
                    let excess = now - at - due;
                    self.excess.add(excess.max(1e-3), 1.0);
                    if excess > LEAST / 4.0 && excess > (now - at) / 8.0 {
                        self.overdue.add(now - at, 1.0);
                    }
                }
                self.is_prompted |= is_prompted;
                *last = Some((now, size));
            }
        }
    }

    /// How long packets wait until they are read, milliseconds; zero where they do not.
    pub(crate) fn reads(&self) -> f64 {
        let is_often = self.heaps * 4 > self.instants && self.heaps >= 2;
        let least = self.between.quantile(0.02).unwrap_or(0.0);
        if is_often && least >= LEAST { least } else { 0.0 }
    }

    /// Of what the sender's timers are multiples, milliseconds; zero where they are in time, or where what was found is
    /// the usual round trip, `round_trip` milliseconds: departures that far apart follow arrivals, not a timer.
    pub(crate) fn timers(&self, is_capped: bool, has_pauses: bool, round_trip: f64) -> f64 {
        let found = self.found(is_capped, has_pauses);
        if (found - round_trip).abs() <= AS_ROUND_TRIP * round_trip { 0.0 } else { found }
    }

    /// The same, also where it is a round trip.
    fn found(&self, is_capped: bool, has_pauses: bool) -> f64 {
        // A log without the pacer's rate does not tell by how much they are late.
        let excess = self.excess.quantile(0.5).unwrap_or(0.0);
        let instants: Vec<f64> = self.fired.iter().map(|(at, _)| *at).collect();
        // A pacer goes on from what left for an arrival: only a late timer stands on the same grid as before.
        // So does an application that sends a piece each time something has passed to and fro.
        let is_anew = !has_pauses && self.fired.iter().skip(1).filter(|(_, is_anew)| *is_anew).count() >= ANEW;
        let is_late = |grid: &f64| (is_anew || excess > grid / 8.0) && !is_capped;
        if let Some(grid) = grid(&instants).filter(is_late) {
            return grid;
        }
        let Some(least) = self.bursts.quantile(0.1) else { return 0.0 };
        let is_seen = self.bursts.total() >= 5.0;
        if is_seen && least >= LEAST && excess > LEAST / 4.0 && excess > least / 8.0 {
            return least;
        }
        // A short transfer shows few of them; a timer in time is never that late, unless a limit that was set holds it.
        let (overdue, all) = (self.overdue.total(), self.bursts.total());
        let shows = !is_capped && all < MANY && overdue >= FEW && overdue > OFTEN * all;
        self.overdue.quantile(0.0).filter(|least| *least >= LEAST && shows).unwrap_or(0.0)
    }
}

/// The time of which nine in ten of the times between these instants are multiples, milliseconds: the longest from
/// [`LEAST`] on.
fn grid(instants: &[f64]) -> Option<f64> {
    let apart: Vec<f64> =
        instants.windows(2).map(|pair| pair[1] - pair[0]).filter(|apart| *apart >= LEAST / 2.0).collect();
    let least = apart.iter().copied().reduce(f64::min)?;
    if apart.len() < GRID {
        return None;
    }
    let is_multiple = |grid: f64| {
        let off = |apart: &&f64| {
            let steps = (*apart / grid).round();
            (*apart - steps * grid).abs() <= NEAR * grid && steps >= 1.0
        };
        10 * apart.iter().filter(off).count() >= 9 * apart.len()
    };
    // The shortest may be several of them.
    (1..=4).map(|parts| least / f64::from(parts)).find(|grid| *grid >= LEAST && is_multiple(*grid))
}

/// So many instants are kept, and so many times between them show a grid, that are this near to it, a share.
const FIRED: usize = 256;
/// So many times something left for an arrival between them.
const ANEW: usize = 4;
const GRID: usize = 3;
const NEAR: f64 = 0.02;

/// How much of a time between reads may be the host's, if all that was on its way came in one heap each time,
/// milliseconds: the least and the middle of what is possible.
///
/// Such a sender reads once a round trip, whatever its host does: the path and the host make up that time together. The
/// host waits for as long as departures of one heap were apart, which is by how much the `shortest` round trip is
/// shorter; and both take some time. What is between these bounds is as likely in one ratio of the two as in another:
/// the middle is that of the logarithms.
pub(super) fn parts_of_round(reads: f64, shortest: f64) -> [f64; 2] {
    let least = LEAST.min(reads / 4.0);
    let low = (reads - shortest).clamp(least, reads - least);
    let ratio = |part: f64| part / (reads - part);
    let middle = math::sqrt(ratio(low) * ratio(reads - least));
    [low, reads * middle / (1.0 + middle)]
}

/// So many overdue departures, and this share of all, say that timers are late …
const FEW: f64 = 2.0;
const OFTEN: f64 = 0.3;
/// … of fewer than so many. Of more the usual one tells.
const MANY: f64 = 64.0;
/// Timers are that near to a round trip where they are one, a share.
const AS_ROUND_TRIP: f64 = 0.05;
/// Shorter times are what any host takes, milliseconds.
const LEAST: f64 = 4.0;

#[cfg(test)]
mod tests {
    use super::*;

    /// Departures that the pacer asks for every 10 ms and that a host lets go at multiples of `grain` milliseconds.
    fn late(grain: f64, departures: u32) -> Late {
        let mut late = Late::default();
        late.rate(8.0 * 1200.0 * 100.0);
        let mut now = 0.0_f64;
        for _ in 0..departures {
            late.sent(now, 1200, true);
            now = if grain > 0.0 { ((now + 10.0) / grain).ceil() * grain } else { now + 10.0 };
        }
        late
    }

    #[test]
    fn few_departures_show_timers_that_are_late() {
        for departures in [3, 4, 20] {
            assert_eq!(late(0.0, departures).timers(false, false, 500.0), 0.0, "in time");
            let timers = late(64.0, departures).timers(false, false, 500.0);
            assert!((timers / 64.0 - 1.0).abs() < 0.02, "{departures}: {timers}");
        }
        assert_eq!(late(64.0, 2).timers(false, false, 500.0), 0.0, "one may be chance");
        for is_capped in [false, true] {
            let timers = late(12.0, 200).timers(is_capped, false, 500.0);
            assert!((timers / 12.0 - 1.0).abs() < 0.02, "of many the usual one tells: {timers}");
        }
        assert_eq!(late(64.0, 4).timers(true, false, 500.0), 0.0, "a limit that was set may have held them");
    }

    #[test]
    fn what_leaves_once_per_round_trip_shows_no_timer() {
        for round_trip in [62.0, 64.0, 66.0] {
            assert_eq!(late(64.0, 20).timers(false, false, round_trip), 0.0);
        }
        assert!(late(64.0, 20).timers(false, false, 32.0) > 0.0, "every second round trip may be a timer's");
    }

    #[test]
    fn a_grid_that_arrivals_do_not_move_is_a_timers() {
        let departures = |step: f64, arrivals: u32, has_pauses: bool| {
            let mut late = Late::default();
            // The pacer asks for less than that: by what left, the departures are in time.
            late.rate(8.0 * 1200.0 * 1000.0 / (2.0 * step));
            for number in 0..8 {
                late.sent(100.0 + f64::from(number) * step, 1200, true);
                if number < arrivals {
                    let at = 100.0 + (f64::from(number) + 0.37) * step;
                    late.read(at, true);
                    late.sent(at, 1200, true);
                }
            }
            late.timers(false, has_pauses, 500.0)
        };
        assert_eq!(departures(26.0, 0, false), 0.0, "a pacer is as even");
        assert!((departures(26.0, 5, false) / 26.0 - 1.0).abs() < 0.02, "{}", departures(26.0, 5, false));
        assert_eq!(departures(26.0, 5, true), 0.0, "an application is as even");
        assert_eq!(departures(2.0, 5, false), 0.0, "no host is that late");
    }

    #[test]
    fn a_heap_each_round_trip_leaves_the_host_between_what_it_held_and_all_of_it() {
        let [low, middle] = parts_of_round(100.0, 60.0);
        assert_eq!(low, 40.0, "departures that far apart were read together");
        assert!((70.0..90.0).contains(&middle), "{middle}");
        let [low, middle] = parts_of_round(100.0, 99.9);
        assert!(low < 5.0 && (middle - 50.0).abs() < 1.0, "nothing is known: {low} and {middle}");
        // It may also read further apart than the shortest round trip is.
        assert!(parts_of_round(100.0, 130.0)[0] < 5.0);
    }

    #[test]
    fn without_the_pacers_rate_only_a_grid_that_arrivals_do_not_move_tells_late_timers() {
        let told = |grid: f64, arrives: bool| {
            let mut late = Late::default();
            for step in 0..12 {
                let now = (f64::from(step) * 17.0 / grid).ceil() * grid;
                late.sent(now, 1200, true);
                if arrives {
                    late.read(now + 5.0 + f64::from(step), true);
                    late.sent(now + 5.0 + f64::from(step), 1200, true);
                }
            }
            late.timers(false, false, 500.0)
        };
        assert!((told(14.0, true) - 14.0).abs() < 0.1);
        assert_eq!(told(14.0, false), 0.0, "a pacer in time may let go at one interval as well");
    }

    #[test]
    fn late_timers_stand_on_a_grid() {
        let on = |steps: [u32; 5]| grid(&steps.map(|step| 3.0 + f64::from(step) * 9.4));
        assert!(on([0, 1, 3, 4, 9]).is_some_and(|grid| (grid - 9.4).abs() < 0.01));
        assert!(on([0, 2, 5, 7, 9]).is_some_and(|grid| (grid - 9.4).abs() < 0.01), "the shortest is two of them");
        assert_eq!(grid(&[0.0, 9.0, 22.0, 31.5, 47.3]), None);
        assert_eq!(grid(&[0.0, 1.0, 2.0, 3.0, 4.0]), None, "no host is that late");
        assert_eq!(grid(&[0.0, 9.0, 18.0]), None, "two may be chance");
    }
}
