//! State that all workers and handles of one endpoint share.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    task::Waker,
};

use thalweg_proto::{config, streams::Budget};
use tokio::sync::Notify;

use crate::{
    cell::wake_all,
    clock::Clock,
    config::{ClientConfig, RetryPolicy, ServerConfig, TransportConfig},
    incoming::Incoming,
    socket::Warning,
    wakers::WakerSet,
    worker::Worker,
};

/// Limits that hold for the whole endpoint, whatever the number of workers.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Limits {
    /// Connections at once.
    pub(crate) connections: usize,
    /// Of those, in their handshake.
    pub(crate) handshakes: usize,
    /// Connections that wait for the application to accept them.
    pub(crate) backlog: usize,
}

/// Endpoint-wide state.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) clock: Clock,
    /// Set once, before the drivers start.
    pub(crate) workers: OnceLock<Vec<Arc<Worker>>>,
    /// The key of the connection IDs that encode a worker.
    pub(crate) cid_key: u64,
    pub(crate) limits: Mutex<Limits>,
    /// What all connections may hold of received bytes together.
    pub(crate) budget: Option<Arc<Budget>>,
    /// What all connections may hold of written bytes together.
    pub(crate) send_budget: Arc<Budget>,
    /// Socket buffer bytes to ask for.
    pub(crate) socket_buffer: usize,
    pub(crate) local_addr: Mutex<SocketAddr>,
    pub(crate) warnings: Mutex<Vec<Warning>>,
    pub(crate) accept: Mutex<AcceptQueue>,
    /// There is a server configuration.
    pub(crate) serves: AtomicBool,
    /// No new connections, in either direction.
    pub(crate) closed: AtomicBool,
    /// [`Endpoint`](crate::Endpoint) handles.
    pub(crate) handles: AtomicUsize,
    /// Connections not yet drained.
    pub(crate) connections: AtomicUsize,
    /// Server connections in their handshake.
    pub(crate) handshakes: AtomicUsize,
    pub(crate) accepted: AtomicU64,
    pub(crate) refused: AtomicU64,
    /// Called whenever a connection is forgotten.
    pub(crate) idle: Notify,
}

/// Connections that wait for the application.
#[derive(Debug, Default)]
pub(crate) struct AcceptQueue {
    pub(crate) incoming: VecDeque<Incoming>,
    pub(crate) waiting: WakerSet,
}

impl Shared {
    pub(crate) fn workers(&self) -> &[Arc<Worker>] {
        self.workers.get().map_or(&[], Vec::as_slice)
    }

    /// The queue of connections that wait for the application.
    pub(crate) fn accept_queue(&self) -> MutexGuard<'_, AcceptQueue> {
        self.accept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn limits(&self) -> Limits {
        *self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A server's configuration for one of `workers` workers: the endpoint itself counts connections over all of them.
    pub(crate) fn server_config(&self, config: &ServerConfig, workers: usize) -> Arc<config::ServerConfig> {
        let mut config = config.inner().clone();
        config.transport = self.with_budgets(&config.transport);
        if let RetryPolicy::WhenHandshakesExceed(most) = config.retry {
            config.retry = RetryPolicy::WhenHandshakesExceed(most.div_ceil(workers.max(1)));
        }
        Arc::new(config)
    }

    /// A client's configuration.
    pub(crate) fn client_config(&self, config: &ClientConfig) -> config::ClientConfig {
        let mut config = config.inner().clone();
        config.transport = self.with_budgets(&config.transport);
        config
    }

    /// `transport` with the endpoint's budgets, unless it has its own.
    fn with_budgets(&self, transport: &TransportConfig) -> Arc<TransportConfig> {
        let mut transport = transport.clone();
        let streams = &mut transport.streams;
        streams.budget = streams.budget.take().or_else(|| self.budget.clone());
        streams.send_budget = streams.send_budget.take().or_else(|| Some(self.send_budget.clone()));
        Arc::new(transport)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Takes no more connections and refuses those that wait.
    pub(crate) fn stop_accepting(&self) {
        self.closed.store(true, Ordering::Release);
        let mut wakes: Vec<Waker> = Vec::new();
        let refused = {
            let mut queue = self.accept_queue();
            queue.waiting.take(&mut wakes);
            std::mem::take(&mut queue.incoming)
        };
        // Dropping refuses; not under the queue's lock.
        drop(refused);
        wake_all(&mut wakes);
    }

    /// A connection is forgotten.
    pub(crate) fn connection_gone(&self) {
        self.connections.fetch_sub(1, Ordering::AcqRel);
        self.idle.notify_waiters();
    }

    /// Wakes every driver, to notice that something changed for all.
    pub(crate) fn wake_drivers(&self) {
        for worker in self.workers() {
            worker.wake();
        }
    }
}
