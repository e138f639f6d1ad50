//! Zeros behind a datagram that no memory holds: what a host, a tap and a link see of them.
#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Mutex};

use thalweg_link::{DirectionConfig, Probability};
use thalweg_sim::*;
use thalweg_units::{Duration, Ecn, Instant};

/// What the server has got: the bytes of each datagram.
type Got = Arc<Mutex<Vec<Vec<u8>>>>;

/// A client that sends three bytes and 997 zeros ten times, and a server that knows nothing of padding.
struct Padding(Got);

impl StackFactory for Padding {
    fn info(&self) -> StackInfo {
        StackInfo::new("padding")
    }

    fn hosts(&self, context: &StackContext<'_>) -> Result<Hosts, PlanError> {
        let host = |timer| {
            let envelope = Envelope { source: context.client, destination: context.server, ecn: Ecn::NotEct };
            let meter = Meter::new(context.origin, Duration::ZERO);
            Box::new(Sender { timer, is_due: false, envelope, meter, got: self.0.clone() })
        };
        Ok((host(Some(context.start)), host(None)))
    }
}

struct Sender {
    timer: Option<Instant>,
    is_due: bool,
    envelope: Envelope,
    meter: Meter,
    got: Got,
}

impl Host for Sender {
    fn datagram(&mut self, _: Instant, _: Envelope, bytes: &mut [u8]) {
        self.got.lock().unwrap().push(bytes.to_vec());
    }
    fn next_timer(&self) -> Option<Instant> {
        self.timer
    }
    fn timer(&mut self, _: Instant) {
        (self.timer, self.is_due) = (None, true);
    }
    fn poll_send(&mut self, _: Instant, out: &mut Outbox<'_>) {
        for n in 0..if std::mem::take(&mut self.is_due) { 10 } else { 0 } {
            out.push_padded(self.envelope, &[1, 2, n], 997);
        }
    }
    fn status(&self) -> Status {
        Status::Running
    }
    fn meter(&self) -> &Meter {
        &self.meter
    }
    fn report(&mut self, _: Instant) -> SideResult {
        SideResult::default()
    }
}

/// Sizes that the tap has seen, with the headers.
#[derive(Default)]
struct Sizes(Vec<u32>);

impl Tap for Sizes {
    fn datagram(&mut self, seen: &Seen<'_>) {
        self.0.push(seen.payload.len() as u32 + seen.overhead);
    }
}

/// Runs it over a link that damages packets with this probability: what the server got, and what the tap saw.
fn run(corrupt: Probability) -> (Vec<Vec<u8>>, Vec<u32>, RunResult) {
    let got = Got::default();
    let mut registry = Registry::default();
    registry.add(Box::new(Padding(got.clone())));
    let mut flow = FlowPlan::new("f", Traffic::download(None));
    flow.stack = "padding".to_owned();
    let up = DirectionConfig { corrupt, ..DirectionConfig::default() };
    let plan = Plan {
        paths: vec![PathPlan::new("p", up, DirectionConfig::default())],
        flows: vec![flow],
        time_limit: Duration::from_secs(1),
        ..Plan::default()
    };
    let mut sizes = Sizes::default();
    let result = run_tapped(&plan, &registry, &mut sizes).unwrap();
    let got = got.lock().unwrap().clone();
    (got, sizes.0, result)
}

#[test]
fn a_host_that_knows_nothing_of_padding_sees_the_whole_datagram() {
    let (got, sizes, result) = run(Probability::NEVER);
    let sent = (0..10).map(|n| {
        let mut bytes = vec![0; 1_000];
        bytes[..3].copy_from_slice(&[1, 2, n]);
        bytes
    });
    assert_eq!(got, sent.collect::<Vec<_>>());
    // Once at the client, once at the server; the same on the link.
    assert_eq!(sizes, vec![1_028; 20]);
    assert_eq!(result.links[0].stats.delivered_bytes, 10_280);
}

#[test]
fn a_link_damages_zeros_like_other_bytes() {
    let (got, sizes, _) = run(Probability::ALWAYS);
    assert_eq!(sizes, vec![1_028; 20]);
    let ones = |bytes: &[u8]| bytes.iter().map(|byte| byte.count_ones()).sum::<u32>();
    for (n, bytes) in (0..10u8).zip(&got) {
        assert_eq!(bytes.len(), 1_000);
        // A single bit has flipped somewhere.
        assert_eq!(ones(bytes).abs_diff(ones(&[1, 2, n])), 1, "{n}");
    }
    assert!(got.iter().any(|bytes| ones(&bytes[3..]) > 0), "chance hits the zeros 997 times in a thousand");
}
