//! The server of `thalweg perf`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::Args;
use serde_json::json;
use thalweg::{Connection, EndpointBuilder, Incoming, RecvStream, SendStream, ServerConfig, TransportConfig};
use thalweg_files::certificate::Identity;
use thalweg_units::human_bytes;
use tokio::task::JoinSet;

use super::{ALPN, CHUNK};
use crate::failure::{Context, Result};
use crate::figures::Figures;
use crate::options::TransportArgs;
use crate::output;

/// `thalweg perf server`.
#[derive(Debug, Args)]
pub struct ServerArgs {
    /// Where to listen (UDP); port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "[::]:4434")]
    listen: SocketAddr,
    /// Workers, each with a socket of its own [default: one per core]
    #[arg(long, value_name = "N")]
    workers: Option<usize>,
    /// End after this many connections
    #[arg(long, value_name = "N")]
    connections: Option<u64>,
    /// Print one JSON object per event and connection on stdout
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    transport: TransportArgs,
}

impl ServerArgs {
    pub(super) async fn run(self) -> Result<()> {
        let identity = Identity::self_signed::<&str>(&[]).context("cannot make a certificate")?;
        let config = ServerConfig::with_single_cert(identity.chain().to_vec(), identity.key().clone_key(), &[ALPN])
            .context("cannot set up TLS")?
            .transport(self.transport.config(TransportConfig::default())?);
        let mut builder = EndpointBuilder::new().server(config);
        if let Some(workers) = self.workers {
            builder = builder.workers(workers);
        }
        let endpoint = builder.bind(self.listen).context(format_args!("cannot listen on {}", self.listen))?;
        output::warnings(&endpoint);
        let address = endpoint.local_addr().context("no local address")?;
        eprintln!("thalweg perf server on {address}");
        if self.json {
            output::json(&json!({"event": "listening", "address": address.to_string()}));
        }
        let mut running = JoinSet::new();
        let mut left = self.connections.unwrap_or(u64::MAX);
        loop {
            tokio::select! {
                incoming = endpoint.accept(), if left > 0 => {
                    let Some(incoming) = incoming else { break };
                    left -= 1;
                    running.spawn(serve(incoming, self.json));
                }
                Some(_) = running.join_next(), if !running.is_empty() => {
                    if left == 0 && running.is_empty() {
                        break;
                    }
                }
                _ = tokio::signal::ctrl_c() => break,
            }
        }
        endpoint.close(0, b"the server ends");
        let _ = tokio::time::timeout(Duration::from_secs(3), endpoint.wait_idle()).await;
        Ok(())
    }
}

async fn serve(incoming: Incoming, as_json: bool) {
    let remote = incoming.remote_address();
    let connection = match incoming.await {
        Ok(connection) => connection,
        Err(error) => {
            eprintln!("{remote}: {error}");
            return;
        }
    };
    let began = Instant::now();
    let sent = Arc::new(AtomicU64::new(0));
    let received = Arc::new(AtomicU64::new(0));
    let mut streams = JoinSet::new();
    let ended = loop {
        tokio::select! {
            stream = connection.accept_bi() => match stream {
                Ok((send, recv)) => {
                    streams.spawn(answer(send, recv, sent.clone(), received.clone()));
                }
                Err(error) => break error,
            },
            Some(_) = streams.join_next(), if !streams.is_empty() => {}
        }
    };
    report(&connection, began, sent.load(Ordering::Relaxed), received.load(Ordering::Relaxed), as_json);
    // An orderly end is what our client does; anything else is worth a line.
    if !matches!(ended, thalweg::ConnectionError::PeerApplication { code: 0, .. }) {
        eprintln!("{remote}: {ended}");
    }
}

fn report(connection: &Connection, began: Instant, sent: u64, received: u64, as_json: bool) {
    let figures = Figures::from(&connection.stats());
    let remote = connection.remote_address();
    eprintln!(
        "{remote}: sent {}, received {} in {:.2} s; {}",
        human_bytes(sent),
        human_bytes(received),
        began.elapsed().as_secs_f64(),
        if sent >= received { figures.sender_line() } else { figures.receiver_line() }
    );
    if as_json {
        output::json(&json!({
            "event": "connection",
            "remote": remote.to_string(),
            "seconds": began.elapsed().as_secs_f64(),
            "bytes_sent": sent,
            "bytes_received": received,
            "connection": figures,
        }));
    }
}

/// One stream: reads what is wanted, then sends and reads at the same time.
async fn answer(mut send: SendStream, mut recv: RecvStream, sent: Arc<AtomicU64>, received: Arc<AtomicU64>) {
    let mut wanted = [0; 8];
    if recv.read_exact(&mut wanted).await.is_err() {
        return;
    }
    let wanted = u64::from_be_bytes(wanted);
    let sending = async {
        let zeros = Bytes::from_static(&[0; CHUNK]);
        let mut left = wanted;
        while left > 0 {
            let mut chunk = zeros.slice(..CHUNK.min(usize::try_from(left).unwrap_or(CHUNK)));
            while !chunk.is_empty() {
                match send.write_chunk(&mut chunk).await {
                    Ok(written) => {
                        left -= written as u64;
                        sent.fetch_add(written as u64, Ordering::Relaxed);
                    }
                    Err(_) => return false,
                }
            }
        }
        true
    };
    let reading = async {
        while let Ok(Some(chunk)) = recv.read_chunk(CHUNK).await {
            received.fetch_add(chunk.len() as u64, Ordering::Relaxed);
        }
    };
    let (complete, ()) = tokio::join!(sending, reading);
    if complete {
        let _ = send.finish();
        let _ = send.stopped().await;
    }
}
