//! The path under load: how fast it is, how long its queue gets, and how responsive it stays.

use std::collections::VecDeque;

use thalweg_link::Quantiles;
use thalweg_units::Rate;

use crate::loaded::{LoadFindings, Loaded, settled, span};
use crate::summary::Summary;
use crate::trace::Way;

/// The time over which the rate is taken, in nanoseconds: long enough that packets in flight do not matter.
const WINDOW: i64 = 500_000_000;
/// How long a burst may be, in nanoseconds.
const BURST: i64 = 2_000_000_000;
/// Bytes of the headers of IPv4 and UDP around a datagram, and of what QUIC adds to the stream's bytes in it: header,
/// tag, head of a frame.
const AROUND: f64 = 28.0;
const WITHIN: f64 = 32.0;
/// Bytes of a datagram of the measurement on the wire, up and down.
pub(crate) const PROBE: [f64; 2] = [204.0, 172.0];
/// The largest datagram that a load sends where nothing is known of it.
const USUAL: u16 = 1452;
/// Round trips beyond this share of them do not count (draft-ietf-ippm-responsiveness, section 4.3.1).
const TRIMMED: u64 = 95;

/// A bulk transfer beside the measurement. Times are nanoseconds of the client's clock since the measurement began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// When it began.
    pub from: i64,
    /// When it ended.
    pub until: i64,
    /// Bytes that had come to their end since the entry before, and when that was known.
    pub delivered: Vec<(i64, u64)>,
    /// Whether these are bytes of UDP datagrams, and not of what a stream hands over.
    pub is_datagrams: bool,
    /// Round trips of small requests on the connection of the load.
    pub own_trips: Vec<i64>,
    /// The largest datagram that was found to pass, bytes of UDP payload; 0 if it is not known.
    pub largest: u16,
    /// Packets that its sender sent; 0 if it is not known.
    pub packets: u64,
    /// Of these, how many it declared lost.
    pub packets_lost: u64,
}

impl LoadFindings {
    /// What a load of this way showed; none if next to nothing came through, or no round trip ended meanwhile.
    pub fn of(way: Way, load: &Load, loaded: &Loaded, idle: &Summary) -> Option<LoadFindings> {
        let lost = loaded.lost as f64 / loaded.sent.max(1) as f64;
        let own = PROBE[way as usize] * 8e9 / idle.interval.max(1) as f64 * (1.0 - lost);
        // What the path loses by chance has crossed the bottleneck.
        let through = (1.0 - idle.way(way).fate.loss()).max(0.1);
        let rate = Rate::from_bps(((rate(load)?.bps() as f64 + own) / through) as u64);
        let rpm = responsiveness(&loaded.round_trips, &load.own_trips)?;
        let before = idle.way(way).delays.quantile(50, 100);
        Some(LoadFindings {
            way,
            from: load.from,
            rate,
            queue: loaded.delays.quantile(98, 100).saturating_sub(before),
            idle: idle.round_trips.quantile(50, 100),
            loaded: loaded.round_trips.quantile(50, 100),
            loaded_p95: loaded.round_trips.quantile(95, 100),
            loss: lost,
            packet_loss: (load.packets > 0).then(|| load.packets_lost as f64 / load.packets as f64),
            burst: burst(load),
            peak: peak(load),
            rpm,
            largest: load.largest,
        })
    }
}

/// The rate of a bulk transfer on the wire: of half seconds after it has settled, the 90th percentile. More is reached
/// by chance, less while the sender held back.
pub fn rate(load: &Load) -> Option<Rate> {
    let start = settled(load.from, load.until);
    let windows = usize::try_from((load.until - start) / WINDOW).ok().filter(|windows| *windows > 0)?;
    let mut bytes = in_windows(load, start, windows, WINDOW);
    bytes.sort_unstable();
    let high = bytes[(windows - 1) * 9 / 10];
    let bits = high as f64 * 8.0 * on_wire(load) * 1e9 / WINDOW as f64;
    (high > 0).then(|| Rate::from_bps(bits as u64))
}

/// What came in each of so many windows of this length.
fn in_windows(load: &Load, start: i64, windows: usize, length: i64) -> Vec<u64> {
    let mut bytes = vec![0u64; windows];
    for (at, count) in &load.delivered {
        let window = usize::try_from((at - start).div_euclid(length)).ok();
        if let Some(bytes) = window.and_then(|window| bytes.get_mut(window)) {
            *bytes += count;
        }
    }
    bytes
}

/// The most that came through in a quarter of a second, on the wire, after the load had settled.
fn peak(load: &Load) -> Rate {
    let (start, length) = (settled(load.from, load.until), WINDOW / 2);
    let windows = usize::try_from((load.until - start) / length).unwrap_or(0);
    let most = in_windows(load, start, windows, length).into_iter().max().unwrap_or(0);
    Rate::from_bps((most as f64 * 8.0 * on_wire(load) * 1e9 / length as f64) as u64)
}

/// Bytes on the wire for each byte that was delivered.
fn on_wire(load: &Load) -> f64 {
    let datagram = f64::from(if load.largest > 0 { load.largest } else { USUAL });
    let within = if load.is_datagrams { 0.0 } else { WITHIN };
    (datagram + AROUND) / (datagram - within).max(1.0)
}

/// The most bytes on the wire that came within [`BURST`] beyond what the [`rate`] lets come, and beyond a packet: a
/// token bucket lets pass what it has saved up. Zero if the rate is not known.
pub fn burst(load: &Load) -> u64 {
    let Some(rate) = rate(load) else { return 0 };
    // The rate is known to a packet in its window.
    let packet = f64::from(USUAL) + AROUND;
    let per_nano = rate.bps() as f64 / 8e9 + packet / WINDOW as f64;
    let came: Vec<(i64, f64)> = load.delivered.iter().map(|(at, count)| (*at, *count as f64 * on_wire(load))).collect();
    // Of the time before each: how far what had come was behind the rate.
    let (mut sum, mut most) = (0.0, 0.0f64);
    let mut lows: VecDeque<(i64, f64)> = VecDeque::new();
    for (at, bytes) in came {
        let before = sum - at as f64 * per_nano;
        while lows.back().is_some_and(|(_, low)| *low >= before) {
            lows.pop_back();
        }
        lows.push_back((at, before));
        while lows.front().is_some_and(|(from, _)| at - from > BURST) {
            lows.pop_front();
        }
        sum += bytes;
        let low = lows.front().map_or(before, |(_, low)| *low);
        most = most.max(sum - at as f64 * per_nano - low);
    }
    (most - packet).max(0.0) as u64
}

/// Round trips in a minute under load, as draft-ietf-ippm-responsiveness counts them in its section 4.3.1: sixty
/// seconds over the mean of two trimmed means, of round trips beside the load and of those on its connection. Each
/// leaves out what is beyond the 95th percentile. The draft has three kinds of round trips beside the load, the
/// handshakes of TCP and TLS and a request; here they are the datagrams of the measurement, which take one round trip
/// as each of them does. Where nothing was asked on the connection of the load, those beside it are all.
pub fn responsiveness(beside: &Quantiles, own: &[i64]) -> Option<u64> {
    if beside.count() == 0 {
        return None;
    }
    let shares = 1..=TRIMMED;
    let beside: f64 = beside.quantiles(shares.map(|share| (share, 100))).map(|trip| trip.as_secs_f64()).sum();
    let beside = beside / TRIMMED as f64;
    let mut own: Vec<f64> = own.iter().map(|trip| span(*trip).as_secs_f64()).collect();
    own.sort_by(f64::total_cmp);
    let kept = own.len() * TRIMMED as usize / 100;
    let trip = match own.get(..kept).filter(|kept| !kept.is_empty()) {
        Some(kept) => (beside + kept.iter().sum::<f64>() / kept.len() as f64) / 2.0,
        None => beside,
    };
    Some((60.0 / trip.max(1e-6)).round() as u64)
}

#[cfg(test)]
mod tests {
    use thalweg_units::Duration;

    use super::*;

    const MS: i64 = 1_000_000;

    #[test]
    fn the_rate_is_that_of_the_settled_part_on_the_wire() {
        // 10 Mbps of content after a start of two seconds, with half a second of nothing.
        let delivered = (0..100).map(|tenth| {
            let bytes = if tenth < 20 || (50..55).contains(&tenth) { 1_000 } else { 125_000 };
            ((tenth * 100 + 50) * MS, bytes)
        });
        let load = Load { from: 0, until: 10_000 * MS, delivered: delivered.collect(), ..Load::default() };
        let rate = rate(&load).unwrap().bps() as f64;
        assert!((rate / 10e6 * 1420.0 / 1480.0 - 1.0).abs() < 0.001, "{rate}");
        assert_eq!(super::rate(&Load { delivered: Vec::new(), ..load }), None);
        assert_eq!(super::rate(&Load::default()), None);
    }

    #[test]
    fn what_a_bucket_has_saved_up_is_told_from_a_queue() {
        // 10 Mbps of content, one packet after the other; 200 kB of them at once in the middle.
        let even = |n: i64| (n * 1_136_000, 1_420);
        let steady: Vec<(i64, u64)> = (0..8_803).map(even).collect();
        let load = Load { from: 0, until: 10_000 * MS, delivered: steady.clone(), ..Load::default() };
        assert!(burst(&load) < 3_000, "{}", burst(&load));
        let mut bursty = steady;
        bursty.push((5_000 * MS, 200_000));
        bursty.sort_unstable();
        let found = burst(&Load { delivered: bursty, ..load.clone() });
        assert!((200_000..215_000).contains(&found), "{found}");
        assert_eq!(burst(&Load::default()), 0);
    }

    #[test]
    fn responsiveness_is_trimmed_and_of_both_kinds() {
        let mut beside = Quantiles::default();
        (0..100).for_each(|n| beside.record(Duration::from_millis(if n < 96 { 100 } else { 5_000 })));
        assert_eq!(responsiveness(&beside, &[]), Some(600));
        // 100 ms beside it and 300 ms on it: 200 ms.
        let own: Vec<i64> = (0..100).map(|n| if n < 95 { 300 * MS } else { 9_000 * MS }).collect();
        assert_eq!(responsiveness(&beside, &own), Some(300));
        assert_eq!(responsiveness(&Quantiles::default(), &own), None);
    }
}
