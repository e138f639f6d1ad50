//! Logs that rival stacks write in the lab: in virtual time, and without changing the run.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use nodes::registry;
use thalweg_link::{DirectionConfig, LossModel, QueueLimit, RateModel};
use thalweg_sim::{FlowPlan, LogFile, LogFiles, PathPlan, Plan, Record, RunResult, Traffic, run_with};
use thalweg_units::Duration;
use thalweg_why::Log;
use thalweg_why::read::{Item, read};

/// Logs by their end (whether it is the client) and connection.
type Logs = BTreeMap<(bool, String), Vec<u8>>;

#[derive(Clone, Debug, Default)]
struct Kept(Arc<Mutex<Logs>>);

struct Sink(Kept, (bool, String));

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.0.lock().unwrap().entry(self.1.clone()).or_default().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl LogFiles for Kept {
    fn open(&self, is_client: bool, connection: &str) -> Option<LogFile> {
        Some(Box::new(Sink(self.clone(), (is_client, connection.to_owned()))))
    }
}

/// 300 kB over 5 Mbps and 40 ms with 2 % loss.
fn finish(stack: &str, logs: Option<Kept>) -> RunResult {
    let link = DirectionConfig {
        rate: RateModel::Constant("5 Mbps".parse().unwrap()),
        delay: Duration::from_millis(20).into(),
        queue: QueueLimit::Bytes(50_000),
        loss: vec![LossModel::Random("2 %".parse().unwrap())],
        ..DirectionConfig::default()
    };
    let mut flow = FlowPlan::new("flow", Traffic::download(Some(300_000)));
    flow.stack = stack.to_owned();
    flow.log_files = logs.map(|logs| Arc::new(logs) as Arc<dyn LogFiles>);
    let plan = Plan {
        paths: vec![PathPlan::new("link", link.clone(), link)],
        flows: vec![flow],
        record: Record { step: Duration::ZERO, ..Record::default() },
        ..Plan::default()
    };
    let result = run_with(&plan, &registry()).unwrap();
    assert_eq!(result.failed, None);
    result
}

fn logs(stack: &str) -> (RunResult, BTreeMap<(bool, String), Vec<u8>>) {
    let kept = Kept::default();
    let result = finish(stack, Some(kept.clone()));
    let logs = std::mem::take(&mut *kept.0.lock().unwrap());
    (result, logs)
}

fn stacks() -> Vec<&'static str> {
    if cfg!(feature = "quiche") { vec!["quinn", "noq", "quiche", "quiche-bbr"] } else { vec!["quinn", "noq"] }
}

#[test]
fn a_log_changes_nothing_and_is_the_same_each_time() {
    for stack in stacks() {
        let (result, logs) = logs(stack);
        assert_eq!(result.wire_hash, finish(stack, None).wire_hash, "{stack}");
        assert_eq!(logs, self::logs(stack).1, "{stack}");
        // Both ends of one connection, named by the destination of its first packet.
        let ends: Vec<_> = logs.keys().collect();
        assert!(matches!(ends[..], [(false, server), (true, client)] if server == client), "{stack}: {ends:?}");
    }
}

#[test]
fn logs_are_in_the_time_of_the_run() {
    for stack in stacks() {
        let (result, logs) = logs(stack);
        let took = result.flows[0].completion.unwrap().as_secs_f64() * 1000.0;
        for ((is_client, _), log) in logs {
            let (mut times, mut sent) = (Vec::new(), 0);
            read(&*log, &mut |item| match item {
                Item::Event(event) => {
                    times.push(event.time);
                    sent += u64::from(event.name == "packet_sent");
                }
                Item::Damaged | Item::Truncated => panic!("{stack}: damaged"),
                _ => {}
            })
            .unwrap();
            assert!(times.is_sorted(), "{stack}");
            let (first, last) = (times[0], times[times.len() - 1]);
            // Each end begins with its connection, and ends with the transfer.
            assert!(first < 1.0 && last > took - 50.0 && last < took + 500.0, "{stack}: {first} {last} {took}");
            assert!(sent > if is_client { 10 } else { 200 }, "{stack}: {sent}");
        }
    }
}

#[test]
fn the_sender_s_log_is_answered() {
    for stack in stacks().into_iter().filter(|stack| *stack != "quiche-bbr") {
        let (result, logs) = logs(stack);
        let took = result.flows[0].completion.unwrap().as_secs_f64();
        let log = logs.into_iter().find(|((is_client, _), _)| !is_client).unwrap().1;
        match Log::read(&*log).unwrap().answer() {
            Ok(answer) => {
                // What is sent again at the end counts until it is acknowledged.
                assert!((answer.completion.as_secs_f64() / took - 1.0).abs() < 0.2, "{stack}: {took} {answer:?}");
                let rate = answer.world.path.rate.bps() as f64 / 5e6;
                assert!((0.8..1.2).contains(&rate), "{stack}: {:?}", answer.world.path);
            }
            // Its log has no frames.
            Err(error) => assert!(stack == "quinn" && error.to_string().contains("no frames"), "{stack}: {error}"),
        }
    }
}

#[test]
fn a_client_of_ours_writes_no_log_of_the_rival_s() {
    let (_, logs) = logs("noq-to-thalweg");
    assert_eq!(logs.keys().map(|(is_client, _)| *is_client).collect::<Vec<_>>(), [false]);
}
