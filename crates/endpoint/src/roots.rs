//! The certificate authorities of the platform.

/// The platform offers no certificate authority that can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this system has no certificate authorities to trust{}", .why.as_deref().map(|why| format!(" ({why})")).unwrap_or_default())]
pub struct NoNativeRoots {
    /// What the system said, if anything.
    why: Option<String>,
}

/// The certificate authorities that the platform trusts. On Unix the environment variables `SSL_CERT_FILE` and
/// `SSL_CERT_DIR` name others.
///
/// Reads files, which takes milliseconds: call it where blocking does no harm.
///
/// # Errors
///
/// If there is none, or none that can be parsed.
#[cfg(feature = "native-roots")]
pub fn native_roots() -> Result<rustls::RootCertStore, NoNativeRoots> {
    let found = rustls_native_certs::load_native_certs();
    let mut store = rustls::RootCertStore::empty();
    store.add_parsable_certificates(found.certs);
    match store.is_empty() {
        false => Ok(store),
        true => Err(NoNativeRoots { why: found.errors.first().map(ToString::to_string) }),
    }
}
