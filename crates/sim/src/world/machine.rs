//! The machines of a flow: when their programs run, and what they hand to the network.

use thalweg_link::{Dice, Packet};
use thalweg_units::{Duration, DurationExt, Instant};

use super::{ORIGIN, World};
use crate::datagram::{Datagram, whole};
use crate::departures::Departures;
use crate::host::{Host, IP_UDP_HEADERS, Outbox, Status};
use crate::plan::HostModel;
use crate::tap::Seen;

/// Whether a datagram begins with a packet of QUIC's handshake: a long header that is none of 0-RTT (RFC 9000 section
/// 17.2).
fn is_handshake(datagram: &[u8]) -> bool {
    datagram.first().is_some_and(|first| first & 0x80 != 0 && first & 0x30 != 0x10)
}

/// A host and the machine that it runs on.
pub(super) struct Machine {
    pub(super) host: Box<dyn Host>,
    flow: usize,
    is_client: bool,
    /// Sent, but not on the network yet, by interface: one for each path beside the flow's own, and then that one.
    /// Without chance delay datagrams leave at once.
    departures: Vec<Departures>,
    /// When the program runs for its timer, as of its last turn: asking a host takes a walk over its connections.
    timer: Instant,
    turns: Turns,
    /// Arrived, but not seen yet.
    inbox: Vec<Packet<Box<Datagram>>>,
    inbox_at: Instant,
    pub(super) first_sent: Option<Instant>,
    touched: bool,
}

impl Machine {
    pub(super) fn new(
        host: Box<dyn Host>,
        model: HostModel,
        flow: usize,
        is_client: bool,
        departures: Vec<Departures>,
        dice: Dice,
    ) -> Self {
        let turns = Turns::new(model, dice);
        let timer = turns.timer(host.next_timer());
        Machine {
            host,
            flow,
            is_client,
            departures,
            timer,
            turns,
            inbox: Vec::new(),
            inbox_at: Instant::FAR_FUTURE,
            first_sent: None,
            touched: false,
        }
    }

    /// When something happens here next.
    pub(super) fn next(&self) -> Instant {
        self.departures.iter().map(Departures::next).fold(self.wakes(), Instant::min)
    }

    /// Whether something happened to it in the current event.
    pub(super) fn is_touched(&self) -> bool {
        self.touched
    }

    /// When the program runs next.
    fn wakes(&self) -> Instant {
        self.turns.runs(self.timer.min(self.inbox_at))
    }
}

/// When a program has its turns.
struct Turns {
    model: HostModel,
    dice: Dice,
    /// How much later than usual the next one is.
    late: Duration,
    /// The machine stands still from the first to the second, or did so the last time.
    pause: [Instant; 2],
}

impl Turns {
    fn new(model: HostModel, dice: Dice) -> Self {
        let mut turns = Turns { model, dice, late: Duration::ZERO, pause: [ORIGIN; 2] };
        turns.draw(ORIGIN);
        turns
    }

    /// Decides about the next turn, once there was one.
    fn draw(&mut self, now: Instant) {
        if self.model.spread > Duration::ZERO {
            self.late = Duration::from_nanos(self.dice.below(self.model.spread.nanos() + 1));
        }
        let Some(pauses) = self.model.pauses else { return };
        while self.pause[1] <= now {
            let mut draw = |most: Duration| Duration::from_nanos(self.dice.below(most.nanos()) + 1);
            let begin = self.pause[1] + draw(pauses.apart.saturating_mul(2));
            self.pause = [begin, begin + draw(pauses.longest)];
        }
    }

    /// When a program runs that would at `at`.
    fn runs(&self, at: Instant) -> Instant {
        let [begin, end] = self.pause;
        if at >= begin && at < end { end } else { at }
    }

    /// When the program would run whose timer is due then; never if it has none.
    fn timer(&self, timer: Option<Instant>) -> Instant {
        let Some(at) = timer else { return Instant::FAR_FUTURE };
        let granularity = self.model.timer_granularity.nanos();
        let fires = match granularity {
            0 => at,
            _ => Instant::from_nanos(at.as_nanos().div_ceil(granularity).saturating_mul(granularity)),
        };
        fires + self.model.wake_delay + self.late
    }

    /// How long after its arrival the program would see a datagram; `None`: at once, whenever it comes.
    fn receive_delay(&self, is_handshake: impl FnOnce() -> bool) -> Option<Duration> {
        let HostModel { receive_delay, spread, handshake, pauses, .. } = self.model;
        let is_ideal = receive_delay.is_zero() && spread.is_zero() && handshake.is_zero() && pauses.is_none();
        (!is_ideal).then(|| receive_delay + self.late + if is_handshake() { handshake } else { Duration::ZERO })
    }
}

impl World<'_> {
    /// A host gives a packet to the network.
    fn emit(&mut self, index: usize, packet: Packet<Box<Datagram>>) {
        self.watch(index, &packet, true);
        self.forward(packet);
    }

    /// Shows a packet at a host to whoever watches.
    fn watch(&mut self, index: usize, packet: &Packet<Box<Datagram>>, is_sent: bool) {
        if self.tap.is_some() {
            self.show(index, packet, is_sent);
        }
    }

    #[cold]
    fn show(&mut self, index: usize, packet: &Packet<Box<Datagram>>, is_sent: bool) {
        if let Some(tap) = &mut self.tap {
            let Machine { flow, is_client: at_client, ref host, .. } = self.machines[index];
            let at = self.now.saturating_since(ORIGIN);
            let (ecn, overhead) = (packet.ecn, host.overhead());
            let addresses = self.routes[flow].addresses(&packet.payload, at_client);
            let payload = whole(&packet.payload.bytes, packet.payload.zeros);
            tap.datagram(&Seen { at, flow, at_client, is_sent, addresses, ecn, overhead, payload: &payload });
        }
    }

    /// A packet has reached a host.
    pub(super) fn arrive(&mut self, index: usize, packet: Packet<Box<Datagram>>) {
        self.watch(index, &packet, false);
        let machine = &mut self.machines[index];
        let is_handshake = || machine.host.overhead() == IP_UDP_HEADERS && is_handshake(&packet.payload.bytes);
        let Some(delay) = machine.turns.receive_delay(is_handshake) else {
            self.receive(index, packet);
            self.touch(index);
            return;
        };
        // Not seen yet, so nothing is sent in answer yet.
        machine.inbox_at = machine.inbox_at.min(self.now + delay);
        machine.inbox.push(packet);
        self.schedule(index);
    }

    /// A host sees a datagram, if it came to an address that the host still has.
    fn receive(&mut self, index: usize, mut packet: Packet<Box<Datagram>>) {
        if let Some(envelope) = self.routes[index / 2].envelope(&packet.payload, packet.ecn) {
            let Datagram { bytes, zeros, .. } = &mut *packet.payload;
            let host = &mut self.machines[index].host;
            match *zeros {
                0 => host.datagram(self.now, envelope, bytes),
                zeros => host.padded(self.now, envelope, bytes, zeros),
            }
        }
        self.pool.put(packet.payload);
    }

    pub(super) fn touch(&mut self, index: usize) {
        if !self.machines[index].touched {
            self.machines[index].touched = true;
            self.touched.push(index);
        }
    }

    /// A host's time has come.
    pub(super) fn wake(&mut self, index: usize) {
        self.depart(index);
        let machine = &mut self.machines[index];
        if machine.wakes() > self.now {
            // Datagrams have left, of which the program knows nothing.
            return;
        }
        if machine.inbox_at <= self.now {
            machine.inbox_at = Instant::FAR_FUTURE;
            let mut inbox = std::mem::take(&mut machine.inbox);
            for packet in inbox.drain(..) {
                self.receive(index, packet);
            }
            self.machines[index].inbox = inbox;
        }
        // What has arrived may have put the timer off.
        let machine = &mut self.machines[index];
        if machine.turns.timer(machine.host.next_timer()) <= self.now {
            machine.host.timer(self.now);
        }
        machine.turns.draw(self.now);
        self.touch(index);
    }

    /// Sends what a host has to send.
    pub(super) fn flush(&mut self, index: usize) {
        let machine = &mut self.machines[index];
        machine.touched = false;
        machine.host.poll_send(self.now, &mut Outbox { pool: &mut self.pool, out: &mut self.out, connection: 0 });
        machine.timer = machine.turns.timer(machine.host.next_timer());
        let (flow, overhead) = (machine.flow, machine.host.overhead());
        if !self.out.is_empty() {
            machine.first_sent.get_or_insert(self.now);
        }
        let side = usize::from(machine.is_client);
        let is_over = machine.is_client && machine.host.status() != Status::Running && !machine.host.is_busy();
        if is_over && !self.progress.over[flow] {
            self.progress.over[flow] = true;
            self.progress.unfinished -= usize::from(!self.plan.flows[flow].traffic.is_endless());
        }
        while let Some(outgoing) = self.out.pop_front() {
            self.account.datagrams += 1;
            let size = u32::try_from(outgoing.datagram.size()).unwrap_or(u32::MAX).saturating_add(overhead);
            let (ecn, connection, tail) = (outgoing.envelope.ecn, outgoing.connection, outgoing.tail);
            let Some(payload) = self.address(index, outgoing) else { continue };
            let packet = Packet { payload, size, flow: flow as u32, connection, ecn, sent: self.now, tail };
            // One network carries what all clients, or all servers, send: what hands it over is woken by any of them.
            let idle = self.now.saturating_since(std::mem::replace(&mut self.handed_over[side], self.now));
            let departures = &mut self.machines[index].departures;
            // What leaves by one interface does not wait for the noise of another.
            let interface = (packet.payload.entry as usize).min(departures.len().saturating_sub(1));
            match departures.get_mut(interface) {
                Some(departures) => departures.push(self.now, idle, packet),
                None => self.emit(index, packet),
            }
        }
        self.depart(index);
    }

    /// Hands over to the network what was delayed until now.
    fn depart(&mut self, index: usize) {
        for interface in 0..self.machines[index].departures.len() {
            while let Some(packet) = self.machines[index].departures[interface].pop(self.now) {
                self.emit(index, packet);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use thalweg_link::Streams;

    use super::*;
    use crate::plan::Pauses;

    const MODEL: HostModel = HostModel {
        handshake: Duration::from_micros(400),
        spread: Duration::from_micros(100),
        pauses: Some(Pauses { apart: Duration::from_secs(6), longest: Duration::from_millis(12) }),
        ..HostModel::IDEAL
    };

    #[test]
    fn a_machine_stands_still_as_often_and_as_long_as_its_model_says() {
        let mut turns = Turns::new(MODEL, Streams::new(1).dice("turns"));
        let (mut pauses, mut still) = (0, Duration::ZERO);
        let end = ORIGIN + Duration::from_secs(60_000);
        while turns.pause[1] < end {
            let [begin, end] = turns.pause;
            assert!(begin < end && end <= begin + Duration::from_millis(12), "{begin:?} {end:?}");
            let just = Duration::from_nanos(1);
            assert_eq!([begin, end - just].map(|at| turns.runs(at)), [end; 2]);
            assert_eq!([begin - just, end].map(|at| turns.runs(at)), [begin - just, end]);
            (pauses, still) = (pauses + 1, still + end.saturating_since(begin));
            turns.draw(end);
            assert!(turns.pause[0] > end);
        }
        assert!((9_700..=10_300).contains(&pauses), "{pauses}");
        let mean = still / pauses;
        assert!(mean > Duration::from_micros(5_800) && mean < Duration::from_micros(6_200), "{mean:?}");
    }

    #[test]
    fn a_pause_while_nothing_was_to_do_is_over() {
        let mut turns = Turns::new(MODEL, Streams::new(2).dice("turns"));
        let later = ORIGIN + Duration::from_secs(600);
        assert_eq!(turns.runs(later), later);
        turns.draw(later);
        assert!(turns.pause[1] > later && turns.pause[0] < later + Duration::from_secs(13), "{:?}", turns.pause);
    }

    #[test]
    fn turns_are_late_by_no_more_than_the_spread_and_handshakes_by_what_they_cost() {
        let mut turns = Turns::new(MODEL, Streams::new(3).dice("turns"));
        let (mut least, mut most) = (Duration::MAX, Duration::ZERO);
        for _ in 0..1000 {
            turns.draw(ORIGIN);
            let late = turns.timer(Some(ORIGIN)).saturating_since(ORIGIN);
            assert_eq!(turns.receive_delay(|| false), Some(late));
            assert_eq!(turns.receive_delay(|| true), Some(late + MODEL.handshake));
            (least, most) = (least.min(late), most.max(late));
        }
        assert!(least < Duration::from_micros(1) && most > Duration::from_micros(99) && most <= MODEL.spread);
        assert_eq!(turns.timer(None), Instant::FAR_FUTURE);
        // Initial, Handshake, 0-RTT, 1-RTT.
        assert_eq!([0xc3, 0xe3, 0xd3, 0x43].map(|first| is_handshake(&[first])), [true, true, false, false]);
        let ideal = Turns::new(HostModel::IDEAL, Streams::new(3).dice("turns"));
        assert_eq!((ideal.receive_delay(|| true), ideal.timer(Some(ORIGIN))), (None, ORIGIN));
    }
}
