//! Collapses of the lab, repeated without it: quinn-proto alone, two endpoints and a queue of datagrams written out
//! here. Nothing of the simulator, of the links or of the adapters is used.
#![allow(clippy::unwrap_used)]

// For the linker alone, which is told to look there for the clock (see `build.rs`).
#[cfg(feature = "quiche")]
use nodes as _;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event, ServerConfig,
    StreamId, TransportConfig, VarInt,
};
use rustls::crypto::ring::default_provider;
use rustls::version::TLS13;
use thalweg_proto::crypto::deterministic::{test_certificate, test_key, test_roots};

const MB: usize = 1_000_000;

/// One way from the server to the client, and the same back; the queue holds `queue` bytes.
#[derive(Copy, Clone)]
struct Link {
    bits_per_second: u64,
    delay: Duration,
    queue: u64,
    /// One packet in so many is so much later.
    late: Option<(u64, Duration)>,
}

/// 50 Mbps, 50 ms, one bandwidth-delay product.
const LINK: Link = Link { bits_per_second: 50_000_000, delay: Duration::from_millis(25), queue: 312_500, late: None };

struct End {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    /// When the line it sends on is free.
    free: Instant,
    dropped: u64,
    sent: u64,
}

impl End {
    fn new(endpoint: Endpoint, now: Instant) -> End {
        End { endpoint, connection: None, free: now, dropped: 0, sent: 0 }
    }
}

fn transport(threshold: Option<u32>) -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    config.stream_receive_window(VarInt::from_u32(1 << 27)).send_window(1 << 27);
    config.max_idle_timeout(Some(VarInt::from_u32(30_000).into()));
    if let Some(threshold) = threshold {
        // Against the time threshold as well: only real loss is to be loss.
        config.packet_threshold(threshold).time_threshold(3.0);
    }
    Arc::new(config)
}

/// Whom datagrams go to, and when they arrive.
type Wire = BTreeMap<(Instant, u64), (bool, Vec<u8>)>;

/// How long a download takes, how many packets the queue dropped; or why the connection ended before.
fn download(size: usize, link: Link, threshold: Option<u32>) -> Result<(Duration, u64), String> {
    let (client_at, server_at): (SocketAddr, SocketAddr) =
        ("10.0.0.1:1000".parse().unwrap(), "10.0.0.2:443".parse().unwrap());
    let start = Instant::now();
    let builder = rustls::ServerConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder.with_protocol_versions(&[&TLS13]).unwrap().with_no_client_auth();
    let mut tls = builder.with_single_cert(vec![test_certificate()], test_key()).unwrap();
    tls.max_early_data_size = u32::MAX;
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls).unwrap()));
    config.transport_config(transport(threshold));
    let common = Arc::new(EndpointConfig::default());
    let mut server = End::new(Endpoint::new(common.clone(), Some(Arc::new(config)), false, None), start);
    let builder = rustls::ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder.with_protocol_versions(&[&TLS13]).unwrap();
    let tls = builder.with_root_certificates(test_roots()).with_no_client_auth();
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
    config.transport_config(transport(threshold));
    let mut client = End::new(Endpoint::new(common, None, false, None), start);
    client.connection = Some(client.endpoint.connect(start, config, server_at, "localhost").unwrap());

    let mut wire = Wire::new();
    let (mut now, mut number, mut stream) = (start, 0, None);
    let (mut left, mut received) = (size, 0);
    let mut serving: Option<StreamId> = None;
    let mut dice = 12_345_u64;
    let mut buf = Vec::new();
    loop {
        // Applications.
        if let Some((_, connection)) = &mut client.connection {
            while let Some(event) = connection.poll() {
                match event {
                    Event::Connected => {
                        let id = connection.streams().open(Dir::Bi).unwrap();
                        connection.send_stream(id).write(b"go").unwrap();
                        connection.send_stream(id).finish().unwrap();
                        stream = Some(id);
                    }
                    Event::ConnectionLost { reason } => return Err(reason.to_string()),
                    _ => {}
                }
            }
            if let Some(id) = stream {
                let mut receive = connection.recv_stream(id);
                let mut chunks = receive.read(true).unwrap();
                while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
                    received += chunk.bytes.len();
                }
                let _ = chunks.finalize();
                if received == size {
                    return Ok((now - start, server.dropped));
                }
            }
        }
        if let Some((_, connection)) = &mut server.connection {
            while let Some(event) = connection.poll() {
                if let Event::ConnectionLost { reason } = event {
                    return Err(reason.to_string());
                }
            }
            serving = serving.or_else(|| connection.streams().accept(Dir::Bi));
            if let Some(id) = serving {
                while left > 0 {
                    let zeros = Bytes::from_static(&[0; 65_536]).slice(..left.min(65_536));
                    let Ok(written) = connection.send_stream(id).write(&zeros) else { break };
                    left -= written;
                }
            }
        }
        // What the connections send, onto the line.
        for (end, to_server) in [(&mut client, true), (&mut server, false)] {
            let Some((handle, connection)) = &mut end.connection else { continue };
            while let Some(event) = connection.poll_endpoint_events() {
                if let Some(event) = end.endpoint.handle_event(*handle, event) {
                    connection.handle_event(event);
                }
            }
            while connection.poll_transmit(now, 1, &mut buf).is_some() {
                let datagram = std::mem::take(&mut buf);
                end.sent += 1;
                let time = |bytes: u64| Duration::from_nanos(bytes * 8 * 1_000_000_000 / link.bits_per_second);
                if end.free > now + time(link.queue) {
                    end.dropped += 1;
                    continue;
                }
                end.free = end.free.max(now) + time(datagram.len() as u64);
                let mut at = end.free + link.delay;
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                if let Some((share, by)) = link.late
                    && !to_server
                    && (dice >> 33).is_multiple_of(share)
                {
                    at += by;
                }
                number += 1;
                wire.insert((at, number), (to_server, datagram));
            }
        }
        // What comes next.
        let timers =
            [&mut client, &mut server].map(|end| end.connection.as_mut().and_then(|(_, it)| it.poll_timeout()));
        let timer = timers.into_iter().flatten().min();
        let arrival = wire.first_key_value().map(|((at, _), _)| *at);
        now = timer.into_iter().chain(arrival).min().ok_or("nothing happens any more")?.max(now);
        for end in [&mut client, &mut server] {
            if let Some((_, connection)) = &mut end.connection
                && connection.poll_timeout().is_some_and(|at| at <= now)
            {
                connection.handle_timeout(now);
            }
        }
        while wire.first_key_value().is_some_and(|((at, _), _)| *at <= now)
            && let Some((_, (to_server, datagram))) = wire.pop_first()
        {
            let (end, from) = if to_server { (&mut server, client_at) } else { (&mut client, server_at) };
            match end.endpoint.handle(now, from, None, None, BytesMut::from(&datagram[..]), &mut buf) {
                Some(DatagramEvent::ConnectionEvent(_, event)) => {
                    if let Some((_, connection)) = &mut end.connection {
                        connection.handle_event(event);
                    }
                }
                Some(DatagramEvent::NewConnection(incoming)) => {
                    end.connection = end.endpoint.accept(incoming, now, &mut buf, None).ok();
                }
                _ => {}
            }
            buf.clear();
        }
    }
}

/// quinn-proto takes a packet for lost once three after it have arrived (`packet_threshold`, fixed;
/// `detect_lost_packets` in `connection/mod.rs` of 0.11.19), halves its window for every round trip with such a packet,
/// and has nothing that takes this back when the packet turns out to be late. With thresholds out of reach of the
/// reordering, the same loop over the same link is as fast as without it.
#[test]
fn quinn_collapses_when_five_percent_are_late_and_the_threshold_is_why() {
    let late = Link { late: Some((20, Duration::from_millis(5))), ..LINK };
    let (clean, dropped) = download(20 * MB, LINK, None).unwrap();
    let (slow, _) = download(20 * MB, late, None).unwrap();
    let (patient, _) = download(20 * MB, late, Some(1_000)).unwrap();
    println!("clean {clean:?} ({dropped} dropped by the queue), late {slow:?}, late with threshold 1000 {patient:?}");
    assert!(clean < Duration::from_secs(4), "{clean:?}");
    assert!(slow > 8 * clean, "{slow:?} against {clean:?}");
    assert!(patient < clean * 3 / 2, "{patient:?} against {clean:?}");
}

/// A slow start into the queue of a long fast link leaves more holes than the receiver keeps count of (1,024 chunks;
/// `Assembler`), and it closes the connection.
#[test]
fn quinn_closes_the_connection_when_slow_start_leaves_many_holes() {
    let delay = Duration::from_millis(300);
    let long = Link { bits_per_second: 250_000_000, delay, queue: 18_750_000, late: None };
    let error = download(100 * MB, long, None).unwrap_err();
    assert!(error.contains("too many gaps"), "{error}");
}
