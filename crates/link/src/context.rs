//! The context of reading a description: what it needs from outside.

use crate::trace::Traces;

/// What reading a description needs from outside.
#[derive(Copy, Clone)]
pub struct Context<'a> {
    /// Where traces come from.
    pub traces: &'a dyn Traces,
    /// Keys of paths and directions that the caller has read itself.
    pub also: &'a [&'static str],
}
