//! Files with known content, for the demo and for tests.

use std::io::{self, Write};
use std::path::Path;

use ring::digest::{Context, SHA256};

use crate::text::hex;

/// Writes `size` bytes that follow from `seed` alone to `path`; returns their SHA-256.
///
/// # Errors
///
/// Those of the file system.
pub fn write_file(path: &Path, size: u64, seed: u64) -> io::Result<String> {
    let mut file = io::BufWriter::new(std::fs::File::create(path)?);
    let mut digest = Context::new(&SHA256);
    // Xorshift64* (Marsaglia; Vigna 2016): fast, and incompressible enough that nothing on the way can cheat.
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut block = [0; 8192];
    let mut left = size;
    while left > 0 {
        for word in block.chunks_exact_mut(8) {
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            word.copy_from_slice(&state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes());
        }
        let part = &block[..usize::try_from(left).unwrap_or(usize::MAX).min(block.len())];
        file.write_all(part)?;
        digest.update(part);
        left -= part.len() as u64;
    }
    file.flush()?;
    Ok(hex(digest.finish().as_ref()))
}

/// The SHA-256 of a file, in hexadecimal.
///
/// # Errors
///
/// Those of the file system.
pub fn sha256_file(path: &Path) -> io::Result<String> {
    let mut file = std::fs::File::open(path)?;
    let mut digest = Context::new(&SHA256);
    let mut block = vec![0; 1 << 16];
    loop {
        match io::Read::read(&mut file, &mut block)? {
            0 => return Ok(hex(digest.finish().as_ref())),
            len => digest.update(&block[..len]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_as_long_as_asked_and_follows_from_its_seed() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let one = write_file(&path("a"), 100_001, 7).unwrap();
        let two = write_file(&path("b"), 100_001, 7).unwrap();
        let other = write_file(&path("c"), 100_001, 8).unwrap();
        assert_eq!(one, two);
        assert_ne!(one, other);
        assert_eq!(std::fs::metadata(path("a")).unwrap().len(), 100_001);
        assert_eq!(sha256_file(&path("a")).unwrap(), one);
    }

    #[test]
    fn nothing_has_the_known_hash_of_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("empty");
        let hash = write_file(&path, 0, 1).unwrap();
        assert_eq!(hash, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }
}
