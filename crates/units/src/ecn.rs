//! The ECN codepoint of an IP packet.

/// The ECN codepoint of an IP packet (RFC 3168).
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, Default)]
pub enum Ecn {
    /// Not ECN-capable: `00`.
    #[default]
    NotEct,
    /// ECT(1), the L4S identifier: `01`.
    Ect1,
    /// ECT(0): `10`.
    Ect0,
    /// Congestion experienced: `11`.
    Ce,
}

impl Ecn {
    /// The codepoint in the two low bits of a traffic-class octet; the other bits are ignored.
    pub const fn from_bits(bits: u8) -> Ecn {
        match bits & 0b11 {
            0b01 => Ecn::Ect1,
            0b10 => Ecn::Ect0,
            0b11 => Ecn::Ce,
            _ => Ecn::NotEct,
        }
    }

    /// The two bits as they stand in the IP header.
    pub const fn bits(self) -> u8 {
        self as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_those_of_rfc_3168() {
        for (ecn, bits) in [(Ecn::NotEct, 0b00), (Ecn::Ect1, 0b01), (Ecn::Ect0, 0b10), (Ecn::Ce, 0b11)] {
            assert_eq!(ecn.bits(), bits);
            assert_eq!(Ecn::from_bits(0b1111_1100 | bits), ecn);
        }
    }
}
