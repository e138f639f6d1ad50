//! Several paths at once over real sockets on loopback, which has more than one address.
#![allow(clippy::unwrap_used)]

use crate::common;

use std::{net::IpAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use common::{Identity, digest, pattern, within};
use thalweg::{
    ClosePathError, Connection, DataSpace, Endpoint, EndpointBuilder, MultipathConfig, OpenPathError, Path, PinError,
    TransportConfig,
};

fn transport(wants_several: bool) -> Arc<TransportConfig> {
    let multipath = wants_several.then(MultipathConfig::default);
    Arc::new(TransportConfig { multipath, ..TransportConfig::default() })
}

/// A connection between a server at 127.0.0.1 and a client on all addresses, with the endpoints that carry it.
async fn connect(client: bool, server: bool) -> (Connection, Connection, [Endpoint; 2]) {
    let identity = Identity::new();
    let server_config = identity.server().transport(transport(server));
    let server = EndpointBuilder::new().server(server_config).bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let client_config = identity.client().transport(transport(client));
    let client = EndpointBuilder::new().client(client_config).bind("0.0.0.0:0".parse().unwrap()).unwrap();
    let connecting = client.connect(server.local_addr().unwrap(), "localhost").unwrap();
    let (ours, theirs) = tokio::join!(connecting, async { server.accept().await.unwrap().await });
    (ours.unwrap(), theirs.unwrap(), [client, server])
}

fn second() -> Option<IpAddr> {
    Some("127.0.0.2".parse().unwrap())
}

async fn download(client: &Connection, server: &Connection, len: usize) {
    let data = pattern(len);
    let expected = digest(&data);
    let sender = server.clone();
    let sending = tokio::spawn(async move {
        let mut send = sender.open_uni().await.unwrap();
        send.write_all(&data).await.unwrap();
        send.finish().unwrap();
        let _ = send.stopped().await;
    });
    let received = client.accept_uni().await.unwrap().read_to_end(len + 1).await.unwrap();
    assert!(digest(&received) == expected);
    sending.await.unwrap();
}

#[tokio::test]
async fn a_download_takes_two_addresses_of_loopback() {
    within(async {
        let (client, server, _endpoints) = connect(true, true).await;
        assert!(client.is_multipath() && server.is_multipath());
        let path = client.open_path(second(), None).await.unwrap();
        assert_eq!(path.id().0, 1);
        download(&client, &server, 20_000_000).await;
        let sent: Vec<_> =
            server.paths().iter().filter_map(|path| path.stats()).map(|it| it.stats.bytes_sent).collect();
        assert_eq!(sent.len(), 2);
        assert!(sent.iter().all(|bytes| *bytes > 100_000), "{sent:?}");
        assert_eq!(server.paths()[1].stats().unwrap().remote.ip(), second().unwrap());
    })
    .await;
}

#[tokio::test]
async fn a_stream_and_a_datagram_take_the_path_that_they_are_pinned_to() {
    within(async {
        let (client, server, _endpoints) = connect(true, true).await;
        let path = client.open_path(second(), None).await.unwrap();
        let sent = |path: &Path| path.stats().unwrap().stats.bytes_sent;
        let first = client.paths()[0].clone();
        let before = (sent(&first), sent(&path));
        let mut send = client.open_uni().await.unwrap();
        send.set_path(Some(path.id())).unwrap();
        send.write_all(&pattern(1_000_000)).await.unwrap();
        send.finish().unwrap();
        let mut received = server.accept_uni().await.unwrap();
        assert_eq!(received.read_to_end(1_000_001).await.unwrap().len(), 1_000_000);
        let after = (sent(&first), sent(&path));
        assert!(after.1 - before.1 > 1_000_000 && after.0 - before.0 < 100_000, "{before:?} {after:?}");
        path.send_datagram(Bytes::from_static(b"on the second")).unwrap();
        assert_eq!(server.read_datagram().await.unwrap(), &b"on the second"[..]);
        assert_eq!(send.set_path(Some(DataSpace(9))), Err(PinError::NoSuchPath));
    })
    .await;
}

#[tokio::test]
async fn a_path_leaves_by_the_socket_that_was_added_for_it() {
    within(async {
        let identity = Identity::new();
        let server_config = identity.server().transport(transport(true));
        let server = EndpointBuilder::new().server(server_config).bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let client_config = identity.client().transport(transport(true));
        let client = EndpointBuilder::new().client(client_config).bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let connecting = client.connect(server.local_addr().unwrap(), "localhost").unwrap();
        let (ours, theirs) = tokio::join!(connecting, async { server.accept().await.unwrap().await });
        let (ours, theirs) = (ours.unwrap(), theirs.unwrap());
        for wrong in ["0.0.0.0:0", "[::1]:0"] {
            let Ok(socket) = std::net::UdpSocket::bind(wrong) else { continue };
            let error = client.add_socket(socket).unwrap_err();
            assert!(error.to_string().contains("needs an address of its own"), "{error}");
        }
        // A second socket for an address takes the place of the first.
        for _ in 0..2 {
            let socket = std::net::UdpSocket::bind("127.0.0.2:0").unwrap();
            let address = socket.local_addr().unwrap();
            assert_eq!(client.add_socket(socket).unwrap(), address.ip());
            let path = ours.open_path(second(), None).await.unwrap();
            let seen = theirs.paths().iter().filter_map(|path| path.stats()).find(|it| it.id == path.id()).unwrap();
            assert_eq!(seen.remote, address);
            assert!(ours.paths()[0].set_backup(true));
            download(&ours, &theirs, 5_000_000).await;
            let received = path.stats().unwrap().bytes_received;
            assert!(received > 2_000_000, "{received} bytes by the socket that was added");
            path.close().unwrap();
            while ours.paths().len() > 1 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        download(&theirs, &ours, 1_000_000).await;
    })
    .await;
}

#[tokio::test]
async fn the_first_path_is_given_up_and_the_second_goes_on() {
    within(async {
        let (client, server, _endpoints) = connect(true, true).await;
        client.open_path(second(), None).await.unwrap();
        let [first, second] = &client.paths()[..] else { panic!() };
        first.close().unwrap();
        assert_eq!(second.close(), Err(ClosePathError::LastPath));
        download(&client, &server, 3_000_000).await;
        while server.paths().len() > 1 || client.paths().len() > 1 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(client.paths()[0].id().0, 1);
        assert!(first.stats().is_none());
        download(&client, &server, 100_000).await;
    })
    .await;
}

#[tokio::test]
async fn one_path_at_a_time_unless_both_ends_ask_for_more() {
    within(async {
        for (client, server) in [(true, false), (false, true)] {
            let (client, server, _endpoints) = connect(client, server).await;
            assert!(!client.is_multipath() && !server.is_multipath());
            assert_eq!(client.open_path(second(), None).await.unwrap_err(), OpenPathError::NotNegotiated);
            download(&client, &server, 100_000).await;
        }
    })
    .await;
}
