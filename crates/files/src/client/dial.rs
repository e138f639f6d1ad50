//! From an authority to a connection: addresses, QUIC first, TCP when UDP does not get through.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustls::pki_types::ServerName;
use thalweg::proto::crypto::tls_words::tls_error_words;
use tokio::time::{Instant, sleep, timeout};

use super::error::{Attempt, Error};
use super::quic::{Failure, Quic};
use super::race::{STAGGER, interleave, race};
use super::report::{EventSinkRef, Notice};
use super::session::{Session, chain};
use super::trust::ClientTls;
use super::url::Location;

/// Which transports to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Preference {
    /// QUIC, and TCP when UDP does not get through.
    #[default]
    Auto,
    /// QUIC only.
    Quic,
    /// TCP only.
    Tcp,
}

/// Opens connections.
pub(super) struct Dialer {
    pub tls: ClientTls,
    pub quic: Quic,
    pub preference: Preference,
    /// Time for everything.
    pub connect_timeout: Duration,
    /// Time QUIC has for itself before TCP is tried beside it.
    pub quic_patience: Duration,
    /// Longest silence in an exchange.
    pub idle_timeout: Duration,
    /// Receive window over TCP under a rate limit, bytes.
    pub tcp_window: Option<u64>,
    /// Addresses given by hand, by host name in lower case.
    pub addresses: BTreeMap<String, Vec<IpAddr>>,
}

type QuicFailures = Vec<(SocketAddr, Failure)>;
type TcpFailures = Vec<(SocketAddr, std::io::Error)>;

impl Dialer {
    /// With `early`, a QUIC session that is remembered may be used before its handshake is complete.
    pub(super) async fn dial(&self, location: &Location, sink: &EventSinkRef, early: bool) -> Result<Session, Error> {
        let began = Instant::now();
        let name = location.server_name()?;
        let addresses = self.resolve(location).await?;
        let resolve = began.elapsed();
        let authority = location.authority();
        let attempt = Dial {
            dialer: self,
            addresses: &addresses,
            name,
            authority: &authority,
            sink,
            heard: Arc::default(),
            early,
        };
        let dialing = async {
            match self.preference {
                Preference::Auto => attempt.auto().await,
                Preference::Quic => attempt.quic().await.map_err(|failed| attempt.failed(failed, Vec::new())),
                Preference::Tcp => attempt.tcp().await.map_err(|failed| attempt.failed(Vec::new(), failed)),
            }
        };
        let mut session = match timeout(self.connect_timeout, dialing).await {
            Ok(result) => result?,
            Err(_) => {
                let why = format!("no answer within {:.0} s", self.connect_timeout.as_secs_f64());
                let transport = if self.preference == Preference::Tcp { "TCP" } else { "QUIC" };
                let attempts =
                    addresses.iter().map(|address| Attempt { address: *address, transport, why: why.clone() });
                return Err(Error::Connect { authority, attempts: attempts.collect() });
            }
        };
        session.resolve = resolve;
        session.handshake = began.elapsed() - resolve;
        Ok(session)
    }

    async fn resolve(&self, location: &Location) -> Result<Vec<SocketAddr>, Error> {
        let host = location.host.as_str();
        let port = location.port;
        if let Some(addresses) = self.addresses.get(host) {
            return Ok(addresses.iter().map(|ip| SocketAddr::new(*ip, port)).collect());
        }
        if let Ok(ip) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(ip, port)]);
        }
        let fail = |why: String| Error::Resolve { host: host.to_owned(), why };
        let lookup = tokio::net::lookup_host((host, port));
        let found = timeout(self.connect_timeout, lookup)
            .await
            .map_err(|_| fail("the name server does not answer".into()))?
            .map_err(|error| fail(error.to_string()))?;
        let addresses = interleave(found);
        if addresses.is_empty() {
            return Err(fail("it has none".into()));
        }
        Ok(addresses)
    }
}

/// One connection being made.
struct Dial<'a> {
    dialer: &'a Dialer,
    addresses: &'a [SocketAddr],
    name: ServerName<'static>,
    authority: &'a str,
    sink: &'a EventSinkRef,
    /// Whether any QUIC attempt got a datagram back.
    heard: Arc<AtomicBool>,
    early: bool,
}

impl Dial<'_> {
    fn quic(&self) -> impl Future<Output = Result<Session, QuicFailures>> {
        let quic = self.dialer.quic.clone();
        let name = self.name.to_str().into_owned();
        let addresses = self.addresses.to_vec();
        let heard = Arc::clone(&self.heard);
        let (early, sink) = (self.early, self.sink.clone());
        async move {
            let won = race(&addresses, STAGGER, |address| {
                let (quic, name, heard, sink) = (quic.clone(), name.clone(), Arc::clone(&heard), sink.clone());
                async move { quic.connect(address, &name, &heard, early, &sink).await }
            })
            .await;
            won.map(|(_, session)| session)
        }
    }

    fn tcp(&self) -> impl Future<Output = Result<Session, TcpFailures>> {
        let tls = Arc::clone(&self.dialer.tls.tcp);
        let name = self.name.clone();
        let addresses = self.addresses.to_vec();
        let (window, idle) = (self.dialer.tcp_window, self.dialer.idle_timeout);
        async move {
            let attempt = |address| Session::tcp(address, name.clone(), Arc::clone(&tls), window, idle);
            let won = race(&addresses, STAGGER, attempt).await;
            won.map(|(_, session)| session)
        }
    }

    /// QUIC first; TCP beside it as soon as there is a reason to doubt; the first that stands is used.
    async fn auto(&self) -> Result<Session, Error> {
        let mut quic = pin!(self.quic());
        let patience = self.dialer.quic_patience;
        let mut quic_failed = None;
        tokio::select! {
            result = &mut quic => match result {
                Ok(session) => return Ok(session),
                Err(failures) => {
                    self.give_up_quic(&failures)?;
                    quic_failed = Some(failures);
                }
            },
            () = sleep(patience) => self.sink.notice(self.slow(patience)),
        }
        let mut tcp = pin!(self.tcp());
        let mut tcp_failed = None;
        loop {
            tokio::select! {
                result = &mut quic, if quic_failed.is_none() => match result {
                    Ok(session) => return Ok(session),
                    Err(failures) => {
                        self.give_up_quic(&failures)?;
                        quic_failed = Some(failures);
                    }
                },
                result = &mut tcp, if tcp_failed.is_none() => match result {
                    Ok(session) => {
                        self.sink.notice(Notice::FellBack {
                            authority: self.authority.to_owned(),
                            protocol: session.protocol(),
                        });
                        return Ok(session);
                    }
                    Err(failures) => {
                        if self.is_certificate(&failures) {
                            return Err(self.failed(Vec::new(), failures));
                        }
                        tcp_failed = Some(failures);
                    }
                },
                else => {
                    return Err(self.failed(
                        quic_failed.unwrap_or_default(),
                        tcp_failed.unwrap_or_default(),
                    ));
                }
            }
        }
    }

    /// What to say when QUIC has no connection after `waited`.
    fn slow(&self, waited: Duration) -> Notice {
        let authority = self.authority.to_owned();
        if self.heard.load(Ordering::Relaxed) {
            let why = format!("the server answers, but there is no connection after {:.1} s", waited.as_secs_f64());
            Notice::QuicFailed { authority, why }
        } else {
            Notice::UdpSilent { authority, waited }
        }
    }

    /// Says why QUIC is given up, or that TCP would fare no better.
    fn give_up_quic(&self, failures: &QuicFailures) -> Result<(), Error> {
        if let Some(untrusted) = self.dialer.tls.refusals.take(&self.name, self.authority) {
            return Err(Error::Certificate(Box::new(untrusted)));
        }
        let authority = self.authority.to_owned();
        let refused = failures.iter().all(|(_, failure)| matches!(failure, Failure::Refused));
        let why = failures
            .iter()
            .find(|(_, failure)| !matches!(failure, Failure::Refused))
            .map(|(_, failure)| failure.to_string());
        self.sink.notice(match why {
            Some(why) if !refused => Notice::QuicFailed { authority, why },
            _ => Notice::UdpRefused { authority },
        });
        Ok(())
    }

    fn is_certificate(&self, failures: &TcpFailures) -> bool {
        failures.iter().any(|(_, error)| matches!(tls_error(error), Some(rustls::Error::InvalidCertificate(_))))
    }

    /// The error for a person when nothing worked.
    fn failed(&self, quic: QuicFailures, tcp: TcpFailures) -> Error {
        let authority = self.authority.to_owned();
        if let Some(untrusted) = self.dialer.tls.refusals.take(&self.name, self.authority) {
            return Error::Certificate(Box::new(untrusted));
        }
        if let Some(error) = tcp.iter().find_map(|(_, error)| tls_error(error)) {
            return Error::Tls { authority, why: tls_error_words(error) };
        }
        let quic =
            quic.into_iter().map(|(address, failure)| Attempt { address, transport: "QUIC", why: failure.to_string() });
        let tcp = tcp.into_iter().map(|(address, error)| Attempt { address, transport: "TCP", why: chain(error) });
        Error::Connect { authority, attempts: quic.chain(tcp).collect() }
    }
}

/// The TLS error in an I/O error of tokio-rustls.
fn tls_error(error: &std::io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}
