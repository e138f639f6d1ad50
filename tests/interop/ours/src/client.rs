//! The client role: fetches `REQUESTS` into `DOWNLOADS`.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use contract::evidence::{Counter, Evidence, Ledger};
use contract::{Failure, Request, Task, tls};
use thalweg::{ClientConfig, Connection, Endpoint, TransportConfig, Version};
use tokio::task::JoinSet;

use crate::watch::Watch;

/// How long a session ticket may take to arrive after the first connection's files.
const TICKET_WAIT: Duration = Duration::from_millis(200);

/// How long a connection may take to close after a failure; less than the runner waits before it kills.
const CLOSE_WAIT: Duration = Duration::from_secs(2);

/// What one read takes at most.
const READ: usize = 256 << 10;

pub async fn run(task: &Task) -> Result<(), Failure> {
    let watch = Watch::default();
    let (crypto, _) = tls::client(task)?;
    let transport = TransportConfig { observer: Some(Arc::new(watch.clone())), ..TransportConfig::default() };
    // The runner decides how long a path may stay dead.
    let mut config = ClientConfig::with_rustls(crypto)?.transport(transport).connect_timeout(None);
    if task.is("v2") {
        config = match contract::variable("V2START")?.as_str() {
            "direct" => config.version(Version::V2),
            _ => config.preferred_versions([Version::V2]),
        };
    }
    let endpoint = Endpoint::client(([127, 0, 0, 1], 0).into())?;
    endpoint.set_default_client_config(config);
    let ledger = Ledger::default();
    for (index, requests) in task.requests()?.iter().enumerate() {
        let result = tokio::select! {
            result = connection(task, &endpoint, requests, index > 0, &watch, &ledger) => result,
            _ = contract::terminated() => Err("told to end before the files were here".into()),
        };
        ledger.close_all();
        if result.is_err() {
            // Ends the connections, and with them the traces in QLOGDIR.
            endpoint.close(0u32.into(), b"failed");
            let _ = tokio::time::timeout(CLOSE_WAIT, endpoint.wait_idle()).await;
        }
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
    watch: &Watch,
    ledger: &Ledger,
) -> Result<(), Failure> {
    let connecting = endpoint.connect(contract::address("SERVER")?, "localhost")?;
    let (connection, accepted) = if resuming && task.is("zerortt") {
        match connecting.into_0rtt() {
            Ok((connection, accepted)) => (connection, Some(accepted)),
            Err(_) => return Err("no 0-RTT keys for the second connection".into()),
        }
    } else {
        (connecting.await?, None)
    };
    let (streams, early, seen) = (Counter::default(), Counter::default(), watch.latest());
    ledger.open({
        let (connection, streams, early) = (connection.clone(), streams.clone(), early.clone());
        move || Evidence {
            retry: seen.retry(),
            early_data: Some(early.get() > 0),
            streams: streams.get(),
            ..seen.evidence(&connection)
        }
    });
    if task.is("http3") {
        contract::http3::fetch(thalweg_h3::Connection::new(connection.clone()), requests, &streams).await?;
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
    connection.close(0, b"");
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
        // Not before the handshake is confirmed (RFC 9001 section 6.1), which it is within a round trip.
        while !connection.force_key_update() {
            tokio::task::yield_now().await;
        }
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
    while let Some(chunk) = recv.read_chunk(READ).await? {
        file.write_all(&chunk)?;
    }
    Ok(())
}
