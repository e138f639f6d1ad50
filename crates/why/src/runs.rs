//! Runs of transfers in virtual time, each done once: what has been run is remembered for whoever asks again.

use thalweg_sim::PlanError;
use thalweg_units::Duration;

use crate::Cause;
use crate::course::{Course, run_watched};
use crate::world::{Ran, World, run_each, shares};

/// So many packets of remembered transfers, lost or late by name, are enough: then all of them are forgotten.
const MOST_NAMED: usize = 1 << 18;

/// What has been run so far.
#[derive(Debug, Default)]
pub(crate) struct Runs(Vec<(World, Ran)>);

impl Runs {
    fn known(&self, world: &World) -> Option<Ran> {
        self.0.iter().find(|(known, _)| known == world).map(|(_, ran)| *ran)
    }

    /// Runs what has not been run, on all processors.
    fn prepare(&mut self, worlds: &[World]) -> Result<(), PlanError> {
        let named = |(world, _): &(World, Ran)| world.path.lost.len() + world.path.late.len();
        if self.0.iter().map(named).sum::<usize>() > MOST_NAMED {
            self.0.clear();
        }
        let mut new: Vec<World> = Vec::new();
        for world in worlds {
            if self.known(world).is_none() && !new.contains(world) {
                new.push(world.clone());
            }
        }
        let ran = run_each(&new, |world| world.run_counting(None))?;
        self.0.extend(new.into_iter().zip(ran));
        Ok(())
    }

    /// How a run comes out.
    ///
    /// # Errors
    /// When the path cannot be run.
    pub(crate) fn one(&mut self, world: &World) -> Result<Ran, PlanError> {
        self.prepare(core::slice::from_ref(world))?;
        Ok(self.known(world).unwrap_or((None, 0)))
    }

    /// How long each takes; none for those that do not end.
    ///
    /// # Errors
    /// When a path cannot be run.
    pub(crate) fn all(&mut self, worlds: &[World]) -> Result<Vec<Option<Duration>>, PlanError> {
        self.prepare(worlds)?;
        Ok(worlds.iter().map(|world| self.known(world).and_then(|(took, _)| took)).collect())
    }

    /// The same, and the course of each.
    ///
    /// # Errors
    /// When a path cannot be run.
    pub(crate) fn watched(&mut self, worlds: &[World]) -> Result<Vec<(Option<Duration>, Course)>, PlanError> {
        let mut watched = Vec::new();
        for (world, (ran, course)) in worlds.iter().zip(run_watched(worlds)?) {
            if self.known(world).is_none() {
                self.0.push((world.clone(), ran));
            }
            watched.push((ran.0, course));
        }
        Ok(watched)
    }

    /// The share of the time `whole` that it saves to take each cause away that is there and asked for, largest first.
    ///
    /// # Errors
    /// When the path cannot be run.
    pub(crate) fn savings(
        &mut self,
        world: &World,
        whole: Duration,
        is_asked: impl Fn(Cause) -> bool,
    ) -> Result<Vec<(Cause, f64)>, PlanError> {
        let causes = world.causes(is_asked);
        let without: Vec<World> = causes.iter().map(|(_, without)| without.clone()).collect();
        Ok(shares(&causes, self.all(&without)?, whole))
    }
}

#[cfg(test)]
mod tests {
    use thalweg_units::Rate;

    use super::*;
    use crate::world::{Load, Path, Sender};

    #[test]
    fn what_was_run_is_not_run_again() {
        let path = Path::clean(Rate::from_bps(10_000_000), Duration::from_millis(20), 50_000);
        let load = Load { bytes: 50_000, is_up: false, pieces: 1, pause: Duration::ZERO };
        let world = World { path, credit: None, sender: Sender::default(), load, seed: 1 };
        let mut runs = Runs::default();
        let took = runs.all(&[world.clone(), world.clone()]).unwrap();
        assert_eq!((took[0], runs.0.len()), (took[1], 1));
        assert_eq!(runs.one(&world).unwrap().0, world.run(None).unwrap());
        assert_eq!(runs.watched(core::slice::from_ref(&world)).unwrap()[0].0, took[0]);
        let whole = took[0].unwrap();
        assert_eq!(runs.savings(&world, whole, |_| true).unwrap(), world.savings(whole).unwrap());
        // Without start and without handshake.
        assert_eq!(runs.0.len(), 3);
        // What names many packets is not kept for long.
        let large = |n: u64| World {
            seed: n,
            path: Path { lost: (0..1 << 17).collect(), ..world.path.clone() },
            ..world.clone()
        };
        for n in 0..8 {
            runs.one(&large(n)).unwrap();
            assert!(runs.0.len() <= 6, "{n}: {}", runs.0.len());
        }
    }
}
