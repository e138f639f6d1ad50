//! `thalweg lab run`: runs scenarios, prints what came out, and fails if a scenario does not pass.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use clap::Args;
use serde_json::json;
use thalweg_lab::engine::Engine;
use thalweg_lab::judgment::{Judgment, Reason};
use thalweg_lab::report;
use thalweg_lab::results::Results;
use thalweg_lab::runner::{self, Progress, RunOptions, Shard};
use thalweg_lab::scenario::Scenario;
use thalweg_lab::store::Store;

use super::forecast::{Forecast, forecast};
use super::named::{check_point, load_scenarios, tell_renamed};
use super::outcome::{Detail, outcome, question};
use super::progress::Bar;
use super::tier::TierName;
use super::why::why;
use super::{collection, stop_on_interrupt, words};
use crate::failure::{Failure, Result};
use crate::output;
use crate::paint::Paint;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thalweg lab run scenarios/satellite/download.toml
  thalweg lab run scenarios --seeds 100 --out results      # every scenario in the folder, in one report
  thalweg lab run question.toml --why                      # what made the slowest transfer of each point slow
  thalweg lab run sweep.toml --shard 3/16 --out part-3     # then: thalweg lab merge part-* --out all")]
pub(super) struct RunArgs {
    /// Scenario files, or folders with such
    #[arg(required = true, value_name = "FILE-or-FOLDER")]
    scenarios: Vec<PathBuf>,
    /// Where results go; of several scenarios, each gets a folder in it, and all one report. Part of the runs never
    /// replaces other results: it goes beside them, to DIR-1of4 or DIR-p0-s3 [default: results/NAME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Override the scenario's seed count
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    seeds: Option<u64>,
    /// Run at most so many seeds of each scenario, and judge its expectations on them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000), conflicts_with = "seeds")]
    max_seeds: Option<u64>,
    /// Only scenarios of this tier, in folders below those named too
    #[arg(long, value_name = "TIER", conflicts_with_all = ["seeds", "seed"])]
    tier: Option<TierName>,
    /// The first seed, in place of the scenario's: other runs of the same points, such as to see whether a difference
    /// comes again. Their results never replace those of other seeds: they go beside them, to DIR-from101
    #[arg(long, value_name = "SEED", value_parser = clap::value_parser!(u64).range(0..=i64::MAX as u64), conflicts_with = "seed")]
    first_seed: Option<u64>,
    /// Only part i of n of the runs
    #[arg(long, value_name = "i/n", value_parser = parse_shard)]
    shard: Option<Shard>,
    /// Only this seed
    #[arg(long, value_name = "SEED", conflicts_with_all = ["seeds", "shard"])]
    seed: Option<u64>,
    /// Only this point of [vary], from 0
    #[arg(long, value_name = "N")]
    point: Option<usize>,
    /// Threads; 0 for one per processor
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Also trace one run of each point, the first that failed or the slowest, and say what made its transfer slow
    #[arg(long, conflicts_with = "quiet")]
    why: bool,
    /// Print results as JSON on stdout
    #[arg(long)]
    json: bool,
    /// Print only what went wrong
    #[arg(long, short)]
    quiet: bool,
    /// Print every figure, setting and verdict
    #[arg(long, short, conflicts_with = "quiet")]
    verbose: bool,
}

fn parse_shard(text: &str) -> std::result::Result<Shard, String> {
    text.parse()
}

impl RunArgs {
    pub(super) fn run(self, engine: &dyn Engine) -> Result<()> {
        let mut scenarios = match self.tier {
            Some(tier) => tier.scenarios(&self.scenarios, engine)?,
            None => load_scenarios(&self.scenarios, engine)?,
        };
        if !self.quiet {
            scenarios.iter().for_each(tell_renamed);
        }
        for scenario in &mut scenarios {
            scenario.first_seed = self.first_seed.unwrap_or(scenario.first_seed);
        }
        if let Some(point) = self.point {
            scenarios.iter().try_for_each(|scenario| check_point(scenario, point))?;
        }
        let stop = stop_on_interrupt();
        let several = scenarios.len() > 1;
        self.check_runs(&scenarios)?;
        let (root, directories) = self.places(&scenarios)?;
        let Forecast { said, made } = match self.quiet {
            true => Forecast { said: None, made: vec![0; scenarios.len()] },
            false => forecast(&scenarios, &directories, engine, &self.options(stop, &|_| {}))?,
        };
        if let Some(said) = said {
            eprintln!("thalweg: {said}");
        }
        let mut done = Vec::new();
        let mut failed = Vec::new();
        let mut ended = Ok(());
        let count = scenarios.len();
        for (number, ((scenario, out), made)) in scenarios.into_iter().zip(directories).zip(made).enumerate() {
            let name = scenario.name.clone();
            let bar = Bar::of_scenario(&name, several.then_some((number + 1, count)), self.quiet);
            match self.one(scenario, engine, (&out, bar, made), stop).and_then(|(results, verdict)| {
                done.push(results);
                verdict
            }) {
                Ok(()) => {}
                Err(Failure::Failed(reason)) if !stop.load(Ordering::Relaxed) && several => {
                    eprintln!("thalweg: {reason}");
                    failed.push(name);
                }
                Err(other) => {
                    ended = Err(other);
                    break;
                }
            }
        }
        // An interrupt does not take away the report of what is done.
        if several && !done.is_empty() {
            let page = collection::write(&root, &done)?;
            if self.json {
                output::json(&json!({ "report": page }));
            } else {
                output::line(&page.display().to_string());
            }
        }
        ended?;
        if failed.is_empty() { Ok(()) } else { Err(Failure::failed(format!("failed: {}", failed.join(", ")))) }
    }

    /// Where the results of all go, and those of each scenario. A part of a scenario's runs goes to a folder of its own
    /// beside the results that it is a part of, never over them: to the folder of `--out` itself if that has no other
    /// results.
    fn places(&self, scenarios: &[Scenario]) -> Result<(PathBuf, Vec<PathBuf>)> {
        let several = scenarios.len() > 1;
        let mut root = collection::root(&self.scenarios, self.out.as_deref(), scenarios.first(), several);
        if let Some(tier) = self.tier.filter(|_| self.out.is_none()) {
            // Other scenarios, and other numbers of seeds, than a run without a tier.
            root.as_mut_os_string().push(format!("-{}", tier.word()));
        }
        let directories = collection::directories(scenarios, &root, several);
        let part = self.part();
        let taken = |directories: &[PathBuf]| {
            let mut both = scenarios.iter().zip(directories);
            both.find(|(scenario, directory)| !self.is_free(scenario, directory)).map(|(_, taken)| taken.clone())
        };
        if part.is_empty() || self.out.is_some() && taken(&directories).is_none() {
            return Ok((root, directories));
        }
        let mut beside = root.components().as_path().to_owned();
        match beside.file_name() {
            Some(_) => beside.as_mut_os_string().push(&part),
            // Of "." and ".." there is no beside.
            None => beside.push(part.trim_start_matches('-')),
        }
        let directories = collection::directories(scenarios, &beside, several);
        if let Some(taken) = taken(&directories) {
            let taken = taken.display();
            return Err(Failure::usage(format!("{taken} holds other results; name another folder with --out")));
        }
        if self.out.is_some() {
            eprintln!("thalweg: {} holds other results; these go to {}", root.display(), beside.display());
        }
        Ok((beside, directories))
    }

    /// Refuses more runs than anybody waits for and memory holds.
    fn check_runs(&self, scenarios: &[Scenario]) -> Result<()> {
        for scenario in scenarios {
            let points = if self.point.is_some() { 1 } else { scenario.points.len() as u64 };
            let seeds = self.options(&AtomicBool::new(false), &|_| {}).seeds_of(scenario);
            let seeds = if self.seed.is_some() { 1 } else { seeds };
            let runs = points.saturating_mul(seeds);
            if runs > runner::MOST_RUNS {
                return Err(Failure::usage(format!(
                    "{}: {points} points with {seeds} seeds are {runs} runs; at most {} are accepted, so ask for fewer seeds \
                     or split the scenario",
                    scenario.file,
                    runner::MOST_RUNS
                )));
            }
        }
        Ok(())
    }

    /// What tells the folder of a part, or of other seeds, from that of the whole: "-p0-s3", "-1of4" or "-from101";
    /// empty for the whole.
    fn part(&self) -> String {
        let part = |letter, number: Option<u64>| number.map_or_else(String::new, |n| format!("-{letter}{n}"));
        let shard = self.shard.map_or_else(String::new, |shard| format!("-{}", shard.to_string().replace('/', "of")));
        let first = self.first_seed.map_or_else(String::new, |first| format!("-from{first}"));
        shard + &first + &part('p', self.point.map(|point| point as u64)) + &part('s', self.seed)
    }

    /// Whether a folder has no results, or those of the same part of the scenario, with the same seeds.
    fn is_free(&self, scenario: &Scenario, directory: &Path) -> bool {
        if !directory.join("manifest.json").exists() {
            return true;
        }
        let shard = self.shard.map(|shard| shard.to_string());
        Store::open(directory).is_ok_and(|(_, known)| {
            (known.first_seed, known.shard, known.only_point, known.only_seed)
                == (scenario.first_seed, shard, self.point, self.seed)
        })
    }

    /// Which runs to make.
    fn options<'a>(&self, stop: &'a AtomicBool, progress: &'a (dyn Fn(Progress) + Sync)) -> RunOptions<'a> {
        RunOptions {
            seeds: self.seeds,
            max_seeds: self.max_seeds,
            at_gate: self.tier == Some(TierName::Gate),
            only_seed: self.seed,
            only_point: self.point,
            shard: self.shard,
            threads: self.threads,
            ..RunOptions::new(stop, progress)
        }
    }

    /// Runs one scenario, of which so many runs are made already: its results, and the failure if they do not pass.
    fn one(
        &self,
        scenario: Scenario,
        engine: &dyn Engine,
        (out, bar, made): (&Path, Bar, usize),
        stop: &AtomicBool,
    ) -> Result<(Results, Result<()>)> {
        let (detail, paint) = (Detail::of(self.quiet, self.verbose), Paint::of_stderr());
        let progress = |progress| bar.show(progress);
        let options = self.options(stop, &progress);
        if let (Some(shard), Some(until)) = (self.shard, &scenario.until) {
            eprintln!(
                "thalweg: {}: part {shard} of {} seeds of each point; \"until\" needs all of them, so the interval of {} may \
                 stay wide",
                scenario.name,
                options.seeds_of(&scenario),
                until.metric.name
            );
        }
        let store = Store::create(out).map_err(Failure::failed)?;
        let began = Instant::now();
        let done = runner::run(&scenario, engine, &store, &options);
        bar.end();
        let resume = "what is done is kept: run the same command again to go on";
        let mut done = done.map_err(|error| Failure::failed(format!("{error}; {resume}")))?;
        // What the forecast has made belongs to this command, too.
        (done.reused, done.executed) = (done.reused.saturating_sub(made), done.executed + made);
        if !self.quiet {
            eprintln!("{}  {}", question(&scenario, paint), words::speed(&done, began.elapsed()));
        }
        let results = Results { scenario, runs: done.runs, manifest: done.manifest, store };
        let page = results.write().map_err(Failure::failed)?;
        let judgment = Judgment::of(&results);
        eprint!("{}", outcome(&results, &judgment, detail, paint));
        let why = if self.why && !done.interrupted { why(&results, engine) } else { Vec::new() };
        if self.json {
            let results = report::json::results(&results);
            let mut said = json!({ "directory": out, "report": page, "results": results });
            if self.why {
                said["why"] = json!(why);
            }
            output::json(&said);
        } else {
            if !why.is_empty() {
                eprintln!("why the slowest run of each point took so long");
            }
            why.iter().for_each(|said| eprint!("{}", said.text()));
            output::line(&page.display().to_string());
        }
        let verdict = match judgment.passes() {
            false if done.interrupted => Err(Failure::failed(format!("interrupted; {resume}"))),
            _ => verdict(&judgment, &page),
        };
        Ok((results, verdict))
    }
}

/// The failure of results that do not pass, with the reasons.
pub(super) fn verdict(judgment: &Judgment, page: &Path) -> Result<()> {
    if judgment.passes() {
        return Ok(());
    }
    let reasons: Vec<String> = judgment.reasons.iter().map(Reason::to_string).collect();
    Err(Failure::failed(format!("{}; see {}", reasons.join(" and "), page.display())))
}
