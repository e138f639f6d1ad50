//! A queue on a test bench: a link of constant rate without any of the link's own code.

use core::cell::RefCell;
use core::fmt::Display;

use thalweg_units::{Duration, Ecn, Instant, Rate};

use super::{Dropped, Kind, Queue, Setup};
use crate::read::{Field, Table, Value};
use crate::{Packet, Streams};

/// So many microseconds after the start.
pub(crate) fn at_micros(micros: u64) -> Instant {
    Instant::from_nanos(micros * 1000)
}

/// A queue, its server and what it has dropped. Payloads count packets from 0. Times are microseconds.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) queue: Box<dyn Queue<u64>>,
    pub(crate) drops: Vec<Dropped<u64>>,
    rate: Rate,
    next: u64,
    free: Instant,
}

impl Bench {
    pub(crate) fn new(kind: &impl Kind, rate: &str, limit: &str) -> Bench {
        let rate = rate.parse().unwrap();
        let (limit, dice) = (limit.parse().unwrap(), Streams::new(1).dice("queue"));
        let queue = kind.build(Setup { limit, rate, start: Instant::ZERO, dice });
        Bench { queue, drops: Vec::new(), rate, next: 0, free: Instant::ZERO }
    }

    /// A packet of flow 0.
    pub(crate) fn push(&mut self, micros: u64, size: u32, ecn: Ecn) {
        self.push_of(micros, size, ecn, 0);
    }

    pub(crate) fn push_of(&mut self, micros: u64, size: u32, ecn: Ecn, flow: u32) {
        let now = at_micros(micros);
        let packet = Packet { payload: self.next, size, flow, connection: 0, ecn, sent: now, tail: false };
        self.next += 1;
        self.queue.enqueue(now, packet, &mut self.drops);
    }

    /// So many packets of 1,500 bytes at the start.
    pub(crate) fn burst(&mut self, packets: u64, ecn: Ecn) {
        for _ in 0..packets {
            self.push(0, 1500, ecn);
        }
    }

    /// Serves until this time: when each packet left the queue.
    pub(crate) fn serve(&mut self, until: u64) -> Vec<(u64, Packet<u64>)> {
        let mut served = Vec::new();
        while self.free < at_micros(until)
            && let Some(queued) = self.queue.dequeue(self.free, &mut self.drops)
        {
            served.push((self.now_micros(), queued.packet.clone()));
            self.free += self.rate.time_for(u64::from(queued.packet.size));
        }
        self.free = self.free.max(at_micros(until).min(self.free + Duration::from_secs(3600)));
        served
    }

    /// Serves until nothing waits; the server is then free at the end of the last packet.
    pub(crate) fn serve_all(&mut self) -> Vec<(u64, Packet<u64>)> {
        let mut served = Vec::new();
        while let Some(queued) = self.queue.dequeue(self.free, &mut self.drops) {
            served.push((self.now_micros(), queued.packet.clone()));
            self.free += self.rate.time_for(u64::from(queued.packet.size));
        }
        served
    }

    pub(crate) fn now_micros(&self) -> u64 {
        self.free.as_nanos() / 1000
    }

    /// Payloads of what was dropped so far.
    pub(crate) fn dropped(&self) -> Vec<u64> {
        self.drops.iter().map(|drop| drop.packet.payload).collect()
    }

    pub(crate) fn signal(&self, wanted: &str) -> Option<f64> {
        let mut found = None;
        self.queue.signals(&mut |name, value| {
            if name == wanted {
                found = Some(value);
            }
        });
        found
    }
}

/// A table of keys and values, and what was complained about.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    values: Vec<(&'static str, Value<'static>)>,
    complaints: RefCell<Vec<String>>,
}

struct Entry<'a> {
    key: &'static str,
    value: Value<'static>,
    keys: &'a Keys,
}

impl Keys {
    /// Reads a discipline from these keys: what came of it, and the complaints.
    pub(crate) fn read<K: Kind>(values: &[(&'static str, Value<'static>)]) -> (Option<K>, Vec<String>) {
        let keys = Keys { values: values.to_vec(), complaints: RefCell::default() };
        let kind = K::read(&keys);
        (kind, keys.complaints.into_inner())
    }
}

impl Table for Keys {
    fn get(&self, key: &'static str) -> Option<Box<dyn Field + '_>> {
        let (_, value) = self.values.iter().find(|(known, _)| *known == key)?;
        Some(Box::new(Entry { key, value: *value, keys: self }))
    }

    fn has(&self, key: &str) -> bool {
        self.values.iter().any(|(known, _)| *known == key)
    }

    fn complain(&self, message: &dyn Display) {
        self.complaints.borrow_mut().push(message.to_string());
    }

    fn finish(self: Box<Self>) {}
}

impl Field for Entry<'_> {
    fn value(&self) -> Value<'_> {
        self.value
    }

    fn items(&self) -> Vec<Box<dyn Field + '_>> {
        Vec::new()
    }

    fn open(&self) -> Option<Box<dyn Table + '_>> {
        None
    }

    fn complain(&self, message: &dyn Display) {
        self.keys.complain(&format_args!("{}: {message}", self.key));
    }
}
