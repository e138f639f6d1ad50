//! `[[expect]]`, `[[known]]` and `[until]`: what has to hold, what is known to fall short, and how sure one wants to
//! be.

use thalweg_link::PathConfig;

use super::bounds::{self, Bounded};
use super::labels::{Labels, hint};
use super::read::{Field, Reader};
use super::world::FlowSpec;
use crate::metric::{self, METRICS, Metric, Scope, Unit};
use crate::stats::Statistic;

/// Something that has to hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    /// The line of the file; of a bound by label, the label's.
    pub line: usize,
    /// Whether it does not have to hold because it is known to fall short: `[[known]]`.
    pub known: bool,
    /// Axis and value: the points it speaks of; all of ours if empty. Of rivals only if it names one.
    pub points: Vec<(String, String)>,
    /// The flow it speaks of; each if absent.
    pub flow: Option<String>,
    /// The path on which it speaks of a flow that uses several at once; all together if absent.
    pub path: Option<String>,
    /// The link it speaks of, `PATH.up` or `PATH.down`; each if absent.
    pub link: Option<String>,
    /// What is measured.
    pub metric: &'static Metric,
    /// And summed up.
    pub statistic: Statistic,
    /// Lower bound.
    pub at_least: Option<f64>,
    /// Upper bound.
    pub at_most: Option<f64>,
    /// If present, the bounds speak of the ratio to the value at these points, seed by seed.
    pub relative_to: Option<Vec<(String, String)>>,
    /// If present, the bounds speak of the difference from the value at these points, seed by seed.
    pub versus: Option<Vec<(String, String)>>,
    /// Where the numbers come from.
    pub because: Option<String>,
}

impl Expectation {
    /// The points it compares with, if it does.
    pub fn base(&self) -> Option<&[(String, String)]> {
        self.relative_to.as_deref().or(self.versus.as_deref())
    }

    /// The flow or link that it names.
    pub fn subject(&self) -> Option<&String> {
        match self.metric.scope {
            Scope::Flow => self.flow.as_ref(),
            Scope::Link => self.link.as_ref(),
            Scope::Run => None,
        }
    }

    /// Whether a value is as expected. What is endless never is, but a ratio to nothing may be at least something.
    pub fn holds(&self, value: f64) -> bool {
        (value.is_finite() || value == f64::INFINITY && self.relative_to.is_some())
            && self.at_least.is_none_or(|least| value >= least)
            && self.at_most.is_none_or(|most| value <= most)
    }

    /// The unit of the bounds.
    pub fn unit(&self) -> Unit {
        unit(self.relative_to.is_some(), self.metric, self.statistic)
    }

    /// The bounds for people.
    pub fn bounds(&self) -> String {
        let print = |value| metric::format(value, self.unit());
        match (self.at_least, self.at_most) {
            (Some(least), Some(most)) if least == most => format!("exactly {}", print(least)),
            (Some(least), Some(most)) => format!("from {} to {}", print(least), print(most)),
            (Some(least), None) => format!("at least {}", print(least)),
            (None, Some(most)) => format!("at most {}", print(most)),
            (None, None) => "anything".to_owned(),
        }
    }
}

/// The unit of a bound.
fn unit(relative: bool, metric: &Metric, statistic: Statistic) -> Unit {
    if relative { Unit::Ratio } else { statistic.unit(metric.unit) }
}

/// More seeds until an interval is narrow.
#[derive(Clone, Debug, PartialEq)]
pub struct Until {
    /// What is measured.
    pub metric: &'static Metric,
    /// And summed up.
    pub statistic: Statistic,
    /// Width of the 95 % interval over the estimate.
    pub width: f64,
    /// Where to stop anyway.
    pub max_seeds: u64,
}

pub(crate) fn until(field: &Field<'_>) -> Option<Until> {
    let reader = field.table("[until] with metric, width and max_seeds")?;
    let measured = reader.need("metric", "\"completion.p50\"").and_then(|field| {
        let found = measured(&field)?;
        if !found.1.has_interval() {
            field.complain(format!(
                "the statistic {} has no interval that could become narrow; write {}",
                found.1,
                Statistic::WITH_INTERVAL
            ));
        }
        Some(found)
    });
    let width = reader.need("width", "\"5 %\"").and_then(|field| {
        let width = field.share()?;
        if width == 0.0 {
            field.complain("no interval is that narrow; write a share above 0, such as \"5 %\"");
        }
        Some(width)
    });
    let max_seeds = reader.need("max_seeds", "200").and_then(|field| field.count(1..=super::MOST_SEEDS));
    reader.finish();
    let (metric, statistic) = measured?;
    Some(Until { metric, statistic, width: width?, max_seeds: max_seeds? })
}

/// What an expectation can speak of.
#[derive(Copy, Clone)]
pub(crate) struct Named<'a> {
    /// What is varied.
    pub(crate) labels: Labels<'a>,
    /// The flows.
    pub(crate) flows: &'a [FlowSpec],
    /// The paths.
    pub(crate) paths: &'a [PathConfig],
}

/// Which list an expectation is in.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(crate) enum List {
    /// What has to hold.
    Expect,
    /// What is known to fall short.
    Known,
}

pub(crate) fn read(field: &Field<'_>, list: List, world: &Named<'_>) -> Vec<Expectation> {
    let (brackets, accepted) = match list {
        List::Expect => ("[[expect]]", "[[expect]] with metric and a bound"),
        List::Known => ("[[known]]", "[[known]] with metric and a bound"),
    };
    if !field.is_list() {
        field.complain(format!("is one table; write {brackets} with two brackets, once for each expectation"));
    }
    field
        .items()
        .iter()
        .filter_map(|item| one((item.line(), list == List::Known), item.table(accepted)?, world))
        .flatten()
        .collect()
}

/// The expectations of one table: one, or one for each label that has a bound.
fn one(
    (line, known): (usize, bool),
    reader: Reader<'_>,
    Named { labels, flows, paths }: &Named<'_>,
) -> Option<Vec<Expectation>> {
    let selected = reader.get("where").map_or(Some(Vec::new()), |field| labels.points(&field));
    let relative_to = reader.get("relative_to").map(|field| labels.points(&field));
    let versus = reader.get("versus").map(|field| labels.points(&field));
    if relative_to.is_some() && versus.is_some() {
        reader.complain("compares twice; write relative_to for a ratio or versus for a difference");
    }
    let flow = reader.get("flow").and_then(|field| {
        let choices: Vec<(&str, &str)> = flows.iter().map(|flow| (flow.name.as_str(), flow.name.as_str())).collect();
        field.choice(&choices).map(str::to_owned)
    });
    let path = reader.get("path").and_then(|field| {
        let taken = |name: &&str| flows.iter().any(|flow| flow.takes(name));
        let known: Vec<&str> = paths.iter().map(|path| path.name.as_str()).collect();
        let chains = flows.iter().flat_map(FlowSpec::paths).filter(|name| !known.contains(name));
        let mut choices: Vec<(&str, &str)> =
            known.iter().copied().filter(taken).chain(chains).map(|name| (name, name)).collect();
        choices.dedup();
        field.choice(&choices).map(str::to_owned)
    });
    let links = links(paths);
    let link = reader.get("link").and_then(|field| {
        let choices: Vec<(&str, &str)> = links.iter().map(|link| (link.as_str(), link.as_str())).collect();
        field.choice(&choices).map(str::to_owned)
    });
    let measured = reader.need("metric", "\"completion.p50\"").and_then(|field| measured(&field));
    // A difference can be negative.
    let unit = measured.map(|(metric, statistic)| (unit(relative_to.is_some(), metric, statistic), versus.is_some()));
    let bounded = bounds::read(&reader, selected.as_deref().unwrap_or_default(), *labels, unit);
    if let Some((metric, _)) = measured {
        if flow.is_some() && metric.scope != Scope::Flow {
            reader.complain(format!("{} is not measured per flow; leave flow out", metric.name));
        }
        if path.is_some() && metric.scope != Scope::Flow {
            reader.complain(format!("{} is not measured per path of a flow; leave path out", metric.name));
        } else if path.is_some() && !metric::OF_PATHS.contains(&metric.name) {
            reader.complain(format!(
                "{} is not measured per path of a flow; these are: {}",
                metric.name,
                metric::OF_PATHS.join(", ")
            ));
        }
        if link.is_some() && metric.scope != Scope::Link {
            reader.complain(format!("{} is not measured per link; leave link out", metric.name));
        }
    }
    reader.finish();
    let (metric, statistic) = measured?;
    // None within: present but wrong.
    let (relative_to, versus) = (
        relative_to.map_or(Some(None), |points| points.map(Some)),
        versus.map_or(Some(None), |points| points.map(Some)),
    );
    let (relative_to, versus) = (relative_to?, versus?);
    let selected = selected?;
    let expectation = |Bounded { line: own_line, point, at_least, at_most, because }: Bounded| Expectation {
        line: own_line.unwrap_or(line),
        known,
        points: selected.iter().cloned().chain(point).collect(),
        flow: flow.clone(),
        path: path.clone(),
        link: link.clone(),
        metric,
        statistic,
        at_least,
        at_most,
        relative_to: relative_to.clone(),
        versus: versus.clone(),
        because,
    };
    Some(bounded.into_iter().map(expectation).collect())
}

/// The names of the directions of paths.
pub(crate) fn links(paths: &[PathConfig]) -> Vec<String> {
    paths.iter().flat_map(|path| [format!("{}.up", path.name), format!("{}.down", path.name)]).collect()
}

/// "completion.p50": a metric and a statistic; the statistic of shares of runs can be left out.
pub(super) fn measured(field: &Field<'_>) -> Option<(&'static Metric, Statistic)> {
    let text = field.text("a metric and a statistic, such as \"completion.p50\"")?;
    let (name, statistic) = match text.split_once('.') {
        Some((name, statistic)) => (name, Some(statistic)),
        None => (text, None),
    };
    let Some(metric) = metric::find(name) else {
        let names = || METRICS.iter().map(|metric| metric.name);
        let hint = hint(name, names());
        field.complain(format!(
            "there is no metric \"{name}\"; {hint}there are {}",
            names().collect::<Vec<_>>().join(", ")
        ));
        return None;
    };
    let statistic = match statistic {
        None if matches!(metric.name, "success" | "completed" | "deadline_misses") => Statistic::Mean,
        None => {
            field.complain(format!(
                "does not say how to sum up the seeds; write \"{name}.p50\", or one of {}",
                Statistic::ACCEPTED
            ));
            return None;
        }
        Some(text) => match Statistic::parse(text) {
            Some(statistic) => statistic,
            None => {
                field.complain(format!("there is no statistic \"{text}\"; write {}", Statistic::ACCEPTED));
                return None;
            }
        },
    };
    Some((metric, statistic))
}
