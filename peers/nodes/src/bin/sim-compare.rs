//! A comparison of all stacks on the same few links: medians of completion over seeds.
//!
//! `sim-compare [SEEDS [STACK…]]`, by default 5 seeds of thalweg and of the stacks of this package.

use std::process::ExitCode;

use nodes::registry;
use thalweg_link::{DirectionConfig, LossModel, Probability, QueueLimit, RateModel, Reorder};
use thalweg_sim::{Carries, FlowPlan, PathPlan, Plan, PlanError, Record, Registry, Traffic, run_with};
use thalweg_units::{Duration, Rate};

/// Bytes of the download.
const BYTES: u64 = 20_000_000;

fn main() -> ExitCode {
    let registry = registry();
    let mut arguments = std::env::args().skip(1);
    let seeds = match arguments.next().map(|text| text.parse::<u64>()) {
        None => 5,
        Some(Ok(seeds)) if seeds > 0 => seeds,
        Some(_) => return usage("SEEDS is a number of at least 1"),
    };
    let mut stacks: Vec<String> = arguments.collect();
    if stacks.is_empty() {
        let carry_streams = registry.stacks().filter(|stack| stack.carries != Carries::Datagrams);
        stacks = carry_streams.map(|stack| stack.name.clone()).collect();
    }
    if let Some(unknown) = stacks.iter().find(|stack| registry.names().all(|name| name != *stack)) {
        let known: Vec<&str> = registry.names().collect();
        return usage(&format!("stack {unknown} is not known; there are {}", known.join(", ")));
    }
    println!(
        "20 MB down, 50 Mbps each way, 50 ms RTT, a queue of one BDP; {seeds} seeds; seconds: least, median, most"
    );
    for (name, impair) in impairments() {
        println!("\n{name}");
        for stack in &stacks {
            if let Err(error) = compare(&registry, stack, seeds, impair) {
                println!("  {stack:16} {error}");
            }
        }
    }
    println!();
    for stack in &stacks {
        println!("{stack}: {}", settings(&registry, stack));
    }
    ExitCode::SUCCESS
}

fn usage(problem: &str) -> ExitCode {
    eprintln!("sim-compare: {problem}\nusage: sim-compare [SEEDS [STACK…]]");
    ExitCode::from(2)
}

type Impair = fn(&mut DirectionConfig);

/// What is wrong with the data's direction.
fn impairments() -> [(&'static str, Impair); 5] {
    [
        ("clean", |_| {}),
        ("5 % of packets 5 ms late", |link| {
            link.reorder.push(Reorder { share: Probability::ratio(5, 100), by: Duration::from_millis(5) });
        }),
        ("1 % of packets 1.5 ms late", |link| {
            link.reorder.push(Reorder { share: Probability::ratio(1, 100), by: Duration::from_micros(1500) });
        }),
        ("0.1 % loss", |link| link.loss.push(LossModel::Random(Probability::ratio(1, 1000)))),
        ("1 % loss", |link| link.loss.push(LossModel::Random(Probability::ratio(1, 100)))),
    ]
}

fn plan(stack: &str, seed: u64, impair: Impair) -> Plan {
    let up = DirectionConfig {
        rate: RateModel::Constant(Rate::from_bps(50_000_000)),
        delay: Duration::from_millis(25).into(),
        queue: QueueLimit::Bdp(1000),
        ..DirectionConfig::default()
    };
    let mut down = up.clone();
    impair(&mut down);
    let mut flow = FlowPlan::new("flow", Traffic::download(Some(BYTES)));
    flow.stack = stack.to_owned();
    Plan {
        paths: vec![PathPlan::new("link", up, down)],
        flows: vec![flow],
        seed,
        time_limit: Duration::from_secs(300),
        perturb_start: true,
        record: Record { step: Duration::ZERO, hash: false, ..Record::default() },
        ..Plan::default()
    }
}

fn settings(registry: &Registry, stack: &str) -> String {
    let mut plan = plan(stack, 1, |_| {});
    plan.flows[0].traffic = Traffic::download(Some(1));
    run_with(&plan, registry).map_or_else(|error| error.to_string(), |result| result.flows[0].settings.clone())
}

fn compare(registry: &Registry, stack: &str, seeds: u64, impair: Impair) -> Result<(), PlanError> {
    let mut times = Vec::new();
    let mut failures = Vec::new();
    let (mut sent, mut lost) = (0, 0);
    for seed in 1..=seeds {
        let result = run_with(&plan(stack, seed, impair), registry)?;
        let flow = &result.flows[0];
        sent += flow.server.stats.path.packets_sent;
        lost += flow.server.stats.path.packets_lost;
        match (flow.completion, result.failed) {
            (Some(completion), None) => times.push(completion.as_secs_f64()),
            (_, reason) => failures.push(reason.unwrap_or_default()),
        }
    }
    times.sort_by(f64::total_cmp);
    let figures = match (times.first(), times.get(times.len() / 2), times.last()) {
        (Some(least), Some(median), Some(most)) => format!("{least:8.3} {median:8.3} {most:8.3}"),
        _ => "no run finished".to_owned(),
    };
    println!("  {stack:16} {figures}   {} packets sent per run, {} declared lost", sent / seeds, lost / seeds);
    if let Some(reason) = failures.first() {
        println!("  {:16} {} of {seeds} failed: {reason}", "", failures.len());
    }
    Ok(())
}
