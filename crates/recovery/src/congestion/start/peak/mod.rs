//! Peak-bandwidth start: short trains measure the rate of a long path, and the window goes to what that rate fills.
//!
//! ```text
//! first flight    an initial window for every 100 ms of the round trip, in trains
//! each ACK        trains ──► the highest rate that the path is known to carry (`trains`, by two clocks: `bound`)
//!                 window = max(slow start, share × rate × round trip)
//!                 slow start triples up to what the rate fills while no queue shows (`headroom`)
//! exit            the rate is confirmed, no flight was delivered an eighth faster, and it has not risen for a round
//!                 trip with the window at what it fills
//!                 or by delay: as HyStart++ does
//!                 (neither where the round trip varies by more than twice the smallest)
//!                 on a long path, by the smallest delay of a round trip
//! congestion      the window falls to what has been delivered of the flight that met it
//!                 but if little of it was lost, and no mark or queue came, to what the rate fills
//! ```
//!
//! Slow start needs a round trip to double, and a satellite path of 250 Mbps takes eleven doublings of 600 ms. A train
//! of ten packets shows its rate after one. The rule as published (picoquic, 2020) measures over the times of ACKs,
//! goes to half of what the measured rate fills, and leaves the rest to slow start; its parts are settings here
//! ([`Settings`]).
//!
//! Unless the path is long for certain, the window triples instead of doubling in each round trip that shows no queue,
//! as Rapid Start has it: a transfer of a few round trips is over one or two sooner. It does so up to what the measured
//! rate fills, if one was measured; from 60 ms on, only if the receiver's clock measured it. After losses it doubles. A
//! queue may be too short to be seen. Then a window that has tripled exceeds the path by more than one that has
//! doubled: the price is paid in losses behind policers and short queues.
//!
//! Round trips of less than 60 ms are opened without trains, and those of less than 250 ms by HyStart++ until the rate
//! is confirmed. Where the round trip varies by more than twice the smallest, as on a crowded channel, a delay that has
//! grown says nothing: HyStart++ goes on in conservative slow start instead of ending it.
//!
//! Four things differ from the rule as published. The measurement is a bound from below, so that jitter makes it small
//! rather than large; the window can go to all of what it fills. Trains grow until a longer one has confirmed the rate
//! of a shorter one. The start ends when the window has been at what a confirmed rate fills for a round trip, and the
//! rate has not risen: who goes on doubling then does so only to lose a window. And a window that was far too large, as
//! behind a policer that lets a first burst through, falls to what was delivered of it.
//!
//! A known rate says what a loss does not. Where at most a tenth of the flight was lost and its packets did not wait,
//! the losses were those of chance or of a burst, and the start ends with what the rate fills in the smallest round
//! trip: as much as the path has shown to carry, and no queue.
//!
//! A flight of which hardly anything was delivered is no measure of the path: another flow's train may have filled the
//! queue for just as long as it passed. As after a timeout (RFC 5681 section 3.1), the path is then searched anew, from
//! the first window up to half of the one that was lost. The search goes on while losses are repaired. A transport that
//! numbers bytes otherwise holds the window until all of them are, a few packets per round trip.
//!
//! Where the rate is not known well enough to act upon, losses end the start only if they are those of a full path: see
//! [`window`](crate::congestion::window)'s `interruption`. Otherwise it goes on after a round trip, without trains.
//!
//! Nor is a train that overran a short queue, while the rate is not known: the window may still be a fraction of what
//! the path holds. Once, the start then goes on from what was delivered, without trains, as HyStart++ does: until the
//! round trip grows, or a full path loses packets. Behind a queue of an eighth of what the path holds, this takes 1.7
//! instead of 2.6 cold floors; where others fill the queue, the round trip has grown already.

mod bound;
mod interval;
#[cfg(test)]
mod tests;
mod trains;

use thalweg_units::math::mul_div;
use thalweg_units::{Duration, DurationExt, Instant, Rate};

use super::delay_min::DelayMin;
use super::headroom::{Headroom, TRIPLING_GAIN};
use super::hystart_plus_plus::HyStartPlusPlus;
use super::{Congested, Departure, InitialWindowScale, OpeningGrowth, PeakBandwidthParameters, Proposal, Start};
use crate::congestion::queue_signs::QueueSigns;
use crate::congestion::view::View;
use crate::congestion::{AckEvent, PathContext};
use crate::pacing;
use crate::trace::{StartExit, State};
use interval::Interval;
use trains::Trains;

/// Round trips shorter than this open without trains, as Rapid Start does after its first flight, and use the measured
/// rate only to stop: ten packets fill most such paths, and a train of more overruns their queues.
pub(crate) const LONG: Duration = Duration::from_millis(60);

/// A path with a longer round trip is long for certain. A shorter round trip may be that of a short path whose queue
/// somebody else keeps full. Until the rate is confirmed, such a path is opened by HyStart++.
const SLOW: Duration = Duration::from_millis(250);

/// The round trip for which the initial window of RFC 9002 is meant; longer ones begin with as many times that.
const TYPICAL: Duration = Duration::from_millis(100);

/// The longest round trip that the initial window is scaled by, that of a geostationary satellite.
const GEOSTATIONARY: Duration = Duration::from_millis(610);

/// How long a burst lasts in the rule as published.
const BURST: Duration = Duration::from_millis(25);

/// Packets of the first train: the burst that RFC 9002 section 7.7 accepts on any path.
const FIRST_TRAIN: u64 = 10;

/// A loss of more than one packet in so many says that the window is more than the path carries, not that a packet met
/// with an accident.
const CROWDED: u64 = 10;

/// Which parts of the rule are in force: as named in [`StartPolicy`](super::StartPolicy).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    /// The share of what the measured rate fills that the window goes to at once.
    pub(super) share: (u64, u64),
    /// Whether the initial window grows with the round trip.
    pub(super) scales_initial_window: bool,
    /// Whether packets wait for credit for a train.
    pub(super) waits_for_trains: bool,
    /// Whether the rate is a bound from below ([`trains`]), and what follows from that: the window stays near what a
    /// confirmed rate fills, and the start ends there. Otherwise it is the quotient as published ([`interval`]).
    pub(super) is_bound: bool,
    /// Whether the first flight counts, whose round-trip time is that of the handshake.
    pub(super) knows_handshake: bool,
    /// Whether it goes on after losses that turn out not to be those of a full path.
    pub(super) outlives_accidents: bool,
    /// Whether the window triples while no queue shows.
    pub(super) triples: bool,
}

/// All of what a rate fills.
pub(super) const FILL: Settings = Settings {
    share: (1, 1),
    scales_initial_window: true,
    waits_for_trains: true,
    is_bound: true,
    knows_handshake: true,
    outlives_accidents: true,
    triples: true,
};

impl From<PeakBandwidthParameters> for Settings {
    fn from(parameters: PeakBandwidthParameters) -> Settings {
        let PeakBandwidthParameters { share, initial_window, trains, accidents, growth } = parameters;
        Settings {
            share: share.ratio(),
            scales_initial_window: initial_window == InitialWindowScale::Scaled,
            waits_for_trains: trains.is_on(),
            outlives_accidents: accidents.is_on(),
            triples: growth == OpeningGrowth::Tripling,
            ..FILL
        }
    }
}

/// The rule as published.
#[cfg(any(test, feature = "study"))]
const PUBLISHED: Settings = Settings {
    share: (1, 2),
    waits_for_trains: false,
    is_bound: false,
    outlives_accidents: false,
    triples: false,
    ..FILL
};

#[cfg(feature = "study")]
impl From<super::PublishedParameters> for Settings {
    fn from(parameters: super::PublishedParameters) -> Settings {
        let is_told = parameters.first_flight.is_on();
        Settings { scales_initial_window: is_told, knows_handshake: is_told, ..PUBLISHED }
    }
}

/// A window of more than so many times what the measured rate fills is too large, whatever the queue.
const OVERSHOT: u64 = 3;

/// After a flight of which less than one in so many bytes was delivered, the path is searched anew. More bounds the
/// repairs of the flight to as many round trips.
const BLOCKED: u64 = 10;

/// After congestion: what becomes of the flight that met it.
#[derive(Copy, Clone, Debug)]
struct Retreat {
    /// Packets sent by then belong to that flight.
    until: Instant,
    /// The window when it was met.
    from: u64,
    /// Bytes of the flight that were delivered, and lost.
    acked: u64,
    lost: u64,
    /// A train overran a queue before the rate of the path was known.
    is_overrun: bool,
    /// Of a queue, since the loss was reported and up to the first sample after the flight.
    signs: QueueSigns,
}

impl Retreat {
    fn take_in(&mut self, event: &AckEvent<'_>) {
        self.acked += event.acked;
        self.lost += event.lost;
        self.signs.take_in(event);
    }

    /// Whether the path may have been full. Without a sample nothing says that it was not.
    fn met_queue(&self, min_rtt: Duration) -> bool {
        !self.signs.has_sample() || self.signs.show_queue(min_rtt)
    }
}

/// Where slow start without trains, by which the path is being searched, ends.
#[derive(Copy, Clone, Debug)]
enum Search {
    /// At this window.
    UpTo(u64),
    /// Where the round trip grows.
    ByDelay,
}

/// See the [module](self).
#[derive(Copy, Clone, Debug)]
pub(crate) struct Peak {
    settings: Settings,
    trains: Trains,
    interval: Interval,
    delay: DelayMin,
    hystart: HyStartPlusPlus,
    headroom: Headroom,
    initial_window: u64,
    /// The initial window has been scaled, or there was no reason to.
    is_scaled: bool,
    /// What remained of the first flight after an initial window has been let go.
    rest_is_out: bool,
    /// The rate when the window was first seen to be at what it fills, and the round trip in which that was.
    full: Option<(Rate, u64)>,
    /// The rate at which packets leave.
    rate: Option<Rate>,
    /// The most bytes that one ACK acknowledged, in this round trip and in the one before.
    bunches: [u64; 2],
    retreat: Option<Retreat>,
    /// The path is being searched without trains.
    search: Option<Search>,
    /// The highest rate at which a flight was delivered.
    delivered: Option<Rate>,
    /// Packets of trains came a sixteenth of the round trip apart.
    is_uneven: bool,
    /// Later slow starts are standard.
    is_over: bool,
}

impl Peak {
    pub(super) fn new(context: &PathContext, settings: Settings) -> Peak {
        Peak {
            settings,
            trains: Trains::new(u64::from(context.datagram_size)),
            interval: Interval::default(),
            delay: DelayMin::new(),
            hystart: HyStartPlusPlus::new(context),
            headroom: Headroom::default(),
            initial_window: context.profile.initial_window.bytes(context.datagram_size),
            is_scaled: !settings.scales_initial_window,
            rest_is_out: !settings.waits_for_trains,
            full: None,
            rate: None,
            bunches: [0; 2],
            retreat: None,
            search: None,
            delivered: None,
            is_uneven: false,
            is_over: false,
        }
    }

    /// Whether the round trip varies by more than twice the smallest, or packets of trains came a quarter of that
    /// apart. What a rate fills in the smallest says little then: a channel that lets packets go in bunches is idle
    /// between them unless more is on the way. A receiver can say so of any path, so the round trip has to vary, too.
    fn is_jittery(&self, event: &AckEvent<'_>) -> bool {
        let (variation, min) = (event.rtt.variation, event.rtt.min);
        variation > min.saturating_mul(2) || variation.min(self.trains.jitter()) > min / 4
    }

    /// The highest rate that was measured.
    fn peak(&self) -> Option<Rate> {
        if self.settings.is_bound { self.trains.peak() } else { self.interval.peak() }
    }

    /// The highest rate, if it is known to be that of the path.
    fn confirmed(&self) -> Option<Rate> {
        // Bunches of packets on a crowded channel can be as slow as each other, and the path faster than all of them.
        // Where packets come evenly, only ACKs that come together make a flight look faster.
        if self.is_uneven && self.delivered > self.peak().map(|peak| peak.mul_ratio(9, 8)) {
            return None;
        }
        self.peak().filter(|_| self.settings.is_bound && self.trains.is_confirmed())
    }

    /// Whether the path is long for certain. The rule as published takes every path for one.
    fn is_long(&self, event: &AckEvent<'_>) -> bool {
        event.rtt.min >= SLOW || !self.settings.is_bound
    }

    /// The highest rate, if it is sure enough to act upon: on a long path any bound is.
    fn sure(&self, event: &AckEvent<'_>) -> Option<Rate> {
        if self.is_long(event) { self.peak() } else { self.confirmed() }
    }

    /// The most that the window may be because of a rate that was measured.
    fn most_window(&self, event: &AckEvent<'_>) -> u64 {
        if self.settings.is_bound { self.trains.most_window(event.rtt.min) } else { u64::MAX }
    }

    /// What a rate fills, in bytes: what it delivers in a round trip without a queue.
    fn fills(rate: Rate, event: &AckEvent<'_>) -> u64 {
        rate.bytes_in(event.rtt.min)
    }

    /// What the first flight is on a path with this round trip.
    fn first_window(&self, event: &AckEvent<'_>) -> u64 {
        let times = if self.settings.scales_initial_window { event.rtt.min } else { TYPICAL };
        mul_div(self.initial_window, times.clamp(TYPICAL, GEOSTATIONARY).nanos(), TYPICAL.nanos())
    }

    fn open(&mut self, mut window: u64, view: View, event: &AckEvent<'_>) -> u64 {
        if !self.is_scaled && event.rtt.has_sample {
            self.is_scaled = true;
            window = window.max(self.first_window(event));
        }
        if let Some(rate) = self.confirmed().filter(|_| !self.is_jittery(event)) {
            // Half as much again as it fills: more would only be a queue.
            let full = Peak::fills(rate, event);
            window = window.min(view.window.max(full + full / 2));
        }
        match self.sure(event) {
            Some(rate) if event.rtt.min >= LONG => {
                let (share, of) = self.settings.share;
                let filled = (Peak::fills(rate, event) / of * share).min(self.most_window(event));
                window.max(filled)
            }
            _ => window,
        }
    }

    /// Whether the window has been at what the confirmed rate fills for a round trip in which the rate did not rise.
    fn is_found(&mut self, view: View, event: &AckEvent<'_>) -> bool {
        let Some(rate) =
            self.confirmed().filter(|rate| !self.is_jittery(event) && view.window >= Peak::fills(*rate, event))
        else {
            self.full = None;
            return false;
        };
        match self.full {
            Some((before, since)) if rate <= before.mul_ratio(9, 8) => event.round.count > since + 1,
            _ => {
                self.full = Some((rate, event.round.count));
                false
            }
        }
    }

    /// What the window needs beyond what the path holds, so that the path does not run empty between two ACKs. After
    /// the start ACKs may come half as often ([`ack_rate`](crate::ack_rate)).
    fn slack(&self, full: u64) -> u64 {
        (2 * self.bunches[0].max(self.bunches[1])).clamp(full / 8, full / 2)
    }

    /// Whether packets leave in trains, to measure a rate that is not known yet.
    fn is_measuring(&self, event: &AckEvent<'_>) -> bool {
        self.confirmed().is_none() && event.rtt.min >= LONG && self.settings.waits_for_trains
    }

    /// The window that an ACK triples, where slow start alone has it at `window`: while no queue shows, and up to what
    /// the measured rate fills. Not where HyStart++ has slowed down, where the first train tells what a long path
    /// carries, or where the rate of one that may be long is known by ACKs only: these may make it look too high.
    fn tripled(&self, view: View, event: &AckEvent<'_>, window: u64) -> Option<u64> {
        let tripled = window.saturating_add(window.saturating_sub(view.window));
        let is_within = self
            .peak()
            .is_none_or(|rate| tripled <= Peak::fills(rate, event) && (self.trains.is_told() || event.rtt.min < LONG));
        let is_slowed = self.hystart.state() == State::ConservativeSlowStart;
        let triples = self.settings.triples && !self.is_long(event) && !is_slowed;
        (triples && is_within && self.headroom.is_there()).then_some(tripled)
    }

    /// How packets leave with this window.
    fn shape(&self, view: View, event: &AckEvent<'_>, window: u64, gain: (u64, u64)) -> Proposal {
        let by_window = pacing::window_rate(window, event.rtt.paced, (1, 1));
        if !self.settings.is_bound {
            let rate = by_window.mul_ratio(5, 4);
            let burst = (window / 4).max(rate.bytes_in(BURST));
            return Proposal { rate: Some(rate), burst, ..Proposal::window(window) };
        }
        let opening = by_window.mul_ratio(gain.0, gain.1);
        let rate = match (self.confirmed(), self.peak()) {
            // No faster than the path is known to be, except by what the window asks for, on a long path up to a
            // quarter. So it is too where the round trip varies: a receiver can have it do so.
            (Some(peak), _) => {
                let most = if event.rtt.min >= LONG { peak.mul_ratio(5, 4) } else { Rate::MAX };
                opening.min(by_window.max(peak)).min(most)
            }
            (None, Some(peak)) => opening.min(by_window.max(peak).mul_ratio(5, 4)),
            // The first flight, in a sixteenth of the round trip: the sooner it is out, the sooner its rate is known.
            (None, None) if event.rtt.min >= LONG => by_window.mul_ratio(16, 1),
            (None, None) => opening,
        };
        let first = FIRST_TRAIN * view.datagram;
        let train = if self.is_measuring(event) && !self.is_jittery(event) {
            (4 * self.trains.measured()).min(window / 2).max(first)
        } else {
            0
        };
        Proposal { rate: Some(rate), burst: train, hold_until_credit: train, ..Proposal::window(window) }
    }

    /// Until all of the flight that met congestion has been answered for: the window goes to what of it was delivered.
    fn retreat(&mut self, event: &AckEvent<'_>, mut retreat: Retreat) -> Proposal {
        retreat.take_in(event);
        let all = (retreat.acked + retreat.lost).max(1);
        // As CUBIC would; less, if so much is lost that the path does not carry that either.
        let mut window = retreat.from / 10 * 7;
        if retreat.lost > all / CROWDED {
            window = window.min(mul_div(retreat.from, retreat.acked, all));
        }
        let is_blocked = retreat.acked < all / BLOCKED;
        if is_blocked {
            window = window.max(self.first_window(event).min(retreat.from / 2));
        }
        let is_over = event.newest_sent().is_some_and(|sent| sent > retreat.until);
        let goes_on = is_blocked || retreat.is_overrun;
        self.retreat = Some(retreat).filter(|_| !is_over || !goes_on);
        if is_over && goes_on {
            self.search = Some(if is_blocked { Search::UpTo(retreat.from / 2) } else { Search::ByDelay });
            return Proposal::window(window);
        }
        if is_over
            && retreat.lost <= all / CROWDED
            && !retreat.met_queue(event.rtt.min)
            && let Some(rate) = self.sure(event)
        {
            window = window.max(Peak::fills(rate, event).min(retreat.from));
        }
        // What is no longer being opened needs no more than a window per round trip: bursts of twice that would look
        // like a queue to what comes after the start.
        let rate = pacing::window_rate(window, event.rtt.paced, pacing::AVOIDANCE_GAIN);
        let exit = is_over.then_some(StartExit::Congestion);
        Proposal { rate: Some(rate), exit, ..Proposal::window(window) }
    }

    /// Slow start, also while losses are being repaired.
    fn search(&mut self, view: View, event: &AckEvent<'_>, search: Search) -> Proposal {
        let Search::UpTo(most) = search else { return self.hystart.on_ack(view, event) };
        let opening = if event.period.in_recovery { event.acked } else { event.growth };
        let window = (view.window + opening).min(most.max(view.window));
        Proposal { exit: (window >= most).then_some(StartExit::Congestion), ..Proposal::window(window) }
    }
}

impl Start for Peak {
    fn on_ack(&mut self, view: View, event: &AckEvent<'_>) -> Proposal {
        if self.is_over {
            return Proposal::window(view.window + event.growth);
        }
        if let Some(retreat) = self.retreat {
            return self.retreat(event, retreat);
        }
        if let Some(search) = self.search {
            return self.search(view, event, search);
        }
        if event.round.started {
            self.bunches = [0, self.bunches[0]];
        }
        self.bunches[0] = self.bunches[0].max(event.acked);
        if self.settings.knows_handshake || event.round.count > 2 {
            match self.settings.is_bound {
                true => self.trains.on_ack(event),
                false => self.interval.on_ack(event),
            }
        }
        self.is_uneven = self.trains.jitter() > event.rtt.min / 16;
        self.delivered = self.delivered.max(event.delivery.filter(|sample| sample.is_new).map(|sample| sample.rate));
        if self.is_found(view, event) {
            let full = self.peak().map_or(view.window, |rate| Peak::fills(rate, event));
            let window = view.window.min(full + self.slack(full));
            return Proposal { exit: Some(StartExit::Bandwidth), ..Proposal::window(window) };
        }
        let by_delay = match self.is_long(event) {
            true => self.delay.on_ack(view, event),
            false => self.hystart.on_ack(view, event),
        };
        // Jitter is no reason to end, only to go on slowly, as HyStart++ does meanwhile.
        if by_delay.exit.is_some() && (self.is_long(event) || !self.is_jittery(event)) {
            return Proposal { exit: by_delay.exit, ..Proposal::window(view.window) };
        }
        // As measured: a receiver that exaggerates its own delay hides no queue.
        self.headroom.on_ack(event, event.rtt.latest);
        let (window, gain) = match self.tripled(view, event, by_delay.window) {
            Some(tripled) => (tripled, TRIPLING_GAIN),
            None => (by_delay.window, pacing::SLOW_START_GAIN),
        };
        let window = self.open(window, view, event);
        let proposal = self.shape(view, event, window, gain);
        self.rate = proposal.rate;
        proposal
    }

    fn on_sent(&mut self, sent: Departure) -> Option<Proposal> {
        let is_rest = sent.bytes_in_flight >= self.initial_window / 4 * 3 && sent.window > self.initial_window;
        if self.rest_is_out || !is_rest {
            return None;
        }
        // What remains of the first flight leaves as one train.
        self.rest_is_out = true;
        let train = sent.window.saturating_sub(self.initial_window / 4 * 5);
        Some(Proposal { rate: self.rate, burst: train, hold_until_credit: train, ..Proposal::window(sent.window) })
    }

    fn on_congestion(&mut self, view: View, event: &AckEvent<'_>) -> Option<Congested> {
        if self.is_over || self.search.is_some() || !self.settings.is_bound {
            return None;
        }
        let is_overrun = self.is_measuring(event)
            && self.peak().is_some_and(|peak| {
                // Jitter makes the rate look low, but a window that is so much more than it fills has opened too far.
                view.window / OVERSHOT <= Peak::fills(peak, event)
            });
        if !is_overrun && self.sure(event).is_none() {
            return None;
        }
        let signs = QueueSigns::default();
        let mut retreat = Retreat { until: event.now, from: view.window, acked: 0, lost: 0, is_overrun, signs };
        retreat.take_in(event);
        self.retreat = Some(retreat);
        Some(Congested { window: view.window / 10 * 7, threshold: None })
    }

    fn outlives_accidents(&self) -> bool {
        self.settings.outlives_accidents && !self.is_over
    }

    fn on_accident(&mut self) {
        (self.settings.waits_for_trains, self.settings.triples) = (false, false);
    }

    fn on_exit(&mut self) {
        self.is_over = true;
        (self.retreat, self.search) = (None, None);
    }

    fn snapshot(&self) -> Box<dyn Start> {
        Box::new(*self)
    }
}
