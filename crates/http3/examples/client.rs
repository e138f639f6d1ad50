//! An HTTP/3 client: `cargo run -p thalweg-h3 --example client -- https://localhost:4433/`.
//!
//! It trusts the certificates of the platform; `SSL_CERT_FILE` names others.

use std::{future::poll_fn, net::SocketAddr};

use bytes::{BufMut, Bytes};
use http::{Request, Response, Uri};
use thalweg::{ClientConfig, Endpoint};
use thalweg_h3::{
    Connection,
    h3::{self, error::Code},
};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Sends one request with its body to `server`, whose certificate is for `name`; returns the response and its body.
pub async fn fetch(
    config: &ClientConfig,
    server: SocketAddr,
    name: &str,
    request: Request<()>,
    body: Bytes,
) -> Result<(Response<()>, Vec<u8>)> {
    let any: SocketAddr = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }.parse()?;
    let endpoint = Endpoint::client(any)?;
    let connection = endpoint.connect_with(config, server, name)?.await?;
    let (mut driver, mut sender) = h3::client::new(Connection::new(connection.clone())).await?;
    // What the server says beside the responses is read here.
    let driving = tokio::spawn(async move { poll_fn(|cx| driver.poll_close(cx)).await });

    let (mut send, mut receive) = sender.send_request(request).await?.split();
    let sending = async {
        if !body.is_empty() {
            send.send_data(body).await?;
        }
        send.finish().await
    };
    let receiving = async {
        let response = receive.recv_response().await?;
        let mut content = Vec::new();
        while let Some(data) = receive.recv_data().await? {
            content.put(data);
        }
        Ok::<_, h3::error::StreamError>((response, content))
    };
    // A server may answer without reading all of the body, so that sending fails and the response counts.
    let (_, received) = tokio::join!(sending, receiving);

    connection.close(Code::H3_NO_ERROR.value(), b"");
    driving.await?;
    endpoint.wait_idle().await; // gives the server time to receive the close
    Ok(received?)
}

#[allow(dead_code)] // a test runs `fetch` instead
#[tokio::main]
async fn main() -> Result<()> {
    let url: Uri = std::env::args().nth(1).ok_or("usage: client https://HOST[:PORT]/PATH")?.parse()?;
    let host = url.host().ok_or("the URL names no host")?;
    let port = url.port_u16().unwrap_or(443);
    let server = tokio::net::lookup_host((host, port)).await?.next().ok_or("the host has no address")?;
    let config = ClientConfig::with_native_roots(&[b"h3"])?;
    let request = Request::get(url.clone()).body(())?;
    let (response, content) = fetch(&config, server, host, request, Bytes::new()).await?;
    eprintln!("{:?} {}", response.version(), response.status());
    print!("{}", String::from_utf8_lossy(&content));
    Ok(())
}
