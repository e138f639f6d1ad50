//! Rates of links, and when the last bit of a packet has left one: serialization, exact to the nanosecond.

use serde::Serialize;
use thalweg_units::{Duration, DurationExt, Instant, Rate, math};

use crate::schedule::{Cursor, serialize_rate, serialize_rates};
use crate::trace::{Mahimahi, Opportunities};
use crate::{ConfigError, Schedule};

/// How fast a link serves its queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum RateModel {
    /// Always the same.
    Constant(#[serde(serialize_with = "serialize_rate")] Rate),
    /// Changes at given times, also while a packet is being sent. Zero holds everything until the next change.
    Schedule(#[serde(serialize_with = "serialize_rates")] Schedule<Rate>),
    /// Delivery opportunities as recorded by mahimahi.
    Mahimahi(Mahimahi),
}

impl RateModel {
    /// The rate that stands for the model where one number is wanted (limits in BDP and time, floors): the constant,
    /// the first of a schedule, the mean of a trace.
    pub fn nominal(&self) -> Rate {
        match self {
            RateModel::Constant(rate) => *rate,
            RateModel::Schedule(schedule) => schedule.at(Duration::ZERO).0,
            RateModel::Mahimahi(trace) => trace.mean_rate(),
        }
    }

    /// All its rates: the constant, the steps of a schedule, the mean of a trace.
    pub fn values(&self) -> Vec<Rate> {
        match self {
            RateModel::Schedule(schedule) => schedule.values().collect(),
            RateModel::Constant(_) | RateModel::Mahimahi(_) => vec![self.nominal()],
        }
    }

    /// Bytes that leave a link with enough to send in the first `span` after its start, rounded down.
    pub fn capacity(&self, span: Duration) -> u64 {
        let bits = |rate: Rate, nanos: u64| u128::from(rate.bps()) * u128::from(nanos);
        let total = match self {
            RateModel::Constant(rate) => bits(*rate, span.nanos()),
            RateModel::Schedule(schedule) => {
                let (mut total, mut at) = (0u128, Duration::ZERO);
                while at < span {
                    let (rate, next) = schedule.at(at);
                    let until = next.map_or(span, |next| next.min(span));
                    total = total.saturating_add(bits(rate, (until - at).nanos()));
                    at = until;
                }
                total
            }
            RateModel::Mahimahi(trace) => u128::from(trace.until(span)) * u128::from(Mahimahi::OPPORTUNITY) * BIT_NANOS,
        };
        u64::try_from(total / BIT_NANOS).unwrap_or(u64::MAX)
    }

    /// Says what is wrong with the model, if anything.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let moves = match self {
            RateModel::Constant(rate) => *rate > Rate::ZERO,
            // The last value of a schedule that does not repeat may be zero: that is a link that dies.
            RateModel::Schedule(schedule) => schedule.values().any(|rate| rate > Rate::ZERO),
            RateModel::Mahimahi(_) => true,
        };
        if moves { Ok(()) } else { Err(ConfigError::ZeroRate) }
    }

    /// When `bytes` that find the link idle at `offset` after its start have left it; `None` if never. For floors; the
    /// limits of queues and everything else that may happen on the way is left out.
    pub fn finish(&self, offset: Duration, bytes: u64) -> Option<Duration> {
        let start = Instant::ZERO;
        match self {
            RateModel::Constant(rate) if *rate == Rate::ZERO => None,
            RateModel::Constant(rate) => Some(offset + rate.time_for(bytes)),
            RateModel::Schedule(schedule) => {
                let mut cursor = Cursor::new(schedule.clone(), start);
                let (end, _) = serve(&mut cursor, start + offset, u128::from(bytes) * BIT_NANOS);
                (end != Instant::FAR_FUTURE).then(|| end.saturating_since(start))
            }
            RateModel::Mahimahi(trace) => {
                let needed = bytes.div_ceil(u64::from(Mahimahi::OPPORTUNITY));
                Some(trace.nth_after(offset, needed.max(1) - 1))
            }
        }
    }
}

/// A byte, in bits per second times nanoseconds.
const BIT_NANOS: u128 = 8_000_000_000;

/// Up to this rate and packet size, the arithmetic of a constant rate fits in 64 bits: 2^30 × 8·10^9 < 2^63.
const FAST_RATE: u64 = 1_000_000_000_000_000;
const FAST_SIZE: u32 = 1 << 30;

/// The server of a queue: works out when a packet's last bit leaves.
///
/// That is the first nanosecond by which all its bits have passed; what the link could have sent in the rest of that
/// nanosecond is credited to a packet that follows without a gap, so that rounding never adds up.
#[derive(Debug)]
pub(crate) enum Server {
    Constant { rate: u64, end: Instant, credit: u64 },
    Schedule { cursor: Cursor<Rate>, end: Instant, credit: u128 },
    Mahimahi(Opportunities),
}

impl Server {
    pub(crate) fn new(model: &RateModel, start: Instant) -> Self {
        match model {
            RateModel::Constant(rate) => Server::Constant { rate: rate.bps(), end: Instant::ZERO, credit: 0 },
            RateModel::Schedule(schedule) => {
                Server::Schedule { cursor: Cursor::new(schedule.clone(), start), end: Instant::ZERO, credit: 0 }
            }
            RateModel::Mahimahi(trace) => Server::Mahimahi(Opportunities::new(trace.clone(), start)),
        }
    }

    /// Starts to send `size` bytes at `start`; returns when the last bit leaves. Not for traces.
    pub(crate) fn serve(&mut self, start: Instant, size: u32) -> Instant {
        match self {
            Server::Constant { rate, end, credit } => {
                let carried = if *end == start { *credit } else { 0 };
                if *rate <= FAST_RATE && size <= FAST_SIZE && *rate > 0 {
                    let work = u64::from(size) * 8_000_000_000;
                    // At high rates the credit may be more than a small packet needs: then it leaves at once.
                    let nanos = work.saturating_sub(carried).div_ceil(*rate);
                    *credit = nanos * *rate + carried - work;
                    *end = start + Duration::from_nanos(nanos);
                } else {
                    *credit = 0;
                    let is_instant = size <= FAST_SIZE && u64::from(size) * 8_000_000_000 <= *rate;
                    let nanos = match is_instant {
                        // What a link without a limit takes for every packet, and no division is needed to tell.
                        true => u64::from(size > 0),
                        false => math::mul_div_ceil(u64::from(size), 8_000_000_000, *rate),
                    };
                    *end = start + Duration::from_nanos(nanos);
                }
                *end
            }
            Server::Schedule { cursor, end, credit } => {
                let carried = if *end == start { *credit } else { 0 };
                let work = u128::from(size) * BIT_NANOS;
                (*end, *credit) = match work.checked_sub(carried) {
                    Some(left) => serve(cursor, start, left),
                    None => (start, carried - work),
                };
                *end
            }
            // Opportunities decide; see `Direction`.
            Server::Mahimahi(_) => Instant::FAR_FUTURE,
        }
    }
}

/// Does `work` (bits per second × nanoseconds) at the rates of a schedule; returns the end and the unused rest of its
/// last nanosecond.
fn serve(cursor: &mut Cursor<Rate>, start: Instant, mut work: u128) -> (Instant, u128) {
    let mut at = start;
    loop {
        let (rate, until) = cursor.at(at);
        let rate = u128::from(rate.bps());
        let span = u128::from(until.saturating_since(at).nanos());
        if until != Instant::FAR_FUTURE && rate * span < work {
            work -= rate * span;
            at = until;
            continue;
        }
        if rate == 0 {
            return (Instant::FAR_FUTURE, 0);
        }
        let nanos = work.div_ceil(rate);
        let end = at + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        return (end, nanos * rate - work);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn back_to_back(server: &mut Server, sizes: impl IntoIterator<Item = u32>) -> Instant {
        sizes.into_iter().fold(Instant::ZERO, |at, size| server.serve(at, size))
    }

    proptest! {
        #[test]
        fn rounding_never_adds_up(bps in 1u64..20_000_000_000, sizes in proptest::collection::vec(1u32..9000, 1..300)) {
            let total: u64 = sizes.iter().map(|size| u64::from(*size)).sum();
            let exact = Rate::from_bps(bps).time_for(total);
            let constant = RateModel::Constant(Rate::from_bps(bps));
            let schedule = RateModel::Schedule(Schedule::constant(Rate::from_bps(bps)));
            for model in [constant, schedule] {
                let mut server = Server::new(&model, Instant::ZERO);
                prop_assert_eq!(back_to_back(&mut server, sizes.iter().copied()), Instant::ZERO + exact);
            }
        }
    }

    #[test]
    fn capacity_counts_every_step_and_every_opportunity() {
        let (s, mbps) = (Duration::from_secs, |mbps: u64| Rate::from_bps(mbps * 1_000_000));
        assert_eq!(RateModel::Constant(mbps(8)).capacity(s(3)), 3_000_000);
        let steps = vec![(s(0), mbps(8)), (s(2), mbps(80)), (s(3), Rate::ZERO)];
        let once = RateModel::Schedule(Schedule::new(steps.clone(), None).unwrap());
        assert_eq!(once.capacity(s(1)), 1_000_000);
        assert_eq!(once.capacity(s(1_000)), 12_000_000);
        let again = RateModel::Schedule(Schedule::new(steps, Some(s(4))).unwrap());
        assert_eq!(again.capacity(s(10)), 26_000_000);
        let trace = Mahimahi::from_millis(vec![1, 1, 10]).unwrap();
        let opportunity = u64::from(Mahimahi::OPPORTUNITY);
        let trace = RateModel::Mahimahi(trace);
        assert_eq!(trace.capacity(Duration::from_micros(999)), 0);
        assert_eq!(trace.capacity(Duration::from_millis(10)), 3 * opportunity);
        assert_eq!(trace.capacity(Duration::from_millis(25)), 8 * opportunity);
    }

    #[test]
    fn a_gap_forfeits_the_credit() {
        // 3 bit/s: 8 bits take 2.67 s, rounded up to a nanosecond; two thirds of a nanosecond are left over.
        let mut server = Server::new(&RateModel::Constant(Rate::from_bps(3)), Instant::ZERO);
        let end = server.serve(Instant::ZERO, 1);
        assert_eq!(end.as_nanos(), 2_666_666_667);
        let later = end + Duration::from_nanos(5);
        assert_eq!(server.serve(later, 1) - later, Duration::from_nanos(2_666_666_667));
    }

    #[test]
    fn a_rate_change_takes_effect_in_the_middle_of_a_packet() {
        let ms = Duration::from_millis;
        let steps = vec![(ms(0), Rate::from_bps(8_000)), (ms(500), Rate::ZERO), (ms(700), Rate::from_bps(16_000))];
        let model = RateModel::Schedule(Schedule::new(steps, None).unwrap());
        let mut server = Server::new(&model, Instant::ZERO);
        // 1000 bytes: 500 in the first half second, nothing for 200 ms, 500 at 2000 bytes per second.
        assert_eq!(server.serve(Instant::ZERO, 1000), Instant::ZERO + ms(950));
        assert_eq!(model.finish(Duration::ZERO, 1000), Some(ms(950)));
        assert_eq!(model.finish(ms(600), 500), Some(ms(950)));
    }

    #[test]
    fn a_link_that_died_never_finishes() {
        let steps = vec![(Duration::ZERO, Rate::from_bps(8_000)), (Duration::from_secs(1), Rate::ZERO)];
        let model = RateModel::Schedule(Schedule::new(steps, None).unwrap());
        let mut server = Server::new(&model, Instant::ZERO);
        assert_eq!(server.serve(Instant::ZERO, 1000), Instant::ZERO + Duration::from_secs(1));
        assert_eq!(server.serve(Instant::ZERO + Duration::from_secs(1), 1), Instant::FAR_FUTURE);
        assert_eq!(model.finish(Duration::ZERO, 1001), None);
        assert!(model.check().is_ok());
        assert!(RateModel::Constant(Rate::ZERO).check().is_err());
    }

    #[test]
    fn extreme_rates_do_not_overflow() {
        let mut server = Server::new(&RateModel::Constant(Rate::MAX), Instant::ZERO);
        assert_eq!(server.serve(Instant::ZERO, u32::MAX), Instant::from_nanos(2));
        let mut server = Server::new(&RateModel::Constant(Rate::from_bps(1)), Instant::ZERO);
        assert_eq!(server.serve(Instant::ZERO, 65_535).as_nanos(), 65_535 * 8_000_000_000);
    }
}
