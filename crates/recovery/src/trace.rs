//! The trace: every decision as an event, for plots, logs and tests.
//!
//! Events are small `Copy` values, recorded only when [`Config::trace`](crate::Config::trace) is set and handed out by
//! [`Recovery::drain_trace`](crate::Recovery::drain_trace). [`qlog`](crate::qlog) writes them down.

use thalweg_units::{Duration, Instant, Rate};

use crate::types::{LossTrigger, PathId, SpaceId};

/// What congestion control is doing; the colour of a point in a plot of the window.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum State {
    /// Opening the window exponentially.
    #[default]
    SlowStart,
    /// HyStart++'s conservative slow start: delay has risen, and it is being confirmed (RFC 9406).
    ConservativeSlowStart,
    /// Growing carefully.
    CongestionAvoidance,
    /// Between a congestion event and the first acknowledgment of a packet sent after it (RFC 9002 section 7.3.2).
    Recovery,
    /// The window has room that the transport has no use for; it does not grow (RFC 9002 section 7.8).
    ApplicationLimited,
    /// A model looks for the bandwidth of the path, exponentially (BBR's Startup).
    Startup,
    /// A model empties the queue that its start has left (BBR's Drain).
    Drain,
    /// A model sends slower than the path delivers (BBR's ProbeBW_DOWN).
    ProbeBandwidthDown,
    /// A model sends as fast as the path delivers (BBR's ProbeBW_CRUISE).
    ProbeBandwidthCruise,
    /// A model fills the path before it probes (BBR's ProbeBW_REFILL).
    ProbeBandwidthRefill,
    /// A model sends faster than the path has delivered (BBR's ProbeBW_UP).
    ProbeBandwidthUp,
    /// A model empties the path to measure its round-trip time (BBR's ProbeRTT).
    ProbeRoundTrip,
    /// A label that a controller of the user's own gives.
    Custom(&'static str),
}

impl State {
    /// The label, in the form that qlog uses.
    pub const fn label(self) -> &'static str {
        match self {
            State::SlowStart => "slow_start",
            State::ConservativeSlowStart => "conservative_slow_start",
            State::CongestionAvoidance => "congestion_avoidance",
            State::Recovery => "recovery",
            State::ApplicationLimited => "application_limited",
            State::Startup => "startup",
            State::Drain => "drain",
            State::ProbeBandwidthDown => "probe_bw_down",
            State::ProbeBandwidthCruise => "probe_bw_cruise",
            State::ProbeBandwidthRefill => "probe_bw_refill",
            State::ProbeBandwidthUp => "probe_bw_up",
            State::ProbeRoundTrip => "probe_rtt",
            State::Custom(label) => label,
        }
    }

    /// Whether it is a phase of a model. It goes on through recovery and while the application limits the rate.
    pub(crate) const fn is_of_model(self) -> bool {
        matches!(
            self,
            State::Startup
                | State::Drain
                | State::ProbeBandwidthDown
                | State::ProbeBandwidthCruise
                | State::ProbeBandwidthRefill
                | State::ProbeBandwidthUp
                | State::ProbeRoundTrip
        )
    }
}

/// What made congestion control respond.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CongestionCause {
    /// A packet was lost.
    Loss,
    /// The peer counted another packet marked CE.
    Ecn,
}

impl CongestionCause {
    /// "loss" or "ecn".
    pub const fn label(self) -> &'static str {
        match self {
            CongestionCause::Loss => "loss",
            CongestionCause::Ecn => "ecn",
        }
    }
}

/// What ended the first opening of the window.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StartExit {
    /// Loss or a congestion mark.
    Congestion,
    /// The round-trip time rose and stayed up.
    Delay,
    /// The window reached the slow start threshold.
    Threshold,
    /// ACKs came one after the other for as long as the path is.
    AckTrain,
    /// Less was delivered than was sent a round trip before.
    Delivery,
    /// The window holds what the path carries at the rate that bursts have measured.
    Bandwidth,
    /// The delivery rate ceased to grow.
    Plateau,
    /// A congestion mark that the `mark` policy answers without a reduction.
    Mark,
}

impl StartExit {
    /// "congestion", "delay", "threshold", "ack_train", "delivery", "bandwidth", "plateau" or "mark".
    pub const fn label(self) -> &'static str {
        match self {
            StartExit::Congestion => "congestion",
            StartExit::Delay => "delay",
            StartExit::Threshold => "threshold",
            StartExit::AckTrain => "ack_train",
            StartExit::Delivery => "delivery",
            StartExit::Bandwidth => "bandwidth",
            StartExit::Plateau => "plateau",
            StartExit::Mark => "mark",
        }
    }
}

/// Whether a path carries ECN (RFC 9000 appendix A.4).
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EcnState {
    /// Marking the first packets to see what comes back.
    Testing,
    /// Enough marked packets are out; not marking until an acknowledgment shows.
    Unknown,
    /// The path or the peer does not report marks properly; not marking.
    Failed,
    /// Marks arrive and are reported.
    Capable,
}

impl EcnState {
    /// The name that qlog uses.
    pub const fn label(self) -> &'static str {
        match self {
            EcnState::Testing => "testing",
            EcnState::Unknown => "unknown",
            EcnState::Failed => "failed",
            EcnState::Capable => "capable",
        }
    }
}

/// What the one timer is set for.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TimerKind {
    /// A packet will count as lost then (RFC 9002 section 6.1.2).
    LossTime,
    /// Silence will have lasted long enough to probe (RFC 9002 section 6.2).
    Probe,
}

impl TimerKind {
    /// The name that qlog uses.
    pub const fn label(self) -> &'static str {
        match self {
            TimerKind::LossTime => "loss_timeout",
            TimerKind::Probe => "pto",
        }
    }
}

/// The numbers of a path at one moment. One is recorded whenever the window, the bytes in flight or an estimate has
/// changed through an acknowledgment, a loss or a new datagram size, so that a trace can be plotted without anything
/// else.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metrics {
    /// Congestion window in bytes.
    pub window: u64,
    /// Slow start threshold in bytes; `None` while it is unlimited.
    pub ssthresh: Option<u64>,
    /// Bytes in flight.
    pub bytes_in_flight: u64,
    /// What congestion control is doing.
    pub state: State,
    /// Newest round-trip sample.
    pub latest_rtt: Duration,
    /// Smoothed round-trip time.
    pub smoothed_rtt: Duration,
    /// Mean deviation from it.
    pub rtt_variation: Duration,
    /// Smallest round-trip sample.
    pub min_rtt: Duration,
    /// Pacing rate, if packets are paced.
    pub pacing_rate: Option<Rate>,
    /// Probe timeouts in a row.
    pub pto_count: u32,
}

/// One decision.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The numbers of the path.
    Metrics(Metrics),
    /// The state changed.
    CongestionState {
        /// From this.
        old: State,
        /// To this.
        new: State,
    },
    /// A packet was declared lost.
    PacketLost {
        /// Its space.
        space: SpaceId,
        /// Its number.
        number: u64,
        /// Its size in bytes.
        size: u32,
        /// The rule that applied.
        trigger: LossTrigger,
    },
    /// A packet that had been declared lost was acknowledged.
    SpuriousLoss {
        /// Its space.
        space: SpaceId,
        /// Its number.
        number: u64,
        /// Its size in bytes.
        size: u32,
        /// How long after the declaration the acknowledgment came.
        late_by: Duration,
    },
    /// The window was reduced.
    CongestionEvent {
        /// Why.
        cause: CongestionCause,
        /// Numbers the reductions of a path from 1.
        episode: u32,
        /// The window afterwards, in bytes.
        window: u64,
        /// The slow start threshold afterwards, in bytes.
        ssthresh: Option<u64>,
    },
    /// A reduction was taken back, because every loss behind it turned out to be reordering.
    Undo {
        /// The reduction.
        episode: u32,
        /// The window afterwards, in bytes.
        window: u64,
    },
    /// Nothing got through for longer than three probe timeouts; the window fell to its minimum (RFC 9002 section 7.6).
    PersistentCongestion {
        /// The window afterwards, in bytes.
        window: u64,
    },
    /// The probe timer expired.
    PtoExpired {
        /// The space to probe in.
        space: SpaceId,
        /// Expiries in a row, this one included.
        count: u32,
    },
    /// The timer was set.
    TimerSet {
        /// What for.
        kind: TimerKind,
        /// In which space.
        space: SpaceId,
        /// How long from now.
        delay: Duration,
    },
    /// The timer was cancelled: there is nothing to wait for.
    TimerCancelled,
    /// What is known about ECN on the path changed.
    EcnState {
        /// From this.
        old: EcnState,
        /// To this.
        new: EcnState,
    },
    /// The first opening of the window ended.
    StartExit {
        /// What ended it.
        reason: StartExit,
        /// The window at that moment, in bytes.
        window: u64,
    },
    /// The transport began or ceased to have nothing to send although the window had room.
    AppLimited {
        /// Whether it is so now.
        limited: bool,
    },
}

/// Stands for a value that is absent; no value reaches it.
const NONE: u64 = u64::MAX;

impl Event {
    /// The event as numbers, for hashing: a number for the kind, then each field. No name in this code has a part in
    /// it, so renaming changes nothing; a number once given is never given again.
    pub fn numbers(&self, mut put: impl FnMut(u64)) {
        let mut put_all = |numbers: &[u64]| numbers.iter().for_each(|number| put(*number));
        match *self {
            Event::Metrics(Metrics {
                window,
                ssthresh,
                bytes_in_flight,
                state,
                latest_rtt,
                smoothed_rtt,
                rtt_variation,
                min_rtt,
                pacing_rate,
                pto_count,
            }) => {
                let (ssthresh, rate) = (ssthresh.unwrap_or(NONE), pacing_rate.map_or(NONE, Rate::bps));
                let [latest, smoothed, variation, min] = [latest_rtt, smoothed_rtt, rtt_variation, min_rtt].map(nanos);
                let before = [1, window, ssthresh, bytes_in_flight];
                let behind = [latest, smoothed, variation, min, rate, u64::from(pto_count)];
                if let State::Custom(_) = state {
                    put_all(&before);
                    state.numbers(&mut put_all);
                    put_all(&behind);
                } else {
                    // One loop for what comes with every ACK.
                    let mut all = [0; 11];
                    all[..4].copy_from_slice(&before);
                    all[4] = state.number();
                    all[5..].copy_from_slice(&behind);
                    put_all(&all);
                }
            }
            Event::CongestionState { old, new } => {
                put_all(&[2]);
                old.numbers(&mut put_all);
                new.numbers(&mut put_all);
            }
            Event::PacketLost { space, number, size, trigger } => {
                let trigger = match trigger {
                    LossTrigger::PacketThreshold => 1,
                    LossTrigger::TimeThreshold => 2,
                    LossTrigger::Withdrawn => 3,
                    LossTrigger::Timeout => 4,
                };
                put_all(&[3, space.index() as u64, number, u64::from(size), trigger]);
            }
            Event::SpuriousLoss { space, number, size, late_by } => {
                put_all(&[4, space.index() as u64, number, u64::from(size), nanos(late_by)]);
            }
            Event::CongestionEvent { cause, episode, window, ssthresh } => {
                let cause = match cause {
                    CongestionCause::Loss => 1,
                    CongestionCause::Ecn => 2,
                };
                put_all(&[5, cause, u64::from(episode), window, ssthresh.unwrap_or(NONE)]);
            }
            Event::Undo { episode, window } => put_all(&[6, u64::from(episode), window]),
            Event::PersistentCongestion { window } => put_all(&[7, window]),
            Event::PtoExpired { space, count } => put_all(&[8, space.index() as u64, u64::from(count)]),
            Event::TimerSet { kind, space, delay } => {
                let kind = match kind {
                    TimerKind::LossTime => 1,
                    TimerKind::Probe => 2,
                };
                put_all(&[9, kind, space.index() as u64, nanos(delay)]);
            }
            Event::TimerCancelled => put_all(&[10]),
            Event::EcnState { old, new } => put_all(&[11, old.number(), new.number()]),
            Event::StartExit { reason, window } => {
                let reason = match reason {
                    StartExit::Congestion => 1,
                    StartExit::Delay => 2,
                    StartExit::Threshold => 3,
                    StartExit::AckTrain => 4,
                    StartExit::Delivery => 5,
                    StartExit::Bandwidth => 6,
                    StartExit::Plateau => 7,
                    StartExit::Mark => 8,
                };
                put_all(&[12, reason, window]);
            }
            Event::AppLimited { limited } => put_all(&[13, u64::from(limited)]),
        }
    }
}

impl State {
    fn number(self) -> u64 {
        match self {
            State::SlowStart => 1,
            State::ConservativeSlowStart => 2,
            State::CongestionAvoidance => 3,
            State::Recovery => 4,
            State::ApplicationLimited => 5,
            State::Custom(_) => 6,
            State::Startup => 7,
            State::Drain => 8,
            State::ProbeBandwidthDown => 9,
            State::ProbeBandwidthCruise => 10,
            State::ProbeBandwidthRefill => 11,
            State::ProbeBandwidthUp => 12,
            State::ProbeRoundTrip => 13,
        }
    }

    fn numbers(self, put_all: &mut impl FnMut(&[u64])) {
        put_all(&[self.number()]);
        // The label is the user's, not a name in this code.
        if let State::Custom(label) = self {
            put_all(&[label.len() as u64]);
            label.bytes().for_each(|byte| put_all(&[u64::from(byte)]));
        }
    }
}

impl EcnState {
    fn number(self) -> u64 {
        match self {
            EcnState::Testing => 1,
            EcnState::Unknown => 2,
            EcnState::Failed => 3,
            EcnState::Capable => 4,
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(NONE)
}

/// Where events go; costs nothing when nobody listens.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    events: Option<Vec<(Instant, PathId, Event)>>,
}

impl Trace {
    pub(crate) fn new(enabled: bool) -> Trace {
        Trace { events: enabled.then(Vec::new) }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.events.is_some()
    }

    /// Records `event`, unless nobody listens.
    pub(crate) fn push(&mut self, now: Instant, path: PathId, event: Event) {
        if let Some(events) = &mut self.events {
            events.push((now, path, event));
        }
    }

    /// Hands out what was recorded since the last time, oldest first.
    pub(crate) fn drain(&mut self, mut f: impl FnMut(Instant, PathId, &Event)) {
        if let Some(events) = &mut self.events {
            for (now, path, event) in &*events {
                f(*now, *path, event);
            }
            events.clear();
        }
    }
}
