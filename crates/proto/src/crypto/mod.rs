//! The crypto interface between the connection, TLS and packet protection (RFC 9001), with rustls, null and seeded
//! implementations.
//!
//! The connection owns packets, numbers and timing; behind these traits live secrets. Three implementations exist:
//! - [`rustls`]: what goes on the wire, and into the lab by default;
//! - [`null`]: the real handshake, but packets carry a checksum instead of being encrypted; sizes are identical (for
//!   large sweeps);
//! - [`deterministic`]: rustls with seeded chance and a fixed clock, so that the same seed gives the same bytes.

pub mod config;
mod derive;
pub mod deterministic;
mod error;
pub(crate) mod hello;
mod hooks;
pub mod initial;
mod keys;
pub mod null;
pub mod rustls;
mod session;
#[cfg(test)]
pub(crate) mod testing;
mod tls_keys;
pub mod tls_words;

pub use error::{CryptoError, DecryptError, ExportError, StartError};
pub use keys::{DirectionKeys, HeaderKey, Keys, Level, PacketKey, PacketKeys, TAG_LEN};
pub use session::{ClientCrypto, KeyChange, ServerCrypto, Session};
