//! The server's application: answers every request with what it asks for.

use std::collections::VecDeque;

use thalweg_units::Instant;

use super::{App, HEAD, Transport, WANT_MEDIA, write_zeros};
use crate::meter::Meter;

/// The server's end of an application.
#[derive(Debug, Default)]
pub(crate) struct Server {
    reading: Vec<Request>,
    writing: VecDeque<Response>,
    is_asked_for_media: bool,
}

/// A request that is not complete.
#[derive(Debug)]
struct Request {
    id: u64,
    head: [u8; HEAD],
    have: usize,
}

/// A response that is not written yet.
#[derive(Debug)]
struct Response {
    id: u64,
    left: u64,
}

impl Server {
    /// Whether the client has asked for media.
    pub(crate) fn is_asked_for_media(&self) -> bool {
        self.is_asked_for_media
    }

    fn answer(&mut self, request: &Request) {
        let [kind, want @ ..] = request.head;
        let left = if kind == WANT_MEDIA { 0 } else { u64::from_be_bytes(want) };
        self.is_asked_for_media |= kind == WANT_MEDIA;
        self.writing.push_back(Response { id: request.id, left });
    }
}

impl Request {
    /// Reads what is there; returns whether that is all.
    fn poll(&mut self, now: Instant, transport: &mut dyn Transport, meter: &mut Meter) -> bool {
        let mut body = 0;
        let end = transport.read(self.id, &mut |bytes| {
            let head = bytes.len().min(HEAD - self.have);
            self.head[self.have..self.have + head].copy_from_slice(&bytes[..head]);
            self.have += head;
            body += (bytes.len() - head) as u64;
        });
        if body > 0 {
            meter.received(now, body);
        }
        end
    }
}

impl App for Server {
    fn poll(&mut self, now: Instant, transport: &mut dyn Transport, meter: &mut Meter) -> bool {
        while let Some(id) = transport.accept() {
            self.reading.push(Request { id, head: [0; HEAD], have: 0 });
        }
        let mut index = 0;
        while index < self.reading.len() {
            if self.reading[index].poll(now, transport, meter) {
                let request = self.reading.remove(index);
                self.answer(&request);
            } else {
                index += 1;
            }
        }
        let mut wrote = false;
        self.writing.retain_mut(|response| {
            let written = write_zeros(transport, response.id, response.left);
            wrote |= written > 0;
            if response.left != u64::MAX {
                response.left -= written;
            }
            if response.left == 0 {
                transport.finish(response.id);
                wrote = true;
            }
            response.left > 0
        });
        wrote
    }

    fn wakeup(&self) -> Option<Instant> {
        None
    }

    fn is_finished(&self) -> bool {
        false
    }
}
