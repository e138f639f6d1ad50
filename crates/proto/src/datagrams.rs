//! Unreliable datagrams (RFC 9221): two bounded queues.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use thalweg_recovery::DataSpace;

use crate::error::TransportError;
use crate::frame::ty;
use crate::turn::Turn;
use crate::varint;

/// What happens to a datagram that finds the send queue full.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhenFull {
    /// The new one is refused with [`SendDatagramError::Blocked`].
    #[default]
    Refuse,
    /// The oldest ones make room: right for media, where late is worthless.
    DropOldest,
}

/// How many bytes of datagrams a connection holds.
#[derive(Clone, Debug)]
pub struct DatagramsConfig {
    /// The largest DATAGRAM frame accepted, bytes, announced as max_datagram_frame_size; 0 turns receiving off.
    pub max_frame_size: u64,
    /// Bytes waiting to be sent.
    pub send_buffer: usize,
    /// Bytes waiting to be read by the application; beyond, the oldest are dropped.
    pub receive_buffer: usize,
    /// What a full send queue does.
    pub when_full: WhenFull,
}

impl Default for DatagramsConfig {
    fn default() -> DatagramsConfig {
        DatagramsConfig {
            max_frame_size: 65_535,
            send_buffer: 1 << 20,
            receive_buffer: 1 << 20,
            when_full: WhenFull::Refuse,
        }
    }
}

/// Why a datagram was not queued.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendDatagramError {
    /// The peer takes no datagrams, or has not said yet.
    #[error("the peer does not accept datagrams")]
    Unsupported,
    /// It does not fit the peer's limit or the path's packets.
    #[error("the datagram is too large: at most {max} bytes fit now")]
    TooLarge {
        /// The largest payload that could be sent now, bytes.
        max: usize,
    },
    /// The queue is full.
    #[error("the send queue is full: wait until datagrams are unblocked, or let it drop the oldest")]
    Blocked,
}

/// The datagrams that wait for one path.
#[derive(Debug)]
struct Pinned {
    path: DataSpace,
    /// With each, whether it is a copy of one that has left on another path.
    queue: VecDeque<(Bytes, bool)>,
}

/// The datagrams of a connection that wait to be sent or read.
#[derive(Debug)]
pub struct Datagrams {
    config: DatagramsConfig,
    /// The peer's max_datagram_frame_size: 0 until known or if it takes none.
    peer_max_frame: u64,
    outgoing: VecDeque<Bytes>,
    /// Of all that wait, but for copies.
    outgoing_bytes: usize,
    /// Those that wait for one path, by path; none that is empty.
    pinned: Vec<Pinned>,
    copied_bytes: usize,
    /// What may be written now; `None`: everything.
    turn: Option<Turn>,
    incoming: VecDeque<Bytes>,
    incoming_bytes: usize,
    /// Where arriving datagrams are copied to: one allocation for many of them, used again once all are dropped.
    arena: BytesMut,
    /// The application has sent one, has tried to, or has asked how large one may be.
    is_used: bool,
    /// A send was refused for lack of room since the last unblocking.
    send_blocked: bool,
    unblocked: bool,
    dropped_outgoing: u64,
    dropped_incoming: u64,
}

/// Bytes each queued datagram counts beyond its payload, so that empty datagrams cannot fill memory.
const OVERHEAD: usize = 32;

/// The least memory allocated for arriving datagrams at a time: 16 KiB.
const ARENA: usize = 16 * 1024;

/// DATAGRAM with a length field.
const FRAME_WITH_LENGTH: u8 = ty::DATAGRAM_LEN as u8;

impl Datagrams {
    /// Empty queues.
    pub fn new(config: DatagramsConfig) -> Datagrams {
        Datagrams {
            config,
            peer_max_frame: 0,
            outgoing: VecDeque::new(),
            outgoing_bytes: 0,
            pinned: Vec::new(),
            copied_bytes: 0,
            turn: None,
            incoming: VecDeque::new(),
            incoming_bytes: 0,
            arena: BytesMut::new(),
            is_used: false,
            send_blocked: false,
            unblocked: false,
            dropped_outgoing: 0,
            dropped_incoming: 0,
        }
    }

    /// What to announce as max_datagram_frame_size, bytes; 0 means not to announce it.
    pub fn max_frame_size(&self) -> u64 {
        self.config.max_frame_size
    }

    /// The peer's max_datagram_frame_size: `None` or 0 if it takes none.
    pub fn set_peer_max_frame_size(&mut self, max: Option<u64>) {
        self.peer_max_frame = max.unwrap_or(0);
        if self.peer_max_frame == 0 {
            // 0-RTT datagrams that the remembered parameters allowed and the real ones do not (RFC 9221 section 3).
            self.drop_unsent();
            self.note_room();
        }
    }

    /// Drops what waits to be sent: it cannot leave any more.
    pub(crate) fn drop_unsent(&mut self) {
        let pinned = self.pinned.iter().flat_map(|pinned| &pinned.queue).filter(|(_, is_copy)| !is_copy).count();
        self.dropped_outgoing += (self.outgoing.len() + pinned) as u64;
        (self.outgoing, self.pinned) = (VecDeque::new(), Vec::new());
        (self.outgoing_bytes, self.copied_bytes) = (0, 0);
    }

    /// The largest payload that fits a packet with `room` bytes for frames; `None` if the peer takes no datagrams.
    pub fn max_payload(&self, room: usize) -> Option<usize> {
        if self.peer_max_frame == 0 {
            return None;
        }
        let frame = room.min(usize::try_from(self.peer_max_frame).unwrap_or(usize::MAX));
        Some(payload_of_frame(frame))
    }

    /// The largest datagram that can be queued now without waiting and without dropping another, bytes of payload.
    ///
    /// Each queued datagram counts 32 bytes more than its payload. An empty queue takes a datagram of any size besides.
    pub fn send_buffer_space(&self) -> usize {
        self.config.send_buffer.saturating_sub(self.outgoing_bytes).saturating_sub(OVERHEAD)
    }

    /// Queues a datagram. `room` is how many bytes of frames the smallest packet to come can carry.
    pub fn send(&mut self, data: Bytes, room: usize) -> Result<(), SendDatagramError> {
        self.make_room(&data, room)?;
        self.outgoing_bytes += data.len() + OVERHEAD;
        self.outgoing.push_back(data);
        Ok(())
    }

    /// Queues a datagram that is to leave on one path. `room` is that of a packet on it.
    pub(crate) fn send_on(&mut self, path: DataSpace, data: Bytes, room: usize) -> Result<(), SendDatagramError> {
        self.make_room(&data, room)?;
        self.outgoing_bytes += data.len() + OVERHEAD;
        self.pinned_to(path).queue.push_back((data, false));
        Ok(())
    }

    fn make_room(&mut self, data: &Bytes, room: usize) -> Result<(), SendDatagramError> {
        let max = self.max_payload(room).ok_or(SendDatagramError::Unsupported)?;
        self.is_used = true;
        if data.len() > max {
            return Err(SendDatagramError::TooLarge { max });
        }
        let size = data.len() + OVERHEAD;
        // An empty queue takes one of any size, or a small buffer could never send.
        while self.outgoing_bytes > 0 && self.outgoing_bytes + size > self.config.send_buffer {
            match self.config.when_full {
                WhenFull::Refuse => {
                    self.send_blocked = true;
                    return Err(SendDatagramError::Blocked);
                }
                WhenFull::DropOldest => {
                    self.drop_oldest();
                    self.dropped_outgoing += 1;
                }
            }
        }
        Ok(())
    }

    /// Drops the oldest that is pinned to no path or, if there is none, the oldest of the first path that has some.
    fn drop_oldest(&mut self) {
        if !self.outgoing.is_empty() {
            self.pop_outgoing();
            return;
        }
        for pinned in &mut self.pinned {
            if let Some(at) = pinned.queue.iter().position(|(_, is_copy)| !is_copy) {
                let dropped = pinned.queue.remove(at).map_or(0, |(data, _)| data.len() + OVERHEAD);
                self.outgoing_bytes -= dropped;
                break;
            }
        }
        self.forget_empty();
    }

    fn pinned_to(&mut self, path: DataSpace) -> &mut Pinned {
        let at = self.pinned.iter().position(|pinned| pinned.path == path).unwrap_or_else(|| {
            self.pinned.push(Pinned { path, queue: VecDeque::new() });
            self.pinned.len() - 1
        });
        &mut self.pinned[at]
    }

    fn forget_empty(&mut self) {
        self.pinned.retain(|pinned| !pinned.queue.is_empty());
    }

    /// The application will send datagrams, as large as they can be: the path's MTU is searched for them. Returns
    /// whether that was not known before; the search begins with the next packet then.
    pub fn expect(&mut self) -> bool {
        !std::mem::replace(&mut self.is_used, true)
    }

    /// Whether the application sends datagrams, or would if they could be larger.
    pub(crate) fn is_used(&self) -> bool {
        self.is_used
    }

    /// Whether something waits for one path.
    pub(crate) fn has_pins(&self) -> bool {
        !self.pinned.is_empty()
    }

    /// Whether something waits for this path.
    pub(crate) fn can_send_pinned(&self, path: DataSpace) -> bool {
        self.pinned.iter().any(|pinned| pinned.path == path)
    }

    /// From now on, only what a turn admits can be sent; `None`: everything. Copies for paths that carry nothing now
    /// are dropped.
    pub(crate) fn set_turn(&mut self, turn: Option<Turn>) {
        if let Some(turn) = turn.as_ref().filter(|turn| self.pinned.iter().any(|of| !turn.live.contains(&of.path))) {
            for pinned in self.pinned.iter_mut().filter(|pinned| !turn.live.contains(&pinned.path)) {
                let copies = pinned.queue.iter().filter(|(_, is_copy)| *is_copy);
                self.copied_bytes -= copies.map(|(data, _)| data.len() + OVERHEAD).sum::<usize>();
                pinned.queue.retain(|(_, is_copy)| !is_copy);
            }
            self.forget_empty();
        }
        self.turn = turn;
    }

    /// A datagram leaves that may have to leave on other paths too. Of copies as many bytes wait as of datagrams, at
    /// most; beyond, the oldest are dropped.
    fn copy(&mut self, data: &Bytes) {
        let Some(turn) = &self.turn else { return };
        for path in turn.copies.clone() {
            self.copied_bytes += data.len() + OVERHEAD;
            let most = self.config.send_buffer;
            let mut bytes = self.copied_bytes;
            let queue = &mut self.pinned_to(path).queue;
            queue.push_back((data.clone(), true));
            while bytes > most
                && let Some(at) = queue.iter().position(|(_, is_copy)| *is_copy)
                && let Some((dropped, _)) = queue.remove(at)
            {
                bytes -= dropped.len() + OVERHEAD;
            }
            self.copied_bytes = bytes;
        }
        self.forget_empty();
    }

    /// The next datagram for the application.
    pub fn recv(&mut self) -> Option<Bytes> {
        let data = self.incoming.pop_front()?;
        self.incoming_bytes -= data.len() + OVERHEAD;
        Some(data)
    }

    /// A DATAGRAM frame arrived; `frame_size` is its size with type and length field, bytes.
    ///
    /// Errors: PROTOCOL_VIOLATION if it is larger than announced or none were announced (RFC 9221 section 3).
    /// Returns whether it was kept: `true` unless it alone is larger than the receive buffer.
    pub fn on_datagram(&mut self, data: &[u8], frame_size: usize) -> Result<bool, TransportError> {
        if frame_size as u64 > self.config.max_frame_size {
            return Err(TransportError::protocol_violation("a DATAGRAM frame larger than max_datagram_frame_size"));
        }
        let size = data.len() + OVERHEAD;
        while self.incoming_bytes + size > self.config.receive_buffer {
            match self.recv() {
                Some(_) => self.dropped_incoming += 1,
                None => {
                    self.dropped_incoming += 1;
                    return Ok(false);
                }
            }
        }
        self.incoming_bytes += size;
        if self.arena.capacity() < data.len() {
            self.arena.reserve(data.len().max(ARENA));
        }
        self.arena.extend_from_slice(data);
        self.incoming.push_back(self.arena.split().freeze());
        Ok(true)
    }

    /// Whether something waits to be sent.
    pub fn can_send(&self) -> bool {
        let is_common = self.turn.as_ref().is_none_or(|turn| turn.is_common);
        let admits = |path| self.turn.as_ref().is_none_or(|turn| turn.admits(path));
        is_common && !self.outgoing.is_empty() || self.pinned.iter().any(|pinned| admits(pinned.path))
    }

    /// Appends DATAGRAM frames, oldest first, until the next one does not fit below `limit` (a length of `buf`).
    /// Returns how many. One that could not even fit a packet of `full_room` bytes of frames (the path's packets
    /// shrank) is dropped rather than block the queue for good.
    pub fn write(&mut self, buf: &mut Vec<u8>, limit: usize, full_room: usize) -> usize {
        let mut written = if self.pinned.is_empty() { 0 } else { self.write_pinned(buf, limit, full_room) };
        if self.turn.as_ref().is_some_and(|turn| !turn.is_common) {
            return written;
        }
        while let Some(data) = self.outgoing.front() {
            let size = frame_of_payload(data.len());
            if size > limit.saturating_sub(buf.len()) {
                if size <= full_room {
                    break;
                }
                self.pop_outgoing();
                self.dropped_outgoing += 1;
                continue;
            }
            put(buf, data);
            if self.turn.is_some() {
                let data = data.clone();
                self.copy(&data);
            }
            self.pop_outgoing();
            written += 1;
        }
        written
    }

    /// The same of those that wait for one path.
    fn write_pinned(&mut self, buf: &mut Vec<u8>, limit: usize, full_room: usize) -> usize {
        let mut written = 0;
        for pinned in &mut self.pinned {
            if self.turn.as_ref().is_some_and(|turn| !turn.admits(pinned.path)) {
                continue;
            }
            while let Some((data, is_copy)) = pinned.queue.front() {
                let size = frame_of_payload(data.len());
                let fits = size <= limit.saturating_sub(buf.len());
                if !fits && size <= full_room {
                    break;
                }
                let bytes = if *is_copy { &mut self.copied_bytes } else { &mut self.outgoing_bytes };
                *bytes -= data.len() + OVERHEAD;
                if fits {
                    put(buf, data);
                    written += 1;
                } else {
                    self.dropped_outgoing += u64::from(!is_copy);
                }
                pinned.queue.pop_front();
            }
        }
        self.forget_empty();
        self.note_room();
        written
    }

    /// Whether room appeared since a `send` was refused; reports it once.
    pub fn poll_unblocked(&mut self) -> bool {
        std::mem::take(&mut self.unblocked)
    }

    /// Datagrams thrown away for lack of room: (outgoing, incoming).
    pub fn dropped(&self) -> (u64, u64) {
        (self.dropped_outgoing, self.dropped_incoming)
    }

    /// Bytes of payload and bookkeeping that could be queued before the send queue is full.
    pub fn send_room(&self) -> usize {
        self.config.send_buffer.saturating_sub(self.outgoing_bytes)
    }

    fn pop_outgoing(&mut self) {
        if let Some(data) = self.outgoing.pop_front() {
            self.outgoing_bytes -= data.len() + OVERHEAD;
            self.note_room();
        }
    }

    fn note_room(&mut self) {
        if self.send_blocked && self.outgoing_bytes <= self.config.send_buffer / 2 {
            self.send_blocked = false;
            self.unblocked = true;
        }
    }
}

/// Appends a DATAGRAM frame.
fn put(buf: &mut Vec<u8>, data: &Bytes) {
    buf.push(FRAME_WITH_LENGTH);
    varint::encode(data.len() as u64, buf);
    buf.extend_from_slice(data);
}

/// The size of a DATAGRAM frame with a length field.
fn frame_of_payload(len: usize) -> usize {
    1 + varint::len(len as u64) + len
}

/// The largest payload of a DATAGRAM frame of at most `frame` bytes.
fn payload_of_frame(frame: usize) -> usize {
    let mut len = frame.saturating_sub(2);
    while len > 0 && frame_of_payload(len) > frame {
        len -= 1;
    }
    len
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Datagrams, Datagrams) {
        let mut a = Datagrams::new(DatagramsConfig::default());
        let b = Datagrams::new(DatagramsConfig::default());
        a.set_peer_max_frame_size(Some(b.max_frame_size()));
        (a, b)
    }

    #[test]
    fn datagrams_arrive_whole_and_in_order() {
        let (mut a, mut b) = pair();
        for len in [0usize, 1, 63, 64, 1000] {
            a.send(Bytes::from(vec![len as u8; len]), 1200).unwrap();
        }
        let mut buf = Vec::new();
        assert_eq!(a.write(&mut buf, 1200, 1200), 5);
        assert!(!a.can_send());
        let mut rest = &buf[..];
        while !rest.is_empty() {
            assert_eq!(rest[0], 0x31);
            let before = rest.len();
            rest = &rest[1..];
            let len = varint::decode(&mut rest).unwrap() as usize;
            let (data, tail) = rest.split_at(len);
            rest = tail;
            assert!(b.on_datagram(data, before - rest.len()).unwrap());
        }
        for len in [0usize, 1, 63, 64, 1000] {
            assert_eq!(b.recv().unwrap().len(), len);
        }
        assert_eq!(b.recv(), None);
    }

    #[test]
    fn payload_limits_are_exact_around_the_steps_of_the_length_field() {
        for frame in 2..20_000 {
            let len = payload_of_frame(frame);
            assert!(frame_of_payload(len) <= frame);
            assert!(frame_of_payload(len + 1) > frame);
        }
        assert_eq!(payload_of_frame(0), 0);
    }

    #[test]
    fn sending_without_the_peers_consent_or_beyond_its_size_is_refused() {
        let mut a = Datagrams::new(DatagramsConfig::default());
        let data = Bytes::from_static(&[0; 100]);
        assert_eq!(a.send(data.clone(), 1200), Err(SendDatagramError::Unsupported));
        a.set_peer_max_frame_size(Some(50));
        assert_eq!(a.send(data.clone(), 1200), Err(SendDatagramError::TooLarge { max: 48 }));
        a.set_peer_max_frame_size(Some(65_535));
        assert_eq!(a.send(data, 90), Err(SendDatagramError::TooLarge { max: 87 }));
    }

    #[test]
    fn a_frame_larger_than_announced_is_a_protocol_violation() {
        let mut b = Datagrams::new(DatagramsConfig { max_frame_size: 10, ..DatagramsConfig::default() });
        assert!(b.on_datagram(&[0; 8], 10).is_ok());
        let error = b.on_datagram(&[0; 9], 11).unwrap_err();
        assert_eq!(error.code, crate::error::TransportErrorCode::PROTOCOL_VIOLATION);
        let mut off = Datagrams::new(DatagramsConfig { max_frame_size: 0, ..DatagramsConfig::default() });
        assert!(off.on_datagram(&[], 2).is_err());
    }

    #[test]
    fn a_full_send_queue_refuses_and_tells_when_there_is_room() {
        let (mut a, _) = pair();
        a.config.send_buffer = 1000;
        let data = Bytes::from_static(&[0; 168]);
        for _ in 0..5 {
            a.send(data.clone(), 1200).unwrap();
        }
        assert_eq!(a.send(data.clone(), 1200), Err(SendDatagramError::Blocked));
        assert!(!a.poll_unblocked());
        let mut buf = Vec::new();
        assert_eq!(a.write(&mut buf, 3 * 171, 1200), 3);
        assert!(a.poll_unblocked());
        assert!(!a.poll_unblocked());
    }

    #[test]
    fn a_full_send_queue_can_drop_the_oldest() {
        let (mut a, _) = pair();
        a.config.send_buffer = 1000;
        a.config.when_full = WhenFull::DropOldest;
        for n in 0..10u8 {
            a.send(Bytes::from(vec![n; 168]), 1200).unwrap();
        }
        let mut buf = Vec::new();
        assert_eq!(a.write(&mut buf, 1200, 1200), 5);
        assert_eq!(buf[3], 5);
        assert_eq!(a.dropped(), (5, 0));
    }

    #[test]
    fn the_receive_queue_is_bounded_and_keeps_the_newest() {
        let (_, mut b) = pair();
        b.config.receive_buffer = 1000;
        for n in 0..100u8 {
            assert!(b.on_datagram(&[n; 68], 70).unwrap());
        }
        assert_eq!(b.recv().unwrap()[0], 90);
        assert_eq!(b.dropped(), (0, 90));
        assert!(!b.on_datagram(&[0; 2000], 2003).unwrap());
    }

    #[test]
    fn one_too_large_for_a_shrunken_path_is_dropped_instead_of_blocking_the_rest() {
        let (mut a, _) = pair();
        a.send(Bytes::from(vec![1; 1400]), 1452).unwrap();
        a.send(Bytes::from(vec![2; 100]), 1452).unwrap();
        let mut buf = Vec::new();
        assert_eq!(a.write(&mut buf, 1200, 1200), 1);
        assert_eq!(buf[3], 2);
        assert_eq!(a.dropped().0, 1);
    }
}
