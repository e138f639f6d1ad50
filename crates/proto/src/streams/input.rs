//! Frames about streams that arrive: the rules of RFC 9000 sections 2 to 4 and 19.4 to 19.14, and who broke them.

use crate::error::TransportError;

use super::{Dir, StreamEvent, StreamId, Streams};

impl Streams {
    /// A STREAM frame.
    ///
    /// Errors: STREAM_STATE_ERROR, STREAM_LIMIT_ERROR, FINAL_SIZE_ERROR, FLOW_CONTROL_ERROR, or FRAME_ENCODING_ERROR
    /// for an offset beyond 2^62 - 1.
    pub fn on_stream(&mut self, id: StreamId, offset: u64, fin: bool, data: &[u8]) -> Result<(), TransportError> {
        self.check_receiving(id)?;
        let Some(stream) = self.recv.get_mut(&id) else {
            return Ok(());
        };
        let room = self.incoming.window.granted() - self.incoming.received;
        let arrival = stream.on_data(&mut self.incoming.pool, offset, data, fin, room)?;
        self.apply(id, arrival);
        Ok(())
    }

    /// A RESET_STREAM frame.
    ///
    /// Errors: STREAM_STATE_ERROR, STREAM_LIMIT_ERROR, FINAL_SIZE_ERROR, FLOW_CONTROL_ERROR.
    pub fn on_reset_stream(&mut self, id: StreamId, code: u64, final_size: u64) -> Result<(), TransportError> {
        self.check_receiving(id)?;
        let Some(stream) = self.recv.get_mut(&id) else {
            return Ok(());
        };
        let room = self.incoming.window.granted() - self.incoming.received;
        let arrival = stream.on_reset(&mut self.incoming.pool, code, final_size, room)?;
        self.apply(id, arrival);
        Ok(())
    }

    /// A STOP_SENDING frame: answered by a reset with the same code (RFC 9000 section 3.5).
    ///
    /// Errors: STREAM_STATE_ERROR, STREAM_LIMIT_ERROR.
    pub fn on_stop_sending(&mut self, id: StreamId, code: u64) -> Result<(), TransportError> {
        self.check_sending(id)?;
        let known = id.initiator() == self.side || id.index() < self.remote[id.dir().index()].accepted;
        if let Some(stream) = self.send.get_mut(&id)
            && stream.stopped.is_none()
            && stream.reset.is_none()
        {
            stream.stopped = Some(code);
            stream.stop_untold = true;
            self.outgoing.abandon(&mut self.control, id, stream, code);
            if known {
                self.events.push_back(StreamEvent::Stopped { id, code });
            }
            self.wake_waiters();
        }
        Ok(())
    }

    /// A MAX_DATA frame.
    pub fn on_max_data(&mut self, limit: u64) {
        self.outgoing.raise_limit(limit);
    }

    /// A MAX_STREAM_DATA frame. Errors: STREAM_STATE_ERROR, STREAM_LIMIT_ERROR.
    pub fn on_max_stream_data(&mut self, id: StreamId, limit: u64) -> Result<(), TransportError> {
        self.check_sending(id)?;
        if let Some(stream) = self.send.get_mut(&id)
            && limit > stream.max_data
        {
            stream.max_data = limit;
            self.outgoing.refresh(&mut self.control, id, stream);
            self.outgoing.wake(id, stream, &mut self.events);
        }
        Ok(())
    }

    /// A MAX_STREAMS frame. Errors: FRAME_ENCODING_ERROR beyond 2^60 (RFC 9000 section 19.11).
    pub fn on_max_streams(&mut self, dir: Dir, limit: u64) -> Result<(), TransportError> {
        if limit > StreamId::MAX_STREAMS {
            return Err(TransportError::frame_encoding("MAX_STREAMS allows more than 2^60 streams"));
        }
        self.raise_stream_limit(dir, limit);
        Ok(())
    }

    /// A DATA_BLOCKED frame: a hint that a MAX_DATA may help.
    pub fn on_data_blocked(&mut self, limit: u64) {
        // A peer blocked below our limit has news on the way.
        if limit >= self.incoming.window.granted() && self.incoming.window.top_up(&self.incoming.share) {
            self.control.max_data = true;
        }
    }

    /// A STREAM_DATA_BLOCKED frame: a hint that a MAX_STREAM_DATA may help.
    ///
    /// Errors: STREAM_STATE_ERROR, STREAM_LIMIT_ERROR.
    pub fn on_stream_data_blocked(&mut self, id: StreamId, limit: u64) -> Result<(), TransportError> {
        self.check_receiving(id)?;
        if let Some(stream) = self.recv.get_mut(&id)
            && stream.wants_credit()
            && limit >= stream.window.granted()
            && stream.window.top_up(&self.incoming.share)
        {
            self.control.queue_credit(id, stream);
        }
        Ok(())
    }

    /// A STREAMS_BLOCKED frame: a hint that a MAX_STREAMS may help.
    ///
    /// Errors: FRAME_ENCODING_ERROR beyond 2^60 (RFC 9000 section 19.14).
    pub fn on_streams_blocked(&mut self, dir: Dir, limit: u64) -> Result<(), TransportError> {
        if limit > StreamId::MAX_STREAMS {
            return Err(TransportError::frame_encoding("STREAMS_BLOCKED at more than 2^60 streams"));
        }
        let remote = &mut self.remote[dir.index()];
        if limit >= remote.limit && remote.renew(true) {
            self.control.max_streams[dir.index()] = true;
        }
        Ok(())
    }

    /// Whether the peer may send data, or speak of data it sends, on a stream; opens it if it is new.
    fn check_receiving(&mut self, id: StreamId) -> Result<(), TransportError> {
        if id.initiator() == self.side && id.dir() == Dir::Uni {
            return Err(TransportError::stream_state("the peer cannot send on a unidirectional stream of ours"));
        }
        self.check_open(id)
    }

    /// Whether the peer may speak of data that we send on a stream; opens it if it is new.
    fn check_sending(&mut self, id: StreamId) -> Result<(), TransportError> {
        if id.initiator() != self.side && id.dir() == Dir::Uni {
            return Err(TransportError::stream_state("we cannot send on a unidirectional stream of the peer"));
        }
        self.check_open(id)
    }

    fn check_open(&mut self, id: StreamId) -> Result<(), TransportError> {
        if id.initiator() == self.side {
            if id.index() >= self.local[id.dir().index()].next {
                return Err(TransportError::stream_state("a frame for a stream that we have not opened"));
            }
            return Ok(());
        }
        let remote = &self.remote[id.dir().index()];
        if id.index() < remote.opened {
            return Ok(());
        }
        if id.index() >= remote.limit {
            return Err(TransportError::stream_limit("a stream beyond the number allowed"));
        }
        self.open_up_to(id);
        Ok(())
    }

    /// Opens a stream of the peer and, before it, all of its kind with lower numbers (RFC 9000 section 3.2).
    fn open_up_to(&mut self, id: StreamId) {
        let dir = id.dir();
        for index in self.remote[dir.index()].opened..=id.index() {
            let id = StreamId::new(self.side.peer(), dir, index);
            self.insert_recv(id, false);
            if dir == Dir::Bi {
                self.insert_send(id);
            }
        }
        let remote = &mut self.remote[dir.index()];
        remote.opened = id.index() + 1;
        if !std::mem::replace(&mut remote.announced, true) {
            self.events.push_back(StreamEvent::Opened { dir });
        }
    }
}
