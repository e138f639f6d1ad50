//! `thalweg probe https://…`: round trips to any HTTP/3 server, by QUIC PINGs, and how long it took to begin.

use std::fmt::Write as _;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{Request, Uri};
use serde_json::{Value, json};
use thalweg::proto::observe::{ObservedConnection, Observer, ObserverEvent, ObserverFactory};
use thalweg::{ClientConfig, Connection, Endpoint, TransportConfig};
use thalweg_h3::h3;
use thalweg_link::Quantiles;
use thalweg_units::{Instant, human_duration};

use crate::failure::{Context, Failure, Result};
use crate::output;

/// How long connecting and the first byte may take.
const PATIENCE: Duration = Duration::from_secs(15);
/// A round trip that takes so much longer than the median is told as a spike.
const SPIKE: Duration = Duration::from_millis(50);

/// How to measure.
pub(super) struct Options {
    pub(super) every: Duration,
    pub(super) length: Duration,
    pub(super) json: bool,
    pub(super) quiet: bool,
}

/// What was measured.
#[derive(Debug, Default)]
struct Measured {
    server: String,
    /// From the first datagram to the first answer.
    answered: Option<Duration>,
    /// From the first datagram to the completed handshake.
    handshake: Duration,
    /// From the request to the head of the response; why there was none.
    first_byte: Option<Duration>,
    status: String,
    trips: Quantiles,
    spikes: u64,
    lost: u64,
    /// Why it ended before its time.
    ended: Option<String>,
}

/// Notes when the first packet of the server came.
#[derive(Debug, Default, Clone)]
struct First(Arc<Mutex<Option<Duration>>>);

struct Noting {
    first: First,
    start: Instant,
}

impl Observer for Noting {
    fn on_event(&mut self, now: Instant, event: &ObserverEvent<'_>) {
        if matches!(event, ObserverEvent::PacketReceived(_)) {
            let mut first = self.first.0.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert(now.saturating_since(self.start));
        }
    }
}

impl ObserverFactory for First {
    fn build(&self, connection: &ObservedConnection<'_>) -> Option<Box<dyn Observer>> {
        Some(Box::new(Noting { first: self.clone(), start: connection.start }))
    }
}

/// Measures and reports.
///
/// # Errors
/// When there is no HTTP/3 server, or it went away before the end.
pub(super) async fn run(url: &str, options: &Options) -> Result<()> {
    let cannot = format!("cannot measure with {url}");
    let uri: Uri = url.parse().map_err(|error| Failure::usage(format!("{url}: {error}")))?;
    let host = uri.host().filter(|host| !host.is_empty());
    let host = host.ok_or_else(|| Failure::usage(format!("{url} names no host")))?;
    let plain = host.trim_start_matches('[').trim_end_matches(']');
    let addresses = tokio::net::lookup_host((plain, uri.port_u16().unwrap_or(443))).await.context(&cannot)?;
    let mut failed = None;
    for address in addresses {
        match measure(&uri, plain, address, options).await {
            Ok(measured) => return tell(&measured, options),
            Err(error) => failed = Some(error),
        }
    }
    Err(failed.unwrap_or_else(|| Failure::failed(format!("{cannot}: {host} has no address"))))
}

async fn measure(uri: &Uri, name: &str, address: SocketAddr, options: &Options) -> Result<Measured> {
    let cannot = format!("cannot measure with {address}");
    let any: SocketAddr = if address.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
    let endpoint = Endpoint::client(any).context("cannot open a UDP socket")?;
    let first = First::default();
    let transport = TransportConfig { observer: Some(Arc::new(first.clone())), ..TransportConfig::default() };
    let config = ClientConfig::with_native_roots(&[b"h3"]).context("cannot set up TLS")?;
    let config = config.transport(transport).connect_timeout(Some(PATIENCE));
    let connection = endpoint.connect_with(&config, address, name).context(&cannot)?;
    let connection = connection.await.map_err(|error| {
        Failure::failed(format!("{cannot}: {error}; it may have no HTTP/3, or something on the way drops UDP"))
    })?;
    let mut measured = Measured {
        server: address.to_string(),
        answered: *first.0.lock().unwrap_or_else(PoisonError::into_inner),
        handshake: connection.stats().handshake_time.unwrap_or_default(),
        ..Measured::default()
    };
    let made = h3::client::new(thalweg_h3::Connection::new(connection.clone())).await;
    let (mut driver, mut sender) = made.context(&cannot)?;
    let driving = tokio::spawn(async move { poll_fn(|cx| driver.poll_close(cx)).await });
    match tokio::time::timeout(PATIENCE, head(&mut sender, uri)).await {
        Ok(Ok((took, status))) => (measured.first_byte, measured.status) = (Some(took), status),
        Ok(Err(error)) => measured.status = error,
        Err(_) => measured.status = format!("no answer within {} s", PATIENCE.as_secs()),
    }
    if !options.quiet && !options.json {
        eprintln!("Measuring round trips with {address}, by PINGs every {:?}; Ctrl-C ends it", options.every);
    }
    ping(&connection, options, &mut measured).await;
    // The sender keeps the connection open until here.
    drop(sender);
    connection.close(h3::error::Code::H3_NO_ERROR.value(), b"");
    driving.abort();
    let _ = tokio::time::timeout(Duration::from_secs(1), endpoint.wait_idle()).await;
    Ok(measured)
}

/// How long the head of a response takes, and its status.
async fn head(
    sender: &mut h3::client::SendRequest<thalweg_h3::Connection, bytes::Bytes>,
    uri: &Uri,
) -> std::result::Result<(Duration, String), String> {
    let request = Request::head(uri.clone()).body(()).map_err(|error| error.to_string())?;
    let began = std::time::Instant::now();
    let mut stream = sender.send_request(request).await.map_err(|error| error.to_string())?;
    stream.finish().await.map_err(|error| error.to_string())?;
    let response = stream.recv_response().await.map_err(|error| error.to_string())?;
    Ok((began.elapsed(), response.status().to_string()))
}

/// Sends PINGs, two at a time: a receiver acknowledges every second packet at once (RFC 9000 section 13.2.2), and one
/// by itself after a delay of its own.
async fn ping(connection: &Connection, options: &Options, measured: &mut Measured) {
    let until = tokio::time::Instant::now() + options.length;
    let mut tick = tokio::time::interval(options.every);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let before = connection.stats().path;
    let mut samples = before.rtt_samples;
    loop {
        tokio::select! {
            _ = tick.tick() => {}
            error = connection.closed() => {
                measured.ended = Some(error.to_string());
                break;
            }
            () = tokio::time::sleep_until(until) => break,
            _ = tokio::signal::ctrl_c() => break,
        }
        let stats = connection.stats();
        measured.lost = stats.path.packets_lost.saturating_sub(before.packets_lost);
        if stats.path.rtt_samples > samples {
            samples = stats.path.rtt_samples;
            measured.trips.record(stats.latest_rtt);
            measured.spikes += u64::from(stats.latest_rtt > measured.trips.quantile(1, 2) + SPIKE);
        }
        connection.ping();
        connection.ping();
    }
}

fn tell(measured: &Measured, options: &Options) -> Result<()> {
    if options.json {
        output::json(&result(measured));
    } else {
        output::bytes(words(measured).as_bytes());
    }
    match &measured.ended {
        Some(why) => Err(Failure::failed(format!("the measurement ended before its time: {why}"))),
        None => Ok(()),
    }
}

fn ms(time: Duration) -> f64 {
    (time.as_nanos() as f64 / 1e3).round() / 1e3
}

fn result(measured: &Measured) -> Value {
    let trips = &measured.trips;
    let at = |num, den| ms(trips.quantile(num, den));
    json!({
        "event": "result",
        "server": measured.server,
        "answered": measured.answered.map(ms),
        "handshake": ms(measured.handshake),
        "first_byte": measured.first_byte.map(ms),
        "status": measured.status,
        "round_trip": {
            "count": trips.count(), "min": ms(trips.min()), "p50": at(1, 2), "p90": at(90, 100), "p95": at(95, 100),
            "p99": at(99, 100), "max": ms(trips.max()),
        },
        "spikes": measured.spikes,
        "packets_lost": measured.lost,
        "complete": measured.ended.is_none(),
    })
}

fn words(measured: &Measured) -> String {
    let Measured { trips, spikes, lost, .. } = measured;
    let mut out = String::new();
    let at = |num, den| human_duration(trips.quantile(num, den));
    // Writing to a string cannot fail.
    let _ = match trips.count() {
        0 => writeln!(out, "Cannot tell, because no PING was answered."),
        _ => writeln!(
            out,
            "Round trips take {}, one in a hundred {} or more; {spikes} took 50 ms longer than usual. Which way was late, a \
             round trip cannot say.",
            at(1, 2),
            at(99, 100)
        ),
    };
    if let Some(answered) = measured.answered {
        let _ = writeln!(out, "  {:<15} {} to the first answer", "connecting", human_duration(answered));
        let tls = measured.handshake.saturating_sub(answered);
        let _ = writeln!(out, "  {:<15} {} more until it was done", "TLS", human_duration(tls));
    }
    let _ = match measured.first_byte {
        Some(took) => {
            writeln!(out, "  {:<15} {} after the request, {}", "first byte", human_duration(took), measured.status)
        }
        None => writeln!(out, "  {:<15} none: {}", "first byte", measured.status),
    };
    let max = human_duration(trips.max());
    let _ = writeln!(
        out,
        "  {:<15} median {}, 95 % {}, 99 % {}, max {max}; {} PINGs answered, {lost} packets lost",
        "round trip",
        at(1, 2),
        at(95, 100),
        at(99, 100),
        trips.count()
    );
    out
}
