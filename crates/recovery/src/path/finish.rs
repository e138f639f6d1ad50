//! The conclusions from an ACK or a timeout: one event for the controller, and what follows from its answer.

use core::cmp::Ordering;

use thalweg_units::Instant;

use super::Path;
use super::usage::Opening;
use crate::congestion::{AckEvent, Change, RecoveryPeriod, Sibling};
use crate::delivery::Round;
use crate::profile::TimeoutMeaning;
use crate::trace::{CongestionCause, Event, Trace};

impl Path {
    /// The reduction that is called for by what is being processed, if one is.
    pub(crate) fn congestion(&self) -> Option<CongestionCause> {
        self.tally.congestion.map(|congestion| congestion.cause)
    }

    /// Whether what is being processed gave a sample of the round trip.
    pub(crate) fn gave_rtt_sample(&self) -> bool {
        self.tally.has_rtt_sample
    }

    /// Draws the conclusions from everything noted since the last time; `siblings` are the other paths that carry data.
    /// Returns whether persistent congestion was established.
    pub(crate) fn finish(&mut self, now: Instant, siblings: &[Sibling], trace: &mut Trace) -> bool {
        if !self.tally.touched {
            return false;
        }
        let (round, delivery) = self.delivery.finish(self.rtt.min);
        self.take_back_spurious_reductions(now, trace);
        let is_collapse = self.tally.persistent_congestion;
        if is_collapse {
            match self.episode.collapse(self.stats.packets_sent) {
                TimeoutMeaning::Probe => self.stats.persistent_congestions += 1,
                TimeoutMeaning::Loss => self.episode.repairs.timeouts += 1,
            }
            // RFC 9002 section 5.2. Found by the loss timer, it comes without a sample.
            match self.tally.has_rtt_sample {
                true => self.rtt.restart_min(),
                false => self.rtt.restart_min_with_next_sample(),
            }
        }
        let opening = Opening {
            prior_in_flight: self.tally.prior_in_flight,
            window: self.window(),
            in_slow_start: !self.tally.marks.ends_start
                && self.ssthresh().is_none_or(|threshold| self.window() < threshold),
            datagram: u64::from(self.datagram_size),
        };
        self.tally.order_arrivals();
        let tally = &self.tally;
        // Where ACKs are few anyway, nothing depends on it.
        if let Some(held) = tally.held_back
            && let Some(newest) = tally.arrivals.last().filter(|arrival| arrival.order == tally.newest_order)
            && self.controller.wants_dense_acks()
        {
            self.receiver_clock.acks.on_ack(now, newest.received, held, self.rtt.smoothed);
        }
        let growth = self.usage.opens(tally.growth, opening);
        let starts_recovery = tally.congestion.is_some();
        let event = AckEvent {
            now,
            rtt: &self.rtt,
            has_rtt_sample: tally.has_rtt_sample,
            acked: tally.acked,
            growth: if starts_recovery { 0 } else { growth },
            sent: tally.sent,
            arrivals: &tally.arrivals,
            lost: tally.lost,
            losses: &tally.losses,
            marks: tally.marks,
            delivered: self.delivery.delivered(),
            prior_in_flight: self.episode.prior_flight(tally.prior_in_flight, starts_recovery),
            bytes_in_flight: self.flight.bytes,
            round,
            delivery,
            application_limited: self.usage.is_limited
                && !self.limit.is_full(self.datagram_size, tally.prior_in_flight),
            period: RecoveryPeriod { in_recovery: self.episode.in_recovery, is_fresh: tally.is_fresh },
            congestion: tally.congestion,
            persistent_congestion: is_collapse,
        };
        self.controller.on_siblings(siblings);
        let change = self.controller.on_ack(&event);
        // A new estimate of the round trip is one that every rate may depend on.
        if change == Change::Allowance || self.tally.has_rtt_sample {
            self.ask(now);
        }
        self.count_episodes();
        self.tell_estimators(round);
        if trace.is_on() {
            self.tell(now, trace);
        }
        self.tally.clear();
        is_collapse
    }

    /// Counts how the repair of losses begins and ends.
    fn count_episodes(&mut self) {
        let datagram = u64::from(self.datagram_size.max(1));
        let threshold = self.ssthresh().unwrap_or(u64::MAX);
        if self.episode.is_repairing && !self.episode.in_recovery {
            self.episode.is_repairing = false;
            if !self.tally.persistent_congestion {
                self.episode.repairs.episodes_ended += 1;
                self.episode.repairs.end_window_bytes += self.window();
                self.episode.repairs.end_window_datagrams += self.window() / datagram;
                self.episode.repairs.ended_in_slow_start += u64::from(self.window() < threshold);
            }
        }
        let is_loss = self.tally.congestion.is_some_and(|congestion| congestion.cause == CongestionCause::Loss);
        if is_loss && self.episode.in_recovery {
            self.episode.is_repairing = true;
            match (self.flight.bytes / datagram).cmp(&(threshold / datagram)) {
                Ordering::Greater => self.episode.repairs.entries_above += 1,
                Ordering::Equal => self.episode.repairs.entries_at += 1,
                Ordering::Less => self.episode.repairs.entries_below += 1,
            }
        }
    }

    /// What a windowed estimator has to know about the controller.
    fn tell_estimators(&mut self, round: Round) {
        let is_started = self.controller.start_exit().is_some();
        if is_started && !self.is_started {
            self.rtt.on_start_exit();
        }
        self.is_started = is_started;
        if round.started {
            self.rtt.set_memory(self.controller.cycle(&self.rtt));
        }
    }

    fn take_spurious(&mut self) -> Option<u32> {
        #[cfg(feature = "study")]
        {
            let packets = self.window() / u64::from(self.datagram_size).max(1);
            if let Some(episode) = self.episode.take_few(packets) {
                return Some(episode);
            }
        }
        self.episode.take_spurious()
    }

    fn take_back_spurious_reductions(&mut self, now: Instant, trace: &mut Trace) {
        while let Some(episode) = self.take_spurious() {
            if self.controller.undo(now, episode) {
                self.ask(now);
                self.stats.undos += 1;
                trace.push(now, self.id, Event::Undo { episode, window: self.window() });
            }
        }
    }
}
