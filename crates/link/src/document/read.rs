//! Typed reading of a [`Node`] tree: complaints name file, line, key and what would be accepted, and reading carries on
//! with a harmless value, so that one reading finds all mistakes. The typed getters are those of
//! [`crate::read`].

use core::cell::RefCell;
use core::fmt;
use core::ops::{Deref, Range};

use super::diagnostic::Source;
use super::tree::{Entry, Node, Value};
use crate::read::{self, nearest};

/// A table being read. Keys asked for are remembered; [`Reader::finish`] complains about the others.
pub struct Reader<'a> {
    entries: &'a [Entry],
    span: Range<usize>,
    path: String,
    source: &'a Source<'a>,
    known: RefCell<Vec<&'static str>>,
}

/// A value being read.
#[derive(Clone)]
pub struct Field<'a> {
    /// The value itself.
    pub node: &'a Node,
    /// Its key as a dotted path.
    pub path: String,
    source: &'a Source<'a>,
}

impl<'a> Reader<'a> {
    /// Reads the document itself.
    pub fn root(node: &'a Node, source: &'a Source<'a>) -> Option<Self> {
        Field { node, path: String::new(), source }.table("a document")
    }

    /// The value of `key`, if it is there.
    pub fn get(&self, key: &'static str) -> Option<Field<'a>> {
        self.note(key);
        let entry = self.entries.iter().find(|entry| entry.key == key)?;
        Some(Field { node: &entry.node, path: self.inside(key), source: self.source })
    }

    /// The value of `key`, which has to be there.
    pub fn need(&self, key: &'static str, example: &str) -> Option<Field<'a>> {
        let field = self.get(key);
        if field.is_none() {
            self.complain(format!("needs {key}, for example {key} = {example}"));
        }
        field
    }

    /// The value of `key` under the name that it had before, if it is there. That is noted, so that whoever has the
    /// file read gets the new name.
    pub fn former(&self, former: &'static str, key: &'static str) -> Option<Field<'a>> {
        let entry = self.entries.iter().find(|entry| entry.key == former)?;
        let field = self.get(former)?;
        if self.has(key) {
            field.complain(format!("is now called {key}, which is there as well; write {key} alone"));
        }
        self.source.note_renamed(&entry.key_span, former, key);
        Some(field)
    }

    /// Every key with its value, all of them accepted by name.
    pub fn all(&self) -> Vec<(&'a str, &'a Range<usize>, Field<'a>)> {
        self.entries
            .iter()
            .map(|entry| {
                let field = Field { node: &entry.node, path: self.inside(&entry.key), source: self.source };
                (entry.key.as_str(), &entry.key_span, field)
            })
            .collect()
    }

    /// Accepts a key without reading it.
    pub fn note(&self, key: &'static str) {
        let mut known = self.known.borrow_mut();
        if !known.contains(&key) {
            known.push(key);
        }
    }

    /// Whether `key` is there.
    pub fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|entry| entry.key == key)
    }

    /// Notes that the table as a whole is wrong. The message states why, and what would be accepted.
    pub fn complain(&self, message: impl fmt::Display) {
        self.source.complain(&self.span, &self.path, message);
    }

    /// Complains about keys that nobody asked for.
    pub fn finish(self) {
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
    /// Notes that it is wrong. The message states why, and what would be accepted.
    pub fn complain(&self, message: impl fmt::Display) {
        self.source.complain(&self.node.span, &self.path, message);
    }

    /// The line that it begins in, from 1.
    pub fn line(&self) -> usize {
        self.source.line(self.node.span.start)
    }

    /// A string; `expected` names the accepted ones.
    pub fn text(&self, expected: &str) -> Option<&'a str> {
        match &self.node.value {
            Value::Text(text) => Some(text),
            _ => {
                self.wrong_kind(expected);
                None
            }
        }
    }

    /// A table; `expected` describes it.
    pub fn table(&self, expected: &str) -> Option<Reader<'a>> {
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
    pub fn items(&self) -> Vec<Field<'a>> {
        match &self.node.value {
            Value::List(items) => items
                .iter()
                .enumerate()
                .map(|(index, node)| Field { node, path: format!("{}.{index}", self.path), source: self.source })
                .collect(),
            _ => vec![self.clone()],
        }
    }
}

/// The typed getters of [`read::Field`].
impl<'a> Deref for Field<'a> {
    type Target = dyn read::Field + 'a;

    fn deref(&self) -> &Self::Target {
        self
    }
}

impl read::Field for Field<'_> {
    fn value(&self) -> read::Value<'_> {
        match &self.node.value {
            Value::Text(text) => read::Value::Text(text),
            Value::Integer(number) => read::Value::Integer(*number),
            Value::Float(number) => read::Value::Float(*number),
            Value::Boolean(value) => read::Value::Boolean(*value),
            Value::Moment => read::Value::Other(self.node.kind()),
            Value::List(_) => read::Value::List,
            Value::Table(_) => read::Value::Table,
        }
    }

    fn items(&self) -> Vec<Box<dyn read::Field + '_>> {
        let items = Field::items(self).into_iter();
        items.map(|item| Box::new(item) as Box<dyn read::Field>).collect()
    }

    fn open(&self) -> Option<Box<dyn read::Table + '_>> {
        self.is_table().then(|| self.table("")).flatten().map(|table| Box::new(table) as Box<dyn read::Table>)
    }

    fn complain(&self, message: &dyn fmt::Display) {
        Field::complain(self, message);
    }
}

impl read::Table for Reader<'_> {
    fn get(&self, key: &'static str) -> Option<Box<dyn read::Field + '_>> {
        Reader::get(self, key).map(|field| Box::new(field) as Box<dyn read::Field>)
    }

    fn has(&self, key: &str) -> bool {
        Reader::has(self, key)
    }

    fn complain(&self, message: &dyn fmt::Display) {
        Reader::complain(self, message);
    }

    fn finish(self: Box<Self>) {
        Reader::finish(*self);
    }
}
