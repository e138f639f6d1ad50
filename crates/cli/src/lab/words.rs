//! Results in words: counts, figures with their percentiles, expectations.

use std::time::Duration;

use thalweg_lab::metric::{self, Scope, Unit};
use thalweg_lab::results::Results;
use thalweg_lab::runner::Finished;
use thalweg_lab::stats::Missing;
use thalweg_lab::summary::{self, Cell, Tally, Verdict};

use crate::columns::sentence as sentence_of;

/// How many runs were made, and how fast.
pub(super) fn speed(done: &Finished, took: Duration) -> String {
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
pub(super) fn counted(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// The main figures of each flow at each point, with all that is known about them.
pub(super) fn figures_of_all(results: &Results) -> String {
    /// Metrics beyond this place have no room in a line.
    const LAST: u8 = 9;
    let is_shown = |cell: &&Cell| {
        metric::find(cell.metric).and_then(|metric| metric.rank.figures).is_some_and(|place| place <= LAST)
    };
    let rows = summary::rows(&results.scenario, &results.runs, Scope::Flow);
    let mut out = String::new();
    for row in rows.iter().take(60) {
        let point = results.scenario.points.get(row.point).map(|point| point.name(&results.scenario.axes));
        let cells: Vec<String> = row.cells.iter().filter(is_shown).map(figures).collect();
        let label = [point.unwrap_or_default(), row.subject.clone()];
        let label: Vec<String> = label.into_iter().filter(|part| !part.is_empty()).collect();
        out += &sentence_of(&format!("  {}: {}", label.join(", "), cells.join("; ")), 4);
    }
    if rows.len() > 60 {
        out += &format!("  … and {} more in the report\n", rows.len() - 60);
    }
    out
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

/// What to keep in mind about many verdicts.
pub(super) fn remarks(tally: Tally) -> Vec<String> {
    let beaten = (tally.beaten > 0).then(|| beaten(tally.beaten));
    let many = summary::many_intervals(tally.intervals).map(|many| format!("mind that {many}"));
    beaten.into_iter().chain(many).collect()
}

/// What to do about shortfalls that are none any more.
pub(super) fn beaten(count: usize) -> String {
    format!("{count} known to fall short, and beaten: write [[expect]] in place of [[known]]")
}

/// "1 expectation holds", "3 expectations hold".
pub(super) fn hold(expected: usize) -> String {
    if expected == 1 { "1 expectation holds".to_owned() } else { format!("{expected} expectations hold") }
}

/// Where an expectation was judged; empty if there is only one place.
pub(super) fn place_of(verdict: &Verdict) -> String {
    let place = [verdict.point_name.as_str(), verdict.subject.as_str()];
    let place: Vec<&str> = place.into_iter().filter(|part| !part.is_empty()).collect();
    place.join(", ")
}

/// An expectation, what was found, and its outcome.
pub(super) fn sentence(verdict: &Verdict) -> String {
    let place = place_of(verdict);
    let place = if place.is_empty() { String::new() } else { format!(" ({place})") };
    let (outcome, measured) = (verdict.outcome.word().to_uppercase(), &verdict.measured);
    format!("{outcome}: {measured}{place} expected {}, found {}", verdict.expected, verdict.found)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use thalweg_lab::record::RunRecord;
    use thalweg_lab::scenario::Scenario;
    use thalweg_lab::store::Manifest;

    use super::*;

    #[test]
    fn no_events_are_no_less_than_none() {
        let text = "title = \"t\"\nquestion = \"q?\"\n[path.p]\npreset = \"broadband\"\n[[flow]]\ntransfer = { download = \"1 MB\" }\n";
        let scenario =
            Scenario::parse("t.toml", text, Path::new(""), &[thalweg_lab::engine::StackInfo::new("thalweg")]).unwrap();
        let runs = [((0, 1), RunRecord::failure("panic".to_owned()))].into();
        let manifest = Manifest::new(&scenario, "none");
        let done = Finished { runs, manifest, reused: 0, executed: 1, interrupted: false };
        let said = speed(&done, Duration::from_secs(1));
        assert_eq!(said, "1 run in 1.0 s, 0.00 million link events per second");
    }
}
