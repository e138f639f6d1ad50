//! Reads qlog files as they are found in the wild: JSON text sequences and whole documents, current drafts and 0.3.
//!
//! Tolerant on purpose. A record that is not JSON (the last one of a program that was killed) is counted and skipped,
//! category prefixes (`transport:`, `recovery:`, `quic:`) are dropped from names, and the three ways of writing time
//! become milliseconds since the first event.

use std::io::{self, BufRead};

use serde_json::{Map, Value};

/// What the reader hands on.
#[derive(Debug)]
pub enum Item {
    /// The header of the file or of one trace in it.
    Header(Header),
    /// An event.
    Event(Event),
    /// Something that is not JSON, or not an event.
    Damaged,
}

/// The metadata of a trace.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Header {
    /// Free text of the program that wrote it.
    pub title: Option<String>,
    /// `client`, `server`, `network`.
    pub vantage_point: Option<String>,
    /// The original destination connection ID, or the group that stands for it.
    pub odcid: Option<String>,
    /// The schema or version.
    pub schema: Option<String>,
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
}

/// The first trace of a file: what other traces hold is left out.
#[derive(Debug, Default)]
pub struct FirstTrace {
    /// Its header.
    pub header: Header,
    traces: u64,
}

impl FirstTrace {
    /// The event that an item is, if it belongs to the trace.
    pub fn event(&mut self, item: Item) -> Option<Event> {
        match item {
            Item::Header(header) => {
                self.traces += 1;
                if self.traces == 1 {
                    self.header = header;
                }
                None
            }
            Item::Event(event) => (self.traces <= 1).then_some(event),
            Item::Damaged => None,
        }
    }
}

const RECORD_SEPARATOR: u8 = 0x1e;

/// Reads everything from `input`. An empty one has no items.
///
/// # Errors
///
/// Errors of `input`, and `InvalidData` if a whole-document file is not JSON.
pub fn read(mut input: impl BufRead, sink: &mut dyn FnMut(Item)) -> io::Result<()> {
    let start = input.fill_buf()?;
    if start.is_empty() {
        return Ok(());
    }
    let sequence = start.first() == Some(&RECORD_SEPARATOR);
    // Newline-delimited JSON: the first line is a document of its own and more follows.
    let lines = !sequence && first_line_is_a_document(start);
    if sequence || lines { records(input, sink) } else { document(input, sink) }
}

fn first_line_is_a_document(start: &[u8]) -> bool {
    let Some(end) = start.iter().position(|byte| *byte == b'\n') else {
        return false;
    };
    end + 1 < start.len() && serde_json::from_slice::<Value>(&start[..end]).is_ok()
}

fn records(mut input: impl BufRead, sink: &mut dyn FnMut(Item)) -> io::Result<()> {
    let mut line = Vec::new();
    let mut clock = Clock::default();
    let mut header_seen = false;
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        for record in line.split(|byte| *byte == RECORD_SEPARATOR) {
            let record = record.trim_ascii();
            if record.is_empty() {
                continue;
            }
            let item = match serde_json::from_slice::<Value>(record) {
                Ok(Value::Object(object)) if !header_seen && object.contains_key("trace") => {
                    header_seen = true;
                    clock = Clock::of(object.get("trace"));
                    Item::Header(header(&object, object.get("trace")))
                }
                Ok(value) => event(value, &mut clock, None).map_or(Item::Damaged, Item::Event),
                Err(_) => Item::Damaged,
            };
            sink(item);
        }
    }
}

fn document(mut input: impl BufRead, sink: &mut dyn FnMut(Item)) -> io::Result<()> {
    let mut text = Vec::new();
    input.read_to_end(&mut text)?;
    let document: Value = serde_json::from_slice(&text)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("not JSON: {error}")))?;
    drop(text);
    let Value::Object(mut object) = document else {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "JSON, but not a qlog document"));
    };
    let Some(Value::Array(traces)) = object.remove("traces") else {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "no `traces` in it"));
    };
    for mut trace in traces {
        sink(Item::Header(header(&object, Some(&trace))));
        let mut clock = Clock::of(Some(&trace));
        let fields = trace.get("event_fields").cloned();
        if let Some(Value::Array(events)) = trace.get_mut("events").map(Value::take) {
            for value in events {
                sink(event(value, &mut clock, fields.as_ref()).map_or(Item::Damaged, Item::Event));
            }
        }
    }
    Ok(())
}

fn text(value: Option<&Value>) -> Option<String> {
    value.and_then(Value::as_str).map(str::to_owned)
}

fn header(file: &Map<String, Value>, trace: Option<&Value>) -> Header {
    let within = |key: &str| trace.and_then(|trace| trace.get(key));
    let common = within("common_fields");
    let common_text = |key: &str| text(common.and_then(|common| common.get(key)));
    Header {
        title: text(within("title")).or_else(|| text(file.get("title"))),
        vantage_point: text(within("vantage_point").and_then(|point| point.get("type"))),
        odcid: common_text("ODCID").or_else(|| common_text("odcid")).or_else(|| common_text("group_id")),
        schema: within("event_schemas")
            .and_then(|schemas| text(schemas.get(0)))
            .or_else(|| text(file.get("qlog_version"))),
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
    fn of(trace: Option<&Value>) -> Self {
        let field =
            |outer: &str, key: &str| text(trace.and_then(|trace| trace.get(outer)).and_then(|outer| outer.get(key)));
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

fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok())
}

/// Reads an event object, or an array with its columns named by `fields` (draft-02 and earlier).
fn event(value: Value, clock: &mut Clock, fields: Option<&Value>) -> Option<Event> {
    let mut object = match value {
        Value::Object(object) => object,
        Value::Array(columns) => {
            let names = fields?.as_array()?;
            names.iter().filter_map(Value::as_str).map(str::to_owned).zip(columns).collect()
        }
        _ => return None,
    };
    let time = ["time", "relative_time", "delta_time", "reference_time"]
        .iter()
        .find_map(|key| object.get(*key).and_then(number))?;
    let name = object.get("name").or_else(|| object.get("event"))?.as_str()?;
    let name = name.rsplit(':').next().unwrap_or(name).to_owned();
    let data = object.remove("data").unwrap_or(Value::Null);
    Some(Event { time: clock.read(time), name, data })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> (Vec<Header>, Vec<Event>, usize) {
        let (mut headers, mut events, mut damaged) = (Vec::new(), Vec::new(), 0);
        read(text.as_bytes(), &mut |item| match item {
            Item::Header(header) => headers.push(header),
            Item::Event(event) => events.push(event),
            Item::Damaged => damaged += 1,
        })
        .unwrap();
        (headers, events, damaged)
    }

    #[test]
    fn reads_the_current_sequential_form_and_survives_a_cut() {
        let (headers, events, damaged) = all(concat!(
            "\u{1e}{\"file_schema\":\"urn:ietf:params:qlog:file:sequential\",\"title\":\"t\",\"trace\":{",
            "\"event_schemas\":[\"urn:ietf:params:qlog:events:quic-14\"],\"vantage_point\":{\"type\":\"client\"},",
            "\"common_fields\":{\"group_id\":\"abcd\"}}}\n",
            "\u{1e}{\"time\":0.5,\"name\":\"quic:packet_sent\",\"data\":{}}\n",
            "\u{1e}{\"time\":2.5,\"name\":\"quic:packet_rec",
        ));
        assert_eq!(headers[0].odcid.as_deref(), Some("abcd"));
        assert_eq!(headers[0].vantage_point.as_deref(), Some("client"));
        assert_eq!(headers[0].schema.as_deref(), Some("urn:ietf:params:qlog:events:quic-14"));
        assert_eq!((events.len(), damaged), (1, 1));
        assert_eq!((events[0].time, events[0].name.as_str()), (0.5, "packet_sent"));
    }

    #[test]
    fn reads_a_whole_document_of_version_0_3_with_absolute_times() {
        let (headers, events, damaged) = all(r#"{"qlog_version":"0.3","traces":[{"common_fields":{"ODCID":"01"},
            "vantage_point":{"type":"server","name":"aioquic"},
            "events":[{"time":1700000000000.0,"name":"transport:packet_sent","data":{}},
                      {"time":1700000000012.5,"name":"recovery:metrics_updated","data":{}}]}]}"#);
        assert_eq!(headers[0].schema.as_deref(), Some("0.3"));
        assert_eq!(damaged, 0);
        assert_eq!((events[1].time, events[1].name.as_str()), (12.5, "metrics_updated"));
    }

    #[test]
    fn reads_deltas_and_columns() {
        let (_, events, _) = all(r#"{"qlog_version":"draft-02","traces":[{"common_fields":{"time_format":"delta"},
            "event_fields":["delta_time","category","event","data"],
            "events":[[100,"transport","packet_sent",{}],[5,"transport","packet_sent",{}],
                      [7,"transport","packet_lost",{}]]}]}"#);
        assert_eq!(events.iter().map(|event| event.time).collect::<Vec<_>>(), [0.0, 5.0, 12.0]);
        assert_eq!(events[2].name, "packet_lost");
    }

    #[test]
    fn reads_newline_delimited_json_without_separators() {
        let (headers, events, _) = all(concat!(
            "{\"qlog_format\":\"NDJSON\",\"trace\":{\"vantage_point\":{\"type\":\"client\"}}}\n",
            "{\"time\":1,\"name\":\"transport:packet_sent\",\"data\":{}}\n",
        ));
        assert_eq!((headers.len(), events.len()), (1, 1));
    }

    #[test]
    fn says_why_something_is_not_a_trace() {
        let error = read(&b"hello"[..], &mut |_| ()).unwrap_err();
        assert!(error.to_string().contains("not JSON"), "{error}");
        let error = read(&b"{\"a\":1}"[..], &mut |_| ()).unwrap_err();
        assert!(error.to_string().contains("traces"), "{error}");
    }
}
