//! The application's side of the streams: open, accept, write, finish, reset, read, stop.

use bytes::Bytes;
use thalweg_recovery::DataSpace;

use super::recv::RecvState;
use super::send::{Ready, Send};
use super::{
    ClosedStream, Dir, Incoming, ReadError, Recv, SentStreams, StreamEvent, StreamId, Streams, WriteError,
    control::Control,
};

use crate::turn::Turn;

impl Streams {
    /// Opens a stream. `None` if the peer's limit is reached: wait for [`StreamEvent::Available`].
    ///
    /// It reaches the peer with its first frame: a stream that is never written to does not exist for the peer.
    pub fn open(&mut self, dir: Dir) -> Option<StreamId> {
        let local = &mut self.local[dir.index()];
        if local.next >= local.max {
            local.refused = true;
            if self.peer_known && local.blocked_at != Some(local.max) {
                local.blocked_at = Some(local.max);
                self.control.streams_blocked[dir.index()] = true;
            }
            return None;
        }
        let id = StreamId::new(self.side, dir, local.next);
        local.next += 1;
        self.insert_send(id);
        if dir == Dir::Bi {
            self.insert_recv(id, true);
        }
        Some(id)
    }

    /// Takes the next stream that the peer opened, in order of their numbers; `None`: wait for [`StreamEvent::Opened`].
    pub fn accept(&mut self, dir: Dir) -> Option<StreamId> {
        let remote = &mut self.remote[dir.index()];
        if remote.accepted >= remote.opened {
            return None;
        }
        let id = StreamId::new(self.side.peer(), dir, remote.accepted);
        remote.accepted += 1;
        if let Some(stream) = self.recv.get_mut(&id) {
            stream.accepted = true;
            if stream.should_notify() {
                self.events.push_back(StreamEvent::Readable { id });
            }
        }
        if let Some(code) = self.stopped(id) {
            self.events.push_back(StreamEvent::Stopped { id, code });
        }
        Some(id)
    }

    /// Writes as much of `data` as there is room for, by copying. Returns how many bytes; 0 only for empty `data`.
    ///
    /// Errors: [`WriteError::Blocked`] if there is no room, followed by [`StreamEvent::Writable`] when there is.
    pub fn write(&mut self, id: StreamId, data: &[u8]) -> Result<usize, WriteError> {
        let room = self.room_to_write(id, data.len())?;
        if let (Some(stream), true) = (self.send.get_mut(&id), room > 0) {
            stream.buffer.write(&mut self.outgoing.pool, &data[..room]);
            self.outgoing.hold(room as u64);
            self.outgoing.refresh(&mut self.control, id, stream);
        }
        Ok(room)
    }

    /// Like [`Streams::write`], without copying: what was taken is split off the front of `data`.
    pub fn write_chunk(&mut self, id: StreamId, data: &mut Bytes) -> Result<usize, WriteError> {
        let room = self.room_to_write(id, data.len())?;
        if let (Some(stream), true) = (self.send.get_mut(&id), room > 0) {
            let taken = data.split_to(room);
            stream.buffer.write_chunk(&mut self.outgoing.pool, taken);
            self.outgoing.hold(room as u64);
            self.outgoing.refresh(&mut self.control, id, stream);
        }
        Ok(room)
    }

    /// How many of `wanted` bytes a write would take now, if they are all or enough to be worth a write: for
    /// applications that make, or read, what they write only when it can leave. 0 only for `wanted` = 0.
    ///
    /// Errors: [`WriteError::Blocked`] if there is too little room, followed by [`StreamEvent::Writable`] when there is
    /// more.
    pub fn capacity(&mut self, id: StreamId, wanted: usize) -> Result<usize, WriteError> {
        let stream = self.send.get_mut(&id).ok_or(WriteError::ClosedStream)?;
        writable(stream)?;
        let room = self.outgoing.capacity(stream, wanted as u64);
        if room == 0 && wanted > 0 {
            self.outgoing.wait_for_room(&mut self.control, id, stream);
            return Err(WriteError::Blocked);
        }
        Ok(room as usize)
    }

    /// How many of `wanted` bytes may be written.
    fn room_to_write(&mut self, id: StreamId, wanted: usize) -> Result<usize, WriteError> {
        let stream = self.send.get_mut(&id).ok_or(WriteError::ClosedStream)?;
        writable(stream)?;
        let room = usize::try_from(self.outgoing.room(stream)).unwrap_or(usize::MAX);
        if room == 0 && wanted > 0 {
            self.outgoing.wait_for_room(&mut self.control, id, stream);
            return Err(WriteError::Blocked);
        }
        Ok(room.min(wanted))
    }

    /// Ends the stream after what was written. [`StreamEvent::Finished`] reports when the peer has all of it.
    pub fn finish(&mut self, id: StreamId) -> Result<(), ClosedStream> {
        let stream = self.send.get_mut(&id).ok_or(ClosedStream)?;
        if stream.finished || stream.reset.is_some() {
            return Err(ClosedStream);
        }
        stream.finish();
        self.outgoing.refresh(&mut self.control, id, stream);
        Ok(())
    }

    /// Abandons the sending part of a stream: what is not acknowledged will not be sent again (RFC 9000 section 3.1).
    pub fn reset(&mut self, id: StreamId, code: u64) -> Result<(), ClosedStream> {
        let stream = self.send.get_mut(&id).ok_or(ClosedStream)?;
        if stream.reset.is_some() {
            return Err(ClosedStream);
        }
        self.outgoing.abandon(&mut self.control, id, stream, code);
        self.wake_waiters();
        Ok(())
    }

    /// Sets the priority of a stream's data: higher goes first, always; equal ones take turns. 0 at the start.
    pub fn set_priority(&mut self, id: StreamId, priority: i32) -> Result<(), ClosedStream> {
        let stream = self.send.get_mut(&id).ok_or(ClosedStream)?;
        if stream.priority != priority {
            self.outgoing.set_priority(id, stream, priority);
        }
        Ok(())
    }

    /// The priority of a stream that is not fully sent and acknowledged.
    pub fn priority(&self, id: StreamId) -> Option<i32> {
        Some(self.send.get(&id)?.priority)
    }

    /// Pins what a stream sends to a path, or to none (see [`Connection::pin_stream`]).
    ///
    /// [`Connection::pin_stream`]: crate::Connection::pin_stream
    pub(crate) fn pin(&mut self, id: StreamId, path: Option<DataSpace>) -> Result<(), ClosedStream> {
        let stream = self.send.get_mut(&id).ok_or(ClosedStream)?;
        if stream.pin != path {
            self.outgoing.pin(&mut self.control, id, stream, path);
        }
        Ok(())
    }

    /// Whether a stream is pinned to a path.
    pub(crate) fn has_pins(&self) -> bool {
        !self.outgoing.pins.is_empty()
    }

    /// Whether this record has data of a stream that is pinned to a path.
    pub(crate) fn is_pinned(&self, sent: &SentStreams) -> bool {
        let is_pinned = |id| self.send.get(id).is_some_and(|stream| stream.pin.is_some());
        self.has_pins() && sent.chunks.iter().any(|chunk| is_pinned(&chunk.id))
    }

    /// Whether streams that are pinned to this path have something to send.
    pub(crate) fn can_send_pinned(&self, path: DataSpace) -> bool {
        let count = |ready| self.outgoing.pins.pinned(path, ready);
        count(Ready::Free) > 0 || count(Ready::Fresh) > 0 && self.outgoing.credit() > 0
    }

    /// From now on, only what a turn admits can be sent; `None`: everything.
    pub(crate) fn set_turn(&mut self, turn: Option<Turn>) {
        self.outgoing.pins.set_turn(turn);
    }

    /// The code with which the peer asked to stop sending; `None` also once the stream is forgotten.
    pub fn stopped(&self, id: StreamId) -> Option<u64> {
        self.send.get(&id)?.stopped
    }

    /// The number of streams the application wrote to or finished, and did not reset, that are not fully acknowledged.
    pub fn unfinished_sends(&self) -> usize {
        self.outgoing.unfinished
    }

    /// Whether something is not acknowledged, and the application has written the end of each stream that it is of.
    pub(crate) fn has_all_ends(&self) -> bool {
        self.outgoing.unfinished > 0 && self.outgoing.open == 0
    }

    /// Takes the next bytes of a stream, at most `max`, without copying. `None` at its end, after which it is
    /// forgotten.
    pub fn read(&mut self, id: StreamId, max: usize) -> Result<Option<Bytes>, ReadError> {
        let Streams { recv, incoming, control, .. } = self;
        let stream = recv.get_mut(&id).ok_or(ReadError::ClosedStream)?;
        if stream.state == RecvState::Open {
            if stream.data.is_unordered() {
                return Err(ReadError::Unordered);
            }
            if max == 0 {
                return Ok(Some(Bytes::new()));
            }
            if let Some(bytes) = stream.data.read(&mut incoming.pool, max) {
                took(incoming, control, id, stream, bytes.len());
                return Ok(Some(bytes));
            }
        }
        self.nothing_to_read(id).map(|()| None)
    }

    /// Copies the next bytes of a stream into `out`. Returns how many; `None` at its end, after which it is forgotten.
    pub fn read_into(&mut self, id: StreamId, out: &mut [u8]) -> Result<Option<usize>, ReadError> {
        let Streams { recv, incoming, control, .. } = self;
        let stream = recv.get_mut(&id).ok_or(ReadError::ClosedStream)?;
        if stream.state == RecvState::Open {
            if stream.data.is_unordered() {
                return Err(ReadError::Unordered);
            }
            if out.is_empty() {
                return Ok(Some(0));
            }
            let n = stream.data.read_into(&mut incoming.pool, out);
            if n > 0 {
                took(incoming, control, id, stream, n);
                return Ok(Some(n));
            }
        }
        self.nothing_to_read(id).map(|()| None)
    }

    /// Takes bytes of a stream that have arrived, at most `max`, with their offset, whatever is missing before them.
    /// `None` once everything was read, after which the stream is forgotten.
    ///
    /// Every byte comes once, lower offsets first as far as they are there. From the first call on the stream can only
    /// be read this way: [`Streams::read`] and [`Streams::read_into`] give [`ReadError::Unordered`].
    ///
    /// A byte that stays missing holds back the stream's credit one
    /// [`max_stream_receive_window`](super::StreamsConfig::max_stream_receive_window) beyond it: what was taken further
    /// on has to be remembered until then.
    pub fn read_unordered(&mut self, id: StreamId, max: usize) -> Result<Option<(u64, Bytes)>, ReadError> {
        let Streams { recv, incoming, control, .. } = self;
        let stream = recv.get_mut(&id).ok_or(ReadError::ClosedStream)?;
        if stream.state == RecvState::Open
            && let Some((offset, bytes)) = stream.data.read_unordered(&mut incoming.pool, max.max(1))
        {
            stream.window.hold_back(stream.data.lowest_missing());
            took(incoming, control, id, stream, bytes.len());
            return Ok(Some((offset, bytes)));
        }
        self.nothing_to_read(id).map(|()| None)
    }

    /// Why a read found no bytes: `Ok` at the end of the stream.
    fn nothing_to_read(&mut self, id: StreamId) -> Result<(), ReadError> {
        let stream = self.recv.get_mut(&id).ok_or(ReadError::ClosedStream)?;
        match stream.state {
            RecvState::Stopped(_) => Err(ReadError::ClosedStream),
            RecvState::Reset(code) => {
                self.remove_recv(id);
                Err(ReadError::Reset(code))
            }
            RecvState::Open if stream.at_end() => {
                self.remove_recv(id);
                Ok(())
            }
            RecvState::Open => {
                stream.notify = true;
                Err(ReadError::Blocked)
            }
        }
    }

    /// Throws away what the peer sent and will send, and asks it to stop (RFC 9000 section 3.5).
    pub fn stop(&mut self, id: StreamId, code: u64) -> Result<(), ClosedStream> {
        let stream = self.recv.get_mut(&id).ok_or(ClosedStream)?;
        if matches!(stream.state, RecvState::Stopped(_)) {
            return Err(ClosedStream);
        }
        let arrival = stream.stop(&mut self.incoming.pool, code);
        if !arrival.done {
            self.control.queue_stop(id, stream);
        }
        self.apply(id, arrival);
        Ok(())
    }

    /// The code with which the peer reset a stream, if no read has reported it to the application yet.
    pub fn received_reset(&self, id: StreamId) -> Option<u64> {
        match self.recv.get(&id)?.state {
            RecvState::Reset(code) => Some(code),
            _ => None,
        }
    }

    /// The code with which the peer reset a stream, which is then forgotten; `None` if no reset can come any more: all
    /// of the stream is here, or it was read to its end or stopped.
    ///
    /// [`ReadError::Blocked`] while neither is known, followed by [`StreamEvent::Readable`] when that may have changed.
    pub fn await_reset(&mut self, id: StreamId) -> Result<Option<u64>, ReadError> {
        let Some(stream) = self.recv.get_mut(&id) else { return Ok(None) };
        match stream.state {
            RecvState::Reset(code) => {
                self.remove_recv(id);
                Ok(Some(code))
            }
            RecvState::Stopped(_) => Ok(None),
            RecvState::Open if stream.is_complete() => Ok(None),
            RecvState::Open => {
                stream.awaits_reset = true;
                Err(ReadError::Blocked)
            }
        }
    }

    /// The next event for the application.
    pub fn poll_event(&mut self) -> Option<StreamEvent> {
        let event = self.events.pop_front()?;
        match event {
            StreamEvent::Opened { dir } => self.remote[dir.index()].announced = false,
            StreamEvent::Stopped { id, .. } => self.stop_told(id),
            _ => {}
        }
        Some(event)
    }

    /// The application learns that the peer does not want a stream: if that was all that kept it, it is forgotten.
    fn stop_told(&mut self, id: StreamId) {
        if let Some(stream) = self.send.get_mut(&id) {
            stream.stop_untold = false;
            if stream.reset_acked {
                self.remove_send(id);
            }
        }
    }

    /// Bytes received that wait for the application or behind a hole, the holes included, in all streams.
    pub fn bytes_unread(&self) -> u64 {
        self.incoming.share.held()
    }

    /// What the connection takes of its budgets, bytes: data held in either direction, and its state if the budget
    /// counts that ([`Budget::of_everything`](super::Budget::of_everything)).
    pub fn bytes_counted(&self) -> u64 {
        self.incoming.share.counted() + self.outgoing.counted()
    }

    /// Bytes written that are acknowledged with all before them in their stream, in all streams so far.
    pub fn bytes_acked(&self) -> u64 {
        self.outgoing.acked()
    }

    /// Bytes written that are not acknowledged, in all streams.
    pub fn bytes_unacked(&self) -> u64 {
        self.outgoing.held()
    }
}

/// Whether a stream can be written to at all.
fn writable(stream: &Send) -> Result<(), WriteError> {
    match stream.stopped {
        Some(code) => Err(WriteError::Stopped(code)),
        None if stream.finished || stream.reset.is_some() => Err(WriteError::ClosedStream),
        None => Ok(()),
    }
}

/// The application took `n` bytes: credits them to the stream and the connection.
fn took(incoming: &mut Incoming, control: &mut Control, id: StreamId, stream: &mut Recv, n: usize) {
    let n = n as u64;
    incoming.share.sub(n);
    let clock = incoming.clock;
    if stream.wants_credit() && stream.window.consume(n, stream.highest(), clock, &incoming.share) {
        control.queue_credit(id, stream);
        // One stream alone should be stopped by its own limit, not by the connection's.
        incoming.window.widen(stream.window.size() / 2 * 3);
    }
    if incoming.window.consume(n, incoming.received, clock, &incoming.share) {
        control.max_data = true;
    }
}
