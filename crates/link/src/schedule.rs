//! Values that change at given times.

use serde::{Serialize, Serializer};
use thalweg_units::{Duration, DurationExt, Instant, Rate};

use crate::ConfigError;

/// A value that changes at given times after the start of the link, once through or over and over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Schedule<T> {
    steps: Vec<(u64, T)>,
    period: Option<u64>,
}

impl<T: Copy> Schedule<T> {
    /// Steps `(from when, value)`, the first at zero. With a `period` the schedule starts again after that time.
    ///
    /// # Errors
    /// When there is no step, the first is not at zero, times do not increase, or the period does not reach past the
    /// last.
    pub fn new(steps: Vec<(Duration, T)>, period: Option<Duration>) -> Result<Self, ConfigError> {
        let steps: Vec<(u64, T)> = steps.into_iter().map(|(at, value)| (at.nanos(), value)).collect();
        let period = period.map(DurationExt::nanos);
        let increasing = steps.is_sorted_by(|a, b| a.0 < b.0);
        let (Some(first), Some(last)) = (steps.first(), steps.last()) else { return Err(ConfigError::Schedule) };
        if first.0 != 0 || !increasing || period.is_some_and(|period| period <= last.0) {
            return Err(ConfigError::Schedule);
        }
        Ok(Schedule { steps, period })
    }

    /// A schedule of one value.
    pub fn constant(value: T) -> Self {
        Schedule { steps: vec![(0, value)], period: None }
    }

    /// The value at `offset` after the start, and the offset of the next change if there is one.
    pub fn at(&self, offset: Duration) -> (T, Option<Duration>) {
        let offset = offset.nanos();
        let (cycle_start, within) = match self.period {
            Some(period) => (offset - offset % period, offset % period),
            None => (0, offset),
        };
        let index = self.steps.partition_point(|step| step.0 <= within) - 1;
        let next = match (self.steps.get(index + 1), self.period) {
            (Some(step), _) => Some(cycle_start.saturating_add(step.0)),
            (None, Some(period)) => Some(cycle_start.saturating_add(period)),
            (None, None) => None,
        };
        (self.steps[index].1, next.map(Duration::from_nanos))
    }

    /// All values, in order.
    pub fn values(&self) -> impl Iterator<Item = T> + '_ {
        self.steps.iter().map(|step| step.1)
    }

    /// The length of a cycle, if it repeats.
    pub fn period(&self) -> Option<Duration> {
        self.period.map(Duration::from_nanos)
    }
}

/// A rate as bits per second.
pub(crate) fn serialize_rate<S: Serializer>(rate: &Rate, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(rate.bps())
}

/// A schedule of rates as one of bits per second.
pub(crate) fn serialize_rates<S: Serializer>(schedule: &Schedule<Rate>, serializer: S) -> Result<S::Ok, S::Error> {
    let steps = schedule.steps.iter().map(|(at, rate)| (*at, rate.bps())).collect();
    Schedule { steps, period: schedule.period }.serialize(serializer)
}

/// A schedule read forward: remembers where it is.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<T> {
    schedule: Schedule<T>,
    start: Instant,
    value: T,
    until: Instant,
}

impl<T: Copy> Cursor<T> {
    pub(crate) fn new(schedule: Schedule<T>, start: Instant) -> Self {
        let (value, next) = schedule.at(Duration::ZERO);
        let until = next.map_or(Instant::FAR_FUTURE, |next| start + next);
        Cursor { schedule, start, value, until }
    }

    /// The value at `now`, which does not go back, and when it changes next.
    pub(crate) fn at(&mut self, now: Instant) -> (T, Instant) {
        if now >= self.until && self.until != Instant::FAR_FUTURE {
            let (value, next) = self.schedule.at(now.saturating_since(self.start));
            self.value = value;
            self.until = next.map_or(Instant::FAR_FUTURE, |next| self.start + next);
        }
        (self.value, self.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn steps_hold_until_the_next_and_the_last_for_ever() {
        let schedule = Schedule::new(vec![(s(0), 'a'), (s(2), 'b')], None).unwrap();
        assert_eq!(schedule.at(s(0)), ('a', Some(s(2))));
        assert_eq!(schedule.at(s(2) - Duration::from_nanos(1)), ('a', Some(s(2))));
        assert_eq!(schedule.at(s(2)), ('b', None));
        assert_eq!(schedule.at(s(2000)), ('b', None));
    }

    #[test]
    fn a_period_starts_again() {
        let schedule = Schedule::new(vec![(s(0), 'a'), (s(2), 'b')], Some(s(5))).unwrap();
        assert_eq!(schedule.at(s(4)), ('b', Some(s(5))));
        assert_eq!(schedule.at(s(5)), ('a', Some(s(7))));
        assert_eq!(schedule.at(s(13)), ('b', Some(s(15))));
    }

    #[test]
    fn what_is_no_schedule_is_refused() {
        assert!(Schedule::<u8>::new(vec![], None).is_err());
        assert!(Schedule::new(vec![(s(1), 0)], None).is_err());
        assert!(Schedule::new(vec![(s(0), 0), (s(0), 1)], None).is_err());
        assert!(Schedule::new(vec![(s(0), 0), (s(3), 1)], Some(s(3))).is_err());
    }

    #[test]
    fn a_cursor_agrees_with_the_schedule() {
        let schedule = Schedule::new(vec![(s(0), 'a'), (s(2), 'b')], Some(s(5))).unwrap();
        let start = Instant::ZERO + s(1);
        let mut cursor = Cursor::new(schedule.clone(), start);
        for second in 1..30 {
            let now = Instant::ZERO + s(second);
            let (value, next) = schedule.at(now - start);
            assert_eq!(cursor.at(now), (value, start + next.unwrap()));
        }
    }
}
