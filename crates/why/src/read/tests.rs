use super::*;

fn all(text: &str) -> (Vec<Header>, Vec<Event>, usize) {
    let (mut headers, mut events, mut damaged) = (Vec::new(), Vec::new(), 0);
    read(text.as_bytes(), &mut |item| match item {
        Item::Header(header) => headers.push(header),
        Item::Event(event) => events.push(event),
        Item::Damaged => damaged += 1,
        Item::HeaderAgain(_) | Item::Truncated => {}
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
    assert_eq!(headers[0].title.as_deref(), Some("aioquic"), "where there is no title");
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

const DOCUMENT: &str = r#"{"qlog_version":"0.3","traces":[{"common_fields":{"ODCID":"01"},
    "events":[{"time":1,"name":"transport:packet_sent","data":{"a":"]}\"{"}},
              {"time":2,"name":"transport:packet_sent","data":{}},
              {"time":3,"name":"transport:packet_lost","data":{}}],
    "vantage_point":{"type":"server"}}]}"#;

/// The items of a text that comes in pieces of `size` bytes: times of events, and letters for the rest.
fn told(bytes: &[u8], size: usize) -> Vec<String> {
    let (mut reader, mut told) = (Reader::default(), Vec::new());
    let mut sink = |item: Item| {
        told.push(match item {
            Item::Header(_) => "header".to_owned(),
            Item::HeaderAgain(header) => format!("again {}", header.vantage_point.unwrap_or_default()),
            Item::Event(event) => event.time.to_string(),
            Item::Damaged => "damaged".to_owned(),
            Item::Truncated => "truncated".to_owned(),
        });
    };
    for piece in bytes.chunks(size) {
        reader.feed(piece, &mut sink).unwrap();
    }
    reader.finish(&mut sink).unwrap();
    told
}

#[test]
fn how_the_bytes_come_makes_no_difference() {
    let whole = told(DOCUMENT.as_bytes(), DOCUMENT.len());
    assert_eq!(whole, ["header", "1", "2", "3", "again server"]);
    for size in [1, 2, 3, 7, 100] {
        assert_eq!(told(DOCUMENT.as_bytes(), size), whole, "{size}");
    }
    let lines =
        "{\"trace\":{},\"qlog_format\":\"NDJSON\"}\n{\"time\":1,\"name\":\"x\"}\r\n\n{\"time\":2,\"name\":\"y\"}";
    for size in [1, 5, 1000] {
        let truncated_or_not = told(lines.as_bytes(), size);
        assert_eq!(truncated_or_not, ["header", "1", "2", "truncated"], "{size}: no line feed at the end");
    }
}

#[test]
fn a_document_that_is_cut_anywhere_tells_what_was_before() {
    for cut in DOCUMENT.find("\"time\":2").unwrap()..DOCUMENT.len() - 1 {
        let told = told(&DOCUMENT.as_bytes()[..cut], 16);
        assert_eq!(&told[..2], ["header", "1"], "{cut}");
        assert_eq!(told.last().unwrap(), "truncated", "{cut}");
    }
}

#[test]
fn reading_goes_on_behind_damage() {
    for wrong in ["\0\0\0\0", "\u{1}"] {
        let mut bytes = DOCUMENT.as_bytes().to_vec();
        let at = DOCUMENT.find("packet_sent\",\"data\":{}").unwrap();
        bytes[at..at + wrong.len()].copy_from_slice(wrong.as_bytes());
        assert_eq!(told(&bytes, 8), ["header", "1", "damaged", "3", "again server"]);
    }
    // A bracket that is missing takes the next event with it.
    let text = DOCUMENT.replace("packet_sent\",\"data\":{}}", "packet_sent\",\"data\":{}");
    let told = told(text.as_bytes(), 9);
    assert!(told.contains(&"damaged".to_owned()), "{told:?}");
}

#[test]
fn what_is_no_log_is_called_by_its_name() {
    let cases: [(&[u8], &str); 5] = [
        (&[0x89, b'P', b'N', b'G', 13, 10], "a picture"),
        (&[0x1f, 0x8b, 8, 0], "gzip, but damaged from its beginning"),
        (&[0x28, 0xb5, 0x2f, 0xfd], "unzstd"),
        (b"[1, 2]", "not a qlog document"),
        (b"{\"a\": \0}", "not JSON"),
    ];
    for (bytes, expected) in cases {
        let error = read(bytes, &mut |_| ()).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert!(read(&b" \n"[..], &mut |_| ()).is_ok(), "an empty file has no items");
}

#[test]
fn a_record_without_end_is_not_kept() {
    let mut reader = Reader::default();
    let mut damaged = 0;
    let mut sink = |item| damaged += usize::from(matches!(item, Item::Damaged));
    reader.feed(b"\x1e{\"trace\":{}}\n", &mut sink).unwrap();
    for _ in 0..64 {
        reader.feed(&[b'x'; 1 << 16], &mut sink).unwrap();
    }
    reader.finish(&mut sink).unwrap();
    assert_eq!(damaged, 1);
}

fn packed(text: &str) -> Vec<u8> {
    use std::io::Write as _;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn what_gzip_has_compressed_is_read_and_a_cut_is_told() {
    let lines: String =
        (0..5000).map(|time| format!("\u{1e}{{\"time\":{time},\"name\":\"packet_sent\",\"data\":{{}}}}\n")).collect();
    let text = format!("\u{1e}{{\"trace\":{{}}}}\n{lines}");
    let count = |bytes: &[u8]| {
        let (mut events, mut is_cut) = (0, false);
        read(bytes, &mut |item| match item {
            Item::Event(_) => events += 1,
            Item::Truncated => is_cut = true,
            _ => {}
        })
        .unwrap();
        (events, is_cut)
    };
    let whole = packed(&text);
    assert_eq!(count(&whole), (5000, false));
    // As `cat a.gz b.gz` makes it.
    assert_eq!(count(&[whole.clone(), packed(&lines)].concat()), (10_000, false));
    let (events, is_cut) = count(&whole[..whole.len() / 2]);
    assert!((1000..5000).contains(&events) && is_cut, "{events}");
    let mut damaged = whole.clone();
    damaged[whole.len() / 2..].fill(0);
    // What is unpacked of zeros may look like records; that it goes no further is told.
    assert!(count(&damaged).1);
}
