//! Suspensions and clocks are found as the lab has them.

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
