//! `thalweg lab trace`: makes one run again and writes its qlog files and its packets.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use thalweg_lab::engine::Engine;
use thalweg_lab::scenario::Scenario;
use thalweg_lab::store::{Manifest, ManifestRun, Store};
use thalweg_lab::trace::{TraceError, trace};

use super::named::{check_point, tell_renamed};
use super::words;
use crate::failure::{Failure, Result};
use crate::output;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thalweg lab trace results/satellite --point 1 --seed 7   # also checks that the run comes out as recorded
  thalweg lab trace scenarios/satellite/download.toml --out traces
  thalweg qlog traces/*_server.sqlog                       # and open traces/packets.pcapng in Wireshark")]
pub(super) struct TraceArgs {
    /// Results of a scenario, or its file
    #[arg(value_name = "DIR-or-FILE")]
    what: PathBuf,
    /// The point of [vary], from 0
    #[arg(long, value_name = "N", default_value_t = 0)]
    point: usize,
    /// The seed [default: the scenario's first]
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
    /// Where the files go [default: traces/pN-sSEED in the results]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Print the files and the wire hash as JSON on stdout
    #[arg(long)]
    json: bool,
}

impl TraceArgs {
    pub(super) fn run(self, engine: &dyn Engine) -> Result<()> {
        let stacks = engine.stacks();
        let (scenario, manifest, results) = if self.what.is_dir() {
            let (store, manifest) = Store::open(&self.what).map_err(Failure::usage)?;
            let scenario = manifest.scenario(&stacks).map_err(Failure::usage)?;
            (scenario, Some(manifest), store.directory().to_owned())
        } else {
            let scenario = Scenario::load(&self.what, &stacks).map_err(Failure::usage)?;
            tell_renamed(&scenario);
            let results = Path::new("results").join(&scenario.name);
            (scenario, None, results)
        };
        check_point(&scenario, self.point)?;
        let seed = self.seed.unwrap_or(scenario.first_seed);
        let recorded = match &manifest {
            Some(manifest) => Some(self.recorded(manifest, &scenario, seed)?),
            None => None,
        };
        let out = self.out.clone().unwrap_or_else(|| results.join("traces").join(format!("p{}-s{seed}", self.point)));
        let traced = trace(&scenario, engine, (self.point, seed), recorded, &out).map_err(|error| {
            let other = manifest.as_ref().filter(|manifest| manifest.engine != engine.version());
            match (&error, other) {
                (TraceError::Differs { .. }, Some(manifest)) => {
                    let (theirs, ours) = (&manifest.engine, engine.version());
                    Failure::failed(format!("{error}; the results are of {theirs}, this is {ours}"))
                }
                _ => Failure::failed(error),
            }
        })?;
        let wire_hash = &traced.record.wire_hash;
        if let Some(reason) = &traced.record.failed {
            eprintln!("thalweg: the run failed: {reason}");
        }
        for flow in &traced.not_captured {
            eprintln!("thalweg: flow \"{flow}\" does not run on UDP, so its packets are not in the capture");
        }
        let checked = match recorded {
            Some(_) if engine.is_repeatable(&scenario.points[self.point].world) => "as recorded",
            Some(_) => "not compared with the recorded, as its stack does not promise the same run twice",
            None => "not compared, as a scenario file has no record of it",
        };
        let qlogs = words::counted(traced.files.len() as u64 - 1, "qlog file");
        eprintln!("thalweg: {qlogs} and a capture of seed {seed}; wire hash {wire_hash}, {checked}");
        if self.json {
            output::json(&json!({ "directory": out, "files": traced.files, "wire_hash": wire_hash }));
        } else {
            output::line(&out.display().to_string());
        }
        Ok(())
    }

    /// The figures of the run.
    fn recorded<'a>(&self, manifest: &'a Manifest, scenario: &Scenario, seed: u64) -> Result<&'a ManifestRun> {
        let here = |run: &&ManifestRun| manifest.place(scenario, run.point) == Some(self.point);
        if let Some(run) = manifest.runs.iter().filter(|run| run.seed == seed).find(here) {
            return Ok(run);
        }
        let (results, point) = (self.what.display(), self.point);
        let seeds: Vec<u64> = manifest.runs.iter().filter(here).map(|run| run.seed).collect();
        let there = match (seeds.iter().min(), seeds.iter().max()) {
            (Some(first), Some(last)) if first < last => format!("of this point it has seeds from {first} to {last}"),
            (Some(only), _) => format!("of this point it has seed {only}"),
            _ => "it has no run of this point".to_owned(),
        };
        let file = &scenario.file;
        Err(Failure::usage(format!(
            "{results} has no run of point {point} with seed {seed}; {there}, and {file} has all"
        )))
    }
}
