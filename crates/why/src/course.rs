//! The course of a transfer: when each part of the data had left its sender, to tell runs apart that end alike.

use std::sync::{Arc, Mutex, PoisonError};

use thalweg_proto::observe::{FrameInfo, ObservedConnection, Observer, ObserverEvent, ObserverFactory, PacketKind};
use thalweg_sim::PlanError;
use thalweg_units::Instant;

use crate::gather::Curve;
use crate::world::{HEADERS, Ran, World, run_each};

/// So many parts are looked at.
const PARTS: u64 = 16;

/// When each part of what was sent had left, seconds since the sender's first event.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Course(Vec<f64>);

impl Course {
    /// From times in milliseconds since `start` and the bytes sent before.
    pub(crate) fn of(curve: &Curve, start: f64) -> Course {
        let points = curve.points();
        let total = points.last().map_or(0, |(_, bytes)| *bytes);
        let at = |part: u64| {
            let first = points.partition_point(|(_, bytes)| *bytes < total * part / PARTS);
            points.get(first).map(|(time, _)| (time - start) / 1000.0)
        };
        Course((1..=PARTS).filter_map(at).collect())
    }

    /// By how much of a length in seconds the parts left earlier or later than those of another course, in the mean.
    pub(crate) fn apart(&self, other: &Course, length: f64) -> f64 {
        let pairs = self.0.iter().zip(&other.0);
        let sum: f64 = pairs.map(|(a, b)| (a - b).abs()).sum();
        sum / (PARTS as f64 * length.max(1e-9))
    }
}

/// How each comes out, and its course.
pub(crate) fn run_watched(worlds: &[World]) -> Result<Vec<(Ran, Course)>, PlanError> {
    run_each(worlds, |world| {
        let watch = Watch::default();
        let ran = world.run_counting(Some(Arc::new(watch.clone())))?;
        Ok((ran, watch.course()))
    })
}

/// Writes down the course of the one connection that it observes.
#[derive(Clone, Debug, Default)]
struct Watch(Arc<Mutex<Curve>>);

impl Watch {
    /// What was seen.
    fn course(&self) -> Course {
        Course::of(&self.0.lock().unwrap_or_else(PoisonError::into_inner), 0.0)
    }
}

impl ObserverFactory for Watch {
    fn build(&self, connection: &ObservedConnection<'_>) -> Option<Box<dyn Observer>> {
        Some(Box::new(Watcher { watch: self.clone(), start: connection.start }))
    }
}

struct Watcher {
    watch: Watch,
    start: Instant,
}

impl Observer for Watcher {
    fn on_event(&mut self, now: Instant, event: &ObserverEvent<'_>) {
        let ObserverEvent::PacketSent(packet) = event else { return };
        let asks = |frame: &FrameInfo| {
            !matches!(frame, FrameInfo::Ack { .. } | FrameInfo::Padding { .. } | FrameInfo::ConnectionClose { .. })
        };
        if matches!(packet.kind, PacketKind::OneRtt | PacketKind::ZeroRtt) && packet.frames.iter().any(asks) {
            let time = now.saturating_since(self.start).as_secs_f64() * 1000.0;
            let mut curve = self.watch.0.lock().unwrap_or_else(PoisonError::into_inner);
            curve.add(time, u64::from(packet.size) + HEADERS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(delay: f64) -> Course {
        let mut curve = Curve::default();
        for packet in 0..1000 {
            curve.add(delay + f64::from(packet), 1200);
        }
        Course::of(&curve, 0.0)
    }

    #[test]
    fn a_course_is_apart_by_what_it_is_later() {
        let (early, late) = (course(0.0), course(100.0));
        assert_eq!(early.apart(&early, 1.0), 0.0);
        for (one, other) in [(&early, &late), (&late, &early)] {
            assert!((one.apart(other, 1.0) - 0.1).abs() < 1e-9 && (one.apart(other, 10.0) - 0.01).abs() < 1e-9);
        }
    }

    #[test]
    fn what_was_sent_and_not_how_much_makes_the_course() {
        let mut curve = Curve::default();
        for packet in 0..1000 {
            curve.add(f64::from(packet), 600);
        }
        assert!(course(0.0).apart(&Course::of(&curve, 0.0), 1.0) < 0.002);
    }
}
