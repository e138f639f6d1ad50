//! Frames about streams other than STREAM that wait to be written.

use std::collections::VecDeque;

use super::StreamId;
use super::recv::Recv;
use super::send::Send;

/// A frame other than STREAM that waits, and needs its stream to be written.
#[derive(Copy, Clone, Debug)]
pub(super) enum Waiting {
    Reset(StreamId),
    Stop(StreamId),
    Credit(StreamId),
    Blocked(StreamId),
}

/// The frames other than STREAM that wait to be written.
#[derive(Debug, Default)]
pub(super) struct Control {
    pub(super) queue: VecDeque<Waiting>,
    /// Frames of streams that the peer does not allow yet: only after a rejected 0-RTT.
    pub(super) held_back: Vec<Waiting>,
    pub(super) max_data: bool,
    pub(super) max_streams: [bool; 2],
    pub(super) streams_blocked: [bool; 2],
    pub(super) data_blocked: bool,
    /// The limit of the last report to the peer that we are blocked.
    pub(super) data_blocked_at: Option<u64>,
}

impl Control {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
            && !self.max_data
            && !self.data_blocked
            && self.max_streams == [false; 2]
            && self.streams_blocked == [false; 2]
    }

    /// The peer may allow more streams now.
    pub(super) fn release(&mut self) {
        self.queue.extend(self.held_back.drain(..));
    }

    pub(super) fn queue_reset(&mut self, id: StreamId, stream: &mut Send) {
        if !std::mem::replace(&mut stream.reset_queued, true) {
            self.queue.push_back(Waiting::Reset(id));
        }
    }

    pub(super) fn queue_stop(&mut self, id: StreamId, stream: &mut Recv) {
        if !std::mem::replace(&mut stream.stop_queued, true) {
            self.queue.push_back(Waiting::Stop(id));
        }
    }

    pub(super) fn queue_credit(&mut self, id: StreamId, stream: &mut Recv) {
        if !std::mem::replace(&mut stream.credit_queued, true) {
            self.queue.push_back(Waiting::Credit(id));
        }
    }

    pub(super) fn queue_blocked(&mut self, id: StreamId, stream: &mut Send) {
        if !std::mem::replace(&mut stream.blocked_queued, true) {
            self.queue.push_back(Waiting::Blocked(id));
        }
    }
}
