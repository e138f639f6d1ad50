//! When each cause showed, for pictures.

use crate::Cause;
use crate::answer::{Answer, NOTHING};

/// Spans of a cause that are closer than this share of the time are one.
const CLOSE: f64 = 0.002;
/// Causes with a smaller share of the time are not shown, unless they are the primary one.
const LITTLE: f64 = 0.01;

impl Answer {
    /// When each cause showed that costs a hundredth of the time or more, largest first: from and until, in seconds
    /// since the first event. The costs of a cause are not the time that it shows.
    pub fn spans(&self) -> Vec<(Cause, Vec<(f64, f64)>)> {
        if !self.is_reproduced() {
            return Vec::new();
        }
        let least = if self.primary().is_some() { LITTLE } else { NOTHING };
        let worth = self.savings.iter().filter(|saving| saving.share >= least);
        let spans = worth.map(|saving| (saving.cause, self.of(saving.cause)));
        spans.filter(|(_, spans)| !spans.is_empty()).collect()
    }

    fn of(&self, cause: Cause) -> Vec<(f64, f64)> {
        let facts = &self.facts;
        let start = facts.course.first.unwrap_or(0.0);
        let (first, last) = facts.waits.span.unwrap_or((start, start));
        let mut list: Vec<(f64, f64)> = match cause {
            Cause::ReceiveWindow => facts.waits.credit_spans.clone(),
            Cause::Application => facts.waits.pauses.iter().map(|pause| (pause.from, pause.to)).collect(),
            // It holds all the time.
            Cause::RateLimit => vec![(first, last)],
            Cause::Start => vec![(first, facts.course.start_exit.unwrap_or(last).max(first))],
            Cause::ChanceLoss => {
                facts.flight.losses.lost.values().map(|lost| (lost.sent, lost.sent + lost.round_trip)).collect()
            }
            Cause::Reordering => facts.flight.losses.late.iter().map(|late| (late.sent, late.sent + late.by)).collect(),
            Cause::Policer => {
                facts.flight.losses.lost.values().map(|lost| (lost.sent, lost.sent + lost.round_trip)).collect()
            }
            Cause::BlackHole => self.reading.drop.iter().map(|drop| (drop.at, drop.until)).collect(),
            Cause::WayBack | Cause::BusyHost => vec![(first, last)],
            Cause::Handshake => vec![(start, facts.course.handshake.unwrap_or(first))],
            Cause::Interruption | Cause::LateProbe => {
                self.reading.stops.iter().map(|(from, to, _)| (from + start, to + start)).collect()
            }
        };
        list.sort_by(|a, b| a.0.total_cmp(&b.0));
        let close = CLOSE * (facts.course.last - start);
        let mut merged: Vec<(f64, f64)> = Vec::new();
        for (from, to) in list {
            match merged.last_mut() {
                Some(before) if from - before.1 <= close => before.1 = before.1.max(to),
                _ => merged.push((from, to)),
            }
        }
        merged.iter().map(|(from, to)| ((from - start) / 1000.0, (to - start) / 1000.0)).collect()
    }
}
