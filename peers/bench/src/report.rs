//! Figures of a benchmark: medians with their range, ratios against the roofline and against quinn taken round by
//! round.

use std::fmt::Write;
use std::path::Path;

use serde_json::json;

use crate::job::{CHUNK, Direction, Failure, MAX_DATAGRAM, WINDOW};
use crate::measure::{Options, Run, Usage};
use crate::stack::Stack;

/// What ratios are taken against, where these ran.
const BASES: [&str; 2] = ["roofline", "quinn"];

pub fn introduce(title: &str, stacks: &[Box<dyn Stack>], options: &Options) {
    eprintln!("bench {title}, load average {}", load());
    for line in setup(stacks, options) {
        eprintln!("  {line}");
    }
}

/// The options that hold for all, and those of each stack.
fn setup(stacks: &[Box<dyn Stack>], options: &Options) -> Vec<String> {
    let granted = granted_buffers(options.buffer).map_or("?".to_owned(), |(receive, send)| format!("{receive}/{send}"));
    let mut lines = vec![format!(
        "all: loopback, two processes, one thread each, TLS_AES_128_GCM_SHA256 (ring), socket buffers {} bytes \
         requested (receive/send as the kernel counts them: {granted}), flow-control and send windows {WINDOW} bytes, datagrams up to {MAX_DATAGRAM} bytes, writes of {CHUNK} bytes, \
         {} interleaved rounds",
        options.buffer, options.rounds
    )];
    lines.extend(stacks.iter().map(|stack| format!("{}: {}", stack.name(), stack.options())));
    lines
}

/// What the kernel makes of a buffer size; it doubles it for its own overhead, and may have an upper limit.
fn granted_buffers(asked: usize) -> std::io::Result<(usize, usize)> {
    let socket = std::net::UdpSocket::bind((std::net::Ipv4Addr::LOCALHOST, 0))?;
    let socket = socket2::SockRef::from(&socket);
    socket.set_recv_buffer_size(asked)?;
    socket.set_send_buffer_size(asked)?;
    Ok((socket.recv_buffer_size()?, socket.send_buffer_size()?))
}

fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("?").to_owned()
}

pub fn progress(run: &Run) {
    eprintln!(
        "round {} {:9} {:8} server {:.3} s, client {:.3} s CPU, {:.2} s wall, {} of {} packets lost",
        run.round,
        run.stack,
        run.direction.name(),
        run.server.cpu,
        run.client.cpu,
        run.seconds,
        run.server.outcome.lost + run.client.outcome.lost,
        run.server.outcome.sent + run.client.outcome.sent,
    );
}

pub fn finish(title: &str, stacks: &[Box<dyn Stack>], runs: &[Run], options: &Options) -> Result<(), Failure> {
    let table = table(stacks, runs);
    println!("{table}");
    if let Some(file) = &options.json {
        std::fs::write(file, serde_json::to_string_pretty(&to_json(title, stacks, runs, options))? + "\n")?;
    }
    if let Some(file) = &options.write {
        update(file, title, &section(stacks, options, &table))?;
    }
    Ok(())
}

/// Median, smallest and largest.
#[derive(Clone, Copy)]
struct Spread {
    median: f64,
    low: f64,
    high: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (low, high) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 };
        Some(Self { median, low, high })
    }

    fn show(self) -> String {
        format!("{:.3} ({:.3}–{:.3})", self.median, self.low, self.high)
    }
}

/// CPU seconds per gigabyte, or milliseconds per connection where there are many.
fn cost(run: &Run, usage: &Usage) -> f64 {
    if run.connections > 1 { usage.cpu * 1e3 / run.connections as f64 } else { usage.cpu * 1e9 / run.bytes as f64 }
}

type Pick = fn(&Run) -> f64;

const SERVER: Pick = |run| cost(run, &run.server);
const CLIENT: Pick = |run| cost(run, &run.client);

fn of<'a>(runs: &'a [Run], stack: &'a str, direction: Direction) -> impl Iterator<Item = &'a Run> {
    runs.iter().filter(move |run| run.stack == stack && run.direction == direction)
}

/// The ratio of two stacks within each round, so that what slows the machine for a while slows both.
fn ratio(runs: &[Run], stack: &str, base: &str, direction: Direction, pick: Pick) -> Option<Spread> {
    let pairs = of(runs, stack, direction).filter_map(|run| {
        let other = of(runs, base, direction).find(|other| other.round == run.round)?;
        Some(pick(run) / pick(other))
    });
    Spread::of(pairs.collect())
}

fn table(stacks: &[Box<dyn Stack>], runs: &[Run]) -> String {
    let mut text = String::new();
    let many = runs.iter().any(|run| run.connections > 1);
    let (unit, speed) = if many { ("CPU ms/connection", "connections/s") } else { ("CPU s/GB", "Gbit/s") };
    let bases: Vec<_> = BASES.into_iter().filter(|base| stacks.iter().any(|stack| stack.name() == *base)).collect();
    for direction in [Direction::Download, Direction::Upload] {
        if !runs.iter().any(|run| run.direction == direction) {
            continue;
        }
        let flow = match direction {
            Direction::Download => "server → client",
            Direction::Upload => "client → server",
        };
        let mut head = format!("| {flow} | server {unit} | client {unit} |");
        for base in &bases {
            let _ = write!(head, " server ÷ {base} | client ÷ {base} |");
        }
        let _ = write!(head, " peak MB server / client | datagram | lost | {speed} |");
        let columns = head.matches('|').count() - 1;
        let _ = writeln!(text, "{head}\n|{}", "---|".repeat(columns));
        for stack in stacks {
            let name = stack.name();
            let chosen: Vec<_> = of(runs, name, direction).collect();
            let spread = |pick: &dyn Fn(&Run) -> f64| Spread::of(chosen.iter().map(|run| pick(run)).collect());
            let (Some(server), Some(client)) = (spread(&SERVER), spread(&CLIENT)) else { continue };
            let _ = write!(text, "| {name} | {} | {} |", server.show(), client.show());
            for base in &bases {
                for pick in [SERVER, CLIENT] {
                    let ratio = ratio(runs, name, base, direction, pick).map(|ratio| format!("{:.2}", ratio.median));
                    let _ = write!(text, " {} |", ratio.unwrap_or_default());
                }
            }
            let median = |pick: &dyn Fn(&Run) -> f64| spread(pick).map_or(0.0, |spread| spread.median);
            let _ = writeln!(
                text,
                " {:.1} / {:.1} | {:.0} | {:.0} | {:.*} |",
                median(&|run| run.server.memory as f64 / 1e6),
                median(&|run| run.client.memory as f64 / 1e6),
                median(&|run| run.server.outcome.datagram.max(run.client.outcome.datagram) as f64),
                median(&|run| (run.server.outcome.lost + run.client.outcome.lost) as f64),
                if many { 0 } else { 2 },
                median(&|run| {
                    let amount = if many { run.connections as f64 } else { run.bytes as f64 * 8.0 / 1e9 };
                    amount / run.seconds
                }),
            );
        }
        text.push('\n');
    }
    text
}

fn usage_json(usage: &Usage) -> serde_json::Value {
    json!({
        "cpu_seconds": usage.cpu,
        "peak_bytes": usage.memory,
        "datagram_bytes": usage.outcome.datagram,
        "packets_sent": usage.outcome.sent,
        "packets_lost": usage.outcome.lost,
    })
}

fn to_json(title: &str, stacks: &[Box<dyn Stack>], runs: &[Run], options: &Options) -> serde_json::Value {
    let runs = runs.iter().map(|run| {
        json!({
            "stack": run.stack, "direction": run.direction.name(), "round": run.round, "bytes": run.bytes,
            "connections": run.connections, "wall_seconds": run.seconds,
            "server": usage_json(&run.server), "client": usage_json(&run.client),
        })
    });
    json!({ "bench": title, "setup": setup(stacks, options), "load_average": load(), "runs": runs.collect::<Vec<_>>() })
}

/// The head of the file that `--write` makes.
const HEAD: &str = "# Benchmarks\n\n\
    `cargo run --release -p bench -- NAME --write FILE` in `peers/` writes the section NAME of this page; do not edit the\n\
    sections.\n\n\
    CPU time is user time and system time together, as the kernel counts them. A figure is the median over the rounds\n\
    (smallest–largest). A ratio is the median of the ratios within each round. Throughput by the wall clock depends on\n\
    the load of the machine; CPU time per gigabyte depends on it much less.\n";

/// Puts the section of this benchmark into the file, in place of its last version; other sections stay.
fn update(file: &Path, title: &str, section: &str) -> std::io::Result<()> {
    let old = std::fs::read_to_string(file).unwrap_or_default();
    let heading = format!("## {title}\n");
    let mut text = HEAD.to_owned();
    let mut sections: Vec<String> =
        old.split("\n## ").skip(1).map(|rest| format!("## {}\n", rest.trim_end())).collect();
    sections.retain(|section| !section.starts_with(&heading));
    sections.push(format!("{heading}\n{}\n", section.trim_end()));
    sections.sort();
    for section in sections {
        let _ = write!(text, "\n{section}");
    }
    std::fs::write(file, text)
}

fn section(stacks: &[Box<dyn Stack>], options: &Options, table: &str) -> String {
    let mut text = format!("{} processors, load average {} at the end.\n\n", processors(), load());
    for line in setup(stacks, options) {
        let _ = writeln!(text, "- {line}");
    }
    text + "\n" + table
}

fn processors() -> String {
    let count = std::thread::available_parallelism().map_or(0, usize::from);
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    format!("{count} × {}", model.trim_start_matches([' ', '\t', ':']))
}
