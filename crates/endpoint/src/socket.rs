//! One UDP socket: binding, offloads, ECN marks, buffer sizes.

use std::{
    fmt,
    io::{self, IoSliceMut},
    net::{IpAddr, SocketAddr},
    task::{Context, Poll},
};

use quinn_udp::{EcnCodepoint, RecvMeta, UdpSockRef, UdpSocketState};
use thalweg_recovery::Ecn;
use tokio::io::Interest;

/// Something that works, but not as well as it could on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// The kernel granted a smaller receive buffer than was asked for; bursts may be lost before we see them.
    SmallReceiveBuffer {
        /// Bytes asked for.
        wanted: usize,
        /// Bytes granted.
        granted: usize,
    },
    /// The kernel granted a smaller send buffer than was asked for.
    SmallSendBuffer {
        /// Bytes asked for.
        wanted: usize,
        /// Bytes granted.
        granted: usize,
    },
    /// Packets may be fragmented on the way: path MTU discovery cannot trust its results.
    MayFragment,
    /// The system cannot share one port between sockets: the server runs with one worker.
    NoPortSharing,
    /// An endpoint [for one connection](crate::EndpointBuilder::one_connection) was given a server configuration, which
    /// it ignores: without connection IDs it could not tell its clients apart.
    CannotServe,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SmallReceiveBuffer { wanted, granted } => write!(
                f,
                "the system granted a UDP receive buffer of {granted} bytes instead of {wanted}; fast transfers may lose \
                 packets. Raise the limit: {}",
                raise("rmem", *wanted)
            ),
            Self::SmallSendBuffer { wanted, granted } => write!(
                f,
                "the system granted a UDP send buffer of {granted} bytes instead of {wanted}. Raise the limit: {}",
                raise("wmem", *wanted)
            ),
            Self::MayFragment => f.write_str(
                "the system cannot forbid IP fragmentation on this socket; set TransportConfig::max_mtu to 1200 if \
                 transfers stall",
            ),
            Self::CannotServe => f.write_str(
                "an endpoint for one connection cannot accept any; make it without EndpointBuilder::one_connection",
            ),
            Self::NoPortSharing => {
                f.write_str("the system cannot share one port between several sockets; the server runs with one worker")
            }
        }
    }
}

/// The command that raises a socket buffer limit on this system.
fn raise(which: &str, bytes: usize) -> String {
    if cfg!(target_os = "linux") {
        format!("sysctl -w net.core.{which}_max={bytes}")
    } else if cfg!(any(target_os = "macos", target_os = "freebsd")) {
        format!("sysctl -w kern.ipc.maxsockbuf={}", bytes.saturating_mul(2))
    } else {
        "see the system's manual for the largest socket buffer".to_owned()
    }
}

/// One datagram, or several of equal size in one buffer, to be sent.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Outgoing<'a> {
    pub(crate) remote: SocketAddr,
    pub(crate) local_ip: Option<IpAddr>,
    pub(crate) ecn: Ecn,
    pub(crate) contents: &'a [u8],
    pub(crate) segment: Option<usize>,
}

/// A bound socket, registered with tokio.
#[derive(Debug)]
pub(crate) struct Socket {
    io: tokio::net::UdpSocket,
    state: UdpSocketState,
}

impl Socket {
    /// Takes over `socket`, asks for buffers of `buffer` bytes, and notes in `warnings` what the system did not grant.
    ///
    /// Must be called inside a tokio runtime.
    pub(crate) fn new(socket: std::net::UdpSocket, buffer: usize, warnings: &mut Vec<Warning>) -> io::Result<Self> {
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        stop_timestamps(&socket);
        // Failing to resize is not fatal; what was granted is checked below.
        let _ = state.set_recv_buffer_size(UdpSockRef::from(&socket), buffer);
        let _ = state.set_send_buffer_size(UdpSockRef::from(&socket), buffer);
        let granted = usable(state.recv_buffer_size(UdpSockRef::from(&socket))?);
        if granted < buffer {
            warn(warnings, Warning::SmallReceiveBuffer { wanted: buffer, granted });
        }
        let granted = usable(state.send_buffer_size(UdpSockRef::from(&socket))?);
        if granted < buffer {
            warn(warnings, Warning::SmallSendBuffer { wanted: buffer, granted });
        }
        if state.may_fragment() {
            warn(warnings, Warning::MayFragment);
        }
        socket.set_nonblocking(true)?;
        Ok(Self { io: tokio::net::UdpSocket::from_std(socket)?, state })
    }

    /// Where the socket is bound.
    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr()
    }

    /// How many segments one send may carry; 1 without segmentation offload.
    pub(crate) fn max_segments(&self) -> usize {
        self.state.max_gso_segments().max(1)
    }

    /// Ready once a receive is worth trying; else the task of `cx` is woken when it is.
    pub(crate) fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_recv_ready(cx)
    }

    /// Ready once a send is worth trying; else the task of `cx` is woken when it is.
    pub(crate) fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_send_ready(cx)
    }

    /// Receives up to `buffers.len()` buffers, each holding one datagram or several coalesced ones.
    ///
    /// Returning fewer than `buffers.len()` means the socket is empty, and its readiness has been cleared.
    pub(crate) fn receive(&self, buffers: &mut [IoSliceMut<'_>], meta: &mut [RecvMeta]) -> io::Result<usize> {
        let mut received = None;
        let room = buffers.len();
        let result = self.io.try_io(Interest::READABLE, || {
            let count = self.state.recv(UdpSockRef::from(&self.io), buffers, meta)?;
            received = Some(count);
            // A short batch proves that the queue was empty, and readiness is edge-triggered: telling tokio so at once
            // saves the system call that would only find out again. Not so where one call reads one datagram.
            if count < room && cfg!(target_os = "linux") {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Ok(count)
        });
        match received {
            Some(count) => Ok(count),
            None => result,
        }
    }

    /// Sends; `WouldBlock` means: keep it and try again when [`poll_writable`](Self::poll_writable) says so.
    pub(crate) fn send(&self, outgoing: &Outgoing<'_>) -> io::Result<()> {
        let transmit = quinn_udp::Transmit {
            destination: outgoing.remote,
            ecn: match outgoing.ecn {
                Ecn::NotEct => None,
                Ecn::Ect0 => Some(EcnCodepoint::Ect0),
                Ecn::Ect1 => Some(EcnCodepoint::Ect1),
                Ecn::Ce => Some(EcnCodepoint::Ce),
            },
            contents: outgoing.contents,
            segment_size: outgoing.segment,
            src_ip: outgoing.local_ip,
        };
        let send = |transmit: &quinn_udp::Transmit<'_>| {
            self.io.try_io(Interest::WRITABLE, || self.state.try_send(UdpSockRef::from(&self.io), transmit))
        };
        match send(&transmit) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                let Some(segment) = outgoing.segment.filter(|&size| size > 0 && size < outgoing.contents.len()) else {
                    return Err(error);
                };
                // The device refused segmentation offload (quinn-udp has switched it off for what follows): one by one.
                let mut result = Ok(());
                for contents in outgoing.contents.chunks(segment) {
                    let one = quinn_udp::Transmit { contents, segment_size: None, ..transmit.clone() };
                    if let Err(error) = send(&one) {
                        // A full socket buffer in this rare case loses the rest; recovery repairs it.
                        result = if error.kind() == io::ErrorKind::WouldBlock { Ok(()) } else { Err(error) };
                    }
                }
                result
            }
            result => result,
        }
    }
}

/// Has the kernel report no receive timestamps, which quinn-udp 0.6.3 switches on and nobody here reads.
///
/// They cost time for every packet. Worse, on a coalesced receive (GRO) they no longer fit into quinn-udp's buffer for
/// control messages (96 bytes) together with the segment size and the local address, and what the kernel then leaves
/// out is the last one: the ECN mark. Failing to switch them off only means that ECN will be found not to work.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)] // one system call for which neither std nor socket2 has a safe form
fn stop_timestamps(socket: &std::net::UdpSocket) {
    use std::os::fd::AsRawFd;
    let off: libc::c_int = 0;
    // SAFETY: the descriptor is open for as long as `socket` is borrowed, and the pointer and length describe `off`.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPNS,
            (&raw const off).cast(),
            size_of_val(&off) as libc::socklen_t,
        );
    }
}

#[cfg(not(target_os = "linux"))]
fn stop_timestamps(_: &std::net::UdpSocket) {}

/// The mark quinn-udp reports, as the state machines name it.
pub(crate) fn ecn_of(mark: Option<EcnCodepoint>) -> Ecn {
    match mark {
        None => Ecn::NotEct,
        Some(EcnCodepoint::Ect0) => Ecn::Ect0,
        Some(EcnCodepoint::Ect1) => Ecn::Ect1,
        Some(EcnCodepoint::Ce) => Ecn::Ce,
    }
}

/// Linux reports twice what may be used, to account for its own bookkeeping (socket(7)).
fn usable(reported: usize) -> usize {
    if cfg!(target_os = "linux") { reported / 2 } else { reported }
}

/// Adds `warning` unless it is there already (every worker has the same one).
pub(crate) fn warn(warnings: &mut Vec<Warning>, warning: Warning) {
    if !warnings.contains(&warning) {
        warnings.push(warning);
    }
}

/// Binds a UDP socket whose port nobody else has. With `shared`, sockets of [`join`] may bind the port after it.
pub(crate) fn bind(address: SocketAddr, shared: bool) -> io::Result<std::net::UdpSocket> {
    let socket = unbound(address)?;
    socket.bind(&address.into())?;
    if shared {
        // Only now. A socket that lets others in before it is bound may itself be let in: Linux gives it, for port 0
        // too, a port where another server of the same user listens, and sends that server's datagrams to either.
        share_port(&socket)?;
    }
    Ok(socket.into())
}

/// Binds one more UDP socket to the port of a shared one; the kernel spreads datagrams over them.
pub(crate) fn join(address: SocketAddr) -> io::Result<std::net::UdpSocket> {
    let socket = unbound(address)?;
    share_port(&socket)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}

fn unbound(address: SocketAddr) -> io::Result<socket2::Socket> {
    let socket = socket2::Socket::new(
        socket2::Domain::for_address(address),
        socket2::Type::DGRAM,
        Some(socket2::Protocol::UDP),
    )?;
    if address.is_ipv6() && address.ip().is_unspecified() {
        // One socket for both families where the system allows it.
        let _ = socket.set_only_v6(false);
    }
    Ok(socket)
}

#[cfg(target_os = "linux")]
fn share_port(socket: &socket2::Socket) -> io::Result<()> {
    socket.set_reuse_port(true)
}

#[cfg(not(target_os = "linux"))]
fn share_port(_: &socket2::Socket) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Whether several sockets can share one port with the kernel spreading datagrams by address.
pub(crate) const CAN_SHARE_PORT: bool = cfg!(target_os = "linux");

/// `remote` in the address family of a socket bound to `local` (RFC 4291 section 2.5.5.2).
pub(crate) fn to_family(local: SocketAddr, remote: SocketAddr) -> Option<SocketAddr> {
    match (local, remote) {
        (SocketAddr::V6(_), SocketAddr::V4(v4)) => Some((v4.ip().to_ipv6_mapped(), v4.port()).into()),
        (SocketAddr::V4(_), SocketAddr::V6(v6)) => v6.ip().to_ipv4_mapped().map(|ip| (ip, v6.port()).into()),
        _ => Some(remote),
    }
}

/// `address` as people write it: IPv4 as IPv4 even when it came through an IPv6 socket.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V6(v6) => match v6.ip().to_ipv4_mapped() {
            Some(ip) => (ip, v6.port()).into(),
            None => address,
        },
        SocketAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_follow_the_family_of_the_socket() {
        let v4: SocketAddr = "127.0.0.1:4433".parse().unwrap();
        let v6: SocketAddr = "[::1]:4433".parse().unwrap();
        let mapped: SocketAddr = "[::ffff:127.0.0.1]:4433".parse().unwrap();
        assert_eq!(to_family(v6, v4), Some(mapped));
        assert_eq!(to_family(v4, mapped), Some(v4));
        assert_eq!(to_family(v4, v6), None);
        assert_eq!(canonical(mapped), v4);
        assert_eq!(canonical(v6), v6);
    }

    /// Linux lets a socket that shares its port into any port that another one of the same user shares.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_shared_port_admits_those_who_join_and_no_other_server() {
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let first = bind(any, true).unwrap();
        let address = first.local_addr().unwrap();
        let second = join(address).unwrap();
        for shared in [false, true] {
            assert_eq!(bind(address, shared).unwrap_err().kind(), io::ErrorKind::AddrInUse, "shared: {shared}");
        }
        // Both get datagrams: of forty senders, all choose one with a chance of 2^-39.
        let mut got = [0, 0];
        for socket in [&first, &second] {
            socket.set_nonblocking(true).unwrap();
        }
        for _ in 0..40 {
            std::net::UdpSocket::bind(any).unwrap().send_to(b"x", address).unwrap();
        }
        for (socket, got) in [&first, &second].into_iter().zip(&mut got) {
            while socket.recv_from(&mut [0; 8]).is_ok() {
                *got += 1;
            }
        }
        assert!(got[0] > 0 && got[1] > 0 && got[0] + got[1] == 40, "{got:?}");
    }

    #[test]
    fn a_warning_says_what_to_do() {
        let text = Warning::SmallReceiveBuffer { wanted: 4_194_304, granted: 212_992 }.to_string();
        assert!(text.contains("4194304") && text.contains("212992"), "{text}");
        if cfg!(target_os = "linux") {
            assert!(text.contains("sysctl -w net.core.rmem_max=4194304"), "{text}");
        }
    }
}
