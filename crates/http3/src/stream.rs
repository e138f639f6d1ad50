//! The streams of `h3`'s traits.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use h3::error::Code;
use h3::quic::{self, StreamErrorIncoming, StreamId, WriteBuf};

use crate::error;
use crate::guard::{Guard, Held, MalformedMessage, Refused};
use crate::message::MessageKind;

/// Bytes handed to the transport at once. `h3` hides a frame's payload behind [`Buf`], so it has to be copied; copying
/// header and payload together into one piece keeps the small header from travelling in a packet of its own.
const WRITE: usize = 64 * 1024;

/// Most bytes asked of the transport at once; it returns what it has.
const READ: usize = 1024 * 1024;

fn id(id: thalweg::StreamId) -> StreamId {
    // Both types hold a varint (RFC 9000 section 2.1) and nothing else, so this cannot fail.
    StreamId::try_from(u64::from(id)).expect("a stream ID is a varint")
}

/// The sending side of a stream.
pub struct SendStream<B> {
    stream: thalweg::SendStream,
    /// Copied out of `frame`, not yet taken by the transport.
    piece: Bytes,
    frame: Option<WriteBuf<B>>,
    ended: bool,
    /// Finishing waits until everything is acknowledged.
    thorough: bool,
}

impl<B: Buf> SendStream<B> {
    pub(crate) fn opened(stream: thalweg::SendStream) -> Self {
        Self::new(stream, false)
    }

    fn new(stream: thalweg::SendStream, thorough: bool) -> Self {
        Self { stream, piece: Bytes::new(), frame: None, ended: false, thorough }
    }
}

impl<B> std::fmt::Debug for SendStream<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SendStream").field("stream", &self.stream).finish_non_exhaustive()
    }
}

impl<B> Drop for SendStream<B> {
    fn drop(&mut self) {
        if !self.ended {
            // Fails when the stream is over, which is as good.
            let _ = self.stream.reset(Code::H3_REQUEST_CANCELLED.value());
        }
    }
}

impl<B: Buf> quic::SendStream<B> for SendStream<B> {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        loop {
            while !self.piece.is_empty() {
                ready!(self.stream.poll_write_chunk(cx, &mut self.piece)).map_err(error::write)?;
            }
            match &mut self.frame {
                Some(frame) if frame.has_remaining() => {
                    // No more than the transport takes: what waits for credit is not copied.
                    let size = frame.remaining().min(WRITE);
                    let size = ready!(self.stream.poll_capacity(cx, size)).map_err(error::write)?;
                    self.piece = frame.copy_to_bytes(size);
                }
                _ => {
                    self.frame = None;
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }

    fn send_data<T: Into<WriteBuf<B>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        if self.frame.is_some() || !self.piece.is_empty() {
            return Err(StreamErrorIncoming::ConnectionErrorIncoming {
                connection_error: quic::ConnectionErrorIncoming::InternalError(
                    "send_data was called before poll_ready said that the last frame is written".into(),
                ),
            });
        }
        self.frame = Some(data.into());
        Ok(())
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        if !self.ended {
            ready!(self.poll_ready(cx))?;
            self.ended = true;
            self.stream.finish().map_err(|closed| StreamErrorIncoming::Unknown(Box::new(closed)))?;
        }
        match self.stream.poll_stopped(cx) {
            Poll::Ready(Ok(None)) => Poll::Ready(Ok(())),
            // The peer wants no more, which is no error (RFC 9114 section 4.1).
            Poll::Ready(Ok(Some(code))) if !self.thorough && code == Code::H3_NO_ERROR.value() => Poll::Ready(Ok(())),
            // The end of a stream that was stopped before is no end, which the transport leaves to this to say.
            Poll::Ready(Ok(Some(error_code))) => Poll::Ready(Err(StreamErrorIncoming::StreamTerminated { error_code })),
            Poll::Ready(Err(lost)) if self.thorough => Poll::Ready(Err(error::stream(lost))),
            Poll::Pending if self.thorough => Poll::Pending,
            Poll::Ready(Err(_)) | Poll::Pending => Poll::Ready(Ok(())),
        }
    }

    fn reset(&mut self, reset_code: u64) {
        self.ended = true;
        self.piece = Bytes::new();
        self.frame = None;
        // Fails when everything is delivered, which is as good.
        let _ = self.stream.reset(reset_code);
    }

    fn send_id(&self) -> StreamId {
        id(self.stream.id())
    }
}

impl<B: Buf> quic::SendStreamUnframed<B> for SendStream<B> {
    fn poll_send<D: Buf>(&mut self, cx: &mut Context<'_>, buf: &mut D) -> Poll<Result<usize, StreamErrorIncoming>> {
        ready!(quic::SendStream::<B>::poll_ready(self, cx))?;
        let written = ready!(self.stream.poll_write(cx, buf.chunk())).map_err(error::write)?;
        buf.advance(written);
        Poll::Ready(Ok(written))
    }
}

/// The receiving side of a stream.
#[derive(Debug)]
pub struct RecvStream {
    stream: thalweg::RecvStream,
    connection: thalweg::Connection,
    guard: Guard,
    /// Seen by the guard and not yet handed on: two pieces at most.
    passed: VecDeque<Bytes>,
    malformed: Option<MalformedMessage>,
}

impl RecvStream {
    pub(crate) fn uni(stream: thalweg::RecvStream, connection: &thalweg::Connection, held: &Held) -> Self {
        Self::new(stream, connection, Guard::uni(held))
    }

    fn new(stream: thalweg::RecvStream, connection: &thalweg::Connection, guard: Guard) -> Self {
        Self { stream, connection: connection.clone(), guard, passed: VecDeque::new(), malformed: None }
    }

    /// Closes the connection for what cannot be limited to this stream.
    fn close(&self, code: Code, error: Refused) -> StreamErrorIncoming {
        self.connection.close(code.value(), error.to_string().as_bytes());
        StreamErrorIncoming::ConnectionErrorIncoming {
            connection_error: quic::ConnectionErrorIncoming::Undefined(Arc::new(error)),
        }
    }

    /// A stream error of type H3_MESSAGE_ERROR (RFC 9114 section 4.1.2).
    fn refuse(&mut self, malformed: MalformedMessage) -> StreamErrorIncoming {
        self.malformed = Some(malformed);
        // Fails when the stream is over, which is as good.
        let _ = self.stream.stop(Code::H3_MESSAGE_ERROR.value());
        StreamErrorIncoming::Unknown(Box::new(malformed))
    }
}

impl Drop for RecvStream {
    fn drop(&mut self) {
        // Fails when the stream was read to its end, which is as good.
        let _ = self.stream.stop(Code::H3_REQUEST_CANCELLED.value());
    }
}

impl quic::RecvStream for RecvStream {
    type Buf = Bytes;

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        loop {
            if let Some(passed) = self.passed.pop_front() {
                return Poll::Ready(Ok(Some(passed)));
            }
            if let Some(malformed) = self.malformed {
                return Poll::Ready(Err(StreamErrorIncoming::Unknown(Box::new(malformed))));
            }
            let data = ready!(self.stream.poll_read_chunk(cx, READ)).map_err(error::read)?;
            let Some(data) = data else {
                return Poll::Ready(self.guard.end().map_err(|malformed| self.refuse(malformed)));
            };
            match self.guard.see(data) {
                Ok(passed) => self.passed.extend(passed.held.into_iter().chain(passed.rest)),
                Err(Refused::Malformed(malformed)) => return Poll::Ready(Err(self.refuse(malformed))),
                Err(error @ (Refused::TooLong(_) | Refused::TooMuch)) => {
                    return Poll::Ready(Err(self.close(Code::H3_EXCESSIVE_LOAD, error)));
                }
                Err(error @ Refused::Undecodable(_)) => {
                    return Poll::Ready(Err(self.close(Code::QPACK_DECOMPRESSION_FAILED, error)));
                }
            }
        }
    }

    fn stop_sending(&mut self, error_code: u64) {
        let _ = self.stream.stop(error_code);
    }

    fn recv_id(&self) -> StreamId {
        id(self.stream.id())
    }
}

/// Both sides of a stream.
#[derive(Debug)]
pub struct BidiStream<B> {
    send: SendStream<B>,
    recv: RecvStream,
}

impl<B: Buf> BidiStream<B> {
    pub(crate) fn opened(
        (send, recv): (thalweg::SendStream, thalweg::RecvStream),
        connection: &thalweg::Connection,
        held: &Held,
    ) -> Self {
        Self {
            send: SendStream::new(send, false),
            recv: RecvStream::new(recv, connection, Guard::bidi(MessageKind::Response, held)),
        }
    }

    pub(crate) fn accepted(
        (send, recv): (thalweg::SendStream, thalweg::RecvStream),
        connection: &thalweg::Connection,
        held: &Held,
    ) -> Self {
        Self {
            send: SendStream::new(send, true),
            recv: RecvStream::new(recv, connection, Guard::bidi(MessageKind::Request, held)),
        }
    }
}

impl<B: Buf> quic::BidiStream<B> for BidiStream<B> {
    type SendStream = SendStream<B>;
    type RecvStream = RecvStream;

    fn split(self) -> (SendStream<B>, RecvStream) {
        (self.send, self.recv)
    }
}

impl<B: Buf> quic::SendStream<B> for BidiStream<B> {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_ready(cx)
    }

    fn send_data<T: Into<WriteBuf<B>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        self.send.send_data(data)
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_finish(cx)
    }

    fn reset(&mut self, reset_code: u64) {
        self.send.reset(reset_code);
    }

    fn send_id(&self) -> StreamId {
        self.send.send_id()
    }
}

impl<B: Buf> quic::SendStreamUnframed<B> for BidiStream<B> {
    fn poll_send<D: Buf>(&mut self, cx: &mut Context<'_>, buf: &mut D) -> Poll<Result<usize, StreamErrorIncoming>> {
        self.send.poll_send(cx, buf)
    }
}

impl<B: Buf> quic::RecvStream for BidiStream<B> {
    type Buf = Bytes;

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        let result = self.recv.poll_data(cx);
        if let (Poll::Ready(Err(_)), Some(_)) = (&result, &self.recv.malformed) {
            quic::SendStream::<B>::reset(&mut self.send, Code::H3_MESSAGE_ERROR.value());
        }
        result
    }

    fn stop_sending(&mut self, error_code: u64) {
        self.recv.stop_sending(error_code);
    }

    fn recv_id(&self) -> StreamId {
        self.recv.recv_id()
    }
}
