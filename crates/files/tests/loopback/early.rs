//! Resumption and early data (0-RTT, RFC 8470), between our client and server and with ends that misbehave.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{Downloads, Host, Recorder, Relay, get_one, sample};
use bytes::Bytes;
use thalweg::{ClientConfig, Endpoint, ServerConfig};
use thalweg_files::certificate::{CertificateStore, Identity};
use thalweg_files::client::{Error, Fetcher, Preference, Report, Trust};
use tokio::net::UdpSocket;
use tokio::sync::{Notify, watch};

/// Time that a datagram takes one way: long enough that a handshake is not over before a request is made, also when
/// other tests keep the machine busy.
const FAR: Duration = Duration::from_millis(400);

fn by_way_of(relay: &Relay, name: &str) -> String {
    format!("https://localhost:{}/{name}", relay.address.port())
}

async fn host_with_early_data() -> (Host, Arc<Mutex<Vec<bool>>>) {
    let seen: Arc<Mutex<Vec<bool>>> = Arc::default();
    let log = Arc::clone(&seen);
    let host = Host::with(move |options| {
        options.early_data = true;
        let lines = options.access_log.take().unwrap();
        options.access_log = Some(Arc::new(move |record| {
            log.lock().unwrap().push(record.early_data);
            lines(record);
        }));
    })
    .await;
    host.file("f", &sample(100_000));
    (host, seen)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_connection_resumes_and_its_first_request_is_early() {
    let (host, _) = host_with_early_data().await;
    let relay = Relay::slow(host.address, FAR).await;
    let downloads = Downloads::new();
    let fetcher = host.fetcher(Preference::Quic);
    let first = get_one(&fetcher, by_way_of(&relay, "f"), &downloads.path("f"), None).await.unwrap();
    assert_eq!((first.resumed, first.early_data), (false, None));
    for _ in 0..3 {
        fetcher.close().await;
        let again = get_one(&fetcher, by_way_of(&relay, "f"), &downloads.path("f"), None).await.unwrap();
        assert_eq!((again.resumed, again.early_data), (true, Some(true)));
        assert_eq!(std::fs::read(downloads.path("f")).unwrap(), sample(100_000));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn early_data_are_off_by_default_and_sessions_are_resumed_all_the_same() {
    let host = Host::new().await;
    host.file("f", b"x");
    let relay = Relay::slow(host.address, FAR).await;
    let downloads = Downloads::new();
    let fetcher = host.fetcher(Preference::Quic);
    get_one(&fetcher, by_way_of(&relay, "f"), &downloads.path("f"), None).await.unwrap();
    fetcher.close().await;
    let again = get_one(&fetcher, by_way_of(&relay, "f"), &downloads.path("f"), None).await.unwrap();
    assert_eq!((again.resumed, again.early_data), (true, None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_without_tickets_resumes_nothing() {
    let (host, early) = host_with_early_data().await;
    let relay = Relay::slow(host.address, FAR).await;
    let downloads = Downloads::new();
    let mut options = host.options(Preference::Quic);
    options.tickets = false;
    let fetcher = Fetcher::new(options).unwrap();
    for _ in 0..2 {
        let report = get_one(&fetcher, by_way_of(&relay, "f"), &downloads.path("f"), None).await.unwrap();
        assert_eq!((report.resumed, report.early_data), (false, None));
        fetcher.close().await;
    }
    host.log_lines(2).await;
    assert_eq!(*early.lock().unwrap(), [false, false]);
}

/// A server that was restarted remembers no session, so what comes early is refused, and sent again by the transport.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_early_data_are_sent_again() {
    let (mut host, _) = host_with_early_data().await;
    let relay = Relay::slow(host.address, FAR).await;
    let downloads = Downloads::new();
    let fetcher = host.fetcher(Preference::Quic);
    get_one(&fetcher, by_way_of(&relay, "f"), &downloads.path("f"), None).await.unwrap();
    fetcher.close().await;
    host.kill().await;
    host.start(|options| options.early_data = true).await;
    let again = get_one(&fetcher, by_way_of(&relay, "f"), &downloads.path("g"), None).await.unwrap();
    assert_eq!((again.resumed, again.early_data, again.retries), (false, Some(false), 0));
    assert_eq!(std::fs::read(downloads.path("g")).unwrap(), sample(100_000));
}

/// A session is remembered, but its server is gone: over TCP the file is still to be had, and nothing is tried for
/// long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_early_request_that_nobody_takes_falls_back_to_tcp() {
    let (mut host, _) = host_with_early_data().await;
    let downloads = Downloads::new();
    let mut options = host.options(Preference::Auto);
    options.retries = 0;
    let fetcher = Fetcher::new(options).unwrap();
    get_one(&fetcher, host.url("f"), &downloads.path("f"), None).await.unwrap();
    fetcher.close().await;
    host.kill().await;
    host.start(|options| options.quic = false).await;
    let again = get_one(&fetcher, host.url("f"), &downloads.path("g"), None).await.unwrap();
    assert_eq!(again.protocol.alpn(), "h2");
}

/// Time that a datagram takes one way in the tests of silent connections, which are in doubt after 10 round trips.
const NEAR: Duration = Duration::from_millis(100);

/// The size of a file whose download is disturbed, bytes.
const SIZE: usize = 3_000_000;

/// Starts a download that takes 3 s, and does `what` when half of it is here.
async fn disturbed(host: &Host, relay: &Relay, what: impl Fn(&Relay)) -> Report {
    let data = sample(SIZE);
    host.file("big", &data);
    let downloads = Downloads::new();
    let mut options = host.options(Preference::Quic);
    options.limit_rate = Some(1_000_000);
    // It is not to run out in an outage, also when other tests keep the machine busy.
    options.idle_timeout = Duration::from_secs(30);
    let fetcher = Fetcher::new(options).unwrap();
    let (seen, mut seeing) = tokio::sync::mpsc::unbounded_channel();
    let recorder = Recorder::default();
    let sink = recorder.when(1_500_000, move || seen.send(()).unwrap());
    let path = downloads.path("big");
    let (report, ()) = tokio::join!(get_one(&fetcher, by_way_of(relay, "big"), &path, Some(sink)), async {
        seeing.recv().await.unwrap();
        what(relay);
    });
    let report = report.unwrap();
    assert!(std::fs::read(path).unwrap() == data);
    assert_eq!(report.bytes, SIZE as u64);
    report
}

/// The access log once nothing is added to it any more.
async fn settled(host: &Host) -> Vec<String> {
    let mut lines = host.log_lines(1).await;
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let now = host.log_lines(1).await;
        if now.len() == lines.len() {
            return now;
        }
        lines = now;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_silent_connection_owes_is_asked_for_with_the_first_packets_of_another() {
    let (host, early) = host_with_early_data().await;
    let relay = Relay::slow(host.address, NEAR).await;
    let report = disturbed(&host, &relay, Relay::forsake).await;
    assert_eq!((report.retries, report.resumed, report.early_data), (1, true, Some(true)));
    host.log_lines(1).await;
    assert!(early.lock().unwrap().contains(&true), "{early:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_during_which_another_connection_was_asked_costs_no_byte() {
    let (host, _) = host_with_early_data().await;
    let relay = Arc::new(Relay::slow(host.address, NEAR).await);
    let cut = Arc::clone(&relay);
    let report = disturbed(&host, &relay, move |relay| {
        relay.set_cut(true);
        let cut = Arc::clone(&cut);
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(4)).await;
            cut.set_cut(false);
        });
    })
    .await;
    assert!(report.retries <= 1, "{}", report.retries);
    let lines = settled(&host).await;
    assert!(lines.len() <= 3, "{lines:?}");
}

/// A relay with a way of its own for each client, which carries 1 MB/s at most to it. Told to, it keeps everything of
/// the first client back until the server answers a second one.
struct Fork {
    address: SocketAddr,
    open: Arc<watch::Sender<bool>>,
}

impl Fork {
    async fn new(server: SocketAddr) -> Self {
        let front = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
        let fork = Self { address: front.local_addr().unwrap(), open: Arc::new(watch::Sender::new(true)) };
        let open = Arc::clone(&fork.open);
        tokio::spawn(async move {
            let mut clients: Vec<(SocketAddr, Arc<UdpSocket>)> = Vec::new();
            let mut datagram = vec![0; 65536];
            loop {
                let Ok((size, from)) = front.recv_from(&mut datagram).await else { continue };
                // No packet (RFC 9000 section 17.2): whether the port is open is asked from another socket.
                if datagram[0] & 0x40 == 0 {
                    continue;
                }
                let number = clients.iter().position(|(address, _)| *address == from).unwrap_or(clients.len());
                if number == clients.len() {
                    let back = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
                    back.connect(server).await.unwrap();
                    tokio::spawn(down(number, Arc::clone(&back), Arc::clone(&front), from, Arc::clone(&open)));
                    clients.push((from, back));
                }
                if number > 0 || *open.borrow() {
                    let _ = clients[number].1.send(&datagram[..size]).await;
                }
            }
        });
        fork
    }
}

/// Carries what a [`Fork`] gets from the server for the client of this number.
async fn down(
    number: usize,
    back: Arc<UdpSocket>,
    front: Arc<UdpSocket>,
    client: SocketAddr,
    open: Arc<watch::Sender<bool>>,
) {
    let mut datagram = vec![0; 65536];
    let mut opened = open.subscribe();
    while let Ok(size) = back.recv(&mut datagram).await {
        if number == 0 {
            opened.wait_for(|open| *open).await.unwrap();
        } else if !*open.borrow() {
            open.send_replace(true);
            // It reaches the first client before the second one.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let _ = front.send_to(&datagram[..size], client).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_was_asked_in_vain_is_asked_no_more() {
    let (host, _) = host_with_early_data().await;
    let data = sample(SIZE);
    host.file("big", &data);
    let fork = Fork::new(host.address).await;
    let downloads = Downloads::new();
    let fetcher = host.fetcher(Preference::Quic);
    let open = Arc::clone(&fork.open);
    let sink = Recorder::default().when(SIZE as u64 / 4, move || {
        open.send_replace(false);
    });
    let url = format!("https://localhost:{}/big", fork.address.port());
    let report = get_one(&fetcher, url, &downloads.path("big"), Some(sink)).await.unwrap();
    assert!(std::fs::read(downloads.path("big")).unwrap() == data);
    assert_eq!(report.bytes, SIZE as u64);
    assert!(*fork.open.borrow(), "no other connection was asked");
    let lines = settled(&host).await;
    // Of the two connections, either may go on.
    assert!(lines.len() <= 3, "{} requests: {:?}", lines.len(), lines.last());
}

/// Behind a load balancer the second connection may come to another server, which has less.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_ahead_that_is_no_part_of_the_file_is_asked_for_again() {
    let host = Host::new().await;
    let data = Bytes::from(sample(SIZE));
    let asked: Arc<Mutex<Vec<(bool, u16)>>> = Arc::default();
    let (seen, file) = (Arc::clone(&asked), data.clone());
    let address = scripted(&host.identity, Duration::ZERO, move |connection, request| {
        let early = connection.is_handshaking();
        let response = http::Response::builder().header("etag", "\"1\"");
        let range = request.headers().get("range").map(|range| range.to_str().unwrap());
        let (response, body) = match range.and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')) {
            None => (response.status(200), file.clone()),
            Some(_) if early => (response.status(404), Bytes::from_static(b"not here")),
            Some(first) => {
                let range = format!("bytes {first}-{}/{SIZE}", SIZE - 1);
                (response.status(206).header("content-range", range), file.slice(first.parse::<usize>().unwrap()..))
            }
        };
        let response = response.header("content-length", body.len()).body(()).unwrap();
        seen.lock().unwrap().push((early, response.status().as_u16()));
        (response, body)
    })
    .await;
    let relay = Relay::slow(address, NEAR).await;
    let downloads = Downloads::new();
    let mut options = host.options(Preference::Quic);
    options.limit_rate = Some(1_000_000);
    options.idle_timeout = Duration::from_secs(30);
    let fetcher = Fetcher::new(options).unwrap();
    let relay = Arc::new(relay);
    let forsaken = Arc::clone(&relay);
    let sink = Recorder::default().when(SIZE as u64 / 2, move || forsaken.forsake());
    let report = get_one(&fetcher, by_way_of(&relay, "f"), &downloads.path("f"), Some(sink)).await.unwrap();
    assert!(std::fs::read(downloads.path("f")).unwrap() == data);
    assert_eq!(report.retries, 1);
    assert_eq!(*asked.lock().unwrap(), [(false, 200), (true, 404), (false, 206)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forwarded_early_upload_is_too_early() {
    let host = Host::new().await;
    let downloads = Downloads::new();
    std::fs::write(downloads.path("up"), "x").unwrap();
    for preference in [Preference::Quic, Preference::Tcp] {
        let mut options = host.options(preference);
        options.headers.insert("early-data", "1".parse().unwrap());
        let fetcher = Fetcher::new(options).unwrap();
        let error = fetcher.put(downloads.path("up"), host.url("up"), None).await.unwrap_err();
        assert!(matches!(error, Error::Status { status: 425, .. }), "{error}");
        assert!(!host.dir.path().join("up").exists());
    }
}

type H3 = h3::client::SendRequest<thalweg_h3::Connection, Bytes>;

/// Ends a request. A server that has answered already may have asked for no more of it (RFC 9114 section 4.1).
async fn finish<S: h3::quic::SendStream<Bytes>>(stream: &mut h3::client::RequestStream<S, Bytes>) {
    match stream.finish().await {
        Ok(()) => {}
        Err(h3::error::StreamError::RemoteTerminate { code, .. }) if code == h3::error::Code::H3_NO_ERROR => {}
        Err(error) => panic!("{error}"),
    }
}

/// A client by hand: it sends the given bytes as early data.
struct Bare {
    endpoint: Endpoint,
    config: ClientConfig,
}

impl Bare {
    /// Has a session of the server.
    async fn acquainted(host: &Host) -> Self {
        let roots = host.identity.chain().to_vec();
        let config = ClientConfig::with_root_certificates(roots, &[b"h3"]).unwrap();
        let this = Self { endpoint: Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap(), config };
        let connection = this.endpoint.connect_with(&this.config, host.address, "localhost").unwrap().await.unwrap();
        let mut http = this.http(connection.clone()).await;
        let request = http::Request::get(host.url("f")).body(()).unwrap();
        let mut stream = http.send_request(request).await.unwrap();
        finish(&mut stream).await;
        assert_eq!(stream.recv_response().await.unwrap().status(), 200);
        connection.close(0x100, b"");
        this
    }

    async fn http(&self, connection: thalweg::Connection) -> H3 {
        let built = h3::client::builder().build(thalweg_h3::Connection::new(connection)).await;
        let (mut driver, send): (_, H3) = built.unwrap();
        tokio::spawn(async move { driver.wait_idle().await });
        send
    }

    async fn early(&self, address: SocketAddr) -> (H3, thalweg::Connection) {
        let connecting = self.endpoint.connect_with(&self.config, address, "localhost").unwrap();
        let Ok((connection, _)) = connecting.into_0rtt() else { panic!("no session with early data") };
        (self.http(connection.clone()).await, connection)
    }
}

/// Gathers what a client sends first, passes that on at once, and then nothing more until it is opened.
struct Gate {
    address: SocketAddr,
    release: Arc<Notify>,
    open: Arc<AtomicBool>,
    first_flight: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Gate {
    async fn new(server: SocketAddr) -> Self {
        let front = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let back = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        back.connect(server).await.unwrap();
        let gate = Self {
            address: front.local_addr().unwrap(),
            release: Arc::default(),
            open: Arc::default(),
            first_flight: Arc::default(),
        };
        let (release, open, first) =
            (Arc::clone(&gate.release), Arc::clone(&gate.open), Arc::clone(&gate.first_flight));
        tokio::spawn(async move {
            let (mut up, mut down) = (vec![0; 65536], vec![0; 65536]);
            let (mut client, mut released) = (None, false);
            loop {
                tokio::select! {
                    got = back.recv(&mut down) => if let (Ok(size), Some(client)) = (got, client) {
                        let _ = front.send_to(&down[..size], client).await;
                    },
                    () = release.notified() => {
                        released = true;
                        let flight = first.lock().unwrap().clone();
                        for datagram in flight {
                            let _ = back.send(&datagram).await;
                        }
                    }
                    got = front.recv_from(&mut up) => if let Ok((size, from)) = got {
                        client = Some(from);
                        if !released {
                            first.lock().unwrap().push(up[..size].to_vec());
                        } else if open.load(Ordering::Relaxed) {
                            let _ = back.send(&up[..size]).await;
                        }
                    },
                }
            }
        });
        gate
    }

    /// Passes the first flight on, once the client has sent all of it.
    async fn release(&self) {
        let count = || self.first_flight.lock().unwrap().len();
        let mut before = 0;
        while count() == 0 || count() > before {
            before = count();
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        self.release.notify_one();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_early_upload_waits_for_the_handshake() {
    let (host, early) = host_with_early_data().await;
    let client = Bare::acquainted(&host).await;
    let gate = Gate::new(host.address).await;
    let (mut http, connection) = client.early(gate.address).await;
    let url = format!("https://localhost:{}/up", gate.address.port());
    let mut upload = http.send_request(http::Request::put(url).body(()).unwrap()).await.unwrap();
    upload.send_data(Bytes::from_static(b"not twice")).await.unwrap();
    finish(&mut upload).await;
    let url = format!("https://localhost:{}/f", gate.address.port());
    let mut get = http.send_request(http::Request::get(url).body(()).unwrap()).await.unwrap();
    finish(&mut get).await;
    gate.release().await;
    // The server has both, and no more of the client: it answers the one and waits with the other.
    assert_eq!(get.recv_response().await.unwrap().status(), 200);
    let answer = tokio::time::timeout(Duration::from_millis(500), upload.recv_response()).await;
    assert!(answer.is_err(), "answered before the handshake: {answer:?}");
    assert!(!host.dir.path().join("up").exists());
    gate.open.store(true, Ordering::Relaxed);
    assert_eq!(upload.recv_response().await.unwrap().status(), 201);
    assert_eq!(std::fs::read(host.dir.path().join("up")).unwrap(), b"not twice");
    assert_eq!(connection.early_data_accepted(), Some(true));
    while get.recv_data().await.unwrap().is_some() {}
    connection.close(0x100, b"");
    let lines = host.log_lines(3).await;
    let early = early.lock().unwrap();
    for (line, early) in lines.iter().zip(early.iter()).skip(1) {
        assert_eq!(*early, line.contains("GET"), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replayed_early_request_is_not_answered_again() {
    let (host, _) = host_with_early_data().await;
    let client = Bare::acquainted(&host).await;
    let gate = Gate::new(host.address).await;
    let (mut http, connection) = client.early(gate.address).await;
    let url = format!("https://localhost:{}/f", gate.address.port());
    let mut get = http.send_request(http::Request::get(url).body(()).unwrap()).await.unwrap();
    finish(&mut get).await;
    gate.release().await;
    assert_eq!(get.recv_response().await.unwrap().status(), 200);
    let first_flight = gate.first_flight.lock().unwrap().clone();
    gate.open.store(true, Ordering::Relaxed);
    while get.recv_data().await.unwrap().is_some() {}
    connection.close(0x100, b"");
    assert_eq!(host.log_lines(2).await.len(), 2);
    let attacker = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let attack = async {
        // While the server remembers the old connection, it drops what seems to belong to it.
        loop {
            for datagram in &first_flight {
                attacker.send_to(datagram, host.address).await.unwrap();
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    // It is answered as a new connection, with a handshake that the attacker cannot complete.
    let answered = async {
        let mut answer = [0; 2048];
        tokio::select! {
            () = attack => {}
            size = attacker.recv(&mut answer) => assert!(size.unwrap() > 0),
        }
    };
    tokio::time::timeout(Duration::from_secs(20), answered).await.expect("no answer");
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(host.log_lines(0).await.len(), 2);
}

/// Answers every request by a script: with what `answer` says of it, after a time.
async fn scripted(
    identity: &Identity,
    wait: Duration,
    answer: impl Fn(&thalweg::Connection, &http::Request<()>) -> (http::Response<()>, Bytes) + Send + Sync + 'static,
) -> SocketAddr {
    let mut tls = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(CertificateStore::new(identity).unwrap());
    tls.alpn_protocols = vec![b"h3".to_vec()];
    tls.max_early_data_size = u32::MAX;
    let config = ServerConfig::with_rustls(Arc::new(tls)).unwrap();
    let endpoint = Endpoint::server(config, "127.0.0.1:0".parse().unwrap()).unwrap();
    let address = endpoint.local_addr().unwrap();
    let answer = Arc::new(answer);
    tokio::spawn(async move {
        while let Some(incoming) = endpoint.accept().await {
            let answer = Arc::clone(&answer);
            tokio::spawn(async move {
                let Ok((connection, _)) = incoming.accept().into_0rtt() else { return };
                let quic = thalweg_h3::Connection::new(connection.clone());
                let mut http: h3::server::Connection<_, Bytes> = h3::server::Connection::new(quic).await.unwrap();
                while let Ok(Some(resolver)) = http.accept().await {
                    let (request, mut stream) = resolver.resolve_request().await.unwrap();
                    let (response, body) = answer(&connection, &request);
                    tokio::spawn(async move {
                        tokio::time::sleep(wait).await;
                        // Fails if the client leaves.
                        let _ = stream.send_response(response).await;
                        let _ = stream.send_data(body).await;
                        let _ = stream.finish().await;
                    });
                }
            });
        }
    });
    address
}

fn at_last(status: u16) -> (http::Response<()>, Bytes) {
    (http::Response::builder().status(status).body(()).unwrap(), Bytes::from_static(b"at last"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_too_early_is_made_again_after_the_handshake() {
    let host = Host::new().await;
    let asked: Arc<Mutex<Vec<bool>>> = Arc::default();
    let seen = Arc::clone(&asked);
    let address = scripted(&host.identity, Duration::ZERO, move |connection, _| {
        let early = connection.is_handshaking();
        seen.lock().unwrap().push(early);
        at_last(if early { 425 } else { 200 })
    })
    .await;
    let relay = Relay::slow(address, FAR).await;
    let downloads = Downloads::new();
    let fetcher = host.fetcher(Preference::Quic);
    let url = by_way_of(&relay, "f");
    for _ in 0..2 {
        let report = get_one(&fetcher, url.clone(), &downloads.path("f"), None).await.unwrap();
        assert_eq!((report.status, report.early_data), (200, None));
        fetcher.close().await;
    }
    assert_eq!(*asked.lock().unwrap(), [false, true, false]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_thinks_for_two_seconds_finds_a_client_that_was_rebound_meanwhile() {
    let host = Host::new().await;
    let address = scripted(&host.identity, Duration::from_secs(2), |_, _| at_last(200)).await;
    let relay = Relay::new(address).await;
    let downloads = Downloads::new();
    let mut options = host.options(Preference::Quic);
    options.trust = Trust::Certificates(host.identity.chain().to_vec());
    options.idle_timeout = Duration::from_secs(30);
    let fetcher = Fetcher::new(options).unwrap();
    let rebind = relay.rebinder();
    tokio::spawn(async move {
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_millis(500)).await;
            rebind();
        }
    });
    let url = format!("https://localhost:{}/f", relay.address.port());
    let report = get_one(&fetcher, url, &downloads.path("f"), None).await.unwrap();
    assert_eq!(std::fs::read(downloads.path("f")).unwrap(), b"at last");
    assert_eq!(report.retries, 0);
    assert!(report.elapsed < Duration::from_secs(12), "{:?}", report.elapsed);
}
