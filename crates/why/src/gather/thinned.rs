//! Some of a list of any length, evenly.

/// Up to `MOST` values: as there get more, every second one of those kept is dropped.
#[derive(Debug)]
pub(super) struct Thinned<T, const MOST: usize> {
    kept: Vec<T>,
    every: u64,
    seen: u64,
}

impl<T, const MOST: usize> Default for Thinned<T, MOST> {
    fn default() -> Self {
        Thinned { kept: Vec::new(), every: 1, seen: 0 }
    }
}

impl<T, const MOST: usize> Thinned<T, MOST> {
    pub(super) fn add(&mut self, value: T) {
        if self.seen.is_multiple_of(self.every) {
            self.kept.push(value);
        }
        self.seen += 1;
        if self.kept.len() >= MOST {
            self.every *= 2;
            let mut at = 0;
            self.kept.retain(|_| {
                at += 1;
                at % 2 == 1
            });
        }
    }

    pub(super) fn kept(&self) -> &[T] {
        &self.kept
    }

    /// Whether none has been left out.
    pub(super) fn is_whole(&self) -> bool {
        self.every == 1
    }
}
