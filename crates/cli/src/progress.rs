//! Progress of transfers on stderr: a line per file on a terminal, only notices elsewhere.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use console::{Alignment, Term, measure_text_width, pad_str, truncate_str};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use thalweg_files::client::{Event, EventSink, PathFigures};
use thalweg_units::human_bytes;

use crate::fetch::path_name;
use crate::text::{bits_per_second, milliseconds};

/// Columns of a name and of a bar where there is room.
const WIDE: usize = 24;

/// Fewest columns that a name and a bar are of use in.
const NARROW: usize = 8;

/// The lines of one command. None is wider than the terminal, and there are fewer than it has rows: what does not fit
/// could not be cleared again.
#[derive(Debug)]
pub struct Progress {
    bars: MultiProgress,
    /// One per job.
    jobs: Vec<Job>,
    /// The paths of each connection that uses several, by the server's address.
    paths: BTreeMap<SocketAddr, Paths>,
    /// Whether there are lines.
    shown: bool,
    notices: bool,
}

#[derive(Debug)]
struct Job {
    name: String,
    /// While it runs, if there is room.
    bar: Option<ProgressBar>,
}

/// The paths of a connection.
#[derive(Debug)]
struct Paths {
    bar: ProgressBar,
    /// When they were shown last, and the bytes of each by then.
    last: (Instant, BTreeMap<u32, u64>),
}

impl Progress {
    /// Lines for jobs with these names, if stderr is a terminal and `quiet` is not set.
    pub fn new(names: &[String], quiet: bool) -> Arc<Mutex<Self>> {
        let shown = std::io::stderr().is_terminal() && !quiet;
        // Names come from servers, too.
        let plain = |name: &String| name.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        let jobs = names.iter().map(|name| Job { name: plain(name), bar: None }).collect();
        Arc::new(Mutex::new(Progress {
            bars: MultiProgress::new(),
            jobs,
            paths: BTreeMap::new(),
            shown,
            notices: !quiet,
        }))
    }

    /// Where a fetcher's events go.
    pub fn sink(this: &Arc<Mutex<Self>>) -> EventSink {
        let this = this.clone();
        Arc::new(move |event| {
            this.lock().unwrap_or_else(PoisonError::into_inner).event(event);
        })
    }

    fn event(&mut self, event: &Event) {
        match event {
            Event::Notice(notice) => self.say(&format!("thalweg: {notice}")),
            Event::Started { job, total, resumed_from } => self.show(*job, *resumed_from, *total, 0),
            Event::Progress { job, bytes, total, rate_bps } => self.show(*job, *bytes, *total, *rate_bps),
            Event::Paths { remote, paths } => self.show_paths(*remote, paths),
            Event::Finished { job, .. } => {
                // Its result is printed in words.
                if let Some(bar) = self.jobs.get_mut(*job).and_then(|job| job.bar.take()) {
                    bar.finish_and_clear();
                    self.bars.remove(&bar);
                }
                if self.jobs.iter().all(|job| job.bar.is_none()) {
                    for Paths { bar, .. } in std::mem::take(&mut self.paths).into_values() {
                        bar.finish_and_clear();
                        self.bars.remove(&bar);
                    }
                }
            }
            _ => {}
        }
    }

    fn show(&mut self, job: usize, bytes: u64, total: Option<u64>, rate_bps: u64) {
        if !self.shown {
            return;
        }
        let (rows, columns) = Term::stderr().size();
        let lines = self.jobs.iter().filter(|job| job.bar.is_some()).count();
        let Some(job) = self.jobs.get_mut(job) else { return };
        if job.bar.is_none() && lines + 1 < usize::from(rows) {
            job.bar = Some(self.bars.add(bar()));
        }
        if let Some(bar) = &job.bar {
            bar.set_message(line(usize::from(columns), &job.name, bytes, total, rate_bps));
        }
    }

    /// Shows the paths of a connection below its files, once there are two of them.
    fn show_paths(&mut self, remote: SocketAddr, paths: &[PathFigures]) {
        let lines = self.jobs.iter().filter(|job| job.bar.is_some()).count();
        let (rows, columns) = Term::stderr().size();
        let has_room = lines + self.paths.len() + 1 < usize::from(rows);
        if !self.shown || lines == 0 || paths.len() < 2 || !(has_room || self.paths.contains_key(&remote)) {
            return;
        }
        let bytes = |path: &PathFigures| path.bytes_received + path.bytes_sent;
        let now: BTreeMap<u32, u64> = paths.iter().map(|path| (path.id, bytes(path))).collect();
        let bars = &self.bars;
        let shown = self
            .paths
            .entry(remote)
            .or_insert_with(|| Paths { bar: bars.add(bar()), last: (Instant::now(), now.clone()) });
        let elapsed = shown.last.0.elapsed().as_secs_f64().max(0.001);
        let before = |id: u32| shown.last.1.get(&id).copied().unwrap_or(0);
        let parts: Vec<String> = paths.iter().map(|path| path_part(path, before(path.id), elapsed)).collect();
        let text = format!("  {}", parts.join(" | "));
        shown.bar.set_message(truncate_str(&text, usize::from(columns).saturating_sub(1), "…").into_owned());
        shown.last = (Instant::now(), now);
    }

    /// Prints a line above the bars.
    pub fn say(&self, line: &str) {
        if self.shown {
            // Also when there are no bars yet: they must not be drawn over it.
            self.bars.suspend(|| eprintln!("{line}"));
        } else if self.notices {
            eprintln!("{line}");
        }
    }
}

/// A path of a connection: what it has carried, how fast that was in the last `elapsed` seconds, and its round trip.
fn path_part(path: &PathFigures, before: u64, elapsed: f64) -> String {
    let name = path.interface.clone().unwrap_or_else(|| path_name(path));
    if !path.is_open {
        return format!("{name} closed");
    }
    let bytes = path.bytes_received + path.bytes_sent;
    let rate = bits_per_second(bytes.saturating_sub(before) as f64 * 8.0 / elapsed);
    let rtt = milliseconds(path.rtt.as_secs_f64() * 1000.0);
    format!("{name} {}, {rate}, RTT {rtt}", human_bytes(bytes))
}

/// A bar that shows its message and nothing else.
fn bar() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    // The template is constant; if it were wrong, the default style still shows progress.
    if let Ok(style) = ProgressStyle::with_template("{msg}") {
        bar.set_style(style);
    }
    bar
}

/// One file in fewer than `columns` columns: its name, a bar, how much of it is here, rate and time to go, as much of
/// this as fits. What is here comes first.
fn line(columns: usize, name: &str, bytes: u64, total: Option<u64>, rate_bps: u64) -> String {
    // A full line would move the cursor to the next one.
    let room = columns.saturating_sub(1);
    let amount = match total {
        Some(total) => format!("{} of {}", human_bytes(bytes), human_bytes(total)),
        None => human_bytes(bytes),
    };
    let (rate, left) = describe(bytes, total, rate_bps);
    let least = NARROW.min(measure_text_width(name)) + 1;
    let tails = [format!("{amount}, {rate}{left}"), format!("{amount}, {rate}"), amount.clone()];
    let Some(tail) = tails.into_iter().find(|tail| tail.len() + least <= room) else {
        return truncate_str(&amount, room, "").into_owned();
    };
    let mut spare = room - tail.len() - 1;
    let name_columns = spare.min(WIDE);
    spare -= name_columns;
    // Of the same width whatever the name is, so that the lines of several files stand below each other.
    let name = truncate_str(name, name_columns, "…");
    let name = pad_str(&name, name_columns, Alignment::Left, None);
    match total.filter(|total| *total > 0 && spare > NARROW) {
        Some(total) => format!("{name} {} {tail}", filled((spare - 1).min(WIDE), bytes, total)),
        None => format!("{name} {tail}"),
    }
}

/// `[=====>    ]`, in so many columns.
fn filled(columns: usize, bytes: u64, total: u64) -> String {
    let inner = columns.saturating_sub(2);
    let done = u128::from(bytes.min(total)) * inner as u128 / u128::from(total.max(1));
    let done = usize::try_from(done).unwrap_or(inner);
    let head = if done < inner { ">" } else { "" };
    format!("[{:<inner$}]", format!("{}{head}", "=".repeat(done)))
}

/// Rate, and time to go with a comma before it.
fn describe(bytes: u64, total: Option<u64>, rate_bps: u64) -> (String, String) {
    let rate = bits_per_second(rate_bps as f64);
    let left = match total.map(|total| total.saturating_sub(bytes)) {
        Some(left) if left > 0 && rate_bps > 0 => {
            let seconds = left.saturating_mul(8) / rate_bps;
            format!(", {} to go", clock(Duration::from_secs(seconds)))
        }
        _ => String::new(),
    };
    (rate, left)
}

/// `12 s`, `3:05`, `1:02:03`.
fn clock(span: Duration) -> String {
    let seconds = span.as_secs();
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{rest} s"),
        (0, minutes) => format!("{minutes}:{rest:02}"),
        (hours, minutes) => format!("{hours}:{minutes:02}:{rest:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_to_go_is_what_is_left_at_the_present_rate() {
        let both = |rate: &str, left: &str| (rate.to_owned(), left.to_owned());
        assert_eq!(describe(0, Some(1_000_000), 8_000), both("8.00 kbps", ", 16:40 to go"));
        assert_eq!(describe(10, Some(10), 8_000), both("8.00 kbps", ""));
        assert_eq!(describe(10, None, 8_000), both("8.00 kbps", ""));
        assert_eq!(describe(10, Some(20), 0), both("0.000 bps", ""));
        assert_eq!(clock(Duration::from_secs(3723)), "1:02:03");
        assert_eq!(clock(Duration::from_secs(12)), "12 s");
    }

    #[test]
    fn a_line_is_narrower_than_the_terminal_and_says_how_much_is_here() {
        for name in ["a", "a-rather-long-name-of-a-file.tar.gz", "日本語の長い名前のファイル.bin"] {
            for total in [None, Some(0), Some(12_345_678), Some(u64::MAX)] {
                for columns in 0..200 {
                    let line = line(columns, name, 1_234_567.min(total.unwrap_or(u64::MAX)), total, 12_345_678);
                    let width = measure_text_width(&line);
                    assert!(width < columns.max(1), "{width} of {columns}: {line:?}");
                    if columns > 30 && total == Some(12_345_678) {
                        assert!(line.contains("1.23 MB of 12.3 MB"), "{columns}: {line:?}");
                    }
                }
            }
        }
        let wide = line(100, "file.iso", 50, Some(100), 8);
        assert_eq!(wide, "file.iso                 [===========>          ] 50 B of 100 B, 8.00 bps, 50 s to go");
        assert_eq!(
            line(61, "file.iso", 50, Some(100), 8),
            "file.iso                 50 B of 100 B, 8.00 bps, 50 s to go"
        );
        assert_eq!(line(40, "file.iso", 50, Some(100), 8), "file.iso        50 B of 100 B, 8.00 bps");
        assert_eq!(line(25, "file.iso", 50, Some(100), 8), "file.iso   50 B of 100 B");
    }
}
