//! Judges answers to drawn transfers of the half that is held out.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::draw::{draw, is_for_tuning};
use crate::logged::answer;
use crate::tally::Tally;
use crate::truth::Truth;

/// So many are judged; those that take no more than this many bytes, so that a minute is enough.
const RUNS: usize = 150;
const MOST: u64 = 2_000_000;
/// The least share of right answers.
const LEAST: f64 = 0.93;

#[test]
fn a_label_is_read_back() {
    let truth = Truth::of(14, &draw(14)).unwrap();
    let read = Truth::parse(&truth.line()).unwrap();
    assert_eq!((read.number, read.completion, read.primary()), (truth.number, truth.completion, truth.primary()));
    assert_eq!(read.savings.len(), truth.savings.len());
}

#[test]
fn drawn_transfers_are_explained() {
    let held_out = (1..).filter(|number| !is_for_tuning(*number) && draw(*number).load.bytes <= MOST);
    let numbers: Vec<u64> = held_out.take(RUNS).collect();
    let (next, tally) = (AtomicUsize::new(0), Mutex::new(Tally::default()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(number) = numbers.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let world = draw(*number);
                    if let Some(truth) = Truth::of(*number, &world) {
                        let answer = answer(&world);
                        tally.lock().unwrap().add(&truth, answer.as_ref().ok());
                    }
                }
            });
        }
    });
    let tally = tally.into_inner().unwrap();
    tally.print();
    assert_eq!(tally.runs, RUNS as u64);
    assert!(tally.share_right() >= LEAST, "{} of {} right", tally.right, tally.runs);
}
