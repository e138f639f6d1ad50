//! A worker, which a driver shares with the application's tasks and the other drivers: its state machine, its table of
//! connections, its inbox.

use std::{
    collections::VecDeque,
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::Waker,
};

use thalweg_proto::{endpoint::Endpoint as Machine, udp::DatagramMeta};

use crate::{cell::Cell, socket::Socket};

/// Buffers that another worker may leave here before it has to drop datagrams.
const FORWARDED_MOST: usize = 256;

/// One worker.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) index: u8,
    core: Mutex<Core>,
    inbox: Mutex<Inbox>,
    /// Whether the inbox has further sockets: they are there before what is to leave by them.
    has_sockets: AtomicBool,
    pub(crate) counters: Counters,
}

/// The endpoint's state machine and its connections. Locked before a connection, never after.
pub(crate) struct Core {
    pub(crate) machine: Machine,
    /// By the number of the machine's handle.
    cells: Vec<Option<Arc<Cell>>>,
    /// How many there are.
    occupied: usize,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core").field("places", &self.cells.len()).finish_non_exhaustive()
    }
}

/// What waits for the driver. The innermost lock.
#[derive(Debug, Default)]
struct Inbox {
    dirty: Vec<Arc<Cell>>,
    forwarded: VecDeque<Forwarded>,
    socket: Option<Arc<Socket>>,
    /// Further sockets, each with its address.
    added: Vec<(IpAddr, Arc<Socket>)>,
    /// Something else changed: look at everything.
    nudged: bool,
    /// Present while the driver sleeps.
    driver: Option<Waker>,
}

/// Datagrams that arrived at another worker's socket.
#[derive(Debug)]
pub(crate) struct Forwarded {
    pub(crate) meta: DatagramMeta,
    /// The size of each datagram but the last.
    pub(crate) stride: usize,
    pub(crate) bytes: Vec<u8>,
}

/// What a driver takes out of its inbox in one go; reused.
#[derive(Debug, Default)]
pub(crate) struct Delivery {
    pub(crate) dirty: Vec<Arc<Cell>>,
    pub(crate) forwarded: VecDeque<Forwarded>,
    pub(crate) socket: Option<Arc<Socket>>,
}

/// Counts, written by the driver only (once per batch), read by anybody.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) datagrams_received: AtomicU64,
    pub(crate) bytes_received: AtomicU64,
    pub(crate) receive_calls: AtomicU64,
    pub(crate) datagrams_sent: AtomicU64,
    pub(crate) bytes_sent: AtomicU64,
    pub(crate) send_calls: AtomicU64,
    pub(crate) send_blocked: AtomicU64,
    pub(crate) send_errors: AtomicU64,
    pub(crate) forwarded: AtomicU64,
    pub(crate) forward_dropped: AtomicU64,
    pub(crate) wakeups: AtomicU64,
}

/// Adds to a counter that only one task writes, without a locked instruction.
pub(crate) fn count(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}

impl Core {
    /// The connection in place `key`.
    pub(crate) fn cell(&self, key: usize) -> Option<&Arc<Cell>> {
        self.cells.get(key).and_then(Option::as_ref)
    }

    /// Puts a connection in its place.
    pub(crate) fn insert(&mut self, cell: Arc<Cell>) {
        let key = cell.key;
        if key >= self.cells.len() {
            self.cells.resize(key + 1, None);
        }
        if let Some(place) = self.cells.get_mut(key)
            && place.replace(cell).is_none()
        {
            self.occupied += 1;
        }
    }

    /// Takes a connection out of its place.
    pub(crate) fn remove(&mut self, key: usize) -> Option<Arc<Cell>> {
        let cell = self.cells.get_mut(key).and_then(Option::take)?;
        self.occupied -= 1;
        Some(cell)
    }

    /// Whether there are no connections.
    pub(crate) fn is_empty(&self) -> bool {
        self.occupied == 0
    }

    /// All connections.
    pub(crate) fn cells(&self) -> impl Iterator<Item = &Arc<Cell>> {
        self.cells.iter().flatten()
    }

    /// Takes all connections out.
    pub(crate) fn clear(&mut self) -> Vec<Arc<Cell>> {
        self.occupied = 0;
        std::mem::take(&mut self.cells).into_iter().flatten().collect()
    }
}

impl Worker {
    pub(crate) fn new(index: u8, machine: Machine) -> Self {
        Self {
            index,
            core: Mutex::new(Core { machine, cells: Vec::new(), occupied: 0 }),
            inbox: Mutex::default(),
            has_sockets: AtomicBool::new(false),
            counters: Counters::default(),
        }
    }

    /// Locks the state machine and the table of connections; never while holding a connection.
    pub(crate) fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the driver look at `cell`. A driver that is awake is not woken: it empties its inbox before it sleeps.
    pub(crate) fn schedule(&self, cell: Arc<Cell>) {
        let mut inbox = self.inbox();
        inbox.dirty.push(cell);
        let driver = inbox.driver.take();
        drop(inbox);
        if let Some(driver) = driver {
            driver.wake();
        }
    }

    /// Hands over datagrams of one of this worker's connections. `false`: the inbox is full, they are lost.
    pub(crate) fn forward(&self, forwarded: Forwarded) -> bool {
        let mut inbox = self.inbox();
        if inbox.forwarded.len() >= FORWARDED_MOST {
            return false;
        }
        inbox.forwarded.push_back(forwarded);
        let driver = inbox.driver.take();
        drop(inbox);
        if let Some(driver) = driver {
            driver.wake();
        }
        true
    }

    /// Has the driver go on with another socket.
    pub(crate) fn replace_socket(&self, socket: Arc<Socket>) {
        self.inbox().socket = Some(socket);
        self.wake();
    }

    /// Has the driver use a further socket for what leaves from `local`.
    pub(crate) fn add_socket(&self, local: IpAddr, socket: Arc<Socket>) {
        self.inbox().added.push((local, socket));
        self.has_sockets.store(true, Ordering::Release);
        self.wake();
    }

    /// Driver: takes the further sockets.
    pub(crate) fn added_sockets(&self) -> Vec<(IpAddr, Arc<Socket>)> {
        match self.has_sockets.swap(false, Ordering::AcqRel) {
            true => std::mem::take(&mut self.inbox().added),
            false => Vec::new(),
        }
    }

    /// Driver: whether there are further sockets to be taken.
    pub(crate) fn has_sockets(&self) -> bool {
        self.has_sockets.load(Ordering::Acquire)
    }

    /// Wakes the driver.
    pub(crate) fn wake(&self) {
        let mut inbox = self.inbox();
        inbox.nudged = true;
        let driver = inbox.driver.take();
        drop(inbox);
        if let Some(driver) = driver {
            driver.wake();
        }
    }

    /// Driver: takes everything out. `delivery` must be empty; its allocations go back into the inbox.
    pub(crate) fn collect(&self, delivery: &mut Delivery) {
        let mut inbox = self.inbox();
        std::mem::swap(&mut inbox.dirty, &mut delivery.dirty);
        std::mem::swap(&mut inbox.forwarded, &mut delivery.forwarded);
        delivery.socket = inbox.socket.take();
        inbox.nudged = false;
    }

    /// Driver: goes to sleep unless something waits. `false`: collect first.
    pub(crate) fn sleep(&self, waker: &Waker) -> bool {
        let mut inbox = self.inbox();
        if inbox.nudged || !inbox.dirty.is_empty() || !inbox.forwarded.is_empty() || inbox.socket.is_some() {
            return false;
        }
        match &mut inbox.driver {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
        true
    }
}
