//! A TOML document as a tree of values with their positions in the file: `[vary]` changes parts of it, and errors still
//! name the right line.

use core::ops::Range;
use std::collections::BTreeMap;

use toml_edit::{Item, TableLike};

use super::diagnostic::Source;
use crate::read::nearest;

/// A value and its position in the file.
#[derive(Clone, Debug)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// The bytes that it is written in.
    pub span: Range<usize>,
}

/// The kinds of values in a document.
#[derive(Clone, Debug)]
pub enum Value {
    /// A string.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// A number with decimals.
    Float(f64),
    /// True or false.
    Boolean(bool),
    /// A date or a time.
    Moment,
    /// A list.
    List(Vec<Node>),
    /// A table; no two of its keys are the same.
    Table(Vec<Entry>),
}

/// A key and its value.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The bytes that the key is written in.
    pub key_span: Range<usize>,
    /// The value.
    pub node: Node,
}

/// Whether a table is merged into another; see [`Node::over_where`].
type Merges<'a> = dyn Fn(&[String], &[Entry], &mut Vec<Entry>) -> bool + 'a;

impl Node {
    /// The kind of value, in words for errors.
    pub fn kind(&self) -> &'static str {
        match &self.value {
            Value::Text(_) => "a string",
            Value::Integer(_) | Value::Float(_) => "a bare number",
            Value::Boolean(_) => "true or false",
            Value::Moment => "a date",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
        }
    }

    /// The entries of a table; none if it is something else.
    pub fn entries(&self) -> Option<&[Entry]> {
        match &self.value {
            Value::Table(entries) => Some(entries),
            _ => None,
        }
    }

    /// How many values it consists of, itself included.
    pub fn count(&self) -> u64 {
        match &self.value {
            Value::List(items) => 1 + items.iter().map(Node::count).sum::<u64>(),
            Value::Table(entries) => 1 + entries.iter().map(|entry| entry.node.count()).sum::<u64>(),
            _ => 1,
        }
    }

    /// The entry of `key`; none if it is not there, or this is no table.
    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.entries()?.iter().find(|entry| entry.key == key)
    }

    /// Reads a whole document; what is wrong goes to `source`.
    pub fn parse(text: &str, source: &Source<'_>) -> Option<Node> {
        match toml_edit::Document::parse(text) {
            Ok(document) => Some(from_table(document.as_table(), 0..text.len())),
            Err(error) => {
                let span = error.span().unwrap_or(0..0);
                source.complain(&span, "", format!("not TOML: {}", error.message().trim().replace('\n', ", ")));
                None
            }
        }
    }

    /// Lays `self` over `base`: tables are merged key by key, anything else replaces what was there.
    pub fn over(self, base: Node) -> Node {
        self.over_where(base, &mut Vec::new(), &|_, _, _| true)
    }

    /// As [`over`](Self::over), but a table is merged only if `merges` says so; otherwise it replaces what was there.
    /// `merges` gets the keys that lead to the table, beginning with `place`, then its entries and those below it, of
    /// which it may remove some.
    pub fn over_where(self, base: Node, place: &mut Vec<String>, merges: &Merges<'_>) -> Node {
        match (self.value, base.value) {
            (Value::Table(over), Value::Table(mut merged)) => {
                if !merges(place, &over, &mut merged) {
                    return Node { value: Value::Table(over), span: self.span };
                }
                // The keys of one table differ from each other.
                let known: BTreeMap<String, usize> =
                    merged.iter().enumerate().map(|(at, entry)| (entry.key.clone(), at)).collect();
                for mut entry in over {
                    match known.get(&entry.key) {
                        Some(at) => {
                            place.push(entry.key.clone());
                            entry.node = entry.node.over_where(merged[*at].node.clone(), place, merges);
                            place.pop();
                            merged[*at] = entry;
                        }
                        None => merged.push(entry),
                    }
                }
                Node { value: Value::Table(merged), span: self.span }
            }
            (value, _) => Node { value, span: self.span },
        }
    }

    /// Marks everything as standing at `span`: for fragments that do not come from the file itself.
    pub fn moved_to(mut self, span: &Range<usize>) -> Node {
        self.span = span.clone();
        match &mut self.value {
            Value::List(items) => {
                for item in items {
                    *item = item.clone().moved_to(span);
                }
            }
            Value::Table(entries) => {
                for entry in entries {
                    entry.key_span = span.clone();
                    entry.node = entry.node.clone().moved_to(span);
                }
            }
            _ => {}
        }
        self
    }

    /// Changes what the dotted `path` points to. Lists are indexed by number or by the `name` of the table inside, `*`
    /// means every one; tables that do not exist are made.
    ///
    /// # Errors
    /// A sentence about the first step that leads nowhere.
    pub fn change(&mut self, path: &[&str], key_span: &Range<usize>, change: &dyn Fn(&mut Node)) -> Result<(), String> {
        let Some((step, rest)) = path.split_first() else {
            change(self);
            return Ok(());
        };
        match &mut self.value {
            Value::Table(entries) => {
                let at = match entries.iter().position(|entry| entry.key == *step) {
                    Some(at) => at,
                    None => {
                        let empty = Node { value: Value::Table(Vec::new()), span: key_span.clone() };
                        entries.push(Entry { key: (*step).to_owned(), key_span: key_span.clone(), node: empty });
                        entries.len() - 1
                    }
                };
                entries[at].node.change(rest, key_span, change)
            }
            Value::List(items) => {
                if *step == "*" {
                    return items.iter_mut().try_for_each(|item| item.change(rest, key_span, change));
                }
                let named = items.iter().position(|item| {
                    item.get("name").is_some_and(|entry| matches!(&entry.node.value, Value::Text(name) if name == step))
                });
                let at = named.or_else(|| step.parse::<usize>().ok().filter(|at| *at < items.len()));
                match at {
                    Some(at) => items[at].change(rest, key_span, change),
                    None => {
                        let names: Vec<String> = items
                            .iter()
                            .enumerate()
                            .map(|(index, item)| match item.get("name").map(|entry| &entry.node.value) {
                                Some(Value::Text(name)) => name.clone(),
                                _ => index.to_string(),
                            })
                            .collect();
                        let near = nearest(step, names.iter().map(String::as_str));
                        let hint = near.map_or(String::new(), |near| format!("; did you mean \"{near}\"?"));
                        Err(format!("there is no \"{step}\" here; write one of {}, or *{hint}", names.join(", ")))
                    }
                }
            }
            _ => Err(format!("\"{step}\" leads into {}, which has nothing inside", self.kind())),
        }
    }

    /// The value as it would be written, short: for labels.
    pub fn label(&self) -> String {
        match &self.value {
            Value::Text(text) => text.clone(),
            Value::Integer(number) => number.to_string(),
            Value::Float(number) => number.to_string(),
            Value::Boolean(value) => value.to_string(),
            Value::Moment => "date".to_owned(),
            Value::List(items) => items.iter().map(Node::label).collect::<Vec<_>>().join(" + "),
            Value::Table(entries) => {
                if let Some(Entry { node: Node { value: Value::Text(name), .. }, .. }) =
                    self.get("label").or_else(|| self.get("preset"))
                {
                    return name.clone();
                }
                let parts: Vec<String> =
                    entries.iter().map(|entry| format!("{} {}", entry.key, entry.node.label())).collect();
                parts.join(", ")
            }
        }
    }
}

fn from_table(table: &dyn TableLike, span: Range<usize>) -> Node {
    let entries = table
        .iter()
        .filter_map(|(key, item)| {
            let key_span = table.key(key).and_then(toml_edit::Key::span);
            let around = item.span().or_else(|| key_span.clone()).unwrap_or_else(|| span.clone());
            let node = from_item(item, around.clone())?;
            Some(Entry { key: key.to_owned(), key_span: key_span.unwrap_or(around), node })
        })
        .collect();
    Node { value: Value::Table(entries), span }
}

fn from_item(item: &Item, span: Range<usize>) -> Option<Node> {
    match item {
        Item::None => None,
        Item::Value(value) => Some(from_value(value, span)),
        Item::Table(table) => Some(from_table(table, span)),
        Item::ArrayOfTables(tables) => {
            let items =
                tables.iter().map(|table| from_table(table, table.span().unwrap_or_else(|| span.clone()))).collect();
            Some(Node { value: Value::List(items), span })
        }
    }
}

fn from_value(value: &toml_edit::Value, span: Range<usize>) -> Node {
    let span = value.span().unwrap_or(span);
    let value = match value {
        toml_edit::Value::String(text) => Value::Text(text.value().clone()),
        toml_edit::Value::Integer(number) => Value::Integer(*number.value()),
        toml_edit::Value::Float(number) => Value::Float(*number.value()),
        toml_edit::Value::Boolean(value) => Value::Boolean(*value.value()),
        toml_edit::Value::Datetime(_) => Value::Moment,
        toml_edit::Value::Array(items) => {
            Value::List(items.iter().map(|item| from_value(item, span.clone())).collect())
        }
        toml_edit::Value::InlineTable(table) => return from_table(table, span),
    };
    Node { value, span }
}
