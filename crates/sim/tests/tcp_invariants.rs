//! Invariants of TCP whatever is lost: delivered bytes sum to forward progress, what may be sent and is not is kept,
//! and what a response that runs out of data leaves behind.
#![allow(clippy::unwrap_used)]

use thalweg_link::{Dice, DirectionConfig, LossModel, Probability, RateModel, Spread, Streams};
use thalweg_recovery::InitialWindow;
use thalweg_recovery::trace::State;
use thalweg_sim::traffic::Requests;
use thalweg_sim::{
    FlowPlan, FlowResult, PacketFate, PathPlan, Plan, Record, SettingValue, Size, TcpConfig, TcpProfile, Traffic, run,
};
use thalweg_units::{Duration, Rate};

const SEGMENT: u64 = 1_460;
const REDUCTIONS: [&str; 6] = ["immediate", "rate-halving", "prr-ub", "prr-crb", "prr-ssrb", "prr"];

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn plan(reduction: &str, traffic: Traffic, loss: LossModel, window: u16) -> Plan {
    let link = DirectionConfig {
        rate: RateModel::Constant(Rate::from_bps(100_000_000)),
        delay: ms(50).into(),
        ..DirectionConfig::default()
    };
    let up = DirectionConfig { loss: vec![loss], ..link.clone() };
    let policies = format!("controller=new-reno, start=standard, reordering=fixed, pacing=off, reduction={reduction}");
    let mut flow = FlowPlan::new("f", traffic).policies(policies.parse().unwrap());
    flow.stack = "tcp".to_owned();
    let initial_window = InitialWindow::Datagrams(window);
    flow.settings = TcpConfig {
        initial_window,
        time_threshold: false,
        tail_loss_probe: false,
        ..TcpConfig::new(TcpProfile::Shipped)
    }
    .into();
    Plan {
        paths: vec![PathPlan::new("p", up, link)],
        flows: vec![flow],
        record: Record { metrics: true, packets: true, ..Record::default() },
        time_limit: Duration::from_secs(300),
        ..Plan::default()
    }
}

fn one(plan: &Plan) -> FlowResult {
    let mut result = run(plan).unwrap();
    assert_eq!(result.failed, None, "{plan:?}");
    result.flows.remove(0)
}

fn loss(dice: &mut Dice) -> LossModel {
    match dice.below(2) {
        0 => LossModel::Random(Probability::ratio(1 + dice.below(8), 100)),
        _ => LossModel::GilbertElliott {
            to_bad: Probability::ratio(1 + dice.below(3), 100),
            to_good: Probability::ratio(40 + dice.below(40), 100),
            loss_good: Probability::NEVER,
            loss_bad: Probability::ratio(1, 1),
        },
    }
}

/// DeliveredData summed over ACKs is the forward progress, each byte once: neither a SACK that is repeated, nor a
/// cumulative ACK of what was SACKed, nor a repair of what had arrived counts again (RFC 9937 section 6.2).
#[test]
fn rfc9937_6_2_delivered_bytes_sum_to_forward_progress() {
    for seed in 0..60 {
        let mut dice = Streams::new(seed).dice("invariants");
        let bytes = 100_000 + dice.below(400_000);
        for reduction in REDUCTIONS {
            let mut plan = plan(reduction, Traffic::upload(Some(bytes)), loss(&mut dice), 10);
            plan.seed = seed;
            let flow = one(&plan);
            let (path, tcp) = (flow.client.stats.path, flow.client.tcp.unwrap());
            // The request's head comes before the data; all of it was acknowledged, as the server had answered.
            assert_eq!(path.bytes_acked, bytes + 9, "seed {seed}, {reduction}");
            assert_eq!(flow.client.stats.bytes_in_flight, 0, "seed {seed}, {reduction}");
            assert_eq!(path.bytes_sent, bytes + 9 + tcp.retransmitted_bytes, "seed {seed}, {reduction}");
            // What was sent either arrived, or was declared lost, less what was declared so wrongly before it was
            // repeated.
            let spurious = path.packets_spurious - tcp.needless_retransmissions;
            assert_eq!(
                path.packets_sent + spurious,
                path.packets_acked + path.packets_lost,
                "seed {seed}, {reduction}"
            );
        }
    }
}

/// Twenty segments are out, the first is lost, and the receiver's window lets nothing new leave until it is repaired.
/// What PRR would have sent on the nineteen ACKs meanwhile it may still send: everything up to the threshold. Rate
/// halving has forgotten it.
#[test]
fn rfc9937_6_2_missed_opportunities_to_send_are_banked() {
    for (reduction, banked) in [("prr", 9), ("prr-crb", 9), ("prr-ssrb", 9), ("rate-halving", 1)] {
        let mut plan = plan(reduction, Traffic::upload(Some(100 * SEGMENT)), LossModel::List(vec![1]), 20);
        plan.flows[0].settings.set("receive_window", SettingValue::Number(20 * SEGMENT));
        let flow = one(&plan);
        let (metrics, packets) = (&flow.client.series.metrics, &flow.client.series.packets);
        let repaired = packets.iter().find(|packet| packet.what == PacketFate::Acked).unwrap().at;
        let entered = metrics.iter().find(|(_, numbers)| numbers.state == State::Recovery).unwrap().0;
        let during = |packet: &&thalweg_sim::PacketPoint| packet.at >= entered && packet.at < repaired;
        let sent = packets.iter().filter(|packet| packet.what == PacketFate::Sent).filter(during).count();
        assert_eq!(sent, 1, "{reduction}: only the repair");
        let last = metrics.iter().rfind(|(at, _)| *at < repaired).unwrap().1;
        assert_eq!(last.bytes_in_flight, SEGMENT, "{reduction}: everything else has arrived");
        assert_eq!((last.window - last.bytes_in_flight) / SEGMENT, banked, "{reduction}");
    }
}

/// A response that has no more data while its loss is repaired: in flight goes to nothing. PRR ends at the threshold;
/// RFC 6675, which may not burst (RFC 6582 section 3.2), and rate halving end with next to nothing and open the window
/// again in slow start.
#[test]
fn short_responses_end_recovery_in_slow_start_under_rfc6675_but_not_under_prr() {
    for (reduction, in_slow_start) in [
        ("immediate", true),
        ("rate-halving", true),
        ("prr-ub", false),
        ("prr-crb", false),
        ("prr-ssrb", false),
        ("prr", false),
    ] {
        let size = Size::Fixed(20 * SEGMENT);
        let traffic = Traffic::Requests(Requests {
            count: 2,
            request: size,
            response: Size::Fixed(100),
            think: Spread::Fixed(ms(10)),
        });
        let flow = one(&plan(reduction, traffic, LossModel::List(vec![1]), 20));
        let repairs = flow.client.repairs;
        assert_eq!((repairs.episodes_ended, repairs.timeouts), (1, 0), "{reduction}");
        assert_eq!(repairs.ended_in_slow_start == 1, in_slow_start, "{reduction}: {repairs:?}");
        if in_slow_start {
            assert!(repairs.end_window_datagrams <= 2, "{reduction}: {repairs:?}");
        } else {
            assert_eq!(repairs.end_window_datagrams, 10, "{reduction}: {repairs:?}");
        }
    }
}

/// Above, at and below the threshold at the beginning of an episode, as losses take less, as much or more than the
/// reduction.
#[test]
fn episodes_are_counted_by_what_is_in_flight_when_they_begin() {
    for (lost, above, at, below) in [(1..2, 1, 0, 0), (1..10, 0, 1, 0), (1..16, 0, 0, 1)] {
        let plan = plan("prr", Traffic::upload(Some(100 * SEGMENT)), LossModel::List(lost.clone().collect()), 20);
        let repairs = one(&plan).client.repairs;
        let entries = (repairs.entries_above, repairs.entries_at, repairs.entries_below);
        assert_eq!(entries, (above, at, below), "{lost:?}");
    }
}
