//! `thalweg probe HOST`: measures the path to a server, and reports.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use thalweg_probe::{
    Answer, Client, ClientConfig, ClientError, Findings, FirstHop, HopSample, HopSchedule, Replay, Summary, Trace,
    Vantage, Way, answer, scenario,
};
use thalweg_units::Instant;
use tokio::task::JoinSet;

use super::live::Live;
use super::measured::Measured;
use super::socket::{Clock, PORT, Socket};
use super::table::Table;
use super::{chance, hop, json, page, words};
use crate::failure::{Context, Failure, Result};
use crate::options::duration;
use crate::output;

/// Answers of the first hop that are kept, at most: those of two days, with many suspensions.
const MOST_SAMPLES: usize = 200_000;
/// How often a live view is drawn.
const TICK: Duration = Duration::from_millis(500);

/// `thalweg probe HOST`.
#[derive(Debug, Args)]
pub struct ClientArgs {
    /// The server: a name or an address, with a port if it is not 4435
    #[arg(value_name = "HOST")]
    host: String,
    /// Time between datagrams, each way, 1 ms to 1 s
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = every)]
    every: Duration,
    /// How long to measure; Ctrl-C ends it before
    #[arg(long = "for", value_name = "TIME", default_value = "10m", value_parser = length)]
    length: Duration,
    /// Print JSON on stdout instead of words
    #[arg(long)]
    json: bool,
    /// Write a page with plots and a table of events into FILE
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Write the path as paths of the lab into FILE.toml, with two files of times beside it: a replay, and a fitted
    /// model
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// Write the times of all datagrams into FILE
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Show nothing while measuring
    #[arg(long, short)]
    quiet: bool,
}

/// Reads a time between datagrams.
fn every(text: &str) -> std::result::Result<Duration, String> {
    let accepted = Duration::from_millis(1)..=Duration::from_secs(1);
    match duration(text)? {
        every if accepted.contains(&every) => Ok(every),
        _ => Err("write a time between datagrams from 1 ms to 1 s, such as 20ms".to_owned()),
    }
}

/// Reads a length of time; minutes may be written `10m`, as other tools that measure have it.
fn length(text: &str) -> std::result::Result<Duration, String> {
    let minutes = text.trim().strip_suffix('m').filter(|number| number.ends_with(|c: char| c.is_ascii_digit()));
    match minutes.map_or_else(|| duration(text), |minutes| duration(&format!("{minutes} min")))? {
        length if length >= Duration::from_secs(1) => Ok(length),
        _ => Err("write a second or more, such as 10m".to_owned()),
    }
}

impl ClientArgs {
    pub(super) async fn run(self) -> Result<()> {
        // What cannot be written is said before ten minutes are spent on it.
        for file in self.report.iter().chain(&self.csv).chain(&self.scenario) {
            writable(file)?;
        }
        let addresses = addresses(&self.host).await?;
        let mut failed = None;
        for server in addresses {
            match self.measure(server).await {
                Ok((measured, parts)) => return self.tell(&measured, parts),
                // Another address of the same name may do better.
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.unwrap_or_else(|| Failure::failed(format!("{} has no address", self.host))))
    }

    fn tell(&self, measured: &Measured, parts: Parts) -> Result<()> {
        if self.json {
            output::json(&json::result(measured));
        } else {
            output::bytes(words::report(measured).as_bytes());
        }
        let cannot = |file: &Path| format!("cannot write {}", file.display());
        if let Some(file) = &self.report {
            thalweg_output::write(file, page::page(measured)?.as_bytes()).context(cannot(file))?;
        }
        if let (Some(file), Some(table)) = (&self.csv, parts.table) {
            table.write(file).context(cannot(file))?;
        }
        if let (Some(file), Some(summary), Some(replay)) = (&self.scenario, &measured.summary, parts.replay) {
            write_scenario(file, summary, &replay).context(cannot(file))?;
        }
        match measured.lost() {
            Some(lost) => Err(Failure::failed(format!(
                "the measurement ended before its time: {}, {:.1} s after it began",
                words::cause(lost.cause),
                lost.from.saturating_sub(measured.started) as f64 / 1e9
            ))),
            None => Ok(()),
        }
    }

    async fn measure(&self, server: SocketAddr) -> Result<(Measured, Parts)> {
        let clock = Clock::start();
        let cannot = format!("cannot measure with {server}");
        let mut socket = Socket::connect(server, clock).await.context(&cannot)?;
        let config = ClientConfig { interval: self.every, length: Some(self.length), marks: Socket::MARKS };
        let [a, b, c, d, e, f, g, h, ..] = chance::secret()?;
        let mut client = Client::new(config, clock.now(), u64::from_be_bytes([a, b, c, d, e, f, g, h]));
        let mut live = Live::new(self.quiet || self.json, self.length);
        live.say(&format!("Measuring with {server}, a datagram every {:?} each way; Ctrl-C ends it", self.every));
        let mut parts = Parts::new(self.csv.is_some(), self.scenario.is_some())?;
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut interrupted = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())
            .context("cannot wait for signals")?;
        let mut terminated = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
            .context("cannot wait for signals")?;
        let (mut out, mut stops) = (Vec::new(), 0);
        let mut hops = Hops::default();
        while let Some(due) = client.poll_timeout() {
            tokio::select! {
                () = tokio::time::sleep_until(clock.runtime(due)) => {}
                received = socket.receive(|now, arrival| {
                    client.receive(now, arrival.at, arrival.ecn, arrival.bytes);
                }) => noted(received, clock.now(), &mut client),
                _ = ticks.tick() => {
                    if let Some(part) = client.cut(clock.now()) {
                        parts.add(&part)?;
                    }
                    live.show(&client, clock.now());
                }
                _ = interrupted.recv() => stops += 1,
                _ = terminated.recv() => stops += 1,
            }
            match stops {
                0 => {}
                1 => {
                    client.stop(clock.now());
                    stops = 2;
                }
                // Asked twice: what there is has to do.
                2 => {}
                _ => break,
            }
            if client.is_running() {
                hops.ask(&client, self.every, server, clock);
            }
            while let Some(ecn) = client.poll_transmit(clock.now(), &mut out) {
                noted(socket.send(&out, ecn), clock.now(), &mut client);
            }
        }
        live.end();
        if let Some(error) = client.error() {
            return Err(failure(&cannot, error));
        }
        let stamped = socket.is_stamped();
        let local = socket.local_addr().context(&cannot)?;
        let one_computer = server.ip().is_loopback() || server.ip() == local.ip();
        let (trace, breaks) = client.into_trace();
        let started = trace.started;
        parts.add(&trace)?;
        let summary = parts.summary.take();
        let first_hop = match &summary {
            Some(summary) => FirstHop::of(&hops.samples(), &summary.events),
            None => None,
        };
        let answer = match &summary {
            Some(summary) => answer(summary, &Vantage { first_hop, one_computer }),
            None if trace.up.is_empty() => Answer::unknown("it was ended before the server had answered"),
            None => Answer::unknown("no datagram came back from the server"),
        };
        Ok((Measured { server, summary, answer, first_hop, breaks, started, stamped }, parts))
    }
}

/// Datagrams to the first hop.
#[derive(Default)]
struct Hops {
    schedule: HopSchedule,
    asked: JoinSet<HopSample>,
    samples: Vec<HopSample>,
}

impl Hops {
    /// Asks the first hop, if it is time to.
    fn ask(&mut self, client: &Client, interval: Duration, server: SocketAddr, clock: Clock) {
        self.take();
        let (heard, learned) = client.last_news();
        let started = client.trace().started;
        let has_room = self.samples.len() < MOST_SAMPLES && started > 0;
        if has_room && self.schedule.is_due(clock.now(), interval, heard, learned) {
            self.asked.spawn(hop::ask(server, clock, started));
        }
    }

    /// Takes what has been answered, or not in time.
    fn take(&mut self) {
        while let Some(sample) = self.asked.try_join_next() {
            self.samples.extend(sample.ok());
        }
    }

    fn samples(mut self) -> Vec<HopSample> {
        self.take();
        self.samples
    }
}

/// What is kept of parts that were measured.
struct Parts {
    summary: Option<Summary>,
    table: Option<Table>,
    replay: Option<Replay>,
}

impl Parts {
    fn new(with_table: bool, with_replay: bool) -> Result<Parts> {
        let table = with_table.then(Table::new).transpose().context("cannot make a temporary file")?;
        Ok(Parts { summary: None, table, replay: with_replay.then(Replay::default) })
    }

    fn add(&mut self, part: &Trace) -> Result<()> {
        let Some(findings) = Findings::of(part) else { return Ok(()) };
        if let Some(table) = &mut self.table {
            table.add(&findings).context("cannot write a temporary file")?;
        }
        if let Some(replay) = &mut self.replay {
            replay.add(&findings);
        }
        self.summary.get_or_insert_default().add(findings);
        Ok(())
    }
}

/// Writes the paths of the lab into a file, and its traces beside it: `path.toml`, `path-up.csv`, `path-down.csv`.
fn write_scenario(file: &Path, summary: &Summary, replay: &Replay) -> std::io::Result<()> {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let names = Way::BOTH.map(|way| format!("{stem}-{}.csv", way.name()));
    for (way, name) in Way::BOTH.into_iter().zip(&names) {
        thalweg_output::write(&file.with_file_name(name), replay.text(way).as_bytes())?;
    }
    let [up, down] = &names;
    thalweg_output::write(file, scenario(summary, [up, down]).as_bytes())
}

/// Whether a file can be written there, as far as can be said before.
fn writable(file: &Path) -> Result<()> {
    let cannot = format!("cannot write {}", file.display());
    if let thalweg_output::Place::File(target) = thalweg_output::Place::of(file).context(&cannot)? {
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !folder.is_dir() {
            return Err(Failure::failed(format!("{cannot}: there is no folder {}", folder.display())));
        }
    }
    Ok(())
}

/// What the system says of the server's port. Everything else is as if the datagram had been lost.
fn noted(result: std::io::Result<()>, now: Instant, client: &mut Client) {
    if result.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused) {
        client.unreachable(now);
    }
}

fn failure(cannot: &str, error: ClientError) -> Failure {
    let advice = match error {
        ClientError::NoAnswer | ClientError::Unreachable => "; start one there with \"thalweg probe server\"",
        ClientError::Interval(_) => "; measure with a longer --every",
        ClientError::Version(_) => "; use the same version at both ends",
        _ => "",
    };
    Failure::failed(format!("{cannot}: {error}{advice}"))
}

/// The addresses of a server.
async fn addresses(host: &str) -> Result<Vec<SocketAddr>> {
    let cannot = format!("cannot find {host}");
    // A name or an address without a port, an IPv6 address with or without brackets, or anything with a port.
    let plain = host.trim_start_matches('[').trim_end_matches(']');
    let has_port = host.parse::<SocketAddr>().is_ok() || (plain.matches(':').count() == 1 && plain == host);
    let found: Vec<SocketAddr> = match has_port {
        true => tokio::net::lookup_host(host).await.context(&cannot)?.collect(),
        false => tokio::net::lookup_host((plain, PORT)).await.context(&cannot)?.collect(),
    };
    if found.iter().any(|address| address.port() == 0) {
        return Err(Failure::usage(format!("{host}: port 0 receives nothing")));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_their_limits() {
        assert_eq!(length("10m"), Ok(Duration::from_secs(600)));
        assert_eq!(length("90 s"), Ok(Duration::from_secs(90)));
        assert_eq!(length("24h"), Ok(Duration::from_secs(86_400)));
        assert!(length("10ms").unwrap_err().contains("a second or more"));
        assert!(length("m").is_err() && length("tem").is_err());
        assert_eq!(every("20ms"), Ok(Duration::from_millis(20)));
        for text in ["0ms", "0 s", "10us", "2s"] {
            assert!(every(text).unwrap_err().contains("from 1 ms to 1 s"), "{text}");
        }
        assert!(every("0").unwrap_err().contains("no unit"));
    }

    #[tokio::test]
    async fn hosts_may_have_a_port() {
        for (host, expected) in [
            ("127.0.0.1", "127.0.0.1:4435"),
            ("127.0.0.1:9", "127.0.0.1:9"),
            ("::1", "[::1]:4435"),
            ("[::1]", "[::1]:4435"),
            ("[::1]:9", "[::1]:9"),
        ] {
            assert_eq!(addresses(host).await, Ok(vec![expected.parse().unwrap()]), "{host}");
        }
        assert!(addresses("127.0.0.1:0").await.is_err());
    }
}
