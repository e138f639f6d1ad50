//! Chance delay between a host that sends a datagram and the network that gets it.
//!
//! Two senders whose packets are spaced by the same bottleneck fall into step with its drop-tail queue, and then one of
//! them meets a full queue every time: a phase effect, an artifact of a world without noise (S. Floyd, V. Jacobson, "On
//! Traffic Phase Effects in Packet-Switched Gateways", 1992, which removes it by a random processing time in the hosts;
//! ns-2's TCP has the same as `overhead_`). The delay also makes runs of different seeds different where nothing else
//! is left to chance.
//!
//! Each datagram draws its delay uniformly from zero to two packet times of the bottleneck, one millisecond at most, or
//! as the host's model was measured ([`Handover`]). It never overtakes the one before: it leaves at the later of the
//! time drawn and the departure before it.

use std::collections::VecDeque;

use thalweg_link::{Dice, Packet, RateModel};
use thalweg_units::{Duration, DurationExt, Instant, Rate};

use crate::datagram::Datagram;
use crate::plan::Handover;

/// The longest delay, however slow the bottleneck, if the plan says nothing else.
pub(crate) const MOST: Duration = Duration::from_millis(1);
/// Bytes of the full packet whose time on the bottleneck is the measure.
const FULL_PACKET: u64 = 1500;
/// The longest delay in packet times.
const PACKET_TIMES: u32 = 2;

/// The longest delay of a host whose packets take links of these rates: two packet times of the slowest. The rate of a
/// schedule is that at its start, the rate of a trace its mean; a link that starts at rate zero and one without limit
/// do not count, and if no link counts there is no delay. Never more than `most`.
pub(crate) fn longest<'a>(rates: impl Iterator<Item = &'a RateModel>, most: Duration) -> Duration {
    let limits = |rate: &Rate| *rate > Rate::ZERO && *rate < Rate::MAX;
    let slowest = rates.map(RateModel::nominal).filter(limits).min();
    slowest.map_or(Duration::ZERO, |rate| rate.time_for(FULL_PACKET).saturating_mul(PACKET_TIMES).min(most))
}

/// How long a datagram takes to leave.
#[derive(Copy, Clone, Debug)]
pub(crate) enum Delay {
    /// Uniformly from zero to this.
    Chance(Duration),
    /// As measured.
    Measured(Handover),
}

impl Delay {
    /// One of them, so long after anything was sent in this direction.
    fn draw(self, dice: &mut Dice, idle: Duration) -> Duration {
        let mut even = |most: Duration| Duration::from_nanos(dice.below(most.nanos() + 1));
        match self {
            Delay::Chance(most) => even(most),
            Delay::Measured(Handover { rest, asleep: [least, most], .. }) if idle >= rest => {
                least + even(most.saturating_sub(least))
            }
            Delay::Measured(Handover { awake: [least, most], .. }) => {
                let width = most.saturating_sub(least).nanos();
                let even = u128::from(even(Duration::from_nanos(width)).nanos());
                let width = u128::from(width.max(1));
                least + Duration::from_nanos((even * even / width * even / width) as u64)
            }
        }
    }
}

/// The datagrams of one host that have been sent and have not left.
#[derive(Debug)]
pub(crate) struct Departures {
    delay: Delay,
    dice: Dice,
    last: Instant,
    /// In the order of their departures, which are when they count as sent.
    waiting: VecDeque<Packet<Box<Datagram>>>,
}

impl Departures {
    /// Nothing waits. `dice` is the host's own stream.
    pub(crate) fn new(delay: Delay, dice: Dice) -> Self {
        Departures { delay, dice, last: Instant::ZERO, waiting: VecDeque::new() }
    }

    /// The host sends a datagram, `idle` after anything was sent in this direction.
    pub(crate) fn push(&mut self, now: Instant, idle: Duration, mut packet: Packet<Box<Datagram>>) {
        let delay = self.delay.draw(&mut self.dice, idle);
        self.last = self.last.max(now + delay);
        packet.sent = self.last;
        self.waiting.push_back(packet);
    }

    /// When the next datagram leaves.
    pub(crate) fn next(&self) -> Instant {
        self.waiting.front().map_or(Instant::FAR_FUTURE, |packet| packet.sent)
    }

    /// The next datagram that leaves by `now`.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<Packet<Box<Datagram>>> {
        if self.next() > now {
            return None;
        }
        self.waiting.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use thalweg_link::{Schedule, Streams};
    use thalweg_units::Ecn;

    use super::*;

    fn packet(number: u8) -> Packet<Box<Datagram>> {
        Packet {
            payload: Box::new(vec![number].into()),
            size: 1500,
            flow: 0,
            connection: 0,
            ecn: Ecn::NotEct,
            sent: Instant::ZERO,
            tail: false,
        }
    }

    #[test]
    fn the_longest_delay_is_two_packet_times_of_the_slowest_link() {
        let constant = |bps| RateModel::Constant(Rate::from_bps(bps));
        let us = Duration::from_micros;
        let of = |rates: &[RateModel]| longest(rates.iter(), MOST);
        assert_eq!(of(&[constant(100_000_000)]), us(240));
        assert_eq!(of(&[constant(1_000_000_000), constant(50_000_000)]), us(480));
        assert_eq!(of(&[constant(1_000_000)]), MOST);
        assert_eq!(of(&[RateModel::Constant(Rate::MAX)]), Duration::ZERO);
        assert_eq!(of(&[RateModel::Constant(Rate::MAX), constant(100_000_000)]), us(240));
        let steps = |rates: [u64; 2]| {
            let at = |n: u64| Duration::from_secs(n);
            let steps = (0..).zip(rates).map(|(n, bps)| (at(n), Rate::from_bps(bps))).collect();
            RateModel::Schedule(Schedule::new(steps, None).unwrap_or_else(|error| panic!("{error}")))
        };
        assert_eq!(of(&[steps([100_000_000, 1_000_000])]), us(240));
        assert_eq!(of(&[steps([0, 1_000_000])]), Duration::ZERO);
    }

    #[test]
    fn every_datagram_leaves_within_its_bounds_and_none_overtakes() {
        let longest = Duration::from_micros(240);
        let mut departures = Departures::new(Delay::Chance(longest), Streams::new(1).dice("host"));
        let mut sent = Vec::new();
        for n in 0..200u64 {
            // Bursts of three, 100 µs apart: closer together than the longest delay.
            let now = Instant::from_nanos(1_000_000_000 + n / 3 * 100_000);
            departures.push(now, Duration::ZERO, packet(n as u8));
            sent.push(now);
        }
        let mut before = Instant::ZERO;
        for (number, now) in (0..=u8::MAX).zip(sent) {
            let at = departures.next();
            assert!(at >= now && at >= before && at <= now + longest, "{number}: sent at {now:?}, left at {at:?}");
            assert!(departures.pop(at - Duration::from_nanos(1)).is_none());
            let left = departures.pop(at).unwrap_or_else(|| panic!("{number} is due"));
            assert_eq!((left.payload.bytes, left.sent), (vec![number], at));
            before = at;
        }
        assert_eq!(departures.next(), Instant::FAR_FUTURE);
    }

    #[test]
    fn measured_delays_are_mostly_short_and_longer_after_a_rest() {
        let us = Duration::from_micros;
        let handover = Handover { awake: [us(35), us(105)], rest: us(5_000), asleep: [us(70), us(180)] };
        let mut dice = Streams::new(1).dice("host");
        let mut sorted = |idle| {
            let mut all: Vec<_> = (0..1_001).map(|_| Delay::Measured(handover).draw(&mut dice, us(idle))).collect();
            all.sort_unstable();
            [all[0], all[500], all[1_000]]
        };
        let close = |found: [Duration; 3], expected: [u64; 3]| {
            found.into_iter().zip(expected).all(|(found, expected)| found.abs_diff(us(expected)) < us(5))
        };
        assert!(close(sorted(4_999), [35, 44, 105]), "the median is an eighth of the way");
        assert!(close(sorted(5_000), [70, 125, 180]));
    }

    #[test]
    fn delays_are_spread_evenly() {
        let longest = Duration::from_micros(240);
        let mut departures = Departures::new(Delay::Chance(longest), Streams::new(1).dice("host"));
        let mut quarters = [0u32; 4];
        for n in 1..=10_000u64 {
            let now = Instant::from_nanos(n * 1_000_000);
            departures.push(now, Duration::ZERO, packet(0));
            let delay = departures.next().saturating_since(now);
            quarters[(delay.as_nanos() * 4 / (longest.as_nanos() + 1)) as usize] += 1;
            departures.pop(now + longest);
        }
        assert!(quarters.iter().all(|count| (2_350..2_650).contains(count)), "{quarters:?}");
    }
}
