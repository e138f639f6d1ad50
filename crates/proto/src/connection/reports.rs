//! Reports of a connection: events to the application and to the endpoint, figures, and everything to an observer.

use std::collections::VecDeque;

use smallvec::SmallVec;
use thalweg_recovery::{PathId, Recovery};
use thalweg_units::Instant;

use super::{
    event::{EndpointEvent, Event, PathEvent},
    sent::SentFrames,
    stats::{ConnectionStats, Limited, Limits},
};
use crate::{
    frame::FrameIter,
    observe::{
        CloseTrigger, ConnectionState, DropReason, FrameInfo, Limit, Observer, ObserverEvent, Owner, PacketInfo,
        PacketKind,
    },
};

/// See the [module](self).
#[derive(Default)]
pub(super) struct Reports {
    events: VecDeque<Event>,
    endpoint: VecDeque<EndpointEvent>,
    pub(super) stats: ConnectionStats,
    /// What holds the sender back, and has held it.
    limited: Limited,
    /// What held it back on each path when that was last reported, where several are in use at once.
    limits: SmallVec<[(PathId, Limit); 1]>,
    /// Several paths are, or were, in use at once.
    are_limits_apart: bool,
    observer: Option<Box<dyn Observer>>,
    /// Reused from packet to packet.
    frames: Vec<FrameInfo>,
}

impl Reports {
    pub(super) fn new(observer: Option<Box<dyn Observer>>) -> Reports {
        Reports { observer, ..Reports::default() }
    }

    /// Something the application wants to know.
    pub(super) fn tell(&mut self, event: Event) {
        self.events.push_back(event);
    }

    /// Something happened to a path.
    pub(super) fn tell_path(&mut self, event: PathEvent) {
        self.tell(Event::Path(event));
    }

    /// Something the endpoint has to know.
    pub(super) fn tell_endpoint(&mut self, event: EndpointEvent) {
        self.endpoint.push_back(event);
    }

    /// The application's next event.
    pub(super) fn poll(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The endpoint's next event.
    pub(super) fn poll_endpoint(&mut self) -> Option<EndpointEvent> {
        self.endpoint.pop_front()
    }

    /// Whether somebody listens to [`observe`](Self::observe).
    pub(super) fn is_observed(&self) -> bool {
        self.observer.is_some()
    }

    /// Nobody listens any more.
    pub(super) fn drop_observer(&mut self) {
        self.observer = None;
    }

    pub(super) fn observe(&mut self, now: Instant, event: &ObserverEvent<'_>) {
        if let Some(observer) = self.observer.as_mut() {
            observer.on_event(now, event);
        }
    }

    pub(super) fn observe_state(&mut self, now: Instant, state: ConnectionState) {
        self.observe(now, &ObserverEvent::StateUpdated(state));
    }

    /// The connection ends by `code` and `reason` of one of its ends.
    pub(super) fn observe_close(
        &mut self,
        now: Instant,
        by: Owner,
        trigger: CloseTrigger,
        application: bool,
        code: u64,
        reason: &[u8],
    ) {
        if self.is_observed() {
            let reason = &*String::from_utf8_lossy(reason);
            self.observe(now, &ObserverEvent::ConnectionClosed { by, trigger, application, code, reason });
        }
    }

    /// A packet was sent whose frames are `payload`.
    pub(super) fn observe_sent(&mut self, now: Instant, packet: PacketInfo<'_>, payload: &[u8]) {
        if let Some(observer) = self.observer.as_mut() {
            let frames = summarise(payload, &mut self.frames);
            observer.on_event(now, &ObserverEvent::PacketSent(PacketInfo { frames, ..packet }));
        }
    }

    /// A packet was accepted whose frames are `payload`.
    pub(super) fn observe_received(&mut self, now: Instant, packet: PacketInfo<'_>, payload: &[u8]) {
        if let Some(observer) = self.observer.as_mut() {
            let frames = summarise(payload, &mut self.frames);
            observer.on_event(now, &ObserverEvent::PacketReceived(PacketInfo { frames, ..packet }));
        }
    }

    /// A packet, or the rest of a datagram, was thrown away.
    pub(super) fn drop_packet(&mut self, now: Instant, kind: Option<PacketKind>, size: usize, reason: DropReason) {
        self.stats.packets_dropped += 1;
        self.observe(now, &ObserverEvent::PacketDropped { kind, number: None, size: size as u32, reason });
    }

    /// Hands recovery's decisions to the observer, in order.
    pub(super) fn drain_trace(&mut self, recovery: &mut Recovery<Box<SentFrames>>) {
        if let Some(observer) = self.observer.as_mut() {
            recovery.drain_trace(|now, path, event| {
                observer.on_event(now, &ObserverEvent::Recovery { path, event });
            });
        }
    }

    /// For how long which limit has held.
    pub(super) fn limits(&self, now: Instant) -> Limits {
        self.limited.until(now)
    }

    /// Notes what holds the sender back on `path`, when that changes.
    pub(super) fn set_limit(&mut self, now: Instant, path: PathId, limit: Limit) {
        let mut is_news = self.limited.set(now, limit);
        if self.are_limits_apart {
            let known = self.limits.iter_mut().find(|(of, _)| *of == path);
            is_news = known.as_ref().is_none_or(|(_, before)| *before != limit);
            match known {
                Some((_, before)) => *before = limit,
                None => self.limits.push((path, limit)),
            }
        }
        if is_news {
            self.observe(now, &ObserverEvent::LimitedBy { path, limit });
        }
    }

    /// A path is used beside others: what limits it is reported by itself.
    pub(super) fn tell_limits_apart(&mut self) {
        self.are_limits_apart = true;
    }

    /// A path is no more.
    pub(super) fn forget_limit(&mut self, path: PathId) {
        self.limits.retain(|(of, _)| *of != path);
    }
}

/// The frames of a payload in brief.
fn summarise<'a>(payload: &[u8], frames: &'a mut Vec<FrameInfo>) -> &'a [FrameInfo] {
    frames.clear();
    frames.extend(FrameIter::new(payload).filter_map(Result::ok).map(|frame| FrameInfo::from(&frame)));
    frames
}
