//! `--why`: what made the transfers of this command slow, told at its end, without a trace on the disk.
//!
//! Each connection is traced into a log that is read while it is written: what is kept of it is bounded. It takes the
//! processor about as long as a trace does.

use std::io::{self, BufWriter, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg::TransportConfig;
use thalweg::proto::observe::{ObservedConnection, Observer, ObserverFactory, TeeFactory};
use thalweg::proto::qlog::QlogWriter;
use thalweg_why::{Log, WhyError};

use crate::output;

/// Connections of one command that are watched; later ones are not.
const WATCHED: usize = 16;

/// The logs of a command's connections.
#[derive(Clone, Default)]
pub struct Live {
    logs: Arc<Mutex<Vec<Feed>>>,
}

impl core::fmt::Debug for Live {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Live")
    }
}

/// A log that takes what is written to it.
#[derive(Clone, Default)]
struct Feed(Arc<Mutex<Log>>);

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Write for Feed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        lock(&self.0).feed(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl ObserverFactory for Live {
    fn build(&self, connection: &ObservedConnection<'_>) -> Option<Box<dyn Observer>> {
        let mut logs = lock(&self.logs);
        if logs.len() >= WATCHED {
            return None;
        }
        let feed = Feed::default();
        let out = BufWriter::with_capacity(1 << 16, feed.clone());
        let writer = QlogWriter::new(out, connection, None).ok()?;
        logs.push(feed);
        Some(Box::new(writer))
    }
}

impl Live {
    /// Watches the connections of a configuration, beside whoever watches them already.
    pub fn watch(&self, config: &mut TransportConfig) {
        let live: Arc<dyn ObserverFactory> = Arc::new(self.clone());
        config.observer = Some(match config.observer.take() {
            Some(other) => Arc::new(TeeFactory(live, other)),
            None => live,
        });
    }

    /// Says on stderr what made each transfer slow, or as JSON on stdout. Call it when the connections have ended.
    pub fn tell(&self, json: bool) {
        for feed in core::mem::take(&mut *lock(&self.logs)) {
            let log = core::mem::take(&mut *lock(&feed.0));
            match report(log) {
                Ok(report) if json => output::json(&serde_json::json!({ "why": report })),
                Ok(report) => eprint!("{}", report.text()),
                Err(error) => eprintln!("thalweg: cannot tell why: {error}"),
            }
        }
    }
}

fn report(log: Log) -> Result<thalweg_why::Report, WhyError> {
    let answer = log.answer()?;
    let next = if answer.is_reproduced() { answer.next()? } else { None };
    Ok(answer.report(next))
}
