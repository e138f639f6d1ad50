//! The interop peer on thalweg. The contract is in `tests/interop/README.md`.

mod client;
mod server;
mod watch;

use std::process::ExitCode;

use contract::{Role, Task};

/// Every case there is.
const CASES: &[&str] = &[
    "handshake",
    "transfer",
    "multiplexing",
    "retry",
    "resumption",
    "zerortt",
    "http3",
    "keyupdate",
    "chacha20",
    "v2",
    "ecn",
    "transferloss",
];

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let task = match Task::from_env(CASES) {
        Ok(task) => task,
        Err(code) => return code,
    };
    contract::finish(match task.role {
        Role::Client => client::run(&task).await,
        Role::Server => server::run(&task).await,
    })
}
