//! The file of known paths: what is accepted is written again to a file that is accepted, and no memory is taken twice.
#![no_main]

use std::fs;
use std::net::SocketAddr;

use libfuzzer_sys::fuzz_target;
use thalweg::{KnownPaths, PathStore, TokenStore};

fuzz_target!(|bytes: &[u8]| {
    let file = std::env::temp_dir().join(format!("thalweg-fuzz-known-paths-{}", std::process::id()));
    // A file that knows nothing gives the first line.
    let _ = fs::remove_file(&file);
    let empty = KnownPaths::open(&file).unwrap();
    TokenStore::insert(&empty, "server", vec![1, 2, 3]);
    empty.save().unwrap();
    let mut content = fs::read(&file).unwrap();
    content.extend_from_slice(bytes);
    fs::write(&file, &content).unwrap();
    let Ok(known) = KnownPaths::open(&file) else {
        assert_eq!(fs::read(&file).unwrap(), content, "what cannot be read is left as it is");
        return;
    };
    let remote: SocketAddr = "192.0.2.1:443".parse().unwrap();
    if PathStore::take(&known, "server", remote).is_some() {
        assert!(PathStore::take(&known, "server", remote).is_none());
    }
    TokenStore::insert(&known, "another", vec![4, 5, 6]);
    known.save().unwrap();
    let again = KnownPaths::open(&file).unwrap();
    assert_eq!(TokenStore::take(&again, "another"), Some(vec![4, 5, 6]));
    assert!(PathStore::take(&again, "server", remote).is_none());
});
