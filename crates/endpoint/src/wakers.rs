//! The tasks that wait for something any one of them may take.

use std::task::Waker;

/// How many of the newest entries are compared before a waker is added again: one task that polls in a loop finds
/// itself here, and ten thousand different tasks do not cost ten thousand comparisons each.
const COMPARED: usize = 4;
/// Below this many entries nothing is purged.
const PURGE_FROM: usize = 64;

/// A set of wakers.
///
/// A future that is dropped does not take its waker out. Instead the set wakes and forgets everybody when it has
/// doubled since it last did so: those still interested come back, those long gone do not, and memory stays
/// proportional to the live waiters.
#[derive(Debug, Default)]
pub(crate) struct WakerSet {
    wakers: Vec<Waker>,
    purge_at: usize,
}

impl WakerSet {
    /// Remembers the task of `waker` until the next wake-up.
    pub(crate) fn register(&mut self, waker: &Waker) {
        if self.wakers.iter().rev().take(COMPARED).any(|known| known.will_wake(waker)) {
            return;
        }
        if self.wakers.len() >= self.purge_at.max(PURGE_FROM) {
            self.purge_at = self.wakers.len().saturating_mul(2);
            for stale in self.wakers.drain(..) {
                stale.wake();
            }
        }
        self.wakers.push(waker.clone());
    }

    /// Whether nobody waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.wakers.is_empty()
    }

    /// Moves every waker to `out`, whose owner calls them after it has let go of its locks.
    pub(crate) fn take(&mut self, out: &mut Vec<Waker>) {
        out.append(&mut self.wakers);
        self.purge_at = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        task::Wake,
    };

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn one_task_polling_in_a_loop_takes_one_place() {
        let mut set = WakerSet::default();
        let waker = Waker::from(Arc::new(Count::default()));
        for _ in 0..1000 {
            set.register(&waker);
        }
        let mut out = Vec::new();
        set.take(&mut out);
        assert_eq!(out.len(), 1);
    }

    #[test]
    fn abandoned_waiters_do_not_pile_up() {
        let mut set = WakerSet::default();
        for _ in 0..100_000 {
            set.register(&Waker::from(Arc::new(Count::default())));
        }
        assert!(set.wakers.len() <= 131_072);
        let live: Vec<_> = (0..10).map(|_| Arc::new(Count::default())).collect();
        for _ in 0..50_000 {
            for task in &live {
                if Arc::strong_count(task) == 1 {
                    set.register(&Waker::from(task.clone()));
                }
            }
        }
        let mut out = Vec::new();
        set.take(&mut out);
        for waker in out {
            waker.wake();
        }
        assert!(live.iter().all(|task| task.0.load(Ordering::Relaxed) >= 1));
    }
}
