//! The relay on loopback, over IPv4 and IPv6.
#![cfg(target_os = "linux")]
// What runs on the system's clock is watched by it.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use thalweg_emulate::{Relay, RelayConfig, Toward};
use thalweg_link::{DirectionConfig, LossModel, PathConfig, Probability, QueueLimit, RateModel, Reorder};
use thalweg_units::Rate;

/// A link without a limit to its rate.
fn unlimited() -> DirectionConfig {
    DirectionConfig { rate: RateModel::Constant(Rate::MAX), ..DirectionConfig::default() }
}

fn start_at(listen: &str, target: SocketAddr, direction: DirectionConfig) -> Relay {
    let hops = vec![PathConfig::new("p", direction.clone(), direction)];
    Relay::start(RelayConfig { listen: listen.parse().unwrap(), target, hops, seed: 1, realtime: false }).unwrap()
}

fn start(target: SocketAddr, direction: DirectionConfig) -> Relay {
    start_at("127.0.0.1:0", target, direction)
}

/// Sends everything back; ends when nothing has come for a while.
fn echo(host: &str) -> SocketAddr {
    let socket = UdpSocket::bind((host, 0)).unwrap();
    socket.set_read_timeout(Some(2 * PATIENCE)).unwrap();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 65_535];
        while let Ok((len, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..len], from);
        }
    });
    address
}

/// A busy machine may take so long until a datagram has come back; who waits for nothing waits less.
const PATIENCE: Duration = Duration::from_secs(20);
const BRIEFLY: Duration = Duration::from_millis(300);

/// Whether it comes to hold: datagrams are counted a moment after they were handed over.
fn comes_to(holds: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    while !holds() {
        if begun.elapsed() > PATIENCE {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

/// Sends `count` numbered datagrams and returns the numbers that come back, until all have or nothing comes for so
/// long.
fn exchange(relay: &Relay, count: u16, patience: Duration) -> Vec<u16> {
    let host = if relay.address().is_ipv4() { "127.0.0.1" } else { "::1" };
    let client = UdpSocket::bind((host, 0)).unwrap();
    client.set_read_timeout(Some(patience)).unwrap();
    for number in 0..count {
        client.send_to(&number.to_be_bytes(), relay.address()).unwrap();
    }
    let mut back = Vec::new();
    let mut buffer = [0; 16];
    while back.len() < usize::from(count) {
        match client.recv(&mut buffer) {
            Ok(2) => back.push(u16::from_be_bytes([buffer[0], buffer[1]])),
            _ => break,
        }
    }
    back
}

#[test]
fn passes_both_ways_in_order_over_ipv4_and_ipv6() {
    for (listen, target) in
        [("127.0.0.1:0", "127.0.0.1"), ("[::1]:0", "::1"), ("127.0.0.1:0", "::1"), ("[::1]:0", "127.0.0.1")]
    {
        let relay = start_at(listen, echo(target), unlimited());
        assert_eq!(exchange(&relay, 50, PATIENCE), (0..50).collect::<Vec<_>>());
        assert!(comes_to(|| relay.counts().forwarded == 100), "{:?}", relay.counts());
        let report = relay.stop();
        assert_eq!(report.paths[0].directions.each_ref().map(|totals| totals.handed_over), [50, 50]);
        assert_eq!(report.paths[0].directions[0].lateness.count(), 50);
        let headers = if listen.starts_with('1') { 28 } else { 48 };
        assert_eq!(report.paths[0].directions[0].handed_over_bytes, 50 * (2 + headers));
    }
}

#[test]
fn loses_about_what_it_is_told() {
    let loss = vec![LossModel::Random(Probability::ratio(1, 5))];
    let relay = start(echo("127.0.0.1"), DirectionConfig { loss, ..unlimited() });
    let back = exchange(&relay, 400, 10 * BRIEFLY).len();
    assert!((200..320).contains(&back), "0.8 × 0.8 × 400 = 256, got {back}");
}

#[test]
fn reorders_and_delays() {
    let relay = start(
        echo("127.0.0.1"),
        DirectionConfig {
            delay: Duration::from_millis(20).into(),
            reorder: vec![Reorder { share: Probability::ratio(1, 5), by: Duration::from_millis(30) }],
            ..unlimited()
        },
    );
    let begun = Instant::now();
    let back = exchange(&relay, 50, PATIENCE);
    assert!(begun.elapsed() >= Duration::from_millis(40));
    assert_eq!(back.len(), 50);
    assert!(!back.is_sorted());
    assert!(comes_to(|| relay.counts().reordered > 0), "{:?}", relay.counts());
}

#[test]
fn a_cut_line_loses_everything_until_it_is_mended() {
    let relay = start(echo("127.0.0.1"), unlimited());
    relay.set_cut(true);
    assert!(exchange(&relay, 5, BRIEFLY).is_empty());
    relay.set_cut(false);
    assert_eq!(exchange(&relay, 5, PATIENCE).len(), 5);
    assert!(comes_to(|| relay.counts().dropped == 5), "{:?}", relay.counts());
}

#[test]
fn a_rate_spaces_datagrams() {
    // 9.6 kbps: 30 bytes take 25 ms.
    let slow = DirectionConfig { rate: RateModel::Constant(Rate::from_bps(9_600)), ..DirectionConfig::default() };
    let relay = start(echo("127.0.0.1"), slow);
    let begun = Instant::now();
    assert_eq!(exchange(&relay, 3, PATIENCE), [0, 1, 2]);
    // Three up, and the last of them down.
    assert!(begun.elapsed() >= Duration::from_millis(100), "{:?}", begun.elapsed());
}

#[test]
fn a_flood_is_dropped_by_the_queue_and_by_nothing_else() {
    // 20 Mbps: 1028 bytes take 0.4 ms. Ten packets wait, and one is being sent.
    let rate = RateModel::Constant(Rate::from_bps(20_000_000));
    let queue = QueueLimit::Packets(10);
    let relay = start(echo("127.0.0.1"), DirectionConfig { rate, queue, ..DirectionConfig::default() });
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(10 * BRIEFLY)).unwrap();
    for _ in 0..200 {
        client.send_to(&[7; 1000], relay.address()).unwrap();
    }
    let back = std::iter::from_fn(|| client.recv(&mut [0; 2000]).ok()).count() as u64;
    let report = relay.stop();
    let up = report.paths[0].direction(Toward::Server);
    assert_eq!(up.arrived + report.device_dropped, 200);
    assert_eq!(up.arrived, up.handed_over + up.dropped_total());
    // What comes back in a burst, because the echo was late, may find its queue full, too.
    let down = report.paths[0].direction(Toward::Client);
    assert!(up.dropped_total() > 0 && back + down.dropped_total() == up.handed_over, "{back} {up:?} {down:?}");
}

#[test]
fn large_datagrams_cross_whole() {
    let relay = start(echo("127.0.0.1"), unlimited());
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let sent: Vec<u8> = (0..60_000u32).map(|number| number as u8).collect();
    client.send_to(&sent, relay.address()).unwrap();
    let mut back = vec![0; 65_535];
    let len = client.recv(&mut back).unwrap();
    assert!(back[..len] == sent);
}

#[test]
fn a_rate_of_zero_is_refused() {
    let rate = RateModel::Constant(Rate::ZERO);
    let direction = DirectionConfig { rate, ..DirectionConfig::default() };
    let hops = vec![PathConfig::new("p", direction.clone(), direction)];
    let listen = "127.0.0.1:0".parse().unwrap();
    let error = Relay::start(RelayConfig { listen, target: listen, hops, seed: 1, realtime: false }).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    assert!(error.to_string().contains("rate"), "{error}");
}

#[test]
fn a_target_that_is_not_there_stops_nobody() {
    let gone = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let relay = start(gone, unlimited());
    assert!(exchange(&relay, 5, BRIEFLY).is_empty());
    assert!(exchange(&relay, 5, BRIEFLY).is_empty());
    assert_eq!(relay.stop().paths[0].flows, 2);
}
