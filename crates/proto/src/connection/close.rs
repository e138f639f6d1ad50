//! The end of a connection: errors, the application's close, the peer's, and silence (RFC 9000 section 10).

use bytes::Bytes;
use thalweg_units::Instant;

use super::{
    Connection,
    event::{EndpointEvent, Event},
    handshake::Handshake,
    lifecycle::{CloseFrame, Phase},
};
use crate::{
    error::{ConnectionError, TransportError},
    observe::{CloseTrigger, ConnectionState, Owner},
};

impl Connection {
    /// Ends the connection without a word: the peer was silent for too long.
    pub(super) fn on_silence(&mut self, now: Instant, reason: &str, error: ConnectionError) {
        self.reports.observe_close(now, Owner::Local, CloseTrigger::IdleTimeout, false, 0, reason.as_bytes());
        self.end(now, error);
        self.lifecycle.phase = Phase::Closed;
        self.reports.tell_endpoint(EndpointEvent::Drained);
    }

    /// Ends the connection because the peer broke a rule.
    pub(super) fn close_on_error(&mut self, now: Instant, error: TransportError) {
        let frame = CloseFrame::Transport {
            code: error.code,
            frame: error.frame.unwrap_or(0),
            reason: Bytes::copy_from_slice(error.reason.as_bytes()),
        };
        self.close_with(now, frame, ConnectionError::Transport(error));
    }

    pub(super) fn close_with(&mut self, now: Instant, frame: CloseFrame, error: ConnectionError) {
        if !self.lifecycle.is_open() {
            return;
        }
        let trigger = match &frame {
            CloseFrame::Transport { .. } => CloseTrigger::Error,
            CloseFrame::Application { .. } => CloseTrigger::Application,
        };
        let (application, code, reason) = match &frame {
            CloseFrame::Transport { code, reason, .. } => (false, code.0, reason.clone()),
            CloseFrame::Application { code, reason } => (true, *code, reason.clone()),
        };
        self.reports.observe_close(now, Owner::Local, trigger, application, code, &reason);
        let until = now + self.recovery.largest_pto() * 3;
        self.lifecycle.phase = Phase::Closing { until, frame, send: true, received: 0, reply_at: 1 };
        self.end(now, error);
        self.reports.observe_state(now, ConnectionState::Closing);
    }

    /// The peer closed.
    pub(super) fn drain(&mut self, now: Instant, error: ConnectionError) {
        if matches!(self.lifecycle.phase, Phase::Draining { .. } | Phase::Closed) {
            return;
        }
        self.end(now, error);
        self.lifecycle.phase = Phase::Draining { until: now + self.recovery.largest_pto() * 3 };
        self.reports.observe_state(now, ConnectionState::Draining);
    }

    /// Notifies the application, once.
    fn end(&mut self, now: Instant, error: ConnectionError) {
        if self.lifecycle.error.is_none() {
            self.lifecycle.error = Some(error.clone());
            // Three probe timeouts are to come in which nothing of it can be sent.
            self.streams.drop_unsent();
            self.datagrams.drop_unsent();
            if let Some(client) = &self.handshake.client {
                let Handshake { started, complete, .. } = self.handshake;
                // Before the handshake is complete it is not known whose path it is.
                let path = self.active_path();
                client.save_path(now, started, complete, self.remote_address(), path);
            }
            self.reports.tell_endpoint(EndpointEvent::HandshakeOver);
            self.reports.tell(Event::ConnectionLost(error));
        }
    }

    pub(super) fn finish_close_when_done(&mut self, now: Instant) {
        if self.lifecycle.close_when_done.is_some()
            && self.streams.unfinished_sends() == 0
            && let Some(frame) = self.lifecycle.close_when_done.take()
        {
            self.close_with(now, frame, ConnectionError::LocallyClosed);
        }
    }

    /// The peer has lost its state.
    pub(crate) fn on_stateless_reset(&mut self, now: Instant) {
        if !self.lifecycle.is_open() {
            return;
        }
        self.reports.observe_close(now, Owner::Remote, CloseTrigger::StatelessReset, false, 0, b"");
        self.drain(now, ConnectionError::Reset);
    }
}
