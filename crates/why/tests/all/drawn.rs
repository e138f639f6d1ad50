//! Judges answers to drawn transfers of the half that is held out.

use crate::draw::{MORE, draw, is_for_tuning};
use crate::each::each;
use crate::logged::answer;
use crate::tally::Tally;
use crate::truth::Truth;

/// So many are judged; those that take no more than this many bytes, so that a minute is enough.
const RUNS: usize = 150;
const MOST: u64 = 2_000_000;
/// The least share of right answers.
const LEAST: f64 = 0.93;
/// The same of transfers with a policer, a drop of the MTU, a thin way back or a busy host.
const MORE_RUNS: usize = 60;
const MORE_LEAST: f64 = 0.80;

#[test]
fn a_label_is_read_back() {
    let truth = Truth::of(14, &draw(14)).unwrap();
    let read = Truth::parse(&truth.line()).unwrap();
    assert_eq!((read.number, read.completion, read.primary()), (truth.number, truth.completion, truth.primary()));
    assert_eq!(read.savings.len(), truth.savings.len());
}

#[test]
fn drawn_transfers_are_explained() {
    let tally = judged(1, RUNS);
    assert!(tally.share_right() >= LEAST, "{} of {} right", tally.right, tally.runs);
}

#[test]
fn transfers_with_causes_of_the_second_list_are_explained() {
    let tally = judged(MORE, MORE_RUNS);
    assert!(tally.share_right() >= MORE_LEAST, "{} of {} right", tally.right, tally.runs);
}

/// The tally of so many held-out transfers from a number on.
fn judged(from: u64, runs: usize) -> Tally {
    let held_out = (from..).filter(|number| !is_for_tuning(*number) && draw(*number).load.bytes <= MOST);
    let numbers: Vec<u64> = held_out.take(runs).collect();
    let judged = each(&numbers, |number| {
        let world = draw(number);
        Truth::of(number, &world).map(|truth| (truth, answer(&world)))
    });
    let mut tally = Tally::default();
    for (truth, answer) in &judged {
        tally.add(truth, answer.as_ref().ok());
    }
    tally.print();
    assert_eq!(tally.runs, runs as u64);
    tally
}
