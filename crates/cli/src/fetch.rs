//! Options and reports that `get` and `put` share: trust, choice of transport, progress.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use thalweg::SavedPaths;
use thalweg_files::client::{
    Category, Error, FetchOptions, Fetcher, Multipath, PathFigures, Preference, Report, Trust,
};
use thalweg_units::{Rate, human_bytes};

use crate::failure::{Failure, Result};
use crate::figures::Figures;
use crate::live::Live;
use crate::options::{TransportArgs, duration, rate};
use crate::text::{bits_per_second, milliseconds};

/// Options of both.
#[derive(Debug, Args)]
pub struct FetchArgs {
    /// Trust the certificates in this file instead of the system's
    #[arg(long, value_name = "PEM", group = "trust")]
    ca: Option<PathBuf>,
    /// Trust the server whose key has this SHA-256, as `thalweg serve` prints it
    #[arg(long, value_name = "SHA256", group = "trust")]
    pin: Option<String>,
    /// Trust anybody: encrypted, but nobody knows with whom
    #[arg(long, short = 'k', group = "trust")]
    insecure: bool,
    /// Send this header too, such as -H 'Authorization: Bearer 123'
    #[arg(long, short = 'H', value_name = "NAME: VALUE", value_parser = header)]
    header: Vec<(HeaderName, HeaderValue)>,
    /// Only QUIC: do not fall back to TCP
    #[arg(long, group = "way")]
    quic_only: bool,
    /// Only TCP
    #[arg(long, group = "way")]
    tcp_only: bool,
    /// Longest time for a connection [default: 15 s, or five times the initial RTT]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    connect_timeout: Option<Duration>,
    /// How long QUIC may be silent before TCP is tried beside it [default: 3 s, or twice the initial RTT]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    quic_patience: Option<Duration>,
    /// Do not resume TLS sessions, and send nothing as early data (0-RTT), when the same server is connected to again
    #[arg(long)]
    no_tickets: bool,
    /// Keep address tokens and what was saved of the paths to servers in this file. With --policies resume=careful
    /// at both ends, a later run begins with half of the window that it had. The file reveals which servers were
    /// visited and from how fast a network
    #[arg(long, value_name = "FILE", conflicts_with = "no_tickets")]
    saved_paths: Option<PathBuf>,
    /// Use several network interfaces at once, by default all that lead to the server: --multipath=wlan0,wwan0 connects
    /// by wlan0 first. The server has to permit it (thalweg serve --multipath). Linux only
    #[arg(
        long,
        value_name = "INTERFACE,...",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        conflicts_with = "tcp_only",
        value_parser = interfaces
    )]
    multipath: Option<Interfaces>,
    /// Interfaces that the server is to send by only while no other works
    #[arg(long, value_name = "INTERFACE,...", requires = "multipath", value_parser = interfaces)]
    backup: Option<Interfaces>,
    /// Take and send no more than this, such as "20 Mbps" or 20mbit (bits), "4 MB/s" or 4M (bytes; M is 1024 x 1024)
    #[arg(long, value_name = "RATE", value_parser = rate)]
    limit_rate: Option<Rate>,
    /// At the end, say what made it slow, and what would have made it faster: see `thalweg why`
    #[arg(long)]
    pub why: bool,
    /// Print a JSON object per file on stdout
    #[arg(long)]
    pub json: bool,
    /// No progress bars, no notices; errors are still printed
    #[arg(long, short)]
    pub quiet: bool,
    #[command(flatten)]
    transport: TransportArgs,
    /// The logs for `why`.
    #[arg(skip)]
    live: Live,
}

impl FetchArgs {
    /// Says why it was slow, if that was asked.
    pub fn tell_why(&self) {
        if self.why {
            self.live.tell(self.json);
        }
    }

    /// What earlier runs have saved of paths, if it is kept.
    ///
    /// # Errors
    ///
    /// When the file cannot be used.
    pub fn saved_paths(&self) -> Result<Option<Arc<SavedPaths>>> {
        let saved = self.saved_paths.as_ref().map(SavedPaths::open).transpose().map_err(Failure::usage)?;
        Ok(saved.map(Arc::new))
    }

    /// The network interfaces to use at once, if that is asked for.
    ///
    /// # Errors
    ///
    /// When there is none of a name.
    pub fn multipath(&self) -> Result<Option<Multipath>> {
        let Some(interfaces) = &self.multipath else { return Ok(None) };
        let mut multipath = Multipath::new();
        multipath.interfaces = interfaces.0.clone();
        multipath.backup = self.backup.as_ref().map(|names| names.0.clone()).unwrap_or_default();
        multipath.check().map_err(failure)?;
        Ok(Some(multipath))
    }

    /// A fetcher with these options and what `change` makes of them.
    ///
    /// # Errors
    ///
    /// When the certificates to trust or the directory for traces cannot be used.
    pub fn fetcher(&self, change: impl FnOnce(&mut FetchOptions)) -> Result<Fetcher> {
        let mut options = FetchOptions::default();
        options.trust = match (&self.ca, &self.pin, self.insecure) {
            (Some(path), ..) => Trust::pem_file(path).map_err(failure)?,
            (_, Some(pin), _) => Trust::key(pin).map_err(failure)?,
            (.., true) => Trust::Insecure,
            _ => Trust::Native,
        };
        options.preference = match (self.quic_only, self.tcp_only) {
            (true, _) => Preference::Quic,
            (_, true) => Preference::Tcp,
            _ => Preference::default(),
        };
        let mut headers = HeaderMap::new();
        for (name, value) in &self.header {
            headers.append(name, value.clone());
        }
        options.headers = headers;
        // Bits to bytes; less than a byte per second is one.
        options.limit_rate = self.limit_rate.map(|rate| (rate.bps() / 8).max(1));
        // On a path known to be long the usual times would end every attempt before an answer can arrive.
        let rtt = self.transport.initial_rtt;
        options.connect_timeout = self.connect_timeout.unwrap_or(options.connect_timeout.max(rtt * 5));
        options.idle_timeout = self.transport.idle_timeout;
        options.quic_patience = self.quic_patience.unwrap_or(options.quic_patience.max(rtt * 2));
        let mut transport = self.transport.config(FetchOptions::bulk_transport())?;
        if self.why {
            self.live.watch(&mut transport);
        }
        options.transport = Some(Arc::new(transport));
        options.key_log = true;
        options.tickets = !self.no_tickets;
        options.multipath = self.multipath()?;
        change(&mut options);
        Fetcher::new(options).map_err(failure)
    }
}

/// Writes down what is saved of paths now. What was fetched is there all the same if that fails.
///
/// # Errors
///
/// When the file cannot be written.
pub fn save(saved: Option<&SavedPaths>) -> Result<()> {
    saved.map_or(Ok(()), |saved| saved.save().map_err(Failure::failed))
}

/// What the command ends with: 2 if it was asked wrongly, else 1.
pub fn failure(error: Error) -> Failure {
    if error.category() == Category::Usage { Failure::usage(error) } else { Failure::failed(error) }
}

/// Names of network interfaces.
#[derive(Debug, Clone)]
struct Interfaces(Vec<String>);

/// Reads names with commas between them, or nothing.
fn interfaces(text: &str) -> std::result::Result<Interfaces, String> {
    let mut names: Vec<String> = Vec::new();
    for name in text.split(',').map(str::trim).filter(|_| !text.trim().is_empty()) {
        match name {
            "" => return Err("a name is missing; write names of interfaces with commas between them".to_owned()),
            name if names.iter().any(|known| known == name) => return Err(format!("{name} is there twice")),
            name => names.push(name.to_owned()),
        }
    }
    Ok(Interfaces(names))
}

fn header(text: &str) -> std::result::Result<(HeaderName, HeaderValue), String> {
    let wrong = "expected 'Name: value'";
    let (name, value) = text.split_once(':').ok_or(wrong)?;
    let name = name.trim().parse().map_err(|_| wrong)?;
    let value = HeaderValue::from_str(value.trim()).map_err(|_| wrong)?;
    Ok((name, value))
}

/// A finished transfer for people.
pub fn line(report: &Report, what: &str, sent: bool) -> String {
    let resumed = match report.resumed_from {
        0 => String::new(),
        bytes => format!(" (after {} that were here already)", human_bytes(bytes)),
    };
    let coding = report.content_encoding.as_ref().map_or(String::new(), |coding| format!(" (saved as {coding})"));
    let retried = match report.retries {
        0 => String::new(),
        1 => " (tried again once)".into(),
        times => format!(" (tried again {times} times)"),
    };
    let figures = report.connection.as_ref().map(|connection| {
        let figures = Figures::from(&connection.stats);
        format!("; {}", if sent { figures.sender_line() } else { figures.receiver_line() })
    });
    let paths: String = paths(report).iter().map(|path| format!("\n  {}", path_line(path))).collect();
    format!(
        "{what}: {} in {}, {} over {}{resumed}{retried}{coding}{}{paths}",
        human_bytes(report.bytes),
        milliseconds(report.elapsed.as_secs_f64() * 1000.0),
        bits_per_second(report.goodput_bps as f64),
        report.protocol,
        figures.unwrap_or_default()
    )
}

/// The paths of a connection that is to use several.
fn paths(report: &Report) -> &[PathFigures] {
    report.connection.as_ref().map_or(&[], |connection| &connection.paths)
}

/// A path for people.
fn path_line(path: &PathFigures) -> String {
    let ms = |span: Duration| milliseconds(span.as_secs_f64() * 1000.0);
    let state = match (path.is_open, path.is_backup) {
        (false, _) => " (closed)",
        (true, true) => " (backup)",
        (true, false) => "",
    };
    format!(
        "{}{state}: {} received, {} sent ({} of {} packets lost), RTT {} (min {})",
        path_name(path),
        human_bytes(path.bytes_received),
        human_bytes(path.bytes_sent),
        path.packets_lost,
        path.packets_sent,
        ms(path.rtt),
        ms(path.min_rtt),
    )
}

/// What a path is called: by its interface and address, as far as they are known.
pub fn path_name(path: &PathFigures) -> String {
    match (&path.interface, path.local) {
        (Some(interface), Some(local)) => format!("{interface} {local}"),
        (Some(interface), None) => interface.clone(),
        (None, Some(local)) => local.to_string(),
        (None, None) => format!("path {}", path.id),
    }
}

fn path_json(path: &PathFigures) -> Value {
    let ms = |span: Duration| span.as_secs_f64() * 1000.0;
    json!({
        "id": path.id,
        "interface": path.interface,
        "local": path.local,
        "remote": path.remote.to_string(),
        "open": path.is_open,
        "backup": path.is_backup,
        "rtt_ms": ms(path.rtt),
        "min_rtt_ms": ms(path.min_rtt),
        "udp_bytes_received": path.bytes_received,
        "udp_bytes_sent": path.bytes_sent,
        "packets_sent": path.packets_sent,
        "packets_lost": path.packets_lost,
    })
}

/// A finished or failed transfer for programs.
pub fn json_report(url: &str, result: &std::result::Result<Report, Error>) -> Value {
    let ms = |span: Duration| span.as_secs_f64() * 1000.0;
    match result {
        Ok(report) => {
            let mut object = json!({
                "ok": true,
                "url": url,
                "final_url": report.final_url,
                "status": report.status,
                "protocol": report.protocol.alpn(),
                "remote": report.remote.to_string(),
                "path": report.path,
                "bytes": report.bytes,
                "resumed_from": report.resumed_from,
                "content_encoding": report.content_encoding,
                "retries": report.retries,
                "resumed_session": report.resumed,
                "early_data": report.early_data,
                "etag": report.etag,
                "resolve_ms": ms(report.resolve),
                "handshake_ms": ms(report.handshake),
                "first_byte_ms": ms(report.first_byte),
                "elapsed_ms": ms(report.elapsed),
                "goodput_bps": report.goodput_bps,
                "connection": report.connection.as_ref().map(|connection| Figures::from(&connection.stats)),
            });
            if !paths(report).is_empty() {
                object["paths"] = paths(report).iter().map(path_json).collect();
            }
            object
        }
        Err(error) => json!({
            "ok": false,
            "url": url,
            "error": error.to_string(),
            "category": error.category().name(),
            "kept": error.kept().map(|kept| json!({
                "path": kept.path,
                "bytes": kept.bytes,
                "resumable": kept.resumable,
            })),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_a_name_and_a_value() {
        let (name, value) = header("X-Test:  a b ").unwrap();
        assert_eq!((name.as_str(), value.to_str().unwrap()), ("x-test", "a b"));
        assert!(header("no colon").is_err());
        assert!(header("bad name: x").is_err());
        assert!(header("x: a\nb").is_err());
    }

    #[test]
    fn interfaces_are_names_with_commas_between_them() {
        assert_eq!(interfaces("wlan0, wwan0").unwrap().0, ["wlan0", "wwan0"]);
        assert!(interfaces("").unwrap().0.is_empty());
        for wrong in ["a,,b", ",", "a,b,a"] {
            assert!(interfaces(wrong).is_err(), "{wrong}");
        }
    }
}
