//! Loss, reordering and duplicates of a stream.

use thalweg_units::Ecn;

use crate::passage::Passage;

/// Datagrams lost one after the other.
#[derive(Copy, Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Burst {
    /// When the first was sent, in nanoseconds since the measurement began.
    pub start: i64,
    /// When the last was sent.
    pub end: i64,
    /// How many.
    pub count: u32,
}

/// Loss as a process of two states (E. Gilbert, "Capacity of a burst-noise channel", 1960), the bad one of which loses
/// everything.
#[derive(Copy, Clone, Debug, PartialEq, serde::Serialize)]
pub struct Gilbert {
    /// Probability that a datagram is lost after one that was not.
    pub begins: f64,
    /// Probability that a datagram is not lost after one that was.
    pub ends: f64,
}

/// What became of datagrams that were sent with ECT(0) (RFC 3168 section 5) and arrived.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct EcnFate {
    /// With the mark that they were sent with.
    pub kept: u64,
    /// Marked Congestion Experienced.
    pub congested: u64,
    /// With the mark taken away.
    pub cleared: u64,
}

/// What became of the datagrams of a stream.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Fate {
    /// Datagrams whose fate is known.
    pub sent: u64,
    /// Of these, how many were lost.
    pub lost: u64,
    /// Losses in a row, in the order of time.
    pub bursts: Vec<Burst>,
    /// Losses that follow a datagram that was not lost: as many as bursts, also when not all of those are listed.
    pub begun: u64,
    /// Lost datagrams of which the second after them was lost too.
    pub lost_second: u64,
    /// Datagrams that arrived after one that had been sent later (RFC 4737 section 4).
    pub reordered: u64,
    /// The most datagrams that overtook one.
    pub most_overtaken: u64,
    /// How much later than the first that overtook them these arrived, in all, nanoseconds.
    pub overtaken_by: u64,
    /// Arrivals beyond the first of a datagram.
    pub duplicates: u64,
    /// What became of ECN marks.
    pub ecn: EcnFate,
}

impl Fate {
    /// How losses follow one another; `None` without any.
    pub fn gilbert(&self) -> Option<Gilbert> {
        let good = self.sent.saturating_sub(self.lost).max(1);
        let (begun, lost) = (self.begun as f64, self.lost as f64);
        (self.lost > 0).then(|| Gilbert { begins: begun / good as f64, ends: begun / lost })
    }

    /// The share of lost datagrams after which the next was lost as well, and the second next.
    pub(crate) fn again(&self) -> Option<[f64; 2]> {
        let lost = self.lost.max(1) as f64;
        (self.lost > 0).then(|| [self.lost.saturating_sub(self.begun) as f64 / lost, self.lost_second as f64 / lost])
    }

    /// The share of datagrams that were overtaken, and how much later than the first that overtook them they came, in
    /// the mean, nanoseconds; `None` without any.
    pub(crate) fn overtaken(&self) -> Option<(f64, f64)> {
        let count = self.reordered as f64;
        (self.reordered > 0).then(|| (count / self.sent.max(1) as f64, self.overtaken_by as f64 / count))
    }

    /// Share of datagrams that were lost.
    pub fn loss(&self) -> f64 {
        self.lost as f64 / self.sent.max(1) as f64
    }
}

/// Counts losses in a row, reordering by the definition of RFC 4737, and duplicates.
pub fn fate(passages: &[Passage]) -> Fate {
    let mut fate = Fate { sent: passages.len() as u64, ..Fate::default() };
    let (mut before_lost, mut second_lost) = (false, false);
    for passage in passages {
        let is_lost = passage.received.is_none();
        if is_lost {
            fate.lost += 1;
            fate.lost_second += u64::from(second_lost);
            match fate.bursts.last_mut().filter(|_| before_lost) {
                Some(burst) => (burst.end, burst.count) = (passage.sent, burst.count + 1),
                None => fate.bursts.push(Burst { start: passage.sent, end: passage.sent, count: 1 }),
            }
        }
        (second_lost, before_lost) = (before_lost, is_lost);
        match passage.ecn {
            Some(Ecn::Ce) => fate.ecn.congested += 1,
            Some(Ecn::NotEct) => fate.ecn.cleared += 1,
            Some(_) => fate.ecn.kept += 1,
            None => {}
        }
        fate.duplicates += u64::from(passage.copies.saturating_sub(1));
    }
    fate.begun = fate.bursts.len() as u64;
    (fate.reordered, fate.most_overtaken) = reordering(passages);
    fate.overtaken_by = overtaken_by(passages);
    fate
}

/// How much later than the first that overtook them datagrams arrived, in all, nanoseconds.
fn overtaken_by(passages: &[Passage]) -> u64 {
    let (mut earliest, mut sum) = (i64::MAX, 0u64);
    for received in passages.iter().rev().filter_map(|passage| passage.received) {
        sum = sum.saturating_add(u64::try_from(received.saturating_sub(earliest)).unwrap_or(0));
        earliest = earliest.min(received);
    }
    sum
}

/// How many datagrams arrived after one that was sent later, and the most that overtook one (at most 1,000 are
/// counted).
fn reordering(passages: &[Passage]) -> (u64, u64) {
    let mut arrivals: Vec<(i64, usize)> =
        passages.iter().enumerate().filter_map(|(index, passage)| Some((passage.received?, index))).collect();
    arrivals.sort_unstable();
    let (mut highest, mut reordered, mut most) = (0, 0, 0);
    for (at, (_, index)) in arrivals.iter().enumerate() {
        if *index < highest {
            reordered += 1;
            let overtook = arrivals[at.saturating_sub(1000)..at].iter().filter(|(_, other)| other > index).count();
            most = most.max(overtook as u64);
        }
        highest = highest.max(*index);
    }
    (reordered, most)
}
