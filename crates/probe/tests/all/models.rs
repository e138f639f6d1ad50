//! What is fitted to a path has what the path has, and nothing else.

use thalweg_probe::model;
use thalweg_units::Duration;

use crate::judge::path;
use crate::world::World;

/// The model of a path that was measured for two minutes, as `thalweg probe --advise` does.
fn fitted(down: &str, more: &str) -> String {
    let toml =
        format!("up = {{ rate = \"10 Mbps\", delay = \"30 ms\", queue = \"100 ms\" }}\ndown = {{ {down} }}\n{more}");
    model(&World::advised(&path(&toml), 3).measured().unwrap())
}

/// The value of a key of the way down, without its unit.
fn value(text: &str, key: &str) -> Option<f64> {
    let down = text.split("[path.model.down]").nth(1).unwrap();
    let after = down.split(&format!("{key} = ")).nth(1)?;
    let number: String =
        after.trim_start_matches('"').chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    number.parse().ok()
}

fn near(text: &str, key: &str, expected: f64, share: f64) {
    let found = value(text, key).unwrap_or_else(|| panic!("no {key}: {text}"));
    assert!((found / expected - 1.0).abs() <= share, "{key} is {found}, not {expected}: {text}");
}

fn has_none(text: &str, keys: &[&str]) {
    let down = text.split("[path.model.down]").nth(1).unwrap();
    assert!(keys.iter().all(|key| !down.contains(&format!("{key} = "))), "{text}");
}

const PLAIN: &str = "rate = \"20 Mbps\", delay = \"30 ms\", queue = \"100 ms\"";

#[test]
fn a_plain_path_is_plain() {
    let text = fitted(PLAIN, "");
    near(&text, "rate", 20_000.0, 0.02);
    near(&text, "queue", 250_000.0, 0.1);
    near(&text, "delay", 30.0, 0.03);
    has_none(&text, &["jitter", "loss", "reorder", "policer", "changes", "suspend"]);
}

#[test]
fn a_token_bucket_is_told_from_a_queue() {
    let text = fitted(&format!("{PLAIN}, policer = {{ rate = \"12 Mbps\", burst = \"60 kB\" }}"), "");
    near(&text, "rate", 20_000.0, 0.02);
    near(&text, "policer = { rate", 12_000.0, 0.2);
    let burst = value(&text, "burst").unwrap();
    assert!((20e3..200e3).contains(&burst), "{text}");
    // A queue of a few packets loses as much, and is none.
    for queue in ["3 packets", "8 packets", "20 packets"] {
        let text = fitted(&PLAIN.replace("100 ms", queue), "");
        has_none(&text, &["policer", "loss"]);
        near(&text, "rate", 20_000.0, 0.03);
        let packets: f64 = queue.trim_end_matches(" packets").parse().unwrap();
        near(&text, "queue", packets * 1_500.0, 0.35);
    }
}

#[test]
fn packets_that_are_overtaken_are_seen_however_little_they_are_late() {
    for (by, millis) in [("4 ms", 4.0), ("70 ms", 70.0)] {
        let text = fitted(&format!("{PLAIN}, reorder = {{ share = \"2 %\", by = \"{by}\" }}"), "");
        near(&text, "share", 0.02, 0.5);
        near(&text, "by", millis, 0.1);
        has_none(&text, &["jitter", "loss", "policer"]);
    }
}

#[test]
fn losses_by_chance_of_packets_and_of_time_are_told_apart() {
    let text = fitted(&format!("{PLAIN}, loss = \"1 %\""), "");
    near(&text, "loss", 0.01, 0.4);
    has_none(&text, &["policer", "suspend"]);
    let text = fitted(&format!("{PLAIN}, loss = {{ burst = {{ enter = 0.004, leave = 0.25 }} }}"), "");
    near(&text, "enter", 0.004, 0.5);
    near(&text, "leave", 0.25, 0.5);
    let time = "{ mean_good = \"2 s\", mean_bad = \"60 ms\", bad = 0.7 }";
    let text = fitted(&format!("{PLAIN}, loss = {{ burst = {time} }}"), "");
    near(&text, ", bad", 0.7, 0.35);
    let bad = value(&text, "mean_bad").unwrap();
    assert!((20.0..180.0).contains(&bad), "{text}");
}

#[test]
fn a_path_that_became_another_one_does_so_in_the_model() {
    let text = fitted(&format!("{PLAIN}, changes = [{{ at = \"60 s\", rate = \"8 Mbps\", delay = \"50 ms\" }}]"), "");
    near(&text, "rate", 20_000.0, 0.05);
    near(&text, "changes = [{ at", 60.0, 0.03);
    let change = text.split("changes = ").nth(1).unwrap();
    assert!(change.contains("rate = \"8") || change.contains("rate = \"79"), "{text}");
    has_none(&text, &["jitter", "policer", "loss"]);
}

#[test]
fn a_crowded_channel_is_one_in_the_model() {
    let text = fitted(&format!("{PLAIN}, jitter = {{ shape = \"contention\", mean = \"3 ms\" }}"), "");
    assert!(text.contains("shape = \"contention\""), "{text}");
    near(&text, "mean", 3.0, 0.4);
    has_none(&text, &["suspend", "policer"]);
}

#[test]
fn a_way_that_the_measurement_fills_by_itself_is_as_slow_as_it_is() {
    let slow = "up = { rate = \"48 kbps\", delay = \"20 ms\", queue = \"100 ms\" }\n\
                down = { rate = \"5 Mbps\", delay = \"20 ms\", queue = \"100 ms\" }";
    let world = World { length: Duration::from_secs(60), trains: true, ..World::over(&path(slow), 2) };
    let summary = world.measured().unwrap();
    let text = model(&summary);
    let up = text.split("[path.model.up]").nth(1).unwrap();
    assert!(up.starts_with("\nrate = \"48 kbps\"") || up.starts_with("\nrate = \"47 kbps\""), "{text}");
    assert!(!up.split("[path").next().unwrap().contains("loss"), "{text}");
}
