//! How much had been sent when, in bounded memory.

use super::thinned::Thinned;

/// Points that are kept.
const POINTS: usize = if cfg!(test) { 1 << 12 } else { 1 << 14 };

/// Bytes on the wire over time: points are dropped evenly as there get more.
#[derive(Debug, Default)]
pub(crate) struct Curve {
    /// Milliseconds, and bytes sent before.
    points: Thinned<(f64, u64), POINTS>,
    bytes: u64,
    /// Bytes without headers of the network that were sent before any were acknowledged.
    pub(crate) first_flight: u64,
}

impl Curve {
    /// A packet of so many bytes on the wire was sent; returns what was before it.
    pub(crate) fn add(&mut self, now: f64, size: u64) -> u64 {
        let before = self.bytes;
        self.bytes += size;
        self.points.add((now, before));
        before
    }

    /// The same of every packet, if none has been left out.
    pub(crate) fn whole(&self) -> Option<&[(f64, u64)]> {
        self.points.is_whole().then(|| self.points())
    }

    /// Times in milliseconds, and bytes sent before.
    pub(crate) fn points(&self) -> &[(f64, u64)] {
        self.points.kept()
    }
}
