//! Assignment of flows to queues, for disciplines that keep flows apart.

use crate::Dice;

/// A hash of flows with a salt, so that who chooses the flows cannot choose the collisions.
#[derive(Copy, Clone, Debug)]
pub struct FlowHash {
    salt: u64,
}

impl FlowHash {
    /// A hash whose salt is the next number of `dice`.
    pub fn new(dice: &mut Dice) -> Self {
        FlowHash { salt: dice.bits() }
    }

    /// The hash of a flow ([`Packet::tuple`](crate::Packet::tuple)): 64 bits, each as good as any other.
    pub const fn of(&self, tuple: u64) -> u64 {
        // The finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014), twice, with the salt before and between.
        mix(mix(self.salt ^ tuple) ^ self.salt.rotate_left(32))
    }

    /// A number below `queues` for a flow; 0 if there are none.
    pub const fn slot(&self, tuple: u64, queues: u32) -> usize {
        (((self.of(tuple) >> 32) * queues as u64) >> 32) as usize
    }
}

const fn mix(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Streams;

    #[test]
    fn flows_spread_evenly_and_differently_for_every_salt() {
        let hash = |seed| FlowHash::new(&mut Streams::new(seed).dice("salt"));
        let (one, other) = (hash(1), hash(2));
        let mut load = [0u32; 64];
        for flow in 0..64_000 {
            load[one.slot(flow, 64)] += 1;
        }
        // A thousand each, with a deviation of 31: five of these on either side.
        assert!(load.iter().all(|flows| (845..1155).contains(flows)), "{load:?}");
        let equal = (0..64_000).filter(|flow| one.slot(*flow, 64) == other.slot(*flow, 64)).count();
        assert!((845..1155).contains(&equal), "{equal}");
        assert_eq!((one.slot(7, 1), one.slot(7, 0)), (0, 0));
    }
}
