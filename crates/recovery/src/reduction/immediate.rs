//! The whole reduction at once (RFC 6675, RFC 9002 section 7.3.2).
//!
//! Nothing leaves until bytes in flight have fallen below the new window: about half a round trip of silence, but for the one packet
//! that may repair the loss at once. Simple, and what the other reductions are measured against.

use super::Reduction;

/// See the [module](self).
#[derive(Copy, Clone, Debug)]
pub(crate) struct Immediate;

impl Reduction for Immediate {
    fn enter(&mut self, _window: u64, target: u64) -> u64 {
        target
    }

    fn snapshot(&self) -> Box<dyn Reduction> {
        Box::new(*self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc9002_7_3_2_the_window_is_the_threshold_at_once() {
        assert_eq!(Immediate.enter(20_000, 14_000), 14_000);
    }
}
