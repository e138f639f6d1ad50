//! The interface of a simulated host: datagrams in and out with their addresses, a timer, progress, figures.

use std::collections::VecDeque;
use std::net::SocketAddr;

use thalweg_units::{Ecn, Instant};

use crate::datagram::{Datagram, Pool, whole};
use crate::meter::Meter;
use crate::result::{PacketCounts, SideResult};

/// Bytes of IPv4 and UDP headers on every datagram of QUIC.
pub const IP_UDP_HEADERS: u32 = 28;

/// One end of a flow: a program with a socket.
///
/// The world calls [`datagram`](Self::datagram) and [`timer`](Self::timer) as things happen, and
/// [`poll_send`](Self::poll_send) after either.
pub trait Host: Send {
    /// A datagram arrived. Its bytes may be changed in place.
    fn datagram(&mut self, now: Instant, envelope: Envelope, bytes: &mut [u8]);

    /// A datagram arrived that was sent by [`Outbox::push_padded`], undamaged: so many `zeros` follow `bytes`. A host
    /// that does not say otherwise sees the whole as a [`datagram`](Self::datagram).
    fn padded(&mut self, now: Instant, envelope: Envelope, bytes: &mut [u8], zeros: usize) {
        self.datagram(now, envelope, &mut whole(bytes, zeros));
    }

    /// When [`timer`](Self::timer) wants to be called.
    fn next_timer(&self) -> Option<Instant>;

    /// That time has come.
    fn timer(&mut self, now: Instant);

    /// Hands out everything that may leave now.
    fn poll_send(&mut self, now: Instant, out: &mut Outbox<'_>);

    /// The host's address is `local` from now on: an interface went, another one came. Only a move with notice calls
    /// this, and only stacks that [say so](crate::StackInfo::hears_of_moves) are called.
    fn address_changed(&mut self, now: Instant, local: SocketAddr) {
        let _ = (now, local);
    }

    /// Progress of the host. A flow ends when its client finishes; a server only reports failures.
    fn status(&self) -> Status;

    /// Whether other connections of the flow are still under way although one has failed: the flow is not over before
    /// they are.
    fn is_busy(&self) -> bool {
        false
    }

    /// What it has received.
    fn meter(&self) -> &Meter;

    /// Bytes of headers that the network adds to each datagram. IPv4 and UDP unless the host says otherwise.
    fn overhead(&self) -> u32 {
        IP_UDP_HEADERS
    }

    /// Packets sent and declared lost so far; `None` if the stack can report them only at the end.
    fn packets(&self) -> Option<PacketCounts> {
        None
    }

    /// The transport's figures at the end.
    fn report(&mut self, now: Instant) -> SideResult;
}

/// Progress of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// There is something left to do.
    Running,
    /// Everything was done.
    Finished,
    /// It cannot be done any more, because of this.
    Failed(String),
}

/// Addresses and ECN field of a datagram.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Whom it comes from. At the server this is the client's address as the network shows it.
    pub source: SocketAddr,
    /// Whom it is for. At the client this is the client's own address, whatever the network calls it.
    pub destination: SocketAddr,
    /// The ECN field of its IP header.
    pub ecn: Ecn,
}

impl Envelope {
    /// The addresses of an answer, unmarked.
    #[must_use]
    pub const fn reply(&self) -> Envelope {
        Envelope { source: self.destination, destination: self.source, ecn: Ecn::NotEct }
    }
}

/// Takes datagrams to the network. Their memory is recycled.
#[derive(Debug)]
pub struct Outbox<'a> {
    pub(crate) pool: &'a mut Pool,
    pub(crate) out: &'a mut VecDeque<Outgoing>,
    /// Whose datagrams follow: see [`of`](Self::of).
    pub(crate) connection: u32,
}

/// A datagram on its way to the network.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) envelope: Envelope,
    pub(crate) datagram: Box<Datagram>,
    pub(crate) connection: u32,
    pub(crate) tail: bool,
}

impl Outbox<'_> {
    /// What is pushed from now on belongs to this connection of the flow. Queues that keep flows apart keep connections
    /// apart, as if each had a port of its own. A host that never says so has one connection, number 0.
    pub fn of(&mut self, connection: u32) {
        self.connection = connection;
    }

    /// Sends one datagram. The network drops what comes from or goes to an address that nobody has.
    pub fn push(&mut self, envelope: Envelope, bytes: &[u8]) {
        self.push_padded(envelope, bytes, 0);
    }

    /// Sends one datagram of `bytes` and so many `zeros` behind them, which take neither memory nor time on their way.
    /// Unless it is damaged there, the other host gets it by [`Host::padded`].
    pub fn push_padded(&mut self, envelope: Envelope, bytes: &[u8], zeros: usize) {
        self.push_written(envelope, zeros, |buffer| buffer.extend_from_slice(bytes));
    }

    /// The same with what `write` puts into an empty buffer in place of `bytes`.
    pub(crate) fn push_written(&mut self, envelope: Envelope, zeros: usize, write: impl FnOnce(&mut Vec<u8>)) {
        let mut datagram = self.pool.take();
        datagram.bytes.clear();
        write(&mut datagram.bytes);
        datagram.zeros = zeros;
        self.out.push_back(Outgoing { envelope, datagram, connection: self.connection, tail: false });
    }

    /// The datagram pushed last is the last of a message, sent for the first time: what
    /// [`LossModel::Tail`](thalweg_link::LossModel::Tail) takes.
    pub fn mark_tail(&mut self) {
        if let Some(last) = self.out.back_mut() {
            last.tail = true;
        }
    }
}
