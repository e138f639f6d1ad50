//! ECN (RFC 9000 section 13.4).

use super::*;

fn marking() -> Stage {
    let policies = of_rfc9002("controller=new-reno, start=standard, pacing=off");
    let mut stage = Stage::new(Config { policies, trace: true, ..rfc9002() }, false);
    stage.recovery.set_handshake_confirmed(at(0));
    stage
}

#[test]
fn rfc9000_13_4_2_a_path_is_tested_and_becomes_capable() {
    let mut stage = marking();
    assert_eq!(stage.path().ecn_codepoint(), Ecn::Ect0);
    stage.send(10);
    assert_eq!((stage.path().ecn_state(), stage.path().ecn_codepoint()), (EcnState::Unknown, Ecn::NotEct));
    stage.wait(100);
    stage.ack_ecn(0..=9, 10, 0);
    assert_eq!((stage.path().ecn_state(), stage.path().ecn_codepoint()), (EcnState::Capable, Ecn::Ect0));
    let events = stage.events();
    assert!(events.iter().any(|(_, event)| matches!(event, Event::EcnState { new: EcnState::Capable, .. })));
}

#[test]
fn rfc9000_13_4_2_1_an_ack_without_counts_fails_the_path() {
    let mut stage = marking();
    stage.send(3);
    stage.wait(100);
    stage.ack(0..=2);
    assert_eq!(stage.path().ecn_state(), EcnState::Failed);
}

#[test]
fn rfc9000_13_4_2_1_an_ack_that_does_not_raise_the_largest_fails_nothing() {
    let mut stage = marking();
    stage.send(5);
    stage.wait(100);
    stage.ack_ecn(2..=4, 3, 0);
    stage.ack(0..=1);
    assert_eq!(stage.path().ecn_state(), EcnState::Capable);
}

#[test]
fn rfc9002_7_1_a_mark_reduces_once_per_round_trip() {
    let mut stage = marking();
    stage.send(10);
    let window = stage.window();
    stage.wait(100);
    stage.ack_ecn(0..=1, 1, 1);
    assert_eq!(stage.window(), window / 2);
    stage.ack_ecn(0..=4, 2, 3);
    assert_eq!(stage.window(), window / 2, "sent before the recovery period began");
    stage.wait(1);
    stage.send(1);
    stage.wait(100);
    stage.try_ack(DATA, &[0..=10], Duration::ZERO, Some(EcnCounts { ect0: 7, ect1: 0, ce: 4 })).unwrap();
    assert_eq!(stage.path().stats().ecn_events, 2);
    assert_eq!(stage.path().stats().ce_marks, 4);
}

#[test]
fn without_ecn_counts_are_ignored() {
    let mut stage = Stage::sampled("");
    let window = stage.window();
    stage.send(2);
    stage.wait(100);
    stage.ack_ecn(1..=2, 0, 2);
    assert!(stage.window() > window);
}

/// A sender whose marks end slow start, with ten packets in flight of which two arrive after 100 ms, one with a mark.
fn marked(policies: &str) -> (Stage, u64) {
    let policies = of_rfc9002(&format!("pacing=off, {policies}"));
    let mut stage = Stage::new(Config { policies, trace: true, ..rfc9002() }, false);
    stage.recovery.set_handshake_confirmed(at(0));
    stage.send(10);
    let window = stage.window();
    stage.wait(100);
    stage.ack_ecn(0..=1, 1, 1);
    (stage, window)
}

#[test]
fn a_mark_ends_slow_start_where_it_stands_whatever_the_controller() {
    for controller in ["new-reno", "cubic"] {
        for mark in ["end-start", "end-start(later=ignore)"] {
            let (mut stage, window) = marked(&format!("controller={controller}, start=standard, mark={mark}"));
            assert!(stage.window() >= window && stage.window() < window + u64::from(SIZE), "{controller}");
            assert_eq!((stage.path().ssthresh(), stage.path().state_label()), (Some(window), "congestion_avoidance"));
            assert_eq!((stage.path().stats().ce_marks, stage.path().stats().congestion_events), (1, 0));
            let reasons: Vec<StartExit> = stage
                .events()
                .iter()
                .filter_map(|(_, event)| match event {
                    Event::StartExit { reason, .. } => Some(*reason),
                    _ => None,
                })
                .collect();
            assert_eq!(reasons, [StartExit::Mark]);
            // What was sent before the response, and what arrives within one and a half round trips.
            stage.ack_ecn(0..=4, 2, 3);
            stage.send(1);
            stage.wait(140);
            stage.ack_ecn(0..=10, 2, 9);
            assert_eq!((stage.path().stats().ecn_events, stage.path().stats().ce_marks), (0, 9));
            assert!(stage.window() >= window);
        }
    }
}

#[test]
fn a_mark_after_the_quiet_span_reduces_unless_the_policy_ignores_it() {
    for (mark, events) in [("end-start", 1), ("end-start(later=ignore)", 0)] {
        let (mut stage, window) = marked(&format!("controller=new-reno, start=standard, mark={mark}"));
        stage.ack_ecn(0..=9, 9, 1);
        stage.wait(60);
        stage.send(1);
        stage.wait(100);
        stage.ack_ecn(0..=10, 9, 2);
        assert_eq!(stage.path().stats().ecn_events, events);
        assert_eq!(stage.window() < window, events == 1, "{mark}: {}", stage.window());
    }
}

#[test]
fn a_model_reduces_whatever_the_policy_says_of_marks() {
    let (stage, _) = marked("controller=bbr, mark=end-start");
    assert_eq!(stage.path().stats().ecn_events, 1);
}

/// Acknowledges these packets to a scalable sender; so many of all arrived so far were marked.
fn ack_scalable(stage: &mut Stage, range: core::ops::RangeInclusive<u64>, ect1: u64, ce: u64) {
    let counts = EcnCounts { ect0: 0, ect1, ce };
    stage.try_ack(SpaceId::DATA, &[range], Duration::ZERO, Some(counts)).unwrap();
}

#[test]
fn rfc8257_3_3_a_scalable_sender_marks_ect1_and_reduces_by_half_of_the_share_of_marks() {
    for controller in ["new-reno", "cubic"] {
        let policies = of_rfc9002(&format!("pacing=off, start=standard, controller={controller}, mark=scalable"));
        let mut stage = Stage::new(Config { policies, trace: true, ..rfc9002() }, false);
        stage.recovery.set_handshake_confirmed(at(0));
        assert_eq!(stage.path().ecn_codepoint(), Ecn::Ect1);
        let window = stage.window();
        stage.send(10);
        stage.wait(100);
        // The first mark ends slow start. One of two packets is marked: alpha = 1 × 15/16 + 1/2 × 1/16 = 31/32, and the
        // window falls by half of that.
        ack_scalable(&mut stage, 0..=1, 1, 1);
        let reduced = window - window * 31 / 64;
        assert!(stage.window().abs_diff(reduced) <= 1, "{controller}: {} instead of {reduced}", stage.window());
        assert_eq!((stage.path().ssthresh(), stage.path().stats().ecn_events), (Some(stage.window()), 1));
        // Marks of the same round trip are counted, and answered already: the window grows on.
        ack_scalable(&mut stage, 2..=9, 5, 5);
        assert_eq!((stage.path().stats().ce_marks, stage.path().stats().ecn_events), (5, 1));
        assert!((reduced..=reduced + 2 * u64::from(SIZE)).contains(&stage.window()), "{}", stage.window());
        // A loss is answered as without marks, whatever the share is.
        stage.send(5);
        stage.wait(100);
        let before = stage.window();
        ack_scalable(&mut stage, 14..=14, 6, 5);
        let left = if controller == "cubic" { 0.7 } else { 0.5 };
        assert!((stage.window() as f64 / before as f64 - left).abs() < 0.01, "{before} to {}", stage.window());
    }
}

/// A scalable sender with pacing and ten packets in flight, of which it knows the round trip of 100 ms.
fn scalable(policies: &str) -> Stage {
    let policies = of_rfc9002(&format!("start=standard, controller=cubic, mark=scalable, {policies}"));
    let mut stage = Stage::new(Config { policies, trace: true, ..rfc9002() }, false);
    stage.recovery.set_handshake_confirmed(at(0));
    stage.send(10);
    stage.wait(100);
    stage
}

#[test]
fn a_scalable_sender_searches_by_quarters_between_the_first_mark_and_the_second() {
    let mut stage = scalable("pacing=off");
    ack_scalable(&mut stage, 0..=9, 9, 1);
    let mut last = 9;
    let (mut ect1, mut ce) = (9, 1);
    let mut flight = |stage: &mut Stage, marked: u64| {
        let before = stage.window();
        let packets = before / u64::from(SIZE);
        stage.send(packets);
        stage.wait(100);
        (ect1, ce) = (ect1 + packets - marked, ce + marked);
        ack_scalable(stage, last + 1..=last + packets, ect1, ce);
        last += packets;
        (before, packets * u64::from(SIZE))
    };
    for _ in 0..5 {
        let (before, sent) = flight(&mut stage, 0);
        assert!(stage.window().abs_diff(before + sent / 4) <= 1, "{before} to {}", stage.window());
    }
    // The share has started over from a fifth, and fallen by a sixteenth in each of six round trips.
    let (before, sent) = flight(&mut stage, 1);
    let alpha = (0..6).fold(0.2, |alpha, _| alpha * 15.0 / 16.0) + u64::from(SIZE) as f64 / sent as f64 / 16.0;
    let left = stage.window() as f64 / before as f64;
    assert!((left - (1.0 - alpha / 2.0)).abs() < 0.01, "{left} of the window is left at a share of {alpha}");
    // Afterwards a window of acknowledgments adds a datagram.
    let (before, _) = flight(&mut stage, 0);
    assert!((1..=2 * u64::from(SIZE)).contains(&(stage.window() - before)), "{before} to {}", stage.window());
}

#[test]
fn a_loss_ends_the_search_of_a_scalable_sender() {
    let mut stage = scalable("pacing=off");
    ack_scalable(&mut stage, 0..=9, 9, 1);
    stage.send(5);
    stage.wait(100);
    ack_scalable(&mut stage, 14..=14, 10, 1);
    stage.send(1);
    stage.wait(100);
    let before = stage.window();
    ack_scalable(&mut stage, 15..=15, 11, 1);
    assert!(stage.window() < before + u64::from(SIZE) / 4, "{before} to {}", stage.window());
}

#[test]
fn the_search_goes_on_when_a_loss_was_none_and_ends_with_another_answer_to_marks() {
    for is_scalable in [true, false] {
        let mut stage = scalable("pacing=off, undo=episode");
        ack_scalable(&mut stage, 0..=9, 9, 1);
        stage.send(5);
        stage.wait(100);
        ack_scalable(&mut stage, 14..=14, 10, 1);
        ack_scalable(&mut stage, 10..=13, 14, 1);
        assert_eq!(stage.path().stats().undos, 1);
        if !is_scalable {
            let policies = of_rfc9002("start=standard, controller=cubic, mark=reduce, pacing=off, undo=episode");
            stage.recovery.set_policies(stage.now, policies).unwrap();
        }
        let before = stage.window();
        let packets = before / u64::from(SIZE);
        stage.send(packets);
        stage.wait(100);
        ack_scalable(&mut stage, 15..=14 + packets, 14 + packets, 1);
        let grown = stage.window() - before;
        assert_eq!(grown > packets * u64::from(SIZE) / 5, is_scalable, "{grown} of {before}");
    }
}

#[test]
fn a_scalable_sender_paces_what_was_acknowledged_together() {
    for (mark, least, most) in [("scalable", 1, 1), ("reduce", 2, 10)] {
        let mut stage = scalable(&format!("mark={mark}"));
        let counts = if mark == "scalable" { (10, 0) } else { (0, 10) };
        let counts = EcnCounts { ect0: counts.1, ect1: counts.0, ce: 0 };
        stage.try_ack(SpaceId::DATA, &[0..=9], Duration::ZERO, Some(counts)).unwrap();
        // A pause, in which credit is saved up.
        stage.wait(1_000);
        let mut sent = 0;
        while matches!(stage.recovery.budget(stage.now, stage.path), Budget::Now(_)) && sent < 20 {
            stage.send(1);
            sent += 1;
        }
        assert!((least..=most).contains(&sent), "{mark}: {sent}");
    }
}

#[test]
fn a_model_marks_ect0_though_the_policy_is_scalable() {
    let (stage, _) = marked("controller=bbr, mark=scalable");
    assert_eq!((stage.path().ecn_codepoint(), stage.path().stats().ecn_events), (Ecn::Ect0, 1));
}
