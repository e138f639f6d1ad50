//! Several paths at once (draft-ietf-quic-multipath-21): opening and giving up paths, and the frames about them.

use std::net::{IpAddr, SocketAddr};

use smallvec::SmallVec;
use thalweg_recovery::{DataSpace, NewPath, PathStats, SpaceId};
use thalweg_units::{Duration, Instant};

use super::{
    Connection,
    cids::PathCids,
    event::{EndpointEvent, PathEvent},
    frames::Received,
    paths::{Path, PathControl, PathKey, PathSet, Several, Spin, Stage, mtu_discovery},
    sent::Control,
};
use crate::{
    Side,
    cid::{ConnectionId, ResetToken},
    error::{TransportError, TransportErrorCode},
    frame::{Ack, Frame, PathFrame},
    observe::{ObserverEvent, PathState},
};

/// For how many probe timeouts a path that was given up is remembered (section 3.4).
const REMEMBERED_FOR_PTOS: u32 = 3;

/// Why a path cannot be opened.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenPathError {
    /// The connection uses one path at a time.
    #[error("the connection uses one path at a time: both ends have to be configured for several")]
    NotNegotiated,
    /// Only clients open paths (section 3).
    #[error("only a client opens paths")]
    Server,
    /// The handshake is not confirmed, or the connection is over.
    #[error("paths are opened between the confirmation of the handshake and the end of the connection")]
    NotConfirmed,
    /// The server wants no paths to this address (section 2.2).
    #[error("the server permits no further path to its address")]
    Refused,
    /// All identifiers that both ends permit are in use. The peer has been told.
    #[error("the peers permit no more paths for now")]
    LimitReached,
    /// The connection IDs of the next path have not been exchanged yet: try again after the peer's next datagrams.
    #[error("the connection IDs of the next path have not arrived yet: try again a round trip later")]
    NoConnectionIds,
    /// The server did not answer on it.
    #[error("the path does not carry datagrams to the server and back")]
    NoAnswer,
}

/// Why a path cannot be given up.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClosePathError {
    /// There is no such path, or it was given up before.
    #[error("there is no such path")]
    Unknown,
    /// Nothing would be left of the connection.
    #[error("this is the only path: close the connection instead")]
    LastPath,
}

/// What is known of a path of a connection.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PathReport {
    /// Its identifier, the same at both ends (draft-ietf-quic-multipath-21); 0 for the path of the handshake.
    pub id: DataSpace,
    /// The peer's address.
    pub remote: SocketAddr,
    /// Our address, if known.
    pub local: Option<IpAddr>,
    /// Whether data may be sent on it: its addresses are validated, and neither end has given it up.
    pub is_open: bool,
    /// Whether we want to receive on it only while no other path can be used.
    pub is_backup: bool,
    /// The same of the peer.
    pub is_backup_of_peer: bool,
    /// Probe timeouts in a row.
    pub pto_count: u32,
    /// The smoothed round-trip time.
    pub rtt: Duration,
    /// The smallest round-trip time.
    pub min_rtt: Duration,
    /// The congestion window in bytes.
    pub window: u64,
    /// Bytes in flight.
    pub bytes_in_flight: u64,
    /// UDP payload per datagram, bytes.
    pub mtu: u16,
    /// UDP payload received on it, bytes.
    pub bytes_received: u64,
    /// Counters.
    pub stats: PathStats,
}

/// Frames about paths in a packet.
pub(super) struct ControlWriter<'a> {
    pub buf: &'a mut Vec<u8>,
    /// An offset in `buf` that they do not pass.
    pub limit: usize,
    /// What the packet holds, for when it is acknowledged or lost.
    pub record: &'a mut SmallVec<[Control; 1]>,
}

impl ControlWriter<'_> {
    /// Returns whether there was room.
    fn write(&mut self, frame: PathFrame, control: PathControl) -> bool {
        let frame = Frame::Path(frame);
        let fits = self.buf.len() + frame.encoded_len() <= self.limit;
        if fits {
            frame.encode(self.buf);
            self.record.push(Control::Path(control));
        }
        fits
    }

    /// The next connection ID that is to be announced for a path. Returns whether there was one, and room for it.
    fn write_cid(&mut self, path: &mut PathCids) -> bool {
        let Some(new) = path.local.poll_announce() else { return false };
        let control = PathControl::NewConnectionId(path.space, new.sequence);
        let is_written = self.write(PathFrame::NewConnectionId { path: path.space.0.into(), new }, control);
        if !is_written {
            path.local.on_lost(new.sequence);
        }
        is_written
    }
}

impl Connection {
    // What the application does.

    /// Whether both ends have agreed to use several paths at once.
    pub fn is_multipath(&self) -> bool {
        self.handshake.complete && self.paths.several().is_some()
    }

    /// The paths there are, by ascending identifier. One that was given up is among them for three probe timeouts.
    pub fn paths(&self) -> impl Iterator<Item = PathReport> + '_ {
        self.paths.sets().map(|set| {
            let path = set.active();
            let known = self.recovery.path(path.id);
            let status = self.paths.several().map(|several| several.status(path.key().space())).unwrap_or_default();
            PathReport {
                id: path.key().space(),
                remote: path.remote,
                local: path.local,
                is_open: set.is_open(),
                is_backup: status.local_backup == Some(true),
                is_backup_of_peer: status.peer_backup == Some(true),
                pto_count: known.map_or(0, thalweg_recovery::Path::pto_count),
                rtt: known.map_or(self.config.initial_rtt, |known| known.rtt().smoothed),
                min_rtt: known.map_or(self.config.initial_rtt, |known| known.rtt().min),
                window: known.map_or(0, thalweg_recovery::Path::window),
                bytes_in_flight: known.map_or(0, thalweg_recovery::Path::bytes_in_flight),
                mtu: known.map_or(self.config.initial_mtu, thalweg_recovery::Path::datagram_size),
                bytes_received: set.received(),
                stats: known.map(thalweg_recovery::Path::stats).unwrap_or_default(),
            }
        })
    }

    /// Client: opens a path from `local` to `remote`, `None` for the server's address of the first path. Data take it
    /// once the server has answered there ([`PathEvent::Opened`]). Follow with [`Self::poll_transmit`], whose datagrams
    /// say by [`Transmit::local_ip`](crate::Transmit::local_ip) from where they are to leave.
    ///
    /// # Errors
    /// When it is not possible, or not yet.
    pub fn open_path(
        &mut self,
        now: Instant,
        local: Option<IpAddr>,
        remote: Option<SocketAddr>,
    ) -> Result<DataSpace, OpenPathError> {
        if !self.handshake.confirmed || !self.lifecycle.is_open() {
            return Err(OpenPathError::NotConfirmed);
        }
        let handshake_address = self.paths.active().remote;
        let remote = remote.unwrap_or(handshake_address);
        let Some(several) = self.paths.several_mut() else { return Err(OpenPathError::NotNegotiated) };
        if self.side == Side::Server {
            return Err(OpenPathError::Server);
        }
        if !self.handshake.migration_allowed && remote == handshake_address {
            return Err(OpenPathError::Refused);
        }
        // Identifiers are used in order (section 3.2.1).
        let Some(space) = several.next_unused() else {
            let limit = several.peer_max();
            several.owe(PathControl::PathsBlocked(limit));
            return Err(OpenPathError::LimitReached);
        };
        if !self.cids.may_open(space) {
            if !self.cids.remote_of(space).has_fresh() {
                several.owe(PathControl::CidsBlocked(space, 0));
            }
            return Err(OpenPathError::NoConnectionIds);
        }
        // A client need not doubt the server's address, only whether the path works.
        let key = self.begin_path(now, space, remote, local, true);
        let pto = self.recovery.pto(SpaceId::Data(space)).max(self.config.initial_rtt);
        self.paths[key].validation.start(now, pto);
        Ok(space)
    }

    /// Gives a path up; what is under way on it leaves again on the others if it does not arrive. `code` tells the peer
    /// why.
    ///
    /// # Errors
    /// When there is no such path, or it is the only one.
    pub fn close_path(&mut self, now: Instant, id: DataSpace, code: TransportErrorCode) -> Result<(), ClosePathError> {
        if !self.paths.is_in_use(id) {
            return Err(ClosePathError::Unknown);
        }
        if !self.paths.sets().any(|set| set.is_open() && set.id() != id) {
            return Err(ClosePathError::LastPath);
        }
        self.abandon(now, id, code.0);
        Ok(())
    }

    /// Tells the peer whether to send on a path only while no other can be used. Returns whether there is such a path.
    pub fn set_path_backup(&mut self, id: DataSpace, is_backup: bool) -> bool {
        let is_known = self.paths.set(id).is_some();
        if let Some(several) = self.paths.several_mut().filter(|_| is_known) {
            several.set_status(id, is_backup);
            return true;
        }
        false
    }

    /// Has [`Self::poll_transmit`] leave out the paths of whose local address `is_held` says so, and no others: the
    /// socket of that address has no room. `None` is the address of a path that leaves by whichever the system takes.
    pub fn hold_paths(&mut self, is_held: impl Fn(Option<IpAddr>) -> bool) {
        self.paths.hold(is_held);
    }

    /// The counters of all paths together, those that are gone included.
    pub(super) fn path_stats_in_all(&self) -> PathStats {
        let mut total = self.reports.stats.path;
        let mut seen: SmallVec<[thalweg_recovery::PathId; 4]> = SmallVec::new();
        for path in self.paths.iter() {
            // Address pairs that differ by what a NAT changed share one.
            if !seen.contains(&path.id) {
                seen.push(path.id);
                total += self.recovery.path(path.id).map(thalweg_recovery::Path::stats).unwrap_or_default();
            }
        }
        total
    }

    // Negotiation and connection IDs.

    /// Both ends have sent their transport parameters: from now on several paths can be used if both want that.
    pub(super) fn negotiate_paths(&mut self) -> Result<(), TransportError> {
        let Some(ours) = self.config.multipath.as_ref().filter(|_| self.handshake.offers_paths) else {
            return Ok(());
        };
        let Some(peer) = self.handshake.peer_params.initial_max_path_id else { return Ok(()) };
        if self.cids.remote.active().is_empty() || self.cids.own.is_empty() {
            // Section 2.1.
            return Err(TransportError::protocol_violation("several paths and zero-length connection IDs"));
        }
        self.paths.set_several(Several::new(ours.initial_max_path_id(), peer, ours.scheduler.build()));
        Ok(())
    }

    /// The handshake is complete: 1-RTT packets are acknowledged by PATH_ACK (section 2.3).
    pub(super) fn begin_multipath(&mut self) {
        if self.paths.several().is_some() {
            self.spaces[SpaceId::DATA].acks.name_path(DataSpace::FIRST.0);
        }
    }

    /// Issues connection IDs for paths that may be opened.
    pub(super) fn issue_path_cids(&mut self, issue: &mut impl FnMut() -> Option<(ConnectionId, ResetToken)>) {
        let Some(several) = self.paths.several() else { return };
        let peer_limit = self.handshake.peer_params.active_connection_id_limit;
        for space in several.usable() {
            self.cids.add_path(space, peer_limit, self.config.active_connection_ids);
        }
        for path in &mut self.cids.further {
            for _ in 0..path.local.wanted() {
                let Some((cid, token)) = issue() else { return };
                path.local.issue(cid, token);
                self.reports.tell_endpoint(EndpointEvent::CidIssued(cid));
            }
        }
    }

    // Paths come and go.

    /// Makes a path of an identifier that nobody has used. `is_validated`: the peer is known to receive at `remote`.
    fn begin_path(
        &mut self,
        now: Instant,
        space: DataSpace,
        remote: SocketAddr,
        local: Option<IpAddr>,
        is_validated: bool,
    ) -> PathKey {
        let id = self.recovery.add_path(now, NewPath::new(self.config.initial_mtu).to(remote));
        self.recovery.set_space_path(space, id);
        let mtu = mtu_discovery(now, &self.config, self.handshake.peer_params.max_udp_payload_size);
        let mut path = Path::new(id, remote, local, is_validated, mtu);
        path.spin = Spin::new(self.config.spin_bit, &mut self.rng);
        let state = self.spaces.open(space, self.config.ack_config());
        state.acks.name_path(space.0);
        let params = &self.handshake.peer_params;
        state.acks.report_arrivals(params.max_receive_timestamps_per_ack, params.receive_timestamps_exponent);
        if self.config.skip_packet_numbers {
            state.numbers.start_skipping(&mut self.rng);
        }
        if let Some(request) = self.paths.several().and_then(|several| several.asked) {
            // It was accepted once.
            let _ = state.acks.on_ack_frequency(&request);
        }
        self.repeat.open(space);
        self.cids.can_address(space);
        if let Some(several) = self.paths.several_mut() {
            several.on_used(space);
        }
        self.reports.observe(now, &ObserverEvent::PathUpdated { path: id, state: PathState::Probing, remote });
        self.reports.tell_limits_apart();
        let key = self.paths.insert(PathSet::new(now, space, path, Stage::Opening));
        self.paths.announce_reset_token(space, &self.cids, &mut self.reports);
        self.update_amplification_limit(now);
        key
    }

    /// Server: the first packet of a path. `None` if there may be no such path.
    pub(super) fn accept_path(
        &mut self,
        now: Instant,
        space: DataSpace,
        remote: SocketAddr,
        local: Option<IpAddr>,
    ) -> Option<PathKey> {
        let is_permitted =
            self.paths.several().is_some_and(|several| several.named(space.0.into()).is_ok_and(|path| path.is_some()));
        if self.side != Side::Server || !is_permitted || self.paths.set(space).is_some() {
            return None;
        }
        let is_known = self.paths.iter().any(|path| path.remote == remote && path.local == local && path.validated);
        let key = self.begin_path(now, space, remote, local, is_known);
        let pto = self.recovery.pto(SpaceId::Data(space)).max(self.config.initial_rtt);
        self.paths[key].validation.start(now, pto);
        Some(key)
    }

    /// A path is given up, by us or by the peer (section 3.4).
    fn abandon(&mut self, now: Instant, space: DataSpace, code: u64) {
        let until = now + self.recovery.largest_pto() * REMEMBERED_FOR_PTOS;
        let Some(several) = self.paths.several_mut() else { return };
        if !several.abandon(space, code) {
            return;
        }
        several.closing.push((space, until));
        if let Some(local) = self.cids.local_of_mut(space) {
            local.retire_all(until);
        }
        let Some(set) = self.paths.set_mut(space) else { return };
        set.set_stage(Stage::Abandoned { until });
        self.reports.tell_endpoint(EndpointEvent::PathAbandoned(space));
        let Path { id, remote, .. } = *set.active();
        self.paths.choose_main();
        self.repeat.on_progress(SpaceId::Data(space));
        self.reports.observe(now, &ObserverEvent::PathUpdated { path: id, state: PathState::Abandoned, remote });
        self.reports.tell_path(PathEvent::Abandoned { id: space, code });
        if self.paths.set(space).is_some_and(|set| self.is_silent(set)) {
            self.reinject(space);
        }
    }

    /// No address of a path could be validated. Returns whether the connection has no path left.
    pub(super) fn on_path_failed(&mut self, now: Instant, space: DataSpace) -> bool {
        let others = self.paths.sets().any(|set| set.is_open() && set.id() != space);
        if others {
            self.abandon(now, space, TransportErrorCode::PATH_UNSTABLE_OR_POOR.0);
        }
        !others
    }

    /// Forgets the paths that were given up long enough ago: what has not arrived by then never will.
    pub(super) fn forget_paths(&mut self, now: Instant) {
        while let Some(space) = self.paths.several_mut().and_then(|several| several.poll_closed(now)) {
            self.withdraw(now, SpaceId::Data(space));
            self.recovery.discard(now, SpaceId::Data(space));
            if let Some(gone) = self.paths.forget(space) {
                for path in gone.iter() {
                    self.reports.stats.path +=
                        self.recovery.path(path.id).map(|known| known.stats()).unwrap_or_default();
                    self.recovery.remove_path(path.id);
                    self.reports.forget_limit(path.id);
                }
            }
            self.spaces.forget(space);
            self.keys.forget_space(space);
            self.repeat.forget(space);
            if let Some(local) = self.cids.local_of_mut(space) {
                while let Some(cid) = local.poll_forgotten(Instant::FAR_FUTURE) {
                    self.reports.tell_endpoint(EndpointEvent::CidForgotten(cid));
                }
            }
            self.cids.remove_path(space);
        }
    }

    // Frames.

    /// A PATH_ACK frame: it is processed by the space that it names, whatever path it came `by` (section 4.1).
    pub(super) fn on_path_ack(
        &mut self,
        now: Instant,
        at: Instant,
        by: DataSpace,
        path: u64,
        ack: &Ack<'_>,
    ) -> Result<(), TransportError> {
        let several = self.negotiated()?;
        let named = several.named(path)?;
        let space = SpaceId::Data(DataSpace(u32::try_from(path).unwrap_or(u32::MAX)));
        if named.is_none() && (self.spaces.get(space).is_none() || self.paths.set(DataSpace(path as u32)).is_none()) {
            return Ok(());
        }
        self.on_ack_frame(now, at, space, by, ack)
    }

    fn negotiated(&mut self) -> Result<&mut Several, TransportError> {
        match self.paths.several_mut() {
            Some(several) if self.handshake.complete => Ok(several),
            _ => {
                let reason = "frame of an extension that was not negotiated: initial_max_path_id";
                Err(TransportError::frame_encoding(reason))
            }
        }
    }

    /// A frame about a path. Frames about a path that was given up are ignored (section 4).
    pub(super) fn on_path_frame(
        &mut self,
        now: Instant,
        packet: &Received<'_>,
        frame: &PathFrame,
    ) -> Result<(), TransportError> {
        let initial = self.handshake.peer_params.initial_max_path_id.unwrap_or(0);
        let several = self.negotiated()?;
        if let PathFrame::MaxPathId(max) = *frame {
            several.on_max_path_id(max, initial)?;
            return Ok(());
        }
        let Some(space) = several.named(frame.path())? else { return Ok(()) };
        match *frame {
            PathFrame::Abandon { error_code, .. } => {
                if !self.paths.sets().any(|set| !set.is_abandoned() && set.id() != space) {
                    return Err(TransportError::no_viable_path("the peer has given up the only path"));
                }
                self.abandon(now, space, error_code);
            }
            PathFrame::Status { sequence, is_backup, .. } => {
                if several.on_status(space, sequence, is_backup) {
                    self.reports.tell_path(PathEvent::StatusOfPeer { id: space, is_backup });
                }
            }
            PathFrame::NewConnectionId { new, .. } => {
                let peer_limit = self.handshake.peer_params.active_connection_id_limit;
                self.cids.add_path(space, peer_limit, self.config.active_connection_ids);
                self.cids.on_new(space, &new)?;
                if self.paths.set(space).is_some() {
                    self.cids.can_address(space);
                }
                self.paths.announce_reset_token(space, &self.cids, &mut self.reports);
            }
            PathFrame::RetireConnectionId { sequence, .. } => {
                let until = now + self.recovery.largest_pto() * REMEMBERED_FOR_PTOS;
                match self.cids.local_of_mut(space) {
                    Some(local) => local.on_retire(sequence, packet.dcid, until)?,
                    None => {
                        let reason = "PATH_RETIRE_CONNECTION_ID for a connection ID never issued";
                        return Err(TransportError::protocol_violation(reason));
                    }
                }
            }
            PathFrame::CidsBlocked { next_sequence, .. } => {
                let next = self.cids.local_of_mut(space).map_or(0, |local| local.next_sequence());
                if next_sequence > next {
                    let reason = "PATH_CIDS_BLOCKED expects connection IDs that come later";
                    return Err(TransportError::protocol_violation(reason));
                }
            }
            // What is permitted is said anyway.
            PathFrame::PathsBlocked(_) | PathFrame::MaxPathId(_) => {}
        }
        Ok(())
    }

    /// Appends the frames about paths that wait, as far as they fit.
    #[inline]
    pub(super) fn write_path_control(&mut self, buf: &mut Vec<u8>, limit: usize, record: &mut SmallVec<[Control; 1]>) {
        if self.paths.several().is_some() {
            self.write_path_control_of_several(buf, limit, record);
        }
    }

    /// Appends a connection ID for each further path, as far as they fit.
    pub(super) fn write_first_path_cids(&mut self, mut packet: ControlWriter<'_>) {
        for path in &mut self.cids.further {
            packet.write_cid(path);
        }
    }

    fn write_path_control_of_several(&mut self, buf: &mut Vec<u8>, limit: usize, record: &mut SmallVec<[Control; 1]>) {
        let Some(several) = self.paths.several_mut() else { return };
        let mut packet = ControlWriter { buf, limit, record };
        while let Some((control, frame)) = several.poll() {
            if !packet.write(frame, control) {
                several.put_back(control);
                return;
            }
        }
        for path in &mut self.cids.further {
            let (space, number) = (path.space, path.space.0.into());
            while let Some(sequence) = path.remote.poll_retire() {
                let control = PathControl::RetireConnectionId(space, sequence);
                if !packet.write(PathFrame::RetireConnectionId { path: number, sequence }, control) {
                    path.remote.on_retire_lost(sequence);
                    return;
                }
            }
            while packet.write_cid(path) {}
        }
    }

    /// The packet with a frame about a path was acknowledged.
    pub(super) fn on_path_control_acked(&mut self, control: PathControl) {
        match control {
            PathControl::RetireConnectionId(space, sequence) => {
                if let Some(path) = self.cids.further.iter_mut().find(|path| path.space == space) {
                    path.remote.on_retire_acked(sequence);
                }
            }
            other => {
                if let Some(several) = self.paths.several_mut() {
                    several.on_acked(other);
                }
            }
        }
    }

    /// The packet with a frame about a path was lost.
    pub(super) fn on_path_control_lost(&mut self, control: PathControl) {
        let of_path = |space: DataSpace| move |path: &&mut PathCids| path.space == space;
        match control {
            PathControl::NewConnectionId(space, sequence) => {
                if let Some(path) = self.cids.further.iter_mut().find(of_path(space)) {
                    path.local.on_lost(sequence);
                }
            }
            PathControl::RetireConnectionId(space, sequence) => {
                if let Some(path) = self.cids.further.iter_mut().find(of_path(space)) {
                    path.remote.on_retire_lost(sequence);
                }
            }
            other => {
                if let Some(several) = self.paths.several_mut() {
                    several.on_lost(other);
                }
            }
        }
    }
}
