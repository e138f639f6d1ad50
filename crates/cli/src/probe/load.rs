//! The load of `--load`: a QUIC transfer from memory to memory beside the measurement, and its server.
//!
//! The client opens a stream for each thing and says in a byte what it is: [`DOWN`] and the server sends zeros until
//! the stream is stopped or the connection's time is over; [`UP`] and the server reads, and says every 100 ms how many
//! bytes of datagrams have come; [`PING`] and the server ends the stream at once; [`LARGEST`] and it says how large its
//! datagrams have become (RFC 8899), how many packets it has sent, and how many of them it declared lost. Nothing but
//! zeros travels, so nobody's certificate is checked.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use thalweg::{
    ClientConfig, Connection, Endpoint, EndpointBuilder, Incoming, RecvStream, RetryPolicy, SendStream, ServerConfig,
    TransportConfig,
};
use thalweg_files::certificate::Identity;
use thalweg_probe::{LoadLimits, Loads, NoLoad, Way};
use thalweg_units::{Instant, Rate};
use tokio::task::JoinSet;

use super::socket::Clock;
use crate::failure::{Context, Failure, Result};

/// The application protocol.
const ALPN: &[u8] = b"thalweg-probe-load";
const DOWN: u8 = b'd';
const UP: u8 = b'u';
const PING: u8 = b'p';
const LARGEST: u8 = b'l';
/// The largest datagram that is tried: that of networks with frames of 9,000 bytes, over IPv6.
const MOST_DATAGRAM: u16 = 8_952;
/// How much is handed to or taken from a stream at once.
const CHUNK: usize = 64 * 1024;
/// From one entry of what was delivered to the next.
const TICK: Duration = Duration::from_millis(100);
/// Connections of the server, those that are being refused included.
const MOST_CONNECTIONS: usize = 32;
/// Memory for what was received and not read, or sent and not acknowledged, of all connections.
const MEMORY: u64 = 64 << 20;
/// Codes with which the server closes.
const BUSY: u64 = 1;
const ENOUGH: u64 = 2;
/// How long connecting may take.
const CONNECTING: Duration = Duration::from_secs(5);

/// The port of the load is the one after that of the measurement.
pub(super) fn port_of(probe: SocketAddr) -> Option<SocketAddr> {
    Some(SocketAddr::new(probe.ip(), probe.port().checked_add(1)?))
}

/// Serves loads of at most this rate until it is dropped.
///
/// # Errors
/// When the address cannot be bound.
pub(super) fn serve(address: SocketAddr, rate: Rate, clock: Clock) -> Result<Endpoint> {
    let identity = Identity::self_signed::<&str>(&[]).context("cannot make a certificate")?;
    // What is not read fills the connection's window and nothing more.
    let transport = TransportConfig {
        max_rate: Some(rate),
        max_idle_timeout: Some(Duration::from_secs(5)),
        max_mtu: MOST_DATAGRAM,
        ..TransportConfig::default()
    };
    let config = ServerConfig::with_single_cert(identity.chain().to_vec(), identity.key().clone_key(), &[ALPN])
        .context("cannot set up TLS")?
        .transport(transport)
        // Nothing is sent to an address that has not answered, but for a packet smaller than the one received.
        .retry(RetryPolicy::Always)
        .max_connections(MOST_CONNECTIONS);
    let builder = EndpointBuilder::new().server(config).workers(1).memory_budget(MEMORY).send_budget(MEMORY);
    let endpoint = builder.bind(address).context(format_args!("cannot listen on {address} for loads"))?;
    let accepting = endpoint.clone();
    tokio::spawn(async move {
        let loads = Arc::new(Mutex::new(Loads::new(LoadLimits::default())));
        while let Some(incoming) = accepting.accept().await {
            tokio::spawn(carry(incoming, loads.clone(), rate, clock));
        }
    });
    Ok(endpoint)
}

async fn carry(incoming: Incoming, loads: Arc<Mutex<Loads>>, rate: Rate, clock: Clock) {
    let Ok(connection) = incoming.await else { return };
    let remote = connection.remote_address();
    let book = || loads.lock().unwrap_or_else(PoisonError::into_inner);
    let begun = book().begin(clock.now(), remote);
    match begun {
        Ok(length) => {
            // A little more than the client asks for: it ends first.
            let _ = tokio::time::timeout(length, streams(&connection, rate)).await;
            book().end(clock.now(), remote);
            connection.close(0, b"the load is over");
        }
        Err(no) => connection.close(if no == NoLoad::Enough { ENOUGH } else { BUSY }, no.to_string().as_bytes()),
    }
}

async fn streams(connection: &Connection, rate: Rate) {
    let mut running = JoinSet::new();
    loop {
        tokio::select! {
            stream = connection.accept_bi() => match stream {
                Ok((send, recv)) => {
                    running.spawn(answer(connection.clone(), send, recv, rate));
                }
                Err(_) => return,
            },
            Some(_) = running.join_next(), if !running.is_empty() => {}
        }
    }
}

async fn answer(connection: Connection, mut send: SendStream, mut recv: RecvStream, rate: Rate) {
    let mut what = [0];
    if recv.read_exact(&mut what).await.is_err() {
        return;
    }
    match what[0] {
        DOWN => while write_zeros(&mut send).await.is_some() {},
        UP => read_slowly(&connection, &mut send, &mut recv, rate).await,
        LARGEST => {
            let Told { largest, packets, lost } = Told::of(&connection);
            let told = [&largest.to_be_bytes()[..], &packets.to_be_bytes(), &lost.to_be_bytes()].concat();
            let _ = send.write_all(&told).await;
            let _ = send.finish();
        }
        _ => {
            let _ = send.finish();
        }
    }
}

/// Writes a chunk of zeros; none if the stream has ended.
async fn write_zeros(send: &mut SendStream) -> Option<usize> {
    let mut chunk = Bytes::from_static(&[0; CHUNK]);
    send.write_chunk(&mut chunk).await.ok()
}

/// Bytes of datagrams that have come. A stream hands over nothing behind a loss, and then much at once: what the path
/// carries shows here.
fn come(connection: &Connection) -> u64 {
    connection.stats().udp_received.bytes
}

/// Reads no faster than at this rate, and says how many bytes have come.
async fn read_slowly(connection: &Connection, send: &mut SendStream, recv: &mut RecvStream, rate: Rate) {
    let (began, before) = (tokio::time::Instant::now(), come(connection));
    let (mut read, mut due) = (0u64, began);
    let mut tick = tokio::time::interval(TICK);
    loop {
        let is_early = due > tokio::time::Instant::now() + Duration::from_millis(5);
        tokio::select! {
            _ = tick.tick() => {
                // What comes at once, until the window is full, counts no faster than it is taken.
                let all = (come(connection) - before).min(rate.bytes_in(began.elapsed()));
                if send.write_all(&all.to_be_bytes()).await.is_err() {
                    return;
                }
            }
            () = tokio::time::sleep_until(due), if is_early => {}
            chunk = recv.read_chunk(CHUNK), if !is_early => {
                let Ok(Some(chunk)) = chunk else { return };
                read += chunk.len() as u64;
                due = began + rate.time_for(read);
            }
        }
    }
}

/// A load that was carried.
#[derive(Debug, Default)]
pub(super) struct Carried {
    pub(super) from: Instant,
    pub(super) until: Instant,
    /// Bytes of datagrams that had come since the entry before.
    pub(super) delivered: Vec<(Instant, u64)>,
    pub(super) own_trips: Vec<Duration>,
    pub(super) told: Told,
}

/// What the sender of a load knows of it; zeros if it did not say.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told {
    /// Its largest datagram, bytes of UDP payload.
    pub(super) largest: u16,
    /// Packets that it sent.
    pub(super) packets: u64,
    /// Of these, those that it declared lost.
    pub(super) lost: u64,
}

impl Told {
    fn of(connection: &Connection) -> Told {
        let stats = connection.stats();
        Told { largest: stats.mtu, packets: stats.path.packets_sent, lost: stats.path.packets_lost }
    }
}

/// Fills a way for so long.
///
/// # Errors
/// When there is no server of loads, or it refuses.
pub(super) async fn load(server: SocketAddr, way: Way, length: Duration, clock: Clock) -> Result<Carried> {
    let cannot = format!("no load: cannot reach {server} (UDP)");
    let any: SocketAddr = if server.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
    let endpoint = Endpoint::client(any).context("no load: cannot open a UDP socket")?;
    let config = ClientConfig::dangerous_without_verification(&[ALPN])
        .context("no load: cannot set up TLS")?
        .connect_timeout(Some(CONNECTING))
        .transport(TransportConfig { max_mtu: MOST_DATAGRAM, ..TransportConfig::default() });
    let advice = "; the server carries loads only if it was started with --load RATE";
    let connection = endpoint
        .connect_with(&config, server, "localhost")
        .context(&cannot)?
        .await
        .map_err(|error| Failure::failed(format!("{cannot}: {error}{advice}")))?;
    let result = carry_to(&connection, way, length, clock).await;
    let refused = connection.close_reason();
    connection.close(0, b"done");
    let _ = tokio::time::timeout(Duration::from_secs(1), endpoint.wait_idle()).await;
    match (result, refused) {
        (Ok(carried), _) if !carried.delivered.is_empty() => Ok(carried),
        (_, Some(thalweg::ConnectionError::PeerApplication { code: BUSY, .. })) => {
            Err(Failure::failed(format!("no load: {}", NoLoad::Busy)))
        }
        (_, Some(thalweg::ConnectionError::PeerApplication { code: ENOUGH, .. })) => {
            Err(Failure::failed(format!("no load: {}", NoLoad::Enough)))
        }
        (Err(error), _) => Err(error),
        (Ok(_), _) => Err(Failure::failed("no load: nothing came through")),
    }
}

async fn carry_to(connection: &Connection, way: Way, length: Duration, clock: Clock) -> Result<Carried> {
    let (mut send, mut recv) = connection.open_bi().await.context("no load")?;
    let mut carried = Carried { from: clock.now(), ..Carried::default() };
    let until = tokio::time::Instant::now() + length;
    send.write_all(&[if way == Way::Down { DOWN } else { UP }]).await.context("no load")?;
    let pings = tokio::spawn(pings(connection.clone(), until));
    match way {
        Way::Down => {
            let mut known = come(connection);
            let mut tick = tokio::time::interval(TICK);
            loop {
                tokio::select! {
                    () = tokio::time::sleep_until(until) => break,
                    _ = tick.tick() => {
                        let all = come(connection);
                        carried.delivered.push((clock.now(), all.saturating_sub(known)));
                        known = all;
                    }
                    chunk = recv.read_chunk(CHUNK) => if !matches!(chunk, Ok(Some(_))) { break },
                }
            }
            let _ = recv.stop(0);
        }
        Way::Up => {
            let mut known = 0;
            let mut told = [0; 8];
            let mut at = 0;
            loop {
                tokio::select! {
                    () = tokio::time::sleep_until(until) => break,
                    written = write_zeros(&mut send) => if written.is_none() { break },
                    read = recv.read(&mut told[at..]) => {
                        let Ok(Some(read)) = read else { break };
                        at += read;
                        if at == told.len() {
                            at = 0;
                            let all = u64::from_be_bytes(told);
                            carried.delivered.push((clock.now(), all.saturating_sub(known)));
                            known = all;
                        }
                    }
                }
            }
            let _ = send.reset(0);
        }
    }
    carried.until = clock.now();
    carried.told = match way {
        Way::Up => Told::of(connection),
        Way::Down => {
            tokio::time::timeout(Duration::from_secs(1), told(connection)).await.ok().flatten().unwrap_or_default()
        }
    };
    // Those under way end with the connection.
    carried.own_trips = tokio::time::timeout(Duration::from_secs(1), pings)
        .await
        .ok()
        .and_then(std::result::Result::ok)
        .unwrap_or_default();
    carried.delivered.retain(|(_, bytes)| *bytes > 0);
    Ok(carried)
}

/// What the server knows of the load that it sent. One of an older version says no more than the first of it.
async fn told(connection: &Connection) -> Option<Told> {
    let (mut send, mut recv) = connection.open_bi().await.ok()?;
    send.write_all(&[LARGEST]).await.ok()?;
    let (mut largest, mut packets, mut lost) = ([0; 2], [0; 8], [0; 8]);
    recv.read_exact(&mut largest).await.ok()?;
    let mut told = Told { largest: u16::from_be_bytes(largest), ..Told::default() };
    if recv.read_exact(&mut packets).await.is_ok() && recv.read_exact(&mut lost).await.is_ok() {
        (told.packets, told.lost) = (u64::from_be_bytes(packets), u64::from_be_bytes(lost));
    }
    Some(told)
}

/// Round trips of small requests on the connection of the load, until a time.
async fn pings(connection: Connection, until: tokio::time::Instant) -> Vec<Duration> {
    let mut trips = Vec::new();
    while tokio::time::Instant::now() < until {
        let began = tokio::time::Instant::now();
        let one = async {
            let (mut send, mut recv) = connection.open_bi().await.ok()?;
            send.write_all(&[PING]).await.ok()?;
            send.finish().ok()?;
            recv.read_chunk(1).await.ok()
        };
        match tokio::time::timeout_at(until, one).await {
            Ok(Some(_)) => trips.push(began.elapsed()),
            _ => return trips,
        }
        tokio::time::sleep(TICK).await;
    }
    trips
}
