use std::collections::{BTreeMap, BTreeSet};

use thalweg_link::Streams;
use thalweg_units::{Duration, math};

use super::distribution::{
    DISCIPLINES, DISTRIBUTION, Load, MOST_RIVALS, PACKETS, QUEUE, Queue, RATE, ROUND_TRIP, Rival, SHARED_RATE,
    SHARED_ROUND_TRIP, Shared, SharedKind, Single, SingleKind,
};
use super::gate::{Committed, Draw};
use super::judge::{geometric_mean, less_at_most};
use super::pair::Pair;
use super::*;
use crate::engine::SimEngine;
use crate::engine::{Output, StackInfo};
use crate::hash::Digest;
use crate::record::{Part, put};
use crate::runner::{self, RunOptions};
use crate::scenario::world::World;
use crate::store::Store;

fn request(single: u64, shared: u64, from: u64) -> Request {
    Request { single, shared, pairs: 0, scheduler: None, from, policies: Policies::default() }
}

fn results(request: &Request, engine: &dyn Engine) -> Results {
    let options = Options { threads: 2, stop: &AtomicBool::new(false), progress: &|_| {} };
    run(request, engine, &options).unwrap().unwrap()
}

/// How many values are in each decade, by its logarithm.
fn decades(values: impl Iterator<Item = u64>) -> BTreeMap<u32, usize> {
    let mut decades = BTreeMap::new();
    for value in values {
        *decades.entry(value.max(1).ilog10()).or_default() += 1;
    }
    decades
}

/// Values between two ends lie in each decade as a log-uniform distribution has it.
fn assert_log_uniform(what: &str, values: &[u64], (low, high): (u64, u64)) {
    assert!(values.iter().all(|value| (low..=high).contains(value)), "{what}");
    let ln = |value: u64| math::ln(value as f64);
    for (decade, count) in decades(values.iter().copied().filter(|value| *value < high)) {
        let (from, to) = (10u64.pow(decade).max(low), 10u64.pow(decade + 1).min(high));
        let expected = values.len() as f64 * (ln(to) - ln(from)) / (ln(high) - ln(low));
        let off = (count as f64 - expected).abs();
        assert!(off < 5.0 * math::sqrt(expected) + 5.0, "{what}, decade {decade}: {count}, not {expected:.0}");
    }
    // The upper end itself may be the first of a decade, and is rarely drawn.
    let found = decades(values.iter().copied().filter(|value| *value < high)).len() as u32;
    assert_eq!(found, (high - 1).ilog10() - low.ilog10() + 1, "{what}");
}

#[test]
fn a_world_depends_on_its_number_and_on_nothing_else() {
    let (many, few) = (request(40, 40, 0).worlds(), request(10, 10, 20).worlds());
    assert_eq!(few[..10], many[20..30]);
    assert_eq!(few[10..], many[60..70]);
    let texts: BTreeSet<&str> = many.iter().map(|world| world.text.as_str()).collect();
    assert_eq!(texts.len(), 80, "no two are the same");
}

#[test]
fn the_distribution_is_the_committed_one() {
    let worlds: Vec<_> = (0..200).map(|number| (Single::draw(number), Shared::draw(number))).collect();
    let digest = Digest::of(format!("{worlds:?}").as_bytes());
    assert_eq!((DISTRIBUTION, digest.short()), (1, COMMITTED), "another distribution needs another version");
}

const COMMITTED: &str = "6ca8061caca8055c";

#[test]
fn single_paths_cover_their_ranges() {
    let worlds: Vec<Single> = (0..5_200).map(Single::draw).collect();
    assert_log_uniform("rate", &worlds.iter().map(|world| world.rate.bps() / 1_000).collect::<Vec<_>>(), RATE);
    let round_trips: Vec<u64> = worlds.iter().map(|world| world.round_trip.as_micros() as u64).collect();
    assert_log_uniform("round trip", &round_trips, ROUND_TRIP);
    let (mut bdp, mut packets) = (Vec::new(), Vec::new());
    for world in &worlds {
        match world.queue {
            Queue::Bdp(thousandths) => bdp.push(thousandths),
            Queue::Packets(count) => packets.push(count),
        }
    }
    assert_log_uniform("queue in BDP", &bdp, QUEUE);
    assert_log_uniform("queue in packets", &packets, PACKETS);
    for kind in SingleKind::ALL {
        let of_kind: Vec<&Single> = worlds.iter().filter(|world| world.kind == kind).collect();
        assert_eq!(of_kind.len(), 400, "{kind:?}");
        // Every kind meets every decade of rates.
        assert!(decades(of_kind.iter().map(|world| world.rate.bps())).len() >= 4, "{kind:?}");
    }
    let is_extra = |world: &&Single| world.is_rfc9000 && world.kind != SingleKind::Rfc9000;
    assert!((600..1_000).contains(&worlds.iter().filter(is_extra).count()));
}

#[test]
fn the_work_of_a_run_is_bounded() {
    for world in (0..5_200).map(Single::draw) {
        let bytes = match &world.load {
            Load::Download(bytes) => *bytes,
            Load::Requests { response, count, .. } => response * count,
            Load::Together { bytes, starts } => bytes * starts.len() as u64,
        };
        assert!((25_000..=42_000_000).contains(&bytes), "{world:?}");
        assert!(world.time_limit >= world.rate.time_for(bytes) * 20, "{world:?}");
    }
    for world in (0..800).map(Shared::draw) {
        assert!(world.rate.bytes_in(world.duration) <= 180_000_000, "{world:?}");
    }
}

#[test]
fn shared_paths_cover_their_ranges() {
    let worlds: Vec<Shared> = (0..4_000).map(Shared::draw).collect();
    assert_log_uniform("rate", &worlds.iter().map(|world| world.rate.bps() / 1_000).collect::<Vec<_>>(), SHARED_RATE);
    let round_trips: Vec<u64> = worlds.iter().map(|world| world.round_trip.as_micros() as u64).collect();
    assert_log_uniform("round trip", &round_trips, SHARED_ROUND_TRIP);
    for kind in SharedKind::ALL {
        let of_kind: Vec<&Shared> = worlds.iter().filter(|world| world.kind == kind).collect();
        assert_eq!(of_kind.len(), 500, "{kind:?}");
        let rivals: BTreeSet<u64> = of_kind.iter().map(|world| world.rivals).collect();
        assert_eq!(rivals, (1..=MOST_RIVALS).collect(), "{kind:?}");
    }
    let disciplines: BTreeSet<&str> = worlds.iter().map(|world| world.discipline).collect();
    assert_eq!(disciplines, DISCIPLINES.into_iter().chain(["tail-drop"]).collect());
    let queues: Vec<Duration> = worlds.iter().filter_map(|world| world.queue).collect();
    assert!(queues.iter().all(|queue| *queue >= Duration::from_millis(1)));
    assert!(queues.iter().filter(|queue| **queue < Duration::from_millis(8)).count() > 500);
    assert!(queues.iter().any(|queue| *queue > Duration::from_secs(1)));
    for rival in [Rival::Quic, Rival::Tcp, Rival::Bbr] {
        assert!(worlds.iter().filter(|world| world.rival == rival).count() >= 500, "{rival:?}");
    }
    let apart = |world: &&Shared| world.round_trip != world.their_round_trip;
    assert!(worlds.iter().filter(apart).all(|world| world.kind == SharedKind::RoundTrips));
    assert!(worlds.iter().filter(apart).count() > 450);
    let ours_is_late =
        worlds.iter().filter(|world| world.kind == SharedKind::Late && world.our_start > world.their_start);
    assert!((200..300).contains(&ours_is_late.count()));
}

#[test]
fn every_world_is_a_sound_scenario_whatever_the_policies() {
    let engine = SimEngine::default();
    for policies in ["", "controller=bbr", "start=standard,mark=reduce"] {
        let request = Request { policies: policies.parse().unwrap(), ..request(520, 160, 0) };
        for world in request.worlds() {
            let scenario = world.scenario(&engine).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!((scenario.points.len(), scenario.remarks.warnings.as_slice()), (2, &[][..]), "{}", world.text);
        }
    }
    // The reference itself has nothing to be compared with but itself.
    for (policies, points) in [("start=hystart++", (1, 2)), ("controller=cubic", (2, 1))] {
        let request = Request { policies: policies.parse().unwrap(), ..request(1, 1, 0) };
        let worlds = request.worlds();
        let count = |at: usize| worlds[at].scenario(&engine).unwrap().points.len();
        assert_eq!((count(0), count(1)), points, "{policies}");
    }
    let judged: Policies = "controller=bbr,pacing=on".parse().unwrap();
    let replay = Request { policies: judged, ..request(3, 3, 0) }.replay(Class::Shared, 7);
    assert_eq!(replay, "thalweg lab draw --single 0 --shared 1 --from 7 --policies controller=bbr");
}

/// A world that is small enough for a test.
fn is_small(drawn: &Drawn) -> bool {
    match drawn.class {
        Class::Single => match Single::draw(drawn.number).load {
            Load::Download(bytes) => bytes < 1_000_000,
            Load::Requests { response, count, .. } => response * count < 1_000_000,
            Load::Together { bytes, starts } => bytes * starts.len() as u64 <= 1_500_000,
        },
        Class::Shared => {
            let world = Shared::draw(drawn.number);
            world.rate.bytes_in(world.duration) < 10_000_000
        }
        Class::Pair => false,
    }
}

#[test]
fn a_written_file_gives_the_same_result_to_the_bit() {
    let engine = SimEngine::default();
    let folder = tempfile::tempdir().unwrap();
    let mut kinds = BTreeSet::new();
    for world in request(80, 80, 0).worlds().into_iter().filter(is_small) {
        if !kinds.insert((world.class, world.kind)) {
            continue;
        }
        let (single, shared) = if world.class == Class::Single { (1, 0) } else { (0, 1) };
        let drawn = results(&request(single, shared, world.number), &engine);
        let file = folder.path().join(world.file_name());
        std::fs::write(&file, &world.text).unwrap();
        let scenario = Scenario::load(&file, &engine.stacks()).unwrap();
        let store = Store::create(&file.with_extension("results")).unwrap();
        let ran = runner::run(&scenario, &engine, &store, &RunOptions::new(&AtomicBool::new(false), &|_| {})).unwrap();
        let mut runs = ran.manifest.runs;
        runs.sort_by_key(|run| (run.point, run.seed));
        let hashes: Vec<String> = runs.into_iter().map(|run| run.wire_hash).collect();
        assert_eq!(drawn.worlds[0].wire_hashes, hashes, "{}", world.title);
        assert_eq!(drawn.worlds[0].dead, Vec::<String>::new(), "{}", world.title);
    }
    assert!(kinds.len() >= 18, "{kinds:?}");
}

#[test]
fn a_world_alone_is_the_world_among_others() {
    let engine = SimEngine::default();
    let small = request(60, 0, 0).worlds().into_iter().filter(is_small).map(|world| world.number).nth(1).unwrap();
    let among = results(&request(3, 0, small - 1), &engine);
    assert_eq!(results(&request(1, 0, small), &engine).worlds[0], among.worlds[1]);
}

/// An engine by which every download takes `factor` times its floor with the judged policies and twice with the
/// reference, and rivals keep half; where the connection of the judged policies dies in the single world 1, the shared
/// world 4, and that of the reference in the single world 2.
struct Stub {
    factor: f64,
    dies: bool,
}

impl Engine for Stub {
    fn version(&self) -> String {
        "stub".to_owned()
    }

    fn stacks(&self) -> Vec<StackInfo> {
        SimEngine::default().stacks()
    }

    fn run(&self, world: &World, seed: u64, _: bool) -> Output {
        let mut record = RunRecord { wire_hash: format!("{seed:032x}"), ..RunRecord::default() };
        let tested = world.flows.iter().find(|flow| flow.name.starts_with("tested")).unwrap();
        let is_shared = world.flows.iter().any(|flow| flow.name.starts_with("rival"));
        let is_judged = *tested.policies() == Policies::default();
        let dies = match (is_shared, is_judged) {
            (false, true) => seed == 1,
            (false, false) => seed == 2,
            (true, true) => seed == 9,
            (true, false) => false,
        };
        // A little apart from world to world, as intervals need values that differ.
        let noise = 1.0 + (seed % 10) as f64 / 1_000.0;
        let over = if is_judged { self.factor * noise } else { 2.0 };
        for flow in &world.flows {
            let mut part = Part { name: flow.name.clone(), ..Part::default() };
            let is_dead = self.dies && dies && flow.name == tested.name;
            part.set("completed", f64::from(u8::from(!is_dead)));
            if is_dead {
                part.notes.insert("failed".to_owned(), "idle timeout".to_owned());
            }
            part.set("completion_over_cold_floor", over);
            part.set("goodput", if is_judged { 1e6 } else { 2e6 * noise });
            record.flows.push(part);
        }
        put(&mut record.values, "completion_mean", over);
        Output { record, recording: None }
    }
}

#[test]
fn what_died_is_the_worst_and_is_named() {
    let found = results(&request(40, 16, 0), &Stub { factor: 1.2, dies: true });
    let names: Vec<(Class, u64)> = found.dead().map(|world| (world.class, world.number)).collect();
    assert_eq!(names, [(Class::Single, 1), (Class::Single, 2), (Class::Shared, 4)]);
    let world = &found.worlds[1];
    assert_eq!((world.over_floor, world.dead.len()), (Some(f64::INFINITY), 1));
    assert!(world.dead[0].contains("shipped, seed 1: ") && world.dead[0].contains("idle timeout"), "{:?}", world.dead);
    assert!(world.ratio.unwrap() > 10.0, "it counts as long as its time limit: {:?}", world.ratio);
    assert!(found.worlds[2].dead[0].starts_with("start=hystart++, seed 2"), "{:?}", found.worlds[2].dead);
    let floors = found.worlds.iter().filter(|world| world.over_floor.is_some()).count();
    let within = &found.single.as_ref().unwrap().within;
    assert!((within.value - (floors - 1) as f64 / floors as f64).abs() < 1e-9, "{within:?}");
    let shared = found.shared.as_ref().unwrap();
    assert_eq!(shared.least, 0.0);
    assert!((shared.median.value - 0.5).abs() < 0.01, "{shared:?}");
    let said = found.to_string();
    let worst: Vec<&str> =
        said.lines().skip_while(|line| !line.contains("worst, times the cold floor")).take(3).collect();
    assert!(worst[1].contains("inf DEAD  single 1, "), "{worst:?}");
    assert_eq!(worst[2].trim(), "thalweg lab draw --single 1 --shared 0 --from 1");
    assert!(said.contains("dead: shared 4, shipped, seed 9: tested: idle timeout"), "{said}");
    let alive = results(&request(13, 8, 0), &Stub { factor: 1.2, dies: false });
    assert!(alive.to_string().contains("every connection lived"), "{alive}");
}

#[test]
fn the_check_fails_for_what_is_worse_and_for_nothing_else() {
    let of = |factor, dies| results(&request(39, 16, 0), &Stub { factor, dies });
    let mut committed = Committed::default();
    committed.put(Draw::of(&of(1.4, false)));
    let committed = Committed::parse(&committed.text()).unwrap();
    let worse = |factor, dies| committed.compare(&of(factor, dies)).unwrap().worse;
    assert_eq!(worse(1.4, false), Vec::<String>::new());
    assert_eq!(worse(1.3, false), Vec::<String>::new());
    let slower = worse(1.6, false);
    assert_eq!(slower.len(), 2, "{slower:?}");
    assert!(slower[0].contains("within 1.5 x the floor") && slower[1].contains("start=hystart++"), "{slower:?}");
    let dead = worse(1.0, true);
    let named = dead.iter().filter(|line| line.contains(" died: ")).count();
    assert_eq!(named, 3, "{dead:?}");
    // A death that is known is said, and fails nothing by itself.
    let mut known = Committed::default();
    known.put(Draw::of(&of(1.4, true)));
    let found = known.compare(&of(1.4, true)).unwrap();
    assert_eq!((found.worse.len(), found.remarks.len()), (0, 3), "{found:?}");
    let mended = known.compare(&of(1.4, false)).unwrap();
    assert_eq!(mended.worse, Vec::<String>::new());
    assert!(mended.remarks.iter().any(|line| line.contains("single 1 is committed as dead and lives")));
}

#[test]
fn figures_of_another_draw_are_not_compared() {
    let found = results(&request(13, 8, 0), &Stub { factor: 1.0, dies: false });
    let mut committed = Committed::default();
    committed.put(Draw::of(&found));
    let other = results(&request(13, 8, 13), &Stub { factor: 1.0, dies: false });
    let why = committed.compare(&other).unwrap_err();
    assert!(why.contains("--single 13 --shared 8 --from 0"), "{why}");
    committed.put(Draw::of(&other));
    committed.put(Draw::of(&other));
    assert_eq!(committed.draws.len(), 2);
    committed.distribution += 1;
    let why = Committed::parse(&committed.text()).unwrap_err();
    assert!(why.contains("distribution 2") && why.contains("--commit"), "{why}");
    assert!(Committed::parse("{}").is_err());
}

#[test]
fn pairs_cover_their_ranges() {
    let worlds: Vec<Pair> = (0..2_000).map(Pair::draw).collect();
    let members = || worlds.iter().flat_map(|world| world.members);
    let rates: Vec<u64> = members().map(|path| path.rate.bps() / 1_000).collect();
    assert_log_uniform("rate", &rates, pair::RATE);
    let uniform = |what: &str, values: Vec<u64>, (low, high): (u64, u64)| {
        assert!(values.iter().all(|value| *value <= high), "{what}");
        for tenth in 0..10 {
            let (from, to) = (low + (high - low) * tenth / 10, low + (high - low) * (tenth + 1) / 10);
            let share = values.iter().filter(|value| (from..to).contains(value)).count() as f64 / values.len() as f64;
            assert!((share - 0.1).abs() < 0.04, "{what}, tenth {tenth}: {share}");
        }
    };
    uniform("round trip", members().map(|path| path.round_trip.as_micros() as u64).collect(), pair::ROUND_TRIP);
    uniform("queue", members().map(|path| path.queue.as_micros() as u64).collect(), pair::QUEUE);
    let losses: Vec<u64> = members().filter_map(|path| Some(path.loss?.0)).collect();
    assert_eq!(losses.len(), 2_000, "every other pair loses");
    uniform("loss", losses, pair::LOSS);
}

#[test]
fn a_pair_is_judged_by_its_better_path_and_by_both_orders() {
    // Seconds for the long and for the short download: on a, on b, on a and then b, on b and then a.
    let took = [[40.0, 10.0, 9.0, 8.0], [0.5, 0.2, 0.52, 0.3]];
    let run = |took: f64| {
        let mut record = RunRecord::default();
        record.flows.push(Part { name: "tested".to_owned(), ..Part::default() });
        record.flows[0].set("completed", 1.0);
        put(&mut record.values, "completion_mean", took);
        (String::new(), vec![(0, record)])
    };
    let request = Request { pairs: 1, ..request(0, 0, 0) };
    let drawn = Pair::drawn(0, &request);
    let judged = judge::judged(&drawn, 60.0, &Ran { choices: took.iter().flatten().map(|took| run(*took)).collect() });
    let found = judged.pair.unwrap();
    // b is better: alone 2 MB/s, and with a 2.5; a alone carries 0.5.
    assert!((found.gain - 1.0).abs() < 1e-9, "{found:?}");
    assert!((found.short[0] - 1.04).abs() < 1e-9 && (found.short[1] - 1.5).abs() < 1e-9, "{found:?}");
    let pairs = OfPairs::of(&[judged]).unwrap();
    assert_eq!((pairs.gains.value, pairs.short.value), (1.0, 0.5));
    assert_eq!(request.replay(Class::Pair, 7), "thalweg lab draw --single 0 --shared 0 --pairs 1 --from 7");
}

#[test]
fn a_pair_is_a_sound_scenario_with_its_points_in_order() {
    let engine = SimEngine::default();
    for scheduler in [None, Some(SchedulerPolicy::Earliest)] {
        let request = Request { pairs: 60, scheduler, ..request(0, 0, 0) };
        for world in request.worlds() {
            let scenario = world.scenario(&engine).unwrap_or_else(|error| panic!("{error}"));
            let points: Vec<(u64, usize)> = scenario
                .points
                .iter()
                .map(|point| {
                    let flow = &point.world.flows[0];
                    let paths = flow.paths().map(|path| usize::from(path == "b")).fold(0, |sum, is_b| sum * 2 + is_b);
                    (flow.traffic.bulk().unwrap().bytes.unwrap(), 2 * flow.beside.len() + paths)
                })
                .collect();
            let of = |bytes| [(bytes, 0), (bytes, 1), (bytes, 3), (bytes, 4)];
            assert_eq!(points, [of(20_000_000), of(256_000)].concat(), "{}", world.text);
        }
    }
}

#[test]
fn what_is_stopped_has_no_figures() {
    let options = Options { threads: 1, stop: &AtomicBool::new(true), progress: &|_| {} };
    assert_eq!(run(&request(2, 0, 0), &Stub { factor: 1.0, dies: false }, &options).unwrap(), None);
}

#[test]
fn intervals_cover_what_they_claim() {
    // Logarithms of ratios are mostly small, with a tail: nine of ten normal, one five times as wide.
    let mut dice = Streams::new(1).dice("ratios");
    let (samples, count) = (2_000, 30);
    let (mut covered, mut below) = (0, 0);
    for _ in 0..samples {
        let ratios: Vec<f64> = (0..count)
            .map(|_| {
                let wide = if dice.below(10) == 0 { 5.0 } else { 1.0 };
                math::exp(-0.05 + 0.1 * wide * dice.normal())
            })
            .collect();
        let interval =
            geometric_mean(&ratios).interval.unwrap_or(crate::stats::Interval { low: 0.0, high: f64::INFINITY });
        covered += usize::from(interval.contains(math::exp(-0.05)));
        // Of a uniform distribution, the share below the least value is that value.
        let least = (0..count).map(|_| dice.unit()).fold(1.0, f64::min);
        below += usize::from(least <= less_at_most(count));
    }
    let share = |covered: usize| covered as f64 / f64::from(samples);
    assert!(share(covered) > 0.935, "{}", share(covered));
    assert!((share(below) - 0.95).abs() < 0.015, "{}", share(below));
    assert!((geometric_mean(&[0.5, 2.0, 1.0]).value - 1.0).abs() < 1e-12);
}
