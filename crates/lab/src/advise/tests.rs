//! Advice where the truth is known: an engine that makes chosen policies better, or none.

use std::sync::atomic::AtomicBool;

use thalweg_link::trace::Synthetic;
use thalweg_link::{Paths, Streams};

use super::*;
use crate::engine::{Output, SimEngine, StackInfo};
use crate::record::{Part, RunRecord};
use crate::scenario::world::World;

/// Every run takes a second times chance; with these policies it takes this share of that.
struct Made {
    better: &'static [(&'static str, &'static str, f64)],
    /// How far chance goes.
    spread: f64,
    /// Runs with policies other than the shipped ones never end.
    fails: bool,
}

impl Engine for Made {
    fn version(&self) -> String {
        "made".to_owned()
    }

    fn stacks(&self) -> Vec<StackInfo> {
        SimEngine::default().stacks()
    }

    fn run(&self, world: &World, seed: u64, _: bool) -> Output {
        let policies = world.flows[0].policies();
        let fields = policies.fields();
        let of = |name: &str, value: &str| fields.iter().any(|(field, is)| *field == name && is == value);
        let share = self.better.iter().find(|(field, name, _)| of(field, name)).map_or(1.0, |(.., share)| *share);
        let mut dice = Streams::new(seed).scope(&policies.to_string()).dice("made");
        let time = share * (1.0 + self.spread * dice.unit());
        let is_shipped = *policies == Policies::default();
        let mut record = RunRecord { wire_hash: format!("{seed} {time}"), ..RunRecord::default() };
        for flow in &world.flows {
            let mut part = Part { name: flow.name.clone(), ..Part::default() };
            let is_done = is_shipped || !self.fails;
            part.set("completed", f64::from(u8::from(is_done)));
            for metric in ["completion", "call_delay_mean", "bytes_sent", "reverse_bytes"] {
                part.set(metric, time);
            }
            record.flows.push(part);
        }
        Output { record, recording: None }
    }
}

fn hops(text: &str) -> Vec<PathConfig> {
    Paths::parse("x.toml", &format!("[path.p]\n{text}"), &Synthetic).unwrap().hops("p").unwrap()
}

fn of(engine: &dyn Engine, text: &str, effort: Effort) -> Option<Advice> {
    let stop = AtomicBool::new(false);
    let options = Options { threads: 0, stop: &stop, progress: &|_| {} };
    advise(&Request { hops: hops(text), effort }, engine, &options).unwrap()
}

fn made(better: &'static [(&'static str, &'static str, f64)], spread: f64) -> Advice {
    of(&Made { better, spread, fails: false }, "preset = \"broadband\"", Effort::default()).unwrap()
}

#[test]
fn what_is_better_is_advised_with_its_gain() {
    let advice = made(&[("probe", "rfc", 0.8), ("mark", "reduce", 0.9)], 0.3);
    assert_eq!(advice.advised, Some(Choice { field: "probe", name: "rfc" }));
    let candidate = advice.candidate.unwrap();
    let interval = candidate.score.interval.unwrap();
    assert!(interval.contains(0.8) && interval.width() < 0.1, "{interval:?}");
    assert!(advice.sentence.starts_with("probe=rfc serves this path better"), "{}", advice.sentence);
    assert_eq!(advice.screened[0].choice.to_string(), "probe=rfc");
    assert_eq!(candidate.effects.len(), 3);
}

#[test]
fn luck_is_not_advised() {
    // One choice in thirty is lucky at first sight; none is better.
    for spread in [0.01, 0.1, 0.5] {
        let advice = made(&[], spread);
        assert_eq!(advice.advised, None, "{}", advice.sentence);
        assert!(advice.sentence.starts_with("Nothing to gain"));
    }
}

#[test]
fn what_gains_less_than_a_hundredth_is_not_worth_a_change() {
    let advice = made(&[("probe", "rfc", 0.995)], 0.001);
    assert!(advice.candidate.unwrap().score.is_less() && advice.advised.is_none());
}

#[test]
fn what_never_ends_is_not_advised() {
    let engine = Made { better: &[("probe", "rfc", 0.5)], spread: 0.1, fails: true };
    let advice = of(&engine, "preset = \"broadband\"", Effort::default()).unwrap();
    assert!(advice.candidate.is_none() && advice.advised.is_none());
}

#[test]
fn it_can_be_stopped() {
    let stop = AtomicBool::new(true);
    let options = Options { threads: 0, stop: &stop, progress: &|_| {} };
    let request = Request { hops: hops("preset = \"wifi\""), effort: Effort::default() };
    assert_eq!(advise(&request, &SimEngine::default(), &options).unwrap(), None);
}

#[test]
fn every_choice_for_use_is_tried_and_paths_may_have_several_hops() {
    let text =
        "[path.home]\npreset = \"wifi\"\n[path.far]\npreset = \"broadband\"\n[path.both]\nhops = [\"home\", \"far\"]";
    let hops = Paths::parse("x.toml", text, &Synthetic).unwrap().hops("both").unwrap();
    let worlds = Worlds::of(&hops, &SimEngine::default()).unwrap();
    let all = Choice::all();
    assert!(all.len() > 25, "{}", all.len());
    let tried = worlds.choices();
    assert!(tried.len() * 10 >= all.len() * 8, "{} of {}", tried.len(), all.len());
    let world = worlds.world(Use::Page, Some(&tried[0])).unwrap();
    assert_eq!(world.route(&world.flows[0].path).unwrap().len(), 2);
}

#[test]
fn the_same_path_gets_the_same_advice() {
    let effort = Effort { screen: 2, kept: 1, compare: 1, confirm: 3 };
    let text = "up = { rate = \"2 Mbps\", delay = \"20 ms\", queue = \"100 ms\" }\n\
                down = { rate = \"2 Mbps\", delay = \"20 ms\", queue = \"100 ms\" }";
    let one = of(&SimEngine::default(), text, effort).unwrap();
    assert_eq!(Some(&one), of(&SimEngine::default(), text, effort).as_ref());
    assert!(!one.same.is_empty(), "without a token resume=careful changes nothing");
}
