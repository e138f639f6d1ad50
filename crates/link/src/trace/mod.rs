//! Traces of links: mahimahi's delivery opportunities, a CSV form, and synthetic mobile and satellite links.

mod csv;
mod error;
mod mahimahi;
mod synthetic;

use std::sync::Arc;

pub use csv::{CsvTrace, TracePoint};
pub use error::TraceError;
pub use mahimahi::Mahimahi;
pub(crate) use mahimahi::Opportunities;

use serde::{Serialize, Serializer};
pub use synthetic::{Leo, Lte};
use thalweg_units::Duration;

use crate::read::Field;
use crate::{ConfigError, DirectionConfig, RateModel, Streams};

/// A trace as a description names it: in place of a rate, some also of delay and loss.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Trace {
    /// A synthetic mobile link, drawn anew for every seed.
    Lte,
    /// A synthetic low-orbit satellite with a handover every 15 s, drawn anew for every seed; brings delay and loss.
    Leo,
    /// A file in mahimahi's format.
    Mahimahi(TraceFile<Mahimahi>),
    /// A file of `t_ms,rate_bps,delay_ms,loss`.
    Csv(TraceFile<CsvTrace>),
}

/// A trace from a file. Its serialized form is a digest of the text, so that a changed file is a changed description.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceFile<T> {
    /// Of the file's text.
    pub digest: String,
    /// What the text says; cheap to clone.
    pub trace: Arc<T>,
}

impl<T> Serialize for TraceFile<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.digest.serialize(serializer)
    }
}

/// Where traces that a description names come from.
pub trait Traces {
    /// The trace of that name.
    ///
    /// # Errors
    /// A sentence about what is wrong with it, and what would be accepted.
    fn get(&self, name: &str) -> Result<Trace, String>;
}

/// Knows the synthetic traces, "lte" and "leo", and no files.
#[derive(Copy, Clone, Debug, Default)]
pub struct Synthetic;

impl Traces for Synthetic {
    fn get(&self, name: &str) -> Result<Trace, String> {
        Trace::synthetic(name).ok_or_else(|| format!("there is no trace \"{name}\" here; write lte or leo"))
    }
}

impl Trace {
    /// The synthetic trace of that name.
    pub fn synthetic(name: &str) -> Option<Trace> {
        match name {
            "lte" => Some(Trace::Lte),
            "leo" => Some(Trace::Leo),
            _ => None,
        }
    }

    /// The trace in a file's text: a table if its name ends in ".csv", else mahimahi's format. `digest` stands for the
    /// text.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(name: &str, text: &str, digest: String) -> Result<Trace, TraceError> {
        Ok(if name.ends_with(".csv") {
            Trace::Csv(TraceFile { digest, trace: Arc::new(CsvTrace::parse(text, true)?) })
        } else {
            Trace::Mahimahi(TraceFile { digest, trace: Arc::new(Mahimahi::parse(text)?) })
        })
    }

    pub(crate) fn read(field: &dyn Field, traces: &dyn Traces) -> Option<Trace> {
        let name = field.text("the name of a trace file")?;
        traces.get(name).map_err(|message| field.complain(&message)).ok()
    }

    /// Makes the direction what the trace says, up to `horizon` where that is drawn.
    pub(crate) fn apply(
        &self,
        config: &mut DirectionConfig,
        streams: &Streams,
        horizon: Duration,
    ) -> Result<(), ConfigError> {
        match self {
            Trace::Lte => {
                let lte = Lte { length: horizon.max(Duration::from_secs(10)), ..Lte::default() };
                config.rate = RateModel::Mahimahi(lte.trace(&mut streams.dice("trace"))?);
            }
            Trace::Leo => {
                let leo = Leo::default();
                leo.trace(&mut streams.dice("trace")).apply(config)?;
                config.outages.insert(0, leo.gaps());
            }
            Trace::Mahimahi(file) => config.rate = RateModel::Mahimahi((*file.trace).clone()),
            Trace::Csv(file) => file.trace.apply(config)?,
        }
        Ok(())
    }
}
