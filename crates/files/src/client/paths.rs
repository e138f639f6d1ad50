//! Several network interfaces for one connection: a path by each of them, opened as they come up.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use thalweg::{
    Connection, DataSpace, Endpoint, EndpointBuilder, Interface, InterfaceChanges, InterfaceError, OpenPathError,
};
use tokio::time::{Instant, sleep, timeout};

use super::error::Error;
use super::report::{Event, EventSinkRef, Notice, PathFigures};

/// How often the interfaces are looked at in case that nothing was reported.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// A change is reported in several messages.
const SETTLED: Duration = Duration::from_millis(5);
/// How often figures are reported.
const REPORT_EVERY: Duration = Duration::from_millis(200);
/// How soon a path that does not work is tried again; the time doubles with every attempt, up to the second one.
const AGAIN: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(60)];

/// Which network interfaces a connection uses at once, each with a path of its own. Linux only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Multipath {
    /// Their names, the one to connect by first. Empty: all that have a route to the server, in the system's order.
    pub interfaces: Vec<String>,
    /// Those of them that the server is to send by only while no other works.
    pub backup: Vec<String>,
}

impl Multipath {
    /// By all interfaces that have a route to the server.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether there are such interfaces. [`Fetcher::new`](super::Fetcher::new) asks, too.
    ///
    /// # Errors
    /// [`Error::Settings`] if there is none of a name, if a backup is not among those to use, or if the system cannot
    /// choose interfaces.
    pub fn check(&self) -> Result<(), Error> {
        let settings = |why: String| Error::Settings(why);
        if !cfg!(target_os = "linux") {
            return Err(settings(InterfaceError::Unsupported.to_string()));
        }
        for name in self.interfaces.iter().chain(&self.backup) {
            Interface::check(name).map_err(|error| settings(error.to_string()))?;
        }
        match self.backup.iter().find(|name| !self.interfaces.is_empty() && !self.interfaces.contains(name)) {
            Some(name) => Err(settings(format!(
                "{name} is to be a backup, but is not among the interfaces to use: {}",
                self.interfaces.join(", ")
            ))),
            None => Ok(()),
        }
    }

    /// The interfaces that lead to `remote` now, the one to connect by first, and why others do not. No two have the
    /// same address: what leaves by one of them could not be told from what leaves by the other.
    fn usable(&self, remote: SocketAddr) -> (Vec<Interface>, Vec<InterfaceError>) {
        if self.interfaces.is_empty() {
            return (Interface::toward(remote), Vec::new());
        }
        let (mut usable, mut refused): (Vec<Interface>, _) = (Vec::new(), Vec::new());
        for name in &self.interfaces {
            match Interface::named(name, remote) {
                Ok(interface) if usable.iter().any(|known| known.local() == interface.local()) => {
                    let why = std::io::Error::other("it has no address of its own");
                    refused.push(InterfaceError::Unreachable { name: name.clone(), remote: remote.ip(), why });
                }
                Ok(interface) => usable.push(interface),
                Err(error) => refused.push(error),
            }
        }
        (usable, refused)
    }

    /// By how many ways [`endpoint`](Self::endpoint) can connect to `remote`, at least one.
    pub(super) fn ways(&self, remote: SocketAddr) -> usize {
        self.usable(remote).0.len().max(1)
    }

    /// An endpoint that connects to `remote` by the interface of this number among those that lead there, or by
    /// whichever the system takes if there is none.
    pub(super) fn endpoint(
        &self,
        remote: SocketAddr,
        any: SocketAddr,
        number: usize,
    ) -> std::io::Result<(Endpoint, Known)> {
        let (usable, refused) = self.usable(remote);
        let builder = EndpointBuilder::new();
        let endpoint = match usable.get(number) {
            Some(interface) => builder.with_socket(interface.bind()?)?,
            None => builder.bind(any)?,
        };
        let first = usable.get(number).map(|interface| (interface.name().to_owned(), interface.local()));
        let notice = match (&usable[..], &refused[..]) {
            ([_, _, ..], []) => None,
            (_, [_, ..]) => Some(refused.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")),
            ([only], []) => Some(format!("only {} leads to {}", only.name(), remote.ip())),
            ([], []) => Some(format!("the network interface to {} cannot be chosen", remote.ip())),
        };
        let notice = notice.map(|why| Notice::FewerPaths { why, paths: usable.len().max(1) });
        let first = first.map(|(name, local)| Line { name, local, id: DataSpace::FIRST, gone: None });
        Ok((endpoint, Known { lines: first.into_iter().collect(), notice }))
    }
}

/// What is known of the paths of a connection before it is there.
#[derive(Debug, Default)]
pub(super) struct Known {
    lines: Vec<Line>,
    /// What the user should know.
    pub notice: Option<Notice>,
}

impl Known {
    /// The interface of the first path, if one was chosen.
    pub(super) fn interface(&self) -> Option<&str> {
        self.lines.first().map(|line| line.name.as_str())
    }
}

/// A path by an interface.
#[derive(Debug)]
struct Line {
    name: String,
    local: IpAddr,
    id: DataSpace,
    /// Its last figures, once it was given up.
    gone: Option<PathFigures>,
}

/// The paths of a connection by several interfaces.
#[derive(Debug)]
pub(super) struct Paths {
    connection: Connection,
    endpoint: Endpoint,
    lines: Mutex<Vec<Line>>,
    /// The last figures of those that are there.
    latest: Mutex<BTreeMap<DataSpace, PathFigures>>,
}

impl Paths {
    /// Opens a path by every interface that `multipath` names, now and when it comes up, for as long as the connection
    /// lives.
    pub(super) fn keep(
        multipath: Multipath,
        connection: Connection,
        endpoint: Endpoint,
        known: Known,
        sink: EventSinkRef,
    ) -> Arc<Self> {
        let lines = Mutex::new(known.lines);
        let paths = Arc::new(Self { connection, endpoint, lines, latest: Mutex::default() });
        if let Some(notice) = known.notice {
            sink.notice(notice);
        }
        let weak = Arc::downgrade(&paths);
        let keeper = Keeper { multipath, paths: weak.clone(), sink: sink.clone(), failed: BTreeMap::new() };
        tokio::spawn(keeper.run());
        tokio::spawn(async move {
            while let Some(paths) = weak.upgrade().filter(|paths| paths.connection.close_reason().is_none()) {
                sink.emit(&Event::Paths { remote: paths.connection.remote_address(), paths: paths.figures() });
                drop(paths);
                sleep(REPORT_EVERY).await;
            }
        });
        paths
    }

    /// Figures of every path there is or was, by identifier.
    pub(super) fn figures(&self) -> Vec<PathFigures> {
        let mut lines = self.lines();
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let mut present = BTreeMap::new();
        for report in self.connection.paths().into_iter().filter_map(|path| path.stats()) {
            let line = lines.iter().find(|line| line.id == report.id);
            // One by which the server has not answered yet is no path to tell of.
            if line.is_none() && !report.is_open {
                continue;
            }
            let figures = PathFigures {
                id: report.id.0,
                interface: line.map(|line| line.name.clone()),
                local: report.local.or(line.map(|line| line.local)),
                remote: report.remote,
                is_open: report.is_open,
                is_backup: report.is_backup,
                rtt: report.rtt,
                min_rtt: report.min_rtt,
                bytes_received: report.bytes_received,
                bytes_sent: report.stats.bytes_sent,
                packets_sent: report.stats.packets_sent,
                packets_lost: report.stats.packets_lost,
            };
            present.insert(report.id, figures);
        }
        for (id, figures) in std::mem::replace(&mut *latest, present.clone()) {
            if !present.contains_key(&id)
                && let Some(line) = lines.iter_mut().find(|line| line.id == id)
            {
                line.gone = Some(PathFigures { is_open: false, ..figures });
            }
        }
        let gone = lines.iter().filter_map(|line| line.gone.clone().map(|figures| (line.id, figures)));
        let mut all: BTreeMap<DataSpace, PathFigures> = gone.collect();
        all.extend(present);
        all.into_values().collect()
    }

    fn lines(&self) -> MutexGuard<'_, Vec<Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The interface has another address now: paths from its former ones lead nowhere.
    fn close_former(&self, interface: &Interface) {
        self.close(|line| line.name == interface.name() && line.local != interface.local());
    }

    /// Closes paths whose interface is down or has no address left: what was sent by them leaves again by others now,
    /// not after a timeout. While none is usable, all are kept, as one may come back.
    fn close_gone(&self, usable: &[Interface]) {
        if !usable.is_empty() {
            self.close(|line| usable.iter().all(|interface| interface.name() != line.name));
        }
    }

    fn close(&self, is_over: impl Fn(&Line) -> bool) {
        let lines = self.lines();
        let over: Vec<DataSpace> =
            lines.iter().filter(|line| line.gone.is_none() && is_over(line)).map(|line| line.id).collect();
        for path in self.connection.paths().iter().filter(|path| over.contains(&path.id())) {
            // It may have been given up already.
            let _ = path.close();
        }
    }
}

/// Opens paths. It does not keep the connection alive.
struct Keeper {
    multipath: Multipath,
    paths: Weak<Paths>,
    sink: EventSinkRef,
    /// When to try again what did not work, and how long that is after the last attempt.
    failed: BTreeMap<IpAddr, (Instant, Duration)>,
}

impl Keeper {
    async fn run(mut self) {
        if !self.begin().await {
            return;
        }
        let mut changes = InterfaceChanges::watch().ok();
        while let Some(paths) = self.paths.upgrade().filter(|paths| paths.connection.close_reason().is_none()) {
            let (usable, _) = self.multipath.usable(paths.connection.remote_address());
            paths.close_gone(&usable);
            for interface in usable {
                if self.is_due(&paths, interface.local()) {
                    self.open(&paths, &interface).await;
                }
            }
            drop(paths);
            let changed = async {
                match &mut changes {
                    Some(changes) => changes.next().await,
                    None => std::future::pending().await,
                }
            };
            match timeout(LOOK_EVERY, changed).await {
                Ok(Ok(())) => sleep(SETTLED).await,
                Ok(Err(_)) => changes = None,
                Err(_) => {}
            }
        }
    }

    /// Waits for the end of the handshake. Returns whether there can be several paths.
    async fn begin(&self) -> bool {
        let Some(paths) = self.paths.upgrade() else { return false };
        let connection = &paths.connection;
        if connection.handshake_complete().await.is_err() {
            return false;
        }
        if !connection.is_multipath() {
            let why = "the server uses one path at a time".to_owned();
            self.sink.notice(Notice::FewerPaths { why, paths: 1 });
            return false;
        }
        let first = paths.lines().iter().find(|line| line.id == DataSpace::FIRST).map(|line| line.name.clone());
        if first.is_some_and(|name| self.multipath.backup.contains(&name))
            && let Some(path) = connection.paths().first()
        {
            path.set_backup(true);
        }
        true
    }

    /// Whether a path from this address is missing, and to be tried now.
    fn is_due(&self, paths: &Paths, local: IpAddr) -> bool {
        let present: Vec<DataSpace> = paths.connection.paths().iter().map(thalweg::Path::id).collect();
        let is_there = paths.lines().iter().any(|line| line.local == local && present.contains(&line.id));
        !is_there && self.failed.get(&local).is_none_or(|(again, _)| *again <= Instant::now())
    }

    async fn open(&mut self, paths: &Paths, interface: &Interface) {
        let (name, local) = (interface.name().to_owned(), interface.local());
        let result = match interface.bind().and_then(|socket| paths.endpoint.add_socket(socket)) {
            Ok(local) => paths.connection.open_path(Some(local), None).await,
            // The address has gone in the meantime.
            Err(_) => Err(OpenPathError::NoAnswer),
        };
        match result {
            Ok(path) => {
                self.failed.remove(&local);
                if self.multipath.backup.contains(&name) {
                    path.set_backup(true);
                }
                paths.lines().push(Line { name, local, id: path.id(), gone: None });
                paths.close_former(interface);
            }
            Err(error) => {
                let again = self.failed.get(&local).map_or(AGAIN[0], |(_, last)| (*last * 2).min(AGAIN[1]));
                if self.failed.insert(local, (Instant::now() + again, again)).is_none() {
                    self.sink.notice(Notice::PathFailed { interface: name, why: error.to_string() });
                }
            }
        }
    }
}
