//! Runs one direction of a link: queue, serialization, propagation, impairments.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use thalweg_units::{Duration, Ecn, Instant, Rate};

use crate::dice::FlowDice;
use crate::gate::Gate;
use crate::impair::Loss;
use crate::policer::Bucket;
use crate::queue::{Dropped, Queue, Queued, Setup};
use crate::rate::Server;
use crate::schedule::Cursor;
use crate::trace::Mahimahi;
use crate::{
    ConfigError, DelayModel, DirectionConfig, DirectionStats, DropCause, EcnTreatment, Jitter, Packet, Payload,
    Probability, RateModel, Reorder, Schedule, Sink, Streams,
};

/// One direction of a link: `queue → serialization at a rate → propagation → impairments`.
///
/// Give it packets with [`send`](Self::send), ask when it wants to be called with [`next_event`](Self::next_event), and
/// call [`advance`](Self::advance) then. Times must not go back. A packet that arrives at the very time at which
/// another leaves the queue finds its place free. No memory is allocated per packet once the buffers have grown.
#[derive(Debug)]
pub struct Direction<P> {
    queue: Box<dyn Queue<P>>,
    server: Server,
    state: State<P>,
    /// Since when there is something to send.
    busy_since: Option<Instant>,
    /// The rate that limits in time follow, if it changes.
    limit_rate: Option<(Cursor<Rate>, Instant)>,
    line: Line<P>,
    policer: Option<Bucket>,
    mtu: Option<Cursor<u32>>,
    suspend_before: Vec<Gate>,
    suspend_after: Vec<Gate>,
    /// Arrived, but not handed over before the time at the end of the suspension.
    held: VecDeque<Packet<P>>,
    held_until: Instant,
    dropped: Vec<Dropped<P>>,
    stats: DirectionStats,
    newest_delivered: u64,
}

/// What the server of the queue is doing.
#[derive(Debug)]
enum State<P> {
    /// Nothing waits.
    Idle,
    /// A packet is being serialized.
    Sending { queued: Queued<P>, end: Instant },
    /// Suspended, with something waiting.
    Held { until: Instant, lose_first: bool },
    /// The queue holds back all that waits; asked again then, or when a packet arrives.
    HeldBack { until: Instant },
    /// Something waits for a delivery opportunity; part of a packet may have left already.
    Waiting { partial: Option<(Queued<P>, u32)>, lose_first: bool },
}

/// From the end of serialization to the far end.
#[derive(Debug)]
struct Line<P> {
    delay: Delay,
    shortest: Duration,
    served: u64,
    ecn: Option<Cursor<EcnTreatment>>,
    outages: Vec<Gate>,
    loss: Vec<Loss>,
    corrupt: (Probability, FlowDice),
    duplicate: (Probability, FlowDice),
    jitter: Option<(Cursor<Jitter>, FlowDice)>,
    reorder: Vec<(Reorder, FlowDice)>,
    /// Packets that take longer, in order of their numbers.
    shifts: VecDeque<(u64, Duration)>,
    /// On their way, in order of arrival.
    in_order: VecDeque<Flying<P>>,
    last_arrival: Instant,
    /// On their way, in any order.
    late: BinaryHeap<Flying<P>>,
}

#[derive(Debug)]
enum Delay {
    Constant(Duration),
    Schedule(Cursor<Duration>),
}

/// A packet on its way. The order is that of a heap that gives the first to arrive.
#[derive(Debug)]
struct Flying<P> {
    at: Instant,
    ordinal: u64,
    packet: Packet<P>,
}

impl<P> PartialEq for Flying<P> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<P> Eq for Flying<P> {}

impl<P> PartialOrd for Flying<P> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<P> Ord for Flying<P> {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.ordinal).cmp(&(self.at, self.ordinal))
    }
}

impl<P: Payload + 'static> Direction<P> {
    /// A direction as described, whose times count from `start`. Every impairment draws from streams of its own, one
    /// per flow where it decides packet by packet, so that neither another impairment nor another flow shifts its
    /// numbers.
    ///
    /// # Errors
    /// What [`DirectionConfig::check`] finds.
    pub fn new(config: &DirectionConfig, start: Instant, streams: &Streams) -> Result<Self, ConfigError> {
        let (limit, rate) = (config.queue_limit(), config.rate.nominal());
        let setup = Setup { limit, rate, start, dice: streams.dice("queue") };
        let queue = config.discipline.build(setup);
        Self::with_queue(config, queue, start, streams)
    }

    /// The same with a queue from elsewhere; the limit and the discipline of `config` are not used.
    ///
    /// # Errors
    /// What [`DirectionConfig::check`] finds.
    pub fn with_queue(
        config: &DirectionConfig,
        mut queue: Box<dyn Queue<P>>,
        start: Instant,
        streams: &Streams,
    ) -> Result<Self, ConfigError> {
        config.check()?;
        queue.set_rate(config.rate.nominal());
        let gates = |windows: &[crate::Windows], name: &str| -> Vec<Gate> {
            let dice = |n| streams.dice(&format!("{name}/{n}"));
            windows.iter().enumerate().map(|(n, windows)| Gate::new(windows, start, dice(n))).collect()
        };
        let loss = config.loss.iter().enumerate();
        let mut shifts = config.shifts.clone();
        shifts.sort_unstable_by_key(|(ordinal, _)| *ordinal);
        shifts.dedup_by_key(|(ordinal, _)| *ordinal);
        let reorder = config.reorder.iter().enumerate();
        let jitter = config.jitter_changes.clone().or(config.jitter.map(Schedule::constant));
        let line = Line {
            delay: match &config.delay {
                DelayModel::Constant(delay) => Delay::Constant(*delay),
                DelayModel::Schedule(schedule) => Delay::Schedule(Cursor::new(schedule.clone(), start)),
            },
            shortest: config.delay.shortest(),
            served: 0,
            ecn: config.ecn.clone().map(|schedule| Cursor::new(schedule, start)),
            outages: gates(&config.outages, "outage"),
            loss: loss.map(|(n, model)| Loss::new(model, start, streams, &format!("loss/{n}"))).collect(),
            corrupt: (config.corrupt, FlowDice::new(streams, "corrupt")),
            duplicate: (config.duplicate, FlowDice::new(streams, "duplicate")),
            jitter: jitter.map(|jitter| (Cursor::new(jitter, start), FlowDice::new(streams, "jitter"))),
            reorder: reorder.map(|(n, reorder)| (*reorder, FlowDice::new(streams, &format!("reorder/{n}")))).collect(),
            shifts: shifts.into(),
            in_order: VecDeque::new(),
            last_arrival: Instant::ZERO,
            late: BinaryHeap::new(),
        };
        Ok(Direction {
            queue,
            server: Server::new(&config.rate, start),
            state: State::Idle,
            busy_since: None,
            limit_rate: match &config.rate {
                RateModel::Schedule(schedule) => Some((Cursor::new(schedule.clone(), start), Instant::ZERO)),
                RateModel::Constant(_) | RateModel::Mahimahi(_) => None,
            },
            line,
            policer: config.policer.map(|policer| Bucket::new(policer, start)),
            mtu: config.mtu.clone().map(|schedule| Cursor::new(schedule, start)),
            suspend_before: gates(&config.suspend_before, "suspend-before"),
            suspend_after: gates(&config.suspend_after, "suspend-after"),
            held: VecDeque::new(),
            held_until: Instant::ZERO,
            dropped: Vec::new(),
            stats: DirectionStats::default(),
            newest_delivered: 0,
        })
    }

    /// Offers a packet to the link.
    pub fn send(&mut self, now: Instant, packet: Packet<P>, sink: &mut impl Sink<P>) {
        self.serve(now, sink);
        self.stats.offered += 1;
        self.stats.offered_bytes += u64::from(packet.size);
        if self.mtu.as_mut().is_some_and(|mtu| packet.size > mtu.at(now).0) {
            return self.drop_packet(now, packet, DropCause::TooBig, sink);
        }
        if self.policer.as_mut().is_some_and(|policer| !policer.admits(now, packet.size)) {
            return self.drop_packet(now, packet, DropCause::Policed, sink);
        }
        if let Some((cursor, changes)) = &mut self.limit_rate
            && now >= *changes
        {
            let (rate, until) = cursor.at(now);
            *changes = until;
            // While the link stands still, the limit stays what it was.
            if rate > Rate::ZERO {
                self.queue.set_rate(rate);
            }
        }
        let idle = matches!(self.state, State::Idle);
        if idle && self.queue.len_packets() == 0 {
            self.queue.enqueue_idle(now, packet, &mut self.dropped);
        } else {
            self.queue.enqueue(now, packet, &mut self.dropped);
        }
        self.report_dropped(sink);
        if idle || matches!(self.state, State::HeldBack { .. }) {
            self.begin(now, sink);
        }
        self.stats.max_queue_bytes = self.stats.max_queue_bytes.max(self.queue.len_bytes());
        self.stats.max_queue_packets = self.stats.max_queue_packets.max(self.queue.len_packets() as u64);
    }

    /// When [`advance`](Self::advance) has something to do; never later than the next delivery.
    pub fn next_event(&self) -> Option<Instant> {
        let served = match &self.state {
            State::Sending { end, .. } => *end,
            State::Held { until, .. } | State::HeldBack { until } => *until,
            State::Waiting { .. } => match &self.server {
                Server::Mahimahi(opportunities) => opportunities.next(),
                Server::Constant { .. } | Server::Schedule { .. } => Instant::FAR_FUTURE,
            },
            State::Idle => Instant::FAR_FUTURE,
        };
        // What is served then cannot arrive earlier than the shortest delay afterwards; nothing else needs attention
        // before.
        let mut next = if served < Instant::FAR_FUTURE { served + self.line.shortest } else { served };
        if let Some(flying) = self.line.in_order.front() {
            next = next.min(flying.at);
        }
        if let Some(flying) = self.line.late.peek() {
            next = next.min(flying.at);
        }
        if !self.held.is_empty() {
            next = next.min(self.held_until);
        }
        (next < Instant::FAR_FUTURE).then_some(next)
    }

    /// Does everything that happens up to and including `now`.
    pub fn advance(&mut self, now: Instant, sink: &mut impl Sink<P>) {
        self.serve(now, sink);
        while let Some(flying) = self.line.next_arrival(now) {
            let at = flying.at;
            if at >= self.held_until && !self.held.is_empty() {
                self.release(sink);
            }
            if flying.ordinal < self.newest_delivered {
                self.stats.reordered += 1;
            }
            self.newest_delivered = self.newest_delivered.max(flying.ordinal);
            if at >= self.held_until {
                // Windows that touch are one.
                let mut until = at;
                while let Some((end, _)) = held_by(&mut self.suspend_after, until) {
                    until = end;
                }
                self.held_until = until;
            }
            if at < self.held_until {
                self.held.push_back(flying.packet);
            } else {
                self.deliver(at, flying.packet, sink);
            }
        }
        if self.held_until <= now && !self.held.is_empty() {
            self.release(sink);
        }
    }

    /// What it has done up to the last call. `busy` ends with the last time that the queue ran empty; see
    /// [`busy_until`](Self::busy_until) for the rest.
    pub const fn stats(&self) -> &DirectionStats {
        &self.stats
    }

    /// Time with something to send, up to `now`.
    pub fn busy_until(&self, now: Instant) -> Duration {
        self.stats.busy + self.busy_since.map_or(Duration::ZERO, |since| now.saturating_since(since))
    }

    /// Bytes that wait, as of the last call.
    pub fn queue_bytes(&self) -> u64 {
        self.queue.len_bytes()
    }

    /// Packets that wait, as of the last call.
    pub fn queue_packets(&self) -> usize {
        self.queue.len_packets()
    }

    /// The state of the queue in numbers by name, as of the last call: see [`Queue::signals`].
    pub fn signals(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        self.queue.signals(tell);
    }

    /// Whether nothing is on the link.
    pub fn is_empty(&self) -> bool {
        matches!(self.state, State::Idle)
            && self.line.in_order.is_empty()
            && self.line.late.is_empty()
            && self.held.is_empty()
    }

    /// Serves the queue up to and including `now`.
    fn serve(&mut self, now: Instant, sink: &mut impl Sink<P>) {
        loop {
            match &self.state {
                State::Idle => return,
                State::Sending { end, .. } if *end <= now => {
                    let end = *end;
                    if let State::Sending { queued, .. } = std::mem::replace(&mut self.state, State::Idle) {
                        self.depart(end, queued, sink);
                    }
                    self.begin(end, sink);
                }
                State::Held { until, lose_first } if *until <= now => {
                    let (until, lose_first) = (*until, *lose_first);
                    if lose_first {
                        self.lose_first(until, sink);
                    }
                    self.begin(until, sink);
                }
                State::HeldBack { until } if *until <= now => {
                    let until = *until;
                    self.begin(until, sink);
                }
                State::Waiting { .. } => {
                    let Server::Mahimahi(opportunities) = &mut self.server else { return };
                    let at = opportunities.next();
                    if at > now {
                        return;
                    }
                    opportunities.advance();
                    self.use_opportunity(at, sink);
                }
                State::Sending { .. } | State::Held { .. } | State::HeldBack { .. } => return,
            }
        }
    }

    /// The server is free at `at`: decides what it does next.
    fn begin(&mut self, at: Instant, sink: &mut impl Sink<P>) {
        if self.queue.len_packets() == 0 {
            return self.rest(at);
        }
        self.busy_since.get_or_insert(at);
        if let Server::Mahimahi(opportunities) = &mut self.server {
            opportunities.skip(at);
            self.state = State::Waiting { partial: None, lose_first: false };
            return;
        }
        if let Some((until, lose_first)) = held_by(&mut self.suspend_before, at) {
            self.state = State::Held { until, lose_first };
            return;
        }
        match self.take(at, sink) {
            Some(queued) => {
                let end = self.server.serve(at, queued.packet.size);
                self.state = State::Sending { queued, end };
            }
            // Held back until a time that is later, or else time would stand still.
            None if self.queue.len_packets() > 0 => {
                let until = self.queue.next_event().unwrap_or(Instant::FAR_FUTURE);
                self.state = State::HeldBack { until: until.max(at + Duration::from_nanos(1)) };
            }
            None => self.rest(at),
        }
    }

    /// Nothing waits any more.
    fn rest(&mut self, at: Instant) {
        self.state = State::Idle;
        if let Some(since) = self.busy_since.take() {
            self.stats.busy += at.saturating_since(since);
        }
    }

    /// Takes the next packet out of the queue.
    fn take(&mut self, at: Instant, sink: &mut impl Sink<P>) -> Option<Queued<P>> {
        let queued = self.queue.dequeue(at, &mut self.dropped);
        self.report_dropped(sink);
        if let Some(queued) = &queued {
            let (flow, wait) = (queued.packet.flow, at.as_nanos().saturating_sub(queued.at.as_nanos()));
            self.stats.sojourn.record_nanos(wait);
            self.stats.flow_mut(flow).sojourn.record_nanos(wait);
        }
        queued
    }

    fn lose_first(&mut self, at: Instant, sink: &mut impl Sink<P>) {
        if let Some(queued) = self.take(at, sink) {
            self.drop_packet(at, queued.packet, DropCause::Suspension, sink);
        }
    }

    /// Up to 1,500 bytes leave at once, of one packet or of several.
    fn use_opportunity(&mut self, at: Instant, sink: &mut impl Sink<P>) {
        let State::Waiting { mut partial, mut lose_first } = std::mem::replace(&mut self.state, State::Idle) else {
            return;
        };
        if let Some((_, loses)) = held_by(&mut self.suspend_before, at) {
            // The opportunity is lost.
            lose_first |= loses;
            self.state = State::Waiting { partial, lose_first };
            return;
        }
        if lose_first {
            match partial.take() {
                Some((queued, _)) => self.drop_packet(at, queued.packet, DropCause::Suspension, sink),
                None => self.lose_first(at, sink),
            }
        }
        let mut left = Mahimahi::OPPORTUNITY;
        while left > 0 {
            let next = partial.take().or_else(|| {
                let queued = self.take(at, sink)?;
                let size = queued.packet.size;
                Some((queued, size))
            });
            let Some((queued, remaining)) = next else { break };
            if remaining > left {
                partial = Some((queued, remaining - left));
                break;
            }
            left -= remaining;
            self.depart(at, queued, sink);
        }
        if partial.is_none() && self.queue.len_packets() == 0 {
            self.rest(at);
        } else {
            self.state = State::Waiting { partial, lose_first: false };
        }
    }

    /// The last bit of a packet has left: decides its fate on the line.
    fn depart(&mut self, at: Instant, queued: Queued<P>, sink: &mut impl Sink<P>) {
        self.stats.served += 1;
        self.stats.served_bytes += u64::from(queued.packet.size);
        if queued.packet.ecn == Ecn::Ce {
            self.stats.marked += 1;
            self.stats.flow_mut(queued.packet.flow).marked += 1;
        }
        sink.departed(at, &queued.packet, queued.at);
        match self.line.send(at, queued.packet, &mut self.stats) {
            Ok(()) => {}
            Err((packet, cause)) => self.drop_packet(at, packet, cause, sink),
        }
    }

    fn deliver(&mut self, at: Instant, packet: Packet<P>, sink: &mut impl Sink<P>) {
        self.stats.delivered += 1;
        self.stats.delivered_bytes += u64::from(packet.size);
        sink.deliver(at, packet);
    }

    /// The suspension is over: everything at once.
    #[cold]
    fn release(&mut self, sink: &mut impl Sink<P>) {
        while let Some(packet) = self.held.pop_front() {
            self.deliver(self.held_until, packet, sink);
        }
    }

    fn drop_packet(&mut self, at: Instant, packet: Packet<P>, cause: DropCause, sink: &mut impl Sink<P>) {
        self.stats.dropped[cause.index()] += 1;
        sink.dropped(at, packet, cause);
    }

    #[inline]
    fn report_dropped(&mut self, sink: &mut impl Sink<P>) {
        if !self.dropped.is_empty() {
            self.report_some(sink);
        }
    }

    #[cold]
    fn report_some(&mut self, sink: &mut impl Sink<P>) {
        for Dropped { packet, at, cause } in self.dropped.drain(..) {
            self.stats.dropped[cause.index()] += 1;
            self.stats.flow_mut(packet.flow).dropped[cause.index()] += 1;
            sink.dropped(at, packet, cause);
        }
    }
}

/// Until when the last of these gates holds that hold now, and whether one takes its first packet with it.
#[inline]
fn held_by(gates: &mut [Gate], now: Instant) -> Option<(Instant, bool)> {
    let mut held = None;
    for gate in gates {
        if let Some((end, loses_first)) = gate.holds(now) {
            let (until, loses) = held.unwrap_or((end, false));
            held = Some((until.max(end), loses | loses_first));
        }
    }
    held
}

impl<P: Payload> Line<P> {
    fn send(
        &mut self,
        at: Instant,
        mut packet: Packet<P>,
        stats: &mut DirectionStats,
    ) -> Result<(), (Packet<P>, DropCause)> {
        let ordinal = self.served;
        self.served += 1;
        if let Some(ecn) = &mut self.ecn {
            packet.ecn = ecn.at(at).0.apply(packet.ecn);
        }
        // Every model decides about every packet, so that none shifts another's dice.
        let mut lost = false;
        for model in &mut self.loss {
            lost |= model.takes(at, ordinal, packet.flow, packet.tail);
        }
        if held_by(&mut self.outages, at).is_some() {
            return Err((packet, DropCause::Outage));
        }
        if lost {
            return Err((packet, DropCause::Loss));
        }
        let (probability, dice) = &mut self.corrupt;
        if *probability > Probability::NEVER {
            let dice = dice.of(packet.flow);
            if dice.chance(*probability) {
                packet.payload.corrupt(dice.bits());
                stats.corrupted += 1;
            }
        }
        let delay = match &mut self.delay {
            Delay::Constant(delay) => *delay,
            Delay::Schedule(cursor) => cursor.at(at).0,
        };
        let mut arrival = at + delay;
        let mut in_order = true;
        if let Some((jitter, dice)) = &mut self.jitter {
            let (jitter, _) = jitter.at(at);
            arrival += jitter.spread.draw(dice.of(packet.flow));
            in_order = !jitter.reorder;
        }
        // Those of lost packets are passed over.
        while let Some((shifted, by)) = self.shifts.front().filter(|(shifted, _)| *shifted <= ordinal) {
            if *shifted == ordinal {
                arrival += *by;
            }
            self.shifts.pop_front();
        }
        let mut late = Duration::ZERO;
        for (reorder, dice) in &mut self.reorder {
            if dice.of(packet.flow).chance(reorder.share) && late == Duration::ZERO {
                late = reorder.by;
            }
        }
        if late > Duration::ZERO {
            arrival += late;
            in_order = false;
        } else if in_order {
            arrival = arrival.max(self.last_arrival);
            self.last_arrival = arrival;
        }
        let (probability, dice) = &mut self.duplicate;
        let twice = *probability > Probability::NEVER && dice.of(packet.flow).chance(*probability);
        if twice {
            stats.duplicated += 1;
            self.fly(Flying { at: arrival, ordinal, packet: packet.clone() }, in_order);
        }
        self.fly(Flying { at: arrival, ordinal, packet }, in_order);
        Ok(())
    }

    fn fly(&mut self, flying: Flying<P>, in_order: bool) {
        if in_order {
            self.in_order.push_back(flying);
        } else {
            self.late.push(flying);
        }
    }

    /// The next packet that arrives by `now`.
    fn next_arrival(&mut self, now: Instant) -> Option<Flying<P>> {
        if self.late.is_empty() {
            return if self.in_order.front()?.at <= now { self.in_order.pop_front() } else { None };
        }
        let in_order = self.in_order.front().filter(|flying| flying.at <= now);
        let late = self.late.peek().filter(|flying| flying.at <= now);
        match (in_order, late) {
            // The heap's order: greater is earlier.
            (Some(first), Some(other)) if other > first => self.late.pop(),
            (Some(_), _) => self.in_order.pop_front(),
            (None, Some(_)) => self.late.pop(),
            (None, None) => None,
        }
    }
}
