//! Errors of a link's description.

use crate::trace::TraceError;

/// Why a link cannot be built as described. Messages name the accepted values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Nothing would ever leave.
    #[error(
        "the rate is zero for ever: give one above zero, such as \"10 Mbps\"; for a pause, use an outage or a suspension"
    )]
    ZeroRate,
    /// Steps are missing or out of order.
    #[error("a schedule needs a step at time zero, later steps in increasing order, and a period beyond the last")]
    Schedule,
    /// Not a share.
    #[error(
        "\"{0}\" is not a probability: write a share between 0 and 1 such as \"0.001\", or per cent such as \"0.1 %\""
    )]
    Probability(String),
    /// Not a limit.
    #[error(
        "\"{0}\" is not a queue limit: write \"1 BDP\" (up to three decimals), \"600 ms\", \"100 packets\", \"64 KiB\" or \
         \"unlimited\", above zero"
    )]
    QueueLimit(String),
    /// A BDP of nothing.
    #[error(
        "a queue limit in BDP needs a delay in one of the two directions; give the limit in bytes or packets instead"
    )]
    BdpWithoutDelay,
    /// Windows would never end, or follow each other without end.
    #[error("windows must have a length above zero and shorter than the time from one to the next")]
    Windows,
    /// More windows than are kept.
    #[error("`{stream}`: more than {most} interruptions; make `every` longer")]
    TooManyWindows {
        /// Name of the interruption's stream.
        stream: String,
        /// How many are kept.
        most: u64,
    },
    /// Zero in a place where it means never.
    #[error("periodic loss needs \"every\" above zero")]
    PeriodicLoss,
    /// Sojourn times too short to be drawn one by one, or longer than any run.
    #[error("loss in bursts needs mean times of good and bad from 1 ms to 1 day")]
    Bursts,
    /// Lets nothing pass.
    #[error("a policer needs a rate and a burst above zero")]
    Policer,
    /// A synthetic trace came out empty.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// Something is still to be drawn by seed.
    #[error("the description has a trace or interruptions that are yet to be drawn: resolve it first")]
    Unresolved,
}
