//! `thalweg lab run --why`: traces one run of each point, and says what made its transfer slow.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use serde::Serialize;
use thalweg_lab::engine::Engine;
use thalweg_lab::metric::Scope;
use thalweg_lab::results::Results;
use thalweg_lab::summary::Run;
use thalweg_lab::trace::trace;
use thalweg_why::{Log, Report};

/// Logs of one run that are read, at most.
const LOGS: usize = 16;

/// What is said of a point.
#[derive(Debug, Serialize)]
pub(super) struct Said {
    /// Its number.
    point: usize,
    /// Its labels; empty for the only one.
    name: String,
    /// The run that was traced: the first that failed, or the slowest.
    seed: u64,
    /// The log of the sender that took longest.
    log: Option<PathBuf>,
    /// What it says.
    why: Option<Report>,
    /// Why nothing can be said.
    error: Option<String>,
}

impl Said {
    /// As a line of text.
    pub(super) fn text(&self) -> String {
        let name = if self.name.is_empty() { String::new() } else { format!("{}, ", self.name) };
        let error = || self.error.clone().unwrap_or_default();
        let said = self.why.as_ref().map_or_else(error, |why| why.sentence.clone());
        let log = self.log.as_ref().map_or_else(String::new, |log| format!("\n    thalweg why {}", log.display()));
        format!("  {name}seed {}: {said}{log}\n", self.seed)
    }
}

/// What is said of each point that has runs.
pub(super) fn why(results: &Results, engine: &dyn Engine) -> Vec<Said> {
    let points = results.scenario.points.iter().enumerate();
    let worst = points.filter_map(|(number, point)| Some((number, point, worst(results, number)?)));
    let said = worst.map(|(point, of, seed)| {
        let folder = results.store.directory().join("traces").join(format!("p{point}-s{seed}"));
        let traced = trace(&results.scenario, engine, (point, seed), None, &folder);
        let mut said = Said { point, name: of.name(&results.scenario.axes), seed, log: None, why: None, error: None };
        match traced {
            Ok(traced) => match longest(&traced.files) {
                Some((log, why)) => (said.log, said.why) = (Some(log), Some(why)),
                None => said.error = Some("none of its logs is that of a sender who tells enough".to_owned()),
            },
            Err(error) => said.error = Some(error.to_string()),
        }
        said
    });
    said.collect()
}

/// The seed of the first run that failed, or of the one that took longest.
fn worst(results: &Results, point: usize) -> Option<u64> {
    let flows = &results.scenario.points.get(point)?.world.flows;
    let took = |run: &Run| {
        let times = flows.iter().flat_map(|flow| run.get(Scope::Flow, &flow.name, "completion").iter().copied());
        times.fold(0.0, f64::max)
    };
    let failed = results.runs.of_point(point).find(|(_, run)| run.failed().is_some()).map(|(seed, _)| seed);
    let slowest = || results.runs.of_point(point).max_by(|a, b| took(a.1).total_cmp(&took(b.1)).then(b.0.cmp(&a.0)));
    failed.or_else(|| slowest().map(|(seed, _)| seed))
}

/// Of the senders' logs, the one whose transfer took longest, and what it says.
fn longest(files: &[PathBuf]) -> Option<(PathBuf, Report)> {
    let logs = files.iter().filter(|file| file.extension().is_some_and(|end| end == "sqlog"));
    let answers = logs.take(LOGS).filter_map(|log| Some((log.clone(), answer(log)?)));
    answers.max_by(|a, b| a.1.seconds.total_cmp(&b.1.seconds))
}

fn answer(log: &Path) -> Option<Report> {
    let file = BufReader::with_capacity(1 << 18, File::open(log).ok()?);
    let answer = Log::read(file).ok()?.answer().ok()?;
    let next = if answer.is_reproduced() { answer.next().ok()? } else { None };
    Some(answer.report(next))
}
