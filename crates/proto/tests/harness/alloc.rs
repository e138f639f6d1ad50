//! A global allocator that counts, per thread: tests run in parallel and must not see each other.
//!
//! Install it with `#[global_allocator] static ALLOCATOR: harness::alloc::Counting = harness::alloc::Counting;`.
#![allow(unsafe_code)] // the trait is unsafe; everything is handed on to the system's allocator

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static LIVE: Cell<i64> = const { Cell::new(0) };
    static PEAK: Cell<i64> = const { Cell::new(0) };
}

pub struct Counting;

fn grew(by: i64) {
    // During the destruction of a thread there is nothing to count any more.
    let _ = LIVE.try_with(|live| {
        live.set(live.get() + by);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(live.get())));
    });
}

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        grew(layout.size() as i64);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        grew(-(layout.size() as i64));
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        grew(size as i64 - layout.size() as i64);
        unsafe { System.realloc(memory, layout, size) }
    }
}

/// Allocations of this thread so far, those that grow a block included.
pub fn allocations() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

/// Bytes that this thread holds.
pub fn live() -> i64 {
    LIVE.with(Cell::get)
}

/// The most bytes this thread has held since the last call.
pub fn take_peak() -> i64 {
    PEAK.with(|peak| peak.replace(live()))
}
