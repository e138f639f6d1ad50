//! A choice of a policy as a scenario writes it: a name, or a table of a name and its parameters.

use thalweg_recovery::Policies;

use super::tree::{Entry, Node, Value};

/// A choice as the command line takes it: a string as it is, and `peak-bandwidth(share=0.5)` of
/// `{ name = "peak-bandwidth", share = 0.5 }`.
///
/// # Errors
/// What is wrong, and what would be accepted.
pub(super) fn choice_text(node: &Node) -> Result<String, String> {
    let entries = match &node.value {
        Value::Text(text) => return Ok(text.clone()),
        Value::Table(entries) => entries,
        _ => return Err(format!("is {}; write a name in quotes, or {CHOICE}", node.kind())),
    };
    let Some(Value::Text(name)) = node.get("name").map(|entry| &entry.node.value) else {
        return Err(format!("has no name in quotes; write {CHOICE}"));
    };
    let mut parameters = Vec::new();
    for Entry { key, node, .. } in entries.iter().filter(|entry| entry.key != "name") {
        if !matches!(node.value, Value::Text(_) | Value::Integer(_) | Value::Float(_)) {
            return Err(format!(
                "has {} as its {key}; write a number, or a word in quotes, as in {CHOICE}",
                node.kind()
            ));
        }
        parameters.push(format!("{key}={}", node.label()));
    }
    Ok(if parameters.is_empty() { name.clone() } else { format!("{name}({})", parameters.join(", ")) })
}

/// A choice with a parameter, for messages.
const CHOICE: &str = "{ name = \"peak-bandwidth\", share = 0.5 }";

/// What a value of an axis of the policy `field` is called: a table as its choice is printed.
pub(super) fn choice_label(field: &str, node: &Node) -> String {
    if !matches!(node.value, Value::Table(_)) || node.get("label").is_some() {
        return node.label();
    }
    let Ok(text) = choice_text(node) else { return node.label() };
    let mut policies = Policies::default();
    let is_set = policies.set(field, &text).is_ok();
    let printed = policies.fields().into_iter().find(|(name, _)| is_set && *name == field);
    printed.map_or(text, |(_, value)| value)
}
