//! 0-RTT: whether it was offered, and what became of it (RFC 9001 section 4.6).

use crate::transport_parameters::TransportParameters;

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Early {
    /// Client: 0-RTT keys existed. Their verdict is in `accepted`.
    pub offered: bool,
    pub accepted: Option<bool>,
    /// Client: the server's parameters that bound our 0-RTT data.
    pub remembered: Option<TransportParameters>,
}
