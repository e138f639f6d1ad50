//! One end of an emulated path: the first process of its namespaces, which makes its network, starts a program in it,
//! and ends with it.
//!
//! When the emulator ends, however it does, the kernel kills this process, and with it everything that runs in its
//! namespaces.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{Command, Stdio};

use thalweg_units::Duration;

use crate::system::process::{self, Pid};
use crate::system::{self, Netlink, Poll, cable, tun};

/// One end of an emulated path.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Its name in its programs' `/etc/hosts`.
    pub name: &'static str,
    /// Its address of IPv4.
    pub ipv4: Ipv4Addr,
    /// Its address of IPv6.
    pub ipv6: Ipv6Addr,
}

impl End {
    /// Whether it has this address.
    pub(crate) fn is_at(&self, address: IpAddr) -> bool {
        address == IpAddr::from(self.ipv4) || address == IpAddr::from(self.ipv6)
    }
}

/// Where COMMAND runs; with several paths, its address on the first.
pub const CLIENT: End = client(0);

/// Where COMMAND is on the path of this number.
pub const fn client(path: u8) -> End {
    let third = path as u16;
    End {
        name: "client",
        ipv4: Ipv4Addr::new(10, 11, path, 1),
        ipv6: Ipv6Addr::new(0xfd00, 0x11, third, 0, 0, 0, 0, 1),
    }
}

/// Where the server runs.
pub const SERVER: End =
    End { name: "server", ipv4: Ipv4Addr::new(10, 12, 0, 1), ipv6: Ipv6Addr::new(0xfd00, 0x12, 0, 0, 0, 0, 0, 1) };

/// The device that leads to the other end, where there is one path.
pub(crate) const DEVICE: &str = "path0";
/// Packets that wait at most until the emulator reads them; more are dropped, and counted.
pub(crate) const DEVICE_QUEUE: u32 = 1000;
/// The loopback device of a new namespace.
const LOOPBACK: u32 = 1;
/// How long a server may take until it listens.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time between two looks whether it does.
const LOOK: Duration = Duration::from_millis(10);

/// What is run at an end.
#[derive(Clone, Debug)]
pub(crate) enum Program {
    /// Nothing.
    None,
    /// A program with its arguments.
    Command(Vec<OsString>),
    /// A line for the shell. Its output goes to standard error, its input is empty.
    Shell(OsString),
}

/// What an end is to be.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Its devices: each with its name and its addresses. The first is the system's choice where several lead there.
    pub(crate) devices: Vec<(String, End)>,
    /// Whom it reaches through each of them.
    pub(crate) others: Vec<End>,
    pub(crate) program: Program,
    /// The real-time priority of its programs.
    pub(crate) priority: Option<u8>,
    /// The processors that are to take in what its devices get, as a mask of the kernel's; `None` leaves that to the
    /// kernel.
    pub(crate) receive_on: Option<String>,
}

/// What the emulator asks an end for.
pub(crate) mod ask {
    /// Make the network; the user is known now.
    pub(crate) const NETWORK: &[u8] = b"network";
    /// Start the program.
    pub(crate) const START: &[u8] = b"start";
    /// Tell when the program listens.
    pub(crate) const LISTEN: &[u8] = b"listen";
    /// Tell how many packets the device has dropped.
    pub(crate) const DROPS: &[u8] = b"drops";
    /// Listen on the port that follows, with TCP or UDP, and hand the socket over.
    pub(crate) const TCP: &str = "tcp ";
    pub(crate) const UDP: &str = "udp ";
    /// Send the program the signal of the number that follows.
    pub(crate) const SIGNAL: &str = "signal ";
}

/// What an end tells the emulator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// A device of the network is there; its descriptor comes along. One after the other, in the order of the plan.
    Network {
        has_ipv6: bool,
        /// Whether its packets are in Ethernet frames.
        is_framed: bool,
    },
    /// The program runs.
    Started,
    /// The program does, or does not after some time, wait for others to speak to it.
    Listens(bool),
    /// So many packets.
    Drops(u64),
    /// The socket that was asked for; it comes along.
    Socket,
    /// The program has ended, as a shell says it.
    Ended(u8),
    /// Something could not be done; a shell would say so with this status.
    Failed(u8, String),
    /// The end is gone.
    Gone,
}

impl Told {
    fn text(&self) -> String {
        match self {
            Told::Network { has_ipv6, is_framed } => {
                format!("network {}{}", u8::from(*has_ipv6), u8::from(*is_framed))
            }
            Told::Started => "started".into(),
            Told::Listens(does) => format!("listens {}", u8::from(*does)),
            Told::Drops(count) => format!("drops {count}"),
            Told::Socket => "socket".into(),
            Told::Ended(status) => format!("ended {status}"),
            Told::Failed(status, reason) => format!("failed {status} {reason}"),
            Told::Gone => String::new(),
        }
    }

    /// Reads what an end has told; what is not understood means that it is gone.
    pub(crate) fn read(text: &[u8]) -> Told {
        let text = String::from_utf8_lossy(text);
        let (kind, rest) = text.split_once(' ').unwrap_or((&text, ""));
        match kind {
            "network" => Told::Network { has_ipv6: rest.starts_with('1'), is_framed: rest.ends_with('1') },
            "started" => Told::Started,
            "listens" => Told::Listens(rest == "1"),
            "drops" => rest.parse().map_or(Told::Gone, Told::Drops),
            "socket" => Told::Socket,
            "ended" => rest.parse().map_or(Told::Gone, Told::Ended),
            "failed" => {
                let (status, reason) = rest.split_once(' ').unwrap_or((rest, ""));
                Told::Failed(status.parse().unwrap_or(u8::MAX), reason.to_owned())
            }
            _ => Told::Gone,
        }
    }
}

/// Is an end until its program has ended and the emulator wants nothing more. Runs in the namespaces.
pub(crate) fn run(channel: OwnedFd, plan: &Plan) {
    process::die_with_parent();
    let Ok(channel) = process::close_others(channel) else { return };
    // The emulator may have died before it could take us along: then the channel has ended, which is seen below.
    let Ok(signals) = process::catch_signals(&[libc::SIGCHLD]) else { return };
    let mut init = Init { channel, signals, plan, program: None, ended: None, listens_by: None };
    while init.turn() {}
}

struct Init<'a> {
    channel: OwnedFd,
    signals: File,
    plan: &'a Plan,
    program: Option<Pid>,
    /// How the program ended.
    ended: Option<u8>,
    /// When the program has to listen, if that is asked for.
    listens_by: Option<thalweg_units::Instant>,
}

impl Init<'_> {
    /// Waits for something to do, and does it. False if this is the end.
    fn turn(&mut self) -> bool {
        let mut poll = Poll::default();
        poll.push(self.channel.as_fd());
        poll.push(self.signals.as_fd());
        if poll.wait(self.listens_by.map(|_| LOOK)).is_err() {
            return false;
        }
        if poll.is_ready(1) {
            while process::next_signal(&self.signals).is_some() {}
            self.reap();
        }
        if let Some(by) = self.listens_by {
            let listens = is_listening();
            if listens || self.ended.is_some() || system::now() >= by {
                self.listens_by = None;
                self.tell(&Told::Listens(listens));
            }
        }
        if !poll.is_ready(0) {
            return true;
        }
        match process::receive_message(self.channel.as_fd()) {
            Ok((text, _)) if !text.is_empty() => {
                self.answer(&text);
                true
            }
            _ => false,
        }
    }

    fn tell(&self, told: &Told) {
        // An emulator that is gone is noticed by the channel's end.
        let _ = process::send_message(self.channel.as_fd(), told.text().as_bytes(), None);
    }

    fn answer(&mut self, asked: &[u8]) {
        match asked {
            ask::NETWORK => self.network(),
            ask::START => self.start(),
            ask::LISTEN => self.listens_by = Some(system::now() + PATIENCE),
            ask::DROPS => {
                let dropped = self.plan.devices.iter().filter_map(|(name, _)| dropped(name)).sum();
                self.tell(&Told::Drops(dropped));
            }
            _ => {
                let text = std::str::from_utf8(asked).unwrap_or_default();
                for (prefix, is_tcp) in [(ask::TCP, true), (ask::UDP, false)] {
                    if let Some(port) = text.strip_prefix(prefix).and_then(|port| port.parse().ok()) {
                        return self.socket(port, is_tcp);
                    }
                }
                let number = text.strip_prefix(ask::SIGNAL);
                if let (Some(signal), Some(pid), None) =
                    (number.and_then(|number| number.parse().ok()), self.program, self.ended)
                {
                    process::kill(pid, signal);
                }
            }
        }
    }

    /// Makes the network and hands its devices over.
    fn network(&mut self) {
        let told = make_network(self.plan).and_then(|Network { devices, has_ipv6, is_framed }| {
            let text = Told::Network { has_ipv6, is_framed }.text();
            devices.iter().try_for_each(|device| {
                let sent = process::send_message(self.channel.as_fd(), text.as_bytes(), Some(device.as_fd()));
                sent.map_err(|error| format!("cannot hand over a network device: {error}"))
            })
        });
        if let Err(reason) = told {
            self.tell(&Told::Failed(125, reason));
        }
    }

    /// Listens on a port and hands the socket over.
    fn socket(&self, port: u16, is_tcp: bool) {
        // A system may have no IPv6.
        let any = [IpAddr::from(Ipv6Addr::UNSPECIFIED), IpAddr::from(Ipv4Addr::UNSPECIFIED)];
        let any = any.map(|address| SocketAddr::new(address, port));
        let made = match is_tcp {
            true => TcpListener::bind(&any[..]).map(OwnedFd::from),
            false => UdpSocket::bind(&any[..]).map(OwnedFd::from),
        };
        let sent = made.and_then(|socket| {
            process::send_message(self.channel.as_fd(), Told::Socket.text().as_bytes(), Some(socket.as_fd()))
        });
        if let Err(error) = sent {
            self.tell(&Told::Failed(125, format!("cannot listen on port {port} of the server's end: {error}")));
        }
    }

    /// Starts the program.
    fn start(&mut self) {
        let mut command = match &self.plan.program {
            Program::None => return self.tell(&Told::Started),
            Program::Command(words) => {
                let mut words = words.iter();
                let mut command = Command::new(words.next().cloned().unwrap_or_default());
                command.args(words);
                command
            }
            Program::Shell(line) => {
                let mut command = Command::new("/bin/sh");
                command.arg("-c").arg(line).stdin(Stdio::null());
                if let Ok(error) = process::standard_error() {
                    command.stdout(error);
                }
                command
            }
        };
        for (name, end) in [("THALWEG_CLIENT", CLIENT), ("THALWEG_SERVER", SERVER)] {
            command.env(name, end.ipv4.to_string()).env(format!("{name}6"), end.ipv6.to_string());
        }
        if let Some(priority) = self.plan.priority {
            // The emulator reports whether this is allowed.
            let _ = system::raise(priority);
        }
        match process::spawn(&mut command) {
            Ok(pid) => {
                self.program = Some(pid);
                self.tell(&Told::Started);
            }
            Err(error) => {
                let status = if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
                let name = command.get_program().display();
                self.tell(&Told::Failed(status, format!("cannot run {name}: {error}")));
            }
        }
    }

    /// Takes note of children that have ended, orphans included.
    fn reap(&mut self) {
        while let Some((pid, status)) = process::reap() {
            if Some(pid) == self.program && self.ended.is_none() {
                self.ended = Some(status);
                self.tell(&Told::Ended(status));
            }
        }
    }
}

/// The network of an end.
struct Network {
    devices: Vec<File>,
    has_ipv6: bool,
    is_framed: bool,
}

/// How much less the system likes each further device.
const METRIC_STEP: u32 = 100;

/// Makes the network of an end: its devices with their addresses, and the ways to the other end. As on a laptop with
/// Wi-Fi and a mobile link, several lead there, the first is preferred, and no rule joins an address to a device.
fn make_network(plan: &Plan) -> Result<Network, String> {
    let is_apart = make_mounts();
    let names: Vec<&str> = plan.devices.iter().map(|(name, _)| name.as_str()).collect();
    // Who may not open TUN devices can have a cable, which costs more per packet.
    let tuns: io::Result<Vec<(File, u32)>> = names.iter().map(|name| tun::open(name)).collect();
    let (devices, is_framed) = match tuns {
        Ok(devices) => (devices, false),
        Err(tun) => match cable::open(&names) {
            Ok(devices) => (devices, true),
            Err(error) => {
                return Err(format!(
                    "cannot make a network device: /dev/net/tun: {tun}; nor a pair of devices: {error}"
                ));
            }
        },
    };
    let told = |what: &'static str| move |error: io::Error| format!("cannot {what} a network device: {error}");
    let mut netlink = Netlink::open().map_err(told("configure"))?;
    netlink.up(LOOPBACK, None).map_err(told("bring up"))?;
    let (mut files, mut has_ipv6, mut metric) = (Vec::new(), true, 0);
    for ((file, index), (name, own)) in devices.into_iter().zip(&plan.devices) {
        if plan.devices.len() > 1 {
            accept_any_way(name);
        }
        let from = IpAddr::from(own.ipv4);
        netlink.add_address(index, from).map_err(told("give an address to"))?;
        netlink.up(index, Some(DEVICE_QUEUE)).map_err(told("bring up"))?;
        for other in &plan.others {
            netlink.add_route(index, IpAddr::from(other.ipv4), from, metric).map_err(told("route through"))?;
        }
        // A system may have no IPv6.
        let from = IpAddr::from(own.ipv6);
        let mut routes = plan.others.iter().map(|other| IpAddr::from(other.ipv6));
        let ipv6 = netlink
            .add_address(index, from)
            .and_then(|()| routes.try_for_each(|to| netlink.add_route(index, to, from, metric)));
        has_ipv6 &= ipv6.is_ok();
        metric += METRIC_STEP;
        files.push(file);
    }
    if let Some(processors) = plan.receive_on.as_ref().filter(|_| is_apart) {
        steer_receiving(&names, processors);
    }
    Ok(Network { devices: files, has_ipv6, is_framed })
}

/// Has the system take packets from a device by which it would not send to their sender: a new namespace may have the
/// stricter setting of the machine (ip-sysctl, rp_filter: the greater of two values counts, and 2 asks for any way).
fn accept_any_way(device: &str) {
    // Where this may not be written, the setting is the machine's, and most have none.
    let _ = fs::write(format!("/proc/sys/net/ipv4/conf/{device}/rp_filter"), "2");
}

/// Has these processors take in what the emulator hands over to these devices (receive packet steering). By default the
/// one does that hands it over, which with a fast path has no time for both. Where the system does not allow it, the
/// receiving stays there.
fn steer_receiving(devices: &[&str], processors: &str) {
    // The machine's own /sys shows the devices of another namespace. It comes back, since programs look for much there.
    if process::mount("sysfs", "/sys", "sysfs", libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC).is_err() {
        return;
    }
    for device in devices {
        let _ = fs::write(format!("/sys/class/net/{device}/queues/rx-0/rps_cpus"), processors);
    }
    let _ = process::unmount("/sys");
}

/// Gives programs a list of their own processes, and names for the two ends. Both are conveniences: where the system
/// does not allow them, programs run without. Returns whether what is mounted shows nowhere else.
fn make_mounts() -> bool {
    let text = fs::read_to_string("/etc/hosts").map(|mut text| {
        for End { name, ipv4, ipv6 } in [CLIENT, SERVER] {
            text.push_str(&format!("\n{ipv4} {name}\n{ipv6} {name}"));
        }
        text + "\n"
    });
    // Nothing that is mounted here shows outside.
    if process::mount("none", "/", "", libc::MS_REC | libc::MS_SLAVE).is_err() {
        return false;
    }
    // The file lives in a file system of its own, which nothing but the mount holds.
    if let Ok(text) = text
        && process::mount("hosts", "/proc", "tmpfs", 0).is_ok()
    {
        if fs::write("/proc/hosts", text).is_ok() {
            let _ = process::mount("/proc/hosts", "/etc/hosts", "", libc::MS_BIND);
        }
        let _ = process::unmount("/proc");
    }
    let _ = process::mount("proc", "/proc", "proc", libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC);
    true
}

/// Packets that the device dropped because the emulator did not read them in time.
fn dropped(device: &str) -> Option<u64> {
    let devices = fs::read_to_string("/proc/net/dev").ok()?;
    let line = devices.lines().find_map(|line| line.trim_start().strip_prefix(device)?.strip_prefix(':'))?;
    // Eight columns of what it received, then bytes, packets, errors and drops of what it sent.
    line.split_whitespace().nth(11)?.parse().ok()
}

/// Whether anything in this namespace waits for others to speak to it: a TCP socket that listens, or a UDP socket.
fn is_listening() -> bool {
    let any = |file: &str, is_one: fn(&str) -> bool| {
        fs::read_to_string(file).is_ok_and(|table| {
            let mut states = table.lines().skip(1).filter_map(|line| line.split_whitespace().nth(3));
            states.any(is_one)
        })
    };
    ["/proc/net/tcp", "/proc/net/tcp6"].into_iter().any(|file| any(file, |state| state == "0A"))
        || ["/proc/net/udp", "/proc/net/udp6"].into_iter().any(|file| any(file, |_| true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_understood() {
        for told in [
            Told::Network { has_ipv6: true, is_framed: false },
            Told::Network { has_ipv6: false, is_framed: true },
            Told::Started,
            Told::Listens(true),
            Told::Drops(7),
            Told::Socket,
            Told::Ended(37),
            Told::Failed(127, "cannot run x: no such file".into()),
            Told::Gone,
        ] {
            assert_eq!(Told::read(told.text().as_bytes()), told);
        }
        assert_eq!(Told::read(b"\xff drops x"), Told::Gone);
        assert_eq!(Told::read(b"drops x"), Told::Gone);
    }
}
