//! `docs/policies.md`: the catalogue of recovery rules as a page, from their docstrings and a line on when to use each.

use std::fmt::Write as _;

use thalweg::Policies;

/// Measured effects: lines of `field=choice: effect`. An effect is the median of the scenario in brackets, a file below
/// `scenarios/`, as measured for docs/defaults.md.
const EFFECTS: &str = include_str!("effects.txt");

/// The measured effect of a choice; empty if none is known.
fn effect(field: &str, choice: &str) -> &'static str {
    let lines = EFFECTS.lines().filter_map(|line| line.split_once(": "));
    let mut of = lines.filter(|(name, _)| name.split_once('=') == Some((field, choice)));
    of.next().map_or("", |(_, effect)| effect)
}

/// The page.
pub(super) fn markdown() -> String {
    let default = Policies::default().to_string();
    let chosen: Vec<&str> = default.split(", ").collect();
    let mut out = String::from(
        "# The catalog of policies\n\n\
         `thalweg policies --markdown` writes this page from the code. Every policy of loss recovery has a name. The name is\n\
         the same on the command line (`--policies`), in scenarios (`policies = { … }`) and in the API.\n\
         [Defaults](defaults.md#defaults) says how the shipped policies were chosen.\n\n\
         Measured effects are medians of the scenario in brackets. `thalweg lab run scenarios/NAME.toml` measures an effect\n\
         again. `choices` is `scenarios/defaults/choices.toml`: 10 MB over fourteen paths, as a ratio to the shipped policies.\n\
         `thalweg lab run scenarios/recovery` measures the choices against each other.\n\n",
    );
    // Writing to a string cannot fail.
    let _ = writeln!(out, "Shipped: `{default}`");
    for field in Policies::catalogue() {
        let _ = writeln!(out, "\n## {}\n\n{}\n", field.name, field.doc.trim());
        let _ = writeln!(
            out,
            "| choice | what it does, and its source | when to use it | measured effect |\n|---|---|---|---|"
        );
        for choice in field.choices {
            let is_default = chosen.contains(&format!("{}={}", field.name, choice.name).as_str());
            let name =
                if is_default { format!("**`{}`** (shipped)", choice.name) } else { format!("`{}`", choice.name) };
            let when = if choice.built { choice.when } else { "reserved, not built yet" };
            let effect = effect(field.name, choice.name);
            let _ = writeln!(out, "| {name} | {} | {when} | {effect} |", choice.doc.replace('|', "\\|"));
        }
    }
    out
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
            let known = Policies::catalogue().iter().find(|known| known.name == field).unwrap();
            assert!(known.choices.iter().any(|known| known.built && known.name == choice), "{name}");
            assert!(!effect.is_empty(), "{name}");
        }
    }
}
