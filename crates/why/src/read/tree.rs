//! A JSON text as one flat list of its values: events are read into it without an allocation for each of their fields.

use core::fmt;
use std::borrow::Cow;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// A value; those inside of it follow it.
#[derive(Clone, Debug, PartialEq)]
enum Node<'a> {
    Null,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(Cow<'a, str>),
    /// How many nodes belong to it beside this one.
    List(usize),
    /// The same; each member is a text and a value.
    Object(usize),
}

/// So many values have room at first: a packet with two frames.
const ROOM: usize = 64;

/// A JSON text that was read.
#[derive(Clone, Debug)]
pub(crate) struct Tree<'a> {
    nodes: Vec<Node<'a>>,
}

impl<'a> Tree<'a> {
    /// Reads a text; none if it is not JSON.
    pub(crate) fn parse(text: &'a [u8]) -> Option<Tree<'a>> {
        let mut json = serde_json::Deserializer::from_str(core::str::from_utf8(text).ok()?);
        let tree = Tree::of(&mut json)?;
        json.end().ok()?;
        Some(tree)
    }

    /// From whatever serde reads; none where that fails.
    pub(crate) fn of(from: impl Deserializer<'a>) -> Option<Tree<'a>> {
        let mut nodes = Vec::with_capacity(ROOM);
        Builder(&mut nodes).deserialize(from).ok()?;
        Some(Tree { nodes })
    }

    /// The outermost value.
    pub(crate) fn root(&self) -> Data<'_> {
        Data { nodes: &self.nodes }
    }
}

/// A value of a text, with what is inside of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Data<'t> {
    nodes: &'t [Node<'t>],
}

impl<'t> Data<'t> {
    /// No value.
    pub(crate) const NULL: Data<'static> = Data { nodes: &[Node::Null] };

    /// The values that follow each other inside of it, members of objects with their keys.
    fn inside(self) -> impl Iterator<Item = Data<'t>> {
        let mut rest = match self.nodes.first() {
            Some(Node::List(_) | Node::Object(_)) => &self.nodes[1..],
            _ => &[],
        };
        core::iter::from_fn(move || {
            let length = match rest.first()? {
                Node::List(length) | Node::Object(length) => length + 1,
                _ => 1,
            };
            let (nodes, others) = rest.split_at(length);
            rest = others;
            Some(Data { nodes })
        })
    }

    /// The keys and values of an object.
    fn members(self) -> impl Iterator<Item = (&'t str, Data<'t>)> {
        let mut inside = if self.is_object() { Some(self.inside()) } else { None };
        core::iter::from_fn(move || {
            let inside = inside.as_mut()?;
            Some((inside.next()?.as_str()?, inside.next()?))
        })
    }

    /// The member of an object; of several with one key, the last.
    pub(crate) fn get(self, key: &str) -> Option<Data<'t>> {
        self.members().filter(|(name, _)| *name == key).map(|(_, value)| value).last()
    }

    /// The values of a list; nothing of anything else.
    pub(crate) fn items(self) -> impl Iterator<Item = Data<'t>> {
        self.inside().take(if self.is_list() { usize::MAX } else { 0 })
    }

    pub(crate) fn is_list(self) -> bool {
        matches!(self.nodes.first(), Some(Node::List(_)))
    }

    pub(crate) fn is_object(self) -> bool {
        matches!(self.nodes.first(), Some(Node::Object(_)))
    }

    pub(crate) fn as_str(self) -> Option<&'t str> {
        match self.nodes.first() {
            Some(Node::Text(text)) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn as_bool(self) -> Option<bool> {
        match self.nodes.first() {
            Some(Node::Bool(value)) => Some(*value),
            _ => None,
        }
    }

    pub(crate) fn as_u64(self) -> Option<u64> {
        match self.nodes.first() {
            Some(Node::Unsigned(number)) => Some(*number),
            _ => None,
        }
    }

    pub(crate) fn as_f64(self) -> Option<f64> {
        match self.nodes.first() {
            Some(Node::Unsigned(number)) => Some(*number as f64),
            Some(Node::Signed(number)) => Some(*number as f64),
            Some(Node::Float(number)) => Some(*number),
            _ => None,
        }
    }

    /// A copy that stands by itself.
    pub(crate) fn to_value(self) -> Value {
        match self.nodes.first() {
            None | Some(Node::Null) => Value::Null,
            Some(Node::Bool(value)) => Value::Bool(*value),
            Some(Node::Unsigned(number)) => Value::Number(Number::from(*number)),
            Some(Node::Signed(number)) => Value::Number(Number::from(*number)),
            Some(Node::Float(number)) => Number::from_f64(*number).map_or(Value::Null, Value::Number),
            Some(Node::Text(text)) => Value::String(text.clone().into_owned()),
            Some(Node::List(_)) => self.inside().map(Data::to_value).collect(),
            Some(Node::Object(_)) => Value::Object(self.to_map()),
        }
    }

    /// The members of an object.
    pub(crate) fn to_map(self) -> Map<String, Value> {
        self.members().map(|(key, value)| (key.to_owned(), value.to_value())).collect()
    }
}

/// Puts the next value behind those before it.
struct Builder<'b, 'a>(&'b mut Vec<Node<'a>>);

impl<'a> Builder<'_, 'a> {
    fn put<E>(self, node: Node<'a>) -> Result<(), E> {
        self.0.push(node);
        Ok(())
    }
}

impl<'a> DeserializeSeed<'a> for Builder<'_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'a> Visitor<'a> for Builder<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.put(Node::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.put(Node::Bool(value))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        self.put(Node::Unsigned(number))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        self.put(Node::Signed(number))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        self.put(Node::Float(number))
    }

    fn visit_borrowed_str<E: Error>(self, text: &'a str) -> Result<(), E> {
        self.put(Node::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.put(Node::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut list: A) -> Result<(), A::Error> {
        let at = self.0.len();
        self.0.push(Node::List(0));
        while list.next_element_seed(Builder(&mut *self.0))?.is_some() {}
        self.0[at] = Node::List(self.0.len() - at - 1);
        Ok(())
    }

    fn visit_map<A: MapAccess<'a>>(self, mut object: A) -> Result<(), A::Error> {
        let at = self.0.len();
        self.0.push(Node::Object(0));
        while object.next_key_seed(Builder(&mut *self.0))?.is_some() {
            object.next_value_seed(Builder(&mut *self.0))?;
        }
        self.0[at] = Node::Object(self.0.len() - at - 1);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_what_serde_json_reads() {
        let texts = [
            r#"{"time":0.5,"name":"a\"\u00e9","data":{"raw":{"length":1452},"frames":[[],{},[1,-2,3.5,null,true]]}}"#,
            r#" [18446744073709551615, 1e3, "x", "", {"a":{"b":[{"c":1}]}}] "#,
            r#"{"a":1,"a":2}"#,
            "7",
        ];
        for text in texts {
            let value: Value = serde_json::from_str(text).unwrap();
            assert_eq!(Tree::parse(text.as_bytes()).unwrap().root().to_value(), value, "{text}");
            assert_eq!(Tree::of(&value).unwrap().root().to_value(), value, "{text}");
        }
        for text in ["", "{", r#"{"a":1}}"#, r#"{"a":1} x"#, r#"{"a":}"#, "\"\u{1}\"", "[1,]", "{1:2}", "01"] {
            assert!(Tree::parse(text.as_bytes()).is_none() && serde_json::from_str::<Value>(text).is_err(), "{text}");
        }
        assert!(Tree::parse(b"\"\xff\"").is_none(), "no UTF-8");
        assert!(Tree::parse("[".repeat(200).as_bytes()).is_none(), "too deep");
    }

    #[test]
    fn members_are_found_beside_what_is_nested() {
        let tree = Tree::parse(br#"{"x":{"length":1},"list":[[1,2],[3]],"length":"2","a":1,"a":-2}"#).unwrap();
        let root = tree.root();
        assert_eq!(root.get("length").and_then(Data::as_str), Some("2"));
        assert_eq!(root.get("x").and_then(|x| x.get("length")).and_then(Data::as_u64), Some(1));
        assert_eq!(root.get("a").and_then(Data::as_f64), Some(-2.0), "the last of two");
        let list = root.get("list").unwrap();
        assert_eq!(list.items().map(|item| item.items().count()).collect::<Vec<_>>(), [2, 1]);
        assert!(list.get("length").is_none() && root.items().next().is_none() && root.get("y").is_none());
        assert!(Data::NULL.get("x").is_none() && Data::NULL.to_value().is_null());
    }
}
