//! One fault at a time, and the sentence about it.

use thalweg_link::PathConfig;
use thalweg_probe::{Answer, Cause, Findings, FirstHop, Summary, Vantage, answer};
use thalweg_units::Duration;

use crate::judge::path;
use crate::world::{Stop, World};

const BROADBAND: &str = "up = { rate = \"10 Mbps\", delay = \"10 ms\", queue = \"500 ms\" }\n\
                         down = { rate = \"50 Mbps\", delay = \"10 ms\", queue = \"500 ms\" }";

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn minutes(hops: &[PathConfig], seed: u64) -> World {
    World { length: ms(180_000), ..World::over(hops, seed) }
}

fn asked(world: &World) -> Answer {
    answer(&Summary::of(Findings::of(&world.run().0).unwrap()), &Vantage::default())
}

#[test]
fn each_fault_has_its_sentence() {
    let broadband = path(BROADBAND);
    for seed in 1..=3 {
        let quiet = minutes(&broadband, seed);
        assert_eq!(asked(&quiet).cause, Cause::Nothing);
        // A busy computer: fifty pauses.
        let stops = |k: u64| Stop { from: ms(3_000 * k + 71 * seed), until: ms(3_000 * k + 71 * seed + 60 + k) };
        let busy = World { client_stops: (1..50).map(stops).collect(), ..quiet.clone() };
        assert_eq!(asked(&busy).cause, Cause::ThisComputer);
        let busy = World { server_stops: (1..50).map(stops).collect(), ..quiet.clone() };
        assert_eq!(asked(&busy).cause, Cause::ServerComputer);
        let wifi = minutes(&path("preset = \"wifi\""), seed);
        assert_eq!(asked(&wifi).cause, Cause::Suspensions, "{}", asked(&wifi).sentence);
        // 2 % more than the link carries, for ten seconds in a minute.
        for (up, rate, cause) in [(true, 10_200_000, Cause::QueueUp), (false, 51_000_000, Cause::QueueDown)] {
            let apart = Duration::from_nanos(1500 * 8 * 1_000_000_000 / rate);
            let burst =
                |from: Duration| (0..).map(move |k| from + apart * k).take_while(move |at| *at < from + ms(10_000));
            let cross = (0..3).flat_map(|k| burst(ms(60_000 * k + 20_000))).map(|at| (at, up)).collect();
            let queue = World { cross, ..quiet.clone() };
            assert_eq!(asked(&queue).cause, cause, "{}", asked(&queue).sentence);
        }
        let lossy = minutes(&path(&BROADBAND.replace("\"500 ms\" }\n", "\"500 ms\", loss = 0.05 }\n")), seed);
        assert_eq!(asked(&lossy).cause, Cause::Loss, "{}", asked(&lossy).sentence);
    }
}

#[test]
fn the_first_hop_tells_where_it_was() {
    let summary = Summary::of(Findings::of(&minutes(&path("preset = \"wifi\""), 2).run().0).unwrap());
    let asked = |hop| answer(&summary, &Vantage { first_hop: Some(hop), one_computer: false });
    let hop = FirstHop { answers: 90, held: 3, ..FirstHop::default() };
    let wifi = asked(hop);
    assert_eq!(wifi.cause, Cause::FirstHop);
    assert!(wifi.sentence.starts_with("The first hop, which is the Wi-Fi if this computer uses one, stopped 3 times "));
    assert!(
        wifi.evidence.iter().any(|line| line.contains("90 answers; 3 suspensions held it, ")),
        "{:?}",
        wifi.evidence
    );
    let beyond = asked(FirstHop { held: 0, passed: 2, ..hop });
    assert_eq!(beyond.cause, Cause::Beyond);
    assert_eq!(asked(FirstHop { passed: 2, ..hop }).cause, Cause::Suspensions);
}

#[test]
fn on_one_computer_either_end_is_this_one() {
    let stops = |k: u64| Stop { from: ms(3_000 * k), until: ms(3_000 * k + 60) };
    let busy = World { server_stops: (1..50).map(stops).collect(), ..minutes(&path(BROADBAND), 1) };
    let summary = Summary::of(Findings::of(&busy.run().0).unwrap());
    let cause = |one_computer| answer(&summary, &Vantage { one_computer, ..Vantage::default() }).cause;
    assert_eq!((cause(true), cause(false)), (Cause::ThisComputer, Cause::ServerComputer));
}

#[test]
fn a_time_in_which_neither_end_of_one_computer_ran_counts_once() {
    let stops =
        |from: u64| (1..20).map(move |k| Stop { from: ms(3_000 * k + from), until: ms(3_000 * k + from + 200) });
    let (client_stops, server_stops) = (stops(0).collect(), stops(100).collect());
    let busy = World { client_stops, server_stops, ..minutes(&path(BROADBAND), 1) };
    let summary = Summary::of(Findings::of(&busy.run().0).unwrap());
    let answer = answer(&summary, &Vantage { one_computer: true, ..Vantage::default() });
    let said = "it paused 19 times, for up to 300 ms, 5.7 s in all of 180 s";
    assert!(answer.sentence.contains(said), "{}", answer.sentence);
}

#[test]
fn a_short_measurement_tells_nothing() {
    let short = World { length: ms(4_000), ..minutes(&path(BROADBAND), 1) };
    let answer = asked(&short);
    assert_eq!(answer.cause, Cause::Unknown);
    assert_eq!(answer.sentence, "Cannot tell, because 3.98 s are too short a time: measure for 10 s or longer.");
}

#[test]
fn words_say_what_was_seen() {
    let answer = asked(&minutes(&path("preset = \"wifi\""), 2));
    println!("{}\n{}\n{}", answer.sentence, answer.evidence.join("\n"), answer.meaning.join("\n"));
    assert!(answer.sentence.starts_with("A link stopped ") && answer.sentence.contains("as Wi-Fi does"));
    assert!(answer.evidence.iter().any(|line| line.starts_with("suspensions: ")), "{:?}", answer.evidence);
}
