//! Settings that only one stack has: a schema that the stack declares, and values that a plan gives.
//!
//! Whoever reads plans from files needs the schema alone: it says under which key a table of settings stands, which
//! keys the table has, and what each accepts. What the values mean is the stack's own business.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use thalweg_units::Duration;

/// The settings of one stack.
#[derive(Debug)]
pub struct Schema {
    /// The key under which the settings of a flow stand, such as "tcp".
    pub table: &'static str,
    /// An example of such a table.
    pub example: &'static str,
    /// The settings.
    pub settings: &'static [Setting],
}

/// A setting.
#[derive(Debug)]
pub struct Setting {
    /// Its key.
    pub name: &'static str,
    /// What it may be: any of these.
    pub accepts: &'static [Accepts],
}

/// A kind of values.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Accepts {
    /// True or false.
    Boolean,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A whole number in this range.
    Count(RangeInclusive<u64>),
    /// A number of bytes in this range.
    Bytes(RangeInclusive<u64>),
    /// A duration, zero included.
    Duration,
    /// A duration above zero.
    Span,
}

/// The value of a setting.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum SettingValue {
    /// True or false.
    Boolean(bool),
    /// A word.
    Word(&'static str),
    /// A whole number, or a number of bytes.
    Number(u64),
    /// A duration.
    Duration(Duration),
}

/// What a plan gives of the settings of a flow's stack. What is left out is as the stack has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings(BTreeMap<&'static str, SettingValue>);

impl Settings {
    /// Gives a setting a value, in place of the one it may have had.
    pub fn set(&mut self, name: &'static str, value: SettingValue) {
        self.0.insert(name, value);
    }

    /// The value of a setting, if the plan gives one.
    pub fn get(&self, name: &str) -> Option<SettingValue> {
        self.0.get(name).copied()
    }

    /// Whether the plan gives none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Every setting that the plan gives, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, SettingValue)> {
        self.0.iter().map(|(name, value)| (*name, *value))
    }

    /// The value of a setting that is true or false.
    pub fn boolean(&self, name: &str) -> Option<bool> {
        match self.get(name)? {
            SettingValue::Boolean(value) => Some(value),
            _ => None,
        }
    }

    /// The value of a setting that is a number, or a number of bytes.
    pub fn number(&self, name: &str) -> Option<u64> {
        match self.get(name)? {
            SettingValue::Number(value) => Some(value),
            _ => None,
        }
    }

    /// The value of a setting that is a duration.
    pub fn duration(&self, name: &str) -> Option<Duration> {
        match self.get(name)? {
            SettingValue::Duration(value) => Some(value),
            _ => None,
        }
    }

    /// The value of a setting that is a word.
    pub fn word(&self, name: &str) -> Option<&'static str> {
        match self.get(name)? {
            SettingValue::Word(value) => Some(value),
            _ => None,
        }
    }
}
