//! How much had been sent when, in bounded memory.

/// Points that are kept.
const POINTS: usize = 4096;

/// Bytes on the wire over time: points are dropped evenly as there get more.
#[derive(Debug)]
pub(crate) struct Curve {
    /// Milliseconds, and bytes sent before.
    points: Vec<(f64, u64)>,
    every: u64,
    seen: u64,
    bytes: u64,
    /// Bytes without headers of the network that were sent before any were acknowledged.
    pub(crate) first_flight: u64,
}

impl Default for Curve {
    fn default() -> Self {
        Curve { points: Vec::new(), every: 1, seen: 0, bytes: 0, first_flight: 0 }
    }
}

impl Curve {
    /// A packet of so many bytes on the wire was sent; returns what was before it.
    pub(crate) fn add(&mut self, now: f64, size: u64) -> u64 {
        let before = self.bytes;
        self.bytes += size;
        if self.seen.is_multiple_of(self.every) {
            self.points.push((now, before));
        }
        self.seen += 1;
        if self.points.len() >= POINTS {
            self.every *= 2;
            let mut at = 0;
            self.points.retain(|_| {
                at += 1;
                at % 2 == 1
            });
        }
        before
    }

    /// The same of every packet, if none has been left out.
    pub(crate) fn whole(&self) -> Option<&[(f64, u64)]> {
        (self.every == 1).then_some(&self.points)
    }

    /// Times in milliseconds, and bytes sent before.
    pub(crate) fn points(&self) -> &[(f64, u64)] {
        &self.points
    }
}
