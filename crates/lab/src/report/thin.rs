//! Recordings with as many points as a screen can show.

use crate::record::{PacketPlot, Recording, Series};

/// Points per line: two per pixel of a wide screen.
const LINE: usize = 3_000;

/// Packets of a kind.
const PACKETS: usize = 5_000;

/// The recording, thinned. Of every stretch of a line its smallest and its largest value stay, so that no peak is lost.
pub(super) fn thin(recording: &Recording) -> Recording {
    Recording {
        series: recording.series.iter().map(line).collect(),
        packets: recording
            .packets
            .iter()
            .map(|plot| PacketPlot {
                subject: plot.subject.clone(),
                sent: some(&plot.sent),
                acked: some(&plot.acked),
                lost: some(&plot.lost),
                spurious: some(&plot.spurious),
            })
            .collect(),
    }
}

fn line(series: &Series) -> Series {
    let count = series.t.len().min(series.v.len());
    if count <= LINE {
        return Series { t: series.t.iter().map(|t| micro(*t)).collect(), ..series.clone() };
    }
    let (mut t, mut v) = (Vec::with_capacity(LINE), Vec::with_capacity(LINE));
    let stretches = LINE / 2;
    for stretch in 0..stretches {
        let (from, to) = (stretch * count / stretches, (stretch + 1) * count / stretches);
        let at = |best: fn(&f64, &f64) -> core::cmp::Ordering| {
            (from..to).reduce(|a, b| if best(&series.v[b], &series.v[a]).is_gt() { b } else { a })
        };
        let largest = at(f64::total_cmp);
        let smallest = at(|a, b| f64::total_cmp(b, a));
        let (Some(one), Some(two)) = (largest, smallest) else { continue };
        let mut kept = [one.min(two), one.max(two)].to_vec();
        kept.dedup();
        for at in kept {
            t.push(micro(series.t[at]));
            v.push(series.v[at]);
        }
    }
    Series { t, v, ..series.clone() }
}

fn some(points: &[(f64, u64)]) -> Vec<(f64, u64)> {
    let every = points.len().div_ceil(PACKETS).max(1);
    points.iter().step_by(every).map(|(t, number)| (micro(*t), *number)).collect()
}

/// Microseconds are enough for a plot and shorter to write.
fn micro(t: f64) -> f64 {
    (t * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_survive() {
        let t: Vec<f64> = (0..100_000).map(f64::from).collect();
        let mut v = vec![1.0; t.len()];
        v[54_321] = 99.0;
        v[12_345] = -7.0;
        let series = Series { t, v, ..Series::default() };
        let packets = PacketPlot { sent: (0..12_000).map(|n| (n as f64, n)).collect(), ..PacketPlot::default() };
        let thin = thin(&Recording { series: vec![series], packets: vec![packets] });
        let line = &thin.series[0];
        assert!(line.t.len() <= LINE && line.t.len() == line.v.len());
        assert!(line.v.contains(&99.0) && line.v.contains(&-7.0));
        assert!(line.t.is_sorted());
        assert_eq!(thin.packets[0].sent.len(), 4_000);
    }
}
