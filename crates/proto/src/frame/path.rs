//! Frames about paths (draft-ietf-quic-multipath-21 section 4), except for PATH_ACK, which is an ACK.
//!
//! Path identifiers are read as any variable-length integer: one that is too large breaks a rule of the connection, not
//! of the format.

use super::{read_new_connection_id, ty};
use crate::{cid::NewConnectionId, varint::Reader};

/// A frame about a path.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum PathFrame {
    /// PATH_ABANDON: the path is not used any more (section 4.2).
    Abandon {
        /// Path identifier.
        path: u64,
        /// Why: a transport error code.
        error_code: u64,
    },
    /// PATH_STATUS_BACKUP or PATH_STATUS_AVAILABLE: whether the sender prefers to receive on the path (section 4.3).
    Status {
        /// Path identifier.
        path: u64,
        /// Rises with each such frame about this path.
        sequence: u64,
        /// Only to be used while no available path can be.
        is_backup: bool,
    },
    /// PATH_NEW_CONNECTION_ID: a connection ID for the path (section 4.4).
    NewConnectionId {
        /// Path identifier.
        path: u64,
        /// The same as in NEW_CONNECTION_ID, with numbers of their own for each path.
        new: NewConnectionId,
    },
    /// PATH_RETIRE_CONNECTION_ID (section 4.5).
    RetireConnectionId {
        /// Path identifier.
        path: u64,
        /// The number of the connection ID among those of the path.
        sequence: u64,
    },
    /// MAX_PATH_ID: the largest path identifier that the receiver of the frame may use (section 4.6).
    MaxPathId(u64),
    /// PATHS_BLOCKED: the limit that keeps the sender of the frame from opening a path (section 4.7).
    PathsBlocked(u64),
    /// PATH_CIDS_BLOCKED: no connection ID for the path is left (section 4.7).
    CidsBlocked {
        /// Path identifier.
        path: u64,
        /// The number that the next connection ID of the path is expected to have.
        next_sequence: u64,
    },
}

impl PathFrame {
    /// The frame's type.
    pub fn ty(&self) -> u64 {
        match self {
            PathFrame::Abandon { .. } => ty::PATH_ABANDON,
            PathFrame::Status { is_backup: true, .. } => ty::PATH_STATUS_BACKUP,
            PathFrame::Status { is_backup: false, .. } => ty::PATH_STATUS_AVAILABLE,
            PathFrame::NewConnectionId { .. } => ty::PATH_NEW_CONNECTION_ID,
            PathFrame::RetireConnectionId { .. } => ty::PATH_RETIRE_CONNECTION_ID,
            PathFrame::MaxPathId(_) => ty::MAX_PATH_ID,
            PathFrame::PathsBlocked(_) => ty::PATHS_BLOCKED,
            PathFrame::CidsBlocked { .. } => ty::PATH_CIDS_BLOCKED,
        }
    }

    /// The path that the frame is about, or the limit that it names.
    pub fn path(&self) -> u64 {
        match *self {
            PathFrame::Abandon { path, .. }
            | PathFrame::Status { path, .. }
            | PathFrame::NewConnectionId { path, .. }
            | PathFrame::RetireConnectionId { path, .. }
            | PathFrame::CidsBlocked { path, .. }
            | PathFrame::MaxPathId(path)
            | PathFrame::PathsBlocked(path) => path,
        }
    }

    /// The fields of a frame of type `ty`; `None` if it is no frame about a path.
    ///
    /// # Errors
    /// The reason of a FRAME_ENCODING_ERROR.
    pub(super) fn parse(ty: u64, r: &mut Reader<'_>) -> Result<Option<PathFrame>, &'static str> {
        let mut varint = || r.varint().ok_or("frame is truncated");
        Ok(Some(match ty {
            ty::PATH_ABANDON => PathFrame::Abandon { path: varint()?, error_code: varint()? },
            ty::PATH_STATUS_BACKUP | ty::PATH_STATUS_AVAILABLE => {
                let is_backup = ty == ty::PATH_STATUS_BACKUP;
                PathFrame::Status { path: varint()?, sequence: varint()?, is_backup }
            }
            ty::PATH_NEW_CONNECTION_ID => {
                PathFrame::NewConnectionId { path: varint()?, new: read_new_connection_id(r)? }
            }
            ty::PATH_RETIRE_CONNECTION_ID => PathFrame::RetireConnectionId { path: varint()?, sequence: varint()? },
            ty::MAX_PATH_ID => PathFrame::MaxPathId(varint()?),
            ty::PATHS_BLOCKED => PathFrame::PathsBlocked(varint()?),
            ty::PATH_CIDS_BLOCKED => PathFrame::CidsBlocked { path: varint()?, next_sequence: varint()? },
            _ => return Ok(None),
        }))
    }
}
