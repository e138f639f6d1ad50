//! Files through real sockets on loopback, each story over QUIC and over TCP.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::common::{Downloads, Host, Recorder, get_one, sample};
use thalweg_files::client::{Category, Error, Event, Fetcher, Job, Notice, Preference, Protocol, Target, Trust};

/// Makes a test of a story for each transport.
macro_rules! over_both {
    ($($story:ident),* $(,)?) => {
        mod quic {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $story() { super::$story(super::Preference::Quic).await; })*
        }
        mod tcp {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $story() { super::$story(super::Preference::Tcp).await; })*
        }
    };
}

over_both! {
    a_download_arrives_equal_and_leaves_no_partial_file,
    a_writer_gets_the_bytes,
    a_stopped_download_is_kept_and_resumed,
    a_dying_server_leaves_a_partial_file_to_resume,
    a_changed_file_is_fetched_from_the_start,
    a_complete_partial_file_is_only_verified,
    a_partial_file_without_tag_is_fetched_again,
    an_upload_arrives_equal,
    a_refused_upload_says_why,
    a_hundred_small_files_share_one_connection,
    an_unknown_certificate_is_refused_with_advice,
    pins_and_wrong_names,
    errors_leave_nothing_behind,
    redirects_are_followed,
    the_rate_limit_holds,
    the_rate_limit_holds_for_uploads,
    a_stopping_server_finishes_its_answers,
    the_access_log_tells_the_protocol,
    an_abandoned_download_is_logged_as_aborted,
    certificates_can_be_replaced_while_running,
}

async fn a_download_arrives_equal_and_leaves_no_partial_file(preference: Preference) {
    let host = Host::new().await;
    let data = sample(5_000_000);
    host.file("five.bin", &data);
    let downloads = Downloads::new();
    let fetcher = host.fetcher(preference);
    let recorder = Recorder::default();
    let report = get_one(&fetcher, host.url("five.bin"), &downloads.path("f"), Some(recorder.sink())).await.unwrap();
    assert_eq!(std::fs::read(downloads.path("f")).unwrap(), data);
    assert_eq!(downloads.names(), ["f"]);
    assert_eq!((report.status, report.bytes, report.resumed_from), (200, 5_000_000, 0));
    let expected = if preference == Preference::Tcp { Protocol::Http2 } else { Protocol::Http3 };
    assert_eq!(report.protocol, expected);
    assert_eq!(report.connection.is_some(), expected == Protocol::Http3);
    assert!(report.handshake > Duration::ZERO && report.goodput_bps > 0);
    let events = recorder.events.lock().unwrap();
    assert!(matches!(events[0], Event::Connected { protocol, .. } if protocol == expected));
    assert!(matches!(events[1], Event::Started { total: Some(5_000_000), resumed_from: 0, .. }));
    assert!(matches!(events.last(), Some(Event::Finished { job: 0, ok: true })));
    let last = events.iter().rev().find_map(|event| match event {
        Event::Progress { bytes, .. } => Some(*bytes),
        _ => None,
    });
    assert_eq!(last, Some(5_000_000));
}

async fn a_writer_gets_the_bytes(preference: Preference) {
    let host = Host::new().await;
    let data = sample(300_000);
    host.file("f", &data).file("empty", b"");
    let fetcher = host.fetcher(preference);
    let (ours, mut theirs) = tokio::io::duplex(10_000);
    let job = Job { url: host.url("f"), target: Target::Writer(Box::new(ours)) };
    let read = tokio::spawn(async move {
        let mut out = Vec::new();
        tokio::io::AsyncReadExt::read_to_end(&mut theirs, &mut out).await.unwrap();
        out
    });
    let results = fetcher.get(vec![job], None).await;
    assert_eq!(results[0].as_ref().unwrap().bytes, 300_000);
    assert_eq!(read.await.unwrap(), data);
    let job = Job { url: host.url("empty"), target: Target::Discard };
    assert_eq!(fetcher.get(vec![job], None).await[0].as_ref().unwrap().bytes, 0);
}

/// Fetches 20 MB slowly and breaks off by `action` after 3 MB.
async fn break_off(
    host: &Host,
    preference: Preference,
    downloads: &Downloads,
    action: impl FnOnce() + Send + 'static,
) -> Error {
    let mut options = host.options(preference);
    options.limit_rate = Some(10_000_000);
    options.idle_timeout = Duration::from_secs(2);
    options.retries = 0;
    let fetcher = thalweg_files::client::Fetcher::new(options).unwrap();
    let recorder = Recorder::default();
    let sink = recorder.when(3_000_000, action);
    get_one(&fetcher, host.url("big"), &downloads.path("big"), Some(sink)).await.unwrap_err()
}

async fn resume(
    host: &Host,
    preference: Preference,
    downloads: &Downloads,
    recorder: &Recorder,
) -> thalweg_files::client::Report {
    let mut options = host.options(preference);
    options.resume = true;
    let fetcher = thalweg_files::client::Fetcher::new(options).unwrap();
    get_one(&fetcher, host.url("big"), &downloads.path("big"), Some(recorder.sink())).await.unwrap()
}

async fn a_stopped_download_is_kept_and_resumed(preference: Preference) {
    let host = Host::new().await;
    let data = sample(20_000_000);
    host.file("big", &data);
    let downloads = Downloads::new();
    let mut options = host.options(preference);
    options.limit_rate = Some(10_000_000);
    let fetcher = thalweg_files::client::Fetcher::new(options).unwrap();
    let stopper = fetcher.clone();
    let sink = Recorder::default().when(3_000_000, move || stopper.stop());
    let error = get_one(&fetcher, host.url("big"), &downloads.path("big"), Some(sink)).await.unwrap_err();
    assert_eq!(error.category(), Category::Stopped);
    let kept = error.kept().unwrap().clone();
    assert!(kept.resumable && kept.bytes >= 3_000_000 && kept.bytes < 20_000_000);
    assert!(error.to_string().contains("--resume"), "{error}");
    assert_eq!(downloads.names(), ["big.part", "big.part.meta"]);

    let recorder = Recorder::default();
    let report = resume(&host, preference, &downloads, &recorder).await;
    assert_eq!((report.status, report.resumed_from), (206, kept.bytes));
    assert_eq!(report.bytes, 20_000_000 - kept.bytes);
    assert_eq!(std::fs::read(downloads.path("big")).unwrap(), data);
    assert_eq!(downloads.names(), ["big"]);
    assert_eq!(recorder.notices(), []);
}

async fn a_dying_server_leaves_a_partial_file_to_resume(preference: Preference) {
    let mut host = Host::new().await;
    let data = sample(20_000_000);
    host.file("big", &data);
    let downloads = Downloads::new();
    let (die, dying) = tokio::sync::oneshot::channel();
    let mut options = host.options(preference);
    options.limit_rate = Some(10_000_000);
    options.idle_timeout = Duration::from_secs(2);
    options.retries = 0;
    let fetcher = thalweg_files::client::Fetcher::new(options).unwrap();
    let sink = Recorder::default().when(3_000_000, move || die.send(()).unwrap());
    let (url, path) = (host.url("big"), downloads.path("big"));
    let getting = tokio::spawn(async move { get_one(&fetcher, url, &path, Some(sink)).await });
    dying.await.unwrap();
    host.kill().await;
    let error = getting.await.unwrap().unwrap_err();
    assert_eq!(error.category(), Category::Network, "{error}");
    assert!(error.to_string().contains("--resume"), "{error}");
    assert_eq!(downloads.names(), ["big.part", "big.part.meta"]);
    host.start(|_| {}).await;
    let report = resume(&host, preference, &downloads, &Recorder::default()).await;
    assert!(report.resumed_from >= 3_000_000);
    assert_eq!(std::fs::read(downloads.path("big")).unwrap(), data);
}

async fn a_changed_file_is_fetched_from_the_start(preference: Preference) {
    let host = Host::new().await;
    host.file("big", &sample(20_000_000));
    let downloads = Downloads::new();
    let fetcher_host = &host;
    let (stop, mut stopping) = tokio::sync::mpsc::unbounded_channel();
    let error = tokio::select! {
        error = break_off(fetcher_host, preference, &downloads, move || { let _ = stop.send(()); }) => Some(error),
        _ = stopping.recv() => None, // the future is dropped: an abandoned transfer
    };
    assert!(error.is_none());
    let data = sample(19_000_000);
    host.file("big", &data);
    let recorder = Recorder::default();
    let report = resume(&host, preference, &downloads, &recorder).await;
    assert_eq!((report.status, report.resumed_from), (200, 0));
    assert!(matches!(&recorder.notices()[..], [Notice::Restarted { .. }]));
    assert_eq!(std::fs::read(downloads.path("big")).unwrap(), data);
    assert_eq!(downloads.names(), ["big"]);
}

async fn a_complete_partial_file_is_only_verified(preference: Preference) {
    let host = Host::new().await;
    let data = sample(100_000);
    host.file("big", &data);
    let downloads = Downloads::new();
    let fetcher = host.fetcher(preference);
    let report = get_one(&fetcher, host.url("big"), &downloads.path("big"), None).await.unwrap();
    std::fs::rename(downloads.path("big"), downloads.path("big.part")).unwrap();
    let meta = format!("thalweg-part 1\nurl {}\netag {}\nlength 100000\n", host.url("big"), report.etag.unwrap());
    std::fs::write(downloads.path("big.part.meta"), meta).unwrap();
    let report = resume(&host, preference, &downloads, &Recorder::default()).await;
    assert_eq!((report.status, report.bytes, report.resumed_from), (304, 0, 100_000));
    assert_eq!(std::fs::read(downloads.path("big")).unwrap(), data);
    assert_eq!(downloads.names(), ["big"]);
}

async fn a_partial_file_without_tag_is_fetched_again(preference: Preference) {
    let host = Host::new().await;
    let data = sample(100_000);
    host.file("big", &data);
    let downloads = Downloads::new();
    std::fs::write(downloads.path("big.part"), "of something else").unwrap();
    let recorder = Recorder::default();
    let report = resume(&host, preference, &downloads, &recorder).await;
    assert_eq!(report.resumed_from, 0);
    assert!(matches!(&recorder.notices()[..], [Notice::Restarted { .. }]));
    assert_eq!(std::fs::read(downloads.path("big")).unwrap(), data);
}

async fn an_upload_arrives_equal(preference: Preference) {
    let host = Host::new().await;
    let downloads = Downloads::new();
    let data = sample(5_000_000);
    std::fs::write(downloads.path("up"), &data).unwrap();
    let fetcher = host.fetcher(preference);
    let report = fetcher.put(downloads.path("up"), host.url("there"), None).await.unwrap();
    assert_eq!((report.status, report.bytes), (201, 5_000_000));
    assert_eq!(std::fs::read(host.dir.path().join("there")).unwrap(), data);
    let report = fetcher.put(downloads.path("up"), host.url(""), None).await.unwrap();
    assert_eq!(report.final_url, host.url("up"));
    std::fs::write(downloads.path("up"), "").unwrap();
    let report = fetcher.put(downloads.path("up"), host.url("there"), None).await.unwrap();
    assert_eq!((report.status, report.bytes), (204, 0));
    assert_eq!(std::fs::read(host.dir.path().join("there")).unwrap(), b"");
    assert_eq!(std::fs::read_dir(host.dir.path()).unwrap().count(), 2);
}

async fn a_refused_upload_says_why(preference: Preference) {
    let host = Host::new().await;
    let downloads = Downloads::new();
    std::fs::write(downloads.path("up"), sample(3_000_000)).unwrap();
    let fetcher = host.fetcher(preference);
    let error = fetcher.put(downloads.path("up"), host.url("no/such/dir"), None).await.unwrap_err();
    assert!(matches!(error, Error::Status { status: 409, .. }), "{error}");
    assert!(error.to_string().contains("directory must exist"), "{error}");
    let error = fetcher.put(downloads.path("none"), host.url("x"), None).await.unwrap_err();
    assert_eq!(error.category(), Category::Local);
    // The connection is still good.
    fetcher.put(downloads.path("up"), host.url("x"), None).await.unwrap();
}

async fn a_hundred_small_files_share_one_connection(preference: Preference) {
    let host = Host::new().await;
    let downloads = Downloads::new();
    let jobs: Vec<Job> = (0..100)
        .map(|i| {
            host.file(&format!("f{i}"), &sample(i * 100));
            Job::to_file(host.url(&format!("f{i}")), downloads.path(&format!("f{i}")))
        })
        .collect();
    let mut options = host.options(preference);
    options.parallel = 100;
    let fetcher = thalweg_files::client::Fetcher::new(options).unwrap();
    let results = fetcher.get(jobs, None).await;
    let mut handshakes = std::collections::BTreeSet::new();
    for (i, result) in results.iter().enumerate() {
        let report = result.as_ref().unwrap();
        handshakes.insert(report.handshake);
        assert_eq!(std::fs::read(downloads.path(&format!("f{i}"))).unwrap(), sample(i * 100));
    }
    assert_eq!(handshakes.len(), 1, "one connection, one handshake");
    assert_eq!(downloads.names().len(), 100);
    assert_eq!(host.log_lines(100).await.len(), 100);
}

async fn an_unknown_certificate_is_refused_with_advice(preference: Preference) {
    let host = Host::new().await;
    host.file("f", b"x");
    let downloads = Downloads::new();
    let other = thalweg_files::certificate::Identity::self_signed::<&str>(&[]).unwrap();
    let mut options = host.options(preference);
    options.trust = Trust::Certificates(other.chain().to_vec());
    let fetcher = thalweg_files::client::Fetcher::new(options.clone()).unwrap();
    let began = Instant::now();
    let error = get_one(&fetcher, host.url("f"), &downloads.path("f"), None).await.unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(3));
    assert_eq!(error.category(), Category::Trust, "{error}");
    let text = error.to_string();
    assert!(text.contains("--ca") && text.contains("--insecure"), "{text}");
    assert!(text.contains(&host.identity.fingerprints().unwrap().spki_sha256), "{text}");
    assert_eq!(downloads.names().len(), 0);
    // Auto does not hide it behind a fall-back.
    options.preference = Preference::Auto;
    let fetcher = thalweg_files::client::Fetcher::new(options.clone()).unwrap();
    let error = get_one(&fetcher, host.url("f"), &downloads.path("f"), None).await.unwrap_err();
    assert_eq!(error.category(), Category::Trust, "{error}");
    options.trust = Trust::Insecure;
    options.preference = preference;
    let fetcher = thalweg_files::client::Fetcher::new(options).unwrap();
    get_one(&fetcher, host.url("f"), &downloads.path("f"), None).await.unwrap();
}

async fn pins_and_wrong_names(preference: Preference) {
    let host = Host::new().await;
    host.file("f", b"x");
    let downloads = Downloads::new();
    let mut options = host.options(preference);
    options.addresses.insert("other.example".into(), vec![[127, 0, 0, 1].into()]);
    let url = format!("https://other.example:{}/f", host.address.port());
    let fetcher = thalweg_files::client::Fetcher::new(options.clone()).unwrap();
    let error = get_one(&fetcher, url.clone(), &downloads.path("f"), None).await.unwrap_err();
    assert!(error.to_string().contains("localhost"), "{error}");
    options.trust = Trust::key(&host.identity.fingerprints().unwrap().spki_sha256).unwrap();
    let fetcher = thalweg_files::client::Fetcher::new(options.clone()).unwrap();
    get_one(&fetcher, url.clone(), &downloads.path("f"), None).await.unwrap();
    options.trust = Trust::Keys(vec![[0; 32]]);
    let fetcher = thalweg_files::client::Fetcher::new(options).unwrap();
    let error = get_one(&fetcher, url, &downloads.path("f"), None).await.unwrap_err();
    assert!(error.to_string().contains("not the one expected"), "{error}");
}

async fn errors_leave_nothing_behind(preference: Preference) {
    let host = Host::new().await;
    host.file("f", b"x");
    let downloads = Downloads::new();
    let fetcher = host.fetcher(preference);
    let jobs = vec![
        Job::to_file(host.url("none"), downloads.path("a")),
        Job::to_file(host.url("f"), downloads.path("no/dir/b")),
        Job::to_file("http://localhost/", downloads.path("c")),
        Job::to_file(host.url("f"), downloads.path("d")),
        Job::to_file(host.url("f"), downloads.path("d")),
    ];
    let results = fetcher.get(jobs, None).await;
    let categories: Vec<_> = results.iter().map(|r| r.as_ref().map_err(Error::category).err()).collect();
    assert_eq!(
        categories,
        [Some(Category::Http), Some(Category::Local), Some(Category::Usage), None, Some(Category::Usage)]
    );
    assert_eq!(downloads.names(), ["d"]);
}

async fn redirects_are_followed(preference: Preference) {
    let host = Host::new().await;
    std::fs::create_dir(host.dir.path().join("sub")).unwrap();
    host.file("sub/index.html", b"index");
    let downloads = Downloads::new();
    let fetcher = host.fetcher(preference);
    let recorder = Recorder::default();
    let report = get_one(&fetcher, host.url("sub"), &downloads.path("f"), Some(recorder.sink())).await.unwrap();
    assert_eq!(report.final_url, host.url("sub/"));
    assert!(matches!(&recorder.notices()[..], [Notice::Redirected { .. }]));
    assert_eq!(std::fs::read(downloads.path("f")).unwrap(), b"index");
    let mut options = host.options(preference);
    options.max_redirects = 0;
    let fetcher = thalweg_files::client::Fetcher::new(options).unwrap();
    let error = get_one(&fetcher, host.url("sub"), &downloads.path("g"), None).await.unwrap_err();
    assert!(matches!(error, Error::Redirects { .. }));
}

/// Only the lower bound of the time is the limit's; the upper one is the machine's.
async fn the_rate_limit_holds_for_uploads(preference: Preference) {
    let host = Host::new().await;
    let data = sample(1_500_000);
    let source = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(source.path(), &data).unwrap();
    let mut options = host.options(preference);
    options.limit_rate = Some(1_000_000);
    let began = Instant::now();
    let recorder = Recorder::default();
    let put = Fetcher::new(options).unwrap().put(source.path(), host.url("up.bin"), Some(recorder.sink())).await;
    let elapsed = began.elapsed();
    assert_eq!(put.unwrap().bytes, data.len() as u64);
    assert_eq!(std::fs::read(host.dir.path().join("up.bin")).unwrap(), data);
    // The last piece, of 65,536 bytes at most, and a burst of 100 ms are not waited for.
    assert!(elapsed >= Duration::from_millis(1_300), "1.5 MB at 1 MB/s took {elapsed:?}");
    let events = recorder.events.lock().unwrap();
    let steps = events.iter().filter(|event| matches!(event, Event::Progress { .. })).count();
    assert!(steps >= 5, "progress came in {steps} steps");
}

async fn the_rate_limit_holds(preference: Preference) {
    let host = Host::new().await;
    host.file("f", &sample(2_000_000));
    let mut options = host.options(preference);
    options.limit_rate = Some(4_000_000);
    let fetcher = thalweg_files::client::Fetcher::new(options).unwrap();
    let began = Instant::now();
    let job = Job { url: host.url("f"), target: Target::Discard };
    fetcher.get(vec![job], None).await.pop().unwrap().unwrap();
    let elapsed = began.elapsed().as_secs_f64();
    assert!((0.38..3.0).contains(&elapsed), "{elapsed}");
}

async fn a_stopping_server_finishes_its_answers(preference: Preference) {
    let mut host = Host::new().await;
    let data = sample(10_000_000);
    host.file("f", &data);
    let downloads = Downloads::new();
    let mut options = host.options(preference);
    options.limit_rate = Some(10_000_000);
    let fetcher = thalweg_files::client::Fetcher::new(options).unwrap();
    let (stop, stopping) = tokio::sync::oneshot::channel();
    let sink = Recorder::default().when(1_000_000, move || stop.send(()).unwrap());
    let path = downloads.path("f");
    let url = host.url("f");
    let getting = tokio::spawn(async move { get_one(&fetcher, url, &path, Some(sink)).await });
    stopping.await.unwrap();
    host.stop().await;
    getting.await.unwrap().unwrap();
    assert_eq!(std::fs::read(downloads.path("f")).unwrap(), data);
    let fetcher = host.fetcher(preference);
    let mut options = host.options(preference);
    options.connect_timeout = Duration::from_secs(2);
    drop(fetcher);
    let fetcher = thalweg_files::client::Fetcher::new(options).unwrap();
    let error = get_one(&fetcher, host.url("f"), &downloads.path("g"), None).await.unwrap_err();
    assert_eq!(error.category(), Category::Network, "{error}");
}

async fn the_access_log_tells_the_protocol(preference: Preference) {
    let mut host = Host::new().await;
    host.file("f", &sample(1_000_000));
    let downloads = Downloads::new();
    let fetcher = host.fetcher(preference);
    get_one(&fetcher, host.url("f?x=1"), &downloads.path("f"), None).await.unwrap();
    get_one(&fetcher, host.url("none"), &downloads.path("g"), None).await.unwrap_err();
    fetcher.put(downloads.path("f"), host.url("up"), None).await.unwrap();
    fetcher.close().await;
    host.stop().await;
    let log = host.log_lines(3).await;
    let protocol = if preference == Preference::Tcp { "HTTP/2" } else { "HTTP/3" };
    assert_eq!(log.len(), 3, "{log:#?}");
    assert!(log[0].contains(&format!("\"GET /f?x=1 {protocol}\" 200 1000000 \"-\" \"thalweg/")), "{}", log[0]);
    assert!(log[1].contains(&format!("\"GET /none {protocol}\" 404 ")), "{}", log[1]);
    assert!(log[2].contains(&format!("\"PUT /up {protocol}\" 201 1000000 ")), "{}", log[2]);
    assert!(log.iter().all(|line| !line.contains("aborted")), "{log:#?}");
}

async fn an_abandoned_download_is_logged_as_aborted(preference: Preference) {
    let mut host = Host::new().await;
    host.file("big", &sample(20_000_000));
    let downloads = Downloads::new();
    let mut options = host.options(preference);
    options.limit_rate = Some(5_000_000);
    let fetcher = thalweg_files::client::Fetcher::new(options).unwrap();
    let stopper = fetcher.clone();
    let sink = Recorder::default().when(1_000_000, move || stopper.stop());
    get_one(&fetcher, host.url("big"), &downloads.path("big"), Some(sink)).await.unwrap_err();
    fetcher.close().await;
    drop(fetcher);
    host.stop().await;
    let log = host.log_lines(1).await;
    assert!(log.len() == 1 && log[0].ends_with(" aborted"), "{log:#?}");
}

async fn certificates_can_be_replaced_while_running(preference: Preference) {
    let store = Arc::new(Mutex::new(None));
    let kept = Arc::clone(&store);
    let host = Host::with(move |options| *kept.lock().unwrap() = Some(Arc::clone(&options.certificate))).await;
    host.file("f", b"x");
    let downloads = Downloads::new();
    let before = host.fetcher(preference);
    get_one(&before, host.url("f"), &downloads.path("f"), None).await.unwrap();
    let fresh = thalweg_files::certificate::Identity::self_signed::<&str>(&[]).unwrap();
    store.lock().unwrap().as_ref().unwrap().replace(&fresh).unwrap();
    // The standing connection goes on, a new one sees the new certificate.
    get_one(&before, host.url("f"), &downloads.path("f"), None).await.unwrap();
    let error = get_one(&host.fetcher(preference), host.url("f"), &downloads.path("f"), None).await.unwrap_err();
    assert_eq!(error.category(), Category::Trust);
    let mut options = host.options(preference);
    options.trust = Trust::Certificates(fresh.chain().to_vec());
    let fetcher = thalweg_files::client::Fetcher::new(options).unwrap();
    get_one(&fetcher, host.url("f"), &downloads.path("f"), None).await.unwrap();
}

/// Opening a pipe would wait for somebody who writes to it.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pipe_is_not_sent_and_not_waited_for() {
    let host = Host::new().await;
    let downloads = Downloads::new();
    let pipe = downloads.path("pipe");
    if !std::process::Command::new("mkfifo").arg(&pipe).status().is_ok_and(|made| made.success()) {
        println!("skipped: a pipe cannot be made here");
        return;
    }
    let fetcher = host.fetcher(Preference::Quic);
    let put = fetcher.put(&pipe, host.url("up"), None);
    let error = tokio::time::timeout(Duration::from_secs(10), put).await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Read { .. }) && error.to_string().contains("regular files"), "{error}");
    assert!(!host.dir.path().join("up").exists());
}
