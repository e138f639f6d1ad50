//! The client of `thalweg perf`.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::Args;
use serde::Serialize;
use serde_json::json;
use thalweg::{ClientConfig, Connection, Endpoint, TransportConfig};
use thalweg_units::human_bytes;
use tokio::task::JoinSet;

use super::{ALPN, CHUNK};
use crate::failure::{Context, Failure, Result};
use crate::figures::Figures;
use crate::live::Live;
use crate::options::{TransportArgs, bytes, duration};
use crate::output;
use crate::text::{bits_per_second, milliseconds};

/// What is asked for when only a time is given.
const ENDLESS: u64 = 1 << 50;

/// `thalweg perf client`.
#[derive(Debug, Args)]
pub struct ClientArgs {
    /// HOST:PORT of a `thalweg perf server`, or of another server that speaks "perf"
    #[arg(value_name = "SERVER")]
    server: String,
    /// Move this much from the server; the default, without limit for 10 s
    #[arg(long, value_name = "SIZE", value_parser = bytes, group = "what")]
    download: Option<u64>,
    /// Move this much to the server
    #[arg(long, value_name = "SIZE", value_parser = bytes, group = "what")]
    upload: Option<u64>,
    /// Move this much in each direction at the same time
    #[arg(long, value_name = "SIZE", value_parser = bytes, group = "what")]
    bidi: Option<u64>,
    /// Stop after this long even if not everything was moved
    #[arg(long, value_name = "TIME", value_parser = duration)]
    time: Option<Duration>,
    /// Share the bytes between this many streams
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    streams: u64,
    /// Report this often; 0 s: only at the end
    #[arg(long, value_name = "TIME", default_value = "1 s", value_parser = duration)]
    interval: Duration,
    /// At the end, say what made it slow, and what would have made it faster: see `thalweg why`
    #[arg(long)]
    why: bool,
    /// Print JSON on stdout: one object per interval and one at the end
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    transport: TransportArgs,
}

#[derive(Debug, Default)]
struct Counters {
    down: AtomicU64,
    up: AtomicU64,
    stop: AtomicBool,
}

#[derive(Debug, Serialize)]
struct Interval {
    event: &'static str,
    start_s: f64,
    end_s: f64,
    bytes_down: u64,
    bytes_up: u64,
    down_bps: f64,
    up_bps: f64,
    rtt_ms: f64,
    window: u64,
    bytes_in_flight: u64,
    packets_lost: u64,
}

impl ClientArgs {
    pub(super) async fn run(self) -> Result<()> {
        let remote = tokio::net::lookup_host(&self.server)
            .await
            .map_err(|error| Failure::failed(format!("{}: {error}; expected HOST:PORT", self.server)))?
            .next()
            .ok_or_else(|| Failure::failed(format!("{} has no address", self.server)))?;
        let local = match remote {
            SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        };
        let endpoint = Endpoint::client(local).context("cannot open a UDP socket")?;
        output::warnings(&endpoint);
        // See the module's head: nothing but zeros travels.
        let live = Live::default();
        let mut transport = self.transport.config(TransportConfig::default())?;
        if self.why {
            live.watch(&mut transport);
        }
        let config =
            ClientConfig::dangerous_without_verification(&[ALPN]).context("cannot set up TLS")?.transport(transport);
        let connection = endpoint
            .connect_with(&config, remote, "localhost")
            .context(format_args!("cannot connect to {remote}"))?
            .await
            .context(format_args!("cannot connect to {remote}"))?;
        let result = self.transfer(&connection).await;
        connection.close(0, b"done");
        let _ = tokio::time::timeout(Duration::from_secs(3), endpoint.wait_idle()).await;
        live.tell(self.json);
        result
    }

    /// Bytes down, bytes up, and the time limit.
    fn plan(&self) -> (u64, u64, Option<Duration>) {
        let (down, up) = match (self.download, self.upload, self.bidi) {
            (Some(down), ..) => (down, 0),
            (_, Some(up), _) => (0, up),
            (.., Some(both)) => (both, both),
            _ => {
                return (ENDLESS, 0, Some(self.time.unwrap_or(Duration::from_secs(10))));
            }
        };
        (down, up, self.time)
    }

    async fn transfer(&self, connection: &Connection) -> Result<()> {
        let (down, up, limit) = self.plan();
        let counters = Arc::new(Counters::default());
        let began = Instant::now();
        let mut streams = JoinSet::new();
        for index in 0..self.streams {
            // The first streams take the remainder.
            let part = |total: u64| total / self.streams + u64::from(index < total % self.streams);
            streams.spawn(stream(connection.clone(), part(down), part(up), counters.clone()));
        }
        let mut interval = (!self.interval.is_zero()).then(|| {
            let start = tokio::time::Instant::now() + self.interval;
            tokio::time::interval_at(start, self.interval)
        });
        let mut last = (0.0, 0, 0);
        let mut stopped = None;
        loop {
            tokio::select! {
                done = streams.join_next() => match done {
                    None => break,
                    Some(Ok(Ok(()))) => {}
                    Some(Ok(Err(error))) => stopped = Some(error),
                    Some(Err(error)) => stopped = Some(Failure::failed(error)),
                },
                () = tick(&mut interval) => {
                    self.interval(connection, &counters, began, &mut last);
                }
                () = timer(began, limit), if limit.is_some() && !counters.stop.load(Ordering::Relaxed) => {
                    counters.stop.store(true, Ordering::Relaxed);
                }
                _ = tokio::signal::ctrl_c() => {
                    stopped = Some(Failure::failed("interrupted"));
                    break;
                }
            }
        }
        self.report(connection, &counters, began.elapsed());
        stopped.map_or(Ok(()), Err)
    }

    fn interval(&self, connection: &Connection, counters: &Counters, began: Instant, last: &mut (f64, u64, u64)) {
        let (start, down, up) = *last;
        let end = began.elapsed().as_secs_f64();
        *last = (end, counters.down.load(Ordering::Relaxed), counters.up.load(Ordering::Relaxed));
        let stats = connection.stats();
        let span = (end - start).max(1e-9);
        let interval = Interval {
            event: "interval",
            start_s: start,
            end_s: end,
            bytes_down: last.1 - down,
            bytes_up: last.2 - up,
            down_bps: (last.1 - down) as f64 * 8.0 / span,
            up_bps: (last.2 - up) as f64 * 8.0 / span,
            rtt_ms: stats.rtt.as_secs_f64() * 1000.0,
            window: stats.window,
            bytes_in_flight: stats.bytes_in_flight,
            packets_lost: stats.path.packets_lost,
        };
        if self.json {
            output::json(&interval);
        } else {
            eprintln!(
                "{start:6.2} - {end:6.2} s  down {:>10}  up {:>10}  RTT {}  window {}",
                bits_per_second(interval.down_bps),
                bits_per_second(interval.up_bps),
                milliseconds(interval.rtt_ms),
                human_bytes(interval.window)
            );
        }
    }

    fn report(&self, connection: &Connection, counters: &Counters, elapsed: Duration) {
        let figures = Figures::from(&connection.stats());
        let down = counters.down.load(Ordering::Relaxed);
        let up = counters.up.load(Ordering::Relaxed);
        let seconds = elapsed.as_secs_f64().max(1e-9);
        let rate = |bytes: u64| bytes as f64 * 8.0 / seconds;
        for (name, bytes) in [("down", down), ("up", up)] {
            if bytes > 0 {
                let (size, rate) = (human_bytes(bytes), bits_per_second(rate(bytes)));
                eprintln!("{name}: {size} in {seconds:.2} s, {rate}");
            }
        }
        eprintln!("{}", if up > 0 { figures.sender_line() } else { figures.receiver_line() });
        if self.json {
            output::json(&json!({
                "event": "summary",
                "remote": connection.remote_address().to_string(),
                "seconds": seconds,
                "bytes_down": down,
                "bytes_up": up,
                "down_bps": rate(down),
                "up_bps": rate(up),
                "streams": self.streams,
                "policies": self.transport.policies.to_string(),
                "connection": figures,
            }));
        }
    }
}

async fn tick(interval: &mut Option<tokio::time::Interval>) {
    match interval {
        Some(interval) => {
            interval.tick().await;
        }
        None => std::future::pending().await,
    }
}

async fn timer(began: Instant, limit: Option<Duration>) {
    match limit {
        Some(limit) => tokio::time::sleep_until((began + limit).into()).await,
        None => std::future::pending().await,
    }
}

/// Asks for `down` bytes and sends `up` bytes on one stream, until done or stopped.
async fn stream(connection: Connection, down: u64, up: u64, counters: Arc<Counters>) -> Result<()> {
    let (mut send, mut recv) = connection.open_bi().await.context("cannot open a stream")?;
    send.write_all(&down.to_be_bytes()).await.context("cannot send the request")?;
    let stopping = || counters.stop.load(Ordering::Relaxed);
    let sending = async {
        let zeros = Bytes::from_static(&[0; CHUNK]);
        let mut left = up;
        while left > 0 && !stopping() {
            let mut chunk = zeros.slice(..CHUNK.min(usize::try_from(left).unwrap_or(CHUNK)));
            while !chunk.is_empty() {
                let written = send.write_chunk(&mut chunk).await.context("upload")?;
                left -= written as u64;
                counters.up.fetch_add(written as u64, Ordering::Relaxed);
            }
        }
        send.finish().context("upload")
    };
    let receiving = async {
        let mut left = down;
        loop {
            if stopping() && down > 0 {
                let _ = recv.stop(0);
                return Ok(());
            }
            match recv.read_chunk(CHUNK).await.context("download")? {
                Some(chunk) => {
                    counters.down.fetch_add(chunk.len() as u64, Ordering::Relaxed);
                    left = left.saturating_sub(chunk.len() as u64);
                }
                None if left == 0 => return Ok(()),
                None => {
                    return Err(Failure::failed(format!("download: the server ended {left} bytes too early")));
                }
            }
        }
    };
    let (sent, received) = tokio::join!(sending, receiving);
    sent.and(received)
}
