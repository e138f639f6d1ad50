//! Scenario files: a question as TOML, read into plain data.
//!
//! ```toml
//! title = "100 MB over a geostationary satellite"
//! question = "How close to the link's floor does each start-up rule get?"
//! seeds = 30
//! time_limit = "60 s"
//!
//! [path.sat]
//! down = { rate = "250 Mbps", delay = "300 ms", queue = "1 BDP" }
//! up   = { rate = "3 Mbps",   delay = "300 ms", queue = "600 ms" }
//!
//! [[flow]]
//! path = "sat"
//! transfer = { download = "100 MB" }
//!
//! [vary]
//! "flow.0.policies.start" = ["standard", "hystart++"]
//!
//! [[expect]]
//! where = { start = "standard" }
//! metric = "completion_over_floor.p50"
//! at_most = 1.25
//! ```

mod compare;
mod expect;
mod files;
mod flow;
mod group;
mod keys;
mod rivals;
mod told;
mod traffic;
mod vary;
pub mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

pub use thalweg_link::document::{Diagnostic, DocumentError as ScenarioError};
use thalweg_link::document::{Source, read, tree};
pub use thalweg_link::presets;
use thalweg_link::{Chain, Paths};
use thalweg_recovery::Policies;
pub use thalweg_sim::StackInfo;
use thalweg_units::Duration;

pub use compare::Answer;
pub use expect::{Expectation, Until};
pub use flow::{FLOW_KEYS, FlowKey, TRANSPORT_KEYS, TransportKey};
pub use keys::{flow_keys, keys};
pub use rivals::{OURS, STACK};

use crate::hash::Digest;
use crate::metric::Metric;
use files::Traces;
use read::{Field, Reader};
use tree::{Node, Value};
use world::{Crypto, Measure, Perturb, World};

/// The most points that `[vary]` may span.
pub const MOST_POINTS: u64 = 100_000;

/// The most values of which all points together may consist: a bound for the memory and time that reading takes.
pub const MOST_VALUES: u64 = 50_000_000;

/// The most paths.
const MOST_PATHS: usize = 1_000;
/// The most flows; for more short ones there is `short_flows`.
const MOST_FLOWS: usize = 10_000;

/// The most seeds a scenario may ask for.
pub const MOST_SEEDS: u64 = 1_000_000;

/// A scenario that has been read and found sound.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The file name without its extension.
    pub name: String,
    /// The file as it was named.
    pub file: String,
    /// The file's text.
    pub text: String,
    /// SHA-256 of the text.
    pub digest: Digest,
    /// What it is about, in a few words.
    pub title: String,
    /// What it asks.
    pub question: String,
    /// How many perturbed runs of every point.
    pub seeds: u64,
    /// The first of them.
    pub first_seed: u64,
    /// The first seed that the file itself asks for, whatever `first_seed` has been set to since.
    pub own_first_seed: u64,
    /// Of which runs time series are kept.
    pub record: RecordWhich,
    /// More seeds until an interval is narrow.
    pub until: Option<Until>,
    /// The metric that answers the question, if the scenario names one, and the flow or link that it is of; without one
    /// it is of the run, or of the first link.
    pub answer: Option<(Answer, Option<String>)>,
    /// What is varied: the label of each axis and those of its values.
    pub axes: Vec<Axis>,
    /// Every combination, the last axis running fastest; those of the rivals come after ours.
    pub points: Vec<Point>,
    /// Combinations that are no points, each with the reason: policies that the controller does not have.
    pub left_out: Vec<String>,
    /// What can be run but hardly is what was meant, each once.
    pub warnings: Vec<String>,
    /// Rivals that are named but that this program does not have.
    pub absent: Vec<String>,
    /// What has to hold.
    pub expectations: Vec<Expectation>,
    /// What should hold but is known to fall short today.
    pub known: Vec<Expectation>,
}

/// Of which runs time series are kept.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum RecordWhich {
    /// Of none.
    None,
    /// Of the first seed of each point.
    #[default]
    First,
    /// Of all.
    All,
}

/// Something that is varied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Its short name: as many of the last parts of the key as tell it from the others.
    pub label: String,
    /// The key as written.
    pub key: String,
    /// Its values. Only where axes change together does one repeat.
    pub values: Vec<String>,
    /// Axes of the same number change together; none changes with every other axis.
    pub together: Option<usize>,
    /// Whether its values are choices to be compared, such as policies and stacks, and not circumstances, such as
    /// paths.
    pub is_choice: bool,
}

impl Axis {
    /// Which axes names speak of. Of axes that change together, the first whose values all differ speaks for the
    /// others; choices and circumstances apart.
    pub(crate) fn spoken(axes: &[Axis]) -> Vec<bool> {
        let differ = |axis: &Axis| axis.values.iter().collect::<BTreeSet<_>>().len() == axis.values.len();
        let speaks_for = |axis: &Axis| {
            let is_with = |other: &&Axis| other.together == axis.together && other.is_choice == axis.is_choice;
            axes.iter().filter(is_with).find(|other| differ(other))
        };
        let is_spoken = |axis: &Axis| {
            axis.together.is_none() || speaks_for(axis).is_none_or(|speaker| core::ptr::eq(speaker, axis))
        };
        axes.iter().map(is_spoken).collect()
    }

    /// Whether it is about our recovery, which rivals do not have.
    pub fn sets_policies(&self) -> bool {
        self.sets("policies")
    }

    /// Whether it is about a setting of flows.
    pub(crate) fn sets(&self, setting: &str) -> bool {
        let mut steps = self.key.split('.').map(str::trim);
        steps.next() == Some("flow") && steps.nth(1) == Some(setting)
    }
}

/// One combination of what is varied.
#[derive(Clone, Debug)]
pub struct Point {
    /// Value labels, in the order of the axes; empty for axes that do not concern a rival, and for policies that the
    /// controller does not have.
    pub labels: Vec<String>,
    /// The rival in our place, if this point is not ours.
    pub rival: Option<String>,
    /// The world there.
    pub world: World,
    /// What its results are stored under: a digest of `world`.
    pub digest: Digest,
}

impl Point {
    /// The labels as one line; "the only point" is empty.
    pub fn name(&self, axes: &[Axis]) -> String {
        let parts = axes.iter().zip(&self.labels).zip(Axis::spoken(axes));
        let parts = parts.filter(|((_, label), is_spoken)| *is_spoken && !label.is_empty());
        let parts: Vec<String> = parts.map(|((axis, label), _)| format!("{} = {label}", axis.label)).collect();
        parts.join(", ")
    }
}

impl Scenario {
    /// Reads a scenario file. `stacks` are the transports that flows can name.
    ///
    /// # Errors
    /// Everything wrong with the file, or why it cannot be read.
    pub fn load(file: &Path, stacks: &[StackInfo]) -> Result<Scenario, ScenarioError> {
        let name = file.display().to_string();
        match files::text(file, files::MOST_SCENARIO) {
            Ok(text) => Scenario::parse(&name, &text, file.parent().unwrap_or(Path::new("")), stacks),
            Err(reason) => {
                let message = format!("cannot read this file: {reason}; write the path of a scenario in TOML");
                let diagnostic =
                    Diagnostic { file: name, line: 1, column: 1, key: String::new(), message, excerpt: String::new() };
                Err(ScenarioError { diagnostics: vec![diagnostic], more: 0 })
            }
        }
    }

    /// Reads the text of a scenario. `directory` is where the files it names are.
    ///
    /// # Errors
    /// Everything wrong with it.
    pub fn parse(file: &str, text: &str, directory: &Path, stacks: &[StackInfo]) -> Result<Scenario, ScenarioError> {
        Scenario::parse_with(file, text, directory, stacks, &Policies::has)
    }

    /// The same, where `has` says which policies a controller has.
    fn parse_with(
        file: &str,
        text: &str,
        directory: &Path,
        stacks: &[StackInfo],
        has: HasPolicy<'_>,
    ) -> Result<Scenario, ScenarioError> {
        let source = Source::new(file, text);
        let traces = Traces::new(directory);
        let scenario = if text.len() as u64 > files::MOST_SCENARIO {
            source.complain(&(0..0), "", files::too_long(text.len() as u64, files::MOST_SCENARIO));
            None
        } else {
            Node::parse(text, &source).and_then(|document| read(file, text, &traces, stacks, document, &source, has))
        };
        match source.verdict(scenario)? {
            Some(scenario) => Ok(scenario),
            // Whatever ends reading has complained; this is for the type.
            None => Err(ScenarioError { diagnostics: Vec::new(), more: 0 }),
        }
    }
}

fn read(
    file: &str,
    text: &str,
    traces: &Traces<'_>,
    stacks: &[StackInfo],
    document: Node,
    source: &Source<'_>,
    has: HasPolicy<'_>,
) -> Option<Scenario> {
    let root = Reader::root(&document, source)?;
    for key in vary::ROOTS {
        root.note(key);
    }
    let title = root.need("title", "\"What this is about\"").and_then(|field| field.text("a title in quotes"));
    let question =
        root.need("question", "\"What do you want to know?\"").and_then(|field| field.text("a question in quotes"));
    let seeds = root.get("seeds").map_or(Some(10), |field| field.count(1..=MOST_SEEDS));
    let first_seed = root.get("first_seed").map_or(Some(1), |field| field.count(0..=i64::MAX as u64));
    let record = root.get("record").map_or(Some(RecordWhich::First), |field| {
        field.choice(&[("none", RecordWhich::None), ("first", RecordWhich::First), ("all", RecordWhich::All)])
    });
    let axes = root.get("vary").map_or(Some(Vec::new()), |field| vary::read(&field))?;
    let listed = root.get("rivals");
    let rivals = listed.as_ref().and_then(|field| rivals::read(field, &axes, stacks));
    let until = root.get("until").and_then(|field| expect::until(&field));
    let (expect, shortfalls) = (root.get("expect"), root.get("known"));
    let compared = root.get("compare");
    let answered = root.get("answer");
    root.finish();

    let base = described(&document);
    let values = values(&base, &axes);
    if values > MOST_VALUES {
        axes.first()?.complain(
            source,
            &format!(
                "makes points of {values} values all together; at most {MOST_VALUES} are accepted, so shorten the lists or \
                 split the scenario"
            ),
        );
        return None;
    }
    let mut points: Vec<Point> = Vec::new();
    let mut known: BTreeMap<Digest, usize> = BTreeMap::new();
    let mut left_out = Vec::new();
    for combination in vary::combinations(&axes, |_| true) {
        let excluded = vary::excluded(&base, &axes, &combination, stacks, source, has);
        let is_left_out = |axis: &Axis| excluded.iter().any(|(key, _)| *key == axis.key);
        let mut labels: Vec<String> =
            axes.iter().zip(&combination).map(|(axis, at)| axis.axis.values[*at].clone()).collect();
        // What would be the same world again stands for the others once, without the values that mean nothing there.
        if axes.iter().zip(&combination).any(|(axis, at)| is_left_out(&axis.axis) && *at > 0) {
            let why: Vec<&str> = excluded.iter().map(|(_, why)| why.as_str()).collect();
            left_out.push(format!("{}: {}", labels.join(", "), why.join("; ")));
            continue;
        }
        for (label, _) in labels.iter_mut().zip(&axes).filter(|(_, axis)| is_left_out(&axis.axis)) {
            label.clear();
        }
        if let Some(world) = varied(&base, &axes, &combination, |axis| !is_left_out(axis), traces, stacks, source)
            && source.is_clean()
        {
            let digest = Digest::of_json(&world);
            if let Some(twin) = known.insert(digest.clone(), points.len()).and_then(|at| points.get(at)) {
                let (one, other) = (twin.labels[..axes.len()].join(", "), labels.join(", "));
                axes.first()?
                    .complain(source, &format!("\"{one}\" and \"{other}\" describe the same world; leave one out"));
            }
            labels.extend(rivals.as_ref().map(|_| rivals::OURS.to_owned()));
            points.push(Point { labels, rival: None, world, digest });
        }
        if source.is_full() {
            break;
        }
    }
    for rival in rivals.iter().flat_map(|rivals| &rivals.present).filter(|_| source.is_clean()) {
        let concerns = |axis: &Axis| !axis.sets_policies();
        for combination in vary::combinations(&axes, concerns) {
            let mut world = varied(&base, &axes, &combination, concerns, traces, stacks, source)?;
            if rivals::replace(&mut world, rival, stacks) == 0 {
                listed.as_ref()?.complain("has nothing to replace: every flow names a stack of its own");
                break;
            }
            let labels = axes.iter().zip(&combination).map(|(axis, at)| match concerns(&axis.axis) {
                true => axis.axis.values[*at].clone(),
                false => String::new(),
            });
            let labels = labels.chain([rival.clone()]).collect();
            let digest = Digest::of_json(&world);
            points.push(Point { labels, rival: Some(rival.clone()), world, digest });
        }
    }
    let mut warned = BTreeSet::new();
    let warnings = points.iter().flat_map(|point| point.world.warnings());
    let warnings = warnings.filter(|warning| warned.insert(warning.clone())).collect();
    let mut axes: Vec<Axis> = axes.into_iter().map(|axis| axis.axis).collect();
    axes.extend(rivals.as_ref().map(rivals::Rivals::axis));
    match &compared {
        Some(field) => compare::mark(field, &mut axes),
        None => compare::mark_decisions(&mut axes),
    }
    let absent = rivals.map(|rivals| rivals.absent).unwrap_or_default();
    let flows = points.first().map(|point| point.world.flows.as_slice()).unwrap_or_default();
    let paths = points.first().map(|point| point.world.paths.as_slice()).unwrap_or_default();
    let named = expect::Named { axes: &axes, absent: &absent, flows, paths };
    let list =
        |field: Option<read::Field<'_>>, list| field.map_or_else(Vec::new, |field| expect::read(&field, list, &named));
    let (expectations, known) = (list(expect, expect::List::Expect), list(shortfalls, expect::List::Known));
    let spoken_of = |metric: &Metric| {
        let mut all = expectations.iter().chain(&known).filter(|it| it.metric == metric);
        all.find_map(|it| it.subject().cloned())
    };
    let answer = answered.and_then(|field| compare::answer(&field, &points, spoken_of));
    Some(Scenario {
        name: Path::new(file).file_stem().map_or_else(|| file.to_owned(), |stem| stem.to_string_lossy().into_owned()),
        file: file.to_owned(),
        text: text.to_owned(),
        digest: Digest::of(text.as_bytes()),
        title: title?.to_owned(),
        question: question?.to_owned(),
        seeds: seeds?,
        first_seed: first_seed?,
        own_first_seed: first_seed?,
        record: record?,
        until,
        answer,
        axes,
        points,
        left_out,
        warnings,
        absent,
        expectations,
        known,
    })
}

/// Whether a controller has a policy.
type HasPolicy<'a> = &'a dyn Fn(&str, &str) -> bool;

/// What describes the world: the part of the document that is read again at every point.
fn described(document: &Node) -> Node {
    let entries = document.entries().unwrap_or_default().iter();
    let entries = entries.filter(|entry| vary::ROOTS.contains(&entry.key.as_str())).cloned().collect();
    Node { value: Value::Table(entries), span: document.span.clone() }
}

/// How many values all points together consist of.
fn values(base: &Node, axes: &[vary::Varied]) -> u64 {
    let points = vary::points(axes, |_| true);
    let varied = axes.iter().map(|axis| axis.count().saturating_mul(points / (axis.axis.values.len() as u64).max(1)));
    varied.fold(base.count().saturating_mul(points), u64::saturating_add)
}

/// The world with everything varied that `concerns` it.
fn varied(
    document: &Node,
    axes: &[vary::Varied],
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

/// The world at one point: everything but what is varied and what is expected.
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
        None => Some(!perturb.is_some_and(Perturb::is_single)),
        Some(field) => field.boolean().inspect(|delays| {
            if *delays && perturb.is_some_and(Perturb::is_single) {
                field.complain(
                    "does not go together with perturb = \"microsecond\" or \"ack\", which change next to nothing; leave it out",
                );
            }
        }),
    };
    let measure = root.get("measure").map_or(Some(None), |field| measure(&field, time_limit).map(Some));
    let (mut described, mut names, mut fields) = (Paths::default(), Vec::new(), Vec::new());
    if let Some(table) = root.need("path", "[path.NAME] with up and down").and_then(|field| field.table("[path.NAME]"))
    {
        names.extend(table.all().iter().map(|(name, ..)| (*name).to_owned()));
        if names.len() > MOST_PATHS {
            table.complain(format!("has {} paths; at most {MOST_PATHS} are accepted", names.len()));
            return None;
        }
        (described, fields) = Paths::read(&table, traces);
    }
    let mut flows: Vec<world::FlowSpec> = Vec::new();
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
        let ways = group::Ways { paths: &described.paths, chains: &described.chains };
        let mut read = 0;
        for (index, field) in items.iter().enumerate() {
            let Some(reader) = field.table("[[flow]]") else { continue };
            let Some(group) = flow::flows(reader, flow::Place { index, paths: &names, ways, stacks }) else { continue };
            read += 1;
            for flow in &group {
                if !taken.insert(flow.name.clone()) {
                    field.complain(format!("there are two flows named \"{}\"; give each a name of its own", flow.name));
                }
            }
            let Some(flow) = group.first() else { continue };
            if time_limit.is_some_and(|limit| flow.start >= limit) {
                field.complain("starts at or after time_limit, so it would never run");
            }
            if let Some(late) = flow.moves.iter().find(|change| time_limit.is_some_and(|limit| change.at >= limit)) {
                let at = thalweg_units::exact_duration(late.at);
                field.complain(format!(
                    "changes its address at {at}, when the run is over; write a time before time_limit"
                ));
            }
            if let Some(idle) = flow.idle_move(&described.chains) {
                moves_of(field).complain(format!(
                    "leads at {} to the path that the flow is on already; write another path or leave it out",
                    thalweg_units::exact_duration(idle.at)
                ));
            }
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
        let ways: Vec<&Chain> = described.chains.iter().filter(|chain| is_taken(&chain.name)).collect();
        described.check_queues(&fields, &ways);
    }
    Some(World {
        paths: described.paths,
        chains: described.chains,
        flows,
        time_limit: time_limit?,
        crypto: crypto?,
        perturb: perturb?,
        host_delay: host_delay?,
        measure: measure?,
    })
}

/// Where a flow's moves stand, or the flow if they do not.
fn moves_of<'a>(flow: &Field<'a>) -> Field<'a> {
    flow.table("[[flow]]").and_then(|flow| flow.get("move")).unwrap_or_else(|| flow.clone())
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

#[cfg(test)]
mod tests;
