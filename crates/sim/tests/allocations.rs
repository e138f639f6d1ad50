//! A run in its stride allocates nothing per packet: its memory goes round.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use thalweg_link::{DirectionConfig, RateModel};
use thalweg_sim::{FlowPlan, PathPlan, Plan, Record, Traffic, run};
use thalweg_units::{Duration, Rate};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: hands every call to the system's allocator unchanged; the counter is atomic.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise is the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations and datagrams of a download.
fn download(stack: &str, host_delay: bool, bytes: u64) -> (u64, u64) {
    let link = DirectionConfig {
        rate: RateModel::Constant(Rate::from_bps(50_000_000)),
        delay: Duration::from_millis(20).into(),
        ..DirectionConfig::default()
    };
    let mut flow = FlowPlan::new("f", Traffic::download(Some(bytes)));
    stack.clone_into(&mut flow.stack);
    let plan = Plan {
        paths: vec![PathPlan::new("p", link.clone(), link)],
        flows: vec![flow],
        host_delay,
        record: Record { step: Duration::ZERO, ..Record::default() },
        ..Plan::default()
    };
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    let Ok(result) = run(&plan) else { panic!("a good plan") };
    assert_eq!(result.failed, None);
    (ALLOCATIONS.load(Ordering::Relaxed) - before, result.datagrams)
}

#[test]
fn a_longer_run_allocates_no_more_than_a_shorter_one() {
    for (stack, host_delay) in [("thalweg", false), ("tcp", false), ("thalweg", true), ("tcp", true)] {
        let download = |bytes| download(stack, host_delay, bytes);
        let (short, long) = (download(10_000_000), download(30_000_000));
        let (allocations, datagrams) = (long.0.saturating_sub(short.0), long.1 - short.1);
        assert!(
            allocations * 50 < datagrams,
            "{stack}, delay {host_delay}: {allocations} allocations for {datagrams} datagrams more"
        );
    }
}
