//! `compare` and `answer`: which axes are choices to be compared, and the metric that answers the question.

use thalweg_sim::Traffic;

use super::axis::{Axis, Point};
use super::expect;
use super::read::Field;
use super::rivals::STACK;
use crate::metric::{Better, Metric, Scope};
use crate::stats::Statistic;

/// A metric that was asked for, and how it is summed up.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Measured {
    /// A metric that judges.
    pub metric: &'static Metric,
    /// How it is summed up.
    pub statistic: Statistic,
}

/// Marks the axes that `field` names as choices, with those that change together with them, and all others as
/// circumstances. Rivals stay a choice.
pub(crate) fn mark(field: &Field<'_>, axes: &mut [Axis]) {
    const EXAMPLE: &str = "an axis of [vary] such as \"start\", or a list of them";
    for axis in axes.iter_mut() {
        axis.is_choice = axis.label == STACK;
    }
    for item in field.items() {
        let Some(name) = item.text(EXAMPLE) else { continue };
        match axes.iter_mut().find(|axis| axis.label == name || axis.key == name) {
            Some(axis) => {
                axis.is_choice = true;
                let together = axis.together;
                let with_it = axes.iter_mut().filter(|axis| together.is_some() && axis.together == together);
                with_it.for_each(|axis| axis.is_choice = true);
            }
            None => {
                let labels: Vec<&str> = axes.iter().map(|axis| axis.label.as_str()).collect();
                let there_are = match labels.is_empty() {
                    true => "this scenario varies nothing".to_owned(),
                    false => format!("accepted are {}", labels.join(", ")),
                };
                item.complain(format!("there is no axis \"{name}\"; {there_are}"));
            }
        }
    }
}

/// Makes choices of the axes that somebody would decide about, where nothing else is a choice: disciplines of queues,
/// 0-RTT and settings of transports; if none of these varies, the lengths of queues.
pub(crate) fn mark_decisions(axes: &mut [Axis]) {
    if axes.iter().any(|axis| axis.is_choice) {
        return;
    }
    let steps = |axis: &Axis| axis.key.split('.').map(|step| step.trim().to_owned()).collect::<Vec<_>>();
    let is_decision = |axis: &Axis| {
        let steps = steps(axis);
        let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
        matches!(steps[..], ["path", _, "up" | "down", "aqm", ..] | ["flow", _, "early_data" | "transport" | "tcp", ..])
    };
    let is_length = |axis: &Axis| matches!(&steps(axis)[..], [path, .., queue] if path == "path" && queue == "queue");
    let chosen: Vec<usize> = match axes.iter().any(is_decision) {
        true => (0..axes.len()).filter(|at| is_decision(&axes[*at])).collect(),
        false => (0..axes.len()).filter(|at| is_length(&axes[*at])).collect(),
    };
    let together: Vec<usize> = chosen.iter().filter_map(|at| axes[*at].together).collect();
    for (at, axis) in axes.iter_mut().enumerate() {
        axis.is_choice = chosen.contains(&at) || axis.together.is_some_and(|it| together.contains(&it));
    }
}

/// The metric that answers the question, and the flow or link that it is of; none of the run as a whole. Without a name
/// it is of what `first` says, which an expectation names; else of the first flow that can have such a metric, or of
/// the way down of the first path that a flow takes.
pub(crate) fn answer(
    field: &Field<'_>,
    points: &[Point],
    first: impl Fn(&Metric) -> Option<String>,
) -> Option<(Measured, Option<String>)> {
    const EXAMPLE: &str = "\"completion.p50\", or { flow = \"NAME\", metric = \"completion.p50\" }";
    let world = points.first().map(|point| &point.world)?;
    if !field.is_table() {
        let answer = judging(field)?;
        match answer.metric.scope {
            Scope::Flow => {}
            Scope::Link => {
                let first_taken = || world.paths.iter().find(|path| world.takes(&path.name));
                let taken = || first_taken().map(|path| format!("{}.down", path.name));
                return Some((answer, first(answer.metric).or_else(taken)));
            }
            Scope::Run => return Some((answer, None)),
        }
        let has = |flow: &str| has(points, flow, answer.metric);
        let flows = first(answer.metric).into_iter().chain(world.flows.iter().map(|flow| flow.name.clone()));
        let Some(flow) = flows.into_iter().find(|flow| has(flow)) else {
            field.complain(no_value(answer.metric, "no flow here has one"));
            return None;
        };
        return Some((answer, Some(flow)));
    }
    let table = field.table(EXAMPLE)?;
    let metric = table.need("metric", "\"completion.p50\"");
    let flow = table.get("flow").and_then(|field| {
        let names: Vec<(&str, &str)> =
            world.flows.iter().map(|flow| (flow.name.as_str(), flow.name.as_str())).collect();
        field.choice(&names).map(|name| (field, name))
    });
    let links: Vec<String> = expect::links(&world.paths);
    let link = table.get("link").and_then(|field| {
        let names: Vec<(&str, &str)> = links.iter().map(|link| (link.as_str(), link.as_str())).collect();
        field.choice(&names).map(|name| (field, name))
    });
    table.finish();
    let answer = judging(&metric?)?;
    let Metric { name, scope, .. } = *answer.metric;
    match (flow, link) {
        (Some((field, _)), _) if scope != Scope::Flow => {
            field.complain(format!("{name} is not measured per flow; leave flow out"))
        }
        (_, Some((field, _))) if scope != Scope::Link => {
            field.complain(format!("{name} is not measured per link; leave link out"))
        }
        (Some((field, flow)), _) if !has(points, flow, answer.metric) => {
            field.complain(no_value(answer.metric, &format!("the flow {flow} has none")));
        }
        (Some((_, flow)), _) => return Some((answer, Some(flow.to_owned()))),
        (None, Some((_, link))) => return Some((answer, Some(link.to_owned()))),
        (None, None) if scope == Scope::Run => return Some((answer, None)),
        (None, None) => {
            field.complain(format!("names neither flow nor link; write {EXAMPLE}"));
        }
    }
    None
}

/// Reads a metric of which less or more is better.
fn judging(field: &Field<'_>) -> Option<Measured> {
    let (metric, statistic) = expect::measured(field)?;
    if metric.better == Better::Neither {
        field.complain(format!(
            "{} is no metric of which less or more is better, such as \"completion.p50\" or \"sojourn_max.p50\"",
            metric.name
        ));
        return None;
    }
    Some(Measured { metric, statistic })
}

/// Whether a flow can have a metric at some point, as far as its traffic shows.
fn has(points: &[Point], flow: &str, metric: &Metric) -> bool {
    let flows = points.iter().flat_map(|point| &point.world.flows).filter(|it| it.name == flow);
    flows.into_iter().any(|flow| can_have(&flow.traffic, metric))
}

/// Whether traffic can have a metric of flows. What depends on more than the traffic is taken to be there.
fn can_have(traffic: &Traffic, metric: &Metric) -> bool {
    let is_special = Traffic::keys().any(|kind| kind.metrics.contains(&metric.name));
    let ends = || traffic.bulk().is_none_or(|bulk| bulk.bytes.is_some());
    (!is_special || traffic.metrics().contains(&metric.name)) && (!metric.name.starts_with("completion") || ends())
}

fn no_value(metric: &Metric, whose: &str) -> String {
    let kinds = Traffic::keys().filter(|kind| kind.metrics.contains(&metric.name)).map(|kind| kind.name);
    let of = match kinds.collect::<Vec<_>>().as_slice() {
        // Only those that complete have a time of completion.
        [] => "transfers that have an end".to_owned(),
        [one] => (*one).to_owned(),
        [some @ .., last] => format!("{} and {last}", some.join(", ")),
    };
    format!("{} would have no value: {whose}; it is a metric of {of}", metric.name)
}

#[cfg(test)]
mod tests {
    use crate::engine::Engine;
    use crate::engine::SimEngine;
    use crate::scenario::{Scenario, StackInfo};

    const TEXT: &str = r#"
title = "t"
question = "q?"
HERE
[path.p]
preset = "broadband"
[[flow]]
transfer = { download = "1 MB" }
[vary]
"path.p.down.rate" = ["1 Mbps", "2 Mbps"]
"flow.0.policies.start" = ["standard", "hystart++"]
"#;

    fn read(line: &str) -> Result<Scenario, String> {
        let stacks = [StackInfo::new("thalweg")];
        Scenario::parse("t.toml", &TEXT.replace("HERE", line), std::path::Path::new(""), &stacks)
            .map_err(|error| error.to_string())
    }

    fn choices(line: &str) -> Vec<bool> {
        read(line).unwrap().axes.iter().map(|axis| axis.is_choice).collect()
    }

    #[test]
    fn policies_are_choices_unless_the_scenario_says_otherwise() {
        assert_eq!(choices(""), [false, true]);
        assert_eq!(choices("compare = \"rate\""), [true, false]);
        assert_eq!(choices("compare = [\"rate\", \"start\"]"), [true, true]);
        let error = read("compare = \"delay\"").unwrap_err();
        assert!(error.contains("no axis \"delay\"; accepted are rate, start"), "{error}");
    }

    #[test]
    fn the_answer_is_a_metric_that_judges() {
        for name in ["goodput", "link_use", "completion_mean"] {
            assert_eq!(read(&format!("answer = \"{name}.p50\"")).unwrap().answer.unwrap().0.metric.name, name);
        }
        for wrong in ["\"packets_sent.p50\"", "\"link_packets.p50\"", "\"speed\""] {
            assert!(read(&format!("answer = {wrong}")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_somebody_decides_about_is_a_choice_where_nothing_else_is() {
        let queue = "\"path.p.down.queue\" = [\"1 BDP\", \"2 BDP\"]";
        let early = "\"flow.0.early_data\" = [false, true]";
        let aqm = "\"path.p.down.aqm\" = [\"tail-drop\", \"codel\"]";
        let transport = "\"flow.0.transport\" = [{ label = \"a\" }, { label = \"b\", ack = \"every-second\" }]";
        let read = |vary: &str| {
            let text =
                TEXT.replace("HERE", "").replace("\"flow.0.policies.start\" = [\"standard\", \"hystart++\"]", vary);
            let stacks = SimEngine::default().stacks();
            let scenario = Scenario::parse("t.toml", &text, std::path::Path::new(""), &stacks);
            scenario.unwrap().axes.iter().map(|axis| axis.is_choice).collect::<Vec<_>>()
        };
        for one in [queue, early, aqm, transport] {
            assert_eq!(read(one), [false, true], "{one}");
        }
        assert_eq!(
            read(&format!("{queue}\n{aqm}")),
            [false, false, true],
            "a length is a circumstance of a discipline"
        );
        assert_eq!(read(&format!("{aqm}\n\"flow.0.policies.pacing\" = [\"off\", \"on\"]")), [false, false, true]);
        let together = format!("[[vary.together]]\n{aqm}\n{queue}");
        assert_eq!(read(&together), [false, true, true]);
        assert_eq!(read(""), [false], "a rate is nothing to decide");
    }

    /// A download beside datagrams, requests and a call.
    const FLOWS: &str = r#"
title = "t"
question = "q?"
HERE
[path.p]
preset = "broadband"
[[flow]]
name = "bulk"
transfer = { upload = "1 MB" }
[[flow]]
name = "game"
datagrams = { rate = "200 kbps", size = "200 B", duration = "10 s", direction = "up" }
[[flow]]
name = "web"
requests = { response = "20 kB", count = 5 }
[[flow]]
name = "voice"
media = { rate = "100 kbps", deadline = "100 ms", duration = "10 s" }
"#;

    #[test]
    fn an_answer_is_of_the_flow_that_it_names_or_of_the_first_that_has_it() {
        let read = |line: &str| {
            let stacks = [StackInfo::new("thalweg")];
            Scenario::parse("t.toml", &FLOWS.replace("HERE", line), std::path::Path::new(""), &stacks)
                .map(|scenario| scenario.answer.map(|(_, of)| of))
                .map_err(|error| error.to_string())
        };
        let of = |name: &str| Ok(Some(Some(name.to_owned())));
        assert_eq!(read("answer = \"completion.p50\""), of("bulk"));
        assert_eq!(read("answer = \"frame_delay.p99\""), of("game"));
        assert_eq!(read("answer = \"response.p95\""), of("web"));
        assert_eq!(read("answer = \"deadline_misses\""), of("voice"), "datagrams have no deadline to miss");
        assert_eq!(read("answer = { flow = \"voice\", metric = \"frame_delay.p99\" }"), of("voice"));
        assert_eq!(read("answer = { link = \"p.up\", metric = \"sojourn_p99.p50\" }"), of("p.up"));
        assert_eq!(read("answer = \"completion_mean.p50\""), Ok(Some(None)));
        assert_eq!(read("answer = { metric = \"fairness.p50\" }"), Ok(Some(None)), "the run has no name");
        // Without a name, the link that the page and the verdict are about is one and the same, and one that is taken.
        let text = FLOWS.replace("HERE", "answer = \"sojourn_max.p50\"\n[path.aside]\npreset = \"wifi\"");
        let text = text.replace("[[flow]]\n", "[[flow]]\npath = \"p\"\n");
        let aside = Scenario::parse("t.toml", &text, std::path::Path::new(""), &[StackInfo::new("thalweg")]).unwrap();
        assert_eq!(aside.answer.unwrap().1.as_deref(), Some("p.down"));
        for (wrong, why) in [
            (
                "answer = \"flow_completion.p50\"",
                "would have no value: no flow here has one; it is a metric of short_flows",
            ),
            ("answer = { flow = \"bulk\", metric = \"frame_delay.p99\" }", "the flow bulk has none"),
            ("answer = { flow = \"game\", metric = \"deadline_misses\" }", "it is a metric of media"),
            ("answer = { flow = \"gane\", metric = \"goodput.p50\" }", "game"),
            ("answer = { flow = \"game\", metric = \"sojourn_max.p50\" }", "leave flow out"),
            ("answer = { link = \"p.up\", metric = \"goodput.p50\" }", "leave link out"),
            ("answer = { metric = \"goodput.p50\" }", "names neither flow nor link"),
            ("answer = { flow = \"bulk\", metric = \"fairness.p50\" }", "leave flow out"),
        ] {
            let error = read(wrong).unwrap_err();
            assert!(error.contains(why), "{wrong}: {error}");
        }
    }
}
