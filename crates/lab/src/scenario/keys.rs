//! The keys of flows, paths and directions with their documentation, which stands beside the code that reads them.

use thalweg_link::queue::Discipline;
use thalweg_link::{DIRECTION_KEYS, PATH_KEYS};
use thalweg_sim::Traffic;

use super::flow::{FLOW_KEYS, TRANSPORT_KEYS};

/// Every key of a flow, every kind of traffic and every key of `transport`, a line each: the first part of what
/// `thalweg lab list --keys` prints.
pub fn flow_keys() -> String {
    let mut text = "[[flow]]\n".to_owned();
    for key in FLOW_KEYS {
        line(&mut text, &format!("{} = {}", key.name, key.example), key.doc);
    }
    text += "\nkinds of traffic\n";
    for kind in Traffic::keys() {
        line(&mut text, &format!("{} = {}", kind.name, kind.example), kind.doc);
    }
    text += "\ntransport\n";
    for key in TRANSPORT_KEYS {
        line(&mut text, &format!("{} = {}", key.name, key.example), key.doc);
    }
    text
}

/// Every key of a path and of a direction and every queue discipline, a line each: the second part of what
/// `thalweg lab list --keys` prints.
pub fn keys() -> String {
    let mut text = "[path.NAME]\n".to_owned();
    for (name, example, doc) in PATH_KEYS {
        line(&mut text, &format!("{name} = {example}"), doc);
    }
    let preset =
        "a path of `thalweg lab list --presets`; keys written beside preset override its values; also for a direction";
    line(&mut text, "preset = \"lte\"", preset);
    text += "\nup, down\n";
    for key in DIRECTION_KEYS {
        line(&mut text, &format!("{} = {}", key.name, key.example), key.doc);
    }
    text += "\nqueue disciplines\n";
    for (_, example, doc) in Discipline::ALL {
        line(&mut text, &format!("aqm = {example}"), doc);
    }
    text
}

/// A key and its documentation, which may be broken anywhere between words.
fn line(text: &mut String, what: &str, doc: &str) {
    const WIDTH: usize = 100;
    text.push_str(&format!("  {what}"));
    let mut column = WIDTH;
    for word in doc.split_whitespace() {
        let length = 1 + word.chars().count();
        if column + length > WIDTH {
            text.push_str("\n     ");
            column = 5;
        }
        text.push(' ');
        text.push_str(word);
        column += length;
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_and_discipline_is_listed_with_its_documentation() {
        let text = flow_keys() + &keys();
        for part in [
            "saved = {",
            "short_flows = {",
            "initial_rtt = \"100 ms\"\n      round-trip time assumed",
            "hops = [",
            "policer = {",
            "aqm = \"head-drop\"\n      a packet that finds the queue full",
            "mean_good",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
