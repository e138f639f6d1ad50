//! Measures a path of the lab and compares the findings with the truth, over many seeds.
//!
//! usage: cargo run --release -p thalweg-probe --example truth -- [SEEDS [PATH.toml | PRESET [SECONDS [LOAD]]]]
//!
//! LOAD is the share of 20 Mbps each way that somebody else sends, in packets of 1500 bytes at random times.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "../tests/all/bulk.rs"]
#[allow(dead_code)]
mod bulk;
#[path = "../tests/all/judge.rs"]
mod judge;
#[path = "../tests/all/world.rs"]
#[allow(dead_code)]
mod world;

use thalweg_link::{Spread, Streams};
use thalweg_units::Duration;

use judge::{Tally, judge, path};
use world::{HostClock, World};

/// Packets of somebody else, each way, as a Poisson process.
fn cross(seed: u64, length: Duration, load: f64) -> Vec<(Duration, bool)> {
    let mut packets = Vec::new();
    for up in [true, false].into_iter().filter(|_| load > 0.0) {
        let mut dice = Streams::new(seed).dice(if up { "cross up" } else { "cross down" });
        let apart = Spread::Exponential(Duration::from_secs_f64(1500.0 * 8.0 / 20e6 / load));
        let mut at = Duration::ZERO;
        while at < length {
            packets.push((at, up));
            at += apart.draw(&mut dice);
        }
    }
    packets.sort_unstable();
    packets
}

fn main() {
    let mut args = std::env::args().skip(1);
    let seeds: u64 = args.next().map_or(100, |seeds| seeds.parse().unwrap());
    let which = args.next().unwrap_or_else(|| "wifi".to_owned());
    let length = Duration::from_secs(args.next().map_or(600, |seconds| seconds.parse().unwrap()));
    let load: f64 = args.next().map_or(0.0, |load| load.parse().unwrap());
    let toml = std::fs::read_to_string(&which).unwrap_or_else(|_| format!("preset = \"{which}\""));
    let hops = path(&toml);
    let mut all = Tally::default();
    for seed in 1..=seeds {
        let drift = if seed % 2 == 0 { 50 } else { -50 };
        let server_clock = HostClock { origin: 77_000_000_000_000, drift };
        let cross = cross(seed, length, load);
        all.add(&judge(&World { server_clock, length, cross, ..World::over(&hops, seed) }, seeds < 20));
    }
    let percent = |part: u32, whole: u32| 100.0 * f64::from(part) / f64::from(whole.max(1));
    println!("{which}, {seeds} seeds of {length:?}, server's clock at ±50 ppm");
    println!("suspensions of 50 ms and more  {}", all.true_ones);
    println!("found                          {:.2} %", percent(all.found, all.true_ones));
    println!("length within 20 ms            {:.2} %", percent(all.length_right, all.found));
    println!("false                          {:.2} % of {}", percent(all.false_ones, all.reported), all.reported);
    println!("way right                      {:.2} % of {} events", percent(all.way_right, all.events), all.events);
    println!("greatest error of the offset   {:.3} ms", all.offset_error as f64 / 1e6);
    println!("greatest bound                 {:.3} ms", all.bound as f64 / 1e6);
    println!("truth outside of the bound     {} times", all.outside);
}
