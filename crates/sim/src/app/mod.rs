//! The applications: what clients and servers do with a connection, whatever transport gives it to them.

mod call;
mod client;
mod media;
mod server;

use bytes::Bytes;
pub use call::Caller;
pub use client::Client;
use client::Jobs;
pub(crate) use media::{HEAD as PIECE_HEAD, media_span};
pub use media::{MediaSink, MediaSource};
pub use server::Server;
use thalweg_link::{Dice, Streams};
use thalweg_units::Instant;

use crate::meter::Meter;
use crate::plan::Traffic;

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

/// How many connections a client opens, and what it does with each: a start now and then.
#[derive(Debug)]
pub struct Launcher {
    traffic: Traffic,
    streams: Streams,
    next: Option<Instant>,
    started: u64,
    arrivals: Dice,
    sizes: Dice,
}

impl Launcher {
    /// For the client of a flow that starts at `start`.
    pub fn new(traffic: &Traffic, streams: &Streams, start: Instant) -> Self {
        Launcher {
            traffic: traffic.clone(),
            streams: streams.clone(),
            next: Some(start),
            started: 0,
            arrivals: streams.dice("arrivals"),
            sizes: streams.dice("sizes"),
        }
    }

    /// When the next connection is to be opened; `None` if there is none to come.
    pub fn next(&self) -> Option<Instant> {
        self.next
    }

    /// What the connection opened now is for.
    pub fn start(&mut self, now: Instant) -> Box<dyn App> {
        self.started += 1;
        self.next = None;
        let jobs = match &self.traffic {
            Traffic::Download(bytes) => Jobs::once(0, bytes.unwrap_or(u64::MAX)),
            Traffic::Upload(bytes) => Jobs::once(bytes.unwrap_or(u64::MAX), 0),
            Traffic::Requests { count, request, response, think } => {
                Jobs::sequence(*count, *request, *response, *think, &self.streams)
            }
            Traffic::Flows { count, arrivals, size, new_connections: true } => {
                if self.started < *count {
                    self.next = Some(now + arrivals.draw(&mut self.arrivals));
                }
                Jobs::once(0, size.draw(&mut self.sizes))
            }
            Traffic::Flows { count, arrivals, size, new_connections: false } => {
                Jobs::arrivals(*count, *arrivals, *size, &self.streams)
            }
            Traffic::Page(objects) => Jobs::page(objects),
            Traffic::Media { up, interval, frame, deadline, frames } => {
                let source = up.then(|| MediaSource::new(*interval, *frame, *frames));
                return Box::new(Client::media(source, *interval, *deadline, *frames));
            }
            Traffic::Call(call) => return Box::new(Caller::client(call)),
        };
        Box::new(Client::new(jobs))
    }
}

/// The server of a flow, for one connection.
pub fn server(traffic: &Traffic) -> Box<dyn App> {
    Box::new(match traffic {
        Traffic::Media { up: false, interval, frame, deadline, frames } => {
            Server::new(*deadline, Some(MediaSource::new(*interval, *frame, *frames)))
        }
        Traffic::Media { deadline, .. } => Server::new(*deadline, None),
        Traffic::Call(call) => return Box::new(Caller::server(call)),
        _ => Server::new(None, None),
    })
}

/// Bytes of a request's head: what is wanted, and how much of it.
const HEAD: usize = 9;
/// Respond with this many bytes at the end of the request.
const WANT_BYTES: u8 = 0;
/// Begin to send media.
const WANT_MEDIA: u8 = 1;

static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

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

#[cfg(test)]
mod tests {
    use thalweg_link::Spread;
    use thalweg_units::Duration;

    use super::*;
    use crate::plan::Size;

    #[test]
    fn flows_arrive_as_often_as_planned() {
        let arrivals = Spread::Exponential(Duration::from_millis(10));
        let traffic = Traffic::Flows { count: 10_000, arrivals, size: Size::Fixed(1), new_connections: true };
        let mut launcher = Launcher::new(&traffic, &Streams::new(1), Instant::ZERO);
        let mut started = 0;
        let mut last = Instant::ZERO;
        while let Some(at) = launcher.next() {
            launcher.start(at);
            started += 1;
            last = at;
        }
        assert_eq!(started, 10_000);
        let mean = last.as_nanos() as f64 / 1e6 / 10_000.0;
        assert!((mean - 10.0).abs() < 0.4, "{mean} ms");
    }
}
