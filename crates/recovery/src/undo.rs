//! Losses that were none: remembering packets declared lost, and deciding when a whole reduction was a mistake.
//!
//! In QUIC a spurious loss is a fact, not an inference: a packet number declared lost is acknowledged after all.
//! Packets declared lost are therefore remembered for a while ([`LostPackets`]). Each belongs to the *episode* (the
//! reduction of the window) that its loss brought about or fell into, and an episode is proven spurious once every
//! packet of it has been acknowledged ([`Episodes`]). Then the controller takes it back (RFC 9438 section 4.9); a
//! single late packet among real losses takes nothing back.

use std::collections::VecDeque;

use core::ops::RangeInclusive;

use smallvec::SmallVec;
use thalweg_units::Instant;

use crate::sent::Record;

/// How many packets declared lost are remembered per space. Bounds memory; beyond it the oldest can no longer be proven
/// spurious.
const REMEMBERED: usize = 65_536;

/// How many reductions in a row can be taken back. Reductions pile up only while all of their losses are fresh.
pub(crate) const DEPTH: usize = 4;

/// The number of an episode that is none: the packet's loss has nothing to do with congestion.
pub(crate) const NO_EPISODE: u32 = 0;

/// A packet declared lost that may still turn up.
#[derive(Clone, Debug)]
pub(crate) struct LostPacket<T> {
    pub(crate) number: u64,
    /// When it was declared lost.
    pub(crate) declared: Instant,
    /// When it ceases to be remembered.
    pub(crate) forget: Instant,
    /// The reduction it belongs to, or [`NO_EPISODE`].
    pub(crate) episode: u32,
    pub(crate) record: Record<T>,
}

/// The packets of a space that were declared lost not long ago, by number.
#[derive(Clone, Debug)]
pub(crate) struct LostPackets<T> {
    packets: VecDeque<LostPacket<T>>,
}

impl<T> LostPackets<T> {
    pub(crate) fn new() -> Self {
        LostPackets { packets: VecDeque::new() }
    }

    /// Remembers a packet. One path declares in ascending order, so this is an append but for packets of another path.
    pub(crate) fn push(&mut self, packet: LostPacket<T>) {
        let is_last = self.packets.back().is_none_or(|last| last.number < packet.number);
        if is_last {
            self.packets.push_back(packet);
        } else {
            let index = self.packets.partition_point(|known| known.number < packet.number);
            self.packets.insert(index, packet);
        }
    }

    /// Takes out the packets that an acknowledged range names: they were not lost. O(log n) when there are none.
    pub(crate) fn take_range(&mut self, range: &RangeInclusive<u64>, late: impl FnMut(LostPacket<T>)) {
        let in_reach = self.packets.front().is_some_and(|first| first.number <= *range.end())
            && self.packets.back().is_some_and(|last| last.number >= *range.start());
        if in_reach {
            let from = self.packets.partition_point(|packet| packet.number < *range.start());
            let to = self.packets.partition_point(|packet| packet.number <= *range.end());
            self.packets.drain(from..to).for_each(late);
        }
    }

    /// Forgets what is too old or too much; what is forgotten was truly lost.
    pub(crate) fn forget(&mut self, now: Instant, mut gone: impl FnMut(&LostPacket<T>)) {
        while let Some(first) = self.packets.front() {
            if first.forget > now && self.packets.len() <= REMEMBERED {
                break;
            }
            gone(first);
            self.packets.pop_front();
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self, gone: impl FnMut(&LostPacket<T>)) {
        self.packets.iter().for_each(gone);
        self.packets.clear();
    }
}

/// The latest recovery period of a path (RFC 9002 section 7.3.2), by the order of sending.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Period {
    /// The last packet sent before it began. The loss of this packet, or of an older one, has been responded to. Zero:
    /// there was no period yet.
    pub(crate) answered: u64,
    /// The last packet whose delivery opens no window. Behind `answered` once persistent congestion has ended the
    /// period: then everything that is delivered may open the window again.
    pub(crate) closed: u64,
}

impl Period {
    /// A period begins after `order` packets.
    pub(crate) fn after(order: u64) -> Period {
        Period { answered: order, closed: order }
    }
}

#[derive(Copy, Clone, Debug)]
struct Episode {
    number: u32,
    /// Packets of the episode that are still missing.
    missing: u32,
    /// The recovery period that was in force before.
    previous: Period,
}

/// The latest reductions of one path that can still be taken back, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Episodes {
    stack: SmallVec<[Episode; DEPTH]>,
}

impl Episodes {
    /// A reduction begins; `previous` is the recovery period before it.
    pub(crate) fn begin(&mut self, number: u32, previous: Period) {
        if self.stack.len() == DEPTH {
            self.stack.remove(0);
        }
        self.stack.push(Episode { number, missing: 0, previous });
    }

    /// A packet's loss belongs to episode `number`.
    pub(crate) fn on_lost(&mut self, number: u32) {
        if let Some(episode) = self.stack.iter_mut().find(|episode| episode.number == number) {
            episode.missing += 1;
        }
    }

    /// A packet of episode `number` was acknowledged after all.
    pub(crate) fn on_late_ack(&mut self, number: u32) {
        if let Some(episode) = self.stack.iter_mut().find(|episode| episode.number == number) {
            episode.missing = episode.missing.saturating_sub(1);
        }
    }

    /// Episode `number` was justified: a packet of it is gone for good, or a mark confirmed it. Then what lies beneath
    /// it stands too.
    pub(crate) fn justify(&mut self, number: u32) {
        if let Some(index) = self.stack.iter().position(|episode| episode.number == number) {
            self.stack.drain(..=index);
        }
    }

    /// Every reduction so far was justified: the path itself has reported congestion.
    pub(crate) fn justify_all(&mut self) {
        self.stack.clear();
    }

    /// The newest reduction, if none of its packets is missing any more, with the recovery period to return to. Older
    /// ones wait for it.
    pub(crate) fn take_spurious(&mut self) -> Option<(u32, Period)> {
        let newest = self.stack.last().filter(|episode| episode.missing == 0)?;
        let result = (newest.number, newest.previous);
        self.stack.pop();
        Some(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sent::Transmission;
    use crate::types::PathId;
    use thalweg_units::Duration;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    fn lost(number: u64, forget: u64) -> LostPacket<()> {
        let sent = Transmission::new(at(0), 1_200, true);
        let record = Record { sent, ordinal: number, path: PathId(0), ack_eliciting: true, data: () };
        LostPacket { number, declared: at(0), forget: at(forget), episode: 1, record }
    }

    #[test]
    fn rfc9438_4_9_an_episode_is_spurious_only_when_every_packet_of_it_was_acknowledged() {
        let mut episodes = Episodes::default();
        episodes.begin(1, Period::after(5));
        episodes.on_lost(1);
        episodes.on_lost(1);
        episodes.on_late_ack(1);
        assert_eq!(episodes.take_spurious(), None);
        episodes.on_late_ack(1);
        assert_eq!(episodes.take_spurious(), Some((1, Period::after(5))));
        assert_eq!(episodes.take_spurious(), None);
    }

    #[test]
    fn a_packet_that_never_turns_up_justifies_its_episode() {
        let mut episodes = Episodes::default();
        episodes.begin(1, Period::default());
        episodes.on_lost(1);
        episodes.on_lost(1);
        episodes.justify(1);
        episodes.on_late_ack(1);
        episodes.on_late_ack(1);
        assert_eq!(episodes.take_spurious(), None);
    }

    #[test]
    fn a_later_reduction_that_stands_keeps_an_earlier_one() {
        let mut episodes = Episodes::default();
        for number in [1, 2] {
            episodes.begin(number, Period::default());
            episodes.on_lost(number);
        }
        episodes.on_late_ack(1);
        assert_eq!(episodes.take_spurious(), None, "2 still stands");
        episodes.on_late_ack(2);
        assert_eq!(episodes.take_spurious(), Some((2, Period::default())));
        assert_eq!(episodes.take_spurious(), Some((1, Period::default())), "and then what lies beneath");
        assert_eq!(episodes.take_spurious(), None);
    }

    #[test]
    fn justifying_a_reduction_justifies_what_came_before_it() {
        let mut episodes = Episodes::default();
        for number in [1, 2, 3] {
            episodes.begin(number, Period::default());
            episodes.on_lost(number);
        }
        episodes.justify(2);
        for number in [1, 2, 3] {
            episodes.on_late_ack(number);
        }
        assert_eq!(episodes.take_spurious(), Some((3, Period::default())));
        assert_eq!(episodes.take_spurious(), None);
    }

    #[test]
    fn the_oldest_reductions_are_dropped_when_they_pile_up() {
        let mut episodes = Episodes::default();
        for number in 1..=6 {
            episodes.begin(number, Period::default());
        }
        let taken: Vec<u32> = core::iter::from_fn(|| episodes.take_spurious()).map(|(number, _)| number).collect();
        assert_eq!(taken, [6, 5, 4, 3]);
    }

    #[test]
    fn lost_packets_are_found_by_number_whatever_the_order_of_declaration() {
        let mut packets = LostPackets::new();
        for number in [5, 9, 7, 20, 1] {
            packets.push(lost(number, 100));
        }
        let mut late = Vec::new();
        packets.take_range(&(5..=9), |packet| late.push(packet.number));
        packets.take_range(&(5..=9), |packet| late.push(packet.number));
        packets.take_range(&(30..=40), |packet| late.push(packet.number));
        assert_eq!(late, [5, 7, 9]);
        packets.take_range(&(0..=40), |packet| late.push(packet.number));
        assert_eq!(late, [5, 7, 9, 1, 20]);
    }

    #[test]
    fn lost_packets_are_forgotten_in_time_and_in_number() {
        let mut packets = LostPackets::new();
        packets.push(lost(1, 10));
        packets.push(lost(2, 20));
        let mut gone = Vec::new();
        packets.forget(at(9), |packet| gone.push(packet.number));
        assert!(gone.is_empty());
        packets.forget(at(10), |packet| gone.push(packet.number));
        assert_eq!(gone, [1]);
        for number in 3..=REMEMBERED as u64 + 4 {
            packets.push(lost(number, 1_000));
        }
        packets.forget(at(20), |packet| gone.push(packet.number));
        assert_eq!(gone, [1, 2, 3, 4]);
    }
}
