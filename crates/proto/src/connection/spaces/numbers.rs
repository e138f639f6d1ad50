//! Packet numbers of one space: each larger than the last, now and then by two.
//!
//! A peer that acknowledges what it has not received makes its sender go faster than the path bears. It cannot know
//! which numbers were left out, and an ACK of one of those gives it away (RFC 9000 section 21.4).

use rand_core::Rng;

/// Among how many numbers the first to be left out is drawn. Fewer find a cheat earlier; each costs an honest peer one
/// ACK more, since it looks like a loss.
const FIRST_SPREAD: u64 = 64;
/// The same later on, after doubling each time: often enough for a long transfer, at no cost worth measuring.
const MAX_SPREAD: u64 = 1 << 16;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct PacketNumbers {
    next: u64,
    /// The number to be left out next, and among how many it was drawn; `None` where all are used.
    skip: Option<(u64, u64)>,
}

impl PacketNumbers {
    /// Leaves out a number now and then from now on.
    pub fn start_skipping(&mut self, rng: &mut impl Rng) {
        self.skip = Some((self.draw(FIRST_SPREAD, rng), FIRST_SPREAD));
    }

    /// The number of the next packet.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// A packet has got the number [`next`](Self::next) gave.
    pub fn on_used(&mut self, rng: &mut impl Rng) {
        self.next += 1;
        if let Some((number, spread)) = self.skip
            && number == self.next
        {
            self.next += 1;
            let spread = (spread * 2).min(MAX_SPREAD);
            self.skip = Some((self.draw(spread, rng), spread));
        }
    }

    /// One of the `spread` numbers behind the next; that one itself may have been given to a packet in the making.
    fn draw(&self, spread: u64, rng: &mut impl Rng) -> u64 {
        self.next + 1 + rng.next_u64() % spread
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::ChaCha8Rng;
    use rand_core::SeedableRng;

    fn skipped(seed: u64, packets: usize) -> Vec<u64> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut numbers = PacketNumbers::default();
        numbers.start_skipping(&mut rng);
        let mut skipped = Vec::new();
        let mut last = None;
        for _ in 0..packets {
            let next = numbers.next();
            let expected = last.map_or(0, |last| last + 1);
            skipped.extend(expected..next);
            last = Some(next);
            numbers.on_used(&mut rng);
        }
        skipped
    }

    #[test]
    fn rfc9000_21_4_numbers_are_left_out_one_at_a_time_and_unpredictably() {
        let mut firsts = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let skipped = skipped(seed, 10_000);
            assert!(skipped[0] >= 1 && skipped[0] <= FIRST_SPREAD);
            assert!(skipped.windows(2).all(|pair| pair[1] > pair[0] + 1));
            assert!((5..16).contains(&skipped.len()), "{} in 10,000 packets", skipped.len());
            firsts.insert(skipped[0]);
        }
        assert!(firsts.len() > 40, "{firsts:?}");
    }

    #[test]
    fn a_long_connection_goes_on_leaving_numbers_out() {
        let skipped = skipped(1, 3_000_000);
        assert!(skipped.windows(2).all(|pair| pair[1] - pair[0] <= MAX_SPREAD + 1));
        assert!(skipped.len() < 200, "{}", skipped.len());
    }
}
