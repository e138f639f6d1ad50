//! Fits a token bucket to losses: the rate and the burst that drop what was lost, and let through what came through.
//!
//! A policer is such a bucket, and so is a queue: it drains at the rate of the bottleneck, and has room for a burst.

use std::collections::BTreeMap;

use thalweg_units::math;

use crate::gather::{Facts, Lost};

/// Rates that are tried, evenly in their ratio: as near to each other as this, but no more than so many.
const STEP: f64 = 1.03;
const RATES: f64 = 256.0;
/// The bucket may be empty for the first time at one of so many losses: those before may be others'.
const FIRST: usize = 3;
/// Of the rate at which data came through, the slowest that is tried.
const SLOWEST: f64 = 0.25;
/// One packet more, which the curve does not tell; bytes.
const LAST: u64 = 1500;
/// A bucket drops at least so many packets.
const LEAST: usize = 4;
/// For one packet that it does not explain, it explains so many losses.
const BETTER: usize = 2;
/// Through a bucket some packets come all the time: losses follow each other so many times at least, and on average no
/// more of them than this.
const RUNS: usize = 3;
const RUN: usize = 12;
/// What is lost while a bucket has no more left than this is its own: packets come a little later than they were sent.
/// Bytes.
const SLACK: f64 = 4500.0;
/// A queue that is full makes packets wait: of the time that its bytes take, at least this share.
const WAITED: f64 = 0.5;
/// What is shorter than this part of the round trip is not seen to be a queue.
const SEEN: f64 = 0.02;

/// A packet: when it was sent, its bytes on the wire, and what became of it.
#[derive(Clone, Copy, Debug)]
struct Packet {
    time: f64,
    size: f64,
    is_lost: bool,
}

/// A bucket, bytes per millisecond and bytes, and how well it fits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bucket {
    pub(super) rate: f64,
    pub(super) burst: f64,
    /// Packets that were lost and would have been dropped.
    pub(super) own: usize,
    /// Packets that were lost and would have passed, or came through and would not.
    pub(super) off: usize,
}

/// What explains the losses of a log.
#[derive(Clone, Debug)]
pub(super) struct Fit {
    /// Of buckets that fit as well, the one in the middle.
    pub(super) bucket: Bucket,
    /// The slowest and the fastest of them.
    pub(super) bounds: [Bucket; 2],
    /// Losses that are not the bucket's, by the places of their packets.
    pub(super) others: Vec<u64>,
    /// When its own were sent, milliseconds.
    pub(super) own: Vec<f64>,
    /// Whether packets waited beside the losses as they do in a queue.
    pub(super) is_queue: bool,
    /// So many times its losses began anew after packets that came through.
    runs: usize,
}

impl Fit {
    /// Whether packets came through between the losses, as through a bucket and not through an outage.
    pub(super) fn is_mixed(&self) -> bool {
        self.runs >= RUNS && self.runs * RUN >= self.own.len()
    }

    /// The bucket that explains what was lost, if one does, up to a rate in bytes per millisecond. `shortest` is the
    /// round trip without any queue, and packets that are `excepted` were lost for another reason.
    pub(super) fn of(facts: &Facts, fastest: f64, shortest: f64, excepted: impl Fn(&Lost) -> bool) -> Option<Fit> {
        let (packets, places) = packets(facts, excepted)?;
        let fits = best(&packets, fastest);
        let (slowest, bucket, fastest) = (fits.first()?, fits.get(fits.len() / 2)?, fits.last()?);
        if bucket.own < LEAST || bucket.off * BETTER > bucket.own {
            return None;
        }
        let (mut others, mut own, mut waited) = (Vec::new(), Vec::new(), Vec::new());
        let (mut runs, mut was_own) = (0, false);
        judge(&packets, bucket.rate, bucket.burst, usize::MAX, &mut |at, left| {
            let lost = places.get(at).copied().flatten();
            let is_own = lost.is_some() && left < SLACK;
            runs += usize::from(is_own && !was_own);
            was_own = is_own;
            let Some(lost) = lost else { return };
            if is_own {
                own.push(lost.sent);
                waited.push(lost.round_trip - shortest);
            } else {
                others.push(lost.index);
            }
        });
        others.sort_unstable();
        waited.sort_by(f64::total_cmp);
        let middle = waited.get(waited.len() / 2).copied().unwrap_or(0.0);
        let is_queue = middle > (WAITED * bucket.burst / bucket.rate).max(SEEN * shortest);
        Some(Fit { bucket: *bucket, bounds: [*slowest, *fastest], others, own, is_queue, runs })
    }
}

/// All packets but those that are `excepted`, with what is known of those that were lost; none if the log is too long
/// or too few were lost.
fn packets(facts: &Facts, excepted: impl Fn(&Lost) -> bool) -> Option<(Vec<Packet>, Vec<Option<&Lost>>)> {
    let lost: BTreeMap<u64, &Lost> = facts.flight.losses.lost.values().map(|lost| (lost.before, lost)).collect();
    let points = facts.flight.rates.curve.whole().filter(|_| lost.len() >= LEAST)?;
    let end = points.last().map(|(time, before)| (*time, before + LAST));
    let next = points.iter().copied().skip(1).chain(end);
    let known = points.iter().zip(next).map(|((time, before), (_, after))| {
        let lost = lost.get(before).copied();
        (Packet { time: *time, size: (after - before) as f64, is_lost: lost.is_some() }, lost)
    });
    Some(known.filter(|(_, lost)| !lost.is_some_and(&excepted)).unzip())
}

/// Whether a bucket, in bytes per millisecond and bytes, is wrong about more packets than it explains losses. Nothing
/// is refuted if the log is too long to know each packet.
pub(super) fn is_refuted(facts: &Facts, (rate, burst): (f64, f64), excepted: impl Fn(&Lost) -> bool) -> bool {
    packets(facts, excepted).is_some_and(|(packets, _)| {
        let fit = judge(&packets, rate, burst, usize::MAX, &mut |_, _| ());
        fit.off > fit.own
    })
}

/// Bursts that are used up for the first time at one of the first losses.
fn bursts(packets: &[Packet], rate: f64) -> Vec<f64> {
    // What has left a full bucket.
    let (mut missing, mut most, mut last) = (0.0_f64, 0.0_f64, f64::MIN);
    let mut bursts = Vec::new();
    for packet in packets {
        missing = (missing - rate * (packet.time - last)).max(0.0) + packet.size;
        last = packet.time;
        if packet.is_lost && missing > most {
            bursts.push((most + missing) / 2.0);
            if bursts.len() == FIRST {
                break;
            }
        }
        // If it was not the bucket's, it had passed.
        most = most.max(missing);
    }
    bursts
}

/// How well a bucket fits, if no more than `most` packets are off. `left` hears what it would have left after each
/// packet, below zero if it drops it.
fn judge(packets: &[Packet], rate: f64, burst: f64, most: usize, left: &mut dyn FnMut(usize, f64)) -> Bucket {
    let (mut tokens, mut last) = (burst, f64::MAX);
    let mut fit = Bucket { rate, burst, own: 0, off: 0 };
    for (at, packet) in packets.iter().enumerate() {
        tokens = (tokens + rate * (packet.time - last).max(0.0)).min(burst);
        last = packet.time;
        let drops = tokens < packet.size;
        left(at, tokens - packet.size);
        fit.own += usize::from(drops && packet.is_lost);
        fit.off += usize::from(drops != packet.is_lost);
        if fit.off > most {
            break;
        }
        if !(drops && packet.is_lost) {
            tokens = (tokens - packet.size).max(0.0);
        }
    }
    fit
}

/// The buckets that fit best, up to a rate, the slowest first.
fn best(packets: &[Packet], fastest: f64) -> Vec<Bucket> {
    let through: f64 = packets.iter().filter(|packet| !packet.is_lost).map(|packet| packet.size).sum();
    let (Some(first), Some(last)) = (packets.first(), packets.last()) else { return Vec::new() };
    let slowest = SLOWEST * through / (last.time - first.time).max(1.0);
    if slowest <= 0.0 || slowest >= fastest {
        return Vec::new();
    }
    let step = math::pow(fastest / slowest, 1.0 / RATES).max(STEP);
    let mut rate = slowest;
    let mut best: Vec<Bucket> = Vec::new();
    while rate <= fastest {
        let mut least = best.first().map_or(usize::MAX, |best| best.off);
        for burst in bursts(packets, rate) {
            let fit = judge(packets, rate, burst, least, &mut |_, _| ());
            if fit.off < least {
                best.clear();
                least = fit.off;
            }
            if fit.off == least && best.last().is_none_or(|last| last.rate < rate) {
                best.push(fit);
            }
        }
        rate *= step;
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets of 1,000 bytes that leave in rounds of 100 ms, twice as many each, through a bucket.
    fn through(rate: f64, burst: f64) -> Vec<Packet> {
        let mut packets = Vec::new();
        let (mut tokens, mut last) = (burst, 0.0);
        for round in 0..6 {
            for packet in 0..10 << round {
                let time = f64::from(round) * 100.0 + f64::from(packet) * 0.1;
                tokens = (tokens + rate * (time - last)).min(burst);
                last = time;
                let is_lost = tokens < 1000.0;
                tokens -= if is_lost { 0.0 } else { 1000.0 };
                packets.push(Packet { time, size: 1000.0, is_lost });
            }
        }
        packets
    }

    #[test]
    fn a_bucket_is_found_by_what_it_dropped() {
        let fits = best(&through(400.0, 50_000.0), 100_000.0);
        let fit = fits[fits.len() / 2];
        assert!((fit.rate / 400.0 - 1.0).abs() < 0.03 && (fit.burst / 50_000.0 - 1.0).abs() < 0.05, "{fit:?}");
        assert!(fit.off * 20 < fit.own, "{fit:?}");
    }

    #[test]
    fn no_bucket_loses_every_twentieth_packet() {
        let mut packets = through(1e9, 1e9);
        packets.iter_mut().enumerate().for_each(|(at, packet)| packet.is_lost = at % 20 == 7);
        let fits = best(&packets, 100_000.0);
        assert!(fits.iter().all(|fit| fit.off * BETTER > fit.own), "{fits:?}");
    }
}
