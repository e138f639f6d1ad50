//! Silences: times in which an acknowledgment was due and nothing came.

use std::collections::BTreeMap;

use super::flight::{Flight, Lost};

/// Silences whose packets are still looked for.
const LATEST: usize = 4;
/// Silences that are kept.
const KEPT: usize = 4096;

/// Arrivals within so many milliseconds are one.
const AT_ONCE: f64 = 0.25;
/// Arrivals that are kept of what ends a silence.
const ARRIVALS: usize = 32;

/// Packets that one arrival acknowledged after a silence. Times in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Came {
    pub(crate) at: f64,
    /// When the oldest and the newest of them were sent.
    pub(crate) oldest: f64,
    pub(crate) newest: f64,
}

/// A packet that was sent at a time was acknowledged now.
fn came(list: &mut Vec<Came>, now: f64, sent: f64) {
    let has_room = list.len() < ARRIVALS;
    match list.last_mut().filter(|last| now - last.at <= AT_ONCE) {
        Some(last) => (last.oldest, last.newest) = (last.oldest.min(sent), last.newest.max(sent)),
        None if has_room => list.push(Came { at: now, oldest: sent, newest: sent }),
        None => {}
    }
}

/// A silence. Times in milliseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Silence {
    /// The last arrival before it.
    pub(crate) from: f64,
    /// The first arrival after it.
    pub(crate) to: f64,
    /// By how much that was later than an acknowledgment was due.
    pub(crate) excess: f64,
    /// Packets that were on their way when it began, or sent while it lasted: acknowledged, and lost.
    pub(crate) acked: u64,
    pub(crate) lost: u64,
    /// Of those acknowledged, those that had been sent before it.
    pub(crate) held: u64,
    /// The first that was acknowledged and the last that was lost of those sent while it lasted.
    pub(crate) first_acked: Option<f64>,
    pub(crate) last_lost: Option<f64>,
    /// The first that was acknowledged of those sent while it lasted, more than a round trip after it had begun.
    pub(crate) survivor: Option<f64>,
    /// The round trip before it.
    pub(crate) round_trip: f64,
    /// Whether the newest of those sent before it were lost, rather than some before others that came.
    pub(crate) is_tail_lost: bool,
    /// When the first was sent of those that were lost after all that came through of what was sent before it, and how
    /// long packets beside it took.
    pub(crate) first_lost: Option<(f64, f64)>,
    /// The newest packet sent before it that was acknowledged, and when it was sent.
    pub(crate) last_held: Option<(u64, f64)>,
    /// What its end and the first arrivals after it acknowledged.
    pub(crate) came: Vec<Came>,
    pub(crate) numbers: (u64, u64),
}

/// The silences of a log.
#[derive(Debug, Default)]
pub(crate) struct Silences {
    last: Option<f64>,
    /// When what asks for an answer was sent after the last arrival.
    asked: Vec<f64>,
    pub(crate) list: Vec<Silence>,
    /// Those before any round trip was measured.
    pub(crate) early: Vec<Early>,
}

/// A gap between arrivals before any round trip was measured. Times in milliseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Early {
    pub(crate) last: f64,
    /// When something was sent that asks for an answer.
    pub(crate) asked: Vec<f64>,
    pub(crate) next: f64,
    /// Bytes of the packets that ended it.
    pub(crate) size: u64,
    /// What its end and the first arrivals after it acknowledged.
    pub(crate) came: Vec<Came>,
}

/// What was sent in a gap that is kept.
const ASKED: usize = 64;

/// Gaps before the first round trip that are kept.
const EARLY: usize = 64;

impl Silences {
    /// A packet of so many bytes arrived; whether a silence ends with it.
    pub(super) fn arrived(&mut self, now: f64, size: u64, flight: &Flight) -> bool {
        let asked = core::mem::take(&mut self.asked);
        // Packets of one datagram arrive at once.
        if let Some(early) = self.early.last_mut().filter(|early| early.next == now) {
            early.size = early.size.saturating_add(size);
        }
        let first_asked = asked.first().copied();
        let last = self.last.replace(now).or(first_asked).unwrap_or(now);
        if !asked.is_empty() && flight.srtt().is_none() && self.early.len() < EARLY {
            self.early.push(Early { last, asked, next: now, size, came: Vec::new() });
        }
        let (Some((oldest, newest, sent)), Some(round_trip)) = (flight.outstanding(), flight.srtt()) else {
            return false;
        };
        // What ended a silence and acknowledged nothing says that the path is back: what is sent from then on is
        // acknowledged next, whatever is on its way since before.
        let is_back = self.list.last().is_some_and(|silence| silence.acked == 0 && sent <= silence.to);
        let sent = if is_back { first_asked.unwrap_or(now) } else { sent };
        let due = last.max(sent + round_trip);
        let excess = now - due;
        let is_silence = excess > (round_trip / 3.0).max(30.0) && flight.ahead() > 0;
        if is_silence && self.list.len() < KEPT {
            let numbers = (oldest, newest);
            self.list.push(Silence { from: last, to: now, excess, round_trip, numbers, ..Silence::default() });
        }
        is_silence
    }

    /// Something was sent that asks for an answer.
    pub(super) fn sent(&mut self, now: f64) {
        if self.asked.len() < ASKED {
            self.asked.push(now);
        }
    }

    /// The first of the latest silences that a packet belongs to.
    fn current(&mut self, number: u64) -> Option<&mut Silence> {
        let latest = self.list.len().saturating_sub(LATEST);
        self.list[latest..].iter_mut().find(|silence| (silence.numbers.0..=silence.numbers.1).contains(&number))
    }

    /// A packet was acknowledged.
    pub(super) fn acked(&mut self, now: f64, number: u64, sent: f64) {
        if let Some(early) = self.early.last_mut().filter(|_| self.list.is_empty()) {
            came(&mut early.came, now, sent);
        }
        if let Some(silence) = self.current(number) {
            came(&mut silence.came, now, sent);
            silence.acked += 1;
            if sent > silence.from {
                silence.first_acked = Some(silence.first_acked.map_or(sent, |first| first.min(sent)));
                if sent > silence.from + silence.round_trip {
                    silence.survivor = Some(silence.survivor.map_or(sent, |first| first.min(sent)));
                }
            } else {
                silence.held += 1;
                if silence.last_held.is_none_or(|(last, _)| last < number) {
                    silence.last_held = Some((number, sent));
                }
            }
        }
    }

    /// There is nothing more. What was declared lost in a silence and came after all was not lost.
    pub(super) fn finish(&mut self, lost: &BTreeMap<u64, Lost>) {
        for silence in &mut self.list {
            (silence.lost, silence.last_lost) = (0, None);
            let last_held = silence.last_held.map(|(number, _)| number);
            for (number, Lost { sent, round_trip, .. }) in lost.range(silence.numbers.0..=silence.numbers.1) {
                let sent = *sent;
                silence.lost += 1;
                silence.is_tail_lost |= sent <= silence.from && Some(*number) > last_held;
                if Some(*number) > last_held {
                    silence.first_lost.get_or_insert((sent, *round_trip));
                }
                if sent > silence.from {
                    silence.last_lost = Some(silence.last_lost.map_or(sent, |last: f64| last.max(sent)));
                }
            }
        }
    }

    /// The last arrival.
    pub(crate) fn last(&self) -> Option<f64> {
        self.last
    }
}
