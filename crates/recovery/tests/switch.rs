//! Other policies and another rate limit on a path that is in use.

use std::sync::Arc;

use crate::common::world::{Link, World};
use crate::common::{SIZE, Stage, at, ms, of_rfc9002};
use thalweg_recovery::{
    AckEvent, Allowance, Budget, Change, Config, Congestion, Controller, ControllerFactory, NewPath, PathContext,
    PathView, Policies, Recovery, SwitchError, UndoPolicy,
};
use thalweg_units::{Duration, Instant, Rate};

const DATAGRAM: u64 = SIZE as u64;

fn with(stage: &Stage, changes: &str) -> Policies {
    let mut policies = stage.recovery.policies().clone();
    for (field, value) in Policies::items(changes).filter_map(|item| item.split_once('=')) {
        policies.set(field, value).unwrap();
    }
    policies
}

fn switch(stage: &mut Stage, changes: &str) {
    let policies = with(stage, changes);
    stage.recovery.set_policies(stage.now, policies.clone()).unwrap();
    assert_eq!(*stage.recovery.policies(), policies);
}

/// One loss in a window of 11 datagrams, repaired: the path is in congestion avoidance.
fn reduced(policies: &str) -> Stage {
    let mut stage = Stage::sampled(policies);
    let first = stage.next[2];
    stage.fill();
    stage.wait(100);
    stage.ack(first + 1..=first + 9);
    if stage.lost().is_empty() {
        stage.expire();
    }
    assert_eq!(stage.lost()[..1], [first]);
    stage.wait(1);
    stage.send(1);
    stage.wait(100);
    stage.ack(stage.next[2] - 1..=stage.next[2] - 1);
    stage
}

#[test]
fn window_threshold_and_flight_are_carried_over() {
    for (from, to) in [("cubic", "new-reno"), ("new-reno", "cubic")] {
        for mut stage in [Stage::sampled, reduced].map(|stage| stage(&format!("controller={from}"))) {
            stage.send(3);
            let before = (stage.window(), stage.path().ssthresh(), stage.path().bytes_in_flight());
            switch(&mut stage, &format!("controller={to}, start=standard, reduction=prr"));
            let after = (stage.window(), stage.path().ssthresh(), stage.path().bytes_in_flight());
            assert_eq!(before, after, "{from} to {to}");
        }
    }
}

#[test]
fn the_new_controller_decides_on_the_next_reduction() {
    for (from, to, share) in [("cubic", "new-reno", (1, 2)), ("new-reno", "cubic", (7, 10))] {
        let mut stage = Stage::sampled(&format!("controller={from}, reduction=immediate"));
        switch(&mut stage, &format!("controller={to}"));
        let first = stage.next[2];
        stage.fill();
        let window = stage.window();
        stage.wait(100);
        stage.ack(first + 1..=first + 9);
        assert_eq!(stage.path().ssthresh(), Some(window * share.0 / share.1), "{from} to {to}");
    }
}

#[test]
fn a_reduction_taken_back_does_not_bring_the_old_controller_back() {
    let mut stage = Stage::sampled("controller=cubic, reduction=immediate, undo=episode");
    let first = stage.next[2];
    stage.fill();
    let window = stage.window();
    stage.wait(100);
    stage.ack(first + 1..=first + 5);
    assert!(!stage.lost().is_empty() && stage.window() < window);
    switch(&mut stage, "controller=new-reno");
    stage.wait(1);
    stage.ack(first..=first + 5);
    assert!(stage.window() >= window, "taken back");
    stage.wait(1);
    let first = stage.next[2];
    assert!(stage.fill() >= 6);
    let window = stage.window();
    stage.wait(100);
    stage.ack(first + 1..=stage.next[2] - 1);
    assert_eq!(stage.path().ssthresh(), Some(window / 2), "NewReno halves, CUBIC leaves 0.7");
}

#[test]
#[cfg(feature = "study")]
fn a_reduction_under_way_ends_by_the_rule_that_began_it() {
    let run = |to: Option<&str>| {
        let mut stage = Stage::sampled("controller=new-reno, reduction=rate-halving");
        let first = stage.next[2];
        stage.fill();
        stage.wait(100);
        stage.ack(first + 1..=first + 5);
        if let Some(to) = to {
            switch(&mut stage, to);
        }
        let mut windows = vec![stage.window()];
        for number in first + 6..first + 10 {
            stage.wait(1);
            stage.ack(number..=number);
            windows.push(stage.window());
        }
        windows
    };
    assert_eq!(run(None), run(Some("reduction=immediate")));
}

#[test]
fn probes_go_by_the_new_rule_at_once() {
    let mut stage = Stage::sampled("probe=rfc");
    stage.recovery.set_idle_timeout(Some(Duration::from_secs(8)));
    stage.send(1);
    for _ in 0..4 {
        stage.expire();
    }
    let doubled = stage.recovery.timer().unwrap();
    switch(&mut stage, "probe=capped(divisor=32)");
    assert_eq!(stage.recovery.policies().probe.to_string(), "capped(divisor=32)");
    assert!(stage.recovery.timer().unwrap() + Duration::from_secs(1) < doubled);
}

#[test]
fn pacing_can_be_turned_on_and_off() {
    let mut stage = Stage::sampled("");
    assert_eq!(stage.path().pacing_rate(), None);
    switch(&mut stage, "pacing=on");
    assert!(stage.path().pacing_rate().is_some());
    switch(&mut stage, "pacing=off");
    assert_eq!(stage.path().pacing_rate(), None);
}

#[test]
fn undo_off_lets_a_spurious_reduction_stand() {
    let mut stage = Stage::sampled("undo=episode");
    let first = stage.next[2];
    stage.fill();
    stage.wait(100);
    stage.ack(first + 1..=first + 5);
    let reduced = stage.window();
    switch(&mut stage, "undo=off");
    assert_eq!(stage.recovery.policies().undo, UndoPolicy::Off);
    stage.wait(1);
    stage.ack(first..=first + 5);
    assert_eq!((stage.window(), stage.path().stats().undos), (reduced, 0));
}

#[test]
fn estimators_cannot_change_once_there_is_a_sample_and_nothing_else_changes_then() {
    let mut stage = Stage::confirmed("");
    switch(&mut stage, "rtt=per-round, pacing-rtt=short");
    stage.send(1);
    stage.wait(100);
    stage.ack(0..=0);
    let before = stage.recovery.policies().clone();
    for (field, value) in [("rtt", "classic"), ("pacing-rtt", "smoothed"), ("exit-rtt", "short")] {
        let policies = with(&stage, &format!("controller=new-reno, {field}={value}"));
        let error = stage.recovery.set_policies(stage.now, policies).unwrap_err();
        assert!(matches!(&error, SwitchError::Measured { field: of, to, .. } if (*of, to.as_str()) == (field, value)));
        assert!(error.to_string().starts_with(&format!("policy {field} cannot change from ")), "{error}");
        assert_eq!(*stage.recovery.policies(), before);
    }
    // One that was chosen in time is in force: it says what it said before the switch.
    assert_eq!(stage.path().rtt().smoothed, ms(100));
}

/// So many datagrams are always the window.
#[derive(Debug)]
struct Fixed {
    datagrams: u64,
    size: u16,
}

impl Controller for Fixed {
    fn on_ack(&mut self, _event: &AckEvent<'_>) -> Change {
        Change::None
    }
    fn on_datagram_size(&mut self, size: u16) {
        self.size = size;
    }
    fn allowance(&self, path: &PathView<'_>) -> Allowance {
        Allowance::spread(self.datagrams * u64::from(self.size), path, self.size)
    }
}

#[derive(Debug)]
struct FixedFactory(u64);

impl ControllerFactory for FixedFactory {
    fn name(&self) -> &str {
        "fixed"
    }
    fn build(&self, context: &PathContext) -> Box<dyn Controller> {
        Box::new(Fixed { datagrams: self.0, size: context.datagram_size })
    }
}

#[test]
fn a_controller_from_outside_keeps_its_place() {
    let congestion = Congestion::Custom(Arc::new(FixedFactory(20)));
    let policies = Policies { congestion, ..Policies::default() };
    let mut recovery: Recovery<()> = Recovery::new(Config { policies, ..Config::default() }, true);
    recovery.add_path(Instant::ZERO, NewPath::new(SIZE as u16));
    for (field, value) in [("start", "standard"), ("reduction", "prr")] {
        let error = recovery.policies().clone().set(field, value).unwrap_err().to_string();
        assert!(error.contains("controller=custom/fixed"), "{error}");
    }
    let mut policies = recovery.policies().clone();
    policies.set("controller", "new-reno").unwrap();
    let error = recovery.set_policies(Instant::ZERO, policies).unwrap_err();
    assert!(matches!(&error, SwitchError::Family { .. }));
    assert!(error.to_string().contains("controller=custom/fixed"), "{error}");
    let mut policies = recovery.policies().clone();
    policies.set("probe", "rfc").unwrap();
    recovery.set_policies(Instant::ZERO, policies).unwrap();
}

#[test]
fn a_path_added_later_goes_by_the_policies_in_force() {
    let mut stage = Stage::sampled("");
    switch(&mut stage, "pacing=on");
    let path = stage.recovery.add_path(stage.now, NewPath::new(SIZE as u16));
    assert!(stage.recovery.path(path).unwrap().pacing_rate().is_some());
}

#[test]
fn any_switch_at_any_time_keeps_a_transfer_going() {
    let choices: Vec<(&str, &str)> = Policies::catalogue()
        .iter()
        .filter(|field| !field.name.contains("rtt"))
        .flat_map(|field| field.choices.iter().filter(|choice| choice.built).map(|choice| (field.name, choice.name)))
        // A window does not become a model.
        .filter(|(field, name)| *field != "controller" || Policies::has(name, "start"))
        .collect();
    // A step that meets every choice.
    let step = [7, 11, 13].into_iter().find(|step| !choices.len().is_multiple_of(*step)).unwrap();
    let mut link = Link::new(8_000_000, ms(20), 30_000);
    link.lose = Box::new(|number, _| number % 97 == 13);
    let mut world = World::new("", link);
    let mut delivered = 0;
    for turn in 0..3 * choices.len() {
        world.run_for((turn as u64 + 1) * 173);
        assert!(world.delivered > delivered, "turn {turn}");
        delivered = world.delivered;
        let (field, value) = choices[turn * step % choices.len()];
        let mut policies = world.recovery.policies().clone();
        policies.set(field, value).unwrap();
        let before = world.path().window();
        let switched = world.recovery.set_policies(world.now, policies);
        // A window does not become a model; that is refused, and everything stays as it is.
        let is_model = field == "controller" && !Policies::has(value, "start");
        assert_eq!(matches!(switched, Err(SwitchError::Family { .. })), is_model, "{field}={value}: {switched:?}");
        assert_eq!(switched.is_ok(), !is_model, "{field}={value}: {switched:?}");
        assert_eq!(world.path().window(), before);
    }
}

/// Packets delivered from one millisecond to the other.
fn delivered_between(world: &World, from: u64, to: u64) -> u64 {
    world.deliveries.iter().filter(|&&time| time >= at(from) && time < at(to)).count() as u64
}

#[test]
fn a_rate_limit_holds_whatever_the_window_allows() {
    for pacing in ["on", "off"] {
        let mut world = World::new(&format!("pacing={pacing}"), Link::new(80_000_000, ms(20), 200_000));
        world.run_for(1_000);
        // 1.2 MB per second: 1000 packets.
        world.recovery.set_max_rate(world.now, Some(Rate::from_bps(9_600_000)));
        assert_eq!(world.path().pacing_rate(), Some(Rate::from_bps(9_600_000)));
        world.run_for(4_000);
        let packets = delivered_between(&world, 2_000, 4_000);
        assert!((1_900..=2_010).contains(&packets), "pacing={pacing}: {packets} packets in 2 s");
        world.recovery.set_max_rate(world.now, None);
        world.run_for(6_000);
        let packets = delivered_between(&world, 5_000, 6_000);
        assert!(packets > 6_000, "pacing={pacing}: {packets} packets in 1 s without a limit");
    }
}

#[test]
fn rfc9002_7_8_a_window_does_not_grow_while_a_rate_limit_binds() {
    let mut world = World::new("start=standard", Link::new(80_000_000, ms(20), 2_000_000));
    world.recovery.set_max_rate(Instant::ZERO, Some(Rate::from_bps(9_600_000)));
    world.run_for(10_000);
    // 40 ms at 1.2 MB/s, and the burst: slow start doubles what it can make use of, once.
    assert!(world.path().window() <= 2 * (48_000 + 10 * DATAGRAM), "{}", world.path().window());
    assert!(delivered_between(&world, 5_000, 10_000) >= 4_900);
}

#[test]
fn a_rate_of_zero_pauses_and_any_other_resumes() {
    let mut stage = Stage::new(Config { policies: of_rfc9002(""), ..Config::default() }, false);
    stage.recovery.set_handshake_confirmed(Instant::ZERO);
    stage.fill();
    stage.wait(100);
    stage.ack(0..=stage.next[2] - 1);
    stage.recovery.set_max_rate(stage.now, Some(Rate::ZERO));
    // Credit that was there already leaves.
    stage.fill();
    stage.wait(10_000);
    assert!(matches!(stage.recovery.budget(stage.now, stage.path), Budget::Paced(_) | Budget::WindowFull));
    stage.ack(0..=stage.next[2] - 1);
    assert!(matches!(stage.recovery.budget(stage.now, stage.path), Budget::Paced(_)));
    stage.recovery.set_max_rate(stage.now, Some(Rate::from_bps(8_000_000)));
    stage.wait(100);
    assert!(matches!(stage.recovery.budget(stage.now, stage.path), Budget::Now(_)));
}

/// A path with a sampled round trip of 100 ms and a window of 24 MB: without a limit, 2 Gbps and more.
fn wide() -> Stage {
    let congestion = Congestion::Custom(Arc::new(FixedFactory(20_000)));
    let policies = Policies { congestion, ..of_rfc9002("pacing=on") };
    let mut stage = Stage::new(Config { policies, ..Config::default() }, false);
    stage.recovery.set_handshake_confirmed(Instant::ZERO);
    stage.send(1);
    stage.wait(100);
    stage.ack(0..=0);
    stage
}

#[test]
fn a_rate_limit_of_a_gigabit_holds_over_any_span_to_within_128_kb() {
    let rate = Rate::from_bps(1_000_000_000);
    let mut stage = wide();
    stage.recovery.set_max_rate(stage.now, Some(rate));
    stage.wait(50);
    let mut sent = 0;
    for passed in 0..50 {
        sent += stage.fill() * DATAGRAM;
        let most = rate.bytes_in(ms(passed)) + 128_000;
        assert!(sent <= most, "{sent} bytes in {passed} ms, at most {most} should be");
        stage.wait(1);
    }
    // A timer that fires once a millisecond finds most of a millisecond's worth in store.
    assert!(sent >= rate.bytes_in(ms(45)) * 3 / 4, "{sent} bytes in 50 ms");
}

#[test]
fn what_was_gathered_at_a_higher_rate_does_not_leave_at_a_lower_one() {
    for lower in [0, 1_000_000] {
        for limit in [None, Some(Rate::from_bps(1_000_000_000))] {
            let mut stage = wide();
            stage.recovery.set_max_rate(stage.now, limit);
            stage.wait(50);
            // A train has begun.
            stage.send(1);
            assert!(
                matches!(stage.recovery.budget(stage.now, stage.path), Budget::Now(bytes) if bytes > 10 * DATAGRAM)
            );
            stage.recovery.set_max_rate(stage.now, Some(Rate::from_bps(lower)));
            let sent = stage.fill();
            assert!(sent <= 10, "{sent} datagrams at once, limit {limit:?} lowered to {lower} bps");
        }
    }
}

#[test]
fn packets_that_left_in_a_pause_are_no_debt_afterwards() {
    let mut stage = wide();
    stage.recovery.set_max_rate(stage.now, Some(Rate::ZERO));
    stage.send(1_000);
    stage.recovery.set_max_rate(stage.now, Some(Rate::from_bps(8_000_000)));
    stage.wait(10);
    assert!(matches!(stage.recovery.budget(stage.now, stage.path), Budget::Now(_)));
}
