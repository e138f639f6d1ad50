//! Detection of a longer path: its round trip takes more time for good, and no queue is the reason.
//!
//! ```text
//! watched        = from the end of a start to the next congestion, in full use of the window
//! longer window  = what the path carried at the end of the start × RTT / smallest RTT: the same rate over that time
//! trial          = two round trips took as long, 128 ms or more, and the longer window is larger by more than 1/16:
//!                  the window grows by 1/16
//! found          = of what is sent in a quarter of a round trip after that, some takes at most 1/32 more; behind a
//!                  queue all of it would take 1/16 more
//! once found, where RTT ≤ 17/16 of what the longer path takes:
//!                  window += acknowledged, up to the longer window
//!                  window += 3/8 × acknowledged beyond it
//! over           = congestion, or a round trip below 16/17 of what the longer path took: it has become short again
//! ```
//!
//! A queue looks the same as long as the window stays what it is. It does not if the window grows: what is sent more
//! waits, so that the round trip follows the window. On a longer path it does not follow.
//!
//! One trial reaches a verdict; a pause begins it anew. If it fails, the path is taken for one with a queue, and 1/16
//! of a window more waits there. A round trip below 128 ms is not tried, as 1/16 of it would drown in jitter.
//! Congestion ends all of this: the window has found its limit.
//!
//! Where other flows have filled the queue and this one has a small share of it, the queue can pass for length. Then
//! the window grows until the round trip is 1/16 longer.
//!
//! | constant | value | what it trades |
//! |---|---|---|
//! | trial | 1/16 | more is seen sooner above jitter, and fills a queue by so much if there is one |
//! | tolerance | half of the trial | less takes jitter for a queue; more takes a queue for length |
//! | least increase | two allowances of 4 ms | less tries shorter paths, on which a crowded channel varies by as much |

use thalweg_units::{Duration, DurationExt, Instant, math};

use super::{GAIN, GAIN_DIVISOR, allowance};
use crate::congestion::view::View;

/// What the window grows by in a trial: a part of it …
const TRIAL_DIVISOR: u32 = 16;
/// … with this gain, so that it takes a quarter of a round trip.
const TRIAL_GAIN: u64 = 4;
/// What a trial would add to the round trip behind a queue, in allowances, at least.
const TRIAL_SHOWS: u32 = 2;
/// What is sent for so long after a trial counts: a part of the round trip.
const JUDGED_DIVISOR: u32 = 4;
/// How much longer the round trip may become beyond the longer window: a part of it.
const SLACK_DIVISOR: u32 = 16;

/// See the [module](self).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Longer {
    /// Not watched.
    Off,
    /// Watched; the smallest sample of the round trip before.
    Watching(Duration),
    /// A little more than this window is being sent; the smallest sample before.
    Trial { window: u64, smallest: Duration },
    /// All of it has been sent since; the smallest sample before, and of what was sent since then.
    Tried { since: Instant, before: Duration, after: Duration },
    /// The path takes this long without a queue, and this is the longer window.
    Found { smallest: Duration, window: u64 },
}

impl Longer {
    /// Watched from now on.
    pub(super) fn watching() -> Longer {
        Longer::Watching(Duration::ZERO)
    }

    /// A round trip in full use of the window is over; `smallest` was its smallest sample, `carried` what the path
    /// carried of this flow at the end of the start.
    pub(super) fn after_round(self, view: View, smallest: Duration, carried: u64) -> Longer {
        match self {
            Longer::Watching(before) => {
                let is_steady = smallest.abs_diff(before) <= allowance(before);
                let is_worth_it = trial(view.window) < longer_window(view, smallest, carried);
                if is_steady && is_worth_it && smallest / TRIAL_DIVISOR >= TRIAL_SHOWS * allowance(smallest) {
                    Longer::Trial { window: view.window, smallest: smallest.min(before) }
                } else {
                    Longer::Watching(smallest)
                }
            }
            Longer::Off | Longer::Trial { .. } | Longer::Tried { .. } | Longer::Found { .. } => self,
        }
    }

    /// A round-trip time was sampled in full use of the window; `carried` as before.
    pub(super) fn after_sample(self, view: View, carried: u64) -> Longer {
        match self {
            Longer::Trial { window, smallest } if view.window >= trial(window) => {
                Longer::Tried { since: view.now, before: smallest, after: Duration::MAX }
            }
            // What was sent before the window had grown says nothing.
            Longer::Tried { since, before, after } if view.now.saturating_since(since) >= view.latest_rtt => {
                let after = after.min(view.latest_rtt);
                if view.now.saturating_since(since) < view.latest_rtt.saturating_add(before / JUDGED_DIVISOR) {
                    Longer::Tried { since, before, after }
                } else if after <= before.saturating_add(before / (2 * TRIAL_DIVISOR)) {
                    let smallest = after.min(before);
                    Longer::Found { smallest, window: longer_window(view, smallest, carried) }
                } else {
                    Longer::Off
                }
            }
            // The path has become short again.
            Longer::Found { smallest, .. } if with_slack(view.latest_rtt) < smallest => Longer::Off,
            _ => self,
        }
    }

    /// The application ceased to use the window: a trial has shown nothing.
    pub(super) fn after_pause(self) -> Longer {
        match self {
            Longer::Off | Longer::Found { .. } => self,
            Longer::Watching(_) | Longer::Trial { .. } | Longer::Tried { .. } => Longer::watching(),
        }
    }

    /// What is seen of the path, whose smallest round-trip time has grown.
    pub(super) fn view(self, view: View) -> View {
        match self {
            Longer::Found { smallest, .. } => View { min_rtt: smallest, ..view },
            _ => view,
        }
    }

    /// The gain for this window, in parts of [`GAIN_DIVISOR`], and the window that it leads to at most: in a trial, and
    /// up to the longer window as long as no queue builds.
    pub(super) fn urgent_gain(self, window: u64, latest: Duration) -> Option<(u64, u64)> {
        match self {
            Longer::Trial { window: before, .. } if window < trial(before) => Some((TRIAL_GAIN, trial(before))),
            Longer::Found { window: most, smallest } if window < most && latest <= with_slack(smallest) => {
                Some((GAIN_DIVISOR, most))
            }
            _ => None,
        }
    }

    /// The same beyond the longer window, as long as no queue builds.
    pub(super) fn gain_beyond(self, latest: Duration) -> Option<(u64, u64)> {
        match self {
            Longer::Found { smallest, .. } if latest <= with_slack(smallest) => Some((GAIN, u64::MAX)),
            _ => None,
        }
    }
}

fn with_slack(rtt: Duration) -> Duration {
    rtt.saturating_add(rtt / SLACK_DIVISOR)
}

fn trial(window: u64) -> u64 {
    window.saturating_add(window / u64::from(TRIAL_DIVISOR))
}

/// The window that gives the rate of the end of the start over this round-trip time.
fn longer_window(view: View, smallest: Duration, carried: u64) -> u64 {
    math::mul_div(carried, smallest.nanos(), view.min_rtt.nanos().max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, ms};

    /// A path of 40 ms that carried 100 kB, seen at a time and with a sample, both in milliseconds.
    fn view(now: u64, window: u64, sample: u64) -> View {
        View { latest_rtt: ms(sample), ..View::new(at(now), window, 1_200, ms(40)) }
    }

    fn after(longer: Longer, window: u64, smallest_ms: u64) -> Longer {
        longer.after_round(view(0, window, smallest_ms), ms(smallest_ms), 100_000)
    }

    fn sampled(longer: Longer, now: u64, sample: u64) -> Longer {
        longer.after_sample(view(now, 106_250, sample), 100_000)
    }

    /// The window has grown after 50 ms.
    fn tried() -> Longer {
        let trial = after(after(Longer::watching(), 100_000, 200), 100_000, 200);
        assert_eq!(trial, Longer::Trial { window: 100_000, smallest: ms(200) });
        assert_eq!(trial.urgent_gain(106_249, ms(200)), Some((TRIAL_GAIN, 106_250)));
        assert_eq!(trial.urgent_gain(106_250, ms(200)), None);
        assert_eq!(trial.after_sample(view(49, 106_249, 200), 100_000), trial, "until all of it is being sent");
        sampled(trial, 50, 200)
    }

    #[test]
    fn a_round_trip_that_does_not_follow_the_window_is_the_path() {
        for smallest in [199, 200, 206] {
            let seen = sampled(sampled(tried(), 249, 200), 260, smallest);
            assert_eq!(seen, Longer::Tried { since: at(50), before: ms(200), after: ms(smallest) });
            let found = sampled(seen, 320, 220);
            let smallest = smallest.min(200);
            assert_eq!(found, Longer::Found { smallest: ms(smallest), window: 100_000 * smallest / 40 });
            assert_eq!(found.urgent_gain(300_000, ms(211)), Some((GAIN_DIVISOR, 100_000 * smallest / 40)));
            assert_eq!(found.urgent_gain(300_000, ms(213)), None, "a queue builds");
            assert_eq!(found.urgent_gain(500_000, ms(200)), None);
            assert_eq!(found.gain_beyond(ms(211)), Some((GAIN, u64::MAX)));
            assert_eq!(found.gain_beyond(ms(213)), None);
            assert_eq!(found.view(View::new(at(0), 1, 1, ms(40))).min_rtt, ms(smallest));
        }
    }

    /// What was sent before the window had grown is not taken for an answer, however short its round trip.
    #[test]
    fn one_that_follows_it_is_a_queue_and_is_tried_once() {
        let mut longer = tried();
        for (now, sample) in [(200, 200), (249, 200), (262, 212), (300, 209), (311, 212)] {
            longer = sampled(longer, now, sample);
            assert!(matches!(longer, Longer::Tried { .. }), "{now}: {longer:?}");
        }
        let failed = sampled(longer, 312, 212);
        assert_eq!(failed, Longer::Off);
        assert_eq!(after(sampled(failed, 400, 200), 106_250, 200), Longer::Off);
        assert_eq!((failed.urgent_gain(1, ms(1)), failed.gain_beyond(ms(1))), (None, None));
    }

    #[test]
    fn it_takes_two_equal_round_trips_of_128_ms_and_a_rate_that_was_higher() {
        let second = |first, window, smallest| after(after(Longer::watching(), window, first), window, smallest);
        assert!(matches!(second(128, 100_000, 128), Longer::Trial { .. }));
        assert!(matches!(second(127, 100_000, 127), Longer::Watching(_)));
        assert!(matches!(second(195, 100_000, 200), Longer::Watching(_)), "it still grows");
        assert!(matches!(second(200, 470_000, 200), Longer::Trial { .. }));
        assert!(matches!(second(200, 471_000, 200), Longer::Watching(_)), "the rate is what it was");
    }

    #[test]
    fn a_pause_ends_a_trial() {
        assert_eq!(tried().after_pause(), Longer::watching());
        let found = sampled(sampled(tried(), 260, 200), 320, 200);
        assert_eq!(found.after_pause(), found);
        assert_eq!(Longer::Off.after_pause(), Longer::Off);
    }

    #[test]
    fn a_path_that_has_become_short_again_is_not_longer() {
        let found = sampled(sampled(tried(), 260, 200), 320, 200);
        assert!(matches!(found, Longer::Found { .. }));
        assert_eq!(sampled(found, 400, 189), found, "it varies");
        assert_eq!(sampled(found, 400, 188), Longer::Off);
    }

    #[test]
    fn the_largest_values_do_not_overflow() {
        let (time, bytes) = (Duration::MAX, u64::MAX);
        for longer in [
            Longer::Watching(time),
            Longer::Trial { window: bytes, smallest: time },
            Longer::Tried { since: at(0), before: time, after: time },
            Longer::Found { smallest: time, window: bytes },
        ] {
            for rtt in [Duration::ZERO, time] {
                let view = View { latest_rtt: rtt, ..View::new(at(1), bytes, 1_200, rtt) };
                let after = longer.after_round(view, time, bytes).after_sample(view, bytes);
                for longer in [longer, after] {
                    longer.gain_beyond(time);
                    assert!(longer.urgent_gain(bytes - 1, time).is_none_or(|(_, most)| most == bytes), "{longer:?}");
                }
            }
        }
    }
}
