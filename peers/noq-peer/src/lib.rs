//! Both ends of a connection with several paths, each on Thalweg or on noq, and what is between them on loopback.

mod ends;
mod relay;

pub use ends::{Connected, Download, Ends, Stack};
pub use relay::Relay;

/// What goes wrong here is told in words.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The byte at each place of every download: none of its parts looks like another.
pub fn pattern(at: usize) -> u8 {
    (at ^ (at >> 8) ^ (at >> 16).wrapping_mul(31)) as u8
}
