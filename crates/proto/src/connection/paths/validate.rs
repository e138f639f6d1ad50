//! Validation of a path: challenges sent, and answers owed to the peer's (RFC 9000 section 8.2).

use std::{collections::VecDeque, time::Duration};

use smallvec::SmallVec;
use thalweg_units::Instant;

/// Answers owed to PATH_CHALLENGE frames that we keep per path; a peer that floods us with challenges gets no more.
const MAX_RESPONSES: usize = 8;
/// How many challenges go unanswered, one per PTO, before their path is given up. RFC 9000 section 8.2.4 recommends
/// three PTO; two more let validation survive heavy loss.
const MAX_CHALLENGES: u8 = 5;

/// Challenges of one path, in both directions.
#[derive(Debug, Default)]
pub(crate) struct Validation {
    run: Option<Run>,
    responses: VecDeque<[u8; 8]>,
}

/// A validation under way.
#[derive(Clone, Debug, Default)]
struct Run {
    /// The challenges sent so far, each with whether its datagram had full size: the answer to any will do.
    sent: SmallVec<[([u8; 8], bool); MAX_CHALLENGES as usize]>,
    /// A challenge waits to be sent.
    due: bool,
    attempts: u8,
    /// When the next attempt begins, or the path is given up, whether or not the challenge could be sent.
    next_at: Instant,
}

impl Run {
    fn begin(now: Instant, pto: Duration) -> Self {
        Self { due: true, attempts: 1, next_at: now + pto, ..Self::default() }
    }
}

impl Validation {
    /// Begins, or begins anew; `pto` is how long an answer may take.
    pub fn start(&mut self, now: Instant, pto: Duration) {
        let sent = self.run.take().map(|run| run.sent).unwrap_or_default();
        self.run = Some(Run { sent, ..Run::begin(now, pto) });
    }

    /// Whether a challenge or an answer to one has to be sent on this path.
    pub fn has_frames(&self) -> bool {
        !self.responses.is_empty() || self.run.as_ref().is_some_and(|run| run.due)
    }

    /// Takes the challenge that is due; `fresh` is its (unpredictable) content: every repetition carries new data
    /// (RFC 9000 section 8.2.1). `is_full`: its datagram has at least 1200 bytes.
    pub fn take_challenge(&mut self, fresh: [u8; 8], is_full: bool) -> Option<[u8; 8]> {
        let run = self.run.as_mut().filter(|run| run.due)?;
        run.due = false;
        if run.sent.len() >= usize::from(MAX_CHALLENGES) {
            run.sent.remove(0);
        }
        run.sent.push((fresh, is_full));
        Some(fresh)
    }

    /// Remembers to answer a PATH_CHALLENGE (RFC 9000 section 8.2.2: on the path it came by, once per challenge).
    pub fn on_challenge(&mut self, data: [u8; 8]) {
        if self.responses.len() < MAX_RESPONSES {
            self.responses.push_back(data);
        }
    }

    /// Whether an answer to a challenge is due.
    pub fn owes_response(&self) -> bool {
        !self.responses.is_empty()
    }

    /// Takes an answer that is due.
    pub fn take_response(&mut self) -> Option<[u8; 8]> {
        self.responses.pop_front()
    }

    /// A PATH_RESPONSE arrived, on any path. Returns whether it answers a challenge of this one.
    ///
    /// An answer to a challenge in a datagram smaller than 1200 bytes proves the address, but not that the path carries
    /// QUIC; another challenge follows (RFC 9000 section 8.2.1).
    pub(super) fn on_response(&mut self, now: Instant, data: [u8; 8], pto: Duration) -> bool {
        let mut sent = self.run.iter().flat_map(|run| &run.sent);
        let Some(&(_, is_full)) = sent.find(|(challenge, _)| *challenge == data) else { return false };
        self.run = (!is_full).then(|| Run::begin(now, pto));
        true
    }

    /// When the challenge is repeated or given up.
    pub fn timer(&self) -> Option<Instant> {
        self.run.as_ref().map(|run| run.next_at)
    }

    /// Handles the timer. Returns `true` when the path has failed validation.
    pub(super) fn on_timeout(&mut self, now: Instant, pto: Duration) -> bool {
        let Some(run) = self.run.as_mut().filter(|run| run.next_at <= now) else {
            return false;
        };
        if run.attempts >= MAX_CHALLENGES {
            self.run = None;
            return true;
        }
        run.next_at = now + pto;
        run.attempts += 1;
        run.due = true;
        false
    }
}
