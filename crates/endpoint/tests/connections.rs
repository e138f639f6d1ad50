//! Connections from the first datagram to the last, over real sockets on loopback.
#![allow(clippy::unwrap_used)]

use crate::common;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use common::{Identity, Pair, echo, pattern, within};
use thalweg::{
    ConnectError, ConnectionError, Endpoint, EndpointBuilder, Limit, PathEvent, RetryPolicy, SendDatagramError,
    TransportConfig, Warning,
};

#[tokio::test]
async fn closing_tells_the_peer_code_and_reason() {
    within(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let waiting = tokio::spawn({
            let server = server.clone();
            async move { server.accept_bi().await.err() }
        });
        client.close(42, b"enough");
        let expected = ConnectionError::PeerApplication { code: 42, reason: Bytes::from_static(b"enough") };
        assert_eq!(server.closed().await, expected);
        assert_eq!(waiting.await.unwrap(), Some(expected));
        assert_eq!(client.closed().await, ConnectionError::LocallyClosed);
        assert_eq!(client.close_reason(), Some(ConnectionError::LocallyClosed));
        assert!(client.open_bi().await.is_err());
    })
    .await;
}

#[tokio::test]
async fn the_limits_say_what_kept_a_sender_from_sending() {
    within(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let mut send = client.open_uni().await.unwrap();
        send.write_all(&pattern(3_000_000)).await.unwrap();
        send.finish().unwrap();
        server.accept_uni().await.unwrap().read_to_end(4 << 20).await.unwrap();
        let busy = client.limits();
        assert!(busy.most().is_some());
        // From here on there is nothing to send.
        tokio::time::timeout(Duration::from_millis(300), server.accept_uni()).await.unwrap_err();
        let idle = client.limits().since(&busy);
        assert_eq!(idle.most(), Some(Limit::Application), "{idle:?}");
        assert!(idle.time(Limit::Application) >= Duration::from_millis(200), "{idle:?}");
    })
    .await;
}

#[tokio::test]
async fn dropping_every_handle_closes_with_code_0() {
    within(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let (send, recv) = client.open_bi().await.unwrap();
        drop(client);
        drop((send, recv));
        assert_eq!(server.closed().await, ConnectionError::PeerApplication { code: 0, reason: Bytes::new() });
    })
    .await;
}

#[tokio::test]
async fn dropping_every_handle_still_delivers_what_was_finished() {
    within(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let data = pattern(500_000);
        let mut send = client.open_uni().await.unwrap();
        send.write_all(&data).await.unwrap();
        send.finish().unwrap();
        drop((send, client));
        let received = server.accept_uni().await.unwrap().read_to_end(1 << 20).await.unwrap();
        assert!(received == data);
        assert!(matches!(server.closed().await, ConnectionError::PeerApplication { code: 0, .. }));
        pair.client.wait_idle().await;
    })
    .await;
}

#[tokio::test]
async fn a_graceful_close_waits_for_delivery() {
    within(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let data = pattern(3_000_000);
        let expected = data.clone();
        let reader = tokio::spawn(async move {
            let received = server.accept_uni().await.unwrap().read_to_end(1 << 24).await.unwrap();
            (received, server.closed().await)
        });
        let mut send = client.open_uni().await.unwrap();
        send.write_all(&data).await.unwrap();
        send.finish().unwrap();
        assert!(client.graceful_close(Duration::from_secs(60), 3, b"bye").await);
        let (received, closed) = reader.await.unwrap();
        assert!(received == expected);
        assert!(matches!(closed, ConnectionError::PeerApplication { code: 3, .. }));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_graceful_close_gives_up_in_time() {
    let mut transport = TransportConfig::default();
    transport.streams.stream_receive_window = 1000;
    transport.streams.max_stream_receive_window = 1000;
    let pair = Pair::transport(transport);
    let (client, server) = pair.connect().await;
    let mut send = client.open_uni().await.unwrap();
    // The peer never reads, so this cannot be delivered.
    send.write_all(&[0; 5000]).await.unwrap();
    send.finish().unwrap();
    assert!(!client.graceful_close(Duration::from_secs(5), 0, b"").await);
    server.closed().await;
}

#[tokio::test(start_paused = true)]
async fn silence_times_out_at_both_ends() {
    let pair = Pair::transport(TransportConfig {
        max_idle_timeout: Some(Duration::from_secs(20)),
        ..TransportConfig::default()
    });
    let (client, server) = pair.connect().await;
    let start = tokio::time::Instant::now();
    assert_eq!(client.closed().await, ConnectionError::TimedOut);
    assert_eq!(server.closed().await, ConnectionError::TimedOut);
    let passed = start.elapsed();
    assert!(passed >= Duration::from_secs(19) && passed < Duration::from_secs(30), "{passed:?}");
    drop((client, server));
    pair.client.wait_idle().await;
    pair.server.wait_idle().await;
}

#[tokio::test(start_paused = true)]
async fn a_keep_alive_holds_the_connection_open() {
    let pair = Pair::transport(TransportConfig {
        max_idle_timeout: Some(Duration::from_secs(20)),
        ..TransportConfig::default()
    });
    let (client, server) = pair.connect().await;
    client.set_keep_alive(Some(Duration::from_secs(5)));
    tokio::time::sleep(Duration::from_secs(200)).await;
    assert_eq!(client.close_reason(), None);
    assert_eq!(server.close_reason(), None);
    client.set_keep_alive(None);
    assert_eq!(server.closed().await, ConnectionError::TimedOut);
}

#[tokio::test]
async fn an_ipv4_socket_says_that_it_reaches_no_ipv6_address() {
    let client = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let config = Identity::new().client();
    let error = client.connect_with(&config, "[::1]:4433".parse().unwrap(), "localhost").unwrap_err();
    assert!(matches!(error, ConnectError::AddressFamily(_)), "{error}");
    assert!(error.to_string().contains("bind the endpoint to an IPv6 address"), "{error}");
}

#[tokio::test]
async fn a_server_can_refuse_and_ignore() {
    within(async {
        let pair = Pair::new();
        let connecting = pair.client.connect(pair.address, "localhost").unwrap();
        pair.server.accept().await.unwrap().refuse();
        let error = connecting.await.unwrap_err();
        assert!(
            matches!(&error, ConnectionError::PeerTransport { code, .. } if code.0 == 2),
            "CONNECTION_REFUSED, not {error:?}"
        );
        assert_eq!(pair.server.stats().refused, 1);

        let connecting = pair.client.connect(pair.address, "localhost").unwrap();
        pair.server.accept().await.unwrap().ignore();
        // The client asks again, as a new connection for the server.
        let (client, server) = tokio::join!(connecting, async { pair.server.accept().await.unwrap().await });
        client.unwrap();
        server.unwrap();
    })
    .await;
}

#[tokio::test]
async fn more_than_the_backlog_is_refused() {
    within(async {
        let pair = Pair::with(|server| server.backlog(2), |client| client);
        let connecting: Vec<_> = (0..5).map(|_| pair.client.connect(pair.address, "localhost").unwrap()).collect();
        let mut refused = 0;
        let mut tasks: Vec<_> = connecting.into_iter().map(|one| tokio::spawn(one)).collect();
        // Three are refused while nobody accepts.
        while refused < 3 {
            let (result, _, rest) = futures_select_all(tasks).await;
            tasks = rest;
            let error = result.unwrap_err();
            assert!(matches!(&error, ConnectionError::PeerTransport { code, .. } if code.0 == 2), "{error:?}");
            refused += 1;
        }
        for _ in 0..2 {
            pair.server.accept().await.unwrap().await.unwrap();
        }
        for task in tasks {
            task.await.unwrap().unwrap();
        }
    })
    .await;
}

/// Waits for the first task to finish; returns its result, its place, and the others.
async fn futures_select_all<T>(
    mut tasks: Vec<tokio::task::JoinHandle<T>>,
) -> (T, usize, Vec<tokio::task::JoinHandle<T>>) {
    let (result, place) = std::future::poll_fn(|cx| {
        for (place, task) in tasks.iter_mut().enumerate() {
            if let std::task::Poll::Ready(result) = std::pin::Pin::new(task).poll(cx) {
                return std::task::Poll::Ready((result.unwrap(), place));
            }
        }
        std::task::Poll::Pending
    })
    .await;
    tasks.remove(place);
    (result, place, tasks)
}

#[tokio::test]
async fn the_connection_limit_holds_and_frees() {
    within(async {
        let pair = Pair::with(|server| server.max_connections(1), |client| client);
        let (first, first_server) = pair.connect().await;
        let second = pair.client.connect(pair.address, "localhost").unwrap().await;
        assert!(matches!(second.unwrap_err(), ConnectionError::PeerTransport { code, .. } if code.0 == 2));
        first.close(0, b"");
        first_server.closed().await;
        pair.server.wait_idle().await;
        pair.connect().await;
    })
    .await;
}

#[tokio::test]
async fn a_closed_endpoint_neither_connects_nor_accepts() {
    within(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let accepting = tokio::spawn({
            let server = pair.server.clone();
            async move { server.accept().await.is_none() }
        });
        pair.server.close(7, b"shutdown");
        assert!(accepting.await.unwrap());
        assert_eq!(server.closed().await, ConnectionError::LocallyClosed);
        assert!(matches!(client.closed().await, ConnectionError::PeerApplication { code: 7, .. }));
        pair.client.close(0, b"");
        assert!(matches!(pair.client.connect(pair.address, "localhost"), Err(ConnectError::EndpointClosed)));
        pair.server.wait_idle().await;
        pair.client.wait_idle().await;
        assert_eq!(pair.server.stats().connections, 0);
    })
    .await;
}

#[tokio::test]
async fn closing_the_endpoint_refuses_whom_nobody_has_decided_about() {
    within(async {
        let pair = Pair::new();
        let queued = pair.client.connect(pair.address, "localhost").unwrap();
        let held = pair.client.connect(pair.address, "localhost").unwrap();
        let incoming = pair.server.accept().await.unwrap();
        while pair.server.stats().handshakes < 2 {
            tokio::task::yield_now().await;
        }
        pair.server.close(1, b"");
        for connecting in [queued, held] {
            let error = connecting.await.unwrap_err();
            assert!(matches!(&error, ConnectionError::PeerTransport { code, .. } if code.0 == 2), "{error:?}");
        }
        assert!(incoming.await.is_err());
        pair.server.wait_idle().await;
    })
    .await;
}

#[tokio::test]
async fn retry_proves_the_address() {
    within(async {
        let pair = Pair::with(|server| server.retry(RetryPolicy::Always), |client| client);
        let connecting = pair.client.connect(pair.address, "localhost").unwrap();
        let (client, server) = tokio::join!(connecting, async {
            let incoming = pair.server.accept().await.unwrap();
            assert!(incoming.remote_address_validated());
            assert_eq!(incoming.remote_address(), pair.client.local_addr().unwrap());
            incoming.await
        });
        client.unwrap();
        server.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_name_that_the_certificate_does_not_have_fails() {
    within(async {
        let pair = Pair::new();
        let connecting = pair.client.connect(pair.address, "elsewhere.example").unwrap();
        let serving = tokio::spawn({
            let server = pair.server.clone();
            async move { server.accept().await.unwrap().await.err() }
        });
        assert!(matches!(connecting.await.unwrap_err(), ConnectionError::Transport(_)));
        assert!(matches!(serving.await.unwrap(), Some(ConnectionError::PeerTransport { .. })));
        assert!(matches!(pair.client.connect(pair.address, "not a name"), Err(ConnectError::Start(_))));
    })
    .await;
}

#[tokio::test]
async fn a_second_connection_resumes_and_sends_0rtt() {
    within(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        assert!(!client.resumed());
        tokio::spawn(echo(server));
        // The ticket travels before the echo.
        let (mut send, mut recv) = client.open_bi().await.unwrap();
        send.write_all(b"first").await.unwrap();
        send.finish().unwrap();
        recv.read_to_end(10).await.unwrap();
        client.close(0, b"");

        let connecting = pair.client.connect(pair.address, "localhost").unwrap();
        let Ok((client, accepted)) = connecting.into_0rtt() else { panic!("no session to resume") };
        let (mut send, mut recv) = client.open_bi().await.unwrap();
        send.write_all(b"early").await.unwrap();
        send.finish().unwrap();
        let server = pair.server.accept().await.unwrap().await.unwrap();
        tokio::spawn(echo(server));
        assert_eq!(recv.read_to_end(10).await.unwrap(), b"early");
        assert!(accepted.await);
        assert!(client.resumed());
    })
    .await;
}

#[tokio::test]
async fn rejected_0rtt_data_are_sent_again() {
    within(async {
        let identity = Identity::new();
        let pair = Pair::new();
        pair.server.set_server_config(Some(&identity.server()));
        let config = identity.client();
        let connecting = pair.client.connect_with(&config, pair.address, "localhost").unwrap();
        let (client, server) = tokio::join!(connecting, async { pair.server.accept().await.unwrap().await });
        let (client, server) = (client.unwrap(), server.unwrap());
        tokio::spawn(echo(server));
        let (mut send, mut recv) = client.open_bi().await.unwrap();
        send.write_all(b"first").await.unwrap();
        send.finish().unwrap();
        recv.read_to_end(10).await.unwrap();
        client.close(0, b"");

        // A new configuration has forgotten the session.
        pair.server.set_server_config(Some(&identity.server()));
        let connecting = pair.client.connect_with(&config, pair.address, "localhost").unwrap();
        let Ok((client, accepted)) = connecting.into_0rtt() else { panic!("no session to resume") };
        let (mut send, mut recv) = client.open_bi().await.unwrap();
        send.write_all(b"early").await.unwrap();
        send.finish().unwrap();
        let server = pair.server.accept().await.unwrap().await.unwrap();
        tokio::spawn(echo(server));
        assert_eq!(recv.read_to_end(10).await.unwrap(), b"early");
        assert!(!accepted.await);
    })
    .await;
}

#[tokio::test]
async fn a_new_certificate_is_shown_to_new_connections() {
    within(async {
        let pair = Pair::new();
        let (old, _old_server) = pair.connect().await;
        let renewed = Identity::new();
        pair.server.set_server_config(Some(&renewed.server()));
        let connecting = pair.client.connect_with(&renewed.client(), pair.address, "localhost").unwrap();
        let (new, server) = tokio::join!(connecting, async { pair.server.accept().await.unwrap().await });
        let (new, _server) = (new.unwrap(), server.unwrap());
        assert_eq!(new.peer_certificates().unwrap(), [renewed.certificate]);
        // The old connection goes on.
        assert_eq!(old.close_reason(), None);
    })
    .await;
}

#[tokio::test]
async fn datagrams_go_both_ways() {
    within(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let most = client.max_datagram_size().unwrap();
        assert!(most > 1100 && most < 65_536, "{most}");
        client.send_datagram(Bytes::from_static(b"ping")).unwrap();
        assert_eq!(server.read_datagram().await.unwrap(), &b"ping"[..]);
        server.send_datagram_wait(Bytes::from_static(b"pong")).await.unwrap();
        assert_eq!(client.read_datagram().await.unwrap(), &b"pong"[..]);
        let max = client.max_datagram_size().unwrap();
        assert!(matches!(
            client.send_datagram(Bytes::from(vec![0; 65_000])),
            Err(SendDatagramError::TooLarge(limit)) if limit >= max.min(1100)
        ));
    })
    .await;
}

#[tokio::test]
async fn datagrams_can_be_turned_off() {
    within(async {
        let pair = Pair::with(
            |server| {
                let mut transport = TransportConfig::default();
                transport.datagrams.max_frame_size = 0;
                server.transport(transport)
            },
            |client| client,
        );
        let (client, _server) = pair.connect().await;
        assert_eq!(client.max_datagram_size(), None);
        assert_eq!(client.send_datagram(Bytes::from_static(b"x")), Err(SendDatagramError::UnsupportedByPeer));
    })
    .await;
}

#[tokio::test]
async fn exported_keying_material_agrees() {
    within(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let (mut ours, mut theirs) = ([0; 32], [0; 32]);
        client.export_keying_material(&mut ours, b"EXPERIMENTAL", b"context").unwrap();
        server.export_keying_material(&mut theirs, b"EXPERIMENTAL", b"context").unwrap();
        assert_eq!(ours, theirs);
        assert_ne!(ours, [0; 32]);
    })
    .await;
}

#[tokio::test]
async fn a_rebound_client_keeps_its_connection() {
    within(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let mut events = server.path_events();
        let before = server.remote_address();
        tokio::spawn(echo(server.clone()));
        let (mut send, mut recv) = client.open_bi().await.unwrap();
        send.write_all(b"here").await.unwrap();
        let mut four = [0; 4];
        recv.read_exact(&mut four).await.unwrap();
        pair.client.rebind(std::net::UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
        send.write_all(b"away").await.unwrap();
        recv.read_exact(&mut four).await.unwrap();
        assert_eq!(&four, b"away");
        loop {
            if let PathEvent::Changed { remote } = events.next().await.unwrap() {
                assert_ne!(remote, before);
                assert_eq!(remote, pair.client.local_addr().unwrap());
                break;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn an_endpoint_for_one_connection_tells_it_by_its_socket_and_follows_every_change_of_address() {
    within(async {
        let pair = Pair::new();
        let builder = EndpointBuilder::new().client(default_client(&pair.client)).one_connection();
        let endpoint = builder.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        endpoint.set_server_config(Some(&Identity::new().server()));
        assert!(endpoint.warnings().contains(&Warning::CannotServe), "it could not tell its clients apart");
        for _ in 0..2 {
            let (client, server) = tokio::join!(endpoint.connect(pair.address, "localhost").unwrap(), async {
                pair.server.accept().await.unwrap().await.unwrap()
            });
            let client = client.unwrap();
            let refused = endpoint.connect(pair.address, "localhost").map(drop);
            assert!(matches!(refused, Err(ConnectError::TooManyConnections(1))), "{refused:?}");
            tokio::spawn(echo(server));
            let (mut send, mut recv) = client.open_bi().await.unwrap();
            for _ in 0..20 {
                endpoint.rebind(std::net::UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
                send.write_all(b"here").await.unwrap();
                let mut four = [0; 4];
                recv.read_exact(&mut four).await.unwrap();
                assert_eq!(&four, b"here");
            }
            client.close(0, b"");
            endpoint.wait_idle().await;
        }
    })
    .await;
}

/// Passes datagrams between one client and `server` while `open` says so.
async fn relay(server: std::net::SocketAddr, open: tokio::sync::watch::Receiver<bool>) -> std::net::SocketAddr {
    let front = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let back = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = front.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut up, mut down) = (vec![0; 65_536], vec![0; 65_536]);
        let mut client = None;
        loop {
            tokio::select! {
                Ok((len, from)) = front.recv_from(&mut up) => {
                    client = Some(from);
                    let passes = *open.borrow();
                    if passes {
                        let _ = back.send_to(&up[..len], server).await;
                    }
                }
                Ok((len, _)) = back.recv_from(&mut down) => {
                    let passes = *open.borrow();
                    if let (Some(client), true) = (client, passes) {
                        let _ = front.send_to(&down[..len], client).await;
                    }
                }
            }
        }
    });
    address
}

#[tokio::test]
async fn a_path_that_goes_silent_and_comes_back_is_reported_and_loses_nothing() {
    within(async {
        let pair = Pair::new();
        let (switch, open) = tokio::sync::watch::channel(true);
        let (client, server) = pair.connect_to(relay(pair.address, open).await).await;
        let mut events = client.path_events();
        tokio::spawn(echo(server));
        let (mut send, mut recv) = client.open_bi().await.unwrap();
        let mut four = [0; 4];
        send.write_all(b"open").await.unwrap();
        recv.read_exact(&mut four).await.unwrap();

        switch.send(false).unwrap();
        send.write_all(b"hush").await.unwrap();
        loop {
            if let PathEvent::Suspended { silence } = events.next().await.unwrap() {
                assert!(silence < Duration::from_secs(10), "{silence:?}");
                break;
            }
        }
        switch.send(true).unwrap();
        recv.read_exact(&mut four).await.unwrap();
        assert_eq!(&four, b"hush");
        loop {
            if let PathEvent::Resumed { .. } = events.next().await.unwrap() {
                break;
            }
        }
        client.close(0, b"");
        while events.next().await.is_some() {}
    })
    .await;
}

#[tokio::test]
async fn the_path_mtu_is_found_and_reported() {
    within(async {
        let pair = Pair::new();
        let connecting = pair.client.connect(pair.address, "localhost").unwrap();
        let incoming = pair.server.accept().await.unwrap();
        let server = incoming.accept();
        // Usable before the handshake is complete, so that the subscription comes before the first probe.
        let Ok((server, _)) = server.into_0rtt() else { panic!("a server's connection can always be used early") };
        let mut events = server.path_events();
        let client = connecting.await.unwrap();
        // Larger datagrams are of use to who has something to send.
        let mut stream = server.open_uni().await.unwrap();
        stream.write_all(&[0; 20_000]).await.unwrap();
        loop {
            if let PathEvent::Mtu { size } = events.next().await.unwrap() {
                assert!(size > 1200, "{size}");
                assert_eq!(server.stats().mtu, size);
                break;
            }
        }
        drop(client);
    })
    .await;
}

#[tokio::test]
async fn who_asks_how_large_a_datagram_may_be_has_larger_ones_looked_for() {
    within(async {
        let pair = Pair::new();
        let (client, _server) = pair.connect().await;
        let mut events = client.path_events();
        let before = client.max_datagram_size().unwrap();
        loop {
            if let PathEvent::Mtu { .. } = events.next().await.unwrap() {
                break;
            }
        }
        assert!(client.max_datagram_size().unwrap() > before);
    })
    .await;
}

#[tokio::test]
async fn closing_after_the_last_byte_still_acknowledges_it() {
    within(async {
        for _ in 0..20 {
            let pair = Pair::new();
            let (client, server) = pair.connect().await;
            let reading = tokio::spawn(async move {
                server.accept_uni().await.unwrap().read_to_end(100_000).await.unwrap();
                // Dropping the connection closes it.
            });
            let mut send = client.open_uni().await.unwrap();
            send.write_all(&[5; 100_000]).await.unwrap();
            send.finish().unwrap();
            assert_eq!(send.stopped().await, Ok(None));
            reading.await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn a_connection_closed_right_after_its_handshake_can_still_be_read() {
    within(async {
        let pair = Pair::new();
        let client = pair.client.connect(pair.address, "localhost").unwrap();
        let server = pair.server.accept().await.unwrap().accept();
        let client = client.await.unwrap();
        let mut send = client.open_uni().await.unwrap();
        send.write_all(b"last words").await.unwrap();
        send.finish().unwrap();
        send.stopped().await.unwrap();
        client.close(9, b"");
        let server = server.await.unwrap();
        assert_eq!(server.accept_uni().await.unwrap().read_to_end(20).await.unwrap(), b"last words");
        assert!(matches!(server.accept_uni().await, Err(ConnectionError::PeerApplication { code: 9, .. })));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_keep_their_worker_when_clients_move() {
    within(async {
        let pair = Pair::on("127.0.0.1:0", 2, |server| server, |client| client);
        assert_eq!(pair.server.stats().workers, 2);
        let server = pair.server.clone();
        let serving = tokio::spawn(async move {
            let mut connections = Vec::new();
            while connections.len() < 40 {
                let connection = server.accept().await.unwrap().await.unwrap();
                tokio::spawn(echo(connection.clone()));
                connections.push(connection);
            }
            connections
        });
        let identity_client = pair.client.clone();
        let mut clients = Vec::new();
        for _ in 0..40 {
            // Sockets of their own, so that the kernel spreads them over both workers.
            let endpoint = EndpointBuilder::new().bind("127.0.0.1:0".parse().unwrap()).unwrap();
            let config = default_client(&identity_client);
            let connection = endpoint.connect_with(&config, pair.address, "localhost").unwrap().await.unwrap();
            clients.push((endpoint, connection));
        }
        let servers = serving.await.unwrap();
        let workers: Vec<_> = servers.iter().map(|connection| connection.worker()).collect();
        assert!(workers.contains(&0) && workers.contains(&1), "{workers:?}");

        // Everybody moves, several times, so that half of the datagrams reach the wrong worker's socket.
        for round in 0..4u8 {
            for (endpoint, connection) in &clients {
                endpoint.rebind(std::net::UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
                let (mut send, mut recv) = connection.open_bi().await.unwrap();
                send.write_all(&[round; 100]).await.unwrap();
                send.finish().unwrap();
                assert_eq!(recv.read_to_end(100).await.unwrap(), [round; 100]);
            }
        }
        let after: Vec<_> = servers.iter().map(|connection| connection.worker()).collect();
        assert_eq!(workers, after);
        let stats = pair.server.stats();
        assert!(stats.forwarded > 0, "{stats:?}");
        assert_eq!(stats.forward_dropped, 0, "{stats:?}");
        assert!(servers.iter().all(|connection| connection.close_reason().is_none()));
    })
    .await;
}

fn default_client(endpoint: &Endpoint) -> thalweg::ClientConfig {
    endpoint.default_client_config().unwrap()
}

#[tokio::test]
async fn the_end_of_the_runtime_releases_whoever_waits() {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let connection = runtime.block_on(async {
            let pair = Pair::new();
            let (client, _server) = pair.connect().await;
            client
        });
        // Sockets, drivers and endpoints are gone with the runtime.
        drop(runtime);
        let _ = sender.send(connection.close_reason());
    });
    let reason = tokio::task::spawn_blocking(move || receiver.recv_timeout(Duration::from_secs(60))).await.unwrap();
    assert!(reason.unwrap().is_some());
}

#[tokio::test]
async fn warnings_name_the_remedy() {
    let endpoint = EndpointBuilder::new().socket_buffer(1 << 30).bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let warnings = endpoint.warnings();
    assert!(!warnings.is_empty(), "a gigabyte of socket buffer was granted?");
    if cfg!(target_os = "linux") {
        assert!(warnings.iter().any(|warning| warning.to_string().contains("sysctl -w net.core.rmem_max=")));
    }
}

#[tokio::test]
async fn a_key_update_goes_unnoticed() {
    within(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        tokio::spawn(echo(server));
        let (mut send, mut recv) = client.open_bi().await.unwrap();
        let mut updates = 0;
        for round in 0..20u8 {
            send.write_all(&[round; 5000]).await.unwrap();
            let mut back = [0; 5000];
            recv.read_exact(&mut back).await.unwrap();
            assert_eq!(back, [round; 5000]);
            updates += u32::from(client.force_key_update());
        }
        assert!(updates >= 1);
    })
    .await;
}

#[tokio::test]
async fn an_observer_sees_packets() {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use thalweg::{
        proto::observe::{ObservedConnection, Observer, ObserverEvent, ObserverFactory},
        recovery::Ecn,
    };

    #[derive(Debug, Default)]
    struct Counter(Arc<AtomicUsize>);
    impl ObserverFactory for Counter {
        fn build(&self, _: &ObservedConnection<'_>) -> Option<Box<dyn Observer>> {
            Some(Box::new(Tally(self.0.clone())))
        }
    }
    struct Tally(Arc<AtomicUsize>);
    impl Observer for Tally {
        fn on_event(&mut self, _: thalweg::Instant, event: &ObserverEvent<'_>) {
            if let ObserverEvent::PacketReceived { .. } = event {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
    within(async {
        let counter = Counter::default();
        let seen = counter.0.clone();
        let pair = Pair::transport(TransportConfig { observer: Some(Arc::new(counter)), ..TransportConfig::default() });
        let _connections = pair.connect().await;
        assert!(seen.load(Ordering::Relaxed) >= 4);
        assert_eq!(Ecn::from_bits(0b10), Ecn::Ect0);
    })
    .await;
}
