//! Sizes of packets: whether large ones stopped coming through while smaller ones did.

use std::collections::{BTreeMap, VecDeque};

/// Sizes that are told apart.
const SIZES: usize = 256;
/// So many large packets are lost before it is more than chance.
const LEAST: u64 = 3;
/// A search for the largest size that comes through ends within so many bytes of it.
const NEAR: u32 = 20;
/// A path that carries QUIC at all carries these.
const ALWAYS: u32 = 1200;

/// What became of packets of one size. Times in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// When the newest was sent that came through.
    through: Option<f64>,
    /// Lost since then: how many, and when the first and the last of them were sent.
    lost: u64,
    first: f64,
    last: f64,
}

/// A drop of the path's MTU. Times in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Drop {
    /// Between the last large packet that came through and the first that did not.
    pub(crate) at: f64,
    /// The first that did not, and the last large packet that was sent.
    pub(crate) first: f64,
    pub(crate) until: f64,
    /// The largest that came through from then on, bytes of UDP payload.
    pub(crate) size: u32,
    /// Large packets that were lost.
    pub(crate) lost: u64,
}

/// Small packets that are remembered.
const SMALL: usize = 256;

/// What became of packets by their size.
#[derive(Debug, Default)]
pub(crate) struct Sizes {
    seen: BTreeMap<u32, Seen>,
    /// When the latest small packets were sent that came through, and those that were lost.
    small: [VecDeque<f64>; 2],
}

impl Sizes {
    fn of(&mut self, size: u32) -> Option<&mut Seen> {
        let is_known = size < ALWAYS || self.seen.len() < SIZES || self.seen.contains_key(&size);
        // What is smaller than any limit is one.
        is_known.then(|| self.seen.entry(if size < ALWAYS { 0 } else { size }).or_default())
    }

    fn small(&mut self, size: u32, sent: f64, is_lost: bool) {
        if size <= ALWAYS {
            let list = &mut self.small[usize::from(is_lost)];
            list.push_back(sent);
            if list.len() > SMALL {
                list.pop_front();
            }
        }
    }

    pub(super) fn through(&mut self, size: u32, sent: f64) {
        self.small(size, sent, false);
        if let Some(seen) = self.of(size) {
            seen.through = Some(seen.through.map_or(sent, |before| before.max(sent)));
            if seen.first <= sent {
                seen.lost = 0;
            }
        }
    }

    pub(super) fn lost(&mut self, size: u32, sent: f64) {
        self.small(size, sent, true);
        if let Some(seen) = self.of(size).filter(|seen| seen.through.is_none_or(|through| sent > through)) {
            seen.first = if seen.lost == 0 { sent } else { seen.first.min(sent) };
            seen.last = seen.last.max(sent);
            seen.lost += 1;
        }
    }

    /// The drop of the path's MTU, if there was one.
    pub(crate) fn drop(&self) -> Option<Drop> {
        // From the largest size down, as long as nothing of it came through after the first loss.
        let mut found: Option<Drop> = None;
        let mut cut = u32::MAX;
        for (size, seen) in self.seen.range(ALWAYS + 1..).rev() {
            if seen.lost == 0 {
                // Of this size nothing was sent since; it may have come through before.
                if found.is_some_and(|drop| seen.through.is_some_and(|through| through > drop.until)) {
                    break;
                }
                continue;
            }
            let through = self.seen.range(*size..).filter_map(|(_, seen)| seen.through).fold(f64::MIN, f64::max);
            if through > seen.first {
                break;
            }
            let mut drop =
                found.unwrap_or(Drop { at: seen.first, first: seen.first, until: seen.last, size: 0, lost: 0 });
            (drop.first, drop.until) = (drop.first.min(seen.first), drop.until.max(seen.last));
            drop.at = drop.first;
            drop.lost += seen.lost;
            (found, cut) = (Some(drop), *size);
        }
        let mut drop = found.filter(|drop| drop.lost >= LEAST)?;
        let before = self.seen.range(cut..).filter_map(|(_, seen)| seen.through).filter(|through| *through < drop.at);
        let before = before.fold(f64::MIN, f64::max);
        // Large ones came through once, and smaller ones do after it.
        let smaller =
            self.seen.range(..cut).filter(|(_, seen)| seen.through.is_some_and(|through| through > drop.until));
        drop.size = smaller.map(|(size, _)| *size).max()?.max(ALWAYS);
        // A search that came that near to the size before did not try it again.
        let largest = self.seen.iter().rev().find(|(_, seen)| seen.lost > 0).map_or(cut, |(size, _)| *size);
        if largest - drop.size <= NEAR {
            return None;
        }
        // In an outage, small ones are lost as well.
        let [through, lost] =
            self.small.each_ref().map(|list| list.iter().any(|sent| (drop.at..=drop.until).contains(sent)));
        if before == f64::MIN || (lost && !through) {
            return None;
        }
        drop.at = (drop.at + before) / 2.0;
        Some(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_packets_that_stop_coming_through_are_seen() {
        let mut sizes = Sizes::default();
        for at in 0..10 {
            sizes.through(1452, f64::from(at));
        }
        for at in 10..14 {
            sizes.lost(1452, f64::from(at));
        }
        assert_eq!(sizes.drop(), None, "nothing came through since");
        sizes.through(1200, 20.0);
        assert_eq!(sizes.drop(), Some(Drop { at: 9.5, first: 10.0, until: 13.0, size: 1200, lost: 4 }));
        sizes.lost(1200, 12.5);
        assert_eq!(sizes.drop(), None, "an outage");
        sizes.through(1200, 11.5);
        assert_eq!(sizes.drop().map(|drop| drop.size), Some(1200));
        sizes.through(1431, 20.5);
        assert_eq!(sizes.drop().map(|drop| drop.size), Some(1431));
        sizes.through(1432, 20.5);
        assert_eq!(sizes.drop(), None, "the search ended before it came to the size that was lost");
        sizes.through(1452, 21.0);
        assert_eq!(sizes.drop(), None);
    }
}
