//! The sockets of a worker: the endpoint's own, and those that were added for further addresses of this host.

use std::{
    io,
    net::IpAddr,
    sync::Arc,
    task::{Context, Poll},
};

use thalweg_proto::udp::Transmit;

use crate::socket::{Outgoing, Socket};

/// See the [module](self). Never empty: the endpoint's own socket comes first, and takes what no other is for.
pub(super) struct Outlets(Vec<Outlet>);

/// A socket, and what it had no room for.
struct Outlet {
    socket: Arc<Socket>,
    /// Whose paths leave by it; `None` for the endpoint's own socket.
    local: Option<IpAddr>,
    unsent: Option<Transmit>,
    /// The bytes of `unsent`.
    contents: Vec<u8>,
}

impl Outlet {
    fn new(socket: Arc<Socket>, local: Option<IpAddr>) -> Self {
        Self { socket, local, unsent: None, contents: Vec::new() }
    }
}

impl Outlets {
    /// The endpoint's own socket alone.
    pub(super) fn new(socket: Arc<Socket>) -> Self {
        Self(vec![Outlet::new(socket, None)])
    }

    /// Adds a socket for `local`, in place of an earlier one for it.
    pub(super) fn add(&mut self, local: IpAddr, socket: Arc<Socket>) {
        self.0.retain(|outlet| outlet.local != Some(local));
        self.0.push(Outlet::new(socket, Some(local)));
    }

    /// Goes on with another socket as the endpoint's own.
    pub(super) fn replace(&mut self, socket: Arc<Socket>) {
        if let Some(own) = self.0.first_mut() {
            *own = Outlet::new(socket, None);
        }
    }

    /// How many sockets there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The socket at a position, the endpoint's own at the first.
    pub(super) fn socket(&self, position: usize) -> Option<&Socket> {
        self.0.get(position).map(|outlet| &*outlet.socket)
    }

    /// How many segments one send may carry by any of them.
    pub(super) fn max_segments(&self) -> usize {
        self.0.iter().map(|outlet| outlet.socket.max_segments()).min().unwrap_or(1)
    }

    /// The position of the socket for what leaves from `local`.
    fn of(&self, local: Option<IpAddr>) -> usize {
        if self.0.len() == 1 || local.is_none() {
            return 0;
        }
        self.0.iter().position(|outlet| outlet.local == local).unwrap_or(0)
    }

    /// Sends by the socket for the local address. `WouldBlock`: it has no room.
    pub(super) fn send(&self, transmit: &Transmit, contents: &[u8]) -> io::Result<()> {
        let Some(outlet) = self.0.get(self.of(transmit.local_ip)) else { return Ok(()) };
        outlet.socket.send(&Outgoing {
            remote: transmit.remote,
            local_ip: transmit.local_ip,
            ecn: transmit.ecn,
            contents,
            segment: transmit.segment,
        })
    }

    /// Keeps what a socket had no room for: nothing else leaves by it before. `buffer` holds the bytes, and another
    /// buffer afterwards.
    pub(super) fn keep(&mut self, transmit: Transmit, buffer: &mut Vec<u8>) {
        let position = self.of(transmit.local_ip);
        if let Some(outlet) = self.0.get_mut(position) {
            outlet.unsent = Some(transmit);
            std::mem::swap(&mut outlet.contents, buffer);
        }
    }

    /// Whether some socket has no room.
    pub(super) fn any_is_full(&self) -> bool {
        self.0.iter().any(|outlet| outlet.unsent.is_some())
    }

    /// Whether no socket has room.
    pub(super) fn all_are_full(&self) -> bool {
        self.0.iter().all(|outlet| outlet.unsent.is_some())
    }

    /// Whether the socket for what leaves from `local` has no room.
    pub(super) fn is_full(&self, local: Option<IpAddr>) -> bool {
        self.0.get(self.of(local)).is_some_and(|outlet| outlet.unsent.is_some())
    }

    /// Takes what waits where there may be room now, to be sent again. The task of `cx` is woken for the others when
    /// there is.
    pub(super) fn poll_unsent(&mut self, cx: &mut Context<'_>) -> Option<(Transmit, Vec<u8>)> {
        self.0.iter_mut().find_map(|outlet| {
            outlet.unsent.as_ref()?;
            match outlet.socket.poll_writable(cx) {
                Poll::Pending => None,
                Poll::Ready(_) => outlet.unsent.take().map(|unsent| (unsent, std::mem::take(&mut outlet.contents))),
            }
        })
    }
}
