//! The fastest that a transfer could possibly be over its path: what completion times are measured against.

mod several;

use thalweg_link::{DelayModel, DirectionConfig, Schedule};
use thalweg_units::{Duration, DurationExt, Rate};

use crate::plan::{AddressChange, FlowPlan, Plan};

/// A bulk transfer's floor.
///
/// The clock starts with the client's first datagram, which is taken to carry the request (or the first data) already,
/// and stops with the last byte. Rates and delays are those of that time. The link serves nothing else, loses nothing,
/// and is never idle. A policer has a full bucket when the data begin, and packets reach it just when it lets them
/// pass. A handshake before the request adds [`handshake`](Self::handshake); then the floor is [`cold`](Self::cold).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Floor {
    /// From the first datagram to the last byte.
    pub total: Duration,
    /// Of this, the request's way: its serialisation and propagation. Zero for uploads.
    pub request: Duration,
    /// Of this, the serialisation of all packets at the slowest link, or what a policer takes to let them pass.
    pub serialisation: Duration,
    /// Of this, the propagation of the data.
    pub propagation: Duration,
    /// From the first datagram to the mean byte: what the area under the best delivery curve comes down to.
    pub mean_byte: Duration,
    /// From the first datagram to the arrival of every share of the bytes, from none of [`SHARES`](Self::SHARES) (the
    /// earliest that anything could arrive) to all of them: the best delivery curve.
    pub shares: [Duration; Self::SHARES + 1],
    /// Packets.
    pub packets: u64,
    /// Bytes of the application per packet.
    pub payload_per_packet: u32,
    /// Bytes on the wire per full packet.
    pub packet_size: u32,
    /// The sum of the fixed delays of both directions.
    pub round_trip: Duration,
    /// What a handshake before the request adds.
    pub handshake: Duration,
    /// From the first datagram of a handshake to the last byte, with the rates and delays of the time in which the data
    /// leave then. [`total`](Self::total) and [`handshake`](Self::handshake), where those do not change.
    pub cold: Duration,
}

/// How the packets of a bulk transfer are made up. Bytes on the wire count all headers from IP on.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Framing {
    /// Bytes of a full packet on the wire.
    pub packet: u32,
    /// Of these, all that is not the application's.
    pub overhead: u32,
    /// Bytes on the wire of the client's first packet.
    pub first: u32,
    /// Round trips from the first packet to the request.
    pub handshake: u32,
}

impl Floor {
    /// In so many equal shares the floor's delivery curve is cut.
    pub const SHARES: usize = 40;
}

impl Plan {
    /// The floor of a flow's bulk transfer whose client sends its first datagram at `start`, counted from the start of
    /// the run, in packets made up like this ([`StackFactory::framing`](crate::StackFactory::framing)); `None` for
    /// other traffic, for a flow that changes its path, and where the path never carries that much.
    pub fn floor(&self, flow: &FlowPlan, start: Duration, framing: &Framing) -> Option<Floor> {
        if !flow.beside.is_empty() {
            return self.floor_of_several(flow, start, framing);
        }
        let mut floor = self.floor_of_data(flow, start, framing)?;
        if !floor.handshake.is_zero() {
            // A path that dies meanwhile never carries the data; then the rates of before are as good as any.
            let later = self.floor_of_data(flow, start + floor.handshake, framing);
            floor.cold = floor.handshake + later.map_or(floor.total, |later| later.total);
        }
        Some(floor)
    }

    /// The floor without a handshake.
    fn floor_of_data(&self, flow: &FlowPlan, start: Duration, framing: &Framing) -> Option<Floor> {
        let bulk = flow.traffic.bulk()?;
        let (bytes, down) = (bulk.bytes?, !bulk.up);
        if flow.moves.iter().any(|change| matches!(change.what, AddressChange::Move { .. })) {
            return None;
        }
        let paths = || flow.route.iter().filter_map(|path| self.paths.get(*path));
        let up: Vec<&DirectionConfig> = paths().map(|path| &path.up).collect();
        // The first hop of a route is the last that the server's packets cross.
        let down_links: Vec<&DirectionConfig> = paths().rev().map(|path| &path.down).collect();
        let data = if down { &down_links } else { &up };

        let path_mtu = data.iter().filter_map(|link| link.mtu.as_ref()).map(|mtu| largest_from(mtu, start)).min();
        let (overhead, first) = (framing.overhead, framing.first);
        let packet_size = framing.packet.min(path_mtu.unwrap_or(u32::MAX));
        let payload_per_packet = packet_size.checked_sub(overhead).filter(|size| *size > 0)?;
        let packets = bytes.div_ceil(u64::from(payload_per_packet)).max(1);
        let on_the_wire = bytes + packets * u64::from(overhead);

        let mut begin = start;
        if down {
            for link in &up {
                begin = arrival(&link.delay, finish(link, begin, u64::from(first), u64::from(first))?);
            }
        }
        // One link works all the time; the others only add what one packet takes, the last of which may be short.
        let last = on_the_wire - (packets - 1) * u64::from(packet_size);
        let through = |busy: usize, of_all: u64| {
            let (mut at, mut serialisation) = (begin, Duration::ZERO);
            for (n, link) in data.iter().enumerate() {
                let end = finish(link, at, if n == busy { of_all } else { last }, last)?;
                serialisation += end - at;
                at = arrival(&link.delay, end);
            }
            Some((at, serialisation))
        };
        // Any of them is a floor, so the highest counts.
        let all = (0..data.len()).map(|busy| Some((through(busy, on_the_wire)?, busy)));
        let ((end, serialisation), busy) = all.collect::<Option<Vec<_>>>()?.into_iter().max()?;
        let mut arrivals = 0u128;
        for slice in 0..SLICES {
            let middle = u128::from(on_the_wire) * u128::from(2 * slice + 1) / u128::from(2 * SLICES);
            arrivals += u128::from((through(busy, middle as u64)?.0 - start).nanos());
        }
        let mut shares = [Duration::ZERO; Floor::SHARES + 1];
        for (share, at) in (0u128..).zip(&mut shares) {
            // The first byte stands for none: a link at rest has no time at which nothing has crossed it.
            let arrived = (u128::from(on_the_wire) * share / Floor::SHARES as u128).max(1);
            *at = through(busy, arrived as u64)?.0 - start;
        }
        let request = begin - start;
        let round_trip = self.round_trip(&flow.route);
        Some(Floor {
            total: end - start,
            request,
            serialisation,
            propagation: end - begin - serialisation,
            mean_byte: Duration::from_nanos((arrivals / u128::from(SLICES)) as u64),
            shares,
            packets,
            payload_per_packet,
            packet_size,
            round_trip,
            handshake: round_trip * framing.handshake,
            cold: end - start,
        })
    }
}

/// In so many pieces a transfer is cut to find its mean byte: the rate may change on the way.
const SLICES: u64 = 256;

/// The largest packet that fits at some time from `start` on.
fn largest_from(mtu: &Schedule<u32>, start: Duration) -> u32 {
    let (mut largest, mut next) = mtu.at(start);
    for _ in mtu.values() {
        let Some(at) = next else { break };
        let later = mtu.at(at);
        (largest, next) = (largest.max(later.0), later.1);
    }
    largest
}

/// When what leaves a link at `end` or later is at its far end at the earliest.
fn arrival(delay: &DelayModel, end: Duration) -> Duration {
    let schedule = match delay {
        DelayModel::Constant(delay) => return end + *delay,
        DelayModel::Schedule(schedule) => schedule,
    };
    let (now, mut next) = schedule.at(end);
    let mut earliest = end + now;
    while let Some(at) = next.filter(|at| *at < earliest) {
        let later = schedule.at(at);
        earliest = earliest.min(at + later.0);
        next = later.1;
    }
    earliest
}

/// When the last of these bytes has left a link that they reach at `at`. The last of their packets has `last` bytes.
fn finish(link: &DirectionConfig, at: Duration, bytes: u64, last: u64) -> Option<Duration> {
    let serve = |at, bytes| match link.rate.nominal() {
        Rate::MAX => Some(at),
        _ => link.rate.finish(at, bytes),
    };
    let served = serve(at, bytes)?;
    let Some(policer) = link.policer else { return Some(served) };
    // What the bucket does not hold passes as its tokens come; then the last packet is still to be served.
    let passed = at + policer.rate.time_for(bytes.saturating_sub(policer.burst));
    Some(served.max(serve(passed, last.min(bytes))?))
}

#[cfg(test)]
mod tests {
    use thalweg_link::{Packet, Policer, RateModel};
    use thalweg_units::Instant;

    use super::*;
    use crate::plan::PathPlan;
    use crate::quic::Thalweg;
    use crate::stack::StackFactory;
    use crate::traffic::Traffic;

    fn floor(plan: &Plan, flow: &FlowPlan, start: Duration) -> Option<Floor> {
        plan.floor(flow, start, &Thalweg.framing(flow, flow.traffic.sends_up()))
    }

    fn link(rate: &str, delay_ms: u64) -> DirectionConfig {
        DirectionConfig {
            rate: RateModel::Constant(rate.parse().unwrap()),
            delay: Duration::from_millis(delay_ms).into(),
            ..DirectionConfig::default()
        }
    }

    fn plan(up: DirectionConfig, down: DirectionConfig) -> Plan {
        Plan { paths: vec![PathPlan::new("p", up, down)], ..Plan::default() }
    }

    #[test]
    fn the_satellite_by_hand() {
        let plan = plan(link("3 Mbps", 300), link("250 Mbps", 300));
        let floor = floor(&plan, &FlowPlan::new("f", Traffic::download(Some(100_000_000))), Duration::ZERO).unwrap();
        // 1452 bytes of UDP payload: 1418 of the application, 1480 on the wire.
        assert_eq!((floor.payload_per_packet, floor.packet_size), (1418, 1480));
        assert_eq!(floor.packets, 70_522); // 100,000,000 / 1418 = 70,521.9
        // (100,000,000 + 70,522 × 62) × 8 bits at 250 Mbps.
        assert_eq!(floor.serialisation, Duration::from_nanos((100_000_000 + 70_522 * 62) * 32));
        // 1,228 bytes at 3 Mbps take 3.274667 ms.
        assert_eq!(floor.request, Duration::from_nanos(303_274_667));
        assert_eq!(floor.propagation, Duration::from_millis(300));
        assert_eq!(floor.total, floor.request + floor.serialisation + floor.propagation);
        assert_eq!(floor.round_trip, Duration::from_millis(600));
        assert_eq!(floor.total.as_millis(), 3943);
        assert_eq!(floor.cold, floor.total + Duration::from_millis(600), "one round trip for the handshake");
        // At a constant rate the mean byte is the one in the middle.
        assert_eq!(floor.mean_byte.as_micros(), (floor.total - floor.serialisation / 2).as_micros());
        let part = |share: u32| (floor.total - floor.serialisation + floor.serialisation * share / 40).as_micros();
        for share in 0..=40u32 {
            assert!(floor.shares[share as usize].as_micros().abs_diff(part(share)) <= 1, "{share}");
        }
        assert_eq!(floor.shares[40], floor.total);
    }

    #[test]
    fn a_policer_lets_its_burst_pass_at_the_rate_of_the_link_and_the_rest_at_its_own() {
        let mut down = link("50 Mbps", 10);
        let policer = Policer { rate: "10 Mbps".parse().unwrap(), burst: 100_000 };
        down.policer = Some(policer);
        let of = |down: &DirectionConfig, bytes| {
            let flow = FlowPlan::new("f", Traffic::download(Some(bytes)));
            floor(&plan(link("50 Mbps", 10), down.clone()), &flow, Duration::ZERO).unwrap()
        };
        let policed = of(&down, 10_000_000);
        // 10,000,000 bytes in 7,053 packets (7,052.2) with 62 bytes of headers each.
        let wire = 10_000_000 + 7_053 * 62;
        let last = 10_000_000 - 7_052 * 1418 + 62;
        let (tokens, packet) = ((wire - 100_000) * 800, last * 160);
        assert_eq!(policed.serialisation, Duration::from_nanos(tokens + packet));
        assert_eq!(policed.total, policed.request + policed.serialisation + Duration::from_millis(10));
        assert_eq!(policed.shares[40], policed.total);
        assert!(policed.shares.is_sorted());
        // What fits into the bucket is not policed, and neither is what a policer faster than the link sees.
        let free = DirectionConfig { policer: None, ..down.clone() };
        assert_eq!(of(&down, 90_000), of(&free, 90_000));
        down.policer = Some(Policer { rate: "60 Mbps".parse().unwrap(), ..policer });
        assert_eq!(of(&down, 10_000_000), of(&free, 10_000_000));
        // The mean byte of what is policed lies in the middle of its time.
        let middle = policed.request + policed.serialisation / 2 + Duration::from_millis(10);
        assert!(policed.mean_byte.abs_diff(middle) < policed.total / 100, "{:?} {middle:?}", policed.mean_byte);
    }

    /// A sender that knows the policer and sends each packet when it passes: nothing can be faster, and the floor is
    /// reached.
    #[test]
    fn a_sender_that_knows_the_policer_reaches_the_floor() {
        for (rate, policed, burst) in
            [("50 Mbps", "10 Mbps", 100_000), ("12 Mbps", "10 Mbps", 40_000), ("8 Mbps", "9 Mbps", 3_000)]
        {
            let policer = Policer { rate: policed.parse().unwrap(), burst };
            let config = DirectionConfig { policer: Some(policer), ..link(rate, 10) };
            let flow = FlowPlan::new("f", Traffic::upload(Some(1_418 * 1_000)));
            let floor = floor(&plan(config.clone(), link(rate, 10)), &flow, Duration::ZERO).unwrap();
            let mut link =
                thalweg_link::Direction::new(&config, Instant::ZERO, &thalweg_link::Streams::new(1)).unwrap();
            let mut arrived: Vec<(Instant, Packet<u64>)> = Vec::new();
            for number in 0..1_000u64 {
                // The tokens of all packets so far, this one included, less the bucket.
                let size = 1_480;
                let tokens = policer.rate.time_for((size * (number + 1)).saturating_sub(burst));
                let now = Instant::ZERO + tokens;
                link.advance(now, &mut arrived);
                let packet = Packet {
                    payload: number,
                    size: size as u32,
                    flow: 0,
                    connection: 0,
                    ecn: thalweg_units::Ecn::NotEct,
                    sent: now,
                    tail: false,
                };
                link.send(now, packet, &mut arrived);
            }
            while let Some(at) = link.next_event() {
                link.advance(at, &mut arrived);
            }
            assert_eq!(arrived.len(), 1_000, "{rate}: {:?}", link.stats());
            let last = arrived.last().unwrap().0.saturating_since(Instant::ZERO);
            assert!(last.abs_diff(floor.total) < Duration::from_micros(1), "{rate}: {last:?} {:?}", floor.total);
        }
    }

    #[test]
    fn an_upload_needs_no_request() {
        let plan = plan(link("8 Mbps", 10), link("1 Gbps", 10));
        let floor = floor(&plan, &FlowPlan::new("f", Traffic::upload(Some(1418))), Duration::ZERO).unwrap();
        assert_eq!(floor.total, Duration::from_micros(1480) + Duration::from_millis(10));
        assert_eq!((floor.request, floor.packets), (Duration::ZERO, 1));
    }

    #[test]
    fn a_smaller_path_mtu_means_more_packets() {
        let mut down = link("8 Mbps", 0);
        down.mtu = Some(thalweg_link::Schedule::constant(1280));
        let flow = FlowPlan::new("f", Traffic::download(Some(10_000)));
        let floor = floor(&plan(link("8 Mbps", 0), down), &flow, Duration::ZERO).unwrap();
        assert_eq!((floor.packet_size, floor.payload_per_packet, floor.packets), (1280, 1218, 9));
    }

    #[test]
    fn the_slowest_of_several_links_counts() {
        let mut plan = plan(link("1 Gbps", 1), link("1 Gbps", 1));
        plan.paths.push(PathPlan::new("q", link("8 Mbps", 5), link("8 Mbps", 5)));
        let mut flow = FlowPlan::new("f", Traffic::upload(Some(14_180)));
        flow.route = vec![0, 1];
        let floor = floor(&plan, &flow, Duration::ZERO).unwrap();
        // One packet of 1,480 bytes over the first, ten over the second, and six milliseconds.
        let serialisation = Duration::from_nanos(11_840) + Duration::from_micros(14_800);
        assert_eq!(floor.total, serialisation + Duration::from_millis(6));
    }

    #[test]
    fn a_download_crosses_the_route_from_its_far_end() {
        // The access link is dead until 50 ms; the data reach it only after 40 ms of the other.
        let mut plan = plan(link("8 Mbps", 0), link("8 Mbps", 0));
        plan.paths.push(PathPlan::new("far", link("1 Gbps", 0), link("1 Gbps", 40)));
        let ms = Duration::from_millis;
        let steps = vec![(ms(0), Rate::ZERO), (ms(50), "8 Mbps".parse().unwrap())];
        plan.paths[0].down.rate = RateModel::Schedule(Schedule::new(steps, None).unwrap());
        let flow = FlowPlan { route: vec![0, 1], ..FlowPlan::new("f", Traffic::download(Some(1418))) };
        // One packet of 1,480 bytes is there at about 41 ms and has left the access link 1.48 ms after it comes alive.
        let floor = floor(&plan, &flow, Duration::ZERO).unwrap();
        assert_eq!(floor.total, ms(50) + Duration::from_micros(1480));
    }

    #[test]
    fn there_is_no_floor_for_what_has_no_end() {
        let plan = plan(link("8 Mbps", 0), link("8 Mbps", 0));
        assert_eq!(floor(&plan, &FlowPlan::new("f", Traffic::download(None)), Duration::ZERO), None);
    }

    #[test]
    fn rates_and_delays_are_those_of_the_time_in_which_the_flow_runs() {
        let schedule = |steps: [(u64, &str); 2]| {
            let steps = steps.map(|(at, rate)| (Duration::from_secs(at), rate.parse().unwrap()));
            RateModel::Schedule(Schedule::new(steps.to_vec(), None).unwrap())
        };
        let mut down = link("1 Mbps", 10);
        down.rate = schedule([(0, "1 Mbps"), (5, "10 Mbps")]);
        let flow = FlowPlan::new("late", Traffic::download(Some(1_000_000)));
        let changing = plan(link("10 Mbps", 10), down);
        let constant = floor(&plan(link("10 Mbps", 10), link("10 Mbps", 10)), &flow, Duration::ZERO);
        assert_eq!(floor(&changing, &flow, Duration::from_secs(6)), constant);
        // From the start on, 5 s at a tenth of the rate, less the request's 11 ms, come first: the mean byte is far
        // from the middle.
        let whole = floor(&changing, &flow, Duration::ZERO).unwrap();
        let bits = (1_000_000 + whole.packets * 62) * 8;
        let slow = (Duration::from_secs(5) - whole.request).as_nanos() as u64 / 1_000;
        let fast = (bits - slow) / 10;
        assert_eq!(whole.total.as_micros() as u64, 5_000_000 + fast + 10_000);
        let (slow_at, fast_at) = (slow / 2 + whole.request.as_micros() as u64, 5_000_000 + fast / 2);
        let mean = (slow_at * slow + fast_at * (bits - slow)) / bits + 10_000;
        assert!(whole.mean_byte.as_micros().abs_diff(u128::from(mean)) < 5_000, "{:?} {mean}", whole.mean_byte);
        // The delivery curve bends where the rate changes, and the area over it is the mean byte.
        assert!(whole.shares.is_sorted() && whole.shares[40] == whole.total);
        let slow_share = whole.shares[1] - whole.shares[0];
        let fast_share = whole.shares[40] - whole.shares[39];
        assert!(slow_share > fast_share * 9, "{slow_share:?} {fast_share:?}");
        let middles = whole.shares.windows(2).map(|ends| (ends[0] + ends[1]) / 2).sum::<Duration>() / 40;
        assert!(middles.abs_diff(whole.mean_byte) < whole.total / 100, "{middles:?} {:?}", whole.mean_byte);
    }

    /// Adding the handshake to the floor would demand that the link had carried data before there could be any.
    #[test]
    fn after_a_handshake_rates_are_those_of_the_time_in_which_the_data_leave() {
        let ms = Duration::from_millis;
        let mut down = link("1 Mbps", 100);
        let steps = vec![(ms(0), "1 Mbps".parse().unwrap()), (ms(1_000), "10 Mbps".parse().unwrap())];
        down.rate = RateModel::Schedule(Schedule::new(steps, None).unwrap());
        let plan = plan(link("10 Mbps", 100), down);
        let flow = FlowPlan::new("f", Traffic::download(Some(1_000_000)));
        let cold = floor(&plan, &flow, ms(500)).unwrap();
        let later = floor(&plan, &flow, ms(700)).unwrap();
        assert_eq!(cold.handshake, ms(200));
        assert_eq!(cold.cold, ms(200) + later.total);
        assert!(cold.cold > cold.total && cold.cold < cold.total + cold.handshake, "{cold:?}");
    }

    #[test]
    fn without_a_handshake_the_cold_floor_is_the_floor() {
        let plan = plan(link("8 Mbps", 10), link("8 Mbps", 10));
        let flow = FlowPlan::new("f", Traffic::download(Some(10_000)));
        let framing = Framing { handshake: 0, ..Thalweg.framing(&flow, false) };
        let floor = plan.floor(&flow, Duration::ZERO, &framing).unwrap();
        assert_eq!(floor.cold, floor.total);
    }

    #[test]
    fn a_shorter_delay_that_comes_in_time_counts() {
        let ms = Duration::from_millis;
        let delay = DelayModel::Schedule(Schedule::new(vec![(ms(0), ms(300)), (ms(1000), ms(10))], None).unwrap());
        // What leaves just before the change may as well wait for it.
        assert_eq!(arrival(&delay, ms(500)), ms(800));
        assert_eq!(arrival(&delay, ms(900)), ms(1010));
        assert_eq!(arrival(&delay, ms(2000)), ms(2010));
    }
}
