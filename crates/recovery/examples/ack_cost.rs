//! What an acknowledgment costs: the packets it names, against the packets it newly acknowledges.
//!
//! `cargo run --release -p thalweg-recovery --example ack_cost` processes the same number of packets with windows of very different sizes, every
//! ACK naming everything since the start. The time per packet has to stay the same; it is printed relative to the smallest window. Then every
//! choice of every policy does the same at one window, and is printed relative to the defaults; the best of several runs counts.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "measures real time")]

use std::time::Instant as Clock;

use thalweg_recovery::{AckOfUnsent, Config, Ecn, Outcome, Policies, Recovery, Sent, SpaceId};
use thalweg_units::{Duration, Instant};

const PACKETS: u64 = 500_000;

/// Runs of which the fastest counts: what others do on the machine only ever makes one slower.
const RUNS: u32 = 5;

fn main() -> Result<(), AckOfUnsent> {
    let mut reference = None;
    println!("{:>28} {:>16} {:>10}", "window", "ns per packet", "ratio");
    for window in [10, 100, 1_000, 10_000, 100_000] {
        let nanos = best(window, Policies::default())?;
        let ratio = nanos / *reference.get_or_insert(nanos);
        println!("{window:>28} {nanos:>16.1} {ratio:>10.2}");
    }
    println!();
    println!("{:>28} {:>16} {:>10}", "policy", "ns per packet", "ratio");
    let reference = best(1_000, Policies::default())?;
    println!("{:>28} {reference:>16.1} {:>10.2}", "defaults", 1.0);
    for field in Policies::catalogue() {
        for choice in field.choices.iter().filter(|choice| choice.built) {
            let mut policies = Policies::default();
            let is_default = policies.set(field.name, choice.name).is_ok() && policies == Policies::default();
            if !is_default {
                let nanos = best(1_000, policies)?;
                println!("{:>28} {nanos:>16.1} {:>10.2}", format!("{}={}", field.name, choice.name), nanos / reference);
            }
        }
    }
    Ok(())
}

fn best(window: u64, policies: Policies) -> Result<f64, AckOfUnsent> {
    (0..RUNS).try_fold(f64::INFINITY, |best, _| Ok(best.min(run(window, policies)?)))
}

/// Nanoseconds per packet when `window` packets are in flight and every second one is acknowledged by an ACK of the whole range.
fn run(window: u64, policies: Policies) -> Result<f64, AckOfUnsent> {
    let mut recovery: Recovery<[u64; 4]> = Recovery::new(Config { policies, ecn: false, ..Config::default() }, false);
    let mut now = Instant::ZERO;
    let path = recovery.add_path(now, 1_200, None);
    recovery.set_handshake_confirmed(now);
    let mut out = Outcome::default();
    let started = Clock::now();
    for number in 0..PACKETS {
        let packet = Sent {
            number,
            time: now,
            size: 1_200,
            ack_eliciting: true,
            in_flight: true,
            mtu_probe: false,
            ecn: Ecn::NotEct,
            path,
            data: [number; 4],
        };
        recovery.on_sent(SpaceId::Data, packet, true);
        now += Duration::from_micros(10);
        if number >= window && number % 2 == 1 {
            out.clear();
            // Two packets are new, all the others are named once more.
            recovery.on_ack(now, SpaceId::Data, [0..=number - window].into_iter(), Duration::ZERO, None, &mut out)?;
        }
    }
    Ok(started.elapsed().as_nanos() as f64 / PACKETS as f64)
}
