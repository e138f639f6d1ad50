//! The rules of RFC 9000, RFC 9002 and RFC 9438, seen from outside: what a transport can observe of them.

mod congestion;
mod congestion_marks;
mod loss;
mod paths;
mod probing;
mod round_trip_time;
mod spurious_loss;
mod tracing;
mod unused_window;

use crate::common::{SIZE, Stage, at, ms, of_rfc9002, rfc9002};
use thalweg_recovery::trace::{EcnState, Event, StartExit, State};
use thalweg_recovery::{
    AckFrame, AckOfUnsent, Budget, Config, Ecn, EcnCounts, LossTrigger, NewPath, Policies, Recovery, Sent, SpaceId,
    Timeout, WayBack,
};
use thalweg_units::Duration;

const DATA: SpaceId = SpaceId::DATA;
const DATAGRAM: u64 = SIZE as u64;

#[test]
fn an_unknown_path_is_harmless() {
    let mut recovery: Recovery<()> = Recovery::new(rfc9002(), true);
    let nowhere = thalweg_recovery::PathId(7);
    assert!(recovery.path_mut(nowhere).is_none());
    assert_eq!(recovery.budget(at(0), nowhere), Budget::WindowFull);
    recovery.on_app_limited(nowhere);
    recovery.remove_path(nowhere);
    let packet = Sent {
        number: 0,
        time: at(0),
        size: 1_200,
        ack_eliciting: true,
        in_flight: true,
        mtu_probe: false,
        ecn: Ecn::NotEct,
        path: nowhere,
        data: (),
    };
    recovery.on_sent(DATA, packet, false);
    let mut out = Default::default();
    recovery.on_ack(at(10), DATA, AckFrame::new(at(10), [0..=0].into_iter()), &mut out).unwrap();
    assert_eq!(out.acked.len(), 1);
}

#[test]
fn policies_reach_the_path() {
    let policies: Policies = of_rfc9002("controller=new-reno");
    let mut stage = Stage::new(Config { policies, ..rfc9002() }, false);
    stage.send(4);
    stage.ack(1..=3);
    assert_eq!(stage.window(), 6_000);
}
