//! Frames about streams that leave: what waits, what goes into the next packet, and what became of it.

use std::collections::VecDeque;

use thalweg_recovery::DataSpace;

use crate::frame::ty;
use crate::varint;

use super::control::{Control, Waiting};
use super::flow::{CONNECTION_STATE, SEND_STATE, SEND_STEP, Share};
use super::pins::Pins;
use super::recv::RecvState;
use super::scheduler::Scheduler;
use super::send::{Ready, Send};
use super::send_buffer::SparePool;
use super::{Dir, SentControl, SentStreams, StreamEvent, StreamId, Streams, StreamsConfig};

/// What every stream may hold even if the connection's send window is full, bytes: a stream that the peer does not
/// read must not stop the others for good.
const SEND_FLOOR: u64 = 64 * 1024;

/// Room in the connection's send window before blocked writers are woken, bytes: fewer, larger writes.
const WAKE_ROOM: u64 = SEND_FLOOR / 2;

/// What a stream may hold beyond the peer's credit for it, bytes: enough to fill packets while the application is told
/// of new credit, little enough for thousands of streams that nobody reads.
const BEYOND_CREDIT: u64 = 8 * 1024;

/// What a connection may have sent and unacknowledged when the endpoint's send budget is spent and it asks for another
/// piece of [`BEYOND_CREDIT`], bytes. With that piece and what it has not counted there yet ([`SEND_STEP`]), 24 KiB per
/// connection are all that is held beyond the budget.
const SPENT_UNACKED: u64 = 8 * 1024;

/// What a connection may hold of the endpoint's send budget, in congestion windows (and `send_backlog`). Generous: a
/// peer that acknowledges may cost memory, one that only asks may not.
const BUDGET_WINDOWS: u64 = 16;

/// What every stream may have unsent while the endpoint's send budget is not spent, bytes: an urgent stream must not
/// wait for those that filled the connection's part of the budget.
const BUDGET_FLOOR: u64 = 16 * 1024;

/// What the sending parts of all streams share.
#[derive(Debug)]
pub(super) struct Outgoing {
    /// The peer's limit for the connection.
    max_data: u64,
    /// The sum of the bytes of all streams sent at least once.
    data_sent: u64,
    /// What the peer would still have taken of the stream that was sent last, when it was.
    stream_credit: u64,
    /// The sum of the bytes of all streams of which all before are acknowledged too.
    acked: u64,
    /// Bytes kept until acknowledged, all streams.
    share: Share,
    /// Those of them that were never sent.
    unsent: u64,
    pub(super) congestion_window: u64,
    pub(super) send_window: u64,
    backlog: u64,
    /// How many streams are in each state of readiness.
    counts: [usize; 4],
    pub(super) unfinished: usize,
    /// Of these, streams whose end the application has not written.
    pub(super) open: usize,
    /// Of the streams that are pinned to no path.
    scheduler: Scheduler,
    /// Those that are, by path.
    pub(super) pins: Pins,
    /// Streams whose writers wait for room in the connection's send window.
    waiters: VecDeque<StreamId>,
    pub(super) pool: SparePool,
}

impl Outgoing {
    pub(super) fn new(config: &StreamsConfig) -> Outgoing {
        let mut share = Share::new(config.send_budget.clone(), SEND_STEP);
        share.add_state(CONNECTION_STATE);
        Outgoing {
            max_data: 0,
            data_sent: 0,
            stream_credit: u64::MAX,
            acked: 0,
            share,
            unsent: 0,
            congestion_window: 0,
            send_window: config.send_window,
            backlog: config.send_backlog.max(1),
            counts: [0; 4],
            unfinished: 0,
            open: 0,
            scheduler: Scheduler::default(),
            pins: Pins::default(),
            waiters: VecDeque::new(),
            pool: SparePool::default(),
        }
    }

    /// Bytes kept until acknowledged, all streams.
    #[inline]
    pub(super) fn held(&self) -> u64 {
        self.share.held()
    }

    /// The state of the connection and its streams, and what is held for sending, as the budget counts them, bytes.
    pub(super) fn counted(&self) -> u64 {
        self.share.counted()
    }

    pub(super) fn acked(&self) -> u64 {
        self.acked
    }

    /// A part of a stream is there, which takes this many bytes.
    pub(super) fn add_state(&mut self, bytes: u64) {
        self.share.add_state(bytes);
    }

    /// A part of a stream is forgotten.
    pub(super) fn sub_state(&mut self, bytes: u64) {
        self.share.sub_state(bytes);
    }

    /// Nothing will be sent any more: drops a stream's bytes and counts nothing else.
    pub(super) fn drop_bytes(&mut self, stream: &mut Send) {
        let dropped = stream.buffer.clear(&mut self.pool);
        self.share.sub(dropped);
    }

    /// The application wrote.
    pub(super) fn hold(&mut self, bytes: u64) {
        self.share.add(bytes);
    }

    /// The connection's credit that is left.
    pub(super) fn credit(&self) -> u64 {
        self.max_data.saturating_sub(self.data_sent)
    }

    pub(super) fn data_sent(&self) -> u64 {
        self.data_sent
    }

    #[cfg(test)]
    pub(super) fn counts(&self) -> [usize; 4] {
        self.counts
    }

    fn count(&self, ready: Ready) -> usize {
        self.counts[ready.index()]
    }

    pub(super) fn raise_limit(&mut self, limit: u64) {
        self.max_data = self.max_data.max(limit);
    }

    pub(super) fn forget_sent(&mut self) {
        self.max_data = 0;
        self.data_sent = 0;
    }

    pub(super) fn inserted(&mut self, stream: &Send) {
        self.share.add_state(SEND_STATE);
        self.counts[stream.counted.ready.index()] += 1;
    }

    pub(super) fn removed(&mut self, stream: &mut Send) {
        let cleared = stream.buffer.clear(&mut self.pool);
        self.share.sub(cleared);
        self.share.sub_state(SEND_STATE);
        self.unsent -= stream.counted.unsent;
        self.counts[stream.counted.ready.index()] -= 1;
        self.unfinished -= usize::from(stream.counted.is_unfinished);
        self.open -= usize::from(stream.counted.is_open);
        self.pins.count(stream.pin, stream.counted.ready, false);
    }

    /// Pins a stream to a path, or to none.
    pub(super) fn pin(&mut self, control: &mut Control, id: StreamId, stream: &mut Send, path: Option<DataSpace>) {
        self.scheduler_of(stream.pin).remove(id, stream.priority, &mut stream.slot);
        self.pins.count(stream.pin, stream.counted.ready, false);
        self.pins.count(path, stream.counted.ready, true);
        stream.pin = path;
        self.refresh(control, id, stream);
    }

    fn scheduler_of(&mut self, pin: Option<DataSpace>) -> &mut Scheduler {
        pin.map_or(&mut self.scheduler, |path| self.pins.scheduler(path))
    }

    /// Something about a stream changed: counts and schedules it anew.
    pub(super) fn refresh(&mut self, control: &mut Control, id: StreamId, stream: &mut Send) {
        let ready = stream.ready();
        if ready != stream.counted.ready {
            self.counts[stream.counted.ready.index()] -= 1;
            self.counts[ready.index()] += 1;
            self.pins.count(stream.pin, ready, true);
            self.pins.count(stream.pin, stream.counted.ready, false);
            stream.counted.ready = ready;
        }
        let unsent = stream.buffer.unsent();
        self.unsent = self.unsent + unsent - stream.counted.unsent;
        stream.counted.unsent = unsent;
        let (is_unfinished, is_open) = (stream.is_unfinished(), stream.is_open());
        self.unfinished = self.unfinished + usize::from(is_unfinished) - usize::from(stream.counted.is_unfinished);
        self.open = self.open + usize::from(is_open) - usize::from(stream.counted.is_open);
        (stream.counted.is_unfinished, stream.counted.is_open) = (is_unfinished, is_open);
        match ready {
            Ready::Idle => {}
            Ready::StreamBlocked => Self::ask_for_credit(control, id, stream),
            Ready::Fresh | Ready::Free => {
                let needs_credit = ready == Ready::Fresh;
                self.scheduler_of(stream.pin).activate(id, stream.priority, &mut stream.slot, needs_credit);
            }
        }
    }

    /// Reports to the peer that a stream is blocked, once for each limit.
    fn ask_for_credit(control: &mut Control, id: StreamId, stream: &mut Send) {
        if stream.blocked_at != Some(stream.max_data) {
            stream.blocked_at = Some(stream.max_data);
            control.queue_blocked(id, stream);
        }
    }

    pub(super) fn set_priority(&mut self, id: StreamId, stream: &mut Send, priority: i32) {
        let old = std::mem::replace(&mut stream.priority, priority);
        self.scheduler_of(stream.pin).set_priority(id, old, priority, &mut stream.slot);
    }

    /// Resets a stream: drops its bytes and has RESET_STREAM sent.
    pub(super) fn abandon(&mut self, control: &mut Control, id: StreamId, stream: &mut Send, code: u64) {
        let abandoned = stream.abandon(&mut self.pool, code);
        self.share.sub(abandoned);
        control.queue_reset(id, stream);
        self.refresh(control, id, stream);
    }

    /// How many bytes the application may write to a stream now.
    pub(super) fn room(&self, stream: &Send) -> u64 {
        self.own_room(stream).min(self.shared_room(stream))
    }

    /// What a stream may have unsent, by its peer's credit.
    fn backlog(&self, stream: &Send) -> u64 {
        self.backlog.min(stream.credit().saturating_add(BEYOND_CREDIT))
    }

    /// The part of `room` that depends on the stream alone.
    fn own_room(&self, stream: &Send) -> u64 {
        self.backlog(stream).saturating_sub(stream.buffer.unsent())
    }

    /// The part of `room` that depends on all streams together.
    fn shared_room(&self, stream: &Send) -> u64 {
        self.window_room(stream).min(self.budget_room(stream))
    }

    /// What the connection's send window allows.
    fn window_room(&self, stream: &Send) -> u64 {
        let floor = SEND_FLOOR.min(self.send_window.max(1));
        self.send_window.saturating_sub(self.held()).max(floor.saturating_sub(stream.buffer.held()))
    }

    /// What the endpoint's budget allows. A connection may hold as much as is left for all others: many hungry ones get
    /// equal parts, and there is always something left for one that comes later.
    fn budget_room(&self, stream: &Send) -> u64 {
        let Some(budget) = self.share.budget() else {
            return u64::MAX;
        };
        let left = budget.left();
        let most = self.congestion_window.saturating_mul(BUDGET_WINDOWS).saturating_add(self.backlog);
        let floor = if left > 0 { BUDGET_FLOOR } else { self.spent_room(stream) };
        left.min(most).saturating_sub(self.held()).max(floor.saturating_sub(stream.buffer.unsent()))
    }

    /// What a stream may have unsent when the endpoint's budget is spent. A connection with nothing to send would never
    /// come to send again: one of its streams gets a small piece, of which nothing stays behind for want of credit.
    /// What is on its way is waited for, since its acknowledgment wakes the writers.
    fn spent_room(&self, stream: &Send) -> u64 {
        let sendable = self.count(Ready::Fresh) + self.count(Ready::Free) > 0;
        let unacked = self.held().saturating_sub(self.unsent);
        if sendable || unacked >= SPENT_UNACKED { 0 } else { BEYOND_CREDIT.min(stream.credit()) }
    }

    /// Whether only credit for the stream lets its writer go on: none is left, nor is any of the endpoint's budget.
    fn waits_for_credit(&self, stream: &Send) -> bool {
        stream.credit() == 0 && self.budget_room(stream) == 0
    }

    /// Whether a stream has enough room of its own for a write that is worth waking for.
    fn has_own_room(&self, stream: &Send) -> bool {
        self.own_room(stream) >= self.backlog(stream).div_ceil(4)
    }

    /// Whether all streams together leave enough room for that.
    fn has_shared_room(&self, stream: &Send) -> bool {
        let budget = self.budget_room(stream);
        // A small piece is worth it for a stream that has nothing it could send.
        let idle = !matches!(stream.ready(), Ready::Fresh | Ready::Free);
        self.window_room(stream) >= WAKE_ROOM.min(self.send_window.div_ceil(2))
            && (budget >= WAKE_ROOM || (budget > 0 && idle))
    }

    /// Whether a write of `wanted` bytes, or one that is worth it, would be taken now. Returns how many bytes; 0 if
    /// not.
    pub(super) fn capacity(&self, stream: &Send, wanted: u64) -> u64 {
        let room = self.room(stream);
        if room >= wanted || (self.has_own_room(stream) && self.has_shared_room(stream)) { room.min(wanted) } else { 0 }
    }

    /// A write found no room.
    pub(super) fn wait_for_room(&mut self, control: &mut Control, id: StreamId, stream: &mut Send) {
        stream.write_blocked = true;
        if self.waits_for_credit(stream) {
            Self::ask_for_credit(control, id, stream);
        } else if !self.has_shared_room(stream) {
            self.wait_in_line(id, stream);
        }
    }

    fn wait_in_line(&mut self, id: StreamId, stream: &mut Send) {
        if !std::mem::replace(&mut stream.waiting, true) {
            self.waiters.push_back(id);
        }
    }

    /// Wakes a blocked writer if there is room worth waking for. There always comes to be: at the latest when all that
    /// was written is acknowledged, or when the peer gives credit.
    pub(super) fn wake(&mut self, id: StreamId, stream: &mut Send, events: &mut VecDeque<StreamEvent>) {
        if !stream.write_blocked || stream.finished || stream.reset.is_some() || !self.has_own_room(stream) {
            return;
        }
        if self.has_shared_room(stream) {
            stream.write_blocked = false;
            events.push_back(StreamEvent::Writable { id });
        } else if !self.waits_for_credit(stream) {
            self.wait_in_line(id, stream);
        }
    }
}

impl Streams {
    /// Whether there may be frames to write: data or others, within the peer's limits.
    ///
    /// Rarely true without need: a frame may have become pointless since it was queued. Then `write_…` writes nothing.
    pub fn can_send(&self) -> bool {
        self.can_send_control() || self.can_send_data()
    }

    /// Whether [`Streams::write_control`] has something.
    pub fn can_send_control(&self) -> bool {
        !self.control.is_empty()
    }

    /// Whether [`Streams::write_data`] has something.
    pub fn can_send_data(&self) -> bool {
        let outgoing = &self.outgoing;
        let count = |ready| outgoing.pins.sendable(ready, outgoing.count(ready));
        count(Ready::Free) > 0 || (count(Ready::Fresh) > 0 && outgoing.credit() > 0)
    }

    /// Bytes of all streams that were never sent.
    pub(crate) fn unsent(&self) -> u64 {
        self.outgoing.unsent
    }

    /// The sum of the bytes of all streams sent at least once.
    pub(crate) fn data_sent(&self) -> u64 {
        self.outgoing.data_sent()
    }

    /// The credit that is left, of the connection and of the stream that was sent last.
    pub(crate) fn credit_left(&self) -> u64 {
        self.outgoing.credit().min(self.outgoing.stream_credit)
    }

    /// Whether this record has data, and the application has written the end of every stream of which it has some.
    pub(crate) fn is_of_finished(&self, sent: &SentStreams) -> bool {
        let is_finished = |id| self.send.get(id).is_some_and(|stream| stream.finished);
        !sent.chunks.is_empty() && sent.chunks.iter().all(|chunk| is_finished(&chunk.id))
    }

    /// Whether data waits for the peer's credit, for a stream or the connection.
    pub fn is_flow_blocked(&self) -> bool {
        self.outgoing.count(Ready::StreamBlocked) > 0
            || (self.outgoing.count(Ready::Fresh) > 0 && self.outgoing.credit() == 0)
    }

    /// Appends frames other than STREAM to `buf`, as far as they fit below `limit` (a length of `buf`), and records
    /// them.
    pub fn write_control(&mut self, buf: &mut Vec<u8>, limit: usize, record: &mut SentStreams) {
        if self.control.is_empty() {
            return;
        }
        let Streams { control, incoming, outgoing, remote, local, send, recv, .. } = self;
        if control.max_data {
            incoming.window.top_up(&incoming.share);
            let value = incoming.window.granted();
            if !put(buf, limit, &[ty::MAX_DATA, value]) {
                return;
            }
            control.max_data = false;
            record.control.push(SentControl::MaxData(value));
        }
        for dir in Dir::ALL {
            let i = dir.index();
            if control.max_streams[i] {
                let value = remote[i].limit;
                if !put(buf, limit, &[ty::MAX_STREAMS_BIDI + i as u64, value]) {
                    return;
                }
                control.max_streams[i] = false;
                record.control.push(SentControl::MaxStreams(dir, value));
            }
            if control.streams_blocked[i] {
                let value = local[i].max;
                if !put(buf, limit, &[ty::STREAMS_BLOCKED_BIDI + i as u64, value]) {
                    return;
                }
                control.streams_blocked[i] = false;
                record.control.push(SentControl::StreamsBlocked(dir, value));
            }
        }
        if control.data_blocked {
            let value = outgoing.max_data;
            if !put(buf, limit, &[ty::DATA_BLOCKED, value]) {
                return;
            }
            control.data_blocked = false;
            record.control.push(SentControl::DataBlocked(value));
        }
        while let Some(waiting) = control.queue.front().copied() {
            match waiting {
                Waiting::Reset(id) => {
                    if let Some(stream) = send.get_mut(&id) {
                        if !stream.allowed {
                            control.held_back.push(waiting);
                        } else if let Some(code) = stream.reset {
                            let size = stream.buffer.sent();
                            if !put(buf, limit, &[ty::RESET_STREAM, id.as_u64(), code, size]) {
                                return;
                            }
                            stream.reset_queued = false;
                            record.control.push(SentControl::ResetStream(id));
                        }
                    }
                }
                Waiting::Stop(id) => {
                    if let Some(stream) = recv.get_mut(&id) {
                        if send.get(&id).is_some_and(|s| !s.allowed) {
                            control.held_back.push(waiting);
                        } else if let RecvState::Stopped(code) = stream.state {
                            if !put(buf, limit, &[ty::STOP_SENDING, id.as_u64(), code]) {
                                return;
                            }
                            stream.stop_queued = false;
                            record.control.push(SentControl::StopSending(id));
                        }
                    }
                }
                Waiting::Credit(id) => {
                    if let Some(stream) = recv.get_mut(&id) {
                        if stream.wants_credit() {
                            stream.window.top_up(&incoming.share);
                            let value = stream.window.granted();
                            if !put(buf, limit, &[ty::MAX_STREAM_DATA, id.as_u64(), value]) {
                                return;
                            }
                            stream.told = value;
                            record.control.push(SentControl::MaxStreamData(id, value));
                        }
                        stream.credit_queued = false;
                    }
                }
                Waiting::Blocked(id) => {
                    if let Some(stream) = send.get_mut(&id) {
                        if stream.allowed && stream.is_short_of_credit() {
                            let value = stream.max_data;
                            if !put(buf, limit, &[ty::STREAM_DATA_BLOCKED, id.as_u64(), value]) {
                                return;
                            }
                            record.control.push(SentControl::StreamDataBlocked(id, value));
                        }
                        stream.blocked_queued = false;
                    }
                }
            }
            control.queue.pop_front();
        }
    }

    /// Appends STREAM frames to `buf`, as far as they fit below `limit` (a length of `buf`), and records them.
    ///
    /// Frames always carry their length. Needs some 64 bytes of room to be sure to make progress.
    pub fn write_data(&mut self, buf: &mut Vec<u8>, limit: usize, record: &mut SentStreams) {
        for pin in self.outgoing.pins.sources() {
            self.write_frames(buf, limit, record, pin);
        }
        self.wake_waiters();
    }

    /// The same of the streams with this pin.
    fn write_frames(&mut self, buf: &mut Vec<u8>, limit: usize, record: &mut SentStreams, pin: Option<DataSpace>) {
        let Streams { send, outgoing, control, events, .. } = self;
        while buf.len() < limit {
            let credit = outgoing.credit();
            let scheduler = outgoing.scheduler_of(pin);
            let Some(pick) = scheduler.next(credit > 0) else {
                return;
            };
            let Some(stream) = send.get_mut(&pick.id) else {
                scheduler.forget(pick);
                continue;
            };
            if !scheduler.resume(pick, &mut stream.slot) {
                continue;
            }
            match stream.ready() {
                Ready::Idle | Ready::StreamBlocked => {
                    scheduler.idle(pick, &mut stream.slot);
                    continue;
                }
                Ready::Fresh if credit == 0 => {
                    scheduler.park(pick, &mut stream.slot);
                    if control.data_blocked_at != Some(outgoing.max_data) {
                        control.data_blocked_at = Some(outgoing.max_data);
                        control.data_blocked = true;
                    }
                    continue;
                }
                Ready::Fresh | Ready::Free => {}
            }
            let before = buf.len();
            let Some(written) = stream.write_frame(pick.id, buf, limit, credit) else {
                // The packet is full; the stream stays where it is.
                return;
            };
            record.chunks.push(written.chunk);
            outgoing.stream_credit = stream.credit();
            outgoing.data_sent += written.fresh;
            outgoing.scheduler_of(pin).charge(pick, buf.len() - before);
            outgoing.refresh(control, pick.id, stream);
            if written.fresh > 0 {
                outgoing.wake(pick.id, stream, events);
            }
        }
    }

    /// A packet with this record was acknowledged.
    pub fn on_acked(&mut self, sent: &SentStreams) {
        for chunk in &sent.chunks {
            let Some(stream) = self.send.get_mut(&chunk.id) else {
                continue;
            };
            let acked = stream.on_acked(&mut self.outgoing.pool, chunk);
            self.outgoing.share.sub(acked);
            self.outgoing.acked += acked;
            if stream.is_complete() {
                self.events.push_back(StreamEvent::Finished { id: chunk.id });
                self.remove_send(chunk.id);
            } else {
                self.outgoing.refresh(&mut self.control, chunk.id, stream);
                self.outgoing.wake(chunk.id, stream, &mut self.events);
            }
        }
        for control in &sent.control {
            if let SentControl::ResetStream(id) = *control
                && let Some(stream) = self.send.get_mut(&id).filter(|s| s.reset.is_some())
            {
                stream.reset_acked = true;
                if !stream.stop_untold {
                    self.remove_send(id);
                }
            }
        }
        self.wake_waiters();
    }

    /// A packet with this record is lost, or should be repeated to be safe: what is not acknowledged and still matters
    /// will be written again.
    pub fn on_lost(&mut self, sent: &SentStreams) {
        for chunk in &sent.chunks {
            if let Some(stream) = self.send.get_mut(&chunk.id) {
                stream.on_lost(chunk);
                self.outgoing.refresh(&mut self.control, chunk.id, stream);
            }
        }
        for control in &sent.control {
            self.on_control_lost(*control);
        }
    }

    /// RFC 9000 section 13.3: what a lost frame said is said again if it is still true and the latest.
    fn on_control_lost(&mut self, lost: SentControl) {
        let Streams { control, send, recv, outgoing, .. } = self;
        match lost {
            SentControl::ResetStream(id) => {
                if let Some(stream) = send.get_mut(&id).filter(|s| s.reset.is_some()) {
                    control.queue_reset(id, stream);
                }
            }
            SentControl::StopSending(id) => {
                if let Some(stream) = recv.get_mut(&id) {
                    control.queue_stop(id, stream);
                }
            }
            SentControl::MaxData(value) => {
                control.max_data |= value == self.incoming.window.granted();
            }
            SentControl::MaxStreamData(id, value) => {
                if let Some(stream) = recv.get_mut(&id)
                    && stream.wants_credit()
                    && stream.told == value
                {
                    control.queue_credit(id, stream);
                }
            }
            SentControl::MaxStreams(dir, value) => {
                let i = dir.index();
                control.max_streams[i] |= value == self.remote[i].limit;
            }
            SentControl::DataBlocked(value) => {
                control.data_blocked |=
                    value == outgoing.max_data && outgoing.credit() == 0 && outgoing.count(Ready::Fresh) > 0;
            }
            SentControl::StreamDataBlocked(id, value) => {
                if let Some(stream) = send.get_mut(&id)
                    && stream.max_data == value
                    && stream.is_short_of_credit()
                {
                    control.queue_blocked(id, stream);
                }
            }
            SentControl::StreamsBlocked(dir, value) => {
                let i = dir.index();
                control.streams_blocked[i] |= self.local[i].max == value && self.local[i].refused;
            }
        }
    }

    /// Wakes writers that waited for what all streams, or all connections, share.
    pub(super) fn wake_waiters(&mut self) {
        while let Some(&id) = self.outgoing.waiters.front() {
            if let Some(stream) = self.send.get_mut(&id) {
                // One that waits for its own credit too is notified when that comes.
                let outgoing = &self.outgoing;
                if outgoing.has_own_room(stream)
                    && !outgoing.has_shared_room(stream)
                    && !outgoing.waits_for_credit(stream)
                {
                    return;
                }
                stream.waiting = false;
                self.outgoing.wake(id, stream, &mut self.events);
            }
            self.outgoing.waiters.pop_front();
        }
    }
}

/// Appends varints to `buf` if all of them fit below `limit`. Returns whether they did.
fn put(buf: &mut Vec<u8>, limit: usize, values: &[u64]) -> bool {
    let size: usize = values.iter().map(|v| varint::len(*v)).sum();
    if buf.len() + size > limit {
        return false;
    }
    for value in values {
        varint::encode(*value, buf);
    }
    true
}
