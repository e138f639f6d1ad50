//! UDP sockets that tell when the kernel received a datagram, on the clock of this program.

use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{SystemTime, UNIX_EPOCH};

use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use thalweg_probe::Peer;
use thalweg_units::{Duration, Ecn, Instant};
use tokio::io::Interest;
use tokio::net::UdpSocket;

/// Port of a probe server.
pub(super) const PORT: u16 = 4435;
/// A time of arrival that is older than this is none: the clock of the day was set meanwhile.
const OLDEST: Duration = Duration::from_secs(10);
/// What the kernel may hand over in one piece: datagrams of one sender that it has joined.
const BUFFER: usize = 1 << 16;

/// The monotonic clock of this program. It starts at a second, so that times shortly before its start exist.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    start: std::time::Instant,
}

impl Clock {
    pub(super) fn start() -> Self {
        Clock { start: std::time::Instant::now() }
    }

    pub(super) fn now(self) -> Instant {
        Instant::ZERO + Duration::from_secs(1) + self.start.elapsed()
    }

    /// That time for the runtime's timers.
    pub(super) fn runtime(self, at: Instant) -> tokio::time::Instant {
        (self.start + at.saturating_since(Instant::ZERO + Duration::from_secs(1))).into()
    }

    /// When something was by this clock that was at `stamp` by the clock of the day, shortly ago.
    fn when(self, stamp: Duration) -> Option<Instant> {
        let now = self.now();
        let day = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
        let age = day.checked_sub(stamp)?;
        (age <= OLDEST).then(|| now - age)
    }
}

/// A datagram that was received.
#[derive(Debug)]
pub(super) struct Arrival<'a> {
    pub(super) from: Peer,
    /// When the kernel received it; if the kernel does not say, when this program did.
    pub(super) at: Instant,
    pub(super) ecn: Ecn,
    pub(super) bytes: &'a [u8],
}

/// A UDP socket.
pub(super) struct Socket {
    io: UdpSocket,
    state: UdpSocketState,
    clock: Clock,
    buffer: Vec<u8>,
    /// Whether all datagrams so far came with the kernel's time.
    stamped: bool,
}

impl Socket {
    /// A socket bound to this address; one of all IPv6 addresses takes IPv4 as well.
    pub(super) fn bind(address: SocketAddr, clock: Clock) -> io::Result<Socket> {
        let domain = socket2::Domain::for_address(address);
        let socket = socket2::Socket::new(domain, socket2::Type::DGRAM, Some(socket2::Protocol::UDP))?;
        if address.is_ipv6() {
            // Some systems have no IPv4 inside of IPv6.
            let _ = socket.set_only_v6(false);
        }
        socket.bind(&address.into())?;
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        let io = UdpSocket::from_std(socket.into())?;
        Ok(Socket { io, state, clock, buffer: vec![0; BUFFER], stamped: true })
    }

    /// A socket that sends to this address, and hears from it when nobody listens there.
    pub(super) async fn connect(to: SocketAddr, clock: Clock) -> io::Result<Socket> {
        let any = match to {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = Socket::bind(any, clock)?;
        socket.io.connect(to).await?;
        Ok(socket)
    }

    pub(super) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr()
    }

    /// Whether all datagrams so far came with the kernel's time of arrival.
    pub(super) fn is_stamped(&self) -> bool {
        self.stamped
    }

    /// Waits for datagrams, and hands over those that are there.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub(super) async fn receive(&mut self, each: impl FnMut(Instant, Arrival<'_>)) -> io::Result<()> {
        self.io.readable().await?;
        self.hand_over(true, each)
    }

    /// Hands over the datagrams that are there.
    ///
    /// # Errors
    /// What the system says, which may concern a datagram that was sent. It says so before it gives what had arrived
    /// earlier: that is handed over all the same.
    pub(super) fn take(&mut self, each: impl FnMut(Instant, Arrival<'_>)) -> io::Result<()> {
        self.hand_over(false, each)
    }

    /// The runtime may not know yet of datagrams that it has not been asked to wait for.
    fn hand_over(&mut self, runtime_knows: bool, mut each: impl FnMut(Instant, Arrival<'_>)) -> io::Result<()> {
        let Socket { io, state, clock, buffer, stamped } = self;
        let mut said = Ok(());
        loop {
            let mut meta = [RecvMeta::default()];
            let mut slices = [IoSliceMut::new(buffer)];
            let mut receive = || state.recv(UdpSockRef::from(&*io), &mut slices, &mut meta);
            let received = if runtime_knows { io.try_io(Interest::READABLE, receive) } else { receive() };
            match received {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return said,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    said = Err(error);
                    continue;
                }
                Err(error) => return Err(error),
            }
            let [meta] = meta;
            let now = clock.now();
            let at = meta.timestamp.and_then(|stamp| clock.when(stamp));
            *stamped &= meta.timestamp.is_some();
            let from = Peer { address: meta.addr, local: meta.dst_ip };
            let ecn = meta.ecn.map_or(Ecn::NotEct, |ecn| Ecn::from_bits(ecn as u8));
            let filled = buffer.get(..meta.len).unwrap_or(&[]);
            for bytes in filled.chunks(meta.stride.max(1)) {
                each(now, Arrival { from, at: at.unwrap_or(now), ecn, bytes });
            }
        }
    }

    /// Whether it can send marked datagrams to whom it is connected: other systems take no address there.
    pub(super) const MARKS: bool = cfg!(any(target_os = "linux", target_os = "android"));

    /// Sends to whom the socket is connected. What finds no room in the system is lost, as on a link.
    ///
    /// # Errors
    /// What the system says, which may concern a datagram before.
    pub(super) fn send(&self, bytes: &[u8], ecn: Ecn) -> io::Result<()> {
        if Socket::MARKS && ecn != Ecn::NotEct {
            return self.send_to(self.io.peer_addr()?.into(), bytes, ecn);
        }
        // Past the runtime, which at first does not know that there is room.
        socket2::SockRef::from(&self.io).send(bytes).map(|_| ())
    }

    /// Sends to a client, from the address that it sent to.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub(super) fn send_to(&self, to: Peer, bytes: &[u8], ecn: Ecn) -> io::Result<()> {
        let ecn = EcnCodepoint::from_bits(ecn.bits());
        let transmit = Transmit { destination: to.address, ecn, contents: bytes, segment_size: None, src_ip: to.local };
        self.state.try_send(UdpSockRef::from(&self.io), &transmit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn arrivals_have_the_time_of_the_kernel() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let clock = Clock::start();
            let mut server = Socket::bind(host.parse().unwrap(), clock).unwrap();
            let client = Socket::connect(server.local_addr().unwrap(), clock).await.unwrap();
            // The first socket that asks for times switches them on, which the kernel does a little later.
            tokio::time::sleep(Duration::from_millis(200)).await;
            let before = clock.now();
            client.send(b"one", Ecn::Ect0).unwrap();
            client.send(b"two", Ecn::NotEct).unwrap();
            tokio::time::sleep(Duration::from_millis(30)).await;
            let mut seen = Vec::new();
            while seen.len() < 2 {
                let note =
                    |now, arrival: Arrival<'_>| seen.push((now, arrival.at, arrival.ecn, arrival.bytes.to_vec()));
                server.receive(note).await.unwrap();
            }
            for ((now, at, ecn, bytes), expected) in seen.into_iter().zip([(Ecn::Ect0, b"one"), (Ecn::NotEct, b"two")])
            {
                assert_eq!((ecn, &bytes[..]), (expected.0, &expected.1[..]));
                // It waited for this program, and does not look so.
                assert!(at + Duration::from_millis(5) > before && at + Duration::from_millis(20) < now);
            }
            assert!(server.is_stamped());
        }
    }

    #[tokio::test]
    async fn what_arrived_before_an_error_is_handed_over() {
        let clock = Clock::start();
        let server = Socket::bind("127.0.0.1:0".parse().unwrap(), clock).unwrap();
        let mut client = Socket::connect(server.local_addr().unwrap(), clock).await.unwrap();
        server.send_to(Peer { address: client.local_addr().unwrap(), local: None }, b"bye", Ecn::NotEct).unwrap();
        drop(server);
        client.send(b"one", Ecn::NotEct).unwrap();
        let mut seen = Vec::new();
        let received = client.receive(|_, arrival| seen.push(arrival.bytes.to_vec())).await;
        assert_eq!(seen, [b"bye"]);
        assert_eq!(received.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn a_clock_that_was_set_gives_no_time() {
        let clock = Clock::start();
        let day = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        assert!(clock.when(day).is_some());
        // The clock of the day was set back, or forward, by an hour.
        assert_eq!(clock.when(day + Duration::from_secs(3600)), None);
        assert_eq!(clock.when(day - Duration::from_secs(3600)), None);
    }
}
