//! The application's handle of a connection.

mod adjust;

use std::{
    fmt,
    future::{Future, poll_fn},
    net::{IpAddr, SocketAddr},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use rustls_pki_types::CertificateDer;
pub use thalweg_proto::connection::{ConnectionStats, Limits};
use thalweg_proto::{
    Side,
    datagrams::SendDatagramError as Refusal,
    streams::{Dir, StreamId},
    version::Version,
};

use crate::{
    cell::{ConnectionRef, index},
    error::{ConnectionError, ExportError, SendDatagramError, WriteError},
    events::PathEvents,
    hold::Hold,
    recv_stream::RecvStream,
    send_stream::SendStream,
    socket::canonical,
};

/// A connection whose handshake is under way. Await it.
///
/// Dropping it gives the connection up, unless [`into_0rtt`](Self::into_0rtt) made a [`Connection`] of it.
#[derive(Debug)]
#[must_use = "a connection that nobody awaits is closed"]
pub struct Connecting {
    /// Gone once the result was given.
    connection: Option<ConnectionRef>,
}

impl Connecting {
    pub(crate) fn new(connection: Option<ConnectionRef>) -> Self {
        Self { connection }
    }

    /// Uses the connection before its handshake is complete.
    ///
    /// A client can do so when it resumes a session whose server allows 0-RTT: what it writes travels with the first
    /// datagrams. **It can be replayed** by an attacker (RFC 9001 section 9.2): send only what is harmless to do twice.
    /// If the server does not accept it, all of it is sent again by itself once the handshake is complete;
    /// [`ZeroRttAccepted`] reports which it was.
    ///
    /// A server always can: what it writes then may reach a client that has not proven who it is.
    ///
    /// # Errors
    ///
    /// Gives `self` back when there is no usable session: await it.
    pub fn into_0rtt(mut self) -> Result<(Connection, ZeroRttAccepted), Self> {
        let Some(connection) = self.connection.take() else { return Err(self) };
        let early = {
            let state = connection.lock();
            state.error.is_none()
                && (state.connected || state.machine.side() == Side::Server || state.machine.is_early())
        };
        if early {
            let accepted = ZeroRttAccepted { connection: connection.clone() };
            Ok((Connection { connection }, accepted))
        } else {
            self.connection = Some(connection);
            Err(self)
        }
    }

    /// Has the connection send nothing from the end of its handshake on until [`Connection::release`], for `longest` at
    /// most: what the application says first then shares datagrams with the end of the handshake, as with TCP_CORK,
    /// instead of following it in several small ones.
    ///
    /// All else waits as well: acknowledgments, of which those of the handshake have to leave at once (RFC 9000 section
    /// 13.2.1), credit, and HANDSHAKE_DONE. A round trip that the peer measures then is that much longer. So `longest`
    /// should not exceed what the application takes to write its first request or answer: 1 or 2 ms.
    pub fn hold(self, longest: Duration) -> Self {
        if let Some(connection) = &self.connection {
            let mut state = connection.lock();
            if !state.connected {
                state.hold = Hold::AfterHandshake(longest);
            }
        }
        self
    }

    /// Waits until the peer's transport parameters and the application protocol are known, which may be before the
    /// handshake is complete; returns the protocol (ALPN). Cancel-safe.
    ///
    /// # Errors
    ///
    /// The reason the handshake failed.
    pub async fn handshake_data(&mut self) -> Result<Option<Vec<u8>>, ConnectionError> {
        poll_fn(|cx| {
            let Some(connection) = &self.connection else {
                return Poll::Ready(Err(ConnectionError::LocallyClosed));
            };
            let mut state = connection.lock();
            state.check()?;
            let alpn = state.machine.session().alpn().map(<[u8]>::to_vec);
            if state.connected || alpn.is_some() {
                return Poll::Ready(Ok(alpn));
            }
            state.waiting.handshake.register(cx.waker());
            Poll::Pending
        })
        .await
    }

    /// The peer's address; `None` after the handshake's result was given.
    pub fn remote_address(&self) -> Option<SocketAddr> {
        Some(canonical(self.connection.as_ref()?.lock().machine.remote_address()))
    }
}

impl Future for Connecting {
    type Output = Result<Connection, ConnectionError>;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(connection) = self.connection.take() else {
            return Poll::Ready(Err(ConnectionError::LocallyClosed));
        };
        let mut state = connection.lock();
        // A connection that was closed right after its handshake may still have brought something to read.
        if state.connected {
            drop(state);
            return Poll::Ready(Ok(Connection { connection }));
        }
        if let Err(error) = state.check() {
            return Poll::Ready(Err(error));
        }
        state.waiting.handshake.register(cx.waker());
        drop(state);
        self.connection = Some(connection);
        Poll::Pending
    }
}

/// Reports, once the handshake is complete, whether 0-RTT data were accepted. Await it.
#[derive(Debug)]
pub struct ZeroRttAccepted {
    connection: ConnectionRef,
}

impl Future for ZeroRttAccepted {
    type Output = bool;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<bool> {
        let mut state = self.connection.lock();
        if state.connected {
            return Poll::Ready(state.machine.early_data_accepted().unwrap_or(false));
        }
        if state.error.is_some() {
            return Poll::Ready(false);
        }
        state.waiting.handshake.register(cx.waker());
        Poll::Pending
    }
}

/// A QUIC connection. Cheap to clone; clones are the same connection.
///
/// Everything that waits is cancel-safe: a future dropped before it was ready has had no effect.
///
/// # Dropping
///
/// When the last handle is gone (the clones, the streams), the connection is closed with code 0. Streams that were
/// finished before are still delivered, for up to three seconds; use [`graceful_close`](Self::graceful_close) to wait
/// for that and to choose the time.
#[derive(Clone)]
pub struct Connection {
    connection: ConnectionRef,
}

impl Connection {
    pub(crate) fn handle(&self) -> &ConnectionRef {
        &self.connection
    }

    /// Opens a bidirectional stream; waits while the peer allows no more of them. Cancel-safe.
    ///
    /// It reaches the peer with the first data written.
    ///
    /// # Errors
    ///
    /// The reason the connection was lost.
    pub async fn open_bi(&self) -> Result<(SendStream, RecvStream), ConnectionError> {
        poll_fn(|cx| self.poll_open_bi(cx)).await
    }

    /// Opens a unidirectional stream; waits while the peer allows no more of them. Cancel-safe.
    ///
    /// # Errors
    ///
    /// The reason the connection was lost.
    pub async fn open_uni(&self) -> Result<SendStream, ConnectionError> {
        poll_fn(|cx| self.poll_open_uni(cx)).await
    }

    /// Takes the next bidirectional stream that the peer opened. Cancel-safe.
    ///
    /// # Errors
    ///
    /// The reason the connection was lost.
    pub async fn accept_bi(&self) -> Result<(SendStream, RecvStream), ConnectionError> {
        poll_fn(|cx| self.poll_accept_bi(cx)).await
    }

    /// Takes the next unidirectional stream that the peer opened. Cancel-safe.
    ///
    /// # Errors
    ///
    /// The reason the connection was lost.
    pub async fn accept_uni(&self) -> Result<RecvStream, ConnectionError> {
        poll_fn(|cx| self.poll_accept_uni(cx)).await
    }

    /// [`open_bi`](Self::open_bi) for hand-written futures.
    pub fn poll_open_bi(&self, cx: &mut Context<'_>) -> Poll<Result<(SendStream, RecvStream), ConnectionError>> {
        self.poll_open(cx, Dir::Bi).map_ok(|id| self.both(id))
    }

    /// [`open_uni`](Self::open_uni) for hand-written futures.
    pub fn poll_open_uni(&self, cx: &mut Context<'_>) -> Poll<Result<SendStream, ConnectionError>> {
        self.poll_open(cx, Dir::Uni).map_ok(|id| SendStream::new(self.connection.clone(), id))
    }

    /// [`accept_bi`](Self::accept_bi) for hand-written futures.
    pub fn poll_accept_bi(&self, cx: &mut Context<'_>) -> Poll<Result<(SendStream, RecvStream), ConnectionError>> {
        self.poll_accept(cx, Dir::Bi).map_ok(|id| self.both(id))
    }

    /// [`accept_uni`](Self::accept_uni) for hand-written futures.
    pub fn poll_accept_uni(&self, cx: &mut Context<'_>) -> Poll<Result<RecvStream, ConnectionError>> {
        self.poll_accept(cx, Dir::Uni).map_ok(|id| RecvStream::new(self.connection.clone(), id))
    }

    /// [`SendStream::capacity`] for whoever has no hold of the stream itself, because another library wraps it. To be
    /// asked by the task that writes: of the tasks that wait for room in a stream, only the last is woken.
    ///
    /// # Errors
    ///
    /// As a write to the stream.
    pub async fn stream_capacity(&self, stream: StreamId, wanted: usize) -> Result<usize, WriteError> {
        poll_fn(|cx| self.connection.poll_capacity(cx, stream, wanted)).await
    }

    fn both(&self, id: StreamId) -> (SendStream, RecvStream) {
        (SendStream::new(self.connection.clone(), id), RecvStream::new(self.connection.clone(), id))
    }

    fn poll_open(&self, cx: &mut Context<'_>, dir: Dir) -> Poll<Result<StreamId, ConnectionError>> {
        let mut state = self.connection.lock();
        state.check()?;
        if let Some(id) = state.machine.streams().open(dir) {
            state.expect_sender(id);
            return Poll::Ready(Ok(id));
        }
        state.waiting.open[index(dir)].register(cx.waker());
        // STREAMS_BLOCKED reports to the peer that we would like more.
        self.connection.unlock_and_drive(state);
        Poll::Pending
    }

    fn poll_accept(&self, cx: &mut Context<'_>, dir: Dir) -> Poll<Result<StreamId, ConnectionError>> {
        let mut state = self.connection.lock();
        // Streams that arrived before the connection was lost can still be read.
        if let Some(id) = state.machine.streams().accept(dir) {
            if dir == Dir::Bi {
                state.expect_sender(id);
                if let Some(code) = state.machine.streams().stopped(id) {
                    if let Some(sender) = state.waiting.senders.get_mut(&id) {
                        sender.stopped = Some(code);
                    }
                    // Its event is queued only now, and nothing else may ever happen to this connection.
                    self.connection.unlock_and_drive(state);
                }
            }
            return Poll::Ready(Ok(id));
        }
        state.check()?;
        state.waiting.accept[index(dir)].register(cx.waker());
        Poll::Pending
    }

    /// Queues an unreliable datagram (RFC 9221).
    ///
    /// # Errors
    ///
    /// [`SendDatagramError::Blocked`] if the queue is full, [`SendDatagramError::TooLarge`] beyond
    /// [`max_datagram_size`](Self::max_datagram_size).
    pub fn send_datagram(&self, data: Bytes) -> Result<(), SendDatagramError> {
        let mut state = self.connection.lock();
        state.check()?;
        let sent = state.send_datagram(data);
        // One that is too large now has larger ones looked for.
        self.connection.unlock_and_drive(state);
        sent.map_err(refused)
    }

    /// [`send_datagram`](Self::send_datagram) that waits for room in the queue. Cancel-safe.
    ///
    /// # Errors
    ///
    /// As for [`send_datagram`](Self::send_datagram), except `Blocked`.
    pub async fn send_datagram_wait(&self, data: Bytes) -> Result<(), SendDatagramError> {
        poll_fn(|cx| {
            let mut state = self.connection.lock();
            state.check()?;
            let sent = state.send_datagram(data.clone());
            if matches!(sent, Err(Refusal::Blocked)) {
                state.waiting.datagram_room.register(cx.waker());
                return Poll::Pending;
            }
            self.connection.unlock_and_drive(state);
            Poll::Ready(sent.map_err(refused))
        })
        .await
    }

    /// Takes the next unreliable datagram that arrived. Cancel-safe.
    ///
    /// # Errors
    ///
    /// The reason the connection was lost.
    pub async fn read_datagram(&self) -> Result<Bytes, ConnectionError> {
        poll_fn(|cx| self.poll_read_datagram(cx)).await
    }

    /// [`read_datagram`](Self::read_datagram) for hand-written futures.
    pub fn poll_read_datagram(&self, cx: &mut Context<'_>) -> Poll<Result<Bytes, ConnectionError>> {
        let mut state = self.connection.lock();
        if let Some(data) = state.machine.datagrams().recv() {
            return Poll::Ready(Ok(data));
        }
        state.check()?;
        state.waiting.datagram.register(cx.waker());
        Poll::Pending
    }

    /// The largest datagram that can be sent now, bytes; `None` if the peer takes none.
    ///
    /// Grows when path MTU discovery finds room, which is looked for once this is asked, a datagram is sent or as much
    /// data waits as fills a packet. May shrink when the path changes.
    pub fn max_datagram_size(&self) -> Option<usize> {
        let mut state = self.connection.lock();
        let size = state.machine.max_datagram_payload();
        if size.is_some() && state.machine.datagrams().expect() {
            self.connection.unlock_and_drive(state);
        }
        size
    }

    /// Has what [`Connecting::hold`] holds back leave, now or at the end of the handshake. Does nothing otherwise.
    pub fn release(&self) {
        let mut state = self.connection.lock();
        if let Hold::Until(_) = std::mem::take(&mut state.hold) {
            self.connection.unlock_and_drive(state);
        }
    }

    /// Closes at once: what is not delivered yet is lost. The peer sees `code` and `reason`.
    ///
    /// `code` is below 2^62 (larger counts as the largest); its meaning is the application's.
    pub fn close(&self, code: u64, reason: &[u8]) {
        self.connection.close(code, Bytes::copy_from_slice(reason));
    }

    /// Waits until everything finished is acknowledged, but no longer than `timeout`; then closes.
    ///
    /// Returns whether everything was. A stream that was written to and neither finished nor reset counts as
    /// undelivered. Cancel-safe: when dropped early, the connection stays open.
    pub async fn graceful_close(&self, timeout: Duration, code: u64, reason: &[u8]) -> bool {
        let delivered = tokio::time::timeout(timeout, poll_fn(|cx| self.poll_delivered(cx))).await;
        self.close(code, reason);
        delivered.unwrap_or(false)
    }

    fn poll_delivered(&self, cx: &mut Context<'_>) -> Poll<bool> {
        let mut state = self.connection.lock();
        if state.machine.streams().unfinished_sends() == 0 {
            return Poll::Ready(true);
        }
        if state.error.is_some() {
            return Poll::Ready(false);
        }
        state.waiting.delivered.register(cx.waker());
        Poll::Pending
    }

    /// Waits for the end of the connection and returns the reason. Cancel-safe.
    pub async fn closed(&self) -> ConnectionError {
        poll_fn(|cx| {
            let mut state = self.connection.lock();
            match &state.error {
                Some(error) => Poll::Ready(error.clone()),
                None => {
                    state.waiting.closed.register(cx.waker());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Why the connection is over, if it is.
    pub fn close_reason(&self) -> Option<ConnectionError> {
        self.connection.lock().error.clone()
    }

    /// What happens to the path from now on: address changes, MTU, suspension and resumption.
    pub fn path_events(&self) -> PathEvents {
        PathEvents::new(self.connection.lock().subscribe())
    }

    /// Figures so far: packets, bytes, losses, RTT, window.
    pub fn stats(&self) -> ConnectionStats {
        self.connection.lock().machine.stats()
    }

    /// How long each limit has kept this end from sending more: the application, the congestion window, the pacer, the
    /// peer's credit, or the limit before its address is validated. [`Limits::since`] compares with an earlier call.
    pub fn limits(&self) -> Limits {
        let state = self.connection.lock();
        state.machine.limits(self.connection.now())
    }

    /// The smoothed round-trip time.
    pub fn rtt(&self) -> Duration {
        self.connection.lock().machine.rtt()
    }

    /// The peer's address now; it can change when the peer moves (RFC 9000 section 9).
    pub fn remote_address(&self) -> SocketAddr {
        canonical(self.connection.lock().machine.remote_address())
    }

    /// The local address that datagrams of this connection arrive at, where the system reports it.
    pub fn local_ip(&self) -> Option<IpAddr> {
        self.connection.lock().machine.local_ip()
    }

    /// Which end this is.
    pub fn side(&self) -> Side {
        self.connection.lock().machine.side()
    }

    /// The QUIC version in use.
    pub fn version(&self) -> Version {
        self.connection.lock().machine.version()
    }

    /// The application protocol agreed upon (ALPN).
    pub fn alpn(&self) -> Option<Vec<u8>> {
        self.connection.lock().machine.session().alpn().map(<[u8]>::to_vec)
    }

    /// The name the client asked for (SNI).
    pub fn server_name(&self) -> Option<String> {
        self.connection.lock().machine.session().server_name().map(str::to_owned)
    }

    /// Whether an earlier TLS session was resumed.
    pub fn resumed(&self) -> bool {
        self.connection.lock().machine.session().resumed()
    }

    /// The cipher suite's registered name.
    pub fn cipher_suite(&self) -> Option<&'static str> {
        self.connection.lock().machine.session().cipher_suite()
    }

    /// The peer's certificates, its own first.
    pub fn peer_certificates(&self) -> Option<Vec<CertificateDer<'static>>> {
        self.connection.lock().machine.session().peer_certificates()
    }

    /// Fills `out` with secret bytes that only the two ends of this connection can compute (RFC 8446 section 7.5).
    ///
    /// # Errors
    ///
    /// If the handshake is not complete or `out` is too long.
    pub fn export_keying_material(&self, out: &mut [u8], label: &[u8], context: &[u8]) -> Result<(), ExportError> {
        self.connection.lock().machine.session().export(out, label, context).map_err(|_| ExportError)
    }

    /// Changes the packet protection keys as soon as RFC 9001 section 6.1 permits; returns whether that was now.
    pub fn force_key_update(&self) -> bool {
        let mut state = self.connection.lock();
        let updated = state.machine.force_key_update(self.connection.now());
        self.connection.unlock_and_drive(state);
        updated
    }

    /// Sends a PING after this much silence, so that neither end times out; `None` stops that.
    ///
    /// Choose less than half of the smaller idle timeout of both ends.
    pub fn set_keep_alive(&self, interval: Option<Duration>) {
        let mut state = self.connection.lock();
        let now = self.connection.now();
        state.machine.set_keep_alive(now, interval);
        self.connection.unlock_and_drive(state);
    }

    /// Sends a PING, for example to learn soon whether the peer is still there.
    pub fn ping(&self) {
        let mut state = self.connection.lock();
        state.machine.ping();
        self.connection.unlock_and_drive(state);
    }

    /// Has the state machine do something, and what follows from it.
    pub(crate) fn with_machine<T>(
        &self,
        run: impl FnOnce(&mut thalweg_proto::Connection, thalweg_units::Instant) -> T,
    ) -> T {
        let mut state = self.connection.lock();
        let now = self.connection.now();
        let result = run(&mut state.machine, now);
        self.connection.unlock_and_drive(state);
        result
    }

    /// A number that no other connection of this process has while this one lives.
    pub fn stable_id(&self) -> usize {
        std::sync::Arc::as_ptr(&self.connection) as usize
    }

    /// Which of the endpoint's workers drives this connection.
    pub fn worker(&self) -> usize {
        usize::from(self.connection.worker.index)
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.connection.lock();
        f.debug_struct("Connection")
            .field("side", &state.machine.side())
            .field("remote", &canonical(state.machine.remote_address()))
            .field("connected", &state.connected)
            .field("error", &state.error)
            .finish_non_exhaustive()
    }
}

fn refused(refusal: Refusal) -> SendDatagramError {
    match refusal {
        Refusal::Unsupported => SendDatagramError::UnsupportedByPeer,
        Refusal::TooLarge { max } => SendDatagramError::TooLarge(max),
        Refusal::Blocked => SendDatagramError::Blocked,
    }
}
