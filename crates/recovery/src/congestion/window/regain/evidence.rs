//! Whether losses follow the own flight or the queue: what tells those of congestion from those by chance where the
//! smallest delay tells nothing.
//!
//! ```text
//! low flight   sent with less than 3/4 of the largest flight of late in flight
//! short delay  acknowledged, or found lost, with less than half of the longest queueing delay of late
//! expected     what of the low (short) ones would have been lost at the share of the others, in packets
//! found        what of them was lost; packets lost in a row count once
//! variance     expected × (1 + expected / lost of the others)
//!
//! dependent    found < expected / 2 and (expected - found)² ≥ 8 variances, by the flight, or by the delay if a loss
//!              since the last two reductions had a long one
//! independent  found ≥ 4 and ≥ 2/3 of expected, or ≥ 12 and ≥ 1/2, by the flight
//! ```
//!
//! Each reduction to 0.7 is an experiment made anyway: losses of congestion vanish after it, losses by chance do
//! not. A full queue also shows in the round trips around a loss, even if it is far shorter than what jitter allows a
//! verdict on a single sample. That losses do not follow the delay shows nothing, for the queue may be shorter than the
//! jitter. That they did follow it shows nothing any more once they come without a queue: what caused them then would
//! have gone with it.
//!
//! What it cannot know: a flow with a small share of its path does not see its own effect, and finds neither, or takes
//! losses of all for independent; [`waits`](super::waits) finds a queue that all of them fill. Losses that follow the
//! delay for another reason, such as a crowded channel, pass for congestion.
//!
//! | constant | value | what it trades |
//! |---|---|---|
//! | border of flights | 3/4 | above what a reduction leaves; a higher one takes the lower part of a sawtooth for a full flight |
//! | border of delays | 1/2 | a lower one finds less of what it expects in a queue that is seldom empty |
//! | variances | 8 | fewer decide sooner, and more often by luck, for each reduction looks anew |
//! | recent | 2 reductions | fewer let noise in single delays hide a queue; more leave a wrong verdict to CUBIC for longer |
//! | found | 4, 2/3 | the same, for chance; more of either leaves paths that lose 3 % to CUBIC for longer |
//! | found, many | 12, 1/2 | without it a first flight of bad luck leaves a small window in doubt for ever |
//! | lapse of dependent | 8 reductions | fewer forget a policer between two verdicts; more leave a wrong one to CUBIC for longer |
//! | memory | 31/32 per reduction | longer decides in smaller windows, and notices later that the path has changed |

use thalweg_units::{Duration, Instant};

use crate::congestion::{AckEvent, LossRuns};

/// What is below so much of the largest flight is low …
const FLIGHT_BORDER: (u64, u64) = (3, 4);
/// … and below this part of the longest delay, short.
const DELAY_BORDER: u32 = 2;
/// How far from what is expected losses are no luck any more.
const VARIANCES: u128 = 8;
/// Losses that have to be found to be independent, and which share of those expected.
const FOUND: [(u64, (u64, u64)); 2] = [(4, (2, 3)), (12, (1, 2))];
/// What a reduction leaves of what was counted.
const MEMORY: (u32, u32) = (31, 32);
/// After so many reductions that do not show it again, losses are not known to follow anything.
const LAPSE: u32 = 8;
/// Losses follow a delay only if one with a long delay was among those of so many reductions of late.
const RECENT: u32 = 2;
/// Losses are counted in parts, so that forgetting does not round small counts away.
const PARTS: u64 = 1_024;

/// What the losses of late show.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// They follow the own flight, or the queue.
    Dependent,
    /// They do not follow the own flight.
    Independent,
}

/// Bytes that arrived or were lost, and losses in parts of one.
#[derive(Copy, Clone, Debug, Default)]
struct Counts {
    judged: u64,
    lost: u64,
}

/// The same for what was sent at the lower part of something and at the upper one.
#[derive(Copy, Clone, Debug, Default)]
struct Split {
    lower: Counts,
    upper: Counts,
}

/// See the [module](self).
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Evidence {
    /// When the first start was over: losses before are those of a window that opened too far. Later, when a reduction
    /// was taken back.
    since: Option<Instant>,
    largest_flight: u64,
    longest_delay: Duration,
    by_flight: Split,
    by_delay: Split,
    loss_runs: LossRuns,
    /// Reductions since the last loss with a long delay.
    since_long: u32,
    /// The latest verdict; `None` before the first, and once it has lapsed.
    latest: Option<Verdict>,
    /// Reductions since then that have shown nothing.
    since_verdict: u32,
}

impl Split {
    fn part(&mut self, is_lower: bool) -> &mut Counts {
        if is_lower { &mut self.lower } else { &mut self.upper }
    }

    fn verdict(&self) -> Option<Verdict> {
        let (lower, upper) = (self.lower, self.upper);
        let expected = u128::from(lower.judged) * u128::from(upper.lost) / u128::from(upper.judged.max(1));
        let (found, others) = (u128::from(lower.lost), u128::from(upper.lost.max(1)));
        let part = u128::from(PARTS);
        let less = expected.saturating_sub(found);
        let variance = expected * part + expected * expected * part / others;
        if 2 * found < expected && less * less >= VARIANCES * variance {
            return Some(Verdict::Dependent);
        }
        let is_enough = FOUND.iter().any(|&(least, (share, of))| {
            found >= u128::from(least) * part && found * u128::from(of) >= expected * u128::from(share)
        });
        is_enough.then_some(Verdict::Independent)
    }

    fn fade(&mut self) {
        for counts in [&mut self.lower, &mut self.upper] {
            counts.judged = faded(counts.judged);
            counts.lost = faded(counts.lost);
        }
    }
}

/// What a reduction leaves of it.
fn faded(count: u64) -> u64 {
    count / u64::from(MEMORY.1) * u64::from(MEMORY.0)
}

impl Evidence {
    /// The first start is over.
    pub(super) fn begin(&mut self, now: Instant) {
        self.since.get_or_insert(now);
    }

    /// A reduction was taken back: counts only what is sent from now on, besides what was counted before it.
    pub(super) fn on_return(&mut self, now: Instant) {
        self.since = self.since.map(|_| now);
    }

    fn is_low(&self, in_flight: u64) -> bool {
        in_flight / FLIGHT_BORDER.0 < self.largest_flight / FLIGHT_BORDER.1
    }

    /// Counts what an ACK or a loss timeout reports of packets whose flight at sending is known.
    pub(super) fn observe(&mut self, event: &AckEvent<'_>) {
        let Some(since) = self.since else { return };
        let delay = event.rtt.latest.saturating_sub(event.rtt.min);
        if event.has_rtt_sample {
            self.longest_delay = self.longest_delay.max(delay);
        }
        let is_short = delay < self.longest_delay / DELAY_BORDER;
        if event.newest_sent().is_some_and(|sent| sent > since) {
            if let Some(sample) = event.delivery.filter(|sample| sample.is_new) {
                self.largest_flight = self.largest_flight.max(sample.sent_in_flight);
                let is_low = self.is_low(sample.sent_in_flight);
                self.by_flight.part(is_low).judged += event.acked;
            }
            self.by_delay.part(is_short).judged += event.acked;
        }
        for loss in event.losses.iter().filter(|loss| loss.sent > since) {
            self.largest_flight = self.largest_flight.max(loss.in_flight);
            let begins_run = self.loss_runs.begins(loss);
            let is_low = self.is_low(loss.in_flight);
            if !is_short {
                self.since_long = 0;
            }
            for counts in [self.by_flight.part(is_low), self.by_delay.part(is_short)] {
                counts.judged += loss.bytes;
                counts.lost += if begins_run { PARTS } else { 0 };
            }
        }
    }

    /// What was counted so far shows.
    pub(super) fn judge(&mut self) -> Option<Verdict> {
        let is_recent = self.since_long < RECENT;
        let by_delay = self.by_delay.verdict().filter(|&verdict| verdict == Verdict::Dependent && is_recent);
        let verdict = by_delay.or_else(|| self.by_flight.verdict());
        self.since_verdict = if verdict.is_some() { 0 } else { self.since_verdict.saturating_add(1) };
        let has_lapsed = self.latest == Some(Verdict::Dependent) && self.since_verdict >= LAPSE;
        self.latest = verdict.or(self.latest.filter(|_| !has_lapsed));
        verdict
    }

    /// Nothing that was counted holds any more.
    pub(super) fn restart(&mut self) {
        *self = Evidence { since: self.since, loss_runs: self.loss_runs, ..Evidence::default() };
    }

    /// The latest verdict, even if what it rests on has faded: for some reductions if it is dependent.
    pub(super) fn latest(&self) -> Option<Verdict> {
        self.latest
    }

    /// A reduction: what was counted fades.
    pub(super) fn fade(&mut self) {
        self.by_flight.fade();
        self.by_delay.fade();
        self.since_long = self.since_long.saturating_add(1);
        self.largest_flight = faded(self.largest_flight);
        self.longest_delay = self.longest_delay / MEMORY.1 * MEMORY.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Evidence {
        /// A thousand packets of either kind, and so many lost at low and at high flights.
        pub(in super::super) fn show(&mut self, low: u64, high: u64) {
            self.by_flight = split(low, high);
        }
    }

    fn split(lower: u64, upper: u64) -> Split {
        let counts = |lost| Counts { judged: 1_200_000, lost: lost * PARTS };
        Split { lower: counts(lower), upper: counts(upper) }
    }

    fn shown(evidence: &mut Evidence, low: u64, high: u64) -> Option<Verdict> {
        evidence.show(low, high);
        evidence.judge()
    }

    #[test]
    fn losses_follow_a_delay_as_long_as_one_with_a_long_delay_came_in_the_latest_two_rounds_of_losses() {
        let mut evidence = Evidence::default();
        for verdict in [Some(Verdict::Dependent), Some(Verdict::Dependent), Some(Verdict::Independent)] {
            evidence.by_delay = split(0, 40);
            evidence.by_flight = split(40, 40);
            assert_eq!(evidence.judge(), verdict);
            evidence.fade();
        }
        evidence.by_delay = split(0, 40);
        evidence.since_long = 0;
        assert_eq!(evidence.judge(), Some(Verdict::Dependent), "there was another one");
    }

    #[test]
    fn dependent_lapses_after_eight_reductions_that_do_not_show_it_again() {
        let mut evidence = Evidence::default();
        assert_eq!(shown(&mut evidence, 0, 20), Some(Verdict::Dependent));
        for _ in 0..7 {
            assert_eq!(shown(&mut evidence, 1, 1), None);
            assert_eq!(evidence.latest(), Some(Verdict::Dependent));
        }
        assert_eq!(shown(&mut evidence, 0, 20), Some(Verdict::Dependent), "shown again");
        for left in (0..8).rev() {
            assert_eq!(shown(&mut evidence, 1, 1), None);
            assert_eq!(evidence.latest().is_some(), left > 0);
        }
    }

    #[test]
    fn independent_stays_until_something_else_is_shown() {
        let mut evidence = Evidence::default();
        assert_eq!(shown(&mut evidence, 20, 20), Some(Verdict::Independent));
        for _ in 0..20 {
            assert_eq!(shown(&mut evidence, 1, 1), None);
            assert_eq!(evidence.latest(), Some(Verdict::Independent));
        }
        shown(&mut evidence, 0, 20);
        assert_eq!(evidence.latest(), Some(Verdict::Dependent));
    }
}
