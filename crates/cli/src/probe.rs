//! `thalweg probe`: what a path does, measured by two streams of datagrams.

mod chance;
mod client;
mod hop;
mod https;
mod json;
mod live;
mod load;
mod loading;
mod measured;
mod page;
mod server;
mod socket;
mod table;
mod timers;
mod words;

use clap::{Args, Subcommand};

use crate::failure::Result;
use client::ClientArgs;
use server::ServerArgs;

/// `thalweg probe`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "\
A server runs on one computer, and the other measures the path to it. Each sends a datagram every 20 ms by its own clock,
so that what happens on the way up is told from what happens on the way down.

Examples:
  thalweg probe server
  thalweg probe example.org
  thalweg probe example.org --for 2m --report path.html
  thalweg probe example.org --for 1m --load both      # the server: thalweg probe server --load 100Mbps
  thalweg probe 192.0.2.7 --for 1h --json > path.json
  thalweg probe https://example.org          # any HTTP/3 server: round trips only")]
pub struct ProbeArgs {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    client: Option<ClientArgs>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Answer the probes of other computers
    Server(ServerArgs),
}

impl ProbeArgs {
    /// Serves, or measures and reports.
    ///
    /// # Errors
    ///
    /// When there is no server to measure with, or the server cannot listen.
    pub async fn run(self) -> Result<()> {
        match (self.command, self.client) {
            (Some(Command::Server(server)), _) => server.run().await,
            (None, Some(client)) => client.run().await,
            // clap asks for HOST before.
            (None, None) => Ok(()),
        }
    }
}
