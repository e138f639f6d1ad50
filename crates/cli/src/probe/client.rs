//! `thalweg probe HOST`: measures the path to a server, and reports.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use thalweg_lab::advise::Advice;
use thalweg_lab::engine::SimEngine;
use thalweg_link::Paths;
use thalweg_link::trace::Synthetic;
use thalweg_probe::{
    Answer, Client, ClientConfig, ClientError, Findings, FirstHop, FurtherHops, HopSample, HopSchedule, Load,
    LoadFindings, Replay, Summary, Trace, Vantage, Way, answer, model, scenario, train_rates,
};
use thalweg_units::Instant;
use tokio::task::JoinSet;

use super::live::Live;
use super::loading::Loading;
use super::measured::Measured;
use super::socket::{Arrival, Clock, PORT, Socket};
use super::table::Table;
use super::timers::Timers;
use super::{chance, hop, https, json, load, page, words};
use crate::failure::{Context, Failure, Result};
use crate::options::duration;
use crate::output;

/// Answers of the first hop that are kept, at most: those of two days, with many suspensions.
const MOST_SAMPLES: usize = 200_000;
/// The shortest measurement with a load, for each way.
const LOADED: Duration = Duration::from_secs(5);
/// How often a live view is drawn.
const TICK: Duration = Duration::from_millis(500);

/// `thalweg probe HOST`.
#[derive(Debug, Args)]
pub struct ClientArgs {
    /// The server: a name or an address, with a port if it is not 4435; or https://… for round trips to any HTTP/3
    /// server
    #[arg(value_name = "HOST")]
    host: String,
    /// Time between datagrams, each way, 1 ms to 1 s
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = every)]
    every: Duration,
    /// How long to measure; Ctrl-C ends it before
    #[arg(long = "for", value_name = "TIME", default_value = "10m", value_parser = length)]
    length: Duration,
    /// Fill the path one way, or one way after the other, with a QUIC transfer for up to 10 s each, to see how fast it
    /// is and how responsive it stays. The server carries it if it was started with --load; its port is the next one
    #[arg(long, value_name = "WAY")]
    load: Option<LoadWays>,
    /// Send a train of up to 16 datagrams of 1,200 bytes every second, and have it answered with another: their
    /// distances on arrival show the rate of the bottleneck. Takes up to 160 kbps more each way
    #[arg(long)]
    burst: bool,
    /// Say which recovery rules serve this path better than the shipped ones; takes up to a minute of computing.
    /// Implies --burst, and --load both if no other way is named
    #[arg(long)]
    advise: bool,
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

/// What `--load` fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LoadWays {
    Up,
    Down,
    Both,
}

impl LoadWays {
    fn ways(self) -> &'static [Way] {
        match self {
            LoadWays::Up => &[Way::Up],
            LoadWays::Down => &[Way::Down],
            LoadWays::Both => &Way::BOTH,
        }
    }
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
        if self.host.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://")) {
            return self.https().await;
        }
        if self.host.trim().is_empty() {
            return Err(Failure::usage("HOST is empty: write the name or the address of a probe server, or https://…"));
        }
        if self.host.contains("://") {
            let message = format!("{} is no server that can be measured: write HOST, or https://HOST", self.host);
            return Err(Failure::usage(message));
        }
        // What cannot be written is said before ten minutes are spent on it.
        for file in self.report.iter().chain(&self.csv).chain(&self.scenario) {
            writable(file)?;
        }
        let least = LOADED * self.loads().len() as u32;
        if self.length < least {
            let option = if self.load.is_some() { "--load" } else { "--advise" };
            let message = format!("{option} needs a measurement of {} s or more: write --for", least.as_secs());
            return Err(Failure::usage(message));
        }
        let addresses = addresses(&self.host).await?;
        let mut failed = None;
        for server in addresses {
            match self.measure(server).await {
                Ok((mut measured, parts)) => {
                    if self.advise {
                        measured.advice = advice(&measured, self.quiet || self.json);
                    }
                    return self.tell(&measured, parts);
                }
                // Another address of the same name may do better.
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.unwrap_or_else(|| Failure::failed(format!("{} has no address", self.host))))
    }

    /// The ways to fill, one after the other. Advice needs the rates and the queues of both.
    fn loads(&self) -> &'static [Way] {
        self.load.or(self.advise.then_some(LoadWays::Both)).map_or(&[], LoadWays::ways)
    }

    /// Round trips to any HTTP/3 server.
    async fn https(&self) -> Result<()> {
        let needs_server = [
            ("--load", self.load.is_some()),
            ("--burst", self.burst),
            ("--advise", self.advise),
            ("--report", self.report.is_some()),
            ("--scenario", self.scenario.is_some()),
            ("--csv", self.csv.is_some()),
        ];
        if let Some((option, _)) = needs_server.into_iter().find(|(_, is_asked)| *is_asked) {
            let message = format!("{option} needs a probe server; of an HTTP/3 server only round trips are measured");
            return Err(Failure::usage(message));
        }
        let options = https::Options { every: self.every, length: self.length, json: self.json, quiet: self.quiet };
        https::run(&self.host, &options).await
    }

    fn tell(&self, measured: &Measured, parts: Parts) -> Result<()> {
        if self.json {
            output::json(&json::result(measured));
        } else {
            output::bytes(words::report(measured).as_bytes());
        }
        // What cannot be written does not keep the rest from being written.
        let mut failed: Vec<String> = Vec::new();
        let mut note = |file: &Path, written: std::result::Result<(), String>| {
            failed.extend(written.err().map(|error| format!("cannot write {}: {error}", file.display())));
        };
        let said = |error: std::io::Error| error.to_string();
        if let Some(file) = &self.report {
            let page = page::page(measured).map_err(|error| error.to_string());
            note(file, page.and_then(|page| thalweg_output::write(file, page.as_bytes()).map_err(said)));
        }
        match (&self.csv, parts.table, parts.no_table) {
            (Some(file), Some(table), _) => note(file, table.write(file).map_err(said)),
            (Some(file), None, Some(error)) => note(file, Err(said(error))),
            _ => {}
        }
        if let (Some(file), Some(summary), Some(replay)) = (&self.scenario, &measured.summary, parts.replay) {
            note(file, write_scenario(file, summary, &replay).map_err(said));
        }
        if let Some(Err(error)) = &measured.advice {
            failed.push(format!("no advice: {error}"));
        }
        if !failed.is_empty() {
            return Err(Failure::failed(failed.join("; ")));
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
        let config = ClientConfig {
            interval: self.every,
            length: Some(self.length),
            marks: Socket::MARKS,
            trains: self.burst || self.advise,
        };
        let [a, b, c, d, e, f, g, h, ..] = chance::secret()?;
        let mut client = Client::new(config, clock.now(), u64::from_be_bytes([a, b, c, d, e, f, g, h]));
        let mut live = Live::new(self.quiet || self.json, self.length);
        live.say(&format!("Measuring with {server}, a datagram every {:?} each way; Ctrl-C ends it", self.every));
        let mut parts = Parts::new(self.csv.is_some(), self.scenario.is_some())?;
        let mut loading = Loading::new(self.loads(), self.length, load::port_of(server));
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
                received = socket.receive(into(&mut client)) => noted(received, clock.now(), &mut client),
                _ = ticks.tick() => {
                    if let Some(part) = client.cut(clock.now()) {
                        parts.add(&part);
                    }
                    live.show(&client, clock.now());
                }
                done = loading.done() => {
                    if let Some(failed) = loading.ended(done, &mut client, clock.now()) {
                        live.say(&failed);
                    }
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
                if let Some(begins) = loading.begin(&mut client, clock) {
                    live.say(&begins);
                }
            }
            while let Some(ecn) = client.poll_transmit(clock.now(), &mut out) {
                let sent = socket.send(&out, ecn);
                if sent.is_err() {
                    // What arrived before counts first, such as that the server was stopped.
                    noted(socket.take(into(&mut client)), clock.now(), &mut client);
                }
                noted(sent, clock.now(), &mut client);
            }
        }
        live.end();
        if let Some(error) = client.error() {
            return Err(failure(&cannot, error));
        }
        let local = socket.local_addr().context(&cannot)?;
        let one_computer = server.ip().is_loopback() || server.ip() == local.ip();
        let end = End { server, stamped: socket.is_stamped(), one_computer, hops, loading };
        Ok(end.conclude(client, parts))
    }
}

/// What there is beside the client and the parts when a measurement ends.
struct End {
    server: SocketAddr,
    stamped: bool,
    one_computer: bool,
    hops: Hops,
    loading: Loading,
}

impl End {
    /// Everything that was measured.
    fn conclude(self, mut client: Client, mut parts: Parts) -> (Measured, Parts) {
        let End { server, stamped, one_computer, hops, loading } = self;
        let trains = client.trains().to_vec();
        let (trace, breaks) = client.into_trace();
        let started = trace.started;
        let trains = train_rates(&trains, started);
        parts.add(&trace);
        let mut summary = parts.summary.take();
        let timers = parts.timers.findings();
        let (loads, no_load) = loading.end(started);
        if let Some(summary) = &mut summary {
            let found = loads.iter().filter_map(|(way, load)| of_load(*way, load, summary));
            summary.loads = found.collect();
            summary.trains = trains;
        }
        let samples = hops.samples();
        let first: Vec<HopSample> = samples.iter().filter(|(hop, _)| *hop == 1).map(|(_, sample)| *sample).collect();
        let first_hop = match &summary {
            Some(summary) => FirstHop::of(&first, &summary.events),
            None => None,
        };
        let answer = match &summary {
            Some(summary) => answer(summary, &Vantage { first_hop, one_computer }),
            None if trace.up.is_empty() => Answer::unknown("it was ended before the server had answered"),
            None => Answer::unknown("no datagram came back from the server"),
        };
        (
            Measured {
                server,
                summary,
                answer,
                first_hop,
                hops: thalweg_probe::hops(&samples),
                breaks,
                started,
                stamped,
                timers,
                no_load,
                advice: None,
            },
            parts,
        )
    }
}

/// Advice for the fitted path; none if nothing was measured.
fn advice(measured: &Measured, quiet: bool) -> Option<Result<Advice>> {
    let text = model(measured.summary.as_ref()?);
    let paths = Paths::parse("the measured path", &text, &Synthetic).map_err(Failure::failed);
    let advice = paths.and_then(|paths| {
        let hops = paths.hops("model").unwrap_or_default();
        // Nothing else is left to do meanwhile.
        crate::lab::advise::advice(hops, &SimEngine::default(), crate::lab::stop_on_interrupt(), 0, quiet)
    });
    Some(advice)
}

/// What a load of this way showed.
fn of_load(way: Way, load: &Load, summary: &Summary) -> Option<LoadFindings> {
    LoadFindings::of(way, load, &summary.loaded[way as usize], summary)
}

/// Datagrams to the first hop.
#[derive(Default)]
struct Hops {
    schedule: HopSchedule,
    further: FurtherHops,
    asked: JoinSet<(u8, HopSample)>,
    samples: Vec<(u8, HopSample)>,
}

impl Hops {
    /// Asks the first hop, if it is time to.
    fn ask(&mut self, client: &Client, interval: Duration, server: SocketAddr, clock: Clock) {
        self.take();
        let (heard, learned) = client.last_news();
        let started = client.trace().started;
        let has_room = self.samples.len() < MOST_SAMPLES && started > 0;
        if has_room && self.schedule.is_due(clock.now(), interval, heard, learned) {
            self.spawn(1, server, clock, started);
        }
        if has_room && let Some(hop) = self.further.due(clock.now()) {
            self.spawn(hop, server, clock, started);
        }
    }

    fn spawn(&mut self, hops: u8, server: SocketAddr, clock: Clock, started: u64) {
        self.asked.spawn(async move { (hops, hop::ask(server, hops, clock, started).await) });
    }

    /// Takes what has been answered, or not in time.
    fn take(&mut self) {
        while let Some(sample) = self.asked.try_join_next() {
            let Ok((hops, sample)) = sample else { continue };
            if sample.answer.is_some() {
                self.further.answered(hops);
            }
            self.samples.push((hops, sample));
        }
    }

    fn samples(mut self) -> Vec<(u8, HopSample)> {
        self.take();
        self.samples
    }
}

/// What is kept of parts that were measured.
struct Parts {
    summary: Option<Summary>,
    table: Option<Table>,
    /// Why the table was given up: no room for temporary files, for example.
    no_table: Option<std::io::Error>,
    replay: Option<Replay>,
    timers: Timers,
}

impl Parts {
    fn new(with_table: bool, with_replay: bool) -> Result<Parts> {
        let table = with_table.then(Table::new).transpose().context("cannot make a temporary file")?;
        let replay = with_replay.then(Replay::default);
        Ok(Parts { summary: None, table, no_table: None, replay, timers: Timers::new() })
    }

    fn add(&mut self, part: &Trace) {
        let Some(findings) = Findings::of(part) else { return };
        // Measuring goes on without it.
        if let Some(Err(error)) = self.table.as_mut().map(|table| table.add(&findings)) {
            (self.table, self.no_table) = (None, Some(error));
        }
        if let Some(replay) = &mut self.replay {
            replay.add(&findings);
        }
        self.timers.add(&findings);
        self.summary.get_or_insert_default().add(findings);
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

/// Hands datagrams over to the client.
fn into(client: &mut Client) -> impl FnMut(Instant, Arrival<'_>) + use<'_> {
    |now, arrival| client.receive(now, arrival.at, arrival.ecn, arrival.bytes)
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
