//! What a person sees while files move: one bar per file on a terminal, nothing but notices elsewhere.

use std::io::IsTerminal;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use thalweg_files::client::{Event, EventSink};

use crate::text::bits_per_second;

/// The bars of one command.
#[derive(Debug)]
pub struct Progress {
    bars: MultiProgress,
    /// One per job; `None` when bars are off.
    jobs: Vec<Option<ProgressBar>>,
    notices: bool,
}

impl Progress {
    /// Bars for jobs with these names, if stderr is a terminal and `quiet` is not set.
    pub fn new(names: &[String], quiet: bool) -> Arc<Mutex<Self>> {
        let bars = MultiProgress::new();
        let wanted = std::io::stderr().is_terminal() && !quiet;
        let jobs = names.iter().map(|name| wanted.then(|| bars.add(bar(name)))).collect();
        Arc::new(Mutex::new(Progress { bars, jobs, notices: !quiet }))
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
            Event::Started { job, total, resumed_from } => {
                if let Some(bar) = self.job(*job) {
                    if let Some(total) = total {
                        bar.set_length(*total);
                    }
                    bar.set_position(*resumed_from);
                }
            }
            Event::Progress { job, bytes, total, rate_bps } => {
                if let Some(bar) = self.job(*job) {
                    if let Some(total) = total {
                        bar.set_length(*total);
                    }
                    bar.set_position(*bytes);
                    bar.set_message(describe(*bytes, *total, *rate_bps));
                }
            }
            Event::Finished { job, ok } => {
                if let Some(bar) = self.job(*job) {
                    if *ok {
                        bar.finish();
                    } else {
                        bar.abandon();
                    }
                }
            }
            _ => {}
        }
    }

    /// Prints a line above the bars.
    pub fn say(&self, line: &str) {
        if self.jobs.iter().any(Option::is_some) {
            // Only fails when the terminal is gone.
            let _ = self.bars.println(line);
        } else if self.notices {
            eprintln!("{line}");
        }
    }

    fn job(&self, job: usize) -> Option<&ProgressBar> {
        self.jobs.get(job)?.as_ref()
    }
}

fn bar(name: &str) -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    let style =
        ProgressStyle::with_template("{prefix:24!} {bar:24} {decimal_bytes:>10}/{decimal_total_bytes:10} {msg}");
    // The template is constant; if it were wrong, the default style still shows progress.
    if let Ok(style) = style {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.set_prefix(name.to_owned());
    bar
}

/// Rate and time to go.
fn describe(bytes: u64, total: Option<u64>, rate_bps: u64) -> String {
    let rate = bits_per_second(rate_bps as f64);
    let left = total.map(|total| total.saturating_sub(bytes));
    match left {
        Some(0) => rate,
        Some(left) if rate_bps > 0 => {
            let seconds = left.saturating_mul(8) / rate_bps;
            format!("{rate}, {} to go", clock(Duration::from_secs(seconds)))
        }
        _ => rate,
    }
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
        assert_eq!(describe(0, Some(1_000_000), 8_000), "8.00 kbps, 16:40 to go");
        assert_eq!(describe(10, Some(10), 8_000), "8.00 kbps");
        assert_eq!(describe(10, None, 8_000), "8.00 kbps");
        assert_eq!(describe(10, Some(20), 0), "0.000 bps");
        assert_eq!(clock(Duration::from_secs(3723)), "1:02:03");
        assert_eq!(clock(Duration::from_secs(12)), "12 s");
    }
}
