//! The client's application: requests and their responses, as many at a time as what it carries wants.

use bytes::Bytes;
use thalweg_units::Instant;

use super::{App, Transport, WANT_BYTES, write_zeros};
use crate::meter::Meter;

/// A request to make: bytes to send and bytes to receive.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Job {
    /// What the requests of this client are told apart by, if they are.
    pub(crate) number: usize,
    pub(crate) request: u64,
    pub(crate) response: u64,
}

/// Which requests to make, and when.
pub(crate) trait Jobs: Send {
    /// The first request may be made now: what was to begin at once begins now.
    fn begin(&mut self, now: Instant) {
        let _ = now;
    }

    /// A request that is due.
    fn take(&mut self, now: Instant) -> Option<Job>;

    /// A response is complete.
    fn done(&mut self, now: Instant, job: Job) {
        let _ = (now, job);
    }

    /// When the next request is due.
    fn next(&self) -> Option<Instant>;

    /// Whether no request will be made any more, given that none is under way.
    fn is_empty(&self) -> bool;
}

/// One request, at once.
#[derive(Debug)]
pub(crate) struct Once(Option<Job>);

impl Once {
    pub(crate) fn new(request: u64, response: u64) -> Once {
        Once(Some(Job { number: 0, request, response }))
    }
}

impl Jobs for Once {
    fn take(&mut self, _: Instant) -> Option<Job> {
        self.0.take()
    }

    fn next(&self) -> Option<Instant> {
        None
    }

    fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

/// A request under way.
#[derive(Debug)]
struct Active {
    job: Job,
    id: u64,
    start: Instant,
    head: Bytes,
    to_write: u64,
    finished: bool,
    received: u64,
}

/// The client's end of an application.
#[derive(Debug)]
pub(crate) struct Client<J> {
    jobs: J,
    begun: bool,
    /// Due, but the peer's limit of streams is reached.
    waiting: Option<(Job, Instant)>,
    active: Vec<Active>,
}

impl<J: Jobs> Client<J> {
    pub(crate) fn new(jobs: J) -> Self {
        Client { jobs, begun: false, waiting: None, active: Vec::new() }
    }

    /// Opens streams for the requests that are due.
    fn launch(&mut self, now: Instant, transport: &mut dyn Transport) {
        while let Some((job, start)) = self.waiting.take().or_else(|| self.jobs.take(now).map(|job| (job, now))) {
            let Some(id) = transport.open() else {
                self.waiting = Some((job, start));
                return;
            };
            let mut head = vec![WANT_BYTES];
            head.extend_from_slice(&job.response.to_be_bytes());
            let (head, to_write) = (Bytes::from(head), job.request);
            self.active.push(Active { job, id, start, head, to_write, finished: false, received: 0 });
        }
    }
}

impl Active {
    /// Writes and reads what is possible; returns whether it wrote, and whether it is complete.
    fn poll(&mut self, now: Instant, transport: &mut dyn Transport, meter: &mut Meter) -> (bool, bool) {
        let mut wrote = false;
        if !self.head.is_empty() {
            wrote |= transport.write(self.id, &mut self.head) > 0;
        }
        if self.head.is_empty() && self.to_write > 0 {
            let written = write_zeros(transport, self.id, self.to_write);
            wrote |= written > 0;
            if self.to_write != u64::MAX {
                self.to_write -= written;
            }
        }
        if self.head.is_empty() && self.to_write == 0 && !self.finished {
            transport.finish(self.id);
            self.finished = true;
            wrote = true;
        }
        let mut read = 0;
        let end = transport.read(self.id, &mut |bytes| read += bytes.len() as u64);
        if read > 0 {
            meter.received(now, read);
            self.received += read;
        }
        (wrote, end)
    }
}

impl<J: Jobs> App for Client<J> {
    fn poll(&mut self, now: Instant, transport: &mut dyn Transport, meter: &mut Meter) -> bool {
        if !transport.is_ready() {
            return false;
        }
        if !self.begun {
            self.begun = true;
            self.jobs.begin(now);
        }
        let mut wrote = false;
        loop {
            self.launch(now, transport);
            let mut ended = false;
            let mut index = 0;
            while index < self.active.len() {
                let active = &mut self.active[index];
                let (some, end) = active.poll(now, transport, meter);
                wrote |= some;
                if !end {
                    index += 1;
                    continue;
                }
                let active = self.active.remove(index);
                meter.transferred(now, active.start, active.job.request + active.received);
                self.jobs.done(now, active.job);
                ended = true;
            }
            if !ended {
                return wrote;
            }
        }
    }

    fn wakeup(&self) -> Option<Instant> {
        if !self.begun {
            return None;
        }
        // A request that waits for a stream is woken by the peer.
        if self.waiting.is_some() { None } else { self.jobs.next() }
    }

    fn is_finished(&self) -> bool {
        self.begun && self.active.is_empty() && self.waiting.is_none() && self.jobs.is_empty()
    }
}
