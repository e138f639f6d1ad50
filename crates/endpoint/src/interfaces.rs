//! Network interfaces: which of them lead to a host, and sockets that leave by one of them. Linux only.

use std::{
    io,
    net::{IpAddr, SocketAddr, UdpSocket},
};

/// Why a network interface cannot be used for a path.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InterfaceError {
    /// There is none of this name.
    #[error("there is no network interface {name}; there are {}", list(known))]
    Unknown {
        /// As given.
        name: String,
        /// Those there are.
        known: Vec<String>,
    },
    /// No datagram can leave by it now: it is down, has no address of the right family, or no route.
    #[error("the network interface {name} does not lead to {remote}: {why}")]
    Unreachable {
        /// The interface.
        name: String,
        /// To where.
        remote: IpAddr,
        /// What the system said.
        why: io::Error,
    },
    /// The system has no way to choose the interface for a socket.
    #[error("choosing the network interface of a socket is possible on Linux only")]
    Unsupported,
}

fn list(known: &[String]) -> String {
    if known.is_empty() { "none".to_owned() } else { known.join(", ") }
}

/// A network interface by which a host can be reached, and the address of this host there.
///
/// ```no_run
/// # async fn example(endpoint: thalweg::Endpoint, connection: thalweg::Connection)
/// # -> Result<(), Box<dyn std::error::Error>> {
/// let mobile = thalweg::Interface::named("wwan0", connection.remote_address())?;
/// let local = endpoint.add_socket(mobile.bind()?)?;
/// let path = connection.open_path(Some(local), None).await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    name: String,
    local: IpAddr,
}

impl Interface {
    /// The interface of this name, such as `wlan0`, as a way to `remote`.
    ///
    /// # Errors
    ///
    /// If there is no such interface, if it does not lead to `remote` now, or if the system cannot choose interfaces.
    pub fn named(name: &str, remote: SocketAddr) -> Result<Self, InterfaceError> {
        let unreachable = |why| InterfaceError::Unreachable { name: name.to_owned(), remote: remote.ip(), why };
        if name != system::LOOPBACK && is_own(remote) {
            system::check(name)?;
            return Err(unreachable(io::Error::other("it is an address of this host")));
        }
        let socket = system::socket(name, remote)?;
        // Nothing is sent: the system looks for a route by this interface, and chooses the address.
        socket.connect(&remote.into()).map_err(unreachable)?;
        let local = socket.local_addr().map_err(unreachable)?.as_socket();
        let local = local.ok_or_else(|| unreachable(io::ErrorKind::AddrNotAvailable.into()))?;
        Ok(Self { name: name.to_owned(), local: local.ip() })
    }

    /// The interfaces that have a route to `remote`, in the order in which the system prefers them. Those that lead
    /// there by an address of another one are left out, and so is the loopback interface.
    pub fn toward(remote: SocketAddr) -> Vec<Self> {
        let mut found: Vec<Self> = Vec::new();
        for name in system::routes(remote.ip()) {
            let Ok(interface) = Self::named(&name, remote) else { continue };
            if found.iter().all(|known| known.local != interface.local) {
                found.push(interface);
            }
        }
        found
    }

    /// Whether there is an interface of this name, up or not.
    ///
    /// # Errors
    ///
    /// If there is none, or if the system cannot choose interfaces.
    pub fn check(name: &str) -> Result<(), InterfaceError> {
        system::check(name)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The address of this host that datagrams get there.
    pub fn local(&self) -> IpAddr {
        self.local
    }

    /// A socket whose datagrams leave by this interface and no other, from its address and a free port; for
    /// [`EndpointBuilder::with_socket`](crate::EndpointBuilder::with_socket) and
    /// [`Endpoint::add_socket`](crate::Endpoint::add_socket). It takes no privileges since Linux 5.7.
    ///
    /// # Errors
    ///
    /// If the interface or its address is gone.
    pub fn bind(&self) -> io::Result<UdpSocket> {
        let address = SocketAddr::new(self.local, 0);
        let socket = system::socket(&self.name, address).map_err(io::Error::other)?;
        socket.bind(&address.into())?;
        Ok(socket.into())
    }
}

/// Changes of the network interfaces of this host, of their addresses and of its routes.
///
/// ```no_run
/// # async fn example(remote: std::net::SocketAddr) -> std::io::Result<()> {
/// let mut changes = thalweg::InterfaceChanges::watch()?;
/// loop {
///     println!("{:?}", thalweg::Interface::toward(remote));
///     changes.next().await?;
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct InterfaceChanges {
    watch: system::Watch,
}

impl InterfaceChanges {
    /// Watches from now on; within a runtime of tokio.
    ///
    /// # Errors
    ///
    /// If the system does not report changes: this is possible on Linux only.
    pub fn watch() -> io::Result<Self> {
        Ok(Self { watch: system::Watch::new()? })
    }

    /// Waits for the next change. Changes since the last call are one. Nothing is lost if the future is dropped.
    ///
    /// # Errors
    ///
    /// If the system reports no more.
    pub async fn next(&mut self) -> io::Result<()> {
        self.watch.changed().await
    }
}

/// Whether this host itself has the address: only the loopback interface leads there, whatever the routes say.
fn is_own(remote: SocketAddr) -> bool {
    let any: SocketAddr = if remote.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
    let from = || {
        let socket = UdpSocket::bind(any)?;
        socket.connect(remote)?;
        socket.local_addr()
    };
    remote.ip().is_loopback() || from().is_ok_and(|local: SocketAddr| local.ip() == remote.ip())
}

#[cfg(target_os = "linux")]
mod watch;

#[cfg(target_os = "linux")]
mod system {
    pub(super) use super::watch::Watch;

    use std::{
        io,
        net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    };

    use socket2::{Domain, Protocol, Socket, Type};

    use super::InterfaceError;

    /// The interface that leads to this host itself.
    pub(super) const LOOPBACK: &str = "lo";

    /// Routes that say "no" (`RTF_REJECT` of Linux).
    const REJECT: u32 = 0x200;

    /// A UDP socket of the family of `address` that uses the interface `name` and no other.
    pub(super) fn socket(name: &str, address: SocketAddr) -> Result<Socket, InterfaceError> {
        let make = || {
            let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
            socket.bind_device(Some(name.as_bytes()))?;
            Ok(socket)
        };
        make().map_err(|why: io::Error| match why.raw_os_error() {
            // ENODEV; EINVAL for names that are too long for any.
            Some(libc::ENODEV | libc::EINVAL) => InterfaceError::Unknown { name: name.to_owned(), known: known() },
            _ => InterfaceError::Unreachable { name: name.to_owned(), remote: address.ip(), why },
        })
    }

    /// Whether there is an interface of this name.
    pub(super) fn check(name: &str) -> Result<(), InterfaceError> {
        let known = known();
        match known.iter().any(|interface| interface == name) {
            true => Ok(()),
            false => Err(InterfaceError::Unknown { name: name.to_owned(), known }),
        }
    }

    /// The names of all interfaces of this network namespace but the loopback.
    fn known() -> Vec<String> {
        let table = std::fs::read_to_string("/proc/net/dev").unwrap_or_default();
        let names = table.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name.trim().to_owned());
        names.filter(|name| name != LOOPBACK).collect()
    }

    /// The names of the interfaces by which there is a route to `remote`, the best first.
    pub(super) fn routes(remote: IpAddr) -> Vec<String> {
        let (table, read): (_, fn(&str, IpAddr) -> Option<Route>) = match remote {
            IpAddr::V4(_) => ("/proc/net/route", Route::v4),
            IpAddr::V6(_) => ("/proc/net/ipv6_route", Route::v6),
        };
        let table = std::fs::read_to_string(table).unwrap_or_default();
        let mut routes: Vec<Route> = table.lines().filter_map(|line| read(line, remote)).collect();
        // As the kernel chooses: the longest prefix, then the lowest metric.
        routes.sort_by_key(|route| (std::cmp::Reverse(route.prefix), route.metric));
        let mut names: Vec<String> = Vec::new();
        for Route { name, .. } in routes {
            if name != LOOPBACK && !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// A route that fits.
    #[derive(Debug, PartialEq)]
    struct Route {
        prefix: u32,
        metric: u32,
        name: String,
    }

    impl Route {
        /// A line of `/proc/net/route`: interface, destination, gateway, flags, use counts, metric, mask; addresses in
        /// hexadecimal, in the byte order of the host.
        fn v4(line: &str, remote: IpAddr) -> Option<Route> {
            let IpAddr::V4(remote) = remote else { return None };
            let fields: Vec<&str> = line.split_ascii_whitespace().collect();
            let hex = |at: usize| u32::from_str_radix(fields.get(at)?, 16).ok();
            let address = |at: usize| Some(u32::from(Ipv4Addr::from(hex(at)?.to_ne_bytes())));
            let (destination, mask) = (address(1)?, address(7)?);
            let fits = u32::from(remote) & mask == destination && hex(3)? & REJECT == 0;
            let (metric, name) = (fields.get(6)?.parse().ok()?, (*fields.first()?).to_owned());
            fits.then_some(Route { prefix: mask.count_ones(), metric, name })
        }

        /// A line of `/proc/net/ipv6_route`: destination, its prefix length, source, its prefix length, next hop,
        /// metric, use counts, flags, interface; in hexadecimal.
        fn v6(line: &str, remote: IpAddr) -> Option<Route> {
            let IpAddr::V6(remote) = remote else { return None };
            let fields: Vec<&str> = line.split_ascii_whitespace().collect();
            let hex = |at: usize| u32::from_str_radix(fields.get(at)?, 16).ok();
            let destination = Ipv6Addr::from(u128::from_str_radix(fields.first()?, 16).ok()?);
            let prefix = hex(1).filter(|prefix| *prefix <= 128)?;
            let mask = u128::MAX.checked_shl(128 - prefix).unwrap_or(0);
            let fits = u128::from(remote) & mask == u128::from(destination) & mask && hex(8)? & REJECT == 0;
            fits.then_some(Route { prefix, metric: hex(5)?, name: (*fields.get(9)?).to_owned() })
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        #[cfg(target_endian = "little")]
        fn routes_are_read_as_the_kernel_writes_them() {
            let route = |line: &str, remote: &str| Route::v4(line, remote.parse().unwrap());
            let default = "wlan0\t00000000\t0101A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0";
            let expected = Some(Route { prefix: 0, metric: 600, name: "wlan0".into() });
            assert_eq!(route(default, "203.0.113.5"), expected);
            let on_link = "eth0\t000AA8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0";
            assert_eq!(route(on_link, "192.168.10.7").unwrap().prefix, 24);
            assert_eq!(route(on_link, "192.168.11.7"), None);
            assert_eq!(route("Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask", "192.0.2.1"), None);
            for line in ["", "eth0", "eth0\t00000000\t0\t1"] {
                assert_eq!(route(line, "192.0.2.1"), None, "{line}");
            }
        }

        #[test]
        fn routes_of_ipv6_are_read_as_the_kernel_writes_them() {
            let route = |line: &str, remote: &str| Route::v6(line, remote.parse().unwrap());
            let zero = "0".repeat(32);
            let line = |destination: &str, prefix: &str, flags: &str| {
                format!("{destination} {prefix} {zero} 00 {zero} 00000400 00000001 00000000 {flags} wwan0")
            };
            let default = line(&zero, "00", "00000003");
            let expected = Some(Route { prefix: 0, metric: 1024, name: "wwan0".into() });
            assert_eq!(route(&default, "2001:db8::1"), expected);
            let narrow = line("20010db8000000000000000000000000", "20", "00000001");
            assert_eq!(route(&narrow, "2001:db8::1").unwrap().prefix, 32);
            assert_eq!(route(&narrow, "2001:db9::1"), None);
            assert_eq!(route(&line(&zero, "00", "00000200"), "2001:db8::1"), None, "it says no");
            assert_eq!(route("nonsense", "2001:db8::1"), None);
        }

        #[test]
        fn a_name_that_no_interface_has_is_an_error_with_those_there_are() {
            for name in ["no-such-if0", "a-name-that-is-longer-than-any-interface-has"] {
                let error = super::super::Interface::named(name, "192.0.2.1:1".parse().unwrap()).unwrap_err();
                assert!(error.to_string().contains(&format!("no network interface {name}")), "{error}");
                assert!(check(name).is_err());
            }
        }

        #[test]
        fn the_loopback_interface_is_no_way_to_another_host() {
            assert!(!routes("192.0.2.1".parse().unwrap()).contains(&"lo".to_owned()));
            let interface = super::super::Interface::named("lo", "127.0.0.1:1".parse().unwrap()).unwrap();
            assert_eq!(interface.local(), "127.0.0.1".parse::<IpAddr>().unwrap());
            assert_eq!(interface.bind().unwrap().local_addr().unwrap().ip(), interface.local());
            // The default route fits 127.0.0.1, too.
            assert_eq!(super::super::Interface::toward("127.0.0.1:1".parse().unwrap()), []);
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::net::{IpAddr, SocketAddr};

    use super::InterfaceError;

    pub(super) const LOOPBACK: &str = "lo";

    #[derive(Debug)]
    pub(super) struct Watch(std::convert::Infallible);

    impl Watch {
        pub(super) fn new() -> std::io::Result<Watch> {
            Err(std::io::ErrorKind::Unsupported.into())
        }

        pub(super) async fn changed(&mut self) -> std::io::Result<()> {
            match self.0 {}
        }
    }

    pub(super) fn socket(_: &str, _: SocketAddr) -> Result<socket2::Socket, InterfaceError> {
        Err(InterfaceError::Unsupported)
    }

    pub(super) fn check(_: &str) -> Result<(), InterfaceError> {
        Err(InterfaceError::Unsupported)
    }

    pub(super) fn routes(_: IpAddr) -> Vec<String> {
        Vec::new()
    }
}
