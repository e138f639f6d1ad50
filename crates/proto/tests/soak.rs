//! Random connections on random links: data arrive intact, connections end, and nothing stays behind.
#![allow(clippy::unwrap_used)]

use crate::harness;

use std::{net::SocketAddr, time::Duration};

use bytes::Bytes;
use harness::{Link, Packet, Pump, Setup, World};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use thalweg_proto::{AckPolicy, RetryPolicy, TransportConfig, streams::Dir, streams::StreamsConfig, version::Version};
use thalweg_recovery::Ecn;

const SECOND: Duration = Duration::from_secs(1);

fn below(rng: &mut ChaCha8Rng, n: u64) -> u64 {
    rng.next_u64() % n
}

fn pick<T: Copy>(rng: &mut ChaCha8Rng, list: &[T]) -> T {
    list[below(rng, list.len() as u64) as usize]
}

/// What may happen to a datagram, per thousand.
fn random_link(rng: &mut ChaCha8Rng) -> Link {
    let loss = pick(rng, &[0, 0, 5, 20, 100, 200]);
    let late = pick(rng, &[0, 0, 50, 300]);
    let late_by = pick(rng, &[1_000, 20_000, 200_000]);
    let twice = pick(rng, &[0, 0, 10, 100]);
    let damaged = pick(rng, &[0, 0, 5, 50]);
    let marked = pick(rng, &[0, 0, 20, 1000]);
    let bleached = pick(rng, &[false, false, false, true]);
    let carries = pick(rng, &[1200, 1252, 1300, 1400, 1452, 1500]);
    let delay = pick(rng, &[100, 5_000, 20_000, 100_000, 300_000]);
    let rate = pick(rng, &[0, 0, 125_000, 1_250_000, 12_500_000]);
    let queue = pick(rng, &[5_000, 30_000, 200_000, u64::MAX]);
    let meddle = move |mut packet: Packet, rng: &mut ChaCha8Rng| {
        let mut happens = |per_thousand: u64| below(rng, 1000) < per_thousand;
        let (lost, is_late, is_twice) = (happens(loss), happens(late), happens(twice));
        let (is_damaged, is_marked) = (happens(damaged), happens(marked));
        if lost || packet.bytes.len() > carries {
            return vec![];
        }
        if bleached {
            packet.ecn = Ecn::NotEct;
        } else if is_marked && packet.ecn == Ecn::Ect0 {
            packet.ecn = Ecn::Ce;
        }
        if is_damaged {
            let at = below(rng, packet.bytes.len() as u64) as usize;
            packet.bytes[at] ^= 1 << below(rng, 8);
        }
        let delay = if is_late { Duration::from_micros(below(rng, late_by)) } else { Duration::ZERO };
        let mut fate = vec![(delay, packet.clone())];
        if is_twice {
            fate.push((Duration::from_micros(below(rng, 100_000)), packet));
        }
        fate
    };
    Link { rate, queue, meddle: Box::new(meddle), ..Link::new(Duration::from_micros(delay)) }
}

fn random_config(rng: &mut ChaCha8Rng) -> TransportConfig {
    let window = pick(rng, &[20_000, 100_000, 16 << 20]);
    TransportConfig {
        max_idle_timeout: Some(300 * SECOND),
        keep_alive: pick(rng, &[None, Some(SECOND), Some(20 * SECOND)]),
        initial_mtu: 1200,
        max_mtu: pick(rng, &[1200, 1452, 1472]),
        acks: pick(rng, &AckPolicy::ALL),
        min_ack_delay: pick(rng, &[None, Some(Duration::ZERO), Some(Duration::from_millis(25))]),
        receive_timestamps: pick(rng, &[0, 1, 64]),
        policies: pick(
            rng,
            &["", "ack-rate=phased(opening=4, later=4)", "ack-rate=phased", "ack-rate=phased(opening=4, later=2)"],
        )
        .parse()
        .unwrap(),
        ecn: pick(rng, &[true, true, false]),
        active_connection_ids: pick(rng, &[2, 4, 8]),
        streams: StreamsConfig {
            max_concurrent_bidi: pick(rng, &[3, 10, 128]),
            stream_receive_window: window,
            receive_window: window + window / 2,
            max_stream_receive_window: window * 2,
            max_receive_window: window * 3,
            ..StreamsConfig::default()
        },
        ..TransportConfig::default()
    }
}

/// One life. Returns how many bytes of streams arrived.
fn live(seed: u64) -> u64 {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let retry = pick(&mut rng, &[RetryPolicy::Never, RetryPolicy::Never, RetryPolicy::Always]);
    let version = pick(&mut rng, &[Version::V1, Version::V2]);
    let mut world = World::new(Setup {
        seed,
        client: random_config(&mut rng),
        server: random_config(&mut rng),
        null: pick(&mut rng, &[false, true]),
        link: random_link(&mut rng),
        tweak_client: Box::new(move |config| config.version = version),
        tweak_server: Box::new(move |config| config.retry = retry),
        ..Setup::default()
    });
    let told = |world: &World| {
        format!("seed {seed}: {:?} {:?} at {:?}", world.client_error(), world.server_error(), world.now)
    };
    let handle = world.connect();
    let confirmed = world.run_until(280 * SECOND, |world| {
        world.client.connections.get(&handle).is_some_and(|c| c.is_confirmed())
            && world.server.connections.values().any(|c| c.is_confirmed())
    });
    assert!(confirmed, "{}", told(&world));

    let mut pumps: Vec<Pump> = Vec::new();
    let mut moved = 0;
    let total = 4 + below(&mut rng, 12);
    let mut begun = 0;
    while begun < total || !pumps.is_empty() {
        let stream = if begun < total { world.client_conn(handle).streams().open(Dir::Bi) } else { None };
        if let Some(stream) = stream {
            let len = pick(&mut rng, &[0, 1, 1000, 30_000, 200_000]);
            pumps.push(Pump::new(stream, below(&mut rng, 2) == 0, len));
            moved += len;
            begun += 1;
        }
        let span = Duration::from_millis(pick(&mut rng, &[1, 10, 100, 1000]));
        world.run_until(span, |world| {
            let before = pumps.len();
            pumps.retain_mut(|pump| !pump.poke(world, handle));
            pumps.len() < before
        });
        assert!(world.client_error().is_none() && world.server_error().is_none(), "{}", told(&world));
        assert!(world.now.as_nanos() < 4_000_000_000_000, "{}: {} streams left", told(&world), pumps.len());
        let now = world.now;
        match below(&mut rng, 40) {
            0 => {
                world.client_conn(handle).force_key_update(now);
            }
            1 => {
                world.server_conn().force_key_update(now);
            }
            2 => {
                let old = world.client.address;
                world.client.former = vec![old];
                world.client.address = SocketAddr::new(old.ip(), old.port() + 1);
                world.client_conn(handle).ping();
            }
            3 => {
                let ip = std::net::IpAddr::from([10, 1, 1, below(&mut rng, 200) as u8]);
                world.client.former = vec![world.client.address];
                world.client.address.set_ip(ip);
                world.client_conn(handle).local_address_changed(now, Some(ip));
            }
            4 => {
                let _ = world.client_conn(handle).datagrams().send(Bytes::from(vec![1; 900]), 1150);
            }
            5 => world.server_conn().ping(),
            6 => {
                // A stream that comes to nothing.
                if let Some(stream) = world.client_conn(handle).streams().open(Dir::Uni) {
                    let _ = world.client_conn(handle).streams().write(stream, &[0; 3000]);
                    let _ = world.client_conn(handle).streams().reset(stream, 9);
                }
            }
            _ => {}
        }
        world.pump();
    }
    let now = world.now;
    if below(&mut rng, 2) == 0 {
        world.client_conn(handle).close_when_done(now, 1, Bytes::new());
    } else {
        world.server_conn().close(now, 2, Bytes::new());
    }
    world.pump();
    world.run_for(700 * SECOND);
    let left = (world.client.endpoint.connections(), world.server.endpoint.connections());
    assert_eq!(left, (0, 0), "{}", told(&world));
    moved
}

/// `SOAK_SEEDS=100000 cargo test --release --test all soak` looks for what is rare.
#[test]
fn random_lives_end_well() {
    let seeds = std::env::var("SOAK_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(150);
    let mut moved = 0;
    for seed in 0..seeds {
        moved += live(seed);
    }
    assert!(moved > seeds * 50_000);
}
