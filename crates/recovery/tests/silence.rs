//! Silence on whole paths: outages that lose everything, suspensions that hold everything, and how soon the sender is
//! back.

use crate::common::world::{Link, World};
use crate::common::{Stage, at, ms};
use thalweg_recovery::{SpaceId, Timeout};
use thalweg_units::{Duration, Instant};

/// 10 Mbps and 50 ms; nothing arrives that was sent in the `outage` seconds after the second.
fn outage(policies: &str, outage: Duration) -> World {
    let mut link = Link::new(10_000_000, ms(25), 65_000);
    link.lose = Box::new(move |_, sent| sent >= at(1_000) && sent < at(1_000) + outage);
    World::new(policies, link)
}

/// How long after the repair the first packet is delivered, and how many probe datagrams were sent into the dark.
fn after_outage(policy: &str, length: Duration) -> (Duration, u32) {
    let mut world = outage(&format!("probe={policy}"), length);
    let repaired = at(1_000) + length;
    world.run(u64::MAX, repaired);
    let before = world.delivered;
    world.run(before + 1, at(60_000));
    let first = world.deliveries.iter().find(|time| **time > repaired).copied().unwrap_or(Instant::FAR_FUTURE);
    let probes = world.probes.iter().filter(|(time, _)| *time < repaired).map(|(_, datagrams)| u32::from(*datagrams));
    (first.saturating_since(repaired), probes.sum())
}

#[test]
fn a_cap_bounds_the_silence_after_an_outage_and_doubling_does_not() {
    // Half a probe timeout of the path and the way there come on top of the gap.
    let slack = ms(100);
    let mut worst = [Duration::ZERO; 5];
    let policies = ["rfc", "capped(divisor=8)", "capped", "capped(divisor=32)", "ladder"];
    for step in 0..12 {
        for (worst, policy) in worst.iter_mut().zip(policies) {
            let (silence, _) = after_outage(policy, ms(1_000 + 1_977 * step));
            *worst = (*worst).max(silence);
        }
    }
    let [rfc, eighth, sixteenth, thirtysecond, ladder] = worst;
    assert!(rfc > Duration::from_secs(6), "{rfc:?}");
    assert!(eighth <= ms(3_750) + slack, "{eighth:?}");
    assert!(sixteenth <= ms(1_875) + slack, "{sixteenth:?}");
    assert!(thirtysecond <= ms(938) + slack, "{thirtysecond:?}");
    assert!(ladder <= ms(1_000) + slack, "{ladder:?}");
}

#[test]
fn a_ladder_spends_at_most_forty_datagrams_on_thirty_seconds_of_darkness() {
    let (_, ladder) = after_outage("ladder", ms(29_000));
    let (_, rfc) = after_outage("rfc", ms(29_000));
    assert!(ladder <= 40, "{ladder}");
    assert!(ladder > rfc);
}

/// A response whose last packet is lost: nothing later will be acknowledged, so only the probe timer can find out.
#[test]
fn rfc9002_6_2_the_loss_of_the_last_packet_is_repaired_by_a_probe_under_every_timer() {
    for policy in ["rfc", "capped(divisor=8)", "capped", "capped(divisor=32)", "ladder"] {
        let mut stage = Stage::sampled(&format!("probe={policy}"));
        stage.recovery.set_idle_timeout(Some(Duration::from_secs(30)));
        stage.send(5);
        let sent = stage.now;
        stage.wait(100);
        stage.ack(1..=4);
        assert_eq!(stage.lost(), []);
        assert_eq!(stage.expire(), Timeout::Probe { space: SpaceId::DATA, datagrams: 2 }, "{policy}");
        assert_eq!(stage.now, sent + stage.recovery.pto(SpaceId::DATA), "{policy}: not a moment before");
        stage.send(2);
        stage.wait(100);
        stage.ack_ranges(&[6..=7, 1..=4]);
        assert_eq!(stage.lost(), [5], "{policy}");
    }
}

/// Three times 1 MB over 10 Mbps and 6 ms, as picoquic's Wi-Fi tests have it; the queue holds 260 ms or 20 ms.
const SUSPENDED: u64 = 2_500;
const QUEUES: [(u64, Duration); 2] = [(325_000, Duration::ZERO), (25_000, Duration::from_millis(50))];

fn wifi(queue: u64) -> Link {
    Link::new(10_000_000, ms(3), queue)
}

/// The link with something held, in each form: in front of it, behind it, on the way back, and both ways.
fn suspended(queue: u64, holds: &[(Instant, Duration)]) -> Vec<(&'static str, Link)> {
    let holds = || holds.to_vec();
    vec![
        ("in front", Link { holds: holds(), ..wifi(queue) }),
        ("behind", Link { releases: holds(), ..wifi(queue) }),
        ("ACKs", Link { ack_releases: holds(), ..wifi(queue) }),
        ("both ways", Link { releases: holds(), ack_releases: holds(), ..wifi(queue) }),
    ]
}

/// Rules that a suspension could lead astray.
const RULES: [&str; 6] = [
    "controller=cubic",
    "controller=new-reno",
    "reduction=prr, probe=ladder",
    "reordering=adaptive, rtt=windowed",
    "rtt=per-round(variations=3), probe=capped",
    "reordering=time-only, reduction=rate-halving",
];

/// recovery.md 7.3: everything is held for 250 ms and nothing is lost. No policy is needed for it: packets that were
/// held arrive in order, so that nothing is declared lost and nothing has to be taken back; a probe timeout by itself
/// reduces nothing.
#[test]
fn a_suspension_reduces_nothing_and_costs_the_time_held() {
    let hold = ms(250);
    for rules in RULES {
        for (queue, slack) in QUEUES {
            let undisturbed = World::new(rules, wifi(queue)).run(SUSPENDED, at(60_000));
            for (form, link) in suspended(queue, &[(at(1_000), hold)]) {
                let mut world = World::new(rules, link);
                world.run_for(1_000);
                let (window, before) = (world.path().window(), world.path().stats());
                world.run_for(1_000 + 250 + 12);
                let after = world.path().stats();
                let name = format!("{rules}, {form}, {queue} bytes of queue");
                assert_eq!(after.congestion_events, before.congestion_events, "{name}");
                assert!(world.path().window() >= window, "{name}: {window} before, {} after", world.path().window());
                let end = world.run(SUSPENDED, at(60_000));
                // 20 ms of it because what the ACKs free together leaves evenly, at the rate of a round trip that is
                // longer now.
                assert!(end <= undisturbed + hold + ms(45) + slack, "{name}: {undisturbed:?} became {end:?}");
            }
        }
    }
}

#[test]
fn six_suspensions_in_a_row_cost_the_time_held() {
    let holds: Vec<_> = (0..6).map(|hold| (at(1_000 + 255 * hold), ms(250))).collect();
    for rules in RULES {
        let undisturbed = World::new(rules, wifi(325_000)).run(SUSPENDED, at(60_000));
        for (form, link) in suspended(325_000, &holds) {
            let end = World::new(rules, link).run(SUSPENDED, at(60_000));
            assert!(end <= undisturbed + ms(1_500 + 60), "{rules}, {form}: {undisturbed:?} became {end:?}");
        }
    }
}

/// Longer than several probe timeouts, even longer than what persistent congestion asks for: still nothing was lost.
#[test]
fn a_long_suspension_leaves_the_window_where_it_was() {
    for rules in RULES {
        for (form, link) in suspended(325_000, &[(at(1_000), ms(4_000))]) {
            let mut world = World::new(rules, link);
            world.run_for(1_000);
            let (window, before) = (world.path().window(), world.path().stats());
            world.run_for(1_000 + 4_000 + 12);
            let after = world.path().stats();
            assert!(world.probes.len() >= 3, "{rules}, {form}");
            assert_eq!(after.congestion_events, before.congestion_events, "{rules}, {form}");
            assert_eq!(after.persistent_congestions, 0, "{rules}, {form}");
            assert!(world.path().window() >= window, "{rules}, {form}");
        }
    }
}

/// What was held can also come through out of order: the newest first, which looks like the loss of all the rest. Every
/// packet of the episode turns up, so that undo has the former window back within the flood.
#[test]
fn a_suspension_that_lets_the_newest_go_first_is_undone() {
    for policies in ["controller=cubic", "controller=new-reno", "reduction=prr", "reordering=adaptive"] {
        let mut stage = Stage::sampled(policies);
        let count = stage.fill();
        let (window, sent) = (stage.window(), stage.now);
        for _ in 0..3 {
            stage.expire();
            stage.send(2);
        }
        assert!(stage.now.saturating_since(sent) > ms(2_000));
        let newest = stage.next[2] - 1;
        stage.wait(1);
        stage.ack(newest..=newest);
        assert!(stage.window() < window, "{policies}");
        stage.wait(1);
        stage.ack(1..=newest);
        assert!(stage.path().stats().packets_spurious >= count, "{policies}");
        assert!(stage.window() >= window, "{policies}: {window} before, {} after", stage.window());
    }
}

/// An outage that really loses everything is responded to, by every rule.
#[test]
fn an_outage_with_real_losses_reduces_the_window() {
    for rules in RULES {
        let mut link = wifi(325_000);
        link.lose = Box::new(|_, sent| sent >= at(1_000) && sent < at(3_000));
        let mut world = World::new(rules, link);
        world.run_for(1_000);
        let window = world.path().window();
        world.run(SUSPENDED, at(60_000));
        let stats = world.path().stats();
        assert!(stats.congestion_events > 0 && stats.packets_spurious == 0, "{rules}: {stats:?}");
        assert!(world.windows.iter().any(|(time, reduced)| *time > at(3_000) && *reduced < window), "{rules}");
    }
}
