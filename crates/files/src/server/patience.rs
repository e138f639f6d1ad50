//! The timeout of clients that read nothing.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::memory::Memory;

/// Longest time in which a client that has asked for something takes none of it, where no idle timeout of the transport
/// is shorter. It outlasts most failures of a network, and memory comes back from clients that play dead.
pub(super) const PATIENCE: Duration = Duration::from_secs(300);

/// A stream whose writes fail when they have waited for [`PATIENCE`], and which reads nothing while the server has no
/// room for what may come: requests over HTTP/2 begin by themselves.
pub(super) struct Patient<S> {
    stream: S,
    /// Runs while a write waits.
    deadline: Option<Pin<Box<Sleep>>>,
    memory: Arc<Memory>,
    /// Runs while a read waits for room.
    room: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl<S> Patient<S> {
    pub(super) fn new(stream: S, memory: Arc<Memory>) -> Self {
        Self { stream, deadline: None, memory, room: None }
    }

    /// Ready when there is room for what may be read.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.room.is_none() && !self.memory.has_room() {
            let memory = Arc::clone(&self.memory);
            self.room = Some(Box::pin(async move { memory.room().await }));
        }
        if let Some(room) = &mut self.room {
            ready!(room.as_mut().poll(cx));
            self.room = None;
        }
        Poll::Ready(())
    }

    fn check<T>(&mut self, cx: &mut Context<'_>, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.deadline = None;
            return result;
        }
        let deadline =
            self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + PATIENCE)));
        match deadline.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes nothing"))),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.stream).poll_write(cx, data);
        this.check(cx, result)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.stream).poll_write_vectored(cx, data);
        this.check(cx, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.stream).poll_flush(cx);
        this.check(cx, result)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.stream).poll_shutdown(cx);
        this.check(cx, result)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_room(cx));
        Pin::new(&mut this.stream).poll_read(cx, buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::LEAST;
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_is_given_up_and_a_slow_one_is_not() {
        let (ours, mut theirs) = tokio::io::duplex(1000);
        let memory = Memory::new(LEAST, Duration::from_secs(30));
        let mut ours = Patient::new(ours, memory);
        let began = Instant::now();
        let reading = async {
            let mut buffer = [0; 1000];
            for _ in 0..5 {
                tokio::time::sleep(PATIENCE / 2).await;
                theirs.read_exact(&mut buffer).await.unwrap();
            }
        };
        let (result, ()) = tokio::join!(ours.write_all(&[0; 7000]), reading);
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed().as_secs(), PATIENCE.as_secs() * 7 / 2);
    }
}
