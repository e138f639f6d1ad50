//! The certificate authorities of the platform, and the default client configuration made of them.

use std::sync::{Mutex, PoisonError};

use crate::config::ClientConfig;

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

/// What [`Endpoint::connect`](crate::Endpoint::connect) uses.
#[derive(Debug, Default)]
pub(crate) struct DefaultClient {
    config: Mutex<Option<ClientConfig>>,
    /// Nobody has to set one: the platform's roots are trusted.
    is_native: bool,
    /// Held by the thread that reads them.
    loading: Mutex<()>,
}

impl DefaultClient {
    pub(crate) fn new(config: Option<ClientConfig>, is_native: bool) -> Self {
        Self {
            config: Mutex::new(config),
            is_native: is_native && cfg!(feature = "native-roots"),
            loading: Mutex::new(()),
        }
    }

    /// Whether [`load`](Self::load) can help out.
    pub(crate) fn is_native(&self) -> bool {
        self.is_native
    }

    pub(crate) fn set(&self, config: ClientConfig) {
        *self.config.lock().unwrap_or_else(PoisonError::into_inner) = Some(config);
    }

    pub(crate) fn get(&self) -> Option<ClientConfig> {
        self.config.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The configuration that was set meanwhile, or one that trusts the platform. Blocks; a failure is not remembered.
    pub(crate) fn load(&self) -> Result<ClientConfig, String> {
        let _one_at_a_time = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(config) = self.get() {
            return Ok(config);
        }
        let config = native_config()?;
        let mut known = self.config.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(known.get_or_insert(config).clone())
    }
}

#[cfg(feature = "native-roots")]
fn native_config() -> Result<ClientConfig, String> {
    ClientConfig::with_native_roots(&[]).map_err(|error| error.to_string())
}

#[cfg(not(feature = "native-roots"))]
fn native_config() -> Result<ClientConfig, String> {
    Err(NoNativeRoots { why: None }.to_string())
}
