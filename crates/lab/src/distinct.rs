//! Finds choices of a policy that never differ in what happens, and are therefore the same rule under two names.
//!
//! The worlds of some scenarios are run with every choice of every field in turn, the other fields as the scenario sets
//! them. Two choices are told apart by the first world in which their wire hashes differ; what is never told apart is
//! reported.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rayon::prelude::*;
use thalweg_recovery::Policies;

use crate::engine::Engine;
use crate::scenario::Scenario;
use crate::scenario::world::World;

/// What became of the choices of one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldResult {
    /// The field, such as "reduction".
    pub field: &'static str,
    /// How many choices it has that are built; one with another parameter counts as another.
    pub choices: usize,
    /// The scenarios that distinguished some of them, in order.
    pub told_by: Vec<String>,
    /// Choices that no world told apart.
    pub same: Vec<Vec<String>>,
    /// Runs that failed to give a hash: choice, scenario, reason.
    pub failed: Vec<(String, String, String)>,
}

/// Runs the worlds of `scenarios` (one seed of each point) with every choice of every policy field until no two are
/// alike.
///
/// Choices that a world's other policies exclude are left out of that world. Flows of stacks that do not support a
/// policy keep their settings.
pub fn policies(scenarios: &[Scenario], engine: &dyn Engine) -> Vec<FieldResult> {
    Policies::catalogue()
        .iter()
        .map(|field| {
            let names = field.spellings();
            let mut result = FieldResult {
                field: field.name,
                choices: names.len(),
                told_by: Vec::new(),
                same: vec![names],
                failed: Vec::new(),
            };
            for scenario in scenarios {
                for point in &scenario.points {
                    result.same.retain(|group| group.len() > 1);
                    if result.same.is_empty() {
                        return result;
                    }
                    if split(&mut result, field.name, &point.world, scenario, engine)
                        && result.told_by.last() != Some(&scenario.name)
                    {
                        result.told_by.push(scenario.name.clone());
                    }
                }
            }
            result.same.retain(|group| group.len() > 1);
            result
        })
        .collect()
}

/// Splits groups of choices by what they do in one world. True if any was.
fn split(result: &mut FieldResult, field: &str, world: &World, scenario: &Scenario, engine: &dyn Engine) -> bool {
    let mut groups = Vec::new();
    let mut any = false;
    for group in std::mem::take(&mut result.same) {
        let hashes: Vec<Result<Option<String>, String>> =
            group.par_iter().map(|choice| hash(world, field, choice, scenario.first_seed, engine)).collect();
        let mut apart: Vec<(Option<&String>, Vec<String>)> = Vec::new();
        let mut excluded = Vec::new();
        for (choice, hash) in group.iter().zip(&hashes) {
            match hash {
                Ok(None) => excluded.push(choice.clone()),
                Ok(Some(hash)) => match apart.iter_mut().find(|(known, _)| *known == Some(hash)) {
                    Some((_, alike)) => alike.push(choice.clone()),
                    None => apart.push((Some(hash), vec![choice.clone()])),
                },
                Err(reason) => {
                    let run = (format!("{field}={choice}"), scenario.name.clone(), reason.clone());
                    result.failed.push(run);
                    excluded.push(choice.clone());
                }
            }
        }
        any |= apart.len() > 1;
        // What did not run here may be the same as anything that did: it stays with the first of them.
        match apart.first_mut() {
            Some((_, first)) => first.extend(excluded),
            None => apart.push((None, excluded)),
        }
        groups.extend(apart.into_iter().map(|(_, alike)| alike));
    }
    result.same = groups;
    any
}

/// The wire hash of a world with one policy set; none if that is excluded by the others.
fn hash(world: &World, field: &str, choice: &str, seed: u64, engine: &dyn Engine) -> Result<Option<String>, String> {
    let mut world = world.clone();
    let stacks = engine.stacks();
    let supports = |stack: &str| stacks.iter().any(|known| known.name == stack && known.supports(field));
    for flow in world.flows.iter_mut().filter(|flow| supports(&flow.stack)) {
        let mut policies = flow.policies().clone();
        if policies.set(field, choice).is_err() {
            return Ok(None);
        }
        // Read back, so that what excludes each other is refused.
        match policies.to_string().parse() {
            Ok(policies) => flow.set_policies(policies),
            Err(_) => return Ok(None),
        }
    }
    let run = catch_unwind(AssertUnwindSafe(|| engine.run(&world, seed, false)));
    let record = run.map_err(|_| "the program panicked".to_owned())?.record;
    match (record.wire_hash.is_empty(), record.failed) {
        (true, reason) => Err(reason.unwrap_or_else(|| "no wire hash".to_owned())),
        (false, _) => Ok(Some(record.wire_hash)),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::engine::{Output, StackInfo};
    use crate::record::RunRecord;

    /// Knows nothing but the controller, and refuses rate halving.
    struct Controllers;

    impl Engine for Controllers {
        fn version(&self) -> String {
            "controllers".to_owned()
        }

        fn stacks(&self) -> Vec<StackInfo> {
            vec![StackInfo::new("thalweg")]
        }

        fn run(&self, world: &World, _: u64, _: bool) -> Output {
            let policies = world.flows[0].policies().to_string();
            assert!(!policies.contains("rate-halving"), "no");
            let hash = Policies::items(&policies).next().unwrap_or_default().to_owned();
            Output { record: RunRecord { wire_hash: hash, ..RunRecord::default() }, recording: None }
        }
    }

    #[test]
    fn names_that_change_nothing_are_found() {
        let text = "title = \"t\"\nquestion = \"q?\"\n[path.p]\npreset = \"broadband\"\n[[flow]]\ntransfer = { download = \"1 MB\" }\n";
        let scenario = Scenario::parse("t.toml", text, Path::new(""), &[StackInfo::new("thalweg")]).unwrap();
        let results = policies(&[scenario], &Controllers);
        let field = |name: &str| results.iter().find(|result| result.field == name).unwrap();
        assert!(field("controller").same.is_empty() && field("controller").told_by == ["t"]);
        assert_eq!(field("pacing").same, [["on", "off", "bursts", "short-bursts"]]);
        assert_eq!(field("reduction").same[0].len(), field("reduction").choices);
        assert_eq!(field("reduction").failed[0].0, "reduction=rate-halving");
    }
}
