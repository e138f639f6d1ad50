//! Keys of every encryption level, and the key update of RFC 9001 section 6.

use std::time::Duration;

use thalweg_recovery::{DataSpace, SpaceId};
use thalweg_units::Instant;

use crate::{
    crypto::{DirectionKeys, HeaderKey, Keys, PacketKey, PacketKeys, Session},
    error::TransportError,
};

/// The packet keys of 1-RTT: one generation each of old, current and next.
struct OneRtt {
    local_header: Box<dyn HeaderKey>,
    remote_header: Box<dyn HeaderKey>,
    current: PacketKeys,
    next: Option<PacketKeys>,
    previous: Option<Previous>,
    phase: bool,
    /// Whether a packet of the current phase was acknowledged (RFC 9001 section 6.1).
    confirmed: bool,
    /// The packet numbers by which generations are told apart: those of the first space.
    first: Numbers,
    /// Those of further spaces.
    further: Vec<(DataSpace, Numbers)>,
    /// Packets sealed under the current keys.
    sealed: u64,
}

/// Packet numbers of one space.
#[derive(Copy, Clone, Debug, Default)]
struct Numbers {
    /// First packet number we sent under the current keys; an ACK at or beyond it permits another update.
    first_sent: Option<u64>,
    /// Lowest number received under the current keys.
    first_received: Option<u64>,
    /// Highest number received under the current keys or older ones.
    last_received: Option<u64>,
    /// Highest number received under older keys.
    last_before: Option<u64>,
}

impl Numbers {
    /// Other keys are in use from now on.
    fn rotate(&mut self) {
        (self.first_sent, self.first_received) = (None, None);
        self.last_before = self.last_received;
    }
}

impl OneRtt {
    /// The numbers of a space, which has received or sent something.
    #[inline]
    fn numbers(&mut self, space: SpaceId) -> &mut Numbers {
        match nonce_path(space) {
            0 => &mut self.first,
            further => self.numbers_of_further(DataSpace(further)),
        }
    }

    #[cold]
    fn numbers_of_further(&mut self, name: DataSpace) -> &mut Numbers {
        let known = self.further.iter().position(|(known, _)| *known == name);
        let index = known.unwrap_or_else(|| {
            self.further.push((name, Numbers::default()));
            self.further.len() - 1
        });
        &mut self.further[index].1
    }

    /// The same without taking note of a new space.
    fn numbers_of(&self, space: SpaceId) -> Numbers {
        match nonce_path(space) {
            0 => self.first,
            further => {
                let known = self.further.iter().find(|(known, _)| *known == DataSpace(further));
                known.map(|(_, numbers)| *numbers).unwrap_or_default()
            }
        }
    }
}

struct Previous {
    remote: Box<dyn PacketKey>,
    /// When they are dropped: three PTO after the update was acknowledged.
    until: Option<Instant>,
}

/// Every key a connection holds right now.
#[derive(Default)]
pub(crate) struct KeyStore {
    initial: Option<Keys>,
    /// Server: opens Initial packets of the version the client began with, if we answered in another (RFC 9369 section
    /// 4.1).
    first_version: Option<DirectionKeys>,
    handshake: Option<Keys>,
    early: Option<DirectionKeys>,
    /// When a server drops them.
    early_until: Option<Instant>,
    one_rtt: Option<OneRtt>,
    /// Packets that failed authentication, over the whole connection (RFC 9001 section 6.6).
    pub failed: u64,
    /// Key updates so far, ours and the peer's.
    pub updates: u64,
}

/// The path identifier in the nonces of a space's packets: that of the space, 0 where there is one space for all paths.
pub(crate) fn nonce_path(space: SpaceId) -> u32 {
    match space {
        SpaceId::Data(path) => path.0,
        SpaceId::Initial | SpaceId::Handshake => 0,
    }
}

/// What opening a 1-RTT packet showed about key generations; the number is the length of the plain text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    /// Current or previous keys: nothing to do.
    Known(usize),
    /// The peer has updated; the caller must call [`KeyStore::commit_remote_update`].
    Updated(usize),
}

impl KeyStore {
    pub fn install_initial(&mut self, keys: Keys) {
        self.initial = Some(keys);
    }

    pub fn install_first_version(&mut self, remote: DirectionKeys) {
        self.first_version = Some(remote);
    }

    pub fn install_handshake(&mut self, keys: Keys) {
        self.handshake = Some(keys);
    }

    pub fn install_early(&mut self, keys: DirectionKeys) {
        self.early = Some(keys);
    }

    pub fn install_one_rtt(&mut self, keys: Keys, session: &mut dyn Session) {
        self.one_rtt = Some(OneRtt {
            local_header: keys.local.header,
            remote_header: keys.remote.header,
            current: PacketKeys { local: keys.local.packet, remote: keys.remote.packet },
            next: session.next_one_rtt(),
            previous: None,
            phase: false,
            confirmed: false,
            first: Numbers::default(),
            further: Vec::new(),
            sealed: 0,
        });
    }

    pub fn discard(&mut self, space: SpaceId) {
        match space {
            SpaceId::Initial => {
                self.initial = None;
                self.first_version = None;
            }
            SpaceId::Handshake => self.handshake = None,
            SpaceId::Data(_) => self.one_rtt = None,
        }
    }

    /// Server: the handshake is complete; late 0-RTT packets are welcome until `until` (RFC 9001 section 4.9.3).
    pub fn discard_early_at(&mut self, until: Instant) {
        self.early_until = self.early.is_some().then_some(until);
    }

    pub fn discard_early(&mut self) {
        self.early = None;
    }

    pub fn has(&self, space: SpaceId) -> bool {
        match space {
            SpaceId::Initial => self.initial.is_some(),
            SpaceId::Handshake => self.handshake.is_some(),
            SpaceId::Data(_) => self.one_rtt.is_some(),
        }
    }

    pub fn has_early(&self) -> bool {
        self.early.is_some()
    }

    /// Keys that seal packets of `space`; 0-RTT keys stand in for 1-RTT ones until those exist.
    pub fn local(&self, space: SpaceId) -> Option<(&dyn HeaderKey, &dyn PacketKey)> {
        match space {
            SpaceId::Initial => self.initial.as_ref().map(|k| (&*k.local.header, &*k.local.packet)),
            SpaceId::Handshake => self.handshake.as_ref().map(|k| (&*k.local.header, &*k.local.packet)),
            SpaceId::Data(_) => match (&self.one_rtt, &self.early) {
                (Some(k), _) => Some((&*k.local_header, &*k.current.local)),
                (None, Some(k)) => Some((&*k.header, &*k.packet)),
                (None, None) => None,
            },
        }
    }

    /// The keys that open Initial packets of the version in use, or of the client's first.
    fn initial_remote(&self, first_version: bool) -> Option<&DirectionKeys> {
        if first_version { self.first_version.as_ref() } else { self.initial.as_ref().map(|k| &k.remote) }
    }

    /// The key that removes header protection from a packet of `space`, or from 0-RTT. `first_version`: the packet is
    /// in the version the client began with, not the one in use.
    pub fn remote_header(&self, space: SpaceId, early: bool, first_version: bool) -> Option<&dyn HeaderKey> {
        match space {
            SpaceId::Initial => self.initial_remote(first_version).map(|k| &*k.header),
            SpaceId::Handshake => self.handshake.as_ref().map(|k| &*k.remote.header),
            SpaceId::Data(_) if early => self.early.as_ref().map(|k| &*k.header),
            SpaceId::Data(_) => self.one_rtt.as_ref().map(|k| &*k.remote_header),
        }
    }

    /// Opens a long-header packet; `Data` means 0-RTT. `None` when it does not authenticate.
    pub fn open_long(
        &self,
        space: SpaceId,
        number: u64,
        header: &[u8],
        payload: &mut [u8],
        first_version: bool,
    ) -> Option<usize> {
        let key = match space {
            SpaceId::Initial => &*self.initial_remote(first_version)?.packet,
            SpaceId::Handshake => &*self.handshake.as_ref()?.remote.packet,
            SpaceId::Data(_) => &*self.early.as_ref()?.packet,
        };
        key.open(0, number, header, payload).ok()
    }

    /// Opens a 1-RTT packet with the generation its phase bit and number name (RFC 9001 section 6.3).
    /// `None` when it does not authenticate.
    ///
    /// # Errors
    /// `KEY_UPDATE_ERROR` if the packet shows that a higher number was protected with older keys (RFC 9001 section
    /// 6.4).
    pub fn open_short(
        &mut self,
        space: SpaceId,
        number: u64,
        phase: bool,
        header: &[u8],
        payload: &mut [u8],
    ) -> Result<Option<Opened>, TransportError> {
        let Some(keys) = self.one_rtt.as_mut() else { return Ok(None) };
        let path = nonce_path(space);
        if phase == keys.phase {
            let Ok(len) = keys.current.remote.open(path, number, header, payload) else { return Ok(None) };
            let numbers = keys.numbers(space);
            if numbers.last_before.is_some_and(|last| number < last) {
                return Err(TransportError::key_update("a packet number carries newer keys than a higher one"));
            }
            if numbers.first_received.is_none_or(|first| number < first) {
                numbers.first_received = Some(number);
            }
            numbers.last_received = numbers.last_received.max(Some(number));
            return Ok(Some(Opened::Known(len)));
        }
        // The other phase: an older number than any of this generation is a delayed packet of the last one.
        let numbers = keys.numbers_of(space);
        let delayed = numbers.first_received.is_none_or(|first| number < first);
        // A path that has carried nothing of this generation may be the first to carry the next one.
        let may_be_either = numbers.first_received.is_none() && !keys.further.is_empty();
        if let Some(previous) = keys.previous.as_ref().filter(|_| delayed && !may_be_either) {
            let Ok(len) = previous.remote.open(path, number, header, payload) else { return Ok(None) };
            let numbers = keys.numbers(space);
            numbers.last_before = numbers.last_before.max(Some(number));
            numbers.last_received = numbers.last_received.max(Some(number));
            return Ok(Some(Opened::Known(len)));
        }
        let Some(next) = keys.next.as_ref() else { return Ok(None) };
        // Opening in place destroys what does not open, and the old keys may have to try too.
        let copy = keys.previous.as_ref().map(|previous| (previous, payload.to_vec()));
        if let Ok(len) = next.remote.open(path, number, header, payload) {
            return Ok(Some(Opened::Updated(len)));
        }
        if let Some((previous, mut copy)) = copy
            && let Ok(len) = previous.remote.open(path, number, header, &mut copy)
        {
            if may_be_either {
                payload.copy_from_slice(&copy);
                let numbers = keys.numbers(space);
                numbers.last_before = numbers.last_before.max(Some(number));
                numbers.last_received = numbers.last_received.max(Some(number));
                return Ok(Some(Opened::Known(len)));
            }
            return Err(TransportError::key_update("a packet number carries older keys than a lower one"));
        }
        Ok(None)
    }

    /// Switches to the generation the peer has begun to use. Packet `number` of `space` showed it.
    ///
    /// # Errors
    /// `KEY_UPDATE_ERROR` if a packet of the generation before has a higher number (RFC 9001 section 6.4).
    pub fn commit_remote_update(
        &mut self,
        space: SpaceId,
        number: u64,
        session: &mut dyn Session,
    ) -> Result<(), TransportError> {
        let Some(keys) = self.one_rtt.as_ref() else {
            return Ok(());
        };
        if keys.numbers_of(space).last_received.is_some_and(|last| number < last) {
            return Err(TransportError::key_update("a packet number carries newer keys than a higher one"));
        }
        self.rotate(session);
        if let Some(keys) = self.one_rtt.as_mut() {
            let numbers = keys.numbers(space);
            numbers.first_received = Some(number);
            numbers.last_received = Some(number);
        }
        Ok(())
    }

    /// Whether we may start a key update (RFC 9001 section 6.1): the last one was acknowledged and its old keys are
    /// gone.
    pub fn may_update(&self) -> bool {
        self.one_rtt.as_ref().is_some_and(|k| k.confirmed && k.previous.is_none() && k.next.is_some())
    }

    /// Whether the current keys have protected nearly as many packets as they may (RFC 9001 section 6.6).
    pub fn wants_update(&self) -> bool {
        self.one_rtt.as_ref().is_some_and(|k| k.sealed > k.current.local.confidentiality_limit() / 8 * 7)
    }

    /// Whether a limit of RFC 9001 section 6.6 is reached, so that the connection has to end.
    pub fn exhausted(&self) -> bool {
        self.one_rtt.as_ref().is_some_and(|k| {
            k.sealed >= k.current.local.confidentiality_limit() || self.failed >= k.current.remote.integrity_limit()
        })
    }

    /// Moves to the next generation on our own initiative. Check [`Self::may_update`] first.
    pub fn update(&mut self, session: &mut dyn Session) {
        self.rotate(session);
    }

    fn rotate(&mut self, session: &mut dyn Session) {
        let Some(keys) = self.one_rtt.as_mut() else { return };
        let Some(next) = keys.next.take() else { return };
        let old = std::mem::replace(&mut keys.current, next);
        keys.previous = Some(Previous { remote: old.remote, until: None });
        keys.next = session.next_one_rtt();
        keys.phase = !keys.phase;
        keys.first.rotate();
        keys.further.iter_mut().for_each(|(_, numbers)| numbers.rotate());
        keys.confirmed = false;
        keys.sealed = 0;
        self.updates += 1;
    }

    /// The key phase bit of packets we send.
    pub fn phase(&self) -> bool {
        self.one_rtt.as_ref().is_some_and(|k| k.phase)
    }

    /// A 1-RTT packet was sealed under the current keys.
    pub fn on_sealed(&mut self, space: SpaceId, number: u64) {
        if let Some(keys) = self.one_rtt.as_mut() {
            keys.sealed += 1;
            keys.numbers(space).first_sent.get_or_insert(number);
        }
    }

    /// 1-RTT packet `number` of `space` was acknowledged; once that confirms an update, old keys live another three
    /// PTO.
    #[inline]
    pub fn on_acked(&mut self, now: Instant, space: SpaceId, number: u64, three_pto: impl FnOnce() -> Duration) {
        let Some(keys) = self.one_rtt.as_mut() else { return };
        if !keys.confirmed && keys.numbers_of(space).first_sent.is_some_and(|first| number >= first) {
            keys.confirmed = true;
            if let Some(previous) = keys.previous.as_mut() {
                previous.until = Some(now + three_pto());
            }
        }
    }

    /// A path is no more: its numbers tell nothing any longer.
    pub fn forget_space(&mut self, space: DataSpace) {
        if let Some(keys) = self.one_rtt.as_mut() {
            keys.further.retain(|(known, _)| *known != space);
        }
    }

    /// When keys are to be dropped: the previous generation, or a server's 0-RTT keys.
    pub fn timer(&self) -> Option<Instant> {
        let previous = self.one_rtt.as_ref().and_then(|k| k.previous.as_ref()).and_then(|previous| previous.until);
        previous.into_iter().chain(self.early_until).min()
    }

    /// Drops the keys whose time has come.
    pub fn on_timeout(&mut self, now: Instant) {
        if self.early_until.is_some_and(|t| t <= now) {
            self.early_until = None;
            self.early = None;
        }
        if let Some(keys) = self.one_rtt.as_mut() {
            keys.previous = keys.previous.take().filter(|previous| previous.until.is_none_or(|t| t > now));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        crypto::{
            TAG_LEN,
            deterministic::{DeterministicClient, DeterministicServer},
            testing::{self, date},
        },
        error::TransportErrorCode,
        version::Version,
    };

    /// The keys of both ends after a handshake.
    struct Ends {
        pair: testing::Pair,
        client: KeyStore,
        server: KeyStore,
    }

    type Sealed = (u64, bool, Vec<u8>);

    impl Ends {
        fn new() -> Ends {
            let client = DeterministicClient::new([1; 32], &[b"test"], date()).unwrap();
            let server = DeterministicServer::new([2; 32], &[b"test"], date()).unwrap();
            let mut pair = testing::handshake(&client, &server, Version::V1);
            let mut ends = [KeyStore::default(), KeyStore::default()];
            for (store, end) in ends.iter_mut().zip([&mut pair.client, &mut pair.server]) {
                store.install_one_rtt(end.one_rtt.take().unwrap(), &mut *end.session);
            }
            let [client, server] = ends;
            Ends { pair, client, server }
        }

        /// The client seals packets with its current keys.
        fn seal(&self, numbers: impl IntoIterator<Item = u64>) -> Vec<Sealed> {
            let (_, key) = self.client.local(SpaceId::DATA).unwrap();
            let seal = |number| {
                let mut packet = vec![7; 20 + TAG_LEN];
                key.seal(0, number, b"header", &mut packet).unwrap();
                (number, self.client.phase(), packet)
            };
            numbers.into_iter().map(seal).collect()
        }

        fn update_client(&mut self) {
            self.client.update(&mut *self.pair.client.session);
        }

        fn update_server(&mut self) {
            self.server.update(&mut *self.pair.server.session);
        }

        /// The server opens one. `Ok(false)`: it does not authenticate.
        fn open(&mut self, (number, phase, packet): &Sealed) -> Result<bool, TransportErrorCode> {
            let mut packet = packet.clone();
            match self
                .server
                .open_short(SpaceId::DATA, *number, *phase, b"header", &mut packet)
                .map_err(|error| error.code)?
            {
                None => Ok(false),
                Some(Opened::Known(20)) => Ok(true),
                Some(Opened::Updated(20)) => {
                    let session = &mut *self.pair.server.session;
                    self.server.commit_remote_update(SpaceId::DATA, *number, session).map_err(|error| error.code)?;
                    Ok(true)
                }
                Some(other) => panic!("{other:?}"),
            }
        }
    }

    const VIOLATION: Result<bool, TransportErrorCode> = Err(TransportErrorCode::KEY_UPDATE_ERROR);

    #[test]
    fn rfc9001_6_4_newer_keys_below_a_number_with_older_ones_are_a_key_update_error() {
        let mut ends = Ends::new();
        let old = ends.seal([0, 10]);
        ends.update_client();
        let new = ends.seal([5]);
        assert_eq!([ends.open(&old[0]), ends.open(&old[1])], [Ok(true); 2]);
        assert_eq!(ends.open(&new[0]), VIOLATION);
    }

    #[test]
    fn rfc9001_6_4_older_keys_above_a_number_with_newer_ones_are_a_key_update_error() {
        let mut ends = Ends::new();
        let old = ends.seal([0, 10]);
        ends.update_client();
        let new = ends.seal([5]);
        assert_eq!([ends.open(&old[0]), ends.open(&new[0])], [Ok(true); 2]);
        assert_eq!(ends.open(&old[1]), VIOLATION);
    }

    #[test]
    fn rfc9001_6_4_it_does_not_matter_who_began_the_update() {
        let mut ends = Ends::new();
        let old = ends.seal([0, 10]);
        ends.update_client();
        let new = ends.seal([5]);
        ends.update_server();
        assert_eq!([ends.open(&old[0]), ends.open(&old[1])], [Ok(true); 2], "delayed");
        assert_eq!(ends.open(&new[0]), VIOLATION);
    }

    #[test]
    fn rfc9001_6_5_packets_in_any_order_across_updates_of_either_end_are_no_error() {
        for reverse in [false, true] {
            for own in [false, true] {
                let mut ends = Ends::new();
                let old = ends.seal(0..5);
                ends.update_client();
                let mut packets = [old, ends.seal(5..10)].concat();
                assert_eq!(ends.open(&packets[2]), Ok(true));
                packets.remove(2);
                if own {
                    ends.update_server();
                }
                if reverse {
                    packets.reverse();
                }
                for packet in &packets {
                    assert_eq!(ends.open(packet), Ok(true), "{} {reverse} {own}", packet.0);
                }
            }
        }
    }

    #[test]
    fn damaged_packets_of_either_phase_do_not_authenticate_and_are_no_error() {
        let mut ends = Ends::new();
        let mut old = ends.seal([0, 3, 9]);
        ends.update_client();
        let mut new = ends.seal([5, 8]);
        assert_eq!([ends.open(&old[0]), ends.open(&new[0])], [Ok(true); 2]);
        for packet in old.iter_mut().chain(&mut new) {
            packet.2[3] ^= 1;
            assert_eq!(ends.open(packet), Ok(false));
        }
    }
}
