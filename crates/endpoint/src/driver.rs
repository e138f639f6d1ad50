//! The task that moves datagrams between the sockets and the connections of one worker.
//!
//! A turn: take what the application and the other workers left, receive one batch and hand each datagram to its
//! connection (decrypted in place), let due timers run, then let every connection that has something to say send, each
//! a bounded amount before the next one's turn. Acknowledgements are written once per batch. When nothing is left the
//! task sleeps until a socket, the inbox or the earliest deadline wakes it.

mod arrival;
mod outlets;

use std::{
    collections::VecDeque,
    future::Future,
    io,
    pin::Pin,
    sync::{Arc, MutexGuard, atomic::Ordering},
    task::{Context, Poll, Waker},
};

use thalweg_proto::{
    endpoint::{ConnectionHandle, Route},
    error::ConnectionError,
    udp::Transmit,
};
use thalweg_units::{Duration, Instant};

use self::outlets::Outlets;
use crate::{
    alarm::Alarm,
    cell::{Cell, Rejection, State, wake_all},
    clock::Clock,
    incoming::Incoming,
    receive::ReceiveBuffers,
    shared::Shared,
    socket::Socket,
    timers::Timers,
    worker::{Core, Delivery, Worker, count},
};

/// Sends (each a train of up to 64 KiB) that one connection may make before the next one's turn.
const SENDS_PER_TURN: usize = 4;
/// The largest send: a UDP datagram's most, which holds for segmentation offload too.
const TRAIN_MOST: usize = 65_507;
/// How soon a connection looks again for what a socket without room keeps it from sending.
const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// Turns without going back to the runtime, so that other tasks of this thread come to run.
const TURNS_PER_POLL: usize = 8;

/// The task of one worker.
pub(crate) struct Driver {
    shared: Arc<Shared>,
    worker: Arc<Worker>,
    outlets: Outlets,
    receive: ReceiveBuffers,
    timers: Timers,
    alarm: Alarm,
    /// Connections with something to do, in turn.
    ready: VecDeque<Arc<Cell>>,
    delivery: Delivery,
    /// The datagrams being sent.
    transmit: Vec<u8>,
    /// Stateless answers.
    reply: Vec<u8>,
    wakes: Vec<Waker>,
    /// Tasks were woken that had no chance to run yet.
    woke: bool,
    /// They were given that chance before sending.
    deferred: bool,
    /// Seconds since 1970, as of the last batch.
    unix_time: u64,
    /// Connections there is no room for.
    refused: Vec<Incoming>,
}

/// How a connection's turn to send ended.
enum Turn {
    /// It has nothing more to send now.
    Done,
    /// It has, after the others.
    More,
    /// No socket has room.
    Blocked,
}

impl Driver {
    pub(crate) fn new(shared: Arc<Shared>, worker: Arc<Worker>, socket: Arc<Socket>) -> Self {
        let clock = shared.clock;
        Self {
            shared,
            worker,
            outlets: Outlets::new(socket),
            receive: ReceiveBuffers::new(),
            timers: Timers::default(),
            alarm: Alarm::new(clock),
            ready: VecDeque::new(),
            delivery: Delivery::default(),
            transmit: Vec::with_capacity(1 << 16),
            reply: Vec::new(),
            wakes: Vec::new(),
            woke: false,
            deferred: false,
            unix_time: Clock::unix_seconds(),
            refused: Vec::new(),
        }
    }

    /// Takes what the application and the other workers left.
    fn collect(&mut self, now: Instant) {
        let mut delivery = std::mem::take(&mut self.delivery);
        self.worker.collect(&mut delivery);
        self.ready.extend(delivery.dirty.drain(..));
        if let Some(socket) = delivery.socket.take() {
            self.change_socket(socket, now);
        }
        self.collect_sockets();
        if !delivery.forwarded.is_empty() {
            let worker = self.worker.clone();
            let mut core = worker.core();
            for mut forwarded in delivery.forwarded.drain(..) {
                self.handle(&mut core, now, &forwarded.meta, forwarded.stride, &mut forwarded.bytes, false);
            }
        }
        self.delivery = delivery;
        self.settle();
    }

    /// Takes the sockets that were added.
    fn collect_sockets(&mut self) {
        if self.worker.has_sockets() {
            for (local, socket) in self.worker.added_sockets() {
                self.outlets.add(local, socket);
            }
        }
    }

    /// Goes on with another socket: every connection has to show itself at its peer from there.
    fn change_socket(&mut self, socket: Arc<Socket>, now: Instant) {
        self.outlets.replace(socket);
        let worker = self.worker.clone();
        let core = worker.core();
        for cell in core.cells() {
            let mut state = cell.lock();
            state.machine.local_address_changed(now, None);
            if !std::mem::replace(&mut state.queued, true) {
                self.ready.push_back(cell.clone());
            }
        }
    }

    /// Receives a batch from each socket that has one. `Pending`: they are empty and wake the task when they no longer
    /// are.
    fn receive(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut receive = std::mem::take(&mut self.receive);
        let mut result = Poll::Pending;
        for position in 0..self.outlets.len() {
            if self.receive_from(cx, position, &mut receive).is_ready() {
                result = Poll::Ready(());
            }
        }
        self.receive = receive;
        result
    }

    fn receive_from(&mut self, cx: &mut Context<'_>, position: usize, receive: &mut ReceiveBuffers) -> Poll<()> {
        loop {
            let Some(socket) = self.outlets.socket(position) else { return Poll::Pending };
            match socket.poll_readable(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(_)) => return Poll::Pending,
                Poll::Ready(Ok(())) => {}
            }
            match receive.fill(socket) {
                Ok(0) => {}
                Ok(_) => {
                    self.handle_batch(receive);
                    return Poll::Ready(());
                }
                // The next look at readiness registers the task.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // An ICMP error that the system reports on the socket concerns a datagram that was sent, and recovery
                // deals with its loss. Not in this loop, lest an error that stays keeps the thread.
                Err(_) => return Poll::Ready(()),
            }
        }
    }

    fn handle_batch(&mut self, receive: &mut ReceiveBuffers) {
        let now = self.shared.clock.now();
        let worker = self.worker.clone();
        let mut core = worker.core();
        let (mut datagrams, mut bytes) = (0, 0);
        self.unix_time = Clock::unix_seconds();
        for (meta, stride, buffer) in receive.filled() {
            datagrams += buffer.len().div_ceil(stride) as u64;
            bytes += buffer.len() as u64;
            self.handle(&mut core, now, &meta, stride, buffer, true);
        }
        drop(core);
        let counters = &self.worker.counters;
        count(&counters.receive_calls, 1);
        count(&counters.datagrams_received, datagrams);
        count(&counters.bytes_received, bytes);
        self.settle();
    }

    /// What had to wait until no lock was held.
    fn settle(&mut self) {
        self.woke |= !self.wakes.is_empty();
        wake_all(&mut self.wakes);
        // Dropping refuses.
        self.refused.clear();
    }
}

impl Driver {
    /// A connection is over and its peer had time to receive the close.
    fn forget(&mut self, core: &mut Core, key: usize) {
        if core.remove(key).is_some() {
            self.timers.remove(key);
            self.shared.connection_gone();
        }
    }

    /// Lets due timers run.
    fn expire(&mut self, now: Instant) -> bool {
        if self.timers.next().is_none_or(|at| at > now) {
            return false;
        }
        let worker = self.worker.clone();
        let mut core = worker.core();
        while let Some(key) = self.timers.pop(now) {
            let Some(cell) = core.cell(key).cloned() else { continue };
            let mut state = cell.lock();
            if state.linger.is_some_and(|until| until <= now) && state.error.is_none() {
                state.linger = None;
                state.machine.close(now, 0, bytes::Bytes::new());
            }
            if state.machine.poll_timeout().is_some_and(|at| at <= now) {
                state.machine.handle_timeout(now);
            }
            state.collect_events(&self.shared, &mut self.wakes);
            if core.machine.update(ConnectionHandle(key), &mut state.machine) {
                self.forget(&mut core, key);
            } else if !std::mem::replace(&mut state.queued, true) {
                // Its turn to send also sets its next deadline.
                drop(state);
                self.ready.push_back(cell);
            }
        }
        drop(core);
        self.settle();
        true
    }

    /// Gives every connection that is ready one turn. `true`: at least one had a turn.
    fn transmit(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.resume(cx) {
            return false;
        }
        let turns = self.ready.len();
        for _ in 0..turns {
            let Some(cell) = self.ready.pop_front() else { break };
            let turn = self.serve(&cell);
            match turn {
                Turn::Done => {}
                Turn::More => self.queue(cell),
                Turn::Blocked => {
                    // It goes on where it was interrupted; the others keep their order.
                    let mut state = cell.lock();
                    if !std::mem::replace(&mut state.queued, true) {
                        drop(state);
                        self.ready.push_front(cell);
                    }
                    if !self.resume(cx) {
                        break;
                    }
                }
            }
        }
        if self.outlets.any_is_full() {
            self.resume(cx);
        }
        wake_all(&mut self.wakes);
        turns > 0
    }

    /// Puts a connection at the end of the line unless it stands there.
    fn queue(&mut self, cell: Arc<Cell>) {
        let mut state = cell.lock();
        if !std::mem::replace(&mut state.queued, true) {
            drop(state);
            self.ready.push_back(cell);
        }
    }

    /// Sends what sockets had no room for. `false`: none has any; the task is woken when one has.
    fn resume(&mut self, cx: &mut Context<'_>) -> bool {
        let mut has_sent = false;
        while let Some((transmit, mut contents)) = self.outlets.poll_unsent(cx) {
            let bytes = contents.get(..transmit.size).unwrap_or(&contents);
            match self.send(&transmit, bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.outlets.keep(transmit, &mut contents),
                Err(_) | Ok(()) => has_sent = true,
            }
            if self.transmit.capacity() < contents.capacity() {
                self.transmit = contents;
            }
        }
        if has_sent && self.outlets.len() > 1 {
            self.queue_all();
        }
        !self.outlets.all_are_full()
    }

    /// Gives every connection a turn: paths that were held need not be any more.
    fn queue_all(&mut self) {
        let cells: Vec<_> = self.worker.core().cells().cloned().collect();
        cells.into_iter().for_each(|cell| self.queue(cell));
    }

    /// Begins a connection's turn. `false`: it is over, has not begun, or waits for its application.
    fn begin_turn(&mut self, cell: &Arc<Cell>, now: Instant) -> bool {
        let worker = self.worker.clone();
        let mut core = worker.core();
        // It may have been forgotten since it got in line, and its place be another's.
        if !core.cell(cell.key).is_some_and(|known| Arc::ptr_eq(known, cell)) {
            return false;
        }
        let handle = ConnectionHandle(cell.key);
        let mut state = cell.lock();
        state.queued = false;
        if let Some(rejection) = state.rejection.take() {
            drop(state);
            self.turn_away(&mut core, cell.key, rejection);
            return false;
        }
        if state.undecided.is_some() {
            return false;
        }
        state.settle_delivery(now, &mut self.wakes);
        if core.machine.update(handle, &mut state.machine) {
            self.forget(&mut core, cell.key);
            return false;
        }
        if let Some(until) = state.hold.until(now) {
            self.timers.set(cell.key, Some(until));
            return false;
        }
        true
    }

    /// The application does not want a connection.
    fn turn_away(&mut self, core: &mut Core, key: usize, rejection: Rejection) {
        self.reply.clear();
        let answer = match &rejection {
            Rejection::Refuse(Some((meta, datagram))) => core.machine.refuse(meta, datagram, &mut self.reply),
            Rejection::Retry(Some((meta, datagram))) => {
                core.machine.retry(self.unix_time, meta, datagram, &mut self.reply)
            }
            Rejection::Refuse(None) | Rejection::Retry(None) | Rejection::Ignore => Route::Drop,
        };
        if let Route::Reply(transmit) = answer {
            let contents = self.reply.get(..transmit.size).unwrap_or(&self.reply);
            self.send(&transmit, contents).ok();
        }
        core.machine.abandon(ConnectionHandle(key));
        self.forget(core, key);
    }

    /// One connection's turn.
    fn serve(&mut self, cell: &Arc<Cell>) -> Turn {
        let mut now = self.shared.clock.now();
        if !self.begin_turn(cell, now) {
            return Turn::Done;
        }
        let max_segments = self.outlets.max_segments();
        for _ in 0..SENDS_PER_TURN {
            let mut state = cell.lock();
            // A path may have been opened since the inbox was emptied, and has to leave by its socket.
            self.collect_sockets();
            if self.outlets.len() > 1 {
                if self.outlets.all_are_full() {
                    return Turn::Blocked;
                }
                state.machine.hold_paths(|local| self.outlets.is_full(local));
            }
            let max_segments = max_segments.min(TRAIN_MOST / usize::from(state.machine.path_mtu()).max(1)).max(1);
            let Some(transmit) = state.machine.poll_transmit(now, max_segments, &mut self.transmit) else {
                self.end_turn(cell, state);
                return Turn::Done;
            };
            drop(state);
            let contents = self.transmit.get(..transmit.size).unwrap_or(&self.transmit);
            match self.send(&transmit, contents) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    count(&self.worker.counters.send_blocked, 1);
                    self.outlets.keep(transmit, &mut self.transmit);
                    if self.outlets.all_are_full() {
                        return Turn::Blocked;
                    }
                }
                // EMSGSIZE is the answer to an MTU probe that is too large; the others are losses like any other.
                Err(_) | Ok(()) => {}
            }
            now = self.shared.clock.now();
        }
        self.end_turn(cell, cell.lock());
        Turn::More
    }

    /// Ends a connection's turn: wakes whom it made room for, sets its timer.
    fn end_turn(&mut self, cell: &Cell, mut state: MutexGuard<'_, State>) {
        state.collect_events(&self.shared, &mut self.wakes);
        let deadline = match (state.machine.poll_timeout(), state.linger) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        drop(state);
        // What is due on a path that is held stays due.
        let deadline = match self.outlets.any_is_full() {
            true => deadline.map(|at| at.max(self.shared.clock.now() + LOOK_AGAIN)),
            false => deadline,
        };
        self.timers.set(cell.key, deadline);
    }

    /// Sends and counts. Only `WouldBlock` is of interest to the caller.
    fn send(&self, transmit: &Transmit, contents: &[u8]) -> io::Result<()> {
        let result = self.outlets.send(transmit, contents);
        let counters = &self.worker.counters;
        match &result {
            Ok(()) => {
                count(&counters.send_calls, 1);
                count(&counters.bytes_sent, contents.len() as u64);
                let datagrams = transmit.segment.map_or(1, |size| contents.len().div_ceil(size.max(1)));
                count(&counters.datagrams_sent, datagrams as u64);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => count(&counters.send_errors, 1),
        }
        result
    }

    /// Nobody can ask for anything any more, and nothing is left to do.
    fn is_done(&self) -> bool {
        self.shared.handles.load(Ordering::Acquire) == 0 && self.worker.core().is_empty()
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let driver = self.get_mut();
        count(&driver.worker.counters.wakeups, 1);
        for _ in 0..TURNS_PER_POLL {
            let now = driver.shared.clock.now();
            driver.collect(now);
            let received = driver.receive(cx).is_ready();
            let expired = driver.expire(now);
            if std::mem::take(&mut driver.woke) && !std::mem::replace(&mut driver.deferred, true) {
                // Whoever was woken may have an answer, which then shares datagrams with the acknowledgements and with
                // other answers. They stand in line before this task.
                break;
            }
            driver.deferred = false;
            let served = driver.transmit(cx);
            if received || expired || (served && !driver.outlets.all_are_full()) {
                continue;
            }
            if driver.alarm.poll(cx, driver.timers.next()).is_ready() {
                continue;
            }
            if driver.is_done() {
                return Poll::Ready(());
            }
            if driver.worker.sleep(cx.waker()) {
                return Poll::Pending;
            }
        }
        // Others of this thread first.
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for Driver {
    /// The runtime ends, or a bug did: whoever waits for this worker's connections must not wait for ever.
    fn drop(&mut self) {
        let cells = self.worker.core().clear();
        for cell in cells {
            let mut state = cell.lock();
            state.lose(ConnectionError::EndpointClosed, &self.shared, &mut self.wakes);
            drop(state);
            self.shared.connection_gone();
        }
        self.shared.stop_accepting();
        wake_all(&mut self.wakes);
    }
}
