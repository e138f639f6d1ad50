//! The identity of this build of the program, for stored results.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use thalweg_lab::hash::Digest;

/// A digest of the running program: results of another build are told apart by it. Where the linker has left one (ELF
/// with `--build-id`, which compilers of Linux ask for), it is of the build ID, which is itself a digest of all that
/// was linked; otherwise of the whole file, which takes a tenth of a second.
pub fn this_program() -> Digest {
    let program = std::env::current_exe().and_then(File::open).and_then(|mut file| match build_id(&mut file) {
        Some(id) => Ok(Digest::of(&id)),
        None => {
            file.seek(SeekFrom::Start(0))?;
            Digest::of_reader(file)
        }
    });
    // A program that cannot read its own file has the digest of an empty one.
    program.unwrap_or_else(|_| Digest::of(b""))
}

/// The type of a segment of notes, and that of the note that holds a build ID.
const PT_NOTE: u64 = 4;
const NT_GNU_BUILD_ID: u64 = 3;
/// Program headers that are looked at, and bytes of a segment of notes: programs have about ten, and less than a
/// hundred.
const MOST_HEADERS: u64 = 64;
const MOST_NOTES: u64 = 4_096;

/// The build ID of a 64-bit little-endian ELF file; none of any other file, or if it has none.
fn build_id(file: &mut (impl Read + Seek)) -> Option<Vec<u8>> {
    let mut head = [0; 64];
    file.read_exact(&mut head).ok()?;
    if !head.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let (table, size, count) = (number(&head, 32, 8)?, number(&head, 54, 2)?, number(&head, 56, 2)?);
    for index in 0..count.min(MOST_HEADERS) {
        let mut header = [0; 56];
        file.seek(SeekFrom::Start(table.checked_add(index * size)?)).ok()?;
        file.read_exact(&mut header).ok()?;
        if number(&header, 0, 4)? != PT_NOTE {
            continue;
        }
        let (offset, length) = (number(&header, 8, 8)?, number(&header, 32, 8)?);
        let mut notes = vec![0; length.min(MOST_NOTES) as usize];
        file.seek(SeekFrom::Start(offset)).ok()?;
        file.read_exact(&mut notes).ok()?;
        if let Some(id) = id_in(&notes) {
            return Some(id.to_vec());
        }
    }
    None
}

/// The build ID among notes: each has the lengths of its name and of its content, its type, and both, padded to words.
fn id_in(mut notes: &[u8]) -> Option<&[u8]> {
    loop {
        let (name, content, kind) = (number(notes, 0, 4)?, number(notes, 4, 4)?, number(notes, 8, 4)?);
        let begin = 12 + name.next_multiple_of(4) as usize;
        let end = begin + content as usize;
        if kind == NT_GNU_BUILD_ID && notes.get(12..12 + name as usize)? == b"GNU\0" && content > 0 {
            return notes.get(begin..end);
        }
        notes = notes.get(end.next_multiple_of(4)..)?;
    }
}

/// So many bytes as a little-endian number.
fn number(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + length)?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Cursor;

    use super::*;

    fn note(name: &[u8], kind: u32, content: &[u8]) -> Vec<u8> {
        let mut note = Vec::new();
        for number in [name.len() as u32, content.len() as u32, kind] {
            note.extend(number.to_le_bytes());
        }
        for part in [name, content] {
            note.extend(part);
            note.resize(note.len().next_multiple_of(4), 0);
        }
        note
    }

    /// An ELF file with one segment of these notes.
    fn program(notes: &[u8]) -> Vec<u8> {
        let mut file = b"\x7fELF\x02\x01".to_vec();
        file.resize(64, 0);
        file[32..40].copy_from_slice(&64u64.to_le_bytes());
        file[54..56].copy_from_slice(&56u16.to_le_bytes());
        file[56..58].copy_from_slice(&1u16.to_le_bytes());
        let mut header = vec![0; 56];
        header[..4].copy_from_slice(&4u32.to_le_bytes());
        header[8..16].copy_from_slice(&120u64.to_le_bytes());
        header[32..40].copy_from_slice(&(notes.len() as u64).to_le_bytes());
        file.extend(header);
        file.extend(notes);
        file
    }

    fn id_of(file: &[u8]) -> Option<Vec<u8>> {
        build_id(&mut Cursor::new(file))
    }

    #[test]
    fn the_build_id_is_found_among_other_notes() {
        let notes = [note(b"GNU\0", 1, &[1; 16]), note(b"Go\0", 3, b"abc"), note(b"GNU\0", 3, &[7; 20])].concat();
        assert_eq!(id_of(&program(&notes)), Some(vec![7; 20]));
        assert_eq!(id_of(&program(&note(b"GNU\0", 1, &[1; 16]))), None);
    }

    #[test]
    fn a_file_cut_short_anywhere_or_with_any_byte_changed_is_read_without_harm() {
        let whole = program(&note(b"GNU\0", 3, &[7; 20]));
        for length in 0..whole.len() {
            assert_eq!(id_of(&whole[..length]), None, "{length}");
        }
        for at in 0..whole.len() {
            for value in [0, 0x7f, 0xff] {
                let mut file = whole.clone();
                file[at] = value;
                let _ = id_of(&file);
            }
        }
        assert_eq!(id_of(b"#!/bin/sh\nexit 0\n"), None);
    }

    #[test]
    fn this_program_has_a_digest_that_stays() {
        assert_eq!(this_program(), this_program());
        assert_ne!(this_program(), Digest::of(b""));
    }
}
