//! The file of saved paths: what is accepted is written again to a file that is accepted, and no path is taken twice.

use std::fs;
use std::net::SocketAddr;

use thalweg::{SavedPathStore, SavedPaths, TokenStore};

/// Whether all of it is accepted.
pub fn run(bytes: &[u8]) -> bool {
    let file = std::env::temp_dir().join(format!("thalweg-fuzz-saved-paths-{}", std::process::id()));
    // A file that has saved nothing gives the first line.
    let _ = fs::remove_file(&file);
    let empty = SavedPaths::open(&file).unwrap();
    TokenStore::insert(&empty, "server", vec![1, 2, 3]);
    empty.save().unwrap();
    let mut content = fs::read(&file).unwrap();
    content.extend_from_slice(bytes);
    fs::write(&file, &content).unwrap();
    let Ok(saved) = SavedPaths::open(&file) else {
        assert_eq!(fs::read(&file).unwrap(), content, "what cannot be read is left as it is");
        return false;
    };
    let remote: SocketAddr = "192.0.2.1:443".parse().unwrap();
    if SavedPathStore::take(&saved, "server", remote).is_some() {
        assert!(SavedPathStore::take(&saved, "server", remote).is_none());
    }
    TokenStore::insert(&saved, "another", vec![4, 5, 6]);
    saved.save().unwrap();
    let again = SavedPaths::open(&file).unwrap();
    assert_eq!(TokenStore::take(&again, "another"), Some(vec![4, 5, 6]));
    assert!(SavedPathStore::take(&again, "server", remote).is_none());
    let _ = fs::remove_file(&file);
    true
}
