//! The interop peer on quinn and h3. The contract is in `tests/interop/README.md`.

mod client;
mod server;
mod trace;
mod wire;

use std::process::ExitCode;

use contract::{Role, Task};

/// What quinn can do. It knows QUIC version 1 only, so `v2` is missing.
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
    "ecn",
    "transferloss",
];

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let task = match Task::from_env(CASES) {
        Ok(task) => task,
        Err(code) => return code,
    };
    trace::install(&task);
    contract::finish(match task.role {
        Role::Client => client::run(&task).await,
        Role::Server => server::run(&task).await,
    })
}
