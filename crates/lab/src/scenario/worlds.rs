//! The world at one point: everything but what is varied and what is expected.

use std::collections::BTreeSet;

use thalweg_link::document::Source;
use thalweg_link::{Chain, Paths};
use thalweg_sim::StackInfo;
use thalweg_units::Duration;

use super::axis::Axis;
use super::files::Traces;
use super::flow;
use super::group::{MOST_FLOWS, Ways};
use super::read::{Field, Reader};
use super::tree::{Node, Value};
use super::vary::Varied;
use super::world::{Crypto, FlowSpec, Measure, Perturb, World};

/// The longest delay of a host that a scenario can ask for: what hosts have if it does not.
const MOST_HOST_DELAY: Duration = Duration::from_millis(1);
/// The most paths.
const MOST_PATHS: usize = 1_000;

/// The world with everything varied that `concerns` it.
pub(super) fn varied(
    document: &Node,
    axes: &[Varied],
    combination: &[usize],
    concerns: impl Fn(&Axis) -> bool,
    traces: &Traces<'_>,
    stacks: &[StackInfo],
    source: &Source<'_>,
) -> Option<World> {
    let mut here = document.clone();
    for (axis, at) in axes.iter().zip(combination).filter(|(axis, _)| concerns(&axis.axis)) {
        axis.apply(*at, &mut here, stacks, source);
    }
    world(here, traces, stacks, source)
}

/// The world that a document describes.
fn world(mut document: Node, traces: &Traces<'_>, stacks: &[StackInfo], source: &Source<'_>) -> Option<World> {
    Paths::expand(&mut document);
    let root = Reader::root(&document, source)?;
    let time_limit = root.get("time_limit").map_or(Some(Duration::from_secs(60)), |field| {
        let limit = field.span()?;
        if limit > Duration::from_secs(86_400) {
            field.complain("is longer than a day; write at most \"86400 s\"");
        }
        Some(limit)
    });
    let crypto = root
        .get("crypto")
        .map_or(Some(Crypto::Real), |field| field.choice(&[("real", Crypto::Real), ("null", Crypto::Null)]));
    let perturb = root.get("perturb").map_or(Some(Perturb::All), |field| {
        field.choice(&[("all", Perturb::All), ("microsecond", Perturb::Microsecond), ("ack", Perturb::Ack)])
    });
    let host_delay = match root.get("host_delay") {
        None => Some((!perturb.is_some_and(Perturb::is_single), None)),
        Some(field) => host_delay(&field).inspect(|(delays, _)| {
            if *delays && perturb.is_some_and(Perturb::is_single) {
                field.complain(
                    "does not go together with perturb = \"microsecond\" or \"ack\", which change next to nothing; leave it out",
                );
            }
        }),
    };
    let measure = root.get("measure").map_or(Some(None), |field| measure(&field, time_limit).map(Some));
    let paths = paths(&root, traces)?;
    let flows = flows(&root, &paths, time_limit, stacks)?;
    let (host_delay, host_delay_most) = host_delay?;
    Some(World {
        paths: paths.all.paths,
        chains: paths.all.chains,
        flows,
        time_limit: time_limit?,
        crypto: crypto?,
        perturb: perturb?,
        host_delay,
        host_delay_most,
        measure: measure?,
    })
}

/// The paths of a world, and where they stand.
#[derive(Default)]
struct ReadPaths<'a> {
    all: Paths,
    /// The table of each of these.
    fields: Vec<Field<'a>>,
    /// Of all, those that cannot be read included.
    names: Vec<String>,
}

/// Reads every `[path.NAME]`. None if there are too many.
fn paths<'a>(root: &Reader<'a>, traces: &Traces<'_>) -> Option<ReadPaths<'a>> {
    let Some(table) = root.need("path", "[path.NAME] with up and down").and_then(|field| field.table("[path.NAME]"))
    else {
        return Some(ReadPaths::default());
    };
    let names: Vec<String> = table.all().iter().map(|(name, ..)| (*name).to_owned()).collect();
    if names.len() > MOST_PATHS {
        table.complain(format!("has {} paths; at most {MOST_PATHS} are accepted", names.len()));
        return None;
    }
    let (all, fields) = Paths::read(&table, traces);
    Some(ReadPaths { all, fields, names })
}

/// Reads every `[[flow]]`. None if there are too many.
fn flows(
    root: &Reader<'_>,
    ReadPaths { all, fields, names }: &ReadPaths<'_>,
    time_limit: Option<Duration>,
    stacks: &[StackInfo],
) -> Option<Vec<FlowSpec>> {
    let mut flows: Vec<FlowSpec> = Vec::new();
    let mut taken = BTreeSet::new();
    if let Some(list) = root.need("flow", "[[flow]] with path and transfer") {
        if !list.is_list() {
            list.complain("is one table; write [[flow]] with two brackets, once for each flow");
        }
        let items = list.items();
        let too_many = |count: usize| {
            list.complain(format!(
                "has {count} flows; at most {MOST_FLOWS} are accepted, so write short_flows for many that are alike"
            ));
        };
        if items.len() > MOST_FLOWS {
            too_many(items.len());
            return None;
        }
        let ways = Ways { paths: &all.paths, chains: &all.chains };
        let mut read = 0;
        for (index, field) in items.iter().enumerate() {
            let Some(reader) = field.table("[[flow]]") else { continue };
            let Some(group) = flow::flows(reader, flow::Place { index, paths: names, ways, stacks }) else { continue };
            read += 1;
            for flow in &group {
                if !taken.insert(flow.name.clone()) {
                    field.complain(format!("there are two flows named \"{}\"; give each a name of its own", flow.name));
                }
            }
            let Some(flow) = group.first() else { continue };
            check_times(field, flow, time_limit, &all.chains);
            flows.extend(group);
            if flows.len() > MOST_FLOWS {
                too_many(flows.len());
                return None;
            }
        }
        if list.is_list() && items.is_empty() {
            list.complain("is empty; write at least one [[flow]]");
        }
        // As long as a flow cannot be read it may take any chain.
        let is_taken = |name: &str| read < items.len() || flows.iter().any(|flow| flow.takes(name));
        let ways: Vec<&Chain> = all.chains.iter().filter(|chain| is_taken(&chain.name)).collect();
        all.check_queues(fields, &ways);
    }
    Some(flows)
}

/// Complains of a flow that begins or moves when the run is over, or moves to where it is.
fn check_times(field: &Field<'_>, flow: &FlowSpec, time_limit: Option<Duration>, chains: &[Chain]) {
    if time_limit.is_some_and(|limit| flow.start >= limit) {
        field.complain("starts at or after time_limit, so it would never run");
    }
    if let Some(late) = flow.moves.iter().find(|change| time_limit.is_some_and(|limit| change.at >= limit)) {
        let at = thalweg_units::exact_duration(late.at);
        field.complain(format!("changes its address at {at}, when the run is over; write a time before time_limit"));
    }
    if let Some(idle) = flow.idle_move(chains) {
        moves_of(field).complain(format!(
            "leads at {} to the path that the flow is on already; write another path or leave it out",
            thalweg_units::exact_duration(idle.at)
        ));
    }
}

/// Where a flow's moves stand, or the flow if they do not.
fn moves_of<'a>(flow: &Field<'a>) -> Field<'a> {
    flow.table("[[flow]]").and_then(|flow| flow.get("move")).unwrap_or_else(|| flow.clone())
}

/// Whether hosts delay by chance, and for how long at most if that is said.
fn host_delay(field: &Field<'_>) -> Option<(bool, Option<Duration>)> {
    match &field.node.value {
        Value::Text(_) => Some((true, Some(field.duration_in(Duration::from_nanos(1)..=MOST_HOST_DELAY)?))),
        Value::Boolean(_) => Some((field.boolean()?, None)),
        _ => {
            field.wrong_kind("true, false, or the longest delay in quotes, such as \"200 us\"");
            None
        }
    }
}

/// The part of a run that rates are measured in.
fn measure(field: &Field<'_>, time_limit: Option<Duration>) -> Option<Measure> {
    const EXAMPLE: &str = "{ from = \"5 s\", to = \"55 s\" }";
    let table = field.table(EXAMPLE)?;
    let from = table.need("from", "\"5 s\"").and_then(|field| field.duration());
    let to = table.need("to", "\"55 s\"").and_then(|field| field.span());
    table.finish();
    let measure = Measure { from: from?, to: to? };
    if measure.from >= measure.to {
        field.complain(format!("ends where it begins or before; write a later `to`, as in {EXAMPLE}"));
        return None;
    }
    if let Some(limit) = time_limit.filter(|limit| measure.to > *limit) {
        let limit = thalweg_units::exact_duration(limit);
        field.complain(format!("ends after the run; write a `to` of at most time_limit, {limit}"));
        return None;
    }
    Some(measure)
}
