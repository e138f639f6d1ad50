//! `thalweg qlog --html`: what is drawn, and what is not written.
#![allow(clippy::unwrap_used)]

use crate::common;

use std::fs;

use common::{Place, run, text};

/// A trace whose window grows for so many round trips of 100 ms and is then halved.
fn trace(round_trips: u32, has_threshold: bool) -> String {
    let mut lines = vec![
        r#"{"file_schema":"urn:ietf:params:qlog:file:sequential","trace":{"vantage_point":{"type":"server"}}}"#
            .to_owned(),
        r#"{"time":0,"name":"recovery:congestion_state_updated","data":{"new":"slow_start"}}"#.to_owned(),
    ];
    for round in 0..=round_trips {
        let window = 14_000 * (round + 1);
        let threshold = if has_threshold { r#","ssthresh":70000"# } else { "" };
        lines.push(format!(
            r#"{{"time":{},"name":"recovery:metrics_updated","data":{{"congestion_window":{window},"bytes_in_flight":{},"smoothed_rtt":{}{threshold}}}}}"#,
            100 * round,
            window - 1_000,
            100 + round,
        ));
    }
    let end = 100 * round_trips + 50;
    lines.push(format!(
        r#"{{"time":{end},"name":"recovery:congestion_state_updated","data":{{"old":"slow_start","new":"recovery"}}}}"#
    ));
    lines.push(format!(r#"{{"time":{end},"name":"recovery:metrics_updated","data":{{"congestion_window":7000}}}}"#));
    lines.iter().map(|line| format!("\u{1e}{line}\n")).collect()
}

fn scene() -> Place {
    let place = Place::new();
    fs::write(place.path("short.sqlog"), trace(10, true)).unwrap();
    fs::write(place.path("long.sqlog"), trace(40, false)).unwrap();
    place
}

#[test]
fn several_traces_are_drawn_over_each_other() {
    let place = scene();
    let out = place.arg("page.html");
    let done = run(&["qlog", "--html", &out, &place.arg("short.sqlog"), &place.arg("long.sqlog")]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert_eq!(text(&done.stdout), format!("{out}\n"));
    let page = fs::read_to_string(&out).unwrap();
    // Names in the legend of the first picture, in the heads of the others and in the table.
    for name in [">short.sqlog<", ">long.sqlog<"] {
        assert!(page.matches(name).count() >= 3, "{name}");
    }
    for part in [">slow start<", ">recovery<", "curve s2", "curve s1", ">slow-start threshold<", ">bytes in flight<"] {
        assert!(page.contains(part), "{part}");
    }
    assert!(page.contains("4.05 s") && page.contains("1.05 s"), "each lasts as long as its trace");
    // It needs nothing but itself.
    for fetched in ["src=\"http", "url(http", "@import", "<link rel=\"stylesheet"] {
        assert!(!page.contains(fetched), "{fetched}");
    }
    // The same traces make the same page.
    let again = place.arg("again.html");
    assert!(run(&["qlog", "--html", &again, &place.arg("short.sqlog"), &place.arg("long.sqlog")]).status.success());
    assert_eq!(fs::read_to_string(again).unwrap(), page);
}

#[test]
fn a_trace_without_a_threshold_is_drawn_without_one() {
    let place = scene();
    let out = place.arg("page.html");
    assert!(run(&["qlog", "--html", &out, &place.arg("long.sqlog")]).status.success());
    let page = fs::read_to_string(out).unwrap();
    assert!(!page.contains(">slow-start threshold<") && page.contains("curve s2"));
}

#[test]
fn files_of_one_name_are_told_apart_by_their_directories() {
    let place = scene();
    fs::create_dir(place.path("b")).unwrap();
    fs::copy(place.path("short.sqlog"), place.path("b/short.sqlog")).unwrap();
    let (one, other) = (place.arg("short.sqlog"), place.arg("b/short.sqlog"));
    let out = place.arg("page.html");
    assert!(run(&["qlog", "--html", &out, &one, &other]).status.success());
    let page = fs::read_to_string(out).unwrap();
    assert!(page.contains(&one) && page.contains(&other));
}

#[test]
fn what_cannot_be_drawn_is_said_in_a_line_and_leaves_the_page_as_it_was() {
    let place = scene();
    fs::write(place.path("empty.sqlog"), "").unwrap();
    fs::create_dir(place.path("folder")).unwrap();
    fs::write(place.path("nothing.sqlog"), "\u{1e}{\"trace\":{}}\n").unwrap();
    fs::write(
        place.path("packets.sqlog"),
        "\u{1e}{\"trace\":{}}\n\u{1e}{\"time\":1,\"name\":\"quic:packet_sent\",\"data\":{}}\n",
    )
    .unwrap();
    fs::write(place.path("page.html"), "before").unwrap();
    let out = place.arg("page.html");
    for (name, said) in [
        ("none.sqlog", "cannot open"),
        ("empty.sqlog", "no qlog event is in it; take one that"),
        ("folder", "is a directory; name the traces in it"),
        ("nothing.sqlog", "no qlog event is in it; take one that"),
        ("packets.sqlog", "leave out --html for a summary"),
    ] {
        // Beside one that could be drawn.
        let done = run(&["qlog", "--html", &out, &place.arg("short.sqlog"), &place.arg(name)]);
        assert_eq!(done.status.code(), Some(1), "{name}");
        let told = text(&done.stderr);
        assert_eq!(told.lines().count(), 1, "{told}");
        assert!(told.contains(name) && told.contains(said), "{told}");
        assert_eq!(fs::read_to_string(&out).unwrap(), "before", "{name}");
        assert!(done.stdout.is_empty());
    }
    // Every trace that is wrong has its line.
    let done = run(&["qlog", "--html", &out, &place.arg("none.sqlog"), &place.arg("nothing.sqlog")]);
    assert_eq!(text(&done.stderr).lines().count(), 2);
}

#[test]
fn a_summary_does_not_count_packets_that_a_trace_does_not_tell_of() {
    let place = scene();
    let told = text(&run(&["qlog", &place.arg("short.sqlog")]).stdout);
    assert!(told.contains("min 100 ms, median 105 ms, max 110 ms (11 samples)"), "{told}");
    assert!(told.contains("slow_start") && !told.contains("0 packets") && !told.contains("MTU"), "{told}");
}

#[test]
fn no_trace_is_taken_for_the_page() {
    let place = scene();
    let (short, long) = (place.arg("short.sqlog"), place.arg("long.sqlog"));
    let before = fs::read_to_string(&short).unwrap();
    let forgotten = run(&["qlog", "--html", &short, &long]);
    assert_eq!(forgotten.status.code(), Some(2));
    assert!(text(&forgotten.stderr).contains("--html OUT"), "{}", text(&forgotten.stderr));
    assert_eq!(fs::read_to_string(&short).unwrap(), before);
    // Whatever the name of the trace is.
    fs::copy(&short, place.path("trace")).unwrap();
    let same = run(&["qlog", "--html", &place.arg("trace"), &place.arg("trace")]);
    assert_eq!(same.status.code(), Some(2), "{}", text(&same.stderr));
    assert_eq!(fs::read_to_string(place.path("trace")).unwrap(), before);
    let both = run(&["qlog", "--json", "--html", &place.arg("page.html"), &short]);
    assert_eq!(both.status.code(), Some(2));
    let nowhere = run(&["qlog", "--html", &place.arg("no/such/page.html"), &short]);
    assert_eq!(nowhere.status.code(), Some(1));
    let told = text(&nowhere.stderr);
    assert!(told.contains("cannot write") && told.contains("a directory that exists"), "{told}");
}

#[cfg(unix)]
#[test]
fn links_stay_links_and_standard_output_has_the_page_alone() {
    let place = scene();
    let short = place.arg("short.sqlog");
    fs::write(place.path("target.html"), "before").unwrap();
    std::os::unix::fs::symlink(place.path("target.html"), place.path("link.html")).unwrap();
    assert!(run(&["qlog", "--html", &place.arg("link.html"), &short]).status.success());
    assert!(fs::symlink_metadata(place.path("link.html")).unwrap().file_type().is_symlink());
    assert!(fs::read_to_string(place.path("target.html")).unwrap().starts_with("<!doctype html>"));
    let piped = run(&["qlog", "--html", "/dev/stdout", &short]);
    assert!(piped.status.success(), "{}", text(&piped.stderr));
    let page = text(&piped.stdout);
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
}
