//! In the steady state of a transfer, sending and acknowledging allocate nothing.
//!
//! The counting allocator needs `unsafe`, and is the reason that this is a test program of its own; the crate itself
//! forbids it.
#![allow(clippy::unwrap_used)]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use common::Stage;
use thalweg_recovery::Config;

struct Counting;

thread_local! {
    // Per thread: other tests allocate as they like.
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        // SAFETY: as for this function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as for this function.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(run: impl FnOnce()) -> u64 {
    let before = COUNT.with(Cell::get);
    run();
    COUNT.with(Cell::get) - before
}

/// The defaults, and every choice that could keep something of its own.
const RULES: [&str; 4] = [
    "",
    "reordering=adaptive, rtt=windowed, pacing-rtt=short, exit-rtt=per-round, probe=ladder, reduction=prr",
    "reordering=half-in-flight, rtt=per-round(variations=3), pacing-rtt=classic, exit-rtt=short, probe=capped",
    "controller=new-reno, reordering=time-only, rtt=per-round(base=largest, variations=1), reduction=rate-halving",
];

fn stage(rules: &str) -> Stage {
    let mut stage = Stage::new(Config { policies: rules.parse().unwrap(), ecn: false, ..Config::default() }, false);
    stage.recovery.set_handshake_confirmed(stage.now);
    stage
}

#[test]
fn sending_and_acknowledging_allocate_nothing() {
    RULES.into_iter().for_each(exchange_without_allocating);
}

fn exchange_without_allocating(rules: &str) {
    let mut stage = stage(rules);
    let exchange = |stage: &mut Stage| {
        // A window's worth, acknowledged two packets at a time.
        let first = stage.next[2];
        let end = first + 64;
        stage.send(64);
        stage.wait(20);
        for number in (first..end).step_by(2) {
            stage.ack(first..=number + 1);
            stage.recovery.budget(stage.now, stage.path);
        }
    };
    for _ in 0..50 {
        exchange(&mut stage);
    }
    let count = allocations(|| {
        for _ in 0..1_000 {
            exchange(&mut stage);
        }
    });
    assert_eq!(count, 0, "allocations in 64000 packets: {rules}");
}

#[test]
fn reordering_within_the_threshold_allocates_nothing() {
    RULES.into_iter().for_each(reorder_without_allocating);
}

fn reorder_without_allocating(rules: &str) {
    let mut stage = stage(rules);
    let exchange = |stage: &mut Stage| {
        let first = stage.next[2];
        stage.send(60);
        stage.wait(20);
        for number in (first..first + 60).step_by(3) {
            stage.ack(number + 2..=number + 2);
            stage.ack_ranges(&[number + 2..=number + 2, number..=number]);
            stage.ack(first..=number + 2);
        }
    };
    for _ in 0..50 {
        exchange(&mut stage);
    }
    assert_eq!(allocations(|| (0..1_000).for_each(|_| exchange(&mut stage))), 0, "{rules}");
    assert_eq!(stage.path().stats().packets_lost, 0);
}
