//! Color in messages for people: few colors, each with one meaning, and none where nobody asked for them.

use std::ffi::OsStr;
use std::io::IsTerminal as _;

use clap::builder::styling::{AnsiColor, Style};

/// The meaning of a color.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    /// Nothing: the terminal's own color.
    #[default]
    Plain,
    /// It holds, or it is better: green.
    Good,
    /// It holds barely, or is known: yellow.
    Doubt,
    /// It fails, or it is worse: red.
    Bad,
}

/// Whether messages are colored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Paint {
    colored: bool,
}

impl Paint {
    /// No colors.
    #[cfg(test)]
    pub(crate) const NONE: Paint = Paint { colored: false };
    /// Colors whatever the terminal.
    #[cfg(test)]
    pub(crate) const ALWAYS: Paint = Paint { colored: true };

    /// For stderr of this process.
    pub(crate) fn of_stderr() -> Paint {
        let variable = |name| std::env::var_os(name);
        Paint::chosen(
            std::io::stderr().is_terminal(),
            variable("NO_COLOR").as_deref(),
            variable("CLICOLOR_FORCE").as_deref(),
        )
    }

    /// Colors on a terminal, unless NO_COLOR holds anything (no-color.org); elsewhere if CLICOLOR_FORCE holds anything
    /// but "0". NO_COLOR outranks it.
    fn chosen(terminal: bool, no_color: Option<&OsStr>, force: Option<&OsStr>) -> Paint {
        let refused = no_color.is_some_and(|value| !value.is_empty());
        let forced = force.is_some_and(|value| !value.is_empty() && value != "0");
        Paint { colored: !refused && (terminal || forced) }
    }

    /// The text in the color of its tone.
    pub(crate) fn tone(self, tone: Tone, text: &str) -> String {
        let color = match tone {
            Tone::Plain => None,
            Tone::Good => Some(AnsiColor::Green),
            Tone::Doubt => Some(AnsiColor::Yellow),
            Tone::Bad => Some(AnsiColor::Red),
        };
        match color.filter(|_| self.colored) {
            Some(color) => self.styled(color.on_default(), text),
            None => text.to_owned(),
        }
    }

    /// The text in bold: a title.
    pub(crate) fn bold(self, text: &str) -> String {
        if self.colored { self.styled(Style::new().bold(), text) } else { text.to_owned() }
    }

    fn styled(self, style: Style, text: &str) -> String {
        format!("{style}{text}{style:#}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_are_for_terminals_and_can_be_refused_and_forced() {
        let chosen = |terminal, no_color: Option<&str>, force: Option<&str>| {
            Paint::chosen(terminal, no_color.map(OsStr::new), force.map(OsStr::new)) == Paint::ALWAYS
        };
        assert!(chosen(true, None, None));
        assert!(!chosen(false, None, None));
        assert!(chosen(true, Some(""), None), "an empty NO_COLOR says nothing");
        for value in ["1", "0", "false"] {
            assert!(!chosen(true, Some(value), None), "{value}");
            assert!(!chosen(true, Some(value), Some("1")), "{value}");
        }
        assert!(chosen(false, None, Some("1")));
        assert!(!chosen(false, None, Some("0")) && !chosen(false, None, Some("")));
    }

    #[test]
    fn what_is_colored_ends_colored() {
        for tone in [Tone::Good, Tone::Doubt, Tone::Bad] {
            let text = Paint::ALWAYS.tone(tone, "x");
            assert!(text.starts_with("\u{1b}[") && text.ends_with("\u{1b}[0m") && text.contains('x'), "{text:?}");
            assert_eq!(Paint::NONE.tone(tone, "x"), "x");
        }
        assert_eq!(Paint::ALWAYS.tone(Tone::Plain, "x"), "x");
        assert_eq!(Paint::NONE.bold("x"), "x");
    }
}
