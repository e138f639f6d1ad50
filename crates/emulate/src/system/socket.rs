//! UDP sockets that tell the ECN field and the time of arrival of a datagram, and set the ECN field of one.

use std::io;
use std::mem::{self, MaybeUninit};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use thalweg_units::{Duration, Ecn};

/// Kernel buffers wanted for each socket; the kernel may give less.
const SOCKET_BUFFER: libc::c_int = 4 << 20;

/// What is known of a datagram that was received.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) len: usize,
    pub(crate) from: Option<SocketAddr>,
    pub(crate) ecn: Ecn,
    /// The time of day at which the kernel received it.
    pub(crate) stamp: Option<Duration>,
}

fn set(fd: i32, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let size = mem::size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the option is an int, which lives through the call.
    super::check(unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), size) }).map(|_| ())
}

/// A UDP socket bound to this address that does not block.
///
/// # Errors
/// What the system says.
pub(crate) fn udp_socket(bind: SocketAddr) -> io::Result<UdpSocket> {
    let family = if bind.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    // SAFETY: takes no pointer.
    let raw =
        super::check(unsafe { libc::socket(family, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0) })?;
    // SAFETY: the descriptor is new and nobody else's.
    let fd = unsafe { OwnedFd::from_raw_fd(raw) };
    // Smaller buffers only mean more losses than asked for.
    let _ = set(raw, libc::SOL_SOCKET, libc::SO_RCVBUF, SOCKET_BUFFER);
    let _ = set(raw, libc::SOL_SOCKET, libc::SO_SNDBUF, SOCKET_BUFFER);
    set(raw, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
    if bind.is_ipv4() {
        set(raw, libc::IPPROTO_IP, libc::IP_RECVTOS, 1)?;
    } else {
        set(raw, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1)?;
        set(raw, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1)?;
    }
    let address = RawAddress::of(bind);
    // SAFETY: the address is initialized and as long as it says.
    super::check(unsafe { libc::bind(raw, address.pointer(), address.len) })?;
    Ok(UdpSocket::from(fd))
}

/// Receives a datagram, if there is one. What of it does not fit into the buffer is lost.
///
/// # Errors
/// `WouldBlock` if there is none; else what the system says, which may concern an earlier datagram.
pub(crate) fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<Received> {
    let mut address = MaybeUninit::<libc::sockaddr_storage>::zeroed();
    let mut control = Control::default();
    let mut piece = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: a msghdr of zeros is valid: no address, no pieces, no control data.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_name = address.as_mut_ptr().cast();
    message.msg_namelen = mem::size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    message.msg_iov = &raw mut piece;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len() as _;
    // SAFETY: everything that the message points to lives through the call and is as long as it says.
    let len = super::check_length(unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) })?;
    let (mut ecn, mut stamp) = (Ecn::NotEct, None);
    // SAFETY: the kernel has filled in the message, whose control buffer is still there.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    while !header.is_null() {
        // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR return headers inside of the control buffer or null, and the kernel
        // writes data of the size that belongs to level and type. Reads need no alignment.
        unsafe {
            let data = libc::CMSG_DATA(header);
            match ((*header).cmsg_level, (*header).cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_TOS) => ecn = Ecn::from_bits(*data),
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    ecn = Ecn::from_bits(data.cast::<libc::c_int>().read_unaligned().to_le_bytes()[0]);
                }
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                    let time = data.cast::<libc::timespec>().read_unaligned();
                    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
                    stamp = Some(Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0)));
                }
                _ => {}
            }
            header = libc::CMSG_NXTHDR(&raw const message, header);
        }
    }
    // SAFETY: zeroed, and the kernel has written an address over it or nothing.
    let from = parse(unsafe { address.assume_init_ref() });
    Ok(Received { len, from, ecn, stamp })
}

/// Sends a datagram with this ECN field: to that address, or to where the socket is connected.
///
/// # Errors
/// What the system says, which may concern an earlier datagram.
pub(crate) fn send(
    socket: &UdpSocket,
    bytes: &[u8],
    to: Option<SocketAddr>,
    is_ipv4: bool,
    ecn: Ecn,
) -> io::Result<()> {
    let address = to.map(RawAddress::of);
    let mut control = Control::default();
    let mut piece = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: as in `receive`.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    if let Some(address) = &address {
        message.msg_name = address.pointer().cast_mut().cast();
        message.msg_namelen = address.len;
    }
    message.msg_iov = &raw mut piece;
    message.msg_iovlen = 1;
    if ecn != Ecn::NotEct {
        message.msg_control = control.0.as_mut_ptr().cast();
        // SAFETY: takes no pointer.
        message.msg_controllen = unsafe { libc::CMSG_SPACE(mem::size_of::<libc::c_int>() as u32) } as _;
        // SAFETY: the buffer is aligned for a header and has room for it and for an int.
        unsafe {
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            ((*header).cmsg_level, (*header).cmsg_type) = match is_ipv4 {
                true => (libc::IPPROTO_IP, libc::IP_TOS),
                false => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
            };
            (*header).cmsg_len = libc::CMSG_LEN(mem::size_of::<libc::c_int>() as u32) as _;
            libc::CMSG_DATA(header).cast::<libc::c_int>().write_unaligned(libc::c_int::from(ecn.bits()));
        }
    }
    // SAFETY: everything that the message points to lives through the call, and the kernel only reads it.
    super::check_length(unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) })?;
    Ok(())
}

/// Datagrams that the kernel dropped because nobody read them in time.
pub(crate) fn dropped_by(socket: &UdpSocket) -> u64 {
    /// Of the nine numbers, this one.
    const DROPS: usize = 8;
    let mut memory = [0u32; 9];
    let mut size = mem::size_of_val(&memory) as libc::socklen_t;
    // SAFETY: the numbers and their size live through the call.
    let result = unsafe {
        let pointer = memory.as_mut_ptr().cast();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_MEMINFO, pointer, &raw mut size)
    };
    if result == 0 { u64::from(memory[DROPS]) } else { 0 }
}

/// Room for ancillary data, aligned for its headers.
#[repr(align(8))]
struct Control([u8; 128]);

impl Default for Control {
    fn default() -> Self {
        Control([0; 128])
    }
}

/// An address as the system wants it.
struct RawAddress {
    storage: libc::sockaddr_storage,
    len: libc::socklen_t,
}

impl RawAddress {
    fn of(address: SocketAddr) -> Self {
        // SAFETY: zeros are a valid sockaddr_storage.
        let mut storage: libc::sockaddr_storage = unsafe { mem::zeroed() };
        let len = match address {
            SocketAddr::V4(address) => {
                let raw = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: address.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
                    sin_zero: [0; 8],
                };
                // SAFETY: a sockaddr_storage is larger than any address and aligned for it.
                unsafe { (&raw mut storage).cast::<libc::sockaddr_in>().write(raw) };
                mem::size_of::<libc::sockaddr_in>()
            }
            SocketAddr::V6(address) => {
                let raw = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: address.port().to_be(),
                    sin6_flowinfo: address.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                    sin6_scope_id: address.scope_id(),
                };
                // SAFETY: as above.
                unsafe { (&raw mut storage).cast::<libc::sockaddr_in6>().write(raw) };
                mem::size_of::<libc::sockaddr_in6>()
            }
        };
        RawAddress { storage, len: len as libc::socklen_t }
    }

    fn pointer(&self) -> *const libc::sockaddr {
        (&raw const self.storage).cast()
    }
}

fn parse(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match libc::c_int::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says what it is, and the storage is larger and aligned.
            let raw = unsafe { (&raw const *storage).cast::<libc::sockaddr_in>().read() };
            let ip = Ipv4Addr::from(raw.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddrV4::new(ip, u16::from_be(raw.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let raw = unsafe { (&raw const *storage).cast::<libc::sockaddr_in6>().read() };
            let ip = Ipv6Addr::from(raw.sin6_addr.s6_addr);
            Some(SocketAddrV6::new(ip, u16::from_be(raw.sin6_port), raw.sin6_flowinfo, raw.sin6_scope_id).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_addresses_and_times_come_along() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let [one, other] = [(); 2].map(|()| udp_socket(host.parse().unwrap()).unwrap());
            let (from, to) = (one.local_addr().unwrap(), other.local_addr().unwrap());
            for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
                send(&one, b"hello", Some(to), to.is_ipv4(), ecn).unwrap();
                let mut buffer = [0; 100];
                let mut poll = super::super::Poll::default();
                poll.push(std::os::fd::AsFd::as_fd(&other));
                poll.wait(Some(Duration::from_secs(5))).unwrap();
                let received = receive(&other, &mut buffer).unwrap();
                assert_eq!((&buffer[..received.len], received.from, received.ecn), (&b"hello"[..], Some(from), ecn));
                let stamp = Duration::from_nanos(super::super::now().as_nanos()) + super::super::realtime_offset();
                let age = stamp.saturating_sub(received.stamp.unwrap());
                assert!(age < Duration::from_secs(2), "{age:?}");
            }
            let error = receive(&other, &mut [0; 10]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        }
    }
}
