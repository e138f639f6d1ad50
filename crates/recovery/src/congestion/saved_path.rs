//! Saved parameters of a path, for a later connection.

use thalweg_units::{Duration, Rate};

/// What a connection saves of its path for a later one: the saved parameters of Careful Resume (RFC 9959 section 3),
/// and a rate.
///
/// Plain data: where it is kept, for how long and under which name is decided by whoever keeps it. The window is a
/// statement about the path at one time, so the one that uses it has to tread carefully.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct SavedPath {
    /// The largest number of bytes that were acknowledged within a round trip (saved_cwnd).
    pub window: u64,
    /// The minimum round-trip time (saved_rtt).
    pub min_rtt: Duration,
    /// How fast the path delivered last; `None` if that was never measured.
    pub rate: Option<Rate>,
    /// How long ago this was learned.
    pub age: Duration,
}
