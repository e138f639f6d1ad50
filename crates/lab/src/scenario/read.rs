//! Typed reading of a [`Node`] tree: every getter complains by itself, with file, line, key and what would be accepted,
//! and then carries on with a harmless value, so that one reading finds all mistakes.

use core::cell::RefCell;
use core::fmt;
use core::ops::{Range, RangeInclusive};

use thalweg_units::{Duration, Rate, parse_bytes, parse_duration};

use super::diagnostic::{Source, nearest};
use super::tree::{Entry, Node, Value};

/// A table being read. Keys asked for are remembered; [`Reader::finish`] complains about the others.
pub(crate) struct Reader<'a> {
    entries: &'a [Entry],
    span: Range<usize>,
    path: String,
    source: &'a Source<'a>,
    known: RefCell<Vec<&'static str>>,
}

/// A value being read.
#[derive(Clone)]
pub(crate) struct Field<'a> {
    pub(crate) node: &'a Node,
    pub(crate) path: String,
    source: &'a Source<'a>,
}

impl<'a> Reader<'a> {
    /// Reads the document itself.
    pub(crate) fn root(node: &'a Node, source: &'a Source<'a>) -> Option<Self> {
        Field { node, path: String::new(), source }.table("a scenario")
    }

    /// The value of `key`, if it is there.
    pub(crate) fn get(&self, key: &'static str) -> Option<Field<'a>> {
        self.note(key);
        let entry = self.entries.iter().find(|entry| entry.key == key)?;
        Some(Field { node: &entry.node, path: self.inside(key), source: self.source })
    }

    /// The value of `key`, which has to be there.
    pub(crate) fn need(&self, key: &'static str, example: &str) -> Option<Field<'a>> {
        let field = self.get(key);
        if field.is_none() {
            self.complain(format!("needs {key}, for example {key} = {example}"));
        }
        field
    }

    /// Every key with its value, all of them accepted by name.
    pub(crate) fn all(&self) -> Vec<(&'a str, &'a Range<usize>, Field<'a>)> {
        self.entries
            .iter()
            .map(|entry| {
                let field = Field { node: &entry.node, path: self.inside(&entry.key), source: self.source };
                (entry.key.as_str(), &entry.key_span, field)
            })
            .collect()
    }

    /// Accepts a key without reading it.
    pub(crate) fn note(&self, key: &'static str) {
        let mut known = self.known.borrow_mut();
        if !known.contains(&key) {
            known.push(key);
        }
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|entry| entry.key == key)
    }

    pub(crate) fn complain(&self, message: impl fmt::Display) {
        self.source.complain(&self.span, &self.path, message);
    }

    /// Complains about keys that nobody asked for.
    pub(crate) fn finish(self) {
        let mut sorted = self.known.into_inner();
        sorted.sort_unstable();
        for entry in self.entries {
            if sorted.binary_search(&entry.key.as_str()).is_ok() {
                continue;
            }
            if self.source.is_full() {
                // It is only counted.
                self.source.complain(&entry.key_span, "", "");
                continue;
            }
            let hint = nearest(&entry.key, sorted.iter().copied())
                .map_or(String::new(), |near| format!("did you mean \"{near}\"? "));
            let message = format!("unknown key; {hint}accepted here: {}", sorted.join(", "));
            self.source.complain(&entry.key_span, &inside(&self.path, &entry.key), message);
        }
    }

    fn inside(&self, key: &str) -> String {
        inside(&self.path, key)
    }
}

fn inside(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

impl<'a> Field<'a> {
    pub(crate) fn complain(&self, message: impl fmt::Display) {
        self.source.complain(&self.node.span, &self.path, message);
    }

    fn wrong_kind(&self, expected: &str) {
        self.complain(format!("is {}; write {expected}", self.node.kind()));
    }

    /// The line that it begins in, from 1.
    pub(crate) fn line(&self) -> usize {
        self.source.line(self.node.span.start)
    }

    pub(crate) fn text(&self, expected: &str) -> Option<&'a str> {
        match &self.node.value {
            Value::Text(text) => Some(text),
            _ => {
                self.wrong_kind(expected);
                None
            }
        }
    }

    pub(crate) fn table(&self, expected: &str) -> Option<Reader<'a>> {
        match &self.node.value {
            Value::Table(entries) => Some(Reader {
                entries,
                span: self.node.span.clone(),
                path: self.path.clone(),
                source: self.source,
                known: RefCell::new(Vec::new()),
            }),
            _ => {
                self.wrong_kind(expected);
                None
            }
        }
    }

    /// The items of a list; a value that is no list counts as a list of one.
    pub(crate) fn items(&self) -> Vec<Field<'a>> {
        match &self.node.value {
            Value::List(items) => items
                .iter()
                .enumerate()
                .map(|(index, node)| Field { node, path: format!("{}.{index}", self.path), source: self.source })
                .collect(),
            _ => vec![self.clone()],
        }
    }

    pub(crate) fn is_list(&self) -> bool {
        matches!(self.node.value, Value::List(_))
    }

    pub(crate) fn is_table(&self) -> bool {
        matches!(self.node.value, Value::Table(_))
    }

    fn quantity<T, E: fmt::Display>(
        &self,
        expected: &str,
        parse: impl Fn(&str) -> Result<T, E>,
        bare: &str,
    ) -> Option<T> {
        match &self.node.value {
            Value::Text(text) => match parse(text) {
                Ok(value) => Some(value),
                Err(error) => {
                    self.complain(error);
                    None
                }
            },
            Value::Integer(_) | Value::Float(_) => {
                self.complain(format!(
                    "{} has no unit; write {expected}, such as \"{} {bare}\"",
                    self.label(),
                    self.label()
                ));
                None
            }
            _ => {
                self.wrong_kind(expected);
                None
            }
        }
    }

    fn label(&self) -> String {
        self.node.label()
    }

    /// A duration such as "300 ms".
    pub(crate) fn duration(&self) -> Option<Duration> {
        self.quantity("a duration in quotes", parse_duration, "ms")
    }

    /// A duration that is not zero.
    pub(crate) fn span(&self) -> Option<Duration> {
        let span = self.duration()?;
        if span.is_zero() {
            self.complain("must be longer than zero");
            return None;
        }
        Some(span)
    }

    /// A duration, or a range "1 s..24 s" of them.
    pub(crate) fn duration_range(&self) -> Option<RangeInclusive<Duration>> {
        if let Value::Text(text) = &self.node.value
            && let Some((from, to)) = text.split_once("..")
        {
            return match (parse_duration(from.trim()), parse_duration(to.trim())) {
                (Ok(from), Ok(to)) if from <= to => Some(from..=to),
                (Ok(_), Ok(_)) => {
                    self.complain("the range is empty; write the smaller duration first, such as \"1 s..24 s\"");
                    None
                }
                (Err(error), _) | (_, Err(error)) => {
                    self.complain(error);
                    None
                }
            };
        }
        self.duration().map(|span| span..=span)
    }

    /// A rate such as "250 Mbps", not zero.
    pub(crate) fn rate(&self) -> Option<Rate> {
        let rate = self.quantity("a rate in quotes", str::parse::<Rate>, "Mbps")?;
        if rate.bps() == 0 {
            self.complain("a rate of zero never delivers anything; for a pause use outages or suspensions");
            return None;
        }
        Some(rate)
    }

    /// A byte count such as "100 MB".
    pub(crate) fn bytes(&self) -> Option<u64> {
        self.quantity("a byte count in quotes", parse_bytes, "B")
    }

    /// A byte count within bounds.
    pub(crate) fn bytes_in(&self, range: RangeInclusive<u64>) -> Option<u64> {
        let bytes = self.bytes()?;
        if !range.contains(&bytes) {
            self.complain(format!("{bytes} B is out of range; write {} B to {} B", range.start(), range.end()));
            return None;
        }
        Some(bytes)
    }

    /// A byte count that is not zero.
    pub(crate) fn size(&self) -> Option<u64> {
        self.bytes_in(1..=1 << 50)
    }

    /// A bare whole number within bounds.
    pub(crate) fn count(&self, range: RangeInclusive<u64>) -> Option<u64> {
        let expected = format!("a whole number from {} to {}", range.start(), range.end());
        match &self.node.value {
            Value::Integer(number) => match u64::try_from(*number).ok().filter(|number| range.contains(number)) {
                Some(number) => Some(number),
                None => {
                    self.complain(format!("{number} is out of range; write {expected}"));
                    None
                }
            },
            _ => {
                self.wrong_kind(&expected);
                None
            }
        }
    }

    /// A share from 0 to 1: 0.01 or "1 %".
    pub(crate) fn share(&self) -> Option<f64> {
        let expected = "a share: a number from 0 to 1, or \"1 %\"";
        let value = match &self.node.value {
            Value::Float(number) => *number,
            Value::Integer(number) if (0..=1).contains(number) => *number as f64,
            Value::Integer(number) => {
                self.complain(format!("{number} is not a share; did you mean \"{number} %\"? write {expected}"));
                return None;
            }
            Value::Text(text) => match text.trim().strip_suffix('%').map(|number| number.trim().parse::<f64>()) {
                Some(Ok(percent)) => percent / 100.0,
                _ => {
                    self.complain(format!("\"{text}\" is not {expected}"));
                    return None;
                }
            },
            _ => {
                self.wrong_kind(expected);
                return None;
            }
        };
        if !(0.0..=1.0).contains(&value) {
            self.complain(format!("{} is out of range; write {expected}", self.label()));
            return None;
        }
        Some(value)
    }

    /// A bare number.
    pub(crate) fn number(&self, expected: &str) -> Option<f64> {
        match &self.node.value {
            Value::Float(number) if number.is_finite() => Some(*number),
            Value::Integer(number) => Some(*number as f64),
            _ => {
                self.wrong_kind(expected);
                None
            }
        }
    }

    pub(crate) fn boolean(&self) -> Option<bool> {
        match &self.node.value {
            Value::Boolean(value) => Some(*value),
            _ => {
                self.wrong_kind("true or false");
                None
            }
        }
    }

    /// One of a fixed set of names.
    pub(crate) fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Option<T> {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let expected = format!("one of {}", names.join(", "));
        let text = self.text(&expected)?;
        if let Some((_, value)) = choices.iter().find(|(name, _)| *name == text) {
            return Some(*value);
        }
        let hint =
            nearest(text, names.iter().copied()).map_or(String::new(), |near| format!("did you mean \"{near}\"? "));
        self.complain(format!("\"{text}\" is not known; {hint}write {expected}"));
        None
    }
}
