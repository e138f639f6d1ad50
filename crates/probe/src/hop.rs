//! The first hop: whether what stopped the path stopped it already there.
//!
//! A datagram that may cross one hop only is answered by the first router, with an ICMP message that says so. One
//! that is sent while the path is suspended, and is answered before the suspension ends, has crossed the first hop
//! there and back: what stopped lies beyond. If the answer comes at the end, the first hop was held too. Routers
//! answer few of these, Linux one a second and six at once (`icmp_ratelimit`): they are sent seldom, and then when
//! the path seems suspended.

use std::net::IpAddr;

use thalweg_units::{Duration, Instant};

use crate::suspension::Event;

/// From one to the next while all is well.
const EVERY: Duration = Duration::from_secs(2);
/// From one to the next while the path seems suspended, and how many.
const AGAIN: Duration = Duration::from_millis(40);
const MOST: u32 = 3;
/// How much a suspension lasts on, at least, after a datagram to the first hop, for its answer to tell anything.
const LEAST: i64 = 30_000_000;
/// An answer that comes at the end of a suspension comes so much before it or after, in nanoseconds.
const AT_END: (i64, i64) = (15_000_000, 60_000_000);

/// Decides when a datagram is sent to the first hop.
#[derive(Clone, Debug, Default)]
pub struct HopSchedule {
    last: Option<Instant>,
    /// Datagrams of this suspicion.
    sent: u32,
}

impl HopSchedule {
    /// Whether to send one now, where streams have this interval, and the last datagram of the server, and the last
    /// news of an arrival at the server, came at these times.
    pub fn is_due(&mut self, now: Instant, interval: Duration, heard: Instant, learned: Instant) -> bool {
        let silence = now - heard.min(learned);
        let is_suspicious = silence > interval * 3 + Duration::from_millis(20);
        if !is_suspicious {
            self.sent = 0;
        }
        let since = self.last.map_or(EVERY, |last| now - last);
        let is_due = if is_suspicious { self.sent < MOST && since >= AGAIN } else { since >= EVERY };
        if is_due {
            self.last = Some(now);
            self.sent += u32::from(is_suspicious);
        }
        is_due
    }
}

/// A datagram to the first hop. Times are nanoseconds of the client's clock since the measurement began.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct HopSample {
    /// When it was sent.
    pub sent: i64,
    /// When the answer came, and from whom.
    pub answer: Option<(i64, Option<IpAddr>)>,
}

/// What datagrams to the first hop tell of suspensions.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct FirstHop {
    /// Who answered, last.
    pub address: Option<IpAddr>,
    /// Answers.
    pub answers: u32,
    /// Median round trip to the first hop while nothing was suspended, in nanoseconds.
    pub round_trip: i64,
    /// Suspensions that held the first hop.
    pub held: u32,
    /// Suspensions during which the first hop was crossed there and back.
    pub passed: u32,
}

impl FirstHop {
    /// What these tell of these suspensions; `None` if the first hop never answered.
    pub fn of(samples: &[HopSample], events: &[Event]) -> Option<FirstHop> {
        let answered = || samples.iter().filter_map(|sample| Some((sample.sent, sample.answer?)));
        // Most are sent while the path is suspended, if it is often.
        let is_quiet = |sent: i64, at: i64| !events.iter().any(|event| sent < event.end && at > event.start);
        let quiet = answered().filter(|(sent, (at, _))| is_quiet(*sent, *at));
        let mut trips: Vec<i64> = quiet.map(|(sent, (at, _))| at - sent).collect();
        let least = answered().map(|(sent, (at, _))| at - sent).min()?;
        let round_trip = crate::quantiles::of(&mut trips, 1, 2).unwrap_or(least);
        let mut hop = FirstHop { round_trip, answers: answered().count() as u32, ..FirstHop::default() };
        hop.address = answered().filter_map(|(_, (_, from))| from).next_back();
        for event in events {
            let inside = answered().filter(|(sent, _)| *sent >= event.start && *sent + LEAST + round_trip < event.end);
            let mut times = inside.map(|(_, (at, _))| at - event.end);
            // One answer in time is enough to say that the first hop was free.
            let (passed, held) = times.by_ref().fold((false, false), |(passed, held), after| {
                (passed || after < -AT_END.0, held || (-AT_END.0..AT_END.1).contains(&after))
            });
            hop.passed += u32::from(passed);
            hop.held += u32::from(held && !passed);
        }
        Some(hop)
    }

    /// Whether the first hop is what stopped: `None` if that cannot be told.
    pub fn stopped(&self) -> Option<bool> {
        let (held, passed) = (self.held, self.passed);
        if held > 2 * passed {
            Some(true)
        } else if passed > 2 * held {
            Some(false)
        } else {
            None
        }
    }
}

/// Hops beyond the first that are asked, at most: the links of a home, of its provider and of the next network.
const MOST_HOPS: u8 = 8;
/// From one datagram to a hop beyond the first to the next.
const FURTHER: Duration = Duration::from_secs(1);
/// Rounds in which all hops are asked; then only those up to one after the last that answered.
const ALL_HOPS: u32 = 2;

/// Decides when hops beyond the first are asked, and which.
#[derive(Clone, Debug, Default)]
pub struct FurtherHops {
    last: Option<Instant>,
    next: u8,
    rounds: u32,
    farthest: u8,
}

impl FurtherHops {
    /// The hop to ask now, if it is time to: 2 is the one after the first.
    pub fn due(&mut self, now: Instant) -> Option<u8> {
        if self.last.is_some_and(|last| now.saturating_since(last) < FURTHER) {
            return None;
        }
        self.last = Some(now);
        let most = if self.rounds < ALL_HOPS { MOST_HOPS } else { (self.farthest + 1).clamp(2, MOST_HOPS) };
        if self.next < 2 || self.next > most {
            self.rounds += u32::from(self.next > most);
            self.next = 2;
        }
        self.next += 1;
        Some(self.next - 1)
    }

    /// A hop has answered.
    pub fn answered(&mut self, hop: u8) {
        self.farthest = self.farthest.max(hop);
    }
}

/// A router on the way.
#[derive(Copy, Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Hop {
    /// How many hops away it is.
    pub hop: u8,
    /// Who answered, last.
    pub address: Option<IpAddr>,
    /// Datagrams that asked it, and how many it answered.
    pub asked: u32,
    /// See [`asked`](Self::asked).
    pub answers: u32,
    /// The least round trip, in nanoseconds.
    pub least: i64,
    /// The median round trip, in nanoseconds.
    pub round_trip: i64,
}

/// The routers on the way that answered, by distance; `samples` have the distance that each was to cross.
///
/// The round trip to a router is that of the path to it and the time that it takes for its answer, which routers do
/// last of all: that it is longer than that to the next one says nothing of the path.
pub fn hops(samples: &[(u8, HopSample)]) -> Vec<Hop> {
    let of = |hop: u8| {
        let asked = samples.iter().filter(|(other, _)| *other == hop);
        let answers: Vec<(i64, Option<IpAddr>)> =
            asked.clone().filter_map(|(_, sample)| Some((sample.answer?.0 - sample.sent, sample.answer?.1))).collect();
        let mut trips: Vec<i64> = answers.iter().map(|(trip, _)| *trip).collect();
        let round_trip = crate::quantiles::of(&mut trips, 1, 2)?;
        Some(Hop {
            hop,
            address: answers.iter().rev().find_map(|(_, from)| *from),
            asked: asked.count() as u32,
            answers: answers.len() as u32,
            least: trips.iter().copied().min()?,
            round_trip,
        })
    };
    (1..=MOST_HOPS).filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn event(start: i64, end: i64) -> Event {
        Event { start: start * MS, end: end * MS, up: None, down: None, series: None }
    }

    fn sample(sent: i64, at: i64) -> HopSample {
        let from = "192.0.2.1".parse().ok();
        HopSample { sent: sent * MS, answer: (at > 0).then_some((at * MS, from)) }
    }

    #[test]
    fn an_answer_at_the_end_was_held_and_one_before_it_passed() {
        let events = [event(1000, 1250), event(5000, 5200), event(9000, 9100)];
        let quiet = [sample(500, 503), sample(2500, 2503), sample(7000, 0)];
        let with = |more: &[HopSample]| FirstHop::of(&[&quiet[..], more].concat(), &events).unwrap();
        let held = with(&[sample(1090, 1252), sample(1130, 1252), sample(5090, 5206)]);
        assert_eq!((held.held, held.passed, held.answers, held.stopped()), (2, 0, 5, Some(true)));
        assert_eq!((held.round_trip, held.address), (3 * MS, "192.0.2.1".parse().ok()));
        let passed = with(&[sample(1090, 1093), sample(1130, 1252)]);
        assert_eq!((passed.held, passed.passed, passed.stopped()), (0, 1, Some(false)));
        // Too near to the end to tell, or not answered.
        let none = with(&[sample(9080, 9083), sample(5090, 0)]);
        assert_eq!((none.held, none.passed, none.stopped()), (0, 0, None));
        assert_eq!(FirstHop::of(&[sample(7000, 0)], &events), None);
    }

    #[test]
    fn hops_are_asked_in_turn_and_those_that_never_answer_no_more() {
        let mut further = FurtherHops::default();
        let mut asked = Vec::new();
        for ms in (0..40_000).step_by(20) {
            if let Some(hop) = further.due(Instant::from_nanos(ms * 1_000_000)) {
                asked.push(hop);
                if hop <= 3 {
                    further.answered(hop);
                }
            }
        }
        assert_eq!(asked.len(), 40);
        assert_eq!(asked[..15], [2, 3, 4, 5, 6, 7, 8, 2, 3, 4, 5, 6, 7, 8, 2]);
        assert!(asked[14..].iter().all(|hop| *hop <= 4), "{asked:?}");
    }

    #[test]
    fn routers_that_answered_are_told_by_distance() {
        let samples =
            [(3, sample(10, 25)), (2, sample(1, 5)), (3, sample(50, 61)), (4, sample(70, 0)), (3, sample(90, 130))];
        let found = hops(&samples);
        let seen: Vec<_> =
            found.iter().map(|hop| (hop.hop, hop.answers, hop.least / MS, hop.round_trip / MS)).collect();
        assert_eq!(seen, [(2, 1, 4, 4), (3, 3, 11, 15)]);
        assert_eq!(hops(&[]), []);
    }

    #[test]
    fn it_is_asked_seldom_and_then_when_the_path_seems_suspended() {
        let mut schedule = HopSchedule::default();
        let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        let interval = Duration::from_millis(20);
        // Suspended from 5 s to 5.25 s, down.
        let heard = |ms: u64| if (5000..5250).contains(&ms) { at(5000) } else { at(ms) };
        let asked: Vec<u64> = (0..500)
            .map(|k| 10 + 20 * k)
            .filter(|ms| schedule.is_due(at(*ms), interval, heard(*ms), at(*ms)))
            .collect();
        assert_eq!(asked, [10, 2010, 4010, 5090, 5130, 5170, 7170, 9170]);
    }
}
