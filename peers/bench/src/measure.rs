//! Runs server and client as child processes, interleaved over rounds, and reads their CPU time from the kernel.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Instant;

use crate::job::{Direction, Failure, Outcome, SERVER_NAME};
use crate::report;
use crate::stack::{self, Stack};

pub struct Options {
    pub rounds: usize,
    pub stacks: Vec<String>,
    pub buffer: usize,
    pub json: Option<PathBuf>,
    pub write: Option<PathBuf>,
}

/// One side of one run.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// CPU seconds, user and system together.
    pub cpu: f64,
    /// Peak resident bytes.
    pub memory: u64,
    pub outcome: Outcome,
}

/// One run of one stack.
#[derive(Clone, Debug)]
pub struct Run {
    pub stack: &'static str,
    pub direction: Direction,
    pub round: usize,
    pub bytes: u64,
    pub connections: u64,
    /// Wall-clock seconds of the client process.
    pub seconds: f64,
    pub server: Usage,
    pub client: Usage,
}

/// Measures every job (direction, size, connections) on every chosen stack.
pub fn run(title: &str, jobs: Vec<(Direction, u64, u64)>, options: Options) -> Result<(), Failure> {
    let stacks = choose(&options.stacks, jobs.iter().any(|job| job.2 > 1))?;
    let certificates = certificates()?;
    report::introduce(title, &stacks, &options);
    let mut runs = Vec::new();
    for round in 1..=options.rounds {
        for &(direction, size, connections) in &jobs {
            for stack in &stacks {
                let run = once(stack.as_ref(), direction, size, connections, round, &options, &certificates.0)
                    .map_err(|error| format!("{} {}: {error}", stack.name(), direction.name()))?;
                report::progress(&run);
                runs.push(run);
            }
        }
    }
    report::finish(title, &stacks, &runs, &options)
}

fn choose(names: &[String], handshakes: bool) -> Result<Vec<Box<dyn Stack>>, Failure> {
    let mut all = stack::all();
    all.extend(stack::on_request().into_iter().filter(|stack| names.iter().any(|name| name == stack.name())));
    if let Some(unknown) = names.iter().find(|name| !all.iter().any(|stack| stack.name() == name.as_str())) {
        let known: Vec<_> = stack::all().iter().chain(&stack::on_request()).map(|stack| stack.name()).collect();
        return Err(format!("no such stack: {unknown}; there are {}", known.join(", ")).into());
    }
    Ok(all
        .into_iter()
        .filter(|stack| names.is_empty() || names.iter().any(|name| name == stack.name()))
        .filter(|stack| !handshakes || stack.has_handshake())
        .collect())
}

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn certificates() -> Result<Folder, Failure> {
    let folder = std::env::temp_dir().join(format!("thalweg-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let made = rcgen::generate_simple_self_signed(vec![SERVER_NAME.to_owned()])?;
    std::fs::write(folder.join("cert.pem"), made.cert.pem())?;
    std::fs::write(folder.join("key.pem"), made.signing_key.serialize_pem())?;
    Ok(Folder(folder))
}

fn once(
    stack: &dyn Stack,
    direction: Direction,
    size: u64,
    connections: u64,
    round: usize,
    options: &Options,
    certificates: &Path,
) -> Result<Run, Failure> {
    let child = |side: &str| -> Result<Command, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["child", stack.name(), side, "--direction", direction.name()]);
        command.args(["--size", &size.to_string(), "--connections", &connections.to_string()]);
        command.args(["--buffer", &options.buffer.to_string()]);
        command.arg("--certificates").arg(certificates);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        Ok(command)
    };
    let mut server = Process::start(child("server")?)?;
    let address = server.line("listening=")?;
    let started = Instant::now();
    let mut client_command = child("client")?;
    client_command.args(["--server", &address]);
    let client = Process::start(client_command)?.finish("client")?;
    let seconds = started.elapsed().as_secs_f64();
    let server = server.finish("server")?;
    Ok(Run { stack: stack.name(), direction, round, bytes: size * connections, connections, seconds, server, client })
}

/// A child that is killed if it is given up.
struct Process {
    child: Option<Child>,
    output: BufReader<ChildStdout>,
}

impl Process {
    fn start(mut command: Command) -> Result<Self, Failure> {
        let mut child = command.spawn()?;
        let output = child.stdout.take().ok_or("no standard output")?;
        Ok(Self { child: Some(child), output: BufReader::new(output) })
    }

    fn line(&mut self, prefix: &str) -> Result<String, Failure> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line.trim().strip_prefix(prefix).ok_or_else(|| format!("child says {line:?}, not {prefix}"))?.to_owned())
    }

    /// Waits for the end and collects what the kernel and the child say.
    fn finish(mut self, side: &str) -> Result<Usage, Failure> {
        let mut rest = String::new();
        self.output.read_to_string(&mut rest)?;
        let child = self.child.take().ok_or("already ended")?;
        let (status, cpu) = wait(child.id())?;
        if !status.success() {
            return Err(format!("the {side} ended with {status}").into());
        }
        let line = rest.lines().find_map(|line| line.strip_prefix("outcome=")).ok_or("the child says no outcome")?;
        let numbers = line.split(',').map(str::parse).collect::<Result<Vec<u64>, _>>()?;
        let &[datagram, sent, lost, memory] = numbers.as_slice() else { return Err("bad outcome".into()) };
        Ok(Usage { cpu, memory, outcome: Outcome { datagram, sent, lost } })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Waits for one child and returns its status and CPU seconds.
fn wait(pid: u32) -> Result<(ExitStatus, f64), Failure> {
    let mut status = 0;
    // SAFETY: all-zero is a valid rusage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are valid for the call; the child has not been waited for before.
    while unsafe { libc::wait4(pid as libc::pid_t, &mut status, 0, &mut usage) } < 0 {
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(error.into());
        }
    }
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Ok((ExitStatus::from_raw(status), seconds(usage.ru_utime) + seconds(usage.ru_stime)))
}
