//! A file server and a file client: HTTP/3 over QUIC, and HTTPS over TCP (HTTP/2, HTTP/1.1) beside it.
//!
//! * Server: a [`Site`](site::Site) turns requests into answers; [`Server`](server::Server) puts it on the wire.
//! * Client: a [`Fetcher`](client::Fetcher) gets and puts files, resumes, falls back to TCP when UDP is blocked.
//!
//! # A server
//!
//! ```no_run
//! use thalweg_files::certificate::{CertificateStore, Identity};
//! use thalweg_files::server::{Server, ServerOptions};
//! use thalweg_files::site::{Site, SiteOptions};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let identity = Identity::self_signed(&["files.example"])?;
//! println!("key: sha256/{}", identity.fingerprints()?.spki_sha256);
//! let certificate = CertificateStore::new(&identity)?;
//! let site = Site::new("/srv/files", SiteOptions::default())?;
//! let server = Server::bind(ServerOptions::new("[::]:4433".parse()?, site, certificate)).await?;
//! server.run(async { tokio::time::sleep(std::time::Duration::from_secs(3600)).await }).await;
//! # Ok(()) }
//! ```
//!
//! # A client
//!
//! ```no_run
//! use thalweg_files::client::{FetchOptions, Fetcher, Job, Trust};
//!
//! # async fn example() -> Result<(), thalweg_files::client::Error> {
//! let mut options = FetchOptions::default();
//! options.trust = Trust::key("sha256/tIE6n7ggygRGYHdmTkA33DuQfdTcODBGlP6Gg2+jSw4=")?;
//! options.resume = true;
//! let fetcher = Fetcher::new(options)?;
//! for result in fetcher.get(vec![Job::to_file("https://files.example:4433/a.bin", "a.bin")], None).await {
//!     let report = result?;
//!     println!("{} bytes over {} in {:?}", report.bytes, report.protocol, report.elapsed);
//! }
//! fetcher.close().await;
//! # Ok(()) }
//! ```
//!
//! # What is promised
//!
//! - A file under its own name is complete: downloads and uploads go through a temporary file that gets its name at the
//!   end. What a killed server leaves of an upload is neither served nor listed, and is removed by the next server at
//!   the latest.
//! - A file that changes while it is served is never shown as complete: the answer breaks off.
//! - A partial download is continued only if the server's strong entity tag is still the same, or, where it gave none,
//!   the modification date that was at least a minute old.
//! - Nothing outside the served directory is read or written, whatever the path is and wherever links lead; names
//!   that begin with a dot are not served.
//! - A server that stops finishes its answers first.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod account;
mod body;
mod calendar;
pub mod certificate;
pub mod client;
pub mod content;
pub mod log;
mod release;
pub mod server;
pub mod site;
mod source;
mod stamp;
