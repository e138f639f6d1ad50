//! The interface of a scheduler: what it is told of paths, and what it answers.

use std::fmt;

use smallvec::SmallVec;
use thalweg_recovery::DataSpace;
use thalweg_units::{Duration, Instant, Rate};

/// What is known of a path that may carry data: its addresses are validated, nobody has given it up, and it is not
/// silent while others answer.
#[derive(Copy, Clone, Debug)]
#[non_exhaustive]
pub struct Candidate {
    /// Its path identifier.
    pub id: DataSpace,
    /// The smoothed round-trip time.
    pub rtt: Duration,
    /// The mean deviation of the round-trip time.
    pub rtt_variation: Duration,
    /// The congestion window in bytes.
    pub window: u64,
    /// Bytes in flight.
    pub bytes_in_flight: u64,
    /// UDP payload of a full datagram, bytes.
    pub datagram_size: u16,
    /// How fast it has lately delivered; `None` before the first sample.
    pub delivery_rate: Option<Rate>,
    /// Whether window and pacer let something out now.
    pub can_send: bool,
}

/// What waits to be sent.
#[derive(Copy, Clone, Debug)]
#[non_exhaustive]
pub struct Waiting {
    /// Bytes of streams.
    pub bytes: u64,
    /// Whether that is all there is for now: there are such streams, the application has written the end of each of
    /// them, and no datagram waits. New streams may follow.
    pub is_all: bool,
}

/// Paths that may carry data now, the first one first. Those left out carry acknowledgments and probes only.
pub type Order = SmallVec<[DataSpace; 8]>;

/// Decides which path the next datagrams with data go by.
///
/// Time comes in as an argument, and what is decided must follow from arguments alone.
pub trait PathScheduler: fmt::Debug + Send {
    /// Appends to `order` the paths of `candidates` (by ascending identifier, at least two) that may carry data, the
    /// preferred one first. The first path in order whose window and pacer permit it sends one batch; then this is
    /// asked again.
    fn order(&mut self, now: Instant, waiting: Waiting, candidates: &[Candidate], order: &mut Order);

    /// A batch of `bytes` with data has left on a path.
    fn on_sent(&mut self, path: DataSpace, bytes: u64) {
        let _ = (path, bytes);
    }

    /// Whether what leaves on one path leaves on every other one in the order too. Default no.
    fn is_redundant(&self) -> bool {
        false
    }
}

/// Makes the scheduler of a connection.
pub trait SchedulerFactory: fmt::Debug + Send + Sync {
    /// A new one.
    fn build(&self) -> Box<dyn PathScheduler>;
}
