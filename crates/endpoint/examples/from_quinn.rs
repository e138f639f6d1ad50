//! The thalweg side of docs/from-quinn.md: `cargo run -p thalweg --example from_quinn`.

use std::net::SocketAddr;

use thalweg::{
    ClientConfig, Endpoint, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer},
};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn listen(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>, at: SocketAddr) -> Result<Endpoint> {
    let config = ServerConfig::with_single_cert(chain, key, &[b"echo"])?;
    Ok(Endpoint::server(config, at)?)
}

async fn serve(server: Endpoint) -> Result<()> {
    let incoming = server.accept().await.ok_or("the endpoint was closed")?;
    let connection = incoming.await?;
    while let Ok((mut send, mut recv)) = connection.accept_bi().await {
        let question = recv.read_to_end(64 * 1024).await?;
        send.write_all(&question).await?;
        send.finish()?;
    }
    Ok(())
}

async fn ask(server: SocketAddr, root: CertificateDer<'static>, question: &[u8]) -> Result<Vec<u8>> {
    let client = Endpoint::client("[::]:0".parse()?)?;
    client.set_default_client_config(ClientConfig::with_root_certificates([root], &[b"echo"])?);
    let connection = client.connect(server, "localhost")?.await?;
    let (mut send, mut recv) = connection.open_bi().await?;
    send.write_all(question).await?;
    send.finish()?;
    let answer = recv.read_to_end(64 * 1024).await?;
    connection.close(0, b"done");
    client.wait_idle().await;
    Ok(answer)
}

/// Asks a server on loopback that signs its own certificate; returns the answer.
pub async fn run() -> Result<Vec<u8>> {
    let issued = rcgen::generate_simple_self_signed(vec!["localhost".into()])?;
    let certificate = issued.cert.der().clone();
    let key = PrivateKeyDer::try_from(issued.signing_key.serialize_der())?;
    let server = listen(vec![certificate.clone()], key, "[::1]:0".parse()?)?;
    let address = server.local_addr()?;
    let serving = tokio::spawn(serve(server));
    let answer = ask(address, certificate, b"down the valley").await?;
    serving.await??;
    Ok(answer)
}

#[allow(dead_code)] // a test runs `run` instead
#[tokio::main]
async fn main() -> Result<()> {
    println!("{}", String::from_utf8_lossy(&run().await?));
    Ok(())
}
