//! A measured path as paths of the lab: a replay of what was measured, and a model that was fitted to it.

use core::fmt::Write as _;
use std::collections::VecDeque;

use thalweg_link::trace::{CsvTrace, TracePoint};
use thalweg_link::{Probability, Quantiles};
use thalweg_units::{Duration, DurationExt, Rate, exact_duration, math};

use crate::changes::{is_steady, level, steps};
use crate::findings::Findings;
use crate::load::PROBE;
use crate::loaded::LoadFindings;
use crate::passage::Passage;
use crate::summary::{Summary, WaySummary};
use crate::suspension::{Event, LEVEL, Suspension};
use crate::trace::Way;
use crate::train::{TRAIN, TrainFindings};
use crate::wire::TRAIN_SIZE;

/// Most points of a replay, each way: hours at 20 ms.
const MOST_POINTS: usize = 1_000_000;
/// From step to step while a way is held, in nanoseconds: so exactly does everything arrive at once.
const STEP: i64 = 1_000_000;
/// Without load the rate is not known: as good as none for what was measured.
const RATE: u64 = 1_000_000_000;

fn span(nanos: i64) -> Duration {
    Duration::from_nanos(nanos.max(0) as u64)
}

/// What was measured, to be repeated: delay and loss of each way by time.
///
/// A delay holds for half an interval around each datagram, and so does a loss. While a way was held, the delay falls
/// by a millisecond each millisecond, so that everything arrives when what was sent next to it did.
#[derive(Clone, Debug, Default)]
pub struct Replay {
    ways: [Vec<TracePoint>; 2],
    length: i64,
}

impl Replay {
    /// Adds the next part of a measurement. What is beyond some hours is left out.
    pub fn add(&mut self, findings: &Findings) {
        let half = findings.interval / 2;
        for (way, points) in Way::BOTH.into_iter().zip(&mut self.ways) {
            let of_way = |event: &Event| if way == Way::Up { event.up } else { event.down };
            let held: Vec<Suspension> = findings.events.iter().filter_map(of_way).collect();
            let passages = &findings.way(way).passages;
            add_way(points, passages, &held, half);
            self.length = self.length.max(passages.last().map_or(0, |last| last.sent + half));
        }
    }

    /// After this time it begins again.
    pub fn period(&self) -> Duration {
        let last = self.ways.iter().filter_map(|points| points.last()).map(|last| last.at).max();
        span(self.length).max(last.unwrap_or_default() + Duration::from_millis(1))
    }

    /// One way as the text of a trace of the lab. It repeats after its end.
    pub fn text(&self, way: Way) -> String {
        let mut points = self.ways[way as usize].clone();
        if points.is_empty() {
            points.push(point(0, Duration::ZERO, false));
        }
        CsvTrace { points, period: Some(self.period()) }.to_text()
    }
}

fn point(at: i64, delay: Duration, is_lost: bool) -> TracePoint {
    let loss = if is_lost { Probability::ALWAYS } else { Probability::NEVER };
    TracePoint { at: span(at), rate: Rate::from_bps(RATE), delay: Some(delay), loss }
}

/// Adds a point unless it is not after the last one; the first is at zero.
fn push(points: &mut Vec<TracePoint>, at: i64, delay: Duration, is_lost: bool) {
    let at = if points.is_empty() { 0 } else { at };
    if points.len() < MOST_POINTS && points.last().is_none_or(|last| last.at < span(at)) {
        points.push(point(at, delay, is_lost));
    }
}

fn add_way(points: &mut Vec<TracePoint>, passages: &[Passage], held: &[Suspension], half: i64) {
    let mut held = held.iter().peekable();
    let mut level = points.last().and_then(|last| last.delay).unwrap_or_default();
    if points.is_empty() {
        level = span(passages.iter().find_map(Passage::delay).unwrap_or(0));
    }
    // What is held arrives as long after its end as datagrams before it took; one of them alone may be an early one.
    let mut recent: VecDeque<i64> = VecDeque::new();
    let usual = |recent: &VecDeque<i64>, level: Duration| {
        let mut of: Vec<i64> = recent.iter().copied().collect();
        crate::quantiles::of(&mut of, 1, 2).map_or(level, span)
    };
    for (index, passage) in passages.iter().enumerate() {
        while let Some(each) = held.next_if(|each| each.end <= passage.sent) {
            add_held(points, &passages[..index], each, usual(&recent, level), half);
        }
        if held.peek().is_some_and(|each| passage.sent >= each.start) {
            continue;
        }
        if let Some(delay) = passage.delay() {
            level = span(delay);
            recent.push_back(delay);
            if recent.len() > LEVEL {
                recent.pop_front();
            }
        }
        push(points, passage.sent - half, level, passage.received.is_none());
    }
    for each in held {
        add_held(points, passages, each, usual(&recent, level), half);
    }
}

fn add_held(points: &mut Vec<TracePoint>, until: &[Passage], held: &Suspension, level: Duration, half: i64) {
    let from = until.partition_point(|passage| passage.sent < held.start - half);
    let near = until.get(from..).unwrap_or(&[]);
    let around = |at: i64| near.iter().find(|passage| (passage.sent - at).abs() <= half);
    let mut at = held.start;
    while at < held.end {
        let passage = around(at);
        let is_lost = passage.is_some_and(|passage| passage.received.is_none());
        // As the datagram of that time did: what is let go at once still differs a little.
        let arrival = passage.and_then(|passage| passage.received).map(|at| at.max(held.end));
        let delay = arrival.map_or(span(held.end - at) + level, |arrival| span(arrival - at));
        push(points, at, delay, is_lost);
        at += STEP;
    }
    push(points, held.end, level, false);
}

/// A transfer sends so many packets that it meets the far tail of any distribution: none is heavier than this.
const MOST_SIGMA: f64 = 1.0;
/// Delays that differ by less, in nanoseconds, or by a two-hundredth, are the same.
const STEADY: f64 = 100_000.0;

/// A log-normal delay on top of a fixed one.
#[derive(Copy, Clone, Debug, PartialEq)]
struct Fitted {
    /// The fixed part, in nanoseconds.
    base: f64,
    median: f64,
    sigma: f64,
}

/// The standard normal distribution reaches these quantiles at so many deviations.
const AT_QUANTILE: [(u64, f64); 5] = [(10, -1.281_55), (25, -0.674_49), (75, 0.674_49), (90, 1.281_55), (95, 1.644_85)];

impl Fitted {
    /// The fit to delays: for each of twenty fixed parts the log-normal that has the median and the 90th percentile; of
    /// these, the one that is nearest to five other quantiles. Suspensions are in the tail beyond them, and so is the
    /// share of datagrams that were overtaken.
    fn of(delays: &Quantiles, overtaken: f64) -> Option<Fitted> {
        // Those that are overtaken come later than all others.
        let kept = ((1.0 - overtaken.clamp(0.0, 0.9)) * 1e4) as u64;
        let at = |percent: u64| delays.quantile(percent * kept, 1_000_000).nanos() as f64;
        let (min, p50, p90, p99) = (delays.min().nanos() as f64, at(50), at(90), at(99));
        if delays.count() == 0 || at(95) - at(5) <= STEADY.max(min / 200.0) {
            return None;
        }
        let candidates = (0..20).map(|step| {
            let base = min * f64::from(step) / 20.0;
            let median = (p50 - base).max(1.0);
            // No heavier a tail than there is.
            let most = math::ln((p99 - base).max(median) / median) / 2.326_35;
            let sigma = math::ln((p90 - base).max(median) / median) / 1.281_55;
            Fitted { base, median, sigma: sigma.min(most).min(MOST_SIGMA) }
        });
        let error = |fit: &Fitted| -> f64 {
            let of = |(percent, z): (u64, f64)| (fit.base + fit.median * math::exp(fit.sigma * z) - at(percent)).abs();
            AT_QUANTILE.into_iter().map(of).sum()
        };
        // Of those that fit as well, the one with the longest fixed part.
        candidates.rev().min_by(|a, b| (error(a) as u64 / 1_000).cmp(&(error(b) as u64 / 1_000)))
    }

    /// Mean and deviation of the log-normal part.
    fn moments(self) -> (f64, f64) {
        let square = self.sigma * self.sigma;
        let mean = self.median * math::exp(square / 2.0);
        (mean, mean * math::sqrt(math::exp(square) - 1.0))
    }
}

fn micros(nanos: f64) -> String {
    exact_duration(Duration::from_micros((nanos / 1e3).round().max(0.0) as u64))
}

/// A share with six digits behind the point.
fn share(value: f64) -> String {
    format!("{value:.6}")
}

/// Suspensions as a random process: their mean distance, and their lengths from the least to the greatest, as far as
/// one in twenty of either end is not counted.
fn process(events: &[&Event], length: i64, indent: &str) -> String {
    let mut lengths: Vec<i64> = events.iter().map(|event| event.length()).collect();
    lengths.sort_unstable();
    let (Some(least), Some(most)) = (lengths.get(lengths.len() / 20), lengths.iter().rev().nth(lengths.len() / 20))
    else {
        return String::new();
    };
    let total: i64 = lengths.iter().sum();
    // From the end of one to the begin of the next.
    let every = micros(((length - total).max(0) as f64) / lengths.len() as f64);
    let lasts = match least == most {
        true => micros(*least as f64),
        false => format!("{}..{}", micros(*least as f64), micros(*most as f64)),
    };
    format!("{indent}suspend = {{ every = \"{every}\", for = \"{lasts}\", random = true, held = \"before\" }}\n")
}

/// The shortest queue that a model gets: what a load did not lengthen is a few packets long.
const LEAST_QUEUE: u64 = 2 * PACKET;
/// A packet of a transfer, in bytes.
const PACKET: u64 = 1_500;

/// The trains of a way.
fn trains(way: Way, summary: &Summary) -> Option<&TrainFindings> {
    summary.trains.iter().find(|trains| trains.way == way)
}

/// The bottleneck of a way.
#[derive(Copy, Clone, Debug, PartialEq)]
struct Bottleneck {
    rate: Rate,
    /// Bytes; what no load has shown is a second long.
    queue: Option<u64>,
    /// Rate and burst of a token bucket before it.
    policer: Option<(Rate, u64)>,
    /// Whether the streams of the measurement fill it by themselves.
    is_filled: bool,
}

/// Trains whose quartiles differ by less than this tell a rate.
const CLEAR: f64 = 1.15;
/// A load that came to less than this share of the rate of trains has not filled the way.
const UNFILLED: f64 = 0.97;
/// One that came to less than this share, and lost packets, may have met a token bucket.
const POLICED: f64 = 0.9;
/// A load that a token bucket or a queue held back loses at least this share more than is lost without it.
const OVERFLOW: f64 = 0.004;
/// A way that loses so much to the streams of the measurement alone is as fast as what comes through.
const FILLED: f64 = 0.05;

impl Bottleneck {
    /// What loads, trains and the streams themselves show of it.
    fn of(way: Way, summary: &Summary) -> Bottleneck {
        let plain = |rate, queue| Bottleneck { rate, queue, policer: None, is_filled: false };
        let of_way = summary.way(way);
        let waits = of_way.delays.quantile(50, 100).saturating_sub(of_way.delays.min()).nanos() as f64;
        let stream = PROBE[way as usize] * 8e9 / summary.interval.max(1) as f64;
        let through = stream * (1.0 - of_way.fate.loss());
        let trains = trains(way, summary);
        if of_way.fate.loss() > FILLED
            && waits > 2.0 * summary.interval as f64
            && trains.is_none_or(|trains| (trains.rate.bps() as f64) < 2.0 * through)
        {
            let rate = Rate::from_bps(through as u64);
            let queue = rate.bytes_in(of_way.delays.quantile(95, 100).saturating_sub(of_way.delays.min()));
            return Bottleneck { is_filled: true, ..plain(rate, Some(queue.max(PROBE[way as usize] as u64 * 2))) };
        }
        let Some(load) = summary.load(way) else {
            return plain(trains.map_or(Rate::from_bps(RATE), |trains| trains.rate), None);
        };
        let queue = |rate: Rate| Some(rate.bytes_in(load.queue).max(LEAST_QUEUE));
        // Of a way that the streams nearly fill, it is not known how much of them came beside the load.
        if let Some(trains) = trains.filter(|_| (load.rate.bps() as f64) < 2.0 * stream) {
            let rate = trains.rate.min(load.rate);
            return plain(rate, queue(rate));
        }
        let clear = trains.filter(|trains| trains.high.bps() as f64 <= CLEAR * trains.low.bps() as f64);
        let is_slower = |than: Rate, share: f64| (load.rate.bps() as f64) < share * than.bps() as f64;
        if let Some(queue) = clear.and_then(of_trains) {
            return plain(clear.map_or(load.rate, |trains| trains.rate.max(load.rate)), Some(queue));
        }
        let Some(trains) = clear.filter(|trains| is_slower(trains.rate, UNFILLED)) else {
            return plain(load.rate, queue(load.rate));
        };
        if trains.rate.bytes_in(load.queue) >= SHALLOW || load.queue >= SHORT {
            return plain(load.rate, queue(load.rate));
        }
        let has_overflown = load.packet_loss.unwrap_or(load.loss) > of_way.fate.loss() + OVERFLOW;
        let round_trip = trains.rate.bytes_in(load.idle).max(LEAST_QUEUE);
        // Who is policed meets an empty queue most of the time.
        let is_empty = load.loaded.saturating_sub(load.idle) * 6 < load.queue;
        // A queue is served at the rate of trains whenever it holds anything.
        let never_faster = (load.peak.bps() as f64) < POLICED * trains.rate.bps() as f64;
        if has_overflown && is_empty && never_faster && is_slower(trains.rate, POLICED) {
            let train = PACKET * trains.come / trains.sent.max(1);
            let policer = Some((load.rate, load.burst.max(train)));
            return Bottleneck { policer, ..plain(trains.rate, Some(round_trip)) };
        }
        match has_overflown {
            true => plain(trains.rate, queue(trains.rate)),
            // Nothing held it back but itself: the queue did not show.
            false => plain(trains.rate, Some(round_trip)),
        }
    }

    fn text(&self) -> String {
        if (self.queue, self.rate) == (None, Rate::from_bps(RATE)) {
            return "rate = \"1 Gbps\"\nqueue = \"1 s\"\n".to_owned();
        }
        let kbps = |rate: Rate| (rate.bps() / 1_000).max(1);
        let queue = self.queue.map_or("1 s".to_owned(), |bytes| format!("{bytes} B"));
        let policer = self.policer.map_or(String::new(), |(rate, burst)| {
            format!("policer = {{ rate = \"{} kbps\", burst = \"{burst} B\" }}\n", kbps(rate))
        });
        format!("rate = \"{} kbps\"\nqueue = \"{queue}\"\n{policer}", kbps(self.rate))
    }
}

/// A queue of less than this, in bytes and in time, holds but a few packets: few senders keep it filled.
const SHALLOW: u64 = 32 * PACKET;
const SHORT: Duration = Duration::from_millis(30);

/// Bytes of a queue that is too short for a train, which then ends with a loss: what came was on the line, and in it.
fn of_trains(trains: &TrainFindings) -> Option<u64> {
    let is_short = trains.whole * 5 < trains.sent && trains.come < trains.sent * u64::from(TRAIN) * 9 / 10;
    let come = trains.come as f64 / trains.sent.max(1) as f64;
    is_short.then(|| (((come - 1.0) * PACKET as f64) as u64).max(LEAST_QUEUE))
}

/// Whether trains come whole but for what is lost by chance. Otherwise their losses are those of a short queue.
fn is_whole(trains: &TrainFindings) -> bool {
    trains.whole * 2 >= trains.sent
}

/// The share of packets that others overtake, and by how much they are late, in nanoseconds. Trains show it of packets
/// that are close together; without them only what is late by more than the interval of the streams is seen.
fn overtaken(way: Way, summary: &Summary) -> Option<(f64, f64)> {
    let close = trains(way, summary).filter(|trains| trains.late >= SEEN_LATE).map(|trains| {
        let apart = TRAIN_SIZE as f64 * 8e9 / trains.rate.bps().max(1) as f64;
        (trains.late as f64 / trains.come.max(1) as f64, trains.by as f64 + apart)
    });
    let fate = &summary.way(way).fate;
    let far = fate.overtaken().filter(|_| fate.reordered >= SEEN_LATE);
    close.or(far.map(|(share, by)| (share, by + summary.interval as f64)))
}

/// So many datagrams that were overtaken are no accident.
const SEEN_LATE: u64 = 3;
/// So many lost datagrams tell how losses follow one another.
const SEEN_LOST: u64 = 4;
/// If less than this share of losses is followed by another, beyond what chance explains, they come by chance.
const ALONE: f64 = 0.12;
/// What shares of so few losses differ by.
const UNSURE: f64 = 0.12;

/// Losses as they follow one another: by chance, or in bursts, of packets (E. Gilbert, 1960) or of time.
///
/// Packets that are close together, as trains have them, tell what happens within a burst, and datagrams of the streams
/// how long it lasts. A burst of packets is as likely to go on after 20 ms as after one packet, as nothing else was
/// sent in between; a burst of time is less likely to. Where it loses some packets and lets others pass, another loss
/// follows also after one that was let pass. What fits both is taken for one of time, as fading and outages are.
fn loss(way: Way, summary: &Summary) -> Option<String> {
    let fate = &summary.way(way).fate;
    let ([next, second], share) = (fate.again()?, fate.loss());
    let close = trains(way, summary).filter(|trains| trains.lost >= SEEN_LOST && is_whole(trains));
    let close = close.map(|trains| trains.lost_again as f64 / trains.lost as f64);
    let most = next.max(close.unwrap_or(0.0));
    if fate.lost < SEEN_LOST || most < ALONE + share {
        return Some(format!("loss = {}", self::share(share)));
    }
    let goes_on = second > (next * next + next) / 2.0;
    if close.is_some_and(|close| close <= next + UNSURE) && !goes_on && next < 1.0 - UNSURE {
        let gilbert = fate.gilbert()?;
        let (enter, leave) = (self::share(gilbert.begins), self::share(gilbert.ends.max(0.000_001)));
        return Some(format!("loss = {{ burst = {{ enter = {enter}, leave = {leave} }} }}"));
    }
    // In the bad state so many are lost; how fast that share falls with time says how long the state lasts.
    let bad = close.unwrap_or(if goes_on { next * next / second.max(1e-3) } else { 1.0 }).clamp(next.max(0.1), 1.0);
    let falls = match next / bad {
        fall if fall < 0.97 => fall,
        _ => second / next.max(1e-3),
    };
    let lasts = summary.interval as f64 / -math::ln(falls.clamp(0.05, 0.97));
    let apart = lasts * (bad / share.max(1e-6) - 1.0).max(0.01);
    let mean = |nanos: f64| micros(nanos.clamp(1e6, 1e12));
    let (good, lasts, bad) = (mean(apart), mean(lasts), self::share(bad));
    Some(format!("loss = {{ burst = {{ mean_good = \"{good}\", mean_bad = \"{lasts}\", bad = {bad} }} }}"))
}

/// The mean of a crowded wireless channel's delay, in nanoseconds, if the suspensions of this way alone are of that
/// kind: many, of some 90 ms. There a packet in so many waits for twelve long slots of 7.5 ms while others send; the
/// lab's `contention` has it so.
fn contention(alone: &[&Event], sent: u64) -> Option<f64> {
    let mut lengths: Vec<i64> = alone.iter().map(|event| event.length()).collect();
    lengths.sort_unstable();
    let middle = *lengths.get(lengths.len() / 2)?;
    let held: u64 = alone.iter().map(|event| u64::from(event.datagrams().0)).sum();
    // Those that wait behind one that waits do not wait for slots of their own.
    let share = lengths.len() as f64 / sent.saturating_sub(held).max(1) as f64;
    let is_one = (60_000_000..130_000_000).contains(&middle) && share > CROWDED && lengths.len() > 20;
    is_one.then_some(1e6 + share * 90e6)
}

/// From this share of packets on, a channel is crowded.
const CROWDED: f64 = 0.004;

fn direction(way: Way, summary: &Summary, of_way: &WaySummary) -> String {
    let alone: Vec<&Event> = summary.events.iter().filter(|event| event.way() == way.name()).collect();
    let contention = contention(&alone, of_way.fate.sent);
    let bottleneck = match (contention, trains(way, summary)) {
        // Queues do not show beside such delays, and rates only where nothing waited.
        (Some(_), Some(trains)) => {
            let bottleneck = Bottleneck::of(way, summary);
            let rate = bottleneck.rate.max(trains.high);
            let long =
                |load: &LoadFindings| rate.bytes_in(load.queue.saturating_sub(SLOTS)).max(PACKET * u64::from(TRAIN));
            let queue = of_trains(trains).or_else(|| summary.load(way).map(long));
            Bottleneck { rate, queue, policer: None, is_filled: false }
        }
        _ => Bottleneck::of(way, summary),
    };
    let wire = PROBE[way as usize] * 8e9 / bottleneck.rate.bps().max(1) as f64;
    let mut text = format!("[path.model.{}]\n{}", way.name(), bottleneck.text());
    let delay = |nanos: f64| format!("delay = \"{}\"\n", micros((nanos - wire).max(0.0)));
    let (least, middle) = (of_way.delays.min().nanos() as f64, of_way.delays.quantile(50, 100).nanos() as f64);
    if bottleneck.is_filled {
        // What else is seen is its queue.
        return text + &delay(least);
    }
    if let Some(mean) = contention {
        text += &delay(least);
        let _ = writeln!(text, "jitter = {{ shape = \"contention\", mean = \"{}\" }}", micros(mean));
        return text + &self::loss(way, summary).map_or(String::new(), |loss| loss + "\n");
    }
    let overtaken = overtaken(way, summary);
    if let Some((first, changes)) = changes(way, summary, bottleneck.rate, wire) {
        let mut text =
            format!("[path.model.{}]\n{}{changes}", way.name(), Bottleneck { rate: first.0, ..bottleneck }.text());
        text += &format!("delay = \"{}\"\n", micros(first.1));
        if let Some(loss) = loss(way, summary) {
            text = text + &loss + "\n";
        }
        return text + &process(&alone, summary.length, "");
    }
    match Fitted::of(&of_way.delays, overtaken.map_or(0.0, |(share, _)| share)) {
        Some(fit) => {
            let (mean, deviation) = fit.moments();
            let (mean, deviation) = (micros(mean), micros(deviation));
            text += &delay(fit.base);
            let _ =
                writeln!(text, "jitter = {{ shape = \"lognormal\", mean = \"{mean}\", deviation = \"{deviation}\" }}");
        }
        None => text += &delay(middle),
    }
    if let Some((part, by)) = overtaken {
        let (part, by) = (share(part.min(1.0)), micros(by.max(1e3)));
        let _ = writeln!(text, "reorder = {{ share = {part}, by = \"{by}\" }}");
    }
    if let Some(loss) = loss(way, summary) {
        text = text + &loss + "\n";
    }
    text + &process(&alone, summary.length, "")
}

/// A delay that differs by less, in nanoseconds, has not changed; nor one that differs by less than a tenth.
const CHANGED: i64 = 5_000_000;

/// Rate and delay at first, and how they change, if the least delay of a second or the rate of trains does, and stays
/// so: the path was another one. Trains of before and after are compared; the rate itself is known of the time of the
/// load, or of the end.
fn changes(way: Way, summary: &Summary, rate: Rate, wire: f64) -> Option<((Rate, f64), String)> {
    let course = summary.way(way).course.iter().enumerate();
    let delays: Vec<(i64, i64)> = course
        .filter(|(_, point)| point.is_some())
        .map(|(second, point)| (second as i64 * SECOND, point.min))
        .collect();
    let delays = steps(&delays, |level| CHANGED.max(level / 10));
    let is_filled = |way| Bottleneck::of(way, summary).is_filled;
    // Beside a way that is always full the clocks are not known well, and so no delay.
    let delays =
        if Way::BOTH.into_iter().any(is_filled) { delays.get(..1).unwrap_or_default().to_vec() } else { delays };
    let of_trains = |trains: &TrainFindings| {
        let found = steps(&trains.course, |level| level / 4);
        is_steady(&trains.course, &found, |level| level / 8).then_some(found)
    };
    let rates = trains(way, summary).and_then(of_trains).unwrap_or_default();
    let mut times: Vec<i64> = delays.iter().skip(1).chain(rates.iter().skip(1)).map(|(at, _)| *at).collect();
    times.sort_unstable();
    // Both are seen once a second: what is that close is one change.
    times.dedup_by(|later, earlier| *later - *earlier <= 2 * SECOND);
    if times.is_empty() {
        return None;
    }
    let known = summary.load(way).map_or(summary.length, |load| load.from);
    let base = level(&rates, known);
    let rate_at = |at: i64| match (level(&rates, at), base) {
        (Some(there), Some(base)) if base > 0 => {
            Rate::from_bps((rate.bps() as f64 * there as f64 / base as f64) as u64).max(Rate::from_bps(1_000))
        }
        _ => rate,
    };
    let delay_at = |at: i64| (level(&delays, at).unwrap_or(0) as f64 - wire).max(0.0);
    let of = |at: &i64| {
        // What a second has of both counts from its begin.
        let after = *at + 2 * SECOND;
        let (rate, delay) = ((rate_at(after).bps() / 1_000).max(1), micros(delay_at(after)));
        format!("{{ at = \"{}\", rate = \"{rate} kbps\", delay = \"{delay}\" }}", micros(*at as f64))
    };
    let list: Vec<String> = times.iter().filter(|at| (1..summary.length).contains(*at)).map(of).collect();
    let again = micros(summary.length.max(1) as f64);
    Some(((rate_at(0), delay_at(0)), format!("changes = [{}]\nrepeat = \"{again}\"\n", list.join(", "))))
}

const SECOND: i64 = 1_000_000_000;

/// How long packets wait for slots of a crowded channel, all but a few.
const SLOTS: Duration = Duration::from_millis(150);

/// The fitted path in TOML: `[path.model]`.
///
/// It has for each way:
///
/// - rate, queue and token bucket, as loads and trains show them; without either 1 Gbps and a queue of 1 s;
/// - a fixed and a log-normal delay, or that of a crowded wireless channel, and packets that others overtake;
/// - losses by chance, or in bursts of packets or of time;
/// - suspensions at random times of random length, each way by itself and both together; that they come in series is
///   not in it;
/// - changes of rate and delay that last.
pub fn model(summary: &Summary) -> String {
    let both: Vec<&Event> = summary.events.iter().filter(|event| event.way() == "both").collect();
    let mut text = String::from("# Fitted: delays, losses, and suspensions at random times.\n[path.model]\n");
    text += &process(&both, summary.length, "");
    for way in Way::BOTH {
        text += "\n";
        text += &direction(way, summary, summary.way(way));
    }
    text
}

/// The measured path in TOML, as a scenario has it: `[path.model]`, see [`model`], and `[path.replay]`, which reads the
/// two files of a [`Replay`] by these names, up and down.
pub fn scenario(summary: &Summary, traces: [&str; 2]) -> String {
    let is_known = |way: &Way| summary.load(*way).is_some() || summary.trains.iter().any(|trains| trains.way == *way);
    let known = Way::BOTH.into_iter().filter(is_known).count();
    let mut text = String::from(match known {
        0 => {
            "# A path as it was measured. The rate was not: write the rate of the path where it is known, and its queue.\n\n"
        }
        1 => "# A path as it was measured. The rate of one way was not: it has 1 Gbps.\n\n",
        _ => "# A path as it was measured.\n\n",
    });
    text += &model(summary);
    text += "\n# What was measured, as it was.\n";
    for (way, trace) in Way::BOTH.into_iter().zip(traces) {
        let least = micros(summary.way(way).delays.min().nanos() as f64);
        let trace = trace.escape_default();
        let way = way.name();
        let _ = write!(text, "[path.replay.{way}]\ntrace = \"{trace}\"\ndelay = \"{least}\"\nqueue = \"1 s\"\n\n");
    }
    text.truncate(text.trim_end().len());
    text + "\n"
}
