//! A cable whose one end is a network device, and whose other end is read and written by packet sockets: where a
//! program may not open TUN devices.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};

use super::Netlink;

/// The devices' names in the namespace that the sockets are in, with a number each.
const WIRE: &str = "wire";
/// Locally administered addresses: of the device, and of the wire's end.
pub(crate) const DEVICE_ADDRESS: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub(crate) const WIRE_ADDRESS: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// The kernel's buffer wanted for what the device sends; it may give less.
const BUFFER: libc::c_int = 4 << 20;

/// Moves the caller into a new network namespace, with devices of these names in it whose packets come out of sockets,
/// as Ethernet frames; what is written to a socket comes out of its device. Returns the sockets, which do not block,
/// and the devices' numbers. The sockets stay in the network namespace that the caller was in.
///
/// # Errors
/// When the system does not allow it.
pub(crate) fn open(names: &[&str]) -> io::Result<Vec<(File, u32)>> {
    let outside = File::open("/proc/self/ns/net")?;
    // SAFETY: takes no pointer.
    super::check(unsafe { libc::unshare(libc::CLONE_NEWNET) })?;
    let inside = File::open("/proc/self/ns/net")?;
    let mut netlink = Netlink::open()?;
    let wires: Vec<String> = (0..names.len()).map(|number| format!("{WIRE}{number}")).collect();
    let mut indices = Vec::new();
    for (name, wire) in names.iter().zip(&wires) {
        netlink.add_cable([(name, DEVICE_ADDRESS), (wire, WIRE_ADDRESS)], outside.as_fd())?;
        let index = number_of(name)?;
        netlink.no_arp(index)?;
        checksums_in_software(name)?;
        indices.push(index);
    }
    let enter = |namespace: &File| {
        // SAFETY: takes no pointer.
        super::check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) })
    };
    enter(&outside)?;
    let sockets: io::Result<Vec<OwnedFd>> = wires.iter().map(|wire| packet_socket(wire)).collect();
    enter(&inside)?;
    Ok(sockets?.into_iter().map(File::from).zip(indices).collect())
}

fn number_of(name: &str) -> io::Result<u32> {
    let name = CString::new(name)?;
    // SAFETY: the string lives through the call.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    if index == 0 { Err(io::Error::last_os_error()) } else { Ok(index) }
}

/// A socket on the wire's end of the cable.
fn packet_socket(wire: &str) -> io::Result<OwnedFd> {
    let wire = number_of(wire)?;
    Netlink::open()?.up(wire, None)?;
    let every = (libc::ETH_P_ALL as u16).to_be();
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: takes no pointer. Without a protocol nothing is received before the socket is bound.
    let raw = super::check(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
    // SAFETY: the descriptor is new and nobody else's.
    let socket = unsafe { OwnedFd::from_raw_fd(raw) };
    // SAFETY: zeros are a valid sockaddr_ll.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = every;
    address.sll_ifindex = i32::try_from(wire).unwrap_or(0);
    let size = mem::size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the address and the number live through the calls. A smaller buffer only means that more is dropped.
    unsafe {
        super::check(libc::bind(raw, (&raw const address).cast(), size))?;
        let (size, buffer) = (mem::size_of::<libc::c_int>() as libc::socklen_t, BUFFER);
        libc::setsockopt(raw, libc::SOL_SOCKET, libc::SO_RCVBUF, (&raw const buffer).cast(), size);
    }
    Ok(socket)
}

/// Has the kernel compute checksums before it sends, and with them cut what is larger than the MTU.
fn checksums_in_software(name: &str) -> io::Result<()> {
    const ETHTOOL_STXCSUM: u32 = 0x17;
    const SIOCETHTOOL: u32 = 0x8946;
    // SAFETY: takes no pointer.
    let raw = super::check(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the descriptor is new and nobody else's.
    let socket = unsafe { OwnedFd::from_raw_fd(raw) };
    let mut value = [ETHTOOL_STXCSUM, 0];
    // SAFETY: zeros are a valid ifreq.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (to, from) in request.ifr_name[..libc::IFNAMSIZ - 1].iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = value.as_mut_ptr().cast();
    // SAFETY: request and value live through the call, and are what this command takes.
    super::check(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) }).map(|_| ())
}

/// Packets that the kernel dropped because the socket was not read in time; zero for other files.
pub(crate) fn dropped_by(socket: &File) -> u64 {
    let mut statistics = [0u32; 2];
    let mut size = mem::size_of_val(&statistics) as libc::socklen_t;
    // SAFETY: the numbers and their size live through the call.
    let result = unsafe {
        let pointer = statistics.as_mut_ptr().cast();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS, pointer, &raw mut size)
    };
    if result == 0 { u64::from(statistics[1]) } else { 0 }
}
