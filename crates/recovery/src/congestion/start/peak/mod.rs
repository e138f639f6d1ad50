//! Peak-bandwidth start: short trains measure the rate of a long path, and the window goes to what that rate fills.
//!
//! ```text
//! first flight    an initial window for every 100 ms of the round trip, in trains
//! each ACK        trains ──► the highest rate that the path is known to carry (`trains`)
//!                 window = max(slow start, share × rate × round trip)
//! exit            the rate is confirmed, and has not risen for a round trip with the window at what it fills
//! congestion      the window falls to what has been delivered of the flight that met it
//! ```
//!
//! Slow start needs a round trip to double, and a satellite path of 250 Mbps takes eleven doublings of 600 ms. A train
//! of ten packets shows its rate after one. The rule as published (picoquic, 2020) measures over the times of ACKs,
//! goes to half of what the measured rate fills, and leaves the rest to slow start; its parts are settings here
//! ([`Settings`]).
//!
//! Three things are added to the rule as published. The measurement is a bound from below, so that jitter makes it
//! small rather than large. The whole of what the rate fills is taken once a longer train has confirmed it, and half of
//! it before. And the start ends when the window has been there for a round trip and the rate has not risen: the sender
//! then knows the path, and goes on doubling only to lose a window.

mod trains;

use thalweg_units::{Duration, DurationExt, Instant, Rate};

use super::{Congested, Proposal, Start};
use crate::congestion::window::View;
use crate::congestion::{AckEvent, Birth};
use crate::pacing;
use crate::trace::StartExit;
use trains::Trains;

/// Round trips shorter than this open as standard slow start does, and use the measured rate only to stop: ten packets
/// fill most such paths, and a train of more overruns their queues.
const LONG: Duration = Duration::from_millis(60);

/// The round trip for which the initial window of RFC 9002 is meant; longer ones begin with as many times that.
const TYPICAL: Duration = Duration::from_millis(100);

/// The longest round trip that the initial window is scaled by, that of a geostationary satellite.
const GEOSTATIONARY: Duration = Duration::from_millis(610);

/// How long a train may last at the measured rate.
const LONGEST_TRAIN: Duration = Duration::from_millis(25);

/// Packets of the first train: the burst that RFC 9002 section 7.7 accepts on any path.
const FIRST_TRAIN: u64 = 10;

/// A loss of more than one packet in so many says that the window is more than the path carries, not that a packet met
/// with an accident.
const CROWDED: u64 = 10;

/// Which parts of the rule are in force: as named in [`StartPolicy`](super::StartPolicy).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    /// The share of what the measured rate fills that the window goes to at once, before it is confirmed and after.
    pub(super) unconfirmed: (u64, u64),
    pub(super) confirmed: (u64, u64),
    /// Whether the initial window grows with the round trip.
    pub(super) scales_initial_window: bool,
    /// Whether packets leave in trains, waiting for credit for one.
    pub(super) trains: bool,
}

/// What the controller ships.
pub(super) const FILL: Settings =
    Settings { unconfirmed: (1, 2), confirmed: (1, 1), scales_initial_window: true, trains: true };

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
}

/// See the [module](self).
#[derive(Copy, Clone, Debug)]
pub(crate) struct Peak {
    settings: Settings,
    trains: Trains,
    initial_window: u64,
    /// The initial window has been scaled, or there was no reason to.
    is_scaled: bool,
    /// The rate when the window was first seen to be at what it fills, and the round trip in which that was.
    full: Option<(Rate, u64)>,
    retreat: Option<Retreat>,
    /// Later slow starts are standard.
    is_over: bool,
}

impl Peak {
    pub(super) fn new(birth: &Birth, settings: Settings) -> Peak {
        let datagram = u64::from(birth.datagram_size);
        Peak {
            settings,
            trains: Trains::new(datagram),
            initial_window: birth.profile.initial_window.bytes(birth.datagram_size),
            is_scaled: !settings.scales_initial_window,
            full: None,
            retreat: None,
            is_over: false,
        }
    }

    /// What a rate fills, in bytes: what it delivers in a round trip without a queue.
    fn fills(rate: Rate, event: &AckEvent<'_>) -> u64 {
        rate.bytes_in(event.rtt.min)
    }

    fn open(&mut self, view: View, event: &AckEvent<'_>) -> u64 {
        let mut window = view.window + event.growth;
        if !self.is_scaled && event.rtt.has_sample {
            self.is_scaled = true;
            let times = event.rtt.min.clamp(TYPICAL, GEOSTATIONARY);
            let scaled = u128::from(self.initial_window) * u128::from(times.nanos()) / u128::from(TYPICAL.nanos());
            window = window.max(u64::try_from(scaled).unwrap_or(u64::MAX));
        }
        let Some(peak) = self.trains.peak() else { return window };
        let full = Peak::fills(peak, event);
        if self.trains.is_confirmed() {
            // Half as much again: more would only be a queue.
            window = window.min(view.window.max(full + full / 2));
        }
        if event.rtt.min < LONG {
            return window;
        }
        let (share, of) = match self.trains.is_confirmed() {
            true => self.settings.confirmed,
            false => self.settings.unconfirmed,
        };
        window.max(full / of * share)
    }

    /// Whether the window has been at what the rate fills for a round trip in which the rate did not rise.
    fn is_found(&mut self, view: View, event: &AckEvent<'_>) -> bool {
        let Some(peak) = self.trains.peak().filter(|_| self.trains.is_confirmed()) else {
            self.full = None;
            return false;
        };
        if view.window < Peak::fills(peak, event) {
            self.full = None;
            return false;
        }
        match self.full {
            Some((rate, since)) if peak <= rate.mul_ratio(17, 16) => event.round.count > since + 1,
            _ => {
                self.full = Some((peak, event.round.count));
                false
            }
        }
    }

    /// How packets leave meanwhile.
    fn shape(&self, view: View, event: &AckEvent<'_>, window: u64) -> Proposal {
        let by_window = pacing::window_rate(window, event.rtt.paced, (1, 1));
        let doubled = by_window.mul_ratio(2, 1);
        let peak = self.trains.peak();
        // No faster than the path is known to be, except by what the window asks for.
        let rate = match peak {
            Some(peak) if self.trains.is_confirmed() => doubled.min(by_window.max(peak)),
            _ => doubled,
        };
        let train = if !self.settings.trains || event.rtt.min < LONG || self.trains.is_confirmed() {
            0
        } else {
            let first = FIRST_TRAIN * view.datagram;
            let at_most = peak.map_or(first, |peak| peak.bytes_in(LONGEST_TRAIN)).max(first);
            (4 * self.trains.longest()).clamp(first, at_most).min((window / 3).max(first))
        };
        Proposal { rate: Some(rate), burst: train, hold_until_credit: train, ..Proposal::window(window) }
    }

    fn retreat(&mut self, view: View, event: &AckEvent<'_>, mut retreat: Retreat) -> Proposal {
        retreat.acked += event.acked;
        retreat.lost += event.lost;
        let all = (retreat.acked + retreat.lost).max(1);
        let mut window = view.window;
        if retreat.lost > all / CROWDED {
            let share = u128::from(retreat.from) * u128::from(retreat.acked) / u128::from(all);
            window = window.min(u64::try_from(share).unwrap_or(u64::MAX));
        }
        self.retreat = Some(retreat);
        let is_over = event.newest_sent.is_some_and(|sent| sent > retreat.until);
        Proposal { exit: is_over.then_some(StartExit::Congestion), ..Proposal::window(window) }
    }
}

impl Start for Peak {
    fn on_ack(&mut self, view: View, event: &AckEvent<'_>) -> Proposal {
        if self.is_over {
            return Proposal::window(view.window + event.growth);
        }
        if let Some(retreat) = self.retreat {
            return self.retreat(view, event, retreat);
        }
        self.trains.on_ack(event);
        if self.is_found(view, event) {
            let peak = self.trains.peak().unwrap_or(Rate::ZERO);
            let full = Peak::fills(peak, event);
            let window = view.window.min(full + full / 8);
            return Proposal { exit: Some(StartExit::Bandwidth), ..Proposal::window(window) };
        }
        let window = self.open(view, event);
        self.shape(view, event, window)
    }

    fn on_congestion(&mut self, view: View, event: &AckEvent<'_>) -> Option<Congested> {
        if self.is_over || self.trains.peak().is_none() {
            return None;
        }
        // As CUBIC would; less, if so much is lost that the path cannot carry that either.
        let window = view.window / 10 * 7;
        self.retreat = Some(Retreat { until: event.now, from: window, acked: event.acked, lost: event.lost });
        Some(Congested { window, threshold: None })
    }

    fn on_exit(&mut self) {
        self.is_over = true;
        self.retreat = None;
    }

    fn snapshot(&self) -> Box<dyn Start> {
        Box::new(*self)
    }
}
