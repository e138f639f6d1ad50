//! A run as statistics need it: a hundredth of what its record takes, so that hundreds of thousands fit into memory.
//!
//! Nearly all text of a record is that of the records of other runs. What runs have in common, the names
//! of their parts and which metrics each part has, is kept once, as a [`Layout`]; a run has a row of numbers. A value
//! of zero, such as the count of what did not happen, takes a bit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::metric::{METRICS, Scope};
use crate::record::{Delivery, Part, RunRecord, Values};

/// What runs have in common.
#[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Layout {
    /// Flows, then what they did on each of several paths, then links, then the run as a whole, whose name is empty.
    parts: Box<[PartLayout]>,
    /// How many of the parts are flows, or one on a path.
    flows: usize,
}

/// What one part of runs has in common.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PartLayout {
    name: Arc<str>,
    /// The metrics with values, as places in [`METRICS`], ascending.
    metrics: Box<[u16]>,
    /// The column of the first of them.
    first: u32,
    endless: bool,
    settings: Option<Arc<str>>,
}

/// A run.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    layout: Arc<Layout>,
    failed: Option<Box<str>>,
    wire_hash: Box<str>,
    decisions_hash: Box<str>,
    /// A bit for each column that has something else than one zero.
    kept: Box<[u64]>,
    /// What these columns have, one after the other.
    values: Box<[f64]>,
    /// The columns with more values than one and how many these are, in the order of columns.
    many: Box<[(u32, u32)]>,
    /// Part, metric, and how many times of it have no end.
    never: Box<[(u32, u16, u64)]>,
    /// How the bytes of each flow arrived; empty if that is known of none.
    arrivals: Box<[Option<Arrivals>]>,
    /// How long packets waited at each link; empty if none waited at any.
    waits: Box<[Times]>,
}

/// A [`Delivery`].
#[derive(Clone, Debug, PartialEq)]
enum Arrivals {
    Shares { whole: u64, times: Times, floor: Times },
    Steps { lasted: f64, bytes: Box<[u64]> },
}

impl Arrivals {
    fn of(delivery: &Delivery) -> Arrivals {
        match delivery {
            Delivery::Shares { whole, times, floor } => {
                Arrivals::Shares { whole: *whole, times: Times::of(times), floor: Times::of(floor) }
            }
            Delivery::Steps { lasted, bytes } => Arrivals::Steps { lasted: *lasted, bytes: bytes.as_slice().into() },
        }
    }

    fn delivery(&self) -> Delivery {
        match self {
            Arrivals::Shares { whole, times, floor } => {
                Delivery::Shares { whole: *whole, times: times.seconds(), floor: floor.seconds() }
            }
            Arrivals::Steps { lasted, bytes } => Delivery::Steps { lasted: *lasted, bytes: bytes.to_vec() },
        }
    }
}

/// Times in seconds. Nearly all are whole microseconds, which take half the space; what these do not give back to the
/// last bit is kept as it is.
#[derive(Clone, Debug, PartialEq)]
enum Times {
    Micros(Box<[u32]>),
    Exact(Box<[f64]>),
}

impl Times {
    fn of(seconds: &[f64]) -> Times {
        let micros = |time: &f64| {
            let micros = (time * 1e6).round() as u32;
            (Times::of_micros(micros).to_bits() == time.to_bits()).then_some(micros)
        };
        let all: Option<Box<[u32]>> = seconds.iter().map(micros).collect();
        all.map_or_else(|| Times::Exact(seconds.into()), Times::Micros)
    }

    fn of_micros(micros: u32) -> f64 {
        f64::from(micros) / 1e6
    }

    fn seconds(&self) -> Vec<f64> {
        match self {
            Times::Micros(all) => all.iter().map(|micros| Times::of_micros(*micros)).collect(),
            Times::Exact(all) => all.to_vec(),
        }
    }
}

impl Run {
    /// Why it did not come to its end, if so.
    pub fn failed(&self) -> Option<&str> {
        self.failed.as_deref()
    }

    /// What tells it apart on the wire; empty if it panicked.
    pub fn wire_hash(&self) -> &str {
        &self.wire_hash
    }

    /// What tells apart how its endpoints decided.
    pub fn decisions_hash(&self) -> &str {
        &self.decisions_hash
    }

    /// Whether there is nothing of any flow, as in a run that panicked.
    pub fn has_no_flows(&self) -> bool {
        self.layout.flows == 0
    }

    /// Names and numbers of the parts of a scope.
    fn parts(&self, scope: Scope) -> impl Iterator<Item = (usize, &PartLayout)> {
        let (flows, all) = (self.layout.flows, self.layout.parts.len());
        let range = match scope {
            Scope::Flow => 0..flows,
            Scope::Link => flows..all.saturating_sub(1).max(flows),
            Scope::Run => all.saturating_sub(1).max(flows)..all,
        };
        range.map(|at| (at, &self.layout.parts[at]))
    }

    fn part(&self, scope: Scope, subject: &str) -> Option<(usize, &PartLayout)> {
        self.parts(scope).find(|(_, part)| scope == Scope::Run || *part.name == *subject)
    }

    /// Whether there is a flow of this name.
    pub fn has_flow(&self, flow: &str) -> bool {
        self.part(Scope::Flow, flow).is_some()
    }

    /// Whether a flow goes on until the run is stopped.
    pub fn is_endless(&self, flow: &str) -> bool {
        self.part(Scope::Flow, flow).is_some_and(|(_, part)| part.endless)
    }

    /// How a flow was set up, in its stack's own words.
    pub fn settings(&self, flow: &str) -> Option<&str> {
        self.part(Scope::Flow, flow)?.1.settings.as_deref()
    }

    /// How each flow was set up that says, by its name.
    pub fn all_settings(&self) -> impl Iterator<Item = (&str, &str)> {
        self.parts(Scope::Flow).filter_map(|(_, part)| Some((&*part.name, part.settings.as_deref()?)))
    }

    /// How the bytes of a flow arrived.
    pub fn delivery(&self, flow: &str) -> Option<Delivery> {
        Some(self.arrivals.get(self.part(Scope::Flow, flow)?.0)?.as_ref()?.delivery())
    }

    /// Whether it is known how the bytes of a flow arrived.
    pub fn has_delivery(&self, flow: &str) -> bool {
        let arrivals = self.part(Scope::Flow, flow).and_then(|(at, _)| self.arrivals.get(at));
        arrivals.is_some_and(Option::is_some)
    }

    /// The names of its links.
    pub fn links(&self) -> impl Iterator<Item = &str> {
        self.parts(Scope::Link).map(|(_, part)| &*part.name)
    }

    /// How long the packets of a link waited, as [`Part::waits`] says.
    pub fn waits(&self, link: &str) -> Vec<f64> {
        let at = self.part(Scope::Link, link).map(|(at, _)| at - self.layout.flows);
        at.and_then(|at| self.waits.get(at)).map(Times::seconds).unwrap_or_default()
    }

    /// Whether a time of this flow has no end.
    pub fn is_never(&self, flow: &str, metric: &str) -> bool {
        self.never(flow, metric) > 0
    }

    /// How many of a flow's times have no end.
    pub fn never(&self, flow: &str, metric: &str) -> u64 {
        if self.never.is_empty() {
            return 0;
        }
        let (Some((part, _)), Some(metric)) = (self.part(Scope::Flow, flow), number(metric)) else { return 0 };
        let found = self.never.iter().find(|(of, what, _)| *of as usize == part && *what == metric);
        found.map_or(0, |(.., count)| *count)
    }

    /// The values of a metric. `subject` names the flow or link.
    pub fn get(&self, scope: Scope, subject: &str, metric: &str) -> &[f64] {
        self.of_number(scope, subject, number(metric))
    }

    /// The values of the metric with this place in [`METRICS`], if it is one.
    pub(super) fn of_number(&self, scope: Scope, subject: &str, metric: Option<u16>) -> &[f64] {
        let (Some(metric), Some((_, part))) = (metric, self.part(scope, subject)) else { return &[] };
        let Ok(at) = part.metrics.binary_search(&metric) else { return &[] };
        self.column(part.first as usize + at)
    }

    fn column(&self, column: usize) -> &[f64] {
        let (word, bit) = (column / 64, column % 64);
        let Some(own) = self.kept.get(word).filter(|own| **own >> bit & 1 == 1) else { return &[0.0] };
        let before: u32 = self.kept[..word].iter().map(|word| word.count_ones()).sum();
        let mut from = (before + (own & ((1 << bit) - 1)).count_ones()) as usize;
        let mut length = 1;
        for (of, count) in &self.many {
            match (*of as usize).cmp(&column) {
                core::cmp::Ordering::Less => from += *count as usize - 1,
                core::cmp::Ordering::Equal => length = *count as usize,
                core::cmp::Ordering::Greater => break,
            }
        }
        self.values.get(from..from + length).unwrap_or_default()
    }

    /// The parts and metrics of which there is more than one value.
    pub(super) fn repeated(&self) -> impl Iterator<Item = (&str, u16)> {
        self.many.iter().filter_map(|(column, _)| {
            let part = self.layout.parts.iter().rfind(|part| part.first <= *column && !part.metrics.is_empty())?;
            Some((&*part.name, *part.metrics.get((column - part.first) as usize)?))
        })
    }
}

/// The place of a metric in [`METRICS`].
pub(super) fn number(metric: &str) -> Option<u16> {
    static BY_NAME: std::sync::LazyLock<BTreeMap<&str, u16>> =
        std::sync::LazyLock::new(|| METRICS.iter().map(|metric| metric.name).zip(0..).collect());
    BY_NAME.get(metric).copied()
}

/// What is kept once of many runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Common {
    layouts: BTreeSet<Arc<Layout>>,
    texts: BTreeSet<Arc<str>>,
}

impl Common {
    fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return Arc::clone(known);
        }
        let new: Arc<str> = text.into();
        self.texts.insert(Arc::clone(&new));
        new
    }

    /// A record without what no statistic asks for.
    pub(super) fn run(&mut self, record: &RunRecord) -> Run {
        let mut row = Row::default();
        let flows = record.flows.len() + record.ways.len();
        let mut parts = Vec::with_capacity(flows + record.links.len() + 1);
        for part in record.flows.iter().chain(&record.ways).chain(&record.links) {
            let settings = part.notes.get("settings").map(|text| self.text(text));
            let name = self.text(&part.name);
            row.never(parts.len(), &part.never);
            let (first, metrics) = row.take(&part.values);
            parts.push(PartLayout { name, metrics, first, endless: part.endless, settings });
        }
        let (first, metrics) = row.take(&record.values);
        parts.push(PartLayout { name: self.text(""), metrics, first, endless: false, settings: None });
        let layout = Layout { parts: parts.into(), flows };
        let layout = match self.layouts.get(&layout) {
            Some(known) => Arc::clone(known),
            None => {
                let new = Arc::new(layout);
                self.layouts.insert(Arc::clone(&new));
                new
            }
        };
        let has_arrivals = record.flows.iter().any(|part| part.delivery.is_some());
        let has_waits = record.links.iter().any(|part| !part.waits.is_empty());
        let arrivals = |part: &Part| part.delivery.as_ref().map(Arrivals::of);
        let waits = |part: &Part| Times::of(&part.waits);
        Run {
            layout,
            failed: record.failed.as_deref().map(Box::from),
            wire_hash: record.wire_hash.as_str().into(),
            decisions_hash: record.decisions_hash.as_str().into(),
            kept: row.kept.into(),
            values: row.values.into(),
            many: row.many.into(),
            never: row.never.into(),
            arrivals: if has_arrivals { record.flows.iter().map(arrivals).collect() } else { Box::default() },
            waits: if has_waits { record.links.iter().map(waits).collect() } else { Box::default() },
        }
    }
}

/// The numbers of a run, as they are taken over.
#[derive(Default)]
struct Row {
    columns: u32,
    kept: Vec<u64>,
    values: Vec<f64>,
    many: Vec<(u32, u32)>,
    never: Vec<(u32, u16, u64)>,
}

impl Row {
    /// Takes the values of a part over: its first column, and its metrics. What is no metric is left out.
    fn take(&mut self, values: &Values) -> (u32, Box<[u16]>) {
        let known = values.iter().filter(|(_, values)| !values.is_empty());
        let mut known: Vec<(u16, &[f64])> =
            known.filter_map(|(name, values)| Some((number(name)?, values.as_slice()))).collect();
        known.sort_unstable_by_key(|(metric, _)| *metric);
        let first = self.columns;
        for (_, values) in &known {
            let (word, bit) = (self.columns as usize / 64, self.columns % 64);
            self.kept.resize(word + 1, 0);
            // A negative zero is another number.
            if values.len() > 1 || values[0].to_bits() != 0 {
                self.kept[word] |= 1 << bit;
                self.values.extend_from_slice(values);
            }
            if values.len() > 1 {
                self.many.push((self.columns, values.len() as u32));
            }
            self.columns += 1;
        }
        (first, known.into_iter().map(|(metric, _)| metric).collect())
    }

    fn never(&mut self, part: usize, never: &BTreeMap<String, u64>) {
        let known = never.iter().filter_map(|(name, count)| Some((part as u32, number(name)?, *count)));
        self.never.extend(known);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::engine::Engine;
    use crate::engine::SimEngine;
    use crate::record::put;
    use crate::scenario::Scenario;

    /// A run of the simulator that is like others: a download over TCP with losses.
    fn simulated() -> RunRecord {
        let text = "title = \"t\"\nquestion = \"q?\"\n[path.p]\n\
                    up = { rate = \"10 Mbps\", delay = \"10 ms\" }\n\
                    down = { rate = \"10 Mbps\", delay = \"10 ms\", loss = \"2 %\" }\n\
                    [[flow]]\nstack = \"tcp\"\ntransfer = { download = \"200 kB\" }\n";
        let engine = SimEngine::default();
        let scenario = Scenario::parse("t.toml", text, Path::new(""), &engine.stacks()).unwrap();
        engine.run(&scenario.points[0].world, 1, false).record
    }

    /// Whatever a run of these parts can say besides.
    fn odd() -> RunRecord {
        let mut record = RunRecord { failed: Some("lightning".to_owned()), ..simulated() };
        let mut media = Part { name: "media".to_owned(), endless: true, ..Part::default() };
        [0.0, 0.25, 0.0].into_iter().for_each(|delay| media.set("frame_delay", delay));
        media.set("goodput", -0.0);
        media.never_times("frame_delay", 7);
        media.delivery = Some(Delivery::Steps { lasted: 1.0 / 3.0, bytes: vec![1, u64::MAX] });
        record.flows.insert(0, media);
        record.flows.push(Part { name: "nothing".to_owned(), ..Part::default() });
        put(&mut record.values, "events", 5e9);
        // A third of a microsecond, and more of them than 32 bits count.
        record.links[0].waits = vec![1e-6 / 3.0, 5e3];
        record
    }

    #[test]
    fn a_run_says_what_its_record_said() {
        for record in [simulated(), odd(), RunRecord::failure("panic".to_owned()), RunRecord::default()] {
            let run = Common::default().run(&record);
            assert_eq!(run.failed(), record.failed.as_deref());
            assert_eq!([run.wire_hash(), run.decisions_hash()], [&*record.wire_hash, &*record.decisions_hash]);
            assert_eq!(run.has_no_flows(), record.flows.is_empty());
            let names = |parts: &[Part]| parts.iter().map(|part| part.name.clone()).collect::<Vec<_>>();
            assert_eq!(run.links().collect::<Vec<_>>(), names(&record.links));
            let subjects = [names(&record.flows), names(&record.links), vec![String::new(), "unknown".to_owned()]];
            for metric in METRICS {
                for subject in subjects.iter().flatten() {
                    for scope in [Scope::Flow, Scope::Link, Scope::Run] {
                        let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
                        let (is, was) = (run.get(scope, subject, metric.name), record.get(scope, subject, metric.name));
                        assert_eq!(bits(is), bits(was), "{scope:?} {subject} {}", metric.name);
                    }
                    assert_eq!(run.never(subject, metric.name), record.never(subject, metric.name), "{}", metric.name);
                }
            }
            for part in &record.flows {
                assert_eq!(run.delivery(&part.name), part.delivery);
                assert_eq!(run.has_delivery(&part.name), part.delivery.is_some());
                assert_eq!(run.is_endless(&part.name), part.endless);
                assert_eq!(run.settings(&part.name), part.notes.get("settings").map(String::as_str));
                let repeated = run.repeated().filter(|(of, _)| *of == part.name).count();
                assert_eq!(repeated, part.values.values().filter(|values| values.len() > 1).count(), "{}", part.name);
            }
            for part in &record.links {
                assert_eq!(run.waits(&part.name), part.waits, "{}", part.name);
            }
        }
    }

    #[test]
    fn what_runs_have_in_common_is_kept_once() {
        let (mut common, record) = (Common::default(), simulated());
        let one = common.run(&record);
        let other = common.run(&RunRecord { wire_hash: "other".to_owned(), ..record });
        assert!(Arc::ptr_eq(&one.layout, &other.layout));
        assert_eq!(common.layouts.len(), 1);
    }

    /// A gigabyte is to hold a quarter of a million runs of several flows.
    #[test]
    fn a_run_of_one_flow_takes_less_than_two_kilobytes() {
        let run = Common::default().run(&simulated());
        let times = |times: &Times| match times {
            Times::Micros(all) => size_of_val(&**all),
            Times::Exact(all) => size_of_val(&**all),
        };
        let arrivals = run.arrivals.iter().flatten().map(|arrivals| match arrivals {
            Arrivals::Shares { times: of_shares, floor, .. } => times(of_shares) + times(floor),
            Arrivals::Steps { bytes, .. } => size_of_val(&**bytes),
        });
        let own = size_of_val(&*run.kept) + size_of_val(&*run.values) + size_of_val(&*run.many);
        let texts = run.wire_hash.len() + run.decisions_hash.len();
        let lists = size_of_val(&*run.arrivals) + size_of_val(&*run.waits);
        let bytes = size_of::<Run>()
            + own
            + texts
            + lists
            + arrivals.sum::<usize>()
            + run.waits.iter().map(times).sum::<usize>();
        assert!(bytes < 2_000, "{bytes} bytes");
    }
}
