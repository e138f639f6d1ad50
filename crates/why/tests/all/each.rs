//! Work on many transfers at once.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// What `work` gives for each number, on two threads, in order.
pub fn each<T: Send>(numbers: &[u64], work: impl Fn(u64) -> Option<T> + Sync) -> Vec<T> {
    let (next, done) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(number) = numbers.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                    if let Some(result) = work(*number) {
                        done.lock().unwrap().push((*number, result));
                    }
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap();
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}
