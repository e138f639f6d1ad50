//! Recordings with as many points as a screen can show, in few bytes: differences of whole numbers.

use serde::Serialize;

use crate::record::{Recording, Series};

/// How much of a recording a page can show.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Detail {
    /// Points per line.
    pub(super) line: usize,
    /// Packets of a kind.
    pub(super) packets: usize,
}

impl Detail {
    /// Two points per pixel of a wide screen.
    pub(super) const FULL: Detail = Detail { line: 3_000, packets: 5_000 };
    /// A point per pixel of a narrow one.
    const LEAST: Detail = Detail { line: 500, packets: 600 };

    /// What so many recordings in one page can have without making it large.
    pub(super) fn of(recordings: usize) -> Detail {
        let share = |most: usize, least: usize| (most * FULL_RECORDINGS / recordings.max(1)).clamp(least, most);
        Detail {
            line: share(Detail::FULL.line, Detail::LEAST.line),
            packets: share(Detail::FULL.packets, Detail::LEAST.packets),
        }
    }

    /// As much less as makes so many bytes of as many as there are, but enough to see the course.
    pub(super) fn scaled(self, bytes: usize, of: usize) -> Detail {
        let share = |count: usize| (count * bytes / of.max(1)).clamp(120, count.max(120));
        Detail { line: share(self.line), packets: share(self.packets) }
    }
}

/// So many recordings in a page can be shown in full.
const FULL_RECORDINGS: usize = 3;

/// A recording for a page.
#[derive(Debug, Serialize)]
pub(super) struct Thinned {
    series: Vec<Line>,
    packets: Vec<Packets>,
}

/// A line. The first value is `step` times the first of `v`, each other the one before plus `step` times its own;
/// times are the same in microseconds.
#[derive(Debug, Serialize)]
struct Line {
    subject: String,
    name: String,
    unit: String,
    t: Vec<i64>,
    v: Vec<i64>,
    step: f64,
    /// The names of states.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    kinds: Vec<String>,
    /// When each state began, in microseconds after the one before, and the number of its name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    states: Vec<(i64, usize)>,
}

/// Packets of a sender.
#[derive(Debug, Serialize)]
struct Packets {
    subject: String,
    sent: Points,
    acked: Points,
    lost: Points,
    spurious: Points,
}

/// Points in the differences of [`Line`]: times in microseconds, and packet numbers.
#[derive(Debug, Default, Serialize)]
struct Points {
    /// How many there were.
    total: usize,
    t: Vec<i64>,
    n: Vec<i64>,
    /// Bytes sent so far, if known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    b: Vec<i64>,
    /// How many packets each point stands for, unless it is one each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    count: Vec<usize>,
}

/// The recording, thinned. Of every stretch of a line its smallest and its largest value stay, so that no peak is
/// lost; of losses those that are left say how many they stand for.
pub(super) fn thin(recording: &Recording, detail: Detail) -> Thinned {
    Thinned {
        series: recording.series.iter().map(|series| line(series, detail.line)).collect(),
        packets: recording
            .packets
            .iter()
            .map(|plot| Packets {
                subject: plot.subject.clone(),
                sent: some(&plot.sent, &plot.bytes, detail.packets),
                acked: some(&plot.acked, &[], detail.packets),
                lost: counted(&plot.lost, detail.packets),
                spurious: counted(&plot.spurious, detail.packets),
            })
            .collect(),
    }
}

fn line(series: &Series, most: usize) -> Line {
    let kept = kept(series, most);
    let largest = kept.iter().map(|at| series.v[*at].abs()).fold(0.0, f64::max);
    let step = step(&series.unit, largest);
    let (kinds, states) = states(series);
    Line {
        subject: series.subject.clone(),
        name: series.name.clone(),
        unit: series.unit.clone(),
        t: differences(kept.iter().map(|at| micros(series.t[*at]))),
        v: differences(kept.iter().map(|at| (series.v[*at] / step).round() as i64)),
        step,
        kinds,
        states,
    }
}

/// Which points of a line to keep, `most` at most: its last, and of equal stretches the smallest and the largest value.
pub(super) fn kept(series: &Series, most: usize) -> Vec<usize> {
    let count = series.t.len().min(series.v.len());
    if count <= most {
        return (0..count).collect();
    }
    let stretches = ((most - 1) / 2).max(1);
    let mut kept = Vec::with_capacity(most);
    for stretch in 0..stretches {
        let (from, to) = (stretch * count / stretches, (stretch + 1) * count / stretches);
        let at = |best: fn(&f64, &f64) -> core::cmp::Ordering| {
            (from..to).reduce(|a, b| if best(&series.v[b], &series.v[a]).is_gt() { b } else { a })
        };
        let (Some(one), Some(two)) = (at(f64::total_cmp), at(|a, b| f64::total_cmp(b, a))) else { continue };
        kept.extend([one.min(two), one.max(two)]);
    }
    kept.push(count - 1);
    kept.dedup();
    kept
}

/// How fine values are kept: microseconds, and of other quantities about a millionth of the largest.
fn step(unit: &str, largest: f64) -> f64 {
    if unit == "s" {
        return 1e-6;
    }
    let mut step = 1.0;
    while largest / step > 1e6 {
        step *= 10.0;
    }
    while largest / step < 1e3 && step > 1e-9 {
        step /= 10.0;
    }
    step
}

/// The states of a line, as differences in time.
fn states(series: &Series) -> (Vec<String>, Vec<(i64, usize)>) {
    let (kinds, begun) = visible_states(series);
    let times = differences(begun.iter().map(|(at, _)| *at));
    (kinds, times.into_iter().zip(begun).map(|(t, (_, kind))| (t, kind)).collect())
}

/// The names of states, and in microseconds when each began; of those within a stretch that nobody could see apart the
/// last.
pub(super) fn visible_states(series: &Series) -> (Vec<String>, Vec<(i64, usize)>) {
    const STRETCHES: f64 = 1_000.0;
    let span = series.t.last().copied().unwrap_or(0.0) / STRETCHES;
    let (mut kinds, mut begun): (Vec<String>, Vec<(i64, usize)>) = (Vec::new(), Vec::new());
    let mut last = f64::NEG_INFINITY;
    for (at, state) in &series.states {
        let kind = kinds.iter().position(|kind| kind == state).unwrap_or_else(|| {
            kinds.push(state.clone());
            kinds.len() - 1
        });
        if *at - last < span {
            // What began before this stretch is no part of it.
            begun.pop_if(|(from, _)| *from == micros(last));
        } else {
            last = *at;
        }
        if begun.last().is_none_or(|(_, before)| *before != kind) {
            begun.push((micros(last), kind));
        }
    }
    (kinds, begun)
}

/// Some of the points, and the last.
fn some(points: &[(f64, u64)], bytes: &[u64], most: usize) -> Points {
    let every = points.len().div_ceil(most).max(1);
    let last = points.len().saturating_sub(1);
    let kept = || (0..points.len()).filter(|at| at.is_multiple_of(every) || *at == last);
    let bytes = if bytes.len() == points.len() { bytes } else { &[] };
    Points {
        total: points.len(),
        t: differences(kept().map(|at| micros(points[at].0))),
        n: differences(kept().map(|at| points[at].1 as i64)),
        b: differences(kept().filter_map(|at| bytes.get(at)).map(|bytes| *bytes as i64)),
        count: Vec::new(),
    }
}

/// The first of every so many points, which says how many it stands for.
fn counted(points: &[(f64, u64)], most: usize) -> Points {
    let every = points.len().div_ceil(most).max(1);
    let kept = || points.chunks(every).filter_map(|chunk| Some((chunk.first()?, chunk.len())));
    Points {
        total: points.len(),
        t: differences(kept().map(|(point, _)| micros(point.0))),
        n: differences(kept().map(|(point, _)| point.1 as i64)),
        b: Vec::new(),
        count: if every > 1 { kept().map(|(_, count)| count).collect() } else { Vec::new() },
    }
}

fn differences(values: impl Iterator<Item = i64>) -> Vec<i64> {
    values.scan(0i64, |before, value| Some(value.wrapping_sub(std::mem::replace(before, value)))).collect()
}

/// Microseconds are enough for a plot.
fn micros(seconds: f64) -> i64 {
    (seconds * 1e6).round() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(differences: &[i64]) -> Vec<i64> {
        differences.iter().scan(0, |sum, step| Some(std::mem::replace(sum, *sum + step) + step)).collect()
    }

    #[test]
    fn peaks_and_the_end_survive() {
        let t: Vec<f64> = (0..100_000).map(f64::from).collect();
        let mut v = vec![1.0; t.len()];
        (v[54_321], v[12_345]) = (99.0, -7.0);
        for most in [3, 600, 3_000] {
            let series = Series { t: t.clone(), v: v.clone(), ..Series::default() };
            let line = line(&series, most);
            assert!(line.t.len() <= most && line.t.len() == line.v.len(), "{most}");
            let values: Vec<f64> = sums(&line.v).iter().map(|value| *value as f64 * line.step).collect();
            assert!(values.iter().any(|v| (v - 99.0).abs() < 0.01) && values.iter().any(|v| (v + 7.0).abs() < 0.01));
            let times = sums(&line.t);
            assert!(times.is_sorted() && times.last() == Some(&99_999_000_000));
        }
    }

    #[test]
    fn values_keep_a_thousandth_of_the_largest_and_times_a_microsecond() {
        for (unit, scale) in [("B", 3.0), ("B", 1e9), ("bps", 7e10), ("s", 0.5), ("", 0.02)] {
            let v: Vec<f64> = (0..500u32).map(|at| scale * f64::from(at * 7_919 % 500) / 500.0).collect();
            let t: Vec<f64> = (0..500u32).map(|at| f64::from(at) * 1.234_567).collect();
            let series = Series { unit: unit.to_owned(), t: t.clone(), v: v.clone(), ..Series::default() };
            let line = line(&series, 3_000);
            for (at, (time, value)) in sums(&line.t).iter().zip(sums(&line.v)).enumerate() {
                assert!((*time as f64 * 1e-6 - t[at]).abs() < 1e-6);
                assert!((value as f64 * line.step - v[at]).abs() <= scale / 1e3, "{unit} {scale}");
            }
        }
    }

    #[test]
    fn no_loss_goes_without_a_count() {
        for lost in [0, 1, 599, 600, 601, 12_345] {
            let points: Vec<(f64, u64)> = (0..lost).map(|n| (n as f64, n)).collect();
            let thin = counted(&points, 600);
            let stands = if thin.count.is_empty() { thin.t.len() } else { thin.count.iter().sum() };
            assert_eq!((stands as u64, thin.total as u64), (lost, lost));
            assert!(thin.t.len() <= 600 && thin.t.len() == thin.n.len());
        }
    }

    #[test]
    fn packets_keep_their_bytes_and_the_last_one() {
        let points: Vec<(f64, u64)> = (0..12_000).map(|n| (n as f64, n)).collect();
        let bytes: Vec<u64> = (1..=12_000).map(|n| n * 1_200).collect();
        let thin = some(&points, &bytes, 5_000);
        let (numbers, bytes) = (sums(&thin.n), sums(&thin.b));
        assert!(numbers.len() <= 5_001 && numbers.last() == Some(&11_999));
        assert!(numbers.iter().zip(bytes).all(|(number, bytes)| bytes == (number + 1) * 1_200));
    }

    #[test]
    fn states_too_short_to_be_seen_are_left_out_and_the_last_one_stays() {
        let names = ["slow start", "recovery", "congestion avoidance"];
        let states: Vec<(f64, String)> =
            (0..9_000u32).map(|at| (f64::from(at) / 900.0, names[at as usize % 3].to_owned())).collect();
        let series = Series { t: vec![0.0, 10.0], v: vec![1.0, 1.0], states, ..Series::default() };
        let (kinds, states) = states_of(&series);
        assert!(states.len() <= 1_001 && kinds.len() == 3, "{}", states.len());
        assert!(states.windows(2).all(|two| two[0].1 != two[1].1), "each differs from the one before");
        assert_eq!(kinds[states.last().unwrap().1], "congestion avoidance");
    }

    /// A stretch that ends in the state before it leaves nothing of its own to replace.
    #[test]
    fn states_of_an_earlier_stretch_stay() {
        let states =
            [(0.0, "slow start"), (2.0, "avoidance"), (5.0, "recovery"), (5.002, "avoidance"), (5.004, "recovery")];
        let states = states.map(|(at, name)| (at, name.to_owned())).to_vec();
        let series = Series { t: vec![0.0, 10.0], v: vec![1.0, 1.0], states, ..Series::default() };
        let (kinds, states) = states_of(&series);
        let begun = sums(&states.iter().map(|(at, _)| *at).collect::<Vec<_>>());
        let named: Vec<_> = begun.into_iter().zip(states.iter().map(|(_, kind)| kinds[*kind].as_str())).collect();
        assert_eq!(named, [(0, "slow start"), (2_000_000, "avoidance"), (5_000_000, "recovery")]);
    }

    fn states_of(series: &Series) -> (Vec<String>, Vec<(i64, usize)>) {
        super::states(series)
    }
}
