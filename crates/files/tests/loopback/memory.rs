//! Memory of a server whose clients ask for files and do not read the answers.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::common::Host;
use crate::common::child::ServerProcess;
use bytes::Bytes;
use http::Request;
use http_body_util::Empty;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use thalweg::{ClientConfig, Endpoint, TransportConfig};
use thalweg_files::client::{FetchOptions, Fetcher, Job, Preference, Trust};
use thalweg_files::server::ServerOptions;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// The memory of a server by default, bytes.
const SHIPPED: u64 = 256_000_000;
/// What it may still have more once they are gone, bytes: what the allocator keeps, and threads that wait for work.
const LEFT: u64 = 64 << 20;
/// What may be left more when the same has happened again, bytes.
const AGAIN: u64 = 32 << 20;
/// Handles of a server without clients, and some to spare.
const FEW_HANDLES: usize = 40;
/// The file that is asked for, bytes: far more than any stream could buffer.
const FILE: u64 = 32 << 20;
/// Handles that the server may have open for all of them, sockets included.
const HANDLES: usize = 800;

struct Scene {
    server: ServerProcess,
    before: u64,
    _site: tempfile::TempDir,
}

impl Scene {
    async fn new() -> Self {
        Self::with(ServerProcess::start).await
    }

    async fn with(start: impl FnOnce(&Path) -> ServerProcess) -> Self {
        let site = tempfile::tempdir().unwrap();
        std::fs::File::create(site.path().join("file")).unwrap().set_len(FILE).unwrap();
        let server = start(site.path());
        // What serving takes at all is not what is measured.
        for preference in [Preference::Quic, Preference::Tcp] {
            download(server.address, preference).await;
        }
        let before = server.memory();
        Self { server, before, _site: site }
    }

    /// That memory is bounded and others are still served, by either protocol.
    async fn assert_bounded(&self, what: &str) {
        let peak = self.server.peak(Duration::from_secs(1)).await;
        let mut took = Vec::new();
        for preference in [Preference::Quic, Preference::Tcp] {
            let began = Instant::now();
            download(self.server.address, preference).await;
            took.push(began.elapsed());
        }
        let growth = peak.saturating_sub(self.before).max(self.server.growth(self.before));
        println!("{what}: {} MB more, {} handles, others took {took:?}", growth >> 20, self.server.handles());
        assert!(self.server.handles() <= HANDLES, "{what}: {} handles", self.server.handles());
        assert!(self.server.high_water() <= SHIPPED, "{what}: {} bytes", self.server.high_water());
    }

    /// That the clients' memory and handles are free again once they are gone, also when their like have come and gone
    /// a second time. How much memory they take meanwhile depends on who is dropped when, within the bound.
    async fn assert_freed(&self, what: &str, again: impl AsyncFnOnce() -> Stalled) {
        let first = self.left(what, LEFT).await;
        let stalled = again().await;
        self.assert_bounded(what).await;
        drop(stalled);
        self.left(what, first + AGAIN).await;
    }

    /// The memory that is left of clients that are gone: at most `most`, bytes.
    async fn left(&self, what: &str, most: u64) -> u64 {
        let end = Instant::now() + Duration::from_secs(30);
        let (mut handles, mut left);
        loop {
            (handles, left) = (self.server.handles(), self.server.growth(self.before));
            if (handles <= FEW_HANDLES && left <= most) || Instant::now() >= end {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        println!("{what}: {handles} handles and {} MB left", left >> 20);
        assert!(handles <= FEW_HANDLES, "{what}: {handles} handles are left");
        assert!(left <= most, "{what}: {} MB are left", left >> 20);
        left
    }
}

/// Downloads the file as an ordinary client does.
async fn download(server: SocketAddr, preference: Preference) {
    let mut options = FetchOptions::default();
    options.trust = Trust::Insecure;
    options.preference = preference;
    options.addresses.insert("localhost".into(), vec![server.ip()]);
    let target = tempfile::tempdir().unwrap();
    let path = target.path().join("file");
    let url = format!("https://localhost:{}/file", server.port());
    let report = Fetcher::new(options).unwrap().get(vec![Job::to_file(url, &path)], None).await.pop().unwrap();
    report.unwrap();
    assert_eq!(std::fs::metadata(path).unwrap().len(), FILE);
}

fn request(server: SocketAddr) -> http::request::Builder {
    Request::get(format!("https://localhost:{}/file", server.port()))
}

/// Connections whose clients do not read. Dropping it ends them.
#[derive(Default)]
struct Stalled {
    tasks: JoinSet<()>,
    /// Why connections have ended.
    ended: Arc<Mutex<Vec<String>>>,
}

impl Stalled {
    /// How many connections have ended.
    fn ended(&self) -> usize {
        self.ended.lock().unwrap().len()
    }
}

/// Connections that are being made at the same time.
const AT_ONCE: usize = 16;

/// Runs `connect` so many times. A connection that the server drops is noted, one that stalls is kept.
async fn stall<F, C>(connections: usize, connect: impl Fn() -> F) -> Stalled
where
    F: Future<Output = Result<C, String>> + Send + 'static,
    C: Future<Output = String> + Send + 'static,
{
    let mut stalled = Stalled::default();
    let permits = Arc::new(Semaphore::new(AT_ONCE));
    for _ in 0..connections {
        let permit = Arc::clone(&permits).acquire_owned().await.unwrap();
        let (connecting, ended) = (connect(), Arc::clone(&stalled.ended));
        stalled.tasks.spawn(async move {
            let why = match connecting.await {
                Ok(lasting) => {
                    drop(permit);
                    lasting.await
                }
                Err(why) => why,
            };
            ended.lock().unwrap().push(why);
        });
    }
    drop(permits.acquire_many(AT_ONCE as u32).await.unwrap());
    stalled
}

/// Connections over QUIC, each with `streams` requests whose answers nobody reads.
async fn stall_quic(server: SocketAddr, connections: usize, streams: usize, transport: TransportConfig) -> Stalled {
    let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let config = ClientConfig::dangerous_without_verification(&[b"h3"]).unwrap().transport(transport);
    stall(connections, || {
        let (endpoint, config) = (endpoint.clone(), config.clone());
        async move {
            let failed = |error: &dyn std::fmt::Display| error.to_string();
            let connecting = endpoint.connect_with(&config, server, "localhost").map_err(|error| failed(&error))?;
            let connection = connecting.await.map_err(|error| failed(&error))?;
            let (driver, mut requests) = h3::client::new(thalweg_h3::Connection::new(connection.clone()))
                .await
                .map_err(|error| failed(&error))?;
            let mut unread = Vec::new();
            for _ in 0..streams {
                let sent = async {
                    let mut stream = requests.send_request(request(server).body(()).unwrap()).await?;
                    stream.finish().await?;
                    Ok::<_, h3::error::StreamError>(stream)
                };
                unread.push(sent.await.map_err(|error| failed(&error))?);
            }
            Ok(async move {
                let _unread = (unread, requests, driver);
                connection.closed().await.to_string()
            })
        }
    })
    .await
}

/// A client that grants little credit per stream, and plenty for the connection.
fn small_streams(credit: u64) -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport.streams.stream_receive_window = credit;
    transport.streams.max_stream_receive_window = credit;
    transport
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stalled_readers_over_quic_cost_little_and_hinder_nobody() {
    let scene = Scene::new().await;
    let what = "40 x 128 streams with 1 kB of credit";
    let stall = async || stall_quic(scene.server.address, 40, 128, small_streams(1000)).await;
    let stalled = stall().await;
    scene.assert_bounded(what).await;
    drop(stalled);
    scene.assert_freed(what, stall).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_that_stall_after_a_megabyte_cost_no_more() {
    let scene = Scene::new().await;
    let stalled = stall_quic(scene.server.address, 8, 16, small_streams(1 << 20)).await;
    scene.assert_bounded("8 x 16 streams with 1 MB of credit").await;
    drop(stalled);
}

/// Connections over HTTP/2, each with `streams` requests whose answers nobody reads.
async fn stall_http2(server: SocketAddr, connections: usize, streams: usize, window: u32) -> Stalled {
    stall_http2_with(server, connections, streams, window, None).await
}

/// The same, with a PING each `ping`.
async fn stall_http2_with(
    server: SocketAddr,
    connections: usize,
    streams: usize,
    window: u32,
    ping: Option<Duration>,
) -> Stalled {
    let tls = tls();
    stall(connections, || {
        let tls = tls.clone();
        async move {
            let failed = |error: &dyn std::fmt::Display| error.to_string();
            let tcp = tokio::net::TcpStream::connect(server).await.map_err(|error| failed(&error))?;
            let name = rustls_pki_types::ServerName::try_from("localhost").unwrap();
            let stream = tls.connect(name, tcp).await.map_err(|error| failed(&error))?;
            let (mut requests, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
                .initial_stream_window_size(window)
                .initial_connection_window_size(1 << 30)
                .timer(TokioTimer::new())
                .keep_alive_interval(ping)
                .handshake::<_, Empty<Bytes>>(TokioIo::new(stream))
                .await
                .map_err(|error| failed(&error))?;
            let connection = tokio::spawn(connection);
            let abort = Abort(connection.abort_handle());
            let mut unread = Vec::new();
            for _ in 0..streams {
                requests.ready().await.map_err(|error| failed(&error))?;
                unread.push(requests.send_request(request(server).body(Empty::new()).unwrap()));
            }
            Ok(async move {
                let _abort = abort;
                let answers = futures_of(unread).await;
                let _unread = (answers, requests);
                connection.await.map_or_else(|error| error.to_string(), |ended| format!("{ended:?}"))
            })
        }
    })
    .await
}

/// Ends a task when it is dropped.
struct Abort(tokio::task::AbortHandle);

impl Drop for Abort {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Waits for all of some futures, one after the other: all of them run already.
async fn futures_of<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut outputs = Vec::new();
    for future in futures {
        outputs.push(future.await);
    }
    outputs
}

fn tls() -> tokio_rustls::TlsConnector {
    use thalweg::TlsOptions;
    let config = TlsOptions::new(&[b"h2"]).client_insecure().unwrap();
    tokio_rustls::TlsConnector::from(std::sync::Arc::new(config))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stalled_readers_over_http2_cost_little_and_hinder_nobody() {
    let scene = Scene::new().await;
    let what = "30 x 200 streams over HTTP/2";
    let stall = async || stall_http2(scene.server.address, 30, 200, 65_535).await;
    let stalled = stall().await;
    scene.assert_bounded(what).await;
    drop(stalled);
    scene.assert_freed(what, stall).await;
}

/// How often downloads may take longer than they should because the machine is busy with something else.
const ROUNDS: usize = 4;

/// How long downloads take of a client that reads: the median of some, over each protocol.
async fn reading(server: SocketAddr) -> [Duration; 2] {
    let mut medians = [Duration::ZERO; 2];
    for (median, preference) in medians.iter_mut().zip([Preference::Quic, Preference::Tcp]) {
        let mut took = Vec::new();
        for _ in 0..9 {
            let began = Instant::now();
            download(server, preference).await;
            took.push(began.elapsed());
        }
        took.sort();
        *median = took[took.len() / 2];
    }
    medians
}

/// Whether downloads beside others took more than twice as long as alone, over any protocol.
fn is_hindered(alone: [Duration; 2], beside: [Duration; 2]) -> bool {
    alone.into_iter().zip(beside).any(|(alone, beside)| beside > alone * 2)
}

/// That a server within `bound` bytes stays there while `stall` runs, drops some of its connections, and serves a
/// client that reads in at most twice the time that it takes alone.
async fn assert_within(what: &str, scene: &Scene, bound: u64, stall: impl AsyncFnOnce() -> Stalled) -> Stalled {
    let alone = reading(scene.server.address).await;
    let began = Instant::now();
    let mut stalled = stall().await;
    let took = began.elapsed();
    let mut beside = reading(scene.server.address).await;
    for _ in 1..ROUNDS {
        if is_hindered(alone, beside) {
            beside = reading(scene.server.address).await;
        }
    }
    let peak = scene.server.high_water();
    println!(
        "{what}: at most {} MB, {} connections dropped, connecting took {took:.1?}; downloads took {alone:.0?} alone, \
         {beside:.0?} beside",
        peak / 1_000_000,
        stalled.ended()
    );
    assert!(peak <= bound, "{what}: {peak} bytes of {bound}");
    if is_hindered(alone, beside) {
        // Unless it is the machine that has become slower.
        stalled.tasks.shutdown().await;
        let alone = reading(scene.server.address).await;
        assert!(!is_hindered(alone, beside), "{what}: {beside:?} rather than {alone:?}");
    }
    stalled
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_stays_within_its_memory_and_drops_who_takes_least() {
    let scene = Scene::with(|site| ServerProcess::start_within(site, SMALL)).await;
    let server = scene.server.address;
    let stall = async || stall_quic(server, 30, 128, small_streams(1)).await;
    let quic = assert_within("30 x 128 streams over HTTP/3", &scene, SMALL, stall).await;
    let ended = quic.ended.lock().unwrap().clone();
    assert!((1..30).contains(&ended.len()), "{} connections were dropped", ended.len());
    let full = ended.iter().filter(|why| why.contains("memory is full")).count();
    assert!(full > 0, "{ended:?}");
    let stall = async || stall_http2(server, 30, 128, 1).await;
    let http2 = assert_within("30 x 128 streams over HTTP/2 beside them", &scene, SMALL, stall).await;
    assert!(http2.ended() > 0 || quic.ended() > ended.len());
}

/// The memory of a server that is filled with little, bytes.
const SMALL: u64 = 64 << 20;

/// The longest that an ordinary download may take while others get in its way: less than any timeout of the server's.
const SOON: Duration = Duration::from_secs(10);

/// Connections whose clients grant HTTP/3 none of the streams that it begins with, and send what nobody reads.
async fn stall_setup(server: SocketAddr, connections: usize) -> Stalled {
    let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let mut transport = TransportConfig::default();
    transport.streams.max_concurrent_uni = 0;
    transport.keep_alive = Some(Duration::from_secs(1));
    let config = ClientConfig::dangerous_without_verification(&[b"h3"]).unwrap().transport(transport);
    stall(connections, || {
        let (endpoint, config) = (endpoint.clone(), config.clone());
        async move {
            let connecting = endpoint.connect_with(&config, server, "localhost").map_err(|error| error.to_string())?;
            let connection = connecting.await.map_err(|error| error.to_string())?;
            let mut unread = Vec::new();
            for _ in 0..2 {
                let (mut send, recv) = connection.open_bi().await.map_err(|error| error.to_string())?;
                // Fails once the server has had enough.
                let _ = tokio::time::timeout(Duration::from_secs(1), send.write_all(&vec![0; 1 << 20])).await;
                unread.push((send, recv));
            }
            Ok(async move {
                let _unread = unread;
                connection.closed().await.to_string()
            })
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_never_let_http3_begin_are_dropped_for_others_and_in_the_end() {
    let scene = Scene::with(|site| ServerProcess::start_within(site, SMALL)).await;
    // More than the memory, if they are not dropped.
    let mut stalled = stall_setup(scene.server.address, 40).await;
    for preference in [Preference::Quic, Preference::Tcp] {
        tokio::time::timeout(SOON, download(scene.server.address, preference)).await.unwrap();
    }
    while stalled.tasks.join_next().await.is_some() {}
    let ended = stalled.ended.lock().unwrap().clone();
    assert_eq!(ended.len(), 40);
    for words in ["memory is full", "no credit"] {
        assert!(ended.iter().any(|why| why.contains(words)), "{words}: {ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_does_not_wait_for_http3_to_begin() {
    let mut host = Host::new().await;
    let stalled = stall_setup(host.address, 1).await;
    tokio::time::timeout(SOON, host.stop()).await.unwrap();
    drop(stalled);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_connections_over_tcp_are_dropped_for_others() {
    let scene = Scene::with(|site| ServerProcess::start_within(site, SMALL)).await;
    let server = scene.server.address;
    // More than the memory, if they are not dropped.
    let mut silent = Vec::new();
    for _ in 0..600 {
        silent.push(tokio::net::TcpStream::connect(server).await.unwrap());
    }
    for preference in [Preference::Tcp, Preference::Quic] {
        tokio::time::timeout(SOON, download(server, preference)).await.unwrap();
    }
    let is_closed = |stream: &tokio::net::TcpStream| stream.try_read(&mut [0]).is_ok_and(|read| read == 0);
    let mut closed = 0;
    for stream in &silent {
        let ready = tokio::time::timeout(Duration::from_millis(1), stream.readable()).await;
        closed += usize::from(ready.is_ok() && is_closed(stream));
    }
    assert!(closed > 0, "none was dropped");
}

/// A client that asks and takes nothing, but answers, loses its connection after the idle timeout, and the log says
/// why.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_takes_nothing_for_the_idle_timeout_is_dropped() {
    let mut transport = ServerOptions::bulk_transport();
    transport.max_idle_timeout = Some(Duration::from_secs(1));
    let host = Host::with(|options| options.transport = Some(Arc::new(transport))).await;
    host.file("file", &vec![7; 8 << 20]);
    let mut client = small_streams(1);
    let ping = Some(Duration::from_millis(200));
    client.keep_alive = ping;
    let mut stalled = stall_quic(host.address, 1, 3, client).await;
    let over_tcp = stall_http2_with(host.address, 1, 3, 1, ping).await;
    let lines = host.log_lines(6).await;
    assert_eq!(lines.len(), 6, "{lines:?}");
    for line in &lines {
        assert!(line.ends_with("aborted (the client took nothing for 1 s)"), "{line}");
    }
    while stalled.tasks.join_next().await.is_some() {}
    let ended = stalled.ended.lock().unwrap().clone();
    assert!(ended.iter().any(|why| why.contains("took nothing for 1 s")), "{ended:?}");
    drop(over_tcp);
}

/// Crowds of the size for which the bound is stated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes"]
async fn full_size() {
    for connections in [400, 1000] {
        for credit in [1, 10_000] {
            let scene = Scene::with(ServerProcess::start_shipped).await;
            let what = format!("{connections} x 128 streams of {credit} bytes over HTTP/3");
            let stall = async || stall_quic(scene.server.address, connections, 128, small_streams(credit)).await;
            drop(assert_within(&what, &scene, SHIPPED, stall).await);
        }
        for window in [1, 65_535] {
            let scene = Scene::with(ServerProcess::start_shipped).await;
            let what = format!("{connections} x 128 streams of {window} bytes over HTTP/2");
            let stall = async || stall_http2(scene.server.address, connections, 128, window).await;
            drop(assert_within(&what, &scene, SHIPPED, stall).await);
        }
    }
}
