//! Logs that are damaged, cut, mixed up, or none.

use thalweg_why::{Cause, Log, Report, WhyError, redact};

use crate::draw::draw;
use crate::logged::log;
use crate::plain::world;

/// A log of a transfer with an outage.
fn text() -> Vec<u8> {
    let mut world = world();
    let millis = thalweg_units::Duration::from_millis;
    world.path.outages.push((millis(700), millis(1900)));
    log(&world)
}

fn report(bytes: &[u8]) -> Result<Report, WhyError> {
    Ok(Log::read(bytes)?.answer()?.report(None))
}

fn records(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n').collect()
}

#[test]
fn a_log_that_is_cut_anywhere_is_judged_up_to_there() {
    let whole = text();
    let mut answered = 0;
    for part in 0..=24 {
        let cut = whole.len() * part / 24;
        match report(&whole[..cut]) {
            Ok(report) => {
                answered += 1;
                let is_told = report.notes.iter().any(|note| note.contains("ends in the middle"));
                let is_between = whole[..cut].ends_with(b"\n") || whole[..cut].ends_with(b"\x1e");
                assert!(is_told || is_between, "{cut}: {:?}", report.notes);
            }
            Err(error) => assert!(error.to_string().contains("in it"), "{cut}: {error}"),
        }
    }
    assert!(answered > 18, "{answered}");
}

#[test]
fn damaged_records_are_named_and_the_rest_is_judged() {
    let mut bytes = text();
    assert_eq!(report(&bytes).unwrap().cause, Some(Cause::Interruption));
    // Not what shows when the outage began and ended.
    let at = bytes.len() / 4 * 3;
    bytes[at..at + 400].fill(0);
    let report = report(&bytes).unwrap();
    assert!(report.notes.iter().any(|note| note.contains("unreadable between ")), "{:?}", report.notes);
    assert_eq!(report.cause, Some(Cause::Interruption));
}

#[test]
fn records_out_of_order_or_twice_are_told_and_do_no_harm() {
    let whole = text();
    let mut list = records(&whole);
    for at in (12..list.len() - 1).step_by(7) {
        list.swap(at, at + 1);
    }
    let swapped = report(&list.concat()).unwrap();
    assert_eq!(swapped.cause, Some(Cause::Interruption));
    let mut late = records(&whole);
    let moved = late.remove(40);
    late.insert(400, moved);
    let report_late = report(&late.concat()).unwrap();
    assert!(report_late.notes.iter().any(|note| note.contains("out of order, by ")), "{:?}", report_late.notes);
    let twice: Vec<&[u8]> = records(&whole).into_iter().flat_map(|record| [record, record]).collect();
    let twice = report(&twice.concat()).unwrap();
    assert_eq!(twice.cause, Some(Cause::Interruption));
}

#[test]
fn of_several_connections_the_first_is_judged() {
    let (whole, other) = (text(), log(&thalweg_why::world::World { seed: 2, ..world() }));
    let both = report(&[whole.clone(), other].concat()).unwrap();
    assert!(both.notes.iter().any(|note| note.contains("several connections")), "{:?}", both.notes);
    assert_eq!(both.cause, Some(Cause::Interruption));
    assert_eq!(both.seconds, report(&whole).unwrap().seconds);
}

#[test]
fn a_time_that_cannot_be_changes_nothing_for_ever() {
    let whole = text();
    let mut list: Vec<Vec<u8>> = records(&whole).into_iter().map(<[u8]>::to_vec).collect();
    for (at, time) in [(50, "1e300"), (60, "-1e300"), (70, "999999999999"), (80, "null")] {
        let record = String::from_utf8(list[at].clone()).unwrap();
        let end = record.find(',').unwrap();
        list[at] = format!("\u{1e}{{\"time\":{time}{}", &record[end..]).into_bytes();
    }
    let report = report(&list.concat()).unwrap();
    assert!(report.notes.iter().any(|note| note.contains("hours from those beside")), "{:?}", report.notes);
    assert_eq!(report.cause, Some(Cause::Interruption), "{}", report.sentence);
}

#[test]
fn what_is_no_log_of_a_sender_says_what_is_missing() {
    let header = "\u{1e}{\"trace\":{\"vantage_point\":{\"type\":\"server\"}}}\n";
    let sent = "\u{1e}{\"time\":1,\"name\":\"quic:packet_sent\",\"data\":{\"header\":{\"packet_type\":\"1RTT\",\"packet_number\":1}}}\n";
    let cases = [
        (String::new(), "no qlog event"),
        (header.to_owned(), "no qlog event"),
        (format!("{header}{sent}"), "no data of a stream was sent"),
        ("\u{89}PNG".to_owned(), "not JSON"),
        ("{\"log\": 1}".to_owned(), "no `traces`"),
    ];
    for (text, expected) in cases {
        let error = report(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

/// Everything that an answer says, but for the file's own form.
fn said(bytes: &[u8]) -> String {
    serde_json::to_string(&report(bytes).unwrap()).unwrap()
}

fn redacted(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    redact(|| Ok(bytes), &mut out).unwrap();
    out
}

#[test]
fn a_redacted_log_has_the_same_answer_and_no_names() {
    for number in [2, 6, 14, 26, 30, 38] {
        let world = draw(number);
        if world.load.bytes > 3_000_000 {
            continue;
        }
        let whole = log(&world);
        let shown = redacted(&whole);
        assert_eq!(said(&shown), said(&whole), "{number}");
        let text = String::from_utf8(shown).unwrap();
        for word in ["connection_ids", "ODCID", "ip_v", "port_v", "alpn", "thalweg qlog", "wall_clock"] {
            assert!(!text.contains(word), "{word}");
        }
        let digits = |text: &str| text.len() >= 16 && text.chars().all(|char| char.is_ascii_hexdigit());
        assert!(!text.split(|char: char| !char.is_ascii_alphanumeric()).any(digits), "an ID");
    }
    // What is wrong with a log is still wrong with it.
    let mut damaged = text();
    let middle = damaged.len() / 2;
    damaged[middle..middle + 400].fill(0);
    damaged.truncate(middle + middle / 2);
    assert_eq!(said(&redacted(&damaged)), said(&damaged));
    assert!(said(&damaged).contains("unreadable between"));
}

#[test]
fn a_clock_that_goes_back_is_told_and_what_it_says_later_is_used() {
    let whole = text();
    let records: Vec<String> =
        records(&whole).iter().map(|record| String::from_utf8_lossy(record).into_owned()).collect();
    let count = records.len();
    let back = |(at, record): (usize, &String)| {
        // Three tenths of a second back for a while in the middle of the log.
        let time = record.strip_prefix("\u{1e}{\"time\":").and_then(|rest| rest.split_once(','));
        match time {
            Some((time, rest)) if (count / 2..count / 2 + 40).contains(&at) => {
                format!("\u{1e}{{\"time\":{},{rest}", time.parse::<f64>().unwrap() - 300.0)
            }
            _ => record.clone(),
        }
    };
    let text: String = records.iter().enumerate().map(back).collect();
    let report = report(text.as_bytes()).unwrap();
    assert!(report.notes.iter().any(|note| note.contains("out of order, by ")), "{:?}", report.notes);
    assert_eq!(report.cause, Some(Cause::Interruption), "{}", report.sentence);
}
