//! Transmissions in order of time, so that a repair can be found lost too (RFC 8985 section 6).

use std::collections::VecDeque;

use thalweg_units::{Duration, Instant};

use super::settings::TcpAcks;

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
    /// The newest transmission that was delivered, and when it left.
    newest: Option<(u64, Instant)>,
    /// Something arrived later than what had left after it.
    pub(super) is_mixed: bool,
    /// Something was lost in the episode under way.
    pub(super) is_repairing: bool,
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
        self.newest.map(|(ordinal, _)| ordinal)
    }

    /// Whether what left so much later than `sent` was delivered.
    pub(super) fn is_outrun(&self, sent: Instant, window: Option<Duration>) -> bool {
        window.zip(self.newest).is_some_and(|(window, (_, newest))| sent + window <= newest)
    }

    /// The transmission at this place, which left then, arrived.
    pub(super) fn deliver(&mut self, ordinal: u64, sent: Instant) {
        self.newest = self.newest.max(Some((ordinal, sent)));
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

/// The oldest and the newest first-time transmission that an ACK delivers, by order of sending.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Answered {
    pub(super) oldest: Option<(u64, Instant)>,
    pub(super) newest: Option<(u64, Instant)>,
}

impl Answered {
    pub(super) fn take_in(&mut self, ordinal: u64, sent: Instant) {
        if self.oldest.is_none_or(|(oldest, _)| ordinal < oldest) {
            self.oldest = Some((ordinal, sent));
        }
        if self.newest.is_none_or(|(newest, _)| ordinal >= newest) {
            self.newest = Some((ordinal, sent));
        }
    }

    /// When what the smoothed round trip is to be measured from was sent, and what the minimum and the controller go
    /// by. Linux takes the oldest for the former, so that the delay of an ACK counts (`tcp_clean_rtx_queue`). `stamped`
    /// stands in where nothing was sent for the first time.
    pub(super) fn sample(&self, acks: TcpAcks, stamped: Option<Instant>) -> Option<(Instant, Instant)> {
        let newest = self.newest.map(|(_, sent)| sent).or(stamped)?;
        let oldest = self.oldest.map(|(_, sent)| sent).filter(|_| acks == TcpAcks::Linux);
        Some((oldest.unwrap_or(newest), newest))
    }
}
