//! A server and a client on loopback.

#[cfg(target_os = "linux")]
pub mod child;

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use thalweg_files::certificate::{CertificateStore, Identity};
use thalweg_files::client::{Error, Event, EventSink, FetchOptions, Fetcher, Job, Notice, Preference, Report, Trust};
use thalweg_files::server::{Server, ServerOptions};
use thalweg_files::site::{Site, SiteOptions, UploadOptions};
use tokio::net::UdpSocket;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};

pub struct Host {
    pub dir: tempfile::TempDir,
    pub address: SocketAddr,
    pub identity: Identity,
    pub log: Arc<Mutex<Vec<String>>>,
    stop: Option<oneshot::Sender<()>>,
    task: Option<JoinHandle<()>>,
    /// The server's own, so that a crash takes everything of it: a connection that it left to a shared runtime would
    /// keep the port for as long as it drains, and turn away clients of the next server.
    runtime: Option<Runtime>,
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Host {
    pub async fn new() -> Self {
        Self::with(|_| {}).await
    }

    pub async fn with(change: impl FnOnce(&mut ServerOptions)) -> Self {
        let mut host = Self {
            dir: tempfile::tempdir().unwrap(),
            address: "127.0.0.1:0".parse().unwrap(),
            identity: Identity::self_signed::<&str>(&[]).unwrap(),
            log: Arc::default(),
            stop: None,
            task: None,
            runtime: None,
        };
        host.start(change).await;
        host
    }

    /// Starts the server, on the same port if it ran before.
    pub async fn start(&mut self, change: impl FnOnce(&mut ServerOptions)) {
        let mut options = SiteOptions::default();
        options.upload = Some(UploadOptions::default());
        let site = Site::new(self.dir.path(), options).unwrap();
        let store = CertificateStore::new(&self.identity).unwrap();
        let mut options = ServerOptions::new(self.address, site, store);
        let log = Arc::clone(&self.log);
        options.access_log = Some(Arc::new(move |record| log.lock().unwrap().push(record.to_string())));
        change(&mut options);
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let server = runtime.spawn(Server::bind(options)).await.unwrap().unwrap();
        self.address = server.local_addr();
        let (stop, stopped) = oneshot::channel();
        self.stop = Some(stop);
        self.task = Some(runtime.spawn(server.run(async {
            let _ = stopped.await;
        })));
        self.runtime = Some(runtime);
    }

    /// Ends the server at once, as a crash would: it says nothing to anyone, and its sockets are closed.
    pub async fn kill(&mut self) {
        self.task = None;
        if let Some(runtime) = self.runtime.take() {
            // Waits until the runtime's tasks are gone, and no longer than that takes.
            tokio::task::spawn_blocking(|| runtime.shutdown_timeout(Duration::from_secs(10))).await.unwrap();
        }
    }

    /// Asks the server to stop and waits until it has.
    pub async fn stop(&mut self) {
        self.ask_to_stop();
        self.task.take().unwrap().await.unwrap();
        self.kill().await;
    }

    pub fn ask_to_stop(&mut self) {
        let _ = self.stop.take().unwrap().send(());
    }

    /// The access log once it has `count` lines: a record is written when its answer is let go, which is not quite when
    /// the client has it.
    pub async fn log_lines(&self, count: usize) -> Vec<String> {
        for _ in 0..500 {
            if self.log.lock().unwrap().len() >= count {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.log.lock().unwrap().clone()
    }

    pub fn file(&self, name: &str, data: &[u8]) -> &Self {
        std::fs::write(self.dir.path().join(name), data).unwrap();
        self
    }

    pub fn url(&self, path: &str) -> String {
        format!("https://localhost:{}/{path}", self.address.port())
    }

    pub fn options(&self, preference: Preference) -> FetchOptions {
        let mut options = FetchOptions::default();
        options.trust = Trust::Certificates(self.identity.chain().to_vec());
        options.preference = preference;
        options.idle_timeout = Duration::from_secs(5);
        options.connect_timeout = Duration::from_secs(10);
        options.addresses.insert("localhost".into(), vec![[127, 0, 0, 1].into()]);
        options
    }

    pub fn fetcher(&self, preference: Preference) -> Fetcher {
        Fetcher::new(self.options(preference)).unwrap()
    }
}

/// Bytes that compress and repeat nowhere.
pub fn sample(size: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64 ^ size as u64;
    let mut data = Vec::with_capacity(size + 8);
    while data.len() < size {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        data.extend_from_slice(&state.to_le_bytes());
    }
    data.truncate(size);
    data
}

/// A sink that collects events, and calls `action` once when `bytes` have arrived.
#[derive(Clone, Default)]
pub struct Recorder {
    pub events: Arc<Mutex<Vec<Event>>>,
}

impl Recorder {
    pub fn sink(&self) -> EventSink {
        self.when(u64::MAX, || {})
    }

    pub fn when(&self, bytes: u64, action: impl FnOnce() + Send + 'static) -> EventSink {
        let events = Arc::clone(&self.events);
        let action = Mutex::new(Some(action));
        Arc::new(move |event| {
            if let Event::Progress { bytes: now, .. } = event
                && *now >= bytes
                && let Some(action) = action.lock().unwrap().take()
            {
                action();
            }
            events.lock().unwrap().push(event.clone());
        })
    }

    pub fn notices(&self) -> Vec<Notice> {
        let events = self.events.lock().unwrap();
        events
            .iter()
            .filter_map(|event| match event {
                Event::Notice(notice) => Some(notice.clone()),
                _ => None,
            })
            .collect()
    }
}

pub async fn get_one(fetcher: &Fetcher, url: String, path: &Path, sink: Option<EventSink>) -> Result<Report, Error> {
    fetcher.get(vec![Job::to_file(url, path)], sink).await.pop().unwrap()
}

/// Fails when a message for people has the marks of Rust's debug output.
pub fn assert_plain(text: &str) {
    for mark in ["{", "}", "Some(", "None", "Os ", "kind:", "Err(", "Ok(", "Name(", "Address(", "\\\"", "Error(", "()"]
    {
        assert!(!text.contains(mark), "{mark:?} in: {text}");
    }
    // The libraries' own words.
    for words in ["reading a body", "stream error", "http2 error", "connection error", "operation was canceled"] {
        assert!(!text.contains(words), "{words:?} in: {text}");
    }
    // Names of enums and their variants: two capitals with lower case between them, as in UnknownIssuer.
    let known = ["kB", "KiB", "MiB", "GiB"];
    // The hash of a key, in Base64, is no word.
    let text = text.split(" (its key is").next().unwrap();
    for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !known.contains(word)) {
        let humps = word.as_bytes().windows(2).filter(|two| two[0].is_ascii_lowercase() && two[1].is_ascii_uppercase());
        assert_eq!(humps.count(), 0, "{word:?} in: {text}");
    }
}

/// A directory to download into.
pub struct Downloads(pub tempfile::TempDir);

impl Downloads {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.0.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

/// A UDP relay between clients and a server, which can be cut, and which can get another address as a NAT does. Each
/// socket of a client has a way of its own: what the server sends on one connection never goes to another.
pub struct Relay {
    pub address: SocketAddr,
    cut: Arc<AtomicBool>,
    rebind: Arc<Notify>,
    forsake: Arc<Notify>,
    task: JoinHandle<()>,
}

/// What all ways of a relay have in common.
#[derive(Clone)]
struct Line {
    front: Arc<UdpSocket>,
    server: SocketAddr,
    cut: Arc<AtomicBool>,
    /// How many of a hundred datagrams are lost.
    percent: u64,
    delay: Duration,
    held: mpsc::UnboundedSender<(tokio::time::Instant, Arc<UdpSocket>, Vec<u8>, SocketAddr)>,
}

impl Line {
    /// Passes a datagram on, now or later. Errors are what UDP errors are: nothing.
    async fn pass(&self, chance: &mut u64, socket: &Arc<UdpSocket>, datagram: &[u8], to: SocketAddr) {
        *chance ^= *chance << 13;
        *chance ^= *chance >> 7;
        *chance ^= *chance << 17;
        if self.cut.load(Ordering::Relaxed) || *chance % 100 < self.percent {
            return;
        }
        if self.delay.is_zero() {
            let _ = socket.send_to(datagram, to).await;
        } else {
            let due = tokio::time::Instant::now() + self.delay;
            let _ = self.held.send((due, Arc::clone(socket), datagram.to_vec(), to));
        }
    }

    /// A way for a client: the socket that the server sees, and the task that carries its answers.
    async fn way(&self, client: SocketAddr) -> (Arc<UdpSocket>, JoinSet<()>) {
        let back = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
        let (line, answers) = (self.clone(), Arc::clone(&back));
        let mut carrying = JoinSet::new();
        carrying.spawn(async move {
            let (mut datagram, mut chance) = (vec![0; 65536], 0x9e37_79b9_7f4a_7c15);
            loop {
                if let Ok((size, from)) = answers.recv_from(&mut datagram).await
                    && from == line.server
                {
                    line.pass(&mut chance, &line.front, &datagram[..size], client).await;
                }
            }
        });
        (back, carrying)
    }
}

impl Relay {
    pub async fn new(server: SocketAddr) -> Self {
        Self::losing(server, 0).await
    }

    /// A relay that drops `percent` of the datagrams in both directions, by a fixed sequence.
    pub async fn losing(server: SocketAddr, percent: u64) -> Self {
        Self::with(server, percent, Duration::ZERO).await
    }

    /// A relay that holds every datagram for `delay`.
    pub async fn slow(server: SocketAddr, delay: Duration) -> Self {
        Self::with(server, 0, delay).await
    }

    async fn with(server: SocketAddr, percent: u64, delay: Duration) -> Self {
        let front = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
        let address = front.local_addr().unwrap();
        let cut: Arc<AtomicBool> = Arc::default();
        let (rebind, forsake): (Arc<Notify>, Arc<Notify>) = Default::default();
        let (rebinding, forsaking) = (Arc::clone(&rebind), Arc::clone(&forsake));
        // In order: a ticket must not be overtaken by the answer behind it.
        let (held, mut holding) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some((due, socket, bytes, to)) = holding.recv().await {
                tokio::time::sleep_until(due).await;
                let (socket, bytes): (Arc<UdpSocket>, Vec<u8>) = (socket, bytes);
                let _ = socket.send_to(&bytes, to).await;
            }
        });
        let line = Line { front, server, cut: Arc::clone(&cut), percent, delay, held };
        let task = tokio::spawn(async move {
            let (mut datagram, mut chance) = (vec![0; 65536], 0x2545_f491_4f6c_dd1d);
            let mut ways = BTreeMap::new();
            let mut forsaken = BTreeSet::new();
            loop {
                tokio::select! {
                    got = line.front.recv_from(&mut datagram) => {
                        let Ok((size, from)) = got else { continue };
                        // No packet (RFC 9000 section 17.2), as when a client asks from another socket whether the port
                        // is open.
                        if forsaken.contains(&from) || datagram[0] & 0x40 == 0 {
                            continue;
                        }
                        if let Entry::Vacant(vacant) = ways.entry(from) {
                            vacant.insert(line.way(from).await);
                        }
                        line.pass(&mut chance, &ways[&from].0, &datagram[..size], server).await;
                    }
                    () = forsaking.notified() => forsaken.extend(std::mem::take(&mut ways).into_keys()),
                    // What is on its way to the old address is lost.
                    () = rebinding.notified() => for (client, way) in &mut ways {
                        *way = line.way(*client).await;
                    },
                }
            }
        });
        Self { address, cut, rebind, forsake, task }
    }

    /// From now on nothing passes from or to the present clients' addresses.
    pub fn forsake(&self) {
        self.forsake.notify_one();
    }

    /// A switch that gives the client another address in the server's eyes.
    pub fn rebinder(&self) -> impl Fn() + Send + Sync + 'static {
        let rebind = Arc::clone(&self.rebind);
        move || rebind.notify_one()
    }

    pub fn set_cut(&self, cut: bool) {
        self.cut.store(cut, Ordering::Relaxed);
    }

    /// A switch that cuts the relay.
    pub fn cutter(&self) -> impl FnOnce() + Send + 'static {
        let cut = Arc::clone(&self.cut);
        move || cut.store(true, Ordering::Relaxed)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}
