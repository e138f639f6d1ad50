//! The client: files over HTTP/3, over HTTPS on TCP when UDP does not get through.
//!
//! A [`Fetcher`] holds the settings and the connections: one per host and port, shared by all files from there.

mod ahead;
mod ask;
mod broken;
mod dial;
mod error;
mod exchange;
mod head;
mod liveness;
mod pace;
mod part;
mod paths;
mod put;
mod quic;
mod race;
mod report;
mod retry;
mod session;
mod stream;
mod transfer;
mod trust;
mod url;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http::HeaderMap;
use thalweg::{SavedPaths, TransportConfig};
use thalweg_output::Place;
use tokio::sync::{OnceCell, Semaphore, watch};
use tokio::task::JoinSet;

use crate::content::Pool;
use dial::Dialer;
use pace::Limiter;
use quic::Quic;
use report::EventSinkRef;
use retry::Run;
use session::Session;
use transfer::Transfer;
use trust::ClientTls;
use url::Location;

pub use dial::Preference;
pub use error::{Attempt, Category, Error, Kept, Untrusted};
pub use paths::Multipath;
pub use report::{ConnectionReport, Event, EventSink, Notice, PathFigures, Protocol, Report};
pub use transfer::Target;
pub use trust::Trust;
pub use url::{check_url, file_name};

/// Settings of a [`Fetcher`].
#[derive(Clone)]
#[non_exhaustive]
pub struct FetchOptions {
    /// Whom to trust. Default: the system's authorities.
    pub trust: Trust,
    /// Which transports to use. Default: QUIC, then TCP.
    pub preference: Preference,
    /// Headers for every request; they replace ours of the same name. Not sent to other hosts after a redirect.
    pub headers: HeaderMap,
    /// Limit on the sum of all downloads and on uploads, in bytes per second. Default: none.
    pub limit_rate: Option<u64>,
    /// Continue partial files whose entity tag, or modification date where there is no tag, still matches. Default: no,
    /// they are replaced.
    pub resume: bool,
    /// How often a download whose connection was lost is tried again without getting any further; 0 is never. It
    /// continues where it broke off if the server gave a strong validator. Default 5.
    pub retries: u32,
    /// How many files at once. Default 16; the server may allow fewer.
    pub parallel: usize,
    /// Longest time for a connection. Default 15 s.
    pub connect_timeout: Duration,
    /// Longest silence in an exchange. Default 30 s.
    pub idle_timeout: Duration,
    /// How long QUIC may be silent before TCP is tried beside it. Default 3 s: a handshake over two satellite hops
    /// takes 1.2 s.
    pub quic_patience: Duration,
    /// Whether to remember, for the life of the fetcher, the TLS sessions and address tokens that QUIC servers give. A
    /// later connection to the same host and port then resumes, and its first requests travel with the first packets
    /// (0-RTT) if the server allows it. What travels so can be replayed by an attacker, so only GET does. Default: yes.
    pub tickets: bool,
    /// Where what `tickets` allows to be remembered is kept beyond the life of the fetcher, TLS sessions excepted: the
    /// address tokens of QUIC servers, which hold what they have saved of the path, and what uploads have.
    /// [`SavedPaths::save`] after [`Fetcher::close`] writes it. Default: nowhere.
    pub saved_paths: Option<Arc<SavedPaths>>,
    /// How many redirects to follow. Default 5.
    pub max_redirects: usize,
    /// Addresses to use for host names (in lower case) instead of asking the resolver.
    pub addresses: BTreeMap<String, Vec<IpAddr>>,
    /// How QUIC connections behave (recovery policies, observers, windows). Default: [`FetchOptions::bulk_transport`].
    /// A rate limit lowers the receive windows to a second's worth.
    pub transport: Option<Arc<TransportConfig>>,
    /// The network interfaces that a QUIC connection uses at once, if the server permits that. Default: none in
    /// particular, one path.
    pub multipath: Option<Multipath>,
    /// Whether to write TLS secrets to the file that the environment variable `SSLKEYLOGFILE` names. Default: no.
    pub key_log: bool,
}

impl FetchOptions {
    /// The QUIC settings used when none are given, to change from: the transport's defaults, with 64 MiB of
    /// flow-control credit from the start.
    #[must_use]
    pub fn bulk_transport() -> TransportConfig {
        quic::bulk_transport()
    }
}

impl Default for FetchOptions {
    fn default() -> Self {
        Self {
            trust: Trust::default(),
            preference: Preference::default(),
            headers: HeaderMap::new(),
            limit_rate: None,
            resume: false,
            retries: 5,
            parallel: 16,
            connect_timeout: Duration::from_secs(15),
            idle_timeout: Duration::from_secs(30),
            quic_patience: Duration::from_secs(3),
            tickets: true,
            saved_paths: None,
            max_redirects: 5,
            addresses: BTreeMap::new(),
            transport: None,
            multipath: None,
            key_log: false,
        }
    }
}

/// A file to fetch.
pub struct Job {
    /// From where; `https://` may be left out.
    pub url: String,
    /// To where.
    pub target: Target,
}

impl Job {
    /// Fetches `url` to the file `path`.
    pub fn to_file(url: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        Self { url: url.into(), target: Target::File(path.into()) }
    }
}

/// A connection or the failure to make one, and when it was known.
type Cell = Arc<OnceCell<(Instant, Result<Arc<Session>, Error>)>>;

/// What transfers share.
struct Inner {
    options: FetchOptions,
    dialer: Dialer,
    limiter: Option<Arc<Limiter>>,
    pool: Arc<Pool>,
    sessions: Mutex<BTreeMap<String, Cell>>,
    stop: watch::Sender<bool>,
}

impl Inner {
    /// The connection to a location's authority; made if there is none. Failures are remembered until the next batch,
    /// so that a hundred files from a dead host do not wait a hundred times; one from before `since` is too old.
    async fn session(
        &self,
        location: &Location,
        sink: &EventSinkRef,
        since: Option<Instant>,
        early: bool,
    ) -> Result<Arc<Session>, Error> {
        let authority = location.authority();
        let mut successor = None;
        loop {
            let cell = match self.sessions.lock() {
                Ok(mut sessions) => Arc::clone(sessions.entry(authority.clone()).or_default()),
                Err(_) => Cell::default(),
            };
            let found = successor.take();
            let make = || async {
                let made = match found {
                    Some(session) => Ok(session),
                    None => self.dialer.dial(location, sink, early).await.map(|session| {
                        let session = Arc::new(session);
                        liveness::watch(&session, &self.dialer.quic, &location.host);
                        session
                    }),
                };
                (Instant::now(), made)
            };
            match cell.get_or_init(make).await {
                (_, Ok(session)) if session.is_closed() => successor = session.successor(),
                (at, Err(_)) if since.is_some_and(|since| *at < since) => {}
                (_, result) => return result.clone(),
            }
            if let Ok(mut sessions) = self.sessions.lock()
                && sessions.get(&authority).is_some_and(|kept| Arc::ptr_eq(kept, &cell))
            {
                sessions.remove(&authority);
            }
        }
    }

    fn forget_failures(&self) {
        if let Ok(mut sessions) = self.sessions.lock() {
            sessions.retain(|_, cell| !matches!(cell.get(), Some((_, Err(_)))));
        }
    }

    /// Ready once [`Fetcher::stop`] was called.
    async fn stopped(&self) {
        let _ = self.stop.subscribe().wait_for(|stop| *stop).await;
    }
}

/// Gets and puts files. Cheap to clone; clones share connections, limits and the stop.
#[derive(Clone)]
pub struct Fetcher {
    inner: Arc<Inner>,
}

impl Fetcher {
    /// Prepares to fetch.
    ///
    /// # Errors
    /// [`Error::Settings`] when the certificates to trust cannot be used, or there is no network interface of a name.
    pub fn new(options: FetchOptions) -> Result<Self, Error> {
        if let Some(multipath) = &options.multipath {
            multipath.check()?;
        }
        let tls = ClientTls::new(&options.trust, options.key_log)?;
        Ok(Self {
            inner: Arc::new(Inner {
                dialer: Dialer {
                    quic: Quic::new(
                        Arc::clone(&tls.quic),
                        options.transport.clone(),
                        options.limit_rate,
                        options.tickets,
                        options.saved_paths.clone(),
                        options.quic_patience,
                    )
                    .several_paths(options.multipath.clone()),
                    tls,
                    preference: options.preference,
                    connect_timeout: options.connect_timeout,
                    quic_patience: options.quic_patience,
                    idle_timeout: options.idle_timeout,
                    tcp_window: options.limit_rate.map(quic::window_for),
                    addresses: options.addresses.clone(),
                },
                limiter: options.limit_rate.map(|rate| Arc::new(Limiter::new(rate))),
                pool: Arc::default(),
                sessions: Mutex::default(),
                stop: watch::Sender::new(false),
                options,
            }),
        })
    }

    /// Fetches files, several at once; the results are in the order of the jobs.
    ///
    /// Dropping the future abandons the transfers and keeps what was written; [`stop`](Self::stop) does so with a
    /// message.
    pub async fn get(&self, jobs: Vec<Job>, events: Option<EventSink>) -> Vec<Result<Report, Error>> {
        let sink = EventSinkRef(events);
        self.inner.forget_failures();
        let twice = same_targets(&jobs);
        let permits = Arc::new(Semaphore::new(self.inner.options.parallel.max(1)));
        let mut results: Vec<Option<Result<Report, Error>>> = jobs.iter().map(|_| None).collect();
        let mut running = JoinSet::new();
        for (index, job) in jobs.into_iter().enumerate() {
            if twice.contains(&index) {
                results[index] = Some(Err(Error::Settings(format!(
                    "{}: another file of the same run goes to the same name; give each its own",
                    job.url
                ))));
                continue;
            }
            let (inner, sink, permits) = (Arc::clone(&self.inner), sink.clone(), Arc::clone(&permits));
            running.spawn(async move {
                let _permit = permits.acquire_owned().await;
                let run = Run::default();
                let transfer = Transfer { inner: &inner, job: index, sink: sink.clone(), url: job.url, run };
                let result = transfer.get(job.target).await;
                let ok = result.is_ok();
                sink.emit(&Event::Finished { job: index, ok });
                (index, result)
            });
        }
        while let Some(ended) = running.join_next().await {
            if let Ok((index, result)) = ended
                && let Some(slot) = results.get_mut(index)
            {
                *slot = Some(result);
            }
        }
        let lost = || Err(Error::Settings("a transfer ended without a result; this is a bug".into()));
        results.into_iter().map(|result| result.unwrap_or_else(lost)).collect()
    }

    /// Sends the file at `path` to `url` with PUT. A URL that ends in `/` gets the file's name appended.
    ///
    /// # Errors
    /// What went wrong; the server stores nothing unless everything arrived.
    pub async fn put(
        &self,
        path: impl AsRef<Path>,
        url: impl Into<String>,
        events: Option<EventSink>,
    ) -> Result<Report, Error> {
        self.inner.forget_failures();
        let sink = EventSinkRef(events);
        let transfer =
            Transfer { inner: &self.inner, job: 0, sink: sink.clone(), url: url.into(), run: Run::default() };
        let result = transfer.put(path.as_ref()).await;
        let ok = result.is_ok();
        sink.emit(&Event::Finished { job: 0, ok });
        result
    }

    /// Ends all transfers of this fetcher, now and later, with [`Error::Stopped`]; what arrived is written first.
    pub fn stop(&self) {
        self.inner.stop.send_replace(true);
    }

    /// Closes the connections and gives the peers a moment to receive the close.
    pub async fn close(&self) {
        let cells = match self.inner.sessions.lock() {
            Ok(mut sessions) => std::mem::take(&mut *sessions),
            Err(_) => return,
        };
        for cell in cells.into_values() {
            if let Some((_, Ok(session))) = cell.get() {
                session.close().await;
            }
        }
    }
}

/// Jobs whose file an earlier job already writes to.
fn same_targets(jobs: &[Job]) -> BTreeSet<usize> {
    let mut seen = BTreeSet::new();
    let mut twice = BTreeSet::new();
    for (index, job) in jobs.iter().enumerate() {
        if let Target::File(path) = &job.target
            // Several names may lead to one file.
            && !seen.insert(Place::of(path).map_or_else(|_| path.clone(), |place| place.path().to_owned()))
        {
            twice.insert(index);
        }
    }
    twice
}
