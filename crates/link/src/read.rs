//! Reads descriptions from a tree of keys and values, such as a scenario file.
//!
//! Whoever has such a tree implements [`Field`] and [`Table`]: what a value is, what is inside, and how to complain
//! about it. Typed getters come on top. Each complains by itself and returns `None`, so that one reading finds all
//! mistakes.

use core::fmt::Display;
use core::ops::RangeInclusive;

use thalweg_units::{Duration, Rate, exact_duration, parse_bytes, parse_duration};

use crate::Probability;

/// What a value is.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// A string.
    Text(&'a str),
    /// A bare whole number.
    Integer(i64),
    /// A bare number with decimals.
    Float(f64),
    /// True or false.
    Boolean(bool),
    /// See [`Field::items`].
    List,
    /// See [`Field::open`].
    Table,
    /// Something that no description has, in words.
    Other(&'static str),
}

/// A value that knows where it was written.
pub trait Field {
    /// What it is.
    fn value(&self) -> Value<'_>;

    /// The items of a list; a value that is no list counts as a list of one.
    fn items(&self) -> Vec<Box<dyn Field + '_>>;

    /// What is inside, if it is a table.
    fn open(&self) -> Option<Box<dyn Table + '_>>;

    /// Notes that it is wrong. The message states why, and what would be accepted.
    fn complain(&self, message: &dyn Display);
}

/// A table that knows where it was written.
pub trait Table {
    /// The value of `key`, if it is there. From then on the key is accepted.
    fn get(&self, key: &'static str) -> Option<Box<dyn Field + '_>>;

    /// Whether `key` is there.
    fn has(&self, key: &str) -> bool;

    /// Notes that the table as a whole is wrong. The message states why, and what would be accepted.
    fn complain(&self, message: &dyn Display);

    /// Complains about keys that nobody asked for.
    fn finish(self: Box<Self>);
}

impl dyn Table + '_ {
    /// The value of `key`, which has to be there.
    pub fn need(&self, key: &'static str, example: &str) -> Option<Box<dyn Field + '_>> {
        let field = self.get(key);
        if field.is_none() {
            self.complain(&format_args!("needs {key}, for example {key} = {example}"));
        }
        field
    }
}

impl dyn Field + '_ {
    /// What kind of thing it is, for complaints.
    pub fn kind(&self) -> &'static str {
        match self.value() {
            Value::Text(_) => "a string",
            Value::Integer(_) | Value::Float(_) => "a bare number",
            Value::Boolean(_) => "true or false",
            Value::List => "a list",
            Value::Table => "a table",
            Value::Other(kind) => kind,
        }
    }

    /// Complains that it is of another kind than `expected`.
    pub fn wrong_kind(&self, expected: &str) {
        self.complain(&format_args!("is {}; write {expected}", self.kind()));
    }

    /// Whether it is a list.
    pub fn is_list(&self) -> bool {
        self.value() == Value::List
    }

    /// Whether it is a table.
    pub fn is_table(&self) -> bool {
        self.value() == Value::Table
    }

    /// Whether it is this word.
    pub fn is(&self, word: &str) -> bool {
        self.value() == Value::Text(word)
    }

    /// Its items as `read` understands them.
    pub fn list<T>(&self, read: impl Fn(&dyn Field) -> Option<T>) -> Vec<T> {
        self.items().iter().filter_map(|item| read(&**item)).collect()
    }

    /// A string; `expected` names the accepted ones.
    pub fn text(&self, expected: &str) -> Option<&str> {
        let Value::Text(text) = self.value() else {
            self.wrong_kind(expected);
            return None;
        };
        Some(text)
    }

    /// A table; `expected` describes it.
    pub fn table(&self, expected: &str) -> Option<Box<dyn Table + '_>> {
        let table = self.open();
        if table.is_none() {
            self.wrong_kind(expected);
        }
        table
    }

    fn quantity<T, E: Display>(
        &self,
        expected: &str,
        parse: impl Fn(&str) -> Result<T, E>,
        example: &str,
    ) -> Option<T> {
        let bare = match self.value() {
            Value::Text(text) => match parse(text) {
                Ok(value) => return Some(value),
                Err(error) => {
                    self.complain(&error);
                    return None;
                }
            },
            Value::Integer(number) => number.to_string(),
            Value::Float(number) => number.to_string(),
            _ => {
                self.wrong_kind(expected);
                return None;
            }
        };
        self.complain(&format_args!("{bare} has no unit; write {expected}, such as \"{bare} {example}\""));
        None
    }

    /// A duration such as "300 ms".
    pub fn duration(&self) -> Option<Duration> {
        self.quantity("a duration in quotes", parse_duration, "ms")
    }

    /// A duration that is not zero.
    pub fn span(&self) -> Option<Duration> {
        let span = self.duration()?;
        if span.is_zero() {
            self.complain(&"must be longer than zero");
            return None;
        }
        Some(span)
    }

    /// A duration within bounds.
    pub fn duration_in(&self, range: RangeInclusive<Duration>) -> Option<Duration> {
        let span = self.duration()?;
        if !range.contains(&span) {
            let [span, least, most] = [span, *range.start(), *range.end()].map(exact_duration);
            self.complain(&format_args!("{span} is out of range; write {least} to {most}"));
            return None;
        }
        Some(span)
    }

    /// A duration, or a range "1 s..24 s" of them.
    pub fn duration_range(&self) -> Option<RangeInclusive<Duration>> {
        if let Value::Text(text) = self.value()
            && let Some((from, to)) = text.split_once("..")
        {
            return match (parse_duration(from.trim()), parse_duration(to.trim())) {
                (Ok(from), Ok(to)) if from <= to => Some(from..=to),
                (Ok(_), Ok(_)) => {
                    self.complain(&"the range is empty; write the smaller duration first, such as \"1 s..24 s\"");
                    None
                }
                (Err(error), _) | (_, Err(error)) => {
                    self.complain(&error);
                    None
                }
            };
        }
        self.duration().map(|span| span..=span)
    }

    /// A rate such as "250 Mbps", not zero.
    pub fn rate(&self) -> Option<Rate> {
        let rate = self.quantity("a rate in quotes", str::parse::<Rate>, "Mbps")?;
        if rate == Rate::ZERO {
            self.complain(&"a rate of zero never delivers anything; for a pause use outages or suspensions");
            return None;
        }
        Some(rate)
    }

    /// A byte count such as "100 MB".
    pub fn bytes(&self) -> Option<u64> {
        self.quantity("a byte count in quotes", parse_bytes, "B")
    }

    /// A byte count within bounds.
    pub fn bytes_in(&self, range: RangeInclusive<u64>) -> Option<u64> {
        let bytes = self.bytes()?;
        if !range.contains(&bytes) {
            let (least, most) = (range.start(), range.end());
            self.complain(&format_args!("{bytes} B is out of range; write {least} B to {most} B"));
            return None;
        }
        Some(bytes)
    }

    /// A byte count that is not zero.
    pub fn size(&self) -> Option<u64> {
        self.bytes_in(1..=1 << 50)
    }

    /// A bare whole number within bounds.
    pub fn count(&self, range: RangeInclusive<u64>) -> Option<u64> {
        let expected = format!("a whole number from {} to {}", range.start(), range.end());
        let Value::Integer(number) = self.value() else {
            self.wrong_kind(&expected);
            return None;
        };
        let count = u64::try_from(number).ok().filter(|number| range.contains(number));
        if count.is_none() {
            self.complain(&format_args!("{number} is out of range; write {expected}"));
        }
        count
    }

    /// A share from 0 to 1: 0.01 or "1 %".
    pub fn share(&self) -> Option<f64> {
        let expected = "a share: a number from 0 to 1, or \"1 %\"";
        let (value, written) = match self.value() {
            Value::Float(number) => (number, number.to_string()),
            Value::Integer(number) if (0..=1).contains(&number) => (number as f64, number.to_string()),
            Value::Integer(number) => {
                self.complain(&format_args!("{number} is not a share; did you mean \"{number} %\"? write {expected}"));
                return None;
            }
            Value::Text(text) => match text.trim().strip_suffix('%').map(|number| number.trim().parse::<f64>()) {
                Some(Ok(percent)) => (percent / 100.0, text.to_owned()),
                _ => {
                    self.complain(&format_args!("\"{text}\" is not {expected}"));
                    return None;
                }
            },
            _ => {
                self.wrong_kind(expected);
                return None;
            }
        };
        if !(0.0..=1.0).contains(&value) {
            self.complain(&format_args!("{written} is out of range; write {expected}"));
            return None;
        }
        Some(value)
    }

    /// The same as a probability.
    pub fn probability(&self) -> Option<Probability> {
        Probability::new(self.share()?).ok()
    }

    /// A bare number within bounds.
    pub fn number_in(&self, range: RangeInclusive<f64>) -> Option<f64> {
        let expected = format!("a number from {} to {}", range.start(), range.end());
        let number = self.number(&expected)?;
        if !range.contains(&number) {
            self.complain(&format_args!("{number} is out of range; write {expected}"));
            return None;
        }
        Some(number)
    }

    /// A bare number.
    pub fn number(&self, expected: &str) -> Option<f64> {
        match self.value() {
            Value::Float(number) if number.is_finite() => Some(number),
            Value::Integer(number) => Some(number as f64),
            _ => {
                self.wrong_kind(expected);
                None
            }
        }
    }

    /// True or false.
    pub fn boolean(&self) -> Option<bool> {
        let Value::Boolean(value) = self.value() else {
            self.wrong_kind("true or false");
            return None;
        };
        Some(value)
    }

    /// One of a fixed set of names.
    pub fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Option<T> {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let expected = format!("one of {}", names.join(", "));
        let text = self.text(&expected)?;
        if let Some((_, value)) = choices.iter().find(|(name, _)| *name == text) {
            return Some(*value);
        }
        let hint =
            nearest(text, names.iter().copied()).map_or(String::new(), |near| format!("did you mean \"{near}\"? "));
        self.complain(&format_args!("\"{text}\" is not known; {hint}write {expected}"));
        None
    }
}

/// The name among `known` that `word` was probably meant to be.
pub fn nearest<'n>(word: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let folded = fold(word);
    let close = |name: &str| 1 + name.chars().count() / 4;
    known
        .into_iter()
        // Each character too many or too few is an edit.
        .filter(|name| folded.len().abs_diff(name.chars().count()) <= close(name))
        .map(|name| (distance(&folded, &fold(name)), name))
        .filter(|(distance, name)| *distance <= close(name))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

fn fold(word: &str) -> Vec<char> {
    word.chars().map(|c| if c == '-' || c == ' ' { '_' } else { c.to_ascii_lowercase() }).collect()
}

/// Edits (insertion, deletion, replacement, exchange of neighbors) between two words.
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
    fn a_slip_of_the_pen_is_recognized() {
        let known = ["rate", "delay", "queue", "jitter", "time_limit"];
        assert_eq!(nearest("quue", known), Some("queue"));
        assert_eq!(nearest("dealy", known), Some("delay"));
        assert_eq!(nearest("time-limit", known), Some("time_limit"));
        assert_eq!(nearest("colour", known), None);
    }
}
