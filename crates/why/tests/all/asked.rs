//! Judges what is said of other settings, and of two transfers beside each other, by doing it in the lab.

use thalweg_link::Streams;
use thalweg_units::DurationExt;
use thalweg_why::world::World;
use thalweg_why::{Part, WhatIf, differences};

use crate::draw::draw;
use crate::logged::answer;

/// Parts in which the drawn pairs differ: the others are the same in all of them.
const DIFFERENT: u64 = 9;

/// A change of the time smaller than this share of it is none.
const NONE: f64 = 0.05;

/// A question of what would have been, and both answers, as multiples of the time that the transfer took.
#[derive(Debug)]
pub struct Asked {
    pub number: u64,
    pub what: String,
    pub truth: f64,
    pub told: Option<(f64, f64, f64)>,
}

/// What is asked about a run.
fn question(number: u64, world: &World) -> WhatIf {
    let mut dice = Streams::new(number).scope("why").dice("what-if");
    let controllers = ["bbr", "cubic", "new-reno", "regain"];
    let factor = [2, 4, 16][dice.below(3) as usize];
    let mut texts =
        vec![format!("controller={}", controllers[dice.below(4) as usize]), "initial_window=48 kB".to_owned()];
    if let Some(credit) = world.credit {
        let bytes = credit[0].most.min(credit[1].most) * factor;
        texts = vec![format!("receive_window={bytes} B"), "receive_window=unlimited".to_owned(), texts.swap_remove(0)];
    } else if let Some(rate) = world.sender.max_rate {
        texts = vec![format!("max_rate={} bps", rate.bps() * factor), "max_rate=off".to_owned(), texts.swap_remove(0)];
    }
    texts[dice.below(texts.len() as u64) as usize].parse().unwrap()
}

/// Asks about a drawn run; none if it does not come to an end.
pub fn what_if(number: u64) -> Option<Asked> {
    let world = draw(number);
    let what = question(number, &world);
    let seconds = |world: &World| world.run(None).unwrap().map(|time| time.nanos() as f64 / 1e9);
    let (took, with) = (seconds(&world)?, seconds(&what.apply(&world))?);
    let told = answer(&world).ok().and_then(|answer| {
        let changed = answer.what_if(&what).ok()?;
        let took = answer.completion.nanos() as f64 / 1e9;
        let (from, to) = changed.range?;
        Some((changed.seconds? / took, from / took, to / took))
    });
    Some(Asked { number, what: what.to_string(), truth: with / took, told })
}

impl Asked {
    /// Whether it is said rightly that the transfer gets faster, slower or neither.
    pub fn is_direction_right(&self) -> bool {
        let kind = |time: f64| if time < 1.0 - NONE { -1 } else { i32::from(time > 1.0 + NONE) };
        // What lies within the margin of both is neither right nor wrong of one.
        self.told.is_some_and(|(told, ..)| kind(told) == kind(self.truth) || (told - self.truth).abs() < NONE)
    }
}

/// Prints how often the direction is right, and how far the size is off.
pub fn print_what_if(asked: &[Asked], is_verbose: bool) {
    let told: Vec<&Asked> = asked.iter().filter(|asked| asked.told.is_some()).collect();
    let percent = |part: usize, whole: usize| 100.0 * part as f64 / whole.max(1) as f64;
    let right = told.iter().filter(|asked| asked.is_direction_right()).count();
    let inside = |asked: &&&Asked| asked.told.is_some_and(|(_, from, to)| from <= asked.truth && asked.truth <= to);
    let mut off: Vec<f64> =
        told.iter().filter_map(|asked| Some((asked.told?.0 / asked.truth - 1.0).abs() * 100.0)).collect();
    off.sort_by(f64::total_cmp);
    let at = |share: f64| off.get((off.len() as f64 * share) as usize).copied().unwrap_or(0.0);
    for asked in asked.iter().filter(|asked| is_verbose && !asked.is_direction_right()) {
        println!("{} {}: {:.3} told {:?}", asked.number, asked.what, asked.truth, asked.told);
    }
    println!("asked {}, told {} ({:.1} %)", asked.len(), told.len(), percent(told.len(), asked.len()));
    println!("direction right {:.1} % of those told", percent(right, told.len()));
    println!("size off by {:.1} % at the median, {:.1} % at nine tenths", at(0.5), at(0.9));
    println!("inside of the range {:.1} %", percent(told.iter().filter(inside).count(), told.len()));
}

/// Two runs beside each other: what makes most of the difference, and what is said of it.
#[derive(Debug)]
pub struct Compared {
    pub number: u64,
    pub truth: Vec<(Part, f64)>,
    pub told: Vec<(Part, f64)>,
    pub ratio: f64,
}

/// Compares a drawn run with the same on another day: some parts of it are those of another run.
pub fn compared(number: u64) -> Option<Compared> {
    let first = draw(number);
    let other = draw(number + 2_000_000);
    let mut dice = Streams::new(number).scope("why").dice("compare");
    let mut second = World { seed: number + 1_000_000, ..first.clone() };
    for _ in 0..=dice.below(2) {
        second = Part::ALL[dice.below(DIFFERENT) as usize].of(&other, &second);
    }
    let took = |world: &World| world.run(None).unwrap().map(|time| time.nanos() as f64);
    let ratio = took(&second)? / took(&first)?;
    // What is as long needs no reason; what differs thousandfold is no other day of the same.
    if !(0.1..0.8).contains(&ratio.min(1.0 / ratio)) {
        return None;
    }
    let truth = differences(&first, &second).ok()?;
    let (a, b) = (answer(&first).ok()?, answer(&second).ok()?);
    let told = a.compare(&b).ok()?.parts;
    Some(Compared { number, truth, told, ratio })
}

impl Compared {
    /// Whether what is told first makes most of the difference, or as much to ten points.
    pub fn is_right(&self) -> bool {
        let share = |part: Part| self.truth.iter().find(|(other, _)| *other == part).map_or(0.0, |(_, share)| *share);
        let most = self.truth.first().map_or(0.0, |(_, share)| *share);
        self.told.first().is_some_and(|(part, _)| share(*part) >= most - 0.1)
    }

    fn is_near(&self) -> bool {
        let told = self.told.first();
        told.is_some_and(|(part, share)| {
            let truth = self.truth.iter().find(|(other, _)| other == part);
            truth.is_some_and(|(_, truth)| (truth - share).abs() <= 0.15)
        })
    }
}

/// Prints how often the first part is right.
pub fn print_compared(compared: &[Compared], is_verbose: bool) {
    let percent = |part: usize, whole: usize| 100.0 * part as f64 / whole.max(1) as f64;
    let told: Vec<&Compared> = compared.iter().filter(|compared| !compared.told.is_empty()).collect();
    let right = told.iter().filter(|compared| compared.is_right()).count();
    let near = told.iter().filter(|compared| compared.is_near()).count();
    for compared in compared.iter().filter(|compared| is_verbose && !compared.is_right()) {
        println!("{} ratio {:.2}: {:?} told {:?}", compared.number, compared.ratio, compared.truth, compared.told);
    }
    println!("pairs {}, told {} ({:.1} %)", compared.len(), told.len(), percent(told.len(), compared.len()));
    println!("what makes most of the difference right {:.1} % of those told", percent(right, told.len()));
    println!("its share within 15 points {:.1} %", percent(near, told.len()));
}

/// Held-out runs of few bytes.
fn short() -> impl Iterator<Item = u64> {
    (1..120).step_by(2).filter(|number| draw(*number).load.bytes < 500_000)
}

#[test]
fn other_settings_change_what_they_change_in_the_lab() {
    let asked: Vec<Asked> = short().filter_map(what_if).collect();
    print_what_if(&asked, true);
    let told: Vec<&Asked> = asked.iter().filter(|asked| asked.told.is_some()).collect();
    let right = told.iter().filter(|asked| asked.is_direction_right()).count();
    assert!(told.len() >= 12 && right * 10 >= told.len() * 8, "{right} of {}", told.len());
}

#[test]
fn of_drawn_pairs_the_difference_is_named() {
    let pairs: Vec<Compared> = short().filter_map(compared).collect();
    print_compared(&pairs, true);
    let told: Vec<&Compared> = pairs.iter().filter(|pair| !pair.told.is_empty()).collect();
    let right = told.iter().filter(|pair| pair.is_right()).count();
    assert!(told.len() >= 5 && right * 10 >= told.len() * 7, "{right} of {}", told.len());
}
