//! How the window gets from its old size to the reduced one.

mod immediate;

use core::fmt::Debug;

pub(crate) use immediate::Immediate;

/// A way to carry out a reduction that the growth has decided on.
pub(crate) trait Reduction: Debug + Send {
    /// A recovery period begins: the window is `window` bytes and has to come down to `target`. Returns the window to have now.
    fn enter(&mut self, window: u64, target: u64) -> u64;

    /// A copy, to return to if the reduction is taken back.
    fn snapshot(&self) -> Box<dyn Reduction>;
}
