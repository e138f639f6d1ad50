//! The latency spin bit (RFC 9000 section 17.4): whoever looks at the packets of one direction sees it change once per
//! round trip.

use rand_core::Rng;

use crate::Side;

/// One path of so many does not spin, so that nobody can tell from a constant bit that it was turned off.
const CONSTANT_ONE_IN: u64 = 16;

/// The spin bit of one path.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Spin {
    value: bool,
    /// It follows the peer's.
    spins: bool,
}

impl Spin {
    /// The bit of a new path, or of an old one with a new connection ID. Draws nothing unless it is `enabled`.
    pub fn new(enabled: bool, rng: &mut impl Rng) -> Spin {
        if !enabled {
            return Spin::default();
        }
        let drawn = rng.next_u64();
        match drawn % CONSTANT_ONE_IN {
            0 => Spin { value: drawn & CONSTANT_ONE_IN != 0, spins: false },
            _ => Spin { value: false, spins: true },
        }
    }

    /// What the next packet carries.
    pub fn value(self) -> bool {
        self.value
    }

    /// The newest packet by number arrived on the path with this bit: a server sends it back, a client its inverse.
    pub fn on_newest(&mut self, side: Side, received: bool) {
        if self.spins {
            self.value = received != side.is_client();
        }
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_core::SeedableRng;

    use super::*;

    #[test]
    fn rfc9000_17_4_one_path_of_16_does_not_spin_and_shows_either_value() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let paths: Vec<Spin> = (0..16_000).map(|_| Spin::new(true, &mut rng)).collect();
        let constant: Vec<_> = paths.iter().filter(|spin| !spin.spins).collect();
        assert!((900..1_100).contains(&constant.len()), "{}", constant.len());
        let set = constant.iter().filter(|spin| spin.value()).count();
        assert!((400..600).contains(&set), "{set}");
        let mut constant = *constant[0];
        let before = constant.value();
        constant.on_newest(Side::Client, before);
        assert_eq!(constant.value(), before);
    }

    #[test]
    fn a_server_returns_the_bit_and_a_client_inverts_it() {
        for received in [false, true] {
            let mut spin = Spin { value: false, spins: true };
            spin.on_newest(Side::Server, received);
            assert_eq!(spin.value(), received);
            spin.on_newest(Side::Client, received);
            assert_eq!(spin.value(), !received);
        }
    }

    #[test]
    fn turned_off_it_is_zero_and_draws_no_random_number() {
        let (mut rng, mut untouched) = (ChaCha8Rng::seed_from_u64(1), ChaCha8Rng::seed_from_u64(1));
        let mut spin = Spin::new(false, &mut rng);
        spin.on_newest(Side::Client, false);
        assert!(!spin.value());
        assert_eq!(rng.next_u64(), untouched.next_u64());
    }
}
