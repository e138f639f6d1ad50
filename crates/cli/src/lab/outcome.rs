//! The output of `thalweg lab run` and `merge` on a scenario's results: figures, failures, verdicts.

use thalweg_lab::judgment::Judgment;
use thalweg_lab::results::Results;
use thalweg_lab::scenario::Scenario;
use thalweg_lab::starved::Starved;
use thalweg_lab::summary::{self, Outcome, Tally, Verdict};

use super::tables::tables;
use super::words;
use crate::columns::{WIDTH, sentence, shortened, width};
use crate::paint::{Paint, Tone};

/// How much is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    /// What went wrong.
    Quiet,
    /// The main figures, what fails, and how much holds.
    Normal,
    /// Every figure, setting and verdict.
    Verbose,
}

impl Detail {
    /// What the options ask for.
    pub(super) fn of(quiet: bool, verbose: bool) -> Detail {
        match (quiet, verbose) {
            (true, _) => Detail::Quiet,
            (_, true) => Detail::Verbose,
            _ => Detail::Normal,
        }
    }
}

/// The most verdicts that are printed one by one where not all are asked for.
const MOST_VERDICTS: usize = 40;
/// The most failed runs that are named, and the most points that were left out.
const MOST_FAILURES: usize = 10;
/// Between why a run failed and the command that makes it again.
const REPLAY: &str = "; replay with: ";

/// What was asked.
pub(super) fn question(scenario: &Scenario, paint: Paint) -> String {
    format!("{}\n{}", paint.bold(&scenario.title), sentence(&format!("  {}", scenario.question), 2))
}

/// What came out.
pub(super) fn outcome(results: &Results, judgment: &Judgment, detail: Detail, paint: Paint) -> String {
    let Results { scenario, runs, .. } = results;
    let mut out = String::new();
    if detail != Detail::Quiet {
        out += &tables(results, paint);
    }
    if detail == Detail::Verbose {
        out += &words::figures_of_all(results);
        for (stack, settings) in summary::settings(scenario, runs) {
            out += &sentence(&format!("  {stack}: {settings}"), 4);
        }
    }
    for warning in summary::warnings(scenario).into_iter().filter(|_| detail != Detail::Quiet) {
        out += &sentence(&format!("  {warning}"), 4);
    }
    if let Some(absent) = summary::absent(scenario).filter(|_| detail != Detail::Quiet) {
        out += &sentence(&format!("  {absent}"), 4);
    }
    if detail != Detail::Quiet {
        out += &verdicts(judgment, detail, paint);
    }
    out + &notes(results, judgment, detail)
}

/// What fails, what is known to, and how much holds.
fn verdicts(judgment: &Judgment, detail: Detail, paint: Paint) -> String {
    let mut out = String::new();
    let is_good = |verdict: &&Verdict| verdict.outcome.is_good();
    let (good, bad): (Vec<&Verdict>, Vec<&Verdict>) = judgment.verdicts.iter().partition(is_good);
    let most = if detail == Detail::Verbose { usize::MAX } else { MOST_VERDICTS };
    // What fails for sure comes before what cannot be told.
    let (fails, unsure): (Vec<&Verdict>, Vec<&Verdict>) =
        bad.into_iter().partition(|verdict| verdict.outcome == Outcome::Fails);
    let bad: Vec<&Verdict> = fails.into_iter().chain(unsure).collect();
    for verdict in bad.iter().take(most) {
        out += &judged(verdict, detail, paint);
    }
    if let Some(more) = bad.len().checked_sub(most).filter(|more| *more > 0) {
        out += &format!("  … and {more} more that do not hold; the report shows all\n");
    }
    if detail == Detail::Verbose {
        for verdict in good {
            out += &judged(verdict, detail, paint);
        }
        for remark in words::remarks(judgment.tally) {
            out += &sentence(&format!("  {remark}"), 4);
        }
    } else {
        out += &known(&judgment.verdicts, paint);
        if judgment.tally.beaten > 0 {
            out += &sentence(&format!("  {}", words::beaten(judgment.tally.beaten)), 4);
        }
    }
    out + &holds(judgment, paint)
}

/// An expectation, what was found, and its outcome.
fn judged(verdict: &Verdict, detail: Detail, paint: Paint) -> String {
    let text = sentence(&format!("  {}", words::sentence(verdict)), 4);
    let because = verdict.because.as_ref().filter(|_| detail == Detail::Verbose);
    let because = because.map_or_else(String::new, |because| sentence(&format!("    because {because}"), 6));
    let word = verdict.outcome.word().to_uppercase();
    text.replacen(&word, &paint.tone(tone(verdict.outcome), &word), 1) + &because
}

fn tone(outcome: Outcome) -> Tone {
    match outcome {
        Outcome::Holds | Outcome::HoldsSoFar | Outcome::Beaten => Tone::Good,
        Outcome::HoldsBarely | Outcome::CannotTell | Outcome::FallsShort | Outcome::BeatenBarely => Tone::Doubt,
        Outcome::Fails | Outcome::Unknown => Tone::Bad,
    }
}

/// What is known to fall short, in one line: as many as fit are named.
fn known(verdicts: &[Verdict], paint: Paint) -> String {
    let short: Vec<&Verdict> = verdicts.iter().filter(|verdict| verdict.outcome == Outcome::FallsShort).collect();
    if short.is_empty() {
        return String::new();
    }
    let mut line = "  known to fall short: ".to_owned();
    for (number, verdict) in short.iter().enumerate() {
        let name = words::place_of(verdict);
        // The first is named however long it is.
        let room = WIDTH.saturating_sub(width(&line) + width(&verdict.measured) + width(" ()") + width("; 1000 more"));
        let name = if number == 0 { shortened(&[name], room).concat() } else { name };
        let name = if name.is_empty() { verdict.measured.clone() } else { format!("{} ({name})", verdict.measured) };
        let between = if number > 0 { "; " } else { "" };
        let left = short.len() - number;
        let more = format!("{between}{left} more");
        // The last needs no room for the rest.
        let reserve = if left > 1 { width(&format!("; {} more", left - 1)) } else { 0 };
        if width(&line) + width(between) + width(&name) + reserve > WIDTH {
            line += &more;
            break;
        }
        line += &format!("{between}{name}");
    }
    paint.tone(Tone::Doubt, &line) + "\n"
}

/// How much holds.
fn holds(judgment: &Judgment, paint: Paint) -> String {
    let Tally { expected, good, .. } = judgment.tally;
    let mut parts = Vec::new();
    if expected > 0 {
        let doubts = judgment.tally.doubts().map_or_else(String::new, |doubts| format!(": {doubts}"));
        parts.push(format!("{good} of {}{doubts}", words::hold(expected)));
    }
    parts.extend(judgment.tally.known());
    if judgment.excused > 0 {
        parts.push(format!("{} cannot be told from so few runs", judgment.excused));
    }
    if parts.is_empty() {
        return String::new();
    }
    let tone = match () {
        () if judgment.broken > 0 => Tone::Bad,
        () if good < expected => Tone::Doubt,
        () => Tone::Good,
    };
    paint.tone(tone, sentence(&format!("  {}", parts.join("; ")), 4).trim_end()) + "\n"
}

/// What else should be known: what was left out, and every failed run with the command that makes it again.
fn notes(results: &Results, judgment: &Judgment, detail: Detail) -> String {
    let Results { scenario, .. } = results;
    let name = &scenario.name;
    let mut out = String::new();
    let mut note = |text: String| out += &sentence(&format!("thalweg: {name}: {text}"), 4);
    if let Some((seeds, asked)) = judgment.few_seeds {
        let seeds = words::counted(seeds, "seed");
        note(format!("judged on {seeds} instead of {asked}; what more seeds may change does not count"));
    }
    if detail != Detail::Quiet {
        for dropped in scenario.remarks.left_out.iter().take(MOST_FAILURES) {
            note(format!("dropped {dropped}"));
        }
        if let Some(more) = scenario.remarks.left_out.len().checked_sub(MOST_FAILURES).filter(|more| *more > 0) {
            note(format!("dropped {more} more points, for like reasons"));
        }
    }
    if let Some(until) = judgment.until.as_ref().filter(|until| !until.is_met()) {
        note(until.to_string());
    }
    if let Some(starved) = Starved::of(scenario, &results.runs).filter(|_| detail != Detail::Quiet) {
        note(starved.to_string());
        // A command stays in one line, to be copied.
        out += &format!("    replay with: {}\n", starved.replay);
    }
    out + &failures(results, judgment, detail)
}

/// The failed runs: how many, or each with the command that makes it again.
fn failures(results: &Results, judgment: &Judgment, detail: Detail) -> String {
    let name = &results.scenario.name;
    let all: Vec<&str> = results.runs.values().filter_map(|run| run.failed()).collect();
    if all.is_empty() {
        return String::new();
    }
    let runs = words::counted(all.len() as u64, "run");
    if detail == Detail::Normal && judgment.passes() {
        return format!("thalweg: {name}: {runs} failed, as the scenario allows; --verbose names them\n");
    }
    let mut out = String::new();
    for failure in all.iter().take(MOST_FAILURES) {
        // A command stays in one line, to be copied.
        match failure.split_once(REPLAY) {
            Some((reason, command)) => {
                out += &sentence(&format!("thalweg: {reason}"), 4);
                out += &format!("    {}{command}\n", REPLAY.trim_start_matches("; "));
            }
            None => out += &sentence(&format!("thalweg: {failure}"), 4),
        }
    }
    if let Some(more) = all.len().checked_sub(MOST_FAILURES).filter(|more| *more > 0) {
        out += &format!("thalweg: {name}: {more} more runs failed; the manifest names them\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use thalweg_lab::engine::Engine as _;
    use thalweg_lab::engine::SimEngine;
    use thalweg_lab::record::{Part, RunRecord, put};
    use thalweg_lab::store::{Manifest, Store};

    use super::*;

    /// Results of a scenario whose runs were never made: every flow took longer at each point, and a little more with
    /// each seed; every third point failed if `failing`.
    fn made_up(scenario: Scenario, directory: &Path, failing: bool) -> Results {
        let mut runs = summary::Runs::new();
        for (point, at) in scenario.points.iter().enumerate() {
            for seed in 1..=7_u64 {
                if failing && point % 3 == 0 {
                    let reason =
                        format!("seed {seed}: something {}; replay with: thalweg lab run x", "long ".repeat(40));
                    runs.insert((point, seed), &RunRecord::failure(reason));
                    continue;
                }
                let mut record = RunRecord { wire_hash: format!("{point}-{seed}"), ..RunRecord::default() };
                put(&mut record.values, "success", 1.0);
                for flow in &at.world.flows {
                    let mut part = Part { name: flow.name.clone(), ..Part::default() };
                    let value = 1.0 + point as f64 + seed as f64 / 100.0;
                    part.set("completed", 1.0);
                    for metric in ["completion", "completion_over_floor", "silence_after_repair"] {
                        part.set(metric, value);
                    }
                    part.set("goodput", 8e7 / value);
                    part.set("packets_lost", (17 * point) as f64);
                    part.notes.insert("settings".to_owned(), "controller=cubic, start=hystart++, ".repeat(9));
                    record.flows.push(part);
                }
                runs.insert((point, seed), &record);
            }
        }
        let mut manifest = Manifest::new(&scenario, "made up");
        (manifest.seeds, manifest.complete) = (7, true);
        Results { scenario, runs, manifest, store: Store::create(directory).unwrap() }
    }

    fn scenarios() -> Vec<Scenario> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
        let stacks = SimEngine::default().stacks();
        let folders = ["", "beside", "chance", "outage", "recovery", "satellite", "start"].map(|name| root.join(name));
        let files = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap().flatten());
        let files = files.map(|entry| entry.path()).filter(|file| file.extension().is_some_and(|it| it == "toml"));
        files.map(|file| Scenario::load(&file, &stacks).unwrap()).collect()
    }

    #[test]
    fn every_scenario_fits_a_terminal() {
        let directory = tempfile::tempdir().unwrap();
        let all = scenarios();
        assert!(all.len() > 30, "{}", all.len());
        for (scenario, failing) in all.into_iter().flat_map(|it| [(it.clone(), false), (it, true)]) {
            let results = made_up(scenario, directory.path(), failing);
            let judgment = Judgment::of(&results);
            for detail in [Detail::Normal, Detail::Verbose] {
                let text =
                    question(&results.scenario, Paint::NONE) + &outcome(&results, &judgment, detail, Paint::NONE);
                for line in text.lines() {
                    let name = &results.scenario.name;
                    assert!(width(line) <= WIDTH, "{name}: {} columns: {line}", width(line));
                    assert_eq!(line.trim_end(), line, "{name}");
                }
                let most = if detail == Detail::Normal { 300 } else { 5_000 };
                assert!(text.lines().count() < most, "{}", text.lines().count());
            }
        }
    }

    fn tour(failing: bool) -> Results {
        let directory = tempfile::tempdir().unwrap();
        let tour = scenarios().into_iter().find(|scenario| scenario.name == "tour").unwrap();
        made_up(tour, directory.path(), failing)
    }

    #[test]
    fn what_fails_comes_before_what_holds_and_in_red() {
        let results = tour(false);
        let judgment = Judgment::of(&results);
        assert!(judgment.broken > 0, "made-up figures do not meet what the tour expects");
        let text = outcome(&results, &judgment, Detail::Normal, Paint::NONE);
        let lines: Vec<&str> = text.lines().collect();
        let at = |what: &str| lines.iter().position(|line| line.contains(what));
        let holds = at(" expectations hold").unwrap();
        assert!(at("FAILS: ").unwrap() < holds && !text.contains("HOLDS"), "{text}");
        let fails = judgment.verdicts.iter().filter(|verdict| verdict.outcome == Outcome::Fails).count();
        assert_eq!(text.matches("FAILS: ").count(), fails);
        // Words, not columns: the same text with color.
        let colored = outcome(&results, &judgment, Detail::Normal, Paint::ALWAYS);
        assert_eq!(colored.matches("\u{1b}[31mFAILS\u{1b}[0m: ").count(), fails, "{colored}");
        assert!(!text.contains('\u{1b}'));
    }

    #[test]
    fn every_verdict_is_for_those_who_ask_and_nothing_is_for_the_quiet() {
        let results = tour(false);
        let judgment = Judgment::of(&results);
        let verbose = outcome(&results, &judgment, Detail::Verbose, Paint::NONE);
        let words = ["FAILS", "HOLDS", "HOLDS, BARELY", "CANNOT TELL", "UNKNOWN", "KNOWN: FALLS SHORT", "BEATEN"];
        let said: usize = words.iter().map(|word| verbose.matches(&format!("  {word}: ")).count()).sum();
        assert!(said >= judgment.verdicts.len(), "{said} of {}", judgment.verdicts.len());
        assert!(verbose.contains("controller=cubic"));
        assert_eq!(outcome(&results, &judgment, Detail::Quiet, Paint::NONE), "");
    }

    #[test]
    fn a_command_that_makes_a_failed_run_again_keeps_its_line() {
        let results = tour(true);
        let judgment = Judgment::of(&results);
        for detail in [Detail::Quiet, Detail::Normal] {
            let text = outcome(&results, &judgment, detail, Paint::NONE);
            assert_eq!(text.matches("\n    replay with: thalweg lab run x\n").count(), MOST_FAILURES, "{text}");
            assert!(text.contains("more runs failed; the manifest names them"), "{text}");
        }
    }
}
