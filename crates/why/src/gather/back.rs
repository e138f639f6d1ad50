//! The way back: how fast what arrives at the sender comes, packet behind packet.

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

/// Packets that arrived at the sender. Rates in bytes on the wire per millisecond.
#[derive(Debug, Default)]
pub(crate) struct Back {
    first: Option<f64>,
    /// The arrival before the last one, and the last one with its bytes: packets of one datagram come together.
    before: Option<f64>,
    last: Option<(f64, u64)>,
    bytes: u64,
    /// The fastest that a large packet came behind another one, and the second.
    fastest: [f64; 2],
    /// By bytes, how fast packets came behind each other: acknowledgments alone, and all others.
    small: Bins,
    others: Bins,
}

impl Back {
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
        if let Some(before) = self.before.replace(at).filter(|before| at > *before) {
            let rate = bytes as f64 / (at - before);
            (if bytes < SMALL { &mut self.small } else { &mut self.others }).add(rate, bytes as f64);
            if bytes >= LARGE {
                let [first, second] = self.fastest;
                self.fastest = if rate > first { [rate, first] } else { [first, second.max(rate)] };
            }
        }
    }

    fn weight(&self, is_counted: impl Fn(f64) -> bool) -> f64 {
        self.small
            .iter()
            .chain(self.others.iter())
            .filter(|(rate, _)| is_counted(*rate))
            .map(|(_, weight)| weight)
            .sum()
    }

    /// The rate at which packets of all sizes came behind each other: they do so on a link that is busy.
    fn common(&self) -> Option<f64> {
        let (rate, _) = self.small.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let is_near = |other: f64| (other / rate - 1.0).abs() <= NEAR;
        let is_of_others = self.others.iter().any(|(other, _)| is_near(other));
        (is_of_others && self.weight(is_near) > 0.2 * self.bytes as f64).then_some(rate)
    }

    /// The rate of the way back, if it was busy for much of the time. `is_sparse` says that what answers the sender's
    /// packets may come a long time apart: then one rate of all sizes is asked for.
    pub(crate) fn thin(&self, is_sparse: bool) -> Option<f64> {
        let (begin, last) = (self.first?, self.last?.0);
        let is_full = |rate: &f64| self.weight(|other| other > FASTER * rate) < 0.2 * self.bytes as f64;
        let is_busy = |rate: &f64| self.bytes as f64 > 0.4 * rate * (last - begin);
        let [first, second] = self.fastest;
        let large = Some(first).filter(|rate| !is_sparse && second > ALIKE * first && is_busy(rate));
        self.common().or(large).filter(is_full)
    }
}
