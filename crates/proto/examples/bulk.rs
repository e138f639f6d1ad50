//! Moves bytes between two connections in memory, real TLS, as fast as the CPU goes: for profilers and instruction
//! counts.
//!
//! `valgrind --tool=callgrind target/release/examples/bulk 20` counts the instructions of 20 MB; divide by the packets
//! printed.

use std::{error::Error, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use rustls::pki_types::UnixTime;
use thalweg_proto::{
    ClientConfig, Connection, DatagramMeta, Endpoint, EndpointConfig, Route, ServerConfig,
    crypto::deterministic::{DeterministicClient, DeterministicServer},
    streams::Dir,
    token::TokenKey,
};
use thalweg_recovery::Ecn;
use thalweg_units::Instant;

/// Delivers everything `from` has to say to `to`; both sides see batches of ten.
fn exchange(now: Instant, from: &mut Connection, to: &mut Connection, remote: SocketAddr, buf: &mut Vec<u8>) -> u64 {
    let mut packets = 0;
    while let Some(transmit) = from.poll_transmit(now, 10, buf) {
        let meta = DatagramMeta { remote, local_ip: None, ecn: transmit.ecn };
        for datagram in buf.chunks_mut(transmit.segment.unwrap_or(transmit.size)) {
            to.handle_datagram(now, &meta, datagram);
            packets += 1;
        }
    }
    packets
}

fn main() -> Result<(), Box<dyn Error>> {
    let megabytes: u64 = std::env::args().nth(1).map_or(Ok(100), |arg| arg.parse())?;
    let (client_addr, server_addr): (SocketAddr, SocketAddr) = ("10.0.0.1:1".parse()?, "10.0.0.2:443".parse()?);
    let date = UnixTime::since_unix_epoch(Duration::from_secs(1_767_225_600));
    let alpn: &[&[u8]] = &[b"bulk"];
    let client_config = ClientConfig::new(Arc::new(DeterministicClient::new([1; 32], alpn, date)?));
    let server_crypto = Arc::new(DeterministicServer::new([2; 32], alpn, date)?);
    let server_config = Arc::new(ServerConfig::new(server_crypto, Arc::new(TokenKey::new(&[3; 32]))));
    let mut clients = Endpoint::new(EndpointConfig::new([4; 32]), None);
    let mut servers = Endpoint::new(EndpointConfig::new([5; 32]), Some(server_config));

    let mut now = Instant::ZERO + Duration::from_secs(1);
    let (client_handle, mut client) = clients.connect(now, client_config, server_addr, "localhost")?;
    let mut buf = Vec::new();
    let first = client.poll_transmit(now, 1, &mut buf).ok_or("no first flight")?;
    let meta = DatagramMeta { remote: client_addr, local_ip: None, ecn: Ecn::NotEct };
    let mut reply = Vec::new();
    let Route::NewConnection(server_handle, mut server) = servers.handle(now, 0, &meta, &buf[..first.size], &mut reply)
    else {
        return Err("the server did not accept".into());
    };
    server.handle_datagram(now, &meta, &mut buf);

    let chunk = Bytes::from(vec![7u8; 1 << 20]);
    let total = megabytes << 20;
    let (mut left, mut read, mut packets) = (total as usize, 0u64, 0u64);
    let mut stream = None;
    loop {
        now += Duration::from_micros(100);
        for connection in [&mut client, &mut *server] {
            if connection.poll_timeout().is_some_and(|at| at <= now) {
                connection.handle_timeout(now);
            }
            while connection.poll_event().is_some() {}
        }
        if server.is_confirmed() && stream.is_none() {
            stream = server.streams().open(Dir::Uni);
        }
        if let Some(id) = stream {
            while left > 0 {
                let mut piece = chunk.slice(..chunk.len().min(left));
                let Ok(written) = server.streams().write_chunk(id, &mut piece) else { break };
                left -= written;
            }
            while client.streams().accept(Dir::Uni).is_some() {}
            while let Ok(Some(bytes)) = client.streams().read(id, 1 << 20) {
                read += bytes.len() as u64;
            }
            if read == total {
                break;
            }
        }
        packets += exchange(now, &mut server, &mut client, server_addr, &mut buf);
        packets += exchange(now, &mut client, &mut server, client_addr, &mut buf);
        servers.update(server_handle, &mut server);
        clients.update(client_handle, &mut client);
        if server.is_closed() || client.is_closed() {
            return Err(format!("closed: {:?} {:?}", server.error(), client.error()).into());
        }
    }
    let stats = server.stats();
    println!("{megabytes} MiB in {packets} datagrams of up to {} bytes; window {}", stats.mtu, stats.window);
    Ok(())
}
