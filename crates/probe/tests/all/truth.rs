//! Suspensions and clocks are found as the lab has them.

use thalweg_probe::{Event, Findings, Summary, Way};
use thalweg_units::Duration;

use crate::judge::{Tally, judge, path};
use crate::world::{HostClock, World};

#[test]
fn a_wifi_hop_is_measured_as_it_is() {
    let hops = path("preset = \"wifi\"");
    let mut all = Tally::default();
    for seed in 1..=6 {
        let drift = if seed % 2 == 0 { 50 } else { -50 };
        let server_clock = HostClock { origin: 77_000_000_000_000, drift };
        all.add(&judge(&World { server_clock, ..World::over(&hops, seed) }, true));
    }
    let share = |part: u32, whole: u32| f64::from(part) / f64::from(whole);
    assert!(all.true_ones > 100, "{all:?}");
    assert!(share(all.found, all.true_ones) >= 0.97, "{all:?}");
    assert!(share(all.false_ones, all.reported) <= 0.03, "{all:?}");
    assert!(share(all.length_right, all.found) >= 0.95, "{all:?}");
    assert!(share(all.way_right, all.events) >= 0.96, "{all:?}");
    assert_eq!(all.outside, 0, "{all:?}");
    assert!(all.offset_error <= 1_000_000, "{all:?}");
}

#[test]
fn clocks_are_bounded_on_paths_whose_ways_differ() {
    let hops = path("up = { rate = \"5 Mbps\", delay = \"60 ms\" }\ndown = { rate = \"50 Mbps\", delay = \"10 ms\" }");
    for (seed, drift) in [(1, 50), (2, -50), (3, 0), (4, 200)] {
        let client_clock = HostClock { origin: 1 << 50, drift: -drift };
        let server_clock = HostClock { origin: 9, drift };
        let length = Duration::from_secs(60);
        let tally = judge(&World { client_clock, server_clock, length, ..World::over(&hops, seed) }, true);
        assert_eq!((tally.outside, tally.reported), (0, 0), "{tally:?}");
        // The estimate is off by half of what the ways differ by, 25 ms.
        assert!((24_000_000..26_500_000).contains(&tally.offset_error), "{tally:?}");
        assert!((35_000_000..38_000_000).contains(&tally.bound), "{tally:?}");
    }
}

#[test]
fn parts_of_a_long_measurement_add_up_to_the_whole() {
    let server_clock = HostClock { origin: 3, drift: 30 };
    let world = World { server_clock, length: Duration::from_secs(3000), ..World::over(&path("preset = \"wifi\""), 3) };
    let whole = Summary::of(Findings::of(&world.run().0).unwrap());
    let (mut parts, mut most, mut sum) = (0, 0, Summary::default());
    let (rest, _, _) = world.run_in_parts(&mut |(client, now)| {
        most = most.max(client.trace().up.len() + client.trace().down.len());
        sum.add(Findings::of(&client.cut(now)?)?);
        parts += 1;
        Some(())
    });
    sum.add(Findings::of(&rest).unwrap());
    // Four parts of ten minutes, of two streams, and the rest.
    assert!(parts == 4 && most < 63_000, "{parts} parts, {most} datagrams");
    let near =
        |a: &Event, b: &Event| (a.start - b.start).abs() < 1_000_000 && a.way() == b.way() && a.series == b.series;
    assert_eq!(sum.events.len(), whole.events.len());
    assert!(sum.events.iter().zip(&whole.events).all(|(a, b)| near(a, b)));
    for way in Way::BOTH {
        let (sum, whole) = (&sum.way(way).fate, &whole.way(way).fate);
        assert_eq!((sum.sent, sum.lost, sum.duplicates), (whole.sent, whole.lost, whole.duplicates));
    }
    assert_eq!((sum.unknown, sum.course.len()), (whole.unknown, whole.course.len()));
    assert_eq!((sum.spikes.len(), sum.clock.len()), (6, 5));
}
