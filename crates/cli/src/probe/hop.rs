//! Datagrams that may cross few hops only, and the answers of routers on the way.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

#[cfg(any(target_os = "linux", target_os = "android"))]
use quinn_udp::{TransportErrorPayload, UdpSockRef, UdpSocketState};
use thalweg_probe::HopSample;
#[cfg(any(target_os = "linux", target_os = "android"))]
use thalweg_probe::wire::UP_SIZE;
#[cfg(any(target_os = "linux", target_os = "android"))]
use tokio::{io::Interest, net::UdpSocket};

use super::socket::Clock;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Sends a datagram towards `server` that the router so many hops away answers, and waits for the answer. `started` is
/// when the measurement began. Needs no privileges: the kernel hands the router's message to the socket. Where it does
/// not, or the server is nearer, there is no answer.
pub(super) async fn ask(server: SocketAddr, hops: u8, clock: Clock, started: u64) -> HopSample {
    let since = |clock: Clock| i64::try_from(clock.now().as_nanos().saturating_sub(started)).unwrap_or(i64::MAX);
    let sent = since(clock);
    let answer = tokio::time::timeout(PATIENCE, answer(server, hops)).await;
    let answer = answer.ok().and_then(Result::ok).map(|from| (since(clock), from));
    HopSample { sent, answer }
}

/// Who answered. Each datagram has a socket of its own, so that its answer is not taken for another's.
#[cfg(any(target_os = "linux", target_os = "android"))]
async fn answer(server: SocketAddr, hops: u8) -> io::Result<Option<IpAddr>> {
    let domain = socket2::Domain::for_address(server);
    let socket = socket2::Socket::new(domain, socket2::Type::DGRAM, Some(socket2::Protocol::UDP))?;
    if server.is_ipv4() {
        socket.set_ttl_v4(hops.into())?;
    } else {
        socket.set_unicast_hops_v6(hops.into())?;
    }
    socket.connect(&server.into())?;
    let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
    state.enable_transport_errors(UdpSockRef::from(&socket))?;
    let io = UdpSocket::from_std(socket.into())?;
    socket2::SockRef::from(&io).send(&[0; UP_SIZE])?;
    loop {
        let error = io.async_io(Interest::ERROR, || {
            let error = state.recv_transport_error(UdpSockRef::from(&io))?;
            error.ok_or_else(|| io::ErrorKind::WouldBlock.into())
        });
        let error = error.await?;
        if matches!(error.payload, TransportErrorPayload::Other) {
            return Ok(error.addr.map(|address| address.ip()));
        }
    }
}

/// Other systems do not hand such messages to programs without privileges.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
async fn answer(_: SocketAddr, _: u8) -> io::Result<Option<IpAddr>> {
    Err(io::ErrorKind::Unsupported.into())
}
