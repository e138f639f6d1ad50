//! The client's application: requests and their responses, one after the other, all at once, or as a page wants them.

use std::collections::BTreeMap;

use bytes::Bytes;
use thalweg_link::{Dice, Spread, Streams};
use thalweg_units::{Duration, Instant};

use super::{App, HEAD, MediaSink, MediaSource, Transport, WANT_BYTES, WANT_MEDIA, media_span, write_zeros};
use crate::meter::Meter;
use crate::plan::{PageObject, Size};

/// A request to make: bytes to send and bytes to receive.
#[derive(Copy, Clone, Debug)]
pub(super) struct Job {
    number: usize,
    request: u64,
    response: u64,
}

/// Which requests to make, and when.
#[derive(Debug)]
pub(super) enum Jobs {
    Once(Option<Job>),
    Sequence { left: u64, request: Size, response: Size, think: Spread, next: Option<Instant>, dice: [Dice; 3] },
    Arrivals { left: u64, arrivals: Spread, size: Size, next: Option<Instant>, dice: [Dice; 2] },
    Page { objects: Vec<Waiting>, ready: BTreeMap<(Instant, usize), u64> },
}

/// An object of a page and how many others it still waits for.
#[derive(Debug)]
pub(super) struct Waiting {
    object: PageObject,
    missing: usize,
}

impl Jobs {
    pub(super) fn once(request: u64, response: u64) -> Self {
        Jobs::Once(Some(Job { number: 0, request, response }))
    }

    pub(super) fn sequence(count: u64, request: Size, response: Size, think: Spread, streams: &Streams) -> Self {
        let dice = ["request sizes", "response sizes", "think times"].map(|name| streams.dice(name));
        Jobs::Sequence { left: count, request, response, think, next: Some(Instant::ZERO), dice }
    }

    pub(super) fn arrivals(count: u64, arrivals: Spread, size: Size, streams: &Streams) -> Self {
        let dice = ["arrivals", "sizes"].map(|name| streams.dice(name));
        Jobs::Arrivals { left: count, arrivals, size, next: Some(Instant::ZERO), dice }
    }

    pub(super) fn page(objects: &[PageObject]) -> Self {
        let objects: Vec<Waiting> =
            objects.iter().map(|object| Waiting { missing: object.after.len(), object: object.clone() }).collect();
        let ready = objects.iter().enumerate().filter(|(_, waiting)| waiting.missing == 0);
        let ready =
            ready.map(|(n, waiting)| ((Instant::ZERO + waiting.object.delay, n), waiting.object.size)).collect();
        Jobs::Page { objects, ready }
    }

    /// The first request may be made now: what was to begin at once begins now.
    fn begin(&mut self, now: Instant) {
        let shift = now - Instant::ZERO;
        if let Jobs::Page { ready, .. } = self {
            *ready = ready.iter().map(|((at, n), size)| ((*at + shift, *n), *size)).collect();
        }
    }

    /// A request that is due.
    fn take(&mut self, now: Instant) -> Option<Job> {
        match self {
            Jobs::Once(job) => job.take(),
            Jobs::Sequence { left, request, response, next, dice, .. } => {
                next.filter(|at| *at <= now)?;
                // The next one follows the end of this one.
                *next = None;
                *left -= 1;
                let (request, response) = (request.draw(&mut dice[0]), response.draw(&mut dice[1]));
                Some(Job { number: 0, request, response })
            }
            Jobs::Arrivals { left, arrivals, size, next, dice } => {
                let at = next.filter(|at| *at <= now)?;
                *left -= 1;
                *next = (*left > 0).then(|| at.max(now) + arrivals.draw(&mut dice[0]));
                Some(Job { number: 0, request: 0, response: size.draw(&mut dice[1]) })
            }
            Jobs::Page { ready, .. } => {
                let (at, _) = *ready.first_key_value()?.0;
                if at > now {
                    return None;
                }
                let ((_, number), response) = ready.pop_first()?;
                Some(Job { number, request: 0, response })
            }
        }
    }

    /// A response is complete.
    fn done(&mut self, now: Instant, job: Job) {
        match self {
            Jobs::Sequence { left, think, next, dice, .. } if *left > 0 => {
                *next = Some(now + think.draw(&mut dice[2]));
            }
            Jobs::Page { objects, ready } => {
                for (n, waiting) in objects.iter_mut().enumerate() {
                    if waiting.object.after.contains(&job.number) {
                        waiting.missing -= waiting.object.after.iter().filter(|before| **before == job.number).count();
                        if waiting.missing == 0 {
                            ready.insert((now + waiting.object.delay, n), waiting.object.size);
                        }
                    }
                }
            }
            _ => {}
        }
    }

    fn next(&self) -> Option<Instant> {
        match self {
            Jobs::Once(_) => None,
            Jobs::Sequence { next, .. } | Jobs::Arrivals { next, .. } => *next,
            Jobs::Page { ready, .. } => ready.first_key_value().map(|((at, _), _)| *at),
        }
    }

    /// Whether no request will be made any more, given that none is under way.
    fn is_empty(&self) -> bool {
        match self {
            Jobs::Once(job) => job.is_none(),
            Jobs::Sequence { next, .. } | Jobs::Arrivals { next, .. } => next.is_none(),
            Jobs::Page { ready, .. } => ready.is_empty(),
        }
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
pub struct Client {
    jobs: Jobs,
    begun: bool,
    /// Due, but the peer's limit of streams is reached.
    waiting: Option<(Job, Instant)>,
    active: Vec<Active>,
    media: Option<Media>,
}

/// Media, in either direction.
#[derive(Debug)]
struct Media {
    source: Option<MediaSource>,
    sink: MediaSink,
    /// How long all frames and the time for the last to arrive take.
    span: Option<Duration>,
    asked: bool,
    until: Option<Instant>,
}

impl Client {
    pub(super) fn new(jobs: Jobs) -> Self {
        Client { jobs, begun: false, waiting: None, active: Vec::new(), media: None }
    }

    /// Sends (with a source) or asks for media.
    pub(super) fn media(
        source: Option<MediaSource>,
        interval: Duration,
        deadline: Option<Duration>,
        frames: Option<u64>,
    ) -> Self {
        let span = frames.map(|frames| media_span(interval, deadline, frames));
        let media = Media { source, sink: MediaSink::new(deadline), span, asked: false, until: None };
        Client { media: Some(media), ..Client::new(Jobs::Once(None)) }
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

    fn poll_media(&mut self, now: Instant, transport: &mut dyn Transport, meter: &mut Meter) -> bool {
        let Some(media) = &mut self.media else { return false };
        let mut wrote = false;
        media.until = media.until.or(media.span.map(|span| now + span));
        match &mut media.source {
            Some(source) => wrote |= source.poll(now, transport, meter),
            None if !media.asked => {
                if let Some(id) = transport.open() {
                    let mut head = Bytes::from_static(&[WANT_MEDIA; HEAD]);
                    transport.write(id, &mut head);
                    transport.finish(id);
                    media.asked = true;
                    wrote = true;
                }
            }
            None => {}
        }
        media.sink.poll(now, transport, meter);
        wrote
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

impl App for Client {
    fn poll(&mut self, now: Instant, transport: &mut dyn Transport, meter: &mut Meter) -> bool {
        if !transport.is_ready() {
            return false;
        }
        if !self.begun {
            self.begun = true;
            self.jobs.begin(now);
        }
        let mut wrote = self.poll_media(now, transport, meter);
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
        let media = self.media.as_ref();
        let frame = media.and_then(|media| media.source.as_ref()).and_then(MediaSource::next);
        let until = media.and_then(|media| media.until);
        // A request that waits for a stream is woken by the peer.
        let job = if self.waiting.is_some() { None } else { self.jobs.next() };
        [frame, until, job].into_iter().flatten().min()
    }

    fn is_finished(&self) -> bool {
        self.begun
            && self.active.is_empty()
            && self.waiting.is_none()
            && self.jobs.is_empty()
            && self.media.as_ref().is_none_or(|media| media.sink.is_over(media.until))
    }
}
