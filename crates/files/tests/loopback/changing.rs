//! Files that change on the server while they are fetched, or on their way into a pipe.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use thalweg_files::client::{Category, Event, EventSink, FetchOptions, Fetcher, Job, Notice, Preference, Target};

use crate::common::{Downloads, Host, Recorder, assert_plain, get_one, sample};

/// Slow enough that the server cannot have read the whole file when it changes.
fn slow(host: &Host, preference: Preference) -> FetchOptions {
    let mut options = host.options(preference);
    options.limit_rate = Some(4_000_000);
    options
}

/// Overwrites the file in place: whoever has it open sees the change.
fn change(path: &PathBuf, size: usize) {
    std::fs::write(path, sample(size)).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_changes_is_named_and_fetched_anew() {
    for preference in [Preference::Quic, Preference::Tcp] {
        let host = Host::new().await;
        host.file("big", &sample(8_000_000));
        let downloads = Downloads::new();
        let fetcher = Fetcher::new(slow(&host, preference)).unwrap();
        let recorder = Recorder::default();
        let path = host.dir.path().join("big");
        let sink = recorder.when(1_000_000, move || change(&path, 3_000_000));
        let report = get_one(&fetcher, host.url("big"), &downloads.path("big"), Some(sink)).await.unwrap();
        assert!(std::fs::read(downloads.path("big")).unwrap() == sample(3_000_000), "{preference:?}");
        assert_eq!((report.retries, report.resumed_from), (1, 0), "{preference:?}");
        let notices = recorder.notices();
        let named = |notice: &Notice| matches!(notice, Notice::Restarted { why, .. } if why.contains("has changed"));
        assert!(notices.iter().any(named), "{preference:?}: {notices:?}");
        notices.iter().for_each(|notice| assert_plain(&notice.to_string()));
        assert_eq!(downloads.names(), ["big"]);
    }
}

/// Changes the file each time that this many bytes of a version have arrived.
fn restless(path: PathBuf, thresholds: Vec<u64>) -> EventSink {
    let round = AtomicUsize::new(0);
    let fresh = Mutex::new(true);
    Arc::new(move |event| match event {
        Event::Started { .. } => *fresh.lock().unwrap() = true,
        Event::Progress { bytes, .. } => {
            let round_now = round.load(Ordering::Relaxed);
            let due = thresholds.get(round_now).is_some_and(|threshold| bytes >= threshold);
            if due && std::mem::take(&mut *fresh.lock().unwrap()) {
                round.fetch_add(1, Ordering::Relaxed);
                change(&path, 8_000_001 + round_now);
            }
        }
        _ => {}
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_never_rests_is_given_up_and_named() {
    for preference in [Preference::Quic, Preference::Tcp] {
        let host = Host::new().await;
        host.file("big", &sample(8_000_000));
        let downloads = Downloads::new();
        let mut options = slow(&host, preference);
        options.retries = 1;
        let fetcher = Fetcher::new(options).unwrap();
        // Fewer bytes of the second version than of the first: that is no progress.
        let sink = restless(host.dir.path().join("big"), vec![2_500_000, 400_000]);
        let error = get_one(&fetcher, host.url("big"), &downloads.path("big"), Some(sink)).await.unwrap_err();
        assert_eq!(error.category(), Category::Network, "{error}");
        let text = error.to_string();
        assert!(text.contains("the file on the server has changed more than once"), "{preference:?}: {text}");
        assert_eq!(downloads.names(), ["big.part", "big.part.meta"]);
    }
}

/// What went into a pipe cannot be taken back: there is no second beginning behind the first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_file_never_follows_itself_into_a_pipe() {
    let host = Host::new().await;
    let first = sample(8_000_000);
    host.file("big", &first);
    let (mut read, write) = std::io::pipe().unwrap();
    let reading = std::thread::spawn(move || {
        let mut out = Vec::new();
        std::io::Read::read_to_end(&mut read, &mut out).unwrap();
        out
    });
    let fetcher = Fetcher::new(slow(&host, Preference::Quic)).unwrap();
    let path = host.dir.path().join("big");
    let sink = Recorder::default().when(1_000_000, move || change(&path, 3_000_000));
    let writer = tokio::fs::File::from_std(std::fs::File::from(std::os::fd::OwnedFd::from(write)));
    let job = Job { url: host.url("big"), target: Target::Writer(Box::new(writer)) };
    let error = fetcher.get(vec![job], Some(sink)).await.pop().unwrap().unwrap_err();
    let text = error.to_string();
    assert!(text.contains("has changed, and") && text.contains("written already"), "{text}");
    let out = reading.join().unwrap();
    assert!(first.starts_with(&out) && !out.is_empty(), "{} bytes", out.len());
}
