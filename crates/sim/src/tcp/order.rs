//! Transmissions in order of time, so that a repair can be found lost too (RFC 8985 section 6).

use std::collections::VecDeque;

/// A transmission, in order of time.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// Of the segment that starts here.
    Open(u64),
    Delivered,
    /// Lost or superseded.
    Gone,
}

/// The transmissions from the oldest open one on.
#[derive(Debug, Default)]
pub(super) struct Order {
    pub(super) slots: VecDeque<Slot>,
    /// Place of the first slot.
    pub(super) base: u64,
    /// Delivered slots in the ring.
    pub(super) delivered: u64,
    /// The newest transmission that was delivered.
    newest: Option<u64>,
}

impl Order {
    /// A transmission of the segment that starts at `start`; returns its place.
    pub(super) fn push(&mut self, start: u64) -> u64 {
        self.slots.push_back(Slot::Open(start));
        self.base + self.slots.len() as u64 - 1
    }

    pub(super) fn get(&self, ordinal: u64) -> Option<Slot> {
        self.slots.get(usize::try_from(ordinal.checked_sub(self.base)?).ok()?).copied()
    }

    pub(super) fn len(&self) -> u64 {
        self.slots.len() as u64
    }

    /// The newest transmission that was delivered.
    pub(super) fn newest(&self) -> Option<u64> {
        self.newest
    }

    /// The transmission at this place arrived.
    pub(super) fn deliver(&mut self, ordinal: u64) {
        self.newest = self.newest.max(Some(ordinal));
        self.delivered += u64::from(self.set(ordinal, Slot::Delivered));
    }

    /// The transmission at this place is lost, or another counts instead.
    pub(super) fn forget(&mut self, ordinal: u64) {
        self.set(ordinal, Slot::Gone);
    }

    fn set(&mut self, ordinal: u64, slot: Slot) -> bool {
        let at = ordinal.checked_sub(self.base).and_then(|at| self.slots.get_mut(at as usize));
        at.map(|at| *at = slot).is_some()
    }

    /// Forgets what is settled at the front.
    pub(super) fn trim(&mut self) {
        while let Some(slot @ (Slot::Delivered | Slot::Gone)) = self.slots.front() {
            self.delivered -= u64::from(*slot == Slot::Delivered);
            self.slots.pop_front();
            self.base += 1;
        }
    }
}
