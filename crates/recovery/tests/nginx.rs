//! The points of nginx's loss recovery (pull request 443 and its review), one test per entry.
//!
//! Where our types make the original bug impossible, the invariant is tested that it broke. Entries about other crates
//! have their test there:
//!
//! | entry | about | test |
//! |---|---|---|
//! | N1 | a trace that can be plotted | here |
//! | N2 | closing only after the last stream is delivered | `endpoint/tests/connections.rs`: `a_graceful_close_waits_for_delivery` |
//! | N3 | datagram size of the path, not of the peer's limit | here |
//! | N4 | losses in the tick in which something began | here |
//! | N5, N6 | clocks that wrap | here |
//! | N7, N14 | sends that the socket refused | here: what is not reported as sent leaves no trace (the endpoint keeps refused datagrams and sends them later) |
//! | N8 | no growth of an underutilised window | here |
//! | N9 | losing an MTU probe | here |
//! | N10 | MTU probes beyond the window | here, and the search itself in `proto/src/mtu.rs` |
//! | N11 | the cubic root | here by its effect, exactly in `window/cubic/tests.rs` |
//! | N12 | bookkeeping that limits the sender | here |
//! | N13 | reordering taken for loss | here |
//! | N15 | padding of Initial probes | `proto/tests/handshake.rs`: `every_ack_eliciting_initial_datagram_has_at_least_1200_bytes_probes_included` |
//! | N16 | W_max at the minimum window | here by its effect, exactly in `window/cubic/tests.rs` |
//! | N17 | packets that only acknowledge at a full window | here |
//! | N18 | probes at a full window | here |
//! | N19 | which thresholds a reordering path wants | here |

use std::sync::Arc;

use crate::common::world::{Link, World};
use crate::common::{SIZE, Stage, at, ms, rfc9002};
use thalweg_recovery::trace::{Event, State};
use thalweg_recovery::{
    AckEvent, Allowance, Budget, Change, Config, Congestion, Controller, ControllerFactory, LossTrigger, NewPath,
    PathContext, PathView, Policies, Recovery, SpaceId, Timeout,
};
use thalweg_units::math::icbrt;
use thalweg_units::{Duration, Instant};

const DATA: SpaceId = SpaceId::DATA;
const DATAGRAM: u64 = SIZE as u64;

/// The trace alone is enough to plot the window, coloured by state.
#[test]
fn n1_every_change_of_the_window_is_traced_with_time_flight_and_state() {
    let mut stage = Stage::sampled("controller=cubic, start=standard");
    let mut seen = vec![(stage.now, stage.window())];
    let mut largest = 0;
    for round in 0..30 {
        let first = stage.next[2];
        let count = stage.fill();
        stage.wait(100);
        let skip = u64::from(round % 7 == 6);
        stage.ack(first + skip..=first + count - 1);
        seen.push((stage.now, stage.window()));
        largest = largest.max(stage.window());
    }
    let mut plotted = Vec::new();
    let mut states = Vec::new();
    for (now, event) in stage.events() {
        if let Event::Metrics(metrics) = event {
            plotted.push((now, metrics.window));
            states.push(metrics.state);
        }
    }
    for (now, window) in seen {
        let at_that_time = plotted.iter().rfind(|(time, _)| *time <= now).unwrap();
        assert_eq!(at_that_time.1, window, "at {now:?}");
    }
    assert!(states.contains(&State::SlowStart) && states.contains(&State::Recovery));
    assert!(states.contains(&State::CongestionAvoidance));
    assert_eq!(stage.path().stats().max_window, largest);
}

/// The peer's limit on UDP payloads (up to 65527 bytes) never reaches recovery: all it knows is the path's own datagram
/// size.
#[test]
fn n3_growth_and_minimum_are_in_datagrams_of_the_path() {
    for size in [1_200u64, 1_452] {
        let mut stage = Stage::sampled("controller=new-reno, start=standard");
        let path = stage.path;
        stage.recovery.path_mut(path).unwrap().set_datagram_size(at(100), size as u16);
        let first = stage.next[2];
        stage.fill();
        stage.wait(100);
        stage.ack(first + 1..=first + 3);
        assert_eq!(stage.lost(), [first]);
        stage.ack(first + 1..=stage.next[2] - 1);
        // One round trip of congestion avoidance with a full window.
        stage.wait(1);
        let before = stage.window();
        let (first, count) = (stage.next[2], stage.fill());
        stage.wait(100);
        stage.ack(first..=first + count - 1);
        assert!(stage.window() - before <= size, "grew by {}", stage.window() - before);
        // And a collapse.
        stage.send(1);
        stage.wait(5_000);
        let first = stage.next[2];
        stage.send(4);
        stage.wait(100);
        stage.ack(first + 1..=first + 3);
        assert!(stage.out.persistent_congestion);
        assert_eq!(stage.window(), 2 * size);
    }
}

#[test]
fn n4_a_packet_sent_in_the_tick_the_connection_began_in_reduces_when_lost() {
    let mut stage = Stage::confirmed("");
    stage.send(4);
    stage.ack(1..=3);
    assert_eq!(stage.lost(), [0]);
    assert!(stage.window() < 12_000);
}

#[test]
fn n4_after_persistent_congestion_packets_in_flight_open_the_window_in_slow_start() {
    let mut stage = Stage::sampled("");
    stage.wait(1);
    stage.send(1);
    stage.wait(1_000);
    stage.send(1);
    stage.send(6);
    stage.wait(100);
    stage.ack(3..=5);
    assert!(stage.out.persistent_congestion);
    assert_eq!(stage.window(), 2 * DATAGRAM);
    stage.ack(3..=8);
    assert_eq!(stage.window(), 5 * DATAGRAM);
    assert_eq!(stage.path().state(), State::SlowStart);
}

/// nginx compared 32-bit milliseconds; at these origins such clocks wrap, signed and unsigned. Ours is 64 bits of
/// nanoseconds, and only differences matter.
#[test]
fn n5_n6_the_origin_of_the_clock_changes_nothing() {
    let run = |origin: u64| {
        let origin = Instant::ZERO + ms(origin);
        let mut stage = Stage::new(Config { trace: true, ..rfc9002() }, false);
        stage.recovery = Recovery::new(Config { trace: true, ..rfc9002() }, false);
        stage.now = origin;
        stage.path = stage.recovery.add_path(origin, NewPath::new(1_200));
        stage.recovery.set_handshake_confirmed(origin);
        for round in 0..20u64 {
            let (first, count) = (stage.next[2], stage.fill());
            stage.wait(50 + round % 5);
            if count > 2 && round % 3 == 1 {
                // The last but one is late: the time threshold decides. Every other time it is lost.
                let late = first + count - 2;
                stage.ack_ranges(&[late + 1..=late + 1, first..=late - 1]);
                stage.wait(3);
                if round % 2 == 0 {
                    stage.ack(first..=late + 1);
                }
            } else if count > 0 {
                // Or the first one is lost, and packets decide.
                stage.ack(first + u64::from(round % 9 == 8)..=first + count - 1);
            }
            while stage.recovery.timer().is_some_and(|timer| timer < stage.now + ms(40)) {
                stage.expire();
            }
        }
        let events: Vec<_> = stage.events().into_iter().map(|(now, event)| (now - origin, event)).collect();
        events
    };
    let reference = run(0);
    let lost_by = |trigger| {
        let lost = |event: &Event| matches!(event, Event::PacketLost { trigger: by, .. } if *by == trigger);
        reference.iter().filter(|(_, event)| lost(event)).count()
    };
    assert!(lost_by(LossTrigger::TimeThreshold) >= 2 && lost_by(LossTrigger::PacketThreshold) >= 1);
    for wrap in [1 << 31, 1 << 32, 1 << 43] {
        for before in (1..1_500).step_by(7) {
            assert_eq!(run(wrap - before), reference, "{before} ms before");
        }
    }
}

/// The socket would not take a coalesced datagram. Whoever builds packets either keeps them or gives their numbers up;
/// recovery is told only of what left, so that there is nothing to roll back, in no space.
#[test]
fn n7_n14_a_datagram_that_never_left_leaves_no_trace_in_any_space() {
    let mut stage = Stage::new(Config { ecn: false, ..rfc9002() }, true);
    stage.send_in(SpaceId::Initial, 2);
    stage.send_in(SpaceId::Handshake, 1);
    let (timer, in_flight) = (stage.recovery.timer(), stage.recovery.bytes_in_flight(stage.path));
    // A datagram with an Initial and a Handshake packet is built and refused; their numbers are given up, the Data
    // space was not touched.
    stage.next[SpaceId::Initial.index()] += 1;
    stage.next[SpaceId::Handshake.index()] += 1;
    assert_eq!(stage.recovery.timer(), timer);
    assert_eq!(stage.recovery.bytes_in_flight(stage.path), in_flight);
    stage.send_in(SpaceId::Initial, 1);
    stage.send_in(SpaceId::Handshake, 1);
    stage.send_in(DATA, 1);
    assert_eq!(stage.next, [4, 3, 1], "the space that was not built keeps its numbers");
    stage.wait(50);
    stage.ack_in(SpaceId::Initial, 3..=3, Duration::ZERO);
    assert_eq!(stage.lost(), [], "two places behind, not three");
    let refused = stage.try_ack(SpaceId::Initial, &[2..=2], Duration::ZERO, None).unwrap_err();
    assert_eq!(refused.number, 2, "and nobody can acknowledge what never left");
    stage.ack_in(SpaceId::Handshake, 2..=2, Duration::ZERO);
    assert_eq!(stage.lost(), []);
}

#[test]
fn n8_an_underutilised_window_does_not_grow() {
    for start in ["start=standard", "start=hystart++"] {
        let mut stage = Stage::sampled(start);
        let window = stage.window();
        stage.send(4);
        stage.recovery.on_app_limited(stage.path);
        assert_eq!(stage.path().state(), State::ApplicationLimited);
        stage.wait(100);
        stage.ack(1..=4);
        assert_eq!(stage.window(), window, "slow start");
    }
    let mut stage = Stage::sampled("controller=new-reno, start=standard");
    stage.send(4);
    stage.wait(100);
    stage.ack(2..=4);
    stage.wait(1);
    let window = stage.window();
    for _ in 0..50 {
        let packet = stage.packet(DATA);
        let number = packet.number;
        stage.recovery.on_sent(DATA, packet, false);
        stage.wait(100);
        stage.ack(number..=number);
    }
    assert_eq!(stage.window(), window, "avoidance");
}

#[test]
fn n9_losing_an_mtu_probe_is_not_congestion_and_gives_its_bytes_back() {
    let mut stage = Stage::sampled("");
    stage.send_with(|packet| (packet.mtu_probe, packet.size) = (true, 1_452));
    stage.send(3);
    let window = stage.window();
    stage.wait(100);
    stage.ack(2..=4);
    assert_eq!(stage.lost(), [1]);
    assert!(stage.out.lost[0].mtu_probe);
    assert_eq!(stage.recovery.bytes_in_flight(stage.path), 0);
    assert_eq!(stage.window(), window + 3 * DATAGRAM);
    assert_eq!(stage.path().stats().congestion_events, 0);
}

/// A sender that is limited by the window never has room for a probe of a larger MTU. It may leave all the same, and
/// counts in flight.
#[test]
fn n10_an_mtu_probe_may_exceed_a_full_window_by_itself_and_is_counted() {
    let mut stage = Stage::sampled("start=standard");
    let first = stage.next[2];
    let count = stage.fill();
    assert_eq!(stage.recovery.budget(stage.now, stage.path), Budget::WindowFull);
    let probe = stage.send_with(|packet| (packet.mtu_probe, packet.size) = (true, 1_452));
    let window = stage.window();
    assert_eq!(stage.recovery.bytes_in_flight(stage.path), count * DATAGRAM + 1_452);
    stage.wait(100);
    // While it is out, data has to make room for it; and it comes back like any other.
    stage.ack(first..=first);
    assert_eq!(stage.window(), window + DATAGRAM);
    assert_eq!(stage.recovery.bytes_in_flight(stage.path), (count - 1) * DATAGRAM + 1_452);
    stage.ack(first..=probe);
    assert_eq!(stage.recovery.bytes_in_flight(stage.path), 0);
    assert!(stage.out.acked.iter().any(|packet| packet.mtu_probe));
}

/// nginx stops its iteration at steps of 100 ms; at large windows its K was 0.76 s off. Here the window is back at
/// W_max when K has passed.
#[test]
fn n11_cubic_is_back_at_its_plateau_after_k() {
    let mut stage = Stage::sampled("controller=cubic, start=standard");
    while stage.window() < 4_000_000 {
        let (first, count) = (stage.next[2], stage.fill());
        stage.wait(100);
        stage.ack(first..=first + count - 1);
    }
    let w_max = stage.window();
    let first = stage.next[2];
    stage.fill();
    stage.wait(100);
    stage.ack(first + 1..=first + 3);
    stage.wait(1);
    let (reduced, mut end) = (stage.now, stage.next[2]);
    stage.send(1);
    stage.wait(100);
    stage.ack(first + 1..=end);
    let epoch = stage.now;
    while stage.window() < w_max * 999 / 1_000 {
        let start = stage.next[2];
        stage.fill();
        stage.wait(100);
        end = stage.next[2] - 1;
        stage.ack(start..=end);
    }
    // K = cbrt(0.3 W_max / 0.4) s; the last thousandth is a tenth of the way, and the window lags by a round trip or
    // two.
    let micros = |cube_of_thousandths: u64| {
        icbrt(u128::from(w_max) * u128::from(cube_of_thousandths) * 1_000_000_000_000_000 / 1_200)
    };
    let expected = Duration::from_micros(micros(750) - micros(1_000 / 400));
    let took = stage.now.saturating_since(epoch);
    assert!(took.abs_diff(expected) < ms(400), "{took:?} instead of {expected:?}; reduced at {reduced:?}");
}

/// A window as large as it takes for 2.5 Gbps at 100 ms: nothing else limits the sender, and what it remembers goes
/// when it is acknowledged.
#[test]
fn n12_bookkeeping_never_limits_the_sender() {
    let policies = Policies { congestion: Congestion::Custom(Arc::new(Huge)), ..rfc9002().policies };
    let config = Config { policies, ecn: false, ..rfc9002() };
    let mut stage = Stage::new(config, false);
    stage.recovery.set_handshake_confirmed(at(0));
    let sent = 31_250_000 / DATAGRAM;
    for round in 0..3 {
        for _ in 0..sent {
            assert!(matches!(stage.recovery.budget(stage.now, stage.path), Budget::Now(_)));
            stage.send(1);
        }
        assert_eq!(stage.recovery.bytes_in_flight(stage.path), sent * DATAGRAM);
        stage.wait(100);
        // Every hundredth is lost, and forgotten in time.
        let first = round * sent;
        for number in (first..first + sent).filter(|number| number % 100 != 0) {
            stage.ack(number..=number);
        }
        stage.wait(10_000);
        if stage.recovery.timer().is_some() {
            stage.expire();
        }
        assert!(stage.recovery.outstanding_data(DATA).count() <= 3, "memory follows what is open");
    }
}

#[derive(Debug)]
struct Huge;

impl Controller for Huge {
    fn on_ack(&mut self, _event: &AckEvent<'_>) -> Change {
        Change::None
    }

    fn on_datagram_size(&mut self, _size: u16) {}

    fn allowance(&self, _path: &PathView<'_>) -> Allowance {
        Allowance::new(1 << 40, None, SIZE as u16)
    }
}

impl ControllerFactory for Huge {
    fn name(&self) -> &str {
        "huge"
    }

    fn build(&self, _birth: &PathContext) -> Box<dyn Controller> {
        Box::new(Huge)
    }
}

/// A displacement of 19 packets, below an eighth of the round trip, on a path that loses nothing.
#[test]
fn n13_with_the_fixed_threshold_reordering_by_nineteen_reduces_and_is_taken_back() {
    let mut stage = Stage::sampled("controller=cubic, start=standard");
    stage.fill();
    stage.wait(100);
    stage.ack(1..=11);
    stage.fill();
    let window = stage.window();
    stage.wait(100);
    stage.ack(13..=31);
    assert_eq!(stage.lost(), [12]);
    assert!(stage.window() < window);
    stage.ack(12..=31);
    assert_eq!(stage.out.spurious, 1);
    assert_eq!(stage.window(), window);
}

#[test]
fn n13_half_in_flight_takes_displacement_by_nineteen_for_reordering_once_forty_are_in_flight() {
    for (policy, lost) in [("fixed", 1), ("half-in-flight", 0), ("time-only", 0), ("adaptive", 1)] {
        let mut stage = Stage::sampled(&format!("start=standard, reordering={policy}"));
        for _ in 0..2 {
            // 10, 20, 40 packets.
            let first = stage.next[2];
            let count = stage.fill();
            stage.wait(100);
            stage.ack(first..=first + count - 1);
        }
        let first = stage.next[2];
        assert!(stage.fill() >= 40);
        stage.wait(100);
        stage.ack(first + 1..=first + 19);
        assert_eq!(stage.out.lost.len(), lost, "{policy}");
        stage.ack(first..=first + 19);
        assert_eq!(stage.path().stats().congestion_events, lost as u64, "{policy}");
    }
}

/// Losses in a row at the minimum window must not push W_max and K where the window never comes back from.
#[test]
fn n16_the_window_recovers_from_repeated_losses_at_the_minimum() {
    for controller in ["cubic", "new-reno"] {
        let mut stage = Stage::sampled(&format!("start=standard, controller={controller}"));
        for _ in 0..100 {
            let first = stage.next[2];
            stage.send(4);
            stage.wait(100);
            stage.ack(first + 1..=first + 3);
            stage.wait(1);
            assert!(stage.window() >= 2 * DATAGRAM);
            assert!(stage.path().ssthresh().unwrap() >= 2 * DATAGRAM);
        }
        assert_eq!(stage.window(), 2 * DATAGRAM);
        for _ in 0..50 {
            let (first, count) = (stage.next[2], stage.fill());
            stage.wait(100);
            stage.ack(first..=first + count - 1);
        }
        assert!(stage.window() >= 20 * DATAGRAM, "{controller}: {} after five seconds", stage.window());
    }
}

/// The window is full and the peer is silent: what only acknowledges is not asked whether it may leave, and changes
/// nothing that is.
#[test]
fn n17_packets_that_only_acknowledge_neither_wait_for_the_window_nor_fill_it() {
    let mut stage = Stage::sampled("");
    stage.fill();
    assert_eq!(stage.recovery.budget(stage.now, stage.path), Budget::WindowFull);
    let (in_flight, timer) = (stage.recovery.bytes_in_flight(stage.path), stage.recovery.timer());
    for _ in 0..100 {
        stage.send_with(|packet| (packet.ack_eliciting, packet.in_flight, packet.size) = (false, false, 40));
    }
    assert_eq!(stage.recovery.bytes_in_flight(stage.path), in_flight);
    assert_eq!(stage.recovery.timer(), timer);
}

/// Under every probe policy, and counted in flight (RFC 9002 section 7.5: they MUST NOT be blocked by the window).
#[test]
fn n18_a_probe_timeout_asks_for_two_packets_at_a_full_window() {
    for policy in ["rfc", "capped(divisor=8)", "capped", "capped(divisor=32)", "ladder"] {
        let mut stage = Stage::sampled(&format!("probe={policy}"));
        let count = stage.fill();
        assert_eq!(stage.recovery.budget(stage.now, stage.path), Budget::WindowFull);
        assert_eq!(stage.expire(), Timeout::Probe { space: DATA, datagrams: 2 }, "{policy}");
        stage.send(2);
        assert_eq!(stage.recovery.bytes_in_flight(stage.path), (count + 2) * DATAGRAM, "{policy}");
    }
}

/// 20 MB at 50 Mbps and 50 ms, every twentieth packet 5 ms late, nothing lost: completion beside the same path without
/// reordering.
///
/// nginx settled for half of what is in flight as the lesser evil. With undo even the fixed threshold survives this;
/// without, it collapses.
#[test]
fn n19_on_a_path_that_reorders_every_rule_but_the_fixed_one_keeps_its_pace() {
    let time = |policies: &str, late: Duration| {
        let mut link = Link::new(50_000_000, ms(25), 625_000);
        link.late = Box::new(move |number| if number % 20 == 7 { late } else { Duration::ZERO });
        World::new(policies, link).run(20_000_000 / DATAGRAM, at(600_000)).as_nanos() as f64
    };
    let ratio = |policy: &str, undo: &str| {
        let policies = format!("reordering={policy}, undo={undo}");
        time(&policies, ms(5)) / time(&policies, Duration::ZERO)
    };
    assert!(ratio("fixed", "off") > 3.0, "{}", ratio("fixed", "off"));
    for policy in ["time-only", "adaptive"] {
        assert!(ratio(policy, "episode") <= 1.01, "{policy}: {}", ratio(policy, "episode"));
    }
    for policy in ["half-in-flight", "time-only"] {
        assert!(ratio(policy, "off") <= 1.2, "{policy}: {}", ratio(policy, "off"));
    }
    assert!(ratio("fixed", "episode") <= 1.2, "{}", ratio("fixed", "episode"));
}
