//! Handshakes without packets, for the tests of this module: CRYPTO bytes carried from one session to the other.

use ::rustls::pki_types::UnixTime;
use std::time::Duration;

use super::{ClientCrypto, DirectionKeys, KeyChange, Keys, ServerCrypto, Session};
use crate::error::TransportError;
use crate::version::Version;

/// Some day in 2027.
pub fn date() -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(1_800_000_000))
}

/// One end of a handshake and the keys it has come by.
pub struct End {
    pub session: Box<dyn Session>,
    pub early: Option<DirectionKeys>,
    pub handshake: Option<Keys>,
    pub one_rtt: Option<Keys>,
}

impl End {
    fn new(session: Box<dyn Session>) -> Self {
        Self { session, early: None, handshake: None, one_rtt: None }
    }
}

/// Both ends of a handshake, and every byte that was exchanged.
pub struct Pair {
    pub client: End,
    pub server: End,
    pub transcript: Vec<u8>,
}

impl Pair {
    pub fn start(client: &dyn ClientCrypto, server: &dyn ServerCrypto, version: Version, name: &str) -> Self {
        Self::start_in(client, server, version, version, name)
    }

    /// The client starts in one version, the server in another.
    pub fn start_in(
        client: &dyn ClientCrypto,
        server: &dyn ServerCrypto,
        first: Version,
        chosen: Version,
        name: &str,
    ) -> Self {
        let client = client.start(first, name, b"client parameters").unwrap();
        let server = server.start(chosen, b"server parameters").unwrap();
        Self { client: End::new(client), server: End::new(server), transcript: Vec::new() }
    }

    /// Carries bytes to and fro until both ends fall silent. An error comes with whether the client raised it.
    pub fn run(&mut self) -> Result<(), (bool, TransportError)> {
        self.client.early = self.client.session.early_keys();
        loop {
            let before = self.transcript.len();
            carry(&mut self.client, &mut self.server, &mut self.transcript).map_err(|error| (false, error))?;
            if let Some(keys) = self.server.session.early_keys() {
                self.server.early = Some(keys);
            }
            carry(&mut self.server, &mut self.client, &mut self.transcript).map_err(|error| (true, error))?;
            if self.transcript.len() == before {
                return Ok(());
            }
        }
    }
}

fn carry(from: &mut End, to: &mut End, transcript: &mut Vec<u8>) -> Result<(), TransportError> {
    loop {
        let mut bytes = Vec::new();
        let change = from.session.write_handshake(&mut bytes);
        if bytes.is_empty() && change.is_none() {
            return Ok(());
        }
        match change {
            Some(KeyChange::Handshake(keys)) => from.handshake = Some(keys),
            Some(KeyChange::OneRtt(keys)) => from.one_rtt = Some(keys),
            None => {}
        }
        transcript.extend_from_slice(&bytes);
        to.session.read_handshake(&bytes)?;
    }
}

/// A complete handshake with `localhost`.
pub fn handshake(client: &dyn ClientCrypto, server: &dyn ServerCrypto, version: Version) -> Pair {
    let mut pair = Pair::start(client, server, version, "localhost");
    pair.run().unwrap();
    assert!(!pair.client.session.is_handshaking() && !pair.server.session.is_handshaking());
    pair
}

/// Whether what one key seals the other opens to the same bytes; path and number vary.
pub fn fits(sealing: &dyn super::PacketKey, opening: &dyn super::PacketKey) -> bool {
    let opens = |path, number| {
        let mut packet = *b"payload of a packet ................";
        sealing.seal(path, number, b"header", &mut packet).unwrap();
        match opening.open(path, number, b"header", &mut packet) {
            Ok(len) => {
                assert_eq!(&packet[..len], b"payload of a packet ");
                true
            }
            Err(_) => false,
        }
    };
    let all = [opens(0, 0), opens(0, 7), opens(0, 1 << 40), opens(3, 7)];
    assert!(all.iter().all(|one| *one == all[0]));
    all[0]
}
