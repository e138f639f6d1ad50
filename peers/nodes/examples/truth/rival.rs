//! Drawn transfers that a rival stack sends.

use std::sync::Arc;

use nodes::registry;
use thalweg_sim::{Crypto, LogFile, LogFiles, Plan, SavedState, SettingValue, run_with};
use thalweg_units::{Duration, DurationExt};
use thalweg_why::Cause;
use thalweg_why::world::World;

use crate::draw::draw;
use crate::kept::Kept;
use crate::truth::{CLOSE, Truth};

/// The transfer with this number, as a download without a limit of the rate.
pub fn drawn(number: u64) -> World {
    let mut world = draw(number);
    world.load.is_up = false;
    world.sender.max_rate = None;
    world
}

/// Keeps the log of a connection's server.
impl LogFiles for Kept {
    fn open(&self, is_client: bool, _: &str) -> Option<LogFile> {
        (!is_client).then(|| Box::new(self.clone()) as LogFile)
    }
}

/// The plan of a transfer that a stack sends.
fn plan(stack: &str, world: &World, logs: Option<Kept>) -> Plan {
    let mut plan = world.plan(None);
    plan.crypto = Crypto::Real;
    let flow = &mut plan.flows[0];
    flow.stack = stack.to_owned();
    let is_reno = world.sender.policies.congestion.controller_name() == "new-reno";
    let policies = if is_reno { "controller=new-reno" } else { "" };
    for end in [&mut flow.client, &mut flow.server] {
        end.policies = policies.parse().unwrap();
    }
    flow.saved = SavedState::default();
    if world.sender.knows_path {
        // These stacks do not remember a path; the nearest to it is a first window as large as the path. quiche, which
        // does not pace, fills no more than the queue at once.
        let holds = world.path.rate.bytes_in(world.path.round_trip);
        let most = if stack.starts_with("quiche") { world.path.queue } else { u64::MAX };
        let window = holds.min(most).clamp(12_000, 1 << 30);
        flow.settings.set("initial_window", SettingValue::Number(window));
    }
    flow.log_files = logs.map(|logs| Arc::new(logs) as Arc<dyn LogFiles>);
    plan
}

/// How long the transfer takes; none if it does not come to an end.
fn run(stack: &str, world: &World) -> Option<Duration> {
    let result = run_with(&plan(stack, world, None), &registry()).unwrap();
    result.flows.first().filter(|flow| flow.failed.is_none()).and_then(|flow| flow.completion)
}

/// The log of the sender.
pub fn log(stack: &str, world: &World) -> Vec<u8> {
    let kept = Kept::default();
    run_with(&plan(stack, world, Some(kept.clone())), &registry()).unwrap();
    kept.take()
}

/// Runs a transfer, and again without each cause. A handshake costs a round trip, as no run of these stacks is without;
/// their probes cannot be changed.
pub fn truth(stack: &str, number: u64) -> Option<Truth> {
    let world = drawn(number);
    let completion = run(stack, &world)?;
    let share = |time: Duration| time.nanos() as f64 / completion.nanos().max(1) as f64;
    let mut savings = Vec::new();
    for cause in Cause::ALL.into_iter().filter(|cause| world.has(*cause) && *cause != Cause::LateProbe) {
        match cause {
            Cause::Handshake => savings.push((cause, share(world.path.round_trip))),
            cause => savings.extend(run(stack, &world.without(cause)).map(|without| (cause, 1.0 - share(without)))),
        }
    }
    savings.sort_by(|a, b| b.1.total_cmp(&a.1));
    Some(Truth { number, completion, savings })
}

/// Causes that the logs of a stack do not tell: those of quinn have no frames.
fn untold(stack: &str) -> &'static [Cause] {
    if stack.starts_with("quinn") { &[Cause::ChanceLoss, Cause::Reordering, Cause::WayBack] } else { &[] }
}

/// Whether the log tells one of the right answers.
pub fn is_told(stack: &str, truth: &Truth) -> bool {
    let most = truth.savings.first().map_or(0.0, |(_, share)| *share);
    let is_right = |share: f64| share >= most - CLOSE;
    let Some(_) = truth.primary() else { return true };
    truth.savings.iter().any(|(cause, share)| is_right(*share) && !untold(stack).contains(cause))
}
