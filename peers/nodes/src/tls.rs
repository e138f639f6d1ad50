//! TLS for stacks on rustls: as they ship it, with the lab's certificate and a fixed date.

use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::ring::default_provider;
use rustls::time_provider::TimeProvider;
use rustls::version::TLS13;
use rustls::{ClientConfig, Error, ServerConfig};
use rustls_pki_types::UnixTime;
use thalweg_proto::crypto::deterministic::{test_certificate, test_key, test_roots};

/// 2026-01-01, when every run takes place.
pub(crate) const DATE: Duration = Duration::from_secs(1_767_225_600);
/// What both ends speak.
pub(crate) const ALPN: &[u8] = b"thalweg-lab";
/// Whose certificate it is.
pub(crate) const SERVER_NAME: &str = "localhost";

#[derive(Debug)]
struct FixedDate;

impl TimeProvider for FixedDate {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(DATE))
    }
}

/// A client that trusts the lab's certificate.
pub(crate) fn client() -> Result<ClientConfig, Error> {
    let builder = ClientConfig::builder_with_details(Arc::new(default_provider()), Arc::new(FixedDate));
    let mut config =
        builder.with_protocol_versions(&[&TLS13])?.with_root_certificates(test_roots()).with_no_client_auth();
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(config)
}

/// A server that has it. Its signatures are of one length, which is all that randomness could change about them.
pub(crate) fn server() -> Result<ServerConfig, Error> {
    let builder = ServerConfig::builder_with_details(Arc::new(default_provider()), Arc::new(FixedDate));
    let builder = builder.with_protocol_versions(&[&TLS13])?.with_no_client_auth();
    let mut config = builder.with_single_cert(vec![test_certificate()], test_key())?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.max_early_data_size = u32::MAX;
    Ok(config)
}
