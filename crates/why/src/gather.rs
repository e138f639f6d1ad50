//! Gathers from a log what tells why its sender was slow, event by event, in bounded memory.

mod arrivals;
mod back;
mod curve;
mod flight;
mod frameless;
mod frames;
mod inferred;
mod late;
mod number;
mod silence;
mod sizes;
mod stack;
mod stalls;
mod thinned;
mod usage;
mod waits;
mod window;

use self::arrivals::keep;
pub(crate) use self::arrivals::{Arrivals, OtherEnd, Times};
use self::back::Back;
pub(crate) use self::curve::Curve;
use self::flight::Flight;
pub(crate) use self::flight::Lost;
use self::frameless::Frameless;
use self::frames::{Frames, Received};
use self::inferred::Inferred;
use self::late::Late;
use self::number::integer;
use self::silence::Silences;
pub(crate) use self::silence::{Came, Early, Silence};
pub(crate) use self::sizes::Drop;
pub(crate) use self::stack::Stack;
use self::stack::Writer;
pub(crate) use self::waits::Limit;
use self::waits::Waits;
use self::window::Window;
use crate::bins::Bins;
use crate::read::{Data, EventIn, FirstTrace, Header, Item};

/// Times further back than this are out of order, milliseconds.
const BACK: f64 = 1.0;
/// Times further from the last one than this are wrong, unless so many in a row are; milliseconds.
const LEAP: f64 = 3_600_000.0;
const LEAPS: u64 = 5;
/// Times between reads from this share of the shortest round trip on are round trips.
const ROUND: f64 = 0.9;
/// No log is longer, milliseconds.
const LONGEST: f64 = 1e10;

/// Records that could not be read, between two times in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Damage {
    pub(crate) records: u64,
    pub(crate) from: f64,
    pub(crate) to: f64,
}

/// How well the file could be read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Condition {
    pub(crate) events: u64,
    pub(crate) damage: Vec<Damage>,
    pub(crate) out_of_order: u64,
    pub(crate) furthest_back: f64,
    pub(crate) other_connections: u64,
    pub(crate) is_truncated: bool,
    /// Records whose time is far from those around them.
    pub(crate) leaps: u64,
    leaps_in_a_row: u64,
    connection: Option<String>,
    /// Damaged records whose time is not known yet.
    pending: u64,
}

/// Steps of the connection, milliseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Course {
    pub(crate) first: Option<f64>,
    pub(crate) last: f64,
    pub(crate) handshake: Option<f64>,
    pub(crate) is_closed: bool,
    pub(crate) migrations: u64,
    pub(crate) start_exit: Option<f64>,
    pub(crate) congestion_events: u64,
    /// Packets with application data that were sent, and that were received.
    pub(crate) packets: [u64; 2],
    /// When those that were sent left.
    pub(crate) departures: Times,
    /// Retry packets, and packets of the handshake that were lost: when.
    pub(crate) retry: Option<f64>,
    pub(crate) handshake_losses: Vec<f64>,
}

/// What a log says.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) header: Header,
    pub(crate) condition: Condition,
    pub(crate) course: Course,
    pub(crate) flight: Flight,
    pub(crate) silences: Silences,
    pub(crate) waits: Waits,
    pub(crate) received: Received,
    pub(crate) arrivals: Arrivals,
    pub(crate) late: Late,
    pub(crate) back: Back,
    /// A drop of the path's MTU.
    pub(crate) drop: Option<Drop>,
    pub(crate) largest_packet: u64,
    pub(crate) window: Window,
    /// What the receiver's log says, if it was given as well.
    pub(crate) other_end: Option<OtherEnd>,
    writer: Writer,
    /// Whether the first packet was received.
    is_server: Option<bool>,
    inferred: Inferred,
    frameless: Frameless,
    trace: FirstTrace,
}

impl Facts {
    /// One more item of the log.
    pub(crate) fn add(&mut self, item: Item<EventIn<'_>>) {
        match item {
            Item::Damaged => self.condition.pending += 1,
            Item::Truncated => self.condition.is_truncated = true,
            item => {
                if let Some(event) = self.trace.event(item) {
                    self.event(event);
                }
            }
        }
    }

    /// There is nothing more.
    pub(crate) fn finish(&mut self) {
        self.damage(self.course.last);
        self.header = self.trace.header.clone();
        self.writer.header(&self.header);
        let is_end = |end: &str| matches!(end, "client" | "server");
        if !self.header.vantage_point.as_deref().is_some_and(is_end) {
            let end = if self.is_server == Some(true) { "server" } else { "client" };
            self.header.vantage_point = Some(end.to_owned());
        }
        if self.trace.traces > 1 {
            self.condition.other_connections += self.trace.traces - 1;
        }
        self.flight.finish();
        // What is lost only once, within a round trip, may be an outage.
        let again = self.flight.least.unwrap_or(0.0) / 2.0;
        self.drop = self.flight.losses.sizes.drop().filter(|drop| drop.until - drop.first > again);
        self.silences.finish(&self.flight.losses.lost);
        if let Some(shown) = self.frameless.stalls.window() {
            self.waits.credit.shown(&shown);
            shown.spans.into_iter().for_each(|span| self.waits.stalled(span));
            // So the log says what the sender waited for.
            self.frameless.usage.unused = 0.0;
        }
    }

    fn damage(&mut self, until: f64) {
        if self.condition.pending > 0 {
            let damage = Damage { records: self.condition.pending, from: self.course.last, to: until };
            let list = &mut self.condition.damage;
            let is_long = list.len() >= 16;
            match list.last_mut() {
                // What lies close together, and what is beyond counting, is one.
                Some(last) if damage.from - last.to < 100.0 || is_long => {
                    last.records += damage.records;
                    last.to = damage.to;
                }
                _ => list.push(damage),
            }
            self.condition.pending = 0;
        }
    }

    fn event(&mut self, event: EventIn<'_>) {
        if let Some(connection) = event.connection {
            let first = self.condition.connection.get_or_insert_with(|| connection.to_owned());
            if first != connection {
                self.condition.other_connections = self.condition.other_connections.max(1);
                return;
            }
        }
        if self.leaps(event.time) {
            return;
        }
        self.condition.events += 1;
        self.damage(event.time);
        self.course.first.get_or_insert(event.time);
        let back = self.course.last - event.time;
        if back > 0.0 && self.condition.events > 1 {
            // A little is how several threads write; more is told.
            self.condition.out_of_order += u64::from(back > BACK);
            self.condition.furthest_back = self.condition.furthest_back.max(back);
        }
        self.course.last = self.course.last.max(event.time);
        let now = self.course.last;
        self.dispatch(now, event.name, event.data);
    }

    /// Whether a time is so far from the last one that the record is wrong rather than late.
    fn leaps(&mut self, time: f64) -> bool {
        let is_far = self.condition.events > 0 && (time - self.course.last).abs() > LEAP;
        let is_wrong = !(0.0..LONGEST).contains(&time.abs()) || is_far;
        if !is_wrong || (is_far && self.condition.leaps_in_a_row >= LEAPS && time.abs() < LONGEST) {
            self.condition.leaps_in_a_row = 0;
            return false;
        }
        self.condition.leaps_in_a_row += 1;
        self.condition.leaps += 1;
        true
    }

    fn dispatch(&mut self, now: f64, name: &str, data: Data<'_>) {
        let label = |key: &str| data.get(key).and_then(Data::as_str);
        match name {
            "packet_sent" => self.sent(now, data),
            "packet_received" => self.arrived(now, data),
            "packet_lost" => {
                let is_probe = data.get("is_mtu_probe_packet").and_then(Data::as_bool) == Some(true);
                match number_of_data(data) {
                    Some(number) if !is_probe => {
                        let size = data.get("header").and_then(|header| header.get("length")).and_then(integer);
                        let number = if self.is_frameless() { self.frameless.lost(number, size) } else { number };
                        self.flight.lost(now, number);
                    }
                    None if self.course.handshake_losses.len() < 16 => self.course.handshake_losses.push(now),
                    _ => {}
                }
            }
            "spurious_loss" | "spurious_loss_detected" => {
                if let Some(number) = number_of_data(data) {
                    self.flight.spurious(now, number);
                }
            }
            "connection_state_updated" => {
                let done = ["handshake_complete", "handshake_completed", "handshake_confirmed"];
                if label("new").is_some_and(|new| done.contains(&new)) {
                    self.course.handshake.get_or_insert(now);
                }
            }
            "connection_data_blocked_updated" => {
                let is_blocked = label("new") == Some("blocked");
                self.waits.limited(now, if is_blocked { label("reason") } else { None });
            }
            "recovery_metrics_updated" | "metrics_updated" => {
                self.writer.header(&self.trace.header);
                self.window.metrics(data);
                if self.is_frameless() {
                    let ack = self.frameless.metrics(now, data);
                    self.frameless.given_up().into_iter().for_each(|number| self.flight.forget(number));
                    if ack.is_some() {
                        self.acked(now, &Frames { ack, ..Frames::default() });
                    }
                }
                // quiche only counts them.
                let lost = data.get("cf_lost_packets").and_then(|lost| lost.get("delta")).and_then(integer);
                if let Some(count) = lost {
                    self.flight.lost_oldest(now, count);
                }
                if let Some(rate) = data.get("pacing_rate").and_then(Data::as_f64) {
                    self.late.rate(rate);
                }
            }
            "start_exited" => {
                self.course.start_exit.get_or_insert(now);
            }
            "congestion_event" => self.course.congestion_events += 1,
            "migration_state_updated" => {
                self.course.migrations += u64::from(label("new") == Some("migration_complete"))
            }
            "parameters_set" | "parameters_restored" => self.waits.credit.parameters(data),
            "connection_closed" => self.course.is_closed = true,
            _ => {}
        }
    }

    fn sent(&mut self, now: f64, data: Data<'_>) {
        let size = size_of(data);
        self.largest_packet = self.largest_packet.max(size);
        self.writer.header(&self.trace.header);
        self.writer.sent(data);
        self.is_server.get_or_insert(false);
        let number = number_of_data(data);
        let has_no_data = self.flight.has_no_data();
        let had_room = self.is_frameless() && has_no_data && self.frameless.usage.had_room();
        let frames = match number {
            Some(number) if self.is_frameless() => self.frameless.sent(now, number, size, has_no_data),
            _ => Frames::of(data),
        };
        if number.is_none() && self.is_frameless() {
            self.frameless.sent_early(size);
        }
        self.flight.index += 1;
        if frames.is_ack_eliciting {
            self.silences.sent(now);
        }
        let Some(number) = number else { return };
        self.course.packets[0] += 1;
        keep(&mut self.course.departures, number, now, size);
        // quinn and noq pace all that they send, and do not log what they wait for.
        let is_paced = self.waits.holds(Limit::Pacing) || matches!(self.stack(), Stack::Quinn | Stack::Noq);
        self.late.sent(now, size, is_paced);
        let is_told = self.stack() == Stack::Ours;
        if !is_told && self.inferred.has_paused(now, &frames, had_room) {
            self.waits.paused();
        }
        let fresh = self.waits.sent(now, &frames, self.flight.net.last);
        if frames.is_ack_eliciting {
            self.flight.sent(now, number, size, (fresh, !frames.pieces.is_empty()));
        }
        if !is_told {
            self.inferred.sent(&frames);
            self.waits.inferred(now, self.inferred.limit());
        }
    }

    /// Whether the log has no frames, but metrics that stand for them.
    fn is_frameless(&self) -> bool {
        self.stack() == Stack::Quinn
    }

    /// Whether the log says what was in its packets.
    pub(crate) fn has_frames(&self) -> bool {
        !self.is_frameless()
    }

    /// Milliseconds in which the sender waited for credit or for the application, of which the log does not say which.
    pub(crate) fn unused(&self) -> f64 {
        self.frameless.usage.unused
    }

    /// What is known of who wrote the log.
    pub(crate) fn stack(&self) -> Stack {
        self.writer.stack()
    }

    fn arrived(&mut self, now: f64, data: Data<'_>) {
        let (number, size) = (number_of_data(data), size_of(data));
        self.is_server.get_or_insert(true);
        self.frameless.arrived();
        if self.silences.arrived(now, size, &self.flight) {
            self.flight.silent(now);
        }
        let kind = data.get("header").and_then(|header| header.get("packet_type")).and_then(Data::as_str);
        if kind == Some("retry") {
            self.course.retry.get_or_insert(now);
        }
        let mut frames = Frames::of(data);
        if let Some(ack) = &mut frames.ack {
            ack.mend(self.stack(), self.waits.credit.delay_exponent);
        }
        self.late.read(now, number.is_some());
        self.back.took(self.flight.least);
        match self.stack() {
            Stack::Quiche => self.back.arrived_of_rest(now, size, number.is_none()),
            _ => self.back.arrived(now, size),
        }
        self.received.add(now, &frames);
        self.arrivals.add(now, &frames);
        if let Some(number) = number {
            self.course.packets[1] += 1;
            keep(&mut self.arrivals.times, number, now, size);
            self.waits.received(number);
            self.acked(now, &frames);
        }
    }

    /// Frames have arrived in a packet with application data.
    fn acked(&mut self, now: f64, frames: &Frames) {
        if let Some(ack) = &frames.ack {
            let silences = &mut self.silences;
            self.flight.acked(now, ack, &mut |number, sent| silences.acked(now, number, sent));
        }
        self.waits.credit.frames(frames, self.flight.payload_acked);
        if self.stack() != Stack::Ours {
            self.inferred.parameters(self.waits.credit.initial);
            self.inferred.arrived(now, frames, self.flight.has_no_data());
            self.waits.inferred(now, self.inferred.limit());
        }
    }

    /// The rate of a thin way back, bytes on the wire per millisecond.
    pub(crate) fn thin_back(&self) -> Option<f64> {
        self.back.thin(self.stack() != Stack::Ours)
    }

    /// How long packets wait at the sender until they are read, milliseconds; zero where they do not.
    pub(crate) fn reads(&self) -> f64 {
        let (reads, shortest) = (self.late.reads(), self.flight.least.unwrap_or(f64::MAX));
        // A sender whose application pauses reads once a round trip at most, whatever its host does: how much of the
        // time between reads is the host's is not known, and half is the middle of what it may be.
        if reads > ROUND * shortest && !self.waits.pauses.is_empty() { shortest / 2.0 } else { reads }
    }

    /// The same where it may as well be shorter, and the path longer by as much.
    pub(crate) fn shorter_reads(&self) -> Vec<f64> {
        let (reads, shortest) = (self.reads(), self.flight.least.unwrap_or(f64::MAX));
        if reads > ROUND * shortest { late::parts_of_round(reads, shortest).to_vec() } else { Vec::new() }
    }

    /// Round-trip times of packets, milliseconds.
    pub(crate) fn round_trips(&self) -> &Bins {
        &self.flight.round_trips
    }
}

/// The number of a packet with application data.
fn number_of_data(data: Data<'_>) -> Option<u64> {
    let header = data.get("header");
    // aioquic names the type of a lost packet otherwise.
    let kind = header.and_then(|header| header.get("packet_type")).or_else(|| data.get("packet_type"));
    let kind = kind.or_else(|| data.get("type"));
    let is_data = kind.and_then(Data::as_str).is_some_and(|kind| kind.eq_ignore_ascii_case("1rtt") || kind == "0RTT");
    let number = header.and_then(|header| header.get("packet_number")).or_else(|| data.get("packet_number"));
    if is_data { number.and_then(integer) } else { None }
}

/// No packet is larger, bytes.
const LARGEST: u64 = 65_535;

fn size_of(data: Data<'_>) -> u64 {
    let raw = data.get("raw").and_then(|raw| raw.get("length"));
    let header = |key: &str| data.get("header").and_then(|header| header.get(key));
    raw.or_else(|| header("packet_size"))
        .or_else(|| header("length"))
        .or_else(|| data.get("packet_size"))
        .and_then(integer)
        .unwrap_or(0)
        .min(LARGEST)
}

#[cfg(test)]
mod tests;
