//! HTTP/3 over QUIC, as the dialer and the sessions see it.

use std::net::SocketAddr;
use std::time::Duration;

use thiserror::Error;
use tokio::net::UdpSocket;

use super::session::Session;

/// How long a handshake may be silent before we ask the host whether the port is open at all. Longer than most round trips, so
/// that the question is rarely asked; shorter than [`super::race::STAGGER`].
const ASK_AFTER: Duration = Duration::from_millis(150);

/// Why QUIC did not come to a connection at one address.
#[derive(Debug, Error)]
pub(super) enum Failure {
    /// ICMP says that nobody listens.
    #[error("the host refuses UDP on this port")]
    Refused,
    /// The handshake failed.
    #[error("{0}")]
    Handshake(String),
}

/// Opens QUIC connections.
#[derive(Clone)]
pub(super) struct Quic {}

impl Quic {
    pub(super) async fn connect(
        &self,
        address: SocketAddr,
        name: &str,
    ) -> Result<Session, Failure> {
        let _ = name;
        tokio::select! {
            () = refused(address) => Err(Failure::Refused),
            () = std::future::pending() => Err(Failure::Handshake(String::new())),
        }
    }
}

/// Ready when the host at `address` says by ICMP that nobody listens on the UDP port; never otherwise.
///
/// An unconnected socket, as QUIC uses, is not told about ICMP. A connected one is, so it sends one byte that no QUIC server
/// takes for a packet (its fixed bit is 0, RFC 9000 section 17.2) and listens for the refusal.
async fn refused(address: SocketAddr) {
    tokio::time::sleep(ASK_AFTER).await;
    let any: SocketAddr = if address.is_ipv4() {
        ([0, 0, 0, 0], 0).into()
    } else {
        ([0u16; 8], 0).into()
    };
    let ask = async {
        let socket = UdpSocket::bind(any).await?;
        socket.connect(address).await?;
        socket.send(&[0]).await?;
        socket.recv(&mut [0; 16]).await
    };
    match ask.await {
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {}
        _ => std::future::pending().await,
    }
}
