//! The server of measurements as a state machine: its caller has the socket, the clock and the secret.
//!
//! What it may be used for against others, and what keeps that small:
//!
//! - *Amplification.* Before a client has shown by a cookie that it receives at its address, an answer is at most
//!   [`ANSWER_SIZE`] bytes to a datagram of [`UP_SIZE`]. After that, a session sends no more bytes than it has
//!   received.
//! - *Memory.* There is no state before a cookie has come back. Sessions are limited in all and for an address, and so
//!   is what each remembers. A session ends [`SESSION_END`] after the last datagram of its client.
//! - *Work.* Datagrams without a session are limited for each address, and those of a session by its interval.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};

use ring::hmac;
use thalweg_units::{Duration, DurationExt, Ecn, Instant};

use crate::slot::next_slot;
use crate::train::ServerTrains;
use crate::wire::{
    ANSWER, ANSWER_SIZE, ClientKind, Cookie, DOWN_SIZE, Downward, FromClient, FromServer, MOST_ARRIVALS, MOST_REPORTS,
    Refusal, Report, ServerKind, TICK, TRAIN_SIZE, TrainUp, UP_SIZE, Upward, VERSION, ecn_of, fitting,
};

/// How long after the last datagram of its client a session ends.
pub const SESSION_END: Duration = Duration::from_secs(5);
/// How long after the first datagram of its client the server's stream begins: what was received by then is what it may
/// send while the client's stream is interrupted.
pub const LEAD: Duration = Duration::from_millis(500);
/// How long a cookie is good for, at least; at most twice as long.
const COOKIE_AGE: Duration = Duration::from_secs(30);
/// Buckets for addresses without a session: several addresses may share one.
const BUCKETS: usize = 4096;

/// Limits of a server.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// Least time between datagrams of a stream.
    pub least_interval: Duration,
    /// Sessions at a time.
    pub sessions: usize,
    /// Sessions at a time of one IPv4 address or of one IPv6 network of 64 bits.
    pub sessions_per_address: usize,
    /// Datagrams in a second without a session, from one IPv4 address or from one IPv6 network of 64 bits.
    pub hellos_per_second: u32,
}

impl Default for ServerConfig {
    /// 1 ms; 1,000 sessions, 16 for an address; 50 hellos in a second.
    fn default() -> Self {
        ServerConfig {
            least_interval: Duration::from_millis(1),
            sessions: 1_000,
            sessions_per_address: 16,
            hellos_per_second: 50,
        }
    }
}

/// What a server has done.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct ServerCounts {
    /// Sessions that were begun.
    pub sessions: u64,
    /// Datagrams received, of whatever kind.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Datagrams sent.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Datagrams of a wrong form, of no session, or beyond a limit, that were not answered.
    pub ignored: u64,
    /// Hellos, and datagrams of no session, that were refused.
    pub refused: u64,
}

/// A client as the server sees it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its address.
    pub address: SocketAddr,
    /// The address of the server's computer that it sent to, if known: answers have to come from there.
    pub local: Option<IpAddr>,
}

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Self {
        Peer { address, local: None }
    }
}

/// Permissions that come back with time, up to a limit.
#[derive(Copy, Clone, Debug)]
struct Bucket {
    /// In units of time: what one permission costs is the time that it takes to come back.
    level: Duration,
    at: Instant,
}

impl Bucket {
    fn take(&mut self, now: Instant, cost: Duration, most: Duration) -> bool {
        self.level = (self.level + now.saturating_since(self.at)).min(most);
        self.at = self.at.max(now);
        let rest = self.level.checked_sub(cost);
        self.level = rest.unwrap_or(self.level);
        rest.is_some()
    }
}

#[derive(Debug)]
struct Session {
    local: Option<IpAddr>,
    nonce: u64,
    cookie: Cookie,
    interval: Duration,
    /// When the next datagram of the stream is due; `None` after a finish.
    next: Option<Instant>,
    /// When the last datagram of the client came.
    last: Instant,
    seq: u32,
    received_bytes: u64,
    sent_bytes: u64,
    bucket: Bucket,
    /// Arrivals that the client may not know of.
    arrivals: VecDeque<Report>,
    /// Index of the first of them.
    first: u32,
    /// Index of the first that has not been reported yet.
    fresh: u32,
    /// Index of the next that is reported again.
    again: u32,
    trains: ServerTrains,
}

impl Session {
    fn due(&self) -> Instant {
        let end = self.last + SESSION_END;
        let due = self.trains.due().filter(|_| self.next.is_some());
        [self.next, due].into_iter().flatten().fold(end, Instant::min)
    }

    fn end(&self) -> u32 {
        self.first.wrapping_add(self.arrivals.len() as u32)
    }

    fn arrive(&mut self, arrived: Instant, ecn: Ecn, upward: &Upward) {
        // The client knows of these.
        while self.first < upward.known && self.arrivals.pop_front().is_some() {
            self.first += 1;
        }
        if self.arrivals.len() >= MOST_ARRIVALS {
            self.arrivals.pop_front();
            self.first += 1;
        }
        let tick = TICK.nanos();
        let at = arrived.as_nanos() / tick * tick;
        // The kernel's times, brought to this clock, may differ by a little from the order of arrival.
        let at = self.arrivals.back().map_or(at, |before| before.at.max(at));
        self.arrivals.push_back(Report { seq: upward.seq, at, ecn });
    }

    /// Which arrivals to report now: new ones first; the latest when there are few; sometimes older ones that the
    /// client does not know of.
    fn reports(&mut self) -> (u32, Vec<Report>) {
        let (end, most) = (self.end(), MOST_REPORTS as u32);
        self.fresh = self.fresh.max(self.first);
        let latest = end.saturating_sub(most).max(self.first);
        let is_behind = self.fresh < latest;
        let from = if is_behind {
            self.fresh
        } else if latest > self.first && self.seq % 2 == 1 {
            if self.again < self.first || self.again >= latest { self.first } else { self.again }
        } else {
            latest
        };
        let waiting = || self.arrivals.iter().skip((from - self.first) as usize).copied();
        let reports: Vec<Report> = waiting().take(fitting(waiting())).collect();
        let to = from + reports.len() as u32;
        self.fresh = self.fresh.max(to);
        if !is_behind && from < latest {
            self.again = to;
        }
        (from, reports)
    }

    fn downward(&mut self, now: Instant, seq: u32, late: Duration) -> Downward {
        let (first, reports) = self.reports();
        let first = if reports.is_empty() { 0 } else { first };
        Downward { seq, sent: now.as_nanos(), late, arrivals: self.end(), first, reports }
    }
}

/// Who shares limits: an IPv4 address, or an IPv6 network of 64 bits, which a single user may have whole.
pub(crate) fn network(address: SocketAddr) -> [u8; 9] {
    let mut network = [0; 9];
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => network[1..5].copy_from_slice(&ip.octets()),
        IpAddr::V6(ip) => {
            network[0] = 6;
            network[1..].copy_from_slice(&ip.octets()[..8]);
        }
    }
    network
}

/// The server's end of measurements.
#[derive(Debug)]
pub struct Server {
    config: ServerConfig,
    key: hmac::Key,
    start: Instant,
    sessions: BTreeMap<SocketAddr, Session>,
    /// When which session has something to do.
    agenda: BTreeSet<(Instant, SocketAddr)>,
    networks: BTreeMap<[u8; 9], usize>,
    buckets: Vec<Bucket>,
    counts: ServerCounts,
}

impl Server {
    /// A server that starts now. `secret` makes its cookies, and must be known to nobody else.
    pub fn new(config: ServerConfig, now: Instant, secret: &[u8; 32]) -> Self {
        Server {
            config,
            key: hmac::Key::new(hmac::HMAC_SHA256, secret),
            start: now,
            sessions: BTreeMap::new(),
            agenda: BTreeSet::new(),
            networks: BTreeMap::new(),
            buckets: vec![Bucket { level: Duration::from_secs(1), at: now }; BUCKETS],
            counts: ServerCounts::default(),
        }
    }

    /// What it has done.
    pub fn counts(&self) -> ServerCounts {
        self.counts
    }

    /// Sessions at present.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// When there is something to do.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.agenda.first().map(|(at, _)| *at)
    }

    fn cookie(&self, from: SocketAddr, nonce: u64, epoch: u64) -> Cookie {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(b"cookie");
        context.update(&epoch.to_be_bytes());
        context.update(&nonce.to_be_bytes());
        context.update(&from.port().to_be_bytes());
        match from.ip() {
            IpAddr::V4(ip) => context.update(&ip.octets()),
            IpAddr::V6(ip) => context.update(&ip.octets()),
        }
        let mut cookie = Cookie::default();
        cookie.copy_from_slice(&context.sign().as_ref()[..16]);
        cookie
    }

    fn epoch(&self, now: Instant) -> u64 {
        now.saturating_since(self.start).nanos() / COOKIE_AGE.nanos()
    }

    /// Whether an address without a session may be answered.
    fn may_answer(&mut self, now: Instant, from: SocketAddr) -> bool {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(b"bucket");
        context.update(&network(from));
        let tag = context.sign();
        let index = usize::from(u16::from_be_bytes([tag.as_ref()[0], tag.as_ref()[1]])) % BUCKETS;
        let cost = Duration::from_secs(1) / self.config.hellos_per_second.max(1);
        self.buckets[index].take(now, cost, Duration::from_secs(1))
    }

    /// Takes a datagram that arrived at `arrived`. Returns whether `out` has an answer to it now.
    pub fn receive(
        &mut self,
        now: Instant,
        arrived: Instant,
        from: Peer,
        ecn: Ecn,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> bool {
        self.counts.received += 1;
        self.counts.received_bytes += bytes.len() as u64;
        let answer = FromClient::decode(bytes).filter(|_| bytes.len() >= ANSWER_SIZE).and_then(|message| {
            let kind = self.answer(now, arrived, from, ecn, &message)?;
            Some(FromServer { nonce: message.nonce, kind })
        });
        let Some(answer) = answer else { return false };
        answer.encode(out);
        self.counts.refused += u64::from(matches!(answer.kind, ServerKind::Refused(_)));
        self.counts.sent += 1;
        self.counts.sent_bytes += out.len() as u64;
        true
    }

    fn answer(
        &mut self,
        now: Instant,
        arrived: Instant,
        peer: Peer,
        ecn: Ecn,
        message: &FromClient,
    ) -> Option<ServerKind> {
        let from = peer.address;
        let (upward, is_finish) = match &message.kind {
            ClientKind::Probe(upward) => (upward, false),
            ClientKind::Finish(upward) => (upward, true),
            ClientKind::Train(train) => {
                self.train(now, arrived, from, message.nonce, train);
                return None;
            }
            other => {
                if !self.may_answer(now, from) {
                    self.counts.ignored += 1;
                    return None;
                }
                return Some(match other {
                    ClientKind::Hello => ServerKind::Cookie(self.cookie(from, message.nonce, self.epoch(now))),
                    _ => ServerKind::Refused(Refusal::Version(VERSION)),
                });
            }
        };
        let is_known = |session: &Session| session.nonce == message.nonce && session.cookie == upward.cookie;
        if !self.sessions.get(&from).is_some_and(is_known) {
            if !self.may_answer(now, from) {
                self.counts.ignored += 1;
                return None;
            }
            // A finish begins no session, and neither does a datagram of a session that is over, whose cookie may still
            // be good: the client must learn that the numbers begin anew.
            let is_late = is_finish || upward.known > 0;
            let refusal = if is_late { Some(Refusal::Cookie) } else { self.begin(now, from, message.nonce, upward) };
            if let Some(refusal) = refusal {
                return Some(ServerKind::Refused(refusal));
            }
        }
        let session = self.sessions.get_mut(&from)?;
        // A pause of the client's stream may have held all that was sent while the session lasts.
        let most = SESSION_END + session.interval * 64;
        if !session.bucket.take(now, session.interval.mul_ratio(4, 5), most) {
            self.counts.ignored += 1;
            return None;
        }
        let due = session.due();
        session.last = now;
        session.local = peer.local;
        session.received_bytes += UP_SIZE as u64;
        let answer = if is_finish {
            session.next = None;
            while session.first < upward.known && session.arrivals.pop_front().is_some() {
                session.first += 1;
            }
            // An answer goes from the first that the client lacks.
            session.fresh = session.first;
            session.sent_bytes += DOWN_SIZE as u64;
            Some(ServerKind::Probe(session.downward(now, ANSWER, Duration::ZERO)))
        } else {
            session.arrive(arrived, ecn, upward);
            None
        };
        let now_due = session.due();
        self.agenda.remove(&(due, from));
        self.agenda.insert((now_due, from));
        answer
    }

    /// Takes a datagram of a train. Only a session has trains, and none that is refused is answered.
    fn train(&mut self, now: Instant, arrived: Instant, from: SocketAddr, nonce: u64, train: &TrainUp) {
        let is_known = |session: &&mut Session| session.nonce == nonce && session.cookie == train.cookie;
        let session = self.sessions.get_mut(&from).filter(is_known).filter(|session| session.next.is_some());
        let Some(session) = session else {
            self.counts.ignored += 1;
            return;
        };
        let due = session.due();
        if session.trains.receive(now, arrived, train) {
            session.received_bytes += TRAIN_SIZE as u64;
        } else {
            self.counts.ignored += 1;
        }
        let now_due = session.due();
        self.agenda.remove(&(due, from));
        self.agenda.insert((now_due, from));
    }

    /// Begins a session, or says why not.
    fn begin(&mut self, now: Instant, from: SocketAddr, nonce: u64, upward: &Upward) -> Option<Refusal> {
        let epoch = self.epoch(now);
        let is_good = |epoch| self.cookie(from, nonce, epoch) == upward.cookie;
        if !is_good(epoch) && !epoch.checked_sub(1).is_some_and(is_good) {
            return Some(Refusal::Cookie);
        }
        if upward.interval < self.config.least_interval {
            return Some(Refusal::Interval(self.config.least_interval));
        }
        self.end(from);
        let network = network(from);
        let of_network = self.networks.get(&network).copied().unwrap_or(0);
        if self.sessions.len() >= self.config.sessions || of_network >= self.config.sessions_per_address {
            return Some(Refusal::Full);
        }
        let session = Session {
            local: None,
            nonce,
            cookie: upward.cookie,
            interval: upward.interval,
            next: Some(now + LEAD.max(upward.interval * 4)),
            last: now,
            seq: 0,
            received_bytes: 0,
            sent_bytes: 0,
            bucket: Bucket { level: SESSION_END + upward.interval * 64, at: now },
            arrivals: VecDeque::new(),
            first: 0,
            fresh: 0,
            again: 0,
            trains: ServerTrains::default(),
        };
        self.networks.insert(network, of_network + 1);
        self.agenda.insert((session.due(), from));
        self.sessions.insert(from, session);
        self.counts.sessions += 1;
        None
    }

    fn end(&mut self, from: SocketAddr) {
        let Some(session) = self.sessions.remove(&from) else { return };
        self.agenda.remove(&(session.due(), from));
        let network = network(from);
        if let Some(count) = self.networks.get_mut(&network) {
            *count -= 1;
            if *count == 0 {
                self.networks.remove(&network);
            }
        }
    }

    /// Writes the next datagram that is due over what is in `out`, and returns whom it goes to, and its ECN field.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<(Peer, Ecn)> {
        loop {
            let (due, to) = self.agenda.first().copied().filter(|(at, _)| *at <= now)?;
            let session = self.sessions.get_mut(&to)?;
            if now >= session.last + SESSION_END {
                self.end(to);
                continue;
            }
            let slot = session.next?;
            // The stream goes first: it is what is measured to the microsecond.
            let train = if slot <= now { None } else { session.trains.next(now) };
            let size = if train.is_some() { TRAIN_SIZE } else { DOWN_SIZE } as u64;
            // One that has not been paid for is left out; its place in time stays empty.
            let is_paid = session.sent_bytes + size <= session.received_bytes;
            let mut ecn = Ecn::NotEct;
            let kind = match train {
                Some(train) => is_paid.then_some(ServerKind::Train(train)),
                None => {
                    session.next = Some(next_slot(slot, now, session.interval));
                    ecn = ecn_of(session.seq);
                    is_paid.then(|| {
                        let probe = session.downward(now, session.seq, now.saturating_since(slot));
                        session.seq += 1;
                        ServerKind::Probe(probe)
                    })
                }
            };
            let message = kind.map(|kind| {
                session.sent_bytes += size;
                FromServer { nonce: session.nonce, kind }
            });
            let (now_due, local) = (session.due(), session.local);
            self.agenda.remove(&(due, to));
            self.agenda.insert((now_due, to));
            if let Some(message) = message {
                message.encode(out);
                self.counts.sent += 1;
                self.counts.sent_bytes += out.len() as u64;
                return Some((Peer { address: to, local }, ecn));
            }
        }
    }

    /// Ends all sessions. `send` gets a farewell for each client, of at most [`ANSWER_SIZE`] bytes.
    pub fn stop(&mut self, mut send: impl FnMut(Peer, &[u8])) {
        let mut out = Vec::new();
        for (to, session) in &self.sessions {
            if session.sent_bytes + ANSWER_SIZE as u64 <= session.received_bytes {
                FromServer { nonce: session.nonce, kind: ServerKind::Bye }.encode(&mut out);
                send(Peer { address: *to, local: session.local }, &out);
            }
        }
        self.sessions.clear();
        self.agenda.clear();
        self.networks.clear();
    }
}
