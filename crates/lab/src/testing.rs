//! A stand-in for the simulator, for tests: numbers that follow from world and seed, plausible enough to be looked at.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use thalweg_units::math;

use crate::engine::{Engine, Output, StackInfo};
use crate::hash::Digest;
use crate::record::{Delivery, PacketPlot, Part, Recording, RunRecord, Series, put};
use crate::scenario::world::World;

/// The stand-in. Panics on seed 13 if `superstitious`.
#[derive(Debug, Default)]
pub struct Toy {
    /// Whether seed 13 panics.
    pub superstitious: bool,
    /// Mixed into every result, as a change of the program would be.
    pub change: u64,
}

impl Engine for Toy {
    fn version(&self) -> String {
        "toy 1".to_owned()
    }

    fn stacks(&self) -> Vec<StackInfo> {
        vec![StackInfo::new("thalweg"), StackInfo::new("quinn")]
    }

    fn run(&self, world: &World, seed: u64, recording: bool) -> Output {
        assert!(!(self.superstitious && seed == 13), "seed 13 is unlucky");
        let hash = Digest::of(format!("{} {seed} {}", Digest::of_json(world), self.change).as_bytes());
        let mut dice = Pcg64::seed_from_u64(u64::from_str_radix(hash.short(), 16).unwrap_or(0));
        let mut record = RunRecord { wire_hash: hash.as_str().to_owned(), ..RunRecord::default() };
        let mut result = Recording::default();
        for flow in &world.flows {
            let Some(path) = world.paths.iter().find(|path| path.name == flow.path) else { continue };
            let rate = path.down.rate.nominal().bps() as f64;
            let rtt = path.round_trip().as_secs_f64();
            let bytes = flow.traffic.bulk().and_then(|bulk| bulk.bytes).unwrap_or(1_000_000) as f64;
            let floor = 2.0 * rtt + bytes * 8.0 / rate;
            let slow = if flow.policies().to_string().contains("start=standard") { 1.35 } else { 1.15 };
            let chance = (dice.next_u64() >> 40) as f64 / (1u64 << 24) as f64;
            let completion = floor * (slow + 0.1 * chance * chance);
            let mut part = Part { name: flow.name.clone(), ..Part::default() };
            part.notes.insert("policies".to_owned(), flow.policies().to_string());
            for (name, value) in [
                ("completed", 1.0),
                ("completion", completion),
                ("completion_over_floor", completion / floor),
                ("goodput", bytes * 8.0 / completion),
                ("packets_sent", bytes / 1400.0),
                ("packets_lost", 40.0 * chance),
            ] {
                part.set(name, value);
            }
            let arrived = |share: u32| 2.0 * rtt + (completion - 2.0 * rtt) * f64::from(share) / 40.0;
            part.delivery = Some(Delivery::Shares {
                whole: bytes as u64,
                times: (1..=40).map(arrived).collect(),
                floor: vec![2.0 * rtt, floor],
            });
            record.flows.push(part);
            if recording {
                record_flow(&mut result, &flow.name, rtt, completion, rate);
            }
        }
        put(&mut record.values, "success", 1.0);
        Output { record, recording: recording.then_some(result) }
    }
}

fn record_flow(result: &mut Recording, name: &str, rtt: f64, completion: f64, rate: f64) {
    let steps = 600;
    let t: Vec<f64> = (0..steps).map(|step| completion * f64::from(step) / f64::from(steps)).collect();
    let bdp = rate * rtt / 8.0;
    let window: Vec<f64> = t
        .iter()
        .map(|t| {
            let rounds = t / rtt.max(0.001);
            let grown = 14_000.0 * math::exp((rounds * 4.0).min(30.0));
            if grown < bdp { grown } else { bdp * (0.8 + 0.2 * math::sin(rounds / 3.0)) }
        })
        .collect();
    let exit = t.iter().zip(&window).find(|(_, window)| **window >= bdp * 0.6).map_or(completion, |(t, _)| *t);
    let subject = name.to_owned();
    let in_flight = window.iter().map(|window| window * 0.93).collect();
    let latency = window.iter().map(|window| rtt * (1.0 + 0.4 * (window / bdp).min(1.0))).collect();
    let queue = window.iter().map(|window| (window - bdp * 0.7).max(0.0)).collect();
    let series = |name: &str, unit: &str, v: Vec<f64>, states: Vec<(f64, String)>| Series {
        subject: subject.clone(),
        name: name.to_owned(),
        unit: unit.to_owned(),
        t: t.clone(),
        v,
        states,
    };
    let states = vec![(0.0, "slow start".to_owned()), (exit, "congestion avoidance".to_owned())];
    result.series.push(series("window", "B", window, states));
    result.series.push(series("in_flight", "B", in_flight, Vec::new()));
    result.series.push(series("rtt", "s", latency, Vec::new()));
    result.series.push(series("queue", "B", queue, Vec::new()));
    let number = |step: u64| step * step / 40;
    let sent: Vec<(f64, u64)> = t.iter().enumerate().map(|(step, t)| (*t, number(step as u64))).collect();
    result.packets.push(PacketPlot {
        subject,
        acked: sent.iter().map(|(t, number)| (t + rtt, *number)).collect(),
        lost: sent.iter().skip(300).step_by(37).map(|(t, number)| (t + rtt * 1.2, *number)).collect(),
        bytes: sent.iter().map(|(_, number)| (number + 1) * 1_400).collect(),
        spurious: sent.iter().skip(300).step_by(111).map(|(t, number)| (t + rtt * 1.3, *number)).collect(),
        sent,
    });
}
