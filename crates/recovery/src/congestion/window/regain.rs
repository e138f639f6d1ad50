//! Regain: CUBIC that comes back within a few round trips from losses that no queue has caused, and to a path that
//! carries more again.
//!
//! ```text
//! empty       = RTT ≤ smallest RTT + allowance, without what waits on the return path (`outward`)
//! allowance   = clamp(smallest RTT / 16, 1 ms, 4 ms)
//! carried     = window × smallest RTT / smoothed RTT, likewise, at each congestion and at the end of the start
//!
//! a loss, not a mark, is congestion if
//!   losses of late follow the own flight (`evidence`), or
//!   packets of late waited long (`waits`), those next to lost ones the most, in a queue too short to show in a
//!   sample, or
//!   of the latest packets, sent since the start or since congestion in it, more than 2 % were lost; a fifth, if
//!   losses do not follow the flight and nothing waits
//! it is by chance if nothing waits long, and the queue was empty at least once in each of the last two round trips
//! otherwise there was a queue, which does not have to be the cause
//! but it is not if no packet of this round trip and the one before waited half as long as one of late did
//!
//! congestion, or with a queue   CUBIC's reduction
//! beside a queue                to 31/32 of what the path carried, so that the queue drains; CUBIC's, if that is less
//! by chance                     to 31/32
//!                               eight of either kind without a verdict, then CUBIC's reduction until there is one
//!
//! after one, while the queue is empty:
//!   gain      = by chance: below the largest window that was reduced since congestion, and up to it: 3/8 until a whole
//!               round trip is over, then 3/4; above it 1/8, and 1/2 as long as the path has never been full
//!               congestion of which no mark and no queue in use told, with a fifth lost at most, is none once losses
//!               are shown not to follow the flight; then 7/8 of that window for each reduction since
//!               with a queue: the same up to what the path carried, and nothing above it
//!   window   += gain × acknowledged, or CUBIC's if that is more. What was acknowledged in the recovery before counts
//!               too, but for losses that follow the flight, and after the eight without a verdict
//! room        = window ≥ 11/8 × carried, or what a start came down to that losses ended, and in use, and the queue was
//!               empty at least once in each of the last two round trips, and nothing waits long
//! while there is room:
//!   gain      = 1/8 in the first round trip, twice as much in each further one, 1/2 at most
//!   window   += gain × acknowledged, or CUBIC's if that is more
//! it ends with congestion, a pause, a round trip that was never empty, or packets that wait long: then CUBIC begins
//! anew from there, and carried is measured again
//! ```
//!
//! CUBIC takes K, seconds, to come back to a window, so that one loss per some round trips holds it far below what the
//! path carries. A loss while the queue is empty says little about the path. It is answered all the same, and as long
//! as there is no queue nobody waits for what is sent more.
//!
//! Room is the other thing that CUBIC is slow to find: a path that has become faster. When congestion reduced the
//! window, `carried` of it were on the way and the rest was in the queue. If that and three eighths are on the way now
//! and no queue builds, the path carries more than it did. It is more than other flows leave that reduce their windows:
//! where eight of nine equal flows fall to 0.7, the ninth gets 1.36 times what it had.
//!
//! A start that losses have ended may be far below what the path carries: a queue of a few packets loses some of each
//! burst, however much room there is. It has reduced its window once. If no queue shows afterwards, there is room.
//!
//! A round trip that has become longer is told from a queue until the first congestion: see [`longer`].
//!
//! Five things keep that from being taken from others:
//!
//! - **It ends where a queue begins.** Beside a flow that keeps a queue, as CUBIC does where one fits, losses come with
//!   a queue, and this is CUBIC. After the first congestion, a path whose round-trip time has
//!   grown for good looks like one with a queue.
//! - **It knows a managed queue.** CoDel drops where the shortest wait of 100 ms was above 5 ms, PIE above 15 ms. So a
//!   queue that was empty once per round trip has not been dropped from by either.
//! - **It yields under sustained congestion.** What the first round trip adds is less than what a reduction takes:
//!   (1 + 3/8) × 0.7 = 0.96. If every round trip brings a loss, the window falls to its minimum. Round trips without
//!   one add more, up to a window that the path has carried.
//! - **It sees a queue of a few milliseconds.** One sample does not tell it from jitter, but many do: where flows keep
//!   such a queue full, packets wait as long as any ever does, and where packets are lost by chance most do not wait.
//!   No flow has to see an effect of its own for that: thirty flows in a queue of 1 ms go on as CUBIC does.
//! - **It tests itself.** A policer has no queue at all. A reduction to 0.7 tells: losses of congestion vanish after
//!   it. What has been shown fades with every reduction, small ones show nothing, and so a full one comes again when
//!   the evidence has faded.
//! - **It ends where much is lost**, but for room. As long as nothing is shown, more than 2 % is congestion, as BBRv3
//!   has it. More than a fifth is congestion whatever was shown: 0.7 of the window may then still be more than the path
//!   carries.
//!
//! Acknowledgments that wait on the return path lengthen a round trip as a queue on the forward path does. Where
//! several paths are in use they may return by another one, whose queue has nothing to do with this path. The
//! receiver's clock tells them apart: see [`outward`].
//!
//! What it cannot know: a managed queue that was long before its manager began to drop packets is far from full, too.
//! Its drops pass for losses beside a queue until a verdict, eight of them at most, and each still drains the queue.
//! Flows that share a queue below the noise of their hosts, half a millisecond, and are too many to see an effect of
//! their own take from others there. A receiver that reports no times is judged by round-trip samples, with what it
//! adds to them.
//!
//! | constant | value | what it trades |
//! |---|---|---|
//! | gain | 3/8 | less than 1/beta - 1 = 3/7, or the window would not yield; less settles at a smaller window |
//! | gain later | 3/4 | with 3/8 throughout, one loss in a thousand leaves half of 100 Mbps and 150 ms unused |
//! | gain beyond | 1/8 | more finds new room sooner, and overshoots by so much of the path before that shows |
//! | the same, never full | 1/2 | what a start has left undone that a loss by chance has ended |
//! | small reduction | 31/32 | less answers losses by chance with less, and tests the more seldom |
//! | allowance | 1/16, 1 to 4 ms | more puts up with more jitter, and takes drops of a managed queue for chance |
//! | room | 11/8 | less takes the gap that others leave who reduce for room; more finds it later |
//! | gain in room | 1/8 to 1/2 | more arrives sooner, and overshoots by so much of the path |
//! | share of losses | 2 % | `LossThresh` of BBRv3 |
//! | small reductions without a verdict | 8 | fewer leave a dozen losses of a short transfer to CUBIC; more find a policer later |
//! | the same, independent | 1/5 | more is no test: beyond, 0.7 of the window may still be more than the path carries |
//! | memory of losses | 7/8 per reduction | enough packets for a share of 2 % at a window of fifty |

mod evidence;
mod longer;
mod outward;
mod waits;

use thalweg_units::{Duration, Instant, math};

use super::growth::{Growth, Signal};
use crate::congestion::AckEvent;
use crate::congestion::view::View;
use evidence::{Evidence, Verdict};
use longer::Longer;
use outward::Outward;
use waits::Waits;

/// Gains are in sixteenths: what a window of acknowledgments adds, as a share of the window.
const GAIN_DIVISOR: u64 = 16;
/// The gain below the window that was reduced, in the first round trip after the reduction …
const GAIN: u64 = 6;
/// … and in further ones …
const GAIN_LATER: u64 = 12;
/// … and above that window …
const GAIN_BEYOND: u64 = 2;
/// … as long as the path has never been full.
const GAIN_NEVER_FULL: u64 = 8;
/// There is room if the window is so many times what the path carried of it when it was full.
const ROOM: (u64, u64) = (11, 8);
/// The gain there, at first and at most.
const ROOM_GAIN: (u64, u64) = (2, 8);
/// How far above the smallest round-trip time there is no queue: a fraction of it …
const ALLOWANCE_DIVISOR: u32 = 16;
/// … but no less, which is jitter, and no more, which is the queue that CoDel leaves alone.
const LEAST_ALLOWANCE: Duration = Duration::from_millis(1);
const MOST_ALLOWANCE: Duration = Duration::from_millis(4);
/// One in so many bytes may be lost by chance …
const LOSS_DIVISOR: u64 = 50;
/// … and of losses that do not follow the flight, one in so many.
const INDEPENDENT_DIVISOR: u64 = 5;
/// What the answer to a loss leaves of the window that has been shown not to follow the flight.
const SMALL_REDUCTION: (u64, u64) = (31, 32);
/// Small reductions that need no verdict, from one to the next.
const CREDIT: u32 = 8;
/// What a reduction leaves of the memory of losses.
const MEMORY: (u64, u64) = (7, 8);

/// What a reduction answers.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Cause {
    Congestion,
    /// A loss with a queue, which does not have to be the cause.
    Queue,
    /// A loss with a queue that was far from full: a path that is in use and loses packets by chance.
    BesideQueue,
    Chance,
}

/// The smallest samples of round trips.
#[derive(Copy, Clone, Debug)]
struct Lowest {
    /// Of the one before this one and of this one, without what waited on the return path.
    before: Duration,
    now: Duration,
    /// Of this one, with it.
    rtt: Duration,
}

/// What there is above the window.
#[derive(Copy, Clone, Debug, Default)]
struct Room {
    /// The gain of this round trip in a path that has room, in sixteenths.
    gain: Option<u64>,
    /// The window that a start had come down to which losses have ended: they say nothing of what is above.
    from: Option<u64>,
}

/// Which share of packets was lost of late, by their bytes, of those that were sent since the first congestion or the
/// end of the first start.
#[derive(Copy, Clone, Debug, Default)]
struct LossShare {
    lost: u64,
    /// Those that were lost or arrived.
    judged: u64,
    /// What was sent by then is not counted.
    from: Option<Instant>,
}

impl LossShare {
    fn count(&mut self, event: &AckEvent<'_>) {
        let counts = |sent: Instant| self.from.is_none_or(|from| sent > from);
        let lost: u64 = event.losses.iter().filter(|loss| counts(loss.sent)).map(|loss| loss.bytes).sum();
        let acked = if event.newest_sent().is_some_and(counts) { event.acked } else { 0 };
        self.lost = self.lost.saturating_add(lost);
        self.judged = self.judged.saturating_add(lost).saturating_add(acked);
    }

    /// Whether one byte in so many was lost, or less.
    fn is_at_most_one_in(&self, divisor: u64) -> bool {
        self.lost.saturating_mul(divisor) <= self.judged
    }

    fn fade(&mut self) {
        self.lost = faded(self.lost);
        self.judged = faded(self.judged);
    }
}

/// What a reduction leaves of what is remembered.
fn faded(bytes: u64) -> u64 {
    bytes / MEMORY.1 * MEMORY.0
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Regain {
    /// What grows the window otherwise, and reduces it.
    base: Box<dyn Growth>,
    /// The window to come back to: the largest before a reduction since one that was not by chance, or what the path
    /// carried; `None` after congestion.
    prior: Option<u64>,
    /// The largest window that was reduced for losses as for congestion, as long as no mark and no queue in use has
    /// said so: the one to come back to, once losses are shown not to follow the flight. Each further reduction leaves
    /// 7/8 of it.
    doubted: Option<u64>,
    /// Whether that is what the path carried, and nobody is to be asked for more.
    is_bounded: bool,
    /// Whether the path has shown a queue, or losses that follow the flight, since the start.
    was_full: bool,
    /// Bytes acknowledged in recovery periods since the window grew, while losses are not known to follow the flight:
    /// where one comes per round trip, one such period follows the other. They wait a round trip for an empty queue.
    held_back: u64,
    evidence: Evidence,
    waits: Waits,
    outward: Outward,
    /// How long the receiver kept the latest acknowledgment that gave a sample.
    kept: Duration,
    /// Small reductions that may still be made without a verdict.
    credit: u32,
    share: LossShare,
    lowest: Lowest,
    /// Whether the first start is over, in which losses are those of a window that opened too far.
    has_started: bool,
    /// Round trips that have begun since the last reduction was complete. The first may have been short.
    rounds: u32,
    /// Acknowledged bytes times gain that have not made up a byte yet, in sixteenths.
    remainder: u64,
    /// What the path carried of this flow without a queue, when it was last full; `None` before.
    carried: Option<u64>,
    room: Room,
    /// What is known of a path that may have become longer.
    longer: Longer,
}

/// How much a sample may exceed the smallest round-trip time without a queue.
fn allowance(smallest: Duration) -> Duration {
    (smallest / ALLOWANCE_DIVISOR).clamp(LEAST_ALLOWANCE, MOST_ALLOWANCE)
}

/// What of the window is on the way and not in a queue.
fn carried(view: View) -> u64 {
    let shortest = u64::try_from(view.min_rtt.as_nanos()).unwrap_or(u64::MAX);
    let usual = u64::try_from(view.smoothed_rtt.as_nanos()).unwrap_or(u64::MAX);
    math::mul_div(view.window, shortest.min(usual), usual.max(1))
}

/// Whether this sample shows no queue.
fn is_empty(view: View, sample: Duration) -> bool {
    sample <= view.min_rtt.saturating_add(allowance(view.min_rtt))
}

impl Regain {
    pub(crate) fn new(base: Box<dyn Growth>) -> Regain {
        Regain {
            base,
            prior: None,
            doubted: None,
            is_bounded: false,
            was_full: false,
            held_back: 0,
            evidence: Evidence::default(),
            waits: Waits::new(),
            outward: Outward::default(),
            kept: Duration::ZERO,
            credit: CREDIT,
            share: LossShare::default(),
            lowest: Lowest { before: Duration::MAX, now: Duration::MAX, rtt: Duration::MAX },
            has_started: false,
            rounds: 0,
            remainder: 0,
            carried: None,
            room: Room::default(),
            longer: Longer::Off,
        }
    }

    /// The latest sample of the round-trip time, without how long the receiver kept the acknowledgment.
    fn rtt(&self, view: View) -> Duration {
        view.latest_rtt.saturating_sub(self.kept).max(view.min_rtt.min(view.latest_rtt))
    }

    /// A round trip in which packets wait so long on the forward path, and none does on the return path. Once the path
    /// has been found to be longer, nothing is known of which way has become so.
    fn forward(&self, view: View, wait: Option<Duration>) -> Option<Duration> {
        let wait = wait.filter(|_| !matches!(self.longer, Longer::Found { .. }))?;
        Some(view.min_rtt.saturating_add(wait))
    }

    /// The latest sample without what waited on the return path, as far as the receiver's clock tells.
    fn sample(&self, view: View) -> Duration {
        let rtt = self.rtt(view);
        self.forward(view, self.outward.wait()).map_or(rtt, |forward| rtt.min(forward))
    }

    /// What of the window is on the way and not in a queue of the forward path. What may be jitter of the return path
    /// counts as a queue: too little is a smaller window.
    fn carried(&self, view: View) -> u64 {
        let usual = self.forward(view, self.outward.usual());
        let most = usual.map(|usual| usual.saturating_add(allowance(view.min_rtt)));
        let smoothed_rtt = most.map_or(view.smoothed_rtt, |most| most.min(view.smoothed_rtt));
        carried(View { smoothed_rtt, ..view })
    }

    /// Whether the queue was empty in each of the last two round trips.
    fn was_empty(&self, view: View) -> bool {
        is_empty(view, self.lowest.before) && is_empty(view, self.lowest.now)
    }

    /// Whether packets of late have waited in a queue.
    fn is_busy(&self) -> bool {
        self.waits.is_busy() && !self.waits.is_jitter()
    }

    fn cause(&self, view: View, signal: Signal) -> Cause {
        // Two round trips have to be known.
        if signal != Signal::Loss || !self.has_started || self.lowest.before == Duration::MAX {
            return Cause::Congestion;
        }
        let is_busy = self.is_busy();
        let most = match self.evidence.latest() {
            Some(Verdict::Dependent) => return Cause::Congestion,
            Some(Verdict::Independent) if !is_busy => INDEPENDENT_DIVISOR,
            _ => LOSS_DIVISOR,
        };
        // What is busy without a wait that would show in a sample is a queue of few packets, or jitter.
        let is_short = is_busy && self.waits.longest() < 2 * allowance(view.min_rtt);
        if is_short || !self.share.is_at_most_one_in(most) {
            Cause::Congestion
        } else if is_busy || !self.was_empty(view) {
            if self.waits.is_far_from_full() { Cause::BesideQueue } else { Cause::Queue }
        } else {
            Cause::Chance
        }
    }

    /// What is to be come back to after a reduction of this cause; `is_shown`: losses have just been shown to follow
    /// nothing.
    fn remember(&mut self, view: View, signal: Signal, cause: Cause, is_shown: bool) {
        let largest = self.prior.max(Some(view.window));
        let doubted = self.doubted.map(faded);
        let is_doubtful = signal == Signal::Loss
            && self.has_started
            && !self.is_busy()
            && self.share.is_at_most_one_in(INDEPENDENT_DIVISOR);
        (self.prior, self.doubted) = match cause {
            Cause::Congestion if is_doubtful => (None, largest.max(doubted)),
            Cause::Congestion => (None, None),
            Cause::Queue | Cause::BesideQueue => (Some(self.carried(view)), None),
            Cause::Chance if is_shown => (largest.max(doubted), None),
            Cause::Chance => (largest, doubted),
        };
    }

    /// The window after a loss by chance.
    fn reduce_little(&mut self, view: View) -> u64 {
        let least = view.window / SMALL_REDUCTION.1 * SMALL_REDUCTION.0;
        let held_back = std::mem::take(&mut self.held_back);
        let window = match self.gain_after_chance(View { window: least, ..view }) {
            Some((gain, most)) => (least + held_back.saturating_mul(gain) / GAIN_DIVISOR).min(most).max(least),
            None => least,
        };
        self.base.on_start_exit(View { window, ..view });
        window
    }

    /// The window after a loss beside a queue: what the path carries without it, or what CUBIC has `reduced` it to.
    fn drain(&mut self, view: View, reduced: u64) -> u64 {
        let window = self.carried(view) / SMALL_REDUCTION.1 * SMALL_REDUCTION.0;
        if window <= reduced {
            return reduced;
        }
        self.base.on_start_exit(View { window, ..view });
        window
    }

    /// The gain while there is no queue, and the window that it leads to at most; `None`: what CUBIC adds.
    fn gain(&self, view: View) -> Option<(u64, u64)> {
        if let Some(urgent) = self.longer.urgent_gain(view.window, view.latest_rtt) {
            return Some(urgent);
        }
        let seen = self.longer.view(view);
        match self.room.gain.filter(|_| is_empty(seen, self.sample(view))) {
            Some(gain) => Some((gain, u64::MAX)),
            None => self.longer.gain_beyond(view.latest_rtt).or_else(|| self.gain_after_chance(view)),
        }
    }

    fn gain_after_chance(&self, view: View) -> Option<(u64, u64)> {
        let prior = self.prior.filter(|_| is_empty(view, self.sample(view)) && self.room.gain.is_none())?;
        Some(match self.rounds {
            _ if view.window >= prior && self.is_bounded => return None,
            _ if view.window >= prior && self.was_full => (GAIN_BEYOND, u64::MAX),
            _ if view.window >= prior => (GAIN_NEVER_FULL, u64::MAX),
            0 | 1 => (GAIN, prior),
            _ => (GAIN_LATER, prior),
        })
    }

    /// The first start is over, at the latest.
    fn begin(&mut self, view: View) {
        if !self.has_started {
            // What the start has sent too much of is lost in its queue, whatever comes after it.
            self.share.from = Some(view.now);
        }
        self.has_started = true;
        self.evidence.begin(view.now);
    }

    /// The path is full, or was filled for the last time just now.
    fn fill(&mut self, view: View) {
        self.room = Room::default();
        self.carried = Some(self.carried(view));
    }

    /// A round-trip time was sampled in full use of the window: looks whether the path has become longer.
    fn look_for_length(&mut self, view: View, round_is_over: bool) {
        let Some(carried) = self.carried else { return };
        let before = self.longer;
        if round_is_over {
            self.longer = self.longer.after_round(view, self.lowest.rtt, carried);
        }
        self.longer = self.longer.after_sample(view, carried);
        if self.longer != before
            && let Longer::Found { window, .. } = self.longer
        {
            self.carried = Some(window);
        }
    }

    /// A round trip is over: looks whether the path has room.
    fn look_for_room(&mut self, view: View) {
        let view = self.longer.view(view);
        match self.room.gain {
            Some(gain) if is_empty(view, self.lowest.now) && !self.waits.is_busy() => {
                self.room.gain = Some((2 * gain).min(ROOM_GAIN.1));
            }
            Some(_) => {
                self.fill(view);
                self.base.on_start_exit(view);
            }
            None => {
                let is_ample = self.carried.is_some_and(|carried| view.window / ROOM.0 >= carried / ROOM.1)
                    || self.room.from.is_some_and(|from| view.window >= from);
                if is_ample && self.was_empty(view) && !self.waits.is_busy() {
                    self.room.gain = Some(ROOM_GAIN.0);
                }
            }
        }
    }
}

impl Growth for Regain {
    fn grow(&mut self, view: View, acked: u64) -> u64 {
        let ordinary = self.base.grow(view, acked);
        if self.rounds > 1 {
            self.held_back = 0;
        }
        let Some((gain, most)) = self.gain(view) else {
            self.remainder = 0;
            return ordinary;
        };
        let acked = acked.saturating_add(std::mem::take(&mut self.held_back));
        let parts = self.remainder.saturating_add(acked.saturating_mul(gain));
        let regained = view.window.saturating_add(parts / GAIN_DIVISOR).min(most);
        self.remainder = if regained >= ordinary { parts % GAIN_DIVISOR } else { 0 };
        regained.max(ordinary)
    }

    fn reduce(&mut self, view: View, signal: Signal) -> u64 {
        let verdict = self.evidence.judge();
        let cause = self.cause(view, signal);
        let is_dependent = self.evidence.latest() == Some(Verdict::Dependent);
        let has_queue = matches!(cause, Cause::Queue | Cause::BesideQueue);
        self.was_full |= signal != Signal::Loss || is_dependent || has_queue;
        self.is_bounded = has_queue;
        let is_shown = verdict == Some(Verdict::Independent);
        self.remember(view, signal, cause, is_shown);
        self.remainder = 0;
        self.rounds = 0;
        self.longer = Longer::Off;
        self.fill(view);
        if self.has_started {
            self.share.fade();
            self.evidence.fade();
        } else {
            // A start that a loss has ended may have been far below what the path carries, or beside others above it.
            self.carried = None;
        }
        self.begin(view);
        if is_shown {
            self.credit = CREDIT;
        }
        let is_spared = matches!(cause, Cause::Chance | Cause::BesideQueue) && (is_shown || self.credit > 0);
        if is_spared {
            self.credit -= u32::from(!is_shown);
        }
        if is_spared && cause == Cause::Chance {
            return self.reduce_little(view);
        }
        self.held_back = 0;
        let reduced = self.base.reduce(view, signal);
        if is_spared { self.drain(view, reduced) } else { reduced }
    }

    fn observe(&mut self, view: View, event: &AckEvent<'_>, recovering: bool) {
        if self.has_started {
            self.waits.observe(event);
        }
        if event.has_rtt_sample {
            self.kept = event.rtt.latest.saturating_sub(event.rtt.adjusted);
            let rtt = self.rtt(view);
            self.outward.observe(event, rtt, view.min_rtt, is_empty(view, rtt));
            // What is not used is not on the way.
            let is_used = !event.application_limited && !recovering;
            if is_used {
                self.look_for_length(view, event.round.started);
            }
            if event.round.started {
                if !recovering {
                    self.rounds = self.rounds.saturating_add(1);
                }
                if is_used {
                    self.look_for_room(view);
                }
                self.lowest = Lowest { before: self.lowest.now, now: Duration::MAX, rtt: Duration::MAX };
            }
            self.lowest.now = self.lowest.now.min(self.sample(view));
            self.lowest.rtt = self.lowest.rtt.min(self.rtt(view));
        }
        if self.has_started {
            self.share.count(event);
        }
        if !event.application_limited {
            self.evidence.observe(event);
            let is_held_back = match self.evidence.latest() {
                Some(verdict) => verdict == Verdict::Independent,
                None => self.credit > 0,
            };
            if recovering && is_held_back {
                self.held_back = self.held_back.saturating_add(event.acked);
            }
        }
        self.base.observe(view, event, recovering);
    }

    fn cycle(&self, view: View) -> u32 {
        self.base.cycle(view)
    }

    fn on_start_exit(&mut self, view: View) {
        self.begin(view);
        (self.prior, self.doubted) = (None, None);
        self.longer = Longer::watching();
        self.fill(view);
        self.base.on_start_exit(view);
    }

    fn on_congested_start(&mut self, window: u64) {
        // A mark is of a queue.
        self.room.from = Some(window).filter(|_| !self.was_full);
    }

    fn on_persistent_congestion(&mut self) {
        (self.prior, self.doubted, self.carried) = (None, None, None);
        self.room = Room::default();
        self.evidence.restart();
        self.outward = Outward::default();
        self.longer = Longer::Off;
        self.base.on_persistent_congestion();
    }

    fn on_application_limited(&mut self, now: Instant, limited: bool) {
        // A pause empties the queue without any merit of the path.
        self.room.gain = None;
        self.longer = self.longer.after_pause();
        self.base.on_application_limited(now, limited);
    }

    fn on_datagram_size(&mut self) {
        self.base.on_datagram_size();
    }

    /// Losses of what was sent by now would be counted without what arrived of it.
    fn on_return(&mut self, now: Instant) {
        self.share.from = Some(now);
        self.evidence.on_return(now);
        self.base.on_return(now);
    }

    fn snapshot(&self) -> Box<dyn Growth> {
        Box::new(Regain { base: self.base.snapshot(), ..*self })
    }
}

#[cfg(test)]
mod tests;
