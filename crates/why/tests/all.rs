//! Tests of the crate as a whole.
#![allow(clippy::unwrap_used)]

#[path = "all/draw.rs"]
mod draw;
#[path = "all/truth.rs"]
mod truth;

/// Enough of the drawn transfers are slow because of each cause, and the split is by number alone.
#[test]
fn a_label_is_read_back() {
    let truth = truth::Truth::of(14, &draw::draw(14)).unwrap();
    let read = truth::Truth::parse(&truth.line()).unwrap();
    assert_eq!((read.number, read.completion, read.primary()), (truth.number, truth.completion, truth.primary()));
    assert_eq!(read.savings.len(), truth.savings.len());
}
