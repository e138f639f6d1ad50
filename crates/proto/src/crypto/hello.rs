//! A look into a ClientHello before TLS has seen it: the transport parameters, by which a server chooses the version.
//!
//! A server that may answer in another, compatible version (RFC 9368 section 2.3) must know the client's
//! `version_information` before it starts its session, because the session's own transport parameters name the version
//! chosen.

/// The extension type of QUIC transport parameters (RFC 9001 section 8.2).
const QUIC_TRANSPORT_PARAMETERS: u16 = 0x39;

/// The handshake type of a ClientHello (RFC 8446 section 4).
const CLIENT_HELLO: u8 = 1;

/// What the first CRYPTO bytes of a client say so far.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Hello<'a> {
    /// More bytes are needed.
    Incomplete,
    /// A whole ClientHello with these encoded transport parameters.
    Parameters(&'a [u8]),
    /// No ClientHello, a malformed one, or one without transport parameters. Give it to a session all the same: TLS
    /// knows the right alert.
    Unusable,
}

/// Looks for the transport parameters in the CRYPTO bytes of a client from offset 0 on.
pub fn transport_parameters(crypto: &[u8]) -> Hello<'_> {
    let Some((&kind, rest)) = crypto.split_first() else {
        return Hello::Incomplete;
    };
    if kind != CLIENT_HELLO {
        return Hello::Unusable;
    }
    let mut rest = Bytes(rest);
    match rest.vector(3) {
        None => Hello::Incomplete,
        Some(body) => match find(Bytes(body)) {
            Some(parameters) => Hello::Parameters(parameters),
            None => Hello::Unusable,
        },
    }
}

/// RFC 8446 section 4.1.2.
fn find(mut body: Bytes<'_>) -> Option<&[u8]> {
    body.take(2 + 32)?; // legacy_version, random
    body.vector(1)?; // legacy_session_id
    body.vector(2)?; // cipher_suites
    body.vector(1)?; // legacy_compression_methods
    let mut extensions = Bytes(body.vector(2)?);
    while !extensions.0.is_empty() {
        let kind = extensions.number(2)?;
        let content = extensions.vector(2)?;
        if kind == usize::from(QUIC_TRANSPORT_PARAMETERS) {
            return Some(content);
        }
    }
    None
}

struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    /// A big-endian number of `len` bytes, at most 3.
    fn number(&mut self, len: usize) -> Option<usize> {
        let bytes = self.take(len)?;
        Some(bytes.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    }

    /// A vector after its length, which is a number of `len` bytes.
    fn vector(&mut self, len: usize) -> Option<&'a [u8]> {
        let len = self.number(len)?;
        self.take(len)
    }
}

#[cfg(test)]
mod tests {
    use super::super::ClientCrypto;
    use super::super::deterministic::DeterministicClient;
    use super::super::testing::date;
    use super::*;
    use crate::version::Version;
    use proptest::prelude::*;

    fn hello() -> Vec<u8> {
        let client = DeterministicClient::new([0; 32], &[b"h3"], date()).unwrap();
        let mut bytes = Vec::new();
        let mut session = client.start(Version::V1, "localhost", b"the parameters").unwrap();
        session.write_handshake(&mut bytes);
        bytes
    }

    #[test]
    fn the_parameters_are_found_once_the_message_is_whole() {
        let bytes = hello();
        for len in 0..bytes.len() {
            assert_eq!(transport_parameters(&bytes[..len]), Hello::Incomplete);
        }
        assert_eq!(transport_parameters(&bytes), Hello::Parameters(b"the parameters"));
        let more = [&bytes[..], b"more"].concat();
        assert_eq!(transport_parameters(&more), Hello::Parameters(b"the parameters"));
    }

    #[test]
    fn anything_else_is_unusable() {
        assert_eq!(transport_parameters(&[2]), Hello::Unusable);
        assert_eq!(transport_parameters(&[1, 0, 0, 0]), Hello::Unusable);
        let mut bytes = hello();
        let at = bytes.windows(4).position(|four| four == [0, 0x39, 0, 14]).unwrap();
        bytes[at] = 0x7f;
        assert_eq!(transport_parameters(&bytes), Hello::Unusable);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200), whole: bool) {
            if whole && bytes.len() >= 4 {
                let len = bytes.len() - 4;
                bytes[..4].copy_from_slice(&[1, 0, 0, len as u8]);
            }
            transport_parameters(&bytes);
        }

        #[test]
        fn no_damage_makes_it_panic(at in 0usize..300, with: u8) {
            let mut bytes = hello();
            let at = at % bytes.len();
            bytes[at] = with;
            transport_parameters(&bytes);
        }
    }
}
