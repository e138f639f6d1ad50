//! Ours on one thread of tokio.

use std::net::SocketAddr;

use bytes::Bytes;
use thalweg::{
    AckPolicy, ClientConfig, Connection, EndpointBuilder, Rate, RecvStream, SendStream, ServerConfig, StreamsConfig,
    TransportConfig,
};

use crate::job::{
    CHUNK, Direction, Failure, Job, MAX_DATAGRAM, Outcome, REQUEST, SERVER_NAME, WINDOW, expect, runtime,
};
use crate::stack::Stack;

/// What differs from what is shipped.
#[derive(Copy, Clone, PartialEq, Eq)]
pub enum Thalweg {
    /// Nothing.
    Shipped,
    /// Every second packet is acknowledged, as by quinn, instead of thinning out: shows how much of the difference
    /// comes from fewer ACKs alone.
    AckEverySecond,
    /// At most 100 Mbps: the pacer lets few packets go at a time, so that no batch is large.
    Paced,
}

/// The rate of [`Thalweg::Paced`].
const PACED: Rate = Rate::from_bps(100_000_000);

impl Stack for Thalweg {
    fn name(&self) -> &'static str {
        match self {
            Thalweg::Shipped => "thalweg",
            Thalweg::AckEverySecond => "thalweg-ack2",
            Thalweg::Paced => "thalweg-paced",
        }
    }

    fn options(&self) -> String {
        match self {
            Thalweg::Shipped => format!(
                "windows {WINDOW} bytes, fixed; MTU discovery up to {MAX_DATAGRAM}; one worker; else as shipped: {}; \
                 ACKs {}",
                TransportConfig::default().policies,
                AckPolicy::default()
            ),
            Thalweg::AckEverySecond => "thalweg, but an ACK for every second packet throughout".to_owned(),
            Thalweg::Paced => format!("thalweg, but at most {PACED}"),
        }
    }

    fn serve(&self, job: &Job, ready: &dyn Fn(SocketAddr)) -> Result<Outcome, Failure> {
        runtime()?.block_on(async {
            let config = ServerConfig::with_rustls(job.server_tls()?)?.transport(self.transport());
            let endpoint =
                EndpointBuilder::new().server(config).socket_buffer(job.buffer).with_socket(job.socket()?)?;
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
            let config = ClientConfig::with_rustls(job.client_tls()?)?.transport(self.transport());
            let endpoint =
                EndpointBuilder::new().client(config).socket_buffer(job.buffer).with_socket(job.socket()?)?;
            let mut outcome = Outcome::default();
            for _ in 0..job.connections {
                let connection = endpoint.connect(job.server()?, SERVER_NAME)?.await?;
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
                connection.close(0, b"");
                add(&mut outcome, &connection);
            }
            endpoint.wait_idle().await;
            Ok(outcome)
        })
    }
}

impl Thalweg {
    fn transport(&self) -> TransportConfig {
        let window = u64::from(WINDOW);
        TransportConfig {
            max_mtu: MAX_DATAGRAM,
            acks: if *self == Thalweg::AckEverySecond { AckPolicy::EverySecond } else { AckPolicy::default() },
            max_rate: (*self == Thalweg::Paced).then_some(PACED),
            streams: StreamsConfig {
                stream_receive_window: window,
                max_stream_receive_window: window,
                receive_window: window,
                max_receive_window: window,
                send_window: window,
                ..StreamsConfig::default()
            },
            ..TransportConfig::default()
        }
    }
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
        send.write_all_chunks(&mut [chunk.slice(..length as usize)]).await?;
        left -= length;
    }
    send.finish()?;
    Ok(())
}

/// Reads to the end and counts.
async fn drain(recv: &mut RecvStream) -> Result<u64, Failure> {
    let mut total = 0;
    while let Some(chunk) = recv.read_chunk(CHUNK).await? {
        total += chunk.len() as u64;
    }
    Ok(total)
}

fn add(outcome: &mut Outcome, connection: &Connection) {
    let stats = connection.stats();
    outcome.datagram = outcome.datagram.max(stats.mtu.into());
    outcome.sent += stats.path.packets_sent;
    outcome.lost += stats.path.packets_lost;
}
