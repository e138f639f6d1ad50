//! Joins a port of the server's end to the same port of this machine, for a server that runs outside.
//!
//! The listening sockets were made at the server's end, where packets go over the path. What they accept is copied to
//! sockets of this machine by ordinary threads.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Connections, and clients of UDP, that are forwarded at a time; more are refused.
const MOST: usize = 256;

/// Forwards what comes to these sockets, of TCP and of UDP, to this port of the machine, until the process ends.
///
/// # Errors
/// When there can be no more threads.
pub(crate) fn start(tcp: OwnedFd, udp: OwnedFd, port: u16) -> io::Result<()> {
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let (tcp, udp) = (TcpListener::from(tcp), UdpSocket::from(udp));
    thread::Builder::new().name("forward-tcp".into()).spawn(move || accept(&tcp, to))?;
    thread::Builder::new().name("forward-udp".into()).spawn(move || relay(udp, to))?;
    Ok(())
}

fn accept(listener: &TcpListener, to: SocketAddr) {
    let open = Arc::new(AtomicUsize::new(0));
    while let Ok((near, _)) = listener.accept() {
        // A connection that cannot be forwarded is closed.
        if open.load(Ordering::Relaxed) >= MOST {
            continue;
        }
        let Ok(far) = TcpStream::connect(to) else { continue };
        let ends = near.try_clone().and_then(|near_too| Ok((near_too, far.try_clone()?)));
        let Ok((near_too, far_too)) = ends else { continue };
        for stream in [&near, &far] {
            let _ = stream.set_nodelay(true);
        }
        open.fetch_add(1, Ordering::Relaxed);
        let counted = open.clone();
        let up = thread::Builder::new().spawn(move || copy(near, far));
        let down = thread::Builder::new().spawn(move || {
            copy(far_too, near_too);
            counted.fetch_sub(1, Ordering::Relaxed);
        });
        if down.is_err() {
            open.fetch_sub(1, Ordering::Relaxed);
        }
        // A thread that could not be started has dropped its streams.
        drop(up);
    }
}

/// Copies one way until that is at its end.
fn copy(mut from: TcpStream, mut to: TcpStream) {
    if io::copy(&mut from, &mut to).is_err() {
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    } else {
        let _ = to.shutdown(Shutdown::Write);
    }
}

fn relay(near: UdpSocket, to: SocketAddr) {
    let near = Arc::new(near);
    let mut clients: BTreeMap<SocketAddr, Arc<UdpSocket>> = BTreeMap::new();
    let mut buffer = vec![0; 65_535];
    loop {
        let (length, client) = match near.recv_from(&mut buffer) {
            Ok(received) => received,
            // Of an earlier datagram.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
            Err(_) => return,
        };
        if !clients.contains_key(&client) && clients.len() < MOST {
            let Ok(far) = far_socket(to).map(Arc::new) else { continue };
            let (back, near) = (far.clone(), near.clone());
            let reader = thread::Builder::new().spawn(move || {
                let mut buffer = vec![0; 65_535];
                loop {
                    match back.recv(&mut buffer) {
                        Ok(length) => _ = near.send_to(&buffer[..length], client),
                        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                        Err(_) => return,
                    }
                }
            });
            if reader.is_ok() {
                clients.insert(client, far);
            }
        }
        if let Some(far) = clients.get(&client) {
            let _ = far.send(&buffer[..length]);
        }
    }
}

fn far_socket(to: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.connect(to)?;
    Ok(socket)
}
