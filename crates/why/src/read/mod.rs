//! Reads qlog files as they are found in the wild, record by record: JSON text sequences and whole documents, current
//! drafts and 0.3.
//!
//! Tolerant on purpose. A record that is not JSON (the last one of a program that was killed) is reported and skipped,
//! category prefixes (`transport:`, `recovery:`, `quic:`) are dropped from names, and the three ways of writing time
//! become milliseconds since the first event. No more than one record is held. What is compressed with gzip is read as
//! what is in it.

mod split;
mod tree;

use std::io;

use flate2::bufread::MultiGzDecoder;
use serde_json::{Map, Value};

use self::split::{Piece, Splitter};
pub(crate) use self::tree::{Data, Tree};

/// What the reader hands on.
#[derive(Debug)]
#[non_exhaustive]
pub enum Item<E = Event> {
    /// The header of the file or of one trace in it, before its events.
    Header(Header),
    /// The same after its events, where a document tells more there.
    HeaderAgain(Header),
    /// An event.
    Event(E),
    /// Something that is not JSON, or not an event.
    Damaged,
    /// The file ends in the middle.
    Truncated,
}

/// The metadata of a trace.
#[derive(Debug, Default, Clone, PartialEq)]
#[non_exhaustive]
pub struct Header {
    /// Free text of the program that wrote it.
    pub title: Option<String>,
    /// `client`, `server`, `network`.
    pub vantage_point: Option<String>,
    /// The original destination connection ID, or the group that stands for it.
    pub odcid: Option<String>,
    /// The schema or version.
    pub schema: Option<String>,
    /// What Thalweg tells of its configuration, under `thalweg`.
    pub own: Option<Value>,
}

/// One event.
#[derive(Debug)]
pub struct Event {
    /// Milliseconds since the first event of the trace.
    pub time: f64,
    /// Without the category in front: `packet_sent`.
    pub name: String,
    /// The data object.
    pub data: Value,
    /// The connection that it names, if it names one.
    pub connection: Option<String>,
}

impl Event {
    /// An event that names no connection.
    pub fn new(time: f64, name: &str, data: Value) -> Event {
        Event { time, name: name.to_owned(), data, connection: None }
    }
}

/// An event in the text that it was read from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventIn<'t> {
    pub(crate) time: f64,
    pub(crate) name: &'t str,
    pub(crate) data: Data<'t>,
    pub(crate) connection: Option<&'t str>,
}

impl From<EventIn<'_>> for Event {
    fn from(event: EventIn<'_>) -> Event {
        let EventIn { time, name, data, connection } = event;
        Event { time, name: name.to_owned(), data: data.to_value(), connection: connection.map(str::to_owned) }
    }
}

/// Takes items with events that are still in their text.
type Sink<'s> = dyn FnMut(Item<EventIn<'_>>) + 's;

/// The same item with an event that stands by itself.
fn owned(item: Item<EventIn<'_>>) -> Item {
    match item {
        Item::Header(header) => Item::Header(header),
        Item::HeaderAgain(header) => Item::HeaderAgain(header),
        Item::Event(event) => Item::Event(event.into()),
        Item::Damaged => Item::Damaged,
        Item::Truncated => Item::Truncated,
    }
}

/// The first trace of a file: what other traces hold is left out.
#[derive(Debug, Default)]
pub struct FirstTrace {
    /// Its header.
    pub header: Header,
    /// How many traces there are so far.
    pub traces: u64,
}

impl FirstTrace {
    /// The event that an item is, if it belongs to the trace.
    pub fn event<E>(&mut self, item: Item<E>) -> Option<E> {
        match item {
            // The same once more is a record that was told twice.
            Item::Header(header) if self.traces == 1 && header == self.header => None,
            Item::Header(header) => {
                self.traces += 1;
                if self.traces == 1 {
                    self.header = header;
                }
                None
            }
            Item::HeaderAgain(header) => {
                if self.traces <= 1 {
                    self.header = header;
                }
                None
            }
            Item::Event(event) => (self.traces <= 1).then_some(event),
            Item::Damaged | Item::Truncated => None,
        }
    }
}

/// Takes the bytes of a log as they come.
#[derive(Debug, Default)]
pub struct Reader {
    splitter: Splitter,
    trace: TraceReader,
}

/// What is known of the trace that is being read.
#[derive(Debug, Default)]
struct TraceReader {
    clock: Clock,
    fields: Option<Value>,
    header: Option<Header>,
}

impl Reader {
    /// Takes the next bytes and hands on what is complete.
    ///
    /// # Errors
    /// `InvalidData`, with what is wrong, if this is no qlog at all.
    pub fn feed(&mut self, bytes: &[u8], sink: &mut dyn FnMut(Item)) -> io::Result<()> {
        self.feed_in_place(bytes, &mut |item| sink(owned(item)))
    }

    /// The same for whoever looks at events without keeping them.
    pub(crate) fn feed_in_place(&mut self, bytes: &[u8], sink: &mut Sink<'_>) -> io::Result<()> {
        let trace = &mut self.trace;
        self.splitter.feed(bytes, &mut |piece| trace.piece(piece, sink)).map_err(invalid)
    }

    /// What follows cannot be read.
    fn cut(&mut self, sink: &mut Sink<'_>) {
        let trace = &mut self.trace;
        let _ = self.splitter.finish(&mut |piece| trace.piece(piece, sink));
        sink(Item::Truncated);
    }

    /// There are no more bytes.
    ///
    /// # Errors
    /// `InvalidData`, with what is wrong, if it was no qlog.
    pub fn finish(&mut self, sink: &mut dyn FnMut(Item)) -> io::Result<()> {
        self.finish_in_place(&mut |item| sink(owned(item)))
    }

    /// The same for whoever looks at events without keeping them.
    pub(crate) fn finish_in_place(&mut self, sink: &mut Sink<'_>) -> io::Result<()> {
        let trace = &mut self.trace;
        if !self.splitter.finish(&mut |piece| trace.piece(piece, sink)).map_err(invalid)? {
            sink(Item::Truncated);
        }
        Ok(())
    }
}

fn invalid(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

/// Reads everything from `input`. An empty one has no items.
///
/// # Errors
///
/// Errors of `input`, and `InvalidData` if it is no qlog.
pub fn read(input: impl io::BufRead, sink: &mut dyn FnMut(Item)) -> io::Result<()> {
    read_in_place(input, &mut |item| sink(owned(item)))
}

/// The same for whoever looks at events without keeping them.
pub(crate) fn read_in_place(mut input: impl io::BufRead, sink: &mut Sink<'_>) -> io::Result<()> {
    if !input.fill_buf()?.starts_with(&GZIP) {
        return read_plain(input, false, sink);
    }
    read_plain(io::BufReader::with_capacity(1 << 16, MultiGzDecoder::new(input)), true, sink)
}

/// With which a file begins that is compressed with gzip.
const GZIP: [u8; 2] = [0x1f, 0x8b];

fn read_plain(mut input: impl io::BufRead, is_packed: bool, sink: &mut Sink<'_>) -> io::Result<()> {
    let mut reader = Reader::default();
    let mut is_begun = false;
    loop {
        let bytes = match input.fill_buf() {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // What is damaged in a compressed file takes all behind it away.
            Err(_) if is_packed && is_begun => {
                reader.cut(sink);
                return Ok(());
            }
            Err(error) if is_packed => {
                return Err(invalid(format!("compressed with gzip, but damaged from its beginning: {error}")));
            }
            Err(error) => return Err(error),
        };
        is_begun = true;
        let length = bytes.len();
        if length == 0 {
            return reader.finish_in_place(sink);
        }
        reader.feed_in_place(bytes, sink)?;
        input.consume(length);
    }
}

impl TraceReader {
    fn piece(&mut self, piece: Piece<'_>, sink: &mut Sink<'_>) {
        match piece {
            Piece::Record(record) => self.record(record, sink),
            Piece::Trace { file, trace, is_over } => {
                let header = header(file, trace);
                if is_over {
                    // Where the events came first, how they tell time was not known yet; no stack does that.
                    match self.header.take() {
                        None => sink(Item::Header(header)),
                        Some(before) if before != header => sink(Item::HeaderAgain(header)),
                        Some(_) => {}
                    }
                    return;
                }
                self.clock = Clock::of(trace);
                self.fields = trace.get("event_fields").cloned();
                self.header = Some(header.clone());
                sink(Item::Header(header));
            }
            Piece::Event(text) => {
                let tree = Tree::parse(text);
                let read = tree.as_ref().and_then(|tree| event(tree.root(), &mut self.clock, self.fields.as_ref()));
                sink(read.map_or(Item::Damaged, Item::Event));
            }
            Piece::Damaged => sink(Item::Damaged),
        }
    }

    fn record(&mut self, record: &[u8], sink: &mut Sink<'_>) {
        let Some(tree) = Tree::parse(record) else { return sink(Item::Damaged) };
        let root = tree.root();
        let Some(trace) = root.get("trace") else {
            return sink(event(root, &mut self.clock, None).map_or(Item::Damaged, Item::Event));
        };
        let trace = trace.to_map();
        self.clock = Clock::of(&trace);
        sink(Item::Header(header(&root.to_map(), &trace)));
    }
}

fn text(value: Option<&Value>) -> Option<String> {
    value.and_then(Value::as_str).map(str::to_owned)
}

fn header(file: &Map<String, Value>, trace: &Map<String, Value>) -> Header {
    let common = trace.get("common_fields");
    let of_point = |key: &str| text(trace.get("vantage_point").and_then(|point| point.get(key)));
    let common_text = |key: &str| text(common.and_then(|common| common.get(key)));
    Header {
        // aioquic has no title, but a name where it stands.
        title: text(trace.get("title")).or_else(|| text(file.get("title"))).or_else(|| of_point("name")),
        vantage_point: of_point("type"),
        odcid: common_text("ODCID").or_else(|| common_text("odcid")).or_else(|| common_text("group_id")),
        schema: trace
            .get("event_schemas")
            .and_then(|schemas| text(schemas.get(0)))
            .or_else(|| text(file.get("qlog_version"))),
        own: trace.get("thalweg").cloned(),
    }
}

/// Turns the trace's way of writing time into milliseconds since its first event.
#[derive(Debug, Default)]
struct Clock {
    deltas: bool,
    microseconds: bool,
    first: Option<f64>,
    sum: f64,
}

impl Clock {
    fn of(trace: &Map<String, Value>) -> Self {
        let field = |outer: &str, key: &str| text(trace.get(outer).and_then(|outer| outer.get(key)));
        let format = field("common_fields", "time_format");
        Clock {
            deltas: matches!(format.as_deref(), Some("delta" | "relative_to_previous_event")),
            microseconds: field("configuration", "time_units").as_deref() == Some("us"),
            ..Clock::default()
        }
    }

    fn read(&mut self, time: f64) -> f64 {
        let time = if self.microseconds { time / 1000.0 } else { time };
        if self.deltas {
            // The first delta is counted from the reference time, which need not be near.
            match self.first {
                None => self.first = Some(time),
                Some(_) => self.sum += time,
            }
            return self.sum;
        }
        let first = *self.first.get_or_insert(time);
        // A trace relative to its own start keeps its times.
        if first.abs() < 60_000.0 { time } else { time - first }
    }
}

fn number(value: Data<'_>) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok()).filter(|number: &f64| number.is_finite())
}

/// Reads an event object, or an array with its columns named by `fields` (draft-02 and earlier).
fn event<'t>(value: Data<'t>, clock: &mut Clock, fields: Option<&Value>) -> Option<EventIn<'t>> {
    let names = if value.is_list() { fields?.as_array()?.as_slice() } else { &[] };
    if !value.is_list() && !value.is_object() {
        return None;
    }
    let get = |key: &str| {
        if value.is_object() {
            return value.get(key);
        }
        let columns = names.iter().filter_map(Value::as_str).zip(value.items());
        columns.filter(|(name, _)| *name == key).map(|(_, column)| column).last()
    };
    let time =
        ["time", "relative_time", "delta_time", "reference_time"].iter().find_map(|key| get(key).and_then(number))?;
    let name = get("name").or_else(|| get("event"))?.as_str()?;
    let name = name.rsplit(':').next().unwrap_or(name);
    let connection = get("group_id").or_else(|| get("ODCID")).and_then(Data::as_str);
    Some(EventIn { time: clock.read(time), name, data: get("data").unwrap_or(Data::NULL), connection })
}

#[cfg(test)]
mod tests;
