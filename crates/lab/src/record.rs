//! Records of runs: values by metric and, if asked for, time series.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::metric::Scope;

/// Values by the name of their metric. Most metrics have one value per run, some have many.
pub type Values = BTreeMap<String, Vec<f64>>;

/// Everything measured in one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Why the run did not come to its end, if so.
    pub failed: Option<String>,
    /// What tells two runs apart on the wire: times, kinds, numbers, sizes and frames of all packets, hashed.
    pub wire_hash: String,
    /// What tells apart how their endpoints decided, hashed.
    pub decisions_hash: String,
    /// Per flow, in the order of the scenario.
    pub flows: Vec<Part>,
    /// What a flow that uses several paths at once did on each of them, named by [`way`]. Empty where no flow does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ways: Vec<Part>,
    /// Per direction, `PATH.up` and `PATH.down`.
    pub links: Vec<Part>,
    /// Of the run as a whole.
    pub values: Values,
}

/// What was measured of one flow or link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Its name.
    pub name: String,
    /// What was measured.
    pub values: Values,
    /// Metrics of time that wait for something that never came, and how many of their values are therefore endless.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub never: BTreeMap<String, u64>,
    /// Whether the flow goes on until the run is stopped, so that there is no completion to wait for.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub endless: bool,
    /// How its bytes arrived. None of links, and where nothing could be said of the whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<Delivery>,
    /// Of a link, how long its packets waited in seconds: the quantiles at [`WAIT_SHARES`]. Empty if none waited.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<f64>,
    /// What should be known about it: settings, the floor and how it was computed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub notes: BTreeMap<String, String>,
}

/// How the bytes of a flow arrived, in [`DELIVERY_SHARES`] equal steps. Times are in seconds after the client's first
/// datagram.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Delivery {
    /// Of a flow that ends: when each share of the whole had arrived.
    Shares {
        /// The whole, in bytes of the application.
        whole: u64,
        /// When `k + 1` of [`DELIVERY_SHARES`] shares had arrived, rounded up to a microsecond; shorter if the rest
        /// never did.
        times: Vec<f64>,
        /// The same at best ([`thalweg_sim::Floor`]), at equal shares from none to all: two values if the curve is a
        /// line between them, one more than [`DELIVERY_SHARES`] otherwise, none if there is no floor.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        floor: Vec<f64>,
    },
    /// Of a flow without end: how much had arrived by when.
    Steps {
        /// From the client's first datagram to the end of the run.
        lasted: f64,
        /// Bytes of the application by the end of every step of that.
        bytes: Vec<u64>,
    },
}

/// In so many equal steps a delivery curve is kept: enough for a small picture, and small enough for thousands of runs.
pub const DELIVERY_SHARES: usize = thalweg_sim::Floor::SHARES;

/// The quantiles of sojourn times that are kept of each link, in thousandths of its packets: enough for a small picture
/// of the distribution.
pub const WAIT_SHARES: [u16; 33] = {
    let mut shares = [0; 33];
    let mut at = 0;
    while at < 30 {
        // From a thousandth on, every 33.
        shares[at] = 1 + 33 * at as u16;
        at += 1;
    }
    [shares[30], shares[31], shares[32]] = [990, 999, 1000];
    shares
};

impl Part {
    /// Adds a value; one that is not finite is left out, as it could not be stored.
    pub fn set(&mut self, metric: &str, value: f64) {
        put(&mut self.values, metric, value);
    }

    /// Notes that a time has no end.
    pub fn never(&mut self, metric: &str) {
        self.never_times(metric, 1);
    }

    /// Notes that so many times have no end.
    pub fn never_times(&mut self, metric: &str, count: u64) {
        debug_assert!(crate::metric::find(metric).is_some(), "{metric}");
        if count > 0 {
            *self.never.entry(metric.to_owned()).or_default() += count;
        }
    }
}

/// The name of what a flow did on one of its paths.
pub fn way(flow: &str, path: &str) -> String {
    format!("{flow} on {path}")
}

/// Adds a value; one that is not finite is left out, as it could not be stored.
pub fn put(values: &mut Values, metric: &str, value: f64) {
    debug_assert!(crate::metric::find(metric).is_some(), "{metric}");
    if value.is_finite() {
        values.entry(metric.to_owned()).or_default().push(value);
    }
}

impl RunRecord {
    /// A run that failed before anything was measured.
    pub fn failure(reason: String) -> RunRecord {
        let mut record = RunRecord { failed: Some(reason), ..RunRecord::default() };
        put(&mut record.values, "success", 0.0);
        record
    }

    /// Whether a time of this flow has no end.
    pub fn is_never(&self, flow: &str, metric: &str) -> bool {
        self.never(flow, metric) > 0
    }

    /// How many of a flow's times have no end.
    pub fn never(&self, flow: &str, metric: &str) -> u64 {
        let part = self.flows.iter().find(|part| part.name == flow);
        part.and_then(|part| part.never.get(metric)).copied().unwrap_or(0)
    }

    /// The values of a metric. `subject` names the flow or link.
    pub fn get(&self, scope: Scope, subject: &str, metric: &str) -> &[f64] {
        let part = |parts: &'_ [Part]| parts.iter().position(|part| part.name == subject);
        let values = match scope {
            Scope::Run => Some(&self.values),
            Scope::Flow => {
                let flow = part(&self.flows).map(|at| &self.flows[at].values);
                flow.or_else(|| part(&self.ways).map(|at| &self.ways[at].values))
            }
            Scope::Link => part(&self.links).map(|at| &self.links[at].values),
        };
        values.and_then(|values| values.get(metric)).map_or(&[], Vec::as_slice)
    }
}

/// What happened when, for plots.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// Lines over time.
    pub series: Vec<Series>,
    /// Packets over time.
    pub packets: Vec<PacketPlot>,
}

impl Recording {
    /// Whether nothing was kept.
    pub fn is_empty(&self) -> bool {
        self.series.is_empty() && self.packets.is_empty()
    }
}

/// A quantity over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// The flow or link it belongs to.
    pub subject: String,
    /// What it is: `window`, `in_flight`, `rtt`, `queue`, `delivered`, …
    pub name: String,
    /// `s`, `B`, `bps` or nothing.
    pub unit: String,
    /// Seconds since the start of the run, ascending.
    pub t: Vec<f64>,
    /// One value per time, valid until the next.
    pub v: Vec<f64>,
    /// When a state began, and its name: colours the line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<(f64, String)>,
}

/// Packets of one sender over time: seconds and packet number.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PacketPlot {
    /// The flow.
    pub subject: String,
    /// Sent.
    pub sent: Vec<(f64, u64)>,
    /// Bytes sent up to and with each packet of `sent`. A number that is sent again (TCP) counts once, where it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bytes: Vec<u64>,
    /// Acknowledged.
    pub acked: Vec<(f64, u64)>,
    /// Declared lost.
    pub lost: Vec<(f64, u64)>,
    /// Declared lost, then acknowledged after all.
    pub spurious: Vec<(f64, u64)>,
}
