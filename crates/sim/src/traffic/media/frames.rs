//! Sends and receives frames, each in as many datagrams as it takes.

use std::collections::BTreeMap;

use bytes::{BufMut, Bytes, BytesMut};
use thalweg_units::{Duration, Instant};

use crate::app::Transport;
use crate::meter::Meter;

/// Bytes before the content of a piece: frame number, piece, pieces, time of sending.
pub(crate) const HEAD: usize = 4 + 2 + 2 + 8;

/// Sends frames.
#[derive(Debug)]
pub(crate) struct MediaSource {
    interval: Duration,
    frame: u64,
    left: Option<u64>,
    number: u32,
    next: Option<Instant>,
}

impl MediaSource {
    /// Frames of `frame` bytes every `interval`; `frames` of them or for ever.
    pub(crate) fn new(interval: Duration, frame: u64, frames: Option<u64>) -> Self {
        MediaSource { interval, frame, left: frames, number: 0, next: Some(Instant::ZERO) }
    }

    /// When the next frame is due; at once before the first call.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.next
    }

    /// Sends the frames that are due. Returns whether there were any.
    pub(crate) fn poll(&mut self, now: Instant, transport: &mut dyn Transport, meter: &mut Meter) -> bool {
        let mut sent = false;
        while let Some(at) = self.next.filter(|at| *at <= now) {
            // The first frame sets the beat.
            let at = if at == Instant::ZERO { now } else { at };
            if let Some(left) = &mut self.left {
                *left -= 1;
            }
            self.next = (self.left != Some(0)).then(|| at + self.interval);
            meter.frame_sent(at);
            self.send(at, transport);
            self.number = self.number.wrapping_add(1);
            sent = true;
        }
        sent
    }

    fn send(&self, at: Instant, transport: &mut dyn Transport) {
        let Some(room) = transport.max_datagram().and_then(|max| max.checked_sub(HEAD)).filter(|room| *room > 0) else {
            return;
        };
        let pieces = self.frame.div_ceil(room as u64).min(u64::from(u16::MAX));
        let mut left = self.frame;
        for piece in 0..pieces {
            let content = left.min(room as u64) as usize;
            left -= content as u64;
            let mut data = BytesMut::with_capacity(HEAD + content);
            data.put_u32(self.number);
            data.put_u16(piece as u16);
            data.put_u16(pieces as u16);
            data.put_u64(at.as_nanos());
            data.put_bytes(0, content);
            // What finds no room is lost, as on the way.
            let _ = transport.send_datagram(data.freeze());
        }
    }
}

/// How many frames may be incomplete at a time: older ones are given up.
const INCOMPLETE: usize = 1024;

/// For how long a client takes part in so many frames. They may be late by a second and more, as long as they last
/// where they have no deadline; after that nobody waits for them.
pub(crate) fn media_span(interval: Duration, deadline: Option<Duration>, frames: u64) -> Duration {
    let whole = interval.saturating_mul(u32::try_from(frames).unwrap_or(u32::MAX));
    let grace = deadline.unwrap_or(whole).min(Duration::from_secs(10)) + Duration::from_secs(1);
    whole + grace
}

/// Receives frames.
#[derive(Debug)]
pub(crate) struct MediaSink {
    deadline: Option<Duration>,
    /// Pieces seen per incomplete frame, as a set of bits in words.
    incomplete: BTreeMap<u32, Pieces>,
    last: Instant,
}

#[derive(Debug)]
struct Pieces {
    seen: Vec<u64>,
    missing: u16,
}

impl MediaSink {
    /// Frames later than `deadline` count as late; without one none does.
    pub(crate) fn new(deadline: Option<Duration>) -> Self {
        MediaSink { deadline, incomplete: BTreeMap::new(), last: Instant::ZERO }
    }

    /// Takes what has arrived.
    pub(crate) fn poll(&mut self, now: Instant, transport: &mut dyn Transport, meter: &mut Meter) {
        self.last = now;
        while let Some(data) = transport.recv_datagram() {
            self.take(now, &data, meter);
        }
    }

    /// Whether the end has come: `until` has passed.
    pub(crate) fn is_over(&self, until: Option<Instant>) -> bool {
        until.is_some_and(|until| self.last >= until)
    }

    fn take(&mut self, now: Instant, data: &Bytes, meter: &mut Meter) {
        let Some((head, content)) = data.split_at_checked(HEAD) else { return };
        let number =
            |range: std::ops::Range<usize>| head[range].iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
        let (frame, piece, pieces) = (number(0..4) as u32, number(4..6) as usize, number(6..8) as u16);
        let sent = Instant::from_nanos(number(8..16));
        if piece >= usize::from(pieces) {
            return; // damaged on the way
        }
        let entry = self
            .incomplete
            .entry(frame)
            .or_insert_with(|| Pieces { seen: vec![0; usize::from(pieces).div_ceil(64)], missing: pieces });
        let Some(word) = entry.seen.get_mut(piece / 64) else { return };
        let bit = 1 << (piece % 64);
        if *word & bit != 0 || entry.missing == 0 {
            return; // seen before
        }
        *word |= bit;
        entry.missing -= 1;
        meter.received(now, content.len() as u64);
        if entry.missing == 0 {
            // The empty entry stays for a while, so that a duplicate does not begin the frame again.
            meter.frame_arrived(now, frame, now.saturating_since(sent), self.deadline);
        }
        while self.incomplete.len() > INCOMPLETE {
            self.incomplete.pop_first();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// Datagrams of at most 100 bytes go round.
    #[derive(Default)]
    struct Loop(VecDeque<Bytes>);

    impl Transport for Loop {
        fn is_ready(&self) -> bool {
            true
        }
        fn open(&mut self) -> Option<u64> {
            None
        }
        fn accept(&mut self) -> Option<u64> {
            None
        }
        fn write(&mut self, _: u64, _: &mut Bytes) -> usize {
            0
        }
        fn finish(&mut self, _: u64) {}
        fn read(&mut self, _: u64, _: &mut dyn FnMut(&[u8])) -> bool {
            false
        }
        fn max_datagram(&self) -> Option<usize> {
            Some(100)
        }
        fn send_datagram(&mut self, data: Bytes) -> bool {
            self.0.push_back(data);
            true
        }
        fn recv_datagram(&mut self) -> Option<Bytes> {
            self.0.pop_front()
        }
    }

    #[test]
    fn frames_are_complete_when_their_last_piece_is_there() {
        let ms = Duration::from_millis;
        let start = Instant::ZERO + ms(1000);
        let (mut wire, mut meter) = (Loop::default(), Meter::new(start, ms(0)));
        let mut source = MediaSource::new(ms(20), 200, Some(3));
        let mut sink = MediaSink::new(Some(ms(50)));
        assert!(source.poll(start, &mut wire, &mut meter));
        assert_eq!(source.next(), Some(start + ms(20)));
        assert_eq!(wire.0.len(), 3, "200 bytes in pieces of 84");
        let duplicate = wire.0[0].clone();
        wire.0.push_back(duplicate);
        sink.poll(start + ms(10), &mut wire, &mut meter);
        // The second frame loses a piece, the third is late.
        source.poll(start + ms(20), &mut wire, &mut meter);
        wire.0.pop_front();
        sink.poll(start + ms(30), &mut wire, &mut meter);
        assert!(source.poll(start + ms(45), &mut wire, &mut meter));
        sink.poll(start + ms(100), &mut wire, &mut meter);
        assert_eq!(source.next(), None);
        // None was in time after the first, at 10 ms; whether that is a stall, the end of the media shows.
        assert!(meter.frames.stalls.is_empty());
        let frames = &meter.frames;
        assert_eq!((frames.sent, frames.received, frames.late), (3, 2, 1));
        assert_eq!(meter.bytes(), 200 + 116 + 200);
    }
}
