//! Error messages of the client: words for people, without the marks of Rust's debug output.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{Downloads, Host, Recorder, assert_plain, get_one};
use crate::script::{Exchange, H3_INTERNAL_ERROR, H3_NO_ERROR, H3_REQUEST_REJECTED, RawServer, answer};
use thalweg_files::certificate::{CertificateStore, Identity};
use thalweg_files::client::{Category, Error, FetchOptions, Fetcher, Preference, Trust};
use tokio::io::AsyncWriteExt as _;

/// Fetches in vain; the error is plain, as are all notices, and has these words.
async fn fails(options: FetchOptions, url: String, category: Category, words: &[&str]) {
    let downloads = Downloads::new();
    let recorder = Recorder::default();
    let fetcher = Fetcher::new(options).unwrap();
    let path = downloads.path("f");
    let getting = get_one(&fetcher, url, &path, Some(recorder.sink()));
    let error = tokio::time::timeout(Duration::from_secs(60), getting).await.expect("hangs").unwrap_err();
    let text = error.to_string();
    let text = text.replace(downloads.0.path().to_str().unwrap(), "");
    assert_plain(&text);
    recorder.notices().iter().for_each(|notice| assert_plain(&notice.to_string()));
    assert_eq!(error.category(), category, "{text}");
    for word in words {
        assert!(text.contains(word), "{word:?} not in: {text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_connection() {
    // Bound and let go: nobody listens there.
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for preference in [Preference::Auto, Preference::Tcp] {
        let mut options = FetchOptions::default();
        options.trust = Trust::Insecure;
        options.preference = preference;
        fails(options, format!("https://{address}/f"), Category::Network, &["cannot connect", "refused"]).await;
    }
}

#[test]
fn an_unknown_host() {
    let why = std::io::Error::new(std::io::ErrorKind::NotFound, "failed to lookup address information");
    let error = Error::Resolve { host: "nowhere.example".into(), why: why.to_string() };
    assert_plain(&error.to_string());
    assert_eq!(error.category(), Category::Name);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_certificate() {
    let host = Host::new().await;
    let stranger = Identity::self_signed::<&str>(&[]).unwrap();
    for preference in [Preference::Quic, Preference::Tcp, Preference::Auto] {
        let mut options = host.options(preference);
        options.trust = Trust::Certificates(stranger.chain().to_vec());
        fails(options, host.url("f"), Category::Trust, &["not trusted", "nobody trusted here signed it"]).await;
        let mut options = host.options(preference);
        options.addresses.insert("elsewhere.example".into(), vec![[127, 0, 0, 1].into()]);
        let url = format!("https://elsewhere.example:{}/f", host.address.port());
        fails(options, url, Category::Trust, &["not trusted", "it is for other names (localhost, 127.0.0.1, ::1)"])
            .await;
        let mut options = host.options(preference);
        options.trust = Trust::Keys(vec![[7; 32]]);
        fails(options, host.url("f"), Category::Trust, &["not trusted", "not the one expected"]).await;
    }
}

/// Over TCP: a server that speaks something else, that goes away, or that has no TLS in common.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_that_fails() {
    let identity = Identity::self_signed::<&str>(&[]).unwrap();
    let config = |alpn: &[u8]| {
        let mut config =
            rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_cert_resolver(CertificateStore::new(&identity).unwrap());
        config.alpn_protocols = vec![alpn.to_vec()];
        config
    };
    let foreign = tokio_rustls::TlsAcceptor::from(Arc::new(config(b"smtp")));
    for (what, category) in
        [("plain", Category::Protocol), ("closed", Category::Network), ("protocol", Category::Protocol)]
    {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let foreign = foreign.clone();
        let task = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                match what {
                    "plain" => {
                        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n").await;
                        tokio::time::sleep(Duration::from_millis(200)).await;
                    }
                    "closed" => drop(stream),
                    _ => drop(foreign.accept(stream).await),
                }
            }
        });
        let mut options = FetchOptions::default();
        options.trust = Trust::Insecure;
        options.preference = Preference::Tcp;
        fails(options, format!("https://{address}/f"), category, &[]).await;
        task.abort();
    }
}

/// Over HTTP/3: reset by the server, before and within the body, and a connection that is closed, with several codes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_stream_and_a_closed_connection() {
    for code in [H3_INTERNAL_ERROR, H3_REQUEST_REJECTED, H3_NO_ERROR, 0, 7, 0x1234_5678] {
        for (body, close) in [(false, false), (true, false), (false, true), (true, true)] {
            let server = RawServer::new(move |Exchange { mut send, recv, connection, .. }| async move {
                if body {
                    send.write_all(&answer("200", &[("content-length", "9"), ("etag", "\"1\"")], b"0123"))
                        .await
                        .unwrap();
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                if close {
                    connection.close(code, b"an odd \"reason\" {}");
                } else {
                    let _ = send.reset(code);
                }
                drop(recv);
            });
            let words: &[&str] = if close { &["closed"] } else { &["cancelled the request"] };
            // The server's own words are quoted, so they are not judged: see below.
            if close {
                let downloads = Downloads::new();
                let error = get_one(&server.fetcher(), server.url("f"), &downloads.path("f"), None).await.unwrap_err();
                let text = error.to_string();
                assert!(words.iter().all(|word| text.contains(word)), "{text}");
                continue;
            }
            // It would be asked again, as the file may have changed.
            let mut options = server.options();
            options.retries = 1;
            fails(options, server.url("f"), Category::Network, words).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_says_nothing() {
    let server = RawServer::new(|exchange: Exchange| async move {
        std::future::pending::<()>().await;
        drop(exchange);
    });
    let mut options = server.options();
    options.idle_timeout = Duration::from_secs(1);
    fails(options, server.url("f"), Category::Network, &["nothing arrived for 1 s"]).await;
    // Nobody at all: the datagrams go to a socket that does not answer.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address: SocketAddr = silent.local_addr().unwrap();
    for preference in [Preference::Quic, Preference::Auto] {
        let mut options = FetchOptions::default();
        options.trust = Trust::Insecure;
        options.preference = preference;
        options.quic_patience = Duration::from_millis(300);
        options.connect_timeout = Duration::from_secs(1);
        fails(options, format!("https://{address}/f"), Category::Network, &["cannot connect"]).await;
    }
}

/// On the local side: a file that cannot be written, one that cannot be read, certificates that are none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_at_this_end() {
    let host = Host::new().await;
    host.file("f", b"x");
    let fetcher = host.fetcher(Preference::Quic);
    let downloads = Downloads::new();
    let error = get_one(&fetcher, host.url("f"), &downloads.path("none/f"), None).await.unwrap_err();
    assert_plain(&error.to_string().replace(downloads.0.path().to_str().unwrap(), ""));
    assert_eq!(error.category(), Category::Local);
    let error = fetcher.put(downloads.path("missing"), host.url("g"), None).await.unwrap_err();
    assert_plain(&error.to_string().replace(downloads.0.path().to_str().unwrap(), ""));
    assert_eq!(error.category(), Category::Local);
    for pem in [
        "",
        "-----BEGIN CERTIFICATE-----\nAAAA\n",
        "-----BEGIN CERTIFICATE----\nAAAA\n-----END CERTIFICATE-----\n",
        "-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    ] {
        let path = downloads.path("ca.pem");
        std::fs::write(&path, pem).unwrap();
        let trusted = Trust::pem_file(&path).and_then(|trust| {
            let mut options = FetchOptions::default();
            options.trust = trust;
            Fetcher::new(options)
        });
        let text = trusted.err().expect("not certificates").to_string();
        assert_plain(&text.replace(downloads.0.path().to_str().unwrap(), ""));
    }
}
