//! The idle timer (RFC 9000 section 10.1), the keep-alive, and PINGs to a peer that owes a response.

use std::time::Duration;

use thalweg_units::Instant;

/// Probe timeouts of silence after which a peer that owes something is asked whether it is still there. Data under way
/// come in far shorter gaps; a NAT rebinding or a restarted server costs this much, and then a round trip.
const ASK_AFTER_PTOS: u32 = 3;
/// Shortest silence after which it is asked: on a path of microseconds three probe timeouts are no sign of anything.
const ASK_AFTER_LEAST: Duration = Duration::from_millis(100);
/// Longest silence after which it is asked, whatever the path seems to be like: one sample that an outage has inflated
/// must not make us deaf.
const ASK_AFTER_MOST: Duration = Duration::from_secs(3);
/// Each question doubles the interval to the next, up to this, until the peer has sent more than an acknowledgment: an
/// outage ends at any time, an answer may take minutes, and one packet per second is little.
const ASK_AGAIN_MOST: Duration = Duration::from_secs(1);

/// The idle timer, the keep-alive, and the questions to a peer that owes something.
#[derive(Debug)]
pub(super) struct IdleTimers {
    /// The effective timeout, the smaller of both ends' (`None`: never).
    pub(super) timeout: Option<Duration>,
    keep_alive: Option<Duration>,
    /// The last time something restarted the timer.
    restarted: Instant,
    /// Whether an ack-eliciting packet was sent since the last one was received.
    sent_since_received: bool,
    /// When the last packet was received.
    pub(super) last_received: Instant,
    keep_alive_at: Option<Instant>,
    /// Whether the application waits for the peer.
    awaiting: bool,
    /// The last time a packet was received, an ack-eliciting one was sent, or the application began to wait.
    quiet_since: Instant,
    /// PINGs sent because of the silence since the peer last sent anything but acknowledgments.
    asked: u32,
    /// Since when nothing arrives, if a suspension was reported.
    pub(super) suspended: Option<Instant>,
    /// Client, before the first answer: the connect timeout and when it ends.
    connect: Option<(Duration, Instant)>,
}

impl IdleTimers {
    pub(super) fn new(now: Instant, timeout: Option<Duration>, keep_alive: Option<Duration>) -> Self {
        Self {
            timeout: timeout.filter(|timeout| !timeout.is_zero()),
            keep_alive,
            restarted: now,
            sent_since_received: false,
            last_received: now,
            keep_alive_at: None,
            awaiting: false,
            quiet_since: now,
            asked: 0,
            suspended: None,
            connect: None,
        }
    }

    /// Client: bounds the wait for the first answer; zero does not.
    pub(super) fn set_connect_timeout(&mut self, now: Instant, timeout: Option<Duration>) {
        self.connect = timeout.filter(|timeout| !timeout.is_zero()).map(|timeout| (timeout, now + timeout));
    }

    /// When the wait for the first answer ends.
    pub(super) fn connect_deadline(&self) -> Option<Instant> {
        self.connect.map(|(_, until)| until)
    }

    /// The connect timeout, if it is over.
    pub(super) fn connect_timed_out(&self, now: Instant) -> Option<Duration> {
        self.connect.filter(|(_, until)| *until <= now).map(|(timeout, _)| timeout)
    }

    /// Client: the server has answered, with a packet or a Retry.
    pub(super) fn on_answer(&mut self) {
        self.connect = None;
    }

    /// Takes the peer's `max_idle_timeout`; zero, at either end, means none (RFC 9000 section 18.2).
    pub(super) fn set_peer(&mut self, local: Option<Duration>, peer: Option<Duration>) {
        self.timeout = local.into_iter().chain(peer).filter(|timeout| !timeout.is_zero()).min();
    }

    /// A packet of the peer was received and processed.
    pub(super) fn on_received(&mut self, now: Instant) {
        self.on_answer();
        self.restarted = now;
        self.last_received = now;
        self.quiet_since = now;
        self.sent_since_received = false;
        self.keep_alive_at = self.keep_alive.map(|interval| now + interval);
    }

    /// An ack-eliciting packet was sent: the first since the last one received restarts the timer.
    pub(super) fn on_eliciting_sent(&mut self, now: Instant) {
        if !self.sent_since_received {
            self.sent_since_received = true;
            self.restarted = now;
        }
        self.quiet_since = now;
        self.keep_alive_at = self.keep_alive.map(|interval| now + interval);
    }

    /// Changes the keep-alive interval; `None` stops it.
    pub(super) fn set_keep_alive(&mut self, now: Instant, interval: Option<Duration>) {
        self.keep_alive = interval;
        self.keep_alive_at = interval.map(|interval| now + interval);
    }

    /// When the connection times out; never earlier than three PTO after the last restart (RFC 9000 section 10.1).
    pub(super) fn deadline(&self, pto: Duration) -> Option<Instant> {
        self.timeout.map(|timeout| self.restarted + timeout.max(pto * 3))
    }

    /// When a keep-alive PING is due.
    pub(super) fn keep_alive_at(&self) -> Option<Instant> {
        self.keep_alive_at
    }

    /// The PING was queued; sending it arms the next.
    pub(super) fn on_keep_alive(&mut self) {
        self.keep_alive_at = None;
    }

    /// The application begins or ceases to wait for the peer.
    pub(super) fn set_awaiting(&mut self, now: Instant, awaiting: bool) {
        if awaiting && !self.awaiting {
            self.quiet_since = now;
            self.asked = 0;
        }
        self.awaiting = awaiting;
    }

    /// The peer has sent something that is to be acknowledged.
    pub(super) fn on_eliciting_received(&mut self) {
        self.asked = 0;
    }

    /// When a silent peer is asked whether it is still there; `None` while nothing is awaited.
    pub(super) fn ask_at(&self, pto: Duration) -> Option<Instant> {
        let first = (pto * ASK_AFTER_PTOS).clamp(ASK_AFTER_LEAST, ASK_AFTER_MOST);
        let again = first.saturating_mul(1 << self.asked.min(16)).min(ASK_AGAIN_MOST.max(first));
        self.awaiting.then(|| self.quiet_since + again)
    }

    /// The question was queued.
    pub(super) fn on_asked(&mut self, now: Instant) {
        self.quiet_since = now;
        self.asked = self.asked.saturating_add(1);
    }
}
