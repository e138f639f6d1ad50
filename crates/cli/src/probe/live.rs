//! What a measurement shows while it goes on: lines that change on a terminal, a line now and then elsewhere.

use std::io::IsTerminal as _;
use std::time::Duration;

use console::{Term, truncate_str};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use thalweg_probe::{Client, Findings, Passage};
use thalweg_units::Instant;

use super::words::time;
use crate::text::sparkline;

/// What the lines of a terminal show, in nanoseconds.
const WINDOW: i64 = 30_000_000_000;
/// Time that a character of a plot stands for, in nanoseconds.
const STEP: i64 = 500_000_000;
/// Columns of a line before its plot.
const WORDS: usize = 45;
/// Time from line to line where there is no terminal.
const EVERY: Duration = Duration::from_secs(10);
/// A suspension is told when it has been over for this long, in nanoseconds: all that it held has been reported by
/// then.
const SETTLED: i64 = 1_500_000_000;

/// The view of a measurement that goes on.
pub(super) struct Live {
    length: Duration,
    /// Nothing is shown.
    quiet: bool,
    lines: Option<(MultiProgress, [ProgressBar; 4])>,
    /// When the next line is due where there is no terminal.
    next: Option<Instant>,
    /// Up to when suspensions and pauses have been told.
    told: i64,
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    // The template is constant; if it were wrong, the default style still shows the message.
    if let Ok(style) = ProgressStyle::with_template("{msg}") {
        bar.set_style(style);
    }
    bar
}

impl Live {
    pub(super) fn new(quiet: bool, length: Duration) -> Live {
        let lines = (!quiet && std::io::stderr().is_terminal()).then(|| {
            let all = MultiProgress::new();
            let bars = [(); 4].map(|()| all.add(bar()));
            (all, bars)
        });
        Live { length, quiet, lines, next: None, told: 0 }
    }

    /// A line that stays.
    pub(super) fn say(&self, line: &str) {
        match &self.lines {
            _ if self.quiet => {}
            Some((all, _)) => all.suspend(|| eprintln!("{line}")),
            None => eprintln!("{line}"),
        }
    }

    /// Takes the changing lines away.
    pub(super) fn end(&mut self) {
        if let Some((all, _)) = self.lines.take() {
            let _ = all.clear();
        }
    }

    /// Shows how it goes.
    pub(super) fn show(&mut self, client: &Client, now: Instant) {
        let is_due = self.lines.is_some() || self.next.is_none_or(|next| now >= next);
        if self.quiet || !client.is_running() {
            return;
        }
        let trace = client.trace();
        let since = now.as_nanos().saturating_sub(WINDOW as u64);
        let Some(findings) = Findings::of(&trace.since(since)) else { return };
        let elapsed = now.as_nanos().saturating_sub(trace.started) as i64;
        self.tell(&findings, elapsed);
        if !is_due {
            return;
        }
        if self.next.is_none() && self.lines.is_none() {
            // The first line has something to tell.
            self.next = Some(now + EVERY);
            return;
        }
        self.next = Some(now + EVERY);
        match &self.lines {
            Some((_, bars)) => {
                let columns = usize::from(Term::stderr().size().1).saturating_sub(1);
                for (bar, line) in bars.iter().zip(lines(&findings, elapsed, self.length, columns)) {
                    bar.set_message(truncate_str(&line, columns, "…").into_owned());
                }
            }
            None => self.say(&line(&findings, elapsed)),
        }
    }

    /// Tells suspensions and pauses that are over.
    fn tell(&mut self, findings: &Findings, elapsed: i64) {
        let until = elapsed - SETTLED;
        let mut told: Vec<(i64, String)> = Vec::new();
        for event in findings.events.iter().filter(|event| event.end > self.told && event.end <= until) {
            let (held, lost) = event.datagrams();
            let lost = if lost > 0 { format!(", {lost} lost") } else { String::new() };
            let way = if event.way() == "both" { "both ways" } else { event.way() };
            let text = format!("suspended {way} for {}, {held} held{lost}", time(event.length()));
            told.push((event.start, text));
        }
        for pause in findings.pauses.iter().filter(|pause| pause.end > self.told && pause.end <= until) {
            let who = match pause.end_of_path {
                thalweg_probe::End::Client => "this computer",
                thalweg_probe::End::Server => "the server's computer",
            };
            told.push((pause.start, format!("{who} did not run for {}", time(pause.end - pause.start))));
        }
        self.told = self.told.max(until);
        told.sort();
        for (at, text) in told {
            self.say(&format!("{:>7.1} s  {text}", at as f64 / 1e9));
        }
    }
}

/// Median and greatest of delays.
fn middle_and_most(mut delays: Vec<i64>) -> Option<(i64, i64)> {
    delays.sort_unstable();
    Some((*delays.get(delays.len() / 2)?, *delays.last()?))
}

fn recent(passages: &[Passage], from: i64) -> (Vec<i64>, usize) {
    let recent = &passages[passages.partition_point(|passage| passage.sent < from)..];
    let delays: Vec<i64> = recent.iter().filter_map(Passage::delay).collect();
    let lost = recent.len() - delays.len();
    (delays, lost)
}

fn line(findings: &Findings, elapsed: i64) -> String {
    let from = elapsed - EVERY.as_nanos() as i64;
    let trips = findings.round_trips.iter().filter(|(at, _)| *at >= from).map(|(_, trip)| *trip).collect();
    let describe = |delays| {
        middle_and_most(delays)
            .map_or("none".to_owned(), |(middle, most)| format!("{} (max {})", time(middle), time(most)))
    };
    let (up, lost_up) = recent(&findings.up.passages, from);
    let (down, lost_down) = recent(&findings.down.passages, from);
    format!(
        "{:>7.1} s  round trip {}, up {}, down {}, lost {lost_up} up, {lost_down} down",
        elapsed as f64 / 1e9,
        describe(trips),
        describe(up),
        describe(down)
    )
}

/// The greatest delay of each of the last `count` steps.
fn steps(values: impl Iterator<Item = (i64, i64)>, elapsed: i64, count: usize) -> Vec<Option<f64>> {
    let mut steps = vec![None; count];
    for (at, value) in values {
        let back = (elapsed - at).max(0) / STEP;
        if let Some(place) = usize::try_from(back).ok().and_then(|back| steps.len().checked_sub(1 + back)) {
            let most: &mut Option<f64> = &mut steps[place];
            *most = Some(most.map_or(value as f64, |most: f64| most.max(value as f64)));
        }
    }
    steps
}

fn lines(findings: &Findings, elapsed: i64, length: Duration, columns: usize) -> [String; 4] {
    // What a narrow terminal has no room for is the past.
    let most_steps = columns.saturating_sub(WORDS).min((WINDOW / STEP) as usize);
    let trips: Vec<(i64, i64)> = findings.round_trips.clone();
    let [up, down] = [&findings.up, &findings.down].map(|way| {
        let delays = way.passages.iter().filter_map(|each| Some((each.sent, each.delay()?)));
        (delays.collect::<Vec<_>>(), way.fate.lost)
    });
    let plot = |name: &str, values: &[(i64, i64)], lost: Option<u64>| {
        let steps = steps(values.iter().copied(), elapsed, most_steps);
        let most = steps.iter().flatten().copied().fold(0.0, f64::max);
        let middle = middle_and_most(values.iter().map(|(_, value)| *value).collect()).map_or(0, |(middle, _)| middle);
        let lost = lost.map_or(String::new(), |lost| format!("{lost} lost"));
        let plot = sparkline(&steps, most);
        format!("{name:<11}{:>8}  max {:>8}  {lost:>8}  {plot}", time(middle), time(most as i64))
    };
    let rate = 1e9 / findings.interval.max(1) as f64;
    [
        format!(
            "{:.0} s of {:.0} s, {rate:.0} datagrams a second each way",
            elapsed as f64 / 1e9,
            length.as_secs_f64()
        ),
        plot("round trip", &trips, None),
        plot("up", &up.0, Some(up.1)),
        plot("down", &down.0, Some(down.1)),
    ]
}
