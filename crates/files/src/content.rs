//! The body of an answer: bytes in memory and slices of one file, read in large blocks into buffers that are used again.
//!
//! Reading runs on tokio's blocking threads, one block ahead of what is being sent, so that the disk and the network work at
//! the same time and a task switch is paid once per [`BLOCK`], not once per packet.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use tokio::task::JoinHandle;

use crate::stamp::Stamp;

/// Bytes read at once when a body is under way. At 1 GB/s this is 4000 reads and hand-overs per second, about 2 % of a core.
pub(crate) const BLOCK: usize = 256 * 1024;

/// Bytes read first; the size doubles with each block, and reading ahead begins when two are gone. A stream whose client takes
/// nothing holds one small block of ours, not two large ones.
const FIRST_BLOCK: usize = 32 * 1024;

/// Blocks the pool keeps for use again (64 MB): enough that blocks come back from a transport that still holds unacknowledged
/// ones, little enough to forget.
const POOL_BLOCKS: usize = 256;

/// Blocks that were handed out, oldest first. A block is free again when nobody else holds a part of it.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    blocks: Mutex<VecDeque<Bytes>>,
}

impl Pool {
    /// A block of [`BLOCK`] bytes, used before if one came back.
    fn take(&self) -> BytesMut {
        if let Ok(mut blocks) = self.blocks.lock() {
            // The oldest are the likeliest to be free; looking at more than a few would cost more than an allocation.
            for _ in 0..blocks.len().min(4) {
                let Some(block) = blocks.pop_front() else {
                    break;
                };
                match block.try_into_mut() {
                    Ok(block) if block.len() == BLOCK => return block,
                    Ok(_) => {}
                    Err(busy) => blocks.push_back(busy),
                }
            }
        }
        BytesMut::zeroed(BLOCK)
    }

    /// Remembers a block that is about to be handed out.
    fn keep(&self, block: Bytes) {
        if let Ok(mut blocks) = self.blocks.lock() {
            if blocks.len() >= POOL_BLOCKS {
                blocks.pop_front();
            }
            blocks.push_back(block);
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
        Self { file: Some(file), stamp: None, pieces: pieces.into_iter().collect() }
    }

    /// Reading is to fail when the file is no longer what it was at `stamp`.
    pub(crate) fn unchanged_since(mut self, stamp: Stamp) -> Self {
        self.stamp = Some(stamp);
        self
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.pieces
            .iter()
            .map(|piece| match piece {
                Piece::Bytes(bytes) => bytes.len() as u64,
                Piece::File(range) => range.end.saturating_sub(range.start),
            })
            .sum()
    }

    /// Whether there is nothing to send.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Reads a [`Content`] block by block. Cancel-safe: a block that was being read is handed out by the next poll.
#[derive(Debug)]
pub(crate) struct Reader {
    content: Content,
    pool: Arc<Pool>,
    reading: Option<JoinHandle<io::Result<Bytes>>>,
    /// Size of the next block.
    block: usize,
}

impl Reader {
    pub(crate) fn new(content: Content, pool: Arc<Pool>) -> Self {
        Self { content, pool, reading: None, block: FIRST_BLOCK }
    }

    /// The next block; `None` at the end.
    ///
    /// # Errors
    /// What the file system says; [`io::ErrorKind::UnexpectedEof`] when the file became shorter than promised,
    /// [`io::ErrorKind::InvalidData`] when it changed since the answer was made, with the last block at the latest. After an error
    /// the body must be cut off visibly, never ended as if complete.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Bytes>> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        if self.reading.is_none() {
            match self.content.pieces.front() {
                None => return Poll::Ready(Ok(None)),
                Some(Piece::Bytes(_)) => {
                    let Some(Piece::Bytes(bytes)) = self.content.pieces.pop_front() else {
                        return Poll::Ready(Ok(None));
                    };
                    return Poll::Ready(Ok(Some(bytes)));
                }
                Some(Piece::File(_)) => self.start_read(),
            }
        }
        let Some(reading) = &mut self.reading else {
            return Poll::Ready(Ok(None));
        };
        let result = ready!(Pin::new(reading).poll(cx));
        self.reading = None;
        let block = match result {
            Ok(Ok(block)) => block,
            Ok(Err(error)) => {
                self.content.pieces.clear();
                return Poll::Ready(Err(error));
            }
            Err(_) => return Poll::Ready(Err(io::Error::other("the reading task was cancelled"))),
        };
        if self.block > 2 * FIRST_BLOCK && matches!(self.content.pieces.front(), Some(Piece::File(_))) {
            self.start_read();
        }
        Poll::Ready(Ok(Some(block)))
    }

    fn start_read(&mut self) {
        let (Some(file), Some(Piece::File(range))) = (&self.content.file, self.content.pieces.front_mut()) else {
            return;
        };
        let offset = range.start;
        let size = usize::try_from(range.end - range.start).unwrap_or(BLOCK).min(self.block);
        self.block = (2 * self.block).min(BLOCK);
        range.start += size as u64;
        if range.start >= range.end {
            self.content.pieces.pop_front();
        }
        let (file, pool, stamp) = (Arc::clone(file), Arc::clone(&self.pool), self.content.stamp);
        self.reading = Some(tokio::task::spawn_blocking(move || {
            let block = read_block(&file, offset, size, &pool)?;
            // After reading, so that no block is handed out that may have been changed before it was read.
            stamp.map_or(Ok(()), |stamp| stamp.check(&file))?;
            Ok(block)
        }));
    }
}

fn read_block(file: &File, offset: u64, size: usize, pool: &Pool) -> io::Result<Bytes> {
    if size < BLOCK / 2 {
        let mut block = BytesMut::zeroed(size);
        read_exact_at(file, &mut block, offset)?;
        return Ok(block.freeze());
    }
    let mut block = pool.take();
    read_exact_at(file, &mut block[..size], offset)?;
    let block = block.freeze();
    pool.keep(block.clone());
    Ok(block.slice(..size))
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

    async fn all(reader: &mut Reader) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        while let Some(block) = reader.next().await? {
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
        while let Some(block) = reader.next().await.unwrap() {
            addresses.insert(block.as_ptr() as usize);
        }
        assert!(addresses.len() <= 4, "{} blocks for one reader", addresses.len());
        // Held blocks keep their bytes.
        let mut reader = Reader::new(content, pool);
        let mut held = Vec::new();
        while let Some(block) = reader.next().await.unwrap() {
            held.push(block);
        }
        assert_eq!(held.concat(), data);
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
        let mut got = reader.next().await.unwrap().unwrap().len();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        let error = loop {
            match reader.next().await {
                Ok(block) => got += block.unwrap().len(),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(got < data.len());
    }
}
