//! Predict: forecasts the load of a slow start one round trip ahead, and marks before the queue builds up.
//!
//! Kulatunga, Järvinen and Fairhurst showed the idea ("Gazing Beyond Horizon", AINA 2017): an exponential transient can
//! be measured in the traffic itself, below saturation and without knowing the round trip. The published parameters
//! are not available to us. What is here is a reconstruction \[R\] from the authors' slides, with parameters of our
//! own; `docs/queues.md` has measurements and the sensitivity to each parameter.
//!
//! # What is measured
//!
//! The unit is time on the link: a packet of 1,500 bytes at 20 Mbps is 0.6 ms of work. With A(t) the work that has
//! arrived and Q(t) what waits of it, the load in the loop of flows with round trip R is
//!
//! ```text
//! W(t) = A(t) − served(t − R) = (busy time in the last R) + Q(t)
//! ```
//!
//! What the senders have had echoed by t had arrived by t₁ with t₁ + Q(t₁) = t − R: the *stretched* round trip. Slow
//! start doubles W with each of these, paced or not, however many flows it is, and whether the link is full or not.
//! Packets that are in flight when a mark is set double the load once more, so the time to mark is when 2 W reaches R.
//!
//! # How
//!
//! ```text
//! enqueue ──► A ──► slot ends ──► load of the last three stretched round trips, for each candidate R
//!                                   │ two doublings in a row? how well so far?        (candidate)
//!                                   │ does twice the load exceed R?
//!                                   │ does a longer round trip explain it?            (veto)
//!                                   ▼
//!                                 mark one packet of every flow for three stretched round trips
//! ```
//!
//! The loads come from prefix sums: [`history`] keeps A(t) per slot, and for each slot the latest one whose work had
//! left by then, so that a load is two lookups for any R. A rolling sum per candidate gives the same and takes a table
//! of slots × candidates; a test compares the two.
//!
//! A burst at twice the rate looks like doublings at every round trip below a third of its length. Hence the veto: as
//! long as a candidate has tracked below saturation, those of less than two thirds of it do not fire.
//!
//! Senders have to end slow start on a mark without a reduction (the recovery policy `mark=end-start`); to those that
//! reduce, a mark half way to saturation costs throughput. Packets without ECN pass, unless `not_ect = "drop"`.

mod candidate;
mod forecast;
mod history;
mod log;
#[cfg(test)]
mod tests;

use core::fmt::Debug;
use core::ops::RangeInclusive;

use serde::Serialize;
use thalweg_units::{Duration, DurationExt, Instant, Rate, exact_duration};

use super::backlog::{Backlog, Room};
use super::codel::{CoDel, Control, Restart, State};
use super::{Dropped, FlowHash, Grid, Kind, Queue, QueueLimit, Queued, Setup, set};
use crate::read::{Field, Table};
use crate::{DropCause, Packet};
use forecast::{Forecast, Rules};

/// Ends slow starts ahead of the queue: see the [module](self).
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Predict {
    /// How often the load is looked at. \[R\] 1 ms: a tenth of the shortest round trip that is told from others. Finer
    /// slots cost time, coarser ones blur short round trips.
    pub slot: Duration,
    /// The shortest candidate. \[R\] 10 ms. An initial window over a shorter path saturates it before two doublings.
    pub min_rtt: Duration,
    /// No candidate is longer. \[R\] 800 ms: geostationary satellites, with some queue. History, and with it memory,
    /// follows.
    pub max_rtt: Duration,
    /// Candidates per doubling of the round trip. \[R\] 4: the nearest is at most 9 % off. Eight are no better.
    pub per_octave: u32,
    /// Thousandths: the forecast load, in round trips of work, at which to mark. \[R\] 1.1: above 1 the link stays
    /// full in spite of the error of the candidate. Less means a shorter queue, more means fewer flows that end late.
    pub theta: u32,
    /// Thousandths: how far log2 of a growth may be from one doubling. \[R\] 0.4: growth by 1.5 to 2.6. Acknowledgments
    /// of every second packet and bursts blur the doubling; a constant load is off by 1.
    pub tolerance: u32,
    /// Thousandths: time constant of the mean error of a candidate, in its round trips. \[R\] 1.5. Shorter reacts
    /// sooner, and fires on what only looks like slow start.
    pub memory: u32,
    /// Thousandths: how long a candidate has to be eligible, in its round trips. \[R\] 0.02.
    pub persist: u32,
    /// Thousandths: how long to mark, in stretched round trips. 3. One leaves out the flows that send nothing in it,
    /// and once in a while the queue then grows as if there were no mark at all; with 2 that still happens where the
    /// candidate is shorter than the round trip. As flows are told once, more costs nothing.
    pub mark_for: u32,
    /// Thousandths: how long to forecast nothing after that, in stretched round trips. 1: what the
    /// marks do has to show first.
    pub rest_for: u32,
    /// How long a flow that has been marked is not marked again. 30 s: to a flow in congestion avoidance a mark means a
    /// reduction, and what CUBIC does there can look like a newcomer. Unless more than `max_rtt` of work waits: then
    /// somebody has not heeded a mark.
    pub spare: Duration,
    /// Thousandths: the most that a slot can be off, as a logarithm. What follows no load is off by that. \[R\] 1.5, a
    /// half more than a constant load. Less forgets the beginning of a flow sooner.
    pub surprise: u32,
    /// Whether to look for a slow start on top of a load that is constant.
    pub newcomer: bool,
    /// What happens to packets that cannot be marked.
    pub not_ect: NotEct,
    /// Which packets carry the signal. Those that arrive, as published: a signal at the head is earlier by what waits,
    /// and while Predict is in time, little waits.
    pub mark_at: MarkAt,
    /// Whether CoDel with its defaults serves the queue. Marks of Predict never make a window smaller, so anything that
    /// lasts longer than slow start needs another one to.
    pub codel: bool,
}

/// What Predict does about a packet that it would mark and cannot.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NotEct {
    /// Nothing. A drop forces the reduction that Predict is there to avoid.
    Pass,
    /// Drops one packet of the flow.
    Drop,
}

/// Which end of the queue Predict marks at.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MarkAt {
    /// Packets that arrive.
    Tail,
    /// Packets that leave.
    Head,
}

impl Default for Predict {
    fn default() -> Self {
        Predict {
            slot: Duration::from_millis(1),
            min_rtt: Duration::from_millis(10),
            max_rtt: Duration::from_millis(800),
            per_octave: 4,
            theta: 1_100,
            tolerance: 400,
            memory: 1_500,
            persist: 20,
            mark_for: 3_000,
            rest_for: 1_000,
            spare: Duration::from_secs(30),
            surprise: 1_000,
            newcomer: true,
            not_ect: NotEct::Pass,
            mark_at: MarkAt::Tail,
            codel: false,
        }
    }
}

/// How many slots the shortest candidate has at least: fewer cannot tell a doubling.
const LEAST_SLOTS: u32 = 4;

/// How many slots the longest candidate has at most. Bounds memory and the time that a slot takes.
const MOST_SLOTS: u32 = 3_000;

/// A number within bounds, in thousandths.
fn thousandths(field: &dyn Field, range: RangeInclusive<f64>) -> Option<u32> {
    field.number_in(range).map(|number| (number * 1e3).round() as u32)
}

impl Predict {
    fn read_into(&mut self, table: &dyn Table) {
        let span = |micros: u64| Duration::from_micros(micros);
        set(table, "slot", &mut self.slot, |field| field.duration_in(span(100)..=span(10_000)));
        let (least, most) = (self.slot * LEAST_SLOTS, self.slot * MOST_SLOTS);
        set(table, "min_rtt", &mut self.min_rtt, |field| field.duration_in(least..=most));
        set(table, "max_rtt", &mut self.max_rtt, |field| field.duration_in(least..=most));
        if self.min_rtt < least || self.max_rtt > most || self.max_rtt < self.min_rtt {
            let [slot, from, to, least, most] =
                [self.slot, self.min_rtt, self.max_rtt, least, most].map(exact_duration);
            table.complain(&format_args!(
                "has slots of {slot}, which do not fit round trips from {from} to {to}; write a min_rtt of {least} at \
                 least, and a max_rtt from there to {most}"
            ));
        }
        set(table, "candidates", &mut self.per_octave, |field| {
            let count = field.count(1..=8)?;
            if !count.is_power_of_two() {
                field.complain(&format_args!("{count} is not a power of two; write 1, 2, 4 or 8"));
                return None;
            }
            u32::try_from(count).ok()
        });
        set(table, "theta", &mut self.theta, |field| thousandths(field, 0.1..=10.0));
        set(table, "tolerance", &mut self.tolerance, |field| thousandths(field, 0.01..=0.99));
        set(table, "memory", &mut self.memory, |field| thousandths(field, 0.25..=100.0));
        set(table, "persist", &mut self.persist, |field| thousandths(field, 0.0..=4.0));
        set(table, "mark_for", &mut self.mark_for, |field| thousandths(field, 0.1..=16.0));
        set(table, "rest_for", &mut self.rest_for, |field| thousandths(field, 0.0..=16.0));
        set(table, "spare", &mut self.spare, |field| field.duration_in(Duration::ZERO..=Duration::from_secs(3_600)));
        set(table, "surprise", &mut self.surprise, |field| thousandths(field, 0.5..=4.0));
        set(table, "newcomer", &mut self.newcomer, |field| field.boolean());
        set(table, "not_ect", &mut self.not_ect, |field| {
            field.choice(&[("pass", NotEct::Pass), ("drop", NotEct::Drop)])
        });
        set(table, "mark_at", &mut self.mark_at, |field| {
            field.choice(&[("tail", MarkAt::Tail), ("head", MarkAt::Head)])
        });
        set(table, "codel", &mut self.codel, |field| field.boolean());
    }

    fn rules(&self) -> Rules {
        Rules {
            slot: self.slot.nanos(),
            min_rtt: self.min_rtt.nanos(),
            max_rtt: self.max_rtt.nanos(),
            per_octave: self.per_octave,
            theta: self.theta,
            tolerance: self.tolerance,
            memory: self.memory,
            persist: self.persist,
            mark_for: self.mark_for,
            rest_for: self.rest_for,
            spare: self.spare.nanos(),
            newcomer: self.newcomer,
            surprise: self.surprise,
        }
    }
}

impl Kind for Predict {
    const NAME: &'static str = "predict";
    const EXAMPLE: &'static str = "{ name = \"predict\", slot = \"1 ms\", min_rtt = \"10 ms\", max_rtt = \"800 ms\", \
        candidates = 4, theta = 1.1, tolerance = 0.4, memory = 1.5, persist = 0.02, mark_for = 3, rest_for = 1, \
        spare = \"30 s\", surprise = 1.0, newcomer = true, not_ect = \"pass\", mark_at = \"head\", \
        codel = true }";
    const DOC: &'static str = r#"Predict, reconstructed: forecasts a slow start one round trip ahead and marks one packet of
        each flow; senders need the policy mark = "end-start". Looks every slot (default "1 ms", "100 µs" to "10 ms") at
        so many candidates (default 4; 1, 2, 4 or 8) per doubling of the round trip from min_rtt (default "10 ms", at
        least 4 slots) to max_rtt (default "800 ms", at most 3,000 slots); tolerance (default 0.4): how far growth may be
        from a doubling, as a logarithm to base 2; surprise (default 1): the most that one slot can be off; memory
        (default 1.5) of the mean error, persist (default 0.02), mark_for (default 3), rest_for (default 1), theta
        (default 1.1): the load to mark at, all in round trips; spare (default "30 s", at most "1 h"): how long a flow that was marked is
        not marked again; newcomer = false (default true) does not look for a slow start beside a constant load; not_ect = "drop"
        (default "pass")
        drops one packet of a flow that cannot be marked; mark_at = "head" (default "tail") marks packets that leave
        instead of those that arrive; codel = true (default false) has CoDel serve the queue; default queue
        "unlimited""#;

    fn read(table: &dyn Table) -> Option<Self> {
        let mut kind = Self::default();
        kind.read_into(table);
        Some(kind)
    }

    fn limit(&self, _: Option<Rate>) -> QueueLimit {
        QueueLimit::Infinite
    }

    fn build<P: Debug + Send + 'static>(&self, setup: Setup) -> Box<dyn Queue<P>> {
        Box::new(PredictQueue::new(self, setup))
    }
}

/// How many places there are for flows that have been told. Of four flows two share one once in 700 runs; the second is
/// then told by a later forecast. 32 KiB.
const PLACES: u32 = 4_096;

/// Until when packets are marked, and which flows have been told.
#[derive(Debug)]
struct Episode {
    until: Instant,
    /// Who has been told in this slot or later is not told again.
    told_since: u64,
    /// One more than the slot in which the flows of a place were told last; 0 for never.
    told: Box<[u64]>,
    hash: FlowHash,
}

impl Episode {
    /// Tells the flow of a packet, with this packet, unless it has been told.
    fn tell(&mut self, slot: u64, tuple: u64, tell: impl FnOnce() -> bool) {
        let place = self.hash.slot(tuple, PLACES);
        if let Some(told) = self.told.get_mut(place)
            && *told <= self.told_since
            && tell()
        {
            *told = slot + 1;
        }
    }
}

/// The queue of [`Predict`]: first in, first out.
#[derive(Debug)]
struct PredictQueue<P> {
    backlog: Backlog<P>,
    room: Room,
    rate: Rate,
    /// Work that has arrived, in nanoseconds.
    arrived: u64,
    /// When the packet on the wire is gone.
    wire_free: Instant,
    slots: Grid,
    /// When the slot under way ends.
    slot_ends: Instant,
    slot: Duration,
    forecast: Forecast,
    episode: Episode,
    not_ect: NotEct,
    mark_at: MarkAt,
    /// What serves the queue, if anything does.
    codel: Option<(Control, State)>,
    /// How often it has begun to mark.
    forecasts: u64,
}

impl<P> PredictQueue<P> {
    fn new(kind: &Predict, mut setup: Setup) -> Self {
        let hash = FlowHash::new(&mut setup.dice);
        let told = vec![0; PLACES as usize].into_boxed_slice();
        PredictQueue {
            backlog: Backlog::new(),
            room: Room::new(setup.limit, Some(setup.rate)),
            rate: setup.rate,
            arrived: 0,
            wire_free: setup.start,
            slots: Grid::new(setup.start, kind.slot),
            slot_ends: setup.start + kind.slot,
            slot: kind.slot,
            forecast: Forecast::new(kind.rules()),
            episode: Episode { until: setup.start, told_since: 0, told, hash },
            not_ect: kind.not_ect,
            mark_at: kind.mark_at,
            codel: kind.codel.then(|| (Control::new(&CoDel::default(), Restart::Delta), State::new())),
            forecasts: 0,
        }
    }

    /// Work that waits at `at`: the queue, and what is left of the packet on the wire.
    fn work(&self, at: Instant) -> u64 {
        let queued = self.rate.time_for(self.backlog.bytes()).nanos();
        queued.saturating_add(self.wire_free.saturating_since(at).nanos())
    }

    /// Ends the slots that have passed.
    fn catch_up(&mut self, now: Instant) {
        while let Some(at) = self.slots.tick(now) {
            if at > self.slot_ends {
                // The clock has jumped, over more than the whole history: a new beginning.
                self.forecast.clear();
                self.arrived = 0;
                self.episode.told.fill(0);
            }
            self.slot_ends = at + self.slot;
            if let Some(warning) = self.forecast.end_slot(self.arrived, self.work(at)) {
                self.forecasts += 1;
                self.episode.until = at + Duration::from_nanos(warning.mark_for);
                self.episode.told_since = warning.told_since;
            }
        }
    }

    /// Tells the flow of a packet, if that is what is done now. False if the packet is to be dropped.
    fn tell(&mut self, now: Instant, packet: &mut Packet<P>) -> bool {
        let mut passes = true;
        if now < self.episode.until {
            let drops = self.not_ect == NotEct::Drop;
            self.episode.tell(self.forecast.slot(), packet.tuple(), || {
                let is_marked = packet.try_mark();
                passes = is_marked || !drops;
                is_marked || drops
            });
        }
        passes
    }

    /// A packet arrives that has room.
    fn accept(&mut self, now: Instant, mut packet: Packet<P>, dropped: &mut Vec<Dropped<P>>) {
        self.arrived = self.arrived.saturating_add(self.rate.time_for(u64::from(packet.size)).nanos());
        if self.mark_at == MarkAt::Head || self.tell(now, &mut packet) {
            self.backlog.push(now, packet);
        } else {
            dropped.push(Dropped { packet, at: now, cause: DropCause::Aqm });
        }
    }

    /// What leaves next.
    fn take(&mut self, now: Instant, dropped: &mut Vec<Dropped<P>>) -> Option<Queued<P>> {
        match &mut self.codel {
            Some((control, state)) => state.dequeue(control, now, &mut self.backlog, dropped),
            None => self.backlog.pop(),
        }
    }
}

impl<P: Debug + Send> Queue<P> for PredictQueue<P> {
    fn enqueue(&mut self, now: Instant, packet: Packet<P>, dropped: &mut Vec<Dropped<P>>) {
        self.catch_up(now);
        if self.room.fits(self.backlog.bytes(), self.backlog.len(), packet.size) {
            self.accept(now, packet, dropped);
        } else {
            dropped.push(Dropped { packet, at: now, cause: DropCause::QueueFull });
        }
    }

    fn enqueue_idle(&mut self, now: Instant, packet: Packet<P>, dropped: &mut Vec<Dropped<P>>) {
        self.catch_up(now);
        self.accept(now, packet, dropped);
    }

    fn dequeue(&mut self, now: Instant, dropped: &mut Vec<Dropped<P>>) -> Option<Queued<P>> {
        self.catch_up(now);
        let mut queued = self.take(now, dropped)?;
        while self.mark_at == MarkAt::Head && !self.tell(now, &mut queued.packet) {
            dropped.push(Dropped { packet: queued.packet, at: now, cause: DropCause::Aqm });
            queued = self.take(now, dropped)?;
        }
        self.wire_free = self.wire_free.max(now) + self.rate.time_for(u64::from(queued.packet.size));
        Some(queued)
    }

    fn set_rate(&mut self, rate: Rate) {
        self.rate = rate;
        self.room.set_rate(rate);
    }

    fn signals(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("forecasts", self.forecasts as f64);
        if let Some(best) = self.forecast.best() {
            tell("candidate_ms", best.rtt as f64 / 1e6);
            tell("load_ms", best.load as f64 / 1e6);
            tell("forecast_ms", best.load as f64 * 2.0 / 1e6);
            tell("error", best.error);
        }
    }

    fn len_bytes(&self) -> u64 {
        self.backlog.bytes()
    }

    fn len_packets(&self) -> usize {
        self.backlog.len()
    }
}
