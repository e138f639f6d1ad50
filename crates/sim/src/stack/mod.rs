//! Stacks: the interface of a transport's implementation, and its description.
//!
//! A transport with connections implements [`Stack`], and [`Node`] makes a [`Host`](crate::Host) of it. A
//! [`StackFactory`] makes the two hosts of a flow and describes the stack; the [`Registry`](crate::Registry) finds it
//! by name.

mod factory;
mod node;
mod settings;

use std::net::SocketAddr;

use thalweg_units::Instant;

pub use factory::{Carries, Hosts, PACKET_OVERHEAD, StackContext, StackFactory, StackInfo, SupportedPolicies};
pub use node::Node;
pub use settings::{Accepts, Schema, Setting, SettingValue, Settings};

use crate::app::Transport;
use crate::datagram::whole;
use crate::host::{Envelope, IP_UDP_HEADERS, Outbox};
use crate::result::{Figure, PacketCounts, SideResult};

/// A socket's worth of a transport: its connections, by number. [`Node`] drives it.
///
/// Numbers are the stack's own; one may be used again when its connection has been [retired](Self::retire). After
/// whatever happens to a connection, the node takes a turn with it: [`with`](Self::with), [`send`](Self::send) and
/// [`events`](Self::events), again while the application finds something to do, then [`is_over`](Self::is_over) and
/// [`timeout`](Self::timeout).
pub trait Stack: Send {
    /// Opens a connection to the server; returns its number.
    ///
    /// # Errors
    /// Why it cannot, in words.
    fn connect(&mut self, now: Instant) -> Result<usize, String>;

    /// A datagram arrived. What the socket itself answers goes to `replies`, and leaves before anything else.
    fn datagram(&mut self, now: Instant, envelope: Envelope, bytes: &mut [u8], replies: &mut Replies) -> Route;

    /// A datagram arrived in which so many `zeros` follow `bytes`: see [`Host::padded`](crate::Host::padded).
    fn padded(
        &mut self,
        now: Instant,
        envelope: Envelope,
        bytes: &mut [u8],
        zeros: usize,
        replies: &mut Replies,
    ) -> Route {
        self.datagram(now, envelope, &mut whole(bytes, zeros), replies)
    }

    /// When a connection wants to be woken.
    fn timeout(&mut self, connection: usize) -> Option<Instant>;

    /// That time has come.
    fn wake(&mut self, connection: usize, now: Instant);

    /// Lets an application at a connection.
    fn with(&mut self, connection: usize, now: Instant, run: &mut dyn FnMut(&mut dyn Transport));

    /// Sends what a connection may send now, up to `batch` datagrams at a time; returns whether there was anything.
    fn send(&mut self, connection: usize, now: Instant, batch: usize, out: &mut Outbox<'_>) -> bool;

    /// Whether more could have left in the latest [`send`](Self::send) if the application had written more. The node
    /// sends no further data at that instant if not; a stack that cannot tell says yes.
    fn wants_data(&self, connection: usize) -> bool {
        let _ = connection;
        true
    }

    /// Closes a connection in good order. What has to be sent for that, the next [`send`](Self::send) sends.
    fn close(&mut self, connection: usize, now: Instant);

    /// What became of a connection since it was last asked.
    fn events(&mut self, connection: usize, now: Instant) -> ConnectionEvents;

    /// The turn is over. Returns whether nothing is left of the connection, so that it can be [retired](Self::retire).
    fn is_over(&mut self, connection: usize, now: Instant) -> bool;

    /// Gives a connection's figures and forgets it.
    fn retire(&mut self, connection: usize, now: Instant) -> SideResult;

    /// The host's address is `local` from now on, and every connection has to go on from there. Not called unless the
    /// stack [hears of moves](StackInfo::hears_of_moves).
    fn address_changed(&mut self, now: Instant, local: SocketAddr) {
        let _ = (now, local);
    }

    /// Bytes of headers that the network adds to each datagram.
    fn overhead(&self) -> u32 {
        IP_UDP_HEADERS
    }

    /// Packets that a connection has sent and declared lost so far; `None` if that is known only at its end.
    fn packets(&self, connection: usize) -> Option<PacketCounts> {
        let _ = connection;
        None
    }

    /// Which figures [`retire`](Self::retire) fills; the others are zero for want of a count.
    fn measured(&self) -> &'static [Figure] {
        Figure::BASIC
    }

    /// Adds what the socket has counted for all its connections together, at the end of the run.
    fn finish(&mut self, now: Instant, total: &mut SideResult) {
        let _ = (now, total);
    }
}

/// What a socket answers by itself.
pub type Replies = Vec<(Envelope, Vec<u8>)>;

/// Where a datagram went.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// To a connection.
    Known(usize),
    /// To a connection that it opened.
    New(usize),
    /// Nowhere.
    Nowhere,
}

/// What became of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectionEvents {
    /// The handshake is complete since now, and the application may not have seen it: it gets another turn.
    pub connected: bool,
    /// It is closed: because of this, and whether the other end did so in good order.
    pub closed: Option<(String, bool)>,
}
