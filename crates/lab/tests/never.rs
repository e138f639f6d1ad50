//! Missing events as the worst value: scenarios that looked good because their worst was left out, judged as people
//! would run them.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use thalweg_lab::engine::Engine;
use thalweg_lab::engine::SimEngine;
use thalweg_lab::metric;
use thalweg_lab::record::{Part, RunRecord};
use thalweg_lab::scenario::Scenario;
use thalweg_lab::summary::{self, Run, Runs};

const LINK: &str = r#"
[path.link]
up   = { rate = "10 Mbps", delay = "10 ms", queue = "1 BDP" }
down = { rate = "10 Mbps", delay = "10 ms", queue = "1 BDP" }
"#;

/// All runs of a scenario.
struct Judged {
    scenario: Scenario,
    runs: Runs,
}

fn judge(seeds: u64, text: &str) -> Judged {
    let engine = SimEngine::default();
    let text = format!("title = \"t\"\nquestion = \"q?\"\nseeds = {seeds}\n{text}");
    let scenario =
        Scenario::parse("t.toml", &text, Path::new(""), &engine.stacks()).unwrap_or_else(|error| panic!("{error}"));
    let run = |seed| ((0, seed), engine.run(&scenario.points[0].world, seed, false).record);
    let runs = (1..=seeds).map(run).collect();
    Judged { scenario, runs }
}

impl Judged {
    /// All values of a metric, over all runs.
    fn values(&self, flow: &str, name: &str) -> Vec<f64> {
        let values = summary::values(&self.runs, 0, flow, metric::find(name).unwrap());
        values.into_iter().flat_map(|(_, values)| values).collect()
    }

    fn first(&self) -> &Run {
        &self.runs[&(0, 1)]
    }

    /// The expectations that hold, as they are written.
    fn holding(&self) -> Vec<String> {
        let verdicts = summary::verdicts(&self.scenario, &self.runs).into_iter();
        verdicts.filter(|verdict| verdict.outcome.is_good()).map(|verdict| verdict.measured).collect()
    }
}

fn share_of_endless(values: &[f64]) -> f64 {
    values.iter().filter(|value| value.is_infinite()).count() as f64 / values.len() as f64
}

#[test]
fn responses_that_never_came_are_the_slowest() {
    let text = format!(
        r#"time_limit = "60 s"
{LINK}outage = {{ at = "2 s..3 s", for = "100 s" }}
[[flow]]
name = "rpc"
requests = {{ request = "300 B", response = "5 kB", count = 1000, think = "50 ms" }}
[[expect]]
metric = "response.p99"
at_most = "100 ms"
[[expect]]
metric = "response.max"
at_most = "100 ms"
"#
    );
    let judged = judge(3, &text);
    assert_eq!(judged.holding(), Vec::<String>::new());
    let responses = judged.values("rpc", "response");
    assert_eq!(responses.len(), 3_000);
    assert!((0.95..0.98).contains(&share_of_endless(&responses)), "{}", share_of_endless(&responses));
    assert_eq!(judged.values("rpc", "goodput"), [0.0; 3]);
    assert_eq!(judged.values("rpc", "completion"), [f64::INFINITY; 3]);
}

#[test]
fn short_flows_that_never_ended_or_began_are_the_slowest() {
    let text = format!(
        r#"time_limit = "10 s"
{LINK}outage = {{ at = "1 s", for = "100 s" }}
[[flow]]
name = "many"
short_flows = {{ every = "100 ms", arrivals = "regular", count = 200, size = "20 kB" }}
"#
    );
    let judged = judge(1, &text);
    let flows = judged.values("many", "flow_completion");
    assert_eq!(flows.len(), 200);
    assert!((180..=192).contains(&flows.iter().filter(|took| took.is_infinite()).count()), "{flows:?}");
}

#[test]
fn a_call_that_is_cut_off_is_no_success() {
    let text = format!(
        r#"time_limit = "60 s"
{LINK}outage = {{ at = "2 s..3 s", for = "100 s" }}
[[flow]]
name = "call"
media = {{ rate = "500 kbps", deadline = "100 ms", duration = "20 s" }}
[[expect]]
metric = "success"
at_least = 0.1
[[expect]]
metric = "frame_delay.p99"
at_most = "150 ms"
[[expect]]
metric = "stall.max"
at_most = "150 ms"
[[expect]]
metric = "deadline_misses.mean"
at_most = "5 %"
"#
    );
    let judged = judge(3, &text);
    assert_eq!(judged.holding(), Vec::<String>::new());
    assert!(judged.first().failed().unwrap().contains("last 50 frames"), "{:?}", judged.first().failed());
    for (metric, low, high) in [
        ("deadline_misses", 0.84, 0.91),
        ("stall", 16.9, 18.2),
        // What arrived of 500 kbps in 20 s, not in the seconds in which it arrived.
        ("goodput", 45e3, 80e3),
    ] {
        let values = judged.values("call", metric);
        assert!(values.len() == 3 && values.iter().all(|value| (low..high).contains(value)), "{metric}: {values:?}");
    }
    let share = share_of_endless(&judged.values("call", "frame_delay"));
    assert!((0.84..0.91).contains(&share), "{share}");
}

#[test]
fn a_call_with_a_pause_is_whole_and_counts_its_losses() {
    let text = format!(
        r#"time_limit = "60 s"
{LINK}outage = {{ at = "2 s", for = "1 s" }}
[[flow]]
name = "call"
stack = "raw"
media = {{ rate = "500 kbps", deadline = "100 ms", duration = "10 s" }}
[[expect]]
metric = "success"
equals = 1
"#
    );
    let judged = judge(1, &text);
    assert_eq!(judged.holding(), ["success.mean"]);
    let (misses, stalls) = (judged.values("call", "deadline_misses"), judged.values("call", "stall"));
    assert!((0.098..0.104).contains(&misses[0]), "{misses:?}");
    assert!(matches!(stalls[..], [stall] if (1.0..1.06).contains(&stall)), "{stalls:?}");
}

#[test]
fn a_dead_link_is_neither_fair_nor_a_success() {
    let text = format!(
        r#"time_limit = "20 s"
{}
[[flow]]
name = "a"
transfer = {{ download = "endless" }}
[[flow]]
name = "b"
transfer = {{ download = "endless" }}
[[expect]]
metric = "fairness.p50"
at_least = 0.01
[[expect]]
metric = "success"
at_least = 0.01
[[expect]]
flow = "a"
metric = "completed"
at_least = 0.01
[[expect]]
flow = "a"
metric = "handshake.p50"
at_most = "1000 s"
"#,
        LINK.replace("down = {", "down = { loss = \"100 %\",")
    );
    let judged = judge(5, &text);
    assert_eq!(judged.holding(), Vec::<String>::new());
    assert_eq!(judged.values("", "fairness"), [0.0; 5]);
    assert_eq!(judged.values("a", "goodput"), [0.0; 5]);
    // What was sent into it and never acknowledged is lost, whether or not the sender has said so.
    for flow in ["a", "b"] {
        let (sent, lost) = (judged.values(flow, "packets_sent"), judged.values(flow, "packets_lost"));
        assert!(sent == lost && lost.iter().all(|lost| *lost > 0.0), "{sent:?}, {lost:?}");
        assert_eq!(judged.values(flow, "loss_rate"), [1.0; 5]);
    }
    // What has no end has no completion either, early or late.
    assert!(judged.values("a", "completion").is_empty());
    // Over a link that lives, the same is a success.
    let alive = judge(1, &text.replace("loss = \"100 %\",", ""));
    assert_eq!(alive.holding().len(), 4, "{:?}", alive.first());
}

#[test]
fn a_delay_above_a_bound_fails_it() {
    let text = r#"time_limit = "60 s"
host_delay = false
[path.link]
up   = { rate = "100 Mbps", delay = "1 ms", queue = "1 BDP" }
down = { rate = "100 Mbps", delay = "50 ms", queue = "1 BDP", changes = [{ at = "1 s", delay = "102.4 ms" }] }
[[flow]]
name = "call"
media = { rate = "1 Mbps", deadline = "150 ms", duration = "30 s" }
[[expect]]
metric = "frame_delay.p50"
at_most = "102.5 ms"
[[expect]]
metric = "frame_delay.p99"
at_most = "102.5 ms"
[[expect]]
metric = "rtt_p50.p50"
at_most = "103.4 ms"
[[expect]]
metric = "frame_delay.p50"
at_most = "102.7 ms"
"#;
    let judged = judge(3, text);
    // 102.4 ms on the way, and 0.2 ms to be sent.
    assert_eq!(
        judged.holding(),
        ["frame_delay.median, median of runs"],
        "{:?}",
        summary::verdicts(&judged.scenario, &judged.runs)
    );
}

#[test]
fn the_floor_is_that_of_the_time_in_which_the_flow_runs() {
    let text = r#"time_limit = "60 s"
[path.link]
up   = { rate = "10 Mbps", delay = "10 ms", queue = "1 BDP" }
down = { rate = "1 Mbps", delay = "10 ms", queue = "unlimited", changes = [{ at = "5 s", rate = "10 Mbps" }] }
[[flow]]
name = "late"
start = "6 s"
transfer = { download = "1 MB" }
[[flow]]
name = "early"
start = "4900 ms"
transfer = { download = "100 kB" }
[[expect]]
flow = "late"
metric = "completion_over_floor.min"
within = [1, 1.5]
[[expect]]
flow = "early"
metric = "completion_over_floor.min"
within = [1, 2]
"#;
    let judged = judge(3, text);
    assert_eq!(judged.holding().len(), 2, "{:?}", summary::verdicts(&judged.scenario, &judged.runs));
    for flow in ["late", "early"] {
        let areas = judged.values(flow, "auc_delivered");
        assert!(areas.iter().all(|area| (0.4..=1.0).contains(area)), "{flow}: {areas:?}");
    }
}

#[test]
fn what_a_dead_flow_has_not_and_others_have_is_as_bad_as_can_be() {
    let part = |completed: f64, rtt: Option<f64>| {
        let mut part = Part { name: "f".to_owned(), ..Part::default() };
        part.set("completed", completed);
        rtt.into_iter().for_each(|rtt| part.set("rtt_p50", rtt));
        part
    };
    let run = |failed: bool, part: Part| RunRecord {
        failed: failed.then(|| "dead".to_owned()),
        flows: vec![part],
        ..RunRecord::default()
    };
    let values = |runs: &Runs, name| -> Vec<Vec<f64>> {
        let values = summary::values(runs, 0, "f", metric::find(name).unwrap());
        values.into_iter().map(|(_, values)| values).collect()
    };
    let mut runs = Runs::from([((0, 1), run(false, part(1.0, Some(0.05)))), ((0, 2), run(true, part(0.0, None)))]);
    assert_eq!(values(&runs, "rtt_p50"), [vec![0.05], vec![f64::INFINITY]]);
    // That another flow of the run failed is no fault of this one's.
    runs.insert((0, 3), &run(true, part(1.0, None)));
    assert!(values(&runs, "rtt_p50")[2].is_empty());
    // What nobody has, and what does not judge, nobody lacks.
    assert!(values(&runs, "silence_after_repair").concat().is_empty());
    assert!(values(&runs, "max_window").concat().is_empty());
    // What has no end has no completion to wait for.
    let mut endless = part(0.0, None);
    endless.endless = true;
    runs.insert((0, 4), &run(true, endless));
    assert_eq!(values(&runs, "completion"), [vec![], vec![f64::INFINITY], vec![], vec![]]);
}
