//! Changes of a connection in use, and decisions about incoming connections.
#![allow(clippy::unwrap_used)]

use crate::common;

use std::time::Duration;

use bytes::Bytes;
use common::{ALPN, Identity, Pair, echo, pattern, within};
use thalweg::{
    AcceptError, ConnectError, Endpoint, EndpointBuilder, ReadError, StreamsConfig, SwitchError, TransportConfig,
};

#[tokio::test]
async fn policies_and_rate_change_in_the_middle_of_a_transfer() {
    within(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        tokio::spawn(echo(server.clone()));
        let (mut send, mut recv) = client.open_bi().await.unwrap();
        let data = pattern(4_000_000);
        let expected = data.clone();
        let reader = tokio::spawn(async move { recv.read_to_end(1 << 24).await.unwrap() });
        send.write_all(&data[..1_000_000]).await.unwrap();
        let mut policies = client.policies();
        policies.set("controller", "new-reno").unwrap();
        client.set_policies(policies.clone()).unwrap();
        assert_eq!(client.policies(), policies);
        client.set_max_rate(Some("400 Mbps".parse().unwrap()));
        assert_eq!(client.max_rate(), Some("400 Mbps".parse().unwrap()));
        send.write_all(&data[1_000_000..]).await.unwrap();
        client.set_max_rate(None);
        send.finish().unwrap();
        assert!(reader.await.unwrap() == expected);
        policies.set("rtt", "windowed").unwrap();
        assert!(matches!(client.set_policies(policies), Err(SwitchError::Measured { field: "rtt", .. })));
    })
    .await;
}

#[tokio::test]
async fn a_connection_at_rate_zero_goes_on_when_the_limit_is_lifted() {
    within(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        client.set_max_rate(Some(thalweg::Rate::ZERO));
        let mut send = client.open_uni().await.unwrap();
        let data = pattern(200_000);
        send.write_all(&data).await.unwrap();
        send.finish().unwrap();
        let reading = async { server.accept_uni().await.unwrap().read_to_end(1 << 20).await.unwrap() };
        let mut reading = std::pin::pin!(reading);
        assert!(tokio::time::timeout(Duration::from_millis(300), reading.as_mut()).await.is_err());
        client.set_max_rate(None);
        assert!(reading.await == data);
    })
    .await;
}

#[tokio::test]
async fn limits_on_streams_and_windows_change_at_run_time() {
    within(async {
        let streams = StreamsConfig {
            max_concurrent_bidi: 0,
            max_concurrent_uni: 1,
            receive_window: 1_000,
            max_receive_window: 1_000,
            send_window: 2_000,
            ..StreamsConfig::default()
        };
        let pair = Pair::transport(TransportConfig { streams, ..TransportConfig::default() });
        let (client, server) = pair.connect().await;
        let mut send = client.open_uni().await.unwrap();
        // Waits for a wider send window, then for a wider receive window.
        let data = pattern(300_000);
        let expected = data.clone();
        let writer = tokio::spawn(async move {
            send.write_all(&data).await.unwrap();
            send.finish().unwrap();
            send.stopped().await.unwrap()
        });
        client.set_send_window(1 << 20);
        server.set_receive_window(1 << 20);
        let mut recv = server.accept_uni().await.unwrap();
        assert!(recv.read_to_end(1 << 20).await.unwrap() == expected);
        assert_eq!(writer.await.unwrap(), None);
        let second = tokio::spawn({
            let client = client.clone();
            async move { client.open_bi().await.is_ok() }
        });
        server.set_max_concurrent_bidi_streams(1);
        assert!(second.await.unwrap());
        server.set_max_concurrent_uni_streams(3);
        let (one, two, three) = tokio::join!(client.open_uni(), client.open_uni(), client.open_uni());
        assert!(one.is_ok() && two.is_ok() && three.is_ok());
    })
    .await;
}

#[tokio::test]
async fn the_application_asks_a_client_to_prove_its_address() {
    within(async {
        let pair = Pair::new();
        let connecting = pair.client.connect(pair.address, "localhost").unwrap();
        let serving = async {
            let first = pair.server.accept().await.unwrap();
            assert!(!first.remote_address_validated());
            first.retry().unwrap();
            let second = pair.server.accept().await.unwrap();
            assert!(second.remote_address_validated());
            let refused = second.retry().unwrap_err();
            assert!(refused.to_string().contains("accept, refuse or ignore"));
            refused.into_incoming().await.unwrap()
        };
        let (client, server) = tokio::join!(connecting, serving);
        let (_client, _server) = (client.unwrap(), server);
        let stats = pair.server.stats();
        assert_eq!((stats.connections, stats.accepted, stats.refused), (1, 1, 0));
    })
    .await;
}

#[tokio::test]
async fn a_stream_is_read_out_of_order_and_no_other_way_afterwards() {
    within(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let data = pattern(500_000);
        let mut send = client.open_uni().await.unwrap();
        let expected = data.clone();
        let writer = tokio::spawn(async move {
            send.write_all(&data).await.unwrap();
            send.finish().unwrap();
            send.stopped().await.unwrap()
        });
        let mut recv = server.accept_uni().await.unwrap();
        let mut whole = vec![0; expected.len()];
        let mut count = 0;
        while let Some((offset, bytes)) = recv.read_unordered(10_000).await.unwrap() {
            if count == 0 {
                assert_eq!(recv.read_chunk(1).await, Err(ReadError::Unordered));
            }
            whole[offset as usize..offset as usize + bytes.len()].copy_from_slice(&bytes);
            count += bytes.len();
        }
        assert!(whole == expected && count == expected.len());
        assert_eq!(writer.await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn the_priority_of_a_stream_reads_back() {
    within(async {
        let pair = Pair::new();
        let (client, _server) = pair.connect().await;
        let mut send = client.open_uni().await.unwrap();
        assert_eq!(send.priority(), Ok(0));
        send.set_priority(-7).unwrap();
        assert_eq!(send.priority(), Ok(-7));
        send.reset(0).unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_datagram_of_the_space_left_is_queued_without_waiting() {
    within(async {
        let pair = Pair::new();
        let (client, _server) = pair.connect().await;
        let space = client.datagram_send_buffer_space();
        assert!(space > 1_000_000);
        client.set_max_rate(Some(thalweg::Rate::ZERO));
        while client.send_datagram(Bytes::from(vec![0; 1_000])).is_ok() {}
        let space = client.datagram_send_buffer_space();
        assert!(space > 0 && space < 1_000, "{space}");
        assert!(client.send_datagram(Bytes::from(vec![0; space + 1])).is_err());
        client.send_datagram(Bytes::from(vec![0; space])).unwrap();
        assert_eq!(client.datagram_send_buffer_space(), 0);
    })
    .await;
}

#[tokio::test]
async fn a_missing_configuration_has_an_error_of_its_own() {
    within(async {
        let endpoint = EndpointBuilder::new().bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let error = endpoint.connect("127.0.0.1:9".parse().unwrap(), "localhost").unwrap_err();
        assert_eq!(error, ConnectError::NoClientConfig);
        assert!(error.to_string().contains("connect_with") && error.to_string().contains("set_default_client_config"));
        let error = endpoint.next_incoming().await.unwrap_err();
        assert_eq!(error, AcceptError::NoServerConfig);
        assert!(error.to_string().contains("Endpoint::server") && error.to_string().contains("set_server_config"));
        endpoint.set_server_config(Some(&Identity::new().server()));
        assert!(tokio::time::timeout(Duration::from_millis(50), endpoint.next_incoming()).await.is_err());
        endpoint.close(0, b"");
        assert_eq!(endpoint.next_incoming().await.unwrap_err(), AcceptError::EndpointClosed);
        let client = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
        client.set_default_client_config(Identity::new().client());
        assert!(client.default_client_config().is_some());
        assert_eq!(ALPN, [b"test"]);
    })
    .await;
}
