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

mod axis;
mod bounds;
mod compare;
mod expect;
mod files;
mod flow;
mod group;
mod keys;
mod labels;
mod paths;
mod points;
mod policy_choice;
mod rivals;
mod told;
mod traffic;
mod vary;
pub mod world;
mod worlds;

use std::collections::BTreeSet;
use std::path::Path;

pub use thalweg_link::document::{Diagnostic, DocumentError as ScenarioError, Renamed};
use thalweg_link::document::{Source, read, tree};
pub use thalweg_link::presets;
use thalweg_recovery::Policies;
pub use thalweg_sim::StackInfo;

pub use axis::{Axis, MOST_POINTS, Point};
pub use compare::Measured;
pub use expect::{Expectation, Until};
pub use flow::{FLOW_KEYS, FlowKey, TRANSPORT_KEYS, TransportKey};
pub use keys::{flow_keys, keys};
pub use paths::load_paths;
pub use rivals::{OURS, STACK};

use crate::hash::Digest;
use crate::metric::Metric;
use files::Traces;
use labels::Labels;
use points::Spanned;
use read::Reader;
use tree::Node;
use vary::HasPolicy;

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
    /// When it is judged.
    pub tier: Tier,
    /// Of which runs time series are kept.
    pub record: RecordWhich,
    /// More seeds until an interval is narrow.
    pub until: Option<Until>,
    /// The metric that answers the question, if the scenario names one, and the flow or link that it is of; without one
    /// it is of the run, or of the first link.
    pub answer: Option<(Measured, Option<String>)>,
    /// What is varied: the label of each axis and those of its values.
    pub axes: Vec<Axis>,
    /// Every combination, the last axis running fastest; those of the rivals come after ours.
    pub points: Vec<Point>,
    /// Remarks for the author of the file, though it can be run.
    pub remarks: Remarks,
    /// Rivals that are named but that this program does not have.
    pub absent: Vec<String>,
    /// What has to hold.
    pub expectations: Vec<Expectation>,
    /// What should hold but is known to fall short today.
    pub known: Vec<Expectation>,
}

/// When a scenario is judged: what `--tier` of `thalweg lab run` selects.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Tier {
    /// With every change.
    Gate {
        /// On at most so many seeds; on all of its own without a number.
        seeds: Option<u64>,
    },
    /// Once a day or so: it takes long.
    Nightly,
    /// When somebody asks.
    #[default]
    Study,
}

impl Tier {
    /// Whether a scenario of this tier is judged with every change.
    pub fn is_gate(self) -> bool {
        matches!(self, Tier::Gate { .. })
    }

    /// Whether all its own seeds are judged from time to time, and not with every change.
    pub fn is_nightly(self) -> bool {
        matches!(self, Tier::Nightly | Tier::Gate { seeds: Some(_) })
    }
}

/// A remark for the author of a scenario, though it can be run.
#[derive(Clone, Debug, Default)]
pub struct Remarks {
    /// Combinations that are no points, each with the reason: policies that the controller does not have.
    pub left_out: Vec<String>,
    /// What can be run but hardly is what was meant, each once.
    pub warnings: Vec<String>,
    /// Keys that go by the names that they had before, each once.
    pub renamed: Vec<Renamed>,
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
    let tier = read_tier(&root, seeds.map(|seeds| until.as_ref().map_or(seeds, |until| until.max_seeds.max(seeds))));
    let (expect, shortfalls) = (root.get("expect"), root.get("known"));
    let compared = root.get("compare");
    let answered = root.get("answer");
    root.finish();

    let spanned = Spanned::new(&document, &axes, traces, stacks, source)?;
    let (mut points, left_out) = spanned.ours(rivals.is_some(), has);
    if let (Some(rivals), Some(listed)) = (&rivals, &listed) {
        points.extend(spanned.of_rivals(rivals, listed)?);
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
    let named = expect::Named { labels: Labels { axes: &axes, absent: &absent }, flows, paths };
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
        tier: tier?,
        record: record?,
        until,
        answer,
        axes,
        points,
        remarks: Remarks { left_out, warnings, renamed: source.renamed() },
        absent,
        expectations,
        known,
    })
}

/// `tier`, and the seeds that the gate runs: fewer than `all`.
fn read_tier(root: &Reader<'_>, all: Option<u64>) -> Option<Tier> {
    let tier = root.get("tier").map_or(Some(Tier::Study), |field| {
        field.choice(&[("gate", Tier::Gate { seeds: None }), ("nightly", Tier::Nightly), ("study", Tier::Study)])
    });
    let Some(field) = root.get("gate_seeds") else { return tier };
    let seeds = field.count(1..=MOST_SEEDS);
    match tier? {
        Tier::Gate { .. } => {
            if let (Some(seeds), Some(all)) = (seeds, all)
                && seeds >= all
            {
                field.complain(format!(
                    "leaves none of the {all} seeds out; write fewer, or leave gate_seeds out: the gate then runs all"
                ));
            }
            Some(Tier::Gate { seeds: Some(seeds?) })
        }
        Tier::Nightly | Tier::Study => {
            field.complain("is for tier = \"gate\" only; write that, or leave gate_seeds out");
            None
        }
    }
}

#[cfg(test)]
mod tests;
