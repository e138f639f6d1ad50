//! A bulk transfer that fills a way of the lab: a plain window, paced, that only heavy loss makes smaller.

use std::collections::{BTreeMap, VecDeque};

use thalweg_probe::Load;
use thalweg_units::{Duration, Instant};

/// A round in which more than this share was lost had too large a window.
const TOO_MUCH: f64 = 0.1;
/// Packets after which those before count as lost.
const THRESHOLD: u64 = 64;

#[derive(Debug)]
pub struct Bulk {
    pub up: bool,
    from: Instant,
    until: Instant,
    /// Packets.
    window: f64,
    is_starting: bool,
    next: u64,
    in_flight: BTreeMap<u64, Instant>,
    rtt: Duration,
    is_new: bool,
    due: Instant,
    heard: Instant,
    /// End of the round, and what it had.
    round: u64,
    lost: f64,
    all_lost: u64,
    acked: f64,
    /// What the receiver has not acknowledged yet.
    come: Vec<u64>,
    delivered: VecDeque<(Instant, u64)>,
}

impl Bulk {
    /// Bytes of a packet on the wire, and of its content as a QUIC stream would have it.
    pub const SIZE: usize = 1480;
    const CONTENT: u64 = 1420;

    pub fn new(up: bool, from: Instant, until: Instant) -> Bulk {
        Bulk {
            up,
            from,
            until,
            window: 10.0,
            is_starting: true,
            next: 0,
            in_flight: BTreeMap::new(),
            rtt: Duration::from_millis(100),
            is_new: true,
            due: from,
            heard: from,
            round: 0,
            lost: 0.0,
            all_lost: 0,
            acked: 0.0,
            come: Vec::new(),
            delivered: VecDeque::new(),
        }
    }

    /// When it has something to send.
    pub fn due(&self) -> Option<Instant> {
        let at = match (self.in_flight.len() as f64) < self.window {
            true => self.due,
            // Until the first acknowledgment the round trip is not known.
            false if self.is_new => self.heard.max(self.from) + Duration::from_secs(4),
            false => self.heard + self.rtt * 3 + Duration::from_millis(500),
        };
        (at < self.until).then_some(at)
    }

    /// The next packet, if it is time to.
    pub fn send(&mut self, now: Instant) -> Option<Vec<u8>> {
        if self.due().is_none_or(|due| due > now) {
            return None;
        }
        if self.in_flight.len() as f64 >= self.window {
            // Nothing has come back for long.
            self.in_flight.clear();
            (self.window, self.is_starting, self.heard) = ((self.window / 2.0).max(4.0), false, now);
        }
        let number = self.next;
        self.next += 1;
        self.in_flight.insert(number, now);
        self.due = now.max(self.due) + self.rtt.div_f64(self.window * 1.25);
        Some(number.to_be_bytes().to_vec())
    }

    /// Takes a packet at the receiver; its acknowledgment, which is for several packets.
    pub fn arrived(&mut self, now: Instant, payload: &[u8]) -> Option<Vec<u8>> {
        self.come.push(u64::from_be_bytes(payload.try_into().unwrap()));
        self.delivered.push_back((now, Bulk::CONTENT));
        let every = if self.window < 32.0 { 1 } else { 8 };
        (self.come.len() >= every).then(|| self.come.drain(..).flat_map(u64::to_be_bytes).collect())
    }

    /// Takes an acknowledgment.
    pub fn acknowledged(&mut self, now: Instant, payload: &[u8]) {
        self.heard = now;
        let mut largest = 0;
        for number in payload.chunks(8).map(|bytes| u64::from_be_bytes(bytes.try_into().unwrap())) {
            largest = largest.max(number);
            if let Some(sent) = self.in_flight.remove(&number) {
                let rtt = now - sent;
                self.rtt = if self.is_new { rtt } else { (self.rtt * 7 + rtt) / 8 };
                self.is_new = false;
                self.acked += 1.0;
            }
        }
        let kept = self.in_flight.split_off(&largest.saturating_sub(THRESHOLD));
        self.lost += self.in_flight.len() as f64;
        self.all_lost += self.in_flight.len() as u64;
        self.in_flight = kept;
        if largest >= self.round {
            if self.lost >= 3.0 && self.lost > TOO_MUCH * (self.acked + self.lost) {
                (self.window, self.is_starting) = ((self.window * 0.85).max(4.0), false);
            } else {
                self.window *= if self.is_starting { 2.0 } else { 1.05 };
            }
            (self.round, self.lost, self.acked) = (self.next, 0.0, 0.0);
        }
    }

    /// The load as the client knows it.
    pub fn load(&self, since: impl Fn(Instant) -> i64) -> Load {
        Load {
            from: since(self.from),
            until: since(self.until),
            delivered: self.delivered.iter().map(|(at, bytes)| (since(*at), *bytes)).collect(),
            is_datagrams: false,
            own_trips: Vec::new(),
            largest: 0,
            packets: self.next,
            packets_lost: self.all_lost,
        }
    }
}
