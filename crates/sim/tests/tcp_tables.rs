//! The published traces of loss recovery (IETF 84, RFC 6937 section 5, RFC 9937 section 8), cell by cell, from the TCP
//! of the simulator: real segments over a link that loses those on a list.
//!
//! Twenty segments are in flight, which is the whole window; ACK *k* is triggered by segment *k*. Cells are segments
//! *after* the ACK is processed and *before* anything is sent. RFC 6937 counts the two segments of limited transmit in
//! FlightSize (ssthresh 11), RFC 9937 does not (10); [`Flight`] selects one or the other.
#![allow(clippy::unwrap_used)]

use thalweg_link::{DirectionConfig, LossModel, RateModel};
use thalweg_recovery::{Flight, InitialWindow};
use thalweg_sim::{FlowPlan, PacketFate, PathPlan, Plan, Record, TcpConfig, TcpProfile, Traffic, run};
use thalweg_units::{Duration, Rate};

/// Data in a segment.
const SEGMENT: u64 = 1_460;

/// One column per ACK.
#[derive(Debug, Default)]
struct Trace {
    cwnd: Vec<u64>,
    pipe: Vec<u64>,
    sent: Vec<String>,
}

/// An upload whose first `window` segments leave at once, of which the link loses those named.
fn upload(policies: &str, flight: Flight, window: u16, lost: &[u64], bytes: u64) -> thalweg_sim::FlowResult {
    let link = DirectionConfig {
        rate: RateModel::Constant(Rate::from_bps(100_000_000)),
        delay: Duration::from_millis(50).into(),
        ..DirectionConfig::default()
    };
    // The SYN is the first packet.
    let lost: Vec<u64> = lost.iter().map(|segment| segment + 1).collect();
    let up = DirectionConfig { loss: vec![LossModel::List(lost.into_iter().collect())], ..link.clone() };
    let policies = format!("controller=new-reno, start=standard, reordering=fixed, pacing=off, {policies}");
    let mut flow = FlowPlan::new("f", Traffic::upload(Some(bytes))).policies(policies.parse().unwrap());
    flow.stack = "tcp".to_owned();
    flow.settings = TcpConfig {
        initial_window: InitialWindow::Datagrams(window),
        flight,
        time_threshold: false,
        ..TcpConfig::new(TcpProfile::Shipped)
    }
    .into();
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

/// What happened at the first `acks` ACKs.
fn trace(policies: &str, flight: Flight, window: u16, lost: &[u64], acks: usize) -> Trace {
    let series = upload(policies, flight, window, lost, 300 * SEGMENT).client.series;
    let mut trace = Trace::default();
    // The first is for the SYN.
    let metrics = &series.metrics[1..];
    for (number, (at, numbers)) in metrics.iter().enumerate().take(acks) {
        trace.cwnd.push(numbers.window / SEGMENT);
        trace.pipe.push(numbers.bytes_in_flight / SEGMENT);
        let until = metrics[number + 1].0;
        let (mut new, mut again) = (0, 0);
        let sent = |what| series.packets.iter().filter(move |packet| packet.what == what);
        for packet in sent(PacketFate::Sent).filter(|packet| packet.at >= *at && packet.at < until) {
            match sent(PacketFate::Sent).any(|other| other.number == packet.number && other.at < packet.at) {
                true => again += 1,
                false => new += 1,
            }
        }
        let cell = |count: u64, letter: &str| match count {
            0 => String::new(),
            1 => letter.to_owned(),
            _ => format!("{count}{letter}"),
        };
        trace.sent.push(cell(again, "R") + &cell(new, "N"));
    }
    trace
}

fn single_loss(reduction: &str, flight: Flight, acks: usize) -> Trace {
    trace(&format!("reduction={reduction}"), flight, 20, &[0], acks)
}

fn fifteen_losses(reduction: &str, flight: Flight, acks: usize) -> Trace {
    trace(&format!("reduction={reduction}"), flight, 20, &(0..15).collect::<Vec<_>>(), acks)
}

fn words(text: &str) -> Vec<String> {
    text.split(',').map(|word| word.trim().to_owned()).collect()
}

#[test]
fn rfc6937_single_loss_rfc3517() {
    let trace = single_loss("immediate", Flight::Outstanding, 19);
    assert_eq!(trace.cwnd, [20, 20, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11]);
    assert_eq!(trace.pipe, [19, 19, 18, 18, 17, 16, 15, 14, 13, 12, 11, 10, 10, 10, 10, 10, 10, 10, 10]);
    assert_eq!(trace.sent, words("N,N,R,,,,,,,,,N,N,N,N,N,N,N,N"));
}

#[test]
fn rfc6937_single_loss_rate_halving() {
    let trace = single_loss("rate-halving", Flight::Window, 19);
    assert_eq!(trace.cwnd, [20, 20, 19, 18, 18, 17, 17, 16, 16, 15, 15, 14, 14, 13, 13, 12, 12, 11, 11]);
    assert_eq!(trace.pipe, [19, 19, 18, 18, 17, 17, 16, 16, 15, 15, 14, 14, 13, 13, 12, 12, 11, 11, 10]);
    assert_eq!(trace.sent, words("N,N,R,,N,,N,,N,,N,,N,,N,,N,,N"));
}

/// The pipe row is printed with one cell too many at ACK 5; this is what follows from the printed sent row.
#[test]
fn rfc6937_single_loss_prr_with_the_corrected_cells() {
    for reduction in ["prr-ssrb", "prr-crb", "prr-ub"] {
        let trace = single_loss(reduction, Flight::Outstanding, 19);
        assert_eq!(
            trace.cwnd,
            [20, 20, 19, 18, 18, 17, 17, 16, 16, 15, 15, 14, 14, 13, 13, 12, 11, 11, 11],
            "{reduction}"
        );
        assert_eq!(
            trace.pipe,
            [19, 19, 18, 18, 17, 17, 16, 16, 15, 15, 14, 14, 13, 13, 12, 12, 11, 10, 10],
            "{reduction}"
        );
        assert_eq!(trace.sent, words("N,N,R,,N,,N,,N,,N,,N,,N,,,N,N"), "{reduction}");
    }
}

#[test]
fn rfc9937_8_single_loss_rfc6675() {
    let trace = single_loss("immediate", Flight::Window, 22);
    assert_eq!(trace.cwnd, [20, 20, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10]);
    assert_eq!(trace.pipe, [19, 19, 18, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9]);
    assert_eq!(trace.sent, words("N,N,R,,,,,,,,,,N,N,N,N,N,N,N,N,N,N"));
}

/// Figure 1 of the RFC sends at ACK 19 with inflight equal to ssthresh; its own pseudocode sends that segment at
/// ACK 20.
#[test]
fn rfc9937_8_single_loss_prr_by_the_pseudocode() {
    let trace = single_loss("prr", Flight::Window, 22);
    assert_eq!(trace.cwnd, [20, 20, 19, 18, 18, 17, 17, 16, 16, 15, 15, 14, 14, 13, 13, 12, 12, 11, 10, 10, 10, 10]);
    assert_eq!(trace.pipe, [19, 19, 18, 18, 17, 17, 16, 16, 15, 15, 14, 14, 13, 13, 12, 12, 11, 11, 10, 9, 9, 9]);
    assert_eq!(trace.sent, words("N,N,R,,N,,N,,N,,N,,N,,N,,N,,,N,N,N"));
}

/// ACKs 15 to 19 are the first five to arrive.
#[test]
fn fifteen_losses_of_twenty() {
    for (reduction, flight, cwnd, pipe, sent) in [
        ("immediate", Flight::Outstanding, [20, 20, 11, 11, 11], [19, 19, 4, 10, 10], "N,N,7R,R,R"),
        ("immediate", Flight::Window, [20, 20, 10, 10, 10], [19, 19, 4, 9, 9], "N,N,6R,R,R"),
        ("rate-halving", Flight::Window, [20, 20, 5, 5, 5], [19, 19, 4, 4, 4], "N,N,R,R,R"),
        ("prr-crb", Flight::Outstanding, [20, 20, 5, 5, 5], [19, 19, 4, 4, 4], "N,N,R,R,R"),
        ("prr-ssrb", Flight::Outstanding, [20, 20, 6, 7, 8], [19, 19, 4, 5, 6], "N,N,2R,2R,2R"),
        ("prr", Flight::Window, [20, 20, 5, 5, 5], [19, 19, 4, 4, 4], "N,N,R,R,R"),
        // No bound: everything up to ssthresh at once, as RFC 3517.
        ("prr-ub", Flight::Outstanding, [20, 20, 11, 11, 11], [19, 19, 4, 10, 10], "N,N,7R,R,R"),
    ] {
        let trace = fifteen_losses(reduction, flight, 5);
        assert_eq!(trace.cwnd, cwnd, "{reduction}");
        assert_eq!(trace.pipe, pipe, "{reduction}");
        assert_eq!(trace.sent, words(sent), "{reduction}");
    }
}

/// Beyond the table: the ACKs of what limited transmit sent, and of the repairs in order. Acknowledged repairs make
/// ACKs safe.
#[test]
fn rfc9937_fifteen_losses_go_on_as_in_slow_start_once_repairs_are_acknowledged() {
    let trace = fifteen_losses("prr", Flight::Window, 14);
    assert_eq!(trace.sent[5..], words("R,R,2R,2R,2R,2R,2R,N,N"));
    assert_eq!(trace.pipe[5..], [4, 4, 4, 5, 6, 7, 8, 9, 9]);
}

#[test]
fn rfc6937_conservation_keeps_to_one_segment_per_ack_to_the_end() {
    let trace = fifteen_losses("prr-crb", Flight::Outstanding, 14);
    assert_eq!(trace.pipe[2..], [4; 12]);
    let ssrb = fifteen_losses("prr-ssrb", Flight::Outstanding, 10);
    assert_eq!(ssrb.pipe[9], 10, "at the ACK of segment 2");
}

/// IETF 84: with 100 in flight of which the first 90 are lost, one ACK releases forty segments of RFC 3517 and of PRR
/// without a bound.
#[test]
fn ninety_of_a_hundred_lost_is_a_burst_without_a_bound() {
    let lost: Vec<u64> = (0..90).collect();
    for (reduction, sent) in
        [("immediate", "41R"), ("prr-ub", "41R"), ("prr-ssrb", "2R"), ("prr-crb", "R"), ("prr", "R")]
    {
        let trace = trace(&format!("reduction={reduction}"), Flight::Window, 100, &lost, 3);
        assert_eq!(trace.pipe, [99, 99, 9], "{reduction}");
        assert_eq!(trace.sent[2], sent, "{reduction}");
    }
}
