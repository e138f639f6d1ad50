//! The whole reduction at once (RFC 6675, RFC 9002 section 7.3.2).
//!
//! Nothing leaves until bytes in flight have fallen below the new window: about half a round trip of silence, but for the one packet
//! that may repair the loss at once; and when more is lost than the reduction takes, all that the window then has room for leaves in one
//! burst. Simple, and what the other reductions are measured against.

use super::{Progress, Reduction, Step};

/// See the [module](self).
#[derive(Copy, Clone, Debug)]
pub(crate) struct Immediate;

impl Reduction for Immediate {
    fn enter(&mut self, _window: u64, target: u64, _progress: Progress) -> Step {
        Step { window: target, done: true }
    }

    /// Never asked: the reduction is over when it begins.
    fn on_ack(&mut self, window: u64, _progress: Progress) -> Step {
        Step { window, done: true }
    }
}
