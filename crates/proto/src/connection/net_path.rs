//! One address pair of a connection: its validation, its amplification budget, its datagram size (RFC 9000 sections 8, 9, 14).

use std::{
    collections::VecDeque,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use smallvec::SmallVec;
use thalweg_recovery::PathId;
use thalweg_units::Instant;

use super::spin::Spin;
use crate::mtu::MtuDiscovery;

/// Answers owed to PATH_CHALLENGE frames that we keep per path; a peer that floods us with challenges gets no more.
const MAX_RESPONSES: usize = 8;
/// How many challenges go unanswered, one per PTO, before their path is given up. RFC 9000 section 8.2.4 recommends three
/// PTO; two more let validation survive heavy loss.
const MAX_CHALLENGES: u8 = 5;

/// A validation under way.
#[derive(Clone, Debug, Default)]
struct Validation {
    /// The challenges sent so far, each with whether its datagram had full size: the answer to any will do.
    sent: SmallVec<[([u8; 8], bool); MAX_CHALLENGES as usize]>,
    /// A challenge waits to be sent.
    due: bool,
    attempts: u8,
    /// When the next attempt begins, or the path is given up, whether or not the challenge could be sent.
    next_at: Instant,
}

impl Validation {
    fn begin(now: Instant, pto: Duration) -> Self {
        Self { due: true, attempts: 1, next_at: now + pto, ..Self::default() }
    }
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
    /// The connection ID for this path while it is not the active one; `None`: the active path's.
    pub(super) cid: Option<u64>,
    pub(super) spin: Spin,
    validation: Option<Validation>,
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
            cid: None,
            spin: Spin::default(),
            validation: None,
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

    /// Begins validation, or begins anew; `pto` is how long an answer may take.
    pub(super) fn start_validation(&mut self, now: Instant, pto: Duration) {
        let sent = self.validation.take().map(|validation| validation.sent).unwrap_or_default();
        self.validation = Some(Validation { sent, ..Validation::begin(now, pto) });
    }

    /// Whether a challenge or an answer to one has to be sent on this path.
    pub(super) fn has_probing_frames(&self) -> bool {
        !self.responses.is_empty() || self.validation.as_ref().is_some_and(|validation| validation.due)
    }

    /// Takes the challenge that is due; `fresh` is its (unpredictable) content: every repetition carries new data
    /// (RFC 9000 section 8.2.1). `is_full`: its datagram has at least 1200 bytes.
    pub(super) fn take_challenge(&mut self, fresh: [u8; 8], is_full: bool) -> Option<[u8; 8]> {
        let validation = self.validation.as_mut().filter(|validation| validation.due)?;
        validation.due = false;
        if validation.sent.len() >= usize::from(MAX_CHALLENGES) {
            validation.sent.remove(0);
        }
        validation.sent.push((fresh, is_full));
        Some(fresh)
    }

    /// Remembers to answer a PATH_CHALLENGE (RFC 9000 section 8.2.2: on the path it came by, once per challenge).
    pub(super) fn on_challenge(&mut self, data: [u8; 8]) {
        if self.responses.len() < MAX_RESPONSES {
            self.responses.push_back(data);
        }
    }

    /// Whether an answer to a challenge is due.
    pub(super) fn owes_response(&self) -> bool {
        !self.responses.is_empty()
    }

    /// Takes an answer that is due.
    pub(super) fn take_response(&mut self) -> Option<[u8; 8]> {
        self.responses.pop_front()
    }

    /// A PATH_RESPONSE arrived, on any path. `None`: it answers no challenge of this path; else whether the address was
    /// not validated before.
    ///
    /// An answer to a challenge in a datagram smaller than 1200 bytes proves the address, but not that the path carries
    /// QUIC; another challenge follows (RFC 9000 section 8.2.1).
    pub(super) fn on_response(&mut self, now: Instant, data: [u8; 8], pto: Duration) -> Option<bool> {
        let sent = self.validation.iter().flat_map(|validation| &validation.sent);
        let &(_, is_full) = sent.into_iter().find(|(challenge, _)| *challenge == data)?;
        self.validation = (!is_full).then(|| Validation::begin(now, pto));
        Some(!std::mem::replace(&mut self.validated, true))
    }

    /// When the challenge is repeated or given up.
    pub(super) fn timer(&self) -> Option<Instant> {
        self.validation.as_ref().map(|validation| validation.next_at)
    }

    /// Handles the timer. Returns `true` when the path has failed validation.
    pub(super) fn on_timeout(&mut self, now: Instant, pto: Duration) -> bool {
        let Some(validation) = self.validation.as_mut().filter(|validation| validation.next_at <= now) else {
            return false;
        };
        if validation.attempts >= MAX_CHALLENGES {
            self.validation = None;
            return true;
        }
        validation.next_at = now + pto;
        validation.attempts += 1;
        validation.due = true;
        false
    }
}
