//! ProbeRTT and idleness.

use super::*;

/// Longer round trips than the shortest, until the probe is due.
fn due() -> Stage {
    let mut stage = Stage::at(Phase::Cruise);
    for _ in 0..1_200 {
        if stage.bbr.phase == Phase::ProbeRtt {
            return stage;
        }
        stage.ack(&Ack { rtt: RTT + ms(10), in_flight: Some(BDP * 9 / 10), ..Ack::default() });
    }
    panic!("no probe in a minute: {:?}", stage.phases);
}

#[test]
fn it_halves_the_flight_for_200_ms_and_a_round_and_returns_to_cruise() {
    let mut stage = due();
    let since = stage.now.saturating_since(at(0));
    assert!(since > ms(5_000) && since < ms(8_000), "{since:?}");
    assert_eq!(stage.allowance().window, stage.bbr.bdp((1, 2)));
    let window = stage.bbr.repair.prior_window;
    assert!(window > BDP);
    // It waits for the flight, and from then on 200 ms and a round trip.
    (0..2).for_each(|_| stage.round(&Ack { in_flight: Some(BDP), ..Ack::default() }));
    assert_eq!(stage.bbr.phase, Phase::ProbeRtt);
    let begun = stage.now;
    let low = Ack { rate: LINK.mul_ratio(1, 2), in_flight: Some(BDP / 2 - DATAGRAM), ..Ack::default() };
    stage.until_other(&low, 10);
    let took = stage.now.saturating_since(begun);
    assert!((ms(200)..ms(320)).contains(&took), "{took:?}");
    assert_eq!(stage.bbr.phase, Phase::Cruise);
    assert_eq!(stage.bbr.path.max_bandwidth.value(), LINK, "its own low rate says nothing");
    assert_eq!(stage.bbr.path.min_rtt.value, Some(RTT));
    assert!(stage.allowance().window > BDP, "{}", stage.allowance().window);
}

#[test]
fn one_packet_asks_for_the_acknowledgment_that_can_end_it() {
    let mut stage = due();
    assert!(!stage.bbr.wants_prompt_ack(stage.now), "not before the flight is small");
    let low = Ack { rate: LINK.mul_ratio(1, 2), in_flight: Some(BDP / 2 - DATAGRAM), ..Ack::default() };
    stage.ack(&low);
    let done = stage.now + ms(200);
    assert!(!stage.bbr.wants_prompt_ack(done - RTT), "its acknowledgment would come too soon");
    let first = done - RTT + ms(1);
    assert!(stage.bbr.wants_prompt_ack(first));
    let _ = stage.bbr.on_sent(first, DATAGRAM, BDP / 2);
    assert!(!stage.bbr.wants_prompt_ack(first + ms(1)), "one is enough");
    // The next probe asks again.
    stage.until_other(&low, 10);
    assert_eq!(stage.bbr.phase, Phase::Cruise);
    assert!(!stage.bbr.wants_prompt_ack(stage.now));
    for _ in 0..1_200 {
        stage.ack(&Ack { rtt: RTT + ms(10), in_flight: Some(BDP * 9 / 10), ..Ack::default() });
        if stage.bbr.phase == Phase::ProbeRtt {
            break;
        }
    }
    stage.ack(&low);
    assert!(stage.bbr.wants_prompt_ack(stage.now + ms(200)));
}

#[test]
fn a_probe_that_it_interrupts_ages_the_bandwidth_all_the_same() {
    let mut stage = Stage::at(Phase::Up);
    let slow = Ack { rate: LINK.mul_ratio(1, 2), rtt: RTT + ms(10), ..Ack::default() };
    for _ in 0..2 {
        stage.to(Phase::Up);
        stage.round(&slow);
        stage.now += ms(5_000);
        stage.ack(&slow);
        assert_eq!(stage.bbr.phase, Phase::ProbeRtt);
        (0..2).for_each(|_| stage.round(&slow));
        let half = Ack { in_flight: Some(4 * DATAGRAM), ..slow.clone() };
        stage.until_other(&half, 10);
        assert_eq!(stage.bbr.phase, Phase::Cruise);
        while stage.bbr.phase != Phase::Up {
            stage.ack(&Ack { rtt: RTT, in_flight: Some(4 * DATAGRAM), ..slow.clone() });
        }
    }
    assert_eq!(stage.bbr.path.max_bandwidth.value(), LINK.mul_ratio(1, 2));
}

#[test]
fn a_long_round_trip_is_waited_for() {
    let mut stage = due();
    let begun = stage.now;
    let rtt = ms(600);
    stage.until_other(&Ack { rtt, in_flight: Some(10 * DATAGRAM), rate: LINK.mul_ratio(1, 6), ..Ack::default() }, 10);
    assert!(stage.now.saturating_since(begun) >= rtt / 2);
}

#[test]
fn before_the_path_was_full_it_returns_to_the_start() {
    let mut stage = Stage::new();
    let slow = Ack { limited: true, rtt: RTT + ms(10), ..Ack::default() };
    stage.round(&Ack { limited: true, ..Ack::default() });
    stage.until_other(&slow, 60);
    assert_eq!(stage.bbr.phase, Phase::ProbeRtt);
    stage.until_other(&Ack { limited: true, in_flight: Some(4 * DATAGRAM), ..Ack::default() }, 10);
    assert_eq!(stage.bbr.phase, Phase::Startup);
    assert!(!stage.bbr.startup.full_pipe.reached);
}

#[test]
fn idleness_is_a_probe_too() {
    let mut stage = Stage::at(Phase::Cruise);
    assert_eq!(stage.bbr.on_application_limited(stage.now, true), Change::None);
    stage.now += ms(6_000);
    assert_eq!(stage.bbr.on_restart(stage.now, ms(6_000)), Change::Allowance);
    assert!(stage.bbr.connection.idle_restart);
    stage.ack(&Ack { limited: true, in_flight: Some(4 * DATAGRAM), ..Ack::default() });
    assert!(stage.phases.iter().all(|phase| *phase != Phase::ProbeRtt), "{:?}", stage.phases);
    stage.until_other(&Ack { in_flight: Some(BDP * 9 / 10), ..Ack::default() }, 5);
    assert_ne!(stage.bbr.phase, Phase::ProbeRtt);
}

#[test]
fn after_idleness_the_rate_is_the_bandwidth() {
    let mut stage = Stage::at(Phase::Up);
    let _ = stage.bbr.on_application_limited(stage.now, true);
    let window = stage.allowance().window;
    let _ = stage.bbr.on_restart(stage.now + ms(1_000), ms(1_000));
    assert_eq!((stage.allowance().rate, stage.allowance().window), (Some(LINK.mul_ratio(99, 100)), window));

    let mut stage = Stage::at(Phase::Up);
    let rate = stage.allowance().rate;
    assert_eq!(stage.bbr.on_restart(stage.now + ms(1_000), ms(1_000)), Change::None);
    assert_eq!(stage.allowance().rate, rate, "it was not the application that was silent");
}

#[test]
fn idleness_in_the_probe_ends_it() {
    let mut stage = due();
    (0..2).for_each(|_| stage.ack(&Ack { in_flight: Some(4 * DATAGRAM), ..Ack::default() }));
    assert_eq!(stage.bbr.phase, Phase::ProbeRtt);
    let _ = stage.bbr.on_application_limited(stage.now, true);
    let _ = stage.bbr.on_restart(stage.now + ms(1_000), ms(1_000));
    assert_eq!(stage.bbr.phase, Phase::Cruise);
}
