//! A file server and a file client: HTTP/3 over QUIC, and HTTPS over TCP (HTTP/2, HTTP/1.1) beside it.
//!
//! * Server: a [`Site`](site::Site) turns requests into answers; [`Server`](server::Server) puts it on the wire.
//! * Client: a [`Fetcher`](client::Fetcher) gets and puts files, resumes, falls back to TCP when UDP is blocked.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod calendar;
pub mod certificate;
pub mod client;
pub mod content;
pub mod log;
pub mod server;
pub mod site;
