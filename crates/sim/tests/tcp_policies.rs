//! Policies of recovery that a TCP flow has: all that are not listed as ignored make a difference, and none of those
//! listed does.
#![allow(clippy::unwrap_used)]

use thalweg_link::{
    DirectionConfig, EcnTreatment, Jitter, LossModel, Probability, RateModel, Reorder, Schedule, Spread, Windows,
};
use thalweg_recovery::Policies;
use thalweg_sim::traffic::Requests;
use thalweg_sim::*;
use thalweg_units::Duration;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Paths on which each of the rules has something to decide: a deep queue, a shallow one with reordering and loss, an
/// outage, pauses between responses of all sizes, a path that marks everything.
fn plans() -> Vec<Plan> {
    let link = |queue: &str| DirectionConfig {
        rate: RateModel::Constant("20 Mbps".parse().unwrap()),
        delay: ms(25).into(),
        queue: queue.parse().unwrap(),
        jitter: Some(Jitter { spread: Spread::Exponential(ms(1)), reorder: false }),
        ..DirectionConfig::default()
    };
    let plan = |down: DirectionConfig| {
        let flow = FlowPlan { stack: "tcp".to_owned(), ..FlowPlan::new("f", Traffic::download(Some(3_000_000))) };
        Plan { paths: vec![PathPlan::new("p", link("1 BDP"), down)], flows: vec![flow], ..Plan::default() }
    };
    let mut rough = link("1 BDP");
    rough.loss.push(LossModel::Random(Probability::ratio(1, 200)));
    rough.reorder.push(Reorder { share: Probability::ratio(1, 20), by: ms(8) });
    let mut dark = link("1 BDP");
    dark.outages.push(Windows::once(ms(300), ms(700)));
    let mut pauses = plan(link("1 BDP"));
    let (request, response) = (Size::Fixed(100), Size::Uniform(20_000, 400_000));
    pauses.flows[0].traffic =
        Traffic::Requests(Requests { count: 8, request, response, think: Spread::Fixed(ms(1_000)) });
    let ecn = Some(Schedule::constant(EcnTreatment::MarkAll));
    let mut marking = plan(DirectionConfig { ecn, ..link("4 BDP") });
    // Marks of every packet keep the window at its minimum.
    marking.flows[0].traffic = Traffic::download(Some(1_000_000));
    marking.flows[0].settings = TcpConfig { ecn: true, ..TcpConfig::default() }.into();
    vec![plan(link("4 BDP")), plan(rough), plan(dark), pauses, marking]
}

#[test]
fn a_policy_makes_a_difference_or_is_listed_as_ignored() {
    let over = |profile: Option<TcpProfile>, policies: &str| -> Vec<(u128, u128)> {
        let policies: Policies = policies.parse().unwrap();
        let runs = plans().into_iter().map(|mut plan| {
            plan.flows[0] = plan.flows[0].clone().policies(policies.clone());
            if let Some(profile) = profile {
                plan.flows[0].settings = TcpConfig::new(profile).into();
            }
            let result = run(&plan).unwrap();
            assert_eq!(result.failed, None, "{policies}");
            (result.wire_hash, result.decisions_hash)
        });
        runs.collect()
    };
    let wires = |policies: &str| over(None, policies).into_iter().map(|(wire, _)| wire).collect::<Vec<_>>();
    for field in Policies::catalogue() {
        // What a start compares only matters to one that goes by delay, and undoing where detection errs and the window
        // does not come back by itself.
        let with = match field.name {
            "exit-rtt" => "start=hystart++, ",
            "undo" => "controller=cubic, reordering=fixed, ",
            _ => "",
        };
        let base = wires(with.trim_end_matches(", "));
        let built = field.choices.iter().filter(|choice| choice.built);
        let differs = built.filter(|choice| wires(&format!("{with}{}={}", field.name, choice.name)) != base).count();
        let ignored = TcpConfig::IGNORED_POLICIES.contains(&field.name);
        assert_eq!(differs == 0, ignored, "{}: {differs} choices make a difference", field.name);
    }
    // The averages decide at times of their own when a start ends; here the path does not always let that be seen in
    // what is sent, and not where each segment is acknowledged. "short" is what a start makes of samples anyway, the
    // smallest of a round.
    let exits = ["sample", "classic", "per-round"]
        .map(|choice| over(Some(TcpProfile::Paced), &format!("start=hystart++, exit-rtt={choice}")));
    for (n, exit) in exits.iter().enumerate() {
        assert!(!exits[..n].contains(exit), "{n}");
    }
}
