//! `thalweg get URL…`: files to disk, whole or not at all.

use std::path::PathBuf;

use clap::Args;
use thalweg_files::client::{Job, Target, check_url, file_name};

use crate::failure::{Failure, Result};
use crate::fetch::{self, FetchArgs};
use crate::interrupt::Interrupt;
use crate::output;
use crate::progress::Progress;

/// `thalweg get`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thalweg get https://example.org/file.iso
  thalweg get --resume -o disk.img https://example.org/disk.img
  thalweg get --pin sha256/… https://localhost:4433/a https://localhost:4433/b --dir downloads
  thalweg get --multipath=wlan0,wwan0 --backup wwan0 https://example.org/file.iso
  thalweg get --json --qlog traces --policies controller=new-reno https://example.org/big.bin

A file appears under its name only when all of it is there and its length is right. Until then it is FILE.part, and
--resume continues it if the server's entity tag still matches, or the modification date where there is no tag.
SSLKEYLOGFILE and QLOGDIR are honoured.
When a connection is lost (the server restarts, the network changes), the file is continued over a new one, after 0.25 s,
0.5 s and so on up to 8 s; --retries says how often without any progress. Two versions of a file are never mixed.
A changed file is fetched anew, within the same retries; one that goes into a pipe fails if part of it was written.
Exit codes: 0 everything arrived, 1 something did not, 2 wrong usage. Ctrl-C ends it by that signal (130 in a shell).")]
pub struct GetArgs {
    /// What to fetch; files from one server share a connection
    #[arg(required = true, value_name = "URL")]
    urls: Vec<String>,
    /// Name of the file; - writes to stdout, and a pipe or a device is written in place. Only with one URL
    #[arg(long, short, value_name = "FILE", conflicts_with = "dir")]
    output: Option<PathBuf>,
    /// Directory for the files; made if it is not there
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Continue partial files whose entity tag, or modification date, still matches
    #[arg(long, short = 'c')]
    resume: bool,
    /// How often to try again without getting any further when a connection was lost; 0 is never
    #[arg(long, value_name = "N", default_value_t = 5)]
    retries: u32,
    /// How many files at once
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
    parallel: u16,
    #[command(flatten)]
    fetch: FetchArgs,
}

impl GetArgs {
    /// Fetches everything.
    ///
    /// # Errors
    ///
    /// When an argument cannot be used or any of the files did not arrive.
    pub async fn run(self) -> Result<()> {
        self.fetch.multipath()?;
        let jobs = self.jobs()?;
        let saved = self.fetch.saved_paths()?;
        let fetcher = self.fetch.fetcher(|options| {
            options.saved_paths = saved.clone();
            options.resume = self.resume;
            options.retries = self.retries;
            options.parallel = usize::from(self.parallel);
        })?;
        let names: Vec<_> = self.urls.iter().map(|url| file_name(url).unwrap_or_else(|| url.clone())).collect();
        let progress = Progress::new(&names, self.fetch.quiet);
        let interrupt = Interrupt::stops(&fetcher);
        let results = fetcher.get(jobs, Some(Progress::sink(&progress))).await;
        let mut failed = Vec::new();
        for (url, result) in self.urls.iter().zip(results) {
            if self.fetch.json {
                output::json(&fetch::json_report(url, &result));
            }
            match result {
                Ok(report) if self.fetch.quiet => drop(report),
                Ok(report) => {
                    let what = report.path.as_ref().map_or(url.clone(), |path| path.display().to_string());
                    eprintln!("{}", fetch::line(&report, &what, false));
                }
                Err(error) => failed.push(fetch::failure(error)),
            }
        }
        fetcher.close().await;
        self.fetch.tell_why();
        let written = fetch::save(saved.as_deref());
        interrupt.mark(finish(failed, self.urls.len()).and(written))
    }

    fn jobs(&self) -> Result<Vec<Job>> {
        if self.output.is_some() && self.urls.len() > 1 {
            return Err(Failure::usage("-o names one file, but there are several URLs; use --dir"));
        }
        // A wrong name of any kind is reported before anything is made or requested.
        for url in &self.urls {
            check_url(url).map_err(Failure::usage)?;
        }
        if let Some(path) = self.output.as_ref().filter(|path| path.is_dir()) {
            let path = path.display();
            return Err(Failure::usage(format!(
                "-o {path}: it is a directory; write --dir {path}, or -o with a file in it"
            )));
        }
        if let Some(directory) = &self.dir {
            std::fs::create_dir_all(directory).map_err(|error| {
                let why = if directory.exists() { "it is there and no directory".into() } else { error.to_string() };
                Failure::usage(format!("cannot make the directory {}: {why}", directory.display()))
            })?;
        }
        self.urls
            .iter()
            .map(|url| {
                let target = match &self.output {
                    Some(path) if path.as_os_str() == "-" => Target::Writer(Box::new(tokio::io::stdout())),
                    Some(path) => Target::File(path.clone()),
                    None => {
                        let name = file_name(url).ok_or_else(|| {
                            Failure::usage(format!("{url} does not end in the name of a file; give one with -o"))
                        })?;
                        Target::File(self.dir.clone().unwrap_or_default().join(name))
                    }
                };
                Ok(Job { url: url.clone(), target })
            })
            .collect()
    }
}

/// Of one failure its message alone; of several, each message and then their number.
fn finish(mut failed: Vec<Failure>, of: usize) -> Result<()> {
    match failed.len() {
        0 => Ok(()),
        1 if of == 1 => Err(failed.remove(0)),
        count => {
            failed.iter().for_each(|failure| eprintln!("thalweg: {failure}"));
            Err(Failure::failed(format!("{count} of {of} files did not arrive")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_url_alone_is_wrong_usage_and_one_of_many_is_a_failure() {
        let usage = || Failure::usage("x");
        assert_eq!(finish(vec![], 1), Ok(()));
        assert_eq!(finish(vec![usage()], 1), Err(usage()));
        assert!(matches!(finish(vec![usage()], 2), Err(Failure::Failed(_))));
    }
}
