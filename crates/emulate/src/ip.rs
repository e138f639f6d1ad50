//! IP packets: whose they are, their ECN field, and the ICMP messages that say that one was too big.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use thalweg_units::Ecn;

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;
/// Bytes of the headers.
const IPV4: usize = 20;
const IPV6: usize = 40;
/// Of an IPv6 packet that was too big, so much is sent back that the answer has the smallest MTU (RFC 4443 section
/// 3.2).
const MOST_QUOTED: usize = 1280 - IPV6 - 8;

/// What an emulator wants to know of an IP packet.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) protocol: u8,
    /// Source and destination; zeros where there are none. That of an ICMP echo is its identifier.
    pub(crate) ports: (u16, u16),
    pub(crate) ecn: Ecn,
    /// Bytes of the IP header, extensions left out.
    pub(crate) length: usize,
    /// Whether routers must not fragment it.
    pub(crate) is_whole: bool,
}

fn word(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).and_then(|pair| pair.try_into().ok()).map_or(0, u16::from_be_bytes)
}

impl Header {
    /// Reads it; `None` if it is no IP packet.
    pub(crate) fn read(bytes: &[u8]) -> Option<Header> {
        match bytes.first()? >> 4 {
            4 => {
                let length = usize::from(bytes[0] & 15) * 4;
                let header = bytes.get(..length).filter(|header| header.len() >= IPV4)?;
                let address = |at: usize| {
                    header.get(at..at + 4).and_then(|four| <[u8; 4]>::try_from(four).ok()).map(Ipv4Addr::from)
                };
                let fragment = word(header, 6);
                let is_first = fragment & 0x1fff == 0;
                Some(Header {
                    source: address(12)?.into(),
                    destination: address(16)?.into(),
                    protocol: header[9],
                    ports: if is_first { ports(header[9], &bytes[length..]) } else { (0, 0) },
                    ecn: Ecn::from_bits(header[1]),
                    length,
                    is_whole: fragment & 0x4000 != 0,
                })
            }
            6 => {
                let header = bytes.get(..IPV6)?;
                let address = |at: usize| {
                    header.get(at..at + 16).and_then(|all| <[u8; 16]>::try_from(all).ok()).map(Ipv6Addr::from)
                };
                Some(Header {
                    source: address(8)?.into(),
                    destination: address(24)?.into(),
                    protocol: header[6],
                    ports: ports(header[6], &bytes[IPV6..]),
                    ecn: Ecn::from_bits(header[1] >> 4),
                    length: IPV6,
                    is_whole: true,
                })
            }
            _ => None,
        }
    }
}

fn ports(protocol: u8, payload: &[u8]) -> (u16, u16) {
    match protocol {
        TCP | UDP => (word(payload, 0), word(payload, 2)),
        // Echo requests and replies have an identifier; it stands for both ports.
        ICMP if matches!(payload.first(), Some(0 | 8)) => (word(payload, 4), word(payload, 4)),
        ICMPV6 if matches!(payload.first(), Some(128 | 129)) => (word(payload, 4), word(payload, 4)),
        _ => (0, 0),
    }
}

/// The Internet checksum of these bytes (RFC 1071).
fn checksum<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u16 {
    let mut sum = 0u32;
    // Only the last part may be odd.
    for part in parts {
        for pair in part.chunks(2) {
            sum += u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Writes the ECN field of an IP packet, and keeps the checksum of its header right.
pub(crate) fn set_ecn(bytes: &mut [u8], ecn: Ecn) {
    match bytes.first().map(|first| first >> 4) {
        Some(4) if bytes.len() >= IPV4 => {
            let (before, after) = (word(bytes, 0), (word(bytes, 0) & !3) | u16::from(ecn.bits()));
            bytes[1] = after.to_be_bytes()[1];
            // RFC 1624, equation 3.
            let sum = u32::from(!word(bytes, 10)) + u32::from(!before) + u32::from(after);
            let sum = (sum & 0xffff) + (sum >> 16);
            let sum = (sum & 0xffff) + (sum >> 16);
            bytes[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
        }
        Some(6) if bytes.len() >= IPV6 => bytes[1] = (bytes[1] & !0x30) | (ecn.bits() << 4),
        _ => {}
    }
}

/// The ICMP message to the sender of a packet that was too big for this MTU: "fragmentation needed" (RFC 1191) or
/// "packet too big" (RFC 4443). None if such a packet is answered by nothing: it may be fragmented, or is ICMP itself.
pub(crate) fn too_big(packet: &[u8], mtu: u32) -> Option<Vec<u8>> {
    let header = Header::read(packet)?;
    match (header.source, header.destination) {
        (IpAddr::V4(sender), IpAddr::V4(router)) => {
            if !header.is_whole || header.protocol == ICMP && !matches!(packet.get(header.length), Some(0 | 8)) {
                return None;
            }
            // The IP header and eight bytes are required; more lets the sender find the connection behind tunnels.
            let quoted = packet.get(..packet.len().min(548))?;
            let mut message = vec![0; IPV4 + 8];
            message[0] = 0x45;
            let total = u16::try_from(IPV4 + 8 + quoted.len()).ok()?;
            message[2..4].copy_from_slice(&total.to_be_bytes());
            message[8] = 64;
            message[9] = ICMP;
            message[12..16].copy_from_slice(&router.octets());
            message[16..20].copy_from_slice(&sender.octets());
            let sum = checksum([&message[..IPV4]]);
            message[10..12].copy_from_slice(&sum.to_be_bytes());
            message[IPV4] = 3;
            message[IPV4 + 1] = 4;
            message[IPV4 + 6..IPV4 + 8].copy_from_slice(&u16::try_from(mtu).unwrap_or(u16::MAX).to_be_bytes());
            message.extend_from_slice(quoted);
            let sum = checksum([&message[IPV4..]]);
            message[IPV4 + 2..IPV4 + 4].copy_from_slice(&sum.to_be_bytes());
            Some(message)
        }
        (IpAddr::V6(sender), IpAddr::V6(router)) => {
            if header.protocol == ICMPV6 && !matches!(packet.get(header.length), Some(128 | 129)) {
                return None;
            }
            let quoted = packet.get(..packet.len().min(MOST_QUOTED))?;
            let mut message = vec![0; IPV6 + 8];
            message[0] = 0x60;
            let length = u16::try_from(8 + quoted.len()).ok()?;
            message[4..6].copy_from_slice(&length.to_be_bytes());
            message[6] = ICMPV6;
            message[7] = 64;
            message[8..24].copy_from_slice(&router.octets());
            message[24..40].copy_from_slice(&sender.octets());
            message[IPV6] = 2;
            message[IPV6 + 4..IPV6 + 8].copy_from_slice(&mtu.to_be_bytes());
            message.extend_from_slice(quoted);
            let pseudo = [0, 0, message[4], message[5], 0, 0, 0, ICMPV6];
            let sum = checksum([&message[8..40], &pseudo, &message[IPV6..]]);
            message[IPV6 + 2..IPV6 + 4].copy_from_slice(&sum.to_be_bytes());
            Some(message)
        }
        _ => None,
    }
}

/// Cuts an IPv4 packet that may be cut into fragments of at most this size (RFC 791 section 3.2), each built in
/// `buffer`. False, and nothing is cut, if it fits or may not be cut.
pub(crate) fn fragment(packet: &[u8], mtu: u32, buffer: &mut Vec<u8>, mut each: impl FnMut(&[u8])) -> bool {
    let mtu = usize::try_from(mtu).unwrap_or(usize::MAX);
    let Some(header) = Header::read(packet).filter(|header| header.source.is_ipv4()) else { return false };
    let total = usize::from(word(packet, 2)).clamp(header.length, packet.len());
    // Offsets count in eights of bytes.
    let room = mtu.saturating_sub(header.length) / 8 * 8;
    if header.is_whole || packet.len() <= mtu || room == 0 {
        return false;
    }
    let (first, goes_on) = (word(packet, 6) & 0x1fff, word(packet, 6) & 0x2000);
    let payload = &packet[header.length..total];
    for (number, piece) in payload.chunks(room).enumerate() {
        buffer.clear();
        buffer.extend_from_slice(&packet[..header.length]);
        buffer.extend_from_slice(piece);
        let is_last = (number + 1) * room >= payload.len();
        let offset = first + u16::try_from(number * room / 8).unwrap_or(0x1fff);
        let flags = if is_last { goes_on } else { 0x2000 };
        let length = u16::try_from(buffer.len()).unwrap_or(u16::MAX);
        buffer[2..4].copy_from_slice(&length.to_be_bytes());
        buffer[6..8].copy_from_slice(&(offset & 0x1fff | flags).to_be_bytes());
        buffer[10..12].fill(0);
        let sum = checksum([&buffer[..header.length]]);
        buffer[10..12].copy_from_slice(&sum.to_be_bytes());
        each(buffer);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv4 packet with UDP from port 1000 to 2000 that may not be fragmented.
    fn ipv4(payload: usize) -> Vec<u8> {
        let mut packet = vec![0; 28 + payload];
        packet[0] = 0x45;
        packet[1] = 0xb8;
        let total = (packet.len() as u16).to_be_bytes();
        packet[2..4].copy_from_slice(&total);
        packet[6] = 0x40;
        packet[8] = 64;
        packet[9] = UDP;
        packet[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        let sum = checksum([&packet[..20]]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet[20..24].copy_from_slice(&[3, 232, 7, 208]);
        packet
    }

    fn ipv6(payload: usize) -> Vec<u8> {
        let mut packet = vec![0; 48 + payload];
        packet[0] = 0x6b;
        packet[1] = 0x8f;
        packet[6] = UDP;
        (packet[23], packet[39]) = (1, 2);
        packet[40..44].copy_from_slice(&[3, 232, 7, 208]);
        packet
    }

    #[test]
    fn headers_are_read() {
        let four = Header::read(&ipv4(10)).unwrap();
        assert_eq!((four.source.to_string(), four.destination.to_string()), ("10.0.0.1".into(), "10.0.0.2".into()));
        assert_eq!((four.protocol, four.ports, four.ecn, four.length), (UDP, (1000, 2000), Ecn::NotEct, 20));
        let six = Header::read(&ipv6(10)).unwrap();
        assert_eq!((six.source.to_string(), six.destination.to_string()), ("::1".into(), "::2".into()));
        assert_eq!((six.protocol, six.ports, six.ecn, six.length), (UDP, (1000, 2000), Ecn::NotEct, 40));
        let mut fragment = ipv4(10);
        fragment[7] = 5;
        assert_eq!(Header::read(&fragment).unwrap().ports, (0, 0));
        for length in 0..48 {
            // Whatever is cut off, nothing panics.
            let _ = (Header::read(&ipv4(20)[..length]), Header::read(&ipv6(0)[..length]));
            let _ = (too_big(&ipv4(20)[..length], 9), too_big(&ipv6(0)[..length], 9));
        }
        assert_eq!(Header::read(&[0x15; 60]), None);
    }

    #[test]
    fn marks_keep_the_other_bits_and_the_checksum() {
        for ecn in [Ecn::Ce, Ecn::Ect0, Ecn::Ect1, Ecn::NotEct] {
            let (mut four, mut six) = (ipv4(3), ipv6(3));
            set_ecn(&mut four, ecn);
            assert_eq!(Header::read(&four).unwrap().ecn, ecn);
            assert_eq!((four[1] & 0xfc, checksum([&four[..20]])), (0xb8, 0));
            set_ecn(&mut six, ecn);
            assert_eq!(Header::read(&six).unwrap().ecn, ecn);
            assert_eq!((six[0], six[1] & 0xcf), (0x6b, 0x8f));
            set_ecn(&mut six, Ecn::NotEct);
            assert_eq!(six, ipv6(3));
        }
    }

    #[test]
    fn fragments_are_the_packet_when_they_are_put_together() {
        let mut packet = ipv4(3000);
        for (at, byte) in packet[28..].iter_mut().enumerate() {
            *byte = at as u8;
        }
        let cut = |packet: &[u8], mtu: u32| {
            let mut fragments = Vec::new();
            let done = fragment(packet, mtu, &mut Vec::new(), |fragment| fragments.push(fragment.to_vec()));
            (done, fragments)
        };
        // It may not be cut; then it may.
        assert_eq!(cut(&packet, 1300), (false, Vec::new()));
        packet[6] = 0;
        assert_eq!(cut(&packet, 5000), (false, Vec::new()));
        let (done, fragments) = cut(&packet, 1300);
        assert!(done && fragments.len() == 3);
        // A fragment that is cut again gives what the whole gives.
        let again: Vec<Vec<u8>> = fragments
            .iter()
            .flat_map(|fragment| {
                let (done, smaller) = cut(fragment, 600);
                if done { smaller } else { vec![fragment.clone()] }
            })
            .collect();
        for fragments in [fragments, again] {
            let mut whole = Vec::new();
            for (number, fragment) in fragments.iter().enumerate() {
                assert_eq!((checksum([&fragment[..20]]), usize::from(word(fragment, 2))), (0, fragment.len()));
                assert!(fragment.len() <= 1300);
                assert_eq!(usize::from(word(fragment, 6) & 0x1fff) * 8, whole.len());
                assert_eq!(word(fragment, 6) & 0x2000 == 0, number + 1 == fragments.len());
                whole.extend_from_slice(&fragment[20..]);
            }
            assert_eq!(whole, packet[20..]);
        }
        for length in 0..60 {
            // Nothing panics, however it is cut off.
            let _ = (cut(&packet[..length], 30), cut(&packet[..length], 20), cut(&packet, length as u32));
        }
    }

    #[test]
    fn senders_are_told_of_the_mtu() {
        let packet = ipv4(1400);
        let told = too_big(&packet, 1300).unwrap();
        let header = Header::read(&told).unwrap();
        assert_eq!((header.source.to_string(), header.destination.to_string()), ("10.0.0.2".into(), "10.0.0.1".into()));
        assert_eq!((checksum([&told[..20]]), checksum([&told[20..]])), (0, 0));
        assert_eq!((told[20], told[21], word(&told, 26)), (3, 4, 1300));
        assert_eq!(told[28..], packet[..548]);
        // What may be fragmented is not answered, nor is the answer.
        assert_eq!(too_big(&told, 100), None);
        let mut loose = packet;
        loose[6] = 0;
        assert_eq!(too_big(&loose, 1300), None);

        let packet = ipv6(1400);
        let told = too_big(&packet, 1300).unwrap();
        assert_eq!((told.len(), told[40], told[41]), (1280, 2, 0));
        assert_eq!(u32::from_be_bytes(told[44..48].try_into().unwrap()), 1300);
        let length = (told.len() as u32 - 40).to_be_bytes();
        assert_eq!(checksum([&told[8..40], &length, &[0, 0, 0, ICMPV6], &told[40..]]), 0);
        assert_eq!(too_big(&told, 1280), None);
    }
}
