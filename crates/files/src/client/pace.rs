//! The rate limit: a token bucket on reading, from the network or from a file to send, so that flow control holds the
//! sender back instead of memory filling up.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::content::Reader;

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

/// Most bytes of an upload handed over at once under a limit.
const MOST_AT_ONCE: u64 = 64 * 1024;

impl Limiter {
    /// Bytes to hand over at once, so that they leave evenly and a slow upload is never silent for long.
    fn piece(&self) -> usize {
        let worth = u128::from(self.bytes_per_second) * BURST.as_millis() / 1000;
        u64::try_from(worth).unwrap_or(u64::MAX).clamp(1, MOST_AT_ONCE) as usize
    }
}

/// A file that is read no faster than a limit allows. The end of the file comes when all of it is paid for.
pub(super) struct Paced {
    reader: Reader,
    limiter: Option<Arc<Limiter>>,
    /// Read, not yet handed over.
    rest: Bytes,
    /// Ready when what was handed over is paid for.
    paid: Option<Pin<Box<dyn Future<Output = ()> + Send + Sync>>>,
}

impl Paced {
    pub(super) fn new(reader: Reader, limiter: Option<Arc<Limiter>>) -> Self {
        Self { reader, limiter, rest: Bytes::new(), paid: None }
    }

    /// The next piece; `None` at the end. Errors are the reader's.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        if let Some(paid) = &mut self.paid {
            ready!(paid.as_mut().poll(cx));
            self.paid = None;
        }
        if self.rest.is_empty() {
            match ready!(self.reader.poll_next(cx))? {
                Some(block) => self.rest = block,
                None => return Poll::Ready(Ok(None)),
            }
        }
        let Some(limiter) = &self.limiter else {
            return Poll::Ready(Ok(Some(std::mem::take(&mut self.rest))));
        };
        let piece = self.rest.split_to(limiter.piece().min(self.rest.len()));
        let (limiter, size) = (Arc::clone(limiter), piece.len());
        self.paid = Some(Box::pin(async move { limiter.take(size).await }));
        Poll::Ready(Ok(Some(piece)))
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::Write as _;

    use super::*;
    use crate::content::{Content, Piece};

    /// Time passes only when nobody is reading, so this is exact but for the burst and the milliseconds of the timer.
    #[tokio::test(start_paused = true)]
    async fn an_upload_is_read_at_the_rate_in_small_pieces_and_whole() {
        let data: Vec<u8> = (0..3_000_000u32).map(|i| (i % 251) as u8).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&data).unwrap();
        let file = Arc::new(file);
        for (rate, size, most) in [(1_000_000, 3_000_000, 65_536), (10_000, 50_000, 1_000), (3, 30, 1)] {
            let content = Content::pieces(Arc::clone(&file), [Piece::File(0..size)]);
            let reader = Reader::new(content, Arc::default());
            let mut paced = Paced::new(reader, Some(Arc::new(Limiter::new(rate))));
            let began = Instant::now();
            let mut got = Vec::new();
            while let Some(piece) = poll_fn(|cx| paced.poll_next(cx)).await.unwrap() {
                assert!(piece.len() <= most, "{} bytes at once at {rate} bytes per second", piece.len());
                got.extend_from_slice(&piece);
                let allowed = rate as f64 * (began.elapsed() + BURST).as_secs_f64() + most as f64;
                assert!(got.len() as f64 <= allowed, "{} bytes after {:?}", got.len(), began.elapsed());
            }
            assert_eq!(got, data[..size as usize]);
            let (took, right) = (began.elapsed().as_secs_f64(), size as f64 / rate as f64);
            assert!((right - 0.11..right * 1.05).contains(&took), "{size} bytes at {rate} per second took {took} s");
        }
    }

    #[tokio::test]
    async fn without_a_limit_blocks_pass_as_they_are_read() {
        let content = Content::pieces(Arc::new(tempfile::tempfile().unwrap()), [Piece::Bytes("abc".into())]);
        let mut paced = Paced::new(Reader::new(content, Arc::default()), None);
        assert_eq!(poll_fn(|cx| paced.poll_next(cx)).await.unwrap().as_deref(), Some(&b"abc"[..]));
        assert_eq!(poll_fn(|cx| paced.poll_next(cx)).await.unwrap(), None);
    }

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
