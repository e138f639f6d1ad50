//! CPU cost of an acknowledgment: the packets it names, against the packets it newly acknowledges.
//!
//! `cargo run --release -p thalweg-recovery --example ack_cost` processes the same number of packets with windows of
//! very different sizes, every ACK naming everything since the start and nothing lost. The time per packet has to stay
//! the same; it is printed relative to the smallest window. Then every choice of every policy does something alike at
//! one window, with losses, and is printed relative to the rules of RFC 9002; the best of several runs counts.
//!
//! With arguments, policies and a number of packets, it does that once and prints nothing, for a tool that counts
//! instructions: the difference of two runs over the difference of their packets is what a packet and half an ACK cost.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "measures real time")]

use std::time::Instant as Clock;

use thalweg_recovery::{AckFrame, AckOfUnsent, Config, Ecn, NewPath, Outcome, Policies, Recovery, Sent, SpaceId};
use thalweg_units::{Duration, Instant};

const PACKETS: u64 = 500_000;

/// Where losses are part of the run, one packet of so many is lost: thresholds, reductions and avoidance have something
/// to do.
const LOST: u64 = 500;

/// Runs of which the fastest counts: what others do on the machine only ever makes one slower.
const RUNS: u32 = 5;

/// What everything else is compared with.
const REFERENCE: &str = "rtt=classic, reordering=fixed, reduction=immediate, probe=rfc, ack-allowance=always";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    if let (Some(policies), Some(packets)) = (arguments.next(), arguments.next()) {
        run(1_000, policies.parse()?, packets.parse()?, true)?;
        return Ok(());
    }
    let mut reference = None;
    println!("{:>28} {:>16} {:>10}", "window", "ns per packet", "ratio");
    for window in [10, 100, 1_000, 10_000, 100_000] {
        let nanos = best(window, Policies::default(), false)?;
        let ratio = nanos / *reference.get_or_insert(nanos);
        println!("{window:>28} {nanos:>16.1} {ratio:>10.2}");
    }
    println!();
    println!("{:>28} {:>16} {:>10}", "policy", "ns per packet", "ratio");
    let reference = best(1_000, REFERENCE.parse()?, true)?;
    println!("{:>28} {reference:>16.1} {:>10.2}", "RFC 9002", 1.0);
    let shipped = best(1_000, Policies::default(), true)?;
    println!("{:>28} {shipped:>16.1} {:>10.2}", "as shipped", shipped / reference);
    for field in Policies::catalogue() {
        for choice in field.choices.iter().filter(|choice| choice.built) {
            let base: Policies = REFERENCE.parse()?;
            let mut policies = base.clone();
            let is_reference = policies.set(field.name, choice.name).is_ok() && policies == base;
            if !is_reference {
                let nanos = best(1_000, policies, true)?;
                println!("{:>28} {nanos:>16.1} {:>10.2}", format!("{}={}", field.name, choice.name), nanos / reference);
            }
        }
    }
    Ok(())
}

fn best(window: u64, policies: Policies, lossy: bool) -> Result<f64, AckOfUnsent> {
    (0..RUNS).try_fold(f64::INFINITY, |best, _| Ok(best.min(run(window, policies.clone(), PACKETS, lossy)?)))
}

/// Nanoseconds per packet when `window` packets are in flight and every second one is acknowledged by an ACK of the
/// whole range.
fn run(window: u64, policies: Policies, packets: u64, lossy: bool) -> Result<f64, AckOfUnsent> {
    let mut recovery: Recovery<[u64; 4]> = Recovery::new(Config { policies, ecn: false, ..Config::default() }, false);
    let mut now = Instant::ZERO;
    let path = recovery.add_path(now, NewPath::new(1_200));
    recovery.set_handshake_confirmed(now);
    let mut out = Outcome::default();
    let started = Clock::now();
    for number in 0..packets {
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
        recovery.on_sent(SpaceId::DATA, packet, true);
        now += Duration::from_micros(10);
        if number >= window && number % 2 == 1 {
            out.clear();
            // Two packets are new, all the others are named once more.
            let largest = number - window;
            let ranges = match lossy.then_some(largest / LOST * LOST).filter(|lost| (1..largest).contains(lost)) {
                Some(lost) => [Some(lost + 1..=largest), Some(lost + 1 - LOST..=lost - 1)],
                None if lossy => [Some((largest + 1).saturating_sub(LOST).max(1)..=largest), None],
                None => [Some(0..=largest), None],
            };
            recovery.on_ack(now, SpaceId::DATA, AckFrame::new(now, ranges.into_iter().flatten()), &mut out)?;
        }
    }
    Ok(started.elapsed().as_nanos() as f64 / packets as f64)
}
