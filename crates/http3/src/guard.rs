//! A bound on what `h3` holds in memory for a peer.
//!
//! `h3` hands DATA frames through piece by piece but collects every other frame (HEADERS, SETTINGS, unknown ones) before it looks
//! at it, however long the peer says it is, and flow control does not help because what is collected counts as read. This follows
//! the frames of a stream (RFC 9114 section 7.1) just far enough to know their lengths, and refuses one that is too long.

use thiserror::Error;

/// Longest frame other than DATA that is let through, bytes: four times the largest header section that servers commonly
/// accept, and what Chromium allows for one.
pub(crate) const FRAME_LIMIT: u64 = 256 * 1024;

/// Frame type DATA (RFC 9114 section 7.2.1).
const DATA: u64 = 0;

/// Stream type of the control stream (RFC 9114 section 6.2.1).
const CONTROL: u64 = 0;

/// The peer announced a frame that is too long to be collected.
#[derive(Debug, Error)]
#[error("the peer sent a header section (or another frame but DATA) of {0} bytes; at most {FRAME_LIMIT} are accepted")]
pub(crate) struct TooLong(u64);

#[derive(Debug)]
enum State {
    /// Before the type of a unidirectional stream.
    StreamType,
    /// Within a frame's type and length.
    Header,
    /// Within a frame's payload, this many bytes before its end.
    Payload(u64),
    /// A stream without frames that matter: `h3` does not collect it.
    Free,
}

/// Follows one stream.
#[derive(Debug)]
pub(crate) struct Guard {
    state: State,
    /// The part of a type or header that is here: two varints at most.
    head: [u8; 16],
    have: usize,
}

impl Guard {
    /// For a bidirectional stream, which begins with a frame.
    pub(crate) fn bidi() -> Self {
        Self::new(State::Header)
    }

    /// For a unidirectional stream, which begins with its type.
    pub(crate) fn uni() -> Self {
        Self::new(State::StreamType)
    }

    fn new(state: State) -> Self {
        Self { state, head: [0; 16], have: 0 }
    }

    /// Looks at the next bytes of the stream.
    ///
    /// # Errors
    /// When a frame begins that is too long.
    pub(crate) fn see(&mut self, mut data: &[u8]) -> Result<(), TooLong> {
        loop {
            match &mut self.state {
                State::Free => return Ok(()),
                State::Payload(left) => {
                    let here = (data.len() as u64).min(*left);
                    *left -= here;
                    if *left > 0 {
                        return Ok(());
                    }
                    data = &data[here as usize..];
                    self.state = State::Header;
                }
                State::StreamType | State::Header => {
                    let Some((byte, rest)) = data.split_first() else {
                        return Ok(());
                    };
                    data = rest;
                    self.head[self.have] = *byte;
                    self.have += 1;
                    self.state = match self.complete() {
                        None => continue,
                        Some(state) => state?,
                    };
                    self.have = 0;
                }
            }
        }
    }

    /// What follows the type or header, if all of it is here.
    fn complete(&self) -> Option<Result<State, TooLong>> {
        let head = &self.head[..self.have];
        let (kind, rest) = varint(head)?;
        if matches!(self.state, State::StreamType) {
            let control = kind == CONTROL;
            return Some(Ok(if control { State::Header } else { State::Free }));
        }
        let (length, _) = varint(rest)?;
        Some(if kind != DATA && length > FRAME_LIMIT { Err(TooLong(length)) } else { Ok(State::Payload(length)) })
    }
}

/// A variable-length integer (RFC 9000 section 16) and what follows it.
fn varint(data: &[u8]) -> Option<(u64, &[u8])> {
    let first = *data.first()?;
    let length = 1 << (first >> 6);
    let (bytes, rest) = data.split_at_checked(length)?;
    let value = bytes.iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
    let bits = 8 * length as u32 - 2;
    Some((value & ((1u64 << bits) - 1), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(value: u64, out: &mut Vec<u8>) {
        match value {
            0..=63 => out.push(value as u8),
            64..=16_383 => out.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
            16_384..=0x3fff_ffff => out.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes()),
            _ => out.extend_from_slice(&(value | 0xc000_0000_0000_0000).to_be_bytes()),
        }
    }

    fn frame(kind: u64, length: u64, payload: usize) -> Vec<u8> {
        let mut out = Vec::new();
        put(kind, &mut out);
        put(length, &mut out);
        out.resize(out.len() + payload, 0xff);
        out
    }

    /// However the bytes are cut, the verdict is the same.
    fn refuses(make: fn() -> Guard, data: &[u8]) -> bool {
        let whole = make().see(data).is_err();
        for size in [1, 2, 3, 7, 100] {
            let mut guard = make();
            let cut = data.chunks(size).any(|chunk| guard.see(chunk).is_err());
            assert_eq!(cut, whole, "in pieces of {size}");
        }
        whole
    }

    #[test]
    fn frames_that_are_collected_may_not_be_long() {
        let bidi: fn() -> Guard = Guard::bidi;
        for kind in [1, 4, 0x21, 0x3fff_ffff_ffff] {
            assert!(refuses(bidi, &frame(kind, FRAME_LIMIT + 1, 0)));
            assert!(refuses(bidi, &frame(kind, (1 << 62) - 1, 10)));
            assert!(!refuses(bidi, &frame(kind, FRAME_LIMIT, 10)));
        }
    }

    #[test]
    fn data_may_be_long_and_what_follows_is_still_seen() {
        let bidi: fn() -> Guard = Guard::bidi;
        let head = frame(1, 300, 300);
        let data = frame(DATA, 1_000_000, 1_000_000);
        let good = [head.clone(), data.clone(), frame(DATA, 0, 0), head.clone()].concat();
        assert!(!refuses(bidi, &good));
        let bad = [head, data, frame(DATA, 0, 0), frame(1, 1 << 30, 5)].concat();
        assert!(refuses(bidi, &bad));
        assert!(!refuses(bidi, &frame(DATA, (1 << 62) - 1, 5)));
    }

    #[test]
    fn of_unidirectional_streams_only_the_control_stream_has_frames_that_matter() {
        let uni: fn() -> Guard = Guard::uni;
        let long = frame(4, 1 << 30, 3);
        let stream = |kind: u64| {
            let mut out = Vec::new();
            put(kind, &mut out);
            [out, long.clone()].concat()
        };
        assert!(refuses(uni, &stream(0)));
        for kind in [1, 2, 3, 0x54, 0x1f * 77 + 0x21] {
            assert!(!refuses(uni, &stream(kind)), "{kind}");
        }
        // A type may be written longer than it needs.
        assert!(refuses(uni, &[&[0x40, 0x00][..], &long].concat()));
    }
}
