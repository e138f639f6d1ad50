//! Limits that an application changes while streams are in use.

use super::{Dir, StreamId, Streams};

impl Streams {
    /// Streams of one direction that the peer may have open at a time.
    pub fn max_concurrent(&self, dir: Dir) -> u64 {
        self.remote[dir.index()].concurrent
    }

    /// Changes how many streams of one direction the peer may have open at a time, up to 2^60.
    ///
    /// More are announced at once. What was announced cannot be taken back (RFC 9000 section 4.6): fewer take effect as
    /// streams close.
    pub fn set_max_concurrent(&mut self, dir: Dir, most: u64) {
        let remote = &mut self.remote[dir.index()];
        remote.concurrent = most.min(StreamId::MAX_STREAMS);
        if remote.renew(true) {
            self.control.max_streams[dir.index()] = true;
        }
    }

    /// The width of the connection's receive window, bytes; it grows by itself up to the configured limit until
    /// [`set_receive_window`](Self::set_receive_window) is called.
    pub fn receive_window(&self) -> u64 {
        self.incoming.window.size()
    }

    /// Makes the connection's receive window `bytes` wide from now on; it no longer grows by itself.
    ///
    /// More credit is announced at once. What was announced cannot be taken back (RFC 9000 section 4.1): less takes
    /// effect as data is read.
    pub fn set_receive_window(&mut self, bytes: u64) {
        let Self { incoming, control, .. } = self;
        incoming.window.fix(bytes);
        if incoming.window.top_up(&incoming.share) {
            control.max_data = true;
        }
    }

    /// Bytes written but not yet acknowledged that the connection holds before `write` blocks.
    pub fn send_window(&self) -> u64 {
        self.outgoing.send_window
    }

    /// Changes how many bytes written but not yet acknowledged the connection holds before `write` blocks. With less
    /// than it holds already, writers wait until enough is acknowledged; every stream may go on holding 64 KiB, or
    /// the window if that is smaller.
    pub fn set_send_window(&mut self, bytes: u64) {
        self.outgoing.send_window = bytes;
        self.wake_waiters();
    }
}
