//! The seam between the benchmark and a stack. A new rival is one file with this trait and one line in [`all`].

use std::net::SocketAddr;

use crate::job::{Failure, Job, Outcome, Side};

/// A QUIC stack, as a blocking client and server. Each call runs in a process of its own.
pub trait Stack {
    /// As given on the command line.
    fn name(&self) -> &'static str;

    /// What differs from the stack's defaults, in one line.
    fn options(&self) -> String;

    /// Whether the stack makes connections; the roofline does not.
    fn has_handshake(&self) -> bool {
        true
    }

    /// Binds a socket of the job, calls `ready` with its address, serves all connections of the job and returns.
    fn serve(&self, job: &Job, ready: &dyn Fn(SocketAddr)) -> Result<Outcome, Failure>;

    /// Makes the job's connections one after the other.
    fn fetch(&self, job: &Job) -> Result<Outcome, Failure>;
}

/// Every stack, in the order of the table: the roofline first, ours next.
pub fn all() -> Vec<Box<dyn Stack>> {
    use crate::thalweg::Thalweg;
    vec![
        Box::new(crate::roofline::Roofline),
        Box::new(Thalweg::Shipped),
        Box::new(Thalweg::AckEverySecond),
        Box::new(crate::quinn::Quinn),
    ]
}

/// Stacks that run only where they are named: they take long.
pub fn on_request() -> Vec<Box<dyn Stack>> {
    vec![Box::new(crate::thalweg::Thalweg::Paced)]
}

/// The main function of a child process.
pub fn child(name: &str, side: Side, job: &Job) -> Result<(), Failure> {
    let stack = all()
        .into_iter()
        .chain(on_request())
        .find(|stack| stack.name() == name)
        .ok_or_else(|| format!("no such stack: {name}"))?;
    let outcome = match side {
        Side::Server => stack.serve(job, &|address| println!("listening={address}"))?,
        Side::Client => stack.fetch(job)?,
    };
    println!("outcome={},{},{},{}", outcome.datagram, outcome.sent, outcome.lost, peak_memory().unwrap_or(0));
    Ok(())
}

/// Largest resident set of this process in bytes. Not from `getrusage`: that includes the parent's before `exec`.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()? * 1024)
}
