//! Tokens that a client brings back to a server from an earlier run, with the saved parameters of the path.

use std::fs;
use std::sync::{Arc, Mutex};

use crate::common::{Downloads, Host, get_one, sample};
use thalweg::recovery::{
    AckEvent, Allowance, Change, Congestion, Controller, ControllerFactory, PathContext, PathView, Policies,
};
use thalweg::{SavedPaths, TransportConfig};
use thalweg_files::client::{Fetcher, Preference};
use thalweg_files::server::ServerOptions;

/// A hundred datagrams, always; and what each path began with.
#[derive(Debug, Default)]
struct Fixed(Arc<Mutex<Vec<PathContext>>>);

impl ControllerFactory for Fixed {
    fn name(&self) -> &str {
        "fixed"
    }

    fn build(&self, context: &PathContext) -> Box<dyn Controller> {
        self.0.lock().unwrap().push(*context);
        Box::new(Window(context.datagram_size))
    }
}

#[derive(Debug)]
struct Window(u16);

impl Controller for Window {
    fn on_ack(&mut self, _: &AckEvent<'_>) -> Change {
        Change::None
    }

    fn on_datagram_size(&mut self, size: u16) {
        self.0 = size;
    }

    fn allowance(&self, _: &PathView<'_>) -> Allowance {
        Allowance::new(100 * u64::from(self.0), None, self.0)
    }
}

async fn host(resume: &str) -> (Host, Arc<Mutex<Vec<PathContext>>>) {
    let contexts: Arc<Mutex<Vec<PathContext>>> = Arc::default();
    let congestion = Congestion::Custom(Arc::new(Fixed(contexts.clone())));
    let policies = Policies { congestion, resume: resume.parse().unwrap(), ..Policies::default() };
    let transport = TransportConfig { policies, ..ServerOptions::bulk_transport() };
    let host = Host::with(move |options| options.transport = Some(Arc::new(transport))).await;
    host.file("f", &sample(3_000_000));
    (host, contexts)
}

/// Whether something is saved of the path when a second run fetches the file, after `between` has had the file of
/// paths.
async fn second_run(resume: &str, between: impl FnOnce(&std::path::Path)) -> Vec<bool> {
    let (host, contexts) = host(resume).await;
    let downloads = Downloads::new();
    let file = downloads.path("saved");
    let mut between = Some(between);
    for run in 0..2 {
        let saved = Arc::new(SavedPaths::open(&file).unwrap());
        let mut options = host.options(Preference::Quic);
        options.saved_paths = Some(saved.clone());
        let fetcher = Fetcher::new(options).unwrap();
        get_one(&fetcher, host.url("f"), &downloads.path("f"), None).await.unwrap();
        fetcher.close().await;
        saved.save().unwrap();
        if let Some(between) = between.take_if(|_| run == 0) {
            between(&file);
        }
    }
    let contexts = contexts.lock().unwrap();
    contexts.iter().map(|context| context.saved.is_some_and(|saved| saved.window >= 48_000)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_run_brings_the_server_what_it_had_learned() {
    assert_eq!(second_run("careful", |_| ()).await, [false, true]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_does_not_resume_tells_nothing() {
    assert_eq!(second_run("off", |_| ()).await, [false, false]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forged_token_tells_nothing_and_the_file_arrives_all_the_same() {
    let forge = |file: &std::path::Path| {
        let text = fs::read_to_string(file).unwrap();
        let forged: Vec<String> = text
            .lines()
            .map(|line| match line.strip_prefix("token ") {
                // The last digit of the tag.
                Some(_) => {
                    let (rest, last) = line.split_at(line.len() - 1);
                    format!("{rest}{}", if last == "0" { "1" } else { "0" })
                }
                None => line.to_owned(),
            })
            .collect();
        assert_ne!(forged.join("\n"), text.trim_end());
        fs::write(file, forged.join("\n")).unwrap();
    };
    assert_eq!(second_run("careful", forge).await, [false, false]);
}
