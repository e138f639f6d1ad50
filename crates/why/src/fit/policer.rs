//! Reads a policer off losses: what passes between two of them is what its rate lets through in that time.

use thalweg_link::Policer;
use thalweg_units::Rate;

use crate::bins::Bins;
use crate::gather::Facts;

/// A policer has dropped at least so many packets.
const LEAST: usize = 6;
/// Bytes between two losses that tell a rate.
const APART: f64 = 30_000.0;
/// How near the rates between losses are, a share.
const NEAR: f64 = 0.04;
/// What a loss may be off, bytes.
const OFF: f64 = 4500.0;

/// A policer, and the losses that are not its own.
#[derive(Clone, Debug)]
pub(super) struct Policed {
    pub(super) policer: Policer,
    pub(super) others: Vec<u64>,
    /// When those were sent that it dropped, milliseconds.
    pub(super) own: Vec<f64>,
    /// Whether many losses say so, and nearly all.
    pub(super) is_sure: bool,
}

/// A loss: when the packet was sent, the bytes that had passed before it, and its place.
#[derive(Clone, Copy)]
struct Point {
    time: f64,
    passed: f64,
    index: u64,
}

fn points(facts: &Facts) -> Vec<Point> {
    let mut dropped = 0.0;
    let mut list = Vec::new();
    for lost in facts.flight.losses.lost.values() {
        list.push(Point { time: lost.sent, passed: lost.before as f64 - dropped, index: lost.index });
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
    let mut to = 0;
    for from in points {
        while points.get(to).is_some_and(|point| point.passed - from.passed < apart) {
            to += 1;
        }
        let Some(end) = points.get(to) else { break };
        if end.time > from.time {
            slopes.add((end.passed - from.passed) / (end.time - from.time), 1.0);
        }
    }
    let total = slopes.total();
    if total < 2.0 {
        return None;
    }
    let around = |rate: f64| -> f64 {
        slopes.iter().filter(|(slope, _)| (slope / rate - 1.0).abs() <= tolerance).map(|(_, weight)| weight).sum()
    };
    let best = slopes.iter().map(|(rate, _)| (rate, around(rate))).max_by(|a, b| a.1.total_cmp(&b.1))?;
    // Between losses a policer never lets through more, and less only while its bucket is full.
    let above: f64 =
        slopes.iter().filter(|(slope, _)| *slope > best.0 * (1.0 + 2.0 * tolerance)).map(|(_, weight)| weight).sum();
    (best.1 >= 0.4 * total && above <= 0.2 * total).then_some((best.0, total >= 30.0 && best.1 >= 0.75 * total))
}

/// The policer that the losses look like.
pub(super) fn policed(facts: &Facts) -> Option<Policed> {
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
    others.sort_unstable();
    own.reverse();
    let first = *own.first()?;
    if own.len() < LEAST {
        return None;
    }
    // The bucket was full when the least had passed beside the rate.
    let before = facts.flight.rates.curve.points().iter().filter(|(time, _)| *time <= first.time);
    let least = before.map(|(time, sent)| *sent as f64 - rate * time).fold(first.passed - rate * first.time, f64::min);
    let burst = (first.passed - rate * first.time - least).max(3000.0) as u64;
    let own = own.iter().map(|point| point.time).collect();
    Some(Policed { policer: Policer { rate: Rate::from_bps((rate * 8000.0) as u64), burst }, others, own, is_sure })
}
