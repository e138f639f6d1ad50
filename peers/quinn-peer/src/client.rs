//! The client role: fetches `REQUESTS` into `DOWNLOADS`.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use contract::evidence::{Counter, Evidence, Ledger};
use contract::{Failure, Request, Task, tls};
use quinn::crypto::rustls::{HandshakeData, QuicClientConfig};
use quinn::{ClientConfig, Connection, Endpoint, EndpointConfig, TokioRuntime, VarInt};
use rustls::quic::Suite;
use tokio::task::JoinSet;

use crate::trace;
use crate::wire::{self, Seen};

/// How long a session ticket may take to arrive after the first connection's files.
const TICKET_WAIT: Duration = Duration::from_millis(200);

/// The suite of Initial packets, also where the offered suites do not include it.
pub fn initial_suite() -> Result<Suite, Failure> {
    rustls::crypto::ring::default_provider()
        .cipher_suites
        .iter()
        .find(|suite| suite.suite() == tls::INITIAL_SUITE)
        .and_then(|suite| suite.tls13()?.quic_suite())
        .ok_or_else(|| "ring has no suite for Initial packets".into())
}

/// quinn does not report the negotiated suite; where only one was offered there is no doubt.
pub fn only_cipher(task: &Task) -> Option<u16> {
    match tls::provider(task).cipher_suites.as_slice() {
        [only] => Some(only.suite().into()),
        _ => None,
    }
}

pub fn alpn(connection: &Connection) -> Option<String> {
    let data = connection.handshake_data()?.downcast::<HandshakeData>().ok()?;
    Some(String::from_utf8_lossy(&data.protocol?).into_owned())
}

pub async fn run(task: &Task) -> Result<(), Failure> {
    let (crypto, verified) = tls::client(task)?;
    let crypto = QuicClientConfig::with_initial(Arc::new(crypto), initial_suite()?)?;
    let (socket, seen) = wire::bind(([127, 0, 0, 1], 0).into())?;
    let mut endpoint =
        Endpoint::new_with_abstract_socket(EndpointConfig::default(), None, socket, Arc::new(TokioRuntime))?;
    endpoint.set_default_client_config(ClientConfig::new(Arc::new(crypto)));
    let groups = task.requests()?;
    let ledger = Ledger::default();
    for (index, requests) in groups.iter().enumerate() {
        let resuming = index > 0;
        let result = connection(task, &endpoint, requests, resuming, &seen, &verified, &ledger).await;
        ledger.close_all();
        result?;
    }
    endpoint.wait_idle().await;
    Ok(())
}

async fn connection(
    task: &Task,
    endpoint: &Endpoint,
    requests: &[Request],
    resuming: bool,
    seen: &Arc<Seen>,
    verified: &Counter,
    ledger: &Ledger,
) -> Result<(), Failure> {
    let verified_before = verified.get();
    let connecting = endpoint.connect(contract::address("SERVER")?, "localhost")?;
    let (connection, accepted) = if resuming && task.is("zerortt") {
        match connecting.into_0rtt() {
            Ok((connection, accepted)) => (connection, Some(accepted)),
            Err(_) => return Err("no 0-RTT keys for the second connection".into()),
        }
    } else {
        (connecting.await?, None)
    };
    let streams = Counter::default();
    let early = Counter::default();
    ledger.open({
        let (task, seen, connection) = (task.clone(), seen.clone(), connection.clone());
        let (streams, early, verified) = (streams.clone(), early.clone(), verified.clone());
        move || Evidence {
            version: Some(seen.version.load(Ordering::Relaxed)),
            cipher: only_cipher(&task),
            alpn: alpn(&connection),
            resumed: Some(verified.get() == verified_before),
            early_data: Some(early.get() > 0),
            retry: Some(seen.retry.load(Ordering::Relaxed)),
            key_updates: trace::key_updates(&task),
            ecn_sent: Some(seen.ecn_sent.load(Ordering::Relaxed)),
            ecn_received: Some(seen.ecn_received.load(Ordering::Relaxed)),
            ecn_acked: trace::ecn_acked(&task),
            streams: streams.get(),
            ..Evidence::default()
        }
    });
    if task.is("http3") {
        contract::http3::fetch(h3_quinn::Connection::new(connection.clone()), requests, &streams).await?;
    } else {
        fetch_hq(task, &connection, requests, &streams).await?;
    }
    if let Some(accepted) = accepted
        && accepted.await
    {
        early.add();
    }
    if !resuming && (task.is("resumption") || task.is("zerortt")) {
        tokio::time::sleep(TICKET_WAIT).await;
    }
    connection.close(VarInt::from_u32(0), b"");
    Ok(())
}

async fn fetch_hq(
    task: &Task,
    connection: &Connection,
    requests: &[Request],
    streams: &Counter,
) -> Result<(), Failure> {
    let mut running = JoinSet::new();
    for request in requests {
        streams.add();
        let (connection, request) = (connection.clone(), request.clone());
        running.spawn(async move { download(&connection, &request).await });
    }
    if task.is("keyupdate") {
        connection.force_key_update();
    }
    while let Some(result) = running.join_next().await {
        result??;
    }
    Ok(())
}

async fn download(connection: &Connection, request: &Request) -> Result<(), Failure> {
    let (mut send, mut recv) = connection.open_bi().await?;
    send.write_all(request.line().as_bytes()).await?;
    send.finish()?;
    let mut file = std::fs::File::create(request.target()?)?;
    while let Some(chunk) = recv.read_chunk(usize::MAX, true).await? {
        file.write_all(&chunk.bytes)?;
    }
    Ok(())
}
