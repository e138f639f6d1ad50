//! A congestion controller from outside the crates: additive increase, multiplicative decrease, in thirty lines.
//!
//! `cargo run --release -p thalweg --example own_controller` sends 50 MB over loopback with it.

use std::sync::Arc;

use bytes::Bytes;
use thalweg::recovery::{AckEvent, Allowance, Change, PathContext, PathView};
use thalweg::{
    ClientConfig, Congestion, Controller, ControllerFactory, Endpoint, Policies, ServerConfig, TransportConfig,
    pki_types::PrivateKeyDer,
};

/// Adds one datagram to the window per window acknowledged; halves it once per round trip with losses.
#[derive(Debug)]
struct Aimd {
    /// Bytes that may be in flight.
    window: u64,
    datagram_size: u16,
    /// Bytes acknowledged since the window last grew.
    counted: u64,
    /// Before the first loss the window grows by all that is acknowledged.
    started: bool,
}

impl Controller for Aimd {
    fn on_ack(&mut self, event: &AckEvent<'_>) -> Change {
        let datagram = u64::from(self.datagram_size);
        if event.persistent_congestion {
            self.window = 2 * datagram;
        } else if event.congestion.is_some() {
            self.window = (self.window / 2).max(2 * datagram);
            self.started = true;
        } else if !self.started {
            self.window += event.growth;
        } else {
            self.counted += event.growth;
            if self.counted >= self.window {
                self.counted -= self.window;
                self.window += datagram;
            }
        }
        Change::Allowance
    }

    fn on_datagram_size(&mut self, size: u16) {
        self.datagram_size = size;
    }

    fn allowance(&self, path: &PathView<'_>) -> Allowance {
        Allowance::spread(self.window, path, self.datagram_size)
    }
}

/// Makes one for each path.
#[derive(Debug)]
struct Aimds;

impl ControllerFactory for Aimds {
    fn name(&self) -> &str {
        "aimd"
    }

    fn build(&self, context: &PathContext) -> Box<dyn Controller> {
        let datagram_size = context.datagram_size;
        Box::new(Aimd { window: 10 * u64::from(datagram_size), datagram_size, counted: 0, started: false })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let issued = rcgen::generate_simple_self_signed(vec!["localhost".into()])?;
    let key = PrivateKeyDer::try_from(issued.signing_key.serialize_der())?;
    let certificate = issued.cert.der().clone();
    let server = ServerConfig::with_single_cert(vec![certificate.clone()], key, &[b"example"])?;
    let server = Endpoint::server(server, "[::1]:0".parse()?)?;
    let address = server.local_addr()?;
    let receiving = tokio::spawn(async move {
        let connection = server.accept().await.ok_or(thalweg::ConnectionError::EndpointClosed)?.await?;
        let mut stream = connection.accept_uni().await?;
        let mut received = 0;
        while let Some(chunk) = stream.read_chunk(1 << 20).await? {
            received += chunk.len();
        }
        Ok::<usize, std::io::Error>(received)
    });

    let policies = Policies { congestion: Congestion::Custom(Arc::new(Aimds)), ..Policies::default() };
    let transport = TransportConfig { policies, ..TransportConfig::default() };
    let config = ClientConfig::with_root_certificates([certificate], &[b"example"])?.transport(transport);
    let client = Endpoint::client("[::]:0".parse()?)?;
    let connection = client.connect_with(&config, address, "localhost")?.await?;
    let mut stream = connection.open_uni().await?;
    stream.write_all_chunks(&mut vec![Bytes::from_static(&[1; 1 << 20]); 50]).await?;
    stream.finish()?;
    stream.stopped().await?;
    let stats = connection.stats();
    println!("window {} bytes, smoothed RTT {:?}, {:?}", stats.window, stats.rtt, stats.path);
    println!("{} bytes arrived", receiving.await??);
    Ok(())
}
