//! An HTTP/3 server written down byte by byte (RFC 9114): what no server library would send can be sent.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use thalweg::{Connection, Endpoint, RecvStream, SendStream, ServerConfig, TransportConfig};
use thalweg_files::certificate::Identity;
use thalweg_files::client::{FetchOptions, Fetcher, Preference, Trust};

/// Frame types (RFC 9114 section 7.2).
pub const DATA: u64 = 0;
pub const HEADERS: u64 = 1;
const SETTINGS: u64 = 4;

/// Error codes (RFC 9114 section 8.1).
pub const H3_NO_ERROR: u64 = 0x100;
pub const H3_INTERNAL_ERROR: u64 = 0x102;
pub const H3_REQUEST_REJECTED: u64 = 0x10b;

/// Both sides of a request stream, and its connection.
pub struct Exchange {
    pub send: SendStream,
    pub recv: RecvStream,
    pub connection: Connection,
}

/// A running server.
pub struct RawServer {
    pub address: SocketAddr,
    identity: Identity,
    _endpoint: Endpoint,
}

impl RawServer {
    /// Calls `answer` for every request stream, each in a task of its own.
    pub fn new<F, T>(answer: F) -> Self
    where
        F: Fn(Exchange) -> T + Send + Sync + 'static,
        T: Future<Output = ()> + Send + 'static,
    {
        let identity = Identity::self_signed::<&str>(&[]).unwrap();
        let key = identity.key().clone_key();
        let mut transport = TransportConfig::default();
        // Uploads have to wait for the server, as they do where a proxy stands in between.
        transport.streams.stream_receive_window = 64 * 1024;
        transport.streams.max_stream_receive_window = 64 * 1024;
        let config = ServerConfig::with_single_cert(identity.chain().to_vec(), key, &[b"h3"]).unwrap();
        let config = config.transport(transport);
        let endpoint = Endpoint::server(config, "127.0.0.1:0".parse().unwrap()).unwrap();
        let address = endpoint.local_addr().unwrap();
        let (accepting, answer) = (endpoint.clone(), Arc::new(answer));
        tokio::spawn(async move {
            while let Some(incoming) = accepting.accept().await {
                let answer = Arc::clone(&answer);
                tokio::spawn(async move {
                    let Ok(connection) = incoming.await else { return };
                    let mut control = connection.open_uni().await.unwrap();
                    let mut settings = vec![0]; // the type of the control stream
                    frame(SETTINGS, &[], &mut settings);
                    control.write_all(&settings).await.unwrap();
                    while let Ok((send, recv)) = connection.accept_bi().await {
                        tokio::spawn(answer(Exchange { send, recv, connection: connection.clone() }));
                    }
                    drop(control);
                });
            }
        });
        Self { address, identity, _endpoint: endpoint }
    }

    pub fn url(&self, path: &str) -> String {
        format!("https://{}/{path}", self.address)
    }

    pub fn options(&self) -> FetchOptions {
        let mut options = FetchOptions::default();
        options.trust = Trust::Certificates(self.identity.chain().to_vec());
        options.preference = Preference::Quic;
        // What follows a script fails again.
        options.retries = 0;
        options
    }

    pub fn fetcher(&self) -> Fetcher {
        Fetcher::new(self.options()).unwrap()
    }
}

/// A variable-length integer (RFC 9000 section 16).
pub fn varint(value: u64, out: &mut Vec<u8>) {
    match value {
        0..=63 => out.push(value as u8),
        64..=16_383 => out.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        16_384..=0x3fff_ffff => out.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes()),
        _ => out.extend_from_slice(&(value | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

fn read_varint(data: &mut &[u8]) -> u64 {
    let length = 1 << (data[0] >> 6);
    let mut value = u64::from(data[0] & 0x3f);
    for byte in &data[1..length] {
        value = value << 8 | u64::from(*byte);
    }
    *data = &data[length..];
    value
}

/// A frame with its payload.
pub fn frame(kind: u64, payload: &[u8], out: &mut Vec<u8>) {
    varint(kind, out);
    varint(payload.len() as u64, out);
    out.extend_from_slice(payload);
}

/// The types and lengths of all frames of a stream.
pub fn frames(mut data: &[u8]) -> Vec<(u64, u64)> {
    let mut found = Vec::new();
    while !data.is_empty() {
        let kind = read_varint(&mut data);
        let length = read_varint(&mut data);
        found.push((kind, length));
        data = &data[length as usize..];
    }
    found
}

/// An integer of QPACK or HPACK with a prefix of `bits`, after the bits of `first` (RFC 7541 section 5.1).
pub fn prefixed(first: u8, bits: u32, value: usize, out: &mut Vec<u8>) {
    let full = (1usize << bits) - 1;
    if value < full {
        out.push(first | value as u8);
        return;
    }
    out.push(first | full as u8);
    let mut rest = value - full;
    while rest >= 128 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// A HEADERS frame in which every field is a literal (RFC 9204 section 4.5.6).
pub fn headers(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = vec![0, 0];
    for (name, value) in fields {
        prefixed(0x20, 3, name.len(), &mut block);
        block.extend_from_slice(name.as_bytes());
        prefixed(0, 7, value.len(), &mut block);
        block.extend_from_slice(value.as_bytes());
    }
    let mut out = Vec::new();
    frame(HEADERS, &block, &mut out);
    out
}

/// A whole answer: status, fields, body.
pub fn answer(status: &str, fields: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut all = vec![(":status", status)];
    all.extend_from_slice(fields);
    let mut out = headers(&all);
    if !body.is_empty() {
        frame(DATA, body, &mut out);
    }
    out
}
