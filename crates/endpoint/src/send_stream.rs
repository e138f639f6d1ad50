//! The sending side of a stream.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use thalweg_proto::{
    PinError,
    streams::{StreamId, WriteError as Refusal},
};
use thalweg_recovery::DataSpace;
use tokio::io::AsyncWrite;

use crate::{
    cell::ConnectionRef,
    error::{ClosedStream, ConnectionError, WriteError},
};

/// The sending side of a stream.
///
/// Everything that waits is cancel-safe: a future dropped before it was ready has written nothing, except
/// [`write_all`](Self::write_all) and [`write_all_chunks`](Self::write_all_chunks), which say how far they came only by
/// finishing.
///
/// # Dropping
///
/// A stream that is dropped before [`finish`](Self::finish) was **not** completely sent, and the peer must not take
/// it for complete: it is reset with code 0. After `finish` it may be dropped; its data goes on being delivered.
#[derive(Debug)]
pub struct SendStream {
    connection: ConnectionRef,
    id: StreamId,
    /// Finished or reset by us: nothing to do on drop.
    ended: bool,
}

impl SendStream {
    pub(crate) fn new(connection: ConnectionRef, id: StreamId) -> Self {
        Self { connection, id, ended: false }
    }

    /// Which stream this is.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Writes some of `data`, at least one byte unless it is empty, and returns how many.
    ///
    /// Waits while flow control or the send buffer has no room. Cancel-safe: nothing is written unless it returns.
    pub async fn write(&mut self, data: &[u8]) -> Result<usize, WriteError> {
        poll_fn(|cx| self.poll_write(cx, data)).await
    }

    /// Writes all of `data`.
    ///
    /// Not cancel-safe: when dropped, an unknown part of `data` is written.
    pub async fn write_all(&mut self, mut data: &[u8]) -> Result<(), WriteError> {
        while !data.is_empty() {
            let written = self.write(data).await?;
            data = data.get(written..).unwrap_or_default();
        }
        Ok(())
    }

    /// Writes the front of `chunk` without copying it, as much as there is room for, and returns the number of bytes.
    ///
    /// `chunk` is advanced past what was written. The fastest way to send: hand over 64 KiB to 1 MiB at a time.
    /// Cancel-safe: `chunk` is unchanged unless it returns.
    pub async fn write_chunk(&mut self, chunk: &mut Bytes) -> Result<usize, WriteError> {
        poll_fn(|cx| self.poll_write_chunk(cx, chunk)).await
    }

    /// Writes all of `chunks` without copying. Cancel-safe in that each chunk is advanced past what was written.
    pub async fn write_all_chunks(&mut self, chunks: &mut [Bytes]) -> Result<(), WriteError> {
        for chunk in chunks {
            while !chunk.is_empty() {
                self.write_chunk(chunk).await?;
            }
        }
        Ok(())
    }

    /// [`write`](Self::write) for hand-written futures. Only the last task that polled is woken.
    pub fn poll_write(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<Result<usize, WriteError>> {
        if data.is_empty() {
            return Poll::Ready(Ok(0));
        }
        self.poll_with(cx, |streams, id| streams.write(id, data))
    }

    /// [`write_chunk`](Self::write_chunk) for hand-written futures. Only the last task that polled is woken.
    pub fn poll_write_chunk(&mut self, cx: &mut Context<'_>, chunk: &mut Bytes) -> Poll<Result<usize, WriteError>> {
        if chunk.is_empty() {
            return Poll::Ready(Ok(0));
        }
        self.poll_with(cx, |streams, id| streams.write_chunk(id, chunk))
    }

    /// Waits until a write of `wanted` bytes, or of fewer that are still worth one, would be taken at once, and returns
    /// how many bytes: for applications that make, or read, what they write only when it can leave. Cancel-safe.
    ///
    /// Another stream of the connection may take the room first; then the write waits as usual.
    pub async fn capacity(&mut self, wanted: usize) -> Result<usize, WriteError> {
        poll_fn(|cx| self.poll_capacity(cx, wanted)).await
    }

    /// [`capacity`](Self::capacity) for hand-written futures. Only the last task that polled is woken.
    pub fn poll_capacity(&mut self, cx: &mut Context<'_>, wanted: usize) -> Poll<Result<usize, WriteError>> {
        if self.ended {
            return Poll::Ready(Err(WriteError::ClosedStream));
        }
        self.connection.poll_capacity(cx, self.id, wanted)
    }

    fn poll_with(
        &mut self,
        cx: &mut Context<'_>,
        write: impl FnOnce(&mut thalweg_proto::streams::Streams, StreamId) -> Result<usize, Refusal>,
    ) -> Poll<Result<usize, WriteError>> {
        if self.ended {
            return Poll::Ready(Err(WriteError::ClosedStream));
        }
        let mut state = self.connection.lock();
        state.check()?;
        match write(state.machine.streams(), self.id) {
            Ok(written) if written > 0 => {
                self.connection.unlock_and_drive(state);
                Poll::Ready(Ok(written))
            }
            result => {
                let refusal = result.err().unwrap_or(Refusal::Blocked);
                let answer = state.write_refused(cx, self.id, refusal).map(Err);
                self.connection.unlock_refused(state);
                answer
            }
        }
    }

    /// Says that nothing more will be written. What was written before goes on being delivered.
    ///
    /// To learn that all of it arrived, wait for [`stopped`](Self::stopped).
    ///
    /// # Errors
    ///
    /// [`ClosedStream`] if the stream was finished or reset before.
    pub fn finish(&mut self) -> Result<(), ClosedStream> {
        if std::mem::replace(&mut self.ended, true) {
            return Err(ClosedStream);
        }
        let mut state = self.connection.lock();
        let result = state.machine.streams().finish(self.id);
        // STOP_SENDING by the peer ends the stream too, and `stopped` reports it.
        let stopped = state.waiting.senders.get(&self.id).is_some_and(|sender| sender.stopped.is_some());
        self.connection.unlock_and_drive(state);
        if stopped { Ok(()) } else { result.map_err(|_| ClosedStream) }
    }

    /// Abandons the stream: what was not delivered yet will not be (RESET_STREAM, RFC 9000 section 3.5).
    ///
    /// `code` is the reason for the peer; its meaning is the application's. After [`finish`](Self::finish) this still
    /// withdraws what was not delivered.
    ///
    /// # Errors
    ///
    /// [`ClosedStream`] if the stream was reset before or everything is delivered.
    pub fn reset(&mut self, code: u64) -> Result<(), ClosedStream> {
        self.ended = true;
        let mut state = self.connection.lock();
        let result = state.machine.streams().reset(self.id, code);
        if result.is_ok() {
            state.log.reset(self.id, code, true);
        }
        self.connection.unlock_and_drive(state);
        result.map_err(|_| ClosedStream)
    }

    /// Waits for the stream's fate: `None` once everything up to [`finish`](Self::finish) was acknowledged, or the
    /// peer's code once it has asked to stop.
    ///
    /// Cancel-safe. Acknowledged means that the peer's transport has it, not that its application has read it.
    ///
    /// # Errors
    ///
    /// The reason the connection was lost, if that came first.
    pub async fn stopped(&self) -> Result<Option<u64>, ConnectionError> {
        poll_fn(|cx| self.poll_stopped(cx)).await
    }

    /// [`stopped`](Self::stopped) for hand-written futures.
    pub fn poll_stopped(&self, cx: &mut Context<'_>) -> Poll<Result<Option<u64>, ConnectionError>> {
        let mut state = self.connection.lock();
        let sender = state.waiting.senders.entry(self.id).or_default();
        if let Some(code) = sender.stopped {
            return Poll::Ready(Ok(Some(code)));
        }
        if sender.finished {
            return Poll::Ready(Ok(None));
        }
        state.check()?;
        state.waiting.senders.entry(self.id).or_default().fate.register(cx.waker());
        Poll::Pending
    }

    /// How urgent this stream is; see [`set_priority`](Self::set_priority).
    ///
    /// # Errors
    ///
    /// [`ClosedStream`] if the stream is over.
    pub fn priority(&self) -> Result<i32, ClosedStream> {
        self.connection.lock().machine.streams().priority(self.id).ok_or(ClosedStream)
    }

    /// Sets how urgent this stream is; higher goes first, 0 is the start. Streams of equal priority take turns.
    ///
    /// # Errors
    ///
    /// [`ClosedStream`] if the stream is over.
    pub fn set_priority(&self, priority: i32) -> Result<(), ClosedStream> {
        let mut state = self.connection.lock();
        state.machine.streams().set_priority(self.id, priority).map_err(|_| ClosedStream)
    }

    /// Has the stream leave on one of several paths from now on, or on any again (`None`, as at the start).
    ///
    /// While that path does not answer and another one does, and once it is gone, the stream leaves on the others: it
    /// is delivered whatever becomes of the path. What has left already stays where it is, and what is lost of it
    /// leaves again on the path. Only what this end sends is pinned; the peer decides for its own direction.
    ///
    /// # Errors
    ///
    /// [`PinError::NoSuchPath`] if no path of this identifier is open, [`PinError::ClosedStream`] if the stream is
    /// over.
    pub fn set_path(&self, path: Option<DataSpace>) -> Result<(), PinError> {
        let mut state = self.connection.lock();
        let result = state.machine.pin_stream(self.id, path);
        self.connection.unlock_and_drive(state);
        result
    }
}

impl Drop for SendStream {
    fn drop(&mut self) {
        let mut state = self.connection.lock();
        state.waiting.senders.remove(&self.id);
        if self.ended || state.error.is_some() {
            return;
        }
        // Fails if the stream is over already, which is as good.
        if state.machine.streams().reset(self.id, 0).is_ok() {
            state.log.reset(self.id, 0, true);
        }
        self.connection.unlock_and_drive(state);
    }
}

impl AsyncWrite for SendStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(ready!(Self::poll_write(self.get_mut(), cx, data))?))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let stream = self.get_mut();
        if !stream.ended {
            stream.finish()?;
        }
        Poll::Ready(Ok(()))
    }
}
