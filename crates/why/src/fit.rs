//! Reads a path, and what was sent over it, off the facts of a log.

mod bucket;
mod policer;
pub(crate) mod rules;
mod stops;

use thalweg_link::Policer;
use thalweg_proto::MtuRules;
use thalweg_recovery::Policies;
use thalweg_units::{Duration, Rate, math};

use self::bucket::Fit;
use self::policer::{Policed, policed, rate_of, unseen};
use self::stops::{EARLY, LATE, MIDDLE, in_drop, in_silence, interruptions, millis};
use crate::Cause;
use crate::bins::ENOUGH_BYTES;
use crate::course::Course;
use crate::gather::{Drop, Facts, Limit, Lost, Stack};
use crate::world::{Credit, EVERY, HEADERS, Host, Load, Path, Sender, Span, THIN, World};

/// A path as read off a log, and what was sent over it.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    pub(crate) world: World,
    /// How long the data took, from the first packet to the last acknowledgment of new data.
    pub(crate) completion: Duration,
    /// Whether all data that were sent were acknowledged.
    pub(crate) is_whole: bool,
    /// The shortest round trip that was measured, a packet's time on the bottleneck included.
    pub(crate) shortest: Duration,
    /// When each part of what was sent had left.
    pub(crate) course: Course,
    /// Packets that were lost.
    pub(crate) declared_lost: u64,
    /// Packets with data.
    pub(crate) packets: u64,
    /// Whether the sender's rules are known.
    pub(crate) knows_rules: bool,
    /// Whether they are assumed to be those that the stack ships.
    pub(crate) is_assumed: bool,
    /// Losses that a full queue explains, and those by chance.
    pub(crate) losses: (u64, u64),
    /// The rates between which the bottleneck's is, if it never showed; on the wire.
    pub(crate) unknown_rate: Option<(Rate, Rate)>,
    /// The fastest that anything came through, on the wire.
    pub(crate) seen_rate: Rate,
    /// Silences that count as interruptions: begin and end since the first packet, milliseconds, and whether packets
    /// were lost.
    pub(crate) stops: Vec<(f64, f64, bool)>,
    /// Silences that may be interruptions: the sender may also have waited for the newest packets, which were lost; and
    /// those that a drop of the MTU may explain, if the run shows them without anything else.
    pub(crate) unclear: [Vec<Span>; 2],
    /// Outages and suspensions, if they began earlier or later than read.
    begun: [(Vec<Span>, Vec<Span>); 2],
    /// How late the sender's host may read instead, with a path that is longer by what it is less.
    pub(crate) shorter_reads: Vec<Duration>,
    /// The policer that the losses look like.
    policed: Option<Policed>,
    /// The client's first packet, milliseconds in the log.
    zero: f64,
    /// A drop of the path's MTU.
    pub(crate) drop: Option<Drop>,
}

/// Bytes on the wire of an acknowledgment, and of the client's first packet.
const SMALL: f64 = 65.0;
const LARGE: f64 = 1228.0;

/// Reads the path; why it cannot be read.
pub(crate) fn fit(facts: &Facts) -> Result<Reading, &'static str> {
    let start = facts.course.first.ok_or("no event is in it")?;
    let (first, _) = facts.waits.span.ok_or("no data of a stream was sent in it")?;
    facts.flight.last_payload.ok_or("no data of a stream was acknowledged in it")?;
    let round_trip = facts.round_trips().quantile(0.0).ok_or("no round trip can be measured in it")?;
    let is_up = facts.header.vantage_point.as_deref() == Some("client");
    let end_of = |rate: f64| end(facts, round_trip, rate);
    let end = end_of(0.0);
    let bytes = facts.waits.bytes().max(1);
    let (sender, knows_rules) = sender(facts);
    let (mut rate, mut bounds, seen) = rate(facts, (first, end));
    let fastest = bounds.map_or(rate, |(_, high)| high.max(rate));
    let bucket = bucket(facts, fastest, round_trip).filter(|fit| {
        let is_bottleneck = bounds.is_some() || fit.bucket.rate > rate / FASTEST;
        if fit.is_queue { is_bottleneck } else { fit.bucket.rate < 0.9 * fastest }
    });
    let queue = bucket.as_ref().filter(|fit| fit.is_queue);
    // What a full queue loses tells how fast it drains.
    if let Some(Fit { bucket, bounds: [slowest, fastest], .. }) = queue
        && bounds.is_some()
    {
        rate = bucket.rate;
        bounds = Some((slowest.rate, fastest.rate)).filter(|(low, high)| *high > KNOWN * low);
    }
    // An acknowledgment takes its time on a thin way back, and the client's first packet as well.
    // A host that reads late reads packets that came apart together.
    let is_late = facts.reads() > 0.0;
    let back = thin(facts, seen, end - first).filter(|_| !is_late);
    let back_rate = back.unwrap_or(rate);
    let is_assumed = !matches!(facts.stack(), Stack::Ours | Stack::Other);
    let per_ack = facts.flight.rates.per_answer().filter(|_| is_assumed && back.is_some());
    let first_packet = LARGE / back_rate;
    let size = f64::from(sender.max_datagram);
    let round_trip = facts.flight.shortest(size, rate).unwrap_or(round_trip);
    let waited = back.map_or(0.0, |back| SMALL / back);
    let round_trip = (round_trip - waited).max(round_trip / 10.0);
    // The first answer was waited for by nothing else: it took the time of the first packet and its own.
    let answered = facts.silences.early.first().and_then(|early| {
        let answer = (early.size + HEADERS) as f64 / back_rate;
        Some(early.next - early.asked.first()? - facts.reads() - answer + (size - LARGE) / rate)
    });
    let round_trip = answered.map_or(round_trip, |answered| round_trip.min(answered.max(0.5)));
    let shortest = millis(round_trip);
    let round_trip = without_packet(round_trip, size, rate);
    let low = bounds.map_or(rate, |(low, _)| low.min(seen));
    let packet = 1500.0 / low.max(1e-9) + back.map_or(0.0, |_| first_packet);
    let drop = facts.drop;
    let levels = Levels::of(facts, (round_trip, rate, packet), bucket.as_ref());
    let mut path = Path {
        rate: rate_of(rate),
        back: rate_of(back_rate),
        per_ack: per_ack.map_or(EVERY, |per_ack| per_ack.max(EVERY)),
        round_trip: millis(round_trip),
        queue: if back.is_some() && queue.is_none() { unseen_queue(rate, round_trip) } else { levels.queue } as u64,
        loss: 0.0,
        lost: levels.chance.clone(),
        reorder: reorder(facts),
        late: late(facts),
        ..Path::clean(Rate::from_bps(0), Duration::ZERO, 0)
    };
    let zero = if is_up { start } else { start - round_trip / 2.0 - first_packet };
    let half = path.round_trip.as_secs_f64() * 500.0;
    let [middle, begun @ ..] = [MIDDLE, EARLY, LATE].map(|at| interruptions(facts, (zero, packet, half), at));
    (path.outages, path.suspensions) = (middle.outages, middle.suspensions);
    let begun = begun.map(|stops| (stops.outages, stops.suspensions));
    path.mtu = drop.map(|drop| (millis(drop.at - zero), drop.size.saturating_add(HEADERS as u32)));
    let credit = credit(facts);
    let load = load(facts, bytes, is_up);
    // The log of a client that sends begins half a round trip earlier than that of a server, and ends as late.
    let ahead = if is_up && load.pieces == 1 { round_trip / 2.0 } else { 0.0 };
    let not_seen = if is_up { 0.0 } else { (LARGE - SMALL) / back_rate };
    // Acknowledgments wait for each other on a thin way back: when the data came says when they left.
    let end = end_of(rate);
    let end = if back.is_some() { end.min(last_data(facts) + round_trip) } else { end };
    let completion = millis(end - start - ahead + not_seen);
    let world = World { path, credit, sender, load, seed: 1 };
    let milliseconds = |time: Duration| time.as_secs_f64() * 1000.0;
    let stop = |lost: bool| move |span: &Span| (milliseconds(span.0), milliseconds(span.1), lost);
    let mut stops: Vec<_> = world.path.outages.iter().map(stop(true)).collect();
    stops.extend(world.path.suspensions.iter().map(stop(false)));
    stops.sort_by(|a, b| a.0.total_cmp(&b.0));
    Ok(Reading {
        completion,
        is_whole: facts.flight.payload_acked >= facts.waits.bytes(),
        shortest,
        course: Course::of(&facts.flight.rates.curve, start),
        declared_lost: facts.flight.losses.lost.len() as u64,
        packets: facts.flight.packets,
        knows_rules,
        is_assumed,
        losses: (levels.full, levels.chance.len() as u64),
        unknown_rate: bounds.map(|(low, high)| (rate_of(low), rate_of(high))),
        seen_rate: rate_of(seen),
        stops,
        unclear: [middle.unclear, middle.in_drop],
        begun,
        shorter_reads: facts.shorter_reads().into_iter().map(millis).collect(),
        // A bucket also explains what came through, and late packets do not fit it: few losses are enough for it.
        policed: match bucket {
            Some(fit) => (!fit.is_queue).then(|| Policed::of(&fit, &levels.chance, trains(facts))),
            None => policed(facts, &levels.chance).filter(|policed| policed.is_believed(facts.has_frames())),
        },
        drop,
        zero,
        world,
    })
}

/// A packet takes its time on the bottleneck, which the path adds again.
fn without_packet(round_trip: f64, size: f64, rate: f64) -> f64 {
    (round_trip - size / rate.max(1e-9)).max(round_trip / 4.0)
}

impl Reading {
    /// Whether a policer explains the losses better than anything else.
    pub(crate) fn is_surely_policed(&self) -> bool {
        self.policed.as_ref().is_some_and(|policed| policed.is_sure)
    }

    /// Whether chance does not explain what the policer is taken to have dropped.
    pub(crate) fn is_densely_policed(&self) -> bool {
        self.policed.as_ref().is_some_and(|policed| policed.is_dense)
    }

    /// The same with a policer in place of losses by chance, if they look like one that lets less through than the
    /// path: with each that fits. Silences around what it dropped are not the path's unless it `is_stopped` as well.
    pub(crate) fn policed(&self, world: &World, is_stopped: bool) -> Vec<World> {
        let Some(policed) = &self.policed else { return Vec::new() };
        // Some of it has come through faster; otherwise it is the bottleneck itself, with a short queue.
        let is_guess = !policed.is_outrun && self.unknown_rate.is_some_and(|(low, high)| high > low.mul_ratio(8, 1));
        let is_own = |rate: Rate| {
            rate < world.path.rate.mul_ratio(9, 10) && !(is_guess && rate.mul_ratio(23, 20) > self.seen_rate)
        };
        let policers = policed.policers.iter().filter(|policer| is_own(policer.rate));
        policers.map(|policer| self.policed_by(world, policed, *policer, is_stopped)).collect()
    }

    fn policed_by(&self, world: &World, policed: &Policed, policer: Policer, is_stopped: bool) -> World {
        let mut world = world.clone();
        (world.path.policer, world.path.lost) = (Some(policer), policed.others.clone());
        if is_stopped {
            return world;
        }
        // A sender that waits because the policer has dropped what it sent looks as if the path were interrupted.
        let before = world.path.round_trip * 2;
        let is_own = |span: &Span| {
            let at = policed.own.partition_point(|time| millis(*time - self.zero) + before < span.0);
            policed.own.get(at).is_some_and(|time| millis(*time - self.zero) <= span.1)
        };
        world.path.outages.retain(|span| !is_own(span));
        world.path.suspensions.retain(|span| !is_own(span));
        world
    }

    /// The same transfer with interruptions that began earlier, and later, if there are any.
    pub(crate) fn begun_otherwise(&self, world: &World) -> Vec<World> {
        if !world.has(Cause::Interruption)
            || world.path.outages.len() + world.path.suspensions.len() != self.stops.len()
        {
            return Vec::new();
        }
        let other = |(outages, suspensions): &(Vec<Span>, Vec<Span>)| {
            let mut world = world.clone();
            (world.path.outages, world.path.suspensions) = (outages.clone(), suspensions.clone());
            world
        };
        self.begun.iter().map(other).collect()
    }

    /// The same transfer with a host that reads sooner, and a path that is longer by as much.
    pub(crate) fn with_reads(&self, world: &World, reads: Duration) -> World {
        let mut world = world.clone();
        let before = core::mem::replace(&mut world.sender.host.reads, reads);
        world.path.round_trip += before.saturating_sub(reads);
        world
    }

    /// The same path with another rate.
    pub(crate) fn with_rate(&self, world: &World, rate: Rate) -> World {
        let mut world = world.clone();
        let queue = world.path.queue as f64 * rate.bps() as f64 / world.path.rate.bps().max(1) as f64;
        let round_trip = self.world.path.round_trip.as_secs_f64() * 1000.0;
        let is_thin = world.has(Cause::WayBack);
        let queue = if is_thin { unseen_queue(rate.bps() as f64 / 8000.0, round_trip) } else { queue };
        (world.path.queue, world.path.rate) = (queue as u64, rate);
        if !is_thin {
            world.path.back = world.path.back.max(rate);
        }
        let (shortest, size) = (self.shortest.as_secs_f64() * 1000.0, f64::from(world.sender.max_datagram));
        world.path.round_trip = millis(without_packet(shortest, size, rate.bps() as f64 / 8000.0));
        world
    }
}

/// Worlds with a policer that has let everything through that was sent, and would not let through more at once.
pub(crate) fn unseen_policers(facts: &Facts, world: &World) -> Vec<World> {
    if world.has(Cause::Policer) {
        return Vec::new();
    }
    let with = |(part, of)| {
        let mut world = world.clone();
        world.path.policer = Some(unseen(&facts.flight.rates.curve, world.path.rate.mul_ratio(part, of)));
        world
    };
    UNSEEN.map(with).to_vec()
}

/// Of the path's rate, what a policer may let through that was never seen.
const UNSEEN: [(u64, u64); 2] = [(1, 4), (1, 2)];

/// When the last data had arrived and that could be known, milliseconds. A peer that has everything may close without
/// another acknowledgment.
///
/// What was on its way then comes out of a queue at `rate`, that of the bottleneck in bytes per millisecond; zero if it
/// is not known yet.
fn end(facts: &Facts, round_trip: f64, rate: f64) -> f64 {
    let acked = facts.flight.last_payload.unwrap_or(0.0);
    if facts.flight.payload_acked >= facts.waits.bytes() {
        return acked;
    }
    let after = |round_trip: f64| facts.waits.last_piece + round_trip;
    let served = facts.flight.served(rate).max(after(round_trip));
    let due = acked.max(after(facts.flight.last_round_trip.unwrap_or(round_trip)).min(served));
    // Whoever closes, or has answered what was sent, has everything.
    let is_over = facts.course.is_closed || facts.header.vantage_point.as_deref() == Some("client");
    if is_over { due.min(facts.course.last.max(acked)) } else { due }
}

/// What a queue holds at least, ten packets: bytes.
const LEAST_QUEUE: f64 = 15_000.0;

/// A queue that acknowledgments hide which wait for each other on the way back: bytes, for a rate in bytes a
/// millisecond.
fn unseen_queue(rate: f64, round_trip: f64) -> f64 {
    (rate * round_trip).max(LEAST_QUEUE)
}

/// When the data left that came last, milliseconds: the last that were new, or that were sent again for a loss.
fn last_data(facts: &Facts) -> f64 {
    let (_, last) = facts.waits.span.unwrap_or_default();
    if facts.flight.losses.lost.is_empty() { last } else { facts.waits.last_piece }
}

/// The largest first window that a sender without a configuration is taken to have, bytes.
const MOST_AT_FIRST: u64 = 1 << 20;

fn sender(facts: &Facts) -> (Sender, bool) {
    let mut sender = Sender::default();
    let own = facts.header.own.as_ref();
    let number = |key: &str| own.and_then(|own| own.get(key)).and_then(serde_json::Value::as_f64);
    let policies = own.and_then(|own| own.get("policies")).and_then(serde_json::Value::as_str);
    let read: Option<Policies> = policies.and_then(|text| text.parse().ok());
    let is_known = read.is_some();
    sender.policies = read.unwrap_or_else(|| rules::assumed(facts).parse().unwrap_or_default());
    // They log their window before anything is acknowledged.
    let logged = facts.window.first.filter(|_| matches!(facts.stack(), Stack::QuicGo | Stack::Aioquic));
    match number("initial_window").or(logged) {
        Some(window) => sender.initial_window = window as u64,
        // What left before any answer had room in the first window.
        None => {
            sender.initial_window = facts.flight.rates.curve.first_flight.clamp(sender.initial_window, MOST_AT_FIRST)
        }
    }
    if let Some(initial_rtt) = number("initial_rtt") {
        sender.initial_rtt = millis(initial_rtt.clamp(1.0, 1e6));
    }
    sender.max_rate = number("max_rate").map(|rate| Rate::from_bps(rate as u64));
    let round_trip = facts.round_trips().quantile(0.5).unwrap_or_default();
    let timers = facts.late.timers(sender.max_rate.is_some(), !facts.waits.pauses.is_empty(), round_trip);
    sender.host = Host { timers: millis(timers), reads: millis(facts.reads()) };
    let largest = facts.largest_packet.clamp(1200, 65_000);
    sender.remembers = facts.stack() == Stack::Ours;
    sender.max_datagram = u16::try_from(largest).unwrap_or(1452);
    sender.mtu_rules = rules::mtu(facts.stack());
    // A search by halves may not have come to its end, and the largest packet then says nothing of it. One that has is
    // repeated by the run, which meets the same path.
    if sender.mtu_rules == MtuRules::Halving {
        sender.max_datagram = sender.max_datagram.max(Sender::default().max_datagram);
    }
    (sender, is_known)
}

/// The bottleneck's rate, bytes per millisecond on the wire, where it is if it never showed, and the most that came
/// through.
fn rate(facts: &Facts, (first, end): (f64, f64)) -> (f64, Option<(f64, f64)>, f64) {
    let rates = &facts.flight.rates;
    let is_ours = facts.stack() == Stack::Ours;
    // What was lost has not come through.
    let mean = facts.flight.delivered() as f64 / (end - first).max(1.0);
    let size = facts.flight.bytes as f64 / facts.flight.packets.max(1) as f64;
    let on_wire = 1.0 + HEADERS as f64 / size.max(100.0);
    let top = rates.short.quantile(0.98).or_else(|| rates.long.quantile(1.0)).unwrap_or(mean).max(mean);
    // Where a queue stood, what came through is what the bottleneck serves.
    let queued = rates.queued.steady(0.6, ENOUGH_BYTES);
    let trains = trains(facts);
    // What left together came apart no slower than the bottleneck serves.
    let is_faster = |rate: f64| trains.is_some_and(|train| train > 2.5 * rate);
    let (is_late, is_thin) = (facts.reads() > 0.0, thin(facts, top, end - first).is_some());
    // A host that is held up makes some of what came in less than a round trip look faster than it was.
    let most = if is_ours { top } else { rates.long.quantile(0.98).map_or(top, |long| long.min(top)) };
    let told = facts.other_end.as_ref().and_then(|end| end.rate).map(|told| told.max(mean));
    match (queued.filter(|_| !is_late && !is_thin), told) {
        (Some(rate), _) if rate > 0.75 * most && !is_faster(rate) => (rate.max(mean) * on_wire, None, top * on_wire),
        // The receiver knows how fast data came, and that they did so at one rate.
        (_, Some(told)) => (told * on_wire, None, told * on_wire),
        _ if is_thin || is_late => {
            // What comes back says when acknowledgments came, not how fast data did.
            let most = UNKNOWN_MOST.max(top);
            ((2.0 * top).min(most) * on_wire, Some((top * on_wire, most * on_wire)), top * on_wire)
        }
        _ if trains.is_some_and(|train| train > 0.9 * top) => {
            let train = trains.unwrap_or(top).max(top);
            let at = |share: f64| rates.trains.quantile(share).unwrap_or(train);
            let (low, high) = (at(0.1).min(0.8 * train).max(top), at(0.9).max(1.25 * train));
            (train * on_wire, Some((low.min(train) * on_wire, high * on_wire)), top * on_wire)
        }
        _ => {
            // It is anything above; the middle of what paths have.
            let most = UNKNOWN_MOST.max(top);
            // A sender that paces evenly meets a queue as soon as it comes near the rate.
            let low = if is_ours || !is_flat(facts) { top } else { (CLEAR_OF * top).min(most) };
            // What is set by hand is set for paths like the one.
            let waits = facts.waits.time(Limit::Credit) > 0.1 * (end - first);
            let cap = facts.header.own.as_ref().and_then(|own| own.get("max_rate")?.as_f64()).map(|bps| bps / 8000.0);
            // What left before the limit took effect came as fast as the bottleneck serves.
            if cap.is_some_and(|cap| top > ABOVE_CAP * cap) {
                return (top * on_wire, Some((0.95 * top * on_wire, 1.3 * top * on_wire)), top * on_wire);
            }
            if let Some(rate) = facts.flight.rate_by_size().filter(|rate| *rate > 0.8 * top && *rate < most) {
                let (rate, low, high) = (rate.max(1.05 * top), (0.7 * rate).max(top), 1.4 * rate.max(top));
                return (rate * on_wire, Some((low * on_wire, high * on_wire)), top * on_wire);
            }
            let middle = match (waits, cap.is_some()) {
                (_, true) => (1.7 * top).min(most),
                (true, false) => (2.5 * top).min(most),
                _ => math::sqrt(top * most),
            };
            (middle.max(low) * on_wire, Some((low * on_wire, most * on_wire)), top * on_wire)
        }
    }
}

/// The rate at which packets that left together came apart, bytes of UDP payload per millisecond.
fn trains(facts: &Facts) -> Option<f64> {
    let trains = &facts.flight.rates.trains;
    trains.quantile(0.5).filter(|_| trains.total() >= TRAINS || facts.stack() != Stack::Ours)
}

/// A queue may drain this much faster than the rate that was read, a ratio.
const FASTEST: f64 = 1.2;

/// A rate is known if buckets that explain the losses differ by less, a ratio.
const KNOWN: f64 = 1.2;

/// The bucket that explains the losses, up to a rate in bytes per millisecond, by the shortest round trip in
/// milliseconds. What is lost in silences is an outage's, unless packets came through all the time.
fn bucket(facts: &Facts, fastest: f64, round_trip: f64) -> Option<Fit> {
    facts.flight.rates.curve.whole()?;
    let of = |excepted: &dyn Fn(&Lost) -> bool| Fit::of(facts, FASTEST * fastest, round_trip, excepted);
    let in_silence = |lost: &Lost| in_silence(facts, lost, 1500.0 / fastest);
    let fit = of(&|lost| in_drop(facts, lost));
    if fit.as_ref().is_some_and(Fit::is_mixed) {
        return fit;
    }
    let is_silent = facts.flight.losses.lost.values().any(|lost| in_silence(lost) && !in_drop(facts, lost));
    if is_silent { of(&in_silence) } else { fit }
}

/// The rate of a way back that is too thin for what came through at `seen`, or for what was sent in so long: where
/// acknowledgments wait for each other, what was sent shows more than what they say.
fn thin(facts: &Facts, seen: f64, length: f64) -> Option<f64> {
    let sent = facts.flight.bytes as f64 / length.max(1.0);
    facts.thin_back().filter(|back| *back < seen.max(sent) / THIN as f64)
}

/// How far a path is above what was sent over it without any queue, at least: a ratio.
const CLEAR_OF: f64 = 1.6;

/// Whether hardly any packet waited.
fn is_flat(facts: &Facts) -> bool {
    let at = |share: f64| facts.round_trips().quantile(share).unwrap_or(0.0);
    at(0.9) - at(0.0) < 0.1 * at(0.0) + 1.0
}

/// So much faster than the limit that was set, something did not wait for it: a ratio.
const ABOVE_CAP: f64 = 1.2;

/// So many bytes of packets that left together tell the rate.
const TRAINS: f64 = 8_000.0;

/// The fastest that a path may be whose rate has never shown, bytes per millisecond.
const UNKNOWN_MOST: f64 = 125_000.0;

/// How full the queue was when packets were lost.
struct Levels {
    /// Bytes of the queue.
    queue: f64,
    /// Packets that found it full.
    full: u64,
    /// The others, by their place.
    chance: Vec<u64>,
}

impl Levels {
    /// By the round trip without a queue (milliseconds), the rate (bytes per millisecond) and the time of a packet
    /// (milliseconds), and by the bucket that explains the losses, if there is one.
    fn of(facts: &Facts, of_path: (f64, f64, f64), bucket: Option<&Fit>) -> Levels {
        let losses = facts.flight.losses.lost.values();
        let outside: Vec<&Lost> = losses.filter(|lost| !in_silence(facts, lost, of_path.2)).collect();
        let Some(fit) = bucket else { return Levels::of_others(facts, of_path, outside) };
        let is_other = |lost: &&Lost| fit.others.binary_search(&lost.index).is_ok();
        let (others, own): (Vec<&Lost>, Vec<&Lost>) = outside.into_iter().partition(is_other);
        if fit.is_queue {
            let chance = others.iter().map(|lost| lost.index).collect();
            return Levels { queue: fit.bucket.burst, full: own.len() as u64, chance };
        }
        // What a policer drops says nothing of the queue behind it.
        let mut levels = Levels::of_others(facts, of_path, others);
        levels.chance.extend(own.iter().map(|lost| lost.index));
        levels.chance.sort_unstable();
        levels
    }

    fn of_others(facts: &Facts, (round_trip, rate, packet): (f64, f64, f64), outside: Vec<&Lost>) -> Levels {
        let waits = |lost: &Lost| (lost.round_trip - round_trip).max(0.0);
        let bdp = rate * round_trip;
        let highest = facts.round_trips().quantile(0.995).map_or(0.0, |high| high - round_trip);
        let mut at_loss: Vec<f64> = outside.iter().map(|lost| waits(lost)).collect();
        at_loss.sort_by(f64::total_cmp);
        // What a packet waited at most, of those that were beside a lost one.
        let top = match facts.stack() {
            Stack::Ours => at_loss.last(),
            // Others lose more in a full queue, and a few beside a suspension seem to have waited longer.
            _ => at_loss.get(at_loss.len() * 9 / 10),
        };
        let top = top.copied().unwrap_or(0.0).min(highest.max(1.0));
        if top < (4.0 * packet).max(round_trip * 0.1) {
            let queue = (highest * rate * 1.2).max(2.0 * bdp).max(LEAST_QUEUE);
            return Levels { queue, full: 0, chance: outside.iter().map(|lost| lost.index).collect() };
        }
        let is_high = |lost: &&Lost| waits(lost) >= top * 0.7;
        let (high, low): (Vec<&Lost>, Vec<&Lost>) = outside.iter().copied().partition(|lost| is_high(lost));
        // By chance, as many are lost beside a full queue as elsewhere, for each packet.
        let (mut above, mut below) = (0.0, 0.0);
        for (value, weight) in facts.round_trips().iter() {
            if value - round_trip >= top * 0.7 { above += weight } else { below += weight }
        }
        let expected = low.len() as f64 * above / below.max(1.0);
        // How likely it is that all losses happen to fall beside a full queue.
        let share = above / (above + below).max(1.0);
        let is_likely = low.is_empty() && math::pow(share, high.len() as f64) > 0.15;
        let is_full = if low.is_empty() { !is_likely } else { high.len() as f64 > 2.0 * expected + 2.0 };
        if !is_full {
            let queue = (highest * rate * 1.2).max(2.0 * bdp).max(LEAST_QUEUE);
            return Levels { queue, full: 0, chance: outside.iter().map(|lost| lost.index).collect() };
        }
        let mut chance: Vec<u64> = low.iter().map(|lost| lost.index).collect();
        let kept = expected.round() as usize;
        let step = (high.len() / kept.max(1)).max(1);
        chance.extend(high.iter().step_by(step).take(kept).map(|lost| lost.index));
        chance.sort_unstable();
        let full = outside.len().saturating_sub(chance.len()) as u64;
        Levels { queue: (top * rate).max(4500.0), full, chance }
    }
}

fn reorder(facts: &Facts) -> Option<(f64, Duration)> {
    let losses = &facts.flight.losses;
    let mut late: Vec<f64> = losses.late.iter().map(|late| late.by).collect();
    if late.len() < FEW_LATE && !losses.late.iter().any(|late| late.was_lost) {
        return None;
    }
    late.sort_by(f64::total_cmp);
    let by = late[late.len() / 2].max(0.1);
    // Of those that were seen to be missing at first, those that were not lost.
    let (holes, seen) = (losses.holes as f64, losses.seen.max(1) as f64);
    let lost = losses.lost.len() as f64 / facts.flight.packets.max(1) as f64;
    let share = (holes / seen - lost).max(late.len() as f64 / facts.flight.packets.max(1) as f64);
    Some((share.clamp(0.0, 1.0), millis(by)))
}

/// So many late packets are no chance. A single one counts if it was declared lost.
const FEW_LATE: usize = 2;

/// Packets that came late, if the log shows all of them.
fn late(facts: &Facts) -> Vec<(u64, Duration)> {
    let losses = &facts.flight.losses;
    let others = losses.holes.saturating_sub(losses.lost.len() as u64);
    let is_whole = losses.late.len() as u64 * 10 >= others * 9 && losses.cut * 20 <= facts.flight.packets;
    if losses.late.is_empty() || !is_whole {
        return Vec::new();
    }
    losses.late.iter().map(|late| (late.index, millis(late.by))).collect()
}

/// Our receivers renew credit when this share of it is used.
const HALF: f64 = 0.5;

fn credit(facts: &Facts) -> Option<[Credit; 2]> {
    let seen = &facts.waits.credit;
    let initial = seen.initial?;
    // What was seen beyond the acknowledgments is a little more than the window; a window that grows doubles.
    let grown = |at: usize| if seen.most[at] > 2 * initial[at] { seen.most[at] } else { initial[at] };
    // Our receivers renew credit when half of it is used. Of one that does so sooner, more of the window can be used.
    let of = |at: usize| {
        let step = seen.step(at).map_or(HALF, |step| step / initial[at].max(1) as f64);
        let more = if step < 0.9 * HALF { (1.0 - step) / (1.0 - HALF) } else { 1.0 };
        let bytes = |window: u64| (window as f64 * more) as u64;
        Credit { initial: bytes(initial[at]), most: bytes(grown(at)) }
    };
    Some([of(0), of(1)])
}

/// A pause counts if the sender had nothing for longer than the request takes to come.
fn load(facts: &Facts, bytes: u64, is_up: bool) -> Load {
    let mut whole = Load { bytes, is_up, pieces: 1, pause: Duration::ZERO };
    let pauses = &facts.waits.pauses;
    if pauses.is_empty() {
        return whole;
    }
    whole.pieces = pauses.len() as u64 + 1;
    whole.pause = millis(facts.waits.usual_pause().unwrap_or(0.0));
    whole
}
