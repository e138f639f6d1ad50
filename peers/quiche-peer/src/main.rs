//! The interop peer on quiche. The contract is in `tests/interop/README.md`.

mod client;
mod exchange;
mod server;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use contract::{Failure, Role, Task};

/// What quiche and this program can do.
const CASES: &[&str] = &["handshake", "transfer", "multiplexing", "retry", "resumption", "http3", "transferloss"];

/// Largest datagram sent: what fits everywhere, as no path is probed here.
const MAX_DATAGRAM: usize = 1350;
const STREAM_WINDOW: u64 = 4 << 20;
const CONNECTION_WINDOW: u64 = 16 << 20;
const IDLE_MS: u64 = 30_000;

fn main() -> ExitCode {
    let task = match Task::from_env(CASES) {
        Ok(task) => task,
        Err(code) => return code,
    };
    contract::finish(match task.role {
        Role::Client => client::run(&task),
        Role::Server => server::run(&task),
    })
}

/// What both roles set.
fn config(task: &Task) -> Result<quiche::Config, Failure> {
    let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION)?;
    config.set_application_protos(&[task.alpn()])?;
    config.set_max_idle_timeout(IDLE_MS);
    config.set_max_recv_udp_payload_size(65_527);
    config.set_max_send_udp_payload_size(MAX_DATAGRAM);
    config.set_initial_max_data(CONNECTION_WINDOW);
    config.set_max_connection_window(CONNECTION_WINDOW);
    config.set_initial_max_stream_data_bidi_local(STREAM_WINDOW);
    config.set_initial_max_stream_data_bidi_remote(STREAM_WINDOW);
    config.set_initial_max_stream_data_uni(STREAM_WINDOW);
    config.set_initial_max_streams_bidi(100);
    config.set_initial_max_streams_uni(10);
    config.enable_pacing(false);
    config.log_keys();
    Ok(config)
}

/// Appends a connection's secrets to `SSLKEYLOGFILE`, if set.
fn log_keys(connection: &mut quiche::Connection) -> Result<(), Failure> {
    if let Some(path) = std::env::var_os("SSLKEYLOGFILE") {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
        connection.set_keylog(Box::new(file));
    }
    Ok(())
}

/// A flag that is set when the runner ends the program.
fn ending() -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    let set = flag.clone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::spawn(move || {
        if runtime.block_on(contract::terminated()).is_ok() {
            set.store(true, Ordering::Relaxed);
        }
    });
    Ok(flag)
}
