//! Faults of a path and of its ends, one at a time.

use thalweg_probe::{BreakCause, End, Findings, Summary, Vantage, Way, answer};
use thalweg_units::Duration;

use crate::judge::{judge, path};
use crate::world::{HostClock, Stop, World};

const MS: i64 = 1_000_000;
const BROADBAND: &str = "up = { rate = \"10 Mbps\", delay = \"10 ms\", queue = \"500 ms\" }\n\
                         down = { rate = \"50 Mbps\", delay = \"10 ms\", queue = \"500 ms\" }";

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn minute(toml: &str) -> World {
    World { length: ms(60_000), ..World::over(&path(toml), 1) }
}

fn near(value: i64, expected_ms: i64, tolerance_ms: i64) -> bool {
    (value - expected_ms * MS).abs() <= tolerance_ms * MS
}

fn median(mut values: Vec<i64>) -> i64 {
    values.sort_unstable();
    values[values.len() / 2]
}

#[test]
fn a_quiet_path_has_its_delays_and_nothing_else() {
    let (trace, _, server) = minute(BROADBAND).run();
    let findings = Findings::of(&trace).unwrap();
    assert!(findings.events.is_empty() && findings.pauses.is_empty(), "{:?} {:?}", findings.events, findings.pauses);
    assert!(findings.round_trips.len() > 2950 && findings.round_trips.iter().all(|(_, trip)| near(*trip, 20, 1)));
    for way in Way::BOTH {
        let fate = &findings.way(way).fate;
        assert!(fate.sent >= 2970, "{fate:?}");
        assert_eq!((fate.lost, fate.duplicates, fate.reordered), (0, 0, 0), "{}", way.name());
        assert!(findings.way(way).queues.is_empty());
        assert!(near(median(findings.way(way).passages.iter().filter_map(|passage| passage.delay()).collect()), 10, 1));
    }
    assert_eq!(findings.unknown, 0);
    assert!(server.counts().sent_bytes < server.counts().received_bytes, "{:?}", server.counts());
}

#[test]
fn a_queue_is_no_suspension_whichever_way_it_is() {
    for up in [true, false] {
        let rate = if up { 10_000_000 } else { 50_000_000 };
        let mut world = minute(BROADBAND);
        // A tenth more than the link carries for three seconds: a queue of up to 300 ms.
        let apart = Duration::from_nanos(1500 * 8 * 1_000_000_000 / (rate / 10 * 11));
        world.cross =
            (0..).map(|k| ms(20_000) + apart * k).take_while(|at| *at < ms(23_000)).map(|at| (at, up)).collect();
        let (trace, _, _) = world.run();
        let findings = Findings::of(&trace).unwrap();
        assert!(findings.events.is_empty(), "{:?}", findings.events);
        let way = if up { Way::Up } else { Way::Down };
        let [queue] = &findings.way(way).queues[..] else { panic!("{:?}", findings.way(way).queues) };
        assert!(findings.way(way.back()).queues.is_empty());
        assert!(near(queue.start, 20_000, 500) && near(queue.end, 23_300, 500), "{queue:?}");
        assert!(queue.most > 200 * MS && queue.most < 320 * MS, "{queue:?}");
    }
}

#[test]
fn suspensions_are_found_beside_a_queue() {
    // Two thirds of the link are busy.
    let suspended = format!("{BROADBAND}\nsuspend = {{ at = \"5 s\", for = \"200 ms\", every = \"4 s\" }}");
    let mut world = minute(&suspended);
    world.cross = (0..33_000).map(|k| (Duration::from_micros(1800) * k, true)).collect();
    let tally = judge(&world, true);
    assert_eq!((tally.true_ones, tally.found, tally.false_ones), (28, 28, 0), "{tally:?}");
}

#[test]
fn suspensions_are_found_on_a_slow_way_and_beside_much_traffic() {
    let wifi = path("preset = \"wifi\"");
    let crowded: Vec<_> = (0..1_000_000)
        .map(|k| (Duration::from_micros(600) * k + Duration::from_micros(k as u64 * 7919 % 450), k % 2 == 0))
        .collect();
    let slow = path(
        "wifi = true\nup = { rate = \"0.1 Mbps\", delay = \"0 s\" }\ndown = { rate = \"20 Mbps\", delay = \"0 s\" }",
    );
    for (hops, cross) in [(&wifi, crowded), (&slow, Vec::new())] {
        let mut all = crate::judge::Tally::default();
        (1..=3).for_each(|seed| all.add(&judge(&World { cross: cross.clone(), ..World::over(hops, seed) }, false)));
        assert!(all.true_ones > 40 && all.found * 100 >= all.true_ones * 90, "{all:?}");
        assert!(all.false_ones * 100 <= all.reported * 10 && all.way_right * 100 >= all.events * 94, "{all:?}");
    }
}

#[test]
fn suspensions_are_found_where_one_datagram_in_five_is_held() {
    for (length, every) in [("200 ms", "1 s"), ("50 ms", "300 ms"), ("2 s", "15 s")] {
        let suspended = format!("{BROADBAND}\nsuspend = {{ at = \"1.1 s\", for = \"{length}\", every = \"{every}\" }}");
        let tally = judge(&minute(&suspended.replace("500 ms", "5 s")), true);
        assert!(tally.true_ones >= 8 && tally.false_ones == 0, "{tally:?}");
        assert_eq!((tally.found, tally.length_right), (tally.true_ones, tally.true_ones), "{tally:?}");
    }
}

#[test]
fn suspensions_in_a_row_are_a_series() {
    let series = format!(
        "{BROADBAND}\nsuspend = [{{ at = \"10 s\", for = \"100 ms\" }}, {{ at = \"10.2 s\", for = \"100 ms\" }}, \
         {{ at = \"10.5 s\", for = \"150 ms\" }}, {{ at = \"30 s\", for = \"100 ms\" }}]"
    );
    let (trace, _, _) = minute(&series).run();
    let findings = Findings::of(&trace).unwrap();
    let found: Vec<_> = findings.events.iter().map(|event| (event.way(), event.series)).collect();
    assert_eq!(found, [("both", Some(0)), ("both", Some(0)), ("both", Some(0)), ("both", None)]);
    let (held, lost) = findings.events[3].datagrams();
    assert!((8..=12).contains(&held) && lost == 0, "{held} held, {lost} lost");
}

#[test]
fn loss_reordering_and_duplicates_are_counted() {
    let lossy = "up = { rate = \"10 Mbps\", delay = \"10 ms\", queue = \"100 ms\", loss = 0.02 }\n\
                 down = { rate = \"10 Mbps\", delay = \"10 ms\", queue = \"100 ms\", duplicate = 0.03, \
                 jitter = { mean = \"15 ms\", reorders = true } }";
    let (trace, _, _) = minute(lossy).run();
    let findings = Findings::of(&trace).unwrap();
    let (up, down) = (&findings.up.fate, &findings.down.fate);
    assert!((40..85).contains(&up.lost) && up.duplicates == 0, "{up:?}");
    assert!(up.bursts.len() as u64 <= up.lost && up.gilbert().unwrap().begins < 0.03);
    assert!(down.lost <= 1 && (60..125).contains(&down.duplicates) && down.reordered > 100, "{down:?}");
    assert!(findings.events.is_empty(), "{:?}", findings.events);
}

#[test]
fn marks_are_followed_each_way() {
    let bleaching = BROADBAND.replace("rate = \"50 Mbps\"", "ecn = \"bleach\", rate = \"50 Mbps\"");
    let (trace, _, _) = minute(&bleaching).run();
    let summary = Summary::of(Findings::of(&trace).unwrap());
    let (up, down) = (summary.up.fate.ecn, summary.down.fate.ecn);
    assert!((180..190).contains(&up.kept) && up.cleared == 0 && up.congested == 0, "{up:?}");
    assert!(down.kept == 0 && (180..190).contains(&down.cleared), "{down:?}");
    let line = "ECN: marks survive up, marks are taken away down";
    assert!(answer(&summary, &Vantage::default()).evidence.iter().any(|each| each == line));
}

#[test]
fn an_outage_is_a_burst_of_loss() {
    let (trace, breaks, _) = minute(&format!("{BROADBAND}\noutage = {{ at = \"20 s\", for = \"2 s\" }}")).run();
    let findings = Findings::of(&trace).unwrap();
    for way in Way::BOTH {
        let fate = &findings.way(way).fate;
        let [burst] = &fate.bursts[..] else { panic!("{fate:?}") };
        assert!((99..=101).contains(&burst.count) && near(burst.start, 20_000, 30), "{burst:?}");
    }
    assert!(findings.events.is_empty(), "{:?}", findings.events);
    assert!(breaks.is_empty());
}

#[test]
fn a_stopped_end_is_named() {
    for end in [End::Client, End::Server] {
        let mut world = minute("preset = \"wifi\"");
        let stops = vec![Stop { from: ms(20_000), until: ms(20_300) }];
        match end {
            End::Client => world.client_stops = stops,
            End::Server => world.server_stops = stops,
        }
        let (trace, _, _) = world.run();
        let findings = Findings::of(&trace).unwrap();
        let [pause] = &findings.pauses[..] else { panic!("{:?}", findings.pauses) };
        assert_eq!(pause.end_of_path, end);
        assert!(near(pause.start, 20_000, 25) && near(pause.end, 20_300, 5), "{pause:?}");
        let is_there = |start: i64, stop: i64| start < 20_300 * MS && stop > 20_000 * MS;
        assert!(!findings.events.iter().any(|event| is_there(event.start, event.end)), "{:?}", findings.events);
    }
}

#[test]
fn a_restarted_server_is_noticed_and_measuring_goes_on() {
    let mut world = minute(BROADBAND);
    world.restart = Some(ms(30_000));
    let (trace, breaks, _) = world.run();
    let [gap] = breaks[..] else { panic!("{breaks:?}") };
    assert_eq!(gap.cause, BreakCause::Unknown);
    let findings = Findings::of(&trace).unwrap();
    assert!(findings.events.is_empty() && findings.pauses.is_empty());
    // What was on the way when the server ended is of unknown fate, and nothing counts as lost.
    for way in Way::BOTH {
        assert_eq!(findings.way(way).fate.lost, 0, "{:?}", findings.way(way).fate);
        assert!(findings.way(way).fate.sent > 2900, "{:?}", findings.way(way).fate);
    }
    assert!((1..10).contains(&findings.unknown), "{}", findings.unknown);
}

#[test]
fn a_session_that_ended_in_an_outage_is_not_taken_up() {
    // Longer than a session lasts, and shorter than the client is patient.
    let (trace, breaks, _) = minute(&format!("{BROADBAND}\noutage = {{ at = \"10 s\", for = \"6 s\" }}")).run();
    let [gap] = breaks[..] else { panic!("{breaks:?}") };
    assert_eq!(gap.cause, BreakCause::Unknown);
    let findings = Findings::of(&trace).unwrap();
    assert!(findings.events.is_empty(), "{:?}", findings.events);
    assert!(findings.down.fate.duplicates == 0 && findings.round_trips.iter().all(|(_, trip)| *trip < 30 * MS));
}

#[test]
fn a_long_outage_ends_the_session_and_another_begins() {
    let (trace, breaks, _) = minute(&format!("{BROADBAND}\noutage = {{ at = \"20 s\", for = \"12 s\" }}")).run();
    let [gap] = breaks[..] else { panic!("{breaks:?}") };
    assert_eq!(gap.cause, BreakCause::Silent);
    assert!(gap.until.is_some());
    let findings = Findings::of(&trace).unwrap();
    assert!(findings.up.passages.last().unwrap().sent > 59_000 * MS);
}

#[test]
fn a_slow_way_up_carries_the_stream() {
    let slow = "up = { rate = \"0.1 Mbps\", delay = \"20 ms\", queue = \"1 s\" }\ndown = { rate = \"10 Mbps\", delay = \"20 ms\" }";
    let tally = judge(&World { server_clock: HostClock { origin: 1, drift: 50 }, ..minute(slow) }, true);
    assert_eq!((tally.reported, tally.outside), (0, 0), "{tally:?}");
}

#[test]
fn the_same_seed_measures_the_same() {
    let world = minute("preset = \"wifi\"");
    assert_eq!(world.run().0, world.run().0);
}
