//! Packetization-layer path MTU discovery (RFC 8899, RFC 9000 section 14.3).
//!
//! Sizes are UDP payloads in bytes. Two independent parts, as they are by default ([`MtuRules`] has others):
//! - the **search** raises the size by probes: packets of PING and PADDING that nobody misses when they are lost, one
//!   in flight at a time, the hoped-for maximum first, then a bisection of sizes that real paths have;
//! - the **black-hole detector** lowers it when the path has shrunk: only if again and again large packets are lost
//!   while smaller ones sent after them arrive. Loss that hits all sizes, and outages, do not trigger it.

mod bursts;
mod rounds;

use std::time::Duration;

use thalweg_units::Instant;

use bursts::Bursts;
use rounds::Rounds;

/// What every path that carries QUIC carries (RFC 9000 section 14).
pub const MIN_SIZE: u16 = 1200;

/// Sizes worth trying, because links and tunnels of that size exist: IPv6's minimum (1280) under IPv6 and IPv4, an odd
/// tunnel, 1400 under IPv6, WireGuard (1420) and mobile networks (1440) under IPv4, GRE (1480), Ethernet under IPv6 and
/// IPv4, jumbo frames under both, a loopback of 16 KiB.
const COMMON_SIZES: [u16; 12] = [1232, 1252, 1300, 1352, 1392, 1412, 1432, 1452, 1472, 8952, 8972, 16336];

/// A search ends when what is left to gain is less than this part of the size: 4 % more payload per packet does not pay
/// for three lost probes.
const WORTHWHILE: u16 = 24;

/// After a black hole, look again for larger sizes sooner than after an ordinary search: routes heal, and a detector
/// can err.
const RAISE_AFTER_BLACK_HOLE: Duration = Duration::from_secs(60);

/// How much of a larger size a search by halves is worth, bytes.
const WORTH_HALVING: u16 = 20;

/// From this consecutive probe timeout on, probes are sent small (see [`MtuDiscovery::pto_size`]). The first one is
/// mostly a lost tail.
const SMALL_FROM_PTO: u32 = 2;

/// By which rules a path's largest datagram is searched for, and by which a path is known to have shrunk.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MtuRules {
    /// The largest size first, then those that links have. A path has shrunk if again and again large packets are lost
    /// while smaller ones sent after them arrive.
    #[default]
    CommonSizes,
    /// As quinn and noq do, for experiments with their rules. Half of what is left between the sizes that arrived and
    /// those that did not is tried next, as soon as nothing else may leave, whatever the window. A path has shrunk once
    /// four bursts of large packets were lost of which none as large has arrived since; then no larger size is tried
    /// for a minute. All probes after a timeout are small.
    Halving,
}

/// What to search for, and how eagerly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MtuConfig {
    /// The size every path is trusted with, in bytes; at least 1200.
    pub min: u16,
    /// The size to start with, in bytes. More than `min` bets that the path carries it.
    pub initial: u16,
    /// The size not to exceed, in bytes. 1452 is what Ethernet carries under IPv6.
    pub max: u16,
    /// How many probes of a size must be lost before the size counts as too large (MAX_PROBES, RFC 8899 section 5.1.2).
    pub probes: u8,
    /// How long after a search the next one starts (PMTU_RAISE_TIMER, RFC 8899 section 5.1.1).
    pub raise_interval: Duration,
    /// How to search, and to fall back.
    pub rules: MtuRules,
    /// Whether to search at all.
    pub discovery: bool,
    /// Whether to fall back when the path shrinks.
    pub black_hole_detection: bool,
}

impl Default for MtuConfig {
    fn default() -> Self {
        Self {
            min: MIN_SIZE,
            initial: MIN_SIZE,
            max: 1452,
            probes: 3,
            raise_interval: Duration::from_secs(600),
            rules: MtuRules::CommonSizes,
            discovery: true,
            black_hole_detection: true,
        }
    }
}

/// The datagram size of one path, and the search for a larger one.
#[derive(Clone, Debug)]
pub struct MtuDiscovery {
    config: MtuConfig,
    /// The smaller of what is configured and what the peer accepts.
    max: u16,
    current: u16,
    search: Search,
    /// The last probe that was counted lost: its acknowledgement may only be late.
    late_probe: Option<(u64, u16)>,
    /// Whether the size has fallen since the raise timer last ran.
    fell: bool,
    detector: Detector,
}

/// What tells a shrunken path from loss and outages.
#[derive(Clone, Debug)]
enum Detector {
    Rounds(Rounds),
    Bursts(Bursts),
}

impl Detector {
    fn new(config: &MtuConfig) -> Detector {
        match config.rules {
            MtuRules::CommonSizes => Detector::Rounds(Rounds::default()),
            MtuRules::Halving => Detector::Bursts(Bursts::new(config.min)),
        }
    }
}

#[derive(Clone, Debug)]
enum Search {
    /// Looking for a size above the current one and below `ceiling`; `lost` probes of `size` have been lost.
    Active { ceiling: u16, size: u16, lost: u8, in_flight: Option<u64> },
    /// Nothing worth trying until then.
    Done { raise_at: Instant },
}

impl MtuDiscovery {
    /// Starts at the configured size and searches from there. `peer_max_udp_payload` is the peer's transport parameter
    /// `max_udp_payload_size`.
    ///
    /// Ask for probes only when the handshake is confirmed: until then a peer has no obligation to answer (RFC 9000
    /// section 14.2).
    pub fn new(now: Instant, config: MtuConfig, peer_max_udp_payload: u16) -> Self {
        let min = config.min.max(MIN_SIZE);
        let config = MtuConfig { min, max: config.max.max(min), probes: config.probes.max(1), ..config };
        let mut this = Self {
            max: config.max,
            current: config.initial.clamp(config.min, config.max),
            detector: Detector::new(&config),
            config,
            search: Search::Done { raise_at: now },
            late_probe: None,
            fell: false,
        };
        this.limit(now, peer_max_udp_payload);
        this
    }

    /// The size of full datagrams, in bytes.
    #[cfg(test)]
    #[inline]
    pub fn current(&self) -> u16 {
        self.current
    }

    /// The size for datagrams of the `pto_count`-th consecutive probe timeout (1 for the first).
    ///
    /// From the second on it is the minimum, and by [`MtuRules::Halving`] from the first: if the path has shrunk,
    /// nothing else arrives, and without arrivals nothing can be learnt.
    pub fn pto_size(&self, pto_count: u32) -> u16 {
        let small_from = match self.config.rules {
            MtuRules::CommonSizes => SMALL_FROM_PTO,
            MtuRules::Halving => 1,
        };
        if pto_count >= small_from { self.config.min } else { self.current }
    }

    /// Whether a probe leaves once nothing else may, rather than before data and as the window allows.
    #[inline]
    pub fn probes_last(&self) -> bool {
        self.config.rules == MtuRules::Halving
    }

    /// Never exceeds `max` from now on, because the peer's transport parameter or the local interface says so. Starts
    /// the search anew.
    pub fn limit(&mut self, now: Instant, max: u16) {
        self.max = self.max.min(max).max(self.config.min);
        self.set_current(self.current.min(self.max));
        self.search_below(now, u16::MAX);
    }

    /// The size of a probe to send now, if one is due. Report it with [`on_probe_sent`](Self::on_probe_sent).
    pub fn poll_probe(&mut self, now: Instant) -> Option<u16> {
        if let Search::Done { raise_at } = self.search
            && now >= raise_at
        {
            self.fell = false;
            self.search_below(now, u16::MAX);
        }
        match self.search {
            Search::Active { size, in_flight: None, .. } => Some(size),
            _ => None,
        }
    }

    /// A probe of `size` bytes has left as packet `number`.
    pub fn on_probe_sent(&mut self, number: u64, size: u16) {
        if let Search::Active { size: wanted, in_flight, .. } = &mut self.search
            && *wanted == size
        {
            *in_flight = Some(number);
        }
    }

    /// A packet that was a probe has been acknowledged, perhaps after it had been counted lost. Returns the new size,
    /// if it grew.
    pub fn on_probe_acked(&mut self, now: Instant, number: u64) -> Option<u16> {
        let arrived = match self.search {
            Search::Active { size, in_flight: Some(probe), .. } if probe == number => size,
            _ => self.late_probe.filter(|(probe, _)| *probe == number)?.1,
        };
        if arrived <= self.current || arrived > self.max {
            return None;
        }
        self.late_probe = None;
        self.set_current(arrived);
        if let Detector::Bursts(bursts) = &mut self.detector {
            bursts.on_probe_acked(arrived, number);
        }
        let ceiling = match self.search {
            Search::Active { ceiling, .. } if ceiling > arrived => ceiling,
            _ => u16::MAX,
        };
        self.search_below(now, ceiling);
        Some(arrived)
    }

    /// A packet that was a probe has been lost. That is no sign of congestion (RFC 9000 section 14.4).
    pub fn on_probe_lost(&mut self, now: Instant, number: u64) {
        let Search::Active { size, lost, in_flight, .. } = &mut self.search else {
            return;
        };
        if *in_flight != Some(number) {
            return;
        }
        *in_flight = None;
        *lost += 1;
        let (size, too_large) = (*size, *lost >= self.config.probes);
        // quinn and noq ignore it.
        self.late_probe = Some((number, size)).filter(|_| self.config.rules == MtuRules::CommonSizes);
        if too_large {
            self.search_below(now, size);
        }
    }

    /// When [`poll_probe`](Self::poll_probe) will next have something because of time alone. `None` while a search
    /// runs: it is driven by acknowledgements and losses.
    pub fn next_probe_time(&self) -> Option<Instant> {
        match self.search {
            Search::Done { raise_at } if self.config.discovery && self.current < self.max => Some(raise_at),
            _ => None,
        }
    }

    /// A packet that was not a probe has been acknowledged: its datagram of `size` bytes has arrived. Returns the size
    /// to fall back to, if that completes the evidence for a black hole.
    #[inline]
    pub fn on_acked(&mut self, now: Instant, size: u16, number: u64) -> Option<u16> {
        let suspicious = match &mut self.detector {
            Detector::Rounds(rounds) => rounds.on_acked(self.current, size, number),
            Detector::Bursts(bursts) => {
                bursts.on_acked(size, number);
                false
            }
        };
        if suspicious { self.fall_back(now) } else { None }
    }

    /// A packet that was not a probe has been lost, in a datagram of `size` bytes. Returns the size to fall back to, if
    /// that completes the evidence for a black hole: what was sent larger must be sent again, smaller.
    pub fn on_lost(&mut self, now: Instant, size: u16, number: u64) -> Option<u16> {
        let suspicious = match &mut self.detector {
            // What is larger than the current size was sent before it fell.
            Detector::Rounds(rounds) => size > self.config.min && size <= self.current && rounds.on_lost(size, number),
            Detector::Bursts(bursts) => {
                bursts.on_lost(size, number);
                false
            }
        };
        if suspicious { self.fall_back(now) } else { None }
    }

    /// All packets that were declared lost at once have been reported. Returns the size to fall back to, if they
    /// complete the evidence for a black hole.
    pub fn on_losses_end(&mut self, now: Instant) -> Option<u16> {
        let is_black_hole = match &mut self.detector {
            Detector::Rounds(_) => false,
            Detector::Bursts(bursts) => bursts.ends(),
        };
        if is_black_hole { self.fall_back(now) } else { None }
    }

    fn fall_back(&mut self, now: Instant) -> Option<u16> {
        let too_large = match &mut self.detector {
            Detector::Rounds(rounds) => Some(rounds.take_smallest()?),
            Detector::Bursts(_) => None,
        };
        if !self.config.black_hole_detection {
            return None;
        }
        self.late_probe = None;
        self.set_current(self.config.min);
        match too_large {
            Some(too_large) => {
                self.fell = true;
                self.search_below(now, too_large);
            }
            None => self.search = Search::Done { raise_at: now + RAISE_AFTER_BLACK_HOLE },
        }
        Some(self.current)
    }

    fn set_current(&mut self, size: u16) {
        if size != self.current {
            self.current = size;
            self.detector = Detector::new(&self.config);
        }
    }

    /// Searches between the current size and `ceiling`, which is known or believed to be too large; `u16::MAX` if
    /// nothing is.
    fn search_below(&mut self, now: Instant, ceiling: u16) {
        let raise_interval = match self.fell {
            true => RAISE_AFTER_BLACK_HOLE.min(self.config.raise_interval),
            false => self.config.raise_interval,
        };
        self.search = match self.next_size(ceiling) {
            Some(size) => Search::Active { ceiling, size, lost: 0, in_flight: None },
            None => Search::Done { raise_at: now + raise_interval },
        };
    }

    fn next_size(&self, ceiling: u16) -> Option<u16> {
        if !self.config.discovery || self.current >= self.max {
            return None;
        }
        if self.config.rules == MtuRules::Halving {
            return self.next_half(ceiling);
        }
        // Nothing has failed yet: most paths carry what was hoped for, and one probe is all it takes.
        if ceiling > self.max {
            return Some(self.max);
        }
        let within = |size: &u16| (self.current + 1..ceiling).contains(size);
        let start = COMMON_SIZES.iter().take_while(|size| **size <= self.current).count();
        let count = COMMON_SIZES[start..].iter().take_while(|size| within(size)).count();
        if count > 0 {
            return COMMON_SIZES.get(start + count / 2).copied();
        }
        let gap = ceiling.saturating_sub(self.current);
        (gap > self.current / WORTHWHILE).then(|| self.current + gap / 2)
    }

    /// The middle of what is left; at last the end of it, if that is worth it and has not failed.
    fn next_half(&self, ceiling: u16) -> Option<u16> {
        let high = self.max.min(ceiling.saturating_sub(1));
        let middle = self.current.midpoint(high);
        let is_worth = |size: u16, beside: u16| size.abs_diff(beside) >= WORTH_HALVING;
        // A size that has just failed is above all that is left.
        let has_failed = matches!(self.search, Search::Active { size, .. } if size == ceiling);
        let last = if has_failed { ceiling } else { self.current };
        if is_worth(middle, last) {
            return Some(middle);
        }
        (!has_failed && is_worth(high, last)).then_some(high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand_core::Rng;

    const NOW: Instant = Instant::ZERO;

    fn discovery(config: MtuConfig) -> MtuDiscovery {
        MtuDiscovery::new(NOW, config, u16::MAX)
    }

    /// Runs a search over a path that carries `carries` bytes; returns the sizes tried and the number of probes.
    fn search(mtu: &mut MtuDiscovery, now: Instant, carries: u16) -> (Vec<u16>, usize) {
        let (mut sizes, mut probes) = (Vec::new(), 0);
        while let Some(size) = mtu.poll_probe(now) {
            let number = probes as u64;
            mtu.on_probe_sent(number, size);
            assert_eq!(mtu.poll_probe(now), None, "one probe in flight at a time");
            if size <= carries {
                assert_eq!(mtu.on_probe_acked(now, number), Some(size));
            } else {
                mtu.on_probe_lost(now, number);
            }
            if sizes.last() != Some(&size) {
                sizes.push(size);
            }
            probes += 1;
            assert!(probes < 100, "the search must end");
        }
        (sizes, probes)
    }

    #[test]
    fn a_path_that_carries_the_maximum_takes_one_probe() {
        let mut mtu = discovery(MtuConfig::default());
        assert_eq!(mtu.current(), 1200);
        assert_eq!(search(&mut mtu, NOW, 1500), (vec![1452], 1));
        assert_eq!(mtu.current(), 1452);
        assert_eq!(mtu.next_probe_time(), None, "nothing more to gain");
    }

    #[test]
    fn every_smaller_path_takes_few_sizes_and_wastes_little() {
        for carries in 1200..1452 {
            let mut mtu = discovery(MtuConfig::default());
            let (sizes, _) = search(&mut mtu, NOW, carries);
            assert!(sizes.len() <= 5, "{carries}: {sizes:?}");
            assert!(mtu.current() <= carries, "{carries}: {}", mtu.current());
            assert!(carries - mtu.current() <= carries / WORTHWHILE, "{carries}: {}", mtu.current());
        }
        for carries in [1252, 1352, 1392, 1432] {
            let mut mtu = discovery(MtuConfig::default());
            search(&mut mtu, NOW, carries);
            assert_eq!(mtu.current(), carries, "a common size is found exactly");
        }
    }

    #[test]
    fn large_frames_are_found_when_asked_for() {
        for (carries, found) in [(65_000, 65_000), (16_336, 16_336), (8972, 8972), (8952, 8952), (1472, 1472)] {
            let mut mtu = discovery(MtuConfig { max: 65_000, ..MtuConfig::default() });
            let (sizes, _) = search(&mut mtu, NOW, carries);
            assert!(mtu.current() >= found && mtu.current() <= carries, "{carries}: {sizes:?}");
            assert!(sizes.len() <= 13, "{carries}: {sizes:?}");
        }
    }

    #[test]
    fn a_size_counts_as_too_large_only_after_max_probes_losses() {
        let mut mtu = discovery(MtuConfig::default());
        for number in 0..2 {
            assert_eq!(mtu.poll_probe(NOW), Some(1452));
            mtu.on_probe_sent(number, 1452);
            mtu.on_probe_lost(NOW, number);
        }
        mtu.on_probe_sent(2, 1452);
        assert_eq!(mtu.on_probe_acked(NOW, 2), Some(1452));
    }

    #[test]
    fn a_late_acknowledgement_of_a_probe_counts() {
        let mut mtu = discovery(MtuConfig { probes: 1, ..MtuConfig::default() });
        mtu.on_probe_sent(0, 1452);
        mtu.on_probe_lost(NOW, 0);
        assert!(mtu.poll_probe(NOW).is_some_and(|size| size < 1452));
        assert_eq!(mtu.on_probe_acked(NOW, 0), Some(1452));
        assert_eq!((mtu.current(), mtu.poll_probe(NOW)), (1452, None));
        assert_eq!(mtu.on_probe_acked(NOW, 0), None);
    }

    #[test]
    fn acknowledgements_and_losses_of_other_packets_do_not_move_the_search() {
        let mut mtu = discovery(MtuConfig::default());
        mtu.on_probe_sent(5, 1452);
        assert_eq!(mtu.on_probe_acked(NOW, 4), None);
        mtu.on_probe_lost(NOW, 6);
        assert_eq!(mtu.poll_probe(NOW), None);
        assert_eq!(mtu.on_probe_acked(NOW, 5), Some(1452));
    }

    #[test]
    fn the_peers_max_udp_payload_size_is_never_exceeded() {
        let mut mtu = MtuDiscovery::new(NOW, MtuConfig { initial: 1400, ..MtuConfig::default() }, 1300);
        assert_eq!(mtu.current(), 1300);
        assert_eq!(mtu.poll_probe(NOW), None);
        let mut mtu = MtuDiscovery::new(NOW, MtuConfig::default(), 1400);
        assert_eq!(search(&mut mtu, NOW, 1500).0, [1400]);
        mtu.limit(NOW, 1250);
        assert_eq!((mtu.current(), mtu.poll_probe(NOW)), (1250, None));
        // Less than 1200 is nothing a peer may ask for; it is not obeyed.
        assert_eq!(MtuDiscovery::new(NOW, MtuConfig::default(), 100).current(), 1200);
    }

    #[test]
    fn odd_configurations_are_brought_into_order() {
        let config = MtuConfig { min: 0, initial: 9000, max: 10, probes: 0, ..MtuConfig::default() };
        let mut mtu = discovery(config);
        assert_eq!((mtu.current(), mtu.poll_probe(NOW)), (1200, None));
    }

    #[test]
    fn the_raise_timer_starts_another_search() {
        let mut mtu = discovery(MtuConfig::default());
        search(&mut mtu, NOW, 1300);
        let raise = NOW + Duration::from_secs(600);
        assert_eq!(mtu.next_probe_time(), Some(raise));
        assert_eq!(mtu.poll_probe(raise - Duration::from_nanos(1)), None);
        assert_eq!(search(&mut mtu, raise, 1500), (vec![1452], 1));
    }

    #[test]
    fn without_discovery_nothing_is_probed() {
        let mut mtu = discovery(MtuConfig { discovery: false, initial: 1350, ..MtuConfig::default() });
        assert_eq!((mtu.current(), mtu.poll_probe(NOW), mtu.next_probe_time()), (1350, None, None));
        assert_eq!(mtu.poll_probe(NOW + Duration::from_secs(10_000)), None);
    }

    /// A discovery that has found 1452 and sends.
    fn at_1452() -> MtuDiscovery {
        let mut mtu = discovery(MtuConfig::default());
        search(&mut mtu, NOW, 1452);
        mtu
    }

    #[test]
    fn a_window_lost_twice_while_small_probes_arrive_is_a_black_hole() {
        for acked_first in [false, true] {
            let mut mtu = at_1452();
            for number in 0..10 {
                assert_eq!(mtu.on_acked(NOW, 1452, number), None);
            }
            let mut fallen = None;
            for (window, small) in [(10..20, 20), (21..26, 26)] {
                assert_eq!(fallen, None);
                if acked_first {
                    fallen = fallen.or(mtu.on_acked(NOW, 1200, small));
                }
                for number in window {
                    fallen = fallen.or(mtu.on_lost(NOW, 1452, number));
                }
                if !acked_first {
                    fallen = fallen.or(mtu.on_acked(NOW, 1200, small));
                }
            }
            assert_eq!(fallen, Some(1200));
            assert_eq!(mtu.current(), 1200);
            // What is still in flight from before changes nothing.
            assert_eq!(mtu.on_lost(NOW, 1452, 27), None);
            // The search goes on at once, below what failed, and tries the old size again after a minute.
            search(&mut mtu, NOW, 1394);
            assert_eq!(mtu.current(), 1392);
            let raise = NOW + RAISE_AFTER_BLACK_HOLE;
            assert_eq!(mtu.next_probe_time(), Some(raise));
            assert_eq!(mtu.poll_probe(raise), Some(1452));
            // Searches after that are an ordinary interval apart.
            search(&mut mtu, raise, 1394);
            assert_eq!(mtu.next_probe_time(), Some(raise + Duration::from_secs(600)));
        }
    }

    #[test]
    fn single_large_packets_lost_five_times_among_small_ones_are_a_black_hole() {
        let mut mtu = at_1452();
        for round in 0..4 {
            assert_eq!(mtu.on_lost(NOW, 1452, 2 * round), None);
            assert_eq!(mtu.on_acked(NOW, 90, 2 * round + 1), None);
        }
        assert_eq!(mtu.on_lost(NOW, 1452, 8), None);
        assert_eq!(mtu.on_acked(NOW, 90, 9), Some(1200));
    }

    #[test]
    fn an_outage_is_not_a_black_hole() {
        let mut mtu = at_1452();
        for number in 0..100 {
            assert_eq!(mtu.on_lost(NOW, 1452, number), None);
        }
        // The small probe that finds the path alive again, and then the large packets that arrive.
        assert_eq!(mtu.on_acked(NOW, 1200, 100), None);
        for number in 101..120 {
            assert_eq!(mtu.on_acked(NOW, 1452, number), None);
        }
        assert_eq!(mtu.on_lost(NOW, 1452, 99), None);
        assert_eq!(mtu.current(), 1452);
    }

    #[test]
    fn losses_before_a_large_arrival_are_not_suspicious_whatever_order_they_are_told_in() {
        let mut mtu = at_1452();
        mtu.on_acked(NOW, 1452, 50);
        mtu.on_acked(NOW, 90, 51);
        for number in 0..50 {
            assert_eq!(mtu.on_lost(NOW, 1452, number), None);
            assert_eq!(mtu.on_acked(NOW, 90, 51), None);
        }
    }

    #[test]
    fn with_the_detector_off_the_size_stays() {
        let mut mtu = discovery(MtuConfig { black_hole_detection: false, ..MtuConfig::default() });
        search(&mut mtu, NOW, 1452);
        for number in 0..20 {
            assert_eq!(mtu.on_lost(NOW, 1452, 2 * number), None);
            assert_eq!(mtu.on_acked(NOW, 90, 2 * number + 1), None);
        }
        assert_eq!(mtu.current(), 1452);
    }

    #[test]
    fn from_the_second_probe_timeout_on_datagrams_are_small() {
        let mtu = at_1452();
        assert_eq!([1, 2, 3].map(|count| mtu.pto_size(count)), [1452, 1200, 1200]);
    }

    fn halving() -> MtuDiscovery {
        discovery(MtuConfig { rules: MtuRules::Halving, ..MtuConfig::default() })
    }

    #[test]
    fn a_search_by_halves_ends_at_the_largest_size_or_just_below_what_failed() {
        assert_eq!(search(&mut halving(), NOW, 1500), (vec![1326, 1389, 1420, 1452], 4));
        // Each size that fails takes three probes.
        assert_eq!(search(&mut halving(), NOW, 1400), (vec![1326, 1389, 1420], 2 + 3));
        assert_eq!(search(&mut halving(), NOW, 1200), (vec![1326, 1262, 1230], 9));
    }

    #[test]
    fn after_four_bursts_no_larger_size_is_tried_for_a_minute() {
        let mut mtu = halving();
        search(&mut mtu, NOW, 1452);
        assert_eq!([1, 2].map(|count| mtu.pto_size(count)), [1200, 1200]);
        for number in [20, 30, 40, 50] {
            assert_eq!((mtu.on_lost(NOW, 1452, number), mtu.current()), (None, 1452));
            let fallen = mtu.on_losses_end(NOW);
            assert_eq!(fallen.is_some(), number == 50);
        }
        assert_eq!((mtu.current(), mtu.poll_probe(NOW)), (1200, None));
        let raise = NOW + RAISE_AFTER_BLACK_HOLE;
        assert_eq!(mtu.next_probe_time(), Some(raise));
        assert_eq!(search(&mut mtu, raise, 1326).0, [1326, 1389, 1357]);
    }

    /// A flow of mostly full packets, each small with probability 1/8, over a path that loses `loss`/256 of all and,
    /// from packet `shrinks_at` on, all above `carries`. Returns the packet at which the size fell.
    fn flow(seed: u64, loss: u32, shrinks_at: u64, carries: u16, packets: u64) -> Option<u64> {
        let mut rng = crate::crypto::deterministic::named_generator(&[0; 32], "mtu", seed);
        let mut mtu = at_1452();
        for number in 0..packets {
            let size = if rng.next_u32().is_multiple_of(8) { 100 } else { mtu.current() };
            let lost = rng.next_u32() % 256 < loss || (number >= shrinks_at && size > carries);
            let fallen = if lost { mtu.on_lost(NOW, size, number) } else { mtu.on_acked(NOW, size, number) };
            if fallen.is_some() {
                return Some(number);
            }
        }
        None
    }

    proptest! {
        #[test]
        fn random_loss_of_all_sizes_does_not_lower_the_size(seed: u64, loss in 0u32..39) {
            prop_assert_eq!(flow(seed, loss, u64::MAX, 0, 2000), None);
        }

        #[test]
        fn a_path_that_shrinks_under_random_loss_is_noticed(seed: u64, loss in 0u32..39) {
            let fell = flow(seed, loss, 1000, 1400, 1300);
            prop_assert!(fell.is_some_and(|at| at >= 1000), "{:?}", fell);
        }

        #[test]
        fn any_sequence_of_reports_keeps_the_size_within_bounds(
            reports in prop::collection::vec((0u8..8, 0u64..40, 0u16..1600), 0..300)
        ) {
            let mut mtu = discovery(MtuConfig::default());
            let mut now = NOW;
            for (kind, number, size) in reports {
                match kind {
                    0 | 1 => if let Some(size) = mtu.poll_probe(now) {
                        prop_assert!(size > mtu.current() && size <= 1452);
                        mtu.on_probe_sent(number, size);
                    },
                    2 => drop(mtu.on_probe_acked(now, number)),
                    3 => mtu.on_probe_lost(now, number),
                    4 => drop(mtu.on_acked(now, size, number)),
                    5 => drop(mtu.on_lost(now, size, number)),
                    6 => now += Duration::from_secs(u64::from(size)),
                    _ => mtu.on_probe_sent(number, size),
                }
                prop_assert!((1200..=1452).contains(&mtu.current()));
            }
        }
    }
}
