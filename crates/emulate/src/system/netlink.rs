//! Addresses, routes and states of network devices, by rtnetlink (rtnetlink(7)). Used in namespaces of our own only.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The request waits for an answer.
const REQUEST: u16 = (libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16;
const CREATE: u16 = REQUEST | (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16;

/// The attribute that describes the other end of a cable (linux/veth.h).
const VETH_INFO_PEER: u16 = 1;

/// A connection to the kernel's routing.
pub(crate) struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

/// A message that is being written.
struct Message {
    bytes: Vec<u8>,
}

impl Message {
    /// With room for the header, and what follows it.
    fn new(kind: u16, flags: u16, body: &[u8]) -> Self {
        let mut bytes = vec![0; 16];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        bytes.extend_from_slice(body);
        Message { bytes }
    }

    fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
        self.bytes.extend_from_slice(&length.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// What sets flags of a device, and leaves its others.
fn flags(device: u32, set: i32) -> [u8; 16] {
    let mut body = [0; 16];
    body[4..8].copy_from_slice(&device.to_ne_bytes());
    body[8..12].copy_from_slice(&set.to_ne_bytes());
    body[12..16].copy_from_slice(&set.to_ne_bytes());
    body
}

/// The family and the number of bits of an address.
fn family(address: IpAddr) -> (u8, u8) {
    match address {
        IpAddr::V4(_) => (libc::AF_INET as u8, 32),
        IpAddr::V6(_) => (libc::AF_INET6 as u8, 128),
    }
}

impl Netlink {
    /// Of the namespace that the caller is in.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn open() -> io::Result<Netlink> {
        // SAFETY: takes no pointer.
        let raw = super::check(unsafe {
            libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_ROUTE)
        })?;
        // SAFETY: the descriptor is new and nobody else's.
        Ok(Netlink { socket: unsafe { OwnedFd::from_raw_fd(raw) }, sequence: 0 })
    }

    fn request(&mut self, message: Message) -> io::Result<()> {
        let mut bytes = message.bytes;
        self.sequence += 1;
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        bytes[..4].copy_from_slice(&length.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.sequence.to_ne_bytes());
        let fd = self.socket.as_raw_fd();
        // SAFETY: the bytes live through the call.
        super::check_length(unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), 0) })?;
        let mut answer = [0u8; 4096];
        // SAFETY: as above.
        let length = super::check_length(unsafe { libc::recv(fd, answer.as_mut_ptr().cast(), answer.len(), 0) })?;
        let number = |at: usize| answer.get(at..at + 4).and_then(|four| four.try_into().ok()).map(i32::from_ne_bytes);
        let kind = u16::from_ne_bytes([answer[4], answer[5]]);
        match (length >= 20 && kind == libc::NLMSG_ERROR as u16).then(|| number(16)).flatten() {
            Some(0) => Ok(()),
            Some(error) => Err(io::Error::from_raw_os_error(-error)),
            None => Err(io::Error::other("the kernel gave no answer to a change of the network")),
        }
    }

    /// Makes two devices that are the two ends of a cable: one of this name and address here, the other in that network
    /// namespace.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn add_cable(
        &mut self,
        [here, there]: [(&str, [u8; 6]); 2],
        namespace: std::os::fd::BorrowedFd<'_>,
    ) -> io::Result<()> {
        let end = |message: Message, (name, address): (&str, [u8; 6])| {
            let name = [name.as_bytes(), b"\0"].concat();
            message.attribute(libc::IFLA_IFNAME, &name).attribute(libc::IFLA_ADDRESS, &address)
        };
        // Attributes within attributes are written as their bytes.
        let peer = end(Message { bytes: vec![0; 16] }, there)
            .attribute(libc::IFLA_NET_NS_FD, &namespace.as_raw_fd().to_ne_bytes());
        let data = Message { bytes: Vec::new() }.attribute(VETH_INFO_PEER, &peer.bytes);
        let info = Message { bytes: Vec::new() }
            .attribute(libc::IFLA_INFO_KIND, b"veth")
            .attribute(libc::IFLA_INFO_DATA, &data.bytes);
        let message = end(Message::new(libc::RTM_NEWLINK, CREATE, &[0; 16]), here);
        self.request(message.attribute(libc::IFLA_LINKINFO, &info.bytes))
    }

    /// Has a device send to whatever is at the other end, without asking for its address.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn no_arp(&mut self, device: u32) -> io::Result<()> {
        self.request(Message::new(libc::RTM_NEWLINK, REQUEST, &flags(device, libc::IFF_NOARP)))
    }

    /// Brings a device up, with a queue of so many packets if that is given.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn up(&mut self, device: u32, queue: Option<u32>) -> io::Result<()> {
        let message = Message::new(libc::RTM_NEWLINK, REQUEST, &flags(device, libc::IFF_UP));
        self.request(match queue {
            Some(packets) => message.attribute(libc::IFLA_TXQLEN, &packets.to_ne_bytes()),
            None => message,
        })
    }

    /// Gives a device an address, to be used at once.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn add_address(&mut self, device: u32, address: IpAddr) -> io::Result<()> {
        let (family, bits) = family(address);
        let mut body = [family, bits, libc::IFA_F_NODAD as u8, 0, 0, 0, 0, 0];
        body[4..8].copy_from_slice(&device.to_ne_bytes());
        let octets = octets(address);
        let message = Message::new(libc::RTM_NEWADDR, CREATE, &body);
        self.request(message.attribute(libc::IFA_LOCAL, &octets).attribute(libc::IFA_ADDRESS, &octets))
    }

    /// Sends what goes to an address through a device; where several lead there, through that of the least metric.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn add_route(&mut self, device: u32, to: IpAddr, from: IpAddr, metric: u32) -> io::Result<()> {
        let (family, bits) = family(to);
        let scope = if to.is_ipv4() { libc::RT_SCOPE_LINK } else { libc::RT_SCOPE_UNIVERSE };
        let body = [family, bits, 0, 0, libc::RT_TABLE_MAIN, libc::RTPROT_STATIC, scope, libc::RTN_UNICAST, 0, 0, 0, 0];
        let message = Message::new(libc::RTM_NEWROUTE, CREATE, &body)
            .attribute(libc::RTA_DST, &octets(to))
            .attribute(libc::RTA_PREFSRC, &octets(from))
            .attribute(libc::RTA_OIF, &device.to_ne_bytes());
        self.request(match metric {
            0 => message,
            metric => message.attribute(libc::RTA_PRIORITY, &metric.to_ne_bytes()),
        })
    }
}
