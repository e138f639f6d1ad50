//! The trace of decisions.

use super::*;

#[test]
fn without_a_listener_nothing_is_recorded() {
    let mut stage = Stage::new(rfc9002(), false);
    stage.send(3);
    stage.ack(0..=2);
    assert_eq!(stage.events(), []);
}

#[test]
fn timers_and_probes_are_traced() {
    let mut stage = Stage::sampled("");
    stage.send(1);
    stage.expire();
    let events = stage.events();
    assert!(events.iter().any(|(_, event)| matches!(event, Event::TimerSet { delay, .. } if *delay == ms(325))));
    assert!(events.iter().any(|(_, event)| matches!(event, Event::PtoExpired { count: 1, .. })));
    stage.ack(1..=1);
    assert!(stage.events().iter().any(|(_, event)| *event == Event::TimerCancelled));
}
