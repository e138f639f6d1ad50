//! A client and a server, of either stack: what the scenarios do with them.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use noq::{FourTuple, PathError, PathStatus, VarInt};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::{Result, pattern};

/// Paths that each end permits.
const PATHS: u32 = 4;
/// After how long noq gives a path up by which nothing comes. By default it never does, and keeps sending by one that
/// is cut. Thalweg sends little by a path whose acknowledgments take another: a PING every three probe timeouts.
const NOQ_GIVES_UP: Duration = Duration::from_secs(3);
const PROTOCOL: &[u8] = b"several-paths";

/// Whose code an end runs.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Stack {
    /// This project's.
    Thalweg,
    /// noq's.
    Noq,
}

/// An end of a connection.
#[derive(Clone)]
pub enum Connected {
    /// On Thalweg.
    Thalweg(thalweg::Connection),
    /// On noq.
    Noq(noq::Connection),
}

/// Both ends of a connection, and what carries them.
pub struct Ends {
    /// Opens paths and downloads.
    pub client: Connected,
    /// Answers.
    pub server: Connected,
    _endpoints: Endpoints,
}

/// Where a server waits for the client.
pub struct Listening {
    endpoint: Endpoint,
    certificate: CertificateDer<'static>,
}

enum Endpoint {
    Thalweg(thalweg::Endpoint),
    Noq(noq::Endpoint),
}

type Endpoints = [Endpoint; 2];

impl Ends {
    /// A server on `stack`, on loopback.
    ///
    /// # Errors
    ///
    /// When it cannot be made.
    pub fn listen(stack: Stack) -> Result<(Listening, SocketAddr)> {
        let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
        let certificate = certified.cert.der().clone();
        let key = PrivateKeyDer::Pkcs8(certified.signing_key.serialize_der().into());
        let address = "127.0.0.1:0".parse()?;
        let (endpoint, address) = match stack {
            Stack::Thalweg => {
                let config = thalweg::ServerConfig::with_single_cert(vec![certificate.clone()], key, &[PROTOCOL])?;
                let builder = thalweg::EndpointBuilder::new().server(config.transport(thalweg_transport()));
                let endpoint = builder.bind(address)?;
                let address = endpoint.local_addr()?;
                (Endpoint::Thalweg(endpoint), address)
            }
            Stack::Noq => {
                let mut tls = rustls::ServerConfig::builder()
                    .with_no_client_auth()
                    .with_single_cert(vec![certificate.clone()], key)?;
                tls.alpn_protocols = vec![PROTOCOL.to_vec()];
                let crypto = noq::crypto::rustls::QuicServerConfig::try_from(tls)?;
                let mut config = noq::ServerConfig::with_crypto(Arc::new(crypto));
                config.transport_config(noq_transport());
                let endpoint = noq::Endpoint::server(config, address)?;
                let address = endpoint.local_addr()?;
                (Endpoint::Noq(endpoint), address)
            }
        };
        Ok((Listening { endpoint, certificate }, address))
    }

    /// A client on `stack` that connects to `remote`, behind which `listening` is; the server answers its downloads.
    ///
    /// # Errors
    ///
    /// When the handshake fails, or an end does not know that several paths were agreed upon.
    pub async fn connect(listening: Listening, stack: Stack, remote: SocketAddr) -> Result<Ends> {
        let client = match stack {
            Stack::Thalweg => {
                let config = thalweg::ClientConfig::with_root_certificates([listening.certificate], &[PROTOCOL])?;
                let builder = thalweg::EndpointBuilder::new().client(config.transport(thalweg_transport()));
                Endpoint::Thalweg(builder.bind("127.0.0.1:0".parse()?)?)
            }
            Stack::Noq => {
                let mut roots = rustls::RootCertStore::empty();
                roots.add(listening.certificate)?;
                let mut tls = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
                tls.alpn_protocols = vec![PROTOCOL.to_vec()];
                let crypto = noq::crypto::rustls::QuicClientConfig::try_from(tls)?;
                let mut config = noq::ClientConfig::new(Arc::new(crypto));
                config.transport_config(noq_transport());
                let endpoint = noq::Endpoint::client("127.0.0.1:0".parse()?)?;
                endpoint.set_default_client_config(config);
                Endpoint::Noq(endpoint)
            }
        };
        let (ours, theirs) = tokio::try_join!(client.connect(remote), listening.endpoint.accept())?;
        if !ours.is_multipath() || !theirs.is_multipath() {
            return Err("several paths were not agreed upon".into());
        }
        tokio::spawn(theirs.clone().answer());
        Ok(Ends { client: ours, server: theirs, _endpoints: [client, listening.endpoint] })
    }
}

impl Endpoint {
    async fn connect(&self, remote: SocketAddr) -> Result<Connected> {
        Ok(match self {
            Endpoint::Thalweg(endpoint) => Connected::Thalweg(endpoint.connect(remote, "localhost")?.await?),
            Endpoint::Noq(endpoint) => {
                let connection = endpoint.connect(remote, "localhost")?.await?;
                connection.handshake_confirmed().await?;
                Connected::Noq(connection)
            }
        })
    }

    async fn accept(&self) -> Result<Connected> {
        Ok(match self {
            Endpoint::Thalweg(endpoint) => Connected::Thalweg(endpoint.accept().await.ok_or("no client")?.await?),
            Endpoint::Noq(endpoint) => Connected::Noq(endpoint.accept().await.ok_or("no client")?.await?),
        })
    }
}

fn thalweg_transport() -> Arc<thalweg::TransportConfig> {
    let several = thalweg::MultipathConfig { max_paths: PATHS, ..thalweg::MultipathConfig::default() };
    Arc::new(thalweg::TransportConfig { multipath: Some(several), ..thalweg::TransportConfig::default() })
}

fn noq_transport() -> Arc<noq::TransportConfig> {
    let mut config = noq::TransportConfig::default();
    config.max_concurrent_multipath_paths(PATHS);
    config.default_path_max_idle_timeout(Some(NOQ_GIVES_UP));
    config.default_path_keep_alive_interval(Some(NOQ_GIVES_UP / 4));
    Arc::new(config)
}

impl Connected {
    fn is_multipath(&self) -> bool {
        match self {
            Connected::Thalweg(connection) => connection.is_multipath(),
            Connected::Noq(connection) => connection.is_multipath_enabled(),
        }
    }

    /// Client: opens a further path to `remote`, and returns its identifier once the server has answered there.
    ///
    /// # Errors
    ///
    /// When the stack says that there is no such path.
    pub async fn open_path(&self, remote: SocketAddr) -> Result<u32> {
        match self {
            Connected::Thalweg(connection) => Ok(connection.open_path(None, Some(remote)).await?.id().0),
            Connected::Noq(connection) => loop {
                match connection.open_path(FourTuple::from_remote(remote), PathStatus::Available).await {
                    // The server's connection IDs are still under way.
                    Err(PathError::RemoteCidsExhausted) => tokio::time::sleep(Duration::from_millis(1)).await,
                    path => {
                        let path = path?;
                        break (0..PATHS)
                            .find(|id| path.id() == (*id).into())
                            .ok_or_else(|| "more paths than permitted".into());
                    }
                }
            },
        }
    }

    /// Gives a path up.
    ///
    /// # Errors
    ///
    /// When the stack says that there is no such path.
    pub fn close_path(&self, id: u32) -> Result<()> {
        match self {
            Connected::Thalweg(connection) => {
                let paths = connection.paths();
                Ok(paths.iter().find(|path| path.id().0 == id).ok_or("no such path")?.close()?)
            }
            Connected::Noq(connection) => Ok(connection.path(id.into()).ok_or("no such path")?.close()?),
        }
    }

    /// The paths there are, and where their other end is.
    pub fn paths(&self) -> Vec<(u32, SocketAddr)> {
        match self {
            Connected::Thalweg(connection) => {
                let reports = connection.paths().into_iter().filter_map(|path| path.stats());
                reports.map(|report| (report.id.0, report.remote)).collect()
            }
            Connected::Noq(connection) => {
                (0..PATHS).filter_map(|id| Some((id, connection.path(id.into())?.remote_address().ok()?))).collect()
            }
        }
    }

    /// Changes the keys.
    ///
    /// # Errors
    ///
    /// When it is too early for that.
    pub fn update_keys(&self) -> Result<()> {
        match self {
            Connected::Thalweg(connection) if connection.force_key_update() => Ok(()),
            Connected::Thalweg(_) => Err("too early for other keys".into()),
            Connected::Noq(connection) => {
                connection.force_key_update();
                Ok(())
            }
        }
    }

    /// How often the keys have changed, if the stack counts it.
    pub fn key_updates(&self) -> Option<u64> {
        match self {
            Connected::Thalweg(connection) => Some(connection.stats().key_updates),
            Connected::Noq(_) => None,
        }
    }

    /// Closes the connection.
    pub fn close(&self) {
        match self {
            Connected::Thalweg(connection) => connection.close(0, b"done"),
            Connected::Noq(connection) => connection.close(VarInt::from_u32(0), b"done"),
        }
    }

    /// Why the connection has ended, if it has.
    pub fn ended(&self) -> Option<String> {
        match self {
            Connected::Thalweg(connection) => connection.close_reason().map(|reason| reason.to_string()),
            Connected::Noq(connection) => connection.close_reason().map(|reason| reason.to_string()),
        }
    }

    /// Client: asks for so many bytes.
    ///
    /// # Errors
    ///
    /// When the connection has ended.
    pub async fn download(&self, len: usize) -> Result<Download> {
        let asked = (len as u64).to_be_bytes();
        let stream = match self {
            Connected::Thalweg(connection) => {
                let (mut send, receive) = connection.open_bi().await?;
                send.write_all(&asked).await?;
                send.finish()?;
                Stream::Thalweg(receive)
            }
            Connected::Noq(connection) => {
                let (mut send, receive) = connection.open_bi().await?;
                send.write_all(&asked).await?;
                send.finish()?;
                Stream::Noq(receive)
            }
        };
        Ok(Download { stream, at: 0, len })
    }

    /// Server: sends what the client asks for, one download after the other, until the connection ends.
    async fn answer(self) -> Result<()> {
        loop {
            let mut asked = [0; 8];
            match &self {
                Connected::Thalweg(connection) => {
                    let (mut send, mut receive) = connection.accept_bi().await?;
                    receive.read_exact(&mut asked).await?;
                    send.write_all(&content(asked)).await?;
                    send.finish()?;
                }
                Connected::Noq(connection) => {
                    let (mut send, mut receive) = connection.accept_bi().await?;
                    receive.read_exact(&mut asked).await?;
                    send.write_all(&content(asked)).await?;
                    send.finish()?;
                }
            }
        }
    }
}

fn content(asked: [u8; 8]) -> Vec<u8> {
    (0..u64::from_be_bytes(asked) as usize).map(pattern).collect()
}

enum Stream {
    Thalweg(thalweg::RecvStream),
    Noq(noq::RecvStream),
}

/// A download under way.
pub struct Download {
    stream: Stream,
    at: usize,
    len: usize,
}

impl Download {
    /// Reads up to this share of it, and compares every byte.
    ///
    /// # Errors
    ///
    /// When the stream breaks, or something else comes than was sent.
    pub async fn read_to(&mut self, percent: usize) -> Result<()> {
        let until = self.len * percent / 100;
        while self.at < until {
            let chunk = self.chunk().await?.ok_or_else(|| format!("ends after {} of {} bytes", self.at, self.len))?;
            if let Some(wrong) = (self.at..).zip(&chunk).position(|(at, byte)| pattern(at) != *byte) {
                return Err(format!("byte {} is not what was sent", self.at + wrong).into());
            }
            self.at += chunk.len();
        }
        if percent == 100 && (self.at != self.len || self.chunk().await?.is_some()) {
            return Err(format!("more than {} bytes came", self.len).into());
        }
        Ok(())
    }

    async fn chunk(&mut self) -> Result<Option<Vec<u8>>> {
        let chunk = match &mut self.stream {
            Stream::Thalweg(stream) => stream.read_chunk(1 << 16).await?,
            Stream::Noq(stream) => stream.read_chunk(1 << 16).await?,
        };
        Ok(chunk.map(|bytes| bytes.to_vec()))
    }
}
