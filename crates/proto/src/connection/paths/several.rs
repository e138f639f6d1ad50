//! What a connection keeps besides its paths where it may use several at once: the identifiers that may be used, those
//! that were given up, what each end prefers, and the frames that are owed about them (draft-ietf-quic-multipath-21
//! sections 3 and 4).

use std::collections::VecDeque;

use thalweg_recovery::DataSpace;
use thalweg_units::Instant;

use super::scheduler::Scheduler;
use crate::{
    error::TransportError,
    frame::{AckFrequency, PathFrame},
    range_set::RangeSet,
};

/// A frame about paths that is on its way. Each is rebuilt from current state when it has to be sent again.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum PathControl {
    /// PATH_ABANDON.
    Abandon(DataSpace),
    /// PATH_STATUS_BACKUP or PATH_STATUS_AVAILABLE with this sequence number.
    Status(DataSpace, u64),
    /// PATH_NEW_CONNECTION_ID with this sequence number.
    NewConnectionId(DataSpace, u64),
    /// PATH_RETIRE_CONNECTION_ID with this sequence number.
    RetireConnectionId(DataSpace, u64),
    /// MAX_PATH_ID.
    MaxPathId,
    /// PATHS_BLOCKED at this limit.
    PathsBlocked(u32),
    /// PATH_CIDS_BLOCKED, and the number that the next ID is expected to have.
    CidsBlocked(DataSpace, u64),
}

/// What the two ends prefer about a path (section 3.3).
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Status {
    /// We want to receive on it only while no other path can be used; `None`: we have not said.
    pub local_backup: Option<bool>,
    /// The same of the peer: what it wants us to send on.
    pub peer_backup: Option<bool>,
    /// The number of our next frame.
    next_sequence: u64,
    /// The largest number of the peer's frames.
    peer_sequence: Option<u64>,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Several {
    /// The largest identifier that the peer may use.
    local_max: u32,
    /// The largest identifier that we may use.
    peer_max: u32,
    /// How many paths may be open at once as far as we are concerned.
    most: u32,
    /// Identifiers that were given up.
    abandoned: RangeSet,
    /// The codes of those whose frame may still have to be repeated.
    codes: Vec<(DataSpace, u64)>,
    /// Identifiers that are to be permitted once more of the frames are acknowledged.
    withheld: u32,
    statuses: Vec<(DataSpace, Status)>,
    owed: VecDeque<PathControl>,
    /// The largest identifier that was used.
    used: u32,
    /// Paths that were given up, and until when they are remembered.
    pub closing: Vec<(DataSpace, Instant)>,
    /// Which path sends next.
    pub scheduler: Scheduler,
    /// What the peer asks of our acknowledgments, for the spaces of paths to come.
    pub asked: Option<AckFrequency>,
}

/// The most frames about paths that wait to be sent: each identifier in use has a handful.
const MAX_OWED: usize = 256;
/// How many paths may have been given up without the peer having acknowledged it before it gets no more identifiers.
const MAX_UNSETTLED: usize = 8;
/// For how many paths preferences are kept at most.
const MAX_STATUSES: usize = 64;

impl Several {
    /// Both ends have sent initial_max_path_id: `local` we, `peer` the peer.
    pub fn new(local: u32, peer: u32, scheduler: Scheduler) -> Several {
        Several {
            local_max: local,
            peer_max: peer,
            most: local.saturating_add(1),
            abandoned: RangeSet::new(),
            codes: Vec::new(),
            withheld: 0,
            statuses: Vec::new(),
            owed: VecDeque::new(),
            used: 0,
            closing: Vec::new(),
            scheduler,
            asked: None,
        }
    }

    /// The largest identifier that both ends permit.
    pub fn max(&self) -> DataSpace {
        DataSpace(self.local_max.min(self.peer_max))
    }

    /// Whether a path was given up.
    pub fn is_abandoned(&self, space: DataSpace) -> bool {
        self.abandoned.contains(space.0.into())
    }

    /// The identifiers for which connection IDs are exchanged: those that both ends permit and nobody has given up.
    pub fn usable(&self) -> impl Iterator<Item = DataSpace> + '_ {
        let left = self.abandoned.gaps(0..u64::from(self.max().0) + 1).flatten();
        left.map(|id| DataSpace(id as u32)).take(self.most as usize)
    }

    /// The path that a frame of the peer is about. `None`: the frame is to be ignored, since the path was given up.
    ///
    /// # Errors
    /// PROTOCOL_VIOLATION for an identifier above our limit (section 4).
    pub fn named(&self, path: u64) -> Result<Option<DataSpace>, TransportError> {
        match u32::try_from(path) {
            Ok(path) if path <= self.local_max => Ok(Some(DataSpace(path)).filter(|space| !self.is_abandoned(*space))),
            _ => Err(TransportError::protocol_violation("a path identifier above MAX_PATH_ID")),
        }
    }

    /// The peer raises the limit of what we may use. Returns whether it is news.
    ///
    /// # Errors
    /// PROTOCOL_VIOLATION above 2^32 - 1, or below what the peer's transport parameter said, `initial` (section 4.6).
    pub fn on_max_path_id(&mut self, max: u64, initial: u32) -> Result<bool, TransportError> {
        let max = u32::try_from(max).ok().filter(|max| *max >= initial);
        let max = max.ok_or_else(|| TransportError::protocol_violation("MAX_PATH_ID out of range"))?;
        let is_news = max > self.peer_max;
        self.peer_max = self.peer_max.max(max);
        Ok(is_news)
    }

    /// A path is given up, by us or by the peer: its identifier is never used again, and another may be instead.
    /// Returns whether that is news.
    pub fn abandon(&mut self, space: DataSpace, code: u64) -> bool {
        if !self.abandoned.insert_one(space.0.into()) {
            return false;
        }
        self.statuses.retain(|(known, _)| *known != space);
        self.codes.push((space, code));
        self.owe(PathControl::Abandon(space));
        match self.codes.len() <= MAX_UNSETTLED {
            true => self.permit_another(),
            // A peer that acknowledges nothing gets no more to give up.
            false => self.withheld += 1,
        }
        true
    }

    /// Another identifier takes the place of one that was given up.
    fn permit_another(&mut self) {
        if let Some(raised) = self.local_max.checked_add(1) {
            self.local_max = raised;
            self.owe(PathControl::MaxPathId);
        }
    }

    /// What both ends prefer about a path.
    pub fn status(&self, space: DataSpace) -> Status {
        self.statuses.iter().find(|(known, _)| *known == space).map(|(_, status)| *status).unwrap_or_default()
    }

    fn status_mut(&mut self, space: DataSpace) -> Option<&mut Status> {
        if let Some(at) = self.statuses.iter().position(|(known, _)| *known == space) {
            return self.statuses.get_mut(at).map(|(_, status)| status);
        }
        if self.statuses.len() >= MAX_STATUSES {
            return None;
        }
        self.statuses.push((space, Status::default()));
        self.statuses.last_mut().map(|(_, status)| status)
    }

    /// We prefer to receive on the path, or not.
    pub fn set_status(&mut self, space: DataSpace, is_backup: bool) {
        let Some(status) = self.status_mut(space) else { return };
        status.local_backup = Some(is_backup);
        let sequence = status.next_sequence;
        status.next_sequence += 1;
        self.owe(PathControl::Status(space, sequence));
    }

    /// The peer's preference. Frames that do not raise the sequence number are ignored (section 4.3). Returns whether
    /// it is news.
    pub fn on_status(&mut self, space: DataSpace, sequence: u64, is_backup: bool) -> bool {
        let Some(status) = self.status_mut(space) else { return false };
        if status.peer_sequence.is_some_and(|latest| sequence <= latest) {
            return false;
        }
        status.peer_sequence = Some(sequence);
        status.peer_backup.replace(is_backup) != Some(is_backup)
    }

    /// A frame is to be sent.
    pub fn owe(&mut self, control: PathControl) {
        if self.owed.len() < MAX_OWED && !self.owed.contains(&control) {
            self.owed.push_back(control);
        }
    }

    /// Whether frames wait to be sent.
    pub fn has_frames(&self) -> bool {
        !self.owed.is_empty()
    }

    /// The next frame to send, and what to remember of it; `None` if there is none any more.
    pub fn poll(&mut self) -> Option<(PathControl, PathFrame)> {
        loop {
            let control = self.owed.pop_front()?;
            if let Some(frame) = self.frame(control) {
                return Some((control, frame));
            }
        }
    }

    /// Puts a frame back that found no room.
    pub fn put_back(&mut self, control: PathControl) {
        self.owed.push_front(control);
    }

    /// A frame as it is to be written now; `None` if it no longer matters.
    fn frame(&self, control: PathControl) -> Option<PathFrame> {
        Some(match control {
            PathControl::Abandon(space) => {
                let (_, error_code) = *self.codes.iter().find(|(known, _)| *known == space)?;
                PathFrame::Abandon { path: space.0.into(), error_code }
            }
            PathControl::Status(space, sequence) => {
                // Only the last one counts (section 4.3).
                let status = self.statuses.iter().find(|(known, _)| *known == space).map(|(_, status)| status)?;
                let is_backup = status.local_backup.filter(|_| sequence + 1 == status.next_sequence)?;
                PathFrame::Status { path: space.0.into(), sequence, is_backup }
            }
            PathControl::MaxPathId => PathFrame::MaxPathId(self.local_max.into()),
            PathControl::PathsBlocked(limit) if limit == self.peer_max => PathFrame::PathsBlocked(limit.into()),
            PathControl::CidsBlocked(space, next_sequence) => {
                PathFrame::CidsBlocked { path: space.0.into(), next_sequence }
            }
            PathControl::PathsBlocked(_) | PathControl::NewConnectionId(..) | PathControl::RetireConnectionId(..) => {
                return None;
            }
        })
    }

    /// The packet with a frame was acknowledged.
    pub fn on_acked(&mut self, control: PathControl) {
        if let PathControl::Abandon(space) = control {
            self.codes.retain(|(known, _)| *known != space);
            if self.withheld > 0 {
                self.withheld -= 1;
                self.permit_another();
            }
        }
    }

    /// The packet with a frame was lost. What is informational is not repeated (section 4.7).
    pub fn on_lost(&mut self, control: PathControl) {
        if !matches!(control, PathControl::PathsBlocked(_) | PathControl::CidsBlocked(..)) {
            self.owe(control);
        }
    }

    /// The largest identifier that we may use.
    pub fn peer_max(&self) -> u32 {
        self.peer_max
    }

    /// The identifier of the next path that we may open, if any.
    pub fn next_unused(&self) -> Option<DataSpace> {
        self.usable().find(|space| space.0 > self.used)
    }

    /// A path with this identifier was opened, by us or by the peer.
    pub fn on_used(&mut self, space: DataSpace) {
        self.used = self.used.max(space.0);
    }

    /// When the next of the paths that were given up is to be forgotten.
    pub fn timer(&self) -> Option<Instant> {
        self.closing.iter().map(|(_, until)| *until).min()
    }

    /// The next of the paths that were given up whose time is over.
    pub fn poll_closed(&mut self, now: Instant) -> Option<DataSpace> {
        let at = self.closing.iter().position(|(_, until)| *until <= now)?;
        Some(self.closing.swap_remove(at).0)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::scheduler::SchedulerPolicy, *};
    use crate::error::TransportErrorCode;

    fn several(local: u32, peer: u32) -> Several {
        Several::new(local, peer, SchedulerPolicy::LowestRtt.build())
    }

    fn frames(several: &mut Several) -> Vec<PathFrame> {
        std::iter::from_fn(|| several.poll()).map(|(_, frame)| frame).collect()
    }

    #[test]
    fn draft_multipath_4_an_identifier_above_the_limit_is_a_protocol_violation() {
        let both = several(2, 5);
        assert_eq!(both.named(2).unwrap(), Some(DataSpace(2)));
        for path in [3, 1 << 32, (1 << 62) - 1] {
            assert_eq!(both.named(path).unwrap_err().code, TransportErrorCode::PROTOCOL_VIOLATION);
        }
    }

    #[test]
    fn draft_multipath_4_6_a_max_path_id_out_of_range_is_a_protocol_violation_and_a_smaller_one_is_ignored() {
        let mut paths = several(2, 5);
        assert!(paths.on_max_path_id(9, 5).unwrap());
        assert!(!paths.on_max_path_id(7, 5).unwrap());
        assert_eq!(paths.peer_max(), 9);
        for max in [4, 1 << 32] {
            assert_eq!(paths.on_max_path_id(max, 5).unwrap_err().code, TransportErrorCode::PROTOCOL_VIOLATION);
        }
    }

    #[test]
    fn draft_multipath_3_4_an_identifier_that_was_given_up_is_never_used_again_and_another_takes_its_place() {
        let mut paths = several(2, 2);
        assert_eq!(paths.usable().collect::<Vec<_>>(), [0, 1, 2].map(DataSpace));
        assert!(paths.abandon(DataSpace(1), 0x3e));
        assert!(!paths.abandon(DataSpace(1), 0), "once is enough");
        assert_eq!(paths.named(1).unwrap(), None, "frames about it are ignored");
        assert_eq!(frames(&mut paths), [PathFrame::Abandon { path: 1, error_code: 0x3e }, PathFrame::MaxPathId(3)]);
        paths.on_max_path_id(3, 2).unwrap();
        assert_eq!(paths.usable().collect::<Vec<_>>(), [0, 2, 3].map(DataSpace));
    }

    #[test]
    fn there_is_always_another_identifier_for_a_path_that_was_given_up() {
        let mut paths = several(3, u32::MAX);
        paths.on_used(DataSpace(0));
        for number in 1..1_000 {
            let next = paths.next_unused();
            assert_eq!(next, Some(DataSpace(number)));
            paths.on_used(DataSpace(number));
            paths.abandon(DataSpace(number), 0);
            paths.on_acked(PathControl::Abandon(DataSpace(number)));
        }
    }

    #[test]
    fn draft_multipath_4_2_a_lost_path_abandon_is_repeated_until_it_is_acknowledged() {
        let mut paths = several(2, 2);
        paths.abandon(DataSpace(1), 0x3e76);
        let abandon = PathControl::Abandon(DataSpace(1));
        frames(&mut paths);
        paths.on_lost(abandon);
        assert_eq!(frames(&mut paths), [PathFrame::Abandon { path: 1, error_code: 0x3e76 }]);
        paths.on_acked(abandon);
        paths.on_lost(abandon);
        assert_eq!(frames(&mut paths), []);
    }

    #[test]
    fn draft_multipath_4_3_a_status_that_does_not_raise_the_sequence_number_is_ignored() {
        let mut paths = several(2, 2);
        let path = DataSpace(1);
        assert!(paths.on_status(path, 5, true));
        assert!(!paths.on_status(path, 5, false));
        assert!(!paths.on_status(path, 4, false));
        assert_eq!(paths.status(path).peer_backup, Some(true));
        assert!(paths.on_status(DataSpace(2), 0, true), "each path has numbers of its own");
        assert!(paths.on_status(path, 6, false));
        assert_eq!(paths.status(path).peer_backup, Some(false));
    }

    #[test]
    fn draft_multipath_4_3_only_the_last_status_is_repeated() {
        let mut paths = several(2, 2);
        let path = DataSpace(1);
        paths.set_status(path, true);
        assert_eq!(frames(&mut paths), [PathFrame::Status { path: 1, sequence: 0, is_backup: true }]);
        paths.set_status(path, false);
        assert_eq!(frames(&mut paths), [PathFrame::Status { path: 1, sequence: 1, is_backup: false }]);
        paths.on_lost(PathControl::Status(path, 0));
        assert_eq!(frames(&mut paths), []);
        paths.on_lost(PathControl::Status(path, 1));
        assert_eq!(frames(&mut paths), [PathFrame::Status { path: 1, sequence: 1, is_backup: false }]);
    }

    #[test]
    fn a_peer_that_gives_up_path_after_path_fills_no_memory() {
        let mut paths = several(3, u32::MAX);
        for path in 0..10_000 {
            paths.abandon(DataSpace(path), 0);
            assert!(paths.usable().count() <= 4);
            while let Some((control, _)) = paths.poll() {
                paths.on_acked(control);
            }
        }
        assert_eq!(paths.abandoned.len_ranges(), 1);
        let mut paths = several(3, u32::MAX);
        let mut given_up = 0;
        for path in 0..10_000 {
            if paths.named(path).is_ok_and(|path| path.is_some()) {
                paths.abandon(DataSpace(path as u32), 0);
                given_up += 1;
            }
        }
        assert!(given_up <= MAX_UNSETTLED + 4, "one that acknowledges nothing gets no more identifiers");
        assert!(paths.owed.len() <= MAX_OWED);
    }
}
