//! Returns memory that is free to the system.
//!
//! glibc returns freed memory by itself only where it ends a heap. A crowd of clients leaves free pages between pages
//! in use, and the process would keep them for good. On other C libraries this does nothing.

use std::future::Future;

/// Calls `release` whenever the process has become larger by [`GROWTH`] and has then stopped growing.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(super) fn watch() -> impl Future<Output = ()> {
    use std::time::Duration;

    /// Time between two looks: one small file is read.
    const LOOK: Duration = Duration::from_secs(2);

    async {
        let mut watch = Watch::new(resident().unwrap_or(0));
        loop {
            tokio::time::sleep(LOOK).await;
            let Some(now) = resident() else { return std::future::pending().await };
            if watch.is_time(now) {
                // Some milliseconds, in which no thread gets memory.
                if release_aside().await {
                    watch.released(resident().unwrap_or(now));
                }
            }
        }
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(super) fn watch() -> impl Future<Output = ()> {
    std::future::pending()
}

/// Releases free memory while the process comes close to what it may take: where clients come and go, a quarter of what
/// is resident would be free pages.
#[derive(Debug)]
pub(super) struct Bound {
    /// Resident bytes from which releasing is worth its time. The rest is for what grows while a release, which takes
    /// tens of milliseconds in a crowd, is under way.
    from: u64,
    /// Growth since the last release that is.
    step: u64,
    next: u64,
}

impl Bound {
    /// For a process that may take so many bytes.
    pub(super) fn new(bytes: u64) -> Self {
        let from = bytes / 8 * 5;
        Self { from, step: bytes / 32, next: from }
    }

    /// Whether to release now that `resident` bytes are resident.
    fn is_time(&mut self, resident: u64) -> bool {
        self.next = self.next.min(resident.saturating_add(self.step)).max(self.from);
        resident >= self.next
    }

    /// Takes note of what a release left.
    fn released(&mut self, resident: u64) {
        self.next = resident.saturating_add(self.step).max(self.from);
    }

    /// Releases if it is time.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    pub(super) async fn keep(&mut self) {
        if let Some(now) = resident()
            && self.is_time(now)
            && release_aside().await
        {
            self.released(resident().unwrap_or(now));
        }
    }

    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    #[allow(clippy::unused_async)]
    pub(super) async fn keep(&mut self) {}
}

/// Growth in bytes from which releasing is worth its time.
const GROWTH: u64 = 32 << 20;

/// Decides when to release.
struct Watch {
    /// Resident bytes below which releasing is not worth its time.
    kept: u64,
    last: u64,
    /// Looks to leave out, as the last release found everything in use, and how many the next such release adds.
    wait: u32,
    pause: u32,
}

/// The most looks between two releases.
const LONGEST_PAUSE: u32 = 4;

impl Watch {
    fn new(resident: u64) -> Self {
        Self { kept: resident, last: resident, wait: 0, pause: 1 }
    }

    /// Whether to release now that `resident` bytes are resident. While the process grows, what it frees is soon in use
    /// again.
    fn is_time(&mut self, resident: u64) -> bool {
        let grows = resident > self.last;
        self.last = resident;
        // What fell without a release counts as kept.
        self.kept = self.kept.min(resident);
        let waits = self.wait > 0;
        self.wait = self.wait.saturating_sub(1);
        !waits && !grows && resident - self.kept >= GROWTH
    }

    /// Takes note of what a release left. What was in use then may be freed later without a sign from outside, so it
    /// is tried again, less and less often.
    fn released(&mut self, resident: u64) {
        let has_helped = self.last.saturating_sub(resident) >= GROWTH;
        self.last = resident;
        self.pause = if has_helped { 1 } else { (2 * self.pause).min(LONGEST_PAUSE) };
        self.wait = self.pause;
        if has_helped {
            self.kept = resident;
        }
    }
}

/// Resident memory of this process, bytes.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn resident() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// Releases on a thread of its own: those that may block can have thousands of reads to do first, while memory grows.
/// False if there was no thread to be had: it is tried again at the next look.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
async fn release_aside() -> bool {
    let (done, released) = tokio::sync::oneshot::channel();
    let thread = std::thread::Builder::new().name("release".into()).spawn(move || {
        release();
        // Nobody waits any more if the server has ended.
        let _ = done.send(());
    });
    thread.is_ok() && released.await.is_ok()
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code)] // one call for which there is no safe form
fn release() {
    // SAFETY: takes no pointers, may be called at any time from any thread (malloc_trim(3)).
    unsafe { libc::malloc_trim(0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    #[test]
    fn close_to_its_bound_memory_is_released_with_every_step_of_growth() {
        let mut bound = Bound::new(256 * MB);
        assert!(!bound.is_time(159 * MB));
        assert!(bound.is_time(160 * MB));
        // What is left is in use.
        bound.released(158 * MB);
        assert!(!bound.is_time(165 * MB));
        assert!(bound.is_time(166 * MB));
        bound.released(166 * MB);
        assert!(!bound.is_time(173 * MB));
        // It falls without a release, and grows again.
        assert!(!bound.is_time(163 * MB));
        assert!(bound.is_time(171 * MB));
    }

    #[test]
    fn memory_is_released_once_after_it_has_grown() {
        let mut watch = Watch::new(10 * MB);
        assert!(!watch.is_time(30 * MB), "not enough");
        assert!(!watch.is_time(200 * MB), "still growing");
        assert!(watch.is_time(200 * MB));
        // All of it is in use: no use in asking again at once.
        watch.released(200 * MB);
        assert!(!watch.is_time(200 * MB));
        assert!(!watch.is_time(190 * MB));
        // Growing again.
        assert!(!watch.is_time(230 * MB));
        assert!(watch.is_time(229 * MB));
        watch.released(40 * MB);
        for _ in 0..20 {
            assert!(!watch.is_time(40 * MB), "nothing has grown since");
        }
    }

    #[test]
    fn what_was_in_use_at_a_release_is_released_once_it_is_free() {
        let mut watch = Watch::new(10 * MB);
        let mut releases = 0;
        // Freed pages show only once they are released: from outside nothing changes when the clients leave.
        let mut looks_until = |releases_wanted: u32| {
            for look in 0..100 {
                if watch.is_time(200 * MB) {
                    watch.released(200 * MB);
                    releases += 1;
                }
                if releases == releases_wanted {
                    return look;
                }
            }
            100
        };
        looks_until(1);
        for wanted in 2..8 {
            let looks = looks_until(wanted);
            assert!((1..=LONGEST_PAUSE).contains(&looks), "{looks} looks between two releases");
        }
    }
}
