//! Streams that are pinned to one of several paths: each path has a scheduler of its own for them.

use smallvec::SmallVec;
use thalweg_recovery::DataSpace;

use super::scheduler::Scheduler;
use super::send::Ready;
use crate::turn::Turn;

/// The streams that are pinned to one path.
#[derive(Debug)]
struct Pinned {
    path: DataSpace,
    scheduler: Scheduler,
    /// How many of them are in each state of readiness.
    counts: [usize; 4],
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Pins {
    /// Of the paths to which any are pinned.
    paths: Vec<Pinned>,
    /// What may be written now; `None`: everything.
    turn: Option<Turn>,
}

impl Pins {
    /// Whether no stream is pinned.
    pub(super) fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// From now on, only what a turn admits can be sent; `None`: everything.
    pub(super) fn set_turn(&mut self, turn: Option<Turn>) {
        self.turn = turn;
    }

    /// The scheduler of the streams pinned to a path.
    pub(super) fn scheduler(&mut self, path: DataSpace) -> &mut Scheduler {
        &mut self.of(path).scheduler
    }

    fn of(&mut self, path: DataSpace) -> &mut Pinned {
        let at = self.paths.iter().position(|pinned| pinned.path == path).unwrap_or_else(|| {
            self.paths.push(Pinned { path, scheduler: Scheduler::default(), counts: [0; 4] });
            self.paths.len() - 1
        });
        &mut self.paths[at]
    }

    /// A stream with this pin is in a state from now on (`is_there`), or no longer.
    #[inline]
    pub(super) fn count(&mut self, pin: Option<DataSpace>, ready: Ready, is_there: bool) {
        let Some(path) = pin else { return };
        let counts = &mut self.of(path).counts;
        match is_there {
            true => counts[ready.index()] += 1,
            false => counts[ready.index()] -= 1,
        }
        if *counts == [0; 4] {
            self.paths.retain(|pinned| pinned.path != path);
        }
    }

    /// How many streams pinned to a path are in a state.
    pub(super) fn pinned(&self, path: DataSpace, ready: Ready) -> usize {
        self.paths.iter().find(|pinned| pinned.path == path).map_or(0, |pinned| pinned.counts[ready.index()])
    }

    /// How many of `all` streams in a state may send now.
    #[inline]
    pub(super) fn sendable(&self, ready: Ready, all: usize) -> usize {
        let Some(turn) = &self.turn else { return all };
        let sum = |is_admitted: bool| {
            let of = self.paths.iter().filter(|pinned| turn.admits(pinned.path) == is_admitted);
            of.map(|pinned| pinned.counts[ready.index()]).sum::<usize>()
        };
        if turn.is_common { all - sum(false) } else { sum(true) }
    }

    /// The pins of the streams that may send now; those that are pinned to none come last.
    #[inline]
    pub(super) fn sources(&self) -> SmallVec<[Option<DataSpace>; 2]> {
        let admits = |path| self.turn.as_ref().is_none_or(|turn| turn.admits(path));
        let is_common = self.turn.as_ref().is_none_or(|turn| turn.is_common);
        let pins = self.paths.iter().map(|pinned| pinned.path).filter(|path| admits(*path));
        pins.map(Some).chain(is_common.then_some(None)).collect()
    }
}
