//! A check of incoming frames before `h3` sees them.
//!
//! `h3` hands DATA frames through piece by piece but collects every other frame (HEADERS, SETTINGS, unknown ones)
//! before it looks at it, however long the peer announces it to be, and flow control does not help because what is
//! collected counts as read. This follows the frames of a stream (RFC 9114 section 7.1) and refuses one that is too
//! long. It holds back HEADERS frames until they are whole, and refuses those of a malformed message.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use thalweg::Budget;
use thiserror::Error;

use crate::message::{Fault, Malformed, Message, MessageKind};
use crate::qpack::Undecodable;

/// Longest frame other than DATA that is let through, bytes: four times the largest header section that servers
/// commonly accept, and what Chromium allows for one.
pub(crate) const FRAME_LIMIT: u64 = 256 * 1024;

/// Bytes of frames other than DATA that are not whole yet, on all streams of a connection together. They count as read,
/// so no flow control bounds them. A browser's hundred requests have a fifth of it.
pub(crate) const HELD_LIMIT: u64 = 4 * FRAME_LIMIT;

/// Frame types DATA and HEADERS (RFC 9114 sections 7.2.1 and 7.2.2).
const DATA: u64 = 0;
const HEADERS: u64 = 1;

/// Stream type of the control stream (RFC 9114 section 6.2.1).
const CONTROL: u64 = 0;

/// Why a stream is not handed on.
#[derive(Debug, Error)]
pub(crate) enum Refused {
    /// The peer announced a frame that is too long to be collected.
    #[error(
        "the peer sent a header section (or another frame but DATA) of {0} bytes; at most {FRAME_LIMIT} are accepted"
    )]
    TooLong(u64),
    /// The peer began more than it finished.
    #[error("the peer sent more than {HELD_LIMIT} bytes of header sections (or other frames but DATA) that do not end")]
    TooMuch,
    /// The connection cannot go on: the state of QPACK is one for all streams.
    #[error(transparent)]
    Undecodable(#[from] Undecodable),
    /// A stream error.
    #[error(transparent)]
    Malformed(MalformedMessage),
}

/// A request or response that breaks the rules of RFC 9114 section 4.1.2.
#[derive(Debug, Clone, Copy, Error)]
#[error("the {} is malformed: it {why}", match .kind { MessageKind::Request => "request", MessageKind::Response => "response" })]
pub(crate) struct MalformedMessage {
    kind: MessageKind,
    why: Malformed,
}

#[derive(Debug)]
enum State {
    /// Before the type of a unidirectional stream.
    StreamType,
    /// Within a frame's type and length.
    Header,
    /// Within the payload of a DATA frame, this many bytes before its end.
    Payload(u64),
    /// Within the payload of a frame that `h3` collects, this many bytes before its end.
    Collected(u64),
    /// Within the payload of a HEADERS frame, this many bytes before its end.
    Section(u64),
    /// A stream without frames that matter: `h3` does not collect it.
    Free,
}

/// What all streams of a connection hold of frames that are not whole, bytes, and where that is counted too. Clones
/// share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Held(Arc<AtomicU64>, Option<Arc<Budget>>);

impl Held {
    /// Counts in a budget too.
    pub(crate) fn counted_in(self, budget: Arc<Budget>) -> Self {
        Self(self.0, Some(budget))
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What one stream contributes to it.
#[derive(Debug)]
struct Share {
    all: Held,
    own: u64,
}

impl Share {
    fn add(&mut self, bytes: u64) -> Result<(), Refused> {
        self.own += bytes;
        let before = self.all.0.fetch_add(bytes, Ordering::Relaxed);
        if let Some(budget) = &self.all.1 {
            budget.add(bytes);
        }
        if before + bytes > HELD_LIMIT { Err(Refused::TooMuch) } else { Ok(()) }
    }

    /// The frame is whole.
    fn clear(&mut self) {
        let own = std::mem::take(&mut self.own);
        self.all.0.fetch_sub(own, Ordering::Relaxed);
        if let Some(budget) = &self.all.1 {
            budget.sub(own);
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.clear();
    }
}

/// What may be handed on: first the frame that was held back, then the rest.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    pub(crate) held: Option<Bytes>,
    pub(crate) rest: Option<Bytes>,
}

/// Follows one stream.
#[derive(Debug)]
pub(crate) struct Guard {
    state: State,
    /// The part of a type or header that is here: two varints at most.
    head: [u8; 16],
    have: usize,
    /// The part of a HEADERS frame's payload that is here and was not handed on. At most [`FRAME_LIMIT`] bytes.
    held: Vec<u8>,
    /// Of a bidirectional stream.
    message: Option<Message>,
    share: Share,
}

impl Guard {
    /// For a bidirectional stream, which begins with a frame.
    pub(crate) fn bidi(kind: MessageKind, all: &Held) -> Self {
        Self::new(State::Header, Some(Message::new(kind)), all)
    }

    /// For a unidirectional stream, which begins with its type.
    pub(crate) fn uni(all: &Held) -> Self {
        Self::new(State::StreamType, None, all)
    }

    fn new(state: State, message: Option<Message>, all: &Held) -> Self {
        let share = Share { all: all.clone(), own: 0 };
        Self { state, head: [0; 16], have: 0, held: Vec::new(), message, share }
    }

    /// Looks at the next bytes of the stream and returns what may be handed on.
    ///
    /// # Errors
    /// When a frame begins that is too long, too many frames are not whole, or a message is malformed.
    pub(crate) fn see(&mut self, data: Bytes) -> Result<Passed, Refused> {
        let mut passed = Passed::default();
        // What is handed on of `data`, and how far it was looked at.
        let (mut from, mut at) = (0, 0);
        loop {
            let rest = &data[at..];
            match &mut self.state {
                State::Free => break,
                State::Payload(left) => {
                    let here = (rest.len() as u64).min(*left);
                    at += here as usize;
                    *left -= here;
                    if *left > 0 {
                        break;
                    }
                    self.state = State::Header;
                }
                State::Collected(left) => {
                    let here = (rest.len() as u64).min(*left);
                    at += here as usize;
                    *left -= here;
                    if *left > 0 {
                        self.share.add(here)?;
                        break;
                    }
                    self.share.clear();
                    self.state = State::Header;
                }
                State::Section(left) => {
                    let here = (rest.len() as u64).min(*left);
                    let section = &rest[..here as usize];
                    *left -= here;
                    if *left > 0 {
                        self.share.add(here)?;
                        self.held.extend_from_slice(section);
                        passed.rest = Some(data.slice(from..at)).filter(|rest| !rest.is_empty());
                        return Ok(passed);
                    }
                    if self.held.is_empty() {
                        check(&mut self.message, section)?;
                        at += section.len();
                    } else {
                        self.held.extend_from_slice(section);
                        check(&mut self.message, &self.held)?;
                        passed.held = Some(std::mem::take(&mut self.held).into());
                        at += section.len();
                        from = at;
                    }
                    self.share.clear();
                    self.state = State::Header;
                }
                State::StreamType | State::Header => {
                    let Some(byte) = rest.first() else {
                        break;
                    };
                    at += 1;
                    self.head[self.have] = *byte;
                    self.have += 1;
                    if let Some(state) = self.complete()? {
                        self.state = state;
                        self.have = 0;
                    }
                }
            }
        }
        passed.rest = Some(data.slice(from..)).filter(|rest| !rest.is_empty());
        Ok(passed)
    }

    /// The stream ends: hands out what was held back of a frame that is not whole.
    ///
    /// # Errors
    /// When the message is malformed because it ends here.
    pub(crate) fn end(&mut self) -> Result<Option<Bytes>, MalformedMessage> {
        // In the middle of a frame there is more wrong than the message (section 7.1), which `h3` says.
        if let (State::Header, 0, Some(message)) = (&self.state, self.have, &self.message) {
            message.end().map_err(|why| MalformedMessage { kind: message.kind(), why })?;
        }
        Ok(Some(Bytes::from(std::mem::take(&mut self.held))).filter(|held| !held.is_empty()))
    }

    /// What follows the type or header, if all of it is here.
    fn complete(&mut self) -> Result<Option<State>, Refused> {
        let head = &self.head[..self.have];
        let Some((kind, rest)) = varint(head) else {
            return Ok(None);
        };
        if matches!(self.state, State::StreamType) {
            let control = kind == CONTROL;
            return Ok(Some(if control { State::Header } else { State::Free }));
        }
        let Some((length, _)) = varint(rest) else {
            return Ok(None);
        };
        match (kind, &mut self.message) {
            (DATA, Some(message)) => {
                let why = message.data(length).err();
                let kind = message.kind();
                why.map_or(Ok(Some(State::Payload(length))), |why| {
                    Err(Refused::Malformed(MalformedMessage { kind, why }))
                })
            }
            (DATA, None) => Ok(Some(State::Payload(length))),
            _ if length > FRAME_LIMIT => Err(Refused::TooLong(length)),
            (HEADERS, Some(_)) => Ok(Some(State::Section(length))),
            _ => Ok(Some(State::Collected(length))),
        }
    }
}

fn check(message: &mut Option<Message>, section: &[u8]) -> Result<(), Refused> {
    let Some(message) = message else {
        return Ok(());
    };
    message.section(section).map_err(|fault| match fault {
        Fault::Undecodable(why) => Refused::Undecodable(why),
        Fault::Malformed(why) => Refused::Malformed(MalformedMessage { kind: message.kind(), why }),
    })
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
    use crate::qpack::tests::{Way, encode};
    use proptest::prelude::*;

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

    fn headers(fields: &[(&str, &str)], way: Way) -> Vec<u8> {
        let section = encode(fields, way);
        let mut out = frame(HEADERS, section.len() as u64, 0);
        out.extend_from_slice(&section);
        out
    }

    fn request() -> Vec<u8> {
        let value = "x".repeat(300);
        let fields =
            [(":method", "PUT"), (":scheme", "https"), (":authority", "a"), (":path", "/"), ("filler", &value)];
        headers(&fields, Way::Plain)
    }

    /// Feeds a whole stream in these pieces; returns what was handed on, and how it went.
    fn feed<'a>(make: fn() -> Guard, pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<u8>, Result<(), String>) {
        let mut guard = make();
        let mut out = Vec::new();
        for piece in pieces {
            match guard.see(Bytes::copy_from_slice(piece)) {
                Ok(passed) => {
                    out.extend(passed.held.into_iter().flatten());
                    out.extend(passed.rest.into_iter().flatten());
                }
                Err(refused) => return (out, Err(refused.to_string())),
            }
        }
        match guard.end() {
            Ok(held) => out.extend(held.into_iter().flatten()),
            Err(refused) => return (out, Err(refused.to_string())),
        }
        (out, Ok(()))
    }

    /// However the bytes are cut, the verdict is the same.
    fn refuses(make: fn() -> Guard, data: &[u8]) -> bool {
        let (_, whole) = feed(make, std::iter::once(data));
        for size in [1, 2, 3, 7, 100] {
            let (out, cut) = feed(make, data.chunks(size));
            assert_eq!(cut, whole, "in pieces of {size}");
            assert!(cut.is_err() || out == data, "something is lost or invented in pieces of {size}");
        }
        whole.is_err()
    }

    const REQUEST: fn() -> Guard = || Guard::bidi(MessageKind::Request, &Held::default());
    const RESPONSE: fn() -> Guard = || Guard::bidi(MessageKind::Response, &Held::default());

    #[test]
    fn frames_that_are_collected_may_not_be_long() {
        for kind in [1, 4, 0x21, 0x3fff_ffff_ffff] {
            for side in [REQUEST, RESPONSE] {
                assert!(refuses(side, &frame(kind, FRAME_LIMIT + 1, 0)));
                assert!(refuses(side, &frame(kind, (1 << 62) - 1, 10)));
                assert!(!refuses(side, &frame(kind, FRAME_LIMIT, 10)));
            }
        }
    }

    #[test]
    fn frames_that_do_not_end_are_bounded_over_all_streams_of_a_connection() {
        for kind in [HEADERS, 0x21] {
            let budget = Budget::new(1);
            let all = Held::default().counted_in(budget.clone());
            let part = frame(kind, FRAME_LIMIT, FRAME_LIMIT as usize - 1);
            let begin = || {
                let mut guard = Guard::bidi(MessageKind::Request, &all);
                guard.see(part.clone().into()).map(|_| guard)
            };
            let mut begun: Vec<Guard> = (0..4).map(|_| begin().unwrap()).collect();
            assert!(matches!(begin(), Err(Refused::TooMuch)));
            // What is dropped or becomes whole makes room.
            begun.pop();
            begun.push(begin().unwrap());
            if kind != HEADERS {
                begun[0].see(Bytes::from_static(&[0])).unwrap();
                begun.push(begin().unwrap());
            }
            assert_eq!(budget.used(), all.bytes());
            drop(begun);
            assert_eq!((all.bytes(), budget.used()), (0, 0));
        }
    }

    #[test]
    fn data_may_be_long_and_what_follows_is_still_seen() {
        let head = request();
        let data = frame(DATA, 1_000_000, 1_000_000);
        let trailers = headers(&[("a", "b")], Way::Huffman);
        let good = [head.clone(), data.clone(), frame(DATA, 0, 0), trailers].concat();
        assert!(!refuses(REQUEST, &good));
        let bad = [head, data, frame(DATA, 0, 0), frame(1, 1 << 30, 5)].concat();
        assert!(refuses(REQUEST, &bad));
        assert!(!refuses(REQUEST, &frame(DATA, (1 << 62) - 1, 5)));
    }

    #[test]
    fn of_unidirectional_streams_only_the_control_stream_has_frames_that_matter() {
        let uni: fn() -> Guard = || Guard::uni(&Held::default());
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

    #[test]
    fn a_malformed_head_is_never_handed_on() {
        let bad = headers(&[(":method", "GET"), (":method", "GET")], Way::Plain);
        for size in [1, 2, 5, bad.len()] {
            let (out, verdict) = feed(REQUEST, bad.chunks(size));
            assert!(verdict.unwrap_err().contains("repeats :method"));
            assert!(out.len() <= 2, "the type and length at most, not {} bytes", out.len());
        }
    }

    #[test]
    fn bodies_are_compared_with_their_length() {
        let head = |length| {
            let fields = [(":method", "PUT"), (":scheme", "https"), (":authority", "a"), (":path", "/")];
            headers(&[&fields[..], &[("content-length", length)]].concat(), Way::Table)
        };
        let grease = frame(0x21, 3, 3);
        let body = [frame(DATA, 2, 2), grease.clone(), frame(DATA, 3, 3)].concat();
        assert!(!refuses(REQUEST, &[head("5"), grease.clone(), body.clone(), grease.clone()].concat()));
        assert!(refuses(REQUEST, &[head("4"), body.clone()].concat()));
        assert!(refuses(REQUEST, &[head("6"), body].concat()));
        assert!(refuses(REQUEST, &[head("6"), grease].concat()));
        // Cut within a frame: that is for h3 to say.
        assert!(!refuses(REQUEST, &[head("6"), frame(DATA, 6, 5)].concat()));
        assert!(!refuses(REQUEST, &head("6")[..10]));
    }

    /// A stream of frames, some of them of a well-formed message.
    fn stream() -> impl Strategy<Value = Vec<u8>> {
        let way = || prop_oneof![Just(Way::Plain), Just(Way::Huffman), Just(Way::Table)];
        let field = prop_oneof![
            Just((":method", "GET")),
            Just((":scheme", "https")),
            Just((":authority", "a")),
            Just((":path", "/")),
            Just(("content-length", "5")),
            Just(("host", "a")),
            Just(("upgrade", "x")),
            Just(("cookie", "x=y; z=0123456789")),
        ];
        let anything = (proptest::collection::vec(field, 0..6), way()).prop_map(|(fields, way)| headers(&fields, way));
        let sized = |kind: u64| (0..9usize).prop_map(move |size| frame(kind, size as u64, size));
        let good = way().prop_map(|way| {
            let fields = [(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/")];
            headers(&[&fields[..], &[("content-length", "5")]].concat(), way)
        });
        let next = prop_oneof![anything, sized(DATA), sized(0x21), sized(HEADERS), Just(request())];
        (prop_oneof![good, Just(request())], proptest::collection::vec(next, 0..4), 0..3usize).prop_map(
            |(head, more, cut)| {
                let whole = [head, more.concat()].concat();
                whole[..whole.len() - cut.min(whole.len())].to_vec()
            },
        )
    }

    proptest! {
        #[test]
        fn the_verdict_does_not_depend_on_how_the_bytes_are_cut(
            data in stream(), cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..20)
        ) {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(data.len().max(1))).collect();
            cuts.extend([0, data.len()]);
            cuts.sort_unstable();
            for side in [REQUEST, RESPONSE] {
                let (whole, verdict) = feed(side, std::iter::once(&data[..]));
                let (out, cut) = feed(side, cuts.windows(2).map(|pair| &data[pair[0]..pair[1]]));
                prop_assert_eq!(&cut, &verdict);
                prop_assert!(data.starts_with(&out));
                if verdict.is_ok() {
                    prop_assert_eq!(&whole, &data);
                    prop_assert_eq!(&out, &data);
                }
            }
        }
    }
}
