//! The server's application: answers every request with what it asks for.

use std::collections::VecDeque;

use thalweg_units::{Duration, Instant};

use super::{App, HEAD, MediaSink, MediaSource, Transport, WANT_MEDIA, write_zeros};
use crate::meter::Meter;

/// The server's end of an application.
#[derive(Debug)]
pub struct Server {
    reading: Vec<Request>,
    writing: VecDeque<Response>,
    sink: MediaSink,
    source: Option<MediaSource>,
    sending_media: bool,
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
    pub(super) fn new(deadline: Option<Duration>, source: Option<MediaSource>) -> Self {
        let sink = MediaSink::new(deadline);
        Server { reading: Vec::new(), writing: VecDeque::new(), sink, source, sending_media: false }
    }

    fn answer(&mut self, request: &Request) {
        let [kind, want @ ..] = request.head;
        let left = if kind == WANT_MEDIA { 0 } else { u64::from_be_bytes(want) };
        self.sending_media |= kind == WANT_MEDIA;
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
        if let Some(source) = self.source.as_mut().filter(|_| self.sending_media) {
            wrote |= source.poll(now, transport, meter);
        }
        self.sink.poll(now, transport, meter);
        wrote
    }

    fn wakeup(&self) -> Option<Instant> {
        self.source.as_ref().filter(|_| self.sending_media).and_then(MediaSource::next)
    }

    fn is_finished(&self) -> bool {
        false
    }
}
