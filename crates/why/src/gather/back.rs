//! The way back: how fast what arrives at the sender comes, packet behind packet.

use super::thinned::Thinned;
use crate::bins::Bins;
use crate::world::HEADERS;

/// Packets of this size take their time on the way, whatever else is on it; bytes of UDP payload.
const LARGE: u64 = 1000;
/// Acknowledgments alone are smaller; bytes on the wire.
const SMALL: u64 = 100;
/// Rates as near as this are one, a share.
const NEAR: f64 = 0.03;
/// Two large packets tell a rate if that of the slower one is at least this share of the other's.
const ALIKE: f64 = 0.8;
/// Faster than the large packets by this, something is.
const FASTER: f64 = 1.3;

/// No clock tells shorter times, milliseconds.
const GRAIN: f64 = 1e-6;

/// Times between arrivals of small packets that are kept.
const KEPT: usize = 2048;
/// So many of them, and this share, are at one rate …
const MANY: usize = 8;
const MOSTLY: f64 = 0.4;
/// … within this ratio, and by this ratio more than are at one interval.
const WIDTH: f64 = 1.02;
const MORE: f64 = 1.25;
/// Times that clocks and hosts have blurred are one within this ratio, as are those of acknowledgments of most sizes.
const BLURRED: f64 = 1.2;
/// Such times grow with the size as they do at one rate if they grow by so much of that, a share, …
const GROWTH: core::ops::RangeInclusive<f64> = 0.5..=1.5;
/// … and by so many standard errors.
const SURE: f64 = 5.0;

/// Packets that arrived at the sender. Rates in bytes on the wire per millisecond.
#[derive(Debug, Default)]
pub(crate) struct Back {
    first: Option<f64>,
    /// The arrival before the last one, and the last one with its bytes: packets of one datagram come together.
    before: Option<f64>,
    last: Option<(f64, u64)>,
    bytes: u64,
    /// When the last packet came, if it had a long header, and how many bytes of its datagram were left then.
    left: Option<(f64, u64)>,
    /// The fastest that a large packet came behind another one, and the second.
    fastest: [f64; 2],
    /// The shortest round trip so far, milliseconds.
    least: Option<f64>,
    /// By bytes, how fast packets came behind each other: acknowledgments alone, and all others.
    small: Bins,
    others: Bins,
    pace: Pace,
}

/// How small packets came behind each other: bytes on the wire, and milliseconds since the packet before.
#[derive(Debug, Default)]
struct Pace {
    gaps: Thinned<(f64, f64), KEPT>,
}

impl Pace {
    /// The rate at which most came, if they did so at one rate rather than at one interval: who answers packets that
    /// come evenly does so at one interval, whatever the size of an answer. A busy link takes longer for a larger one.
    fn rate(&self) -> Option<f64> {
        let gaps = self.gaps.kept();
        let most = |values: &mut dyn Iterator<Item = f64>| {
            let mut values: Vec<f64> = values.collect();
            values.sort_by(f64::total_cmp);
            let usual = densest(&values, WIDTH, |value| *value)?;
            Some((usual.len(), usual[usual.len() / 2]))
        };
        let (at_rate, rate) = most(&mut gaps.iter().map(|(bytes, apart)| bytes / apart))?;
        let (at_interval, _) = most(&mut gaps.iter().map(|(_, apart)| *apart))?;
        let is_mostly = at_rate >= MANY && at_rate as f64 >= MOSTLY * gaps.len() as f64;
        let exactly = (is_mostly && at_rate as f64 >= MORE * at_interval as f64).then_some(rate);
        exactly.or_else(|| self.blurred_rate())
    }

    /// The same where neither is exact: the times around the usual one grow with the size as they do at one rate
    /// (linear regression).
    fn blurred_rate(&self) -> Option<f64> {
        let mut gaps = self.gaps.kept().to_vec();
        gaps.sort_by(|a, b| a.1.total_cmp(&b.1));
        let usual = densest(&gaps, BLURRED, |(_, apart)| *apart)?;
        let count = usual.len() as f64;
        if usual.len() < MANY || count < MOSTLY * gaps.len() as f64 {
            return None;
        }
        let mean = |of: &dyn Fn(&(f64, f64)) -> f64| usual.iter().map(of).sum::<f64>() / count;
        let (bytes, apart) = (mean(&|gap| gap.0), mean(&|gap| gap.1));
        let spread = mean(&|gap| (gap.0 - bytes) * (gap.0 - bytes));
        let slope = mean(&|gap| (gap.0 - bytes) * (gap.1 - apart)) / spread;
        let left = |gap: &(f64, f64)| gap.1 - apart - slope * (gap.0 - bytes);
        let error = mean(&|gap| left(gap) * left(gap)) / (spread * (count - 2.0));
        let is_at_rate = GROWTH.contains(&(slope * bytes / apart)) && slope * slope >= SURE * SURE * error;
        is_at_rate.then_some(bytes / apart)
    }
}

/// Of a sorted list, the most whose values are within this ratio of each other.
fn densest<T>(sorted: &[T], ratio: f64, value: impl Fn(&T) -> f64) -> Option<&[T]> {
    let within = |from: usize| &sorted[from..sorted.partition_point(|one| value(one) <= ratio * value(&sorted[from]))];
    (0..sorted.len()).map(within).max_by_key(|usual| usual.len())
}

impl Back {
    /// A packet arrived, by a log that tells of each packet how many bytes of its datagram were left: what follows a
    /// packet with a long header at once has been counted with it.
    pub(super) fn arrived_of_rest(&mut self, now: f64, size: u64, is_long: bool) {
        let is_counted = self.left.is_some_and(|(at, left)| at == now && size < left);
        self.left = is_long.then_some((now, size));
        if !is_counted {
            self.arrived(now, size);
        }
    }

    /// The shortest round trip so far, milliseconds.
    pub(super) fn took(&mut self, least: Option<f64>) {
        self.least = least;
    }

    pub(super) fn arrived(&mut self, now: f64, size: u64) {
        self.first.get_or_insert(now);
        match &mut self.last {
            Some((at, bytes)) if *at == now => {
                *bytes += size;
                self.bytes += size;
            }
            _ => {
                self.flush();
                self.last = Some((now, size + HEADERS));
                self.bytes += size + HEADERS;
            }
        }
    }

    fn flush(&mut self) {
        let Some((at, bytes)) = self.last else { return };
        if let Some(before) = self.before.replace(at).filter(|before| at - before > GRAIN) {
            let rate = bytes as f64 / (at - before);
            if bytes >= SMALL {
                // What comes a round trip after another packet answers what was sent then, as in a handshake.
                if self.least.is_some_and(|least| at - before < least) {
                    self.others.add(rate, bytes as f64);
                }
            } else {
                self.small.add(rate, bytes as f64);
                self.pace.gaps.add((bytes as f64, at - before));
            }
            if bytes >= LARGE {
                let [first, second] = self.fastest;
                self.fastest = if rate > first { [rate, first] } else { [first, second.max(rate)] };
            }
        }
    }

    fn weight(&self, is_counted: impl Fn(f64) -> bool) -> f64 {
        self.small.weight_of(&is_counted) + self.others.weight_of(&is_counted)
    }

    /// The rate at which packets of all sizes came behind each other: they do so on a link that is busy.
    fn common(&self) -> Option<f64> {
        let (rate, _) = self.small.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let is_near = |other: f64| (other / rate - 1.0).abs() <= NEAR;
        let of_others = self.others.weight_of(is_near);
        let are_others = of_others > 0.0 && of_others >= MOSTLY * self.others.total();
        (are_others && self.weight(is_near) > 0.2 * self.bytes as f64).then_some(rate)
    }

    /// The rate of the way back, if it was busy for much of the time. `is_sparse` says that what answers the sender's
    /// packets may come a long time apart: then one rate of all sizes is asked for.
    pub(crate) fn thin(&self, is_sparse: bool) -> Option<f64> {
        let (begin, last) = (self.first?, self.last?.0);
        let is_full = |rate: &f64| self.weight(|other| other > FASTER * rate) < 0.2 * self.bytes as f64;
        let is_busy = |rate: &f64| self.bytes as f64 > 0.4 * rate * (last - begin);
        let [first, second] = self.fastest;
        let large = Some(first).filter(|rate| !is_sparse && second > ALIKE * first && is_busy(rate));
        self.common().or_else(|| self.pace.rate()).or(large).filter(is_full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many acknowledgments, of which every third is larger, by how long each takes after the one before.
    fn acknowledgments(count: u64, apart: impl Fn(u64, f64) -> f64) -> Back {
        let (mut back, mut now) = (Back::default(), 0.0);
        for number in 0..count {
            let size = 31 + 2 * (number % 3 / 2);
            now += apart(number, (size + HEADERS) as f64);
            back.arrived(now, size);
        }
        back
    }

    #[test]
    fn acknowledgments_of_several_sizes_at_one_rate_come_over_a_busy_link() {
        let thin = |back: &Back| back.thin(true);
        let busy = thin(&acknowledgments(60, |_, bytes| bytes / 10.0)).unwrap();
        assert!((busy / 10.0 - 1.0).abs() < 0.02, "{busy}");
        assert_eq!(thin(&acknowledgments(60, |_, _| 6.0)), None, "what they answer came at one interval");
        let jittered = |number: u64, _| 6.0 + 0.3 * (number * 7 % 10) as f64;
        assert_eq!(thin(&acknowledgments(60, jittered)), None);
        assert_eq!(thin(&acknowledgments(8, |_, bytes| bytes / 10.0)), None, "a few may be chance");
        let rarely = |number: u64, bytes: f64| if number.is_multiple_of(4) { bytes / 10.0 } else { number as f64 };
        assert_eq!(thin(&acknowledgments(200, rarely)), None);
    }

    #[test]
    fn times_that_a_host_has_blurred_tell_a_busy_link_if_they_grow_with_the_size() {
        // By up to 3 %, as often more as less.
        let blurred = |number: u64| 0.97 + 0.06 * (number * 37 % 100) as f64 / 99.0;
        let thin = |apart: &dyn Fn(u64, f64) -> f64| acknowledgments(600, apart).thin(true);
        let busy = thin(&|number, bytes| blurred(number) * bytes / 10.0).unwrap();
        assert!((busy / 10.0 - 1.0).abs() < 0.02, "{busy}");
        assert_eq!(thin(&|number, _| 6.0 * blurred(number)), None, "what they answer came at one interval");
        let waits = |number: u64, bytes: f64| blurred(number) * (6.0 + 0.02 * (bytes - 59.0));
        assert_eq!(thin(&waits), None, "larger ones take longer, but not as on a busy link");
        assert_eq!(thin(&|number, bytes| (1.0 + (number * 37 % 100) as f64) * bytes / 500.0), None);
    }

    #[test]
    fn packets_that_answer_each_other_in_a_handshake_do_not_tell_a_busy_link() {
        let thin = |least: Option<f64>| {
            let mut back = Back::default();
            back.took(least);
            // Two that are larger than acknowledgments a round trip apart, and acknowledgments of what comes evenly.
            back.arrived(0.0, 134);
            back.arrived(21.0, 134);
            (1..60).for_each(|number| back.arrived(21.0 + 8.2 * number as f64, 35));
            back.thin(true)
        };
        assert_eq!((thin(None), thin(Some(20.0))), (None, None));
        assert!(thin(Some(40.0)).is_some(), "the second came behind the first");
    }

    #[test]
    fn times_that_no_clock_tells_are_no_rate() {
        let back = acknowledgments(60, |_, _| f64::MIN_POSITIVE / 4.0);
        assert_eq!(back.thin(true), None);
    }

    #[test]
    fn what_is_left_of_a_datagram_is_counted_once() {
        let mut back = Back::default();
        for (size, is_long) in [(1200, true), (1152, true), (1066, false), (40, false)] {
            back.arrived_of_rest(10.0, size, is_long);
        }
        assert_eq!(back.bytes, 1200 + HEADERS + 40, "a packet with a short header is the last of its datagram");
        back.arrived_of_rest(11.0, 1200, true);
        back.arrived_of_rest(12.0, 1152, false);
        assert_eq!(back.bytes, 1240 + 1200 + 1152 + 3 * HEADERS);
    }

    #[test]
    fn what_is_kept_of_arrivals_is_bounded() {
        let back = acknowledgments(100_000, |_, bytes| bytes / 10.0);
        assert!(back.pace.gaps.kept().len() < KEPT);
        assert!(back.thin(true).is_some_and(|rate| (rate / 10.0 - 1.0).abs() < 0.02));
    }
}
