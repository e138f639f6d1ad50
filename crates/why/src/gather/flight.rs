//! Packets on their way: when each was acknowledged or lost, how long it took, and how fast they were delivered.

use std::collections::{BTreeMap, VecDeque};

use super::curve::Curve;
use super::frames::Ack;
use super::sizes::Sizes;
use crate::bins::Bins;
use crate::world::HEADERS;

/// The most packets that are watched at a time; the oldest are forgotten.
const WATCHED: usize = if cfg!(test) { 1 << 12 } else { 1 << 18 };
/// Holes that are remembered, to see whether they are filled.
const HOLES: usize = 1 << 14;
/// The size of packets that any path carries, with which a connection begins; bytes.
pub(super) const LEAST_MTU: u64 = 1200;
/// Losses and late packets that are kept.
const KEPT: usize = if cfg!(test) { 1 << 11 } else { 1 << 17 };
/// Acknowledgments over which a rate is taken.
const STEPS: usize = 256;

/// A packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) time: f64,
    pub(super) size: u32,
    /// Bytes of streams that had not been sent before.
    pub(super) fresh: u32,
    /// Its place among all packets of the direction.
    pub(super) index: u64,
    /// Bytes that had been delivered when it was sent, and when that was.
    delivered: (u64, f64),
    /// Bytes on the wire that had been sent before it.
    before: u64,
    is_lost: bool,
    /// It has data of streams.
    has_data: bool,
    /// Not in the ranges that the log kept, and counted as delivered all the same.
    is_counted: bool,
    /// The round trip of the packets that came instead of it.
    beside: Option<f64>,
}

/// A packet that was lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Lost {
    /// When it was sent, milliseconds.
    pub(crate) sent: f64,
    /// Its place among all packets of the direction.
    pub(crate) index: u64,
    /// The round-trip time of packets beside it, milliseconds.
    pub(crate) round_trip: f64,
    /// Bytes on the wire that had been sent before it, and its own.
    pub(crate) before: u64,
    pub(crate) size: u32,
}

/// A packet that was overtaken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Late {
    /// Which of the packets that were sent it is, from 0.
    pub(crate) index: u64,
    /// When it was sent, milliseconds.
    pub(crate) sent: f64,
    /// By how much it came later than those beside it, milliseconds.
    pub(crate) by: f64,
    /// Whether it had been declared lost.
    pub(crate) was_lost: bool,
}

/// Packets with application data.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    /// Packets of the direction so far.
    pub(super) index: u64,
    /// Above the largest acknowledged.
    ahead: VecDeque<(u64, Sent)>,
    /// Below it, neither acknowledged nor forgotten.
    holes: BTreeMap<u64, Sent>,
    /// Bytes of packets that were acknowledged.
    delivered: u64,
    last_delivery: f64,
    steps: VecDeque<Step>,
    no_rate_until: f64,
    train: Train,
    pub(crate) last_round_trip: Option<f64>,
    /// The same without what the receiver says that it waited.
    pub(super) net: Net,
    srtt: Option<f64>,
    /// The shortest round trip so far, milliseconds.
    pub(crate) least: Option<f64>,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) payload_acked: u64,
    /// The last acknowledgment of new data of a stream, as if the receiver had not waited with it.
    pub(crate) last_payload: Option<f64>,
    pub(crate) losses: Losses,
    pub(crate) round_trips: Bins,
    pub(crate) rates: Rates,
}

/// Round trips without what the receiver says that it waited, milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Net {
    pub(super) last: Option<f64>,
    least: Option<f64>,
}

/// What was lost and what came late.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    /// Packets of which it was seen whether they came with those beside them, and those that did not.
    pub(crate) seen: u64,
    pub(crate) holes: u64,
    /// Packets of which it was not seen, as an acknowledgment has no room for all ranges.
    pub(crate) cut: u64,
    /// Declared lost.
    pub(crate) declared: u64,
    /// Of these, acknowledged after all.
    pub(crate) spurious: u64,
    pub(crate) lost: BTreeMap<u64, Lost>,
    pub(crate) late: Vec<Late>,
    /// By their sizes, with those that came through.
    pub(crate) sizes: Sizes,
    /// Packets with data of streams of which neither is known.
    open: u64,
}

impl Losses {
    /// What was declared lost and came was not.
    fn came(&mut self, number: u64, sent: &Sent) {
        if sent.is_lost {
            self.spurious += 1;
            self.lost.remove(&number);
        }
    }
}

/// Delivery rates, bytes per millisecond, weighted by bytes.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    /// Over a round trip.
    pub(crate) long: Bins,
    /// Over less.
    pub(crate) short: Bins,
    /// Over less, while a queue stood.
    pub(crate) queued: Bins,
    /// Of packets that left together and were acknowledged apart.
    pub(crate) trains: Bins,
    by_size: [Shortest; 2],
    /// The shortest round trip of packets of each size, in steps of [`SIZE_STEP`] bytes; larger ones are in the last.
    shortest: [Shortest; SIZE_STEPS],
    /// What was sent over time.
    pub(crate) curve: Curve,
    /// Acknowledgments of new packets, and how many those were.
    answers: (u64, u64),
}

impl Rates {
    /// Packets that an acknowledgment of new ones acknowledged, in the mean.
    pub(crate) fn per_answer(&self) -> Option<f64> {
        (self.answers.0 > 0).then(|| self.answers.1 as f64 / self.answers.0 as f64)
    }
}

/// The shortest round trip of packets of about one size.
#[derive(Clone, Copy, Debug, Default)]
struct Shortest {
    samples: u64,
    /// Milliseconds.
    time: f64,
    /// Of the packet that took it, bytes.
    size: f64,
}

impl Shortest {
    fn add(&mut self, round_trip: f64, size: u32) {
        if self.samples == 0 || round_trip < self.time {
            (self.time, self.size) = (round_trip, f64::from(size));
        }
        self.samples += 1;
    }
}

/// Packets that differ by less take about as long, bytes.
const SIZE_STEP: usize = 128;
const SIZE_STEPS: usize = 12;
/// Small and large packets, bytes; the shortest round trip of each is of so many samples.
const SIZES: [core::ops::RangeInclusive<u32>; 2] = [1100..=1250, 1400..=9000];
const SAMPLES: [u64; 2] = [3, 12];
/// By so much the large ones take longer where that can be told, milliseconds.
const LONGER: f64 = 0.25;

/// What had been delivered when.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// When the newest of it arrived, plus half a round trip, milliseconds.
    time: f64,
    delivered: u64,
    /// The round trip of the newest, without what the receiver waited, milliseconds.
    net: f64,
}

/// Packets that left together: what stretches their acknowledgments is the bottleneck.
#[derive(Clone, Copy, Debug, Default)]
struct Train {
    /// The last acknowledgment of new packets: when it came, when its newest packet was sent, and the bytes by then.
    last: Option<(f64, f64, u64)>,
    /// What was acknowledged apart so far, and in how long.
    bytes: u64,
    time: f64,
    /// Whether the log does not say how late acknowledgments were, of any of them so far.
    is_undated: bool,
}

/// Acknowledgments that are later than this tell little of when packets arrived, milliseconds.
const LATE: f64 = 10.0;

/// No acknowledgment waits longer, whatever it says; milliseconds.
const LONGEST_DELAY: f64 = 100.0;

/// A train has at least so many bytes behind its first acknowledgment …
const TRAIN: u64 = 4 * 1200;
/// … or comes apart by so many milliseconds, more than hosts hold packets up: on a slow path two packets do.
const SLOW: f64 = 8.0;

impl Flight {
    pub(super) fn sent(&mut self, now: f64, number: u64, size: u64, (fresh, has_data): (u64, bool)) {
        if self.ahead.back().is_some_and(|(last, _)| *last >= number) {
            // Told twice, or out of order.
            return;
        }
        if self.ahead.is_empty() {
            self.last_delivery = now;
        }
        self.packets += 1;
        self.bytes += size;
        if self.srtt.is_none() {
            self.rates.curve.first_flight += size;
        }
        let before = self.rates.curve.add(now, size + HEADERS);
        let sent = Sent {
            time: now,
            size: u32::try_from(size).unwrap_or(u32::MAX),
            fresh: u32::try_from(fresh).unwrap_or(u32::MAX),
            index: self.index.saturating_sub(1),
            delivered: (self.delivered, self.last_delivery),
            before,
            is_lost: false,
            has_data,
            is_counted: false,
            beside: None,
        };
        self.losses.open += u64::from(has_data);
        self.ahead.push_back((number, sent));
        if self.ahead.len() > WATCHED {
            self.ahead.pop_front();
        }
    }

    pub(super) fn acked(&mut self, now: f64, ack: &Ack, each: &mut dyn FnMut(u64, f64)) {
        let Some((_, largest)) = ack.ranges.first().copied() else { return };
        let lowest = ack.ranges.last().map_or(0, |(from, _)| *from);
        let mut newest = None;
        let before = self.last_round_trip;
        let before_payload = self.last_payload;
        let holes = self.losses.holes;
        while let Some((number, sent)) = self.ahead.front().copied().filter(|(number, _)| *number <= largest) {
            self.ahead.pop_front();
            if ack.ranges.iter().any(|(from, to)| (*from..=*to).contains(&number)) {
                self.losses.seen += 1;
                // A timeout may have declared it lost, though nothing had overtaken it.
                self.losses.came(number, &sent);
                self.deliver(now, &sent);
                self.rates.answers.1 += 1;
                each(number, sent.time);
                newest = Some(sent);
            } else if number < lowest && ack.is_cut {
                // Most of what lies below has arrived.
                self.losses.cut += 1;
                self.deliver(now, &sent);
                self.holes.insert(number, Sent { is_counted: true, ..sent });
            } else {
                self.losses.seen += 1;
                self.losses.holes += 1;
                self.holes.insert(number, sent);
            }
        }
        let is_new = newest.is_some();
        self.rates.answers.0 += u64::from(is_new);
        // What an acknowledgment counts had arrived by then, half a round trip earlier.
        let arrived = now - if is_new { ack.delay.clamp(0.0, LONGEST_DELAY) } else { 0.0 };
        let is_whole = !ack.is_cut && !ack.may_be_late && self.losses.holes == holes;
        if let Some(sent) = newest {
            self.sample(now, &sent, ack.delay);
            self.train.is_undated |= ack.is_undated;
            self.couple(now, sent.time, ack.delay, is_whole);
            for (_, hole) in self.holes.iter_mut().rev().take_while(|(_, hole)| hole.beside.is_none()) {
                hole.beside = self.last_round_trip;
            }
        }
        for (from, to) in &ack.ranges {
            let filled: Vec<u64> = self.holes.range(*from..=*to).map(|(number, _)| *number).collect();
            for number in filled {
                each(number, self.holes.get(&number).map_or(now, |sent| sent.time));
                self.fill(now, number, if is_new { before } else { self.last_round_trip });
            }
        }
        while self.holes.len() > HOLES {
            self.holes.pop_first();
        }
        if self.last_payload == Some(now) {
            self.last_payload = Some(before_payload.map_or(arrived, |before| before.max(arrived)));
        }
        self.step(now, arrived);
    }

    /// A packet arrived after later ones.
    fn fill(&mut self, now: f64, number: u64, beside: Option<f64>) {
        let Some(sent) = self.holes.remove(&number) else { return };
        if !sent.is_counted {
            self.deliver(now, &sent);
        }
        self.losses.came(number, &sent);
        if sent.is_lost || !sent.is_counted {
            self.late(now, &sent, beside);
        }
    }

    /// The sender says that a packet that it had declared lost has arrived.
    pub(super) fn spurious(&mut self, now: f64, number: u64) {
        self.fill(now, number, self.last_round_trip);
    }

    fn deliver(&mut self, now: f64, sent: &Sent) {
        if !sent.is_lost {
            self.losses.open = self.losses.open.saturating_sub(u64::from(sent.has_data));
        }
        self.delivered += u64::from(sent.size);
        self.losses.sizes.through(sent.size, sent.time);
        self.last_delivery = now;
        self.payload_acked += u64::from(sent.fresh);
        if sent.fresh > 0 {
            self.last_payload = Some(now);
        }
    }

    fn sample(&mut self, now: f64, sent: &Sent, delay: f64) {
        let round_trip = now - sent.time;
        self.round_trips.add(round_trip, f64::from(sent.size));
        self.least = Some(self.least.map_or(round_trip, |least| least.min(round_trip)));
        self.last_round_trip = Some(round_trip);
        let net = round_trip - delay.clamp(0.0, round_trip);
        self.net.last = Some(net);
        self.net.least = Some(self.net.least.map_or(net, |least| least.min(net)));
        for (seen, sizes) in self.rates.by_size.iter_mut().zip(SIZES) {
            if sizes.contains(&sent.size) {
                seen.add(round_trip, sent.size);
            }
        }
        let step = (sent.size as usize / SIZE_STEP).min(SIZE_STEPS - 1);
        self.rates.shortest[step].add(round_trip, sent.size);
        let smoothed = self.srtt.map_or(round_trip, |srtt| srtt + (round_trip - delay.min(round_trip) - srtt) / 8.0);
        self.srtt = Some(smoothed.max(0.001));
        let (delivered, at) = sent.delivered;
        let bytes = (self.delivered - delivered) as f64;
        if now > at && now >= self.no_rate_until {
            self.rates.long.add(bytes / (now - at), bytes);
        }
    }

    /// After a silence what was held comes all at once, whatever the rate.
    pub(super) fn silent(&mut self, until: f64) {
        self.steps.clear();
        self.no_rate_until = until + self.srtt.unwrap_or(0.0);
    }

    /// The rate over the last acknowledgments.
    fn step(&mut self, now: f64, arrived: f64) {
        if now < self.no_rate_until {
            return;
        }
        let arrived = self.steps.back().map_or(arrived, |last| last.time.max(arrived));
        let net = self.net.last.unwrap_or(0.0);
        match self.steps.back_mut() {
            Some(last) if last.time == arrived => (last.delivered, last.net) = (self.delivered, net.min(last.net)),
            _ => self.steps.push_back(Step { time: arrived, delivered: self.delivered, net }),
        }
        if self.steps.len() > STEPS {
            self.steps.pop_front();
        }
        let round_trip = self.last_round_trip.unwrap_or(0.0);
        // Long enough for the grain of acknowledgments and of delays in hosts, shorter than the path.
        let least = (round_trip / 4.0).clamp(4.0, 100.0);
        let is_enough = |step: &&Step| arrived - step.time >= least && self.delivered - step.delivered >= 16 * 1200;
        let from = self.steps.iter().rev().find(is_enough);
        if let Some(Step { time, delivered, .. }) = from
            && arrived - time <= 4.0 * round_trip.max(least)
        {
            let bytes = (self.delivered - delivered) as f64;
            let rate = bytes / (arrived - time);
            self.rates.short.add(rate, bytes);
            // Behind a queue all packets wait; what comes late by itself does so alone.
            let shortest = self.steps.iter().rev().take_while(|step| step.time >= *time);
            let net = shortest.map(|step| step.net).fold(net, f64::min);
            let waited = self.srtt.unwrap_or(0.0).min(net) - self.net.least.unwrap_or(0.0);
            // What waits is several packets, and no more than is on its way.
            let backlog = rate * waited;
            if waited > 1.0 && backlog > 5.0 * 1500.0 && self.ahead.len() >= 8 {
                self.rates.queued.add(rate, bytes);
            }
        }
    }

    /// Goes on with a train, or begins the next.
    fn couple(&mut self, now: f64, sent: f64, delay: f64, is_whole: bool) {
        // When its newest packet arrived, half a round trip later.
        let arrived = now - delay;
        let last = self.train.last.replace((arrived, sent, self.delivered));
        let Some((before, before_sent, delivered)) = last else { return };
        let (apart, together) = (arrived - before, sent - before_sent);
        // What left at once comes apart by nothing else; on a slow path a packet takes longer than a round trip.
        let is_at_once = together < 0.05 * apart;
        let near = self.least.unwrap_or(0.0) * if is_at_once { 2.0 } else { 0.5 };
        let is_stretched = apart > 0.0 && together <= 0.3 * apart && apart <= near && delay < LATE;
        if is_stretched && is_whole && now >= self.no_rate_until {
            self.train.bytes += self.delivered - delivered;
            self.train.time += apart;
            return;
        }
        self.end_train();
    }

    fn end_train(&mut self) {
        let (bytes, time) = (core::mem::take(&mut self.train.bytes), core::mem::take(&mut self.train.time));
        let is_slow = bytes > 0 && time >= SLOW && !self.train.is_undated;
        if (bytes >= TRAIN && time > 0.0) || is_slow {
            self.rates.trains.add(bytes as f64 / time, bytes as f64);
        }
    }

    fn late(&mut self, now: f64, sent: &Sent, beside: Option<f64>) {
        let Some(beside) = beside else { return };
        if self.losses.late.len() < KEPT {
            self.losses.late.push(Late {
                index: sent.index,
                sent: sent.time,
                by: (now - sent.time - beside).max(0.0),
                was_lost: sent.is_lost,
            });
        }
    }

    pub(super) fn lost(&mut self, _now: f64, number: u64) {
        let newest = self.last_round_trip.unwrap_or(0.0);
        let ahead = self.ahead.binary_search_by_key(&number, |(ahead, _)| *ahead).ok();
        let ahead = ahead.and_then(|at| self.ahead.get_mut(at)).map(|(_, sent)| sent);
        let Some(sent) = self.holes.get_mut(&number).or(ahead) else { return };
        if sent.is_lost {
            return;
        }
        sent.is_lost = true;
        self.losses.open = self.losses.open.saturating_sub(u64::from(sent.has_data));
        let round_trip = sent.beside.unwrap_or(newest);
        self.losses.sizes.lost(sent.size, sent.time);
        self.losses.declared += 1;
        if self.losses.lost.len() < KEPT {
            let size = sent.size.saturating_add(HEADERS as u32);
            let (time, index, before) = (sent.time, sent.index, sent.before);
            self.losses.lost.insert(number, Lost { sent: time, index, round_trip, before, size });
        }
    }

    /// A packet without data is no longer waited for.
    pub(super) fn forget(&mut self, number: u64) {
        self.holes.remove(&number);
        if let Ok(at) = self.ahead.binary_search_by_key(&number, |(ahead, _)| *ahead) {
            self.ahead.remove(at);
        }
    }

    /// So many were declared lost, by a log that does not say which: those that were sent first. Probes for the MTU are
    /// not counted; those sent before are given up as well.
    pub(super) fn lost_oldest(&mut self, now: f64, count: u64) {
        let most = usize::try_from(count).unwrap_or(usize::MAX).min(HOLES);
        let is_open = |sent: &Sent| !sent.is_lost && !sent.is_counted;
        let is_probe = |sent: &Sent| !sent.has_data && u64::from(sent.size) > LEAST_MTU;
        let holes = self.holes.iter().filter(|(_, sent)| is_open(sent) && !is_probe(sent)).map(|(number, _)| *number);
        let oldest: Vec<u64> = holes.take(most).collect();
        let last = oldest.last().copied().unwrap_or(0);
        let probes = self.holes.range(..last).filter(|(_, sent)| is_open(sent) && is_probe(sent));
        let probes: Vec<u64> = probes.map(|(number, _)| *number).collect();
        for number in oldest.into_iter().chain(probes) {
            self.lost(now, number);
        }
    }

    pub(super) fn finish(&mut self) {
        self.end_train();
        self.steps.clear();
    }

    /// Bytes that arrived.
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Whether no data are on their way.
    pub(super) fn has_no_data(&self) -> bool {
        self.losses.open == 0
    }

    /// How much is kept of it.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        let lists = [self.ahead.len(), self.holes.len(), self.losses.lost.len(), self.losses.late.len()];
        lists.iter().sum::<usize>() + self.rates.curve.points().len() + self.steps.len()
    }

    /// The rate by which large packets take longer than small ones that nothing waited for, bytes per millisecond.
    pub(crate) fn rate_by_size(&self) -> Option<f64> {
        let [small, large] = self.rates.by_size;
        let longer = large.time - small.time;
        let is_known = small.samples >= SAMPLES[0] && large.samples >= SAMPLES[1] && longer >= LONGER;
        is_known.then(|| (large.size - small.size) / longer)
    }

    /// The shortest round trip, milliseconds, as a packet of so many bytes would have taken it over a bottleneck of
    /// such a rate, bytes per millisecond: small ones are on it for less time.
    pub(crate) fn shortest(&self, size: f64, rate: f64) -> Option<f64> {
        let seen = self.rates.shortest.iter().filter(|shortest| shortest.samples > 0);
        seen.map(|shortest| shortest.time + (size - shortest.size) / rate.max(1e-9)).min_by(f64::total_cmp)
    }

    /// When a bottleneck of such a rate, bytes per millisecond, is done with what was on its way after the last that
    /// was acknowledged, as its acknowledgments show; milliseconds.
    pub(crate) fn served(&self, rate: f64) -> f64 {
        let rest: u64 = self.ahead.iter().map(|(_, sent)| u64::from(sent.size) + HEADERS).sum();
        self.last_delivery + rest as f64 / rate.max(1e-9)
    }

    /// The smoothed round-trip time, milliseconds.
    pub(super) fn srtt(&self) -> Option<f64> {
        self.srtt
    }

    /// The numbers of the oldest and of the newest packet that are on their way, and when the oldest was sent of which
    /// an acknowledgment is due: one for what others have overtaken may never come.
    pub(super) fn outstanding(&self) -> Option<(u64, u64, f64)> {
        let (newest, _) = self.ahead.back()?;
        let (first, sent) = self.ahead.front()?;
        let hole = self.holes.iter().find(|(_, sent)| !sent.is_lost).map(|(number, _)| *number);
        Some((hole.unwrap_or(*first), *newest, sent.time))
    }

    /// How many are ahead of what was acknowledged.
    pub(super) fn ahead(&self) -> usize {
        self.ahead.len()
    }

    /// Packets that were neither acknowledged nor declared lost, at the end of the log.
    pub(crate) fn unanswered(&self) -> usize {
        self.ahead.len()
    }
}

#[cfg(test)]
mod tests;
