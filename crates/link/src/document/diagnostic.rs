//! Diagnostics of a document: line, key, and the accepted values.

use core::fmt;
use core::ops::Range;
use std::cell::{Cell, RefCell};

/// One thing wrong in one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file as it was named.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The key as a dotted path; empty when the file as a whole is meant.
    pub key: String,
    /// What is wrong and what would be accepted.
    pub message: String,
    /// The line itself; of a long one, what is around the column.
    pub excerpt: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: ", self.file, self.line, self.column)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.message)?;
        if !self.excerpt.trim().is_empty() {
            let number = self.line.to_string();
            write!(f, "\n  {number} | {}", self.excerpt)?;
        }
        Ok(())
    }
}

/// Everything wrong with one file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct DocumentError {
    /// At least one, and 20 at most.
    pub diagnostics: Vec<Diagnostic>,
    /// How many more were found before reading ended.
    pub more: usize,
}

impl fmt::Display for DocumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, diagnostic) in self.diagnostics.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            diagnostic.fmt(f)?;
        }
        if self.more > 0 {
            write!(f, "\n… and {} more", self.more)?;
        }
        Ok(())
    }
}

/// How many diagnostics are gathered before reading gives up.
const MOST_DIAGNOSTICS: usize = 20;
/// Characters of a line that are shown, of a key that is named, and of a message: a file of megabytes makes no error of
/// megabytes.
const MOST_EXCERPT: usize = 120;
const MOST_KEY: usize = 120;
const MOST_MESSAGE: usize = 2000;

/// A file's text, and what has been found wrong with it so far.
#[derive(Debug)]
pub struct Source<'a> {
    file: &'a str,
    text: &'a str,
    /// Where each line begins.
    lines: Vec<usize>,
    found: RefCell<Vec<(Range<usize>, Diagnostic)>>,
    more: Cell<usize>,
    renamed: RefCell<Vec<Renamed>>,
}

/// A key under a name that it had before: still read, but not for long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renamed {
    /// The file as it was named.
    pub file: String,
    /// The line where it is first, from 1.
    pub line: usize,
    /// The name that the file has.
    pub former: &'static str,
    /// The name that it has now.
    pub key: &'static str,
}

impl fmt::Display for Renamed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Renamed { file, line, former, key } = self;
        write!(f, "{file}:{line}: the key {former} is now called {key}; the next version does not read {former}")
    }
}

impl<'a> Source<'a> {
    /// A file of this name and text, with which nothing is wrong yet.
    pub fn new(file: &'a str, text: &'a str) -> Self {
        let lines = [0].into_iter().chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Source { file, text, lines, found: RefCell::default(), more: Cell::new(0), renamed: RefCell::default() }
    }

    /// The line that holds the byte at `at`, from 1.
    pub fn line(&self, at: usize) -> usize {
        self.lines.partition_point(|start| *start <= at).max(1)
    }

    /// Notes that `key`, written at `span`, is wrong. The same complaint about the same place is noted once.
    pub fn complain(&self, span: &Range<usize>, key: &str, message: impl fmt::Display) {
        if self.is_full() {
            return self.more.set(self.more.get() + 1);
        }
        let mut found = self.found.borrow_mut();
        let message = shortened(message.to_string(), MOST_MESSAGE);
        if found.iter().any(|(known, diagnostic)| known == span && diagnostic.message == message) {
            return;
        }
        let start = span.start.min(self.text.len());
        let line = self.line(start);
        let line_start = self.lines[line - 1];
        let column = self.text.get(line_start..start).unwrap_or("").chars().count() + 1;
        let excerpt = self.excerpt(line_start, start);
        let (file, key) = (self.file.to_owned(), shortened(key.to_owned(), MOST_KEY));
        found.push((span.clone(), Diagnostic { file, line, column, key, message, excerpt }));
    }

    /// Notes that `key` goes by its `former` name at `span`. Noted once, wherever else that is so.
    pub(super) fn note_renamed(&self, span: &Range<usize>, former: &'static str, key: &'static str) {
        let mut renamed = self.renamed.borrow_mut();
        if !renamed.iter().any(|known| (known.former, known.key) == (former, key)) {
            renamed.push(Renamed { file: self.file.to_owned(), line: self.line(span.start), former, key });
        }
    }

    /// The keys that go by former names, each once.
    pub fn renamed(&self) -> Vec<Renamed> {
        self.renamed.borrow().clone()
    }

    /// The line that begins at `line_start`; if it is long, the part of it around `at`.
    fn excerpt(&self, line_start: usize, at: usize) -> String {
        let line = self.text.get(line_start..).and_then(|rest| rest.lines().next()).unwrap_or("");
        if line.chars().nth(MOST_EXCERPT).is_none() {
            return line.to_owned();
        }
        let before = line.get(..at - line_start).unwrap_or(line);
        let from = before.char_indices().rev().nth(MOST_EXCERPT / 3).map_or(0, |(from, _)| from);
        let rest = &line[from..];
        let shown = rest.char_indices().nth(MOST_EXCERPT).map_or(rest.len(), |(to, _)| to);
        let cut = |is_cut| if is_cut { "…" } else { "" };
        format!("{}{}{}", cut(from > 0), &rest[..shown], cut(shown < rest.len()))
    }

    /// Whether nothing has been found wrong so far.
    pub fn is_clean(&self) -> bool {
        self.found.borrow().is_empty()
    }

    /// Whether so much has been found wrong that more is only counted.
    pub fn is_full(&self) -> bool {
        self.found.borrow().len() >= MOST_DIAGNOSTICS
    }

    /// `value` if nothing was wrong.
    ///
    /// # Errors
    /// What was found wrong, in the order of the file.
    pub fn verdict<T>(self, value: T) -> Result<T, DocumentError> {
        let mut found = self.found.into_inner();
        if found.is_empty() {
            return Ok(value);
        }
        found.sort_by_key(|(span, _)| span.start);
        let diagnostics = found.into_iter().map(|(_, diagnostic)| diagnostic).collect();
        Err(DocumentError { diagnostics, more: self.more.get() })
    }
}

/// The text with its middle left out if it is longer than so many characters: what is wrong stands at the beginning,
/// what would be accepted at the end.
fn shortened(text: String, most: usize) -> String {
    if text.len() <= most || text.chars().nth(most).is_none() {
        return text;
    }
    let head = text.char_indices().nth(most / 2).map_or(text.len(), |(at, _)| at);
    let tail = text.char_indices().rev().nth(most / 2).map_or(0, |(at, _)| at);
    format!("{} … {}", &text[..head], &text[tail..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_a_long_key_and_a_long_message_are_shown_in_part() {
        let text = format!("a = 1\nx = {{ {}wrong = 1, {} }}\n", "ä = 1, ".repeat(5_000), "b = 1, ".repeat(5_000));
        let at = text.find("wrong").unwrap_or(0);
        let source = Source::new("x.toml", &text);
        source.complain(&(at..at + 5), &"k".repeat(100_000), format_args!("{} is wrong; write 1", "v".repeat(100_000)));
        let error = source.verdict(()).unwrap_err();
        let found = &error.diagnostics[0];
        assert_eq!((found.line, found.column), (2, 35_007));
        assert!(found.excerpt.contains("wrong = 1") && found.excerpt.starts_with('…') && found.excerpt.ends_with('…'));
        assert!(found.message.ends_with("is wrong; write 1"), "{}", found.message);
        assert!(error.to_string().chars().count() < 2_500, "{error}");
    }

    #[test]
    fn what_is_too_much_to_show_is_counted() {
        let source = Source::new("x.toml", "a = 1\n");
        for n in 0..1_000 {
            source.complain(&(0..1), "a", format_args!("is wrong in way {n}"));
        }
        let error = source.verdict(()).unwrap_err();
        assert_eq!((error.diagnostics.len(), error.more), (20, 980));
        assert!(error.to_string().ends_with("\n… and 980 more"), "{error}");
    }

    #[test]
    fn a_diagnostic_names_line_and_column() {
        let text = "one = 1\n  two = 2\n";
        let source = Source::new("x.toml", text);
        source.complain(&(10..13), "two", "is wrong");
        source.complain(&(10..13), "two", "is wrong");
        let error = source.verdict(()).unwrap_err();
        assert_eq!(error.to_string(), "x.toml:2:3: two: is wrong\n  2 |   two = 2");
    }
}
