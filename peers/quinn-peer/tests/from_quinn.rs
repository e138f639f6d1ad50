//! The quinn side of docs/from-quinn.md does what the guide says. That the guide shows this very text is a test of
//! `thalweg`.

#[path = "../examples/from_quinn.rs"]
mod from_quinn;

#[tokio::test]
async fn the_guides_quinn_side_runs() {
    assert_eq!(from_quinn::run().await.expect("it runs"), b"down the valley");
}
