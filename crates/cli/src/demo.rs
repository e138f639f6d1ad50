//! `thalweg demo`: serves and fetches files on one machine over a lossy relay, and compares every byte.
//!
//! It makes a directory of files, serves it, fetches everything over HTTP/3 through a relay on loopback that loses,
//! delays and reorders datagrams, compares SHA-256 sums, and prints what happened, from both ends' traces.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use thalweg_emulate::{Relay, RelayConfig, RelayCounts};
use thalweg_files::certificate::{CertificateStore, Identity};
use thalweg_files::client::{FetchOptions, Fetcher, Job, Preference, Report, Trust};
use thalweg_files::server::{Server, ServerOptions};
use thalweg_files::site::{Site, SiteOptions};
use thalweg_link::{DirectionConfig, LossModel, PathConfig, Probability, RateModel, Reorder};
use thalweg_units::{Rate, human_bytes, human_duration};
use tokio::sync::oneshot;

use crate::content::{sha256_file, write_file};
use crate::failure::{Context, Failure, Result};
use crate::figures::Figures;
use crate::options::{TransportArgs, bytes, duration};
use crate::output;
use crate::qlog::{Summary, summarize};
use crate::text::{bits_per_second, milliseconds};

/// However bad the path, the demo ends.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// `thalweg demo`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thalweg demo
  thalweg demo --loss '5 %' --delay '50 ms' --policies controller=new-reno
  thalweg demo --size '100 MB' --loss 0")]
pub struct DemoArgs {
    /// Size of the largest file; a few small ones come on top
    #[arg(long, value_name = "SIZE", default_value = "4 MB", value_parser = bytes)]
    size: u64,
    /// Share of datagrams that the relay loses, each way
    #[arg(long, value_name = "SHARE", default_value = "1 %")]
    loss: Probability,
    /// Propagation delay of the relay, each way
    #[arg(long, value_name = "TIME", default_value = "10 ms", value_parser = duration)]
    delay: Duration,
    /// Share of datagrams that take 5 ms longer in the relay, so that others overtake them
    #[arg(long, value_name = "SHARE", default_value = "0.5 %")]
    reorder: Probability,
    /// Seed of the relay's choices and of the files' content
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print JSON on stdout instead of the table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    transport: TransportArgs,
}

#[derive(Debug, Serialize)]
struct File {
    name: &'static str,
    bytes: u64,
    seconds: f64,
    goodput_bps: u64,
    protocol: String,
    sha256: String,
    equal: bool,
}

#[derive(Debug, Serialize)]
struct Outcome {
    files: Vec<File>,
    seconds: f64,
    bytes: u64,
    goodput_bps: f64,
    relay_forwarded: u64,
    relay_dropped: u64,
    relay_reordered: u64,
    client: Option<Figures>,
    server: Option<Summary>,
    traces: PathBuf,
}

impl DemoArgs {
    /// Runs the demo.
    ///
    /// # Errors
    ///
    /// When anything did not work or any byte is wrong.
    pub async fn run(self) -> Result<()> {
        let outcome = tokio::time::timeout(TIME_LIMIT, self.transfer())
            .await
            .map_err(|_| Failure::failed(format!("not done after {}", human_duration(TIME_LIMIT))))??;
        if self.json {
            output::json(&outcome);
        } else {
            output::line(&self.table(&outcome));
        }
        let wrong: Vec<_> = outcome.files.iter().filter(|file| !file.equal).map(|file| file.name).collect();
        if wrong.is_empty() { Ok(()) } else { Err(Failure::failed(format!("wrong bytes in {}", wrong.join(", ")))) }
    }

    async fn transfer(&self) -> Result<Outcome> {
        let work = tempfile::Builder::new().prefix("thalweg-demo-").tempdir().context("no temporary directory")?;
        let site = work.path().join("site");
        let fetched = work.path().join("fetched");
        for directory in [&site, &fetched] {
            std::fs::create_dir(directory).context(format_args!("cannot make {}", directory.display()))?;
        }
        let files = self.make_site(&site)?;
        let mut transport = self.transport.clone();
        let traces = match transport.qlog_directory() {
            Some(directory) => directory,
            None => {
                let kept = tempfile::Builder::new().prefix("thalweg-qlog-").tempdir();
                kept.context("no temporary directory")?.keep()
            }
        };
        transport.qlog = Some(traces.clone());

        let identity = Identity::self_signed::<&str>(&[]).context("cannot make a certificate")?;
        let server = self.serve(&site, &identity, &transport).await?;
        let relay = Relay::start(self.relay_config(server.address)).context("cannot start the relay")?;
        eprintln!(
            "Serving {} files on {}, fetching through a relay on {} ...",
            files.len(),
            server.address,
            relay.address()
        );
        let before = trace_files(&traces);
        let began = Instant::now();
        let (reports, sums) = self.fetch(&files, &fetched, relay.address(), &identity, &transport).await?;
        let elapsed = began.elapsed();
        let counts = relay.counts();
        server.stop().await;
        Ok(outcome(&files, reports, sums, elapsed, counts, traces, &before))
    }

    /// (name, SHA-256) of each file.
    fn make_site(&self, site: &Path) -> Result<Vec<(&'static str, u64, String)>> {
        let files = [("page.html", 10_000), ("notes.txt", 200_000), ("picture.jpg", 500_000), ("big.bin", self.size)];
        let mut made = Vec::new();
        for (index, (name, size)) in files.into_iter().enumerate() {
            let sum = write_file(&site.join(name), size, self.seed.wrapping_add(index as u64))
                .context(format_args!("cannot write {name}"))?;
            made.push((name, size, sum));
        }
        Ok(made)
    }

    fn relay_config(&self, target: SocketAddr) -> RelayConfig {
        let direction = DirectionConfig {
            rate: RateModel::Constant(Rate::MAX),
            delay: self.delay.into(),
            loss: vec![LossModel::Random(self.loss)],
            reorder: vec![Reorder { share: self.reorder, by: Duration::from_millis(5) }],
            ..DirectionConfig::default()
        };
        let hops = vec![PathConfig::new("demo", direction.clone(), direction)];
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        RelayConfig { listen, target, hops, seed: self.seed, realtime: false }
    }

    async fn serve(&self, site: &Path, identity: &Identity, transport: &TransportArgs) -> Result<Running> {
        let site = Site::new(site, SiteOptions::default()).context("cannot serve")?;
        let store = CertificateStore::new(identity).context("certificate")?;
        let mut options = ServerOptions::new(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), site, store);
        options.transport = Some(Arc::new(transport.config(ServerOptions::bulk_transport())?));
        options.tcp = false;
        options.grace = Duration::from_secs(2);
        let server = Server::bind(options).await.map_err(Failure::failed)?;
        let address = server.local_addr();
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(server.run(async {
            // A dropped sender means the same.
            let _ = stopped.await;
        }));
        Ok(Running { address, stop, task })
    }

    async fn fetch(
        &self,
        files: &[(&'static str, u64, String)],
        directory: &Path,
        relay: SocketAddr,
        identity: &Identity,
        transport: &TransportArgs,
    ) -> Result<(Vec<Report>, Vec<String>)> {
        let mut options = FetchOptions::default();
        options.trust = Trust::Certificates(identity.chain().to_vec());
        options.preference = Preference::Quic;
        options.transport = Some(Arc::new(transport.config(FetchOptions::bulk_transport())?));
        let fetcher = Fetcher::new(options).map_err(Failure::failed)?;
        let jobs = files
            .iter()
            .map(|(name, ..)| Job::to_file(format!("https://{relay}/{name}"), directory.join(name)))
            .collect();
        let results = fetcher.get(jobs, None).await;
        fetcher.close().await;
        let mut reports = Vec::new();
        let mut sums = Vec::new();
        for (result, (name, ..)) in results.into_iter().zip(files) {
            reports.push(result.map_err(Failure::failed)?);
            sums.push(sha256_file(&directory.join(name)).context(format_args!("cannot read {name}"))?);
        }
        Ok((reports, sums))
    }

    fn table(&self, outcome: &Outcome) -> String {
        let mut lines = Vec::new();
        for file in &outcome.files {
            lines.push(format!(
                "  {:<12} {:>9} {:>9} {:>10}  {:<7} sha256 {}… {}",
                file.name,
                human_bytes(file.bytes),
                milliseconds(file.seconds * 1000.0),
                bits_per_second(file.goodput_bps as f64),
                file.protocol,
                &file.sha256[..12],
                if file.equal { "equal" } else { "DIFFERENT" }
            ));
        }
        lines.push(String::new());
        let mut row = |name: &str, text: String| lines.push(format!("  {name:<13} {text}"));
        row(
            "path",
            format!(
                "{} each way, {} of {} datagrams lost, {} reordered by the relay",
                human_duration(self.delay),
                outcome.relay_dropped,
                outcome.relay_dropped + outcome.relay_forwarded,
                outcome.relay_reordered
            ),
        );
        row(
            "transfer",
            format!(
                "{} in {}, {}",
                human_bytes(outcome.bytes),
                milliseconds(outcome.seconds * 1000.0),
                bits_per_second(outcome.goodput_bps)
            ),
        );
        if let Some(client) = &outcome.client {
            let handshake = client.handshake_ms.map_or("unknown".into(), milliseconds);
            row("handshake", handshake);
            row("RTT", format!("{} (min {})", milliseconds(client.rtt_ms), milliseconds(client.min_rtt_ms)));
        }
        if let Some(server) = &outcome.server {
            let loss = &server.loss;
            row(
                "lost",
                format!(
                    "{} of {} packets sent by the server, {} of these spuriously",
                    loss.packets, server.sent.packets, loss.spurious
                ),
            );
            row("repeated", format!("{} of stream data", human_bytes(server.sent.repeated_stream_bytes)));
            if let Some(window) = &server.congestion_window {
                row("window", format!("up to {}", human_bytes(window.max)));
            }
            row("MTU", format!("{} bytes", server.mtu.last.unwrap_or(server.mtu.largest_packet_sent)));
            let limits: Vec<_> =
                server.limits.iter().map(|limit| format!("{} {:.0} %", limit.name, limit.share * 100.0)).collect();
            row("held back by", limits.join(", "));
        }
        row("policies", self.transport.policies.to_string());
        row("traces", format!("{} (thalweg qlog FILE explains them)", outcome.traces.display()));
        lines.join("\n")
    }
}

struct Running {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<()>,
}

impl Running {
    async fn stop(self) {
        // The server may be gone already.
        let _ = self.stop.send(());
        let _ = tokio::time::timeout(Duration::from_secs(5), self.task).await;
    }
}

fn trace_files(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
}

fn outcome(
    files: &[(&'static str, u64, String)],
    reports: Vec<Report>,
    sums: Vec<String>,
    elapsed: Duration,
    counts: RelayCounts,
    traces: PathBuf,
    before: &[PathBuf],
) -> Outcome {
    let bytes = reports.iter().map(|report| report.bytes).sum();
    let client = reports.iter().rev().find_map(|report| report.connection.as_ref()).map(|it| Figures::from(&it.stats));
    // Of the traces written meanwhile, the server's has the losses.
    let server = trace_files(&traces)
        .into_iter()
        .filter(|path| !before.contains(path) && path.to_string_lossy().ends_with("_server.sqlog"))
        .filter_map(|path| summarize(&path, 64).ok())
        .max_by_key(|summary| summary.sent.bytes);
    let files = files
        .iter()
        .zip(reports.iter().zip(sums))
        .map(|((name, size, wanted), (report, got))| File {
            name,
            bytes: report.bytes,
            seconds: report.elapsed.as_secs_f64(),
            goodput_bps: report.goodput_bps,
            protocol: report.protocol.to_string(),
            equal: got == *wanted && report.bytes == *size,
            sha256: got,
        })
        .collect();
    Outcome {
        files,
        seconds: elapsed.as_secs_f64(),
        bytes,
        goodput_bps: bytes as f64 * 8.0 / elapsed.as_secs_f64().max(1e-9),
        relay_forwarded: counts.forwarded,
        relay_dropped: counts.dropped,
        relay_reordered: counts.reordered,
        client,
        server,
        traces,
    }
}
