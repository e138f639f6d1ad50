//! `thalweg put FILE URL`: a file to a server that takes uploads.

use std::path::PathBuf;

use clap::Args;
use thalweg_files::client::file_name;

use crate::failure::Result;
use crate::fetch::{self, FetchArgs};
use crate::interrupt::Interrupt;
use crate::output;
use crate::progress::Progress;

/// `thalweg put`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thalweg put report.pdf https://example.org/incoming/
  thalweg put --insecure big.bin https://localhost:4433/big.bin

The server must allow it (thalweg serve --allow-upload). It stores nothing unless everything arrived.")]
pub struct PutArgs {
    /// What to send
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Where to; a URL that ends in / gets the file's name
    #[arg(value_name = "URL")]
    url: String,
    #[command(flatten)]
    fetch: FetchArgs,
}

impl PutArgs {
    /// Sends the file.
    ///
    /// # Errors
    ///
    /// When an argument cannot be used or the server did not store the file.
    pub async fn run(self) -> Result<()> {
        let saved = self.fetch.saved_paths()?;
        let fetcher = self.fetch.fetcher(|options| {
            options.saved_paths = saved.clone();
            options.parallel = 1;
        })?;
        let name = self.file.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = name.or_else(|| file_name(&self.url)).unwrap_or_default();
        let progress = Progress::new(&[name], self.fetch.quiet);
        let interrupt = Interrupt::stops(&fetcher);
        let result = fetcher.put(&self.file, &self.url, Some(Progress::sink(&progress))).await;
        if self.fetch.json {
            output::json(&fetch::json_report(&self.url, &result));
        }
        fetcher.close().await;
        self.fetch.tell_why();
        let written = fetch::save(saved.as_deref());
        let told = result.map_err(fetch::failure).map(|report| {
            if !self.fetch.quiet {
                eprintln!("{}", fetch::line(&report, &report.final_url, true));
            }
        });
        interrupt.mark(told.and(written))
    }
}
