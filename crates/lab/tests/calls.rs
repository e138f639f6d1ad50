//! Calls in scenario files: their keys, what is refused, and what is measured of them.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use thalweg_lab::engine::Engine;
use thalweg_lab::engine::SimEngine;
use thalweg_lab::record::RunRecord;
use thalweg_lab::scenario::{Scenario, ScenarioError};
use thalweg_sim::{Audio, Call, Traffic, Video};
use thalweg_units::Duration;

const MS: Duration = Duration::from_millis(1);

fn parse(flow: &str, rest: &str) -> Result<Scenario, ScenarioError> {
    let text = format!(
        "title = \"t\"\nquestion = \"q?\"\nseeds = 1\ntime_limit = \"60 s\"\n{rest}[path.p]\n\
         down = {{ rate = \"2 Mbps\", delay = \"15 ms\", queue = \"100 ms\" }}\n\
         up = {{ rate = \"2 Mbps\", delay = \"15 ms\", queue = \"100 ms\" }}\n\
         [[flow]]\nname = \"a\"\n{flow}\n[[expect]]\nmetric = \"success\"\nequals = 1\n"
    );
    Scenario::parse("q.toml", &text, Path::new(""), &SimEngine::default().stacks())
}

fn read(call: &str) -> Call {
    let scenario = parse(&format!("call = {call}"), "").unwrap_or_else(|error| panic!("{error}"));
    match &scenario.points[0].world.flows[0].traffic {
        Traffic::Call(call) => call.clone(),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn refused(flow: &str, key: &str, needle: &str) {
    let error = parse(flow, "").expect_err(flow);
    let found = error.diagnostics.iter().find(|found| found.key == key);
    let found = found.unwrap_or_else(|| panic!("nothing about {key}: {error}"));
    assert!(found.message.contains(needle), "{found}");
}

fn run(flow: &str, rest: &str) -> RunRecord {
    let scenario = parse(flow, rest).unwrap_or_else(|error| panic!("{error}"));
    SimEngine::default().run(&scenario.points[0].world, 1, false).record
}

fn value(record: &RunRecord, metric: &str) -> f64 {
    record.flows[0].values.get(metric).unwrap_or_else(|| panic!("{metric}"))[0]
}

#[test]
fn tracks_are_those_of_the_draft_unless_they_are_written() {
    assert_eq!(read("{ duration = \"5 s\" }"), Call::new(false, MS * 5_000));
    let own = read(
        "{ duration = \"1 min\", direction = \"up\", audio = { size = \"160 B\" }, \
         video = [{ fps = 25, key = \"40 kB\", delta = \"5 kB\", group = 50, cancel_after = \"100 ms\" }] }",
    );
    let video = Video { fps: 25, key: 40_000, delta: 5_000, group: 50, cancel_after: Some(MS * 100) };
    let audio = Audio { size: 160, every: MS * 20 };
    assert_eq!(own, Call { up: true, duration: MS * 60_000, audio, video: vec![video] });
    assert!(read("{ duration = \"5 s\", video = [] }").video.is_empty());
}

#[test]
fn calls_that_cannot_be_are_refused_with_what_could() {
    let track = "fps = 30, key = \"30 kB\", delta = \"3 kB\", group = 30";
    for (call, key, needle) in [
        ("{}".to_owned(), "flow.0.call", "duration = \"5 s\""),
        ("{ duration = \"0 s\" }".to_owned(), "flow.0.call.duration", "1 ms to 3600 s"),
        ("{ duration = \"2 h\" }".to_owned(), "flow.0.call.duration", "1 ms to 3600 s"),
        (
            "{ duration = \"5 s\", rate = \"1 Mbps\" }".to_owned(),
            "flow.0.call.rate",
            "audio, direction, duration, video",
        ),
        ("{ duration = \"5 s\", direction = \"both\" }".to_owned(), "flow.0.call.direction", "down, up"),
        ("{ duration = \"5 s\", audio = { size = \"10 B\" } }".to_owned(), "flow.0.call.audio.size", "17 B to 1000 B"),
        ("{ duration = \"5 s\", audio = { every = \"1 us\" } }".to_owned(), "flow.0.call.audio.every", "1 ms to 10 s"),
        ("{ duration = \"5 s\", audio = { rate = 1 } }".to_owned(), "flow.0.call.audio.rate", "every, size"),
        (format!("{{ duration = \"5 s\", video = {{ {track} }} }}"), "flow.0.call.video", "no list"),
        ("{ duration = \"5 s\", video = [{ fps = 30 }] }".to_owned(), "flow.0.call.video.0", "needs key"),
        (
            format!("{{ duration = \"5 s\", video = [{{ {} }}] }}", track.replace("= 30,", "= 0,")),
            "flow.0.call.video.0.fps",
            "1 to 1000",
        ),
        (
            format!("{{ duration = \"5 s\", video = [{{ {} }}] }}", track.replace("3 kB", "1 B")),
            "flow.0.call.video.0.delta",
            "17 B to 16777216 B",
        ),
        (
            format!("{{ duration = \"5 s\", video = [{{ {track}, cancel_after = \"0 s\" }}] }}"),
            "flow.0.call.video.0.cancel_after",
            "longer than zero",
        ),
        (
            format!("{{ duration = \"5 s\", video = [{}] }}", format!("{{ {track} }}, ").repeat(9)),
            "flow.0.call.video",
            "at most 8",
        ),
    ] {
        refused(&format!("call = {call}"), key, needle);
    }
    // Streams with priorities, and a transport at all.
    let tcp = "stack = \"tcp\"\ncall = { duration = \"5 s\" }";
    refused(tcp, "flow.0.call", "streams with priorities that their receiver can cancel, which the stack \"tcp\"");
    refused("stack = \"raw\"\ncall = { duration = \"5 s\" }", "flow.0.call", "needs a transport");
    refused("call = { duration = \"5 s\" }\nmedia = { rate = \"1 Mbps\" }", "flow.0", "found media, call");
}

#[test]
fn what_is_canceled_is_late_and_missing() {
    // Two Mbps carry the first video and not the second.
    let call = run("call = { duration = \"10 s\" }", "");
    assert_eq!(call.failed, None);
    let missing = value(&call, "frames_missing");
    assert!(missing > 0.1 && missing < 0.3, "{missing}");
    // One value per frame that was due; those that never arrived are endless.
    assert_eq!(call.flows[0].never["frame_delay"] as usize + call.flows[0].values["frame_delay"].len(), 1_000);
    let [all, audio, video] = ["call", "audio", "video"].map(|of| value(&call, &format!("{of}_delay_mean")));
    assert!(audio < video && video < all, "{audio} {video} {all}");
    let [all, audio, video] = ["call", "audio", "video"].map(|of| value(&call, &format!("{of}_delay_max")));
    assert!(audio < video && video < 0.5 && all > 0.9, "{audio} {video} {all}");
    // There is no deadline to miss.
    assert!(!call.flows[0].values.contains_key("deadline_misses"));
}

#[test]
fn a_window_leaves_out_how_a_call_begins() {
    let flow = "call = { duration = \"10 s\", video = [] }";
    let frames = |rest: &str| run(flow, rest).flows[0].values["frame_delay"].len();
    assert_eq!(frames(""), 500);
    let late = frames("measure = { from = \"5 s\", to = \"60 s\" }\n");
    assert!((250..=255).contains(&late), "{late}");
}

#[test]
fn a_call_that_fails_is_never_in_time() {
    let text = "call = { duration = \"100 s\" }";
    let cut = run(text, "");
    assert!(cut.failed.is_some(), "the time limit is 60 s");
    for metric in ["call_delay_mean", "call_delay_max", "audio_delay_mean", "video_delay_max"] {
        assert_eq!(cut.flows[0].never.get(metric), Some(&1), "{metric}");
        assert!(!cut.flows[0].values.contains_key(metric), "{metric}");
    }
}
