//! TLS errors in words for people: rustls prints the names of its enums, such as `UnknownIssuer` or `DnsName("a")`.

use std::net::IpAddr;

use rustls::{CertificateError, Error};

use crate::error::alert_name;

/// Says what went wrong in TLS: names the cause, and what would be accepted where that is known. Without capital letter
/// and full stop.
pub fn tls_error_words(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(cause) => certificate_error_words(cause),
        Error::NoApplicationProtocol => "no application protocol in common (ALPN)".into(),
        Error::PeerIncompatible(_) => {
            "TLS: nothing in common: no TLS version, cipher suite, key exchange or signature algorithm is known to both"
                .into()
        }
        Error::PeerMisbehaved(_) => "TLS: the peer broke a rule of the handshake".into(),
        Error::InappropriateMessage { .. } | Error::InappropriateHandshakeMessage { .. } => {
            "TLS: the peer sent a message that does not belong there".into()
        }
        Error::InvalidMessage(_) => "TLS: the peer sent something that is not TLS".into(),
        Error::AlertReceived(alert) => {
            let alert = u8::from(*alert);
            format!("TLS: the peer gave up with alert {alert}{}", alert_name(alert))
        }
        Error::InvalidCertRevocationList(_) => "the certificate revocation list cannot be used".into(),
        Error::InvalidEncryptedClientHello(_) => "TLS: Encrypted ClientHello failed".into(),
        Error::InconsistentKeys(_) => "the key does not belong to the certificate".into(),
        Error::General(why) => format!("TLS: {why}"),
        Error::NoCertificatesPresented
        | Error::UnsupportedNameType
        | Error::DecryptError
        | Error::EncryptError
        | Error::PeerSentOversizedRecord
        | Error::HandshakeNotComplete
        | Error::FailedToGetCurrentTime
        | Error::FailedToGetRandomBytes
        | Error::BadMaxFragmentSize
        | Error::Other(_) => format!("TLS: {error}"),
        _ => "TLS: it failed for an unknown reason".into(),
    }
}

/// Says why a certificate was refused.
pub fn certificate_error_words(error: &CertificateError) -> String {
    let words = match error {
        CertificateError::UnknownIssuer => "certificate not signed by a trusted authority (unknown issuer)",
        CertificateError::BadEncoding => "certificate is not well formed",
        CertificateError::Expired => "certificate expired",
        CertificateError::NotValidYet => "certificate not valid yet (is the clock right?)",
        CertificateError::NotValidYetContext { .. } => return format!("{error} (is the clock right?)"),
        CertificateError::ExpiredContext { .. }
        | CertificateError::ExpiredRevocationListContext { .. }
        | CertificateError::InvalidPurposeContext { .. } => return error.to_string(),
        CertificateError::Revoked => "certificate was revoked",
        CertificateError::UnhandledCriticalExtension => "certificate has a critical extension that is not known here",
        CertificateError::UnknownRevocationStatus => "nothing is known about a revocation of the certificate",
        CertificateError::ExpiredRevocationList => "certificate revocation list expired",
        CertificateError::BadSignature => "certificate's signature is wrong",
        CertificateError::NotValidForName => "certificate is for another name",
        CertificateError::NotValidForNameContext { expected, presented } => {
            let names = presented_names(presented);
            let names = if names.is_empty() { "no name at all".into() } else { names.join(", ") };
            return format!("certificate not valid for {}; it is for {names}", expected.to_str());
        }
        CertificateError::InvalidPurpose => "certificate is for another purpose",
        CertificateError::InvalidOcspResponse => "OCSP response that came with the certificate is not valid",
        CertificateError::ApplicationVerificationFailure => "certificate was refused by the application",
        CertificateError::Other(other) => return format!("certificate cannot be used: {}", spaced(&other.to_string())),
        _ => "certificate uses an algorithm or a form that is not supported here",
    };
    words.into()
}

/// The name of an enum's variant in words, without what it carries: `CaUsedAsEndEntity` is `ca used as end entity`.
fn spaced(name: &str) -> String {
    let end = name.find(['(', '{']).unwrap_or(name.len());
    let mut words = String::new();
    for letter in name[..end].trim().chars() {
        if letter.is_ascii_uppercase() && words.chars().last().is_some_and(|last| last.is_ascii_lowercase()) {
            words.push(' ');
        }
        words.push(letter.to_ascii_lowercase());
    }
    words
}

/// The names in a certificate without the wrapping rustls gives them: `DnsName("a.b")` is `a.b`.
pub fn presented_names(presented: &[String]) -> Vec<String> {
    let bare = |name: &String| {
        let inner =
            name.split_once('(').and_then(|(_, rest)| rest.rsplit_once(')')).map_or(name.as_str(), |(inner, _)| inner);
        let bare = inner.trim_matches('"');
        bare.parse::<IpAddr>().map_or_else(|_| bare.to_owned(), |address| address.to_string())
    };
    presented.iter().map(bare).collect()
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::ServerName;
    use rustls::{AlertDescription, InconsistentKeys, InvalidMessage, OtherError, PeerIncompatible, PeerMisbehaved};
    use std::sync::Arc;

    use super::*;

    #[test]
    fn no_words_have_the_marks_of_debug_output() {
        let name = ServerName::try_from("a.example").unwrap();
        let presented = vec!["DnsName(\"b.example\")".to_owned(), "IpAddress(127.0.0.1)".to_owned()];
        let certificates = [
            CertificateError::UnknownIssuer,
            CertificateError::BadEncoding,
            CertificateError::Expired,
            CertificateError::Revoked,
            CertificateError::BadSignature,
            CertificateError::InvalidPurpose,
            CertificateError::UnhandledCriticalExtension,
            CertificateError::Other(OtherError(Arc::new(std::io::Error::other("CaUsedAsEndEntity(Inner { a: 1 })")))),
            CertificateError::NotValidForNameContext { expected: name.clone(), presented },
            CertificateError::NotValidForNameContext { expected: name, presented: Vec::new() },
        ];
        let errors = [
            Error::PeerIncompatible(PeerIncompatible::NoCipherSuitesInCommon),
            Error::PeerMisbehaved(PeerMisbehaved::IncorrectBinder),
            Error::InvalidMessage(InvalidMessage::InvalidContentType),
            Error::AlertReceived(AlertDescription::HandshakeFailure),
            Error::AlertReceived(AlertDescription::Unknown(250)),
            Error::InconsistentKeys(InconsistentKeys::KeyMismatch),
            Error::NoApplicationProtocol,
        ];
        for error in certificates.into_iter().map(Error::InvalidCertificate).chain(errors) {
            let words = tls_error_words(&error);
            let humps =
                words.as_bytes().windows(2).any(|two| two[0].is_ascii_lowercase() && two[1].is_ascii_uppercase());
            assert!(!humps && !words.contains(['{', '"']), "{words}");
        }
        assert_eq!(
            tls_error_words(&Error::AlertReceived(AlertDescription::HandshakeFailure)),
            "TLS: the peer gave up with alert 40, handshake_failure"
        );
    }

    #[test]
    fn names_in_a_certificate_are_bare() {
        let presented = ["DnsName(\"b.example\")", "IpAddress(0::1)", "c.example"].map(str::to_owned);
        assert_eq!(presented_names(&presented), ["b.example", "::1", "c.example"]);
    }
}
