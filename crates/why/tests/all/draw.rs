//! Draws transfers that nobody chose: a path, what is sent over it, by which rules, and what makes it slow.
//!
//! The number of a run is its seed. Even numbers are for tuning; odd ones are held out. From [`MORE`] on, each has one
//! of the causes that those before it never have.

use thalweg_link::{Dice, Policer, Streams};
use thalweg_units::{Duration, Rate, math};
use thalweg_why::Cause;
use thalweg_why::world::{Credit, Load, Path, Sender, World};

/// What RFC 9002 and RFC 9438 say where Thalweg departs from it.
const RFC: &str = "reordering=fixed, probe=rfc, ack-allowance=always, ack-rate=off, mark=reduce, undo=off";

/// Whether a run may be looked at while the rules are made.
pub const fn is_for_tuning(number: u64) -> bool {
    number.is_multiple_of(2)
}

/// Between two values, as many below as above their geometric mean.
fn log(dice: &mut Dice, low: f64, high: f64) -> f64 {
    math::exp(math::ln(low) + dice.unit() * (math::ln(high) - math::ln(low)))
}

fn between(dice: &mut Dice, low: f64, high: f64) -> f64 {
    low + dice.unit() * (high - low)
}

fn seconds(seconds: f64) -> Duration {
    Duration::from_nanos((seconds * 1e9) as u64)
}

/// From here on, transfers have a policer, a drop of the path's MTU, a thin way back or a busy host.
pub const MORE: u64 = 10_000_000;

/// The transfer with this number.
pub fn draw(number: u64) -> World {
    let streams = Streams::new(number).scope("why");
    let mut dice = streams.dice("path");
    let (rate, round_trip) = (log(&mut dice, 0.3e6, 1e9), log(&mut dice, 0.005, 0.6));
    let bdp = rate / 8.0 * round_trip;
    let queue = (bdp * log(&mut dice, 0.5, 4.0)).max(15_000.0);
    let back = (rate * between(&mut dice, 0.2, 1.0)).max(100e3);
    let path = Path {
        back: Rate::from_bps(back as u64),
        ..Path::clean(Rate::from_bps(rate as u64), seconds(round_trip), queue as u64)
    };
    let mut dice = streams.dice("load");
    let bytes = log(&mut dice, 50e3, 100e6) as u64;
    let load = Load { bytes, is_up: dice.unit() < 0.3, pieces: 1, pause: Duration::ZERO };
    let mut world = World { path, credit: None, sender: sender(&streams), load, seed: number };
    let mut dice = streams.dice("causes");
    let causes = if number < MORE { causes(&mut dice) } else { more_causes(&mut dice) };
    for cause in causes {
        add(&mut world, cause, &mut streams.dice(cause.name()), (rate, round_trip));
    }
    world
}

fn sender(streams: &Streams) -> Sender {
    let mut dice = streams.dice("sender");
    let policies = match dice.below(8) {
        0..4 => String::new(),
        4..6 => format!("controller=new-reno, start=standard, {RFC}"),
        6 => format!("controller=cubic, start=hystart++, {RFC}"),
        _ => format!("controller=cubic, start=standard, {RFC}"),
    };
    Sender { policies: policies.parse().unwrap(), ..Sender::default() }
}

/// Causes that the lab makes, and those that every transfer may have.
const FIRST: [Cause; 6] = [
    Cause::ReceiveWindow,
    Cause::Application,
    Cause::RateLimit,
    Cause::ChanceLoss,
    Cause::Reordering,
    Cause::Interruption,
];
const SECOND: [Cause; 4] = [Cause::Policer, Cause::BlackHole, Cause::WayBack, Cause::BusyHost];

/// One of the second list, and in half of the runs one of the first beside it.
fn more_causes(dice: &mut Dice) -> Vec<Cause> {
    let mut causes = vec![SECOND[dice.below(SECOND.len() as u64) as usize]];
    if dice.below(2) == 0 {
        causes.push(FIRST[dice.below(FIRST.len() as u64) as usize]);
    }
    causes
}

/// None in a tenth of the runs, one in four tenths, two or three in half; the start is always there.
fn causes(dice: &mut Dice) -> Vec<Cause> {
    let count = match dice.below(20) {
        0..2 => 0,
        2..10 => 1,
        10..17 => 2,
        _ => 3,
    };
    let mut left = FIRST.to_vec();
    (0..count).map(|_| left.swap_remove(dice.below(left.len() as u64) as usize)).collect()
}

/// Adds a cause that may matter.
fn add(world: &mut World, cause: Cause, dice: &mut Dice, (rate, round_trip): (f64, f64)) {
    let ideal = round_trip * 2.0 + world.load.bytes as f64 * 8.4 / rate;
    match cause {
        Cause::ReceiveWindow => {
            let window = (rate / 8.0 * round_trip * between(dice, 0.1, 1.0)).max(15_000.0) as u64;
            // Half of them are of the stream, half of the connection.
            let (small, large) = (Credit { initial: window, most: window }, Credit { initial: 1 << 30, most: 1 << 30 });
            world.credit = Some(if dice.below(2) == 0 { [small, large] } else { [large, small] });
        }
        Cause::Application => {
            world.load.pieces = 2 + dice.below(40);
            world.load.pause = seconds((ideal * between(dice, 0.1, 2.0) / world.load.pieces as f64).min(20.0));
        }
        Cause::RateLimit => world.sender.max_rate = Some(Rate::from_bps((rate * between(dice, 0.2, 0.9)) as u64)),
        Cause::ChanceLoss => world.path.loss = log(dice, 0.0005, 0.04),
        Cause::Reordering => {
            let by = (round_trip * between(dice, 0.1, 1.0)).max(0.001);
            world.path.reorder = Some((log(dice, 0.005, 0.2), seconds(by)));
        }
        Cause::Interruption => {
            let spans = (0..=dice.below(3)).map(|_| {
                let start = round_trip + between(dice, 0.0, 1.0) * ideal;
                (start, start + log(dice, 0.15, 4.0).min(ideal * 3.0))
            });
            let mut spans: Vec<(f64, f64)> = spans.collect();
            spans.sort_by(|a, b| a.0.total_cmp(&b.0));
            spans.dedup_by(|later, earlier| {
                let is_overlapping = later.0 <= earlier.1 + 0.01;
                earlier.1 = if is_overlapping { earlier.1.max(later.1) } else { earlier.1 };
                is_overlapping
            });
            let spans = spans.into_iter().map(|(start, end)| (seconds(start), seconds(end))).collect();
            if dice.below(2) == 0 {
                world.path.outages = spans;
            } else {
                world.path.suspensions = spans;
            }
        }
        Cause::Policer => {
            let burst = log(dice, 15e3, 150e3) as u64;
            let rate = Rate::from_bps((rate * between(dice, 0.1, 0.8)) as u64);
            world.path.policer = Some(Policer { rate, burst });
        }
        Cause::BlackHole => {
            let at = round_trip + between(dice, 0.0, 1.0) * ideal;
            world.path.mtu = Some((seconds(at), between(dice, 1230.0, 1450.0) as u32));
        }
        Cause::WayBack => world.path.back = Rate::from_bps((rate / log(dice, 30.0, 300.0)) as u64),
        Cause::BusyHost => {
            let late = seconds(log(dice, 0.005, 0.2));
            let host = &mut world.sender.host;
            *(if dice.below(2) == 0 { &mut host.timers } else { &mut host.reads }) = late;
        }
        _ => {}
    }
}
