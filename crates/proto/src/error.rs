//! Errors of a connection: the codes of RFC 9000 section 20, violations by the peer, and the reasons for which a
//! connection ended.

use std::borrow::Cow;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use thalweg_units::human_duration;

use crate::crypto::StartError;

/// A transport error code (RFC 9000 section 20.1): the code of a CONNECTION_CLOSE frame of type 0x1c.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransportErrorCode(pub u64);

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $value:literal;)*) => {
        impl TransportErrorCode {
            $($(#[$doc])* pub const $name: TransportErrorCode = TransportErrorCode($value);)*

            /// The name that its specification gives the code; `None` for codes without one, CRYPTO_ERROR included.
            pub fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

codes! {
    /// The connection is closed without an error.
    NO_ERROR = 0x00;
    /// Something went wrong here, not at the peer.
    INTERNAL_ERROR = 0x01;
    /// The server does not accept the connection.
    CONNECTION_REFUSED = 0x02;
    /// More data arrived than was permitted.
    FLOW_CONTROL_ERROR = 0x03;
    /// A stream beyond the permitted number was used.
    STREAM_LIMIT_ERROR = 0x04;
    /// A frame arrived for a stream in a state that forbids it.
    STREAM_STATE_ERROR = 0x05;
    /// The final size of a stream changed, or data went past it.
    FINAL_SIZE_ERROR = 0x06;
    /// A frame was badly formatted.
    FRAME_ENCODING_ERROR = 0x07;
    /// Transport parameters were badly formatted, missing, forbidden or out of range.
    TRANSPORT_PARAMETER_ERROR = 0x08;
    /// The peer issued more connection IDs than permitted.
    CONNECTION_ID_LIMIT_ERROR = 0x09;
    /// A rule of the protocol without a code of its own was broken.
    PROTOCOL_VIOLATION = 0x0a;
    /// A client's Initial carried an invalid Retry token.
    INVALID_TOKEN = 0x0b;
    /// The application asked for the close during the handshake (RFC 9000 section 10.2.3).
    APPLICATION_ERROR = 0x0c;
    /// More CRYPTO data arrived out of order than can be buffered.
    CRYPTO_BUFFER_EXCEEDED = 0x0d;
    /// A key update broke the rules of RFC 9001 section 6.
    KEY_UPDATE_ERROR = 0x0e;
    /// The AEAD's confidentiality or integrity limit is reached (RFC 9001 section 6.6).
    AEAD_LIMIT_REACHED = 0x0f;
    /// There is no path left that could carry the connection.
    NO_VIABLE_PATH = 0x10;
    /// Version negotiation was tampered with or broke its rules (RFC 9368 section 10.2).
    VERSION_NEGOTIATION_ERROR = 0x11;
    /// A path is abandoned because the application wants it (draft-ietf-quic-multipath-21 section 4.2.1).
    APPLICATION_ABANDON_PATH = 0x3e;
    /// A path is abandoned because there are not enough resources for it (section 4.2.1 of the same).
    PATH_RESOURCE_LIMIT_REACHED = 0x3e75;
    /// A path is abandoned because it is unstable or poor (section 4.2.1 of the same).
    PATH_UNSTABLE_OR_POOR = 0x3e76;
    /// A path is abandoned for want of a connection ID (section 4.2.1 of the same).
    NO_CID_AVAILABLE_FOR_PATH = 0x3e77;
}

impl TransportErrorCode {
    /// CRYPTO_ERROR: the TLS alert `alert` as a transport error, 0x0100 + alert (RFC 9001 section 4.8).
    pub const fn crypto(alert: u8) -> TransportErrorCode {
        TransportErrorCode(0x100 | alert as u64)
    }

    /// The TLS alert, if this is a CRYPTO_ERROR.
    pub fn tls_alert(self) -> Option<u8> {
        (self.0 & !0xff == 0x100).then_some((self.0 & 0xff) as u8)
    }
}

impl fmt::Display for TransportErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.name(), self.tls_alert()) {
            (Some(name), _) => f.write_str(name),
            (None, Some(alert)) => {
                write!(f, "CRYPTO_ERROR (TLS alert {alert}{})", alert_name(alert))
            }
            (None, None) => write!(f, "unknown error {:#x}", self.0),
        }
    }
}

impl fmt::Debug for TransportErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The alerts an operator meets, by the names of RFC 8446 section 6.
pub(crate) fn alert_name(alert: u8) -> &'static str {
    match alert {
        10 => ", unexpected_message",
        40 => ", handshake_failure",
        42 => ", bad_certificate",
        43 => ", unsupported_certificate",
        44 => ", certificate_revoked",
        45 => ", certificate_expired",
        46 => ", certificate_unknown",
        47 => ", illegal_parameter",
        48 => ", unknown_ca",
        50 => ", decode_error",
        51 => ", decrypt_error",
        70 => ", protocol_version",
        71 => ", insufficient_security",
        80 => ", internal_error",
        109 => ", missing_extension",
        112 => ", unrecognized_name",
        116 => ", certificate_required",
        120 => ", no_application_protocol",
        _ => "",
    }
}

/// An error that ends the connection with a CONNECTION_CLOSE frame of type 0x1c.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {reason}{}", in_frame(*.frame))]
pub struct TransportError {
    /// What goes on the wire as the error code.
    pub code: TransportErrorCode,
    /// The type of the frame that triggered the error; `None` if none did or it is unknown.
    pub frame: Option<u64>,
    /// A reason phrase for humans, sent to the peer.
    pub reason: Cow<'static, str>,
}

fn in_frame(frame: Option<u64>) -> String {
    frame.map_or_else(String::new, |ty| format!(" (frame type {ty:#x})"))
}

macro_rules! constructors {
    ($($name:ident => $code:ident;)*) => {
        impl TransportError {
            $(
                #[doc = concat!("An error with code ", stringify!($code), ".")]
                pub fn $name(reason: impl Into<Cow<'static, str>>) -> TransportError {
                    TransportError::new(TransportErrorCode::$code, reason)
                }
            )*
        }
    };
}

constructors! {
    no_error => NO_ERROR;
    internal => INTERNAL_ERROR;
    connection_refused => CONNECTION_REFUSED;
    flow_control => FLOW_CONTROL_ERROR;
    stream_limit => STREAM_LIMIT_ERROR;
    stream_state => STREAM_STATE_ERROR;
    final_size => FINAL_SIZE_ERROR;
    frame_encoding => FRAME_ENCODING_ERROR;
    transport_parameter => TRANSPORT_PARAMETER_ERROR;
    connection_id_limit => CONNECTION_ID_LIMIT_ERROR;
    protocol_violation => PROTOCOL_VIOLATION;
    invalid_token => INVALID_TOKEN;
    application => APPLICATION_ERROR;
    crypto_buffer_exceeded => CRYPTO_BUFFER_EXCEEDED;
    key_update => KEY_UPDATE_ERROR;
    aead_limit => AEAD_LIMIT_REACHED;
    no_viable_path => NO_VIABLE_PATH;
    version_negotiation => VERSION_NEGOTIATION_ERROR;
}

impl TransportError {
    /// An error with any code and no frame type.
    pub fn new(code: TransportErrorCode, reason: impl Into<Cow<'static, str>>) -> TransportError {
        TransportError { code, frame: None, reason: reason.into() }
    }

    /// A CRYPTO_ERROR carrying a TLS alert.
    pub fn crypto(alert: u8, reason: impl Into<Cow<'static, str>>) -> TransportError {
        TransportError::new(TransportErrorCode::crypto(alert), reason)
    }

    /// The same error, blamed on a frame of type `ty` unless a frame is named already.
    pub fn in_frame(mut self, ty: u64) -> TransportError {
        self.frame.get_or_insert(ty);
        self
    }
}

/// Why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// The server offered no QUIC version that we speak.
    #[error(
        "the peer speaks none of our QUIC versions (1 and 2): connect to another server or upgrade one of the two ends"
    )]
    VersionMismatch,
    /// We found the peer, or ourselves, at fault and closed.
    #[error("closed by this end: {0}")]
    Transport(#[from] TransportError),
    /// The peer's transport closed the connection.
    #[error("closed by the peer's transport: {code}{}{}", in_frame(*.frame), quoted(.reason))]
    PeerTransport {
        /// The code the peer sent.
        code: TransportErrorCode,
        /// The type of the frame the peer objects to, if it named one.
        frame: Option<u64>,
        /// The peer's reason phrase; not necessarily UTF-8.
        reason: Bytes,
    },
    /// The peer's application closed the connection.
    #[error("closed by the peer's application with code {code}{}", quoted(.reason))]
    PeerApplication {
        /// The application's code.
        code: u64,
        /// The application's reason phrase; not necessarily UTF-8.
        reason: Bytes,
    },
    /// The peer lost its state and sent a stateless reset (RFC 9000 section 10.3): it restarted or forgot us.
    #[error("the peer has lost the state of this connection (stateless reset): connect again")]
    Reset,
    /// Nothing arrived from the peer for the idle timeout.
    #[error(
        "timed out: nothing received from the peer for the idle timeout; check the path, or set a keep-alive below it"
    )]
    TimedOut,
    /// The server sent nothing valid since the connection began, for the connect timeout.
    #[error(
        "no answer from the server within the connect timeout of {}; check its address and port, and that UDP gets through",
        human_duration(*.after)
    )]
    ConnectTimedOut {
        /// The connect timeout.
        after: Duration,
    },
    /// The application at this end closed the connection.
    #[error("closed by this end's application")]
    LocallyClosed,
    /// The handshake could not be started or completed, for a reason that is not the wire's.
    #[error("the handshake failed: {0}")]
    HandshakeFailed(Cow<'static, str>),
    /// Nothing was sent: the connection could not even be started.
    #[error(transparent)]
    NotStarted(ConnectError),
    /// The endpoint ran out of connection IDs or was closed under the connection.
    #[error("the endpoint is closing or out of connection IDs: open a new endpoint")]
    EndpointClosed,
}

/// Why a connection could not even be started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// TLS could not be started with this name, version or configuration.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The remote address cannot be sent to.
    #[error("{0} cannot be connected to: give an address with a port other than 0")]
    InvalidRemoteAddress(SocketAddr),
    /// The endpoint's socket is of IPv4 and the remote address of IPv6.
    #[error(
        "{0} is an IPv6 address and the endpoint's socket is IPv4: bind the endpoint to an IPv6 address such as [::]:0"
    )]
    AddressFamily(SocketAddr),
    /// TLS failed before anything was sent.
    #[error("the TLS configuration does not allow a QUIC connection: {0}")]
    Tls(TransportError),
    /// The endpoint's connection limit is reached.
    #[error("the endpoint already holds its maximum of {0} connections")]
    TooManyConnections(usize),
    /// The endpoint was closed.
    #[error("the endpoint is closed")]
    EndpointClosed,
    /// A connection was to begin anew with another configuration, but has handled a datagram before.
    #[error("the connection has begun: its configuration can be chosen until the first datagram is handled")]
    AlreadyBegun,
    /// The endpoint has no configuration for connecting.
    #[error(
        "no client configuration, and so no application protocol (ALPN): make one, such as ClientConfig::with_native_roots(&[b\"h3\"]), for Endpoint::connect_with, Endpoint::set_default_client_config or EndpointBuilder::client"
    )]
    NoClientConfig,
}

fn quoted(reason: &Bytes) -> String {
    if reason.is_empty() { String::new() } else { format!(": {:?}", String::from_utf8_lossy(reason)) }
}

impl From<ConnectionError> for std::io::Error {
    fn from(error: ConnectionError) -> std::io::Error {
        use std::io::ErrorKind;
        let kind = match error {
            ConnectionError::TimedOut | ConnectionError::ConnectTimedOut { .. } => ErrorKind::TimedOut,
            ConnectionError::Reset => ErrorKind::ConnectionReset,
            ConnectionError::PeerApplication { .. } | ConnectionError::PeerTransport { .. } => {
                ErrorKind::ConnectionAborted
            }
            ConnectionError::LocallyClosed | ConnectionError::EndpointClosed => ErrorKind::NotConnected,
            ConnectionError::VersionMismatch
            | ConnectionError::Transport(_)
            | ConnectionError::HandshakeFailed(_)
            | ConnectionError::NotStarted(_) => ErrorKind::Other,
        };
        std::io::Error::new(kind, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_print_by_the_names_of_the_rfc() {
        assert_eq!(TransportErrorCode::FRAME_ENCODING_ERROR.to_string(), "FRAME_ENCODING_ERROR");
        assert_eq!(TransportErrorCode(0x11), TransportErrorCode::VERSION_NEGOTIATION_ERROR);
        assert_eq!(
            TransportErrorCode::crypto(120).to_string(),
            "CRYPTO_ERROR (TLS alert 120, no_application_protocol)"
        );
        assert_eq!(TransportErrorCode(0x4242).to_string(), "unknown error 0x4242");
    }

    #[test]
    fn a_tls_alert_is_carried_in_the_low_byte_of_a_crypto_error() {
        assert_eq!(TransportErrorCode::crypto(40).0, 0x128);
        assert_eq!(TransportErrorCode(0x1ff).tls_alert(), Some(255));
        assert_eq!(TransportErrorCode(0x200).tls_alert(), None);
        assert_eq!(TransportErrorCode(0x0a).tls_alert(), None);
    }

    #[test]
    fn messages_name_the_frame_and_the_reason() {
        let error = TransportError::protocol_violation("a client sent HANDSHAKE_DONE").in_frame(0x1e).in_frame(0x02);
        assert_eq!(error.to_string(), "PROTOCOL_VIOLATION: a client sent HANDSHAKE_DONE (frame type 0x1e)");
        let error = ConnectionError::PeerApplication { code: 7, reason: Bytes::from_static(b"bye") };
        assert_eq!(error.to_string(), "closed by the peer's application with code 7: \"bye\"");
    }
}
