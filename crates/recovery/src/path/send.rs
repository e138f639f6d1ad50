//! Packets leave: how much may, and what is noted of each.

use thalweg_units::Instant;

use super::Path;
use crate::congestion::{Change, PathView};
use crate::sent::Transmission;
use crate::trace::{Event, Trace};
use crate::types::Budget;

impl Path {
    /// How much may leave.
    pub(crate) fn budget(&mut self, now: Instant) -> Budget {
        self.limit.budget(now, self.datagram_size, self.flight.bytes, self.episode.repair_packet)
    }

    /// The transport has nothing to send, or has something again. Being held by the window or the pacer is not it (RFC
    /// 9002 section 7.8); being held by a rate that the application chose is: the window would grow without ever being
    /// used.
    pub(crate) fn set_application_limited(&mut self, now: Instant, limited: bool, trace: &mut Trace) {
        if limited {
            self.limit.on_held();
        }
        let limited = (limited || self.limit.is_capped) && !self.limit.is_full(self.datagram_size, self.flight.bytes);
        if limited {
            self.usage.on_unused(self.stats.packets_sent);
            self.delivery.on_application_limited(self.flight.bytes);
        }
        if limited != self.usage.is_limited {
            self.usage.is_limited = limited;
            let change = self.controller.on_application_limited(now, limited);
            self.ask_after(now, change);
            trace.push(now, self.id, Event::AppLimited { limited });
            self.tell_state(now, trace);
        }
    }

    /// A packet leaves on this path: fills in its place among the packets of the path, counted from 1, whether it
    /// begins a burst, and what delivery looks like.
    pub(crate) fn on_sent(&mut self, sent: &mut Transmission) {
        let size = u64::from(sent.size);
        let now = sent.time;
        self.stats.packets_sent += 1;
        self.stats.bytes_sent += size;
        self.flight.packets += 1;
        if self.marking.validation.is_testing() {
            self.marking.validation.on_sent(now, sent.ecn, self.rtt.probe_base());
        }
        sent.order = self.stats.packets_sent;
        if !sent.in_flight {
            return;
        }
        if self.flight.bytes == 0 && now > self.flight.idle_since && sent.order > 1 {
            self.validate_window(now);
            let change = self.controller.on_restart(now, now.saturating_since(self.flight.idle_since));
            self.ask_after(now, change);
        }
        sent.begins_burst = self.flight.begins_burst(now);
        self.flight.bytes += size;
        self.usage.on_flight(self.flight.bytes);
        self.stats.max_bytes_in_flight = self.stats.max_bytes_in_flight.max(self.flight.bytes);
        self.episode.repair_packet = false;
        self.limit.on_sent(now, size);
        if self.limit.is_full(self.datagram_size, self.flight.bytes) {
            self.usage.on_full(sent.order);
        }
        sent.delivery = self.delivery.on_sent(now, self.flight.bytes, size);
        let change = self.controller.on_sent(now, size, self.flight.bytes);
        self.ask_after(now, change);
    }

    fn validate_window(&mut self, now: Instant) {
        let (window, initial) = (self.window(), self.initial_window());
        if let Some(window) = self.flight.validated(now, self.rtt.probe_base(), window, initial) {
            let change = self.controller.on_validation(now, window);
            self.ask_after(now, change);
        }
    }

    /// The probe timer expired once more, and so many datagrams probe.
    pub(crate) fn on_pto(&mut self, now: Instant, datagrams: u8) {
        self.backoff.on_timeout(now);
        self.on_probes(now, self.backoff.count, datagrams);
    }

    /// So many datagrams probe.
    pub(crate) fn on_probes(&mut self, now: Instant, count: u32, datagrams: u8) {
        self.marking.validation.on_silence();
        self.stats.ptos += 1;
        self.stats.probes += u64::from(datagrams);
        let change = self.controller.on_probe_timeout(now, count);
        self.ask_after(now, change);
    }

    /// Asks the controller what it allows, if that may have changed.
    pub(super) fn ask_after(&mut self, now: Instant, change: Change) {
        match change {
            Change::None => {}
            Change::Allowance => self.ask(now),
        }
    }

    /// Asks the controller what it allows.
    pub(super) fn ask(&mut self, now: Instant) {
        let allowance = self.controller.allowance(&PathView::new(now, &self.rtt, self.flight.bytes));
        self.limit.allow(allowance, self.rtt.paced, self.datagram_size);
        self.stats.max_window = self.stats.max_window.max(self.window());
        self.limit.enforce(now, self.datagram_size, self.initial_window(), self.rtt.has_sample);
    }
}
