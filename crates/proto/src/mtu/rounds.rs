//! Tells a shrunken path from loss and outages, by sizes and the order of sending.

/// How often "large lost, smaller arrived" must repeat before it counts as a black hole. Random loss does this too: at
/// 20 % of all packets, and every other one small, once in ten million packets.
const ROUNDS: u8 = 5;

/// With at least [`MANY_LOST`] large packets lost in a row, so often is enough: bulk transfers lose windows at a time,
/// and waiting costs them a probe timeout each time. Once, however, is what any outage looks like.
const ROUNDS_WHEN_MANY: u8 = 2;

/// See [`ROUNDS_WHEN_MANY`]. At 20 % random loss so many go missing in a row once in ten million packets.
const MANY_LOST: u32 = 10;

/// Tells a shrunken path from loss and outages, by sizes and the order of sending.
#[derive(Clone, Debug, Default)]
pub(super) struct Rounds {
    /// The latest packet of full size that arrived: whatever was lost before it was lost for another reason.
    full_acked: Option<u64>,
    /// The latest packet of less than full size that arrived, and its size.
    small_acked: Option<(u64, u16)>,
    suspect: Option<Suspect>,
}

/// Since when, and how often, large packets have been lost without one arriving.
#[derive(Clone, Debug)]
struct Suspect {
    /// The earliest large packet lost.
    first: u64,
    /// The smallest size among those lost.
    smallest: u16,
    losses: u32,
    /// How often a smaller packet, sent after a lost large one, has arrived.
    rounds: u8,
    /// The small packet that completed the last round: only losses after it begin another.
    round_end: Option<u64>,
    /// The earliest loss of the round under way.
    open: Option<u64>,
}

impl Suspect {
    /// Completes the round under way if a packet of `size` bytes arrived that was sent after its first loss.
    fn small_arrived(&mut self, size: u16, number: u64) {
        if size < self.smallest && self.open.is_some_and(|lost| number > lost) {
            self.rounds = self.rounds.saturating_add(1);
            self.round_end = Some(number);
            self.open = None;
        }
    }

    fn is_black_hole(&self) -> bool {
        self.rounds >= ROUNDS || (self.rounds >= ROUNDS_WHEN_MANY && self.losses >= MANY_LOST)
    }
}

impl Rounds {
    /// A packet of `size` bytes arrived; whether that completes the evidence for a black hole.
    #[inline]
    pub(super) fn on_acked(&mut self, current: u16, size: u16, number: u64) -> bool {
        if size >= current {
            self.full_acked = self.full_acked.max(Some(number));
        } else if self.small_acked.is_none_or(|(latest, _)| number > latest) {
            self.small_acked = Some((number, size));
        }
        let Some(suspect) = &mut self.suspect else {
            return false;
        };
        if size >= suspect.smallest {
            // As large as what was lost, sent later, and here.
            if number > suspect.first {
                self.suspect = None;
            }
            return false;
        }
        suspect.small_arrived(size, number);
        suspect.is_black_hole()
    }

    /// A packet of `size` bytes was lost; whether that completes the evidence for a black hole.
    pub(super) fn on_lost(&mut self, size: u16, number: u64) -> bool {
        if self.full_acked.is_some_and(|arrived| arrived > number) {
            return false;
        }
        let suspect = self.suspect.get_or_insert(Suspect {
            first: number,
            smallest: size,
            losses: 0,
            rounds: 0,
            round_end: None,
            open: None,
        });
        suspect.first = suspect.first.min(number);
        suspect.smallest = suspect.smallest.min(size);
        suspect.losses = suspect.losses.saturating_add(1);
        if suspect.round_end.is_none_or(|end| number > end) {
            suspect.open = Some(suspect.open.map_or(number, |open| open.min(number)));
        }
        // An acknowledgment often reports the small arrival before the large losses.
        if let Some((small, small_size)) = self.small_acked {
            suspect.small_arrived(small_size, small);
        }
        suspect.is_black_hole()
    }

    /// The smallest size among those lost, once: what is as large is too large.
    pub(super) fn take_smallest(&mut self) -> Option<u16> {
        Some(self.suspect.take()?.smallest)
    }
}
