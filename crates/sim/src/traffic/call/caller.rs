//! The application of a call: audio in datagrams, video in one stream per group of frames, of which the receiver
//! cancels what comes too late.
//!
//! The sender opens the stream of a group and sends its frames on it. The receiver ends its own half of the stream once
//! it is done with the group: when it has read all of it, or has canceled it. So both ends know what is left, and
//! neither keeps a stream that is over.

mod frame;

use std::collections::VecDeque;

use bytes::{BufMut, Bytes, BytesMut};
use frame::{Head, Incoming};
use thalweg_units::{Duration, Instant};

use super::plan::{Call, FRAME_HEAD, LAST_WAIT};
use crate::app::{App, Transport, WANT_MEDIA, ZEROS};
use crate::meter::Meter;

/// How long after the end of a call a client gives up groups that are neither whole nor canceled.
const GIVE_UP: Duration = Duration::from_secs(10);

/// One end of a call.
#[derive(Debug)]
pub(super) struct Caller {
    /// Asks for the call, or is asked; none where the sender needs no request.
    request: Option<Request>,
    end: End,
    is_client: bool,
    duration: Duration,
    began: Option<Instant>,
    now: Instant,
}

#[derive(Debug)]
enum End {
    Sender(Sender),
    Receiver(Receiver),
}

/// The stream by which a client asks its server to send.
#[derive(Debug)]
enum Request {
    /// A client has not been able to open it.
    Unsent,
    /// It is to be read to its end.
    Reading(u64),
    Done,
}

impl Caller {
    /// The client's end of a call.
    pub(super) fn client(call: &Call) -> Caller {
        Caller::new(call, true, call.up)
    }

    /// The server's end of a call.
    pub(super) fn server(call: &Call) -> Caller {
        Caller::new(call, false, !call.up)
    }

    fn new(call: &Call, is_client: bool, sends: bool) -> Caller {
        Caller {
            request: (!call.up).then_some(Request::Unsent),
            end: if sends { End::Sender(Sender::new(call)) } else { End::Receiver(Receiver::new(call)) },
            is_client,
            duration: call.duration,
            began: None,
            now: Instant::ZERO,
        }
    }

    /// Takes the request a step further. Returns whether anything was written.
    fn poll_request(&mut self, transport: &mut dyn Transport) -> bool {
        let Some(request) = &mut self.request else { return false };
        let mut wrote = false;
        if matches!(request, Request::Unsent) {
            let id = if self.is_client { transport.open() } else { transport.accept() };
            let Some(id) = id else { return false };
            if self.is_client {
                transport.write(id, &mut Bytes::from_static(&[WANT_MEDIA]));
                transport.finish(id);
                wrote = true;
            }
            *request = Request::Reading(id);
        }
        if let Request::Reading(id) = *request
            && transport.read(id, &mut |_| {})
        {
            if !self.is_client {
                transport.finish(id);
                wrote = true;
            }
            *request = Request::Done;
        }
        wrote
    }

    /// Whether a sender may begin: without a request, or when it has come.
    fn is_wanted(&self) -> bool {
        self.request.as_ref().is_none_or(|request| matches!(request, Request::Done))
    }

    /// When a client ends at the earliest and at the latest.
    fn until(&self) -> Option<[Instant; 2]> {
        let due = self.began.filter(|_| self.is_client)? + self.duration;
        Some([due + LAST_WAIT, due + GIVE_UP])
    }

    fn is_done(&self) -> bool {
        match &self.end {
            End::Sender(sender) => sender.is_done(),
            End::Receiver(receiver) => receiver.left == 0,
        }
    }
}

impl App for Caller {
    fn poll(&mut self, now: Instant, transport: &mut dyn Transport, meter: &mut Meter) -> bool {
        self.now = now;
        if !transport.is_ready() {
            return false;
        }
        let mut wrote = self.poll_request(transport);
        // The server ends the stream of a request when it begins to send.
        let is_wanted = self.is_wanted();
        if is_wanted {
            self.began.get_or_insert(now);
        }
        wrote |= match &mut self.end {
            End::Sender(sender) => is_wanted && sender.poll(now, transport, meter),
            End::Receiver(receiver) => receiver.poll(now, transport, meter),
        };
        wrote
    }

    fn wakeup(&self) -> Option<Instant> {
        let frame = match &self.end {
            End::Sender(sender) => sender.due(),
            End::Receiver(_) => None,
        };
        let until = self.until().into_iter().flatten().find(|until| *until > self.now);
        frame.into_iter().chain(until).min()
    }

    fn is_finished(&self) -> bool {
        self.until().is_some_and(|[least, most]| self.now >= most || self.now >= least && self.is_done())
    }
}

/// Captures and sends frames.
#[derive(Debug)]
struct Sender {
    call: Call,
    began: Option<Instant>,
    /// By track, the number of the next frame.
    next: Vec<u64>,
    /// Groups that the receiver is not done with, by their age.
    groups: Vec<Group>,
}

/// A group of frames on its stream.
#[derive(Debug)]
struct Group {
    track: usize,
    /// Number of its first frame.
    first: u64,
    /// None while the peer's limit of streams is reached.
    id: Option<u64>,
    /// What the stream has not taken yet.
    pending: VecDeque<Bytes>,
    /// Its last frame is captured.
    is_whole: bool,
    /// All of it was handed to the stream, or the receiver has canceled the rest.
    is_over: bool,
}

impl Sender {
    fn new(call: &Call) -> Sender {
        Sender { call: call.clone(), began: None, next: vec![0; call.tracks()], groups: Vec::new() }
    }

    /// When the next frame of a track is due; none if there is none, or the call has not begun.
    fn due_of(&self, track: usize) -> Option<Instant> {
        let number = self.next[track];
        let began = self.began.filter(|_| number < self.call.frames(track))?;
        Some(began + self.call.offset(track, number))
    }

    fn due(&self) -> Option<Instant> {
        (0..self.next.len()).filter_map(|track| self.due_of(track)).min()
    }

    fn is_done(&self) -> bool {
        self.began.is_some() && self.due().is_none() && self.groups.is_empty()
    }

    fn poll(&mut self, now: Instant, transport: &mut dyn Transport, meter: &mut Meter) -> bool {
        self.began.get_or_insert(now);
        let mut wrote = false;
        for track in 0..self.next.len() {
            while let Some(captured) = self.due_of(track).filter(|due| *due <= now) {
                let number = self.next[track];
                self.next[track] += 1;
                meter.call.note(track, number, captured);
                let head = Head { track, number, size: self.call.size(track, number), captured };
                wrote |= self.send(head, transport);
            }
        }
        self.groups.retain_mut(|group| {
            let (some, is_left) = group.poll(transport);
            wrote |= some;
            is_left
        });
        wrote
    }

    /// Sends a frame as a datagram, or puts it into its group. Returns whether it was written.
    fn send(&mut self, head: Head, transport: &mut dyn Transport) -> bool {
        let mut data = BytesMut::with_capacity(FRAME_HEAD);
        head.write(&mut data);
        let mut left = head.size as usize - FRAME_HEAD;
        let Some(video) = self.call.video(head.track) else {
            data.put_bytes(0, left);
            // What finds no room is lost, as on the way.
            return transport.send_datagram(data.freeze());
        };
        let (track, first) = (head.track, head.number - head.number % video.group);
        if head.number == first {
            let pending = VecDeque::new();
            self.groups.push(Group { track, first, id: None, pending, is_whole: false, is_over: false });
        }
        let Some(group) = self.groups.iter_mut().find(|group| (group.track, group.first) == (track, first)) else {
            return false; // the receiver has canceled it
        };
        group.is_whole = self.call.ends_group(head.track, head.number);
        if !group.is_over {
            group.pending.push_back(data.freeze());
            while left > 0 {
                let chunk = left.min(ZEROS.len());
                group.pending.push_back(Bytes::from_static(&ZEROS[..chunk]));
                left -= chunk;
            }
        }
        false
    }
}

impl Group {
    /// Writes what the stream takes. Returns whether it wrote, and whether the receiver is not done with the group.
    fn poll(&mut self, transport: &mut dyn Transport) -> (bool, bool) {
        let Some(id) = self.id.or_else(|| transport.open()) else { return (false, true) };
        if self.id.is_none() {
            transport.set_priority(id, self.track as u8);
            self.id = Some(id);
        }
        let mut wrote = false;
        if !self.is_over && transport.is_stopped(id) {
            self.is_over = true;
            self.pending.clear();
        }
        while let Some(data) = self.pending.front_mut() {
            wrote |= transport.write(id, data) > 0;
            if !data.is_empty() {
                break;
            }
            self.pending.pop_front();
        }
        if !self.is_over && self.is_whole && self.pending.is_empty() {
            transport.finish(id);
            self.is_over = true;
            wrote = true;
        }
        // The end of the receiver's half may come before its request to stop, which the transport answers.
        let is_done = transport.read(id, &mut |_| {});
        (wrote, !is_done)
    }
}

/// Receives frames.
#[derive(Debug)]
struct Receiver {
    call: Call,
    /// Groups that are neither read to their end nor canceled.
    left: u64,
    streams: Vec<Incoming>,
    /// Heads of the frames that one read has completed.
    complete: Vec<Head>,
}

impl Receiver {
    fn new(call: &Call) -> Receiver {
        Receiver { call: call.clone(), left: call.groups(), streams: Vec::new(), complete: Vec::new() }
    }

    fn poll(&mut self, now: Instant, transport: &mut dyn Transport, meter: &mut Meter) -> bool {
        while let Some(data) = transport.recv_datagram() {
            if let Some(head) = data.first_chunk().map(Head::read)
                && head.size == data.len() as u64
                && self.arrived(head, now, meter)
            {
                meter.received(now, head.size);
            }
        }
        while let Some(id) = transport.accept() {
            self.streams.push(Incoming::new(id));
        }
        let mut wrote = false;
        let mut index = 0;
        while index < self.streams.len() {
            let (stream, complete) = (&mut self.streams[index], &mut self.complete);
            let (id, mut read) = (stream.id, 0);
            let is_end = transport.read(id, &mut |bytes| {
                read += bytes.len() as u64;
                stream.take(bytes, complete);
            });
            if read > 0 {
                meter.received(now, read);
            }
            let mut is_late = false;
            for head in &self.complete {
                self.arrived(*head, now, meter);
                is_late |= self.is_late(*head, now);
            }
            self.complete.clear();
            if is_late && !is_end {
                transport.stop(id);
            }
            if is_late || is_end {
                transport.finish(id);
                wrote = true;
                self.left = self.left.saturating_sub(1);
                self.streams.remove(index);
            } else {
                index += 1;
            }
        }
        wrote
    }

    /// Notes a frame that is whole. Returns whether it is one of the call and new.
    fn arrived(&self, head: Head, now: Instant, meter: &mut Meter) -> bool {
        let is_known = head.track < self.call.tracks() && head.number < self.call.frames(head.track);
        is_known && meter.call.note(head.track, head.number, now)
    }

    /// Whether a frame is so late that the rest of its group is not wanted any more.
    fn is_late(&self, head: Head, now: Instant) -> bool {
        let patience = self.call.video(head.track).and_then(|video| video.cancel_after);
        let is_late = patience.is_some_and(|patience| now.saturating_since(head.captured) > patience);
        // After the last frame there is nothing to cancel.
        is_late && !self.call.ends_group(head.track, head.number)
    }
}

#[cfg(test)]
mod tests;
