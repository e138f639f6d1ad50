//! An echo server and its client: `cargo run --release -p thalweg --example echo` runs both in one process.
//!
//! With an argument it runs one end only: `echo serve [::]:4433`, `echo connect 192.0.2.1:4433` (certificates are not
//! checked then; a real client uses `ClientConfig::with_root_certificates`).

use std::{net::SocketAddr, time::Instant};

use bytes::Bytes;
use thalweg::{ClientConfig, Connection, Endpoint, RecvStream, SendStream, ServerConfig, pki_types::PrivateKeyDer};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => {
            let server = bind("[::1]:0".parse()?)?;
            let address = server.local_addr()?;
            tokio::spawn(serve(server));
            connect(address).await
        }
        ["serve", address] => serve(bind(address.parse()?)?).await,
        ["connect", address] => connect(address.parse()?).await,
        _ => Err("usage: echo [serve ADDRESS | connect ADDRESS]".into()),
    }
}

/// A server with a certificate it signed itself.
fn bind(address: SocketAddr) -> Result<Endpoint> {
    let issued = rcgen::generate_simple_self_signed(vec!["localhost".into()])?;
    let key = PrivateKeyDer::try_from(issued.signing_key.serialize_der())?;
    let config = ServerConfig::with_single_cert(vec![issued.cert.der().clone()], key, &[b"echo"])?;
    let server = Endpoint::server(config, address)?;
    for warning in server.warnings() {
        eprintln!("warning: {warning}");
    }
    Ok(server)
}

async fn serve(server: Endpoint) -> Result<()> {
    eprintln!("serving on {}", server.local_addr()?);
    while let Some(incoming) = server.accept().await {
        tokio::spawn(async move {
            match incoming.await {
                Ok(connection) => serve_connection(connection).await,
                Err(error) => eprintln!("handshake failed: {error}"),
            }
        });
    }
    Ok(())
}

async fn serve_connection(connection: Connection) {
    let remote = connection.remote_address();
    loop {
        match connection.accept_bi().await {
            Ok((send, recv)) => {
                tokio::spawn(async move {
                    if let Err(error) = serve_stream(send, recv).await {
                        eprintln!("{remote}: {error}");
                    }
                });
            }
            Err(error) => return eprintln!("{remote}: {error}"),
        }
    }
}

async fn serve_stream(mut send: SendStream, mut recv: RecvStream) -> Result<()> {
    while let Some(chunk) = recv.read_chunk(256 * 1024).await? {
        send.write_all_chunks(&mut [chunk]).await?;
    }
    send.finish()?;
    // Not needed for delivery; it only keeps errors from going unnoticed.
    send.stopped().await?;
    Ok(())
}

async fn connect(address: SocketAddr) -> Result<()> {
    let client = Endpoint::client("[::]:0".parse()?)?;
    let config = ClientConfig::dangerous_without_verification(&[b"echo"])?;
    let connection = client.connect_with(&config, address, "localhost")?.await?;
    let (mut send, mut recv) = connection.open_bi().await?;

    let bytes = 100 << 20;
    let start = Instant::now();
    let writing = tokio::spawn(async move {
        let mut chunks = vec![Bytes::from_static(&[7; 1 << 20]); bytes >> 20];
        send.write_all_chunks(&mut chunks).await?;
        send.finish()?;
        Result::Ok(())
    });
    let mut received = 0;
    while let Some(chunk) = recv.read_chunk(1 << 20).await? {
        received += chunk.len();
    }
    writing.await??;
    let seconds = start.elapsed().as_secs_f64();
    println!("{received} of {bytes} bytes back in {seconds:.2} s: {:.0} Mbit/s", received as f64 * 8e-6 / seconds);
    println!("{:#?}", connection.stats());
    connection.close(0, b"done");
    client.wait_idle().await;
    Ok(())
}
