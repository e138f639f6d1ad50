//! A bulk transfer in full swing allocates nothing per packet inside the connections.
#![allow(clippy::unwrap_used)]

use crate::harness;

use std::time::Duration;

use bytes::Bytes;
use harness::{CLIENT, SERVER, Setup, World, alloc};
use thalweg_proto::{
    Connection, DatagramMeta, Transmit,
    streams::{Dir, StreamId},
};
use thalweg_units::Instant;

/// What the loop counts: allocations inside the connections only.
#[derive(Default)]
struct Count {
    packets: u64,
    allocations: u64,
}

impl Count {
    fn of<T>(&mut self, f: impl FnOnce() -> T) -> T {
        let before = alloc::allocations();
        let result = f();
        self.allocations += alloc::allocations() - before;
        result
    }
}

/// Sends all that `from` has to send straight to `to`; `true` if there was anything.
fn pass(
    now: Instant,
    from: &mut Connection,
    to: &mut Connection,
    sender: std::net::SocketAddr,
    buf: &mut Vec<u8>,
    count: &mut Count,
) -> bool {
    let mut any = false;
    while let Some(Transmit { size, segment, ecn, .. }) = count.of(|| from.poll_transmit(now, 10, buf)) {
        any = true;
        assert_eq!(size, buf.len());
        let receiver = if sender == CLIENT { SERVER } else { CLIENT };
        let meta = DatagramMeta { remote: sender, local_ip: Some(receiver.ip()), ecn };
        for datagram in buf.chunks_mut(segment.unwrap_or(size)) {
            count.packets += 1;
            count.of(|| to.handle_datagram(now, &meta, datagram));
        }
    }
    any
}

/// Moves data from the server for a while, without loss; returns what was counted after a warm-up.
fn steady(null: bool) -> Count {
    let mut world = World::new(Setup { null, ..Setup::default() });
    let handle = world.handshake();
    world.run_for(Duration::from_secs(1));
    let mut now = world.now;
    let mut client = world.client.connections.remove(&handle).unwrap();
    let mut server = world.server.connections.pop_first().unwrap().1;
    let id: StreamId = client.streams().open(Dir::Bi).unwrap();
    client.streams().write(id, b"go").unwrap();
    let data = Bytes::from(vec![42; 1 << 16]);
    let mut buf = Vec::with_capacity(1 << 16);
    let mut sink = vec![0; 1 << 16];
    let mut count = Count::default();
    let mut received = 0u64;
    let mut warm = false;
    while received < 60_000_000 {
        if !warm && received > 20_000_000 {
            count = Count::default();
            warm = true;
        }
        // The application: not counted.
        loop {
            let mut chunk = data.clone();
            match server.streams().write_chunk(id, &mut chunk) {
                Ok(n) if n > 0 => {}
                _ => break,
            }
        }
        let sent = pass(now, &mut server, &mut client, SERVER, &mut buf, &mut count);
        while let Ok(Some(n)) = client.streams().read_into(id, &mut sink) {
            received += n as u64;
        }
        while server.poll_event().is_some() || client.poll_event().is_some() {}
        let answered = pass(now, &mut client, &mut server, CLIENT, &mut buf, &mut count);
        if !sent && !answered {
            let next = [client.poll_timeout(), server.poll_timeout()].into_iter().flatten().min().expect("a timer");
            now = now.max(next);
        } else {
            now += Duration::from_micros(200);
        }
        for connection in [&mut client, &mut server] {
            if connection.poll_timeout().is_some_and(|at| at <= now) {
                count.of(|| connection.handle_timeout(now));
            }
        }
    }
    assert!(count.packets > 25_000, "{} packets", count.packets);
    count
}

/// The bound is honest, not wishful: what remains is buffers that grow when a window does.
#[test]
fn a_lossless_bulk_transfer_allocates_less_than_once_in_a_hundred_packets() {
    for null in [true, false] {
        let count = steady(null);
        let per_packet = count.allocations as f64 / count.packets as f64;
        println!("null {null}: {} allocations for {} packets", count.allocations, count.packets);
        assert!(per_packet < 0.01, "null {null}: {} allocations for {} packets", count.allocations, count.packets);
    }
}
