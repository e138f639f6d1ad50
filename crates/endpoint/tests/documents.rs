//! The Rust code of README.md and docs/*.md is that of files which are compiled, and those of this crate run here.
//!
//! Before every block stands a comment that names its file: `<!-- code: crates/endpoint/examples/hello.rs -->`.
#![allow(clippy::unwrap_used)]

use std::{
    fs,
    path::{Path, PathBuf},
};

#[path = "../examples/from_quinn.rs"]
mod from_quinn;
#[path = "../examples/hello.rs"]
mod hello;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readmes_example_runs() {
    assert_eq!(hello::run().await.unwrap(), b"hello");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_for_users_of_quinn_runs() {
    assert_eq!(from_quinn::run().await.unwrap(), b"down the valley");
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every Rust block of a document: the file that the line before names, and the block.
fn blocks(document: &str) -> Vec<(Option<&str>, String)> {
    let mut found = Vec::new();
    let mut lines = document.lines();
    let mut before = "";
    while let Some(line) = lines.next() {
        if line.starts_with("```rust") {
            let named = before.strip_prefix("<!-- code: ").and_then(|rest| rest.strip_suffix(" -->"));
            let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            found.push((named, block.join("\n")));
        }
        before = line;
    }
    found
}

#[test]
fn rust_code_in_documents_is_that_of_compiled_files() {
    let mut documents = vec![root().join("README.md")];
    let folder = fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    documents.extend(folder.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    let mut count = 0;
    for document in documents {
        for (named, block) in blocks(&fs::read_to_string(&document).unwrap()) {
            let document = document.display();
            let named =
                named.unwrap_or_else(|| panic!("{document}: no comment names the file of this block:\n{block}"));
            let code =
                fs::read_to_string(root().join(named)).unwrap_or_else(|error| panic!("{document}: {named}: {error}"));
            assert!(code.contains(&block), "{document}: {named} does not hold this block:\n{block}");
            count += 1;
        }
    }
    assert!(count >= 3, "{count} blocks found: README's and both sides of the guide");
}
