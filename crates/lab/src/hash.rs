//! Digests: what results are stored under.

use core::fmt;
use std::io::Read;

use ring::digest::{Context, SHA256, digest};
use serde::{Deserialize, Serialize};

/// A SHA-256, in hexadecimal.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Digest(String);

impl Digest {
    /// Of bytes.
    pub fn of(bytes: &[u8]) -> Digest {
        Digest::print(digest(&SHA256, bytes).as_ref())
    }

    /// Of all that can be read, a piece at a time.
    ///
    /// # Errors
    /// Those of the reader.
    pub fn of_reader(mut reader: impl Read) -> std::io::Result<Digest> {
        let mut context = Context::new(&SHA256);
        let mut piece = vec![0; 1 << 16];
        loop {
            match reader.read(&mut piece)? {
                0 => return Ok(Digest::print(context.finish().as_ref())),
                length => context.update(&piece[..length]),
            }
        }
    }

    fn print(digest: &[u8]) -> Digest {
        use core::fmt::Write;
        let mut text = String::with_capacity(64);
        for byte in digest {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        Digest(text)
    }

    /// Of a value's JSON, which lists fields in the order of their declaration.
    pub fn of_json(value: &impl Serialize) -> Digest {
        Digest::of(&serde_json::to_vec(value).unwrap_or_default())
    }

    /// The first 16 digits: enough for names of files.
    pub fn short(&self) -> &str {
        self.0.get(..16).unwrap_or(&self.0)
    }

    /// All 64 digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.short())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_of_nothing() {
        assert_eq!(Digest::of(b"").as_str(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(Digest::of(b"").short(), "e3b0c44298fc1c14");
        let long = vec![7; 200_000];
        assert_eq!(Digest::of_reader(long.as_slice()).unwrap(), Digest::of(&long));
    }
}
