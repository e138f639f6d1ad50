use proptest::prelude::*;

use super::*;

const HOUR: u64 = 3_600;

fn saved(window: u64) -> SavedPath {
    SavedPath { window, min_rtt: Duration::from_millis(600), rate: Some(Rate::from_bps(1_000)), age: Duration::ZERO }
}

fn at(ip: [u8; 4]) -> SocketAddr {
    (ip, 443).into()
}

const HERE: [u8; 4] = [192, 0, 2, 1];

fn file() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("saved");
    (folder, path)
}

#[test]
fn what_was_learned_is_there_in_the_next_run_and_given_out_once() {
    let (_folder, path) = file();
    let store = SavedPaths::open(&path).unwrap();
    SavedPathStore::insert(&store, "example.org:443", at(HERE), saved(1_000_000));
    TokenStore::insert(&store, "example.org:443", vec![1, 2, 255]);
    store.save().unwrap();
    let next = SavedPaths::open(&path).unwrap();
    assert_eq!(SavedPathStore::take(&next, "example.org:443", at([192, 0, 2, 2])), None, "another address");
    assert_eq!(SavedPathStore::take(&next, "example.com:443", at(HERE)), None, "another server");
    let found = SavedPathStore::take(&next, "example.org:443", at(HERE)).unwrap();
    assert_eq!(SavedPath { age: Duration::ZERO, ..found }, saved(1_000_000));
    assert_eq!(SavedPathStore::take(&next, "example.org:443", at(HERE)), None, "a connection uses it");
    assert_eq!(TokenStore::take(&next, "example.org:443"), Some(vec![1, 2, 255]));
    assert_eq!(TokenStore::take(&next, "example.org:443"), None);
    next.save().unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), format!("{HEADER}\n"), "used up");
}

#[test]
fn a_file_of_an_earlier_version_is_read_and_gets_the_new_first_line() {
    let (_folder, path) = file();
    let lines = format!("path a 192.0.2.1 5 600 0 {}\ntoken a {} 0102\n", seconds(), seconds());
    fs::write(&path, format!("thalweg known paths 1\n{lines}")).unwrap();
    let store = SavedPaths::open(&path).unwrap();
    TokenStore::insert(&store, "b", vec![3]);
    store.save().unwrap();
    let written = fs::read_to_string(&path).unwrap();
    assert!(written.starts_with(&format!("thalweg saved paths 1\n{lines}token b ")), "{written}");
    assert_eq!(SavedPathStore::take(&store, "a", at(HERE)).map(|saved| saved.window), Some(5));
    assert_eq!(TokenStore::take(&store, "a"), Some(vec![1, 2]));
}

#[test]
fn what_is_given_back_keeps_its_age() {
    let (_folder, path) = file();
    let store = SavedPaths::open(&path).unwrap();
    let old = SavedPath { age: Duration::from_secs(600), ..saved(5) };
    SavedPathStore::insert(&store, "a", at(HERE), old);
    let found = SavedPathStore::take(&store, "a", at(HERE)).unwrap();
    assert!((600..610).contains(&found.age.as_secs()), "{found:?}");
    let stale = SavedPath { age: Duration::from_secs(HOUR + 1), ..saved(5) };
    SavedPathStore::insert(&store, "a", at(HERE), stale);
    assert_eq!(SavedPathStore::take(&store, "a", at(HERE)), None);
}

#[test]
fn programs_that_share_a_file_keep_what_the_others_learned() {
    let (_folder, path) = file();
    let (one, other) = (SavedPaths::open(&path).unwrap(), SavedPaths::open(&path).unwrap());
    SavedPathStore::insert(&one, "a", at(HERE), saved(1));
    SavedPathStore::insert(&other, "b", at(HERE), saved(2));
    one.save().unwrap();
    other.save().unwrap();
    let both = SavedPaths::open(&path).unwrap();
    assert_eq!(SavedPathStore::take(&both, "a", at(HERE)).map(|saved| saved.window), Some(1));
    assert_eq!(SavedPathStore::take(&both, "b", at(HERE)).map(|saved| saved.window), Some(2));
}

#[test]
fn a_foreign_or_damaged_file_is_refused_and_left_as_it_is() {
    let (folder, path) = file();
    for (content, says) in [
        ("", "is not a file of saved paths"),
        ("thalweg saved paths 2\n", "is not a file of saved paths"),
        ("127.0.0.1 localhost\n", "is not a file of saved paths"),
        (&format!("{HEADER}\npath a 1.2.3.4 5 6 0\n"), "line 2: the line ends too early; correct"),
        (&format!("{HEADER}\n\npath a 1.2.3 5 6 0 7\n"), "line 3: the third field is no IP address"),
        (&format!("{HEADER}\npath a 1.2.3.4 -5 6 0 7\n"), "line 2: a number is missing, or too large"),
        (&format!("{HEADER}\npath a 1.2.3.4 5 6 0 7 8\n"), "line 2: the line has more fields"),
        (&format!("{HEADER}\ntoken a 7 abc\n"), "line 2: the token is not 1 to 512 bytes"),
        (&format!("{HEADER}\nfoo a\n"), "line 2: the line begins neither"),
    ] {
        // Also if it becomes so while a program runs.
        let _ = fs::remove_file(&path);
        let store = SavedPaths::open(&path).unwrap();
        SavedPathStore::insert(&store, "a", at(HERE), saved(1));
        fs::write(&path, content).unwrap();
        for error in [SavedPaths::open(&path).unwrap_err(), store.save().unwrap_err()] {
            assert!(error.to_string().contains(says), "{error}");
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), content);
    }
    let error = SavedPaths::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("is not a file of saved paths"), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
}

#[test]
#[cfg(unix)]
fn only_its_owner_may_read_the_file() {
    use std::os::unix::fs::PermissionsExt;
    let (_folder, path) = file();
    let store = SavedPaths::open(&path).unwrap();
    SavedPathStore::insert(&store, "a", at(HERE), saved(1));
    store.save().unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
#[cfg(unix)]
fn a_link_stays_a_link_and_a_pipe_is_refused_without_waiting_for_it() {
    let (folder, path) = file();
    std::os::unix::fs::symlink("elsewhere", &path).unwrap();
    for window in [1, 2] {
        let store = SavedPaths::open(&path).unwrap();
        SavedPathStore::insert(&store, "a", at(HERE), saved(window));
        store.save().unwrap();
        assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
        assert!(fs::symlink_metadata(folder.path().join("elsewhere")).unwrap().is_file());
    }
    let pipe = folder.path().join("pipe");
    if std::process::Command::new("mkfifo").arg(&pipe).status().is_ok_and(|status| status.success()) {
        let error = SavedPaths::open(&pipe).unwrap_err().to_string();
        assert!(error.contains("is not a file of saved paths"), "{error}");
    }
}

#[test]
fn the_file_is_bounded_and_the_longest_unheard_go_first() {
    let mut servers = Servers::new();
    for number in 0..1_000u64 {
        let path = Some((HERE.into(), saved(number), 10_000 + number));
        servers.insert(format!("server{number}"), SavedServer { path, ..SavedServer::default() });
    }
    prune(&mut servers, 11_000);
    assert_eq!(servers.len(), SERVERS);
    assert!(servers.contains_key("server999") && !servers.contains_key("server0"));
    let (_folder, path) = file();
    let store = SavedPaths::open(&path).unwrap();
    for name in ["", "two words", "new\nline", &"a".repeat(301)] {
        TokenStore::insert(&store, name, vec![1]);
        assert_eq!(TokenStore::take(&store, name), None, "{name:?}");
    }
    TokenStore::insert(&store, "a", vec![1; LONGEST_TOKEN + 1]);
    assert_eq!(TokenStore::take(&store, "a"), None);
}

#[test]
fn what_expires_goes_and_what_comes_from_the_future_too() {
    let now = 1_000_000;
    for (learned, received, path, token) in [
        (now, now, true, true),
        (now - HOUR, now - TOKEN_LIFETIME, true, true),
        (now - HOUR - 1, now - TOKEN_LIFETIME - 1, false, false),
        (now + 1, now + 1, false, false),
    ] {
        let mut server = SavedServer { path: Some((HERE.into(), saved(1), learned)), ..SavedServer::default() };
        server.push_token(vec![1], received);
        server.forget_what_expired(now);
        assert_eq!((server.path.is_some(), server.tokens.len() == 1), (path, token), "{learned}");
    }
}

fn servers() -> impl Strategy<Value = Servers> {
    let path = (any::<[u8; 16]>(), any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>()).prop_map(
        |(ip, window, rtt, rate, learned)| {
            let rate = (rate > 0).then(|| Rate::from_bps(rate));
            (ip.into(), SavedPath { window, min_rtt: Duration::from_nanos(rtt), rate, age: Duration::ZERO }, learned)
        },
    );
    let token = (proptest::collection::vec(any::<u8>(), 1..LONGEST_TOKEN), any::<u64>());
    let tokens = proptest::collection::vec(token, 1..=TOKENS_PER_SERVER);
    let server =
        (proptest::option::of(path), tokens).prop_map(|(path, tokens)| SavedServer { path, tokens: tokens.into() });
    proptest::collection::btree_map("[!-~]{1,40}", server, 0..20)
}

proptest! {
    #[test]
    fn what_is_written_reads_back(servers in servers()) {
        prop_assert_eq!(parse(print(&servers).as_bytes()), Ok(Some(servers)));
    }

    #[test]
    fn arbitrary_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        prop_assert_eq!(parse(&bytes), Ok(None));
        let mut with_header = format!("{HEADER}\n").into_bytes();
        with_header.extend(&bytes);
        if let Ok(Some(servers)) = parse(&with_header) {
            prop_assert_eq!(parse(print(&servers).as_bytes()), Ok(Some(servers)));
        }
    }

    #[test]
    fn a_file_with_a_few_wrong_bytes_is_read_or_refused(
        servers in servers(),
        wrong in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
    ) {
        let mut bytes = print(&servers).into_bytes();
        for (at, byte) in wrong {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(Some(servers)) = parse(&bytes) {
            prop_assert!(servers.values().all(|server| server.tokens.len() <= TOKENS_PER_SERVER));
        }
    }
}
