//! Scenarios of a tier: when they are judged.

use std::path::PathBuf;

use thalweg_lab::engine::Engine;
use thalweg_lab::scenario::{Scenario, Tier};

use super::named::{files_below, load_scenarios};
use crate::failure::{Failure, Result};

/// See `tier` in a scenario file.
#[derive(Copy, Clone, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum TierName {
    /// Judged with every change
    Gate,
    /// Judged once a day or so: scenarios that take long, and all seeds of those of which the gate runs fewer
    Nightly,
    /// Run when somebody asks
    Study,
}

impl TierName {
    /// The scenarios of this tier among those named, and in all folders below those named.
    pub(super) fn scenarios(self, named: &[PathBuf], engine: &dyn Engine) -> Result<Vec<Scenario>> {
        let mut scenarios = load_scenarios(&files_below(named)?, engine)?;
        scenarios.retain(|scenario| self.has(scenario));
        if scenarios.is_empty() {
            let named: Vec<String> = named.iter().map(|path| path.display().to_string()).collect();
            return Err(Failure::usage(format!("no scenario in {} {}", named.join(", "), self.wanted())));
        }
        Ok(scenarios)
    }

    /// Its name.
    pub(super) fn word(self) -> &'static str {
        match self {
            TierName::Gate => "gate",
            TierName::Nightly => "nightly",
            TierName::Study => "study",
        }
    }

    fn wanted(self) -> &'static str {
        match self {
            TierName::Gate => "has tier = \"gate\"",
            TierName::Nightly => "has tier = \"nightly\", or tier = \"gate\" with gate_seeds",
            TierName::Study => "has tier = \"study\", or none",
        }
    }

    fn has(self, scenario: &Scenario) -> bool {
        match self {
            TierName::Gate => scenario.tier.is_gate(),
            TierName::Nightly => scenario.tier.is_nightly(),
            TierName::Study => scenario.tier == Tier::Study,
        }
    }
}
