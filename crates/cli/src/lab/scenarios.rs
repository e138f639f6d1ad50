//! Commands on scenario files: list, new, policies.

use std::path::{Path, PathBuf};

use clap::Args;
use thalweg_lab::distinct;
use thalweg_lab::engine::Engine;
use thalweg_lab::metric::{self, METRICS};
use thalweg_lab::scenario::{Scenario, flow_keys, keys, presets};
use thalweg_lab::stats::Statistic;
use thalweg_lab::store::write_whole;

use super::named::{files_below, load_scenarios, tell_renamed};
use super::tier::TierName;
use super::words::counted;
use crate::columns::{described, sentence};
use crate::failure::{Failure, Result};
use crate::output;

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// Scenarios, or folders with such, and the folders in those [default: scenarios]
    folders: Vec<PathBuf>,
    /// List only the files of scenarios of this tier
    #[arg(long, value_name = "TIER", conflicts_with_all = ["presets", "keys", "metrics", "markdown"])]
    tier: Option<TierName>,
    /// List the paths that scenarios can name as presets
    #[arg(long)]
    presets: bool,
    /// List the keys of paths and directions, and the queue disciplines
    #[arg(long)]
    keys: bool,
    /// List what is measured
    #[arg(long)]
    metrics: bool,
    /// List what is measured as tables for docs/lab-metrics.md
    #[arg(long, conflicts_with_all = ["presets", "keys", "metrics"])]
    markdown: bool,
}

#[derive(Debug, Args)]
pub(super) struct NewArgs {
    /// The file to write
    file: PathBuf,
    /// The path to begin with
    #[arg(long, default_value = "broadband")]
    preset: String,
}

#[derive(Debug, Args)]
pub(super) struct PoliciesArgs {
    /// Scenario files, or folders with such
    #[arg(default_value = "scenarios/policies", value_name = "FILE-or-FOLDER")]
    scenarios: Vec<PathBuf>,
}

impl ListArgs {
    pub(super) fn run(self, engine: &dyn Engine) -> Result<()> {
        if self.markdown {
            output::line(metric::markdown().trim_end());
            return Ok(());
        }
        if self.presets {
            let presets = presets::PRESETS.iter().map(|preset| (preset.name, preset.doc.to_owned()));
            output::line(described(presets).trim_end());
        }
        if self.keys {
            output::line(&flow_keys());
            output::line(keys().trim_end());
        }
        if self.metrics {
            output::line(described(METRICS.iter().map(|metric| (metric.name, metric.doc.to_owned()))).trim_end());
            output::line(sentence(&format!("statistics: {}", Statistic::ACCEPTED), 4).trim_end());
        }
        if self.presets || self.keys || self.metrics {
            return Ok(());
        }
        let folders = if self.folders.is_empty() { vec![PathBuf::from("scenarios")] } else { self.folders };
        if let Some(tier) = self.tier {
            for scenario in tier.scenarios(&folders, engine)? {
                output::line(&scenario.file);
            }
            return Ok(());
        }
        let mut wrong = 0;
        let mut entries: Vec<(String, String)> = Vec::new();
        for file in files_below(&folders)? {
            match Scenario::load(&file, &engine.stacks()) {
                Ok(scenario) => {
                    tell_renamed(&scenario);
                    let runs = counted(scenario.points.len() as u64 * scenario.seeds, "run");
                    entries.push((file.display().to_string(), format!("{} ({runs})", scenario.question)));
                }
                Err(error) => {
                    wrong += 1;
                    eprintln!("thalweg: {error}");
                }
            }
        }
        output::line(described(entries.iter().map(|(file, text)| (file.as_str(), text.clone()))).trim_end());
        match wrong {
            0 => Ok(()),
            1 => Err(Failure::usage("1 scenario is wrong; mend what is named above")),
            many => Err(Failure::usage(format!("{many} scenarios are wrong; mend what is named above"))),
        }
    }
}

impl NewArgs {
    pub(super) fn run(self, engine: &dyn Engine) -> Result<()> {
        if !presets::PRESETS.iter().any(|preset| preset.name == self.preset) {
            let names: Vec<&str> = presets::PRESETS.iter().map(|preset| preset.name).collect();
            return Err(Failure::usage(format!(
                "there is no preset \"{}\"; there are {}",
                self.preset,
                names.join(", ")
            )));
        }
        if self.file.exists() {
            return Err(Failure::usage(format!("{} is there already; choose another name", self.file.display())));
        }
        let text = template(&self.preset);
        // What is handed out has to be readable.
        Scenario::parse("new.toml", &text, Path::new(""), &engine.stacks()).map_err(Failure::failed)?;
        write_whole(&self.file, text.as_bytes()).map_err(Failure::failed)?;
        eprintln!("thalweg: now run: thalweg lab run {}", self.file.display());
        output::line(&self.file.display().to_string());
        Ok(())
    }
}

fn template(preset: &str) -> String {
    let toml = presets::PRESETS.iter().find(|known| known.name == preset).map_or("", |known| known.toml.trim());
    format!(
        "title = \"A download\"\n\
         question = \"How close to the link's floor does a download get, and which start is quicker?\"\n\
         seeds = 20                 # perturbed runs of every point: start phase, endpoint randomness, impairments\n\
         time_limit = \"60 s\"\n\n\
         [path.link]                # \"up\" is from client to server; thalweg lab list --presets shows more\n\
         {toml}\n\n\
         [[flow]]\n\
         path = \"link\"\n\
         transfer = {{ download = \"10 MB\" }}\n\
         policies = {{ controller = \"cubic\" }}\n\n\
         [vary]                     # lists multiply\n\
         \"flow.0.policies.start\" = [\"standard\", \"hystart++\"]\n\n\
         [[expect]]                 # thalweg lab list --metrics shows what is measured\n\
         metric = \"success\"\n\
         equals = 1\n"
    )
}

impl PoliciesArgs {
    pub(super) fn run(self, engine: &dyn Engine) -> Result<()> {
        let scenarios = load_scenarios(&self.scenarios, engine)?;
        scenarios.iter().for_each(tell_renamed);
        let results = distinct::policies(&scenarios, engine);
        let mut wrong = 0;
        let told = results.iter().map(|result| {
            let by = if result.told_by.is_empty() { "no scenario".to_owned() } else { result.told_by.join(", ") };
            (result.field, format!("{:>2} choices, told apart by {by}", result.choices))
        });
        output::line(described(told).trim_end());
        for result in &results {
            for (policy, scenario, reason) in &result.failed {
                wrong += 1;
                eprintln!("thalweg: {policy} in {scenario}: {reason}");
            }
            for same in &result.same {
                wrong += 1;
                eprintln!("thalweg: {} are the same in every scenario: {}", result.field, same.join(", "));
            }
        }
        if wrong == 0 {
            return Ok(());
        }
        Err(Failure::failed("a policy exists only if some scenario shows what it changes; add one that does"))
    }
}

#[cfg(test)]
mod tests {
    use thalweg_lab::engine::SimEngine;

    use super::*;
    use crate::lab::named::scenario_files;

    #[test]
    fn what_new_writes_can_be_run() {
        for preset in presets::PRESETS {
            let text = template(preset.name);
            Scenario::parse("new.toml", &text, Path::new(""), &SimEngine::default().stacks())
                .unwrap_or_else(|error| panic!("{}: {error}", preset.name));
        }
    }

    #[test]
    fn folders_stand_for_the_scenarios_in_them() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["b.toml", "a.toml", "notes.txt"] {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        let files = scenario_files(&[directory.path().to_owned(), PathBuf::from("x.toml")]).unwrap();
        let names: Vec<_> = files.iter().map(|file| file.file_name().unwrap().to_string_lossy().into_owned()).collect();
        assert_eq!(names, ["a.toml", "b.toml", "x.toml"]);
        let empty = tempfile::tempdir().unwrap();
        assert!(matches!(scenario_files(&[empty.path().to_owned()]), Err(Failure::Usage(_))));
    }
}
