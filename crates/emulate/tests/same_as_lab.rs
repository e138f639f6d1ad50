//! The engine's departures are those of the lab's links, to the nanosecond, however late its caller looks.
#![allow(clippy::unwrap_used)]

use thalweg_emulate::{Arrival, Departure, Drop, Engine, Port, Toward};
use thalweg_link::presets::PRESETS;
use thalweg_link::trace::Synthetic;
use thalweg_link::{Dice, Direction, DropCause, Packet, PathConfig, Paths, Sink, Streams};
use thalweg_units::{Duration, Ecn, Instant};

/// What happened to a packet: its bytes when it arrived, or why it did not, and when, after the start.
type Fate = (Duration, Vec<u8>, u32, u8, Option<DropCause>);

/// A packet: when it is sent after the start, its flow, ECN field and size, and its bytes.
type Sent = (Duration, u32, Ecn, u32, Vec<u8>);

/// When runs of the lab start; it could be any time.
const LAB: Instant = Instant::from_nanos(1_000_000_000);
/// What the lab draws ahead: a scenario's time limit.
const TIME_LIMIT: Duration = Duration::from_secs(40);

struct Recorder {
    start: Instant,
    fates: [Vec<Fate>; 2],
}

impl Port for Recorder {
    fn hand_over(&mut self, departure: Departure<'_>) -> Option<Instant> {
        let Departure { toward, due, flow, ecn, bytes } = departure;
        self.fates[toward.index()].push((due.saturating_since(self.start), bytes.to_vec(), flow, ecn.bits(), None));
        Some(due)
    }

    fn dropped(&mut self, dropped: Drop<'_>) {
        let Drop { toward, at, cause, bytes, .. } = dropped;
        // Flow and ECN field are not told of what is lost.
        self.fates[toward.index()].push((at.saturating_since(self.start), bytes.to_vec(), 0, 0, Some(cause)));
    }
}

struct Lab {
    fates: Vec<Fate>,
}

impl Sink<Vec<u8>> for Lab {
    fn deliver(&mut self, at: Instant, packet: Packet<Vec<u8>>) {
        self.fates.push((at.saturating_since(LAB), packet.payload, packet.flow, packet.ecn.bits(), None));
    }

    fn dropped(&mut self, at: Instant, packet: Packet<Vec<u8>>, cause: DropCause) {
        self.fates.push((at.saturating_since(LAB), packet.payload, 0, 0, Some(cause)));
    }
}

/// Packets of three flows, in bursts, more than most paths carry.
fn arrivals(dice: &mut Dice, path: &PathConfig, toward: Toward) -> Vec<Sent> {
    let config = if toward == Toward::Server { &path.up } else { &path.down };
    let gap = config.rate.nominal().time_for(1500).as_nanos().clamp(20_000, 2_000_000) as u64 * 3;
    let (mut at, mut arrivals) = (Duration::ZERO, Vec::new());
    for number in 0..4_000u32 {
        if dice.below(4) > 0 {
            at += Duration::from_nanos(dice.below(gap));
        }
        let size = 40 + dice.below(1461) as u32;
        let ecn = Ecn::from_bits(dice.below(3) as u8);
        arrivals.push((at, dice.below(3) as u32, ecn, size, number.to_be_bytes().to_vec()));
    }
    arrivals
}

fn in_the_lab(path: &PathConfig, seed: u64, sent: [&[Sent]; 2]) -> [Vec<Fate>; 2] {
    let streams = Streams::new(seed).scope("path").scope(&path.name);
    let drawn = path.resolve(&streams, TIME_LIMIT).unwrap();
    [(&drawn.up, sent[0]), (&drawn.down, sent[1])].map(|(config, sent)| {
        let name = if std::ptr::eq(config, &drawn.up) { "up" } else { "down" };
        let mut link: Direction<Vec<u8>> = Direction::new(config, LAB, &streams.scope(name)).unwrap();
        let mut lab = Lab { fates: Vec::new() };
        for (at, flow, ecn, size, payload) in sent.iter().cloned() {
            let at = LAB + at;
            while let Some(next) = link.next_event().filter(|next| *next < at) {
                link.advance(next, &mut lab);
            }
            let packet = Packet { payload, size, flow, connection: 0, ecn, sent: at, tail: false };
            link.send(at, packet, &mut lab);
        }
        while let Some(next) = link.next_event() {
            link.advance(next, &mut lab);
        }
        lab.fates.sort();
        lab.fates
    })
}

fn in_the_engine(path: &PathConfig, seed: u64, sent: [&[Sent]; 2]) -> [Vec<Fate>; 2] {
    // A machine that has been up for three days or so.
    let start = Instant::from_nanos(271_828_182_845_904);
    let mut engine = Engine::new(std::slice::from_ref(path), seed, start).unwrap();
    let mut recorder = Recorder { start, fates: Default::default() };
    let mut merged: Vec<_> = [Toward::Server, Toward::Client]
        .into_iter()
        .flat_map(|toward| sent[toward.index()].iter().cloned().map(move |arrival| (arrival.0, toward, arrival)))
        .collect();
    merged.sort_by_key(|(at, ..)| *at);
    for (number, (at, toward, (_, flow, ecn, size, bytes))) in merged.into_iter().enumerate() {
        let at = start + at;
        // Every seventh time it is looked in time, else only when the next packet comes.
        while let Some(due) = engine.next_due().filter(|due| number % 7 == 0 && *due < at) {
            engine.run(due, &mut recorder);
        }
        let arrival = Arrival { toward, at, waited: Duration::ZERO, flow, ecn, size, damage_from: 0 };
        assert!(engine.arrive(arrival, &bytes));
    }
    while let Some(due) = engine.next_due() {
        engine.run(due + Duration::from_millis(3), &mut recorder);
    }
    assert_eq!(engine.held(), 0);
    recorder.fates.map(|mut fates| {
        fates.sort();
        fates
    })
}

#[test]
fn every_preset_treats_every_packet_as_in_the_lab() {
    let more = r#"
        [path.everything]
        suspend = { every = "700 ms", for = "60 ms", held = "before" }
        up = { rate = "20 Mbps", delay = "10 ms", jitter = "1 ms", loss = "2 %", duplicate = 0.02, corrupt = "3 %" }
        down = { rate = "20 Mbps", delay = "10 ms", aqm = "codel", ecn = "keep", mtu = "1400 B",
                 jitter = { shape = "normal", mean = "2 ms", reorders = true }, reorder = { share = "2 %", by = "4 ms" },
                 outage = { random = true, every = "600 ms", for = "20 ms" } }"#;
    let table = |preset: &str| format!("[path.{preset}]\npreset = \"{preset}\"\n");
    let text = PRESETS.iter().map(|preset| table(preset.name)).collect::<String>() + more;
    let paths = Paths::parse("presets.toml", &text, &Synthetic).unwrap();
    let mut kinds = std::collections::BTreeSet::new();
    for path in &paths.paths {
        for seed in 1..=3 {
            let mut dice = Streams::new(seed).dice("arrivals");
            let sent = Toward::BOTH.map(|toward| arrivals(&mut dice, path, toward));
            let sent = [&sent[0][..], &sent[1][..]];
            let (lab, engine) = (in_the_lab(path, seed, sent), in_the_engine(path, seed, sent));
            for (toward, (lab, engine)) in Toward::BOTH.into_iter().zip(lab.iter().zip(&engine)) {
                assert!(!lab.is_empty());
                let differs = lab.iter().zip(engine).position(|(lab, engine)| lab != engine);
                let first = differs.map(|at| (&lab[at], &engine[at]));
                assert_eq!(first, None, "{} {} seed {seed}", path.name, toward.name());
                assert_eq!(lab.len(), engine.len(), "{} {} seed {seed}", path.name, toward.name());
                kinds.extend(lab.iter().map(|(.., cause)| *cause));
            }
        }
    }
    assert!(kinds.len() >= 7, "almost every fate was met: {kinds:?}");
}

#[test]
fn another_seed_is_another_run() {
    let paths = Paths::parse("p.toml", "[path.p]\npreset = \"random-loss\"", &Synthetic).unwrap();
    let path = &paths.paths[0];
    let sent = arrivals(&mut Streams::new(1).dice("arrivals"), path, Toward::Client);
    let [one, other] = [1, 2].map(|seed| in_the_engine(path, seed, [&[], &sent]));
    assert_ne!(one, other);
}
