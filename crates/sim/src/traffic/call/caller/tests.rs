use std::collections::{BTreeMap, VecDeque};

use super::*;
use crate::traffic::{Audio, Video};

/// Streams and datagrams between two ends: what one writes, the other can read at once.
#[derive(Default)]
struct Wire {
    streams: BTreeMap<u64, Stream>,
    datagrams: VecDeque<Bytes>,
    opened: u64,
    accepted: u64,
    /// Streams that the receiver allows, and bytes that each stream takes in one write.
    limit: u64,
    room: usize,
}

#[derive(Default)]
struct Stream {
    data: VecDeque<u8>,
    is_finished: bool,
    is_finished_back: bool,
    is_stopped: bool,
    priority: u8,
    /// Bytes ever written.
    written: usize,
}

/// An end of it.
struct View<'a>(&'a mut Wire, bool);

impl Transport for View<'_> {
    fn is_ready(&self) -> bool {
        true
    }
    fn open(&mut self) -> Option<u64> {
        let id = self.0.opened;
        (id < self.0.limit).then(|| {
            self.0.opened += 1;
            self.0.streams.insert(id, Stream::default());
            id
        })
    }
    fn accept(&mut self) -> Option<u64> {
        let id = self.0.accepted;
        (id < self.0.opened).then(|| {
            self.0.accepted += 1;
            id
        })
    }
    fn write(&mut self, id: u64, data: &mut Bytes) -> usize {
        let room = self.0.room;
        let Some(stream) = self.0.streams.get_mut(&id).filter(|stream| !stream.is_stopped) else { return 0 };
        let taken = data.split_to(data.len().min(room.saturating_sub(stream.data.len())));
        stream.data.extend(&taken);
        stream.written += taken.len();
        taken.len()
    }
    fn finish(&mut self, id: u64) {
        if let Some(stream) = self.0.streams.get_mut(&id) {
            *(if self.1 { &mut stream.is_finished } else { &mut stream.is_finished_back }) = true;
        }
    }
    fn read(&mut self, id: u64, take: &mut dyn FnMut(&[u8])) -> bool {
        let Some(stream) = self.0.streams.get_mut(&id) else { return false };
        if self.1 {
            return stream.is_finished_back;
        }
        // In pieces that fit no frame.
        let data: Vec<u8> = stream.data.drain(..).collect();
        data.chunks(11).for_each(take);
        stream.is_finished
    }
    fn max_datagram(&self) -> Option<usize> {
        Some(1_200)
    }
    fn send_datagram(&mut self, data: Bytes) -> bool {
        self.0.datagrams.push_back(data);
        true
    }
    fn recv_datagram(&mut self) -> Option<Bytes> {
        self.0.datagrams.pop_front()
    }
    fn set_priority(&mut self, id: u64, priority: u8) {
        self.0.streams.get_mut(&id).unwrap().priority = priority;
    }
    fn stop(&mut self, id: u64) {
        let stream = self.0.streams.get_mut(&id).unwrap();
        stream.is_stopped = true;
        stream.data.clear();
    }
    fn is_stopped(&mut self, id: u64) -> bool {
        self.0.streams[&id].is_stopped
    }
}

const MS: Duration = Duration::from_millis(1);

/// A call of two seconds, ten frames per second in groups of five, the second track canceled when it is 250 ms late.
fn short() -> Call {
    let kept = Video { fps: 10, key: 400, delta: 40, group: 5, cancel_after: None };
    let video = vec![kept, Video { key: 600, delta: 60, cancel_after: Some(MS * 250), ..kept }];
    Call { audio: Audio { size: 17, every: MS * 200 }, video, ..Call::new(true, MS * 2_000) }
}

/// Both ends, and the times at which each is polled.
struct Ends {
    wire: Wire,
    sender: Sender,
    receiver: Receiver,
    meters: [Meter; 2],
}

impl Ends {
    fn new(call: &Call) -> Ends {
        let meter = || Meter::new(start(), Duration::ZERO);
        Ends {
            wire: Wire { limit: u64::MAX, room: usize::MAX, ..Wire::default() },
            sender: Sender::new(call),
            receiver: Receiver::new(call),
            meters: [meter(), meter()],
        }
    }

    fn send(&mut self, at: u32) {
        self.sender.poll(start() + MS * at, &mut View(&mut self.wire, true), &mut self.meters[0]);
    }

    fn receive(&mut self, at: u32) {
        self.receiver.poll(start() + MS * at, &mut View(&mut self.wire, false), &mut self.meters[1]);
    }

    /// Frames of a track that arrived.
    fn arrived(&self, call: &Call, track: usize) -> u64 {
        let [sender, receiver] = [&self.meters[0].call, &self.meters[1].call];
        let outcome = super::super::outcome::Outcome { call, sender, receiver, start: start(), window: None };
        outcome.tracks()[track].arrived
    }
}

fn start() -> Instant {
    Instant::ZERO + MS * 1_000
}

#[test]
fn every_group_has_a_stream_and_the_tracks_their_priorities() {
    let call = short();
    let mut ends = Ends::new(&call);
    for at in (0..2_000).step_by(100) {
        ends.send(at);
        ends.receive(at + 30);
    }
    assert_eq!([0, 1, 2].map(|track| ends.arrived(&call, track)), [10, 20, 20]);
    let priorities: Vec<u8> = ends.wire.streams.values().map(|stream| stream.priority).collect();
    assert_eq!(priorities, [1, 2, 1, 2, 1, 2, 1, 2]);
    let written: Vec<usize> = ends.wire.streams.values().map(|stream| stream.written).collect();
    assert_eq!(written[..2], [400 + 4 * 40, 600 + 4 * 60]);
    // The sender learns that the receiver has everything.
    assert!(!ends.sender.is_done());
    ends.send(2_000);
    assert!(ends.sender.is_done() && ends.receiver.left == 0 && ends.receiver.streams.is_empty());
    assert_eq!(ends.meters[1].bytes(), call.bytes());
}

#[test]
fn a_group_whose_frames_are_late_is_canceled_and_the_next_one_begins_anew() {
    let call = short();
    let mut ends = Ends::new(&call);
    ends.send(0);
    ends.receive(250);
    assert!(ends.wire.streams.values().all(|stream| !stream.is_stopped), "250 ms are not later than 250 ms");
    ends.send(100);
    ends.receive(351);
    let stopped: Vec<bool> = ends.wire.streams.values().map(|stream| stream.is_stopped).collect();
    assert_eq!(stopped, [false, true], "only the track that may be canceled");
    assert_eq!((ends.receiver.streams.len(), ends.receiver.left), (1, 7));
    let before = ends.wire.streams[&1].written;
    for at in [360, 400] {
        ends.send(at);
        ends.receive(at + 10);
    }
    assert_eq!(ends.wire.streams[&1].written, before, "nothing more of the group is sent");
    assert_eq!(ends.sender.groups.len(), 1, "the sender has forgotten it");
    for at in (500..2_000).step_by(100) {
        ends.send(at);
        ends.receive(at + 10);
    }
    ends.send(2_000);
    // The frame that was late arrived; of the group three are missing.
    assert_eq!([0, 1, 2].map(|track| ends.arrived(&call, track)), [10, 20, 17]);
    assert!(ends.sender.is_done() && ends.receiver.left == 0 && ends.wire.streams.len() == 8);
}

#[test]
fn the_last_frame_of_a_group_may_be_late() {
    let call = short();
    let mut ends = Ends::new(&call);
    for at in (0..400).step_by(100) {
        ends.send(at);
        ends.receive(at + 10);
    }
    ends.send(400);
    ends.receive(800);
    assert!(ends.wire.streams.values().all(|stream| !stream.is_stopped));
    assert_eq!(ends.arrived(&call, 2), 5);
}

#[test]
fn frames_wait_for_streams_and_for_room() {
    let call = short();
    let mut ends = Ends::new(&call);
    (ends.wire.limit, ends.wire.room) = (0, 7);
    ends.send(0);
    assert!(ends.wire.streams.is_empty() && ends.sender.groups.len() == 2);
    assert_eq!(ends.wire.datagrams.len(), 1, "audio does not wait");
    ends.wire.limit = u64::MAX;
    for at in 1..60 {
        ends.send(at);
        ends.receive(at);
    }
    assert_eq!((ends.arrived(&call, 1), ends.arrived(&call, 2)), (1, 0));
    for at in 60..120 {
        ends.send(at);
        ends.receive(at);
    }
    assert_eq!((ends.arrived(&call, 1), ends.arrived(&call, 2)), (2, 2));
}

#[test]
fn a_frame_may_be_nothing_but_its_head() {
    let video = Video { fps: 10, key: 17, delta: 17, group: 3, cancel_after: None };
    let call = Call { video: vec![video], ..short() };
    let mut ends = Ends::new(&call);
    for at in (0..=2_000).step_by(100) {
        ends.send(at);
        ends.receive(at);
    }
    assert_eq!((ends.arrived(&call, 1), ends.receiver.left), (20, 0));
}

#[test]
fn heads_are_read_as_they_were_written() {
    let head = Head { track: 8, number: 3_599_999, size: 16 << 20, captured: Instant::from_nanos(u64::MAX - 1) };
    let mut bytes = Vec::new();
    head.write(&mut bytes);
    assert_eq!(bytes.len(), FRAME_HEAD);
    assert_eq!(Head::read(bytes.first_chunk().unwrap()), head);
}

#[test]
fn a_client_waits_for_what_is_due_and_not_for_ever() {
    let call = short();
    let (mut wire, mut meter) =
        (Wire { limit: u64::MAX, room: usize::MAX, ..Wire::default() }, Meter::new(start(), MS));
    let mut client = Caller::client(&call);
    assert_eq!(client.wakeup(), None);
    let mut poll = |client: &mut Caller, at: u32| {
        client.poll(start() + MS * at, &mut View(&mut wire, true), &mut meter);
        (client.wakeup().map(|at| at - start()), client.is_finished())
    };
    assert_eq!(poll(&mut client, 0), (Some(MS * 100), false));
    // Nobody reads: it gives up ten seconds after the last frame was due.
    assert_eq!(poll(&mut client, 1_950), (Some(MS * 3_000), false));
    assert_eq!(poll(&mut client, 3_000), (Some(MS * 12_000), false));
    assert_eq!(poll(&mut client, 12_000), (None, true));
}
