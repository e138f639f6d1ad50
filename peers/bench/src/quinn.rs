//! quinn on one thread of tokio.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{
    ClientConfig, Connection, Endpoint, EndpointConfig, MtuDiscoveryConfig, RecvStream, SendStream, ServerConfig,
    TokioRuntime, TransportConfig, VarInt,
};

use crate::job::{
    CHUNK, Direction, Failure, Job, MAX_DATAGRAM, Outcome, REQUEST, SERVER_NAME, WINDOW, expect, runtime,
};
use crate::stack::Stack;

pub struct Quinn;

impl Stack for Quinn {
    fn name(&self) -> &'static str {
        "quinn"
    }

    fn options(&self) -> String {
        format!(
            "windows {WINDOW} bytes, MTU discovery up to {MAX_DATAGRAM}; else as shipped: CUBIC, pacing; an ACK for every second packet"
        )
    }

    fn serve(&self, job: &Job, ready: &dyn Fn(SocketAddr)) -> Result<Outcome, Failure> {
        runtime()?.block_on(async {
            let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(job.server_tls()?)?));
            config.transport_config(transport());
            let endpoint =
                Endpoint::new(EndpointConfig::default(), Some(config), job.socket()?, Arc::new(TokioRuntime))?;
            ready(endpoint.local_addr()?);
            let mut outcome = Outcome::default();
            for _ in 0..job.connections {
                let connection = endpoint.accept().await.ok_or("endpoint closed")?.await?;
                answer(&connection).await?;
                connection.closed().await;
                add(&mut outcome, &connection);
            }
            endpoint.wait_idle().await;
            Ok(outcome)
        })
    }

    fn fetch(&self, job: &Job) -> Result<Outcome, Failure> {
        runtime()?.block_on(async {
            let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(job.client_tls()?)?));
            config.transport_config(transport());
            let endpoint = Endpoint::new(EndpointConfig::default(), None, job.socket()?, Arc::new(TokioRuntime))?;
            let mut outcome = Outcome::default();
            for _ in 0..job.connections {
                let connection = endpoint.connect_with(config.clone(), job.server()?, SERVER_NAME)?.await?;
                let (mut send, mut recv) = connection.open_bi().await?;
                send.write_all(&job.request()).await?;
                match job.direction {
                    Direction::Download => {
                        send.finish()?;
                        expect(drain(&mut recv).await?, job.size)?;
                    }
                    Direction::Upload => {
                        pour(&mut send, job.size).await?;
                        expect(drain(&mut recv).await?, 1)?;
                    }
                }
                connection.close(VarInt::from_u32(0), b"");
                add(&mut outcome, &connection);
            }
            endpoint.wait_idle().await;
            Ok(outcome)
        })
    }
}

fn transport() -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    let mut discovery = MtuDiscoveryConfig::default();
    discovery.upper_bound(MAX_DATAGRAM);
    config
        .stream_receive_window(WINDOW.into())
        .receive_window(WINDOW.into())
        .send_window(WINDOW.into())
        .mtu_discovery_config(Some(discovery));
    Arc::new(config)
}

async fn answer(connection: &Connection) -> Result<(), Failure> {
    let (mut send, mut recv) = connection.accept_bi().await?;
    let mut request = [0; REQUEST];
    recv.read_exact(&mut request).await?;
    let [upload, size @ ..] = request;
    let size = u64::from_be_bytes(size);
    if upload == 1 {
        expect(drain(&mut recv).await?, size)?;
        send.write_all(b".").await?;
        send.finish()?;
    } else {
        pour(&mut send, size).await?;
    }
    Ok(())
}

/// Writes `size` bytes as clones of one shared chunk.
async fn pour(send: &mut SendStream, size: u64) -> Result<(), Failure> {
    let chunk = Bytes::from(vec![0x5a; CHUNK]);
    let mut left = size;
    while left > 0 {
        let length = left.min(CHUNK as u64);
        send.write_chunk(chunk.slice(..length as usize)).await?;
        left -= length;
    }
    send.finish()?;
    Ok(())
}

/// Reads to the end and counts.
async fn drain(recv: &mut RecvStream) -> Result<u64, Failure> {
    let mut total = 0;
    while let Some(chunk) = recv.read_chunk(usize::MAX, true).await? {
        total += chunk.bytes.len() as u64;
    }
    Ok(total)
}

fn add(outcome: &mut Outcome, connection: &Connection) {
    let path = connection.stats().path;
    outcome.datagram = outcome.datagram.max(path.current_mtu.into());
    outcome.sent += path.sent_packets;
    outcome.lost += path.lost_packets;
}
