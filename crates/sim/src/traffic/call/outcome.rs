//! The outcome of the frames of a call, from the records of both ends.

use thalweg_units::{Duration, Instant, exact_duration};

use super::plan::{Call, LAST_WAIT};
use crate::frames::{FrameLog, TrackResult};

/// Both ends of a call, after it.
pub(crate) struct Outcome<'a> {
    pub(crate) call: &'a Call,
    pub(crate) sender: &'a FrameLog,
    pub(crate) receiver: &'a FrameLog,
    /// When the client sent its first datagram: what frames are counted from if none was captured.
    pub(crate) start: Instant,
    /// Frames captured from then until then count.
    pub(crate) window: Option<(Instant, Instant)>,
}

impl Outcome<'_> {
    /// When the first frames were captured.
    fn began(&self) -> Instant {
        self.sender.all().min().unwrap_or(self.start)
    }

    /// What became of each track, audio first.
    pub(crate) fn tracks(&self) -> Vec<TrackResult> {
        (0..self.call.tracks()).map(|track| self.track(track)).collect()
    }

    fn track(&self, track: usize) -> TrackResult {
        let mut result = TrackResult::default();
        let began = self.began();
        let mut later = self.receiver.of(track).fold(began + self.call.duration + LAST_WAIT, Instant::max);
        for number in (0..self.call.frames(track)).rev() {
            let captured = self.sender.get(track, number);
            let arrived = self.receiver.get(track, number);
            later = later.min(arrived.unwrap_or(later));
            let at = captured.unwrap_or(began + self.call.offset(track, number));
            if self.window.is_some_and(|(from, to)| at < from || at >= to) {
                continue;
            }
            result.due += 1;
            result.captured += u64::from(captured.is_some());
            result.arrived += u64::from(arrived.is_some());
            if let Some(arrived) = arrived {
                result.delay.record(arrived.saturating_since(at));
            }
            result.wait.record(arrived.unwrap_or(later).saturating_since(at));
        }
        result
    }

    /// Why a call that ran to its end does not count as complete, if so: nothing arrived of what was captured in its
    /// last second.
    pub(crate) fn cut_off(&self) -> Option<String> {
        let last = self.call.duration.min(Duration::from_secs(1));
        let from = self.call.duration - last;
        let arrived = (0..self.call.tracks()).any(|track| {
            let frames = (0..self.call.frames(track)).rev();
            let mut recent = frames.take_while(|number| self.call.offset(track, *number) >= from);
            recent.any(|number| self.receiver.get(track, number).is_some())
        });
        (!arrived).then(|| format!("none of the frames of its last {} arrived", exact_duration(last)))
    }
}

#[cfg(test)]
mod tests {
    use thalweg_link::Quantiles;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn plain(duration: Duration) -> Call {
        Call::new(false, duration)
    }

    #[test]
    fn what_never_arrives_counts_until_something_later_does() {
        let call = Call { video: Vec::new(), ..plain(MS * 100) };
        let start = Instant::ZERO + MS * 1_000;
        let (mut sender, mut receiver) = (FrameLog::default(), FrameLog::default());
        let outcome = |sender: &FrameLog, receiver: &FrameLog, window| {
            Outcome { call: &call, sender, receiver, start, window }.tracks().remove(0)
        };
        for number in 0..5 {
            assert!(sender.note(0, number, start + MS * 20 * number as u32));
        }
        // 0 arrives; 1 is lost; 2 arrives after 3; 4 is lost.
        for (number, at) in [(0, 10), (3, 75), (2, 90)] {
            assert!(receiver.note(0, number, start + MS * at));
        }
        assert!(!receiver.note(0, 2, start + MS * 95), "a duplicate");
        let all = outcome(&sender, &receiver, None);
        assert_eq!((all.due, all.captured, all.arrived), (5, 5, 3));
        let sorted = |times: &Quantiles, count: u64| {
            (1..=count).map(|rank| times.quantile(rank, count) / 1_000_000).collect::<Vec<_>>()
        };
        let ns = Duration::from_nanos;
        assert_eq!(sorted(&all.delay, 3), [ns(10), ns(15), ns(50)]);
        // Frame 1 until 3 came at 75 ms; frame 4 until a second after the end, at 1,100 ms.
        assert_eq!(sorted(&all.wait, 5), [ns(10), ns(15), ns(50), ns(55), ns(1_020)]);
        // An arrival even later is when all before it end at the earliest.
        receiver.note(0, 3, start);
        let mut late = FrameLog::default();
        late.note(0, 3, start + MS * 4_000);
        let late = outcome(&sender, &late, None);
        assert_eq!((late.arrived, late.wait.min(), late.wait.max()), (1, MS * 3_920, MS * 4_000));
        // A window counts what was captured in it.
        let part = outcome(&sender, &receiver, Some((start + MS * 20, start + MS * 60)));
        assert_eq!((part.due, part.arrived, part.wait.max()), (2, 1, MS * 55));
        // Nothing was captured at all: every frame is due, from the client's first datagram on.
        let none = outcome(&FrameLog::default(), &FrameLog::default(), None);
        assert_eq!((none.due, none.captured, none.wait.max()), (5, 0, MS * 1_100));
    }

    #[test]
    fn a_call_is_cut_off_if_nothing_of_its_last_second_arrives() {
        let call = plain(MS * 3_000);
        let start = Instant::ZERO;
        let (sender, mut receiver) = (FrameLog::default(), FrameLog::default());
        let cut_off =
            |receiver: &FrameLog| Outcome { call: &call, sender: &sender, receiver, start, window: None }.cut_off();
        receiver.note(0, 99, start);
        receiver.note(1, 59, start);
        assert_eq!(cut_off(&receiver).unwrap(), "none of the frames of its last 1 s arrived");
        receiver.note(2, 60, start);
        assert_eq!(cut_off(&receiver), None);
    }
}
