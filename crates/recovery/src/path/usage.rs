//! Whether the transport makes use of the window: what was sent without doing so opens none (RFC 9002 section 7.8).

/// Whether the transport makes use of the window of one path.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Usage {
    /// The newest packet in flight when the window was full: up to it everything was sent in full use of the window.
    filled: u64,
    /// The newest packet sent when the application had nothing more to send and the window had room.
    unfilled: u64,
    /// The application leaves the window unused.
    pub(super) is_limited: bool,
}

impl Usage {
    /// The packet at this place left, and the window was full afterwards.
    pub(super) fn on_full(&mut self, order: u64) {
        self.filled = order;
    }

    /// The transport has nothing to send although the window has room, after the packet at this place.
    pub(super) fn on_unused(&mut self, order: u64) {
        self.unfilled = order;
    }

    /// Whether a packet belongs to a flight that filled the window, or was cut short by nothing that the application
    /// did. What the window looks like when the acknowledgment arrives does not matter: it would make growth depend on
    /// how many packets one acknowledgment names.
    pub(super) fn was_full(&self, order: u64) -> bool {
        order <= self.filled || order > self.unfilled
    }
}
