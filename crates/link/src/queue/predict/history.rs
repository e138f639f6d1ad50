//! The history of arrivals and departures, slot by slot.

/// The end of a slot.
#[derive(Copy, Clone, Debug, Default)]
struct Entry {
    /// Work that had arrived by then, in nanoseconds on the link.
    arrived: u64,
    /// When that will have left, in nanoseconds from the origin.
    left_at: u64,
    /// How many slots before this one the latest was whose work has left by its end.
    behind: u32,
}

/// Slots in a ring. Slot 0 ends at the origin, before anything arrived.
#[derive(Debug)]
pub(super) struct History {
    ring: Vec<Entry>,
    /// Nanoseconds of a slot.
    slot: u64,
    /// The number of the newest slot.
    newest: u64,
    /// The latest slot whose work has left. Only moves forward, as a queue that serves in order lets work leave in
    /// order.
    served: u64,
}

impl History {
    /// Remembers so many slots at least.
    pub(super) fn new(slot: u64, slots: usize) -> History {
        History { ring: vec![Entry::default(); slots.next_power_of_two()], slot, newest: 0, served: 0 }
    }

    /// Forgets everything; the origin is here.
    pub(super) fn clear(&mut self) {
        (self.newest, self.served) = (0, 0);
        if let Some(first) = self.ring.first_mut() {
            *first = Entry::default();
        }
    }

    /// Bytes that it takes.
    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        self.ring.len() * size_of::<Entry>()
    }

    /// How many slots it remembers.
    pub(super) fn len(&self) -> u64 {
        self.ring.len() as u64
    }

    /// The number of the newest slot.
    pub(super) fn newest(&self) -> u64 {
        self.newest
    }

    fn entry(&self, slot: u64) -> Option<&Entry> {
        let is_known = slot <= self.newest && self.newest - slot < self.len();
        self.ring.get((slot & (self.len() - 1)) as usize).filter(|_| is_known)
    }

    /// A slot ends: `arrived` work has arrived in all, and `queue` of it has not left.
    pub(super) fn end_slot(&mut self, arrived: u64, queue: u64) {
        self.newest += 1;
        let now = self.newest * self.slot;
        let entry = Entry { arrived, left_at: now.saturating_add(queue), behind: 0 };
        let index = (self.newest & (self.len() - 1)) as usize;
        if let Some(place) = self.ring.get_mut(index) {
            *place = entry;
        }
        // What is older than the ring has been forgotten.
        self.served = self.served.max(self.newest.saturating_sub(self.len() - 1));
        while self.served < self.newest && self.entry(self.served + 1).is_some_and(|next| next.left_at <= now) {
            self.served += 1;
        }
        let behind = u32::try_from(self.newest - self.served).unwrap_or(u32::MAX);
        if let Some(place) = self.ring.get_mut(index) {
            place.behind = behind;
        }
    }

    /// Work that had arrived by the end of a slot; none if it is forgotten.
    pub(super) fn arrived(&self, slot: u64) -> Option<u64> {
        self.entry(slot).map(|entry| entry.arrived)
    }

    /// The latest slot whose work had left by the end of the slot `round_trip` slots before `slot`: what arrives at the
    /// end of `slot` is sent in answer to what arrived by then. Slot 0 if there is none, none if it is forgotten.
    pub(super) fn one_round_trip_before(&self, slot: u64, round_trip: u64) -> Option<u64> {
        match slot.checked_sub(round_trip) {
            None => Some(0),
            Some(before) => self.entry(before).map(|entry| before - u64::from(entry.behind)),
        }
    }
}
