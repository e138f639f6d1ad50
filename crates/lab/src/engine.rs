//! Engines, which run worlds: their interface, and the simulator as one.

mod collect;
mod delivery;
mod model;
mod plan;
mod shares;
mod simulator;

use std::path::{Path, PathBuf};

pub use simulator::SimEngine;
pub use thalweg_sim::StackInfo;

use crate::record::{Recording, RunRecord};
use crate::scenario::world::World;
use crate::store::StoreError;

/// The record of a run, and its time series if asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Output {
    /// What was measured.
    pub record: RunRecord,
    /// What happened when, if asked for.
    pub recording: Option<Recording>,
}

/// Runs worlds: the simulator, or a stand-in in tests.
pub trait Engine: Sync {
    /// Name and version: results of another engine are not reused.
    fn version(&self) -> String;

    /// The transports that flows can name.
    fn stacks(&self) -> Vec<StackInfo>;

    /// Whether the same seed gives the same event log there; some foreign stacks draw chance from the system.
    fn is_repeatable(&self, world: &World) -> bool {
        let _ = world;
        true
    }

    /// One run again, with its traces in `folder`.
    ///
    /// # Errors
    /// [`TraceError::Unsupported`] unless the engine states otherwise.
    fn trace(&self, world: &World, seed: u64, folder: &Path) -> Result<Traced, TraceError> {
        let _ = (world, seed, folder);
        Err(TraceError::Unsupported)
    }

    /// One run. Reasons not to come to an end belong into the record; a panic is caught by the caller.
    fn run(&self, world: &World, seed: u64, recording: bool) -> Output;
}

/// A run that has been traced.
#[derive(Clone, Debug, PartialEq)]
pub struct Traced {
    /// What was measured.
    pub record: RunRecord,
    /// The files: the capture, then the qlog files as their connections began.
    pub files: Vec<PathBuf>,
    /// Flows that are not in the capture because they do not run on UDP.
    pub not_captured: Vec<String>,
}

/// Why there is no trace, or one of another run than the recorded.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The engine cannot write traces.
    #[error("this engine writes no traces")]
    Unsupported,
    /// The world cannot be run.
    #[error("{0}")]
    World(String),
    /// The run panicked; what was written until then is kept.
    #[error("the program panicked: {0}")]
    Panicked(String),
    /// A file could not be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The run came out differently. The files are those of the new run.
    #[error(
        "the run came out differently: its wire hash is {found}, the recorded one is {expected}; the traces in {} are of \
         the new run",
        folder.display()
    )]
    Differs {
        /// The wire hash on record.
        expected: String,
        /// That of the new run.
        found: String,
        /// Where the traces are.
        folder: PathBuf,
    },
}

#[cfg(test)]
mod tests;
