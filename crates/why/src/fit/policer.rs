//! Reads a policer off losses: what passes between two of them is what its rate lets through in that time.

use thalweg_link::Policer;
use thalweg_units::{Rate, math};

use super::bucket::{Bucket, Fit, is_refuted};
use crate::bins::Bins;
use crate::gather::{Curve, Facts};

/// A policer has dropped at least so many packets.
const LEAST: usize = 6;
/// Bytes between two losses that tell a rate.
const APART: f64 = 30_000.0;
/// How near the rates between losses are, a share.
const NEAR: f64 = 0.04;
/// What a loss may be off, bytes.
const OFF: f64 = 4500.0;

/// One packet more, which the last point of the curve does not count; bytes.
const LARGEST: u64 = 1500;

/// A rate in bytes per millisecond.
pub(super) fn rate_of(rate: f64) -> Rate {
    Rate::from_bps((rate * 8000.0) as u64)
}

/// A policer, and the losses that are not its own.
#[derive(Clone, Debug)]
pub(super) struct Policed {
    /// The likeliest first.
    pub(super) policers: Vec<Policer>,
    pub(super) others: Vec<u64>,
    /// When those were sent that it dropped, milliseconds.
    pub(super) own: Vec<f64>,
    /// Whether many losses say so, and nearly all.
    pub(super) is_sure: bool,
    /// Whether losses are closer together than they are by chance.
    pub(super) is_dense: bool,
    /// Whether packets that left together came apart faster than it lets them through. Behind a short queue they come
    /// apart at its rate.
    pub(super) is_outrun: bool,
}

/// So much faster than the bucket's rate packets came apart that it is not the bottleneck's, a ratio.
const OUTRUN: f64 = 1.5;

/// So many losses that a bucket explains make it sure.
const SURE: usize = 8;

fn is_outrun(rate: f64, trains: Option<f64>) -> bool {
    trains.is_some_and(|trains| trains > OUTRUN * rate)
}

impl Policed {
    /// Without frames, what was declared lost may have come late: a few such losses are no policer's.
    pub(super) fn is_believed(&self, has_frames: bool) -> bool {
        self.is_sure || has_frames
    }

    /// The policer that a bucket is, with the losses by chance that are not its own. Packets came apart at the rate of
    /// `trains`, bytes per millisecond, if that is known.
    pub(super) fn of(fit: &Fit, chance: &[u64], trains: Option<f64>) -> Policed {
        let policer = |bucket: &Bucket| Policer { rate: rate_of(bucket.rate), burst: (bucket.burst as u64).max(3000) };
        let mut policers = vec![policer(&fit.bucket)];
        policers.extend(fit.bounds.iter().filter(|bucket| **bucket != fit.bucket).map(policer));
        let others = fit.others.iter().copied().filter(|index| chance.binary_search(index).is_ok()).collect();
        let is_sure = fit.bucket.own >= SURE;
        let is_outrun = is_outrun(fit.bucket.rate, trains);
        Policed { policers, others, own: fit.own.clone(), is_sure, is_dense: true, is_outrun }
    }
}

/// A loss: when the packet was sent, the bytes that had passed before it, and its place.
#[derive(Clone, Copy)]
struct Point {
    time: f64,
    passed: f64,
    /// Those that had been sent before it.
    before: f64,
    index: u64,
    /// Pauses of the application before it.
    pauses: usize,
}

fn points(facts: &Facts) -> Vec<Point> {
    let mut dropped = 0.0;
    let mut list = Vec::new();
    let pauses = &facts.waits.pauses;
    for lost in facts.flight.losses.lost.values() {
        let before = lost.before as f64;
        let pauses = pauses.partition_point(|pause| pause.to <= lost.sent);
        list.push(Point { time: lost.sent, passed: before - dropped, before, index: lost.index, pauses });
        dropped += f64::from(lost.size);
    }
    list
}

/// The rate that most pairs of losses agree on, bytes per millisecond, and whether nearly all of many do.
fn rate(points: &[Point]) -> Option<(f64, bool)> {
    let span = points.last()?.passed - points.first()?.passed;
    let apart = (span / 4.0).clamp(APART / 5.0, APART);
    let tolerance = NEAR.max(1500.0 / apart);
    let mut slopes = Bins::default();
    let mut list = Vec::new();
    let mut to = 0;
    for from in points {
        while points.get(to).is_some_and(|point| point.passed - from.passed < apart) {
            to += 1;
        }
        let Some(end) = points.get(to) else { break };
        // Over a pause the bucket fills, and what passes depends on the application.
        if end.time > from.time && end.pauses == from.pauses {
            let slope = (end.passed - from.passed) / (end.time - from.time);
            slopes.add(slope, 1.0);
            list.push(slope);
        }
    }
    let total = slopes.total();
    if total < 2.0 {
        return None;
    }
    let around = |rate: f64| slopes.weight_of(|slope| (slope / rate - 1.0).abs() <= tolerance);
    let best = slopes.iter().map(|(rate, _)| (rate, around(rate))).max_by(|a, b| a.1.total_cmp(&b.1))?;
    // Between losses a policer never lets through more, and less only while its bucket is full. What a queue drops
    // before the bucket is empty for the first time is not the policer's.
    let is_near = |slope: &f64| (slope / best.0 - 1.0).abs() <= tolerance;
    let own = &list[list.iter().position(is_near)?..];
    let above = own.iter().filter(|slope| **slope > best.0 * (1.0 + 2.0 * tolerance)).count() as f64;
    let total = own.len() as f64;
    (best.1 >= 0.4 * total && above <= 0.2 * total).then_some((best.0, total >= 30.0 && best.1 >= 0.75 * total))
}

/// The policer of a rate that would have let all of this through: with the least burst that does.
pub(super) fn unseen(curve: &Curve, rate: Rate) -> Policer {
    let rate_per_ms = rate.bps() as f64 / 8000.0;
    let (mut least, mut burst) = (f64::INFINITY, 0.0_f64);
    for (time, sent) in curve.points() {
        let level = *sent as f64 - rate_per_ms * time;
        least = least.min(level);
        burst = burst.max(level - least);
    }
    Policer { rate, burst: burst as u64 + LARGEST }
}

/// Losses as near as this follow each other, packets.
const FOLLOWING: u64 = 3;
/// So many standard deviations above what chance explains are none of it.
const FAR_OFF: f64 = 4.0;

/// Whether more losses follow each other than if each packet was lost by the same chance.
fn is_dense(lost: &[u64], packets: u64) -> bool {
    let pairs = lost.len().saturating_sub(1).max(1) as f64;
    let following = lost.windows(2).filter(|pair| pair[1].abs_diff(pair[0]) <= FOLLOWING).count() as f64;
    let through = 1.0 - (lost.len() as f64 / packets.max(1) as f64).min(1.0);
    let chance = 1.0 - through * through * through;
    following > pairs * chance + FAR_OFF * math::sqrt(pairs * chance * (1.0 - chance))
}

/// The policer that the losses look like, of which `chance` are those that no full queue explains.
pub(super) fn policed(facts: &Facts, chance: &[u64]) -> Option<Policed> {
    let points = points(facts);
    if points.len() < LEAST {
        return None;
    }
    let (rate, is_sure) = rate(&points)?;
    // With an empty bucket, what has passed is at its most beside the rate; a packet that is lost by chance finds less.
    let (mut most, mut at) = (f64::MIN, 0.0);
    let mut own = Vec::new();
    let mut others = Vec::new();
    for point in points.iter().rev() {
        let level = point.passed - rate * point.time;
        if level >= most - OFF - NEAR / 2.0 * rate * (at - point.time).max(0.0) {
            own.push(*point);
        } else {
            others.push(point.index);
        }
        if level > most {
            (most, at) = (level, point.time);
        }
    }
    // A queue loses those again that found it full.
    others.retain(|index| chance.binary_search(index).is_ok());
    others.sort_unstable();
    own.reverse();
    let first = *own.first()?;
    if own.len() < LEAST {
        return None;
    }
    // The bucket was full when the least had passed beside the rate.
    let before = facts.flight.rates.curve.points().iter().filter(|(time, _)| *time <= first.time);
    let least = before.map(|(time, sent)| *sent as f64 - rate * time).fold(first.before - rate * first.time, f64::min);
    // What was lost before the policer dropped its first packet had passed it, and was lost in a queue behind it.
    let burst = (first.before - rate * first.time - least).max(3000.0) as u64;
    let places: Vec<u64> = own.iter().map(|point| point.index).collect();
    if is_refuted(facts, (rate, burst as f64), |lost| places.binary_search(&lost.index).is_err()) {
        return None;
    }
    let is_dense = is_dense(&places, facts.flight.packets);
    let own = own.iter().map(|point| point.time).collect();
    let policer = Policer { rate: rate_of(rate), burst };
    Some(Policed { policers: vec![policer], others, own, is_sure, is_dense, is_outrun: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policer_that_was_not_seen_lets_through_what_was_sent_and_hardly_more() {
        let mut curve = Curve::default();
        for round in 0..5 {
            for packet in 0..10 << round {
                curve.add(f64::from(round * 100) + f64::from(packet) * 0.01, 1200);
            }
        }
        let policer = unseen(&curve, Rate::from_bps(4_000_000));
        let per_ms = policer.rate.bps() as f64 / 8000.0;
        let passes = |burst: f64| {
            let (mut tokens, mut last) = (burst, 0.0);
            curve.points().iter().all(|(time, _)| {
                tokens = burst.min(tokens + (time - last) * per_ms) - 1200.0;
                last = *time;
                tokens >= 0.0
            })
        };
        assert!(passes(policer.burst as f64) && !passes(policer.burst as f64 - 2500.0), "{policer:?}");
    }

    #[test]
    fn losses_that_follow_each_other_are_no_chance() {
        let (even, dense): (Vec<u64>, Vec<u64>) = ((0..30).map(|n| n * 20).collect(), (100..130).collect());
        assert!(!is_dense(&even, 600) && is_dense(&dense, 600));
        // Of 1000 packets, four in ten by chance.
        let mut state = 1_u64;
        let mut is_lost = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % 10 < 4
        };
        let many: Vec<u64> = (0..1000).filter(|_| is_lost()).collect();
        assert!(many.len() > 300 && !is_dense(&many, 1000), "{}", many.len());
        let half: Vec<u64> = (0..300).map(|n| n * 2).collect();
        assert!(is_dense(&half, 600), "chance does not count");
    }

    #[test]
    fn losses_before_a_bucket_is_empty_do_not_hide_its_policer() {
        // A queue loses every tenth packet at 100 bytes a millisecond; then a policer lets 50 through of as much.
        let at = |time: f64, passed: f64| Point { time, passed, before: passed, index: 0, pauses: 0 };
        let mut points: Vec<Point> =
            (0..10).map(|loss| at(f64::from(loss) * 100.0, f64::from(loss) * 10_000.0)).collect();
        points.extend((1..100).map(|loss| at(1000.0 + f64::from(loss) * 40.0, 100_000.0 + f64::from(loss) * 2000.0)));
        let (read, _) = rate(&points).unwrap();
        assert!((read / 50.0 - 1.0).abs() < 0.04, "{read}");
        // Faster times in between are not those of a policer.
        points.extend((1..40).map(|loss| at(5000.0 + f64::from(loss) * 100.0, 300_000.0 + f64::from(loss) * 10_000.0)));
        assert_eq!(rate(&points), None);
    }

    #[test]
    fn what_an_application_sends_between_its_pauses_is_no_rate_of_a_policer() {
        // It sends 30,000 bytes every 100 ms, of which a queue loses some each time.
        let at = |piece: usize, loss: usize, pauses: usize| {
            let (time, passed) = (100.0 * piece as f64 + loss as f64, 30_000.0 * piece as f64 + 1000.0 * loss as f64);
            Point { time, passed, before: passed, index: 0, pauses }
        };
        let points = |is_paused: bool| -> Vec<Point> {
            (0..100).map(|n| at(n / 5, n % 5, if is_paused { n / 5 } else { 0 })).collect()
        };
        assert!(rate(&points(false)).is_some_and(|(rate, _)| (rate / 300.0 - 1.0).abs() < 0.05));
        assert_eq!(rate(&points(true)), None);
    }

    #[test]
    fn packets_that_come_apart_at_the_rate_of_a_bucket_have_waited_in_it() {
        assert!(!is_outrun(1000.0, None), "nothing is known");
        assert!(!is_outrun(1000.0, Some(1100.0)), "a short queue");
        assert!(is_outrun(1000.0, Some(2000.0)), "what passes a policer does not wait");
    }

    #[test]
    fn few_losses_of_a_log_without_frames_may_be_late_packets() {
        let few =
            Policed { policers: vec![], others: vec![], own: vec![], is_sure: false, is_dense: true, is_outrun: false };
        assert!(few.is_believed(true) && !few.is_believed(false));
        assert!(Policed { is_sure: true, ..few }.is_believed(false));
    }
}
