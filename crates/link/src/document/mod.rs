//! TOML documents: a tree of values that know where they stand, typed reading of it, and what is wrong with it.

pub mod diagnostic;
pub mod read;
pub mod tree;

pub use diagnostic::{Diagnostic, DocumentError, Renamed, Source};
pub use read::{Field, Reader};
pub use tree::{Entry, Node, Value};
