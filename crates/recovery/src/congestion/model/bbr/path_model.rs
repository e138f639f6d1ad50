//! The model of the path: bandwidth, round-trip time, and the bytes that it holds.

use thalweg_units::{Instant, Rate};

use super::UNBOUNDED;
use super::aggregation::Aggregation;
use super::bounds::{LatestSignals, ShortTerm};
use super::filter::MaxBandwidth;
use super::min_rtt::MinRtt;

/// What the model knows of the path.
#[derive(Debug)]
pub(super) struct PathModel {
    pub(super) max_bandwidth: MaxBandwidth,
    /// The bandwidth to go by: the maximum, within the short-term bound.
    pub(super) bandwidth: Rate,
    pub(super) min_rtt: MinRtt,
    pub(super) aggregation: Aggregation,
    pub(super) signals: LatestSignals,
    pub(super) short_term: ShortTerm,
    /// The largest flight that is known, or hoped, to be carried without too much loss.
    pub(super) inflight_long_term: u64,
}

impl PathModel {
    pub(super) fn new(now: Instant) -> PathModel {
        PathModel {
            max_bandwidth: MaxBandwidth::new(),
            bandwidth: Rate::ZERO,
            min_rtt: MinRtt::new(now),
            aggregation: Aggregation::new(now),
            signals: LatestSignals::default(),
            short_term: ShortTerm::UNBOUNDED,
            inflight_long_term: UNBOUNDED,
        }
    }
}
