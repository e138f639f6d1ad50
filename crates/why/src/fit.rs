//! Reads a path, and what was sent over it, off the facts of a log.

use thalweg_recovery::Policies;
use thalweg_units::{Duration, Rate};

use crate::gather::{Facts, Limit, Lost, Silence};
use crate::world::{Credit, HEADERS, Load, Path, Sender, Span, World};

/// A path as read off a log, and what was sent over it.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    pub(crate) world: World,
    /// How long the data took, from the first packet to the last acknowledgment of new data.
    pub(crate) completion: Duration,
    /// Whether all data that were sent were acknowledged.
    pub(crate) is_whole: bool,
    /// Whether the sender's rules are known.
    pub(crate) knows_rules: bool,
    /// Losses that a full queue explains, and those by chance.
    pub(crate) losses: (u64, u64),
    /// Of the path's rate, the share that the transfer had.
    pub(crate) use_of_path: f64,
}

fn millis(milliseconds: f64) -> Duration {
    Duration::from_secs_f64((milliseconds / 1000.0).clamp(0.0, 1e7))
}

/// Reads the path; why it cannot be read.
pub(crate) fn fit(facts: &Facts) -> Result<Reading, &'static str> {
    let start = facts.course.first.ok_or("no event is in it")?;
    let (first, _) = facts.waits.span.ok_or("no data of a stream was sent in it")?;
    let end = facts.flight.last_payload.ok_or("no data of a stream was acknowledged in it")?;
    let round_trip = facts.round_trips().quantile(0.0).ok_or("no round trip can be measured in it")?;
    let is_up = facts.header.vantage_point.as_deref() == Some("client");
    let bytes = facts.flight.payload_acked.max(1);
    let (sender, knows_rules) = sender(facts);
    let rate = rate(facts, (first, end));
    let levels = Levels::of(facts, round_trip, rate);
    let mut path = Path {
        rate: Rate::from_bps((rate * 8000.0) as u64),
        back: Rate::from_bps((rate * 8000.0) as u64),
        round_trip: millis(round_trip),
        queue: levels.queue as u64,
        loss: 0.0,
        lost: levels.chance.clone(),
        reorder: reorder(facts),
        outages: Vec::new(),
        suspensions: Vec::new(),
    };
    interruptions(facts, start, &mut path);
    let credit = credit(facts);
    let load = load(facts, bytes, is_up);
    let completion = millis(end - start);
    let world = World { path, credit, sender, load, seed: 1 };
    let use_of_path = world.floor().as_secs_f64() / completion.as_secs_f64().max(1e-9);
    Ok(Reading {
        completion,
        is_whole: facts.flight.payload_acked >= facts.waits.bytes(),
        knows_rules,
        losses: (levels.full, levels.chance.len() as u64),
        use_of_path,
        world,
    })
}

fn sender(facts: &Facts) -> (Sender, bool) {
    let mut sender = Sender::default();
    let own = facts.header.own.as_ref();
    let number = |key: &str| own.and_then(|own| own.get(key)).and_then(serde_json::Value::as_f64);
    let policies = own.and_then(|own| own.get("policies")).and_then(serde_json::Value::as_str);
    let read: Option<Policies> = policies.and_then(|text| text.parse().ok());
    let is_known = read.is_some();
    sender.policies = read.unwrap_or_default();
    if let Some(window) = number("initial_window") {
        sender.initial_window = window as u64;
    }
    if let Some(initial_rtt) = number("initial_rtt") {
        sender.initial_rtt = millis(initial_rtt.clamp(1.0, 1e6));
    }
    sender.max_rate = number("max_rate").map(|rate| Rate::from_bps(rate as u64));
    let largest = facts.largest_packet.clamp(1200, 65_000);
    sender.max_datagram = u16::try_from(largest).unwrap_or(1452);
    (sender, is_known)
}

/// The bottleneck's rate, bytes per millisecond on the wire.
fn rate(facts: &Facts, (first, end): (f64, f64)) -> f64 {
    let rates = &facts.flight.rates;
    let queued = rates.queued.total();
    let share = queued / rates.short.total().max(1.0);
    // Where a queue stood, what came through is what the bottleneck serves.
    let read = if share > 0.02 && queued > 100_000.0 {
        rates.queued.quantile(0.7)
    } else {
        rates.short.quantile(0.98).or_else(|| rates.long.quantile(1.0))
    };
    let mean = facts.flight.bytes as f64 / (end - first).max(1.0);
    let size = facts.flight.bytes as f64 / facts.flight.packets.max(1) as f64;
    read.unwrap_or(mean).max(mean) * (1.0 + HEADERS as f64 / size.max(100.0))
}

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
    fn of(facts: &Facts, round_trip: f64, rate: f64) -> Levels {
        let waits = |lost: &Lost| (lost.round_trip - round_trip).max(0.0);
        let bdp = rate * round_trip;
        let losses: Vec<&Lost> = facts.flight.losses.lost.values().collect();
        let outside: Vec<&Lost> = losses.iter().copied().filter(|lost| !in_silence(facts, lost)).collect();
        let highest = facts.round_trips().quantile(0.995).map_or(0.0, |high| high - round_trip);
        let mut at_loss: Vec<f64> = outside.iter().map(|lost| waits(lost)).collect();
        at_loss.sort_by(f64::total_cmp);
        // What a packet waited at most, of those that were beside a lost one.
        let top = at_loss.last().copied().unwrap_or(0.0).min(highest.max(1.0));
        let packet = 1500.0 / rate.max(1e-9);
        if top < (4.0 * packet).max(round_trip * 0.1) {
            let queue = (highest * rate * 1.2).max(2.0 * bdp).max(15_000.0);
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
        let is_full = high.len() as f64 > 2.0 * expected + 2.0;
        if !is_full {
            let queue = (highest * rate * 1.2).max(2.0 * bdp).max(15_000.0);
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

fn in_silence(facts: &Facts, lost: &Lost) -> bool {
    facts
        .silences
        .list
        .iter()
        .filter(|silence| is_outage(silence))
        .any(|silence| (silence.from - silence.round_trip..=silence.to).contains(&lost.sent))
}

fn is_outage(silence: &Silence) -> bool {
    silence.lost >= 3 && silence.lost > silence.acked / 4
}

fn is_suspension(silence: &Silence) -> bool {
    !is_outage(silence) && silence.lost <= silence.acked / 10 && silence.acked >= 2
}

fn interruptions(facts: &Facts, start: f64, path: &mut Path) {
    let half = path.round_trip.as_secs_f64() * 500.0;
    for silence in &facts.silences.list {
        let from = silence.from - half - start;
        let span = |to: f64| -> Span { (millis(from.max(0.0)), millis(to.max(from + 1.0))) };
        if is_outage(silence) {
            let last = silence.last_lost.unwrap_or(silence.from);
            let first = silence.first_acked.unwrap_or(silence.to - 2.0 * half);
            path.outages.push(span((last + first.max(last)) / 2.0 - start));
        } else if is_suspension(silence) {
            path.suspensions.push(span(silence.to - half - start));
        }
    }
}

fn reorder(facts: &Facts) -> Option<(f64, Duration)> {
    let losses = &facts.flight.losses;
    let mut late: Vec<f64> = losses.late.iter().map(|late| late.by).collect();
    if late.len() < 2 {
        return None;
    }
    late.sort_by(f64::total_cmp);
    let by = late[late.len() / 2].max(0.1);
    Some((late.len() as f64 / facts.flight.packets.max(1) as f64, millis(by)))
}

fn credit(facts: &Facts) -> Option<[Credit; 2]> {
    let seen = &facts.waits.credit;
    let initial = seen.initial?;
    let of = |at: usize| Credit { initial: initial[at], most: seen.most[at].max(initial[at]) };
    let has_waited = facts.waits.time(Limit::Credit) > 0.0;
    has_waited.then(|| [of(0), of(1)])
}

/// A pause counts if the sender had nothing for longer than the request takes to come.
fn load(facts: &Facts, bytes: u64, is_up: bool) -> Load {
    let mut whole = Load { bytes, is_up, pieces: 1, pause: Duration::ZERO };
    let pauses = &facts.waits.pauses;
    if pauses.is_empty() {
        return whole;
    }
    let mut lengths: Vec<f64> =
        pauses.iter().map(|pause| (pause.to - pause.from - pause.round_trip).max(0.0)).collect();
    lengths.sort_by(f64::total_cmp);
    whole.pieces = lengths.len() as u64 + 1;
    whole.pause = millis(lengths[lengths.len() / 2]);
    whole
}
