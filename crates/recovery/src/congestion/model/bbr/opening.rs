//! A Startup that begins with trains (`bbr(start=trains)`): on long paths, doubling takes too many round trips.
//!
//! The rules of [`PeakBandwidth`](StartPolicy::PeakBandwidth) propose window, rate and trains, until a rate is
//! confirmed by a round trip at what it fills, or until delay shows a queue. That is a full path. On a short round trip
//! Startup is as ever. Congestion is for BBR to judge: more loss than it puts up with ends Startup as ever, less is no
//! reason.

use thalweg_units::Instant;

use super::Bbr;
use super::phase::Phase;
use crate::congestion::start::{Departure, LONG, Proposal, Start};
use crate::congestion::view::View;
use crate::congestion::{AckEvent, PathContext, PeakBandwidthParameters, RecoveryPeriod, StartPolicy};

/// The start under way, and what it proposed last.
#[derive(Debug)]
pub(super) struct Opening {
    start: Box<dyn Start>,
    pub(super) proposal: Option<Proposal>,
}

impl Opening {
    pub(super) fn new(context: &PathContext) -> Opening {
        Opening { start: StartPolicy::PeakBandwidth(PeakBandwidthParameters::DEFAULT).build(context), proposal: None }
    }
}

impl Bbr {
    /// After BBR has had its say; the window was `before` until then.
    pub(super) fn open(&mut self, event: &AckEvent<'_>, before: u64) {
        let Some(opening) = &mut self.startup.opening else { return };
        if self.phase != Phase::Startup || (event.rtt.has_sample && event.rtt.min < LONG) {
            self.startup.opening = None;
            return;
        }
        let view = View {
            now: event.now,
            window: before,
            datagram: self.datagram,
            smoothed_rtt: event.rtt.smoothed,
            latest_rtt: event.rtt.latest,
            min_rtt: event.rtt.min,
        };
        // What is delivered in recovery would open no window of loss-based control.
        let growth = if event.period.in_recovery || event.congestion.is_some() { event.acked } else { event.growth };
        let seen = AckEvent {
            growth,
            congestion: None,
            period: RecoveryPeriod { in_recovery: false, ..event.period },
            ..*event
        };
        let proposal = opening.start.on_ack(view, &seen);
        self.window = before;
        match proposal.exit {
            None => self.take_up(proposal),
            Some(reason) => {
                self.startup.opening = None;
                self.startup.full_pipe.reached = true;
                self.startup.exit.get_or_insert(reason);
                self.enter_drain();
                self.check_drain_done(event.now);
                self.set_pacing_rate();
                self.set_window(event.acked);
            }
        }
    }

    /// A packet leaves. Answers whether that changes how packets leave.
    pub(super) fn open_between_acks(&mut self, now: Instant, bytes: u64, bytes_in_flight: u64) -> bool {
        let is_full = self.connection.window_full.0;
        let departure = Departure { now, bytes, bytes_in_flight, window: self.window, is_full };
        let proposal = self.startup.opening.as_mut().and_then(|opening| opening.start.on_sent(departure));
        proposal.is_some_and(|proposal| {
            self.take_up(proposal);
            true
        })
    }

    fn take_up(&mut self, proposal: Proposal) {
        self.window = self.window.max(proposal.window);
        if let Some(opening) = &mut self.startup.opening {
            opening.proposal = Some(proposal);
        }
    }
}
