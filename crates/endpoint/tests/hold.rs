//! What follows a handshake, held back until the application has had its first say.

use std::time::{Duration, Instant};

use thalweg::ConnectionError;

use crate::common::{Pair, within};

/// Longer than any test lasts.
const LONG: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn the_first_request_shares_a_datagram_with_the_end_of_the_handshake() {
    within(async {
        let pair = Pair::new();
        let connecting = pair.client.connect(pair.address, "localhost").unwrap().hold(LONG);
        let accepting = tokio::spawn(pair.server.accept().await.unwrap().accept());
        let client = connecting.await.unwrap();
        let handshake = pair.client.stats().datagrams_sent;
        for stream in 0..3 {
            client.open_uni().await.unwrap().write_all(&[stream; 20]).await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let (mut send, _) = client.open_bi().await.unwrap();
        send.write_all(b"request").await.unwrap();
        send.finish().unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!(pair.client.stats().datagrams_sent, handshake, "something left that was held back");
        assert!(!accepting.is_finished(), "the handshake ended without the client");
        client.release();
        let server = accepting.await.unwrap().unwrap();
        let (_, mut request) = server.accept_bi().await.unwrap();
        assert_eq!(request.read_to_end(100).await.unwrap(), b"request");
        // One for both; the others are acknowledgments of what the server said then.
        let requested = pair.client.stats().datagrams_sent - handshake;
        assert!((1..=4).contains(&requested), "{requested} datagrams");
    })
    .await;
}

#[tokio::test]
async fn what_is_held_back_leaves_after_the_longest_time() {
    within(async {
        let pair = Pair::new();
        let begun = Instant::now();
        let connecting = pair.client.connect(pair.address, "localhost").unwrap().hold(Duration::from_millis(150));
        let accepting = tokio::spawn(pair.server.accept().await.unwrap().accept());
        let client = connecting.await.unwrap();
        client.open_uni().await.unwrap().write_all(b"held").await.unwrap();
        let server = accepting.await.unwrap().unwrap();
        assert!(begun.elapsed() >= Duration::from_millis(150), "it left after {:?}", begun.elapsed());
        server.accept_uni().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn what_was_released_before_the_end_of_the_handshake_is_not_held() {
    within(async {
        let pair = Pair::new();
        let client = pair.client.connect(pair.address, "localhost").unwrap();
        let (server, _) = pair.server.accept().await.unwrap().accept().hold(LONG).into_0rtt().unwrap();
        server.release();
        let client = client.await.unwrap();
        server.handshake_complete().await.unwrap();
        server.open_uni().await.unwrap().write_all(b"at once").await.unwrap();
        client.accept_uni().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_connection_that_holds_back_closes_at_once() {
    within(async {
        let pair = Pair::new();
        let client = pair.client.connect(pair.address, "localhost").unwrap();
        let server = pair.server.accept().await.unwrap().accept().hold(LONG).await.unwrap();
        let client = client.await.unwrap();
        server.close(7, b"enough");
        assert!(matches!(client.closed().await, ConnectionError::PeerApplication { code: 7, .. }));
    })
    .await;
}
