//! The whole reduction at once (RFC 6675, RFC 9002 section 7.3.2).
//!
//! Nothing leaves until bytes in flight have fallen below the new window: about half a round trip of silence, but for
//! the one packet that may repair the loss at once; and when more is lost than the reduction takes, all that the window
//! then has room for leaves in one burst. Simple, and what the other reductions are measured against.
//!
//! In TCP the episode lasts until everything is repaired, and can end with an ACK that leaves little in flight. The
//! window is then no more than in flight and one segment (RFC 6582 section 3.2, step 3), so that the difference does
//! not leave in one burst; a response that ran out of data meanwhile goes on in slow start.

use super::{Progress, Reduction, Step};

/// See the [module](self).
#[derive(Copy, Clone, Debug)]
pub(crate) struct Immediate {
    moderates_end: bool,
    target: u64,
}

impl Immediate {
    pub(crate) fn new(moderates_end: bool) -> Immediate {
        Immediate { moderates_end, target: 0 }
    }
}

impl Reduction for Immediate {
    fn enter(&mut self, _window: u64, target: u64, _progress: Progress) -> Step {
        self.target = target;
        Step { window: target, done: !self.moderates_end }
    }

    fn on_ack(&mut self, window: u64, progress: Progress) -> Step {
        if !progress.is_over {
            return Step { window, done: false };
        }
        let moderate = progress.in_flight.max(progress.datagram).saturating_add(progress.datagram);
        Step { window: self.target.min(moderate), done: true }
    }
}
