//! `thalweg relay`: UDP datagrams cross a path of the lab in real time.

use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use thalweg_emulate::{Relay, RelayConfig};

use crate::emulation::path::PathArgs;
use crate::emulation::report::{self, VerdictArgs};
use crate::failure::{Context, Failure, Result};
use crate::options::duration;
use crate::output;

/// `thalweg relay`.
#[derive(Debug, Args)]
#[command(after_help = "\
What clients send to LISTEN crosses the path and goes on to TARGET; what TARGET answers crosses it the other way.
Everything that the lab's paths do happens here too, by the same code: rate, delay, queue, marks, loss, suspensions.

Examples:
  thalweg relay 4500=localhost:4433 --preset satellite
  thalweg relay '[::1]:4500=[::1]:4433' scenarios/changes/migration.toml --path wifi --json
  thalweg relay 4500=localhost:4433 path.toml --for 30s --strict")]
pub struct RelayArgs {
    /// Where to listen, an address or a port of 127.0.0.1, and where to send on
    #[arg(value_name = "LISTEN=TARGET", value_parser = ends)]
    ends: Ends,
    /// File with the path: a scenario, or only [path.NAME]
    #[arg(value_name = "LINK.toml")]
    file: Option<PathBuf>,
    /// End after this long [default: at Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    length: Option<Duration>,
    /// Ask for real-time priority
    #[arg(long)]
    realtime: bool,
    /// Print JSON on stdout, a line when it listens and a line at the end, instead of words on stderr
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    path: PathArgs,
    #[command(flatten)]
    verdict: VerdictArgs,
}

/// Where a relay listens, and where it sends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ends {
    listen: SocketAddr,
    target: SocketAddr,
}

fn ends(text: &str) -> std::result::Result<Ends, String> {
    let (listen, target) = text
        .split_once('=')
        .ok_or("write LISTEN=TARGET, for example 4500=localhost:4433 or 127.0.0.1:4500=127.0.0.1:4433")?;
    let listen = match listen.parse::<u16>() {
        Ok(port) => SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        Err(_) => listen.parse().map_err(|_| {
            format!(
                "\"{listen}\" is no place to listen: write a port, or an address such as 127.0.0.1:4500 or [::1]:4500"
            )
        })?,
    };
    let refuse =
        |reason: &str| format!("cannot send on to \"{target}\": {reason}; write an address such as localhost:4433");
    let mut addresses = target.to_socket_addrs().map_err(|error| refuse(&error.to_string()))?;
    let target = addresses.next().ok_or_else(|| refuse("it has no address"))?;
    if target.port() == 0 {
        return Err(refuse("port 0 receives nothing"));
    }
    Ok(Ends { listen, target })
}

#[derive(Debug, Serialize)]
struct Listening {
    event: &'static str,
    address: SocketAddr,
    target: SocketAddr,
    path: String,
    seed: u64,
}

impl RelayArgs {
    /// Relays until it is told to stop, and reports.
    ///
    /// # Errors
    ///
    /// When there is no such path, when it cannot listen, or with `--strict` when the run is invalid.
    pub async fn run(self) -> Result<()> {
        let chosen = self.path.choose(self.file.as_ref())?;
        let (Ends { listen, target }, seed) = (self.ends, self.path.seed);
        let config = RelayConfig { listen, target, hops: chosen.hops.clone(), seed, realtime: self.realtime };
        // From now on, so that a signal that comes early is not lost.
        let ended = ended(self.length)?;
        let relay = Relay::start(config).context(format_args!("cannot relay {listen} to {target}"))?;
        let address = relay.address();
        if self.json {
            output::json(&Listening { event: "listening", address, target, path: chosen.name.clone(), seed });
        } else {
            eprintln!("Relaying {address} to {target} over {}; Ctrl-C ends it", chosen.words());
        }
        ended.await;
        let (report, limits, paths) = (relay.stop(), self.verdict.limits(), [chosen.name.as_str()]);
        if self.json {
            output::json(&report::json(&report, &paths, seed, &limits, false));
        } else {
            eprintln!("{}", report::words(&report, &paths, &limits));
        }
        match report::faults(&report, &paths, &limits) {
            faults if self.verdict.strict && !faults.is_empty() => {
                Err(Failure::failed(format!("the run is invalid: {}", faults.join("; "))))
            }
            _ => Ok(()),
        }
    }
}

/// Ends when this time is over, or at a signal that asks for it.
pub(crate) fn ended(length: Option<Duration>) -> Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for signals")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for signals")?;
    Ok(async move {
        let over = async {
            match length {
                Some(length) => tokio::time::sleep(length).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = over => {}
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_addresses_or_a_port() {
        let read = |text: &str| ends(text).map(|ends| (ends.listen.to_string(), ends.target.to_string()));
        assert_eq!(read("4500=127.0.0.1:4433"), Ok(("127.0.0.1:4500".into(), "127.0.0.1:4433".into())));
        assert_eq!(read("[::1]:0=[::1]:4433"), Ok(("[::1]:0".into(), "[::1]:4433".into())));
        for (text, words) in [
            ("4500", "write LISTEN=TARGET"),
            ("here=127.0.0.1:1", "\"here\" is no place to listen"),
            ("1=127.0.0.1", "cannot send on to \"127.0.0.1\""),
            ("1=127.0.0.1:0", "port 0 receives nothing"),
        ] {
            assert!(ends(text).unwrap_err().contains(words), "{text}");
        }
    }
}
