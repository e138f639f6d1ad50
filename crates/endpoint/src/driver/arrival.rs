//! From received datagrams to connections: whose each is, which worker's, and what becomes of those that ask for a new
//! one.

use std::sync::atomic::Ordering;

use thalweg_proto::{
    cid::WorkerCid,
    connection::Connection,
    endpoint::{ConnectionHandle, Route, issued_cid, short_header_cid},
    udp::DatagramMeta,
};
use thalweg_units::Instant;

use super::Driver;
use crate::{
    cell::{Cell, ConnectionRef},
    incoming::Incoming,
    worker::{Core, Forwarded, count},
};

/// Datagrams kept of a connection that the application has not decided about; a client's first flight fits.
const UNDECIDED_DATAGRAMS: usize = 10;

impl Driver {
    /// Hands the datagrams in `buffer`, all from one address, to their connections; each connection is locked once for
    /// a run of datagrams.
    pub(super) fn handle(
        &mut self,
        core: &mut Core,
        now: Instant,
        meta: &DatagramMeta,
        stride: usize,
        buffer: &mut [u8],
        may_forward: bool,
    ) {
        let mut rest = buffer;
        // The place of the connection that the front of `rest` belongs to, if that is known already.
        let mut known: Option<usize> = None;
        while !rest.is_empty() {
            let key = match known.take() {
                Some(key) => key,
                None => {
                    if may_forward && let Some(other) = self.owner(rest) {
                        let (run, after) = rest.split_at_mut(self.run_length(rest, stride, other));
                        self.forward(other, meta, stride, run);
                        rest = after;
                        continue;
                    }
                    match self.route(core, now, meta, front(rest, stride)) {
                        Some(key) => key,
                        None => {
                            rest = behind(rest, stride);
                            continue;
                        }
                    }
                }
            };
            let Some(cell) = core.cell(key).cloned() else {
                rest = behind(rest, stride);
                continue;
            };
            let mut guard = cell.lock();
            let state = &mut *guard;
            loop {
                let datagram = front(rest, stride);
                let cid = short_header_cid::<{ WorkerCid::LEN }>(datagram);
                match &mut state.undecided {
                    // A connection that was turned away only waits to be forgotten.
                    None if state.rejection.is_some() => {}
                    None => state.machine.handle_datagram(now, meta, datagram),
                    Some(kept) if kept.len() < UNDECIDED_DATAGRAMS => kept.push((*meta, datagram.to_vec())),
                    Some(_) => {}
                }
                rest = behind(rest, stride);
                if rest.is_empty() {
                    break;
                }
                // Bulk data: the same connection ID leads to the same connection. An endpoint whose IDs have no length
                // has one connection, so it does not matter which bytes are compared.
                if cid.is_some() && short_header_cid(rest) == cid {
                    continue;
                }
                if may_forward && self.owner(rest).is_some() {
                    break;
                }
                match self.route(core, now, meta, front(rest, stride)) {
                    Some(same) if same == key => {}
                    Some(other) => {
                        known = Some(other);
                        break;
                    }
                    None => {
                        rest = behind(rest, stride);
                        break;
                    }
                }
            }
            state.collect_events(&self.shared, &mut self.wakes);
            if core.machine.update(ConnectionHandle(key), &mut state.machine) {
                self.forget(core, key);
            } else if !std::mem::replace(&mut state.queued, true) {
                drop(guard);
                self.ready.push_back(cell);
            }
        }
    }

    /// The other worker that a datagram belongs to, if it is not this one's.
    ///
    /// Initial and 0-RTT packets stay where they arrive: see [`issued_cid`].
    fn owner(&self, datagram: &[u8]) -> Option<u8> {
        let workers = self.shared.workers().len();
        if workers < 2 {
            return None;
        }
        let cid = issued_cid(datagram, WorkerCid::LEN)?;
        let owner = WorkerCid::worker_of(cid, u8::try_from(workers).ok()?, self.shared.cid_key)?;
        (owner != self.worker.index).then_some(owner)
    }

    /// How many bytes at the front of `rest` belong to worker `owner`.
    fn run_length(&self, rest: &[u8], stride: usize, owner: u8) -> usize {
        rest.chunks(stride).take_while(|datagram| self.owner(datagram) == Some(owner)).map(<[u8]>::len).sum()
    }

    fn forward(&self, owner: u8, meta: &DatagramMeta, stride: usize, run: &[u8]) {
        let forwarded = Forwarded { meta: *meta, stride, bytes: run.to_vec() };
        let taken = self.shared.workers().get(usize::from(owner)).is_some_and(|worker| worker.forward(forwarded));
        let counters = &self.worker.counters;
        count(if taken { &counters.forwarded } else { &counters.forward_dropped }, run.len().div_ceil(stride) as u64);
    }

    /// Finds or makes the connection that a datagram belongs to, or answers it without one.
    fn route(&mut self, core: &mut Core, now: Instant, meta: &DatagramMeta, datagram: &[u8]) -> Option<usize> {
        self.reply.clear();
        match core.machine.handle(now, self.unix_time, meta, datagram, &mut self.reply) {
            Route::Connection(handle) => Some(handle.0),
            Route::NewConnection(handle, machine) => self.incoming(core, handle, machine, meta),
            Route::Reply(transmit) => {
                // Best effort: whoever asked asks again.
                let contents = self.reply.get(..transmit.size).unwrap_or(&self.reply);
                self.send(&transmit, contents).ok();
                None
            }
            Route::Drop => None,
        }
    }

    /// A client asks for a connection: it waits for the application's decision, unless there is no room for it.
    fn incoming(
        &mut self,
        core: &mut Core,
        handle: ConnectionHandle,
        machine: Box<Connection>,
        meta: &DatagramMeta,
    ) -> Option<usize> {
        let key = handle.0;
        let limits = self.shared.limits();
        let connections = self.shared.connections.fetch_add(1, Ordering::AcqRel);
        let handshakes = self.shared.handshakes.fetch_add(1, Ordering::Relaxed);
        let cell = Cell::new(*machine, key, self.worker.clone(), self.shared.clone(), Some(Vec::with_capacity(1)));
        cell.lock().in_handshake = true;
        core.insert(cell.clone());
        let incoming = Incoming::new(ConnectionRef::new(cell), meta);
        let mut queue = self.shared.accept_queue();
        if self.shared.is_closed()
            || connections >= limits.connections
            || handshakes >= limits.handshakes
            || queue.incoming.len() >= limits.backlog
        {
            drop(queue);
            // Refused by being dropped, once the datagram that asks is in.
            self.refused.push(incoming);
        } else {
            queue.incoming.push_back(incoming);
            queue.waiting.take(&mut self.wakes);
        }
        Some(key)
    }
}

/// The first datagram.
fn front(rest: &mut [u8], stride: usize) -> &mut [u8] {
    let len = stride.min(rest.len());
    &mut rest[..len]
}

/// What follows the first datagram.
fn behind(rest: &mut [u8], stride: usize) -> &mut [u8] {
    let len = stride.min(rest.len());
    &mut rest[len..]
}
