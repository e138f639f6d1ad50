//! The machines of a flow: when their programs run, and what they hand to the network.

use thalweg_link::Packet;
use thalweg_units::{Duration, DurationExt, Instant};

use super::{ORIGIN, World};
use crate::datagram::{Datagram, whole};
use crate::departures::Departures;
use crate::host::{Host, Outbox, Status};
use crate::plan::HostModel;
use crate::tap::Seen;

/// A host and the machine that it runs on.
pub(super) struct Machine {
    pub(super) host: Box<dyn Host>,
    model: HostModel,
    flow: usize,
    is_client: bool,
    /// Sent, but not on the network yet, by interface: one for each path beside the flow's own, and then that one.
    /// Without chance delay datagrams leave at once.
    departures: Vec<Departures>,
    /// When the program runs for its timer, as of its last turn: asking a host takes a walk over its connections.
    timer: Instant,
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
    ) -> Self {
        let timer = model.runs_at(host.next_timer());
        Machine {
            host,
            model,
            flow,
            is_client,
            departures,
            timer,
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
        self.timer.min(self.inbox_at)
    }
}

impl HostModel {
    /// When the program runs whose timer is due then; never if it has none.
    fn runs_at(&self, timer: Option<Instant>) -> Instant {
        let Some(at) = timer else { return Instant::FAR_FUTURE };
        let granularity = self.timer_granularity.nanos();
        let fires = match granularity {
            0 => at,
            _ => Instant::from_nanos(at.as_nanos().div_ceil(granularity).saturating_mul(granularity)),
        };
        fires + self.wake_delay
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
        if machine.model.receive_delay == Duration::ZERO {
            self.receive(index, packet);
            self.touch(index);
        } else {
            // Not seen yet, so nothing is sent in answer yet.
            machine.inbox_at = machine.inbox_at.min(self.now + machine.model.receive_delay);
            machine.inbox.push(packet);
            self.schedule(index);
        }
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
        if machine.model.runs_at(machine.host.next_timer()) <= self.now {
            machine.host.timer(self.now);
        }
        self.touch(index);
    }

    /// Sends what a host has to send.
    pub(super) fn flush(&mut self, index: usize) {
        let machine = &mut self.machines[index];
        machine.touched = false;
        machine.host.poll_send(self.now, &mut Outbox { pool: &mut self.pool, out: &mut self.out, connection: 0 });
        machine.timer = machine.model.runs_at(machine.host.next_timer());
        let (flow, overhead) = (machine.flow, machine.host.overhead());
        if !self.out.is_empty() {
            machine.first_sent.get_or_insert(self.now);
        }
        if machine.is_client && !self.over[flow] && machine.host.status() != Status::Running && !machine.host.is_busy()
        {
            self.over[flow] = true;
            self.unfinished -= usize::from(!self.plan.flows[flow].traffic.is_endless());
        }
        while let Some(outgoing) = self.out.pop_front() {
            self.account.datagrams += 1;
            let size = u32::try_from(outgoing.datagram.size()).unwrap_or(u32::MAX).saturating_add(overhead);
            let (ecn, connection, tail) = (outgoing.envelope.ecn, outgoing.connection, outgoing.tail);
            let Some(payload) = self.address(index, outgoing) else { continue };
            let packet = Packet { payload, size, flow: flow as u32, connection, ecn, sent: self.now, tail };
            let departures = &mut self.machines[index].departures;
            // What leaves by one interface does not wait for the noise of another.
            let interface = (packet.payload.entry as usize).min(departures.len().saturating_sub(1));
            match departures.get_mut(interface) {
                Some(departures) => departures.push(self.now, packet),
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
