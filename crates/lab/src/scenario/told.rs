//! Values of keys in the form that is part of the name of a stored result.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use thalweg_units::Duration;

use super::flow::MoveSpec;

/// A value of a key, in the form in which it is part of what names a result. It stays as it is, or results that were
/// stored are not found again.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Told {
    /// Nothing, where that is told too.
    Nothing,
    /// A word, or what stands for a type of the simulator: the text of a type is as good a name for a result as any.
    Text(String),
    /// Yes or no.
    Flag(bool),
    /// A number, or bytes.
    Number(u64),
    /// A duration.
    Time(Duration),
    /// Changes of a client's address.
    Moves(Vec<MoveSpec>),
    /// Words.
    Texts(Vec<String>),
    /// Values of keys.
    Table(Vec<(&'static str, Told)>),
}

impl Told {
    /// The text of a type of the simulator.
    pub(crate) fn debug(value: &impl core::fmt::Debug) -> Told {
        Told::Text(format!("{value:?}"))
    }

    /// The text of something that has one.
    pub(crate) fn text(value: &impl core::fmt::Display) -> Told {
        Told::Text(value.to_string())
    }
}

impl Serialize for Told {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Told::Nothing => serializer.serialize_none(),
            Told::Text(text) => text.serialize(serializer),
            Told::Flag(flag) => flag.serialize(serializer),
            Told::Number(number) => number.serialize(serializer),
            Told::Time(time) => time.serialize(serializer),
            Told::Moves(moves) => moves.serialize(serializer),
            Told::Texts(texts) => texts.serialize(serializer),
            Told::Table(values) => {
                let mut map = serializer.serialize_map(Some(values.len()))?;
                for (key, value) in values {
                    map.serialize_entry(key, value)?;
                }
                map.end()
            }
        }
    }
}
