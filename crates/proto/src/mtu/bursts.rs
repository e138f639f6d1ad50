//! Tells a shrunken path from other loss by bursts: packets with consecutive numbers that were declared lost together.
//!
//! A drop of the MTU explains a burst if all of its packets are larger than the minimum, and none as small as it has
//! arrived although it was sent later. Random loss makes such bursts as well, but what arrives between them as large
//! explains them away.

/// So many bursts in a row that nothing else explains are no black hole yet.
const MOST: usize = 3;

/// The evidence for a black hole.
#[derive(Clone, Debug)]
pub(super) struct Bursts {
    min: u16,
    /// The smallest size of each burst that only a drop of the MTU explains; zero where there is none.
    suspicious: [u16; MOST + 1],
    open: Option<Burst>,
    /// The largest size that has arrived since the last suspicious burst, at least the minimum, and the latest packet
    /// of that size.
    arrived: (u16, u64),
}

/// A burst that may go on.
#[derive(Clone, Copy, Debug)]
struct Burst {
    /// Its latest packet.
    last: u64,
    smallest: u16,
}

impl Bursts {
    /// `min` bytes arrive on every path.
    pub(super) fn new(min: u16) -> Bursts {
        Bursts { min, suspicious: [0; MOST + 1], open: None, arrived: (min, 0) }
    }

    /// A probe arrived. It was larger than everything that was lost.
    pub(super) fn on_probe_acked(&mut self, size: u16, number: u64) {
        self.suspicious = [0; MOST + 1];
        self.arrived = (size, number);
    }

    /// A packet that was no probe arrived.
    #[inline]
    pub(super) fn on_acked(&mut self, size: u16, number: u64) {
        let (largest, latest) = self.arrived;
        if size == largest {
            self.arrived = (largest, latest.max(number));
        } else if size > largest {
            self.arrived = (size, number);
            for burst in self.suspicious.iter_mut().filter(|burst| **burst <= size) {
                *burst = 0;
            }
        }
    }

    /// A packet that was no probe was lost. Those that are declared lost together come in the order of their numbers,
    /// and then [`ends`](Self::ends) is called.
    pub(super) fn on_lost(&mut self, size: u16, number: u64) {
        if self.open.is_some_and(|open| number != open.last.wrapping_add(1)) {
            self.close();
        }
        let smallest = self.open.map_or(size, |open| open.smallest.min(size));
        self.open = Some(Burst { last: number, smallest });
    }

    /// All packets that were declared lost together have been told; whether they complete the evidence for a black
    /// hole. If they do, it begins anew.
    pub(super) fn ends(&mut self) -> bool {
        self.close();
        let is_black_hole = !self.suspicious.contains(&0);
        if is_black_hole {
            self.suspicious = [0; MOST + 1];
        }
        is_black_hole
    }

    fn close(&mut self) {
        let Some(Burst { last, smallest }) = self.open.take() else { return };
        let (largest, latest) = self.arrived;
        if smallest <= self.min || (last < latest && smallest <= largest) {
            return;
        }
        if last > latest {
            self.arrived.0 = self.min;
        }
        // Those of the largest packets are kept: they are the last to be explained away.
        if let Some(least) = self.suspicious.iter_mut().min().filter(|least| **least < smallest) {
            *least = smallest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bursts of one packet each; which of them completes the evidence.
    fn lose(bursts: &mut Bursts, size: u16, numbers: impl IntoIterator<Item = u64>) -> Option<u64> {
        numbers.into_iter().find(|number| {
            bursts.on_lost(size, *number);
            bursts.ends()
        })
    }

    #[test]
    fn a_fourth_burst_that_nothing_explains_is_a_black_hole() {
        let mut bursts = Bursts::new(1200);
        bursts.on_acked(1452, 9);
        assert_eq!(lose(&mut bursts, 1452, [10, 20, 30, 40]), Some(40));
        assert_eq!(lose(&mut bursts, 1452, [50, 60, 70]), None, "it begins anew");
    }

    #[test]
    fn packets_that_are_lost_together_are_one_burst() {
        let mut bursts = Bursts::new(1200);
        (0..100).for_each(|number| bursts.on_lost(1452, number));
        assert!(!bursts.ends(), "an outage");
        [200, 201, 210, 211, 220].into_iter().for_each(|number| bursts.on_lost(1452, number));
        assert!(bursts.ends(), "three bursts with packets between that arrived");
    }

    #[test]
    fn what_arrives_as_large_explains_a_burst() {
        let mut bursts = Bursts::new(1200);
        // Random loss: as many arrive between.
        for round in 0..100 {
            assert_eq!(lose(&mut bursts, 1452, [10 * round]), None);
            bursts.on_acked(1452, 10 * round + 5);
        }
        // What is lost before the latest that has arrived says nothing, and neither does a small packet.
        assert_eq!(lose(&mut bursts, 1452, [991, 989, 987, 985, 983]), None);
        assert_eq!(lose(&mut bursts, 1200, [1001, 1003, 1005, 1007, 1009]), None);
        // Smaller packets that arrive explain nothing.
        assert_eq!(lose(&mut bursts, 1452, [1011, 1013, 1015]), None);
        bursts.on_acked(1300, 1016);
        assert_eq!(lose(&mut bursts, 1452, [1017]), Some(1017));
    }

    #[test]
    fn a_probe_that_arrives_explains_all() {
        let mut bursts = Bursts::new(1200);
        assert_eq!(lose(&mut bursts, 1326, [1, 3, 5]), None);
        bursts.on_probe_acked(1389, 6);
        assert_eq!(lose(&mut bursts, 1326, [7, 9, 11]), None);
    }
}
