//! The progress of a sweep on a terminal: runs done and failed, and the time left.

use std::io::IsTerminal as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use console::Term;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use thalweg_lab::runner::Progress;

use crate::columns::{WIDTH, shortened};

/// The bar that is on the terminal, so that what is said meanwhile goes above it.
static SHOWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// The most columns of what a bar is of.
const NAME_MOST: usize = 32;

/// A progress bar. Nothing of it stays on the terminal when it ends or is dropped.
#[derive(Debug)]
pub(super) struct Bar {
    bar: ProgressBar,
}

impl Bar {
    /// Of a scenario, if so the `i`-th of `n`; hidden if `quiet`, or if stderr is no terminal.
    pub(super) fn of_scenario(name: &str, of: Option<(usize, usize)>, quiet: bool) -> Bar {
        let visible = !quiet && std::io::stderr().is_terminal();
        let target = if visible { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        Bar::new(name, of, usize::from(Term::stderr().size().1), target)
    }

    fn new(name: &str, of: Option<(usize, usize)>, columns: usize, target: ProgressDrawTarget) -> Bar {
        let bar = ProgressBar::with_draw_target(Some(0), target);
        let style = ProgressStyle::with_template(template(columns));
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
        bar.set_prefix(prefix(name, of));
        if !bar.is_hidden() {
            bar.enable_steady_tick(Duration::from_millis(200));
            *SHOWN.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar.clone());
        }
        Bar { bar }
    }

    /// How far it is.
    pub(super) fn show(&self, progress: Progress) {
        self.bar.set_length(progress.total as u64);
        self.bar.set_position(progress.done as u64);
        self.bar.set_message(failed(progress.failed));
    }

    /// Takes it off the terminal.
    pub(super) fn end(&self) {
        *SHOWN.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.bar.finish_and_clear();
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.end();
    }
}

/// Prints a line on stderr, above the bar if there is one.
pub(super) fn say(line: &str) {
    let shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
    match &*shown {
        Some(bar) => bar.suspend(|| eprintln!("{line}")),
        None => eprintln!("{line}"),
    }
}

/// What a bar shows on a terminal of so many columns. What is wider than the terminal could not be cleared again.
fn template(columns: usize) -> &'static str {
    match columns {
        columns if columns >= NAME_MOST + 48 => "{prefix} {wide_bar} {pos}/{len} runs{msg}, {eta} left",
        columns if columns >= 48 => "{wide_bar} {pos}/{len} runs{msg}, {eta} left",
        _ => "{pos}/{len}, {eta} left",
    }
}

/// "3 of 12: satellite".
fn prefix(name: &str, of: Option<(usize, usize)>) -> String {
    let name = shortened(&[name.to_owned()], NAME_MOST.min(WIDTH)).concat();
    of.map_or_else(|| name.clone(), |(number, count)| format!("{number} of {count}: {name}"))
}

/// ", 2 failed"; nothing if none.
fn failed(count: usize) -> String {
    if count == 0 { String::new() } else { format!(", {count} failed") }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use indicatif::TermLike;

    use super::*;

    /// A terminal that keeps the line on which the cursor is.
    #[derive(Clone, Debug, Default)]
    struct Line(Arc<Mutex<String>>);

    impl Line {
        fn contents(&self) -> String {
            self.0.lock().unwrap().trim().to_owned()
        }
    }

    impl TermLike for Line {
        fn width(&self) -> u16 {
            100
        }

        fn move_cursor_up(&self, _: usize) -> std::io::Result<()> {
            Ok(())
        }

        fn move_cursor_down(&self, _: usize) -> std::io::Result<()> {
            Ok(())
        }

        fn move_cursor_right(&self, _: usize) -> std::io::Result<()> {
            Ok(())
        }

        fn move_cursor_left(&self, _: usize) -> std::io::Result<()> {
            Ok(())
        }

        fn write_line(&self, text: &str) -> std::io::Result<()> {
            self.write_str(text)
        }

        fn write_str(&self, text: &str) -> std::io::Result<()> {
            self.0.lock().unwrap().push_str(text);
            Ok(())
        }

        fn clear_line(&self) -> std::io::Result<()> {
            self.0.lock().unwrap().clear();
            Ok(())
        }

        fn flush(&self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_bar_tells_what_is_done_failed_and_left_and_ends_clean() {
        let terminal = Line::default();
        let target = ProgressDrawTarget::term_like(Box::new(terminal.clone()));
        let bar = Bar::new("satellite", Some((3, 12)), 100, target);
        bar.show(Progress { done: 40, total: 120, failed: 2 });
        bar.bar.tick();
        let shown = terminal.contents();
        for part in ["3 of 12: satellite", "40/120 runs, 2 failed, ", " left"] {
            assert!(shown.contains(part), "{part:?} is not in {shown:?}");
        }
        bar.end();
        assert_eq!(terminal.contents(), "");
    }

    #[test]
    fn a_narrow_terminal_gets_less() {
        assert_eq!(template(80), template(200));
        for (columns, part, is_in) in [(79, "{prefix}", false), (79, "{wide_bar}", true), (47, "{wide_bar}", false)] {
            assert_eq!(template(columns).contains(part), is_in, "{columns} {part}");
        }
    }

    #[test]
    fn names_are_kept_short() {
        assert_eq!(prefix("tour", None), "tour");
        let long = prefix(&"a".repeat(200), Some((1, 2)));
        assert!(long.chars().count() <= NAME_MOST + "1 of 2: ".len(), "{long}");
    }
}
