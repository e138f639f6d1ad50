//! Traces in mahimahi's format, with its semantics.
//!
//! A line is a whole number of milliseconds: at that time after the start, one opportunity to deliver 1,500 bytes. A
//! line that repeats gives several in that millisecond. Opportunities that find nothing to send are lost; a small
//! packet leaves the rest of its opportunity to the next packet, a large one goes on in the next opportunity. After the
//! last line the trace starts again, with the time of its last line as the new zero. (mahimahi, `link_queue.cc`; it
//! counts 1,504 bytes because its packets carry four bytes of tunnel header.) A packet that arrives at the very time of
//! an opportunity comes too late for it.

use std::sync::Arc;

use serde::{Serialize, Serializer};
use thalweg_units::{Duration, DurationExt, Instant, Rate};

use super::TraceError;

const EXPECTED: &str = "a whole number of milliseconds, one line per 1500-byte delivery opportunity";

/// A trace of delivery opportunities. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mahimahi {
    /// Not decreasing; the last is the period and greater than zero.
    times: Arc<[u64]>,
}

impl Mahimahi {
    /// Bytes per opportunity.
    pub const OPPORTUNITY: u32 = 1500;

    /// Reads a trace: one number per line. Empty lines and lines that start with `#` are skipped.
    ///
    /// # Errors
    /// When a line is not a whole number, times go back, or the trace is empty or lasts for no time.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let mut times: Vec<u64> = Vec::new();
        for (line, text) in (1..).zip(text.lines()) {
            let text = text.trim();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            // u32 milliseconds are 49 days.
            let time = text.parse::<u32>().map_err(|_| TraceError::Line {
                line,
                text: text.to_owned(),
                expected: EXPECTED,
            })?;
            if let Some(previous) = times.last().filter(|previous| **previous > u64::from(time)) {
                let (time, previous) = (time.to_string(), previous.to_string());
                return Err(TraceError::Backwards { line, time, previous });
            }
            times.push(u64::from(time));
        }
        Mahimahi::from_millis(times)
    }

    /// From times in milliseconds that do not decrease (they are sorted if they do).
    ///
    /// # Errors
    /// When there are none, or all are zero.
    pub fn from_millis(mut times: Vec<u64>) -> Result<Self, TraceError> {
        times.sort_unstable();
        match times.last() {
            None => Err(TraceError::Empty(EXPECTED)),
            Some(0) => Err(TraceError::NoTime),
            Some(_) => Ok(Mahimahi { times: times.iter().map(|ms| ms.saturating_mul(1_000_000)).collect() }),
        }
    }

    /// The trace as text that [`parse`](Self::parse) reads.
    pub fn to_text(&self) -> String {
        self.times.iter().map(|time| format!("{}\n", time / 1_000_000)).collect()
    }

    /// How long it is before it starts again.
    pub fn period(&self) -> Duration {
        Duration::from_nanos(self.period_nanos())
    }

    fn period_nanos(&self) -> u64 {
        self.times.last().copied().unwrap_or(1)
    }

    /// Opportunities in one period.
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// Never: a trace has at least one opportunity.
    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// What it delivers on average.
    pub fn mean_rate(&self) -> Rate {
        Rate::from_bytes_over(self.times.len() as u64 * u64::from(Self::OPPORTUNITY), self.period())
    }

    /// Which opportunity is the first after `offset`: (cycle, index).
    fn first_after(&self, offset: u64) -> (u64, usize) {
        let period = self.period_nanos();
        let (cycle, within) = (offset / period, offset % period);
        let index = self.times.partition_point(|time| *time <= within);
        // The last line is at the period's end, so there is one in this cycle.
        (cycle, index)
    }

    fn time(&self, (cycle, index): (u64, usize)) -> u64 {
        cycle.saturating_mul(self.period_nanos()).saturating_add(self.times[index])
    }

    /// How many opportunities there are up to `offset`, one at that very time included.
    pub fn until(&self, offset: Duration) -> u64 {
        let (cycle, index) = self.first_after(offset.nanos());
        cycle.saturating_mul(self.times.len() as u64).saturating_add(index as u64)
    }

    /// The time of the `n`-th opportunity (from 0) after `offset`.
    pub fn nth_after(&self, offset: Duration, n: u64) -> Duration {
        let (cycle, index) = self.first_after(offset.nanos());
        let len = self.times.len() as u64;
        let ahead = index as u64 + n;
        Duration::from_nanos(self.time((cycle + ahead / len, (ahead % len) as usize)))
    }
}

impl Serialize for Mahimahi {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.times.iter())
    }
}

/// A place in a trace that moves forward.
#[derive(Debug)]
pub(crate) struct Opportunities {
    trace: Mahimahi,
    start: Instant,
    at: (u64, usize),
    next: Instant,
}

impl Opportunities {
    pub(crate) fn new(trace: Mahimahi, start: Instant) -> Self {
        let mut this = Opportunities { trace, start, at: (0, 0), next: Instant::ZERO };
        this.next = start + Duration::from_nanos(this.trace.time(this.at));
        this
    }

    /// When the next opportunity is.
    pub(crate) fn next(&self) -> Instant {
        self.next
    }

    /// The next one has been used.
    pub(crate) fn advance(&mut self) {
        self.at.1 += 1;
        if self.at.1 == self.trace.times.len() {
            self.at = (self.at.0 + 1, 0);
        }
        self.next = self.start + Duration::from_nanos(self.trace.time(self.at));
    }

    /// Those up to and including `now` have passed unused.
    pub(crate) fn skip(&mut self, now: Instant) {
        if self.next <= now {
            self.at = self.trace.first_after(now.saturating_since(self.start).nanos());
            self.next = self.start + Duration::from_nanos(self.trace.time(self.at));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn millis(trace: &Mahimahi, count: usize) -> Vec<u64> {
        let mut place = Opportunities::new(trace.clone(), Instant::ZERO);
        (0..count)
            .map(|_| {
                let at = place.next().as_nanos() / 1_000_000;
                place.advance();
                at
            })
            .collect()
    }

    #[test]
    fn the_trace_starts_again_at_the_time_of_its_last_line() {
        let trace = Mahimahi::parse("1\n1\n4\n").unwrap();
        assert_eq!(millis(&trace, 9), [1, 1, 4, 5, 5, 8, 9, 9, 12]);
        let from_zero = Mahimahi::parse("0\n3\n").unwrap();
        // The first line of the second round falls on the last of the first.
        assert_eq!(millis(&from_zero, 5), [0, 3, 3, 6, 6]);
        assert_eq!(trace.mean_rate(), Rate::from_bps(9_000_000));
        assert_eq!(trace.period(), Duration::from_millis(4));
    }

    #[test]
    fn bad_lines_are_named() {
        for (text, needles) in [
            ("1\nx\n", vec!["line 2", "\"x\"", "1500-byte"]),
            ("# a comment\n1.5\n", vec!["line 2", "whole number"]),
            ("-1\n", vec!["line 1"]),
            ("5\n3\n", vec!["line 2", "3 ms", "5 ms"]),
            ("", vec!["no lines"]),
            ("0\n0\n", vec!["no time"]),
        ] {
            let message = Mahimahi::parse(text).unwrap_err().to_string();
            for needle in needles {
                assert!(message.contains(needle), "{text:?}: {message}");
            }
        }
    }

    #[test]
    fn text_reads_back() {
        let trace = Mahimahi::parse("0\n2\n2\n7\n").unwrap();
        assert_eq!(Mahimahi::parse(&trace.to_text()).unwrap(), trace);
    }

    proptest! {
        #[test]
        fn skipping_lands_on_the_first_opportunity_after(
            times in proptest::collection::vec(0u64..20, 1..12),
            now in 0u64..100,
        ) {
            prop_assume!(times.iter().any(|time| *time > 0));
            let trace = Mahimahi::from_millis(times).unwrap();
            let all = millis(&trace, 2000);
            let expected = all.iter().position(|at| *at > now).unwrap();
            let mut place = Opportunities::new(trace.clone(), Instant::ZERO);
            place.skip(Instant::from_nanos(now * 1_000_000));
            for at in &all[expected..expected + 20] {
                prop_assert_eq!(place.next().as_nanos(), at * 1_000_000);
                place.advance();
            }
            for (n, at) in all[expected..expected + 20].iter().enumerate() {
                let found = trace.nth_after(Duration::from_millis(now), n as u64);
                prop_assert_eq!(found, Duration::from_millis(*at));
            }
        }
    }
}
