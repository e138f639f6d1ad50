//! Networks that are not kind: blocked UDP, dead addresses, loss, a cut.

use std::time::{Duration, Instant};

use crate::common::{Downloads, Host, Recorder, Relay, get_one, sample};
use thalweg_files::client::{Category, Event, Fetcher, Notice, Preference, Protocol};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusing_udp_port_is_noticed_at_once_and_tcp_used() {
    let host = Host::with(|options| options.quic = false).await;
    host.file("f", b"by tcp");
    let downloads = Downloads::new();
    let fetcher = host.fetcher(Preference::Auto);
    let recorder = Recorder::default();
    let began = Instant::now();
    let report = get_one(&fetcher, host.url("f"), &downloads.path("f"), Some(recorder.sink())).await.unwrap();
    assert_eq!(report.protocol, Protocol::Http2);
    assert!(began.elapsed() < Duration::from_millis(1500), "{:?}", began.elapsed());
    let notices = recorder.notices();
    assert!(
        matches!(&notices[..], [Notice::UdpRefused { .. }, Notice::FellBack { protocol: Protocol::Http2, .. }]),
        "{notices:?}"
    );
    assert!(notices[0].to_string().contains("refuses UDP"));
    assert_eq!(std::fs::read(downloads.path("f")).unwrap(), b"by tcp");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_udp_port_is_noticed_after_the_patience_and_tcp_used() {
    let host = Host::with(|options| options.quic = false).await;
    host.file("f", b"by tcp");
    // Takes every datagram and answers none, as a firewall that drops would look.
    let _hole = std::net::UdpSocket::bind(host.address).unwrap();
    let downloads = Downloads::new();
    let mut options = host.options(Preference::Auto);
    options.quic_patience = Duration::from_millis(400);
    let fetcher = Fetcher::new(options.clone()).unwrap();
    let recorder = Recorder::default();
    let report = get_one(&fetcher, host.url("f"), &downloads.path("f"), Some(recorder.sink())).await.unwrap();
    assert_eq!(report.protocol, Protocol::Http2);
    let notices = recorder.notices();
    assert!(matches!(&notices[..], [Notice::UdpSilent { .. }, Notice::FellBack { .. }]), "{notices:?}");
    assert!(notices[0].to_string().contains("UDP seems to be blocked"));
    // Without the fall-back it is an error that names the address.
    options.preference = Preference::Quic;
    options.connect_timeout = Duration::from_secs(1);
    let error = get_one(&Fetcher::new(options).unwrap(), host.url("f"), &downloads.path("g"), None).await.unwrap_err();
    assert_eq!(error.category(), Category::Network);
    assert!(error.to_string().contains("QUIC to 127.0.0.1"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_address_that_answers_is_used() {
    let host = Host::new().await;
    host.file("f", b"x");
    let downloads = Downloads::new();
    for preference in [Preference::Tcp, Preference::Quic] {
        let mut options = host.options(preference);
        // The server listens on IPv4 only; 127.0.0.9 reaches nobody either.
        let list = vec!["::1".parse().unwrap(), "127.0.0.9".parse().unwrap(), "127.0.0.1".parse().unwrap()];
        options.addresses.insert("localhost".into(), list);
        let fetcher = Fetcher::new(options).unwrap();
        let began = Instant::now();
        let report = get_one(&fetcher, host.url("f"), &downloads.path("f"), None).await.unwrap();
        assert_eq!(report.remote, host.address);
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_server_is_an_error_that_tells_both_transports() {
    let mut host = Host::new().await;
    host.kill().await;
    let downloads = Downloads::new();
    let fetcher = host.fetcher(Preference::Auto);
    let error = get_one(&fetcher, host.url("f"), &downloads.path("f"), None).await.unwrap_err();
    assert_eq!(error.category(), Category::Network);
    let text = error.to_string();
    assert!(text.contains("QUIC to") && text.contains("TCP to") && text.contains("server is running"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_network_that_is_cut_leaves_a_partial_file_to_resume() {
    let host = Host::new().await;
    let data = sample(20_000_000);
    host.file("big", &data);
    let relay = Relay::new(host.address).await;
    let downloads = Downloads::new();
    let mut options = host.options(Preference::Quic);
    options.limit_rate = Some(10_000_000);
    options.idle_timeout = Duration::from_secs(1);
    options.retries = 0;
    let url = format!("https://localhost:{}/big", relay.address.port());
    let sink = Recorder::default().when(2_000_000, relay.cutter());
    let fetcher = Fetcher::new(options).unwrap();
    let error = get_one(&fetcher, url.clone(), &downloads.path("big"), Some(sink)).await.unwrap_err();
    assert!(matches!(error, thalweg_files::client::Error::Stalled { .. }), "{error}");
    assert!(error.kept().unwrap().resumable && error.kept().unwrap().bytes >= 2_000_000);
    drop(relay);
    // The same URL again, through a relay that works.
    let again = Relay::new(host.address).await;
    let mut options = host.options(Preference::Quic);
    options.resume = true;
    let fetcher = Fetcher::new(options).unwrap();
    let url_again = format!("https://localhost:{}/big", again.address.port());
    let meta = downloads.path("big.part.meta");
    let text = std::fs::read_to_string(&meta).unwrap().replace(&url, &url_again);
    std::fs::write(&meta, text).unwrap();
    let report = get_one(&fetcher, url_again, &downloads.path("big"), None).await.unwrap();
    assert!(report.resumed_from >= 2_000_000);
    assert_eq!(std::fs::read(downloads.path("big")).unwrap(), data);
}

/// N2 of nginx's QUIC fixes: a response that was handed to the transport is delivered although the server goes away
/// meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopping_server_delivers_over_a_lossy_path_with_a_small_window() {
    let mut host = Host::new().await;
    let data = sample(300_000);
    host.file("f", &data);
    let relay = Relay::losing(host.address, 30).await;
    let downloads = Downloads::new();
    let mut options = host.options(Preference::Quic);
    options.idle_timeout = Duration::from_secs(20);
    options.connect_timeout = Duration::from_secs(20);
    let mut transport = thalweg::TransportConfig::default();
    for window in [&mut transport.streams.stream_receive_window, &mut transport.streams.max_stream_receive_window] {
        *window = 32_768;
    }
    options.transport = Some(std::sync::Arc::new(transport));
    let fetcher = Fetcher::new(options).unwrap();
    let (stop, stopping) = tokio::sync::oneshot::channel();
    let stop = std::sync::Mutex::new(Some(stop));
    let sink: thalweg_files::client::EventSink = std::sync::Arc::new(move |event| {
        if let Event::Started { .. } = event {
            let _ = stop.lock().unwrap().take().unwrap().send(());
        }
    });
    let url = format!("https://localhost:{}/f", relay.address.port());
    let path = downloads.path("f");
    // The client stays until the server has gone: it is there to acknowledge.
    let client = fetcher.clone();
    let getting = tokio::spawn(async move { get_one(&client, url, &path, Some(sink)).await });
    stopping.await.unwrap();
    let (report, ()) = tokio::join!(getting, host.stop());
    let report = report.unwrap().unwrap();
    assert_eq!(std::fs::read(downloads.path("f")).unwrap(), data);
    assert!(report.connection.unwrap().stats.udp_received.datagrams > 0);
    assert!(!host.log_lines(1).await[0].contains("aborted"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_on_any_address_answers_both_families() {
    let mut host = Host::with(|options| options.listen = "[::]:0".parse().unwrap()).await;
    host.file("f", b"x");
    let downloads = Downloads::new();
    for preference in [Preference::Tcp, Preference::Quic] {
        for address in ["127.0.0.1", "[::1]"] {
            let fetcher = host.fetcher(preference);
            let url = format!("https://{address}:{}/f", host.address.port());
            get_one(&fetcher, url, &downloads.path("f"), None).await.unwrap();
            fetcher.close().await;
        }
    }
    host.stop().await;
    let log = host.log_lines(4).await;
    assert_eq!(log.iter().filter(|line| line.starts_with("127.0.0.1 ")).count(), 2, "{log:#?}");
    assert_eq!(log.iter().filter(|line| line.starts_with("::1 ")).count(), 2, "{log:#?}");
}
