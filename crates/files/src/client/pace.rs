//! The rate limit: a token bucket on reading, so that flow control holds the sender back instead of memory filling up.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

/// How much may be read ahead of the rate: a tenth of a second's worth, at least one block.
const BURST: Duration = Duration::from_millis(100);

/// Shared by all transfers of a fetcher: the limit is on their sum.
#[derive(Debug)]
pub(super) struct Limiter {
    bytes_per_second: u64,
    /// When the bytes taken so far will be paid for.
    paid: Mutex<Instant>,
}

impl Limiter {
    pub(super) fn new(bytes_per_second: u64) -> Self {
        Self { bytes_per_second: bytes_per_second.max(1), paid: Mutex::new(Instant::now()) }
    }

    /// Waits until `bytes` more fit under the rate. Waiting transfers take turns.
    pub(super) async fn take(&self, bytes: usize) {
        let cost = u128::from(bytes as u64) * 1_000_000_000 / u128::from(self.bytes_per_second);
        let cost = Duration::from_nanos(u64::try_from(cost).unwrap_or(u64::MAX));
        let mut paid = self.paid.lock().await;
        let now = Instant::now();
        // Idle time is not saved up beyond the burst.
        let base = (*paid).max(now.checked_sub(BURST).unwrap_or(now));
        *paid = base.checked_add(cost).unwrap_or(base);
        let until = *paid;
        // Held while sleeping: the next in turn pays after us.
        tokio::time::sleep_until(until).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_sum_of_two_readers_stays_at_the_rate() {
        let limiter = Limiter::new(1_000_000);
        let began = Instant::now();
        let reader = async {
            for _ in 0..50 {
                limiter.take(20_000).await;
            }
        };
        tokio::join!(reader, reader_again(&limiter));
        let elapsed = began.elapsed().as_secs_f64();
        assert!((1.9..=2.1).contains(&elapsed), "2 MB at 1 MB/s took {elapsed} s");
    }

    async fn reader_again(limiter: &Limiter) {
        for _ in 0..10 {
            limiter.take(100_000).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn idle_time_is_not_saved_up() {
        let limiter = Limiter::new(1_000_000);
        tokio::time::sleep(Duration::from_secs(60)).await;
        let began = Instant::now();
        limiter.take(1_000_000).await;
        assert!(began.elapsed() >= Duration::from_millis(890));
    }
}
