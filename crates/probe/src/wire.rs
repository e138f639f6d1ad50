//! Datagrams of a probe: layouts, sizes and versions.
//!
//! All numbers are big-endian. The first sixteen bytes are the same in every version: `TWP`, the version, the kind
//! (3 bytes `TWP`, 1 byte version, 1 byte kind, 3 bytes of zeros) and the nonce that the client drew for its session.
//!
//! | kind | from | then |
//! |---|---|---|
//! | 1 hello | client | zeros up to [`UP_SIZE`] |
//! | 2 cookie | server | cookie (16) |
//! | 3 probe | client | cookie (16), sequence number (4), sent (8), late (4), interval (4), known arrivals (4), zeros |
//! | 4 finish | client | as 3 |
//! | 5 probe | server | sequence number (4), sent (8), late (4), arrivals so far (4), reports, zeros |
//! | 6 refused | server | reason (1), highest version (1), parameter (4) |
//! | 7 bye | server | |
//! | 8 train | client | cookie (16), number of the train (4), position in it (1), datagrams of it (1), zeros |
//! | 9 train | server | number of the train that it answers (4), position (1), datagrams (1), how many came (1), from the first to the last in units of [`TICK`] (4), which came (2 bytes of bits, the first in the lowest), how many of these were overtaken (1), and by how much in the mean in units of [`TICK`] (4), zeros |
//!
//! *Sent* is in nanoseconds of the sender's clock, *late* and *interval* are in microseconds. *Late* says how much
//! after its time the datagram was sent. Reports are the arrivals that follow one another at the server: number of
//! reports (1), index of the first arrival (4), its sequence number (4), its time in units of [`TICK`] of the
//! server's clock (8), and for each arrival the sequence number from there on (14 bits, two's complement) with the
//! ECN field (2 bits), and the time from there on in units of [`TICK`] (4).
//!
//! Every sixteenth datagram of a stream, from the first on, is sent with ECT(0) (RFC 3168), the others without.
//!
//! Every datagram of a client has the same size, and so has every datagram of a server's stream: the time that a
//! datagram takes on a link must not depend on what it says. Those of the server are shorter than those of the client,
//! so that a server that sends no more bytes than it receives may go on sending through a pause of the client's stream.
//! Trains have [`TRAIN_SIZE`] bytes either way.

use thalweg_units::{Duration, Ecn};

/// Version of the layouts here.
pub const VERSION: u8 = 1;
/// UDP payload of everything that a client sends, in bytes.
pub const UP_SIZE: usize = 176;
/// UDP payload of a server's probe, in bytes.
pub const DOWN_SIZE: usize = 144;
/// UDP payload of any other datagram of a server, at most, in bytes.
pub const ANSWER_SIZE: usize = 32;
/// UDP payload of a datagram of a train, in bytes: what every path of QUIC carries.
pub const TRAIN_SIZE: usize = 1_200;
/// Resolution of reported times.
pub const TICK: Duration = Duration::from_nanos(100);
/// Arrivals that a server remembers until its client knows of them.
pub const MOST_ARRIVALS: usize = 2048;
/// Most reports in a datagram.
pub const MOST_REPORTS: usize = (DOWN_SIZE - HEAD - 20 - 17) / 6;
/// The sequence number of what answers a [finish](ClientKind::Finish): it is no part of the server's stream.
pub const ANSWER: u32 = u32::MAX;
/// Proof that a client receives at its address.
pub type Cookie = [u8; 16];

/// The ECN field that a datagram of a stream is sent with.
pub const fn ecn_of(seq: u32) -> Ecn {
    if seq.is_multiple_of(16) { Ecn::Ect0 } else { Ecn::NotEct }
}

const MAGIC: [u8; 3] = *b"TWP";
const HEAD: usize = 16;

/// A datagram of a client.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct FromClient {
    /// The number that the client drew for its session.
    pub nonce: u64,
    /// What it says.
    pub kind: ClientKind,
}

/// What a client says.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ClientKind {
    /// It asks for a cookie.
    Hello,
    /// A datagram of its stream.
    Probe(Upward),
    /// It has finished its stream and asks for the reports that it lacks.
    Finish(Upward),
    /// A datagram of a train.
    Train(TrainUp),
    /// A hello in another version.
    OtherVersion(u8),
}

/// A datagram of a train of the client.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct TrainUp {
    /// Proof of the client's address.
    pub cookie: Cookie,
    /// Number of the train.
    pub train: u32,
    /// Position in it.
    pub index: u8,
    /// Datagrams of it.
    pub count: u8,
}

/// A datagram of the train with which a server answers one.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct TrainDown {
    /// Number of the train that it answers.
    pub train: u32,
    /// Position.
    pub index: u8,
    /// Datagrams of the answer.
    pub count: u8,
    /// Datagrams of the client's train that came.
    pub come: u8,
    /// From the first of these to the last; a multiple of [`TICK`].
    pub spread: Duration,
    /// Which came, the first in the lowest bit.
    pub which: u16,
    /// How many came after one that had left later.
    pub late: u8,
    /// How much later these came in the mean; a multiple of [`TICK`].
    pub by: Duration,
}

/// A datagram of the client's stream.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Upward {
    /// Proof of the client's address.
    pub cookie: Cookie,
    /// Position in the stream, from 0 on.
    pub seq: u32,
    /// When it was sent, in nanoseconds of the client's clock.
    pub sent: u64,
    /// How late that was.
    pub late: Duration,
    /// Time between datagrams of either stream.
    pub interval: Duration,
    /// Arrivals at the server that the client knows of without a gap.
    pub known: u32,
}

/// A datagram of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FromServer {
    /// The nonce of the session.
    pub nonce: u64,
    /// What it says.
    pub kind: ServerKind,
}

/// What a server says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerKind {
    /// The cookie for this client.
    Cookie(Cookie),
    /// A datagram of its stream.
    Probe(Downward),
    /// A datagram of a train.
    Train(TrainDown),
    /// It does not serve this client.
    Refused(Refusal),
    /// The server stops.
    Bye,
}

/// A datagram of the server's stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Downward {
    /// Position in the stream, from 0 on; [`ANSWER`] if it answers a finish instead.
    pub seq: u32,
    /// When it was sent, in nanoseconds of the server's clock.
    pub sent: u64,
    /// How late that was.
    pub late: Duration,
    /// Arrivals so far.
    pub arrivals: u32,
    /// Index of the first arrival that is reported.
    pub first: u32,
    /// Arrivals, in their order.
    pub reports: Vec<Report>,
}

/// The arrival of a datagram of the client's stream at the server.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The datagram.
    pub seq: u32,
    /// When it arrived, in nanoseconds of the server's clock; a multiple of [`TICK`].
    pub at: u64,
    /// Its ECN field on arrival.
    pub ecn: Ecn,
}

/// Why a server does not serve a client.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// It does not speak the client's version; it has versions up to this.
    Version(u8),
    /// The cookie is too old, of another address or of another server, or the session is over: ask for a new one.
    Cookie,
    /// It has as many sessions as it may, of all clients or of this address.
    Full,
    /// Datagrams are to be at least so far apart.
    Interval(Duration),
    /// A reason that this version does not know.
    Unknown(u8),
}

fn micros(span: Duration) -> u32 {
    u32::try_from(span.as_micros()).unwrap_or(u32::MAX)
}

fn head(out: &mut Vec<u8>, kind: u8, nonce: u64) {
    out.clear();
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&[VERSION, kind, 0, 0, 0]);
    out.extend_from_slice(&nonce.to_be_bytes());
}

/// Reads numbers from bytes that may end at any place.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take().map(|[byte]| byte)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }

    fn micros(&mut self) -> Option<Duration> {
        self.u32().map(|micros| Duration::from_micros(micros.into()))
    }

    /// Version, kind and nonce.
    fn head(&mut self) -> Option<(u8, u8, u64)> {
        if self.take()? != MAGIC {
            return None;
        }
        let [version, kind, ..] = self.take::<5>()?;
        Some((version, kind, self.u64()?))
    }
}

impl FromClient {
    /// Writes the datagram over what is in `out`: [`UP_SIZE`] bytes, or [`TRAIN_SIZE`] of a train.
    pub fn encode(&self, out: &mut Vec<u8>) {
        if let ClientKind::Train(train) = &self.kind {
            head(out, 8, self.nonce);
            out.extend_from_slice(&train.cookie);
            out.extend_from_slice(&train.train.to_be_bytes());
            out.extend_from_slice(&[train.index, train.count]);
            out.resize(TRAIN_SIZE, 0);
            return;
        }
        let (kind, upward) = match &self.kind {
            ClientKind::Hello | ClientKind::OtherVersion(_) | ClientKind::Train(_) => (1, None),
            ClientKind::Probe(upward) => (3, Some(upward)),
            ClientKind::Finish(upward) => (4, Some(upward)),
        };
        head(out, kind, self.nonce);
        if let Some(upward) = upward {
            out.extend_from_slice(&upward.cookie);
            out.extend_from_slice(&upward.seq.to_be_bytes());
            out.extend_from_slice(&upward.sent.to_be_bytes());
            out.extend_from_slice(&micros(upward.late).to_be_bytes());
            out.extend_from_slice(&micros(upward.interval).to_be_bytes());
            out.extend_from_slice(&upward.known.to_be_bytes());
        }
        out.resize(UP_SIZE, 0);
        if let ClientKind::OtherVersion(version) = self.kind {
            out[3] = version;
        }
    }

    /// Reads a datagram; `None` if it is none of a client. One of this version is [`UP_SIZE`] long, or
    /// [`TRAIN_SIZE`].
    pub fn decode(bytes: &[u8]) -> Option<FromClient> {
        let mut rest = Bytes(bytes);
        let (version, kind, nonce) = rest.head()?;
        if version != VERSION {
            // Only a hello: two servers of different versions must not answer one another's answers.
            return (kind == 1).then_some(FromClient { nonce, kind: ClientKind::OtherVersion(version) });
        }
        if kind == 8 && bytes.len() == TRAIN_SIZE {
            let (cookie, train, index, count) = (rest.take()?, rest.u32()?, rest.u8()?, rest.u8()?);
            return Some(FromClient { nonce, kind: ClientKind::Train(TrainUp { cookie, train, index, count }) });
        }
        if bytes.len() != UP_SIZE {
            return None;
        }
        let mut upward = || {
            Some(Upward {
                cookie: rest.take()?,
                seq: rest.u32()?,
                sent: rest.u64()?,
                late: rest.micros()?,
                interval: rest.micros()?,
                known: rest.u32()?,
            })
        };
        let kind = match kind {
            1 => ClientKind::Hello,
            3 => ClientKind::Probe(upward()?),
            4 => ClientKind::Finish(upward()?),
            _ => return None,
        };
        Some(FromClient { nonce, kind })
    }
}

/// The farthest sequence number from the first of the same datagram, either way.
const MOST_AHEAD: i64 = (1 << 13) - 1;

/// Whether two arrivals can be reported by the same datagram.
fn offsets(base: &Report, report: &Report) -> Option<(u16, u32)> {
    let ahead = i64::from(report.seq) - i64::from(base.seq);
    let ticks = report.at.checked_sub(base.at)? / TICK.as_nanos() as u64;
    let ticks = u32::try_from(ticks).ok()?;
    let word = ((ahead as u16) << 2) | u16::from(report.ecn.bits());
    (-MOST_AHEAD..=MOST_AHEAD).contains(&ahead).then_some((word, ticks))
}

/// How many of these arrivals, from the first on, fit into a datagram.
pub fn fitting(mut reports: impl Iterator<Item = Report>) -> usize {
    let Some(base) = reports.next() else { return 0 };
    1 + reports.take(MOST_REPORTS - 1).take_while(|report| offsets(&base, report).is_some()).count()
}

impl Downward {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.seq.to_be_bytes());
        out.extend_from_slice(&self.sent.to_be_bytes());
        out.extend_from_slice(&micros(self.late).to_be_bytes());
        out.extend_from_slice(&self.arrivals.to_be_bytes());
        let count = fitting(self.reports.iter().copied());
        out.push(count as u8);
        if let Some(base) = self.reports.first() {
            out.extend_from_slice(&self.first.to_be_bytes());
            out.extend_from_slice(&base.seq.to_be_bytes());
            out.extend_from_slice(&(base.at / TICK.as_nanos() as u64).to_be_bytes());
            for (word, ticks) in self.reports[..count].iter().filter_map(|report| offsets(base, report)) {
                out.extend_from_slice(&word.to_be_bytes());
                out.extend_from_slice(&ticks.to_be_bytes());
            }
        }
        out.resize(DOWN_SIZE, 0);
    }

    fn decode(rest: &mut Bytes<'_>) -> Option<Downward> {
        let mut downward = Downward {
            seq: rest.u32()?,
            sent: rest.u64()?,
            late: rest.micros()?,
            arrivals: rest.u32()?,
            ..Downward::default()
        };
        let count = rest.u8()?;
        if count == 0 {
            return Some(downward);
        }
        downward.first = rest.u32()?;
        let (seq, at) = (rest.u32()?, rest.u64()?);
        for _ in 0..count {
            let word = u16::from_be_bytes(rest.take()?);
            let ahead = i64::from(word as i16 >> 2);
            let report = Report {
                seq: u32::try_from(i64::from(seq) + ahead).ok()?,
                at: at.checked_add(rest.u32()?.into())?.checked_mul(TICK.as_nanos() as u64)?,
                ecn: Ecn::from_bits(word as u8 & 3),
            };
            downward.reports.push(report);
        }
        Some(downward)
    }
}

impl FromServer {
    /// Writes the datagram over what is in `out`: [`DOWN_SIZE`] bytes for a probe, [`TRAIN_SIZE`] for one
    /// of a train, [`ANSWER_SIZE`] for others. Reports
    /// that do not [fit](fitting) are left out.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match &self.kind {
            ServerKind::Cookie(cookie) => {
                head(out, 2, self.nonce);
                out.extend_from_slice(cookie);
            }
            ServerKind::Probe(downward) => {
                head(out, 5, self.nonce);
                downward.encode(out);
                return;
            }
            ServerKind::Refused(refusal) => {
                head(out, 6, self.nonce);
                let (reason, parameter) = match *refusal {
                    Refusal::Version(_) => (1, 0),
                    Refusal::Cookie => (2, 0),
                    Refusal::Full => (3, 0),
                    Refusal::Interval(least) => (4, micros(least)),
                    Refusal::Unknown(reason) => (reason, 0),
                };
                out.extend_from_slice(&[reason, VERSION]);
                out.extend_from_slice(&parameter.to_be_bytes());
            }
            ServerKind::Train(train) => {
                head(out, 9, self.nonce);
                out.extend_from_slice(&train.train.to_be_bytes());
                out.extend_from_slice(&[train.index, train.count, train.come]);
                let ticks = |span: Duration| u32::try_from(span.as_nanos() / TICK.as_nanos()).unwrap_or(u32::MAX);
                out.extend_from_slice(&ticks(train.spread).to_be_bytes());
                out.extend_from_slice(&train.which.to_be_bytes());
                out.push(train.late);
                out.extend_from_slice(&ticks(train.by).to_be_bytes());
                out.resize(TRAIN_SIZE, 0);
                return;
            }
            ServerKind::Bye => head(out, 7, self.nonce),
        }
        out.resize(ANSWER_SIZE, 0);
    }

    /// Reads a datagram; `None` if it is none of a server. A refusal is read in every version.
    pub fn decode(bytes: &[u8]) -> Option<FromServer> {
        let mut rest = Bytes(bytes);
        let (version, kind, nonce) = rest.head()?;
        let kind = match (version, kind) {
            (_, 6) => {
                let (reason, highest, parameter) = (rest.u8()?, rest.u8()?, rest.micros()?);
                ServerKind::Refused(match reason {
                    1 => Refusal::Version(highest),
                    2 => Refusal::Cookie,
                    3 => Refusal::Full,
                    4 => Refusal::Interval(parameter),
                    reason => Refusal::Unknown(reason),
                })
            }
            (VERSION, 2) => ServerKind::Cookie(rest.take()?),
            (VERSION, 5) if bytes.len() == DOWN_SIZE => ServerKind::Probe(Downward::decode(&mut rest)?),
            (VERSION, 7) => ServerKind::Bye,
            (VERSION, 9) if bytes.len() == TRAIN_SIZE => ServerKind::Train(TrainDown {
                train: rest.u32()?,
                index: rest.u8()?,
                count: rest.u8()?,
                come: rest.u8()?,
                spread: TICK * rest.u32()?,
                which: u16::from_be_bytes(rest.take()?),
                late: rest.u8()?,
                by: TICK * rest.u32()?,
            }),
            _ => return None,
        };
        Some(FromServer { nonce, kind })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn upward() -> impl Strategy<Value = Upward> {
        (any::<[u8; 16]>(), any::<u32>(), any::<u64>(), any::<u32>(), any::<u32>(), any::<u32>()).prop_map(
            |(cookie, seq, sent, late, interval, known)| Upward {
                cookie,
                seq,
                sent,
                late: Duration::from_micros(late.into()),
                interval: Duration::from_micros(interval.into()),
                known,
            },
        )
    }

    fn client_kind() -> impl Strategy<Value = ClientKind> {
        prop_oneof![
            Just(ClientKind::Hello),
            upward().prop_map(ClientKind::Probe),
            upward().prop_map(ClientKind::Finish),
            (any::<[u8; 16]>(), any::<u32>(), any::<u8>(), any::<u8>())
                .prop_map(|(cookie, train, index, count)| ClientKind::Train(TrainUp { cookie, train, index, count })),
            (2..=u8::MAX).prop_map(ClientKind::OtherVersion)
        ]
    }

    fn downward() -> impl Strategy<Value = Downward> {
        let steps = prop::collection::vec((0i64..20, 0u64..4_000_000_000, 0u8..4), 0..=MOST_REPORTS);
        (any::<u32>(), any::<u64>(), any::<u32>(), 1000u32..1 << 30, 0u64..1 << 40, steps).prop_map(
            |(seq, sent, late, first, at, steps)| {
                let (mut seq_now, mut at_now) = (i64::from(first), at);
                let report = |(step, ticks, ecn): (i64, u64, u8)| {
                    (seq_now, at_now) = (seq_now + step - 5, at_now + ticks / 20);
                    Report { seq: seq_now as u32, at: at_now * 100, ecn: Ecn::from_bits(ecn) }
                };
                let reports: Vec<Report> = steps.into_iter().map(report).collect();
                let first = if reports.is_empty() { 0 } else { first };
                let late = Duration::from_micros(late.into());
                Downward { seq, sent, late, arrivals: 77, first, reports }
            },
        )
    }

    fn server_kind() -> impl Strategy<Value = ServerKind> {
        prop_oneof![
            any::<[u8; 16]>().prop_map(ServerKind::Cookie),
            downward().prop_map(ServerKind::Probe),
            (any::<u32>(), any::<[u8; 4]>(), any::<u32>(), any::<u16>(), any::<u32>()).prop_map(
                |(train, [index, count, come, late], ticks, which, by)| {
                    let (spread, by) = (TICK * ticks, TICK * by);
                    ServerKind::Train(TrainDown { train, index, count, come, spread, which, late, by })
                }
            ),
            Just(ServerKind::Refused(Refusal::Version(VERSION))),
            Just(ServerKind::Refused(Refusal::Cookie)),
            Just(ServerKind::Refused(Refusal::Full)),
            Just(ServerKind::Refused(Refusal::Interval(Duration::from_millis(1)))),
            (5..=u8::MAX).prop_map(|reason| ServerKind::Refused(Refusal::Unknown(reason))),
            Just(ServerKind::Bye)
        ]
    }

    proptest! {
        #[test]
        fn what_a_client_writes_is_what_is_read(nonce: u64, kind in client_kind()) {
            let (message, mut bytes) = (FromClient { nonce, kind }, vec![9; 3]);
            message.encode(&mut bytes);
            let size = if matches!(message.kind, ClientKind::Train(_)) { TRAIN_SIZE } else { UP_SIZE };
            prop_assert_eq!(bytes.len(), size);
            prop_assert_eq!(FromClient::decode(&bytes), Some(message));
            prop_assert_eq!(FromServer::decode(&bytes), None);
        }

        #[test]
        fn what_a_server_writes_is_what_is_read(nonce: u64, kind in server_kind()) {
            let (message, mut bytes) = (FromServer { nonce, kind }, vec![9; 3]);
            message.encode(&mut bytes);
            let size = match message.kind {
                ServerKind::Probe(_) => DOWN_SIZE,
                ServerKind::Train(_) => TRAIN_SIZE,
                _ => ANSWER_SIZE,
            };
            prop_assert_eq!(bytes.len(), size);
            prop_assert_eq!(FromClient::decode(&bytes), None);
            prop_assert_eq!(FromServer::decode(&bytes), Some(message));
        }

        #[test]
        fn no_bytes_make_it_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..300), kind in 0u8..9) {
            if let Some(head) = bytes.first_chunk_mut::<5>() {
                *head = [b'T', b'W', b'P', VERSION, kind];
            }
            bytes.resize(if kind % 2 == 0 { UP_SIZE } else { DOWN_SIZE }, kind);
            let _ = (FromClient::decode(&bytes), FromServer::decode(&bytes));
        }
    }

    #[test]
    fn arrivals_far_from_one_another_take_two_datagrams() {
        let at = |seq, at| Report { seq, at, ecn: Ecn::NotEct };
        assert_eq!(fitting([].into_iter()), 0);
        assert_eq!(fitting([at(1, 0), at(2, 1)].into_iter()), 2);
        assert_eq!(fitting([at(1, 0), at(9000, 1)].into_iter()), 1);
        assert_eq!(fitting([at(1, 0), at(2, 1 << 50)].into_iter()), 1);
        assert_eq!(fitting([at(1, 5000), at(2, 0)].into_iter()), 1);
        assert_eq!(fitting((0..1000).map(|seq| at(seq, 0))), MOST_REPORTS);
    }
}
