//! `compare` and `answer`: which axes are choices to be compared, and the metric that answers the question.

use super::Axis;
use super::expect;
use super::read::Field;
use super::rivals::STACK;
use crate::metric::{Better, Metric};
use crate::stats::Statistic;

/// The metric that answers the question of a scenario.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Answer {
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

/// Reads the metric.
pub(crate) fn answer(field: &Field<'_>) -> Option<Answer> {
    let (metric, statistic) = expect::measured(field)?;
    if metric.better == Better::Neither {
        field.complain(format!(
            "{} is no metric of which less or more is better, such as \"completion.p50\" or \"sojourn_max.p50\"",
            metric.name
        ));
        return None;
    }
    Some(Answer { metric, statistic })
}

#[cfg(test)]
mod tests {
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
            assert_eq!(read(&format!("answer = \"{name}.p50\"")).unwrap().answer.unwrap().metric.name, name);
        }
        for wrong in ["\"packets_sent.p50\"", "\"link_packets.p50\"", "\"speed\""] {
            assert!(read(&format!("answer = {wrong}")).is_err(), "{wrong}");
        }
    }
}
