//! Many queues in one store, for disciplines that keep flows apart: what they hold together bounds their memory.

use super::Queued;

/// First-in-first-out queues, numbered from 0, whose packets share one store.
#[derive(Debug)]
pub(crate) struct Lists<P> {
    nodes: Vec<Node<P>>,
    /// The first node that holds nothing.
    free: usize,
    lists: Vec<List>,
    bytes: u64,
    len: usize,
}

#[derive(Debug)]
struct Node<P> {
    queued: Option<Queued<P>>,
    next: usize,
    previous: usize,
}

#[derive(Copy, Clone, Debug)]
struct List {
    first: usize,
    last: usize,
    len: usize,
    bytes: u64,
}

/// No node.
const NONE: usize = usize::MAX;

impl<P> Lists<P> {
    /// So many empty queues.
    pub(crate) fn new(count: usize) -> Self {
        let list = List { first: NONE, last: NONE, len: 0, bytes: 0 };
        Lists { nodes: Vec::new(), free: NONE, lists: vec![list; count], bytes: 0, len: 0 }
    }

    pub(crate) fn push(&mut self, list: usize, queued: Queued<P>) {
        let size = u64::from(queued.packet.size);
        let previous = self.lists[list].last;
        let node = Node { queued: Some(queued), next: NONE, previous };
        let at = self.free;
        let at = if at == NONE {
            self.nodes.push(node);
            self.nodes.len() - 1
        } else {
            self.free = self.nodes[at].next;
            self.nodes[at] = node;
            at
        };
        match previous {
            NONE => self.lists[list].first = at,
            previous => self.nodes[previous].next = at,
        }
        let list = &mut self.lists[list];
        list.last = at;
        list.len += 1;
        list.bytes += size;
        self.len += 1;
        self.bytes += size;
    }

    /// The packet of a queue that has waited longest.
    pub(crate) fn pop_first(&mut self, list: usize) -> Option<Queued<P>> {
        self.take(list, self.lists[list].first)
    }

    /// The packet of a queue that came last.
    pub(crate) fn pop_last(&mut self, list: usize) -> Option<Queued<P>> {
        self.take(list, self.lists[list].last)
    }

    fn take(&mut self, list: usize, at: usize) -> Option<Queued<P>> {
        let node = self.nodes.get_mut(at)?;
        let queued = node.queued.take()?;
        let (next, previous) = (node.next, node.previous);
        node.next = self.free;
        self.free = at;
        match previous {
            NONE => self.lists[list].first = next,
            previous => self.nodes[previous].next = next,
        }
        match next {
            NONE => self.lists[list].last = previous,
            next => self.nodes[next].previous = previous,
        }
        let size = u64::from(queued.packet.size);
        let list = &mut self.lists[list];
        list.len -= 1;
        list.bytes -= size;
        self.len -= 1;
        self.bytes -= size;
        Some(queued)
    }

    /// Packets in a queue.
    pub(crate) fn len_of(&self, list: usize) -> usize {
        self.lists[list].len
    }

    /// Bytes in a queue.
    pub(crate) fn bytes_of(&self, list: usize) -> u64 {
        self.lists[list].bytes
    }

    /// Packets in all queues.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes in all queues.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many queues there are.
    pub(crate) fn count(&self) -> usize {
        self.lists.len()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;
    use thalweg_units::{Ecn, Instant};

    use super::*;
    use crate::Packet;

    proptest! {
        #[test]
        fn lists_are_queues_and_reuse_their_store(steps in proptest::collection::vec((0usize..4, 0u8..4), 0..400)) {
            let mut lists: Lists<u64> = Lists::new(4);
            let mut queues: [VecDeque<u64>; 4] = Default::default();
            let mut most = 0;
            for (number, (list, what)) in (0u64..).zip(steps) {
                match what {
                    0 => prop_assert_eq!(lists.pop_first(list).map(|q| q.packet.payload), queues[list].pop_front()),
                    1 => prop_assert_eq!(lists.pop_last(list).map(|q| q.packet.payload), queues[list].pop_back()),
                    _ => {
                        let at = Instant::ZERO;
                        let packet =
                            Packet { payload: number, size: 100, flow: 0, connection: 0, ecn: Ecn::NotEct, sent: at, tail: false };
                        lists.push(list, Queued { packet, at });
                        queues[list].push_back(number);
                    }
                }
                most = most.max(lists.len());
                prop_assert_eq!(lists.len_of(list), queues[list].len());
                prop_assert_eq!(lists.bytes_of(list), 100 * queues[list].len() as u64);
                prop_assert_eq!(lists.len(), queues.iter().map(VecDeque::len).sum::<usize>());
                prop_assert_eq!(lists.bytes(), 100 * lists.len() as u64);
            }
            prop_assert_eq!(lists.nodes.len(), most);
        }
    }
}
