//! `thalweg probe server`: answers the probes of other computers.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use thalweg_probe::{Server, ServerConfig};
use thalweg_units::{Ecn, Rate, human_bytes};

use super::chance::secret;
use super::load;
use super::socket::{Clock, PORT, Socket};
use crate::failure::{Context, Failure, Result};
use crate::output;
use crate::text::count;

/// `thalweg probe server`.
#[derive(Debug, Args)]
pub struct ServerArgs {
    /// Where to listen (UDP); port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value_t = SocketAddr::from((std::net::Ipv6Addr::UNSPECIFIED, PORT)))]
    listen: SocketAddr,
    /// Most measurements at a time; more are refused
    #[arg(long, value_name = "N", default_value_t = ServerConfig::default().sessions)]
    sessions: usize,
    /// Carry loads of at most RATE, for up to 20 s each, at the next port: what `thalweg probe HOST --load` asks for.
    /// Without this none
    #[arg(long, value_name = "RATE", value_parser = load_rate)]
    load: Option<Rate>,
    /// Print JSON on stdout, a line when it listens and a line at the end, instead of words on stderr
    #[arg(long)]
    json: bool,
}

/// Reads the most that a load may take.
fn load_rate(text: &str) -> std::result::Result<Rate, String> {
    match text.parse::<Rate>() {
        Ok(rate) if rate >= Rate::from_bps(100_000) => Ok(rate),
        Ok(_) => Err("write 100 kbps or more".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

impl ServerArgs {
    pub(super) async fn run(self) -> Result<()> {
        let clock = Clock::start();
        let ended = crate::relay::ended(None)?;
        let cannot = format!("cannot listen on {}", self.listen);
        let mut socket = Socket::bind(self.listen, clock).context(&cannot)?;
        let address = socket.local_addr().context(&cannot)?;
        let config = ServerConfig { sessions: self.sessions, ..ServerConfig::default() };
        let mut server = Server::new(config, clock.now(), &secret()?);
        let loads = match self.load {
            Some(rate) => {
                let next = load::port_of(address).ok_or_else(|| {
                    Failure::usage("--load takes the port after that of --listen, and there is none after 65535")
                })?;
                Some((load::serve(next, rate, clock)?, rate))
            }
            None => None,
        };
        if self.json {
            output::json(&json!({"event": "listening", "address": address.to_string()}));
        } else {
            eprintln!("thalweg probe server on {address}; Ctrl-C ends it");
            if let Some((_, rate)) = &loads {
                eprintln!("It carries loads of up to {rate} on UDP port {}", address.port() + 1);
            }
        }
        tokio::pin!(ended);
        let (mut answers, mut out) = (Vec::new(), Vec::new());
        loop {
            let due = server.poll_timeout().map(|at| clock.runtime(at));
            let wait = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = &mut ended => break,
                () = wait => {}
                received = socket.receive(|now, arrival| {
                    if server.receive(now, arrival.at, arrival.from, arrival.ecn, arrival.bytes, &mut out) {
                        answers.push((arrival.from, out.clone()));
                    }
                }) => {
                    if received.is_err() {
                        // It concerns a datagram to a client that is gone; should it be the socket, it comes again.
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                }
            }
            // What cannot be sent is lost, as on a link.
            for (to, answer) in answers.drain(..) {
                let _ = socket.send_to(to, &answer, Ecn::NotEct);
            }
            while let Some((to, ecn)) = server.poll_transmit(clock.now(), &mut out) {
                let _ = socket.send_to(to, &out, ecn);
            }
        }
        let counts = server.counts();
        if let Some((loads, _)) = loads {
            loads.close(0, b"the server ends");
            let _ = tokio::time::timeout(Duration::from_secs(1), loads.wait_idle()).await;
        }
        server.stop(|to, bytes| {
            let _ = socket.send_to(to, bytes, Ecn::NotEct);
        });
        if self.json {
            output::json(&json!({"event": "ended", "counts": counts}));
        } else {
            eprintln!(
                "{}; {} received, {} sent; {} refused, {} ignored",
                count(counts.sessions, "measurement"),
                human_bytes(counts.received_bytes),
                human_bytes(counts.sent_bytes),
                count(counts.refused, "datagram"),
                counts.ignored
            );
        }
        Ok(())
    }
}
