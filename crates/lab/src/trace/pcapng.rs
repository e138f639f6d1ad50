//! Packet captures as pcapng (draft-ietf-opsawg-pcapng): interfaces, datagrams between IPv4 addresses, TLS secrets.

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};

use thalweg_units::{Duration, DurationExt, Ecn};

/// Block types (section 4).
const SECTION_HEADER: u32 = 0x0A0D_0D0A;
const INTERFACE: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const DECRYPTION_SECRETS: u32 = 10;
/// Marks the byte order: little-endian here (section 4.1).
const BYTE_ORDER_MAGIC: u32 = 0x1A2B_3C4D;
/// Packets begin with the IP header (LINKTYPE_RAW).
const LINK_TYPE: u16 = 101;
/// Secrets are lines of the TLS key log format (section 4.7).
const TLS_KEY_LOG: u32 = 0x544C_534B;
/// Option codes of an interface: its name, the resolution of its times.
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
/// Option code of a packet: its flags, of which the lowest two bits are the direction.
const EPB_FLAGS: u16 = 2;
/// Times are in units of 10^-9 seconds.
const NANOSECONDS: u8 = 9;
/// IPv4 and UDP, in bytes.
const IP_HEADER: usize = 20;
const UDP_HEADER: usize = 8;

/// The octets of an IPv4 address and the port; zeros for any other address, which no flow has.
fn octets(address: SocketAddr) -> ([u8; 4], u16) {
    match address.ip() {
        IpAddr::V4(ip) => (ip.octets(), address.port()),
        IpAddr::V6(_) => ([0; 4], address.port()),
    }
}

/// Writes a capture, block by block.
pub(super) struct Writer<W> {
    out: W,
    interfaces: u32,
    /// The block that is being made.
    body: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Begins a section.
    pub(super) fn new(out: W) -> io::Result<Self> {
        let mut writer = Writer { out, interfaces: 0, body: Vec::new() };
        writer.word(BYTE_ORDER_MAGIC);
        // Version 1.0, of a length that is not known yet.
        writer.half(1);
        writer.half(0);
        writer.body.extend(u64::MAX.to_le_bytes());
        writer.block(SECTION_HEADER)?;
        Ok(writer)
    }

    /// Describes an interface and gives its number.
    pub(super) fn interface(&mut self, name: &str) -> io::Result<u32> {
        self.half(LINK_TYPE);
        self.half(0);
        // Packets of any length.
        self.word(0);
        self.option(IF_NAME, name.as_bytes());
        self.option(IF_TSRESOL, &[NANOSECONDS]);
        self.end_of_options();
        self.block(INTERFACE)?;
        self.interfaces += 1;
        Ok(self.interfaces - 1)
    }

    /// A datagram at an interface, with the IP and UDP headers around it.
    pub(super) fn datagram(
        &mut self,
        interface: u32,
        at: Duration,
        is_sent: bool,
        addresses: [SocketAddr; 2],
        ecn: Ecn,
        payload: &[u8],
    ) -> io::Result<()> {
        let nanos = at.nanos();
        let length = u32::try_from(IP_HEADER + UDP_HEADER + payload.len()).unwrap_or(u32::MAX);
        for word in [interface, (nanos >> 32) as u32, nanos as u32, length, length] {
            self.word(word);
        }
        self.ip_udp(addresses, ecn, payload);
        self.pad();
        let direction: u32 = if is_sent { 2 } else { 1 };
        self.option(EPB_FLAGS, &direction.to_le_bytes());
        self.end_of_options();
        self.block(ENHANCED_PACKET)
    }

    /// Lines of a TLS key log, for the packets that follow.
    pub(super) fn secrets(&mut self, lines: &str) -> io::Result<()> {
        self.word(TLS_KEY_LOG);
        self.word(u32::try_from(lines.len()).unwrap_or(u32::MAX));
        self.body.extend(lines.as_bytes());
        self.pad();
        self.block(DECRYPTION_SECRETS)
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// The IPv4 header (RFC 791), which forbids fragments, then the UDP header (RFC 768), without a checksum.
    fn ip_udp(&mut self, addresses: [SocketAddr; 2], ecn: Ecn, payload: &[u8]) {
        let [source, destination] = addresses.map(octets);
        // Larger than a packet can be, which no link carries, is written as no length.
        let length = |headers: usize| u16::try_from(headers + payload.len()).unwrap_or(0).to_be_bytes();
        let start = self.body.len();
        self.body.extend([0x45, ecn.bits()]);
        self.body.extend(length(IP_HEADER + UDP_HEADER));
        self.body.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
        self.body.extend(source.0);
        self.body.extend(destination.0);
        let sum: u32 = self.body[start..].chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
        let folded = (sum & 0xffff) + (sum >> 16);
        let checksum = !(((folded & 0xffff) + (folded >> 16)) as u16);
        self.body[start + 10..start + 12].copy_from_slice(&checksum.to_be_bytes());
        self.body.extend(source.1.to_be_bytes());
        self.body.extend(destination.1.to_be_bytes());
        self.body.extend(length(UDP_HEADER));
        self.body.extend([0, 0]);
        self.body.extend(payload);
    }

    fn half(&mut self, value: u16) {
        self.body.extend(value.to_le_bytes());
    }

    fn word(&mut self, value: u32) {
        self.body.extend(value.to_le_bytes());
    }

    /// To a multiple of four bytes.
    fn pad(&mut self) {
        self.body.resize(self.body.len().next_multiple_of(4), 0);
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        self.half(code);
        self.half(u16::try_from(value.len()).unwrap_or(u16::MAX));
        self.body.extend(&value[..value.len().min(usize::from(u16::MAX))]);
        self.pad();
    }

    fn end_of_options(&mut self) {
        self.word(0);
    }

    /// Writes the block that has been made: its type, its length, its body, its length again.
    fn block(&mut self, kind: u32) -> io::Result<()> {
        let length = u32::try_from(self.body.len() + 12).unwrap_or(u32::MAX).to_le_bytes();
        self.out.write_all(&kind.to_le_bytes())?;
        self.out.write_all(&length)?;
        self.out.write_all(&self.body)?;
        self.out.write_all(&length)?;
        self.body.clear();
        Ok(())
    }
}
