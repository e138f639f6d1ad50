//! What others may do to a server, and to a client.

use std::net::SocketAddr;

use thalweg_probe::wire::{
    ANSWER_SIZE, ClientKind, Cookie, DOWN_SIZE, FromClient, FromServer, Refusal, ServerKind, TRAIN_SIZE, TrainUp,
    UP_SIZE, Upward, VERSION,
};
use thalweg_probe::{Client, ClientConfig, ClientError, SESSION_END, Server, ServerConfig};
use thalweg_units::{Duration, Ecn, Instant};

const MS: Duration = Duration::from_millis(1);

fn at(ms: u32) -> Instant {
    Instant::from_nanos(1 << 40) + MS * ms
}

fn server(config: ServerConfig) -> Server {
    Server::new(config, at(0), &[7; 32])
}

fn address(n: u32) -> SocketAddr {
    SocketAddr::from((n.to_be_bytes(), 4000))
}

fn upward(cookie: Cookie, seq: u32) -> Upward {
    Upward { cookie, seq, sent: 0, late: Duration::ZERO, interval: 20 * MS, known: 0 }
}

/// What the server answers.
fn ask(server: &mut Server, now: Instant, from: SocketAddr, kind: ClientKind) -> Option<ServerKind> {
    let (mut bytes, mut out) = (Vec::new(), Vec::new());
    FromClient { nonce: 42, kind }.encode(&mut bytes);
    let answered = server.receive(now, now, from.into(), Ecn::NotEct, &bytes, &mut out);
    assert!(!answered || out.len() < bytes.len(), "{} bytes for {}", out.len(), bytes.len());
    answered.then(|| FromServer::decode(&out).unwrap().kind)
}

fn cookie(server: &mut Server, now: Instant, from: SocketAddr) -> Cookie {
    match ask(server, now, from, ClientKind::Hello) {
        Some(ServerKind::Cookie(cookie)) => cookie,
        other => panic!("{other:?}"),
    }
}

/// Everything that the server sends until then.
fn sends(server: &mut Server, until: Instant) -> Vec<(SocketAddr, usize)> {
    let (mut sent, mut out) = (Vec::new(), Vec::new());
    while let Some(due) = server.poll_timeout().filter(|due| *due <= until) {
        while let Some(to) = server.poll_transmit(due, &mut out) {
            sent.push((to.0.address, out.len()));
        }
    }
    sent
}

#[test]
fn a_hello_leaves_no_state_and_a_forged_cookie_begins_no_session() {
    let mut server = server(ServerConfig::default());
    for n in 0..100_000 {
        let now = at(n / 100);
        ask(&mut server, now, address(n * 7919), ClientKind::Hello);
        let answer = ask(&mut server, now, address(n), ClientKind::Probe(upward([n as u8; 16], 0)));
        assert!(matches!(answer, None | Some(ServerKind::Refused(Refusal::Cookie))), "{answer:?}");
    }
    assert_eq!((server.sessions(), server.poll_timeout()), (0, None));
    assert!(server.counts().sent_bytes < server.counts().received_bytes / 5);
}

#[test]
fn a_cookie_is_of_one_address_and_of_its_time() {
    let mut server = server(ServerConfig::default());
    let good = cookie(&mut server, at(0), address(1));
    let refused = Some(ServerKind::Refused(Refusal::Cookie));
    assert_eq!(ask(&mut server, at(1), address(2), ClientKind::Probe(upward(good, 0))), refused);
    assert_eq!(ask(&mut server, at(60_001), address(1), ClientKind::Probe(upward(good, 0))), refused);
    assert_eq!(ask(&mut server, at(2), address(1), ClientKind::Finish(upward(good, 0))), refused);
    assert_eq!(ask(&mut server, at(29_000), address(1), ClientKind::Probe(upward(good, 0))), None);
    assert_eq!(server.sessions(), 1);
    // Another secret, another cookie.
    let mut other = Server::new(ServerConfig::default(), at(0), &[8; 32]);
    assert_eq!(ask(&mut other, at(1), address(1), ClientKind::Probe(upward(good, 0))), refused);
}

#[test]
fn a_session_sends_no_more_than_it_receives_and_ends_soon() {
    let mut server = server(ServerConfig::default());
    let good = cookie(&mut server, at(0), address(1));
    let mut received = 0;
    for seq in 0..50 {
        ask(&mut server, at(seq * 20), address(1), ClientKind::Probe(upward(good, seq)));
        received += UP_SIZE;
        assert!(sends(&mut server, at(seq * 20 + 19)).iter().all(|(to, _)| *to == address(1)));
    }
    assert!(server.counts().sent_bytes as usize - ANSWER_SIZE <= received);
    // Silence: what is left of the bytes is sent, and then no more.
    sends(&mut server, at(100_000));
    let bytes = server.counts().sent_bytes as usize - ANSWER_SIZE;
    assert!(bytes <= received && bytes > received - DOWN_SIZE, "{bytes} of {received}");
    assert_eq!((server.sessions(), server.poll_timeout()), (0, None));
    // A replayed cookie begins one again, and gets no more than it gives.
    ask(&mut server, at(10_000), address(1), ClientKind::Probe(upward(good, 0)));
    assert_eq!(sends(&mut server, at(10_000) + SESSION_END * 2).len(), 1);
}

#[test]
fn trains_need_a_session_and_are_answered_with_no_more_than_came() {
    let mut server = server(ServerConfig::default());
    let good = cookie(&mut server, at(0), address(1));
    let train = |cookie, train, index| ClientKind::Train(TrainUp { cookie, train, index, count: 16 });
    // Without a session there is no answer, whatever the cookie.
    for n in 0..10_000 {
        assert_eq!(ask(&mut server, at(n), address(2), train(good, n, 0)), None);
        assert_eq!(ask(&mut server, at(n), address(1), train(good, n, 0)), None);
    }
    assert_eq!((server.sessions(), server.poll_timeout()), (0, None));
    let good = cookie(&mut server, at(10_000), address(1));
    ask(&mut server, at(10_000), address(1), ClientKind::Probe(upward(good, 0)));
    let before = server.counts();
    // A flood of them: one in 900 ms counts, and of it sixteen datagrams.
    for n in 0..3_000 {
        for index in 0..20 {
            ask(&mut server, at(10_000 + n), address(1), train(good, n, index % 16));
        }
        sends(&mut server, at(10_000 + n));
    }
    sends(&mut server, at(20_000));
    let (sent, answers) = (server.counts().sent_bytes - before.sent_bytes, server.counts().sent - before.sent);
    assert!(answers <= 16 * 4 + 400 && sent <= 4 * 16 * TRAIN_SIZE as u64 + UP_SIZE as u64, "{answers}, {sent} bytes");
    // Of another session, too long, out of place: none.
    let good = cookie(&mut server, at(30_000), address(1));
    ask(&mut server, at(30_000), address(1), ClientKind::Probe(upward(good, 0)));
    for (cookie, index, count) in [([1; 16], 0, 16), (good, 0, 17), (good, 16, 16), (good, 0, 255)] {
        let kind = ClientKind::Train(TrainUp { cookie, train: 5, index, count });
        assert_eq!(ask(&mut server, at(30_100), address(1), kind), None);
    }
    let sizes: Vec<usize> = sends(&mut server, at(40_000)).into_iter().map(|(_, size)| size).collect();
    assert!(sizes.iter().all(|size| *size == DOWN_SIZE), "{sizes:?}");
}

#[test]
fn sessions_are_limited_in_all_and_for_an_address() {
    let mut server = server(ServerConfig { sessions: 20, sessions_per_address: 3, ..ServerConfig::default() });
    let from = |host: u32, port: u16| SocketAddr::new(address(host).ip(), port);
    let mut begin = |from: SocketAddr| {
        let cookie = cookie(&mut server, at(1), from);
        ask(&mut server, at(1), from, ClientKind::Probe(upward(cookie, 0)))
    };
    let full = Some(ServerKind::Refused(Refusal::Full));
    let same: Vec<_> = (1..=5).map(|port| begin(from(1, port))).collect();
    assert_eq!(same, [None, None, None, full.clone(), full.clone()]);
    let others: Vec<_> = (2..=20).map(|host| begin(from(host, 1))).collect();
    assert!(others[..17].iter().all(Option::is_none) && others[17..].iter().all(|answer| *answer == full));
    // The same of an IPv6 network, whose user has all addresses.
    sends(&mut server, at(6_000));
    assert_eq!(server.sessions(), 0);
    let v6: Vec<_> = (1..=4u16)
        .map(|n| {
            let from = SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, n], 9));
            let cookie = cookie(&mut server, at(6_000), from);
            ask(&mut server, at(6_000), from, ClientKind::Probe(upward(cookie, 0)))
        })
        .collect();
    assert_eq!(v6, [None, None, None, full]);
}

#[test]
fn hellos_and_datagrams_of_a_session_are_limited() {
    let mut server = server(ServerConfig::default());
    let good = cookie(&mut server, at(0), address(1));
    let answered = (0..1000).filter(|_| ask(&mut server, at(1), address(1), ClientKind::Hello).is_some()).count();
    assert_eq!(answered, 49);
    assert_eq!(ask(&mut server, at(100), address(1), ClientKind::Probe(upward(good, 0))), None);
    for seq in 1..10_000 {
        ask(&mut server, at(100), address(1), ClientKind::Probe(upward(good, seq)));
    }
    // Five seconds of datagrams may come at once.
    let ignored = server.counts().ignored;
    assert!((9_000..9_800).contains(&(ignored as u32 - 951)), "{ignored}");
}

#[test]
fn too_dense_a_stream_and_another_version_are_refused() {
    let mut server = server(ServerConfig::default());
    let good = cookie(&mut server, at(0), address(1));
    let dense = Upward { interval: Duration::from_micros(10), ..upward(good, 0) };
    let refusal = Refusal::Interval(MS);
    assert_eq!(ask(&mut server, at(1), address(1), ClientKind::Probe(dense)), Some(ServerKind::Refused(refusal)));
    let other = ask(&mut server, at(1), address(1), ClientKind::OtherVersion(9));
    assert_eq!(other, Some(ServerKind::Refused(Refusal::Version(VERSION))));
    for bytes in [&b""[..], b"TWP", &[0; 176], &[b'T'; 1500]] {
        assert!(!server.receive(at(1), at(1), address(1).into(), Ecn::NotEct, bytes, &mut Vec::new()));
    }
}

fn client() -> Client {
    Client::new(ClientConfig { interval: 20 * MS, length: None, marks: false, trains: false }, at(0), 1)
}

#[test]
fn without_a_server_a_client_says_so() {
    let (mut lonely, mut out, mut hellos) = (client(), Vec::new(), 0);
    while let Some(due) = lonely.poll_timeout() {
        hellos += u32::from(lonely.poll_transmit(due, &mut out).is_some());
    }
    assert_eq!((lonely.error(), hellos), (Some(ClientError::NoAnswer), 20));
    let mut closed = client();
    closed.unreachable(at(1));
    assert_eq!((closed.error(), closed.is_done()), (Some(ClientError::Unreachable), true));
}

#[test]
fn a_client_believes_only_who_knows_its_nonce() {
    let (mut client, mut out) = (client(), Vec::new());
    assert!(client.poll_transmit(at(0), &mut out).is_some());
    let hello = FromClient::decode(&out).unwrap();
    let mut tell = |client: &mut Client, nonce, kind| {
        FromServer { nonce, kind }.encode(&mut out);
        client.receive(at(1), at(1), Ecn::NotEct, &out);
    };
    tell(&mut client, hello.nonce ^ 1, ServerKind::Refused(Refusal::Full));
    tell(&mut client, hello.nonce, ServerKind::Bye);
    assert!(!client.is_done());
    tell(&mut client, hello.nonce, ServerKind::Refused(Refusal::Version(VERSION)));
    assert_eq!(client.error(), Some(ClientError::Version(VERSION)));
}

#[test]
fn a_server_that_lies_costs_no_memory() {
    let (mut client, mut out) = (client(), Vec::new());
    client.poll_transmit(at(0), &mut out);
    let nonce = FromClient::decode(&out).unwrap().nonce;
    let mut tell = |client: &mut Client, kind| {
        FromServer { nonce, kind }.encode(&mut out);
        client.receive(at(1), at(1), Ecn::NotEct, &out);
    };
    tell(&mut client, ServerKind::Cookie([1; 16]));
    assert!(client.is_running());
    for seq in [1 << 30, u32::MAX - 1, 1 << 20] {
        let report = thalweg_probe::wire::Report { seq, at: u64::MAX / 100 * 100, ecn: Ecn::Ce };
        let downward = thalweg_probe::wire::Downward {
            seq,
            sent: u64::MAX,
            arrivals: u32::MAX,
            first: u32::MAX,
            reports: vec![report],
            ..Default::default()
        };
        tell(&mut client, ServerKind::Probe(downward));
    }
    assert!(client.trace().down.is_empty() && client.trace().up.is_empty());
}

mod hostile {
    use proptest::prelude::*;
    use thalweg_probe::wire::{Downward, Report};
    use thalweg_probe::{Findings, Replay, Summary, Vantage, Way, answer, scenario};

    use super::*;

    /// Times that a clock may show, or that none does.
    fn time() -> impl Strategy<Value = u64> {
        prop_oneof![
            any::<u64>(),
            0..1_000_000_000u64,
            (0..5_000_000_000u64).prop_map(|ns| (1 << 40) + ns),
            Just(u64::MAX)
        ]
    }

    fn downward() -> impl Strategy<Value = Downward> {
        let seq = || prop_oneof![0..200u32, any::<u32>()];
        let report = (seq(), time(), 0..4u8).prop_map(|(seq, at, ecn)| Report { seq, at, ecn: Ecn::from_bits(ecn) });
        let reports = prop::collection::vec(report, 0..4);
        (seq(), time(), any::<u32>(), seq(), seq(), reports).prop_map(|(seq, sent, late, arrivals, first, reports)| {
            let late = Duration::from_micros(late.into());
            Downward { seq, sent, late, arrivals, first, reports }
        })
    }

    proptest! {
        #[test]
        fn whatever_a_server_says_is_analyzed(told in prop::collection::vec((downward(), 0..60u32, 0..10u8), 1..60)) {
            let config = ClientConfig { interval: 20 * MS, length: Some(3_000 * MS), marks: true, trains: true };
            let (mut client, mut out, mut now) = (Client::new(config, at(0), 5), Vec::new(), at(0));
            let mut nonce = 0;
            for (downward, wait, kind) in told {
                now += MS * wait;
                while client.poll_transmit(now, &mut out).is_some() {
                    nonce = FromClient::decode(&out).unwrap().nonce;
                }
                let kind = match kind {
                    0 => ServerKind::Bye,
                    1 | 2 => ServerKind::Cookie([7; 16]),
                    _ => ServerKind::Probe(downward),
                };
                FromServer { nonce, kind }.encode(&mut out);
                client.receive(now, now, Ecn::Ce, &out);
                if !client.is_running() {
                    FromServer { nonce, kind: ServerKind::Cookie([7; 16]) }.encode(&mut out);
                    client.receive(now, now, Ecn::Ce, &out);
                }
            }
            if let Some(findings) = Findings::of(client.trace()) {
                let mut replay = Replay::default();
                replay.add(&findings);
                let summary = Summary::of(findings);
                let _ = (answer(&summary, &Vantage::default()), scenario(&summary, ["a.csv", "b.csv"]));
                let _ = replay.text(Way::Up);
            }
        }
    }
}
