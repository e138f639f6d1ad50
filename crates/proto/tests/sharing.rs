//! Several transfers over several paths, what a scheduler is told of them, and how soon a further path can be opened.
#![allow(clippy::unwrap_used)]

use crate::{
    harness::{Pump, Setup, World, pattern, watch},
    multipath::{LIMIT, opened, setup},
};

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use thalweg_proto::{
    Candidate, ConnectionHandle, MultipathConfig, Order, PathScheduler, SchedulerFactory, SchedulerPolicy, Side,
    TransportConfig, Waiting,
    observe::{FrameInfo, ObserverEvent, PacketKind},
    streams::{Dir, StreamId},
};
use thalweg_units::Instant;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn the_first_packet_after_the_handshake_lets_the_client_open_paths() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let shared = log.clone();
    let observer = watch(move |side, _, event| {
        if let ObserverEvent::PacketSent(packet) = event
            && (side, packet.kind) == (Side::Server, PacketKind::OneRtt)
        {
            shared.lock().unwrap().push((packet.size, packet.frames.to_vec()));
        }
    });
    let mut world = World::new(Setup { observer: Some(observer), ..setup() });
    let handle = world.handshake();
    world.transfer(handle, true, 50_000, LIMIT).unwrap();
    let log = log.lock().unwrap();
    let (size, frames) = &log[0];
    assert!(frames.contains(&FrameInfo::HandshakeDone), "{frames:?}");
    let first_of = |wanted| {
        let is_it = |frame: &FrameInfo| matches!(frame, FrameInfo::PathNewConnectionId { path, sequence: 0, .. } if *path == wanted);
        frames.iter().any(is_it)
    };
    assert!((1..=3).all(first_of), "{frames:?}");
    assert!(frames.len() == 4 && *size < 200, "{size} bytes of {frames:?}");
    let done = |frames: &[FrameInfo]| frames.contains(&FrameInfo::HandshakeDone);
    assert_eq!(log.iter().filter(|(_, frames)| done(frames)).count(), 1, "it was sent again, and nothing was lost");
}

#[test]
fn two_downloads_at_once_take_both_paths_and_arrive_whole() {
    let (mut world, handle) = opened(setup());
    let started = world.now;
    let open = |world: &mut World| world.client_conn(handle).streams().open(Dir::Bi).unwrap();
    let mut pumps = [2_000_000, 1_000_000].map(|len| Pump::new(open(&mut world), true, len));
    let mut took = [None; 2];
    let all_arrived = |world: &mut World| {
        for (pump, took) in pumps.iter_mut().zip(&mut took) {
            if took.is_none() && pump.poke(world, handle) {
                *took = Some(world.now.saturating_since(started));
            }
        }
        took.iter().all(Option::is_some)
    };
    assert!(world.run_until(LIMIT, all_arrived), "{:?}", pumps.map(|pump| pump.read()));
    // 3 MB at 20 Mbps take 1.2 s and headers. The smaller one has half of the rate until it ends.
    let [larger, smaller] = took.map(Option::unwrap);
    assert!(larger < ms(1_450) && smaller < ms(1_050) && smaller < larger, "{larger:?}, {smaller:?}");
    let sent: Vec<u64> = world.server_conn().paths().map(|path| path.stats.bytes_sent).collect();
    assert!(sent.len() == 2 && sent.iter().all(|bytes| *bytes > 1_200_000), "{sent:?}");
}

/// Sends on all paths, and keeps what it is told.
#[derive(Clone, Debug, Default)]
struct Told(Arc<Mutex<Vec<Waiting>>>);

impl PathScheduler for Told {
    fn order(&mut self, _: Instant, waiting: Waiting, candidates: &[Candidate], order: &mut Order) {
        self.0.lock().unwrap().push(waiting);
        order.extend(candidates.iter().map(|path| path.id));
    }
}

impl SchedulerFactory for Told {
    fn build(&self) -> Box<dyn PathScheduler> {
        Box::new(self.clone())
    }
}

/// Writes the bytes of a test stream from an offset on.
fn write(world: &mut World, handle: ConnectionHandle, stream: StreamId, from: u64, len: u64) {
    let mut data: Bytes = (from..from + len).map(pattern).collect::<Vec<u8>>().into();
    while !data.is_empty() {
        assert!(world.client_conn(handle).streams().write_chunk(stream, &mut data).unwrap() > 0);
    }
}

#[test]
fn a_scheduler_is_told_how_much_waits_and_whether_more_may_come() {
    let told = Told::default();
    let scheduler = SchedulerPolicy::Custom(Arc::new(told.clone()));
    let client = TransportConfig {
        multipath: Some(MultipathConfig { scheduler, ..MultipathConfig::default() }),
        ..setup().client
    };
    let (mut world, handle) = opened(Setup { client, ..setup() });
    let [ended, left_open] = [(); 2].map(|()| world.client_conn(handle).streams().open(Dir::Bi).unwrap());
    write(&mut world, handle, ended, 0, 200_000);
    world.client_conn(handle).streams().finish(ended).unwrap();
    write(&mut world, handle, left_open, 0, 200_000);
    told.0.lock().unwrap().clear();
    world.pump();
    world.run_for(ms(400));
    {
        let told = told.0.lock().unwrap();
        assert!(told.iter().all(|waiting| !waiting.is_all), "one stream has not ended");
        let (first, last) = (told.first().unwrap().bytes, told.last().unwrap().bytes);
        assert!((300_000..=400_000).contains(&first) && last == 0, "{first} at first, {last} at last");
    }
    // With a datagram in the queue the ends of the streams are not the end.
    write(&mut world, handle, left_open, 200_000, 100_000);
    world.client_conn(handle).streams().finish(left_open).unwrap();
    told.0.lock().unwrap().clear();
    world.client_conn(handle).datagrams().send(Bytes::from_static(b"news"), 1_000).unwrap();
    world.pump();
    world.run_for(ms(400));
    let told = told.0.lock().unwrap();
    let later = told.iter().skip_while(|waiting| !waiting.is_all).find(|waiting| waiting.bytes < 50_000);
    assert!(!told[0].is_all && later.is_some_and(|waiting| waiting.is_all), "{told:?}");
}
