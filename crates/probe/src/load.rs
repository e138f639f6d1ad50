//! The path under load: how fast it is, how long its queue gets, and how responsive it stays.

use thalweg_link::Quantiles;
use thalweg_units::Rate;

use crate::loaded::{LoadFindings, Loaded, settled, span};
use crate::summary::Summary;
use crate::trace::Way;

/// The time over which the rate is taken, in nanoseconds: long enough that packets in flight do not matter.
const WINDOW: i64 = 500_000_000;
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
    /// Round trips of small requests on the connection of the load.
    pub own_trips: Vec<i64>,
    /// The largest datagram that was found to pass, bytes of UDP payload; 0 if it is not known.
    pub largest: u16,
}

impl LoadFindings {
    /// What a load of this way showed; none if next to nothing came through, or no round trip ended meanwhile.
    pub fn of(way: Way, load: &Load, loaded: &Loaded, idle: &Summary) -> Option<LoadFindings> {
        // What the path loses by chance has crossed the bottleneck.
        let own = PROBE[way as usize] * 8e9 / idle.interval.max(1) as f64;
        let through = (1.0 - idle.way(way).fate.loss()).max(0.1);
        let rate = Rate::from_bps(((rate(load)?.bps() as f64 + own) / through) as u64);
        let rpm = responsiveness(&loaded.round_trips, &load.own_trips)?;
        let before = idle.way(way).delays.quantile(50, 100);
        Some(LoadFindings {
            way,
            rate,
            queue: loaded.delays.quantile(98, 100).saturating_sub(before),
            idle: idle.round_trips.quantile(50, 100),
            loaded: loaded.round_trips.quantile(50, 100),
            loaded_p95: loaded.round_trips.quantile(95, 100),
            loss: loaded.lost as f64 / loaded.sent.max(1) as f64,
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
    let mut bytes = vec![0u64; windows];
    for (at, count) in &load.delivered {
        let window = usize::try_from((at - start).div_euclid(WINDOW)).ok();
        if let Some(bytes) = window.and_then(|window| bytes.get_mut(window)) {
            *bytes += count;
        }
    }
    bytes.sort_unstable();
    let high = bytes[(windows - 1) * 9 / 10];
    let datagram = f64::from(if load.largest > 0 { load.largest } else { USUAL });
    let on_wire = (datagram + AROUND) / (datagram - WITHIN).max(1.0);
    let bits = high as f64 * 8.0 * on_wire * 1e9 / WINDOW as f64;
    (high > 0).then(|| Rate::from_bps(bits as u64))
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
