//! Applications of clients and servers, over whatever transport.

mod client;
mod server;

use bytes::Bytes;
pub(crate) use client::{Client, Job, Jobs, Once};
pub(crate) use server::Server;
use thalweg_units::Instant;

use crate::meter::Meter;

/// A connection as an application sees it. Streams have both directions.
pub trait Transport {
    /// Whether streams can be opened: the handshake has come far enough.
    fn is_ready(&self) -> bool;
    /// Opens a stream, if the peer's limit allows another.
    fn open(&mut self) -> Option<u64>;
    /// The next stream that the peer opened.
    fn accept(&mut self) -> Option<u64>;
    /// Takes what there is room for off the front of `data`; returns how much.
    fn write(&mut self, id: u64, data: &mut Bytes) -> usize;
    /// Nothing more will be written.
    fn finish(&mut self, id: u64);
    /// Hands what can be read to `take`. Returns whether the stream has come to its end.
    fn read(&mut self, id: u64, take: &mut dyn FnMut(&[u8])) -> bool;
    /// The largest datagram that can be sent now, if any.
    fn max_datagram(&self) -> Option<usize>;
    /// Sends a datagram, if there is room.
    fn send_datagram(&mut self, data: Bytes) -> bool;
    /// The next datagram that arrived.
    fn recv_datagram(&mut self) -> Option<Bytes>;

    /// Sends a stream's data before those of streams with a higher number, and after datagrams. Streams have 0 at
    /// first.
    ///
    /// This and what follows does nothing unless the stack says that it [ranks
    /// streams](crate::StackInfo::has_stream_priorities); traffic that needs it is refused otherwise.
    fn set_priority(&mut self, id: u64, priority: u8) {
        let _ = (id, priority);
    }

    /// Throws away what arrived and will arrive on a stream, and asks the peer to send no more (STOP_SENDING). There is
    /// no end to read then.
    fn stop(&mut self, id: u64) {
        let _ = id;
    }

    /// Whether the peer wants nothing more of what is written to a stream that was not finished.
    fn is_stopped(&mut self, id: u64) -> bool {
        let _ = id;
        false
    }
}

/// One end of an application on one connection.
pub trait App: Send {
    /// Does what can be done now. Returns whether anything was written.
    fn poll(&mut self, now: Instant, transport: &mut dyn Transport, meter: &mut Meter) -> bool;
    /// When it wants to be polled although nothing arrives.
    fn wakeup(&self) -> Option<Instant>;
    /// Whether everything was done. Never for servers: they serve until the client goes.
    fn is_finished(&self) -> bool;
}

/// Bytes of a request's head: what is wanted, and how much of it.
pub(crate) const HEAD: usize = 9;
/// Respond with this many bytes at the end of the request.
const WANT_BYTES: u8 = 0;
/// Begin to send media.
pub(crate) const WANT_MEDIA: u8 = 1;

/// What is sent.
pub(crate) static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// Writes zeros while there is room; returns how many.
fn write_zeros(transport: &mut dyn Transport, id: u64, left: u64) -> u64 {
    let mut written = 0;
    while written < left {
        let wanted = (left - written).min(ZEROS.len() as u64) as usize;
        let mut chunk = Bytes::from_static(&ZEROS[..wanted]);
        let taken = transport.write(id, &mut chunk);
        written += taken as u64;
        if taken < wanted {
            break;
        }
    }
    written
}
