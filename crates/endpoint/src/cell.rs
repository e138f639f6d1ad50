//! A connection as its driver and the application's handles share it: one lock, the tasks that wait, and the way to
//! wake the driver.

use std::{
    ops::Deref,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering},
    task::{Context, Poll, Waker},
    time::Duration,
};

use rustc_hash::FxHashMap;
use thalweg_proto::{
    connection::{Connection as Machine, Event},
    datagrams::SendDatagramError,
    error::ConnectionError,
    streams::{Dir, StreamEvent, StreamId, WriteError as Refusal},
    udp::DatagramMeta,
};
use thalweg_units::Instant;
use tokio::sync::broadcast;

use crate::{
    error::WriteError,
    events::{PathEvent, path_event},
    hold::Hold,
    shared::Shared,
    trace::Log,
    wakers::WakerSet,
    worker::Worker,
};

/// How long an abandoned connection may go on delivering what its application had finished.
pub(crate) const LINGER: Duration = Duration::from_secs(3);
/// Path events kept for a subscriber that does not read them.
const PATH_EVENTS_KEPT: usize = 64;

/// One connection.
#[derive(Debug)]
pub(crate) struct Cell {
    state: Mutex<State>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) worker: Arc<Worker>,
    /// The place in the worker's table: the number of the state machine's handle.
    pub(crate) key: usize,
}

/// Everything that is under the connection's lock.
pub(crate) struct State {
    /// The state machine.
    pub(crate) machine: Machine,
    /// Why the connection is over, once it is.
    pub(crate) error: Option<ConnectionError>,
    /// The handshake is complete.
    pub(crate) connected: bool,
    /// Counted in the endpoint's number of handshakes under way.
    pub(crate) in_handshake: bool,
    /// The driver knows that it has to look at this connection.
    pub(crate) queued: bool,
    /// Datagrams of a connection that the application has not decided about yet.
    pub(crate) undecided: Option<Vec<(DatagramMeta, Vec<u8>)>>,
    /// The application does not want it: the driver is to act.
    pub(crate) rejection: Option<Rejection>,
    /// All handles are gone; close once what they finished is delivered, at the latest at this time.
    pub(crate) linger: Option<Instant>,
    /// Tasks that wait.
    pub(crate) waiting: Waiting,
    /// How many handles say that the application waits for the peer.
    pub(crate) awaited: usize,
    /// Whether what is to be sent waits for the application.
    pub(crate) hold: Hold,
    path_events: Option<broadcast::Sender<PathEvent>>,
    pub(crate) log: Log,
}

/// What is to become of a connection that the application does not want.
#[derive(Debug)]
pub(crate) enum Rejection {
    /// Answer the datagram that asked for it with CONNECTION_REFUSED.
    Refuse(Option<(DatagramMeta, Vec<u8>)>),
    /// Answer it with a Retry: the client is to come again and prove its address.
    Retry(Option<(DatagramMeta, Vec<u8>)>),
    /// Say nothing.
    Ignore,
}

/// How the application turns a client away.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum TurnAway {
    Refuse,
    Retry,
    Nothing,
}

/// The tasks that wait for something of one connection.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// For the end of the handshake, or for early information from it.
    pub(crate) handshake: WakerSet,
    /// For a stream of each direction that we may open: bidirectional, unidirectional.
    pub(crate) open: [WakerSet; 2],
    /// For a stream that the peer opens.
    pub(crate) accept: [WakerSet; 2],
    /// For received datagrams.
    pub(crate) datagram: WakerSet,
    /// For room in the datagram send queue.
    pub(crate) datagram_room: WakerSet,
    /// For the connection's end.
    pub(crate) closed: WakerSet,
    /// For everything finished to be acknowledged.
    pub(crate) delivered: WakerSet,
    /// Per stream with a send handle.
    pub(crate) senders: FxHashMap<StreamId, Sender>,
    /// Per stream whose reader found nothing.
    pub(crate) readers: FxHashMap<StreamId, Waker>,
}

/// Events from the driver to a stream's send handle.
#[derive(Debug, Default)]
pub(crate) struct Sender {
    /// Waits for room.
    pub(crate) writer: Option<Waker>,
    /// Wait for the stream's fate.
    pub(crate) fate: WakerSet,
    /// Everything up to the FIN was acknowledged.
    pub(crate) finished: bool,
    /// The peer's STOP_SENDING code.
    pub(crate) stopped: Option<u64>,
}

/// Index of a direction in the arrays above.
pub(crate) fn index(dir: Dir) -> usize {
    match dir {
        Dir::Bi => 0,
        Dir::Uni => 1,
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("connected", &self.connected)
            .field("error", &self.error)
            .field("queued", &self.queued)
            .finish_non_exhaustive()
    }
}

impl Cell {
    pub(crate) fn new(
        machine: Machine,
        key: usize,
        worker: Arc<Worker>,
        shared: Arc<Shared>,
        undecided: Option<Vec<(DatagramMeta, Vec<u8>)>>,
    ) -> Arc<Self> {
        let log = Log::new(machine.side(), machine.remote_address());
        Arc::new(Self {
            state: Mutex::new(State {
                machine,
                error: None,
                connected: false,
                in_handshake: false,
                queued: false,
                undecided,
                rejection: None,
                linger: None,
                waiting: Waiting::default(),
                awaited: 0,
                hold: Hold::None,
                path_events: None,
                log,
            }),
            shared,
            worker,
            key,
        })
    }

    /// Locks the connection. A panic elsewhere under this lock does not spread.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The present.
    pub(crate) fn now(&self) -> Instant {
        self.shared.clock.now()
    }

    /// Unlocks, and has the driver send what the change made under the lock calls for.
    pub(crate) fn unlock_and_drive(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        if std::mem::replace(&mut state.queued, true) {
            return;
        }
        drop(state);
        self.worker.schedule(self.clone());
    }

    /// Closes with an application's code.
    pub(crate) fn close(self: &Arc<Self>, code: u64, reason: bytes::Bytes) {
        let mut wakes = Vec::new();
        let mut state = self.lock();
        if state.error.is_some() {
            return;
        }
        if state.undecided.is_some() {
            drop(state);
            return self.turn_away(TurnAway::Refuse);
        }
        let now = self.now();
        state.machine.close(now, code, reason);
        state.lose(ConnectionError::LocallyClosed, &self.shared, &mut wakes);
        self.unlock_and_drive(state);
        wake_all(&mut wakes);
    }

    /// How many of `wanted` bytes a write to a stream would take now, if it is worth it; otherwise waits.
    pub(crate) fn poll_capacity(
        self: &Arc<Self>,
        cx: &mut Context<'_>,
        id: StreamId,
        wanted: usize,
    ) -> Poll<Result<usize, WriteError>> {
        let mut state = self.lock();
        state.check()?;
        match state.machine.streams().capacity(id, wanted) {
            Ok(room) => Poll::Ready(Ok(room)),
            Err(refusal) => {
                let answer = state.write_refused(cx, id, refusal).map(Err);
                self.unlock_refused(state);
                answer
            }
        }
    }

    /// Unlocks after a write that found no room: the stream may have to ask its peer for credit.
    pub(crate) fn unlock_refused(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        if state.machine.streams().can_send_control() {
            self.unlock_and_drive(state);
        }
    }

    /// Ends a connection that the application does not want, or not yet.
    pub(crate) fn turn_away(self: &Arc<Self>, answer: TurnAway) {
        let mut wakes = Vec::new();
        let mut state = self.lock();
        if state.error.is_some() {
            return;
        }
        let first = state.undecided.take().unwrap_or_default().into_iter().next();
        state.rejection = Some(match answer {
            TurnAway::Refuse => {
                self.shared.refused.fetch_add(1, Ordering::Relaxed);
                Rejection::Refuse(first)
            }
            TurnAway::Retry => Rejection::Retry(first),
            TurnAway::Nothing => Rejection::Ignore,
        });
        state.lose(ConnectionError::LocallyClosed, &self.shared, &mut wakes);
        self.unlock_and_drive(state);
        wake_all(&mut wakes);
    }

    /// The last handle is gone.
    fn abandon(self: &Arc<Self>) {
        let mut state = self.lock();
        if state.error.is_some() {
            return;
        }
        state.hold = Hold::None;
        if state.connected && state.machine.streams().unfinished_sends() > 0 {
            state.linger = Some(self.now() + LINGER);
            self.unlock_and_drive(state);
        } else {
            drop(state);
            self.close(0, bytes::Bytes::new());
        }
    }
}

impl State {
    /// Ends the connection for everybody who waits on it.
    pub(crate) fn lose(&mut self, reason: ConnectionError, shared: &Shared, wakes: &mut Vec<Waker>) {
        if self.error.is_some() {
            return;
        }
        self.log.closed(&reason);
        self.error = Some(reason);
        // The peer is told at once.
        self.hold = Hold::None;
        self.leave_handshake(shared);
        let waiting = &mut self.waiting;
        for set in waiting.open.iter_mut().chain(&mut waiting.accept) {
            set.take(wakes);
        }
        for set in [
            &mut waiting.handshake,
            &mut waiting.datagram,
            &mut waiting.datagram_room,
            &mut waiting.closed,
            &mut waiting.delivered,
        ] {
            set.take(wakes);
        }
        for sender in waiting.senders.values_mut() {
            wakes.extend(sender.writer.take());
            sender.fate.take(wakes);
        }
        wakes.extend(waiting.readers.drain().map(|(_, waker)| waker));
        // Dropping the sender ends the subscribers' streams.
        self.path_events = None;
    }

    /// The handshake is over, one way or the other.
    fn leave_handshake(&mut self, shared: &Shared) {
        if std::mem::take(&mut self.in_handshake) {
            shared.handshakes.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Takes the state machine's events and collects the tasks to wake.
    pub(crate) fn collect_events(&mut self, shared: &Shared, wakes: &mut Vec<Waker>) {
        while let Some(event) = self.machine.poll_event() {
            match event {
                Event::Stream(event) => self.stream_event(event, wakes),
                Event::HandshakeDataReady => self.waiting.handshake.take(wakes),
                Event::Connected => {
                    self.connected = true;
                    self.hold.begin(shared.clock.now());
                    self.log.connected();
                    self.leave_handshake(shared);
                    self.waiting.handshake.take(wakes);
                    for set in &mut self.waiting.open {
                        set.take(wakes);
                    }
                }
                Event::ConnectionLost(reason) => self.lose(reason, shared, wakes),
                Event::DatagramReceived => self.waiting.datagram.take(wakes),
                Event::DatagramsUnblocked => self.waiting.datagram_room.take(wakes),
                event => {
                    let Some(event) = path_event(&event) else { continue };
                    self.log.path(&event);
                    if let Some(subscribers) = &self.path_events {
                        // Nobody listening is fine.
                        let _ = subscribers.send(event);
                    }
                }
            }
        }
    }

    /// Acts on everything finished being acknowledged, if somebody waits for that.
    pub(crate) fn settle_delivery(&mut self, now: Instant, wakes: &mut Vec<Waker>) {
        let awaited = self.linger.is_some() || !self.waiting.delivered.is_empty();
        if !awaited || self.machine.streams().unfinished_sends() > 0 {
            return;
        }
        self.waiting.delivered.take(wakes);
        if self.linger.take().is_some() && self.error.is_none() {
            self.machine.close(now, 0, bytes::Bytes::new());
        }
    }

    fn stream_event(&mut self, event: StreamEvent, wakes: &mut Vec<Waker>) {
        match event {
            StreamEvent::Opened { dir } => self.waiting.accept[index(dir)].take(wakes),
            StreamEvent::Available { dir } => self.waiting.open[index(dir)].take(wakes),
            StreamEvent::Readable { id } => wakes.extend(self.waiting.readers.remove(&id)),
            StreamEvent::Writable { id } => {
                if let Some(sender) = self.waiting.senders.get_mut(&id) {
                    wakes.extend(sender.writer.take());
                }
            }
            StreamEvent::Finished { id } => {
                if let Some(sender) = self.waiting.senders.get_mut(&id) {
                    sender.finished = true;
                    sender.fate.take(wakes);
                }
            }
            StreamEvent::Stopped { id, code } => {
                self.log.stopped(id, code, false);
                if let Some(sender) = self.waiting.senders.get_mut(&id) {
                    sender.stopped = Some(code);
                    wakes.extend(sender.writer.take());
                    sender.fate.take(wakes);
                }
            }
        }
    }

    /// What a refused write comes to: waiting for room, or an error.
    pub(crate) fn write_refused(&mut self, cx: &mut Context<'_>, id: StreamId, refusal: Refusal) -> Poll<WriteError> {
        match refusal {
            Refusal::Blocked => {
                // There is an entry as long as the stream has a handle.
                if let Some(sender) = self.waiting.senders.get_mut(&id) {
                    match &mut sender.writer {
                        Some(waker) => waker.clone_from(cx.waker()),
                        none => *none = Some(cx.waker().clone()),
                    }
                }
                Poll::Pending
            }
            Refusal::Stopped(code) => Poll::Ready(WriteError::Stopped(code)),
            Refusal::ClosedStream => {
                // A stream that the peer stopped is forgotten below once the reset is acknowledged.
                let stopped = self.waiting.senders.get(&id).and_then(|sender| sender.stopped);
                Poll::Ready(stopped.map_or(WriteError::ClosedStream, WriteError::Stopped))
            }
        }
    }

    /// Wakes the task when the stream may be read, or was reset.
    pub(crate) fn wait_to_read(&mut self, id: StreamId, cx: &mut Context<'_>) {
        match self.waiting.readers.get_mut(&id) {
            Some(waker) => waker.clone_from(cx.waker()),
            None => {
                self.waiting.readers.insert(id, cx.waker().clone());
            }
        }
    }

    /// Keeps the events for the stream's send handle. Under the lock that opened or accepted the stream, so that
    /// no event is missed.
    pub(crate) fn expect_sender(&mut self, id: StreamId) {
        self.waiting.senders.insert(id, Sender::default());
    }

    /// Queues an unreliable datagram.
    pub(crate) fn send_datagram(&mut self, data: bytes::Bytes) -> Result<(), SendDatagramError> {
        // What fits into a packet, frame header included; the header is three bytes at most for such sizes.
        let room = self.machine.max_datagram_payload().map_or(0, |payload| payload + 3);
        self.machine.datagrams().send(data, room)
    }

    /// Subscribes to what happens to the path; closed at once if the connection is over.
    pub(crate) fn subscribe(&mut self) -> broadcast::Receiver<PathEvent> {
        if self.error.is_some() {
            return broadcast::channel(1).1;
        }
        self.path_events.get_or_insert_with(|| broadcast::channel(PATH_EVENTS_KEPT).0).subscribe()
    }

    /// The reason that the connection is over, as an error to return from an operation.
    pub(crate) fn check(&self) -> Result<(), ConnectionError> {
        match &self.error {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }
}

/// Calls and empties `wakes`; no lock may be held.
pub(crate) fn wake_all(wakes: &mut Vec<Waker>) {
    for waker in wakes.drain(..) {
        waker.wake();
    }
}

/// A handle's share in a connection; when the last one goes, the connection is closed.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionRef(Arc<Share>);

#[derive(Debug)]
struct Share(Arc<Cell>);

impl ConnectionRef {
    pub(crate) fn new(cell: Arc<Cell>) -> Self {
        Self(Arc::new(Share(cell)))
    }
}

impl Deref for ConnectionRef {
    type Target = Arc<Cell>;
    fn deref(&self) -> &Arc<Cell> {
        &self.0.0
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.0.abandon();
    }
}
