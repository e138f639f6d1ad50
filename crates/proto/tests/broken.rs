//! A path that breaks beside another: what was acknowledged by it last, and whether it carries data until it answers.
#![allow(clippy::unwrap_used)]

use crate::{
    harness::{Link, Pump, Setup, World, watch},
    multipath::{LIMIT, SECOND, opened, setup},
};

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use thalweg_proto::{
    ConnectionHandle, Side,
    observe::{FrameInfo, ObserverEvent, PacketInfo},
    streams::Dir,
};

const LEN: u64 = 1_000_000;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// 1 Mbps, 10 ms each way, and a queue of 100 ms.
fn slow() -> Link {
    Link { rate: 125_000, queue: 12_500, ..Link::new(ms(10)) }
}

/// 10 Mbps, 10 ms each way, and a queue of 20 ms.
fn fast() -> Link {
    Link { rate: 1_250_000, queue: 25_000, ..Link::new(ms(10)) }
}

fn dead() -> Link {
    Link { meddle: Box::new(|_, _| Vec::new()), ..fast() }
}

/// What is of interest about a packet: whether it was received, by whom or from whom, on which path, and its frames.
type Log = Arc<Mutex<Vec<(bool, Side, u32, Vec<FrameInfo>)>>>;

/// A download over a slow path and a fast one. The latter is dead from one time on, and alive again from another.
struct Download {
    world: World,
    handle: ConnectionHandle,
    pump: Pump,
    log: Log,
}

impl Download {
    fn new() -> Download {
        Download::of(16 << 20)
    }

    /// With so many bytes of credit for the stream.
    fn of(credit: u64) -> Download {
        let log = Log::default();
        let shared = log.clone();
        let observer = watch(move |side, _, event| {
            let push = |is_received, packet: &PacketInfo<'_>| {
                shared.lock().unwrap().push((is_received, side, packet.path.0, packet.frames.to_vec()));
            };
            match event {
                ObserverEvent::PacketSent(packet) => push(false, packet),
                ObserverEvent::PacketReceived(packet) => push(true, packet),
                _ => {}
            }
        });
        let mut setup = Setup { link: slow(), observer: Some(observer), ..setup() };
        setup.client.streams.stream_receive_window = credit;
        setup.client.streams.max_stream_receive_window = credit;
        let (mut world, handle) = opened(setup);
        world.second = Some((SECOND, fast()));
        let stream = world.client_conn(handle).streams().open(Dir::Bi).unwrap();
        Download { world, handle, pump: Pump::new(stream, true, LEN), log }
    }

    /// Goes on for a while with the fast path as given. Returns whether all has arrived.
    fn go_on(&mut self, fast: Link, for_time: Duration) -> bool {
        self.world.second = Some((SECOND, fast));
        let (pump, handle) = (&mut self.pump, self.handle);
        self.world.run_until(for_time, |world| pump.poke(world, handle))
    }

    /// Takes what has been logged.
    fn take_log(&self) -> Vec<(bool, Side, u32, Vec<FrameInfo>)> {
        std::mem::take(&mut *self.log.lock().unwrap())
    }
}

/// Bytes of streams in packets.
fn stream_bytes(frames: &[FrameInfo]) -> u64 {
    let len = |frame: &FrameInfo| if let FrameInfo::Stream { len, .. } = frame { u64::from(*len) } else { 0 };
    frames.iter().map(len).sum()
}

/// The path identifiers of acknowledgments.
fn acks(frames: &[FrameInfo]) -> impl Iterator<Item = u64> {
    let path = |frame: &FrameInfo| if let FrameInfo::Ack { path, .. } = frame { *path } else { None };
    frames.iter().filter_map(path)
}

#[test]
fn the_last_acknowledgments_of_a_path_that_breaks_leave_once_more_by_another() {
    for at in [300, 330, 360, 390] {
        let mut download = Download::new();
        assert!(!download.go_on(fast(), ms(at)));
        let before = download.take_log();
        assert!(download.go_on(dead(), LIMIT), "at {at} ms: {:?}", download.world.client_error());
        let after = download.take_log();
        let by_other = after.iter().filter(|(is_received, side, path, frames)| {
            !is_received && (*side, *path) == (Side::Client, 0) && acks(frames).any(|path| path == 1)
        });
        assert_eq!(by_other.count(), 1, "at {at} ms");
        let received =
            before.iter().chain(&after).filter(|(is_received, side, ..)| *is_received && *side == Side::Client);
        let bytes: u64 = received.map(|(.., frames)| stream_bytes(frames)).sum();
        // In half of a round trip of the fast path come 17 packets; those that are sent again before the
        // acknowledgment is there are few.
        assert!(bytes <= LEN + 6 * 1_452, "at {at} ms: {} bytes twice", bytes - LEN);
    }
}

#[test]
fn what_another_path_acknowledges_does_not_bring_data_back_to_one_that_does_not_answer() {
    let mut download = Download::new();
    assert!(!download.go_on(fast(), ms(300)));
    download.take_log();
    assert!(!download.go_on(dead(), ms(900)));
    let is_data = |(is_received, side, path, frames): &(bool, Side, u32, Vec<FrameInfo>)| {
        !is_received && (*side, *path) == (Side::Server, 1) && stream_bytes(frames) > 0
    };
    let log = download.take_log();
    let is_by_other = |(is_received, side, path, frames): &(bool, Side, u32, Vec<FrameInfo>)| {
        *is_received && (*side, *path) == (Side::Server, 0) && acks(frames).any(|path| path == 1)
    };
    let acknowledged = log.iter().position(is_by_other).unwrap();
    let on_dead = log[acknowledged..].iter().filter(|packet| is_data(packet)).count();
    assert_eq!(on_dead, 0, "packets with data on the dead path");
    // It answers again, and carries most of what is left.
    let started = download.world.now;
    assert!(download.go_on(fast(), LIMIT));
    let took = download.world.now.saturating_since(started);
    let on_fast = download.take_log().iter().filter(|packet| is_data(packet)).count();
    assert!(on_fast > 250 && took < ms(2_000), "{on_fast} packets in {took:?}");
}

#[test]
fn a_path_that_pauses_for_a_moment_goes_on_at_once() {
    let took = |pause| {
        let mut download = Download::new();
        let started = download.world.now;
        assert!(!download.go_on(fast(), ms(300)));
        // Packets of the pause arrive at its end, or soon after.
        assert!(!download.go_on(Link { delay: ms(10 + pause), ..fast() }, ms(pause)));
        assert!(download.go_on(fast(), LIMIT), "{:?}", download.world.client_error());
        download.world.now.saturating_since(started)
    };
    let without = took(0);
    for pause in [20, 40, 60, 90, 150] {
        let with = took(pause);
        assert!(with <= without + ms(pause + 50), "a pause of {pause} ms: {with:?} instead of {without:?}");
    }
}

/// The client asks for credit on the fast path all the time, and some of the answers get lost.
#[test]
fn an_answer_that_got_lost_sends_no_acknowledgments_of_a_path_by_which_data_come_over_a_slower_one() {
    let mut download = Download::of(256 << 10);
    assert!(!download.go_on(fast(), ms(300)));
    download.take_log();
    let without_answers = Link {
        meddle: Box::new(|packet, _| match packet.is_from_client() || packet.bytes.len() > 300 {
            true => vec![(Duration::ZERO, packet)],
            false => Vec::new(),
        }),
        ..fast()
    };
    assert!(!download.go_on(without_answers, ms(140)));
    let log = download.take_log();
    let of_client = |side: &Side, is_received: &bool| *side == Side::Client && !is_received;
    let is_probe = |frames: &[FrameInfo]| frames.iter().any(|frame| matches!(frame, FrameInfo::Ping));
    let probes = log.iter().filter(|(got, side, path, frames)| of_client(side, got) && *path == 1 && is_probe(frames));
    assert!(probes.count() > 0, "no probe timeout");
    let by_other = log
        .iter()
        .filter(|(got, side, path, frames)| of_client(side, got) && *path == 0 && acks(frames).any(|path| path == 1));
    assert_eq!(by_other.count(), 0);
}
