//! The body of an answer: bytes in memory and slices of one file, read in blocks that are used again.
//!
//! Reading runs on tokio's blocking threads, so that a task switch is paid once per block, not once per packet. A block
//! is read when the transport can take it, and is no larger than what it takes; where the transport does not tell
//! (TCP), blocks begin small, and one is read ahead once several large ones are gone. All bodies together hold
//! `POOL_BYTES`; those of a server hold what its memory has left.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::task::JoinHandle;

use crate::account::{Account, Charge};
use crate::source::{OpenFiles, Source};
use crate::stamp::Stamp;

/// Bytes read at once when a body is under way. At 1 GB/s this is 4000 reads and hand-overs per second, about 2 % of a
/// core.
pub(crate) const BLOCK: usize = 256 * 1024;

/// Bytes read first where the transport does not state what it can take; the size doubles with each block.
const FIRST_BLOCK: usize = 16 * 1024;

/// Bytes that may be read whatever others hold, so that every body moves on.
const LEAST_BLOCK: usize = 4 * 1024;

/// Bytes in blocks that all bodies of a client hold together; beyond it blocks have [`LEAST_BLOCK`] bytes. A block is
/// at most 1/[`SHARES`] of what is left of it, so that bodies nobody takes leave something for the others.
const POOL_BYTES: usize = 64 << 20;

/// See [`POOL_BYTES`]: half of it can be out before blocks become smaller.
const SHARES: usize = 128;

/// At a server, a block is at most this part of what is left of its memory. Bodies that nobody takes are dropped when
/// little is left, so the part is larger.
const SHARES_OF_ALL: usize = 32;

/// What must be left of a server's memory for reading ahead, bytes.
const ROOMY: u64 = 16 * BLOCK as u64;

/// Blocks the pool keeps for use again: 8 MiB.
const SPARE_BLOCKS: usize = 32;

/// What the bodies of a server have in memory, and blocks for use again.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    files: Arc<OpenFiles>,
    spare: Mutex<Vec<Vec<u8>>>,
    /// Bytes in blocks that were handed out and are not given back.
    lent: AtomicUsize,
}

impl Pool {
    /// How many of `wanted` bytes to read at once.
    fn affordable(&self, wanted: usize, account: Option<&Arc<Account>>) -> usize {
        let share = match account {
            Some(account) => usize::try_from(account.left()).unwrap_or(usize::MAX) / SHARES_OF_ALL,
            None => self.left() / SHARES,
        };
        wanted.min(share.max(LEAST_BLOCK))
    }

    /// Whether there is room for reading ahead: half of a client's blocks, or [`ROOMY`] of a server's memory.
    fn is_roomy(&self, account: Option<&Arc<Account>>) -> bool {
        account.map_or_else(|| self.left() > POOL_BYTES / 2, |account| account.left() > ROOMY)
    }

    /// Bytes left to lend.
    fn left(&self) -> usize {
        POOL_BYTES.saturating_sub(self.lent.load(Ordering::Relaxed))
    }

    /// Room for a block of at most `wanted` bytes, and of what is affordable. It counts from here on: thousands of
    /// reads may wait for a thread, and each would find the same room.
    fn lend(self: &Arc<Self>, wanted: usize, account: Option<&Arc<Account>>) -> Lent {
        let size = self.affordable(wanted, account);
        let counted = if is_pooled(size) { BLOCK } else { size };
        self.lent.fetch_add(counted, Ordering::Relaxed);
        let charge = account.map(|account| account.charge(counted as u64));
        Lent { block: Vec::new(), size, counted, pool: Arc::clone(self), _charge: charge }
    }
}

/// Whether a block of `size` bytes is one of those that are used again.
fn is_pooled(size: usize) -> bool {
    size >= BLOCK / 2
}

/// A block that returns to its pool when the last part of it is dropped.
struct Lent {
    /// Empty until it is filled.
    block: Vec<u8>,
    /// Bytes of it that are used.
    size: usize,
    /// Bytes that count.
    counted: usize,
    pool: Arc<Pool>,
    _charge: Option<Charge>,
}

impl Lent {
    /// The bytes to fill.
    fn bytes(&mut self) -> &mut [u8] {
        if self.block.is_empty() && self.size > 0 {
            let spare = || self.pool.spare.lock().ok().and_then(|mut spare| spare.pop());
            let spare = if is_pooled(self.size) { spare() } else { None };
            self.block = spare.unwrap_or_else(|| vec![0; self.counted]);
        }
        &mut self.block[..self.size]
    }
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.block[..self.size]
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.pool.lent.fetch_sub(self.counted, Ordering::Relaxed);
        if self.block.len() == BLOCK
            && let Ok(mut spare) = self.pool.spare.lock()
            && spare.len() < SPARE_BLOCKS
        {
            spare.push(std::mem::take(&mut self.block));
        }
    }
}

/// A piece of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Bytes in memory.
    Bytes(Bytes),
    /// A range of the file, in bytes.
    File(Range<u64>),
}

/// The body of an answer.
#[derive(Debug, Clone, Default)]
pub struct Content {
    file: Option<Arc<File>>,
    /// What the file was when the answer was made.
    stamp: Option<Stamp>,
    /// Where the file can be opened again.
    path: Option<PathBuf>,
    pieces: VecDeque<Piece>,
}

impl Content {
    /// No body.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// Bytes in memory.
    #[must_use]
    pub fn bytes(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self { pieces: [Piece::Bytes(bytes)].into(), ..Self::default() }
    }

    /// Pieces of `file` with bytes between them.
    #[must_use]
    pub fn pieces(file: Arc<File>, pieces: impl IntoIterator<Item = Piece>) -> Self {
        Self { file: Some(file), stamp: None, path: None, pieces: pieces.into_iter().collect() }
    }

    /// Reading is to fail when the file is no longer what it was at `stamp`.
    pub(crate) fn unchanged_since(mut self, stamp: Stamp) -> Self {
        self.stamp = Some(stamp);
        self
    }

    /// Names the canonical path of the file, so that it need not stay open while nothing is read from it.
    #[must_use]
    pub fn reopened_at(mut self, path: PathBuf) -> Self {
        self.path = Some(path);
        self
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        length(&self.pieces)
    }

    /// Whether there is nothing to send.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Bytes in all pieces.
fn length(pieces: &VecDeque<Piece>) -> u64 {
    let length = |piece: &Piece| match piece {
        Piece::Bytes(bytes) => bytes.len() as u64,
        Piece::File(range) => range.end.saturating_sub(range.start),
    };
    pieces.iter().map(length).sum()
}

/// Reads a [`Content`] block by block. Cancel-safe: a block that was being read is handed out by the next poll.
#[derive(Debug)]
pub(crate) struct Reader {
    pieces: VecDeque<Piece>,
    pool: Arc<Pool>,
    /// Where blocks are counted, at a server.
    account: Option<Arc<Account>>,
    /// `None` without a file, or while a block is read.
    source: Option<Source>,
    reading: Option<JoinHandle<io::Result<(Bytes, Source)>>>,
    /// Size of the next block where the transport does not state it.
    block: usize,
}

impl Reader {
    pub(crate) fn new(content: Content, pool: Arc<Pool>) -> Self {
        let source = content.file.map(|file| Source::new(file, content.path, content.stamp, &pool.files));
        Self { pieces: content.pieces, pool, account: None, source, reading: None, block: FIRST_BLOCK }
    }

    /// Counts blocks in `account`.
    pub(crate) fn counted(mut self, account: Arc<Account>) -> Self {
        self.account = Some(account);
        self
    }

    /// Bytes not handed out, up to [`BLOCK`]: what to ask the transport's capacity for.
    pub(crate) fn wanted(&self) -> usize {
        usize::try_from(length(&self.pieces)).unwrap_or(BLOCK).min(BLOCK)
    }

    /// The next bytes, at most `most` unless a block is being read already; `None` at the end.
    ///
    /// # Errors
    /// As [`Reader::poll_next`].
    pub(crate) async fn next(&mut self, most: usize) -> io::Result<Option<Bytes>> {
        std::future::poll_fn(|cx| self.poll_block(cx, most)).await
    }

    /// The next block, with another read ahead when that pays; `None` at the end.
    ///
    /// # Errors
    /// Errors of the file system; [`io::ErrorKind::UnexpectedEof`] when the file became shorter than promised,
    /// [`io::ErrorKind::InvalidData`] when it changed since the answer was made, with the last block at the latest.
    /// After an error the body must be cut off visibly, never ended as if complete.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        let most = self.block;
        let block = ready!(self.poll_block(cx, most))?;
        self.block = (2 * most).min(BLOCK);
        if most == BLOCK
            && self.pool.is_roomy(self.account.as_ref())
            && matches!(self.pieces.front(), Some(Piece::File(_)))
        {
            self.start_read(BLOCK);
        }
        Poll::Ready(Ok(block))
    }

    fn poll_block(&mut self, cx: &mut Context<'_>, most: usize) -> Poll<io::Result<Option<Bytes>>> {
        if self.reading.is_none() {
            match self.pieces.front_mut() {
                None => return Poll::Ready(Ok(None)),
                Some(Piece::Bytes(bytes)) if bytes.len() > most.max(LEAST_BLOCK) => {
                    return Poll::Ready(Ok(Some(bytes.split_to(most.max(LEAST_BLOCK)))));
                }
                Some(Piece::Bytes(_)) => {
                    let Some(Piece::Bytes(bytes)) = self.pieces.pop_front() else {
                        return Poll::Ready(Ok(None));
                    };
                    return Poll::Ready(Ok(Some(bytes)));
                }
                Some(Piece::File(_)) => self.start_read(most),
            }
        }
        let Some(reading) = &mut self.reading else {
            return Poll::Ready(Ok(None));
        };
        let result = ready!(Pin::new(reading).poll(cx));
        self.reading = None;
        match result {
            Ok(Ok((block, source))) => {
                self.source = Some(source);
                Poll::Ready(Ok(Some(block)))
            }
            Ok(Err(error)) => {
                self.pieces.clear();
                Poll::Ready(Err(error))
            }
            Err(_) => {
                self.pieces.clear();
                Poll::Ready(Err(io::Error::other("the reading task was cancelled")))
            }
        }
    }

    fn start_read(&mut self, most: usize) {
        let Some(Piece::File(range)) = self.pieces.front_mut() else { return };
        let Some(mut source) = self.source.take() else { return };
        let offset = range.start;
        let left = usize::try_from(range.end - range.start).unwrap_or(BLOCK);
        let mut lent = self.pool.lend(left.min(most.clamp(LEAST_BLOCK, BLOCK)), self.account.as_ref());
        range.start += lent.size as u64;
        if range.start >= range.end {
            self.pieces.pop_front();
        }
        self.reading = Some(tokio::task::spawn_blocking(move || {
            source.read(lent.bytes(), offset)?;
            Ok((Bytes::from_owner(lent), source))
        }));
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // A read that has not begun is of no use any more.
        if let Some(reading) = &self.reading {
            reading.abort();
        }
    }
}

/// Fills `buffer` from `offset` on without touching the file's own position.
///
/// # Errors
/// [`io::ErrorKind::UnexpectedEof`] when the file ends before.
pub(crate) fn read_exact_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    #[cfg(unix)]
    {
        std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset).map_err(|error| {
            if error.kind() == io::ErrorKind::UnexpectedEof {
                io::Error::new(error.kind(), "the file became shorter while it was being sent")
            } else {
                error
            }
        })
    }
    #[cfg(windows)]
    {
        use std::os::windows::fs::FileExt;
        let mut done = 0;
        while done < buffer.len() {
            match file.seek_read(&mut buffer[done..], offset + done as u64) {
                Ok(0) => {
                    return Err(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "the file became shorter while it was being sent",
                    ));
                }
                Ok(n) => done += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    async fn next(reader: &mut Reader) -> io::Result<Option<Bytes>> {
        std::future::poll_fn(|cx| reader.poll_next(cx)).await
    }

    async fn all(reader: &mut Reader) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        while let Some(block) = next(reader).await? {
            assert!(block.len() <= BLOCK);
            out.extend_from_slice(&block);
        }
        Ok(out)
    }

    fn sample(size: usize) -> (Arc<File>, Vec<u8>) {
        let data: Vec<u8> = (0..size).map(|i| (i / 7 % 251) as u8).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&data).unwrap();
        (Arc::new(file), data)
    }

    #[tokio::test]
    async fn slices_and_bytes_come_out_in_order() {
        let (file, data) = sample(3 * BLOCK + 17);
        let pool = Arc::new(Pool::default());
        let content = Content::pieces(
            file,
            [
                Piece::Bytes("head".into()),
                Piece::File(5..data.len() as u64),
                Piece::Bytes("tail".into()),
                Piece::File(0..1),
            ],
        );
        assert_eq!(content.len(), 4 + data.len() as u64 - 5 + 4 + 1);
        let got = all(&mut Reader::new(content, pool)).await.unwrap();
        assert_eq!(got, [b"head", &data[5..], b"tail", &data[..1]].concat());
    }

    #[tokio::test]
    async fn blocks_are_used_again_only_when_nobody_holds_them() {
        let (file, data) = sample(20 * BLOCK);
        let pool = Arc::new(Pool::default());
        let content = Content::pieces(Arc::clone(&file), [Piece::File(0..data.len() as u64)]);
        let mut reader = Reader::new(content.clone(), Arc::clone(&pool));
        let mut addresses = std::collections::BTreeSet::new();
        while let Some(block) = next(&mut reader).await.unwrap() {
            // Smaller ones are not the pool's: whether they share an address is the allocator's affair.
            if block.len() >= BLOCK / 2 {
                addresses.insert(block.as_ptr() as usize);
            }
        }
        // One that is handed out and one that is read ahead.
        assert!((1..=2).contains(&addresses.len()), "{} blocks for one reader", addresses.len());
        // Held blocks keep their bytes.
        let mut reader = Reader::new(content, pool);
        let mut held = Vec::new();
        while let Some(block) = next(&mut reader).await.unwrap() {
            held.push(block);
        }
        assert_eq!(held.concat(), data);
    }

    #[tokio::test]
    async fn a_block_is_no_larger_than_what_the_transport_takes() {
        let (file, data) = sample(3 * BLOCK + 17);
        let pool = Arc::new(Pool::default());
        let pieces = [Piece::Bytes(vec![1; 100_000].into()), Piece::File(0..data.len() as u64)];
        let mut reader = Reader::new(Content::pieces(file, pieces), Arc::clone(&pool));
        let mut got = 0;
        for most in [1000, 5000, LEAST_BLOCK, 70_000].into_iter().cycle() {
            let Some(block) = reader.next(most).await.unwrap() else { break };
            assert!(block.len() <= most.max(LEAST_BLOCK), "{} bytes of {most}", block.len());
            got += block.len();
            assert!(reader.reading.is_none(), "read ahead of what can be sent");
        }
        assert_eq!(got, 100_000 + data.len());
    }

    #[tokio::test]
    async fn bodies_that_nobody_takes_share_a_bounded_pool_and_leave_room_for_others() {
        let (file, data) = sample(4 * BLOCK);
        let pool = Arc::new(Pool::default());
        let content = Content::pieces(file, [Piece::File(0..data.len() as u64)]);
        let mut stalled = Vec::new();
        for _ in 0..2000 {
            let mut reader = Reader::new(content.clone(), Arc::clone(&pool));
            let block = reader.next(BLOCK).await.unwrap().unwrap();
            stalled.push((reader, block));
        }
        let lent = pool.lent.load(Ordering::Relaxed);
        assert!(lent <= POOL_BYTES + 2000 * LEAST_BLOCK, "{lent} bytes");
        assert_eq!(all(&mut Reader::new(content, Arc::clone(&pool))).await.unwrap(), data);
        drop(stalled);
        assert_eq!(pool.lent.load(Ordering::Relaxed), 0);
        assert!(pool.spare.lock().unwrap().len() <= SPARE_BLOCKS);
    }

    fn with_one_blocking_thread() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap()
    }

    /// Does something while the only thread that may block does nothing else.
    async fn while_threads_are_busy<T>(ask: impl FnOnce() -> T) -> T {
        let (free, wait) = std::sync::mpsc::channel::<()>();
        let busy = tokio::task::spawn_blocking(move || wait.recv());
        let asked = ask();
        drop(free);
        assert!(busy.await.unwrap().is_err());
        asked
    }

    #[test]
    fn reads_that_wait_for_a_thread_share_the_pool_too() {
        let (file, data) = sample(4 * BLOCK);
        let pool = Arc::new(Pool::default());
        let content = Content::pieces(file, [Piece::File(0..data.len() as u64)]);
        let runtime = with_one_blocking_thread();
        runtime.block_on(async {
            let (mut readers, lent) = while_threads_are_busy(|| {
                let ask = |_| Reader::new(content.clone(), Arc::clone(&pool)).into_wanting(BLOCK);
                let readers: Vec<_> = (0..2000).map(ask).collect();
                (readers, pool.lent.load(Ordering::Relaxed))
            })
            .await;
            assert!(lent > POOL_BYTES / 2, "{lent} bytes: they do wait");
            let mut blocks = Vec::new();
            for reader in &mut readers {
                blocks.push(reader.next(BLOCK).await.unwrap().unwrap());
            }
            assert_eq!(pool.lent.load(Ordering::Relaxed), lent);
            assert!(lent <= POOL_BYTES + 2000 * LEAST_BLOCK, "{lent} bytes");
        });
    }

    #[test]
    fn a_read_that_nobody_waits_for_any_more_is_not_made() {
        let (file, data) = sample(BLOCK);
        let pool = Arc::new(Pool::default());
        let content = Content::pieces(file, [Piece::File(0..data.len() as u64)]);
        let runtime = with_one_blocking_thread();
        runtime.block_on(async {
            while_threads_are_busy(|| drop(Reader::new(content, Arc::clone(&pool)).into_wanting(BLOCK))).await;
            // The only thread comes to this one after the read.
            tokio::task::spawn_blocking(|| {}).await.unwrap();
            assert_eq!(pool.lent.load(Ordering::Relaxed), 0);
            assert!(pool.spare.lock().unwrap().is_empty(), "a block was filled");
        });
    }

    impl Reader {
        /// A reader whose read has been asked for.
        fn into_wanting(mut self, most: usize) -> Self {
            self.start_read(most);
            self
        }
    }

    #[tokio::test]
    async fn a_file_that_shrinks_is_an_error_and_never_a_short_body() {
        let (file, _) = sample(1000);
        let pool = Arc::new(Pool::default());
        let content = Content::pieces(file, [Piece::File(0..2000)]);
        let error = all(&mut Reader::new(content, pool)).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[tokio::test]
    async fn a_file_that_changes_is_an_error_before_its_last_block() {
        let (file, data) = sample(5 * BLOCK);
        let stamp = Stamp::of(&file.metadata().unwrap());
        let content = || {
            let pieces = [Piece::File(0..data.len() as u64)];
            Reader::new(Content::pieces(Arc::clone(&file), pieces).unchanged_since(stamp), Arc::default())
        };
        assert_eq!(all(&mut content()).await.unwrap(), data);
        let mut reader = content();
        let mut got = next(&mut reader).await.unwrap().unwrap().len();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        let error = loop {
            match next(&mut reader).await {
                Ok(block) => got += block.unwrap().len(),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(got < data.len());
    }
}
