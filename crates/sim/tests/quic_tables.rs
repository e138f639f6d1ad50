//! The losses of the published traces in QUIC: whole connections over a link that loses packets of a list
//! (`tcp_tables.rs` has TCP's).
//!
//! A loss early on brings the window to twenty datagrams (and a part of one: the handshake's packets were smaller) in
//! congestion avoidance, until the first, or the first fifteen, of twenty in flight are lost. An ACK covers two
//! datagrams. `crates/recovery/tests/reduction.rs` has the traces cell by cell, with whole datagrams and an ACK for
//! each; what differs from TCP is in `thalweg_recovery::Profile`.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use thalweg_link::{DirectionConfig, LossModel, RateModel};
use thalweg_proto::AckPolicy;
use thalweg_sim::{FlowPlan, FlowResult, PacketFate, PathPlan, Plan, Record, Traffic, run};
use thalweg_units::{Duration, Rate};

const DATAGRAM: u64 = 1_200;

/// An upload, of whose datagrams the link loses those named.
fn upload(reduction: &str, lost: &[u64]) -> FlowResult {
    let link = DirectionConfig {
        rate: RateModel::Constant(Rate::from_bps(100_000_000)),
        delay: Duration::from_millis(50).into(),
        ..DirectionConfig::default()
    };
    let up = DirectionConfig { loss: vec![LossModel::List(lost.to_vec())], ..link.clone() };
    let policies = format!(
        "controller=new-reno, start=standard, reordering=fixed, pacing=off, undo=off, ack-rate=off, reduction={reduction}"
    );
    let mut flow = FlowPlan::new("f", Traffic::upload(Some(400_000))).policies(policies.parse().unwrap());
    for side in [&mut flow.client, &mut flow.server] {
        (side.initial_mtu, side.max_mtu, side.acks) = (1_200, 1_200, AckPolicy::EverySecond);
        // A number left out would bring an ACK of its own.
        side.skip_packet_numbers = false;
    }
    let plan = Plan {
        paths: vec![PathPlan::new("p", up, link)],
        flows: vec![flow],
        record: Record { metrics: true, packets: true, ..Record::default() },
        ..Plan::default()
    };
    let mut result = run(&plan).unwrap();
    assert_eq!(result.failed, None);
    result.flows.remove(0)
}

/// What happened at ACKs: datagrams of window and in flight before anything was sent, and datagrams sent.
type Cells = Vec<(u64, u64, u64)>;

/// The ACKs from the first after `loss` on, if the second reduction began from twenty datagrams in flight and as much
/// window.
fn cells(flow: &FlowResult, losses: usize) -> Option<Cells> {
    let series = &flow.client.series;
    let metrics = &series.metrics;
    let sent_at = |at: Duration| series.packets.iter().filter(|p| p.what == PacketFate::Sent && p.at == at).count();
    let lost: Vec<(Duration, u64)> =
        series.packets.iter().filter(|p| p.what == PacketFate::Lost).map(|p| (p.at, p.number)).collect();
    // The first is the one that brought the window down.
    if lost.len() != losses + 1 {
        return None;
    }
    let detected = metrics.iter().position(|(at, _)| *at == lost[1].0)?;
    let first = if losses == 1 { detected.checked_sub(2)? } else { detected };
    let before = metrics[first.checked_sub(1)?];
    let left = sent_at(before.0) as u64 * DATAGRAM;
    let is_twenty = before.1.window / DATAGRAM == 20 && before.1.bytes_in_flight + left == 20 * DATAGRAM;
    let is_halved = metrics[detected].1.ssthresh.is_some_and(|threshold| threshold / DATAGRAM == 10);
    (is_twenty && is_halved).then(|| {
        let cell = |(at, m): &(Duration, thalweg_recovery::trace::Metrics)| {
            (m.window / DATAGRAM, m.bytes_in_flight / DATAGRAM, sent_at(*at) as u64)
        };
        metrics[first..].iter().map(cell).collect()
    })
}

/// The cells of a reduction, with losses where they have to be for it: one that leaves twenty datagrams of window, and
/// `count` in a row when they are in flight.
fn cells_of(reduction: &str, count: u64) -> Cells {
    for first in 25..60 {
        let flow = upload(reduction, &[first]);
        let twenty =
            flow.client.series.metrics.iter().any(|(_, m)| m.ssthresh.is_some_and(|bytes| bytes / DATAGRAM == 19));
        if !twenty {
            continue;
        }
        for second in first + 60..first + 140 {
            let lost: Vec<u64> = [first].into_iter().chain(second..second + count).collect();
            if let Some(cells) = cells(&upload(reduction, &lost), count as usize) {
                return cells;
            }
        }
    }
    panic!("no place for {count} losses under {reduction}");
}

/// The cells of every reduction.
fn all(count: u64) -> BTreeMap<&'static str, Cells> {
    let all = ["prr", "prr-ssrb", "prr-crb", "immediate", "rate-halving"].map(|name| (name, cells_of(name, count)));
    all.into_iter().collect()
}

/// Datagrams sent on the ACKs from the detection on; each acknowledges two.
fn sent(cells: &Cells, from: usize, acks: usize) -> Vec<u64> {
    cells[from..from + acks].iter().map(|(.., sent)| *sent).collect()
}

#[test]
fn the_single_loss_in_quic() {
    let all = all(1);
    for (name, cells) in &all {
        let detected = cells.iter().position(|(window, ..)| *window < 20).unwrap();
        match *name {
            // The repair, and then silence for half a window: five ACKs of two.
            "immediate" => assert_eq!(sent(cells, detected, 7), [1, 0, 0, 0, 0, 2, 2]),
            // One for two, all the way down.
            "rate-halving" => assert_eq!(sent(cells, detected, 8), [1; 8]),
            _ => {
                assert_eq!(sent(cells, detected, 8)[1..], [1; 7], "{name}");
                // The window arrives at its target when a flight has been delivered.
                let windows: Vec<u64> = cells[detected..detected + 9].iter().map(|(window, ..)| *window).collect();
                assert_eq!(windows, [19, 18, 17, 16, 15, 14, 13, 12, 10], "{name}");
            }
        }
    }
}

#[test]
fn the_fifteen_losses_in_quic() {
    let all = all(15);
    let burst = |name: &str, from: usize, acks: usize| sent(&all[name], from, acks).into_iter().max().unwrap();
    // RFC 6675 sends the whole difference when it notices the losses; CRB when the recovery period ends, which in QUIC
    // is when the first repair is acknowledged; RFC 9937 never.
    assert!(burst("immediate", 0, 1) >= 5);
    assert!(burst("prr-crb", 0, 3) <= 2 && burst("prr-crb", 3, 1) >= 7);
    // Two per ACK arrive; one more may leave while repairs get through, and what was saved up.
    assert!(burst("prr", 0, 12) <= 4);
    // Where the period ends with the window still below its target, SSRB makes up for the rest at once.
    assert!(burst("prr-ssrb", 0, 12) <= 5);
    // Each brings the window to ten datagrams again; rate halving does it in slow start.
    for (name, cells) in &all {
        assert!(cells.iter().take(10).any(|(window, ..)| *window == 10), "{name}");
        let lowest = cells.iter().take(10).map(|(window, ..)| *window).min().unwrap();
        match *name {
            "immediate" => assert_eq!(lowest, 10),
            "rate-halving" => assert!(lowest <= 3, "{lowest}"),
            _ => assert!((4..=7).contains(&lowest), "{name}: {lowest}"),
        }
    }
}
