//! One address pair of a connection: its validation, its amplification budget, its datagram size (RFC 9000 sections 8, 9, 14).

use std::{
    collections::VecDeque,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use thalweg_recovery::PathId;
use thalweg_units::Instant;

use crate::mtu::MtuDiscovery;

/// Answers owed to PATH_CHALLENGE frames that we keep per path; a peer that floods us with challenges gets no more.
const MAX_RESPONSES: usize = 8;
/// How often a PATH_CHALLENGE is repeated before its path is given up.
const MAX_CHALLENGES: u8 = 5;

/// A challenge we have sent and wait for.
#[derive(Copy, Clone, Debug)]
struct Challenge {
    data: [u8; 8],
    resend_at: Instant,
    sent: u8,
}

/// The state of one address pair. What recovery knows of it lives in `thalweg_recovery` under [`NetPath::id`].
#[derive(Debug)]
pub(super) struct NetPath {
    /// Recovery's name for the path.
    pub(super) id: PathId,
    pub(super) remote: SocketAddr,
    pub(super) local: Option<IpAddr>,
    /// Whether the peer is known to receive at this address.
    pub(super) validated: bool,
    /// UDP payload received from and sent to a not yet validated address.
    pub(super) received: u64,
    pub(super) sent: u64,
    pub(super) mtu: MtuDiscovery,
    pending_challenge: bool,
    challenge: Option<Challenge>,
    responses: VecDeque<[u8; 8]>,
}

impl NetPath {
    pub(super) fn new(
        id: PathId,
        remote: SocketAddr,
        local: Option<IpAddr>,
        validated: bool,
        mtu: MtuDiscovery,
    ) -> Self {
        Self {
            id,
            remote,
            local,
            validated,
            received: 0,
            sent: 0,
            mtu,
            pending_challenge: false,
            challenge: None,
            responses: VecDeque::new(),
        }
    }

    /// Bytes that may still be sent before the peer's address is validated (RFC 9000 section 8.1: three times what came).
    pub(super) fn amplification_budget(&self) -> u64 {
        if self.validated { u64::MAX } else { (self.received * 3).saturating_sub(self.sent) }
    }

    /// Whether this is the path of a datagram from `remote` to `local`. An unknown local address matches any.
    pub(super) fn matches(&self, remote: SocketAddr, local: Option<IpAddr>) -> bool {
        self.remote == remote && (self.local == local || self.local.is_none() || local.is_none())
    }

    /// Begins validation; the challenge is sent with the next datagram on this path.
    pub(super) fn start_validation(&mut self) {
        self.pending_challenge = true;
    }

    /// Whether a challenge or an answer to one has to be sent on this path.
    pub(super) fn has_probing_frames(&self) -> bool {
        self.pending_challenge || !self.responses.is_empty()
    }

    /// Takes the challenge that is due; `fresh` is its (unpredictable) content, `pto` how long an answer may take.
    /// Every repetition carries new data (RFC 9000 section 8.2.1).
    pub(super) fn take_challenge(&mut self, now: Instant, fresh: [u8; 8], pto: Duration) -> Option<[u8; 8]> {
        if !std::mem::take(&mut self.pending_challenge) {
            return None;
        }
        let sent = self.challenge.map_or(0, |c| c.sent) + 1;
        let wait = pto.saturating_mul(1 << (sent - 1).min(4));
        self.challenge = Some(Challenge { data: fresh, resend_at: now + wait, sent });
        Some(fresh)
    }

    /// Remembers to answer a PATH_CHALLENGE (RFC 9000 section 8.2.2: on the path it came by, once per challenge).
    pub(super) fn on_challenge(&mut self, data: [u8; 8]) {
        if self.responses.len() < MAX_RESPONSES {
            self.responses.push_back(data);
        }
    }

    /// Takes an answer that is due.
    pub(super) fn take_response(&mut self) -> Option<[u8; 8]> {
        self.responses.pop_front()
    }

    /// A PATH_RESPONSE arrived, on any path. Returns whether it answers this path's challenge.
    pub(super) fn on_response(&mut self, data: [u8; 8]) -> bool {
        let matches = self.challenge.is_some_and(|c| c.data == data);
        if matches {
            self.challenge = None;
            self.pending_challenge = false;
            self.validated = true;
        }
        matches
    }

    /// When the challenge is repeated or given up.
    pub(super) fn timer(&self) -> Option<Instant> {
        self.challenge.filter(|_| !self.pending_challenge).map(|c| c.resend_at)
    }

    /// Handles the timer. Returns `true` when the path has failed validation.
    pub(super) fn on_timeout(&mut self, now: Instant) -> bool {
        match self.challenge {
            Some(c) if c.resend_at <= now && c.sent >= MAX_CHALLENGES => {
                self.challenge = None;
                true
            }
            Some(c) if c.resend_at <= now => {
                self.pending_challenge = true;
                false
            }
            _ => false,
        }
    }
}
