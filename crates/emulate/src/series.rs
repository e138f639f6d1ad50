//! What crossed a path over time, in steps that grow with the length of the run.

use thalweg_units::{Duration, Instant};

/// Steps that are kept at most: when there are more, two become one.
const MOST: usize = 1 << 11;
/// The first length of a step.
const STEP: Duration = Duration::from_millis(100);

/// What happened in one direction in a step of time.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Step {
    /// Bytes on the wire that were handed over.
    pub bytes: u64,
    /// Packets that left the queue of a link.
    pub departed: u64,
    /// The time that they were in it, in nanoseconds, their own transmission included.
    pub sojourn_sum: u64,
    /// The longest of these times.
    pub sojourn_max: Duration,
    /// Packets that the path dropped for any reason.
    pub dropped: u64,
}

impl Step {
    fn add(&mut self, other: &Step) {
        self.bytes += other.bytes;
        self.departed += other.departed;
        self.sojourn_sum += other.sojourn_sum;
        self.sojourn_max = self.sojourn_max.max(other.sojourn_max);
        self.dropped += other.dropped;
    }

    /// The mean time in the queue of a link; `None` if no packet left one.
    pub fn sojourn_mean(&self) -> Option<Duration> {
        self.sojourn_sum.checked_div(self.departed).map(Duration::from_nanos)
    }
}

/// One direction of a path over time: steps of equal length from the start. It holds at most 2048 of them; the length
/// is 100 ms, and doubles when a run grows longer than they can cover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    length: Duration,
    steps: Vec<Step>,
}

impl Default for Series {
    fn default() -> Self {
        Series { length: STEP, steps: Vec::with_capacity(MOST) }
    }
}

impl Series {
    /// The length of a step.
    pub fn length(&self) -> Duration {
        self.length
    }

    /// The steps, from the start to the last in which anything happened.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The step that this time after the start belongs to.
    fn step(&mut self, since: Duration) -> &mut Step {
        let place = |length: Duration| usize::try_from(since.as_nanos() / length.as_nanos()).unwrap_or(usize::MAX);
        while place(self.length) >= MOST {
            self.length *= 2;
            for at in 0..self.steps.len().div_ceil(2) {
                let second = self.steps.get(2 * at + 1).copied().unwrap_or_default();
                self.steps[at] = self.steps[2 * at];
                self.steps[at].add(&second);
            }
            self.steps.truncate(self.steps.len().div_ceil(2));
        }
        let at = place(self.length);
        if at >= self.steps.len() {
            self.steps.resize(at + 1, Step::default());
        }
        &mut self.steps[at]
    }

    pub(crate) fn hand_over(&mut self, since: Duration, bytes: u32) {
        self.step(since).bytes += u64::from(bytes);
    }

    pub(crate) fn drop(&mut self, since: Duration) {
        self.step(since).dropped += 1;
    }

    pub(crate) fn depart(&mut self, since: Duration, queued: Instant, at: Instant) {
        let sojourn = at.saturating_since(queued);
        let step = self.step(since);
        step.departed += 1;
        step.sojourn_sum += u64::try_from(sojourn.as_nanos()).unwrap_or(u64::MAX);
        step.sojourn_max = step.sojourn_max.max(sojourn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_run_keeps_its_sums_and_no_more_steps() {
        let mut series = Series::default();
        let room = series.steps.capacity();
        for millis in (0..1_000_000).step_by(50) {
            let since = Duration::from_millis(millis);
            series.hand_over(since, 100);
            series.depart(since, Instant::from_nanos(0), Instant::from_nanos(1000 + millis));
        }
        series.drop(Duration::from_secs(3));
        assert!(series.steps().len() <= MOST && series.steps.capacity() == room);
        // 1000 s: 0.1 s × 2048 doubles three times.
        assert_eq!((series.length(), series.steps().len()), (Duration::from_millis(800), 1250));
        assert!(series.steps().iter().all(|step| (step.bytes, step.departed) == (1600, 16)));
        assert_eq!(series.steps().iter().map(|step| step.dropped).sum::<u64>(), 1);
        assert_eq!(series.steps()[3].dropped, 1);
        assert_eq!(series.steps()[1249].sojourn_max, Duration::from_nanos(1000 + 999_950));
        assert_eq!(series.steps()[0].sojourn_mean(), Some(Duration::from_nanos(1375)));
    }
}
