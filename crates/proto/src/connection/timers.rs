//! The timers of a connection: its next deadline, and the work that is due then.

use thalweg_recovery::{SpaceId, Timeout};
use thalweg_units::Instant;

use super::{
    Connection,
    event::{EndpointEvent, PathEvent},
    lifecycle::Phase,
    paths::Several,
    repeat::Underway,
};
use crate::{
    error::{ConnectionError, TransportError},
    observe::ConnectionState,
};

impl Connection {
    /// When [`Self::handle_timeout`] wants to be called next. Ask again after every other call.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if !self.lifecycle.is_open() {
            return self.lifecycle.timer();
        }
        // At the amplification limit not even an acknowledgement can leave: only the peer's next datagram changes that.
        let may_speak = self.paths.may_speak();
        let acks = self.spaces.iter().filter_map(|space| space.acks.timer()).filter(|_| may_speak);
        let paths = self.paths.iter().filter_map(|path| path.validation.timer());
        let open = self.paths.sets().filter(|set| set.is_open()).filter_map(|set| set.active().mtu.next_probe_time());
        let mtu = open.min().filter(|_| self.handshake.confirmed);
        let closed = self.paths.several().and_then(Several::timer);
        acks.chain(paths)
            .chain(self.recovery.timer())
            .chain(self.keys.timer())
            .chain(self.lifecycle.idle.deadline(self.recovery.largest_pto()))
            .chain(self.lifecycle.idle.connect_deadline())
            .chain(self.lifecycle.idle.keep_alive_at())
            .chain(self.ask_at())
            .chain(self.next_question().map(|(at, _)| at))
            .chain(self.paths.iter().filter_map(|path| path.paced_until))
            .chain(mtu)
            .chain(closed)
            .min()
    }

    /// Does what time has made due. Follow with [`Self::poll_transmit`].
    pub fn handle_timeout(&mut self, now: Instant) {
        match self.lifecycle.phase {
            Phase::Open => {}
            Phase::Closing { until, .. } | Phase::Draining { until } => {
                if until <= now {
                    self.lifecycle.phase = Phase::Closed;
                    self.reports.tell_endpoint(EndpointEvent::Drained);
                    self.reports.observe_state(now, ConnectionState::Closed);
                }
                return;
            }
            Phase::Closed => return,
        }
        if self.lifecycle.idle.deadline(self.recovery.largest_pto()).is_some_and(|t| t <= now) {
            self.on_silence(now, "idle timeout", ConnectionError::TimedOut);
            return;
        }
        if let Some(after) = self.lifecycle.idle.connect_timed_out(now) {
            self.on_silence(now, "connect timeout", ConnectionError::ConnectTimedOut { after });
            return;
        }
        if self.lifecycle.idle.keep_alive_at().is_some_and(|t| t <= now) {
            self.lifecycle.idle.on_keep_alive();
            self.ping();
        }
        if self.ask_at().is_some_and(|t| t <= now) {
            self.lifecycle.idle.on_asked(now);
            self.ping();
        }
        self.ask_by_silent_paths(now);
        for path in self.paths.iter_mut() {
            path.paced_until = path.paced_until.filter(|until| *until > now);
        }
        self.keys.on_timeout(now);
        self.forget_paths(now);
        self.forget_retired_cids(now);
        self.on_path_timeouts(now);
        // Begins a new search if it is time; its probe leaves when the window permits.
        for path in self.paths.open_mut() {
            let _ = path.mtu.poll_probe(now);
        }
        if self.recovery.timer().is_some_and(|t| t <= now) {
            self.on_recovery_timeout(now);
        }
        self.reports.drain_trace(&mut self.recovery);
    }

    fn on_recovery_timeout(&mut self, now: Instant) {
        let mut outcome = std::mem::take(&mut self.spaces.outcome);
        outcome.clear();
        match self.recovery.on_timeout(now, &mut outcome) {
            Timeout::None => {}
            Timeout::Lost => self.on_outcome(now, &mut outcome),
            Timeout::Probe { space, datagrams } => self.on_probe_timeout(now, space, datagrams),
        }
        self.spaces.outcome = outcome;
    }

    fn on_probe_timeout(&mut self, now: Instant, space: SpaceId, datagrams: u8) {
        if self.on_path_silent(space) {
            let underway = Underway { keys: &self.keys, spaces: &self.spaces, recovery: &self.recovery };
            self.repeat.on_probe_timeout(space, datagrams, &underway);
        }
        if self.all_are_silent() && self.lifecycle.idle.suspended.is_none() && self.handshake.complete {
            self.lifecycle.idle.suspended = Some(self.lifecycle.idle.last_received);
            let silence = now.saturating_since(self.lifecycle.idle.last_received);
            self.reports.tell_path(PathEvent::Suspended { silence });
        }
    }

    /// When a silent peer is asked whether it is still there. Until the handshake is complete its own timers do that.
    fn ask_at(&self) -> Option<Instant> {
        self.lifecycle.idle.ask_at(self.recovery.pto(self.paths.active().space())).filter(|_| self.handshake.complete)
    }

    fn on_path_timeouts(&mut self, now: Instant) {
        let (paths, mut with) = self.migration();
        let failed = paths.on_timeouts(now, &mut with);
        if failed.into_iter().any(|space| self.on_path_failed(now, space)) {
            let error = TransportError::no_viable_path("no address of the peer could be validated");
            self.drain(now, ConnectionError::Transport(error));
        }
    }
}
