//! An HTTP/3 server that answers by an axum `Router`. It signs a certificate for localhost and prints it:
//!
//! ```sh
//! cargo run -p thalweg-h3 --example axum_server > localhost.pem
//! SSL_CERT_FILE=localhost.pem cargo run -p thalweg-h3 --example client -- https://localhost:4433/
//! ```

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    task::{Context, Poll, ready},
};

use axum::{
    Router,
    body::{Body, Bytes, HttpBody},
    routing::{get, post},
};
use bytes::Buf;
use http::Response;
use http_body::Frame;
use thalweg::{Endpoint, Incoming, ServerConfig, pki_types::PrivatePkcs8KeyDer};
use thalweg_h3::{
    RecvStream,
    h3::{
        error::{Code, StreamError},
        server::{Connection, RequestResolver, RequestStream},
    },
};
use tower_service::Service;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// What is served: nothing in it knows of HTTP/3.
pub fn app() -> Router {
    Router::new()
        .route("/", get(|| async { "down the valley\n" }))
        // The request's body is the response's: both move at the same time.
        .route("/echo", post(|body: Body| async { body }))
}

/// Answers every request by `app`, until the endpoint is closed.
pub async fn serve(endpoint: Endpoint, app: Router) {
    while let Some(incoming) = endpoint.accept().await {
        let app = app.clone();
        tokio::spawn(async move {
            if let Err(error) = connection(incoming, app).await {
                eprintln!("connection lost: {error}");
            }
        });
    }
}

async fn connection(incoming: Incoming, app: Router) -> Result<()> {
    let mut connection = Connection::new(thalweg_h3::Connection::new(incoming.await?)).await?;
    // `None` once the client closes the connection.
    while let Some(resolver) = connection.accept().await? {
        let app = app.clone();
        tokio::spawn(async move {
            if let Err(error) = exchange(resolver, app).await {
                eprintln!("request failed: {error}");
            }
        });
    }
    Ok(())
}

/// One request and its response.
async fn exchange(resolver: RequestResolver<thalweg_h3::Connection, Bytes>, mut app: Router) -> Result<()> {
    let (request, stream) = resolver.resolve_request().await?;
    let (mut send, receive) = stream.split();
    let request = request.map(|()| Body::new(RequestBody { stream: receive, is_over: false }));
    let (head, body) = app.call(request).await?.into_parts();
    send.send_response(Response::from_parts(head, ())).await?;
    let mut body = pin!(body);
    while let Some(frame) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
        let Ok(frame) = frame else {
            // Otherwise the client would take what it has for all there is.
            send.stop_stream(Code::H3_INTERNAL_ERROR);
            break;
        };
        match frame.into_data() {
            Ok(data) => send.send_data(data).await?,
            Err(frame) => {
                if let Ok(trailers) = frame.into_trailers() {
                    send.send_trailers(trailers).await?;
                }
            }
        }
    }
    // Ready when the client has acknowledged all of it.
    Ok(send.finish().await?)
}

/// The body of a request as axum reads it. Flow control holds the client back while nobody does.
struct RequestBody {
    stream: RequestStream<RecvStream, Bytes>,
    is_over: bool,
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = StreamError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, StreamError>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        if let Some(mut data) = ready!(self.stream.poll_recv_data(cx))? {
            return Poll::Ready(Some(Ok(Frame::data(data.copy_to_bytes(data.remaining())))));
        }
        let trailers = ready!(self.stream.poll_recv_trailers(cx))?;
        self.is_over = true;
        Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers))))
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if !self.is_over {
            // The handler does not need the rest; its response counts all the same (RFC 9114 section 4.1).
            self.stream.stop_sending(Code::H3_NO_ERROR);
        }
    }
}

#[allow(dead_code)] // a test runs `serve` instead
#[tokio::main]
async fn main() -> Result<()> {
    let issued = rcgen::generate_simple_self_signed(vec!["localhost".into()])?;
    let key = PrivatePkcs8KeyDer::from(issued.signing_key.serialize_der());
    let config = ServerConfig::with_single_cert(vec![issued.cert.der().clone()], key.into(), &[b"h3"])?;
    let endpoint = Endpoint::server(config, "127.0.0.1:4433".parse()?)?;
    print!("{}", issued.cert.pem());
    eprintln!("https://localhost:{}/", endpoint.local_addr()?.port());
    serve(endpoint, app()).await;
    Ok(())
}
