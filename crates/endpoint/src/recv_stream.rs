//! The receiving side of a stream.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    sync::MutexGuard,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use thalweg_proto::streams::{ReadError as Refusal, StreamId, Streams};
use tokio::io::{AsyncRead, ReadBuf};

use crate::{
    cell::{ConnectionRef, State},
    error::{ClosedStream, ConnectionError, ReadError, ReadExactError, ReadToEndError},
};

/// How much [`RecvStream::read_to_end`] takes at a time.
const READ_TO_END_CHUNK: usize = 256 * 1024;

/// The receiving side of a stream.
///
/// Everything that waits is cancel-safe: a future dropped before it was ready has taken nothing out of the stream,
/// except [`read_exact`](Self::read_exact) and [`read_to_end`](Self::read_to_end), which say so.
///
/// # Dropping
///
/// A stream dropped before its end was read is stopped with code 0 (STOP_SENDING): the peer need not go on sending.
#[derive(Debug)]
pub struct RecvStream {
    connection: ConnectionRef,
    id: StreamId,
    end: End,
}

/// How far a stream has been read.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum End {
    /// More may come.
    Open,
    /// The FIN was reached.
    Finished,
    /// The peer's reset was seen.
    Reset(u64),
    /// Stopped by us.
    Stopped,
}

impl RecvStream {
    pub(crate) fn new(connection: ConnectionRef, id: StreamId) -> Self {
        Self { connection, id, end: End::Open }
    }

    /// Which stream this is.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Reads what there is into `buffer` and returns the number of bytes, or `None` at the end of the stream.
    ///
    /// Waits while there is nothing. Cancel-safe.
    pub async fn read(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, ReadError> {
        poll_fn(|cx| self.poll_read(cx, buffer)).await
    }

    /// Takes what there is, up to `max` bytes, in one piece and mostly without copying; `None` at the end.
    ///
    /// The fastest way to read: ask for 64 KiB or more. Cancel-safe.
    pub async fn read_chunk(&mut self, max: usize) -> Result<Option<Bytes>, ReadError> {
        poll_fn(|cx| self.poll_read_chunk(cx, max)).await
    }

    /// Takes the next pieces that there are, mostly without copying: fills `chunks` from its beginning and returns how
    /// many it holds now, or `None` at the end of the stream. The rest of `chunks` is left as it is.
    ///
    /// Waits while there is nothing. Cancel-safe.
    ///
    /// # Errors
    ///
    /// As for [`read`](Self::read). What arrived before a connection was lost or a reset was seen comes first.
    pub async fn read_chunks(&mut self, chunks: &mut [Bytes]) -> Result<Option<usize>, ReadError> {
        poll_fn(|cx| self.poll_read_chunks(cx, chunks)).await
    }

    /// Takes up to `max` bytes that have arrived, whatever is missing before them, with their offset in the stream;
    /// `None` once every byte was taken.
    ///
    /// Every byte comes once, lower offsets first as far as they are there: for data that says itself where it belongs,
    /// such as a file written in place. Bytes that arrive in order are not copied. From the first call on, the other
    /// ways to read give [`ReadError::Unordered`]. Cancel-safe.
    ///
    /// A byte that stays missing holds back the peer: it gets no credit for more than one `max_stream_receive_window`
    /// (256 MiB by default) beyond that byte until it has sent it.
    ///
    /// ```
    /// # async fn example(mut recv: thalweg::RecvStream, size: usize) -> Result<Vec<u8>, thalweg::ReadError> {
    /// let mut file = vec![0; size];
    /// while let Some((offset, bytes)) = recv.read_unordered(64 * 1024).await? {
    ///     let place = file.get_mut(offset as usize..offset as usize + bytes.len()).expect("a file of this size");
    ///     place.copy_from_slice(&bytes);
    /// }
    /// # Ok(file) }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`read`](Self::read).
    pub async fn read_unordered(&mut self, max: usize) -> Result<Option<(u64, Bytes)>, ReadError> {
        poll_fn(|cx| self.poll_read_unordered(cx, max)).await
    }

    /// Fills `buffer`.
    ///
    /// Not cancel-safe: when dropped, an unknown part has been read.
    pub async fn read_exact(&mut self, buffer: &mut [u8]) -> Result<(), ReadExactError> {
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.read(rest).await? {
                Some(count) => filled += count,
                None => return Err(ReadExactError::FinishedEarly(filled)),
            }
        }
        Ok(())
    }

    /// Reads to the end and returns all of it, or fails once it is more than `limit` bytes.
    ///
    /// Not cancel-safe: when dropped, what was read is lost.
    pub async fn read_to_end(&mut self, limit: usize) -> Result<Vec<u8>, ReadToEndError> {
        let mut all = Vec::new();
        while let Some(chunk) = self.read_chunk(READ_TO_END_CHUNK).await? {
            if chunk.len() > limit.saturating_sub(all.len()) {
                return Err(ReadToEndError::TooLong(limit));
            }
            all.extend_from_slice(&chunk);
        }
        Ok(all)
    }

    /// [`read`](Self::read) for hand-written futures. Only the last task that polled is woken.
    pub fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<Result<Option<usize>, ReadError>> {
        if buffer.is_empty() {
            return Poll::Ready(Ok(Some(0)));
        }
        self.poll_with(cx, |streams, id| streams.read_into(id, buffer))
    }

    /// [`read_chunk`](Self::read_chunk) for hand-written futures. Only the last task that polled is woken.
    pub fn poll_read_chunk(&mut self, cx: &mut Context<'_>, max: usize) -> Poll<Result<Option<Bytes>, ReadError>> {
        if max == 0 {
            return Poll::Ready(Ok(Some(Bytes::new())));
        }
        self.poll_with(cx, |streams, id| streams.read(id, max))
    }

    /// [`read_chunks`](Self::read_chunks) for hand-written futures. Only the last task that polled is woken.
    pub fn poll_read_chunks(
        &mut self,
        cx: &mut Context<'_>,
        chunks: &mut [Bytes],
    ) -> Poll<Result<Option<usize>, ReadError>> {
        for filled in 0..chunks.len() {
            let Some(place) = chunks.get_mut(filled) else { break };
            match self.poll_read_chunk(cx, usize::MAX) {
                Poll::Ready(Ok(Some(chunk))) => *place = chunk,
                // The end, a reset or a lost connection is reported by the next call.
                _ if filled > 0 => return Poll::Ready(Ok(Some(filled))),
                Poll::Ready(Ok(None)) => return Poll::Ready(Ok(None)),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(Some(chunks.len())))
    }

    /// [`read_unordered`](Self::read_unordered) for hand-written futures. Only the last task that polled is woken.
    pub fn poll_read_unordered(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
    ) -> Poll<Result<Option<(u64, Bytes)>, ReadError>> {
        self.poll_with(cx, |streams, id| streams.read_unordered(id, max))
    }

    fn poll_with<T>(
        &mut self,
        cx: &mut Context<'_>,
        read: impl FnOnce(&mut Streams, StreamId) -> Result<Option<T>, Refusal>,
    ) -> Poll<Result<Option<T>, ReadError>> {
        match self.end {
            End::Open => {}
            End::Finished => return Poll::Ready(Ok(None)),
            End::Reset(code) => return Poll::Ready(Err(ReadError::Reset(code))),
            End::Stopped => return Poll::Ready(Err(ReadError::ClosedStream)),
        }
        let mut state = self.connection.lock();
        // What arrived before the connection was lost can still be read.
        match read(state.machine.streams(), self.id) {
            Ok(Some(data)) => {
                // Reading frees flow control credit; the driver is woken only if that is worth a frame.
                if state.error.is_none() && state.machine.streams().can_send_control() {
                    self.connection.unlock_and_drive(state);
                }
                Poll::Ready(Ok(Some(data)))
            }
            Ok(None) => {
                self.end = End::Finished;
                // The peer may open another stream in place of this one.
                if state.error.is_none() && state.machine.streams().can_send_control() {
                    self.connection.unlock_and_drive(state);
                }
                Poll::Ready(Ok(None))
            }
            Err(Refusal::Blocked) => {
                state.check()?;
                state.wait_to_read(self.id, cx);
                Poll::Pending
            }
            Err(Refusal::Reset(code)) => {
                self.end = End::Reset(code);
                forget_reset(&self.connection, state, self.id, code);
                Poll::Ready(Err(ReadError::Reset(code)))
            }
            Err(Refusal::Unordered) => Poll::Ready(Err(ReadError::Unordered)),
            Err(Refusal::ClosedStream) => {
                state.check()?;
                Poll::Ready(Err(ReadError::ClosedStream))
            }
        }
    }

    /// Waits until the peer resets the stream, and returns its code; `None` once it no longer can: all of the stream
    /// has arrived, or it was read to its end or stopped. Takes nothing out of the stream. Cancel-safe.
    ///
    /// For a task that works for the peer without reading, and ends when the peer has lost interest.
    ///
    /// # Errors
    ///
    /// The reason the connection was lost.
    pub async fn received_reset(&mut self) -> Result<Option<u64>, ConnectionError> {
        poll_fn(|cx| self.poll_received_reset(cx)).await
    }

    /// [`received_reset`](Self::received_reset) for hand-written futures. Only the last task that polled, or that read,
    /// is woken.
    pub fn poll_received_reset(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<u64>, ConnectionError>> {
        match self.end {
            End::Open => {}
            End::Finished | End::Stopped => return Poll::Ready(Ok(None)),
            End::Reset(code) => return Poll::Ready(Ok(Some(code))),
        }
        let mut state = self.connection.lock();
        match state.machine.streams().await_reset(self.id) {
            Ok(Some(code)) => {
                self.end = End::Reset(code);
                forget_reset(&self.connection, state, self.id, code);
                Poll::Ready(Ok(Some(code)))
            }
            Ok(None) => Poll::Ready(Ok(None)),
            Err(_) => {
                state.check()?;
                state.wait_to_read(self.id, cx);
                Poll::Pending
            }
        }
    }

    /// Asks the peer to stop sending, and states why (STOP_SENDING, RFC 9000 section 3.5); what is unread is thrown
    /// away.
    ///
    /// # Errors
    ///
    /// [`ClosedStream`] if the end was read or `stop` was called before.
    pub fn stop(&mut self, code: u64) -> Result<(), ClosedStream> {
        if self.end != End::Open {
            return Err(ClosedStream);
        }
        self.end = End::Stopped;
        let mut state = self.connection.lock();
        let result = state.machine.streams().stop(self.id, code);
        if result.is_ok() {
            state.log.stopped(self.id, code, true);
        }
        self.connection.unlock_and_drive(state);
        result.map_err(|_| ClosedStream)
    }
}

/// A reset was reported to the application: as after the end, the peer may open another stream in place of this one.
fn forget_reset(connection: &ConnectionRef, mut state: MutexGuard<'_, State>, id: StreamId, code: u64) {
    state.log.reset(id, code, false);
    if state.error.is_none() && state.machine.streams().can_send_control() {
        connection.unlock_and_drive(state);
    }
}

impl Drop for RecvStream {
    fn drop(&mut self) {
        let mut state = self.connection.lock();
        state.waiting.readers.remove(&self.id);
        if self.end != End::Open || state.error.is_some() {
            return;
        }
        // Fails if the stream is over already, which is as good.
        if state.machine.streams().stop(self.id, 0).is_ok() {
            state.log.stopped(self.id, 0, true);
        }
        self.connection.unlock_and_drive(state);
    }
}

impl AsyncRead for RecvStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let count = ready!(Self::poll_read(self.get_mut(), cx, buffer.initialize_unfilled()))?.unwrap_or(0);
        buffer.advance(count);
        Poll::Ready(Ok(()))
    }
}
