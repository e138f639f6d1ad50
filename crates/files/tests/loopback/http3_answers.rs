//! Requests of the client over HTTP/3, and unusual responses to it, byte by byte.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{Downloads, get_one, sample};
use crate::script::{Exchange, H3_INTERNAL_ERROR, H3_NO_ERROR, HEADERS, RawServer, answer, frame, frames, headers};
use thalweg_files::client::{Category, Error, Fetcher, Job};

/// Types and lengths of the frames on a stream.
type Frames = Vec<(u64, u64)>;

/// HAProxy 3.0 never frees a stream on which bytes follow the head of a request without body, and so grants no stream
/// after the hundredth.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_without_body_is_one_headers_frame_and_the_end() {
    let seen: Arc<Mutex<Vec<Frames>>> = Arc::default();
    let connections: Arc<Mutex<BTreeSet<usize>>> = Arc::default();
    let (noted, counted) = (Arc::clone(&seen), Arc::clone(&connections));
    let server = RawServer::new(move |Exchange { mut send, mut recv, connection, .. }| {
        let (noted, counted) = (Arc::clone(&noted), Arc::clone(&counted));
        async move {
            let request = recv.read_to_end(100_000).await.unwrap();
            noted.lock().unwrap().push(frames(&request));
            counted.lock().unwrap().insert(connection.stable_id());
            send.write_all(&answer("200", &[("content-length", "2")], b"ok")).await.unwrap();
            send.finish().unwrap();
        }
    });
    let downloads = Downloads::new();
    let jobs = (0..300).map(|i| Job::to_file(server.url(&i.to_string()), downloads.path(&i.to_string()))).collect();
    let results = server.fetcher().get(jobs, None).await;
    assert!(results.iter().all(Result::is_ok), "{:?}", results.iter().find(|result| result.is_err()));
    let seen = seen.lock().unwrap();
    assert_eq!((seen.len(), connections.lock().unwrap().len()), (300, 1), "requests, connections");
    for frames in &*seen {
        assert!(matches!(frames[..], [(HEADERS, _)]), "frames (type, length) of a request: {frames:?}");
    }
}

/// Reads a request's HEADERS, not what follows.
async fn read_head(recv: &mut thalweg::RecvStream) {
    recv.read_chunk(1).await.unwrap();
}

/// A server that gives the same bytes to every request and then ends the stream.
fn playing(bytes: Vec<u8>) -> RawServer {
    let bytes = Arc::new(bytes);
    RawServer::new(move |Exchange { mut send, mut recv, .. }| {
        let bytes = Arc::clone(&bytes);
        async move {
            let _ = recv.read_to_end(1 << 20).await;
            let _ = send.write_all(&bytes).await;
            let _ = send.finish();
            let _ = send.stopped().await;
        }
    })
}

async fn upload(fetcher: &Fetcher, server: &RawServer, size: usize) -> Result<u16, Error> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("upload");
    std::fs::write(&path, sample(size)).unwrap();
    let put = fetcher.put(&path, server.url("upload"), None);
    let report = tokio::time::timeout(Duration::from_secs(60), put).await.expect("an upload hangs");
    report.map(|report| report.status)
}

/// RFC 9110 section 15.2: a client must be able to parse one or more of them before the final answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interim_responses_are_skipped() {
    let interim = [
        headers(&[(":status", "100")]),
        headers(&[(":status", "103"), ("link", "</style.css>; rel=preload"), ("content-length", "7")]),
        headers(&[(":status", "103")]),
        headers(&[(":status", "199")]),
    ];
    let whole = answer("200", &[("content-length", "5"), ("etag", "\"v1\"")], b"01234");
    for count in 0..=interim.len() {
        let server = playing([interim[..count].concat(), whole.clone()].concat());
        let downloads = Downloads::new();
        let report = get_one(&server.fetcher(), server.url("x"), &downloads.path("f"), None).await.unwrap();
        assert_eq!((report.status, report.bytes), (200, 5), "after {count} interim responses");
        assert_eq!(std::fs::read(downloads.path("f")).unwrap(), b"01234");
        let stored = playing([interim[..count].concat(), answer("201", &[], b"")].concat());
        assert_eq!(upload(&stored.fetcher(), &stored, 3_000).await.unwrap(), 201, "after {count} interim responses");
    }
}

/// A peer may not keep a client busy with interim responses for ever, nor does HTTP/3 have 101 (RFC 9114 section 4.5).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endless_interim_responses_and_101_are_refused() {
    let endless = headers(&[(":status", "103")]).repeat(1_000);
    for (bytes, words) in [(endless, ["interim", "interim"]), (answer("101", &[], b""), ["101", ":status"])] {
        let server = playing(bytes);
        let downloads = Downloads::new();
        let error = get_one(&server.fetcher(), server.url("x"), &downloads.path("f"), None).await.unwrap_err();
        assert!(words.iter().any(|word| error.to_string().contains(word)), "{error}");
    }
}

/// RFC 9114 section 4.1: a server may answer before it has read everything, and asks with H3_NO_ERROR not to be sent
/// more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_comes_with_stop_sending_is_kept() {
    // Some servers say it with 0, which is nobody's error either.
    for code in [H3_NO_ERROR, 0] {
        for (size, status) in [(1, "201"), (1, "403"), (50_000, "201"), (2_000_000, "201"), (2_000_000, "413")] {
            let server = RawServer::new(move |Exchange { mut send, mut recv, .. }| async move {
                read_head(&mut recv).await;
                send.write_all(&answer(status, &[], b"")).await.unwrap();
                send.finish().unwrap();
                let _ = recv.stop(code);
                let _ = send.stopped().await;
            });
            let fetcher = server.fetcher();
            // Which of the client's steps notices is a matter of the moment, so all of them get their turn.
            for _ in 0..20 {
                let seen = match upload(&fetcher, &server, size).await {
                    Ok(status) | Err(Error::Status { status, .. }) => status.to_string(),
                    Err(other) => panic!("{size} bytes, {status}, code {code:#x}: {other}"),
                };
                assert_eq!(seen, status);
            }
        }
    }
}

/// As `an_answer_that_comes_with_stop_sending_is_kept`, where the end of the request is sure to be what fails: the rate
/// limit keeps it back until long after the server has stopped the stream.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_is_kept_when_only_the_end_of_the_request_is_refused() {
    let server = RawServer::new(|Exchange { mut send, mut recv, .. }| async move {
        read_head(&mut recv).await;
        let _ = recv.stop(H3_NO_ERROR);
        tokio::time::sleep(Duration::from_millis(600)).await;
        send.write_all(&answer("201", &[], b"")).await.unwrap();
        send.finish().unwrap();
        let _ = send.stopped().await;
    });
    let mut options = server.options();
    options.limit_rate = Some(2);
    assert_eq!(upload(&Fetcher::new(options).unwrap(), &server, 1).await.unwrap(), 201);
}

/// Stopped with an error, the upload was broken off, and the server does not have all of it whatever it answers. The
/// rate limit keeps the end of the request back until the server has stopped the stream.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_that_is_broken_off_is_not_stored_though_the_answer_says_so() {
    for (size, stop_first) in [(1, true), (1, false), (2_000_000, true), (2_000_000, false)] {
        let server = RawServer::new(move |Exchange { mut send, mut recv, .. }| async move {
            read_head(&mut recv).await;
            if stop_first {
                let _ = recv.stop(H3_INTERNAL_ERROR);
                tokio::time::sleep(Duration::from_millis(600)).await;
            }
            send.write_all(&answer("201", &[], b"")).await.unwrap();
            send.finish().unwrap();
            let _ = recv.stop(H3_INTERNAL_ERROR);
            let _ = send.stopped().await;
        });
        let mut options = server.options();
        options.limit_rate = (size == 1).then_some(2);
        let error = upload(&Fetcher::new(options).unwrap(), &server, size).await.unwrap_err();
        assert_eq!(error.category(), Category::Network, "{size}, {stop_first}: {error}");
        assert!(error.to_string().contains("H3_INTERNAL_ERROR"), "{size}, {stop_first}: {error}");
    }
}

/// A server would store a file that never was: the beginning of one version and the end of another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_changes_while_it_is_sent_is_not_sent_to_its_end() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("upload");
    std::fs::write(&path, sample(2_000_000)).unwrap();
    let changed = path.clone();
    let server = RawServer::new(move |Exchange { mut send, mut recv, .. }| {
        let changed = changed.clone();
        async move {
            read_head(&mut recv).await;
            // The client cannot be at the end: it has credit for 64 KiB.
            let mut file = std::fs::File::options().write(true).open(&changed).unwrap();
            std::io::Write::write_all(&mut file, &vec![7; 2_000_000]).unwrap();
            if recv.read_to_end(3_000_000).await.is_ok() {
                send.write_all(&answer("201", &[], b"")).await.unwrap();
                send.finish().unwrap();
            }
            let _ = send.stopped().await;
        }
    });
    let fetcher = server.fetcher();
    let put = fetcher.put(&path, server.url("upload"), None);
    let error = tokio::time::timeout(Duration::from_secs(60), put).await.expect("an upload hangs").unwrap_err();
    assert!(error.to_string().contains("the file changed while it was being sent"), "{error}");
}

/// A server that refuses an upload and lets it stand would otherwise be waited for until the idle timeout.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_ends_an_upload_that_the_server_does_not_read() {
    let server = RawServer::new(|Exchange { mut send, mut recv, .. }| async move {
        read_head(&mut recv).await;
        send.write_all(&answer("403", &[], b"")).await.unwrap();
        send.finish().unwrap();
        // Neither read nor stopped, until the client gives the stream up.
        let _ = send.stopped().await;
        std::future::pending::<()>().await;
        drop(recv);
    });
    let mut options = server.options();
    options.idle_timeout = Duration::from_secs(20);
    let began = std::time::Instant::now();
    let error = upload(&Fetcher::new(options).unwrap(), &server, 2_000_000).await.unwrap_err();
    assert!(matches!(error, Error::Status { status: 403, .. }), "{error}");
    assert!(began.elapsed() < Duration::from_secs(15), "took {:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_that_is_stopped_without_an_answer_fails_and_says_so() {
    let server = RawServer::new(|Exchange { mut send, mut recv, .. }| async move {
        read_head(&mut recv).await;
        let _ = recv.stop(H3_INTERNAL_ERROR);
        let _ = send.reset(H3_INTERNAL_ERROR);
    });
    let error = upload(&server.fetcher(), &server, 2_000_000).await.unwrap_err();
    assert_eq!(error.category(), Category::Network, "{error}");
    assert!(error.to_string().contains("H3_INTERNAL_ERROR"), "{error}");
}

/// RFC 9110 section 8.6: equal values are one, others leave the length unknown to somebody on the way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn differing_lengths_are_refused_and_equal_ones_are_one() {
    for (lengths, good) in [
        (&["5", "5"][..], true),
        (&["5, 5"], true),
        (&["5", "6"], false),
        (&["6", "5"], false),
        (&["5, 6"], false),
        (&["5, 5", "6"], false),
        (&["+5"], false),
        (&["5", ""], false),
        (&["-1"], false),
        (&["99999999999999999999999"], false),
    ] {
        let fields: Vec<_> = lengths.iter().map(|length| ("content-length", *length)).collect();
        let server = playing(answer("200", &fields, b"01234"));
        let downloads = Downloads::new();
        let result = get_one(&server.fetcher(), server.url("x"), &downloads.path("f"), None).await;
        match result {
            Ok(report) => assert!(good && report.bytes == 5, "{lengths:?}"),
            Err(error) => {
                let refused = matches!(error.category(), Category::Protocol | Category::Network);
                assert!(!good && refused, "{lengths:?}: {error}");
                assert!(error.to_string().to_lowercase().contains("content-length"), "{error}");
                assert!(downloads.names().is_empty(), "{lengths:?}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_oversized_header_section_is_named_as_such() {
    let long = "x".repeat(300_000);
    let many: Vec<_> = std::iter::repeat_n(("x", "y"), 9_000).collect();
    // One announces a long frame, the other has a short one that unfolds: 34 bytes of section for 4 of frame.
    for fields in [&[("x", long.as_str())][..], &many] {
        let server = playing(answer("200", fields, b"01234"));
        let downloads = Downloads::new();
        let error = get_one(&server.fetcher(), server.url("x"), &downloads.path("f"), None).await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains("header section") && text.contains("262144"), "{text}");
        assert!(downloads.names().is_empty());
    }
    // Large ones that are accepted elsewhere are accepted here.
    let large = "x".repeat(200_000);
    let server = playing(answer("200", &[("x", &large)], b"01234"));
    get_one(&server.fetcher(), server.url("x"), &Downloads::new().path("f"), None).await.unwrap();
}

/// Errors that h3 and the transport report, in words for people.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_answers_are_told_in_plain_words() {
    let mut unexpected = Vec::new();
    frame(0, b"data before headers", &mut unexpected);
    let mut settings = Vec::new();
    frame(4, &[], &mut settings);
    let mut cut = answer("200", &[("content-length", "5")], b"01234");
    cut.truncate(cut.len() - 2);
    let mut undecodable = Vec::new();
    frame(HEADERS, &[0xff; 20], &mut undecodable);
    for (name, bytes) in [
        ("nothing", Vec::new()),
        ("DATA first", unexpected),
        ("SETTINGS on a request stream", settings),
        ("an incomplete frame", cut),
        ("QPACK that is none", undecodable),
        ("no status", headers(&[("x", "y")])),
        ("a status that is none", headers(&[(":status", "abc")])),
        ("an unknown pseudo-header", headers(&[(":status", "200"), (":what", "y")])),
    ] {
        let server = playing(bytes);
        let downloads = Downloads::new();
        let error = get_one(&server.fetcher(), server.url("x"), &downloads.path("f"), None).await.unwrap_err();
        crate::common::assert_plain(&error.to_string().replace(downloads.0.path().to_str().unwrap(), ""));
        assert!(matches!(error.category(), Category::Network | Category::Protocol), "{name}: {error}");
    }
}
