//! A UDP socket that notes what anyone on the path could see: ECN marks, versions, Retry packets.

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll};

use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, Runtime, TokioRuntime, UdpPoller};

/// Counts since the socket was opened.
#[derive(Debug, Default)]
pub struct Seen {
    pub ecn_sent: AtomicU64,
    pub ecn_received: AtomicU64,
    pub retry: AtomicBool,
    pub version: AtomicU32,
}

/// Binds a watched socket.
pub fn bind(address: SocketAddr) -> io::Result<(Arc<dyn AsyncUdpSocket>, Arc<Seen>)> {
    let seen = Arc::new(Seen::default());
    let inner = TokioRuntime.wrap_udp_socket(UdpSocket::bind(address)?)?;
    Ok((Arc::new(Watched { inner, seen: seen.clone() }), seen))
}

#[derive(Debug)]
struct Watched {
    inner: Arc<dyn AsyncUdpSocket>,
    seen: Arc<Seen>,
}

impl AsyncUdpSocket for Watched {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        self.inner.clone().create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit) -> io::Result<()> {
        self.inner.try_send(transmit)?;
        if transmit.ecn.is_some() {
            let segment = transmit.segment_size.unwrap_or(transmit.contents.len()).max(1);
            let datagrams = transmit.contents.len().div_ceil(segment);
            self.seen.ecn_sent.fetch_add(datagrams as u64, Ordering::Relaxed);
        }
        Ok(())
    }

    fn poll_recv(
        &self,
        cx: &mut Context,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let result = self.inner.poll_recv(cx, bufs, meta);
        if let Poll::Ready(Ok(count)) = &result {
            for (buffer, meta) in bufs.iter().zip(meta.iter()).take(*count) {
                let datagrams = buffer[..meta.len].chunks(meta.stride.max(1));
                if meta.ecn.is_some() {
                    self.seen.ecn_received.fetch_add(datagrams.len() as u64, Ordering::Relaxed);
                }
                datagrams.for_each(|datagram| self.look(datagram));
            }
        }
        result
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.inner.max_transmit_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}

impl Watched {
    /// Long headers show their version and, in version 1, a Retry packet has type bits 11.
    fn look(&self, datagram: &[u8]) {
        let [first, version @ ..] = datagram else {
            return;
        };
        let Some(version) = version.first_chunk::<4>() else {
            return;
        };
        if first & 0x80 != 0 {
            self.seen.version.store(u32::from_be_bytes(*version), Ordering::Relaxed);
            if first & 0x30 == 0x30 {
                self.seen.retry.store(true, Ordering::Relaxed);
            }
        }
    }
}
