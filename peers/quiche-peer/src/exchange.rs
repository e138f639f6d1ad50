//! Datagrams between a socket and connections.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use contract::{Failure, Task, evidence::Evidence};
use quiche::Connection;

use crate::MAX_DATAGRAM;

/// Datagrams taken before answers are sent.
const BURST: usize = 64;

/// Longest wait, so that the end of the program is seen.
const TICK: Duration = Duration::from_millis(20);

/// A datagram and its sender.
pub type Datagram = (Vec<u8>, SocketAddr);

/// Waits at most until a connection's timer and returns what arrived.
pub fn receive(socket: &UdpSocket, timer: Option<Duration>) -> io::Result<Vec<Datagram>> {
    let mut buffer = [0; 65_535];
    let mut arrived = Vec::new();
    // A timeout of zero would mean none at all.
    socket.set_read_timeout(Some(timer.unwrap_or(TICK).clamp(Duration::from_micros(100), TICK)))?;
    while arrived.len() < BURST {
        match socket.recv_from(&mut buffer) {
            Ok((length, from)) => arrived.push((buffer[..length].to_vec(), from)),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => break,
            Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ConnectionRefused) => {}
            Err(error) => return Err(error),
        }
        socket.set_nonblocking(true)?;
    }
    socket.set_nonblocking(false)?;
    Ok(arrived)
}

/// Sends everything that a connection has to send now.
pub fn flush(socket: &UdpSocket, connection: &mut Connection) -> Result<(), Failure> {
    let mut out = [0; MAX_DATAGRAM];
    loop {
        match connection.send(&mut out) {
            Ok((length, info)) => match socket.send_to(&out[..length], info.to) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(error) => return Err(error.into()),
            },
            Err(quiche::Error::Done) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// What is known of a connection.
pub fn evidence(connection: &Connection, task: &Task, number: usize, streams: usize) -> Evidence {
    Evidence {
        number,
        version: Some(quiche::PROTOCOL_VERSION),
        alpn: Some(String::from_utf8_lossy(task.alpn()).into_owned()),
        resumed: Some(connection.is_resumed()),
        streams,
        ..Evidence::default()
    }
}
