//! `thalweg policies`: the policies of each slot.

mod manual;

use std::fmt::Write as _;

use clap::Args;
use serde_json::json;
use thalweg::Policies;
use thalweg_recovery::{Choice, Field, Parameter};

use crate::columns::described;
use crate::failure::{Context, Result};
use crate::output;

/// `thalweg policies`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thalweg get --policies controller=new-reno https://localhost:4433/big.bin
  thalweg perf server --policies \"start=peak-bandwidth(share=0.5), pacing=off\"")]
pub struct PoliciesArgs {
    /// Say what each does, and list what is only there to be compared with
    #[arg(long)]
    all: bool,
    /// Print JSON instead
    #[arg(long, conflicts_with = "all")]
    json: bool,
    /// Print docs/policies.md instead
    #[arg(long, conflicts_with_all = ["all", "json"])]
    markdown: bool,
}

impl PoliciesArgs {
    /// Prints the catalogue on stdout.
    ///
    /// # Errors
    ///
    /// None but those of JSON.
    pub fn run(&self) -> Result<()> {
        let text = match self {
            _ if self.json => json()?,
            _ if self.markdown => manual::markdown(),
            _ if self.all => all(),
            _ => overview(),
        };
        output::bytes(text.as_bytes());
        Ok(())
    }
}

fn json() -> Result<String> {
    let parameter = |parameter: &Parameter| {
        json!({
            "name": parameter.name, "doc": parameter.doc, "accepts": parameter.accepted(),
            "default": parameter.default.to_string(),
        })
    };
    let choice = |choice: &Choice| {
        json!({
            "name": choice.name, "doc": choice.doc, "built": choice.built, "study": choice.is_study,
            "parameters": choice.parameters.iter().map(parameter).collect::<Vec<_>>(),
        })
    };
    let field = |field: &Field| {
        let choices: Vec<_> = field.choices.iter().map(choice).collect();
        json!({"field": field.name, "doc": field.doc, "choices": choices})
    };
    let fields: Vec<_> = Policies::catalogue().iter().map(field).collect();
    let all = json!({"default": Policies::default().to_string(), "fields": fields});
    Ok(serde_json::to_string_pretty(&all).context("JSON")? + "\n")
}

/// Whether this is what is shipped.
fn is_shipped(field: &str, choice: &str) -> bool {
    Policies::default().fields().iter().any(|(name, value)| *name == field && value == choice)
}

/// What somebody chooses from, on one screen.
fn overview() -> String {
    let is_for_use = |choice: &&Choice| choice.built && !choice.is_study;
    let choices = Policies::catalogue().iter().map(|field| {
        let mut names: Vec<&str> = field.choices.iter().filter(is_for_use).map(|choice| choice.name).collect();
        names.sort_by_key(|name| !is_shipped(field.name, name));
        let shipped = names.remove(0);
        (field.name, format!("{shipped} (shipped), {}", names.join(", ")))
    });
    let all = Policies::catalogue().iter().flat_map(|field| field.choices).filter(is_for_use);
    let with_parameters = all.filter(|choice| !choice.parameters.is_empty());
    let parameters = with_parameters.map(|choice| {
        let each = choice.parameters.iter();
        let told = each.map(|of| format!("{}: {}; {} unless named", of.name, of.accepted(), of.default));
        (choice.name, told.collect::<Vec<_>>().join(" | "))
    });
    format!(
        "Recovery rules, for --policies and for scenario files: --policies \"controller=cubic, pacing=off\"\n\
         --all says what each does, and lists what is only there to be compared with.\n\n{}\n\
         Parameters, as in --policies \"start=peak-bandwidth(share=0.5, trains=off)\":\n\n{}",
        described(choices),
        described(parameters)
    )
}

/// Everything, and what it does.
fn all() -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(out, "Recovery rules, for --policies and for scenario files. Default:\n  {}", Policies::default());
    for field in Policies::catalogue() {
        let _ = writeln!(out, "\n{}: {}", field.name, field.doc.trim());
        for choice in field.choices {
            let mark = if is_shipped(field.name, choice.name) { "*" } else { " " };
            let note = match choice {
                Choice { built: false, .. } => " (reserved, not built yet)",
                Choice { is_study: true, .. } => " (for comparison)",
                _ => "",
            };
            let _ = writeln!(out, "  {mark} {:<16} {}{note}", choice.name, choice.doc);
            for of in choice.parameters {
                let (accepted, default) = (of.accepted(), of.default);
                let _ = writeln!(out, "      {:<14} {} [{accepted}; {default} unless named]", of.name, of.doc);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_listed_with_its_default() {
        let text = all();
        for field in Policies::catalogue() {
            assert!(text.contains(&format!("\n{}: ", field.name)));
            assert!(overview().contains(&format!("\n{} ", field.name)), "{}", overview());
        }
        assert_eq!(text.matches("  * ").count(), Policies::catalogue().len());
        assert_eq!(overview().matches(" (shipped)").count(), Policies::catalogue().len());
        let parsed: serde_json::Value = serde_json::from_str(&json().unwrap()).unwrap();
        assert_eq!(parsed["fields"].as_array().unwrap().len(), Policies::catalogue().len());
    }

    #[test]
    fn what_is_for_use_fits_on_a_screen() {
        let text = overview();
        assert!(text.lines().count() <= 48, "{} lines", text.lines().count());
        for name in ["c4", "hystart,", "prr-ub", "prague"] {
            assert!(!text.contains(name) && all().contains(name.trim_end_matches(',')), "{name}");
        }
    }
}
