//! Transfers that are slow for one reason.

use thalweg_link::Policer;
use thalweg_units::Duration;
use thalweg_why::Cause;
use thalweg_why::world::{Credit, Load, Path, Sender, World};

use crate::draw::draw;
use crate::logged::{answer, answer_of_both, both_logs, log};

/// 2 MB over 20 Mbps and 60 ms.
pub fn world() -> World {
    let rate = "20 Mbps".parse().unwrap();
    World {
        path: Path::clean(rate, Duration::from_millis(60), 150_000),
        credit: None,
        sender: Sender::default(),
        load: Load { bytes: 2_000_000, is_up: false, pieces: 1, pause: Duration::ZERO },
        seed: 1,
    }
}

/// The sentence, and the primary cause. How long a sender takes that repairs what is late is a matter of chance, and a
/// short transfer that was interrupted shows little of its path: the cause is right then, but there may be no figures.
fn told(world: &World) -> (String, Option<Cause>) {
    let answer = answer(world).unwrap();
    if !answer.is_reproduced() {
        // Behind a thin way back, a late host or a drop of the MTU, a path shows little of itself, too.
        let hard = [Cause::Reordering, Cause::Interruption, Cause::WayBack, Cause::BusyHost, Cause::BlackHole];
        if !hard.iter().any(|cause| world.has(*cause)) {
            return ("not reproduced".to_owned(), None);
        }
        return (format!("Slow because of {}: ", answer.primary().map_or("", Cause::name)), answer.primary());
    }
    let next = answer.next().unwrap();
    let report = answer.report(next);
    assert_eq!(report.cause, answer.primary());
    (report.sentence, report.cause)
}

fn window(bytes: u64) -> Option<[Credit; 2]> {
    Some([Credit { initial: bytes, most: bytes }, Credit { initial: 1 << 30, most: 1 << 30 }])
}

#[test]
fn each_cause_is_told_by_itself_in_both_directions() {
    let plain = world();
    let mut cases = Vec::new();
    cases.push((Cause::ReceiveWindow, World { credit: window(40_000), ..plain.clone() }));
    let paused = Load { pieces: 10, pause: Duration::from_millis(300), ..plain.load };
    cases.push((Cause::Application, World { load: paused, ..plain.clone() }));
    let mut capped = plain.clone();
    capped.sender.max_rate = Some("6 Mbps".parse().unwrap());
    cases.push((Cause::RateLimit, capped));
    let mut long = plain.clone();
    long.path.round_trip = Duration::from_millis(400);
    (long.path.rate, long.path.back) = ("100 Mbps".parse().unwrap(), "100 Mbps".parse().unwrap());
    long.path.queue = 2_000_000;
    long.load.bytes = 3_000_000;
    long.sender.policies = "controller=new-reno, start=standard, reordering=fixed".parse().unwrap();
    cases.push((Cause::Start, long));
    let mut lossy = plain.clone();
    lossy.path.loss = 0.03;
    lossy.sender.policies = "controller=new-reno, start=standard, reordering=fixed".parse().unwrap();
    cases.push((Cause::ChanceLoss, lossy));
    let mut reordering = plain.clone();
    reordering.path.reorder = Some((0.05, Duration::from_millis(40)));
    reordering.sender.policies = "controller=new-reno, reordering=fixed, undo=off".parse().unwrap();
    cases.push((Cause::Reordering, reordering));
    let mut policed = plain.clone();
    policed.path.policer = Some(Policer { rate: "5 Mbps".parse().unwrap(), burst: 60_000 });
    cases.push((Cause::Policer, policed));
    let mut dropped = plain.clone();
    dropped.path.mtu = Some((Duration::from_millis(700), 1300));
    dropped.sender.policies = "controller=new-reno, start=standard, reordering=fixed, probe=rfc".parse().unwrap();
    cases.push((Cause::BlackHole, dropped));
    let mut thin = plain.clone();
    thin.path.back = "100 kbps".parse().unwrap();
    cases.push((Cause::WayBack, thin));
    let mut busy = plain.clone();
    busy.sender.host.reads = Duration::from_millis(150);
    cases.push((Cause::BusyHost, busy));
    let mut brief = plain.clone();
    (brief.path.rate, brief.path.back) = ("1 Mbps".parse().unwrap(), "1 Mbps".parse().unwrap());
    (brief.path.round_trip, brief.path.queue) = (Duration::from_millis(80), 60_000);
    brief.load.bytes = 40_000;
    cases.push((Cause::Handshake, brief));
    let mut out = plain.clone();
    out.path.outages.push((Duration::from_millis(500), Duration::from_millis(1700)));
    cases.push((Cause::Interruption, out));
    let mut held = plain;
    held.load.bytes = 6_000_000;
    held.path.suspensions.push((Duration::from_millis(500), Duration::from_millis(1300)));
    cases.push((Cause::Interruption, held));
    for (cause, mut world) in cases {
        for is_up in [false, true] {
            world.load.is_up = is_up;
            let runs = [1, 2, 3].map(|seed| told(&World { seed, ..world.clone() }));
            let right: Vec<_> = runs.iter().filter(|(_, told)| *told == Some(cause)).collect();
            assert!(right.len() > 1, "{cause:?}, up {is_up}: {runs:?}");
            let begins = format!("Slow because of {}: ", cause.name());
            assert!(right.iter().all(|(sentence, _)| sentence.starts_with(&begins)), "{runs:?}");
        }
    }
}

#[test]
fn a_full_path_has_nothing_to_gain() {
    let mut world = world();
    world.load.bytes = 20_000_000;
    let (sentence, told) = told(&world);
    assert_eq!(told, None, "{sentence}");
    assert!(sentence.contains("nothing to gain"), "{sentence}");
}

/// The example of the page on slow transfers: pacing holds the sender back for a third of the time and is no cause. The
/// receive window costs more than half of it.
#[test]
fn where_the_sender_waits_is_not_why_it_is_slow() {
    let mut world = World { seed: 2, ..world() };
    world.path.loss = 0.003;
    world.load.bytes = 10_000_000;
    world.credit = window(120_000);
    let answer = answer(&world).unwrap();
    let report = answer.report(answer.next().unwrap());
    let share = |name: &str| report.waited.iter().find(|(other, _)| other == name).map_or(0.0, |(_, share)| *share);
    assert_eq!(report.cause, Some(Cause::ReceiveWindow));
    assert!(share("pacing") > 0.2, "{:?}", report.waited);
    assert!(report.causes[0].share > 0.5, "{}", report.causes[0].share);
    let text = report.text();
    for part in ["saved without it", "try", "where the sender waited", "the receive window"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn the_same_log_has_the_same_answer() {
    let world = World { credit: window(60_000), ..world() };
    let texts: Vec<String> = (0..2).map(|_| answer(&world).unwrap().report(None).text()).collect();
    assert_eq!(texts[0], texts[1]);
    assert_eq!(log(&world), log(&world));
}

#[test]
fn of_two_days_the_difference_is_named() {
    let mut slow = world();
    let fast = slow.clone();
    slow.path.loss = 0.02;
    slow.sender.policies = "controller=new-reno, start=standard, reordering=fixed".parse().unwrap();
    let fast = World { sender: slow.sender.clone(), ..fast };
    let comparison = answer(&fast).unwrap().compare(&answer(&slow).unwrap()).unwrap();
    assert!(comparison.ratio > 1.5, "{comparison:?}");
    assert!(
        comparison.sentence.starts_with("B took ") && comparison.sentence.contains("of the difference is random loss"),
        "{comparison:?}"
    );
    assert_eq!(comparison.parts[0].0, thalweg_why::Part::ChanceLoss);
    let same = answer(&fast).unwrap().compare(&answer(&fast).unwrap()).unwrap();
    assert!(same.sentence.starts_with("B took as long as A"), "{same:?}");
    let mut short = fast.clone();
    short.load.bytes /= 3;
    let other = answer(&fast).unwrap().compare(&answer(&short).unwrap()).unwrap();
    assert!(other.sentence.contains("not of the same transfer") && other.parts.is_empty(), "{other:?}");
}

#[test]
fn packets_that_come_late_are_the_same_in_the_run() {
    let runs = [1, 2, 3, 4, 5, 6].map(|seed| {
        let mut world = World { seed, ..world() };
        world.path.reorder = Some((0.02, Duration::from_millis(50)));
        world.load.bytes = 250_000;
        world.sender.policies = "reordering=fixed, undo=off".parse().unwrap();
        let answer = answer(&world).unwrap();
        let again = answer.again.unwrap().as_secs_f64() / answer.completion.as_secs_f64();
        (again, !answer.world.path.late.is_empty())
    });
    // Where that does not come out like the log, others are tried.
    let is_near = |(again, are_same): &&(f64, bool)| (again - 1.0).abs() < 0.1 && *are_same;
    assert!(runs.iter().filter(is_near).count() >= 5, "{runs:?}");
}

#[test]
fn a_suspension_that_fills_the_queue_is_none_of_the_sender() {
    let mut world = world();
    (world.path.rate, world.path.back) = ("3.7 Mbps".parse().unwrap(), "2 Mbps".parse().unwrap());
    (world.path.round_trip, world.path.queue) = (Duration::from_millis(17), 15_000);
    world.path.suspensions.push((Duration::from_millis(95), Duration::from_millis(1150)));
    world.load.bytes = 130_000;
    assert_eq!(told(&world).1, Some(Cause::Interruption));
}

#[test]
fn what_left_before_a_limit_took_effect_tells_the_rate() {
    let mut world = world();
    (world.path.rate, world.path.back) = ("1.2 Mbps".parse().unwrap(), "400 kbps".parse().unwrap());
    (world.path.round_trip, world.path.queue) = (Duration::from_millis(10), 15_000);
    world.sender.max_rate = Some("340 kbps".parse().unwrap());
    world.load.bytes = 500_000;
    let answer = answer(&world).unwrap();
    let rate = answer.world.path.rate.bps() as f64 / world.path.rate.bps() as f64;
    assert!(answer.primary() == Some(Cause::RateLimit) && (0.9..1.1).contains(&rate), "{rate}");
}

#[test]
fn acknowledgments_that_wait_for_each_other_do_not_make_a_transfer_longer() {
    for is_up in [false, true] {
        let mut world = world();
        (world.path.rate, world.path.back) = ("400 kbps".parse().unwrap(), "4 kbps".parse().unwrap());
        (world.path.round_trip, world.path.queue) = (Duration::from_millis(15), 15_000);
        world.load = Load { bytes: 400_000, is_up, ..world.load };
        let took = world.run(None).unwrap().unwrap().as_secs_f64();
        let answer = answer(&world).unwrap();
        let read = answer.completion.as_secs_f64() / took;
        assert!((read - 1.0).abs() < 0.1 && answer.primary() == Some(Cause::WayBack), "{is_up}: {read}");
    }
}

#[test]
fn a_slow_path_is_not_read_faster_or_longer_for_what_its_short_queue_loses() {
    for is_up in [false, true] {
        let mut world = world();
        (world.path.rate, world.path.back) = ("500 kbps".parse().unwrap(), "500 kbps".parse().unwrap());
        (world.path.round_trip, world.path.queue) = (Duration::from_millis(10), 15_000);
        world.load = Load { bytes: 100_000, is_up, ..world.load };
        world.sender.policies = "controller=new-reno, start=standard, reordering=fixed".parse().unwrap();
        let answer = answer(&world).unwrap();
        let path = &answer.world.path;
        let rate = path.rate.bps() as f64 / world.path.rate.bps() as f64;
        assert!((0.93..1.07).contains(&rate), "{is_up}: {rate}");
        // A packet takes 24 ms on it.
        assert!(path.round_trip < Duration::from_millis(34), "{is_up}: {:?}", path.round_trip);
    }
}

#[test]
fn an_application_that_pauses_is_told_from_a_host_that_reads_late() {
    let mut world = world();
    world.path.round_trip = Duration::from_millis(190);
    world.load = Load { bytes: 380_000, pieces: 29, pause: Duration::from_millis(15), ..world.load };
    world.sender.host.reads = Duration::from_millis(100);
    let answer = answer(&world).unwrap();
    assert_eq!(answer.primary(), Some(Cause::Application));
    let read = answer.world.path.round_trip;
    assert!(read > Duration::from_millis(80) && read < Duration::from_millis(300), "{read:?}");
}

#[test]
fn the_range_of_a_slow_start_leaves_open_a_policer_that_let_it_through() {
    let mut world = world();
    (world.path.rate, world.path.back) = ("400 Mbps".parse().unwrap(), "400 Mbps".parse().unwrap());
    (world.path.round_trip, world.path.queue) = (Duration::from_millis(100), 5_000_000);
    world.load.bytes = 250_000;
    let first = answer(&world).unwrap().savings[0];
    assert!(first.cause == Cause::Start && first.from < first.share - 0.15, "{first:?}");
}

#[test]
fn an_interruption_may_have_begun_after_a_faster_transfer_would_have_ended() {
    // A start that knows the path is over before the suspension; the log says only that it began within a round trip.
    let mut world = world();
    (world.path.rate, world.path.back) = ("263 Mbps".parse().unwrap(), "115 Mbps".parse().unwrap());
    (world.path.round_trip, world.path.queue) = (Duration::from_millis(124), 2_600_000);
    world.path.suspensions = vec![(Duration::from_millis(226), Duration::from_millis(1214))];
    world.load = Load { bytes: 870_000, is_up: true, ..world.load };
    let truth = world.savings(world.run(None).unwrap().unwrap()).unwrap();
    let share = |cause: Cause| truth.iter().find(|(other, _)| *other == cause).unwrap().1;
    assert!(share(Cause::Start) > share(Cause::Interruption) + 0.1, "{truth:?}");
    let answer = answer(&world).unwrap();
    let start = answer.savings.iter().find(|saving| saving.cause == Cause::Start).unwrap();
    assert!((start.from..start.to).contains(&share(Cause::Start)), "{truth:?} {:?}", answer.savings);
}

#[test]
fn a_slow_path_is_read_as_long_as_it_is() {
    for (is_up, rate, back) in
        [(false, "400 kbps", "400 kbps"), (true, "400 kbps", "400 kbps"), (false, "1 Mbps", "20 kbps")]
    {
        let mut slow = world();
        (slow.path.rate, slow.path.back) = (rate.parse().unwrap(), back.parse().unwrap());
        slow.path.round_trip = Duration::from_millis(150);
        slow.path.queue = 30_000;
        slow.load = Load { bytes: 200_000, is_up, ..slow.load };
        let told = answer(&slow).unwrap();
        let off = |told: Duration, long: Duration| told.as_secs_f64() / long.as_secs_f64() - 1.0;
        let round_trip = off(told.world.path.round_trip, slow.path.round_trip);
        // Sizes of packets on a thin way back are only about known.
        let nearly = if rate == back { 0.04 } else { 0.15 };
        assert!(round_trip.abs() < nearly, "{rate}, {back}: the round trip is off by {round_trip}");
        let completion = off(told.completion, slow.run(None).unwrap().unwrap());
        assert!(
            completion.abs() < if rate == back { 0.02 } else { 0.06 },
            "{rate}, {back}: the time is off by {completion}"
        );
    }
}

#[test]
fn an_outage_beside_a_drop_of_the_mtu_is_told() {
    let mut both = world();
    both.path.mtu = Some((Duration::from_millis(400), 1366));
    both.path.outages = vec![(Duration::from_millis(500), Duration::from_secs(5))];
    let answer = answer(&both).unwrap();
    assert!(answer.world.has(Cause::BlackHole));
    assert_eq!(answer.primary(), Some(Cause::Interruption));
}

#[test]
fn late_packets_are_also_tried_by_chance_and_one_that_was_declared_lost_is_enough() {
    // Many are late; and one is, in the worst of moments.
    for number in [61_068, 61_018] {
        assert_eq!(answer(&draw(number)).unwrap().primary(), Some(Cause::Reordering), "{number}");
    }
}

#[test]
fn a_policer_beside_an_outage_is_told_in_a_large_transfer_as_well() {
    let mut both = world();
    both.load.bytes = 8_000_000;
    both.path.policer = Some(Policer { rate: "7 Mbps".parse().unwrap(), burst: 50_000 });
    both.path.outages = vec![(Duration::from_millis(900), Duration::from_millis(2_400))];
    let answer = answer(&both).unwrap();
    assert!(answer.is_reproduced() && answer.world.has(Cause::Policer), "{:?}", answer.world.path.policer);
    assert!(answer.world.has(Cause::Interruption), "what the policer dropped is not why it was silent");
    assert_eq!(answer.primary(), Some(Cause::Policer));
}

#[test]
fn losses_by_chance_at_a_steady_rate_are_no_policer() {
    let mut lossy = world();
    (lossy.path.loss, lossy.load.bytes) = (0.015, 3_600_000);
    lossy.sender.policies = "controller=new-reno".parse().unwrap();
    for seed in 1..6 {
        lossy.seed = seed;
        assert_eq!(answer(&lossy).unwrap().primary(), Some(Cause::ChanceLoss), "{seed}");
    }
}

#[test]
fn the_receivers_log_tells_the_rate_that_late_acknowledgments_hide() {
    let mut thin = world();
    thin.path.back = "60 kbps".parse().unwrap();
    let [alone, both] = [answer(&thin).unwrap(), answer_of_both(&thin).unwrap()];
    let off =
        |answer: &thalweg_why::Answer| (answer.world.path.rate.bps() as f64 / thin.path.rate.bps() as f64 - 1.0).abs();
    assert!(off(&both) < 0.05 && off(&both) < off(&alone), "{} and {}", off(&both), off(&alone));
    assert_eq!(both.primary(), Some(Cause::WayBack));
    let report = both.report(None);
    assert!(report.receiver.as_ref().is_some_and(|seen| seen.starts_with("2 MB in ")), "{:?}", report.receiver);
    assert!(report.text().contains("what the receiver saw\n  2 MB in "), "{}", report.text());
}

#[test]
fn logs_of_two_connections_and_of_one_end_are_no_two_ends() {
    use thalweg_why::Log;
    let mut other = world();
    (other.seed, other.load.bytes) = (7, 1_000_000);
    let [client, server] = both_logs(&world());
    let read = |log: &[u8]| Log::read(log).unwrap();
    let why = |sender: &[u8], receiver: &[u8]| match read(sender).beside(&mut read(receiver)) {
        Ok(()) => String::new(),
        Err(error) => error.to_string(),
    };
    assert_eq!(why(&server, &client), "");
    assert!(why(&server, &both_logs(&other)[0]).contains("two connections"));
    assert!(why(&client, &server).contains("no log of both") && why(&server, &server).contains("no log of both"));
    // Whose names were taken out is known by what it carried.
    let redacted = |log: &[u8]| {
        let mut out = Vec::new();
        thalweg_why::redact(|| Ok(log), &mut out).unwrap();
        out
    };
    assert_eq!(why(&redacted(&server), &redacted(&client)), "");
    assert!(why(&redacted(&server), &redacted(&both_logs(&other)[0])).contains("packets were sent in one, and "));
}
