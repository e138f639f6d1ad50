//! An async QUIC transport on tokio whose loss recovery can be seen, swapped and proved.
//!
//! Thalweg speaks QUIC versions 1 and 2 (RFC 9000, RFC 9369). This crate puts sockets, time and tasks around the state
//! machines of `thalweg-proto` and `thalweg-recovery`, which also run in a deterministic simulator.
//!
//! An [`Endpoint`] is one or more UDP sockets; a [`Connection`] belongs to an endpoint and carries streams
//! ([`SendStream`], [`RecvStream`]) and unreliable datagrams. A complete client and server:
//!
//! ```
//! use thalweg::{ClientConfig, Endpoint, ServerConfig};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
//! # runtime.block_on(async {
//! // A certificate for the server; a real one comes from files.
//! let issued = rcgen::generate_simple_self_signed(vec!["localhost".into()])?;
//! let certificate = issued.cert.der().clone();
//! let key = rustls_pki_types::PrivateKeyDer::try_from(issued.signing_key.serialize_der())?;
//!
//! let config = ServerConfig::with_single_cert(vec![certificate.clone()], key, &[b"echo"])?;
//! let server = Endpoint::server(config, "[::1]:0".parse()?)?;
//! let address = server.local_addr()?;
//! let serving = tokio::spawn(async move {
//!     let connection = server.accept().await.expect("open").await?;
//!     let (mut send, mut recv) = connection.accept_bi().await?;
//!     while let Some(chunk) = recv.read_chunk(64 * 1024).await? {
//!         send.write_all(&chunk).await?;
//!     }
//!     send.finish()?;
//!     connection.closed().await; // the client has what it wanted when it closes
//!     Ok::<_, std::io::Error>(())
//! });
//!
//! let client = Endpoint::client("[::]:0".parse()?)?;
//! let config = ClientConfig::with_root_certificates([certificate], &[b"echo"])?;
//! let connection = client.connect_with(&config, address, "localhost")?.await?;
//! let (mut send, mut recv) = connection.open_bi().await?;
//! send.write_all(b"down the valley").await?;
//! send.finish()?;
//! assert_eq!(recv.read_to_end(1024).await?, b"down the valley");
//!
//! connection.close(0, b"done");
//! client.wait_idle().await; // gives the server time to receive the close
//! serving.await??;
//! # Ok(()) })
//! # }
//! ```
//!
//! # Cancel safety
//!
//! A future that is dropped before it was ready has had no effect, unless its documentation states otherwise (only
//! those that do several steps: `write_all`, `read_exact`, `read_to_end`). They can be used in `tokio::select!`.
//!
//! # What gets lost and what does not
//!
//! - Dropping a [`SendStream`] before [`finish`](SendStream::finish) resets it; after, its data is still delivered.
//! - Dropping the last handle of a connection closes it, after what was finished is delivered (at most three seconds).
//! - [`Connection::close`] closes at once. [`Connection::graceful_close`] waits for delivery first.
//! - Before a process ends, [`Endpoint::wait_idle`] gives peers time to receive the close of connections.
//!
//! # Own algorithms
//!
//! Loss recovery is chosen by name ([`Policies`]) or brought along: [`Congestion::Custom`] takes a
//! [`ControllerFactory`]; `examples/own_controller.rs` is one. [`TransportConfig::observer`] sees every packet and
//! decision.
//!
//! # Features
//!
//! - `native-roots` (default): [`Endpoint::client`] trusts the certificate authorities of the platform.
//! - `tracing`: a span per connection and events for its beginning and end, path changes and stream resets, for the
//!   `tracing` crate. Nothing per packet.
//!
//! # Speed
//!
//! Segmentation offload and coalesced receive are used where the system has them. Write with
//! [`SendStream::write_chunk`] and read with [`RecvStream::read_chunk`], 64 KiB or more at a time, to avoid copies.
//! A server runs one worker per core, each with a socket of its own on the same port; a connection stays with its
//! worker even when its client's address changes.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod alarm;
mod awaiting;
mod cell;
mod clock;
mod config;
mod connection;
mod driver;
mod early;
mod endpoint;
mod error;
mod events;
mod hold;
mod incoming;
mod interfaces;
mod paths;
mod receive;
mod recv_stream;
mod roots;
mod saved_paths;
mod send_stream;
mod shared;
mod socket;
mod stores;
mod timers;
mod trace;
mod wakers;
mod worker;

pub use rustls_pki_types as pki_types;
pub use thalweg_proto as proto;
pub use thalweg_proto::{
    AckPolicy, Side,
    cid::ConnectionId,
    crypto::rustls::{CertificateSlot, Ciphers, TlsOptions},
    observe::Limit,
    streams::{Budget, Dir, StreamId, StreamsConfig},
    version::Version,
};
pub use thalweg_recovery as recovery;
pub use thalweg_recovery::{Congestion, Controller, ControllerFactory, Policies, SwitchError};
pub use thalweg_units::{Instant, Rate};

#[cfg(feature = "native-roots")]
pub use crate::roots::native_roots;
pub use crate::{
    awaiting::AwaitedPeer,
    config::{
        ClientConfig, MemorySavedPathStore, MemoryTokenStore, RetryPolicy, SavedPathStore, ServerConfig, TokenStore,
        TransportConfig,
    },
    connection::{Connecting, Connection, ConnectionStats, Limits, ZeroRttAccepted},
    endpoint::{Endpoint, EndpointBuilder, EndpointStats},
    error::{
        AcceptError, ClosedStream, ConfigError, ConnectError, ConnectionError, ExportError, ReadError, ReadExactError,
        ReadToEndError, SendDatagramError, WriteError,
    },
    events::{PathEvent, PathEvents},
    incoming::{Incoming, IncomingFuture, RetryError},
    interfaces::{Interface, InterfaceChanges, InterfaceError},
    paths::{
        Candidate, ClosePathError, DataSpace, MultipathConfig, OpenPathError, Order, Path, PathReport, PathScheduler,
        PinError, SchedulerFactory, SchedulerPolicy, Waiting,
    },
    recv_stream::RecvStream,
    roots::NoNativeRoots,
    saved_paths::{SavedPaths, SavedPathsError},
    send_stream::SendStream,
    socket::Warning,
};
