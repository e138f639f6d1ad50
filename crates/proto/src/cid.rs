//! Connection IDs (RFC 9000 section 5.1): the ones we issue, the ones the peer issued, stateless reset tokens, and
//! generators.

use std::collections::VecDeque;
use std::fmt;

use rand_core::Rng;
use thalweg_units::Instant;

pub use self::generator::{CidGenerator, RandomCid, WorkerCid};
use crate::error::TransportError;
use crate::range_set::RangeSet;

mod generator;

/// The longest connection ID of QUIC versions 1 and 2, in bytes.
pub const MAX_CID_LEN: usize = 20;

/// A connection ID of 0 to 20 bytes. Bytes beyond its length are zero, so that comparison and hashing are plain.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ConnectionId {
    len: u8,
    bytes: [u8; MAX_CID_LEN],
}

impl ConnectionId {
    /// The zero-length connection ID.
    pub const EMPTY: ConnectionId = ConnectionId { len: 0, bytes: [0; MAX_CID_LEN] };

    /// A connection ID of these bytes; `None` if there are more than 20.
    #[inline]
    pub fn new(bytes: &[u8]) -> Option<ConnectionId> {
        let mut id = ConnectionId::EMPTY;
        id.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        id.len = bytes.len() as u8;
        Some(id)
    }

    /// `len` (at most 20) bytes drawn from `rng`.
    pub fn random(rng: &mut (impl Rng + ?Sized), len: usize) -> ConnectionId {
        let mut id = ConnectionId::EMPTY;
        let len = len.min(MAX_CID_LEN);
        rng.fill_bytes(&mut id.bytes[..len]);
        id.len = len as u8;
        id
    }

    /// The bytes.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// The bytes, and zeros up to 20.
    #[inline]
    pub(crate) fn padded(&self) -> &[u8; MAX_CID_LEN] {
        &self.bytes
    }
}

impl std::ops::Deref for ConnectionId {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl AsRef<[u8]> for ConnectionId {
    fn as_ref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_slice().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cid({self})")
    }
}

/// A stateless reset token (RFC 9000 section 10.3). Comparison takes the same time whatever the bytes, as section
/// 10.3.1 demands.
#[derive(Copy, Clone)]
pub struct ResetToken(pub [u8; 16]);

impl ResetToken {
    /// The length of a token in bytes.
    pub const LEN: usize = 16;
}

impl PartialEq for ResetToken {
    fn eq(&self, other: &ResetToken) -> bool {
        let difference = u128::from_ne_bytes(self.0) ^ u128::from_ne_bytes(other.0);
        std::hint::black_box(difference) == 0
    }
}

impl Eq for ResetToken {}

impl fmt::Debug for ResetToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResetToken(..)")
    }
}

/// The content of a NEW_CONNECTION_ID frame (RFC 9000 section 19.15).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct NewConnectionId {
    /// The number the issuer gave the ID; increases by one per ID.
    pub sequence: u64,
    /// IDs with smaller numbers are to be retired.
    pub retire_prior_to: u64,
    /// The ID itself, 1 to 20 bytes.
    pub cid: ConnectionId,
    /// What a stateless reset of this ID ends with.
    pub reset_token: ResetToken,
}

// ---------------------------------------------------------------------------------------------------------------------

/// How many IDs we hand out at once at most, however many the peer would store: enough for probing a few paths.
const MAX_ISSUED: u64 = 8;

/// How many of our IDs lead to a connection at once at most: those the peer may use, and those it has retired a moment
/// ago. A peer that retires more gets no new ones until the oldest are forgotten (RFC 9000 section 5.1.1 permits a
/// limit). A peer that uses up all it has in each round trip retires 32 in the four round trips that three probe
/// timeouts last on a long path.
const MAX_ROUTED: usize = 40;

/// The same for each further path that is in use at once, or may be: one to begin with, and one to change to.
const MAX_ISSUED_OF_PATH: u64 = 2;
/// The same for each further path.
const MAX_ROUTED_OF_PATH: usize = 10;

/// The connection IDs we issue: what the peer writes into the destination field.
///
/// The connection asks [`wanted`](Self::wanted), generates and routes that many IDs and [`issue`](Self::issue)s them;
/// [`poll_announce`](Self::poll_announce) then hands out the frames. Loss is reported with [`on_lost`](Self::on_lost).
#[derive(Clone, Debug)]
pub(crate) struct LocalCids {
    /// Ascending sequence numbers; at most `MAX_ISSUED` + those the peer is asked to retire.
    issued: VecDeque<Issued>,
    next_sequence: u64,
    retire_prior_to: u64,
    /// The peer's active_connection_id_limit.
    peer_limit: u64,
    /// Sequence numbers whose frames are to be sent, or sent again.
    announce: VecDeque<u64>,
    /// The largest sequence number the peer can know of.
    announced: u64,
    /// Whether our IDs have zero length: then nothing can be issued and nothing retired.
    zero_length: bool,
    /// How many are handed out at once at most, and how many lead to the connection.
    most: (u64, usize),
    /// IDs that the peer has retired, and until when datagrams to them are still ours; in the order of retirement.
    retired: VecDeque<(Instant, ConnectionId)>,
}

#[derive(Copy, Clone, Debug)]
struct Issued {
    sequence: u64,
    cid: ConnectionId,
    /// `None` for a client's first ID, for which there is no way to tell the peer a token.
    reset_token: Option<ResetToken>,
}

impl LocalCids {
    /// Starts with the source connection ID of our first long header, which has sequence number 0.
    pub fn new(initial: ConnectionId) -> LocalCids {
        LocalCids {
            issued: VecDeque::from([Issued { sequence: 0, cid: initial, reset_token: None }]),
            next_sequence: 1,
            retire_prior_to: 0,
            peer_limit: 2,
            announce: VecDeque::new(),
            announced: 0,
            zero_length: initial.is_empty(),
            most: (MAX_ISSUED, MAX_ROUTED),
            retired: VecDeque::new(),
        }
    }

    /// Of a further path: starts with none, for a peer with this active_connection_id_limit
    /// (draft-ietf-quic-multipath-21 section 3.2: numbers begin with 0 on each path).
    pub fn of_path(peer_limit: u64) -> LocalCids {
        LocalCids {
            issued: VecDeque::new(),
            next_sequence: 0,
            retire_prior_to: 0,
            peer_limit,
            announce: VecDeque::new(),
            announced: 0,
            zero_length: false,
            most: (MAX_ISSUED_OF_PATH, MAX_ROUTED_OF_PATH),
            retired: VecDeque::new(),
        }
    }

    /// Whether the peer may know of any.
    pub fn has_issued(&self) -> bool {
        self.next_sequence > 0
    }

    /// The number of the next ID.
    pub fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// Whether datagrams to this ID are ours: it is issued, and not retired long ago.
    pub fn leads_here(&self, cid: &[u8]) -> bool {
        self.issued.iter().any(|issued| issued.cid.as_slice() == cid)
            || self.retired.iter().any(|(_, retired)| retired.as_slice() == cid)
    }

    /// The path is given up: all IDs are retired, and no longer lead to the connection after `until`.
    pub fn retire_all(&mut self, until: Instant) {
        self.announce.clear();
        self.retired.extend(self.issued.drain(..).map(|issued| (until, issued.cid)));
        self.most = (0, 0);
    }

    /// Takes the peer's active_connection_id_limit from its transport parameters.
    pub fn set_peer_limit(&mut self, limit: u64) {
        self.peer_limit = limit;
    }

    /// How many further IDs the peer has room for, and we do. 0 if our IDs have zero length.
    pub fn wanted(&self) -> usize {
        if self.zero_length {
            return 0;
        }
        let active = self.issued.iter().filter(|i| i.sequence >= self.retire_prior_to).count() as u64;
        let (most, most_routed) = self.most;
        let room = most_routed.saturating_sub(self.issued.len() + self.retired.len());
        (self.peer_limit.min(most).saturating_sub(active) as usize).min(room)
    }

    /// Adds an ID and queues its frame. Returns its sequence number.
    pub fn issue(&mut self, cid: ConnectionId, reset_token: ResetToken) -> u64 {
        let sequence = self.add(cid, reset_token);
        self.announce.push_back(sequence);
        sequence
    }

    fn add(&mut self, cid: ConnectionId, reset_token: ResetToken) -> u64 {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.issued.push_back(Issued { sequence, cid, reset_token: Some(reset_token) });
        sequence
    }

    /// Asks the peer to retire all IDs issued so far; the frames of the IDs issued next carry the demand.
    #[allow(dead_code)] // RFC 9000 section 5.1.2; nothing asks for it yet
    pub fn rotate(&mut self) {
        if !self.zero_length {
            self.retire_prior_to = self.next_sequence;
        }
    }

    /// Whether [`poll_announce`](Self::poll_announce) has something.
    pub fn has_announcements(&self) -> bool {
        !self.announce.is_empty()
    }

    /// The next NEW_CONNECTION_ID frame to send. IDs that were retired meanwhile are skipped.
    pub fn poll_announce(&mut self) -> Option<NewConnectionId> {
        while let Some(sequence) = self.announce.pop_front() {
            if let Some(frame) = self.frame(sequence) {
                self.announced = self.announced.max(sequence);
                return Some(frame);
            }
        }
        None
    }

    /// The frame announcing an ID; `None` if it is retired, or was never announced in a frame.
    fn frame(&self, sequence: u64) -> Option<NewConnectionId> {
        let issued = self.issued.iter().find(|i| i.sequence == sequence)?;
        Some(NewConnectionId {
            sequence,
            retire_prior_to: self.retire_prior_to.min(sequence),
            cid: issued.cid,
            reset_token: issued.reset_token?,
        })
    }

    /// The packet with the frame announcing `sequence` was lost: announce it again, unless it is retired.
    pub fn on_lost(&mut self, sequence: u64) {
        if self.frame(sequence).is_some() && !self.announce.contains(&sequence) {
            self.announce.push_back(sequence);
        }
    }

    /// The peer retired an ID with a RETIRE_CONNECTION_ID frame in a packet sent to `destination`. Datagrams that the
    /// frame has overtaken are still ours until `until`; then [`poll_forgotten`](Self::poll_forgotten) returns the ID.
    ///
    /// # Errors
    /// PROTOCOL_VIOLATION if the number was never issued, names the ID the packet was sent to, or our IDs have zero
    /// length (RFC 9000 section 19.16).
    pub fn on_retire(
        &mut self,
        sequence: u64,
        destination: &ConnectionId,
        until: Instant,
    ) -> Result<(), TransportError> {
        if self.zero_length {
            return Err(TransportError::protocol_violation("RETIRE_CONNECTION_ID for a zero-length connection ID"));
        }
        if sequence > self.announced || sequence >= self.next_sequence {
            return Err(TransportError::protocol_violation("RETIRE_CONNECTION_ID for a connection ID never issued"));
        }
        let Some(index) = self.issued.iter().position(|i| i.sequence == sequence) else {
            return Ok(());
        };
        if self.issued[index].cid == *destination {
            return Err(TransportError::protocol_violation(
                "RETIRE_CONNECTION_ID for the ID of the packet carrying it",
            ));
        }
        self.announce.retain(|waiting| *waiting != sequence);
        self.retired.extend(self.issued.remove(index).map(|issued| (until, issued.cid)));
        Ok(())
    }

    /// The next retired ID whose time is over: no longer to be routed.
    #[inline]
    pub fn poll_forgotten(&mut self, now: Instant) -> Option<ConnectionId> {
        self.retired.front().filter(|(until, _)| *until <= now)?;
        self.retired.pop_front().map(|(_, cid)| cid)
    }

    /// The sequence number of an ID that is issued and not retired.
    pub fn sequence_of(&self, cid: &[u8]) -> Option<u64> {
        self.issued.iter().find(|i| i.cid.as_slice() == cid).map(|i| i.sequence)
    }

    /// All IDs that are issued and not retired, oldest first.
    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = (u64, ConnectionId)> + '_ {
        self.issued.iter().map(|i| (i.sequence, i.cid))
    }
}

// ---------------------------------------------------------------------------------------------------------------------

/// How many separate runs of retired sequence numbers we remember. An honest peer numbers without gaps, so runs come
/// only from reordering.
const MAX_RETIRED_RUNS: usize = 64;

/// How many RETIRE_CONNECTION_ID frames may be unacknowledged, in multiples of our limit (RFC 9000 section 5.1.2 asks
/// for at least 2).
const MAX_UNACKED_RETIREMENTS: u64 = 10;

/// The number of no ID.
const NONE: u64 = u64::MAX;

/// One connection ID that the peer issued.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct RemoteCid {
    /// Its sequence number.
    pub sequence: u64,
    /// What we write into the destination field.
    pub cid: ConnectionId,
    /// The peer's stateless reset token, if it sent one.
    pub reset_token: Option<ResetToken>,
    in_use: bool,
}

/// The connection IDs the peer issued: what we write into the destination field.
///
/// One is active; further ones can be taken for other paths. The peer may demand the retirement of any: after each
/// NEW_CONNECTION_ID a path other than the active one looks up its ID with [`get`](Self::get) and takes a fresh one if
/// it is gone.
#[derive(Clone, Debug)]
pub(crate) struct RemoteCids {
    /// Not retired; ascending sequence numbers; at most `limit` plus one.
    known: VecDeque<RemoteCid>,
    active: RemoteCid,
    /// Numbers below are retired on arrival.
    retire_prior_to: u64,
    /// Numbers whose IDs we have retired.
    retired: RangeSet,
    /// RETIRE_CONNECTION_ID frames to be sent, or sent again.
    retire: VecDeque<u64>,
    /// Retirements whose frame is not acknowledged yet.
    unacked: u64,
    /// Our active_connection_id_limit.
    limit: u64,
}

impl RemoteCids {
    /// Starts with the peer's first connection ID (sequence number 0) and our own active_connection_id_limit.
    /// A client starts with the random ID of its first Initial, and replaces it by [`set_initial`](Self::set_initial).
    pub fn new(initial: ConnectionId, limit: u64) -> RemoteCids {
        let active = RemoteCid { sequence: 0, cid: initial, reset_token: None, in_use: true };
        RemoteCids {
            known: VecDeque::from([active]),
            active,
            retire_prior_to: 0,
            retired: RangeSet::new(),
            retire: VecDeque::new(),
            unacked: 0,
            limit: limit.max(2),
        }
    }

    /// Of a further path: starts with none (draft-ietf-quic-multipath-21 section 3.2).
    pub fn of_path(limit: u64) -> RemoteCids {
        let mut none = RemoteCids::new(ConnectionId::EMPTY, limit);
        none.known.clear();
        none.active.sequence = NONE;
        none
    }

    /// Whether an ID to send to was chosen.
    pub fn has_active(&self) -> bool {
        self.active.sequence != NONE
    }

    /// Chooses an ID to send to on a path that has none yet. `false` if the peer has given none.
    pub fn choose(&mut self) -> bool {
        if !self.has_active()
            && let Some(fresh) = self.take_fresh()
        {
            self.active = fresh;
        }
        self.has_active()
    }

    /// Whether there is an ID that no path uses.
    pub fn has_fresh(&self) -> bool {
        self.known.iter().any(|id| !id.in_use)
    }

    /// Whether the peer has issued this ID under any number that is not retired.
    pub fn contains(&self, cid: &ConnectionId) -> bool {
        self.known.iter().any(|id| id.cid == *cid)
    }

    /// The peer's choice of its first ID, from its Retry or its first Initial (RFC 9000 section 7.2).
    pub fn set_initial(&mut self, cid: ConnectionId) {
        self.update_initial(|initial| initial.cid = cid);
    }

    /// The server's token for its first ID, from the stateless_reset_token transport parameter.
    pub fn set_initial_reset_token(&mut self, token: ResetToken) {
        self.update_initial(|initial| initial.reset_token = Some(token));
    }

    fn update_initial(&mut self, f: impl Fn(&mut RemoteCid)) {
        for id in self.known.iter_mut().chain([&mut self.active]).filter(|id| id.sequence == 0) {
            f(id);
        }
    }

    /// The ID to send to on the active path.
    #[inline]
    pub fn active(&self) -> &ConnectionId {
        &self.active.cid
    }

    /// The sequence number of the active ID.
    #[inline]
    pub fn active_sequence(&self) -> u64 {
        self.active.sequence
    }

    /// The ID with a number, unless it is retired or unknown.
    pub fn get(&self, sequence: u64) -> Option<&RemoteCid> {
        self.known.iter().find(|id| id.sequence == sequence)
    }

    /// How many IDs are known and not used on any path yet.
    #[cfg(test)]
    pub fn unused(&self) -> usize {
        self.known.iter().filter(|id| !id.in_use).count()
    }

    /// Takes an unused ID for a new path; it stays in use until [`retire`](Self::retire)d. `None` if the peer has given
    /// no spare one.
    pub fn take_fresh(&mut self) -> Option<RemoteCid> {
        let id = self.known.iter_mut().find(|id| !id.in_use)?;
        id.in_use = true;
        Some(*id)
    }

    /// Makes the ID of another path the active one. `false`, and no effect, if the number is unknown or retired.
    pub fn set_active(&mut self, sequence: u64) -> bool {
        let Some(id) = self.known.iter_mut().find(|id| id.sequence == sequence) else {
            return false;
        };
        id.in_use = true;
        self.active = *id;
        true
    }

    /// Replaces the active ID by an unused one and retires the old one. `false`, and no effect, if there is no spare
    /// one.
    pub fn rotate(&mut self) -> bool {
        let old = self.active.sequence;
        match self.take_fresh() {
            Some(fresh) => {
                self.active = fresh;
                self.retire(old);
                true
            }
            None => false,
        }
    }

    /// Stops using an ID and queues its RETIRE_CONNECTION_ID. The active ID and unknown numbers are left alone.
    pub fn retire(&mut self, sequence: u64) {
        if sequence == self.active.sequence {
            return;
        }
        if let Some(index) = self.known.iter().position(|id| id.sequence == sequence) {
            self.known.remove(index);
            self.queue_retirement(sequence);
        }
    }

    fn queue_retirement(&mut self, sequence: u64) {
        if self.retired.insert_one(sequence) {
            self.retire.push_back(sequence);
            self.unacked += 1;
        }
    }

    /// Processes a NEW_CONNECTION_ID frame, or a preferred address (sequence 1, retire prior to 0).
    ///
    /// # Errors
    /// PROTOCOL_VIOLATION if the peer uses zero-length IDs, or reuses a number, an ID or contradicts itself;
    /// CONNECTION_ID_LIMIT_ERROR if there are more active IDs, or more unfinished retirements, than permitted
    /// (RFC 9000 sections 5.1.1, 5.1.2 and 19.15).
    pub fn on_new(&mut self, frame: &NewConnectionId) -> Result<(), TransportError> {
        if self.active.cid.is_empty() && self.has_active() {
            return Err(TransportError::protocol_violation(
                "NEW_CONNECTION_ID from a peer with zero-length connection IDs",
            ));
        }
        if frame.retire_prior_to > frame.sequence {
            return Err(TransportError::frame_encoding("NEW_CONNECTION_ID retires itself"));
        }
        for id in &self.known {
            let same_number = id.sequence == frame.sequence;
            let same_id = id.cid == frame.cid;
            if same_number != same_id || (same_number && id.reset_token.is_some_and(|t| t != frame.reset_token)) {
                return Err(TransportError::protocol_violation("NEW_CONNECTION_ID contradicts an earlier one"));
            }
        }

        let repeated = self.get(frame.sequence).is_some() || self.retired.contains(frame.sequence);
        if !repeated {
            if frame.sequence < self.retire_prior_to {
                // It arrived after the demand to retire it.
                self.queue_retirement(frame.sequence);
            } else {
                let id = RemoteCid {
                    sequence: frame.sequence,
                    cid: frame.cid,
                    reset_token: Some(frame.reset_token),
                    in_use: false,
                };
                let index = self.known.partition_point(|known| known.sequence < frame.sequence);
                self.known.insert(index, id);
            }
        }
        if frame.retire_prior_to > self.retire_prior_to {
            self.retire_prior_to = frame.retire_prior_to;
            while let Some(id) = self.known.front().copied().filter(|id| id.sequence < frame.retire_prior_to) {
                self.known.pop_front();
                self.queue_retirement(id.sequence);
            }
            if self.has_active() && self.active.sequence < frame.retire_prior_to {
                // The frame that makes the demand brings an ID at or above it, unless that one was retired before.
                self.active = match self.take_fresh().or_else(|| self.known.front().copied()) {
                    Some(id) => id,
                    None => {
                        return Err(TransportError::protocol_violation("all connection IDs are to be retired"));
                    }
                };
            }
        }
        if self.known.len() as u64 > self.limit {
            return Err(TransportError::connection_id_limit("more active connection IDs than permitted"));
        }
        if self.unacked > self.limit * MAX_UNACKED_RETIREMENTS || self.retired.len_ranges() > MAX_RETIRED_RUNS {
            return Err(TransportError::connection_id_limit("too many retired connection IDs"));
        }
        Ok(())
    }

    /// Whether [`poll_retire`](Self::poll_retire) has something.
    pub fn has_retirements(&self) -> bool {
        !self.retire.is_empty()
    }

    /// The next sequence number to send in a RETIRE_CONNECTION_ID frame.
    pub fn poll_retire(&mut self) -> Option<u64> {
        self.retire.pop_front()
    }

    /// The packet with the RETIRE_CONNECTION_ID of `sequence` was lost: send it again.
    pub fn on_retire_lost(&mut self, sequence: u64) {
        if !self.retire.contains(&sequence) {
            self.retire.push_back(sequence);
        }
    }

    /// The packet with the RETIRE_CONNECTION_ID of `sequence` was acknowledged.
    pub fn on_retire_acked(&mut self, _sequence: u64) {
        self.unacked = self.unacked.saturating_sub(1);
    }

    /// Whether `token` ends a stateless reset by the peer: it belongs to an ID in use. Compares with all tokens, in
    /// constant time.
    pub fn is_reset(&self, token: &ResetToken) -> bool {
        let in_use = self.known.iter().filter(|id| id.in_use);
        in_use.fold(false, |found, id| found | id.reset_token.is_some_and(|known| known == *token))
    }
}

#[cfg(test)]
mod tests;
