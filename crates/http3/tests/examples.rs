//! The example of a client against that of a server.
#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use http::{Request, StatusCode};
use thalweg::{ClientConfig, Endpoint, ServerConfig, pki_types::PrivatePkcs8KeyDer};

#[path = "../examples/axum_server.rs"]
mod axum_server;
#[path = "../examples/client.rs"]
mod client;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_fetches_from_the_axum_server() {
    let issued = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let certificate = issued.cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(issued.signing_key.serialize_der());
    let config = ServerConfig::with_single_cert(vec![certificate.clone()], key.into(), &[b"h3"]).unwrap();
    let endpoint = Endpoint::server(config, "127.0.0.1:0".parse().unwrap()).unwrap();
    let address = endpoint.local_addr().unwrap();
    let serving = tokio::spawn(axum_server::serve(endpoint.clone(), axum_server::app()));
    let config = ClientConfig::with_root_certificates([certificate], &[b"h3"]).unwrap();
    let fetch = async |method: &str, path: &str, body: Bytes| {
        let request = Request::builder().method(method).uri(format!("https://localhost{path}")).body(()).unwrap();
        client::fetch(&config, address, "localhost", request, body).await.unwrap()
    };

    let (response, content) = fetch("GET", "/", Bytes::new()).await;
    assert_eq!((response.status(), &content[..]), (StatusCode::OK, &b"down the valley\n"[..]));
    assert_eq!(response.headers()["content-length"], "16");

    // More than the windows hold at first, in both directions at once.
    let body: Bytes = (0..20_000_000u32).map(|i| (i % 251) as u8).collect::<Vec<u8>>().into();
    let (response, content) = fetch("POST", "/echo", body.clone()).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert!(content == body, "{} bytes came back of {}", content.len(), body.len());

    // Answers to requests whose body nobody reads.
    for (method, path, status) in
        [("POST", "/", StatusCode::METHOD_NOT_ALLOWED), ("POST", "/nowhere", StatusCode::NOT_FOUND)]
    {
        let (response, _) = fetch(method, path, body.clone()).await;
        assert_eq!(response.status(), status, "{path}");
    }

    endpoint.close(0, b"");
    serving.await.unwrap();
}
