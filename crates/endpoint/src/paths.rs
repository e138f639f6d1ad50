//! Several paths at once: opening them, and the handle of one (draft-ietf-quic-multipath-21).

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use bytes::Bytes;
use thalweg_proto::TransportErrorCode;
pub use thalweg_proto::{
    Candidate, ClosePathError, MultipathConfig, OpenPathError, Order, PathReport, PathScheduler, PinError,
    SchedulerFactory, SchedulerPolicy, Waiting,
};
pub use thalweg_recovery::DataSpace;

use crate::{connection::Connection, events::PathEvent};

/// How long the connection IDs of a new path are waited for, and how often one looks.
const IDS_WITHIN: Duration = Duration::from_secs(3);
const IDS_EVERY: Duration = Duration::from_millis(5);

/// A path of a connection.
///
/// The handle stays valid when the path is gone; its calls then have no effect.
#[derive(Clone, Debug)]
pub struct Path {
    connection: Connection,
    id: DataSpace,
}

impl Path {
    /// Its identifier, the same at both ends; 0 for the path of the handshake.
    pub fn id(&self) -> DataSpace {
        self.id
    }

    /// What is known of it: addresses, state, figures. `None` once it is gone.
    pub fn stats(&self) -> Option<PathReport> {
        self.connection.path_reports().into_iter().find(|report| report.id == self.id)
    }

    /// Tells the peer whether to send on it only while no other path can be used. Returns whether the path is there.
    pub fn set_backup(&self, is_backup: bool) -> bool {
        self.connection.with_machine(|machine, _| machine.set_path_backup(self.id, is_backup))
    }

    /// Queues an unreliable datagram (RFC 9221) for this path, as [`Connection::send_datagram`] does for any. It must
    /// fit a packet of this path. If the path does not answer, or goes, before it has left, it leaves on another.
    ///
    /// # Errors
    ///
    /// If the path is not open, or the datagram was not queued.
    pub fn send_datagram(&self, data: Bytes) -> Result<(), PinError> {
        self.connection.with_machine(|machine, _| machine.send_datagram_on(self.id, data))
    }

    /// Gives the path up; what is under way on it is delivered by the others.
    ///
    /// # Errors
    ///
    /// If it is gone, or the only one.
    pub fn close(&self) -> Result<(), ClosePathError> {
        let code = TransportErrorCode::APPLICATION_ABANDON_PATH;
        self.connection.with_machine(|machine, now| machine.close_path(now, self.id, code))
    }
}

impl Connection {
    /// Whether both ends have agreed to use several paths at once ([`TransportConfig::multipath`]).
    ///
    /// [`TransportConfig::multipath`]: crate::TransportConfig::multipath
    pub fn is_multipath(&self) -> bool {
        self.with_machine(|machine, _| machine.is_multipath())
    }

    /// The paths there are, by ascending identifier.
    pub fn paths(&self) -> Vec<Path> {
        let reports = self.path_reports();
        reports.into_iter().map(|report| Path { connection: self.clone(), id: report.id }).collect()
    }

    fn path_reports(&self) -> Vec<PathReport> {
        self.with_machine(|machine, _| machine.paths().collect())
    }

    /// Client: opens a path from `local`, to the server's address or to `remote`, and waits until the server has
    /// answered there. For `local` to be used, there must be a socket for it
    /// ([`Endpoint::add_socket`](crate::Endpoint::add_socket)), or the endpoint's own be bound to all addresses.
    ///
    /// Cancel-safe: a path that is being opened when the future is dropped goes on being opened.
    ///
    /// # Errors
    ///
    /// If several paths were not agreed upon, if no more are permitted, or if the path does not work.
    pub async fn open_path(&self, local: Option<IpAddr>, remote: Option<SocketAddr>) -> Result<Path, OpenPathError> {
        let mut events = self.path_events();
        let started = tokio::time::Instant::now();
        let id = loop {
            match self.with_machine(|machine, now| machine.open_path(now, local, remote)) {
                // Both are a matter of a round trip or two.
                Err(OpenPathError::NoConnectionIds | OpenPathError::NotConfirmed)
                    if started.elapsed() < IDS_WITHIN && self.close_reason().is_none() =>
                {
                    tokio::time::sleep(IDS_EVERY).await;
                }
                result => break result?,
            }
        };
        loop {
            match events.next().await {
                Some(PathEvent::Opened { id: opened, .. }) if opened == id => {
                    return Ok(Path { connection: self.clone(), id });
                }
                Some(PathEvent::Abandoned { id: gone, .. }) if gone == id => return Err(OpenPathError::NoAnswer),
                Some(_) => {}
                None => return Err(OpenPathError::NotConfirmed),
            }
        }
    }
}
