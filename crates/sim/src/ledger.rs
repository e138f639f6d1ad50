//! The account of one connection: what it sends twice, the round-trip times it sees, which packets are acknowledged.

use std::collections::{BTreeMap, BTreeSet};

use thalweg_proto::observe::{ACK_RANGES_KEPT, FrameInfo, ObserverEvent, PacketInfo, PacketKind};
use thalweg_recovery::trace::Event;
use thalweg_units::Duration;

use crate::result::is_measured;

/// The account of one connection.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// How far each stream has been sent: what is sent below is sent again.
    sent_up_to: BTreeMap<u64, u64>,
    /// Packets of application data, by path identifier and number, that no acknowledgment has covered yet; kept only if
    /// somebody asks.
    outstanding: BTreeSet<(u64, u64)>,
}

impl Ledger {
    /// How many bytes of streams an event sends that had been sent before: streams send new data in the order of their
    /// offsets.
    pub(crate) fn sent_again(&mut self, event: &ObserverEvent<'_>) -> u64 {
        let ObserverEvent::PacketSent(PacketInfo { frames, .. }) = event else { return 0 };
        let mut again = 0;
        for frame in *frames {
            if let FrameInfo::Stream { id, offset, len, .. } = *frame {
                let end = offset + u64::from(len);
                let sent = self.sent_up_to.entry(id).or_insert(0);
                again += end.min(*sent).saturating_sub(offset);
                *sent = end.max(*sent);
            }
        }
        again
    }

    /// The newest round-trip sample as of an event with the path's numbers.
    pub(crate) fn round_trip(event: &ObserverEvent<'_>) -> Option<Duration> {
        match event {
            ObserverEvent::Recovery { event: Event::Metrics(numbers), .. } if is_measured(numbers) => {
                Some(numbers.latest_rtt)
            }
            _ => None,
        }
    }

    /// Reports each packet that an event acknowledges for the first time. Of an ACK frame with many ranges only the
    /// highest are known; what is below them was among the highest of earlier frames, unless those were lost.
    pub(crate) fn acknowledged(&mut self, event: &ObserverEvent<'_>, mut tell: impl FnMut(u64)) {
        match event {
            ObserverEvent::PacketSent(PacketInfo {
                kind: PacketKind::OneRtt | PacketKind::ZeroRtt,
                number: Some(number),
                space,
                ..
            }) => {
                self.outstanding.insert((space.0.into(), *number));
            }
            ObserverEvent::PacketReceived(PacketInfo { kind: PacketKind::OneRtt, frames, .. }) => {
                for frame in *frames {
                    let FrameInfo::Ack { range_count, ranges, path, .. } = *frame else { continue };
                    let path = path.unwrap_or(0);
                    let kept = ACK_RANGES_KEPT.min(usize::try_from(range_count).unwrap_or(ACK_RANGES_KEPT));
                    for (first, last) in ranges.into_iter().take(kept) {
                        while let Some(number) = self.outstanding.range((path, first)..=(path, last)).next().copied() {
                            self.outstanding.remove(&number);
                            tell(number.1);
                        }
                    }
                }
            }
            _ => {}
        }
    }
}
