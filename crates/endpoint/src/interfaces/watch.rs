//! Changes of interfaces, addresses and routes, as the kernel reports them (rtnetlink(7)).

use std::{io, net::UdpSocket};

use rustix::net::{AddressFamily, SocketFlags, SocketType, netlink};

/// What is asked for: `RTMGRP_LINK`, `RTMGRP_IPV4_IFADDR`, `RTMGRP_IPV4_ROUTE`, `RTMGRP_IPV6_IFADDR` and
/// `RTMGRP_IPV6_ROUTE` of linux/rtnetlink.h.
const GROUPS: u32 = 0x1 | 0x10 | 0x40 | 0x100 | 0x400;

/// A socket that gets a message for each change.
#[derive(Debug)]
pub(super) struct Watch {
    /// No UDP is on it: all that is used of the type is to wait and to receive.
    socket: tokio::net::UdpSocket,
}

impl Watch {
    pub(super) fn new() -> io::Result<Watch> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // NETLINK_ROUTE is 0, the default.
        let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        rustix::net::bind(&socket, &netlink::SocketAddrNetlink::new(0, GROUPS))?;
        Ok(Watch { socket: tokio::net::UdpSocket::from_std(UdpSocket::from(socket))? })
    }

    /// Waits for a change, and takes all that were reported until now.
    pub(super) async fn changed(&mut self) -> io::Result<()> {
        let mut buffer = [0; 4096];
        self.socket.readable().await?;
        loop {
            // What a message says does not matter: whoever asked looks again.
            match self.socket.try_recv(&mut buffer) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // More than the socket could keep: something has changed.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write as _, process::Command, time::Duration};

    use super::*;

    /// In a network namespace of its own, in which the loopback interface is down at first.
    #[tokio::test]
    async fn an_interface_that_comes_up_is_reported() {
        const INSIDE: &str = "THALWEG_TEST_INSIDE";
        if std::env::var_os(INSIDE).is_none() {
            let this = std::env::current_exe().unwrap();
            let test = "an_interface_that_comes_up_is_reported";
            // Past the harness, which shows nothing of a test that passes.
            let skipped = |why: &str| writeln!(io::stderr(), "\nskipped: {test}: {}", why.trim()).unwrap();
            let output = Command::new("unshare")
                .args(["--user", "--map-root-user", "--net"])
                .arg(this)
                .args([test, "--nocapture"])
                .env(INSIDE, "1")
                .output();
            match output {
                Ok(output) if String::from_utf8_lossy(&output.stdout).contains("1 passed") => {}
                Ok(output) if output.stdout.is_empty() => skipped(&String::from_utf8_lossy(&output.stderr)),
                Ok(output) => panic!("{}", String::from_utf8_lossy(&output.stderr)),
                Err(error) => skipped(&error.to_string()),
            }
            return;
        }
        let mut watch = Watch::new().unwrap();
        let quiet = tokio::time::timeout(Duration::from_millis(100), watch.changed()).await;
        assert!(quiet.is_err(), "nothing has changed");
        assert!(Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap().success());
        tokio::time::timeout(Duration::from_secs(5), watch.changed()).await.unwrap().unwrap();
    }
}
