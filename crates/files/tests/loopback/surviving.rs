//! Downloads whose connection does not last: other addresses, servers that restart, servers that are gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::{Downloads, Host, Recorder, Relay, get_one, sample};
use thalweg_files::client::{
    Category, Error, Event, EventSink, FetchOptions, Fetcher, Job, Notice, Preference, Report, Target,
};

/// Options for a server that is reached by way of `relay`.
fn options(host: &Host, preference: Preference) -> FetchOptions {
    let mut options = host.options(preference);
    options.idle_timeout = Duration::from_secs(30);
    options.connect_timeout = Duration::from_secs(5);
    options
}

fn url(relay: &Relay, name: &str) -> String {
    format!("https://localhost:{}/{name}", relay.address.port())
}

fn retried(recorder: &Recorder) -> bool {
    recorder.notices().iter().any(|notice| matches!(notice, Notice::Retrying { .. }))
}

/// Calls `action` each time that another `step` bytes have arrived, at most `times` times.
fn every(step: u64, times: u64, count: Arc<AtomicU64>, action: impl Fn() + Send + Sync + 'static) -> EventSink {
    Arc::new(move |event| {
        if let Event::Progress { bytes, .. } = event {
            let done = count.load(Ordering::Relaxed);
            if done < times && *bytes >= (done + 1) * step {
                count.fetch_add(1, Ordering::Relaxed);
                action();
            }
        }
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_download_survives_20_nat_rebindings() {
    const SIZE: usize = 200_000_000;
    let host = Host::new().await;
    let data = sample(SIZE);
    host.file("big", &data);
    let relay = Relay::new(host.address).await;
    let downloads = Downloads::new();
    let mut options = options(&host, Preference::Quic);
    // Progress is reported ten times a second, so a fast machine would bring the file in too few steps.
    options.limit_rate = Some(60_000_000);
    let fetcher = Fetcher::new(options).unwrap();
    let count = Arc::default();
    let sink = every(SIZE as u64 / 22, 20, Arc::clone(&count), relay.rebinder());
    let report = get_one(&fetcher, url(&relay, "big"), &downloads.path("big"), Some(sink)).await.unwrap();
    assert_eq!(count.load(Ordering::Relaxed), 20);
    assert_eq!(report.retries, 0, "the connection follows by itself");
    assert!(std::fs::read(downloads.path("big")).unwrap() == data);
}

/// The server ends at once and begins anew, while the network is out.
async fn crash(host: &mut Host, relay: &Relay) {
    relay.set_cut(true);
    host.kill().await;
    host.start(|_| {}).await;
    relay.set_cut(false);
}

/// Starts a slow download and returns when 2 MB are here.
async fn under_way(
    fetcher: &Fetcher,
    url: String,
    downloads: &Downloads,
    recorder: &Recorder,
) -> tokio::task::JoinHandle<Result<Report, Error>> {
    let (seen, mut seeing) = tokio::sync::mpsc::unbounded_channel();
    let sink = recorder.when(2_000_000, move || seen.send(()).unwrap());
    let (fetcher, path) = (fetcher.clone(), downloads.path("big"));
    let getting = tokio::spawn(async move { get_one(&fetcher, url, &path, Some(sink)).await });
    seeing.recv().await.unwrap();
    getting
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_server_is_noticed_and_the_file_continued() {
    let mut host = Host::new().await;
    let data = sample(12_000_000);
    host.file("big", &data);
    let relay = Relay::new(host.address).await;
    let downloads = Downloads::new();
    let mut options = options(&host, Preference::Quic);
    options.limit_rate = Some(4_000_000);
    let fetcher = Fetcher::new(options).unwrap();
    let recorder = Recorder::default();
    let getting = under_way(&fetcher, url(&relay, "big"), &downloads, &recorder).await;
    let began = Instant::now();
    crash(&mut host, &relay).await;
    let report = getting.await.unwrap().unwrap();
    assert!(std::fs::read(downloads.path("big")).unwrap() == data);
    assert!(report.retries >= 1 && retried(&recorder), "{:?}", recorder.notices());
    assert_eq!((report.bytes, report.resumed_from), (12_000_000, 0));
    assert_eq!(downloads.names(), ["big"]);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}: the idle timeout is 30 s", began.elapsed());
    assert!(host.log_lines(1).await.iter().any(|line| line.contains(" 206 ")), "continued, not repeated");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_tcp_a_restarted_server_is_noticed_too() {
    let mut host = Host::new().await;
    let data = sample(12_000_000);
    host.file("big", &data);
    let downloads = Downloads::new();
    let mut options = options(&host, Preference::Tcp);
    options.limit_rate = Some(4_000_000);
    let fetcher = Fetcher::new(options).unwrap();
    let recorder = Recorder::default();
    let getting = under_way(&fetcher, host.url("big"), &downloads, &recorder).await;
    host.kill().await;
    host.start(|_| {}).await;
    let report = getting.await.unwrap().unwrap();
    assert!(std::fs::read(downloads.path("big")).unwrap() == data);
    assert!(report.retries >= 1 && retried(&recorder), "{:?}", recorder.notices());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_the_path_swallows_is_found_out_by_a_second_one() {
    let host = Host::new().await;
    let data = sample(12_000_000);
    host.file("big", &data);
    let relay = Relay::new(host.address).await;
    let downloads = Downloads::new();
    let mut options = options(&host, Preference::Quic);
    options.limit_rate = Some(4_000_000);
    let fetcher = Fetcher::new(options).unwrap();
    let recorder = Recorder::default();
    let getting = under_way(&fetcher, url(&relay, "big"), &downloads, &recorder).await;
    relay.forsake();
    getting.await.unwrap().unwrap();
    assert!(std::fs::read(downloads.path("big")).unwrap() == data);
    let told = recorder.notices().iter().any(|notice| notice.to_string().contains("answers a new one"));
    assert!(told, "{:?}", recorder.notices());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_versions_of_a_file_are_never_mixed() {
    let mut host = Host::new().await;
    host.file("big", &sample(12_000_000));
    let relay = Relay::new(host.address).await;
    let downloads = Downloads::new();
    let mut options = options(&host, Preference::Quic);
    options.limit_rate = Some(4_000_000);
    let fetcher = Fetcher::new(options).unwrap();
    let recorder = Recorder::default();
    let getting = under_way(&fetcher, url(&relay, "big"), &downloads, &recorder).await;
    relay.set_cut(true);
    host.kill().await;
    let data = sample(11_000_000);
    std::fs::remove_file(host.dir.path().join("big")).unwrap();
    host.file("big", &data);
    host.start(|_| {}).await;
    relay.set_cut(false);
    let report = getting.await.unwrap().unwrap();
    assert!(std::fs::read(downloads.path("big")).unwrap() == data);
    assert_eq!((report.status, report.resumed_from), (200, 0));
    assert!(recorder.notices().iter().any(|notice| matches!(notice, Notice::Restarted { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_written_elsewhere_already_is_continued_or_given_up() {
    for changes in [false, true] {
        let mut host = Host::new().await;
        let data = sample(6_000_000);
        host.file("big", &data);
        let relay = Relay::new(host.address).await;
        let mut options = options(&host, Preference::Quic);
        options.limit_rate = Some(2_000_000);
        let fetcher = Fetcher::new(options).unwrap();
        let (ours, mut theirs) = tokio::io::duplex(100_000);
        let read = tokio::spawn(async move {
            let mut out = Vec::new();
            tokio::io::AsyncReadExt::read_to_end(&mut theirs, &mut out).await.unwrap();
            out
        });
        let (seen, mut seeing) = tokio::sync::mpsc::unbounded_channel();
        let sink = Recorder::default().when(2_000_000, move || seen.send(()).unwrap());
        let job = Job { url: url(&relay, "big"), target: Target::Writer(Box::new(ours)) };
        let getting = tokio::spawn(async move { fetcher.get(vec![job], Some(sink)).await.pop().unwrap() });
        seeing.recv().await.unwrap();
        if changes {
            std::fs::remove_file(host.dir.path().join("big")).unwrap();
            host.file("big", &sample(6_000_001));
        }
        crash(&mut host, &relay).await;
        let result = getting.await.unwrap();
        if changes {
            let error = result.unwrap_err();
            assert!(error.to_string().contains("has changed, and"), "{error}");
            assert!(data.starts_with(&read.await.unwrap()));
        } else {
            assert_eq!(result.unwrap().retries, 1);
            assert!(read.await.unwrap() == data);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_on_one_connection_are_all_continued_on_one_other() {
    let mut host = Host::new().await;
    let data = sample(3_000_000);
    let downloads = Downloads::new();
    let relay = Relay::new(host.address).await;
    let jobs: Vec<Job> = (0..8)
        .map(|i| {
            host.file(&format!("f{i}"), &data);
            Job::to_file(url(&relay, &format!("f{i}")), downloads.path(&format!("f{i}")))
        })
        .collect();
    let mut options = options(&host, Preference::Quic);
    options.limit_rate = Some(12_000_000);
    let fetcher = Fetcher::new(options).unwrap();
    let (seen, mut seeing) = tokio::sync::mpsc::unbounded_channel();
    let sink = Recorder::default().when(1_000_000, move || seen.send(()).unwrap());
    let getting = tokio::spawn(async move { fetcher.get(jobs, Some(sink)).await });
    seeing.recv().await.unwrap();
    crash(&mut host, &relay).await;
    let mut handshakes = std::collections::BTreeSet::new();
    for (i, result) in getting.await.unwrap().into_iter().enumerate() {
        handshakes.insert(result.unwrap().handshake);
        assert!(std::fs::read(downloads.path(&format!("f{i}"))).unwrap() == data, "f{i}");
    }
    assert!(handshakes.len() <= 2, "{handshakes:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_never_comes_back_ends_the_attempts_with_a_message() {
    for preference in [Preference::Quic, Preference::Tcp] {
        let mut host = Host::new().await;
        host.file("big", &sample(12_000_000));
        let downloads = Downloads::new();
        let mut options = options(&host, preference);
        options.limit_rate = Some(4_000_000);
        options.retries = 2;
        let fetcher = Fetcher::new(options).unwrap();
        let recorder = Recorder::default();
        let getting = under_way(&fetcher, host.url("big"), &downloads, &recorder).await;
        host.kill().await;
        let error = getting.await.unwrap().unwrap_err();
        assert_eq!(error.category(), Category::Network, "{error}");
        assert!(error.kept().unwrap().bytes >= 2_000_000);
        let text = error.to_string();
        assert!(text.contains("2 further attempts did not help") && text.contains("--resume"), "{text}");
        let waits: Vec<_> = recorder.notices().into_iter().filter(|n| matches!(n, Notice::Retrying { .. })).collect();
        assert_eq!(waits.len(), 2, "{waits:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_never_was_there_is_not_tried_again() {
    let mut host = Host::new().await;
    host.kill().await;
    let downloads = Downloads::new();
    let recorder = Recorder::default();
    let fetcher = Fetcher::new(options(&host, Preference::Quic)).unwrap();
    get_one(&fetcher, host.url("f"), &downloads.path("f"), Some(recorder.sink())).await.unwrap_err();
    assert!(!retried(&recorder));
}
