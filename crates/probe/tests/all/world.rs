//! Two hosts with clocks of their own, joined by a path of the lab.

use std::net::SocketAddr;

use thalweg_link::{Packet, PathConfig, Pipe, Streams};
use thalweg_probe::{
    Break, Client, ClientConfig, Findings, Load, LoadFindings, Server, ServerConfig, Summary, Trace, Train, Way,
    train_rates,
};
use thalweg_units::{Duration, DurationExt, Ecn, Instant};

use super::bulk::Bulk;

/// IP and UDP headers.
const HEADERS: usize = 28;

/// A host's clock: it starts anywhere, and runs fast or slow.
#[derive(Copy, Clone, Debug, Default)]
pub struct HostClock {
    pub origin: u64,
    /// Parts per million.
    pub drift: i64,
}

impl HostClock {
    pub fn at(self, time: Instant) -> Instant {
        let nanos = i128::from(time.as_nanos());
        let drifted = nanos + nanos * i128::from(self.drift) / 1_000_000;
        Instant::from_nanos(self.origin + drifted as u64)
    }

    /// The first time at which the clock shows this.
    pub fn when(self, shown: Instant) -> Instant {
        let nanos = i128::from(shown.as_nanos() - self.origin.min(shown.as_nanos()));
        let mut time = Instant::from_nanos((nanos * 1_000_000 / i128::from(1_000_000 + self.drift)) as u64);
        while self.at(time) < shown {
            time += Duration::from_nanos(1);
        }
        time
    }
}

/// A time in which a host does not run.
#[derive(Copy, Clone, Debug)]
pub struct Stop {
    pub from: Duration,
    pub until: Duration,
}

impl Stop {
    fn delay(stops: &[Stop], at: Instant) -> Instant {
        let inside = |stop: &&Stop| at >= Instant::ZERO + stop.from && at < Instant::ZERO + stop.until;
        stops.iter().find(inside).map_or(at, |stop| Instant::ZERO + stop.until)
    }
}

/// A measurement in the lab.
#[derive(Clone, Debug)]
pub struct World {
    pub hops: Vec<PathConfig>,
    pub seed: u64,
    pub interval: Duration,
    pub length: Duration,
    /// When the client begins; the path and the server do so at zero.
    pub begin: Duration,
    pub client_clock: HostClock,
    pub server_clock: HostClock,
    pub client_stops: Vec<Stop>,
    pub server_stops: Vec<Stop>,
    /// When the server is replaced by a new one, without a farewell.
    pub restart: Option<Duration>,
    /// Packets of 1500 bytes from somebody else, up and down, at these times.
    pub cross: Vec<(Duration, bool)>,
    /// Which ways are loaded: from and until.
    pub loads: Vec<(Way, Duration, Duration)>,
    /// Whether the client sends trains.
    pub trains: bool,
}

impl World {
    pub fn over(hops: &[PathConfig], seed: u64) -> World {
        World {
            hops: hops.to_vec(),
            seed,
            interval: Duration::from_millis(20),
            length: Duration::from_secs(600),
            begin: Duration::ZERO,
            client_clock: HostClock { origin: 5_000_000_000, drift: 0 },
            server_clock: HostClock { origin: 77_000_000_000_000, drift: 0 },
            client_stops: Vec::new(),
            server_stops: Vec::new(),
            restart: None,
            cross: Vec::new(),
            loads: Vec::new(),
            trains: false,
        }
    }

    /// Two minutes with trains and a load of ten seconds each way, as `thalweg probe --advise` measures.
    pub fn advised(hops: &[PathConfig], seed: u64) -> World {
        let at = Duration::from_secs;
        World {
            length: at(120),
            server_clock: HostClock { origin: 77_000_000_000_000, drift: 40 },
            loads: vec![(Way::Up, at(10), at(20)), (Way::Down, at(24), at(34))],
            trains: true,
            ..World::over(hops, seed)
        }
    }

    /// Runs it; what was measured, times without a session, and the server.
    pub fn run(&self) -> (Trace, Vec<Break>, Server) {
        self.run_in_parts(&mut |_| None)
    }

    /// The same with loads and trains; what was found, or none if nothing came back.
    pub fn measured(&self) -> Option<Summary> {
        let (mut bulks, mut trains) = (self.bulks(), Vec::new());
        let (trace, ..) = self.run_with(&mut bulks, &mut trains, &mut |_| None);
        let mut summary = Summary::of(Findings::of(&trace)?);
        let of = |(way, load): &(Way, _)| LoadFindings::of(*way, load, &summary.loaded[*way as usize], &summary);
        summary.loads = self.loads_of(&bulks, &trace).iter().filter_map(of).collect();
        summary.trains = train_rates(&trains, trace.started);
        Some(summary)
    }

    fn loads_of(&self, bulks: &[Bulk], trace: &Trace) -> Vec<(Way, Load)> {
        let since = |at: Instant| self.client_clock.at(at).as_nanos() as i64 - trace.started as i64;
        bulks.iter().map(|bulk| (if bulk.up { Way::Up } else { Way::Down }, bulk.load(since))).collect()
    }

    /// The same with trains; what was measured, the trains, and the server.
    pub fn run_trains(&self) -> (Trace, Vec<Train>, Server) {
        let mut trains = Vec::new();
        let (trace, _, server) = self.run_with(&mut self.bulks(), &mut trains, &mut |_| None);
        (trace, trains, server)
    }

    fn bulks(&self) -> Vec<Bulk> {
        let bulk = |(way, from, until): &(Way, Duration, Duration)| {
            Bulk::new(*way == Way::Up, Instant::ZERO + *from, Instant::ZERO + *until)
        };
        self.loads.iter().map(bulk).collect()
    }

    /// The same, with parts that are handed over as a long measurement has them.
    pub fn run_in_parts(
        &self,
        cut: &mut dyn FnMut((&mut Client, Instant)) -> Option<()>,
    ) -> (Trace, Vec<Break>, Server) {
        self.run_with(&mut self.bulks(), &mut Vec::new(), cut)
    }

    fn run_with(
        &self,
        bulks: &mut [Bulk],
        trains: &mut Vec<Train>,
        cut: &mut dyn FnMut((&mut Client, Instant)) -> Option<()>,
    ) -> (Trace, Vec<Break>, Server) {
        let streams = Streams::new(self.seed);
        let start = Instant::ZERO;
        let mut pipe: Pipe<Vec<u8>> =
            Pipe::chain(&self.hops, start, &streams, self.begin + self.length + Duration::from_secs(60)).unwrap();
        let config =
            ClientConfig { interval: self.interval, length: Some(self.length), marks: true, trains: self.trains };
        let mut client = Client::new(config, self.client_clock.at(start + self.begin), self.seed);
        for (way, from, until) in &self.loads {
            let at = |span: Duration| self.client_clock.at(start + span);
            client.loaded(*way, at(*from), Some(at(*until)));
        }
        let new_server = |at: Instant, clock: HostClock| {
            let secret = streams.bytes(&format!("secret {}", at.as_nanos()));
            Server::new(ServerConfig::default(), clock.at(at), &secret)
        };
        let mut server = new_server(start, self.server_clock);
        let address: SocketAddr = "192.0.2.1:5000".parse().unwrap();
        let (mut delivered, mut out) = (Vec::new(), Vec::new());
        let mut cross = self.cross.iter().peekable();
        let (mut restart, mut server_clock) = (self.restart, self.server_clock);
        let mut dice = streams.dice("hosts");
        while !client.is_done() {
            let client_due =
                client.poll_timeout().map(|at| Stop::delay(&self.client_stops, self.client_clock.when(at)));
            let server_due = server.poll_timeout().map(|at| Stop::delay(&self.server_stops, server_clock.when(at)));
            let cross_due = cross.peek().map(|(at, _)| start + *at);
            let restart_due = restart.map(|at| start + at);
            let bulk_due = bulks.iter().filter_map(Bulk::due).min();
            let dues = [client_due, server_due, cross_due, restart_due, bulk_due, pipe.next_event()];
            let now = dues.into_iter().flatten().min().unwrap();
            if pipe.next_event().is_some_and(|at| at <= now) {
                pipe.advance(now, &mut delivered);
            }
            for (at, packet) in delivered.drain(..) {
                let Packet { payload, flow, ecn, .. } = packet;
                match flow {
                    0 => {
                        // The kernel knows when a datagram came; the program sees it when it runs.
                        let seen = Stop::delay(&self.server_stops, at);
                        let (seen, at) = (server_clock.at(seen), server_clock.at(at));
                        if server.receive(seen, at, address.into(), ecn, &payload, &mut out) {
                            send(&mut pipe, now, false, Ecn::NotEct, &out);
                        }
                    }
                    1 => {
                        let seen = Stop::delay(&self.client_stops, at);
                        client.receive(self.client_clock.at(seen), self.client_clock.at(at), ecn, &payload);
                    }
                    2 => {}
                    flow => {
                        let bulk = &mut bulks[(flow as usize - 3) / 2];
                        if flow % 2 == 0 {
                            bulk.acknowledged(now, &payload);
                        } else if let Some(ack) = bulk.arrived(now, &payload) {
                            let way = if bulk.up { Pipe::<Vec<u8>>::DOWN } else { Pipe::<Vec<u8>>::UP };
                            let ack = self::packet(now, flow + 1, 60, Ecn::NotEct, ack);
                            pipe.send(now, way, ack, &mut Vec::new());
                        }
                    }
                }
            }
            for (index, bulk) in bulks.iter_mut().enumerate() {
                while let Some(payload) = bulk.send(now) {
                    let way = if bulk.up { Pipe::<Vec<u8>>::UP } else { Pipe::<Vec<u8>>::DOWN };
                    let data = packet(now, 3 + 2 * index as u32, Bulk::SIZE, Ecn::NotEct, payload);
                    pipe.send(now, way, data, &mut Vec::new());
                }
            }
            if client_due.is_some_and(|at| at <= now) {
                // As the system has it: a program wakes a little late.
                let _ = dice.bits();
                while let Some(ecn) = client.poll_transmit(self.client_clock.at(now), &mut out) {
                    send(&mut pipe, now, true, ecn, &out);
                }
            }
            if server_due.is_some_and(|at| at <= now) {
                while let Some((_, ecn)) = server.poll_transmit(server_clock.at(now), &mut out) {
                    send(&mut pipe, now, false, ecn, &out);
                }
            }
            if cross_due.is_some_and(|at| at <= now) {
                let (_, up) = cross.next().unwrap();
                let way = if *up { Pipe::<Vec<u8>>::UP } else { Pipe::<Vec<u8>>::DOWN };
                pipe.send(now, way, packet(now, 2, 1500, Ecn::NotEct, Vec::new()), &mut Vec::new());
            }
            cut((&mut client, self.client_clock.at(now)));
            if restart_due.is_some_and(|at| at <= now) {
                // Its clock begins anew.
                server_clock.origin = 123_456_789;
                (server, restart) = (new_server(now, server_clock), None);
            }
        }
        assert_eq!(client.error(), None);
        *trains = client.trains().to_vec();
        let (trace, breaks) = client.into_trace();
        (trace, breaks, server)
    }
}

fn packet(now: Instant, flow: u32, size: usize, ecn: Ecn, payload: Vec<u8>) -> Packet<Vec<u8>> {
    Packet { payload, size: size as u32, flow, connection: 0, ecn, sent: now, tail: false }
}

fn send(pipe: &mut Pipe<Vec<u8>>, now: Instant, up: bool, ecn: Ecn, bytes: &[u8]) {
    let (way, flow) = if up { (Pipe::<Vec<u8>>::UP, 0) } else { (Pipe::<Vec<u8>>::DOWN, 1) };
    pipe.send(now, way, packet(now, flow, bytes.len() + HEADERS, ecn, bytes.to_vec()), &mut Vec::new());
}

/// The server's clock less the client's at this time of the client's clock, in nanoseconds.
pub fn true_offset(world: &World, at: i64) -> i64 {
    let time = world.client_clock.when(Instant::from_nanos(at as u64));
    world.server_clock.at(time).as_nanos() as i64 - at
}

/// `span` in nanoseconds.
pub fn nanos(span: Duration) -> i64 {
    span.nanos() as i64
}
