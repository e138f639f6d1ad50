//! Results are written whole, read as they were written, and merged.

use super::*;
use crate::record::{Part, put};

fn record(value: f64) -> RunRecord {
    let mut record = RunRecord { wire_hash: format!("{value}"), ..RunRecord::default() };
    let mut flow = Part { name: "flow 0".to_owned(), ..Part::default() };
    flow.set("completion", value);
    record.flows.push(flow);
    put(&mut record.values, "success", 1.0);
    record
}

fn digest(text: &str) -> Digest {
    Digest::of(text.as_bytes())
}

fn manifest(hash: &str, seeds: &[u64]) -> Manifest {
    Manifest {
        schema: SCHEMA,
        thalweg: "0".to_owned(),
        engine: "test".to_owned(),
        build: build(),
        scenario: ManifestScenario {
            name: "q".to_owned(),
            file: "q.toml".to_owned(),
            sha256: digest(hash),
            text: String::new(),
        },
        first_seed: 1,
        seeds: 2,
        max_seeds: None,
        shard: None,
        only_seed: None,
        only_point: None,
        points: vec![ManifestPoint { name: String::new(), key: digest("key"), settings: BTreeMap::new() }],
        runs: seeds
            .iter()
            .map(|seed| ManifestRun {
                point: 0,
                seed: *seed,
                wire_hash: "0.1".to_owned(),
                decisions_hash: "0.3".to_owned(),
                failed: None,
            })
            .collect(),
        complete: false,
    }
}

#[test]
fn what_is_stored_comes_back_to_the_last_bit() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::create(&directory.path().join("a/b")).unwrap();
    let run = record(0.1 + 0.2);
    store.save_run(&digest("key"), 7, &run).unwrap();
    assert_eq!(store.run(&digest("key"), 7), Some(run));
    assert_eq!(store.run(&digest("key"), 8), None);
    assert_eq!(store.run(&digest("other"), 7), None);
    assert!(!store.has_recording(&digest("key"), 7));
}

/// A run whose flow says these things.
fn talkative(value: f64, notes: &[(&str, &str)]) -> RunRecord {
    let mut run = record(value);
    run.flows[0].notes = notes.iter().map(|(what, text)| ((*what).to_owned(), (*text).to_owned())).collect();
    run
}

#[test]
fn what_many_runs_say_is_stored_once_and_comes_back() {
    let directory = tempfile::tempdir().unwrap();
    let settings = "controller=cubic, ".repeat(50);
    let said = ("settings", settings.as_str());
    let two_flows = {
        let mut run = talkative(5.0, &[said]);
        run.flows.push(run.flows[0].clone());
        run
    };
    let runs = [
        talkative(0.0, &[said, ("failed", "timed out")]),
        talkative(1.0, &[said]),
        talkative(2.0, &[said, ("floor", "3 s")]),
        talkative(3.0, &[("settings", "others")]),
        talkative(4.0, &[]),
        two_flows,
        talkative(6.0, &[("settings", "")]),
        RunRecord::failure("nothing was measured".to_owned()),
    ];
    let key = digest("key");
    let store = Store::create(directory.path()).unwrap();
    // The run that is first is the one that the others share with: each may be.
    for first in 0..runs.len() {
        let store = Store::create(&directory.path().join(first.to_string())).unwrap();
        for number in (first..runs.len()).chain(0..first) {
            store.save_run(&key, number as u64, &runs[number]).unwrap();
        }
        for reader in [store.clone(), Store::at(store.directory())] {
            for (number, run) in runs.iter().enumerate() {
                assert_eq!(reader.run(&key, number as u64).as_ref(), Some(run), "{number} after {first}");
            }
        }
    }
    for seed in 0..100 {
        store.save_run(&key, seed, &talkative(seed as f64, &[said])).unwrap();
    }
    let sizes = (0..100).map(|seed| fs::metadata(store.run_path("runs", &key, seed)).unwrap().len());
    assert!(sizes.max().unwrap() < 500, "the settings alone have {} bytes", settings.len());
    assert_eq!(fs::read_dir(directory.path().join("notes")).unwrap().count(), 1);
    // A run whose notes are lost is not done; making it again mends all of them.
    let notes = fs::read_dir(directory.path().join("notes")).unwrap().next().unwrap().unwrap().path();
    fs::write(&notes, "[").unwrap();
    let other = Store::at(directory.path());
    assert_eq!(other.run(&key, 7), None);
    other.save_run(&key, 7, &talkative(7.0, &[said])).unwrap();
    assert_eq!(other.run(&key, 8), Some(talkative(8.0, &[said])));
}

#[test]
fn half_a_file_is_no_result() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::create(directory.path()).unwrap();
    store.save_run(&digest("key"), 7, &record(1.0)).unwrap();
    let path = store.run_path("runs", &digest("key"), 7);
    let text = fs::read(&path).unwrap();
    fs::write(&path, &text[..text.len() / 2]).unwrap();
    assert_eq!(store.run(&digest("key"), 7), None);
    // Nor is the result of another key under the same name.
    let other = StoredRun { schema: SCHEMA, key: digest("other"), seed: 7, notes: None, record: record(1.0) };
    fs::write(&path, serde_json::to_vec(&other).unwrap()).unwrap();
    assert_eq!(store.run(&digest("key"), 7), None);
}

#[test]
fn a_write_that_fails_leaves_what_was_there() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::create(directory.path()).unwrap();
    store.write("report.html", b"old").unwrap();
    // A directory in the place of the file cannot be replaced by a file.
    fs::create_dir_all(directory.path().join("runs.csv/x")).unwrap();
    let error = store.write("runs.csv", b"new").unwrap_err().to_string();
    assert!(error.starts_with("cannot write "), "{error}");
    assert_eq!(fs::read(directory.path().join("report.html")).unwrap(), b"old");
    let left: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn a_full_disk_is_an_error_and_not_a_result() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::create(directory.path()).unwrap();
    store.write("results.json", b"old").unwrap();
    let error = store
        .write_with("results.json", |out| {
            out.write_all(b"half of it")?;
            Err(io::ErrorKind::StorageFull.into())
        })
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("cannot write ") && error.contains("results.json"), "{error}");
    assert!(error.contains(&io::Error::from(io::ErrorKind::StorageFull).to_string()), "{error}");
    assert_eq!(fs::read(directory.path().join("results.json")).unwrap(), b"old");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing is left of the new one");
}

#[test]
fn parts_are_merged() {
    let directory = tempfile::tempdir().unwrap();
    let stores: Vec<Store> =
        ["a", "b"].iter().map(|name| Store::create(&directory.path().join(name)).unwrap()).collect();
    for (store, seed) in stores.iter().zip([1, 2]) {
        store.save_run(&digest("key"), seed, &record(0.1)).unwrap();
        store.save_manifest(&manifest("same", &[seed])).unwrap();
    }
    let all = Store::create(&directory.path().join("all")).unwrap();
    let merged = all.merge(&stores).unwrap();
    assert!(merged.complete && merged.shard.is_none());
    assert_eq!(merged.runs.len(), 2);
    assert_eq!(Store::open(all.directory()).unwrap().1, merged);
    assert!(all.run(&digest("key"), 2).is_some());
    // Merging what overlaps is fine as long as it agrees.
    let again = Store::create(&directory.path().join("again")).unwrap();
    assert_eq!(again.merge(&[all.clone(), stores[0].clone()]).unwrap().runs.len(), 2);
}

#[test]
fn what_does_not_belong_together_is_not_merged() {
    let directory = tempfile::tempdir().unwrap();
    let store = |name: &str, manifest: &Manifest| {
        let store = Store::create(&directory.path().join(name)).unwrap();
        store.save_run(&digest("key"), 1, &record(0.1)).unwrap();
        store.save_manifest(manifest).unwrap();
        store
    };
    let one = store("one", &manifest("same", &[1]));
    let other = store("other", &manifest("different", &[1]));
    let mut disagreeing = manifest("same", &[1]);
    disagreeing.runs[0].wire_hash = "0.2".to_owned();
    let disagreeing = store("disagreeing", &disagreeing);
    let all = Store::create(&directory.path().join("all")).unwrap();
    let error = all.merge(&[one.clone(), other]).unwrap_err().to_string();
    assert!(error.contains("not parts of the same work"), "{error}");
    let later = Manifest { first_seed: 100, ..manifest("same", &[1]) };
    let error = all.merge(&[one.clone(), store("later", &later)]).unwrap_err().to_string();
    assert!(error.contains("the first seed") && error.contains("100"), "{error}");
    let error = all.merge(&[one, disagreeing]).unwrap_err().to_string();
    assert!(error.contains("hashes 0.1 and 0.2 differ"), "{error}");
    assert!(all.merge(&[]).is_err());
    let error = Store::open(&directory.path().join("none")).unwrap_err().to_string();
    assert!(error.starts_with("cannot read "), "{error}");
}
