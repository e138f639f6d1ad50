//! Stub: replaced by the acknowledgement tracker.
#![allow(missing_docs)]
use std::time::Duration;
use thalweg_recovery::{Ecn, EcnCounts};
use thalweg_units::Instant;
use crate::{frame, range_set::RangeSet};

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum AckPolicy { EverySecond, Thinned }
#[derive(Clone, Debug)]
pub struct AckConfig { pub max_ack_delay: Duration, pub exponent: u8, pub policy: AckPolicy, pub max_ranges: usize }
impl Default for AckConfig { fn default() -> Self { Self { max_ack_delay: Duration::from_millis(25), exponent: 3, policy: AckPolicy::Thinned, max_ranges: 64 } } }
#[derive(Debug)]
pub struct AckTracker { config: AckConfig, immediate: bool, ranges: RangeSet, floor: u64, unacked: u32, due: bool, first: Option<Instant>, largest_at: Instant, counts: EcnCounts }
impl AckTracker {
    pub fn new(config: AckConfig, immediate: bool) -> Self { Self { config, immediate, ranges: RangeSet::new(), floor: 0, unacked: 0, due: false, first: None, largest_at: Instant::ZERO, counts: EcnCounts::default() } }
    pub fn is_duplicate(&self, pn: u64) -> bool { pn < self.floor || self.ranges.contains(pn) }
    pub fn on_packet(&mut self, now: Instant, pn: u64, ecn: Ecn, eliciting: bool) {
        let largest = self.ranges.max();
        if largest.is_none_or(|l| pn > l) { self.largest_at = now; }
        self.ranges.insert_one(pn);
        match ecn { Ecn::Ect0 => self.counts.ect0 += 1, Ecn::Ect1 => self.counts.ect1 += 1, Ecn::Ce => self.counts.ce += 1, Ecn::NotEct => {} }
        if eliciting { self.unacked += 1; if self.first.is_none() { self.first = Some(now); }
            if self.immediate || self.unacked >= 2 || largest.is_some_and(|l| pn != l + 1) { self.due = true; } }
    }
    pub fn due(&self, now: Instant) -> bool { self.due || self.timer().is_some_and(|t| t <= now) }
    pub fn pending(&self) -> bool { self.unacked > 0 }
    pub fn force_due(&mut self) { if self.unacked > 0 { self.due = true; } }
    pub fn timer(&self) -> Option<Instant> { self.first.map(|f| f + self.config.max_ack_delay) }
    pub fn write(&mut self, now: Instant, buf: &mut Vec<u8>, limit: usize) -> Option<u64> {
        let largest = self.ranges.max()?;
        let delay = now.saturating_since(self.largest_at).as_micros() as u64 >> self.config.exponent;
        let ecn = (self.counts != EcnCounts::default()).then_some(self.counts);
        frame::encode_ack(buf, limit.saturating_sub(buf.len()), delay, self.ranges.iter().rev(), ecn)?;
        self.unacked = 0; self.due = false; self.first = None;
        Some(largest)
    }
    pub fn on_ack_acked(&mut self, largest: u64) { self.ranges.remove_below(largest + 1); self.floor = self.floor.max(largest + 1); }
    pub fn set_rtt(&mut self, _: Duration) {}
    pub fn counts(&self) -> EcnCounts { self.counts }
    pub fn largest(&self) -> Option<u64> { self.ranges.max().or(self.floor.checked_sub(1)) }
}
