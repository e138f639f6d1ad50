//! Datagrams overtaken by the frames that issue and retire connection IDs (RFC 9000 sections 5.1.2 and 10.3).
#![allow(clippy::unwrap_used)]

use crate::harness;

use std::{
    cell::RefCell,
    collections::{BTreeMap, VecDeque},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    rc::Rc,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use harness::{Link, Packet, Setup, World, alloc, watch};
use rand_core::Rng;
use thalweg_proto::{
    ConnectionHandle, Side,
    observe::{FrameInfo, ObserverEvent},
    streams::{Dir, StreamId},
};
use thalweg_units::Instant;

const ZERO: Duration = Duration::ZERO;
const SECOND: Duration = Duration::from_secs(1);
const ONE_WAY: Duration = Duration::from_millis(20);
/// The least that three probe timeouts can be with a round trip of 40 ms: each is that and 1 ms for variation, if the
/// peer was asked to hold no acknowledgment back.
const THREE_PTOS: Duration = Duration::from_millis(123);
const ELSEWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 7, 7)), 7777);

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A datagram of one end, by the number of those that the end sent before.
type Place = (Side, u64);

/// What the link has seen.
#[derive(Default)]
struct Log {
    /// When each datagram left.
    left: BTreeMap<Place, Instant>,
    /// Which of them have frames about connection IDs.
    marked: Vec<Place>,
    /// Which of them retire one.
    retiring: Vec<Place>,
    /// Datagrams with a short header that no connection sent.
    resets: u64,
}

/// A packet that has left a connection and not yet come to the link.
struct Leaving {
    /// Whether it has frames about connection IDs.
    is_marked: bool,
    /// Whether it retires one.
    retires: bool,
    at: Instant,
}

/// A world whose link delays each datagram by what `plan` says, and notes what it sees.
fn world(seed: u64, plan: impl Fn(&Packet, Instant, &mut dyn Rng) -> Duration + 'static) -> (World, Rc<RefCell<Log>>) {
    let leaving: Arc<Mutex<[VecDeque<Leaving>; 2]>> = Arc::default();
    let packets = leaving.clone();
    let observer = watch(move |side, now, event| {
        if let ObserverEvent::PacketSent(packet) = event {
            let issues = packet.frames.iter().any(|frame| matches!(frame, FrameInfo::NewConnectionId { .. }));
            let retires = packet.frames.iter().any(|frame| matches!(frame, FrameInfo::RetireConnectionId { .. }));
            packets.lock().unwrap()[side as usize].push_back(Leaving {
                is_marked: issues || retires,
                retires,
                at: now,
            });
        }
    });
    let log: Rc<RefCell<Log>> = Rc::default();
    let seen = log.clone();
    let meddle = move |packet: Packet, rng: &mut rand_chacha::ChaCha8Rng| {
        let side = if packet.is_from_client() { Side::Client } else { Side::Server };
        let place = (side, packet.ordinal);
        let mut log = seen.borrow_mut();
        let mut leaving = leaving.lock().unwrap();
        let mut at = None;
        for _ in harness::wire::parse(&packet.bytes) {
            let Some(packet) = leaving[side as usize].pop_front() else { continue };
            at = Some(packet.at);
            if packet.is_marked {
                log.marked.push(place);
            }
            if packet.retires {
                log.retiring.push(place);
            }
        }
        let Some(at) = at else {
            log.resets += 1;
            return vec![(ZERO, packet)];
        };
        log.left.insert(place, at);
        vec![(plan(&packet, at, rng), packet)]
    };
    let link = Link { meddle: Box::new(meddle), ..Link::new(ONE_WAY) };
    (World::new(Setup { seed, link, observer: Some(observer), ..Setup::default() }), log)
}

/// A stream that both ends write to, a little every 10 ms.
struct Chat {
    handle: ConnectionHandle,
    stream: StreamId,
    written: u64,
    /// What arrived at the client and at the server.
    read: [u64; 2],
}

impl Chat {
    const WORDS: [u8; 300] = [7; 300];

    fn begin(world: &mut World) -> Chat {
        let handle = world.handshake();
        let stream = world.client_conn(handle).streams().open(Dir::Bi).unwrap();
        Chat { handle, stream, written: 0, read: [0; 2] }
    }

    fn go_on(&mut self, world: &mut World, span: Duration) {
        let end = world.now + span;
        while world.now < end {
            self.written += Chat::WORDS.len() as u64;
            // A connection that is gone shows in what does not arrive.
            if let Some(client) = world.client.connections.get_mut(&self.handle) {
                let _ = client.streams().write(self.stream, &Chat::WORDS);
            }
            if let Some(server) = world.server.connections.values_mut().next_back() {
                while server.streams().accept(Dir::Bi).is_some() {}
                let _ = server.streams().write(self.stream, &Chat::WORDS);
            }
            world.pump();
            world.run_for(ms(10));
            self.read(world);
        }
    }

    fn read(&mut self, world: &mut World) {
        let client = world.client.connections.get_mut(&self.handle);
        let server = world.server.connections.values_mut().next_back();
        for (read, connection) in self.read.iter_mut().zip([client, server]) {
            let Some(connection) = connection else { continue };
            while let Ok(Some(bytes)) = connection.streams().read(self.stream, 1 << 20) {
                *read += bytes.len() as u64;
            }
        }
    }

    #[track_caller]
    fn assert_all_arrived(&mut self, world: &mut World, what: &dyn std::fmt::Debug) {
        world.run_for(2 * SECOND);
        self.read(world);
        let errors = (world.client_error(), world.server_error());
        assert_eq!(errors, (None, None), "{what:?}");
        // The server could write as soon as the stream had reached it.
        assert_eq!(self.read[1], self.written, "{what:?}");
        assert!(self.read[0] + 20 * Chat::WORDS.len() as u64 > self.written, "{what:?}: {:?}", self.read);
    }
}

/// The client takes another connection ID and retires the one it had. The path is the same, so that the two meet.
fn rotate(world: &mut World, handle: ConnectionHandle) {
    let now = world.now;
    if let Some(client) = world.client.connections.get_mut(&handle) {
        client.local_address_changed(now, Some(world.client.address.ip()));
    }
    world.pump();
}

/// A connection in which both ends issue and retire IDs, over a link that delays some datagrams. The client rotates its
/// ID, then it moves, so that the server does.
fn life(delays: BTreeMap<Place, Duration>) -> Log {
    let what = delays.clone();
    let (mut world, log) = world(1, move |packet, _, _| {
        let side = if packet.is_from_client() { Side::Client } else { Side::Server };
        delays.get(&(side, packet.ordinal)).copied().unwrap_or_default()
    });
    let mut chat = Chat::begin(&mut world);
    chat.go_on(&mut world, ms(200));
    rotate(&mut world, chat.handle);
    chat.go_on(&mut world, ms(400));
    let old = std::mem::replace(&mut world.client.address, ELSEWHERE);
    world.client.former.push(old);
    rotate(&mut world, chat.handle);
    chat.go_on(&mut world, ms(400));
    chat.assert_all_arrived(&mut world, &what);
    drop(world);
    Rc::into_inner(log).unwrap().into_inner()
}

/// All orders of `items`.
fn orders(items: &[Place]) -> Vec<Vec<Place>> {
    if items.is_empty() {
        return vec![vec![]];
    }
    let mut all = Vec::new();
    for (index, first) in items.iter().enumerate() {
        let rest = [&items[..index], &items[index + 1..]].concat();
        all.extend(orders(&rest).into_iter().map(|order| [&[*first][..], &order].concat()));
    }
    all
}

/// The delays with which datagrams arrive in this order, `step` after each other, when the last has left.
fn in_order(log: &Log, order: &[Place], step: Duration) -> BTreeMap<Place, Duration> {
    let last = order.iter().map(|place| log.left[place]).max().unwrap();
    let places = order.iter().zip(0u32..);
    places.map(|(place, rank)| (*place, last.saturating_since(log.left[place]) + step * rank)).collect()
}

#[test]
fn a_connection_survives_every_order_of_the_datagrams_around_frames_about_connection_ids() {
    let calm = life(BTreeMap::new());
    assert_eq!(calm.resets, 0);
    for side in [Side::Client, Side::Server] {
        assert!(calm.marked.iter().filter(|place| place.0 == side).count() >= 3, "{:?}", calm.marked);
    }
    for &(side, ordinal) in &calm.marked {
        // With it leave others of the same instant, which belong to what comes after it.
        let at = calm.left[&(side, ordinal)];
        let earlier = (0..ordinal).rev().filter(|ordinal| calm.left[&(side, *ordinal)] < at).take(2);
        let around: Vec<Place> = earlier.chain([ordinal, ordinal + 1]).map(|ordinal| (side, ordinal)).collect();
        for order in orders(&around) {
            for step in [ms(1), (THREE_PTOS - ms(1)) / 3] {
                assert_eq!(life(in_order(&calm, &order, step)).resets, 0, "{side:?}: {order:?} by {step:?}");
            }
        }
    }
}

#[test]
fn a_datagram_that_a_retirement_overtakes_by_less_than_three_probe_timeouts_is_not_answered_with_a_reset() {
    let calm = life(BTreeMap::new());
    assert!(calm.retiring.len() >= 3, "{:?}", calm.retiring);
    for &(side, ordinal) in &calm.retiring {
        for place in (ordinal.saturating_sub(12)..ordinal).map(|ordinal| (side, ordinal)) {
            if (place.1..ordinal).any(|other| calm.retiring.contains(&(side, other))) {
                continue;
            }
            for late in [ms(1), ms(20), THREE_PTOS - ms(1)] {
                let gap = calm.left[&(side, ordinal)].saturating_since(calm.left[&place]);
                assert_eq!(life([(place, gap + late)].into()).resets, 0, "{place:?} {late:?} after {ordinal}");
            }
        }
    }
}

#[test]
fn ids_rotated_all_the_time_over_a_link_that_reorders_cost_no_connection() {
    for seed in 0..20 {
        let (mut world, log) = world(seed, |_, _, rng| match rng.next_u32() % 4 {
            0 => Duration::from_micros(u64::from(rng.next_u32() % 100_000)),
            _ => ZERO,
        });
        let mut chat = Chat::begin(&mut world);
        for _ in 0..30 {
            chat.go_on(&mut world, ms(20 + seed * 5));
            rotate(&mut world, chat.handle);
        }
        chat.assert_all_arrived(&mut world, &seed);
        assert_eq!(log.borrow().resets, 0, "seed {seed}");
    }
}

/// The last datagram of the client to an ID that it has retired since, and the world an instant after the retirement
/// has arrived at the server.
fn overtaken() -> (World, Rc<RefCell<Log>>, Packet) {
    let last: Rc<RefCell<Option<Packet>>> = Rc::default();
    let seen = last.clone();
    let (mut world, log) = world(1, move |packet, _, _| {
        if packet.is_from_client() {
            *seen.borrow_mut() = Some(packet.clone());
        }
        ZERO
    });
    let handle = world.handshake();
    assert!(world.transfer(handle, true, 1000, SECOND).is_some());
    world.run_for(SECOND);
    let packet = last.borrow().clone().unwrap();
    rotate(&mut world, handle);
    world.run_for(ONE_WAY + ms(1));
    (world, log, packet)
}

#[test]
fn a_retired_id_is_forgotten_after_three_probe_timeouts() {
    let (mut world, log, late) = overtaken();
    world.run_for(THREE_PTOS - ms(2));
    world.deliver(late.clone());
    assert_eq!(log.borrow().resets, 0);
    world.run_for(SECOND);
    // The first datagram after that time brings the news.
    let handle = *world.client.connections.keys().next().unwrap();
    assert!(world.transfer(handle, true, 1000, SECOND).is_some());
    world.deliver(late);
    assert_eq!(log.borrow().resets, 1);
    // RFC 9000 section 10.3.1: the token of a retired ID MUST NOT be checked.
    assert!(world.transfer(handle, true, 1000, SECOND).is_some());
    assert_eq!((world.client_error(), world.server_error()), (None, None));
}

#[test]
fn a_retired_id_leads_to_a_connection_that_is_being_closed() {
    for by_client in [true, false] {
        let (mut world, log, late) = overtaken();
        let handle = *world.client.connections.keys().next().unwrap();
        let now = world.now;
        let end = if by_client { world.client_conn(handle) } else { world.server_conn() };
        end.close(now, 0, Bytes::new());
        world.pump();
        world.run_for(ONE_WAY + ms(1));
        world.deliver(late.clone());
        world.run_for(THREE_PTOS - 2 * ONE_WAY);
        world.deliver(late.clone());
        assert_eq!(log.borrow().resets, 0);
        world.run_for(10 * SECOND);
        assert_eq!((world.client.endpoint.connections(), world.server.endpoint.connections()), (0, 0));
        // Now there is no state left to answer from.
        world.deliver(late);
        assert_eq!(log.borrow().resets, 1);
    }
}

#[test]
fn a_client_that_retires_ids_as_fast_as_it_gets_them_costs_the_server_little() {
    let held = [0, 5_000].map(|rotations| {
        let mut world = World::new(Setup { link: Link::new(Duration::from_micros(100)), ..Setup::default() });
        let handle = world.handshake();
        for _ in 0..rotations {
            rotate(&mut world, handle);
            world.run_for(Duration::from_micros(300));
        }
        assert!(world.transfer(handle, true, 100_000, 20 * SECOND).is_some());
        assert_eq!((world.client_error(), world.server_error()), (None, None));
        let server = std::mem::replace(&mut world.server, World::new(Setup::default()).server);
        let before = alloc::live();
        drop((server.connections, server.endpoint));
        before - alloc::live()
    });
    assert!(held[1] - held[0] < 50_000, "one client costs the server {held:?} bytes");
}
