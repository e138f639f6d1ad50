//! `thalweg serve DIR`: a directory of files over HTTP/3, and over HTTPS on TCP beside it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::json;
use thalweg::{MultipathConfig, RetryPolicy};
use thalweg_files::certificate::{CertificateStore, Fingerprints, Identity};
use thalweg_files::log::{AccessLog, AccessRecord};
use thalweg_files::server::{LEAST_MEMORY, Server, ServerOptions};
use thalweg_files::site::{Site, SiteOptions, UploadOptions};

use crate::failure::{Context, Failure, Result};
use crate::options::{TransportArgs, bytes, duration};
use crate::output;

/// Handshakes under way from which on a server asks for proof of address: far above a busy site's, far below what a
/// flood from forged addresses brings.
const BUSY_HANDSHAKES: usize = 200;

/// When to send Retry packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Retry {
    /// Never.
    Never,
    /// While many handshakes are under way.
    Busy,
    /// To everybody without a token.
    Always,
}

/// `thalweg serve`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thalweg serve .
  thalweg serve /srv/files --listen 0.0.0.0:443 --cert fullchain.pem --key privkey.pem
  thalweg serve drop --allow-upload --max-upload '2 GB'

--early-data saves returning clients a round trip. What arrives so may be an attacker's copy of an earlier request, so only
requests that change nothing are answered at once; uploads wait until the handshake is complete. Each ticket is good for
one connection with the process that gave it. A request that a proxy received so and passed on (Early-Data: 1) is answered
with 425 Too Early if it would change something, with or without this option (RFC 8470).

Without --cert it makes a self-signed certificate and prints what clients need to trust it.
With --cert, SIGHUP reads certificate and key again. SSLKEYLOGFILE and QLOGDIR are honoured.")]
pub struct ServeArgs {
    /// Directory to serve
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Where to listen, UDP and TCP; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "[::]:4433")]
    listen: SocketAddr,
    /// Certificate chain in PEM, the server's own first
    #[arg(long, value_name = "PEM", requires = "key")]
    cert: Option<PathBuf>,
    /// Private key in PEM
    #[arg(long, value_name = "PEM", requires = "cert")]
    key: Option<PathBuf>,
    /// Another name for the self-signed certificate, beside localhost, 127.0.0.1 and ::1
    #[arg(long, value_name = "HOST", conflicts_with = "cert")]
    name: Vec<String>,
    /// Write the self-signed certificate here, for clients' --ca
    #[arg(long, value_name = "PEM", conflicts_with = "cert")]
    save_cert: Option<PathBuf>,
    /// Let clients store files (PUT)
    #[arg(long)]
    allow_upload: bool,
    /// Largest file a client may store
    #[arg(long, value_name = "SIZE", value_parser = bytes, requires = "allow_upload")]
    max_upload: Option<u64>,
    /// Serve and list names that begin with a dot
    #[arg(long)]
    hidden: bool,
    /// Do not list directories that have no index.html
    #[arg(long)]
    no_listing: bool,
    /// Do not answer HTTPS over TCP
    #[arg(long)]
    no_tcp: bool,
    /// Do not answer HTTP/3 over UDP
    #[arg(long, conflicts_with = "no_tcp")]
    no_quic: bool,
    /// When clients have to prove their address before anything else (Retry): busy means with 200 handshakes under way
    #[arg(long, value_enum, default_value_t = Retry::Busy)]
    retry: Retry,
    /// Answer GET, HEAD and OPTIONS in early data (0-RTT) of returning clients; such requests may be replays
    #[arg(long, conflicts_with = "no_quic")]
    early_data: bool,
    /// Let clients use several paths at once (thalweg get --multipath)
    #[arg(long, conflicts_with = "no_quic")]
    multipath: bool,
    /// UDP workers, each with a socket of its own [default: one per core]
    #[arg(long, value_name = "N")]
    workers: Option<usize>,
    /// How much memory the process may take; beyond it, connections that hold most and take least are dropped
    #[arg(long, value_name = "SIZE", value_parser = memory, default_value = "256 MB")]
    memory: u64,
    /// How long running responses may take once the server is to stop
    #[arg(long, value_name = "TIME", default_value = "10 s", value_parser = duration)]
    grace: Duration,
    /// Do not log requests
    #[arg(long, short)]
    quiet: bool,
    /// Log requests and events as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    transport: TransportArgs,
}

impl ServeArgs {
    /// Serves until it is stopped.
    ///
    /// # Errors
    ///
    /// When the directory, the certificate or the address cannot be used.
    pub async fn run(self) -> Result<()> {
        let identity = self.identity()?;
        let store = CertificateStore::new(&identity).context("certificate")?;
        let mut options = ServerOptions::new(self.listen, self.site()?, store.clone());
        let mut transport = self.transport.config(ServerOptions::bulk_transport())?;
        transport.multipath = self.multipath.then(MultipathConfig::default);
        options.transport = Some(Arc::new(transport));
        options.quic = !self.no_quic;
        options.retry = match self.retry {
            Retry::Never => RetryPolicy::Never,
            Retry::Always => RetryPolicy::Always,
            Retry::Busy => RetryPolicy::WhenHandshakesExceed(BUSY_HANDSHAKES),
        };
        if let Some(workers) = self.workers {
            options.endpoint = options.endpoint.workers(workers);
        }
        options.access_log = self.access_log();
        options.tcp = !self.no_tcp;
        options.grace = self.grace;
        options.memory = self.memory;
        options.key_log = true;
        options.early_data = self.early_data;
        let server = Server::bind(options).await.map_err(Failure::failed)?;
        let address = server.local_addr();
        if let Some(endpoint) = server.endpoint() {
            output::warnings(endpoint);
        }
        self.announce(address, &identity)?;
        if let (Some(cert), Some(key)) = (&self.cert, &self.key) {
            tokio::spawn(reload(store, cert.clone(), key.clone()));
        }
        let stop = async {
            stop_signal().await;
            eprintln!("thalweg: stopping; running answers get {} s (once more to stop at once)", self.grace.as_secs());
        };
        tokio::select! {
            () = server.run(stop) => Ok(()),
            () = twice() => Err(Failure::failed("stopped at once; answers were cut off")),
        }
    }

    fn identity(&self) -> Result<Identity> {
        let identity = match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => Identity::from_pem_files(cert, key).map_err(Failure::usage)?,
            _ => Identity::self_signed(&self.name).map_err(Failure::usage)?,
        };
        if let Some(path) = &self.save_cert {
            thalweg_output::write(path, identity.certificate_pem().as_bytes())
                .context(format_args!("cannot write {}", path.display()))?;
        }
        Ok(identity)
    }

    fn site(&self) -> Result<Site> {
        let mut options = SiteOptions::default();
        options.hidden = self.hidden;
        options.listing = !self.no_listing;
        if self.allow_upload {
            let mut upload = UploadOptions::default();
            upload.max_size = self.max_upload.unwrap_or(upload.max_size);
            options.upload = Some(upload);
        }
        let directory = &self.directory;
        Site::new(directory, options)
            .map_err(|error| Failure::usage(format!("cannot serve {}: {error}", directory.display())))
    }

    fn access_log(&self) -> Option<AccessLog> {
        if self.quiet {
            return None;
        }
        let as_json = self.json;
        Some(Arc::new(move |record: &AccessRecord| {
            if as_json {
                output::json(&json!({
                    "event": "request",
                    "peer": record.peer.to_string(),
                    "method": record.method.as_str(),
                    "target": record.target,
                    "protocol": record.protocol,
                    "status": record.status,
                    "bytes": record.bytes,
                    "seconds": record.duration.as_secs_f64(),
                    "complete": record.complete,
                    "reason": record.reason,
                    "early_data": record.early_data,
                }));
            } else {
                output::line(&record.to_string());
            }
        }))
    }

    /// Says where the server is and, if nobody signed its certificate, how a client comes to trust it.
    fn announce(&self, address: SocketAddr, identity: &Identity) -> Result<()> {
        let prints = identity.fingerprints().context("certificate")?;
        let host = host(address);
        let url = format!("https://{host}:{}/", address.port());
        if self.json {
            output::json(&json!({
                "event": "listening",
                "address": address.to_string(),
                "url": url,
                "spki_sha256": prints.spki_sha256,
                "certificate_sha256": prints.certificate_sha256,
                "self_signed": self.cert.is_none(),
            }));
        }
        let ways = match (self.no_quic, self.no_tcp) {
            (false, false) => "HTTP/3 over UDP, HTTP/2 and HTTP/1.1 over TCP",
            (false, true) => "HTTP/3 over UDP only",
            (true, _) => "HTTP/2 and HTTP/1.1 over TCP only",
        };
        eprintln!("Serving {} at {url} ({ways})", self.directory.display());
        if self.cert.is_none() {
            eprint!("{}", trust_help(&url, &host, address.port(), &prints));
        }
        Ok(())
    }
}

/// Reads a size of memory that is enough for a server.
fn memory(text: &str) -> std::result::Result<u64, String> {
    match bytes(text)? {
        enough @ LEAST_MEMORY.. => Ok(enough),
        few => {
            Err(format!("{few} bytes are too few for the program and a client; give {LEAST_MEMORY} (64 MiB) or more"))
        }
    }
}

/// What a person types at the other end.
fn trust_help(url: &str, host: &str, port: u16, prints: &Fingerprints) -> String {
    let spki = &prints.spki_sha256;
    format!(
        "The certificate is self-signed. To trust it:\n  \
         thalweg get --pin sha256/{spki} {url}FILE\n  \
         chromium --ignore-certificate-errors-spki-list={spki} --origin-to-force-quic-on={host}:{port} {url}\n"
    )
}

/// The name in the URL we print: one that is in the self-signed certificate and reaches `address` from this machine.
fn host(address: SocketAddr) -> String {
    match address.ip() {
        ip if ip.is_unspecified() => "localhost".into(),
        std::net::IpAddr::V4(ip) => ip.to_string(),
        std::net::IpAddr::V6(ip) => format!("[{ip}]"),
    }
}

/// Waits for Ctrl-C, or for the signal by which service managers stop programs.
async fn stop_signal() {
    #[cfg(unix)]
    if let Ok(mut terminate) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        }
        return;
    }
    let _ = tokio::signal::ctrl_c().await;
}

async fn twice() {
    stop_signal().await;
    stop_signal().await;
}

/// Reads certificate and key again at each SIGHUP. A pair that cannot be used leaves the old one in place.
async fn reload(store: Arc<CertificateStore>, cert: PathBuf, key: PathBuf) {
    #[cfg(unix)]
    if let Ok(mut hangup) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup()) {
        while hangup.recv().await.is_some() {
            match Identity::from_pem_files(&cert, &key).and_then(|identity| store.replace(&identity)) {
                Ok(()) => eprintln!("thalweg: certificate read again from {}", cert.display()),
                Err(error) => eprintln!("thalweg: the old certificate stays: {error}"),
            }
        }
    }
    #[cfg(not(unix))]
    drop((store, cert, key));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_uses_a_name_that_the_certificate_has() {
        assert_eq!(host("[::]:1".parse().unwrap()), "localhost");
        assert_eq!(host("0.0.0.0:1".parse().unwrap()), "localhost");
        assert_eq!(host("127.0.0.1:1".parse().unwrap()), "127.0.0.1");
        assert_eq!(host("[::1]:1".parse().unwrap()), "[::1]");
    }

    #[test]
    fn memory_is_enough_for_a_client() {
        assert_eq!(memory("256 MB"), Ok(256_000_000));
        assert_eq!(memory("64 MiB"), Ok(LEAST_MEMORY));
        assert!(memory("1 MB").unwrap_err().contains("64 MiB"));
    }

    #[test]
    fn the_help_is_complete_commands() {
        let identity = Identity::self_signed::<&str>(&[]).unwrap();
        let prints = identity.fingerprints().unwrap();
        let help = trust_help("https://localhost:4433/", "localhost", 4433, &prints);
        assert!(help.contains(&format!("thalweg get --pin sha256/{} https://localhost:4433/", prints.spki_sha256)));
        assert!(help.contains("--origin-to-force-quic-on=localhost:4433"));
    }
}
