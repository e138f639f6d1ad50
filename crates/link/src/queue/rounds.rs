//! Deficit round robin with a first turn for flows that are new (RFC 8290 section 4.2).

use std::collections::VecDeque;

/// Whose turn it is. Flows are numbered from 0.
#[derive(Debug)]
pub(crate) struct Rounds {
    quantum: i64,
    turns: Vec<Turn>,
    new: VecDeque<usize>,
    old: VecDeque<usize>,
}

#[derive(Copy, Clone, Debug, Default)]
struct Turn {
    /// Bytes that it may still send in its turn; below zero, that it owes.
    deficit: i64,
    is_active: bool,
}

impl Rounds {
    pub(crate) fn new(flows: usize, quantum: u32) -> Self {
        let turns = vec![Turn::default(); flows];
        Rounds { quantum: i64::from(quantum.max(1)), turns, new: VecDeque::new(), old: VecDeque::new() }
    }

    /// A flow has something to send. One that had nothing is new.
    pub(crate) fn activate(&mut self, flow: usize) {
        let turn = &mut self.turns[flow];
        if !turn.is_active {
            *turn = Turn { deficit: self.quantum, is_active: true };
            self.new.push_back(flow);
        }
    }

    /// Whose turn it is, if anyone's: then either [`charge`](Self::charge) it or tell that it is
    /// [`empty`](Self::empty).
    pub(crate) fn next(&mut self) -> Option<usize> {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let flow = *list.front()?;
            let turn = &mut self.turns[flow];
            if turn.deficit > 0 {
                return Some(flow);
            }
            turn.deficit += self.quantum;
            list.pop_front();
            self.old.push_back(flow);
        }
    }

    /// The flow whose turn it was has sent so many bytes.
    pub(crate) fn charge(&mut self, flow: usize, size: u32) {
        self.turns[flow].deficit -= i64::from(size);
    }

    /// The flow whose turn it was had nothing. One that was new waits for the others first, so that it cannot be new
    /// again at once.
    pub(crate) fn empty(&mut self, flow: usize) {
        if self.new.front() == Some(&flow) {
            self.new.pop_front();
            if !self.old.is_empty() {
                self.old.push_back(flow);
                return;
            }
        } else {
            self.old.pop_front();
        }
        self.turns[flow].is_active = false;
    }

    /// Flows that take turns.
    pub(crate) fn active(&self) -> usize {
        self.new.len() + self.old.len()
    }

    #[cfg(test)]
    pub(crate) fn deficit(&self, flow: usize) -> (i64, bool) {
        (self.turns[flow].deficit, self.turns[flow].is_active)
    }
}
