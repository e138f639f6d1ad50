//! What is wrong with a scenario file: where it is, which key, and what would be accepted instead.

use core::fmt;
use core::ops::Range;
use std::cell::RefCell;

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
    /// The line itself.
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
pub struct ScenarioError {
    /// At least one.
    pub diagnostics: Vec<Diagnostic>,
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, diagnostic) in self.diagnostics.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            diagnostic.fmt(f)?;
        }
        Ok(())
    }
}

/// How many diagnostics are gathered before reading gives up.
const MOST_DIAGNOSTICS: usize = 20;

/// A file's text, and what has been found wrong with it so far.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    file: &'a str,
    text: &'a str,
    found: RefCell<Vec<(Range<usize>, Diagnostic)>>,
}

impl<'a> Source<'a> {
    pub(crate) fn new(file: &'a str, text: &'a str) -> Self {
        Source { file, text, found: RefCell::new(Vec::new()) }
    }

    /// Notes that `key`, written at `span`, is wrong. The same complaint about the same place is noted once.
    pub(crate) fn complain(&self, span: &Range<usize>, key: &str, message: impl fmt::Display) {
        let mut found = self.found.borrow_mut();
        let message = message.to_string();
        if found.len() >= MOST_DIAGNOSTICS
            || found.iter().any(|(known, diagnostic)| known == span && diagnostic.message == message)
        {
            return;
        }
        let start = span.start.min(self.text.len());
        let before = self.text.get(..start).unwrap_or("");
        let line = before.matches('\n').count() + 1;
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let column = before.get(line_start..).unwrap_or("").chars().count() + 1;
        let excerpt = self.text.lines().nth(line - 1).unwrap_or("").to_owned();
        let diagnostic = Diagnostic { file: self.file.to_owned(), line, column, key: key.to_owned(), message, excerpt };
        found.push((span.clone(), diagnostic));
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.found.borrow().is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.found.borrow().len() >= MOST_DIAGNOSTICS
    }

    /// `value` if nothing was wrong.
    pub(crate) fn verdict<T>(self, value: T) -> Result<T, ScenarioError> {
        let mut found = self.found.into_inner();
        if found.is_empty() {
            return Ok(value);
        }
        found.sort_by_key(|(span, _)| span.start);
        Err(ScenarioError { diagnostics: found.into_iter().map(|(_, diagnostic)| diagnostic).collect() })
    }
}

/// The name among `known` that `word` was probably meant to be.
pub(crate) fn nearest<'n>(word: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let folded = fold(word);
    known
        .into_iter()
        .map(|name| (distance(&folded, &fold(name)), name))
        .filter(|(distance, name)| *distance <= 1 + name.chars().count() / 4)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

fn fold(word: &str) -> Vec<char> {
    word.chars().map(|c| if c == '-' || c == ' ' { '_' } else { c.to_ascii_lowercase() }).collect()
}

/// Edits (insertion, deletion, replacement, exchange of neighbours) between two words.
fn distance(a: &[char], b: &[char]) -> usize {
    let width = b.len() + 1;
    let mut rows = vec![vec![0; width]; a.len() + 1];
    rows[0] = (0..width).collect();
    for i in 1..=a.len() {
        rows[i][0] = i;
        for j in 1..width {
            let replace = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replace.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_pen_is_recognised() {
        let known = ["rate", "delay", "queue", "jitter", "time_limit"];
        assert_eq!(nearest("quue", known), Some("queue"));
        assert_eq!(nearest("dealy", known), Some("delay"));
        assert_eq!(nearest("time-limit", known), Some("time_limit"));
        assert_eq!(nearest("colour", known), None);
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
