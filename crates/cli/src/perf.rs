//! `thalweg perf`: raw QUIC from memory to memory, to see what a path and a set of rules can do.
//!
//! The protocol is the one of draft-banks-quic-performance (ALPN `perf`): the client opens a bidirectional stream,
//! sends the number of bytes it wants as eight bytes in network order, then whatever it uploads; the server sends that
//! many bytes and finishes once it has read everything. Nothing but zeros travels, so nobody's certificate is checked.

mod client;
mod server;

use clap::{Args, Subcommand};

use crate::failure::Result;

/// The application protocol.
const ALPN: &[u8] = b"perf";

/// How much is handed to or taken from a stream at once.
const CHUNK: usize = 256 * 1024;

/// `thalweg perf`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thalweg perf server --listen 127.0.0.1:4434
  thalweg perf client 127.0.0.1:4434 --download 1GB
  thalweg perf client 127.0.0.1:4434 --upload 100MB --streams 4 --json
  thalweg perf client 127.0.0.1:4434 --bidi 1GB --time 10s --interval 1s")]
pub struct PerfArgs {
    #[command(subcommand)]
    command: PerfCommand,
}

#[derive(Debug, Subcommand)]
enum PerfCommand {
    /// Answer clients until Ctrl-C
    Server(server::ServerArgs),
    /// Move bytes from or to a server and report
    Client(client::ClientArgs),
}

impl PerfArgs {
    /// Runs one end.
    ///
    /// # Errors
    ///
    /// When the address cannot be bound or the transfer does not come to its end.
    pub async fn run(self) -> Result<()> {
        match self.command {
            PerfCommand::Server(args) => args.run().await,
            PerfCommand::Client(args) => args.run().await,
        }
    }
}
