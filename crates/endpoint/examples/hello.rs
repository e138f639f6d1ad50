//! README's example and a server for it, in one process: `cargo run -p thalweg --example hello`.

use std::net::SocketAddr;

use thalweg::{
    ClientConfig, Endpoint, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer},
};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

async fn hello(server: SocketAddr, name: &str, trusted: CertificateDer<'static>) -> Result<Vec<u8>> {
    let client = Endpoint::client("[::]:0".parse()?)?;
    let config = ClientConfig::with_root_certificates([trusted], &[b"hello"])?;
    let connection = client.connect_with(&config, server, name)?.await?;
    let (mut send, mut receive) = connection.open_bi().await?;
    send.write_all(b"hello").await?;
    send.finish()?;
    let answer = receive.read_to_end(1 << 20).await?;
    println!("{:?}", connection.stats());
    connection.close(0, b"done");
    client.wait_idle().await; // gives the server time to receive the close
    Ok(answer)
}

/// Answers one connection's streams with what they carried, until the connection ends.
async fn serve(server: Endpoint) -> Result<()> {
    let connection = server.accept().await.ok_or("the endpoint was closed")?.await?;
    while let Ok((mut send, mut receive)) = connection.accept_bi().await {
        send.write_all(&receive.read_to_end(1 << 20).await?).await?;
        send.finish()?;
    }
    Ok(())
}

/// Runs the example against a server on loopback that signs its own certificate; returns the answer.
pub async fn run() -> Result<Vec<u8>> {
    let issued = rcgen::generate_simple_self_signed(vec!["localhost".into()])?;
    let certificate = issued.cert.der().clone();
    let key = PrivateKeyDer::try_from(issued.signing_key.serialize_der())?;
    let config = ServerConfig::with_single_cert(vec![certificate.clone()], key, &[b"hello"])?;
    let server = Endpoint::server(config, "[::1]:0".parse()?)?;
    let address = server.local_addr()?;
    let serving = tokio::spawn(serve(server));
    let answer = hello(address, "localhost", certificate).await?;
    serving.await??;
    Ok(answer)
}

#[allow(dead_code)] // a test runs `run` instead
#[tokio::main]
async fn main() -> Result<()> {
    println!("{}", String::from_utf8_lossy(&run().await?));
    Ok(())
}
