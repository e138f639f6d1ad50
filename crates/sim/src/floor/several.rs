//! The floor of a transfer over several paths at once: the least time in which they carry the bytes together.
//!
//! The first path carries data from the request on. Each other one carries them from when its sender can know that it
//! works: two round trips of the first path, after which a client knows that the server has its handshake, and then one
//! and a half round trips of the path itself for a server, which is to see its challenge answered, or one for a client.
//! Outages are known ahead: a path carries nothing in one, and loses nothing.

use thalweg_link::{DirectionConfig, Windows};
use thalweg_units::Duration;

use super::{Floor, Framing, arrival, finish};
use crate::plan::{FlowPlan, Plan};

/// Round trips of the first path before another can be opened.
const BEFORE_OPENING: u32 = 2;
/// In so many pieces a transfer is cut to find its mean byte.
const SLICES: u64 = 40;

/// The links that data cross on one route, and from when on.
struct Lane<'a> {
    links: Vec<&'a DirectionConfig>,
    begin: Duration,
}

/// When the last of these bytes has left a link that they reach at `at`, where nothing is sent that would be lost in an
/// outage. The last of their packets has `last` bytes.
fn finish_but_for_outages(link: &DirectionConfig, at: Duration, bytes: u64, last: u64) -> Option<Duration> {
    let (mut at, mut left) = (at, bytes);
    loop {
        let end = finish(link, at, left, last.min(left))?;
        let outages = link.outages.iter().flat_map(|outage| match outage {
            Windows::List(windows) => windows.as_slice(),
            // Outages of a plan are drawn; what is not is left out, which is on the side of a floor.
            _ => &[],
        });
        let next = outages.filter(|outage| outage.end > at && outage.start <= end).min_by_key(|outage| outage.start);
        let Some(outage) = next else { return Some(end) };
        if outage.start > at {
            // What leaves before it.
            let (mut below, mut above) = (0, left + 1);
            while above - below > 1 {
                let middle = below + (above - below) / 2;
                match finish(link, at, middle, last.min(middle)) {
                    Some(end) if end < outage.start => below = middle,
                    _ => above = middle,
                }
            }
            left -= below;
        }
        at = outage.end;
    }
}

impl Lane<'_> {
    /// When so many bytes have arrived, the last packet of which has `packet` bytes.
    fn arrived(&self, bytes: u64, packet: u64) -> Option<Duration> {
        // One link works all the time; the others only add what one packet takes.
        let through = |busy: usize| {
            self.links.iter().enumerate().try_fold(self.begin, |at, (n, link)| {
                let of_all = if n == busy { bytes } else { packet.min(bytes) };
                Some(arrival(&link.delay, finish_but_for_outages(link, at, of_all, packet.min(bytes))?))
            })
        };
        (0..self.links.len()).map(through).collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    /// How many of at most `most` bytes have arrived at a time.
    fn bytes_by(&self, at: Duration, most: u64, packet: u64) -> u64 {
        if at <= self.begin {
            return 0;
        }
        let (mut below, mut above) = (0, most + 1);
        while above - below > 1 {
            let middle = below + (above - below) / 2;
            match self.arrived(middle, packet) {
                Some(arrived) if arrived <= at => below = middle,
                _ => above = middle,
            }
        }
        below
    }
}

impl Plan {
    /// See [`Plan::floor`].
    pub(super) fn floor_of_several(&self, flow: &FlowPlan, start: Duration, framing: &Framing) -> Option<Floor> {
        let bulk = flow.traffic.bulk()?;
        let (bytes, down) = (bulk.bytes?, !bulk.up);
        if !flow.moves.is_empty() {
            return None;
        }
        let payload_per_packet = framing.packet.checked_sub(framing.overhead).filter(|size| *size > 0)?;
        let packets = bytes.div_ceil(u64::from(payload_per_packet)).max(1);
        let on_the_wire = bytes + packets * u64::from(framing.overhead);
        let packet = u64::from(framing.packet);

        let links = |route: &[usize]| -> [Vec<&DirectionConfig>; 2] {
            let paths = || route.iter().filter_map(|path| self.paths.get(*path));
            [paths().map(|path| &path.up).collect(), paths().rev().map(|path| &path.down).collect()]
        };
        let round_trip = self.round_trip(&flow.route);
        let handshake = round_trip * framing.handshake;
        let [up, down_links] = links(&flow.route);
        let first = u64::from(framing.first);
        let mut begin = start + handshake;
        if down {
            for link in &up {
                begin = arrival(&link.delay, finish(link, begin, first, first)?);
            }
        }
        let request = begin.saturating_sub(start + handshake);
        let mut lanes = vec![Lane { links: if down { down_links } else { up }, begin }];
        for route in &flow.beside {
            let [up, down_links] = links(route);
            let own = self.round_trip(route);
            let validated = if down { own + own / 2 } else { own };
            let begin = start + round_trip * BEFORE_OPENING + validated;
            lanes.push(Lane { links: if down { down_links } else { up }, begin });
        }

        // When so many bytes have arrived on all of them together: no later than on any one of them.
        let all_by = |at, most| lanes.iter().map(|lane| lane.bytes_by(at, most, packet)).sum::<u64>();
        let arrived = |of: u64| {
            let mut above = lanes.iter().filter_map(|lane| lane.arrived(of, packet)).min()?;
            let mut below = begin;
            // To a microsecond.
            while above.saturating_sub(below) > Duration::from_micros(1) {
                let middle = below + (above - below) / 2;
                if all_by(middle, of) >= of { above = middle } else { below = middle }
            }
            Some(above)
        };
        let end = arrived(on_the_wire)?;
        let mut shares = [Duration::ZERO; Floor::SHARES + 1];
        for (share, at) in (0u128..).zip(&mut shares) {
            let of = (u128::from(on_the_wire) * share / Floor::SHARES as u128).max(1);
            *at = arrived(of as u64)?.saturating_sub(start + handshake);
        }
        let mut mean = 0u128;
        for slice in 0..SLICES {
            let middle = u128::from(on_the_wire) * u128::from(2 * slice + 1) / u128::from(2 * SLICES);
            mean += arrived(middle as u64)?.saturating_sub(start + handshake).as_nanos();
        }
        let total = end.saturating_sub(start + handshake);
        let propagation = (lanes[0].arrived(1, 1)?).saturating_sub(begin);
        Some(Floor {
            total,
            request,
            serialisation: total.saturating_sub(request + propagation),
            propagation,
            mean_byte: Duration::from_nanos((mean / u128::from(SLICES)) as u64),
            shares,
            packets,
            payload_per_packet,
            packet_size: framing.packet,
            round_trip,
            handshake,
            cold: end.saturating_sub(start),
        })
    }
}

#[cfg(test)]
mod tests {
    use thalweg_link::RateModel;

    use super::*;
    use crate::{plan::PathPlan, quic::Thalweg, stack::StackFactory, traffic::Traffic};

    fn path(name: &str, mbps: u64, delay_ms: u64) -> PathPlan {
        let link = DirectionConfig {
            rate: RateModel::Constant(format!("{mbps} Mbps").parse().unwrap()),
            delay: Duration::from_millis(delay_ms).into(),
            ..DirectionConfig::default()
        };
        PathPlan::new(name, link.clone(), link)
    }

    /// The floor in milliseconds, from the first datagram of the handshake on.
    fn cold(first: (u64, u64), second: (u64, u64), bytes: u64) -> f64 {
        let paths = vec![path("a", first.0, first.1), path("b", second.0, second.1)];
        let plan = Plan { paths, ..Plan::default() };
        let mut flow = FlowPlan::new("f", Traffic::download(Some(bytes)));
        flow.beside = vec![vec![1]];
        let framing = Thalweg.framing(&flow, flow.traffic.sends_up());
        let floor = plan.floor(&flow, Duration::ZERO, &framing).unwrap();
        assert!(floor.shares.is_sorted());
        assert_eq!(floor.shares[Floor::SHARES], floor.total);
        floor.cold.as_secs_f64() * 1000.0
    }

    #[test]
    fn two_equal_paths_by_hand() {
        // 2,000,000 bytes in 1,411 packets of 62 bytes of headers are 16.70 Mbit. The first path carries 10 Mbps from
        // 20 ms of handshake, 1 ms of request and 10 ms on, the second from 2 × 20 ms + 30 ms on; 10 ms on the way.
        let floor = cold((10, 10), (10, 10), 2_000_000);
        assert!((894.0..896.5).contains(&floor), "{floor}");
    }

    #[test]
    fn outages_are_left_out() {
        let of = |outage: Option<(u64, u64)>| {
            let (slow, mut fast) = (path("a", 1, 10), path("b", 10, 10));
            let windows = |(from, length)| Windows::once(Duration::from_millis(from), Duration::from_millis(length));
            fast.down.outages = outage.map(windows).into_iter().collect();
            let plan = Plan { paths: vec![slow, fast], ..Plan::default() };
            let mut flow = FlowPlan::new("f", Traffic::download(Some(2_000_000)));
            flow.beside = vec![vec![1]];
            let framing = Thalweg.framing(&flow, flow.traffic.sends_up());
            let floor = plan.floor(&flow, Duration::ZERO, &framing).unwrap();
            assert!(floor.shares.is_sorted());
            floor.cold.as_secs_f64()
        };
        // 16.70 Mbit. The fast path carries 6.3 of them from 70 ms to 700 ms, the slow one 1 Mbps from 40 ms on.
        let cut = of(Some((700, 60_000)));
        assert!((10.40..10.50).contains(&cut), "{cut}");
        // An outage of a second costs what both links carry less in it.
        let (whole, paused) = (of(None), of(Some((500, 1_000))));
        let lost = paused - whole;
        assert!((lost - 10.0 / 11.0).abs() < 0.01, "{lost}");
        assert_eq!(of(Some((5_000, 1_000))), whole, "one that comes later changes nothing");
    }

    #[test]
    fn the_order_of_unequal_paths_matters_by_their_round_trips() {
        let (slow_first, fast_first) = (cold((1, 10), (10, 300), 10_000_000), cold((10, 300), (1, 10), 10_000_000));
        assert!((8_700.0..8_740.0).contains(&slow_first), "{slow_first}");
        assert!((8_770.0..8_810.0).contains(&fast_first), "{fast_first}");
        let unlike = cold((50, 15), (40, 30), 10_000_000);
        assert!((1_038.0..1_045.0).contains(&unlike), "{unlike}");
    }
}
