//! The path under load: its rate, its queue, and that nothing else is disturbed.

use thalweg_probe::{Summary, Vantage, Way, answer, model};
use thalweg_units::Duration;

use crate::judge::path;
use crate::world::{HostClock, World};

/// Forty seconds with a load of ten each way; what was measured.
fn loaded(toml: &str, seed: u64) -> Summary {
    let at = Duration::from_secs;
    let world = World {
        length: at(40),
        server_clock: HostClock { origin: 9_000_000, drift: -30 },
        loads: vec![(Way::Up, at(10), at(20)), (Way::Down, at(23), at(33))],
        ..World::over(&path(toml), seed)
    };
    world.measured().unwrap()
}

fn near(value: f64, expected: f64, share: f64) -> bool {
    (value / expected - 1.0).abs() <= share
}

#[test]
fn rate_and_queue_of_each_way_are_measured() {
    for (up, down, queue, delay) in [(2.0, 20.0, 200.0, 10.0), (10.0, 50.0, 60.0, 40.0), (1.0, 1.0, 400.0, 100.0)] {
        let way = |rate: f64| format!("{{ rate = \"{rate} Mbps\", delay = \"{delay} ms\", queue = \"{queue} ms\" }}");
        let summary = loaded(&format!("up = {}\ndown = {}", way(up), way(down)), 3);
        for (load, rate) in summary.loads.iter().zip([up, down]) {
            assert!(near(load.rate.bps() as f64, rate * 1e6, 0.05), "{load:?}");
            assert!(near(load.queue.as_secs_f64() * 1e3, queue, 0.15), "{load:?}");
            // Nearly as many round trips as the full queue leaves room for; at least, as the queue is not always full.
            let least = 60e3 / (2.0 * delay + queue);
            assert!((least * 0.9..least * 3.0).contains(&(load.rpm as f64)), "{load:?} {least}");
        }
        assert_eq!(summary.loads.len(), 2);
        // What the load did is not what the path does.
        assert!(summary.up.queues.is_empty() && summary.down.queues.is_empty() && summary.events.is_empty());
        assert_eq!((summary.up.fate.lost, summary.down.fate.lost), (0, 0));
        let p99 = summary.round_trips.quantile(99, 100).as_secs_f64() * 1e3;
        assert!(p99 < 2.0 * delay + 6.0, "{p99}");
        let meaning = answer(&summary, &Vantage::default()).meaning;
        assert!(meaning.iter().any(|line| line.starts_with("downloads: ")), "{meaning:?}");
        assert!(meaning.iter().all(|line| !line.contains("not measured")), "{meaning:?}");
    }
}

#[test]
fn a_lossy_path_is_as_fast_as_it_is() {
    let way = "{ rate = \"20 Mbps\", delay = \"20 ms\", queue = \"100 ms\", loss = 0.02 }";
    let summary = loaded(&format!("up = {way}\ndown = {way}"), 1);
    assert!(
        summary.loads.iter().all(|load| near(load.rate.bps() as f64, 20e6, 0.05)),
        "{:?} {:?}",
        summary.loads,
        summary.up.fate.loss()
    );
}

#[test]
fn a_model_has_the_rate_and_the_queue_that_were_measured() {
    let way = |rate| format!("{{ rate = \"{rate} Mbps\", delay = \"30 ms\", queue = \"150 ms\" }}");
    let first = loaded(&format!("up = {}\ndown = {}", way(3), way(16)), 5);
    let text = model(&first);
    let body: String = text.lines().skip(2).map(|line| format!("{line}\n")).collect();
    let again = loaded(&body.replace("path.model", "path.test"), 6);
    for way in Way::BOTH {
        let (one, two) = (first.load(way).unwrap(), again.load(way).unwrap());
        assert!(near(two.rate.bps() as f64, one.rate.bps() as f64, 0.05), "{text}");
        assert!(near(two.queue.as_secs_f64(), one.queue.as_secs_f64(), 0.2), "{one:?} {two:?} {text}");
    }
    assert!(near(again.round_trips.quantile(1, 2).as_secs_f64(), first.round_trips.quantile(1, 2).as_secs_f64(), 0.02));
}
