//! `docs/policies.md`: the catalogue of recovery rules as a page, from their docstrings and a line on when to use each.

use std::fmt::Write as _;

use thalweg::Policies;
use thalweg_recovery::{Choice, Field};

use super::is_shipped;

/// Measured effects: lines of `field=choice: effect`. An effect is the median of the scenario in brackets, a file below
/// `scenarios/`, as measured for docs/defaults.md.
const EFFECTS: &str = include_str!("effects.txt");

/// Choices of a field, as they are written, and what was measured of them.
fn effects(field: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = EFFECTS.lines().filter_map(|line| line.split_once(": "));
    lines.filter_map(move |(name, effect)| Some((name.strip_prefix(field)?.strip_prefix('=')?, effect)))
}

/// The measured effect of a choice; empty if none is known.
fn effect(field: &str, choice: &str) -> &'static str {
    effects(field).find(|(name, _)| *name == choice).map_or("", |(_, effect)| effect)
}

/// The page.
pub(super) fn markdown() -> String {
    let mut out = String::from(
        "# The catalog of policies\n\n\
         `thalweg policies --markdown` writes this page from the code. Every policy of loss recovery has a name. The name is\n\
         the same on the command line (`--policies`), in scenarios (`policies = { … }`) and in the API. Some have parameters:\n\
         `start=peak-bandwidth(share=0.5)`, in scenarios also `start = { name = \"peak-bandwidth\", share = 0.5 }`. What is\n\
         there for comparison is not part of the library unless it is built with the cargo feature `study`.\n\
         [Defaults](defaults.md#defaults) says how the shipped policies were chosen.\n\n\
         Effects are in words; `thalweg lab run scenarios/NAME.toml` measures those of the scenario in brackets, and\n\
         [One slot at a time](defaults.md#one-slot-at-a-time) has the figures of `defaults/choices`.\n\
         `thalweg lab run scenarios/outage scenarios/recovery` measures the choices against each other.\n\n",
    );
    // Writing to a string cannot fail.
    let _ = writeln!(out, "Shipped: `{}`", Policies::default());
    for field in Policies::catalogue() {
        let _ = writeln!(out, "\n## {}\n\n{}", field.name, field.doc.trim());
        table(&mut out, field, field.choices.iter().filter(|choice| !choice.is_study));
        parameters(&mut out, field);
        if field.choices.iter().any(|choice| choice.is_study) {
            let _ = writeln!(out, "\nFor comparison:");
            table(&mut out, field, field.choices.iter().filter(|choice| choice.is_study));
        }
    }
    out
}

/// Choices of a field. One with the parameters that an effect was measured of has a line of its own.
fn table<'a>(out: &mut String, field: &Field, choices: impl Iterator<Item = &'a Choice>) {
    let head = "| choice | what it does, and its source | when to use it | measured effect |\n|---|---|---|---|";
    let _ = writeln!(out, "\n{head}");
    for choice in choices {
        let is_shipped = is_shipped(field.name, choice.name);
        let name = if is_shipped { format!("**`{}`** (shipped)", choice.name) } else { format!("`{}`", choice.name) };
        let when = if choice.built { choice.when } else { "reserved, not built yet" };
        let effect = effect(field.name, choice.name);
        let _ = writeln!(out, "| {name} | {} | {when} | {effect} |", choice.doc.replace('|', "\\|"));
        for (spelling, effect) in effects(field.name).filter(|(name, _)| is_with_parameters(name, choice.name)) {
            let _ = writeln!(out, "| `{spelling}` | as `{}`, with other parameters | | {effect} |", choice.name);
        }
    }
}

/// Whether this is the choice of this name with some parameters.
fn is_with_parameters(spelling: &str, choice: &str) -> bool {
    spelling.strip_prefix(choice).is_some_and(|rest| rest.starts_with('('))
}

/// The parameters of the choices of a field.
fn parameters(out: &mut String, field: &Field) {
    let all: Vec<_> =
        field.choices.iter().flat_map(|choice| choice.parameters.iter().map(move |of| (choice, of))).collect();
    if all.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n| parameter | what it decides | accepts | unless named |\n|---|---|---|---|");
    for (choice, of) in all {
        let (name, doc, accepted, default) = (of.name, of.doc, of.accepted(), of.default);
        let _ = writeln!(out, "| `{}({name}=…)` | {doc} | {accepted} | {default} |", choice.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_page_is_what_the_code_says() {
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/policies.md");
        let written = std::fs::read_to_string(file).unwrap();
        assert!(
            written == markdown(),
            "docs/policies.md is old; write it with: thalweg policies --markdown > docs/policies.md"
        );
    }

    #[test]
    fn effects_are_of_choices_that_exist() {
        for line in EFFECTS.lines() {
            let (name, effect) = line.split_once(": ").unwrap();
            let (field, choice) = name.split_once('=').unwrap();
            let mut policies = Policies::default();
            policies.set(field, choice).unwrap();
            assert!(
                policies.fields().iter().any(|(name, value)| *name == field && value == choice),
                "{name}: canonical"
            );
            assert!(!effect.is_empty(), "{name}");
        }
    }
}
