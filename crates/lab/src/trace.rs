//! Traces of one run: a qlog file for each end of each connection, and a capture of the datagrams with the secrets to
//! decrypt them.
//!
//! ```text
//! FOLDER/packets.pcapng               every datagram at the client and at the server of its flow, in virtual time
//! FOLDER/ODCID_client.sqlog, …        the events of a connection, in a folder for each flow if there are several;
//!                                     rival stacks write their own
//! ```
//!
//! The capture has two interfaces for each flow, "FLOW client" and "FLOW server": a datagram that crosses the network
//! is in it twice, one that is lost once. Time is that of the run, and begins at zero. Its TLS secrets are in the file,
//! so that Wireshark decrypts it; with `crypto = "null"` packets are not encrypted as QUIC is. The lab's TCP is no TCP
//! of the wire and is left out.

mod pcapng;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use thalweg_proto::observe::{ObservedConnection, Observer, ObserverFactory};
use thalweg_proto::qlog::{self, QlogWriter};
use thalweg_proto::rustls::KeyLog;
use thalweg_sim::{IP_UDP_HEADERS, LogFile, LogFiles, Plan, Seen, Tap};

use crate::engine::Engine;
pub use crate::engine::{TraceError, Traced};
use crate::file_name::file_name;
use crate::panics::{self, lock};
use crate::record::RunRecord;
use crate::scenario::Scenario;
use crate::store::{ManifestRun, StoreError, io_error};
use pcapng::Writer;

/// The name of the capture.
pub const CAPTURE: &str = "packets.pcapng";

/// Makes one run again and writes its traces into `folder`, which is made if need be.
///
/// `recorded` is what is known of the run; the new one has to have the same wire hash, unless the engine does not
/// promise that ([`Engine::is_repeatable`]). A run that fails is traced like any other.
///
/// # Errors
/// When the point does not exist or cannot be run, when a file cannot be written, or when the run came out differently.
pub fn trace(
    scenario: &Scenario,
    engine: &dyn Engine,
    (point, seed): (usize, u64),
    recorded: Option<&ManifestRun>,
    folder: &Path,
) -> Result<Traced, TraceError> {
    let world =
        &scenario.points.get(point).ok_or_else(|| TraceError::World(format!("there is no point {point}")))?.world;
    let ran = catch_unwind(AssertUnwindSafe(|| engine.trace(world, seed, folder)));
    let traced = ran.map_err(|panic| TraceError::Panicked(panics::message(&*panic)))??;
    let expected = recorded.filter(|_| engine.is_repeatable(world)).map(|run| &run.wire_hash);
    match expected.filter(|expected| **expected != traced.record.wire_hash) {
        None => Ok(traced),
        Some(expected) => Err(TraceError::Differs {
            expected: if expected.is_empty() { "that of a panic".to_owned() } else { expected.clone() },
            found: traced.record.wire_hash,
            folder: folder.to_owned(),
        }),
    }
}

/// The files of a run that is being traced.
pub(crate) struct Files {
    written: Arc<Mutex<Written>>,
    capture: Arc<Mutex<Capture>>,
}

/// What has been written, and what went wrong first.
#[derive(Debug, Default)]
struct Written {
    files: Vec<PathBuf>,
    problem: Option<StoreError>,
}

impl Written {
    fn note(&mut self, path: &Path, error: io::Error) {
        self.problem.get_or_insert_with(|| io_error("write", path, error));
    }
}

impl Files {
    /// Begins the files in `folder`, and lets the flows of `plan` tell what belongs into them.
    pub(crate) fn begin(folder: &Path, plan: &mut Plan) -> Result<Files, StoreError> {
        let make = |folder: &Path| fs::create_dir_all(folder).map_err(|error| io_error("make", folder, error));
        make(folder)?;
        let path = folder.join(CAPTURE);
        let out = File::create(&path).and_then(|file| Writer::new(BufWriter::new(file)));
        let out = out.map_err(|error| io_error("write", &path, error))?;
        let written = Written { files: vec![path.clone()], problem: None };
        let written = Arc::new(Mutex::new(written));
        let names = plan.flows.iter().map(|flow| flow.name.clone()).collect();
        let capture = Capture {
            out,
            path,
            written: written.clone(),
            names,
            interfaces: BTreeMap::new(),
            secrets: BTreeSet::new(),
            not_captured: BTreeSet::new(),
        };
        let capture = Arc::new(Mutex::new(capture));
        let several = plan.flows.len() > 1;
        for (number, flow) in plan.flows.iter_mut().enumerate() {
            let mut folder = folder.to_owned();
            if several {
                folder.push(file_name(&[&number.to_string(), &flow.name]));
                make(&folder)?;
            }
            let qlogs = Arc::new(QlogFiles { folder, written: written.clone() });
            let observers: Arc<dyn ObserverFactory> = qlogs.clone();
            flow.observers = [Some(observers.clone()), Some(observers)];
            flow.log_files = Some(qlogs);
            flow.key_log = Some(Arc::new(Secrets(capture.clone())));
        }
        Ok(Files { written, capture })
    }

    /// Ends the files, once the run is over.
    pub(crate) fn end(self, record: RunRecord) -> Result<Traced, TraceError> {
        let mut capture = lock(&self.capture);
        if let Err(error) = capture.out.flush() {
            lock(&self.written).note(&capture.path, error);
        }
        let not_captured = capture.not_captured.iter().filter_map(|flow| capture.names.get(*flow).cloned()).collect();
        let Written { files, problem } = std::mem::take(&mut *lock(&self.written));
        match problem {
            Some(problem) => Err(problem.into()),
            None => Ok(Traced { record, files, not_captured }),
        }
    }
}

impl Tap for Files {
    fn datagram(&mut self, seen: &Seen<'_>) {
        lock(&self.capture).datagram(seen);
    }
}

/// Datagrams and secrets as pcapng.
struct Capture {
    out: Writer<BufWriter<File>>,
    path: PathBuf,
    written: Arc<Mutex<Written>>,
    /// Of the flows.
    names: Vec<String>,
    /// By flow and end.
    interfaces: BTreeMap<(usize, bool), u32>,
    /// Both ends report the same.
    secrets: BTreeSet<String>,
    not_captured: BTreeSet<usize>,
}

impl Capture {
    fn datagram(&mut self, seen: &Seen<'_>) {
        if seen.overhead != IP_UDP_HEADERS {
            self.not_captured.insert(seen.flow);
        } else if let Err(error) = self.write(seen) {
            lock(&self.written).note(&self.path, error);
        }
    }

    fn write(&mut self, seen: &Seen<'_>) -> io::Result<()> {
        let key = (seen.flow, seen.at_client);
        let interface = match self.interfaces.get(&key) {
            Some(interface) => *interface,
            None => {
                let name = self.names.get(seen.flow).map_or("", String::as_str);
                let end = if seen.at_client { "client" } else { "server" };
                let interface = self.out.interface(&format!("{name} {end}"))?;
                *self.interfaces.entry(key).or_insert(interface)
            }
        };
        self.out.datagram(interface, seen.at, seen.is_sent, seen.addresses, seen.ecn, seen.payload)
    }
}

/// Puts TLS secrets into the capture as they come up: before the packets that they protect.
struct Secrets(Arc<Mutex<Capture>>);

impl core::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Secrets")
    }
}

impl KeyLog for Secrets {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let line = format!("{label} {} {}\n", hex(client_random), hex(secret));
        let mut capture = lock(&self.0);
        if capture.secrets.insert(line.clone())
            && let Err(error) = capture.out.secrets(&line)
        {
            lock(&capture.written).note(&capture.path, error);
        }
    }
}

/// A qlog file for each connection.
#[derive(Debug)]
struct QlogFiles {
    folder: PathBuf,
    written: Arc<Mutex<Written>>,
}

impl QlogFiles {
    /// Opens a file, and makes of it what writes into it.
    fn create<T>(&self, name: &str, begin: impl FnOnce(Watched) -> io::Result<T>) -> Option<T> {
        let path = self.folder.join(name);
        let opened = File::create(&path).and_then(|file| {
            begin(Watched { out: BufWriter::new(file), path: path.clone(), written: self.written.clone() })
        });
        match opened {
            Ok(writer) => {
                lock(&self.written).files.push(path);
                Some(writer)
            }
            Err(error) => {
                lock(&self.written).note(&path, error);
                None
            }
        }
    }
}

impl ObserverFactory for QlogFiles {
    fn build(&self, connection: &ObservedConnection<'_>) -> Option<Box<dyn Observer>> {
        let writer = self.create(&qlog::file_name(connection), |out| QlogWriter::new(out, connection, None))?;
        Some(Box::new(writer))
    }
}

impl LogFiles for QlogFiles {
    fn open(&self, is_client: bool, connection: &str) -> Option<LogFile> {
        let end = if is_client { "client" } else { "server" };
        let out = self.create(&format!("{connection}_{end}.sqlog"), Ok)?;
        Some(Box::new(out))
    }
}

/// A file whose errors are noted, as an observer cannot report them.
struct Watched {
    out: BufWriter<File>,
    path: PathBuf,
    written: Arc<Mutex<Written>>,
}

impl Watched {
    fn noted<T>(&self, result: io::Result<T>) -> io::Result<T> {
        result
            .inspect_err(|error| lock(&self.written).note(&self.path, io::Error::new(error.kind(), error.to_string())))
    }
}

impl Write for Watched {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let result = self.out.write(bytes);
        self.noted(result)
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = self.out.flush();
        self.noted(result)
    }
}

#[cfg(test)]
mod tests;
