//! Media: frames at a constant rate in datagrams, judged by when they are complete.

mod frames;

use bytes::Bytes;
pub(crate) use frames::{HEAD as PIECE_HEAD, MediaSink, MediaSource, media_span};
use thalweg_link::Streams;
use thalweg_link::read::Table;
use thalweg_units::{Duration, DurationExt, Instant, exact_duration};

use super::kind::{
    Clients, Datagrams, Described, Ends, Judgement, Needs, ReadContext, TrafficKey, TrafficKind, direction, one,
};
use crate::app::{App, HEAD, Server, Transport, WANT_MEDIA};
use crate::frames::Frames;
use crate::meter::Meter;

/// Frames at a constant rate as DATAGRAM frames (stack "raw": as plain datagrams): media, or constant-rate cross
/// traffic.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Media {
    /// From the client to the server.
    pub up: bool,
    /// From frame to frame.
    pub interval: Duration,
    /// Bytes per frame; a frame that does not fit into a packet travels in several.
    pub frame: u64,
    /// A frame that takes longer is late. `None`: no frame is late, however long it takes.
    pub deadline: Option<Duration>,
    /// How many frames; `None`: for ever.
    pub frames: Option<u64>,
}

impl TrafficKind for Media {
    fn check(&self) -> Result<(), &'static str> {
        if self.frames == Some(0) {
            Err("needs at least one frame")
        } else if self.interval == Duration::ZERO {
            Err("needs an interval above zero")
        } else if self.frame == 0 || self.frame > 16 << 20 {
            Err("needs a frame of at least 1 B and at most 16 MiB")
        } else {
            Ok(())
        }
    }

    fn is_endless(&self) -> bool {
        self.frames.is_none()
    }

    fn sends_up(&self) -> bool {
        self.up
    }

    fn bytes(&self) -> Option<u64> {
        self.frames.map(|frames| self.frame.saturating_mul(frames))
    }

    fn lasts(&self) -> Option<Duration> {
        self.frames.map(|frames| nanos_times(self.interval, frames))
    }

    fn datagrams(&self) -> Option<Datagrams> {
        Some(Datagrams { interval: self.interval, size: self.frame, deadline: self.deadline })
    }

    fn metrics(&self) -> &'static [&'static str] {
        if self.deadline.is_some() { METRICS } else { UNHURRIED }
    }

    fn main_metric(&self) -> &'static str {
        if self.deadline.is_some() { "deadline_misses" } else { "frame_delay" }
    }

    fn clients(&self, _: &Streams) -> Clients {
        let media = *self;
        one(move || Viewer::new(&media))
    }

    fn server(&self) -> Box<dyn App> {
        Box::new(Host {
            server: Server::default(),
            source: (!self.up).then(|| self.source()),
            sink: MediaSink::new(self.deadline),
        })
    }

    fn judge(&self, ends: &Ends<'_>) -> Judgement {
        let [sender, receiver] = ends.sender_and_receiver(self.up);
        let due = Due { media: self, start: ends.start, now: ends.now, limit: ends.limit };
        Judgement { frames: due.frames(sender, receiver), cut_off: due.cut_off(receiver), ..Judgement::default() }
    }
}

impl Media {
    fn source(&self) -> MediaSource {
        MediaSource::new(self.interval, self.frame, self.frames)
    }

    /// Frames of so many bytes at this distance for a while, which can be late or not.
    fn lasting(up: bool, interval: Duration, frame: u64, deadline: Option<Duration>, lasts: Duration) -> Media {
        let frames = Some((lasts.nanos() / interval.nanos().max(1)).max(1));
        Media { up, interval, frame, deadline, frames }
    }
}

/// The metrics of frames that nobody waits for.
const UNHURRIED: &[&str] = &["frame_delay", "frames_missing"];
const METRICS: &[&str] = &["frame_delay", "frames_missing", "deadline_misses", "stall"];

impl Described for Media {
    const NEEDS: Needs = Needs::Datagrams;
    const KEYS: &'static [TrafficKey<Self>] = &[
        TrafficKey {
            name: "media",
            example: r#"{ rate = "1 Mbps", deadline = "100 ms", duration = "30 s" }"#,
            doc: r#"frames in datagrams at a constant rate for duration: one every frame (default "20 ms"), late after
                  deadline; direction is "down" (default) or "up""#,
            metrics: METRICS,
            read,
        },
        TrafficKey {
            name: "datagrams",
            example: r#"{ rate = "1 Mbps", size = "1200 B", duration = "30 s" }"#,
            doc: r#"datagrams of size (default "1200 B") at a constant rate for duration, which nobody waits for;
                  direction is "down" (default) or "up"; with stack = "raw", cross traffic without a transport"#,
            metrics: UNHURRIED,
            read: read_datagrams,
        },
    ];
}

fn read(table: &dyn Table, _: &ReadContext<'_>) -> Option<Vec<Media>> {
    let rate = table.need("rate", "\"1 Mbps\"").and_then(|field| field.rate());
    let frame = table.get("frame").map_or(Some(Duration::from_millis(20)), |field| field.span());
    let deadline = table.need("deadline", "\"100 ms\"").and_then(|field| field.span());
    let duration = table.need("duration", "\"30 s\"").and_then(|field| field.span());
    let up = direction(table);
    let interval = frame?;
    let frame = rate?.bytes_in(interval).max(1);
    Some(vec![Media::lasting(up?, interval, frame, Some(deadline?), duration?)])
}

fn read_datagrams(table: &dyn Table, _: &ReadContext<'_>) -> Option<Vec<Media>> {
    let rate = table.need("rate", "\"1 Mbps\"").and_then(|field| field.rate());
    let size = table.get("size").map_or(Some(1_200), |field| field.bytes_in(1..=65_000));
    let duration = table.need("duration", "\"30 s\"").and_then(|field| field.span());
    let up = direction(table);
    let size = size?;
    let interval = rate?.time_for(size).max(Duration::from_nanos(1));
    // Nothing waits for them: none is late.
    Some(vec![Media::lasting(up?, interval, size, None, duration?)])
}

/// The client's end: sends media, or asks for them.
#[derive(Debug)]
struct Viewer {
    source: Option<MediaSource>,
    sink: MediaSink,
    /// How long all frames and the time for the last to arrive take.
    span: Option<Duration>,
    has_begun: bool,
    has_asked: bool,
    until: Option<Instant>,
}

impl Viewer {
    fn new(media: &Media) -> Viewer {
        Viewer {
            source: media.up.then(|| media.source()),
            sink: MediaSink::new(media.deadline),
            span: media.frames.map(|frames| media_span(media.interval, media.deadline, frames)),
            has_begun: false,
            has_asked: false,
            until: None,
        }
    }
}

impl App for Viewer {
    fn poll(&mut self, now: Instant, transport: &mut dyn Transport, meter: &mut Meter) -> bool {
        if !transport.is_ready() {
            return false;
        }
        self.has_begun = true;
        self.until = self.until.or(self.span.map(|span| now + span));
        let mut wrote = false;
        match &mut self.source {
            Some(source) => wrote |= source.poll(now, transport, meter),
            None if !self.has_asked => {
                if let Some(id) = transport.open() {
                    let mut head = Bytes::from_static(&[WANT_MEDIA; HEAD]);
                    transport.write(id, &mut head);
                    transport.finish(id);
                    self.has_asked = true;
                    wrote = true;
                }
            }
            None => {}
        }
        self.sink.poll(now, transport, meter);
        wrote
    }

    fn wakeup(&self) -> Option<Instant> {
        let frame = self.source.as_ref().filter(|_| self.has_begun).and_then(MediaSource::next);
        frame.into_iter().chain(self.until).min()
    }

    fn is_finished(&self) -> bool {
        self.has_begun && self.sink.is_over(self.until)
    }
}

/// The server's end: takes media, or sends them once it is asked.
#[derive(Debug)]
struct Host {
    server: Server,
    source: Option<MediaSource>,
    sink: MediaSink,
}

impl App for Host {
    fn poll(&mut self, now: Instant, transport: &mut dyn Transport, meter: &mut Meter) -> bool {
        let mut wrote = self.server.poll(now, transport, meter);
        if let Some(source) = self.source.as_mut().filter(|_| self.server.is_asked_for_media()) {
            wrote |= source.poll(now, transport, meter);
        }
        self.sink.poll(now, transport, meter);
        wrote
    }

    fn wakeup(&self) -> Option<Instant> {
        self.source.as_ref().filter(|_| self.server.is_asked_for_media()).and_then(MediaSource::next)
    }

    fn is_finished(&self) -> bool {
        false
    }
}

/// The media of a flow as they were meant to be.
#[derive(Copy, Clone, Debug)]
struct Due<'a> {
    media: &'a Media,
    /// When the client sent its first datagram.
    start: Instant,
    /// When the run ended.
    now: Instant,
    /// When it would have ended at the latest.
    limit: Instant,
}

/// The end of media counts as reached when one of so many of the last frames is there, if they take a second or more.
const LAST_FRAMES: u64 = 10;

impl Due<'_> {
    /// What became of the frames: those that were never sent have not arrived either, and a stall that did not end
    /// lasts until the last frame was due.
    fn frames(&self, sender: &Meter, receiver: &Meter) -> Frames {
        let mut frames = receiver.frames.clone();
        frames.sent = sender.frames.sent;
        frames.due = self.media.frames.unwrap_or(frames.sent);
        let began = sender.media.began.unwrap_or(self.start);
        let end = match self.media.frames {
            Some(count) => (began + nanos_times(self.media.interval, count)).min(self.limit),
            None => self.now,
        };
        let first = receiver.media.first_in_time.unwrap_or(end).saturating_since(began);
        let is_over = |span: Duration| self.media.deadline.is_some_and(|deadline| span > deadline);
        if is_over(first) {
            frames.stalls.insert(0, first);
        }
        let last = receiver.media.last_in_time.map_or(Duration::ZERO, |last| end.saturating_since(last));
        if is_over(last) {
            frames.stalls.push(last);
        }
        frames
    }

    /// Why media that ran to their end do not count as complete, if so: nothing arrived of what was sent last.
    fn cut_off(&self, receiver: &Meter) -> Option<String> {
        let count = self.media.frames?;
        let second = Duration::from_secs(1).nanos().div_ceil(self.media.interval.nanos().max(1));
        let last = second.max(LAST_FRAMES).min(count);
        let arrived = receiver.media.newest.is_some_and(|newest| u64::from(newest) + last >= count);
        (!arrived).then(|| {
            let span = exact_duration(nanos_times(self.media.interval, last));
            format!("none of its last {last} frames, the last {span}, arrived")
        })
    }
}

fn nanos_times(span: Duration, count: u64) -> Duration {
    Duration::from_nanos(span.nanos().saturating_mul(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_that_does_not_end_lasts_until_the_last_frame_was_due() {
        let ms = Duration::from_millis;
        let origin = Instant::ZERO + ms(1000);
        let media = Media { up: false, interval: ms(20), frame: 1, deadline: Some(ms(100)), frames: Some(200) };
        let due = Due { media: &media, start: origin, now: origin + ms(5000), limit: origin + ms(60_000) };
        let (mut sender, mut receiver) = (Meter::new(origin, ms(0)), Meter::new(origin, ms(0)));
        // Nothing at all arrives: the whole call is one stall.
        sender.frame_sent(origin + ms(50));
        assert_eq!(due.frames(&sender, &receiver).stalls, [ms(4000)]);
        assert_eq!(due.frames(&sender, &receiver).missed(), 200);
        // The first frames are lost, those of a second arrive, the rest is lost.
        for number in 15..65 {
            let at = origin + ms(50 + 20 * number);
            sender.frame_sent(at);
            receiver.frame_arrived(at + ms(10), number as u32, ms(10), Some(ms(100)));
        }
        let frames = due.frames(&sender, &receiver);
        assert_eq!(frames.stalls, [ms(310), ms(4000 - 64 * 20 - 10)]);
        assert_eq!((frames.due, frames.sent, frames.received, frames.missed()), (200, 51, 50, 150));
        assert!(due.cut_off(&receiver).unwrap().contains("last 50 frames"));
        // One of the last second is enough for the end to be reached, late or not.
        receiver.frame_arrived(origin + ms(4500), 150, ms(500), Some(ms(100)));
        assert_eq!(due.cut_off(&receiver), None);
        // Frames are due until the run is stopped, not beyond.
        let short = Due { limit: origin + ms(2050), ..due };
        assert_eq!(short.frames(&sender, &receiver).stalls[1], ms(2000 - 64 * 20 - 10));
    }
}
