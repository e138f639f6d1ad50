//! Probe timeouts (RFC 9002 section 6.2).

use super::*;

#[test]
fn rfc9002_6_2_1_the_timer_counts_from_the_last_ack_eliciting_packet() {
    let mut stage = Stage::sampled("");
    stage.send(1);
    assert_eq!(stage.recovery.timer(), Some(stage.now + ms(325)));
    stage.wait(10);
    stage.send(1);
    assert_eq!(stage.recovery.timer(), Some(stage.now + ms(325)));
    stage.wait(10);
    stage.send_with(|packet| (packet.ack_eliciting, packet.in_flight) = (false, false));
    assert_eq!(stage.recovery.timer(), Some(stage.now + ms(315)), "packets that elicit nothing do not count");
    assert_eq!(stage.recovery.pto(DATA), ms(325));
    assert_eq!(stage.recovery.pto(SpaceId::Handshake), ms(300));
}

#[test]
fn rfc9002_6_2_1_there_is_no_probe_for_application_data_before_the_handshake_is_confirmed() {
    let mut stage = Stage::new(rfc9002(), false);
    stage.send(1);
    assert_eq!(stage.recovery.timer(), None);
    stage.wait(10);
    stage.recovery.set_handshake_confirmed(stage.now);
    assert_eq!(stage.recovery.timer(), Some(at(0) + ms(999 + 25)));
}

#[test]
fn rfc9002_6_2_1_one_timer_for_the_earliest_space() {
    let mut stage = Stage::new(rfc9002(), false);
    stage.send_in(SpaceId::Initial, 1);
    stage.wait(5);
    stage.send_in(SpaceId::Handshake, 1);
    assert_eq!(stage.recovery.timer(), Some(at(999)));
    assert_eq!(stage.expire(), Timeout::Probe { space: SpaceId::Initial, datagrams: 2 });
}

#[test]
fn rfc9002_6_2_1_the_timer_is_not_set_while_a_loss_time_is() {
    let mut stage = Stage::sampled("");
    stage.send(2);
    stage.wait(100);
    stage.ack(2..=2);
    // Packet 1 was sent 100 ms ago; 9/8 of the round trip is 112.5 ms.
    assert_eq!(stage.recovery.timer(), Some(stage.now + Duration::from_micros(12_500)));
}

#[test]
fn rfc9002_6_2_1_the_backoff_doubles_and_an_acknowledgment_resets_it() {
    let mut stage = Stage::sampled("");
    stage.send(1);
    let mut wait = ms(325);
    for count in 1..=4 {
        let sent = stage.now;
        assert_eq!(stage.expire(), Timeout::Probe { space: DATA, datagrams: 2 });
        assert_eq!(stage.now.saturating_since(sent), wait);
        assert_eq!(stage.recovery.pto_count(), count);
        stage.send(1);
        wait *= 2;
    }
    stage.ack(1..=1);
    assert_eq!(stage.recovery.pto_count(), 0);
}

#[test]
fn rfc9002_6_2_2_acknowledgments_in_initial_do_not_reset_the_backoff_of_an_unvalidated_client() {
    let mut stage = Stage::new(rfc9002(), true);
    stage.send_in(SpaceId::Initial, 2);
    stage.expire();
    assert_eq!(stage.recovery.pto_count(), 1);
    stage.ack_in(SpaceId::Initial, 0..=0, Duration::ZERO);
    assert_eq!(stage.recovery.pto_count(), 1);
    stage.send_in(SpaceId::Handshake, 1);
    stage.ack_in(SpaceId::Handshake, 0..=0, Duration::ZERO);
    assert_eq!(stage.recovery.pto_count(), 0, "a Handshake packet was processed: validated");
}

#[test]
fn rfc9002_6_2_2_discarding_keys_resets_the_backoff() {
    let mut stage = Stage::new(rfc9002(), true);
    stage.send_in(SpaceId::Initial, 1);
    stage.expire();
    stage.recovery.discard(stage.now, SpaceId::Initial);
    assert_eq!(stage.recovery.pto_count(), 0);
    assert_eq!(stage.recovery.bytes_in_flight(stage.path), 0);
}

#[test]
fn rfc9002_6_2_4_a_probe_timeout_declares_nothing_lost() {
    let mut stage = Stage::sampled("");
    stage.send(5);
    let window = stage.window();
    stage.expire();
    assert_eq!(stage.lost(), []);
    assert_eq!(stage.recovery.bytes_in_flight(stage.path), 5 * DATAGRAM);
    assert_eq!(stage.window(), window);
    let old: Vec<u64> = stage.recovery.outstanding_data(DATA).map(|(number, _)| number).collect();
    assert_eq!(old, [1, 2, 3, 4, 5], "what a probe may repeat, oldest first");
}

#[test]
fn rfc9002_6_2_2_1_a_client_with_nothing_in_flight_probes_against_a_deadlock() {
    let mut stage = Stage::new(rfc9002(), true);
    assert_eq!(stage.recovery.timer(), None, "nothing has begun");
    stage.send_in(SpaceId::Initial, 1);
    stage.wait(100);
    stage.ack_in(SpaceId::Initial, 0..=0, Duration::ZERO);
    assert_eq!(stage.recovery.timer(), Some(stage.now + ms(300)), "from now");
    assert_eq!(stage.expire(), Timeout::Probe { space: SpaceId::Initial, datagrams: 1 });
    stage.recovery.set_has_handshake_keys();
    assert_eq!(stage.expire(), Timeout::Probe { space: SpaceId::Handshake, datagrams: 1 });
    stage.recovery.set_peer_validated();
    assert_eq!(stage.recovery.timer(), None);
}

#[test]
fn rfc9002_6_2_2_1_early_data_in_flight_does_not_hide_the_deadlock() {
    let mut stage = Stage::new(rfc9002(), true);
    stage.send_in(SpaceId::Initial, 1);
    stage.send(3);
    stage.wait(100);
    stage.ack_in(SpaceId::Initial, 0..=0, Duration::ZERO);
    assert_eq!(stage.recovery.timer(), Some(stage.now + ms(300)));
}

#[test]
fn rfc9002_6_2_2_1_a_server_at_the_amplification_limit_has_no_timer_and_an_overdue_one_fires_at_once() {
    let mut stage = Stage::new(rfc9002(), false);
    stage.send_in(SpaceId::Initial, 3);
    stage.recovery.set_amplification_limited(stage.now, true);
    assert_eq!(stage.recovery.timer(), None);
    stage.wait(5_000);
    stage.recovery.set_amplification_limited(stage.now, false);
    assert_eq!(stage.recovery.timer(), Some(at(999)));
    assert_eq!(stage.expire(), Timeout::Probe { space: SpaceId::Initial, datagrams: 2 });
    assert_eq!(stage.now, at(5_000));
}

#[test]
fn a_timer_that_is_not_due_does_nothing() {
    let mut stage = Stage::sampled("");
    stage.send(1);
    stage.wait(324);
    assert_eq!(stage.recovery.on_timeout(stage.now, &mut stage.out), Timeout::None);
    assert_eq!(stage.recovery.pto_count(), 0);
}

/// 0-RTT data that go on being sent do not push the probe out.
#[test]
fn rfc9002_6_2_2_1_the_timer_against_a_deadlock_counts_from_when_the_deadlock_began() {
    let mut stage = Stage::new(rfc9002(), true);
    stage.send_in(SpaceId::Initial, 1);
    stage.wait(50);
    stage.ack_in(SpaceId::Initial, 0..=0, Duration::ZERO);
    let deadline = stage.recovery.timer().unwrap();
    for _ in 0..20 {
        stage.wait(10);
        stage.send(1);
        assert_eq!(stage.recovery.timer(), Some(deadline));
    }
    assert_eq!(stage.expire(), Timeout::Probe { space: SpaceId::Initial, datagrams: 1 });
    let next = stage.recovery.timer().unwrap();
    assert_eq!(next.saturating_since(stage.now), (deadline.saturating_since(at(50))) * 2, "and backs off from there");
}

#[test]
fn rfc9000_13_2_2_with_two_packets_in_flight_the_lone_allowance_does_not_wait_for_a_held_ack() {
    let mut stage = Stage::sampled("ack-allowance=lone");
    stage.send(1);
    assert_eq!(stage.recovery.timer(), Some(stage.now + ms(325)), "a single one may be held back for 25 ms");
    stage.send(1);
    assert_eq!(stage.recovery.timer(), Some(stage.now + ms(300)), "the second is acknowledged at once");
}

/// Fewer in flight than bring an acknowledgment at once are all held back.
#[test]
fn draft_ack_frequency_8_below_the_threshold_that_was_asked_for_the_requested_delay_is_part_of_the_timeout() {
    let mut stage = Stage::sampled("ack-allowance=lone");
    stage.recovery.set_ack_rate(ms(15), 4);
    for in_flight in 1..=3 {
        stage.send(1);
        assert_eq!(stage.recovery.timer(), Some(stage.now + ms(315)), "{in_flight} in flight");
    }
    stage.send(1);
    assert_eq!(stage.recovery.timer(), Some(stage.now + ms(300)), "the fourth is acknowledged at once");
    assert_eq!(stage.recovery.pto(DATA), ms(315));
}

/// A peer that thins out its acknowledgments holds them back although several packets have arrived, and says for
/// how long.
#[test]
fn the_lone_allowance_grows_to_the_longest_delay_reported_for_several_packets() {
    let mut stage = Stage::sampled("ack-allowance=lone");
    let allowance = |stage: &mut Stage| {
        stage.send(2);
        let wait = stage.recovery.timer().unwrap().saturating_since(stage.now);
        wait - stage.path().rtt().probe_base()
    };
    assert_eq!(allowance(&mut stage), Duration::ZERO);
    stage.wait(120);
    stage.ack_in(DATA, 1..=1, ms(20));
    stage.ack_in(DATA, 2..=2, ms(20));
    assert_eq!(allowance(&mut stage), Duration::ZERO, "both were acknowledged alone");
    stage.wait(115);
    stage.ack_in(DATA, 3..=4, ms(15));
    assert_eq!(allowance(&mut stage), ms(15));
    stage.wait(140);
    stage.ack_in(DATA, 5..=6, ms(40));
    assert_eq!(allowance(&mut stage), ms(25), "the peer's maximum ACK delay is the limit");
    for _ in 0..40 {
        let next = stage.next[2];
        stage.wait(100);
        stage.ack_in(DATA, next - 2..=next - 1, Duration::ZERO);
        stage.send(2);
    }
    assert!(allowance(&mut stage) < ms(1), "it fades");
}

/// The ladder goes by our own idle timeout until the endpoints have agreed on one.
#[test]
fn a_handshake_backs_off_by_our_own_idle_timeout() {
    let policies = of_rfc9002("probe=ladder");
    let config = Config { policies, idle_timeout: Some(Duration::from_secs(30)), ..Config::default() };
    let mut stage = Stage::new(config, true);
    stage.send_in(SpaceId::Initial, 1);
    let mut before = stage.now;
    while stage.now < at(26_000) {
        assert_eq!(stage.expire(), Timeout::Probe { space: SpaceId::Initial, datagrams: 2 });
        assert!(stage.now.saturating_since(before) <= ms(3_750), "{:?} after {before:?}", stage.now);
        before = stage.now;
        stage.send_in(SpaceId::Initial, 1);
    }
}

/// Of `sent` packets the last three arrive, so that all before them are declared lost; and the same again, `rounds`
/// times.
fn losing(rounds: u64, sent: u64) -> Stage {
    let mut stage = Stage::sampled("probe=ladder");
    stage.recovery.set_idle_timeout(Some(Duration::from_secs(30)));
    for _ in 0..rounds {
        let next = stage.next[2];
        stage.send(sent);
        stage.wait(100);
        stage.ack(next + sent - 3..=next + sent - 1);
        assert_eq!(stage.lost().len() as u64, sent - 3);
    }
    stage
}

#[test]
fn a_path_that_lost_a_third_of_its_latest_packets_is_probed_as_a_crowded_one() {
    let probes = |mut stage: Stage| {
        stage.send(1);
        let mut longest = Duration::ZERO;
        let mut most = 0;
        for _ in 0..20 {
            let before = stage.now;
            let Timeout::Probe { datagrams, .. } = stage.expire() else { panic!() };
            most = most.max(datagrams);
            longest = longest.max(stage.now.saturating_since(before));
        }
        (longest, most)
    };
    for (rounds, sent, is_crowded) in [(20, 4, false), (20, 5, true), (20, 6, true), (5, 5, false), (6, 5, true)] {
        let stage = losing(rounds, sent);
        assert_eq!(stage.path().is_lossy(), is_crowded, "{rounds} times {} of {sent}", sent - 3);
        let (longest, most) = probes(stage);
        assert_eq!((longest >= ms(2_250), most), (is_crowded, if is_crowded { 1 } else { 2 }), "{longest:?}");
    }
}

#[test]
fn an_outage_that_loses_a_whole_flight_does_not_make_a_path_crowded() {
    assert!(!losing(1, 60).path().is_lossy());
    assert!(!losing(2, 60).path().is_lossy());
}

#[test]
fn losses_that_prove_spurious_do_not_make_a_path_crowded() {
    let mut stage = losing(6, 5);
    assert!(stage.path().is_lossy());
    let late: Vec<u64> = (0..6).flat_map(|round| [1 + 5 * round, 2 + 5 * round]).collect();
    for number in late {
        stage.ack(number..=number);
    }
    assert!(!stage.path().is_lossy());
}

/// Closing, draining and idle timers are counted in probe timeouts; they do not depend on what happens to be in
/// flight.
#[test]
fn rfc9000_10_the_probe_timeout_that_others_count_by_includes_the_ack_delay() {
    let mut stage = Stage::sampled("ack-allowance=lone");
    for _ in 0..3 {
        assert_eq!(stage.recovery.pto(DATA), ms(325));
        stage.send(1);
    }
}

#[test]
fn an_mtu_probe_does_not_bring_the_acknowledgment_of_a_lone_packet() {
    let mut stage = Stage::sampled("ack-allowance=lone");
    stage.send(1);
    stage.send_with(|packet| packet.mtu_probe = true);
    assert_eq!(stage.recovery.timer(), Some(stage.now + ms(325)));
}

#[test]
fn a_probe_that_cannot_be_sent_does_not_make_the_timer_spin() {
    let mut stage = Stage::sampled("");
    stage.send(1);
    stage.wait(100_000);
    assert!(matches!(stage.expire(), Timeout::Probe { .. }));
    assert_eq!(stage.recovery.timer(), Some(stage.now + ms(650)));
}

#[test]
fn rfc9002_6_2_1_the_peers_ack_delay_is_part_of_the_timeout() {
    let mut stage = Stage::sampled("");
    stage.recovery.set_max_ack_delay(ms(100));
    assert_eq!(stage.recovery.pto(DATA), ms(400));
    stage.send(1);
    assert_eq!(stage.recovery.timer(), Some(stage.now + ms(400)));
}
