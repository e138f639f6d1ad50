//! `thalweg policies`: the policies of each slot.

mod manual;

use std::fmt::Write as _;

use clap::Args;
use serde_json::json;
use thalweg::Policies;

use crate::failure::{Context, Result};
use crate::output;

/// `thalweg policies`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thalweg get --policies controller=new-reno https://localhost:4433/big.bin
  thalweg perf server --policies \"controller=cubic, start=standard, pacing=off\"")]
pub struct PoliciesArgs {
    /// Print JSON instead
    #[arg(long)]
    json: bool,
    /// Print docs/policies.md instead
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
}

impl PoliciesArgs {
    /// Prints the catalogue on stdout.
    ///
    /// # Errors
    ///
    /// None but those of JSON.
    pub fn run(&self) -> Result<()> {
        let text = match (self.json, self.markdown) {
            (true, _) => json()?,
            (_, true) => manual::markdown(),
            _ => text(),
        };
        output::bytes(text.as_bytes());
        Ok(())
    }
}

fn json() -> Result<String> {
    let fields: Vec<_> = Policies::catalogue()
        .iter()
        .map(|field| {
            let choices: Vec<_> = field
                .choices
                .iter()
                .map(|choice| json!({"name": choice.name, "doc": choice.doc, "built": choice.built}))
                .collect();
            json!({"field": field.name, "doc": field.doc, "choices": choices})
        })
        .collect();
    let all = json!({"default": Policies::default().to_string(), "fields": fields});
    Ok(serde_json::to_string_pretty(&all).context("JSON")? + "\n")
}

fn text() -> String {
    let default = Policies::default().to_string();
    let chosen: Vec<_> = default.split(", ").collect();
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(out, "Recovery rules, for --policies and for scenario files. Default:\n  {default}");
    for field in Policies::catalogue() {
        let _ = writeln!(out, "\n{}: {}", field.name, field.doc.trim());
        for choice in field.choices {
            let is_default = chosen.contains(&format!("{}={}", field.name, choice.name).as_str());
            let mark = if is_default { "*" } else { " " };
            let built = if choice.built { "" } else { " (reserved, not built yet)" };
            let _ = writeln!(out, "  {mark} {:<16} {}{built}", choice.name, choice.doc);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_listed_with_its_default() {
        let text = text();
        for field in Policies::catalogue() {
            assert!(text.contains(&format!("\n{}: ", field.name)));
        }
        assert_eq!(text.matches("  * ").count(), Policies::catalogue().len());
        let parsed: serde_json::Value = serde_json::from_str(&json().unwrap()).unwrap();
        assert_eq!(parsed["fields"].as_array().unwrap().len(), Policies::catalogue().len());
    }
}
