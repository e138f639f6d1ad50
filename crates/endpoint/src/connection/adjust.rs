//! Settings that an application can change on a connection in use.

use thalweg_proto::streams::{Dir, Streams};
use thalweg_recovery::{Policies, SwitchError};
use thalweg_units::Rate;

use super::Connection;

impl Connection {
    /// The recovery policies in force.
    pub fn policies(&self) -> Policies {
        self.connection.lock().machine.policies()
    }

    /// Goes on by other recovery policies: all or none of them. The window, the slow start threshold and what is in
    /// flight are kept; nothing is declared lost for it.
    ///
    /// | policy | takes effect |
    /// |---|---|
    /// | `controller`, `pacing`, `probe`, `ack-allowance`, `undo`, `mark` | at once |
    /// | `ack-rate` | with the next acknowledgment |
    /// | `start` | at once while slow start lasts |
    /// | `reordering` | with the next acknowledgment |
    /// | `reduction` | with the next congestion |
    /// | `rtt`, `pacing-rtt`, `exit-rtt` | only before the first round-trip sample, that is not on a connection in use |
    /// | `resume` | on paths that are yet to begin |
    ///
    /// ```
    /// # fn example(connection: &thalweg::Connection) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut policies = connection.policies();
    /// policies.set("controller", "new-reno")?;
    /// connection.set_policies(policies)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// If a policy that differs from the one in force cannot change any more, or does not apply beside
    /// [`TransportConfig::controller`](crate::TransportConfig).
    pub fn set_policies(&self, policies: Policies) -> Result<(), SwitchError> {
        let mut state = self.connection.lock();
        let now = self.connection.now();
        let result = state.machine.set_policies(now, policies);
        self.connection.unlock_and_drive(state);
        result
    }

    /// The rate limit in force.
    pub fn max_rate(&self) -> Option<Rate> {
        self.connection.lock().machine.max_rate()
    }

    /// Limits the rate at which this end sends, UDP payload, on all paths together and whatever the congestion windows
    /// allow; `None` lifts the limit.
    ///
    /// Over any span no more leaves than the rate times the span and one burst: an initial window (ten datagrams), or
    /// two milliseconds' worth of the rate if that is more, up to 128 kB. Acknowledgments, probes, PINGs and the small
    /// frames of flow control and of the connection do not wait for the limit. So a rate of zero pauses a connection:
    /// what it receives goes on arriving, and [`keep_alive`](crate::TransportConfig::keep_alive) keeps it.
    /// [`TransportConfig::max_rate`](crate::TransportConfig::max_rate) sets it from the start.
    ///
    /// ```
    /// # fn example(connection: &thalweg::Connection) -> Result<(), Box<dyn std::error::Error>> {
    /// connection.set_max_rate(Some("20 Mbps".parse()?));
    /// # Ok(()) }
    /// ```
    pub fn set_max_rate(&self, most: Option<Rate>) {
        let mut state = self.connection.lock();
        let now = self.connection.now();
        state.machine.set_max_rate(now, most);
        self.connection.unlock_and_drive(state);
    }

    /// Changes how many bidirectional streams the peer may have open at a time. More are announced at once; fewer take
    /// effect as streams close, since what was announced cannot be taken back (RFC 9000 section 4.6).
    pub fn set_max_concurrent_bidi_streams(&self, most: u64) {
        self.change(|streams| streams.set_max_concurrent(Dir::Bi, most));
    }

    /// Changes how many unidirectional streams the peer may have open at a time; as
    /// [`set_max_concurrent_bidi_streams`](Self::set_max_concurrent_bidi_streams).
    pub fn set_max_concurrent_uni_streams(&self, most: u64) {
        self.change(|streams| streams.set_max_concurrent(Dir::Uni, most));
    }

    /// Makes the connection's receive window `bytes` wide; it no longer grows by itself. More credit is announced at
    /// once; less takes effect as data is read (RFC 9000 section 4.1).
    pub fn set_receive_window(&self, bytes: u64) {
        self.change(|streams| streams.set_receive_window(bytes));
    }

    /// Changes how many bytes written but not yet acknowledged the connection holds before writes wait. With less than
    /// it holds already, writers wait until enough is acknowledged; every stream may go on holding 64 KiB, or
    /// the window if that is smaller.
    pub fn set_send_window(&self, bytes: u64) {
        self.change(|streams| streams.set_send_window(bytes));
    }

    fn change(&self, change: impl FnOnce(&mut Streams)) {
        let mut state = self.connection.lock();
        change(state.machine.streams());
        self.connection.unlock_and_drive(state);
    }

    /// The largest datagram that [`send_datagram`](Self::send_datagram) can queue now without waiting and without
    /// dropping another, bytes. A queued datagram takes 32 bytes more than its payload.
    pub fn datagram_send_buffer_space(&self) -> usize {
        self.connection.lock().machine.datagrams().send_buffer_space()
    }
}
