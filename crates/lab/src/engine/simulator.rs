//! The simulator as the lab's engine: worlds become plans, results become values.

use std::path::Path;

use thalweg_sim::Registry;

use super::collect;
use super::plan::plan;
use super::{Engine, Output, StackInfo, TraceError, Traced};
use crate::hash::Digest;
use crate::record::RunRecord;
use crate::scenario::world::World;
use crate::trace::Files;

/// Runs worlds in the simulator.
pub struct SimEngine {
    registry: Registry,
    name: String,
}

impl Default for SimEngine {
    /// With the stacks that come with the simulator.
    fn default() -> Self {
        SimEngine::new(Registry::default(), "thalweg-sim")
    }
}

impl SimEngine {
    /// With these stacks. `name` tells results apart from those of an engine with other versions of them.
    pub fn new(registry: Registry, name: &str) -> SimEngine {
        SimEngine { registry, name: format!("{name} {}", env!("CARGO_PKG_VERSION")) }
    }

    /// Ties results to one build of the program: those of another are made again rather than reused, as nobody can know
    /// what has changed between them.
    #[must_use]
    pub fn with_build(mut self, program: &Digest) -> SimEngine {
        self.name = format!("{}, build {}", self.name, program.short());
        self
    }
}

impl Engine for SimEngine {
    fn version(&self) -> String {
        self.name.clone()
    }

    fn stacks(&self) -> Vec<StackInfo> {
        self.registry.stacks().cloned().collect()
    }

    fn is_repeatable(&self, world: &World) -> bool {
        world.flows.iter().all(|flow| self.registry.info(&flow.stack).is_some_and(|stack| stack.is_repeatable))
    }

    fn trace(&self, world: &World, seed: u64, folder: &Path) -> Result<Traced, TraceError> {
        let (mut plan, interruptions) = plan(world, seed, false).map_err(TraceError::World)?;
        let mut files = Files::begin(folder, &mut plan)?;
        let result = thalweg_sim::run_tapped(&plan, &self.registry, &mut files);
        let result = result.map_err(|error| TraceError::World(error.to_string()))?;
        files.end(collect::output(world, &plan, result, &interruptions, false).record)
    }

    fn run(&self, world: &World, seed: u64, recording: bool) -> Output {
        let (plan, interruptions) = match plan(world, seed, recording) {
            Ok(plan) => plan,
            Err(reason) => return Output { record: RunRecord::failure(reason), recording: None },
        };
        match thalweg_sim::run_with(&plan, &self.registry) {
            Ok(result) => collect::output(world, &plan, result, &interruptions, recording),
            Err(error) => Output { record: RunRecord::failure(error.to_string()), recording: None },
        }
    }
}
