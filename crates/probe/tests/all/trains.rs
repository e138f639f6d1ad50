//! Trains show the rate of the bottleneck, and disturb nothing else.

use thalweg_probe::{Findings, Summary, Train, Way, model, train_rates};
use thalweg_units::Duration;

use crate::judge::path;
use crate::world::World;

fn measured(toml: &str, loss: &str) -> (Summary, Vec<Train>, u64, u64) {
    let hops = path(&toml.replace("LOSS", loss));
    let world = World { length: Duration::from_secs(60), trains: true, ..World::over(&hops, 4) };
    let (trace, trains, server) = world.run_trains();
    let mut summary = Summary::of(Findings::of(&trace).unwrap());
    summary.trains = train_rates(&trains, trace.started);
    (summary, trains, server.counts().sent_bytes, server.counts().received_bytes)
}

const PATH: &str = "up = { rate = \"5 Mbps\", delay = \"10 ms\", queue = \"500 ms\"LOSS }\n\
                    down = { rate = \"50 Mbps\", delay = \"10 ms\", queue = \"500 ms\"LOSS }";

#[test]
fn the_rate_of_each_way_is_measured() {
    let (summary, trains, sent, received) = measured(PATH, "");
    // One a second, the first after a second.
    assert_eq!(trains.iter().filter(|train| train.way == Way::Up).count(), 59);
    assert_eq!(trains.iter().filter(|train| train.way == Way::Down).count(), 59);
    for (found, rate) in summary.trains.iter().zip([5e6, 50e6]) {
        assert!((found.rate.bps() as f64 / rate - 1.0).abs() < 0.02, "{found:?}");
        assert_eq!(found.whole, 59);
    }
    assert_eq!(summary.trains.len(), 2, "{:?}", &trains[..6]);
    assert!(sent <= received, "{sent} of {received}");
    let text = model(&summary);
    assert!(text.contains("rate = \"49") || text.contains("rate = \"50"), "{text}");
    // Suspensions and queues are as without trains: a train is 31 ms long on the way up.
    assert!(summary.events.is_empty() && summary.up.queues.is_empty() && summary.up.fate.lost == 0);
}

#[test]
fn a_train_that_lost_some_is_answered_with_as_many_and_counts_for_nothing() {
    let (summary, trains, sent, received) = measured(PATH, ", loss = 0.03");
    let whole = trains.iter().filter(|train| train.come == train.sent).count();
    assert!(whole > 30 && whole < trains.len() * 9 / 10, "{whole} of {}", trains.len());
    assert!(trains.iter().all(|train| train.come <= train.sent && train.sent <= 16));
    assert!(summary.trains.iter().all(|found| found.whole < found.sent));
    assert_eq!(summary.trains.len(), 2);
    assert!(
        summary.trains.iter().zip([5e6, 50e6]).all(|(found, rate)| (found.rate.bps() as f64 / rate - 1.0).abs() < 0.02)
    );
    assert!(sent <= received, "{sent} of {received}");
}
