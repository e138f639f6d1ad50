//! `thalweg lab`: questions as scenario files, answered with intervals and verdicts.

mod collection;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use thalweg_lab::distinct;
use thalweg_lab::engine::SimEngine;
use thalweg_lab::hash::Digest;
use thalweg_lab::metric::{self, METRICS, Scope, Unit};
use thalweg_lab::record::Engine;
use thalweg_lab::report::{self, Results};
use thalweg_lab::runner::{self, Finished, Progress, RunOptions, Shard};
use thalweg_lab::scenario::{Scenario, keys, presets};
use thalweg_lab::stats::{Missing, Statistic};
use thalweg_lab::store::{Store, write_whole};
use thalweg_lab::summary::{self, Cell, Difference, Outcome, Tally, Verdict};

use crate::failure::{Context, Failure, Result};
use crate::output;

/// `thalweg lab`.
#[derive(Debug, Args)]
pub struct LabArgs {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Debug, Subcommand)]
enum LabCommand {
    /// Run scenarios, judge what they expect, write reports
    Run(RunArgs),
    /// Show how one set of results differs from another, seed by seed
    Compare(CompareArgs),
    /// List scenarios, or the presets, keys and metrics they can name
    List(ListArgs),
    /// Write a scenario to begin with
    New(NewArgs),
    /// Write the report of results again
    Report(ReportArgs),
    /// Run again what results say was run, and check that the same comes out
    Verify(VerifyArgs),
    /// Put the parts of a sharded sweep together
    Merge(MergeArgs),
    /// Check that every policy changes what happens in some scenario
    Policies(PoliciesArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thalweg lab run scenarios/satellite.toml
  thalweg lab run scenarios --seeds 100 --out results      # every scenario in the folder, in one report
  thalweg lab run sweep.toml --shard 3/16 --out part-3     # then: thalweg lab merge part-* --out all")]
struct RunArgs {
    /// Scenario files, or folders with such
    #[arg(required = true, value_name = "FILE-or-FOLDER")]
    scenarios: Vec<PathBuf>,
    /// Where results go; of several scenarios, each gets a folder in it, and all one report. Part of the runs never
    /// replaces other results: it goes beside them, to DIR-1of4 or DIR-p0-s3 [default: results/NAME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Instead of the scenario's number of seeds
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    seeds: Option<u64>,
    /// No more than so many seeds of each scenario; what is expected is judged on them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000), conflicts_with = "seeds")]
    max_seeds: Option<u64>,
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
    /// Print results as JSON on stdout
    #[arg(long)]
    json: bool,
    /// Say only what went wrong
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Debug, Args)]
struct CompareArgs {
    /// Results to compare with
    a: PathBuf,
    /// Results to be compared
    b: PathBuf,
    /// Where the page goes
    #[arg(long, value_name = "FILE", default_value = "comparison.html")]
    out: PathBuf,
    /// Print differences as JSON on stdout
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Folders with scenarios [default: scenarios]
    folders: Vec<PathBuf>,
    /// List the paths that scenarios can name as presets
    #[arg(long)]
    presets: bool,
    /// List the keys of paths and directions, and the queue disciplines
    #[arg(long)]
    keys: bool,
    /// List what is measured
    #[arg(long)]
    metrics: bool,
    /// List what is measured as tables for docs/lab.md
    #[arg(long, conflicts_with_all = ["presets", "keys", "metrics"])]
    markdown: bool,
}

#[derive(Debug, Args)]
struct NewArgs {
    /// The file to write
    file: PathBuf,
    /// The path to begin with
    #[arg(long, default_value = "broadband")]
    preset: String,
}

#[derive(Debug, Args)]
struct ReportArgs {
    /// Results
    directory: PathBuf,
}

#[derive(Debug, Args)]
struct VerifyArgs {
    /// Results
    directory: PathBuf,
    /// Threads; 0 for one per processor
    #[arg(long, default_value_t = 0)]
    threads: usize,
}

#[derive(Debug, Args)]
struct MergeArgs {
    /// Results of parts
    #[arg(required = true)]
    directories: Vec<PathBuf>,
    /// Where the whole goes
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

#[derive(Debug, Args)]
struct PoliciesArgs {
    /// Scenario files, or folders with such
    #[arg(default_value = "scenarios/policies", value_name = "FILE-or-FOLDER")]
    scenarios: Vec<PathBuf>,
}

fn parse_shard(text: &str) -> std::result::Result<Shard, String> {
    text.parse()
}

impl LabArgs {
    /// Runs the command on the simulator with the stacks that `engine` knows. Its results are those of this very build.
    ///
    /// # Errors
    ///
    /// When an expectation or a run failed (1), or the scenario or command line is wrong (2).
    pub fn run(self, engine: SimEngine) -> Result<()> {
        self.run_with(&engine.with_build(&this_program()))
    }

    /// Runs the command on any engine.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub fn run_with(self, engine: &dyn Engine) -> Result<()> {
        match self.command {
            LabCommand::Run(args) => args.run(engine),
            LabCommand::Compare(args) => args.run(engine),
            LabCommand::List(args) => args.run(engine),
            LabCommand::New(args) => args.run(engine),
            LabCommand::Report(args) => args.run(engine),
            LabCommand::Verify(args) => args.run(engine),
            LabCommand::Merge(args) => args.run(engine),
            LabCommand::Policies(args) => args.run(engine),
        }
    }
}

/// A digest of the program that runs, by which its results are known from those of another build.
pub fn this_program() -> Digest {
    let program = std::env::current_exe().and_then(std::fs::File::open).and_then(Digest::of_reader);
    // Whoever cannot read itself is not told from others of its kind.
    program.unwrap_or_else(|_| Digest::of(b""))
}

/// Becomes true at the first Ctrl-C; the second ends the program.
fn stop_on_interrupt() -> &'static AtomicBool {
    static STOP: AtomicBool = AtomicBool::new(false);
    std::thread::spawn(|| {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        runtime.block_on(async {
            while tokio::signal::ctrl_c().await.is_ok() {
                if STOP.swap(true, Ordering::Relaxed) {
                    std::process::exit(130);
                }
                eprintln!("thalweg: finishing the runs that are under way; press Ctrl-C again to stop at once");
            }
        });
    });
    &STOP
}

fn bar(quiet: bool) -> ProgressBar {
    if quiet || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} runs, {eta} left");
    let bar = ProgressBar::new(0);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn show(bar: &ProgressBar, progress: Progress) {
    bar.set_length(progress.total as u64);
    bar.set_position(progress.done as u64);
}

/// Scenario files: those named, and those in folders named, in the order of their names.
fn scenario_files(named: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in named {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let entries = std::fs::read_dir(path).context(format!("cannot read {}", path.display()))?;
        let mut inside: Vec<PathBuf> = entries
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
            .collect();
        inside.sort();
        if inside.is_empty() {
            return Err(Failure::usage(format!("{} has no scenarios; they end in .toml", path.display())));
        }
        files.extend(inside);
    }
    Ok(files)
}

/// Reads scenarios, all of them before any is run, so that a slip in the last is not told an hour later.
fn load_scenarios(named: &[PathBuf], engine: &dyn Engine) -> Result<Vec<Scenario>> {
    let files = scenario_files(named)?;
    let stacks = engine.stacks();
    let mut scenarios = Vec::new();
    let mut wrong = Vec::new();
    for file in &files {
        match Scenario::load(file, &stacks) {
            Ok(scenario) => scenarios.push(scenario),
            Err(error) => wrong.push(error.to_string()),
        }
    }
    if wrong.is_empty() { Ok(scenarios) } else { Err(Failure::usage(wrong.join("\n"))) }
}

impl RunArgs {
    fn run(self, engine: &dyn Engine) -> Result<()> {
        let scenarios = load_scenarios(&self.scenarios, engine)?;
        if let Some(point) = self.point
            && let Some(short) = scenarios.iter().find(|scenario| scenario.points.len() <= point)
        {
            let (file, count) = (&short.file, short.points.len());
            return Err(Failure::usage(format!("{file} has {count} points, so --point goes from 0 to {}", count - 1)));
        }
        let stop = stop_on_interrupt();
        let several = scenarios.len() > 1;
        self.check_runs(&scenarios)?;
        let (root, directories) = self.places(&scenarios)?;
        let mut done = Vec::new();
        let mut failed = Vec::new();
        let mut ended = Ok(());
        for (scenario, out) in scenarios.into_iter().zip(directories) {
            let name = scenario.name.clone();
            match self.one(scenario, engine, &out, stop).and_then(|(results, verdict)| {
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
        let root = collection::root(&self.scenarios, self.out.as_deref(), scenarios.first(), several);
        let directories = collection::directories(scenarios, &root, several);
        let part = self.part();
        if part.is_empty() || self.out.is_some() && directories.iter().all(|directory| self.is_free(directory)) {
            return Ok((root, directories));
        }
        let mut beside = root.components().as_path().to_owned();
        match beside.file_name() {
            Some(_) => beside.as_mut_os_string().push(&part),
            // Of "." and ".." there is no beside.
            None => beside.push(part.trim_start_matches('-')),
        }
        let directories = collection::directories(scenarios, &beside, several);
        if let Some(taken) = directories.iter().find(|directory| !self.is_free(directory)) {
            let taken = taken.display();
            return Err(Failure::usage(format!("{taken} holds other results; name another folder with --out")));
        }
        if self.out.is_some() {
            eprintln!("thalweg: {} holds other results; these go to {}", root.display(), beside.display());
        }
        Ok((beside, directories))
    }

    /// Refuses what nobody waits for and no memory holds.
    fn check_runs(&self, scenarios: &[Scenario]) -> Result<()> {
        for scenario in scenarios {
            let points = if self.point.is_some() { 1 } else { scenario.points.len() as u64 };
            let seeds = self.seeds.unwrap_or(scenario.seeds).min(self.max_seeds.unwrap_or(u64::MAX));
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

    /// What tells the folder of a part from that of the whole: "-p0-s3" or "-1of4"; empty for the whole.
    fn part(&self) -> String {
        let part = |letter, number: Option<u64>| number.map_or_else(String::new, |n| format!("-{letter}{n}"));
        let shard = self.shard.map_or_else(String::new, |shard| format!("-{}", shard.to_string().replace('/', "of")));
        shard + &part('p', self.point.map(|point| point as u64)) + &part('s', self.seed)
    }

    /// Whether a folder has no results, or those of the same part.
    fn is_free(&self, directory: &Path) -> bool {
        if !directory.join("manifest.json").exists() {
            return true;
        }
        let shard = self.shard.map(|shard| shard.to_string());
        Store::open(directory)
            .is_ok_and(|(_, known)| (known.shard, known.only_point, known.only_seed) == (shard, self.point, self.seed))
    }

    /// Keeps to `--max-seeds`, and says if the scenario is judged on fewer seeds than it asks for.
    fn capped(&self, scenario: &mut Scenario) {
        if let Some(few) = self.seeds.or(self.max_seeds).filter(|few| *few < scenario.seeds) {
            let (name, asked) = (&scenario.name, scenario.seeds);
            eprintln!(
                "thalweg: {name}: judged on {} instead of {asked}; what more seeds may change does not count",
                counted(few, "seed")
            );
        }
        let Some(most) = self.max_seeds else { return };
        scenario.seeds = scenario.seeds.min(most);
        if let Some(until) = &mut scenario.until {
            until.max_seeds = until.max_seeds.min(most);
        }
    }

    /// Runs one scenario: its results, and whether they are as they should be.
    fn one(
        &self,
        mut scenario: Scenario,
        engine: &dyn Engine,
        out: &Path,
        stop: &AtomicBool,
    ) -> Result<(Results, Result<()>)> {
        let asked = scenario.seeds;
        self.capped(&mut scenario);
        if let (Some(shard), Some(until)) = (self.shard, &scenario.until) {
            let seeds = self.seeds.unwrap_or(scenario.seeds);
            eprintln!(
                "thalweg: {}: part {shard} of {seeds} seeds of each point; \"until\" needs all of them, so the interval of {} may stay wide",
                scenario.name, until.metric.name
            );
        }
        let store = Store::create(out).map_err(Failure::failed)?;
        let bar = bar(self.quiet);
        bar.set_message(scenario.name.clone());
        let progress = |progress| show(&bar, progress);
        let options = RunOptions {
            seeds: self.seeds,
            max_seeds: self.max_seeds,
            only_seed: self.seed,
            only_point: self.point,
            shard: self.shard,
            threads: self.threads,
            stop,
            progress: &progress,
        };
        let began = Instant::now();
        let done = runner::run(&scenario, engine, &store, &options);
        bar.finish_and_clear();
        let resume = "what is done is kept: run the same command again to go on";
        let done = done.map_err(|error| Failure::failed(format!("{error}; {resume}")))?;
        let took = began.elapsed();
        if !self.quiet {
            eprintln!("{}\n  {}", scenario.title, scenario.question);
            eprintln!("  {}", speed(&done, took));
        }
        let interrupted = done.interrupted;
        let failures: Vec<String> = done.runs.values().filter_map(|record| record.failed.clone()).collect();
        // That a rival fails is a result.
        let ours = done.runs.iter().filter(|((point, _), _)| scenario.points[*point].rival.is_none());
        let ours_failed = ours.filter(|(_, record)| record.failed.is_some()).count();
        let unexpected = summary::unexpected_failures(&scenario, &done.runs).0;
        let results = Results { scenario, runs: done.runs, manifest: done.manifest, store };
        let page = results.write().map_err(Failure::failed)?;
        let verdicts = results.verdicts();
        if !self.quiet {
            table(&results);
            for (stack, settings) in summary::settings(&results.scenario, &results.runs) {
                eprintln!("  {stack}: {settings}");
            }
            if let Some(absent) = summary::absent(&results.scenario) {
                eprintln!("  {absent}");
            }
            for verdict in &verdicts {
                eprintln!("  {}", sentence(verdict));
            }
            for line in remarks(Tally::of(&verdicts)) {
                eprintln!("  {line}");
            }
        }
        let until = runner::enough(&results.scenario, &results.runs, &results.manifest);
        if let Some(until) = until.filter(|until| !until.is_met()) {
            eprintln!("thalweg: {}: {until}", results.scenario.name);
        }
        for failure in failures.iter().take(10) {
            eprintln!("thalweg: {failure}");
        }
        if self.json {
            output::json(&json!({ "directory": out, "report": page, "results": report::csv::results(&results) }));
        } else {
            output::line(&page.display().to_string());
        }
        if interrupted {
            return Ok((results, Err(Failure::failed(format!("interrupted; {resume}")))));
        }
        // A shard, a single point or seed sees only part of what the expectations are about.
        let whole = self.shard.is_none() && self.seed.is_none() && self.point.is_none();
        // Where the scenario says how many runs may fail, it has been judged; elsewhere none may.
        let lost = if whole { unexpected } else { ours_failed };
        // On fewer seeds than were asked for intervals are wide: only what lies beyond them is held against the scenario.
        let few = results.manifest.seeds < asked;
        let is_good = |outcome: Outcome| outcome.is_good() || few && outcome == Outcome::CannotTell;
        let broken = verdicts.iter().filter(|verdict| whole && !is_good(verdict.outcome)).count();
        let all = Tally::of(&verdicts).expected;
        let verdict = match (broken, lost) {
            (0, 0) => Ok(()),
            (0, runs) => Err(format!("{} failed unexpectedly", counted(runs as u64, "run"))),
            (broken, 0) => Err(format!("{broken} of {all} expectations do not hold")),
            (broken, runs) => {
                let failed = counted(runs as u64, "run");
                Err(format!("{broken} of {all} expectations do not hold and {failed} failed unexpectedly"))
            }
        };
        Ok((results, verdict.map_err(|reason| Failure::failed(format!("{reason}; see {}", page.display())))))
    }
}

/// How fast it was.
fn speed(done: &Finished, took: Duration) -> String {
    let runs = done.runs.len();
    if done.executed == 0 {
        return format!("{}, all of them done before", counted(runs as u64, "run"));
    }
    // The sum of no floats is a negative zero, which would be printed with its sign.
    let events = done.runs.values().flat_map(|record| record.get(Scope::Run, "", "events")).fold(0.0, |sum, n| sum + n);
    // Runs that were there already have no part in this.
    let events = events * done.executed as f64 / runs.max(1) as f64;
    let seconds = took.as_secs_f64().max(1e-6);
    let reused = if done.reused > 0 { format!(" ({} done before)", done.reused) } else { String::new() };
    let runs = counted(runs as u64, "run");
    format!("{runs}{reused} in {seconds:.1} s, {:.2} million link events per second", events / seconds / 1e6)
}

/// "1 run", "3 runs".
fn counted(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// The main figures of each flow at each point.
fn table(results: &Results) {
    const SHOWN: [&str; 8] = [
        "completion",
        "completion_over_floor",
        "goodput",
        "response",
        "flow_completion",
        "deadline_misses",
        "silence_after_repair",
        "packets_spurious",
    ];
    let rows = summary::rows(&results.scenario, &results.runs, Scope::Flow);
    for row in rows.iter().take(60) {
        let point = results.scenario.points.get(row.point).map(|point| point.name(&results.scenario.axes));
        let cells: Vec<String> = row.cells.iter().filter(|cell| SHOWN.contains(&cell.metric)).map(figures).collect();
        let label = [point.unwrap_or_default(), row.subject.clone()];
        let label: Vec<String> = label.into_iter().filter(|part| !part.is_empty()).collect();
        eprintln!("  {}: {}", label.join(", "), cells.join("; "));
    }
    if rows.len() > 60 {
        eprintln!("  … and {} more in the report", rows.len() - 60);
    }
}

/// A median with its interval, and the high percentiles of times; "(open)" is one that so few runs do not bound from
/// above.
fn figures(cell: &Cell) -> String {
    let unit = metric::find(cell.metric).map_or(Unit::Ratio, |metric| metric.unit);
    let name = cell.metric.replace('_', " ");
    let main = match cell.estimate == f64::INFINITY {
        true => format!("{name} never"),
        false => format!("{name} {}", summary::with_interval(cell.estimate, cell.interval, unit)),
    };
    match cell.missing {
        // That something never happens is no news.
        Some(Missing::Alike(_)) if cell.estimate == 0.0 => return main,
        // Runs with one value each, all the same, have no other percentile.
        Some(missing @ Missing::Alike(_)) if cell.count == cell.runs => return format!("{main} ({missing})"),
        Some(Missing::Few(_)) if cell.runs < 2 => return main,
        _ => {}
    }
    let tails = [("p95", cell.p95), ("p99", cell.p99)].into_iter().filter_map(|(name, tail)| Some((name, tail?)));
    let tails = tails.filter(|_| unit == Unit::Seconds).map(|(name, tail)| {
        let bounded = tail.interval.is_some_and(|interval| interval.high.is_finite());
        let open = if bounded || tail.estimate == f64::INFINITY { "" } else { " (open)" };
        format!(", {name} {}{open}", metric::format(tail.estimate, unit))
    });
    main + &tails.collect::<String>()
}

/// What is to be kept in mind about many verdicts.
fn remarks(tally: Tally) -> Vec<String> {
    let beaten = (tally.beaten > 0)
        .then(|| format!("{} known to fall short, and beaten: write [[expect]] in place of [[known]]", tally.beaten));
    let many = summary::many_intervals(tally.intervals).map(|many| format!("mind that {many}"));
    beaten.into_iter().chain(many).collect()
}

fn sentence(verdict: &Verdict) -> String {
    let place = [verdict.point_name.as_str(), verdict.subject.as_str()];
    let place: Vec<&str> = place.into_iter().filter(|part| !part.is_empty()).collect();
    format!(
        "{}: {} ({}) expected {}, found {}",
        verdict.outcome.word().to_uppercase(),
        verdict.measured,
        place.join(", "),
        verdict.expected,
        verdict.found
    )
}

fn load(directory: &Path, engine: &dyn Engine) -> Result<Results> {
    Results::load(directory, &engine.stacks()).map_err(Failure::usage)
}

impl CompareArgs {
    fn run(self, engine: &dyn Engine) -> Result<()> {
        let (a, b) = (load(&self.a, engine)?, load(&self.b, engine)?);
        let (page, differences) = report::comparison(&a, &b).map_err(Failure::failed)?;
        write_whole(&self.out, page.as_bytes()).map_err(Failure::failed)?;
        if differences.is_empty() {
            return Err(Failure::usage(format!(
                "{} and {} have no point, flow and seed in common",
                self.a.display(),
                self.b.display()
            )));
        }
        for difference in &differences {
            eprintln!("  {}", difference_sentence(difference));
        }
        let intervals = differences.iter().filter(|difference| difference.paired.ratio_interval.is_some()).count();
        if let Some(many) = summary::many_intervals(intervals) {
            eprintln!("  mind that {many}");
        }
        if self.json {
            output::json(&json!({ "report": self.out, "differences": differences }));
        } else {
            output::line(&self.out.display().to_string());
        }
        Ok(())
    }
}

/// What to call the hash of a run that may have panicked.
fn hash_or_panic(hash: &str) -> &str {
    if hash.is_empty() { "of a panic" } else { hash }
}

fn difference_sentence(difference: &Difference) -> String {
    let unit = metric::find(difference.metric).map_or(Unit::Ratio, |metric| metric.unit);
    let paired = &difference.paired;
    let never = match paired.first_never {
        0 => String::new(),
        never => format!("; on {never} of these {} never ends", difference.base),
    };
    let why = paired.missing.map_or_else(String::new, |missing| format!("; {missing}"));
    format!(
        "{} ({}, {}): {}, ratio {}; smaller on {}, larger on {} of {} seeds{never}{why}",
        difference.metric,
        difference.other,
        difference.subject,
        summary::with_interval(paired.difference, paired.difference_interval, unit),
        summary::with_interval(paired.ratio, paired.ratio_interval, Unit::Ratio),
        paired.smaller,
        paired.larger,
        paired.pairs
    )
}

impl ListArgs {
    fn run(self, engine: &dyn Engine) -> Result<()> {
        if self.markdown {
            output::line(metric::markdown().trim_end());
            return Ok(());
        }
        if self.presets {
            for preset in presets::PRESETS {
                output::line(&format!("{:<14} {}", preset.name, preset.doc));
            }
        }
        if self.keys {
            output::line(keys().trim_end());
        }
        if self.metrics {
            for metric in METRICS {
                output::line(&format!("{:<26} {}", metric.name, metric.doc));
            }
            output::line(&format!("statistics: {}", Statistic::ACCEPTED));
        }
        if self.presets || self.keys || self.metrics {
            return Ok(());
        }
        let folders = if self.folders.is_empty() { vec![PathBuf::from("scenarios")] } else { self.folders };
        let mut wrong = 0;
        for file in scenario_files(&folders)? {
            match Scenario::load(&file, &engine.stacks()) {
                Ok(scenario) => {
                    let runs = scenario.points.len() as u64 * scenario.seeds;
                    output::line(&format!("{:<36} {} ({runs} runs)", file.display(), scenario.question));
                }
                Err(error) => {
                    wrong += 1;
                    eprintln!("thalweg: {error}");
                }
            }
        }
        if wrong == 0 { Ok(()) } else { Err(Failure::usage(format!("{wrong} scenarios are wrong"))) }
    }
}

impl NewArgs {
    fn run(self, engine: &dyn Engine) -> Result<()> {
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

impl ReportArgs {
    fn run(self, engine: &dyn Engine) -> Result<()> {
        let mut sets = Vec::new();
        for directory in collection::inside(&self.directory) {
            let results = load(&directory, engine)?;
            let page = results.write().map_err(Failure::failed)?;
            output::line(&page.display().to_string());
            sets.push(results);
        }
        if sets.len() > 1 || sets.first().is_some_and(|results| results.store.directory() != self.directory) {
            output::line(&collection::write(&self.directory, &sets)?.display().to_string());
        }
        Ok(())
    }
}

impl VerifyArgs {
    fn run(self, engine: &dyn Engine) -> Result<()> {
        let stop = stop_on_interrupt();
        let mut wrong = Vec::new();
        for directory in collection::inside(&self.directory) {
            if let Err(failure) = self.one(&directory, engine, stop) {
                match failure {
                    Failure::Failed(reason) if !stop.load(Ordering::Relaxed) => wrong.push(reason),
                    other => return Err(other),
                }
            }
        }
        if wrong.is_empty() { Ok(()) } else { Err(Failure::failed(wrong.join("; "))) }
    }

    fn one(&self, directory: &Path, engine: &dyn Engine, stop: &AtomicBool) -> Result<()> {
        let results = load(directory, engine)?;
        let version = engine.version();
        if results.manifest.engine != version {
            eprintln!("thalweg: the results are of {}, this is {version}", results.manifest.engine);
        }
        let bar = bar(false);
        bar.set_message(format!("verifying {}", results.scenario.name));
        let progress = |progress| show(&bar, progress);
        let options = RunOptions {
            seeds: None,
            max_seeds: None,
            only_seed: None,
            only_point: None,
            shard: None,
            threads: self.threads,
            stop,
            progress: &progress,
        };
        let verification = runner::verify(&results.scenario, engine, &results.manifest, &options);
        bar.finish_and_clear();
        if stop.load(Ordering::Relaxed) {
            return Err(Failure::failed("interrupted before everything was checked"));
        }
        let mismatches = &verification.mismatches;
        for mismatch in mismatches.iter().take(20) {
            eprintln!(
                "thalweg: point {}, seed {}: {} hash {} instead of {}; see it with: {}",
                mismatch.point,
                mismatch.seed,
                mismatch.what,
                hash_or_panic(&mismatch.found),
                hash_or_panic(&mismatch.expected),
                runner::replay(&results.scenario, mismatch.point, mismatch.seed)
            );
        }
        let total = verification.checked;
        for (runs, what) in [
            (verification.absent, "are of stacks that are not in this program; thalweg-peers lab verify has them"),
            (verification.unrepeatable, "are of stacks that do not promise the same run twice"),
        ] {
            if runs > 0 {
                eprintln!("thalweg: not checked: {runs} runs {what}");
            }
        }
        if total == 0 {
            Err(Failure::failed(format!("{}: there was no run to check", results.scenario.name)))
        } else if mismatches.is_empty() {
            eprintln!("thalweg: {}: all {total} runs came out the same", results.scenario.name);
            Ok(())
        } else {
            let (name, wrong) = (&results.scenario.name, mismatches.len());
            Err(Failure::failed(format!("{name}: {wrong} of {total} runs came out differently")))
        }
    }
}

impl MergeArgs {
    fn run(self, engine: &dyn Engine) -> Result<()> {
        let groups = collection::parts(&self.directories);
        let several = groups.len() > 1 || groups.keys().any(|name| !name.as_os_str().is_empty());
        let mut sets = Vec::new();
        for (name, directories) in groups {
            let parts: std::result::Result<Vec<Store>, _> =
                directories.iter().map(|directory| Store::open(directory).map(|(store, _)| store)).collect();
            let parts = parts.map_err(Failure::usage)?;
            let out = self.out.join(name);
            let store = Store::create(&out).map_err(Failure::failed)?;
            let manifest = store.merge(&parts).map_err(Failure::usage)?;
            let asked = manifest.seeds * manifest.points.len() as u64;
            eprintln!("thalweg: {}: {} of {asked} runs", manifest.scenario.name, manifest.runs.len());
            let results = load(&out, engine)?;
            let page = results.write().map_err(Failure::failed)?;
            output::line(&page.display().to_string());
            sets.push(results);
        }
        if several {
            output::line(&collection::write(&self.out, &sets)?.display().to_string());
        }
        Ok(())
    }
}

impl PoliciesArgs {
    fn run(self, engine: &dyn Engine) -> Result<()> {
        let scenarios = load_scenarios(&self.scenarios, engine)?;
        let results = distinct::policies(&scenarios, engine);
        let mut wrong = 0;
        for result in &results {
            let told = if result.told_by.is_empty() { "no scenario".to_owned() } else { result.told_by.join(", ") };
            output::line(&format!("{:<12} {:>2} choices, told apart by {told}", result.field, result.choices));
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
    use thalweg_lab::record::RunRecord;
    use thalweg_lab::store::Manifest;

    use super::*;

    #[test]
    fn what_new_writes_can_be_run() {
        for preset in presets::PRESETS {
            let text = template(preset.name);
            Scenario::parse("new.toml", &text, Path::new(""), &SimEngine::default().stacks())
                .unwrap_or_else(|error| panic!("{}: {error}", preset.name));
        }
    }

    #[test]
    fn no_events_are_no_less_than_none() {
        let scenario =
            Scenario::parse("t.toml", &template("broadband"), Path::new(""), &SimEngine::default().stacks()).unwrap();
        let runs = [((0, 1), RunRecord::failure("panic".to_owned()))].into();
        let manifest = Manifest::new(&scenario, "none");
        let done = Finished { runs, manifest, reused: 0, executed: 1, interrupted: false };
        let said = speed(&done, Duration::from_secs(1));
        assert_eq!(said, "1 run in 1.0 s, 0.00 million link events per second");
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
