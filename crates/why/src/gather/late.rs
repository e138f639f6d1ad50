//! How late the sender's own host is: whether it reads what has arrived in heaps, and sends later than its pacer says.

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
                if let (Some((at, bytes)), Some(rate), true) = (*last, self.rate, is_paced && !is_prompted) {
                    let due = bytes as f64 / rate;
                    self.bursts.add(now - at, 1.0);
                    self.excess.add((now - at - due).max(1e-3), 1.0);
                }
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

    /// Of what the sender's timers are multiples, milliseconds; zero where they are in time.
    pub(crate) fn timers(&self) -> f64 {
        let (Some(least), Some(excess)) = (self.bursts.quantile(0.1), self.excess.quantile(0.5)) else { return 0.0 };
        let is_seen = self.bursts.total() >= 5.0;
        if is_seen && least >= LEAST && excess > LEAST / 4.0 && excess > least / 8.0 { least } else { 0.0 }
    }
}

/// Shorter times are what any host takes, milliseconds.
const LEAST: f64 = 4.0;
