//! The client of a measurement as a state machine: its caller has the socket, the clock and the chance.

use thalweg_units::{Duration, DurationExt, Ecn, Instant};

use crate::slot::next_slot;
use crate::trace::{Break, BreakCause, Datagram, Trace, Way};
use crate::train::{ClientTrains, Train};
use crate::wire::{
    ANSWER, ClientKind, Cookie, Downward, FromClient, FromServer, MOST_ARRIVALS, Refusal, ServerKind, Upward, ecn_of,
};

/// Time after which a hello or a finish is repeated.
const REPEAT: Duration = Duration::from_millis(250);
/// How long the client waits for the first answer of a server.
const FIRST_PATIENCE: Duration = Duration::from_secs(5);
/// How long the client looks for a server that it had a session with.
const PATIENCE: Duration = Duration::from_secs(15);
/// Silence after which the client looks for the server again: the server has ended the session by then.
const SILENCE: Duration = Duration::from_secs(8);
/// How long after the last datagram of its stream the client waits for reports.
const LINGER: Duration = Duration::from_secs(3);
/// The most datagrams by which the server's stream can jump ahead: more than it sends in a minute at the least
/// interval.
const MOST_SKIPPED: usize = 1 << 16;
/// By how much the server's clock may differ from what it showed first, less the time since, in nanoseconds: more than
/// any clock drifts in a day, and few enough that no sum overflows.
const MOST_DRIFT: i128 = 3_600_000_000_000;
/// The most by which the two clocks may differ, in nanoseconds: 73 years.
const MOST_OFFSET: i128 = 1 << 61;
/// Most arrivals after a gap that are remembered until the gap is filled.
const MOST_AHEAD: usize = 4096;

/// How to measure.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ClientConfig {
    /// Time between the datagrams of a stream, at most a second: the server ends a session after
    /// [`SESSION_END`](crate::SESSION_END).
    pub interval: Duration,
    /// Whether the caller can send datagrams with ECT(0).
    pub marks: bool,
    /// How long to send; `None`: until [`Client::stop`].
    pub length: Option<Duration>,
    /// Whether to send a [train](crate::train_rates) a second, for an hour at most.
    pub trains: bool,
}

/// Why there is no measurement.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// Nothing came back.
    #[error("no answer: no probe server runs there, or something on the way drops its UDP datagrams")]
    NoAnswer,
    /// The port is closed.
    #[error("the port is closed: no probe server runs there")]
    Unreachable,
    /// The server has no version in common with this client.
    #[error("the server speaks version {0} of the probe and this program version {version}", version = crate::wire::VERSION)]
    Version(u8),
    /// The server has enough clients.
    #[error("the server has as many clients as it may; try again later")]
    Full,
    /// The server wants fewer datagrams.
    #[error("the server accepts a datagram every {0:?} or less often")]
    Interval(Duration),
    /// The server refuses for a reason that this version does not know.
    #[error("the server refuses, for reason {0}, which this version does not know")]
    Refused(u8),
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum State {
    /// Asks for a cookie, until a time.
    Hello {
        next: Instant,
        until: Instant,
    },
    /// Sends its stream.
    Running {
        cookie: Cookie,
        next: Instant,
    },
    /// Asks for the last reports, until a time.
    Finishing {
        cookie: Cookie,
        next: Instant,
        until: Instant,
    },
    Done,
}

/// What is known of the current session of the server's stream and reports.
#[derive(Clone, Debug, Default)]
struct Session {
    /// What is added to times of the server: in another session its clock may be another.
    shift: Option<i128>,
    /// Position of the session's first datagram of the server among those of all sessions.
    base: usize,
    /// Arrivals at the server that are known without a gap.
    known: u32,
    /// Indices of arrivals that are known after a gap.
    ahead: std::collections::BTreeSet<u32>,
    /// Datagrams of the client's stream below this are judged: they have arrived or are lost.
    judged: usize,
    /// The first datagram of the client's stream in the session, and one more than the last that is known to have come.
    first: usize,
    come: usize,
}

/// The client's end of a measurement.
///
/// Call [`poll_transmit`](Self::poll_transmit) when the time of [`poll_timeout`](Self::poll_timeout) has come, send
/// what it writes, and hand over what arrives with [`receive`](Self::receive).
#[derive(Debug)]
pub struct Client {
    config: ClientConfig,
    chance: u64,
    nonce: u64,
    state: State,
    session: Session,
    trace: Trace,
    breaks: Vec<Break>,
    /// The server's clock less the client's, as the first datagram of the first session showed it.
    offset: Option<i128>,
    /// When the stream ends.
    end: Option<Instant>,
    /// When the last datagram of the server came, and the last news of an arrival there.
    heard: Instant,
    learned: Instant,
    trains: ClientTrains,
    /// Until then what is sent up waits for a train.
    disturbed_until: u64,
    error: Option<ClientError>,
}

/// The next of a sequence of numbers (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Client {
    /// A client that begins now. `chance` are bits that nobody else can know: they make the numbers of sessions.
    pub fn new(config: ClientConfig, now: Instant, chance: u64) -> Self {
        let mut chance = chance;
        let nonce = splitmix(&mut chance);
        let trace = Trace { interval: config.interval, ..Trace::default() };
        let state = State::Hello { next: now, until: now + FIRST_PATIENCE };
        let (session, breaks) = (Session::default(), Vec::new());
        Client {
            config,
            chance,
            nonce,
            state,
            session,
            trace,
            breaks,
            offset: None,
            end: None,
            heard: now,
            learned: now,
            trains: ClientTrains::default(),
            disturbed_until: 0,
            error: None,
        }
    }

    /// When there is something to do; `None` when the measurement is over.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self.state {
            State::Hello { next, until } | State::Finishing { next, until, .. } => Some(next.min(until)),
            State::Running { next, .. } => {
                [self.end, self.trains.due()].into_iter().flatten().fold(next, Instant::min).into()
            }
            State::Done => None,
        }
    }

    /// Whether the measurement is over.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Why there is no measurement, if there is none.
    pub fn error(&self) -> Option<ClientError> {
        self.error
    }

    /// Whether there is a session with the server.
    pub fn is_running(&self) -> bool {
        matches!(self.state, State::Running { .. })
    }

    /// What has been measured since the last [`cut`](Self::cut).
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// What has been measured since the last [`cut`](Self::cut), and times without a session.
    pub fn into_trace(self) -> (Trace, Vec<Break>) {
        (self.trace, self.breaks)
    }

    /// Trains that came so far.
    pub fn trains(&mut self) -> &[Train] {
        self.trains.end();
        self.note_disturbed();
        &self.trains.trains
    }

    /// Notes which datagrams waited for trains; those of the way up that are yet to be sent when they are.
    fn note_disturbed(&mut self) {
        for (way, from, until) in self.trains.disturbed.drain(..) {
            self.trace.disturb(way, from, until);
            if way == Way::Up {
                self.disturbed_until = self.disturbed_until.max(until);
            }
        }
    }

    /// When the last datagram of the server came, and when the last news of an arrival there: where either was long
    /// ago, the path may be suspended.
    pub fn last_news(&self) -> (Instant, Instant) {
        (self.heard, self.learned)
    }

    /// Times without a session so far.
    pub fn breaks(&self) -> &[Break] {
        &self.breaks
    }

    /// Cuts off what is settled of the trace, once that is ten minutes long: a measurement that goes on for days is
    /// analysed part by part.
    pub fn cut(&mut self, now: Instant) -> Option<Trace> {
        self.trace.cut(now.as_nanos())
    }

    /// Says that a load fills a way from a time on, and until when it did once that is known: what is measured then is
    /// kept apart.
    pub fn loaded(&mut self, way: Way, from: Instant, until: Option<Instant>) {
        self.trace.loads[way as usize] = Some((from.as_nanos(), until.map_or(u64::MAX, |until| until.as_nanos())));
    }

    /// Datagrams of the client's stream.
    pub fn sent(&self) -> usize {
        self.trace.first.0 + self.trace.up.len()
    }

    /// Datagrams of the server's stream that have arrived or are known to be lost.
    fn come(&self) -> usize {
        self.trace.first.1 + self.trace.down.len()
    }

    /// Ends the stream; the client then asks for the last reports.
    pub fn stop(&mut self, now: Instant) {
        self.state = match self.state {
            State::Running { cookie, .. } => State::Finishing { cookie, next: now, until: now + LINGER },
            State::Hello { .. } => State::Done,
            other => other,
        };
    }

    /// The network says that nobody listens at the server's port.
    pub fn unreachable(&mut self, now: Instant) {
        match self.state {
            State::Hello { .. } if self.sent() == 0 => self.fail(ClientError::Unreachable),
            State::Running { .. } => self.look_again(now, BreakCause::Unreachable),
            _ => {}
        }
    }

    fn fail(&mut self, error: ClientError) {
        (self.error, self.state) = (Some(error), State::Done);
    }

    /// Asks for a new session.
    fn look_again(&mut self, now: Instant, cause: BreakCause) {
        self.breaks.push(Break { from: now.as_nanos(), until: None, cause });
        self.nonce = splitmix(&mut self.chance);
        // After a server that has just stopped, whoever starts it again needs a moment.
        let next = if cause == BreakCause::Unknown { now } else { now + REPEAT };
        self.state = State::Hello { next, until: now + PATIENCE };
    }

    /// Writes the datagram to send now over what is in `out`, and returns its ECN field; `None` if there is nothing
    /// to send.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<Ecn> {
        let mut ecn = Ecn::NotEct;
        if let State::Running { cookie, .. } = self.state {
            if self.end.is_some_and(|end| now >= end) || self.sent() >= u32::MAX as usize {
                self.state = State::Finishing { cookie, next: now, until: now + LINGER };
            } else if now.saturating_since(self.heard) > SILENCE {
                self.look_again(now, BreakCause::Silent);
            }
        }
        let kind = match &mut self.state {
            State::Hello { until, .. } if now >= *until => {
                match self.sent() == 0 {
                    true => self.fail(ClientError::NoAnswer),
                    false => self.state = State::Done,
                }
                return None;
            }
            State::Finishing { until, .. } if now >= *until => {
                self.state = State::Done;
                return None;
            }
            State::Hello { next, .. } if now >= *next => {
                *next = now + REPEAT;
                ClientKind::Hello
            }
            State::Finishing { cookie, next, .. } if now >= *next => {
                let cookie = *cookie;
                *next = now + REPEAT;
                ClientKind::Finish(self.upward(now, cookie, Duration::ZERO))
            }
            State::Running { cookie, next } if now >= *next => {
                let (cookie, late) = (*cookie, now.saturating_since(*next));
                *next = next_slot(*next, now, self.config.interval);
                let upward = self.upward(now, cookie, late);
                if self.sent() == 0 {
                    self.trace.started = now.as_nanos();
                }
                ecn = if self.config.marks { ecn_of(upward.seq) } else { Ecn::NotEct };
                let disturbed = now.as_nanos() <= self.disturbed_until;
                self.trace.up.push(Datagram { disturbed, ..Datagram::sent_at(now.as_nanos(), late, ecn) });
                ClientKind::Probe(upward)
            }
            State::Running { cookie, .. } => {
                let cookie = *cookie;
                let at = now.as_nanos();
                let is_loaded = self.trace.loads.iter().flatten().any(|(from, until)| (*from..*until).contains(&at));
                ClientKind::Train(self.trains.next(now, cookie, is_loaded)?)
            }
            _ => return None,
        };
        FromClient { nonce: self.nonce, kind }.encode(out);
        Some(ecn)
    }

    fn upward(&self, now: Instant, cookie: Cookie, late: Duration) -> Upward {
        Upward {
            cookie,
            seq: u32::try_from(self.sent()).unwrap_or(u32::MAX),
            sent: now.as_nanos(),
            late,
            interval: self.config.interval,
            known: self.session.known,
        }
    }

    /// Takes a datagram that arrived at `arrived`. Whatever does not belong to the session is ignored.
    pub fn receive(&mut self, now: Instant, arrived: Instant, ecn: Ecn, bytes: &[u8]) {
        let Some(FromServer { nonce, kind }) = FromServer::decode(bytes) else { return };
        if nonce != self.nonce {
            return;
        }
        match (self.state, kind) {
            (State::Hello { .. }, ServerKind::Cookie(cookie)) => self.begin(now, cookie),
            (State::Hello { .. }, ServerKind::Refused(refusal)) => self.refused(refusal),
            (State::Running { .. }, ServerKind::Refused(Refusal::Cookie)) => {
                self.look_again(now, BreakCause::Unknown);
            }
            (State::Running { .. }, ServerKind::Refused(refusal)) if self.come() == 0 => {
                self.refused(refusal);
            }
            (State::Running { .. }, ServerKind::Train(train)) => {
                self.trains.receive(arrived, &train);
                self.note_disturbed();
            }
            (State::Running { .. }, ServerKind::Bye) => self.look_again(now, BreakCause::Stopped),
            (State::Finishing { .. }, ServerKind::Bye | ServerKind::Refused(_)) => self.state = State::Done,
            (State::Running { .. } | State::Finishing { .. }, ServerKind::Probe(downward)) => {
                let Some(downward) = self.on_one_clock(arrived, downward) else { return };
                self.heard = now;
                self.down(arrived, ecn, &downward);
                let known = self.session.come;
                self.learn(&downward);
                if self.session.come > known {
                    self.learned = now;
                }
                let is_answer = downward.seq == ANSWER && matches!(self.state, State::Finishing { .. });
                if is_answer && downward.arrivals == self.session.known {
                    self.state = State::Done;
                } else if is_answer && let State::Finishing { next, .. } = &mut self.state {
                    // There is more to learn: the next question need not wait.
                    *next = now;
                }
            }
            _ => {}
        }
    }

    fn refused(&mut self, refusal: Refusal) {
        let error = match refusal {
            Refusal::Version(version) => ClientError::Version(version),
            Refusal::Full => ClientError::Full,
            Refusal::Interval(least) => ClientError::Interval(least),
            Refusal::Unknown(reason) => ClientError::Refused(reason),
            // The next hello asks for another cookie.
            Refusal::Cookie => return,
        };
        if self.come() == 0 { self.fail(error) } else { self.state = State::Done }
    }

    fn begin(&mut self, now: Instant, cookie: Cookie) {
        if let Some(last) = self.breaks.last_mut() {
            last.until.get_or_insert(now.as_nanos());
        }
        let (first, base) = (self.sent(), self.come());
        self.session = Session { base, judged: first, first, come: first, ..Session::default() };
        self.end = self.end.or_else(|| self.config.length.map(|length| now + length));
        (self.heard, self.learned) = (now, now);
        self.state = State::Running { cookie, next: now };
        if self.config.trains {
            self.trains.begin(now, self.config.interval);
        }
    }

    /// Brings the times of a datagram to the clock that the server had in the first session. `None` if they are none
    /// that a clock can show.
    fn on_one_clock(&mut self, arrived: Instant, mut downward: Downward) -> Option<Downward> {
        let here = i128::from(arrived.as_nanos());
        let shown = i128::from(downward.sent) - here;
        let offset = *self.offset.get_or_insert(shown);
        let shift = *self.session.shift.get_or_insert(offset - shown);
        let shifted = |at: u64| -> Option<u64> {
            let at = i128::from(at) + shift;
            let is_plausible = (at - offset - here).abs() <= MOST_DRIFT && offset.abs() <= MOST_OFFSET;
            u64::try_from(at).ok().filter(|_| is_plausible)
        };
        downward.sent = shifted(downward.sent)?;
        for report in &mut downward.reports {
            report.at = shifted(report.at)?;
        }
        Some(downward)
    }

    /// Notes the arrival of a datagram of the server's stream.
    fn down(&mut self, arrived: Instant, ecn: Ecn, downward: &Downward) {
        let position = self.session.base.saturating_add(downward.seq as usize);
        let (come, interval) = (self.come(), self.config.interval);
        // A server that skips more than it can have sent is no server.
        if downward.seq == ANSWER || position >= come.saturating_add(MOST_SKIPPED) {
            return;
        }
        let down = &mut self.trace.down;
        if position >= come {
            let skipped = (position - come) as u64;
            let before = down.last().filter(|_| come > self.session.base).map(|before| before.sent);
            let step = match before {
                Some(before) => downward.sent.saturating_sub(before) / (skipped + 1),
                None => interval.nanos(),
            };
            let at = downward.sent;
            let seq = |left: u64| downward.seq.saturating_sub(u32::try_from(left).unwrap_or(u32::MAX));
            for left in (1..=skipped).rev() {
                // Sent in between, by even steps; before the first, at the interval.
                let sent = at.saturating_sub(step.saturating_mul(left));
                down.push(Datagram { known: true, ..Datagram::sent_at(sent, Duration::ZERO, ecn_of(seq(left))) });
            }
            down.push(Datagram::sent_at(at, downward.late, ecn_of(downward.seq)));
        }
        if let Some(datagram) = position.checked_sub(self.trace.first.1).and_then(|at| down.get_mut(at)) {
            let late = u32::try_from(downward.late.as_micros()).unwrap_or(u32::MAX);
            (datagram.sent, datagram.late) = (downward.sent, late);
            datagram.arrive(arrived.as_nanos(), ecn);
        }
    }

    /// Takes the reports of arrivals at the server.
    fn learn(&mut self, downward: &Downward) {
        let session = &mut self.session;
        for (ahead, report) in downward.reports.iter().enumerate() {
            let Some(index) = downward.first.checked_add(ahead as u32) else { break };
            if index < session.known || session.ahead.contains(&index) || session.ahead.len() >= MOST_AHEAD {
                continue;
            }
            let seq = report.seq as usize;
            let sent = self.trace.first.0 + self.trace.up.len();
            if !(session.first..sent).contains(&seq) {
                continue;
            }
            if let Some(datagram) = seq.checked_sub(self.trace.first.0).and_then(|at| self.trace.up.get_mut(at)) {
                datagram.arrive(report.at, report.ecn);
            }
            session.come = session.come.max(seq + 1);
            session.ahead.insert(index);
        }
        while session.ahead.remove(&session.known) {
            session.known += 1;
        }
        // Where nothing is missing of the reports, what was not reported and was sent before what was is lost.
        if session.ahead.is_empty() {
            let place = |position: usize| position.saturating_sub(self.trace.first.0).min(self.trace.up.len());
            let judged = place(session.judged)..place(session.come);
            self.trace.up[judged].iter_mut().for_each(|datagram| datagram.known = true);
            session.judged = session.judged.max(session.come);
        } else if downward.arrivals.saturating_sub(session.known) > MOST_ARRIVALS as u32 {
            // The server has forgotten some of what is missing: what became of those datagrams stays unknown.
            session.known = downward.arrivals - MOST_ARRIVALS as u32;
            session.ahead = session.ahead.split_off(&session.known);
            session.judged = session.judged.max(session.come);
        }
    }
}
