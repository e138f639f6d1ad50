//! Splits a log into its records as its bytes come, without holding more than one of them.
//!
//! Two forms: records between separators (JSON text sequences, lines of JSON), and one JSON document whose `traces`
//! hold arrays of `events`. After damage inside a document, reading goes on at the next text that begins as its first
//! event began.

use serde_json::{Map, Value};

/// The longest record or header that is read, bytes; a longer one counts as damaged.
const LONGEST: usize = 1 << 20;
/// How much of the first event is looked for after damage, bytes.
const BEGIN: usize = 8;

/// RFC 7464: what stands before each record.
const RECORD_SEPARATOR: u8 = 0x1e;

/// A part of a log.
pub(super) enum Piece<'a> {
    /// The header of a sequence, as text.
    Record(&'a [u8]),
    /// A trace of a document begins or has ended: what stands beside its events so far, and in the file.
    Trace {
        /// What stands beside `traces`.
        file: &'a Map<String, Value>,
        /// What stands beside `events`.
        trace: &'a Map<String, Value>,
        /// Whether its events have been read.
        is_over: bool,
    },
    /// An event of a document, as text.
    Event(&'a [u8]),
    /// Something that cannot be read.
    Damaged,
}

/// Where in a document the next byte belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// The file's object.
    File,
    /// The array `traces`.
    Traces,
    /// A trace's object.
    Trace,
    /// Its array `events`.
    Events,
    /// Behind the file's object.
    Behind,
}

/// How far a JSON value has been read.
#[derive(Clone, Copy, Debug, Default)]
struct Extent {
    depth: u32,
    in_string: bool,
    is_escaped: bool,
}

/// What a byte means for the value that it may belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// It belongs to it.
    Inside,
    /// It is its last.
    Last,
    /// It comes after a number or a word.
    Beyond,
    /// It cannot be in JSON.
    Wrong,
}

impl Extent {
    fn step(&mut self, byte: u8, is_first: bool) -> Step {
        if self.in_string {
            return match byte {
                0..0x20 => Step::Wrong,
                _ if self.is_escaped => {
                    self.is_escaped = false;
                    Step::Inside
                }
                b'\\' => {
                    self.is_escaped = true;
                    Step::Inside
                }
                b'"' => {
                    self.in_string = false;
                    if self.depth == 0 { Step::Last } else { Step::Inside }
                }
                _ => Step::Inside,
            };
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' if self.depth == 0 => return Step::Beyond,
            b'}' | b']' => {
                self.depth -= 1;
                return if self.depth == 0 { Step::Last } else { Step::Inside };
            }
            b',' | b' ' | b'\t' | b'\r' | b'\n' if self.depth == 0 && !is_first => return Step::Beyond,
            b' ' | b'\t' | b'\r' | b'\n' => {}
            0..0x20 => return Step::Wrong,
            _ => {}
        }
        Step::Inside
    }
}

/// What is being read.
#[derive(Debug)]
enum Mode {
    /// Nothing but white space yet.
    Begin,
    /// Records between separators.
    Sequence,
    /// A document.
    Document(Box<Document>),
}

#[derive(Debug)]
struct Document {
    at: At,
    /// The value under way, if one is.
    extent: Option<Extent>,
    /// The key that the next value belongs to.
    key: Option<String>,
    file: Map<String, Value>,
    trace: Map<String, Value>,
    has_traces: bool,
    /// How events begin here.
    begin: Vec<u8>,
    is_lost: bool,
}

/// Takes the bytes of a log and hands out its pieces.
#[derive(Debug)]
pub(super) struct Splitter {
    mode: Mode,
    held: Vec<u8>,
    is_too_long: bool,
}

impl Default for Splitter {
    fn default() -> Self {
        Splitter { mode: Mode::Begin, held: Vec::new(), is_too_long: false }
    }
}

/// Hands on a record, if there is more to it than white space.
fn hand_on(record: &[u8], out: &mut dyn FnMut(Piece<'_>)) {
    let record = record.trim_ascii();
    if !record.is_empty() {
        out(Piece::Record(record));
    }
}

impl Splitter {
    /// Takes the next bytes.
    ///
    /// # Errors
    /// When they cannot be part of a log; in words.
    pub(super) fn feed(&mut self, mut bytes: &[u8], out: &mut dyn FnMut(Piece<'_>)) -> Result<(), String> {
        if matches!(self.mode, Mode::Begin) {
            let Some(first) = bytes.iter().position(|byte| !byte.is_ascii_whitespace()) else { return Ok(()) };
            bytes = &bytes[first..];
            self.mode = begin(bytes)?;
        }
        while !bytes.is_empty() {
            bytes = match &mut self.mode {
                Mode::Begin => return Ok(()),
                Mode::Sequence => return self.sequence(bytes, out),
                Mode::Document(document) => {
                    let rest = document.feed(bytes, &mut self.held, out)?;
                    if document.is_first_line() && rest.first() == Some(&b'{') {
                        let header = core::mem::take(&mut document.file);
                        out(Piece::Record(&serde_json::to_vec(&header).unwrap_or_default()));
                        self.mode = Mode::Sequence;
                    }
                    rest
                }
            };
        }
        Ok(())
    }

    fn sequence(&mut self, bytes: &[u8], out: &mut dyn FnMut(Piece<'_>)) -> Result<(), String> {
        let mut from = 0;
        for (at, byte) in bytes.iter().enumerate() {
            if matches!(*byte, b'\n' | RECORD_SEPARATOR) {
                let part = &bytes[from..at];
                from = at + 1;
                if self.held.is_empty() && part.len() <= LONGEST {
                    // What came whole need not be held.
                    hand_on(part, out);
                    continue;
                }
                self.hold(part);
                self.record(out);
            }
        }
        self.hold(&bytes[from..]);
        Ok(())
    }

    fn hold(&mut self, bytes: &[u8]) {
        let room = LONGEST - self.held.len();
        self.is_too_long |= bytes.len() > room;
        self.held.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn record(&mut self, out: &mut dyn FnMut(Piece<'_>)) {
        if self.is_too_long {
            out(Piece::Damaged);
        } else {
            hand_on(&self.held, out);
        }
        self.held.clear();
        self.is_too_long = false;
    }

    /// There is nothing more. Says whether it ended where a log may end.
    ///
    /// # Errors
    /// When it was no log; in words.
    pub(super) fn finish(&mut self, out: &mut dyn FnMut(Piece<'_>)) -> Result<bool, String> {
        match &mut self.mode {
            Mode::Begin => Ok(true),
            Mode::Sequence => {
                let is_whole = self.held.trim_ascii().is_empty();
                self.record(out);
                Ok(is_whole)
            }
            Mode::Document(document) => {
                if document.extent.is_some() && document.at == At::Events {
                    out(Piece::Damaged);
                }
                if !document.has_traces {
                    let line = serde_json::to_vec(&document.file).unwrap_or_default();
                    if document.is_first_line() {
                        out(Piece::Record(&line));
                        return Ok(true);
                    }
                    return Err("no `traces` in it".to_owned());
                }
                Ok(document.at == At::Behind)
            }
        }
    }
}

fn begin(bytes: &[u8]) -> Result<Mode, String> {
    let known: [(&[u8], &str); 8] = [
        (&[0x1f, 0x8b], "compressed with gzip; unpack it: gunzip -k FILE"),
        (&[0x28, 0xb5, 0x2f, 0xfd], "compressed with zstd; unpack it: unzstd FILE"),
        (&[0xfd, b'7', b'z', b'X', b'Z'], "compressed with xz; unpack it: unxz -k FILE"),
        (b"PK\x03\x04", "a zip archive; unpack it"),
        (&[0x89, b'P', b'N', b'G'], "a picture"),
        (&[0xff, 0xd8, 0xff], "a picture"),
        (b"%PDF", "a PDF"),
        (&[0x0a, 0x0d, 0x0d, 0x0a], "a capture of packets (pcapng)"),
    ];
    if let Some((_, what)) = known.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        return Err(format!("not JSON, but {what}"));
    }
    match bytes.first() {
        Some(&RECORD_SEPARATOR) => Ok(Mode::Sequence),
        Some(b'{') => Ok(Mode::Document(Box::new(Document {
            at: At::File,
            extent: None,
            key: None,
            file: Map::new(),
            trace: Map::new(),
            has_traces: false,
            begin: Vec::new(),
            is_lost: false,
        }))),
        Some(b'[') => Err("JSON, but not a qlog document".to_owned()),
        _ => Err("not JSON".to_owned()),
    }
}

impl Document {
    /// Whether the object was the first of several: the header of lines of JSON.
    fn is_first_line(&self) -> bool {
        let is_header = self.file.contains_key("trace") || self.file.contains_key("qlog_format");
        self.at == At::Behind && !self.has_traces && (is_header || self.file.contains_key("name"))
    }

    /// Takes bytes up to the end of the document; returns the rest.
    fn feed<'a>(
        &mut self,
        bytes: &'a [u8],
        held: &mut Vec<u8>,
        out: &mut dyn FnMut(Piece<'_>),
    ) -> Result<&'a [u8], String> {
        let mut at = 0;
        while at < bytes.len() {
            let byte = bytes[at];
            if self.is_lost {
                at += 1;
                self.search(byte, held);
            } else if self.extent.is_some() {
                at += self.value(&bytes[at..], held, out)?;
            } else if self.at == At::Behind {
                if !byte.is_ascii_whitespace() {
                    return Ok(&bytes[at..]);
                }
                at += 1;
            } else {
                at += 1;
                self.between(byte, held, out)?;
            }
        }
        Ok(&[])
    }

    /// Looks for the begin of an event.
    fn search(&mut self, byte: u8, held: &mut Vec<u8>) {
        held.push(byte);
        if held.len() > self.begin.len() {
            held.remove(0);
        }
        if *held == self.begin {
            let mut extent = Extent::default();
            for (at, byte) in self.begin.iter().enumerate() {
                extent.step(*byte, at == 0);
            }
            (self.extent, self.is_lost) = (Some(extent), false);
        }
    }

    /// Goes on with a value; returns how many bytes belong to it.
    fn value(&mut self, bytes: &[u8], held: &mut Vec<u8>, out: &mut dyn FnMut(Piece<'_>)) -> Result<usize, String> {
        let Some(extent) = &mut self.extent else { return Ok(0) };
        let mut length = 0;
        let mut step = Step::Inside;
        while length < bytes.len() && step == Step::Inside {
            step = extent.step(bytes[length], held.is_empty() && length == 0);
            length += usize::from(step != Step::Beyond);
        }
        held.extend_from_slice(&bytes[..length]);
        match step {
            Step::Inside if held.len() <= LONGEST => {}
            Step::Inside | Step::Wrong => self.damaged(held, out)?,
            Step::Last | Step::Beyond => {
                self.extent = None;
                self.complete(held, out)?;
                held.clear();
            }
        }
        Ok(length)
    }

    /// What was read makes no sense.
    fn damaged(&mut self, held: &mut Vec<u8>, out: &mut dyn FnMut(Piece<'_>)) -> Result<(), String> {
        self.extent = None;
        held.clear();
        if self.begin.is_empty() {
            return Err("not JSON".to_owned());
        }
        // What follows is events until a trace's end is found; a new trace is not recognized then.
        (self.is_lost, self.at) = (true, At::Events);
        out(Piece::Damaged);
        Ok(())
    }

    /// A value is complete.
    fn complete(&mut self, held: &mut Vec<u8>, out: &mut dyn FnMut(Piece<'_>)) -> Result<(), String> {
        if self.at == At::Events {
            if self.begin.is_empty() {
                self.begin = held[..held.len().min(BEGIN)].to_vec();
            }
            out(Piece::Event(held));
            return Ok(());
        }
        let Ok(value) = serde_json::from_slice::<Value>(held) else {
            return self.damaged(held, out);
        };
        let object = if self.at == At::File { &mut self.file } else { &mut self.trace };
        match self.key.take() {
            Some(key) => {
                object.insert(key, value);
            }
            None => self.key = value.as_str().map(str::to_owned),
        }
        Ok(())
    }

    /// A byte outside of any value.
    fn between(&mut self, byte: u8, held: &mut Vec<u8>, out: &mut dyn FnMut(Piece<'_>)) -> Result<(), String> {
        match (self.at, byte) {
            (_, b' ' | b'\t' | b'\r' | b'\n' | b',' | b':') => {}
            (At::File, b'{') if self.file.is_empty() && self.key.is_none() => {}
            (At::File, b'[') if self.key.as_deref() == Some("traces") => {
                (self.at, self.key, self.has_traces) = (At::Traces, None, true);
            }
            (At::File, b'}') => self.at = At::Behind,
            (At::Traces, b'{') => {
                self.at = At::Trace;
                self.trace.clear();
            }
            (At::Traces, b']') => self.at = At::File,
            (At::Trace, b'[') if self.key.as_deref() == Some("events") => {
                (self.at, self.key) = (At::Events, None);
                out(Piece::Trace { file: &self.file, trace: &self.trace, is_over: false });
            }
            (At::Trace, b'}') => {
                out(Piece::Trace { file: &self.file, trace: &self.trace, is_over: true });
                self.at = At::Traces;
            }
            (At::Events, b']') => self.at = At::Trace,
            (At::Events, b'{' | b'[') | (At::File | At::Trace, _) => {
                let mut extent = Extent::default();
                held.clear();
                match extent.step(byte, true) {
                    Step::Inside => {
                        held.push(byte);
                        self.extent = Some(extent);
                    }
                    _ => return self.damaged(held, out),
                }
            }
            _ => return self.damaged(held, out),
        }
        Ok(())
    }
}
